//! The data model of the page: `--json` writes it, the page embeds it, and the scripts of `page/` draw it.

use layout_drawing::banks::Wavefronts;
use serde::Serialize;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Model {
    pub(crate) title: String,
    pub(crate) target: Option<String>,
    pub(crate) producer: String,
    /// Names of source files.
    pub(crate) files: Vec<String>,
    /// All source positions. A line of a pane refers to its position by index, so lines with equal indices have the same position.
    pub(crate) source_positions: Vec<SourcePosition>,
    pub(crate) panes: Vec<Pane>,
    pub(crate) layouts: Vec<LayoutView>,
    pub(crate) functions: Vec<FunctionView>,
    /// The report of `tile-time`. Its line numbers are those of the PTX.
    pub(crate) time: Option<serde_json::Value>,
    pub(crate) log: Vec<Decision>,
    /// Missing parts of the page, with reasons.
    pub(crate) missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct SourcePosition {
    pub(crate) file: usize,
    pub(crate) line: u32,
    /// 0 if only the line is known.
    pub(crate) column: u32,
}

/// A text with the source position of each line.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Pane {
    /// A short name, such as `sched` or `source`.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// For each line its line number in the file. The pane omits some lines of the file.
    pub(crate) numbers: Vec<u32>,
    /// For each line the index of its source position in [`Model::source_positions`]; -1 if it has none.
    pub(crate) source_positions: Vec<i64>,
}

/// A distributed layout: the basis of each bit of the register, lane and warp number, and the tile types that use the layout.
#[derive(Debug, Serialize)]
pub(crate) struct LayoutView {
    pub(crate) name: String,
    pub(crate) register: Vec<u32>,
    pub(crate) lane: Vec<u32>,
    pub(crate) warp: Vec<u32>,
    pub(crate) uses: Vec<LayoutUse>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LayoutUse {
    pub(crate) shape: Vec<u32>,
    pub(crate) elem: String,
    pub(crate) count: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct FunctionView {
    pub(crate) name: String,
    pub(crate) warps: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) tmem_columns: u32,
    /// The number of ops. Live ranges and accesses refer to an op by its index in program order.
    pub(crate) ops: usize,
    /// The row of each op in the `.sched` pane.
    pub(crate) rows: Vec<usize>,
    /// Spans of ops. Either all warps or one warp role executes a span.
    pub(crate) parts: Vec<RoleSpanView>,
    pub(crate) buffers: Vec<BufferView>,
    pub(crate) warp_roles: Vec<RoleView>,
    pub(crate) pipelines: Vec<PipelineView>,
    pub(crate) loops: Vec<LoopView>,
}

/// A span of consecutive ops.
#[derive(Debug, Serialize)]
pub(crate) struct RoleSpanView {
    /// Index of the warp role; none for all warps.
    pub(crate) warp_role: Option<u32>,
    pub(crate) ops: [usize; 2],
}

#[derive(Debug, Serialize)]
pub(crate) struct BufferView {
    pub(crate) name: String,
    pub(crate) elem: String,
    pub(crate) elem_bytes: u32,
    pub(crate) shape: Vec<u32>,
    /// For each bit of an element offset in the buffer, the element (row-major index in the tile) at the offset with only this bit
    /// set.
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

#[derive(Debug, Serialize)]
pub(crate) struct AccessView {
    /// Number of the op.
    pub(crate) op: usize,
    pub(crate) mnemonic: &'static str,
    /// The access kind as a verb, such as `reads`.
    pub(crate) does: &'static str,
    pub(crate) proxy: &'static str,
    pub(crate) atom: String,
    /// The wavefronts of one warp instruction.
    pub(crate) passes: Option<Wavefronts>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RoleView {
    pub(crate) name: String,
    pub(crate) first_warp: u32,
    pub(crate) warps: u32,
    pub(crate) registers: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PipelineView {
    pub(crate) name: String,
    pub(crate) buffers: Vec<u32>,
    pub(crate) depth: u32,
    pub(crate) fill: String,
    pub(crate) producer: u32,
    pub(crate) consumers: Vec<u32>,
    /// Arrival count of the mbarrier that signals a filled stage.
    pub(crate) full: u32,
    /// Arrival count of the mbarrier that signals a released stage.
    pub(crate) empty: u32,
}

/// The schedule of a pipelined loop.
#[derive(Debug, Serialize)]
pub(crate) struct LoopView {
    pub(crate) index: u32,
    /// The initiation interval, in cycles.
    pub(crate) interval: u32,
    /// Lower bound of the interval from the units that the ops occupy, in cycles.
    pub(crate) resource_bound: u32,
    /// Lower bound of the interval from dependences between iterations, in cycles.
    pub(crate) recurrence_bound: u32,
    /// Whether `wgmma` ops stay in flight until those of the next iteration are issued.
    pub(crate) in_flight: bool,
    pub(crate) ops: Vec<ScheduledOp>,
    /// How long the ops of one iteration occupy the units.
    pub(crate) occupied: Vec<OccupiedSpan>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ScheduledOp {
    pub(crate) text: String,
    pub(crate) source_position: i64,
    pub(crate) stage: u32,
    pub(crate) cycle: u32,
}

/// A span of cycles in which an op occupies a unit.
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
    pub(crate) source_position: i64,
}
