//! TMA: bulk copies and tensor copies between global and shared memory.

use super::check_defined;
use super::memory::{MemoryLocation, combine_atomic, memory_location, shared_location};
use crate::address_space::SHARED_BASE;
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::in_flight_work::{Action, BulkLoad, BulkLoadSource, BulkStore, BulkStoreDestination, Pending, TmaTile};
use crate::lanes::lanes_of;
use crate::location::SharedLocation;
use crate::machine::{Cluster, Delivery, Machine};
use crate::program::{Address, AtomOp, BulkCopySpace, BulkOp, RegSlot, Space};
use crate::tensor_map::{Swizzle, TensorMap, TileRow};
use crate::warp::Warp;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, encode};
use ptx::Type;

impl BulkLoad {
    /// Returns the ranks of the CTAs whose mbarriers the copy signals.
    pub(crate) fn barrier_ctas(&self) -> impl Iterator<Item = usize> {
        self.barriers.iter().map(|barrier| barrier.cta)
    }
}

impl BulkLoadSource {
    /// Returns the address and the size of each range of global memory that a copy of `bytes` bytes reads.
    fn global_ranges(&self, bytes: u32) -> impl Iterator<Item = (u64, u32)> {
        let rows = match self {
            BulkLoadSource::Tensor(tile) => tile.global_ranges(),
            BulkLoadSource::Global(address) => vec![(*address, bytes)],
            BulkLoadSource::Shared(_) => Vec::new(),
        };
        rows.into_iter()
    }
}

impl BulkStoreDestination {
    /// Returns the address and the size of each range of global memory that a copy of `bytes` bytes writes.
    fn global_ranges(&self, bytes: u32) -> impl Iterator<Item = (u64, u32)> {
        let rows = match self {
            BulkStoreDestination::Tensor(tile) => tile.global_ranges(),
            BulkStoreDestination::Global(address) => vec![(*address, bytes)],
        };
        rows.into_iter()
    }
}

impl TmaTile {
    /// Returns the address and the size of each row in global memory.
    fn global_ranges(&self) -> Vec<(u64, u32)> {
        self.rows().iter().map(|row| (row.address, row.bytes)).collect()
    }
    /// Returns the number of bytes that a copy of the tile transfers.
    fn bytes(&self) -> u32 {
        if self.four_rows { 4 * self.map.extent[0] * self.map.element_bytes } else { self.map.tile_bytes() }
    }
    /// Returns the rows of the tile.
    fn rows(&self) -> Vec<TileRow> {
        if self.four_rows { self.map.four_rows(self.coordinates) } else { self.map.rows(self.coordinates).collect() }
    }
}

impl Machine<'_> {
    /// Executes a bulk copy.
    pub(super) fn execute_bulk_copy(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        op: &BulkOp,
    ) -> Result<()> {
        let mut issued_requests: Vec<Vec<u64>> = Vec::new();
        for lane in lanes_of(mask) {
            // Lanes with equal requests share one copy, because the machine instruction issues one copy per warp.
            let request = self.operand_values(warp, lane, op)?;
            if issued_requests.contains(&request) {
                continue;
            }
            issued_requests.push(request);
            self.issue_bulk_copy(cluster, cta, warp, lane, op).map_err(|fault| fault.lanes(1 << lane))?;
        }
        Ok(())
    }

    /// Returns the values of all operands of a lane, or a fault if an operand is undefined.
    fn operand_values(&self, warp: &Warp, lane: usize, op: &BulkOp) -> Result<Vec<u64>> {
        let mut slots: Vec<RegSlot> = op.coordinates.to_vec();
        slots.extend([op.to.base, op.from.base, op.tensor_map, op.bytes, op.cta_mask]);
        slots.extend(op.barrier.map(|address| address.base));
        for &slot in &slots {
            check_defined(warp, slot, 1 << lane, "an operand of a copy")?;
        }
        Ok(slots.iter().map(|&slot| warp.read(slot)[lane]).collect())
    }

    /// Issues the copy of a lane: checks its operands and submits the copy as asynchronous work.
    fn issue_bulk_copy(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp, lane: usize, op: &BulkOp) -> Result<()> {
        let actor = self.actor(cta, warp);
        let lane_address = |warp: &Warp, address: Address| warp.read(address.base)[lane].wrapping_add_signed(address.offset);
        let tma_tile = if op.tensor { Some(self.tma_tile(warp, lane, op)?) } else { None };
        let bytes = tma_tile.as_ref().map_or(warp.read(op.bytes)[lane] as u32, TmaTile::bytes);
        if tma_tile.is_none() && !bytes.is_multiple_of(16) {
            return Err(Fault::new("SIM071", format!("a bulk copy of {bytes} bytes: the size must be a multiple of 16")));
        }
        if let Some(traffic) = self.traffic()
            && (op.from_space == BulkCopySpace::Global || op.to_space == BulkCopySpace::Global)
        {
            traffic.count_bulk_copy(bytes);
        }
        if op.from_space == BulkCopySpace::Shared && op.to_space == BulkCopySpace::Global {
            let from = aligned_shared_location(cluster, cta, op, lane_address(warp, op.from))?;
            if from.cta != cta {
                return Err(Fault::new("SIM071", "a copy reads the shared memory of another CTA"));
            }
            let to = match tma_tile {
                Some(tile) => BulkStoreDestination::Tensor(tile),
                None => BulkStoreDestination::Global(lane_address(warp, op.to)),
            };
            return self.issue_bulk_store(cluster, cta, warp, from.address, bytes, to, op.reduce);
        }
        let to = aligned_shared_location(cluster, cta, op, lane_address(warp, op.to))?;
        let barrier = op.barrier.ok_or_else(|| Fault::unsupported("a copy to shared memory without an mbarrier"))?;
        let barrier = shared_location(cluster, cta, lane_address(warp, barrier) as u32)?;
        let (to, barriers) = bulk_destinations(cluster, cta, warp.read(op.cta_mask)[lane], op, to, barrier)?;
        let from = match (tma_tile, op.from_space) {
            (Some(tile), _) => BulkLoadSource::Tensor(tile),
            (None, BulkCopySpace::Global) => BulkLoadSource::Global(lane_address(warp, op.from)),
            (None, BulkCopySpace::Shared) => {
                let location = aligned_shared_location(cluster, cta, op, lane_address(warp, op.from))?;
                let cta_state = &cluster.ctas[location.cta];
                cta_state.shared.read_async(location.address, bytes, actor, &cta_state.proxy_fence_times)?;
                cluster.happens_before.check_read(actor, location.cta, location.address, bytes)?;
                BulkLoadSource::Shared(location)
            }
        };
        for &barrier in &barriers {
            cluster.check_mbarrier_use(barrier, actor)?;
            cluster.mbarrier(barrier)?;
        }
        self.record_bulk_copy(true, bytes, from.global_ranges(bytes), &barriers);
        for &SharedLocation { cta, address } in &to {
            let cta_state = &mut cluster.ctas[cta];
            cta_state.shared.check_async_write(address, bytes, actor, &cta_state.proxy_fence_times)?;
            if self.options.delivery == Delivery::Late {
                cta_state.shared.mark_async_write(address, bytes, true)?;
            }
        }
        let mut issue_times = Vec::new();
        for &SharedLocation { cta, address } in &to {
            issue_times.push(cluster.happens_before.check_write(actor, cta, address, bytes)?);
        }
        let load = BulkLoad { from, to, barriers, bytes, issue_times };
        self.submit(cluster, Pending { actor, action: Action::Load(load) })
    }

    /// Issues a copy from shared memory to global memory.
    fn issue_bulk_store(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &Warp,
        from: u32,
        bytes: u32,
        to: BulkStoreDestination,
        reduce: Option<(AtomOp, Type)>,
    ) -> Result<()> {
        let actor = self.actor(cta, warp);
        self.record_bulk_copy(false, bytes, to.global_ranges(bytes), &[]);
        let cta_state = &mut cluster.ctas[cta];
        // A proxy fence must precede the issue of the copy, so the check takes place here and not when the copy completes.
        cta_state.shared.read_async(from, bytes, actor, &cta_state.proxy_fence_times)?;
        cluster.happens_before.check_read(actor, cta, from, bytes)?;
        if self.options.delivery == Delivery::Late {
            cluster.ctas[cta].shared.mark_async_read(from, bytes, true)?;
        }
        let group = warp.bulk_groups;
        let store = BulkStore { cta, warp: warp.index, group, from, bytes, to, reduce, data: None };
        self.submit(cluster, Pending { actor, action: Action::Store(store) })
    }

    /// Returns the tile that a tensor copy moves: its tensor map and its coordinates.
    fn tma_tile(&mut self, warp: &Warp, lane: usize, op: &BulkOp) -> Result<TmaTile> {
        let address = warp.read(op.tensor_map)[lane].wrapping_add_signed(op.map_offset);
        let bytes = match tensor_map_location(address)? {
            MemoryLocation::Param(offset) => {
                let end = offset as usize + 128;
                let outside = || Fault::new("SIM070", "a tensor map is outside the parameters");
                self.params.get(offset as usize..end).ok_or_else(outside)?.to_vec()
            }
            _ => self.global.read(address, 128)?.to_vec(),
        };
        let map = TensorMap::decode(&bytes)?;
        let coordinates_match =
            if op.four_rows { map.rank == 2 && op.coordinates.len() == 5 } else { map.rank == op.coordinates.len() };
        if !coordinates_match {
            let message = format!("{} coordinates for a tensor of rank {}", op.coordinates.len(), map.rank);
            return Err(Fault::new("SIM070", message));
        }
        let mut coordinates = [0; 5];
        for (coordinate, &slot) in coordinates.iter_mut().zip(&op.coordinates) {
            *coordinate = warp.read(slot)[lane] as i32;
        }
        Ok(TmaTile { map, coordinates, four_rows: op.four_rows })
    }

    /// Performs a copy to shared memory, and completes its bytes at the mbarriers (`complete_tx`).
    pub(crate) fn perform_bulk_load(&mut self, cluster: &mut Cluster, load: BulkLoad, actor: Actor) -> Result<()> {
        let mut data = vec![0; load.bytes as usize];
        let mut swizzle = Swizzle::None;
        match &load.from {
            BulkLoadSource::Tensor(tile) => {
                let map = &tile.map;
                swizzle = map.swizzle;
                for row in tile.rows() {
                    if row.bytes > 0 {
                        let start = (row.offset + row.skip) as usize;
                        let row_data = self.global.read(row.address, row.bytes as usize)?;
                        data[start..start + row.bytes as usize].copy_from_slice(row_data);
                        if map.tf32 {
                            round_to_tf32(&mut data[start..start + row.bytes as usize]);
                        }
                    }
                }
            }
            BulkLoadSource::Global(address) => data.copy_from_slice(self.global.read(*address, load.bytes as usize)?),
            BulkLoadSource::Shared(SharedLocation { cta, address }) => {
                data.copy_from_slice(cluster.ctas[*cta].shared.peek(*address, load.bytes)?)
            }
        }
        for &SharedLocation { cta, address } in &load.to {
            let shared = &mut cluster.ctas[cta].shared;
            if self.options.delivery == Delivery::Late {
                shared.mark_async_write(address, load.bytes, false)?;
            }
            for (index, chunk) in data.chunks(16).enumerate() {
                shared.write_async(swizzle.apply(address + 16 * index as u32), chunk)?;
            }
        }
        for (&barrier, &time) in load.barriers.iter().zip(&load.issue_times) {
            cluster.happens_before.arrive_copy(actor, time, barrier);
            cluster.complete_bytes(barrier, load.bytes)?;
        }
        Ok(())
    }

    /// Reads the source of a store. Afterwards, the program may overwrite this shared memory.
    pub(crate) fn read_source(&mut self, cluster: &mut Cluster, store: &mut BulkStore) -> Result<()> {
        if store.data.is_some() {
            return Ok(());
        }
        let swizzle = match &store.to {
            BulkStoreDestination::Tensor(tile) => tile.map.swizzle,
            BulkStoreDestination::Global(_) => Swizzle::None,
        };
        let shared = &mut cluster.ctas[store.cta].shared;
        let mut data = Vec::with_capacity(store.bytes as usize);
        for at in (store.from..store.from + store.bytes).step_by(16) {
            let length = (store.from + store.bytes - at).min(16);
            data.extend_from_slice(shared.peek(swizzle.apply(at), length)?);
        }
        if self.options.delivery == Delivery::Late {
            shared.mark_async_read(store.from, store.bytes, false)?;
        }
        store.data = Some(data);
        Ok(())
    }

    /// Performs a copy or reduction from shared memory to global memory.
    pub(crate) fn perform_bulk_store(&mut self, cluster: &mut Cluster, mut store: BulkStore) -> Result<()> {
        self.read_source(cluster, &mut store)?;
        let data = store.data.unwrap_or_default();
        match &store.to {
            BulkStoreDestination::Tensor(tile) => {
                let map = &tile.map;
                for row in tile.rows() {
                    let start = (row.offset + row.skip) as usize;
                    let row_data = &data[start..start + row.bytes as usize];
                    if !row_data.is_empty() {
                        let reduce = store.reduce.map(|(op, _)| (op, map.ty));
                        write_or_reduce(self.global.bytes_mut(row.address, row_data.len())?, row_data, reduce, map.element_bytes);
                    }
                }
            }
            BulkStoreDestination::Global(address) => {
                let memory = self.global.bytes_mut(*address, data.len())?;
                write_or_reduce(memory, &data, store.reduce, store.reduce.map_or(1, |(_, ty)| ty.bytes()));
            }
        }
        Ok(())
    }

    /// Executes `cp.async.bulk.wait_group`: completes the stores of all commit groups of a warp except the last `max_open`. With
    /// `read`, TMA only reads the source of these stores.
    pub(super) fn bulk_wait(&mut self, cluster: &mut Cluster, cta: usize, warp: &Warp, max_open: u32, read: bool) -> Result<()> {
        let must_complete =
            |store: &BulkStore| store.cta == cta && store.warp == warp.index && store.group + max_open < warp.bulk_groups;
        let mut queue = std::mem::take(&mut cluster.pending);
        let mut remaining = std::collections::VecDeque::new();
        while let Some(mut pending) = queue.pop_front() {
            match &mut pending.action {
                Action::Store(store) if must_complete(store) && read => {
                    self.read_source(cluster, store)?;
                    remaining.push_back(pending);
                }
                Action::Store(store) if must_complete(store) => self.perform_pending(cluster, pending)?,
                _ => remaining.push_back(pending),
            }
        }
        cluster.pending = remaining;
        Ok(())
    }
}

/// Returns the location of a tensor map, which must be in global memory or in a parameter.
fn tensor_map_location(address: u64) -> Result<MemoryLocation> {
    // The location does not depend on the cluster, because the address is not in shared memory.
    if address >> 32 << 32 == SHARED_BASE {
        return Err(Fault::new("SIM070", "a tensor map in shared memory"));
    }
    memory_location(&Cluster::empty(), 0, Space::Generic, address)
}

/// Rounds f32 elements to TF32.
fn round_to_tf32(data: &mut [u8]) {
    for element in data.chunks_exact_mut(4) {
        let value = f32::from_le_bytes([element[0], element[1], element[2], element[3]]);
        let bits = encode(Scalar::TF32, value.into(), Rounding::NearestEven, OverflowResult::Ieee) as u32;
        element.copy_from_slice(&bits.to_le_bytes());
    }
}

/// Returns the location of a shared-memory operand of a copy. Returns a fault unless the address is a multiple of 128 bytes for a
/// tensor copy, or of 16 bytes for another copy.
fn aligned_shared_location(cluster: &Cluster, cta: usize, op: &BulkOp, address: u64) -> Result<SharedLocation> {
    let location = shared_location(cluster, cta, address as u32)?;
    let align = if op.tensor { 128 } else { 16 };
    match location.address % align {
        0 => Ok(location),
        _ => Err(Fault::new("SIM011", format!("a copy's shared address {:#x} is not a multiple of {align}", location.address))),
    }
}

/// Returns the destinations of a copy to shared memory, and the barrier of each. `to` and `barrier` are the operands of the copy.
fn bulk_destinations(
    cluster: &Cluster,
    cta: usize,
    cta_mask: u64,
    op: &BulkOp,
    to: SharedLocation,
    barrier: SharedLocation,
) -> Result<(Vec<SharedLocation>, Vec<SharedLocation>)> {
    if op.is_multicast {
        let ctas = cta_mask as u32 & 0xffff;
        let ranks: Vec<usize> = lanes_of(ctas).collect();
        if ranks.iter().any(|&rank| rank >= cluster.ctas.len()) {
            return Err(Fault::new("SIM071", format!("multicast to CTAs {ctas:#x} of a cluster of {}", cluster.ctas.len())));
        }
        if let Some(rank) = ranks.iter().find(|&&rank| rank != cta && cluster.ctas[rank].is_done()) {
            return Err(Fault::new("SIM014", format!("multicast to CTA {rank} of the cluster, which has ended")));
        }
        // With `.cta_group::2`, the barrier of each destination is in the destination's CTA pair: in the even CTA of the pair
        // if the barrier operand is in an even CTA, otherwise in the odd CTA.
        let barrier_of = |rank: usize| if op.cta_pair { (rank & !1) | barrier.cta & 1 } else { rank };
        let barriers = ranks.iter().map(|&rank| SharedLocation { cta: barrier_of(rank), address: barrier.address }).collect();
        return Ok((ranks.iter().map(|&rank| SharedLocation { cta: rank, address: to.address }).collect(), barriers));
    }
    if to.cta != barrier.cta && (!op.cta_pair || to.cta / 2 != barrier.cta / 2) {
        let message = format!("a copy to CTA {} signals a barrier of CTA {} that is not its pair", to.cta, barrier.cta);
        return Err(Fault::new("SIM071", message));
    }
    Ok((vec![to], vec![barrier]))
}

/// Writes data to memory. With `reduce`, combines each element of the data with the element in memory.
fn write_or_reduce(memory: &mut [u8], data: &[u8], reduce: Option<(AtomOp, Type)>, element_bytes: u32) {
    let Some((op, ty)) = reduce else {
        memory.copy_from_slice(data);
        return;
    };
    let little_endian = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let element_bytes = element_bytes as usize;
    for (to, from) in memory.chunks_exact_mut(element_bytes).zip(data.chunks_exact(element_bytes)) {
        let result = combine_atomic(op, ty, little_endian(to), little_endian(from), 0);
        to.copy_from_slice(&result.to_le_bytes()[..element_bytes]);
    }
}
