//! Asynchronous copies: `cp.async` and TMA loads from global memory to buffers, and TMA stores. If the race detector is active,
//! loaded data arrives as late as the waits permit ([`crate::race_detector::in_flight`]). Otherwise loaded data arrives immediately.

use super::distribution::Distribution;
use super::global::GlobalTransfer;
use super::{DistributedOp, DistributedProgram, OpPlan, TmaOrder};
use crate::check_kind::Check;
use crate::exec::access::{self, end_access};
use crate::exec::{Env, Results};
use crate::tile::memory_bits;
use crate::value::View;
use base::Op as OpId;
use base::diag::Result;
use core_dialect::tile::ViewKind;
use std::ops::Range;
use std::sync::Arc;
use tileas::tensor_memory::CTA_PAIR;
use tileas::{Buffer, CopyAtom, Layout, Op, tma_tiles};

/// A run of bytes that is contiguous in global memory and in the buffer of a copy.
struct CopiedRun {
    /// The slot of the first element.
    slot: usize,
    /// The byte offset in the buffer.
    offset: usize,
    /// The address in global memory. `None` outside the tensor.
    address: Option<u64>,
    /// The length of the run in bytes.
    bytes: usize,
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Copies the tile of a view with `cp.async`.
    pub(super) fn copy_view(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::CopyView { view, index, token, order, in_bounds, whole, buffer, layout, atom, .. } = kind else {
            unreachable!("handles copies only")
        };
        let CopyAtom::Async { bytes } = *atom else { return Err(self.unsupported(op, "with this atom")) };
        env.begin_access(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        let distribution = self.distributions.get(layout.0 as usize).and_then(Option::as_deref);
        let distribution = distribution.ok_or_else(|| self.invalid_op(op, "names a layout that the module does not define"))?;
        let addresses = self.view_addresses(op, distribution, &view, index, env)?;
        if self.element_offsets[buffer.0 as usize].len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("copies to {buffer}, whose size differs from the view's tile")));
        }
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = GlobalTransfer { op, order: *order, distribution, addresses, ty, width: 1 };
        self.copy_chunks(&transfer, *buffer, bytes, *whole, 0..usize::MAX, env)?;
        Ok(end_access(None, env))
    }

    /// Plans the order in which a TMA op accesses a buffer.
    pub(super) fn plan_tma(&self, buffer: Buffer) -> std::result::Result<TmaOrder, String> {
        let bits = self.buffer_info(buffer).offset_bases.len() as u32;
        let order: Vec<u32> = (0..bits).collect();
        // One elected thread of the first warp issues TMA copies, so the layout needs no other warp.
        let distribution = Distribution::new(&Layout::blocked(&order, 0, 0), bits, 1)?;
        let offsets = &self.element_offsets[buffer.0 as usize];
        let is_leader = |slot: &u32| distribution.is_leader[distribution.thread_of(*slot as usize)];
        let mut slots_by_offset: Vec<u32> = (0..distribution.slot_count() as u32).filter(is_leader).collect();
        slots_by_offset.sort_by_key(|slot| offsets.get(distribution.elements[*slot as usize] as usize));
        Ok(TmaOrder { distribution, slots_by_offset })
    }

    /// Executes a TMA load: copies the tile that the view describes, and ignores the tensor map. The verifier and `tile-sim` check
    /// that the tensor map describes the same tile.
    pub(super) fn tma_load(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmaLoad { view, index, token, order, in_bounds, buffer, .. } = kind else { unreachable!("handles TMA loads only") };
        let OpPlan::Tma(TmaOrder { distribution, slots_by_offset }) = &self.plans[op.0 as usize] else {
            unreachable!("planned in advance")
        };
        env.begin_access(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        if let Some(dim) =
            tma_tiles::halved_dim(&view.tile, &self.buffer_info(*buffer).shape).filter(|_| self.source.attrs.cta_pair)
        {
            return self.copy_halves(op, kind, dim, env);
        }
        if self.element_offsets[buffer.0 as usize].len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("copies to {buffer}, whose size differs from the view's tile")));
        }
        let addresses = self.view_addresses(op, distribution, &view, index, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = GlobalTransfer { op, order: *order, distribution, addresses, ty, width: 1 };
        let own_range = self.own_byte_range(*buffer, env);
        if self.copy_in_runs(&transfer, *buffer, slots_by_offset, &own_range, env)? {
            return Ok(end_access(None, env));
        }
        self.copy_chunks(&transfer, *buffer, memory_bits(ty).div_ceil(8), true, own_range, env)?;
        Ok(end_access(None, env))
    }

    /// Executes a TMA load of a tile of which each CTA of a pair loads one half. The MMA of the pair reads both halves, so the
    /// interpreter also copies the peer's half to memory of this CTA. The peer CTA loads its half in the same iteration.
    fn copy_halves(&self, op: OpId, kind: &Op, dim: usize, env: &mut Env<'_>) -> Result<Results> {
        let (Op::TmaLoad { view, index, order, buffer, .. }, OpPlan::Tma(TmaOrder { distribution, slots_by_offset })) =
            (kind, &self.plans[op.0 as usize])
        else {
            unreachable!("handles TMA loads only")
        };
        let (full_view, info) = (env.view(*view), self.buffer_info(*buffer));
        let (rank, ty) = (env.state.block_position.rank, info.elem.carrier());
        let steps: Vec<u32> = (0..full_view.tile.len()).map(|t| full_view.kind.step(&full_view.tile, t)).collect();
        for half_rank in 0..CTA_PAIR {
            let mut half =
                View { tile: info.shape.clone(), kind: ViewKind::Strided { steps: steps.clone() }, ..(*full_view).clone() };
            let (tensor_dim, half_start) = (half.dim_map[dim], i64::from(half_rank * info.shape[dim]));
            let tensor = Arc::make_mut(&mut half.tensor);
            tensor.sizes[tensor_dim] -= half_start;
            let bytes = half_start.wrapping_mul(tensor.strides[tensor_dim]).wrapping_mul(i64::from(info.elem.bytes()));
            tensor.base = tensor.base.wrapping_add(bytes as u64);
            let addresses = self.view_addresses(op, distribution, &half, index, env)?;
            let transfer = GlobalTransfer { op, order: *order, distribution, addresses, ty, width: 1 };
            self.hazards(env).shared.select_half(half_rank != rank);
            let copied = match self.copy_in_runs(&transfer, *buffer, slots_by_offset, &(0..usize::MAX), env) {
                Ok(false) => self.copy_chunks(&transfer, *buffer, memory_bits(ty).div_ceil(8), true, 0..usize::MAX, env),
                result => result.map(|_| ()),
            };
            self.hazards(env).shared.select_half(false);
            copied?;
        }
        Ok(end_access(None, env))
    }

    /// Returns the byte range of a buffer that this CTA loads. If the CTAs of a cluster multicast their parts to each other, the
    /// range is the part of this CTA. Otherwise it is the complete buffer.
    fn own_byte_range(&self, buffer: Buffer, env: &Env<'_>) -> Range<usize> {
        let config = self.source.pipelines.iter().find(|config| config.multicast_buffers.contains(&(buffer.0 as usize)));
        let bytes = self.buffer_info(buffer).bytes() as usize;
        let parts = config.map_or(1, |config| config.ctas as usize);
        let own_part = if parts > 1 { env.state.block_position.rank as usize } else { 0 };
        bytes / parts * own_part..bytes / parts * (own_part + 1)
    }

    /// Executes a TMA store, element by element: stores a buffer to the view. If the op has a reduction mode, combines the buffer
    /// with memory.
    pub(super) fn tma_store(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmaStore { view, index, token, order, in_bounds, buffer, mode, .. } = kind else {
            unreachable!("handles TMA stores only")
        };
        let OpPlan::Tma(TmaOrder { distribution, .. }) = &self.plans[op.0 as usize] else { unreachable!("planned in advance") };
        env.begin_access(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        let offsets = &self.element_offsets[buffer.0 as usize];
        if offsets.len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("stores from {buffer}, whose size differs from the view's tile")));
        }
        let addresses = self.view_addresses(op, distribution, &view, index, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let element_bytes = memory_bits(ty).div_ceil(8) as usize;
        let transfer = GlobalTransfer { op, order: *order, distribution, addresses, ty, width: 1 };
        self.begin_op(op, env)?;
        let mut data = vec![0; element_bytes];
        for slot in (0..distribution.slot_count()).filter(|slot| distribution.is_leader[distribution.thread_of(*slot)]) {
            let byte = offsets[distribution.elements[slot] as usize] as usize * element_bytes;
            let read = self.hazards(env).read(buffer.0 as usize, byte, &mut data, distribution.warp_of(slot));
            read.map_err(|fault| self.fault_error(op, Some(*buffer), fault, false))?;
            let Some((address, _)) = transfer.addresses[slot] else { continue };
            self.record_access(&transfer, address, slot, true, env)?;
            match mode {
                None => env.kernel_memory.write(address, &data)?,
                Some(mode) => {
                    let operand = data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                    access::combine_element(*mode, address, ty, operand, env)?;
                }
            }
        }
        Ok(end_access(None, env))
    }

    /// Copies the elements at pointers with `cp.async`.
    pub(super) fn copy_pointers(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::Copy { ptr, mask, token, order, buffer, atom, .. } = kind else { unreachable!("handles copies only") };
        let CopyAtom::Async { bytes } = *atom else { return Err(self.unsupported(op, "with this atom")) };
        env.begin_access(self.access_attrs(op, *token, *order));
        let addresses = self.pointer_addresses(op, *ptr, *ptr, *mask, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = GlobalTransfer { op, order: *order, distribution: self.distribution(*ptr), addresses, ty, width: 1 };
        self.copy_chunks(&transfer, *buffer, bytes, true, 0..usize::MAX, env)?;
        Ok(end_access(None, env))
    }

    /// Copies the elements in the byte range `buffer_range` of a buffer, in runs that are contiguous in global memory and in the
    /// buffer. Returns false and copies nothing if `--check` is active or an access faults. The caller then copies element by
    /// element to find the first fault.
    fn copy_in_runs(
        &self,
        transfer: &GlobalTransfer<'_>,
        buffer: Buffer,
        slots_by_offset: &[u32],
        buffer_range: &Range<usize>,
        env: &mut Env<'_>,
    ) -> Result<bool> {
        let GlobalTransfer { op, distribution, addresses, ty, .. } = transfer;
        let (bits, offsets) = (memory_bits(*ty) as usize, &self.element_offsets[buffer.0 as usize]);
        if Check::DEFAULTS.iter().any(|check| env.kernel_memory.checks(*check)) || !bits.is_multiple_of(8) {
            return Ok(false);
        }
        let element_bytes = bits / 8;
        let mut runs: Vec<CopiedRun> = Vec::new();
        for slot in slots_by_offset.iter().map(|slot| *slot as usize) {
            let (offset, address) = (
                offsets[distribution.elements[slot] as usize] as usize * element_bytes,
                addresses[slot].map(|(address, _)| address),
            );
            if !buffer_range.contains(&offset) {
                continue;
            }
            if address.is_some_and(|address| !address.is_multiple_of(element_bytes as u64)) {
                return Ok(false);
            }
            let follows = |run: &CopiedRun| {
                let next_address = run.address.map(|address| address.wrapping_add(run.bytes as u64));
                run.offset + run.bytes == offset
                    && next_address == address
                    && distribution.warp_of(run.slot) == distribution.warp_of(slot)
            };
            match runs.last_mut() {
                Some(run) if follows(run) => run.bytes += element_bytes,
                _ => runs.push(CopiedRun { slot, offset, address, bytes: element_bytes }),
            }
        }
        self.begin_op(*op, env)?;
        let mut copies = Vec::with_capacity(runs.len());
        for CopiedRun { slot, offset, address, bytes } in runs {
            let (warp, mut data) = (distribution.warp_of(slot), vec![0; bytes]);
            if let Some(address) = address
                && (self.record_bytes(transfer, address, bytes, slot, false, env).is_err()
                    || env.kernel_memory.peek(address, &mut data).is_err())
            {
                return Ok(false);
            }
            if self.hazards(env).check_copy(buffer.0 as usize, offset, bytes, warp).is_err() {
                return Ok(false);
            }
            copies.push((offset, data, warp));
        }
        for (offset, data, warp) in copies {
            let copied = self.hazards(env).copy(buffer.0 as usize, offset, &data, warp);
            copied.map_err(|fault| self.fault_error(*op, Some(buffer), fault, true))?;
        }
        Ok(true)
    }

    /// Copies chunks of `bytes` bytes: the chunks of all threads whose first byte is in the byte range `buffer_range` of the
    /// buffer. Elements without an address become zero. With `whole`, either all elements of a chunk or none of them must have an
    /// address.
    fn copy_chunks(
        &self,
        transfer: &GlobalTransfer<'_>,
        buffer: Buffer,
        bytes: u32,
        whole: bool,
        buffer_range: Range<usize>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        let GlobalTransfer { op, distribution, addresses, ty, .. } = transfer;
        let (op, offsets, element_bytes) = (*op, &self.element_offsets[buffer.0 as usize], memory_bits(*ty).div_ceil(8) as usize);
        let width = bytes as usize / element_bytes.max(1);
        if width == 0 || !distribution.registers_per_thread.is_multiple_of(width) {
            return Err(
                self.invalid_op(op, format!("copies chunks of {bytes} bytes to {buffer}, whose size is not a multiple of it"))
            );
        }
        self.begin_op(op, env)?;
        for first in
            (0..distribution.slot_count()).step_by(width).filter(|first| distribution.is_leader[distribution.thread_of(*first)])
        {
            let offset = |slot: usize| offsets[distribution.elements[slot] as usize] as usize * element_bytes;
            if !buffer_range.contains(&offset(first)) {
                continue;
            }
            if let Some(i) = (1..width).find(|i| offset(first + i) != offset(first) + i * element_bytes) {
                let (first, other) = (offset(first), offset(first + i));
                return Err(self.invalid_op(op, format!("treats bytes {first} and {other} of {buffer} as adjacent")));
            }
            let in_bounds = addresses[first..first + width].iter().take_while(|address| address.is_some()).count();
            let out_of_bounds = addresses[first..first + width].iter().filter(|address| address.is_none()).count();
            if in_bounds + out_of_bounds != width || whole && in_bounds != 0 && out_of_bounds != 0 {
                return Err(self.invalid_op(op, "copies a chunk that is only partly in bounds"));
            }
            let mut data = vec![0; bytes as usize];
            for i in 0..in_bounds {
                let (address, _) = addresses[first + i].expect("it is in bounds");
                let start = addresses[first].expect("it is in bounds").0;
                if address != start.wrapping_add((i * element_bytes) as u64) || !start.is_multiple_of(u64::from(bytes)) {
                    return Err(
                        self.invalid_op(op, format!("copies {bytes} bytes at {start:#x}, which is not aligned or not contiguous"))
                    );
                }
            }
            if let Some((start, _)) = transfer.addresses[first].filter(|_| in_bounds > 0) {
                self.record_bytes(transfer, start, in_bounds * element_bytes, first, false, env)?;
                env.kernel_memory.read(start, &mut data[..in_bounds * element_bytes])?;
            }
            let written = self.hazards(env).copy(buffer.0 as usize, offset(first), &data, distribution.warp_of(first));
            written.map_err(|fault| self.fault_error(op, Some(buffer), fault, true))?;
        }
        Ok(())
    }
}
