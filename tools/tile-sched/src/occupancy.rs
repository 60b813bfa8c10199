//! Purpose: lower the register limit per thread so that more CTAs fit, in functions without MMAs whose live registers nearly allow
//! it.
//! Requires: placements for [`run`] (functions without loops); loops without schedules for [`raise_for_loops`].
//! Establishes: an occupancy, unless an option sets it. The author's hint is the minimum.
//! Preserves: the ops.
//! See also: CUDA `__launch_bounds__` (`minBlocksPerMultiprocessor`), PTX `.minnctapersm`.
//!
//! A CTA without MMAs mostly waits for memory or for its own results, and other CTAs hide that latency. `ptxas` allocates the
//! registers, so this pass only estimates them from liveness in program order. `ptxas` needs fewer registers under a tight limit,
//! because it can delay loads.
//!
//! - A function without loops reads, computes and writes once: it gets one more CTA.
//! - In a loop each iteration waits for the previous one: the function gets as many CTAs as fit with the minimum number of
//!   registers per thread.

use crate::pipelining_options::pipelines_loops;
use crate::register_pressure::{estimated_min_registers, estimated_registers};
use base::envelope::{Category, LogEntry, Outcome};
use base::{Arena, Envelope, File, Target};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_persistent;
use sched::{Function, Module, Op};
use tileas::{Layout, LayoutId, budget};

/// Allocation granularity of registers per thread: an SM allocates registers to a warp in units of 256.
const REGISTER_GRANULARITY: u32 = 8;
/// Minimum register limit, in percent of the estimated registers.
const MIN_PERCENT_OF_ESTIMATE: u32 = 75;
/// With at most this many registers per thread, 16 warps fit on an SM, which hide the latencies. A lower limit would cause spills.
const FEW_REGISTERS: u32 = 112;
/// Number of warps per SM that suffices to hide latencies.
pub(crate) const ENOUGH_WARPS: u32 = 16;

pub(crate) fn run(file: &mut File<Module>) -> base::diag::Result<()> {
    let target = file.envelope.target()?;
    if file.envelope.options.get("occupancy").is_some() {
        return Ok(());
    }
    let File { envelope, payload: Module { functions, layouts, .. } } = file;
    for function in functions {
        if let Some(resident_ctas) = one_more_cta(function, layouts, target) {
            set_occupancy(function, resident_ctas, "occupancy", target, envelope);
        }
    }
    Ok(())
}

/// Raises the occupancy of functions with loops, before the loops are scheduled.
pub(crate) fn raise_for_loops(file: &mut File<Module>) -> base::diag::Result<()> {
    let File { envelope, payload: Module { functions, layouts, .. } } = file;
    if !pipelines_loops(envelope)? || envelope.options.get("occupancy").is_some() {
        return Ok(());
    }
    let target = envelope.target()?;
    for function in functions {
        if let Some(resident_ctas) = ctas_for_loops(function, layouts, target) {
            set_occupancy(function, resident_ctas, "loop-occupancy", target, envelope);
        }
    }
    Ok(())
}

/// An occupancy, in CTAs per SM, and the estimate of the registers that a thread needs.
struct ResidentCtas {
    ctas: u32,
    needed_registers: u32,
}

/// Records the occupancy of a function and logs the decision.
fn set_occupancy(function: &mut Function, resident_ctas: ResidentCtas, pass: &str, target: Target, envelope: &mut Envelope) {
    let ResidentCtas { ctas, needed_registers } = resident_ctas;
    function.attrs.program.occupancy = Some(ctas);
    let registers = function.attrs.launch_registers(target);
    let message = format!("a thread has {registers} registers, so that {ctas} CTAs fit; about {needed_registers} are live at once");
    log(function, message, pass, envelope);
}

/// Adds a log entry about the occupancy of a function.
fn log(function: &Function, message: String, pass: &str, envelope: &mut Envelope) {
    let (outcome, category) = (Outcome::Passed, Category::Other);
    envelope.log.push(LogEntry {
        pass: pass.into(),
        outcome,
        name: "Occupancy".into(),
        category,
        message,
        function: function.name.clone(),
        loc: function.loc,
    });
}

/// Returns the new occupancy of a function without loops and MMAs: one CTA more than fit with the estimated registers. Returns
/// `None` if the additional CTA is not worthwhile or does not fit.
fn one_more_cta(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<ResidentCtas> {
    let program = &function.attrs.program;
    if has_op(function, |op| is_loop(op) || is_mma(op)) {
        return None;
    }
    let needs = estimated_registers(function, layouts);
    if needs <= FEW_REGISTERS {
        return None;
    }
    let registers_with = |ctas: u32| budget::registers(target, program.warps, ctas) & !(REGISTER_GRANULARITY - 1);
    let ctas = max_ctas_with(needs, &registers_with)? + 1;
    let fits_in_smem = ctas <= budget::ctas_by_shared_memory(target, function.attrs.shared_bytes);
    let already_hinted = program.occupancy.is_some_and(|hinted| hinted >= ctas);
    (fits_in_smem && !already_hinted && registers_with(ctas) * 100 >= needs * MIN_PERCENT_OF_ESTIMATE)
        .then_some(ResidentCtas { ctas, needed_registers: needs })
}

/// Returns the new occupancy of a function with loops: the CTAs that fit with the minimum registers. Returns `None` if that does
/// not raise the occupancy, or if the function has MMAs, asynchronous copies or a persistent loop.
fn ctas_for_loops(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<ResidentCtas> {
    let program = &function.attrs.program;
    let is_copy = |op: &Op| op.effects().copied_to().is_some();
    // A persistent grid launches only as many CTAs as its author computed.
    let ops = function.body.walk(function.region);
    if ops.into_iter().any(|op| is_persistent(&function.body, op, Op::core)) {
        return None;
    }
    if !has_op(function, is_loop)
        || has_op(function, |op| is_mma(op) || is_copy(op))
        || estimated_registers(function, layouts) <= FEW_REGISTERS
    {
        return None;
    }
    let needs = estimated_min_registers(function, layouts);
    let registers_with = |ctas: u32| budget::registers(target, program.warps, ctas) & !(REGISTER_GRANULARITY - 1);
    let ctas = max_ctas_with(needs, &registers_with)?.min(ENOUGH_WARPS / program.warps);
    (ctas > program.occupancy.unwrap_or(1)).then_some(ResidentCtas { ctas, needed_registers: needs })
}

/// Returns how many CTAs fit if a thread needs `needs` registers, or `None` if not even one fits. `registers_with` maps a number of
/// CTAs to the register limit of a thread.
fn max_ctas_with(needs: u32, registers_with: &dyn Fn(u32) -> u32) -> Option<u32> {
    (1..).take_while(|ctas| registers_with(*ctas) >= needs.next_multiple_of(REGISTER_GRANULARITY)).last()
}

/// Returns whether an op of a function satisfies a predicate.
fn has_op(function: &Function, predicate: impl Fn(&Op) -> bool) -> bool {
    function.body.walk(function.region).into_iter().any(|op| predicate(&function.body.ops[op].kind))
}

fn is_loop(op: &Op) -> bool {
    op.core().is_some_and(Core::is_loop)
}

fn is_mma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { .. }))
}
