//! Executes `.as` (TileAS) and `.sched` programs thread by thread: every thread executes each op on its own registers.
//!
//! A distributed tile is the list of its slots: the registers of all threads ([`distribution`]). A wrong layout therefore gives a
//! wrong result. An op that would need another thread's registers is an error. Threads run in lockstep, one op at a time. Lockstep
//! hides no race: after barrier placement, [`crate::race_detector`] records which warps accessed each byte since the last barrier.
//! It rejects conflicting accesses of different warps without a barrier between them.

mod copies;
mod core;
mod distribution;
mod global;
mod mma;
mod reduce;
mod reduction_plans;
mod shared;
mod slot_moves;

use crate::check::stride_assumptions;
use crate::exec::{Control, Env, Program, Results};
use crate::exec_core;
use crate::race_detector::WarpRole;
use crate::race_detector::access_runs::AccessRuns;
use crate::race_detector::cta_memory::{BufferPlacement, separate_placements};
use crate::race_detector::hazards::Hazards;
use crate::race_detector::pipelines::{BarrierSide, PipelineConfig};
use crate::tile::Tile;
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::{Arena, Body, DebugInfo, Op as OpId, Region, Value as Id};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::{Elem, Shape};
use distribution::Distribution;
use reduction_plans::{LaneExchange, RegisterGroups, ScanLines};
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tileas::effects::{AccessKind, BufferAccess, Effects, GlobalAccess};
use tileas::{FunctionAttrs, Layout, LayoutId, Op, Type};

/// An op of `.as` or `.sched`.
pub(crate) trait DistributedOp: CoreDialectOp + Sync {
    /// Returns the behaviour of the op in this interpreter.
    fn op_class(&self) -> OpClass<'_>;
}

/// The behaviour of an op of `.as` or `.sched` in this interpreter.
pub(crate) enum OpClass<'a> {
    /// An op of `.as`.
    As(&'a Op),
    /// A barrier of this number of threads.
    Barrier { threads: u32 },
    /// Commits the open copy group.
    CommitCopies,
    /// Waits until at most `pending` copy groups are in flight.
    WaitForCopies { pending: u32 },
    /// Waits until at most `pending` MMA groups are in flight.
    WaitForMmas { pending: u32 },
    /// A proxy fence.
    Fence,
    /// An op without an effect in this interpreter.
    Nothing,
    /// The body of a warp role.
    WarpRole { index: usize, body: Region },
    /// Waits until the full or the empty barrier of a stage has completed the phase of this parity.
    WaitForPipeline { pipeline: usize, stage: Option<Id>, side: BarrierSide, phase: Id },
    /// Arrives at the full or the empty barrier of a stage.
    ArriveAtPipeline { pipeline: usize, stage: Option<Id>, side: BarrierSide },
}

impl DistributedOp for Op {
    fn op_class(&self) -> OpClass<'_> {
        OpClass::As(self)
    }
}

/// The part of an op's execution that does not depend on run-time values. The interpreter computes it before the run.
enum OpPlan {
    None,
    /// The result of an op without operands.
    Computed(Tile),
    /// For each slot of the result, the operand slot whose value it gets.
    Slots(Vec<u32>),
    RegisterReduction(RegisterGroups),
    LaneReduction(LaneExchange),
    Scan(ScanLines),
    Tma(TmaOrder),
}

/// The order in which a TMA op accesses the elements of a tile.
struct TmaOrder {
    /// Assigns each element to a lane of the warp that issues the op.
    distribution: Distribution,
    /// The slots of the distribution, sorted by the offset of their elements in the buffer.
    slots_by_offset: Vec<u32>,
}

/// A function of `.as` or `.sched`, with the placement of its buffers.
pub(crate) struct SourceFunction<'a, O> {
    pub(crate) body: &'a Body<O, Type>,
    pub(crate) region: Region,
    pub(crate) attrs: &'a FunctionAttrs,
    pub(crate) layouts: &'a Arena<LayoutId, Layout>,
    pub(crate) debug: &'a DebugInfo,
    /// The placement of each buffer, by buffer number.
    pub(crate) placements: Vec<BufferPlacement>,
    /// Whether the run-time race detector is active. Before barrier placement, the detector would report races that
    /// the lockstep execution of threads prevents.
    pub(crate) checks_races: bool,
    /// The warp roles. Empty if all warps execute the same code.
    pub(crate) warp_roles: Vec<WarpRole>,
    pub(crate) pipelines: Vec<PipelineConfig>,
}

/// Maps each value to the warp role that computes it. Values outside all roles map to the number of roles.
fn roles_of_values<O: DistributedOp>(source: &SourceFunction<'_, O>) -> Vec<usize> {
    let body = source.body;
    let mut roles = vec![source.warp_roles.len(); body.values.len()];
    for op in body.walk(source.region) {
        let OpClass::WarpRole { index: role, body: region } = body.ops[op].kind.op_class() else { continue };
        for inner in body.walk(region) {
            body.ops[inner].results.iter().for_each(|value| roles[value.0 as usize] = role);
            for region in body.ops[inner].kind.regions() {
                body.blocks[body.block_of(region)].args.iter().for_each(|value| roles[value.0 as usize] = role);
            }
        }
    }
    roles
}

/// Returns a function with its buffers placed without overlap.
pub(crate) fn source_function<'a>(
    module: &'a tileas::Module,
    function: &'a tileas::Function,
    debug: &'a DebugInfo,
) -> SourceFunction<'a, Op> {
    SourceFunction {
        body: &function.body,
        region: function.region,
        attrs: &function.attrs,
        layouts: &module.layouts,
        debug,
        placements: separate_placements(function.attrs.buffers.values()),
        checks_races: false,
        warp_roles: Vec::new(),
        pipelines: Vec::new(),
    }
}

/// A function of `.as` or `.sched`, with all data that the interpreter computes before the run.
pub(crate) struct DistributedProgram<'a, O> {
    source: SourceFunction<'a, O>,
    /// The layouts as distributions over threads, by layout number. `None` for layouts that the function does not use.
    distributions: Vec<Option<Arc<Distribution>>>,
    /// The distributions of scalars, of which every thread has a copy: one per warp role, then one for code outside roles.
    scalar_distributions: Vec<Arc<Distribution>>,
    /// Maps each value to the warp role that computes it, or to the number of roles for code outside roles.
    role_of_value: Vec<usize>,
    /// The plan of each op, by op number.
    plans: Vec<OpPlan>,
    /// The buffer accesses of each op, as runs of contiguous bytes. The first execution of the op computes them. An MMA has four
    /// accesses: the loads of A, B and the accumulator, and the store of the accumulator. Any other op uses only the first entry.
    access_runs: Vec<[OnceLock<AccessRuns>; 4]>,
    /// The `assume` ops whose results are only strides of memrefs.
    stride_assumes: BTreeSet<OpId>,
    /// For each buffer, the offset of every element, in elements.
    element_offsets: Vec<Vec<u32>>,
    /// Addresses of the module's globals, by name.
    globals: BTreeMap<String, u64>,
}

/// Maximum number of warps per CTA: a CTA has at most 1024 threads.
const MAX_WARPS: usize = 32;

impl<'a, O: DistributedOp> DistributedProgram<'a, O> {
    pub(crate) fn new(source: SourceFunction<'a, O>, globals: BTreeMap<String, u64>) -> Result<Self> {
        let warps = source.attrs.warps as usize;
        if !(1..=MAX_WARPS).contains(&warps) {
            return Err(Diagnostic::unsupported("RUN070", format!("a CTA of {warps} warps")));
        }
        let scalar_distribution = |warps: usize| {
            let bits = warps.checked_ilog2().unwrap_or(0) as usize;
            Distribution::new(&Layout::uniform(bits), 0, 1 << bits)
                .map(Arc::new)
                .map_err(|message| Diagnostic::invalid("RUN071", message))
        };
        let max_role_warps = source.warp_roles.iter().map(|warp_role| warp_role.warps).max().unwrap_or(warps);
        let warp_counts = source.warp_roles.iter().map(|warp_role| warp_role.warps).chain([max_role_warps]);
        let scalar_distributions = warp_counts.map(scalar_distribution).collect::<Result<Vec<_>>>()?;
        let role_of_value = roles_of_values(&source);
        let element_offsets = source.attrs.buffers.values().map(shared::element_offsets).collect::<Result<_>>()?;
        let stride_assumes = stride_assumptions::stride_only_assumes(source.body, core::stride_use);
        let mut program = DistributedProgram {
            distributions: Vec::new(),
            scalar_distributions,
            role_of_value,
            plans: Vec::new(),
            access_runs: Vec::new(),
            stride_assumes,
            element_offsets,
            globals,
            source,
        };
        program.expand_layouts()?;
        let mut plans: Vec<OpPlan> = program.source.body.ops.ids().map(|_| OpPlan::None).collect();
        for op in program.source.body.walk(program.source.region) {
            let node = &program.source.body.ops[op];
            let plan =
                program.plan_op(op).map_err(|message| program.invalid_op(op, message).at_loc(program.source.debug, node.loc))?;
            plans[op.0 as usize] = plan;
        }
        program.access_runs = plans.iter().map(|_| Default::default()).collect();
        program.plans = plans;
        Ok(program)
    }

    /// Converts the layouts of the function's values, and of the tiles that its copies move, to distributions.
    fn expand_layouts(&mut self) -> Result<()> {
        let source = &self.source;
        let mut distributions: Vec<Option<Arc<Distribution>>> = vec![None; source.layouts.len()];
        for (value, node) in source.body.values.iter() {
            let Some(layout) = node.ty.layout() else { continue };
            let bits = node.ty.shape().iter().map(|extent| extent.trailing_zeros()).sum();
            let entry = &mut distributions[layout.0 as usize];
            if entry.is_none() {
                let distribution = Distribution::new(&source.layouts[layout], bits, source.layouts[layout].warps());
                *entry = Some(Arc::new(
                    distribution.map_err(|message| Diagnostic::unsupported("RUN071", format!("{value}: {message}")))?,
                ));
            }
        }
        for op in source.body.walk(source.region) {
            // A copied tile is not an SSA value. Its layout determines which thread copies which element.
            let OpClass::As(Op::CopyView { buffer, layout, .. }) = source.body.ops[op].kind.op_class() else { continue };
            let (Some(info), Some(entry)) = (source.attrs.buffers.get(*buffer), distributions.get_mut(layout.0 as usize)) else {
                return Err(self.invalid_op(op, "names an undefined buffer or layout"));
            };
            let distribution =
                Distribution::new(&source.layouts[*layout], info.offset_bases.len() as u32, source.layouts[*layout].warps());
            *entry = Some(Arc::new(distribution.map_err(|message| self.invalid_op(op, message))?));
        }
        self.distributions = distributions;
        Ok(())
    }

    /// Returns the error for an invalid op. `message` follows the name of the op.
    fn invalid_op(&self, op: OpId, message: impl std::fmt::Display) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::invalid("RUN072", format!("'{name}' {message}"))
    }
    /// Returns the error for an op that the interpreter does not support. `feature` follows the name of the op.
    fn unsupported(&self, op: OpId, feature: &str) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::unsupported("RUN073", format!("'{name}' {feature} is not supported"))
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
            Some(layout) => {
                self.distributions[layout.0 as usize].as_ref().expect("`expand_layouts` covers the layout of every value")
            }
            None => &self.scalar_distributions[self.role_of_value[id.0 as usize]],
        }
    }
    fn is_scalar(&self, id: Id) -> bool {
        self.ty(id).layout().is_none()
    }

    /// Returns the slots of a value. For a scalar, every thread has a slot with the value.
    fn slots(&self, id: Id, env: &Env<'_>) -> Tile {
        let tile = env.tile(id);
        if self.is_scalar(id) { Tile::splat(self.distribution(id).shape(), tile.elem, tile.first()) } else { tile.clone() }
    }

    /// Returns the slots of a value. For a scalar, the result has as many slots as the value `like`, each with the scalar.
    fn slots_like(&self, id: Id, like: Id, env: &Env<'_>) -> Tile {
        if !self.is_scalar(id) {
            return self.slots(id, env);
        }
        let tile = env.tile(id);
        Tile::splat(self.distribution(like).shape(), tile.elem, tile.first())
    }

    /// Returns a value as one complete tile. If threads have different values of an element, returns an error.
    fn gathered(&self, id: Id, env: &Env<'_>) -> Result<Tile> {
        let tile = env.tile(id);
        if self.is_scalar(id) {
            return Ok(tile.clone());
        }
        let gathered = self.distribution(id).gather(tile, self.shape(id));
        gathered
            .map_err(|element| Diagnostic::invalid("RUN074", format!("threads hold different values of element {element} of {id}")))
    }

    /// Returns the slots of the value `id` from its complete tile.
    fn distribute(&self, id: Id, gathered: &Tile) -> Tile {
        if self.is_scalar(id) {
            gathered.with_shape(Shape::new())
        } else {
            self.distribution(id).scatter(gathered.element_words(), gathered.elem)
        }
    }

    /// Converts slots to the run-time value of a result. For a scalar, all slots must be equal, and the value is one element.
    fn value_from_slots(&self, id: Id, slots: Tile) -> Result<Tile> {
        let distribution = self.distribution(id);
        if self.is_scalar(id) {
            let first = slots.first();
            return match slots.element_words().iter().all(|bits| bits == first) {
                true => Ok(Tile::scalar(slots.elem, first)),
                false => Err(Diagnostic::invalid("RUN074", format!("threads hold different values of {id}"))),
            };
        }
        match slots.count() {
            count if count == distribution.slot_count() => Ok(slots),
            1 => Ok(Tile::splat(distribution.shape(), slots.elem, slots.first())),
            count => {
                Err(Diagnostic::invalid("RUN072", format!("{id} has {count} registers instead of {}", distribution.slot_count())))
            }
        }
    }

    /// Converts slots to the only result of an op.
    fn single_result(&self, op: OpId, slots: Tile) -> Result<Results> {
        Ok(smallvec![Value::Tile(self.value_from_slots(self.result(op), slots)?)])
    }

    /// Computes the plan of an op. The error is a message without the op name.
    fn plan_op(&self, op: OpId) -> Result<OpPlan, String> {
        let node = &self.source.body.ops[op];
        let OpClass::As(kind) = node.kind.op_class() else { return Ok(OpPlan::None) };
        match kind {
            Op::Core(core) => self.plan_core(op, core),
            Op::Coordinate { dim } => Ok(OpPlan::Computed(self.coordinates(self.result(op), *dim))),
            Op::ConvertLayout { x, route } => self.plan_move(*x, self.result(op), *route, |element| element),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.plan_reduction(op, kind),
            Op::Mma { .. } => self.check_mma(kind).map(|()| OpPlan::None),
            Op::TmaLoad { buffer, .. } | Op::TmaStore { buffer, .. } => self.plan_tma(*buffer).map(OpPlan::Tma),
            _ => Ok(OpPlan::None),
        }
    }

    /// Executes an op of `.as`.
    fn execute_as_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::Core(core) => self.execute_core_op(op, core, env),
            Op::Coordinate { .. } => match &self.plans[op.0 as usize] {
                OpPlan::Computed(tile) => Ok(smallvec![Value::Tile(tile.clone())]),
                _ => unreachable!("`plan_op` computes the coordinates"),
            },
            Op::ConvertLayout { x, .. } => self.execute_move(op, *x, env),
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
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.execute_reduction(op, kind, env),
            Op::Mma { .. } => self.mma(op, kind, env),
        }
    }

    /// Returns whether a tile block may synchronise with another tile block or read its writes. If so, tile blocks must run in
    /// turns.
    pub(crate) fn may_synchronise(&self) -> bool {
        use core_dialect::memory::MemoryOrdering::Weak;
        self.source.body.walk(self.source.region).into_iter().any(|op| match self.source.body.ops[op].kind.op_class() {
            OpClass::As(Op::Core(Core::Alloca { shareable, .. })) => *shareable,
            OpClass::As(kind) => {
                let may_order_blocks =
                    |access: GlobalAccess<'_>| access.access_kind == AccessKind::Changes || access.order.semantics != Weak;
                kind.effects().global.is_some_and(may_order_blocks)
            }
            _ => false,
        })
    }

    /// Begins one execution of an op in the race detector, and selects the stages of the buffers that the op accesses. Later
    /// accesses belong to this execution.
    fn begin_op(&self, op: OpId, env: &mut Env<'_>) -> Result<()> {
        let Effects { buffers, completes, .. } = match self.source.body.ops[op].kind.op_class() {
            OpClass::As(kind) => kind.effects(),
            _ => Effects::default(),
        };
        for BufferAccess { buffer, stage, .. } in &buffers {
            let stage = stage.map_or(0, |stage| env.tile(stage).first());
            self.hazards(env).shared.select_stage(buffer.0 as usize, stage).map_err(|message| self.invalid_op(op, message))?;
        }
        self.hazards(env).begin_op(op, buffers, completes);
        Ok(())
    }

    /// Returns the hazard state of the CTA, for the current warp role. The first call in a CTA creates the state.
    fn hazards<'e>(&self, env: &'e mut Env<'_>) -> &'e mut Hazards {
        let (warp_role, remote_arrivals) = (env.state.warp_role, std::mem::take(&mut env.state.remote_arrivals));
        let SourceFunction { placements, checks_races, warp_roles, pipelines, .. } = &self.source;
        let hazards =
            env.state.hazards.get_or_insert_with(|| Box::new(Hazards::new(placements, *checks_races, warp_roles, pipelines)));
        remote_arrivals.into_iter().for_each(|arrival| hazards.receive_arrival(arrival));
        hazards.switch_role(warp_role);
        hazards
    }

    /// Returns the number of threads of the current warp role, or of the CTA outside roles.
    fn thread_count(&self, env: &Env<'_>) -> usize {
        match self.source.warp_roles.get(env.state.warp_role) {
            Some(warp_role) => warp_role.warps * 32,
            None => self.source.attrs.warps as usize * 32,
        }
    }

    /// Returns the number of the stage that a pipeline op selects. Reports a protocol violation by an arrival from another CTA.
    fn pipeline_stage(&self, op: OpId, pipeline: usize, stage: Option<Id>, env: &mut Env<'_>) -> Result<usize> {
        let number = stage.map_or(0, |stage| env.tile(stage).first());
        let hazards = self.hazards(env);
        if let Some(violation) = hazards.first_violation() {
            return Err(Diagnostic::invalid("RUN077", violation.to_string()));
        }
        let depth = hazards.pipelines.depth(pipeline);
        let valid = usize::try_from(number).ok().filter(|number| *number < depth);
        valid.ok_or_else(|| self.invalid_op(op, format!("selects stage {number} of pipeline{pipeline}, whose depth is {depth}")))
    }
}

impl<O: DistributedOp> Program for DistributedProgram<'_, O> {
    type Op = O;
    type Ty = Type;

    fn body(&self) -> &Body<O, Type> {
        self.source.body
    }
    fn debug(&self) -> &DebugInfo {
        self.source.debug
    }
    fn ctas_per_tile_block(&self) -> u32 {
        self.source.attrs.cluster.unwrap_or(1)
    }
    fn uses_clc(&self) -> bool {
        core_dialect::rules::uses_clc(self.source.body)
    }
    fn synchronised_ctas(&self) -> u32 {
        self.source.pipelines.iter().map(|config| config.ctas).max().unwrap_or(1)
    }
    fn control<'b>(&self, op: &'b O) -> Control<'b> {
        match op.op_class() {
            OpClass::As(Op::Core(core)) => exec_core::control_flow(core),
            OpClass::WarpRole { index, body } => Control::WarpRole { index, body },
            _ => Control::None,
        }
    }
    fn wait_reason(&self, op: OpId, env: &mut Env<'_>) -> Option<String> {
        if self.source.pipelines.is_empty() {
            return None;
        }
        let OpClass::WaitForPipeline { pipeline, stage, side, phase } = self.source.body.ops[op].kind.op_class() else {
            return None;
        };
        // If the stage does not exist, executing the op reports the error.
        let stage = self.pipeline_stage(op, pipeline, stage, env).ok()?;
        let phase = env.tile(phase).first() & 1;
        let (parity, awaited_state) = match side {
            BarrierSide::Full => (phase, "filled"),
            BarrierSide::Empty => (phase ^ 1, "free"),
        };
        if self.hazards(env).pipelines.is_phase_complete(pipeline, stage, side, parity) {
            return None;
        }
        let waiter =
            self.source.warp_roles.get(env.state.warp_role).map_or("the CTA".into(), |role| format!("warp role '{}'", role.name));
        let name = self.source.body.ops[op].kind.mnemonic();
        Some(format!("{waiter} waits in '{name}' until stage {stage} of pipeline{pipeline} is {awaited_state}, phase {phase}"))
    }
    fn is_elementwise(&self, op: &O) -> bool {
        matches!(op.op_class(), OpClass::As(Op::Core(core)) if exec_core::is_elementwise(core))
    }
    /// Returns the complete tile of a value. If threads have different values of an element, returns the slots unchanged.
    fn display_value(&self, id: Id, value: &Value) -> Value {
        match value {
            Value::Tile(tile) if !self.is_scalar(id) && tile.count() == self.distribution(id).slot_count() => {
                Value::Tile(self.distribution(id).gather(tile, self.shape(id)).unwrap_or_else(|_| tile.clone()))
            }
            other => other.clone(),
        }
    }
    fn may_create_nan(&self, op: &O) -> bool {
        matches!(op.op_class(), OpClass::As(kind) if kind.is_pure())
    }

    fn execute(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        match self.source.body.ops[op].kind.op_class() {
            OpClass::As(kind) => self.execute_as_op(op, kind, env),
            OpClass::Barrier { threads } if threads as usize == self.thread_count(env) => {
                self.hazards(env).pass_barrier();
                Ok(Results::new())
            }
            // A barrier of one warp has no effect, because the lanes of a warp run in lockstep in this interpreter.
            OpClass::Barrier { threads: 32 } => Ok(Results::new()),
            OpClass::Barrier { threads } => Err(self.unsupported(op, &format!("of {threads} threads"))),
            OpClass::CommitCopies => {
                self.hazards(env).in_flight.commit_copies();
                Ok(Results::new())
            }
            OpClass::WaitForCopies { pending } => {
                self.hazards(env).wait_for_copies(pending as usize);
                Ok(Results::new())
            }
            OpClass::WaitForMmas { pending } => {
                self.hazards(env).wait_for_mmas(pending as usize);
                Ok(Results::new())
            }
            OpClass::Fence => {
                self.hazards(env).fence();
                Ok(Results::new())
            }
            OpClass::Nothing => Ok(Results::new()),
            OpClass::WaitForPipeline { pipeline, stage, side, .. } => {
                let stage = self.pipeline_stage(op, pipeline, stage, env)?;
                self.hazards(env).pass_pipeline_barrier(pipeline, stage, side);
                Ok(Results::new())
            }
            OpClass::ArriveAtPipeline { pipeline, stage, side } => {
                let stage = self.pipeline_stage(op, pipeline, stage, env)?;
                let threads = self.thread_count(env) as u32;
                self.hazards(env).arrive_at_pipeline(pipeline, stage, side, threads);
                Ok(Results::new())
            }
            OpClass::WarpRole { .. } => unreachable!("the region interpreter runs the body of a warp role"),
        }
    }
}
