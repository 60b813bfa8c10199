//! The timing model of `tile-time`. It simulates all resident CTAs on the SMs of a cluster, instruction by instruction.
//!
//! The instructions of each warp are known (`simulator::Recording`); the model computes their timing. A warp issues an instruction
//! when its operands are ready, its unit is free and the SM sub-partition (SMSP) of the warp can issue. Asynchronous work (copies,
//! `wgmma`, `tcgen05`) gets its completion time at issue, because the engines process work in order. Barrier arrivals are events.
//! `memory` models the memory hierarchy, `asynchronous` the engines, `barriers` the synchronization.

mod asynchronous;
mod barriers;
mod fetch;
mod issue;
mod memory;
mod statistics;

use crate::code::Code;
use crate::loop_unrolling::UnrolledIterations;
use barriers::CtaBarriers;
use fetch::InstructionCache;
use memory::Memory;
pub(crate) use memory::Traffic;
use perf_model::Machine;
use simulator::program::{Op, Program};
use simulator::{Record, Recording, WarpTrace};
pub(crate) use statistics::{ENGINES, Engine, InstructionTime, STALL_REASONS, Span, StallReason, Statistics};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Maximum backlog of the shared-memory port in cycles. If the backlog is longer, the next access waits.
const MAX_SMEM_PORT_BACKLOG: f64 = 128.0;

/// The input of a simulation.
pub(crate) struct Setup<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) program: &'a Program,
    pub(crate) code: &'a Code,
    pub(crate) recording: &'a Recording,
    /// Number of CTAs that an SM holds at once. Each of these CTAs belongs to a different cluster.
    pub(crate) resident_ctas: usize,
    /// Number of clusters that run one after another in the slot of each resident cluster.
    pub(crate) simulated_waves: usize,
    /// Number of SMs that run CTAs of the grid, and share the bandwidth of L2 and DRAM.
    pub(crate) active_sms: f64,
    /// Share of the lines that come from DRAM instead of L2 when an instruction first uses them.
    pub(crate) miss_rate: f64,
    /// DRAM bandwidth of the GPU in bytes per second.
    pub(crate) dram_bandwidth: f64,
    /// Clock frequency in Hz.
    pub(crate) frequency: f64,
    /// Whether to record a timeline.
    pub(crate) records_timeline: bool,
    /// Whether to assume that no access has bank conflicts.
    pub(crate) without_bank_conflicts: bool,
    /// Whether to simulate spill traffic.
    pub(crate) spill_traffic: bool,
    /// Stack bytes per thread.
    pub(crate) stack_bytes: f64,
}

/// An event with its time in cycles. The queue orders events by time, then by insertion.
struct QueuedEvent {
    time: f64,
    sequence_number: u64,
    event: SimEvent,
}

/// An event of the discrete-event simulation. A warp is an index of `Run::warps`, a CTA an index of `Run::ctas`.
#[derive(Clone, Copy)]
enum SimEvent {
    /// A warp may issue.
    Warp(usize),
    /// `count` arrivals at an mbarrier.
    Arrive { cta: usize, address: u32, count: u32 },
    /// An asynchronous copy has written `bytes` and reports them to an mbarrier.
    Complete { cta: usize, address: u32, bytes: u32 },
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
        other.time.total_cmp(&self.time).then(other.sequence_number.cmp(&self.sequence_number))
    }
}

/// One of the four sub-partitions of an SM. Each field is the time in cycles until which an issue port or a unit is busy.
#[derive(Default)]
struct Smsp {
    issue_busy_until: f64,
    /// The times of the units in the order of `cost::UNITS`.
    units: [f64; 7],
    /// The time of the half of the FMA unit that executes only float instructions. `Unit::Heavy` is the other half.
    light_fma_busy_until: f64,
    /// The time of the tensor-memory port for `tcgen05.ld` and `tcgen05.st`.
    tmem_port_busy_until: f64,
}

/// The state of an SM.
#[derive(Default)]
struct Sm {
    smsps: [Smsp; 4],
    /// The times in cycles until which the shared-memory port, the `tcgen05` MMA unit and TMA are busy.
    smem_port_busy_until: f64,
    tensor_busy_until: f64,
    tma_busy_until: f64,
    memory: Memory,
    instruction_cache: InstructionCache,
}

/// A running or completed CTA.
struct Cta {
    /// The index in `Run::sms` of the SM that runs the CTA.
    sm: usize,
    /// The index of the cluster of the CTA in `Run::clusters`.
    cluster: usize,
    /// The rank of the CTA in its cluster.
    rank: usize,
    barriers: CtaBarriers,
    /// Number of warps of the CTA that have not ended.
    running_warps: usize,
    /// Completion time of the issued `tcgen05` MMAs and copies.
    tensor_end: f64,
    /// The latency in cycles that a `tcgen05.commit` adds to `tensor_end`.
    commit_latency: f64,
}

/// A running or completed cluster.
struct Cluster {
    /// The index in `Run::ctas` of the CTA with rank 0.
    first_cta: usize,
    /// The slot of the cluster. Each SM has `Setup::resident_ctas` slots, and the clusters of one slot run one after another.
    cta_slot: usize,
    /// Number of CTAs of the cluster that have not ended.
    running_ctas: usize,
    /// Number of warps that have arrived at the cluster barrier in the current phase.
    arrived: usize,
    /// The warps that wait at the cluster barrier.
    waiting: Vec<usize>,
    start: f64,
}

/// A running warp, which replays the recorded instructions of `stream`.
struct Warp<'a> {
    cta: usize,
    /// The index of the warp in its CTA.
    index: usize,
    stream: &'a WarpTrace,
    /// The number of records that the warp has issued or skipped. The warp skips records of folded instructions.
    next: usize,
    /// The range of the records of the current scheduling region.
    executed_region: (usize, usize),
    /// The order in which the warp issues the records of the region; empty if the warp issues them in execution order.
    issue_order: Vec<usize>,
    unrolled: UnrolledIterations,
    /// For each register, the time at which its value is ready, and the stall reason of instructions that wait for it.
    ready_times: Vec<f64>,
    ready_stalls: Vec<StallReason>,
    /// The earliest time at which the warp can issue its next instruction, apart from operands, units and waits.
    earliest_issue: f64,
    /// The reason why the warp does not issue before `earliest_issue`.
    stall: StallReason,
    /// The time up to which the model has attributed the waits of the warp to a stall reason.
    attributed_until: f64,
    /// Whether the instruction at `next` waited for other warps, and these warps have released it.
    released: bool,
    /// The instruction-cache line of the last instruction that the warp fetched.
    cache_line: u32,
    /// The earliest time at which the warp may issue its next bulk copy.
    next_bulk_copy: f64,
    /// The commit groups of `cp.async` copies, of TMA stores and of `wgmma` MMAs.
    copies: CommitGroups,
    stores: CommitGroups,
    mmas: CommitGroups,
    /// The times at which all issued `tcgen05.ld` and all issued `tcgen05.st` of the warp complete.
    tensor_loads: f64,
    tensor_stores: f64,
}

/// The completion times of one kind of asynchronous work of a warp, by commit group.
#[derive(Default)]
struct CommitGroups {
    /// The time at which the uncommitted work completes.
    open: f64,
    /// The time at which the uncommitted work has read its sources in shared memory.
    open_read: f64,
    /// For each committed group, oldest first: the time at which its work completes, and the time at which it has read its sources.
    committed: VecDeque<(f64, f64)>,
}

impl CommitGroups {
    /// Adds an operation to the uncommitted work. The operation completes at `done`, and has read its source at `read`.
    fn add(&mut self, done: f64, read: f64) {
        self.open = self.open.max(done);
        self.open_read = self.open_read.max(read);
    }
    /// Commits the uncommitted work as a group, as `commit_group` does.
    fn commit(&mut self) {
        self.committed.push_back((self.open, self.open_read));
        (self.open, self.open_read) = (0.0, 0.0);
    }
    /// Returns the time at which a wait for all committed groups except the last `max_open` ends. If `max_open` is `None`, the wait
    /// includes all groups and the uncommitted work. If `read` is true, the wait ends when the work has read its sources.
    fn wait_end(&self, max_open: Option<u32>, read: bool) -> f64 {
        let count = self.committed.len().saturating_sub(max_open.unwrap_or(0) as usize);
        let all = self.committed.iter().take(count).map(|group| if read { group.1 } else { group.0 }).fold(0.0, f64::max);
        if max_open.is_none() { all.max(self.open) } else { all }
    }
    /// Returns the time at which all groups and all uncommitted work are complete.
    fn completion_time(&self) -> f64 {
        self.wait_end(None, false)
    }
    /// Removes the groups that a wait with `max_open` has completed.
    fn remove_complete(&mut self, max_open: Option<u32>) {
        while self.committed.len() > max_open.unwrap_or(0) as usize {
            self.committed.pop_front();
        }
    }
}

/// The state of a simulation.
pub(crate) struct Run<'a> {
    setup: &'a Setup<'a>,
    now: f64,
    /// The number of events that were added to the queue so far.
    sequence_number: u64,
    event_queue: BinaryHeap<QueuedEvent>,
    sms: Vec<Sm>,
    ctas: Vec<Cta>,
    clusters: Vec<Cluster>,
    warps: Vec<Warp<'a>>,
    /// The number of clusters that were started so far.
    clusters_started: usize,
    statistics: Statistics,
}

/// Simulates `resident_ctas` clusters at once, and after each of them the next cluster of its slot, until all waves have ended.
pub(crate) fn simulate(setup: &Setup) -> Statistics {
    let sm_count = setup.recording.ctas.len();
    let mut run = Run {
        setup,
        now: 0.0,
        sequence_number: 0,
        event_queue: BinaryHeap::new(),
        sms: (0..sm_count).map(|_| Sm::default()).collect(),
        ctas: Vec::new(),
        clusters: Vec::new(),
        warps: Vec::new(),
        clusters_started: 0,
        statistics: Statistics::new(setup),
    };
    for sm in &mut run.sms {
        sm.memory = Memory::new(setup);
        sm.instruction_cache = InstructionCache::new(setup.machine, setup.code.cache_line_count);
    }
    // The first clusters start 100 cycles apart, so that equal CTAs do not run in lockstep.
    for cta_slot in 0..setup.resident_ctas {
        run.start_cluster(cta_slot, cta_slot as f64 * 100.0);
    }
    while let Some(entry) = run.event_queue.pop() {
        run.now = entry.time;
        match entry.event {
            SimEvent::Warp(warp) => run.advance_warp(warp),
            SimEvent::Arrive { cta, address, count } => run.arrive_at_mbarrier(cta, address, count),
            SimEvent::Complete { cta, address, bytes } => run.complete_bytes(cta, address, bytes),
        }
    }
    run.finish()
}

impl<'a> Run<'a> {
    /// Adds an event to the queue. Events of equal time keep the order in which they were added.
    fn push_event(&mut self, time: f64, event: SimEvent) {
        self.sequence_number += 1;
        self.event_queue.push(QueuedEvent { time, sequence_number: self.sequence_number, event });
    }

    /// Starts a cluster in a slot at `time`: creates its CTAs and its warps, and adds the first event of each warp to the queue.
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
                barriers: CtaBarriers::default(),
                running_warps: streams.len(),
                tensor_end: 0.0,
                commit_latency: 0.0,
            });
            for (index, stream) in streams.iter().enumerate() {
                let slots = setup.program.slot_count as usize;
                self.warps.push(Warp {
                    cta,
                    index,
                    stream,
                    next: 0,
                    executed_region: (0, 0),
                    issue_order: Vec::new(),
                    unrolled: UnrolledIterations::default(),
                    ready_times: vec![0.0; slots],
                    ready_stalls: vec![StallReason::Arithmetic; slots],
                    earliest_issue: start,
                    stall: StallReason::Start,
                    attributed_until: start,
                    released: false,
                    cache_line: u32::MAX,
                    next_bulk_copy: 0.0,
                    copies: CommitGroups::default(),
                    stores: CommitGroups::default(),
                    mmas: CommitGroups::default(),
                    tensor_loads: 0.0,
                    tensor_stores: 0.0,
                });
                self.push_event(start, SimEvent::Warp(self.warps.len() - 1));
            }
        }
    }

    /// Issues instructions of a warp until the warp ends, the warp waits for other warps, or an event is due before the next
    /// instruction can issue.
    fn advance_warp(&mut self, warp: usize) {
        loop {
            if self.warps[warp].next >= self.warps[warp].stream.records.len() {
                return self.end_warp(warp);
            }
            let record = self.next_record(warp);
            if self.skip_folded(warp, record) {
                self.warps[warp].next += 1;
                continue;
            }
            self.fetch_instruction(warp, record);
            let time = self.earliest_issue_time(warp, record);
            if time > self.now {
                let is_event_due = self.event_queue.peek().is_some_and(|entry| entry.time < time);
                if is_event_due {
                    self.push_event(time, SimEvent::Warp(warp));
                    return;
                }
                self.now = time;
            }
            if !self.issue_instruction(warp, record) {
                return;
            }
            self.warps[warp].next += 1;
            self.warps[warp].released = false;
        }
    }

    /// Fetches an instruction. The warp stalls if it enters an instruction-cache line that has not arrived.
    fn fetch_instruction(&mut self, index: usize, record: usize) {
        let warp = &mut self.warps[index];
        let sm = &mut self.sms[self.ctas[warp.cta].sm];
        let line = self.setup.code.cache_lines[warp.stream.records[record].pc as usize];
        if !sm.instruction_cache.can_miss() || warp.cache_line == line {
            return;
        }
        warp.cache_line = line;
        let arrival = sm.instruction_cache.request_line(line, self.now.max(warp.earliest_issue));
        if arrival > warp.earliest_issue {
            (warp.earliest_issue, warp.stall) = (arrival, StallReason::Fetch);
        }
    }

    /// Returns the index of the record that a warp issues next. Inside a scheduling region, a warp issues the records in the order
    /// of the assembler.
    fn next_record(&mut self, warp: usize) -> usize {
        let setup = self.setup;
        let warp = &mut self.warps[warp];
        if warp.next >= warp.executed_region.1 {
            let code = &setup.code;
            let records = &warp.stream.records[warp.next..];
            let first_pc = records[0].pc;
            warp.unrolled.enter_region(code, records, self.now.max(warp.earliest_issue));
            warp.issue_order.clear();
            warp.executed_region = (warp.next, warp.next + 1);
            if let Ok(at) = code.region_starts.binary_search(&first_pc)
                && let Some(length) = executed_records(records, code.region_starts[at + 1], setup.program, code)
            {
                warp.executed_region.1 = warp.next + length;
                let executed_region = &records[..length];
                let issue_order = code.order[first_pc as usize..code.region_starts[at + 1] as usize].iter();
                let record_indices = issue_order.filter_map(|pc| executed_region.binary_search_by_key(pc, |record| record.pc).ok());
                warp.issue_order.extend(record_indices.map(|index| warp.next + index));
            }
        }
        warp.issue_order.get(warp.next - warp.executed_region.0).copied().unwrap_or(warp.next)
    }

    /// Ends a warp. If it is the last running warp of its cluster, the next cluster of the slot starts.
    fn end_warp(&mut self, warp: usize) {
        let cta = self.warps[warp].cta;
        self.warps[warp].ready_times = Vec::new();
        self.warps[warp].ready_stalls = Vec::new();
        let end = self.warps[warp].earliest_issue.max(self.now);
        self.statistics.record_warp_end(end);
        self.ctas[cta].running_warps -= 1;
        self.warp_exited(cta);
        if self.ctas[cta].running_warps > 0 {
            return;
        }
        let cluster = self.ctas[cta].cluster;
        self.clusters[cluster].running_ctas -= 1;
        if self.clusters[cluster].running_ctas > 0 {
            return;
        }
        let (start, cta_slot) = (self.clusters[cluster].start, self.clusters[cluster].cta_slot);
        self.statistics.cluster_times.push((start, end));
        if self.clusters_started < self.setup.resident_ctas * self.setup.simulated_waves {
            self.start_cluster(cta_slot, end + self.setup.machine.launch.next - self.setup.machine.launch.start);
        }
    }

    /// Completes the statistics. A warp that has not issued all its records is stuck.
    fn finish(mut self) -> Statistics {
        let stuck: Vec<u32> = self
            .warps
            .iter()
            .filter(|warp| warp.next < warp.stream.records.len())
            .map(|warp| self.setup.program.code[warp.stream.records[warp.next].pc as usize].line)
            .collect();
        self.statistics.stuck = stuck;
        self.statistics.traffic = self.sms.iter().map(|sm| sm.memory.traffic).collect();
        self.statistics
    }

    /// Records in the timeline that an engine processes the instruction `pc` of a CTA from `start` to `end`.
    fn record_span(&mut self, engine: Engine, cta: usize, start: f64, end: f64, pc: u32) {
        if self.setup.records_timeline {
            self.statistics.spans.push(Span { engine: Some(engine), cta, warp: 0, stall: StallReason::Slot, start, end, pc });
        }
    }
    /// Returns the index of the instruction that a warp issues now.
    fn current_pc(&mut self, index: usize) -> u32 {
        let record = self.next_record(index);
        self.warps[index].stream.records[record].pc
    }
    /// Returns the index of the CTA with this rank in the cluster of `cta`.
    fn cta_of_rank(&self, cta: usize, rank: u8) -> usize {
        self.clusters[self.ctas[cta].cluster].first_cta + usize::from(rank)
    }
}

/// Returns the number of records that execute a scheduling region up to instruction `end`. Converted branches may skip
/// instructions, so this number may be less than the length of the region. Returns `None` if execution leaves the region before
/// `end`.
fn executed_records(records: &[Record], end: u32, program: &Program, code: &Code) -> Option<usize> {
    for (index, record) in records.iter().enumerate() {
        if record.pc + 1 == end {
            return Some(index + 1);
        }
        let next = records.get(index + 1)?.pc;
        let skipped = matches!(program.code[record.pc as usize].op, Op::Branch { target } if code.converted_branches[record.pc as usize] && target == next);
        if next != record.pc + 1 && !skipped {
            return None;
        }
    }
    None
}
