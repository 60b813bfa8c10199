//! Race detector of a CTA: finds conflicting accesses of different warps that no barrier orders.
//!
//! Warps run in any order between barriers. Two accesses of different warps to a byte race if one of them writes and no barrier is
//! between them. The detector records a history of each byte: its last writer and its last readers.

use super::WarpRole;
use super::access_history::{AccessHistory, HistoryIndex, HistoryTable};
use super::cta_memory::{BufferPlacement, SharedMemory};
use super::in_flight::{CopyChunk, InFlight, MmaRead};
use super::pipelines::{BarrierSide, PipelineConfig, Pipelines, RemoteArrival, VectorClock, merge_vector_clock};
use base::Op as OpId;
use std::collections::BTreeMap;
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};

/// An access by one warp during one execution of an op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WarpAccess {
    /// The number of the op execution among all op executions of the CTA, counted from 1. 0 means no access.
    pub(crate) event: u32,
    /// The number of the op.
    pub(crate) op: u32,
    /// The number of the warp within the CTA, or a number from `MMAS_OF_ROLE` or `WARPS_OF_ROLE` on.
    pub(crate) warp: u16,
}

/// Base of the warp numbers that stand for several warps of a role: this value plus the index of the role.
const WARPS_OF_ROLE: u16 = u16::MAX - 64;
/// Base of the warp numbers that stand for the MMAs of a role that complete with a commit: this value plus the index of the role.
const MMAS_OF_ROLE: u16 = WARPS_OF_ROLE - 64;
/// Number of bytes of global memory whose histories are allocated together.
const PAGE_BYTES: usize = 4096;
/// If more pages of global memory have histories, the next barrier removes all histories. This applies to a CTA without warp
/// roles, where a barrier orders all earlier accesses before all later ones.
const MAX_PAGES: usize = 256;

/// The reason why the race detector rejects an access.
#[derive(Debug, PartialEq)]
pub(crate) enum AccessFault {
    /// The byte is outside the stage of the buffer. The stage has `bytes` bytes.
    Outside { byte: usize, bytes: usize },
    /// The byte was never written.
    Unwritten { byte: usize },
    /// The last write to the byte was through another buffer at the same address.
    Foreign { byte: usize, buffer: usize },
    /// The op's entry in the effects table does not list the access.
    Undeclared,
    /// A copy to the byte is in flight.
    InFlight { op: OpId },
    /// An MMA in flight reads the byte.
    MmaInFlight { op: OpId },
    /// An MMA or a TMA store reads data in shared memory without a proxy fence after the write.
    Unfenced,
    /// An unordered access of another warp conflicts. `writes` states whether the other warp wrote or read the byte.
    Race { op: OpId, writes: bool },
}

/// The happens-before state of a CTA: barriers order all warps of a role, and pipelines order roles.
#[derive(Debug, Default)]
pub(crate) struct HappensBefore {
    /// The current op execution.
    current: WarpAccess,
    /// The index of the current warp role.
    warp_role: usize,
    /// One vector clock per warp role: `vector_clocks[a][b]` is the last event of role `b` that happens before the next event of
    /// role `a`. With n roles, entry `n + b` is the last completed MMA of role `b`. A missing entry means zero.
    vector_clocks: Vec<VectorClock>,
    /// Whether the current op is an MMA that completes with its commit.
    completes_with_commit: bool,
    /// The warp role of each warp.
    role_of_warp: Vec<usize>,
}

impl HappensBefore {
    fn new(warp_roles: &[WarpRole]) -> HappensBefore {
        let count = warp_roles.len().max(1);
        let warps_with_role = warp_roles.iter().enumerate().flat_map(|(role, warp_role)| {
            (warp_role.first_warp..warp_role.first_warp + warp_role.warps).map(move |warp| (warp, role))
        });
        let mut role_of_warp = Vec::new();
        for (warp, role) in warps_with_role {
            role_of_warp.resize(role_of_warp.len().max(warp + 1), 0);
            role_of_warp[warp] = role;
        }
        HappensBefore { vector_clocks: vec![vec![0; 2 * count]; count], role_of_warp, ..HappensBefore::default() }
    }

    /// Returns the index of the current warp role.
    pub(crate) fn warp_role(&self) -> usize {
        self.warp_role
    }

    /// Returns the vector-clock entry to which an access belongs.
    fn clock_entry(&self, access: WarpAccess) -> usize {
        match access.warp {
            WARPS_OF_ROLE.. => usize::from(access.warp - WARPS_OF_ROLE),
            MMAS_OF_ROLE.. => self.mma_entry(usize::from(access.warp - MMAS_OF_ROLE)),
            warp => self.role_of_warp.get(usize::from(warp)).copied().unwrap_or(0),
        }
    }

    /// Returns the vector-clock entry of a role's MMAs.
    fn mma_entry(&self, warp_role: usize) -> usize {
        self.vector_clocks.len() + warp_role
    }

    /// Returns whether an access does not happen before the current op execution.
    fn is_unordered(&self, access: WarpAccess) -> bool {
        access.event > self.vector_clocks[self.warp_role][self.clock_entry(access)]
    }

    /// Checks an access of the current op against a history, and adds the access to the history.
    fn check_access(&self, history: &mut AccessHistory, warp: usize, writes: bool) -> Result<(), AccessFault> {
        let access = WarpAccess {
            warp: if self.completes_with_commit { MMAS_OF_ROLE + self.warp_role as u16 } else { warp as u16 },
            ..self.current
        };
        let own_entry = self.clock_entry(access);
        let races = |other: WarpAccess| self.is_unordered(other) && other.event != access.event && other.warp != access.warp;
        let fault = |other: WarpAccess, writes: bool| Err(AccessFault::Race { op: OpId(other.op), writes });
        if races(history.writer) {
            return fault(history.writer, true);
        }
        if !writes {
            let is_replaceable = |reader: &WarpAccess| self.clock_entry(*reader) == own_entry || !self.is_unordered(*reader);
            let reader_index = history.readers.iter().position(is_replaceable).unwrap_or(1);
            let reader = &mut history.readers[reader_index];
            let several_warps_read = self.is_unordered(*reader) && reader.warp != access.warp;
            let warp = if several_warps_read { WARPS_OF_ROLE + self.warp_role as u16 } else { access.warp };
            *reader = WarpAccess { warp, ..access };
            return Ok(());
        }
        if let Some(reader) = history.readers.iter().find(|reader| races(**reader)) {
            return fault(*reader, false);
        }
        history.writer = access;
        Ok(())
    }

    /// Checks an access to consecutive bytes, and records it in their histories. The outcome depends only on the history, so each
    /// run of bytes with equal histories needs one check.
    pub(crate) fn check_accesses(
        &self,
        table: &mut HistoryTable,
        bytes: &mut [HistoryIndex],
        warp: usize,
        writes: bool,
    ) -> Result<(), AccessFault> {
        let mut last: Option<(HistoryIndex, HistoryIndex)> = None;
        for run in bytes.chunk_by_mut(|a, b| a == b) {
            let after = match last {
                Some((before, after)) if before == run[0] => after,
                _ => {
                    let mut history = table.histories[run[0] as usize];
                    self.check_access(&mut history, warp, writes)?;
                    table.intern(history)
                }
            };
            last = Some((run[0], after));
            run.fill(after);
        }
        Ok(())
    }

    /// Records a barrier of all warps of the current role. The barrier orders their earlier accesses before their later ones.
    fn pass_barrier(&mut self) {
        self.vector_clocks[self.warp_role][self.warp_role] = self.current.event;
    }
}

/// The state of the race detector for a CTA: shared memory, copies and MMAs in flight, pipelines, and accesses to global memory.
pub(crate) struct Hazards {
    pub(crate) shared: SharedMemory,
    clock: HappensBefore,
    /// Whether the detector looks for races. If not, copies arrive immediately.
    checks_races: bool,
    /// The buffer accesses that the effects of the current op declare.
    declared_accesses: Vec<BufferAccess>,
    /// The event with which the current op completes, for example the completion of its MMA group.
    completes: Completes,
    pub(crate) in_flight: InFlight,
    pub(crate) pipelines: Pipelines,
    /// Arrivals to forward to the other CTAs of the cluster.
    pub(crate) remote_arrivals: Vec<RemoteArrival>,
    /// The message about a protocol violation by an arrival from another CTA. `None` without a violation.
    first_violation: Option<String>,
    /// The first warp of each warp role.
    first_warps: Vec<usize>,
    /// The histories of bytes in global memory, by page number. Without warp roles, a barrier makes them obsolete.
    global_histories: BTreeMap<u64, Box<[HistoryIndex; PAGE_BYTES]>>,
    global_history_table: HistoryTable,
}

impl Hazards {
    pub(crate) fn new(
        placements: &[BufferPlacement],
        checks_races: bool,
        warp_roles: &[WarpRole],
        pipelines: &[PipelineConfig],
    ) -> Hazards {
        Hazards {
            shared: SharedMemory::new(placements, checks_races),
            clock: HappensBefore::new(warp_roles),
            pipelines: Pipelines::new(pipelines),
            first_warps: warp_roles.iter().map(|warp_role| warp_role.first_warp).collect(),
            checks_races,
            remote_arrivals: Vec::new(),
            first_violation: None,
            declared_accesses: Vec::new(),
            completes: Completes::AtOnce,
            in_flight: InFlight::default(),
            global_histories: BTreeMap::new(),
            global_history_table: HistoryTable::default(),
        }
    }

    /// Switches to a warp role. Later calls number the warps of this role from 0.
    pub(crate) fn switch_role(&mut self, warp_role: usize) {
        self.clock.warp_role = warp_role;
        self.in_flight.switch_role(warp_role);
    }
    /// Converts the number of a warp within the current role to its number within the CTA.
    fn warp_in_cta(&self, warp: usize) -> usize {
        warp + self.first_warps.get(self.clock.warp_role).copied().unwrap_or(0)
    }

    /// Begins one execution of an op. Later accesses belong to this execution.
    pub(crate) fn begin_op(&mut self, op: OpId, declared_accesses: Vec<BufferAccess>, completes: Completes) {
        (self.declared_accesses, self.completes) = (declared_accesses, completes);
        self.clock.completes_with_commit = self.checks_races && completes == Completes::WithItsCommit;
        if self.stays_in_flight() {
            self.in_flight.open_mma_group();
        }
        self.clock.current = WarpAccess { event: self.clock.current.event + 1, op: op.0, warp: 0 };
        self.shared.compact_histories();
        if self.global_history_table.is_full() {
            self.global_history_table.compact(self.global_histories.values_mut().map(|page| &mut page[..]));
        }
    }

    /// Records a barrier of all warps of the current role. The barrier orders their earlier accesses before their later ones.
    pub(crate) fn pass_barrier(&mut self) {
        self.clock.pass_barrier();
        if self.first_warps.is_empty() && self.global_histories.len() > MAX_PAGES {
            self.global_histories.clear();
        }
    }

    /// Reads bytes of a buffer for a warp of the current role. Checks that the effects of the op declare the read. Also checks that
    /// no copy to the bytes is in flight, and that no write races with the read.
    pub(crate) fn read(&mut self, buffer: usize, byte: usize, out: &mut [u8], warp: usize) -> Result<(), AccessFault> {
        self.check_declared(buffer, AccessKind::needs_content)?;
        let start = self.shared.address(buffer, byte, out.len())?;
        self.in_flight.check_no_copy(start, out.len())?;
        let warp = self.warp_in_cta(warp);
        self.shared.read(buffer, byte, out, warp, &self.clock)?;
        let reads_through_async_proxy = self.uses_proxy(buffer, Proxy::Mma) || self.uses_proxy(buffer, Proxy::Tma);
        if self.checks_races && reads_through_async_proxy && self.shared.needs_fences(buffer) {
            self.shared.check_fenced(start, out.len())?;
        }
        if self.stays_in_flight() {
            self.in_flight.add_mma_read(MmaRead { start, length: out.len(), warp, op: self.clock.current.op });
        }
        Ok(())
    }
    /// Writes bytes of a buffer for a warp of the current role, with the same checks as `read`.
    pub(crate) fn write(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), AccessFault> {
        self.check_writable(buffer, byte, data.len())?;
        self.shared.write(buffer, byte, data, self.warp_in_cta(warp), &self.clock)
    }

    /// Checks that a copy may write a chunk, and records the write. Does not copy the data.
    pub(crate) fn check_copy(&mut self, buffer: usize, byte: usize, length: usize, warp: usize) -> Result<(), AccessFault> {
        let start = self.check_writable(buffer, byte, length)?;
        self.shared.record_access(start, length, self.warp_in_cta(warp), true, &self.clock)
    }

    /// Issues a chunk of a copy. The data arrives when a wait completes the copy, or at once if the detector ignores races.
    pub(crate) fn copy(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), AccessFault> {
        if !self.checks_races {
            return self.write(buffer, byte, data, warp);
        }
        let start = self.check_writable(buffer, byte, data.len())?;
        let warp = self.warp_in_cta(warp);
        self.shared.record_access(start, data.len(), warp, true, &self.clock)?;
        let by_tma = self.uses_proxy(buffer, Proxy::Tma);
        self.in_flight.issue_copy(CopyChunk { buffer, start, data: data.to_vec(), warp, op: self.clock.current.op, by_tma });
        Ok(())
    }

    /// Completes all copy groups of the role except the last `pending`. Other threads may read the data after a subsequent barrier.
    pub(crate) fn wait_for_copies(&mut self, pending: usize) {
        let chunks = self.in_flight.complete_copy_groups(pending);
        self.complete_copies(chunks);
    }

    /// Writes the data of copies that complete, and records the writes.
    fn complete_copies(&mut self, chunks: Vec<CopyChunk>) {
        for chunk in chunks {
            self.clock.current = WarpAccess { event: self.clock.current.event + 1, op: chunk.op, warp: 0 };
            self.clock.completes_with_commit = false;
            self.shared.complete_copy(&chunk, &self.clock);
        }
    }

    /// Executes a proxy fence: MMAs and TMA stores may then read the earlier writes of the role to shared memory.
    pub(crate) fn fence(&mut self) {
        self.shared.fence(self.clock.warp_role);
    }

    /// Records the arrival of all threads of the current role at a barrier of a stage. If copies fill the stage, the arrival
    /// also covers the role's copies in flight. The executor writes their data when the first waiter passes the completed phase.
    pub(crate) fn arrive_at_pipeline(&mut self, pipeline: usize, stage: usize, side: BarrierSide, threads: u32) {
        let mut vector_clock = self.clock.vector_clocks[self.clock.warp_role].clone();
        // An arrival by the completion of MMAs orders only the MMAs of the role. The accesses of its threads need another arrival.
        let entry = if self.pipelines.is_arrived_at_by_mmas(pipeline, side) {
            self.clock.mma_entry(self.clock.warp_role)
        } else {
            self.clock.warp_role
        };
        vector_clock[entry] = self.clock.current.event;
        let by_copies = side == BarrierSide::Full && self.pipelines.is_filled_by_copies(pipeline);
        let copies = if by_copies { self.in_flight.take_copies(self.pipelines.is_filled_by_tma(pipeline)) } else { Vec::new() };
        if self.pipelines.is_cross_cta(pipeline) {
            let chunks = copies.iter().filter(|chunk| self.pipelines.is_multicast(pipeline, chunk.buffer)).cloned().collect();
            self.remote_arrivals.push(RemoteArrival { pipeline, stage, side, threads, chunks });
        }
        self.pipelines.arrive(pipeline, stage, side, threads, &vector_clock, copies);
    }

    /// Receives an arrival from another CTA. The arrival violates the pipeline protocol if the destination of its TMA copies still
    /// has copies or MMA reads in flight.
    pub(crate) fn receive_arrival(&mut self, arrival: RemoteArrival) {
        for chunk in &arrival.chunks {
            let length = chunk.data.len();
            let not_in_use = self
                .in_flight
                .check_no_copy(chunk.start, length)
                .and_then(|()| self.in_flight.check_no_mma_read(chunk.start, length));
            if not_in_use.is_err() {
                self.first_violation = Some(format!(
                    "another CTA fills stage {} of pipeline{} while it is in use here",
                    arrival.stage, arrival.pipeline
                ));
            }
            self.in_flight.begin_copy(chunk);
        }
        let outcome = self.pipelines.remote_arrive(arrival);
        self.first_violation = self.first_violation.take().or(outcome.err());
    }

    /// Returns the message about a protocol violation by an arrival from another CTA, or `None` without a violation.
    pub(crate) fn first_violation(&self) -> Option<&str> {
        self.first_violation.as_deref()
    }

    /// Records that the current role passes a pipeline barrier: merges the vector clocks of the arrivals into the role's clock, and
    /// writes the data of the stage's copies.
    pub(crate) fn pass_pipeline_barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) {
        let (_, chunks) = self.pipelines.take_completed(pipeline, stage, side);
        if let Some(first) = chunks.first() {
            let (waiting_role, copying_role) =
                (self.clock.warp_role, self.clock.role_of_warp.get(first.warp).copied().unwrap_or(0));
            self.in_flight.complete_copies(&chunks);
            // The accesses of the copies belong to the warp role that issued them.
            self.clock.warp_role = copying_role;
            self.complete_copies(chunks);
            self.clock.warp_role = waiting_role;
            self.pipelines.record_copy_completion(pipeline, stage, copying_role, self.clock.current.event);
        }
        let (completed_clock, _) = self.pipelines.take_completed(pipeline, stage, side);
        merge_vector_clock(&mut self.clock.vector_clocks[self.clock.warp_role], &completed_clock);
    }

    /// Completes all MMA groups of the role except the last `pending`. The issuing warps may then overwrite the operands. Other
    /// warps need a subsequent barrier.
    pub(crate) fn wait_for_mmas(&mut self, pending: usize) {
        for MmaRead { start, length, warp, op } in self.in_flight.complete_mma_groups(pending) {
            self.clock.current = WarpAccess { event: self.clock.current.event + 1, op, warp: 0 };
            self.clock.completes_with_commit = false;
            // This access cannot race, so the result is irrelevant: `check_no_mma_read` rejected every write to these bytes.
            let _ = self.shared.record_access(start, length, warp, false, &self.clock);
        }
    }

    /// Returns whether the current op is an MMA that may read its operands until a wait completes its group.
    fn stays_in_flight(&self) -> bool {
        self.checks_races && self.completes == Completes::WithMmaGroup
    }

    /// Checks that the op declares a write to the buffer, and that no copy or MMA in flight uses the range. Returns the address of
    /// the range.
    fn check_writable(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, AccessFault> {
        self.check_declared(buffer, AccessKind::writes)?;
        let start = self.shared.address(buffer, byte, length)?;
        self.in_flight.check_no_copy(start, length)?;
        self.in_flight.check_no_mma_read(start, length)?;
        Ok(start)
    }

    /// Returns whether the current op accesses a buffer through this proxy.
    fn uses_proxy(&self, buffer: usize, proxy: Proxy) -> bool {
        self.declared_accesses.iter().any(|access| access.buffer.0 as usize == buffer && access.proxy == proxy)
    }

    /// Checks that the effects of the op declare an access of this kind to the buffer. Reason: the passes that place barriers and
    /// copies rely on the declared effects.
    fn check_declared(&self, buffer: usize, is_kind: fn(AccessKind) -> bool) -> Result<(), AccessFault> {
        let is_declared =
            self.declared_accesses.iter().any(|access| access.buffer.0 as usize == buffer && is_kind(access.access_kind));
        if is_declared { Ok(()) } else { Err(AccessFault::Undeclared) }
    }

    /// Checks an access to global memory for races, and records it.
    pub(crate) fn access_global(&mut self, address: u64, bytes: usize, warp: usize, writes: bool) -> Result<(), AccessFault> {
        if !self.checks_races {
            return Ok(());
        }
        let warp = self.warp_in_cta(warp);
        let (mut chunk_address, end) = (address, address.saturating_add(bytes as u64));
        while chunk_address < end {
            let first = chunk_address as usize % PAGE_BYTES;
            let count = (PAGE_BYTES - first).min((end - chunk_address) as usize);
            let page = self.global_histories.entry(chunk_address / PAGE_BYTES as u64).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            self.clock.check_accesses(&mut self.global_history_table, &mut page[first..first + count], warp, writes)?;
            chunk_address += count as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::effects::Proxy;
    use tileas::{Buffer, Space};

    /// Returns the state for two buffers at one address, as the scheduler places buffers with disjoint live ranges.
    fn overlapping_buffers() -> Hazards {
        let placement = BufferPlacement { base: 0, stage_bytes: 8, depth: 1, space: Space::Shared, peer_base: 0 };
        Hazards::new(&[placement, placement], true, &[], &[])
    }

    /// Returns the declared effects of an op that may read and write both buffers.
    fn declare_both() -> Vec<BufferAccess> {
        [0, 1]
            .map(|buffer| BufferAccess {
                buffer: Buffer(buffer),
                stage: None,
                access_kind: AccessKind::Changes,
                proxy: Proxy::Generic,
            })
            .to_vec()
    }

    #[test]
    fn undeclared_accesses_are_rejected() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(
            OpId(1),
            vec![BufferAccess { buffer: Buffer(0), stage: None, access_kind: AccessKind::Reads, proxy: Proxy::Generic }],
            Completes::AtOnce,
        );
        assert_eq!(hazards.write(0, 0, &[1], 0), Err(AccessFault::Undeclared));
        assert_eq!(hazards.read(1, 0, &mut [0], 0), Err(AccessFault::Undeclared));
    }

    #[test]
    fn a_barrier_orders_accesses_of_warps() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        hazards.write(0, 0, &[1; 8], 0).unwrap();
        hazards.begin_op(OpId(2), declare_both(), Completes::AtOnce);
        let mut out = [0; 4];
        hazards.read(0, 0, &mut out, 0).unwrap();
        assert_eq!(hazards.read(0, 4, &mut out, 1), Err(AccessFault::Race { op: OpId(1), writes: true }));
        hazards.pass_barrier();
        hazards.begin_op(OpId(2), declare_both(), Completes::AtOnce);
        hazards.read(0, 4, &mut out, 1).unwrap();
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        assert_eq!(hazards.write(0, 4, &[2; 4], 0), Err(AccessFault::Race { op: OpId(2), writes: false }));
        hazards.write(0, 4, &[2; 4], 1).unwrap();
    }

    /// Each op execution may add at most one history. Reason: a large access must need only a few checks.
    #[test]
    fn a_run_of_bytes_with_equal_accesses_has_one_history() {
        let placement = BufferPlacement { base: 0, stage_bytes: 4096, depth: 1, space: Space::Shared, peer_base: 0 };
        let mut hazards = Hazards::new(&[placement], true, &[], &[]);
        for op in 1..100 {
            hazards.begin_op(OpId(op), declare_both(), Completes::AtOnce);
            (0..4096).step_by(16).for_each(|byte| hazards.write(0, byte, &[1; 16], 0).unwrap());
            hazards.pass_barrier();
            hazards.begin_op(OpId(op), declare_both(), Completes::AtOnce);
            hazards.read(0, 0, &mut [0; 4096], 1).unwrap();
            hazards.pass_barrier();
        }
        assert!(hazards.shared.history_count() <= 2 * 100, "{}", hazards.shared.history_count());
    }

    #[test]
    fn unused_histories_are_removed() {
        let mut table = HistoryTable::default();
        let mut bytes = [0; 4];
        for event in 1..10 {
            let clock = HappensBefore {
                current: WarpAccess { event, op: event, warp: 0 },
                vector_clocks: vec![vec![event, event]],
                ..HappensBefore::new(&[])
            };
            clock.check_accesses(&mut table, &mut bytes[..2], 0, true).unwrap();
        }
        let used_history = table.histories[bytes[0] as usize];
        table.compact(std::iter::once(&mut bytes[..]));
        assert_eq!((table.histories.len(), bytes, table.histories[1]), (2, [1, 1, 0, 0], used_history));
    }

    #[test]
    fn a_write_races_with_the_reader_in_the_other_warp() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        hazards.write(0, 0, &[1], 0).unwrap();
        hazards.pass_barrier();
        hazards.begin_op(OpId(2), declare_both(), Completes::AtOnce);
        hazards.read(0, 0, &mut [0], 0).unwrap();
        hazards.read(0, 0, &mut [0], 1).unwrap();
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        assert!(hazards.write(0, 0, &[1], 1).is_err() && hazards.write(0, 0, &[1], 0).is_err());
    }

    #[test]
    fn data_of_another_buffer_cannot_be_read() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        assert_eq!(hazards.read(0, 3, &mut [0], 0), Err(AccessFault::Unwritten { byte: 3 }));
        hazards.write(0, 3, &[7], 0).unwrap();
        hazards.begin_op(OpId(2), declare_both(), Completes::AtOnce);
        hazards.write(1, 3, &[8], 0).unwrap();
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        assert_eq!(hazards.read(0, 3, &mut [0], 0), Err(AccessFault::Foreign { byte: 3, buffer: 1 }));
        assert_eq!(hazards.read(0, 8, &mut [0], 0), Err(AccessFault::Outside { byte: 8, bytes: 8 }));
    }

    #[test]
    fn a_barrier_orders_accesses_to_global_memory() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        hazards.access_global(100, 4, 0, true).unwrap();
        hazards.begin_op(OpId(2), declare_both(), Completes::AtOnce);
        assert!(hazards.access_global(103, 4, 1, false).is_err());
        hazards.pass_barrier();
        hazards.access_global(103, 4, 1, false).unwrap();
    }

    #[test]
    fn a_wait_makes_the_data_of_its_copy_groups_readable() {
        let mut hazards = overlapping_buffers();
        let begin = |hazards: &mut Hazards, op| hazards.begin_op(OpId(op), declare_both(), Completes::AtOnce);
        begin(&mut hazards, 1);
        hazards.copy(0, 0, &[1; 4], 0).unwrap();
        hazards.in_flight.commit_copies();
        begin(&mut hazards, 2);
        hazards.copy(0, 4, &[2; 4], 0).unwrap();
        hazards.in_flight.commit_copies();
        hazards.wait_for_copies(1);
        begin(&mut hazards, 3);
        assert_eq!(hazards.read(0, 4, &mut [0], 0), Err(AccessFault::InFlight { op: OpId(2) }));
        assert_eq!(hazards.write(0, 4, &[0], 0), Err(AccessFault::InFlight { op: OpId(2) }));
        hazards.read(0, 0, &mut [0], 0).unwrap();
        // Another warp needs a barrier after the wait. A barrier after the copy is not enough.
        assert_eq!(hazards.read(0, 0, &mut [0], 1), Err(AccessFault::Race { op: OpId(1), writes: true }));
        hazards.pass_barrier();
        begin(&mut hazards, 4);
        hazards.read(0, 0, &mut [0], 1).unwrap();
    }

    #[test]
    fn an_mma_needs_a_fence_after_cp_async_but_not_after_tma() {
        for (proxy, expected) in [(Proxy::Tma, Ok(())), (Proxy::Copies, Err(AccessFault::Unfenced))] {
            let mut hazards = overlapping_buffers();
            let access = |access_kind, proxy| vec![BufferAccess { buffer: Buffer(0), stage: None, access_kind, proxy }];
            hazards.begin_op(OpId(1), access(AccessKind::Changes, Proxy::Generic), Completes::AtOnce);
            hazards.write(0, 0, &[1; 4], 0).unwrap();
            hazards.pass_barrier();
            hazards.begin_op(OpId(2), access(AccessKind::Changes, proxy), Completes::AtOnce);
            hazards.copy(0, 0, &[2; 4], 0).unwrap();
            let chunks = hazards.in_flight.take_copies(proxy == Proxy::Tma);
            hazards.in_flight.complete_copies(&chunks);
            hazards.complete_copies(chunks);
            hazards.pass_barrier();
            hazards.begin_op(OpId(3), access(AccessKind::Reads, Proxy::Mma), Completes::AtOnce);
            assert_eq!(hazards.read(0, 0, &mut [0; 4], 0), expected);
        }
    }

    #[test]
    fn a_group_wait_skips_tma_copies_and_a_pipeline_wait_skips_copy_groups() {
        let warp_roles = [WarpRole { name: "main".into(), first_warp: 0, warps: 1 }];
        let pipeline = PipelineConfig {
            depth: 1,
            arrival_counts: [1, 32],
            filled_by_copies: true,
            filled_by_tma: true,
            arrives_with_one_thread: [true, false],
            released_by_warps: false,
            arrived_at_by_mmas: [false; 2],
            ctas: 1,
            multicast_buffers: Vec::new(),
        };
        let placement = BufferPlacement { base: 0, stage_bytes: 8, depth: 1, space: Space::Shared, peer_base: 0 };
        let mut hazards =
            Hazards::new(&[placement, BufferPlacement { base: 8, peer_base: 8, ..placement }], true, &warp_roles, &[pipeline]);
        hazards.switch_role(0);
        for (buffer, proxy) in [(0, Proxy::Copies), (1, Proxy::Tma)] {
            let access = BufferAccess { buffer: Buffer(buffer), stage: None, access_kind: AccessKind::Writes, proxy };
            hazards.begin_op(OpId(buffer + 1), vec![access], Completes::AtOnce);
            hazards.copy(buffer as usize, 0, &[7; 8], 0).unwrap();
        }
        hazards.in_flight.commit_copies();
        hazards.wait_for_copies(0);
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        hazards.read(0, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(1, 0, &mut [0; 8], 0), Err(AccessFault::InFlight { op: OpId(2) }));
        hazards.copy(0, 0, &[7; 8], 0).unwrap();
        hazards.in_flight.commit_copies();
        hazards.arrive_at_pipeline(0, 0, BarrierSide::Full, 1);
        hazards.pass_pipeline_barrier(0, 0, BarrierSide::Full);
        hazards.begin_op(OpId(4), declare_both(), Completes::AtOnce);
        hazards.read(1, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(0, 0, &mut [0; 8], 0), Err(AccessFault::InFlight { op: OpId(3) }));
    }

    #[test]
    fn a_wait_does_not_complete_copies_of_an_uncommitted_group() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        hazards.copy(0, 0, &[1], 0).unwrap();
        hazards.wait_for_copies(0);
        assert_eq!(hazards.read(0, 0, &mut [0], 0), Err(AccessFault::InFlight { op: OpId(1) }));
    }

    #[test]
    fn operands_of_an_mma_in_flight_cannot_be_overwritten() {
        let mut hazards = overlapping_buffers();
        hazards.begin_op(OpId(1), declare_both(), Completes::AtOnce);
        hazards.write(0, 0, &[1; 8], 0).unwrap();
        hazards.pass_barrier();
        hazards.begin_op(OpId(2), declare_both(), Completes::WithMmaGroup);
        hazards.read(0, 0, &mut [0; 4], 1).unwrap();
        hazards.pass_barrier();
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        assert_eq!(hazards.copy(0, 0, &[1], 1), Err(AccessFault::MmaInFlight { op: OpId(2) }));
        hazards.wait_for_mmas(0);
        hazards.begin_op(OpId(3), declare_both(), Completes::AtOnce);
        // After the wait, the issuing warp may overwrite the operand. Other warps need a barrier.
        hazards.copy(0, 0, &[1], 1).unwrap();
        assert_eq!(hazards.copy(0, 1, &[1], 0), Err(AccessFault::Race { op: OpId(2), writes: false }));
    }
}
