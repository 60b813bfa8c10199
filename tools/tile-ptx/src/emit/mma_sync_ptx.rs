//! Emits MMAs on register fragments as `mma.sync`. Emits MMAs without an MMA instruction as loops of multiply-adds on operands in
//! shared memory.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::tile::Elem;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use numerics::Scalar;
use std::collections::BTreeMap;
use tileas::layout::{Strides, solve, xor_of_bases};
use tileas::mma_sync_atoms::{Operand, SyncAtom};
use tileas::{Buffer, Layout, MmaAtom, MmaOperand};

/// The PTX type name of an operand or accumulator of an atom.
pub(super) fn element_type_name(scalar: Scalar, is_signed: bool) -> &'static str {
    type_name(scalar, is_signed).expect("the test `every_atom_has_ptx_types` checks all atoms")
}

/// The PTX type name of an operand or accumulator of an MMA, or `None` if no MMA instruction supports the type.
fn type_name(scalar: Scalar, is_signed: bool) -> Option<&'static str> {
    Some(match scalar {
        Scalar::F16 => "f16",
        Scalar::BF16 => "bf16",
        Scalar::F32 => "f32",
        Scalar::TF32 => "tf32",
        Scalar::F64 => "f64",
        Scalar::F8E4M3FN => "e4m3",
        Scalar::F8E5M2 => "e5m2",
        Scalar::F4E2M1FN => "e2m1",
        Scalar::I8 if is_signed => "s8",
        Scalar::I8 => "u8",
        Scalar::I32 => "s32",
        Scalar::I1 | Scalar::I4 | Scalar::I16 | Scalar::I64 | Scalar::F8E8M0FNU | Scalar::F8E5M3FNU => return None,
    })
}

/// The vector loads with which a thread reads one shared-memory operand in a multiply-add loop.
struct OperandLoads<'c> {
    buffer: Buffer,
    /// The part of the element offset in `buffer` that depends on the thread and on the loop counter, in elements.
    thread_offset: IntValue<'c>,
    /// For each bit of the K coordinate, the offset bits in `buffer` that change with this bit, in elements.
    k_offsets: Vec<u32>,
    /// Number of elements per vector.
    vector_width: u32,
    /// The vectors whose loads are already emitted, by the offset of their first element relative to `thread_offset`.
    loaded_vectors: BTreeMap<u32, Vec<Val<'c>>>,
}

impl<'c> OperandLoads<'c> {
    /// Maximum size of a vector in bytes: the size of the widest load (`ld.shared.v4.b32`).
    const MAX_VECTOR_BYTES: u32 = 16;

    /// Chooses the widest valid vectors for the loads from `buffer`. `first_elements` maps each register, lane and warp to the
    /// element that a thread reads at K = 0. `k_elements` has the element number of each bit of the K coordinate. An iteration has
    /// `k_per_iteration` K steps, which the lowest bits of K count. The loop counter provides the higher bits.
    fn new(e: &Emitter<'c, '_>, buffer: Buffer, first_elements: &Layout, k_elements: &[u32], k_per_iteration: u32) -> Self {
        let offset_of = |element: &u32| e.offset_in(buffer, *element);
        let k_offsets: Vec<u32> = k_elements.iter().map(offset_of).collect();
        let (in_iteration, by_counter) = k_offsets.split_at((k_per_iteration.ilog2() as usize).min(k_offsets.len()));
        let register_offsets: Vec<u32> =
            first_elements.register.iter().map(offset_of).chain(in_iteration.iter().copied()).collect();
        let thread_offsets: Vec<u32> =
            first_elements.lane.iter().chain(&first_elements.warp).map(offset_of).chain(by_counter.iter().copied()).collect();
        let max_width = (Self::MAX_VECTOR_BYTES / e.function.attrs.program.buffers[buffer].elem.bytes().max(1)).max(1);
        let is_valid_width = |vector_width: &u32| {
            let is_contiguous = (0..vector_width.ilog2()).all(|bit| register_offsets.contains(&(1 << bit)));
            let is_aligned = |offset: &u32| offset.is_multiple_of(*vector_width);
            is_contiguous
                && thread_offsets.iter().all(is_aligned)
                && register_offsets.iter().all(|offset| is_aligned(offset) || offset.is_power_of_two())
        };
        let vector_width = std::iter::successors(Some(max_width), |vector_width| Some(vector_width / 2))
            .find(is_valid_width)
            .expect("every element is a vector");
        let thread_offset = e.thread_part(first_elements, |element| e.offset_in(buffer, element));
        OperandLoads { buffer, thread_offset, k_offsets, vector_width, loaded_vectors: BTreeMap::new() }
    }

    /// Adds the loop counter to `thread_offset`, so that later loads read from K = `counter` on.
    fn add_loop_counter(&mut self, e: &Emitter<'c, '_>, counter: IntValue<'c>) {
        self.thread_offset = e.ir.xor(self.thread_offset, e.xor_of_bases(counter, &self.k_offsets));
    }

    /// Returns an element. Emits the load of its vector if no earlier call has emitted it.
    fn read(&mut self, e: &Emitter<'c, '_>, element: u32) -> Val<'c> {
        let (ir, elem) = (e.ir, e.function.attrs.program.buffers[self.buffer].elem);
        let (offset, vector_width) = (e.offset_in(self.buffer, element), self.vector_width);
        let vector_start = offset & !(vector_width - 1);
        let load = || {
            let ptr = e.buffer_ptr(self.buffer, ir.xor(self.thread_offset, ir.const32(vector_start)));
            let vector = ir.load(ir.vector_type(ir.memory_type(elem), vector_width), ptr, elem.bytes() * vector_width);
            ir.unpack(vector, vector_width as usize).into_iter().map(|value| e.register_form(elem, value)).collect()
        };
        self.loaded_vectors.entry(vector_start).or_insert_with(load)[(offset - vector_start) as usize]
    }
}

/// The position of an `mma.sync` atom in a K step: its first accumulator register, the coordinates of the accumulator element in
/// this register, and the first registers of its fragments of A and B.
pub(super) struct AtomPlace {
    first_accumulator: usize,
    batch: u32,
    m: u32,
    n: u32,
    pub(super) fragment_starts: [usize; 2],
}

/// Maximum number of accumulator registers per thread for several MMAs in one multiply-add loop: about half of the 255 registers
/// that a thread can have.
const MAX_ACCUMULATORS: usize = 128;

/// One MMA of a multiply-add loop, which may execute several MMAs.
struct LoopMma {
    /// For A and B, the index in the loop's list of operand loads.
    load_indices: [usize; 2],
    /// For each accumulator register, the element numbers in A and B at K = 0.
    operand_elements: Vec<[u32; 2]>,
    /// For A and B, the position of the lowest bit of the K coordinate in an element number of the operand.
    k_shifts: [u32; 2],
    operand_elems: [Elem; 2],
    acc: Value,
    is_signed: [bool; 2],
    result: Value,
}

impl<'c> Emitter<'c, '_> {
    /// Emits an MMA with the instruction family of its atom.
    pub(super) fn emit_mma(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let tileas::Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, signed_lhs, signed_rhs, atom, .. } = program else {
            unreachable!("called for MMA ops only")
        };
        let is_signed = [*signed_lhs, *signed_rhs];
        if let MmaAtom::Tensor(atom) = atom {
            return self.tcgen05_mma(op, program, atom);
        }
        let (MmaOperand::Registers(acc), [result]) = (acc, results) else { return Err(self.unsupported(op)) };
        let result = *result;
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs)) => {
                let registers_of = |scale: &Option<MmaOperand>| scale.and_then(|place| place.registers());
                let scales = registers_of(lhs_scale).zip(registers_of(rhs_scale)).map(|(lhs, rhs)| [lhs, rhs]);
                let instruction = match scales {
                    Some([scale, _]) => self.scaled_instruction_name(atom, [*lhs, *rhs], scale),
                    None => self.instruction_name(atom, [*lhs, *rhs, *acc], is_signed),
                };
                self.emit_mma_sync(atom, &instruction, [*lhs, *rhs, *acc], scales, result)
            }
            (MmaAtom::Group(atom), _, MmaOperand::Memory { .. }) => self.emit_wgmma(op, program, atom, result),
            (MmaAtom::MultiplyAdd(_), MmaOperand::Memory { .. }, MmaOperand::Memory { .. }) => self.emit_smem_mmas(&[op]),
            _ => Err(self.unsupported(op)),
        }
    }

    /// Returns the PTX name of an `mma.sync` instruction.
    fn instruction_name(&self, atom: &SyncAtom, [lhs, rhs, acc]: [Value; 3], is_signed: [bool; 2]) -> String {
        if atom.widens_to_f16 {
            return "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".into();
        }
        let name = |value: Value, is_signed: bool| element_type_name(self.elem(value).carrier(), is_signed);
        let acc = name(acc, true);
        let (a, b) = (name(lhs, is_signed[0]), name(rhs, is_signed[1]));
        format!("mma.sync.aligned.m{}n{}k{}.row.col.{acc}.{a}.{b}.{acc}", atom.rows, atom.n, atom.k)
    }

    /// Returns the PTX name of a block-scaled `mma.sync` instruction.
    fn scaled_instruction_name(&self, atom: &SyncAtom, operands: [Value; 2], scale: Value) -> String {
        // An operand with i8 elements has two 4-bit floats in each byte.
        let is_packed = self.elem(operands[0]).carrier() == Scalar::I8;
        let name = |value: Value| element_type_name(if is_packed { Scalar::F4E2M1FN } else { self.elem(value).carrier() }, true);
        let kind = match atom.scales {
            1 => "mxf8f6f4",
            2 => "mxf4",
            4 => "mxf4nvf4",
            other => unreachable!("the atom table has no atom with {other} scales for each row"),
        };
        let scale = match self.elem(scale).carrier() {
            Scalar::F8E8M0FNU => "ue8m0",
            Scalar::F8E4M3FN => "ue4m3",
            other => unreachable!("`scaled_atom` has no atom with scales of {other}"),
        };
        let ([a, b], SyncAtom { m, n, scales, .. }) = (operands.map(name), atom);
        let k = if is_packed { 2 * atom.k } else { atom.k };
        format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.kind::{kind}.block_scale.scale_vec::{scales}X.f32.{a}.{b}.f32.{scale}")
    }

    /// The positions of the atoms in the K step that starts at `k`, in the order of their accumulator registers.
    pub(super) fn atoms_of_step(&self, atom: &SyncAtom, [lhs, rhs, acc]: [Value; 3], k: u32) -> Vec<AtomPlace> {
        let [a, b, c] = [lhs, rhs, acc].map(|value| self.layout(value));
        let [a_shape, b_shape, c_shape] = [lhs, rhs, acc].map(|value| Strides::for_shape(self.ty(value).shape()));
        let dims = c_shape.bits.len();
        let element_at = |strides: &Strides, [batch, row, col]: [u32; 3]| {
            let batch = if dims == 3 { batch << strides.shift[0] } else { 0 };
            batch | row << strides.shift[dims - 2] | col << strides.shift[dims - 1]
        };
        let start_register =
            |layout: &Layout, element| solve(&layout.register, element).expect("a fragment is in the registers of its warp");
        let atom_place = |first: usize| {
            let element = xor_of_bases(&c.register, first as u32);
            let batch = if dims == 3 { c_shape.coordinate(element, 0) } else { 0 };
            let (m, n) = (c_shape.coordinate(element, dims - 2), c_shape.coordinate(element, dims - 1));
            let fragment_starts =
                [start_register(&a, element_at(&a_shape, [batch, m, k])), start_register(&b, element_at(&b_shape, [batch, k, n]))];
            AtomPlace { first_accumulator: first, batch, m, n, fragment_starts }
        };
        (0..c.registers()).step_by(atom.elements_per_lane(Operand::C) as usize).map(atom_place).collect()
    }

    /// Emits the `mma.sync` instructions of an MMA.
    fn emit_mma_sync(
        &mut self,
        atom: &SyncAtom,
        instruction: &str,
        [lhs, rhs, acc]: [Value; 3],
        scales: Option<[Value; 2]>,
        result: Value,
    ) -> Result<()> {
        let k_extent = *self.ty(lhs).shape().last().expect("operands have a K extent");
        let mut registers = self.registers_of(acc).to_vec();
        let accumulator_count = atom.elements_per_lane(Operand::C) as usize;
        // The loop over K steps is the outermost loop, so that few fragments are live.
        for k in (0..k_extent).step_by(atom.k as usize) {
            let mut f16_fragments = [BTreeMap::new(), BTreeMap::new()];
            let atoms = self.atoms_of_step(atom, [lhs, rhs, acc], k);
            if self.fragment_prefetch.is_some() && k + atom.k >= k_extent {
                for AtomPlace { fragment_starts: [a, b], .. } in &atoms {
                    self.fragment_words(lhs, *a, atom.elements_per_lane(Operand::A) as usize);
                    self.fragment_words(rhs, *b, atom.elements_per_lane(Operand::B) as usize);
                }
                self.begin_next_iteration()?;
            }
            for AtomPlace { first_accumulator: first, batch, m, n, fragment_starts: [a_start, b_start] } in atoms {
                let a = self.fragment_words(lhs, a_start, atom.elements_per_lane(Operand::A) as usize);
                let b = self.fragment_words(rhs, b_start, atom.elements_per_lane(Operand::B) as usize);
                let scales = scales.map(|scales| self.atom_scales(atom, scales, [batch, m, n, k]));
                let mut accumulators = registers[first..first + accumulator_count].to_vec();
                if atom.widens_to_f16 {
                    let [a_halves, b_halves] = &mut f16_fragments;
                    let a = a_halves.entry(a_start).or_insert_with(|| self.split_into_f16_fragments(self.elem(lhs), &a));
                    let b = b_halves.entry(b_start).or_insert_with(|| self.split_into_f16_fragments(self.elem(rhs), &b));
                    for (a, b) in a.iter().zip(b) {
                        accumulators = self.emit_sync_atom(atom, instruction, a, b, &accumulators, None);
                    }
                } else {
                    accumulators = self.emit_sync_atom(atom, instruction, &a, &b, &accumulators, scales);
                }
                registers[first..first + accumulator_count].copy_from_slice(&accumulators);
            }
        }
        self.deferred_loads.remove(&lhs);
        self.deferred_loads.remove(&rhs);
        self.set_registers(result, registers);
        Ok(())
    }

    /// Converts a fragment of 8-bit floats into two f16 fragments, because the 8-bit atom has twice the K extent of the f16 atom. A
    /// word has four neighbours along K, which become two f16 words. In the f16 fragment, the second word is eight K positions
    /// after the first one. This order of K differs from the program's, but it is the same in A and B, so each element of A meets
    /// the element of B with its K.
    fn split_into_f16_fragments(&self, elem: Elem, fragment: &[Val<'c>]) -> [Vec<Val<'c>>; 2] {
        let (ir, elem) = (self.ir, elem.carrier());
        let f16_word = |word: &Val<'c>, pair_index: u32| {
            let pair = ir.resize(ir.shr(word.into_int_value(), ir.const32(16 * pair_index), false), ir.int_type(16), false);
            ir.bitcast(self.widen_small_pair(elem, pair), ir.i32())
        };
        // In a fragment of A, the words of the upper and the lower eight rows precede the words further along K.
        let f16_fragment =
            |words: &[Val<'c>]| [0, 1].into_iter().flat_map(|k| words.iter().map(move |word| f16_word(word, k))).collect();
        let (first, second) = fragment.split_at(fragment.len() / 2);
        [f16_fragment(first), f16_fragment(second)]
    }

    /// For A and B, returns one 32-bit word per lane with the scales of the atom at these coordinates. Each scale has 8 bits.
    fn atom_scales(&self, atom: &SyncAtom, [lhs_scale, rhs_scale]: [Value; 2], [batch, m, n, k]: [u32; 4]) -> [Val<'c>; 2] {
        let scale_block = k / (atom.k / atom.scales);
        [(lhs_scale, [m, scale_block]), (rhs_scale, [scale_block, n])].map(|(value, [row, col])| {
            let (layout, strides) = (self.layout(value), Strides::for_shape(self.ty(value).shape()));
            let dims = strides.bits.len();
            let batch_bits = if dims == 3 { batch << strides.shift[0] } else { 0 };
            let element = batch_bits | row << strides.shift[dims - 2] | col << strides.shift[dims - 1];
            let first = solve(&layout.register, element).expect("scales are in the registers of their warp");
            let scale_bytes = &self.registers_of(value)[first..first + atom.scales as usize];
            self.ir.pack_word(scale_bytes, 8)
        })
    }

    /// Emits one `mma.sync` instruction with the fragments `a` and `b` and the accumulator registers `c`. Returns the new
    /// accumulator registers.
    fn emit_sync_atom(
        &self,
        atom: &SyncAtom,
        instruction: &str,
        a: &[Val<'c>],
        b: &[Val<'c>],
        c: &[Val<'c>],
        scales: Option<[Val<'c>; 2]>,
    ) -> Vec<Val<'c>> {
        let elem = c[0].get_type();
        let mut a = a.to_vec();
        let mut accumulators = if elem == self.ir.f32().into() { c.to_vec() } else { self.ir.pack_words(c) };
        let accumulator_words = accumulators.len();
        if atom.rows > atom.m {
            // The tile has only the upper eight of the instruction's 16 rows, so the lower rows are zero. In A, the words of the
            // upper and the lower rows alternate; in the accumulators, the lower rows come last.
            a = a.into_iter().flat_map(|word| [word, word.get_type().const_zero()]).collect();
            accumulators.extend(accumulators.clone().into_iter().map(|word| word.get_type().const_zero()));
        }
        let mut next_operand = 0;
        let mut operand_list = |length: usize| {
            let names: Vec<String> = (next_operand..next_operand + length).map(|i| format!("${i}")).collect();
            next_operand += length;
            format!("{{{}}}", names.join(", "))
        };
        let mut text = format!(
            "{instruction} {}, {}, {}, {}",
            operand_list(accumulators.len()),
            operand_list(a.len()),
            operand_list(b.len()),
            operand_list(accumulators.len())
        );
        if scales.is_some() {
            // The byte and thread selectors are 0: the instruction reads the first scale bytes of the first lane of each group of
            // four.
            text += &format!(", {}, {{0, 0}}, {}, {{0, 0}}", operand_list(1), operand_list(1));
        }
        text.push(';');
        let scales = scales.into_iter().flatten().collect::<Vec<_>>();
        let outputs = accumulators.iter().map(|word| format!("={}", self.register_letter(*word)));
        let inputs = a.iter().chain(b).chain(&accumulators).chain(&scales).map(|word| self.register_letter(*word).to_string());
        let constraints: Vec<String> = outputs.chain(inputs).collect();
        let args: Vec<Val<'c>> = a.iter().chain(b).chain(&accumulators).copied().chain(scales).collect();
        let types: Vec<_> = accumulators.iter().map(|sum| sum.get_type()).collect();
        let mut results = self.ir.asm_many(&types, &text, &constraints.join(","), &args, false);
        results.truncate(accumulator_words);
        if results.len() == c.len() {
            return results;
        }
        // Half-precision accumulators are packed in pairs.
        let pair = self.ir.vector_type(elem, 2);
        results.into_iter().flat_map(|word| self.ir.unpack(self.ir.bitcast(word, pair), 2)).collect()
    }

    /// The letter of the inline-assembly constraint for a register of a fragment, accumulator or scale: `d` (f64), `f` (f32) or
    /// `r`.
    fn register_letter(&self, word: Val<'c>) -> &'static str {
        match word {
            Val::FloatValue(value) if value.get_type() == self.ir.context.f64_type() => "d",
            Val::FloatValue(_) => "f",
            _ => "r",
        }
    }

    /// Returns how many consecutive multiply-add MMAs, from the first op on, can share one loop along K. Each further MMA must read
    /// an operand buffer that an earlier MMA of the loop reads, so that both share its loads. No MMA of the loop may accumulate
    /// into the result of another MMA of the loop. The result is 1 if the first op is no multiply-add MMA.
    pub(super) fn batched_mma_count(&self, ops: &[OpId]) -> usize {
        let mma_of = |op: &OpId| match &self.function.body.ops[*op].kind {
            sched::Op::Core(tileas::Op::Mma { lhs, rhs, acc, atom: MmaAtom::MultiplyAdd(atom), .. }) => {
                Some(([lhs, rhs].map(|place| place.buffer()), acc.registers()?, atom.k))
            }
            _ => None,
        };
        let mma_of = |op: &OpId| match mma_of(op)? {
            ([Some(lhs), Some(rhs)], acc, k) => Some(([lhs, rhs], acc, k)),
            _ => None,
        };
        let stages_of = |op: OpId| {
            let all = self.function.body.ops[op].kind.effects().buffers;
            all.into_iter().map(|access| (access.buffer, access.stage)).collect::<BTreeMap<_, _>>()
        };
        let Some((first, acc, k_per_iteration)) = ops.first().and_then(mma_of) else { return 1 };
        let (mut loaded_buffers, mut accumulator_count) = (first.to_vec(), self.registers_of(acc).len());
        let k_extent = |buffer: Buffer| self.function.attrs.program.buffers[buffer].shape.last().copied();
        let (mut count, mut stages_read) = (1, stages_of(ops[0]));
        for op in &ops[1..] {
            let Some((buffers, acc, k)) = mma_of(op) else { break };
            let is_computed_in_loop = self.function.body.defining_op(acc).is_some_and(|producer| ops[..count].contains(&producer));
            if is_computed_in_loop
                || k != k_per_iteration
                || k_extent(buffers[0]) != k_extent(first[0])
                || !buffers.iter().any(|buffer| loaded_buffers.contains(buffer))
            {
                break;
            }
            accumulator_count += self.registers_of(acc).len();
            let stages_of_op = stages_of(*op);
            let has_same_stage =
                |(buffer, stage): (&Buffer, &Option<Value>)| stages_read.get(buffer).is_none_or(|other| other == stage);
            if accumulator_count > MAX_ACCUMULATORS || !stages_of_op.iter().all(has_same_stage) {
                break;
            }
            stages_read.extend(stages_of_op);
            loaded_buffers.extend(buffers);
            count += 1;
        }
        count
    }

    /// Emits one loop along K for multiply-add MMAs, with `atom.k` K steps per iteration. In each step, every thread loads the
    /// operand elements of its accumulators, and executes multiply-adds.
    pub(super) fn emit_smem_mmas(&mut self, ops: &[OpId]) -> Result<()> {
        let ir = self.ir;
        let (mut operand_loads, mut mmas): (Vec<(Layout, OperandLoads<'c>)>, Vec<LoopMma>) = Default::default();
        let (mut k_extent, mut k_per_iteration) = (0, 1);
        for op in ops {
            let node = &self.function.body.ops[*op];
            let sched::Op::Core(tileas::Op::Mma {
                lhs, rhs, acc, signed_lhs, signed_rhs, atom: MmaAtom::MultiplyAdd(atom), ..
            }) = &node.kind
            else {
                unreachable!("called for multiply-add MMAs only")
            };
            let (Some(lhs), Some(rhs), Some(acc), [result]) = (lhs.buffer(), rhs.buffer(), acc.registers(), &node.results[..])
            else {
                return Err(self.unsupported(*op));
            };
            k_per_iteration = atom.k;
            let loop_mma = self.loop_mma([lhs, rhs], acc, k_per_iteration, &mut operand_loads, [*signed_lhs, *signed_rhs], *result);
            k_extent = self.function.attrs.program.buffers[lhs].shape.last().copied().unwrap_or(1);
            mmas.push(loop_mma);
        }
        let block_before = ir.current_block();
        let (loop_block, block_after) = (ir.append_block(self.kernel, "mmas"), ir.append_block(self.kernel, ""));
        ir.jump(loop_block);
        ir.builder.position_at_end(loop_block);
        let counter = ir.builder.build_phi(ir.i32(), "").expect("at the start of a block");
        counter.add_incoming(&[(&ir.const32(0), block_before)]);
        let mut accumulators = Vec::new();
        for mma in &mmas {
            for value in self.registers_of(mma.acc) {
                let phi = ir.builder.build_phi(value.get_type(), "").expect("at the start of a block");
                phi.add_incoming(&[(value, block_before)]);
                accumulators.push(phi);
            }
        }
        let k = counter.as_basic_value().into_int_value();
        operand_loads.iter_mut().for_each(|(_, operand)| operand.add_loop_counter(self, k));
        let mut next_accumulators: Vec<Val<'c>> = accumulators.iter().map(|sum| sum.as_basic_value()).collect();
        for step in 0..k_per_iteration {
            let mut remaining_accumulators = &mut next_accumulators[..];
            for mma in &mmas {
                let (of_mma, remaining_mmas) = remaining_accumulators.split_at_mut(self.registers_of(mma.acc).len());
                self.multiply_add_step(mma, step, &mut operand_loads, of_mma)?;
                remaining_accumulators = remaining_mmas;
            }
        }
        for (phi, value) in accumulators.iter().zip(&next_accumulators) {
            phi.add_incoming(&[(value, loop_block)]);
        }
        let next_k = ir.add(k, ir.const32(k_per_iteration));
        counter.add_incoming(&[(&next_k, loop_block)]);
        ir.conditional_branch(ir.icmp(IntPredicate::ULT, next_k, ir.const32(k_extent)), loop_block, block_after);
        ir.builder.position_at_end(block_after);
        for mma in mmas {
            let remaining_mmas = next_accumulators.split_off(self.registers_of(mma.acc).len());
            self.set_registers(mma.result, std::mem::replace(&mut next_accumulators, remaining_mmas));
        }
        Ok(())
    }

    /// Describes one MMA of the loop, and adds its operand loads to `operand_loads`. MMAs that read the same elements share loads.
    fn loop_mma(
        &self,
        [lhs, rhs]: [Buffer; 2],
        acc: Value,
        k_per_iteration: u32,
        operand_loads: &mut Vec<(Layout, OperandLoads<'c>)>,
        is_signed: [bool; 2],
        result: Value,
    ) -> LoopMma {
        let layout = self.layout(acc);
        let buffers = &self.function.attrs.program.buffers;
        let (a_info, b_info) = (&buffers[lhs], &buffers[rhs]);
        let (a_shape, b_shape) = (Strides::for_shape(&a_info.shape), Strides::for_shape(&b_info.shape));
        let c_shape = Strides::for_shape(self.ty(acc).shape());
        let dims = c_shape.bits.len();
        let batch = |element: u32, to: &Strides| if dims == 3 { c_shape.coordinate(element, 0) << to.shift[0] } else { 0 };
        // These closures map an accumulator element to the elements of A and B at K = 0.
        let a_of = |element: u32| batch(element, &a_shape) | c_shape.coordinate(element, dims - 2) << a_shape.shift[dims - 2];
        let b_of = |element: u32| batch(element, &b_shape) | c_shape.coordinate(element, dims - 1) << b_shape.shift[dims - 1];
        let a_k_elements: Vec<u32> = a_shape.dim_bits(dims - 1).map(|bit| 1 << bit).collect();
        let b_k_elements: Vec<u32> = b_shape.dim_bits(dims - 2).map(|bit| 1 << bit).collect();
        let mut load_index = |buffer: Buffer, first_elements: Layout, k_elements: &[u32]| {
            let existing_index = operand_loads.iter().position(|(other, loads)| loads.buffer == buffer && *other == first_elements);
            existing_index.unwrap_or_else(|| {
                let loads = OperandLoads::new(self, buffer, &first_elements, k_elements, k_per_iteration);
                operand_loads.push((first_elements, loads));
                operand_loads.len() - 1
            })
        };
        let (a, b) = (load_index(lhs, layout.map(a_of), &a_k_elements), load_index(rhs, layout.map(b_of), &b_k_elements));
        let operand_elements = (0..self.registers_of(acc).len() as u32).map(|register| xor_of_bases(&layout.register, register));
        let operand_elements = operand_elements.map(|element| [a_of(element), b_of(element)]).collect();
        let k_shifts = [a_shape.shift[dims - 1], b_shape.shift[dims - 2]];
        LoopMma {
            load_indices: [a, b],
            operand_elements,
            k_shifts,
            operand_elems: [a_info.elem, b_info.elem],
            acc,
            is_signed,
            result,
        }
    }

    /// Emits the loads and multiply-adds of one MMA of the loop, at the K step `step` of the iteration.
    fn multiply_add_step(
        &self,
        loop_mma: &LoopMma,
        step: u32,
        operand_loads: &mut [(Layout, OperandLoads<'c>)],
        accumulators: &mut [Val<'c>],
    ) -> Result<()> {
        let acc = self.elem(loop_mma.acc);
        let [a_step, b_step] = loop_mma.k_shifts.map(|shift| step << shift);
        let mut operands = Vec::with_capacity(accumulators.len());
        for [a, b] in &loop_mma.operand_elements {
            let a = operand_loads[loop_mma.load_indices[0]].1.read(self, a | a_step);
            operands.push((a, operand_loads[loop_mma.load_indices[1]].1.read(self, b | b_step)));
        }
        for (sum, (a, b)) in accumulators.iter_mut().zip(operands) {
            let a = self.convert_operand(a, loop_mma.operand_elems[0], acc, loop_mma.is_signed[0])?;
            let b = self.convert_operand(b, loop_mma.operand_elems[1], acc, loop_mma.is_signed[1])?;
            *sum = self.multiply_add(a, b, *sum);
        }
        Ok(())
    }

    /// Converts an operand element to the type in which the multiply-add computes: the accumulator's type, or f32 for f16
    /// accumulators.
    fn convert_operand(&self, value: Val<'c>, from: Elem, acc: Elem, is_signed: bool) -> Result<Val<'c>> {
        let ir = self.ir;
        match (from.carrier(), acc.carrier()) {
            (Scalar::I8, Scalar::I32) => Ok(ir.resize(value.into_int_value(), ir.i32(), is_signed).into()),
            (Scalar::F16 | Scalar::BF16, Scalar::F32 | Scalar::F16) => Ok(self.widen_half(value)),
            (a, b) if a == b || (a == Scalar::TF32 && b == Scalar::F32) => Ok(value),
            _ => Err(self.unsupported_type("mma", from)),
        }
    }

    /// Emits a multiplication and an addition with separate roundings, as Tile IR requires for f32 and f64. An f16 accumulator is
    /// added in f32.
    fn multiply_add(&self, a: Val<'c>, b: Val<'c>, sum: Val<'c>) -> Val<'c> {
        let ir = self.ir;
        if let Val::IntValue(a) = a {
            return ir.add(ir.mul(a, b.into_int_value()), sum.into_int_value()).into();
        }
        let product = ir.builder.build_float_mul(a.into_float_value(), b.into_float_value(), "").expect("floats multiply");
        let is_narrow = sum.get_type() != product.get_type().into();
        let wide = if is_narrow { self.widen_half(sum) } else { sum };
        let rounded_sum = ir.builder.build_float_add(product, wide.into_float_value(), "").expect("floats add");
        if is_narrow {
            let ty = sum.get_type().into_float_type();
            return ir.builder.build_float_trunc(rounded_sum, ty, "").expect("floats narrow").into();
        }
        rounded_sum.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_atom_has_ptx_types() {
        for atom in MmaAtom::all() {
            let (operands, acc) = match atom {
                MmaAtom::Sync(atom) => (atom.operands, atom.acc),
                MmaAtom::Group(atom) => (atom.operands, atom.acc),
                // `tcgen05.mma` has its types in the instruction descriptor, and multiply-add atoms have no PTX types.
                MmaAtom::Tensor(_) | MmaAtom::MultiplyAdd(_) => continue,
            };
            for scalar in operands.iter().chain([&acc]) {
                assert!(type_name(*scalar, true).is_some(), "{atom:?} {scalar}");
            }
        }
    }
}
