//! Compares element-wise arithmetic with independent implementations, for all values of small types, and for random and special
//! values of larger types. Floats are compared with `rustc_apfloat`, integers with 128-bit arithmetic.

use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Fma, Overflow, Predicate, Rounding, Signedness, Unary};
use numerics::float::nan;
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

const ROUNDINGS: [(Rounding, Round); 4] = [
    (Rounding::NearestEven, Round::NearestTiesToEven),
    (Rounding::Zero, Round::TowardZero),
    (Rounding::NegativeInf, Round::TowardNegative),
    (Rounding::PositiveInf, Round::TowardPositive),
];

/// A pseudo-random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
    /// Returns the bits of a random float of type `ty`. Half of the values have a special exponent: of zero and subnormals, of
    /// infinity and NaN, or near the exponent of 1.
    fn value(&mut self, ty: Scalar) -> u64 {
        let format = ty.float_format().unwrap();
        let bits = self.next() & ty.mask();
        let field = ((1u64 << format.exponent_bits) - 1) << format.mantissa_bits;
        let exponent = match self.next() % 8 {
            0 => 0,
            1 => field,
            2 => (format.bias as u64) << format.mantissa_bits,
            3 => (format.bias as u64 + self.next() % 5) << format.mantissa_bits,
            _ => return bits,
        };
        let mantissa = if self.next().is_multiple_of(4) { 0 } else { !0 };
        bits & !field & (mantissa | !((1 << format.mantissa_bits) - 1)) | exponent
    }
}

/// Returns the bits of an `apfloat` value, with the canonical NaN of `numerics`.
fn apfloat_bits<F: Float>(ty: Scalar, value: F) -> u64 {
    if value.is_nan() { nan(ty) } else { value.to_bits() as u64 }
}

/// Compares all float operations on these operands with `rustc_apfloat`.
fn check_float_operations<F: Float>(ty: Scalar, [a, b, c]: [u64; 3]) {
    let value = |bits: u64| F::from_bits(u128::from(bits));
    let (x, y, z) = (value(a), value(b), value(c));
    let check = |name: &str, result: u64, expected: F| {
        let expected = apfloat_bits(ty, expected);
        assert_eq!(result, expected, "{name} {ty} {a:#x} {b:#x} {c:#x}: {result:#x}, not {expected:#x}");
    };
    let ftz = false;
    for (rounding, round) in ROUNDINGS {
        check("add", Binary::AddF { rounding, ftz }.eval(ty, a, b), x.add_r(y, round).value);
        check("sub", Binary::SubF { rounding, ftz }.eval(ty, a, b), x.sub_r(y, round).value);
        check("mul", Binary::MulF { rounding, ftz }.eval(ty, a, b), x.mul_r(y, round).value);
        check("div", Binary::DivF { rounding, ftz }.eval(ty, a, b), x.div_r(y, round).value);
        check("fma", Fma { rounding, ftz }.eval(ty, a, b, c), x.mul_add_r(y, z, round).value);
    }
    check("rem", Binary::RemF.eval(ty, a, b), x.c_fmod(y).value);
    check("max", Binary::MaxF { propagate_nan: true, ftz }.eval(ty, a, b), x.maximum(y));
    check("min", Binary::MinF { propagate_nan: true, ftz }.eval(ty, a, b), x.minimum(y));
    check("ceil", Unary::Ceil.eval(ty, a), x.round_to_integral(Round::TowardPositive).value);
    check("floor", Unary::Floor.eval(ty, a), x.round_to_integral(Round::TowardNegative).value);
    for (predicate, holds) in [
        (Predicate::Equal, x == y),
        (Predicate::LessThan, x < y),
        (Predicate::GreaterThanOrEqual, x >= y),
        (Predicate::NotEqual, !x.is_nan() && !y.is_nan() && x != y),
    ] {
        assert_eq!(Compare::Float { predicate, ordered: true }.eval(ty, a, b), u64::from(holds));
        let is_unordered = x.is_nan() || y.is_nan();
        assert_eq!(Compare::Float { predicate, ordered: false }.eval(ty, a, b), u64::from(holds || is_unordered));
    }
}

#[test]
fn operations_on_random_floats_match_apfloat() {
    let mut random = Random(1);
    for _ in 0..10_000 {
        let mut triple = |ty| [random.value(ty), random.value(ty), random.value(ty)];
        check_float_operations::<Half>(Scalar::F16, triple(Scalar::F16));
        check_float_operations::<BFloat>(Scalar::BF16, triple(Scalar::BF16));
        check_float_operations::<Single>(Scalar::F32, triple(Scalar::F32));
        check_float_operations::<Double>(Scalar::F64, triple(Scalar::F64));
    }
}

#[test]
fn operations_on_all_sixteen_bit_first_operands_match_apfloat() {
    let mut random = Random(4);
    for a in 0..=0xffff {
        check_float_operations::<Half>(Scalar::F16, [a, random.value(Scalar::F16), random.value(Scalar::F16)]);
        check_float_operations::<BFloat>(Scalar::BF16, [a, random.value(Scalar::BF16), random.value(Scalar::BF16)]);
    }
}

/// Compares the conversions of a float to another float type, in all rounding directions, with `rustc_apfloat`.
fn check_conversion<A: Float + FloatConvert<B>, B: Float>(from: Scalar, to: Scalar, bits: u64) {
    for (rounding, round) in ROUNDINGS {
        let result = Convert::FToF { rounding }.eval(from, to, bits);
        let value = A::from_bits(u128::from(bits));
        let rounded: B = value.convert_r(round, &mut false).value;
        // Types of eight bits saturate.
        let saturates = to.bits() == 8 && !value.is_nan() && !rounded.is_finite();
        let largest = if value.is_negative() { -B::largest() } else { B::largest() };
        let expected = apfloat_bits(to, if saturates { largest } else { rounded });
        assert_eq!(result, expected, "{from} {bits:#x} to {to} {rounding:?}: {result:#x}, not {expected:#x}");
    }
}

#[test]
fn all_values_of_eight_and_sixteen_bits_convert_to_floats() {
    for bits in 0..=0xff {
        check_conversion::<Float8E4M3FN, Half>(Scalar::F8E4M3FN, Scalar::F16, bits);
        check_conversion::<Float8E4M3FN, Float8E5M2>(Scalar::F8E4M3FN, Scalar::F8E5M2, bits);
        check_conversion::<Float8E5M2, Float8E4M3FN>(Scalar::F8E5M2, Scalar::F8E4M3FN, bits);
        check_conversion::<Float8E5M2, Single>(Scalar::F8E5M2, Scalar::F32, bits);
    }
    for bits in 0..=0xffff {
        check_conversion::<Half, Single>(Scalar::F16, Scalar::F32, bits);
        check_conversion::<Half, BFloat>(Scalar::F16, Scalar::BF16, bits);
        check_conversion::<Half, Float8E5M2>(Scalar::F16, Scalar::F8E5M2, bits);
        check_conversion::<Half, Float8E4M3FN>(Scalar::F16, Scalar::F8E4M3FN, bits);
        check_conversion::<BFloat, Half>(Scalar::BF16, Scalar::F16, bits);
        check_conversion::<BFloat, Double>(Scalar::BF16, Scalar::F64, bits);
        check_conversion::<BFloat, Float8E4M3FN>(Scalar::BF16, Scalar::F8E4M3FN, bits);
    }
}

#[test]
fn wide_values_convert_to_floats_as_in_apfloat() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let single = random.value(Scalar::F32);
        check_conversion::<Single, Half>(Scalar::F32, Scalar::F16, single);
        check_conversion::<Single, BFloat>(Scalar::F32, Scalar::BF16, single);
        check_conversion::<Single, Float8E4M3FN>(Scalar::F32, Scalar::F8E4M3FN, single);
        let double = random.value(Scalar::F64);
        check_conversion::<Double, Single>(Scalar::F64, Scalar::F32, double);
        check_conversion::<Double, Half>(Scalar::F64, Scalar::F16, double);
        check_conversion::<Double, BFloat>(Scalar::F64, Scalar::BF16, double);
    }
}

/// Compares the conversions of an integer to a float, in all rounding directions, with `rustc_apfloat`.
fn check_int_to_float<F: Float>(from: Scalar, to: Scalar, bits: u64) {
    for (signedness, value) in [(Signedness::Signed, from.sign_extend(bits).into()), (Signedness::Unsigned, i128::from(bits))] {
        for (rounding, round) in ROUNDINGS {
            let result = Convert::IToF { signedness, rounding }.eval(from, to, bits);
            let expected = apfloat_bits(to, F::from_i128_r(value, round).value);
            assert_eq!(result, expected, "{from} {bits:#x} to {to} {rounding:?}: {result:#x}, not {expected:#x}");
        }
    }
}

/// Compares the conversions of a float to an integer with `rustc_apfloat`. An integer type of at least sixteen bits clamps. A
/// narrower type truncates from sixteen bits, unless the conversion saturates. NaN becomes 0.
fn check_float_to_int<F: Float>(from: Scalar, to: Scalar, bits: u64) {
    let value = F::from_bits(u128::from(bits));
    for signedness in [Signedness::Signed, Signedness::Unsigned] {
        for saturating in [false, true] {
            let width = if saturating { to.bits() } else { to.bits().max(16) } as usize;
            let clamped = match signedness {
                Signedness::Signed => value.to_i128_r(width, Round::TowardZero, &mut false).value as u64,
                Signedness::Unsigned => value.to_u128_r(width, Round::TowardZero, &mut false).value as u64,
            };
            let result = Convert::FToI { signedness, saturating }.eval(from, to, bits);
            assert_eq!(result, clamped & to.mask(), "{from} {bits:#x} to {to} {signedness:?} {saturating}");
        }
    }
}

#[test]
fn floats_and_integers_convert_as_in_apfloat() {
    const INTEGERS: [Scalar; 5] = [Scalar::I4, Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
    for bits in 0..=0xffff {
        check_int_to_float::<Half>(Scalar::I16, Scalar::F16, bits);
        check_int_to_float::<BFloat>(Scalar::I16, Scalar::BF16, bits);
        check_int_to_float::<Single>(Scalar::I16, Scalar::F32, bits);
        for to in INTEGERS {
            check_float_to_int::<Half>(Scalar::F16, to, bits);
            check_float_to_int::<BFloat>(Scalar::BF16, to, bits);
        }
    }
    let mut random = Random(5);
    for _ in 0..20_000 {
        let bits = random.next() >> (random.next() % 64);
        check_int_to_float::<Half>(Scalar::I64, Scalar::F16, bits);
        check_int_to_float::<BFloat>(Scalar::I64, Scalar::BF16, bits);
        check_int_to_float::<Single>(Scalar::I64, Scalar::F32, bits);
        check_int_to_float::<Double>(Scalar::I64, Scalar::F64, bits);
        check_int_to_float::<Single>(Scalar::I32, Scalar::F32, bits & 0xffff_ffff);
        for to in INTEGERS {
            check_float_to_int::<Single>(Scalar::F32, to, random.value(Scalar::F32));
            check_float_to_int::<Double>(Scalar::F64, to, random.value(Scalar::F64));
        }
    }
}

/// A conversion to `i1` is true for every value except zero, also for NaN. NVIDIA's code compares 8-bit floats as integers, so an
/// 8-bit -0 is true (`tests/run/float_to_bool` executes such conversions).
#[test]
fn floats_convert_to_true_unless_they_are_zero() {
    for ty in [Scalar::F16, Scalar::BF16, Scalar::F8E4M3FN, Scalar::F8E5M2] {
        let sign = 1 << (ty.bits() - 1);
        for bits in 0..=ty.mask() {
            for (signedness, saturating) in
                [(Signedness::Signed, false), (Signedness::Unsigned, false), (Signedness::Unsigned, true)]
            {
                let result = Convert::FToI { signedness, saturating }.eval(ty, Scalar::I1, bits);
                let magnitude = if ty.bits() == 8 { bits } else { bits & !sign };
                assert_eq!(result, u64::from(magnitude != 0), "{ty} {bits:#x}");
            }
        }
    }
}

/// Returns the result of an integer operation, computed in 128-bit arithmetic, which cannot overflow.
fn integer_oracle(op: Binary, ty: Scalar, a: u64, b: u64) -> i128 {
    let (ua, ub) = (i128::from(a), i128::from(b));
    let (sa, sb) = (i128::from(ty.sign_extend(a)), i128::from(ty.sign_extend(b)));
    let operands = |signedness| if signedness == Signedness::Signed { (sa, sb) } else { (ua, ub) };
    match op {
        Binary::AddI { .. } => sa + sb,
        Binary::SubI { .. } => sa - sb,
        Binary::MulI { .. } => sa * sb,
        Binary::MulHiU => ((a as u128 * b as u128) >> ty.bits()) as i128,
        Binary::DivI { .. } | Binary::RemI { .. } if b == 0 => -1,
        Binary::DivI { signedness, rounding } => {
            let (a, b) = operands(signedness);
            let floor = a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0);
            let exact = a % b == 0;
            match rounding {
                Rounding::NegativeInf => floor,
                Rounding::PositiveInf => floor + i128::from(!exact),
                _ => floor + i128::from(!exact && floor < 0),
            }
        }
        Binary::RemI { signedness } => operands(signedness).0 % operands(signedness).1,
        Binary::MaxI { signedness } => operands(signedness).0.max(operands(signedness).1),
        Binary::MinI { signedness } => operands(signedness).0.min(operands(signedness).1),
        Binary::And => sa & sb,
        Binary::Or => sa | sb,
        Binary::Xor => sa ^ sb,
        Binary::ShL { .. } => (0..ub.min(64)).fold(sa, |value, _| (value * 2) & ty.mask() as i128),
        Binary::ShR { signedness } => (0..ub.min(64)).fold(operands(signedness).0, |value, _| value.div_euclid(2)),
        other => panic!("{other:?}"),
    }
}

fn integer_operations() -> Vec<Binary> {
    let overflow = Overflow::None;
    let mut operations = vec![
        Binary::AddI { overflow },
        Binary::SubI { overflow },
        Binary::MulI { overflow },
        Binary::MulHiU,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShL { overflow },
    ];
    for signedness in [Signedness::Signed, Signedness::Unsigned] {
        operations.extend([
            Binary::RemI { signedness },
            Binary::MaxI { signedness },
            Binary::MinI { signedness },
            Binary::ShR { signedness },
            Binary::DivI { signedness, rounding: Rounding::Zero },
            Binary::DivI { signedness, rounding: Rounding::NegativeInf },
            Binary::DivI { signedness, rounding: Rounding::PositiveInf },
        ]);
    }
    operations
}

/// Compares integer operations and comparisons on two operands with [`integer_oracle`] and Rust's comparisons.
fn check_integer_operands(operations: &[Binary], ty: Scalar, a: u64, b: u64) {
    for op in operations {
        let (result, expected) = (op.eval(ty, a, b), integer_oracle(*op, ty, a, b) as u64 & ty.mask());
        assert_eq!(result, expected, "{op:?} {ty} {a:#x} {b:#x}");
    }
    let signedness = Signedness::Signed;
    let is_less = Compare::Int { predicate: Predicate::LessThan, signedness }.eval(ty, a, b);
    assert_eq!(is_less, u64::from(ty.sign_extend(a) < ty.sign_extend(b)));
    let is_at_most = Compare::Int { predicate: Predicate::LessThanOrEqual, signedness: Signedness::Unsigned }.eval(ty, a, b);
    assert_eq!(is_at_most, u64::from(a <= b));
}

#[test]
fn operations_on_all_pairs_of_small_integers_match_the_oracle() {
    let operations = integer_operations();
    for ty in [Scalar::I1, Scalar::I4, Scalar::I8] {
        for a in 0..=ty.mask() {
            for b in 0..=ty.mask() {
                check_integer_operands(&operations, ty, a, b);
            }
        }
    }
}

#[test]
fn operations_on_random_integers_match_the_oracle() {
    let operations = integer_operations();
    let mut random = Random(6);
    for _ in 0..20_000 {
        for ty in [Scalar::I16, Scalar::I32, Scalar::I64] {
            let special = [0, 1, ty.mask(), ty.mask() >> 1, (ty.mask() >> 1) + 1, ty.bits().into()];
            let mut value = || match random.next() % 3 {
                0 => special[random.next() as usize % special.len()],
                1 => random.next() >> (random.next() % 64) & ty.mask(),
                _ => random.next() & ty.mask(),
            };
            let (a, b) = (value(), value());
            check_integer_operands(&operations, ty, a, b);
        }
    }
}

#[test]
fn unary_operations_and_conversions_of_all_i16_values() {
    let overflow = Overflow::None;
    for bits in 0..=0xffff_u64 {
        assert_eq!(Unary::AbsI.eval(Scalar::I16, bits), u64::from((bits as i16).unsigned_abs()));
        assert_eq!(Unary::NegI { overflow }.eval(Scalar::I16, bits), u64::from((bits as u16).wrapping_neg()));
        assert_eq!(Convert::TruncI { overflow }.eval(Scalar::I16, Scalar::I8, bits), bits & 0xff);
        let extend = |signedness| Convert::ExtI { signedness }.eval(Scalar::I16, Scalar::I32, bits);
        assert_eq!(extend(Signedness::Signed), u64::from(i32::from(bits as i16) as u32));
        assert_eq!(extend(Signedness::Unsigned), bits);
    }
    assert_eq!(Convert::ExtI { signedness: Signedness::Signed }.eval(Scalar::I1, Scalar::I8, 1), 0xff);
}

#[test]
fn a_maximum_is_nan_only_if_nan_propagates() {
    let f = |x: f32| u64::from(x.to_bits());
    let max = |propagate_nan, a, b| Binary::MaxF { propagate_nan, ftz: false }.eval(Scalar::F32, f(a), f(b));
    assert_eq!(max(false, f32::NAN, 1.0), f(1.0));
    assert_eq!(max(false, 1.0, f32::NAN), f(1.0));
    assert_eq!(max(true, 1.0, f32::NAN), nan(Scalar::F32));
    assert_eq!(max(false, -0.0, 0.0), f(0.0));
    assert_eq!(max(false, 0.0, -0.0), f(0.0));
}

#[test]
fn subnormal_values_are_flushed_with_ftz() {
    let f = |x: f32| u64::from(x.to_bits());
    let (tiny, rounding) = (f32::MIN_POSITIVE / 2.0, Rounding::NearestEven);
    let add = |ftz, a, b| Binary::AddF { rounding, ftz }.eval(Scalar::F32, f(a), f(b));
    assert_eq!(add(false, tiny, 0.0), f(tiny));
    assert_eq!(add(true, tiny, 0.0), f(0.0));
    assert_eq!(add(true, -tiny, -tiny), f(-0.0));
    let mul = |ftz, a, b| Binary::MulF { rounding: Rounding::Zero, ftz }.eval(Scalar::F32, f(a), f(b));
    assert_eq!(mul(true, f32::MIN_POSITIVE, -0.5), f(-0.0));
    assert_eq!(mul(false, f32::MIN_POSITIVE, 0.5), f(tiny));
}

#[test]
fn square_roots_round_in_every_direction() {
    let mut random = Random(3);
    for _ in 0..20_000 {
        let bits = random.value(Scalar::F32);
        let value = f32::from_bits(bits as u32);
        for (rounding, _) in ROUNDINGS {
            let root = f32::from_bits(Unary::Sqrt { rounding, ftz: false }.eval(Scalar::F32, bits) as u32);
            // The square of an f32 is exact in f64.
            let square = f64::from(root) * f64::from(root);
            match rounding {
                _ if value.is_nan() || value < 0.0 => assert!(root.is_nan()),
                Rounding::NearestEven => assert_eq!(root, value.sqrt()),
                Rounding::PositiveInf => assert!(square >= value.into(), "{value}"),
                _ => assert!(square <= value.into(), "{value}"),
            }
        }
        let wide = random.value(Scalar::F64);
        let root = |rounding| f64::from_bits(Unary::Sqrt { rounding, ftz: false }.eval(Scalar::F64, wide));
        let (down, up, nearest) = (root(Rounding::Zero), root(Rounding::PositiveInf), f64::from_bits(wide).sqrt());
        assert!(nearest.is_nan() || nearest == down || nearest == up);
        assert!(nearest.is_nan() || down == up || f64::from_bits(down.to_bits() + 1) == up);
    }
}

#[test]
fn conversions_to_f8e8m0_round_to_powers_of_two() {
    let scale = |value: f32, rounding| Convert::FToF { rounding }.eval(Scalar::F32, Scalar::F8E8M0FNU, u64::from(value.to_bits()));
    assert_eq!(scale(1.0, Rounding::Zero), 127);
    assert_eq!(scale(1.5, Rounding::Zero), 127);
    assert_eq!(scale(1.5, Rounding::PositiveInf), 128);
    assert_eq!(scale(0.0, Rounding::PositiveInf), 0);
    assert_eq!(scale(f32::MAX, Rounding::PositiveInf), 254);
    assert_eq!(scale(f32::INFINITY, Rounding::Zero), 254);
    assert_eq!(scale(f32::NAN, Rounding::Zero), 255);
    assert_eq!(scale(f32::MIN_POSITIVE / 2.0, Rounding::PositiveInf), 0);
}
