//! Loops in which each iteration loads the first fragments of the next one, before its own last MMAs.
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
    /// For each load, the instructions that return the operands of the MMA's first K step.
    groups: [Vec<usize>; 2],
    /// Their results for this iteration and, after the prefetch, for the next one.
    words: [Vec<Val<'c>>; 2],
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
    /// The prefetch state of a loop, if its waits are early.
    pub(super) fn prefetched_iterations(&mut self, block: Block, bounds: Bounds<'c>) -> Option<PrefetchedIterations<'c>> {
        if !first_fragments::is_prefetched(self.function, block) {
            return None;
        }
        let plan = first_fragments::prefetch_of(self.function, block).expect("the verifier checks that waits can be early");
        let args = self.function.body.blocks[block].args.clone();
        Some(PrefetchedIterations { plan, groups: Default::default(), words: Default::default(), next: None, bounds, args })
    }

    /// Waits for the stages of an iteration with these arguments and loads its first fragments.
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
        let words = [0, 1].map(|side| self.read_early(&reads[side], &iterations.groups[side]));
        for (arg, before) in iterations.args.iter().zip(before) {
            self.values[arg.0 as usize] = before;
        }
        Ok(words)
    }

    /// The instructions that return the operands of an MMA's first K step.
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
            let of = |place: &AtomPlace| self.groups_of(&reads[side], place.starts[side], count);
            atoms.iter().flat_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
        };
        [groups(0, Operand::A), groups(1, Operand::B)]
    }

    /// Passes the prefetched words to a load that is emitted per K step.
    pub(super) fn with_read_early(&self, result: Value, read: &mut MatrixRead<'c>) {
        let Some(iterations) = &self.early else { return };
        let load = self.function.body.defining_op(result);
        if let Some(side) = iterations.plan.loads.iter().position(|own| load == Some(*own)) {
            self.take_early(read, &iterations.groups[side], &mut iterations.words[side].iter().copied());
        }
    }

    /// Whether the prefetch already emitted an op.
    pub(super) fn is_prefetched(&self, op: OpId) -> bool {
        self.early.as_ref().is_some_and(|iterations| {
            iterations.plan.waits.contains(&op) || iterations.next.is_some() && iterations.plan.after.contains(&op)
        })
    }

    /// Ends an iteration except for its last MMAs, and prefetches for the next one, if any.
    pub(super) fn begin_next_iteration(&mut self) -> Result<()> {
        let ir = self.ir;
        let mut iterations = self.early.take().expect("called in loops with fragment prefetch");
        for op in iterations.plan.after.clone() {
            self.op(op)?;
        }
        let counter = ir.add(self.scalar(iterations.args[0]).into_int_value(), iterations.bounds.step);
        let more = ir.icmp(iterations.bounds.less, counter, iterations.bounds.upper);
        let [there, after] = [(); 2].map(|()| ir.block(self.kernel, ""));
        let before = ir.here();
        ir.branch(more, there, after);
        ir.builder.position_at_end(there);
        let mut args = vec![vec![counter.into()]];
        args.extend(self.going_on(iterations.plan.mma));
        let words = self.begin_iteration(&mut iterations, &args)?;
        let end = ir.here();
        ir.go(after);
        ir.builder.position_at_end(after);
        let merge = |word: &Val<'c>| {
            let phi = ir.builder.build_phi(word.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(word, end), (&ir.unset(*word), before)]);
            phi.as_basic_value()
        };
        iterations.next = Some(words.map(|words| words.iter().map(merge).collect()));
        self.early = Some(iterations);
        Ok(())
    }

    /// The loop-carried values of the next iteration, except the accumulator, which is not computed yet.
    fn going_on(&self, mma: OpId) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let accumulators = body.result(mma);
        let block = body.blocks.values().find(|block| block.ops.contains(&mma)).expect("an MMA is in a block");
        let end = block.ops.last().and_then(|op| body.ops[*op].kind.core());
        let Some(Core::Continue { values }) = end else { unreachable!("an iteration ends in continue") };
        let registers = |value: &Value| if *value == accumulators { Vec::new() } else { self.registers(&[*value]).remove(0) };
        values.iter().map(registers).collect()
    }

    /// The prefetched fragments of the next iteration, at the end of this one.
    pub(super) fn read_for_next(&mut self) -> Option<[Vec<Val<'c>>; 2]> {
        self.early.take().map(|iterations| iterations.next.expect("its last MMAs are emitted"))
    }
}

impl<'c> PrefetchedIterations<'c> {
    /// Takes the prefetched words from the end of the loop-carried values.
    pub(super) fn with_words(self, mut carried: Vec<Vec<Val<'c>>>) -> Self {
        let [rhs, lhs] = [(); 2].map(|()| carried.pop().expect("a loop carries its prefetched words"));
        PrefetchedIterations { words: [lhs, rhs], ..self }
    }
}
