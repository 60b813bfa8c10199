//! Extrapolates the CTAs of one SM to the launch: occupancy, number of waves, time per wave.

use crate::engine::{self, Setup, Statistics};
use crate::sample::{Sample, length};
use perf_model::Machine;

/// Simulated cycles after which a further wave adds no information.
const STEADY_STATE_CYCLES: f64 = 40_000.0;
const MAX_WAVES: f64 = 12.0;
/// Maximum number of records of one simulation.
const MAX_RECORDS: f64 = 6e6;
/// Sub-partitions of an SM: each has a quarter of the registers, and takes every fourth warp.
const SUB_PARTITIONS: f64 = 4.0;
/// Bytes of shared memory that the system reserves in every CTA.
const RESERVED_SHARED_BYTES: f64 = 1024.0;

pub(crate) struct Prediction {
    pub(crate) cycles: f64,
    /// Cycles of one CTA.
    pub(crate) cta: f64,
    /// Cycles that each further wave adds.
    pub(crate) wave: f64,
    pub(crate) waves: f64,
    pub(crate) resident_ctas: usize,
    pub(crate) limited_by: &'static str,
    pub(crate) active_sms: f64,
    pub(crate) miss_rate: f64,
    /// L2 traffic and DRAM traffic of the grid in bytes.
    pub(crate) l2_bytes: f64,
    pub(crate) memory_bytes: f64,
    pub(crate) statistics: Statistics,
    /// Cycles and number of SMs that the statistics cover.
    pub(crate) span: f64,
    pub(crate) sms: f64,
    pub(crate) waves_simulated: usize,
}

/// CTAs per SM, and the limiting resource.
pub(crate) fn occupancy(
    threads: u32,
    shared: f64,
    registers: u32,
    (columns, all_columns): (u32, u32),
    machine: &Machine,
) -> (usize, &'static str) {
    let chip = &machine.chip;
    let warps = f64::from(threads.div_ceil(32));
    let registers = (f64::from(registers.max(1)) / 8.0).ceil() * 8.0;
    let limits = [
        (chip.ctas, "the number of CTAs"),
        ((chip.warps / warps).floor(), "the number of warps"),
        ((chip.shared * 1024.0 / (shared.max(RESERVED_SHARED_BYTES))).floor(), "shared memory"),
        (((chip.registers / SUB_PARTITIONS / 32.0 / registers).floor() * SUB_PARTITIONS / warps).floor(), "registers"),
        // A CTA that finds no free TMEM columns waits until another CTA frees them.
        (f64::from(all_columns.checked_div(columns).unwrap_or(u32::MAX)), "tensor memory"),
    ];
    let (count, why) = limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, "registers"));
    ((count as usize).max(1), why)
}

/// A what-if scenario: changes of the model whose gain the report shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhatIf {
    pub(crate) perfect_banks: bool,
    pub(crate) no_spills: bool,
    pub(crate) extra_ctas: usize,
    /// Whether to divide the same work among more CTAs, so that they fill the last wave.
    pub(crate) full_waves: bool,
}

pub(crate) fn predict(sample: &Sample, machine: &Machine, timeline: bool) -> Prediction {
    predict_with(sample, machine, WhatIf::default(), timeline)
}

pub(crate) fn predict_with(sample: &Sample, machine: &Machine, what_if: WhatIf, timeline: bool) -> Prediction {
    let chip = &machine.chip;
    let size = f64::from(sample.program.cluster.iter().product::<u32>());
    // A group is as many SMs as a cluster has CTAs.
    let groups = (chip.sms / size).floor().max(1.0);
    let mut clusters = sample.clusters as f64;
    // Each SM of a group runs one CTA of each resident cluster, so the limit per SM is also the limit of clusters per group.
    let (threads, columns) = (sample.program.threads, sample.recording.tmem_columns);
    let (max_resident, limited_by) =
        occupancy(threads, sample.program.shared_bytes.into(), sample.registers.count, columns, machine);
    let max_resident = max_resident + what_if.extra_ctas;
    let miss_rate = dram_share(sample, machine, clusters);
    // Each CTA of the larger grid has less work, so scale the time by the share of the work.
    let mut work_share = 1.0;
    if what_if.full_waves {
        let filled = (clusters / (groups * max_resident as f64)).ceil().max(1.0) * groups * max_resident as f64;
        work_share = clusters / filled;
        clusters = filled;
    }
    let clusters_per_group = ((clusters / groups).ceil() as usize).max(1);
    let (resident_ctas, limited_by) =
        if clusters_per_group < max_resident { (clusters_per_group, "the grid") } else { (max_resident, limited_by) };
    let active_sms = chip.sms.min(clusters * size);
    // Read-write turnarounds of DRAM cost most if reads and writes are balanced.
    let written = sample.written / (sample.read * miss_rate + sample.written).max(1.0);
    let turning = (2.0 * written.min(1.0 - written)).powi(2);
    let efficiency = machine.global.read * (1.0 - (1.0 - machine.global.mixed) * turning);
    let run = |resident_ctas: usize, waves_simulated: usize| {
        let setup = Setup {
            machine,
            program: &sample.program,
            code: &sample.code,
            recording: &sample.recording,
            resident_ctas,
            waves_simulated,
            active_sms,
            miss_rate,
            stack: if what_if.no_spills { 0.0 } else { f64::from(sample.registers.stack) * sample.spilling_share },
            dram_bandwidth: chip.memory * 1e9 * efficiency,
            frequency: chip.clock * 1e6,
            timeline,
            perfect_banks: what_if.perfect_banks,
            spills: !what_if.no_spills,
        };
        engine::run(&setup)
    };
    let resident_slots = groups * max_resident as f64;
    let waves = clusters / resident_slots;
    let mut statistics = run(resident_ctas, 1);
    let first = statistics.end;
    let (mut wave, mut waves_simulated) = (first, 1);
    let records = length(&sample.recording) as f64 * resident_ctas as f64;
    let waves_wanted =
        waves.ceil().min(MAX_WAVES).min((STEADY_STATE_CYCLES / first).ceil() + 1.0).min((MAX_RECORDS / records).floor());
    if waves_wanted >= 2.0 {
        waves_simulated = waves_wanted as usize;
        statistics = run(resident_ctas, waves_simulated);
        wave = (statistics.end - first) / (waves_simulated - 1) as f64;
    }
    if waves > 1.0 && sample.longest > 1.05 {
        // CTAs of different length: slots are refilled as they become free, and at the end the SMs wait for the longest CTA.
        let cycles = (first + (waves - 1.0).max(0.0) * wave).max(first * sample.longest) + 0.5 * (sample.longest - 1.0) * first;
        return prediction(
            sample,
            statistics,
            cycles * work_share,
            waves,
            wave,
            resident_ctas,
            limited_by,
            active_sms,
            miss_rate,
            waves_simulated,
        );
    }
    let full = waves.floor().max(1.0);
    let partial_wave = (clusters - full * resident_slots).max(0.0);
    let mut cycles = first + (full - 1.0) * wave;
    if partial_wave > 0.0 {
        let last = (partial_wave / groups).ceil() as usize;
        let part = partial_wave / resident_slots;
        cycles += match (waves > MAX_WAVES, last < resident_ctas) {
            // In a long sequence of waves, CTAs do not end together.
            (true, _) => wave * part,
            (false, true) => run(last, 1).end.min(wave),
            (false, false) => wave,
        };
    }
    prediction(
        sample,
        statistics,
        cycles * work_share,
        waves,
        wave,
        resident_ctas,
        limited_by,
        active_sms,
        miss_rate,
        waves_simulated,
    )
}

/// Extrapolates a truncated sample linearly in the number of executed MMAs.
fn prediction(
    sample: &Sample,
    statistics: Statistics,
    cycles: f64,
    waves: f64,
    wave: f64,
    resident_ctas: usize,
    limited_by: &'static str,
    active_sms: f64,
    miss_rate: f64,
    waves_simulated: usize,
) -> Prediction {
    let clusters = sample.clusters as f64;
    let scale = 1.0 / sample.executed_share.unwrap_or(1.0);
    let span = statistics.end;
    let runs = (statistics.cluster_times.len() as f64).max(1.0);
    let sum = |f: fn(&engine::Traffic) -> f64| statistics.traffic.iter().map(f).sum::<f64>() / runs * clusters * scale;
    Prediction {
        cycles: cycles * scale,
        cta: statistics.cluster_times.iter().map(|(start, end)| end - start).sum::<f64>() / runs * scale,
        wave: wave * scale,
        waves,
        resident_ctas,
        limited_by,
        active_sms,
        miss_rate,
        l2_bytes: sum(|traffic| traffic.l2),
        memory_bytes: sum(|traffic| traffic.memory),
        sms: statistics.traffic.len() as f64,
        statistics,
        span,
        waves_simulated,
    }
}

/// The share of requested lines that come from DRAM. CTAs of a wave share lines. If all data fits L2, waves share lines too.
fn dram_share(sample: &Sample, machine: &Machine, clusters: f64) -> f64 {
    let requested_bytes = sample.read * clusters;
    let fits = sample.footprint <= 0.8 * machine.chip.l2 * 1e6;
    let least = (sample.footprint - sample.written * clusters).max(0.0) / requested_bytes.max(1.0);
    match fits {
        true if sample.repeated => 0.0,
        true => sample.distinct.min(least),
        false => sample.distinct,
    }
}
