//! Emits reductions and scans (prefix reductions) within a thread and across the lanes of a warp.

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
use tileas::layout::{LANE_BITS, Strides, solve, xor_of_bases};

impl<'c> Emitter<'c, '_> {
    /// Emits one step of a reduction: over the registers of a thread, or over the lanes of a warp.
    pub(super) fn emit_reduction(&mut self, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::ReduceRegisters { operands, dim, body } => self.reduce_registers(operands, *dim, *body, results),
            tileas::Op::ReduceLanes { operands, dim, body } => self.reduce_lanes(operands, *dim, *body, results),
            _ => unreachable!("called for reductions only"),
        }
    }

    /// Emits the body of a reduction or scan for a left and a right value of each operand. Returns the values that it yields.
    fn combine(&mut self, body: Region, left_values: &[Val<'c>], right_values: &[Val<'c>]) -> Result<Vec<Val<'c>>> {
        let block = self.function.body.block_of(body);
        let args = self.function.body.blocks[block].args.clone();
        for (i, pair) in args.chunks(2).enumerate() {
            self.set_registers(pair[0], vec![left_values[i]]);
            self.set_registers(pair[1], vec![right_values[i]]);
        }
        let (last, ops) = self.function.body.blocks[block].ops.split_last().expect("a body ends in yield");
        for &op in ops {
            self.emit_op(op)?;
        }
        let values = base::ir::Operation::operands(&self.function.body.ops[*last].kind);
        Ok(values.iter().map(|value| self.scalar_value(*value)).collect())
    }

    /// Reduces the registers of each thread in a tree, which keeps rounding errors small and dependence chains short. A row is the
    /// group of registers that are reduced to one register. If the reduction has a packed instruction, each instruction combines
    /// two pairs of neighbouring registers. The two registers of a pair belong to two rows, or are an even and an odd element of
    /// one row.
    fn reduce_registers(&mut self, operands: &[Value], dim: u32, body: Region, results: &[Value]) -> Result<()> {
        let layout = self.layout(operands[0]);
        let mask = Strides::for_shape(self.ty(operands[0]).shape()).mask(dim as usize);
        let reduced_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| layout.register[*bit] & mask != 0).collect();
        let kept_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| layout.register[*bit] & mask == 0).collect();
        let elem = self.elem(operands[0]);
        let kind = combining::single_commutative_op(&self.function.body, body);
        let packed = kind.and_then(Packed::of_binary).filter(|packed| packed.has_instruction(elem, self.target));
        let has_separate_evens = combining::combines_evens_separately(kind);
        let operands_per_instruction = self.max_operands_per_instruction(kind, elem);
        let row_registers = |group| {
            (0..1usize << reduced_bits.len()).map(|i| scatter_bits(group, &kept_bits) | scatter_bits(i, &reduced_bits)).collect()
        };
        let rows: Vec<Vec<usize>> = (0..1usize << kept_bits.len()).map(row_registers).collect();
        let mut results_by_operand = vec![Vec::new(); operands.len()];
        let has_adjacent_rows = kept_bits.first() == Some(&0);
        match packed {
            Some(packed) if has_adjacent_rows || reduced_bits.len() > 1 => {
                let values = self.registers_of(operands[0]).to_vec();
                for row in rows.iter().step_by(if has_adjacent_rows { 2 } else { 1 }) {
                    let pairs = row.iter().step_by(if has_adjacent_rows { 1 } else { 2 });
                    let pairs = pairs.map(|first| self.ir.pack(&values[*first..first + 2])).collect();
                    let pair = combine_in_tree(pairs, has_separate_evens && has_adjacent_rows, 2, &mut |a: &Val<'c>, b| {
                        Ok(self.packed_arithmetic(packed, &[*a, *b]))
                    })?;
                    let pair = self.ir.unpack(pair, 2);
                    match has_adjacent_rows {
                        true => results_by_operand[0].extend(pair),
                        false => results_by_operand[0].extend(self.combine(body, &pair[..1], &pair[1..])?),
                    }
                }
            }
            _ => {
                for row in &rows {
                    let values_of_register =
                        |register: &usize| operands.iter().map(|operand| self.registers_of(*operand)[*register]).collect();
                    let row: Vec<Vec<Val<'c>>> = row.iter().map(values_of_register).collect();
                    let combined =
                        combine_in_tree(row, has_separate_evens, operands_per_instruction, &mut |a: &Vec<Val<'c>>, b| {
                            self.combine(body, a, b)
                        })?;
                    results_by_operand.iter_mut().zip(combined).for_each(|(registers, value)| registers.push(value));
                }
            }
        }
        for (result, registers) in results.iter().zip(results_by_operand) {
            self.set_registers(*result, registers);
        }
        Ok(())
    }

    /// The number of values that one instruction of this operation can combine: 3 for f32 min and max on targets with such an
    /// instruction, otherwise 2.
    fn max_operands_per_instruction(&self, operation: Option<Binary>, elem: Elem) -> usize {
        let is_min_or_max = matches!(operation, Some(Binary::MaxF { .. } | Binary::MinF { .. }));
        if is_min_or_max && elem == Elem::Scalar(Scalar::F32) && self.target.has(Feature::MinMax3) { 3 } else { 2 }
    }

    /// Reduces across lanes with butterfly shuffles. The first lane of each group combines lower elements on the left with higher
    /// elements on the right. If the body is not commutative, the other lanes may compute another result, so they take the first
    /// lane's result.
    fn reduce_lanes(&mut self, operands: &[Value], dim: u32, body: Region, results: &[Value]) -> Result<()> {
        let layout = self.layout(operands[0]);
        let mask = Strides::for_shape(self.ty(operands[0]).shape()).mask(dim as usize);
        let reduced_lane_bits: Vec<usize> = (0..layout.lane.len()).rev().filter(|bit| layout.lane[*bit] & mask != 0).collect();
        let elems: Vec<Elem> = operands.iter().map(|operand| self.elem(*operand)).collect();
        let mut rows: Vec<Vec<Val<'c>>> =
            (0..layout.registers()).map(|i| operands.iter().map(|operand| self.registers_of(*operand)[i]).collect()).collect();
        let warp_instruction = if reduced_lane_bits.len() == LANE_BITS { self.warp_reduction(body, &elems) } else { None };
        if let Some(name) = warp_instruction {
            for row in &mut rows {
                row[0] = self.ir.intrinsic_value(name, &[], &[row[0], self.ir.const32(u32::MAX).into()]);
            }
        }
        for bit in reduced_lane_bits.iter().filter(|_| warp_instruction.is_none()) {
            for row in &mut rows {
                let other_lane_values: Vec<Val<'c>> =
                    row.iter().zip(&elems).map(|(value, elem)| self.value_of_xor_lane(*value, *elem, 1 << bit)).collect();
                *row = self.combine(body, row, &other_lane_values)?;
            }
        }
        if !self.is_commutative(body) {
            let group_mask = reduced_lane_bits.iter().fold(0, |mask, bit| mask | 1 << bit);
            for (value, elem) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&elems)) {
                *value = self.value_of_first_lane(*value, *elem, group_mask);
            }
        }
        // The result has as many registers as the operand.
        let result_layout = self.layout(results[0]);
        let source_registers = self.operand_registers(&layout, &result_layout);
        for (i, result) in results.iter().enumerate() {
            let registers = source_registers.iter().map(|register| rows[*register][i]).collect();
            self.set_registers(*result, registers);
        }
        Ok(())
    }

    /// Whether a body is known to be commutative: it yields commutative ops of a left and a right argument.
    fn is_commutative(&self, body: Region) -> bool {
        let function_body = &self.function.body;
        let block = &function_body.blocks[function_body.block_of(body)];
        let yielded_values =
            block.ops.last().map(|op| base::ir::Operation::operands(&function_body.ops[*op].kind)).unwrap_or_default();
        yielded_values.iter().zip(block.args.chunks(2)).all(|(value, sides)| {
            let op = function_body.defining_op(*value).map(|op| function_body.ops[op].kind.core());
            let Some(Some(Core::Binary { kind, lhs, rhs })) = op else { return false };
            kind.is_commutative() && ([*lhs, *rhs] == sides || [*rhs, *lhs] == sides)
        })
    }

    /// The warp-wide reduction instruction (`redux.sync`) for the operation of a body, if the target has such an instruction.
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

    /// For each register of the result, the register of the operand with the same elements.
    fn operand_registers(&self, from: &Layout, to: &Layout) -> Vec<usize> {
        debug_assert_eq!(from.register.len(), to.register.len());
        (0..to.registers())
            .map(|register| solve(&from.register, xor_of_bases(&from.register, register as u32)).unwrap_or(register))
            .collect()
    }

    /// Computes prefixes within each thread, and then across consecutive lanes. Each step across lanes doubles the distance.
    pub(super) fn emit_scan(
        &mut self,
        op: OpId,
        operands: &[Value],
        dim: u32,
        reverse: bool,
        body: Region,
        results: &[Value],
    ) -> Result<()> {
        let layout = self.layout(operands[0]);
        let strides = Strides::for_shape(self.ty(operands[0]).shape());
        let (dim, mask) = (dim as usize, strides.mask(dim as usize));
        let bits_along_dim = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] & mask != 0).collect::<Vec<usize>>();
        let (register_bits, lane_bits) = (bits_along_dim(&layout.register), bits_along_dim(&layout.lane));
        let has_consecutive_lanes =
            lane_bits.windows(2).all(|pair| pair[1] == pair[0] + 1) && bits_along_dim(&layout.warp).is_empty();
        let bases = register_bits.iter().map(|bit| layout.register[*bit]).chain(lane_bits.iter().map(|bit| layout.lane[*bit]));
        let is_contiguous = bases.eq(strides.dim_bits(dim).map(|bit| 1 << bit));
        if !has_consecutive_lanes || !is_contiguous {
            return Err(self.unsupported(op));
        }
        let elems: Vec<Elem> = operands.iter().map(|operand| self.elem(*operand)).collect();
        let other_bits: Vec<usize> = (0..layout.register.len()).filter(|bit| !register_bits.contains(bit)).collect();
        let mut results_by_operand = vec![vec![None; layout.registers()]; operands.len()];
        for group in 0..1usize << other_bits.len() {
            let mut row: Vec<usize> = (0..1usize << register_bits.len())
                .map(|i| scatter_bits(group, &other_bits) | scatter_bits(i, &register_bits))
                .collect();
            if reverse {
                row.reverse();
            }
            let values_of_register =
                |register: &usize| operands.iter().map(|operand| self.registers_of(*operand)[*register]).collect();
            let mut prefixes: Vec<Vec<Val<'c>>> = row.iter().map(values_of_register).collect();
            for i in 1..prefixes.len() {
                prefixes[i] = self.combine(body, &prefixes[i - 1].clone(), &prefixes[i].clone())?;
            }
            if let Some(&first) = lane_bits.first() {
                let total = prefixes.last().expect("a row has elements").clone();
                let before_lane =
                    self.scan_of_preceding_lanes(body, &elems, total, first as u32, lane_bits.len() as u32, reverse)?;
                for prefix in &mut prefixes {
                    let combined = self.combine(body, &before_lane.values, prefix)?;
                    let select_combined =
                        |(combined, own): (Val<'c>, &Val<'c>)| self.ir.select(before_lane.has_earlier_lane, combined, *own);
                    *prefix = combined.into_iter().zip(&*prefix).map(select_combined).collect();
                }
            }
            for (register, prefix) in row.into_iter().zip(prefixes) {
                results_by_operand.iter_mut().zip(prefix).for_each(|(registers, value)| registers[register] = Some(value));
            }
        }
        for (result, registers) in results.iter().zip(results_by_operand) {
            self.set_registers(*result, registers.into_iter().map(|value| value.expect("every register is in a row")).collect());
        }
        Ok(())
    }

    /// Returns the scan result over all preceding lanes of a row. `totals` has, for each operand, the total over this lane's
    /// elements of the row. The lanes that hold the row differ in `bit_count` bits of the lane number, from `first_lane_bit` on.
    fn scan_of_preceding_lanes(
        &mut self,
        body: Region,
        elems: &[Elem],
        mut totals: Vec<Val<'c>>,
        first_lane_bit: u32,
        bit_count: u32,
        reverse: bool,
    ) -> Result<LanePrefix<'c>> {
        let ir = self.ir;
        let lane_position = ir.and(ir.shr(self.thread_index, ir.const32(first_lane_bit), false), ir.const32((1 << bit_count) - 1));
        let lane_position = if reverse { ir.xor(lane_position, ir.const32((1 << bit_count) - 1)) } else { lane_position };
        let name = if reverse { "llvm.nvvm.shfl.sync.down.i32" } else { "llvm.nvvm.shfl.sync.up.i32" };
        let clamp_operand = ir.const32(if reverse { 31 } else { 0 });
        let shuffle_values = |e: &Self, values: &[Val<'c>], distance: u32| -> Vec<Val<'c>> {
            let shuffle_word = |word: Val<'c>| {
                let args = [ir.const32(u32::MAX).into(), word, ir.const32(distance << first_lane_bit).into(), clamp_operand.into()];
                ir.intrinsic_value(name, &[], &args)
            };
            values.iter().zip(elems).map(|(value, elem)| e.map_words(*value, *elem, shuffle_word)).collect()
        };
        let at_least = |distance: u32| ir.icmp(IntPredicate::UGE, lane_position, ir.const32(distance));
        for step in 0..bit_count {
            let earlier_totals = shuffle_values(self, &totals, 1 << step);
            let combined = self.combine(body, &earlier_totals, &totals)?;
            let has_earlier_lane = at_least(1 << step);
            totals = combined.into_iter().zip(&totals).map(|(combined, own)| ir.select(has_earlier_lane, combined, *own)).collect();
        }
        Ok(LanePrefix { values: shuffle_values(self, &totals, 1), has_earlier_lane: at_least(1) })
    }

    /// Returns the value of the lane whose number is this lane's number XOR `mask` (`shfl.sync.bfly`).
    pub(super) fn value_of_xor_lane(&self, value: Val<'c>, elem: Elem, mask: u32) -> Val<'c> {
        let ir = self.ir;
        let shuffle_word = |word: Val<'c>| {
            let args = [ir.const32(u32::MAX).into(), word, ir.const32(mask).into(), ir.const32(31).into()];
            ir.intrinsic_value("llvm.nvvm.shfl.sync.bfly.i32", &[], &args)
        };
        self.map_words(value, elem, shuffle_word)
    }

    /// Returns the value of the first lane in this lane's group. The lanes of a group differ in the bits of `mask`.
    fn value_of_first_lane(&self, value: Val<'c>, elem: Elem, mask: u32) -> Val<'c> {
        let ir = self.ir;
        let first_lane = ir.and(self.thread_index, ir.const32(31 & !mask));
        let shuffle_word = |word: Val<'c>| {
            let args = [ir.const32(u32::MAX).into(), word, first_lane.into(), ir.const32(31).into()];
            ir.intrinsic_value("llvm.nvvm.shfl.sync.idx.i32", &[], &args)
        };
        self.map_words(value, elem, shuffle_word)
    }

    /// Applies an operation to each 32-bit word of a value. A narrower value becomes the lower bits of a word.
    pub(super) fn map_words(&self, value: Val<'c>, elem: Elem, operation: impl Fn(Val<'c>) -> Val<'c>) -> Val<'c> {
        let ir = self.ir;
        let bits = elem.bits().max(1);
        let ty = ir.elem_type(elem);
        let int = self.as_bits(value);
        let result = if bits == 64 {
            let low = ir.resize(int, ir.i32(), false);
            let high = ir.resize(ir.shr(int, ir.const64(32), false), ir.i32(), false);
            let (low, high) = (operation(low.into()).into_int_value(), operation(high.into()).into_int_value());
            let high = ir.shl(ir.resize(high, ir.i64(), false), ir.const64(32));
            ir.or(ir.resize(low, ir.i64(), false), high)
        } else {
            let word = operation(ir.resize(int, ir.i32(), false).into()).into_int_value();
            ir.resize(word, int.get_type(), false)
        };
        self.value_of_bits(result, ty)
    }
}

/// The scan result over all lanes before a lane, one value per operand. `has_earlier_lane` is false in the first lane, in which
/// `values` has no meaning.
struct LanePrefix<'c> {
    values: Vec<Val<'c>>,
    has_earlier_lane: IntValue<'c>,
}

/// Combines neighbouring values, `operands_per_step` at a time, until one value is left. With `has_separate_evens`, the values at
/// even and at odd positions form two trees, whose results are combined last.
fn combine_in_tree<T: Clone>(
    mut row: Vec<T>,
    has_separate_evens: bool,
    operands_per_step: usize,
    combine: &mut impl FnMut(&T, &T) -> Result<T>,
) -> Result<T> {
    if has_separate_evens && row.len() > 2 {
        let every_second = |first| row.iter().skip(first).step_by(2).cloned().collect();
        let [evens, odds]: [Vec<T>; 2] = [every_second(0), every_second(1)];
        row = vec![
            combine_in_tree(evens, false, operands_per_step, combine)?,
            combine_in_tree(odds, false, operands_per_step, combine)?,
        ];
    }
    while row.len() > 1 {
        let combined =
            row.chunks(operands_per_step).map(|group| group[1..].iter().try_fold(group[0].clone(), |a, b| combine(&a, b)));
        row = combined.collect::<Result<_>>()?;
    }
    Ok(row.swap_remove(0))
}

/// Moves bit `i` of `number` to position `positions[i]`.
fn scatter_bits(number: usize, positions: &[usize]) -> usize {
    positions.iter().enumerate().filter(|(i, _)| number >> i & 1 == 1).map(|(_, position)| 1 << position).sum()
}
