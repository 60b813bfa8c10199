//! Loops in which each iteration loads the first fragments of the next iteration, before its own last MMAs.
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

/// A loop with fragment prefetch.
pub(crate) struct PrefetchedIterations<'c> {
    plan: FragmentPrefetch,
    /// For each of the two loads, the `ldmatrix` instructions that return the operands of the MMA's first K step.
    groups: [Vec<usize>; 2],
    /// For each load, the prefetched addresses and results for this iteration.
    words: [Vec<Val<'c>>; 2],
    /// The same for the next iteration, once this iteration has prefetched it.
    next: Option<[Vec<Val<'c>>; 2]>,
    bounds: Bounds<'c>,
    args: Vec<Value>,
}

/// The values that decide whether another iteration follows.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'c> {
    pub(super) step: IntValue<'c>,
    pub(super) upper: IntValue<'c>,
    pub(super) less: IntPredicate,
}

impl<'c> Emitter<'c, '_> {
    /// The state of a loop with fragment prefetch, or `None` if the schedule does not request the prefetch.
    pub(super) fn prefetched_iterations(&mut self, block: Block, bounds: Bounds<'c>) -> Option<PrefetchedIterations<'c>> {
        if !first_fragments::is_prefetched(self.function, block) {
            return None;
        }
        let plan = first_fragments::prefetch_of(self.function, block).expect("the verifier checks that waits can be early");
        let args = self.function.body.blocks[block].args.clone();
        Some(PrefetchedIterations { plan, groups: Default::default(), words: Default::default(), next: None, bounds, args })
    }

    /// Waits for the stages of the iteration with these arguments, and loads its first fragments.
    pub(super) fn begin_iteration(
        &mut self,
        iterations: &mut PrefetchedIterations<'c>,
        args: &[Vec<Val<'c>>],
    ) -> Result<[Vec<Val<'c>>; 2]> {
        let before: Vec<Option<Lowered<'c>>> = iterations.args.iter().map(|arg| self.values[arg.0 as usize].clone()).collect();
        for (arg, registers) in iterations.args.iter().zip(args).filter(|(_, registers)| !registers.is_empty()) {
            self.set(*arg, registers.clone());
        }
        let waits = if common::fault_injected("ptx.early") { Vec::new() } else { iterations.plan.waits.clone() };
        for wait in waits {
            self.op(wait)?;
        }
        let reads = iterations.plan.loads.map(|load| self.read_per_k_step(load));
        iterations.groups = self.first_groups(iterations.plan.mma, &reads);
        let words = [0, 1].map(|side| self.load_early(&reads[side], &iterations.groups[side]));
        for (arg, before) in iterations.args.iter().zip(before) {
            self.values[arg.0 as usize] = before;
        }
        Ok(words)
    }

    /// The `ldmatrix` instructions that return the operands of an MMA's first K step.
    fn first_groups(&self, mma: OpId, reads: &[MatrixRead<'c>; 2]) -> [Vec<usize>; 2] {
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
        let groups = |side: usize, operand| {
            let count = atom.registers(operand) as usize;
            let of = |place: &AtomPlace| self.instructions_of(&reads[side], place.starts[side], count);
            atoms.iter().flat_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
        };
        [groups(0, Operand::A), groups(1, Operand::B)]
    }

    /// Passes the prefetched addresses and words to a load that is emitted one K step at a time.
    pub(super) fn use_prefetched_words(&self, result: Value, read: &mut MatrixRead<'c>) {
        let Some(iterations) = &self.fragment_prefetch else { return };
        let load = self.function.body.defining_op(result);
        if let Some(side) = iterations.plan.loads.iter().position(|own| load == Some(*own)) {
            self.restore_prefetched(read, &iterations.groups[side], &mut iterations.words[side].iter().copied());
        }
    }

    /// Whether the prefetch already emitted an op.
    pub(super) fn is_prefetched(&self, op: OpId) -> bool {
        self.fragment_prefetch.as_ref().is_some_and(|iterations| {
            iterations.plan.waits.contains(&op) || iterations.next.is_some() && iterations.plan.after.contains(&op)
        })
    }

    /// Emits the ops of an iteration up to its last MMAs, and the prefetch for the next iteration, if there is one.
    pub(super) fn begin_next_iteration(&mut self) -> Result<()> {
        let ir = self.ir;
        let mut iterations = self.fragment_prefetch.take().expect("called in loops with fragment prefetch");
        for op in iterations.plan.after.clone() {
            self.op(op)?;
        }
        let counter = ir.add(self.scalar(iterations.args[0]).into_int_value(), iterations.bounds.step);
        let more = ir.icmp(iterations.bounds.less, counter, iterations.bounds.upper);
        let [next_exists, after] = [(); 2].map(|()| ir.block(self.kernel, ""));
        let before = ir.current_block();
        ir.branch(more, next_exists, after);
        ir.builder.position_at_end(next_exists);
        let mut args = vec![vec![counter.into()]];
        args.extend(self.next_carried_values(iterations.plan.mma));
        let words = self.begin_iteration(&mut iterations, &args)?;
        let end = ir.current_block();
        ir.jump(after);
        ir.builder.position_at_end(after);
        let merge = |word: &Val<'c>| {
            let phi = ir.builder.build_phi(word.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(word, end), (&ir.poison_like(*word), before)]);
            phi.as_basic_value()
        };
        iterations.next = Some(words.map(|words| words.iter().map(merge).collect()));
        self.fragment_prefetch = Some(iterations);
        Ok(())
    }

    /// The loop-carried values of the next iteration. The accumulator is empty, because it has not been computed yet.
    fn next_carried_values(&self, mma: OpId) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let accumulators = body.result(mma);
        let block = body.blocks.values().find(|block| block.ops.contains(&mma)).expect("an MMA is in a block");
        let end = block.ops.last().and_then(|op| body.ops[*op].kind.core());
        let Some(Core::Continue { values }) = end else { unreachable!("an iteration ends in continue") };
        let registers = |value: &Value| if *value == accumulators { Vec::new() } else { self.registers(&[*value]).remove(0) };
        values.iter().map(registers).collect()
    }

    /// The words that this iteration has prefetched for the next iteration. Called at the end of the iteration.
    pub(super) fn take_prefetched_words(&mut self) -> Option<[Vec<Val<'c>>; 2]> {
        self.fragment_prefetch.take().map(|iterations| iterations.next.expect("its last MMAs are emitted"))
    }
}

impl<'c> PrefetchedIterations<'c> {
    /// Takes the words that the previous iteration prefetched from the end of the loop-carried values.
    pub(super) fn with_words(self, mut carried: Vec<Vec<Val<'c>>>) -> Self {
        let [rhs, lhs] = [(); 2].map(|()| carried.pop().expect("a loop carries its prefetched words"));
        PrefetchedIterations { words: [lhs, rhs], ..self }
    }
}
