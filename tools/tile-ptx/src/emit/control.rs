//! Emits structured control flow as basic blocks. Invariant (uniform control flow): the condition of a branch has the same value in
//! all threads of the CTA or warp role, so warps do not diverge.

use super::fragment_prefetch::{NextIterationTest, PrefetchedIterations};
use super::{Emitter, Lowered};
use crate::ir::{Ir, Val};
use base::diag::Result;
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_clc_loop;
use core_dialect::structured_ops::{LoopBounds, LoopOp, StructuredOp};
use core_dialect::tile::Elem;
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PhiValue};
use numerics::arith::{Compare, Predicate};
use sched::Op;
use tileas::{MmaOperand, Type};

/// An open control-flow op, with the blocks to which terminators in its regions branch.
pub(crate) struct ControlFrame<'c> {
    pub(super) kind: FrameKind<'c>,
    /// The block after the op, which receives the op's results.
    pub(super) join: PhiBlock<'c>,
}

/// The kind of a control-flow op, with the block that `continue` branches to.
pub(super) enum FrameKind<'c> {
    If,
    /// `next` ends an iteration: the back edge of the loop starts there.
    For {
        next: PhiBlock<'c>,
    },
    /// `next` starts an iteration.
    Loop {
        next: PhiBlock<'c>,
    },
}

/// If a control-flow edge sets at least this number of registers to constants, the emitter creates a separate block for this edge.
/// Reason: otherwise, LLVM sets the registers before the branch, on both paths.
const MANY_REGISTERS: usize = 8;

/// A basic block and its phis.
#[derive(Clone)]
pub(super) struct PhiBlock<'c> {
    pub(super) block: BasicBlock<'c>,
    value_phis: Vec<ValuePhis<'c>>,
}

/// The phis of a value: one per register, or one per 32-bit word of narrow elements. Reason: a load of narrow elements returns
/// words. If the words were unpacked before the phi, this iteration would wait for a load whose result only a later iteration
/// needs.
#[derive(Clone)]
struct ValuePhis<'c> {
    phis: Vec<PhiValue<'c>>,
    /// The element type if each phi is a 32-bit word of narrow elements; `None` if each phi is a register.
    packed_elem: Option<Elem>,
}

/// Number of bits of a word.
const WORD_BITS: u32 = 32;

/// Returns whether a register holds an LLVM constant.
fn is_constant(register: Val) -> bool {
    match register {
        Val::IntValue(value) => value.is_const(),
        Val::FloatValue(value) => value.is_const(),
        _ => false,
    }
}

impl<'c> PhiBlock<'c> {
    /// Adds the registers of each value to its phis, as the incoming values of the edge from the current block to this block.
    pub(super) fn add_incoming(&self, ir: &Ir<'c>, values: &[Vec<Val<'c>>]) {
        for (value_phis, registers) in self.value_phis.iter().zip(values) {
            let words = value_phis.packed_elem.map(|_| ir.pack_words(registers));
            for (phi, value) in value_phis.phis.iter().zip(words.as_ref().unwrap_or(registers)) {
                phi.add_incoming(&[(value, ir.current_block())]);
            }
        }
    }

    /// The counter of a `for` loop, which is the first phi.
    pub(super) fn counter(&self) -> IntValue<'c> {
        self.value_phis[0].phis[0].as_basic_value().into_int_value()
    }

    /// The registers of each value that the phis of the block define.
    pub(super) fn values(&self, ir: &Ir<'c>) -> Vec<Vec<Val<'c>>> {
        self.value_phis.iter().map(|value_phis| value_phis.registers(ir)).collect()
    }
}

impl<'c> ValuePhis<'c> {
    /// Returns the registers of the value. Unpacks the words of a packed value.
    fn registers(&self, ir: &Ir<'c>) -> Vec<Val<'c>> {
        let phis = self.phis.iter().map(|phi| phi.as_basic_value());
        match self.packed_elem {
            Some(elem) => phis.flat_map(|word| ir.unpack_word(word, elem)).collect(),
            None => phis.collect(),
        }
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits an `if`, a `for` or a `loop` with its regions.
    pub(super) fn emit_structured_op(&mut self, core: &Core, results: &[Value]) -> Result<()> {
        match core.as_structured() {
            Some(StructuredOp::If(branch)) => self.emit_if(branch.cond, branch.then, branch.otherwise, results),
            Some(StructuredOp::Loop(LoopOp { bounds, init, body })) => match bounds {
                Some(_) if is_clc_loop(&self.function.body, Some(core), Op::core) => self.emit_clc_loop(init, body, results),
                Some(LoopBounds { lower, upper, step, unsigned }) => {
                    self.emit_for([lower, upper, step], init, unsigned, body, results)
                }
                None => self.emit_loop(init, body, results),
            },
            None => unreachable!("called for ops with regions only"),
        }
    }

    /// Returns whether a loop encloses the current position.
    pub(super) fn is_in_loop(&self) -> bool {
        self.frames.iter().any(|frame| !matches!(frame.kind, FrameKind::If))
    }

    /// Creates a block with phis for the values. The builder stays in the current block.
    pub(super) fn block_with_phis(&mut self, values: &[Value], name: &str) -> PhiBlock<'c> {
        let block_before = self.ir.current_block();
        let block = self.ir.append_block(self.kernel, name);
        self.ir.builder.position_at_end(block);
        let value_phis = values.iter().map(|value| self.value_phis(*value)).collect();
        self.ir.builder.position_at_end(block_before);
        PhiBlock { block, value_phis }
    }

    /// Creates the phis of a value in the current block. A phi of narrow elements is a 32-bit word with several elements.
    fn value_phis(&self, value: Value) -> ValuePhis<'c> {
        if self.ty(value).elem().is_none() {
            // Tokens do not exist at run time.
            return ValuePhis { phis: Vec::new(), packed_elem: None };
        }
        let (elem, registers) = (self.elem(value), self.layout(value).registers());
        let elements_per_word = (WORD_BITS / elem.bits().max(1)) as usize;
        let packed_elem = Some(elem).filter(|elem| matches!(elem.bits(), 8 | 16) && registers.is_multiple_of(elements_per_word));
        let (ty, phi_count) = match packed_elem {
            Some(_) => (self.ir.i32().into(), registers / elements_per_word),
            None => (self.ir.elem_type(elem), registers),
        };
        let phi = |_| self.ir.builder.build_phi(ty, "").expect("the builder is at the start of a block");
        ValuePhis { phis: (0..phi_count).map(phi).collect(), packed_elem }
    }

    /// Appends phis to a block, for LLVM values that are not SSA values of the program.
    fn append_phis(&self, target: &mut PhiBlock<'c>, values: &[Val<'c>]) {
        let block_before = self.ir.current_block();
        self.ir.builder.position_at_end(target.block);
        let phi = |value: &Val<'c>| self.ir.builder.build_phi(value.get_type(), "").expect("the block has only phis");
        target.value_phis.push(ValuePhis { phis: values.iter().map(phi).collect(), packed_elem: None });
        self.ir.builder.position_at_end(block_before);
    }

    /// Sets the registers of the values to the phis of a block.
    pub(super) fn bind_to_phis(&mut self, values: &[Value], target: &PhiBlock<'c>) {
        for (value, value_phis) in values.iter().zip(&target.value_phis) {
            if self.ty(*value).elem().is_none() {
                self.set_token(*value);
            } else {
                self.set_registers(*value, value_phis.registers(self.ir));
            }
        }
    }

    /// The registers of each value; none for tokens.
    pub(super) fn registers(&self, values: &[Value]) -> Vec<Vec<Val<'c>>> {
        let registers_of = |value: &Value| match &self.lowered_values[value.0 as usize] {
            Some(Lowered::Registers(registers)) => registers.clone(),
            _ => Vec::new(),
        };
        values.iter().map(registers_of).collect()
    }

    /// Emits an `if`: a conditional branch and a join block with the results.
    fn emit_if(&mut self, cond: Value, then: Region, otherwise: Region, results: &[Value]) -> Result<()> {
        let join = self.block_with_phis(results, "join");
        let (then_block, else_block) = (self.ir.append_block(self.kernel, "then"), self.ir.append_block(self.kernel, "else"));
        let cond = self.scalar_value(cond).into_int_value();
        self.ir.conditional_branch(cond, then_block, else_block);
        for (start, region) in [(then_block, then), (else_block, otherwise)] {
            self.ir.builder.position_at_end(start);
            self.frames.push(ControlFrame { kind: FrameKind::If, join: join.clone() });
            let block = self.function.body.block_of(region);
            if results.len() == 1 && self.yields_only_a_constant(block) {
                // Without an instruction in the block, LLVM would remove the block, and set the many registers of the constant
                // before the branch, on both paths.
                self.ir.asm(None, "", "", &[], true);
            }
            self.emit_block(block)?;
            self.close_frame();
        }
        self.ir.builder.position_at_end(join.block);
        self.bind_to_phis(results, &join);
        Ok(())
    }

    /// Whether a block only yields a constant tile with many registers.
    fn yields_only_a_constant(&self, block: Block) -> bool {
        let body = &self.function.body;
        match body.blocks[block].ops[..] {
            [constant_op, _] => {
                let constant =
                    matches!(body.ops[constant_op].kind.core(), Some(Core::Constant { .. })).then(|| body.result(constant_op));
                let is_tile = |value: &Value| matches!(self.ty(*value), Type::Tile { .. });
                constant.filter(is_tile).is_some_and(|value| self.layout(value).registers() >= MANY_REGISTERS)
            }
            _ => false,
        }
    }

    /// Emits a rotated loop: with a test before the first iteration, and a test at the end of each iteration. LLVM's pass could
    /// rotate the loop, but its time is quadratic in the number of loops. All iterations end in one block, so that LLVM can compute
    /// the trip count.
    fn emit_for(&mut self, bounds: [Value; 3], init: &[Value], unsigned: bool, body: Region, results: &[Value]) -> Result<()> {
        let ir = self.ir;
        let [lower, upper, step] = bounds.map(|value| self.scalar_value(value).into_int_value());
        let body_block = self.function.body.block_of(body);
        let args = self.function.body.blocks[body_block].args.clone();
        let (mut start, join) = (self.block_with_phis(&args, "body"), self.block_with_phis(results, "join"));
        let mut next = self.block_with_phis(&args[1..], "next");
        let less_predicate = match unsigned {
            true => IntPredicate::ULT,
            false => IntPredicate::SLT,
        };
        let has_iterations = ir.icmp(less_predicate, lower, upper);
        let mut iterations = self.prefetched_iterations(body_block, NextIterationTest { step, upper, less: less_predicate });
        let entry_block = if iterations.is_some() { ir.append_block(self.kernel, "first") } else { start.block };
        let init = self.registers(init);
        let mut awaited_result_indices = self.results_awaited_by_next_op(results);
        let entry_values = self.with_poison_for_unread_accumulators(init.clone(), body, bounds[0], &awaited_result_indices);
        let first_values = [vec![vec![lower.into()]], entry_values.clone()].concat();
        if iterations.is_none() {
            start.add_incoming(ir, &first_values);
        }
        // Without a block for the zero-trip path, LLVM would set constants twice before the branch: for the first iteration and for
        // the zero-trip path.
        let constant_count = entry_values.iter().flatten().filter(|register| is_constant(**register)).count();
        let needs_no_block = entry_values == init && constant_count < MANY_REGISTERS;
        let zero_trip = if needs_no_block { join.block } else { ir.append_block(self.kernel, "none") };
        if needs_no_block {
            awaited_result_indices.clear();
            join.add_incoming(ir, &init);
        }
        ir.conditional_branch(has_iterations, entry_block, zero_trip);
        if !needs_no_block {
            // Only the zero-trip path sets the initial values. The other path must not write these registers while MMAs are in
            // flight.
            ir.builder.position_at_end(zero_trip);
            ir.asm(None, if awaited_result_indices.is_empty() { "" } else { "wgmma.wait_group.sync.aligned 0;" }, "", &[], true);
            join.add_incoming(ir, &init);
            ir.jump(join.block);
        }
        if let Some(iterations) = &mut iterations {
            ir.builder.position_at_end(entry_block);
            self.begin_first_iteration(iterations, first_values, [&mut start, &mut next])?;
        }
        ir.builder.position_at_end(start.block);
        self.bind_to_phis(&args, &start);
        self.fragment_prefetch = iterations.map(|iterations| iterations.with_words(start.values(ir)));
        self.frames.push(ControlFrame { kind: FrameKind::For { next: next.clone() }, join: join.clone() });
        self.emit_block(body_block)?;
        self.close_frame();
        ir.builder.position_at_end(next.block);
        let counter = ir.add(start.counter(), step);
        let mut carried_values = next.values(ir);
        start.add_incoming(ir, &[vec![vec![counter.into()]], carried_values.clone()].concat());
        let has_next = ir.icmp(less_predicate, counter, upper);
        if awaited_result_indices.is_empty() {
            join.add_incoming(ir, &carried_values);
            ir.conditional_branch(has_next, start.block, join.block);
        } else {
            let done_block = ir.append_block(self.kernel, "done");
            ir.conditional_branch(has_next, start.block, done_block);
            ir.builder.position_at_end(done_block);
            let accumulators =
                self.wait_for_accumulators(0, awaited_result_indices.iter().map(|index| carried_values[*index].clone()).collect());
            awaited_result_indices.iter().zip(accumulators).for_each(|(index, sum)| carried_values[*index] = sum);
            self.awaited_accumulators.extend(awaited_result_indices.iter().map(|index| results[*index]));
            join.add_incoming(ir, &carried_values);
            ir.jump(join.block);
        }
        ir.builder.position_at_end(join.block);
        self.bind_to_phis(results, &join);
        Ok(())
    }

    /// Emits the entry to a loop with fragment prefetch. The prefetched words are appended to the loop's `initial_values`.
    fn begin_first_iteration(
        &mut self,
        iterations: &mut PrefetchedIterations<'c>,
        mut initial_values: Vec<Vec<Val<'c>>>,
        [start, next]: [&mut PhiBlock<'c>; 2],
    ) -> Result<()> {
        let words = self.begin_iteration(iterations, &initial_values)?;
        for words in &words {
            self.append_phis(start, words);
            self.append_phis(next, words);
        }
        initial_values.extend(words);
        start.add_incoming(self.ir, &initial_values);
        self.ir.jump(start.block);
        Ok(())
    }

    /// If the op after the loop waits for all MMAs, returns the indices of the loop results for which it waits.
    fn results_awaited_by_next_op(&self, results: &[Value]) -> Vec<usize> {
        let body = &self.function.body;
        let Some(op) = results.first().and_then(|result| body.defining_op(*result)) else { return Vec::new() };
        let next_op = body.blocks.values().find_map(|block| {
            let at = block.ops.iter().position(|other| *other == op)?;
            block.ops.get(at + 1)
        });
        let Some(Op::GroupWait { pending: 0, accumulators }) = next_op.map(|op| &body.ops[*op].kind) else { return Vec::new() };
        let indices: Option<Vec<usize>> = accumulators.iter().map(|sum| results.iter().position(|result| result == sum)).collect();
        indices.unwrap_or_default()
    }

    /// Returns the initial values of a loop, with `poison` for accumulators that the first iteration ignores (`scale-d = 0`). An
    /// accumulator qualifies only if the program waits for its MMA inside the iteration or directly after the loop. Reason: ptxas
    /// serialises `wgmma` if another instruction writes the registers of an accumulator in flight.
    fn with_poison_for_unread_accumulators(
        &self,
        mut init: Vec<Vec<Val<'c>>>,
        region: Region,
        lower: Value,
        awaited_result_indices: &[usize],
    ) -> Vec<Vec<Val<'c>>> {
        let body = &self.function.body;
        let [counter, carried @ ..] = &body.blocks[body.block_of(region)].args[..] else { return init };
        let loop_ops = body.walk(region);
        let is_first_iteration = |zero_init: Value| {
            let producer = body.defining_op(zero_init).and_then(|op| body.ops[op].kind.core());
            let Some(Core::Compare { kind: Compare::Int { predicate: Predicate::Equal, .. }, lhs, rhs }) = producer else {
                return false;
            };
            (*lhs, *rhs) == (*counter, lower)
        };
        let is_awaited = |op: OpId| {
            let result = body.result(op);
            loop_ops.iter().any(
                |op| matches!(&body.ops[*op].kind, Op::GroupWait { pending: 0, accumulators } if accumulators.contains(&result)),
            )
        };
        let ignores_initial_value = |op: OpId, index: usize| match &body.ops[op].kind {
            Op::Core(tileas::Op::Mma { acc: MmaOperand::Registers(acc), zero_init: Some(zero_init), in_flight, .. }) => {
                let has_wait = !in_flight || awaited_result_indices.contains(&index) || is_awaited(op);
                *acc == carried[index] && is_first_iteration(*zero_init) && has_wait
            }
            _ => false,
        };
        for (index, (value, registers)) in carried.iter().zip(&mut init).enumerate() {
            let use_count = |op: &OpId| body.ops[*op].kind.operands().iter().filter(|operand| *operand == value).count();
            let is_unread = loop_ops.iter().any(|op| ignores_initial_value(*op, index));
            if is_unread && loop_ops.iter().map(use_count).sum::<usize>() == 1 {
                registers.iter_mut().for_each(|register| *register = self.ir.poison_like(*register));
            }
        }
        init
    }

    /// Emits a `loop`, which only a `break` leaves.
    fn emit_loop(&mut self, init: &[Value], body: Region, results: &[Value]) -> Result<()> {
        let ir = self.ir;
        let body_block = self.function.body.block_of(body);
        let args = self.function.body.blocks[body_block].args.clone();
        let (next, join) = (self.block_with_phis(&args, "head"), self.block_with_phis(results, "join"));
        next.add_incoming(ir, &self.registers(init));
        ir.jump(next.block);
        ir.builder.position_at_end(next.block);
        self.bind_to_phis(&args, &next);
        self.frames.push(ControlFrame { kind: FrameKind::Loop { next: next.clone() }, join: join.clone() });
        self.emit_block(body_block)?;
        self.close_frame();
        ir.builder.position_at_end(join.block);
        self.bind_to_phis(results, &join);
        Ok(())
    }

    /// Removes the frame of the innermost control-flow op, whose regions are complete.
    pub(super) fn close_frame(&mut self) {
        self.frames.pop();
    }

    /// Emits a terminator: the branch from the end of a region to the block that receives the terminator's values.
    pub(super) fn emit_terminator(&mut self, core: &Core) {
        let ir = self.ir;
        match core {
            Core::Return {} => self.end_thread(),
            Core::Yield { values } => {
                let values = self.registers(values);
                let frame = self.frames.last().expect("a yield is in a construct");
                frame.join.add_incoming(ir, &values);
                ir.jump(frame.join.block);
            }
            Core::Break { values } => {
                let values = self.registers(values);
                let frame = self.frames.iter().rev().find(|frame| matches!(frame.kind, FrameKind::Loop { .. }));
                let join = &frame.expect("a break is in a loop").join;
                join.add_incoming(ir, &values);
                ir.jump(join.block);
            }
            Core::Continue { values } => {
                let mut values = self.registers(values);
                values.extend(self.take_prefetched_words().into_iter().flatten());
                let frame = self.frames.iter().rev().find(|frame| !matches!(frame.kind, FrameKind::If));
                match &frame.expect("a continue is in a loop").kind {
                    FrameKind::For { next } | FrameKind::Loop { next } => {
                        next.add_incoming(ir, &values);
                        ir.jump(next.block);
                    }
                    FrameKind::If => unreachable!("the search skips ifs"),
                }
            }
            _ => unreachable!("called for terminators only"),
        }
    }
}
