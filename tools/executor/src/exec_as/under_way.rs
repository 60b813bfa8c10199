//! What a block has under way: copies that arrive, and products that let go of what they read, as late as the waits allow.
//!
//! The threads of an agent run in step, so their groups are counted together.

use super::hazards::Fault;
use base::Op as OpId;
use std::collections::VecDeque;

/// What one thread copies at once.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) buffer: usize,
    /// In the block's memory.
    pub(super) start: usize,
    pub(super) data: Vec<u8>,
    pub(super) warp: usize,
    pub(super) op: u32,
    /// Whether the copy engine writes it, by the proxy by which products read.
    pub(super) by_engine: bool,
}

/// What a warp's part of a product reads.
pub(super) struct Read {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) warp: usize,
    pub(super) op: u32,
}

/// What an agent waits for.
#[derive(Default)]
struct Queues {
    /// Groups of copies that were ended, the oldest first, and the one that was not.
    groups: VecDeque<Vec<Piece>>,
    open: Vec<Piece>,
    /// What the copy engine brings, which groups do not hold: who waits for those does not wait for it.
    boxes: Vec<Piece>,
    products: VecDeque<Vec<Read>>,
}

#[derive(Default)]
pub(super) struct UnderWay {
    agents: Vec<Queues>,
    /// The agent that runs.
    agent: usize,
    /// For each byte the op whose copy goes there, counted from 1, and the one that reads it in flight, with how often.
    arriving: Vec<u32>,
    read: Vec<(u32, u32)>,
}

impl UnderWay {
    pub(super) fn turn(&mut self, agent: usize) {
        self.agent = agent;
        if self.agents.len() <= agent {
            self.agents.resize_with(agent + 1, Queues::default);
        }
    }

    fn own(&mut self) -> &mut Queues {
        self.turn(self.agent);
        &mut self.agents[self.agent]
    }

    /// All copies of the agent's threads that were not waited for, or those of the copy engine; who passes a pipe waits for them.
    pub(super) fn hand_over(&mut self, by_engine: bool) -> Vec<Piece> {
        let own = self.own();
        if by_engine {
            return std::mem::take(&mut own.boxes);
        }
        own.groups.drain(..).chain([std::mem::take(&mut own.open)]).flatten().collect()
    }

    /// Copies are there.
    pub(super) fn land(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.arriving[piece.start..piece.start + piece.data.len()].fill(0);
        }
    }

    /// A copy is under way that nobody here has asked for.
    pub(super) fn announce(&mut self, piece: &Piece) {
        let end = piece.start + piece.data.len();
        if self.arriving.len() < end {
            self.arriving.resize(end, 0);
        }
        self.arriving[piece.start..end].fill(piece.op + 1);
    }

    pub(super) fn copy(&mut self, piece: Piece) {
        self.announce(&piece);
        let own = self.own();
        if piece.by_engine { own.boxes.push(piece) } else { own.open.push(piece) }
    }

    /// Ends a group.
    pub(super) fn commit(&mut self) {
        let own = self.own();
        own.groups.push_back(std::mem::take(&mut own.open));
    }

    /// The copies of all groups but the last `pending`.
    pub(super) fn copies_done(&mut self, pending: usize) -> Vec<Piece> {
        let own = self.own();
        let done = own.groups.len().saturating_sub(pending);
        let pieces: Vec<Piece> = own.groups.drain(..done).flatten().collect();
        self.land(&pieces);
        pieces
    }

    /// Starts a product that stays in flight.
    pub(super) fn product(&mut self) {
        self.own().products.push_back(Vec::new());
    }

    pub(super) fn product_reads(&mut self, read: Read) {
        let end = read.start + read.length;
        if self.read.len() < end {
            self.read.resize(end, (0, 0));
        }
        self.read[read.start..end].iter_mut().for_each(|(reader, count)| (*reader, *count) = (read.op, *count + 1));
        self.own().products.back_mut().expect("a product was started").push(read);
    }

    /// What all products but the last `pending` read.
    pub(super) fn products_done(&mut self, pending: usize) -> Vec<Read> {
        let own = self.own();
        let done = own.products.len().saturating_sub(pending);
        let reads: Vec<Read> = own.products.drain(..done).flatten().collect();
        for read in &reads {
            self.read[read.start..read.start + read.length].iter_mut().for_each(|(_, count)| *count -= 1);
        }
        reads
    }

    /// That no copy to these bytes is under way.
    pub(super) fn arrived(&self, start: usize, length: usize) -> Result<(), Fault> {
        let end = self.arriving.len().min(start.saturating_add(length));
        let bytes = self.arriving.get(start..end).unwrap_or_default();
        // All bytes are looked at first, which is much faster than a search for the first.
        if bytes.iter().fold(0, |all, op| all | op) == 0 {
            return Ok(());
        }
        let on_the_way = bytes.iter().find(|op| **op > 0);
        on_the_way.map_or(Ok(()), |op| Err(Fault::UnderWay { op: OpId(op - 1) }))
    }

    /// That no product in flight reads these bytes.
    pub(super) fn free(&self, start: usize, length: usize) -> Result<(), Fault> {
        let end = self.read.len().min(start.saturating_add(length));
        let bytes = self.read.get(start..end).unwrap_or_default();
        if bytes.iter().fold(0, |all, (_, count)| all | count) == 0 {
            return Ok(());
        }
        let reader = bytes.iter().find(|(_, count)| *count > 0);
        reader.map_or(Ok(()), |(op, _)| Err(Fault::InFlight { op: OpId(*op) }))
    }
}
