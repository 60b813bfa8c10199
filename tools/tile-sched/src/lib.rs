//! Passes from `.as` (TileAS, the assembler-near dialect) to `.sched`, in three phases: analysis, alloc, materialize.
//!
//! Analysis chooses loop schedules, alloc places buffers, and materialize rewrites the program. A `.sched` file that has
//! already completed a phase, perhaps edited by hand, resumes at the next phase.

mod alloc;
mod analysis;
mod barriers;
mod bounds_check_versioning;
mod buffer_accesses;
mod check_schedule;
mod command;
mod graph;
mod heap_and_print;
mod hoisted_tma_loads;
mod latency_hints;
mod mark_lazy_fragments;
mod materialize;
mod modulo;
mod multicast;
mod occupancy;
mod pack_f32x2;
mod pair_ctas;
mod partition;
mod prefetch_first_fragments;
mod proxy_fences;
mod register_prefetch;
mod register_pressure;
mod resource_model;
mod scalar_index_loads;
mod schedule_trace;
mod single_role_pipelines;
mod softmax_critical_path;
mod tma_pipelines;
mod tma_store_waits;
mod tmem_alloc;
mod tmem_pipelines;
mod token_barriers;
mod wgmma_in_flight;

use base::diag::{Diagnostic, Result};
use base::{Arena, File, Target};
pub use command::{ABOUT, Options, run};
use common::Pass;
use partition::FeatureChoice;
use sched::{Function, FunctionAttrs, LoopSchedule, Module, Phase};
pub use schedule_trace::trace;
use tileas::layout::{Layout, LayoutId};

/// The three phases, in the order in which they run.
pub const PASSES: &[Pass<File<Module>>] = &[
    Pass { name: "analysis", run: |file| run_phase(file, Phase::Analysis, analyse) },
    Pass { name: "alloc", run: |file| run_phase(file, Phase::Alloc, alloc) },
    Pass { name: "materialize", run: |file| run_phase(file, Phase::Materialize, materialize) },
];

/// Checks the schedules of a file that has not been materialized yet.
pub fn check(file: &File<Module>) -> Result<()> {
    match Phase::of(&file.envelope) {
        // A materialized file has no scheduled loops left, and the hazard checker verified it when it was read.
        Some(Phase::Materialize) => Ok(()),
        _ => check_schedule::check_schedules(file),
    }
}

/// Decides CTA pairing first. Reason: pairing halves the right operands, so every later decision about shared memory depends on
/// it.
fn analyse(file: &mut File<Module>) -> Result<()> {
    let run_later_passes =
        |file: &mut File<Module>| analysis::run(file).and_then(|()| alloc(file)).and_then(|()| materialize(file));
    pair_ctas::run(file, run_later_passes)?;
    analysis::run(file)
}

/// Places buffers. A user may have edited a schedule, so the function checks the schedules first.
fn alloc(file: &mut File<Module>) -> Result<()> {
    check_schedule::check_schedules(file)?;
    alloc::run(file)?;
    occupancy::run(file)
}

/// Rewrites the program as scheduled, with warp roles if the function can be split into them.
fn materialize(file: &mut File<Module>) -> Result<()> {
    check_schedule::check_schedules(file)?;
    let File { envelope, payload: Module { functions, schedules, layouts, .. } } = file;
    let target = envelope.target()?;
    for function in functions.iter_mut() {
        let [choice, overlap] = [FeatureChoice::of(envelope), FeatureChoice::overlap(envelope)];
        let partitioned = match choice != FeatureChoice::Never && partition::has_copies(function) {
            true => {
                let partitioned = split_into_roles(function, schedules, layouts, (target, [choice, overlap]));
                let partitioned = partitioned.map(|(partitioned, new_layouts, overlap)| {
                    (*function, *layouts) = (partitioned, new_layouts);
                    overlap
                });
                envelope.log.push(partition::remark(function, partitioned.as_ref()));
                partitioned
            }
            false => Err("the function has no TMA copies, or --roles=off".into()),
        };
        if let (FeatureChoice::WherePossible, Err(reason) | Ok(Err(reason))) = (overlap, &partitioned) {
            let refused =
                Diagnostic::unsupported("SC104", format!("--overlap: MMAs cannot be split between two warp roles: {reason}"));
            return Err(refused.at_loc(&envelope.debug, function.loc));
        }
        if partitioned.is_ok() {
            continue;
        }
        let own_schedules = match partition::share_pipelines::are_shared(function) {
            // Loops that share a pipeline must fill it in program order, so no copy runs ahead across loops.
            true => partition::without_prefetch(function, schedules),
            false => tma_pipelines::with_serial_schedules(function, schedules),
        };
        materialize_loops(function, &own_schedules, layouts, None);
    }
    for function in functions {
        pair_ctas::finish(function, envelope)?;
        multicast::run(function, layouts, envelope)?;
        tma_store_waits::run(function);
        mark_lazy_fragments::run(function, layouts);
        prefetch_first_fragments::run(function);
        bounds_check_versioning::run(function, layouts);
        pack_f32x2::run(function, layouts, target);
    }
    Ok(())
}

/// Expands the scheduled loops and places all other synchronisation. If `partitioned` is set, the caller will split the function
/// into warp roles; the value decides whether two of them may issue MMAs.
fn materialize_loops(
    function: &mut Function,
    schedules: &[LoopSchedule],
    layouts: &Arena<LayoutId, Layout>,
    partitioned: Option<FeatureChoice>,
) {
    let pipelined_loops = materialize::run(function, schedules, partitioned.is_some());
    let ping_pong_roles =
        partitioned.filter(|overlap| *overlap != FeatureChoice::Never).map(|_| partition::ping_pong_roles(function));
    let ping_pong_roles = ping_pong_roles.unwrap_or_default();
    let has_two_compute_roles = !ping_pong_roles.is_empty();
    tmem_pipelines::run(function, ping_pong_roles);
    hoisted_tma_loads::run(function);
    if has_two_compute_roles {
        softmax_critical_path::run(function);
    }
    barriers::run(function, &pipelined_loops, layouts);
    heap_and_print::run(function);
    proxy_fences::run(function);
}

/// Returns the function split into warp roles for its TMA copies and MMAs, or the reason it stays in one role.
fn split_into_roles(
    function: &Function,
    schedules: &[LoopSchedule],
    layouts: &Arena<LayoutId, Layout>,
    (target, choice): (Target, [FeatureChoice; 2]),
) -> partition::SplitResult {
    partition::check(function)?;
    partition::check_memory(function)?;
    let (mut partitioned, mut layouts) = (function.clone(), layouts.clone());
    materialize_loops(&mut partitioned, &partition::without_prefetch(function, schedules), &layouts, Some(choice[1]));
    let overlap = partition::run(&mut partitioned, &mut layouts, target, choice)?;
    Ok((partitioned, layouts, overlap))
}

/// Converts a `.as` module to `.sched`, without any scheduling decision.
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

/// Runs a phase unless the file has already completed it.
fn run_phase(file: &mut File<Module>, phase: Phase, run: fn(&mut File<Module>) -> Result<()>) -> Result<()> {
    let reached = Phase::of(&file.envelope);
    if reached.is_some_and(|reached| reached >= phase) {
        return Ok(());
    }
    run(file)?;
    file.envelope.phase = phase.name().into();
    Ok(())
}
