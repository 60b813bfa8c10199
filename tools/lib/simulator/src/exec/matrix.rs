//! `ldmatrix` and `stmatrix`, which move matrices between shared memory and register fragments, and `movmatrix`, which transposes a
//! matrix in registers.

use super::memory::{checked_lane_addresses, shared_location};
use super::{check_defined, wait_for_missing_lanes};
use crate::fault::{Fault, Result};
use crate::fragment;
use crate::lanes::{ALL_LANES, Lanes, WARP_SIZE};
use crate::location::SharedLocation;
use crate::machine::{Cluster, Machine};
use crate::program::{Address, MatrixShape, RegSlot, Space};
use crate::warp::Flow;
use crate::warp::Warp;

/// Checks that all lanes of the warp execute an instruction together. Returns the flow that waits for lanes that have not arrived,
/// or a fault if a lane has exited.
pub(super) fn require_whole_warp(warp: &Warp, mask: u32) -> Result<Option<Flow>> {
    if mask == ALL_LANES {
        return Ok(None);
    }
    if let Some(flow) = wait_for_missing_lanes(warp, mask, ALL_LANES) {
        return Ok(Some(flow));
    }
    Err(Fault::new("SIM052", "lanes are missing from an instruction of the whole warp").lanes(!mask))
}

impl MatrixShape {
    /// Returns the number of rows of a matrix. One lane provides the address of each row.
    fn rows(self) -> usize {
        if matches!(self, MatrixShape::M8n8 | MatrixShape::M8n16) { 8 } else { 16 }
    }
    /// Returns the number of registers that each lane uses for a matrix.
    fn register_count(self) -> usize {
        if self == MatrixShape::M16n16 { 2 } else { 1 }
    }
    /// Returns the number of elements per register, and the bytes per element.
    fn elements_and_bytes(self) -> (usize, usize) {
        if self == MatrixShape::M8n8 { (2, 2) } else { (4, 1) }
    }
    /// Returns the row and column of an element of a matrix in a register of a lane.
    fn element_position(self, lane: usize, register: usize, part: usize, transposed: bool) -> (usize, usize) {
        match self {
            MatrixShape::M8n8 => fragment::matrix8x8_position(lane, part, transposed),
            MatrixShape::M8n16 => (lane / 4, 4 * (lane % 4) + part),
            MatrixShape::M16n16 => fragment::matrix16x16_position(lane, register, part),
            MatrixShape::M16n8 => fragment::matrix16x8_position(lane, part),
        }
    }
    /// Returns the bytes of a row in shared memory.
    fn row_bytes(self) -> u32 {
        if self == MatrixShape::M16n8 { 8 } else { 16 }
    }
}

impl Machine<'_> {
    /// Executes `ldmatrix`. Lane `i` provides the address of row `i`, counted over all matrices.
    pub(super) fn load_matrix(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        shape: MatrixShape,
        transposed: bool,
        element_bits: u32,
        dst: &[RegSlot],
        address: Address,
    ) -> Result<Flow> {
        if let Some(flow) = require_whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let count = dst.len() / shape.register_count();
        let address_count = shape.rows() * count;
        let addressing_lanes = if address_count >= 32 { ALL_LANES } else { (1 << address_count) - 1 };
        let lane_addresses = checked_lane_addresses(warp, addressing_lanes, address, Space::SharedCta, 16)?;
        if let Some(traffic) = self.traffic() {
            traffic.count_shared_access(&lane_addresses, addressing_lanes, 16);
        }
        self.record_shared_access(&lane_addresses, addressing_lanes, 16, false);
        let (parts, bytes) = shape.elements_and_bytes();
        let actor = self.actor(cta, warp);
        for matrix in 0..count {
            let mut rows = [[0u8; 16]; 16];
            let mut undefined = [false; 16];
            for row in 0..shape.rows() {
                let lane = matrix * shape.rows() + row;
                let SharedLocation { cta, address: offset } = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
                cluster.happens_before.check_read(actor, cta, offset, 16).map_err(|fault| fault.lanes(1 << lane))?;
                let shared = &cluster.ctas[cta].shared;
                let data = shared.read(offset, 16).map_err(|fault| fault.lanes(1 << lane))?;
                rows[row].copy_from_slice(data);
                if element_bits < 8 {
                    rows[row] = expand_to_bytes(data, element_bits);
                }
                undefined[row] = shared.is_undefined(offset, 16);
            }
            for register in 0..shape.register_count() {
                let mut out: Lanes = [0; WARP_SIZE];
                let mut undefined_lanes = 0;
                for (lane, value) in out.iter_mut().enumerate() {
                    for part in 0..parts {
                        let (row, column) = shape.element_position(lane, register, part, transposed);
                        undefined_lanes |= u32::from(undefined[row]) << lane;
                        for byte in 0..bytes {
                            *value |= u64::from(rows[row][column * bytes + byte]) << (8 * (part * bytes + byte));
                        }
                    }
                }
                warp.write_result(dst[matrix * shape.register_count() + register], ALL_LANES, &out, undefined_lanes);
            }
        }
        Ok(Flow::Next)
    }

    /// Executes `stmatrix`. Lane `i` provides the address of row `i`, counted over all matrices.
    pub(super) fn store_matrix(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        shape: MatrixShape,
        transposed: bool,
        src: &[RegSlot],
        address: Address,
    ) -> Result<Flow> {
        if let Some(flow) = require_whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let address_count = shape.rows() * src.len();
        let addressing_lanes = if address_count >= 32 { ALL_LANES } else { (1 << address_count) - 1 };
        let lane_addresses = checked_lane_addresses(warp, addressing_lanes, address, Space::SharedCta, shape.row_bytes())?;
        if let Some(traffic) = self.traffic() {
            traffic.count_shared_access(&lane_addresses, addressing_lanes, shape.row_bytes());
        }
        self.record_shared_access(&lane_addresses, addressing_lanes, shape.row_bytes(), false);
        let (parts, bytes) = shape.elements_and_bytes();
        let actor = self.actor(cta, warp);
        for (matrix, &slot) in src.iter().enumerate() {
            let mut rows = [[0u8; 16]; 16];
            for (lane, value) in warp.read(slot).iter().enumerate() {
                for part in 0..parts {
                    let (row, column) = shape.element_position(lane, 0, part, transposed);
                    for byte in 0..bytes {
                        rows[row][column * bytes + byte] = (value >> (8 * (part * bytes + byte))) as u8;
                    }
                }
            }
            for (row, data) in rows.iter().enumerate().take(shape.rows()) {
                let lane = matrix * shape.rows() + row;
                let SharedLocation { cta, address: offset } = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
                let data = &data[..shape.row_bytes() as usize];
                let with_lane = |fault: Box<Fault>| fault.lanes(1 << lane);
                let before = cluster.ctas[cta].shared.peek(offset, shape.row_bytes()).map_err(with_lane)?;
                cluster.happens_before.check_overwrite(actor, cta, offset, before, data).map_err(with_lane)?;
                cluster.happens_before.check_write(actor, cta, offset, shape.row_bytes()).map_err(with_lane)?;
                cluster.ctas[cta].shared.write(offset, data, warp.index).map_err(with_lane)?;
            }
        }
        Ok(Flow::Next)
    }
}

/// Expands sixteen packed elements of `width` bits, fewer than eight, to one byte each.
fn expand_to_bytes(row: &[u8], width: u32) -> [u8; 16] {
    let all = row.iter().rev().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte));
    std::array::from_fn(|index| (all >> (index as u32 * width)) as u8 & ((1 << width) - 1))
}

/// Executes `movmatrix`: transposes an 8x8 matrix of 16-bit elements across the lanes of the warp.
pub(super) fn move_matrix(warp: &mut Warp, mask: u32, dst: RegSlot, src: RegSlot) -> Result<Flow> {
    if let Some(flow) = require_whole_warp(warp, mask)? {
        return Ok(flow);
    }
    check_defined(warp, src, mask, "a matrix")?;
    let mut elements = [[0u64; 8]; 8];
    for (lane, value) in warp.read(src).iter().enumerate() {
        for part in 0..2 {
            let (row, column) = fragment::matrix8x8_position(lane, part, false);
            elements[row][column] = value >> (16 * part) & 0xffff;
        }
    }
    let out: Lanes = std::array::from_fn(|lane| {
        (0..2).fold(0, |value, part| {
            let (row, column) = fragment::matrix8x8_position(lane, part, true);
            value | elements[row][column] << (16 * part)
        })
    });
    warp.write_result(dst, ALL_LANES, &out, 0);
    Ok(Flow::Next)
}
