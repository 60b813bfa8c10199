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
    /// Source positions in the files, shared by the lines of all panes.
    pub(crate) source_positions: Vec<SourcePosition>,
    pub(crate) panes: Vec<Pane>,
    pub(crate) layouts: Vec<LayoutView>,
    pub(crate) functions: Vec<FunctionView>,
    /// The report of `tile-time`, whose lines are those of the PTX.
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
    /// A word, such as `sched`.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// For each line its number in the file, as other tools name it.
    pub(crate) numbers: Vec<u32>,
    /// For each line the index of its source position; -1 for none.
    pub(crate) source_positions: Vec<i64>,
}

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
    /// Ops, in program order; the times of live_ranges are numbers of ops.
    pub(crate) ops: usize,
    /// The row of each op in the `.sched` pane.
    pub(crate) rows: Vec<usize>,
    /// Spans of ops: of all warps, and of concurrent warp roles.
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
    /// Bases of the offset's bits, in elements.
    pub(crate) offsets: Vec<u32>,
    /// `shared` (in bytes) or `tensor` (in TMEM columns).
    pub(crate) space: &'static str,
    /// Size of one stage.
    pub(crate) size: u32,
    /// Its offset in memory, and its number of stages.
    pub(crate) offset: u32,
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
    pub(crate) does: &'static str,
    pub(crate) proxy: &'static str,
    pub(crate) atom: String,
    /// Wavefronts of one warp instruction.
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
    /// Arrivals that fill a stage, and that release one.
    pub(crate) full: u32,
    pub(crate) empty: u32,
}

/// The schedule of a pipelined loop.
#[derive(Debug, Serialize)]
pub(crate) struct LoopView {
    pub(crate) index: u32,
    pub(crate) interval: u32,
    pub(crate) resource_bound: u32,
    pub(crate) recurrence_bound: u32,
    pub(crate) in_flight: bool,
    pub(crate) ops: Vec<ScheduledOp>,
    /// Unit occupancy of the ops of one iteration.
    pub(crate) occupied: Vec<Occupied>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ScheduledOp {
    pub(crate) text: String,
    pub(crate) source_position: i64,
    pub(crate) stage: u32,
    pub(crate) cycle: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Occupied {
    /// Position of the op in the body.
    pub(crate) op: usize,
    pub(crate) unit: String,
    pub(crate) start: i64,
    pub(crate) cycles: i64,
}

/// A decision of a pass.
#[derive(Debug, Serialize)]
pub(crate) struct Decision {
    pub(crate) pass: String,
    pub(crate) outcome: String,
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) source_position: i64,
}
