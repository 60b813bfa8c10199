//! Gives every buffer an address. Buffers whose lives do not overlap share memory.
//!
//! Requires: nothing. Establishes: one placement per buffer, and the function's bytes of shared memory, which fit the target.

use crate::hazards::touches;
use base::diag::{Diagnostic, Result};
use base::{Arena, File, Loc, Region};
use sched::{Function, Module, Placement};
use tileas::Buffer;

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let target = file.envelope.target()?;
    for function in &mut file.payload.functions {
        place(function);
        let attrs = &function.attrs;
        if attrs.shared_bytes > target.shared_memory() {
            // ptxas words it so, and tuners look for these words.
            let (used, most) = (attrs.shared_bytes, target.shared_memory());
            let message = format!("'{}' uses too much shared data (0x{used:x} bytes, 0x{most:x} max)", function.name);
            let error = Diagnostic::unsupported("SC100", message);
            return Err(error.at_loc(&file.envelope.debug, where_the_largest_is_used(function)));
        }
    }
    Ok(())
}

/// The first op that touches the largest buffer, which is the place to make it smaller.
fn where_the_largest_is_used(function: &Function) -> Loc {
    let buffers = &function.attrs.program.buffers;
    let largest = buffers.ids().max_by_key(|buffer| buffers[*buffer].bytes());
    let mut ops = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op]);
    let user = ops.find(|op| touches(&op.kind).iter().any(|touch| Some(touch.buffer()) == largest));
    user.map_or(Loc::UNKNOWN, |op| op.loc)
}

/// The ops between which a buffer holds something, by position in program order.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
}

fn place(function: &mut Function) {
    let lives = lives(function);
    let buffers = &function.attrs.program.buffers;
    // Large buffers first: small ones fit into what is left.
    let mut order: Vec<Buffer> = buffers.ids().collect();
    order.sort_by_key(|buffer| (std::cmp::Reverse(buffers[*buffer].bytes()), *buffer));
    let mut placed: Vec<(Buffer, u32)> = Vec::new();
    for buffer in order {
        let info = &buffers[buffer];
        let align = info.align.max(1);
        let overlaps = |other: Buffer| lives[buffer.0 as usize].meets(lives[other.0 as usize]);
        let mut taken: Vec<(u32, u32)> =
            placed.iter().filter(|(other, _)| overlaps(*other)).map(|(other, at)| (*at, at + buffers[*other].bytes())).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + info.bytes() <= start {
                break;
            }
            at = at.max(end.next_multiple_of(align));
        }
        placed.push((buffer, at));
    }
    let end = placed.iter().map(|(buffer, at)| at + buffers[*buffer].bytes()).max().unwrap_or(0);
    placed.sort_unstable();
    function.attrs.placements =
        placed.into_iter().map(|(_, offset)| Placement { offset, depth: 1 }).collect::<Arena<Buffer, Placement>>();
    function.attrs.shared_bytes = end;
}

impl Life {
    fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

fn lives(function: &Function) -> Vec<Life> {
    let mut lives = vec![Life { first: usize::MAX, last: 0 }; function.attrs.program.buffers.len()];
    let mut position = 0;
    region(function, function.region, &mut position, &mut lives);
    lives
}

fn region(function: &Function, at: Region, position: &mut usize, lives: &mut [Life]) {
    let body = &function.body;
    for &op in &body.blocks[body.block_of(at)].ops {
        *position += 1;
        let kind = &body.ops[op].kind;
        for touch in touches(kind) {
            let life = &mut lives[touch.buffer().0 as usize];
            *life = Life { first: life.first.min(*position), last: life.last.max(*position) };
        }
        let start = *position;
        for inner in base::ir::Operation::regions(kind) {
            region(function, inner, position, lives);
        }
        // What a loop reads but was written before it is read again in the next round.
        for life in lives.iter_mut().filter(|life| life.first < start && life.last > start) {
            life.last = *position;
        }
    }
}
