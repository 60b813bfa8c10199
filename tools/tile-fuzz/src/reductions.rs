//! Reductions with commutative and associative bodies, and scans with associative bodies.

use crate::builder::Kind;
use crate::program::{Generator, encode};
use base::ir::{Region, Value};
use numerics::Scalar;
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};
use tileir::Op;
use tileir::enums::Direction;

/// An associative and commutative operation.
#[derive(Clone, Copy)]
enum Fold {
    /// Requires small integers if the elements are floats, so that the sum is exact.
    Add,
    Mul,
    Min,
    Max,
    UMax,
    And,
    Or,
    Xor,
}

impl Fold {
    fn identity(self, scalar: Scalar) -> u64 {
        match (self, scalar.is_int()) {
            (Fold::Add | Fold::Xor | Fold::Or | Fold::UMax, _) => 0,
            (Fold::Mul, _) => 1,
            (Fold::And, _) => u64::MAX,
            (Fold::Min, true) => scalar.mask() >> 1,
            (Fold::Max, true) => 1 << (scalar.bits() - 1),
            (Fold::Min, false) => encode(scalar, f64::INFINITY),
            (Fold::Max, false) => encode(scalar, f64::NEG_INFINITY),
        }
    }

    fn op(self, scalar: Scalar, lhs: Value, rhs: Value) -> Op {
        let (signedness, overflow) = (Signedness::Signed, Overflow::None);
        let (propagate_nan, flush_to_zero, rounding_mode) = (false, false, Rounding::NearestEven);
        match (self, scalar.is_int()) {
            (Fold::Add, true) => Op::AddI { overflow, lhs, rhs },
            (Fold::Add, false) => Op::AddF { flush_to_zero, rounding_mode, lhs, rhs },
            (Fold::Mul, _) => Op::MulI { overflow, lhs, rhs },
            (Fold::And, _) => Op::AndI { lhs, rhs },
            (Fold::Or, _) => Op::OrI { lhs, rhs },
            (Fold::Xor, _) => Op::XOrI { lhs, rhs },
            (Fold::UMax, _) => Op::MaxI { signedness: Signedness::Unsigned, lhs, rhs },
            (Fold::Min, true) => Op::MinI { signedness, lhs, rhs },
            (Fold::Max, true) => Op::MaxI { signedness, lhs, rhs },
            (Fold::Min, false) => Op::MinF { propagate_nan, flush_to_zero, lhs, rhs },
            (Fold::Max, false) => Op::MaxF { propagate_nan, flush_to_zero, lhs, rhs },
        }
    }
}

/// Operands, identities and body of a reduction or scan over one or more tiles.
struct FoldOperands {
    tiles: Vec<Value>,
    kinds: Vec<Kind>,
    identities: Vec<u64>,
    body: Region,
}

impl Generator {
    fn fold(&mut self, kind: &Kind) -> Fold {
        match kind.scalar {
            Scalar::I1 => self.random.pick(&[Fold::And, Fold::Or, Fold::Xor]),
            scalar if scalar.is_int() => {
                let all = [Fold::Add, Fold::Add, Fold::Mul, Fold::Min, Fold::Max, Fold::UMax, Fold::And, Fold::Or, Fold::Xor];
                self.random.pick(&all)
            }
            // The sum of many elements needs more significand bits than these types have.
            Scalar::BF16 | Scalar::F16 if kind.count() > 256 => self.random.pick(&[Fold::Min, Fold::Max]),
            _ => self.random.pick(&[Fold::Min, Fold::Max, Fold::Add]),
        }
    }

    fn dimension(&mut self) -> Option<(Value, Kind, usize)> {
        let (x, kind) = self.any();
        (!kind.shape.is_empty()).then(|| {
            let dim = self.random.below(kind.shape.len());
            (x, kind, dim)
        })
    }

    /// Folds several tiles in one op. Each tile has its own operation.
    fn fold_each(&mut self, x: Value, kind: &Kind) -> FoldOperands {
        let mut tiles = vec![(x, kind.clone())];
        for _ in 0..self.random.below(3).saturating_sub(self.random.below(2)) {
            let kind = kind.of(self.scalar());
            let tile = self.some(&kind);
            tiles.push((tile, kind));
        }
        let folds: Vec<Fold> = tiles.iter().map(|(_, kind)| self.fold(kind)).collect();
        for ((tile, kind), fold) in tiles.iter_mut().zip(&folds) {
            if kind.scalar.is_float() && matches!(fold, Fold::Add) {
                // The largest possible sum must be exact in the narrowest type.
                *tile = self.small(kind, 1);
            }
        }
        let types: Vec<_> = tiles.iter().map(|(_, kind)| self.build.tile(&Kind::new(kind.scalar, &[]))).collect();
        let (body, args, before) = self.build.region(&types.iter().flat_map(|ty| [*ty, *ty]).collect::<Vec<_>>());
        let results = folds.iter().enumerate().map(|(i, fold)| {
            let op = fold.op(tiles[i].1.scalar, args[2 * i], args[2 * i + 1]);
            self.build.op(op, types[i])
        });
        let operands = results.collect();
        self.build.ops(Op::Yield { operands }, &[]);
        self.build.close(before);
        let identities = folds.iter().zip(&tiles).map(|(fold, (_, kind))| fold.identity(kind.scalar)).collect();
        let (tiles, kinds) = tiles.into_iter().unzip();
        FoldOperands { tiles, kinds, identities, body }
    }

    /// The operands of an argmax: the largest element and its first index.
    fn argmax(&mut self, x: Value, kind: &Kind, dim: usize) -> FoldOperands {
        let indices = Kind::new(Scalar::I32, &[kind.shape[dim]]);
        let iota = self.build.emit(&indices, Op::Iota {});
        let mut one_line = vec![1; kind.shape.len()];
        one_line[dim] = kind.shape[dim];
        let source = self.reshape(iota, &indices, &one_line);
        let numbers = kind.of(Scalar::I32);
        let index_value = if one_line == kind.shape { source } else { self.build.emit(&numbers, Op::Broadcast { source }) };
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
        let identities = vec![Fold::Max.identity(kind.scalar), 0x7fff_ffff];
        FoldOperands { tiles: vec![x, index_value], kinds: vec![kind.clone(), numbers], identities, body }
    }

    /// The operands of a composition of affine functions `x -> a x + b`, which is associative but not commutative.
    fn recurrence(&mut self, x: Value, kind: &Kind) -> FoldOperands {
        let factors = self.some(kind);
        let scalar = Kind::new(kind.scalar, &[]);
        let ty = self.build.tile(&scalar);
        let (body, args, before) = self.build.region(&[ty; 4]);
        // The left function, `a x + b`, is applied before the right one, `c x + d`.
        let [a, c, b, d] = args[..] else { unreachable!("a left and a right value of each operand") };
        let factor = self.build.times(&scalar, a, c);
        let carried = self.build.times(&scalar, b, c);
        let added = self.build.plus(&scalar, carried, d);
        self.build.ops(Op::Yield { operands: [factor, added].into() }, &[]);
        self.build.close(before);
        FoldOperands { tiles: vec![factors, x], kinds: vec![kind.clone(), kind.clone()], identities: vec![1, 0], body }
    }

    pub(crate) fn reduce(&mut self) {
        let Some((x, kind, dim)) = self.dimension() else { return };
        let is_integer = kind.scalar.is_int() && kind.scalar != Scalar::I1;
        let FoldOperands { tiles, kinds, identities, body } =
            if is_integer && self.random.one_in(3) { self.argmax(x, &kind, dim) } else { self.fold_each(x, &kind) };
        let kept = |kind: &Kind| {
            let mut shape = kind.shape.clone();
            shape.remove(dim);
            Kind::new(kind.scalar, &shape)
        };
        let results: Vec<Kind> = kinds.iter().map(kept).collect();
        let identities = kinds.iter().zip(identities).map(|(kind, bits)| self.attribute(kind.scalar, bits)).collect();
        let types: Vec<_> = results.iter().map(|kind| self.build.tile(kind)).collect();
        let values = self.build.ops(Op::Reduce { dim: dim as i32, identities, operands: tiles.into(), body }, &types);
        values.into_iter().zip(results).for_each(|(value, kind)| self.add(value, kind));
    }

    pub(crate) fn scan(&mut self) {
        let Some((x, kind, dim)) = self.dimension() else { return };
        let is_integer = kind.scalar.is_int() && kind.scalar != Scalar::I1;
        let FoldOperands { tiles, kinds, identities, body } = match self.random.below(4) {
            0 if is_integer => self.argmax(x, &kind, dim),
            1 if is_integer => self.recurrence(x, &kind),
            _ => self.fold_each(x, &kind),
        };
        let identities = kinds.iter().zip(identities).map(|(kind, bits)| self.attribute(kind.scalar, bits)).collect();
        let types: Vec<_> = kinds.iter().map(|kind| self.build.tile(kind)).collect();
        let direction = self.random.pick(&[Direction::Forward, Direction::Reverse]);
        let values = self.build.ops(Op::Scan { dim: dim as i32, direction, identities, operands: tiles.into(), body }, &types);
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add(value, kind));
    }
}
