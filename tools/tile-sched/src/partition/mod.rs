//! Gives the copies that the copy engine makes to an agent of their own, which runs ahead of the one that computes as far as
//! there are free slots; and the products in tensor memory to another one, which runs as far ahead as what it multiplies is there.
//!
//! What threads do is that of one agent, or where it is in two strands of two ([`Groups`]).
//!
//! Requires: a function of one agent, complete with waits, barriers and fences, that fills every slot in the iteration that reads it
//! ([`unhurried`]). Establishes: a body for each agent, with what it does and what that needs; what several need of scalars and
//! views is computed before. [`seeds`] and [`mod@slice`] decide, [`bodies`] rewrites, [`registers`] says how the warps share
//! those; [`rings`] comes before everything is decided.

mod bodies;
mod groups;
mod lines;
mod registers;
pub(crate) mod rings;
mod seeds;
mod slice;

use crate::{alloc, boxes, columns, tensor};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op;
use base::{Arena, Envelope, Target};
pub(crate) use groups::Groups;
use lines::Lines;
use registers::Crew;
use sched::{Agent, AgentInfo, Drain, Function, LoopSchedule, Pipe, PipeInfo, Slot};
pub(crate) use seeds::Order;
use seeds::{Role, Roles};
use slice::Slice;
use std::collections::BTreeMap;
use tileas::layout::{Layout, LayoutId};

/// Why a function stays that of one agent.
pub(crate) type Why = String;

/// Whether products in tensor memory have two agents, or why one is enough.
pub(crate) type Overlap = Result<(), Why>;

/// A function that is divided, with the layouts of its module and its own.
pub(crate) type Divided = Result<(Function, Arena<LayoutId, Layout>, Overlap), Why>;

/// Whether something has an agent of its own, such as the copy engine's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    Never,
    WherePays,
    WherePossible,
}

impl Wanted {
    pub(crate) fn of(envelope: &Envelope) -> Wanted {
        Wanted::said(envelope.options.get("agents"))
    }
    /// Whether products in tensor memory have two agents: what `--overlap` says.
    pub(crate) fn overlap(envelope: &Envelope) -> Wanted {
        Wanted::said(envelope.options.get("overlap"))
    }
    fn said(word: Option<&str>) -> Wanted {
        match word {
            Some("off") => Wanted::Never,
            Some("on") => Wanted::WherePossible,
            _ => Wanted::WherePays,
        }
    }
}

/// Whether there is anything that could be given away.
pub(crate) fn has_copies(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| boxes::filled(&function.body.ops[*op].kind).is_some())
}

/// Whether a function has something to give away, as far as can be told before it is woven.
pub(crate) fn check(function: &Function) -> Result<(), Why> {
    seeds::check(function)
}

/// The ops during which one of two agents that compute has the special functions to itself, and whose each is; none where one computes.
pub(crate) fn taking_turns(function: &Function) -> BTreeMap<Op, usize> {
    Groups::of(function).map(|groups| groups.taking_turns(function)).unwrap_or_default()
}

/// What the log says of a function, which is divided already where it can be.
pub(crate) fn told(function: &Function, divided: Result<&Overlap, &Why>) -> LogEntry {
    let has = |role: Role| function.attrs.agents.values().any(|info| info.name == role.name());
    let products = match divided {
        _ if !has(Role::Multiply(0)) => String::new(),
        _ if has(Role::Compute(1)) => ", and two agents compute, each with products of its own that another one asks for".into(),
        Ok(Err(why)) => format!(", and products in tensor memory another one, not two: {why}"),
        _ => ", and products in tensor memory two: those that a round begins with are made during the round before".into(),
    };
    let stores = if has(Role::Store) { ", and its stores one more" } else { "" };
    let (outcome, message) = match divided {
        Ok(_) => (Outcome::Passed, format!("the copy engine's copies have an agent of their own{stores}{products}")),
        Err(why) => (Outcome::Declined, format!("the copies have no agent of their own: {why}")),
    };
    let (pass, name, category) = ("materialize".into(), "Specialised".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Schedules that make each copy by boxes at the start of the iteration that needs it, but for those that fill a buffer in turn: an agent
/// of its own runs ahead by itself.
pub(crate) fn unhurried(function: &Function, schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let mut all = boxes::schedules(function, schedules);
    for schedule in &mut all {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let (ops, last) = (&function.body.blocks[block].ops, schedule.last_stage());
        let in_turn = boxes::filled_in_turn(function, block);
        let by_boxes = |slot: &Slot| {
            let filled = ops.get(slot.op as usize).and_then(|op| boxes::filled(&function.body.ops[*op].kind));
            filled.is_some_and(|buffer| !in_turn.contains(&buffer))
        };
        if !schedule.slots.iter().any(by_boxes) {
            continue;
        }
        schedule.interval += 1;
        for slot in &mut schedule.slots {
            match by_boxes(slot) {
                true => (slot.stage, slot.cycle) = (last, 0),
                false => slot.cycle += 1,
            }
        }
    }
    all
}

fn crew(function: &Function, lines: &Lines, target: Target, wanted: Wanted) -> Result<Crew, Why> {
    // Who computes could only ask for a copy that takes turns with others when products have read the one before.
    let wanted = if boxes::are_filled_in_turn(function) { wanted.max(Wanted::WherePossible) } else { wanted };
    let resident = alloc::resident(&function.attrs, target).min(blocks(function, target));
    registers::crew(function, lines, resident, (target, wanted))
}

/// Two agents for products where that pays, and one of them does not take registers that others need.
fn crew_of_products(function: &Function, target: Target, [wanted, overlap]: [Wanted; 2]) -> Result<(Crew, Lines, Overlap), Why> {
    let one = crew(function, &Lines::default(), target, wanted)?;
    let lines = match overlap {
        Wanted::Never => Err("--overlap=off".into()),
        _ => Lines::in_groups(function).or_else(|_| Lines::of(function)),
    };
    let two = lines.and_then(|lines| {
        let two = crew(function, &lines, target, wanted)?;
        let pays = overlap == Wanted::WherePossible || two.is_ample || !one.is_ample;
        if pays { Ok((two, lines)) } else { Err("a warp more leaves others too few registers".into()) }
    });
    Ok(match two {
        Ok((two, lines)) => (two, lines, Ok(())),
        Err(why) => (one, Lines::default(), Err(why)),
    })
}

/// The blocks that registers have room for on a multiprocessor, and at least as many as the author asks for. Sums in tensor memory
/// take none, but columns.
pub(crate) fn blocks(function: &Function, target: Target) -> u32 {
    match tensor::multiplies(function) {
        true => columns::resident(function, target),
        false => registers::resident(function, target).max(function.attrs.program.occupancy.unwrap_or(1)),
    }
}

/// Whether slots are where an agent of their own can fill them.
pub(crate) fn check_memory(function: &Function) -> Result<(), Why> {
    let mut shared = boxes::after_others(function);
    // In a loop inside another one the copies would have to wait in each round.
    if shared.any(|block| tensor::multiplies(function) || boxes::is_nested(function, block)) {
        return Err("what a loop copies shares its memory with something before the loop".into());
    }
    Ok(())
}

/// Whether there are registers for another agent beside the blocks that shared memory has room for.
pub(crate) fn has_crew(function: &Function, target: Target, wanted: Wanted) -> bool {
    crew(function, &Lines::default(), target, wanted).is_ok()
}

/// Whether threads have the registers that they need where so many blocks are at a time.
pub(crate) fn has_registers(function: &Function, blocks: u32, target: Target) -> bool {
    registers::crew(function, &Lines::default(), blocks, (target, Wanted::WherePossible)).is_ok_and(|crew| crew.is_ample)
}

/// Divides a function among agents.
pub(crate) fn run(
    function: &mut Function,
    layouts: &mut Arena<LayoutId, Layout>,
    target: Target,
    wanted: [Wanted; 2],
) -> Result<Overlap, Why> {
    let (Crew { agents: crew, resident, .. }, lines, overlap) = crew_of_products(function, target, wanted)?;
    let roles = Roles::of(function, &lines);
    let slices: Vec<Slice> = crew.iter().map(|(role, _)| Slice::of(&roles, *role)).collect::<Result<_, Why>>()?;
    slices.iter().filter(|slice| !slice.role().computes()).try_for_each(|slice| seeds::is_scalar(&roles, slice))?;
    let pipes = given_pipes(&roles, &crew);
    function.attrs.pipes = pipes;
    function.attrs.program.warps = crew.iter().map(|(_, info)| info.first_warp + info.warps).max().unwrap_or(0);
    // Registers for more blocks than shared memory has room for would be left over.
    let hinted = function.attrs.program.occupancy;
    if hinted.is_some_and(|hinted| hinted > resident) || resident > 1 && crew.iter().any(|(_, info)| info.registers.is_some()) {
        function.attrs.program.occupancy = Some(resident);
    }
    crew.into_iter().for_each(|(_, info)| _ = function.attrs.agents.push(info));
    bodies::write(function, &slices, layouts);
    Ok(overlap)
}

/// Each pipe has those as its producer and consumers who do its steps.
fn given_pipes(roles: &Roles<'_>, crew: &[(Role, AgentInfo)]) -> Arena<Pipe, PipeInfo> {
    let agent = |role: &Role| {
        let at = crew.iter().position(|(other, _)| other == role).expect("an agent of each role that has steps");
        (Agent(at as u32), crew[at].1.threads())
    };
    let mut pipes = roles.function().attrs.pipes.clone();
    for (info, pipe) in pipes.values_mut().zip(roles.function().attrs.pipes.ids()) {
        let [fills, drains] = [roles.fills(pipe), roles.drains(pipe)];
        let (producer, filling) = agent(&fills[0]);
        if !drains.contains(&fills[0]) && info.drain == Drain::Threads {
            info.drain = Drain::Warps;
        }
        info.producer = producer;
        info.full = if info.fills_alone() { 1 } else { filling };
        info.consumers = drains.iter().map(|role| agent(role).0).collect();
        info.empty = drains.iter().map(|role| info.releases(agent(role).1)).sum();
    }
    pipes
}
