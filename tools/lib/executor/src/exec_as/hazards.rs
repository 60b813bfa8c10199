//! Hazard checker of a CTA: finds accesses that only a barrier can order and that no barrier orders.
//!
//! Warps run in any order between barriers. Two accesses of different warps to a byte race if one writes and no barrier is between
//! them. Each byte records its last writer and the readers since the last barrier.

use super::WarpRole;
use super::in_flight::{CopyChunk, InFlight, MmaRead};
use super::pipelines::{BarrierSide, PipelineConfig, Pipelines, RemoteArrival, VectorClock, merge_clocks};
use super::shared::{BufferPlacement, SharedMemory};
use base::Op as OpId;
use std::collections::BTreeMap;
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};

/// One access by a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WarpAccess {
    /// The execution number of the op, counted from 1; 0 means none.
    event: u32,
    op: u32,
    warp: u16,
}

/// Warp number that stands for several warps of a role: this value plus the role's index.
const MULTIPLE_WARPS: u16 = u16::MAX - 64;
/// Warp number that stands for a role's MMAs that complete only with a commit: this value plus the role's index.
const MMAS: u16 = MULTIPLE_WARPS - 64;
const PAGE: usize = 4096;
/// If more pages exist, the next barrier drops them.
const KEPT_PAGES: usize = 256;

/// The history of a byte: the accesses with which a later access may race.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    writer: WarpAccess,
    /// The last readers of up to two warp roles that are not ordered with each other.
    readers: [WarpAccess; 2],
}

/// Index of a mark (the access history of a byte) in the mark table. A byte without accesses has mark 0.
pub(crate) type MarkNumber = u32;

/// Interned marks. Neighbouring bytes usually have equal marks, so each byte stores an index. An access compares and replaces marks
/// per run.
pub(crate) struct MarkTable {
    marks: Vec<Mark>,
    /// Recently added marks by hash, so that equal marks usually share an index.
    recent: Box<[MarkNumber; RECENT]>,
    /// Table size at which unused marks are collected.
    limit: usize,
}

const RECENT: usize = 256;
/// 18 MB of marks.
const FIRST_LIMIT: usize = 1 << 19;

impl Default for MarkTable {
    fn default() -> Self {
        MarkTable { marks: vec![Mark::default()], recent: Box::new([0; RECENT]), limit: FIRST_LIMIT }
    }
}

impl MarkTable {
    fn intern(&mut self, mark: Mark) -> MarkNumber {
        let hash = |touch: WarpAccess| touch.event.wrapping_mul(31) ^ u32::from(touch.warp);
        let [first, second] = mark.readers.map(hash);
        let place = (hash(mark.writer) ^ first.rotate_left(7) ^ second.rotate_left(13)) as usize % RECENT;
        let recent = self.recent[place];
        if self.marks[recent as usize] == mark {
            return recent;
        }
        self.marks.push(mark);
        self.recent[place] = (self.marks.len() - 1) as MarkNumber;
        self.recent[place]
    }

    #[cfg(test)]
    pub(crate) fn mark_count(&self) -> usize {
        self.marks.len()
    }
    pub(crate) fn is_full(&self) -> bool {
        self.marks.len() >= self.limit
    }

    /// Removes marks that no byte uses.
    pub(crate) fn compact<'a>(&mut self, bytes: impl Iterator<Item = &'a mut [MarkNumber]>) {
        let old = std::mem::replace(&mut self.marks, vec![Mark::default()]);
        let mut renamed: Vec<MarkNumber> = vec![0; old.len()];
        for number in bytes.flatten() {
            if *number != 0 && renamed[*number as usize] == 0 {
                self.marks.push(old[*number as usize]);
                renamed[*number as usize] = (self.marks.len() - 1) as MarkNumber;
            }
            *number = renamed[*number as usize];
        }
        self.recent.fill(0);
        self.limit = FIRST_LIMIT.max(2 * self.marks.len());
    }
}

/// The reason why an access is rejected.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    Outside {
        byte: usize,
        bytes: usize,
    },
    Unwritten {
        byte: usize,
    },
    /// The byte holds data that was written through another buffer.
    Foreign {
        byte: usize,
        buffer: usize,
    },
    /// The op's entry in the effects table does not list the access.
    Undeclared,
    /// A copy to the byte is in flight.
    InFlight {
        op: OpId,
    },
    /// An MMA in flight reads the byte.
    MmaInFlight {
        op: OpId,
    },
    /// An MMA reads data in shared memory that was not fenced.
    Unfenced,
    /// The conflicting access and its kind.
    Race {
        op: OpId,
        writes: bool,
    },
}

/// The happens-before state of a CTA: barriers order all warps of a role, and pipelines order roles.
#[derive(Debug, Default)]
pub(crate) struct HazardClock {
    now: WarpAccess,
    warp_role: usize,
    /// One vector clock per warp role: `vector_clocks[a][b]` is the last event of `b` ordered before `a`. Entries `n..2n` are the
    /// completed MMAs of each role. A missing entry means zero.
    vector_clocks: Vec<VectorClock>,
    /// Whether the current op is an MMA that completes with its commit.
    mma: bool,
    /// Maps each warp to its role.
    warp_roles: Vec<usize>,
}

impl HazardClock {
    fn new(warp_roles: &[WarpRole]) -> HazardClock {
        let count = warp_roles.len().max(1);
        let of_warps = warp_roles.iter().enumerate().flat_map(|(number, warp_role)| {
            (warp_role.first_warp..warp_role.first_warp + warp_role.warps).map(move |warp| (warp, number))
        });
        let mut warps = Vec::new();
        for (warp, number) in of_warps {
            warps.resize(warps.len().max(warp + 1), 0);
            warps[warp] = number;
        }
        HazardClock { vector_clocks: vec![vec![0; 2 * count]; count], warp_roles: warps, ..HazardClock::default() }
    }

    pub(super) fn warp_role(&self) -> usize {
        self.warp_role
    }

    fn role_of(&self, touch: WarpAccess) -> usize {
        match touch.warp {
            MULTIPLE_WARPS.. => usize::from(touch.warp - MULTIPLE_WARPS),
            MMAS.. => self.mmas_of(usize::from(touch.warp - MMAS)),
            warp => self.warp_roles.get(usize::from(warp)).copied().unwrap_or(0),
        }
    }

    /// Returns the vector-clock entry of a role's MMAs.
    fn mmas_of(&self, warp_role: usize) -> usize {
        self.vector_clocks.len() + warp_role
    }

    /// Returns whether an access is not yet ordered before the current role.
    fn is_recent(&self, touch: WarpAccess) -> bool {
        touch.event > self.vector_clocks[self.warp_role][self.role_of(touch)]
    }

    /// Checks an access against the history of a byte and records it there.
    fn visit(&self, mark: &mut Mark, warp: usize, writes: bool) -> Result<(), Fault> {
        let now = WarpAccess { warp: if self.mma { MMAS + self.warp_role as u16 } else { warp as u16 }, ..self.now };
        let own_component = self.role_of(now);
        let races = |other: WarpAccess| self.is_recent(other) && other.event != now.event && other.warp != now.warp;
        let fault = |other: WarpAccess, writes: bool| Err(Fault::Race { op: OpId(other.op), writes });
        if races(mark.writer) {
            return fault(mark.writer, true);
        }
        if !writes {
            let own = |reader: &WarpAccess| self.role_of(*reader) == own_component || !self.is_recent(*reader);
            let place = mark.readers.iter().position(own).unwrap_or(1);
            let reader = &mut mark.readers[place];
            let mixed = self.is_recent(*reader) && reader.warp != now.warp;
            let warp = if mixed { MULTIPLE_WARPS + self.warp_role as u16 } else { now.warp };
            *reader = WarpAccess { warp, ..now };
            return Ok(());
        }
        if let Some(reader) = mark.readers.iter().find(|reader| races(**reader)) {
            return fault(*reader, false);
        }
        mark.writer = now;
        Ok(())
    }

    /// Visits consecutive bytes. The result depends only on the mark, so each run of bytes with equal marks needs one visit.
    pub(crate) fn access_all(
        &self,
        table: &mut MarkTable,
        bytes: &mut [MarkNumber],
        warp: usize,
        writes: bool,
    ) -> Result<(), Fault> {
        let mut last: Option<(MarkNumber, MarkNumber)> = None;
        for run in bytes.chunk_by_mut(|a, b| a == b) {
            let after = match last {
                Some((before, after)) if before == run[0] => after,
                _ => {
                    let mut mark = table.marks[run[0] as usize];
                    self.visit(&mut mark, warp, writes)?;
                    table.intern(mark)
                }
            };
            last = Some((run[0], after));
            run.fill(after);
        }
        Ok(())
    }

    fn barrier(&mut self) {
        self.vector_clocks[self.warp_role][self.warp_role] = self.now.event;
    }
}

/// The hazard state of a CTA: shared memory, copies and MMAs in flight, and its warps' accesses to global memory.
pub(crate) struct Hazards {
    pub(crate) shared: SharedMemory,
    clock: HazardClock,
    races: bool,
    /// The current op's declared buffer accesses and its completion mechanism.
    declared: Vec<BufferAccess>,
    completes: Completes,
    pub(super) in_flight: InFlight,
    pub(super) pipelines: Pipelines,
    /// Arrivals to forward to the other CTAs of the cluster, and the first protocol violation of an incoming arrival.
    pub(crate) remote_arrivals: Vec<RemoteArrival>,
    first_violation: Option<String>,
    first_warps: Vec<usize>,
    /// Marks of bytes in global memory, by page. Marks from before the last barrier are obsolete.
    global: BTreeMap<u64, Box<[MarkNumber; PAGE]>>,
    global_marks: MarkTable,
}

impl Hazards {
    pub(super) fn new(
        placements: &[BufferPlacement],
        races: bool,
        warp_roles: &[WarpRole],
        pipelines: &[PipelineConfig],
    ) -> Hazards {
        Hazards {
            shared: SharedMemory::new(placements, races),
            clock: HazardClock::new(warp_roles),
            pipelines: Pipelines::new(pipelines),
            first_warps: warp_roles.iter().map(|warp_role| warp_role.first_warp).collect(),
            races,
            remote_arrivals: Vec::new(),
            first_violation: None,
            declared: Vec::new(),
            completes: Completes::AtOnce,
            in_flight: InFlight::default(),
            global: BTreeMap::new(),
            global_marks: MarkTable::default(),
        }
    }

    /// Switches to a warp role. Its warps are numbered from 0 in later calls.
    pub(super) fn switch_role(&mut self, warp_role: usize) {
        self.clock.warp_role = warp_role;
        self.in_flight.switch_role(warp_role);
    }
    fn warp(&self, warp: usize) -> usize {
        warp + self.first_warps.get(self.clock.warp_role).copied().unwrap_or(0)
    }

    /// Begins one execution of an op. Later accesses belong to it.
    pub(crate) fn begin(&mut self, op: OpId, declared: Vec<BufferAccess>, completes: Completes) {
        (self.declared, self.completes) = (declared, completes);
        self.clock.mma = self.races && completes == Completes::WithItsCommit;
        if self.stays_in_flight() {
            self.in_flight.begin_mma();
        }
        self.clock.now = WarpAccess { event: self.clock.now.event + 1, op: op.0, warp: 0 };
        self.shared.compact_marks();
        if self.global_marks.is_full() {
            self.global_marks.compact(self.global.values_mut().map(|page| &mut page[..]));
        }
    }

    pub(crate) fn barrier(&mut self) {
        self.clock.barrier();
        if self.first_warps.is_empty() && self.global.len() > KEPT_PAGES {
            self.global.clear();
        }
    }

    pub(crate) fn read(&mut self, buffer: usize, byte: usize, out: &mut [u8], warp: usize) -> Result<(), Fault> {
        self.check_declared(buffer, AccessKind::needs_content)?;
        let start = self.shared.start(buffer, byte, out.len())?;
        self.in_flight.check_no_copy(start, out.len())?;
        let warp = self.warp(warp);
        self.shared.read(buffer, byte, out, warp, &self.clock)?;
        let in_place = self.uses_proxy(buffer, Proxy::Mma) || self.uses_proxy(buffer, Proxy::Tma);
        if self.races && in_place && self.shared.needs_fences(buffer) {
            self.shared.check_fenced(start, out.len())?;
        }
        if self.stays_in_flight() {
            self.in_flight.add_mma_read(MmaRead { start, length: out.len(), warp, op: self.clock.now.op });
        }
        Ok(())
    }
    pub(crate) fn write(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        self.check_writable(buffer, byte, data.len())?;
        self.shared.write(buffer, byte, data, self.warp(warp), &self.clock)
    }

    /// Checks that a chunk may be copied, and records the access without the data.
    pub(super) fn may_copy(&mut self, buffer: usize, byte: usize, length: usize, warp: usize) -> Result<(), Fault> {
        let start = self.check_writable(buffer, byte, length)?;
        self.shared.visit(start, length, self.warp(warp), true, &self.clock)
    }

    /// Issues a chunk of a copy. It arrives when a wait completes it.
    pub(super) fn copy(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        if !self.races {
            return self.write(buffer, byte, data, warp);
        }
        let start = self.check_writable(buffer, byte, data.len())?;
        let warp = self.warp(warp);
        self.shared.visit(start, data.len(), warp, true, &self.clock)?;
        let by_tma = self.uses_proxy(buffer, Proxy::Tma);
        self.in_flight.copy(CopyChunk { buffer, start, data: data.to_vec(), warp, op: self.clock.now.op, by_tma });
        Ok(())
    }

    /// Completes copies. Each thread waits for its own copies; other threads see the data after a subsequent barrier.
    pub(super) fn wait_for_copies(&mut self, pending: usize) {
        let chunks = self.in_flight.complete_copy_groups(pending);
        self.complete_copies(chunks);
    }

    fn complete_copies(&mut self, chunks: Vec<CopyChunk>) {
        for chunk in chunks {
            self.clock.now = WarpAccess { event: self.clock.now.event + 1, op: chunk.op, warp: 0 };
            self.clock.mma = false;
            self.shared.arrive(&chunk, &self.clock);
        }
    }

    /// Fences the role's writes to shared memory, so that MMAs of ordered roles may read them.
    pub(super) fn fence(&mut self) {
        self.shared.fence(self.clock.warp_role);
    }

    /// All threads of a role arrive at a pipeline stage. If copies fill the stage, they are attached to the arrival.
    pub(super) fn arrive_at_pipeline(&mut self, pipeline: usize, stage: usize, side: BarrierSide, threads: u32) {
        let mut vector_clocks = self.clock.vector_clocks[self.clock.warp_role].clone();
        // An MMA-completion arrival publishes only the MMA component of the clock. Accesses by threads are published by their own
        // arrivals.
        let place =
            if self.pipelines.by_mma(pipeline, side) { self.clock.mmas_of(self.clock.warp_role) } else { self.clock.warp_role };
        vector_clocks[place] = self.clock.now.event;
        let by_copies = side == BarrierSide::Full && self.pipelines.by_copies(pipeline);
        let copies = if by_copies { self.in_flight.take_copies(self.pipelines.by_tma(pipeline)) } else { Vec::new() };
        if self.pipelines.is_cross_cta(pipeline) {
            let chunks = copies.iter().filter(|chunk| self.pipelines.is_multicast(pipeline, chunk.buffer)).cloned().collect();
            self.remote_arrivals.push(RemoteArrival { pipeline, stage, side, threads, chunks });
        }
        self.pipelines.arrive(pipeline, stage, side, threads, &vector_clocks, copies);
    }

    /// Receives an arrival from another CTA. If copies or MMA reads are still in flight at the destination of its TMA copies, the
    /// arrival violates the protocol.
    pub(super) fn receive_arrival(&mut self, remote_arrivals: RemoteArrival) {
        for chunk in &remote_arrivals.chunks {
            let length = chunk.data.len();
            let free = self
                .in_flight
                .check_no_copy(chunk.start, length)
                .and_then(|()| self.in_flight.check_no_mma_read(chunk.start, length));
            if free.is_err() {
                self.first_violation = Some(format!(
                    "another CTA fills stage {} of pipeline{} while it is in use here",
                    remote_arrivals.stage, remote_arrivals.pipeline
                ));
            }
            self.in_flight.begin_copy(chunk);
        }
        let may = self.pipelines.remote_arrive(remote_arrivals);
        self.first_violation = self.first_violation.take().or(may.err());
    }

    /// Returns the first protocol violation of an incoming arrival.
    pub(super) fn first_violation(&self) -> Option<&str> {
        self.first_violation.as_deref()
    }

    /// A warp role passes a pipeline barrier: it merges the vector clocks of the arrivals, and the attached copies become visible.
    pub(super) fn pass_pipeline_barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) {
        let (_, chunks) = self.pipelines.take_completed(pipeline, stage, side);
        if let Some(first) = chunks.first() {
            let (own, warp_role) = (self.clock.warp_role, self.clock.warp_roles.get(first.warp).copied().unwrap_or(0));
            self.in_flight.complete_copies(&chunks);
            // Another warp role issued the copies, so their accesses belong to it.
            self.clock.warp_role = warp_role;
            self.complete_copies(chunks);
            self.clock.warp_role = own;
            self.pipelines.copies_completed(pipeline, stage, warp_role, self.clock.now.event);
        }
        let (vector_clocks, _) = self.pipelines.take_completed(pipeline, stage, side);
        merge_clocks(&mut self.clock.vector_clocks[self.clock.warp_role], &vector_clocks);
    }

    /// Completes MMA groups. The role's warps may then overwrite the operands; other warps need a subsequent barrier.
    pub(super) fn wait_for_mmas(&mut self, pending: usize) {
        for MmaRead { start, length, warp, op } in self.in_flight.complete_mma_groups(pending) {
            self.clock.now = WarpAccess { event: self.clock.now.event + 1, op, warp: 0 };
            self.clock.mma = false;
            // No race is possible: `check_no_mma_read` rejected every write to these bytes.
            let _ = self.shared.visit(start, length, warp, false, &self.clock);
        }
    }

    /// Returns whether the current op continues to read after it was issued.
    fn stays_in_flight(&self) -> bool {
        self.races && self.completes == Completes::WithMmaGroup
    }

    /// Checks that the op declares a write to a range and that no copy or MMA in flight uses it. Returns its address.
    fn check_writable(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, Fault> {
        self.check_declared(buffer, AccessKind::writes)?;
        let start = self.shared.start(buffer, byte, length)?;
        self.in_flight.check_no_copy(start, length)?;
        self.in_flight.check_no_mma_read(start, length)?;
        Ok(start)
    }

    /// Returns whether the current op accesses a buffer through this proxy.
    fn uses_proxy(&self, buffer: usize, proxy: Proxy) -> bool {
        self.declared.iter().any(|access| access.buffer.0 as usize == buffer && access.proxy == proxy)
    }

    /// Checks the access against the op's declared effects. The passes that place barriers and copies rely on these declarations.
    fn check_declared(&self, buffer: usize, access_kind: fn(AccessKind) -> bool) -> Result<(), Fault> {
        let listed = self.declared.iter().any(|access| access.buffer.0 as usize == buffer && access_kind(access.access_kind));
        if listed { Ok(()) } else { Err(Fault::Undeclared) }
    }

    /// Records an access to global memory.
    pub(crate) fn access_global(&mut self, address: u64, bytes: usize, warp: usize, writes: bool) -> Result<(), Fault> {
        if !self.races {
            return Ok(());
        }
        let warp = self.warp(warp);
        let (mut at, end) = (address, address.saturating_add(bytes as u64));
        while at < end {
            let first = at as usize % PAGE;
            let count = (PAGE - first).min((end - at) as usize);
            let page = self.global.entry(at / PAGE as u64).or_insert_with(|| Box::new([0; PAGE]));
            self.clock.access_all(&mut self.global_marks, &mut page[first..first + count], warp, writes)?;
            at += count as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::effects::Proxy;
    use tileas::{Buffer, Space};

    /// Two buffers at one address, as disjoint live ranges permit.
    fn hazards() -> Hazards {
        let place = BufferPlacement { base: 0, bytes: 8, depth: 1, space: Space::Shared, peer_base: 0 };
        Hazards::new(&[place, place], true, &[], &[])
    }

    /// Declares all accesses that the tests perform.
    fn both() -> Vec<BufferAccess> {
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
        let mut hazards = hazards();
        hazards.begin(
            OpId(1),
            vec![BufferAccess { buffer: Buffer(0), stage: None, access_kind: AccessKind::Reads, proxy: Proxy::Generic }],
            Completes::AtOnce,
        );
        assert_eq!(hazards.write(0, 0, &[1], 0), Err(Fault::Undeclared));
        assert_eq!(hazards.read(1, 0, &mut [0], 0), Err(Fault::Undeclared));
    }

    #[test]
    fn a_barrier_orders_accesses_of_warps() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.write(0, 0, &[1; 8], 0).unwrap();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        let mut out = [0; 4];
        hazards.read(0, 0, &mut out, 0).unwrap();
        assert_eq!(hazards.read(0, 4, &mut out, 1), Err(Fault::Race { op: OpId(1), writes: true }));
        hazards.barrier();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        hazards.read(0, 4, &mut out, 1).unwrap();
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        assert_eq!(hazards.write(0, 4, &[2; 4], 0), Err(Fault::Race { op: OpId(2), writes: false }));
        hazards.write(0, 4, &[2; 4], 1).unwrap();
    }

    /// A large access must cost only a few visits.
    #[test]
    fn a_run_of_equal_bytes_has_one_mark() {
        let place = BufferPlacement { base: 0, bytes: 4096, depth: 1, space: Space::Shared, peer_base: 0 };
        let mut hazards = Hazards::new(&[place], true, &[], &[]);
        for op in 1..100 {
            hazards.begin(OpId(op), both(), Completes::AtOnce);
            (0..4096).step_by(16).for_each(|byte| hazards.write(0, byte, &[1; 16], 0).unwrap());
            hazards.barrier();
            hazards.begin(OpId(op), both(), Completes::AtOnce);
            hazards.read(0, 0, &mut [0; 4096], 1).unwrap();
            hazards.barrier();
        }
        assert!(hazards.shared.mark_count() <= 2 * 100, "{}", hazards.shared.mark_count());
    }

    #[test]
    fn unused_marks_are_removed() {
        let mut table = MarkTable::default();
        let mut bytes = [0; 4];
        for event in 1..10 {
            let clock = HazardClock {
                now: WarpAccess { event, op: event, warp: 0 },
                vector_clocks: vec![vec![event, event]],
                ..HazardClock::new(&[])
            };
            clock.access_all(&mut table, &mut bytes[..2], 0, true).unwrap();
        }
        let before = table.marks[bytes[0] as usize];
        table.compact(std::iter::once(&mut bytes[..]));
        assert_eq!((table.marks.len(), bytes, table.marks[1]), (2, [1, 1, 0, 0], before));
    }

    #[test]
    fn two_readers_race_with_a_write_of_either() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.write(0, 0, &[1], 0).unwrap();
        hazards.barrier();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        hazards.read(0, 0, &mut [0], 0).unwrap();
        hazards.read(0, 0, &mut [0], 1).unwrap();
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        assert!(hazards.write(0, 0, &[1], 1).is_err() && hazards.write(0, 0, &[1], 0).is_err());
    }

    #[test]
    fn memory_reused_by_another_buffer_is_stale() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        assert_eq!(hazards.read(0, 3, &mut [0], 0), Err(Fault::Unwritten { byte: 3 }));
        hazards.write(0, 3, &[7], 0).unwrap();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        hazards.write(1, 3, &[8], 0).unwrap();
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        assert_eq!(hazards.read(0, 3, &mut [0], 0), Err(Fault::Foreign { byte: 3, buffer: 1 }));
        assert_eq!(hazards.read(0, 8, &mut [0], 0), Err(Fault::Outside { byte: 8, bytes: 8 }));
    }

    #[test]
    fn global_memory_is_ordered_by_barriers_too() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.access_global(100, 4, 0, true).unwrap();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        assert!(hazards.access_global(103, 4, 1, false).is_err());
        hazards.barrier();
        hazards.access_global(103, 4, 1, false).unwrap();
    }

    #[test]
    fn copies_arrive_at_their_wait() {
        let mut hazards = hazards();
        let begin = |hazards: &mut Hazards, op| hazards.begin(OpId(op), both(), Completes::AtOnce);
        begin(&mut hazards, 1);
        hazards.copy(0, 0, &[1; 4], 0).unwrap();
        hazards.in_flight.commit();
        begin(&mut hazards, 2);
        hazards.copy(0, 4, &[2; 4], 0).unwrap();
        hazards.in_flight.commit();
        hazards.wait_for_copies(1);
        begin(&mut hazards, 3);
        assert_eq!(hazards.read(0, 4, &mut [0], 0), Err(Fault::InFlight { op: OpId(2) }));
        assert_eq!(hazards.write(0, 4, &[0], 0), Err(Fault::InFlight { op: OpId(2) }));
        hazards.read(0, 0, &mut [0], 0).unwrap();
        // Another warp needs a barrier after the wait. A barrier after the copy is not enough.
        assert_eq!(hazards.read(0, 0, &mut [0], 1), Err(Fault::Race { op: OpId(1), writes: true }));
        hazards.barrier();
        begin(&mut hazards, 4);
        hazards.read(0, 0, &mut [0], 1).unwrap();
    }

    #[test]
    fn mma_reads_tma_data_without_a_fence() {
        for (proxy, read) in [(Proxy::Tma, Ok(())), (Proxy::Copies, Err(Fault::Unfenced))] {
            let mut hazards = hazards();
            let access = |access_kind, proxy| vec![BufferAccess { buffer: Buffer(0), stage: None, access_kind, proxy }];
            hazards.begin(OpId(1), access(AccessKind::Changes, Proxy::Generic), Completes::AtOnce);
            hazards.write(0, 0, &[1; 4], 0).unwrap();
            hazards.barrier();
            hazards.begin(OpId(2), access(AccessKind::Changes, proxy), Completes::AtOnce);
            hazards.copy(0, 0, &[2; 4], 0).unwrap();
            let chunks = hazards.in_flight.take_copies(proxy == Proxy::Tma);
            hazards.in_flight.complete_copies(&chunks);
            hazards.complete_copies(chunks);
            hazards.barrier();
            hazards.begin(OpId(3), access(AccessKind::Reads, Proxy::Mma), Completes::AtOnce);
            assert_eq!(hazards.read(0, 0, &mut [0; 4], 0), read);
        }
    }

    #[test]
    fn tma_waits_and_group_waits_are_independent() {
        let warp_roles = [WarpRole { name: "main".into(), first_warp: 0, warps: 1 }];
        let pipeline = PipelineConfig {
            depth: 1,
            counts: [1, 32],
            copies: true,
            tma_copies: true,
            single_arrival: [true, false],
            by_warps: false,
            mmas: [false; 2],
            ctas: 1,
            multicast: Vec::new(),
        };
        let place = BufferPlacement { base: 0, bytes: 8, depth: 1, space: Space::Shared, peer_base: 0 };
        let mut hazards =
            Hazards::new(&[place, BufferPlacement { base: 8, peer_base: 8, ..place }], true, &warp_roles, &[pipeline]);
        hazards.switch_role(0);
        for (buffer, proxy) in [(0, Proxy::Copies), (1, Proxy::Tma)] {
            let access = BufferAccess { buffer: Buffer(buffer), stage: None, access_kind: AccessKind::Writes, proxy };
            hazards.begin(OpId(buffer + 1), vec![access], Completes::AtOnce);
            hazards.copy(buffer as usize, 0, &[7; 8], 0).unwrap();
        }
        hazards.in_flight.commit();
        hazards.wait_for_copies(0);
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        hazards.read(0, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(1, 0, &mut [0; 8], 0), Err(Fault::InFlight { op: OpId(2) }));
        hazards.copy(0, 0, &[7; 8], 0).unwrap();
        hazards.in_flight.commit();
        hazards.arrive_at_pipeline(0, 0, BarrierSide::Full, 1);
        hazards.pass_pipeline_barrier(0, 0, BarrierSide::Full);
        hazards.begin(OpId(4), both(), Completes::AtOnce);
        hazards.read(1, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(0, 0, &mut [0; 8], 0), Err(Fault::InFlight { op: OpId(3) }));
    }

    #[test]
    fn a_copy_in_an_uncommitted_group_never_arrives() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.copy(0, 0, &[1], 0).unwrap();
        hazards.wait_for_copies(0);
        assert_eq!(hazards.read(0, 0, &mut [0], 0), Err(Fault::InFlight { op: OpId(1) }));
    }

    #[test]
    fn operands_of_an_mma_in_flight_cannot_be_overwritten() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.write(0, 0, &[1; 8], 0).unwrap();
        hazards.barrier();
        hazards.begin(OpId(2), both(), Completes::WithMmaGroup);
        hazards.read(0, 0, &mut [0; 4], 1).unwrap();
        hazards.barrier();
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        assert_eq!(hazards.copy(0, 0, &[1], 1), Err(Fault::MmaInFlight { op: OpId(2) }));
        hazards.wait_for_mmas(0);
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        // The issuing warp knows that the MMA is complete. Other warps need a barrier.
        hazards.copy(0, 0, &[1], 1).unwrap();
        assert_eq!(hazards.copy(0, 1, &[1], 0), Err(Fault::Race { op: OpId(2), writes: false }));
    }
}
