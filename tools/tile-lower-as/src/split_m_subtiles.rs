//! Purpose: run chained MMAs, as in attention, as two M subtiles (halves of the rows), one after the other. This is useful if the
//! accumulators of the full tile exceed registers or tensor memory.
//! Requires: `.aa`; both subtiles have rows of their own in all MMAs, and no token orders an access that would be split in two.
//! Establishes: the MMAs of one subtile precede those of the other subtile, so their live accumulators and operands halve.
//! Preserves: operands that both subtiles read (keys, values) are loaded once. Functions that fit without a split, or do not fit as
//! subtiles, stay unchanged.
//! See also: Triton's `DataPartition` (`WSDataPartition`); CUTLASS FMHA with two M subtiles per CTA.
//!
//! Without subtiles, threads would store a left operand to tensor memory over the accumulator from which they compute it, and delay
//! the next MMA. Two subtiles share one TMEM allocation for accumulators and another allocation for operands. With `mma.sync`,
//! subtiles would read the right operand twice and `ptxas` would interleave both subtiles, so the split would gain nothing.

use crate::cluster::value_forms::{Flow, Form, Forms};
use crate::cluster::{self, PartAssignment};
use crate::mma_selection::{self, tile_registers};
use crate::operands;
use base::ir::{Op as OpId, Operation};
use base::{Target, Value};
use core_dialect::core_ops::Core;
use std::collections::BTreeMap;
use target_info::Feature;
use tileaa::{Function, Op, Type};
use tileas::budget;

/// TMEM lanes, each of which holds a row of an accumulator.
const LANES: u32 = tileas::tensor_memory::LANES;
/// Bits of a TMEM cell: one column of one lane.
const WORD: u32 = 32;
/// The number of warps for which the register budget of an MMA is computed: the maximum that divides an MMA.
const MAX_WARPS: u32 = 8;

/// Whether to split a function into M subtiles. The value `on` or `off` of `--split-m` (`split_m_option`) decides; otherwise the
/// result is whether a split is profitable.
pub(crate) fn are_m_subtiles_desired(function: &Function, target: Target, split_m_option: Option<&str>) -> bool {
    match split_m_option {
        Some("on") => true,
        Some("off") => false,
        _ if target.has(Feature::TensorMemory) => m_subtiles_fit_tmem(function, target),
        _ => target.has(Feature::Wgmma) && (m_subtiles_fit(function, target) || exceeds_registers(function, target)),
    }
}

/// Splits the function into two M subtiles. The error is the reason why it cannot be split.
pub(crate) fn run(function: &Function, target: Target) -> Result<Function, String> {
    let flow = Flow::analyse(function);
    let forms = cluster::divided_forms(function, target, &flow, 2)?;
    check_row_division(&forms)?;
    check_ordered_accesses(&forms)?;
    Ok(cluster::rewrite(&forms, &flow, PartAssignment::Alternating))
}

/// Whether the live accumulators of chained MMAs exceed the registers of a CTA, and those of M subtiles do not. A split halves only
/// the accumulators that no loop carries.
fn m_subtiles_fit(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let acc = |op| match body.ops[op].kind {
        Op::Mma { acc, .. } => Some(acc),
        _ => None,
    };
    let accumulator_registers = |value| tile_registers(function, value, 32);
    let all_registers = mma_selection::max_live_accumulators(function, |op| acc(op).map_or(0, accumulator_registers));
    let not_carried_registers = mma_selection::max_live_accumulators(function, |op| {
        acc(op).filter(|acc| starts_at_constant(function, *acc)).map_or(0, accumulator_registers)
    });
    let capacity = budget::mma_registers(target, MAX_WARPS) * 32 * MAX_WARPS;
    all_registers > capacity && all_registers - not_carried_registers / 2 <= capacity
}

/// Whether the accumulators of one block of ops take all registers of an SM, as a 256x256 tile of f32 does. Such accumulators spill
/// with and without M subtiles, but with subtiles `ptxas` spills only one accumulator at a time.
fn exceeds_registers(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let blocks = body.op_blocks();
    let mut registers_by_block: BTreeMap<_, u32> = BTreeMap::new();
    for op in body.walk(function.region) {
        if let Op::Mma { acc, .. } = body.ops[op].kind {
            let block_registers = registers_by_block.entry(blocks[op.0 as usize]).or_default();
            *block_registers = block_registers.saturating_add(tile_registers(function, acc, 32));
        }
    }
    registers_by_block.into_values().any(|block_registers| block_registers >= target.registers)
}

/// Whether TMEM fits the accumulators of chained MMAs, but not together with the left operands that threads compute from them. In
/// addition, M subtiles must fit. The subtiles share one allocation for accumulators and one for operands.
fn m_subtiles_fit_tmem(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let chained = operands::chained_mmas(function);
    let columns = |value: Value| {
        let (elem, shape) = body.ty(value).tile().expect("operands of MMAs are tiles");
        let [rows, width] = [2, 1].map(|back| shape[shape.len().saturating_sub(back)]);
        rows.div_ceil(LANES).saturating_mul(width).saturating_mul(elem.bits()) / WORD
    };
    let has_rows_for_two = |op: &OpId| match body.ops[*op].kind {
        Op::Mma { acc, .. } => body.ty(acc).tile().is_some_and(|(_, shape)| shape.len() == 2 && shape[0] >= 2 * LANES),
        _ => false,
    };
    let accumulator_columns = |op: OpId| match body.ops[op].kind {
        Op::Mma { acc, .. } => columns(acc),
        _ => 0,
    };
    let not_carried_columns = |op: OpId| match body.ops[op].kind {
        Op::Mma { acc, .. } if starts_at_constant(function, acc) => columns(acc),
        _ => 0,
    };
    let computed_operand_columns = |op: OpId| match body.ops[op].kind {
        Op::Mma { lhs, .. } if operands::defining_load(function, lhs).is_none() => columns(lhs),
        _ => 0,
    };
    let live_columns = |columns_of: &dyn Fn(OpId) -> u32| mma_selection::max_live_accumulators(function, columns_of);
    let (total_columns, total_not_carried) = (
        live_columns(&|op| accumulator_columns(op) + computed_operand_columns(op)),
        live_columns(&|op| not_carried_columns(op) + computed_operand_columns(op)),
    );
    let capacity = target.tmem_columns;
    !chained.is_empty()
        && chained.iter().all(has_rows_for_two)
        && live_columns(&accumulator_columns) <= capacity
        && capacity < total_columns
        && total_columns - total_not_carried / 2 <= capacity
}

/// Whether the accumulator operand of an MMA is a constant, so that no loop carries the accumulator.
fn starts_at_constant(function: &Function, acc: Value) -> bool {
    let definition = function.body.defining_op(acc).map(|op| &function.body.ops[op].kind);
    matches!(definition, Some(Op::Core(Core::Constant { .. })))
}

/// Checks that the M subtiles divide the rows of every MMA. The error names an MMA whose result both subtiles need.
fn check_row_division(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    let has_rows = |result: Value| {
        let rank = body.ty(result).tile().map_or(0, |(_, shape)| shape.len());
        forms.emitted_forms(result).eq([Form::Part(rank - 2)])
    };
    let mmas = body.walk(forms.function.region).into_iter().filter(|op| operands::is_mma(forms.function, *op));
    match mmas.map(|op| &body.ops[op]).find(|node| !has_rows(node.results[0])) {
        Some(node) => Err(format!("both M subtiles need the result of '{}'", node.kind.mnemonic())),
        None => Ok(()),
    }
}

/// Checks that no token orders ops after an access that is split into one access for each subtile. The error names such an access.
fn check_ordered_accesses(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    for op in body.walk(forms.function.region) {
        let node = &body.ops[op];
        let is_executed_once = match node.kind {
            Op::LoadView { .. } | Op::Load { .. } => forms.emitted_forms(node.results[0]).all(|form| form == Form::Whole),
            Op::StoreView { .. } | Op::Store { .. } => false,
            _ => true,
        };
        let mut tokens = node.results.iter().filter(|result| *body.ty(**result) == Type::Token);
        if !is_executed_once && tokens.any(|token| !forms.forms_of(*token).is_empty()) {
            return Err(format!("a token orders ops after a '{}', which would be split in two", node.kind.mnemonic()));
        }
    }
    Ok(())
}
