//! Purpose: find functions whose chained MMAs form two independent components: no tile except loaded operands is common to both. An
//! example is attention with two M subtiles. Two compute roles of four warps each can execute the components and hide each other's
//! MMA latency.
//! Requires: `.aa`; a target with tensor memory.
//! Establishes: the ops of the second component. `tile-sched` finds the components again and assigns them to roles.
//! Preserves: the program; this is an analysis. If shared memory is too small for two roles, the function is planned again for one.
//! See also: Triton's `WSTaskPartition` and `DataPartition`; the two softmax warp groups of FlashAttention-3 and CUTLASS FMHA.

use crate::operands;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use core_dialect::components::{OpEffects, components};
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileaa::{Function, Op};
use tileas::ping_pong::COMPONENTS;
use tileas::tensor_memory::LANES;
use tileas::{Buffer, budget, liveness};

/// Minimum stages of a multi-stage buffer that a loop fills.
const MIN_STAGES: u32 = 2;
/// Bytes of shared memory reserved for mbarriers.
const MBARRIER_BYTES: u32 = 1024;

/// The ops of the second component. Empty unless the chained MMAs of the function form exactly two independent components.
pub(crate) fn second_component(function: &Function, target: Target) -> BTreeSet<OpId> {
    let chained = operands::chained_mmas(function);
    if !target.has(Feature::TensorMemory) || chained.is_empty() || !chained.iter().all(|op| has_all_lanes(function, *op)) {
        return BTreeSet::new();
    }
    let body = &function.body;
    let mma_only_tiles = mma_only_tiles(function);
    let connected = components(body, function.region, |op| Some(op_effects(function, &mma_only_tiles, op)));
    let mma_components: BTreeSet<Option<usize>> = chained.iter().map(|op| connected.component_of(*op)).collect();
    if mma_components.len() != COMPONENTS {
        return BTreeSet::new();
    }
    let second = mma_components.last().copied().flatten();
    body.walk(function.region).into_iter().filter(|op| second.is_some() && connected.component_of(*op) == second).collect()
}

/// Whether the accumulator of an MMA has exactly one row for each of the 128 TMEM lanes, which four warps access.
fn has_all_lanes(function: &Function, mma: OpId) -> bool {
    let accumulator_type = function.body.ty(function.body.result(mma)).tile();
    accumulator_type.is_some_and(|(_, shape)| shape.len() == 2 && shape[0] == LANES)
}

/// The effects of an op for the analysis [`components`]. A source is an op whose results belong to one component. Sources are MMAs,
/// ops with effects, and loads of tiles that ops other than MMAs use.
fn op_effects(function: &Function, mma_only_tiles: &BTreeSet<Value>, op: OpId) -> OpEffects {
    let node = &function.body.ops[op];
    let may_be_shared = |value: &Value| {
        mma_only_tiles.contains(value) || function.body.ty(*value).tile().is_none_or(|(_, shape)| element_count(shape) == 1)
    };
    let is_source = match &node.kind {
        Op::Mma { .. } | Op::MmaScaled { .. } => true,
        Op::LoadView { .. } | Op::Load { .. } => !may_be_shared(&node.results[0]),
        kind => !kind.is_pure(),
    };
    OpEffects { memory_objects: Vec::new(), is_source }
}

/// The tiles that only MMAs use, as left or right operands, directly or through permutes and reshapes.
fn mma_only_tiles(function: &Function) -> BTreeSet<Value> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let mut users: BTreeMap<Value, Vec<(OpId, usize)>> = BTreeMap::new();
    for &op in &ops {
        for (operand_index, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            users.entry(value).or_default().push((op, operand_index));
        }
    }
    let mut mma_only = BTreeSet::new();
    for &op in ops.iter().rev() {
        let is_mma_operand = |(user, operand_index): &(OpId, usize)| match &body.ops[*user].kind {
            Op::Core(Core::Permute { .. } | Core::Reshape { .. }) => mma_only.contains(&body.result(*user)),
            _ => operands::is_mma(function, *user) && *operand_index < 2,
        };
        if let Some(value) = body.ops[op].results.first()
            && users.get(value).is_some_and(|users| users.iter().all(is_mma_operand))
        {
            mma_only.insert(*value);
        }
    }
    mma_only
}

/// Whether shared memory fits the buffers of both roles, and two stages of the buffers that loops fill for both roles.
pub(crate) fn fits_two_roles(function: &tileas::Function, target: Target) -> bool {
    let (body, buffers) = (&function.body, &function.attrs.buffers);
    let is_stored = |op: OpId| matches!(body.ops[op].kind, tileas::Op::TmaStore { .. });
    let Ok(pair) = tileas::ping_pong::ping_pong(body, function.region, buffers, is_stored, |_| false) else { return false };
    let staged_buffers = liveness::min_staged_buffers(body, function.region, tileas::Op::effects);
    let liveness = liveness::liveness(body, function.region, buffers, tileas::Op::effects, &staged_buffers);
    let bytes = |buffer: &Buffer| buffers[*buffer].bytes();
    let component_bytes = |component: usize| {
        let own = |buffer: &Buffer| pair.buffers.get(buffer) == Some(&Some(component));
        let meets = |one: Buffer, other: Buffer| own(&one) && own(&other) && liveness[one].overlaps(liveness[other]);
        let places = liveness::place_buffers(buffers, meets, |_| 1);
        places.iter().filter(|(buffer, _)| own(buffer)).map(|(buffer, at)| at.saturating_add(bytes(&buffer))).max().unwrap_or(0)
    };
    // Consecutive loops reuse the memory of multi-stage buffers, so only the loop with the most bytes counts.
    let mut staged_bytes_by_loop: BTreeMap<Block, u32> = BTreeMap::new();
    for (buffer, staged_buffer) in &staged_buffers {
        *staged_bytes_by_loop.entry(staged_buffer.block).or_default() += MIN_STAGES * bytes(buffer);
    }
    let other_buffers = pair
        .buffers
        .iter()
        .filter(|(buffer, component)| component.is_none() && !staged_buffers.contains_key(buffer))
        .map(|(buffer, _)| bytes(buffer));
    let own_bytes: u32 = (0..COMPONENTS).map(component_bytes).sum();
    let total_bytes = own_bytes + staged_bytes_by_loop.into_values().max().unwrap_or(0) + other_buffers.sum::<u32>();
    total_bytes + MBARRIER_BYTES <= budget::shared_memory(target)
}
