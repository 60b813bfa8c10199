//! Rounds of loops whose first fragments the round before reads, before its last products.

use super::fragments::MatrixRead;
use super::mma::AtomPlace;
use super::{Emitter, Lowered};
use crate::ir::Val;
use base::diag::Result;
use base::{Block, Op as OpId, Value};
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::Op;
use sched::early::{self, Early};
use std::collections::BTreeSet;
use tileas::mma::Operand;
use tileas::{MmaAtom, Place};
use vocabulary::core_ops::Core;

/// A loop whose rounds begin early.
pub(crate) struct EarlyRounds<'c> {
    plan: Early,
    /// The instructions of each load that give what the first step of the product multiplies.
    groups: [Vec<usize>; 2],
    /// What those gave of each load for this round, and, once that is read, for the next one.
    words: [Vec<Val<'c>>; 2],
    next: Option<[Vec<Val<'c>>; 2]>,
    bounds: Bounds<'c>,
    args: Vec<Value>,
}

/// What decides whether there is another round.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'c> {
    pub(super) step: IntValue<'c>,
    pub(super) upper: IntValue<'c>,
    pub(super) less: IntPredicate,
}

impl<'c> Emitter<'c, '_> {
    /// The rounds of a loop's body, where its waits are early.
    pub(super) fn early_rounds(&mut self, block: Block, bounds: Bounds<'c>) -> Option<EarlyRounds<'c>> {
        if !early::is_said(self.function, block) {
            return None;
        }
        let plan = early::of(self.function, block).expect("the verifier holds that waits can be early");
        let args = self.function.body.blocks[block].args.clone();
        Some(EarlyRounds { plan, groups: Default::default(), words: Default::default(), next: None, bounds, args })
    }

    /// Waits for the slots of a round whose arguments these are, and reads its first fragments.
    pub(super) fn begin_round(&mut self, rounds: &mut EarlyRounds<'c>, args: &[Vec<Val<'c>>]) -> Result<[Vec<Val<'c>>; 2]> {
        let before: Vec<Option<Lowered<'c>>> = rounds.args.iter().map(|arg| self.values[arg.0 as usize].clone()).collect();
        for (arg, registers) in rounds.args.iter().zip(args).filter(|(_, registers)| !registers.is_empty()) {
            self.set(*arg, registers.clone());
        }
        let waits = if common::planted("ptx.early") { Vec::new() } else { rounds.plan.waits.clone() };
        for wait in waits {
            self.op(wait)?;
        }
        let reads = rounds.plan.loads.map(|load| self.read_in_pieces(load));
        rounds.groups = self.first_groups(rounds.plan.product, &reads);
        let words = [0, 1].map(|side| self.read_early(&reads[side], &rounds.groups[side]));
        for (arg, before) in rounds.args.iter().zip(before) {
            self.values[arg.0 as usize] = before;
        }
        Ok(words)
    }

    /// The instructions that give what the first step of a product multiplies.
    fn first_groups(&self, product: OpId, reads: &[MatrixRead<'c>; 2]) -> [Vec<usize>; 2] {
        let Op::Core(tileas::Op::Mma {
            lhs: Place::Registers(lhs),
            rhs: Place::Registers(rhs),
            acc: Place::Registers(acc),
            atom: MmaAtom::Sync(atom),
            ..
        }) = &self.function.body.ops[product].kind
        else {
            unreachable!("products of fragments begin early")
        };
        let atoms = self.atoms_of_step(atom, [*lhs, *rhs, *acc], 0);
        let groups = |side: usize, operand| {
            let count = atom.registers(operand) as usize;
            let of = |place: &AtomPlace| self.groups_of(&reads[side], place.starts[side], count);
            atoms.iter().flat_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
        };
        [groups(0, Operand::A), groups(1, Operand::B)]
    }

    /// Gives a load in pieces what the round before has read of it.
    pub(super) fn with_read_early(&self, result: Value, read: &mut MatrixRead<'c>) {
        let Some(rounds) = &self.early else { return };
        let load = self.function.body.defining_op(result);
        if let Some(side) = rounds.plan.loads.iter().position(|own| load == Some(*own)) {
            self.take_early(read, &rounds.groups[side], &mut rounds.words[side].iter().copied());
        }
    }

    /// Whether an op of a round is done when its turn comes.
    pub(super) fn is_done_early(&self, op: OpId) -> bool {
        self.early
            .as_ref()
            .is_some_and(|rounds| rounds.plan.waits.contains(&op) || rounds.next.is_some() && rounds.plan.behind.contains(&op))
    }

    /// Ends a round but for its last products, and begins the next one, if there is one.
    pub(super) fn begin_next_round(&mut self) -> Result<()> {
        let ir = self.ir;
        let mut rounds = self.early.take().expect("called in rounds that begin early");
        for op in rounds.plan.behind.clone() {
            self.op(op)?;
        }
        let counter = ir.add(self.scalar(rounds.args[0]).into_int_value(), rounds.bounds.step);
        let more = ir.icmp(rounds.bounds.less, counter, rounds.bounds.upper);
        let [there, after] = [(); 2].map(|()| ir.block(self.kernel, ""));
        let before = ir.here();
        ir.branch(more, there, after);
        ir.builder.position_at_end(there);
        let mut args = vec![vec![counter.into()]];
        args.extend(self.going_on(rounds.plan.product));
        let words = self.begin_round(&mut rounds, &args)?;
        let end = ir.here();
        ir.go(after);
        ir.builder.position_at_end(after);
        let merge = |word: &Val<'c>| {
            let phi = ir.builder.build_phi(word.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(word, end), (&ir.unset(*word), before)]);
            phi.as_basic_value()
        };
        rounds.next = Some(words.map(|words| words.iter().map(merge).collect()));
        self.early = Some(rounds);
        Ok(())
    }

    /// What the next round has of what a round hands on, but for the sums that are not made yet.
    fn going_on(&self, product: OpId) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let sums = body.result(product);
        let block = body.blocks.values().find(|block| block.ops.contains(&product)).expect("a product is in a block");
        let end = block.ops.last().and_then(|op| body.ops[*op].kind.core());
        let Some(Core::Continue { values }) = end else { unreachable!("a round ends in continue") };
        let registers = |value: &Value| if *value == sums { Vec::new() } else { self.registers(&[*value]).remove(0) };
        values.iter().map(registers).collect()
    }

    /// The first fragments of the next round, where a round that begins early ends.
    pub(super) fn read_for_next(&mut self) -> Option<[Vec<Val<'c>>; 2]> {
        self.early.take().map(|rounds| rounds.next.expect("its last products are made"))
    }
}

impl<'c> EarlyRounds<'c> {
    /// The same with what a loop carries of them, behind all else.
    pub(super) fn with_words(self, mut carried: Vec<Vec<Val<'c>>>) -> Self {
        let [rhs, lhs] = [(); 2].map(|()| carried.pop().expect("a loop carries what is read early"));
        EarlyRounds { words: [lhs, rhs], ..self }
    }
}
