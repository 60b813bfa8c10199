//! Makes attention of many rows in two halves, one after the other, where registers do not hold the accumulators of both, or tensor memory not
//! also what threads compute from them.
//!
//! Requires: `.aa`. Establishes: `.aa` in which, of the mmas of a loop whose results are operands of others, one half of the rows is
//! multiplied, weighed and multiplied again before the other: what goes from mma to mma then takes half of the registers.
//! What both halves need, such as tiles of keys and values, is made once. The function stays as it is where its accumulators have capacity, where
//! halves have none either, where not all of its mmas have rows of their own for each half, and where tokens say what is after an
//! access that is then two.
//!
//! Sums in tensor memory need no registers. But where the operands that threads compute from them would lie in their place, the next
//! accumulators could not be made meanwhile; halves that follow each other have one place for their accumulators and one for those operands.
//!
//! MmaSelections of single warps would read the other operand once for each half, and the assembler
//! mixes both halves, so that nothing is gained.

use crate::cluster::value_forms::{Flow, Form, Forms};
use crate::cluster::{self, Makers};
use crate::mma_selection::{self, registers};
use crate::operands;
use base::ir::{Op as OpId, Operation};
use base::{Target, Value};
use core_dialect::core_ops::Core;
use std::collections::BTreeMap;
use target_info::Feature;
use tileaa::{Function, Op, Type};
use tileas::budget;

/// Rows of a mma in tensor memory, and bits of a word there.
const LANES: u32 = tileas::tensor_memory::LANES;
const WORD: u32 = 32;
/// Warps that mmas are shared among at most.
const WARPS: u32 = 8;

/// Whether halves of rows are worth it, or requested for (`--split-m`).
pub(crate) fn are_desired(function: &Function, target: Target, when: Option<&str>) -> bool {
    match when {
        Some("on") => true,
        Some("off") => false,
        _ if target.has(Feature::TensorMemory) => m_subtiles_fit_tmem(function, target),
        _ => target.has(Feature::Wgmma) && (m_subtiles_fit(function, target) || exceeds_registers(function, target)),
    }
}

/// The function with halves of rows; or why it cannot have them.
pub(crate) fn run(function: &Function, target: Target) -> Result<Function, String> {
    let flow = Flow::of(function);
    let forms = cluster::parted(function, target, &flow, 2)?;
    by_rows(&forms)?;
    is_requested_forever(&forms)?;
    Ok(cluster::rewrite(&forms, &flow, Makers::Alternating))
}

/// Whether the accumulators of chained mmas that are alive together take more registers than there are, and halves do not.
fn m_subtiles_fit(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let acc = |op| match body.ops[op].kind {
        Op::Mma { acc, .. } => Some(acc),
        _ => None,
    };
    let sum = |value| registers(function, value, 32);
    let all = mma_selection::alive_together(function, |op| acc(op).map_or(0, sum));
    let passing = mma_selection::alive_together(function, |op| acc(op).filter(|acc| begins_again(function, *acc)).map_or(0, sum));
    let capacity = budget::mma_registers(target, WARPS) * 32 * WARPS;
    all > capacity && all - passing / 2 <= capacity
}

/// Whether the accumulators of the MMAs of one block of ops take all registers of an SM or more, as one of 256x256 does. They spill in
/// either form, but `ptxas` spills the accumulator of one half at a time.
fn exceeds_registers(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let blocks = body.op_blocks();
    let mut together: BTreeMap<_, u32> = BTreeMap::new();
    for op in body.walk(function.region) {
        if let Op::Mma { acc, .. } = body.ops[op].kind {
            let all = together.entry(blocks[op.0 as usize]).or_default();
            *all = all.saturating_add(registers(function, acc, 32));
        }
    }
    together.into_values().any(|all| all >= target.registers)
}

/// Whether tensor memory holds the accumulators of chained mmas, but not also the operands that threads compute from some for others; and
/// halves, which have one place for both, leave capacity for them.
fn m_subtiles_fit_tmem(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let chained = operands::chained(function);
    let columns = |value: Value| {
        let (elem, shape) = body.ty(value).tile().expect("mmas are of tiles");
        let [rows, width] = [2, 1].map(|back| shape[shape.len().saturating_sub(back)]);
        rows.div_ceil(LANES).saturating_mul(width).saturating_mul(elem.bits()) / WORD
    };
    let has_rows = |op: &OpId| match body.ops[*op].kind {
        Op::Mma { acc, .. } => body.ty(acc).tile().is_some_and(|(_, shape)| shape.len() == 2 && shape[0] >= 2 * LANES),
        _ => false,
    };
    let accumulators = |op: OpId| match body.ops[op].kind {
        Op::Mma { acc, .. } => columns(acc),
        _ => 0,
    };
    let passes = |op: OpId| match body.ops[op].kind {
        Op::Mma { acc, .. } if begins_again(function, acc) => columns(acc),
        _ => 0,
    };
    let computed = |op: OpId| match body.ops[op].kind {
        Op::Mma { lhs, .. } if operands::loaded_by(function, lhs).is_none() => columns(lhs),
        _ => 0,
    };
    let together = |of: &dyn Fn(OpId) -> u32| mma_selection::alive_together(function, of);
    let (all, passing) = (together(&|op| accumulators(op) + computed(op)), together(&|op| passes(op) + computed(op)));
    let capacity = target.tmem_columns;
    !chained.is_empty()
        && chained.iter().all(has_rows)
        && together(&accumulators) <= capacity
        && capacity < all
        && all - passing / 2 <= capacity
}

/// Whether accumulators begin with a constant in each iteration, and are gone at its end.
fn begins_again(function: &Function, acc: Value) -> bool {
    let made = function.body.defining_op(acc).map(|op| &function.body.ops[op].kind);
    matches!(made, Some(Op::Core(Core::Constant { .. })))
}

/// That each half has all of its mmas to itself.
fn by_rows(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    let has_rows = |result: Value| {
        let rank = body.ty(result).tile().map_or(0, |(_, shape)| shape.len());
        forms.passed(result).eq([Form::Part(rank - 2)])
    };
    let mmas = body.walk(forms.function.region).into_iter().filter(|op| operands::is_mma(forms.function, *op));
    match mmas.map(|op| &body.ops[op]).find(|node| !has_rows(node.results[0])) {
        Some(node) => Err(format!("both halves need the result of '{}'", node.kind.mnemonic())),
        None => Ok(()),
    }
}

/// That no token is needed of an access that is made in halves, which would be two.
fn is_requested_forever(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    for op in body.walk(forms.function.region) {
        let node = &body.ops[op];
        let whole = match node.kind {
            Op::LoadView { .. } | Op::Load { .. } => forms.passed(node.results[0]).all(|form| form == Form::Whole),
            Op::StoreView { .. } | Op::Store { .. } => false,
            _ => true,
        };
        let mut tokens = node.results.iter().filter(|result| *body.ty(**result) == Type::Token);
        if !whole && tokens.any(|token| !forms.of(*token).is_empty()) {
            return Err(format!("a token says what is after a '{}', which would be two", node.kind.mnemonic()));
        }
    }
    Ok(())
}
