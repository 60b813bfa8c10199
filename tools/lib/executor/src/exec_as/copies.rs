//! Asynchronous copies from global memory to buffers. If the program has waits, the data arrives as late as the waits permit
//! ([`super::in_flight`]); otherwise it arrives immediately.

use super::distribution::Distribution;
use super::global::Transfer;
use super::{DistributedProgram, Plan, Step, Tma};
use crate::check::Check;
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

/// Elements of a tile that are contiguous on both sides of a copy, from the element of a slot on.
struct CopiedRun {
    slot: usize,
    /// The byte offset in the buffer.
    place: usize,
    /// `None` outside the tensor.
    address: Option<u64>,
    bytes: usize,
}

impl<O: Step> DistributedProgram<'_, O> {
    pub(super) fn copy_view(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::CopyView { view, index, token, order, in_bounds, whole, buffer, layout, atom, .. } = kind else {
            unreachable!("handles copies only")
        };
        let CopyAtom::Async { bytes } = *atom else { return Err(self.unsupported(op, "with this atom")) };
        env.begin(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        let distribution = self.distributions.get(layout.0 as usize).and_then(Option::as_deref);
        let distribution = distribution.ok_or_else(|| self.invalid_op(op, "names a layout that the module does not define"))?;
        let spots = self.view_spots(op, distribution, &view, index, env)?;
        if self.offsets[buffer.0 as usize].len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("copies to {buffer}, whose size differs from the view's tile")));
        }
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = Transfer { op, order: *order, distribution, spots, ty, width: 1 };
        self.copy_chunks(&transfer, *buffer, (bytes, *whole), 0..usize::MAX, env)?;
        Ok(end_access(None, env))
    }

    pub(super) fn plan_tma(&self, buffer: Buffer) -> std::result::Result<Tma, String> {
        let bits = self.buffer_info(buffer).offsets.len() as u32;
        let order: Vec<u32> = (0..bits).collect();
        // One elected thread of the first warp issues TMA copies.
        let distribution = Distribution::new(&Layout::blocked(&order, 0, 0), bits, 1)?;
        let offsets = &self.offsets[buffer.0 as usize];
        let is_leader = |slot: &u32| distribution.is_leader[distribution.thread(*slot as usize)];
        let mut by_place: Vec<u32> = (0..distribution.slots() as u32).filter(is_leader).collect();
        by_place.sort_by_key(|slot| offsets.get(distribution.elements[*slot as usize] as usize));
        Ok(Tma { distribution, by_place })
    }

    /// Copies the tile that the view describes and ignores the tensor map. The verifier and `tile-sim` check that both agree.
    pub(super) fn tma_load(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmaLoad { view, index, token, order, in_bounds, buffer, .. } = kind else { unreachable!("handles TMA loads only") };
        let Plan::Tma(Tma { distribution, by_place }) = &self.plans[op.0 as usize] else { unreachable!("planned in advance") };
        env.begin(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        if let Some(dim) = tma_tiles::halved(&view.tile, &self.buffer_info(*buffer).shape).filter(|_| self.source.attrs.cta_pair) {
            return self.copy_halves(op, kind, dim, env);
        }
        if self.offsets[buffer.0 as usize].len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("copies to {buffer}, whose size differs from the view's tile")));
        }
        let spots = self.view_spots(op, distribution, &view, index, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = Transfer { op, order: *order, distribution, spots, ty, width: 1 };
        let part = self.own_part(*buffer, env);
        if self.copy_in_runs(&transfer, *buffer, by_place, &part, env)? {
            return Ok(end_access(None, env));
        }
        self.copy_chunks(&transfer, *buffer, (memory_bits(ty).div_ceil(8), true), part, env)?;
        Ok(end_access(None, env))
    }

    /// Loads a tile of which each CTA of a pair loads one half. The interpreter also copies the peer's half to this CTA's memory,
    /// from which the MMA of the pair reads it. Reason: the peer loads its half in the same iteration.
    fn copy_halves(&self, op: OpId, kind: &Op, dim: usize, env: &mut Env<'_>) -> Result<Results> {
        let (Op::TmaLoad { view, index, order, buffer, .. }, Plan::Tma(Tma { distribution, by_place })) =
            (kind, &self.plans[op.0 as usize])
        else {
            unreachable!("handles TMA loads only")
        };
        let (gathered, info) = (env.view(*view), self.buffer_info(*buffer));
        let (rank, ty) = (env.state.block_position.rank, info.elem.carrier());
        let steps: Vec<u32> = (0..gathered.tile.len()).map(|t| gathered.kind.step(&gathered.tile, t)).collect();
        for block in 0..CTA_PAIR {
            let mut half =
                View { tile: info.shape.clone(), kind: ViewKind::Strided { steps: steps.clone() }, ..(*gathered).clone() };
            let (along, half_start) = (half.dim_map[dim], i64::from(block * info.shape[dim]));
            let tensor = Arc::make_mut(&mut half.tensor);
            tensor.sizes[along] -= half_start;
            let bytes = half_start.wrapping_mul(tensor.strides[along]).wrapping_mul(i64::from(info.elem.bytes()));
            tensor.base = tensor.base.wrapping_add(bytes as u64);
            let spots = self.view_spots(op, distribution, &half, index, env)?;
            let transfer = Transfer { op, order: *order, distribution, spots, ty, width: 1 };
            self.hazards(env).shared.select_half(block != rank);
            let copied = match self.copy_in_runs(&transfer, *buffer, by_place, &(0..usize::MAX), env) {
                Ok(false) => self.copy_chunks(&transfer, *buffer, (memory_bits(ty).div_ceil(8), true), 0..usize::MAX, env),
                joined => joined.map(|_| ()),
            };
            self.hazards(env).shared.select_half(false);
            copied?;
        }
        Ok(end_access(None, env))
    }

    /// Returns the byte range that this CTA loads: the complete buffer, or its part if the CTAs of a cluster multicast to each
    /// other.
    fn own_part(&self, buffer: Buffer, env: &Env<'_>) -> Range<usize> {
        let config = self.source.pipelines.iter().find(|config| config.multicast.contains(&(buffer.0 as usize)));
        let bytes = self.buffer_info(buffer).bytes() as usize;
        let parts = config.map_or(1, |config| config.ctas as usize);
        let own = if parts > 1 { env.state.block_position.rank as usize } else { 0 };
        bytes / parts * own..bytes / parts * (own + 1)
    }

    /// Stores a buffer to the view, element by element.
    pub(super) fn tma_store(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmaStore { view, index, token, order, in_bounds, buffer, mode, .. } = kind else {
            unreachable!("handles TMA stores only")
        };
        let Plan::Tma(Tma { distribution, .. }) = &self.plans[op.0 as usize] else { unreachable!("planned in advance") };
        env.begin(self.access_attrs(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        let offsets = &self.offsets[buffer.0 as usize];
        if offsets.len() != view.tile.iter().product::<u32>() as usize {
            return Err(self.invalid_op(op, format!("stores from {buffer}, whose size differs from the view's tile")));
        }
        let spots = self.view_spots(op, distribution, &view, index, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let size = memory_bits(ty).div_ceil(8) as usize;
        let transfer = Transfer { op, order: *order, distribution, spots, ty, width: 1 };
        self.begin(op, env)?;
        let mut data = vec![0; size];
        for slot in (0..distribution.slots()).filter(|slot| distribution.is_leader[distribution.thread(*slot)]) {
            let byte = offsets[distribution.elements[slot] as usize] as usize * size;
            let read = self.hazards(env).read(buffer.0 as usize, byte, &mut data, distribution.warp(slot));
            read.map_err(|fault| self.fault(op, Some(*buffer), fault, false))?;
            let Some((address, _)) = transfer.spots[slot] else { continue };
            self.record_access(&transfer, address, slot, true, env)?;
            match mode {
                None => env.world.write(address, &data)?,
                Some(mode) => {
                    let own = data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                    access::combine_element(*mode, address, ty, own, env)?;
                }
            }
        }
        Ok(end_access(None, env))
    }

    pub(super) fn copy_pointers(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::Copy { ptr, mask, token, order, buffer, atom, .. } = kind else { unreachable!("handles copies only") };
        let CopyAtom::Async { bytes } = *atom else { return Err(self.unsupported(op, "with this atom")) };
        env.begin(self.access_attrs(op, *token, *order));
        let spots = self.pointer_spots(op, *ptr, *ptr, *mask, env)?;
        let ty = self.buffer_info(*buffer).elem.carrier();
        let transfer = Transfer { op, order: *order, distribution: self.distribution(*ptr), spots, ty, width: 1 };
        self.copy_chunks(&transfer, *buffer, (bytes, true), 0..usize::MAX, env)?;
        Ok(end_access(None, env))
    }

    /// Copies a tile in runs that are contiguous in memory and in the buffer. Returns false and copies nothing if a check is active
    /// or something faults. The caller then copies element by element and finds the first fault.
    fn copy_in_runs(
        &self,
        transfer: &Transfer<'_>,
        buffer: Buffer,
        by_place: &[u32],
        part: &Range<usize>,
        env: &mut Env<'_>,
    ) -> Result<bool> {
        let Transfer { op, distribution, spots, ty, .. } = transfer;
        let (bits, offsets) = (memory_bits(*ty) as usize, &self.offsets[buffer.0 as usize]);
        if Check::USUAL.iter().any(|check| env.world.checks(*check)) || !bits.is_multiple_of(8) {
            return Ok(false);
        }
        let size = bits / 8;
        let mut runs: Vec<CopiedRun> = Vec::new();
        for slot in by_place.iter().map(|slot| *slot as usize) {
            let (place, address) =
                (offsets[distribution.elements[slot] as usize] as usize * size, spots[slot].map(|(address, _)| address));
            if !part.contains(&place) {
                continue;
            }
            if address.is_some_and(|address| !address.is_multiple_of(size as u64)) {
                return Ok(false);
            }
            let follows = |run: &CopiedRun| {
                let ahead = run.address.map(|address| address.wrapping_add(run.bytes as u64));
                run.place + run.bytes == place && ahead == address && distribution.warp(run.slot) == distribution.warp(slot)
            };
            match runs.last_mut() {
                Some(run) if follows(run) => run.bytes += size,
                _ => runs.push(CopiedRun { slot, place, address, bytes: size }),
            }
        }
        self.begin(*op, env)?;
        let mut all = Vec::with_capacity(runs.len());
        for CopiedRun { slot, place, address, bytes } in runs {
            let (warp, mut data) = (distribution.warp(slot), vec![0; bytes]);
            if let Some(address) = address
                && (self.record_bytes(transfer, address, bytes, slot, false, env).is_err()
                    || env.world.peek(address, &mut data).is_err())
            {
                return Ok(false);
            }
            if self.hazards(env).may_copy(buffer.0 as usize, place, bytes, warp).is_err() {
                return Ok(false);
            }
            all.push((place, data, warp));
        }
        for (place, data, warp) in all {
            let copied = self.hazards(env).copy(buffer.0 as usize, place, &data, warp);
            copied.map_err(|fault| self.fault(*op, Some(buffer), fault, true))?;
        }
        Ok(true)
    }

    /// Copies the chunks of all threads that begin in a part of the buffer. Chunks outside memory become zero.
    fn copy_chunks(
        &self,
        transfer: &Transfer<'_>,
        buffer: Buffer,
        (bytes, gathered): (u32, bool),
        part: Range<usize>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        let Transfer { op, distribution, spots, ty, .. } = transfer;
        let (op, offsets, size) = (*op, &self.offsets[buffer.0 as usize], memory_bits(*ty).div_ceil(8) as usize);
        let width = bytes as usize / size.max(1);
        if width == 0 || !distribution.registers.is_multiple_of(width) {
            return Err(
                self.invalid_op(op, format!("copies chunks of {bytes} bytes to {buffer}, whose size is not a multiple of it"))
            );
        }
        self.begin(op, env)?;
        for first in (0..distribution.slots()).step_by(width).filter(|first| distribution.is_leader[distribution.thread(*first)]) {
            let place = |slot: usize| offsets[distribution.elements[slot] as usize] as usize * size;
            if !part.contains(&place(first)) {
                continue;
            }
            if let Some(i) = (1..width).find(|i| place(first + i) != place(first) + i * size) {
                let (first, other) = (place(first), place(first + i));
                return Err(self.invalid_op(op, format!("treats bytes {first} and {other} of {buffer} as adjacent")));
            }
            let inside = spots[first..first + width].iter().take_while(|spot| spot.is_some()).count();
            let outside = spots[first..first + width].iter().filter(|spot| spot.is_none()).count();
            if inside + outside != width || gathered && inside != 0 && outside != 0 {
                return Err(self.invalid_op(op, "copies a chunk that is only partly in bounds"));
            }
            let mut data = vec![0; bytes as usize];
            for i in 0..inside {
                let (address, _) = spots[first + i].expect("it is inside");
                let start = spots[first].expect("it is inside").0;
                if address != start.wrapping_add((i * size) as u64) || !start.is_multiple_of(u64::from(bytes)) {
                    return Err(
                        self.invalid_op(op, format!("copies {bytes} bytes at {start:#x}, which is not aligned or not contiguous"))
                    );
                }
            }
            if let Some((start, _)) = transfer.spots[first].filter(|_| inside > 0) {
                self.record_bytes(transfer, start, inside * size, first, false, env)?;
                env.world.read(start, &mut data[..inside * size])?;
            }
            let written = self.hazards(env).copy(buffer.0 as usize, place(first), &data, distribution.warp(first));
            written.map_err(|fault| self.fault(op, Some(buffer), fault, true))?;
        }
        Ok(())
    }
}
