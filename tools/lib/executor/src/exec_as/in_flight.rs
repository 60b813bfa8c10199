//! Copies and MMAs in flight. Copies arrive, and MMAs release their operands, as late as the waits permit.
//!
//! The threads of a warp role run in lockstep, so their groups are counted together.

use super::hazards::Fault;
use base::Op as OpId;
use std::collections::VecDeque;

/// A chunk that one thread copies with one instruction.
#[derive(Clone)]
pub(super) struct CopyChunk {
    pub(super) buffer: usize,
    /// Address in the CTA's memory.
    pub(super) start: usize,
    pub(super) data: Vec<u8>,
    pub(super) warp: usize,
    pub(super) op: u32,
    /// Whether TMA writes the chunk. TMA uses the async proxy, like MMA operand reads.
    pub(super) by_tma: bool,
}

/// The operand bytes that a warp's part of an MMA reads.
pub(super) struct MmaRead {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) warp: usize,
    pub(super) op: u32,
}

/// The outstanding operations of a warp role.
#[derive(Default)]
struct Queues {
    /// Committed copy groups, oldest first, and the open group.
    groups: VecDeque<Vec<CopyChunk>>,
    open: Vec<CopyChunk>,
    /// Outstanding TMA copies. They are not part of a `cp.async` group, so `wait_group` does not cover them.
    tma_copies: Vec<CopyChunk>,
    mmas: VecDeque<Vec<MmaRead>>,
}

#[derive(Default)]
pub(super) struct InFlight {
    warp_roles: Vec<Queues>,
    /// The current warp role.
    warp_role: usize,
    /// For each byte, the op whose copy in flight writes it, counted from 1; 0 means none.
    arriving: Vec<u32>,
    /// For each byte, an op whose MMA in flight reads it, and the number of such reads.
    read: Vec<(u32, u32)>,
}

impl InFlight {
    pub(super) fn switch_role(&mut self, warp_role: usize) {
        self.warp_role = warp_role;
        if self.warp_roles.len() <= warp_role {
            self.warp_roles.resize_with(warp_role + 1, Queues::default);
        }
    }

    fn current_queues(&mut self) -> &mut Queues {
        self.switch_role(self.warp_role);
        &mut self.warp_roles[self.warp_role]
    }

    /// Takes the outstanding copies of the current role: TMA copies, or those of all copy groups. The pipeline barrier completes
    /// them.
    pub(super) fn take_copies(&mut self, by_tma: bool) -> Vec<CopyChunk> {
        let own = self.current_queues();
        if by_tma {
            return std::mem::take(&mut own.tma_copies);
        }
        own.groups.drain(..).chain([std::mem::take(&mut own.open)]).flatten().collect()
    }

    /// Marks copies as arrived.
    pub(super) fn complete_copies(&mut self, chunks: &[CopyChunk]) {
        for chunk in chunks {
            self.arriving[chunk.start..chunk.start + chunk.data.len()].fill(0);
        }
    }

    /// Begins a copy that another CTA issued.
    pub(super) fn begin_copy(&mut self, chunk: &CopyChunk) {
        let end = chunk.start + chunk.data.len();
        if self.arriving.len() < end {
            self.arriving.resize(end, 0);
        }
        self.arriving[chunk.start..end].fill(chunk.op + 1);
    }

    pub(super) fn copy(&mut self, chunk: CopyChunk) {
        self.begin_copy(&chunk);
        let own = self.current_queues();
        if chunk.by_tma { own.tma_copies.push(chunk) } else { own.open.push(chunk) }
    }

    /// Commits the open copy group.
    pub(super) fn commit(&mut self) {
        let own = self.current_queues();
        own.groups.push_back(std::mem::take(&mut own.open));
    }

    /// Completes and returns the copies of all groups except the last `pending`.
    pub(super) fn complete_copy_groups(&mut self, pending: usize) -> Vec<CopyChunk> {
        let own = self.current_queues();
        let done = own.groups.len().saturating_sub(pending);
        let chunks: Vec<CopyChunk> = own.groups.drain(..done).flatten().collect();
        self.complete_copies(&chunks);
        chunks
    }

    /// Begins an MMA that stays in flight.
    pub(super) fn begin_mma(&mut self) {
        self.current_queues().mmas.push_back(Vec::new());
    }

    pub(super) fn add_mma_read(&mut self, read: MmaRead) {
        let end = read.start + read.length;
        if self.read.len() < end {
            self.read.resize(end, (0, 0));
        }
        self.read[read.start..end].iter_mut().for_each(|(reader, count)| (*reader, *count) = (read.op, *count + 1));
        self.current_queues().mmas.back_mut().expect("an MMA was started").push(read);
    }

    /// Completes all MMAs except the last `pending`. Returns their reads.
    pub(super) fn complete_mma_groups(&mut self, pending: usize) -> Vec<MmaRead> {
        let own = self.current_queues();
        let done = own.mmas.len().saturating_sub(pending);
        let reads: Vec<MmaRead> = own.mmas.drain(..done).flatten().collect();
        for read in &reads {
            self.read[read.start..read.start + read.length].iter_mut().for_each(|(_, count)| *count -= 1);
        }
        reads
    }

    /// Checks that no copy to these bytes is in flight.
    pub(super) fn check_no_copy(&self, start: usize, length: usize) -> Result<(), Fault> {
        let end = self.arriving.len().min(start.saturating_add(length));
        let bytes = self.arriving.get(start..end).unwrap_or_default();
        // A branchless scan of all bytes is much faster than a search for the first.
        if bytes.iter().fold(0, |all, op| all | op) == 0 {
            return Ok(());
        }
        let copy_in_flight = bytes.iter().find(|op| **op > 0);
        copy_in_flight.map_or(Ok(()), |op| Err(Fault::InFlight { op: OpId(op - 1) }))
    }

    /// Checks that no MMA in flight reads these bytes.
    pub(super) fn check_no_mma_read(&self, start: usize, length: usize) -> Result<(), Fault> {
        let end = self.read.len().min(start.saturating_add(length));
        let bytes = self.read.get(start..end).unwrap_or_default();
        if bytes.iter().fold(0, |all, (_, count)| all | count) == 0 {
            return Ok(());
        }
        let reader = bytes.iter().find(|(_, count)| *count > 0);
        reader.map_or(Ok(()), |(op, _)| Err(Fault::MmaInFlight { op: OpId(*op) }))
    }
}
