//! The timing model: simulates all resident CTAs on the SMs of a cluster, instruction by instruction.
//!
//! The instructions of each warp are known (`simulator::Recording`); the model computes their timing. A warp issues in order, when
//! its operands are ready, the unit is free and its SM sub-partition (SMSP) can issue. Asynchronous work (copies, `wgmma`,
//! `tcgen05`) gets its completion time at issue, because engines serve in order. Barrier arrivals are events. `memory` models the
//! memory hierarchy, `asynchronous` the engines, `barriers` the synchronization.

mod asynchronous;
mod barriers;
mod fetch;
mod memory;
mod statistics;

use crate::code::Code;
use crate::cost::Unit;
use barriers::CtaBarriers;
use fetch::Fetch;
use memory::Memory;
pub(crate) use memory::Traffic;
use perf_model::Machine;
use simulator::program::{Op, Program, Space};
use simulator::{Record, Recording, Stream};
pub(crate) use statistics::{ENGINES, Engine, InstructionTime, STALL_REASONS, Span, StallReason, Statistics};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Maximum backlog of the shared-memory port in cycles, before an access waits.
const PORT_QUEUE: f64 = 128.0;

/// The input of a simulation.
pub(crate) struct Setup<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) program: &'a Program,
    pub(crate) code: &'a Code,
    pub(crate) recording: &'a Recording,
    /// Number of clusters that are resident together (each SM runs one CTA of each), and number of clusters that run one after
    /// another in place of each.
    pub(crate) resident_ctas: usize,
    pub(crate) waves_simulated: usize,
    /// SMs that run CTAs and share the L2 cache and DRAM.
    pub(crate) active_sms: f64,
    /// Share of the lines that come from DRAM instead of L2.
    pub(crate) miss_rate: f64,
    /// DRAM bandwidth of the GPU in bytes per second.
    pub(crate) dram_bandwidth: f64,
    /// Clock frequency in Hz.
    pub(crate) frequency: f64,
    pub(crate) timeline: bool,
    /// Assume that no access has bank conflicts.
    pub(crate) perfect_banks: bool,
    /// Whether to simulate spill traffic, and stack bytes per thread.
    pub(crate) spills: bool,
    pub(crate) stack: f64,
}

/// An event with its time. The order is by time, then by insertion.
struct QueuedEvent {
    time: f64,
    number: u64,
    what: SimEvent,
}

#[derive(Clone, Copy)]
enum SimEvent {
    /// A warp may issue.
    Warp(usize),
    Arrive {
        cta: usize,
        address: u32,
        count: u32,
    },
    Complete {
        cta: usize,
        address: u32,
        bytes: u32,
    },
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for QueuedEvent {}
impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for QueuedEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

/// One of the four sub-partitions of an SM. Each number is the time until which the issue port or the unit is busy.
#[derive(Default)]
struct Smsp {
    issue: f64,
    units: [f64; 7],
    /// The light half of the multiply-add unit.
    light: f64,
    tensor_memory: f64,
}

#[derive(Default)]
struct Sm {
    smsps: [Smsp; 4],
    /// The times until which the shared-memory port, the `tcgen05` MMA unit and TMA are busy.
    port: f64,
    tensor: f64,
    tma: f64,
    memory: Memory,
    fetch: Fetch,
}

/// A running CTA.
struct Cta {
    sm: usize,
    /// The index of its cluster.
    cluster: usize,
    rank: usize,
    bars: CtaBarriers,
    warps: usize,
    /// Completion time of the issued tensor work, and the latency that a commit adds.
    tensor_end: f64,
    tensor_commit: f64,
}

struct Cluster {
    first_cta: usize,
    cta_slot: usize,
    /// Number of its CTAs that have not ended.
    running_ctas: usize,
    arrived: usize,
    waiting: Vec<usize>,
    start: f64,
}

struct Warp<'a> {
    cta: usize,
    index: usize,
    stream: &'a Stream,
    /// The next record in execution order, the range of the reordered scheduling region, and the issue order of its records.
    /// The order is empty if records are issued in execution order.
    next: usize,
    executed_region: (usize, usize),
    issued: Vec<usize>,
    ready: Vec<f64>,
    producer: Vec<StallReason>,
    /// End of its last issue, the reason of the current stall, and the time up to which stalls are accounted for.
    free: f64,
    stall: StallReason,
    accounted: f64,
    /// Whether the instruction at `next` waited for other warps and has been released.
    released: bool,
    /// Its current line of the instruction cache.
    line: u32,
    copies: Groups,
    stores: Groups,
    mmas: Groups,
    tensor_loads: f64,
    tensor_stores: f64,
}

/// Commit groups of asynchronous work of a warp, with completion times.
#[derive(Default)]
struct Groups {
    open: f64,
    /// Time at which the sources of stores have been read, before the stores complete.
    open_read: f64,
    done: VecDeque<(f64, f64)>,
}

impl Groups {
    fn add(&mut self, done: f64, read: f64) {
        self.open = self.open.max(done);
        self.open_read = self.open_read.max(read);
    }
    fn commit(&mut self) {
        self.done.push_back((self.open, self.open_read));
        (self.open, self.open_read) = (0.0, 0.0);
    }
    /// Completion time of all groups except the last `max_open`; `None` includes the open group.
    fn wait(&self, max_open: Option<u32>, read: bool) -> f64 {
        let count = self.done.len().saturating_sub(max_open.unwrap_or(0) as usize);
        let all = self.done.iter().take(count).map(|group| if read { group.1 } else { group.0 }).fold(0.0, f64::max);
        if max_open.is_none() { all.max(self.open) } else { all }
    }
    fn completion(&self) -> f64 {
        self.wait(None, false)
    }
    /// Removes the groups for which a wait with `max_open` has waited.
    fn remove_complete(&mut self, max_open: Option<u32>) {
        while self.done.len() > max_open.unwrap_or(0) as usize {
            self.done.pop_front();
        }
    }
}

pub(crate) struct Run<'a> {
    setup: &'a Setup<'a>,
    now: f64,
    number: u64,
    heap: BinaryHeap<QueuedEvent>,
    sms: Vec<Sm>,
    ctas: Vec<Cta>,
    clusters: Vec<Cluster>,
    warps: Vec<Warp<'a>>,
    clusters_started: usize,
    statistics: Statistics,
}

/// Simulates the resident clusters, and the clusters that follow when these end, to the end.
pub(crate) fn run(setup: &Setup) -> Statistics {
    let sm_count = setup.recording.ctas.len();
    let mut run = Run {
        setup,
        now: 0.0,
        number: 0,
        heap: BinaryHeap::new(),
        sms: (0..sm_count).map(|_| Sm::default()).collect(),
        ctas: Vec::new(),
        clusters: Vec::new(),
        warps: Vec::new(),
        clusters_started: 0,
        statistics: Statistics::new(setup),
    };
    for sm in &mut run.sms {
        sm.memory = Memory::new(setup);
        sm.fetch = Fetch::new(setup.machine, setup.code.line_count);
    }
    for cta_slot in 0..setup.resident_ctas {
        run.start_cluster(cta_slot, cta_slot as f64 * 100.0);
    }
    while let Some(entry) = run.heap.pop() {
        run.now = entry.time;
        match entry.what {
            SimEvent::Warp(warp) => run.advance(warp),
            SimEvent::Arrive { cta, address, count } => run.arrive(cta, address, count),
            SimEvent::Complete { cta, address, bytes } => run.complete(cta, address, bytes),
        }
    }
    run.finish()
}

impl<'a> Run<'a> {
    fn push(&mut self, time: f64, what: SimEvent) {
        self.number += 1;
        self.heap.push(QueuedEvent { time, number: self.number, what });
    }

    fn start_cluster(&mut self, cta_slot: usize, time: f64) {
        let setup = self.setup;
        self.clusters_started += 1;
        let first_cta = self.ctas.len();
        let recorded = &setup.recording.ctas;
        let start = time + setup.machine.launch.start;
        let number = self.clusters.len();
        self.clusters.push(Cluster { first_cta, cta_slot, running_ctas: recorded.len(), arrived: 0, waiting: Vec::new(), start });
        for (rank, streams) in recorded.iter().enumerate() {
            let cta = self.ctas.len();
            self.ctas.push(Cta {
                sm: rank,
                cluster: number,
                rank,
                bars: CtaBarriers::default(),
                warps: streams.len(),
                tensor_end: 0.0,
                tensor_commit: 0.0,
            });
            for (index, stream) in streams.iter().enumerate() {
                let slots = setup.program.slots as usize;
                self.warps.push(Warp {
                    cta,
                    index,
                    stream,
                    next: 0,
                    executed_region: (0, 0),
                    issued: Vec::new(),
                    ready: vec![0.0; slots],
                    producer: vec![StallReason::Arithmetic; slots],
                    free: start,
                    stall: StallReason::Start,
                    accounted: start,
                    released: false,
                    line: u32::MAX,
                    copies: Groups::default(),
                    stores: Groups::default(),
                    mmas: Groups::default(),
                    tensor_loads: 0.0,
                    tensor_stores: 0.0,
                });
                self.push(start, SimEvent::Warp(self.warps.len() - 1));
            }
        }
    }

    /// Issues instructions of a warp until an earlier event is due.
    fn advance(&mut self, warp: usize) {
        loop {
            if self.warps[warp].next >= self.warps[warp].stream.records.len() {
                return self.end_warp(warp);
            }
            let record = self.next_record(warp);
            if self.skip_folded(warp, record) {
                self.warps[warp].next += 1;
                continue;
            }
            self.fetch(warp, record);
            let Some(time) = self.ready_at(warp, record) else { return };
            if time > self.now {
                let later = self.heap.peek().is_some_and(|entry| entry.time < time);
                if later {
                    self.push(time, SimEvent::Warp(warp));
                    return;
                }
                self.now = time;
            }
            if !self.issue(warp, record) {
                return;
            }
            self.warps[warp].next += 1;
            self.warps[warp].released = false;
        }
    }

    /// Fetches an instruction; a new instruction-cache line may stall the warp.
    fn fetch(&mut self, index: usize, record: usize) {
        let warp = &mut self.warps[index];
        let sm = &mut self.sms[self.ctas[warp.cta].sm];
        let line = self.setup.code.lines[warp.stream.records[record].pc as usize];
        if !sm.fetch.can_miss() || warp.line == line {
            return;
        }
        warp.line = line;
        let arrival = sm.fetch.line(line, self.now.max(warp.free));
        if arrival > warp.free {
            (warp.free, warp.stall) = (arrival, StallReason::Fetch);
        }
    }

    /// The record that a warp issues next. Inside a scheduling region, the order is that of the assembler.
    fn next_record(&mut self, warp: usize) -> usize {
        let setup = self.setup;
        let warp = &mut self.warps[warp];
        if warp.next >= warp.executed_region.1 {
            let code = &setup.code;
            let records = &warp.stream.records[warp.next..];
            let first = records[0].pc;
            warp.issued.clear();
            warp.executed_region = (warp.next, warp.next + 1);
            if let Ok(at) = code.region_starts.binary_search(&first)
                && let Some(length) = executed_records(records, code.region_starts[at + 1], setup.program, code)
            {
                warp.executed_region.1 = warp.next + length;
                let executed_region = &records[..length];
                let issued = code.order[first as usize..code.region_starts[at + 1] as usize].iter();
                let places = issued.filter_map(|pc| executed_region.binary_search_by_key(pc, |record| record.pc).ok());
                warp.issued.extend(places.map(|place| warp.next + place));
            }
        }
        warp.issued.get(warp.next - warp.executed_region.0).copied().unwrap_or(warp.next)
    }

    /// Skips an instruction without machine code, whose results are ready when its operands are. Returns false for other
    /// instructions.
    fn skip_folded(&mut self, index: usize, record: usize) -> bool {
        let warp = &mut self.warps[index];
        let pc = warp.stream.records[record].pc as usize;
        if !self.setup.code.folded[pc] {
            return false;
        }
        let (reads, writes) = &self.setup.code.operands[pc];
        let from = reads.iter().map(|&slot| (warp.ready[slot as usize], warp.producer[slot as usize]));
        let (ready, producer) = from.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, StallReason::Arithmetic));
        for &slot in writes.iter() {
            (warp.ready[slot as usize], warp.producer[slot as usize]) = (ready, producer);
        }
        true
    }

    /// The earliest issue time of an instruction; `None` if it depends on other warps. Records the reason of the stall.
    fn ready_at(&mut self, index: usize, record: usize) -> Option<f64> {
        let setup = self.setup;
        let warp = &self.warps[index];
        let pc = warp.stream.records[record].pc as usize;
        let (reads, writes) = &setup.code.operands[pc];
        let (mut time, mut stall) = (warp.free, warp.stall);
        for &slot in reads.iter().chain(writes.iter()) {
            if warp.ready[slot as usize] > time {
                (time, stall) = (warp.ready[slot as usize], warp.producer[slot as usize]);
            }
        }
        let op = &setup.program.code[pc].op;
        let mut later = |at: f64, reason: StallReason| {
            if at > time {
                (time, stall) = (at, reason);
            }
        };
        let sm = &self.sms[self.ctas[warp.cta].sm];
        let smsp = &sm.smsps[warp.index % 4];
        match op {
            Op::CopyWait { max_open } => later(warp.copies.wait(*max_open, false), StallReason::Copies),
            Op::BulkWait { max_open, read } => later(warp.stores.wait(Some(*max_open), *read), StallReason::Stores),
            Op::WgmmaWait { max_open } => later(warp.mmas.wait(Some(*max_open), false), StallReason::Mmas),
            Op::TensorWait { loads: true } => later(warp.tensor_loads, StallReason::TmemLoad),
            Op::TensorWait { loads: false } => later(warp.tensor_stores, StallReason::TmemLoad),
            Op::Load { space, .. } | Op::Store { space, .. } if *space != Space::Param => {
                later(sm.port - PORT_QUEUE, StallReason::Port);
                later(sm.memory.backlog(), StallReason::Memory);
            }
            Op::LoadMatrix { .. } | Op::StoreMatrix { .. } | Op::Shuffle { .. } => later(sm.port - PORT_QUEUE, StallReason::Port),
            Op::CopyAsync { .. } => {
                later(sm.port - PORT_QUEUE, StallReason::Port);
                later(sm.memory.backlog(), StallReason::Memory);
            }
            _ => {}
        }
        if setup.spills && setup.code.spills[pc] > 0.0 {
            later(sm.port - PORT_QUEUE, StallReason::Port);
            later(sm.memory.backlog(), StallReason::Spill);
        }
        let cost = &setup.code.costs[pc];
        for &(unit, _) in &cost.uses {
            let free = match unit {
                Unit::Fma => smsp.units[Unit::Heavy as usize].min(smsp.light),
                unit => smsp.units[unit as usize],
            };
            later(free, if unit == Unit::Tensor { StallReason::TensorUnit } else { StallReason::Unit });
        }
        if cost.slots > 0.0 {
            later(smsp.issue, StallReason::Slot);
        }
        if time > self.now {
            self.account(index, pc as u32, stall, time);
        }
        Some(time.max(self.now))
    }

    /// Accounts the time of a warp up to `until` to a reason.
    fn account(&mut self, index: usize, pc: u32, stall: StallReason, until: f64) {
        let warp = &mut self.warps[index];
        if until > warp.accounted {
            self.statistics.wait(warp.cta, warp.index, pc, stall, warp.accounted, until);
            warp.accounted = until;
        }
    }

    /// Issues an instruction now. Returns whether the warp continues.
    fn issue(&mut self, index: usize, record: usize) -> bool {
        let setup = self.setup;
        let now = self.now;
        let pc = self.warps[index].stream.records[record].pc;
        let op = &setup.program.code[pc as usize].op;
        if !self.warps[index].released && !self.wait_for_warps(index, record, op) {
            return false;
        }
        let cost = &setup.code.costs[pc as usize];
        let warp = &mut self.warps[index];
        self.statistics.issued(warp.index, pc, cost.slots);
        let sm = &mut self.sms[self.ctas[warp.cta].sm];
        let smsp = &mut sm.smsps[warp.index % 4];
        smsp.issue = smsp.issue.max(now) + cost.slots;
        for &(unit, cycles) in &cost.uses {
            // The FMA unit has two halves: use the one that is free first, at twice the interval.
            if unit == Unit::Fma && setup.machine.rate.f32 > 64.0 {
                let heavy = &mut smsp.units[Unit::Heavy as usize];
                let half = if smsp.light <= *heavy { &mut smsp.light } else { heavy };
                *half = half.max(now) + 2.0 * cycles;
            } else {
                let unit = if unit == Unit::Fma { Unit::Heavy } else { unit };
                let free = &mut smsp.units[unit as usize];
                *free = free.max(now) + cycles;
                if setup.machine.rate.f32 <= 64.0 && unit == Unit::Heavy {
                    smsp.light = *free;
                }
            }
            self.statistics.unit(unit, cycles);
        }
        warp.free = now + cost.slots;
        warp.stall = StallReason::Slot;
        warp.accounted = warp.free;
        if setup.spills && setup.code.spills[pc as usize] > 0.0 {
            self.spill(index, f64::from(setup.code.spills[pc as usize]));
        }
        let (ready, producer) = self.effect(index, record, op, now + cost.latency);
        let warp = &mut self.warps[index];
        let following = warp.stream.records.get(record + 1).map(|next| next.pc);
        if setup.code.if_conversion[pc as usize] {
            // Predicated-off instructions are issued without effect.
            let skipped = pc as usize + 1..following.unwrap_or(0) as usize;
            warp.free += setup.code.costs.get(skipped).map_or(0.0, |costs| costs.iter().map(|cost| cost.slots).sum());
        } else if matches!(op, Op::Branch { .. } | Op::BranchIndirect { .. }) && following.is_some_and(|next| next != pc + 1) {
            warp.free += setup.machine.latency.branch;
            warp.stall = StallReason::Branch;
        }
        for &slot in setup.code.operands[pc as usize].1.iter() {
            (warp.ready[slot as usize], warp.producer[slot as usize]) = (ready, producer);
        }
        true
    }

    /// The effects of an instruction beyond its unit. Returns when its result is ready, and the kind of wait for it.
    fn effect(&mut self, index: usize, record: usize, op: &Op, ready: f64) -> (f64, StallReason) {
        let setup = self.setup;
        let machine = setup.machine;
        let now = self.now;
        let stream = self.warps[index].stream;
        let events = stream.events_of(record);
        match op {
            Op::Load { .. } | Op::Store { .. } | Op::Atom { .. } | Op::LoadMatrix { .. } | Op::StoreMatrix { .. } => {
                self.access(index, events, op, ready)
            }
            Op::Shuffle { .. } => {
                let sm = &mut self.sms[self.ctas[self.warps[index].cta].sm];
                sm.port = sm.port.max(now) + 1.0;
                self.statistics.engine(Engine::Port, 1.0);
                (ready, StallReason::Shared)
            }
            Op::Mma(_) => (ready, StallReason::Mma),
            Op::CopyAsync { .. } | Op::CopyCommit | Op::CopyArrive { .. } | Op::Bulk(_) | Op::BulkCommit => {
                self.copy(index, events, op);
                (ready, StallReason::Arithmetic)
            }
            Op::CopyWait { max_open } => {
                self.warps[index].copies.remove_complete(*max_open);
                (ready, StallReason::Copies)
            }
            Op::BulkWait { max_open, read } => {
                if !read {
                    self.warps[index].stores.remove_complete(Some(*max_open));
                }
                (ready, StallReason::Stores)
            }
            Op::WgmmaWait { max_open } => {
                self.warps[index].mmas.remove_complete(Some(*max_open));
                (ready, StallReason::Mmas)
            }
            Op::Wgmma(_)
            | Op::WgmmaCommit
            | Op::TensorMma(_)
            | Op::TensorCommit { .. }
            | Op::TensorCopy { .. }
            | Op::TmemLoad { .. }
            | Op::TmemStore { .. }
            | Op::TensorAllocate { .. }
            | Op::TensorWait { .. } => self.tensor(index, events, op, ready),
            Op::Mbarrier { .. } | Op::CancelLaunch { .. } => self.mbarrier(index, events, op, ready),
            Op::Nothing | Op::ProxyFence => {
                let name = &setup.program.names[setup.program.code[stream.records[record].pc as usize].name as usize];
                let extra = match name.split('.').next() {
                    Some("setmaxnreg") => machine.sync.set_registers,
                    Some("fence") if name.contains("proxy") => machine.sync.fence_proxy,
                    Some("fence" | "membar") if name.contains("gpu") || name.contains("sys") || name.contains(".gl") => {
                        machine.sync.fence_device
                    }
                    Some("fence" | "membar") if name.contains("cluster") && !name.contains("mbarrier_init") => {
                        machine.sync.fence_cta
                    }
                    Some("fence" | "membar") => machine.sync.fence_cta,
                    _ => 0.0,
                };
                self.warps[index].free += extra;
                if extra > 0.0 {
                    self.warps[index].stall = StallReason::Fence;
                }
                (ready, StallReason::Arithmetic)
            }
            Op::Exit => (ready, StallReason::Arithmetic),
            Op::Elementwise { .. } | Op::Move { .. } | Op::Select { .. } | Op::Pack { .. } | Op::Unpack { .. } => {
                let pc = stream.records[record].pc as usize;
                let special = setup.code.costs[pc].uses.iter().any(|(unit, _)| *unit == Unit::Special);
                (ready, if special { StallReason::Special } else { StallReason::Arithmetic })
            }
            _ => (ready, StallReason::Arithmetic),
        }
    }

    fn end_warp(&mut self, warp: usize) {
        let cta = self.warps[warp].cta;
        self.warps[warp].ready = Vec::new();
        self.warps[warp].producer = Vec::new();
        let end = self.warps[warp].free.max(self.now);
        self.statistics.end_of_warp(end);
        self.ctas[cta].warps -= 1;
        self.warp_exited(cta);
        if self.ctas[cta].warps > 0 {
            return;
        }
        let cluster = self.ctas[cta].cluster;
        self.clusters[cluster].running_ctas -= 1;
        if self.clusters[cluster].running_ctas > 0 {
            return;
        }
        let (start, cta_slot) = (self.clusters[cluster].start, self.clusters[cluster].cta_slot);
        self.statistics.cluster_times.push((start, end));
        if self.clusters_started < self.setup.resident_ctas * self.setup.waves_simulated {
            self.start_cluster(cta_slot, end + self.setup.machine.launch.next - self.setup.machine.launch.start);
        }
    }

    fn finish(mut self) -> Statistics {
        let stuck: Vec<u32> = self
            .warps
            .iter()
            .filter(|warp| warp.next < warp.stream.records.len())
            .map(|warp| self.setup.program.code[warp.stream.records[warp.next].pc as usize].line)
            .collect();
        self.statistics.stuck = stuck;
        self.statistics.traffic = self.sms.iter().map(|m| m.memory.traffic).collect();
        self.statistics
    }

    /// Records a span of an engine's timeline.
    fn span(&mut self, engine: Engine, cta: usize, start: f64, end: f64, pc: u32) {
        if self.setup.timeline {
            self.statistics.spans.push(Span { engine: Some(engine), cta, warp: 0, stall: StallReason::Slot, start, end, pc });
        }
    }
    /// The current instruction of a warp.
    fn pc(&mut self, index: usize) -> u32 {
        let record = self.next_record(index);
        self.warps[index].stream.records[record].pc
    }
    fn cta_of_rank(&self, cta: usize, rank: u8) -> usize {
        self.clusters[self.ctas[cta].cluster].first_cta + usize::from(rank)
    }
}

/// The number of records that execute a region up to `end`, complete except for instructions that converted branches skip.
/// `None` if execution leaves the region early.
fn executed_records(records: &[Record], end: u32, program: &Program, code: &Code) -> Option<usize> {
    for (index, record) in records.iter().enumerate() {
        if record.pc + 1 == end {
            return Some(index + 1);
        }
        let next = records.get(index + 1)?.pc;
        let skipped = matches!(program.code[record.pc as usize].op, Op::Branch { target } if code.if_conversion[record.pc as usize] && target == next);
        if next != record.pc + 1 && !skipped {
            return None;
        }
    }
    None
}
