//! Gives every buffer an address. Buffers whose lives do not overlap share memory.
//!
//! Requires: nothing. Establishes: one placement per buffer, and the function's bytes of shared memory, which fit the target.

use crate::boxes;
use crate::check;
use crate::hazards::{Touch, touches};
use crate::machine::Machine;
use crate::partition::{self, Groups, Wanted};
use crate::{columns, in_flight, latency, tensor};
use base::diag::{Diagnostic, Result};
use base::{Arena, Block, File, Loc, Target};
use common::options;
use sched::{Function, FunctionAttrs, LoopSchedule, Module, Op, PipeInfo, Placement, Slot, answers};
use std::collections::{BTreeMap, BTreeSet};
use tileas::lives::{self, Life};
use tileas::{Buffer, BufferInfo, budget};
use vocabulary::rules::takes_over;

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let target = file.envelope.target()?;
    let wanted = Wanted::of(&file.envelope);
    let asked = options::Scheduling::stages(&file.envelope)?;
    let machine = Machine::of(target);
    let level: Vec<LoopSchedule> = file.payload.schedules.iter().filter_map(|own| levelled(&file.payload, own, &machine)).collect();
    let Module { functions, schedules, .. } = &mut file.payload;
    for function in functions {
        let own = boxes::schedules(function, schedules);
        let divided = wanted != Wanted::Never && partition::check(function).is_ok();
        let mut doubled = BTreeSet::new();
        if divided {
            let blocks = partition::blocks(function, target);
            let groups = groups_with_room(function, &own, target);
            let groups = groups.as_ref();
            let resident = |bytes| resident_of(bytes, budget::shared_memory(target)).min(blocks);
            let (rings, stored) = match asked {
                None => beside_stores((function, groups), &own, &level, &resident),
                Some(_) => (rings(function, &own, &[], Asked::WhenTold), BTreeSet::new()),
            };
            doubled = self::doubled((function, groups), &rings, &stored, target);
            doubled.extend(stored);
            set(function, groups, &rings, &doubled, (true, target));
        }
        let most = budget::shared_memory(target);
        let alone = || !tensor::multiplies(function) && !partition::has_crew(function, target, wanted);
        if !divided || function.attrs.shared_bytes > most || alone() {
            if function.attrs.shared_bytes > most {
                doubled.clear();
            }
            set(function, None, &rings(function, &own, &[], Asked::ByAll), &doubled, (divided, target));
        }
        level_down(function, schedules, &level);
        // The last word is for the address of its columns, before the answers of launch control.
        let end = answers::memory(function).unwrap_or(function.attrs.shared_bytes);
        function.attrs.tensor = columns::taken(function, &doubled, end.saturating_sub(tileas::tensor::WORD));
        if function.attrs.shared_bytes > most {
            // ptxas words it so, and tuners look for these words.
            let used = function.attrs.shared_bytes;
            let message = format!("'{}' uses too much shared data (0x{used:x} bytes, 0x{most:x} max)", function.name);
            let error = Diagnostic::unsupported("SC100", message);
            return Err(error.at_loc(&file.envelope.debug, where_the_largest_is_used(function)));
        }
    }
    Ok(())
}

/// The buffers in tensor memory that have two slots, so that an agent of their own makes the sums of the next round while others take up
/// these, and threads store operands while products read those before: where there are columns for it in all blocks that have shared
/// memory, the sums first.
fn doubled((function, groups): Divided<'_>, rings: &[Option<Ring>], stored: &BTreeSet<Buffer>, target: Target) -> BTreeSet<Buffer> {
    let attrs = &function.attrs.program;
    let bytes = with_barriers(function, &place((function, groups), rings, stored), true);
    let blocks = resident_of(bytes, budget::shared_memory(target)).max(attrs.occupancy.unwrap_or(1));
    let may = tensor::made_again(function).into_iter().chain(tensor::scales(function)).collect();
    let columns = budget::tensor_columns(target, blocks);
    let doubled = columns::doubled(function, BTreeSet::new(), may, columns);
    columns::doubled(function, doubled, tensor::stored_ahead(function), columns)
}

fn set(
    function: &mut Function,
    groups: Option<&Groups>,
    rings: &[Option<Ring>],
    doubled: &BTreeSet<Buffer>,
    (divided, target): (bool, Target),
) {
    let alone = alone((function, groups), rings, doubled, (divided, target));
    function.attrs.placements = place_but((function, groups), rings, doubled, &alone);
    function.attrs.shared_bytes = with_barriers(function, &function.attrs.placements, divided);
}

/// Bytes of a buffer at most that gets memory of its own.
const MOST_ALONE: u32 = 16 << 10;

/// The buffers that get memory of their own, since what is stored in shared memory needs a barrier behind what was read there before:
/// as many of the smallest as take no block its place.
fn alone(
    divided_by: Divided<'_>,
    rings: &[Option<Ring>],
    doubled: &BTreeSet<Buffer>,
    (divided, target): (bool, Target),
) -> BTreeSet<Buffer> {
    // That buffers overlap which are in use together is seen only where they may overlap.
    if common::planted("sched.lives") {
        return BTreeSet::new();
    }
    let function = divided_by.0;
    let (buffers, blocks) = (&function.attrs.program.buffers, partition::blocks(function, target));
    let resident = |alone: &BTreeSet<Buffer>| {
        let bytes = with_barriers(function, &place_but(divided_by, rings, doubled, alone), divided);
        resident_of(bytes, budget::shared_memory(target)).min(blocks)
    };
    let may = |buffer: &Buffer| rings[buffer.0 as usize].is_none() && buffers[*buffer].bytes() <= MOST_ALONE;
    let mut smallest: Vec<Buffer> = buffers.ids().filter(may).collect();
    smallest.sort_by_key(|buffer| (buffers[*buffer].bytes(), *buffer));
    let first = |count: &usize| smallest[..*count].iter().copied().collect::<BTreeSet<Buffer>>();
    let before = resident(&BTreeSet::new()).max(1);
    let all = first(&smallest.len());
    if resident(&all) >= before {
        return all;
    }
    let counts: Vec<usize> = (1..smallest.len()).collect();
    first(&counts.partition_point(|count| resident(&first(count)) >= before))
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
        &place((function, None), &rings(function, &boxes::schedules(function, schedules), &[], asked), &BTreeSet::new()),
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

/// The memory of the buffers, and behind them of the barriers of pipes that there will be, of the address of tensor memory, and of the
/// answers of launch control.
fn with_barriers(function: &Function, placements: &Arena<Buffer, Placement>, divided: bool) -> u32 {
    let end = end(&function.attrs.program.buffers, placements);
    let slots = tensor::slots(function);
    let word = if columns::place(function, &BTreeSet::new()).1 > 0 { PipeInfo::BARRIER } else { 0 };
    let telling = if divided && !tensor::multiplies(function) { boxes::telling_bytes(function) } else { 0 };
    let all =
        match boxes::barrier_bytes(function, |buffer| placements[buffer].depth) + slots * 2 * PipeInfo::BARRIER + telling + word {
            0 => end,
            more => end.saturating_add(PipeInfo::BARRIER - 1) / PipeInfo::BARRIER * PipeInfo::BARRIER + more,
        };
    match takes_over(&function.body) {
        true => all.saturating_add(answers::ANSWER - 1) / answers::ANSWER * answers::ANSWER + answers::BYTES,
        false => all,
    }
}

/// The schedule in which all copies by boxes of a loop run as far ahead as the one that does least, where that keeps everything.
fn levelled(module: &Module, schedule: &LoopSchedule, machine: &Machine) -> Option<LoopSchedule> {
    let function = module.functions.iter().find(|function| function.name == schedule.function)?;
    let ops = &function.body.blocks[sched::loop_body(function, schedule.index)?].ops;
    let by_boxes = |slot: &Slot| ops.get(slot.op as usize).is_some_and(|op| boxes::filled(&function.body.ops[*op].kind).is_some());
    let latest = schedule.slots.iter().filter(|slot| by_boxes(slot)).map(|slot| slot.stage).max()?;
    let mut level = schedule.clone();
    level.slots.iter_mut().filter(|slot| by_boxes(slot)).for_each(|slot| slot.stage = latest);
    (level != *schedule && check::keeps(module, &level, machine).is_ok()).then_some(level)
}

/// Takes the levelled schedules of the loops whose rings are as deep as those need and no deeper.
fn level_down(function: &Function, schedules: &mut [LoopSchedule], level: &[LoopSchedule]) {
    for own in schedules.iter_mut().filter(|own| own.function == function.name) {
        let needed = rings(function, std::slice::from_ref(own), &[], Asked::ByAll);
        let is_short =
            |(buffer, ring): (Buffer, &Option<Ring>)| ring.is_some_and(|ring| ring.depth > function.attrs.placements[buffer].depth);
        let levelled = level.iter().find(|other| (&other.function, other.index) == (&own.function, own.index));
        if let Some(levelled) = levelled.filter(|_| function.attrs.program.buffers.ids().zip(&needed).any(is_short)) {
            *own = levelled.clone();
        }
    }
}

/// A buffer that a scheduled copy in a loop fills.
#[derive(Clone, Copy)]
struct Ring {
    /// The loop's body.
    block: Block,
    /// Slots: one, one more for each iteration that the copy runs ahead, and one for what a product in flight still reads.
    depth: u32,
    /// As many as it needs where all copies of its loop run as far ahead as the one that does least.
    levelled: u32,
    by_boxes: bool,
    /// Slots at most: what more would bring, or what its author wants.
    most: u32,
    /// Whether several copies of a round fill it.
    in_turn: bool,
    /// Whether it is filled when nothing says that what others do with the same memory before its loop is over.
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
fn rings(function: &Function, schedules: &[LoopSchedule], level: &[LoopSchedule], asked: Asked) -> Vec<Option<Ring>> {
    let mut rings: Vec<Option<Ring>> = vec![None; function.attrs.program.buffers.len()];
    for schedule in schedules.iter().filter(|schedule| schedule.function == function.name) {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let ops = &function.body.blocks[block].ops;
        let mut kept = if schedule.in_flight { in_flight::read(function, block) } else { BTreeSet::new() };
        kept.extend(tensor::operands_in(function, block));
        let in_turn = boxes::filled_in_turn(function, block);
        for slot in &schedule.slots {
            for touch in ops.get(slot.op as usize).into_iter().flat_map(|op| touches(&function.body.ops[*op].kind)) {
                if matches!(touch, Touch::Copy(_)) {
                    // Loops that follow each other may fill the same ring.
                    let other = rings[touch.buffer().0 as usize].map_or(1, |ring| ring.depth);
                    let of = |schedule: &LoopSchedule, slot: &Slot| depth(schedule, slot, touch.buffer(), &kept).max(other);
                    let levelled =
                        level.iter().find(|level| (&level.function, level.index) == (&schedule.function, schedule.index));
                    let levelled =
                        levelled.and_then(|level| Some(of(level, level.slots.iter().find(|other| other.op == slot.op)?)));
                    let depth = of(schedule, slot);
                    let levelled = levelled.unwrap_or(depth);
                    let by_boxes = boxes::filled(&function.body.ops[ops[slot.op as usize]].kind).is_some();
                    let told = asked == Asked::WhenTold && !boxes::is_nested(function, block) && !tensor::multiplies(function);
                    // Products in tensor memory may read on when their loop is over.
                    let is_read_on = tensor::multiplies(function) && kept.contains(&touch.buffer());
                    let from_start = by_boxes && (asked != Asked::ByAll && !told || is_read_on);
                    let in_turn = in_turn.contains(&touch.buffer());
                    let most = latency::slots(function, block).unwrap_or(DEEPEST);
                    rings[touch.buffer().0 as usize] = Some(Ring { block, depth, levelled, by_boxes, most, in_turn, from_start });
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

/// The rings of a function whose boxes have an agent of their own, and which of the buffers that boxes store from have two slots, so
/// that threads fill one while the other is stored: all, unless that takes a block its place, or loops a slot that they need.
fn beside_stores(
    (function, groups): Divided<'_>,
    schedules: &[LoopSchedule],
    level: &[LoopSchedule],
    resident: &dyn Fn(u32) -> u32,
) -> (Vec<Option<Ring>>, BTreeSet<Buffer>) {
    let plans = [tensor::stored(function), BTreeSet::new()].map(|stored| {
        let rings = of_divided((function, groups), schedules, (level, &stored), resident);
        let worth = worth((function, groups), &rings, &stored, resident);
        (worth, rings, stored)
    });
    let [twice, once] = plans;
    let (_, rings, stored) = if twice.0 >= once.0 { twice } else { once };
    (rings, stored)
}

/// The rings of a function whose boxes have an agent of their own: those of several loops share memory where they have more slots so,
/// or more blocks their place; `resident` says how many have room that take so many bytes each.
fn of_divided(
    (function, groups): Divided<'_>,
    schedules: &[LoopSchedule],
    (level, stored): (&[LoopSchedule], &BTreeSet<Buffer>),
    resident: &dyn Fn(u32) -> u32,
) -> Vec<Option<Ring>> {
    let all = [Asked::Ahead, Asked::WhenTold];
    let [ahead, told] = all.map(|asked| deepest((function, groups), rings(function, schedules, level, asked), stored, resident));
    let worth = |rings: &[Option<Ring>]| worth((function, groups), rings, stored, resident);
    if worth(&told) > worth(&ahead) { told } else { ahead }
}

/// How many blocks have room, and how many slots the ring has that has fewest, as far as more are worth something.
fn worth(
    (function, groups): Divided<'_>,
    rings: &[Option<Ring>],
    stored: &BTreeSet<Buffer>,
    resident: &dyn Fn(u32) -> u32,
) -> (u32, Option<u32>) {
    let least = rings.iter().flatten().filter(|ring| ring.by_boxes).map(|ring| ring.depth).min();
    let resident = resident(with_barriers(function, &place((function, groups), rings, stored), true));
    (resident, least.map(|depth| depth.min(ENOUGH)))
}

/// An agent of their own lets copies run ahead as far as there are slots, so there are as many as take no block its place; where
/// that can be, as many for all copies of a loop, which then fill slots of one pipe,
/// if need be no more than those have that run least ahead.
fn deepest(
    (function, groups): Divided<'_>,
    mut rings: Vec<Option<Ring>>,
    stored: &BTreeSet<Buffer>,
    resident: &dyn Fn(u32) -> u32,
) -> Vec<Option<Ring>> {
    let bytes = |rings: &[Option<Ring>]| with_barriers(function, &place((function, groups), rings, stored), true);
    // With one slot each copy would wait for what reads the one before: no other block hides as much.
    let second = |ring: &Ring| if ring.in_turn { ring.depth.max(2) } else { ring.depth };
    let with_second: Vec<Option<Ring>> = rings.iter().map(|ring| ring.map(|ring| Ring { depth: second(&ring), ..ring })).collect();
    if resident(bytes(&with_second)) > 0 {
        rings = with_second;
    }
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
    // An operand that runs further ahead than another waits for that.
    let by_boxes = rings.iter().flatten().filter(|ring| ring.by_boxes);
    let spare = by_boxes.map(|ring| furthest[&ring.block].saturating_sub(ring.levelled)).max().unwrap_or(0);
    let as_many = |fewer: u32| changed(&rings, &|ring| furthest[&ring.block].saturating_sub(fewer).max(ring.levelled));
    rings = (0..=spare).find_map(as_many).unwrap_or(rings);
    for _ in 1..DEEPEST {
        match changed(&rings, &|ring| ring.most.min(ring.depth + 1)) {
            Some(deeper) => rings = deeper,
            None => break,
        }
    }
    // What several copies of a round fill has a pipe of its own, and a slot more is worth as much to each of them.
    let in_turn = (0..rings.len()).filter(|at| rings[*at].is_some_and(|ring| ring.by_boxes && ring.in_turn));
    for at in in_turn.collect::<Vec<_>>() {
        while let Some(depth) = rings[at].filter(|ring| ring.depth < ring.most).map(|ring| ring.depth) {
            let mut deeper = rings.clone();
            deeper[at] = rings[at].map(|ring| Ring { depth: depth + 1, ..ring });
            if resident(bytes(&deeper)) < before {
                break;
            }
            rings = deeper;
        }
    }
    rings
}

/// A function, and the two agents that will compute it, if one is not enough.
type Divided<'a> = (&'a Function, Option<&'a Groups>);

/// Two agents that compute, if a multiprocessor has shared memory for what is each one's and two slots of all that both need.
fn groups_with_room(function: &Function, schedules: &[LoopSchedule], target: Target) -> Option<Groups> {
    let groups = Groups::wanted(function).ok()?;
    let second = |ring: Ring| Ring { depth: if ring.by_boxes { ring.depth.max(2) } else { ring.depth }, ..ring };
    let rings = rings(function, schedules, &[], Asked::WhenTold).into_iter().map(|ring| ring.map(second)).collect::<Vec<_>>();
    let placements = place((function, Some(&groups)), &rings, &BTreeSet::new());
    (with_barriers(function, &placements, true) <= budget::shared_memory(target)).then_some(groups)
}

fn place(divided: Divided<'_>, rings: &[Option<Ring>], doubled: &BTreeSet<Buffer>) -> Arena<Buffer, Placement> {
    place_but(divided, rings, doubled, &BTreeSet::new())
}

/// Places in which those `alone` share memory with no other.
fn place_but(
    (function, groups): Divided<'_>,
    rings: &[Option<Ring>],
    doubled: &BTreeSet<Buffer>,
    alone: &BTreeSet<Buffer>,
) -> Arena<Buffer, Placement> {
    let buffers = &function.attrs.program.buffers;
    let depth = |buffer: Buffer| match rings[buffer.0 as usize] {
        Some(ring) => ring.depth,
        None => 1 + u32::from(doubled.contains(&buffer)),
    };
    let filled = buffers.ids().zip(rings).filter_map(|(buffer, ring)| Some((buffer, (*ring)?)));
    let filled = filled.map(|(buffer, Ring { block, from_start, .. })| (buffer, lives::Ring { block, from_start })).collect();
    let mut lives = lives::lives((&function.body, function.region), buffers, Op::effects, &filled);
    for (buffer, sums) in tensor::read_on(function) {
        lives[buffer].last = lives[buffer].last.max(lives[sums].last);
    }
    // An agent of their own may still read them when all others are done, or in the next round.
    let apart = rings.iter().flatten().any(|ring| ring.from_start);
    for buffer in tensor::stored(function).into_iter().filter(|_| apart) {
        let first = if tensor::is_in_rounds(function, buffer) { 0 } else { lives[buffer].first };
        lives[buffer] = Life { first, last: usize::MAX };
    }
    // The agent that computes from all that such products give, and stores then, knows that they have.
    let of_it = lives.clone();
    // Products may still read them when those who stored them are elsewhere.
    let brought = tensor::brought_once(function);
    let stored = tensor::stored_operands(function).into_iter().filter(|buffer| tensor::is_in_rounds(function, *buffer));
    for buffer in stored.chain(brought) {
        lives[buffer] = Life { first: 0, last: usize::MAX };
    }
    if common::planted("sched.lives") {
        lives.values_mut().for_each(|life| *life = Life::NEVER);
    }
    let (columns, _) = columns::place(function, doubled);
    // One of two agents that compute does not know what is over for the other one.
    let stored_once = if groups.is_some() { stored_once(function) } else { BTreeSet::new() };
    let unknown = |one: Buffer, other: Buffer| groups.is_some_and(|groups| !groups.share(one, other));
    let meets = |one: Buffer, other: Buffer| match [one, other].iter().any(|buffer| stored_once.contains(buffer)) {
        true => of_it[one].meets(of_it[other]),
        false => lives[one].meets(lives[other]),
    };
    let is_alone = |one: Buffer, other: Buffer| alone.contains(&one) || alone.contains(&other);
    let places = lives::places(buffers, |one, other| is_alone(one, other) || unknown(one, other) || meets(one, other), depth);
    let offset = |(buffer, at): (Buffer, &u32)| columns.get(&buffer).copied().unwrap_or(*at);
    places.iter().map(|place| Placement { offset: offset(place), depth: depth(place.0) }).collect()
}

/// The operands of products that threads store before all loops.
fn stored_once(function: &Function) -> BTreeSet<Buffer> {
    let (body, entry) = (&function.body, function.entry());
    let blocks = body.op_blocks();
    let in_loops = |op: &base::ir::Op| blocks[op.0 as usize] != Some(entry);
    let stores = |op| match body.ops[op].kind {
        Op::Core(tileas::Op::SharedStore { buffer, .. }) => Some(buffer),
        _ => None,
    };
    let again: BTreeSet<Buffer> = body.walk(function.region).into_iter().filter(in_loops).filter_map(stores).collect();
    tensor::stored_operands(function).into_iter().filter(|buffer| !again.contains(buffer)).collect()
}
