//! The memory hierarchy of global accesses: L1, the channel to L2, DRAM.
//!
//! The model assumes that all SMs of the grid behave alike, so each simulated SM gets an equal share of the L2 and DRAM bandwidth.
//! An SM may use its DRAM share ahead of time, up to the DRAM latency, because not all SMs use their shares at once.

use super::{Engine, Run, Setup, StallReason};
use simulator::Event;
use simulator::program::{Op, Space};
use std::collections::BTreeMap;

/// Window in cycles over which the model averages the DRAM utilization.
const DRAM_WINDOW: f64 = 2000.0;
/// Maximum backlog of the L2 channels and of DRAM in cycles. If the backlog is longer, the next access waits.
const MAX_BACKLOG: f64 = 1500.0;
/// Bytes of a sector, the unit of a transfer between L1, L2 and DRAM.
pub(super) const SECTOR_BYTES: f64 = 32.0;
/// Associativity of the modelled L1.
const CACHE_WAYS: usize = 8;
/// Maximum difference, in lines, between the number of modelled L2 misses and the product of miss rate and first uses. The function
/// `Memory::is_from_dram` ensures this bound.
const MAX_MISS_DEVIATION: f64 = 32.0;

/// A line in L1. `sectors` has one bit for each sector of the line that L1 holds.
#[derive(Clone, Copy)]
struct CachedLine {
    number: u64,
    sectors: u8,
}

/// A line that an instruction has used. `sectors` has one bit for each used sector.
struct UsedLine {
    sectors: u8,
    /// Whether the first use of the line missed L2.
    from_dram: bool,
}

/// Bytes transferred over the L2 channels and from DRAM, and the number of lines that hit L1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) l2_bytes: f64,
    pub(crate) dram_bytes: f64,
    pub(crate) l1_hit_lines: f64,
}

/// The kind of a memory request: a load or store by threads, or a load or store by TMA.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryRequest {
    Load,
    Store,
    TmaLoad,
    TmaStore,
}

/// The state of the memory hierarchy of one SM. All times are in cycles.
#[derive(Default)]
pub(super) struct Memory {
    /// The time until which the L1 tags are busy; they look up one line per cycle.
    pub(super) tags_busy_until: f64,
    /// The times until which the channels from L2 and to L2, and the SM's share of DRAM, are busy.
    from_l2_busy_until: f64,
    to_l2_busy_until: f64,
    dram_busy_until: f64,
    /// Bandwidths of the SM in bytes per cycle: of each L2 channel, and its share of DRAM.
    l2_rate: f64,
    dram_rate: f64,
    /// Share of the first uses of lines that miss L2.
    miss_rate: f64,
    l2_latency: f64,
    memory_latency: f64,
    /// Half of the difference in latency between a far and a near L2 slice, in cycles.
    far_latency: f64,
    /// Number of consecutive lines in the same L2 slice.
    slice_lines: u64,
    /// The queueing time of an access at full DRAM utilization, divided by the latency of the access.
    queue_factor: f64,
    /// The share of the spilled registers that L1 cannot hold.
    spill_share_beyond_l1: f64,
    /// The averaged utilization of the DRAM share, and the time of its last update.
    dram_utilization: f64,
    dram_utilization_time: f64,
    /// The sets of L1: lines, most recently used first.
    l1_sets: Vec<[CachedLine; CACHE_WAYS]>,
    /// The lines that any instruction has used so far.
    used_lines: BTreeMap<u64, UsedLine>,
    /// Number of first uses of lines, and the number of first uses that came from DRAM.
    first_uses: f64,
    first_misses: f64,
    pub(super) traffic: Traffic,
}

impl Memory {
    /// Returns the memory state of an SM at the start: its share of the bandwidths, and empty caches.
    pub(super) fn new(setup: &Setup) -> Memory {
        let machine = setup.machine;
        let global = &machine.global;
        let shared_kib = f64::from(setup.program.shared_bytes) * setup.resident_ctas as f64 / 1024.0;
        let l1_kib = (machine.chip.l1 - shared_kib).max(16.0);
        let lines = (l1_kib * 8.0) as usize;
        let stack_kib = setup.stack_bytes * f64::from(setup.program.cta_threads) * setup.resident_ctas as f64 / 1024.0;
        Memory {
            l2_rate: global.l2_bytes.min(global.l2_chip_bytes / setup.active_sms),
            dram_rate: setup.dram_bandwidth / setup.frequency / setup.active_sms,
            miss_rate: setup.miss_rate,
            l2_latency: global.l2_latency,
            memory_latency: global.memory_latency,
            far_latency: global.far,
            // In lines.
            slice_lines: (global.slice_interleave / 128.0).max(1.0) as u64,
            queue_factor: global.queue,
            spill_share_beyond_l1: (1.0 - l1_kib / stack_kib.max(1.0)).max(0.0),
            l1_sets: vec![[CachedLine { number: u64::MAX, sectors: 0 }; CACHE_WAYS]; (lines / CACHE_WAYS).max(1)],
            ..Memory::default()
        }
    }

    /// Returns the earliest time at which the backlog is short enough for the next access.
    pub(super) fn backlog_end(&self) -> f64 {
        self.from_l2_busy_until.max(self.to_l2_busy_until).max(self.dram_busy_until) - MAX_BACKLOG
    }

    /// Looks up the sectors of a line in L1, and inserts them. Returns the number of sectors that L1 did not hold.
    fn look_up_l1(&mut self, line: u64, sectors: u8) -> u32 {
        let index = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize % self.l1_sets.len();
        let set = &mut self.l1_sets[index];
        let way = set.iter().position(|other| other.number == line);
        set[..=way.unwrap_or(CACHE_WAYS - 1)].rotate_right(1);
        let present = if way.is_some() { set[0].sectors } else { 0 };
        set[0] = CachedLine { number: line, sectors: present | sectors };
        (sectors & !present).count_ones()
    }
    /// Returns whether the first use of `count` lines misses L2. The hash of the first line `line` decides, so the misses depend
    /// little on the order of the accesses. A correction keeps the share of misses close to the miss rate.
    fn is_from_dram(&mut self, line: u64, count: f64) -> bool {
        let miss_deficit = self.miss_rate * self.first_uses - self.first_misses;
        let hash = line.wrapping_mul(0xd134_2543_de82_ef95) >> 40;
        let is_miss = (hash as f64) < (self.miss_rate + miss_deficit / MAX_MISS_DEVIATION) * (1u64 << 24) as f64;
        self.first_uses += count;
        self.first_misses += if is_miss { count } else { 0.0 };
        is_miss
    }

    /// Transfers bytes over the channel to L2, or over the channel from L2 if `to_l2` is false. Returns the time at which the last
    /// byte is transferred.
    fn transfer_l2(&mut self, to_l2: bool, now: f64, bytes: f64) -> f64 {
        self.traffic.l2_bytes += bytes;
        let channel = if to_l2 { &mut self.to_l2_busy_until } else { &mut self.from_l2_busy_until };
        *channel = channel.max(now) + bytes / self.l2_rate;
        *channel
    }

    /// Returns the difference between the expected L2 latency of a request for several lines and the mean latency of L2 slices.
    /// Half of the slices are in the far partition, and the slowest line of the request determines its latency.
    pub(super) fn far_slice_latency(&self, lines: &[u64]) -> f64 {
        let slices = lines.chunk_by(|one, next| one / self.slice_lines == next / self.slice_lines).count();
        self.far_latency * (1.0 - 2.0 * 0.5_f64.powi(slices.clamp(1, 64) as i32))
    }

    /// Transfers `bytes` between the SM and L2, of which `dram_bytes` come from or go to DRAM. Returns the time at which the
    /// transfer is complete.
    pub(super) fn request(&mut self, now: f64, bytes: f64, dram_bytes: f64, extra_latency: f64, kind: MemoryRequest) -> f64 {
        self.traffic.dram_bytes += dram_bytes;
        let transferred = self.transfer_l2(matches!(kind, MemoryRequest::Store | MemoryRequest::TmaStore), now, bytes);
        let latency = if dram_bytes > 0.0 { self.memory_latency } else { self.l2_latency };
        self.dram_utilization *= (-(now - self.dram_utilization_time).max(0.0) / DRAM_WINDOW).exp();
        self.dram_utilization_time = self.dram_utilization_time.max(now);
        self.dram_utilization += dram_bytes / self.dram_rate / DRAM_WINDOW;
        // A TMA load does not queue: its rows and its lines in far L2 slices already determine its time.
        let queues = dram_bytes > 0.0 && kind != MemoryRequest::TmaLoad;
        let queue_time = if queues { self.queue_factor * latency * self.dram_utilization.min(1.0) } else { 0.0 };
        let mut done = transferred + latency + extra_latency + queue_time;
        if dram_bytes > 0.0 {
            self.dram_busy_until = self.dram_busy_until.max(now - self.memory_latency) + dram_bytes / self.dram_rate;
            done = done.max(self.dram_busy_until + latency);
        }
        done
    }

    /// Transfers `lines` lines of spilled registers of a warp, one line per register. Only the share that L1 cannot hold goes to
    /// and from L2.
    fn transfer_spills(&mut self, now: f64, lines: f64) {
        let bytes = 128.0 * lines * self.spill_share_beyond_l1;
        self.tags_busy_until = self.tags_busy_until.max(now) + lines;
        // About half of the spill instructions are loads.
        self.transfer_l2(false, now, bytes / 2.0);
        self.transfer_l2(true, now, bytes / 2.0);
    }

    /// Returns how many bytes of the sectors come from DRAM. A sector comes from DRAM if no instruction has used it before, and its
    /// line misses L2. All modelled clusters replay one recording; `cluster_salt` makes the line numbers of each cluster distinct.
    pub(super) fn count_dram_bytes(&mut self, lines: &[u64], sector_masks: &[u8], cluster_salt: u64) -> f64 {
        let mut new_sectors = 0;
        for (&line, &sectors) in lines.iter().zip(sector_masks) {
            let line = line ^ cluster_salt;
            let from_dram = match self.used_lines.get(&line) {
                Some(used) => used.from_dram,
                None => self.is_from_dram(line, 1.0),
            };
            let used = self.used_lines.entry(line).or_insert(UsedLine { sectors: 0, from_dram });
            new_sectors += if from_dram { (sectors & !used.sectors).count_ones() } else { 0 };
            used.sectors |= sectors;
        }
        SECTOR_BYTES * f64::from(new_sectors)
    }
    /// Returns how many lines of a TMA tile come from DRAM. CTAs share TMA tiles, not single lines, so either all unused lines of a
    /// tile come from DRAM, or none.
    pub(super) fn count_dram_lines_of_tma_tile(&mut self, lines: &[u64], cluster_salt: u64) -> f64 {
        let Some(&first) = lines.first() else { return 0.0 };
        let unused: Vec<u64> =
            lines.iter().map(|line| line ^ cluster_salt).filter(|line| !self.used_lines.contains_key(line)).collect();
        let from_dram = self.is_from_dram(first ^ cluster_salt, unused.len() as f64);
        self.used_lines.extend(unused.iter().map(|line| (*line, UsedLine { sectors: u8::MAX, from_dram })));
        if from_dram { unused.len() as f64 } else { 0.0 }
    }
}

impl Run<'_> {
    /// Adds the issue time and the memory traffic of `count` spill instructions of a warp. The assembler reloads registers ahead of
    /// their use, so in the model no instruction waits for a reload.
    pub(super) fn add_spills(&mut self, index: usize, count: f64) {
        let warp = &mut self.warps[index];
        let sm_index = self.ctas[warp.cta].sm;
        let sm = &mut self.sms[sm_index];
        let smsp = &mut sm.smsps[warp.index % 4];
        smsp.issue_busy_until += count;
        (warp.earliest_issue, warp.stall) = (warp.earliest_issue + count, StallReason::Spill);
        sm.smem_port_busy_until = sm.smem_port_busy_until.max(self.now) + count;
        sm.memory.transfer_spills(self.now, count);
        self.statistics.add_engine_cycles(Engine::Port, count);
    }

    /// Executes a load, a store, an atomic operation, or a matrix load or store. Returns the time at which the result is ready, and
    /// the stall reason of instructions that wait for the result.
    pub(super) fn execute_access(&mut self, index: usize, events: &[Event], op: &Op, mut ready: f64) -> (f64, StallReason) {
        let (now, machine) = (self.now, self.setup.machine);
        let cta = self.warps[index].cta;
        let stream = self.warps[index].stream;
        let sm = self.ctas[cta].sm;
        let cluster_salt = (self.ctas[cta].cluster as u64) << 44;
        let mut stall = StallReason::Shared;
        for event in events {
            match *event {
                Event::Shared { wavefronts, bytes, remote } => {
                    let wavefronts =
                        if self.setup.without_bank_conflicts { wavefronts.min(bytes.div_ceil(128)) } else { wavefronts };
                    let cycles = if remote {
                        f64::from(bytes) / machine.shared.remote_bytes
                    } else {
                        f64::from(wavefronts).max(f64::from(bytes) / machine.shared.bytes)
                    };
                    let port = &mut self.sms[sm].smem_port_busy_until;
                    let start = port.max(now);
                    *port = start + cycles;
                    self.statistics.add_engine_cycles(Engine::Port, cycles);
                    let latency = match op {
                        _ if remote => machine.shared.remote_latency,
                        Op::LoadMatrix { .. } => machine.shared.matrix,
                        Op::Atom { .. } => machine.shared.latency + machine.shared.atomic,
                        Op::Load { dst, element, .. } => match element.bytes * dst.len() as u32 {
                            0..=4 => machine.shared.latency,
                            5..=8 => machine.shared.latency + machine.shared.wide64,
                            _ => machine.shared.latency + machine.shared.wide128,
                        },
                        _ => 0.0,
                    };
                    // The latency of a wide access includes the wavefronts that the access takes without bank conflicts.
                    let conflict_free_wavefronts = (f64::from(bytes) / 128.0).ceil();
                    ready = ready.max(start + (cycles - conflict_free_wavefronts).max(0.0) + latency);
                }
                Event::Global { first, count, .. } => {
                    stall = StallReason::Global;
                    let lines = &stream.lines[first as usize..(first + count) as usize];
                    let memory = &mut self.sms[sm].memory;
                    let tags_free = memory.tags_busy_until.max(now);
                    memory.tags_busy_until = tags_free + f64::from(count);
                    let is_load = matches!(op, Op::Load { space: Space::Global | Space::Generic, .. });
                    let start = if is_load { tags_free - self.warps[index].unrolled.load_advance() } else { tags_free };
                    let masks = &stream.sector_masks[first as usize..(first + count) as usize];
                    let (mut missed_lines, mut missed_sectors) = (0, 0);
                    for (&line, &mask) in lines.iter().zip(masks) {
                        let line_missed_sectors =
                            if is_load { memory.look_up_l1(line ^ cluster_salt, mask) } else { mask.count_ones() };
                        missed_lines += u32::from(line_missed_sectors > 0);
                        missed_sectors += line_missed_sectors;
                    }
                    memory.traffic.l1_hit_lines += f64::from(count - missed_lines);
                    let bytes = SECTOR_BYTES * f64::from(missed_sectors);
                    let mut done = start + f64::from(count) - 1.0 + machine.global.l1_latency;
                    if missed_lines > 0 {
                        let dram_bytes = if is_load || matches!(op, Op::Store { .. }) {
                            memory.count_dram_bytes(lines, masks, cluster_salt).min(bytes)
                        } else {
                            0.0
                        };
                        let kind = if matches!(op, Op::Store { .. }) { MemoryRequest::Store } else { MemoryRequest::Load };
                        let extra_latency = memory.far_slice_latency(lines);
                        done = done.max(memory.request(start, bytes, dram_bytes, extra_latency, kind));
                    }
                    if !matches!(op, Op::Store { .. }) {
                        ready = ready.max(done);
                    }
                }
                _ => {}
            }
        }
        (ready, stall)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_MISS_DEVIATION, Memory};

    #[test]
    fn share_of_missing_lines_is_the_miss_rate_at_any_stride() {
        for (miss_rate, stride) in [(0.3, 1), (0.3, 64), (0.01, 1), (0.99, 7)] {
            let mut memory = Memory { miss_rate, ..Memory::default() };
            for line in 0..10_000 {
                memory.is_from_dram(line * stride, 1.0);
                assert!(
                    (memory.first_misses - miss_rate * memory.first_uses).abs() <= MAX_MISS_DEVIATION,
                    "{line} at a miss rate of {miss_rate}"
                );
            }
        }
        for (miss_rate, all) in [(0.0, 0.0), (1.0, 1000.0)] {
            let mut memory = Memory { miss_rate, ..Memory::default() };
            (0..1000).for_each(|line| _ = memory.is_from_dram(line, 1.0));
            assert_eq!(memory.first_misses, all);
        }
    }
}
