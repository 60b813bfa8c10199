//! Gives the copies that the copy engine makes to an agent of their own, which runs ahead of the one that computes as far as
//! there are free slots.
//!
//! Requires: a function of one agent, complete with waits, barriers and fences, that fills every slot in the iteration that reads it
//! ([`unhurried`]). Establishes: a body for each agent, with what it does and what that needs; what several need of scalars and
//! views is computed before. [`seeds`] and [`slice`] decide, [`bodies`] rewrites, [`registers`] says how the warps share those.

mod bodies;
mod registers;
mod seeds;
mod slice;

use crate::boxes;
use base::envelope::{Category, LogEntry, Outcome};
use base::{Envelope, Target};
use sched::{Fill, Function, LoopSchedule, Slot};
use seeds::Role;
use slice::Slice;

/// Why a function stays that of one agent.
pub(crate) type Why = String;

/// A function that is divided.
pub(crate) type Divided = Result<Function, Why>;

pub(crate) fn is_wanted(envelope: &Envelope) -> bool {
    envelope.options.get("agents") == Some("on")
}

/// Whether a function has something to give away, as far as can be told before it is woven.
pub(crate) fn check(function: &Function) -> Result<(), Why> {
    seeds::check(function)
}

/// What the log says of a function.
pub(crate) fn told(function: &Function, divided: Result<(), &Why>) -> LogEntry {
    let (outcome, message) = match divided {
        Ok(()) => (Outcome::Passed, "the copy engine's copies have an agent of their own".into()),
        Err(why) => (Outcome::Declined, format!("the copies have no agent of their own: {why}")),
    };
    let (pass, name, category) = ("materialize".into(), "Specialised".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Schedules that make each copy by boxes at the start of the iteration that needs it: an agent of its own runs ahead by itself.
pub(crate) fn unhurried(function: &Function, schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let mut all = boxes::schedules(function, schedules);
    for schedule in &mut all {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let (ops, last) = (&function.body.blocks[block].ops, schedule.last_stage());
        let by_boxes =
            |slot: &Slot| ops.get(slot.op as usize).is_some_and(|op| boxes::filled(&function.body.ops[*op].kind).is_some());
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

/// Divides a function among agents.
pub(crate) fn run(function: &mut Function, target: Target) -> Result<(), Why> {
    let crew = registers::crew(&function.attrs, target);
    let slices: Vec<Slice> = crew.iter().map(|(role, _)| Slice::of(function, *role)).collect::<Result<_, Why>>()?;
    slices.iter().filter(|slice| slice.role() != Role::Compute).try_for_each(|slice| seeds::is_scalar(function, slice))?;
    for info in function.attrs.pipes.values_mut().filter(|info| info.fill == Fill::Boxes) {
        info.producer = Role::Load.agent();
    }
    function.attrs.program.warps = crew.iter().map(|(_, info)| info.first_warp + info.warps).max().unwrap_or(0);
    crew.into_iter().for_each(|(_, info)| _ = function.attrs.agents.push(info));
    bodies::write(function, &slices);
    Ok(())
}
