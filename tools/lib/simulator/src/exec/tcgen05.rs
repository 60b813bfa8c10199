//! `tcgen05`: TMEM allocation, loads and stores by warps, and copies to TMEM. The MMAs are in `tcgen05_mma`.

use super::check_defined;
use super::matrix::require_whole_warp;
use super::memory::{checked_lane_addresses, shared_location};
use crate::descriptor::{Descriptor, Major};
use crate::fault::{Fault, Result};
use crate::happens_before::{Actor, HappensBefore};
use crate::in_flight_work::{Action, Pending, TmemCopy, TmemTransfer};
use crate::lanes::{ALL_LANES, WARP_SIZE, lanes_of};
use crate::location::SharedLocation;
use crate::machine::{Cluster, Cta, Delivery, Machine, Races};
use crate::program::{Address, Op, RegSlot, Space, Tcgen05CopyShape};
use crate::tmem::TmemShape;
use crate::tmem_happens_before::{ALL_LANE_GROUPS, TmemAccessKind};
use crate::warp::Flow;
use crate::warp::{Wait, Warp};
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of `tcgen05.st` stores in flight per warp. If a warp issues more stores, all its stores complete.
const MAX_OPEN_STORES: usize = 256;

impl Machine<'_> {
    /// Executes a `tcgen05` instruction for the lanes of the mask.
    pub(super) fn execute_tcgen05(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        pc: u32,
        op: &Op,
    ) -> Result<Flow> {
        match op {
            Op::Tcgen05Allocate { address, columns } => return self.allocate_tmem(cluster, cta, warp, mask, *address, *columns),
            Op::Tcgen05Free { address, columns } => {
                if let Some(flow) = require_whole_warp(warp, mask)? {
                    return Ok(flow);
                }
                let (address, columns) = (uniform_value(warp, *address, "an address")?, uniform_value(warp, *columns, "a size")?);
                cluster.ctas[cta].tmem.free(address, columns)?;
            }
            Op::Tcgen05RelinquishAllocPermit => cluster.ctas[cta].tmem.relinquished = true,
            Op::TmemLoad { .. } | Op::TmemStore { .. } => return self.access_tmem(cluster, cta, warp, mask, pc, op),
            Op::Tcgen05Wait { loads: false } => self.complete_stores(cluster, cta, warp)?,
            Op::Tcgen05Wait { loads: true } => {
                warp.tmem_load_registers.clear();
                cluster.happens_before.complete_tmem_loads(self.actor(cta, warp));
            }
            Op::Tcgen05Fence { before } => cluster.happens_before.record_tcgen05_fence(self.actor(cta, warp), *before),
            Op::Tcgen05Mma(op) => {
                for lane in lanes_of(mask) {
                    self.issue_tcgen05_mma(cluster, cta, warp, lane, op).map_err(|fault| fault.lanes(1 << lane))?;
                }
            }
            Op::Tcgen05Copy { shape, cta_pair, to, from } => {
                check_defined(warp, to.base, mask, "an address")?;
                check_defined(warp, *from, mask, "a matrix descriptor")?;
                for lane in lanes_of(mask) {
                    let to = (warp.read(to.base)[lane] as u32).wrapping_add(to.offset as u32);
                    let tmem_copy = TmemCopy { cta, cta_pair: *cta_pair, to, from: warp.read(*from)[lane], shape: *shape };
                    if tmem_copy.ctas().end > cluster.ctas.len() {
                        return Err(Fault::new("SIM082", "a CTA-pair copy in a cluster without a second CTA").lanes(1 << lane));
                    }
                    let actor = self.actor(cta, warp);
                    tmem_copy.check_order(&mut cluster.happens_before, actor)?;
                    if self.options.delivery == Delivery::Late {
                        tmem_copy.set_in_flight(cluster, true)?;
                    }
                    self.submit(cluster, Pending { actor, action: Action::TmemCopy(tmem_copy) })?;
                }
            }
            Op::Tcgen05Commit { address, cta_mask } => {
                let lane_addresses = checked_lane_addresses(warp, mask, *address, Space::SharedCluster, 8)?;
                for lane in lanes_of(mask) {
                    let location = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
                    let barriers = match cta_mask {
                        None => vec![location],
                        Some(slot) => {
                            let ranks = warp.read(*slot)[lane] as u32 & 0xffff;
                            if ranks >> cluster.ctas.len() != 0 {
                                let message = format!("a commit to CTAs {ranks:#x} of a cluster of {}", cluster.ctas.len());
                                return Err(Fault::new("SIM071", message).lanes(1 << lane));
                            }
                            lanes_of(ranks).map(|rank| SharedLocation { cta: rank, address: location.address }).collect()
                        }
                    };
                    self.record_commit(&barriers);
                    let actor = self.actor(cta, warp);
                    barriers.iter().try_for_each(|barrier| cluster.check_mbarrier_use(*barrier, actor))?;
                    cluster.happens_before.record_tcgen05_fence(actor, true);
                    let commit_number = cluster.happens_before.count_tcgen05_commit(actor);
                    self.submit(cluster, Pending { actor, action: Action::Commit { barriers, commit_number } })?;
                }
            }
            _ => return Err(Fault::unsupported("this instruction is decoded but not implemented")),
        }
        Ok(Flow::Next)
    }

    /// Executes `tcgen05.alloc`. The warp waits until enough columns are free.
    fn allocate_tmem(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        address: Address,
        columns: RegSlot,
    ) -> Result<Flow> {
        if let Some(flow) = require_whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let columns = uniform_value(warp, columns, "a size")?;
        let lane_addresses = checked_lane_addresses(warp, mask, address, Space::SharedCta, 4)?;
        let result = shared_location(cluster, cta, lane_addresses[0] as u32)?.address;
        let cta_state = &mut cluster.ctas[cta];
        let Some(start) = cta_state.tmem.allocate(columns)? else {
            return Ok(Flow::Wait(Wait::Asynchronous { awaited: "free columns of tensor memory" }));
        };
        cluster.happens_before.check_write(self.actor(cta, warp), cta, result, 4)?;
        cluster.happens_before.reset_tmem_columns(cta, start..start + columns);
        cta_state.shared.write(result, &start.to_le_bytes(), warp.index)?;
        Ok(Flow::Next)
    }

    /// Executes `tcgen05.ld` or `tcgen05.st`.
    fn access_tmem(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp, mask: u32, pc: u32, op: &Op) -> Result<Flow> {
        if let Some(flow) = require_whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let (address, slots, load) = match op {
            Op::TmemLoad { address, dst, .. } => (*address, dst, true),
            Op::TmemStore { address, src, .. } => (*address, src, false),
            _ => unreachable!("the caller passes a load or a store"),
        };
        let mut address = uniform_value(warp, address.base, "an address")?.wrapping_add(address.offset as u32);
        let first_lane = (address >> 16) as usize;
        if first_lane / 32 != warp.index % 4 {
            let message = format!(
                "warp {} of its group reaches lanes {} to {} of tensor memory, not lane {first_lane}",
                warp.index % 4,
                warp.index % 4 * 32,
                warp.index % 4 * 32 + 31
            );
            self.report_violation(Fault::new("SIM081", message))?;
            // NVIDIA's compiler omits the lane offset of the warp in the address, so the index of the warp replaces the upper lane
            // bits.
            address = address & 0x1f_ffff | (warp.index as u32 % 4) << 21;
        }
        let values = if load { Vec::new() } else { slots.iter().map(|&slot| *warp.read(slot)).collect() };
        let access = TmemTransfer { pc, address, values };
        let tmem = &cluster.ctas[cta].tmem;
        for_each_cell(op, &access, |_, _, (lane, _), column| {
            tmem.cell_index(lane, column)?;
            let column = column as usize;
            if tmem.mmas_in_flight[column] > 0 {
                return Err(Fault::new("SIM034", format!("column {column} of tensor memory belongs to an MMA that is in flight")));
            }
            if load && tmem.has_store_in_flight(Some(lane), column) {
                return Err(Fault::new("SIM034", format!("column {column} of tensor memory is read before tcgen05.wait::st")));
            }
            Ok(())
        })?;
        let mut columns = BTreeSet::new();
        let mut lane_groups = 0;
        for_each_cell(op, &access, |_, _, (lane, _), column| {
            columns.insert(column);
            lane_groups |= 1 << (lane / 16);
            Ok(())
        })?;
        let (actor, access_kind) = (self.actor(cta, warp), if load { TmemAccessKind::Load } else { TmemAccessKind::Store });
        for column in columns {
            cluster.happens_before.check_tmem_access(actor, cta, lane_groups, column..column + 1, access_kind)?;
        }
        // A load completes immediately in both delivery modes. Reason: hardware tracks its destination registers with a scoreboard,
        // and NVIDIA's compiler relies on this. The ISA requires `tcgen05.wait::ld` before a use of the registers, so a run with
        // `--races error` records them in `tmem_load_registers`.
        if load && self.options.races == Races::Error {
            warp.tmem_load_registers.extend(slots);
        }
        if load || self.options.delivery == Delivery::Early {
            return self.complete_transfer(&mut cluster.ctas[cta], warp, &access).map(|()| Flow::Next);
        }
        let tmem = &mut cluster.ctas[cta].tmem;
        for_each_cell(op, &access, |_, _, (lane, _), column| {
            tmem.mark_store(lane, column, true);
            Ok(())
        })?;
        warp.open_tmem_stores.push(access);
        if warp.open_tmem_stores.len() > MAX_OPEN_STORES {
            self.complete_stores(cluster, cta, warp)?;
        }
        Ok(Flow::Next)
    }

    /// Completes the stores of a warp at its `tcgen05.wait::st`.
    fn complete_stores(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp) -> Result<()> {
        for access in std::mem::take(&mut warp.open_tmem_stores) {
            let op = &self.program.code[access.pc as usize].op;
            let cta_state = &mut cluster.ctas[cta];
            for_each_cell(op, &access, |_, _, (lane, _), column| {
                cta_state.tmem.mark_store(lane, column, false);
                Ok(())
            })?;
            self.complete_transfer(cta_state, warp, &access)?;
        }
        Ok(())
    }

    /// Moves the data of a load or store between registers and tensor memory.
    fn complete_transfer(&self, cta: &mut Cta, warp: &mut Warp, access: &TmemTransfer) -> Result<()> {
        let op = &self.program.code[access.pc as usize].op;
        match op {
            Op::TmemLoad { dst, packed, .. } => {
                let mut out = vec![[0u64; WARP_SIZE]; dst.len()];
                let mut undefined = vec![0; dst.len()];
                for_each_cell(op, access, |register, thread, (lane, half), column| {
                    let word = u64::from(cta.tmem.read(lane, column)?);
                    undefined[register] |= u32::from(!cta.tmem.is_defined(lane, column)) << thread;
                    out[register][thread] |= if *packed { (word & 0xffff) << (16 * half) } else { word };
                    Ok(())
                })?;
                for ((values, &slot), &undefined) in out.iter().zip(dst).zip(&undefined) {
                    warp.write_result(slot, ALL_LANES, values, undefined);
                }
            }
            Op::TmemStore { packed, .. } => for_each_cell(op, access, |register, thread, (lane, half), column| {
                let value = access.values[register][thread] as u32;
                let value = if *packed { value >> (16 * half) & 0xffff } else { value };
                cta.tmem.write(lane, column, value)
            })?,
            _ => unreachable!("the instruction is a load or store"),
        }
        Ok(())
    }

    /// Performs the copy of a `tcgen05.cp`: copies rows from shared memory to tensor memory.
    pub(crate) fn perform_tmem_copy(&mut self, cluster: &mut Cluster, tmem_copy: &TmemCopy, actor: Actor) -> Result<()> {
        if self.options.delivery == Delivery::Late {
            tmem_copy.set_in_flight(cluster, false)?;
        }
        let descriptor = Descriptor::decode_tcgen05(tmem_copy.from)?;
        for cta in tmem_copy.ctas() {
            let cta_state = &mut cluster.ctas[cta];
            let (rows, bytes) = tmem_copy.shape.rows_and_bytes();
            for row in 0..rows {
                for offset in (0..bytes).step_by(16) {
                    let address = descriptor.chunk_address(Major::K, row as u32, offset);
                    cluster.happens_before.check_read(actor, cta, address, 16)?;
                    let chunk = cta_state.shared.read_async(address, 16, actor, &cta_state.proxy_fence_times)?.to_vec();
                    for (index, word) in chunk.chunks_exact(4).enumerate() {
                        let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                        let column = (tmem_copy.to & 0xffff) + offset / 4 + index as u32;
                        for lane in tmem_copy.shape.lanes_of_row(row) {
                            cta_state.tmem.write((tmem_copy.to >> 16) as usize + lane, column, value)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl TmemCopy {
    /// Returns the CTAs of the cluster to whose tensor memory the copy writes.
    fn ctas(&self) -> Range<usize> {
        self.cta..self.cta + if self.cta_pair { 2 } else { 1 }
    }
    /// Checks that the copy is ordered after earlier accesses to its destination.
    fn check_order(&self, order: &mut HappensBefore, actor: Actor) -> Result<()> {
        let first_column = self.to & 0xffff;
        let columns = first_column..first_column + self.shape.rows_and_bytes().1 / 4;
        self.ctas()
            .try_for_each(|cta| order.check_tmem_access(actor, cta, ALL_LANE_GROUPS, columns.clone(), TmemAccessKind::MmaWrite))
    }
    /// Counts the beginning (`begin`) or the end of the copy's reads of shared memory.
    fn set_in_flight(&self, cluster: &mut Cluster, begin: bool) -> Result<()> {
        let descriptor = Descriptor::decode_tcgen05(self.from)?;
        let (rows, bytes) = self.shape.rows_and_bytes();
        for cta in &mut cluster.ctas[self.ctas()] {
            for row in 0..rows as u32 {
                for offset in (0..bytes).step_by(16) {
                    cta.shared.mark_async_read(descriptor.chunk_address(Major::K, row, offset), 16, begin)?;
                }
            }
        }
        Ok(())
    }
}

impl Tcgen05CopyShape {
    /// Returns the number of rows, and the bytes per row.
    fn rows_and_bytes(self) -> (usize, u32) {
        match self {
            Tcgen05CopyShape::S128x256 => (128, 32),
            Tcgen05CopyShape::S4x256 => (4, 32),
            Tcgen05CopyShape::S128x128 => (128, 16),
            Tcgen05CopyShape::S64x128Warps02_13 | Tcgen05CopyShape::S64x128Warps01_23 => (64, 16),
            Tcgen05CopyShape::S32x128 => (32, 16),
        }
    }
    /// Returns the TMEM lanes to which the copy writes a row, relative to the lane of the destination address.
    fn lanes_of_row(self, row: usize) -> Vec<usize> {
        match self {
            Tcgen05CopyShape::S128x256 | Tcgen05CopyShape::S128x128 => vec![row],
            Tcgen05CopyShape::S4x256 => (0..4).map(|warp| 32 * warp + row).collect(),
            Tcgen05CopyShape::S64x128Warps02_13 => vec![row, row + 64],
            Tcgen05CopyShape::S64x128Warps01_23 => vec![row / 32 * 64 + row % 32, row / 32 * 64 + 32 + row % 32],
            Tcgen05CopyShape::S32x128 => (0..4).map(|warp| 32 * warp + row).collect(),
        }
    }
}

/// Calls `f(register, thread, (lane, half), column)` for every 32-bit TMEM cell that a load or store accesses. `half` is the half
/// of a packed register (0 or 1) whose element is in the cell.
fn for_each_cell(op: &Op, access: &TmemTransfer, mut f: impl FnMut(usize, usize, (usize, u32), u32) -> Result<()>) -> Result<()> {
    let (shape, count, packed, split): (TmemShape, usize, bool, u32) = match op {
        Op::TmemLoad { shape, dst, packed, split, .. } => (*shape, dst.len(), *packed, *split),
        Op::TmemStore { shape, src, packed, split, .. } => (*shape, src.len(), *packed, *split),
        _ => unreachable!("the instruction is a load or store"),
    };
    let (first, start) = ((access.address >> 16 & 0x7f) as usize, access.address & 0xffff);
    for register in 0..count {
        for thread in 0..WARP_SIZE {
            for half in 0..if packed { 2 } else { 1 } {
                let (lane, column) = shape.location(thread, register, if packed { 0 } else { split });
                // A packed register contains two neighbouring columns.
                let column = match packed {
                    true => 2 * column + half + if shape == TmemShape::S16x32x2 && thread >= 16 { split } else { 0 },
                    false => column,
                };
                f(register, thread, (first + lane, half), start + column)?;
            }
        }
    }
    Ok(())
}

/// Returns the value of a register, or a fault if the value is undefined or differs among the lanes of the warp.
fn uniform_value(warp: &Warp, slot: RegSlot, operand_name: &str) -> Result<u32> {
    check_defined(warp, slot, ALL_LANES, operand_name)?;
    let values = warp.read(slot);
    match values.iter().all(|value| value == &values[0]) {
        true => Ok(values[0] as u32),
        false => Err(Fault::new("SIM052", format!("{operand_name} differs among the lanes of a warp"))),
    }
}
