//! Per-thread loads, stores and atomics through views and pointers, by their copy atoms.

use super::{DistributedProgram, Step, distribution::Distribution};
use crate::check::Check;
use crate::exec::access::{self, AccessAttrs, end_access};
use crate::exec::{Env, Results};
use crate::tile::shape::{from_bytes, to_bytes};
use crate::tile::{Tile, memory_bits};
use crate::value::{View, padding_bits};
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use core_dialect::memory::{MemoryOrdering, Order};
use core_dialect::tile::{Elem, ViewKind};
use numerics::Scalar;
use numerics::arith::Lanes;
use tileas::layout::Strides;
use tileas::{CopyAtom, Op};

/// The address of an element and whether it is the upper half of its byte. `None` outside a tensor or under a false mask.
pub(super) type Spot = Option<(u64, bool)>;

/// One execution of a load or store by all threads.
pub(super) struct Transfer<'a> {
    pub(super) op: OpId,
    pub(super) order: Order,
    pub(super) distribution: &'a Distribution,
    /// The address of each slot's element.
    pub(super) spots: Vec<Spot>,
    pub(super) ty: Scalar,
    /// Registers per instruction.
    pub(super) width: usize,
}

impl Transfer<'_> {
    /// Returns the bytes per instruction.
    fn size(&self) -> usize {
        (self.width * memory_bits(self.ty) as usize).div_ceil(8)
    }
}

impl<O: Step> DistributedProgram<'_, O> {
    pub(super) fn access_attrs(&self, op: OpId, token: Option<Id>, order: Order) -> AccessAttrs {
        AccessAttrs { loc: self.source.body.ops[op].loc, token, ordering: order.semantics, scope: order.scope }
    }

    pub(super) fn view_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::LoadView { view, index, token, order, in_bounds, atom, .. } => {
                env.begin(self.access_attrs(op, *token, *order));
                let (view, result) = (env.view(*view), self.result(op));
                self.check_bounds(op, &view, index, in_bounds, env)?;
                let spots = self.view_spots(op, self.distribution(result), &view, index, env)?;
                let transfer = self.transfer(op, result, spots, *atom, *order)?;
                let padding = Lanes::splat(transfer.ty, padding_bits(view.padding, transfer.ty), transfer.spots.len());
                let lanes = self.load_spots(&transfer, padding, env)?;
                let slots = Tile::new(transfer.distribution.shape(), self.elem(result), lanes);
                Ok(end_access(Some(self.value_from_slots(result, slots)?), env))
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, atom, .. } => {
                env.begin(self.access_attrs(op, *token, *order));
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                let spots = self.view_spots(op, self.distribution(*tile), &view, index, env)?;
                self.store_spots(&self.transfer(op, *tile, spots, *atom, *order)?, &self.slots(*tile, env), env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles accesses through views only"),
        }
    }

    pub(super) fn check_bounds(&self, op: OpId, view: &View, index: &[Id], in_bounds: &[bool], env: &mut Env<'_>) -> Result<()> {
        if env.world.checks(Check::Memory) {
            let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
            access::check_bounds(view, &indices, in_bounds, self.source.body.ops[op].loc, env);
        }
        Ok(())
    }

    /// Returns the address of each slot's element of a view's tile.
    pub(super) fn view_spots(
        &self,
        op: OpId,
        distribution: &Distribution,
        view: &View,
        index: &[Id],
        env: &Env<'_>,
    ) -> Result<Vec<Spot>> {
        let strides = Strides::of(&view.tile);
        let mut offsets: Vec<Option<i64>> = vec![Some(0); distribution.slots()];
        for (t, id) in index.iter().enumerate() {
            let dim = view.dim_map[t];
            let (size, stride) = (view.tensor.sizes[dim].max(0) as u128, view.tensor.strides[dim]);
            let place = |at: u128| (at < size).then_some((at as i64).wrapping_mul(stride));
            let mut add = |slot: usize, place: Option<i64>| {
                offsets[slot] = offsets[slot].and_then(|offset| place.map(|place| offset.wrapping_add(place)));
            };
            if view.kind == (ViewKind::Gather { sparse_dim: t as u32 }) {
                let (rows, held) = (self.slots(*id, env), self.distribution(*id));
                for slot in 0..distribution.slots() {
                    let (thread, row) = (distribution.thread(slot), strides.coordinate(distribution.elements[slot], t));
                    let from = held.slot(thread, row);
                    let from =
                        from.ok_or_else(|| self.invalid_op(op, format!("needs row {row} of {id}, missing in thread {thread}")))?;
                    add(slot, place(rows.lanes().get(from).into()));
                }
                continue;
            }
            let origin = u128::from(env.tile(*id).first()) * u128::from(view.kind.step(&view.tile, t));
            let places: Vec<Option<i64>> = (0..view.tile[t]).map(|i| place(origin + u128::from(i))).collect();
            (0..distribution.slots())
                .for_each(|slot| add(slot, places[strides.coordinate(distribution.elements[slot], t) as usize]));
        }
        let (base, bits) = (view.tensor.base, memory_bits(view.tensor.elem));
        let spot = |offset: i64| {
            let bits = i128::from(offset) * i128::from(bits);
            (base.wrapping_add((bits >> 3) as u64), bits & 7 != 0)
        };
        Ok(offsets.into_iter().map(|offset| offset.map(spot)).collect())
    }

    pub(super) fn pointer_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::Load { ptr, mask, other, token, order, atom } => {
                env.begin(self.access_attrs(op, *token, *order));
                let result = self.result(op);
                let spots = self.pointer_spots(op, result, *ptr, *mask, env)?;
                let transfer = self.transfer(op, result, spots, *atom, *order)?;
                let padding = other.map(|other| self.slots(other, env).lanes().clone());
                let padding = padding.unwrap_or_else(|| Lanes::splat(transfer.ty, 0, transfer.spots.len()));
                let lanes = self.load_spots(&transfer, padding, env)?;
                let slots = Tile::new(transfer.distribution.shape(), self.elem(result), lanes);
                Ok(end_access(Some(self.value_from_slots(result, slots)?), env))
            }
            Op::Store { ptr, value, mask, token, order, atom } => {
                env.begin(self.access_attrs(op, *token, *order));
                let spots = self.pointer_spots(op, *value, *ptr, *mask, env)?;
                self.store_spots(&self.transfer(op, *value, spots, *atom, *order)?, &self.slots(*value, env), env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles accesses through pointers only"),
        }
    }

    /// Returns the addresses that the pointers in the slots of `like` contain.
    pub(super) fn pointer_spots(&self, op: OpId, like: Id, ptr: Id, mask: Option<Id>, env: &Env<'_>) -> Result<Vec<Spot>> {
        let is_like =
            |id: Id| self.is_scalar(id) && self.is_scalar(like) || self.distribution(id).layout == self.distribution(like).layout;
        let mismatch = [Some(ptr), mask].into_iter().flatten().find(|id| !is_like(*id));
        if let Some(mismatch) = mismatch {
            return Err(self.invalid_op(op, format!("has {mismatch} in a layout that differs from that of {like}")));
        }
        let (pointers, mask) = (self.registers_like(ptr, like, env), mask.map(|mask| self.registers_like(mask, like, env)));
        let enabled = |slot: usize| mask.as_ref().is_none_or(|mask| mask.lanes().get(slot) & 1 == 1);
        Ok(pointers.lanes().iter().enumerate().map(|(slot, at)| enabled(slot).then_some((at, false))).collect())
    }

    fn transfer(&self, op: OpId, tile: Id, spots: Vec<Spot>, atom: CopyAtom, order: Order) -> Result<Transfer<'_>> {
        let (distribution, width) = (&**self.distribution(tile), self.width(op, atom)?);
        match spots.len() == distribution.slots() && distribution.registers.is_multiple_of(width) {
            true => Ok(Transfer { op, order, distribution, spots, ty: self.elem(tile).carrier(), width }),
            false => Err(self.invalid_op(op, format!("moves {width} of {} registers at once", distribution.registers))),
        }
    }

    /// Returns the address of the register vector that starts at a slot, or `None` if all its elements are excluded.
    fn vector_address(&self, transfer: &Transfer<'_>, first: usize) -> Result<Spot> {
        let (op, spots) = (transfer.op, &transfer.spots[first..first + transfer.width]);
        let partial = || self.invalid_op(op, "moves a vector of which only some elements are enabled");
        let Some((address, upper)) = spots[0] else {
            return if spots.iter().all(Option::is_none) { Ok(None) } else { Err(partial()) };
        };
        let bits = u64::from(memory_bits(transfer.ty));
        for (i, spot) in spots.iter().enumerate().skip(1) {
            let ahead = i as u64 * bits + if upper { 4 } else { 0 };
            let (at, _) = spot.ok_or_else(partial)?;
            if *spot != Some((address.wrapping_add(ahead >> 3), ahead & 7 != 0)) {
                return Err(self.invalid_op(op, format!("treats addresses {address:#x} and {at:#x} as adjacent")));
            }
        }
        let size = transfer.size();
        if transfer.width > 1 && (upper || !address.is_multiple_of(size as u64)) {
            return Err(self.invalid_op(op, format!("moves {size} bytes at the misaligned address {address:#x}")));
        }
        Ok(Some((address, upper)))
    }

    /// Loads the elements of every slot. Each thread reads its own elements, including replicated ones.
    fn load_spots(&self, transfer: &Transfer<'_>, padding: Lanes, env: &mut Env<'_>) -> Result<Lanes> {
        let mut lanes = padding;
        self.begin(transfer.op, env)?;
        let mut bytes = vec![0; transfer.size()];
        for first in (0..transfer.spots.len()).step_by(transfer.width) {
            let Some((address, upper)) = self.vector_address(transfer, first)? else { continue };
            self.record_access(transfer, address, first, false, env)?;
            env.world.read(address, &mut bytes)?;
            let words = from_bytes(Elem::Scalar(transfer.ty), &bytes);
            (0..transfer.width).for_each(|i| lanes.set(first + i, words.get(i + usize::from(upper))));
        }
        Ok(lanes)
    }

    /// Stores elements. Of the threads that hold the same elements, the leader writes.
    fn store_spots(&self, transfer: &Transfer<'_>, slots: &Tile, env: &mut Env<'_>) -> Result<()> {
        let (distribution, bits) = (transfer.distribution, memory_bits(transfer.ty) as usize);
        self.begin(transfer.op, env)?;
        let bytes = to_bytes(slots);
        let starts = (0..transfer.spots.len()).step_by(transfer.width);
        for first in starts.filter(|first| distribution.is_leader[distribution.thread(*first)]) {
            let Some((address, upper)) = self.vector_address(transfer, first)? else { continue };
            self.record_access(transfer, address, first, true, env)?;
            if bits == 4 && transfer.width == 1 {
                // A read-modify-write keeps the other half-byte, which belongs to a neighbour.
                let (mut byte, shift) = ([0], if upper { 4 } else { 0 });
                env.world.read(address, &mut byte)?;
                let value = slots.lanes().get(first) as u8 & 15;
                env.world.write(address, &[byte[0] & !(15 << shift) | value << shift])?;
                continue;
            }
            let start = first * bits / 8;
            env.world.write(address, &bytes[start..start + transfer.size()])?;
        }
        Ok(())
    }

    /// Records an access for race detection between threads. Atomics of threads do not race.
    pub(super) fn record_access(
        &self,
        transfer: &Transfer<'_>,
        address: u64,
        slot: usize,
        writes: bool,
        env: &mut Env<'_>,
    ) -> Result<()> {
        self.record_bytes(transfer, address, transfer.size(), slot, writes, env)
    }

    pub(super) fn record_bytes(
        &self,
        transfer: &Transfer<'_>,
        address: u64,
        bytes: usize,
        slot: usize,
        writes: bool,
        env: &mut Env<'_>,
    ) -> Result<()> {
        if !self.source.races || transfer.order.semantics != MemoryOrdering::Weak {
            return Ok(());
        }
        let noted = self.hazards(env).access_global(address, bytes, transfer.distribution.warp(slot), writes);
        noted.map_err(|fault| self.fault(transfer.op, None, fault, writes))
    }

    /// Performs an atomic element by element in tile order; the leader of each element executes it.
    pub(super) fn atomic(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let optional = |id: Option<Id>, env: &Env<'_>| id.map(|id| self.gathered(id, env)).transpose();
        match kind {
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                env.begin(self.access_attrs(op, *token, *order));
                let (ptr, value, mask) = (self.gathered(*ptr, env)?, self.gathered(*value, env)?, optional(*mask, env)?);
                let old = access::read_modify_write(*mode, &ptr, &value, mask.as_ref(), env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &old)), env))
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                env.begin(self.access_attrs(op, *token, *order));
                let (ptr, compare) = (self.gathered(*ptr, env)?, self.gathered(*compare, env)?);
                let (value, mask) = (self.gathered(*value, env)?, optional(*mask, env)?);
                let old = access::compare_and_swap(&ptr, &compare, &value, mask.as_ref(), env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &old)), env))
            }
            Op::ReduceView { tile, view, index, token, order, in_bounds, mode, .. } => {
                let seen = env.view(*view);
                self.check_bounds(op, &seen, index, in_bounds, env)?;
                env.begin(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let (view, tile) = (env.view(*view), self.gathered(*tile, env)?);
                access::reduce_view(*mode, &view, &indices, &tile, env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles atomics only"),
        }
    }

    /// Accesses multicast memory of one device. Words are atomic, so threads do not race.
    pub(super) fn multicast(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::MulticastLoad { view, index, token, order, in_bounds, .. } => {
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                env.begin(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let tile = access::load_view(&view, &indices, env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &tile)), env))
            }
            Op::MulticastStore { tile, view, index, token, order, in_bounds, write, .. } => {
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                env.begin(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let tile = self.gathered(*tile, env)?;
                access::multicast_store(write.reduction(), &view, &indices, &tile, env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles multicast accesses only"),
        }
    }
}
