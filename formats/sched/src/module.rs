//! Modules and functions of `.sched`, and the binding to the file envelope.

use crate::Op;
use base::diag::Result;
use base::ir::Operation;
use base::text::{Reader, print_function, read_function, to_text};
use base::{Arena, Envelope, File, Locations, Payload, Source};
use core_dialect::core_ops::Core;
use core_dialect::tile::Global;
use serde::{Deserialize, Serialize};
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, Type};

base::entity! {
    /// Some warps of a block, which execute a body of their own.
    pub struct WarpRole = "warp_role";
}
base::entity! {
    /// Buffers that go from one warp_role to others, stage by stage.
    pub struct Pipeline = "pipeline";
}
base::plain_fields! { WarpRole, Pipeline }

pub type Function = base::text::Function<Op, Type, FunctionAttrs>;

/// How far the scheduler got; only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Analysis,
    Alloc,
    Materialize,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Analysis, Phase::Alloc, Phase::Materialize];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Analysis => "analysis",
            Phase::Alloc => "alloc",
            Phase::Materialize => "materialize",
        }
    }
    pub fn of(envelope: &Envelope) -> Option<Phase> {
        Self::ALL.into_iter().find(|phase| phase.name() == envelope.phase)
    }
}

/// Where a buffer lies in the function's shared or tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// In bytes; in tensor memory in columns, of which each stage has as many as the buffer.
    pub offset: u32,
    /// Slots of the staged_buffer; 1 for a plain buffer.
    pub depth: u32,
}

/// When an op of a pipelined loop's body starts, counted from the start of its iteration: `stage * interval + cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEntry {
    /// Position of the op in the loop body; the terminator has none.
    pub op: u32,
    pub stage: u32,
    pub cycle: u32,
}

/// The schedule of one loop: every op of its body once. Ops of the last stage compute; copies of an earlier stage run ahead by
/// as many iterations as there are stages between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSchedule {
    pub function: String,
    /// Which `for` of the function in `.as`, in program order.
    pub index: u32,
    /// Cycles between the starts of two iterations, and its lower bounds by resources and by recurrences.
    pub interval: u32,
    pub resource_bound: u32,
    pub recurrence_bound: u32,
    /// Whether mmas of warp groups whose accumulators only go iteration may be in flight until the next iteration's are: what they read
    /// then has a stage more.
    pub in_flight: bool,
    pub entries: Vec<ScheduleEntry>,
}

impl LoopSchedule {
    /// The stage that computes.
    pub fn last_stage(&self) -> u32 {
        self.entries.iter().map(|entry| entry.stage).max().unwrap_or(0)
    }
    pub fn start(&self, entry: &ScheduleEntry) -> i64 {
        i64::from(entry.stage) * i64::from(self.interval) + i64::from(entry.cycle)
    }
}

impl WarpRole {
    /// Its named barrier; 0 is the block's.
    pub fn barrier(self) -> u32 {
        self.0 + 1
    }
}

/// The warps of an warp_role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpRoleInfo {
    pub name: String,
    pub first_warp: u32,
    /// A power of two where it has tiles, which lie in its warps.
    pub warps: u32,
    /// Registers of each of its threads while its body runs, of those that the block has; none: as many as it was started with.
    pub registers: Option<u32>,
}

impl WarpRoleInfo {
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }
}

/// What fills the stages of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// What the producer's threads have done when they commit: a stage is filled when they all did.
    Threads,
    /// Asynchronous copies of the producer's threads: a stage is filled when those that they issued before they committed are there.
    Copies,
    /// Copies by tma_tiles, one to each buffer. One thread of the producer alone acquires, asks for them and commits: a stage is filled
    /// when their bytes are there. The producer's warps take turns by the number of the stage.
    Tma,
    /// Mma that have their accumulators in tensor memory. The producer's first thread alone acquires, multiplies and commits: a stage is
    /// filled when all mmas that it made before are complete.
    Mma,
}

/// What leaves the stages of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Named>", into = "Option<Named>")]
pub enum Drain {
    /// The consumers' threads, when they have done what they do with it.
    #[default]
    Threads,
    /// The same, of which one of each warp says so for all of it.
    Warps,
    /// Mma. The consumer's first thread alone waits, multiplies and releases: a stage is free when all mmas that it made
    /// before are complete.
    Mma,
}

/// What is written of what leaves stages: threads go without saying.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    Warps,
    Mma,
}

impl From<Option<Named>> for Drain {
    fn from(named: Option<Named>) -> Drain {
        match named {
            None => Drain::Threads,
            Some(Named::Warps) => Drain::Warps,
            Some(Named::Mma) => Drain::Mma,
        }
    }
}
impl From<Drain> for Option<Named> {
    fn from(drain: Drain) -> Option<Named> {
        match drain {
            Drain::Threads => None,
            Drain::Warps => Some(Named::Warps),
            Drain::Mma => Some(Named::Mma),
        }
    }
}

/// Tensor memory of a function: it is taken when a block starts, and given back at each of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMemory {
    /// A power of two.
    pub columns: u32,
    /// Where in shared memory the word lies that says where it begins.
    pub address: u32,
}

/// A pipeline: buffers that share stages, and for each stage a barrier in shared memory that says it is filled and one that says it is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineInfo {
    /// None where it only tells that something is over.
    pub buffers: Vec<Buffer>,
    /// Slots, of each of the buffers.
    pub depth: u32,
    pub fill: Fill,
    pub drain: Drain,
    /// Agents; warp_role 0 is the whole block where a function has none.
    pub producer: WarpRole,
    pub consumers: Vec<WarpRole>,
    /// Arrivals that fill a stage, and that free one: of threads, or one where that is told by one thread.
    pub full: u32,
    pub empty: u32,
    /// Where the barriers lie in shared memory: those of filled stages, then those of free ones.
    pub barriers: u32,
    /// Buffers that the blocks of a cluster fill together, see [`crate::multicast`]: each asks for a part of the tma_tiles, which go to all of
    /// them, and a stage of the pipeline is free when the consumers of all blocks need it no more.
    #[serde(default)]
    pub multicast: Option<Vec<Buffer>>,
}

impl PipelineInfo {
    /// Bytes of a barrier.
    pub const BARRIER: u32 = 8;

    /// Whether nothing passes through it but the word that the producer is so far.
    pub fn is_signal_only(&self) -> bool {
        self.buffers.is_empty()
    }
    pub fn full_barrier(&self, stage: u32) -> u32 {
        self.barriers + Self::BARRIER * stage
    }
    /// Whether one thread of the producer does all its steps, or one of the consumer.
    pub fn fills_alone(&self) -> bool {
        matches!(self.fill, Fill::Tma | Fill::Mma)
    }
    pub fn drains_alone(&self) -> bool {
        self.drain == Drain::Mma
    }
    /// How many of a consumer's threads say that a stage is free.
    pub fn releases(&self, threads: u32) -> u32 {
        match self.drain {
            Drain::Threads => threads,
            Drain::Warps => threads / 32,
            Drain::Mma => 1,
        }
    }
    pub fn empty_barrier(&self, stage: u32) -> u32 {
        self.full_barrier(self.depth + stage)
    }
    /// Whether the blocks of a cluster fill a buffer together.
    pub fn is_multicast(&self, buffer: Buffer) -> bool {
        self.multicast.as_ref().is_some_and(|all| all.contains(&buffer))
    }
}

/// What is known of a kernel besides its body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionAttrs {
    pub program: tileas::FunctionAttrs,
    /// One per buffer, from phase alloc on.
    pub placements: Arena<Buffer, Placement>,
    /// Bytes of shared memory, from phase alloc on.
    pub shared_bytes: u32,
    /// Likewise, where there are buffers in tensor memory.
    pub tensor: Option<TensorMemory>,
    /// In phase materialize; none where all warps execute the same.
    pub warp_roles: Arena<WarpRole, WarpRoleInfo>,
    pub pipelines: Arena<Pipeline, PipelineInfo>,
}

impl FunctionAttrs {
    /// The threads of an warp_role; where there are none, warp_role 0 is the whole block.
    pub fn role_threads(&self, warp_role: WarpRole) -> Option<u32> {
        match self.warp_roles.is_empty() {
            true => (warp_role == WarpRole(0)).then_some(self.program.warps * 32),
            false => self.warp_roles.get(warp_role).map(WarpRoleInfo::threads),
        }
    }
    /// The registers of a thread when the block starts.
    pub fn launch_registers(&self, target: base::Target) -> u32 {
        tileas::budget::registers(target, self.program.warps, self.program.occupancy.unwrap_or(1)) & !7
    }
    /// The threads that arrive when a stage of a pipeline is filled.
    pub fn filling_threads(&self, info: &PipelineInfo) -> Option<u32> {
        let all = self.role_threads(info.producer)?;
        Some(if info.fills_alone() { 1 } else { all })
    }
    /// The arrivals that free a stage of a pipeline, of all blocks that have to say so.
    pub fn draining_threads(&self, info: &PipelineInfo) -> u32 {
        let own: u32 =
            info.consumers.iter().filter_map(|warp_role| self.role_threads(*warp_role)).map(|all| info.releases(all)).sum();
        own * self.ctas_of(info)
    }
    /// The blocks whose consumers free a stage of a pipeline: those of the cluster where they fill it together, or where a pair's mmas do.
    pub fn ctas_of(&self, info: &PipelineInfo) -> u32 {
        let together = info.multicast.is_some() || self.is_of_cta_pair(info) && info.fill == Fill::Mma;
        self.program.cluster.filter(|_| together).unwrap_or(1)
    }
    /// The blocks of a cluster that bring each other tma_tiles, or make mmas together; 1 where none does.
    pub fn cooperating_ctas(&self) -> u32 {
        let together = self.program.cta_pair || self.pipelines.values().any(|info| info.multicast.is_some());
        self.program.cluster.filter(|_| together).unwrap_or(1)
    }
    /// Whether mmas that a pair of blocks makes together fill a pipeline or leave it. The first block alone then has that side of it, for
    /// both: it waits for the stages of both, at a barrier of its own, and tells either.
    pub fn is_of_cta_pair(&self, info: &PipelineInfo) -> bool {
        self.program.cta_pair && (info.fill == Fill::Mma || info.drains_alone())
    }
    /// Whether the producer of a pipeline has to wait, in the end, until all stages are free: mmas of other blocks say so some time after
    /// these have issued them, and must not tell a block that has ended. What threads tell comes before the barrier at a block's end.
    pub fn ends_free(&self, info: &PipelineInfo) -> bool {
        info.drains_alone() && (info.multicast.is_some() || self.program.cta_pair)
    }
    /// The pipeline that a buffer belongs to.
    pub fn pipeline_of(&self, buffer: Buffer) -> Option<(Pipeline, &PipelineInfo)> {
        self.pipelines.iter().find(|(_, info)| info.buffers.contains(&buffer))
    }
}

impl AsRef<tileas::FunctionAttrs> for FunctionAttrs {
    fn as_ref(&self) -> &tileas::FunctionAttrs {
        &self.program
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    pub layouts: Arena<LayoutId, Layout>,
    pub globals: Vec<Global>,
    /// From phase analysis on.
    pub schedules: Vec<LoopSchedule>,
    pub functions: Vec<Function>,
}

impl Module {
    pub fn layout_of(&self, ty: &Type) -> Option<&Layout> {
        ty.layout().map(|id| &self.layouts[id])
    }

    /// A function's schedules as tables, one op a line; after each, for the reader, what the op is as long as the loop is still there.
    fn print_schedules(&self, function: &Function) -> String {
        self.schedules
            .iter()
            .filter(|schedule| schedule.function == function.name)
            .map(|schedule| print_schedule(function, schedule))
            .collect()
    }
}

fn print_schedule(function: &Function, schedule: &LoopSchedule) -> String {
    let body = &function.body;
    let ops = loop_body(function, schedule.index).map(|block| &body.blocks[block].ops[..]).unwrap_or_default();
    let known = ops.len() == schedule.entries.len() + 1;
    let lines = schedule.entries.iter().map(|entry| {
        let op = ops.get(entry.op as usize).filter(|_| known).map(|op| &body.ops[*op]);
        let results = |op: &base::ir::OpNode<Op>| op.results.iter().map(|value| format!("{value} = ")).collect::<String>();
        let comment = op.map(|op| format!(" // {}{}", results(op), op.kind.mnemonic())).unwrap_or_default();
        format!("  {}{comment}\n", to_text(entry))
    });
    let LoopSchedule { index, interval, resource_bound, recurrence_bound, .. } = schedule;
    let head = format!("schedule loop {index} interval {interval}");
    let bounds = format!("resource_bound {resource_bound} recurrence_bound {recurrence_bound}");
    let in_flight = if schedule.in_flight { " in_flight" } else { "" };
    format!("{head} {bounds}{in_flight} {{ // cycles\n{}}}\n", lines.collect::<String>())
}

/// A schedule of the function that stands before it.
fn parse_schedule(reader: &mut Reader<'_>, function: &str) -> Result<LoopSchedule> {
    let mut number = |name: &str| {
        reader.expect(name)?;
        reader.value::<u32>()
    };
    let [index, interval] = [number("loop")?, number("interval")?];
    let [resource_bound, recurrence_bound] = [number("resource_bound")?, number("recurrence_bound")?];
    let in_flight = reader.eat("in_flight");
    reader.expect("{")?;
    let mut entries = Vec::new();
    while !reader.eat("}") {
        entries.push(reader.value()?);
    }
    Ok(LoopSchedule { function: function.into(), index, interval, resource_bound, recurrence_bound, in_flight, entries })
}

/// The body of a function's `for` with that number, in program order.
pub fn loop_body(function: &Function, index: u32) -> Option<base::Block> {
    let body = &function.body;
    let mut loops = body.walk(function.region).into_iter().filter_map(|op| match body.ops[op].kind.core() {
        Some(Core::For { body: region, .. }) => Some(body.block_of(*region)),
        _ => None,
    });
    loops.nth(index as usize)
}

/// A module that may have hazards: readers check everything but the order of accesses. For tools that show what such a file does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UncheckedModule(pub Module);

impl UncheckedModule {
    pub fn file(file: File<UncheckedModule>) -> File<Module> {
        File { envelope: file.envelope, payload: file.payload.0 }
    }
}

impl Payload for UncheckedModule {
    const FORMAT: &'static str = Module::FORMAT;
    const VERSION: u32 = Module::VERSION;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        crate::verify::structure(&self.0, envelope).map(drop)
    }
    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        self.0.print(envelope, locations)
    }
    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        Module::parse(source, envelope).map(UncheckedModule)
    }
}

impl Payload for Module {
    const FORMAT: &'static str = "sched";
    const VERSION: u32 = 7;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        let phase = crate::verify::structure(self, envelope)?;
        crate::hazard_checker::module(self, phase, envelope)
    }

    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        let layouts = tileas::module::print_layouts(&self.layouts);
        let globals = self.globals.iter().map(|global| format!("global {}\n", to_text(global)));
        let functions = self
            .functions
            .iter()
            .map(|function| print_function(function, &envelope.debug, locations) + &self.print_schedules(function));
        layouts.into_iter().chain(globals).chain(functions).collect()
    }

    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        let mut reader = Reader::new(source);
        let mut module = Module::default();
        while !reader.at_end() {
            if reader.eat("layout") {
                tileas::module::parse_layout(&mut reader, &mut module.layouts)?;
            } else if reader.eat("global") {
                module.globals.push(reader.value()?);
            } else if reader.eat("schedule") {
                let Some(function) = module.functions.last() else {
                    return Err(reader.error("a schedule stands after its function"));
                };
                module.schedules.push(parse_schedule(&mut reader, &function.name)?);
            } else {
                let function: Function = read_function(&mut reader, &envelope.debug)?;
                module.functions.push(base::text::compact(&function));
            }
        }
        Ok(module)
    }
}
