//! The passes from `.as` to `.sched`. `analysis` only decides, `materialize` only rewrites; a file that already has a phase
//! behind it, perhaps edited by hand, goes on from there.

mod ahead;
mod alloc;
mod analysis;
mod barriers;
mod block_pairs;
mod boxes;
mod check;
mod columns;
mod early;
mod edges;
mod fences;
mod fragments;
mod graph;
mod hazards;
mod hurry;
mod in_flight;
mod latency;
mod live;
mod lookups;
mod machine;
mod materialize;
mod modulo;
mod multicast;
mod once;
mod ordering;
mod pairs;
mod partition;
mod pipes;
mod residency;
mod stores;
mod system;
mod tensor;
mod trace;

use base::diag::{Diagnostic, Result};
use base::{Arena, File, Target};
use common::Pass;
use partition::Wanted;
use sched::{Function, FunctionAttrs, LoopSchedule, Module, Phase};
use tileas::layout::{Layout, LayoutId};
pub use trace::trace;

pub const PASSES: &[Pass<File<Module>>] = &[
    Pass { name: "analysis", run: |file| phase(file, Phase::Analysis, analyse) },
    Pass { name: "alloc", run: |file| phase(file, Phase::Alloc, alloc) },
    Pass { name: "materialize", run: |file| phase(file, Phase::Materialize, materialize) },
];

/// What can be said against a file in the phase that it is in.
pub fn check(file: &File<Module>) -> Result<()> {
    match Phase::of(&file.envelope) {
        // Its loops are no more, and the rest was judged when it was read.
        Some(Phase::Materialize) => Ok(()),
        _ => check::schedules(file),
    }
}

/// Whether blocks are pairs decides what lies in memory, and so all that follows.
fn analyse(file: &mut File<Module>) -> Result<()> {
    let carry_out = |file: &mut File<Module>| analysis::run(file).and_then(|()| alloc(file)).and_then(|()| materialize(file));
    block_pairs::run(file, carry_out)?;
    analysis::run(file)
}

/// Schedules come from here or from a person: they are checked before anything is built on them.
fn alloc(file: &mut File<Module>) -> Result<()> {
    check::schedules(file)?;
    alloc::run(file)?;
    residency::run(file)
}

fn materialize(file: &mut File<Module>) -> Result<()> {
    check::schedules(file)?;
    let File { envelope, payload: Module { functions, schedules, layouts, .. } } = file;
    let target = envelope.target()?;
    for function in functions.iter_mut() {
        let [wanted, overlap] = [Wanted::of(envelope), Wanted::overlap(envelope)];
        let divided = match wanted != Wanted::Never && partition::has_copies(function) {
            true => {
                let divided = divided(function, schedules, layouts, (target, [wanted, overlap]));
                let divided = divided.map(|(divided, all, overlap)| {
                    (*function, *layouts) = (divided, all);
                    overlap
                });
                envelope.log.push(partition::told(function, divided.as_ref()));
                divided
            }
            false => Err("nothing has an agent of its own".into()),
        };
        if let (Wanted::WherePossible, Err(why) | Ok(Err(why))) = (overlap, &divided) {
            let refused = Diagnostic::unsupported("SC104", format!("--overlap: products have no two agents: {why}"));
            return Err(refused.at_loc(&envelope.debug, function.loc));
        }
        if divided.is_ok() {
            continue;
        }
        let own = match partition::rings::are_shared(function) {
            // Of one pipe nothing may run ahead of the loop before.
            true => partition::unhurried(function, schedules),
            false => boxes::schedules(function, schedules),
        };
        weave(function, &own, layouts, None);
    }
    for function in functions {
        block_pairs::finish(function, envelope)?;
        multicast::run(function, layouts, envelope)?;
        stores::run(function);
        fragments::run(function, layouts);
        early::run(function);
        edges::run(function, layouts);
        pairs::run(function, layouts, target);
    }
    Ok(())
}

/// Writes the scheduled loops, and places what else synchronises; for agents, of which products may have two, where they are `divided`.
fn weave(function: &mut Function, schedules: &[LoopSchedule], layouts: &Arena<LayoutId, Layout>, divided: Option<Wanted>) {
    let marks = materialize::run(function, schedules, divided.is_some());
    let taking_turns = divided.filter(|overlap| *overlap != Wanted::Never).map(|_| partition::taking_turns(function));
    let taking_turns = taking_turns.unwrap_or_default();
    let in_groups = !taking_turns.is_empty();
    tensor::run(function, taking_turns);
    once::run(function);
    if in_groups {
        hurry::run(function);
    }
    barriers::run(function, &marks, layouts);
    system::run(function);
    fences::run(function);
}

/// The function with agents for its copies and products, or why it has none.
fn divided(
    function: &Function,
    schedules: &[LoopSchedule],
    layouts: &Arena<LayoutId, Layout>,
    (target, wanted): (Target, [Wanted; 2]),
) -> partition::Divided {
    partition::check(function)?;
    partition::check_memory(function)?;
    let (mut divided, mut layouts) = (function.clone(), layouts.clone());
    weave(&mut divided, &partition::unhurried(function, schedules), &layouts, Some(wanted[1]));
    let overlap = partition::run(&mut divided, &mut layouts, target, wanted)?;
    Ok((divided, layouts, overlap))
}

/// The program as `tile-sched` finds it: nothing decided.
pub fn start(input: &File<tileas::Module>, producer: &str) -> File<Module> {
    let envelope = input.envelope.next::<Module>("start", producer);
    let tileas::Module { layouts, globals, functions } = input.payload.clone();
    let functions = functions.into_iter().map(|function| {
        let attrs = FunctionAttrs { program: function.attrs, ..FunctionAttrs::default() };
        let base::text::Function { name, loc, region, body, .. } = function;
        sched::Function { name, attrs, loc, region, body: body.map_ops(sched::Op::Core) }
    });
    File { envelope, payload: Module { layouts, globals, schedules: Vec::new(), functions: functions.collect() } }
}

/// Runs a phase unless the file has it behind it.
fn phase(file: &mut File<Module>, phase: Phase, run: fn(&mut File<Module>) -> Result<()>) -> Result<()> {
    let reached = Phase::of(&file.envelope);
    if reached.is_some_and(|reached| reached >= phase) {
        return Ok(());
    }
    run(file)?;
    file.envelope.phase = phase.name().into();
    Ok(())
}
