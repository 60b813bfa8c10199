//! The lowering plan of a function: the decisions of the analysis passes, which `convert` applies. `--print-after` prints the plan
//! after the program.
//! Invariant *plan/program*: ops and values in the plan are those of the `.aa` function, which the analysis passes never change.

use crate::access_layouts::Accesses;
use crate::async_copies::Copies;
use crate::copy_planner::{CopyInputs, CopyMethod, Readers};
use crate::independent_subgraphs;
use crate::kernel_spec;
use crate::layout_assignment::AssignedLayouts;
use crate::mma_selection::{MmaConstraints, MmaFamily, MmaSelection, MmaSelections, OperandSource};
use crate::operands;
use crate::plan_options::PlanOptions;
use crate::smem_fit::SmemOverflow;
use crate::split_k::{self, SplitFunction};
use crate::tcgen05_selection;
use crate::tma_stores::TmaStores;
use base::diag::{Diagnostic, Result};
use base::ir::{Op, Operation};
use base::text::{TypeText, to_text};
use base::{Envelope, Target};
use core_dialect::tile::element_count;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tileaa::Function;
use tileas::{FunctionAttrs, Layout, budget};

/// The plan of a function.
pub(crate) struct LoweringPlan {
    /// The attributes of the `.as` function, for example the number of warps and the occupancy.
    pub(crate) attrs: FunctionAttrs,
    /// Log2 of the number of warps.
    pub(crate) warp_bits: usize,
    /// Whether two compute roles may divide the MMAs, if the MMAs form two independent components.
    allows_two_components: bool,
    /// The MMA family that `--mma` requests.
    requested: Option<MmaFamily>,
    /// The author's occupancy hint, in CTAs per SM. `None` without a hint, or if the option `occupancy` overrides it.
    pub(crate) hinted_occupancy: Option<u32>,
    pub(crate) accesses: Accesses,
    pub(crate) mmas: MmaSelections,
    /// MMAs that must use neither `tcgen05` nor `wgmma`, with the reason.
    refused: BTreeMap<Op, &'static str>,
    /// Loads of `tcgen05` operands that threads execute, because TMA does not copy these operands. Threads then store left operands
    /// to tensor memory and right operands to shared memory.
    loads_by_threads: BTreeSet<Op>,
    pub(crate) copies: Copies,
    /// Loads whose copies exceeded shared memory in an earlier run of `convert`. Only `convert` knows all buffers of the function.
    /// These loads are not copied.
    pub(crate) exceeding_capacity: BTreeSet<Op>,
    /// Loads whose TMA copies exceeded shared memory. `cp.async` copies of these loads may still fit. Reason: the stages of a TMA
    /// copy are live throughout the loop, and those of a `cp.async` copy are not.
    pub(crate) tma_loads_exceeding_smem: BTreeSet<Op>,
    pub(crate) assigned_layouts: AssignedLayouts,
    pub(crate) stores: TmaStores,
}

/// The MMAs that use tensor memory, and for each other scaled MMA the reason why no `tcgen05` instruction applies its scales.
pub(crate) type Rehearsal = (BTreeSet<Op>, BTreeMap<Op, &'static str>);

impl LoweringPlan {
    /// Plans a copy of the function whose MMAs are split along K. Returns the MMAs whose K parts would all use tensor memory. For
    /// every other scaled MMA, returns the reason why it would not use tensor memory.
    pub(crate) fn rehearse(function: &Function, target: Target, options: PlanOptions, envelope: &Envelope) -> Result<Rehearsal> {
        let SplitFunction { function: split, parts_per_mma } = split_k::split_mmas_along_k(function, target, options.tma_copies);
        let mut plan = LoweringPlan::new(&split, target, &mut envelope.clone())?;
        plan.select_mmas(&split, target);
        plan.choose_copies(&split, target, options);
        let in_tensor_memory: BTreeSet<Op> = plan.mmas.tmem_mmas().collect();
        let mut parts = operands::unscaled_mmas(&split).into_iter();
        let unsplit = operands::unscaled_mmas(function).into_iter().zip(parts_per_mma);
        let uses_tmem_in_all_parts = |(op, count): (Op, u32)| {
            let all_in_tmem =
                parts.by_ref().take(count as usize).fold(true, |all_in_tmem, part| all_in_tmem & in_tensor_memory.contains(&part));
            all_in_tmem.then_some(op)
        };
        // Scaled MMAs are never split.
        let [scaled, copies] = [function, &split].map(operands::scaled_mmas);
        let scaled: Vec<(Op, Op)> = scaled.into_iter().zip(copies).collect();
        let unscaled = scaled.iter().filter_map(|(op, copy)| Some((*op, *plan.mmas.unscaled.get(copy)?))).collect();
        let scaled = scaled.into_iter().filter(|(_, copy)| in_tensor_memory.contains(copy)).map(|(op, _)| op);
        Ok((unsplit.filter_map(uses_tmem_in_all_parts).chain(scaled).collect(), unscaled))
    }

    /// Starts a plan: decides the number of warps, and the vector width and layout of each memory access. Later passes fill the
    /// other fields.
    pub(crate) fn new(function: &Function, target: Target, envelope: &mut Envelope) -> Result<LoweringPlan> {
        LoweringPlan::with_component_choice(function, true, target, envelope)
    }

    /// [`LoweringPlan::new`] with an additional parameter. `allows_two_components` tells whether two compute roles may divide the
    /// MMAs, if the MMAs form two independent components.
    fn with_component_choice(
        function: &Function,
        allows_two_components: bool,
        target: Target,
        envelope: &mut Envelope,
    ) -> Result<LoweringPlan> {
        let attrs = kernel_spec::resolve(function, allows_two_components, target, envelope)?;
        let hinted_occupancy = attrs.occupancy.filter(|_| envelope.options.get("occupancy").is_none());
        let warp_bits = attrs.warps.trailing_zeros() as usize;
        let accesses = Accesses::plan(function, warp_bits);
        let assigned_layouts = AssignedLayouts::unassigned(function, warp_bits);
        Ok(LoweringPlan {
            attrs,
            warp_bits,
            allows_two_components,
            requested: envelope.options.get("mma").and_then(MmaFamily::from_name),
            hinted_occupancy,
            accesses,
            mmas: MmaSelections::default(),
            refused: BTreeMap::new(),
            loads_by_threads: BTreeSet::new(),
            copies: Copies::default(),
            exceeding_capacity: BTreeSet::new(),
            tma_loads_exceeding_smem: BTreeSet::new(),
            assigned_layouts,
            stores: TmaStores::default(),
        })
    }

    /// Selects the MMA instructions. Chooses a lower occupancy than the author's hint if more accumulators then fit tensor memory.
    /// Reason: the slower `mma.sync` costs more time than co-resident CTAs could hide.
    pub(crate) fn select_mmas(&mut self, function: &Function, target: Target) {
        let Some(hinted_occupancy) = self.hinted_occupancy else {
            self.mmas = self.mmas_with_occupancy(function, target, self.attrs.occupancy.unwrap_or(1));
            return;
        };
        let occupancies = std::iter::successors(Some(hinted_occupancy), |occupancy| (*occupancy > 1).then_some(occupancy / 2));
        let (mut highest_tmem_mma_count, mut best) = (0, None);
        for occupancy in occupancies {
            let mmas = self.mmas_with_occupancy(function, target, occupancy);
            let (count, lacks_columns) = (mmas.tmem_mmas().count(), mmas.exhausts_tensor_memory());
            if best.is_none() || count > highest_tmem_mma_count {
                (highest_tmem_mma_count, best) = (count, Some((occupancy, mmas)));
            }
            if !lacks_columns {
                break;
            }
        }
        let (occupancy, mmas) = best.expect("the loop tries the hint first");
        self.attrs.occupancy = Some(occupancy);
        self.mmas = mmas;
    }

    /// Selects the MMA instructions at a given number of CTAs per SM.
    fn mmas_with_occupancy(&self, function: &Function, target: Target, ctas_per_sm: u32) -> MmaSelections {
        let constraints = MmaConstraints {
            warp_bits: self.warp_bits as u32,
            registers: budget::registers(target, self.attrs.warps, ctas_per_sm),
            columns: budget::tmem_columns(target, ctas_per_sm),
            requested: self.requested,
            allows_two_components: self.allows_two_components,
        };
        MmaSelections::select(function, &self.accesses, target, constraints, &self.refused, &self.loads_by_threads)
    }

    /// Selects the loads that become asynchronous copies. If TMA cannot copy an operand of a `tcgen05` MMA, for example gathered
    /// rows, threads store the operand to the memory that the MMA reads. If threads cannot store the operand either, the MMA uses
    /// another instruction family. Declining `tcgen05` for an MMA changes the selection, so the function repeats until no MMA
    /// fails.
    pub(crate) fn choose_copies(&mut self, function: &Function, target: Target, options: PlanOptions) {
        loop {
            if options.level >= 2 {
                self.copies = Copies::select(function, &self.copy_inputs(), target, options);
            }
            let failing =
                tcgen05_selection::mmas_without_operands_in_place(function, &self.mmas, &self.copies, &self.loads_by_threads);
            if failing.is_empty() {
                return;
            }
            let mut loads_by_threads = Vec::new();
            for (op, why) in failing {
                let loads = self.operand_loads_without_tma(function, op);
                let untried = loads.iter().copied().filter(|load| !self.loads_by_threads.contains(load)).collect::<Vec<_>>();
                match why == tcgen05_selection::NO_TMA && !untried.is_empty() {
                    true => loads_by_threads.extend(untried),
                    false => {
                        self.refused.insert(op, why);
                        loads.iter().for_each(|load| _ = self.loads_by_threads.remove(load));
                    }
                }
            }
            self.loads_by_threads.extend(loads_by_threads);
            self.select_mmas(function, target);
        }
    }

    /// The loads of an MMA's left and right operand that TMA does not copy.
    fn operand_loads_without_tma(&self, function: &Function, mma: Op) -> Vec<Op> {
        let [lhs, rhs, _] = operands::mma_operands(function, mma);
        let by_tma = |load: &Op| self.copies.get(*load).is_some_and(|copy| matches!(copy.method, CopyMethod::Tma(_)));
        let loads = [lhs, rhs].into_iter().filter_map(|operand| operands::defining_load(function, operand));
        loads.filter(|load| !by_tma(load)).collect()
    }

    /// The inputs of the selection of asynchronous copies and TMA stores.
    fn copy_inputs(&self) -> CopyInputs<'_> {
        CopyInputs {
            accesses: &self.accesses,
            mmas: &self.mmas,
            warp_bits: self.warp_bits,
            occupancy: self.attrs.occupancy,
            loads_by_threads: &self.loads_by_threads,
            exceeding_capacity: &self.exceeding_capacity,
            tma_loads_exceeding_smem: &self.tma_loads_exceeding_smem,
        }
    }

    /// Assigns the layouts of tiles that accesses and MMAs do not determine, and selects the stores that TMA executes.
    pub(crate) fn assign_layouts(&mut self, function: &Function, target: Target, options: PlanOptions) {
        self.assigned_layouts = AssignedLayouts::assign(function, &self.accesses, &self.mmas, &self.copies, self.warp_bits);
        if options.level >= 2 {
            self.stores = TmaStores::select(function, &self.copy_inputs(), &self.assigned_layouts, target, options);
        }
    }

    /// Whether the converted function `new` has two compute roles whose buffers exceed shared memory.
    pub(crate) fn components_exceed_smem(&self, new: &tileas::Function, target: Target) -> bool {
        self.mmas.has_components() && !independent_subgraphs::fits_two_roles(new, target)
    }

    /// Plans again with one compute role.
    pub(crate) fn replan_with_one_role(
        &mut self,
        function: &Function,
        target: Target,
        options: PlanOptions,
        envelope: &Envelope,
    ) -> Result<()> {
        *self = LoweringPlan::with_component_choice(function, false, target, &mut envelope.clone())?;
        self.select_mmas(function, target);
        self.choose_copies(function, target, options);
        self.assign_layouts(function, target, options);
        Ok(())
    }

    /// Plans again without the copy that exceeds shared memory, or without `wgmma` and `tcgen05` for the MMA whose operands exceed
    /// it.
    pub(crate) fn replan_without(&mut self, function: &Function, overflow: SmemOverflow, target: Target, options: PlanOptions) {
        match overflow {
            SmemOverflow::Copy(load) => {
                let by_tma = self.copies.get(load).is_some_and(|copy| matches!(copy.method, CopyMethod::Tma(_)));
                let exceeding_loads = if by_tma { &mut self.tma_loads_exceeding_smem } else { &mut self.exceeding_capacity };
                exceeding_loads.insert(load);
            }
            SmemOverflow::Mma(op) => {
                self.refused.insert(op, "shared memory does not fit the operands that the instruction reads there");
                self.select_mmas(function, target);
                // Operands that moved to registers free shared memory for the copies that did not fit before.
                self.exceeding_capacity.clear();
                self.tma_loads_exceeding_smem.clear();
            }
        }
        self.choose_copies(function, target, options);
        self.assign_layouts(function, target, options);
    }

    /// Whether the function has a scaled MMA whose selected instruction takes no scale operands.
    pub(crate) fn loses_scales(&self, function: &Function) -> bool {
        let applies_scales = |op: &Op| {
            let selection = self.mmas.get(*op);
            matches!(selection, Some(MmaSelection::Sync { scales: Some(_), .. } | MmaSelection::Tensor { scales: Some(_), .. }))
        };
        !operands::scaled_mmas(function).iter().all(applies_scales)
    }

    /// Prints a line for each planned op and each assigned layout.
    pub(crate) fn print(&self, function: &Function) -> String {
        let mut out = format!("plan of {}: {} warps\n", to_text(&function.name), self.attrs.warps);
        for op in function.body.walk(function.region) {
            let node = &function.body.ops[op];
            let results: Vec<String> = node.results.iter().map(|value| value.to_string()).collect();
            let descriptions = self.describe_op(op);
            if !descriptions.is_empty() {
                let _ = writeln!(out, "  {} {}: {}", node.kind.mnemonic(), results.join(", "), descriptions.join("; "));
            }
            for result in &node.results {
                if let Some(assigned_layout) = self.assigned_layouts.get(*result) {
                    let _ = writeln!(out, "  assigned layout of {result}: {}", to_text(assigned_layout));
                }
            }
        }
        out
    }

    /// Describes the plan of an op for [`Self::print`], with one string for each decision.
    fn describe_op(&self, op: Op) -> Vec<String> {
        let mut descriptions = Vec::new();
        if let Some(access) = self.accesses.get(op) {
            descriptions.push(format!("{} elements at a time in {}", 1u64 << access.vector_bits, to_text(&access.layout)));
        }
        descriptions.extend(self.mmas.get(op).map(|mma| match mma {
            MmaSelection::Sync { atom, a, b, c, why, .. } => {
                let why = why.map_or(String::new(), |reason| format!("; {reason}"));
                format!("{}, a {}, b {}, accumulators {}{why}", atom.name, to_text(a), to_text(b), to_text(c))
            }
            MmaSelection::Group { atom, c, lhs, rhs } => describe_operands(atom.name, c, lhs, rhs),
            MmaSelection::Tensor { atom, c, lhs, rhs, scales } => {
                let scales = scales.iter().flat_map(|scales| scales.iter()).map(|layout| format!(", scales {}", to_text(layout)));
                describe_operands(atom.name, c, lhs, rhs) + &scales.collect::<String>()
            }
            MmaSelection::Fma { c } => format!("FMA from buffers, accumulators {}", to_text(c)),
        }));
        descriptions.extend(self.copies.get(op).map(|copy| {
            let readers = match copy.readers {
                Readers::Mmas if self.loads_by_threads.contains(&op) => "loaded into registers, then stored for the MMA",
                Readers::Mmas => "MMAs read it there",
                Readers::Registers => "loaded into registers",
            };
            format!("copied to shared memory {}, {readers}", copy.method)
        }));
        descriptions.extend(self.stores.get(op).map(|store| format!("stored by TMA tiles of {} bytes", store.map.tile_bytes())));
        descriptions
            .extend(self.stores.declined.iter().filter(|(store, _)| *store == op).map(|(_, why)| format!("not by TMA: {why}")));
        descriptions.extend(self.copies.no_tma.iter().filter(|(load, _)| *load == op).map(|(_, why)| format!("not by TMA: {why}")));
        descriptions
            .extend(self.copies.declined.iter().filter(|(load, _)| *load == op).map(|(_, why)| format!("not copied: {why}")));
        descriptions
    }

    /// Checks that every MMA uses the instruction family that `--mma` requests, if the option is given.
    pub(crate) fn check_requested_options(&self, function: &Function, envelope: &Envelope) -> Result<()> {
        let Some(requested) = self.requested else { return Ok(()) };
        let uses_other_family = |(_, mma): &(Op, &MmaSelection)| mma.family() != Some(requested);
        let Some((op, mma)) = self.mmas.iter().find(uses_other_family) else { return Ok(()) };
        let node = &function.body.ops[op];
        let operand = node.kind.operands().first().and_then(|value| function.body.ty(*value).tile());
        let type_suffix = operand.map_or(String::new(), |(elem, _)| format!(" of {}", elem.print()));
        let why = match mma {
            MmaSelection::Sync { why: Some(why), .. } if requested.exists_on(envelope.target()?) => (*why).to_string(),
            _ => format!("{} does not have {}", envelope.target()?, requested.name()),
        };
        let message = format!("--mma={}: {}{type_suffix} cannot use it: {why}", requested.name(), node.kind.mnemonic());
        Err(Diagnostic::unsupported("AS905", message).at_loc(&envelope.debug, node.loc))
    }

    /// Checks that every assigned layout covers its tile.
    pub(crate) fn check(&self, function: &Function) -> Result<()> {
        for (value, node) in function.body.values.iter() {
            let tile = node.ty.tile().map(|(_, shape)| element_count(shape).trailing_zeros());
            if let (Some(assigned_layout), Some(bits)) = (self.assigned_layouts.get(value), tile) {
                let layout_error =
                    |why| Diagnostic::invalid("AS902", format!("the assigned layout of {value} does not cover its tile: {why}"));
                assigned_layout.covers(bits).map_err(layout_error)?;
            }
        }
        Ok(())
    }
}

/// Describes the atom, the operands and the accumulator of a `wgmma` or `tcgen05` MMA for [`LoweringPlan::print`].
fn describe_operands(name: &str, c: &Layout, lhs: &OperandSource, rhs: &OperandSource) -> String {
    let describe_source = |source: &OperandSource| match source {
        OperandSource::Memory => "in a buffer".into(),
        OperandSource::Transposed(layout) => format!("transposed by {}", to_text(layout)),
        OperandSource::Registers(layout) => to_text(layout),
        OperandSource::Tensor(layout) => format!("to tensor memory from {}", to_text(layout)),
    };
    let right = if matches!(rhs, OperandSource::Memory) { String::new() } else { format!(", b {}", describe_source(rhs)) };
    format!("{name}, a {}{right}, accumulators {}", describe_source(lhs), to_text(c))
}
