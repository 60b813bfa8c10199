//! Generators of prints, assertions, assumptions, globals and optimisation hints.

use crate::builder::Kind;
use crate::program::{Generator, INTS};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Predicate, Signedness};
use tileir::{Attribute, Op};

impl Generator {
    /// Emits a print of a scalar or of a few elements, in the first tile block only.
    pub(crate) fn print(&mut self) {
        let (x, kind) = self.any();
        let (scalar, conversion) =
            self.random.pick(&[(Scalar::I32, "%d"), (Scalar::I32, "%x"), (Scalar::F32, "%f"), (Scalar::I64, "%lld")]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.of(scalar);
        let (x, kind) = match kind.count() > 16 {
            true => {
                let few = Kind::new(scalar, &[8]);
                (self.some(&few), few)
            }
            false => (x, kind),
        };
        let x = if scalar == Scalar::F32 { self.clamped(x, &kind, -1000.0, 1000.0) } else { x };
        let zero = self.index_constant(0);
        let first = self.integers(Predicate::Equal, self.block, zero);
        let number = self.outputs.len();
        let format = self.build.string(&format!("print {number}: {conversion} and %d\n"));
        let token = self.build.token();
        self.when(first, |inner| {
            let args = [x, inner.block].into();
            inner.build.op(Op::PrintTko { format, args, token: None }, token);
            inner.build.ops(Op::Yield { operands: Box::default() }, &[]);
        });
    }

    /// Emits an assertion that is true for every input, but that only a range analysis can prove.
    pub(crate) fn assertion(&mut self) {
        let (x, kind) = self.any();
        let x = self.convert(x, &kind, Scalar::I32);
        let kind = kind.of(Scalar::I32);
        let (mask, limit) = (self.splat(&kind, 0xff), self.splat(&kind, 0xff));
        let low = self.build.and(&kind, x, mask);
        let comparison_predicate = Predicate::LessThanOrEqual;
        let op = Op::CmpI { comparison_predicate, signedness: Signedness::Unsigned, lhs: low, rhs: limit };
        let condition = self.build.emit(&kind.of(Scalar::I1), op);
        let message = self.build.string("a byte is at most 255");
        self.build.ops(Op::Assert { message, condition }, &[]);
    }

    /// Emits an `assume`, after ops that make its predicate true.
    pub(crate) fn assumption(&mut self) {
        let (x, kind) = self.any();
        let scalar = self.random.pick(&INTS[1..]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.of(scalar);
        let (value, predicate) = match self.random.below(3) {
            0 => self.bounded(x, &kind),
            1 => {
                let bits = 1 + self.random.below(5) as u64;
                let mask = self.splat(&kind, u64::MAX << bits);
                (self.build.and(&kind, x, mask), Attribute::DivBy { divisor: 1 << bits, every: None, along: None })
            }
            _ => self.element_runs(&kind),
        };
        let value = self.build.emit(&kind, Op::Assume { predicate, value });
        self.add(value, kind);
    }

    fn bounded(&mut self, x: Value, kind: &Kind) -> (Value, Attribute) {
        let upper = self.random.pick(&[1, 7, 63, 1000]);
        let mask = self.splat(kind, (upper as u64 + 1).next_power_of_two() - 1);
        let low = self.build.and(kind, x, mask);
        let limit = self.splat(kind, upper as u64);
        let value = self.build.emit(kind, Op::MinI { signedness: Signedness::Signed, lhs: low, rhs: limit });
        let lower = self.random.one_in(2).then_some(0);
        (value, Attribute::Bounded { lower, upper: Some(upper) })
    }

    /// Emits runs of four equal elements, or consecutive numbers of which every fourth is a multiple of four.
    /// Returns the tile and the matching predicate.
    fn element_runs(&mut self, kind: &Kind) -> (Value, Attribute) {
        let Some(extent) = kind.shape.last().copied().filter(|extent| *extent >= 4) else {
            let value = self.splat(kind, 64);
            return (value, Attribute::DivBy { divisor: 64, every: None, along: None });
        };
        let row = Kind::new(kind.scalar, &[extent]);
        let indices = self.build.emit(&row, Op::Iota {});
        let equal = self.random.one_in(2);
        let value = match equal {
            true => {
                let mask = self.splat(&row, !3);
                self.build.and(&row, indices, mask)
            }
            false => indices,
        };
        let rank = kind.shape.len();
        let mut one_row = vec![1; rank];
        one_row[rank - 1] = extent;
        let source = self.reshape(value, &row, &one_row);
        let value = if one_row == kind.shape { source } else { self.build.emit(kind, Op::Broadcast { source }) };
        let along = rank as i64 - 1;
        let predicate = match equal {
            true => Attribute::SameElements((0..rank).map(|dim| if dim + 1 == rank { 4 } else { 1 }).collect()),
            false => Attribute::DivBy { divisor: 4, every: Some(4), along: Some(along) },
        };
        (value, predicate)
    }

    /// Emits a gather from a global of the module.
    pub(crate) fn global(&mut self) {
        let (scalar, elements) = (self.scalar(), 64);
        let data = (0..elements * i64::from(scalar.bytes())).map(|i| (i * 37 % 113) as u8).collect();
        let name = self.build.global(scalar, elements, data);
        let ty = self.build.pointers(scalar, &[]);
        let pointer = self.build.op(Op::GetGlobal { name }, ty);
        let kind = Kind::new(scalar, &self.shape());
        let value = self.gather(pointer, elements, &kind);
        self.add(value, kind);
    }

    /// Adds random optimisation hints for warps, occupancy and clusters, for every target.
    pub(crate) fn hints(&mut self) {
        let number = self.build.ty(tileir::Type::Scalar(Scalar::I32));
        let mut targets = Vec::new();
        for target in base::Target::all() {
            let (occupancy, warps) = (self.random.pick(&[1, 2, 4]), self.random.pick(&[4, 8]));
            let hint_values =
                [("num_cta_in_cga", self.random.pick(&[2, 4])), ("occupancy", occupancy), ("num_worker_warps_per_cta", warps)];
            let config = hint_values.map(|(name, bits)| (self.build.string(name), Attribute::Integer { ty: number, bits }));
            let kept_hints = &config[self.random.below(2)..config.len() - self.random.below(2)];
            targets.push((self.build.string(target.name), Attribute::Dictionary(kept_hints.into())));
        }
        self.build.hints = Some(targets.into());
    }
}
