//! The accesses to tensor memory and the fences and commits of each warp, which the happens-before analysis records.

use crate::tmem::TMEM_LANES;

/// Number of groups of sixteen TMEM lanes.
pub(crate) const LANE_GROUPS: usize = TMEM_LANES / 16;

/// Maximum number of cells in the list of a warp's loads in flight. Reason: a program may load without ever waiting.
pub(crate) const MAX_OPEN_LOADS: usize = 1 << 16;

/// The state of the tensor-memory analysis for one cluster.
#[derive(Default)]
pub(crate) struct TmemAccesses {
    /// The cells of each CTA, by column and lane group.
    pub(crate) cells: Vec<Vec<TmemCell>>,
    /// For each warp, the number of its `before_thread_sync` fences.
    pub(crate) fence_counts: Vec<u32>,
    /// For each warp, the number of its commits.
    pub(crate) commit_counts: Vec<u32>,
    /// For each warp, the fence counts of all warps that its vector clock had at its last `after_thread_sync` fence.
    pub(crate) fence_snapshots: Vec<Vec<u32>>,
    /// For each warp, the commit counts of all warps that its vector clock had at its last `after_thread_sync` fence.
    pub(crate) completed_commits: Vec<Vec<u32>>,
    /// The cells (CTA and index) of each warp's loads that no `tcgen05.wait::ld` has covered.
    pub(crate) open_loads: Vec<Vec<(usize, usize)>>,
}

/// The last accesses to one TMEM column of one lane group.
#[derive(Clone, Default)]
pub(crate) struct TmemCell {
    pub(crate) write: Option<TmemAccess>,
    pub(crate) reads: Vec<TmemAccess>,
}

/// An access by a warp. If the vector clock of a second warp includes the fence or commit that orders the access, the access is
/// ordered before the second warp.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TmemAccess {
    pub(crate) warp: usize,
    /// The PTX line of the instruction.
    pub(crate) line: u32,
    /// The number of the first fence of `warp` that orders the access.
    pub(crate) ordering_fence: u32,
    /// The number of the first `tcgen05.commit` of `warp` that orders the access. 0 for loads and stores, which no commit orders.
    pub(crate) commits: u32,
}

impl TmemAccesses {
    /// Returns the initial state for a cluster of `ctas` CTAs with `warp_count` warps in all.
    pub(crate) fn new(warp_count: usize, ctas: usize) -> TmemAccesses {
        TmemAccesses {
            cells: vec![Vec::new(); ctas],
            fence_counts: vec![0; warp_count],
            commit_counts: vec![0; warp_count],
            fence_snapshots: vec![vec![0; warp_count]; warp_count],
            completed_commits: vec![vec![0; warp_count]; warp_count],
            open_loads: vec![Vec::new(); warp_count],
        }
    }
}
