//! Executes `.as` (TileAS) and `.sched` programs thread by thread: every thread executes each op on its own registers.
//!
//! A distributed tile is the flat list of its slots ([`distribution`]), so a wrong layout gives a wrong result. An op that would
//! need another thread's registers is an error. Threads run in lockstep, one op at a time. This hides no race: after barrier
//! placement, [`shared`] and [`hazards`] record which warp touched each byte since the last barrier. They reject accesses that only
//! a missing barrier could order.

mod access_runs;
mod copies;
mod core;
mod distribution;
mod global;
mod hazards;
mod in_flight;
mod mma;
mod pipelines;
mod reduce;
mod reduction_plans;
mod rename;
mod shared;

pub(crate) use hazards::Hazards;
pub(crate) use pipelines::{BarrierSide, PipelineConfig, RemoteArrival};
pub(crate) use shared::{BufferPlacement, COLUMN, separate_placements, stage_bytes};

use crate::check::stride_assumptions;
use crate::exec::{Control, Env, Program, Results};
use crate::exec_core;
use crate::tile::Tile;
use crate::value::Value;
use access_runs::AccessRuns;
use base::diag::{Diagnostic, Result};
use base::{Arena, Body, DebugInfo, Op as OpId, Region, Value as Id};
use core_dialect::core_ops::Core;
use core_dialect::rules::MiddleOp;
use core_dialect::tile::{Elem, Shape};
use distribution::Distribution;
use reduction_plans::{Exchange, Groups, Lines};
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tileas::effects::{AccessKind, BufferAccess, Effects, GlobalAccess};
use tileas::{FunctionAttrs, Layout, LayoutId, Op, Type};

/// An op of `.as`, or of `.sched`, which extends it. `step` classifies the op for this interpreter.
pub(crate) trait Step: MiddleOp + Sync {
    fn step(&self) -> StepKind<'_>;
}

pub(crate) enum StepKind<'a> {
    Program(&'a Op),
    Barrier {
        threads: u32,
    },
    /// Commits the open copy group.
    CommitCopies,
    /// Waits until at most `pending` copy groups are in flight.
    WaitForCopies {
        pending: u32,
    },
    WaitForMmas {
        pending: u32,
    },
    Fence,
    /// An op that only affects the hardware.
    Nothing,
    /// The body of a warp role.
    WarpRole {
        number: usize,
        body: Region,
    },
    /// Waits until a stage is filled or free: until the phase of this parity is complete at its barrier.
    WaitForPipeline {
        pipeline: usize,
        stage: Option<Id>,
        side: BarrierSide,
        phase: Id,
    },
    ArriveAtPipeline {
        pipeline: usize,
        stage: Option<Id>,
        side: BarrierSide,
    },
}

/// A warp role: the warps that run its body.
pub(crate) struct WarpRole {
    pub(crate) name: String,
    pub(crate) first_warp: usize,
    pub(crate) warps: usize,
}

impl Step for Op {
    fn step(&self) -> StepKind<'_> {
        StepKind::Program(self)
    }
}

/// Precomputed data for an op.
enum Plan {
    None,
    Computed(Tile),
    /// For each slot of the result, the operand slot that it reads.
    Slots(Vec<u32>),
    Groups(Groups),
    Exchange(Exchange),
    Lines(Lines),
    Tma(Tma),
}

/// Precomputed order in which a TMA op visits a tile.
struct Tma {
    /// The thread that acts for each element: a lane of the issuing warp.
    distribution: Distribution,
    /// The elements of the distribution in the order of the buffer's bytes.
    by_place: Vec<u32>,
}

/// A function of either format, with its memory layout.
pub(crate) struct Source<'a, O> {
    pub(crate) body: &'a Body<O, Type>,
    pub(crate) region: Region,
    pub(crate) attrs: &'a FunctionAttrs,
    pub(crate) layouts: &'a Arena<LayoutId, Layout>,
    pub(crate) debug: &'a DebugInfo,
    /// The placement of each buffer.
    pub(crate) placements: Vec<BufferPlacement>,
    /// Whether only barriers order the threads, so that the hazard checker is active.
    pub(crate) races: bool,
    /// Empty if all warps run the same code.
    pub(crate) warp_roles: Vec<WarpRole>,
    pub(crate) pipelines: Vec<PipelineConfig>,
}

/// Maps each value to the warp role that computes it. Values outside all roles map to the number of roles.
fn computed_by<O: Step>(source: &Source<'_, O>) -> Vec<usize> {
    let body = source.body;
    let mut computed = vec![source.warp_roles.len(); body.values.len()];
    for op in body.walk(source.region) {
        let StepKind::WarpRole { number, body: region } = body.ops[op].kind.step() else { continue };
        for inner in body.walk(region) {
            body.ops[inner].results.iter().for_each(|value| computed[value.0 as usize] = number);
            for region in body.ops[inner].kind.regions() {
                body.blocks[body.block_of(region)].args.iter().for_each(|value| computed[value.0 as usize] = number);
            }
        }
    }
    computed
}

pub(crate) fn source<'a>(module: &'a tileas::Module, function: &'a tileas::Function, debug: &'a DebugInfo) -> Source<'a, Op> {
    Source {
        body: &function.body,
        region: function.region,
        attrs: &function.attrs,
        layouts: &module.layouts,
        debug,
        placements: separate_placements(function.attrs.buffers.values()),
        races: false,
        warp_roles: Vec::new(),
        pipelines: Vec::new(),
    }
}

pub(crate) struct DistributedProgram<'a, O> {
    source: Source<'a, O>,
    distributions: Vec<Option<Arc<Distribution>>>,
    /// The layouts of scalars, which every thread holds: one per warp role, then one for code outside roles.
    uniform: Vec<Arc<Distribution>>,
    /// Maps each value to the warp role that computes it, or to the number of roles.
    computed_by: Vec<usize>,
    plans: Vec<Plan>,
    /// The coalesced buffer accesses of each op, set by its first execution. An MMA has one per operand and one, the last, for its
    /// accumulator.
    access_runs: Vec<[OnceLock<AccessRuns>; 4]>,
    /// The `assume` ops whose results only strides of tensor views use.
    stride_assumes: BTreeSet<OpId>,
    /// The offset of every element of each buffer.
    offsets: Vec<Vec<u32>>,
    globals: BTreeMap<String, u64>,
}

/// Limit on the warps per CTA.
const MAX_WARPS: usize = 32;

impl<'a, O: Step> DistributedProgram<'a, O> {
    pub(crate) fn new(source: Source<'a, O>, globals: BTreeMap<String, u64>) -> Result<Self> {
        let warps = source.attrs.warps as usize;
        if !(1..=MAX_WARPS).contains(&warps) {
            return Err(Diagnostic::unsupported("RUN070", format!("a CTA of {warps} warps")));
        }
        let uniform = |warps: usize| {
            let bits = warps.checked_ilog2().unwrap_or(0) as usize;
            Distribution::new(&Layout::uniform(bits), 0, 1 << bits)
                .map(Arc::new)
                .map_err(|message| Diagnostic::invalid("RUN071", message))
        };
        let most = source.warp_roles.iter().map(|warp_role| warp_role.warps).max().unwrap_or(warps);
        let all = source.warp_roles.iter().map(|warp_role| warp_role.warps).chain([most]);
        let uniform = all.map(uniform).collect::<Result<Vec<_>>>()?;
        let computed_by = computed_by(&source);
        let offsets = source.attrs.buffers.values().map(shared::offsets).collect::<Result<_>>()?;
        let stride_assumes = stride_assumptions::assumptions(source.body, core::stride_use);
        let mut program = DistributedProgram {
            distributions: Vec::new(),
            uniform,
            computed_by,
            plans: Vec::new(),
            access_runs: Vec::new(),
            stride_assumes,
            offsets,
            globals,
            source,
        };
        program.expand_layouts()?;
        let mut plans: Vec<Plan> = program.source.body.ops.ids().map(|_| Plan::None).collect();
        for op in program.source.body.walk(program.source.region) {
            let node = &program.source.body.ops[op];
            let plan =
                program.plan(op).map_err(|message| program.invalid_op(op, message).at_loc(program.source.debug, node.loc))?;
            plans[op.0 as usize] = plan;
        }
        program.access_runs = plans.iter().map(|_| Default::default()).collect();
        program.plans = plans;
        Ok(program)
    }

    /// Expands the layouts of the function's values.
    fn expand_layouts(&mut self) -> Result<()> {
        let source = &self.source;
        let mut distributions: Vec<Option<Arc<Distribution>>> = vec![None; source.layouts.len()];
        for (value, node) in source.body.values.iter() {
            let Some(layout) = node.ty.layout() else { continue };
            let bits = node.ty.shape().iter().map(|extent| extent.trailing_zeros()).sum();
            let place = &mut distributions[layout.0 as usize];
            if place.is_none() {
                let distribution = Distribution::new(&source.layouts[layout], bits, source.layouts[layout].warps());
                *place = Some(Arc::new(
                    distribution.map_err(|message| Diagnostic::unsupported("RUN071", format!("{value}: {message}")))?,
                ));
            }
        }
        for op in source.body.walk(source.region) {
            // A copied tile is not an SSA value, but its layout still assigns elements to threads.
            let StepKind::Program(Op::CopyView { buffer, layout, .. }) = source.body.ops[op].kind.step() else { continue };
            let (Some(info), Some(place)) = (source.attrs.buffers.get(*buffer), distributions.get_mut(layout.0 as usize)) else {
                return Err(self.invalid_op(op, "names an undefined buffer or layout"));
            };
            let distribution =
                Distribution::new(&source.layouts[*layout], info.offsets.len() as u32, source.layouts[*layout].warps());
            *place = Some(Arc::new(distribution.map_err(|message| self.invalid_op(op, message))?));
        }
        self.distributions = distributions;
        Ok(())
    }

    fn invalid_op(&self, op: OpId, message: impl std::fmt::Display) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::invalid("RUN072", format!("'{name}' {message}"))
    }
    fn unsupported(&self, op: OpId, what: &str) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::unsupported("RUN073", format!("'{name}' {what} is not supported"))
    }

    fn ty(&self, id: Id) -> &Type {
        self.source.body.ty(id)
    }
    fn result(&self, op: OpId) -> Id {
        self.source.body.result(op)
    }
    fn elem(&self, id: Id) -> Elem {
        self.ty(id).elem().expect("a scalar or tile")
    }
    fn shape(&self, id: Id) -> Shape {
        Shape::from_slice(self.ty(id).shape())
    }
    /// Returns the distribution of a value over threads.
    fn distribution(&self, id: Id) -> &Arc<Distribution> {
        match self.ty(id).layout() {
            Some(layout) => self.distributions[layout.0 as usize].as_ref().expect("written out for every value"),
            None => &self.uniform[self.computed_by[id.0 as usize]],
        }
    }
    fn is_scalar(&self, id: Id) -> bool {
        self.ty(id).layout().is_none()
    }

    /// Returns the slots of a value. A scalar is replicated to every thread.
    fn slots(&self, id: Id, env: &Env<'_>) -> Tile {
        let tile = env.tile(id);
        if self.is_scalar(id) { Tile::splat(self.distribution(id).shape(), tile.elem, tile.first()) } else { tile.clone() }
    }

    /// Returns the slots of a value. A scalar is replicated to the slots of `like`.
    fn registers_like(&self, id: Id, like: Id, env: &Env<'_>) -> Tile {
        if !self.is_scalar(id) {
            return self.slots(id, env);
        }
        let tile = env.tile(id);
        Tile::splat(self.distribution(like).shape(), tile.elem, tile.first())
    }

    /// Gathers a value into one tile. All threads that hold an element must agree on it.
    fn gathered(&self, id: Id, env: &Env<'_>) -> Result<Tile> {
        let tile = env.tile(id);
        if self.is_scalar(id) {
            return Ok(tile.clone());
        }
        let gathered = self.distribution(id).gather(tile, self.shape(id));
        gathered
            .map_err(|element| Diagnostic::invalid("RUN074", format!("threads hold different values of element {element} of {id}")))
    }

    /// Distributes a gathered tile to slots.
    fn distribute(&self, id: Id, gathered: &Tile) -> Tile {
        if self.is_scalar(id) {
            gathered.with_shape(Shape::new())
        } else {
            self.distribution(id).scatter(gathered.lanes(), gathered.elem)
        }
    }

    /// Converts slots to the value of an op's result. All threads must hold the same value of a scalar, which keeps one element.
    fn value_from_slots(&self, id: Id, slots: Tile) -> Result<Tile> {
        let distribution = self.distribution(id);
        if self.is_scalar(id) {
            let first = slots.first();
            return match slots.lanes().iter().all(|bits| bits == first) {
                true => Ok(Tile::scalar(slots.elem, first)),
                false => Err(Diagnostic::invalid("RUN074", format!("threads hold different values of {id}"))),
            };
        }
        match slots.count() {
            count if count == distribution.slots() => Ok(slots),
            1 => Ok(Tile::splat(distribution.shape(), slots.elem, slots.first())),
            count => Err(Diagnostic::invalid("RUN072", format!("{id} has {count} registers instead of {}", distribution.slots()))),
        }
    }

    fn single_result(&self, op: OpId, slots: Tile) -> Result<Results> {
        Ok(smallvec![Value::Tile(self.value_from_slots(self.result(op), slots)?)])
    }

    fn plan(&self, op: OpId) -> Result<Plan, String> {
        let node = &self.source.body.ops[op];
        let StepKind::Program(kind) = node.kind.step() else { return Ok(Plan::None) };
        match kind {
            Op::Core(core) => self.plan_core(op, core),
            Op::Coordinate { dim } => Ok(Plan::Computed(self.coordinates(self.result(op), *dim))),
            Op::ConvertLayout { x, route } => self.plan_rename(*x, self.result(op), *route, |element| element),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.plan_reduce(op, kind),
            Op::Mma { .. } => self.check_mma(kind).map(|()| Plan::None),
            Op::TmaLoad { buffer, .. } | Op::TmaStore { buffer, .. } => self.plan_tma(*buffer).map(Plan::Tma),
            _ => Ok(Plan::None),
        }
    }

    fn program_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::Core(core) => self.core(op, core, env),
            Op::Coordinate { .. } => match &self.plans[op.0 as usize] {
                Plan::Computed(tile) => Ok(smallvec![Value::Tile(tile.clone())]),
                _ => unreachable!("planned in advance"),
            },
            Op::ConvertLayout { x, .. } => self.rename(op, *x, env),
            Op::LoadView { .. } | Op::StoreView { .. } => self.view_access(op, kind, env),
            Op::CopyView { .. } => self.copy_view(op, kind, env),
            Op::TmaLoad { .. } => self.tma_load(op, kind, env),
            Op::TmaStore { .. } => self.tma_store(op, kind, env),
            Op::Copy { .. } => self.copy_pointers(op, kind, env),
            Op::Load { .. } | Op::Store { .. } => self.pointer_access(op, kind, env),
            Op::ReduceView { .. } | Op::AtomicRmw { .. } | Op::AtomicCas { .. } => self.atomic(op, kind, env),
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => self.multicast(op, kind, env),
            Op::SharedStore { .. }
            | Op::SharedLoad { .. }
            | Op::SharedGather { .. }
            | Op::SharedScatter { .. }
            | Op::TmemLoad { .. }
            | Op::TmemStore { .. } => self.shared_access(op, kind, env),
            Op::TmemScale { .. } => self.tmem_scale(op, kind, env),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.reduce(op, kind, env),
            Op::Mma { .. } => self.mma(op, kind, env),
        }
    }

    /// Returns whether tile blocks may synchronise or observe each other's writes, so that they must run in turns.
    pub(crate) fn synchronises(&self) -> bool {
        use core_dialect::memory::MemoryOrdering::Weak;
        self.source.body.walk(self.source.region).into_iter().any(|op| match self.source.body.ops[op].kind.step() {
            StepKind::Program(Op::Core(Core::Alloca { shareable, .. })) => *shareable,
            StepKind::Program(kind) => {
                let strong = |access: GlobalAccess<'_>| access.access_kind == AccessKind::Changes || access.order.semantics != Weak;
                kind.effects().global.is_some_and(strong)
            }
            _ => false,
        })
    }

    /// Begins one execution of an op. Later accesses belong to it.
    fn begin(&self, op: OpId, env: &mut Env<'_>) -> Result<()> {
        let Effects { buffers, completes, .. } = match self.source.body.ops[op].kind.step() {
            StepKind::Program(kind) => kind.effects(),
            _ => Effects::default(),
        };
        for BufferAccess { buffer, stage, .. } in &buffers {
            let stage = stage.map_or(0, |stage| env.tile(stage).first());
            self.hazards(env).shared.select(buffer.0 as usize, stage).map_err(|message| self.invalid_op(op, message))?;
        }
        self.hazards(env).begin(op, buffers, completes);
        Ok(())
    }

    /// Returns the hazard state. The first call of each CTA creates it.
    fn hazards<'e>(&self, env: &'e mut Env<'_>) -> &'e mut Hazards {
        let (warp_role, remote_arrivals) = (env.state.warp_role, std::mem::take(&mut env.state.remote_arrivals));
        let Source { placements, races, warp_roles, pipelines, .. } = &self.source;
        let hazards = env.state.hazards.get_or_insert_with(|| Box::new(Hazards::new(placements, *races, warp_roles, pipelines)));
        remote_arrivals.into_iter().for_each(|remote_arrivals| hazards.receive_arrival(remote_arrivals));
        hazards.switch_role(warp_role);
        hazards
    }

    /// Returns the thread count of the current warp role.
    fn threads(&self, env: &Env<'_>) -> usize {
        match self.source.warp_roles.get(env.state.warp_role) {
            Some(warp_role) => warp_role.warps * 32,
            None => self.source.attrs.warps as usize * 32,
        }
    }

    /// Returns the stage number that a pipeline op selects.
    fn pipeline_stage(&self, op: OpId, pipeline: usize, stage: Option<Id>, env: &mut Env<'_>) -> Result<usize> {
        let number = stage.map_or(0, |stage| env.tile(stage).first());
        let hazards = self.hazards(env);
        if let Some(broken) = hazards.first_violation() {
            return Err(Diagnostic::invalid("RUN077", broken.to_string()));
        }
        let depth = hazards.pipelines.depth(pipeline);
        let known = usize::try_from(number).ok().filter(|number| *number < depth);
        known.ok_or_else(|| self.invalid_op(op, format!("selects stage {number} of pipeline{pipeline}, whose depth is {depth}")))
    }
}

impl<O: Step> Program for DistributedProgram<'_, O> {
    type Op = O;
    type Ty = Type;

    fn body(&self) -> &Body<O, Type> {
        self.source.body
    }
    fn debug(&self) -> &DebugInfo {
        self.source.debug
    }
    fn ranks(&self) -> u32 {
        self.source.attrs.cluster.unwrap_or(1)
    }
    fn uses_clc(&self) -> bool {
        core_dialect::rules::uses_clc(self.source.body)
    }
    fn cluster_ctas(&self) -> u32 {
        self.source.pipelines.iter().map(|config| config.ctas).max().unwrap_or(1)
    }
    fn control<'b>(&self, op: &'b O) -> Control<'b> {
        match op.step() {
            StepKind::Program(Op::Core(core)) => exec_core::control(core),
            StepKind::WarpRole { number, body } => Control::WarpRole { number, body },
            _ => Control::None,
        }
    }
    fn wait_reason(&self, op: OpId, env: &mut Env<'_>) -> Option<String> {
        if self.source.pipelines.is_empty() {
            return None;
        }
        let StepKind::WaitForPipeline { pipeline, stage, side, phase } = self.source.body.ops[op].kind.step() else { return None };
        // If the stage does not exist, executing the op reports the error.
        let stage = self.pipeline_stage(op, pipeline, stage, env).ok()?;
        let phase = env.tile(phase).first() & 1;
        let (parity, wanted) = match side {
            BarrierSide::Full => (phase, "filled"),
            BarrierSide::Empty => (phase ^ 1, "free"),
        };
        if self.hazards(env).pipelines.is_phase_complete(pipeline, stage, side, parity) {
            return None;
        }
        let waiter =
            self.source.warp_roles.get(env.state.warp_role).map_or("the CTA".into(), |role| format!("warp role '{}'", role.name));
        let name = self.source.body.ops[op].kind.mnemonic();
        Some(format!("{waiter} waits in '{name}' until stage {stage} of pipeline{pipeline} is {wanted}, phase {phase}"))
    }
    fn is_elementwise(&self, op: &O) -> bool {
        matches!(op.step(), StepKind::Program(Op::Core(core)) if exec_core::is_elementwise(core))
    }
    /// Returns the gathered tile. If threads hold different values of an element, it returns the slots unchanged.
    fn shown(&self, id: Id, value: &Value) -> Value {
        match value {
            Value::Tile(tile) if !self.is_scalar(id) && tile.count() == self.distribution(id).slots() => {
                Value::Tile(self.distribution(id).gather(tile, self.shape(id)).unwrap_or_else(|_| tile.clone()))
            }
            other => other.clone(),
        }
    }
    fn may_create_nan(&self, op: &O) -> bool {
        matches!(op.step(), StepKind::Program(kind) if kind.is_pure())
    }

    fn execute(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        match self.source.body.ops[op].kind.step() {
            StepKind::Program(kind) => self.program_op(op, kind, env),
            StepKind::Barrier { threads } if threads as usize == self.threads(env) => {
                self.hazards(env).barrier();
                Ok(Results::new())
            }
            // Lanes of a warp run in lockstep in this interpreter.
            StepKind::Barrier { threads: 32 } => Ok(Results::new()),
            StepKind::Barrier { threads } => Err(self.unsupported(op, &format!("of {threads} threads"))),
            StepKind::CommitCopies => {
                self.hazards(env).in_flight.commit();
                Ok(Results::new())
            }
            StepKind::WaitForCopies { pending } => {
                self.hazards(env).wait_for_copies(pending as usize);
                Ok(Results::new())
            }
            StepKind::WaitForMmas { pending } => {
                self.hazards(env).wait_for_mmas(pending as usize);
                Ok(Results::new())
            }
            StepKind::Fence => {
                self.hazards(env).fence();
                Ok(Results::new())
            }
            StepKind::Nothing => Ok(Results::new()),
            StepKind::WaitForPipeline { pipeline, stage, side, .. } => {
                let stage = self.pipeline_stage(op, pipeline, stage, env)?;
                self.hazards(env).pass_pipeline_barrier(pipeline, stage, side);
                Ok(Results::new())
            }
            StepKind::ArriveAtPipeline { pipeline, stage, side } => {
                let stage = self.pipeline_stage(op, pipeline, stage, env)?;
                let threads = self.threads(env) as u32;
                self.hazards(env).arrive_at_pipeline(pipeline, stage, side, threads);
                Ok(Results::new())
            }
            StepKind::WarpRole { .. } => unreachable!("the interpreter runs its body"),
        }
    }
}
