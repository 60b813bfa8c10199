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
    /// Emits the body of a warp role. The warps of the role end there; the other warps branch around the body.
    pub(super) fn warp_role(&mut self, warp_role: WarpRole, body: Region) -> Result<()> {
        let ir = self.ir;
        if warp_role == WarpRole(0) {
            self.initialise_kernel();
            self.warp = Some(self.uniform_warp());
        }
        let info = &self.function.attrs.warp_roles[warp_role];
        let outside_role = (self.thread, self.warps, self.warp_role);
        let warp = self.warp.expect("the first warp role computes the warp index");
        let is_in_role = ir.icmp(IntPredicate::ULT, ir.sub(warp, ir.const32(info.first_warp)), ir.const32(info.warps));
        let (start, next) = (ir.block(self.kernel, &info.name), ir.block(self.kernel, "others"));
        ir.branch(is_in_role, start, next);
        ir.builder.position_at_end(start);
        if let Some(registers) = info.registers {
            let launched = self.function.attrs.launch_registers(self.target);
            let change = if registers > launched { "inc" } else { "dec" };
            self.instruction_alone(&format!("setmaxnreg.{change}.sync.aligned.u32 {registers};"));
        }
        // From here on, thread indices are relative to the first thread of the role.
        self.thread = ir.sub(self.thread, ir.const32(info.first_warp * 32));
        (self.warps, self.warp_role) = (info.warps, Some(warp_role));
        self.fences_tensor = self.touches_tensor_memory(body);
        self.share_tensor_memory(warp_role);
        if self.is_of_first_thread(body) {
            // The other threads would execute the loops of the role without an effect, so they end here.
            let (first_thread_block, other_threads_block) = (ir.block(self.kernel, "alone"), ir.block(self.kernel, "others"));
            let only_in_leading_cta = self.runs_in_leading_cta(body);
            ir.branch(
                if only_in_leading_cta { self.mma_thread() } else { self.first_thread() },
                first_thread_block,
                other_threads_block,
            );
            self.in_leading_cta = only_in_leading_cta;
            ir.builder.position_at_end(other_threads_block);
            self.end_thread();
            ir.builder.position_at_end(first_thread_block);
            self.thread = ir.const32(0);
        }
        self.block(self.function.body.block_of(body))?;
        (self.thread, self.warps, self.warp_role) = outside_role;
        (self.fences_tensor, self.in_leading_cta) = (true, false);
        ir.builder.position_at_end(next);
        Ok(())
    }

    /// The warp index. A shuffle makes it uniform over the lanes, as the branches to warp roles require.
    fn uniform_warp(&self) -> IntValue<'c> {
        let ir = self.ir;
        let lane = [u32::MAX, 0, 31].map(|bits| ir.const32(bits));
        let warp = ir.shr(self.thread, ir.const32(5), false);
        let args = [lane[0].into(), warp.into(), lane[1].into(), lane[2].into()];
        ir.intrinsic_value("llvm.nvvm.shfl.sync.idx.i32", &[], &args).into_int_value()
    }

    /// Whether only the first thread of a role has work, because the role only issues TMA copies or `tcgen05` MMAs.
    pub(super) fn is_of_first_thread(&self, body: Region) -> bool {
        let pipelines = &self.function.attrs.pipelines;
        let is_uniform = |ty: &Type| !matches!(ty, Type::Tile { .. }) || element_count(ty.shape()) == 1;
        let needs_one_thread = |kind: &Op| match kind {
            // A shuffle needs all lanes.
            Op::Core(tileas::Op::ConvertLayout { route: Route::Shuffle, .. }) => false,
            Op::PipelineAcquire { pipeline, .. } | Op::PipelineCommit { pipeline, .. } => pipelines[*pipeline].fills_alone(),
            Op::PipelineWait { pipeline, .. } | Op::PipelineRelease { pipeline, .. } => pipelines[*pipeline].drains_alone(),
            Op::Core(tileas::Op::TmaLoad { .. } | tileas::Op::Mma { atom: MmaAtom::Tensor(_), .. }) => true,
            _ if kind.is_pure() => kind.operands().into_iter().all(|value| is_uniform(self.ty(value))),
            _ => matches!(kind.effects().other, Effect::Branches | Effect::Leaves),
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

    /// Initialises the mbarriers of all pipelines before any thread uses them. Also allocates TMEM, unless the warp roles do so.
    pub(super) fn initialise_kernel(&mut self) {
        let function = self.function;
        let is_plain = function.attrs.pipelines.is_empty() && function.attrs.tensor.is_none();
        if is_plain && clc_responses::memory(function).is_none() {
            return;
        }
        let ir = self.ir;
        let allocates_tmem = self.allocates_tensor_memory_first();
        if allocates_tmem {
            self.allocate_tensor_memory();
        }
        for info in function.attrs.pipelines.values() {
            // One thread initialises each barrier. If there are more barriers than threads, a thread initialises several. The
            // full barriers precede the empty ones.
            let (all, threads) = (2 * info.depth, self.warps * 32);
            for first_barrier in (0..all).step_by(threads as usize) {
                let barrier = ir.add(self.thread, ir.const32(first_barrier));
                let is_needed = ir.icmp(IntPredicate::ULT, barrier, ir.const32(all));
                self.guarded(Some(is_needed), &[], |e| {
                    let is_full_barrier = ir.icmp(IntPredicate::ULT, barrier, ir.const32(info.depth));
                    let arrivals = ir.select(is_full_barrier, ir.const32(info.full).into(), ir.const32(info.empty).into());
                    let address = ir.add(e.shared_address(), ir.mul(barrier, ir.const32(PipelineInfo::BARRIER)));
                    let text = format!("mbarrier.init.shared.b64 [$0+{}], $1;", info.full_barrier(0));
                    ir.asm(None, &text, "r,r", &[address.into(), arrivals], true);
                    Vec::new()
                });
            }
        }
        self.start_clc_responses();
        if self.target.has(Feature::Clusters) {
            self.instruction_alone("fence.mbarrier_init.release.cluster;");
        }
        match self.cooperating_ctas() {
            1 => self.block_barrier(),
            // Another CTA may arrive at this CTA's mbarriers as soon as it has passed the barrier, so the barrier covers the
            // cluster.
            _ => self.cluster_barrier(".aligned"),
        }
        if allocates_tmem {
            self.find_tensor_memory();
        }
        if self.function.attrs.tensor.is_some() || self.cooperating_ctas() > 1 {
            self.end = Some(ir.block(self.kernel, "end"));
        }
    }

    /// Emits the final block of the kernel. All threads branch to it if the CTA frees TMEM, or if other CTAs of the cluster may
    /// still access its shared memory.
    pub(super) fn emit_final_block(&self) {
        let Some(end) = self.end else { return };
        let ir = self.ir;
        ir.builder.position_at_end(end);
        self.tensor_fence(true);
        // Threads of one warp may arrive from different warp roles.
        match self.cooperating_ctas() > 1 && !common::fault_injected("ptx.end") {
            true => self.cluster_barrier(""),
            false => _ = ir.intrinsic("llvm.nvvm.barrier.cta.sync.all", &[], &[ir.const32(0).into()]),
        }
        self.tensor_fence(false);
        self.free_tensor_memory();
        ir.builder.build_return(None).expect("the builder is in a block");
    }

    /// Ends a thread, or branches to the final block.
    pub(super) fn end_thread(&self) {
        match self.end {
            Some(end) => self.ir.jump(end),
            None => _ = self.ir.builder.build_return(None).expect("the builder is in a block"),
        }
    }

    /// The number of CTAs whose mbarriers this CTA may access, itself included.
    fn cooperating_ctas(&self) -> u32 {
        let by_pipelines = self.function.attrs.cooperating_ctas();
        clc_responses::memory(self.function).map_or(by_pipelines, |_| by_pipelines.max(self.clc_ctas()))
    }

    /// A barrier for all threads of a cluster, which also orders their memory accesses.
    fn cluster_barrier(&self, aligned: &str) {
        for step in ["arrive", "wait"] {
            self.ir.intrinsic(&format!("llvm.nvvm.barrier.cluster.{step}{aligned}"), &[], &[]);
        }
    }

    pub(super) fn shared_address(&self) -> IntValue<'c> {
        self.shared_base.expect("a function with pipelines has shared memory")
    }

    /// The address of a stage's mbarrier, and a constant offset to add.
    fn pipeline_barrier(&self, info: &PipelineInfo, stage: Option<Value>, side: Side) -> (IntValue<'c>, u32) {
        let ir = self.ir;
        let first = if side == Side::Full { info.full_barrier(0) } else { info.empty_barrier(0) };
        let base = self.shared_address();
        let base = stage.map_or(base, |stage| {
            let stage = self.scalar(stage).into_int_value();
            ir.add(base, ir.mul(stage, ir.const32(PipelineInfo::BARRIER)))
        });
        (base, first)
    }

    /// Waits for a full or empty stage. A stage that was never filled counts as empty.
    pub(super) fn pipeline_wait(&self, pipeline: Pipeline, stage: Option<Value>, phase: Value, side: Side) {
        let info = &self.function.attrs.pipelines[pipeline];
        // Only the issuing warp waits for an empty TMA stage, and only the issuing thread for a stage of a `tcgen05` MMA.
        let waiting_threads = match side {
            Side::Empty if info.fill == Fill::Tma => self.filling_warp(stage.map(|stage| self.scalar(stage).into_int_value())),
            Side::Empty => info.fills_alone().then(|| self.mma_thread()),
            Side::Full => info.drains_alone().then(|| self.mma_thread()),
        };
        self.guarded(waiting_threads, &[], |e| {
            e.wait_for_phase(info, stage, phase, side);
            e.tensor_fence(false);
            Vec::new()
        });
    }

    fn wait_for_phase(&self, info: &PipelineInfo, stage: Option<Value>, phase: Value, side: Side) {
        let ir = self.ir;
        let (address, offset) = self.pipeline_barrier(info, stage, side);
        let phase = self.scalar(phase).into_int_value();
        let parity = if side == Side::Empty { ir.xor(phase, ir.const32(1)) } else { phase };
        let wait = if self.target.has(Feature::Tma) { "try_wait" } else { "test_wait" };
        // A constant parity becomes an immediate. If it were a register, ptxas would compute it again in every iteration.
        let (parity_operand, args, letters) = match parity.get_zero_extended_constant() {
            Some(parity) => (parity.to_string(), vec![address.into()], "=b,r"),
            None => ("$2".into(), vec![address.into(), parity.into()], "=b,r,r"),
        };
        // The wait needs cluster scope if other CTAs arrive at the barrier. That is the case for the empty barrier of a multicast
        // pipeline, and for all barriers of a CTA pair.
        let remote = side == Side::Empty && info.multicast.is_some() || self.function.attrs.is_of_cta_pair(info);
        let scope = if remote { ".acquire.cluster" } else { "" };
        let text = format!("mbarrier.{wait}.parity{scope}.shared.b64 $0, [$1+{offset}], {parity_operand};");
        self.repeat_until_true(&text, letters, &args);
    }

    /// Waits until a phase of a barrier is complete.
    pub(super) fn wait_at(&self, address: IntValue<'c>, offset: u32, parity: IntValue<'c>, scope: &str) {
        let text = format!("mbarrier.try_wait.parity{scope}.shared.b64 $0, [$1+{offset}], $2;");
        self.repeat_until_true(&text, "=b,r,r", &[address.into(), parity.into()]);
    }

    /// Repeats a test, given as inline assembly that returns a predicate, until the predicate is true.
    fn repeat_until_true(&self, text: &str, letters: &str, args: &[Val<'c>]) {
        let ir = self.ir;
        let (again, done) = (ir.block(self.kernel, "wait"), ir.block(self.kernel, "waited"));
        ir.jump(again);
        ir.builder.position_at_end(again);
        let is_complete = ir.asm(Some(ir.context.bool_type().into()), text, letters, args, true);
        ir.branch(is_complete.expect("the assembly returns a value").into_int_value(), done, again);
        ir.builder.position_at_end(done);
    }

    /// Emits the arrival of every thread of the role at a stage's mbarrier. A `cp.async` arrival triggers when the thread's own
    /// copies are complete. For TMA, only the issuing thread arrives, with the number of bytes to expect.
    pub(super) fn pipeline_arrive(&mut self, pipeline: Pipeline, stage: Option<Value>, side: Side) {
        let info = &self.function.attrs.pipelines[pipeline];
        let (address, offset) = self.pipeline_barrier(info, stage, side);
        // The issuing thread commits its MMAs; the arrival triggers when they are complete.
        if side == Side::Full && info.fill == Fill::Mma || side == Side::Empty && info.drains_alone() {
            return self.commit_to(info, (address, offset));
        }
        let of_cta_pair = self.function.attrs.is_of_cta_pair(info);
        if side == Side::Empty && (info.multicast.is_some() || of_cta_pair) {
            return self.signal_ctas(info, (address, offset));
        }
        let text = match (side, info.fill) {
            (Side::Full, Fill::Tma) => {
                let bytes: u32 = info.buffers.iter().map(|buffer| self.function.attrs.program.buffers[*buffer].bytes()).sum();
                let bytes = if of_cta_pair { bytes * self.cta_group() } else { bytes };
                let involves_other_ctas = info.multicast.is_some() || of_cta_pair;
                let bytes = if involves_other_ctas && common::fault_injected("ptx.bytes") { bytes / 2 } else { bytes };
                let text = |first: usize| format!("mbarrier.arrive.expect_tx.shared.b64 _, [${first}+{offset}], {bytes};");
                let stage = stage.map(|stage| self.scalar(stage).into_int_value());
                let is_leading_cta = if of_cta_pair { self.is_leading_cta() } else { None };
                self.guarded(self.conjunction(self.filling_warp(stage), is_leading_cta), &[], |e| {
                    e.by_elected_lane(e.elected(), text, "r", &[address.into()]);
                    Vec::new()
                });
                return;
            }
            (Side::Full, Fill::Copies) => format!("cp.async.mbarrier.arrive.noinc.shared.b64 [$0+{offset}];"),
            (Side::Empty, _) if info.drain == Drain::Warps => {
                self.tensor_fence(true);
                return self.by_first_lane(
                    ".reg .b64 state;",
                    &format!("mbarrier.arrive.shared.b64 state, [$0+{offset}];"),
                    address,
                );
            }
            (Side::Full, _) | (Side::Empty, _) => {
                format!("{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [$0+{offset}]; }}")
            }
        };
        self.tensor_fence(true);
        self.ir.asm(None, &text, "r", &[address.into()], true);
    }

    /// Emits `before` for all lanes, and, once all lanes have arrived, `then` for the first lane of each warp. Both may use the
    /// address as `$0`.
    pub(super) fn by_first_lane(&self, before: &str, then: &str, address: IntValue<'c>) {
        let lane = self.ir.and(self.thread, self.ir.const32(31));
        let text = format!("{{ .reg .pred first; {before} setp.eq.b32 first, $1, 0; bar.warp.sync -1; @first {then} }}");
        self.ir.asm(None, &text, "r,r", &[address.into(), lane.into()], true);
    }

    /// Releases a stage if other CTAs wait for this CTA's consumers. In a multicast all CTAs receive an arrival; in a CTA pair
    /// only the leading CTA does.
    fn signal_ctas(&self, info: &PipelineInfo, (address, offset): (IntValue<'c>, u32)) {
        let (ir, of_cta_pair) = (self.ir, self.function.attrs.is_of_cta_pair(info));
        let ctas = if of_cta_pair { 1 } else { self.function.attrs.ctas_of(info) };
        self.tensor_fence(true);
        let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];";
        let start = format!("{{ .reg .b32 there; .reg .pred signals; add.u32 there, $0, {offset};");
        if info.drain == Drain::Warps {
            // Lane `i` arrives in CTA `i`.
            let lane = ir.and(self.thread, ir.const32(31));
            let text = format!(
                "{start} setp.lt.u32 signals, $1, {ctas}; bar.warp.sync -1; @signals mapa.shared::cluster.u32 there, there, $1; @signals {arrive} }}"
            );
            ir.asm(None, &text, "r,r", &[address.into(), lane.into()], true);
            return;
        }
        for cta in 0..ctas {
            let text = format!("{start} mapa.shared::cluster.u32 there, there, {cta}; {arrive} }}");
            ir.asm(None, &text, "r", &[address.into()], true);
        }
    }

    /// A bit mask of all CTAs of the cluster.
    pub(super) fn all_ctas(&self) -> Val<'c> {
        let bits = (1u64 << self.function.attrs.cooperating_ctas()) - 1;
        self.ir.context.i16_type().const_int(bits, false).into()
    }

    /// The address of the full barrier of the current stage of a buffer.
    pub(super) fn full_barrier(&self, pipeline: Pipeline, buffer: Buffer) -> IntValue<'c> {
        let (ir, info) = (self.ir, &self.function.attrs.pipelines[pipeline]);
        let base = self.shared_address();
        let base = if self.function.attrs.is_of_cta_pair(info) { self.address_in_leading_cta(base) } else { base };
        let first = ir.add(base, ir.const32(info.full_barrier(0)));
        let stage_offset = self.stages.get(&buffer).map(|stage| ir.mul(*stage, ir.const32(PipelineInfo::BARRIER)));
        stage_offset.map_or(first, |stage_offset| ir.add(first, stage_offset))
    }
}
