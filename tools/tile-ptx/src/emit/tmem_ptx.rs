//! Tensor memory (TMEM) and the `tcgen05` instructions.
//! The first warp of the CTA allocates and frees TMEM. The first thread of a warp role issues the role's MMAs. Each warp loads and
//! stores the TMEM lanes that it can access.
//!
//! A `tcgen05.wait` follows each group of TMEM loads or stores. Barriers and pipeline operations order TMEM accesses between
//! threads, so a `tcgen05.fence` precedes each arrival and follows each wait.

use super::Emitter;
use super::tma_ptx::operand_names;
use crate::ir::Val;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Region, Value};
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::packed_ops::Packed;
use sched::{FunctionAttrs, Op, WarpRole};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tileas::effects::BufferAccess;
use tileas::layout::xor_of_bases;
use tileas::mma_sync_atoms::Operand;
use tileas::tensor_memory::{LaneAtom, TensorAtom, TmemBit, TmemPosition, TmemSlice, WARP_BITS, instruction_extents};
use tileas::wgmma_atoms::Matrix;
use tileas::{Buffer, BufferInfo, Layout, MmaOperand, Space};

/// The distance of two neighbouring lanes in TMEM addresses: the lane number is in the upper 16 bits.
const TMEM_LANE_STRIDE: u32 = 1 << 16;
/// Log2 of the unit of addresses and offsets in a descriptor, in bytes.
const DESCRIPTOR_UNIT_BITS: u32 = 4;
/// The bits of a descriptor that hold the address, in descriptor units.
pub(super) const ADDRESS_BITS: u32 = 0x3fff;
/// Maximum number of 32-bit registers per thread that one `tcgen05.ld` or `tcgen05.st` transfers (`.32x32b.x128` in the PTX ISA).
const MAX_INSTRUCTION_REGISTERS: u32 = 128;
/// Position of the two bits in the scale address of `tcgen05.mma` that select the byte of the first scale in its 32-bit word. The
/// lower bits of the address are the TMEM address of the word.
const SCALE_BYTE_SHIFT: u32 = 30;
/// Maximum number of accumulator words that a thread loads, rescales and stores before the next words, to limit live registers.
const WORDS_PER_RESCALE: u32 = 16;
/// Number of registers of a thread that ptxas needs for other values than the words that a load or store moves. Source: ptxas 13.5.37
/// rejects a `tcgen05.ld` of N words (N from 16 to 128) if a thread has less than N + 18 registers (message C7602). A limit is a
/// multiple of 8.
const RESERVED_REGISTERS: u32 = 24;

/// An MMA operand: the descriptor or TMEM address of its first element, and its memory layout. The layout gives the offset of each
/// instruction's part of the operand.
struct MmaOperandStart<'c> {
    start: IntValue<'c>,
    memory: OperandMemory,
    /// Whether adjacent elements in memory are in adjacent rows (A) or columns (B) of the operand, instead of at adjacent K.
    transposed: bool,
}

/// The memory of an MMA operand, with its layout.
enum OperandMemory {
    Shared(Matrix),
    Tensor(BufferInfo),
}

/// The scales of the operands of an MMA. One scale applies to `block_elements` elements along K.
struct MmaScales<'a> {
    a_scales: &'a BufferInfo,
    b_scales: &'a BufferInfo,
    block_elements: u32,
}

impl MmaScales<'_> {
    /// The TMEM positions of the scales of A and B for the instruction at this row, column and K coordinate `step`.
    fn scale_positions(&self, [row, column]: [u32; 2], step: u32) -> [TmemPosition; 2] {
        let block = step / self.block_elements;
        let elements = [row * self.a_scales.shape[2] + block, block * self.b_scales.shape[2] + column];
        let position =
            |(info, element): (&BufferInfo, u32)| info.tmem_position(element).expect("the verifier checks the positions of scales");
        let mut both = [self.a_scales, self.b_scales].into_iter().zip(elements).map(position);
        std::array::from_fn(|_| both.next().expect("there are two"))
    }
}

/// Number of scale blocks along K. A scale block is the group of elements along K of one row of A that share a scale.
fn scale_blocks_along_k(a_scales: &BufferInfo) -> u32 {
    a_scales.shape[2]
}

/// One instruction that copies 32-bit words between TMEM and registers. `tmem_offset` is the TMEM offset of its first word, and
/// `words` has the TMEM offsets of all its words.
struct TmemMove {
    tmem_offset: u32,
    words: Vec<u32>,
}

impl<'c> Emitter<'c, '_> {
    /// Emits the allocation of the kernel's TMEM columns, if it has any. Threads can load the base address after the next CTA
    /// barrier.
    pub(super) fn allocate_tmem(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        let base = self.shared_base.expect("the TMEM base address is in shared memory");
        let cta_group = self.cta_group();
        self.emit_guarded(Some(self.is_first_warp()), &[], |e| {
            let text = format!(
                "tcgen05.alloc.cta_group::{cta_group}.sync.aligned.shared::cta.b32 [$0+{}], {};\n\ttcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned;",
                tensor.address, tensor.columns
            );
            e.ir.asm(None, &text, "r", &[base.into()], true);
            Vec::new()
        });
    }

    /// Whether the kernel allocates TMEM before it branches to the warp roles, so that all threads wait for the allocation.
    /// Otherwise, only the roles that access TMEM wait. The result is true in three cases. The kernel has no warp roles. It runs
    /// as a CTA pair, in which both CTAs must allocate before any MMA. Or a role loads from global memory before it accesses TMEM:
    /// without the common wait, TMA copies of other roles would start before this load and delay it.
    pub(super) fn allocates_tmem_before_roles(&self) -> bool {
        let FunctionAttrs { warp_roles, program, .. } = &self.function.attrs;
        let loads_global_before_tmem_access = |(_, body): (WarpRole, Region)| {
            let mut ops = self.function.body.walk(body).into_iter().take_while(|op| !self.op_accesses_tmem(*op));
            let is_load = |kind: &Op| matches!(kind, Op::Core(tileas::Op::Load { .. } | tileas::Op::LoadView { .. }));
            ops.any(|op| is_load(&self.function.body.ops[op].kind))
        };
        warp_roles.is_empty() || program.cta_pair || self.roles_that_access_tmem().any(loads_global_before_tmem_access)
    }

    /// The warp roles that access TMEM, each with its body.
    fn roles_that_access_tmem(&self) -> impl Iterator<Item = (WarpRole, Region)> {
        let body = &self.function.body;
        body.blocks[self.function.entry()].ops.iter().filter_map(|op| match body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body } if self.accesses_tmem(body) => Some((warp_role, body)),
            _ => None,
        })
    }

    /// Emits the TMEM allocation at the start of a warp role, unless [`Self::allocates_tmem_before_roles`]. The first role
    /// allocates TMEM, and arrives at the named barrier of each other role that accesses TMEM. These other roles wait at their
    /// barriers.
    pub(super) fn allocate_tmem_for_roles(&mut self, warp_role: WarpRole) {
        let attrs = &self.function.attrs;
        if attrs.tensor.is_none() || self.allocates_tmem_before_roles() || warp_role != WarpRole(0) && !self.role_accesses_tmem {
            return;
        }
        // Number of threads of the allocating warp, which arrive in addition to the threads of the waiting role.
        let warp_threads = 32;
        if warp_role == WarpRole(0) {
            self.allocate_tmem();
            self.emit_guarded(Some(self.is_first_warp()), &[], |e| {
                for (other, _) in self.roles_that_access_tmem().filter(|(other, _)| *other != warp_role) {
                    let args =
                        [other.barrier_id(), attrs.warp_roles[other].threads() + warp_threads].map(|arg| e.ir.const32(arg).into());
                    e.ir.call_intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count", &[], &args);
                }
                Vec::new()
            });
            self.barrier_of_current_threads();
        } else {
            self.emit_barrier(warp_role.barrier_id(), attrs.warp_roles[warp_role].threads() + warp_threads);
        }
        self.load_tmem_base();
    }

    /// Emits the load of the TMEM base address, and stores it in `tmem_base` for the ops emitted later.
    pub(super) fn load_tmem_base(&mut self) {
        self.tmem_base = self.emit_tmem_base_load();
    }

    /// Emits the load of the TMEM base address, which `tcgen05.alloc` has written to shared memory. `None` if the kernel has no
    /// TMEM.
    fn emit_tmem_base_load(&self) -> Option<IntValue<'c>> {
        let tensor = self.function.attrs.tensor?;
        let base = self.shared_base.expect("the TMEM base address is in shared memory");
        let text = format!("ld.shared.b32 $0, [$1+{}];", tensor.address);
        let start =
            self.ir.asm(Some(self.ir.i32().into()), &text, "=r,r", &[base.into()], true).expect("the assembly returns a value");
        Some(start.into_int_value())
    }

    /// Emits the release of the TMEM columns. All accesses must be complete.
    pub(super) fn free_tmem(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        self.emit_guarded(Some(self.is_first_warp()), &[], |e| {
            let start = e.emit_tmem_base_load().expect("the function has TMEM columns");
            e.emit_instruction("bar.warp.sync 0xffffffff;");
            let text = format!("tcgen05.dealloc.cta_group::{}.sync.aligned.b32 $0, {};", e.cta_group(), tensor.columns);
            e.ir.asm(None, &text, "r", &[start.into()], true);
            Vec::new()
        });
    }

    /// Emits the predicate that the thread is in warp 0.
    fn is_first_warp(&self) -> IntValue<'c> {
        self.ir.icmp(IntPredicate::ULT, self.thread_index, self.ir.const32(32))
    }

    /// Whether a region accesses TMEM.
    pub(super) fn accesses_tmem(&self, region: Region) -> bool {
        self.function.body.walk(region).into_iter().any(|op| self.op_accesses_tmem(op))
    }

    /// Returns whether an op accesses a buffer in tensor memory.
    fn op_accesses_tmem(&self, op: OpId) -> bool {
        let is_in_tmem = |access: &BufferAccess| self.function.attrs.program.buffers[access.buffer].space == Space::Tensor;
        self.function.body.ops[op].kind.effects().buffers.iter().any(is_in_tmem)
    }

    /// Emits a fence between TMEM accesses and barriers. With `before`, it orders this thread's earlier accesses before the
    /// arrivals that follow. Otherwise, it orders this thread's later accesses after the waits that precede. A warp role without
    /// TMEM accesses needs no fence.
    pub(super) fn tmem_fence(&self, before: bool) {
        if self.function.attrs.tensor.is_some() && self.role_accesses_tmem {
            self.emit_instruction(match before {
                true => "tcgen05.fence::before_thread_sync;",
                false => "tcgen05.fence::after_thread_sync;",
            });
        }
    }

    /// The TMEM address of the current stage of a buffer.
    fn tmem_address(&self, buffer: Buffer) -> IntValue<'c> {
        let ir = self.ir;
        let base = self.tmem_base.expect("a function with such buffers has tensor memory");
        let first = ir.add(base, ir.const32(self.function.attrs.placements[buffer].offset));
        let columns = self.function.attrs.program.buffers[buffer].columns();
        self.current_stages.get(&buffer).map_or(first, |stage| ir.add(first, ir.mul(*stage, ir.const32(columns))))
    }

    // MMAs.

    /// Emits the `tcgen05.mma` instructions of an MMA op: one for each K step and each part of the tile that one instruction
    /// computes.
    pub(super) fn tcgen05_mma(&mut self, op: OpId, program: &tileas::Op, atom: &TensorAtom) -> Result<()> {
        let tileas::Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, .. } = program else {
            unreachable!("called for MMA ops only")
        };
        let scales_buffer = |place: &Option<MmaOperand>| place.as_ref().and_then(MmaOperand::buffer);
        let scales = scales_buffer(lhs_scale).zip(scales_buffer(rhs_scale));
        let MmaOperand::Memory { buffer: accumulators, .. } = acc else { return Err(self.unsupported(op)) };
        let (Some(left), Some(right)) = (lhs.buffer(), rhs.buffer()) else { return Err(self.unsupported(op)) };
        let ir = self.ir;
        let buffers = &self.function.attrs.program.buffers;
        let accumulator_info = &buffers[*accumulators];
        let [m, n] = *accumulator_info.shape.last_chunk::<2>().expect("accumulators are a matrix");
        let k_extent = {
            let shape = buffers[right].shape.last_chunk::<2>().expect("an operand is a matrix");
            shape[usize::from(matches!(rhs, MmaOperand::Memory { transposed: true, .. }))]
        };
        let accumulates = match zero_init {
            Some(zero_init) => ir.not(self.scalar_value(*zero_init).into_int_value()),
            None => ir.context.bool_type().const_all_ones(),
        };
        let [rows, columns] = instruction_extents([m, n]);
        let cta_group = self.cta_group();
        self.emit_guarded(Some(self.is_mma_thread()), &[], |e| {
            let (a_operand, b_operand) = (e.mma_operand_start(lhs, left, Operand::A), e.mma_operand_start(rhs, right, Operand::B));
            let elems = [(left, *signed_lhs), (right, *signed_rhs)].map(|(buffer, signed)| (buffers[buffer].elem.carrier(), signed));
            let descriptor = atom.descriptor(elems, [a_operand.transposed, b_operand.transposed], [rows * cta_group, columns]);
            let in_memory = matches!(a_operand.memory, OperandMemory::Shared(_));
            let a_register_type = if in_memory { "b64" } else { "b32" };
            let scale_registers = if scales.is_some() { ", sa, sb" } else { "" };
            let mut text = format!(
                "{{\n\t.reg .{a_register_type} a;\n\t.reg .b64 b;\n\t.reg .b32 d, form{scale_registers};\n\t.reg .pred more;\n\tmov.b32 form, {descriptor};\n\tsetp.ne.b32 more, 1, 0;\n\t"
            );
            let scales_of = |(a_scales, b_scales)| MmaScales {
                a_scales: &buffers[a_scales],
                b_scales: &buffers[b_scales],
                block_elements: k_extent / scale_blocks_along_k(&buffers[a_scales]),
            };
            let mma_scales = scales.map(scales_of);
            for step in (0..k_extent).step_by(atom.k as usize) {
                let scale_d = if step == 0 { "$3" } else { "more" };
                for row in (0..m).step_by(rows as usize) {
                    for column in (0..n).step_by(columns as usize) {
                        let d = column_of(accumulator_info, row * n + column);
                        let (a_offset, b_offset) = (a_operand.offset(row, step, k_extent), b_operand.offset(column, step, k_extent));
                        let mut with_offset = |name: &'static str, bits: &str, base: &'static str, offset: u32| match offset {
                            0 => base,
                            _ => {
                                let _ = write!(text, "add.s{bits} {name}, {base}, {offset};\n\t");
                                name
                            }
                        };
                        let (d, b) = (with_offset("d", "32", "$0", d), with_offset("b", "64", "$2", b_offset));
                        let a = with_offset("a", &a_register_type[1..], "$1", a_offset);
                        let a = if in_memory { a.to_string() } else { format!("[{a}]") };
                        let scale_operands = mma_scales.as_ref().map_or(String::new(), |scales| {
                            let [a_position, b_position] = scales.scale_positions([row, column], step);
                            let word_parts = [a_position.part, b_position.part];
                            let descriptor = descriptor | TensorAtom::scales_descriptor(scales.a_scales.elem.carrier(), word_parts);
                            let [sa, sb] = [a_position, b_position]
                                .map(|position| (position.column | position.part << SCALE_BYTE_SHIFT).cast_signed());
                            let _ = write!(text, "mov.b32 form, {descriptor};\n\tadd.s32 sa, $4, {sa};\n\tadd.s32 sb, $5, {sb};\n\t");
                            ", [sa], [sb]".into()
                        });
                        let _ = write!(
                            text,
                            "tcgen05.mma.cta_group::{cta_group}.kind::{} [{d}], {a}, {b}, form{scale_operands}, {scale_d};\n\t",
                            atom.kind
                        );
                    }
                }
            }
            text += "}";
            let mut constraints = if in_memory { "r,l,l,b" } else { "r,r,l,b" }.to_string();
            let mut args: Vec<Val<'c>> = vec![e.tmem_address(*accumulators).into()];
            args.extend([a_operand.start, b_operand.start, accumulates].map(Val::from));
            if let Some((a_scales, b_scales)) = scales {
                constraints += ",r,r";
                args.extend([a_scales, b_scales].map(|buffer| Val::from(e.tmem_address(buffer))));
            }
            ir.asm(None, &text, &constraints, &args, true);
            Vec::new()
        });
        Ok(())
    }

    /// Returns the descriptor or the TMEM address at which an operand starts.
    fn mma_operand_start(&self, place: &MmaOperand, buffer: Buffer, operand: Operand) -> MmaOperandStart<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let transposed = matches!(place, MmaOperand::Memory { transposed: true, .. });
        if info.space == Space::Tensor {
            return MmaOperandStart {
                start: self.tmem_address(buffer),
                memory: OperandMemory::Tensor(info.clone()),
                transposed: false,
            };
        }
        let matrix =
            Matrix::from_buffer(info, operand, transposed).expect("the verifier checks that a descriptor can express its position");
        let start = ir.add(self.buffer_start(buffer), ir.const32(self.function.attrs.placements[buffer].offset));
        let address_units = ir.and(ir.shr(start, ir.const32(DESCRIPTOR_UNIT_BITS), false), ir.const32(ADDRESS_BITS));
        let start = ir.or(ir.resize(address_units, ir.i64(), false), ir.const64(matrix.tensor_descriptor()));
        MmaOperandStart { start, memory: OperandMemory::Shared(matrix), transposed: !matrix.along_depth }
    }

    // Loads and stores.

    /// Emits the `tcgen05.ld` instructions that load a slice of a buffer.
    pub(super) fn tmem_load(&mut self, buffer: Buffer, from: u32, atom: &LaneAtom, result: Value) {
        let ir = self.ir;
        let (elem, layout) = (self.elem(result), self.layout(result));
        let info = &self.function.attrs.program.buffers[buffer];
        let slice =
            TmemSlice::from_extents(&info.shape, self.ty(result).shape(), from).expect("the verifier checks that the slice exists");
        let address = self.address_of_warp_lanes(buffer, &slice, &layout);
        let tmem_moves = plan_tmem_moves(info, &slice, atom, &layout, self.max_move_registers());
        let mut words: BTreeMap<u32, Val<'c>> = BTreeMap::new();
        let lane_split = lane_split_operand(info, &slice, atom, &layout);
        // A batch is a group of load instructions with one wait. Its results need at most `MAX_INSTRUCTION_REGISTERS` registers.
        for batch in tmem_moves.chunks((MAX_INSTRUCTION_REGISTERS as usize / tmem_moves[0].words.len().max(1)).max(1)) {
            let batch_words: Vec<u32> = batch.iter().flat_map(|tmem_move| tmem_move.words.iter().copied()).collect();
            let mut text = String::new();
            let mut first_result = 0;
            for TmemMove { tmem_offset, words: instruction_words } in batch {
                let registers = (first_result..first_result + instruction_words.len())
                    .map(|i| format!("${i}"))
                    .collect::<Vec<String>>()
                    .join(", ");
                let shape_suffix = shape_suffix(atom, instruction_words.len());
                let _ = write!(
                    text,
                    "tcgen05.ld.sync.aligned.{shape_suffix} {{{registers}}}, [${}+{tmem_offset}]{lane_split};\n\t",
                    batch_words.len()
                );
                first_result += instruction_words.len();
            }
            text += "tcgen05.wait::ld.sync.aligned;";
            // The results are early-clobber (`=&r`), because the first results may arrive before the last instruction reads the
            // address.
            let constraints = vec!["=&r"; batch_words.len()].join(",") + ",r";
            let types = vec![ir.i32().into(); batch_words.len()];
            words.extend(batch_words.iter().copied().zip(ir.asm_many(&types, &text, &constraints, &[address.into()], true)));
        }
        let registers = (0..layout.registers() as u32)
            .map(|register| {
                let (word, position_in_word) = tmem_word_of(info, &slice, &layout, register);
                let elements = if elem.bytes() == 4 { vec![words[&word]] } else { self.ir.unpack_word(words[&word], elem) };
                let ty = ir.elem_type(elem);
                if elem.bytes() == 4 {
                    ir.bitcast(elements[0], ty)
                } else {
                    self.register_form(elem, elements[position_in_word as usize])
                }
            })
            .collect();
        self.set_registers(result, registers);
    }

    /// Emits the `tcgen05.st` instructions that store a tile to a slice of a buffer.
    pub(super) fn tmem_store(&mut self, x: Value, buffer: Buffer, from: u32, atom: &LaneAtom) {
        let ir = self.ir;
        let (elem, layout) = (self.elem(x), self.layout(x));
        let info = &self.function.attrs.program.buffers[buffer];
        let slice =
            TmemSlice::from_extents(&info.shape, self.ty(x).shape(), from).expect("the verifier checks that the slice exists");
        let address = self.address_of_warp_lanes(buffer, &slice, &layout);
        let mut elements_of_word: BTreeMap<u32, BTreeMap<u32, Val<'c>>> = BTreeMap::new();
        for (register, value) in self.registers_of(x).iter().enumerate() {
            let (word, position_in_word) = tmem_word_of(info, &slice, &layout, register as u32);
            elements_of_word.entry(word).or_default().insert(position_in_word, self.memory_form(elem, *value));
        }
        let packed_word = |word: &u32| -> Val<'c> {
            let values: Vec<Val<'c>> = elements_of_word[word].values().copied().collect();
            let bits = values.len() as u32 * elem.bytes() * 8;
            let packed = if values.len() == 1 { values[0] } else { ir.pack(&values) };
            // A word with fewer than four bytes has zeros in its upper bits.
            ir.resize(ir.bitcast(packed, ir.int_type(bits)).into_int_value(), ir.i32(), false).into()
        };
        // The words of a store need consecutive registers, in addition to the registers of their source values. Each store
        // therefore has at most half of the maximum number of words.
        for TmemMove { tmem_offset, words } in &plan_tmem_moves(info, &slice, atom, &layout, self.max_move_registers() / 2) {
            let registers = operand_names(1, words.len());
            let text = format!(
                "tcgen05.st.sync.aligned.{} [$0+{tmem_offset}]{}, {{{registers}}};",
                shape_suffix(atom, words.len()),
                lane_split_operand(info, &slice, atom, &layout)
            );
            let constraints = "r".to_string() + &",r".repeat(words.len());
            let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(words.iter().map(packed_word)).collect();
            ir.asm(None, &text, &constraints, &args, true);
        }
        self.emit_instruction("tcgen05.wait::st.sync.aligned;");
    }

    /// Emits the multiplication of accumulator rows by `row_factors`, a few columns at a time. A warp skips the multiplication if
    /// all its factors are 1. Before the first MMA (`zero_init` is true), the emitted code stores zeros instead.
    pub(super) fn tmem_scale(&mut self, row_factors: Value, buffer: Buffer, zero_init: Value, atom: &LaneAtom) {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let (factor_layout, factors) = (self.layout(row_factors), self.registers_of(row_factors).to_vec());
        let (layout, _) =
            atom.full_and_row_layouts(info, factor_layout.warp.len()).expect("the verifier checks that the atom reaches all");
        let slice = TmemSlice::from_extents(&info.shape, &info.shape, 0).expect("a buffer is a slice of itself");
        let column_bits = info.shape.last().map_or(0, |columns| columns.trailing_zeros());
        let factor_of_row: BTreeMap<u32, Val<'c>> = factors
            .iter()
            .enumerate()
            .map(|(register, factor)| (xor_of_bases(&factor_layout.register, register as u32), *factor))
            .collect();
        let factor_of_register = |register: u32| factor_of_row[&(xor_of_bases(&layout.register, register) >> column_bits)];
        let factor_of_word: BTreeMap<u32, Val<'c>> = (0..layout.registers() as u32)
            .map(|register| (tmem_word_of(info, &slice, &layout, register).0, factor_of_register(register)))
            .collect();
        let zero_init = self.scalar_value(zero_init).into_int_value();
        let address = self.address_of_warp_lanes(buffer, &slice, &layout);
        let tmem_moves = plan_tmem_moves(info, &slice, atom, &layout, self.max_move_registers().min(WORDS_PER_RESCALE));
        let lane_split = lane_split_operand(info, &slice, atom, &layout);
        let emit_rescale = |e: &Self, load: &dyn Fn(&TmemMove) -> Vec<Val<'c>>| {
            for tmem_move in &tmem_moves {
                let factors: Vec<Val<'c>> = tmem_move.words.iter().map(|word| factor_of_word[word]).collect();
                let words = load(tmem_move);
                let scaled = factors.chunks(2).zip(words.chunks(2)).flat_map(|(factors, words)| e.rescaled_words(words, factors));
                let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(scaled).collect();
                let (shape_suffix, word_count) = (shape_suffix(atom, tmem_move.words.len()), tmem_move.words.len());
                let text = format!(
                    "tcgen05.st.sync.aligned.{shape_suffix} [$0+{}]{lane_split}, {{{}}};",
                    tmem_move.tmem_offset,
                    operand_names(1, word_count)
                );
                ir.asm(None, &text, &("r".to_string() + &",r".repeat(word_count)), &args, true);
            }
            e.emit_instruction("tcgen05.wait::st.sync.aligned;");
            Vec::new()
        };
        let loaded_words = |tmem_move: &TmemMove| {
            let (shape_suffix, word_count) = (shape_suffix(atom, tmem_move.words.len()), tmem_move.words.len());
            let text = format!(
                "tcgen05.ld.sync.aligned.{shape_suffix} {{{}}}, [${word_count}+{}]{lane_split};\n\ttcgen05.wait::ld.sync.aligned;",
                operand_names(0, word_count),
                tmem_move.tmem_offset
            );
            let constraints = vec!["=&r"; word_count].join(",") + ",r";
            ir.asm_many(&vec![ir.i32().into(); word_count], &text, &constraints, &[address.into()], true)
        };
        let zero_words = |tmem_move: &TmemMove| vec![ir.const32(0).into(); tmem_move.words.len()];
        self.emit_guarded(Some(zero_init), &[], |e| emit_rescale(e, &zero_words));
        let needs_rescale = ir.and(self.has_factor_other_than_one(&factors), ir.not(zero_init));
        self.emit_guarded(Some(needs_rescale), &[], |e| emit_rescale(e, &loaded_words));
    }

    /// Multiplies one or two words, which hold f32 values, by their factors. Returns the new words.
    fn rescaled_words(&self, words: &[Val<'c>], factors: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        let floats: Vec<Val<'c>> = words.iter().map(|word| ir.bitcast(*word, factors[0].get_type())).collect();
        let scaled_floats = match (&floats[..], factors) {
            ([float], [factor]) => {
                let [float, factor] = [float, factor].map(|side| side.into_float_value());
                vec![ir.builder.build_float_mul(float, factor, "").expect("the builder is in a block").into()]
            }
            _ => ir.unpack(self.packed_arithmetic(Packed::Mul, &[ir.pack(&floats), ir.pack(factors)]), 2),
        };
        scaled_floats.into_iter().map(|product| ir.bitcast(product, ir.i32())).collect()
    }

    /// Emits a vote: whether any thread of the warp has a factor other than 1.
    fn has_factor_other_than_one(&self, factors: &[Val<'c>]) -> IntValue<'c> {
        let ir = self.ir;
        let is_not_one = |factor: &Val<'c>| {
            let bits = ir.bitcast(*factor, ir.i32()).into_int_value();
            ir.icmp(IntPredicate::NE, bits, ir.const32(1f32.to_bits()))
        };
        let is_not_one = factors.iter().map(is_not_one).reduce(|a, b| ir.or(a, b)).expect("a tile has elements");
        let any_lane = ir.call_intrinsic("llvm.nvvm.vote.any.sync", &[], &[ir.const32(u32::MAX).into(), is_not_one.into()]);
        any_lane.expect("the vote has a result").into_int_value()
    }

    /// Maximum number of registers that one TMEM load or store may transfer, given the registers of a thread at launch.
    fn max_move_registers(&self) -> u32 {
        let launch_registers = self.function.attrs.launch_registers(self.target);
        launch_registers
            .saturating_sub(RESERVED_REGISTERS)
            .checked_ilog2()
            .map_or(1, |bits| 1 << bits)
            .min(MAX_INSTRUCTION_REGISTERS)
    }

    /// The TMEM address of the first word that this warp accesses. It has the warp's first TMEM lane and, in warps after the first
    /// four, the warp's first column.
    fn address_of_warp_lanes(&self, buffer: Buffer, slice: &TmemSlice, layout: &Layout) -> IntValue<'c> {
        let info = &self.function.attrs.program.buffers[buffer];
        let column_offsets = layout.warp[WARP_BITS..].iter().map(|basis| column_of(info, slice.buffer_element_from_0(*basis)));
        let address_bases: Vec<u32> =
            [0; 5].into_iter().chain([32 * TMEM_LANE_STRIDE, 64 * TMEM_LANE_STRIDE]).chain(column_offsets).collect();
        self.ir.add(self.tmem_address(buffer), self.xor_of_bases(self.thread_index, &address_bases))
    }
}

impl MmaOperandStart<'_> {
    /// The offset of the operand's part that starts at a row of A or a column of B, and at the K coordinate `step`. The unit is the
    /// descriptor unit (16 bytes) in shared memory, and the column in TMEM.
    fn offset(&self, row_or_column: u32, step: u32, k_extent: u32) -> u32 {
        match &self.memory {
            OperandMemory::Shared(matrix) => matrix.element_offset(row_or_column, step) >> DESCRIPTOR_UNIT_BITS,
            OperandMemory::Tensor(info) => column_of(info, row_or_column * k_extent + step),
        }
    }
}

/// The TMEM column of an element, relative to the first column of the buffer.
fn column_of(info: &BufferInfo, element: u32) -> u32 {
    info.tmem_position(element).expect("the verifier checks that every element has a position").column
}

/// For a register of a warp's first thread, returns the TMEM offset of the 32-bit word that holds the register's element. The
/// second result is the position of the element in this word.
fn tmem_word_of(info: &BufferInfo, slice: &TmemSlice, layout: &Layout, register: u32) -> (u32, u32) {
    let element = slice.buffer_element(xor_of_bases(&layout.register, register));
    let position = info.tmem_position(element).expect("the verifier checks that every element has a position");
    (position.lane * TMEM_LANE_STRIDE + position.column, position.part)
}

/// The shape, repeat count and type in the name of a `tcgen05.ld` or `tcgen05.st` instruction, such as `32x32b.x16.b32`.
fn shape_suffix(atom: &LaneAtom, words: usize) -> String {
    format!("{}.x{}.b32", atom.name, words >> atom.register.len())
}

/// The text of the immediate operand of the `16x32bx2` shape: the column offset of the upper half of the lanes. Empty for all other
/// shapes.
fn lane_split_operand(info: &BufferInfo, slice: &TmemSlice, atom: &LaneAtom, layout: &Layout) -> String {
    let split_lane_bit = atom.lane.iter().position(|cell| *cell == TmemBit::SplitOffset);
    split_lane_bit.map_or(String::new(), |bit| format!(", {}", column_of(info, slice.buffer_element_from_0(layout.lane[bit]))))
}

/// Computes the instructions that together transfer all words of a tile. Each instruction has the largest possible repeat count.
fn plan_tmem_moves(info: &BufferInfo, slice: &TmemSlice, atom: &LaneAtom, layout: &Layout, max_registers: u32) -> Vec<TmemMove> {
    let mut words: Vec<u32> =
        (0..layout.registers() as u32).map(|register| tmem_word_of(info, slice, layout, register).0).collect();
    words.sort_unstable();
    words.dedup();
    let word_offsets: Vec<u32> = (0..1u32 << atom.register.len())
        .map(|number| {
            let bits = atom.register.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
            bits.map(|(_, cell)| match cell {
                TmemBit::Lane(bit) => TMEM_LANE_STRIDE << bit,
                TmemBit::Column(bit) => 1 << bit,
                TmemBit::SplitOffset => 0,
            })
            .sum()
        })
        .collect();
    let repeat_offset = 1 << atom.column_bits();
    let mut tmem_moves = Vec::new();
    let mut remaining: std::collections::BTreeSet<u32> = words.into_iter().collect();
    while let Some(first_word) = remaining.first().copied() {
        let max_count = (max_registers / word_offsets.len() as u32).max(1);
        let all_words_remain = |count: u32| (0..count).all(|i| remaining.contains(&(first_word + i * repeat_offset)));
        let count = (0..=max_count.ilog2()).rev().map(|bits| 1 << bits).find(|count| all_words_remain(*count)).unwrap_or(1);
        let words: Vec<u32> =
            (0..count).flat_map(|i| word_offsets.iter().map(move |word| first_word + i * repeat_offset + word)).collect();
        words.iter().for_each(|word| _ = remaining.remove(word));
        tmem_moves.push(TmemMove { tmem_offset: first_word, words });
    }
    tmem_moves
}
