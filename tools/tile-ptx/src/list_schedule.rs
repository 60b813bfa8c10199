//! Purpose: reorders blocks whose register pressure exceeds the registers of a thread.
//! Requires: blocks after LLVM's passes.
//! Establishes: pure instructions directly before their first use, where that lowers the pressure or the number of reloads.
//! Preserves: the order of memory accesses and other side effects. A block without a gain keeps its order.
//! See also: LLVM `MachineScheduler`, register-pressure heuristics.
//!
//! Reason: the emitters write all registers of one op before the next op, so all registers of a large tile are live at the same
//! time. ptxas mostly keeps that order, spills the tile, and takes minutes.

use crate::block_dag::{BlockDag, live_out};
use base::diag::{Diagnostic, Result};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use std::collections::HashSet;

/// The pass reorders a block only above this pressure. The limit is higher than the number of registers of a thread, because
/// ptxas orders smaller blocks well.
const HIGH_PRESSURE: u64 = 384;
/// Above this pressure, ptxas takes minutes for any order.
const MAX_PRESSURE: u64 = 8 << 10;

/// Orders the blocks with high pressure, and rejects a program whose pressure stays too high.
pub(crate) fn run(module: &Module<'_>, builder: &Builder<'_>) -> Result<()> {
    for function in module.get_functions() {
        let long = |block: &BasicBlock<'_>| block.get_instructions().nth(HIGH_PRESSURE as usize).is_some();
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(long).collect();
        if blocks.is_empty() {
            continue;
        }
        let live_out = live_out(function);
        let pressure = blocks.into_iter().map(|block| order(block, &live_out, builder)).max().unwrap_or(0);
        if pressure > MAX_PRESSURE {
            let name = function.get_name().to_string_lossy();
            let message = format!(
                "the code of '{name}' is too large: about {pressure} registers per thread are live at once, and ptxas takes \
                 minutes above {MAX_PRESSURE}; use smaller tiles"
            );
            return Err(Diagnostic::unsupported("PX009", message));
        }
    }
    Ok(())
}

/// Orders a block and returns its peak register pressure.
fn order<'c>(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>, builder: &Builder<'c>) -> u64 {
    let dag = BlockDag::of(block, live_out);
    let original: Vec<usize> = (0..dag.instructions.len()).collect();
    let pressure_before = dag.peak_pressure(&original);
    if pressure_before <= HIGH_PRESSURE {
        return pressure_before;
    }
    let order = demand_order(&dag);
    let pressure_after = dag.peak_pressure(&order);
    let better = pressure_after < pressure_before || dag.reloads(&order) < dag.reloads(&original) / 4 * 3;
    if !better {
        return pressure_before;
    }
    dag.apply_order(&order, block, builder);
    pressure_after
}

/// The order in which each instruction comes directly before its first use: the side effects in their order, each preceded by the
/// operands that have not been placed yet. Values that only other blocks use come last.
pub(crate) fn demand_order(dag: &BlockDag<'_>) -> Vec<usize> {
    let count = dag.instructions.len();
    let effects: Vec<usize> = (0..count).filter(|number| !dag.is_pure[*number]).collect();
    let (end, effects) = effects.split_last().expect("a block ends in a terminator");
    let (mut order, mut placed) = (Vec::with_capacity(count), vec![false; count]);
    for &number in effects.iter().chain(&(0..count).collect::<Vec<_>>()).filter(|number| *number != end).chain([end]) {
        // Place the operands first. The stack is explicit because dependence chains may be as long as the program.
        let mut work = vec![(number, 0)];
        while let Some((number, operand)) = work.pop() {
            if placed[number] {
                continue;
            }
            match dag.operands[number].get(operand) {
                Some(&used) => work.extend([(number, operand + 1), (used, 0)]),
                None => {
                    placed[number] = true;
                    order.push(number);
                }
            }
        }
    }
    order
}
