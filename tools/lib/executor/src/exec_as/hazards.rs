//! Which accesses of a block only a barrier can order, and whether one does.
//!
//! Warps run between barriers in any order, so two accesses of different warps to a byte, of which one writes, are a race when no
//! barrier came between. Each byte remembers the op that last wrote it and one that read it since the last barrier.

use super::WarpRole;
use super::in_flight::{CopyChunk, InFlight, Read};
use super::pipelines::{BarrierSide, PipelineConfig, Pipelines, RemoteArrival, VectorClock, merge_clocks};
use super::shared::{BufferPlacement, SharedMemory};
use base::Op as OpId;
use std::collections::BTreeMap;
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};

/// One access of a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Touch {
    /// Which execution of an op, counted from 1; 0 for none.
    event: u32,
    op: u32,
    warp: u16,
}

/// In place of a warp: several of an warp_role, the first of them.
const MULTIPLE_WARPS: u16 = u16::MAX - 64;
/// In place of a warp: the mmas of an warp_role that nobody knows to be complete before a commit was waited for.
const MMAS: u16 = MULTIPLE_WARPS - 64;
const PAGE: usize = 4096;
/// More pages than this are given back at the next barrier.
const KEPT_PAGES: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    writer: Touch,
    /// Of two warp_roles that read since they last knew of each other.
    readers: [Touch; 2],
}

/// The number of a mark in its table. A byte that nothing accessed has mark 0.
pub(crate) type MarkNumber = u32;

/// The marks that bytes have. Neighbouring bytes mostly have the same, so each byte holds a number, and an access compares and replaces
/// marks run by run.
pub(crate) struct MarkTable {
    marks: Vec<Mark>,
    /// Numbers of marks that were added lately, by their hash, so that equal marks mostly have one number.
    recent: Box<[MarkNumber; RECENT]>,
    /// From so many marks on, those that no byte has are dropped.
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
    fn number(&mut self, mark: Mark) -> MarkNumber {
        let hash = |touch: Touch| touch.event.wrapping_mul(31) ^ u32::from(touch.warp);
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
    pub(crate) fn computed(&self) -> usize {
        self.marks.len()
    }
    pub(crate) fn is_full(&self) -> bool {
        self.marks.len() >= self.limit
    }

    /// Drops the marks that no byte has.
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

/// Why an access is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    Outside {
        byte: usize,
        bytes: usize,
    },
    Unwritten {
        byte: usize,
    },
    /// The byte holds what another buffer was given.
    Foreign {
        byte: usize,
        buffer: usize,
    },
    /// The op's row of the table of effects does not list the access.
    Undeclared,
    /// A copy to the byte is in flight.
    InFlight {
        op: OpId,
    },
    /// A mma in flight reads the byte.
    MmaInFlight {
        op: OpId,
    },
    /// A mma reads in place what was not fenced.
    Unfenced,
    /// The other access, and what it does.
    Race {
        op: OpId,
        writes: bool,
    },
}

/// Program order as barriers cut it, and what warp_roles tell each other through pipelines.
#[derive(Debug, Default)]
pub(crate) struct HazardClock {
    now: Touch,
    warp_role: usize,
    /// Of each warp_role up to which event of each it knows that all warps are past it, and then up to which the mmas of each are
    /// complete. An warp_role that is missing knows nothing.
    vector_clocks: Vec<VectorClock>,
    /// Whether what happens is a mma that is complete when it is committed.
    mma: bool,
    /// Of each warp the warp_role.
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

    fn role_of(&self, touch: Touch) -> usize {
        match touch.warp {
            MULTIPLE_WARPS.. => usize::from(touch.warp - MULTIPLE_WARPS),
            MMAS.. => self.mmas_of(usize::from(touch.warp - MMAS)),
            warp => self.warp_roles.get(usize::from(warp)).copied().unwrap_or(0),
        }
    }

    /// The place of an warp_role's mmas in what is vector_clocks.
    fn mmas_of(&self, warp_role: usize) -> usize {
        self.vector_clocks.len() + warp_role
    }

    /// Whether other warps may still be at it.
    fn is_recent(&self, touch: Touch) -> bool {
        touch.event > self.vector_clocks[self.warp_role][self.role_of(touch)]
    }

    /// Compares an access with what is vector_clocks of a byte, and notes it there.
    fn visit(&self, mark: &mut Mark, warp: usize, writes: bool) -> Result<(), Fault> {
        let now = Touch { warp: if self.mma { MMAS + self.warp_role as u16 } else { warp as u16 }, ..self.now };
        let own_component = self.role_of(now);
        let races = |other: Touch| self.is_recent(other) && other.event != now.event && other.warp != now.warp;
        let fault = |other: Touch, writes: bool| Err(Fault::Race { op: OpId(other.op), writes });
        if races(mark.writer) {
            return fault(mark.writer, true);
        }
        if !writes {
            let own = |reader: &Touch| self.role_of(*reader) == own_component || !self.is_recent(*reader);
            let place = mark.readers.iter().position(own).unwrap_or(1);
            let reader = &mut mark.readers[place];
            let mixed = self.is_recent(*reader) && reader.warp != now.warp;
            let warp = if mixed { MULTIPLE_WARPS + self.warp_role as u16 } else { now.warp };
            *reader = Touch { warp, ..now };
            return Ok(());
        }
        if let Some(reader) = mark.readers.iter().find(|reader| races(**reader)) {
            return fault(*reader, false);
        }
        mark.writer = now;
        Ok(())
    }

    /// Visits consecutive bytes. What a visit leaves depends on the mark single_arrival, so each run of bytes with one mark is one visit.
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
                    table.number(mark)
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

/// What a block knows of its shared memory and of what its warps did to the rest.
pub(crate) struct Hazards {
    pub(crate) shared: SharedMemory,
    clock: HazardClock,
    races: bool,
    /// What the op being executed is said to do to buffers, and when it is done.
    declared: Vec<BufferAccess>,
    completes: Completes,
    pub(super) in_flight: InFlight,
    pub(super) pipelines: Pipelines,
    /// What the block has remote_arrivals others of its cluster, and how what they remote_arrivals it cannot be.
    pub(crate) remote_arrivals: Vec<RemoteArrival>,
    broken: Option<String>,
    first_warps: Vec<usize>,
    /// Marks of bytes outside the block's own memory, by page. Those from before the last barrier say nothing any more.
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
            broken: None,
            declared: Vec::new(),
            completes: Completes::AtOnce,
            in_flight: InFlight::default(),
            global: BTreeMap::new(),
            global_marks: MarkTable::default(),
        }
    }

    /// What follows is done by an warp_role, whose warps are numbered from 0.
    pub(super) fn turn(&mut self, warp_role: usize) {
        self.clock.warp_role = warp_role;
        self.in_flight.turn(warp_role);
    }
    fn warp(&self, warp: usize) -> usize {
        warp + self.first_warps.get(self.clock.warp_role).copied().unwrap_or(0)
    }

    /// What follows belongs to one execution of an op.
    pub(crate) fn begin(&mut self, op: OpId, declared: Vec<BufferAccess>, completes: Completes) {
        (self.declared, self.completes) = (declared, completes);
        self.clock.mma = self.races && completes == Completes::WithItsCommit;
        if self.stays_in_flight() {
            self.in_flight.mma();
        }
        self.clock.now = Touch { event: self.clock.now.event + 1, op: op.0, warp: 0 };
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
        self.declares(buffer, AccessKind::needs_content)?;
        let start = self.shared.start(buffer, byte, out.len())?;
        self.in_flight.arrived(start, out.len())?;
        let warp = self.warp(warp);
        self.shared.read(buffer, byte, out, warp, &self.clock)?;
        let in_place = self.reaches(buffer, Proxy::Mma) || self.reaches(buffer, Proxy::Tma);
        if self.races && in_place && self.shared.needs_fences(buffer) {
            self.shared.is_fenced(start, out.len())?;
        }
        if self.stays_in_flight() {
            self.in_flight.mma_reads(Read { start, length: out.len(), warp, op: self.clock.now.op });
        }
        Ok(())
    }
    pub(crate) fn write(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        self.is_free(buffer, byte, data.len())?;
        self.shared.write(buffer, byte, data, self.warp(warp), &self.clock)
    }

    /// Whether a chunk may be copied, of which nothing is noted but who accesses it.
    pub(super) fn may_copy(&mut self, buffer: usize, byte: usize, length: usize, warp: usize) -> Result<(), Fault> {
        let start = self.is_free(buffer, byte, length)?;
        self.shared.visit(start, length, self.warp(warp), true, &self.clock)
    }

    /// A chunk of a copy, which arrives when it is waited for.
    pub(super) fn copy(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        if !self.races {
            return self.write(buffer, byte, data, warp);
        }
        let start = self.is_free(buffer, byte, data.len())?;
        let warp = self.warp(warp);
        self.shared.visit(start, data.len(), warp, true, &self.clock)?;
        let by_tma = self.reaches(buffer, Proxy::Tma);
        self.in_flight.copy(CopyChunk { buffer, start, data: data.to_vec(), warp, op: self.clock.now.op, by_tma });
        Ok(())
    }

    /// Each thread waits for its own copies: others see them behind a barrier after the wait.
    pub(super) fn wait_for_copies(&mut self, pending: usize) {
        let chunks = self.in_flight.copies_done(pending);
        self.complete_copies(chunks);
    }

    fn complete_copies(&mut self, chunks: Vec<CopyChunk>) {
        for chunk in chunks {
            self.clock.now = Touch { event: self.clock.now.event + 1, op: chunk.op, warp: 0 };
            self.clock.mma = false;
            self.shared.arrive(&chunk, &self.clock);
        }
    }

    /// What the warp_role's threads wrote so far is there for mmas of others that learn of it.
    pub(super) fn fence(&mut self) {
        self.shared.fence(self.clock.warp_role);
    }

    /// All threads of an warp_role arrive at a stage of a pipeline, with the copies that they have in flight where those fill it.
    pub(super) fn arrive_at_pipeline(&mut self, pipeline: usize, stage: usize, side: BarrierSide, threads: u32) {
        let mut vector_clocks = self.clock.vector_clocks[self.clock.warp_role].clone();
        // When mmas are complete, those are; what other threads did is remote_arrivals by who arrives himself.
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

    /// Another block tells what it has done here. Nothing is to be in flight where its tma_copies go, and nobody to need what is there.
    pub(super) fn receive_arrival(&mut self, remote_arrivals: RemoteArrival) {
        for chunk in &remote_arrivals.chunks {
            let length = chunk.data.len();
            let free = self.in_flight.arrived(chunk.start, length).and_then(|()| self.in_flight.free(chunk.start, length));
            if free.is_err() {
                self.broken = Some(format!(
                    "another CTA fills stage {} of pipeline{} while it is in use here",
                    remote_arrivals.stage, remote_arrivals.pipeline
                ));
            }
            self.in_flight.begin_copy(chunk);
        }
        let may = self.pipelines.remote_arrive(remote_arrivals);
        self.broken = self.broken.take().or(may.err());
    }

    /// What another block remote_arrivals that cannot be.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// An warp_role has waited for a stage: it knows what those know who arrived there, and what they copied is there.
    pub(super) fn pass_pipeline_barrier(&mut self, pipeline: usize, stage: usize, side: BarrierSide) {
        let (_, chunks) = self.pipelines.take_completed(pipeline, stage, side);
        if let Some(first) = chunks.first() {
            let (own, warp_role) = (self.clock.warp_role, self.clock.warp_roles.get(first.warp).copied().unwrap_or(0));
            self.in_flight.complete_copies(&chunks);
            // They were sent by another warp_role, whose accesses they are.
            self.clock.warp_role = warp_role;
            self.complete_copies(chunks);
            self.clock.warp_role = own;
            self.pipelines.copies_completed(pipeline, stage, warp_role, self.clock.now.event);
        }
        let (vector_clocks, _) = self.pipelines.take_completed(pipeline, stage, side);
        merge_clocks(&mut self.clock.vector_clocks[self.clock.warp_role], &vector_clocks);
    }

    /// What mmas have read is free for their warps, and for others behind a barrier.
    pub(super) fn wait_for_mmas(&mut self, pending: usize) {
        for Read { start, length, warp, op } in self.in_flight.mmas_done(pending) {
            self.clock.now = Touch { event: self.clock.now.event + 1, op, warp: 0 };
            self.clock.mma = false;
            // That nothing wrote there meanwhile is vector_clocks.
            let _ = self.shared.visit(start, length, warp, false, &self.clock);
        }
    }

    /// Whether the op being executed reads on after it was executed.
    fn stays_in_flight(&self) -> bool {
        self.races && self.completes == Completes::WithMmaGroup
    }

    /// Whether the op may write there, as far as what is in flight goes; gives where it lies.
    fn is_free(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, Fault> {
        self.declares(buffer, AccessKind::writes)?;
        let start = self.shared.start(buffer, byte, length)?;
        self.in_flight.arrived(start, length)?;
        self.in_flight.free(start, length)?;
        Ok(start)
    }

    /// Whether the op being executed reaches a buffer this proxy.
    fn reaches(&self, buffer: usize, proxy: Proxy) -> bool {
        self.declared.iter().any(|access| access.buffer.0 as usize == buffer && access.proxy == proxy)
    }

    /// What an op does to buffers is in the table of effects, which all who place barriers and copies believe.
    fn declares(&self, buffer: usize, access_kind: fn(AccessKind) -> bool) -> Result<(), Fault> {
        let listed = self.declared.iter().any(|access| access.buffer.0 as usize == buffer && access_kind(access.access_kind));
        if listed { Ok(()) } else { Err(Fault::Undeclared) }
    }

    /// An access to memory that is not the block's own.
    pub(crate) fn outside(&mut self, address: u64, bytes: usize, warp: usize, writes: bool) -> Result<(), Fault> {
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

    /// Two buffers at the same place, as lifetimes that do not meet allow.
    fn hazards() -> Hazards {
        let place = BufferPlacement { base: 0, bytes: 8, depth: 1, space: Space::Shared, other: 0 };
        Hazards::new(&[place, place], true, &[], &[])
    }

    /// Everything that the tests do.
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
    fn what_the_table_does_not_list_is_refused() {
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
    fn a_barrier_orders_what_warps_do() {
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

    /// The time of a large access is that of few visits.
    #[test]
    fn a_run_of_equal_bytes_has_one_mark() {
        let place = BufferPlacement { base: 0, bytes: 4096, depth: 1, space: Space::Shared, other: 0 };
        let mut hazards = Hazards::new(&[place], true, &[], &[]);
        for op in 1..100 {
            hazards.begin(OpId(op), both(), Completes::AtOnce);
            (0..4096).step_by(16).for_each(|byte| hazards.write(0, byte, &[1; 16], 0).unwrap());
            hazards.barrier();
            hazards.begin(OpId(op), both(), Completes::AtOnce);
            hazards.read(0, 0, &mut [0; 4096], 1).unwrap();
            hazards.barrier();
        }
        assert!(hazards.shared.marks_made() <= 2 * 100, "{}", hazards.shared.marks_made());
    }

    #[test]
    fn marks_that_no_byte_has_are_dropped() {
        let mut table = MarkTable::default();
        let mut bytes = [0; 4];
        for event in 1..10 {
            let clock = HazardClock {
                now: Touch { event, op: event, warp: 0 },
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
    fn two_readers_race_with_either_ones_write() {
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
    fn memory_that_another_buffer_took_over_is_stale() {
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
        hazards.outside(100, 4, 0, true).unwrap();
        hazards.begin(OpId(2), both(), Completes::AtOnce);
        assert!(hazards.outside(103, 4, 1, false).is_err());
        hazards.barrier();
        hazards.outside(103, 4, 1, false).unwrap();
    }

    #[test]
    fn copies_arrive_when_they_are_waited_for() {
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
        // Another warp needs a barrier after the wait, not only after the copy.
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
            blocks: 1,
            multicast: Vec::new(),
        };
        let place = BufferPlacement { base: 0, bytes: 8, depth: 1, space: Space::Shared, other: 0 };
        let mut hazards = Hazards::new(&[place, BufferPlacement { base: 8, other: 8, ..place }], true, &warp_roles, &[pipeline]);
        hazards.turn(0);
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
    fn a_copy_in_a_group_that_was_not_ended_never_arrives() {
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
        // Its own warp knows that it is done, others do behind a barrier only.
        hazards.copy(0, 0, &[1], 1).unwrap();
        assert_eq!(hazards.copy(0, 1, &[1], 0), Err(Fault::Race { op: OpId(2), writes: false }));
    }
}
