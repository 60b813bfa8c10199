//! Builds slices of tiles along a dimension, with the views and indices that loads and stores of the slices need.

use base::ir::Op as OpId;
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Overflow, Signedness};
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};

/// The greatest tile index whose part indices fit the index type. `None` if the part indices of every tile fit. Tiles beyond this
/// index are outside any memory, so an index that is clamped to it is still out of bounds.
pub(crate) fn index_limit(facts: &Facts<'_>, index: Value, bits: u32, parts: u32) -> Option<i64> {
    let (low, high) = facts.range(index);
    let most = i64::MAX >> (64 - bits) >> parts.trailing_zeros();
    (low < -most || high >= most).then(|| most - 1)
}

/// Emits the ops of parts.
pub(crate) struct Parts<'a> {
    pub(crate) function: &'a mut Function,
    /// The number of parts.
    pub(crate) count: u32,
    pub(crate) loc: Loc,
    pub(crate) emitted: Vec<OpId>,
}

impl Parts<'_> {
    /// A view of the same memory with tiles of one part, defined after the original view.
    pub(crate) fn view(&mut self, view: Value, dim: usize) -> Value {
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

    /// The tile index of a part in the smaller view.
    pub(crate) fn index(&mut self, index: Value, limit: Option<i64>, part: u32) -> Value {
        let first = self.first_index(index, limit);
        self.with_number(Binary::AddI { overflow: Overflow::NoSignedWrap }, first, part.into())
    }

    /// The tile index of the first part in the smaller view.
    pub(crate) fn first_index(&mut self, mut index: Value, limit: Option<i64>) -> Value {
        if let Some(limit) = limit {
            index = self.with_number(Binary::MinI { signedness: Signedness::Signed }, index, limit as u64);
            index = self.with_number(Binary::MaxI { signedness: Signedness::Signed }, index, u64::MAX);
        }
        self.with_number(Binary::MulI { overflow: Overflow::NoSignedWrap }, index, self.count.into())
    }

    fn with_number(&mut self, kind: Binary, lhs: Value, number: u64) -> Value {
        let ty = self.function.body.ty(lhs).clone();
        let rhs = self.number(number, &ty);
        self.make(Op::Core(Core::Binary { kind, lhs, rhs }), [ty])[0]
    }

    /// Extracts a part of a tile.
    pub(crate) fn slice(&mut self, whole: Value, dim: usize, part: u32) -> Value {
        let dims = self.function.body.ty(whole).tile().expect("operands are tiles").1.len();
        let index = Type::Tile { elem: Elem::Scalar(Scalar::I32), shape: Shape::new() };
        let indices = (0..dims).map(|d| self.number(if d == dim { part.into() } else { 0 }, &index)).collect();
        let ty = self.ty(whole, dim);
        self.make(Op::Core(Core::Extract { x: whole, indices }), [ty])[0]
    }

    fn number(&mut self, number: u64, ty: &Type) -> Value {
        let bits = ty.tile().map_or(64, |(elem, _)| elem.bits());
        let value = Dense::Splat(number & (u64::MAX >> (64 - bits)));
        self.make(Op::Core(Core::Constant { value }), [ty.clone()])[0]
    }

    /// The type of a part of a tile.
    pub(crate) fn ty(&self, value: Value, dim: usize) -> Type {
        let (elem, shape) = self.function.body.ty(value).tile().expect("operands are tiles");
        let mut shape = shape.clone();
        shape[dim] /= self.count;
        Type::Tile { elem, shape }
    }

    pub(crate) fn make(&mut self, kind: Op, results: impl IntoIterator<Item = Type>) -> Vec<Value> {
        let op = self.function.body.new_op(kind, results, self.loc);
        self.emitted.push(op);
        self.function.body.ops[op].results.to_vec()
    }
}
