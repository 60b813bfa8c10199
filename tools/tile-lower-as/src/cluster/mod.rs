//! Purpose: divide a tile block among the 2 or 4 CTAs of a cluster (`num_cta_in_cga`, `--cluster`).
//! Requires: `.aa`. The pass divides only functions without ops that must execute once, and without tokens that order accesses of
//! different CTAs.
//! Establishes: the function of one CTA, which computes the part of each store that the CTA's rank selects, and the values on which
//! this part depends. Every CTA computes scalars and operands that several parts need. Each store is divided along the dimension
//! that leaves a CTA the least work: MMAs count first, then loads, then other ops.
//! Preserves: results. A function that a cluster would slow down stays unchanged, with a remark, unless an option requests
//! clusters.
//! See also: Triton's `PlanCTA` (`CTASplitNum`); CUTLASS `ClusterShape`.

mod cluster_token_order;
mod rewrite;
pub(crate) mod value_forms;

use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::{Op as OpId, Operation};
use base::{Block, Envelope, Target, Value};
use common::options;
use core_dialect::core_ops::{CLUSTER_SIZES, Core, Effect};
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::element_count;
pub(crate) use rewrite::{PartAssignment, run as rewrite};
use std::collections::BTreeMap;
use target_info::Feature;
use tileaa::{Function, Op};
use tileas::MmaAtom;
use value_forms::{Flow, Form, Forms};

/// Maximum loads and stores of a function. Reason: the token-order check compares all pairs of accesses, so its time is quadratic.
const MAX_ACCESSES: usize = 256;
/// Maximum total work of a cluster's CTAs relative to the undivided tile block, in units of one half: 3 means 1.5 times the work.
const MAX_WORK: u128 = 3;
/// Minimum rows and columns of the accumulators of a part for full tensor-core rate.
const FULL_RATE_EXTENT: u128 = 128;

/// Returns the function of one CTA of a cluster. Returns the unchanged function if neither an option nor a hint requests clusters,
/// or if the hinted division is impossible or not profitable.
pub(crate) fn run(function: &Function, target: Target, envelope: &mut Envelope) -> Result<Function> {
    if function.attrs.cluster.is_some() && !target.has(Feature::Clusters) {
        let message = format!("'{}' is for the CTAs of a cluster, and {} has no clusters", function.name, target.name);
        return Err(Diagnostic::unsupported("AS905", message).at_loc(&envelope.debug, function.loc));
    }
    let hint_for = |name: &str| function.attrs.hints.iter().find(|hint| hint.target == name);
    let hinted = hint_for(target.name).or_else(|| hint_for("default")).and_then(|hint| hint.spec.ctas_per_cluster);
    let requested = options::Lowering::cluster(envelope)?;
    let Some(ctas) = requested.or(hinted).filter(|ctas| *ctas > 1) else {
        return Ok(function.clone());
    };
    if function.attrs.cluster.is_some() {
        return Ok(function.clone());
    }
    let divided = match (CLUSTER_SIZES.contains(&ctas), target.has(Feature::Clusters)) {
        (_, false) => Err("the target has no clusters".into()),
        (false, _) => Err(format!("clusters have {} or {} CTAs", CLUSTER_SIZES[0], CLUSTER_SIZES[1])),
        _ if requested.is_some() => divide_tile_block(function, target, ctas, true),
        // If the author's hint requests four CTAs and the tile block cannot be divided by four, two CTAs are tried.
        _ => divide_tile_block(function, target, ctas, false).or_else(|why| match ctas == CLUSTER_SIZES[1] {
            true => divide_tile_block(function, target, CLUSTER_SIZES[0], false).map_err(|_| why),
            false => Err(why),
        }),
    };
    let mut log = |outcome, message| {
        let (name, category, loc) = ("Cluster".into(), Category::Other, function.loc);
        envelope.log.push(LogEntry {
            pass: "cluster".into(),
            outcome,
            name,
            category,
            message,
            function: function.name.clone(),
            loc,
        });
    };
    match divided {
        Ok(divided) => {
            let ctas_per_tile_block = divided.attrs.cluster.unwrap_or(ctas);
            let origin = if ctas_per_tile_block == ctas {
                "as num_cta_in_cga requests".into()
            } else {
                format!("where num_cta_in_cga is {ctas}")
            };
            log(Outcome::Passed, format!("{ctas_per_tile_block} CTAs of a cluster share each tile block, {origin}"));
            Ok(divided)
        }
        Err(why) if requested.is_some() => {
            let message = format!("--cluster={ctas}: this function cannot be divided: {why}");
            Err(Diagnostic::unsupported("AS905", message).at_loc(&envelope.debug, function.loc))
        }
        Err(why) => {
            log(Outcome::Missed, format!("num_cta_in_cga = {ctas} is not used: {why}"));
            Ok(function.clone())
        }
    }
}

/// The function of one CTA of a cluster, or the reason why the function is not divided. With `requested`, an option requests
/// clusters, so profitability does not matter.
fn divide_tile_block(
    function: &Function,
    target: Target,
    ctas_per_tile_block: u32,
    requested: bool,
) -> std::result::Result<Function, String> {
    let flow = Flow::analyse(function);
    let forms = divided_forms(function, target, &flow, ctas_per_tile_block)?;
    if let Some(reason) = WorkEstimator::new(function, target).reason_against(&forms).filter(|_| !requested) {
        return Err(reason.into());
    }
    Ok(rewrite::run(&forms, &flow, PartAssignment::ByRank))
}

/// Returns the forms of all values after every store is divided into `parts` parts that may execute in any order. The error is the
/// reason why the function cannot be divided.
pub(crate) fn divided_forms<'a>(
    function: &'a Function,
    target: Target,
    flow: &'a Flow,
    parts: u32,
) -> std::result::Result<Forms<'a>, String> {
    let body = &function.body;
    if let Some(op) = body.walk(function.region).into_iter().find(|op| must_execute_once(&body.ops[*op].kind)) {
        return Err(format!("'{}' must execute once", body.ops[op].kind.mnemonic()));
    }
    if cluster_token_order::loads_and_stores(function).len() > MAX_ACCESSES {
        return Err(format!("it has more than {MAX_ACCESSES} accesses"));
    }
    let forms = divide_stores(function, flow, &WorkEstimator::new(function, target), parts)?;
    match cluster_token_order::violated_pair(&forms, flow) {
        Some((first, second)) => {
            let [first, second] = [first, second].map(|op| body.ops[op].kind.mnemonic());
            Err(format!("tokens order a '{second}' after a '{first}' that may be in another CTA's part"))
        }
        None => Ok(forms),
    }
}

/// Whether an op must execute exactly once per tile block, so that it can be neither divided nor repeated.
pub(crate) fn must_execute_once(op: &Op) -> bool {
    match op {
        Op::Core(core) => match core.effects() {
            Effect::Nothing | Effect::Branches | Effect::Leaves => false,
            Effect::Orders => !matches!(core, Core::GridWait { .. } | Core::GridLaunch { .. }),
            Effect::Stops | Effect::Prints | Effect::Allocates => true,
        },
        Op::LoadView { order, .. } | Op::StoreView { order, .. } | Op::Load { order, .. } | Op::Store { order, .. } => {
            order.semantics != core_dialect::memory::MemoryOrdering::Weak
        }
        Op::Reduce { .. } | Op::Scan { .. } | Op::Mma { .. } | Op::MmaScaled { .. } => false,
        Op::ReduceView { .. }
        | Op::MulticastLoad { .. }
        | Op::MulticastStore { .. }
        | Op::AtomicRmw { .. }
        | Op::AtomicCas { .. } => true,
    }
}

/// Divides every store along the dimension that leaves a CTA the least work. The error is the reason why a store cannot be divided.
fn divide_stores<'a>(
    function: &'a Function,
    flow: &'a Flow,
    work_estimator: &WorkEstimator,
    parts: u32,
) -> std::result::Result<Forms<'a>, String> {
    let mut forms = Forms::new(function, flow, parts);
    let accesses = cluster_token_order::loads_and_stores(function).into_iter().map(|(op, _)| op);
    let stores: Vec<OpId> = accesses.filter(|op| cluster_token_order::is_store(function, *op)).collect();
    for &store in &stores {
        let (Op::StoreView { tile, .. } | Op::Store { value: tile, .. }) = &function.body.ops[store].kind else { continue };
        let extents = function.body.ty(*tile).tile().map(|(_, shape)| shape.clone()).unwrap_or_default();
        let divisions = (0..extents.len()).filter(|dim| extents[*dim] >= parts).filter_map(|dim| {
            let mut forms = forms.clone();
            forms.divide_store(store, dim).map(|()| forms)
        });
        forms = divisions.min_by_key(|forms| work_estimator.cta_work(forms)).ok_or("a store has no dimension to divide")?;
    }
    if stores.is_empty() { Err("it stores nothing".into()) } else { Ok(forms) }
}

/// The work of a CTA as three counts, compared in this order: FMAs of MMAs, bytes loaded, and elements of other tiles.
type WorkCounts = [u128; 3];

/// Estimates the work of a function: the sum over all ops of the work of an op times its estimated number of executions.
struct WorkEstimator {
    target: Target,
    /// Log2 of the estimated executions of each op.
    log2_executions: BTreeMap<OpId, u32>,
    /// The rows of the smallest tensor-core MMA at full rate: 128 for `tcgen05.mma`, 64 for `wgmma`, 16 for `mma.sync`. An MMA with
    /// fewer rows counts as this many.
    min_rows: u128,
}

impl WorkEstimator {
    /// Log2 of the assumed number of iterations of each loop.
    const LOOP_ITERATIONS_LOG2: u32 = 4;
    /// Maximum log2 of the assumed executions of an op in nested loops. Reason: the work of an op times its executions must fit
    /// `u128`.
    const MAX_ITERATIONS_LOG2: u32 = 40;

    fn new(function: &Function, target: Target) -> WorkEstimator {
        let body = &function.body;
        let mut log2_executions = BTreeMap::new();
        let mut blocks: Vec<(Block, u32)> = vec![(function.entry(), 0)];
        while let Some((block, depth)) = blocks.pop() {
            for &op in &body.blocks[block].ops {
                log2_executions.insert(op, depth.min(Self::MAX_ITERATIONS_LOG2));
                let kind = &body.ops[op].kind;
                let inner = match kind {
                    Op::Core(core) if core.is_loop() => depth + Self::LOOP_ITERATIONS_LOG2,
                    _ => depth,
                };
                // The body of a reduction counts as work of the reduction, so only ops of the core dialect are entered.
                if kind.core().is_some() {
                    blocks.extend(kind.regions().into_iter().map(|region| (body.block_of(region), inner)));
                }
            }
        }
        let rows = [(Feature::TensorMemory, 128), (Feature::Wgmma, 64)];
        let min_rows = rows.into_iter().find(|(feature, _)| target.has(*feature)).map_or(16, |(_, rows)| rows);
        WorkEstimator { target, log2_executions, min_rows }
    }

    /// The work of one CTA of a cluster that computes values in the given forms.
    fn cta_work(&self, forms: &Forms<'_>) -> WorkCounts {
        self.total_work(forms.function, forms.parts, |value| forms.emitted_forms(value).collect())
    }

    /// The work of a CTA that computes each value in the forms that `forms` returns.
    fn total_work(&self, function: &Function, parts: u32, forms: impl Fn(Value) -> Vec<Form>) -> WorkCounts {
        let mut work = WorkCounts::default();
        for (&op, log2_executions) in &self.log2_executions {
            let Some(&result) = function.body.ops[op].results.first() else { continue };
            for form in forms(result) {
                let op_work = self.op_work(function, op, result, form, parts);
                work.iter_mut().zip(op_work).for_each(|(total, op_part)| *total += op_part << log2_executions);
            }
        }
        work
    }

    /// The work of one execution of an op that computes `result` in `form`.
    fn op_work(&self, function: &Function, op: OpId, result: Value, form: Form, parts: u32) -> WorkCounts {
        let shape = |value: Value| function.body.ty(value).tile().map(|(_, shape)| shape.to_vec());
        let Some((elem, extents)) = function.body.ty(result).tile() else { return WorkCounts::default() };
        let mut extents = extents.to_vec();
        if let Form::Part(dim) = form {
            extents[dim] /= parts;
        }
        let elements = element_count(&extents) as u128;
        match &function.body.ops[op].kind {
            Op::Mma { lhs, .. } | Op::MmaScaled { lhs, .. } => {
                let rank = extents.len();
                let (rows, depth) = (u128::from(extents[rank - 2]), shape(*lhs).map_or(1, |lhs| u128::from(lhs[rank - 1])));
                [elements / rows * rows.max(self.min_rows) * depth, 0, 0]
            }
            Op::LoadView { .. } | Op::Load { .. } => [0, elements * u128::from(elem.bytes()), 0],
            // Each use rematerializes these values, so they count as no work.
            Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. } | Core::Reshape { .. }) => {
                WorkCounts::default()
            }
            _ => [0, 0, elements],
        }
    }

    /// The reason why a cluster would be slower than one CTA, or `None` if it would not. There are three reasons: each CTA repeats
    /// most of the work, MMAs of a part are too narrow, or the cluster loads more bytes. More loads are acceptable if the MMAs hide
    /// them, or if the accumulator does not fit one CTA. Tiles that TMA multicasts count as loaded once if the MMAs of a part keep
    /// full rate.
    fn reason_against(&self, forms: &Forms<'_>) -> Option<&'static str> {
        let function = forms.function;
        let ctas_per_tile_block = u128::from(forms.parts);
        let undivided_work = self.total_work(function, forms.parts, |_| vec![Form::Whole]);
        let part_work = self.cta_work(forms);
        let dominant_work = |work: &WorkCounts| if undivided_work[0] > 0 { work[0] } else { work[1] + work[2] };
        if 2 * ctas_per_tile_block * dominant_work(&part_work) > MAX_WORK * dominant_work(&undivided_work) {
            return Some("each CTA would repeat most of the work");
        }
        let in_quarters = forms.parts > CLUSTER_SIZES[0];
        let parts_are_wide = self.parts_keep_full_rate(forms, if in_quarters { self.min_rows } else { FULL_RATE_EXTENT });
        if in_quarters && undivided_work[0] > 0 && !parts_are_wide {
            return Some("MMAs of a part are too narrow for full rate");
        }
        let fmas = self.fma_rate(function)?;
        let copy = u128::from(perf_model::rates(self.target).copy);
        let mmas_hide_loads = 3 * part_work[1] * fmas <= 2 * part_work[0] * copy;
        let multicast_bytes =
            if parts_are_wide { self.shared_load_bytes(forms) / ctas_per_tile_block * (ctas_per_tile_block - 1) } else { 0 };
        let loads_little_more = 8 * ctas_per_tile_block * (part_work[1] - multicast_bytes) <= 9 * undivided_work[1];
        let fits = self.largest_accumulator_bytes(function) <= self.accumulator_capacity();
        (fits && !mmas_hide_loads && !loads_little_more).then_some("the CTAs together would load more than one CTA")
    }

    /// Bytes of the tiles that every CTA of a cluster loads in full through views, so that TMA can multicast them.
    fn shared_load_bytes(&self, forms: &Forms<'_>) -> u128 {
        let function = forms.function;
        let bytes = |(&op, log2_executions): (&OpId, &u32)| {
            let node = &function.body.ops[op];
            let tile = *node.results.first().filter(|_| matches!(node.kind, Op::LoadView { .. }))?;
            forms
                .forms_of(tile)
                .contains(&Form::Whole)
                .then(|| self.op_work(function, op, tile, Form::Whole, 1)[1] << log2_executions)
        };
        self.log2_executions.iter().filter_map(bytes).sum()
    }

    /// Whether TMA multicast is available and the MMAs of a part keep full rate: at least `rows` rows and `FULL_RATE_EXTENT`
    /// columns.
    fn parts_keep_full_rate(&self, forms: &Forms<'_>, rows: u128) -> bool {
        let body = &forms.function.body;
        let by_tma = self.target.has(Feature::TmaMulticast);
        let is_wide = |accumulator: Value| {
            let extents = body.ty(accumulator).tile().map(|(_, extents)| extents.to_vec()).unwrap_or_default();
            let wide = |form: Form| {
                let extent = |dim: usize| u128::from(extents[dim] / if form == Form::Part(dim) { forms.parts } else { 1 });
                let rank = extents.len();
                rank >= 2 && extent(rank - 2) >= rows && extent(rank - 1) >= FULL_RATE_EXTENT
            };
            forms.emitted_forms(accumulator).all(wide)
        };
        let mmas = body.ops.values().filter(|node| matches!(node.kind, Op::Mma { .. } | Op::MmaScaled { .. }));
        by_tma && mmas.flat_map(|node| node.results.iter()).all(|accumulator| is_wide(*accumulator))
    }

    /// FMAs per cycle of an SM, for the operand type of the first MMA. `None` if the function has no MMA.
    fn fma_rate(&self, function: &Function) -> Option<u128> {
        let elem = function.body.ops.values().find_map(|node| match node.kind {
            Op::Mma { lhs, .. } | Op::MmaScaled { lhs, .. } => Some(function.body.ty(lhs).tile()?.0.carrier()),
            _ => None,
        })?;
        Some(u128::from(MmaAtom::best_rate(self.target, elem)))
    }

    /// Bytes of the largest accumulator of an MMA; 0 if the function has no MMA.
    fn largest_accumulator_bytes(&self, function: &Function) -> u64 {
        let bytes = |node: &base::ir::OpNode<Op>| match node.kind {
            Op::Mma { acc, .. } | Op::MmaScaled { acc, .. } => {
                let (elem, shape) = function.body.ty(acc).tile()?;
                Some(element_count(shape) as u64 * u64::from(elem.bytes()))
            }
            _ => None,
        };
        function.body.ops.values().filter_map(bytes).max().unwrap_or(0)
    }
    /// The bytes that a CTA has for an accumulator: all of tensor memory or, on targets without tensor memory, half of the
    /// registers.
    fn accumulator_capacity(&self) -> u64 {
        /// Bytes of a register, and of one lane of a TMEM column.
        const WORD_BYTES: u32 = 4;
        u64::from(match self.target.has(Feature::TensorMemory) {
            true => self.target.tmem_columns * tileas::tensor_memory::LANES * WORD_BYTES,
            false => self.target.registers * WORD_BYTES / 2,
        })
    }
}
