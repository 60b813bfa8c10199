//! Extrapolates the CTAs of one SM to the launch: occupancy, number of waves, time per wave.

use crate::engine::{self, Setup, Statistics};
use crate::resident_ctas::occupancy;
use crate::sample::{Sample, instruction_count};
use base::Target;
use perf_model::Machine;

/// Number of simulated cycles after which the time per wave no longer changes.
const STEADY_STATE_CYCLES: f64 = 40_000.0;
/// Maximum number of simulated waves. In a longer sequence of waves, the model assumes that CTAs no longer end together.
const MAX_WAVES: f64 = 12.0;
/// Maximum number of replayed warp instructions (records) of one simulation, which limits its run time.
const MAX_RECORDS: f64 = 6e6;

/// The predicted time of a launch, and the intermediate results of the prediction.
pub(crate) struct Prediction {
    /// Cycles of the launch.
    pub(crate) cycles: f64,
    /// Mean cycles of one CTA.
    pub(crate) cta_cycles: f64,
    /// Cycles that each wave after the first adds to the launch.
    pub(crate) wave_cycles: f64,
    /// The grid size divided by the number of CTAs that the GPU holds at once.
    pub(crate) waves: f64,
    /// CTAs that an SM holds at once, and the resource that limits this number.
    pub(crate) resident_ctas: usize,
    pub(crate) limited_by: &'static str,
    /// Number of SMs that run CTAs of the launch.
    pub(crate) active_sms: f64,
    /// Share of the lines requested from L2 that come from DRAM.
    pub(crate) miss_rate: f64,
    /// L2 traffic and DRAM traffic of the grid in bytes.
    pub(crate) l2_bytes: f64,
    pub(crate) dram_bytes: f64,
    pub(crate) statistics: Statistics,
    /// The number of cycles, SMs and waves that the simulation for `statistics` covers.
    pub(crate) simulated_cycles: f64,
    pub(crate) simulated_sms: f64,
    pub(crate) simulated_waves: usize,
}

/// A hypothetical change of the kernel or of its launch (a what-if scenario). The report shows how much time the change would
/// save.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhatIf {
    pub(crate) without_bank_conflicts: bool,
    pub(crate) without_spills: bool,
    /// Number of CTAs that the model adds to the occupancy of each SM.
    pub(crate) extra_ctas: usize,
    /// Whether to divide the same work among more CTAs, so that they fill the last wave.
    pub(crate) fills_last_wave: bool,
}

/// Predicts the time of a launch. `records_timeline` requests a timeline in the statistics.
pub(crate) fn predict(sample: &Sample, machine: &Machine, records_timeline: bool) -> Prediction {
    predict_with(sample, machine, WhatIf::default(), records_timeline)
}

/// Predicts the time of a launch under a what-if scenario.
pub(crate) fn predict_with(sample: &Sample, machine: &Machine, what_if: WhatIf, records_timeline: bool) -> Prediction {
    let chip = &machine.chip;
    let cluster_size = f64::from(sample.program.cluster_dim.iter().product::<u32>());
    // An SM group is as many SMs as a cluster has CTAs.
    let sm_groups = (chip.sms / cluster_size).floor().max(1.0);
    let mut clusters = sample.clusters as f64;
    // Each SM of a group runs one CTA of each resident cluster. The maximum number of CTAs per SM is therefore also the maximum
    // number of clusters per group.
    let threads = sample.program.cta_threads;
    let (tmem_columns, sm_tmem_columns) = sample.recording.tmem_columns;
    // In the simulator, shared memory starts with the reserved bytes.
    let shared_bytes = sample.program.shared_bytes.saturating_sub(Target::RESERVED_SHARED_MEMORY);
    let (max_resident, limited_by) =
        occupancy(threads, shared_bytes.into(), sample.registers.count, tmem_columns, sm_tmem_columns, machine);
    let max_resident = max_resident + what_if.extra_ctas;
    let miss_rate = l2_miss_rate(sample, machine, clusters);
    // The CTAs of the enlarged grid divide the same work, so scale the time by the share of the work of a CTA.
    let mut work_share = 1.0;
    if what_if.fills_last_wave {
        let filled_clusters = (clusters / (sm_groups * max_resident as f64)).ceil().max(1.0) * sm_groups * max_resident as f64;
        work_share = clusters / filled_clusters;
        clusters = filled_clusters;
    }
    let clusters_per_group = ((clusters / sm_groups).ceil() as usize).max(1);
    let (resident_ctas, limited_by) =
        if clusters_per_group < max_resident { (clusters_per_group, "the grid") } else { (max_resident, limited_by) };
    let active_sms = chip.sms.min(clusters * cluster_size);
    // Read-write turnarounds of DRAM cost most if reads and writes are balanced.
    let write_share = sample.written_bytes / (sample.read_bytes * miss_rate + sample.written_bytes).max(1.0);
    let turnaround_share = (2.0 * write_share.min(1.0 - write_share)).powi(2);
    let efficiency = machine.global.read * (1.0 - (1.0 - machine.global.mixed) * turnaround_share);
    let simulate_waves = |resident_ctas: usize, simulated_waves: usize| {
        let setup = Setup {
            machine,
            program: &sample.program,
            code: &sample.code,
            recording: &sample.recording,
            resident_ctas,
            simulated_waves,
            active_sms,
            miss_rate,
            stack_bytes: if what_if.without_spills { 0.0 } else { f64::from(sample.registers.stack_bytes) * sample.spilling_share },
            dram_bandwidth: chip.memory * 1e9 * efficiency,
            frequency: chip.clock * 1e6,
            records_timeline,
            without_bank_conflicts: what_if.without_bank_conflicts,
            spill_traffic: !what_if.without_spills,
        };
        engine::simulate(&setup)
    };
    let resident_slots = sm_groups * max_resident as f64;
    let waves = clusters / resident_slots;
    let mut statistics = simulate_waves(resident_ctas, 1);
    let first_wave_cycles = statistics.end;
    let (mut wave_cycles, mut simulated_waves) = (first_wave_cycles, 1);
    let records = instruction_count(&sample.recording) as f64 * resident_ctas as f64;
    let target_waves = waves
        .ceil()
        .min(MAX_WAVES)
        .min((STEADY_STATE_CYCLES / first_wave_cycles).ceil() + 1.0)
        .min((MAX_RECORDS / records).floor());
    if target_waves >= 2.0 {
        simulated_waves = target_waves as usize;
        statistics = simulate_waves(resident_ctas, simulated_waves);
        wave_cycles = (statistics.end - first_wave_cycles) / (simulated_waves - 1) as f64;
    }
    let is_uneven = waves > 1.0 && sample.longest_ratio > 1.05;
    let cycles = if is_uneven {
        // The CTAs have different lengths. An SM starts the next CTA when one of its CTAs ends. At the end, the GPU waits for the
        // longest CTA.
        (first_wave_cycles + (waves - 1.0).max(0.0) * wave_cycles).max(first_wave_cycles * sample.longest_ratio)
            + 0.5 * (sample.longest_ratio - 1.0) * first_wave_cycles
    } else {
        let full_waves = waves.floor().max(1.0);
        let partial_wave = (clusters - full_waves * resident_slots).max(0.0);
        let ctas_of_last_wave = (partial_wave / sm_groups).ceil() as usize;
        let partial_share = partial_wave / resident_slots;
        let partial_wave_cycles = match (partial_wave > 0.0, waves > MAX_WAVES, ctas_of_last_wave < resident_ctas) {
            (false, ..) => 0.0,
            // In a long sequence of waves, CTAs do not end together, so a partial wave takes only its share of a full wave.
            (_, true, _) => wave_cycles * partial_share,
            (_, false, true) => simulate_waves(ctas_of_last_wave, 1).end.min(wave_cycles),
            (_, false, false) => wave_cycles,
        };
        first_wave_cycles + (full_waves - 1.0) * wave_cycles + partial_wave_cycles
    };
    extrapolate_prediction(
        sample,
        statistics,
        cycles * work_share,
        waves,
        wave_cycles,
        resident_ctas,
        limited_by,
        active_sms,
        miss_rate,
        simulated_waves,
    )
}

/// Builds the prediction of a launch from the times of its waves. If the sample was truncated, extrapolates times and traffic in
/// proportion to the number of executed MMAs.
fn extrapolate_prediction(
    sample: &Sample,
    statistics: Statistics,
    cycles: f64,
    waves: f64,
    wave_cycles: f64,
    resident_ctas: usize,
    limited_by: &'static str,
    active_sms: f64,
    miss_rate: f64,
    simulated_waves: usize,
) -> Prediction {
    let clusters = sample.clusters as f64;
    let extrapolation = 1.0 / sample.executed_share.unwrap_or(1.0);
    let simulated_cycles = statistics.end;
    let simulated_clusters = (statistics.cluster_times.len() as f64).max(1.0);
    let sum = |f: fn(&engine::Traffic) -> f64| {
        statistics.traffic.iter().map(f).sum::<f64>() / simulated_clusters * clusters * extrapolation
    };
    Prediction {
        cycles: cycles * extrapolation,
        cta_cycles: statistics.cluster_times.iter().map(|(start, end)| end - start).sum::<f64>() / simulated_clusters
            * extrapolation,
        wave_cycles: wave_cycles * extrapolation,
        waves,
        resident_ctas,
        limited_by,
        active_sms,
        miss_rate,
        l2_bytes: sum(|traffic| traffic.l2_bytes),
        dram_bytes: sum(|traffic| traffic.dram_bytes),
        simulated_sms: statistics.traffic.len() as f64,
        statistics,
        simulated_cycles,
        simulated_waves,
    }
}

/// Returns the share of the lines requested from L2 that come from DRAM. The CTAs of a wave share lines. If all data of the launch
/// fits L2, different waves share lines too.
fn l2_miss_rate(sample: &Sample, machine: &Machine, clusters: f64) -> f64 {
    let requested_bytes = sample.read_bytes * clusters;
    // If the data does not fit L2, the model assumes that L2 keeps no line of an earlier wave.
    let fits = sample.footprint_bytes <= 0.8 * machine.chip.l2 * 1e6;
    let compulsory_share = (sample.footprint_bytes - sample.written_bytes * clusters).max(0.0) / requested_bytes.max(1.0);
    match fits {
        true if sample.repeated_launch => 0.0,
        true => sample.distinct_share.min(compulsory_share),
        false => sample.distinct_share,
    }
}
