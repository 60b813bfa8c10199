//! The state of a CTA between ops.

use crate::race_detector::hazards::Hazards;
use crate::race_detector::pipelines::RemoteArrival;
use crate::value::Value;
use base::Value as Id;
use std::time::Instant;

/// The position of a CTA: its tile block, the grid and its rank.
#[derive(Clone, Copy, Debug)]
pub struct BlockPosition {
    /// The index of the tile block in the grid.
    pub index: [u32; 3],
    /// Number of tile blocks along x, y and z.
    pub grid: [u32; 3],
    /// The rank of the CTA among the CTAs that share the tile block.
    pub rank: u32,
    /// The linear number of the CTA in the grid.
    pub linear: u64,
}

impl BlockPosition {
    pub(crate) fn new(linear: u64, grid: [u32; 3], ctas_per_tile_block: u32) -> BlockPosition {
        let [x, y, _] = grid.map(u64::from);
        let (tile_block, rank) = (linear / u64::from(ctas_per_tile_block), (linear % u64::from(ctas_per_tile_block)) as u32);
        let index = [tile_block % x, tile_block / x % y, tile_block / x / y].map(|i| i as u32);
        BlockPosition { index, grid, rank, linear }
    }
}

/// The state of a CTA between ops.
pub(crate) struct CtaState {
    pub(crate) block_position: BlockPosition,
    /// The indices of the tile blocks that the CTA processes, its own first.
    pub(crate) processed_blocks: Vec<[u32; 3]>,
    /// The run-time value of each SSA value. `None` before its definition.
    pub(crate) values: Vec<Option<Value>>,
    /// Text that the CTA printed and the scheduler has not yet collected.
    pub(crate) printed: String,
    /// Whether the current `loop` iteration executed an access that may synchronise with other tile blocks.
    pub(crate) synchronised: bool,
    /// The index of the current warp role.
    pub(crate) warp_role: usize,
    /// The seed of the warp-role scheduler.
    pub(crate) seed: u64,
    /// Number of ops that the CTA may still execute.
    pub(crate) ops_left: u64,
    /// The time after which the run fails. `None`: the run has no time limit.
    pub(crate) deadline: Option<Instant>,
    /// Number of nested reductions that are running.
    pub(crate) reduction_depth: u32,
    /// Shared memory and the race detector, for `.as` and `.sched`. `None` before their first use.
    pub(crate) hazards: Option<Box<Hazards>>,
    /// Arrivals from other CTAs of the cluster that this CTA has not received yet.
    pub(crate) remote_arrivals: Vec<RemoteArrival>,
}

impl CtaState {
    pub(crate) fn new(
        block_position: BlockPosition,
        value_count: usize,
        max_ops: u64,
        deadline: Option<Instant>,
        seed: u64,
    ) -> CtaState {
        CtaState {
            block_position,
            processed_blocks: vec![block_position.index],
            values: vec![None; value_count],
            printed: String::new(),
            synchronised: false,
            warp_role: 0,
            seed,
            ops_left: max_ops,
            deadline,
            reduction_depth: 0,
            hazards: None,
            remote_arrivals: Vec::new(),
        }
    }

    /// Returns the run-time value of an SSA value. `None` before its definition.
    pub(crate) fn defined_value(&self, id: Id) -> Option<&Value> {
        self.values[id.0 as usize].as_ref()
    }
}
