//! Barriers of pipelines as the hardware has them: each counts arrivals of threads, and is in a phase of which waiters know the parity.
//! What asynchronous copies fill a stage with arrives as late as it may: when somebody first waits for that stage.
//!
//! Where blocks of a cluster fill the stages together, each arrival is remote_arrivals to the others, with the tma_copies that it is about.

use super::in_flight::CopyChunk;

/// Up to which event of each warp_role another knows that everything has happened.
pub(super) type VectorClock = Vec<u32>;

/// A pipeline of a program.
#[derive(Clone)]
pub(crate) struct PipelineConfig {
    pub(crate) depth: usize,
    /// Arrivals that complete a phase: of filled stages and of free ones.
    pub(crate) counts: [u32; 2],
    /// Whether what fills a stage are copies, and whether tma_copies, for which one thread asks.
    pub(crate) copies: bool,
    pub(crate) tma_copies: bool,
    /// Of either side whether one thread arrives, and whether it does so when its mmas are complete.
    pub(crate) single_arrival: [bool; 2],
    /// Whether one thread of each warp frees a stage for all of it.
    pub(crate) by_warps: bool,
    pub(crate) mmas: [bool; 2],
    /// Blocks that fill it together, and the buffers of which they do.
    pub(crate) blocks: u32,
    pub(crate) multicast: Vec<usize>,
}

/// What a block tells the others of its cluster: that so many of its threads arrived at a stage of a pipeline, which filled it with this.
#[derive(Clone)]
pub(crate) struct RemoteArrival {
    pub(super) pipeline: usize,
    pub(super) stage: usize,
    pub(super) side: BarrierSide,
    pub(super) threads: u32,
    pub(super) chunks: Vec<CopyChunk>,
}

/// Which of a stage's barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierSide {
    Full,
    Empty,
}

#[derive(Default)]
struct Barrier {
    /// Phases that were completed.
    completed: u64,
    arrived: u32,
    /// Arrivals of this block's own threads, and of others.
    own: u64,
    others: u64,
    /// What those know who arrived in this phase, and in those before.
    pending: VectorClock,
    vector_clock: VectorClock,
    /// Copies that arrive with this phase, and that have arrived and nobody has looked for.
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
    /// Whether blocks fill a pipeline together, and a buffer of it.
    pub(super) fn is_cross_cta(&self, pipeline: usize) -> bool {
        self.configs[pipeline].blocks > 1
    }
    pub(super) fn is_multicast(&self, pipeline: usize, buffer: usize) -> bool {
        self.configs[pipeline].multicast.contains(&buffer)
    }
    pub(super) fn by_mma(&self, pipeline: usize, side: BarrierSide) -> bool {
        self.configs[pipeline].mmas[side as usize]
    }

    fn barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> &mut Barrier {
        &mut self.barriers[pipeline][stage][side as usize]
    }

    /// Whether the phase of this parity is over. Before the first phase was one of the other parity.
    pub(super) fn is_phase_complete(&mut self, pipeline: usize, stage: usize, side: BarrierSide, parity: u64) -> bool {
        self.barrier(pipeline, stage, side).completed & 1 != parity & 1
    }

    /// Threads arrive that know so much, with the copies that they have in flight.
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

    /// Threads of another block do. What they fill this block has left as often as it was filled so before; else they may not.
    pub(super) fn remote_arrive(
        &mut self,
        RemoteArrival { pipeline, stage, side, threads, chunks }: RemoteArrival,
    ) -> Result<(), String> {
        let threads = self.arrivals(pipeline, side, threads);
        let (blocks, counts) = (u64::from(self.configs[pipeline].blocks), self.configs[pipeline].counts);
        let left =
            self.barrier(pipeline, stage, BarrierSide::Empty).own * blocks / u64::from(counts[BarrierSide::Empty as usize]).max(1);
        let filled = self.barrier(pipeline, stage, BarrierSide::Full).others / (blocks - 1).max(1);
        let may = side == BarrierSide::Empty || filled <= left;
        self.barrier(pipeline, stage, side).others += u64::from(threads);
        self.complete(pipeline, stage, side, threads, &VectorClock::new(), chunks);
        may.then_some(())
            .ok_or_else(|| format!("stage {stage} of pipeline{pipeline} was filled by another CTA before this one released it"))
    }

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

    /// What who waited gets to know, and the copies that are there now.
    pub(super) fn take_completed(&mut self, pipeline: usize, stage: usize, side: BarrierSide) -> (VectorClock, Vec<CopyChunk>) {
        let barrier = self.barrier(pipeline, stage, side);
        (barrier.vector_clock.clone(), std::mem::take(&mut barrier.landing))
    }

    /// Copies have copies_completed at this event of an warp_role.
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
            blocks: 1,
            multicast: Vec::new(),
        };
        let mut pipelines = Pipelines::new(&[by_threads]);
        // A zero_init barrier: as if a phase of parity 1 were over.
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
