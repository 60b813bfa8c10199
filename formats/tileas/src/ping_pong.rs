//! Purpose: find two independent components of a function for ping-pong scheduling. Each component has its own accumulators in
//! tensor memory, from which its threads compute MMA operands.
//! Requires: a verified program, before or after scheduling.
//! Establishes: nothing; it is an analysis. The result assigns ops and buffers to two warp roles.
//! Preserves: the program.
//! See also: the ping-pong warp-group scheduling of FlashAttention-3 and of CUTLASS's `KernelTmaWarpSpecializedPingpong`.
//!
//! The components share only the buffers that TMA copies fill for the MMAs of both.

use crate::verify::TileAsOp;
use crate::{Buffer, BufferInfo, MmaAtom, Op, Space, Type};
use base::ir::Op as OpId;
use base::{Arena, Body, Region};
use core_dialect::components::{Components, OpEffects, components};
use core_dialect::core_ops::Effect;
use std::collections::{BTreeMap, BTreeSet};

/// The number of components: one for each of the two compute warp roles.
pub const COMPONENTS: usize = 2;

/// The assignment of ops and buffers to the components.
#[derive(Clone, Default)]
pub struct PingPong {
    /// The component of each op that computes on tiles.
    pub ops: BTreeMap<OpId, usize>,
    /// The accumulators of the second component.
    pub second_accumulators: BTreeSet<Buffer>,
    /// The used buffers in shared memory, each with its component; `None` if both components or other roles use it.
    pub buffers: BTreeMap<Buffer, Option<usize>>,
}

impl PingPong {
    /// Returns whether two buffers can share memory: they belong to the same component, or one of them is not in `buffers`. Reason:
    /// no synchronisation orders a warp role after the last access of another role to a buffer.
    pub fn can_share_memory(&self, a: Buffer, b: Buffer) -> bool {
        let component_of = |buffer: Buffer| self.buffers.get(&buffer);
        component_of(a).zip(component_of(b)).is_none_or(|(a, b)| a.is_some() && a == b)
    }
}

/// The two components of a function's ops. The error is the reason why the function does not have two. `is_left_out` returns
/// whether a warp role other than the two compute roles executes an op. `is_shared` returns whether both compute roles execute an
/// op.
pub fn ping_pong<O: TileAsOp>(
    body: &Body<O, Type>,
    region: Region,
    buffers: &Arena<Buffer, BufferInfo>,
    is_left_out: impl Fn(OpId) -> bool,
    is_shared: impl Fn(OpId) -> bool,
) -> Result<PingPong, &'static str> {
    let (ops, blocks, entry) = (body.walk(region), body.op_blocks(), body.block_of(region));
    let find_in_loops = |matches: fn(&Op) -> bool| {
        let ops_in_loops = ops.iter().filter(|op| blocks[op.0 as usize] != Some(entry));
        let found = ops_in_loops.filter(move |op| body.ops[**op].kind.tileas_op().is_some_and(matches));
        found.copied().collect::<Vec<OpId>>()
    };
    let tmem_loads = find_in_loops(|op| matches!(op, Op::TmemLoad { .. }));
    if tmem_loads.len() < COMPONENTS {
        return Err("threads load the accumulators of fewer than two MMAs per iteration");
    }
    let filled_by_tma = ops.iter().filter_map(|op| body.ops[*op].kind.effects()?.filled_by_tma());
    let filled_by_tma: BTreeSet<Buffer> = filled_by_tma.collect();
    let effects_of = |op: OpId| {
        let kind = &body.ops[op].kind;
        let effects = kind.effects().unwrap_or_default();
        match () {
            () if is_left_out(op) || effects.filled_by_tma().is_some() => None,
            () if is_shared(op) || kind.is_pure() => Some(OpEffects::default()),
            () if matches!(effects.core_effect, Effect::Branches | Effect::Leaves) => Some(OpEffects::default()),
            () => {
                let accessed = effects.buffers.iter().map(|access| access.buffer).filter(|buffer| !filled_by_tma.contains(buffer));
                Some(OpEffects { memory_objects: accessed.map(|buffer| buffer.0).collect(), is_source: true })
            }
        }
    };
    let components = components(body, region, effects_of);
    let components_of = |ops: Vec<OpId>| ops.into_iter().filter_map(|op| components.component_of(op)).collect::<BTreeSet<usize>>();
    // A component without computation between MMAs has nothing to overlap with the MMAs of the other component.
    let with_loads = components_of(tmem_loads);
    let with_stores = components_of(find_in_loops(|op| matches!(op, Op::TmemStore { .. })));
    let with_mmas = components_of(find_in_loops(|op| tmem_accumulator(op).is_some()));
    if with_loads.len() != COMPONENTS || with_stores != with_loads || with_mmas != with_loads {
        return Err("the computation between one MMA and the next is not independent of all other computation");
    }
    let second = with_loads.last().copied();
    let second_ops = ops.iter().filter(|op| components.component_of(**op) == second);
    let second_accumulators = second_ops.filter_map(|op| tmem_accumulator(body.ops[*op].kind.tileas_op()?)).collect();
    let component_ops =
        ops.iter().filter_map(|op| Some((*op, usize::from(Some(components.component_of(*op)?) == second)))).collect();
    let buffers = buffer_components(body, &ops, buffers, &components, second);
    Ok(PingPong { ops: component_ops, second_accumulators, buffers })
}

/// The accumulator in tensor memory that an MMA updates; `None` for other ops.
pub fn tmem_accumulator(op: &Op) -> Option<Buffer> {
    match op {
        Op::Mma { acc, atom: MmaAtom::Tensor(_), .. } => acc.buffer(),
        _ => None,
    }
}

/// The used buffers in shared memory, each with its component; `None` if both components or other roles use it.
fn buffer_components<O: TileAsOp>(
    body: &Body<O, Type>,
    ops: &[OpId],
    buffers: &Arena<Buffer, BufferInfo>,
    components: &Components,
    second: Option<usize>,
) -> BTreeMap<Buffer, Option<usize>> {
    let mut users: BTreeMap<Buffer, BTreeSet<Option<usize>>> = BTreeMap::new();
    for op in ops {
        let kind = &body.ops[*op].kind;
        // One role issues the TMA stores of both components, and signals their completion.
        if !matches!(kind.tileas_op(), Some(Op::TmaStore { .. })) {
            let component = components.component_of(*op).map(|component| usize::from(Some(component) == second));
            let effects = kind.effects().unwrap_or_default();
            effects.buffers.iter().for_each(|access| _ = users.entry(access.buffer).or_default().insert(component));
        }
    }
    users.retain(|buffer, _| buffers[*buffer].space == Space::Shared);
    let only_component = |users: BTreeSet<Option<usize>>| if users.len() == 1 { users.first().copied().flatten() } else { None };
    users.into_iter().map(|(buffer, users)| (buffer, only_component(users))).collect()
}
