//! Rounds of loops whose first fragments the iteration before reads, before its last mmas.

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
use sched::first_fragments::{self, Early};
use std::collections::BTreeSet;
use tileas::mma_sync_atoms::Operand;
use tileas::{MmaAtom, MmaOperand};

/// A loop whose iterations begin early.
pub(crate) struct PrefetchedIterations<'c> {
    plan: Early,
    /// The instructions of each load that give what the first step of the mma multiplies.
    groups: [Vec<usize>; 2],
    /// What those gave of each load for this iteration, and, once that is read, for the next one.
    words: [Vec<Val<'c>>; 2],
    next: Option<[Vec<Val<'c>>; 2]>,
    bounds: Bounds<'c>,
    args: Vec<Value>,
}

/// What decides whether there is another iteration.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'c> {
    pub(super) step: IntValue<'c>,
    pub(super) upper: IntValue<'c>,
    pub(super) less: IntPredicate,
}

impl<'c> Emitter<'c, '_> {
    /// The iterations of a loop's body, where its waits are early.
    pub(super) fn prefetched_iterations(&mut self, block: Block, bounds: Bounds<'c>) -> Option<PrefetchedIterations<'c>> {
        if !first_fragments::is_said(self.function, block) {
            return None;
        }
        let plan = first_fragments::of(self.function, block).expect("the verifier holds that waits can be early");
        let args = self.function.body.blocks[block].args.clone();
        Some(PrefetchedIterations { plan, groups: Default::default(), words: Default::default(), next: None, bounds, args })
    }

    /// Waits for the stages of a iteration whose arguments these are, and reads its first fragments.
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

    /// The instructions that give what the first step of a mma multiplies.
    fn first_groups(&self, mma: OpId, reads: &[MatrixRead<'c>; 2]) -> [Vec<usize>; 2] {
        let Op::Core(tileas::Op::Mma {
            lhs: MmaOperand::Registers(lhs),
            rhs: MmaOperand::Registers(rhs),
            acc: MmaOperand::Registers(acc),
            atom: MmaAtom::Sync(atom),
            ..
        }) = &self.function.body.ops[mma].kind
        else {
            unreachable!("mmas of fragments begin early")
        };
        let atoms = self.atoms_of_step(atom, [*lhs, *rhs, *acc], 0);
        let groups = |side: usize, operand| {
            let count = atom.registers(operand) as usize;
            let of = |place: &AtomPlace| self.groups_of(&reads[side], place.starts[side], count);
            atoms.iter().flat_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
        };
        [groups(0, Operand::A), groups(1, Operand::B)]
    }

    /// Gives a load in pieces what the iteration before has read of it.
    pub(super) fn with_read_early(&self, result: Value, read: &mut MatrixRead<'c>) {
        let Some(iterations) = &self.early else { return };
        let load = self.function.body.defining_op(result);
        if let Some(side) = iterations.plan.loads.iter().position(|own| load == Some(*own)) {
            self.take_early(read, &iterations.groups[side], &mut iterations.words[side].iter().copied());
        }
    }

    /// Whether an op of a iteration is done when its turn comes.
    pub(super) fn is_done_early(&self, op: OpId) -> bool {
        self.early.as_ref().is_some_and(|iterations| {
            iterations.plan.waits.contains(&op) || iterations.next.is_some() && iterations.plan.after.contains(&op)
        })
    }

    /// Ends a iteration but for its last mmas, and begins the next one, if there is one.
    pub(super) fn begin_next_iteration(&mut self) -> Result<()> {
        let ir = self.ir;
        let mut iterations = self.early.take().expect("called in iterations that begin early");
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

    /// What the next iteration has of what a iteration hands on, but for the accumulators that are not made yet.
    fn going_on(&self, mma: OpId) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let accumulators = body.result(mma);
        let block = body.blocks.values().find(|block| block.ops.contains(&mma)).expect("a mma is in a block");
        let end = block.ops.last().and_then(|op| body.ops[*op].kind.core());
        let Some(Core::Continue { values }) = end else { unreachable!("a iteration ends in continue") };
        let registers = |value: &Value| if *value == accumulators { Vec::new() } else { self.registers(&[*value]).remove(0) };
        values.iter().map(registers).collect()
    }

    /// The first fragments of the next iteration, where a iteration that begins early ends.
    pub(super) fn read_for_next(&mut self) -> Option<[Vec<Val<'c>>; 2]> {
        self.early.take().map(|iterations| iterations.next.expect("its last mmas are made"))
    }
}

impl<'c> PrefetchedIterations<'c> {
    /// The same with what a loop carries of them, behind all else.
    pub(super) fn with_words(self, mut carried: Vec<Vec<Val<'c>>>) -> Self {
        let [rhs, lhs] = [(); 2].map(|()| carried.pop().expect("a loop carries what is read early"));
        PrefetchedIterations { words: [lhs, rhs], ..self }
    }
}
