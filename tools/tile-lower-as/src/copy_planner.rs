//! The planner of the asynchronous copies and TMA stores of a function, and the plan of one copy. The planner's methods are in
//! `async_copies`, `async_copy_non_mma_loads`, `operand_load_layouts`, `tma_loads` and `tma_stores`.

use crate::access_layouts::Accesses;
use crate::mma_selection::MmaSelections;
use crate::operands::{self, Uses};
use crate::plan_options::{PlanOptions, Prefetch, TmaChoice};
use base::ir::Op as OpId;
use base::{Block, Target};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use tensormap::Map;
use tileaa::Function;
use tileaa::facts::Facts;
use tileas::{BufferInfo, Layout};

/// The inputs of the selection of asynchronous copies and TMA stores.
pub(crate) struct CopyInputs<'a> {
    /// The vector width and layout of each memory access.
    pub(crate) accesses: &'a Accesses,
    /// The selected instruction of each MMA.
    pub(crate) mmas: &'a MmaSelections,
    /// Log2 of the warps of the CTA.
    pub(crate) warp_bits: usize,
    /// The occupancy in CTAs per SM that the author, an option or the kernel plan requests.
    pub(crate) occupancy: Option<u32>,
    /// Loads of `tcgen05` operands that threads execute, because TMA does not copy these operands.
    pub(crate) loads_by_threads: &'a BTreeSet<OpId>,
    /// Loads whose copies do not fit shared memory.
    pub(crate) exceeding_capacity: &'a BTreeSet<OpId>,
    /// Loads whose TMA copies do not fit shared memory.
    pub(crate) tma_loads_exceeding_smem: &'a BTreeSet<OpId>,
}

impl CopyInputs<'_> {
    /// Whether threads execute `load` and store its tile to shared memory, as the right operand of a `tcgen05` MMA. Such a load
    /// does not become an asynchronous copy, because the tile would pass through shared memory twice.
    pub(crate) fn is_stored_right_operand(&self, function: &Function, load: OpId) -> bool {
        let is_right = |op: &OpId| operands::defining_load(function, operands::mma_operands(function, *op)[1]) == Some(load);
        self.loads_by_threads.contains(&load) && self.mmas.tmem_mmas().any(|op| is_right(&op))
    }
}

/// The plan of the asynchronous copy that replaces a load.
#[derive(Clone)]
pub(crate) struct Copy {
    /// The buffer that the copy fills.
    pub(crate) buffer: BufferInfo,
    /// The instructions that execute the copy.
    pub(crate) method: CopyMethod,
    /// Whether MMAs or threads read the buffer.
    pub(crate) readers: Readers,
}

/// The instructions of an asynchronous copy.
#[derive(Clone)]
pub(crate) enum CopyMethod {
    /// `cp.async` in pieces of `bytes` bytes, which `layout` distributes over threads. If `whole`, no bound of the array is inside
    /// a piece.
    Pieces { layout: Layout, bytes: u32, whole: bool },
    /// TMA, with a tensor map.
    Tma(Map),
}

impl std::fmt::Display for CopyMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CopyMethod::Pieces { bytes, .. } => write!(f, "by cp.async in pieces of {bytes} bytes"),
            CopyMethod::Tma(map) => write!(f, "by TMA in tiles of {} bytes", map.tile_bytes()),
        }
    }
}

/// The readers of a copy's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// MMAs. They read the buffer directly, or threads read fragments of operands from the buffer.
    Mmas,
    /// Threads, which read the full tile into registers in its assigned layout.
    Registers,
}

/// How MMAs read the tile that a copy moves to a buffer.
#[derive(Default)]
pub(crate) struct MmaReads {
    /// The layouts of the fragments that threads load from the buffer.
    pub(crate) fragments: Vec<Layout>,
    /// Whether `wgmma` or `tcgen05` reads the buffer directly, without registers.
    pub(crate) in_place: bool,
}

/// Plans the asynchronous copies and TMA stores of one function.
pub(crate) struct CopyPlanner<'a> {
    pub(crate) function: &'a Function,
    pub(crate) target: Target,
    /// Whether TMA is used never, where it is profitable, or where it is possible.
    pub(crate) tma_copies: TmaChoice,
    /// Whether loads that no MMA reads are prefetched never, where it is profitable, or where it is possible.
    pub(crate) prefetch: Prefetch,
    /// The occupancy in CTAs per SM that the author, an option or the kernel plan requests; 1 without a request.
    pub(crate) co_resident_ctas: u32,
    /// The vector width and layout of each memory access.
    pub(crate) accesses: &'a Accesses,
    /// The selected instruction of each MMA.
    pub(crate) mmas: &'a MmaSelections,
    /// Log2 of the warps of the CTA.
    pub(crate) warp_bits: usize,
    /// The users of each value.
    pub(crate) uses: Uses<'a>,
    /// The block of each op, by op id.
    pub(crate) blocks: Vec<Option<Block>>,
    /// Facts about divisibility and contiguity, derived when the first TMA candidate needs them.
    pub(crate) facts: OnceCell<Facts<'a>>,
}

impl<'a> CopyPlanner<'a> {
    /// Creates a planner for a function from its inputs and options.
    pub(crate) fn new(function: &'a Function, inputs: &CopyInputs<'a>, target: Target, options: PlanOptions) -> CopyPlanner<'a> {
        CopyPlanner {
            function,
            target,
            tma_copies: options.tma_copies,
            prefetch: options.prefetch,
            co_resident_ctas: inputs.occupancy.unwrap_or(1),
            accesses: inputs.accesses,
            mmas: inputs.mmas,
            warp_bits: inputs.warp_bits,
            uses: Uses::collect(function),
            blocks: function.body.op_blocks(),
            facts: OnceCell::new(),
        }
    }
}
