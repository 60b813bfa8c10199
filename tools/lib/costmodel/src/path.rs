//! Computes the time and the demand of one CTA that is alone on an SM, from the longest path through each region.
//!
//! Warps issue in order. A block therefore takes at least the total issue time of its ops, and at least its longest chain of
//! dependent ops. Copies in loops run iterations ahead, so ops wait for them only in the first iteration.

use crate::demand::{Cost, Costs, Demand, operand_buffers};
use base::ir::{Op as OpId, Operation};
use base::{Region, Target, Value};
use core_dialect::core_ops::{Core, Effect};
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::Dense;
use perf_model::unrolling::unrolled_iterations;
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::Proxy;
use tileas::{Buffer, Function, MmaAtom, Module, Op};

/// Assumed number of iterations of a loop whose trip count is unknown.
pub(crate) const ASSUMED_TRIP_COUNT: f64 = 16.0;
/// Assumed number of stages of a buffer that copies in a loop fill.
const ASSUMED_STAGES: u32 = 2;
/// Assumed cycles of the load/store unit for each spilled register of each warp. A spill is one store and one load of 128 bytes,
/// whose bytes alone take two cycles.
const SPILL_CYCLES: f64 = 8.0;

/// The cost of a program or of one of its regions for a CTA that is alone on an SM. `cycles` is the length of the longest path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CriticalPath {
    pub(crate) demand: Demand,
    pub(crate) cycles: f64,
    /// The part of a region's `cycles` in which warps wait for results and issue nothing. Zero for a loop with all its iterations.
    pub(crate) stall: f64,
    /// Cycles that the producer warp needs to issue the TMA copies.
    pub(crate) tma_issue: f64,
}

impl CriticalPath {
    /// Computes the critical path of a function. `spilled` returns the number of registers of a thread beyond the limit while an op
    /// executes.
    pub(crate) fn compute(module: &Module, function: &Function, target: Target, spilled: impl Fn(OpId) -> u32) -> CriticalPath {
        let machine = perf_model::machine(target);
        let walk = Walk {
            costs: Costs { module, function, target, machine, operand_buffers: operand_buffers(function) },
            spilled: &spilled,
        };
        walk.walk_region(function.region, false)
    }
}

/// Walks the regions of a function.
struct Walk<'a> {
    costs: Costs<'a>,
    spilled: &'a dyn Fn(OpId) -> u32,
}

impl Walk<'_> {
    /// Returns the path through a region. `in_loop` is true if a loop contains the region, so that copies in the region run ahead.
    fn walk_region(&self, region: Region, in_loop: bool) -> CriticalPath {
        let Costs { function, machine, .. } = self.costs;
        let body = &function.body;
        let block = body.block_of(region);
        let mut ready: BTreeMap<Value, (f64, f64)> = BTreeMap::new();
        let mut written: BTreeMap<Buffer, f64> = BTreeMap::new();
        let (mut path, mut longest, mut issued, mut max_spilled) = (CriticalPath::default(), 0.0f64, 0.0, 0);
        for op in &body.blocks[block].ops {
            let node = &body.ops[*op];
            let (cost, inner_path) = self.op_cost_and_path(*op, in_loop);
            max_spilled = max_spilled.max((self.spilled)(*op));
            let operands = node.kind.operands();
            let is_mma = matches!(node.kind, Op::Mma { .. });
            // The model ignores the latency of an MMA's operands. Reason: MMAs of one accumulator follow each other without a wait.
            let available = |value: &Value| ready.get(value).map(|(end, latency)| if is_mma { *end } else { *end + latency });
            let start = operands.iter().filter_map(available).fold(0.0f64, f64::max);
            let effects = node.kind.effects();
            let start =
                effects.buffers.iter().filter_map(|access| written.get(&access.buffer)).fold(start, |latest, at| latest.max(*at));
            let is_terminator = node.kind.core().is_some_and(|core| core.effects() == Effect::Leaves);
            // A terminator waits for no value, because only the next iteration or a later op uses the value.
            let start = if is_terminator { 0.0 } else { start };
            let end = start.max(issued) + cost.issue + inner_path.cycles;
            issued += cost.issue + inner_path.cycles;
            longest = longest.max(end);
            node.results.iter().for_each(|value| _ = ready.insert(*value, (end, cost.latency)));
            for access in effects.buffers.iter().filter(|access| access.access_kind.writes() && access.proxy == Proxy::Generic) {
                written.insert(access.buffer, end + cost.latency);
            }
            path.demand += cost.demand;
            path.demand += inner_path.demand;
            path.tma_issue += cost.tma_issue + inner_path.tma_issue;
        }
        let spill_cycles = SPILL_CYCLES * f64::from(max_spilled) * f64::from(function.attrs.warps);
        path.demand += Demand::load_store_demand(spill_cycles);
        let is_wgmma = |op: &OpId| matches!(body.ops[*op].kind, Op::Mma { atom: MmaAtom::Group(_), .. });
        let has_wgmma = body.blocks[block].ops.iter().any(is_wgmma);
        // `wgmma` requires all accumulators in registers. Code before and after it therefore loads and stores each spilled
        // accumulator, without overlap.
        let spill_wait_cycles = if has_wgmma { 2.0 * machine.global.l1_latency * f64::from(max_spilled) } else { 0.0 };
        path.stall = (longest - issued).max(0.0);
        path.cycles = issued + path.stall + spill_cycles + spill_wait_cycles;
        path
    }

    /// Returns the cost of an op, and the path through its regions.
    fn op_cost_and_path(&self, op: OpId, in_loop: bool) -> (Cost, CriticalPath) {
        let Costs { function, machine, .. } = self.costs;
        let node = &function.body.ops[op];
        let regions = node.kind.regions();
        let inner_paths = |in_loop: bool| regions.iter().map(move |region| self.walk_region(*region, in_loop));
        match node.kind.core() {
            Some(Core::For { lower, upper, step, .. }) => {
                let trip_count = self.trip_count([*lower, *upper, *step]);
                (Cost::default(), self.repeat_path(inner_paths(true).next().unwrap_or_default(), trip_count, op))
            }
            Some(Core::Loop { .. }) => (Cost::default(), self.repeat_path(inner_paths(true).next().unwrap_or_default(), None, op)),
            Some(Core::If { .. }) => {
                // The model assumes that the costlier branch executes.
                let costliest_branch = inner_paths(in_loop).fold(CriticalPath::default(), |costliest, branch| {
                    if branch.cycles > costliest.cycles { branch } else { costliest }
                });
                (Cost::default(), costliest_branch)
            }
            _ => {
                let mut cost = self.costs.op_cost(&node.kind, &node.results);
                if !in_loop && is_copy(&node.kind) {
                    cost.latency += machine.plan.copy;
                }
                (cost, CriticalPath::default())
            }
        }
    }

    /// Returns the path of a loop with this body. Only the first iteration waits for copies in the body. The iterations that
    /// `ptxas` unrolls wait for their loads together.
    fn repeat_path(&self, body: CriticalPath, trip_count: Option<f64>, op: OpId) -> CriticalPath {
        let Costs { function, machine, .. } = self.costs;
        let iterations = trip_count.unwrap_or(ASSUMED_TRIP_COUNT);
        let block = function.body.block_of(function.body.ops[op].kind.regions()[0]);
        let has_copies = function.body.blocks[block].ops.iter().any(|op| is_copy(&function.body.ops[*op].kind));
        let first_copy_wait = if has_copies { machine.plan.copy } else { 0.0 };
        let instructions = body.demand.instructions_per_warp(function.attrs.warps);
        let unrolled = if self.loads_can_move(op) { unrolled_iterations(instructions, trip_count) } else { 1.0 };
        CriticalPath {
            demand: body.demand.scaled_by(iterations),
            cycles: (body.cycles - body.stall * (1.0 - unrolled.recip())) * iterations + first_copy_wait,
            tma_issue: body.tma_issue * iterations,
            ..CriticalPath::default()
        }
    }

    /// Returns whether `ptxas` can move the loads of a loop body before the ops of earlier iterations. This is possible if the body
    /// has no barrier, no store, no nested region, and no load that depends on a loop-carried value other than the induction
    /// variable.
    fn loads_can_move(&self, loop_op: OpId) -> bool {
        let body = &self.costs.function.body;
        let node = &body.ops[loop_op];
        let block = body.block_of(node.kind.regions()[0]);
        let induction_variables = usize::from(node.kind.core().is_some_and(Core::is_for));
        let mut carried: BTreeSet<Value> = body.blocks[block].args.iter().skip(induction_variables).copied().collect();
        body.blocks[block].ops.iter().all(|op| {
            let node = &body.ops[*op];
            let effects = node.kind.effects();
            let is_terminator = effects.core_effect == Effect::Leaves;
            let depends_on_carried = node.kind.operands().iter().any(|value| carried.contains(value));
            if depends_on_carried {
                carried.extend(node.results.iter().copied());
            }
            let is_load = matches!(node.kind, Op::LoadView { .. } | Op::Load { .. });
            is_terminator || node.kind.is_pure() && node.kind.regions().is_empty() || is_load && !depends_on_carried
        })
    }

    /// Returns the trip count of a loop with constant bounds and a constant step, and `None` for other loops.
    fn trip_count(&self, [lower, upper, step]: [Value; 3]) -> Option<f64> {
        let body = &self.costs.function.body;
        let constant = |value: Value| match body.ops[body.defining_op(value)?].kind.core()?.constant()? {
            Dense::Splat(bits) => Some(*bits as i64 as f64),
            _ => None,
        };
        let (lower, upper, step) = (constant(lower)?, constant(upper)?, constant(step)?);
        (step > 0.0 && upper >= lower).then(|| ((upper - lower) / step).ceil())
    }
}

/// Returns whether an op is an asynchronous copy to a buffer.
fn is_copy(op: &Op) -> bool {
    op.effects().copied_to().is_some()
}

/// Returns the shared memory of a CTA in bytes. Buffers that copies in loops fill have two stages, and buffers that copies outside
/// loops fill have one. All other buffers share the memory of the largest one.
pub(crate) fn shared_bytes(function: &Function) -> u32 {
    let body = &function.body;
    let entry = body.block_of(function.region);
    let blocks = body.op_blocks();
    let (mut multi_stage, mut single_stage) = (BTreeMap::new(), BTreeMap::new());
    for op in body.walk(function.region) {
        let Some(buffer) = body.ops[op].kind.effects().copied_to() else { continue };
        let bytes = function.attrs.buffers[buffer].bytes();
        if blocks[op.0 as usize] == Some(entry) {
            single_stage.insert(buffer, bytes)
        } else {
            multi_stage.insert(buffer, bytes)
        };
    }
    let other_buffers =
        function.attrs.buffers.iter().filter(|(buffer, _)| !multi_stage.contains_key(buffer) && !single_stage.contains_key(buffer));
    let largest_other = other_buffers.map(|(_, info)| info.bytes()).max().unwrap_or(0);
    let multi_stage_bytes =
        multi_stage.values().fold(0u32, |total, bytes| total.saturating_add(bytes.saturating_mul(ASSUMED_STAGES)));
    single_stage.values().fold(multi_stage_bytes.saturating_add(largest_other), |total, bytes| total.saturating_add(*bytes))
}
