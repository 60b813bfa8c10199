//! Generators of conversions: between element types, through narrow floats, and between packed and unpacked tiles. Every conversion
//! has a defined result, because a float is clamped before its conversion to an integer.

use crate::builder::TileKind;
use crate::program::{FLOATS, Generator};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Overflow, Rounding, Signedness};
use tileir::Op;

/// The rounding mode of conversions: to nearest, ties to even.
const EVEN: Rounding = Rounding::NearestEven;

impl Generator {
    /// Emits a conversion between any two element types. A float is first clamped to fixed bounds that fit every integer type. A
    /// conversion to i1 is a comparison.
    pub(crate) fn convert(&mut self, value: Value, from: &TileKind, to: Scalar) -> Value {
        let kind = from.with_scalar(to);
        let signedness = if from.scalar == Scalar::I1 { Signedness::Unsigned } else { self.signedness() };
        let op = match (from.scalar.is_int(), to.is_int()) {
            _ if from.scalar == to => return value,
            (true, true) if from.scalar.bits() < to.bits() => Op::ExtI { signedness, from: value },
            (true, true) => Op::TruncI { overflow: Overflow::None, from: value },
            (true, false) if from.scalar == Scalar::I1 => {
                let as_i32 = self.convert(value, from, Scalar::I32);
                return self.convert(as_i32, &from.with_scalar(Scalar::I32), to);
            }
            (true, false) => Op::IToF { signedness, rounding_mode: EVEN, from: value },
            (false, true) if to == Scalar::I1 => {
                let one = self.splat_float(from, 1.0);
                return self.compare(value, one, from);
            }
            (false, true) => return self.float_to_int(value, from, to),
            (false, false) => Op::FToF { rounding_mode: EVEN, from: value },
        };
        self.builder.emit(&kind, op)
    }

    /// Emits a conversion of a float to an integer type. The float is first clamped to fixed bounds, which are in the range of
    /// every integer type of the pool.
    fn float_to_int(&mut self, value: Value, from: &TileKind, to: Scalar) -> Value {
        let signedness = self.signedness();
        let (low, high) = if signedness == Signedness::Signed { (-100.0, 100.0) } else { (0.0, 200.0) };
        let from_value = self.clamp_float(value, from, low, high);
        let rounding_mode = Rounding::NearestIntToZero;
        let saturating = self.random.one_in(4);
        self.builder.emit(&from.with_scalar(to), Op::FToI { saturating, signedness, rounding_mode, from: from_value })
    }

    /// Emits code that clamps a float to two bounds. NaN becomes the lower bound.
    pub(crate) fn clamp_float(&mut self, value: Value, kind: &TileKind, low: f64, high: f64) -> Value {
        let (low, high) = (self.splat_float(kind, low), self.splat_float(kind, high));
        let (propagate_nan, flush_to_zero) = (false, false);
        let raised = self.builder.emit(kind, Op::MaxF { propagate_nan, flush_to_zero, lhs: value, rhs: low });
        self.builder.emit(kind, Op::MinF { propagate_nan, flush_to_zero, lhs: raised, rhs: high })
    }

    /// Emits a conversion to a narrow float type and back. Only conversions and MMAs support such a type.
    pub(crate) fn convert_through_narrow_float(&mut self) {
        let (x, kind) = self.any_tile();
        let from = if self.random.one_in(2) { Scalar::F32 } else { self.random.pick(&FLOATS) };
        let x = self.convert(x, &kind, from);
        let kind = kind.with_scalar(from);
        let narrow_types = [Scalar::F8E4M3FN, Scalar::F8E5M2, Scalar::TF32, Scalar::F8E8M0FNU, Scalar::F4E2M1FN];
        let narrow_type = self.random.pick(&narrow_types);
        if narrow_type == Scalar::F4E2M1FN && kind.count() < 2 {
            return;
        }
        let rounding_mode = match narrow_type {
            Scalar::F8E8M0FNU => self.random.pick(&[Rounding::Zero, Rounding::PositiveInf]),
            Scalar::TF32 if from == Scalar::F32 => self.random.pick(&[EVEN, Rounding::Zero, Rounding::NearestAway]),
            Scalar::TF32 if from == Scalar::F64 => self.random.pick(&[EVEN, Rounding::Zero]),
            _ => EVEN,
        };
        // F8E8M0FNU has no sign and no zero, so its input must be positive.
        let x = match narrow_type {
            Scalar::F8E8M0FNU => self.clamp_float(x, &kind, 0.0625, 200.0),
            _ if self.random.one_in(2) => x,
            _ => self.clamp_float(x, &kind, -100.0, 100.0),
        };
        let narrow_tile = self.builder.emit(&kind.with_scalar(narrow_type), Op::FToF { rounding_mode, from: x });
        let narrow_tile =
            if self.random.one_in(2) { self.permute_elements(narrow_tile, &kind.with_scalar(narrow_type)) } else { narrow_tile };
        let wide_type = self.random.pick(&[Scalar::F32, Scalar::F16, Scalar::BF16]);
        let value = self.builder.emit(&kind.with_scalar(wide_type), Op::FToF { rounding_mode: EVEN, from: narrow_tile });
        self.add_to_pool(value, kind.with_scalar(wide_type));
    }

    /// Emits a permutation of the elements of a tile. Unlike arithmetic, it is valid for every element type.
    fn permute_elements(&mut self, source: Value, kind: &TileKind) -> Value {
        let count = kind.count();
        if count < 4 {
            return source;
        }
        let two_columns = TileKind::new(kind.scalar, &[count / 2, 2]);
        let transposed = TileKind::new(kind.scalar, &[2, count / 2]);
        let matrix = self.reshape(source, kind, &two_columns.shape);
        let matrix = self.builder.emit(&transposed, Op::Permute { permutation: [1, 0].into(), source: matrix });
        self.reshape(matrix, &transposed, &kind.shape)
    }

    /// Emits a reinterpretation of a tile's bytes as elements of another width.
    pub(crate) fn pack_and_unpack(&mut self) {
        let (x, kind) = self.any_tile();
        let count = kind.count();
        let scalar = self.random.pick(&[Scalar::I16, Scalar::I32, Scalar::I64, Scalar::I4]);
        if count * i64::from(scalar.bits()) < 8 {
            return;
        }
        let flat = TileKind::new(scalar, &[count]);
        let x = match scalar {
            Scalar::I4 => {
                let bytes = self.convert(x, &kind, Scalar::I8);
                self.builder.emit(&kind.with_scalar(Scalar::I4), Op::TruncI { overflow: Overflow::None, from: bytes })
            }
            _ => self.convert(x, &kind, scalar),
        };
        let x = self.reshape(x, &kind.with_scalar(scalar), &flat.shape);
        let bytes = TileKind::new(Scalar::I8, &[count * i64::from(scalar.bits()) / 8]);
        let packed = self.builder.emit(&bytes, Op::Pack { source: x });
        let to = self.random.pick(&[Scalar::I16, Scalar::I32, Scalar::I4]);
        let total_bits = bytes.count() * 8;
        if total_bits < i64::from(to.bits()) {
            return self.add_to_pool(packed, bytes);
        }
        let unpacked_kind = TileKind::new(to, &[total_bits / i64::from(to.bits())]);
        let value = self.builder.emit(&unpacked_kind, Op::Unpack { source: packed });
        match to {
            Scalar::I4 => {
                let signedness = self.signedness();
                let value = self.builder.emit(&unpacked_kind.with_scalar(Scalar::I32), Op::ExtI { signedness, from: value });
                self.add_to_pool(value, unpacked_kind.with_scalar(Scalar::I32));
            }
            _ => self.add_to_pool(value, unpacked_kind),
        }
    }
}
