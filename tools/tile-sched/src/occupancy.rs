//! Purpose: lower the register limit per thread so that more CTAs fit, for CTAs without MMAs whose live values nearly allow it.
//! Requires: placements for [`run`] (functions without loops); undecided loops for [`in_loops`].
//! Establishes: an occupancy, unless an option sets it. The author's hint is the minimum.
//! Preserves: the ops.
//! See also: CUDA `__launch_bounds__` (`minBlocksPerMultiprocessor`), PTX `.minnctapersm`.
//!
//! Such a CTA mostly waits for memory or for its own results, and other CTAs hide that latency. `ptxas` allocates the
//! registers, so this pass only estimates them from liveness in program order. `ptxas` needs fewer under a tight limit because
//! it can delay loads.
//!
//! - A function without loops only reads, computes and writes: it gets one more CTA.
//! - In loops each iteration waits for the previous one: the function gets as many CTAs as leave each thread its minimum
//!   registers.

use crate::register_pressure::{needs, needs_at_least};
use base::envelope::{Category, LogEntry, Outcome};
use base::{Arena, Envelope, File, Target};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_persistent;
use sched::{Function, Module, Op};
use tileas::{Layout, LayoutId, budget};

/// Allocation granularity of registers per thread.
const STEP: u32 = 8;
/// Minimum register limit, in percent of the liveness estimate.
const ENOUGH: u32 = 75;
/// With at most this many registers per thread 16 warps already fit, which is enough; a lower limit would spill.
const FEW: u32 = 112;
/// Warps per SM that hide the latencies of each other.
pub(crate) const ENOUGH_WARPS: u32 = 16;

pub(crate) fn run(file: &mut File<Module>) -> base::diag::Result<()> {
    let target = file.envelope.target()?;
    if file.envelope.options.get("occupancy").is_some() {
        return Ok(());
    }
    let File { envelope, payload: Module { functions, layouts, .. } } = file;
    for function in functions {
        if let Some(found) = more(function, layouts, target) {
            give(function, found, "alloc", target, envelope);
        }
    }
    Ok(())
}

/// Raises the occupancy of a function with loops.
pub(crate) fn in_loops(function: &mut Function, layouts: &Arena<LayoutId, Layout>, target: Target, envelope: &mut Envelope) {
    if envelope.options.get("occupancy").is_none()
        && let Some(found) = most(function, layouts, target)
    {
        give(function, found, "analysis", target, envelope);
    }
}

fn give(function: &mut Function, (blocks, needs): (u32, u32), pass: &str, target: Target, envelope: &mut Envelope) {
    function.attrs.program.occupancy = Some(blocks);
    let registers = function.attrs.launch_registers(target);
    let message = format!("a thread has {registers} registers, so that {blocks} CTAs fit; about {needs} are live at once");
    log(function, message, pass, envelope);
}

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

/// Returns the CTAs and the registers needed for a function without loops, if one CTA more than fits with full registers is
/// worthwhile.
fn more(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<(u32, u32)> {
    let program = &function.attrs.program;
    if any(function, |op| loops(op) || has_mma(op)) {
        return None;
    }
    let needs = needs(function, layouts);
    if needs <= FEW {
        return None;
    }
    let of = |blocks: u32| budget::registers(target, program.warps, blocks) & !(STEP - 1);
    let blocks = ctas_with(needs, &of)? + 1;
    let in_memory = function.attrs.shared_bytes.saturating_mul(blocks) <= budget::shared_memory(target);
    let in_any_case = program.occupancy.is_some_and(|hinted| hinted >= blocks);
    (in_memory && !in_any_case && of(blocks) * 100 >= needs * ENOUGH).then_some((blocks, needs))
}

/// Returns the CTAs and the minimum registers for a function with loops, if that raises the occupancy.
fn most(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<(u32, u32)> {
    let program = &function.attrs.program;
    let copies = |op: &Op| op.effects().copied_to().is_some();
    // A persistent grid launches no more CTAs than its author has counted.
    let ops = function.body.walk(function.region);
    if ops.into_iter().any(|op| is_persistent(&function.body, op, Op::core)) {
        return None;
    }
    if !any(function, loops) || any(function, |op| has_mma(op) || copies(op)) || needs(function, layouts) <= FEW {
        return None;
    }
    let needs = needs_at_least(function, layouts);
    let of = |blocks: u32| budget::registers(target, program.warps, blocks) & !(STEP - 1);
    let blocks = ctas_with(needs, &of)?.min(ENOUGH_WARPS / program.warps);
    (blocks > program.occupancy.unwrap_or(1)).then_some((blocks, needs))
}

/// Returns how many CTAs fit if a thread needs this many registers.
fn ctas_with(needs: u32, of: &dyn Fn(u32) -> u32) -> Option<u32> {
    (1..).take_while(|blocks| of(*blocks) >= needs.next_multiple_of(STEP)).last()
}

fn any(function: &Function, holds: impl Fn(&Op) -> bool) -> bool {
    function.body.walk(function.region).into_iter().any(|op| holds(&function.body.ops[op].kind))
}

fn loops(op: &Op) -> bool {
    matches!(op.core(), Some(Core::For { .. } | Core::Loop { .. }))
}

fn has_mma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { .. }))
}
