//! Copies and MMAs in flight. Copies arrive, and MMAs release their operands, as late as the waits permit.
//!
//! The threads of a warp role run in lockstep. A role therefore has one sequence of copy groups and one sequence of MMA groups for
//! all its threads.

use super::hazards::AccessFault;
use base::Op as OpId;
use std::collections::VecDeque;

/// Contiguous bytes of a copy: the bytes of a thread's `cp.async` instruction, or a run of a TMA copy.
#[derive(Clone)]
pub(crate) struct CopyChunk {
    /// The number of the destination buffer.
    pub(crate) buffer: usize,
    /// The address of the first byte in the CTA's memory.
    pub(crate) start: usize,
    pub(crate) data: Vec<u8>,
    /// The number of the copying warp within the CTA.
    pub(crate) warp: usize,
    /// The number of the op that issued the copy.
    pub(crate) op: u32,
    /// Whether TMA writes the chunk. TMA writes and MMA operand reads both use the async proxy, so no fence is needed between them.
    pub(crate) by_tma: bool,
}

/// Contiguous operand bytes that an MMA of a warp reads.
pub(crate) struct MmaRead {
    /// The address of the first byte in the CTA's memory.
    pub(crate) start: usize,
    /// The number of bytes.
    pub(crate) length: usize,
    /// The number of the reading warp within the CTA.
    pub(crate) warp: usize,
    /// The number of the MMA op.
    pub(crate) op: u32,
}

/// The copies and MMAs of a warp role that are in flight.
#[derive(Default)]
struct RoleQueues {
    /// The committed copy groups, oldest first.
    copy_groups: VecDeque<Vec<CopyChunk>>,
    /// The `cp.async` copies that are not committed yet.
    open_group: Vec<CopyChunk>,
    /// The TMA copies. They are not part of a `cp.async` group, so `wait_group` does not cover them.
    tma_copies: Vec<CopyChunk>,
    /// The MMA groups, oldest first.
    mma_groups: VecDeque<Vec<MmaRead>>,
}

/// The copies and MMAs of a CTA that are in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    role_queues: Vec<RoleQueues>,
    /// The index of the current warp role.
    warp_role: usize,
    /// For each byte, the number of the op whose copy in flight writes the byte, plus 1. 0 if no copy in flight writes the byte.
    copy_ops: Vec<u32>,
    /// For each byte, the number of an op whose MMA in flight reads the byte, and the number of reads by MMAs in flight.
    mma_reads: Vec<(u32, u32)>,
}

impl InFlight {
    /// Makes `warp_role` the current role, whose copies and MMAs the other functions use. The first call for a role creates its
    /// queues.
    pub(crate) fn switch_role(&mut self, warp_role: usize) {
        self.warp_role = warp_role;
        if self.role_queues.len() <= warp_role {
            self.role_queues.resize_with(warp_role + 1, RoleQueues::default);
        }
    }

    /// Returns the queues of the current role.
    fn current_queues(&mut self) -> &mut RoleQueues {
        self.switch_role(self.warp_role);
        &mut self.role_queues[self.warp_role]
    }

    /// Removes and returns copies of the current role that are in flight: its TMA copies with `by_tma`, otherwise the `cp.async`
    /// copies of all its groups. A pipeline barrier completes these copies later.
    pub(crate) fn take_copies(&mut self, by_tma: bool) -> Vec<CopyChunk> {
        let queues = self.current_queues();
        if by_tma {
            return std::mem::take(&mut queues.tma_copies);
        }
        queues.copy_groups.drain(..).chain([std::mem::take(&mut queues.open_group)]).flatten().collect()
    }

    /// Marks these copies as no longer in flight.
    pub(crate) fn complete_copies(&mut self, chunks: &[CopyChunk]) {
        for chunk in chunks {
            self.copy_ops[chunk.start..chunk.start + chunk.data.len()].fill(0);
        }
    }

    /// Marks the destination bytes of a copy as bytes to which a copy is in flight.
    pub(crate) fn begin_copy(&mut self, chunk: &CopyChunk) {
        let end = chunk.start + chunk.data.len();
        if self.copy_ops.len() < end {
            self.copy_ops.resize(end, 0);
        }
        self.copy_ops[chunk.start..end].fill(chunk.op + 1);
    }

    /// Issues a copy of the current role.
    pub(crate) fn issue_copy(&mut self, chunk: CopyChunk) {
        self.begin_copy(&chunk);
        let queues = self.current_queues();
        if chunk.by_tma { queues.tma_copies.push(chunk) } else { queues.open_group.push(chunk) }
    }

    /// Commits the open copy group.
    pub(crate) fn commit_copies(&mut self) {
        let queues = self.current_queues();
        queues.copy_groups.push_back(std::mem::take(&mut queues.open_group));
    }

    /// Completes and returns the copies of all groups except the last `pending`.
    pub(crate) fn complete_copy_groups(&mut self, pending: usize) -> Vec<CopyChunk> {
        let queues = self.current_queues();
        let completed_count = queues.copy_groups.len().saturating_sub(pending);
        let chunks: Vec<CopyChunk> = queues.copy_groups.drain(..completed_count).flatten().collect();
        self.complete_copies(&chunks);
        chunks
    }

    /// Opens an MMA group of the current role. Later MMA reads of the role belong to this group.
    pub(crate) fn open_mma_group(&mut self) {
        self.current_queues().mma_groups.push_back(Vec::new());
    }

    /// Adds a read to the open MMA group of the current role.
    pub(crate) fn add_mma_read(&mut self, read: MmaRead) {
        let end = read.start + read.length;
        if self.mma_reads.len() < end {
            self.mma_reads.resize(end, (0, 0));
        }
        self.mma_reads[read.start..end].iter_mut().for_each(|(reader, count)| (*reader, *count) = (read.op, *count + 1));
        self.current_queues().mma_groups.back_mut().expect("`open_mma_group` precedes the reads of an MMA").push(read);
    }

    /// Completes all MMA groups except the last `pending`. Returns the reads of the completed groups.
    pub(crate) fn complete_mma_groups(&mut self, pending: usize) -> Vec<MmaRead> {
        let queues = self.current_queues();
        let completed_count = queues.mma_groups.len().saturating_sub(pending);
        let reads: Vec<MmaRead> = queues.mma_groups.drain(..completed_count).flatten().collect();
        for read in &reads {
            self.mma_reads[read.start..read.start + read.length].iter_mut().for_each(|(_, count)| *count -= 1);
        }
        reads
    }

    /// Checks that no copy to these bytes is in flight.
    pub(crate) fn check_no_copy(&self, start: usize, length: usize) -> Result<(), AccessFault> {
        let end = self.copy_ops.len().min(start.saturating_add(length));
        let bytes = self.copy_ops.get(start..end).unwrap_or_default();
        // A branchless scan of all bytes is much faster than a search for the first byte with a copy.
        if bytes.iter().fold(0, |all, op| all | op) == 0 {
            return Ok(());
        }
        let copy_in_flight = bytes.iter().find(|op| **op > 0);
        copy_in_flight.map_or(Ok(()), |op| Err(AccessFault::InFlight { op: OpId(op - 1) }))
    }

    /// Checks that no MMA in flight reads these bytes.
    pub(crate) fn check_no_mma_read(&self, start: usize, length: usize) -> Result<(), AccessFault> {
        let end = self.mma_reads.len().min(start.saturating_add(length));
        let bytes = self.mma_reads.get(start..end).unwrap_or_default();
        if bytes.iter().fold(0, |all, (_, count)| all | count) == 0 {
            return Ok(());
        }
        let reader = bytes.iter().find(|(_, count)| *count > 0);
        reader.map_or(Ok(()), |(op, _)| Err(AccessFault::MmaInFlight { op: OpId(*op) }))
    }
}
