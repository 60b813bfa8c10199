//! Element-wise ops and conversions, with operands that leave no result undefined.

use crate::builder::Kind;
use crate::program::{Generator, INTS};
use base::Scalar;
use base::arith::{Overflow, Predicate, Rounding, Signedness};
use base::ir::Value;
use tileir::Op;
use tileir::enums::ComparisonOrdering;

const PREDICATES: [Predicate; 6] = [
    Predicate::Equal,
    Predicate::NotEqual,
    Predicate::LessThan,
    Predicate::LessThanOrEqual,
    Predicate::GreaterThan,
    Predicate::GreaterThanOrEqual,
];
const EVEN: Rounding = Rounding::NearestEven;

impl Generator {
    fn signedness(&mut self) -> Signedness {
        self.random.pick(&[Signedness::Signed, Signedness::Unsigned])
    }

    fn same(&mut self, kind: &Kind, op: Op) -> Value {
        let ty = self.build.tile(kind);
        self.build.op(op, ty)
    }

    /// Some tile of a kind: one of the pool, converted and reshaped where that is needed.
    pub(crate) fn some(&mut self, kind: &Kind) -> Value {
        let equal: Vec<Value> = self.pool.iter().filter(|(_, known)| known == kind).map(|(value, _)| *value).collect();
        if !equal.is_empty() && !self.random.one_in(4) {
            return self.random.pick(&equal);
        }
        let fitting: Vec<(Value, Kind)> = self.pool.iter().filter(|(_, known)| known.count() == kind.count()).cloned().collect();
        if !fitting.is_empty() && !self.random.one_in(4) {
            let (value, from) = self.random.pick(&fitting);
            let value = self.convert(value, &from, kind.scalar);
            return self.reshape(value, &from.of(kind.scalar), &kind.shape);
        }
        match kind.scalar.is_int() {
            true => {
                let bits = self.random.next() >> self.random.below(64);
                self.splat(kind, bits)
            }
            false => {
                let number = (self.random.below(401) as f64 - 200.0) / 16.0;
                self.number(kind, number)
            }
        }
    }

    /// Between any two types; floats are brought into the range of the integer first.
    pub(crate) fn convert(&mut self, value: Value, from: &Kind, to: Scalar) -> Value {
        let kind = from.of(to);
        let (bits, wanted) = (from.scalar.bits(), to.bits());
        let ty = self.build.tile(&kind);
        let signedness = if from.scalar == Scalar::I1 { Signedness::Unsigned } else { self.signedness() };
        let op = match (from.scalar.is_int(), to.is_int()) {
            _ if from.scalar == to => return value,
            (true, true) if bits < wanted => Op::ExtI { signedness, from: value },
            (true, true) => Op::TruncI { overflow: Overflow::None, from: value },
            (true, false) if from.scalar == Scalar::I1 => {
                let wide = self.convert(value, from, Scalar::I32);
                return self.convert(wide, &from.of(Scalar::I32), to);
            }
            (true, false) => Op::IToF { signedness, rounding_mode: EVEN, from: value },
            (false, true) => {
                let (low, high) = if to == Scalar::I1 { (0.0, 1.0) } else { (-100.0, 100.0) };
                let (low, high) = (self.number(from, low), self.number(from, high));
                let above = self.same(from, Op::MaxF { propagate_nan: false, flush_to_zero: false, lhs: value, rhs: low });
                let within = self.same(from, Op::MinF { propagate_nan: false, flush_to_zero: false, lhs: above, rhs: high });
                if to == Scalar::I1 {
                    return self.compare(within, from).0;
                }
                Op::FToI {
                    saturating: false,
                    signedness: Signedness::Signed,
                    rounding_mode: Rounding::NearestIntToZero,
                    from: within,
                }
            }
            (false, false) => Op::FToF { rounding_mode: EVEN, from: value },
        };
        self.build.op(op, ty)
    }

    /// Against another tile of the kind.
    fn compare(&mut self, lhs: Value, kind: &Kind) -> (Value, Kind) {
        let rhs = if kind.scalar == Scalar::I1 { lhs } else { self.splat(kind, 1) };
        self.compared(lhs, rhs, kind)
    }

    fn compared(&mut self, lhs: Value, rhs: Value, kind: &Kind) -> (Value, Kind) {
        let comparison_predicate = self.random.pick(&PREDICATES);
        let op = match kind.scalar.is_int() {
            true => Op::CmpI { comparison_predicate, signedness: self.signedness(), lhs, rhs },
            false => {
                let comparison_ordering = self.random.pick(&[ComparisonOrdering::Ordered, ComparisonOrdering::Unordered]);
                Op::CmpF { comparison_predicate, comparison_ordering, lhs, rhs }
            }
        };
        let result = kind.of(Scalar::I1);
        (self.same(&result, op), result)
    }

    pub(crate) fn elementwise(&mut self) {
        let (x, kind) = self.any();
        let (value, kind) = match self.random.below(8) {
            0 => {
                let to = self.scalar();
                (self.convert(x, &kind, to), kind.of(to))
            }
            1 if kind.scalar != Scalar::I1 => {
                let y = self.some(&kind);
                self.compared(x, y, &kind)
            }
            2 => {
                let cond = self.some(&kind.of(Scalar::I1));
                let other = self.some(&kind);
                (self.same(&kind, Op::Select { cond, val_if_true: x, val_if_false: other }), kind)
            }
            _ => (self.arithmetic(x, &kind), kind),
        };
        self.add(value, kind);
    }

    pub(crate) fn arithmetic(&mut self, x: Value, kind: &Kind) -> Value {
        if kind.scalar.is_float() {
            return self.float(x, kind);
        }
        let y = self.some(kind);
        if kind.scalar == Scalar::I1 {
            let op = self.random.below(3);
            return self
                .same(kind, [Op::AndI { lhs: x, rhs: y }, Op::OrI { lhs: x, rhs: y }, Op::XOrI { lhs: x, rhs: y }][op].clone());
        }
        self.integer(x, y, kind)
    }

    fn integer(&mut self, x: Value, y: Value, kind: &Kind) -> Value {
        let (lhs, rhs, overflow, signedness) = (x, y, Overflow::None, self.signedness());
        let op = match self.random.below(17) {
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
            10 | 11 => {
                // A divisor from 1 to 16, sometimes known.
                let some = if self.random.one_in(2) { self.splat(kind, 13) } else { y };
                let mask = self.splat(kind, 15);
                let low = self.same(kind, Op::AndI { lhs: some, rhs: mask });
                let one = self.splat(kind, 1);
                let rhs = self.same(kind, Op::AddI { overflow, lhs: low, rhs: one });
                let roundings = [Rounding::Zero, Rounding::PositiveInf, Rounding::NegativeInf];
                let allowed = if signedness == Signedness::Signed { 3 } else { 2 };
                let rounding = self.random.pick(&roundings[..allowed]);
                match self.random.one_in(2) {
                    true => Op::RemI { signedness, lhs, rhs },
                    false => Op::DivI { signedness, rounding, lhs, rhs },
                }
            }
            12 | 13 => {
                let mask = self.splat(kind, u64::from(kind.scalar.bits() - 1));
                let rhs = self.same(kind, Op::AndI { lhs: y, rhs: mask });
                match self.random.one_in(2) {
                    true => Op::ShLI { overflow, lhs, rhs },
                    false => Op::ShRI { signedness, lhs, rhs },
                }
            }
            14 => Op::AbsI { source: x },
            15 => Op::MulI { overflow, lhs, rhs: lhs },
            _ => Op::SubI { overflow, lhs: rhs, rhs: lhs },
        };
        self.same(kind, op)
    }

    fn float(&mut self, x: Value, kind: &Kind) -> Value {
        let (lhs, rhs, flush_to_zero) = (x, self.some(kind), false);
        let directed = matches!(kind.scalar, Scalar::F32 | Scalar::F64);
        let roundings = [EVEN, EVEN, EVEN, Rounding::Zero, Rounding::NegativeInf, Rounding::PositiveInf];
        let rounding_mode = if directed { self.random.pick(&roundings) } else { EVEN };
        let op = match self.random.below(12) {
            0 | 1 => Op::AddF { flush_to_zero, rounding_mode, lhs, rhs },
            2 => Op::SubF { flush_to_zero, rounding_mode, lhs, rhs },
            3 | 4 => Op::MulF { flush_to_zero, rounding_mode, lhs, rhs },
            5 => {
                let acc = self.some(kind);
                Op::Fma { flush_to_zero, rounding_mode, lhs, rhs, acc }
            }
            6 => Op::MaxF { propagate_nan: self.random.one_in(2), flush_to_zero, lhs, rhs },
            7 => Op::MinF { propagate_nan: self.random.one_in(2), flush_to_zero, lhs, rhs },
            8 => Op::NegF { source: x },
            9 => Op::AbsF { source: x },
            10 if directed => match self.random.one_in(2) {
                true => Op::DivF { flush_to_zero, rounding_mode, lhs, rhs },
                false => {
                    let source = self.same(kind, Op::AbsF { source: x });
                    Op::Sqrt { flush_to_zero, rounding_mode, source }
                }
            },
            _ => match self.random.one_in(2) {
                true => Op::Floor { source: x },
                false => Op::Ceil { source: x },
            },
        };
        self.same(kind, op)
    }

    /// Numbers that depend on the element's place.
    pub(crate) fn index(&mut self) {
        let shape = self.random.pick(&self.shapes.clone());
        let (scalar, count) = (self.random.pick(&INTS[1..]), shape.iter().product());
        let flat = Kind::new(scalar, &[count]);
        let ty = self.build.tile(&flat);
        let iota = self.build.op(Op::Iota {}, ty);
        let shaped = self.reshape(iota, &flat, &shape);
        self.add(shaped, Kind::new(scalar, &shape));
    }
}
