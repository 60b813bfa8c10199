//! Matrix products: `mma.sync` on fragments, and multiply-add loops on operands in shared memory.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use numerics::Scalar;
use std::collections::BTreeMap;
use tileas::layout::{Strides, apply, solve};
use tileas::mma::{Operand, SyncAtom};
use tileas::{Buffer, Layout, MmaAtom, Place};
use vocabulary::tile::Elem;

/// What the names of products call a type.
pub(super) fn multiplied_name(scalar: Scalar, signed: bool) -> &'static str {
    match scalar {
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
        Scalar::I1 | Scalar::I4 | Scalar::I16 | Scalar::I64 | Scalar::F8E8M0FNU | Scalar::F8E5M3FNU => {
            unreachable!("no atom multiplies {scalar}")
        }
    }
}

/// What a thread reads of an operand that it multiplies by itself: in vectors of those elements that lie side by side.
struct Reads<'c> {
    buffer: Buffer,
    /// Where the thread's part begins, in elements, and what each bit of the loop's counter adds to that.
    place: IntValue<'c>,
    steps: Vec<u32>,
    /// Elements of a vector.
    width: u32,
    /// Those that were read, by the offset of the first.
    known: BTreeMap<u32, Vec<Val<'c>>>,
}

impl<'c> Reads<'c> {
    /// Bytes of a vector at most.
    const WIDEST: u32 = 16;

    /// `own` says which element a thread reads for each register, lane and warp where the loop begins; of the bits of the depth the
    /// loop counts those from `together` on.
    fn new(e: &Emitter<'c, '_>, buffer: Buffer, own: &Layout, depth: &[u32], together: u32) -> Self {
        let offset = |element: &u32| e.offset_in(buffer, *element);
        let steps: Vec<u32> = depth.iter().map(offset).collect();
        let (inside, counted) = steps.split_at((together.ilog2() as usize).min(steps.len()));
        let read: Vec<u32> = own.register.iter().map(offset).chain(inside.iter().copied()).collect();
        let threads: Vec<u32> = own.lane.iter().chain(&own.warp).map(offset).chain(counted.iter().copied()).collect();
        let most = (Self::WIDEST / e.function.attrs.program.buffers[buffer].elem.bytes().max(1)).max(1);
        let fits = |width: &u32| {
            let side_by_side = (0..width.ilog2()).all(|bit| read.contains(&(1 << bit)));
            let starts = |offset: &u32| offset.is_multiple_of(*width);
            side_by_side && threads.iter().all(starts) && read.iter().all(|offset| starts(offset) || offset.is_power_of_two())
        };
        let width = std::iter::successors(Some(most), |width| Some(width / 2)).find(fits).expect("every element is a vector");
        let place = e.thread_part(own, |element| e.offset_in(buffer, element));
        Reads { buffer, place, steps, width, known: BTreeMap::new() }
    }

    /// From where elements are read in a round of the loop.
    fn step_to(&mut self, e: &Emitter<'c, '_>, counter: IntValue<'c>) {
        self.place = e.ir.xor(self.place, e.linear(counter, &self.steps));
    }

    fn read(&mut self, e: &Emitter<'c, '_>, element: u32) -> Val<'c> {
        let (ir, elem) = (e.ir, e.function.attrs.program.buffers[self.buffer].elem);
        let (offset, width) = (e.offset_in(self.buffer, element), self.width);
        let first = offset & !(width - 1);
        let load = || {
            let ptr = e.buffer_ptr(self.buffer, ir.xor(self.place, ir.const32(first)));
            let vector = ir.load(ir.vector_type(ir.stored(elem), width), ptr, elem.bytes() * width);
            ir.unpack(vector, width as usize).into_iter().map(|value| e.register_form(elem, value)).collect()
        };
        self.known.entry(first).or_insert_with(load)[(offset - first) as usize]
    }
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn product(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let tileas::Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, signed_lhs, signed_rhs, atom, .. } = program else {
            unreachable!("called for products only")
        };
        let signed = [*signed_lhs, *signed_rhs];
        if let MmaAtom::Tensor(atom) = atom {
            return self.tensor_product(op, program, atom);
        }
        let (Place::Registers(acc), [result]) = (acc, results) else { return Err(self.unsupported(op)) };
        let result = *result;
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), Place::Registers(lhs), Place::Registers(rhs)) => {
                let registers = |scale: &Option<Place>| scale.and_then(|place| place.registers());
                let scales = registers(lhs_scale).zip(registers(rhs_scale)).map(|(lhs, rhs)| [lhs, rhs]);
                let instruction = match scales {
                    Some([scale, _]) => self.scaled_name(atom, [*lhs, *rhs], scale),
                    None => self.instruction_name(atom, [*lhs, *rhs, *acc], signed),
                };
                self.sync_product(atom, &instruction, [*lhs, *rhs, *acc], scales, result);
                Ok(())
            }
            (MmaAtom::Group(atom), _, Place::Memory { .. }) => self.group_product(op, program, atom, result),
            (MmaAtom::MultiplyAdd(atom), Place::Memory { buffer: lhs, .. }, Place::Memory { buffer: rhs, .. }) => {
                self.shared_product([*lhs, *rhs], *acc, atom.k, signed, result)
            }
            _ => Err(self.unsupported(op)),
        }
    }

    fn instruction_name(&self, atom: &SyncAtom, [lhs, rhs, acc]: [Value; 3], signed: [bool; 2]) -> String {
        if atom.widened {
            return "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".into();
        }
        let name = |value: Value, signed: bool| multiplied_name(self.elem(value).carrier(), signed);
        let acc = name(acc, true);
        let (a, b) = (name(lhs, signed[0]), name(rhs, signed[1]));
        format!("mma.sync.aligned.m{}n{}k{}.row.col.{acc}.{a}.{b}.{acc}", atom.rows, atom.n, atom.k)
    }

    fn scaled_name(&self, atom: &SyncAtom, operands: [Value; 2], scale: Value) -> String {
        let name = |value: Value| multiplied_name(self.elem(value).carrier(), true);
        let kind = match atom.scales {
            1 => "mxf8f6f4",
            2 => "mxf4",
            _ => "mxf4nvf4",
        };
        let scale = if self.elem(scale).carrier() == Scalar::F8E8M0FNU { "ue8m0" } else { "ue4m3" };
        let ([a, b], SyncAtom { m, n, k, scales, .. }) = (operands.map(name), atom);
        format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.kind::{kind}.block_scale.scale_vec::{scales}X.f32.{a}.{b}.f32.{scale}")
    }

    /// Walks over the atoms of a product; the sums stay in registers.
    fn sync_product(
        &mut self,
        atom: &SyncAtom,
        instruction: &str,
        [lhs, rhs, acc]: [Value; 3],
        scales: Option<[Value; 2]>,
        result: Value,
    ) {
        let [a, b, c] = [lhs, rhs, acc].map(|value| self.layout(value));
        let [a_shape, c_shape] = [lhs, acc].map(|value| Strides::of(self.ty(value).shape()));
        let b_shape = Strides::of(self.ty(rhs).shape());
        let dims = c_shape.bits.len();
        let batch = |strides: &Strides, element: u32| if dims == 3 { strides.coordinate(element, 0) } else { 0 };
        let place = |strides: &Strides, [batch, row, col]: [u32; 3]| {
            let batch = if dims == 3 { batch << strides.shift[0] } else { 0 };
            batch | row << strides.shift[dims - 2] | col << strides.shift[dims - 1]
        };
        let mut registers = self.get(acc).to_vec();
        let own = atom.registers(Operand::C) as usize;
        // One step of K after the other, so that few fragments are in use at a time.
        for k in (0..1 << a_shape.bits[dims - 1]).step_by(atom.k as usize) {
            let mut wide = [BTreeMap::new(), BTreeMap::new()];
            for first in (0..registers.len()).step_by(own) {
                let element = apply(&c.register, first as u32);
                let (m, n) = (c_shape.coordinate(element, dims - 2), c_shape.coordinate(element, dims - 1));
                let batch = batch(&c_shape, element);
                let start = |layout: &Layout, element| {
                    solve(&layout.register, element).expect("a fragment is in the registers of its warp")
                };
                let a_start = start(&a, place(&a_shape, [batch, m, k]));
                let b_start = start(&b, place(&b_shape, [batch, k, n]));
                let a = self.fragment(lhs, a_start, atom.registers(Operand::A) as usize);
                let b_start = if common::planted("ptx.fragment") { 0 } else { b_start };
                let b = self.fragment(rhs, b_start, atom.registers(Operand::B) as usize);
                let scales = scales.map(|scales| self.atom_scales(atom, scales, [batch, m, n, k]));
                let mut sums = registers[first..first + own].to_vec();
                if atom.widened {
                    let [of_a, of_b] = &mut wide;
                    let a = of_a.entry(a_start).or_insert_with(|| self.halves(self.elem(lhs), &a));
                    let b = of_b.entry(b_start).or_insert_with(|| self.halves(self.elem(rhs), &b));
                    for (a, b) in a.iter().zip(b) {
                        sums = self.sync_atom(atom, instruction, (a, b), &sums, None);
                    }
                } else {
                    sums = self.sync_atom(atom, instruction, (&a, &b), &sums, scales);
                }
                registers[first..first + own].copy_from_slice(&sums);
            }
        }
        self.deferred.remove(&lhs);
        self.deferred.remove(&rhs);
        self.set(result, registers);
    }

    /// The words of two fragments of f16, of one of 8-bit floats that goes twice as far along K. A word of four neighbours along K
    /// gives two pairs, which take the places of a pair and of the one eight further along; as both operands are taken apart
    /// alike, the same elements still meet.
    fn halves(&self, elem: Elem, fragment: &[Val<'c>]) -> [Vec<Val<'c>>; 2] {
        let (ir, elem) = (self.ir, elem.carrier());
        let wide = |word: &Val<'c>, further: u32| {
            let pair = ir.resize(ir.shr(word.into_int_value(), ir.const32(16 * further), false), ir.int(16), false);
            ir.bitcast(self.small_pair(elem, pair), ir.i32())
        };
        // Of A, words for the upper and the lower eight rows come before those further along.
        let half = |words: &[Val<'c>]| [0, 1].into_iter().flat_map(|k| words.iter().map(move |word| wide(word, k))).collect();
        let (first, second) = fragment.split_at(fragment.len() / 2);
        [half(first), half(second)]
    }

    /// What the lanes hold of the scales of A and of B for an atom at these elements: one word each.
    fn atom_scales(&self, atom: &SyncAtom, [of_a, of_b]: [Value; 2], [batch, m, n, k]: [u32; 4]) -> [Val<'c>; 2] {
        let block = k / (atom.k / atom.scales);
        [(of_a, [m, block]), (of_b, [block, n])].map(|(value, [row, col])| {
            let (layout, strides) = (self.layout(value), Strides::of(self.ty(value).shape()));
            let dims = strides.bits.len();
            let outer = if dims == 3 { batch << strides.shift[0] } else { 0 };
            let element = outer | row << strides.shift[dims - 2] | col << strides.shift[dims - 1];
            let first = solve(&layout.register, element).expect("scales are in the registers of their warp");
            let bytes = &self.get(value)[first..first + atom.scales as usize];
            self.packed(bytes, 8)
        })
    }

    /// Integers side by side in a word, of so many bits each, the first lowest.
    fn packed(&self, parts: &[Val<'c>], bits: u32) -> Val<'c> {
        let ir = self.ir;
        let mut word = ir.const32(0);
        for (i, part) in parts.iter().enumerate() {
            let part = ir.resize(part.into_int_value(), ir.i32(), false);
            word = ir.or(word, ir.shl(part, ir.const32(i as u32 * bits)));
        }
        word.into()
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
        let mut sums = if elem == self.ir.f32().into() { c.to_vec() } else { self.words(c) };
        let own = sums.len();
        if atom.rows > atom.m {
            // Words of the upper and of the lower rows take turns in A; sums of the lower rows come last.
            a = a.into_iter().flat_map(|word| [word, word.get_type().const_zero()]).collect();
            sums.extend(sums.clone().into_iter().map(|word| word.get_type().const_zero()));
        }
        let mut next = 0;
        let mut list = |count: usize| {
            let names: Vec<String> = (next..next + count).map(|i| format!("${i}")).collect();
            next += count;
            format!("{{{}}}", names.join(", "))
        };
        let mut text = format!("{instruction} {}, {}, {}, {}", list(sums.len()), list(a.len()), list(b.len()), list(sums.len()));
        if scales.is_some() {
            // The first byte, of the first lanes of each four.
            text += &format!(", {}, {{0, 0}}, {}, {{0, 0}}", list(1), list(1));
        }
        text.push(';');
        let scales = scales.into_iter().flatten().collect::<Vec<_>>();
        let outputs = sums.iter().map(|word| format!("={}", self.register_letter(*word)));
        let inputs = a.iter().chain(b).chain(&sums).chain(&scales).map(|word| self.register_letter(*word).to_string());
        let constraints: Vec<String> = outputs.chain(inputs).collect();
        let args: Vec<Val<'c>> = a.iter().chain(b).chain(&sums).copied().chain(scales).collect();
        let types: Vec<_> = sums.iter().map(|sum| sum.get_type()).collect();
        let mut results = self.ir.asm_many(&types, &text, &constraints.join(","), &args, false);
        results.truncate(own);
        if results.len() == c.len() {
            return results;
        }
        // Half-precision sums come two to a word.
        let pair = self.ir.vector_type(elem, 2);
        results.into_iter().flat_map(|word| self.ir.unpack(self.ir.bitcast(word, pair), 2)).collect()
    }

    /// The constraint for what holds a word of an atom.
    fn register_letter(&self, word: Val<'c>) -> &'static str {
        match word {
            Val::FloatValue(value) if value.get_type() == self.ir.context.f64_type() => "d",
            Val::FloatValue(_) => "f",
            _ => "r",
        }
    }

    /// Elements packed into 32-bit words, the first lowest; those of 64 bits as they are.
    pub(super) fn words(&self, registers: &[Val<'c>]) -> Vec<Val<'c>> {
        let bits = match registers[0] {
            Val::FloatValue(value) if value.get_type() == self.ir.context.f64_type() => return registers.to_vec(),
            Val::FloatValue(value) if value.get_type() == self.ir.f32() => 32,
            Val::FloatValue(_) => 16,
            other => other.into_int_value().get_type().get_bit_width(),
        };
        let count = (32 / bits) as usize;
        let word = |chunk: &[Val<'c>]| match bits {
            0..8 => self.packed(chunk, bits),
            _ => self.ir.bitcast(self.ir.pack(chunk), self.ir.i32()),
        };
        registers.chunks(count).map(word).collect()
    }

    /// For each step of K every thread reads the rows and columns that its accumulators need, and multiplies and adds.
    /// A loop along K, as many steps of it at a time as the atom has.
    fn shared_product(
        &mut self,
        [lhs, rhs]: [Buffer; 2],
        acc: Value,
        together: u32,
        signed: [bool; 2],
        result: Value,
    ) -> Result<()> {
        let ir = self.ir;
        let layout = self.layout(acc);
        let buffers = &self.function.attrs.program.buffers;
        let (a_info, b_info) = (&buffers[lhs], &buffers[rhs]);
        let (a_shape, b_shape) = (Strides::of(&a_info.shape), Strides::of(&b_info.shape));
        let c_shape = Strides::of(self.ty(acc).shape());
        let dims = c_shape.bits.len();
        let steps = a_info.shape[dims - 1];
        let batch = |element: u32, to: &Strides| if dims == 3 { c_shape.coordinate(element, 0) << to.shift[0] } else { 0 };
        // From an accumulator to the element of each operand at K = 0.
        let a_of = |element: u32| batch(element, &a_shape) | c_shape.coordinate(element, dims - 2) << a_shape.shift[dims - 2];
        let b_of = |element: u32| batch(element, &b_shape) | c_shape.coordinate(element, dims - 1) << b_shape.shift[dims - 1];
        let (a_elem, b_elem, acc_elem) = (a_info.elem, b_info.elem, self.elem(acc));
        let a_steps: Vec<u32> = a_shape.dim_bits(dims - 1).map(|bit| 1 << bit).collect();
        let b_steps: Vec<u32> = b_shape.dim_bits(dims - 2).map(|bit| 1 << bit).collect();
        let mut a = Reads::new(self, lhs, &layout.map(a_of), &a_steps, together);
        let mut b = Reads::new(self, rhs, &layout.map(b_of), &b_steps, together);

        let before = ir.here();
        let (body, after) = (ir.block(self.kernel, "products"), ir.block(self.kernel, ""));
        ir.go(body);
        ir.builder.position_at_end(body);
        let counter = ir.builder.build_phi(ir.i32(), "").expect("at the start of a block");
        let sums: Vec<_> = self
            .get(acc)
            .iter()
            .map(|value| ir.builder.build_phi(value.get_type(), "").expect("at the start of a block"))
            .collect();
        counter.add_incoming(&[(&ir.const32(0), before)]);
        for (phi, value) in sums.iter().zip(self.get(acc)) {
            phi.add_incoming(&[(value, before)]);
        }
        let k = counter.as_basic_value().into_int_value();
        [&mut a, &mut b].into_iter().for_each(|operand| operand.step_to(self, k));
        let mut next: Vec<Val<'c>> = sums.iter().map(|sum| sum.as_basic_value()).collect();
        for step in 0..together {
            let [a_step, b_step] = [step << a_shape.shift[dims - 1], step << b_shape.shift[dims - 2]];
            let mut operands = Vec::with_capacity(next.len());
            for register in 0..next.len() {
                let element = apply(&layout.register, register as u32);
                operands.push((a.read(self, a_of(element) | a_step), b.read(self, b_of(element) | b_step)));
            }
            for (sum, (a, b)) in next.iter_mut().zip(operands) {
                let a = self.promote(a, a_elem, acc_elem, signed[0])?;
                let b = self.promote(b, b_elem, acc_elem, signed[1])?;
                *sum = self.multiply_add(a, b, *sum);
            }
        }
        for (phi, value) in sums.iter().zip(&next) {
            phi.add_incoming(&[(value, body)]);
        }
        let more = ir.add(k, ir.const32(together));
        counter.add_incoming(&[(&more, body)]);
        ir.branch(ir.icmp(IntPredicate::ULT, more, ir.const32(steps)), body, after);
        ir.builder.position_at_end(after);
        self.set(result, next);
        Ok(())
    }

    /// An operand's element in the type that products are made in: the accumulator's, or f32 under an f16 accumulator.
    fn promote(&self, value: Val<'c>, from: Elem, acc: Elem, signed: bool) -> Result<Val<'c>> {
        let ir = self.ir;
        match (from.carrier(), acc.carrier()) {
            (Scalar::I8, Scalar::I32) => Ok(ir.resize(value.into_int_value(), ir.i32(), signed).into()),
            (Scalar::F16 | Scalar::BF16, Scalar::F32 | Scalar::F16) => Ok(self.widen(value)),
            (a, b) if a == b || (a == Scalar::TF32 && b == Scalar::F32) => Ok(value),
            _ => Err(self.unsupported_type("product", from)),
        }
    }

    /// Multiply, then add, each rounded: what the reference does on f32 and f64.
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
