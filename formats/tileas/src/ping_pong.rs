//! Two components of what threads compute: each has accumulators in tensor memory of its own, from which it computes operands there, and shares
//! with the other one only what tma_tiles bring for the mmas of both. Two agents can execute them.
//!
//! Only decides; for programs with and without the steps of a schedule.

use crate::verify::Program;
use crate::{Buffer, BufferInfo, MmaAtom, Op, Space, Type};
use base::ir::Op as OpId;
use base::{Arena, Body, Region};
use core_dialect::components::{Components, Touched, components};
use core_dialect::core_ops::Effect;
use std::collections::{BTreeMap, BTreeSet};

/// How many there are.
pub const COMPONENTS: usize = 2;

/// Which component is whose.
#[derive(Clone, Default)]
pub struct PingPong {
    /// The component of what works on tiles.
    pub ops: BTreeMap<OpId, usize>,
    /// The accumulators that are the second one's.
    pub later: BTreeSet<Buffer>,
    /// The buffers of shared memory that are used, and whose alone.
    pub buffers: BTreeMap<Buffer, Option<usize>>,
}

impl PingPong {
    /// Whether buffers can share memory, as far as it matters whose they are: an agent knows what is over of its own.
    pub fn share(&self, one: Buffer, other: Buffer) -> bool {
        let of = |buffer: Buffer| self.buffers.get(&buffer);
        of(one).zip(of(other)).is_none_or(|(one, other)| one.is_some() && one == other)
    }
}

/// The two components of a function's ops, or why there are not two. What is `left_out` is done by other agents, and what is `is_shared` by
/// each that needs it.
pub fn ping_pong<O: Program>(
    (body, region): (&Body<O, Type>, Region),
    buffers: &Arena<Buffer, BufferInfo>,
    left_out: impl Fn(OpId) -> bool,
    is_shared: impl Fn(OpId) -> bool,
) -> Result<PingPong, &'static str> {
    let (all, blocks, entry) = (body.walk(region), body.op_blocks(), body.block_of(region));
    let in_iterations = |is_one: fn(&Op) -> bool| {
        let here = all.iter().filter(|op| blocks[op.0 as usize] != Some(entry));
        let found = here.filter(move |op| body.ops[**op].kind.program().is_some_and(is_one));
        found.copied().collect::<Vec<OpId>>()
    };
    let tmem_loads = in_iterations(|op| matches!(op, Op::TmemLoad { .. }));
    if tmem_loads.len() < COMPONENTS {
        return Err("threads take up accumulators of but one mma in a round");
    }
    let by_tma = all.iter().filter_map(|op| body.ops[*op].kind.effects()?.filled_by_tma());
    let by_tma: BTreeSet<Buffer> = by_tma.collect();
    let touched = |op: OpId| {
        let kind = &body.ops[op].kind;
        let effects = kind.effects().unwrap_or_default();
        match () {
            () if left_out(op) || effects.filled_by_tma().is_some() => None,
            () if is_shared(op) || kind.is_pure() => Some(Touched::default()),
            () if matches!(effects.other, Effect::Branches | Effect::Leaves) => Some(Touched::default()),
            () => {
                let places = effects.buffers.iter().map(|access| access.buffer).filter(|buffer| !by_tma.contains(buffer));
                Some(Touched { places: places.map(|buffer| buffer.0).collect(), gives: true })
            }
        }
    };
    let components = components(body, region, touched);
    let of = |ops: Vec<OpId>| ops.into_iter().filter_map(|op| components.of(op)).collect::<BTreeSet<usize>>();
    // Who has nothing to compute between mmas has nothing that another one could do meanwhile.
    let tmem_loads = of(tmem_loads);
    let stores = of(in_iterations(|op| matches!(op, Op::TmemStore { .. })));
    if tmem_loads.len() != COMPONENTS || stores != tmem_loads || of(in_iterations(|op| accumulators(op).is_some())) != tmem_loads {
        return Err("what threads compute from one mma's accumulators, for another one, is not apart from all else");
    }
    let second = tmem_loads.last().copied();
    let own = all.iter().filter(|op| components.of(**op) == second);
    let later = own.filter_map(|op| accumulators(body.ops[*op].kind.program()?)).collect();
    let ops = all.iter().filter_map(|op| Some((*op, usize::from(Some(components.of(*op)?) == second)))).collect();
    let buffers = whose((body, &all), buffers, &components, second);
    Ok(PingPong { ops, later, buffers })
}

/// The accumulators in tensor memory that a mma adds to.
pub fn accumulators(op: &Op) -> Option<Buffer> {
    match op {
        Op::Mma { acc, atom: MmaAtom::Tensor(_), .. } => acc.buffer(),
        _ => None,
    }
}

/// The buffers of shared memory that are used, and whose each is alone.
fn whose<O: Program>(
    (body, all): (&Body<O, Type>, &[OpId]),
    buffers: &Arena<Buffer, BufferInfo>,
    components: &Components,
    second: Option<usize>,
) -> BTreeMap<Buffer, Option<usize>> {
    let mut users: BTreeMap<Buffer, BTreeSet<Option<usize>>> = BTreeMap::new();
    for op in all {
        let kind = &body.ops[*op].kind;
        // One agent stores for both, and says when it has.
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
