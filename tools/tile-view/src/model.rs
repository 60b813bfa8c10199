//! The data model of the page: `--json` writes it, the page embeds it, and the scripts of `page/` draw it.

use layout_drawing::banks::Wavefronts;
use serde::Serialize;

/// All data that the page shows. JavaScript reads it by these field names.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Model {
    /// The names of the kernels.
    pub(crate) title: String,
    pub(crate) target: Option<String>,
    /// The name and version of the tool that generated the page.
    pub(crate) producer: String,
    /// The names of the source files that the source positions refer to.
    pub(crate) files: Vec<String>,
    /// The source positions of all panes, without duplicates. A line of a pane refers to its position by index.
    pub(crate) source_positions: Vec<SourcePosition>,
    pub(crate) panes: Vec<Pane>,
    pub(crate) layouts: Vec<LayoutView>,
    pub(crate) functions: Vec<FunctionView>,
    /// The JSON report of `tile-time`. Its line numbers are those of the PTX.
    pub(crate) time: Option<serde_json::Value>,
    /// The decisions of the passes, in the order in which the passes reported them.
    pub(crate) log: Vec<Decision>,
    /// The contents that the page lacks, such as SASS, each with the reason.
    pub(crate) missing: Vec<String>,
}

/// A position in a source file. `file` is an index into [`Model::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct SourcePosition {
    pub(crate) file: usize,
    pub(crate) line: u32,
    /// The column, from 1; 0 if only the line is known.
    pub(crate) column: u32,
}

/// A text of the page, with the source position of each line.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Pane {
    /// A short name, such as `sched` or `source`.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// For each line, its line number in the file. The numbers have gaps, because the pane omits some lines of the file.
    pub(crate) numbers: Vec<u32>,
    /// For each line, the index of its source position in [`Model::source_positions`]; -1 if it has none.
    pub(crate) source_positions: Vec<i64>,
}

/// A distributed (linear) layout, and the tile types that use it. For each bit of the register, lane or warp number, `register`,
/// `lane` or `warp` has the basis: the row-major element index that the bit contributes by XOR.
#[derive(Debug, Serialize)]
pub(crate) struct LayoutView {
    pub(crate) name: String,
    pub(crate) register: Vec<u32>,
    pub(crate) lane: Vec<u32>,
    pub(crate) warp: Vec<u32>,
    pub(crate) uses: Vec<LayoutUse>,
}

/// A tile type with a layout, and the number of values of this type.
#[derive(Debug, Serialize)]
pub(crate) struct LayoutUse {
    pub(crate) shape: Vec<u32>,
    /// The element type.
    pub(crate) elem: String,
    /// The number of values with the layout and this type.
    pub(crate) count: usize,
}

/// A function of the `.sched` file: its warps, memory, pipelines and loops.
#[derive(Debug, Serialize)]
pub(crate) struct FunctionView {
    pub(crate) name: String,
    /// Number of warps of a CTA, including the warps of all warp roles.
    pub(crate) warps: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) tmem_columns: u32,
    /// The number of ops. Live ranges and accesses refer to an op by its position in program order.
    pub(crate) ops: usize,
    /// The row of each op in the `.sched` pane.
    pub(crate) rows: Vec<usize>,
    /// The spans of consecutive ops that the same warps execute: all warps, or the warps of one warp role.
    pub(crate) role_spans: Vec<RoleSpanView>,
    pub(crate) buffers: Vec<BufferView>,
    pub(crate) warp_roles: Vec<RoleView>,
    pub(crate) pipelines: Vec<PipelineView>,
    pub(crate) loops: Vec<LoopView>,
}

/// A span of consecutive ops that all warps or one warp role executes. `ops` has the positions of the first and last op.
#[derive(Debug, Serialize)]
pub(crate) struct RoleSpanView {
    /// Index of the warp role; `None` for all warps.
    pub(crate) warp_role: Option<u32>,
    pub(crate) ops: [usize; 2],
}

/// A buffer in shared memory or TMEM.
#[derive(Debug, Serialize)]
pub(crate) struct BufferView {
    pub(crate) name: String,
    pub(crate) elem: String,
    pub(crate) elem_bytes: u32,
    pub(crate) shape: Vec<u32>,
    /// For each bit of an element offset in the buffer, the row-major index of the tile element at that offset. The buffer's layout
    /// is linear over XOR, so these indices determine all others.
    pub(crate) offsets: Vec<u32>,
    /// `shared` (in bytes) or `tensor` (in TMEM columns).
    pub(crate) space: &'static str,
    /// Size of one stage, in the unit of `space`.
    pub(crate) size: u32,
    /// Offset of the first stage, in the unit of `space`.
    pub(crate) offset: u32,
    /// Number of stages.
    pub(crate) depth: u32,
    /// The first and last op of each live range.
    pub(crate) live_ranges: Vec<[usize; 2]>,
    pub(crate) accesses: Vec<AccessView>,
}

/// An access of an op to a buffer.
#[derive(Debug, Serialize)]
pub(crate) struct AccessView {
    /// Position of the op in program order.
    pub(crate) op: usize,
    pub(crate) mnemonic: &'static str,
    /// The access kind as a verb, such as `reads`.
    pub(crate) access_kind: &'static str,
    /// The hardware that performs the access: the threads of the warps, `cp.async`, an MMA or TMA.
    pub(crate) proxy: &'static str,
    /// The instruction that the op lowers to; empty if the op has no atom.
    pub(crate) atom: String,
    /// The shared-memory wavefronts of one warp instruction; `None` if the op does not copy a tile to or from shared memory.
    pub(crate) wavefronts: Option<Wavefronts>,
}

/// A warp role: consecutive warps of a CTA that execute the same code.
#[derive(Debug, Serialize)]
pub(crate) struct RoleView {
    pub(crate) name: String,
    pub(crate) first_warp: u32,
    /// Number of warps of the role.
    pub(crate) warps: u32,
    /// Registers per thread while the role runs; `None` if the role keeps the number of the launch.
    pub(crate) registers: Option<u32>,
}

/// An mbarrier pipeline between warp roles. Warp roles are numbered by their position in [`FunctionView::warp_roles`].
#[derive(Debug, Serialize)]
pub(crate) struct PipelineView {
    pub(crate) name: String,
    /// Numbers of the buffers that pass from the producer to the consumers.
    pub(crate) buffers: Vec<u32>,
    /// Number of stages.
    pub(crate) depth: u32,
    /// How the producer fills a stage, such as by TMA copies.
    pub(crate) fill: String,
    /// The warp role that fills the stages.
    pub(crate) producer: u32,
    /// The warp roles that read and release the stages.
    pub(crate) consumers: Vec<u32>,
    /// Number of arrivals at the mbarrier that signals a filled stage.
    pub(crate) full_arrivals: u32,
    /// Number of arrivals at the mbarrier that signals a released stage.
    pub(crate) empty_arrivals: u32,
}

/// The schedule of a pipelined loop.
#[derive(Debug, Serialize)]
pub(crate) struct LoopView {
    /// The index of the loop among the function's `for` ops, in program order.
    pub(crate) index: u32,
    /// The initiation interval, in cycles.
    pub(crate) interval: u32,
    /// Lower bound of the interval from the units that the ops occupy, in cycles.
    pub(crate) resource_bound: u32,
    /// Lower bound of the interval from dependences between iterations, in cycles.
    pub(crate) recurrence_bound: u32,
    /// Whether the `wgmma` ops of an iteration stay in flight until the kernel issues the `wgmma` ops of the next iteration.
    pub(crate) in_flight: bool,
    pub(crate) ops: Vec<ScheduledOp>,
    /// The spans in which the ops of one iteration occupy units.
    pub(crate) occupied: Vec<OccupiedSpan>,
}

/// An op of a loop, with its stage and its cycle in the modulo schedule.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduledOp {
    /// The results and the mnemonic of the op.
    pub(crate) text: String,
    /// Index of the op's source position, as in [`Pane::source_positions`].
    pub(crate) source_position: i64,
    pub(crate) stage: u32,
    /// The cycle within the stage.
    pub(crate) cycle: u32,
}

/// A span of cycles in which an op occupies a unit of the SM. `start` is relative to the start of the iteration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OccupiedSpan {
    /// Position of the op in the loop body.
    pub(crate) op: usize,
    pub(crate) unit: String,
    pub(crate) start: i64,
    pub(crate) cycles: i64,
}

/// An entry of the pass log: an optimisation that a pass applied or declined.
#[derive(Debug, Serialize)]
pub(crate) struct Decision {
    pub(crate) pass: String,
    pub(crate) outcome: String,
    pub(crate) name: String,
    pub(crate) message: String,
    /// Index of the source position of the decision, as in [`Pane::source_positions`].
    pub(crate) source_position: i64,
}
