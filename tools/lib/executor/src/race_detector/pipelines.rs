//! Pipeline barriers with the semantics of mbarriers. A barrier counts arrivals, and a waiter tests the parity of the phase. Data
//! of asynchronous copies arrives as late as possible: when the first waiter passes the barrier.
//!
//! If CTAs of a cluster fill stages together, each CTA forwards its arrivals, with their TMA copies, to the other CTAs.

use super::in_flight::CopyChunk;

/// A vector clock: for each warp role, the last event that happens before the next event of the clock's owner. The entries for
/// events of threads come first, then the entries for completed MMAs. A missing entry means zero.
pub(crate) type VectorClock = Vec<u32>;

/// The static configuration of a pipeline.
#[derive(Clone)]
pub(crate) struct PipelineConfig {
    /// Number of stages.
    pub(crate) depth: usize,
    /// For each side (full, empty), the number of arrivals that complete a phase.
    pub(crate) arrival_counts: [u32; 2],
    /// Whether asynchronous copies (`cp.async` or TMA) fill a stage.
    pub(crate) filled_by_copies: bool,
    /// Whether TMA copies fill a stage.
    pub(crate) filled_by_tma: bool,
    /// For each side (full, empty), whether one thread arrives for all threads of its role.
    pub(crate) arrives_with_one_thread: [bool; 2],
    /// Whether one thread per warp releases a stage.
    pub(crate) released_by_warps: bool,
    /// For each side (full, empty), whether the completion of MMAs arrives instead of threads.
    pub(crate) arrived_at_by_mmas: [bool; 2],
    /// Number of CTAs that fill the pipeline together.
    pub(crate) ctas: u32,
    /// The buffers of which each CTA multicasts a part to all CTAs.
    pub(crate) multicast_buffers: Vec<usize>,
}

/// A message to the other CTAs that fill a pipeline: `threads` threads of the sender arrived at a barrier of a pipeline stage.
/// `chunks` are the TMA copies that fill the stage.
#[derive(Clone)]
pub(crate) struct RemoteArrival {
    pub(crate) pipeline: usize,
    pub(crate) stage: usize,
    pub(crate) side: BarrierSide,
    pub(crate) threads: u32,
    pub(crate) chunks: Vec<CopyChunk>,
}

/// Selects one of the two barriers of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierSide {
    /// The barrier that signals a filled stage.
    Full,
    /// The barrier that signals a free stage.
    Empty,
}

/// The state of a barrier of a stage, which corresponds to an mbarrier.
#[derive(Default)]
struct Barrier {
    /// Number of completed phases.
    completed_phases: u64,
    /// Number of arrivals in the current phase.
    arrived: u32,
    /// Number of arrivals of this CTA in all phases.
    own_arrivals: u64,
    /// Number of arrivals of other CTAs in all phases.
    remote_arrivals: u64,
    /// Merged vector clocks of the arrivals in the current phase.
    pending_clock: VectorClock,
    /// Merged vector clocks of the arrivals in all completed phases.
    completed_clock: VectorClock,
    /// Copies that complete with the current phase.
    pending_copies: Vec<CopyChunk>,
    /// Copies of completed phases whose data is not visible yet, because no waiter has passed the barrier since.
    completed_copies: Vec<CopyChunk>,
}

/// The pipelines of a CTA and the state of their barriers.
pub(crate) struct Pipelines {
    configs: Vec<PipelineConfig>,
    /// The barriers, indexed by pipeline, stage and side.
    barriers: Vec<Vec<[Barrier; 2]>>,
}

impl Pipelines {
    pub(crate) fn new(configs: &[PipelineConfig]) -> Pipelines {
        let stages = |config: &PipelineConfig| (0..config.depth).map(|_| Default::default()).collect();
        Pipelines { configs: configs.to_vec(), barriers: configs.iter().map(stages).collect() }
    }

    /// Returns the number of stages of a pipeline.
    pub(crate) fn depth(&self, pipeline: usize) -> usize {
        self.barriers[pipeline].len()
    }
    /// Returns whether asynchronous copies fill the stages of a pipeline.
    pub(crate) fn is_filled_by_copies(&self, pipeline: usize) -> bool {
        self.configs[pipeline].filled_by_copies
    }
    /// Returns whether TMA copies fill the stages of a pipeline.
    pub(crate) fn is_filled_by_tma(&self, pipeline: usize) -> bool {
        self.configs[pipeline].filled_by_tma
    }
    /// Returns whether several CTAs fill a pipeline.
    pub(crate) fn is_cross_cta(&self, pipeline: usize) -> bool {
        self.configs[pipeline].ctas > 1
    }
    /// Returns whether the CTAs that fill a pipeline multicast a buffer.
    pub(crate) fn is_multicast(&self, pipeline: usize, buffer: usize) -> bool {
        self.configs[pipeline].multicast_buffers.contains(&buffer)
    }
    /// Returns whether the completion of MMAs arrives at the barriers of this side.
    pub(crate) fn is_arrived_at_by_mmas(&self, pipeline: usize, side: BarrierSide) -> bool {
        self.configs[pipeline].arrived_at_by_mmas[side as usize]
    }

    fn barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> &mut Barrier {
        &mut self.barriers[pipeline][stage][side as usize]
    }

    /// Returns whether the phase of this parity is complete. Before the first arrival, the phase of parity 1 is complete, as for an
    /// mbarrier.
    pub(crate) fn is_phase_complete(&mut self, pipeline: usize, stage: usize, side: BarrierSide, parity: u64) -> bool {
        self.barrier(pipeline, stage, side).completed_phases & 1 != parity & 1
    }

    /// Records the arrival of threads of this CTA at a barrier, with their vector clock and the copies that the arrival completes.
    pub(crate) fn arrive(
        &mut self,
        pipeline: usize,
        stage: usize,
        side: BarrierSide,
        threads: u32,
        vector_clock: &VectorClock,
        copies: Vec<CopyChunk>,
    ) {
        let arrivals = self.arrival_count(pipeline, side, threads);
        self.barrier(pipeline, stage, side).own_arrivals += u64::from(arrivals);
        self.add_arrivals(pipeline, stage, side, arrivals, vector_clock, copies);
    }

    /// Records the arrival of threads of another CTA at a barrier. Returns an error if these threads fill a stage before this CTA
    /// has released every earlier fill of that stage.
    pub(crate) fn remote_arrive(
        &mut self,
        RemoteArrival { pipeline, stage, side, threads, chunks }: RemoteArrival,
    ) -> Result<(), String> {
        let arrivals = self.arrival_count(pipeline, side, threads);
        let (ctas, arrival_counts) = (u64::from(self.configs[pipeline].ctas), self.configs[pipeline].arrival_counts);
        let releases = self.barrier(pipeline, stage, BarrierSide::Empty).own_arrivals * ctas
            / u64::from(arrival_counts[BarrierSide::Empty as usize]).max(1);
        let fills = self.barrier(pipeline, stage, BarrierSide::Full).remote_arrivals / (ctas - 1).max(1);
        let is_valid = side == BarrierSide::Empty || fills <= releases;
        self.barrier(pipeline, stage, side).remote_arrivals += u64::from(arrivals);
        self.add_arrivals(pipeline, stage, side, arrivals, &VectorClock::new(), chunks);
        is_valid
            .then_some(())
            .ok_or_else(|| format!("stage {stage} of pipeline{pipeline} was filled by another CTA before this one released it"))
    }

    /// Returns the number of arrivals that a barrier counts if `threads` threads arrive.
    fn arrival_count(&self, pipeline: usize, side: BarrierSide, threads: u32) -> u32 {
        let config = &self.configs[pipeline];
        match side {
            _ if config.arrives_with_one_thread[side as usize] => 1,
            BarrierSide::Empty if config.released_by_warps => threads / 32,
            _ => threads,
        }
    }

    /// Counts arrivals. Completes the phase if the arrivals suffice.
    fn add_arrivals(
        &mut self,
        pipeline: usize,
        stage: usize,
        side: BarrierSide,
        arrivals: u32,
        vector_clock: &VectorClock,
        copies: Vec<CopyChunk>,
    ) {
        let required = self.configs[pipeline].arrival_counts[side as usize];
        let barrier = self.barrier(pipeline, stage, side);
        merge_vector_clock(&mut barrier.pending_clock, vector_clock);
        barrier.pending_copies.extend(copies);
        barrier.arrived += arrivals;
        while barrier.arrived >= required {
            barrier.arrived -= required;
            barrier.completed_phases += 1;
            let pending_clock = barrier.pending_clock.clone();
            merge_vector_clock(&mut barrier.completed_clock, &pending_clock);
            barrier.completed_copies.append(&mut barrier.pending_copies);
        }
    }

    /// Returns the vector clock that a waiter merges, and the copies that become visible when the waiter passes the barrier.
    pub(crate) fn take_completed(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> (VectorClock, Vec<CopyChunk>) {
        let barrier = self.barrier(pipeline, stage, side);
        (barrier.completed_clock.clone(), std::mem::take(&mut barrier.completed_copies))
    }

    /// Records the event of a warp role at which its copies to a stage became visible.
    pub(crate) fn record_copy_completion(&mut self, pipeline: usize, stage: usize, warp_role: usize, event: u32) {
        let completed_clock = &mut self.barrier(pipeline, stage, BarrierSide::Full).completed_clock;
        completed_clock[warp_role] = completed_clock[warp_role].max(event);
    }
}

/// Merges `other` into `own`: each entry becomes the maximum of both entries.
pub(crate) fn merge_vector_clock(own: &mut VectorClock, other: &VectorClock) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_completes_when_all_threads_have_arrived() {
        let config = PipelineConfig {
            depth: 2,
            arrival_counts: [64, 32],
            filled_by_copies: false,
            filled_by_tma: false,
            arrives_with_one_thread: [false; 2],
            released_by_warps: false,
            arrived_at_by_mmas: [false; 2],
            ctas: 1,
            multicast_buffers: Vec::new(),
        };
        let mut pipelines = Pipelines::new(&[config]);
        // An initialised barrier behaves as if a phase of parity 1 were complete.
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
