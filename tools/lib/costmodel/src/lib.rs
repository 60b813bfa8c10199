//! Estimates the cost of a function of `.as`: the cycles that one SM needs for a CTA.
//!
//! The planner of `tile-lower-as` compares lowered programs of the same kernel by their cost. The cost is a closed form over the
//! numbers of `machines/*.toml`:
//!
//! - *Demand*: the cycles for which a CTA occupies each resource of an SM ([`demand`]). Co-resident CTAs share the resources.
//! - *Latency*: the cycles from the start of a CTA to its end if it is alone ([`path`]). Co-resident CTAs hide each other's
//!   latency. Loads of iterations that `ptxas` unrolls are in flight together.
//! - *Occupancy*: the number of co-resident CTAs that registers, shared memory and tensor memory allow. Registers are estimated
//!   from liveness ([`pressure`]). Registers beyond the limit spill, and spills occupy the load/store unit.
//!
//! With `n` resident CTAs, a CTA takes about the larger of its demand and of its latency divided by `n`. The 3-norm of the two
//! smooths the transition. For unknown trip counts, all plans of a kernel use [`path::ASSUMED_TRIP_COUNT`].
//!
//! See also: LLVM's `TargetTransformInfo`; the analytic GPU model of Hong and Kim (ISCA 2009) with its memory-warp parallelism.

mod demand;
mod path;
mod pressure;

pub use demand::{Demand, Resource};

use base::Target;
use path::CriticalPath;
use tileas::{Function, MmaAtom, Module, Op, Space, budget};

/// The cost of a function (`cycles`), and the quantities from which the model computes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub warps: u32,
    /// The cost: cycles of an SM for each CTA.
    pub cycles: f64,
    /// Number of resident CTAs per SM.
    pub ctas: u32,
    /// Registers of a thread. Their number is at most the limit of the target and the requested occupancy.
    pub registers: u32,
    /// Registers of a thread beyond that limit, which spill.
    pub spilled: u32,
    /// The bottleneck of the function.
    pub limit: Limit,
    /// The number of MMAs that `mma.sync` executes.
    synchronous_mmas: usize,
    /// The number of MMAs that `wgmma` or `tcgen05` executes.
    asynchronous_mmas: usize,
}

impl Estimate {
    /// Returns whether the program executes MMAs by `wgmma` or `tcgen05`.
    pub fn has_asynchronous_mmas(&self) -> bool {
        self.asynchronous_mmas > 0
    }
    /// Returns whether the program executes MMAs by `mma.sync` that another plan of the same kernel executes by `wgmma` or
    /// `tcgen05`. The two costs are not comparable, because the model includes neither bank conflicts nor the overlap of
    /// asynchronous MMAs.
    pub fn loses_asynchronous_mmas(&self, other: &Estimate) -> bool {
        other.asynchronous_mmas > 0 && self.synchronous_mmas > other.synchronous_mmas
    }
}

/// The bottleneck of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The busiest resource of the SM.
    Throughput(Resource),
    /// The latency of a CTA, which the resident CTAs are too few to hide.
    Latency,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Throughput(resource) => f.write_str(resource.name()),
            Limit::Latency => f.write_str("latency"),
        }
    }
}

/// Exponent of the norm that combines demand and latency. A norm is larger than the maximum if both are nearly equal, because
/// neither then hides the other fully.
const OVERLAP_EXPONENT: f64 = 3.0;
/// Maximum number of resident threads of an SM on sm_80, sm_90 and sm_100. The model assumes it for all targets.
const MAX_THREADS: u32 = 2048;

/// Estimates the cost of a function. The function must be verified, and the pass `convert` of `tile-lower-as` must have created it
/// for the target.
pub fn estimate(module: &Module, function: &Function, target: Target) -> Estimate {
    let machine = perf_model::machine(target);
    let warps = function.attrs.warps;
    let producers = if function.attrs.maps.is_empty() { 0 } else { PRODUCER_WARPS };
    let pressure = pressure::Pressure::estimate(module, function);
    let register_limit = budget::registers(target, warps, function.attrs.occupancy.unwrap_or(1));
    let registers = pressure.max_registers.min(register_limit);
    let path = CriticalPath::compute(module, function, target, |op| pressure.registers_at(op).saturating_sub(register_limit));
    let ctas = resident_ctas(function, registers, warps + producers, target);
    let (resource, demand) = path.demand.largest();
    let latency = (path.cycles.max(path.tma_issue) + machine.launch.start) / f64::from(ctas);
    let cycles = (demand.powf(OVERLAP_EXPONENT) + latency.powf(OVERLAP_EXPONENT)).powf(OVERLAP_EXPONENT.recip());
    let bottleneck = if demand >= latency { Limit::Throughput(resource) } else { Limit::Latency };
    let count_mmas = |is_counted: fn(&MmaAtom) -> bool| {
        let atoms = function.body.ops.values().filter_map(|node| match &node.kind {
            Op::Mma { atom, .. } => Some(atom),
            _ => None,
        });
        atoms.filter(|atom| is_counted(atom)).count()
    };
    Estimate {
        warps,
        cycles,
        ctas,
        registers,
        spilled: pressure.max_registers - registers,
        limit: bottleneck,
        synchronous_mmas: count_mmas(|atom| matches!(atom, MmaAtom::Sync(_))),
        asynchronous_mmas: count_mmas(|atom| matches!(atom, MmaAtom::Group(_) | MmaAtom::Tensor(_))),
    }
}

/// Number of warps that `tile-sched` adds to a CTA to issue TMA copies.
const PRODUCER_WARPS: u32 = 1;

/// Returns the number of CTAs that fit on an SM.
fn resident_ctas(function: &Function, registers: u32, warps: u32, target: Target) -> u32 {
    let by_registers = (1..=32).take_while(|ctas| budget::registers(target, warps, *ctas) >= registers).last().unwrap_or(1);
    let by_threads = MAX_THREADS / (32 * warps).max(1);
    let by_memory = budget::ctas_by_shared_memory(target, path::shared_bytes(function));
    let tmem_buffers = function.attrs.buffers.values().filter(|info| info.space == Space::Tensor).count() as u32;
    // The model assumes that a CTA with tensor memory allocates half of its columns.
    let by_columns = if tmem_buffers > 0 { 2 } else { u32::MAX };
    by_registers.min(by_threads).min(by_memory).min(by_columns).max(1)
}
