//! Persistent kernels: a loop over tile blocks lets each CTA process several tile blocks, so the grid has fewer CTAs than tile
//! blocks. Also the test whether a kernel has a single tile block.

use crate::core_ops::Core;
use crate::tile::Dense;
use base::ir::{Op, Operation};
use base::{Body, Region, Value};
use std::collections::BTreeSet;

/// Returns whether a `for` is the loop of a persistent kernel. Such a loop starts at the block index of the CTA. Its step is the
/// grid size, or a constant above one. Its upper bound is the same for all CTAs. `core` returns the core op of an op.
pub fn is_persistent<O: Operation, T>(body: &Body<O, T>, for_op: Op, core: impl Fn(&O) -> Option<&Core>) -> bool {
    let Some(Core::For { lower, upper, step, .. }) = core(&body.ops[for_op].kind) else { return false };
    let depends_on = |value: Value, is_source: fn(&Core) -> bool| is_computed_from(body, value, &core, is_source);
    let depends_on_block_id = |value| depends_on(value, |core| matches!(core, Core::BlockId { .. }));
    let depends_on_grid_size = |value| depends_on(value, |core| matches!(core, Core::BlockCount { .. }));
    let step_op = body.defining_op(*step).and_then(|op| core(&body.ops[op].kind));
    let skips_tile_blocks = matches!(step_op, Some(Core::Constant { value: Dense::Splat(2..) })) || depends_on_grid_size(*step);
    depends_on_block_id(*lower) && skips_tile_blocks && !depends_on_block_id(*upper)
}

/// Returns whether a kernel has one tile block: its body `region` does not read the block index. Reason: several tile blocks would
/// all do the same work.
pub fn has_one_tile_block<O: Operation, T>(body: &Body<O, T>, region: Region, core: impl Fn(&O) -> Option<&Core>) -> bool {
    let reads_block_index = |op: &Op| matches!(core(&body.ops[*op].kind), Some(Core::BlockId { .. } | Core::ClcBlockId { .. }));
    !body.walk(region).iter().any(reads_block_index)
}

/// Returns whether the core op `kind` is a `for` over the tile blocks that a CTA processes under cluster launch control (CLC).
/// `core` returns the core op of an op.
pub fn is_clc_loop<O: Operation, T>(body: &Body<O, T>, kind: Option<&Core>, core: impl Fn(&O) -> Option<&Core>) -> bool {
    let Some(Core::For { upper, .. }) = kind else { return false };
    body.defining_op(*upper).is_some_and(|op| matches!(core(&body.ops[op].kind), Some(Core::ClcBlockCount {})))
}

/// Returns whether a value is computed from an op that `is_source` accepts, through pure core ops.
fn is_computed_from<O: Operation, T>(
    body: &Body<O, T>,
    value: Value,
    core: &impl Fn(&O) -> Option<&Core>,
    is_source: fn(&Core) -> bool,
) -> bool {
    let (mut visited, mut worklist) = (BTreeSet::new(), vec![value]);
    while let Some(value) = worklist.pop() {
        let Some(op) = body.defining_op(value).filter(|op| visited.insert(*op)) else { continue };
        match core(&body.ops[op].kind) {
            Some(core) if is_source(core) => return true,
            Some(core) if core.is_pure() => worklist.extend(body.ops[op].kind.operands()),
            _ => {}
        }
    }
    false
}
