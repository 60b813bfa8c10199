//! Two strands of what threads compute: each has sums in tensor memory of its own, from which it computes operands there, and shares
//! with the other one only what boxes bring for the products of both. Two agents can execute them.
//!
//! Only decides; for programs with and without the steps of a schedule.

use crate::verify::Program;
use crate::{Buffer, BufferInfo, MmaAtom, Op, Space, Type};
use base::ir::Op as OpId;
use base::{Arena, Body, Region};
use std::collections::{BTreeMap, BTreeSet};
use vocabulary::core_ops::Effect;
use vocabulary::strands::{Strands, Touched, strands};

/// How many there are.
pub const STRANDS: usize = 2;

/// Which strand is whose.
#[derive(Clone, Default)]
pub struct Pair {
    /// The strand of what works on tiles.
    pub ops: BTreeMap<OpId, usize>,
    /// The sums that are the second one's.
    pub later: BTreeSet<Buffer>,
    /// The buffers of shared memory that are used, and whose alone.
    pub buffers: BTreeMap<Buffer, Option<usize>>,
}

impl Pair {
    /// Whether buffers can share memory, as far as it matters whose they are: an agent knows what is over of its own.
    pub fn share(&self, one: Buffer, other: Buffer) -> bool {
        let of = |buffer: Buffer| self.buffers.get(&buffer);
        of(one).zip(of(other)).is_none_or(|(one, other)| one.is_some() && one == other)
    }
}

/// The two strands of a function's ops, or why there are not two. What is `left_out` is done by other agents, and what is `nobodys` by
/// each that needs it.
pub fn pair<O: Program>(
    (body, region): (&Body<O, Type>, Region),
    buffers: &Arena<Buffer, BufferInfo>,
    left_out: impl Fn(OpId) -> bool,
    nobodys: impl Fn(OpId) -> bool,
) -> Result<Pair, &'static str> {
    let (all, blocks, entry) = (body.walk(region), body.op_blocks(), body.block_of(region));
    let in_rounds = |is_one: fn(&Op) -> bool| {
        let here = all.iter().filter(|op| blocks[op.0 as usize] != Some(entry));
        let found = here.filter(move |op| body.ops[**op].kind.program().is_some_and(is_one));
        found.copied().collect::<Vec<OpId>>()
    };
    let takes_up = in_rounds(|op| matches!(op, Op::TensorLoad { .. }));
    if takes_up.len() < STRANDS {
        return Err("threads take up sums of but one product in a round");
    }
    let by_boxes = all.iter().filter_map(|op| body.ops[*op].kind.effects()?.filled_by_boxes());
    let by_boxes: BTreeSet<Buffer> = by_boxes.collect();
    let touched = |op: OpId| {
        let kind = &body.ops[op].kind;
        let effects = kind.effects().unwrap_or_default();
        match () {
            () if left_out(op) || effects.filled_by_boxes().is_some() => None,
            () if nobodys(op) || kind.is_pure() => Some(Touched::default()),
            () if matches!(effects.other, Effect::Branches | Effect::Leaves) => Some(Touched::default()),
            () => {
                let places = effects.buffers.iter().map(|access| access.buffer).filter(|buffer| !by_boxes.contains(buffer));
                Some(Touched { places: places.map(|buffer| buffer.0).collect(), gives: true })
            }
        }
    };
    let strands = strands(body, region, touched);
    let of = |ops: Vec<OpId>| ops.into_iter().filter_map(|op| strands.of(op)).collect::<BTreeSet<usize>>();
    // Who has nothing to compute between products has nothing that another one could do meanwhile.
    let takes_up = of(takes_up);
    let stores = of(in_rounds(|op| matches!(op, Op::TensorStore { .. })));
    if takes_up.len() != STRANDS || stores != takes_up || of(in_rounds(|op| sums(op).is_some())) != takes_up {
        return Err("what threads compute from one product's sums, for another one, is not apart from all else");
    }
    let second = takes_up.last().copied();
    let own = all.iter().filter(|op| strands.of(**op) == second);
    let later = own.filter_map(|op| sums(body.ops[*op].kind.program()?)).collect();
    let ops = all.iter().filter_map(|op| Some((*op, usize::from(Some(strands.of(*op)?) == second)))).collect();
    let buffers = whose((body, &all), buffers, &strands, second);
    Ok(Pair { ops, later, buffers })
}

/// The sums in tensor memory that a product adds to.
pub fn sums(op: &Op) -> Option<Buffer> {
    match op {
        Op::Mma { acc, atom: MmaAtom::Tensor(_), .. } => acc.buffer(),
        _ => None,
    }
}

/// The buffers of shared memory that are used, and whose each is alone.
fn whose<O: Program>(
    (body, all): (&Body<O, Type>, &[OpId]),
    buffers: &Arena<Buffer, BufferInfo>,
    strands: &Strands,
    second: Option<usize>,
) -> BTreeMap<Buffer, Option<usize>> {
    let mut users: BTreeMap<Buffer, BTreeSet<Option<usize>>> = BTreeMap::new();
    for op in all {
        let kind = &body.ops[*op].kind;
        // One agent stores for both, and says when it has.
        if !matches!(kind.program(), Some(Op::StoreBoxes { .. })) {
            let strand = strands.of(*op).map(|strand| usize::from(Some(strand) == second));
            let effects = kind.effects().unwrap_or_default();
            effects.buffers.iter().for_each(|access| _ = users.entry(access.buffer).or_default().insert(strand));
        }
    }
    users.retain(|buffer, _| buffers[*buffer].space == Space::Shared);
    let only = |of: BTreeSet<Option<usize>>| if of.len() == 1 { of.first().copied().flatten() } else { None };
    users.into_iter().map(|(buffer, of)| (buffer, only(of))).collect()
}
