//! Purpose: issue loads of a loop one iteration early, into registers that the loop carries. This is the register counterpart
//! of asynchronous copies to shared memory, for tiles that are not copied.
//! Requires: loops without schedules.
//! Establishes: each such load is issued before its loop, for the first iteration, and in its loop, for the next iteration if
//! there is one. Other ops of the loop use the carried value.
//! Preserves: the values of all other ops. The added registers stay within a quarter of a thread's budget ([`BUDGET_DIVISOR`]).
//! See also: CUTLASS SM70 mainloops, which prefetch global memory fragments into registers.
//!
//! Prefetching is worthwhile if no other CTA of the SM computes while this CTA waits. This condition holds for persistent loops and
//! the loops directly inside them: their grid has only as many CTAs as run at a time. It holds for kernels with one tile block, and
//! if threads need so many registers that few warps fit on an SM. It also holds for loops with MMAs in tensor memory whose loads can
//! all be prefetched: the MMA warp runs at most two accumulators ahead of the threads, and a CTA leaves memory for few others.
//! Synchronous MMAs instead hide the latency of the loads that precede them.

use crate::for_loops::{for_body, for_loops};
use crate::graph::{address_slice_of_read, check_no_early_exit};
use crate::materialize::{drop_token, mapped};
use crate::occupancy::ENOUGH_WARPS;
use crate::pipelining_options::pipelines_loops;
use crate::register_pressure;
use crate::tmem_mma_buffers::is_tmem_mma;
use base::diag::Result;
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::{Block, Op as OpId, Operation};
use base::{Arena, Body, File, Loc, Target, Value};
use common::kernel_plan;
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::{has_one_tile_block, is_clc_loop, is_persistent};
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, Module, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::layout::{Layout, LayoutId};
use tileas::{Type, budget};

/// The registers for prefetched values are at most the register limit of a thread divided by this number.
const BUDGET_DIVISOR: u32 = 4;

/// A load that can be issued an iteration ahead.
struct PrefetchableLoad {
    op: OpId,
    /// The ops of the loop's body that compute the address.
    address_slice: Vec<OpId>,
    /// Registers per thread that hold the loaded value.
    registers: u32,
}

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let File { envelope, payload: Module { functions, layouts, .. } } = file;
    if !pipelines_loops(envelope)? {
        return Ok(());
    }
    let target = envelope.target()?;
    for function in functions {
        let option = kernel_plan::prefetch(envelope, &function.name)?;
        if option == Some("off") {
            continue;
        }
        for (loc, registers) in prefetch_loads(function, layouts, target, option == Some("on")) {
            let message = format!("loads are issued an iteration ahead, in {registers} registers per thread");
            let (pass, outcome, name) = ("prefetch-loads".into(), Outcome::Passed, "Pipelined".into());
            let (category, function) = (Category::Other, function.name.clone());
            envelope.log.push(LogEntry { pass, outcome, name, category, message, function, loc });
        }
    }
    Ok(())
}

/// Prefetches the loads of loops where prefetching is worthwhile, or of all loops (`everywhere`). Returns the changed loops, each
/// with the number of registers that it carries in addition.
fn prefetch_loads(function: &mut Function, layouts: &Arena<LayoutId, Layout>, target: Target, everywhere: bool) -> Vec<(Loc, u32)> {
    let attrs = &function.attrs.program;
    let max_registers = budget::registers(target, attrs.warps, attrs.occupancy.unwrap_or(1)) / BUDGET_DIVISOR;
    let mut changed_loops = Vec::new();
    let everywhere =
        everywhere || has_one_tile_block(&function.body, function.region, Op::core) || has_few_warps(function, layouts, target);
    let persistent_loops = loops_of_persistent_kernel(function);
    let worthwhile = |op: &OpId| everywhere || persistent_loops.contains(op) || has_tmem_mma(function, *op);
    for for_op in for_loops(function).into_iter().filter(worthwhile).collect::<Vec<_>>() {
        let candidates = prefetchable_loads(function, for_op, layouts);
        let candidate_count = candidates.len();
        let mut registers_left = max_registers;
        let mut selected: Vec<PrefetchableLoad> = Vec::new();
        for load in candidates {
            // The address for the next iteration would need the value that another prefetched load fetches for that iteration. The
            // loop carries only the value for the current iteration.
            let needs_carried = selected.iter().any(|carried| load.address_slice.contains(&carried.op));
            if load.registers <= registers_left && !needs_carried {
                registers_left -= load.registers;
                selected.push(load);
            }
        }
        // Threads of a loop with MMAs in tensor memory still wait for the loads that are not prefetched, such as rows whose indices
        // another load fetches.
        if selected.len() < candidate_count && !everywhere && !persistent_loops.contains(&for_op) {
            continue;
        }
        let loc = function.body.ops[for_op].loc;
        if !selected.is_empty() {
            changed_loops.push((loc, max_registers - registers_left));
        }
        selected.into_iter().fold(for_op, |for_op, load| carry_load(&mut function.body, for_op, &load));
    }
    if !changed_loops.is_empty() {
        *function = base::text::compact(function);
    }
    changed_loops
}

/// Returns whether an SM lacks the registers for enough warps to hide their latencies.
fn has_few_warps(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> bool {
    let warps = function.attrs.program.warps;
    let ctas = ENOUGH_WARPS.div_ceil(warps.max(1));
    budget::registers(target, warps, ctas) < register_pressure::estimated_registers(function, layouts)
}

/// Returns the persistent loops and the loops nested in them, except loops inside an `if` of a persistent loop.
fn loops_of_persistent_kernel(function: &Function) -> BTreeSet<OpId> {
    let body = &function.body;
    let mut persistent = BTreeSet::new();
    let mut stack = vec![(function.region, false)];
    while let Some((region, inside)) = stack.pop() {
        for &op in &body.blocks[body.block_of(region)].ops {
            let is_loop = body.ops[op].kind.core().is_some_and(Core::is_for);
            let persists = is_loop && (inside || is_persistent(body, op, Op::core));
            persistent.extend(persists.then_some(op));
            stack.extend(body.ops[op].kind.regions().into_iter().map(|region| (region, persists)));
        }
    }
    persistent
}

/// The loads of a loop that can be issued an iteration ahead.
fn prefetchable_loads(function: &Function, for_op: OpId, layouts: &Arena<LayoutId, Layout>) -> Vec<PrefetchableLoad> {
    let body = &function.body;
    let block = body.block_of(for_body(function, for_op));
    if is_clc_loop(body, body.ops[for_op].kind.core(), Op::core)
        || has_loop_or_synchronous_mma(function, for_op)
        || check_no_early_exit(function, block).is_err()
    {
        return Vec::new();
    }
    let load = |op: &OpId| {
        let Op::Core(tileas::Op::LoadView { order, .. } | tileas::Op::Load { order, .. }) = &body.ops[*op].kind else {
            return None;
        };
        let ty = body.ty(body.ops[*op].results[0]);
        let Type::Tile { elem: Elem::Scalar(_), layout, .. } = ty else { return None };
        let registers = layouts[*layout].registers() as u32 * ty.elem()?.bits().div_ceil(32);
        let address_slice = address_slice_of_read(function, block, *op).ok().filter(|_| order.scope.is_none())?;
        Some(PrefetchableLoad { op: *op, address_slice, registers })
    };
    let copy_addresses = copy_addresses(function, block);
    body.blocks[block].ops.iter().filter(|op| !copy_addresses.contains(op)).filter_map(load).collect()
}

/// Returns whether the body of a loop has an MMA in tensor memory, outside nested loops and conditions.
fn has_tmem_mma(function: &Function, for_op: OpId) -> bool {
    let body = &function.body;
    body.blocks[body.block_of(for_body(function, for_op))].ops.iter().any(|op| is_tmem_mma(&body.ops[*op].kind))
}

/// Returns whether a loop contains another loop, or an MMA that hides the latency of loads: threads issue it, and may wait for it.
fn has_loop_or_synchronous_mma(function: &Function, for_op: OpId) -> bool {
    let inside = function.body.walk(for_body(function, for_op));
    inside.into_iter().any(|op| {
        let kind = &function.body.ops[op].kind;
        matches!(kind, Op::Core(tileas::Op::Mma { .. })) && !is_tmem_mma(kind) || kind.core().is_some_and(Core::is_loop)
    })
}

/// The ops of a loop's body that compute the addresses of its asynchronous copies. Copies run several iterations ahead, so a loop
/// must not carry their addresses.
fn copy_addresses(function: &Function, block: Block) -> BTreeSet<OpId> {
    let ops = &function.body.blocks[block].ops;
    let copies = ops.iter().filter(|op| function.body.ops[**op].kind.effects().copied_to().is_some());
    copies.flat_map(|copy| address_slice_of_read(function, block, *copy).unwrap_or_default()).collect()
}

/// Makes a loop carry the result of a load. Returns the new loop op.
fn carry_load(body: &mut Body<Op, Type>, for_op: OpId, load: &PrefetchableLoad) -> OpId {
    let loop_op = body.ops[for_op].kind.core().and_then(Core::as_loop).expect("only loops carry");
    let bounds = loop_op.bounds.expect("the loop is a `for`");
    let LoopBounds { lower, upper, step, unsigned } = bounds;
    let (mut init, region) = (loop_op.init.to_vec(), loop_op.body);
    let (loc, block) = (body.ops[for_op].loc, body.block_of(region));
    let counter = body.blocks[block].args[0];
    let (index, ty) = (body.ty(counter).clone(), body.ty(body.ops[load.op].results[0]).clone());

    let mut before_loop = PrefetchWriter { body, out: Vec::new(), loc };
    let has_iteration = before_loop.less_than(if unsigned { Signedness::Unsigned } else { Signedness::Signed }, lower, upper);
    init.push(before_loop.emit_guarded_load(has_iteration, load, Iteration { counter, index: lower }));
    let before_loop = before_loop.out;

    let mut in_loop = PrefetchWriter { body, out: Vec::new(), loc };
    // The addition cannot wrap if the next iteration exists.
    let next =
        in_loop.emit_core(Core::Binary { kind: Binary::AddI { overflow: Overflow::None }, lhs: counter, rhs: step }, index.clone());
    let remaining =
        in_loop.emit_core(Core::Binary { kind: Binary::SubI { overflow: Overflow::None }, lhs: upper, rhs: counter }, index);
    let has_next = in_loop.less_than(Signedness::Unsigned, step, remaining);
    let loaded = in_loop.emit_guarded_load(has_next, load, Iteration { counter, index: next });
    let token = in_loop.emit_core(Core::MakeToken {}, Type::Token);
    let in_loop = in_loop.out;

    let current = body.add_argument(block, ty.clone());
    for (old, new) in body.ops[load.op].results.clone().into_iter().zip([current, token]) {
        body.replace_uses(old, new);
    }
    let end = body.terminator(block).expect("a loop's body ends in continue");
    if let Op::Core(tileas::Op::Core(Core::Continue { values })) = &mut body.ops[end].kind {
        values.push(loaded);
    }
    let ops = &mut body.blocks[block].ops;
    ops.retain(|op| *op != load.op);
    ops.splice(0..0, in_loop);

    let types: Vec<Type> = body.ops[for_op].results.iter().map(|value| body.ty(*value).clone()).chain([ty]).collect();
    let kind = Op::Core(tileas::Op::Core(Core::new_loop(Some(bounds), init, region)));
    let new = body.new_op(kind, types, loc);
    for (old, new) in body.ops[for_op].results.clone().into_iter().zip(body.ops[new].results.clone()) {
        body.replace_uses(old, new);
    }
    let (place, at) = place_of(body, for_op);
    body.blocks[place].ops.splice(at..=at, before_loop.into_iter().chain([new]));
    new
}

/// The block of an op, and its index in the block.
fn place_of(body: &Body<Op, Type>, op: OpId) -> (Block, usize) {
    let place = body.blocks.iter().find_map(|(block, node)| Some((block, node.ops.iter().position(|other| *other == op)?)));
    place.expect("the loop is in a block")
}

/// Appends the ops that prefetch a load to `out`.
struct PrefetchWriter<'a> {
    body: &'a mut Body<Op, Type>,
    out: Vec<OpId>,
    loc: Loc,
}

/// The iteration for which a load is emitted.
struct Iteration {
    /// The counter of the loop, which the load's address uses.
    counter: Value,
    /// The value that replaces the counter in the address.
    index: Value,
}

impl PrefetchWriter<'_> {
    /// Emits a load for an iteration, under the condition `exists`. The result is zero if the iteration does not exist.
    fn emit_guarded_load(&mut self, exists: Value, load: &PrefetchableLoad, iteration: Iteration) -> Value {
        let Iteration { counter, index } = iteration;
        let ty = self.body.ty(self.body.ops[load.op].results[0]).clone();
        let outer = std::mem::take(&mut self.out);
        let [then, otherwise] = [(); 2].map(|()| self.body.new_region());
        let block = self.body.new_block(then);
        let mut map = BTreeMap::from([(counter, index)]);
        for &op in load.address_slice.iter().chain([&load.op]) {
            self.clone_op(op, &mut map);
        }
        let loaded = map[&self.body.ops[load.op].results[0]];
        self.end_region(block, loaded);
        let block = self.body.new_block(otherwise);
        let zeros = self.emit_core(Core::Constant { value: Dense::Splat(0) }, ty.clone());
        self.end_region(block, zeros);
        self.out = outer;
        self.emit_core(Core::new_if(exists, [then, otherwise]), ty)
    }

    /// Ends a region with a `yield` of a value. Moves the ops in `out` to the block of the region.
    fn end_region(&mut self, block: Block, value: Value) {
        let op = self.body.new_op(Op::Core(tileas::Op::Core(Core::Yield { values: vec![value] })), [], self.loc);
        self.out.push(op);
        self.body.blocks[block].ops = std::mem::take(&mut self.out);
    }

    /// Clones an op, and replaces its operands by their values in `map`. Adds the results to `map`.
    fn clone_op(&mut self, op: OpId, map: &mut BTreeMap<Value, Value>) {
        let mut node = self.body.ops[op].clone();
        node.kind.for_each_operand_mut(&mut |value| *value = mapped(map, *value));
        drop_token(&mut node.kind);
        let types: Vec<Type> = node.results.iter().map(|value| self.body.ty(*value).clone()).collect();
        let new = self.body.new_op(node.kind, types, node.loc);
        map.extend(node.results.iter().copied().zip(self.body.ops[new].results.iter().copied()));
        self.out.push(new);
    }

    fn less_than(&mut self, signedness: Signedness, lhs: Value, rhs: Value) -> Value {
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness };
        self.emit_core(Core::Compare { kind, lhs, rhs }, Type::Scalar(Elem::Scalar(Scalar::I1)))
    }

    fn emit_core(&mut self, core: Core, ty: Type) -> Value {
        let op = self.body.new_op(Op::Core(tileas::Op::Core(core)), [ty], self.loc);
        self.out.push(op);
        self.body.result(op)
    }
}
