//! Reductions and scans within a thread and across the lanes of a warp.

use super::Emitter;
use crate::ir::Val;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Region, Value};
use core_dialect::combining;
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use numerics::Scalar;
use numerics::arith::{Binary, Signedness};
use sched::packed_ops::Packed;
use target_info::Feature;
use tileas::Layout;
use tileas::layout::{LANE_BITS, Strides, apply, solve};

impl<'c> Emitter<'c, '_> {
    pub(super) fn reduce(&mut self, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::ReduceRegisters { operands, dim, body } => self.reduce_registers(operands, *dim, *body, results),
            tileas::Op::ReduceLanes { operands, dim, body } => self.reduce_lanes(operands, *dim, *body, results),
            _ => unreachable!("called for reductions only"),
        }
    }

    /// Emits the body for a left and a right value of each operand.
    fn combine(&mut self, body: Region, left: &[Val<'c>], right: &[Val<'c>]) -> Result<Vec<Val<'c>>> {
        let block = self.function.body.block_of(body);
        let args = self.function.body.blocks[block].args.clone();
        for (i, pair) in args.chunks(2).enumerate() {
            self.set(pair[0], vec![left[i]]);
            self.set(pair[1], vec![right[i]]);
        }
        let (last, ops) = self.function.body.blocks[block].ops.split_last().expect("a body ends in yield");
        for &op in ops {
            self.op(op)?;
        }
        let values = base::ir::Operation::operands(&self.function.body.ops[*last].kind);
        Ok(values.iter().map(|value| self.scalar(*value)).collect())
    }

    /// Reduces in a tree within each thread: this keeps rounding errors small and dependence chains short.
    /// Packed instructions combine two registers at once. They are neighbours from two rows, or neighbours from one row if the
    /// even and odd elements may be combined separately.
    fn reduce_registers(&mut self, operands: &[Value], dim: u32, body: Region, results: &[Value]) -> Result<()> {
        let layout = self.layout(operands[0]);
        let mask = Strides::of(self.ty(operands[0]).shape()).mask(dim as usize);
        let reduced_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| layout.register[*bit] & mask != 0).collect();
        let kept_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| layout.register[*bit] & mask == 0).collect();
        let elem = self.elem(operands[0]);
        let kind = combining::single_commutative_op(&self.function.body, body);
        let packed = kind.and_then(Packed::of_binary).filter(|packed| packed.exists(elem, self.target));
        let separate_evens = combining::combines_evens_separately(kind);
        let operands_per_instruction = self.max_operands(kind, elem);
        let row = |group| {
            (0..1usize << reduced_bits.len()).map(|i| scatter_bits(group, &kept_bits) | scatter_bits(i, &reduced_bits)).collect()
        };
        let rows: Vec<Vec<usize>> = (0..1usize << kept_bits.len()).map(row).collect();
        let mut out = vec![Vec::new(); operands.len()];
        let adjacent_rows = kept_bits.first() == Some(&0);
        match packed {
            Some(packed) if adjacent_rows || reduced_bits.len() > 1 => {
                let values = self.get(operands[0]).to_vec();
                for row in rows.iter().step_by(if adjacent_rows { 2 } else { 1 }) {
                    let pairs = row.iter().step_by(if adjacent_rows { 1 } else { 2 });
                    let pairs = pairs.map(|first| self.ir.pack(&values[*first..first + 2])).collect();
                    let pair = in_tree(pairs, separate_evens && adjacent_rows, 2, &mut |a: &Val<'c>, b| {
                        Ok(self.packed_arithmetic(packed, &[*a, *b]))
                    })?;
                    let pair = self.ir.unpack(pair, 2);
                    match adjacent_rows {
                        true => out[0].extend(pair),
                        false => out[0].extend(self.combine(body, &pair[..1], &pair[1..])?),
                    }
                }
            }
            _ => {
                for row in &rows {
                    let of = |register: &usize| operands.iter().map(|operand| self.get(*operand)[*register]).collect();
                    let row: Vec<Vec<Val<'c>>> = row.iter().map(of).collect();
                    let all = in_tree(row, separate_evens, operands_per_instruction, &mut |a: &Vec<Val<'c>>, b| {
                        self.combine(body, a, b)
                    })?;
                    out.iter_mut().zip(all).for_each(|(out, value)| out.push(value));
                }
            }
        }
        for (result, registers) in results.iter().zip(out) {
            self.set(*result, registers);
        }
        Ok(())
    }

    /// The number of operands that one instruction can combine.
    fn max_operands(&self, operation: Option<Binary>, elem: Elem) -> usize {
        let is_min_or_max = matches!(operation, Some(Binary::MaxF { .. } | Binary::MinF { .. }));
        if is_min_or_max && elem == Elem::Scalar(Scalar::F32) && self.target.has(Feature::MinMax3) { 3 } else { 2 }
    }

    /// Reduces across lanes with butterfly shuffles. The first lane of a group always combines lower elements on the left with
    /// higher elements on the right. If the body is not commutative, the other lanes may have another result, so they take the
    /// first lane's.
    fn reduce_lanes(&mut self, operands: &[Value], dim: u32, body: Region, results: &[Value]) -> Result<()> {
        let layout = self.layout(operands[0]);
        let mask = Strides::of(self.ty(operands[0]).shape()).mask(dim as usize);
        let lanes: Vec<usize> = (0..layout.lane.len()).rev().filter(|bit| layout.lane[*bit] & mask != 0).collect();
        let elems: Vec<Elem> = operands.iter().map(|operand| self.elem(*operand)).collect();
        let mut rows: Vec<Vec<Val<'c>>> =
            (0..layout.registers()).map(|i| operands.iter().map(|operand| self.get(*operand)[i]).collect()).collect();
        let redux = if lanes.len() == LANE_BITS { self.warp_reduction(body, &elems) } else { None };
        if let Some(name) = redux {
            for row in &mut rows {
                row[0] = self.ir.intrinsic_value(name, &[], &[row[0], self.ir.const32(u32::MAX).into()]);
            }
        }
        for bit in lanes.iter().filter(|_| redux.is_none()) {
            for row in &mut rows {
                let others: Vec<Val<'c>> = row
                    .iter()
                    .zip(&elems)
                    .map(|(value, elem)| {
                        self.butterfly(*value, *elem, if common::fault_injected("ptx.lanes") { 1 } else { 1 << bit })
                    })
                    .collect();
                *row = self.combine(body, row, &others)?;
            }
        }
        if !self.is_commutative(body) && !common::fault_injected("ptx.sides") {
            let group = lanes.iter().fold(0, |mask, bit| mask | 1 << bit);
            for (value, elem) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&elems)) {
                *value = self.first_of_group(*value, *elem, group);
            }
        }
        // The result has the same registers as the operand.
        let result_layout = self.layout(results[0]);
        let order = self.kept_registers(&layout, &result_layout);
        for (i, result) in results.iter().enumerate() {
            let registers = order.iter().map(|register| rows[*register][i]).collect();
            self.set(*result, registers);
        }
        Ok(())
    }

    /// Whether a body is known to be commutative.
    fn is_commutative(&self, body: Region) -> bool {
        let program = &self.function.body;
        let block = &program.blocks[program.block_of(body)];
        let yields = block.ops.last().map(|op| base::ir::Operation::operands(&program.ops[*op].kind)).unwrap_or_default();
        yields.iter().zip(block.args.chunks(2)).all(|(value, sides)| {
            let op = program.defining_op(*value).map(|op| program.ops[op].kind.core());
            let Some(Some(Core::Binary { kind, lhs, rhs })) = op else { return false };
            kind.is_commutative() && ([*lhs, *rhs] == sides || [*rhs, *lhs] == sides)
        })
    }

    /// The warp-wide reduction instruction of the body's operation, if the target has one.
    fn warp_reduction(&self, body: Region, elems: &[Elem]) -> Option<&'static str> {
        match (elems, combining::single_commutative_op(&self.function.body, body)?) {
            ([Elem::Scalar(Scalar::I32)], kind) => Some(match kind {
                Binary::AddI { .. } => "llvm.nvvm.redux.sync.add",
                Binary::MaxI { signedness: Signedness::Signed } => "llvm.nvvm.redux.sync.max",
                Binary::MinI { signedness: Signedness::Signed } => "llvm.nvvm.redux.sync.min",
                Binary::MaxI { signedness: Signedness::Unsigned } => "llvm.nvvm.redux.sync.umax",
                Binary::MinI { signedness: Signedness::Unsigned } => "llvm.nvvm.redux.sync.umin",
                Binary::And => "llvm.nvvm.redux.sync.and",
                Binary::Or => "llvm.nvvm.redux.sync.or",
                Binary::Xor => "llvm.nvvm.redux.sync.xor",
                _ => return None,
            }),
            ([Elem::Scalar(Scalar::F32)], kind) if self.target.has(Feature::ReduxF32) => Some(match kind {
                Binary::MaxF { propagate_nan: false, ftz: false } => "llvm.nvvm.redux.sync.fmax",
                Binary::MaxF { propagate_nan: true, ftz: false } => "llvm.nvvm.redux.sync.fmax.NaN",
                Binary::MinF { propagate_nan: false, ftz: false } => "llvm.nvvm.redux.sync.fmin",
                Binary::MinF { propagate_nan: true, ftz: false } => "llvm.nvvm.redux.sync.fmin.NaN",
                _ => return None,
            }),
            _ => None,
        }
    }

    /// For each register of the result, the register of the operand.
    fn kept_registers(&self, from: &Layout, to: &Layout) -> Vec<usize> {
        debug_assert_eq!(from.register.len(), to.register.len());
        (0..to.registers())
            .map(|register| solve(&from.register, apply(&from.register, register as u32)).unwrap_or(register))
            .collect()
    }

    /// Computes prefixes within each thread, then across consecutive lanes. Each lane step doubles the distance.
    pub(super) fn scan(
        &mut self,
        op: OpId,
        operands: &[Value],
        dim: u32,
        reverse: bool,
        body: Region,
        results: &[Value],
    ) -> Result<()> {
        let layout = self.layout(operands[0]);
        let strides = Strides::of(self.ty(operands[0]).shape());
        let (dim, mask) = (dim as usize, strides.mask(dim as usize));
        let positions = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] & mask != 0).collect::<Vec<usize>>();
        let (register_bits, lanes) = (positions(&layout.register), positions(&layout.lane));
        let in_order = lanes.windows(2).all(|pair| pair[1] == pair[0] + 1) && positions(&layout.warp).is_empty();
        let chain = register_bits.iter().map(|bit| layout.register[*bit]).chain(lanes.iter().map(|bit| layout.lane[*bit]));
        let is_contiguous = chain.eq(strides.dim_bits(dim).map(|bit| 1 << bit));
        if !in_order || !is_contiguous {
            return Err(self.unsupported(op));
        }
        let elems: Vec<Elem> = operands.iter().map(|operand| self.elem(*operand)).collect();
        let other_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| !register_bits.contains(bit)).collect();
        let mut out = vec![vec![None; layout.registers()]; operands.len()];
        for group in 0..1usize << other_bits.len() {
            let mut row: Vec<usize> = (0..1usize << register_bits.len())
                .map(|i| scatter_bits(group, &other_bits) | scatter_bits(i, &register_bits))
                .collect();
            if reverse {
                row.reverse();
            }
            let read = |register: &usize| operands.iter().map(|operand| self.get(*operand)[*register]).collect();
            let mut prefixes: Vec<Vec<Val<'c>>> = row.iter().map(read).collect();
            for i in 1..prefixes.len() {
                prefixes[i] = self.combine(body, &prefixes[i - 1].clone(), &prefixes[i].clone())?;
            }
            if let Some(&first) = lanes.first() {
                let last = prefixes.last().expect("a row has elements").clone();
                let before = self.scan_lanes(body, &elems, last, first as u32, lanes.len() as u32, reverse)?;
                for prefix in &mut prefixes {
                    let combined = self.combine(body, &before.values, prefix)?;
                    let select_combined = |(combined, own): (Val<'c>, &Val<'c>)| {
                        if common::fault_injected("ptx.first") { combined } else { self.ir.select(before.exists, combined, *own) }
                    };
                    *prefix = combined.into_iter().zip(&*prefix).map(select_combined).collect();
                }
            }
            for (register, prefix) in row.into_iter().zip(prefixes) {
                out.iter_mut().zip(prefix).for_each(|(out, value)| out[register] = Some(value));
            }
        }
        for (result, registers) in results.iter().zip(out) {
            self.set(*result, registers.into_iter().map(|value| value.expect("every register is in a row")).collect());
        }
        Ok(())
    }

    /// The prefix over all preceding lanes, computed from the total of each lane.
    fn scan_lanes(
        &mut self,
        body: Region,
        elems: &[Elem],
        mut totals: Vec<Val<'c>>,
        first: u32,
        bits: u32,
        reverse: bool,
    ) -> Result<LanePrefix<'c>> {
        let ir = self.ir;
        let position = ir.and(ir.shr(self.thread, ir.const32(first), false), ir.const32((1 << bits) - 1));
        let position = if reverse { ir.xor(position, ir.const32((1 << bits) - 1)) } else { position };
        let name = if reverse { "llvm.nvvm.shfl.sync.down.i32" } else { "llvm.nvvm.shfl.sync.up.i32" };
        let clamp = ir.const32(if reverse { 31 } else { 0 });
        let shuffle = |e: &Self, values: &[Val<'c>], distance: u32| -> Vec<Val<'c>> {
            let exchange = |word: Val<'c>| {
                let args = [ir.const32(u32::MAX).into(), word, ir.const32(distance << first).into(), clamp.into()];
                ir.intrinsic_value(name, &[], &args)
            };
            values.iter().zip(elems).map(|(value, elem)| e.map_words(*value, *elem, exchange)).collect()
        };
        let at_least = |distance: u32| ir.icmp(IntPredicate::UGE, position, ir.const32(distance));
        for step in 0..bits {
            let earlier = shuffle(self, &totals, if common::fault_injected("ptx.reach") { 1 } else { 1 << step });
            let combined = self.combine(body, &earlier, &totals)?;
            let exists = at_least(1 << step);
            totals = combined.into_iter().zip(&totals).map(|(combined, own)| ir.select(exists, combined, *own)).collect();
        }
        Ok(LanePrefix { values: shuffle(self, &totals, 1), exists: at_least(1) })
    }

    /// The value of the lane whose number is this lane's number with the bits of `mask` flipped.
    pub(super) fn butterfly(&self, value: Val<'c>, elem: Elem, mask: u32) -> Val<'c> {
        let ir = self.ir;
        let exchange = |word: Val<'c>| {
            let args = [ir.const32(u32::MAX).into(), word, ir.const32(mask).into(), ir.const32(31).into()];
            ir.intrinsic_value("llvm.nvvm.shfl.sync.bfly.i32", &[], &args)
        };
        self.map_words(value, elem, exchange)
    }

    /// The value of the lane whose number is this lane's number with the bits of `mask` cleared.
    fn first_of_group(&self, value: Val<'c>, elem: Elem, mask: u32) -> Val<'c> {
        let ir = self.ir;
        let first = ir.and(self.thread, ir.const32(31 & !mask));
        let exchange = |word: Val<'c>| {
            let args = [ir.const32(u32::MAX).into(), word, first.into(), ir.const32(31).into()];
            ir.intrinsic_value("llvm.nvvm.shfl.sync.idx.i32", &[], &args)
        };
        self.map_words(value, elem, exchange)
    }

    /// Applies an operation on 32-bit words to each word of a value.
    pub(super) fn map_words(&self, value: Val<'c>, elem: Elem, operation: impl Fn(Val<'c>) -> Val<'c>) -> Val<'c> {
        let ir = self.ir;
        let bits = elem.bits().max(1);
        let ty = ir.elem(elem);
        let int = self.as_bits(value);
        let back = if bits == 64 {
            let low = ir.resize(int, ir.i32(), false);
            let high = ir.resize(ir.shr(int, ir.const64(32), false), ir.i32(), false);
            let (low, high) = (operation(low.into()).into_int_value(), operation(high.into()).into_int_value());
            let high = ir.shl(ir.resize(high, ir.i64(), false), ir.const64(32));
            ir.or(ir.resize(low, ir.i64(), false), high)
        } else {
            let word = operation(ir.resize(int, ir.i32(), false).into()).into_int_value();
            ir.resize(word, int.get_type(), false)
        };
        self.of_bits(back, ty)
    }
}

/// The prefix over the lanes before a lane, and whether there is such a lane.
struct LanePrefix<'c> {
    values: Vec<Val<'c>>,
    exists: IntValue<'c>,
}

/// Combines neighbouring values, `arity` at a time, until one is left. With `separate_evens`, even and odd positions form two
/// trees, which are combined last.
fn in_tree<T: Clone>(
    mut row: Vec<T>,
    separate_evens: bool,
    arity: usize,
    combine: &mut impl FnMut(&T, &T) -> Result<T>,
) -> Result<T> {
    if separate_evens && row.len() > 2 {
        let half = |first| row.iter().skip(first).step_by(2).cloned().collect();
        let [evens, odds]: [Vec<T>; 2] = [half(0), half(1)];
        row = vec![in_tree(evens, false, arity, combine)?, in_tree(odds, false, arity, combine)?];
    }
    while row.len() > 1 {
        let combined = row.chunks(arity).map(|some| some[1..].iter().try_fold(some[0].clone(), |a, b| combine(&a, b)));
        row = combined.collect::<Result<_>>()?;
    }
    Ok(row.swap_remove(0))
}

/// Moves bit `i` of `number` to position `positions[i]`.
fn scatter_bits(number: usize, positions: &[usize]) -> usize {
    positions.iter().enumerate().filter(|(i, _)| number >> i & 1 == 1).map(|(_, position)| 1 << position).sum()
}
