//! What-if analysis: the model runs again with one cost removed or one resource increased, and reports the time saved.

use crate::grid::{Prediction, WhatIf, predict_with};
use crate::sample::Sample;
use perf_model::Machine;
use serde::Serialize;

/// The smallest saving that the report shows, as a share of the predicted time. Smaller savings are below the accuracy of the
/// model.
const MIN_SAVED_SHARE: f64 = 0.02;
/// The largest ratio of DRAM traffic to compulsory traffic (each byte once) at which the report does not advise to read less. An
/// excess this small comes from partial sectors and from lines that are read twice.
const MAX_EXCESS_TRAFFIC: f64 = 1.1;

/// A what-if scenario and the time that it would save.
#[derive(Serialize)]
pub(crate) struct Advice {
    /// The hypothetical change of the machine or of the model, such as `no bank conflicts`.
    pub(crate) scenario: &'static str,
    /// The changes of the kernel that approximate the scenario.
    pub(crate) suggestion: &'static str,
    /// Share of the predicted time that the scenario would save.
    pub(crate) saved_share: f64,
}

/// Returns the what-if scenarios that save time, largest saving first. `baseline` is the prediction without a change.
pub(crate) fn potential_savings(sample: &Sample, machine: &Machine, baseline: &Prediction) -> Vec<Advice> {
    let mut list: Vec<Advice> = what_if_scenarios(machine)
        .into_iter()
        .filter(|(scenario, ..)| *scenario != DRAM_SCENARIO || !is_at_compulsory_traffic(sample, baseline))
        .map(|(scenario, suggestion, what_if, machine)| {
            let hypothetical = predict_with(sample, &machine, what_if, false);
            Advice { scenario, suggestion, saved_share: 1.0 - hypothetical.cycles / baseline.cycles }
        })
        .filter(|advice| advice.saved_share >= MIN_SAVED_SHARE)
        .collect();
    list.sort_by(|a, b| b.saved_share.total_cmp(&a.saved_share));
    list
}

/// The name of the scenario that the report omits if the DRAM traffic is already close to the compulsory traffic.
const DRAM_SCENARIO: &str = "unlimited DRAM bandwidth";

/// Returns whether the DRAM traffic is close to the compulsory traffic. Another CTA order or larger tiles then cannot reduce it.
fn is_at_compulsory_traffic(sample: &Sample, baseline: &Prediction) -> bool {
    baseline.dram_bytes <= MAX_EXCESS_TRAFFIC * sample.compulsory_traffic()
}

/// A what-if scenario: its name, the suggestion to the programmer, the changed model and the changed machine.
type Scenario = (&'static str, &'static str, WhatIf, Machine);

/// Returns all what-if scenarios for a machine.
fn what_if_scenarios(machine: &Machine) -> Vec<Scenario> {
    let mut scenarios = memory_scenarios(machine);
    scenarios.extend(arithmetic_scenarios(machine));
    scenarios.extend([
        (
            "one more resident CTA",
            "reduce the shared memory or the registers of a CTA",
            WhatIf { extra_ctas: 1, ..WhatIf::default() },
            machine.clone(),
        ),
        (
            "a grid that fills the GPU in every wave",
            "divide the work among more CTAs: smaller tiles, a split of K or of the sequence, or a persistent loop",
            WhatIf { fills_last_wave: true, ..WhatIf::default() },
            machine.clone(),
        ),
    ]);
    scenarios
}

/// Returns a copy of `machine` to which `change` has been applied.
fn changed_machine(machine: &Machine, change: fn(&mut Machine)) -> Machine {
    let mut machine = machine.clone();
    change(&mut machine);
    machine
}

/// Returns the scenarios in which memory, copies or synchronisation take less time.
fn memory_scenarios(machine: &Machine) -> Vec<Scenario> {
    vec![
        (
            "no bank conflicts",
            "use a swizzled or padded shared-memory layout",
            WhatIf { without_bank_conflicts: true, ..WhatIf::default() },
            machine.clone(),
        ),
        (
            "no spilled registers",
            "smaller tiles, more warps per tile, or shorter live ranges",
            WhatIf { without_spills: true, ..WhatIf::default() },
            machine.clone(),
        ),
        (
            "no memory latency",
            "increase the prefetch distance: more stages, or more resident CTAs",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                machine.global.l2_latency = 1.0;
                machine.global.memory_latency = 1.0;
                machine.copy.tma_latency = machine.sync.wake;
            }),
        ),
        (
            DRAM_SCENARIO,
            "reduce DRAM reads: larger tiles, a CTA order with more reuse, smaller types",
            WhatIf::default(),
            changed_machine(machine, |machine| machine.chip.memory *= 1e3),
        ),
        (
            "unlimited L2 bandwidth",
            "reduce L2 reads: larger tiles, multicast, smaller types",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                machine.global.l2_bytes *= 1e3;
                machine.global.l2_chip_bytes *= 1e3;
            }),
        ),
        (
            "unlimited TMA throughput",
            "use wider rows and larger TMA tiles",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                machine.copy.tma_issue = 0.0;
                machine.copy.tma_row = 0.0;
                machine.copy.tma_bytes *= 1e3;
            }),
        ),
        (
            "no barrier latency",
            "use fewer barriers, or warp specialization",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                machine.sync.barrier = 0.0;
                machine.sync.barrier_warp = 0.0;
                machine.sync.arrive = 0.0;
                machine.sync.wake = 1.0;
                machine.sync.ready = 1.0;
            }),
        ),
    ]
}

/// Returns the scenarios in which computation takes less time.
fn arithmetic_scenarios(machine: &Machine) -> Vec<Scenario> {
    vec![
        (
            "twice the special-function throughput",
            "use fewer exponentials and divisions, or replace some by polynomials",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                machine.rate.special *= 2.0;
                machine.rate.ex2 *= 2.0;
            }),
        ),
        (
            "twice the arithmetic throughput",
            "use fewer instructions: packed arithmetic; conversions and index computations outside loops",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                let rate = &mut machine.rate;
                for rate in [&mut rate.f32, &mut rate.f32x2, &mut rate.half2, &mut rate.add, &mut rate.logic, &mut rate.compare] {
                    *rate *= 2.0;
                }
                for rate in [&mut rate.f32_compare, &mut rate.multiply, &mut rate.select, &mut rate.convert_half] {
                    *rate *= 2.0;
                }
            }),
        ),
        (
            "twice the tensor-core throughput",
            "use smaller types, or tile shapes with the full MMA rate",
            WhatIf::default(),
            changed_machine(machine, |machine| {
                let mma = &mut machine.mma;
                for cycles in [&mut mma.f16, &mut mma.f16_accumulator, &mut mma.tf32, &mut mma.i8, &mut mma.f8, &mut mma.scaled] {
                    *cycles /= 2.0;
                }
                machine.wgmma.column /= 2.0;
                machine.tcgen05.column /= 2.0;
            }),
        ),
    ]
}
