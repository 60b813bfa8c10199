//! Purpose: finds two independent components of a function for ping-pong scheduling. Each has its own accumulators in tensor
//! memory, from which its threads compute MMA operands.
//! Requires: a verified program, with or without the steps of a schedule.
//! Establishes: nothing; it is an analysis. The result assigns ops and buffers to two warp roles.
//! Preserves: the program.
//! See also: the ping-pong warp-group scheduling of FlashAttention-3 and of CUTLASS's `KernelTmaWarpSpecializedPingpong`.
//!
//! The components share only the buffers that TMA copies fill for the MMAs of both.

use crate::verify::Program;
use crate::{Buffer, BufferInfo, MmaAtom, Op, Space, Type};
use base::ir::Op as OpId;
use base::{Arena, Body, Region};
use core_dialect::components::{Components, OpEffects, components};
use core_dialect::core_ops::Effect;
use std::collections::{BTreeMap, BTreeSet};

/// The number of components.
pub const COMPONENTS: usize = 2;

/// The assignment of ops and buffers to the components.
#[derive(Clone, Default)]
pub struct PingPong {
    /// The component of each op that computes on tiles.
    pub ops: BTreeMap<OpId, usize>,
    /// The accumulators of the second component.
    pub second_accumulators: BTreeSet<Buffer>,
    /// The used buffers of shared memory, each with its only component.
    pub buffers: BTreeMap<Buffer, Option<usize>>,
}

impl PingPong {
    /// Returns whether two buffers can share memory: they belong to the same component, or not both are in the table. Reason: a
    /// warp role does not know when the buffers of another role are dead.
    pub fn share(&self, one: Buffer, other: Buffer) -> bool {
        let of = |buffer: Buffer| self.buffers.get(&buffer);
        of(one).zip(of(other)).is_none_or(|(one, other)| one.is_some() && one == other)
    }
}

/// The two components of a function's ops, or the reason why there are not two. Other roles execute the ops that are `left_out`;
/// each component executes the ops that are `is_shared`.
pub fn ping_pong<O: Program>(
    (body, region): (&Body<O, Type>, Region),
    buffers: &Arena<Buffer, BufferInfo>,
    left_out: impl Fn(OpId) -> bool,
    is_shared: impl Fn(OpId) -> bool,
) -> Result<PingPong, &'static str> {
    let (all, blocks, entry) = (body.walk(region), body.op_blocks(), body.block_of(region));
    let in_iterations = |is_one: fn(&Op) -> bool| {
        let ops_in_loops = all.iter().filter(|op| blocks[op.0 as usize] != Some(entry));
        let found = ops_in_loops.filter(move |op| body.ops[**op].kind.program().is_some_and(is_one));
        found.copied().collect::<Vec<OpId>>()
    };
    let tmem_loads = in_iterations(|op| matches!(op, Op::TmemLoad { .. }));
    if tmem_loads.len() < COMPONENTS {
        return Err("threads load the accumulators of fewer than two MMAs per iteration");
    }
    let by_tma = all.iter().filter_map(|op| body.ops[*op].kind.effects()?.filled_by_tma());
    let by_tma: BTreeSet<Buffer> = by_tma.collect();
    let touched = |op: OpId| {
        let kind = &body.ops[op].kind;
        let effects = kind.effects().unwrap_or_default();
        match () {
            () if left_out(op) || effects.filled_by_tma().is_some() => None,
            () if is_shared(op) || kind.is_pure() => Some(OpEffects::default()),
            () if matches!(effects.other, Effect::Branches | Effect::Leaves) => Some(OpEffects::default()),
            () => {
                let places = effects.buffers.iter().map(|access| access.buffer).filter(|buffer| !by_tma.contains(buffer));
                Some(OpEffects { places: places.map(|buffer| buffer.0).collect(), is_source: true })
            }
        }
    };
    let components = components(body, region, touched);
    let of = |ops: Vec<OpId>| ops.into_iter().filter_map(|op| components.of(op)).collect::<BTreeSet<usize>>();
    // A component without computation between MMAs has nothing to overlap with the other one.
    let tmem_loads = of(tmem_loads);
    let stores = of(in_iterations(|op| matches!(op, Op::TmemStore { .. })));
    if tmem_loads.len() != COMPONENTS || stores != tmem_loads || of(in_iterations(|op| accumulators(op).is_some())) != tmem_loads {
        return Err("the computation between one MMA and the next is not independent of all other computation");
    }
    let second = tmem_loads.last().copied();
    let second_ops = all.iter().filter(|op| components.of(**op) == second);
    let second_accumulators = second_ops.filter_map(|op| accumulators(body.ops[*op].kind.program()?)).collect();
    let ops = all.iter().filter_map(|op| Some((*op, usize::from(Some(components.of(*op)?) == second)))).collect();
    let buffers = buffer_components((body, &all), buffers, &components, second);
    Ok(PingPong { ops, second_accumulators, buffers })
}

/// The accumulator in tensor memory that an MMA updates.
pub fn accumulators(op: &Op) -> Option<Buffer> {
    match op {
        Op::Mma { acc, atom: MmaAtom::Tensor(_), .. } => acc.buffer(),
        _ => None,
    }
}

/// The used buffers of shared memory, each with its only component.
fn buffer_components<O: Program>(
    (body, all): (&Body<O, Type>, &[OpId]),
    buffers: &Arena<Buffer, BufferInfo>,
    components: &Components,
    second: Option<usize>,
) -> BTreeMap<Buffer, Option<usize>> {
    let mut users: BTreeMap<Buffer, BTreeSet<Option<usize>>> = BTreeMap::new();
    for op in all {
        let kind = &body.ops[*op].kind;
        // One role stores for both components, and signals the completion.
        if !matches!(kind.program(), Some(Op::TmaStore { .. })) {
            let component = components.of(*op).map(|component| usize::from(Some(component) == second));
            let effects = kind.effects().unwrap_or_default();
            effects.buffers.iter().for_each(|access| _ = users.entry(access.buffer).or_default().insert(component));
        }
    }
    users.retain(|buffer, _| buffers[*buffer].space == Space::Shared);
    let only = |of: BTreeSet<Option<usize>>| if of.len() == 1 { of.first().copied().flatten() } else { None };
    users.into_iter().map(|(buffer, of)| (buffer, only(of))).collect()
}
