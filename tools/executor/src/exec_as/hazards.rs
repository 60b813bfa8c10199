//! Which accesses of a block only a barrier can order, and whether one does.
//!
//! Warps run between barriers in any order, so two accesses of different warps to a byte, of which one writes, are a race when no
//! barrier came between. Each byte remembers the op that last wrote it and one that read it since the last barrier.

use super::Agent;
use super::pipes::{Known, Pipes, Ring, Side, Told, join};
use super::shared::{Place, SharedMemory};
use super::under_way::{Piece, Read, UnderWay};
use base::Op as OpId;
use std::collections::BTreeMap;
use tileas::effects::{BufferAccess, Completes, Does, Way};

/// One access of a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Touch {
    /// Which execution of an op, counted from 1; 0 for none.
    event: u32,
    op: u32,
    warp: u16,
}

/// In place of a warp: several of an agent, the first of them.
const SEVERAL: u16 = u16::MAX - 64;
/// In place of a warp: the products of an agent that nobody knows to be complete before a commit was waited for.
const PRODUCTS: u16 = SEVERAL - 64;
const PAGE: usize = 4096;
/// More pages than this are given back at the next barrier.
const KEPT_PAGES: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    writer: Touch,
    /// Of two agents that read since they last knew of each other.
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
    pub(crate) fn made(&self) -> usize {
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
    /// A copy to the byte is under way.
    UnderWay {
        op: OpId,
    },
    /// A product in flight reads the byte.
    InFlight {
        op: OpId,
    },
    /// A product reads in place what was not fenced.
    Unfenced,
    /// The other access, and what it does.
    Race {
        op: OpId,
        writes: bool,
    },
}

/// Program order as barriers cut it, and what agents tell each other through pipes.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now: Touch,
    agent: usize,
    /// Of each agent up to which event of each it knows that all warps are past it, and then up to which the products of each are
    /// complete. An agent that is missing knows nothing.
    known: Vec<Known>,
    /// Whether what happens is a product that is complete when it is committed.
    product: bool,
    /// Of each warp the agent.
    agents: Vec<usize>,
}

impl Clock {
    fn new(agents: &[Agent]) -> Clock {
        let count = agents.len().max(1);
        let of_warps = agents
            .iter()
            .enumerate()
            .flat_map(|(number, agent)| (agent.first_warp..agent.first_warp + agent.warps).map(move |warp| (warp, number)));
        let mut warps = Vec::new();
        for (warp, number) in of_warps {
            warps.resize(warps.len().max(warp + 1), 0);
            warps[warp] = number;
        }
        Clock { known: vec![vec![0; 2 * count]; count], agents: warps, ..Clock::default() }
    }

    pub(super) fn agent(&self) -> usize {
        self.agent
    }

    fn agent_of(&self, touch: Touch) -> usize {
        match touch.warp {
            SEVERAL.. => usize::from(touch.warp - SEVERAL),
            PRODUCTS.. => self.products_of(usize::from(touch.warp - PRODUCTS)),
            warp => self.agents.get(usize::from(warp)).copied().unwrap_or(0),
        }
    }

    /// The place of an agent's products in what is known.
    fn products_of(&self, agent: usize) -> usize {
        self.known.len() + agent
    }

    /// Whether other warps may still be at it.
    fn is_recent(&self, touch: Touch) -> bool {
        touch.event > self.known[self.agent][self.agent_of(touch)]
    }

    /// Compares an access with what is known of a byte, and notes it there.
    fn visit(&self, mark: &mut Mark, warp: usize, writes: bool) -> Result<(), Fault> {
        let now = Touch { warp: if self.product { PRODUCTS + self.agent as u16 } else { warp as u16 }, ..self.now };
        let own_place = self.agent_of(now);
        let races = |other: Touch| self.is_recent(other) && other.event != now.event && other.warp != now.warp;
        let fault = |other: Touch, writes: bool| Err(Fault::Race { op: OpId(other.op), writes });
        if races(mark.writer) {
            return fault(mark.writer, true);
        }
        if !writes {
            let own = |reader: &Touch| self.agent_of(*reader) == own_place || !self.is_recent(*reader);
            let place = mark.readers.iter().position(own).unwrap_or(1);
            let reader = &mut mark.readers[place];
            let mixed = self.is_recent(*reader) && reader.warp != now.warp;
            let warp = if mixed { SEVERAL + self.agent as u16 } else { now.warp };
            *reader = Touch { warp, ..now };
            return Ok(());
        }
        if let Some(reader) = mark.readers.iter().find(|reader| races(**reader)) {
            return fault(*reader, false);
        }
        mark.writer = now;
        Ok(())
    }

    /// Visits consecutive bytes. What a visit leaves depends on the mark alone, so each run of bytes with one mark is one visit.
    pub(crate) fn visit_all(
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
        self.known[self.agent][self.agent] = self.now.event;
    }
}

/// What a block knows of its shared memory and of what its warps did to the rest.
pub(crate) struct Hazards {
    pub(crate) shared: SharedMemory,
    clock: Clock,
    races: bool,
    /// What the op being executed is said to do to buffers, and when it is done.
    declared: Vec<BufferAccess>,
    completes: Completes,
    pub(super) under_way: UnderWay,
    pub(super) pipes: Pipes,
    /// What the block has told others of its cluster, and how what they told it cannot be.
    pub(crate) told: Vec<Told>,
    broken: Option<String>,
    first_warps: Vec<usize>,
    /// Marks of bytes outside the block's own memory, by page. Those from before the last barrier say nothing any more.
    global: BTreeMap<u64, Box<[MarkNumber; PAGE]>>,
    global_marks: MarkTable,
}

impl Hazards {
    pub(super) fn new(places: &[Place], races: bool, agents: &[Agent], pipes: &[Ring]) -> Hazards {
        Hazards {
            shared: SharedMemory::new(places, races),
            clock: Clock::new(agents),
            pipes: Pipes::new(pipes),
            first_warps: agents.iter().map(|agent| agent.first_warp).collect(),
            races,
            told: Vec::new(),
            broken: None,
            declared: Vec::new(),
            completes: Completes::AtOnce,
            under_way: UnderWay::default(),
            global: BTreeMap::new(),
            global_marks: MarkTable::default(),
        }
    }

    /// What follows is done by an agent, whose warps are numbered from 0.
    pub(super) fn turn(&mut self, agent: usize) {
        self.clock.agent = agent;
        self.under_way.turn(agent);
    }
    fn warp(&self, warp: usize) -> usize {
        warp + self.first_warps.get(self.clock.agent).copied().unwrap_or(0)
    }

    /// What follows belongs to one execution of an op.
    pub(crate) fn begin(&mut self, op: OpId, declared: Vec<BufferAccess>, completes: Completes) {
        (self.declared, self.completes) = (declared, completes);
        self.clock.product = self.races && completes == Completes::WithItsCommit;
        if self.stays_in_flight() {
            self.under_way.product();
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
        self.declares(buffer, Does::needs_content)?;
        let start = self.shared.start(buffer, byte, out.len())?;
        self.under_way.arrived(start, out.len())?;
        let warp = self.warp(warp);
        self.shared.read(buffer, byte, out, warp, &self.clock)?;
        let in_place = self.reaches(buffer, Way::Products) || self.reaches(buffer, Way::Boxes);
        if self.races && in_place && self.shared.needs_fences(buffer) {
            self.shared.is_fenced(start, out.len())?;
        }
        if self.stays_in_flight() {
            self.under_way.product_reads(Read { start, length: out.len(), warp, op: self.clock.now.op });
        }
        Ok(())
    }
    pub(crate) fn write(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        self.is_free(buffer, byte, data.len())?;
        self.shared.write(buffer, byte, data, self.warp(warp), &self.clock)
    }

    /// Whether a piece may be copied, of which nothing is noted but who accesses it.
    pub(super) fn may_copy(&mut self, buffer: usize, byte: usize, length: usize, warp: usize) -> Result<(), Fault> {
        let start = self.is_free(buffer, byte, length)?;
        self.shared.visit(start, length, self.warp(warp), true, &self.clock)
    }

    /// A piece of a copy, which arrives when it is waited for.
    pub(super) fn copy(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize) -> Result<(), Fault> {
        if !self.races {
            return self.write(buffer, byte, data, warp);
        }
        let start = self.is_free(buffer, byte, data.len())?;
        let warp = self.warp(warp);
        self.shared.visit(start, data.len(), warp, true, &self.clock)?;
        let by_engine = self.reaches(buffer, Way::Boxes);
        self.under_way.copy(Piece { buffer, start, data: data.to_vec(), warp, op: self.clock.now.op, by_engine });
        Ok(())
    }

    /// Each thread waits for its own copies: others see them behind a barrier after the wait.
    pub(super) fn wait_for_copies(&mut self, pending: usize) {
        let pieces = self.under_way.copies_done(pending);
        self.land(pieces);
    }

    fn land(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            self.clock.now = Touch { event: self.clock.now.event + 1, op: piece.op, warp: 0 };
            self.clock.product = false;
            self.shared.arrive(&piece, &self.clock);
        }
    }

    /// What the agent's threads wrote so far is there for products of others that learn of it.
    pub(super) fn fence(&mut self) {
        self.shared.fence(self.clock.agent);
    }

    /// All threads of an agent arrive at a slot of a pipe, with the copies that they have under way where those fill it.
    pub(super) fn arrive_at_pipe(&mut self, pipe: usize, slot: usize, side: Side, threads: u32) {
        let mut known = self.clock.known[self.clock.agent].clone();
        // When products are complete, those are; what other threads did is told by who arrives himself.
        let place = if self.pipes.by_products(pipe, side) { self.clock.products_of(self.clock.agent) } else { self.clock.agent };
        known[place] = self.clock.now.event;
        let by_copies = side == Side::Full && self.pipes.by_copies(pipe);
        let copies = if by_copies { self.under_way.hand_over(self.pipes.by_boxes(pipe)) } else { Vec::new() };
        if self.pipes.is_joined(pipe) {
            let pieces = copies.iter().filter(|piece| self.pipes.is_multicast(pipe, piece.buffer)).cloned().collect();
            self.told.push(Told { pipe, slot, side, threads, pieces });
        }
        self.pipes.arrive(pipe, slot, side, threads, &known, copies);
    }

    /// Another block tells what it has done here. Nothing is to be under way where its boxes go, and nobody to need what is there.
    pub(super) fn hear(&mut self, told: Told) {
        for piece in &told.pieces {
            let length = piece.data.len();
            let free = self.under_way.arrived(piece.start, length).and_then(|()| self.under_way.free(piece.start, length));
            if free.is_err() {
                self.broken = Some(format!("another block fills slot {} of pipe{} while it is in use here", told.slot, told.pipe));
            }
            self.under_way.announce(piece);
        }
        let may = self.pipes.others_arrive(told);
        self.broken = self.broken.take().or(may.err());
    }

    /// What another block told that cannot be.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// An agent has waited for a slot: it knows what those know who arrived there, and what they copied is there.
    pub(super) fn pass_pipe(&mut self, pipe: usize, slot: usize, side: Side) {
        let (_, pieces) = self.pipes.passed(pipe, slot, side);
        if let Some(first) = pieces.first() {
            let (own, agent) = (self.clock.agent, self.clock.agents.get(first.warp).copied().unwrap_or(0));
            self.under_way.land(&pieces);
            // They were sent by another agent, whose accesses they are.
            self.clock.agent = agent;
            self.land(pieces);
            self.clock.agent = own;
            self.pipes.landed(pipe, slot, agent, self.clock.now.event);
        }
        let (known, _) = self.pipes.passed(pipe, slot, side);
        join(&mut self.clock.known[self.clock.agent], &known);
    }

    /// What products have read is free for their warps, and for others behind a barrier.
    pub(super) fn wait_for_products(&mut self, pending: usize) {
        for Read { start, length, warp, op } in self.under_way.products_done(pending) {
            self.clock.now = Touch { event: self.clock.now.event + 1, op, warp: 0 };
            self.clock.product = false;
            // That nothing wrote there meanwhile is known.
            let _ = self.shared.visit(start, length, warp, false, &self.clock);
        }
    }

    /// Whether the op being executed reads on after it was executed.
    fn stays_in_flight(&self) -> bool {
        self.races && self.completes == Completes::WithItsProducts
    }

    /// Whether the op may write there, as far as what is under way goes; gives where it lies.
    fn is_free(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, Fault> {
        self.declares(buffer, Does::writes)?;
        let start = self.shared.start(buffer, byte, length)?;
        self.under_way.arrived(start, length)?;
        self.under_way.free(start, length)?;
        Ok(start)
    }

    /// Whether the op being executed reaches a buffer this way.
    fn reaches(&self, buffer: usize, way: Way) -> bool {
        self.declared.iter().any(|access| access.buffer.0 as usize == buffer && access.way == way)
    }

    /// What an op does to buffers is in the table of effects, which all who place barriers and copies believe.
    fn declares(&self, buffer: usize, does: fn(Does) -> bool) -> Result<(), Fault> {
        let listed = self.declared.iter().any(|access| access.buffer.0 as usize == buffer && does(access.does));
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
            self.clock.visit_all(&mut self.global_marks, &mut page[first..first + count], warp, writes)?;
            at += count as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::effects::Way;
    use tileas::{Buffer, Space};

    /// Two buffers at the same place, as lifetimes that do not meet allow.
    fn hazards() -> Hazards {
        let place = Place { base: 0, bytes: 8, depth: 1, space: Space::Shared, other: 0 };
        Hazards::new(&[place, place], true, &[], &[])
    }

    /// Everything that the tests do.
    fn both() -> Vec<BufferAccess> {
        [0, 1].map(|buffer| BufferAccess { buffer: Buffer(buffer), slot: None, does: Does::Changes, way: Way::Threads }).to_vec()
    }

    #[test]
    fn what_the_table_does_not_list_is_refused() {
        let mut hazards = hazards();
        hazards.begin(
            OpId(1),
            vec![BufferAccess { buffer: Buffer(0), slot: None, does: Does::Reads, way: Way::Threads }],
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
        let place = Place { base: 0, bytes: 4096, depth: 1, space: Space::Shared, other: 0 };
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
            let clock = Clock { now: Touch { event, op: event, warp: 0 }, known: vec![vec![event, event]], ..Clock::new(&[]) };
            clock.visit_all(&mut table, &mut bytes[..2], 0, true).unwrap();
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
        hazards.under_way.commit();
        begin(&mut hazards, 2);
        hazards.copy(0, 4, &[2; 4], 0).unwrap();
        hazards.under_way.commit();
        hazards.wait_for_copies(1);
        begin(&mut hazards, 3);
        assert_eq!(hazards.read(0, 4, &mut [0], 0), Err(Fault::UnderWay { op: OpId(2) }));
        assert_eq!(hazards.write(0, 4, &[0], 0), Err(Fault::UnderWay { op: OpId(2) }));
        hazards.read(0, 0, &mut [0], 0).unwrap();
        // Another warp needs a barrier after the wait, not only after the copy.
        assert_eq!(hazards.read(0, 0, &mut [0], 1), Err(Fault::Race { op: OpId(1), writes: true }));
        hazards.barrier();
        begin(&mut hazards, 4);
        hazards.read(0, 0, &mut [0], 1).unwrap();
    }

    #[test]
    fn products_read_what_the_copy_engine_brought_without_a_fence() {
        for (way, read) in [(Way::Boxes, Ok(())), (Way::Copies, Err(Fault::Unfenced))] {
            let mut hazards = hazards();
            let access = |does, way| vec![BufferAccess { buffer: Buffer(0), slot: None, does, way }];
            hazards.begin(OpId(1), access(Does::Changes, Way::Threads), Completes::AtOnce);
            hazards.write(0, 0, &[1; 4], 0).unwrap();
            hazards.barrier();
            hazards.begin(OpId(2), access(Does::Changes, way), Completes::AtOnce);
            hazards.copy(0, 0, &[2; 4], 0).unwrap();
            let pieces = hazards.under_way.hand_over(way == Way::Boxes);
            hazards.under_way.land(&pieces);
            hazards.land(pieces);
            hazards.barrier();
            hazards.begin(OpId(3), access(Does::Reads, Way::Products), Completes::AtOnce);
            assert_eq!(hazards.read(0, 0, &mut [0; 4], 0), read);
        }
    }

    #[test]
    fn who_waits_for_boxes_does_not_wait_for_groups_nor_the_other_way_round() {
        let agents = [Agent { name: "main".into(), first_warp: 0, warps: 1 }];
        let pipe = Ring {
            depth: 1,
            counts: [1, 32],
            copies: true,
            boxes: true,
            alone: [true, false],
            by_warps: false,
            products: [false; 2],
            blocks: 1,
            multicast: Vec::new(),
        };
        let place = Place { base: 0, bytes: 8, depth: 1, space: Space::Shared, other: 0 };
        let mut hazards = Hazards::new(&[place, Place { base: 8, other: 8, ..place }], true, &agents, &[pipe]);
        hazards.turn(0);
        for (buffer, way) in [(0, Way::Copies), (1, Way::Boxes)] {
            let access = BufferAccess { buffer: Buffer(buffer), slot: None, does: Does::Writes, way };
            hazards.begin(OpId(buffer + 1), vec![access], Completes::AtOnce);
            hazards.copy(buffer as usize, 0, &[7; 8], 0).unwrap();
        }
        hazards.under_way.commit();
        hazards.wait_for_copies(0);
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        hazards.read(0, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(1, 0, &mut [0; 8], 0), Err(Fault::UnderWay { op: OpId(2) }));
        hazards.copy(0, 0, &[7; 8], 0).unwrap();
        hazards.under_way.commit();
        hazards.arrive_at_pipe(0, 0, Side::Full, 1);
        hazards.pass_pipe(0, 0, Side::Full);
        hazards.begin(OpId(4), both(), Completes::AtOnce);
        hazards.read(1, 0, &mut [0; 8], 0).unwrap();
        assert_eq!(hazards.read(0, 0, &mut [0; 8], 0), Err(Fault::UnderWay { op: OpId(3) }));
    }

    #[test]
    fn a_copy_in_a_group_that_was_not_ended_never_arrives() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.copy(0, 0, &[1], 0).unwrap();
        hazards.wait_for_copies(0);
        assert_eq!(hazards.read(0, 0, &mut [0], 0), Err(Fault::UnderWay { op: OpId(1) }));
    }

    #[test]
    fn what_a_product_in_flight_reads_is_kept() {
        let mut hazards = hazards();
        hazards.begin(OpId(1), both(), Completes::AtOnce);
        hazards.write(0, 0, &[1; 8], 0).unwrap();
        hazards.barrier();
        hazards.begin(OpId(2), both(), Completes::WithItsProducts);
        hazards.read(0, 0, &mut [0; 4], 1).unwrap();
        hazards.barrier();
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        assert_eq!(hazards.copy(0, 0, &[1], 1), Err(Fault::InFlight { op: OpId(2) }));
        hazards.wait_for_products(0);
        hazards.begin(OpId(3), both(), Completes::AtOnce);
        // Its own warp knows that it is done, others do behind a barrier only.
        hazards.copy(0, 0, &[1], 1).unwrap();
        assert_eq!(hazards.copy(0, 1, &[1], 0), Err(Fault::Race { op: OpId(2), writes: false }));
    }
}
