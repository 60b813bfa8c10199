//! Barriers of pipes as the hardware has them: each counts arrivals of threads, and is in a phase of which waiters know the parity.
//! What asynchronous copies fill a slot with arrives as late as it may: when somebody first waits for that slot.
//!
//! Where blocks of a cluster fill the slots together, each arrival is told to the others, with the boxes that it is about.

use super::under_way::Piece;

/// Up to which event of each agent another knows that everything has happened.
pub(super) type Known = Vec<u32>;

/// A pipe of a program.
#[derive(Clone)]
pub(crate) struct Ring {
    pub(crate) depth: usize,
    /// Arrivals that complete a phase: of filled slots and of free ones.
    pub(crate) counts: [u32; 2],
    /// Whether what fills a slot are copies, and whether boxes, for which one thread asks.
    pub(crate) copies: bool,
    pub(crate) boxes: bool,
    /// Of either side whether one thread arrives, and whether it does so when its products are complete.
    pub(crate) alone: [bool; 2],
    /// Whether one thread of each warp frees a slot for all of it.
    pub(crate) by_warps: bool,
    pub(crate) products: [bool; 2],
    /// Blocks that fill it together, and the buffers of which they do.
    pub(crate) blocks: u32,
    pub(crate) multicast: Vec<usize>,
}

/// What a block tells the others of its cluster: that so many of its threads arrived at a slot of a pipe, which filled it with this.
#[derive(Clone)]
pub(crate) struct Told {
    pub(super) pipe: usize,
    pub(super) slot: usize,
    pub(super) side: Side,
    pub(super) threads: u32,
    pub(super) pieces: Vec<Piece>,
}

/// Which of a slot's barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
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
    pending: Known,
    known: Known,
    /// Copies that arrive with this phase, and that have arrived and nobody has looked for.
    expected: Vec<Piece>,
    landing: Vec<Piece>,
}

pub(super) struct Pipes {
    rings: Vec<Ring>,
    /// By pipe, slot and side.
    barriers: Vec<Vec<[Barrier; 2]>>,
}

impl Pipes {
    pub(super) fn new(rings: &[Ring]) -> Pipes {
        let slots = |ring: &Ring| (0..ring.depth).map(|_| Default::default()).collect();
        Pipes { rings: rings.to_vec(), barriers: rings.iter().map(slots).collect() }
    }

    pub(super) fn depth(&self, pipe: usize) -> usize {
        self.barriers[pipe].len()
    }
    pub(super) fn by_copies(&self, pipe: usize) -> bool {
        self.rings[pipe].copies
    }
    pub(super) fn by_boxes(&self, pipe: usize) -> bool {
        self.rings[pipe].boxes
    }
    /// Whether blocks fill a pipe together, and a buffer of it.
    pub(super) fn is_joined(&self, pipe: usize) -> bool {
        self.rings[pipe].blocks > 1
    }
    pub(super) fn is_multicast(&self, pipe: usize, buffer: usize) -> bool {
        self.rings[pipe].multicast.contains(&buffer)
    }
    pub(super) fn by_products(&self, pipe: usize, side: Side) -> bool {
        self.rings[pipe].products[side as usize]
    }

    fn barrier(&mut self, pipe: usize, slot: usize, side: Side) -> &mut Barrier {
        &mut self.barriers[pipe][slot][side as usize]
    }

    /// Whether the phase of this parity is over. Before the first phase was one of the other parity.
    pub(super) fn is_over(&mut self, pipe: usize, slot: usize, side: Side, parity: u64) -> bool {
        self.barrier(pipe, slot, side).completed & 1 != parity & 1
    }

    /// Threads arrive that know so much, with the copies that they have under way.
    pub(super) fn arrive(&mut self, pipe: usize, slot: usize, side: Side, threads: u32, known: &Known, copies: Vec<Piece>) {
        let threads = self.arrivals(pipe, side, threads);
        self.barrier(pipe, slot, side).own += u64::from(threads);
        self.complete(pipe, slot, side, threads, known, copies);
    }

    /// Threads of another block do. What they fill this block has left as often as it was filled so before; else they may not.
    pub(super) fn others_arrive(&mut self, Told { pipe, slot, side, threads, pieces }: Told) -> Result<(), String> {
        let threads = self.arrivals(pipe, side, threads);
        let (blocks, counts) = (u64::from(self.rings[pipe].blocks), self.rings[pipe].counts);
        let left = self.barrier(pipe, slot, Side::Empty).own * blocks / u64::from(counts[Side::Empty as usize]).max(1);
        let filled = self.barrier(pipe, slot, Side::Full).others / (blocks - 1).max(1);
        let may = side == Side::Empty || filled <= left;
        self.barrier(pipe, slot, side).others += u64::from(threads);
        self.complete(pipe, slot, side, threads, &Known::new(), pieces);
        may.then_some(())
            .ok_or_else(|| format!("slot {slot} of pipe{pipe} was filled by another block before this one had left it"))
    }

    fn arrivals(&self, pipe: usize, side: Side, threads: u32) -> u32 {
        let ring = &self.rings[pipe];
        match side {
            _ if ring.alone[side as usize] => 1,
            Side::Empty if ring.by_warps => threads / 32,
            _ => threads,
        }
    }

    fn complete(&mut self, pipe: usize, slot: usize, side: Side, threads: u32, known: &Known, copies: Vec<Piece>) {
        let count = self.rings[pipe].counts[side as usize];
        let barrier = self.barrier(pipe, slot, side);
        join(&mut barrier.pending, known);
        barrier.expected.extend(copies);
        barrier.arrived += threads;
        while barrier.arrived >= count {
            barrier.arrived -= count;
            barrier.completed += 1;
            let pending = barrier.pending.clone();
            join(&mut barrier.known, &pending);
            barrier.landing.append(&mut barrier.expected);
        }
    }

    /// What who waited gets to know, and the copies that are there now.
    pub(super) fn passed(&mut self, pipe: usize, slot: usize, side: Side) -> (Known, Vec<Piece>) {
        let barrier = self.barrier(pipe, slot, side);
        (barrier.known.clone(), std::mem::take(&mut barrier.landing))
    }

    /// Copies have landed at this event of an agent.
    pub(super) fn landed(&mut self, pipe: usize, slot: usize, agent: usize, event: u32) {
        let known = &mut self.barrier(pipe, slot, Side::Full).known;
        known[agent] = known[agent].max(event);
    }
}

pub(super) fn join(own: &mut Known, other: &Known) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_over_when_all_have_arrived() {
        let by_threads = Ring {
            depth: 2,
            counts: [64, 32],
            copies: false,
            boxes: false,
            alone: [false; 2],
            by_warps: false,
            products: [false; 2],
            blocks: 1,
            multicast: Vec::new(),
        };
        let mut pipes = Pipes::new(&[by_threads]);
        // A fresh barrier: as if a phase of parity 1 were over.
        assert!(pipes.is_over(0, 1, Side::Empty, 1) && !pipes.is_over(0, 1, Side::Empty, 0));
        pipes.arrive(0, 1, Side::Full, 32, &vec![3, 0], Vec::new());
        assert!(!pipes.is_over(0, 1, Side::Full, 0));
        assert_eq!(pipes.passed(0, 1, Side::Full).0, Known::new());
        pipes.arrive(0, 1, Side::Full, 32, &vec![2, 7], Vec::new());
        assert!(pipes.is_over(0, 1, Side::Full, 0) && !pipes.is_over(0, 0, Side::Full, 0));
        assert_eq!(pipes.passed(0, 1, Side::Full).0, [3, 7]);
    }
}
