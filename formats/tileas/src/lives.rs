//! When each buffer of a function holds something, and where all of them have a place: what shared memory a function needs. The stage
//! that makes buffers asks with one slot for each, the one that gives them places with the slots that they then have.

use crate::effects::{Effects, Way};
use crate::{Buffer, BufferInfo};
use base::ir::{Body, Operation};
use base::{Arena, Block, Region};
use std::collections::BTreeMap;

/// The ops between which a buffer holds something, by position in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first: usize,
    pub last: usize,
}

/// A buffer that copies in a loop fill while the loop reads it: it is in use all through the loop.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// The loop's body.
    pub block: Block,
    /// Whether it is filled by an agent that does not wait for what others do with the same memory before its loop.
    pub from_start: bool,
}

impl Life {
    /// Of a buffer that holds nothing.
    pub const NEVER: Life = Life { first: usize::MAX, last: 0 };

    pub fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The rings that there are even where no copy runs ahead of its iteration: those of loops in which the copy engine copies, since it
/// fills slots of pipes.
pub fn least_rings<O: Operation, T>(
    (body, region): (&Body<O, T>, Region),
    effects: for<'a> fn(&'a O) -> Effects<'a>,
) -> BTreeMap<Buffer, Ring> {
    let mut rings = BTreeMap::new();
    let once = body.block_of(region);
    for (block, node) in body.blocks.iter().filter(|(block, _)| *block != once) {
        let accesses = node.ops.iter().flat_map(|op| effects(&body.ops[*op].kind).buffers);
        let copies = accesses.filter(|access| matches!(access.way, Way::Copies | Way::Boxes) && access.does.writes());
        let copies: Vec<_> = copies.collect();
        if copies.iter().any(|access| access.way == Way::Boxes) {
            rings.extend(copies.iter().map(|access| (access.buffer, Ring { block, from_start: false })));
        }
    }
    rings
}

/// The lives of a function's buffers.
pub fn lives<O: Operation, T>(
    (body, region): (&Body<O, T>, Region),
    buffers: &Arena<Buffer, BufferInfo>,
    effects: for<'a> fn(&'a O) -> Effects<'a>,
    rings: &BTreeMap<Buffer, Ring>,
) -> Arena<Buffer, Life> {
    let lives = buffers.ids().map(|_| Life::NEVER).collect();
    let mut walk = Walk { body, effects, rings, position: 0, lives };
    walk.region(region);
    // What boxes fill once may be asked for as soon as the function begins.
    for op in &body.blocks[body.block_of(region)].ops {
        let filled =
            effects(&body.ops[*op].kind).buffers.into_iter().filter(|access| access.way == Way::Boxes && access.does.writes());
        filled.for_each(|access| walk.lives[access.buffer].first = 0);
    }
    walk.lives
}

struct Walk<'a, O, T> {
    body: &'a Body<O, T>,
    effects: for<'b> fn(&'b O) -> Effects<'b>,
    rings: &'a BTreeMap<Buffer, Ring>,
    position: usize,
    lives: Arena<Buffer, Life>,
}

impl<O: Operation, T> Walk<'_, O, T> {
    fn region(&mut self, at: Region) {
        let body = self.body;
        for &op in &body.blocks[body.block_of(at)].ops {
            self.position += 1;
            let kind = &body.ops[op].kind;
            for access in (self.effects)(kind).buffers {
                let life = &mut self.lives[access.buffer];
                *life = Life { first: life.first.min(self.position), last: life.last.max(self.position) };
            }
            let start = self.position;
            let inner = kind.regions();
            if inner.is_empty() {
                continue;
            }
            inner.iter().for_each(|inner| self.region(*inner));
            // What a loop reads but was written before it is read again in the next round.
            for life in self.lives.values_mut().filter(|life| life.last > start && life.first < start) {
                life.last = self.position;
            }
            // A ring is filled right before its loop.
            let fills = |ring: &Ring| inner.iter().any(|inner| body.block_of(*inner) == ring.block);
            for (buffer, ring) in self.rings.iter().filter(|(_, ring)| fills(ring)) {
                let life = &mut self.lives[*buffer];
                *life = Life { first: if ring.from_start { 0 } else { life.first.min(start) }, last: self.position };
            }
        }
    }
}

/// A place in bytes for each buffer, so that none is where another one is that it `meets`, which may hold something at the same time.
/// Large ones first: small ones fit into what is left.
pub fn places(
    buffers: &Arena<Buffer, BufferInfo>,
    meets: impl Fn(Buffer, Buffer) -> bool,
    depth: impl Fn(Buffer) -> u32,
) -> Arena<Buffer, u32> {
    let bytes = |buffer: Buffer| buffers[buffer].bytes().saturating_mul(depth(buffer));
    let mut order: Vec<Buffer> = buffers.ids().collect();
    order.sort_by_key(|buffer| (std::cmp::Reverse(bytes(*buffer)), *buffer));
    let mut placed: Vec<(Buffer, u32)> = Vec::new();
    for buffer in order {
        let align = buffers[buffer].align.max(1);
        let beside = placed.iter().filter(|(other, _)| meets(buffer, *other));
        let mut taken: Vec<(u32, u32)> = beside.map(|(other, at)| (*at, at.saturating_add(bytes(*other)))).collect();
        taken.sort_unstable();
        let mut at = 0u32;
        for (start, end) in taken {
            if at.saturating_add(bytes(buffer)) <= start {
                break;
            }
            at = at.max(end.next_multiple_of(align));
        }
        placed.push((buffer, at));
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, at)| at).collect()
}
