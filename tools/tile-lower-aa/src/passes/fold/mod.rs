//! Purpose: fold constants and bring ops into canonical form, up to a fixed point (`instcombine`).
//! Requires: `.aa`.
//! Establishes: constants are right operands of commutative ops and comparisons. Scalars are broadcast in one step. The opposite
//! comparison replaces a negated comparison. The file docs/internals/facts-and-folds.md lists the folds.
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

/// Maximum number of iterations over a function. Limits the compile time; programs in practice reach the fixed point earlier.
const MAX_ITERATIONS: usize = 8;

/// The replacement of an op with one result.
enum Folded {
    /// An existing value, which replaces the result.
    Value(Value),
    /// A core op, which replaces the op in place.
    Op(Core),
}

/// Runs the pass on a function until nothing changes. Returns the number of changes.
pub(super) fn run(function: &mut Function) -> usize {
    let mut change_count = 0;
    for _ in 0..MAX_ITERATIONS {
        let mut edit = Edit::new(function);
        for op in edit.ops_in_order() {
            fold_op(&mut edit, op);
        }
        match edit.finish() {
            0 => break,
            changes => change_count += changes,
        }
    }
    change_count
}

/// Folds an op, if a fold applies.
fn fold_op(edit: &mut Edit<'_>, op: OpId) {
    let kind = edit.resolved_op(op);
    let Op::Core(core) = kind else {
        memory::fold(edit, op, kind);
        return;
    };
    if let Some(branch) = core.as_if() {
        control::fold(edit, op, branch.cond, branch.then, branch.otherwise);
        return;
    }
    let [result] = edit.function.body.ops[op].results[..] else { return };
    let Some(folded) = memory::fold_join_tokens(edit, &core).or_else(|| fold_tile_op(edit, op, result, &core)) else { return };
    match folded {
        Folded::Value(value) => {
            edit.replace_uses(result, value);
            edit.remove(op);
        }
        Folded::Op(core) => edit.replace_op(op, core),
    }
}

/// Returns the replacement of an op whose result is a tile, if a fold applies.
fn fold_tile_op(edit: &mut Edit<'_>, op: OpId, result: Value, core: &Core) -> Option<Folded> {
    let (elem, shape) = edit.ty(result).tile().map(|(elem, shape)| (elem, shape.clone()))?;
    let typed_op = TypedOp { op, elem, shape };
    numbers::fold(edit, &typed_op, core).or_else(|| shapes::fold(edit, &typed_op, core))
}

/// An op and the type of its result.
struct TypedOp {
    op: OpId,
    /// The element type of the result.
    elem: Elem,
    /// The shape of the result.
    shape: Shape,
}

impl TypedOp {
    /// The type of the result.
    fn ty(&self) -> Type {
        Type::Tile { elem: self.elem, shape: self.shape.clone() }
    }
}

/// Returns a replacement by a constant that has these bits in every element.
fn fold_to_splat(bits: u64) -> Folded {
    Folded::Op(Core::Constant { value: Dense::Splat(bits) })
}
