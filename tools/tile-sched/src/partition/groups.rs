//! Shares the work of threads out to two agents where it is in two strands, as in attention of two halves of rows: each agent has
//! its own sums and operands in tensor memory, and computes while the other one waits for products.
//!
//! Requires: a function with its loops, woven or not. Only decides.

use super::Why;
use crate::lookups::is_lookup;
use crate::{boxes, tensor};
use base::Block;
use base::ir::Op as OpId;
use numerics::arith::Unary;
use sched::{Function, Op, Placement};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};
use vocabulary::core_ops::{Core, Effect};
use vocabulary::strands::{Touched, strands};
use vocabulary::tile::element_count;

/// The agents that compute, at most.
const MOST: usize = 2;
/// Exponentials of a thread at once that keep others waiting.
const MANY: u32 = 16;

/// Who computes what.
#[derive(Clone, Default)]
pub(crate) struct Groups {
    /// What works on tiles, and whose it is.
    of_ops: BTreeMap<OpId, usize>,
    /// The sums that are the second one's.
    later: BTreeSet<Buffer>,
    /// The buffers of shared memory that are used, and whose alone.
    of_buffers: BTreeMap<Buffer, Option<usize>>,
}

impl Groups {
    /// Two groups, or why there is one.
    pub(crate) fn of(function: &Function) -> Result<Groups, Why> {
        let groups = Groups::wanted(function)?;
        match groups.meet(function) {
            true => Err("what is one's in shared memory lies where others have something".into()),
            false => Ok(groups),
        }
    }

    fn wanted(function: &Function) -> Result<Groups, Why> {
        let body = &function.body;
        let (all, blocks) = (body.walk(function.region), body.op_blocks());
        if all.iter().any(|op| matches!(body.ops[*op].kind, Op::CopyWait { .. } | Op::GroupWait { .. })) {
            return Err("threads wait for copies, or products, of their own".into());
        }
        let in_loops = |op: &&OpId| blocks[op.0 as usize] != Some(function.entry());
        let is_load = |op: &&OpId| matches!(body.ops[**op].kind, Op::Core(tileas::Op::TensorLoad { .. }));
        if all.iter().filter(in_loops).filter(is_load).count() < MOST {
            return Err("threads take up sums of but one product in a round".into());
        }
        let stored = tensor::stored(function);
        let by_boxes = all.iter().filter_map(|op| boxes::filled(&body.ops[*op].kind)).collect();
        let strands = strands(body, function.region, |op| touched(function, [&stored, &by_boxes], op));
        let of = |is_one: fn(&Op) -> bool| {
            let found = all.iter().filter(in_loops).filter(move |op| is_one(&body.ops[**op].kind));
            found.filter_map(|op| strands.of(*op)).collect::<BTreeSet<usize>>()
        };
        // Who has nothing to compute between products has nothing that another one could do meanwhile.
        let takes_up = of(|kind| matches!(kind, Op::Core(tileas::Op::TensorLoad { .. })));
        if takes_up.len() != MOST || of(tensor::is_product) != takes_up {
            return Err("what threads compute from one product's sums is not apart from all else".into());
        }
        let second = takes_up.last().copied();
        let of_ops = all.iter().filter_map(|op| Some((*op, usize::from(Some(strands.of(*op)?) == second)))).collect();
        let own = all.iter().filter(|op| strands.of(**op) == second);
        let later = own.filter_map(|op| super::lines::sums(&body.ops[*op].kind)).collect();
        let of_buffers = of_buffers(function, &of_ops);
        Ok(Groups { of_ops, later, of_buffers })
    }

    /// Whether there are two, wherever their buffers will lie.
    pub(crate) fn are_possible(function: &Function) -> bool {
        Groups::wanted(function).is_ok()
    }

    /// The exponentials of whole tiles in rounds, up to where an operand that is computed from them is stored, and whose they are. Both
    /// agents at once would be late with them, and leave the products idle until then; one after the other they leave each the time that
    /// the other one's products take.
    pub(crate) fn taking_turns(&self, function: &Function) -> BTreeMap<OpId, usize> {
        let body = &function.body;
        let is_slow = |op: &OpId| {
            let node = &body.ops[*op];
            let is_exponential = matches!(node.kind.core(), Some(Core::Unary { kind: Unary::Exp { .. } | Unary::Exp2 { .. }, .. }));
            let all = node.results.first().filter(|_| is_exponential).map_or(0, |result| element_count(body.ty(*result).shape()));
            all >= (MANY * function.attrs.program.warps * 32) as usize
        };
        let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TensorStore { .. }));
        let mut taking = BTreeMap::new();
        for (block, node) in body.blocks.iter().filter(|(block, _)| *block != function.entry()) {
            let turns =
                node.ops.iter().filter(|op| is_slow(op) || is_store(op)).filter_map(|op| Some((*op, *self.of_ops.get(op)?)));
            let turns: Vec<(OpId, usize)> = turns.collect();
            let begins = |agent: usize| turns.iter().find(|(_, other)| *other == agent).is_some_and(|(op, _)| is_slow(op));
            match begins(0) && begins(1) && turns.is_sorted_by_key(|(_, agent)| *agent) && self.is_loop(function, block) {
                true => taking.extend(turns),
                // A turn that never comes would not be waited for.
                false if !turns.is_empty() => return BTreeMap::new(),
                false => {}
            }
        }
        taking
    }

    fn is_loop(&self, function: &Function, block: Block) -> bool {
        let body = &function.body;
        body.walk(function.region).into_iter().any(|op| match body.ops[op].kind.core() {
            Some(Core::For { body: region, .. }) => body.block_of(*region) == block,
            _ => false,
        })
    }

    /// Whether buffers can share memory, as far as it matters whose they are: one agent knows what is over of its own.
    pub(crate) fn share(&self, one: Buffer, other: Buffer) -> bool {
        let of = |buffer: Buffer| self.of_buffers.get(&buffer);
        of(one).zip(of(other)).is_none_or(|(one, other)| one.is_some() && one == other)
    }

    /// Whether buffers that are not both one agent's do share memory.
    fn meet(&self, function: &Function) -> bool {
        let (placements, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
        let places = placements.iter().filter(|(buffer, _)| self.of_buffers.contains_key(buffer));
        let end = |place: &Placement, buffer: Buffer| place.offset + buffers[buffer].bytes() * place.depth;
        let mut places: Vec<(u32, u32, Buffer)> =
            places.map(|(buffer, place)| (place.offset, end(place, buffer), buffer)).collect();
        places.sort_unstable();
        (0..places.len()).any(|at| {
            let (_, end, one) = places[at];
            let behind = places[at + 1..].iter().take_while(|(start, ..)| *start < end);
            behind.into_iter().any(|(.., other)| !self.share(one, *other))
        })
    }

    /// How many agents compute.
    pub(super) fn count(&self) -> usize {
        if self.later.is_empty() { 1 } else { MOST }
    }

    /// Whose an op is that no other agent does. What has nothing to do with tiles, such as a barrier, each has for itself.
    pub(super) fn of_op(&self, op: OpId, kind: &Op) -> Vec<usize> {
        match self.of_ops.get(&op) {
            Some(group) => vec![*group],
            None if matches!(kind, Op::Barrier { .. } | Op::AsyncFence { .. }) => (0..self.count()).collect(),
            None => vec![0],
        }
    }

    /// Whose products add to the sums in a buffer.
    pub(super) fn of_sums(&self, sums: Buffer) -> usize {
        usize::from(self.later.contains(&sums))
    }
}

/// Whose alone each buffer of shared memory is that is used.
fn of_buffers(function: &Function, of_ops: &BTreeMap<OpId, usize>) -> BTreeMap<Buffer, Option<usize>> {
    let mut users: BTreeMap<Buffer, BTreeSet<Option<usize>>> = BTreeMap::new();
    for op in function.body.walk(function.region) {
        let kind = &function.body.ops[op].kind;
        // One agent stores for both, and says when it has.
        if !matches!(kind, Op::Core(tileas::Op::StoreBoxes { .. })) {
            let group = of_ops.get(&op).copied();
            kind.effects().buffers.iter().for_each(|access| _ = users.entry(access.buffer).or_default().insert(group));
        }
    }
    let only = |of: BTreeSet<Option<usize>>| if of.len() == 1 { of.first().copied().flatten() } else { None };
    users.retain(|buffer, _| function.attrs.program.buffers[*buffer].space == Space::Shared);
    users.into_iter().map(|(buffer, of)| (buffer, only(of))).collect()
}

/// What an op of the agents that compute touches, and those that multiply for them.
fn touched(function: &Function, [stored, by_boxes]: [&BTreeSet<Buffer>; 2], op: OpId) -> Option<Touched> {
    let kind = &function.body.ops[op].kind;
    let effects = kind.effects();
    match kind {
        _ if boxes::filled(kind).is_some() => None,
        Op::Core(tileas::Op::StoreBoxes { buffer, .. }) if stored.contains(buffer) => None,
        Op::PipeAcquire { .. } | Op::PipeCommit { .. } | Op::PipeWait { .. } | Op::PipeRelease { .. } => None,
        Op::Barrier { .. } | Op::AsyncFence { .. } => None,
        _ if is_lookup(function, op) || kind.is_pure() => Some(Touched::default()),
        _ if matches!(effects.other, Effect::Branches | Effect::Leaves) => Some(Touched::default()),
        _ => {
            let places = effects.buffers.iter().map(|access| access.buffer).filter(|buffer| !by_boxes.contains(buffer));
            Some(Touched { places: places.map(|buffer| buffer.0).collect(), gives: true })
        }
    }
}
