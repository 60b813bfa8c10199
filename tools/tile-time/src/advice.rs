//! What would help most: the model run again as if one thing cost nothing, or could be had more of.

use crate::grid::{Prediction, WhatIf, predict_with};
use crate::sample::Sample;
use perf_model::Machine;
use serde::Serialize;

/// Gains below this part of the time are not performance_ordering a line.
const LEAST: f64 = 0.02;
/// DRAM traffic over the compulsory traffic, up to which reading less is no advice: partial sectors and lines read twice.
const MORE_THAN_FLOOR: f64 = 1.1;

#[derive(Serialize)]
pub(crate) struct Advice {
    /// What would be different.
    #[serde(rename = "if")]
    pub(crate) if_: &'static str,
    pub(crate) how: &'static str,
    /// Part of the time that would be saved.
    pub(crate) gain: f64,
}

/// The what_ifs, the one that saves most first.
pub(crate) fn advice(sample: &Sample, machine: &Machine, now: &Prediction) -> Vec<Advice> {
    let mut list: Vec<Advice> = what_ifs(machine)
        .into_iter()
        .filter(|(if_, ..)| *if_ != DRAM || !at_floor(sample, now))
        .map(|(if_, how, what_if, machine)| {
            let then = predict_with(sample, &machine, what_if, false);
            Advice { if_, how, gain: 1.0 - then.cycles / now.cycles }
        })
        .filter(|advice| advice.gain >= LEAST)
        .collect();
    list.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    list
}

const DRAM: &str = "no limit on the bandwidth of DRAM";

/// Whether the launch moves hardly more than each byte once, so that another order or larger tiles cannot save any.
fn at_floor(sample: &Sample, now: &Prediction) -> bool {
    now.memory_bytes <= MORE_THAN_FLOOR * sample.compulsory()
}

fn what_ifs(machine: &Machine) -> Vec<(&'static str, &'static str, WhatIf, Machine)> {
    let with = |change: fn(&mut Machine)| {
        let mut machine = machine.clone();
        change(&mut machine);
        machine
    };
    let none = WhatIf::default();
    vec![
        (
            "no bank conflicts",
            "lay tiles out in shared memory with a swizzle or padding",
            WhatIf { perfect_banks: true, ..none },
            machine.clone(),
        ),
        (
            "no spilled registers",
            "smaller tiles, more warps for a tile, or fewer values that live long",
            WhatIf { no_spills: true, ..none },
            machine.clone(),
        ),
        (
            "no latency of memory",
            "prefetch further ahead: more stages, or more resident CTAs",
            none,
            with(|machine| {
                machine.global.l2_latency = 1.0;
                machine.global.memory_latency = 1.0;
                machine.copy.tma_latency = machine.sync.wake;
            }),
        ),
        (
            DRAM,
            "read less: larger tiles, an order of CTAs that share more, smaller types",
            none,
            with(|machine| machine.chip.memory *= 1e3),
        ),
        (
            "no limit on the bandwidth of the second-level cache",
            "read less from it: larger tiles, multicast, smaller types",
            none,
            with(|machine| {
                machine.global.l2_bytes *= 1e3;
                machine.global.l2_chip_bytes *= 1e3;
            }),
        ),
        (
            "no TMA limit",
            "wider rows and larger TMA tiles",
            none,
            with(|machine| {
                machine.copy.tma_issue = 0.0;
                machine.copy.tma_row = 0.0;
                machine.copy.tma_bytes *= 1e3;
            }),
        ),
        (
            "no waiting for barriers",
            "fewer barriers, warps that specialise",
            none,
            with(|machine| {
                machine.sync.barrier = 0.0;
                machine.sync.barrier_warp = 0.0;
                machine.sync.arrive = 0.0;
                machine.sync.wake = 1.0;
                machine.sync.ready = 1.0;
            }),
        ),
        (
            "twice the special functions",
            "fewer exponentials and divisions, or polynomials for some",
            none,
            with(|machine| {
                machine.rate.special *= 2.0;
                machine.rate.ex2 *= 2.0;
            }),
        ),
        (
            "twice the arithmetic",
            "fewer instructions: packed ones, conversions and indices outside of loops",
            none,
            with(|machine| {
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
            "twice the tensor units",
            "smaller types, or tile shapes with the full MMA rate",
            none,
            with(|machine| {
                let mma = &mut machine.mma;
                for cycles in [&mut mma.f16, &mut mma.f16_accumulator, &mut mma.tf32, &mut mma.i8, &mut mma.f8, &mut mma.scaled] {
                    *cycles /= 2.0;
                }
                machine.wgmma.column /= 2.0;
                machine.tcgen05.column /= 2.0;
            }),
        ),
        (
            "one more resident CTA",
            "less shared memory or fewer registers for a block",
            WhatIf { extra_ctas: 1, ..none },
            machine.clone(),
        ),
        (
            "a grid that fills the GPU in every wave",
            "divide the work among more CTAs: smaller tiles, a split of K or of the sequence, or a persistent loop",
            WhatIf { full_waves: true, ..none },
            machine.clone(),
        ),
    ]
}
