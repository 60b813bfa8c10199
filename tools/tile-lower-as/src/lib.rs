//! Lowers `.aa` (TileAA, the alias-aware dialect) to `.as` (TileAS, the assembler-near dialect) for one target. Chooses a layout
//! for every tile, and an atom (the instruction shape) for every MMA and copy.
//!
//! | pass | establishes |
//! |---|---|
//! | `plan` | a plan for every function: warps, M subtiles and TMA copies, by estimated cost |
//! | `cluster` | if the author requests clusters and the program can be divided, the function computes one CTA's share |
//! | `clc` | if `--clc` requests it, a CTA loops over tile blocks: first its own, then tile blocks of the launch that have not
//! started |
//! | `split-m` | MMA chains whose accumulators or operands exceed registers or TMEM run in two M subtiles, one after the other |
//! | `legalize` | every MMA has an atom of the target, or is lowered to FMAs; TMEM accumulators start at zero; M, N and K are the last dims |
//! | `split` | operands of MMAs are tiles that fit shared memory (split along K) |
//! | `hoist-loads` | loads after a reduction are issued before it |
//! | `cluster-fma` | FMA dots that share an operand are adjacent |
//! | `accesses` | the number of warps; the vector width and layout of each access |
//! | `mma` | the atom of every MMA and the layouts of its operands |
//! | `copies` | the loads that become asynchronous copies to shared memory, and the readers of each buffer |
//! | `layouts` | the layout of every other tile, and the stores that TMA executes |
//! | `convert` | the program in `.as` |
//!
//! `plan` records options. The passes from `cluster` to `cluster-fma` rewrite `.aa`. The four analysis passes after them only fill a
//! `LoweringPlan`. `convert` rewrites the program as planned. If the buffers exceed shared memory, `convert` plans again: without
//! an asynchronous copy, or without `wgmma` and `tcgen05` for an MMA.
//! Invariant *restartable*: a file that was written before `convert` is valid `.aa`, and lowering it again gives the same result.

mod access_layouts;
mod access_plan;
mod async_copies;
mod async_copy_non_mma_loads;
mod clc_loops;
mod cluster;
mod cluster_fma_dots;
mod command;
mod convert;
mod copy_planner;
mod epilogue_subtiling;
mod hoist_loads_above_reductions;
mod independent_subgraphs;
mod kernel_spec;
mod layout_assignment;
mod layout_transforms;
mod legalize_mma;
mod lowering_plan;
mod mma_selection;
mod move_unit_dims;
mod operand_load_layouts;
mod operand_trees;
mod operands;
mod packed_fp4_operands;
mod plan_options;
mod planner;
mod remarks;
mod slices;
mod smem_fit;
mod smem_swizzles;
mod split_accumulator_add;
mod split_k;
mod split_m_subtiles;
mod tcgen05_selection;
mod tile_slicing;
mod tma_loads;
mod tma_stores;
mod tmem_accumulator_chains;
mod tmem_load_layouts;
mod unify_vector_widths;

pub use command::{ABOUT, Options, run};

use base::diag::{Diagnostic, Result};
use base::ir::Op;
use base::{Envelope, File, Target};
use common::{Pass, Show, kernel_plan};
use lowering_plan::LoweringPlan;
use plan_options::PlanOptions;
use std::collections::BTreeSet;
use target_info::Feature;
use tileaa::Function;

/// The passes, in the order in which they run.
pub const PASSES: &[Pass<Lowering>] = &[
    Pass { name: "plan", run: planner::run },
    Pass { name: "cluster", run: Lowering::divide_for_clusters },
    Pass { name: "clc", run: Lowering::add_clc_loops },
    Pass { name: "split-m", run: Lowering::split_m },
    Pass { name: "legalize", run: Lowering::legalize_mma },
    Pass {
        name: "split",
        run: |lowering| lowering.rewrite_functions(|function, target, options| split_k::run(function, target, options.tma_copies)),
    },
    Pass {
        name: "hoist-loads",
        run: |lowering| {
            lowering.rewrite_functions(|function, _, options| {
                if options.level >= 2 { hoist_loads_above_reductions::run(function) } else { function.clone() }
            })
        },
    },
    Pass { name: "cluster-fma", run: |lowering| lowering.rewrite_functions(|function, _, _| cluster_fma_dots::run(function)) },
    Pass { name: "accesses", run: Lowering::plan_accesses },
    Pass { name: "mma", run: Lowering::select_mmas },
    Pass { name: "copies", run: Lowering::choose_copies },
    Pass { name: "layouts", run: Lowering::assign_layouts },
    Pass { name: "convert", run: Lowering::convert },
];

/// The state that the passes share.
pub struct Lowering {
    /// The program before `convert`.
    pub program: File<tileaa::Module>,
    /// One plan for each function, in program order. Empty before the pass `accesses`.
    plans: Vec<LoweringPlan>,
    /// The result of `convert`.
    pub lowered: File<tileas::Module>,
    /// Whether the last pass, `convert`, has run.
    is_done: bool,
}

impl Lowering {
    /// The state before the first pass. `producer` is the tool that the result names as its producer.
    pub fn new(program: File<tileaa::Module>, producer: &str) -> Lowering {
        let envelope = program.envelope.for_next_stage::<tileas::Module>("atoms", producer);
        let payload = tileas::Module { globals: program.payload.globals.clone(), ..Default::default() };
        Lowering { program, plans: Vec::new(), lowered: File { envelope, payload }, is_done: false }
    }

    /// Whether the last pass has run.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Runs pass `cluster` on every function.
    fn divide_for_clusters(&mut self) -> Result<()> {
        let target = self.lowered.envelope.target()?;
        for function in &mut self.program.payload.functions {
            *function = cluster::run(function, target, &mut self.lowered.envelope)?;
            function.attrs.facts.clear();
        }
        Ok(())
    }

    /// Runs pass `clc` on every function.
    fn add_clc_loops(&mut self) -> Result<()> {
        let target = self.lowered.envelope.target()?;
        for function in &mut self.program.payload.functions {
            *function = clc_loops::run(function, target, &mut self.lowered.envelope)?;
            function.attrs.facts.clear();
        }
        Ok(())
    }

    /// Splits functions along M if an option requests a split or it is profitable. Returns an error if a requested split is
    /// impossible.
    fn split_m(&mut self) -> Result<()> {
        let target = self.lowered.envelope.target()?;
        for function in &mut self.program.payload.functions {
            let split_m_option = kernel_plan::split_m(&self.lowered.envelope, &function.name)?.map(str::to_owned);
            if !split_m_subtiles::are_m_subtiles_desired(function, target, split_m_option.as_deref()) {
                continue;
            }
            let split_result = split_m_subtiles::run(function, target);
            let reason = split_result.as_ref().err().map(String::as_str);
            if let (Some("on"), Some(reason)) = (split_m_option.as_deref(), reason) {
                let message = format!("'{}' cannot be split along M: {reason}", function.name);
                return Err(Diagnostic::unsupported("AS905", message).at_loc(&self.lowered.envelope.debug, function.loc));
            }
            remarks::log_split_m(function, reason, &mut self.lowered.envelope);
            if let Ok(subtiles) = split_result {
                *function = subtiles;
                function.attrs.facts.clear();
            }
        }
        Ok(())
    }

    /// Selects the MMAs whose accumulators are in TMEM, and rewrites each other MMA to a form that the target executes.
    fn legalize_mma(&mut self) -> Result<()> {
        self.program.payload.functions.iter().try_for_each(|function| check_pointer_support(function, &self.lowered.envelope))?;
        let target = self.lowered.envelope.target()?;
        for function in &mut self.program.payload.functions {
            let options = PlanOptions::from_envelope(&self.lowered.envelope, function)?;
            *function = packed_fp4_operands::run(&move_unit_dims::run(function), target);
            let mut tmem_mmas = BTreeSet::new();
            if target.has(Feature::TensorMemory) {
                let (chains, detached) = tmem_accumulator_chains::accumulator_chains(function);
                let mut detached: BTreeSet<Op> = detached.into_keys().collect();
                let (in_tensor_memory, reasons) = LoweringPlan::rehearse(
                    &split_accumulator_add::run(function, &detached),
                    target,
                    options,
                    &self.lowered.envelope,
                )?;
                tmem_mmas = in_tensor_memory;
                // Threads scale TMEM accumulators between the MMAs of a chain. If an MMA gets TMEM only without such scaling, each
                // MMA of the scaled chains starts with a zero accumulator of its own instead.
                let scaled_chains = chains.iter().filter(|chain| !chain.scales.is_empty());
                let scaled_mmas: Vec<Op> = scaled_chains.flat_map(|chain| &chain.mmas).copied().collect();
                if !scaled_mmas.is_empty() {
                    let all_detached: BTreeSet<Op> = detached.iter().copied().chain(scaled_mmas).collect();
                    let (tmem_mmas_if_all_detached, _) = LoweringPlan::rehearse(
                        &split_accumulator_add::run(function, &all_detached),
                        target,
                        options,
                        &self.lowered.envelope,
                    )?;
                    if !tmem_mmas_if_all_detached.is_subset(&tmem_mmas) {
                        (detached, tmem_mmas) = (all_detached, tmem_mmas_if_all_detached);
                    }
                }
                detached.retain(|op| tmem_mmas.contains(op));
                remarks::log_unscaled(
                    function,
                    reasons.iter().filter(|(op, _)| !tmem_mmas.contains(op)),
                    &mut self.lowered.envelope,
                );
                *function = epilogue_subtiling::run(split_accumulator_add::run(function, &detached), &tmem_mmas);
            }
            *function = legalize_mma::run(function, target, &tmem_mmas);
            function.attrs.facts.clear();
        }
        Ok(())
    }

    /// Replaces every function by the result of `pass`.
    fn rewrite_functions(&mut self, pass: fn(&Function, Target, PlanOptions) -> Function) -> Result<()> {
        let target = self.lowered.envelope.target()?;
        for function in &mut self.program.payload.functions {
            let options = PlanOptions::from_envelope(&self.lowered.envelope, function)?;
            *function = pass(function, target, options);
            // The fact table refers to values of the function before the pass. Later passes derive facts again.
            function.attrs.facts.clear();
        }
        Ok(())
    }

    /// Starts the plan of every function: decides the number of warps, and plans the memory accesses.
    fn plan_accesses(&mut self) -> Result<()> {
        let Lowering { program, plans, lowered, .. } = self;
        let target = lowered.envelope.target()?;
        let functions = program.payload.functions.iter();
        *plans = functions.map(|function| LoweringPlan::new(function, target, &mut lowered.envelope)).collect::<Result<_>>()?;
        Ok(())
    }

    /// Selects the MMA instructions of every function.
    fn select_mmas(&mut self) -> Result<()> {
        let Lowering { program, plans, lowered, .. } = self;
        let target = lowered.envelope.target()?;
        for (function, plan) in program.payload.functions.iter().zip(plans) {
            plan.select_mmas(function, target);
        }
        Ok(())
    }

    /// Chooses the asynchronous copies of every function.
    fn choose_copies(&mut self) -> Result<()> {
        let Lowering { program, plans, lowered, .. } = self;
        let target = lowered.envelope.target()?;
        for (function, plan) in program.payload.functions.iter().zip(plans) {
            let options = PlanOptions::from_envelope(&lowered.envelope, function)?;
            plan.choose_copies(function, target, options);
        }
        Ok(())
    }

    /// Assigns the layouts of all other tiles, and selects the TMA stores, of every function.
    fn assign_layouts(&mut self) -> Result<()> {
        let target = self.lowered.envelope.target()?;
        for (function, plan) in self.program.payload.functions.iter().zip(&mut self.plans) {
            let options = PlanOptions::from_envelope(&self.lowered.envelope, function)?;
            plan.assign_layouts(function, target, options);
        }
        Ok(())
    }

    /// Converts every function as planned. While a converted function exceeds shared memory, plans and converts it again.
    fn convert(&mut self) -> Result<()> {
        let Lowering { program, plans, lowered: File { envelope, payload }, is_done } = self;
        *is_done = true;
        let target = envelope.target()?;
        for (function, plan) in program.payload.functions.iter_mut().zip(plans) {
            let options = PlanOptions::from_envelope(envelope, function)?;
            let layouts = payload.layouts.clone();
            multiply_lost_scales(function, plan, target, options, envelope)?;
            let (mut new_function, mut buffer_origins) = convert::convert(function, plan, payload, envelope)?;
            loop {
                match smem_fit::smem_overflow(&new_function, &buffer_origins, target) {
                    Some(overflow) => plan.replan_without(function, overflow, target, options),
                    None if plan.components_exceed_smem(&new_function, target) => {
                        remarks::log_single_role(function, envelope);
                        plan.replan_with_one_role(function, target, options, envelope)?;
                    }
                    None => break,
                }
                multiply_lost_scales(function, plan, target, options, envelope)?;
                payload.layouts = layouts.clone();
                (new_function, buffer_origins) = convert::convert(function, plan, payload, envelope)?;
            }
            plan.check_requested_options(function, envelope)?;
            remarks::log_occupancy(function, plan.hinted_occupancy, plan.attrs.occupancy, envelope);
            remarks::log_accesses_and_mmas(function, &plan.accesses, &plan.mmas, envelope);
            remarks::log_copies(function, &plan.copies, &plan.stores, envelope);
            payload.functions.push(new_function);
        }
        Ok(())
    }
}

/// Ensures that the selected instruction of each scaled MMA takes scale operands. For each other scaled MMA, multiplies the scales
/// into the MMA's operands. Then plans the function again.
fn multiply_lost_scales(
    function: &mut Function,
    plan: &mut LoweringPlan,
    target: Target,
    options: PlanOptions,
    envelope: &mut Envelope,
) -> Result<()> {
    while plan.loses_scales(function) {
        let tmem_mmas: BTreeSet<Op> = plan.mmas.tmem_mmas().collect();
        let unscaled = operands::scaled_mmas(function).into_iter().filter(|op| !tmem_mmas.contains(op));
        let unscaled: Vec<(Op, &'static str)> = unscaled.map(|op| (op, "its operands do not fit shared memory")).collect();
        remarks::log_unscaled(function, unscaled.iter().map(|(op, reason)| (op, reason)), envelope);
        *function = split_k::run(&legalize_mma::run(function, target, &tmem_mmas), target, options.tma_copies);
        function.attrs.facts.clear();
        *plan = LoweringPlan::new(function, target, &mut envelope.clone())?;
        plan.select_mmas(function, target);
        plan.choose_copies(function, target, options);
        plan.assign_layouts(function, target, options);
    }
    Ok(())
}

/// Checks that the target supports the multimem pointers that a function uses, if any. The error message is that of NVIDIA's
/// compiler `tileiras`.
fn check_pointer_support(function: &Function, envelope: &Envelope) -> Result<()> {
    let target = envelope.target()?;
    let Some(sharing) = function.attrs.shares.first().filter(|_| !target.has(Feature::MultimemPointers)) else { return Ok(()) };
    let supporting_targets: Vec<&str> =
        Target::all().filter(|other| other.has(Feature::MultimemPointers)).map(|other| other.name).collect();
    let (kind, targets) = (sharing.name(), supporting_targets.join(" or "));
    let message = format!("Incompatibility with architecture '{target}': {kind} pointers require {targets}");
    Err(Diagnostic::unsupported("AS903", message).at_loc(&envelope.debug, function.loc))
}

/// Shows the result of `convert` or, before `convert`, the `.aa` program and the plans.
impl Show for Lowering {
    fn show(&self) -> String {
        if self.is_done {
            return self.lowered.show();
        }
        let plans = self.program.payload.functions.iter().zip(&self.plans).map(|(function, plan)| plan.print(function));
        self.program.show() + &plans.collect::<String>()
    }

    fn check(&self) -> Result<()> {
        if self.is_done {
            return self.lowered.check();
        }
        let mut planned = self.program.payload.functions.iter().zip(&self.plans);
        self.program.check().and_then(|()| planned.try_for_each(|(function, plan)| plan.check(function)))
    }
}
