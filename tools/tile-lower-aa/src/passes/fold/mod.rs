//! Purpose: fold constants and bring ops into canonical form, up to a fixed point (`instcombine`).
//! Requires: `.aa`.
//! Establishes: constants are right operands of commutative ops and comparisons; scalars are broadcast in one step; a negated
//! comparison is the opposite comparison. docs/internals/facts-and-folds.md lists the folds.
//! Preserves: float results bit for bit, token order and memory orderings.
//! See also: LLVM's `InstCombine`; MLIR's canonicaliser.

mod control;
mod memory;
mod numbers;
mod shapes;

use super::edit::Edit;
use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use tileaa::{Function, Op, Type};

/// Limit on the iterations over a function. Programs in practice need fewer.
const MAX_ITERATIONS: usize = 8;

/// The replacement of an op with one result.
enum Folded {
    Value(Value),
    Op(Core),
}

pub(super) fn run(function: &mut Function) -> usize {
    let mut total = 0;
    for _ in 0..MAX_ITERATIONS {
        let mut edit = Edit::new(function);
        for op in edit.order() {
            fold_op(&mut edit, op);
        }
        match edit.finish() {
            0 => break,
            changes => total += changes,
        }
    }
    total
}

fn fold_op(edit: &mut Edit<'_>, op: OpId) {
    let kind = edit.kind(op);
    let Op::Core(core) = kind else {
        memory::fold(edit, op, kind);
        return;
    };
    if let Core::If { cond, then, otherwise } = core {
        control::fold(edit, op, cond, then, otherwise);
        return;
    }
    let [result] = edit.function.body.ops[op].results[..] else { return };
    let Some(folded) = memory::join_tokens(edit, &core).or_else(|| tile(edit, op, result, &core)) else { return };
    match folded {
        Folded::Value(value) => {
            edit.forward(result, value);
            edit.remove(op);
        }
        Folded::Op(core) => edit.become_op(op, core),
    }
}

fn tile(edit: &mut Edit<'_>, op: OpId, result: Value, core: &Core) -> Option<Folded> {
    let (elem, shape) = edit.ty(result).tile().map(|(elem, shape)| (elem, shape.clone()))?;
    let at = TypedOp { op, elem, shape };
    numbers::fold(edit, &at, core).or_else(|| shapes::fold(edit, &at, core))
}

/// An op and the type of its result.
struct TypedOp {
    op: OpId,
    elem: Elem,
    shape: Shape,
}

impl TypedOp {
    fn ty(&self) -> Type {
        Type::Tile { elem: self.elem, shape: self.shape.clone() }
    }
}

fn splat(bits: u64) -> Folded {
    Folded::Op(Core::Constant { value: Dense::Splat(bits) })
}
