//! Rules for modules: names of globals and functions, the data of globals, clusters that share tile blocks, and cluster launch
//! control.

use super::{CoreDialectOp, RuleResult, require};
use crate::core_ops::{CLUSTER_SIZES, Core};
use crate::persistent_loops::is_clc_loop;
use crate::tile::{Dense, Global, MAX_ALIGNMENT};
use base::{Block, Body, Value};
use std::collections::BTreeSet;

/// Checks that names are unique, and that each global's data and alignment are valid.
pub fn check_names<'a>(globals: &'a [Global], functions: impl Iterator<Item = &'a str>) -> RuleResult {
    let mut names = BTreeSet::new();
    for name in globals.iter().map(|global| global.name.as_str()).chain(functions) {
        require(names.insert(name), || format!("there are two things called '{name}'"))?;
    }
    globals.iter().try_for_each(check_global)
}

/// Checks the number of elements and the alignment of a global.
fn check_global(global: &Global) -> RuleResult {
    let count_fits = match &global.value {
        Dense::Splat(_) => true,
        Dense::Elements(elements) => elements.len() as u64 == global.count,
    };
    require(count_fits, || format!("global '{}' has data that does not fit its type", global.name))?;
    require(global.align.is_power_of_two() && global.align <= MAX_ALIGNMENT, || {
        format!("global '{}' has alignment {}, which is not a power of two up to {MAX_ALIGNMENT}", global.name, global.align)
    })
}

/// Checks that a cluster has an allowed number of CTAs (`cluster`). In a function without a cluster (`None`), no op may request the
/// rank of a CTA.
pub fn check_cluster<O: CoreDialectOp, T>(body: &Body<O, T>, cluster: Option<u32>) -> RuleResult {
    let [few, many] = CLUSTER_SIZES;
    require(cluster.is_none_or(|ranks| CLUSTER_SIZES.contains(&ranks)), || format!("a cluster has {few} or {many} CTAs"))?;
    let requests_rank = || body.ops.values().any(|op| matches!(op.kind.core(), Some(Core::ClusterRank {})));
    require(cluster.is_some() || !requests_rank(), || "it requests a rank, but there is no cluster".into())
}

/// Returns whether the CTAs of a function steal tile blocks by cluster launch control.
pub fn uses_clc<O: CoreDialectOp, T>(body: &Body<O, T>) -> bool {
    body.ops.values().any(|op| matches!(op.kind.core(), Some(Core::ClcBlockCount {})))
}

/// Checks the loops over the tile blocks that a CTA processes under cluster launch control (CLC). Such a loop starts at 0 and steps
/// by 1 up to the block count. No other loop or condition encloses it. Each of the blocks `outermost` contains at most one CLC
/// loop. Each `clc_block_id` uses the counter of a CLC loop.
pub fn check_clc_loops<O: CoreDialectOp, T>(body: &Body<O, T>, outermost: &[Block]) -> RuleResult {
    let has_clc_ops = body.ops.values().any(|op| matches!(op.kind.core(), Some(Core::ClcBlockCount {} | Core::ClcBlockId { .. })));
    if !has_clc_ops {
        return Ok(());
    }
    let defining_core = |value: Value| body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    let is_constant = |value: Value, number: u64| {
        defining_core(value).and_then(Core::constant).is_some_and(|constant| *constant == Dense::Splat(number))
    };
    let is_over_clc_blocks = |op: &O| is_clc_loop(body, op.core(), O::core);
    let mut counters = BTreeSet::new();
    for block in outermost {
        let ops = body.blocks[*block].ops.iter().map(|op| &body.ops[*op].kind);
        let clc_loops_here: Vec<&Core> = ops.filter(|op| is_over_clc_blocks(op)).filter_map(O::core).collect();
        require(clc_loops_here.len() <= 1, || "there are two CLC loops".into())?;
        for core in clc_loops_here {
            let Core::For { lower, step, body: region, .. } = core else { continue };
            require(is_constant(*lower, 0) && is_constant(*step, 1), || "a CLC loop counts from 0 in steps of 1".into())?;
            counters.extend(body.blocks[body.block_of(*region)].args.first().copied());
        }
    }
    let (mut count_uses, mut loops) = (0, 0);
    for op in body.ops.values() {
        loops += usize::from(is_over_clc_blocks(&op.kind));
        count_uses +=
            op.kind.operands().into_iter().filter(|value| matches!(defining_core(*value), Some(Core::ClcBlockCount {}))).count();
        if let Some(Core::ClcBlockId { iteration, .. }) = op.kind.core() {
            require(counters.contains(iteration), || "the tile block belongs to no iteration of the CLC loop".into())?;
        }
    }
    let is_only_use = count_uses == loops && loops == counters.len();
    require(is_only_use, || "the CLC block count may only be the end of the CLC loop, outside other loops and conditions".into())
}
