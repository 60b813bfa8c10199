//! Generators of element-wise ops: arithmetic, comparisons, selections and functions of indices.

use crate::builder::TileKind;
use crate::program::{Generator, INTS};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};
use tileir::Op;
use tileir::enums::ComparisonOrdering;

/// Every comparison predicate.
pub(crate) const PREDICATES: [Predicate; 6] = [
    Predicate::Equal,
    Predicate::NotEqual,
    Predicate::LessThan,
    Predicate::LessThanOrEqual,
    Predicate::GreaterThan,
    Predicate::GreaterThanOrEqual,
];

impl Generator {
    /// Chooses a random signedness.
    pub(crate) fn signedness(&mut self) -> Signedness {
        self.random.pick(&[Signedness::Signed, Signedness::Unsigned])
    }

    /// Returns a tile of the given kind. The tile comes from the pool, with a conversion and a reshape if needed, or from new ops.
    pub(crate) fn tile_of_kind(&mut self, kind: &TileKind) -> Value {
        let same_kind: Vec<Value> = self.pool.iter().filter(|(_, known)| known == kind).map(|(value, _)| *value).collect();
        if !same_kind.is_empty() && !self.random.one_in(4) {
            return self.random.pick(&same_kind);
        }
        let same_count: Vec<(Value, TileKind)> =
            self.pool.iter().filter(|(_, known)| known.count() == kind.count()).cloned().collect();
        if !same_count.is_empty() && !self.random.one_in(4) {
            let (value, from) = self.random.pick(&same_count);
            let value = self.convert(value, &from, kind.scalar);
            return self.reshape(value, &from.with_scalar(kind.scalar), &kind.shape);
        }
        if self.random.one_in(2) {
            return self.varied_numbers(kind);
        }
        match kind.scalar.is_int() {
            true => {
                let bits = self.random.next() >> self.random.below(64);
                self.splat(kind, bits)
            }
            false => {
                let number = (self.random.below(401) as f64 - 200.0) / 16.0;
                self.splat_float(kind, number)
            }
        }
    }

    /// Emits a tile of numbers that vary with the element index.
    fn varied_numbers(&mut self, kind: &TileKind) -> Value {
        let flat = TileKind::new(Scalar::I32, &[kind.count()]);
        let indices = self.builder.emit(&flat, Op::Iota {});
        let factor = self.random.below(1000) as u64;
        let factor = self.splat(&flat, 2 * factor + 1);
        let numbers = self.builder.emit_mul(&flat, indices, factor);
        let shift = self.random.below(4) as u64;
        let shift = self.splat(&flat, shift);
        let numbers = self.builder.emit(&flat, Op::ShRI { signedness: Signedness::Unsigned, lhs: numbers, rhs: shift });
        let numbers = self.convert(numbers, &flat, kind.scalar);
        self.reshape(numbers, &flat.with_scalar(kind.scalar), &kind.shape)
    }

    /// Emits i32 numbers in `0..bound`. `bound` must be a power of two.
    pub(crate) fn integers_below(&mut self, bound: i64, shape: &[i64]) -> Value {
        let kind = TileKind::new(Scalar::I32, shape);
        let (some, mask) = (self.tile_of_kind(&kind), self.splat(&kind, bound as u64 - 1));
        self.builder.emit_and(&kind, some, mask)
    }

    /// Emits a random comparison of two tiles of one kind.
    pub(crate) fn compare(&mut self, lhs: Value, rhs: Value, kind: &TileKind) -> Value {
        let comparison_predicate = self.random.pick(&PREDICATES);
        let op = match kind.scalar.is_int() {
            true => Op::CmpI { comparison_predicate, signedness: self.signedness(), lhs, rhs },
            false => {
                let comparison_ordering = self.random.pick(&[ComparisonOrdering::Ordered, ComparisonOrdering::Unordered]);
                Op::CmpF { comparison_predicate, comparison_ordering, lhs, rhs }
            }
        };
        self.builder.emit(&kind.with_scalar(Scalar::I1), op)
    }

    /// Emits an element-wise op on a random tile: a conversion, a comparison, a selection or an arithmetic op.
    pub(crate) fn emit_elementwise_ops(&mut self) {
        let (x, kind) = self.any_tile();
        let (value, kind) = match self.random.below(8) {
            0 => {
                let to = self.any_element_type();
                (self.convert(x, &kind, to), kind.with_scalar(to))
            }
            1 => {
                let y = self.tile_of_kind(&kind);
                (self.compare(x, y, &kind), kind.with_scalar(Scalar::I1))
            }
            2 => {
                let cond = self.tile_of_kind(&kind.with_scalar(Scalar::I1));
                let val_if_false = self.tile_of_kind(&kind);
                (self.builder.emit(&kind, Op::Select { cond, val_if_true: x, val_if_false }), kind)
            }
            _ => (self.arithmetic(x, &kind), kind),
        };
        self.add_to_pool(value, kind);
    }

    /// Emits a random arithmetic op on `x`. The result has the kind of `x`.
    pub(crate) fn arithmetic(&mut self, x: Value, kind: &TileKind) -> Value {
        let y = self.tile_of_kind(kind);
        let op = match kind.scalar {
            Scalar::I1 => self.random.pick(&[Op::AndI { lhs: x, rhs: y }, Op::OrI { lhs: x, rhs: y }, Op::XOrI { lhs: x, rhs: y }]),
            scalar if scalar.is_int() => self.integer_op(x, y, kind),
            _ => self.float_op(x, y, kind),
        };
        self.builder.emit(kind, op)
    }

    /// Returns a random integer op on two tiles of one kind.
    fn integer_op(&mut self, x: Value, y: Value, kind: &TileKind) -> Op {
        let (lhs, rhs, overflow, signedness) = (x, y, Overflow::None, self.signedness());
        match self.random.below(19) {
            0 => Op::AddI { overflow, lhs, rhs },
            1 => Op::SubI { overflow, lhs, rhs },
            2 => Op::MulI { overflow, lhs, rhs },
            3 => Op::AndI { lhs, rhs },
            4 => Op::OrI { lhs, rhs },
            5 => Op::XOrI { lhs, rhs },
            6 => Op::MinI { signedness, lhs, rhs },
            7 => Op::MaxI { signedness, lhs, rhs },
            8 => Op::NegI { overflow, source: x },
            9 => Op::MulhiI { x, y },
            10 | 11 => self.division_op(x, y, kind),
            12 | 13 => self.shift_op(x, y, kind),
            14 => Op::AbsI { source: x },
            15 => Op::MulI { overflow, lhs, rhs: lhs },
            16 => Op::SubI { overflow, lhs: rhs, rhs: lhs },
            _ => self.with_no_wrap_flag(x, y, kind),
        }
    }

    /// Returns a division or remainder. The divisor is a random constant with a magnitude of 2 or more, or a number from 1 to 16
    /// that depends on `y`.
    fn division_op(&mut self, lhs: Value, y: Value, kind: &TileKind) -> Op {
        let signedness = self.signedness();
        let rhs = match self.random.one_in(2) {
            true => {
                let divisor = 2 + (self.random.next() >> self.random.below(62));
                let is_negative = signedness == Signedness::Signed && self.random.one_in(3);
                let divisor_in_range = (divisor & (kind.scalar.mask() >> 1)).max(2);
                self.splat(kind, if is_negative { divisor_in_range.wrapping_neg() } else { divisor_in_range })
            }
            false => {
                let (mask, one) = (self.splat(kind, 15), self.splat(kind, 1));
                let masked = self.builder.emit_and(kind, y, mask);
                self.builder.emit_add(kind, masked, one)
            }
        };
        let rounding_modes = [Rounding::Zero, Rounding::PositiveInf, Rounding::NegativeInf];
        let mode_count = if signedness == Signedness::Signed { 3 } else { 2 };
        let rounding = self.random.pick(&rounding_modes[..mode_count]);
        match self.random.one_in(2) {
            true => Op::RemI { signedness, lhs, rhs },
            false => Op::DivI { signedness, rounding, lhs, rhs },
        }
    }

    /// Returns a shift. In one of three cases, the shift count may exceed the width of the type, up to twice the width.
    fn shift_op(&mut self, lhs: Value, y: Value, kind: &TileKind) -> Op {
        let bits = u64::from(kind.scalar.bits());
        let mask = if self.random.one_in(3) { 2 * bits - 1 } else { bits - 1 };
        let mask = self.splat(kind, mask);
        let rhs = self.builder.emit_and(kind, y, mask);
        match self.random.one_in(2) {
            true => Op::ShLI { overflow: Overflow::None, lhs, rhs },
            false => Op::ShRI { signedness: self.signedness(), lhs, rhs },
        }
    }

    /// Returns an op with a no-wrap flag, on operands that are so small that the result does not wrap.
    fn with_no_wrap_flag(&mut self, x: Value, y: Value, kind: &TileKind) -> Op {
        let mask = self.splat(kind, kind.scalar.mask() >> (kind.scalar.bits() / 2 + 1));
        let (lhs, rhs) = (self.builder.emit_and(kind, x, mask), self.builder.emit_and(kind, y, mask));
        let overflow = self.random.pick(&[Overflow::NoSignedWrap, Overflow::NoUnsignedWrap, Overflow::NoWrap]);
        match self.random.below(3) {
            0 => Op::AddI { overflow, lhs, rhs },
            1 => Op::MulI { overflow, lhs, rhs },
            _ => Op::SubI { overflow: Overflow::NoSignedWrap, lhs, rhs },
        }
    }

    /// Returns a random float op on two tiles of one kind. Every op is exact or correctly rounded.
    fn float_op(&mut self, lhs: Value, rhs: Value, kind: &TileKind) -> Op {
        let has_directed_rounding = matches!(kind.scalar, Scalar::F32 | Scalar::F64);
        let even = Rounding::NearestEven;
        let rounding_modes = [even, even, even, Rounding::Zero, Rounding::NegativeInf, Rounding::PositiveInf];
        let rounding_mode = if has_directed_rounding { self.random.pick(&rounding_modes) } else { even };
        let flush_to_zero = kind.scalar == Scalar::F32 && self.random.one_in(8);
        let propagate_nan = self.random.one_in(2);
        match self.random.below(13) {
            0 | 1 => Op::AddF { flush_to_zero, rounding_mode, lhs, rhs },
            2 => Op::SubF { flush_to_zero, rounding_mode, lhs, rhs },
            3 | 4 => Op::MulF { flush_to_zero, rounding_mode, lhs, rhs },
            5 => {
                let acc = self.tile_of_kind(kind);
                Op::Fma { flush_to_zero, rounding_mode, lhs, rhs, acc }
            }
            6 => Op::MaxF { propagate_nan, flush_to_zero, lhs, rhs },
            7 => Op::MinF { propagate_nan, flush_to_zero, lhs, rhs },
            8 => Op::NegF { source: lhs },
            9 => Op::AbsF { source: lhs },
            10 if has_directed_rounding => Op::DivF { flush_to_zero, rounding_mode, lhs, rhs },
            11 if has_directed_rounding => {
                let source = self.builder.emit(kind, Op::AbsF { source: lhs });
                Op::Sqrt { flush_to_zero, rounding_mode, source }
            }
            _ => self.random.pick(&[Op::Floor { source: lhs }, Op::Ceil { source: lhs }]),
        }
    }

    /// Emits a tile of a random shape whose elements are their own linear indices.
    pub(crate) fn element_indices(&mut self) {
        let shape = self.any_shape();
        let (scalar, count) = (self.random.pick(&INTS[1..]), shape.iter().product());
        let flat = TileKind::new(scalar, &[count]);
        let iota = self.builder.emit(&flat, Op::Iota {});
        let value = self.reshape(iota, &flat, &shape);
        self.add_to_pool(value, TileKind::new(scalar, &shape));
    }
}
