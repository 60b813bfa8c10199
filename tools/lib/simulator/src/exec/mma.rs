//! `mma.sync`: the MMA of a warp.

use super::matrix::require_whole_warp;
use crate::fault::Result;
use crate::fragment;
use crate::lanes::{ALL_LANES, Lanes, WARP_SIZE};
use crate::mma_arith::multiply_accumulate;
use crate::program::{MmaOp, MmaOperand, ScaleOp};
use crate::warp::Flow;
use crate::warp::Warp;

/// The extent of N, which is 8 in all shapes of `mma.sync`.
const N: usize = 8;

/// Executes `mma.sync`, which all lanes of the warp must execute together.
pub(super) fn execute_mma(warp: &mut Warp, mask: u32, op: &MmaOp) -> Result<Flow> {
    if let Some(flow) = require_whole_warp(warp, mask)? {
        return Ok(flow);
    }
    let (m, k) = (op.m, op.k);
    let mut a = vec![0.0; m * k];
    let mut b = vec![0.0; k * N];
    read_operand(warp, &op.a, |lane, register, part, per| fragment::a_position(lane, register, part, per, m), k, &mut a);
    read_operand(warp, &op.b, fragment::b_position, N, &mut b);
    if let Some(scale) = &op.scale_a {
        let scales = read_scales(warp, scale, m, |row| (row % 8 * 4 + 2 * scale_thread(warp, scale) + row / 8) % WARP_SIZE);
        for (index, value) in a.iter_mut().enumerate() {
            *value *= scales[index / k * scale.count + index % k * scale.count / k];
        }
    }
    if let Some(scale) = &op.scale_b {
        let scales = read_scales(warp, scale, N, |column| (column * 4 + scale_thread(warp, scale)) % WARP_SIZE);
        for (index, value) in b.iter_mut().enumerate() {
            *value *= scales[index % N * scale.count + index / N * scale.count / k];
        }
    }
    let mut accumulator = vec![0.0; m * N];
    let packed = op.d_packed;
    for (index, &slot) in op.c.iter().enumerate() {
        for (lane, &value) in warp.read(slot).iter().enumerate() {
            for (part, (row, column)) in fragment_elements(lane, index, op.c_packed) {
                accumulator[row * N + column] = op.c_type.value(value >> (16 * part));
            }
        }
    }
    if op.uses_xor {
        // popc(a ^ b) = popc(a) + popc(b) - 2 popc(a & b). `multiply_accumulate` then adds the last term.
        for (index, sum) in accumulator.iter_mut().enumerate() {
            let (row, column) = (index / N, index % N);
            *sum += a[row * k..][..k].iter().sum::<f64>() + b.iter().skip(column).step_by(N).sum::<f64>();
        }
        a.iter_mut().for_each(|value| *value *= -2.0);
    }
    multiply_accumulate(&mut accumulator, &a, &b, k, N);
    let undefined = op.c.iter().fold(0, |mask, &slot| mask | warp.undefined[slot as usize]);
    for (index, &slot) in op.d.iter().enumerate() {
        let out: Lanes = std::array::from_fn(|lane| {
            let mut value = 0;
            for (part, (row, column)) in fragment_elements(lane, index, packed) {
                value |= op.d_type.round_to_bits(accumulator[row * N + column]) << (16 * part);
            }
            value
        });
        warp.write_result(slot, ALL_LANES, &out, undefined);
    }
    Ok(Flow::Next)
}

/// Returns the elements of accumulator register `index` of a lane: for each part of the register, the row and the column.
fn fragment_elements(lane: usize, index: usize, packed: bool) -> impl Iterator<Item = (usize, (usize, usize))> {
    (0..if packed { 2 } else { 1 }).map(move |part| {
        (part, if packed { fragment::c_packed_position(lane, index, part) } else { fragment::c_position(lane, index) })
    })
}

/// Reads the elements of an operand from the registers of all lanes into a row-major matrix with `columns` columns.
fn read_operand(
    warp: &Warp,
    operand: &MmaOperand,
    element_position: impl Fn(usize, usize, usize, usize) -> (usize, usize),
    columns: usize,
    out: &mut [f64],
) {
    let container_bits = operand.container_bits;
    let per = (32 / container_bits).max(1) as usize;
    let mask = u64::MAX >> (64 - operand.element_bits);
    for (register, &slot) in operand.slots.iter().enumerate() {
        let values = warp.read(slot);
        for (lane, &value) in values.iter().enumerate() {
            for part in 0..per {
                let (row, column) = element_position(lane, register, part, per);
                let bits = value >> (part as u32 * container_bits % 64) >> operand.container_shift & mask;
                out[row * columns + column] = operand.value(bits);
            }
        }
    }
}

impl MmaOperand {
    /// Returns the value of an element's bits.
    fn value(&self, bits: u64) -> f64 {
        match self.value_table.get(bits as usize) {
            Some(&value) => value,
            None => self.kind.value(bits),
        }
    }
}

/// Returns the value of the `thread-id` selector. For B, the value selects the thread of each quad that provides the scales. For A,
/// it selects a pair of threads.
fn scale_thread(warp: &Warp, scale: &ScaleOp) -> usize {
    (warp.read(scale.thread_id)[0] & 3) as usize
}

/// Returns the scales of all rows of A (or columns of B), `scale.count` for each. `lane_of` gives the lane whose register has the
/// scales of a row.
fn read_scales(warp: &Warp, scale: &ScaleOp, rows: usize, lane_of: impl Fn(usize) -> usize) -> Vec<f64> {
    let first_byte = (warp.read(scale.byte_id)[0] & 3) as u32;
    let values = warp.read(scale.slot);
    let mut out = Vec::with_capacity(rows * scale.count);
    for row in 0..rows {
        let value = values[lane_of(row)];
        for index in 0..scale.count as u32 {
            out.push(scale.kind.value(value >> (8 * (first_byte + index)) & 0xff));
        }
    }
    out
}
