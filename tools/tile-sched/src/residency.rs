//! Gives a thread so few registers that one more block has room, where a block that only reads, computes and writes needs hardly more.
//!
//! Such a block waits for memory most of the time, and what hides that is other blocks. How many registers the assembler takes is
//! not known here: what is live is counted, in the order of the ops. It needs fewer when it must, since loads can come later.
//!
//! Requires: placements. Establishes: an occupancy, in functions without loops and products, unless an option says which. What the author
//! hints at is what there is at least.

use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Operation;
use base::{Arena, File, Target, Value};
use sched::{Function, Module, Op};
use std::collections::BTreeMap;
use tileas::{Layout, LayoutId, Type, budget};
use vocabulary::core_ops::Core;
use vocabulary::tile::Elem;

/// Registers beside tiles: addresses, and what is made in between.
const BESIDE: u32 = 24;
/// Registers are given out in so many at once.
const STEP: u32 = 8;
/// Of what is counted as needed, a thread has so many percent at least.
const ENOUGH: u32 = 75;
/// Where a thread needs no more, sixteen warps have room already, which are enough; with fewer registers values would be spilled.
const FEW: u32 = 112;

pub(crate) fn run(file: &mut File<Module>) -> base::diag::Result<()> {
    let target = file.envelope.target()?;
    if file.envelope.options.get("occupancy").is_some() {
        return Ok(());
    }
    let Module { functions, layouts, .. } = &mut file.payload;
    for function in functions {
        let Some((blocks, needs)) = more(function, layouts, target) else { continue };
        function.attrs.program.occupancy = Some(blocks);
        let registers = function.attrs.launch_registers(target);
        let message =
            format!("a thread has {registers} registers, so that {blocks} blocks have room; about {needs} are live at once");
        let (pass, name) = ("alloc".into(), "Occupancy".into());
        let (outcome, category) = (Outcome::Passed, Category::Other);
        file.envelope.log.push(LogEntry {
            pass,
            outcome,
            name,
            category,
            message,
            function: function.name.clone(),
            loc: function.loc,
        });
    }
    Ok(())
}

/// How many blocks there should be room for, and the registers that are needed, if that is one block more than needs it.
fn more(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Option<(u32, u32)> {
    let (body, program) = (&function.body, &function.attrs.program);
    let ops = body.walk(function.region);
    let loops_or_multiplies =
        |op: &Op| matches!(op.core(), Some(Core::For { .. } | Core::Loop { .. })) || matches!(op, Op::Core(tileas::Op::Mma { .. }));
    if ops.iter().any(|op| loops_or_multiplies(&body.ops[*op].kind)) {
        return None;
    }
    let needs = needs(function, layouts);
    if needs <= FEW {
        return None;
    }
    let of = |blocks: u32| budget::registers(target, program.warps, blocks) & !(STEP - 1);
    let fits = (1..).take_while(|blocks| of(*blocks) >= needs.next_multiple_of(STEP)).last()?;
    let blocks = fits + 1;
    let in_memory = function.attrs.shared_bytes.saturating_mul(blocks) <= budget::shared_memory(target);
    let in_any_case = program.occupancy.is_some_and(|hinted| hinted >= blocks);
    (in_memory && !in_any_case && of(blocks) * 100 >= needs * ENOUGH).then_some((blocks, needs))
}

/// The registers that a thread needs, about.
pub(crate) fn needs(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    live(function, layouts) + BESIDE
}

/// The registers of a thread that hold values which are still read, at most, counted between the ops. Addresses and masks are made for
/// each access when it is due.
fn live(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    let body = &function.body;
    let ops = body.walk(function.region);
    let mut lives: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
    for (at, op) in ops.iter().enumerate() {
        body.ops[*op].results.iter().for_each(|value| _ = lives.insert(*value, (at, at)));
        body.ops[*op].kind.operands().iter().for_each(|value| _ = lives.entry(*value).and_modify(|life| life.1 = at));
    }
    let loads = |op| matches!(body.ops[op].kind, Op::Core(tileas::Op::LoadView { .. } | tileas::Op::Load { .. }));
    let loaded = |value: Value| body.defining_op(value).is_some_and(loads);
    // All of these are one value, or some that there are already.
    let repeats = |op| matches!(body.ops[op].kind.core(), Some(Core::Constant { .. } | Core::Broadcast { .. }));
    let repeated = |value: Value| body.defining_op(value).is_some_and(repeats);
    // An element is widened where it is used: until then it is as wide as it was.
    let bits = |value: Value, elem: Elem| match body.defining_op(value).and_then(|op| body.ops[op].kind.core()) {
        Some(Core::Convert { x, .. }) => match body.ty(*x) {
            Type::Tile { elem: from, .. } => elem.bits().min(from.bits()),
            _ => elem.bits(),
        },
        _ => elem.bits(),
    };
    let words = |value: Value| match body.ty(value) {
        _ if repeated(value) => 0,
        Type::Tile { elem, layout, .. } if loaded(value) || matches!(elem, Elem::Scalar(scalar) if scalar.is_float()) => {
            (layouts[*layout].registers() as u32 * bits(value, *elem)).div_ceil(32)
        }
        _ => 0,
    };
    let mut change = vec![0i64; ops.len() + 1];
    for (value, (from, to)) in lives {
        change[from] += i64::from(words(value));
        change[to] -= i64::from(words(value));
    }
    let mut sum = 0;
    let most = change.into_iter().map(|change| {
        sum += change;
        sum
    });
    most.max().unwrap_or(0) as u32
}
