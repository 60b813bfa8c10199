//! Visits values, the operands of the ops that compute them, and so on.

use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::BTreeSet;
use tileaa::{Function, Op};

/// Visits the values `from` and, transitively, the operands of their defining ops, each once. `follows_operands` receives a value
/// and its defining op (`None` for a block argument). It returns whether to visit the operands of this op, or an error that ends
/// the walk.
pub(crate) fn visit_operand_trees<E>(
    function: &Function,
    from: impl IntoIterator<Item = Value>,
    follows_operands: impl Fn(Value, Option<OpId>) -> Result<bool, E>,
) -> Result<(), E> {
    let body = &function.body;
    let (mut seen, mut work) = (BTreeSet::new(), from.into_iter().collect::<Vec<_>>());
    while let Some(value) = work.pop() {
        let producer = body.defining_op(value);
        if seen.insert(value) && follows_operands(value, producer)? {
            work.extend(producer.into_iter().flat_map(|op| body.ops[op].kind.operands()));
        }
    }
    Ok(())
}

/// Returns whether the op belongs to the core dialect, and has no regions and no side effects.
pub(crate) fn is_pure(op: &Op) -> bool {
    op.regions().is_empty() && as_core(op).is_some_and(Core::is_pure)
}

/// Returns the op as an op of the core dialect, if it is one.
pub(crate) fn as_core(op: &Op) -> Option<&Core> {
    match op {
        Op::Core(core) => Some(core),
        _ => None,
    }
}
