//! Executes `.as` and `.sched` programs as the threads of a block do: each op by every thread on its own registers.
//!
//! A tile is the flat list of its slots ([`spread`]), so a layout that is wrong gives a wrong answer, and an op that would need
//! another thread's registers is refused. Threads run in step, one op at a time. That hides no race: where barriers matter,
//! [`shared`] and [`hazards`] note for every byte which warp touched it since the last barrier and refuse the accesses whose order a
//! barrier would have to decide.

mod combine;
mod copies;
mod core;
mod global;
mod hazards;
mod joined;
mod pipes;
mod product;
mod reduce;
mod rename;
mod shared;
mod spread;
mod under_way;

pub(crate) use hazards::Hazards;
pub(crate) use pipes::{Ring, Side, Told};
pub(crate) use shared::{COLUMN, Place, apart, slot_bytes};

use crate::check::stride_assumptions;
use crate::exec::{Control, Env, Program, Results};
use crate::exec_core;
use crate::tile::Tile;
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::{Arena, Body, DebugInfo, Op as OpId, Region, Value as Id};
use combine::{Exchange, Groups, Lines};
use joined::Joined;
use smallvec::smallvec;
use spread::Spread;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tileas::effects::{BufferAccess, Does, Effects, GlobalAccess};
use tileas::{FunctionAttrs, Layout, LayoutId, Op, Type};
use vocabulary::core_ops::Core;
use vocabulary::rules::MiddleOp;
use vocabulary::tile::{Elem, Shape};

/// The ops of a format that extends `.as`.
pub(crate) trait Step: MiddleOp + Sync {
    fn step(&self) -> StepKind<'_>;
}

pub(crate) enum StepKind<'a> {
    Program(&'a Op),
    Barrier {
        threads: u32,
    },
    /// Ends the group of the copies since the last one.
    CommitCopies,
    /// Waits until so many groups of copies are under way at most.
    WaitForCopies {
        pending: u32,
    },
    WaitForProducts {
        pending: u32,
    },
    Fence,
    /// What only the hardware needs.
    Nothing,
    /// The body of an agent.
    Agent {
        number: usize,
        body: Region,
    },
    /// Waits until the phase of this parity is over.
    WaitForPipe {
        pipe: usize,
        slot: Option<Id>,
        side: Side,
        phase: Id,
    },
    ArriveAtPipe {
        pipe: usize,
        slot: Option<Id>,
        side: Side,
    },
}

/// An agent of a program: the warps that run its body.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) first_warp: usize,
    pub(crate) warps: usize,
}

impl Step for Op {
    fn step(&self) -> StepKind<'_> {
        StepKind::Program(self)
    }
}

/// What is known of an op before it runs.
enum Plan {
    None,
    Made(Tile),
    /// For each slot of the result a slot of the operand.
    Slots(Vec<u32>),
    Groups(Groups),
    Exchange(Exchange),
    Lines(Lines),
    Boxes(Boxes),
}

/// How an op of the copy engine goes through a tile.
struct Boxes {
    /// Which thread stands for the copy engine, element by element.
    spread: Spread,
    /// The slots in the order of the buffer's bytes.
    by_place: Vec<u32>,
}

/// A function of either format, and how its memory is laid out.
pub(crate) struct Source<'a, O> {
    pub(crate) body: &'a Body<O, Type>,
    pub(crate) region: Region,
    pub(crate) attrs: &'a FunctionAttrs,
    pub(crate) layouts: &'a Arena<LayoutId, Layout>,
    pub(crate) debug: &'a DebugInfo,
    /// Where each buffer lies.
    pub(crate) places: Vec<Place>,
    /// Whether threads are ordered by barriers only.
    pub(crate) races: bool,
    /// None where all warps run the same.
    pub(crate) agents: Vec<Agent>,
    pub(crate) pipes: Vec<Ring>,
}

/// Of each value the agent whose body it is made in; outside of bodies one more than there are agents.
fn made_by<O: Step>(source: &Source<'_, O>) -> Vec<usize> {
    let body = source.body;
    let mut made = vec![source.agents.len(); body.values.len()];
    for op in body.walk(source.region) {
        let StepKind::Agent { number, body: region } = body.ops[op].kind.step() else { continue };
        for inner in body.walk(region) {
            body.ops[inner].results.iter().for_each(|value| made[value.0 as usize] = number);
            for region in body.ops[inner].kind.regions() {
                body.blocks[body.block_of(region)].args.iter().for_each(|value| made[value.0 as usize] = number);
            }
        }
    }
    made
}

pub(crate) fn source<'a>(module: &'a tileas::Module, function: &'a tileas::Function, debug: &'a DebugInfo) -> Source<'a, Op> {
    Source {
        body: &function.body,
        region: function.region,
        attrs: &function.attrs,
        layouts: &module.layouts,
        debug,
        places: apart(function.attrs.buffers.values()),
        races: false,
        agents: Vec::new(),
        pipes: Vec::new(),
    }
}

pub(crate) struct SpreadProgram<'a, O> {
    source: Source<'a, O>,
    spreads: Vec<Option<Arc<Spread>>>,
    /// The layouts of scalars, which every thread has: of those of each agent, and last of those that all have.
    uniform: Vec<Arc<Spread>>,
    /// Of each value the agent that computes it, or one more than there are.
    made_by: Vec<usize>,
    plans: Vec<Plan>,
    /// Of each op its accesses to buffers, from its first execution on. An MMA has those of its operands, and the accumulator's last.
    joined: Vec<[OnceLock<Joined>; 4]>,
    /// The assumptions that only strides of tensor views depend on.
    of_strides: BTreeSet<OpId>,
    /// For each buffer the offset of every element.
    offsets: Vec<Vec<u32>>,
    globals: BTreeMap<String, u64>,
}

/// Warps of a block that can be executed.
const MOST_WARPS: usize = 32;

impl<'a, O: Step> SpreadProgram<'a, O> {
    pub(crate) fn new(source: Source<'a, O>, globals: BTreeMap<String, u64>) -> Result<Self> {
        let warps = source.attrs.warps as usize;
        if !(1..=MOST_WARPS).contains(&warps) {
            return Err(Diagnostic::unsupported("RUN070", format!("a block of {warps} warps")));
        }
        let uniform = |warps: usize| {
            let bits = warps.checked_ilog2().unwrap_or(0) as usize;
            Spread::new(&Layout::uniform(bits), 0, 1 << bits)
                .map(Arc::new)
                .map_err(|message| Diagnostic::invalid("RUN071", message))
        };
        let most = source.agents.iter().map(|agent| agent.warps).max().unwrap_or(warps);
        let all = source.agents.iter().map(|agent| agent.warps).chain([most]);
        let uniform = all.map(uniform).collect::<Result<Vec<_>>>()?;
        let made_by = made_by(&source);
        let offsets = source.attrs.buffers.values().map(shared::offsets).collect::<Result<_>>()?;
        let of_strides = stride_assumptions::assumptions(source.body, core::uses);
        let mut program = SpreadProgram {
            spreads: Vec::new(),
            uniform,
            made_by,
            plans: Vec::new(),
            joined: Vec::new(),
            of_strides,
            offsets,
            globals,
            source,
        };
        program.spread_out()?;
        let mut plans: Vec<Plan> = program.source.body.ops.ids().map(|_| Plan::None).collect();
        for op in program.source.body.walk(program.source.region) {
            let node = &program.source.body.ops[op];
            let plan = program.plan(op).map_err(|message| program.refuse(op, message).at_loc(program.source.debug, node.loc))?;
            plans[op.0 as usize] = plan;
        }
        program.joined = plans.iter().map(|_| Default::default()).collect();
        program.plans = plans;
        Ok(program)
    }

    /// Writes out the layouts of the function's values.
    fn spread_out(&mut self) -> Result<()> {
        let source = &self.source;
        let mut spreads: Vec<Option<Arc<Spread>>> = vec![None; source.layouts.len()];
        for (value, node) in source.body.values.iter() {
            let Some(layout) = node.ty.layout() else { continue };
            let bits = node.ty.shape().iter().map(|extent| extent.trailing_zeros()).sum();
            let place = &mut spreads[layout.0 as usize];
            if place.is_none() {
                let spread = Spread::new(&source.layouts[layout], bits, source.layouts[layout].warps());
                *place =
                    Some(Arc::new(spread.map_err(|message| Diagnostic::unsupported("RUN071", format!("{value}: {message}")))?));
            }
        }
        for op in source.body.walk(source.region) {
            // What is copied is no value, but lies in threads all the same.
            let StepKind::Program(Op::CopyView { buffer, layout, .. }) = source.body.ops[op].kind.step() else { continue };
            let (Some(info), Some(place)) = (source.attrs.buffers.get(*buffer), spreads.get_mut(layout.0 as usize)) else {
                return Err(self.refuse(op, "names a buffer or layout that is not there"));
            };
            let spread = Spread::new(&source.layouts[*layout], info.offsets.len() as u32, source.layouts[*layout].warps());
            *place = Some(Arc::new(spread.map_err(|message| self.refuse(op, message))?));
        }
        self.spreads = spreads;
        Ok(())
    }

    fn refuse(&self, op: OpId, message: impl std::fmt::Display) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::invalid("RUN072", format!("'{name}' {message}"))
    }
    fn unsupported(&self, op: OpId, what: &str) -> Box<Diagnostic> {
        let name = self.source.body.ops[op].kind.mnemonic();
        Diagnostic::unsupported("RUN073", format!("'{name}' {what} cannot be executed"))
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
    /// How a value lies in the threads.
    fn spread(&self, id: Id) -> &Arc<Spread> {
        match self.ty(id).layout() {
            Some(layout) => self.spreads[layout.0 as usize].as_ref().expect("written out for every value"),
            None => &self.uniform[self.made_by[id.0 as usize]],
        }
    }
    fn is_scalar(&self, id: Id) -> bool {
        self.ty(id).layout().is_none()
    }

    /// The slots of a value; a scalar is in every thread.
    fn slots(&self, id: Id, env: &Env<'_>) -> Tile {
        let tile = env.tile(id);
        if self.is_scalar(id) { Tile::splat(self.spread(id).shape(), tile.elem, tile.first()) } else { tile.clone() }
    }

    /// The slots of a value as those have it that another one lies in.
    fn slots_like(&self, id: Id, like: Id, env: &Env<'_>) -> Tile {
        if !self.is_scalar(id) {
            return self.slots(id, env);
        }
        let tile = env.tile(id);
        Tile::splat(self.spread(like).shape(), tile.elem, tile.first())
    }

    /// A value as one tile, on which all threads that hold an element must agree.
    fn whole(&self, id: Id, env: &Env<'_>) -> Result<Tile> {
        let tile = env.tile(id);
        if self.is_scalar(id) {
            return Ok(tile.clone());
        }
        let whole = self.spread(id).gather(tile, self.shape(id));
        whole
            .map_err(|element| Diagnostic::invalid("RUN074", format!("threads hold different values of element {element} of {id}")))
    }

    /// The slots of a whole tile.
    fn distribute(&self, id: Id, whole: &Tile) -> Tile {
        if self.is_scalar(id) { whole.with_shape(Shape::new()) } else { self.spread(id).scatter(whole.lanes(), whole.elem) }
    }

    /// Slots as the value of an op's result: of a scalar one is kept, which all threads must have.
    fn settle(&self, id: Id, slots: Tile) -> Result<Tile> {
        let spread = self.spread(id);
        if self.is_scalar(id) {
            let first = slots.first();
            return match slots.lanes().iter().all(|bits| bits == first) {
                true => Ok(Tile::scalar(slots.elem, first)),
                false => Err(Diagnostic::invalid("RUN074", format!("threads hold different values of {id}"))),
            };
        }
        match slots.count() {
            count if count == spread.slots() => Ok(slots),
            1 => Ok(Tile::splat(spread.shape(), slots.elem, slots.first())),
            count => Err(Diagnostic::invalid("RUN072", format!("{id} gets {count} registers for {}", spread.slots()))),
        }
    }

    fn one(&self, op: OpId, slots: Tile) -> Result<Results> {
        Ok(smallvec![Value::Tile(self.settle(self.result(op), slots)?)])
    }

    fn plan(&self, op: OpId) -> Result<Plan, String> {
        let node = &self.source.body.ops[op];
        let StepKind::Program(kind) = node.kind.step() else { return Ok(Plan::None) };
        match kind {
            Op::Core(core) => self.plan_core(op, core),
            Op::Coordinate { dim } => Ok(Plan::Made(self.coordinates(self.result(op), *dim))),
            Op::ConvertLayout { x, route } => self.plan_rename(*x, self.result(op), *route, |element| element),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.plan_reduce(op, kind),
            Op::Mma { .. } => self.check_product(kind).map(|()| Plan::None),
            Op::CopyBoxes { buffer, .. } | Op::StoreBoxes { buffer, .. } => self.plan_boxes(*buffer).map(Plan::Boxes),
            _ => Ok(Plan::None),
        }
    }

    fn program_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::Core(core) => self.core(op, core, env),
            Op::Coordinate { .. } => match &self.plans[op.0 as usize] {
                Plan::Made(tile) => Ok(smallvec![Value::Tile(tile.clone())]),
                _ => unreachable!("made at the start"),
            },
            Op::ConvertLayout { x, .. } => self.rename(op, *x, env),
            Op::LoadView { .. } | Op::StoreView { .. } => self.view_access(op, kind, env),
            Op::CopyView { .. } => self.copy_view(op, kind, env),
            Op::CopyBoxes { .. } => self.copy_boxes(op, kind, env),
            Op::StoreBoxes { .. } => self.store_boxes(op, kind, env),
            Op::Copy { .. } => self.copy_pointers(op, kind, env),
            Op::Load { .. } | Op::Store { .. } => self.pointer_access(op, kind, env),
            Op::ReduceView { .. } | Op::AtomicRmw { .. } | Op::AtomicCas { .. } => self.atomic(op, kind, env),
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => self.multicast(op, kind, env),
            Op::SharedStore { .. }
            | Op::SharedLoad { .. }
            | Op::SharedGather { .. }
            | Op::SharedScatter { .. }
            | Op::TensorLoad { .. }
            | Op::TensorStore { .. } => self.shared_access(op, kind, env),
            Op::TensorScale { .. } => self.tensor_scale(op, kind, env),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } => self.reduce(op, kind, env),
            Op::Mma { .. } => self.product(op, kind, env),
        }
    }

    /// Whether blocks may wait for each other, or show each other memory, so that they must run in turns.
    pub(crate) fn synchronises(&self) -> bool {
        use vocabulary::memory::MemoryOrdering::Weak;
        self.source.body.walk(self.source.region).into_iter().any(|op| match self.source.body.ops[op].kind.step() {
            StepKind::Program(Op::Core(Core::Alloca { shareable, .. })) => *shareable,
            StepKind::Program(kind) => {
                let strong = |access: GlobalAccess<'_>| access.does == Does::Changes || access.order.semantics != Weak;
                kind.effects().global.is_some_and(strong)
            }
            _ => false,
        })
    }

    /// What follows are the accesses of one execution of an op.
    fn begin(&self, op: OpId, env: &mut Env<'_>) -> Result<()> {
        let Effects { buffers, completes, .. } = match self.source.body.ops[op].kind.step() {
            StepKind::Program(kind) => kind.effects(),
            _ => Effects::default(),
        };
        for BufferAccess { buffer, slot, .. } in &buffers {
            let slot = slot.map_or(0, |slot| env.tile(slot).first());
            self.hazards(env).shared.select(buffer.0 as usize, slot).map_err(|message| self.refuse(op, message))?;
        }
        self.hazards(env).begin(op, buffers, completes);
        Ok(())
    }

    /// What executing needs besides the values: made when a block first asks.
    fn hazards<'e>(&self, env: &'e mut Env<'_>) -> &'e mut Hazards {
        let (agent, told) = (env.state.agent, std::mem::take(&mut env.state.told));
        let Source { places, races, agents, pipes, .. } = &self.source;
        let hazards = env.state.hazards.get_or_insert_with(|| Box::new(Hazards::new(places, *races, agents, pipes)));
        told.into_iter().for_each(|told| hazards.hear(told));
        hazards.turn(agent);
        hazards
    }

    /// The threads of the agent that runs.
    fn threads(&self, env: &Env<'_>) -> usize {
        match self.source.agents.get(env.state.agent) {
            Some(agent) => agent.warps * 32,
            None => self.source.attrs.warps as usize * 32,
        }
    }

    /// The number of the slot that a step of a pipe means.
    fn pipe_slot(&self, op: OpId, pipe: usize, slot: Option<Id>, env: &mut Env<'_>) -> Result<usize> {
        let number = slot.map_or(0, |slot| env.tile(slot).first());
        let hazards = self.hazards(env);
        if let Some(broken) = hazards.broken() {
            return Err(Diagnostic::invalid("RUN077", broken.to_string()));
        }
        let depth = hazards.pipes.depth(pipe);
        let known = usize::try_from(number).ok().filter(|number| *number < depth);
        known.ok_or_else(|| self.refuse(op, format!("means slot {number} of pipe{pipe}, which has {depth}")))
    }
}

impl<O: Step> Program for SpreadProgram<'_, O> {
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
    fn takes_over(&self) -> bool {
        vocabulary::rules::takes_over(self.source.body)
    }
    fn joined(&self) -> u32 {
        self.source.pipes.iter().map(|ring| ring.blocks).max().unwrap_or(1)
    }
    fn control<'b>(&self, op: &'b O) -> Control<'b> {
        match op.step() {
            StepKind::Program(Op::Core(core)) => exec_core::control(core),
            StepKind::Agent { number, body } => Control::Agent { number, body },
            _ => Control::None,
        }
    }
    fn waits(&self, op: OpId, env: &mut Env<'_>) -> Option<String> {
        if self.source.pipes.is_empty() {
            return None;
        }
        let StepKind::WaitForPipe { pipe, slot, side, phase } = self.source.body.ops[op].kind.step() else { return None };
        // A slot that there is not is refused when the op is executed.
        let slot = self.pipe_slot(op, pipe, slot, env).ok()?;
        let phase = env.tile(phase).first() & 1;
        let (parity, wanted) = match side {
            Side::Full => (phase, "filled"),
            Side::Empty => (phase ^ 1, "free"),
        };
        if self.hazards(env).pipes.is_over(pipe, slot, side, parity) {
            return None;
        }
        let who = self.source.agents.get(env.state.agent).map_or("the block".into(), |agent| format!("agent '{}'", agent.name));
        let name = self.source.body.ops[op].kind.mnemonic();
        Some(format!("{who} waits in '{name}' until slot {slot} of pipe{pipe} is {wanted}, phase {phase}"))
    }
    fn is_elementwise(&self, op: &O) -> bool {
        matches!(op.step(), StepKind::Program(Op::Core(core)) if exec_core::is_elementwise(core))
    }
    /// Tiles are shown whole; where threads disagree, as the slots they are in.
    fn shown(&self, id: Id, value: &Value) -> Value {
        match value {
            Value::Tile(tile) if !self.is_scalar(id) && tile.count() == self.spread(id).slots() => {
                Value::Tile(self.spread(id).gather(tile, self.shape(id)).unwrap_or_else(|_| tile.clone()))
            }
            other => other.clone(),
        }
    }
    fn computes(&self, op: &O) -> bool {
        matches!(op.step(), StepKind::Program(kind) if kind.is_pure())
    }

    fn execute(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        match self.source.body.ops[op].kind.step() {
            StepKind::Program(kind) => self.program_op(op, kind, env),
            StepKind::Barrier { threads } if threads as usize == self.threads(env) => {
                self.hazards(env).barrier();
                Ok(Results::new())
            }
            // Lanes of a warp run in step anyway.
            StepKind::Barrier { threads: 32 } => Ok(Results::new()),
            StepKind::Barrier { threads } => Err(self.unsupported(op, &format!("of {threads} threads"))),
            StepKind::CommitCopies => {
                self.hazards(env).under_way.commit();
                Ok(Results::new())
            }
            StepKind::WaitForCopies { pending } => {
                self.hazards(env).wait_for_copies(pending as usize);
                Ok(Results::new())
            }
            StepKind::WaitForProducts { pending } => {
                self.hazards(env).wait_for_products(pending as usize);
                Ok(Results::new())
            }
            StepKind::Fence => {
                self.hazards(env).fence();
                Ok(Results::new())
            }
            StepKind::Nothing => Ok(Results::new()),
            StepKind::WaitForPipe { pipe, slot, side, .. } => {
                let slot = self.pipe_slot(op, pipe, slot, env)?;
                self.hazards(env).pass_pipe(pipe, slot, side);
                Ok(Results::new())
            }
            StepKind::ArriveAtPipe { pipe, slot, side } => {
                let slot = self.pipe_slot(op, pipe, slot, env)?;
                let threads = self.threads(env) as u32;
                self.hazards(env).arrive_at_pipe(pipe, slot, side, threads);
                Ok(Results::new())
            }
            StepKind::Agent { .. } => unreachable!("its body is run"),
        }
    }
}
