//! The pipelines between threads and mmas in tensor memory: mmas fill those of their accumulators, which threads drain, and drain
//! those of operands that threads store.
//!
//! Accumulator that threads scale between mmas are filled by those threads, and drained by the mmas that add to them. What threads
//! put where the copy engine stores it from goes through such a pipeline too, so that they need not wait until it has been read.
//!
//! Where two warp_roles compute that need the same units, another such pipeline says whose turn it is: one fills it by what it does with
//! them, and the other one drains it by the same.
//!
//! Before the first op of a block of ops that fills such a buffer it is acquired, and behind the last it is committed. Accumulator are waited
//! for at once, so that everything their mmas have read is free from there on; operands before the first op that reads them.
//! Behind the last op that drains a buffer it is released, and may be filled again. Where that happens again and again the phase
//! goes iteration with the loops, and where it happens under a condition, out of both branches; so does the stage, where a buffer has two.
//!
//! Requires: loops as they will be. Establishes: the steps of these pipelines, so that what mmas in tensor memory touch needs no
//! barriers.

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

/// `alternating_pairs` are the ops during which one of two warp_roles that compute has the special functions to itself, and the number of each
/// one's warp_role.
pub(crate) fn run(function: &mut Function, alternating_pairs: BTreeMap<OpId, usize>) {
    let buffers = in_pipeline(function);
    if buffers.is_empty() {
        return;
    }
    let mut pipelines: BTreeMap<Buffer, (Pipeline, Kind)> =
        buffers.into_iter().map(|(buffer, kind)| (buffer, (pipeline(function, buffer, kind), kind))).collect();
    if !alternating_pairs.is_empty() {
        let pipeline = single_role_pipelines::add(&mut function.attrs, Vec::new(), 1, Fill::Threads, Drain::Warps);
        pipelines.insert(turn(function), (pipeline, Kind::Turn));
    }
    let (region, turn) = (function.region, turn(function));
    let mut pass = TmemPipelinePass { body: &mut function.body, pipelines, alternating_pairs, turn, frames: Vec::new() };
    let entry = pass.body.block_of(region);
    let zero = pass.number(0);
    let first = pass.body.defining_op(zero).expect("a constant is made by an op");
    pass.body.blocks[entry].ops.insert(0, first);
    let stage = |buffer: &Buffer| function.attrs.placements.get(*buffer).filter(|place| place.depth > 1).map(|_| zero);
    let mut phases: Phases =
        pass.pipelines.keys().map(|buffer| (*buffer, PipelinePhase { stage: stage(buffer), phase: zero })).collect();
    let all: Vec<Buffer> = phases.keys().copied().collect();
    pass.region(region, &all, &mut phases);
}

/// What goes through a pipeline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Accumulator,
    /// Accumulator that threads scale between mmas: theirs, but while mmas add to them.
    Scaled,
    /// An operand, and whether it is in shared memory.
    Operand {
        shared: bool,
    },
    /// What the copy engine stores.
    Stored,
    /// No buffer: whose turn it is.
    Turn,
}

/// What stands for the turns of warp_roles where others are buffers.
fn turn(function: &Function) -> Buffer {
    Buffer(function.attrs.program.buffers.len() as u32)
}

/// Slots that such pipelines may have together.
pub(crate) fn stages(function: &Function) -> u32 {
    (in_pipeline(function).len()
        + recomputed(function).len()
        + stored(function).len()
        + scales(function).len()
        + stored_ahead(function).len()
        + usize::from(ComputeGroups::find(function).is_ok())) as u32
}

/// The buffers that tma_copies store from and that nothing but threads fills, where an warp_role of its own can ask for the tma_copies: what it
/// stores is ordered after nothing else, and no condition decides about it.
pub(crate) fn stored(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let all = body.walk(function.region);
    if !all.iter().any(|op| is_mma(&body.ops[*op].kind)) {
        return BTreeSet::new();
    }
    let in_conditions = |op: &OpId| matches!(body.ops[*op].kind.core(), Some(Core::If { .. } | Core::Loop { .. }));
    let conditional: BTreeSet<OpId> = all
        .iter()
        .filter(|op| in_conditions(op))
        .flat_map(|op| body.ops[*op].kind.regions())
        .flat_map(|at| body.walk(at))
        .collect();
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmaStore { .. }));
    let is_first = |token: Value| {
        let mut order = Order::new(function);
        order.follow(token);
        !order.lost && order.accesses.iter().all(is_store)
    };
    let (mut stored, mut others): (BTreeSet<Buffer>, BTreeSet<Buffer>) = Default::default();
    let mut alone = true;
    for op in all {
        let kind = &body.ops[op].kind;
        match kind {
            Op::Core(tileas::Op::TmaStore { buffer, token, .. }) => {
                stored.insert(*buffer);
                alone &= !conditional.contains(&op) && token.is_none_or(is_first);
            }
            // Threads fill it.
            Op::Core(tileas::Op::SharedStore { .. }) if !conditional.contains(&op) => {}
            _ => others.extend(kind.effects().buffers.iter().map(|access| access.buffer)),
        }
    }
    // All or none, since one thread has to ask for those that are ordered.
    if alone && stored.is_disjoint(&others) { stored } else { BTreeSet::new() }
}

/// Accumulator that a loop makes again and again by mmas in loops inside it, and takes up behind those: in another place than the accumulators
/// before they can be made while threads take up those.
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
        let around = |region: &&Region| users.is_subset(&body.walk(**region).into_iter().collect());
        let innermost = loops.iter().rfind(around).map(|region| body.block_of(*region));
        let is_inside = |op: &OpId| blocks[op.0 as usize] != innermost;
        innermost.is_some() && users.iter().filter(|op| is_mma(&body.ops[**op].kind)).all(is_inside)
    };
    let accumulators = in_pipeline(function).into_iter().filter(|(_, kind)| *kind == Kind::Accumulator).map(|(buffer, _)| buffer);
    accumulators.filter(|buffer| is_recomputed(*buffer)).collect()
}

/// Scales that threads store again and again: in another place than those before they can do so while mmas use these.
pub(crate) fn scales(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let of_mma = |op: OpId| match &body.ops[op].kind {
        Op::Core(tileas::Op::Mma { lhs_scale, rhs_scale, atom: MmaAtom::Tensor(_), .. }) => [*lhs_scale, *rhs_scale],
        _ => [None; 2],
    };
    let found = body.walk(function.region).into_iter().flat_map(of_mma).flatten().filter_map(|place| place.buffer());
    found.collect::<BTreeSet<_>>().into_iter().filter(|buffer| is_in_iterations(function, *buffer)).collect()
}

/// Left operands that threads store to tensor memory again and again and that no mma comes before: in another place than those
/// before they can do so while a mma reads these.
pub(crate) fn stored_ahead(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let stored = body.walk(function.region).into_iter().filter_map(|op| match &body.ops[op].kind {
        Op::Core(tileas::Op::TmemStore { x, buffer, .. }) => Some((*buffer, *x)),
        _ => None,
    });
    let stored: Vec<(Buffer, Value)> = stored.collect();
    let in_pipeline = in_pipeline(function);
    let is_operand = |buffer: Buffer| in_pipeline.get(&buffer) == Some(&Kind::Operand { shared: false });
    let alone = |buffer: Buffer| stored.iter().filter(|(other, _)| *other == buffer).count() == 1;
    let found = stored.iter().filter(|(buffer, x)| alone(*buffer) && is_operand(*buffer) && !comes_from_accumulator(function, *x));
    let scales = scales(function);
    let found = found.map(|(buffer, _)| *buffer).filter(|buffer| !scales.contains(buffer));
    found.filter(|buffer| is_in_iterations(function, *buffer)).collect()
}

/// Whether a tile is computed from accumulators in tensor memory.
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

/// Whether a buffer is touched again and again.
pub(crate) fn is_in_iterations(function: &Function, buffer: Buffer) -> bool {
    let body = &function.body;
    let inner = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|at| body.walk(at));
    inner.into_iter().any(|op| body.ops[op].kind.effects().buffers.iter().any(|access| access.buffer == buffer))
}

/// The buffers that mmas in tensor memory touch, but for those that the copy engine fills.
fn in_pipeline(function: &Function) -> BTreeMap<Buffer, Kind> {
    let (body, attrs) = (&function.body, &function.attrs);
    let ops = body.walk(function.region);
    let by_tma: BTreeSet<Buffer> = ops.iter().filter_map(|op| tma_pipelines::filled(&body.ops[*op].kind)).collect();
    let of_mma = |op: OpId| if is_mma(&body.ops[op].kind) { body.ops[op].kind.effects().buffers } else { Vec::new() };
    let scaled: BTreeSet<Buffer> = ops.iter().filter_map(|op| scaled(&body.ops[*op].kind)).collect();
    let kind = |access: BufferAccess| match access.access_kind.writes() {
        true if scaled.contains(&access.buffer) => Kind::Scaled,
        true => Kind::Accumulator,
        false => Kind::Operand { shared: attrs.program.buffers[access.buffer].space == Space::Shared },
    };
    let touched = ops.into_iter().flat_map(of_mma).filter(|access| !by_tma.contains(&access.buffer));
    let stored = stored(function).into_iter().map(|buffer| (buffer, Kind::Stored));
    touched.map(|access| (access.buffer, kind(access))).chain(stored).collect()
}

/// The buffers of shared memory that threads fill with operands of mmas in tensor memory.
pub(crate) fn stored_operands(function: &Function) -> Vec<Buffer> {
    let is_stored = |(_, kind): &(Buffer, Kind)| *kind == Kind::Operand { shared: true };
    in_pipeline(function).into_iter().filter(is_stored).map(|(buffer, _)| buffer).collect()
}

/// The buffers of shared memory that mmas read, each with the accumulators that they add to, where threads scale those: such mmas are
/// waited for when their accumulators are touched again, and read on until then.
pub(crate) fn read_on(function: &Function) -> Vec<(Buffer, Buffer)> {
    let body = &function.body;
    let in_pipeline = in_pipeline(function);
    let accumulators =
        |op: &Op| op.effects().buffers.into_iter().find(|access| in_pipeline.get(&access.buffer) == Some(&Kind::Scaled));
    let mmas = body.walk(function.region).into_iter().map(|op| &body.ops[op].kind).filter(|kind| is_mma(kind));
    let read = mmas.filter_map(|kind| Some((operands(kind), accumulators(kind)?.buffer)));
    let read = read.flat_map(|(operands, accumulators)| operands.into_iter().flatten().map(move |buffer| (buffer, accumulators)));
    read.filter(|(buffer, _)| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}

/// The buffers that tma_copies fill before all loops with operands of mmas in tensor memory: where no loop runs, those who compute do
/// not know when they come.
pub(crate) fn brought_once(function: &Function) -> Vec<Buffer> {
    let body = &function.body;
    let read: BTreeSet<Buffer> =
        body.walk(function.region).into_iter().flat_map(|op| operands(&body.ops[op].kind)).flatten().collect();
    let once = body.blocks[function.entry()].ops.iter().filter_map(|op| tma_pipelines::filled(&body.ops[*op].kind));
    once.filter(|buffer| read.contains(buffer)).collect()
}

/// Whether a function makes mmas into tensor memory.
pub(crate) fn has_mma(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| is_mma(&function.body.ops[*op].kind))
}

/// Whether an op is a mma in tensor memory.
pub(crate) fn is_mma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { atom: MmaAtom::Tensor(_), .. }))
}

/// The accumulators that threads scale by an op.
fn scaled(op: &Op) -> Option<Buffer> {
    match op {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(*buffer),
        _ => None,
    }
}

/// The buffers that a mma in tensor memory reads.
pub(crate) fn operands(op: &Op) -> [Option<Buffer>; 2] {
    match op {
        Op::Core(tileas::Op::Mma { lhs, rhs, atom: MmaAtom::Tensor(_), .. }) => [lhs.buffer(), rhs.buffer()],
        _ => [None; 2],
    }
}

/// The buffers of shared memory that mmas in tensor memory read in a block of ops. They do so after the op, too.
pub(crate) fn operands_in(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let read = body.blocks[block].ops.iter().flat_map(|op| operands(&body.ops[*op].kind)).flatten();
    read.filter(|buffer| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}

fn pipeline(function: &mut Function, buffer: Buffer, kind: Kind) -> Pipeline {
    let attrs = &mut function.attrs;
    let (fill, drain) = match kind {
        Kind::Accumulator => (Fill::Mma, Drain::Threads),
        Kind::Stored => (Fill::Threads, Drain::Threads),
        Kind::Scaled | Kind::Operand { .. } => (Fill::Threads, Drain::Mma),
        Kind::Turn => unreachable!("it is no buffer's"),
    };
    let depth = attrs.placements[buffer].depth;
    single_role_pipelines::add(attrs, vec![buffer], depth, fill, drain)
}

/// The place in each of the pipelines.
type Phases = BTreeMap<Buffer, PipelinePhase>;

/// A stage, where there are several, and its phase.
#[derive(Clone, Copy)]
struct PipelinePhase {
    stage: Option<Value>,
    phase: Value,
}

impl PipelinePhase {
    fn values(self) -> impl Iterator<Item = Value> {
        self.stage.into_iter().chain([self.phase])
    }
    /// The same lane with other values, in that order.
    fn with(self, mut next: impl FnMut() -> Value) -> PipelinePhase {
        PipelinePhase { stage: self.stage.map(|_| next()), phase: next() }
    }
}

/// A construct that ops inside leave, and the phases that they hand on.
struct PhaseFrame {
    repeats: bool,
    carried: Vec<Buffer>,
}

/// What an op, with all inside it, does with a buffer.
#[derive(Clone, Copy, Default)]
struct BufferUse {
    fills: bool,
    drains: bool,
}

/// In which turn of filling and draining a buffer each op stands: a new one begins where it is filled after it was drained.
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
    /// Writes the steps of the pipelines of `own` buffers, which are filled and drained in the region and not around it.
    fn region(&mut self, region: Region, own: &[Buffer], phases: &mut Phases) {
        let block = self.body.block_of(region);
        let ops = std::mem::take(&mut self.body.blocks[block].ops);
        let uses: Vec<BTreeMap<Buffer, BufferUse>> = ops.iter().map(|op| self.uses(*op, own)).collect();
        let turns: BTreeMap<Buffer, Vec<usize>> = own.iter().map(|buffer| (*buffer, turns(&uses, buffer))).collect();
        let access_kind = |at: usize, buffer: &Buffer, fills: bool| {
            uses[at].get(buffer).is_some_and(|it| (it.fills, it.drains) == (fills, !fills))
        };
        let same = |at: usize, other: usize, buffer: &Buffer, fills| {
            turns[buffer][at] == turns[buffer][other] && access_kind(other, buffer, fills)
        };
        let is_first = |at, buffer: &Buffer, fills| !(0..at).any(|other| same(at, other, buffer, fills));
        let is_last = |at, buffer: &Buffer, fills| !(at + 1..uses.len()).any(|other| same(at, other, buffer, fills));
        let is_drained = |at, buffer: &Buffer| (at + 1..uses.len()).any(|other| same(at, other, buffer, false));
        let mut out = Vec::with_capacity(ops.len());
        for (at, op) in ops.into_iter().enumerate() {
            let loc = self.body.ops[op].loc;
            let step = |pass: &mut Self, kind: Op| pass.body.new_op(kind, [], loc);
            let (mut inner, mut behind) = (Vec::new(), Vec::new());
            for (buffer, used) in &uses[at] {
                let ((pipeline, kind), PipelinePhase { stage, phase }) = (self.pipelines[buffer], phases[buffer]);
                if used.fills && used.drains {
                    inner.push(*buffer);
                    continue;
                }
                self.set_stages(op, *buffer, stage);
                if is_first(at, buffer, used.fills) {
                    match used.fills {
                        true => out.push(step(self, Op::PipelineAcquire { pipeline, stage, phase })),
                        false if kind != Kind::Accumulator => out.push(step(self, Op::PipelineWait { pipeline, stage, phase })),
                        false => {}
                    }
                }
                if !is_last(at, buffer, used.fills) {
                    continue;
                }
                if used.fills {
                    if matches!(kind, Kind::Operand { shared: true } | Kind::Stored) {
                        behind.push(step(self, Op::AsyncFence {}));
                    }
                    behind.push(step(self, Op::PipelineCommit { pipeline, stage }));
                    // Accumulator that nothing reads, or nothing added to what threads have here: the next turn is the same side's again.
                    let again = matches!(kind, Kind::Accumulator | Kind::Scaled) && !is_drained(at, buffer);
                    if kind == Kind::Accumulator || again {
                        behind.push(step(self, Op::PipelineWait { pipeline, stage, phase }));
                    }
                    if again {
                        behind.push(step(self, Op::PipelineRelease { pipeline, stage }));
                        behind.extend(self.flip(*buffer, phases));
                    }
                } else {
                    behind.push(step(self, Op::PipelineRelease { pipeline, stage }));
                    behind.extend(self.flip(*buffer, phases));
                }
            }
            self.inside(op, &inner, phases);
            self.leave(op, phases);
            out.push(op);
            out.extend(behind);
        }
        self.body.blocks[block].ops = out;
    }

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
                    Kind::Turn => unreachable!("it is no buffer's"),
                };
                *if fills { &mut used.fills } else { &mut used.drains } = true;
            }
        }
        uses
    }

    /// Gives the accesses of an op, with all inside it, to a buffer its stage.
    fn set_stages(&mut self, op: OpId, buffer: Buffer, stage: Option<Value>) {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
        for op in std::iter::once(op).chain(inner).collect::<Vec<_>>() {
            let Op::Core(program) = &mut self.body.ops[op].kind else { continue };
            for (_, place) in program.stages_mut().into_iter().filter(|(other, _)| *other == buffer) {
                *place = stage;
            }
        }
    }

    /// The ops that make the place that follows: of two stages the other one, and behind the second one the other phase.
    fn flip(&mut self, buffer: Buffer, phases: &mut Phases) -> Vec<OpId> {
        let one = self.number(1);
        let PipelinePhase { stage, phase } = phases[&buffer];
        let other = |pass: &mut Self, lhs: Value, rhs: Value| {
            let kind = Op::Core(tileas::Op::Core(Core::Binary { kind: Binary::Xor, lhs, rhs }));
            pass.body.new_op(kind, [i32()], base::Loc::UNKNOWN)
        };
        let phase = other(self, phase, stage.unwrap_or(one));
        let stage = stage.map(|stage| other(self, stage, one));
        let made = |op: OpId| self.body.result(op);
        phases.insert(buffer, PipelinePhase { stage: stage.map(made), phase: made(phase) });
        let one = self.body.defining_op(one).expect("a constant is made by an op");
        [one, phase].into_iter().chain(stage).collect()
    }

    fn number(&mut self, value: u64) -> Value {
        let kind = Op::Core(tileas::Op::Core(Core::Constant { value: Dense::Splat(value) }));
        let op = self.body.new_op(kind, [i32()], base::Loc::UNKNOWN);
        self.body.result(op)
    }

    /// The regions of an op, in which the accumulators in `inner` are made and read.
    fn inside(&mut self, op: OpId, inner: &[Buffer], phases: &mut Phases) {
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
            let mut own = phases.clone();
            if repeats {
                let block = self.body.block_of(region);
                for buffer in inner {
                    own.insert(*buffer, phases[buffer].with(|| self.body.add_argument(block, i32())));
                }
            }
            self.frames.push(PhaseFrame { repeats, carried: inner.to_vec() });
            self.region(region, inner, &mut own);
            self.frames.pop();
        }
        for buffer in inner {
            let result = || {
                let index = self.body.ops[op].results.len() as u32;
                let result = self.body.values.push(ValueNode { ty: i32(), def: Def::Result { op, index } });
                self.body.ops[op].results.push(result);
                result
            };
            let lane = phases[buffer].with(result);
            phases.insert(*buffer, lane);
        }
    }

    /// What leaves a construct hands on the phases as they are then.
    fn leave(&mut self, op: OpId, phases: &Phases) {
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
