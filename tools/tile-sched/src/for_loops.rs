//! The `for` loops of a function. Only these loops can be scheduled.

use base::Region;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use sched::Function;

/// The `for` loops of a function, in program order.
pub(crate) fn for_loops(function: &Function) -> Vec<OpId> {
    let body = &function.body;
    body.walk(function.region).into_iter().filter(|op| body.ops[*op].kind.core().is_some_and(Core::is_for)).collect()
}

/// The body of a `for` loop.
pub(crate) fn for_body(function: &Function, op: OpId) -> Region {
    function.body.ops[op].kind.core().and_then(Core::for_body).expect("only `for` loops are scheduled")
}
