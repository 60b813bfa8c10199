//! Emits warp roles as warp-uniform branches, and pipeline operations as operations on `mbarrier` objects.
//! See also: CUTLASS `PipelineAsync` and warp-specialised kernels.

use super::Emitter;
use crate::ir::Val;
use base::diag::Result;
use base::ir::{OpNode, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Effect;
use core_dialect::tile::element_count;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::{Drain, Fill, Op, Pipeline, PipelineInfo, WarpRole, clc_responses};
use target_info::Feature;
use tileas::{Buffer, MmaAtom, Route, Type};

/// The two mbarriers of a pipeline stage: full (the data is ready) and empty (the stage is free).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Full,
    Empty,
}

impl<'c> Emitter<'c, '_> {
    /// Emits the body of a warp role, which the other warps branch around. The body ends the threads of the role.
    pub(super) fn emit_warp_role(&mut self, warp_role: WarpRole, body: Region) -> Result<()> {
        let ir = self.ir;
        if warp_role == WarpRole(0) {
            self.initialise_barriers_and_tmem();
            self.warp_index = Some(self.uniform_warp_index());
        }
        let info = &self.function.attrs.warp_roles[warp_role];
        let outside_role = (self.thread_index, self.warp_count, self.warp_role);
        let warp_index = self.warp_index.expect("the first warp role computes the warp index");
        let is_in_role = ir.icmp(IntPredicate::ULT, ir.sub(warp_index, ir.const32(info.first_warp)), ir.const32(info.warps));
        let (role_block, next_block) = (ir.append_block(self.kernel, &info.name), ir.append_block(self.kernel, "others"));
        ir.conditional_branch(is_in_role, role_block, next_block);
        ir.builder.position_at_end(role_block);
        if let Some(registers) = info.registers {
            let launch_registers = self.function.attrs.launch_registers(self.target);
            let direction = if registers > launch_registers { "inc" } else { "dec" };
            self.emit_instruction(&format!("setmaxnreg.{direction}.sync.aligned.u32 {registers};"));
        }
        // From here on, thread indices are relative to the first thread of the role.
        self.thread_index = ir.sub(self.thread_index, ir.const32(info.first_warp * 32));
        (self.warp_count, self.warp_role) = (info.warps, Some(warp_role));
        self.role_accesses_tmem = self.accesses_tmem(body);
        self.allocate_tmem_for_roles(warp_role);
        if self.is_of_first_thread(body) {
            // The loops of the role would have no effect in the other threads, so these threads end here.
            let (first_thread_block, other_threads_block) =
                (ir.append_block(self.kernel, "alone"), ir.append_block(self.kernel, "others"));
            let only_in_leading_cta = self.runs_in_leading_cta(body);
            ir.conditional_branch(
                if only_in_leading_cta { self.is_mma_thread() } else { self.is_first_thread() },
                first_thread_block,
                other_threads_block,
            );
            self.in_leading_cta = only_in_leading_cta;
            ir.builder.position_at_end(other_threads_block);
            self.end_thread();
            ir.builder.position_at_end(first_thread_block);
            self.thread_index = ir.const32(0);
        }
        self.emit_block(self.function.body.block_of(body))?;
        (self.thread_index, self.warp_count, self.warp_role) = outside_role;
        (self.role_accesses_tmem, self.in_leading_cta) = (true, false);
        ir.builder.position_at_end(next_block);
        Ok(())
    }

    /// The index of the warp. A shuffle makes it provably uniform over the lanes, as the branches to warp roles require.
    fn uniform_warp_index(&self) -> IntValue<'c> {
        let ir = self.ir;
        let shuffle_operands = [u32::MAX, 0, 31].map(|bits| ir.const32(bits));
        let warp = ir.shr(self.thread_index, ir.const32(5), false);
        let args = [shuffle_operands[0].into(), warp.into(), shuffle_operands[1].into(), shuffle_operands[2].into()];
        ir.intrinsic_value("llvm.nvvm.shfl.sync.idx.i32", &[], &args).into_int_value()
    }

    /// Whether only the first thread of a warp role needs to execute the role's body. The body then has only TMA copies or
    /// `tcgen05` MMAs, with their pipeline operations and uniform values.
    pub(super) fn is_of_first_thread(&self, body: Region) -> bool {
        let pipelines = &self.function.attrs.pipelines;
        let is_uniform = |ty: &Type| !matches!(ty, Type::Tile { .. }) || element_count(ty.shape()) == 1;
        let needs_one_thread = |kind: &Op| {
            if let Some(step) = kind.pipeline_step() {
                let info = &pipelines[step.pipeline];
                return if step.is_of_producer() { info.fills_alone() } else { info.drains_alone() };
            }
            // A shuffle needs all lanes.
            let is_shuffle = matches!(kind, Op::Core(tileas::Op::ConvertLayout { route: Route::Shuffle, .. }));
            let has_uniform_operands = || kind.operands().into_iter().all(|value| is_uniform(self.ty(value)));
            matches!(kind, Op::Core(tileas::Op::TmaLoad { .. } | tileas::Op::Mma { atom: MmaAtom::Tensor(_), .. }))
                || kind.is_pure() && !is_shuffle && has_uniform_operands()
                || matches!(kind.effects().core_effect, Effect::Branches | Effect::Leaves)
        };
        // A load of one element gives the same value in every thread.
        let loads_uniform_value = |node: &OpNode<Op>| {
            let is_ordinary_load =
                node.kind.effects().global.is_some_and(|access| !access.access_kind.writes() && access.order.scope.is_none());
            is_ordinary_load && node.results.iter().all(|value| is_uniform(self.ty(*value)))
        };
        let all = self.function.body.walk(body);
        all.into_iter().map(|op| &self.function.body.ops[op]).all(|node| needs_one_thread(&node.kind) || loads_uniform_value(node))
    }

    /// Emits the initialisation of all mbarriers and, unless the warp roles do it, the allocation of TMEM. Then emits a barrier,
    /// after which any thread may use them.
    pub(super) fn initialise_barriers_and_tmem(&mut self) {
        let function = self.function;
        let has_no_pipelines_or_tmem = function.attrs.pipelines.is_empty() && function.attrs.tensor.is_none();
        if has_no_pipelines_or_tmem && clc_responses::responses_address(function).is_none() {
            return;
        }
        let ir = self.ir;
        let allocates_tmem = self.allocates_tmem_before_roles();
        if allocates_tmem {
            self.allocate_tmem();
        }
        for info in function.attrs.pipelines.values() {
            // Each thread initialises one barrier, or several barriers if there are more barriers than threads. The full barriers
            // precede the empty barriers.
            let (barrier_count, thread_count) = (2 * info.depth, self.warp_count * 32);
            for first_barrier in (0..barrier_count).step_by(thread_count as usize) {
                let barrier = ir.add(self.thread_index, ir.const32(first_barrier));
                let is_needed = ir.icmp(IntPredicate::ULT, barrier, ir.const32(barrier_count));
                self.emit_guarded(Some(is_needed), &[], |e| {
                    let is_full_barrier = ir.icmp(IntPredicate::ULT, barrier, ir.const32(info.depth));
                    let arrivals = ir.select(is_full_barrier, ir.const32(info.full).into(), ir.const32(info.empty).into());
                    let address = ir.add(e.shared_address(), ir.mul(barrier, ir.const32(PipelineInfo::BARRIER_BYTES)));
                    let text = format!("mbarrier.init.shared.b64 [$0+{}], $1;", info.full_barrier(0));
                    ir.asm(None, &text, "r,r", &[address.into(), arrivals], true);
                    Vec::new()
                });
            }
        }
        self.initialise_clc_barriers();
        if self.target.has(Feature::Clusters) {
            self.emit_instruction("fence.mbarrier_init.release.cluster;");
        }
        match self.cooperating_ctas() {
            1 => self.barrier_of_current_threads(),
            // Another CTA may arrive at this CTA's mbarriers as soon as that CTA has passed this barrier. The barrier therefore
            // covers all CTAs of the cluster.
            _ => self.cluster_barrier(".aligned"),
        }
        if allocates_tmem {
            self.load_tmem_base();
        }
        if self.function.attrs.tensor.is_some() || self.cooperating_ctas() > 1 {
            self.end = Some(ir.append_block(self.kernel, "end"));
        }
    }

    /// Emits the final block of the kernel, if it needs one: the CTA frees TMEM, or other CTAs of the cluster may still access this
    /// CTA's shared memory.
    pub(super) fn emit_final_block(&self) {
        let Some(end) = self.end else { return };
        let ir = self.ir;
        ir.builder.position_at_end(end);
        self.tmem_fence(true);
        // The threads of a warp may arrive from different places, so the barrier is not `.aligned`.
        match self.cooperating_ctas() > 1 {
            true => self.cluster_barrier(""),
            false => _ = ir.call_intrinsic("llvm.nvvm.barrier.cta.sync.all", &[], &[ir.const32(0).into()]),
        }
        self.tmem_fence(false);
        self.free_tmem();
        ir.builder.build_return(None).expect("the builder is in a block");
    }

    /// Emits the end of a thread: a return, or a branch to the final block.
    pub(super) fn end_thread(&self) {
        match self.end {
            Some(end) => self.ir.jump(end),
            None => _ = self.ir.builder.build_return(None).expect("the builder is in a block"),
        }
    }

    /// The number of CTAs whose mbarriers this CTA may access, including this CTA.
    fn cooperating_ctas(&self) -> u32 {
        let by_pipelines = self.function.attrs.cooperating_ctas();
        clc_responses::responses_address(self.function).map_or(by_pipelines, |_| by_pipelines.max(self.clc_ctas()))
    }

    /// Emits a barrier for all threads of a cluster, which orders their memory accesses too.
    fn cluster_barrier(&self, suffix: &str) {
        for step in ["arrive", "wait"] {
            self.ir.call_intrinsic(&format!("llvm.nvvm.barrier.cluster.{step}{suffix}"), &[], &[]);
        }
    }

    /// Returns the 32-bit address at which the kernel's shared memory starts.
    pub(super) fn shared_address(&self) -> IntValue<'c> {
        self.shared_base.expect("a function with pipelines has shared memory")
    }

    /// The address of a stage's mbarrier, as a base address and a constant offset to add to it, in bytes.
    fn pipeline_barrier(&self, info: &PipelineInfo, stage: Option<Value>, side: Side) -> (IntValue<'c>, u32) {
        let ir = self.ir;
        let offset = if side == Side::Full { info.full_barrier(0) } else { info.empty_barrier(0) };
        let base = self.shared_address();
        let base = stage.map_or(base, |stage| {
            let stage = self.scalar_value(stage).into_int_value();
            ir.add(base, ir.mul(stage, ir.const32(PipelineInfo::BARRIER_BYTES)))
        });
        (base, offset)
    }

    /// Emits the wait for a full or an empty stage. A stage that was never filled counts as empty.
    pub(super) fn pipeline_wait(&self, pipeline: Pipeline, stage: Option<Value>, phase: Value, side: Side) {
        let info = &self.function.attrs.pipelines[pipeline];
        // Only the warp that issues TMA copies waits for their empty stage. Only the thread that issues `tcgen05` MMAs waits for
        // the stages that the MMAs fill or drain.
        let waiting_threads = match side {
            Side::Empty if info.fill == Fill::Tma => {
                self.is_filling_warp(stage.map(|stage| self.scalar_value(stage).into_int_value()))
            }
            Side::Empty => info.fills_alone().then(|| self.is_mma_thread()),
            Side::Full => info.drains_alone().then(|| self.is_mma_thread()),
        };
        self.emit_guarded(waiting_threads, &[], |e| {
            e.wait_for_phase(info, stage, phase, side);
            e.tmem_fence(false);
            Vec::new()
        });
    }

    /// Emits the wait for a phase of the full or the empty mbarrier of a pipeline stage.
    fn wait_for_phase(&self, info: &PipelineInfo, stage: Option<Value>, phase: Value, side: Side) {
        let ir = self.ir;
        let (address, offset) = self.pipeline_barrier(info, stage, side);
        let phase = self.scalar_value(phase).into_int_value();
        let parity = if side == Side::Empty { ir.xor(phase, ir.const32(1)) } else { phase };
        let instruction = if self.target.has(Feature::Tma) { "try_wait" } else { "test_wait" };
        // A constant parity becomes an immediate operand. For a register, ptxas would set the constant again in every iteration.
        let (parity_operand, args, constraints) = match parity.get_zero_extended_constant() {
            Some(parity) => (parity.to_string(), vec![address.into()], "=b,r"),
            None => ("$2".into(), vec![address.into(), parity.into()], "=b,r,r"),
        };
        // The wait needs cluster scope if other CTAs arrive at the barrier: at the empty barriers of a multicast pipeline, and at
        // all barriers of a pipeline of a CTA pair.
        let has_remote_arrivals = side == Side::Empty && info.multicast.is_some() || self.function.attrs.is_of_cta_pair(info);
        let scope = if has_remote_arrivals { ".acquire.cluster" } else { "" };
        let text = format!("mbarrier.{instruction}.parity{scope}.shared.b64 $0, [$1+{offset}], {parity_operand};");
        self.repeat_until_true(&text, constraints, &args);
    }

    /// Emits a wait until the phase with this parity of the mbarrier at `address + offset` is complete. `scope` is empty (CTA
    /// scope) or `.acquire.cluster`.
    pub(super) fn wait_for_mbarrier_parity(&self, address: IntValue<'c>, offset: u32, parity: IntValue<'c>, scope: &str) {
        let text = format!("mbarrier.try_wait.parity{scope}.shared.b64 $0, [$1+{offset}], $2;");
        self.repeat_until_true(&text, "=b,r,r", &[address.into(), parity.into()]);
    }

    /// Emits a loop that repeats a test until it succeeds. The test is inline assembly that returns a predicate.
    fn repeat_until_true(&self, text: &str, constraints: &str, args: &[Val<'c>]) {
        let ir = self.ir;
        let (loop_block, block_after) = (ir.append_block(self.kernel, "wait"), ir.append_block(self.kernel, "waited"));
        ir.jump(loop_block);
        ir.builder.position_at_end(loop_block);
        let is_complete = ir.asm(Some(ir.context.bool_type().into()), text, constraints, args, true);
        ir.conditional_branch(is_complete.expect("the assembly returns a value").into_int_value(), block_after, loop_block);
        ir.builder.position_at_end(block_after);
    }

    /// Emits the arrival of every thread of the role at a stage's mbarrier. After `cp.async`, the arrival takes effect when the
    /// thread's own copies are complete. For TMA, only the issuing thread arrives, with the number of bytes to expect.
    pub(super) fn pipeline_arrive(&mut self, pipeline: Pipeline, stage: Option<Value>, side: Side) {
        let info = &self.function.attrs.pipelines[pipeline];
        let (address, offset) = self.pipeline_barrier(info, stage, side);
        // For `tcgen05` MMAs, the issuing thread commits its MMAs. The arrival takes effect when the MMAs are complete.
        if side == Side::Full && info.fill == Fill::Mma || side == Side::Empty && info.drains_alone() {
            return self.emit_tcgen05_commit(info, address, offset);
        }
        let of_cta_pair = self.function.attrs.is_of_cta_pair(info);
        if side == Side::Empty && (info.multicast.is_some() || of_cta_pair) {
            return self.release_in_remote_ctas(info, address, offset);
        }
        let text = match (side, info.fill) {
            (Side::Full, Fill::Tma) => {
                let bytes: u32 = info.buffers.iter().map(|buffer| self.function.attrs.program.buffers[*buffer].bytes()).sum();
                let bytes = if of_cta_pair { bytes * self.cta_group() } else { bytes };
                let text = |first: usize| format!("mbarrier.arrive.expect_tx.shared.b64 _, [${first}+{offset}], {bytes};");
                let stage = stage.map(|stage| self.scalar_value(stage).into_int_value());
                let is_leading_cta = if of_cta_pair { self.is_leading_cta() } else { None };
                self.emit_guarded(self.conjunction(self.is_filling_warp(stage), is_leading_cta), &[], |e| {
                    e.emit_by_elected_lane(e.elect_lane(), text, "r", &[address.into()]);
                    Vec::new()
                });
                return;
            }
            (Side::Full, Fill::Copies) => format!("cp.async.mbarrier.arrive.noinc.shared.b64 [$0+{offset}];"),
            (Side::Empty, _) if info.drain == Drain::Warps => {
                self.tmem_fence(true);
                return self.emit_by_first_lane(
                    ".reg .b64 state;",
                    &format!("mbarrier.arrive.shared.b64 state, [$0+{offset}];"),
                    address,
                );
            }
            (Side::Full, _) | (Side::Empty, _) => {
                format!("{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [$0+{offset}]; }}")
            }
        };
        self.tmem_fence(true);
        self.ir.asm(None, &text, "r", &[address.into()], true);
    }

    /// Emits `text_of_all_lanes` for all lanes, a barrier of the warp, and `text_of_first_lane` for the first lane of each warp.
    /// Both texts may use the address as `$0`.
    pub(super) fn emit_by_first_lane(&self, text_of_all_lanes: &str, text_of_first_lane: &str, address: IntValue<'c>) {
        let lane = self.ir.and(self.thread_index, self.ir.const32(31));
        let text = format!(
            "{{ .reg .pred first; {text_of_all_lanes} setp.eq.b32 first, $1, 0; bar.warp.sync -1; @first {text_of_first_lane} }}"
        );
        self.ir.asm(None, &text, "r,r", &[address.into(), lane.into()], true);
    }

    /// Emits the arrivals that release a stage which other CTAs fill too. With multicast, the empty barrier of each of these CTAs
    /// receives an arrival. In a CTA pair, only the empty barrier of the leading CTA receives an arrival.
    fn release_in_remote_ctas(&self, info: &PipelineInfo, address: IntValue<'c>, offset: u32) {
        let (ir, of_cta_pair) = (self.ir, self.function.attrs.is_of_cta_pair(info));
        let ctas = if of_cta_pair { 1 } else { self.function.attrs.releasing_ctas(info) };
        self.tmem_fence(true);
        let arrive_text = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];";
        let address_text = format!("{{ .reg .b32 there; .reg .pred signals; add.u32 there, $0, {offset};");
        if info.drain == Drain::Warps {
            // Lane `i` arrives in CTA `i`.
            let lane = ir.and(self.thread_index, ir.const32(31));
            let text = format!(
                "{address_text} setp.lt.u32 signals, $1, {ctas}; bar.warp.sync -1; @signals mapa.shared::cluster.u32 there, there, $1; @signals {arrive_text} }}"
            );
            ir.asm(None, &text, "r,r", &[address.into(), lane.into()], true);
            return;
        }
        for cta in 0..ctas {
            let text = format!("{address_text} mapa.shared::cluster.u32 there, there, {cta}; {arrive_text} }}");
            ir.asm(None, &text, "r", &[address.into()], true);
        }
    }

    /// The 16-bit mask with one bit per CTA of the cluster, which multicast instructions expect.
    pub(super) fn all_ctas(&self) -> Val<'c> {
        let bits = (1u64 << self.function.attrs.cooperating_ctas()) - 1;
        self.ir.context.i16_type().const_int(bits, false).into()
    }

    /// The address of the pipeline's full barrier for the current stage of a buffer. In a CTA pair, this is the barrier of the
    /// leading CTA.
    pub(super) fn full_barrier(&self, pipeline: Pipeline, buffer: Buffer) -> IntValue<'c> {
        let (ir, info) = (self.ir, &self.function.attrs.pipelines[pipeline]);
        let base = self.shared_address();
        let base = if self.function.attrs.is_of_cta_pair(info) { self.address_in_leading_cta(base) } else { base };
        let first = ir.add(base, ir.const32(info.full_barrier(0)));
        let stage_offset = self.current_stages.get(&buffer).map(|stage| ir.mul(*stage, ir.const32(PipelineInfo::BARRIER_BYTES)));
        stage_offset.map_or(first, |stage_offset| ir.add(first, stage_offset))
    }
}
