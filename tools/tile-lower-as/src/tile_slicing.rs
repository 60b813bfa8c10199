//! Emits the ops that divide a tile along a dimension into equal parts: slices, and the views and tile indices with which the parts
//! are loaded and stored.

use base::ir::Op as OpId;
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Overflow, Signedness};
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};

/// The greatest tile index whose part indices fit an index type of `bits` bits. `None` if the part indices of every possible value
/// of `index` fit. A tile with a greater index is outside any memory, so an index that is clamped to this maximum is still out of
/// bounds.
pub(crate) fn max_splittable_index(facts: &Facts<'_>, index: Value, bits: u32, parts: u32) -> Option<i64> {
    let (low, high) = facts.range(index);
    let end = i64::MAX >> (64 - bits) >> parts.trailing_zeros();
    (low < -end || high >= end).then(|| end - 1)
}

/// Emits the ops that compute the parts of tiles.
pub(crate) struct PartBuilder<'a> {
    /// The function to which ops are added.
    pub(crate) function: &'a mut Function,
    /// The number of parts of each tile.
    pub(crate) count: u32,
    /// The location that the new ops get.
    pub(crate) loc: Loc,
    /// The new ops, which the caller inserts into a block.
    pub(crate) emitted: Vec<OpId>,
}

impl PartBuilder<'_> {
    /// Emits a view of the same memory whose tiles are parts along `dim`, right after the definition of `view`. Returns the new
    /// view.
    pub(crate) fn part_view(&mut self, view: Value, dim: usize) -> Value {
        let body = &mut self.function.body;
        let view_op = body.defining_op(view).expect("planned as a view with a defining op");
        let (kind, loc) = (body.ops[view_op].kind.clone(), body.ops[view_op].loc);
        let Type::View(mut ty) = body.ty(view).clone() else { unreachable!("planned as a view") };
        ty.tile[dim] /= self.count;
        let new = body.new_op(kind, [Type::View(ty)], loc);
        let block = body.op_blocks()[view_op.0 as usize].expect("the view is defined in a block");
        let ops = &mut body.blocks[block].ops;
        let at = ops.iter().position(|op| *op == view_op).expect("the view is defined in its block");
        ops.insert(at + 1, new);
        body.result(new)
    }

    /// Emits the tile index of part `part` of the tile with index `index`, for the view of [`PartBuilder::part_view`]. `max_index`
    /// is the result of [`max_splittable_index`].
    pub(crate) fn part_index(&mut self, index: Value, max_index: Option<i64>, part: u32) -> Value {
        let first = self.first_index(index, max_index);
        self.binary_with_constant(Binary::AddI { overflow: Overflow::NoSignedWrap }, first, part.into())
    }

    /// Emits the tile index of the first part of the tile with index `index`, for the view of [`PartBuilder::part_view`].
    pub(crate) fn first_index(&mut self, mut index: Value, max_index: Option<i64>) -> Value {
        if let Some(max_index) = max_index {
            index = self.binary_with_constant(Binary::MinI { signedness: Signedness::Signed }, index, max_index as u64);
            index = self.binary_with_constant(Binary::MaxI { signedness: Signedness::Signed }, index, u64::MAX);
        }
        self.binary_with_constant(Binary::MulI { overflow: Overflow::NoSignedWrap }, index, self.count.into())
    }

    /// Emits a binary op whose right operand is the constant `number`.
    fn binary_with_constant(&mut self, kind: Binary, lhs: Value, number: u64) -> Value {
        let ty = self.function.body.ty(lhs).clone();
        let rhs = self.constant(number, &ty);
        self.append_op(Op::Core(Core::Binary { kind, lhs, rhs }), [ty])[0]
    }

    /// Emits the extraction of part `part` of a tile along `dim`.
    pub(crate) fn slice_part(&mut self, whole: Value, dim: usize, part: u32) -> Value {
        let dims = self.function.body.ty(whole).tile().expect("operands are tiles").1.len();
        let index_type = Type::Tile { elem: Elem::Scalar(Scalar::I32), shape: Shape::new() };
        let indices = (0..dims).map(|d| self.constant(if d == dim { part.into() } else { 0 }, &index_type)).collect();
        let ty = self.part_type(whole, dim);
        self.append_op(Op::Core(Core::Extract { x: whole, indices }), [ty])[0]
    }

    /// Emits a constant of type `ty` whose elements are all `number`.
    fn constant(&mut self, number: u64, ty: &Type) -> Value {
        let bits = ty.tile().map_or(64, |(elem, _)| elem.bits());
        let value = Dense::Splat(number & (u64::MAX >> (64 - bits)));
        self.append_op(Op::Core(Core::Constant { value }), [ty.clone()])[0]
    }

    /// The type of a part of a tile along `dim`.
    pub(crate) fn part_type(&self, value: Value, dim: usize) -> Type {
        let (elem, shape) = self.function.body.ty(value).tile().expect("operands are tiles");
        let mut shape = shape.clone();
        shape[dim] /= self.count;
        Type::Tile { elem, shape }
    }

    /// Adds an op to `emitted`. Returns its results.
    pub(crate) fn append_op(&mut self, kind: Op, results: impl IntoIterator<Item = Type>) -> Vec<Value> {
        let op = self.function.body.new_op(kind, results, self.loc);
        self.emitted.push(op);
        self.function.body.ops[op].results.to_vec()
    }
}
