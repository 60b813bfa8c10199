//! MMAs on register fragments (`mma.sync`), and multiply-add loops on operands in shared memory.

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
use tileas::layout::{Strides, apply, solve};
use tileas::mma_sync_atoms::{Operand, SyncAtom};
use tileas::{Buffer, Layout, MmaAtom, MmaOperand};

/// The PTX type name of an operand or accumulator of an atom.
pub(super) fn element_type_name(scalar: Scalar, signed: bool) -> &'static str {
    type_name(scalar, signed).expect("the test `every_atom_has_ptx_types` checks all atoms")
}

/// As [`element_type_name`], but `None` for types that no MMA instruction supports.
fn type_name(scalar: Scalar, signed: bool) -> Option<&'static str> {
    Some(match scalar {
        Scalar::F16 => "f16",
        Scalar::BF16 => "bf16",
        Scalar::F32 => "f32",
        Scalar::TF32 => "tf32",
        Scalar::F64 => "f64",
        Scalar::F8E4M3FN => "e4m3",
        Scalar::F8E5M2 => "e5m2",
        Scalar::F4E2M1FN => "e2m1",
        Scalar::I8 if signed => "s8",
        Scalar::I8 => "u8",
        Scalar::I32 => "s32",
        Scalar::I1 | Scalar::I4 | Scalar::I16 | Scalar::I64 | Scalar::F8E8M0FNU | Scalar::F8E5M3FNU => return None,
    })
}

/// A thread's vectorised loads of one shared-memory operand in a multiply-add loop.
struct OperandLoads<'c> {
    buffer: Buffer,
    /// The start of the thread's part, in elements.
    thread_offset: IntValue<'c>,
    /// For each bit of the loop counter along K, the change of the offset.
    k_offsets: Vec<u32>,
    /// Number of elements per vector.
    width: u32,
    /// Vectors that are already loaded, by the offset of their first element.
    vectors: BTreeMap<u32, Vec<Val<'c>>>,
}

impl<'c> OperandLoads<'c> {
    /// Maximum number of bytes of a vector.
    const MAX_VECTOR_BYTES: u32 = 16;

    /// `own` maps each register, lane and warp to the element that a thread reads in the first iteration. `depth` has the
    /// elements of the bits of the K coordinate. An iteration has `k_per_iteration` K steps, which are the lowest bits; the loop
    /// counter covers the higher bits.
    fn new(e: &Emitter<'c, '_>, buffer: Buffer, own: &Layout, depth: &[u32], k_per_iteration: u32) -> Self {
        let offset = |element: &u32| e.offset_in(buffer, *element);
        let k_offsets: Vec<u32> = depth.iter().map(offset).collect();
        let (in_iteration, by_counter) = k_offsets.split_at((k_per_iteration.ilog2() as usize).min(k_offsets.len()));
        let register_offsets: Vec<u32> = own.register.iter().map(offset).chain(in_iteration.iter().copied()).collect();
        let thread_offsets: Vec<u32> = own.lane.iter().chain(&own.warp).map(offset).chain(by_counter.iter().copied()).collect();
        let max_width = (Self::MAX_VECTOR_BYTES / e.function.attrs.program.buffers[buffer].elem.bytes().max(1)).max(1);
        let fits = |width: &u32| {
            let is_contiguous = (0..width.ilog2()).all(|bit| register_offsets.contains(&(1 << bit)));
            let is_aligned = |offset: &u32| offset.is_multiple_of(*width);
            is_contiguous
                && thread_offsets.iter().all(is_aligned)
                && register_offsets.iter().all(|offset| is_aligned(offset) || offset.is_power_of_two())
        };
        let width = std::iter::successors(Some(max_width), |width| Some(width / 2)).find(fits).expect("every element is a vector");
        let thread_offset = e.thread_part(own, |element| e.offset_in(buffer, element));
        OperandLoads { buffer, thread_offset, k_offsets, width, vectors: BTreeMap::new() }
    }

    /// Moves the loads to the iteration with this loop counter.
    fn step_to(&mut self, e: &Emitter<'c, '_>, counter: IntValue<'c>) {
        self.thread_offset = e.ir.xor(self.thread_offset, e.xor_of_bases(counter, &self.k_offsets));
    }

    /// Returns an element. Loads its vector if no earlier call has loaded it.
    fn read(&mut self, e: &Emitter<'c, '_>, element: u32) -> Val<'c> {
        let (ir, elem) = (e.ir, e.function.attrs.program.buffers[self.buffer].elem);
        let (offset, width) = (e.offset_in(self.buffer, element), self.width);
        let first = offset & !(width - 1);
        let load = || {
            let ptr = e.buffer_ptr(self.buffer, ir.xor(self.thread_offset, ir.const32(first)));
            let vector = ir.load(ir.vector_type(ir.memory_type(elem), width), ptr, elem.bytes() * width);
            ir.unpack(vector, width as usize).into_iter().map(|value| e.register_form(elem, value)).collect()
        };
        self.vectors.entry(first).or_insert_with(load)[(offset - first) as usize]
    }
}

/// The position of an `mma.sync` atom in a K step: its first accumulator register, the coordinates of that register's element,
/// and the first registers of its fragments.
pub(super) struct AtomPlace {
    first: usize,
    batch: u32,
    m: u32,
    n: u32,
    pub(super) starts: [usize; 2],
}

/// Maximum number of accumulators of a thread in one multiply-add loop that executes several MMAs.
const MAX_ACCUMULATORS: usize = 128;

/// One MMA of a multiply-add loop.
struct LoopMma {
    /// The indices of its operand loads in the list of all loads.
    reads: [usize; 2],
    /// The operand elements of each accumulator at K = 0.
    elements: Vec<[u32; 2]>,
    /// For each operand, the position of the K coordinate in element numbers.
    shifts: [u32; 2],
    elems: [Elem; 2],
    acc: Value,
    signed: [bool; 2],
    result: Value,
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn mma(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let tileas::Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, signed_lhs, signed_rhs, atom, .. } = program else {
            unreachable!("called for MMA ops only")
        };
        let signed = [*signed_lhs, *signed_rhs];
        if let MmaAtom::Tensor(atom) = atom {
            return self.tcgen05_mma(op, program, atom);
        }
        let (MmaOperand::Registers(acc), [result]) = (acc, results) else { return Err(self.unsupported(op)) };
        let result = *result;
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs)) => {
                let registers = |scale: &Option<MmaOperand>| scale.and_then(|place| place.registers());
                let scales = registers(lhs_scale).zip(registers(rhs_scale)).map(|(lhs, rhs)| [lhs, rhs]);
                let instruction = match scales {
                    Some([scale, _]) => self.scaled_name(atom, [*lhs, *rhs], scale),
                    None => self.instruction_name(atom, [*lhs, *rhs, *acc], signed),
                };
                self.mma_sync(atom, &instruction, [*lhs, *rhs, *acc], scales, result)
            }
            (MmaAtom::Group(atom), _, MmaOperand::Memory { .. }) => self.wgmma(op, program, atom, result),
            (MmaAtom::MultiplyAdd(_), MmaOperand::Memory { .. }, MmaOperand::Memory { .. }) => self.smem_mmas(&[op]),
            _ => Err(self.unsupported(op)),
        }
    }

    fn instruction_name(&self, atom: &SyncAtom, [lhs, rhs, acc]: [Value; 3], signed: [bool; 2]) -> String {
        if atom.widened {
            return "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".into();
        }
        let name = |value: Value, signed: bool| element_type_name(self.elem(value).carrier(), signed);
        let acc = name(acc, true);
        let (a, b) = (name(lhs, signed[0]), name(rhs, signed[1]));
        format!("mma.sync.aligned.m{}n{}k{}.row.col.{acc}.{a}.{b}.{acc}", atom.rows, atom.n, atom.k)
    }

    fn scaled_name(&self, atom: &SyncAtom, operands: [Value; 2], scale: Value) -> String {
        // Bytes hold pairs of 4-bit floats.
        let packed = self.elem(operands[0]).carrier() == Scalar::I8;
        let name = |value: Value| element_type_name(if packed { Scalar::F4E2M1FN } else { self.elem(value).carrier() }, true);
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
        let k = if packed { 2 * atom.k } else { atom.k };
        format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.kind::{kind}.block_scale.scale_vec::{scales}X.f32.{a}.{b}.f32.{scale}")
    }

    /// The atoms of a K step, in the order of their accumulators.
    pub(super) fn atoms_of_step(&self, atom: &SyncAtom, [lhs, rhs, acc]: [Value; 3], k: u32) -> Vec<AtomPlace> {
        let [a, b, c] = [lhs, rhs, acc].map(|value| self.layout(value));
        let [a_shape, b_shape, c_shape] = [lhs, rhs, acc].map(|value| Strides::of(self.ty(value).shape()));
        let dims = c_shape.bits.len();
        let element_at = |strides: &Strides, [batch, row, col]: [u32; 3]| {
            let batch = if dims == 3 { batch << strides.shift[0] } else { 0 };
            batch | row << strides.shift[dims - 2] | col << strides.shift[dims - 1]
        };
        let start =
            |layout: &Layout, element| solve(&layout.register, element).expect("a fragment is in the registers of its warp");
        let atom_place = |first: usize| {
            let element = apply(&c.register, first as u32);
            let batch = if dims == 3 { c_shape.coordinate(element, 0) } else { 0 };
            let (m, n) = (c_shape.coordinate(element, dims - 2), c_shape.coordinate(element, dims - 1));
            let starts = [start(&a, element_at(&a_shape, [batch, m, k])), start(&b, element_at(&b_shape, [batch, k, n]))];
            AtomPlace { first, batch, m, n, starts }
        };
        (0..c.registers()).step_by(atom.registers(Operand::C) as usize).map(atom_place).collect()
    }

    /// Emits all atoms of an MMA; the accumulators stay in registers.
    fn mma_sync(
        &mut self,
        atom: &SyncAtom,
        instruction: &str,
        [lhs, rhs, acc]: [Value; 3],
        scales: Option<[Value; 2]>,
        result: Value,
    ) -> Result<()> {
        let depth = *self.ty(lhs).shape().last().expect("operands have a K extent");
        let mut registers = self.get(acc).to_vec();
        let accumulator_count = atom.registers(Operand::C) as usize;
        // The K steps are outermost, so that few fragments are live.
        for k in (0..depth).step_by(atom.k as usize) {
            let mut f16_fragments = [BTreeMap::new(), BTreeMap::new()];
            let atoms = self.atoms_of_step(atom, [lhs, rhs, acc], k);
            if self.fragment_prefetch.is_some() && k + atom.k >= depth {
                for AtomPlace { starts: [a, b], .. } in &atoms {
                    self.fragment(lhs, *a, atom.registers(Operand::A) as usize);
                    self.fragment(rhs, *b, atom.registers(Operand::B) as usize);
                }
                self.begin_next_iteration()?;
            }
            for AtomPlace { first, batch, m, n, starts: [a_start, b_start] } in atoms {
                let a = self.fragment(lhs, a_start, atom.registers(Operand::A) as usize);
                let b_start = if common::fault_injected("ptx.fragment") { 0 } else { b_start };
                let b = self.fragment(rhs, b_start, atom.registers(Operand::B) as usize);
                let scales = scales.map(|scales| self.atom_scales(atom, scales, [batch, m, n, k]));
                let mut accumulators = registers[first..first + accumulator_count].to_vec();
                if atom.widened {
                    let [a_halves, b_halves] = &mut f16_fragments;
                    let a = a_halves.entry(a_start).or_insert_with(|| self.halves(self.elem(lhs), &a));
                    let b = b_halves.entry(b_start).or_insert_with(|| self.halves(self.elem(rhs), &b));
                    for (a, b) in a.iter().zip(b) {
                        accumulators = self.sync_atom(atom, instruction, (a, b), &accumulators, None);
                    }
                } else {
                    accumulators = self.sync_atom(atom, instruction, (&a, &b), &accumulators, scales);
                }
                registers[first..first + accumulator_count].copy_from_slice(&accumulators);
            }
        }
        self.deferred.remove(&lhs);
        self.deferred.remove(&rhs);
        self.set(result, registers);
        Ok(())
    }

    /// Converts a fragment of 8-bit floats into two f16 fragments; the 8-bit atom spans twice the K extent of the f16 atom.
    /// A word of four neighbours along K gives two pairs. The second pair becomes part of the pairs eight K positions later. Both
    /// operands are split in the same way, so each element of A is still multiplied by the element of B with the same K.
    fn halves(&self, elem: Elem, fragment: &[Val<'c>]) -> [Vec<Val<'c>>; 2] {
        let (ir, elem) = (self.ir, elem.carrier());
        let wide = |word: &Val<'c>, further: u32| {
            let pair = ir.resize(ir.shr(word.into_int_value(), ir.const32(16 * further), false), ir.int(16), false);
            ir.bitcast(self.small_pair(elem, pair), ir.i32())
        };
        // In A, the words of the upper and the lower eight rows precede the words further along K.
        let half = |words: &[Val<'c>]| [0, 1].into_iter().flat_map(|k| words.iter().map(move |word| wide(word, k))).collect();
        let (first, second) = fragment.split_at(fragment.len() / 2);
        [half(first), half(second)]
    }

    /// For each operand, one word per lane with the scales of an atom at these coordinates.
    fn atom_scales(&self, atom: &SyncAtom, [lhs_scale, rhs_scale]: [Value; 2], [batch, m, n, k]: [u32; 4]) -> [Val<'c>; 2] {
        let block = k / (atom.k / atom.scales);
        [(lhs_scale, [m, block]), (rhs_scale, [block, n])].map(|(value, [row, col])| {
            let (layout, strides) = (self.layout(value), Strides::of(self.ty(value).shape()));
            let dims = strides.bits.len();
            let outer = if dims == 3 { batch << strides.shift[0] } else { 0 };
            let element = outer | row << strides.shift[dims - 2] | col << strides.shift[dims - 1];
            let first = solve(&layout.register, element).expect("scales are in the registers of their warp");
            let bytes = &self.get(value)[first..first + atom.scales as usize];
            self.ir.packed(bytes, 8)
        })
    }

    fn sync_atom(
        &self,
        atom: &SyncAtom,
        instruction: &str,
        (a, b): (&[Val<'c>], &[Val<'c>]),
        c: &[Val<'c>],
        scales: Option<[Val<'c>; 2]>,
    ) -> Vec<Val<'c>> {
        let elem = c[0].get_type();
        let mut a = a.to_vec();
        let mut accumulators = if elem == self.ir.f32().into() { c.to_vec() } else { self.ir.words(c) };
        let count = accumulators.len();
        if atom.rows > atom.m {
            // In A, the words of the upper and the lower eight rows alternate. Accumulators of the lower rows come last. The
            // lower rows are zero, because the tile has only the upper ones.
            a = a.into_iter().flat_map(|word| [word, word.get_type().const_zero()]).collect();
            accumulators.extend(accumulators.clone().into_iter().map(|word| word.get_type().const_zero()));
        }
        let mut next = 0;
        let mut list = |length: usize| {
            let names: Vec<String> = (next..next + length).map(|i| format!("${i}")).collect();
            next += length;
            format!("{{{}}}", names.join(", "))
        };
        let mut text = format!(
            "{instruction} {}, {}, {}, {}",
            list(accumulators.len()),
            list(a.len()),
            list(b.len()),
            list(accumulators.len())
        );
        if scales.is_some() {
            // The byte selector and the thread selector are 0: the instruction takes the first scale bytes, from the first lane
            // of each group of four.
            text += &format!(", {}, {{0, 0}}, {}, {{0, 0}}", list(1), list(1));
        }
        text.push(';');
        let scales = scales.into_iter().flatten().collect::<Vec<_>>();
        let outputs = accumulators.iter().map(|word| format!("={}", self.register_letter(*word)));
        let inputs = a.iter().chain(b).chain(&accumulators).chain(&scales).map(|word| self.register_letter(*word).to_string());
        let constraints: Vec<String> = outputs.chain(inputs).collect();
        let args: Vec<Val<'c>> = a.iter().chain(b).chain(&accumulators).copied().chain(scales).collect();
        let types: Vec<_> = accumulators.iter().map(|sum| sum.get_type()).collect();
        let mut results = self.ir.asm_many(&types, &text, &constraints.join(","), &args, false);
        results.truncate(count);
        if results.len() == c.len() {
            return results;
        }
        // Half-precision accumulators are packed in pairs.
        let pair = self.ir.vector_type(elem, 2);
        results.into_iter().flat_map(|word| self.ir.unpack(self.ir.bitcast(word, pair), 2)).collect()
    }

    /// The constraint letter of a word of a fragment or accumulator.
    fn register_letter(&self, word: Val<'c>) -> &'static str {
        match word {
            Val::FloatValue(value) if value.get_type() == self.ir.context.f64_type() => "d",
            Val::FloatValue(_) => "f",
            _ => "r",
        }
    }

    /// Returns how many consecutive multiply-add MMAs, from the first op on, can share one loop along K. In such a loop, operands
    /// of several MMAs are loaded once. No MMA of the loop may accumulate into the result of another MMA of the loop.
    pub(super) fn batched_mma_count(&self, ops: &[OpId]) -> usize {
        let of = |op: &OpId| match &self.function.body.ops[*op].kind {
            sched::Op::Core(tileas::Op::Mma { lhs, rhs, acc, atom: MmaAtom::MultiplyAdd(atom), .. }) => {
                Some(([lhs, rhs].map(|place| place.buffer()), acc.registers()?, atom.k))
            }
            _ => None,
        };
        let of = |op: &OpId| match of(op)? {
            ([Some(lhs), Some(rhs)], acc, k) => Some(([lhs, rhs], acc, k)),
            _ => None,
        };
        let stages = |op: OpId| {
            let all = self.function.body.ops[op].kind.effects().buffers;
            all.into_iter().map(|access| (access.buffer, access.stage)).collect::<BTreeMap<_, _>>()
        };
        let Some((first, acc, k_per_iteration)) = ops.first().and_then(of) else { return 1 };
        let (mut read, mut registers) = (first.to_vec(), self.get(acc).len());
        let k_extent = |buffer: Buffer| self.function.attrs.program.buffers[buffer].shape.last().copied();
        let (mut count, mut stages_read) = (1, stages(ops[0]));
        for op in &ops[1..] {
            let Some((buffers, acc, k)) = of(op) else { break };
            let is_computed_here = self.function.body.defining_op(acc).is_some_and(|producer| ops[..count].contains(&producer));
            if is_computed_here
                || k != k_per_iteration
                || k_extent(buffers[0]) != k_extent(first[0])
                || !buffers.iter().any(|buffer| read.contains(buffer))
            {
                break;
            }
            registers += self.get(acc).len();
            let stages_of_op = stages(*op);
            let is_same = |(buffer, stage): (&Buffer, &Option<Value>)| stages_read.get(buffer).is_none_or(|other| other == stage);
            if registers > MAX_ACCUMULATORS || !stages_of_op.iter().all(is_same) {
                break;
            }
            stages_read.extend(stages_of_op);
            read.extend(buffers);
            count += 1;
        }
        count
    }

    /// Emits a loop along K for some MMAs, with `atom.k` K steps per iteration.
    /// In each step, every thread loads the rows and columns of its accumulators and executes multiply-adds.
    pub(super) fn smem_mmas(&mut self, ops: &[OpId]) -> Result<()> {
        let ir = self.ir;
        let (mut reads, mut mmas): (Vec<(Layout, OperandLoads<'c>)>, Vec<LoopMma>) = Default::default();
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
            let loop_mma = self.loop_mma([lhs, rhs], acc, k_per_iteration, &mut reads, [*signed_lhs, *signed_rhs], *result);
            k_extent = self.function.attrs.program.buffers[lhs].shape.last().copied().unwrap_or(1);
            mmas.push(loop_mma);
        }
        let before = ir.current_block();
        let (body, after) = (ir.block(self.kernel, "mmas"), ir.block(self.kernel, ""));
        ir.jump(body);
        ir.builder.position_at_end(body);
        let counter = ir.builder.build_phi(ir.i32(), "").expect("at the start of a block");
        counter.add_incoming(&[(&ir.const32(0), before)]);
        let mut accumulators = Vec::new();
        for mma in &mmas {
            for value in self.get(mma.acc) {
                let phi = ir.builder.build_phi(value.get_type(), "").expect("at the start of a block");
                phi.add_incoming(&[(value, before)]);
                accumulators.push(phi);
            }
        }
        let k = counter.as_basic_value().into_int_value();
        reads.iter_mut().for_each(|(_, operand)| operand.step_to(self, k));
        let mut next: Vec<Val<'c>> = accumulators.iter().map(|sum| sum.as_basic_value()).collect();
        for step in 0..k_per_iteration {
            let mut remaining = &mut next[..];
            for mma in &mmas {
                let (of_mma, following) = remaining.split_at_mut(self.get(mma.acc).len());
                self.fma_step(mma, step, &mut reads, of_mma)?;
                remaining = following;
            }
        }
        for (phi, value) in accumulators.iter().zip(&next) {
            phi.add_incoming(&[(value, body)]);
        }
        let more = ir.add(k, ir.const32(k_per_iteration));
        counter.add_incoming(&[(&more, body)]);
        ir.branch(ir.icmp(IntPredicate::ULT, more, ir.const32(k_extent)), body, after);
        ir.builder.position_at_end(after);
        for mma in mmas {
            let following = next.split_off(self.get(mma.acc).len());
            self.set(mma.result, std::mem::replace(&mut next, following));
        }
        Ok(())
    }

    /// Describes one MMA of the loop, and adds its operand loads. MMAs that read the same elements share loads.
    fn loop_mma(
        &self,
        [lhs, rhs]: [Buffer; 2],
        acc: Value,
        k_per_iteration: u32,
        reads: &mut Vec<(Layout, OperandLoads<'c>)>,
        signed: [bool; 2],
        result: Value,
    ) -> LoopMma {
        let layout = self.layout(acc);
        let buffers = &self.function.attrs.program.buffers;
        let (a_info, b_info) = (&buffers[lhs], &buffers[rhs]);
        let (a_shape, b_shape) = (Strides::of(&a_info.shape), Strides::of(&b_info.shape));
        let c_shape = Strides::of(self.ty(acc).shape());
        let dims = c_shape.bits.len();
        let batch = |element: u32, to: &Strides| if dims == 3 { c_shape.coordinate(element, 0) << to.shift[0] } else { 0 };
        // Map an accumulator element to the operand elements at K = 0.
        let a_of = |element: u32| batch(element, &a_shape) | c_shape.coordinate(element, dims - 2) << a_shape.shift[dims - 2];
        let b_of = |element: u32| batch(element, &b_shape) | c_shape.coordinate(element, dims - 1) << b_shape.shift[dims - 1];
        let a_k_elements: Vec<u32> = a_shape.dim_bits(dims - 1).map(|bit| 1 << bit).collect();
        let b_k_elements: Vec<u32> = b_shape.dim_bits(dims - 2).map(|bit| 1 << bit).collect();
        let mut read = |buffer: Buffer, own: Layout, k_elements: &[u32]| {
            let existing = reads.iter().position(|(other, read)| read.buffer == buffer && *other == own);
            existing.unwrap_or_else(|| {
                let loads = OperandLoads::new(self, buffer, &own, k_elements, k_per_iteration);
                reads.push((own, loads));
                reads.len() - 1
            })
        };
        let (a, b) = (read(lhs, layout.map(a_of), &a_k_elements), read(rhs, layout.map(b_of), &b_k_elements));
        let elements = (0..self.get(acc).len() as u32).map(|register| apply(&layout.register, register));
        let elements = elements.map(|element| [a_of(element), b_of(element)]).collect();
        let shifts = [a_shape.shift[dims - 1], b_shape.shift[dims - 2]];
        LoopMma { reads: [a, b], elements, shifts, elems: [a_info.elem, b_info.elem], acc, signed, result }
    }

    /// Emits one K step of an MMA of the loop.
    fn fma_step(
        &self,
        loop_mma: &LoopMma,
        step: u32,
        reads: &mut [(Layout, OperandLoads<'c>)],
        accumulators: &mut [Val<'c>],
    ) -> Result<()> {
        let acc = self.elem(loop_mma.acc);
        let [a_step, b_step] = loop_mma.shifts.map(|shift| step << shift);
        let mut operands = Vec::with_capacity(accumulators.len());
        for [a, b] in &loop_mma.elements {
            let a = reads[loop_mma.reads[0]].1.read(self, a | a_step);
            operands.push((a, reads[loop_mma.reads[1]].1.read(self, b | b_step)));
        }
        for (sum, (a, b)) in accumulators.iter_mut().zip(operands) {
            let a = self.promote(a, loop_mma.elems[0], acc, loop_mma.signed[0])?;
            let b = self.promote(b, loop_mma.elems[1], acc, loop_mma.signed[1])?;
            *sum = self.multiply_add(a, b, *sum);
        }
        Ok(())
    }

    /// Converts an operand element to the type in which the multiply-add computes: the accumulator's type, or f32 if the
    /// accumulator has f16.
    fn promote(&self, value: Val<'c>, from: Elem, acc: Elem, signed: bool) -> Result<Val<'c>> {
        let ir = self.ir;
        match (from.carrier(), acc.carrier()) {
            (Scalar::I8, Scalar::I32) => Ok(ir.resize(value.into_int_value(), ir.i32(), signed).into()),
            (Scalar::F16 | Scalar::BF16, Scalar::F32 | Scalar::F16) => Ok(self.widen(value)),
            (a, b) if a == b || (a == Scalar::TF32 && b == Scalar::F32) => Ok(value),
            _ => Err(self.unsupported_type("mma", from)),
        }
    }

    /// A multiplication and an addition, each rounded separately, as Tile IR requires for f32 and f64.
    fn multiply_add(&self, a: Val<'c>, b: Val<'c>, sum: Val<'c>) -> Val<'c> {
        let ir = self.ir;
        if let Val::IntValue(a) = a {
            return ir.add(ir.mul(a, b.into_int_value()), sum.into_int_value()).into();
        }
        let product = ir.builder.build_float_mul(a.into_float_value(), b.into_float_value(), "").expect("floats multiply");
        let narrow = sum.get_type() != product.get_type().into();
        let wide = if narrow { self.widen(sum) } else { sum };
        let total = ir.builder.build_float_add(product, wide.into_float_value(), "").expect("floats add");
        if narrow {
            let ty = sum.get_type().into_float_type();
            return ir.builder.build_float_trunc(total, ty, "").expect("floats narrow").into();
        }
        total.into()
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
