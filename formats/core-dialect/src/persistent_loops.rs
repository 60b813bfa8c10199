//! Persistent loops: a persistent kernel has one loop over the tile blocks of a whole grid.

use crate::core_ops::Core;
use crate::tile::Dense;
use base::ir::{Op, Operation};
use base::{Body, Value};
use std::collections::BTreeSet;

/// Returns whether a `for` starts at the CTA's own number and advances in steps, up to an end that is the same for all CTAs. Only
/// as many such CTAs are launched as can be resident. `core` returns the core op of an op.
pub fn is_persistent<O: Operation, T>(body: &Body<O, T>, for_op: Op, core: impl Fn(&O) -> Option<&Core>) -> bool {
    let Some(Core::For { lower, upper, step, .. }) = core(&body.ops[for_op].kind) else { return false };
    let has = |value: Value, is_it: fn(&Core) -> bool| is_computed_from(body, value, &core, is_it);
    let of_block = |value| has(value, |core| matches!(core, Core::BlockId { .. }));
    let of_grid = |value| has(value, |core| matches!(core, Core::BlockCount { .. }));
    let steps = body.defining_op(*step).and_then(|op| core(&body.ops[op].kind));
    let in_steps = matches!(steps, Some(Core::Constant { value: Dense::Splat(2..) })) || of_grid(*step);
    of_block(*lower) && in_steps && !of_block(*upper)
}

/// Returns whether an op is a `for` over the tile blocks that a CTA processes under cluster launch control.
pub fn is_clc_loop<O: Operation, T>(body: &Body<O, T>, kind: Option<&Core>, core: impl Fn(&O) -> Option<&Core>) -> bool {
    let Some(Core::For { upper, .. }) = kind else { return false };
    body.defining_op(*upper).is_some_and(|op| matches!(core(&body.ops[op].kind), Some(Core::ClcBlockCount {})))
}

/// Returns whether the computation of a value contains an op of a kind.
fn is_computed_from<O: Operation, T>(
    body: &Body<O, T>,
    value: Value,
    core: &impl Fn(&O) -> Option<&Core>,
    is_it: fn(&Core) -> bool,
) -> bool {
    let (mut seen, mut work) = (BTreeSet::new(), vec![value]);
    while let Some(value) = work.pop() {
        let Some(op) = body.defining_op(value).filter(|op| seen.insert(*op)) else { continue };
        match core(&body.ops[op].kind) {
            Some(core) if is_it(core) => return true,
            Some(core) if core.is_pure() => work.extend(body.ops[op].kind.operands()),
            _ => {}
        }
    }
    false
}
