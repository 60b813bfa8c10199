//! The rules of `.sched` files (V-SCHED). A reader may index freely in what passes them.
//!
//! | code | rule |
//! |---|---|
//! | AS… | the program keeps the rules of `.as` ([`tileas::verify`]) |
//! | SC001 | the phase is one of `.sched` |
//! | SC006 | from phase alloc on every buffer has a place, aligned and inside the memory of the function, which the target has |
//! | SC007 | waits and barriers are there from phase materialize on, for threads that the function has; accesses to rings, and no others, name a slot |
//! | SC008 | a schedule is of a loop that is there, names each of its ops once, and has no more stages than a ring has slots |
//! | SC009 | agents share out the warps of the block and their registers; each has a body, at the end of the function |
//! | SC010 | pipes have slots and barriers of their own, and only their agents touch them |
//! | SC011 | what is done on pairs of registers, or written in two ways, can be on the target |
//! | SC012 | memory of the heap is given back, tiles are printed and boxes are stored behind what they have to wait for |
//! | SC13… | its waits, barriers and placements are what the program needs ([`crate::judge`]) |
//!
//! Whether a schedule keeps the dependences of its loop and fits the machine is checked by `tile-sched`, which makes it.

mod agents;

use crate::module::{Function, LoopSchedule, Module, Phase, TensorMemory};
use crate::{Agent, FunctionAttrs, Op, PipeInfo};
use base::diag::{Diagnostic, Place, Result};
use base::ir::{OpNode, Operation};
use base::{Arena, Envelope, Loc, Target};
use numerics::Scalar;
use tileas::effects::{BufferAccess, Completes, Effects};
use tileas::layout::{Layout, LayoutId};
use tileas::{Space, Type};
use vocabulary::rules::{Rule, require};
use vocabulary::tile::Elem;

/// Named barriers of a block.
const BARRIERS: u32 = 16;
/// Groups of copies that a thread can have under way.
const MOST_GROUPS: u32 = 1 << 16;
/// Columns of tensor memory that a block takes at least.
const FEWEST_COLUMNS: u32 = 32;
/// Stages of a schedule: each takes a slot of a ring, and of shared memory.
const MOST_STAGES: u32 = 64;

/// Everything but the order of accesses, which [`crate::judge::module`] checks.
pub(crate) fn structure(module: &Module, envelope: &Envelope) -> Result<Phase> {
    let target = envelope.target()?;
    let phase = Phase::of(envelope)
        .ok_or_else(|| Diagnostic::invalid("SC001", format!("'{}' is not a phase of .sched", envelope.phase)))?;
    let Module { layouts, globals, functions, .. } = module;
    tileas::verify::program(layouts, globals, functions, agents::parts, envelope)?;
    functions.iter().try_for_each(|function| {
        let refuse =
            |code: &str, message: String| Diagnostic::invalid(code, message).at(Place::Entity(format!("func {}", function.name)));
        if phase >= Phase::Alloc {
            placements(&function.attrs, target)
                .and_then(|()| crate::answers::are_apart(function))
                .map_err(|message| refuse("SC006", message))?;
        }
        agents::tables(function, phase, target).map_err(|message| refuse("SC009", message))?;
        agents::pipes(function, target).map_err(|message| refuse("SC010", message))?;
        agents::bodies(function).map_err(|(loc, message)| refuse("SC009", message).at_loc(&envelope.debug, loc))?;
        let runs = agents::who_runs(function);
        pieces(function, layouts, phase).map_err(|(loc, message)| refuse("SC007", message).at_loc(&envelope.debug, loc))?;
        ways(function, phase, layouts, target).map_err(|(loc, message)| {
            let refused = Diagnostic::unsupported("SC011", message).at_loc(&envelope.debug, loc);
            let func = format!("func {}", function.name);
            if refused.place.is_some() { refused.note(format!("in {func}")) } else { refused.at(Place::Entity(func)) }
        })?;
        if phase == Phase::Materialize {
            let around = crate::system::stands_around(function).and_then(|()| crate::stores::are_in_order(function));
            around.map_err(|(loc, message)| {
                Diagnostic::invalid("SC012", format!("in '{}': {message}", function.name)).at_loc(&envelope.debug, loc)
            })?;
        }
        function.body.ops.iter().try_for_each(|(id, op)| {
            let rule = synchronisation(function, phase, op, runs[id.0 as usize]);
            rule.map_err(|message| refuse("SC007", message).at_loc(&envelope.debug, op.loc))
        })
    })?;
    module.schedules.iter().try_for_each(|schedule| table(module, phase, schedule))?;
    Ok(phase)
}

/// A schedule as a table. Once it is carried out, its loop is no more.
fn table(module: &Module, phase: Phase, schedule: &LoopSchedule) -> Result<()> {
    let rule = || -> Rule {
        let function = module.functions.iter().find(|function| function.name == schedule.function);
        let function = function.ok_or("there is no such function")?;
        require(schedule.interval > 0, || "an iteration starts every 0 cycles".into())?;
        for (at, slot) in schedule.slots.iter().enumerate() {
            let op = slot.op;
            require(op as usize == at, || format!("the table lists op {op} where op {at} belongs; each is listed once, in order"))?;
            require(slot.stage < MOST_STAGES, || format!("op {op} is in stage {}; there are at most {MOST_STAGES}", slot.stage))?;
            let interval = schedule.interval;
            require(slot.cycle < interval, || format!("op {op} starts in cycle {} of {interval}", slot.cycle))?;
        }
        if phase == Phase::Materialize {
            return Ok(());
        }
        let block = crate::loop_body(function, schedule.index).ok_or("there is no such loop")?;
        let (listed, ops) = (schedule.slots.len(), function.body.blocks[block].ops.len() - 1);
        require(listed == ops, || format!("the table lists {listed} of {ops} ops"))
    };
    let place = Place::Entity(format!("func {}, loop {}", schedule.function, schedule.index));
    rule().map_err(|message| Diagnostic::invalid("SC008", message).at(place))
}

/// Loads in pieces could as well be made at once.
fn pieces(function: &Function, layouts: &Arena<LayoutId, Layout>, phase: Phase) -> std::result::Result<(), (Loc, String)> {
    let body = &function.body;
    let (uses, blocks) = (body.use_counts(function.region), body.op_blocks());
    let in_pieces = |op: &OpNode<Op>| matches!(op.kind, Op::Core(tileas::Op::SharedLoad { in_pieces: true, .. }));
    for (id, op) in body.ops.iter().filter(|(_, op)| in_pieces(op)) {
        let refuse = |message: String| (op.loc, format!("shared_load: {message}"));
        if phase != Phase::Materialize {
            return Err(refuse(format!("no load is made in pieces in phase {}", phase.name())));
        }
        let Some(block) = blocks[id.0 as usize] else { continue };
        crate::pieces::refused(function, layouts, &uses, block, id).map_err(|why| refuse(why.into()))?;
    }
    Ok(())
}

/// What is said of how an op is written can be: on pairs of registers, in two ways, and early.
fn ways(
    function: &Function,
    phase: Phase,
    layouts: &Arena<LayoutId, Layout>,
    target: Target,
) -> std::result::Result<(), (Loc, String)> {
    use tileas::Op as Program;
    let blocks = function.body.op_blocks();
    for (id, op) in function.body.ops.iter() {
        let rule = match &op.kind {
            Op::Core(Program::SharedLoad { early: true, .. }) => {
                let rule = blocks[id.0 as usize].map_or(Ok(()), |block| crate::early::refused(function, block));
                rule.map_err(|why| format!("it cannot be early: {why}"))
            }
            Op::Pairs { .. } => crate::pairs::refused(function, layouts, op, target),
            Op::Core(
                Program::LoadView { two_ways: true, .. }
                | Program::StoreView { two_ways: true, .. }
                | Program::ReduceView { two_ways: true, .. }
                | Program::CopyView { two_ways: true, .. },
            ) => crate::edges::refused(function, op)
                .map_err(|why| format!("two_ways: it cannot have a version without bounds checks: {why}")),
            _ => continue,
        };
        let in_phase = require(phase == Phase::Materialize, || format!("how it is written is not said in phase {}", phase.name()));
        rule.and(in_phase).map_err(|why| (op.loc, format!("{}: {why}", op.kind.mnemonic())))?;
    }
    Ok(())
}

/// The columns that a function takes are a number that can be taken, and so many that as many blocks as are to run at a time have
/// them.
fn tensor_memory(attrs: &FunctionAttrs, target: Target) -> Rule {
    let Some(TensorMemory { columns, address }) = attrs.tensor else { return Ok(()) };
    let most = tileas::budget::tensor_columns(target, attrs.program.occupancy.unwrap_or(1));
    require(columns.is_power_of_two() && (FEWEST_COLUMNS..=most).contains(&columns), || {
        format!("{columns} columns of tensor memory are none of a power of two from {FEWEST_COLUMNS} to {most}")
    })?;
    let (start, end) = (u64::from(address), u64::from(address) + u64::from(tileas::tensor::WORD));
    let inside = end <= u64::from(attrs.shared_bytes) && address.is_multiple_of(tileas::tensor::WORD);
    let meets = |from: u32, bytes: u64| start < u64::from(from) + bytes && u64::from(from) < end;
    let buffers = attrs.placements.iter().map(|(buffer, place)| {
        let info = &attrs.program.buffers[buffer];
        (place.offset, u64::from(info.bytes()) * u64::from(place.depth))
    });
    let barriers = attrs.pipes.values().map(|info| (info.barriers, u64::from(2 * PipeInfo::BARRIER) * u64::from(info.depth)));
    let apart = !buffers.chain(barriers).any(|(from, bytes)| meets(from, bytes));
    require(inside && apart, || format!("the word at {address} is not the function's, or something else lies there"))
}

/// Every buffer lies inside the function's memory and is aligned.
fn placements(attrs: &FunctionAttrs, target: Target) -> Rule {
    let (placed, buffers) = (attrs.placements.len(), attrs.program.buffers.len());
    require(placed == buffers, || format!("{placed} of {buffers} buffers have a place"))?;
    let most = tileas::budget::shared_memory(target);
    require(attrs.shared_bytes <= most, || format!("{target} has {most} bytes of shared memory, not {}", attrs.shared_bytes))?;
    tensor_memory(attrs, target)?;
    for (buffer, info) in attrs.program.buffers.iter() {
        let place = attrs.placements[buffer];
        require(place.depth > 0, || format!("{buffer} has no slot"))?;
        if info.space == Space::Tensor {
            let columns = attrs.tensor.map_or(0, |tensor| tensor.columns);
            let end = u64::from(place.offset) + u64::from(info.columns()) * u64::from(place.depth);
            require(end <= u64::from(columns) && place.offset.is_multiple_of(info.align), || {
                format!("{buffer} at {} does not fit the function's {columns} columns or its alignment", place.offset)
            })?;
            continue;
        }
        let end = u64::from(place.offset) + u64::from(info.bytes()) * u64::from(place.depth);
        require(end <= u64::from(attrs.shared_bytes) && place.offset.is_multiple_of(info.align), || {
            format!("{buffer} at {} does not fit the function's {} bytes or its alignment", place.offset, attrs.shared_bytes)
        })?;
    }
    Ok(())
}

/// The rule of an op that `.as` does not have.
fn synchronisation(function: &Function, phase: Phase, op: &OpNode<Op>, agent: Option<Agent>) -> Rule {
    let attrs = &function.attrs;
    let own = match &op.kind {
        Op::Core(program) => {
            agents::program_op(attrs, program, agent)?;
            return in_program(function, phase, &program.effects());
        }
        Op::Pairs { .. } => return Ok(()),
        Op::Agent { .. } => Ok(()),
        Op::PipeAcquire { .. } | Op::PipeCommit { .. } | Op::PipeWait { .. } | Op::PipeRelease { .. } => {
            agents::pipe_op(function, &op.kind, agent)
        }
        Op::Barrier { id, threads } if !attrs.agents.is_empty() => {
            let own = agent.map(|agent| (agent.barrier(), attrs.agents[agent].threads()));
            require(own == Some((*id, *threads)), || match own {
                Some((id, threads)) => format!("this agent's barrier is {id}, for {threads} threads"),
                None => "there are barriers in the bodies of agents only".into(),
            })
        }
        Op::Barrier { id, threads } => {
            let all = attrs.program.warps * 32;
            let fits = *threads > 0 && *threads <= all && threads.is_multiple_of(32);
            require(fits, || format!("a barrier of {threads} threads is for none of the {all} there are, or not for whole warps"))?;
            require(*id > 0 || *threads == all, || "barrier 0 is for all threads".into())?;
            require(*id < BARRIERS, || format!("there are {BARRIERS} barriers"))
        }
        Op::CopyCommit {} | Op::AsyncFence {} | Op::Free { .. } | Op::PrintLock {} => Ok(()),
        Op::PrintStage { tiles } => {
            let tiles = tiles.iter().all(|tile| matches!(function.body.ty(*tile), Type::Tile { .. }));
            require(tiles, || "it puts tiles in place".into())
        }
        Op::CopyWait { pending } => require(*pending < MOST_GROUPS, || "so many groups are never under way".into()),
        Op::GroupWait { pending, sums } => {
            let whole = sums.is_empty() || *pending == 0;
            let tiles = sums.iter().all(|sum| matches!(function.body.ty(*sum), Type::Tile { .. }));
            require(whole && tiles, || "sums are complete when nothing is in flight".into())
        }
    };
    own?;
    require(op.results.is_empty(), || "it has no results".into())?;
    require(phase == Phase::Materialize, || format!("there is no synchronisation in phase {}", phase.name()))
}

/// What an op of `.as` says here that it cannot say there: which slot of a ring it means, and that it stays in flight.
fn in_program(function: &Function, phase: Phase, effects: &Effects<'_>) -> Rule {
    let flies = effects.completes == Completes::WithItsProducts;
    require(!flies || phase == Phase::Materialize, || format!("no product is in flight in phase {}", phase.name()))?;
    for (i, BufferAccess { buffer, slot, .. }) in effects.buffers.iter().enumerate() {
        // Rings are written down as such before anything goes round them.
        let ring = phase == Phase::Materialize && function.attrs.placements[*buffer].depth > 1;
        match slot {
            Some(_) if phase != Phase::Materialize => return Err(format!("no access names a slot in phase {}", phase.name())),
            Some(slot) => {
                let is_number = *function.body.ty(*slot) == Type::Scalar(Elem::Scalar(Scalar::I32));
                require(ring && is_number, || format!("{slot} is not the number of a slot of {buffer}"))?;
            }
            None => require(!ring, || format!("{buffer} is a ring, and the op does not say which slot it means"))?,
        }
        let others = effects.buffers[..i].iter().filter(|other| other.buffer == *buffer);
        let same = others.into_iter().all(|other| other.slot == *slot);
        require(same, || format!("the op means two slots of {buffer}"))?;
    }
    Ok(())
}
