//! Tensor memory (TMEM) and `tcgen05`.
//! The first warp of the CTA allocates and frees TMEM. The first thread of a warp role issues its MMAs; warps load and store the
//! lanes that they can access.
//!
//! A wait follows each load and store. Barriers and pipelines order TMEM accesses too, so `tcgen05.fence` precedes and follows
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
/// Descriptors count in units of `1 << UNIT_BITS` bytes and have `ADDRESS_BITS` for addresses.
const UNIT_BITS: u32 = 4;
pub(super) const ADDRESS_BITS: u32 = 0x3fff;
/// Maximum registers of one instruction.
const MAX_REGISTERS: u32 = 128;
/// The address bits that select the first scale in a word.
const PART_OF_SCALES: u32 = 30;
/// Accumulator words that a thread rescales at once.
const SCALED_TOGETHER: u32 = 16;
/// Registers that ptxas needs for other purposes, out of the launch register count.
const BESIDE: u32 = 24;

/// An MMA operand: its start, and the offsets of its parts.
struct Operands<'c> {
    start: IntValue<'c>,
    place: Found,
    /// Whether it is contiguous along its rows or columns instead of K.
    across: bool,
}

enum Found {
    Shared(Matrix),
    Tensor(BufferInfo),
}

/// The scales of an MMA's operands, one per `block` elements along K.
struct Scales<'a> {
    of_a: &'a BufferInfo,
    of_b: &'a BufferInfo,
    block: u32,
}

impl Scales<'_> {
    /// The positions of A's and B's scales for an instruction at this row, column and K step.
    fn at(&self, [row, column]: [u32; 2], step: u32) -> [Spot; 2] {
        let block = step / self.block;
        let elements = [row * self.of_a.shape[2] + block, block * self.of_b.shape[2] + column];
        let spot = |(info, element): (&BufferInfo, u32)| info.spot(element).expect("the verifier checks the positions of scales");
        let mut both = [self.of_a, self.of_b].into_iter().zip(elements).map(spot);
        std::array::from_fn(|_| both.next().expect("there are two"))
    }
}

/// K blocks in the scales of the left operand.
fn blocks(of_a: &BufferInfo) -> u32 {
    of_a.shape[2]
}

/// One instruction that moves words between TMEM and registers: its TMEM offset and its words.
struct Move {
    at: u32,
    words: Vec<u32>,
}

impl<'c> Emitter<'c, '_> {
    /// Allocates the function's TMEM columns. The address is available after the next CTA barrier.
    pub(super) fn allocate_tensor_memory(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        let base = self.shared_base.expect("the TMEM base address is in shared memory");
        let group = self.group();
        self.guarded(Some(self.first_warp()), &[], |e| {
            let text = format!(
                "tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [$0+{}], {};\n\ttcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;",
                tensor.address, tensor.columns
            );
            e.ir.asm(None, &text, "r", &[base.into()], true);
            Vec::new()
        });
    }

    /// Whether TMEM is allocated before all warp roles: without roles, in a CTA pair (both CTAs must allocate first), and if a role
    /// loads an initial accumulator. In the last case TMA copies issued earlier would overtake that load.
    /// Otherwise only the roles that access TMEM wait for the allocation.
    pub(super) fn allocates_tensor_memory_first(&self) -> bool {
        let FunctionAttrs { warp_roles, program, .. } = &self.function.attrs;
        let loads = |(_, body): (WarpRole, Region)| {
            let mut ops = self.function.body.walk(body).into_iter().take_while(|op| !self.is_of_tensor_memory(*op));
            let is_load = |kind: &Op| matches!(kind, Op::Core(tileas::Op::Load { .. } | tileas::Op::LoadView { .. }));
            ops.any(|op| is_load(&self.function.body.ops[op].kind))
        };
        warp_roles.is_empty() || program.cta_pair || self.roles_of_tensor_memory().any(loads)
    }

    /// The warp roles that access TMEM, with their bodies.
    fn roles_of_tensor_memory(&self) -> impl Iterator<Item = (WarpRole, Region)> {
        let body = &self.function.body;
        body.blocks[self.function.entry()].ops.iter().filter_map(|op| match body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body } if self.touches_tensor_memory(body) => Some((warp_role, body)),
            _ => None,
        })
    }

    /// At the start of a warp role: the first role allocates TMEM and arrives at the named barrier of each other role that accesses
    /// it.
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

    /// Frees the TMEM columns; all threads are done with them.
    pub(super) fn free_tensor_memory(&self) {
        let Some(tensor) = self.function.attrs.tensor else { return };
        self.guarded(Some(self.first_warp()), &[], |e| {
            let start = e.tensor_memory_start().expect("the function has TMEM columns");
            e.instruction_alone("bar.warp.sync 0xffffffff;");
            let text = format!("tcgen05.dealloc.cta_group::{}.sync.aligned.b32 $0, {};", e.group(), tensor.columns);
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

    /// Orders TMEM accesses with barriers: this thread's accesses before the arrivals that follow, or after the waits that precede.
    /// A warp role without TMEM accesses only forwards arrivals and needs no fence.
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
        let of_scales = |place: &Option<MmaOperand>| place.as_ref().and_then(MmaOperand::buffer);
        let scales = of_scales(lhs_scale).zip(of_scales(rhs_scale));
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
        let group = self.group();
        self.guarded(Some(self.mma_thread()), &[], |e| {
            let (a, b) = (e.operand(lhs, left, Operand::A), e.operand(rhs, right, Operand::B));
            let elems = [(left, *signed_lhs), (right, *signed_rhs)].map(|(buffer, signed)| (buffers[buffer].elem.carrier(), signed));
            let form = atom.descriptor(elems, [a.across, b.across], [rows * group, columns]);
            let in_memory = matches!(a.place, Found::Shared(_));
            let register = if in_memory { "b64" } else { "b32" };
            let of_scales = if scales.is_some() { ", sa, sb" } else { "" };
            let mut text = format!(
                "{{\n\t.reg .{register} a;\n\t.reg .b64 b;\n\t.reg .b32 d, form{of_scales};\n\t.reg .pred more;\n\tmov.b32 form, {form};\n\tsetp.ne.b32 more, 1, 0;\n\t"
            );
            let find = |(of_a, of_b)| Scales { of_a: &buffers[of_a], of_b: &buffers[of_b], block: depth / blocks(&buffers[of_a]) };
            let scaled = scales.map(find);
            for step in (0..depth).step_by(atom.k as usize) {
                let adds = if step == 0 { "$3" } else { "more" };
                for row in (0..m).step_by(rows as usize) {
                    for column in (0..n).step_by(columns as usize) {
                        let d = column_of(out, row * n + column);
                        let (at_a, at_b) = (a.offset(row, step, depth), b.offset(column, step, depth));
                        let mut moved = |name: &'static str, bits: &str, from: &'static str, by: u32| match by {
                            0 => from,
                            _ => {
                                let _ = write!(text, "add.s{bits} {name}, {from}, {by};\n\t");
                                name
                            }
                        };
                        let (d, b) = (moved("d", "32", "$0", d), moved("b", "64", "$2", at_b));
                        let a = moved("a", &register[1..], "$1", at_a);
                        let a = if in_memory { a.to_string() } else { format!("[{a}]") };
                        let by = scaled.as_ref().map_or(String::new(), |scales| {
                            let [of_a, of_b] = scales.at([row, column], step);
                            let form = form | TensorAtom::scales_descriptor(scales.of_a.elem.carrier(), [of_a.part, of_b.part]);
                            let [sa, sb] = [of_a, of_b].map(|spot| (spot.column | spot.part << PART_OF_SCALES).cast_signed());
                            let _ = write!(text, "mov.b32 form, {form};\n\tadd.s32 sa, $4, {sa};\n\tadd.s32 sb, $5, {sb};\n\t");
                            ", [sa], [sb]".into()
                        });
                        let _ =
                            write!(text, "tcgen05.mma.cta_group::{group}.kind::{} [{d}], {a}, {b}, form{by}, {adds};\n\t", atom.kind);
                    }
                }
            }
            text += "}";
            let mut letters = if in_memory { "r,l,l,b" } else { "r,r,l,b" }.to_string();
            let mut args: Vec<Val<'c>> = vec![e.tensor_address(*accumulators).into(), a.start.into(), b.start.into(), accumulates.into()];
            if let Some((of_a, of_b)) = scales {
                letters += ",r,r";
                args.extend([of_a, of_b].map(|buffer| Val::from(e.tensor_address(buffer))));
            }
            ir.asm(None, &text, &letters, &args, true);
            Vec::new()
        });
        Ok(())
    }

    fn operand(&self, place: &MmaOperand, buffer: Buffer, operand: Operand) -> Operands<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let transposed = matches!(place, MmaOperand::Memory { transposed: true, .. });
        if info.space == Space::Tensor {
            return Operands { start: self.tensor_address(buffer), place: Found::Tensor(info.clone()), across: false };
        }
        let matrix = Matrix::of(info, operand, transposed).expect("the verifier checks that a descriptor can express its position");
        let start = ir.add(self.buffer_start(buffer), ir.const32(self.function.attrs.placements[buffer].offset));
        let units = ir.and(ir.shr(start, ir.const32(UNIT_BITS), false), ir.const32(ADDRESS_BITS));
        let start = ir.or(ir.resize(units, ir.i64(), false), ir.const64(matrix.tensor_descriptor()));
        Operands { start, place: Found::Shared(matrix), across: !matrix.along_depth }
    }

    // Loads and stores.

    pub(super) fn tmem_load(&mut self, buffer: Buffer, from: u32, atom: &LaneAtom, result: Value) {
        let ir = self.ir;
        let (elem, layout) = (self.elem(result), self.layout(result));
        let info = &self.function.attrs.program.buffers[buffer];
        let part = TmemSlice::of(&info.shape, self.ty(result).shape(), from).expect("the verifier checks that the slice exists");
        let address = self.lanes_address(buffer, &part, &layout);
        let moves = moves(info, &part, atom, &layout, self.most_registers());
        let mut words: BTreeMap<u32, Val<'c>> = BTreeMap::new();
        let apart = split(info, &part, atom, &layout);
        // As many instructions as one wait covers.
        for together in moves.chunks((MAX_REGISTERS as usize / moves[0].words.len().max(1)).max(1)) {
            let all: Vec<u32> = together.iter().flat_map(|one| one.words.iter().copied()).collect();
            let mut text = String::new();
            let mut first = 0;
            for Move { at, words: own } in together {
                let registers = (first..first + own.len()).map(|i| format!("${i}")).collect::<Vec<String>>().join(", ");
                let form = form(atom, own.len());
                let _ = write!(text, "tcgen05.ld.sync.aligned.{form} {{{registers}}}, [${}+{at}]{apart};\n\t", all.len());
                first += own.len();
            }
            text += "tcgen05.wait::ld.sync.aligned;";
            // Early-clobber: the first result may arrive before the last instruction reads the address.
            let letters = vec!["=&r"; all.len()].join(",") + ",r";
            let types = vec![ir.i32().into(); all.len()];
            words.extend(all.iter().copied().zip(ir.asm_many(&types, &text, &letters, &[address.into()], true)));
        }
        let registers = (0..layout.registers() as u32)
            .map(|register| {
                let (word, place) = word_of(info, &part, &layout, register);
                let elements = if elem.bytes() == 4 { vec![words[&word]] } else { self.ir.unpack_word(words[&word], elem) };
                let ty = ir.elem(elem);
                if elem.bytes() == 4 { ir.bitcast(elements[0], ty) } else { self.register_form(elem, elements[place as usize]) }
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
        let mut parts: BTreeMap<u32, BTreeMap<u32, Val<'c>>> = BTreeMap::new();
        for (register, value) in self.get(x).iter().enumerate() {
            let (word, place) = word_of(info, &part, &layout, register as u32);
            parts.entry(word).or_default().insert(place, self.memory_form(elem, *value));
        }
        let word = |word: &u32| -> Val<'c> {
            let values: Vec<Val<'c>> = parts[word].values().copied().collect();
            let bits = values.len() as u32 * elem.bytes() * 8;
            let packed = if values.len() == 1 { values[0] } else { ir.pack(&values) };
            // Words of fewer than four bytes have zeros above.
            ir.resize(ir.bitcast(packed, ir.int(bits)).into_int_value(), ir.i32(), false).into()
        };
        // The stored words are consecutive registers, in addition to their sources.
        for Move { at, words } in &moves(info, &part, atom, &layout, self.most_registers() / 2) {
            let registers = operands(1, words.len());
            let text = format!(
                "tcgen05.st.sync.aligned.{} [$0+{at}]{}, {{{registers}}};",
                form(atom, words.len()),
                split(info, &part, atom, &layout)
            );
            let letters = "r".to_string() + &",r".repeat(words.len());
            let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(words.iter().map(word)).collect();
            ir.asm(None, &text, &letters, &args, true);
        }
        self.instruction_alone("tcgen05.wait::st.sync.aligned;");
    }

    /// Rescales accumulator rows, a few columns at a time, in warps with a factor other than 1.
    /// Before the first MMA (`zero_init`), it stores zero rows instead.
    pub(super) fn tmem_scale(&mut self, by: Value, buffer: Buffer, zero_init: Value, atom: &LaneAtom) {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let (own, factors) = (self.layout(by), self.get(by).to_vec());
        let (layout, _) = atom.whole_and_rows(info, own.warp.len()).expect("the verifier checks that the atom reaches all");
        let part = TmemSlice::of(&info.shape, &info.shape, 0).expect("a buffer is a slice of itself");
        let column_bits = info.shape.last().map_or(0, |columns| columns.trailing_zeros());
        let by_row: BTreeMap<u32, Val<'c>> =
            factors.iter().enumerate().map(|(register, factor)| (apply(&own.register, register as u32), *factor)).collect();
        let factor = |register: u32| by_row[&(apply(&layout.register, register) >> column_bits)];
        let by_word: BTreeMap<u32, Val<'c>> =
            (0..layout.registers() as u32).map(|register| (word_of(info, &part, &layout, register).0, factor(register))).collect();
        let zero_init = self.scalar(zero_init).into_int_value();
        let address = self.lanes_address(buffer, &part, &layout);
        let moves = moves(info, &part, atom, &layout, self.most_registers().min(SCALED_TOGETHER));
        let apart = split(info, &part, atom, &layout);
        let scale = |e: &Self, load: &dyn Fn(&Move) -> Vec<Val<'c>>| {
            for step in &moves {
                let factors: Vec<Val<'c>> = step.words.iter().map(|word| by_word[word]).collect();
                let words = load(step);
                let scaled = factors.chunks(2).zip(words.chunks(2)).flat_map(|(factors, words)| e.scaled(words, factors));
                let args: Vec<Val<'c>> = std::iter::once(address.into()).chain(scaled).collect();
                let (form, words) = (form(atom, step.words.len()), step.words.len());
                let text = format!("tcgen05.st.sync.aligned.{form} [$0+{}]{apart}, {{{}}};", step.at, operands(1, words));
                ir.asm(None, &text, &("r".to_string() + &",r".repeat(words)), &args, true);
            }
            e.instruction_alone("tcgen05.wait::st.sync.aligned;");
            Vec::new()
        };
        let there = |step: &Move| {
            let (form, words) = (form(atom, step.words.len()), step.words.len());
            let text = format!(
                "tcgen05.ld.sync.aligned.{form} {{{}}}, [${words}+{}]{apart};\n\ttcgen05.wait::ld.sync.aligned;",
                operands(0, words),
                step.at
            );
            let letters = vec!["=&r"; words].join(",") + ",r";
            ir.asm_many(&vec![ir.i32().into(); words], &text, &letters, &[address.into()], true)
        };
        let zeros = |step: &Move| vec![ir.const32(0).into(); step.words.len()];
        self.guarded(Some(zero_init), &[], |e| scale(e, &zeros));
        let changes = ir.and(self.some_factor(&factors), ir.not(zero_init));
        self.guarded(Some(changes), &[], |e| scale(e, &there));
    }

    /// Multiplies one or two float words by their factors.
    fn scaled(&self, words: &[Val<'c>], factors: &[Val<'c>]) -> Vec<Val<'c>> {
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

    /// Whether a thread of the warp has a factor other than 1.
    fn some_factor(&self, factors: &[Val<'c>]) -> IntValue<'c> {
        let ir = self.ir;
        let differs = |factor: &Val<'c>| {
            let bits = ir.bitcast(*factor, ir.i32()).into_int_value();
            ir.icmp(IntPredicate::NE, bits, ir.const32(1f32.to_bits()))
        };
        let differs = factors.iter().map(differs).reduce(|a, b| ir.or(a, b)).expect("a tile has elements");
        let some = ir.intrinsic("llvm.nvvm.vote.any.sync", &[], &[ir.const32(u32::MAX).into(), differs.into()]);
        some.expect("the vote has a result").into_int_value()
    }

    /// Registers that one instruction may move in a thread of this CTA.
    fn most_registers(&self) -> u32 {
        let launched = self.function.attrs.launch_registers(self.target);
        launched.saturating_sub(BESIDE).checked_ilog2().map_or(1, |bits| 1 << bits).min(MAX_REGISTERS)
    }

    /// The TMEM address of this warp's lanes, including the column offset of further warps.
    fn lanes_address(&self, buffer: Buffer, part: &TmemSlice, layout: &Layout) -> IntValue<'c> {
        let info = &self.function.attrs.program.buffers[buffer];
        let further = layout.warp[WARP_BITS..].iter().map(|basis| column_of(info, part.widened(*basis)));
        let bases: Vec<u32> = [0; 5].into_iter().chain([32 * LANE, 64 * LANE]).chain(further).collect();
        self.ir.add(self.tensor_address(buffer), self.linear(self.thread, &bases))
    }
}

impl Operands<'_> {
    /// The offset of the operand part at a row or column and a K step.
    fn offset(&self, line: u32, step: u32, depth: u32) -> u32 {
        match &self.place {
            Found::Shared(matrix) => matrix.start(line, step) >> UNIT_BITS,
            Found::Tensor(info) => column_of(info, line * depth + step),
        }
    }
}

fn column_of(info: &BufferInfo, element: u32) -> u32 {
    info.spot(element).expect("the verifier checks that every element has a position").column
}

/// The TMEM word of a register in a warp's first thread, as an address, and the element's position in the word.
fn word_of(info: &BufferInfo, part: &TmemSlice, layout: &Layout, register: u32) -> (u32, u32) {
    let element = part.element(apply(&layout.register, register));
    let spot = info.spot(element).expect("the verifier checks that every element has a position");
    (spot.lane * LANE + spot.column, spot.part)
}

/// The instruction's shape and repeat count.
fn form(atom: &LaneAtom, words: usize) -> String {
    format!("{}.x{}.b32", atom.name, words >> atom.register.len())
}

/// The column offset of the upper lanes, if the instruction takes one.
fn split(info: &BufferInfo, part: &TmemSlice, atom: &LaneAtom, layout: &Layout) -> String {
    let apart = atom.lane.iter().position(|cell| *cell == Cell::SplitOffset);
    apart.map_or(String::new(), |bit| format!(", {}", column_of(info, part.widened(layout.lane[bit]))))
}

/// The instructions that move all words of a tile; each moves as many consecutive words as possible.
fn moves(info: &BufferInfo, part: &TmemSlice, atom: &LaneAtom, layout: &Layout, most: u32) -> Vec<Move> {
    let mut words: Vec<u32> = (0..layout.registers() as u32).map(|register| word_of(info, part, layout, register).0).collect();
    words.sort_unstable();
    words.dedup();
    let own: Vec<u32> = (0..1u32 << atom.register.len())
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
    let next = 1 << atom.column_bits();
    let mut moves = Vec::new();
    let mut left: std::collections::BTreeSet<u32> = words.into_iter().collect();
    while let Some(at) = left.first().copied() {
        let most = (most / own.len() as u32).max(1);
        let there = |count: u32| (0..count).all(|i| left.contains(&(at + i * next)));
        let count = (0..=most.ilog2()).rev().map(|bits| 1 << bits).find(|count| there(*count)).unwrap_or(1);
        let words: Vec<u32> = (0..count).flat_map(|i| own.iter().map(move |own| at + i * next + own)).collect();
        words.iter().for_each(|word| _ = left.remove(word));
        moves.push(Move { at, words });
    }
    moves
}
