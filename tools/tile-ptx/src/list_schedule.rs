//! Purpose: reorders blocks whose register pressure exceeds the registers of a thread.
//! Requires: blocks after LLVM's passes.
//! Establishes: in these blocks, pure instructions directly before their first use, if this order has a lower peak pressure or
//! fewer reloads.
//! Preserves: the order of memory accesses and other side effects. A block for which the new order is not better keeps its order.
//! See also: LLVM `MachineScheduler`, register-pressure heuristics.
//!
//! Reason: the emitters emit the instructions for all registers of an op before the next op, so all registers of a large tile are
//! live at the same time. ptxas mostly keeps the order of instructions, so it spills the tile, and takes minutes.

use crate::block_dag::{BlockDag, live_out};
use base::diag::{Diagnostic, ResourceKind, Result};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use std::collections::HashSet;

/// The pass reorders a block only if its peak pressure exceeds this number of 32-bit registers. A thread has at most 255 registers;
/// the threshold is higher because ptxas orders smaller blocks well.
const HIGH_PRESSURE: u64 = 384;
/// Above this peak pressure in 32-bit registers, ptxas takes minutes for every order.
const MAX_PRESSURE: u64 = 8 << 10;

/// Reorders the blocks with a high pressure. Rejects the program if the pressure of a block stays above `MAX_PRESSURE`.
pub(crate) fn run(module: &Module<'_>, builder: &Builder<'_>) -> Result<()> {
    for function in module.get_functions() {
        let is_long = |block: &BasicBlock<'_>| block.get_instructions().nth(HIGH_PRESSURE as usize).is_some();
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(is_long).collect();
        if blocks.is_empty() {
            continue;
        }
        let live_out = live_out(function);
        let pressure = blocks.into_iter().map(|block| schedule_block(block, &live_out, builder)).max().unwrap_or(0);
        if pressure > MAX_PRESSURE {
            let name = function.get_name().to_string_lossy();
            let message = format!(
                "the code of '{name}' is too large: about {pressure} registers per thread are live at once, and ptxas takes \
                 minutes above {MAX_PRESSURE}; use smaller tiles"
            );
            return Err(Diagnostic::unsupported("PX009", message).exceeds(ResourceKind::Registers, pressure, MAX_PRESSURE));
        }
    }
    Ok(())
}

/// Reorders a block if the demand order is better. Returns the peak register pressure of the block.
fn schedule_block<'c>(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>, builder: &Builder<'c>) -> u64 {
    let dag = BlockDag::build(block, live_out);
    let original: Vec<usize> = (0..dag.instructions.len()).collect();
    let pressure_before = dag.peak_pressure(&original);
    if pressure_before <= HIGH_PRESSURE {
        return pressure_before;
    }
    let order = demand_order(&dag);
    let pressure_after = dag.peak_pressure(&order);
    let is_better = pressure_after < pressure_before || dag.reloaded_registers(&order) < dag.reloaded_registers(&original) / 4 * 3;
    if !is_better {
        return pressure_before;
    }
    dag.apply_order(&order, block, builder);
    pressure_after
}

/// Computes the demand order, in which each pure instruction comes directly before its first use. The instructions with side
/// effects keep their order. Before each of them come its operands, unless they are placed already. Values that only other blocks
/// use come last.
pub(crate) fn demand_order(dag: &BlockDag<'_>) -> Vec<usize> {
    let count = dag.instructions.len();
    let effect_numbers: Vec<usize> = (0..count).filter(|number| !dag.is_pure[*number]).collect();
    let (end, effect_numbers) = effect_numbers.split_last().expect("a block ends in a terminator");
    let (mut order, mut is_placed) = (Vec::with_capacity(count), vec![false; count]);
    for &number in effect_numbers.iter().chain(&(0..count).collect::<Vec<_>>()).filter(|number| *number != end).chain([end]) {
        // Place the operands first. The stack is explicit because dependence chains may be as long as the program.
        let mut work = vec![(number, 0)];
        while let Some((number, operand_index)) = work.pop() {
            if is_placed[number] {
                continue;
            }
            match dag.operands[number].get(operand_index) {
                Some(&used) => work.extend([(number, operand_index + 1), (used, 0)]),
                None => {
                    is_placed[number] = true;
                    order.push(number);
                }
            }
        }
    }
    order
}
