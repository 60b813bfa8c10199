//! Purpose: choose the warps, M subtiles and TMA copies of each function by estimated cost.
//! Requires: `.aa` for a target. A file that already has plans keeps them.
//! Establishes: the option `plan` of the file: a plan for each function with a decision of the planner ([`common::kernel_plan`]).
//! Preserves: the program. The planner does not change a decision that an option or the author's hint states.
//! See also: Triton's autotuner, which measures instead; CUTLASS `heuristics` of the profiler; XLA's GEMM fusion cost model.
//!
//! For each candidate plan, the planner runs all passes of the lowering, and `costmodel` estimates the cost of the result. The
//! first candidate has no decisions, so each pass applies its own rule. The planner then varies one decision after the other and
//! keeps the best value. Reason: costs of plans that differ in one decision are comparable, and a lowering takes a fraction of a
//! millisecond. If a pass rejects a candidate, the planner records the candidate with the reason.

use crate::{Lowering, PASSES, kernel_spec};
use base::diag::Result;
use base::{Envelope, File, Target};
use common::kernel_plan::{self, KernelPlan, Planned, Switch};
use core_dialect::core_ops::Core;
use costmodel::Estimate;
use target_info::Feature;
use tileaa::{Function, Op};

/// Minimum relative gain in cost for which a decision replaces the rule of a pass. Reason: smaller differences are within the error
/// of the model between plans of one kernel.
/// Chosen on the tuning half of `scripts/regret`, by predicted times for sm_90 and sm_100 and by measured times of an H200.
const MIN_GAIN: f64 = 0.07;
/// Minimum optimisation level at which functions are planned.
const MIN_LEVEL: u32 = 3;
/// The number of other candidates that a plan records, cheapest first.
const RECORDED_COMPETITORS: usize = 4;
/// Maximum ops of a function that is planned. Reason: the lowering of a larger function would take longer than the rest of the
/// compilation can gain.
const MAX_OPS: usize = 1024;

pub(crate) fn run(lowering: &mut Lowering) -> Result<()> {
    let envelope = &lowering.lowered.envelope;
    if let Some(plans) = kernel_plan::recorded_plans(envelope)? {
        return check_plan_functions(&plans, lowering);
    }
    if envelope.options.opt_level() < MIN_LEVEL {
        return Ok(());
    }
    let target = envelope.target()?;
    let planned = |function: &Function| Planner { lowering, function, target }.best_plan();
    let plans: Vec<Planned> = lowering.program.payload.functions.iter().filter_map(planned).collect();
    for function in lowering.program.payload.functions.iter().filter(|function| is_too_large(function)) {
        crate::remarks::log_unplanned(function, MAX_OPS, &mut lowering.lowered.envelope);
    }
    if !plans.is_empty() {
        kernel_plan::record(&plans, &mut lowering.program.envelope)?;
        kernel_plan::record(&plans, &mut lowering.lowered.envelope)?;
    }
    Ok(())
}

/// Whether a function has too many ops for the planner.
fn is_too_large(function: &Function) -> bool {
    function.body.ops.len() > MAX_OPS
}

/// Rejects a plan for a function that the file does not have.
fn check_plan_functions(plans: &[Planned], lowering: &Lowering) -> Result<()> {
    let functions = &lowering.program.payload.functions;
    let unknown = plans.iter().find(|planned| functions.iter().all(|function| function.name != planned.function));
    match unknown {
        Some(planned) => {
            let message = format!("invalid option 'plan' in the file: there is no function '{}'", planned.function);
            Err(base::diag::Diagnostic::invalid("OPT004", message))
        }
        None => Ok(()),
    }
}

/// Plans a function.
struct Planner<'a> {
    lowering: &'a Lowering,
    function: &'a Function,
    target: Target,
}

/// A candidate and its cost, or the reason against it.
struct Candidate {
    /// The choices of the candidate.
    plan: KernelPlan,
    /// The estimate of the cost model, or the reason why the candidate cannot be used.
    cost: std::result::Result<Estimate, String>,
}

impl Planner<'_> {
    /// The best plan. `None` if no decision improves on the rules of the passes, or if the function cannot be lowered or is too
    /// large.
    fn best_plan(&self) -> Option<Planned> {
        if is_too_large(self.function) {
            return None;
        }
        let mut best = KernelPlan::default();
        let mut cost = self.estimate_cost(best).ok()?;
        let decisions = self.open_decisions(&cost);
        let mut seen = vec![Candidate { plan: best, cost: Ok(cost.clone()) }];
        for values in decisions {
            let base_plan = best;
            for change in values {
                let plan = change(base_plan);
                let estimate = self.estimate_cost(plan).and_then(|estimate| match estimate.loses_asynchronous_mmas(&cost) {
                    true => Err("MMAs would use mma.sync".into()),
                    false => Ok(estimate),
                });
                let candidate = Candidate { plan, cost: estimate };
                if let Ok(estimate) = &candidate.cost
                    && estimate.cycles * (1.0 + MIN_GAIN) < cost.cycles
                {
                    (best, cost) = (plan, estimate.clone());
                }
                seen.push(candidate);
            }
        }
        seen.retain(|candidate| candidate.plan != best);
        seen.sort_by(|one, other| cycles_or_infinity(one).total_cmp(&cycles_or_infinity(other)));
        let competitors = seen.iter().take(RECORDED_COMPETITORS).map(|Candidate { plan, cost }| match cost {
            Ok(cost) => format!("{plan}: {:.0}", cost.cycles),
            Err(reason) => format!("{plan}: {reason}"),
        });
        let competitors = competitors.collect();
        // Without a decision, the passes apply their own rules, so no plan is recorded.
        (best != KernelPlan::default()).then_some(())?;
        Some(Planned { function: self.function.name.clone(), plan: best, cost: Some(cost.cycles.round() as u64), competitors })
    }

    /// Lowers a candidate and estimates its cost.
    fn estimate_cost(&self, plan: KernelPlan) -> std::result::Result<Estimate, String> {
        let Lowering { program: File { envelope, payload }, lowered, .. } = self.lowering;
        let payload = tileaa::Module { globals: payload.globals.clone(), functions: vec![self.function.clone()] };
        let program = File { envelope: envelope.clone(), payload };
        let mut trial = Lowering { program, plans: Vec::new(), lowered: lowered.clone(), is_done: false };
        let planned = [Planned { function: self.function.name.clone(), plan, ..Planned::default() }];
        let carried_out = kernel_plan::record(&planned, &mut trial.lowered.envelope)
            .and_then(|()| PASSES.iter().filter(|pass| pass.name != "plan").try_for_each(|pass| (pass.run)(&mut trial)));
        carried_out.map_err(|reason| reason.message.clone())?;
        let module = &trial.lowered.payload;
        let function = module.functions.last().ok_or("the function has no code")?;
        Ok(costmodel::estimate(module, function, self.target))
    }

    /// For each decision that neither options nor hints fix and that can matter: functions that set one of its values in a plan.
    /// `rules` is the cost without decisions.
    fn open_decisions(&self, rules: &Estimate) -> Vec<Vec<fn(KernelPlan) -> KernelPlan>> {
        let Planner { lowering, function, target } = self;
        let envelope: &Envelope = &lowering.lowered.envelope;
        let is_free = |option: &str| envelope.options.get(option).is_none();
        let hint = |name: &str| function.attrs.hints.iter().find(|hint| hint.target == name).map(|hint| hint.spec);
        let hints = hint(target.name).or_else(|| hint("default")).unwrap_or_default();
        let kinds = || function.body.ops.values().map(|node| &node.kind);
        let mmas = kinds().filter(|op| matches!(op, Op::Mma { .. } | Op::MmaScaled { .. })).count();
        let loops = kinds().any(|op| matches!(op, Op::Core(Core::For { .. } | Core::Loop { .. })));
        let has_tiles = function.body.values.values().any(|node| node.ty.tile().is_some_and(|(_, shape)| !shape.is_empty()));
        let mut decisions: Vec<Vec<fn(KernelPlan) -> KernelPlan>> = Vec::new();
        // The model has no term for CTAs that wait for each other. Only more warps than the rule's are candidates. Reason: the
        // model underestimates registers, and kernels whose accumulators spilled took 2.9 times as long on an H200.
        if is_free("warps") && hints.worker_warps.is_none() && has_tiles && !kernel_spec::waits_for_ctas(function) {
            let candidates: [(u32, fn(KernelPlan) -> KernelPlan); 2] =
                [(8, |plan| KernelPlan { warps: Some(8), ..plan }), (16, |plan| KernelPlan { warps: Some(16), ..plan })];
            decisions.push(candidates.into_iter().filter(|(warps, _)| *warps > rules.warps).map(|(_, change)| change).collect());
        }
        // M subtiles are faster if MMAs of one subtile run while threads compute on the results of the other subtile.
        let has_asynchronous_mmas = target.has(Feature::Wgmma) || target.has(Feature::TensorMemory);
        if is_free("split-m") && has_asynchronous_mmas && mmas > 1 && loops {
            decisions.push(vec![|plan| KernelPlan { split_m: Some(Switch::On), ..plan }]);
        }
        // Small tiles occupy the TMA unit longer than threads need to copy them. The model has no term for warp roles, which TMA
        // copies give to asynchronous MMAs.
        if is_free("tma") && target.has(Feature::Tma) && mmas > 0 && loops && !rules.has_asynchronous_mmas() {
            decisions.push(vec![|plan| KernelPlan { tma: Some(Switch::Off), ..plan }]);
        }
        decisions
    }
}

/// The estimated cycles of a candidate, or infinity if a pass rejected it.
fn cycles_or_infinity(candidate: &Candidate) -> f64 {
    candidate.cost.as_ref().map_or(f64::INFINITY, |cost| cost.cycles)
}
