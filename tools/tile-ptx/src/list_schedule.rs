//! Purpose: reorders blocks whose register pressure exceeds the registers of a thread.
//! Requires: blocks after LLVM's passes.
//! Establishes: pure instructions directly before their first use, where that lowers the pressure or the number of reloads.
//! Preserves: the order of memory accesses and other side effects. A block without a gain keeps its order.
//! See also: LLVM `MachineScheduler`, register-pressure heuristics.
//!
//! Reason: the emitters write all registers of one op before the next op, so a large tile is live as a unit. ptxas mostly keeps
//! that order, spills the tile and takes minutes.

use crate::block_dag::{BlockDag, leaving};
use base::diag::{Diagnostic, Result};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use std::collections::HashSet;

/// The pass reorders a block above this pressure. The limit exceeds the registers of any thread, since ptxas orders smaller blocks
/// well.
const HIGH_PRESSURE: u64 = 384;
/// Above this pressure ptxas takes minutes in any order.
const MAX_PRESSURE: u64 = 8 << 10;

/// Orders the blocks with high pressure, and rejects a program whose pressure stays too high.
pub(crate) fn run(module: &Module<'_>, builder: &Builder<'_>) -> Result<()> {
    for function in module.get_functions() {
        let long = |block: &BasicBlock<'_>| block.get_instructions().nth(HIGH_PRESSURE as usize).is_some();
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(long).collect();
        if blocks.is_empty() {
            continue;
        }
        let leaving = leaving(function);
        let alive = blocks.into_iter().map(|block| order(block, &leaving, builder)).max().unwrap_or(0);
        if alive > MAX_PRESSURE {
            let name = function.get_name().to_string_lossy();
            let message = format!(
                "the code of '{name}' is too large: about {alive} registers per thread are live at once, and ptxas takes \
                 minutes above {MAX_PRESSURE}; use smaller tiles"
            );
            return Err(Diagnostic::unsupported("PX009", message));
        }
    }
    Ok(())
}

/// Orders a block and returns its peak register pressure.
fn order<'c>(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>, builder: &Builder<'c>) -> u64 {
    let straight = BlockDag::of(block, leaving);
    let given: Vec<usize> = (0..straight.instructions.len()).collect();
    let before = straight.alive(&given);
    if before <= HIGH_PRESSURE {
        return before;
    }
    let order = by_need(&straight);
    let after = straight.alive(&order);
    let better = after < before || straight.reloads(&order) < straight.reloads(&given) / 4 * 3;
    if !better {
        return before;
    }
    straight.put(&order, block, builder);
    after
}

/// Side effects in their order, each preceded by the operands it still needs. Values used by other blocks come last.
pub(crate) fn by_need(straight: &BlockDag<'_>) -> Vec<usize> {
    let count = straight.instructions.len();
    let anchors: Vec<usize> = (0..count).filter(|number| !straight.computes[*number]).collect();
    let (end, anchors) = anchors.split_last().expect("a block ends in a terminator");
    let (mut order, mut placed) = (Vec::with_capacity(count), vec![false; count]);
    for &number in anchors.iter().chain(&(0..count).collect::<Vec<_>>()).filter(|number| *number != end).chain([end]) {
        // Operands first. The stack is explicit because dependence chains are as long as programs.
        let mut work = vec![(number, 0)];
        while let Some((number, operand)) = work.pop() {
            if placed[number] {
                continue;
            }
            match straight.uses[number].get(operand) {
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
