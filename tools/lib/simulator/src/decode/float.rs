//! Decodes floating-point arithmetic. `f32` and `f64` operations with round-to-nearest and without modifiers use host arithmetic.
//! Other formats, rounding modes and modifiers use `numerics::float`, or `numerics::arith` for `f64`.

use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::{LaneFn, map1, map2, map3};
use numerics::Scalar;
use numerics::arith::{Binary, Fma, Rounding, Unary};
use numerics::float::{self, OverflowResult, add_to_odd, decode, div_to_odd, encode, fma_to_odd, sqrt_to_odd};
use ptx::{Instruction, Type};

/// The type of a float instruction, and its modifiers for operands and results.
#[derive(Clone, Copy)]
pub(super) struct FloatMode {
    pub(super) ty: Scalar,
    pub(super) rounding: Rounding,
    /// Whether subnormal f32 operands and results become zero (`.ftz`).
    pub(super) ftz: bool,
    /// Whether the result is clamped to [0, 1] (`.sat`).
    pub(super) sat: bool,
}

/// An arithmetic operation on floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Sqrt,
    Reciprocal,
}

/// Returns the rounding mode of the instruction's modifiers. `None` without a rounding modifier.
pub(super) fn rounding_modifier(instruction: &Instruction) -> Option<Rounding> {
    [
        ("rn", Rounding::NearestEven),
        ("rz", Rounding::Zero),
        ("rm", Rounding::NegativeInf),
        ("rp", Rounding::PositiveInf),
        ("rna", Rounding::NearestAway),
    ]
    .into_iter()
    .find_map(|(word, rounding)| instruction.has_modifier(word).then_some(rounding))
}

/// Returns the element type and the number of elements of a float type. `None` for other types.
pub(super) fn scalar_and_count(ty: Type) -> Option<(Scalar, u32)> {
    Some(match ty {
        Type::F16 => (Scalar::F16, 1),
        Type::F16x2 => (Scalar::F16, 2),
        Type::Bf16 => (Scalar::BF16, 1),
        Type::Bf16x2 => (Scalar::BF16, 2),
        Type::F32 => (Scalar::F32, 1),
        Type::F32x2 => (Scalar::F32, 2),
        Type::Tf32 => (Scalar::TF32, 1),
        Type::F64 => (Scalar::F64, 1),
        Type::E4m3 | Type::Ue4m3 => (Scalar::F8E4M3FN, 1),
        Type::E4m3x2 => (Scalar::F8E4M3FN, 2),
        Type::E5m2 => (Scalar::F8E5M2, 1),
        Type::E5m2x2 => (Scalar::F8E5M2, 2),
        Type::E2m1 => (Scalar::F4E2M1FN, 1),
        Type::E2m1x2 => (Scalar::F4E2M1FN, 2),
        Type::Ue8m0 => (Scalar::F8E8M0FNU, 1),
        Type::Ue8m0x2 => (Scalar::F8E8M0FNU, 2),
        _ => return None,
    })
}

/// Returns the function of a float instruction, and its number of sources. `None` for an opcode without float arithmetic.
pub(super) fn float_function(instruction: &Instruction) -> Result<Option<(LaneFn, usize)>> {
    let types: Vec<Type> = instruction.types().collect();
    let Some((ty, count)) = scalar_and_count(types[0]) else { return Ok(None) };
    let mode = FloatMode {
        ty,
        rounding: rounding_modifier(instruction).unwrap_or(Rounding::NearestEven),
        ftz: instruction.has_modifier("ftz"),
        sat: instruction.has_modifier("sat"),
    };
    let kind = match &*instruction.opcode {
        "add" => FloatOp::Add,
        "sub" => FloatOp::Sub,
        "mul" => FloatOp::Mul,
        "div" => FloatOp::Div,
        "fma" | "mad" => FloatOp::Fma,
        "sqrt" => FloatOp::Sqrt,
        "rcp" => FloatOp::Reciprocal,
        _ => return unrounded_function(instruction, mode, count),
    };
    check_modifiers(instruction, &["rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "relu", "oob"])?;
    if instruction.has_modifier("oob") {
        return Err(unsupported(instruction, "'.oob'"));
    }
    if let [_, source] = types[..] {
        return widening_function(instruction, kind, mode, source).map(Some);
    }
    if instruction.has_modifier("relu") {
        let evaluate = rounded_function(kind, mode);
        let f = move |a, b, c| if decode(ty, evaluate(a, b, c)) < 0.0 { 0 } else { evaluate(a, b, c) };
        return Ok(Some((map_packed(ty.bits(), count, f), source_count(kind))));
    }
    if ty == Scalar::F64 && instruction.has_modifier("approx") && kind == FloatOp::Reciprocal {
        // `rcp.approx.ftz.f64` reads and writes only the upper half of the register.
        let upper = |bits: u64| bits & 0xffff_ffff_0000_0000;
        let flush = |x: f64| if x.is_subnormal() { 0.0f64.copysign(x) } else { x };
        return Ok(Some((map1(move |a| upper(flush(1.0 / flush(f64::from_bits(upper(a)))).to_bits())), 1)));
    }
    let plain = mode.rounding == Rounding::NearestEven && !mode.ftz && !mode.sat;
    let f = match (plain.then_some(kind), ty, count) {
        (Some(FloatOp::Add), Scalar::F32, 1) => map2(|a, b| f32_bits(f32_of(a) + f32_of(b))),
        (Some(FloatOp::Sub), Scalar::F32, 1) => map2(|a, b| f32_bits(f32_of(a) - f32_of(b))),
        (Some(FloatOp::Mul), Scalar::F32, 1) => map2(|a, b| f32_bits(f32_of(a) * f32_of(b))),
        (Some(FloatOp::Div), Scalar::F32, 1) => map2(|a, b| f32_bits(f32_of(a) / f32_of(b))),
        (Some(FloatOp::Fma), Scalar::F32, 1) => map3(|a, b, c| f32_bits(f32_of(a).mul_add(f32_of(b), f32_of(c)))),
        (Some(FloatOp::Add), Scalar::F32, 2) => map2(|a, b| f32x2(a, b, |a, b| a + b)),
        (Some(FloatOp::Sub), Scalar::F32, 2) => map2(|a, b| f32x2(a, b, |a, b| a - b)),
        (Some(FloatOp::Mul), Scalar::F32, 2) => map2(|a, b| f32x2(a, b, |a, b| a * b)),
        (Some(kind), Scalar::F64, 1) => f64_function(kind),
        (None, Scalar::F64, 1) => f64_function_rounded(kind, mode.rounding),
        _ => map_packed(ty.bits(), count, rounded_function(kind, mode)),
    };
    Ok(Some((f, source_count(kind))))
}

/// Returns the number of source operands of an operation.
fn source_count(kind: FloatOp) -> usize {
    match kind {
        FloatOp::Sqrt | FloatOp::Reciprocal => 1,
        FloatOp::Fma => 3,
        _ => 2,
    }
}

/// Returns the f32 number in the lower 32 bits of a register.
fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Returns the bits of a result. Every NaN becomes the hardware's canonical NaN.
pub(super) fn f32_bits(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

/// Applies `f` to both halves of two `f32x2` registers.
fn f32x2(a: u64, b: u64, f: impl Fn(f32, f32) -> f32) -> u64 {
    f32_bits(f(f32_of(a), f32_of(b))) | f32_bits(f(f32_of(a >> 32), f32_of(b >> 32))) << 32
}

/// Returns the function of an f64 operation that rounds to nearest even.
fn f64_function(kind: FloatOp) -> LaneFn {
    let f64_of = f64::from_bits;
    match kind {
        FloatOp::Add => map2(move |a, b| (f64_of(a) + f64_of(b)).to_bits()),
        FloatOp::Sub => map2(move |a, b| (f64_of(a) - f64_of(b)).to_bits()),
        FloatOp::Mul => map2(move |a, b| (f64_of(a) * f64_of(b)).to_bits()),
        FloatOp::Div => map2(move |a, b| (f64_of(a) / f64_of(b)).to_bits()),
        FloatOp::Fma => map3(move |a, b, c| f64_of(a).mul_add(f64_of(b), f64_of(c)).to_bits()),
        FloatOp::Sqrt => map1(move |a| f64_of(a).sqrt().to_bits()),
        FloatOp::Reciprocal => map1(move |a| (1.0 / f64_of(a)).to_bits()),
    }
}

/// Returns the function of an f64 operation with the given rounding mode.
fn f64_function_rounded(kind: FloatOp, rounding: Rounding) -> LaneFn {
    const TY: Scalar = Scalar::F64;
    let one = 1f64.to_bits();
    match kind {
        FloatOp::Add => map2(move |a, b| Binary::AddF { rounding, ftz: false }.eval(TY, a, b)),
        FloatOp::Sub => map2(move |a, b| Binary::SubF { rounding, ftz: false }.eval(TY, a, b)),
        FloatOp::Mul => map2(move |a, b| Binary::MulF { rounding, ftz: false }.eval(TY, a, b)),
        FloatOp::Div => map2(move |a, b| Binary::DivF { rounding, ftz: false }.eval(TY, a, b)),
        FloatOp::Fma => map3(move |a, b, c| Fma { rounding, ftz: false }.eval(TY, a, b, c)),
        FloatOp::Sqrt => map1(move |a| Unary::Sqrt { rounding, ftz: false }.eval(TY, a)),
        FloatOp::Reciprocal => map1(move |a| Binary::DivF { rounding, ftz: false }.eval(TY, one, a)),
    }
}

/// Returns the function that computes an operation on a format of up to 32 bits with one rounding.
fn rounded_function(kind: FloatOp, mode: FloatMode) -> impl Fn(u64, u64, u64) -> u64 + Copy + Send + Sync + 'static {
    move |a, b, c| compute_rounded(kind, mode, decode_operand(mode, a), decode_operand(mode, b), decode_operand(mode, c))
}

/// Computes an operation and rounds the result to the type and mode of the instruction.
fn compute_rounded(kind: FloatOp, mode: FloatMode, a: f64, b: f64, c: f64) -> u64 {
    let value = compute_exact(kind, a, b, c);
    // If an exact sum of numbers with different signs is zero, rounding down gives -0 (IEEE 754).
    let down = mode.rounding == Rounding::NegativeInf && !mode.sat;
    encode_result(mode, if down && value == 0.0 && has_addends_of_different_signs(kind, a, b, c) { -0.0 } else { value })
}

/// Returns whether an exact sum of zero has addends with different signs. Returns false for two zeros with the same sign, and for
/// operations that do not add.
fn has_addends_of_different_signs(kind: FloatOp, a: f64, b: f64, c: f64) -> bool {
    let (x, y) = match kind {
        FloatOp::Add => (a, b),
        FloatOp::Sub => (a, -b),
        FloatOp::Fma => (a * b, c),
        FloatOp::Mul | FloatOp::Div | FloatOp::Sqrt | FloatOp::Reciprocal => return false,
    };
    x != 0.0 || x.is_sign_negative() != y.is_sign_negative()
}

/// Returns the result before rounding, as an `f64`. If the exact result has more bits than `f64`, the last bit is sticky: it is set
/// if a dropped bit is set.
fn compute_exact(kind: FloatOp, a: f64, b: f64, c: f64) -> f64 {
    match kind {
        FloatOp::Add => add_to_odd(a, b),
        FloatOp::Sub => add_to_odd(a, -b),
        FloatOp::Mul => a * b,
        FloatOp::Div => div_to_odd(a, b),
        FloatOp::Fma => fma_to_odd(a, b, c),
        FloatOp::Sqrt => sqrt_to_odd(a),
        FloatOp::Reciprocal => div_to_odd(1.0, a),
    }
}

/// Decodes an operand. Flushes subnormal f32 numbers to zero if the instruction has `.ftz`.
fn decode_operand(mode: FloatMode, bits: u64) -> f64 {
    let bits = if mode.ftz && mode.ty == Scalar::F32 { float::flush_f32(bits as u32).into() } else { bits };
    decode(mode.ty, bits)
}

/// Encodes a result, with saturation to 0..1 (`.sat`) and flushing (`.ftz`) as the instruction requires.
fn encode_result(mode: FloatMode, value: f64) -> u64 {
    let value = match mode.sat {
        true if value.is_nan() => 0.0,
        true => value.clamp(0.0, 1.0),
        false => value,
    };
    let bits = encode(mode.ty, value, mode.rounding, OverflowResult::Ieee);
    if mode.ftz && mode.ty == Scalar::F32 { float::flush_f32(bits as u32).into() } else { bits }
}

/// Returns the lane function that applies `f` to each of `count` packed elements of `bits` bits.
pub(super) fn map_packed(bits: u32, count: u32, f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> LaneFn {
    let mask = u64::MAX >> (64 - bits);
    match count {
        1 => map3(move |a, b, c| f(a & mask, b & mask, c & mask)),
        _ => map3(move |a, b, c| {
            (0..count).fold(0, |out, part| {
                let at = part * bits;
                out | f(a >> at & mask, b >> at & mask, c >> at & mask) << at
            })
        }),
    }
}

/// Returns the function of a mixed-type instruction such as `add.f32.f16 d, a, c`, which widens the narrow sources exactly.
fn widening_function(instruction: &Instruction, kind: FloatOp, mode: FloatMode, source: Type) -> Result<(LaneFn, usize)> {
    let Some((narrow, 1)) = scalar_and_count(source) else { return Err(unsupported(instruction, "these types")) };
    let widen = move |bits| decode(narrow, bits);
    Ok(match kind {
        FloatOp::Add | FloatOp::Sub => (map2(move |a, b| compute_rounded(kind, mode, widen(a), decode_operand(mode, b), 0.0)), 2),
        FloatOp::Fma => (map3(move |a, b, c| compute_rounded(kind, mode, widen(a), widen(b), decode_operand(mode, c))), 3),
        _ => return Err(unsupported(instruction, "mixed types")),
    })
}

/// Returns the function of an instruction without a rounding mode: a sign operation, a minimum, a maximum or an approximation.
fn unrounded_function(instruction: &Instruction, mode: FloatMode, count: u32) -> Result<Option<(LaneFn, usize)>> {
    let ty = mode.ty;
    let bits = ty.bits();
    let sign = 1u64 << (bits - 1);
    let ftz = move |x: u64| if mode.ftz && ty == Scalar::F32 { float::flush_f32(x as u32).into() } else { x };
    let is_sign_or_min_max = ["abs", "neg", "copysign", "min", "max"].contains(&&*instruction.opcode);
    if !is_sign_or_min_max && approximate_function(&instruction.opcode).is_none() {
        return Ok(None);
    }
    check_modifiers(instruction, &["ftz", "approx", "NaN", "xorsign", "abs", "rn"])?;
    let f = match &*instruction.opcode {
        "abs" => map_packed(bits, count, move |a, _, _| ftz(a & !sign)),
        "neg" => map_packed(bits, count, move |a, _, _| ftz(a ^ sign)),
        "copysign" => return Ok(Some((map2(move |a, b| a & sign | b & !sign), 2))),
        "min" | "max" => {
            if instruction.has_modifier("xorsign") || instruction.has_modifier("abs") {
                return Err(unsupported(instruction, "'.xorsign.abs'"));
            }
            let (max, nan) = (instruction.opcode == "max", instruction.has_modifier("NaN"));
            let f = move |a, b| min_or_max(ty, max, nan, ftz(a), ftz(b));
            return Ok(Some(match instruction.operands.len() {
                4 => (map_packed(bits, count, move |a, b, c| f(f(a, b), c)), 3),
                _ => (map_packed(bits, count, move |a, b, _| f(a, b)), 2),
            }));
        }
        name => {
            let Some(function) = approximate_function(name) else { return Ok(None) };
            map_packed(bits, count, move |a, _, _| {
                ftz(encode(ty, function(decode(ty, ftz(a))), Rounding::NearestEven, OverflowResult::Ieee))
            })
        }
    };
    Ok(Some((f, 1)))
}

/// Returns the host function for an approximate instruction. The ISA only bounds the error of these instructions, so the simulator
/// rounds the result of the host function.
fn approximate_function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "ex2" => f64::exp2,
        "lg2" => f64::log2,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tanh" => f64::tanh,
        "rsqrt" => |x| 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// Returns the minimum or maximum of two values. If one value is NaN, the result is the other value, or NaN with `propagate`. -0 is
/// less than +0.
pub(super) fn min_or_max(ty: Scalar, max: bool, propagate: bool, a: u64, b: u64) -> u64 {
    let (x, y) = (decode(ty, a), decode(ty, b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => float::nan(ty),
        (true, false) | (false, true) if propagate => float::nan(ty),
        (true, false) => b,
        (false, true) => a,
        _ if x == y => {
            if (x.is_sign_negative()) == max {
                b
            } else {
                a
            }
        }
        _ => {
            if (x > y) == max {
                a
            } else {
                b
            }
        }
    }
}
