//! Whether what was made has room in shared memory: with one slot for each buffer, which is the least that `tile-sched` may give.

use base::ir::Operation;
use base::{Op as OpId, Region, Target};
use std::collections::BTreeMap;
use tileas::{Buffer, Function, budget};

/// Bytes for the barriers of the pipes that copies by boxes will have.
const BARRIERS: u32 = 1024;

/// The largest of the copies that hold something where most is needed, if that is more than a block has; `filled` says which load
/// fills a buffer.
pub(crate) fn too_much(function: &Function, filled: &BTreeMap<Buffer, OpId>, target: Target) -> Option<OpId> {
    let buffers = &function.attrs.buffers;
    let mut walk = Walk { function, position: 0, lives: vec![Life { first: usize::MAX, last: 0 }; buffers.len()] };
    walk.region(function.region);
    let bytes = |buffer: Buffer| buffers[buffer].bytes();
    let alive = |at: usize| {
        let lives = buffers.ids().zip(&walk.lives);
        lives.filter(move |(_, life)| (life.first..=life.last).contains(&at)).map(|(buffer, _)| buffer)
    };
    let together = |at: &usize| alive(*at).map(bytes).fold(0, u32::saturating_add);
    // Only where a life begins can more be needed than before.
    let fullest = walk.lives.iter().map(|life| life.first).filter(|first| *first != usize::MAX).max_by_key(together)?;
    let barriers = if function.attrs.maps.is_empty() { 0 } else { BARRIERS };
    if together(&fullest).saturating_add(barriers) <= budget::shared_memory(target) {
        return None;
    }
    alive(fullest).filter_map(|buffer| Some((bytes(buffer), *filled.get(&buffer)?))).max().map(|(_, load)| load)
}

/// The ops between which a buffer holds something, by position in program order.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
}

struct Walk<'a> {
    function: &'a Function,
    position: usize,
    lives: Vec<Life>,
}

impl Walk<'_> {
    fn region(&mut self, at: Region) {
        let body = &self.function.body;
        for &op in &body.blocks[body.block_of(at)].ops {
            self.position += 1;
            let kind = &body.ops[op].kind;
            for access in kind.effects().buffers {
                let life = &mut self.lives[access.buffer.0 as usize];
                *life = Life { first: life.first.min(self.position), last: life.last.max(self.position) };
            }
            let start = self.position;
            kind.regions().iter().for_each(|inner| self.region(*inner));
            // What a loop reads but was written before it is read again in the next round.
            for life in self.lives.iter_mut().filter(|life| life.last > start && life.first < start) {
                life.last = self.position;
            }
        }
    }
}
