//! Purpose: write the pipeline ops between threads and tensor memory MMAs. MMAs fill accumulator pipelines, which threads drain.
//! MMAs drain the pipelines of operands that threads store.
//! Requires: final loops.
//! Establishes: acquire, commit, wait and release ops, so that tensor memory MMA accesses need no barriers.
//! Preserves: the order of all existing ops.
//! See also: CUTLASS `PipelineUmmaAsync` and `PipelineTmaStore`.
//!
//! If threads rescale an accumulator between MMAs, the threads fill its pipeline and the MMAs that add to it drain it. Buffers
//! that threads fill for TMA stores also have such a pipeline, so that threads need not wait for the store to finish reading.
//!
//! If two compute roles need the same units, another pipeline implements the ping-pong order. Its fills and drains are the times
//! during which a role uses the units: one role fills it, and the other role drains it.
//!
//! An acquire precedes the first op of a block that fills a buffer, and a commit follows the last such op. Threads wait for an
//! accumulator directly after its commit: from then on they may also overwrite everything that its MMAs have read. The wait for
//! an operand precedes its first reader. A release follows the last op that drains the buffer. Loops carry the phase if they
//! repeat these pipeline ops, and conditions yield it. The stage of a two-stage buffer is carried and yielded in the same way.

use crate::partition::{ComputeGroups, Order};
use crate::{single_role_pipelines, tma_pipelines};
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use base::{Block, Body, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::Binary;
use sched::{Drain, Fill, Function, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::BufferAccess;
use tileas::{Buffer, MmaAtom, Space, Type};

/// `alternating_pairs` maps the ops during which one of two compute roles has the special function units to itself to the index
/// of that role.
pub(crate) fn run(function: &mut Function, alternating_pairs: BTreeMap<OpId, usize>) {
    let buffers = buffers_with_pipelines(function);
    if buffers.is_empty() {
        return;
    }
    let mut pipelines: BTreeMap<Buffer, (Pipeline, Kind)> =
        buffers.into_iter().map(|(buffer, kind)| (buffer, (add_pipeline(function, buffer, kind), kind))).collect();
    if !alternating_pairs.is_empty() {
        let pipeline = single_role_pipelines::add(&mut function.attrs, Vec::new(), 1, Fill::Threads, Drain::Warps);
        pipelines.insert(turn_id(function), (pipeline, Kind::Turn));
    }
    let (region, turn) = (function.region, turn_id(function));
    let mut pass = TmemPipelinePass { body: &mut function.body, pipelines, alternating_pairs, turn, frames: Vec::new() };
    let entry = pass.body.block_of(region);
    let zero = pass.number(0);
    let first = pass.body.defining_op(zero).expect("an op defines the constant");
    pass.body.blocks[entry].ops.insert(0, first);
    let stage = |buffer: &Buffer| function.attrs.placements.get(*buffer).filter(|place| place.depth > 1).map(|_| zero);
    let mut phases: Phases =
        pass.pipelines.keys().map(|buffer| (*buffer, PipelinePhase { stage: stage(buffer), phase: zero })).collect();
    let all: Vec<Buffer> = phases.keys().copied().collect();
    pass.write_region(region, &all, &mut phases);
}

/// The contents of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Accumulator,
    /// An accumulator that threads rescale between MMAs. Threads own it, except while MMAs add to it.
    Scaled,
    /// An operand, in shared memory or in tensor memory.
    Operand {
        shared: bool,
    },
    /// A buffer that TMA stores from.
    Stored,
    /// No buffer: the ping-pong order of two compute roles.
    Turn,
}

/// A buffer id that no buffer has. It represents the ping-pong order in the maps from buffers to pipelines.
fn turn_id(function: &Function) -> Buffer {
    Buffer(function.attrs.program.buffers.len() as u32)
}

/// Upper bound on the stages of all pipelines that this pass adds.
pub(crate) fn stages(function: &Function) -> u32 {
    (buffers_with_pipelines(function).len()
        + recomputed(function).len()
        + stored(function).len()
        + scales(function).len()
        + stored_ahead(function).len()
        + usize::from(ComputeGroups::find(function).is_ok())) as u32
}

/// The buffers of TMA stores that only threads fill, if a store warp can issue the stores: they are ordered only after each
/// other.
pub(crate) fn stored(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let all = body.walk(function.region);
    if !all.iter().any(|op| is_mma(&body.ops[*op].kind)) {
        return BTreeSet::new();
    }
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmaStore { .. }));
    let follows_only_tma_stores = |token: Value| {
        let mut order = Order::new(function);
        order.follow(token);
        !order.lost && order.accesses.iter().all(is_store)
    };
    let (mut stored, mut others): (BTreeSet<Buffer>, BTreeSet<Buffer>) = Default::default();
    let mut can_have_store_warp = true;
    for op in all {
        let kind = &body.ops[op].kind;
        match kind {
            Op::Core(tileas::Op::TmaStore { buffer, token, .. }) => {
                stored.insert(*buffer);
                can_have_store_warp &= token.is_none_or(follows_only_tma_stores);
            }
            // Threads fill the buffer.
            Op::Core(tileas::Op::SharedStore { .. }) => {}
            _ => others.extend(kind.effects().buffers.iter().map(|access| access.buffer)),
        }
    }
    // All stores or none have a store warp: one thread must issue the stores that tokens order.
    if can_have_store_warp && stored.is_disjoint(&others) { stored } else { BTreeSet::new() }
}

/// The accumulators that MMAs of inner loops recompute in each iteration of an outer loop, and that the outer loop loads
/// afterwards. With a second stage, MMAs can compute the next accumulator while threads load the current one.
pub(crate) fn recomputed(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (all, blocks) = (body.walk(function.region), body.op_blocks());
    let of_loop = |op: &OpId| match body.ops[*op].kind.core() {
        Some(Core::For { body: region, .. }) => Some(*region),
        _ => None,
    };
    let loops: Vec<Region> = all.iter().filter_map(of_loop).collect();
    let touches = |op: OpId, buffer: Buffer| body.ops[op].kind.effects().buffers.iter().any(|access| access.buffer == buffer);
    let is_recomputed = |buffer: Buffer| {
        let users: BTreeSet<OpId> = all.iter().copied().filter(|op| touches(*op, buffer)).collect();
        let encloses_users = |region: &&Region| users.is_subset(&body.walk(**region).into_iter().collect());
        let innermost = loops.iter().rfind(encloses_users).map(|region| body.block_of(*region));
        let is_inside = |op: &OpId| blocks[op.0 as usize] != innermost;
        innermost.is_some() && users.iter().filter(|op| is_mma(&body.ops[**op].kind)).all(is_inside)
    };
    let accumulators =
        buffers_with_pipelines(function).into_iter().filter(|(_, kind)| *kind == Kind::Accumulator).map(|(buffer, _)| buffer);
    accumulators.filter(|buffer| is_recomputed(*buffer)).collect()
}

/// The MMA scales that threads store in loops. With a second stage threads can store the next ones while MMAs use the current
/// ones.
pub(crate) fn scales(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let of_mma = |op: OpId| match &body.ops[op].kind {
        Op::Core(tileas::Op::Mma { lhs_scale, rhs_scale, atom: MmaAtom::Tensor(_), .. }) => [*lhs_scale, *rhs_scale],
        _ => [None; 2],
    };
    let found = body.walk(function.region).into_iter().flat_map(of_mma).flatten().filter_map(|place| place.buffer());
    found.collect::<BTreeSet<_>>().into_iter().filter(|buffer| is_in_iterations(function, *buffer)).collect()
}

/// The left operands that threads store to tensor memory in loops, and that are not computed from accumulators. With a second
/// stage, threads can store the next operand while an MMA reads the current one.
pub(crate) fn stored_ahead(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let stored = body.walk(function.region).into_iter().filter_map(|op| match &body.ops[op].kind {
        Op::Core(tileas::Op::TmemStore { x, buffer, .. }) => Some((*buffer, *x)),
        _ => None,
    });
    let stored: Vec<(Buffer, Value)> = stored.collect();
    let buffers_with_pipelines = buffers_with_pipelines(function);
    let is_operand = |buffer: Buffer| buffers_with_pipelines.get(&buffer) == Some(&Kind::Operand { shared: false });
    let is_stored_once = |buffer: Buffer| stored.iter().filter(|(other, _)| *other == buffer).count() == 1;
    let found =
        stored.iter().filter(|(buffer, x)| is_stored_once(*buffer) && is_operand(*buffer) && !comes_from_accumulator(function, *x));
    let scales = scales(function);
    let found = found.map(|(buffer, _)| *buffer).filter(|buffer| !scales.contains(buffer));
    found.filter(|buffer| is_in_iterations(function, *buffer)).collect()
}

/// Returns whether a tile is computed from accumulators in tensor memory.
fn comes_from_accumulator(function: &Function, value: Value) -> bool {
    let body = &function.body;
    let (mut seen, mut work) = (BTreeSet::new(), vec![value]);
    while let Some(value) = work.pop() {
        let Some(op) = body.defining_op(value).filter(|op| seen.insert(*op)) else { continue };
        if matches!(body.ops[op].kind, Op::Core(tileas::Op::TmemLoad { .. })) {
            return true;
        }
        work.extend(body.ops[op].kind.operands());
    }
    false
}

/// Returns whether an op inside a loop or condition accesses a buffer.
pub(crate) fn is_in_iterations(function: &Function, buffer: Buffer) -> bool {
    let body = &function.body;
    let inner = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|at| body.walk(at));
    inner.into_iter().any(|op| body.ops[op].kind.effects().buffers.iter().any(|access| access.buffer == buffer))
}

/// The buffers for which this pass adds a pipeline: buffers of tensor memory MMAs that TMA does not fill, and buffers of TMA
/// stores.
fn buffers_with_pipelines(function: &Function) -> BTreeMap<Buffer, Kind> {
    let (body, attrs) = (&function.body, &function.attrs);
    let ops = body.walk(function.region);
    let by_tma: BTreeSet<Buffer> = ops.iter().filter_map(|op| tma_pipelines::filled(&body.ops[*op].kind)).collect();
    let of_mma = |op: OpId| if is_mma(&body.ops[op].kind) { body.ops[op].kind.effects().buffers } else { Vec::new() };
    let rescaled: BTreeSet<Buffer> = ops.iter().filter_map(|op| rescaled_accumulator(&body.ops[*op].kind)).collect();
    let kind = |access: BufferAccess| match access.access_kind.writes() {
        true if rescaled.contains(&access.buffer) => Kind::Scaled,
        true => Kind::Accumulator,
        false => Kind::Operand { shared: attrs.program.buffers[access.buffer].space == Space::Shared },
    };
    let touched = ops.into_iter().flat_map(of_mma).filter(|access| !by_tma.contains(&access.buffer));
    let stored = stored(function).into_iter().map(|buffer| (buffer, Kind::Stored));
    touched.map(|access| (access.buffer, kind(access))).chain(stored).collect()
}

/// The shared-memory buffers that threads fill with operands of tensor memory MMAs.
pub(crate) fn stored_operands(function: &Function) -> Vec<Buffer> {
    let is_stored = |(_, kind): &(Buffer, Kind)| *kind == Kind::Operand { shared: true };
    buffers_with_pipelines(function).into_iter().filter(is_stored).map(|(buffer, _)| buffer).collect()
}

/// The shared-memory operands of MMAs whose accumulators threads rescale, each with its accumulator. Threads wait for such an MMA
/// only when they access the accumulator again, so the operand buffers stay live until then.
pub(crate) fn read_on(function: &Function) -> Vec<(Buffer, Buffer)> {
    let body = &function.body;
    let buffers_with_pipelines = buffers_with_pipelines(function);
    let accumulators =
        |op: &Op| op.effects().buffers.into_iter().find(|access| buffers_with_pipelines.get(&access.buffer) == Some(&Kind::Scaled));
    let mmas = body.walk(function.region).into_iter().map(|op| &body.ops[op].kind).filter(|kind| is_mma(kind));
    let read = mmas.filter_map(|kind| Some((operands(kind), accumulators(kind)?.buffer)));
    let read = read.flat_map(|(operands, accumulators)| operands.into_iter().flatten().map(move |buffer| (buffer, accumulators)));
    read.filter(|(buffer, _)| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}

/// The buffers that TMA fills before all loops and that tensor memory MMAs read. If no loop iteration runs, the compute roles do
/// not know when the copies complete.
pub(crate) fn brought_once(function: &Function) -> Vec<Buffer> {
    let body = &function.body;
    let read: BTreeSet<Buffer> =
        body.walk(function.region).into_iter().flat_map(|op| operands(&body.ops[op].kind)).flatten().collect();
    let once = body.blocks[function.entry()].ops.iter().filter_map(|op| tma_pipelines::filled(&body.ops[*op].kind));
    once.filter(|buffer| read.contains(buffer)).collect()
}

/// Returns whether a function has tensor memory MMAs.
pub(crate) fn has_mma(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| is_mma(&function.body.ops[*op].kind))
}

/// Returns whether an op is a tensor memory MMA.
pub(crate) fn is_mma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { atom: MmaAtom::Tensor(_), .. }))
}

/// The accumulator that an op rescales.
fn rescaled_accumulator(op: &Op) -> Option<Buffer> {
    match op {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(*buffer),
        _ => None,
    }
}

/// The buffers that a tensor memory MMA reads, or `None` for each operand if the op is no such MMA.
pub(crate) fn operands(op: &Op) -> [Option<Buffer>; 2] {
    match op {
        Op::Core(tileas::Op::Mma { lhs, rhs, atom: MmaAtom::Tensor(_), .. }) => [lhs.buffer(), rhs.buffer()],
        _ => [None; 2],
    }
}

/// The shared-memory buffers that tensor memory MMAs of a block read. An MMA may read them after its op, until it completes.
pub(crate) fn operands_in(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let read = body.blocks[block].ops.iter().flat_map(|op| operands(&body.ops[*op].kind)).flatten();
    read.filter(|buffer| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}

fn add_pipeline(function: &mut Function, buffer: Buffer, kind: Kind) -> Pipeline {
    let attrs = &mut function.attrs;
    let (fill, drain) = match kind {
        Kind::Accumulator => (Fill::Mma, Drain::Threads),
        Kind::Stored => (Fill::Threads, Drain::Threads),
        Kind::Scaled | Kind::Operand { .. } => (Fill::Threads, Drain::Mma),
        Kind::Turn => unreachable!("the ping-pong pipeline has no buffer"),
    };
    let depth = attrs.placements[buffer].depth;
    single_role_pipelines::add(attrs, vec![buffer], depth, fill, drain)
}

/// The current position in the pipeline of each buffer.
type Phases = BTreeMap<Buffer, PipelinePhase>;

/// A stage, if there are several, and its phase.
#[derive(Clone, Copy)]
struct PipelinePhase {
    stage: Option<Value>,
    phase: Value,
}

impl PipelinePhase {
    fn values(self) -> impl Iterator<Item = Value> {
        self.stage.into_iter().chain([self.phase])
    }
    /// The same position with other values, in order.
    fn with(self, mut next: impl FnMut() -> Value) -> PipelinePhase {
        PipelinePhase { stage: self.stage.map(|_| next()), phase: next() }
    }
}

/// A control-flow op that encloses the current ops, and the buffers whose phases its regions forward.
struct PhaseFrame {
    /// Whether the op is a loop.
    repeats: bool,
    carried: Vec<Buffer>,
}

/// Whether an op, including its regions, fills or drains a buffer.
#[derive(Clone, Copy, Default)]
struct BufferUse {
    fills: bool,
    drains: bool,
}

/// Numbers the turns of a buffer; a turn is its fills and the following drains. A new turn starts with the first fill after a
/// drain.
fn turns(uses: &[BTreeMap<Buffer, BufferUse>], buffer: &Buffer) -> Vec<usize> {
    let (mut turn, mut drained) = (0, false);
    let next = |used: &BTreeMap<Buffer, BufferUse>| {
        if let Some(used) = used.get(buffer) {
            turn += usize::from(used.fills && drained);
            drained = used.drains;
        }
        turn
    };
    uses.iter().map(next).collect()
}

struct TmemPipelinePass<'a> {
    body: &'a mut Body<Op, Type>,
    pipelines: BTreeMap<Buffer, (Pipeline, Kind)>,
    alternating_pairs: BTreeMap<OpId, usize>,
    turn: Buffer,
    frames: Vec<PhaseFrame>,
}

impl TmemPipelinePass<'_> {
    /// Writes the pipeline ops of the buffers in `own`. All their fills and drains are in this region.
    fn write_region(&mut self, region: Region, own: &[Buffer], phases: &mut Phases) {
        let block = self.body.block_of(region);
        let ops = std::mem::take(&mut self.body.blocks[block].ops);
        let uses: Vec<BTreeMap<Buffer, BufferUse>> = ops.iter().map(|op| self.uses(*op, own)).collect();
        let turns: BTreeMap<Buffer, Vec<usize>> = own.iter().map(|buffer| (*buffer, turns(&uses, buffer))).collect();
        let only = |at: usize, buffer: &Buffer, fills: bool| {
            uses[at].get(buffer).is_some_and(|used| (used.fills, used.drains) == (fills, !fills))
        };
        let is_in_turn = |at: usize, other: usize, buffer: &Buffer, fills| {
            turns[buffer][at] == turns[buffer][other] && only(other, buffer, fills)
        };
        let is_first = |at, buffer: &Buffer, fills| !(0..at).any(|other| is_in_turn(at, other, buffer, fills));
        let is_last = |at, buffer: &Buffer, fills| !(at + 1..uses.len()).any(|other| is_in_turn(at, other, buffer, fills));
        let is_drained = |at, buffer: &Buffer| (at + 1..uses.len()).any(|other| is_in_turn(at, other, buffer, false));
        let mut out = Vec::with_capacity(ops.len());
        for (at, op) in ops.into_iter().enumerate() {
            let loc = self.body.ops[op].loc;
            let new_step = |pass: &mut Self, kind: Op| pass.body.new_op(kind, [], loc);
            let (mut inner, mut after) = (Vec::new(), Vec::new());
            for (buffer, used) in &uses[at] {
                let ((pipeline, kind), PipelinePhase { stage, phase }) = (self.pipelines[buffer], phases[buffer]);
                if used.fills && used.drains {
                    inner.push(*buffer);
                    continue;
                }
                self.set_stages(op, *buffer, stage);
                if is_first(at, buffer, used.fills) {
                    match used.fills {
                        true => out.push(new_step(self, Op::PipelineAcquire { pipeline, stage, phase })),
                        false if kind != Kind::Accumulator => out.push(new_step(self, Op::PipelineWait { pipeline, stage, phase })),
                        false => {}
                    }
                }
                if !is_last(at, buffer, used.fills) {
                    continue;
                }
                if used.fills {
                    if matches!(kind, Kind::Operand { shared: true } | Kind::Stored) {
                        after.push(new_step(self, Op::AsyncFence {}));
                    }
                    after.push(new_step(self, Op::PipelineCommit { pipeline, stage }));
                    // No op drains this fill: no op reads the accumulator, or no MMA adds to it. The filling side then also waits
                    // and releases, so that its next turn can start.
                    let is_unused = matches!(kind, Kind::Accumulator | Kind::Scaled) && !is_drained(at, buffer);
                    if kind == Kind::Accumulator || is_unused {
                        after.push(new_step(self, Op::PipelineWait { pipeline, stage, phase }));
                    }
                    if is_unused {
                        after.push(new_step(self, Op::PipelineRelease { pipeline, stage }));
                        after.extend(self.advance_position(*buffer, phases));
                    }
                } else {
                    after.push(new_step(self, Op::PipelineRelease { pipeline, stage }));
                    after.extend(self.advance_position(*buffer, phases));
                }
            }
            self.write_inner(op, &inner, phases);
            self.forward_phases(op, phases);
            out.push(op);
            out.extend(after);
        }
        self.body.blocks[block].ops = out;
    }

    /// For each buffer in `own` that the op or its regions access, whether they fill or drain it.
    fn uses(&self, op: OpId, own: &[Buffer]) -> BTreeMap<Buffer, BufferUse> {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
        let mut uses: BTreeMap<Buffer, BufferUse> = BTreeMap::new();
        for op in std::iter::once(op).chain(inner) {
            let kind = &self.body.ops[op].kind;
            if let Some(warp_role) = self.alternating_pairs.get(&op).filter(|_| own.contains(&self.turn)) {
                let used = uses.entry(self.turn).or_default();
                *if *warp_role == 0 { &mut used.fills } else { &mut used.drains } = true;
            }
            for access in kind.effects().buffers.into_iter().filter(|access| own.contains(&access.buffer)) {
                let used = uses.entry(access.buffer).or_default();
                let fills = match self.pipelines[&access.buffer].1 {
                    Kind::Accumulator => is_mma(kind),
                    Kind::Stored => access.access_kind.writes(),
                    Kind::Scaled | Kind::Operand { .. } => !is_mma(kind),
                    Kind::Turn => unreachable!("the ping-pong pipeline has no buffer"),
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

    /// Emits the ops that advance a position. With two stages, the stage index toggles, and the phase toggles when the index wraps
    /// around. With one stage, the phase toggles each time.
    fn advance_position(&mut self, buffer: Buffer, phases: &mut Phases) -> Vec<OpId> {
        let one = self.number(1);
        let PipelinePhase { stage, phase } = phases[&buffer];
        let other = |pass: &mut Self, lhs: Value, rhs: Value| {
            let kind = Op::Core(tileas::Op::Core(Core::Binary { kind: Binary::Xor, lhs, rhs }));
            pass.body.new_op(kind, [i32()], base::Loc::UNKNOWN)
        };
        let phase = other(self, phase, stage.unwrap_or(one));
        let stage = stage.map(|stage| other(self, stage, one));
        let result = |op: OpId| self.body.result(op);
        phases.insert(buffer, PipelinePhase { stage: stage.map(result), phase: result(phase) });
        let one = self.body.defining_op(one).expect("an op defines the constant");
        [one, phase].into_iter().chain(stage).collect()
    }

    fn number(&mut self, value: u64) -> Value {
        let kind = Op::Core(tileas::Op::Core(Core::Constant { value: Dense::Splat(value) }));
        let op = self.body.new_op(kind, [i32()], base::Loc::UNKNOWN);
        self.body.result(op)
    }

    /// Writes the pipeline ops in the regions of an op, for the `inner` buffers, which the op both fills and drains.
    fn write_inner(&mut self, op: OpId, inner: &[Buffer], phases: &mut Phases) {
        if inner.is_empty() && self.frames.iter().all(|frame| frame.carried.is_empty()) {
            return;
        }
        let regions = match self.body.ops[op].kind.core() {
            Some(Core::If { then, otherwise, .. }) => vec![*then, *otherwise],
            Some(Core::For { body, .. } | Core::Loop { body, .. }) => vec![*body],
            _ => return,
        };
        let repeats = regions.len() == 1;
        if let Op::Core(tileas::Op::Core(Core::For { init, .. } | Core::Loop { init, .. })) = &mut self.body.ops[op].kind {
            init.extend(inner.iter().flat_map(|buffer| phases[buffer].values()));
        }
        for region in regions {
            let mut region_phases = phases.clone();
            if repeats {
                let block = self.body.block_of(region);
                for buffer in inner {
                    region_phases.insert(*buffer, phases[buffer].with(|| self.body.add_argument(block, i32())));
                }
            }
            self.frames.push(PhaseFrame { repeats, carried: inner.to_vec() });
            self.write_region(region, inner, &mut region_phases);
            self.frames.pop();
        }
        for buffer in inner {
            let result = || {
                let index = self.body.ops[op].results.len() as u32;
                let result = self.body.values.push(ValueNode { ty: i32(), def: Def::Result { op, index } });
                self.body.ops[op].results.push(result);
                result
            };
            let position = phases[buffer].with(result);
            phases.insert(*buffer, position);
        }
    }

    /// Appends the current phases to the values that a terminator forwards.
    fn forward_phases(&mut self, op: OpId, phases: &Phases) {
        let repeats = match self.body.ops[op].kind.core() {
            Some(Core::Yield { .. }) => false,
            Some(Core::Continue { .. } | Core::Break { .. }) => true,
            _ => return,
        };
        let Some(frame) = self.frames.iter().rev().find(|frame| frame.repeats == repeats) else { return };
        let forwarded = frame.carried.iter().flat_map(|buffer| phases[buffer].values());
        if let Op::Core(tileas::Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values })) =
            &mut self.body.ops[op].kind
        {
            values.extend(forwarded);
        }
    }
}

fn i32() -> Type {
    Type::Scalar(Elem::Scalar(Scalar::I32))
}
