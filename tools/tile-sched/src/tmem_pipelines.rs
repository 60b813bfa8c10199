//! Purpose: write the pipeline ops between threads and tensor memory MMAs. MMAs fill accumulator pipelines, which threads drain.
//! MMAs drain the pipelines of operands that threads store.
//! Requires: final loops.
//! Establishes: acquire, commit, wait and release ops, so that the accesses of tensor memory MMAs need no barriers.
//! Preserves: the order of all existing ops.
//! See also: CUTLASS `PipelineUmmaAsync` and `PipelineTmaStore`.
//!
//! If threads rescale an accumulator between MMAs, the threads fill its pipeline, and the MMAs that add to the accumulator drain
//! the pipeline. Buffers that threads fill for TMA stores also have such a pipeline, so that threads need not wait for the store to
//! finish reading.
//!
//! If two compute roles need the special function units, a pipeline without buffers implements the ping-pong order. While one role
//! uses the units, it fills this pipeline. While the other role uses the units, it drains this pipeline.
//!
//! An acquire precedes the first op of a block that fills a buffer, and a commit follows the last such op. Threads wait for an
//! accumulator directly after its commit: from then on, the threads may also overwrite everything that these MMAs have read. The
//! wait for an operand precedes its first reader. A release follows the last op that drains the buffer. Loops carry the phase if
//! they repeat these pipeline ops, and conditions yield it. The stage of a two-stage buffer is carried and yielded in the same way.

use crate::compute_warpgroups::ComputeGroups;
use crate::tmem_mma_buffers::{PipelineKind, buffers_with_pipelines, is_tmem_mma, tma_store_buffers};
use crate::{single_role_pipelines, tmem_double_buffers};
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use base::{Body, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::Terminator;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::Binary;
use sched::{Drain, Fill, Function, Op, Pipeline};
use std::collections::BTreeMap;
use tileas::{Buffer, Type};

/// Writes the pipeline ops of a function. `ping_pong_roles`: the ops at the ends of ping-pong turns, each with the index of the
/// compute role that has the turn.
pub(crate) fn run(function: &mut Function, ping_pong_roles: BTreeMap<OpId, usize>) {
    let buffers = buffers_with_pipelines(function);
    if buffers.is_empty() {
        return;
    }
    let mut pipelines: BTreeMap<Buffer, (Pipeline, PipelineKind)> =
        buffers.into_iter().map(|(buffer, kind)| (buffer, (add_pipeline(function, buffer, kind), kind))).collect();
    if !ping_pong_roles.is_empty() {
        let pipeline = single_role_pipelines::add(&mut function.attrs, Vec::new(), 1, Fill::Threads, Drain::Warps);
        pipelines.insert(ping_pong_id(function), (pipeline, PipelineKind::PingPong));
    }
    let (region, ping_pong_buffer) = (function.region, ping_pong_id(function));
    let mut pass = TmemPipelinePass { body: &mut function.body, pipelines, ping_pong_roles, ping_pong_buffer, frames: Vec::new() };
    let entry = pass.body.block_of(region);
    let zero = pass.new_i32_constant(0);
    let zero_op = pass.body.defining_op(zero).expect("an op defines the constant");
    pass.body.blocks[entry].ops.insert(0, zero_op);
    let stage = |buffer: &Buffer| function.attrs.placements.get(*buffer).filter(|place| place.depth > 1).map(|_| zero);
    let mut positions: PipelinePositions =
        pass.pipelines.keys().map(|buffer| (*buffer, PipelinePosition { stage: stage(buffer), phase: zero })).collect();
    let all_buffers: Vec<Buffer> = positions.keys().copied().collect();
    pass.write_region(region, &all_buffers, &mut positions);
}

/// A buffer id that no buffer has. In the maps from buffers to pipelines, it represents the ping-pong order.
fn ping_pong_id(function: &Function) -> Buffer {
    Buffer(function.attrs.program.buffers.len() as u32)
}

/// Upper bound on the total number of stages of the pipelines that this pass adds.
pub(crate) fn max_stages(function: &Function) -> u32 {
    (buffers_with_pipelines(function).len()
        + tmem_double_buffers::recomputed_accumulators(function).len()
        + tma_store_buffers(function).len()
        + tmem_double_buffers::stored_scales(function).len()
        + tmem_double_buffers::operands_stored_ahead(function).len()
        + usize::from(ComputeGroups::find(function).is_ok())) as u32
}

/// Adds the pipeline of a buffer. `kind` determines what fills and what drains it ([`Fill`], [`Drain`]).
fn add_pipeline(function: &mut Function, buffer: Buffer, kind: PipelineKind) -> Pipeline {
    let attrs = &mut function.attrs;
    let (fill, drain) = match kind {
        PipelineKind::Accumulator => (Fill::Mma, Drain::Threads),
        PipelineKind::Stored => (Fill::Threads, Drain::Threads),
        PipelineKind::Scaled | PipelineKind::Operand { .. } => (Fill::Threads, Drain::Mma),
        PipelineKind::PingPong => unreachable!("the ping-pong pipeline has no buffer"),
    };
    let depth = attrs.placements[buffer].depth;
    single_role_pipelines::add(attrs, vec![buffer], depth, fill, drain)
}

/// For each buffer, the position in its pipeline at the op that the pass currently writes.
type PipelinePositions = BTreeMap<Buffer, PipelinePosition>;

/// A position in a pipeline: the stage, or `None` if the pipeline has one stage, and the phase of its mbarriers.
#[derive(Clone, Copy)]
struct PipelinePosition {
    stage: Option<Value>,
    phase: Value,
}

impl PipelinePosition {
    /// The values of the position: the stage, if the pipeline has several stages, then the phase.
    fn values(self) -> impl Iterator<Item = Value> {
        self.stage.into_iter().chain([self.phase])
    }
    /// Replaces the values of the position by values from `next`: the stage, if the pipeline has several stages, then the phase.
    fn with_values(self, mut next: impl FnMut() -> Value) -> PipelinePosition {
        PipelinePosition { stage: self.stage.map(|_| next()), phase: next() }
    }
}

/// A control-flow op that encloses the ops that the pass currently writes.
struct ControlFlowFrame {
    /// Whether the op is a loop.
    is_loop: bool,
    /// The buffers whose pipeline positions the terminators of the op's regions forward.
    forwarded_buffers: Vec<Buffer>,
}

/// Whether an op, or an op in its regions, fills or drains a buffer.
#[derive(Clone, Copy, Default)]
struct BufferUse {
    fills: bool,
    drains: bool,
}

/// Returns, for one buffer, the number of the period to which each op of a region belongs. A period consists of fills and the
/// following drains of a stage. A new period starts with the first fill after a drain.
fn number_fill_drain_periods(uses: &[BTreeMap<Buffer, BufferUse>], buffer: &Buffer) -> Vec<usize> {
    let (mut period, mut drained) = (0, false);
    let period_of_op = |used: &BTreeMap<Buffer, BufferUse>| {
        if let Some(used) = used.get(buffer) {
            period += usize::from(used.fills && drained);
            drained = used.drains;
        }
        period
    };
    uses.iter().map(period_of_op).collect()
}

/// The state of the walk that writes the pipeline ops.
struct TmemPipelinePass<'a> {
    body: &'a mut Body<Op, Type>,
    /// The pipeline of each buffer, with its kind.
    pipelines: BTreeMap<Buffer, (Pipeline, PipelineKind)>,
    /// The ops at the ends of ping-pong turns, each with the index of the compute role that has the turn.
    ping_pong_roles: BTreeMap<OpId, usize>,
    /// The buffer id that represents the ping-pong order ([`ping_pong_id`]).
    ping_pong_buffer: Buffer,
    /// The control-flow ops that enclose the current ops, outermost first.
    frames: Vec<ControlFlowFrame>,
}

impl TmemPipelinePass<'_> {
    /// Writes the pipeline ops of the buffers in `buffers`. All fills and drains of these buffers are in `region`.
    fn write_region(&mut self, region: Region, buffers: &[Buffer], positions: &mut PipelinePositions) {
        let block = self.body.block_of(region);
        let ops = std::mem::take(&mut self.body.blocks[block].ops);
        let uses: Vec<BTreeMap<Buffer, BufferUse>> = ops.iter().map(|op| self.buffer_uses(*op, buffers)).collect();
        let period_numbers: BTreeMap<Buffer, Vec<usize>> =
            buffers.iter().map(|buffer| (*buffer, number_fill_drain_periods(&uses, buffer))).collect();
        let has_only = |at: usize, buffer: &Buffer, fills: bool| {
            uses[at].get(buffer).is_some_and(|used| (used.fills, used.drains) == (fills, !fills))
        };
        let is_in_same_period = |at: usize, other: usize, buffer: &Buffer, fills| {
            period_numbers[buffer][at] == period_numbers[buffer][other] && has_only(other, buffer, fills)
        };
        let is_first = |at, buffer: &Buffer, fills| !(0..at).any(|other| is_in_same_period(at, other, buffer, fills));
        let is_last = |at, buffer: &Buffer, fills| !(at + 1..uses.len()).any(|other| is_in_same_period(at, other, buffer, fills));
        let is_drained = |at, buffer: &Buffer| (at + 1..uses.len()).any(|other| is_in_same_period(at, other, buffer, false));
        let mut out = Vec::with_capacity(ops.len());
        for (at, op) in ops.into_iter().enumerate() {
            let loc = self.body.ops[op].loc;
            let new_step = |pass: &mut Self, kind: Op| pass.body.new_op(kind, [], loc);
            let (mut inner, mut after) = (Vec::new(), Vec::new());
            for (buffer, used) in &uses[at] {
                let ((pipeline, kind), PipelinePosition { stage, phase }) = (self.pipelines[buffer], positions[buffer]);
                if used.fills && used.drains {
                    inner.push(*buffer);
                    continue;
                }
                self.set_stages(op, *buffer, stage);
                if is_first(at, buffer, used.fills) {
                    match used.fills {
                        true => out.push(new_step(self, Op::PipelineAcquire { pipeline, stage, phase })),
                        false if kind != PipelineKind::Accumulator => {
                            out.push(new_step(self, Op::PipelineWait { pipeline, stage, phase }))
                        }
                        false => {}
                    }
                }
                if !is_last(at, buffer, used.fills) {
                    continue;
                }
                if used.fills {
                    if matches!(kind, PipelineKind::Operand { in_shared_memory: true } | PipelineKind::Stored) {
                        after.push(new_step(self, Op::AsyncFence {}));
                    }
                    after.push(new_step(self, Op::PipelineCommit { pipeline, stage }));
                    // If no op reads the accumulator, or no MMA adds to it, this fill has no consumer. The filling side then also
                    // waits and releases, so that the next period can start.
                    let is_unused = matches!(kind, PipelineKind::Accumulator | PipelineKind::Scaled) && !is_drained(at, buffer);
                    if kind == PipelineKind::Accumulator || is_unused {
                        after.push(new_step(self, Op::PipelineWait { pipeline, stage, phase }));
                    }
                    if is_unused {
                        after.push(new_step(self, Op::PipelineRelease { pipeline, stage }));
                        after.extend(self.advance_position(*buffer, positions));
                    }
                } else {
                    after.push(new_step(self, Op::PipelineRelease { pipeline, stage }));
                    after.extend(self.advance_position(*buffer, positions));
                }
            }
            self.write_inner_regions(op, &inner, positions);
            self.forward_positions(op, positions);
            out.push(op);
            out.extend(after);
        }
        self.body.blocks[block].ops = out;
    }

    /// For each buffer in `buffers` that the op or its regions access, whether these accesses fill or drain the buffer.
    fn buffer_uses(&self, op: OpId, buffers: &[Buffer]) -> BTreeMap<Buffer, BufferUse> {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
        let mut uses: BTreeMap<Buffer, BufferUse> = BTreeMap::new();
        for op in std::iter::once(op).chain(inner) {
            let kind = &self.body.ops[op].kind;
            if let Some(warp_role) = self.ping_pong_roles.get(&op).filter(|_| buffers.contains(&self.ping_pong_buffer)) {
                let used = uses.entry(self.ping_pong_buffer).or_default();
                *if *warp_role == 0 { &mut used.fills } else { &mut used.drains } = true;
            }
            for access in kind.effects().buffers.into_iter().filter(|access| buffers.contains(&access.buffer)) {
                let used = uses.entry(access.buffer).or_default();
                let fills = match self.pipelines[&access.buffer].1 {
                    PipelineKind::Accumulator => is_tmem_mma(kind),
                    PipelineKind::Stored => access.access_kind.writes(),
                    PipelineKind::Scaled | PipelineKind::Operand { .. } => !is_tmem_mma(kind),
                    PipelineKind::PingPong => unreachable!("the ping-pong pipeline has no buffer"),
                };
                *if fills { &mut used.fills } else { &mut used.drains } = true;
            }
        }
        uses
    }

    /// Sets the stage of all accesses of an op and its regions to a buffer.
    fn set_stages(&mut self, op: OpId, buffer: Buffer, stage: Option<Value>) {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
        for op in std::iter::once(op).chain(inner).collect::<Vec<_>>() {
            let Op::Core(program) = &mut self.body.ops[op].kind else { continue };
            for (_, place) in program.stages_mut().into_iter().filter(|(other, _)| *other == buffer) {
                *place = stage;
            }
        }
    }

    /// Creates the ops that advance the position of a buffer, and updates `positions`. With two stages, the stage index toggles,
    /// and the phase toggles when the index wraps around. With one stage, the phase toggles each time.
    fn advance_position(&mut self, buffer: Buffer, positions: &mut PipelinePositions) -> Vec<OpId> {
        let one = self.new_i32_constant(1);
        let PipelinePosition { stage, phase } = positions[&buffer];
        let xor = |pass: &mut Self, lhs: Value, rhs: Value| {
            let kind = Op::Core(tileas::Op::Core(Core::Binary { kind: Binary::Xor, lhs, rhs }));
            pass.body.new_op(kind, [i32_type()], base::Loc::UNKNOWN)
        };
        let phase = xor(self, phase, stage.unwrap_or(one));
        let stage = stage.map(|stage| xor(self, stage, one));
        let result = |op: OpId| self.body.result(op);
        positions.insert(buffer, PipelinePosition { stage: stage.map(result), phase: result(phase) });
        let one = self.body.defining_op(one).expect("an op defines the constant");
        [one, phase].into_iter().chain(stage).collect()
    }

    fn new_i32_constant(&mut self, value: u64) -> Value {
        let kind = Op::Core(tileas::Op::Core(Core::Constant { value: Dense::Splat(value) }));
        let op = self.body.new_op(kind, [i32_type()], base::Loc::UNKNOWN);
        self.body.result(op)
    }

    /// Writes the pipeline ops in the regions of an op, for the `inner` buffers, which the op both fills and drains.
    fn write_inner_regions(&mut self, op: OpId, inner: &[Buffer], positions: &mut PipelinePositions) {
        if inner.is_empty() && self.frames.iter().all(|frame| frame.forwarded_buffers.is_empty()) {
            return;
        }
        let Some(core) = self.body.ops[op].kind.core().filter(|core| core.is_structured()) else { return };
        let (is_loop, regions) = (core.is_loop(), self.body.ops[op].kind.regions());
        if let Some(init) = self.body.ops[op].kind.core_mut().and_then(Core::init_mut) {
            init.extend(inner.iter().flat_map(|buffer| positions[buffer].values()));
        }
        for region in regions {
            let mut region_positions = positions.clone();
            if is_loop {
                let block = self.body.block_of(region);
                for buffer in inner {
                    region_positions.insert(*buffer, positions[buffer].with_values(|| self.body.add_argument(block, i32_type())));
                }
            }
            self.frames.push(ControlFlowFrame { is_loop, forwarded_buffers: inner.to_vec() });
            self.write_region(region, inner, &mut region_positions);
            self.frames.pop();
        }
        for buffer in inner {
            let result = || {
                let index = self.body.ops[op].results.len() as u32;
                let result = self.body.values.push(ValueNode { ty: i32_type(), def: Def::Result { op, index } });
                self.body.ops[op].results.push(result);
                result
            };
            let position = positions[buffer].with_values(result);
            positions.insert(*buffer, position);
        }
    }

    /// Appends the current positions to the values that the op forwards, if the op is a terminator of a control-flow op.
    fn forward_positions(&mut self, op: OpId, positions: &PipelinePositions) {
        let is_loop = match self.body.ops[op].kind.core().and_then(Core::as_terminator) {
            Some(Terminator::Yield(_)) => false,
            Some(Terminator::Continue(_) | Terminator::Break(_)) => true,
            Some(Terminator::Return) | None => return,
        };
        let Some(frame) = self.frames.iter().rev().find(|frame| frame.is_loop == is_loop) else { return };
        let forwarded = frame.forwarded_buffers.iter().flat_map(|buffer| positions[buffer].values());
        if let Op::Core(tileas::Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values })) =
            &mut self.body.ops[op].kind
        {
            values.extend(forwarded);
        }
    }
}

fn i32_type() -> Type {
    Type::Scalar(Elem::Scalar(Scalar::I32))
}
