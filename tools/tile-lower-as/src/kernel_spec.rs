//! Resolves the number of warps and the occupancy of a kernel. In order of priority, they come from options, from the author's
//! hints for the target, and from the kernel plan. Without any of these, the MMAs and tiles determine the number of warps.

use base::diag::Result;
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op;
use base::{Arena, Envelope, Target};
use common::{kernel_plan, options};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_persistent;
use core_dialect::rules::CoreDialectOp;
use tileas::FunctionAttrs;

/// The default number of warps of a CTA.
const DEFAULT_WARPS: u32 = 4;
/// Minimum elements of the largest tile per thread. If a thread has fewer elements, additional threads only repeat scalar work.
const MIN_ELEMENTS: usize = 2;
/// Maximum elements of the largest tile per thread, with the default number of warps. A kernel with a larger tile gets twice the
/// warps.
const MAX_ELEMENTS: usize = 64;
/// [`MAX_ELEMENTS`] for persistent kernels. The limit is lower because a CTA may use more warps: the grid of a persistent kernel
/// has no more CTAs than fit on the GPU.
const MAX_ELEMENTS_PERSISTENT: usize = 32;

/// Maximum warps that an author may request: a CTA of 1024 threads.
const MAX_WARPS: u32 = 32;

/// Resolves the attributes of the `.as` function from options, hints and the kernel plan. `allows_two_components` tells whether two
/// compute roles may divide the MMAs, if the MMAs form two independent components.
pub(crate) fn resolve(
    function: &tileaa::Function,
    allows_two_components: bool,
    target: Target,
    envelope: &mut Envelope,
) -> Result<FunctionAttrs> {
    let hint_for = |name: &str| function.attrs.hints.iter().find(|hint| hint.target == name);
    let spec = hint_for(target.name).or_else(|| hint_for("default")).map(|hint| hint.spec).unwrap_or_default();
    // NVIDIA's `tileiras` ignores a hint that is out of range, and so does this compiler.
    let hinted = spec.occupancy.filter(|occupancy| (1..=32).contains(occupancy));
    let plan = kernel_plan::plan_of_function(envelope, &function.name)?;
    let occupancy = options::Lowering::occupancy(envelope)?.or(hinted).or(plan.occupancy);
    let warps = match (options::Lowering::warps(envelope)?, spec.worker_warps) {
        (Some(warps), _) => warps,
        (None, None) => plan.warps.unwrap_or_else(|| chosen_warps(function, allows_two_components, target)),
        (None, Some(requested_value)) => {
            let (warps, outcome, message) = requested_warps(function, allows_two_components, target, requested_value);
            envelope.log.push(LogEntry {
                pass: "kernel-spec".into(),
                outcome,
                name: "WorkerWarps".into(),
                category: Category::Other,
                message,
                function: function.name.clone(),
                loc: function.loc,
            });
            warps
        }
    };
    let tileaa::FunctionAttrs { private, cluster, .. } = function.attrs;
    Ok(FunctionAttrs { private, warps, occupancy, cluster, cta_pair: false, buffers: Arena::new(), maps: Arena::new() })
}

/// Resolves the hint `num_worker_warps_per_cta`, whose value is `requested_value`. Returns the number of warps, and the outcome and
/// message of a remark.
fn requested_warps(
    function: &tileaa::Function,
    allows_two_components: bool,
    target: Target,
    requested_value: u32,
) -> (u32, Outcome, String) {
    let chosen = chosen_warps(function, allows_two_components, target);
    let declined =
        |why: &str| (chosen, Outcome::Missed, format!("num_worker_warps_per_cta = {requested_value} is not used: {why}"));
    if !requested_value.is_power_of_two() {
        return declined("it is not a power of two");
    }
    if largest_tile(function) == 1 {
        return declined("there is no tile for warps to share");
    }
    let warps = requested_value.min(MAX_WARPS);
    match warps == requested_value {
        true => (warps, Outcome::Passed, format!("{warps} warps, from num_worker_warps_per_cta")),
        false => {
            (warps, Outcome::Missed, format!("num_worker_warps_per_cta = {requested_value} exceeds the CTA limit: {warps} warps"))
        }
    }
}

/// The number of elements of the largest tile, or 1 if there is no tile.
fn largest_tile(function: &tileaa::Function) -> usize {
    let tiles = function.body.values.values().filter_map(|node| node.ty.tile());
    tiles.map(|(_, shape)| core_dialect::tile::element_count(shape)).max().unwrap_or(1)
}

/// Chooses the number of warps from the MMAs and tiles. Chooses more than the default if MMAs or the largest tile need the
/// registers. Chooses fewer if the largest tile has too few elements.
fn chosen_warps(function: &tileaa::Function, allows_two_components: bool, target: Target) -> u32 {
    let largest = largest_tile(function);
    let useful_warps = (largest / (32 * MIN_ELEMENTS)).max(1).next_power_of_two() as u32;
    let has_mma = function.body.ops.values().any(|node| matches!(node.kind, tileaa::Op::Mma { .. } | tileaa::Op::MmaScaled { .. }));
    if allows_two_components && !crate::independent_subgraphs::second_component(function, target).is_empty() {
        // Each component gets a compute role with one thread per row.
        return DEFAULT_WARPS;
    }
    match has_mma {
        true => crate::mma_selection::warps_for_mmas(function, target, DEFAULT_WARPS),
        // Several of the largest tiles are live at the same time. Twice the threads have twice the registers for these tiles.
        false if largest > max_elements_per_thread(function) * 32 * DEFAULT_WARPS as usize => 2 * DEFAULT_WARPS,
        // With more warps, a CTA finishes sooner, and other CTAs that wait for this CTA resume sooner.
        false if waits_for_ctas(function) => useful_warps.min(2 * DEFAULT_WARPS),
        false => useful_warps.min(DEFAULT_WARPS),
    }
}

/// Whether a CTA may wait for other CTAs, for example for a lock. The criterion is an atomic op in an unbounded `loop`.
pub(crate) fn waits_for_ctas(function: &tileaa::Function) -> bool {
    let body = &function.body;
    let is_atomic = |op: &Op| matches!(body.ops[*op].kind, tileaa::Op::AtomicRmw { .. } | tileaa::Op::AtomicCas { .. });
    let is_spin_loop = |kind: &tileaa::Op| {
        let endless_loop = kind.core().and_then(Core::as_loop).filter(|loop_op| loop_op.bounds.is_none());
        endless_loop.is_some_and(|loop_op| body.walk(loop_op.body).iter().any(is_atomic))
    };
    body.walk(function.region).into_iter().any(|op| is_spin_loop(&body.ops[op].kind))
}

/// The maximum elements of the largest tile per thread: [`MAX_ELEMENTS_PERSISTENT`] for persistent kernels, else [`MAX_ELEMENTS`].
fn max_elements_per_thread(function: &tileaa::Function) -> usize {
    let body = &function.body;
    let mut ops = body.blocks[function.entry()].ops.iter();
    match ops.any(|op| is_persistent(body, *op, crate::operand_trees::as_core)) {
        true => MAX_ELEMENTS_PERSISTENT,
        false => MAX_ELEMENTS,
    }
}
