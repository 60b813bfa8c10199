//! Invariant *uniform trip count*: every warp role computes the same number of executions of an op. Only counted loops enclose such
//! an op, and outside these loops only conditions on arguments. Producers and consumers of a pipeline then visit the same number of
//! stages.

use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::BTreeSet;
use tileaa::{Function, Op};

/// The outermost `for` around an op, or the op itself, if it has a *uniform trip count*. A condition inside a loop would make
/// pipeline phases depend on it. A condition outside all loops is allowed if it depends on arguments only, because all roles can
/// compute it.
pub(crate) fn outermost_loop(function: &Function, blocks: &[Option<Block>], op: OpId) -> Option<OpId> {
    let body = &function.body;
    let (mut at, mut outermost, mut in_condition) = (op, op, false);
    while blocks[at.0 as usize] != Some(function.entry()) {
        let block = blocks[at.0 as usize];
        at = body.ops.ids().find(|op| body.ops[*op].kind.regions().iter().any(|region| block == Some(body.block_of(*region))))?;
        match core(&body.ops[at].kind)? {
            Core::For { .. } if !in_condition => outermost = at,
            Core::If { cond, .. } if is_of_arguments(function, blocks, *cond) => in_condition = true,
            _ => return None,
        }
    }
    Some(outermost)
}

/// Whether a scalar depends only on arguments and block indices, in the entry block. All warp roles then compute the same value.
fn is_of_arguments(function: &Function, blocks: &[Option<Block>], value: Value) -> bool {
    let body = &function.body;
    let early = |op: OpId, value: Value| {
        let is_scalar = body.ty(value).tile().is_none_or(|(_, shape)| shape.is_empty());
        is_scalar && blocks[op.0 as usize] == Some(function.entry())
    };
    follow(function, [value], |value, op| match op {
        None if function.params().contains(&value) => Ok(false),
        Some(op) if early(op, value) && is_pure(&body.ops[op].kind) => Ok(true),
        _ => Err(()),
    })
    .is_ok()
}

/// Visits some values and, transitively, their operands, each once. `goes_on` returns whether to follow the operands of a value, or
/// an error.
pub(crate) fn follow<E>(
    function: &Function,
    from: impl IntoIterator<Item = Value>,
    goes_on: impl Fn(Value, Option<OpId>) -> Result<bool, E>,
) -> Result<(), E> {
    let body = &function.body;
    let (mut seen, mut work) = (BTreeSet::new(), from.into_iter().collect::<Vec<_>>());
    while let Some(value) = work.pop() {
        let producer = body.defining_op(value);
        if seen.insert(value) && goes_on(value, producer)? {
            work.extend(producer.into_iter().flat_map(|op| body.ops[op].kind.operands()));
        }
    }
    Ok(())
}

pub(crate) fn is_pure(op: &Op) -> bool {
    op.regions().is_empty() && core(op).is_some_and(Core::is_pure)
}

pub(crate) fn core(op: &Op) -> Option<&Core> {
    match op {
        Op::Core(core) => Some(core),
        _ => None,
    }
}
