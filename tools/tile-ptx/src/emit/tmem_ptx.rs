//! Tensor memory (TMEM) and `tcgen05`.
//! The first warp of the CTA allocates and frees TMEM. The first thread of a warp role issues its MMAs. Each warp loads and
//! stores the lanes that it can access.
//!
//! A wait follows each load and store. Barriers and pipelines order TMEM accesses too, so a `tcgen05.fence` precedes and follows
//! them.

use super::Emitter;
use super::tma_ptx::operands;
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
use tileas::layout::apply;
use tileas::mma_sync_atoms::Operand;
use tileas::tensor_memory::{Cell, LaneAtom, Spot, TensorAtom, TmemSlice, WARP_BITS, instruction_extents};
use tileas::wgmma_atoms::Matrix;
use tileas::{Buffer, BufferInfo, Layout, MmaOperand, Space};

/// The lane number's position in a TMEM address.
const LANE: u32 = 1 << 16;
/// Descriptors count in units of `1 << UNIT_BITS` bytes.
const UNIT_BITS: u32 = 4;
/// The bits of a descriptor that hold an address.
pub(super) const ADDRESS_BITS: u32 = 0x3fff;
/// Maximum number of registers of one instruction.
const MAX_REGISTERS: u32 = 128;
/// The position, in the address of scales, of the bits that select the first scale in a word.
const SCALE_BYTE_SHIFT: u32 = 30;
/// Number of accumulator words that a thread rescales at a time.
const WORDS_PER_RESCALE: u32 = 16;
/// Number of registers that ptxas needs for other purposes, out of the registers of a thread at launch.
const OTHER_REGISTERS: u32 = 24;

/// An MMA operand: the descriptor or TMEM address of its start, and the layout that gives the offsets of its parts.
struct MmaOperandStart<'c> {
    start: IntValue<'c>,
    memory: OperandMemory,
    /// Whether the operand is contiguous along its rows (A) or columns (B) instead of K.
    transposed: bool,
}

enum OperandMemory {
    Shared(Matrix),
    Tensor(BufferInfo),
}

/// The scales of an MMA's operands, one per `block` elements along K.
struct Scales<'a> {
    a_scales: &'a BufferInfo,
    b_scales: &'a BufferInfo,
    block: u32,
}

impl Scales<'_> {
    /// The positions of A's and B's scales for an instruction at this row, column and K step.
    fn spots(&self, [row, column]: [u32; 2], step: u32) -> [Spot; 2] {
        let block = step / self.block;
        let elements = [row * self.a_scales.shape[2] + block, block * self.b_scales.shape[2] + column];
        let spot = |(info, element): (&BufferInfo, u32)| info.spot(element).expect("the verifier checks the positions of scales");
        let mut both = [self.a_scales, self.b_scales].into_iter().zip(elements).map(spot);
        std::array::from_fn(|_| both.next().expect("there are two"))
    }
}

/// Number of blocks along K that have a scale in the left operand's scales.
fn k_blocks(a_scales: &BufferInfo) -> u32 {
    a_scales.shape[2]
}

/// One instruction that moves words between TMEM and registers: its TMEM offset, and the TMEM addresses of its words.
struct TmemMove {
    at: u32,
    words: Vec<u32>,
}

impl<'c> Emitter<'c, '_> {
    /// Allocates the function's TMEM columns. Threads can load the address after the next CTA barrier.
    pub(super) fn allocate_tensor_memory(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        let base = self.shared_base.expect("the TMEM base address is in shared memory");
        let group = self.cta_group();
        self.guarded(Some(self.first_warp()), &[], |e| {
            let text = format!(
                "tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [$0+{}], {};\n\ttcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;",
                tensor.address, tensor.columns
            );
            e.ir.asm(None, &text, "r", &[base.into()], true);
            Vec::new()
        });
    }

    /// Whether TMEM is allocated before all warp roles. That is the case without roles, in a CTA pair (both CTAs must allocate
    /// first), and if a role loads an initial accumulator from global memory. In the last case TMA copies issued earlier would
    /// overtake that load.
    /// Otherwise only the roles that access TMEM wait for the allocation.
    pub(super) fn allocates_tensor_memory_first(&self) -> bool {
        let FunctionAttrs { warp_roles, program, .. } = &self.function.attrs;
        let loads_before_tmem_access = |(_, body): (WarpRole, Region)| {
            let mut ops = self.function.body.walk(body).into_iter().take_while(|op| !self.is_of_tensor_memory(*op));
            let is_load = |kind: &Op| matches!(kind, Op::Core(tileas::Op::Load { .. } | tileas::Op::LoadView { .. }));
            ops.any(|op| is_load(&self.function.body.ops[op].kind))
        };
        warp_roles.is_empty() || program.cta_pair || self.roles_of_tensor_memory().any(loads_before_tmem_access)
    }

    /// The warp roles that access TMEM, with their bodies.
    fn roles_of_tensor_memory(&self) -> impl Iterator<Item = (WarpRole, Region)> {
        let body = &self.function.body;
        body.blocks[self.function.entry()].ops.iter().filter_map(|op| match body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body } if self.touches_tensor_memory(body) => Some((warp_role, body)),
            _ => None,
        })
    }

    /// Emits the allocation at the start of a warp role. The first role allocates TMEM, and arrives at the named barrier of each
    /// other role that accesses TMEM.
    pub(super) fn share_tensor_memory(&mut self, warp_role: WarpRole) {
        let attrs = &self.function.attrs;
        if attrs.tensor.is_none() || self.allocates_tensor_memory_first() || warp_role != WarpRole(0) && !self.fences_tensor {
            return;
        }
        let warp = 32;
        if warp_role == WarpRole(0) {
            self.allocate_tensor_memory();
            self.guarded(Some(self.first_warp()), &[], |e| {
                for (other, _) in self.roles_of_tensor_memory().filter(|(other, _)| *other != warp_role) {
                    let args = [other.barrier(), attrs.warp_roles[other].threads() + warp].map(|arg| e.ir.const32(arg).into());
                    e.ir.intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count", &[], &args);
                }
                Vec::new()
            });
            self.block_barrier();
        } else {
            self.barrier(warp_role.barrier(), attrs.warp_roles[warp_role].threads() + warp);
        }
        self.find_tensor_memory();
    }

    /// Loads the TMEM base address.
    pub(super) fn find_tensor_memory(&mut self) {
        self.tensor_base = self.tensor_memory_start();
    }

    fn tensor_memory_start(&self) -> Option<IntValue<'c>> {
        let tensor = self.function.attrs.tensor?;
        let base = self.shared_base.expect("the TMEM base address is in shared memory");
        let text = format!("ld.shared.b32 $0, [$1+{}];", tensor.address);
        let start =
            self.ir.asm(Some(self.ir.i32().into()), &text, "=r,r", &[base.into()], true).expect("the assembly returns a value");
        Some(start.into_int_value())
    }

    /// Frees the TMEM columns. No thread may access them any more.
    pub(super) fn free_tensor_memory(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        self.guarded(Some(self.first_warp()), &[], |e| {
            let start = e.tensor_memory_start().expect("the function has TMEM columns");
            e.instruction_alone("bar.warp.sync 0xffffffff;");
            let text = format!("tcgen05.dealloc.cta_group::{}.sync.aligned.b32 $0, {};", e.cta_group(), tensor.columns);
            e.ir.asm(None, &text, "r", &[start.into()], true);
            Vec::new()
        });
    }

    fn first_warp(&self) -> IntValue<'c> {
        self.ir.icmp(IntPredicate::ULT, self.thread, self.ir.const32(32))
    }

    /// Whether a region accesses TMEM.
    pub(super) fn touches_tensor_memory(&self, region: Region) -> bool {
        self.function.body.walk(region).into_iter().any(|op| self.is_of_tensor_memory(op))
    }

    fn is_of_tensor_memory(&self, op: OpId) -> bool {
        let is_there = |access: &BufferAccess| self.function.attrs.program.buffers[access.buffer].space == Space::Tensor;
        self.function.body.ops[op].kind.effects().buffers.iter().any(is_there)
    }

    /// Orders TMEM accesses and barriers. With `before`, it orders this thread's earlier accesses before the following arrivals;
    /// otherwise, its later accesses after the preceding waits. A warp role without TMEM accesses only forwards arrivals, so it
    /// needs no fence.
    pub(super) fn tensor_fence(&self, before: bool) {
        if self.function.attrs.tensor.is_some() && self.fences_tensor {
            self.instruction_alone(match before {
                true => "tcgen05.fence::before_thread_sync;",
                false => "tcgen05.fence::after_thread_sync;",
            });
        }
    }

    /// The TMEM address of the current stage of a buffer.
    fn tensor_address(&self, buffer: Buffer) -> IntValue<'c> {
        let ir = self.ir;
        let base = self.tensor_base.expect("a function with such buffers has tensor memory");
        let first = ir.add(base, ir.const32(self.function.attrs.placements[buffer].offset));
        let columns = self.function.attrs.program.buffers[buffer].columns();
        self.stages.get(&buffer).map_or(first, |stage| ir.add(first, ir.mul(*stage, ir.const32(columns))))
    }

    // MMAs.

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
        let out = &buffers[*accumulators];
        let [m, n] = *out.shape.last_chunk::<2>().expect("accumulators are a matrix");
        let depth = {
            let shape = buffers[right].shape.last_chunk::<2>().expect("an operand is a matrix");
            shape[usize::from(matches!(rhs, MmaOperand::Memory { transposed: true, .. }))]
        };
        let accumulates = match zero_init {
            Some(zero_init) => ir.not(self.scalar(*zero_init).into_int_value()),
            None => ir.context.bool_type().const_all_ones(),
        };
        let [rows, columns] = instruction_extents([m, n]);
        let group = self.cta_group();
        self.guarded(Some(self.mma_thread()), &[], |e| {
            let (a_operand, b_operand) = (e.operand(lhs, left, Operand::A), e.operand(rhs, right, Operand::B));
            let elems = [(left, *signed_lhs), (right, *signed_rhs)].map(|(buffer, signed)| (buffers[buffer].elem.carrier(), signed));
            let descriptor = atom.descriptor(elems, [a_operand.transposed, b_operand.transposed], [rows * group, columns]);
            let in_memory = matches!(a_operand.memory, OperandMemory::Shared(_));
            let register = if in_memory { "b64" } else { "b32" };
            let scale_registers = if scales.is_some() { ", sa, sb" } else { "" };
            let mut text = format!(
                "{{\n\t.reg .{register} a;\n\t.reg .b64 b;\n\t.reg .b32 d, form{scale_registers};\n\t.reg .pred more;\n\tmov.b32 form, {descriptor};\n\tsetp.ne.b32 more, 1, 0;\n\t"
            );
            let scales_of = |(a_scales, b_scales)| Scales {
                a_scales: &buffers[a_scales],
                b_scales: &buffers[b_scales],
                block: depth / k_blocks(&buffers[a_scales]),
            };
            let scaled = scales.map(scales_of);
            for step in (0..depth).step_by(atom.k as usize) {
                let adds = if step == 0 { "$3" } else { "more" };
                for row in (0..m).step_by(rows as usize) {
                    for column in (0..n).step_by(columns as usize) {
                        let d = column_of(out, row * n + column);
                        let (at_a, at_b) = (a_operand.offset(row, step, depth), b_operand.offset(column, step, depth));
                        let mut with_offset = |name: &'static str, bits: &str, from: &'static str, offset: u32| match offset {
                            0 => from,
                            _ => {
                                let _ = write!(text, "add.s{bits} {name}, {from}, {offset};\n\t");
                                name
                            }
                        };
                        let (d, b) = (with_offset("d", "32", "$0", d), with_offset("b", "64", "$2", at_b));
                        let a = with_offset("a", &register[1..], "$1", at_a);
                        let a = if in_memory { a.to_string() } else { format!("[{a}]") };
                        let scale_operands = scaled.as_ref().map_or(String::new(), |scales| {
                            let [a_spot, b_spot] = scales.spots([row, column], step);
                            let parts = [a_spot.part, b_spot.part];
                            let descriptor = descriptor | TensorAtom::scales_descriptor(scales.a_scales.elem.carrier(), parts);
                            let [sa, sb] = [a_spot, b_spot].map(|spot| (spot.column | spot.part << SCALE_BYTE_SHIFT).cast_signed());
                            let _ = write!(text, "mov.b32 form, {descriptor};\n\tadd.s32 sa, $4, {sa};\n\tadd.s32 sb, $5, {sb};\n\t");
                            ", [sa], [sb]".into()
                        });
                        let _ = write!(
                            text,
                            "tcgen05.mma.cta_group::{group}.kind::{} [{d}], {a}, {b}, form{scale_operands}, {adds};\n\t",
                            atom.kind
                        );
                    }
                }
            }
            text += "}";
            let mut letters = if in_memory { "r,l,l,b" } else { "r,r,l,b" }.to_string();
            let mut args: Vec<Val<'c>> = vec![e.tensor_address(*accumulators).into()];
            args.extend([a_operand.start, b_operand.start, accumulates].map(Val::from));
            if let Some((a_scales, b_scales)) = scales {
                letters += ",r,r";
                args.extend([a_scales, b_scales].map(|buffer| Val::from(e.tensor_address(buffer))));
            }
            ir.asm(None, &text, &letters, &args, true);
            Vec::new()
        });
        Ok(())
    }

    fn operand(&self, place: &MmaOperand, buffer: Buffer, operand: Operand) -> MmaOperandStart<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let transposed = matches!(place, MmaOperand::Memory { transposed: true, .. });
        if info.space == Space::Tensor {
            return MmaOperandStart {
                start: self.tensor_address(buffer),
                memory: OperandMemory::Tensor(info.clone()),
                transposed: false,
            };
        }
        let matrix = Matrix::of(info, operand, transposed).expect("the verifier checks that a descriptor can express its position");
        let start = ir.add(self.buffer_start(buffer), ir.const32(self.function.attrs.placements[buffer].offset));
        let units = ir.and(ir.shr(start, ir.const32(UNIT_BITS), false), ir.const32(ADDRESS_BITS));
        let start = ir.or(ir.resize(units, ir.i64(), false), ir.const64(matrix.tensor_descriptor()));
        MmaOperandStart { start, memory: OperandMemory::Shared(matrix), transposed: !matrix.along_depth }
    }

    // Loads and stores.

    pub(super) fn tmem_load(&mut self, buffer: Buffer, from: u32, atom: &LaneAtom, result: Value) {
        let ir = self.ir;
        let (elem, layout) = (self.elem(result), self.layout(result));
        let info = &self.function.attrs.program.buffers[buffer];
        let part = TmemSlice::of(&info.shape, self.ty(result).shape(), from).expect("the verifier checks that the slice exists");
        let address = self.lanes_address(buffer, &part, &layout);
        let moves = moves(info, &part, atom, &layout, self.max_move_registers());
        let mut words: BTreeMap<u32, Val<'c>> = BTreeMap::new();
        let lane_split = lane_split_operand(info, &part, atom, &layout);
        // A batch has as many instructions as one wait covers.
        for batch in moves.chunks((MAX_REGISTERS as usize / moves[0].words.len().max(1)).max(1)) {
            let all: Vec<u32> = batch.iter().flat_map(|one| one.words.iter().copied()).collect();
            let mut text = String::new();
            let mut first = 0;
            for TmemMove { at, words: own_words } in batch {
                let registers = (first..first + own_words.len()).map(|i| format!("${i}")).collect::<Vec<String>>().join(", ");
                let shape_suffix = shape_suffix(atom, own_words.len());
                let _ =
                    write!(text, "tcgen05.ld.sync.aligned.{shape_suffix} {{{registers}}}, [${}+{at}]{lane_split};\n\t", all.len());
                first += own_words.len();
            }
            text += "tcgen05.wait::ld.sync.aligned;";
            // Early-clobber: the first result may arrive before the last instruction reads the address.
            let letters = vec!["=&r"; all.len()].join(",") + ",r";
            let types = vec![ir.i32().into(); all.len()];
            words.extend(all.iter().copied().zip(ir.asm_many(&types, &text, &letters, &[address.into()], true)));
        }
        let registers = (0..layout.registers() as u32)
            .map(|register| {
                let (word, position_in_word) = tmem_word_of(info, &part, &layout, register);
                let elements = if elem.bytes() == 4 { vec![words[&word]] } else { self.ir.unpack_word(words[&word], elem) };
                let ty = ir.elem(elem);
                if elem.bytes() == 4 {
                    ir.bitcast(elements[0], ty)
                } else {
                    self.register_form(elem, elements[position_in_word as usize])
                }
            })
            .collect();
        self.set(result, registers);
    }

    pub(super) fn tmem_store(&mut self, x: Value, buffer: Buffer, from: u32, atom: &LaneAtom) {
        let ir = self.ir;
        let (elem, layout) = (self.elem(x), self.layout(x));
        let info = &self.function.attrs.program.buffers[buffer];
        let part = TmemSlice::of(&info.shape, self.ty(x).shape(), from).expect("the verifier checks that the slice exists");
        let address = self.lanes_address(buffer, &part, &layout);
        let mut elements_of_word: BTreeMap<u32, BTreeMap<u32, Val<'c>>> = BTreeMap::new();
        for (register, value) in self.get(x).iter().enumerate() {
            let (word, position_in_word) = tmem_word_of(info, &part, &layout, register as u32);
            elements_of_word.entry(word).or_default().insert(position_in_word, self.memory_form(elem, *value));
        }
        let word = |word: &u32| -> Val<'c> {
            let values: Vec<Val<'c>> = elements_of_word[word].values().copied().collect();
            let bits = values.len() as u32 * elem.bytes() * 8;
            let packed = if values.len() == 1 { values[0] } else { ir.pack(&values) };
            // A word with fewer than four bytes has zeros in its upper bits.
            ir.resize(ir.bitcast(packed, ir.int(bits)).into_int_value(), ir.i32(), false).into()
        };
        // The stored words need consecutive registers, in addition to the registers of their sources.
        for TmemMove { at, words } in &moves(info, &part, atom, &layout, self.max_move_registers() / 2) {
            let registers = operands(1, words.len());
            let text = format!(
                "tcgen05.st.sync.aligned.{} [$0+{at}]{}, {{{registers}}};",
                shape_suffix(atom, words.len()),
                lane_split_operand(info, &part, atom, &layout)
            );
            let letters = "r".to_string() + &",r".repeat(words.len());
            let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(words.iter().map(word)).collect();
            ir.asm(None, &text, &letters, &args, true);
        }
        self.instruction_alone("tcgen05.wait::st.sync.aligned;");
    }

    /// Rescales accumulator rows, a few columns at a time. A warp skips the rescaling if all its factors are 1.
    /// Before the first MMA (`zero_init`), it stores zeros instead.
    pub(super) fn tmem_scale(&mut self, by: Value, buffer: Buffer, zero_init: Value, atom: &LaneAtom) {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let (factor_layout, factors) = (self.layout(by), self.get(by).to_vec());
        let (layout, _) =
            atom.whole_and_rows(info, factor_layout.warp.len()).expect("the verifier checks that the atom reaches all");
        let part = TmemSlice::of(&info.shape, &info.shape, 0).expect("a buffer is a slice of itself");
        let column_bits = info.shape.last().map_or(0, |columns| columns.trailing_zeros());
        let factor_of_row: BTreeMap<u32, Val<'c>> = factors
            .iter()
            .enumerate()
            .map(|(register, factor)| (apply(&factor_layout.register, register as u32), *factor))
            .collect();
        let factor = |register: u32| factor_of_row[&(apply(&layout.register, register) >> column_bits)];
        let factor_of_word: BTreeMap<u32, Val<'c>> = (0..layout.registers() as u32)
            .map(|register| (tmem_word_of(info, &part, &layout, register).0, factor(register)))
            .collect();
        let zero_init = self.scalar(zero_init).into_int_value();
        let address = self.lanes_address(buffer, &part, &layout);
        let moves = moves(info, &part, atom, &layout, self.max_move_registers().min(WORDS_PER_RESCALE));
        let lane_split = lane_split_operand(info, &part, atom, &layout);
        let scale = |e: &Self, load: &dyn Fn(&TmemMove) -> Vec<Val<'c>>| {
            for step in &moves {
                let factors: Vec<Val<'c>> = step.words.iter().map(|word| factor_of_word[word]).collect();
                let words = load(step);
                let scaled = factors.chunks(2).zip(words.chunks(2)).flat_map(|(factors, words)| e.rescaled_words(words, factors));
                let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(scaled).collect();
                let (shape_suffix, words) = (shape_suffix(atom, step.words.len()), step.words.len());
                let text =
                    format!("tcgen05.st.sync.aligned.{shape_suffix} [$0+{}]{lane_split}, {{{}}};", step.at, operands(1, words));
                ir.asm(None, &text, &("r".to_string() + &",r".repeat(words)), &args, true);
            }
            e.instruction_alone("tcgen05.wait::st.sync.aligned;");
            Vec::new()
        };
        let loaded_words = |step: &TmemMove| {
            let (shape_suffix, words) = (shape_suffix(atom, step.words.len()), step.words.len());
            let text = format!(
                "tcgen05.ld.sync.aligned.{shape_suffix} {{{}}}, [${words}+{}]{lane_split};\n\ttcgen05.wait::ld.sync.aligned;",
                operands(0, words),
                step.at
            );
            let letters = vec!["=&r"; words].join(",") + ",r";
            ir.asm_many(&vec![ir.i32().into(); words], &text, &letters, &[address.into()], true)
        };
        let zero_words = |step: &TmemMove| vec![ir.const32(0).into(); step.words.len()];
        self.guarded(Some(zero_init), &[], |e| scale(e, &zero_words));
        let needs_rescale = ir.and(self.has_factor_other_than_one(&factors), ir.not(zero_init));
        self.guarded(Some(needs_rescale), &[], |e| scale(e, &loaded_words));
    }

    /// Multiplies one or two float words by their factors.
    fn rescaled_words(&self, words: &[Val<'c>], factors: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        let floats: Vec<Val<'c>> = words.iter().map(|word| ir.bitcast(*word, factors[0].get_type())).collect();
        let products = match (&floats[..], factors) {
            ([float], [factor]) => {
                let [float, factor] = [float, factor].map(|side| side.into_float_value());
                vec![ir.builder.build_float_mul(float, factor, "").expect("the builder is in a block").into()]
            }
            _ => ir.unpack(self.packed_arithmetic(Packed::Mul, &[ir.pack(&floats), ir.pack(factors)]), 2),
        };
        products.into_iter().map(|product| ir.bitcast(product, ir.i32())).collect()
    }

    /// Whether any thread of the warp has a factor other than 1.
    fn has_factor_other_than_one(&self, factors: &[Val<'c>]) -> IntValue<'c> {
        let ir = self.ir;
        let differs = |factor: &Val<'c>| {
            let bits = ir.bitcast(*factor, ir.i32()).into_int_value();
            ir.icmp(IntPredicate::NE, bits, ir.const32(1f32.to_bits()))
        };
        let differs = factors.iter().map(differs).reduce(|a, b| ir.or(a, b)).expect("a tile has elements");
        let some = ir.intrinsic("llvm.nvvm.vote.any.sync", &[], &[ir.const32(u32::MAX).into(), differs.into()]);
        some.expect("the vote has a result").into_int_value()
    }

    /// Maximum number of registers that one instruction may move in a thread of this CTA.
    fn max_move_registers(&self) -> u32 {
        let launched = self.function.attrs.launch_registers(self.target);
        launched.saturating_sub(OTHER_REGISTERS).checked_ilog2().map_or(1, |bits| 1 << bits).min(MAX_REGISTERS)
    }

    /// The TMEM address of this warp's lanes. Warps beyond the fourth access further columns, whose offset is included.
    fn lanes_address(&self, buffer: Buffer, part: &TmemSlice, layout: &Layout) -> IntValue<'c> {
        let info = &self.function.attrs.program.buffers[buffer];
        let column_offsets = layout.warp[WARP_BITS..].iter().map(|basis| column_of(info, part.widened(*basis)));
        let bases: Vec<u32> = [0; 5].into_iter().chain([32 * LANE, 64 * LANE]).chain(column_offsets).collect();
        self.ir.add(self.tensor_address(buffer), self.xor_of_bases(self.thread, &bases))
    }
}

impl MmaOperandStart<'_> {
    /// The offset of the part of the operand at a row or column (`line`) and a K step.
    fn offset(&self, line: u32, step: u32, depth: u32) -> u32 {
        match &self.memory {
            OperandMemory::Shared(matrix) => matrix.start(line, step) >> UNIT_BITS,
            OperandMemory::Tensor(info) => column_of(info, line * depth + step),
        }
    }
}

/// The TMEM column of an element, relative to the buffer.
fn column_of(info: &BufferInfo, element: u32) -> u32 {
    info.spot(element).expect("the verifier checks that every element has a position").column
}

/// The TMEM address of the word that holds a register of a warp's first thread, and the element's position in the word.
fn tmem_word_of(info: &BufferInfo, part: &TmemSlice, layout: &Layout, register: u32) -> (u32, u32) {
    let element = part.element(apply(&layout.register, register));
    let spot = info.spot(element).expect("the verifier checks that every element has a position");
    (spot.lane * LANE + spot.column, spot.part)
}

/// The shape and repeat count in the name of an instruction.
fn shape_suffix(atom: &LaneAtom, words: usize) -> String {
    format!("{}.x{}.b32", atom.name, words >> atom.register.len())
}

/// The immediate operand with the column offset of the upper lanes, if the instruction has one.
fn lane_split_operand(info: &BufferInfo, part: &TmemSlice, atom: &LaneAtom, layout: &Layout) -> String {
    let bit_of_split = atom.lane.iter().position(|cell| *cell == Cell::SplitOffset);
    bit_of_split.map_or(String::new(), |bit| format!(", {}", column_of(info, part.widened(layout.lane[bit]))))
}

/// The instructions that move all words of a tile. Each instruction moves as many consecutive words as possible.
fn moves(info: &BufferInfo, part: &TmemSlice, atom: &LaneAtom, layout: &Layout, max_registers: u32) -> Vec<TmemMove> {
    let mut words: Vec<u32> = (0..layout.registers() as u32).map(|register| tmem_word_of(info, part, layout, register).0).collect();
    words.sort_unstable();
    words.dedup();
    let words_of_instruction: Vec<u32> = (0..1u32 << atom.register.len())
        .map(|number| {
            let bits = atom.register.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
            bits.map(|(_, cell)| match cell {
                Cell::Lane(bit) => LANE << bit,
                Cell::Column(bit) => 1 << bit,
                Cell::SplitOffset => 0,
            })
            .sum()
        })
        .collect();
    let repeat_offset = 1 << atom.column_bits();
    let mut moves = Vec::new();
    let mut remaining: std::collections::BTreeSet<u32> = words.into_iter().collect();
    while let Some(at) = remaining.first().copied() {
        let max_count = (max_registers / words_of_instruction.len() as u32).max(1);
        let all_remain = |count: u32| (0..count).all(|i| remaining.contains(&(at + i * repeat_offset)));
        let count = (0..=max_count.ilog2()).rev().map(|bits| 1 << bits).find(|count| all_remain(*count)).unwrap_or(1);
        let words: Vec<u32> =
            (0..count).flat_map(|i| words_of_instruction.iter().map(move |word| at + i * repeat_offset + word)).collect();
        words.iter().for_each(|word| _ = remaining.remove(word));
        moves.push(TmemMove { at, words });
    }
    moves
}
