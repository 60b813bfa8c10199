//! Generators of reductions with commutative and associative bodies, and of scans with associative bodies.

use crate::builder::TileKind;
use crate::program::{Generator, encode};
use base::ir::{Region, Value};
use numerics::Scalar;
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};
use tileir::Op;
use tileir::enums::Direction;

/// The associative and commutative operation that a reduction or scan applies to one operand.
#[derive(Clone, Copy)]
enum Fold {
    /// The operand of a float addition must contain small integers, so that the sum is exact in any order.
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
    /// Returns the bits of the identity element.
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

    /// Returns the op that combines two scalars.
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

/// The operands, identities and body of a reduction or scan over one or more tiles. Tile `i` has kind `i` and identity `i`.
struct FoldOperands {
    tiles: Vec<Value>,
    kinds: Vec<TileKind>,
    identities: Vec<u64>,
    body: Region,
}

impl Generator {
    /// Chooses an operation whose result on a tile of this kind does not depend on the order of the elements.
    fn random_fold(&mut self, kind: &TileKind) -> Fold {
        match kind.scalar {
            Scalar::I1 => self.random.pick(&[Fold::And, Fold::Or, Fold::Xor]),
            scalar if scalar.is_int() => {
                let operations =
                    [Fold::Add, Fold::Add, Fold::Mul, Fold::Min, Fold::Max, Fold::UMax, Fold::And, Fold::Or, Fold::Xor];
                self.random.pick(&operations)
            }
            // The sum of many elements needs more significand bits than these types have.
            Scalar::BF16 | Scalar::F16 if kind.count() > 256 => self.random.pick(&[Fold::Min, Fold::Max]),
            _ => self.random.pick(&[Fold::Min, Fold::Max, Fold::Add]),
        }
    }

    /// Chooses a tile of the pool and one of its dimensions. Returns `None` if the chosen tile is a scalar.
    fn tile_and_dimension(&mut self) -> Option<(Value, TileKind, usize)> {
        let (x, kind) = self.any_tile();
        (!kind.shape.is_empty()).then(|| {
            let dim = self.random.below(kind.shape.len());
            (x, kind, dim)
        })
    }

    /// Returns the operands of a reduction or scan over `x` and up to two other tiles. Each tile has its own operation.
    fn elementwise_fold(&mut self, x: Value, kind: &TileKind) -> FoldOperands {
        let mut tiles = vec![(x, kind.clone())];
        for _ in 0..self.random.below(3).saturating_sub(self.random.below(2)) {
            let kind = kind.with_scalar(self.any_element_type());
            let tile = self.tile_of_kind(&kind);
            tiles.push((tile, kind));
        }
        let folds: Vec<Fold> = tiles.iter().map(|(_, kind)| self.random_fold(kind)).collect();
        for ((tile, kind), fold) in tiles.iter_mut().zip(&folds) {
            if kind.scalar.is_float() && matches!(fold, Fold::Add) {
                // The largest possible sum must be exact in the narrowest type.
                *tile = self.small_integers(kind, 1);
            }
        }
        let types: Vec<_> = tiles.iter().map(|(_, kind)| self.builder.tile_type(&TileKind::new(kind.scalar, &[]))).collect();
        let (body, args, outer_block) = self.builder.open_region(&types.iter().flat_map(|ty| [*ty, *ty]).collect::<Vec<_>>());
        let results = folds.iter().enumerate().map(|(i, fold)| {
            let op = fold.op(tiles[i].1.scalar, args[2 * i], args[2 * i + 1]);
            self.builder.emit_with_type(op, types[i])
        });
        let operands = results.collect();
        self.builder.emit_with_types(Op::Yield { operands }, &[]);
        self.builder.close_region(outer_block);
        let identities = folds.iter().zip(&tiles).map(|(fold, (_, kind))| fold.identity(kind.scalar)).collect();
        let (tiles, kinds) = tiles.into_iter().unzip();
        FoldOperands { tiles, kinds, identities, body }
    }

    /// Returns the operands of an argmax, whose results are the largest element and its first index.
    fn argmax(&mut self, x: Value, kind: &TileKind, dim: usize) -> FoldOperands {
        let indices = TileKind::new(Scalar::I32, &[kind.shape[dim]]);
        let iota = self.builder.emit(&indices, Op::Iota {});
        let mut one_line = vec![1; kind.shape.len()];
        one_line[dim] = kind.shape[dim];
        let source = self.reshape(iota, &indices, &one_line);
        let numbers = kind.with_scalar(Scalar::I32);
        let index_tile = if one_line == kind.shape { source } else { self.builder.emit(&numbers, Op::Broadcast { source }) };
        let [element_type, i32_type, i1_type] =
            [kind.scalar, Scalar::I32, Scalar::I1].map(|scalar| self.builder.tile_type(&TileKind::new(scalar, &[])));
        let (body, args, outer_block) = self.builder.open_region(&[element_type, element_type, i32_type, i32_type]);
        let signedness = Signedness::Signed;
        let compare = |comparison_predicate, lhs, rhs| Op::CmpI { comparison_predicate, signedness, lhs, rhs };
        let greater = self.builder.emit_with_type(compare(Predicate::GreaterThan, args[0], args[1]), i1_type);
        let equal = self.builder.emit_with_type(compare(Predicate::Equal, args[0], args[1]), i1_type);
        let earlier = self.builder.emit_with_type(compare(Predicate::LessThan, args[2], args[3]), i1_type);
        let tie = self.builder.emit_with_type(Op::AndI { lhs: equal, rhs: earlier }, i1_type);
        let cond = self.builder.emit_with_type(Op::OrI { lhs: greater, rhs: tie }, i1_type);
        let largest = self.builder.emit_with_type(Op::Select { cond, val_if_true: args[0], val_if_false: args[1] }, element_type);
        let first_index = self.builder.emit_with_type(Op::Select { cond, val_if_true: args[2], val_if_false: args[3] }, i32_type);
        self.builder.emit_with_types(Op::Yield { operands: [largest, first_index].into() }, &[]);
        self.builder.close_region(outer_block);
        let identities = vec![Fold::Max.identity(kind.scalar), 0x7fff_ffff];
        FoldOperands { tiles: vec![x, index_tile], kinds: vec![kind.clone(), numbers], identities, body }
    }

    /// Returns the operands of a composition of affine functions `x -> a x + b`, which is associative but not commutative.
    fn recurrence(&mut self, x: Value, kind: &TileKind) -> FoldOperands {
        let factors = self.tile_of_kind(kind);
        let scalar = TileKind::new(kind.scalar, &[]);
        let ty = self.builder.tile_type(&scalar);
        let (body, args, outer_block) = self.builder.open_region(&[ty; 4]);
        // The left function, `a x + b`, is applied before the right one, `c x + d`.
        let [a, c, b, d] = args[..] else { unreachable!("a left and a right value of each operand") };
        let linear_term = self.builder.emit_mul(&scalar, a, c);
        let scaled_constant = self.builder.emit_mul(&scalar, b, c);
        let constant_term = self.builder.emit_add(&scalar, scaled_constant, d);
        self.builder.emit_with_types(Op::Yield { operands: [linear_term, constant_term].into() }, &[]);
        self.builder.close_region(outer_block);
        FoldOperands { tiles: vec![factors, x], kinds: vec![kind.clone(), kind.clone()], identities: vec![1, 0], body }
    }

    /// Emits a reduction of one or more tiles along a random dimension.
    pub(crate) fn reduce(&mut self) {
        let Some((x, kind, dim)) = self.tile_and_dimension() else { return };
        let is_integer = kind.scalar.is_int() && kind.scalar != Scalar::I1;
        let FoldOperands { tiles, kinds, identities, body } =
            if is_integer && self.random.one_in(3) { self.argmax(x, &kind, dim) } else { self.elementwise_fold(x, &kind) };
        let reduced_kind = |kind: &TileKind| {
            let mut shape = kind.shape.clone();
            shape.remove(dim);
            TileKind::new(kind.scalar, &shape)
        };
        let results: Vec<TileKind> = kinds.iter().map(reduced_kind).collect();
        let identities = kinds.iter().zip(identities).map(|(kind, bits)| self.scalar_attribute(kind.scalar, bits)).collect();
        let types: Vec<_> = results.iter().map(|kind| self.builder.tile_type(kind)).collect();
        let values = self.builder.emit_with_types(Op::Reduce { dim: dim as i32, identities, operands: tiles.into(), body }, &types);
        values.into_iter().zip(results).for_each(|(value, kind)| self.add_to_pool(value, kind));
    }

    /// Emits a scan of one or more tiles along a random dimension.
    pub(crate) fn scan(&mut self) {
        let Some((x, kind, dim)) = self.tile_and_dimension() else { return };
        let is_integer = kind.scalar.is_int() && kind.scalar != Scalar::I1;
        let FoldOperands { tiles, kinds, identities, body } = match self.random.below(4) {
            0 if is_integer => self.argmax(x, &kind, dim),
            1 if is_integer => self.recurrence(x, &kind),
            _ => self.elementwise_fold(x, &kind),
        };
        let identities = kinds.iter().zip(identities).map(|(kind, bits)| self.scalar_attribute(kind.scalar, bits)).collect();
        let types: Vec<_> = kinds.iter().map(|kind| self.builder.tile_type(kind)).collect();
        let direction = self.random.pick(&[Direction::Forward, Direction::Reverse]);
        let values =
            self.builder.emit_with_types(Op::Scan { dim: dim as i32, direction, identities, operands: tiles.into(), body }, &types);
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add_to_pool(value, kind));
    }
}
