//! Modules and functions of `.sched`, and the binding to the file envelope.

use crate::Op;
use base::Arena;
use base::diag::Result;
use base::ir::Operation;
use base::text::{Reader, to_text};
use core_dialect::core_ops::Core;
use core_dialect::tile::Global;
use serde::{Deserialize, Serialize};
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, Type};

base::entity! {
    /// A warp role: some warps of a CTA, which execute a body of their own.
    pub struct WarpRole = "warp_role";
}
base::entity! {
    /// An mbarrier pipeline: passes buffers from one warp role to others, stage by stage.
    pub struct Pipeline = "pipeline";
}
base::plain_fields! { WarpRole, Pipeline }

/// A kernel of `.sched`: its body and attributes.
pub type Function = base::text::Function<Op, Type, FunctionAttrs>;

/// The location of a buffer in the function's shared or tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The start of the first stage, in bytes of shared memory or in TMEM columns. The other stages follow directly.
    pub offset: u32,
    /// The number of stages; 1 for a buffer that is not staged.
    pub depth: u32,
}

/// The start of an op of a pipelined loop's body, relative to the start of its iteration: `stage * interval + cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEntry {
    /// The index of the op in the loop body. The terminator has no entry.
    pub op: u32,
    /// The pipeline stage: how many initiation intervals after the start of its iteration the op starts.
    pub stage: u32,
    /// The cycle within the initiation interval.
    pub cycle: u32,
}

/// The modulo schedule of one loop, with one entry for each op of its body. Ops of the last stage compute. A copy in an earlier
/// stage is a prefetch: a copy in stage `s` of `n` stages runs `n - 1 - s` iterations ahead of the ops that compute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSchedule {
    /// The name of the function that contains the loop.
    pub function: String,
    /// The index of the loop among the function's `for` ops in `.as`, in program order.
    pub index: u32,
    /// The initiation interval in cycles.
    pub interval: u32,
    /// The lower bound of the initiation interval by resources, in cycles.
    pub resource_bound: u32,
    /// The lower bound of the initiation interval by recurrences, in cycles.
    pub recurrence_bound: u32,
    /// Whether wgmma ops may stay in flight until the next iteration has issued its wgmma ops. Then only loop-carried values may
    /// use the accumulators of these ops, and the operand buffers of these ops need one more stage.
    pub in_flight: bool,
    /// The stage and cycle of each op of the body.
    pub entries: Vec<ScheduleEntry>,
}

impl LoopSchedule {
    /// The number of the last stage, whose ops compute.
    pub fn last_stage(&self) -> u32 {
        self.entries.iter().map(|entry| entry.stage).max().unwrap_or(0)
    }
    /// The start of an op in cycles, relative to the start of its iteration.
    pub fn start(&self, entry: &ScheduleEntry) -> i64 {
        i64::from(entry.stage) * i64::from(self.interval) + i64::from(entry.cycle)
    }
}

impl WarpRole {
    /// The ID of the role's named barrier; barrier 0 is the CTA's.
    pub fn barrier_id(self) -> u32 {
        self.0 + 1
    }
}

/// The warps of a warp role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpRoleInfo {
    pub name: String,
    /// The lowest warp number of the role in its CTA.
    pub first_warp: u32,
    /// A power of two if the role uses tiles, because the layouts of tiles cover all warps of the role.
    pub warps: u32,
    /// Registers of each thread while the role's body runs (`setmaxnreg`). `None`: the thread keeps its registers of the launch.
    pub registers: Option<u32>,
}

impl WarpRoleInfo {
    /// The number of threads of the role.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }
}

/// The event that fills the stages of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// The commits of the producer's threads: a stage is full when all threads of the producer have committed.
    Threads,
    /// Asynchronous copies of the producer's threads: a stage is full when the copies issued before the commits have arrived.
    Copies,
    /// TMA copies, one to each buffer. A single thread of the producer acquires, issues the copies and commits: a stage is full
    /// when the bytes have arrived. The producer's warps alternate by stage number.
    Tma,
    /// MMAs with accumulators in tensor memory. The producer's first thread acquires, issues the MMAs and commits: a stage is full
    /// when all its earlier MMAs are complete.
    Mma,
}

/// The event that frees the stages of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<DrainText>", into = "Option<DrainText>")]
pub enum Drain {
    /// The releases of the consumers' threads.
    #[default]
    Threads,
    /// The releases of one thread for each consumer warp.
    Warps,
    /// MMAs. The consumer's first thread waits, issues the MMAs and releases: a stage is free when all its earlier MMAs are
    /// complete.
    Mma,
}

/// The text form of [`Drain`], which omits the default `Threads`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DrainText {
    Warps,
    Mma,
}

impl From<Option<DrainText>> for Drain {
    fn from(named: Option<DrainText>) -> Drain {
        match named {
            None => Drain::Threads,
            Some(DrainText::Warps) => Drain::Warps,
            Some(DrainText::Mma) => Drain::Mma,
        }
    }
}
impl From<Drain> for Option<DrainText> {
    fn from(drain: Drain) -> Option<DrainText> {
        match drain {
            Drain::Threads => None,
            Drain::Warps => Some(DrainText::Warps),
            Drain::Mma => Some(DrainText::Mma),
        }
    }
}

/// Tensor memory of a function: allocated when a CTA starts, and freed at each of its exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMemory {
    /// The number of allocated TMEM columns, a power of two.
    pub columns: u32,
    /// Shared-memory address of the word that receives the tensor-memory base address.
    pub address: u32,
}

/// A pipeline: buffers with common stages. Each stage has a full barrier and an empty barrier in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineInfo {
    /// The buffers whose stages the pipeline passes. Empty for a pipeline that only signals.
    pub buffers: Vec<Buffer>,
    /// The number of stages of each buffer.
    pub depth: u32,
    /// The event that makes a stage full.
    pub fill: Fill,
    /// The event that makes a stage empty.
    pub drain: Drain,
    /// The warp role that fills the stages. Role 0 is the whole CTA if the function has no warp roles.
    pub producer: WarpRole,
    /// The warp roles that read the stages.
    pub consumers: Vec<WarpRole>,
    /// The arrival count of the full barriers, see [`FunctionAttrs::filling_arrivals`].
    pub full: u32,
    /// The arrival count of the empty barriers, see [`FunctionAttrs::draining_arrivals`].
    pub empty: u32,
    /// Shared-memory address of the barriers: first the full barriers, then the empty ones.
    pub barriers: u32,
    /// Buffers that the CTAs of a cluster fill together by TMA multicast, see [`crate::multicast`]. Each CTA issues some of the TMA
    /// copies, which arrive in all CTAs. A stage is free when the consumers of all CTAs have released it.
    #[serde(default)]
    pub multicast: Option<Vec<Buffer>>,
}

impl PipelineInfo {
    /// Size of an mbarrier in bytes (PTX ISA).
    pub const BARRIER_BYTES: u32 = 8;

    /// Returns whether the pipeline passes no buffers, only the signal that the producer has reached a point.
    pub fn is_signal_only(&self) -> bool {
        self.buffers.is_empty()
    }
    /// The shared-memory address of the full barrier of a stage.
    pub fn full_barrier(&self, stage: u32) -> u32 {
        self.barriers + Self::BARRIER_BYTES * stage
    }
    /// Returns whether a single thread of the producer acquires and commits stages.
    pub fn fills_alone(&self) -> bool {
        matches!(self.fill, Fill::Tma | Fill::Mma)
    }
    /// Returns whether a single thread of each consumer waits for and releases stages.
    pub fn drains_alone(&self) -> bool {
        self.drain == Drain::Mma
    }
    /// The number of arrivals with which a consumer of `threads` threads releases a stage.
    pub fn release_arrivals(&self, threads: u32) -> u32 {
        match self.drain {
            Drain::Threads => threads,
            Drain::Warps => threads / 32,
            Drain::Mma => 1,
        }
    }
    /// The shared-memory address of the empty barrier of a stage.
    pub fn empty_barrier(&self, stage: u32) -> u32 {
        self.full_barrier(self.depth + stage)
    }
    /// Returns whether the CTAs of a cluster fill a buffer together.
    pub fn is_multicast(&self, buffer: Buffer) -> bool {
        self.multicast.as_ref().is_some_and(|buffers| buffers.contains(&buffer))
    }
}

/// The attributes of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionAttrs {
    /// The attributes of the kernel in `.as`.
    pub program: tileas::FunctionAttrs,
    /// One placement per buffer, from phase `alloc` on.
    pub placements: Arena<Buffer, Placement>,
    /// Bytes of shared memory of the function, from phase `alloc` on.
    pub shared_bytes: u32,
    /// The tensor memory of the function, from phase `alloc` on. `None` if no buffer is in tensor memory.
    pub tensor: Option<TensorMemory>,
    /// The warp roles, from phase `warp-roles` on. Empty if all warps execute the same code.
    pub warp_roles: Arena<WarpRole, WarpRoleInfo>,
    /// The pipelines, from phase `pipeline-loops` on.
    pub pipelines: Arena<Pipeline, PipelineInfo>,
}

impl FunctionAttrs {
    /// The number of threads of a warp role. Without warp roles, role 0 is the whole CTA. `None` if the function has no such role.
    pub fn role_threads(&self, warp_role: WarpRole) -> Option<u32> {
        match self.warp_roles.is_empty() {
            true => (warp_role == WarpRole(0)).then_some(self.program.warps * 32),
            false => self.warp_roles.get(warp_role).map(WarpRoleInfo::threads),
        }
    }
    /// The registers of a thread when the CTA starts, rounded down to a multiple of 8.
    pub fn launch_registers(&self, target: base::Target) -> u32 {
        tileas::budget::registers(target, self.program.warps, self.program.occupancy.unwrap_or(1)) & !7
    }
    /// The number of arrivals at the full barrier that fill a stage of a pipeline. `None` if the table lacks the producer's role.
    pub fn filling_arrivals(&self, info: &PipelineInfo) -> Option<u32> {
        let threads = self.role_threads(info.producer)?;
        Some(if info.fills_alone() { 1 } else { threads })
    }
    /// The number of arrivals at the empty barrier that free a stage of a pipeline, from all CTAs that must release it.
    pub fn draining_arrivals(&self, info: &PipelineInfo) -> u32 {
        let arrivals_of_cta: u32 = info
            .consumers
            .iter()
            .filter_map(|warp_role| self.role_threads(*warp_role))
            .map(|threads| info.release_arrivals(threads))
            .sum();
        arrivals_of_cta * self.releasing_ctas(info)
    }
    /// The number of CTAs whose consumers free a stage of a pipeline. This number is the cluster size if TMA multicast or MMAs of a
    /// CTA pair fill the stage.
    pub fn releasing_ctas(&self, info: &PipelineInfo) -> u32 {
        let is_common = info.multicast.is_some() || self.is_of_cta_pair(info) && info.fill == Fill::Mma;
        self.program.cluster.filter(|_| is_common).unwrap_or(1)
    }
    /// The cluster size, if the CTAs of a cluster multicast TMA tiles or issue MMAs as a pair; otherwise 1.
    pub fn cooperating_ctas(&self) -> u32 {
        let do_cooperate = self.program.cta_pair || self.pipelines.values().any(|info| info.multicast.is_some());
        self.program.cluster.filter(|_| do_cooperate).unwrap_or(1)
    }
    /// Returns whether MMAs of a CTA pair fill or drain a pipeline. Only the leader CTA then executes the steps of that side. The
    /// leader waits at its own barriers, at which both CTAs arrive, and its MMAs signal the barriers of both CTAs.
    pub fn is_of_cta_pair(&self, info: &PipelineInfo) -> bool {
        self.program.cta_pair && (info.fill == Fill::Mma || info.drains_alone())
    }
    /// Returns whether the producer must wait until all stages are free before the CTA exits (`producer_tail` in CUTLASS). Reason:
    /// An MMA of another CTA arrives at the empty barrier some time after its issue, and must not arrive in a CTA that has exited.
    /// Arrivals of threads need no wait, because they precede the barrier at the end of a CTA.
    pub fn needs_producer_tail(&self, info: &PipelineInfo) -> bool {
        info.drains_alone() && (info.multicast.is_some() || self.program.cta_pair)
    }
    /// The pipeline that passes a buffer, if there is one.
    pub fn pipeline_of(&self, buffer: Buffer) -> Option<(Pipeline, &PipelineInfo)> {
        self.pipelines.iter().find(|(_, info)| info.buffers.contains(&buffer))
    }
}

impl AsRef<tileas::FunctionAttrs> for FunctionAttrs {
    fn as_ref(&self) -> &tileas::FunctionAttrs {
        &self.program
    }
}

/// A module of `.sched`: the layout table, the globals, and the kernels with their schedules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    pub layouts: Arena<LayoutId, Layout>,
    pub globals: Vec<Global>,
    /// The schedules of the pipelined loops, from phase `analysis` on.
    pub schedules: Vec<LoopSchedule>,
    pub functions: Vec<Function>,
}

impl Module {
    pub fn layout_of(&self, ty: &Type) -> Option<&Layout> {
        ty.layout().map(|id| &self.layouts[id])
    }

    /// The text of a function's schedules, one op per line. While the loop still has its original body, a comment names the op.
    pub(crate) fn print_schedules(&self, function: &Function) -> String {
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
    let is_unapplied = ops.len() == schedule.entries.len() + 1;
    let lines = schedule.entries.iter().map(|entry| {
        let op = ops.get(entry.op as usize).filter(|_| is_unapplied).map(|op| &body.ops[*op]);
        let results = |op: &base::ir::OpNode<Op>| op.results.iter().map(|value| format!("{value} = ")).collect::<String>();
        let comment = op.map(|op| format!(" // {}{}", results(op), op.kind.mnemonic())).unwrap_or_default();
        format!("  {}{comment}\n", to_text(entry))
    });
    let LoopSchedule { index, interval, resource_bound, recurrence_bound, .. } = schedule;
    let header = format!("schedule loop {index} interval {interval}");
    let bounds = format!("resource_bound {resource_bound} recurrence_bound {recurrence_bound}");
    let in_flight = if schedule.in_flight { " in_flight" } else { "" };
    format!("{header} {bounds}{in_flight} {{ // cycles\n{}}}\n", lines.collect::<String>())
}

/// Parses a schedule of `function`, the function that precedes it in the text.
pub(crate) fn parse_schedule(reader: &mut Reader<'_>, function: &str) -> Result<LoopSchedule> {
    let mut field = |name: &str| {
        reader.expect(name)?;
        reader.value::<u32>()
    };
    let [index, interval] = [field("loop")?, field("interval")?];
    let [resource_bound, recurrence_bound] = [field("resource_bound")?, field("recurrence_bound")?];
    let in_flight = reader.accept("in_flight");
    reader.expect("{")?;
    let mut entries = Vec::new();
    while !reader.accept("}") {
        entries.push(reader.value()?);
    }
    Ok(LoopSchedule { function: function.into(), index, interval, resource_bound, recurrence_bound, in_flight, entries })
}

/// The body of the function's `for` op with this index among its `for` ops in program order. `None` if there are fewer `for` ops.
pub fn loop_body(function: &Function, index: u32) -> Option<base::Block> {
    let body = &function.body;
    let mut loops = body.walk(function.region).into_iter().filter_map(|op| body.ops[op].kind.core().and_then(Core::for_body));
    loops.nth(index as usize).map(|region| body.block_of(region))
}
