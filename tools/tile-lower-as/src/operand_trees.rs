//! Walks the operand trees of values.

use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::BTreeSet;
use tileaa::{Function, Op};

/// Visits the operand tree of some values, each once. `goes_on` decides whether to follow a value's operands, or returns an error.
pub(crate) fn follow<E>(
    function: &Function,
    from: impl IntoIterator<Item = Value>,
    goes_on: impl Fn(Value, Option<OpId>) -> Result<bool, E>,
) -> Result<(), E> {
    let body = &function.body;
    let (mut seen, mut work) = (BTreeSet::new(), from.into_iter().collect::<Vec<_>>());
    while let Some(value) = work.pop() {
        let made_by = body.defining_op(value);
        if seen.insert(value) && goes_on(value, made_by)? {
            work.extend(made_by.into_iter().flat_map(|op| body.ops[op].kind.operands()));
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
