//! Pipeline barriers with the semantics of hardware mbarriers: each counts arrivals, and waiters test the parity of its phase. Data
//! of asynchronous copies arrives as late as possible: when the first waiter passes the barrier.
//!
//! If CTAs of a cluster fill stages together, each arrival is forwarded to the peers with its TMA copies.

use super::in_flight::CopyChunk;

/// A vector clock: for each warp role, the last event that happens before the clock's owner. A missing entry means zero.
pub(super) type VectorClock = Vec<u32>;

/// The static configuration of a pipeline.
#[derive(Clone)]
pub(crate) struct PipelineConfig {
    pub(crate) depth: usize,
    /// Arrivals that complete a phase, for filled and for empty stages.
    pub(crate) counts: [u32; 2],
    /// Whether asynchronous copies fill a stage, and whether these are TMA copies.
    pub(crate) copies: bool,
    pub(crate) tma_copies: bool,
    /// For each side, whether a single thread arrives.
    pub(crate) single_arrival: [bool; 2],
    /// Whether one thread per warp releases a stage.
    pub(crate) by_warps: bool,
    /// For each side, whether the arrival is the completion of MMAs.
    pub(crate) mmas: [bool; 2],
    /// CTAs that fill the pipeline together, and the buffers that they multicast.
    pub(crate) ctas: u32,
    pub(crate) multicast: Vec<usize>,
}

/// A message to the peer CTAs: `threads` threads arrived at a stage of a pipeline and filled it with `chunks`.
#[derive(Clone)]
pub(crate) struct RemoteArrival {
    pub(super) pipeline: usize,
    pub(super) stage: usize,
    pub(super) side: BarrierSide,
    pub(super) threads: u32,
    pub(super) chunks: Vec<CopyChunk>,
}

/// The two barriers of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierSide {
    Full,
    Empty,
}

#[derive(Default)]
struct Barrier {
    /// Number of completed phases.
    completed: u64,
    arrived: u32,
    /// All arrivals of this CTA's threads, and all arrivals of other CTAs.
    own: u64,
    others: u64,
    /// Merged vector clocks of the arrivals in the current phase, and in all completed phases.
    pending: VectorClock,
    vector_clock: VectorClock,
    /// Copies attached to the current phase, and copies of completed phases that no waiter has picked up.
    expected: Vec<CopyChunk>,
    landing: Vec<CopyChunk>,
}

pub(super) struct Pipelines {
    configs: Vec<PipelineConfig>,
    /// By pipeline, stage and side.
    barriers: Vec<Vec<[Barrier; 2]>>,
}

impl Pipelines {
    pub(super) fn new(configs: &[PipelineConfig]) -> Pipelines {
        let stages = |config: &PipelineConfig| (0..config.depth).map(|_| Default::default()).collect();
        Pipelines { configs: configs.to_vec(), barriers: configs.iter().map(stages).collect() }
    }

    pub(super) fn depth(&self, pipeline: usize) -> usize {
        self.barriers[pipeline].len()
    }
    pub(super) fn by_copies(&self, pipeline: usize) -> bool {
        self.configs[pipeline].copies
    }
    pub(super) fn by_tma(&self, pipeline: usize) -> bool {
        self.configs[pipeline].tma_copies
    }
    /// Returns whether several CTAs fill a pipeline.
    pub(super) fn is_cross_cta(&self, pipeline: usize) -> bool {
        self.configs[pipeline].ctas > 1
    }
    /// Returns whether the CTAs that fill a pipeline multicast a buffer.
    pub(super) fn is_multicast(&self, pipeline: usize, buffer: usize) -> bool {
        self.configs[pipeline].multicast.contains(&buffer)
    }
    pub(super) fn by_mma(&self, pipeline: usize, side: BarrierSide) -> bool {
        self.configs[pipeline].mmas[side as usize]
    }

    fn barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> &mut Barrier {
        &mut self.barriers[pipeline][stage][side as usize]
    }

    /// Returns whether the phase of this parity is complete. At the start, the phase of parity 1 counts as complete, as for an
    /// mbarrier.
    pub(super) fn is_phase_complete(&mut self, pipeline: usize, stage: usize, side: BarrierSide, parity: u64) -> bool {
        self.barrier(pipeline, stage, side).completed & 1 != parity & 1
    }

    /// Threads of this CTA arrive, with their vector clock and attached copies.
    pub(super) fn arrive(
        &mut self,
        pipeline: usize,
        stage: usize,
        side: BarrierSide,
        threads: u32,
        vector_clock: &VectorClock,
        copies: Vec<CopyChunk>,
    ) {
        let threads = self.arrivals(pipeline, side, threads);
        self.barrier(pipeline, stage, side).own += u64::from(threads);
        self.complete(pipeline, stage, side, threads, vector_clock, copies);
    }

    /// Threads of another CTA arrive. A remote fill is valid only if this CTA has released the stage as often as it was filled
    /// before.
    pub(super) fn remote_arrive(
        &mut self,
        RemoteArrival { pipeline, stage, side, threads, chunks }: RemoteArrival,
    ) -> Result<(), String> {
        let threads = self.arrivals(pipeline, side, threads);
        let (ctas, counts) = (u64::from(self.configs[pipeline].ctas), self.configs[pipeline].counts);
        let left =
            self.barrier(pipeline, stage, BarrierSide::Empty).own * ctas / u64::from(counts[BarrierSide::Empty as usize]).max(1);
        let filled = self.barrier(pipeline, stage, BarrierSide::Full).others / (ctas - 1).max(1);
        let may = side == BarrierSide::Empty || filled <= left;
        self.barrier(pipeline, stage, side).others += u64::from(threads);
        self.complete(pipeline, stage, side, threads, &VectorClock::new(), chunks);
        may.then_some(())
            .ok_or_else(|| format!("stage {stage} of pipeline{pipeline} was filled by another CTA before this one released it"))
    }

    /// Returns the arrivals with which `threads` threads count.
    fn arrivals(&self, pipeline: usize, side: BarrierSide, threads: u32) -> u32 {
        let config = &self.configs[pipeline];
        match side {
            _ if config.single_arrival[side as usize] => 1,
            BarrierSide::Empty if config.by_warps => threads / 32,
            _ => threads,
        }
    }

    fn complete(
        &mut self,
        pipeline: usize,
        stage: usize,
        side: BarrierSide,
        threads: u32,
        vector_clock: &VectorClock,
        copies: Vec<CopyChunk>,
    ) {
        let count = self.configs[pipeline].counts[side as usize];
        let barrier = self.barrier(pipeline, stage, side);
        merge_clocks(&mut barrier.pending, vector_clock);
        barrier.expected.extend(copies);
        barrier.arrived += threads;
        while barrier.arrived >= count {
            barrier.arrived -= count;
            barrier.completed += 1;
            let pending = barrier.pending.clone();
            merge_clocks(&mut barrier.vector_clock, &pending);
            barrier.landing.append(&mut barrier.expected);
        }
    }

    /// Returns the clock that a waiter merges and the copies that become visible.
    pub(super) fn take_completed(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> (VectorClock, Vec<CopyChunk>) {
        let barrier = self.barrier(pipeline, stage, side);
        (barrier.vector_clock.clone(), std::mem::take(&mut barrier.landing))
    }

    /// Records the event of a warp role at which copies became visible.
    pub(super) fn copies_completed(&mut self, pipeline: usize, stage: usize, warp_role: usize, event: u32) {
        let vector_clock = &mut self.barrier(pipeline, stage, BarrierSide::Full).vector_clock;
        vector_clock[warp_role] = vector_clock[warp_role].max(event);
    }
}

pub(super) fn merge_clocks(own: &mut VectorClock, other: &VectorClock) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_completes_when_all_have_arrived() {
        let by_threads = PipelineConfig {
            depth: 2,
            counts: [64, 32],
            copies: false,
            tma_copies: false,
            single_arrival: [false; 2],
            by_warps: false,
            mmas: [false; 2],
            ctas: 1,
            multicast: Vec::new(),
        };
        let mut pipelines = Pipelines::new(&[by_threads]);
        // A newly initialised barrier behaves as if a phase of parity 1 were complete.
        assert!(
            pipelines.is_phase_complete(0, 1, BarrierSide::Empty, 1) && !pipelines.is_phase_complete(0, 1, BarrierSide::Empty, 0)
        );
        pipelines.arrive(0, 1, BarrierSide::Full, 32, &vec![3, 0], Vec::new());
        assert!(!pipelines.is_phase_complete(0, 1, BarrierSide::Full, 0));
        assert_eq!(pipelines.take_completed(0, 1, BarrierSide::Full).0, VectorClock::new());
        pipelines.arrive(0, 1, BarrierSide::Full, 32, &vec![2, 7], Vec::new());
        assert!(
            pipelines.is_phase_complete(0, 1, BarrierSide::Full, 0) && !pipelines.is_phase_complete(0, 0, BarrierSide::Full, 0)
        );
        assert_eq!(pipelines.take_completed(0, 1, BarrierSide::Full).0, [3, 7]);
    }
}
