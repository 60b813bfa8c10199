//! Loops with fragment prefetch: before its last MMAs, each iteration loads the MMA fragments that the next iteration needs first.
//! See also: the software-pipelined main loop of CUTLASS (register double buffering).

use super::fragments::MatrixRead;
use super::mma_sync_ptx::AtomPlace;
use super::{Emitter, Lowered};
use crate::ir::Val;
use base::diag::Result;
use base::{Block, Op as OpId, Value};
use core_dialect::core_ops::Core;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::Op;
use sched::first_fragments::{self, FragmentPrefetch};
use std::collections::BTreeSet;
use tileas::mma_sync_atoms::Operand;
use tileas::{MmaAtom, MmaOperand};

/// The state of a loop with fragment prefetch while the loop is emitted.
pub(crate) struct PrefetchedIterations<'c> {
    /// The loads to prefetch, their MMA, and the ops that move with them.
    plan: FragmentPrefetch,
    /// For each of the two loads, the indices of the `ldmatrix` instructions that return the operands of the MMA's first K step.
    instructions: [Vec<usize>; 2],
    /// For each load, the addresses and words that the previous iteration prefetched.
    words: [Vec<Val<'c>>; 2],
    /// For each load, the addresses and words for the next iteration. `None` until this iteration has prefetched them.
    next_words: Option<[Vec<Val<'c>>; 2]>,
    /// The test whether another iteration follows.
    next_iteration_test: NextIterationTest<'c>,
    /// The arguments of the loop's block: the counter, then the loop-carried values.
    args: Vec<Value>,
}

/// The operands of the test whether another iteration follows: `less(counter + step, upper)`, where `less` is a signed or unsigned
/// comparison.
#[derive(Clone, Copy)]
pub(super) struct NextIterationTest<'c> {
    pub(super) step: IntValue<'c>,
    pub(super) upper: IntValue<'c>,
    pub(super) less: IntPredicate,
}

impl<'c> Emitter<'c, '_> {
    /// The state of a loop with fragment prefetch, or `None` if the schedule does not request the prefetch.
    pub(super) fn prefetched_iterations(
        &mut self,
        block: Block,
        next_iteration_test: NextIterationTest<'c>,
    ) -> Option<PrefetchedIterations<'c>> {
        if !first_fragments::is_prefetched(self.function, block) {
            return None;
        }
        let plan = first_fragments::fragment_prefetch(self.function, block).expect("the verifier checks that waits can be early");
        let args = self.function.body.blocks[block].args.clone();
        Some(PrefetchedIterations {
            plan,
            instructions: Default::default(),
            words: Default::default(),
            next_words: None,
            next_iteration_test,
            args,
        })
    }

    /// Emits the waits of an iteration, and the loads of its first fragments. `args` are the registers of the iteration's block
    /// arguments. Returns the addresses and words for each load.
    pub(super) fn begin_iteration(
        &mut self,
        iterations: &mut PrefetchedIterations<'c>,
        args: &[Vec<Val<'c>>],
    ) -> Result<[Vec<Val<'c>>; 2]> {
        let saved_values: Vec<Option<Lowered<'c>>> =
            iterations.args.iter().map(|arg| self.lowered_values[arg.0 as usize].clone()).collect();
        for (arg, registers) in iterations.args.iter().zip(args).filter(|(_, registers)| !registers.is_empty()) {
            self.set_registers(*arg, registers.clone());
        }
        for wait in iterations.plan.waits.clone() {
            self.emit_op(wait)?;
        }
        let reads = iterations.plan.loads.map(|load| self.read_per_k_step(load));
        iterations.instructions = self.first_step_loads(iterations.plan.mma, &reads);
        let words = [0, 1].map(|side| self.load_early(&reads[side], &iterations.instructions[side]));
        for (arg, saved_value) in iterations.args.iter().zip(saved_values) {
            self.lowered_values[arg.0 as usize] = saved_value;
        }
        Ok(words)
    }

    /// The indices of the `ldmatrix` instructions that return the operands of an MMA's first K step.
    fn first_step_loads(&self, mma: OpId, reads: &[MatrixRead<'c>; 2]) -> [Vec<usize>; 2] {
        let Op::Core(tileas::Op::Mma {
            lhs: MmaOperand::Registers(lhs),
            rhs: MmaOperand::Registers(rhs),
            acc: MmaOperand::Registers(acc),
            atom: MmaAtom::Sync(atom),
            ..
        }) = &self.function.body.ops[mma].kind
        else {
            unreachable!("only MMAs on fragments have a prefetch")
        };
        let atoms = self.atoms_of_step(atom, [*lhs, *rhs, *acc], 0);
        let first_step_instructions = |side: usize, operand| {
            let count = atom.elements_per_lane(operand) as usize;
            let instructions_of_place = |place: &AtomPlace| self.instructions_of(&reads[side], place.fragment_starts[side], count);
            atoms.iter().flat_map(instructions_of_place).collect::<BTreeSet<usize>>().into_iter().collect()
        };
        [first_step_instructions(0, Operand::A), first_step_instructions(1, Operand::B)]
    }

    /// Passes the prefetched addresses and words to the load of `result`, if the previous iteration has prefetched this load.
    pub(super) fn use_prefetched_words(&self, result: Value, read: &mut MatrixRead<'c>) {
        let Some(iterations) = &self.fragment_prefetch else { return };
        let load = self.function.body.defining_op(result);
        if let Some(side) = iterations.plan.loads.iter().position(|own| load == Some(*own)) {
            self.restore_prefetched(read, &iterations.instructions[side], &mut iterations.words[side].iter().copied());
        }
    }

    /// Whether the prefetch has already emitted an op.
    pub(super) fn is_prefetched(&self, op: OpId) -> bool {
        self.fragment_prefetch.as_ref().is_some_and(|iterations| {
            iterations.plan.waits.contains(&op) || iterations.next_words.is_some() && iterations.plan.ops_after_mma.contains(&op)
        })
    }

    /// Emits the ops between the MMA and the end of the iteration, and then the prefetch. The prefetch has the condition that
    /// another iteration follows. The caller emits the last K step of the MMA afterwards.
    pub(super) fn begin_next_iteration(&mut self) -> Result<()> {
        let ir = self.ir;
        let mut iterations = self.fragment_prefetch.take().expect("called in loops with fragment prefetch");
        for op in iterations.plan.ops_after_mma.clone() {
            self.emit_op(op)?;
        }
        let counter = ir.add(self.scalar_value(iterations.args[0]).into_int_value(), iterations.next_iteration_test.step);
        let has_next = ir.icmp(iterations.next_iteration_test.less, counter, iterations.next_iteration_test.upper);
        let [prefetch_block, block_after] = [(); 2].map(|()| ir.append_block(self.kernel, ""));
        let block_before = ir.current_block();
        ir.conditional_branch(has_next, prefetch_block, block_after);
        ir.builder.position_at_end(prefetch_block);
        let mut args = vec![vec![counter.into()]];
        args.extend(self.next_carried_values(iterations.plan.mma));
        let words = self.begin_iteration(&mut iterations, &args)?;
        let end = ir.current_block();
        ir.jump(block_after);
        ir.builder.position_at_end(block_after);
        let merge_with_phi = |word: &Val<'c>| {
            let phi = ir.builder.build_phi(word.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(word, end), (&ir.poison_like(*word), block_before)]);
            phi.as_basic_value()
        };
        iterations.next_words = Some(words.map(|words| words.iter().map(merge_with_phi).collect()));
        self.fragment_prefetch = Some(iterations);
        Ok(())
    }

    /// The registers of the next iteration's loop-carried values. The accumulator has none, because it has not been computed yet.
    fn next_carried_values(&self, mma: OpId) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let accumulators = body.result(mma);
        let block = body.blocks.values().find(|block| block.ops.contains(&mma)).expect("an MMA is in a block");
        let end = block.ops.last().and_then(|op| body.ops[*op].kind.core());
        let Some(Core::Continue { values }) = end else { unreachable!("an iteration ends in continue") };
        let registers_of = |value: &Value| if *value == accumulators { Vec::new() } else { self.registers(&[*value]).remove(0) };
        values.iter().map(registers_of).collect()
    }

    /// Returns the addresses and words that this iteration has prefetched for the next iteration. Call it at the end of the
    /// iteration.
    pub(super) fn take_prefetched_words(&mut self) -> Option<[Vec<Val<'c>>; 2]> {
        self.fragment_prefetch.take().map(|iterations| iterations.next_words.expect("its last MMAs are emitted"))
    }
}

impl<'c> PrefetchedIterations<'c> {
    /// Takes the prefetched addresses and words from the end of the loop-carried values, where the previous iteration put them.
    pub(super) fn with_words(self, mut carried: Vec<Vec<Val<'c>>>) -> Self {
        let [rhs, lhs] = [(); 2].map(|()| carried.pop().expect("a loop carries its prefetched words"));
        PrefetchedIterations { words: [lhs, rhs], ..self }
    }
}
