//! Happens-before analysis of shared-memory accesses. It finds a missing barrier even if the schedule hides the race.
//!
//! Each warp of a cluster has a vector clock. A warp that arrives at a barrier publishes its clock. A warp that waits merges all
//! published vector clocks into its own. A read must be ordered after the last write of the word. A write must be ordered after
//! all earlier reads. A write that changes the value must also be ordered after the last write. Reason: rewriting an equal value is
//! common and harmless.
//!
//! The unit of time is one access. A shadow word describes four bytes. If warps write parts of one word without order, the analysis
//! does not check reads of the word until the next write of the full word.

use crate::fault::{Fault, Result};
use crate::location::SharedLocation;
use crate::program::Program;
use crate::tmem_accesses::TmemAccesses;
use std::collections::BTreeMap;

/// The analysis is off for a cluster with more warps than this. Reason: the size of the shadow words grows with the number of
/// warps.
const WARP_LIMIT: usize = 64;
/// Number of entries that a vector clock has for each warp of the cluster; see [`VectorClock`].
pub(crate) const COMPONENTS: usize = 3;

/// A vector clock: for each warp of the cluster, the last ordered shared-memory access, the last ordered TMEM fence (see
/// `tmem_happens_before`) and the last completed MMA commit. A missing entry means zero.
pub(crate) type VectorClock = Vec<u32>;

/// The state of the analysis for one cluster.
#[derive(Default)]
pub(crate) struct HappensBefore {
    warps_per_cta: usize,
    /// Number of warps of the cluster; 0 disables the analysis.
    pub(crate) warp_count: usize,
    /// The vector clocks of all warps, one after another.
    pub(crate) vector_clocks: Vec<u32>,
    /// The current time: the number of accesses so far.
    clock: u32,
    /// The shadow words of each CTA's shared memory.
    shadow_words: Vec<ShadowWords>,
    /// The vector clocks that arrivals at an mbarrier published in the current phase, and in completed phases. The key is the CTA
    /// and the address.
    mbarriers: BTreeMap<SharedLocation, (VectorClock, VectorClock)>,
    /// The merged vector clock of all warps that executed an atomic operation.
    atomics: VectorClock,
    pub(crate) tmem: TmemAccesses,
    /// Whether a missing order does not end the run. `first_fault` then records the first missing order, and the analysis stops.
    pub(crate) lenient: bool,
    pub(crate) first_fault: Option<Box<Fault>>,
    /// The time and line of the last use of an mbarrier by a warp of another CTA. The key is the CTA of the mbarrier and the warp.
    remote_uses: BTreeMap<(usize, usize), (u32, u32)>,
}

/// The last accesses to each 32-bit word of a CTA's shared memory.
#[derive(Default)]
struct ShadowWords {
    writers: Vec<Writer>,
    /// For each word and each warp of the cluster, the time and line of the warp's last read of the word.
    reads: Vec<(u32, u32)>,
}

/// The last write to a word.
#[derive(Clone, Copy, Default)]
struct Writer {
    time: u32,
    line: u32,
    warp: u16,
    /// Whether several warps wrote parts of the word.
    mixed: bool,
}

/// The warp that performs an access, and the line of its instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Actor {
    pub(crate) cta: usize,
    pub(crate) warp: usize,
    pub(crate) line: u32,
}

/// Merges a vector clock into another one: each component becomes the maximum.
fn merge_vector_clock(into: &mut [u32], from: &[u32]) {
    for (to, &time) in into.iter_mut().zip(from) {
        *to = time.max(*to);
    }
}

impl HappensBefore {
    /// Returns the initial state for a cluster of `ctas` CTAs. If the cluster has more than `WARP_LIMIT` warps, the
    /// analysis is off.
    pub(crate) fn new(program: &Program, ctas: usize, lenient: bool) -> HappensBefore {
        let warps_per_cta = program.cta_threads.div_ceil(32) as usize;
        let warp_count = warps_per_cta * ctas;
        if warp_count > WARP_LIMIT {
            return HappensBefore::default();
        }
        let words = (program.shared_bytes as usize).div_ceil(4);
        let shadow_words =
            (0..ctas).map(|_| ShadowWords { writers: vec![Writer::default(); words], reads: vec![(0, 0); words * warp_count] });
        HappensBefore {
            warps_per_cta,
            warp_count,
            vector_clocks: vec![0; warp_count * COMPONENTS * warp_count],
            tmem: TmemAccesses::new(warp_count, ctas),
            clock: 0,
            shadow_words: shadow_words.collect(),
            lenient,
            ..HappensBefore::default()
        }
    }

    /// Returns the index of a warp among all warps of the cluster.
    pub(crate) fn warp_id(&self, actor: Actor) -> usize {
        actor.cta * self.warps_per_cta + actor.warp
    }
    /// Returns the name of a warp for messages, with its CTA if the cluster has several CTAs.
    pub(crate) fn describe_warp(&self, id: usize) -> String {
        match self.shadow_words.len() {
            1 => format!("warp {id}"),
            _ => format!("warp {} of CTA {}", id % self.warps_per_cta, id / self.warps_per_cta),
        }
    }
    /// Advances the warp's own component and returns its vector clock.
    pub(crate) fn advance_clock(&mut self, actor: Actor) -> &mut [u32] {
        if self.warp_count == 0 {
            return &mut [];
        }
        let id = self.warp_id(actor);
        self.clock += 1;
        let row = self.clock_range(id);
        self.vector_clocks[row.start + id] = self.clock;
        &mut self.vector_clocks[row]
    }
    /// Returns the position of a warp's clock in `vector_clocks`.
    pub(crate) fn clock_range(&self, id: usize) -> std::ops::Range<usize> {
        let width = COMPONENTS * self.warp_count;
        id * width..(id + 1) * width
    }
    /// Publishes the warp's vector clock: merges it into `to`.
    pub(crate) fn publish_clock(&mut self, actor: Actor, to: &mut VectorClock) {
        to.resize(COMPONENTS * self.warp_count, 0);
        if self.lenient {
            self.record_tcgen05_fence(actor, true);
        }
        merge_vector_clock(to, self.advance_clock(actor));
    }
    /// Merges the published vector clock `from` into the warp's own.
    pub(crate) fn acquire_from(&mut self, actor: Actor, from: &[u32]) {
        merge_vector_clock(self.advance_clock(actor), from);
        if self.lenient {
            self.record_tcgen05_fence(actor, false);
        }
    }

    // mbarriers in shared memory.

    /// Checks that a warp's use of an mbarrier is ordered after the initialisation. Records the use of an mbarrier in another CTA,
    /// because that CTA must not end before the use.
    pub(crate) fn check_mbarrier_use(&mut self, actor: Actor, location: SharedLocation) -> Result<()> {
        self.check_read(actor, location.cta, location.address, 8)?;
        if self.warp_count > 0 && location.cta != actor.cta {
            let id = self.warp_id(actor);
            let time = self.advance_clock(actor)[id];
            self.remote_uses.insert((location.cta, id), (time, actor.line));
        }
        Ok(())
    }
    /// Checks that the end of a CTA is ordered after every use of its mbarriers by other CTAs.
    pub(crate) fn check_cta_end(&mut self, cta: usize) -> Result<()> {
        let (warp_count, warps) = (self.warp_count, self.warps_per_cta);
        let own = cta * warps..(cta + 1) * warps;
        let last_ordered_time =
            |id: usize| own.clone().map(|warp| self.vector_clocks[warp * COMPONENTS * warp_count + id]).max().unwrap_or(0);
        let unordered_use =
            self.remote_uses.range((cta, 0)..(cta + 1, 0)).find(|((_, id), (time, _))| *time > last_ordered_time(*id));
        let Some(((_, id), (_, line))) = unordered_use.map(|(key, value)| (*key, *value)) else { return Ok(()) };
        let message = format!("CTA {cta} ends, but is not ordered after {} using its barrier", self.describe_warp(id));
        self.report_fault(Fault::new("SIM014", message).line(line), Actor { cta: id / warps, warp: id % warps, line })
    }

    /// Publishes the vector clock of a warp that arrives at an mbarrier, for the current phase.
    pub(crate) fn arrive_at_mbarrier(&mut self, actor: Actor, location: SharedLocation) {
        let mut entry = std::mem::take(&mut self.mbarriers.entry(location).or_default().0);
        self.publish_clock(actor, &mut entry);
        self.mbarriers.entry(location).or_default().0 = entry;
    }
    /// Records at an mbarrier that an asynchronous copy, which the warp issued at `time`, has written its data.
    pub(crate) fn arrive_copy(&mut self, actor: Actor, time: u32, location: SharedLocation) {
        if self.warp_count > 0 {
            let id = self.warp_id(actor);
            let current_phase = &mut self.mbarriers.entry(location).or_default().0;
            current_phase.resize(COMPONENTS * self.warp_count, 0);
            current_phase[id] = time.max(current_phase[id]);
        }
    }
    /// Records at an mbarrier that all MMAs up to a warp's commit with this number are complete.
    pub(crate) fn arrive_mma_commit(&mut self, actor: Actor, commit: u32, location: SharedLocation) {
        if self.warp_count > 0 {
            let commit_entry = 2 * self.warp_count + self.warp_id(actor);
            let current_phase = &mut self.mbarriers.entry(location).or_default().0;
            current_phase.resize(COMPONENTS * self.warp_count, 0);
            current_phase[commit_entry] = commit.max(current_phase[commit_entry]);
        }
    }
    /// Completes the current phase of an mbarrier: the vector clocks of its arrivals become visible to waiting warps.
    pub(crate) fn complete_phase(&mut self, location: SharedLocation) {
        if let Some((current_phase, completed_phases)) = self.mbarriers.get_mut(&location) {
            completed_phases.resize(COMPONENTS * self.warp_count, 0);
            merge_vector_clock(completed_phases, current_phase);
        }
    }
    /// Merges the vector clocks of all completed phases of an mbarrier into the clock of a warp that has waited for it.
    pub(crate) fn acquire_mbarrier(&mut self, actor: Actor, location: SharedLocation) {
        if let Some((_, completed_phases)) = self.mbarriers.get(&location) {
            let completed_phases = completed_phases.clone();
            self.acquire_from(actor, &completed_phases);
        }
    }

    /// Returns a fault as an error. If the analysis is lenient, records the fault instead and switches the analysis off.
    pub(crate) fn report_fault(&mut self, fault: Box<Fault>, actor: Actor) -> Result<()> {
        if !self.lenient {
            return Err(fault);
        }
        *self = HappensBefore { first_fault: Some(fault.line(actor.line)), ..HappensBefore::default() };
        Ok(())
    }

    // Accesses.

    /// Returns the shadow words of a range of shared memory.
    fn word_range(&self, cta: usize, address: u32, length: u32) -> std::ops::Range<usize> {
        let all = self.shadow_words.get(cta).map_or(0, |words| words.writers.len());
        let end = (address.saturating_add(length) as usize).div_ceil(4).min(all);
        (address as usize / 4).min(end)..end
    }

    /// Checks a read by a warp or by asynchronous work that it issued.
    pub(crate) fn check_read(&mut self, actor: Actor, cta: usize, address: u32, length: u32) -> Result<()> {
        let words = self.word_range(cta, address, length);
        if self.warp_count == 0 || words.is_empty() {
            return Ok(());
        }
        let id = self.warp_id(actor);
        self.clock += 1;
        let shadow_words = &mut self.shadow_words[cta];
        for word in words {
            let writer = shadow_words.writers[word];
            if writer.time > self.vector_clocks[id * COMPONENTS * self.warp_count + usize::from(writer.warp)]
                && usize::from(writer.warp) != id
                && !writer.mixed
            {
                let (reader, other) = (self.describe_warp(id), self.describe_warp(writer.warp.into()));
                let message = format!("{reader} reads shared memory at {:#x} without a barrier after {other} wrote it", word * 4);
                let fault = Fault::new("SIM035", message).note(format!("the write is in line {}", writer.line));
                return self.report_fault(fault, actor);
            }
            shadow_words.reads[word * self.warp_count + id] = (self.clock, actor.line);
        }
        Ok(())
    }

    /// Checks that a write is ordered after the last write of another warp. A word to which the write does not give another value
    /// needs no order.
    pub(crate) fn check_overwrite(&mut self, actor: Actor, cta: usize, address: u32, before: &[u8], data: &[u8]) -> Result<()> {
        // The analysis does not check overwrites of less than a word.
        if self.warp_count == 0 || data.len() < 4 || before == data {
            return Ok(());
        }
        let id = self.warp_id(actor);
        let start = self.clock_range(id).start;
        let first_word = address as usize / 4;
        for word in self.word_range(cta, address, data.len() as u32) {
            let Writer { time, line, warp, mixed } = self.shadow_words[cta].writers[word];
            let bytes = (word - first_word) * 4..(word - first_word) * 4 + 4;
            let is_unordered = time > self.vector_clocks[start + usize::from(warp)] && usize::from(warp) != id && !mixed;
            if is_unordered && before.get(bytes.clone()) != data.get(bytes) {
                let (own, other) = (self.describe_warp(id), self.describe_warp(warp.into()));
                let message =
                    format!("{own} writes shared memory at {:#x} without a barrier after {other} wrote another value", word * 4);
                return self.report_fault(Fault::new("SIM036", message).note(format!("the other write is in line {line}")), actor);
            }
        }
        Ok(())
    }

    /// Checks a write by a warp or by asynchronous work that it issued. Returns the time of the write.
    pub(crate) fn check_write(&mut self, actor: Actor, cta: usize, address: u32, length: u32) -> Result<u32> {
        let words = self.word_range(cta, address, length);
        if self.warp_count == 0 || words.is_empty() {
            return Ok(0);
        }
        let id = self.warp_id(actor);
        self.clock += 1;
        let row = self.clock_range(id);
        let own_clock = &self.vector_clocks[row.start..row.start + self.warp_count];
        let shadow_words = &mut self.shadow_words[cta];
        for word in words {
            let reads = &shadow_words.reads[word * self.warp_count..(word + 1) * self.warp_count];
            let is_unordered = |(other, (read, own_clock)): (usize, (&(u32, u32), &u32))| other != id && read.0 > *own_clock;
            if let Some(reader) = reads.iter().zip(own_clock).enumerate().position(is_unordered) {
                let line = reads[reader].1;
                let message = format!(
                    "{} writes shared memory at {:#x} without a barrier after {} read it",
                    self.describe_warp(id),
                    word * 4,
                    self.describe_warp(reader)
                );
                let fault = Fault::new("SIM036", message).note(format!("the read is in line {line}"));
                return self.report_fault(fault, actor).map(|()| 0);
            }
            let writer = &mut shadow_words.writers[word];
            let unordered_write = writer.time > own_clock[usize::from(writer.warp)] && usize::from(writer.warp) != id;
            *writer = Writer {
                time: self.clock,
                line: actor.line,
                warp: id as u16,
                mixed: length < 4 && (unordered_write || writer.mixed),
            };
        }
        Ok(self.clock)
    }
    /// Records an atomic operation on shared memory. Reads and writes of its word need no order after it, because atomic operations
    /// need no order among each other.
    pub(crate) fn record_atomic(&mut self, cta: usize, address: u32) {
        for word in self.word_range(cta, address, 4) {
            self.shadow_words[cta].writers[word].mixed = true;
        }
    }
    /// Orders warps by atomic operations: the warp publishes its vector clock and merges the vector clocks that warps published
    /// before.
    pub(crate) fn synchronise_by_atomic(&mut self, actor: Actor) {
        let mut atomics = std::mem::take(&mut self.atomics);
        self.publish_clock(actor, &mut atomics);
        self.acquire_from(actor, &atomics);
        self.atomics = atomics;
    }
}
