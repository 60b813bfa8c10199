//! Gives every buffer an address. Buffers whose lives do not overlap share memory.
//!
//! Requires: nothing. Establishes: one placement per buffer, and the function's bytes of shared memory, which fit the target.

use crate::boxes;
use crate::hazards::{Touch, touches};
use crate::partition::{self, Wanted};
use crate::{columns, in_flight, tensor};
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{Arena, Block, File, Loc, Region, Target};
use common::options;
use sched::{Function, FunctionAttrs, LoopSchedule, Module, PipeInfo, Placement, Slot};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, BufferInfo, budget};

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let target = file.envelope.target()?;
    let wanted = Wanted::of(&file.envelope);
    let asked = options::Scheduling::stages(&file.envelope)?;
    let Module { functions, schedules, .. } = &mut file.payload;
    for function in functions {
        let own = boxes::schedules(function, schedules);
        let divided = wanted != Wanted::Never && partition::check(function).is_ok();
        let mut doubled = BTreeSet::new();
        if divided {
            let blocks = partition::blocks(function, target);
            let rings = match asked {
                None => of_divided(function, &own, &|bytes| resident_of(bytes, budget::shared_memory(target)).min(blocks)),
                Some(_) => rings(function, &own, Asked::WhenTold),
            };
            doubled = self::doubled(function, &rings, target);
            set(function, &rings, &doubled, true);
        }
        if !divided || !tensor::multiplies(function) && !partition::has_crew(function, target, wanted) {
            set(function, &rings(function, &own, Asked::ByAll), &doubled, divided);
        }
        // The last word is for the address of its columns.
        function.attrs.tensor =
            columns::taken(function, &doubled, function.attrs.shared_bytes.saturating_sub(tileas::tensor::WORD));
        if function.attrs.shared_bytes > budget::shared_memory(target) {
            // ptxas words it so, and tuners look for these words.
            let (used, most) = (function.attrs.shared_bytes, budget::shared_memory(target));
            let message = format!("'{}' uses too much shared data (0x{used:x} bytes, 0x{most:x} max)", function.name);
            let error = Diagnostic::unsupported("SC100", message);
            return Err(error.at_loc(&file.envelope.debug, where_the_largest_is_used(function)));
        }
    }
    Ok(())
}

/// The sums that have two slots, so that an agent of their own makes those of the next round while others take up these: where there
/// are columns for it in all blocks that have shared memory.
fn doubled(function: &Function, rings: &[Option<Ring>], target: Target) -> BTreeSet<Buffer> {
    let attrs = &function.attrs.program;
    let bytes = with_barriers(function, &place(function, rings, &BTreeSet::new()), true);
    let blocks = resident_of(bytes, budget::shared_memory(target)).max(attrs.occupancy.unwrap_or(1));
    columns::doubled(function, tensor::made_again(function), budget::tensor_columns(target, blocks))
}

fn set(function: &mut Function, rings: &[Option<Ring>], doubled: &BTreeSet<Buffer>, divided: bool) {
    function.attrs.placements = place(function, rings, doubled);
    function.attrs.shared_bytes = with_barriers(function, &function.attrs.placements, divided);
}

/// The first op that touches the largest buffer, which is the place to make it smaller.
fn where_the_largest_is_used(function: &Function) -> Loc {
    let buffers = &function.attrs.program.buffers;
    let largest = buffers.ids().max_by_key(|buffer| buffers[*buffer].bytes());
    let mut ops = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op]);
    let user = ops.find(|op| touches(&op.kind).iter().any(|touch| Some(touch.buffer()) == largest));
    user.map_or(Loc::UNKNOWN, |op| op.loc)
}

/// The shared memory that a function would take with these schedules of its loops.
pub(crate) fn bytes(function: &Function, schedules: &[LoopSchedule], divided: bool) -> u32 {
    let asked = if divided { Asked::WhenTold } else { Asked::ByAll };
    with_barriers(
        function,
        &place(function, &rings(function, &boxes::schedules(function, schedules), asked), &BTreeSet::new()),
        divided,
    )
}

/// Where the last buffer ends.
pub(crate) fn end_of_buffers(attrs: &FunctionAttrs) -> u32 {
    end(&attrs.program.buffers, &attrs.placements)
}

fn end(buffers: &Arena<Buffer, BufferInfo>, placements: &Arena<Buffer, Placement>) -> u32 {
    placements.iter().map(|(buffer, place)| place.offset.saturating_add(buffers[buffer].bytes() * place.depth)).max().unwrap_or(0)
}

/// The memory of the buffers, and behind them of the barriers of pipes that there will be, and of the address of tensor memory.
fn with_barriers(function: &Function, placements: &Arena<Buffer, Placement>, divided: bool) -> u32 {
    let end = end(&function.attrs.program.buffers, placements);
    let slots = tensor::slots(function);
    let word = if columns::place(function, &BTreeSet::new()).1 > 0 { PipeInfo::BARRIER } else { 0 };
    let telling = if divided && !tensor::multiplies(function) { boxes::telling_bytes(function) } else { 0 };
    match boxes::barrier_bytes(function, |buffer| placements[buffer].depth) + slots * 2 * PipeInfo::BARRIER + telling + word {
        0 => end,
        more => end.saturating_add(PipeInfo::BARRIER - 1) / PipeInfo::BARRIER * PipeInfo::BARRIER + more,
    }
}

/// A buffer that a scheduled copy in a loop fills.
#[derive(Clone, Copy)]
struct Ring {
    /// The loop's body.
    block: Block,
    /// Slots: one, one more for each iteration that the copy runs ahead, and one for what a product in flight still reads.
    depth: u32,
    by_boxes: bool,
    /// Whether it is filled by an agent that does not wait for what others do with the same memory before its loop.
    from_start: bool,
}

/// Who asks for boxes, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Who computes, when its memory is free.
    ByAll,
    /// An agent of their own, as soon as it can.
    Ahead,
    /// The same, which is told when the memory of a loop is free, if that is in no other loop, and products in tensor memory are not
    /// an agent's of their own.
    WhenTold,
}

/// The rings of a function.
fn rings(function: &Function, schedules: &[LoopSchedule], asked: Asked) -> Vec<Option<Ring>> {
    let mut rings: Vec<Option<Ring>> = vec![None; function.attrs.program.buffers.len()];
    for schedule in schedules.iter().filter(|schedule| schedule.function == function.name) {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let ops = &function.body.blocks[block].ops;
        let mut kept = if schedule.in_flight { in_flight::read(function, block) } else { BTreeSet::new() };
        kept.extend(tensor::operands_in(function, block));
        for slot in &schedule.slots {
            for touch in ops.get(slot.op as usize).into_iter().flat_map(|op| touches(&function.body.ops[*op].kind)) {
                if matches!(touch, Touch::Copy(_)) {
                    // Loops that follow each other may fill the same ring.
                    let other = rings[touch.buffer().0 as usize].map_or(1, |ring| ring.depth);
                    let depth = depth(schedule, slot, touch.buffer(), &kept).max(other);
                    let by_boxes = boxes::filled(&function.body.ops[ops[slot.op as usize]].kind).is_some();
                    let told = asked == Asked::WhenTold && !boxes::is_nested(function, block) && !tensor::multiplies(function);
                    let from_start = by_boxes && asked != Asked::ByAll && !told;
                    rings[touch.buffer().0 as usize] = Some(Ring { block, depth, by_boxes, from_start });
                }
            }
        }
    }
    rings
}

/// The slots of a buffer that an op of the schedule copies to; `kept` are those that products in flight read.
pub(crate) fn depth(schedule: &LoopSchedule, slot: &Slot, buffer: Buffer, kept: &BTreeSet<Buffer>) -> u32 {
    let ahead = schedule.last_stage() - slot.stage;
    ahead + u32::from(ahead == 0 || !common::planted("sched.depth")) + u32::from(ahead > 0 && kept.contains(&buffer))
}

/// Slots of a ring at most: more hide nothing more.
const DEEPEST: u32 = 8;
/// Bytes that the system takes of each block.
const OF_SYSTEM: u32 = 1024;

fn resident_of(bytes: u32, most: u32) -> u32 {
    (most + OF_SYSTEM) / bytes.saturating_add(OF_SYSTEM)
}

/// The shared memory that a block may take when so many of them have room.
pub(crate) fn share(most: u32, blocks: u32) -> u32 {
    ((most + OF_SYSTEM) / blocks.max(1)).saturating_sub(OF_SYSTEM)
}

/// The blocks of a function for which a multiprocessor has shared memory.
pub(crate) fn resident(attrs: &FunctionAttrs, target: Target) -> u32 {
    resident_of(attrs.shared_bytes, budget::shared_memory(target)).max(1)
}

/// Slots of a ring that are worth more than being filled before its loop begins.
const ENOUGH: u32 = 3;

/// The rings of a function whose boxes have an agent of their own: those of several loops share memory where they have more slots so,
/// or more blocks their place; `resident` says how many have room that take so many bytes each.
fn of_divided(function: &Function, schedules: &[LoopSchedule], resident: &dyn Fn(u32) -> u32) -> Vec<Option<Ring>> {
    let [ahead, told] = [Asked::Ahead, Asked::WhenTold].map(|asked| deepest(function, rings(function, schedules, asked), resident));
    let worth = |rings: &[Option<Ring>]| {
        let least = rings.iter().flatten().filter(|ring| ring.by_boxes).map(|ring| ring.depth).min();
        let resident = resident(with_barriers(function, &place(function, rings, &BTreeSet::new()), true));
        (resident, least.map(|depth| depth.min(ENOUGH)))
    };
    if worth(&told) > worth(&ahead) { told } else { ahead }
}

/// An agent of their own lets copies run ahead as far as there are slots, so there are as many as take no block its place; where
/// that can be, as many for all copies of a loop, which then fill slots of one pipe.
fn deepest(function: &Function, mut rings: Vec<Option<Ring>>, resident: &dyn Fn(u32) -> u32) -> Vec<Option<Ring>> {
    let bytes = |rings: &[Option<Ring>]| with_barriers(function, &place(function, rings, &BTreeSet::new()), true);
    let before = resident(bytes(&rings)).max(1);
    let changed = |rings: &[Option<Ring>], depth: &dyn Fn(&Ring) -> u32| {
        let of_boxes = |ring: &Ring| if ring.by_boxes { depth(ring) } else { ring.depth };
        let all = rings.iter().map(|ring| ring.map(|ring| Ring { depth: of_boxes(&ring), ..ring }));
        Some(all.collect::<Vec<_>>()).filter(|all| resident(bytes(all)) >= before)
    };
    let mut furthest: BTreeMap<Block, u32> = BTreeMap::new();
    for ring in rings.iter().flatten().filter(|ring| ring.by_boxes) {
        let depth = furthest.entry(ring.block).or_default();
        *depth = ring.depth.max(*depth);
    }
    rings = changed(&rings, &|ring| furthest[&ring.block]).unwrap_or(rings);
    for _ in 1..DEEPEST {
        match changed(&rings, &|ring| DEEPEST.min(ring.depth + 1)) {
            Some(deeper) => rings = deeper,
            None => break,
        }
    }
    rings
}

/// The ops between which a buffer holds something, by position in program order.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
}

fn place(function: &Function, rings: &[Option<Ring>], doubled: &BTreeSet<Buffer>) -> Arena<Buffer, Placement> {
    let lives = lives(function, rings);
    let buffers = &function.attrs.program.buffers;
    let depth = |buffer: Buffer| match rings[buffer.0 as usize] {
        Some(ring) => ring.depth,
        None => 1 + u32::from(doubled.contains(&buffer)),
    };
    let bytes = |buffer: Buffer| buffers[buffer].bytes().saturating_mul(depth(buffer));
    // Large buffers first: small ones fit into what is left.
    let mut order: Vec<Buffer> = buffers.ids().collect();
    order.sort_by_key(|buffer| (std::cmp::Reverse(bytes(*buffer)), *buffer));
    let mut placed: Vec<(Buffer, u32)> = Vec::new();
    for buffer in order {
        let align = buffers[buffer].align.max(1);
        let overlaps = |other: Buffer| lives[buffer.0 as usize].meets(lives[other.0 as usize]);
        let mut taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|(other, _)| overlaps(*other))
            .map(|(other, at)| (*at, at.saturating_add(bytes(*other))))
            .collect();
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
    let (columns, _) = columns::place(function, doubled);
    let offset = |buffer, bytes| columns.get(&buffer).copied().unwrap_or(bytes);
    placed.into_iter().map(|(buffer, bytes)| Placement { offset: offset(buffer, bytes), depth: depth(buffer) }).collect()
}

impl Life {
    fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last && !common::planted("sched.lives")
    }
}

fn lives(function: &Function, rings: &[Option<Ring>]) -> Vec<Life> {
    let lives = vec![Life { first: usize::MAX, last: 0 }; function.attrs.program.buffers.len()];
    let mut walk = Walk { function, rings, position: 0, lives };
    walk.region(function.region);
    walk.lives
}

struct Walk<'a> {
    function: &'a Function,
    rings: &'a [Option<Ring>],
    position: usize,
    lives: Vec<Life>,
}

impl Walk<'_> {
    fn region(&mut self, at: Region) {
        let body = &self.function.body;
        for &op in &body.blocks[body.block_of(at)].ops {
            self.position += 1;
            let kind = &body.ops[op].kind;
            for touch in touches(kind) {
                let life = &mut self.lives[touch.buffer().0 as usize];
                *life = Life { first: life.first.min(self.position), last: life.last.max(self.position) };
            }
            let start = self.position;
            let inner = kind.regions();
            inner.iter().for_each(|inner| self.region(*inner));
            let lives = self.lives.iter_mut().zip(self.rings).filter(|(life, _)| life.last > start);
            for (life, ring) in lives {
                // What a loop reads but was written before it is read again in the next round.
                if life.first < start {
                    life.last = self.position;
                }
                // What a scheduled copy fills is in use all through the loop, and filled right before it.
                if let Some(ring) = ring.filter(|ring| inner.iter().any(|inner| body.block_of(*inner) == ring.block)) {
                    let first = if ring.from_start { 0 } else { life.first.min(start) };
                    *life = Life { first, last: self.position };
                }
            }
        }
    }
}
