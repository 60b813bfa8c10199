//! The time of one CTA alone on an SM, and its demand: a walk over the regions, with the longest path of each block.
//!
//! Warps issue in order. A block therefore takes at least the sum of the issue times of its ops, and at least its longest chain of
//! results. Copies in loops run iterations ahead, so nothing waits for them after the first iteration.

use crate::demand::{Cost, Costs, Demand, operand_buffers};
use base::ir::{Op as OpId, Operation};
use base::{Region, Target, Value};
use core_dialect::core_ops::{Core, Effect};
use core_dialect::rules::MiddleOp;
use core_dialect::tile::Dense;
use std::collections::BTreeMap;
use tileas::effects::Proxy;
use tileas::{Buffer, Function, MmaAtom, Module, Op};

/// Iterations of a loop whose trip count is unknown.
pub(crate) const UNKNOWN_TRIPS: f64 = 16.0;
/// Stages of a buffer that copies in a loop fill.
const STAGES: u32 = 2;
/// Cycles of the load/store unit for each spilled register of each warp: one store and one load of 128 bytes.
const SPILL: f64 = 8.0;

/// A CTA's time and demand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) demand: Demand,
    pub(crate) cycles: f64,
}

impl Path {
    /// `spilled`: registers beyond the limit while an op executes.
    pub(crate) fn of(module: &Module, function: &Function, target: Target, spilled: impl Fn(OpId) -> u32) -> Path {
        let machine = perf_model::machine(target);
        let walk =
            Walk { costs: Costs { module, function, target, machine, operands: operand_buffers(function) }, spilled: &spilled };
        walk.region(function.region, false)
    }
}

struct Walk<'a> {
    costs: Costs<'a>,
    spilled: &'a dyn Fn(OpId) -> u32,
}

impl Walk<'_> {
    fn region(&self, region: Region, in_loop: bool) -> Path {
        let Costs { function, machine, .. } = self.costs;
        let body = &function.body;
        let block = body.block_of(region);
        let mut ready: BTreeMap<Value, (f64, f64)> = BTreeMap::new();
        let mut written: BTreeMap<Buffer, f64> = BTreeMap::new();
        let (mut path, mut longest, mut issued, mut spills) = (Path::default(), 0.0f64, 0.0, 0);
        for op in &body.blocks[block].ops {
            let node = &body.ops[*op];
            let (own, inner) = self.op(*op, in_loop);
            spills = spills.max((self.spilled)(*op));
            let operands = node.kind.operands();
            let is_mma = matches!(node.kind, Op::Mma { .. });
            // MMAs of one accumulator follow each other without a wait.
            let available = |value: &Value| ready.get(value).map(|(end, latency)| if is_mma { *end } else { *end + latency });
            let start = operands.iter().filter_map(available).fold(0.0f64, f64::max);
            let effects = node.kind.effects();
            let start =
                effects.buffers.iter().filter_map(|access| written.get(&access.buffer)).fold(start, |most, at| most.max(*at));
            let is_end = node.kind.core().is_some_and(|core| core.effects() == Effect::Leaves);
            // Nothing waits at the end of a block for what the next iteration uses.
            let start = if is_end { 0.0 } else { start };
            let end = start.max(issued) + own.issue + inner.cycles;
            issued += own.issue + inner.cycles;
            longest = longest.max(end);
            node.results.iter().for_each(|value| _ = ready.insert(*value, (end, own.latency)));
            for access in effects.buffers.iter().filter(|access| access.access_kind.writes() && access.proxy == Proxy::Generic) {
                written.insert(access.buffer, end + own.latency);
            }
            path.demand += own.demand;
            path.demand += inner.demand;
        }
        let spill = SPILL * f64::from(spills) * f64::from(function.attrs.warps);
        path.demand += Demand::shared(spill);
        let is_group = |op: &OpId| matches!(body.ops[*op].kind, Op::Mma { atom: MmaAtom::Group(_), .. });
        let waits = body.blocks[block].ops.iter().any(is_group);
        // `wgmma` needs all accumulators in registers, so each one that spills is stored and loaded around it, without overlap.
        let exposed = if waits { 2.0 * machine.global.l1_latency * f64::from(spills) } else { 0.0 };
        path.cycles = longest.max(issued) + spill + exposed;
        path
    }

    /// The cost of an op, and the path through its regions.
    fn op(&self, op: OpId, in_loop: bool) -> (Cost, Path) {
        let Costs { function, machine, .. } = self.costs;
        let node = &function.body.ops[op];
        let regions = node.kind.regions();
        let all = |in_loop: bool| regions.iter().map(move |region| self.region(*region, in_loop));
        match node.kind.core() {
            Some(Core::For { lower, upper, step, .. }) => {
                let trips = self.trips([*lower, *upper, *step]).unwrap_or(UNKNOWN_TRIPS);
                (Cost::default(), self.repeated(all(true).next().unwrap_or_default(), trips, op))
            }
            Some(Core::Loop { .. }) => (Cost::default(), self.repeated(all(true).next().unwrap_or_default(), UNKNOWN_TRIPS, op)),
            Some(Core::If { .. }) => {
                // The costlier side.
                let sides = all(in_loop).fold(Path::default(), |most, side| if side.cycles > most.cycles { side } else { most });
                (Cost::default(), sides)
            }
            _ => {
                let mut cost = self.costs.of(&node.kind, &node.results);
                if !in_loop && is_copy(&node.kind) {
                    cost.latency += machine.plan.copy;
                }
                (cost, Path::default())
            }
        }
    }

    fn repeated(&self, body: Path, trips: f64, op: OpId) -> Path {
        let Costs { function, machine, .. } = self.costs;
        let block = function.body.block_of(function.body.ops[op].kind.regions()[0]);
        let copies = function.body.blocks[block].ops.iter().any(|op| is_copy(&function.body.ops[*op].kind));
        let first = if copies { machine.plan.copy } else { 0.0 };
        Path { demand: body.demand.times(trips), cycles: body.cycles * trips + first }
    }

    fn trips(&self, [lower, upper, step]: [Value; 3]) -> Option<f64> {
        let body = &self.costs.function.body;
        let constant = |value: Value| match body.ops[body.defining_op(value)?].kind.core()?.constant()? {
            Dense::Splat(bits) => Some(*bits as i64 as f64),
            _ => None,
        };
        let (lower, upper, step) = (constant(lower)?, constant(upper)?, constant(step)?);
        (step > 0.0 && upper >= lower).then(|| ((upper - lower) / step).ceil())
    }
}

fn is_copy(op: &Op) -> bool {
    op.effects().copied_to().is_some()
}

/// Bytes of shared memory of a CTA: two stages of buffers that copies in loops fill, and the largest of the others, which share
/// memory.
pub(crate) fn shared_bytes(function: &Function) -> u32 {
    let body = &function.body;
    let entry = body.block_of(function.region);
    let blocks = body.op_blocks();
    let (mut staged, mut alone) = (BTreeMap::new(), BTreeMap::new());
    for op in body.walk(function.region) {
        let Some(buffer) = body.ops[op].kind.effects().copied_to() else { continue };
        let bytes = function.attrs.buffers[buffer].bytes();
        if blocks[op.0 as usize] == Some(entry) {
            alone.insert(buffer, bytes)
        } else {
            staged.insert(buffer, bytes)
        };
    }
    let others = function.attrs.buffers.iter().filter(|(buffer, _)| !staged.contains_key(buffer) && !alone.contains_key(buffer));
    let other = others.map(|(_, info)| info.bytes()).max().unwrap_or(0);
    let copies = staged.values().fold(0u32, |all, bytes| all.saturating_add(bytes.saturating_mul(STAGES)));
    alone.values().fold(copies.saturating_add(other), |all, bytes| all.saturating_add(*bytes))
}
