//! Purpose: emits LLVM IR for a function, one op at a time, split by op family.
//! Requires: a verified `.sched` program after its last phase.
//! Establishes: LLVM IR in which a tile is a list of values, one per register of its layout. Layouts otherwise appear only in
//! address and lane arithmetic.
//! Preserves: program order of effects; tokens need no instruction.
//! See also: Triton's `TritonGPUToLLVM`.

mod access_runs;
mod arith;
mod atomic;
mod clc_ptx;
mod control;
mod convert;
mod copy;
mod cta_pair;
mod fragment_prefetch;
mod fragments;
mod index;
mod math;
mod mma_sync_ptx;
mod multimem;
mod packed_registers;
mod pointer;
mod reduce;
mod shape;
mod shared;
mod size;
mod small_float;
mod system_calls;
mod tma_ptx;
mod tmem_ptx;
mod view;
mod warp_roles_ptx;
mod wgmma_ptx;

use crate::debug_info::KernelDebugLines;
use crate::ir::{Ir, Val};
use base::diag::{Diagnostic, Result};
use base::ir::{Op as OpId, Operation};
use base::{Block, Envelope, Value};
use control::ControlFrame;
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use fragment_prefetch::PrefetchedIterations;
use fragments::MatrixRead;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{FunctionValue, GlobalValue, IntValue, PointerValue};
use packed_registers::Vectors;
use sched::Op;
use sched::packed_ops::Paired;
use size::Size;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileas::{Buffer, Layout, Type};
use warp_roles_ptx::Side;

/// The LLVM form of an SSA value.
#[derive(Clone)]
pub(crate) enum Lowered<'c> {
    /// One LLVM value per register; a scalar has one.
    Registers(Vec<Val<'c>>),
    /// A memref, or a view of one; the type of the view holds its tile.
    Memory(StridedMemory<'c>),
    /// A token. The order of instructions already expresses the order of tokens.
    Token,
}

/// A strided memory object: its base address and, per dimension, the extent and the stride in elements.
#[derive(Clone)]
pub(crate) struct StridedMemory<'c> {
    pub(crate) base: PointerValue<'c>,
    pub(crate) sizes: Vec<IntValue<'c>>,
    pub(crate) strides: Vec<IntValue<'c>>,
}

pub(crate) struct Emitter<'c, 'a> {
    pub(crate) ir: &'a Ir<'c>,
    pub(crate) module: &'a sched::Module,
    pub(crate) function: &'a sched::Function,
    pub(crate) envelope: &'a Envelope,
    pub(crate) target: base::Target,
    pub(crate) kernel: FunctionValue<'c>,
    pub(crate) shared: Option<GlobalValue<'c>>,
    /// The thread's index among the threads that execute the current code.
    thread: IntValue<'c>,
    /// The number of warps that execute the current code.
    warps: u32,
    /// The warp role that executes the current code; `None` if all warps of the CTA do.
    warp_role: Option<sched::WarpRole>,
    values: Vec<Option<Lowered<'c>>>,
    lines: Option<&'a KernelDebugLines<'c, 'a>>,
    /// The number of uses of each value.
    uses: Vec<u32>,
    /// For each tile, the ops that extract a slice of it. Computed when first needed.
    slices: OnceCell<BTreeMap<Value, Vec<OpId>>>,
    /// Open control-flow ops, outermost first.
    frames: Vec<ControlFrame<'c>>,
    /// The staging memory of tiles, from which the next print reads them.
    staged: BTreeMap<Value, PointerValue<'c>>,
    /// The index of the warp, for the branches to warp roles.
    warp: Option<IntValue<'c>>,
    /// The address of the CTA's shared memory.
    shared_base: Option<IntValue<'c>>,
    /// The current tile block in a cluster launch control loop.
    clc_tile_block: Option<clc_ptx::ClcTileBlock<'c>>,
    /// The base address of the TMEM allocation.
    tensor_base: Option<IntValue<'c>>,
    /// Whether the threads that execute the current code access tensor memory.
    fences_tensor: bool,
    /// Whether the threads that execute the current code are statically known to belong to the leading CTA of a pair.
    in_leading_cta: bool,
    /// The final block of the kernel, which frees the TMEM allocation.
    end: Option<BasicBlock<'c>>,
    /// The current stage of each multi-stage buffer that the current op accesses.
    stages: BTreeMap<Buffer, IntValue<'c>>,
    /// The pending loads of tiles whose fragments the MMA loads, one K step at a time.
    deferred: BTreeMap<Value, MatrixRead<'c>>,
    /// The state of the loop under construction, if each iteration loads the first fragments of the next iteration.
    fragment_prefetch: Option<PrefetchedIterations<'c>>,
    /// Loop results for which the end of the loop has already waited, so later waits skip them.
    awaited: BTreeSet<Value>,
    vectors: Vectors,
    size: Size,
}

impl<'c, 'a> Emitter<'c, 'a> {
    pub(crate) fn new(
        ir: &'a Ir<'c>,
        module: &'a sched::Module,
        function: &'a sched::Function,
        envelope: &'a Envelope,
        kernel: FunctionValue<'c>,
        shared: Option<GlobalValue<'c>>,
        lines: Option<&'a KernelDebugLines<'c, 'a>>,
    ) -> Result<Self> {
        if let Some(lines) = lines {
            lines.enter(ir, function.loc);
        }
        let entry = ir.block(kernel, "");
        ir.builder.position_at_end(entry);
        let thread = ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.tid.x", &[], &[]).into_int_value();
        Ok(Emitter {
            ir,
            module,
            function,
            envelope,
            target: envelope.target()?,
            kernel,
            shared,
            thread,
            warps: function.attrs.program.warps,
            warp_role: None,
            values: vec![None; function.body.values.len()],
            lines,
            frames: Vec::new(),
            staged: BTreeMap::new(),
            warp: None,
            shared_base: shared.map(|shared| ir.opaque_address(shared)),
            clc_tile_block: None,
            tensor_base: None,
            fences_tensor: true,
            in_leading_cta: false,
            end: None,
            stages: BTreeMap::new(),
            deferred: BTreeMap::new(),
            fragment_prefetch: None,
            awaited: BTreeSet::new(),
            uses: function.body.use_counts(function.region),
            slices: OnceCell::new(),
            vectors: Vectors::of(function),
            size: Size::default(),
        })
    }

    pub(crate) fn emit(mut self) -> Result<()> {
        let params = self.function.params().to_vec();
        for (i, &param) in params.iter().enumerate() {
            let value = self.kernel.get_nth_param(i as u32).expect("the signature has every parameter");
            let value = self.register_form(self.elem(param), value);
            self.set(param, vec![value]);
        }
        if self.function.attrs.warp_roles.is_empty() {
            self.initialise_kernel();
        }
        self.block(self.function.entry())?;
        self.emit_final_block();
        Ok(())
    }

    fn block(&mut self, block: Block) -> Result<()> {
        let mut ops = &self.function.body.blocks[block].ops[..];
        while let Some(&op) = ops.first() {
            if let Some(lines) = self.lines {
                lines.enter(self.ir, self.function.body.ops[op].loc);
            }
            let (batch, rest) = ops.split_at(self.batched_mma_count(ops));
            if self.is_prefetched(op) {
                ops = rest;
                continue;
            }
            let done = if batch.len() > 1 { self.batched_mmas(batch) } else { self.op(op) };
            done.map_err(|error| error.at_loc(&self.envelope.debug, self.function.body.ops[op].loc))?;
            ops = rest;
        }
        Ok(())
    }

    /// Records the current stages of the buffers that the ops access.
    pub(super) fn enter_stages(&mut self, ops: &[OpId]) {
        let all = ops.iter().flat_map(|op| self.function.body.ops[*op].kind.effects().buffers);
        let stages = all.filter_map(|access| Some((access.buffer, access.stage?)));
        self.stages = stages.map(|(buffer, stage)| (buffer, self.scalar(stage).into_int_value())).collect();
    }

    fn batched_mmas(&mut self, ops: &[OpId]) -> Result<()> {
        ops.iter().try_for_each(|op| self.add_to_size_estimate(*op))?;
        self.enter_stages(ops);
        self.smem_mmas(ops)
    }

    pub(super) fn op(&mut self, op: OpId) -> Result<()> {
        self.add_to_size_estimate(op)?;
        let node = &self.function.body.ops[op];
        let results = node.results.as_slice();
        self.enter_stages(&[op]);
        match &node.kind {
            Op::Core(tileas::Op::Core(core)) => self.core(op, core, results),
            Op::Core(program) => self.program_op(op, program, results),
            Op::Pairs { op: Paired(program) } => {
                self.in_pairs(program, results[0]);
                Ok(())
            }
            Op::Barrier { id, threads } => {
                self.tensor_fence(true);
                self.barrier(*id, *threads);
                self.tensor_fence(false);
                Ok(())
            }
            Op::CopyCommit {} => {
                self.copy_commit();
                Ok(())
            }
            Op::CopyWait { pending } => {
                self.copy_wait(*pending);
                Ok(())
            }
            Op::AsyncFence {} => {
                self.instruction_alone("fence.proxy.async.shared::cta;");
                Ok(())
            }
            Op::Free { ptrs } => {
                self.free_heap(ptrs);
                Ok(())
            }
            Op::PrintLock {} => {
                self.print_lock();
                Ok(())
            }
            Op::PrintStage { tiles } => {
                self.print_stage(tiles);
                Ok(())
            }
            Op::WarpRole { role: warp_role, body } => self.warp_role(*warp_role, *body),
            Op::PipelineAcquire { pipeline, stage, phase } => {
                self.pipeline_wait(*pipeline, *stage, *phase, Side::Empty);
                Ok(())
            }
            Op::PipelineWait { pipeline, stage, phase } => {
                self.pipeline_wait(*pipeline, *stage, *phase, Side::Full);
                Ok(())
            }
            Op::PipelineCommit { pipeline, stage } => {
                self.pipeline_arrive(*pipeline, *stage, Side::Full);
                Ok(())
            }
            Op::PipelineRelease { pipeline, stage } => {
                self.pipeline_arrive(*pipeline, *stage, Side::Empty);
                Ok(())
            }
            Op::GroupWait { pending, accumulators } => {
                self.group_wait(*pending, accumulators);
                Ok(())
            }
        }
    }

    fn core(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<()> {
        match core {
            Core::Constant { value } => self.constant(value, results[0]),
            Core::Unary { kind, x } => self.unary(*kind, *x, results[0])?,
            Core::Binary { kind, lhs, rhs } => self.binary(*kind, *lhs, *rhs, results[0])?,
            Core::Fma { kind, a, b, c } => self.fma(*kind, [*a, *b, *c], results[0])?,
            Core::Compare { kind, lhs, rhs } => self.compare(*kind, *lhs, *rhs, results[0]),
            Core::Convert { kind, x } => self.convert(op, *kind, *x, results[0])?,
            Core::Select { cond, yes, no } => self.select(*cond, *yes, *no, results[0]),
            Core::IntToPtr { .. } | Core::PtrToInt { .. } | Core::PtrCast { .. } | Core::Offset { .. } => {
                self.pointer(core, results[0])
            }
            Core::Assume { value, .. } => {
                let value = self.values[value.0 as usize].clone();
                self.values[results[0].0 as usize] = value;
            }
            Core::Iota {} => self.iota(results[0]),
            Core::Broadcast { .. } | Core::Reshape { .. } | Core::Permute { .. } => self.rename(op, core, results[0])?,
            Core::Cat { lhs, rhs, dim } => self.cat(op, *lhs, *rhs, *dim, results[0])?,
            Core::Reinterpret { x } => self.reinterpret(*x, results[0]),
            // Only slices at constant indices reach this stage. `tile-lower-as` lowers run-time indices to shared-memory gathers
            // and scatters.
            Core::Extract { x, indices } => self.extract(op, *x, indices, results[0])?,
            Core::Insert { x, into, indices } => self.insert(op, [*x, *into], indices, results[0])?,
            Core::BlockId { axis } => self.set(results[0], vec![self.grid_register(*axis, true)]),
            // In a CLC loop the number of tile blocks is known only at run time, so the emitter passes 1.
            Core::ClcBlockCount {} => self.set(results[0], vec![self.ir.const32(1).into()]),
            Core::ClcBlockId { iteration, axis } => self.clc_block_id(*iteration, *axis, results[0]),
            Core::BlockCount { axis } => self.set(results[0], vec![self.grid_register(*axis, false)]),
            Core::ClusterRank {} => {
                let rank = self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]);
                self.set(results[0], vec![rank]);
            }
            Core::MakeMemRef { .. } | Core::MakeView { .. } | Core::MemRefShape { .. } | Core::ViewShape { .. } => {
                self.view_value(core, results);
            }
            Core::GlobalAddress { name } => {
                let global = self.ir.module.get_global(name);
                let global = global.ok_or_else(|| Diagnostic::invalid("PX004", format!("the module has no global '{name}'")))?;
                self.set(results[0], vec![global.as_pointer_value().into()]);
            }
            Core::MakeToken {} | Core::JoinTokens { .. } => self.values[results[0].0 as usize] = Some(Lowered::Token),
            Core::If { .. } | Core::For { .. } | Core::Loop { .. } => self.structured_op(core, results)?,
            Core::Yield { .. } | Core::Continue { .. } | Core::Break { .. } | Core::Return {} => self.emit_terminator(core),
            Core::Alloca { count, align, .. } => self.alloca(*count, *align, results[0]),
            Core::AliasFence { .. } => {
                self.instruction_alone("fence.proxy.alias;");
                self.set_token(results[0]);
            }
            Core::GridWait { .. } | Core::GridLaunch { .. } => {
                let wait = matches!(core, Core::GridWait { .. });
                self.dependent_grid(if wait { "griddepcontrol.wait;" } else { "griddepcontrol.launch_dependents;" });
                results.iter().for_each(|result| self.set_token(*result));
            }
            Core::Assert { cond, message } => self.assert(op, *cond, message),
            Core::CheckIndex { index, extent, message } => self.check_index(op, *index, *extent, message),
            Core::Print { format, args, .. } => {
                self.print(format, args)?;
                results.iter().for_each(|result| self.set_token(*result));
            }
        }
        Ok(())
    }

    fn program_op(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        use tileas::Op;
        match program {
            Op::Core(core) => self.core(op, core, results),
            Op::ConvertLayout { x, route } => self.convert_layout(op, *x, *route, results[0]),
            Op::LoadView { .. } | Op::StoreView { .. } | Op::ReduceView { .. } => self.view_access(op, program, results),
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => self.multicast(op, program, results),
            Op::Load { .. } | Op::Store { .. } => {
                self.pointer_access(program, results);
                Ok(())
            }
            Op::AtomicRmw { .. } | Op::AtomicCas { .. } => self.atomic(op, program, results),
            Op::CopyView { .. } => self.copy_view(op, program, results[0]),
            Op::TmaLoad { .. } => self.tma_load(op, program, results[0]),
            Op::TmaStore { .. } => self.tma_store(op, program, results[0]),
            Op::Copy { .. } => self.copy_pointers(op, program, results[0]),
            Op::SharedStore { .. } | Op::SharedLoad { .. } => self.shared_access(op, program, results),
            Op::Mma { .. } => self.mma(op, program, results),
            Op::TmemLoad { buffer, from, atom, .. } => {
                self.tmem_load(*buffer, *from, atom.0, results[0]);
                Ok(())
            }
            Op::TmemScale { by, buffer, zero_init, atom, .. } => {
                self.tmem_scale(*by, *buffer, *zero_init, atom.0);
                Ok(())
            }
            Op::TmemStore { x, buffer, from, atom, .. } => {
                self.tmem_store(*x, *buffer, *from, atom.0);
                Ok(())
            }
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } => self.reduce(program, results),
            Op::Scan { operands, dim, reverse, body } => self.scan(op, operands, *dim, *reverse, *body, results),
            Op::SharedGather { buffer, index, .. } => {
                self.shared_gather(*buffer, *index, results[0]);
                Ok(())
            }
            Op::SharedScatter { x, buffer, index, .. } => {
                self.shared_scatter(*x, *buffer, *index);
                Ok(())
            }
            Op::Coordinate { dim } => {
                self.coordinate(*dim as usize, results[0]);
                Ok(())
            }
        }
    }

    pub(crate) fn unsupported(&self, op: OpId) -> Box<Diagnostic> {
        let node = &self.function.body.ops[op];
        let ty =
            node.results.first().map(|value| format!(" of type {}", base::text::TypeText::print(self.function.body.ty(*value))));
        let message = format!("op '{}'{} is not supported on {}", node.kind.mnemonic(), ty.unwrap_or_default(), self.target);
        Diagnostic::unsupported("PX900", message)
    }

    /// Reports an operation that does not exist for an element type.
    pub(crate) fn unsupported_type(&self, what: &str, elem: Elem) -> Box<Diagnostic> {
        let ty = base::text::TypeText::print(&elem);
        Diagnostic::unsupported("PX901", format!("'{what}' on {ty} is not supported on {}", self.target))
    }

    /// Reports a missing feature of the target with the text of NVIDIA's compiler.
    pub(crate) fn incompatible(&self, what: &str) -> Box<Diagnostic> {
        Diagnostic::unsupported("PX902", format!("Incompatibility with architecture '{}': {what}", self.target))
    }

    pub(crate) fn ty(&self, value: Value) -> &'a Type {
        self.function.body.ty(value)
    }
    pub(crate) fn elem(&self, value: Value) -> Elem {
        self.ty(value).elem().expect("a scalar or tile")
    }
    /// The layout of a tile; a scalar has one register.
    pub(crate) fn layout(&self, value: Value) -> Layout {
        self.module.layout_of(self.ty(value)).cloned().unwrap_or_else(|| Layout::uniform(self.warp_bits()))
    }
    pub(crate) fn warp_bits(&self) -> usize {
        self.warps.checked_ilog2().unwrap_or(0) as usize
    }
    pub(crate) fn get(&self, value: Value) -> &[Val<'c>] {
        match &self.values[value.0 as usize] {
            Some(Lowered::Registers(registers)) => registers,
            _ => unreachable!("the verifier checks that {value} is a tile or scalar and defined"),
        }
    }
    pub(crate) fn scalar(&self, value: Value) -> Val<'c> {
        self.get(value)[0]
    }
    pub(crate) fn set(&mut self, value: Value, registers: Vec<Val<'c>>) {
        self.values[value.0 as usize] = Some(Lowered::Registers(registers));
    }
    pub(crate) fn set_token(&mut self, value: Value) {
        self.values[value.0 as usize] = Some(Lowered::Token);
    }

    fn constant(&mut self, value: &core_dialect::tile::Dense, result: Value) {
        let elem = self.elem(result);
        let layout = self.layout(result);
        let registers = match value {
            core_dialect::tile::Dense::Splat(bits) => vec![self.ir.constant(elem, *bits); layout.registers()],
            core_dialect::tile::Dense::Elements(_) => self.constant_table(value, elem, &layout),
        };
        self.set(result, registers);
    }

    /// The index of this CTA, or of its cluster, along an axis if `id` is set. Otherwise the number of CTAs or clusters.
    pub(crate) fn grid_register(&self, axis: u32, id: bool) -> Val<'c> {
        let axis = ["x", "y", "z"][axis as usize];
        // On targets with clusters, kernels count clusters. Without a cluster attribute a cluster has one CTA, so the cluster
        // index equals the CTA index.
        let register = match (id, self.target.has(Feature::Clusters)) {
            (true, true) => "clusterid",
            (true, false) => "ctaid",
            (false, _) if self.function.attrs.program.cluster.is_some() => "nclusterid",
            (false, _) => "nctaid",
        };
        self.ir.intrinsic_value(&format!("llvm.nvvm.read.ptx.sreg.{register}.{axis}"), &[], &[])
    }

    /// A barrier for all threads that execute the current code: the CTA or the warp role.
    pub(crate) fn block_barrier(&self) {
        self.barrier(self.warp_role.map_or(0, sched::WarpRole::barrier), self.warps * 32);
    }

    pub(crate) fn barrier(&self, id: u32, threads: u32) {
        let whole = threads == self.function.attrs.program.warps * 32 && id == 0;
        if whole {
            self.ir.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[self.ir.const32(0).into()]);
        } else {
            let args = [self.ir.const32(id).into(), self.ir.const32(threads).into()];
            self.ir.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count", &[], &args);
        }
    }

    /// Converts a value from the form in which memory holds it to the form in which registers hold it.
    pub(crate) fn register_form(&self, elem: Elem, value: Val<'c>) -> Val<'c> {
        if elem == Elem::Scalar(numerics::Scalar::I1) {
            let byte = value.into_int_value();
            return self.ir.icmp(inkwell::IntPredicate::NE, byte, byte.get_type().const_zero()).into();
        }
        if elem.bits() < 8 {
            return self.ir.resize(value.into_int_value(), self.ir.int(elem.bits()), false).into();
        }
        value
    }
    /// Converts a value from its register form to its memory form.
    pub(crate) fn memory_form(&self, elem: Elem, value: Val<'c>) -> Val<'c> {
        if elem.bits() < 8 {
            return self.ir.resize(value.into_int_value(), self.ir.int(8), false).into();
        }
        value
    }
}
