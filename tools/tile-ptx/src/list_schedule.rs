//! The order of instructions in blocks that keep more values alive than a thread has registers.
//!
//! The emitters write a tile's registers one op after the other, so that large tiles are alive as a whole between two ops, and
//! ptxas, which keeps to that order by and large, spills them all and takes minutes over it. Here what only computes is moved to
//! where it is needed, element by element. Accesses to memory and whatever else has effects stay in their order. A block of
//! which that neither keeps less alive nor uses values sooner again stays as it is.

use crate::block_dag::{Straight, leaving};
use base::diag::{Diagnostic, Result};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use std::collections::HashSet;

/// Registers that are alive at a time, from which on a block is put in another order: well beyond what any thread has, since ptxas
/// finds a good order for what nearly fits.
const MANY: u64 = 384;
/// Those from which on ptxas takes minutes, whatever the order.
const MOST: u64 = 8 << 10;

/// Orders the blocks that need it; refuses a program that keeps too much alive nevertheless.
pub(crate) fn run(module: &Module<'_>, builder: &Builder<'_>) -> Result<()> {
    for function in module.get_functions() {
        let long = |block: &BasicBlock<'_>| block.get_instructions().nth(MANY as usize).is_some();
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(long).collect();
        if blocks.is_empty() {
            continue;
        }
        let leaving = leaving(function);
        let alive = blocks.into_iter().map(|block| order(block, &leaving, builder)).max().unwrap_or(0);
        if alive > MOST {
            let name = function.get_name().to_string_lossy();
            let message = format!(
                "the code of '{name}' is too large: it keeps about {alive} registers of each thread in use at a time, and with more \
                 than {MOST} it would be compiled for minutes; smaller tiles need less"
            );
            return Err(Diagnostic::unsupported("PX009", message));
        }
    }
    Ok(())
}

/// Orders a block and gives the registers that are alive at a time in it.
fn order<'c>(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>, builder: &Builder<'c>) -> u64 {
    let straight = Straight::of(block, leaving);
    let given: Vec<usize> = (0..straight.instructions.len()).collect();
    let before = straight.alive(&given);
    if before <= MANY {
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

/// What has effects in its order, and before each only what it needs and is not there yet. Results for other blocks are last.
pub(crate) fn by_need(straight: &Straight<'_>) -> Vec<usize> {
    let count = straight.instructions.len();
    let anchors: Vec<usize> = (0..count).filter(|number| !straight.computes[*number]).collect();
    let (end, anchors) = anchors.split_last().expect("a block ends in a terminator");
    let (mut order, mut placed) = (Vec::with_capacity(count), vec![false; count]);
    for &number in anchors.iter().chain(&(0..count).collect::<Vec<_>>()).filter(|number| *number != end).chain([end]) {
        // Operands first, without recursion, since chains are as long as programs.
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
