//! Purpose: emits LLVM IR for a function, one op at a time, split by op family.
//! Requires: a verified `.sched` program after its last phase.
//! Establishes: LLVM IR in which a tile is a list of values, one per register of its layout. Apart from this list, a layout affects
//! only the arithmetic on addresses and lanes.
//! Preserves: the program order of side effects, so tokens need no instruction.
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

pub(crate) use tma_ptx::map_parameter_name;

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
use packed_registers::VectorUses;
use sched::Op;
use sched::packed_ops::Paired;
use size::SizeEstimate;
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
    /// The memory of a memref or a view. The view's tile shape is not stored here, because the view's type has it.
    Memory(StridedMemory<'c>),
    /// A token. The order of instructions already expresses the order of tokens.
    Token,
}

/// A strided memory object: its base address and, for each dimension, the extent and the stride in elements.
#[derive(Clone)]
pub(crate) struct StridedMemory<'c> {
    pub(crate) base: PointerValue<'c>,
    pub(crate) sizes: Vec<IntValue<'c>>,
    pub(crate) strides: Vec<IntValue<'c>>,
}

/// Emits the LLVM IR of one kernel.
pub(crate) struct Emitter<'c, 'a> {
    pub(crate) ir: &'a Ir<'c>,
    pub(crate) module: &'a sched::Module,
    pub(crate) function: &'a sched::Function,
    pub(crate) envelope: &'a Envelope,
    pub(crate) target: base::Target,
    /// The LLVM function of the kernel.
    pub(crate) kernel: FunctionValue<'c>,
    /// The shared-memory object of the kernel, if it uses shared memory.
    pub(crate) shared_memory: Option<GlobalValue<'c>>,
    /// The thread's index among the threads that execute the current code: all threads of the CTA, or the threads of a warp role.
    thread_index: IntValue<'c>,
    /// The number of warps that execute the current code.
    warp_count: u32,
    /// The warp role that executes the current code; `None` if all warps of the CTA do.
    warp_role: Option<sched::WarpRole>,
    /// The LLVM form of each SSA value by its number; `None` before the value's definition is emitted.
    lowered_values: Vec<Option<Lowered<'c>>>,
    /// The source lines for debug information, if an option requests them.
    debug_lines: Option<&'a KernelDebugLines<'c, 'a>>,
    /// The number of uses of each SSA value.
    use_counts: Vec<u32>,
    /// For each tile, the ops that extract a slice of it. The map is computed when it is first needed.
    slice_ops: OnceCell<BTreeMap<Value, Vec<OpId>>>,
    /// Open control-flow ops, outermost first.
    frames: Vec<ControlFrame<'c>>,
    /// The staging memory of each tile that the next print op prints.
    staging_memory: BTreeMap<Value, PointerValue<'c>>,
    /// The index of the warp in the CTA, for the branches to warp roles.
    warp_index: Option<IntValue<'c>>,
    /// The 32-bit address of the CTA's shared memory.
    shared_base: Option<IntValue<'c>>,
    /// The current tile block of the enclosing cluster launch control (CLC) loop.
    clc_tile_block: Option<clc_ptx::ClcTileBlock<'c>>,
    /// The base address of the TMEM allocation.
    tmem_base: Option<IntValue<'c>>,
    /// Whether the current warp role accesses TMEM, so that its barriers need a `tcgen05.fence`. Always true in a kernel without
    /// warp roles.
    role_accesses_tmem: bool,
    /// Whether only the leading CTA of a pair executes the current code.
    in_leading_cta: bool,
    /// The final block of the kernel, to which all threads branch. `None` if threads return directly.
    end: Option<BasicBlock<'c>>,
    /// The current stage of each multi-stage buffer that the current op accesses.
    current_stages: BTreeMap<Buffer, IntValue<'c>>,
    /// The loads of tiles with `per_k_step`. The MMA that uses a tile emits the instructions of its load, one K step at a time.
    deferred_loads: BTreeMap<Value, MatrixRead<'c>>,
    /// The state of the loop under construction, if each iteration loads the first fragments of the next iteration.
    fragment_prefetch: Option<PrefetchedIterations<'c>>,
    /// The accumulators among loop results for which the end of the loop has already waited, so that a later wait skips them.
    awaited_accumulators: BTreeSet<Value>,
    /// For each SSA value, whether all users access neighbouring registers as vectors.
    vector_uses: VectorUses,
    /// The estimated number of instructions emitted so far.
    size_estimate: SizeEstimate,
}

impl<'c, 'a> Emitter<'c, 'a> {
    /// Prepares the emission of a function into an LLVM kernel.
    pub(crate) fn new(
        ir: &'a Ir<'c>,
        module: &'a sched::Module,
        function: &'a sched::Function,
        envelope: &'a Envelope,
        kernel: FunctionValue<'c>,
        shared_memory: Option<GlobalValue<'c>>,
        debug_lines: Option<&'a KernelDebugLines<'c, 'a>>,
    ) -> Result<Self> {
        if let Some(lines) = debug_lines {
            lines.set_location(ir, function.loc);
        }
        let entry = ir.append_block(kernel, "");
        ir.builder.position_at_end(entry);
        let thread_index = ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.tid.x", &[], &[]).into_int_value();
        Ok(Emitter {
            ir,
            module,
            function,
            envelope,
            target: envelope.target()?,
            kernel,
            shared_memory,
            thread_index,
            warp_count: function.attrs.program.warps,
            warp_role: None,
            lowered_values: vec![None; function.body.values.len()],
            debug_lines,
            frames: Vec::new(),
            staging_memory: BTreeMap::new(),
            warp_index: None,
            shared_base: shared_memory.map(|memory| ir.opaque_address(memory)),
            clc_tile_block: None,
            tmem_base: None,
            role_accesses_tmem: true,
            in_leading_cta: false,
            end: None,
            current_stages: BTreeMap::new(),
            deferred_loads: BTreeMap::new(),
            fragment_prefetch: None,
            awaited_accumulators: BTreeSet::new(),
            use_counts: function.body.use_counts(function.region),
            slice_ops: OnceCell::new(),
            vector_uses: VectorUses::collect(function),
            size_estimate: SizeEstimate::default(),
        })
    }

    /// Emits the kernel.
    pub(crate) fn emit(mut self) -> Result<()> {
        let params = self.function.params().to_vec();
        for (i, &param) in params.iter().enumerate() {
            let value = self.kernel.get_nth_param(i as u32).expect("the signature has every parameter");
            let value = self.register_form(self.elem(param), value);
            self.set_registers(param, vec![value]);
        }
        if self.function.attrs.warp_roles.is_empty() {
            self.initialise_barriers_and_tmem();
        }
        self.emit_block(self.function.entry())?;
        self.emit_final_block();
        Ok(())
    }

    /// Emits the ops of a block. Consecutive multiply-add MMAs that can share a loop are emitted together.
    fn emit_block(&mut self, block: Block) -> Result<()> {
        let mut ops = &self.function.body.blocks[block].ops[..];
        while let Some(&op) = ops.first() {
            if let Some(lines) = self.debug_lines {
                lines.set_location(self.ir, self.function.body.ops[op].loc);
            }
            let (batch, rest) = ops.split_at(self.batched_mma_count(ops));
            if self.is_prefetched(op) {
                ops = rest;
                continue;
            }
            let emitted = if batch.len() > 1 { self.emit_batched_mmas(batch) } else { self.emit_op(op) };
            emitted.map_err(|error| error.at_loc(&self.envelope.debug, self.function.body.ops[op].loc))?;
            ops = rest;
        }
        Ok(())
    }

    /// Records the stages of the multi-stage buffers that the ops access.
    pub(super) fn set_current_stages(&mut self, ops: &[OpId]) {
        let accesses = ops.iter().flat_map(|op| self.function.body.ops[*op].kind.effects().buffers);
        let stages = accesses.filter_map(|access| Some((access.buffer, access.stage?)));
        self.current_stages = stages.map(|(buffer, stage)| (buffer, self.scalar_value(stage).into_int_value())).collect();
    }

    /// Emits multiply-add MMAs in one common loop along K.
    fn emit_batched_mmas(&mut self, ops: &[OpId]) -> Result<()> {
        ops.iter().try_for_each(|op| self.add_to_size_estimate(*op))?;
        self.set_current_stages(ops);
        self.emit_smem_mmas(ops)
    }

    /// Emits an op.
    pub(super) fn emit_op(&mut self, op: OpId) -> Result<()> {
        self.add_to_size_estimate(op)?;
        let node = &self.function.body.ops[op];
        let results = node.results.as_slice();
        self.set_current_stages(&[op]);
        match &node.kind {
            Op::Core(tileas::Op::Core(core)) => self.emit_core_op(op, core, results),
            Op::Core(program) => self.emit_tileas_op(op, program, results),
            Op::Pairs { op: Paired(program) } => {
                self.emit_packed_op(program, results[0]);
                Ok(())
            }
            Op::Barrier { id, threads } => {
                self.tmem_fence(true);
                self.emit_barrier(*id, *threads);
                self.tmem_fence(false);
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
                self.emit_instruction("fence.proxy.async.shared::cta;");
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
            Op::WarpRole { role: warp_role, body } => self.emit_warp_role(*warp_role, *body),
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

    /// Emits an op of the core dialect.
    fn emit_core_op(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<()> {
        match core {
            Core::Constant { value } => self.emit_constant(value, results[0]),
            Core::Unary { kind, x } => self.emit_unary(*kind, *x, results[0])?,
            Core::Binary { kind, lhs, rhs } => self.emit_binary(*kind, *lhs, *rhs, results[0])?,
            Core::Fma { kind, a, b, c } => self.emit_fma(*kind, [*a, *b, *c], results[0])?,
            Core::Compare { kind, lhs, rhs } => self.emit_compare(*kind, *lhs, *rhs, results[0]),
            Core::Convert { kind, x } => self.emit_convert(op, *kind, *x, results[0])?,
            Core::Select { cond, yes, no } => self.emit_select(*cond, *yes, *no, results[0]),
            Core::IntToPtr { .. } | Core::PtrToInt { .. } | Core::PtrCast { .. } | Core::Offset { .. } => {
                self.emit_pointer_op(core, results[0])
            }
            Core::Assume { value, .. } => {
                let value = self.lowered_values[value.0 as usize].clone();
                self.lowered_values[results[0].0 as usize] = value;
            }
            Core::Iota {} => self.emit_iota(results[0]),
            Core::Broadcast { .. } | Core::Reshape { .. } | Core::Permute { .. } => self.emit_renaming(op, core, results[0])?,
            Core::Cat { lhs, rhs, dim } => self.emit_cat(op, *lhs, *rhs, *dim, results[0])?,
            Core::Reinterpret { x } => self.emit_reinterpret(*x, results[0]),
            // Only slices at constant indices reach this stage. `tile-lower-as` lowers run-time indices to shared-memory gathers
            // and scatters.
            Core::Extract { x, indices } => self.emit_extract(op, *x, indices, results[0])?,
            Core::Insert { x, into, indices } => self.emit_insert(op, [*x, *into], indices, results[0])?,
            Core::BlockId { axis } => self.set_registers(results[0], vec![self.grid_register(*axis, true)]),
            // The emitted CLC loop ends when no tile block is left and does not use this bound, so 1 is a placeholder.
            Core::ClcBlockCount {} => self.set_registers(results[0], vec![self.ir.const32(1).into()]),
            Core::ClcBlockId { iteration, axis } => self.clc_block_id(*iteration, *axis, results[0]),
            Core::BlockCount { axis } => self.set_registers(results[0], vec![self.grid_register(*axis, false)]),
            Core::ClusterRank {} => {
                let rank = self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]);
                self.set_registers(results[0], vec![rank]);
            }
            Core::MakeMemRef { .. } | Core::MakeView { .. } | Core::MemRefShape { .. } | Core::ViewShape { .. } => {
                self.emit_view_op(core, results);
            }
            Core::GlobalAddress { name } => {
                let global = self.ir.module.get_global(name);
                let global = global.ok_or_else(|| Diagnostic::invalid("PX004", format!("the module has no global '{name}'")))?;
                self.set_registers(results[0], vec![global.as_pointer_value().into()]);
            }
            Core::MakeToken {} | Core::JoinTokens { .. } => self.lowered_values[results[0].0 as usize] = Some(Lowered::Token),
            Core::If { .. } | Core::For { .. } | Core::Loop { .. } => self.emit_structured_op(core, results)?,
            Core::Yield { .. } | Core::Continue { .. } | Core::Break { .. } | Core::Return {} => self.emit_terminator(core),
            Core::Alloca { count, align, .. } => self.emit_alloca(*count, *align, results[0]),
            Core::AliasFence { .. } => {
                self.emit_instruction("fence.proxy.alias;");
                self.set_token(results[0]);
            }
            Core::GridWait { .. } | Core::GridLaunch { .. } => {
                let wait = matches!(core, Core::GridWait { .. });
                self.emit_dependent_grid_instruction(if wait {
                    "griddepcontrol.wait;"
                } else {
                    "griddepcontrol.launch_dependents;"
                });
                results.iter().for_each(|result| self.set_token(*result));
            }
            Core::Assert { cond, message } => self.emit_assert(op, *cond, message),
            Core::CheckIndex { index, extent, message } => self.emit_check_index(op, *index, *extent, message),
            Core::Print { format, args, .. } => {
                self.emit_print(format, args)?;
                results.iter().for_each(|result| self.set_token(*result));
            }
        }
        Ok(())
    }

    /// Emits an op of the `.as` dialect.
    fn emit_tileas_op(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        use tileas::Op;
        match program {
            Op::Core(core) => self.emit_core_op(op, core, results),
            Op::ConvertLayout { x, route } => self.convert_layout(op, *x, *route, results[0]),
            Op::LoadView { .. } | Op::StoreView { .. } | Op::ReduceView { .. } => self.emit_view_access(op, program, results),
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => self.emit_multicast(op, program, results),
            Op::Load { .. } | Op::Store { .. } => {
                self.emit_pointer_access(program, results);
                Ok(())
            }
            Op::AtomicRmw { .. } | Op::AtomicCas { .. } => self.emit_atomic(op, program, results),
            Op::CopyView { .. } => self.emit_copy_view(op, program, results[0]),
            Op::TmaLoad { .. } => self.emit_tma_load(op, program, results[0]),
            Op::TmaStore { .. } => self.tma_store(op, program, results[0]),
            Op::Copy { .. } => self.copy_pointers(op, program, results[0]),
            Op::SharedStore { .. } | Op::SharedLoad { .. } => self.emit_shared_access(op, program, results),
            Op::Mma { .. } => self.emit_mma(op, program, results),
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
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } => self.emit_reduction(program, results),
            Op::Scan { operands, dim, reverse, body } => self.emit_scan(op, operands, *dim, *reverse, *body, results),
            Op::SharedGather { buffer, index, .. } => {
                self.shared_gather(*buffer, *index, results[0]);
                Ok(())
            }
            Op::SharedScatter { x, buffer, index, .. } => {
                self.shared_scatter(*x, *buffer, *index);
                Ok(())
            }
            Op::Coordinate { dim } => {
                self.emit_coordinate(*dim as usize, results[0]);
                Ok(())
            }
        }
    }

    /// Returns the error that the target does not support an op.
    pub(crate) fn unsupported(&self, op: OpId) -> Box<Diagnostic> {
        let node = &self.function.body.ops[op];
        let ty =
            node.results.first().map(|value| format!(" of type {}", base::text::TypeText::print(self.function.body.ty(*value))));
        let message = format!("op '{}'{} is not supported on {}", node.kind.mnemonic(), ty.unwrap_or_default(), self.target);
        Diagnostic::unsupported("PX900", message)
    }

    /// Returns the error that the target does not support `operation` on an element type.
    pub(crate) fn unsupported_type(&self, operation: &str, elem: Elem) -> Box<Diagnostic> {
        let ty = base::text::TypeText::print(&elem);
        Diagnostic::unsupported("PX901", format!("'{operation}' on {ty} is not supported on {}", self.target))
    }

    /// Returns the error that the target lacks the feature `requirement`. The message has the wording of NVIDIA's compiler
    /// `tileiras`.
    pub(crate) fn incompatible(&self, requirement: &str) -> Box<Diagnostic> {
        Diagnostic::unsupported("PX902", format!("Incompatibility with architecture '{}': {requirement}", self.target))
    }

    /// Returns the type of a value.
    pub(crate) fn ty(&self, value: Value) -> &'a Type {
        self.function.body.ty(value)
    }
    /// Returns the element type of a scalar or tile.
    pub(crate) fn elem(&self, value: Value) -> Elem {
        self.ty(value).elem().expect("a scalar or tile")
    }
    /// The layout of a tile. A scalar has a layout with one register, which is the same in all threads.
    pub(crate) fn layout(&self, value: Value) -> Layout {
        self.module.layout_of(self.ty(value)).cloned().unwrap_or_else(|| Layout::uniform(self.warp_bits()))
    }
    /// Log2 of the number of warps that execute the current code.
    pub(crate) fn warp_bits(&self) -> usize {
        self.warp_count.checked_ilog2().unwrap_or(0) as usize
    }
    /// Returns the registers of a tile or scalar.
    pub(crate) fn registers_of(&self, value: Value) -> &[Val<'c>] {
        match &self.lowered_values[value.0 as usize] {
            Some(Lowered::Registers(registers)) => registers,
            _ => unreachable!("the verifier checks that {value} is a tile or scalar and defined"),
        }
    }
    /// Returns the register of a scalar.
    pub(crate) fn scalar_value(&self, value: Value) -> Val<'c> {
        self.registers_of(value)[0]
    }
    /// Sets the registers of a tile or scalar.
    pub(crate) fn set_registers(&mut self, value: Value, registers: Vec<Val<'c>>) {
        self.lowered_values[value.0 as usize] = Some(Lowered::Registers(registers));
    }
    /// Marks a value as a token, which has no registers.
    pub(crate) fn set_token(&mut self, value: Value) {
        self.lowered_values[value.0 as usize] = Some(Lowered::Token);
    }

    /// Emits a constant tile. A constant with different elements becomes a table in memory.
    fn emit_constant(&mut self, value: &core_dialect::tile::Dense, result: Value) {
        let elem = self.elem(result);
        let layout = self.layout(result);
        let registers = match value {
            core_dialect::tile::Dense::Splat(bits) => vec![self.ir.constant(elem, *bits); layout.registers()],
            core_dialect::tile::Dense::Elements(_) => self.constant_table(value, elem, &layout),
        };
        self.set_registers(result, registers);
    }

    /// Reads a special register of the grid. If `is_index` is true, it has the index of this CTA, or of its cluster, along an axis.
    /// Otherwise it has the number of CTAs or clusters along the axis.
    pub(crate) fn grid_register(&self, axis: u32, is_index: bool) -> Val<'c> {
        let axis = ["x", "y", "z"][axis as usize];
        // On targets with clusters, the kernel reads the index of its cluster. Without a cluster attribute a cluster has one CTA,
        // so this index equals the CTA index.
        let register = match (is_index, self.target.has(Feature::Clusters)) {
            (true, true) => "clusterid",
            (true, false) => "ctaid",
            (false, _) if self.function.attrs.program.cluster.is_some() => "nclusterid",
            (false, _) => "nctaid",
        };
        self.ir.intrinsic_value(&format!("llvm.nvvm.read.ptx.sreg.{register}.{axis}"), &[], &[])
    }

    /// Emits a barrier for all threads that execute the current code: the threads of the CTA or of the warp role.
    pub(crate) fn barrier_of_current_threads(&self) {
        self.emit_barrier(self.warp_role.map_or(0, sched::WarpRole::barrier_id), self.warp_count * 32);
    }

    /// Emits a barrier for `threads` threads at the named barrier `id`. A single warp (32 threads) needs no named barrier: it
    /// executes `bar.warp.sync`.
    pub(crate) fn emit_barrier(&self, id: u32, threads: u32) {
        if threads == 32 {
            self.ir.call_intrinsic("llvm.nvvm.bar.warp.sync", &[], &[self.ir.const32(u32::MAX).into()]);
            return;
        }
        let is_whole_cta = threads == self.function.attrs.program.warps * 32 && id == 0;
        if is_whole_cta {
            self.ir.call_intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[self.ir.const32(0).into()]);
        } else {
            let args = [self.ir.const32(id).into(), self.ir.const32(threads).into()];
            self.ir.call_intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count", &[], &args);
        }
    }

    /// Converts a value from its memory form, such as a byte for an i1, to its register form.
    pub(crate) fn register_form(&self, elem: Elem, value: Val<'c>) -> Val<'c> {
        if elem == Elem::Scalar(numerics::Scalar::I1) {
            let byte = value.into_int_value();
            return self.ir.icmp(inkwell::IntPredicate::NE, byte, byte.get_type().const_zero()).into();
        }
        if elem.bits() < 8 {
            return self.ir.resize(value.into_int_value(), self.ir.int_type(elem.bits()), false).into();
        }
        value
    }
    /// Converts a value from its register form to its memory form.
    pub(crate) fn memory_form(&self, elem: Elem, value: Val<'c>) -> Val<'c> {
        if elem.bits() < 8 {
            return self.ir.resize(value.into_int_value(), self.ir.int_type(8), false).into();
        }
        value
    }
}
