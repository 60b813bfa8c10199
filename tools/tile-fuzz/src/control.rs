//! Ops with regions: reductions, scans, conditions, loops.

use crate::builder::Kind;
use crate::program::Generator;
use base::Scalar;
use base::arith::{Overflow, Predicate, Signedness};
use base::ir::{Region, Value};
use tileir::Op;
use tileir::enums::Direction;

/// An operation that may be applied in any order.
#[derive(Clone, Copy)]
enum Fold {
    Add,
    Min,
    Max,
    And,
    Xor,
}

impl Fold {
    fn identity(self, scalar: Scalar) -> u64 {
        let infinity =
            |number: f64| base::float::encode(scalar, number, base::arith::Rounding::NearestEven, base::float::Overflow::Ieee);
        match (self, scalar.is_int()) {
            (Fold::Add | Fold::Xor, _) => 0,
            (Fold::And, _) => u64::MAX,
            (Fold::Min, true) => scalar.mask() >> 1,
            (Fold::Max, true) => 1 << (scalar.bits() - 1),
            (Fold::Min, false) => infinity(f64::INFINITY),
            (Fold::Max, false) => infinity(f64::NEG_INFINITY),
        }
    }

    fn op(self, scalar: Scalar, lhs: Value, rhs: Value) -> Op {
        let (signedness, overflow) = (Signedness::Signed, Overflow::None);
        match (self, scalar.is_int()) {
            (Fold::Add, _) => Op::AddI { overflow, lhs, rhs },
            (Fold::And, _) => Op::AndI { lhs, rhs },
            (Fold::Xor, _) => Op::XOrI { lhs, rhs },
            (Fold::Min, true) => Op::MinI { signedness, lhs, rhs },
            (Fold::Max, true) => Op::MaxI { signedness, lhs, rhs },
            (Fold::Min, false) => Op::MinF { propagate_nan: false, flush_to_zero: false, lhs, rhs },
            (Fold::Max, false) => Op::MaxF { propagate_nan: false, flush_to_zero: false, lhs, rhs },
        }
    }
}

impl Generator {
    fn fold(&mut self, scalar: Scalar) -> Fold {
        match scalar.is_int() {
            true => self.random.pick(&[Fold::Add, Fold::Min, Fold::Max, Fold::And, Fold::Xor]),
            false => self.random.pick(&[Fold::Min, Fold::Max]),
        }
    }

    fn fold_body(&mut self, fold: Fold, scalar: Scalar) -> Region {
        let ty = self.build.tile(&Kind::new(scalar, &[]));
        let (region, args, before) = self.build.region(&[ty, ty]);
        let value = self.build.op(fold.op(scalar, args[0], args[1]), ty);
        self.build.ops(Op::Yield { operands: [value].into() }, &[]);
        self.build.close(before);
        region
    }

    fn foldable(&mut self) -> Option<(Value, Kind, usize)> {
        let (x, kind) = self.any();
        (!kind.shape.is_empty() && kind.scalar != Scalar::I1).then(|| {
            let dim = self.random.below(kind.shape.len());
            (x, kind, dim)
        })
    }

    pub(crate) fn reduce(&mut self) {
        let Some((x, kind, dim)) = self.foldable() else { return };
        let mut shape = kind.shape.clone();
        shape.remove(dim);
        if kind.scalar.is_int() && self.random.one_in(3) {
            return self.largest(x, &kind, dim, &shape);
        }
        let fold = self.fold(kind.scalar);
        let body = self.fold_body(fold, kind.scalar);
        let identity = self.attribute(kind.scalar, fold.identity(kind.scalar));
        let result = Kind::new(kind.scalar, &shape);
        let ty = self.build.tile(&result);
        let op = Op::Reduce { dim: dim as i32, identities: [identity].into(), operands: [x].into(), body };
        let value = self.build.op(op, ty);
        self.add(value, result);
    }

    /// The largest element and the first place that has it.
    fn largest(&mut self, x: Value, kind: &Kind, dim: usize, shape: &[i64]) {
        let places = Kind::new(Scalar::I32, &[kind.shape[dim]]);
        let ty = self.build.tile(&places);
        let iota = self.build.op(Op::Iota {}, ty);
        let mut narrow = vec![1; kind.shape.len()];
        narrow[dim] = kind.shape[dim];
        let along = self.reshape(iota, &places, &narrow);
        let ty = self.build.tile(&kind.of(Scalar::I32));
        let place = if narrow == kind.shape { along } else { self.build.op(Op::Broadcast { source: along }, ty) };
        let identities = [self.attribute(kind.scalar, Fold::Max.identity(kind.scalar)), self.attribute(Scalar::I32, 0x7fff_ffff)];
        let [element, number, bit] = [kind.scalar, Scalar::I32, Scalar::I1].map(|scalar| self.build.tile(&Kind::new(scalar, &[])));
        let (body, args, before) = self.build.region(&[element, element, number, number]);
        let signedness = Signedness::Signed;
        let compare = |comparison_predicate, lhs, rhs| Op::CmpI { comparison_predicate, signedness, lhs, rhs };
        let greater = self.build.op(compare(Predicate::GreaterThan, args[0], args[1]), bit);
        let equal = self.build.op(compare(Predicate::Equal, args[0], args[1]), bit);
        let earlier = self.build.op(compare(Predicate::LessThan, args[2], args[3]), bit);
        let tie = self.build.op(Op::AndI { lhs: equal, rhs: earlier }, bit);
        let cond = self.build.op(Op::OrI { lhs: greater, rhs: tie }, bit);
        let best = self.build.op(Op::Select { cond, val_if_true: args[0], val_if_false: args[1] }, element);
        let at = self.build.op(Op::Select { cond, val_if_true: args[2], val_if_false: args[3] }, number);
        self.build.ops(Op::Yield { operands: [best, at].into() }, &[]);
        self.build.close(before);
        let results = [Kind::new(kind.scalar, shape), Kind::new(Scalar::I32, shape)];
        let types = [self.build.tile(&results[0]), self.build.tile(&results[1])];
        let op = Op::Reduce { dim: dim as i32, identities: identities.into(), operands: [x, place].into(), body };
        let values = self.build.ops(op, &types);
        values.into_iter().zip(results).for_each(|(value, kind)| self.add(value, kind));
    }

    pub(crate) fn scan(&mut self) {
        let Some((x, kind, dim)) = self.foldable() else { return };
        let fold = self.fold(kind.scalar);
        let body = self.fold_body(fold, kind.scalar);
        let identity = self.attribute(kind.scalar, fold.identity(kind.scalar));
        let direction = self.random.pick(&[Direction::Forward, Direction::Reverse]);
        let ty = self.build.tile(&kind);
        let op = Op::Scan { dim: dim as i32, direction, identities: [identity].into(), operands: [x].into(), body };
        let value = self.build.op(op, ty);
        self.add(value, kind);
    }

    /// A scalar that blocks may disagree on.
    fn decision(&mut self) -> Value {
        let scalar = Kind::new(Scalar::I32, &[]);
        let number = if self.random.one_in(3) { self.some(&scalar) } else { self.block };
        let ty = self.build.tile(&scalar);
        let one = self.index_constant(1);
        let low = self.build.op(Op::AndI { lhs: number, rhs: one }, ty);
        let ty = self.build.tile(&scalar.of(Scalar::I1));
        let (comparison_predicate, signedness) = (Predicate::Equal, Signedness::Signed);
        self.build.op(Op::CmpI { comparison_predicate, signedness, lhs: low, rhs: one }, ty)
    }

    /// A region that computes a few things and ends in tiles of the given kinds.
    fn inner(&mut self, args: &[Kind], wanted: &[Kind], end: fn(Box<[Value]>) -> Op, counter: bool) -> Region {
        let mut types: Vec<_> = args.iter().map(|kind| self.build.tile(kind)).collect();
        if counter {
            types.insert(0, self.build.tile(&Kind::new(Scalar::I32, &[])));
        }
        let (region, values, before) = self.build.region(&types);
        let outside = self.pool.len();
        let kinds = counter.then(|| Kind::new(Scalar::I32, &[])).into_iter().chain(args.iter().cloned());
        values.iter().zip(kinds).for_each(|(value, kind)| self.add(*value, kind));
        self.depth += 1;
        for _ in 0..self.random.below(4) {
            match self.random.below(8) {
                0 if self.depth < 3 => self.conditional(),
                1 => self.reduce(),
                2 | 3 => self.reshaped(),
                _ => self.elementwise(),
            }
        }
        let results: Vec<Value> = wanted
            .iter()
            .map(|kind| {
                let x = self.some(kind);
                self.arithmetic(x, kind)
            })
            .collect();
        self.depth -= 1;
        self.pool.truncate(outside);
        self.build.ops(end(results.into()), &[]);
        self.build.close(before);
        region
    }

    fn kinds(&mut self) -> Vec<Kind> {
        (0..1 + self.random.below(2)).map(|_| self.any().1).collect()
    }

    pub(crate) fn conditional(&mut self) {
        let (kinds, condition) = (self.kinds(), self.decision());
        let regions = [0; 2].map(|_| self.inner(&[], &kinds, |operands| Op::Yield { operands }, false));
        let [then_region, else_region] = regions;
        let types: Vec<_> = kinds.iter().map(|kind| self.build.tile(kind)).collect();
        let values = self.build.ops(Op::If { condition, then_region, else_region }, &types);
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add(value, kind));
    }

    pub(crate) fn repeat(&mut self) {
        let kinds = self.kinds();
        let init_values: Vec<Value> = kinds.iter().map(|kind| self.some(kind)).collect();
        let end = self.random.below(5) as i64;
        let [lower_bound, upper_bound, step] = [0, end, 1 + self.random.below(2) as i64].map(|n| self.index_constant(n));
        let body = self.inner(&kinds.clone(), &kinds, |operands| Op::Continue { operands }, true);
        let types: Vec<_> = kinds.iter().map(|kind| self.build.tile(kind)).collect();
        let op = Op::For { unsigned_cmp: false, lower_bound, upper_bound, step, init_values: init_values.into(), body };
        let values = self.build.ops(op, &types);
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add(value, kind));
    }
}
