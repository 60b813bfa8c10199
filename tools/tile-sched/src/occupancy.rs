//! Gives a thread so few registers that more blocks have capacity, where a block without mmas needs hardly more.
//!
//! Such a block waits for memory or for its own results most of the time, and what hides that is other blocks. How many registers the
//! assembler takes is not known here: what is live is counted, in the order of the ops. It needs fewer when it must, since loads can
//! come later.
//!
//! - A function without loops only reads, computes and writes: one more block has capacity ([`run`], which requires placements).
//! - In loops each iteration waits for the one before: as many blocks as have what is needed at least ([`in_loops`], before anything is
//!   decided about the loops).
//!
//! Establishes: an occupancy, unless an option says which. What the author hints at is what there is at least.

use crate::register_pressure::{needs, needs_at_least};
use base::envelope::{Category, LogEntry, Outcome};
use base::{Arena, Envelope, File, Target};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_persistent;
use sched::{Function, Module, Op};
use tileas::{Layout, LayoutId, budget};

/// Registers are given out in so many at once.
const STEP: u32 = 8;
/// Of what is counted as needed, a thread has so many percent at least.
const ENOUGH: u32 = 75;
/// Where a thread needs no more, sixteen warps have capacity already, which are enough; with fewer registers values would be spilled.
const FEW: u32 = 112;
/// Warps of a multiprocessor that hide what each of them waits for.
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

/// The same for a function with loops.
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
    let message =
        format!("a thread has {registers} registers, so that {blocks} blocks have capacity; about {needs} are live at once");
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

/// How many blocks there should be capacity for, and the registers that are needed, if that is one block more than needs it.
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

/// How many blocks with loops there should be capacity for, and the registers that are needed at least, if that is more than there were.
fn most(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<(u32, u32)> {
    let program = &function.attrs.program;
    let copies = |op: &Op| op.effects().copied_to().is_some();
    // Of a grid that loops go iteration no more blocks are launched than its author has counted.
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

/// How many blocks have capacity whose threads need so many registers.
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
