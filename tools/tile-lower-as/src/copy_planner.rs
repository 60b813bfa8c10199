//! The state from which the asynchronous copies of a function are planned, and the plan of one copy.

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

/// The decisions from which copies and TMA stores are selected.
pub(crate) struct CopyInputs<'a> {
    pub(crate) accesses: &'a Accesses,
    pub(crate) mmas: &'a MmaSelections,
    /// Log2 of the warps of the CTA.
    pub(crate) warp_bits: usize,
    /// The occupancy that the author, an option or the kernel plan requests.
    pub(crate) occupancy: Option<u32>,
    /// Loads of `tcgen05` operands that threads load to registers.
    pub(crate) loads_by_threads: &'a BTreeSet<OpId>,
    /// Loads whose copies do not fit shared memory.
    pub(crate) exceeding_capacity: &'a BTreeSet<OpId>,
    /// Loads whose TMA copies do not fit shared memory.
    pub(crate) tma_loads_exceeding_smem: &'a BTreeSet<OpId>,
}

impl CopyInputs<'_> {
    /// Whether threads load a right operand to registers and store it to shared memory for a `tcgen05` MMA. A copy to shared memory
    /// before that would only add a pass through memory.
    pub(crate) fn is_stored_right_operand(&self, function: &Function, load: OpId) -> bool {
        let is_right = |op: &OpId| operands::defining_load(function, operands::mma_operands(function, *op)[1]) == Some(load);
        self.loads_by_threads.contains(&load) && self.mmas.tmem_mmas().any(|op| is_right(&op))
    }
}

/// The copy that replaces a load.
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
    /// `cp.async` in pieces of `bytes`, distributed over threads by `layout`. `whole`: no bound of the array is inside a piece.
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
    /// MMAs read their fragments, or the values from which fragments are computed.
    Mmas,
    /// The loop reads the full tile into registers and computes from it.
    Registers,
}

/// The reads of a buffer by MMAs: the layouts of fragments that threads load, and whether `wgmma` or `tcgen05` reads the buffer in
/// place.
#[derive(Default)]
pub(crate) struct MmaReads {
    /// The layouts of the fragments that threads load from the buffer.
    pub(crate) fragments: Vec<Layout>,
    /// Whether `wgmma` or `tcgen05` reads the buffer in place.
    pub(crate) in_place: bool,
}

/// Plans the copies of one function.
pub(crate) struct CopyPlanner<'a> {
    pub(crate) function: &'a Function,
    pub(crate) target: Target,
    pub(crate) tma_copies: TmaChoice,
    pub(crate) prefetch: Prefetch,
    /// The occupancy that the author, an option or the kernel plan requests in CTAs per SM, or 1.
    pub(crate) co_resident_ctas: u32,
    pub(crate) accesses: &'a Accesses,
    pub(crate) mmas: &'a MmaSelections,
    /// Log2 of the warps of the CTA.
    pub(crate) warp_bits: usize,
    pub(crate) uses: Uses<'a>,
    /// The block of each op.
    pub(crate) blocks: Vec<Option<Block>>,
    /// Facts about divisibility and contiguity, derived when the first TMA candidate needs them.
    pub(crate) facts: OnceCell<Facts<'a>>,
}

impl<'a> CopyPlanner<'a> {
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
