//! Loops whose copies the copy engine makes: which pipes they fill, and where those lie.
//!
//! Copies of a loop that run equally far ahead, in rings of equally many slots, fill the slots of one pipe together; of those that do
//! not run ahead each has a pipe that another op reads. Copies that fill a buffer in turn fill one slot after the other of its pipe, and
//! do not run ahead: an agent of their own does. Both sides begin with the first slot, and where their loop runs again with
//! the slot behind the last one. A loop that could not be pipelined has a schedule of one stage here, since such copies are waited
//! for by their pipe and by nothing else.

use crate::graph::{loops, region_of};
use crate::hazards::{Touch, touches};
use crate::pipes;
use base::Block;
use base::ir::{Op as OpId, Operation};
use sched::{Drain, Fill, Function, FunctionAttrs, LoopSchedule, Op, Pipe, PipeInfo, Slot};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tileas::{Buffer, Space};

/// The buffer that an op fills by boxes.
pub(crate) fn filled(op: &Op) -> Option<Buffer> {
    op.effects().filled_by_boxes()
}

/// The schedules of a function's loops, with one for each loop that has copies by boxes and none yet.
pub(crate) fn schedules(function: &Function, all: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let own = all.iter().filter(|schedule| schedule.function == function.name).cloned();
    let mut own: Vec<LoopSchedule> = own.collect();
    for (index, for_op) in (0..).zip(loops(function)) {
        let ops = &function.body.blocks[function.body.block_of(region_of(function, for_op))].ops;
        let by_boxes = ops.iter().any(|op| filled(&function.body.ops[*op].kind).is_some());
        if by_boxes && own.iter().all(|schedule| schedule.index != index) {
            own.push(serial(function, index, ops.len() as u32 - 1));
        }
    }
    own.sort_by_key(|schedule| schedule.index);
    own
}

/// One op after the other.
fn serial(function: &Function, index: u32, ops: u32) -> LoopSchedule {
    LoopSchedule {
        function: function.name.clone(),
        index,
        interval: ops.max(1),
        resource_bound: 0,
        recurrence_bound: 0,
        in_flight: false,
        slots: (0..ops).map(|op| Slot { op, stage: 0, cycle: op }).collect(),
    }
}

/// Bytes that the barriers of a function's pipes take at most, behind its buffers.
pub(crate) fn barrier_bytes(function: &Function, depth: impl Fn(Buffer) -> u32) -> u32 {
    let body = &function.body;
    let buffers = body.walk(function.region).into_iter().filter_map(|op| filled(&body.ops[op].kind));
    buffers.map(|buffer| 2 * PipeInfo::BARRIER * depth(buffer)).sum()
}

/// Whether a loop's body is inside more than the function.
pub(crate) fn is_nested(function: &Function, block: Block) -> bool {
    let body = &function.body;
    let mut regions = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions());
    regions.all(|region| body.block_of(region) != block)
}

/// Bytes that the barriers take at most by which a function's loops are told of free memory.
pub(crate) fn telling_bytes(function: &Function) -> u32 {
    let body = &function.body;
    let has_boxes = |for_op: &OpId| {
        let ops = &body.blocks[body.block_of(region_of(function, *for_op))].ops;
        ops.iter().any(|op| filled(&body.ops[*op].kind).is_some())
    };
    loops(function).iter().filter(|for_op| has_boxes(for_op)).count() as u32 * 2 * PipeInfo::BARRIER
}

/// Whether something else has had the memory of these buffers when a loop begins, perhaps in an earlier round of a loop around it.
pub(crate) fn had_before(function: &Function, for_op: OpId, buffers: &[Buffer]) -> bool {
    let (body, attrs) = (&function.body, &function.attrs);
    let range = |buffer: Buffer| {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        place.offset..place.offset + info.bytes() * place.depth
    };
    let meets = |other: Buffer| {
        let other = range(other);
        buffers.iter().map(|own| range(*own)).any(|own| own.start < other.end && other.start < own.end)
    };
    let with_inner = |op: OpId| {
        let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        std::iter::once(op).chain(inner).collect::<Vec<_>>()
    };
    for &op in body.blocks[function.entry()].ops.iter().take_while(|op| **op != for_op) {
        let all = with_inner(op);
        let touched = all.iter().flat_map(|op| touches(&body.ops[*op].kind)).map(Touch::buffer);
        let mut shared = touched.filter(|buffer| attrs.program.buffers[*buffer].space == Space::Shared);
        if shared.any(|buffer| !buffers.contains(&buffer) && meets(buffer)) {
            return true;
        }
        if all.contains(&for_op) {
            break;
        }
    }
    false
}

/// The buffers that several copies of a loop's body fill in turn.
pub(crate) fn filled_in_turn(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let mut seen = BTreeSet::new();
    let filled = body.blocks[block].ops.iter().filter_map(|op| filled(&body.ops[*op].kind));
    filled.filter(|buffer| !seen.insert(*buffer)).collect()
}

pub(crate) fn are_filled_in_turn(function: &Function) -> bool {
    let body_of = |for_op: OpId| function.body.block_of(region_of(function, for_op));
    loops(function).into_iter().any(|for_op| !filled_in_turn(function, body_of(for_op)).is_empty())
}

/// A copy of a loop, and by what it is told which others fill its pipe, too.
pub(crate) struct Filled {
    pub(crate) op: OpId,
    pub(crate) buffer: Buffer,
    pub(crate) ahead: u32,
    /// Whether other copies of the loop fill the buffer, too.
    pub(crate) in_turn: bool,
    /// The first product into tensor memory that reads it; none where threads do.
    pub(crate) product: Option<OpId>,
    /// How many products of an iteration are made before it is read.
    pub(crate) products_before: usize,
}

/// Copies that fill a pipe together, in the order in which they are asked for.
pub(crate) struct Group {
    pub(crate) copies: Vec<(OpId, Buffer)>,
    pub(crate) ahead: u32,
    pub(crate) in_turn: bool,
    product: Option<OpId>,
    products_before: usize,
    pub(crate) depth: u32,
    pub(crate) drain: Drain,
    pub(crate) pipe: Pipe,
}

impl Group {
    /// Whether a copy is one of them.
    pub(crate) fn is_filled_by(&self, op: OpId) -> bool {
        self.copies.iter().any(|(copy, _)| *copy == op)
    }

    /// Whether it has no slot to fill while another is read: it is filled while what others fill is.
    fn is_single(&self) -> bool {
        self.depth == 1 && self.ahead == 0
    }

    /// Whether both have one slot, and products read those one after the other.
    pub(crate) fn takes_turns_with(&self, other: &Group) -> bool {
        self.is_single() && other.is_single() && self.products_before != other.products_before
    }
}

/// The pipes of a loop, which are added to the function's.
pub(crate) fn groups(attrs: &mut FunctionAttrs, copies: &[Filled]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &Filled { op, buffer, ahead, in_turn, product, products_before } in copies {
        let depth = attrs.placements[buffer].depth;
        let drain = if product.is_some() { Drain::Products } else { Drain::Threads };
        let alike = |group: &&mut Group| {
            let together =
                ahead > 0 || group.product == product && (!group.is_single() || group.products_before == products_before);
            (group.ahead, group.depth, group.drain) == (ahead, depth, drain) && together && !group.in_turn && !in_turn
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.copies.push((op, buffer)),
            // The pipe is known when all its buffers are.
            None => groups.push(Group {
                copies: vec![(op, buffer)],
                ahead,
                in_turn,
                product,
                products_before,
                depth,
                drain,
                pipe: Pipe(0),
            }),
        }
    }
    for group in &mut groups {
        // The slot is full when all have arrived: what takes longest is asked for first.
        group.copies.sort_by_key(|(_, buffer)| Reverse(attrs.program.buffers[*buffer].bytes()));
        let buffers: Vec<Buffer> = group.copies.iter().map(|(_, buffer)| *buffer).collect();
        // A loop before may fill the same rings, or a copy before the same ring.
        if let Some((pipe, _)) = attrs.pipes.iter().find(|(_, info)| info.buffers == buffers) {
            group.pipe = pipe;
            continue;
        }
        group.pipe = pipes::add(attrs, buffers, group.depth, Fill::Boxes, group.drain);
    }
    groups
}

/// The bodies of loops of which the boxes go where something else was before.
pub(crate) fn after_others(function: &Function) -> impl Iterator<Item = Block> {
    let body = &function.body;
    loops(function).into_iter().filter_map(|for_op| {
        let block = body.block_of(region_of(function, for_op));
        let rings: Vec<Buffer> = body.blocks[block].ops.iter().filter_map(|op| filled(&body.ops[*op].kind)).collect();
        had_before(function, for_op, &rings).then_some(block)
    })
}

/// A pipe by which who computes tells who asks for boxes that the memory of a loop's slots is free.
pub(crate) fn telling(attrs: &mut FunctionAttrs) -> Pipe {
    pipes::add(attrs, Vec::new(), 1, Fill::Threads, Drain::Threads)
}
