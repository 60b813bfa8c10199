//! Loads, stores and atomics of global memory through views and pointers. Each thread accesses the elements of its registers with
//! the instruction that the copy atom selects.

use super::{DistributedOp, DistributedProgram, distribution::Distribution};
use crate::check_kind::Check;
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
use numerics::arith::ElementWords;
use tileas::layout::Strides;
use tileas::{CopyAtom, Op};

/// The address of an element, and whether a 4-bit element is the upper half of its byte. `None` outside a tensor or under a false
/// mask.
pub(super) type ElementAddress = Option<(u64, bool)>;

/// One execution of a load, store or copy by all threads, with its accesses to global memory.
pub(super) struct GlobalTransfer<'a> {
    pub(super) op: OpId,
    pub(super) order: Order,
    pub(super) distribution: &'a Distribution,
    /// For each slot, the address of its element.
    pub(super) addresses: Vec<ElementAddress>,
    /// The type of an element.
    pub(super) ty: Scalar,
    /// Number of registers that one instruction moves.
    pub(super) width: usize,
}

impl GlobalTransfer<'_> {
    /// Returns the number of bytes that one instruction moves.
    fn vector_bytes(&self) -> usize {
        (self.width * memory_bits(self.ty) as usize).div_ceil(8)
    }
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Returns the attributes of a memory access by an op.
    pub(super) fn access_attrs(&self, op: OpId, token: Option<Id>, order: Order) -> AccessAttrs {
        AccessAttrs { loc: self.source.body.ops[op].loc, token, ordering: order.semantics, scope: order.scope }
    }

    /// Executes a load or store through a view.
    pub(super) fn view_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::LoadView { view, index, token, order, in_bounds, atom, .. } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let (view, result) = (env.view(*view), self.result(op));
                self.check_bounds(op, &view, index, in_bounds, env)?;
                let addresses = self.view_addresses(op, self.distribution(result), &view, index, env)?;
                let transfer = self.global_transfer(op, result, addresses, *atom, *order)?;
                let padding = ElementWords::splat(transfer.ty, padding_bits(view.padding, transfer.ty), transfer.addresses.len());
                let element_words = self.load_elements(&transfer, padding, env)?;
                let slots = Tile::new(transfer.distribution.shape(), self.elem(result), element_words);
                Ok(end_access(Some(self.value_from_slots(result, slots)?), env))
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, atom, .. } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                let addresses = self.view_addresses(op, self.distribution(*tile), &view, index, env)?;
                self.store_elements(&self.global_transfer(op, *tile, addresses, *atom, *order)?, &self.slots(*tile, env), env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles accesses through views only"),
        }
    }

    /// Reports indices and tiles that are out of bounds, with `--check=memory`.
    pub(super) fn check_bounds(&self, op: OpId, view: &View, index: &[Id], in_bounds: &[bool], env: &mut Env<'_>) -> Result<()> {
        if env.kernel_memory.checks(Check::Memory) {
            let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
            access::check_bounds(view, &indices, in_bounds, self.source.body.ops[op].loc, env);
        }
        Ok(())
    }

    /// Returns for each slot the address of its element in a view's tile.
    pub(super) fn view_addresses(
        &self,
        op: OpId,
        distribution: &Distribution,
        view: &View,
        index: &[Id],
        env: &Env<'_>,
    ) -> Result<Vec<ElementAddress>> {
        let strides = Strides::for_shape(&view.tile);
        let mut offsets: Vec<Option<i64>> = vec![Some(0); distribution.slot_count()];
        for (t, id) in index.iter().enumerate() {
            let dim = view.dim_map[t];
            let (size, stride) = (view.tensor.sizes[dim].max(0) as u128, view.tensor.strides[dim]);
            let tensor_offset = |coordinate: u128| (coordinate < size).then_some((coordinate as i64).wrapping_mul(stride));
            let mut add_offset = |slot: usize, offset: Option<i64>| {
                offsets[slot] = offsets[slot].and_then(|sum| offset.map(|offset| sum.wrapping_add(offset)));
            };
            if view.kind == (ViewKind::Gather { sparse_dim: t as u32 }) {
                let (rows, row_distribution) = (self.slots(*id, env), self.distribution(*id));
                for slot in 0..distribution.slot_count() {
                    let (thread, row) = (distribution.thread_of(slot), strides.coordinate(distribution.elements[slot], t));
                    let row_slot = row_distribution.slot_of(thread, row);
                    let row_slot = row_slot
                        .ok_or_else(|| self.invalid_op(op, format!("needs row {row} of {id}, missing in thread {thread}")))?;
                    add_offset(slot, tensor_offset(rows.element_words().get(row_slot).into()));
                }
                continue;
            }
            let origin = u128::from(env.tile(*id).first()) * u128::from(view.kind.step(&view.tile, t));
            let tile_offsets: Vec<Option<i64>> = (0..view.tile[t]).map(|i| tensor_offset(origin + u128::from(i))).collect();
            (0..distribution.slot_count())
                .for_each(|slot| add_offset(slot, tile_offsets[strides.coordinate(distribution.elements[slot], t) as usize]));
        }
        let (base, element_bits) = (view.tensor.base, memory_bits(view.tensor.elem));
        let address = |offset: i64| {
            let bit_offset = i128::from(offset) * i128::from(element_bits);
            (base.wrapping_add((bit_offset >> 3) as u64), bit_offset & 7 != 0)
        };
        Ok(offsets.into_iter().map(|offset| offset.map(address)).collect())
    }

    /// Executes a load or store through pointers.
    pub(super) fn pointer_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::Load { ptr, mask, other, token, order, atom } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let result = self.result(op);
                let addresses = self.pointer_addresses(op, result, *ptr, *mask, env)?;
                let transfer = self.global_transfer(op, result, addresses, *atom, *order)?;
                let padding = other.map(|other| self.slots_like(other, result, env).element_words().clone());
                let padding = padding.unwrap_or_else(|| ElementWords::splat(transfer.ty, 0, transfer.addresses.len()));
                let element_words = self.load_elements(&transfer, padding, env)?;
                let slots = Tile::new(transfer.distribution.shape(), self.elem(result), element_words);
                Ok(end_access(Some(self.value_from_slots(result, slots)?), env))
            }
            Op::Store { ptr, value, mask, token, order, atom } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let addresses = self.pointer_addresses(op, *value, *ptr, *mask, env)?;
                self.store_elements(&self.global_transfer(op, *value, addresses, *atom, *order)?, &self.slots(*value, env), env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles accesses through pointers only"),
        }
    }

    /// Returns the addresses in the slots of a pointer tile. `None` under a false mask. Pointers and mask must have the layout of
    /// the value `like`. If `like` is a scalar, they must be scalars.
    pub(super) fn pointer_addresses(
        &self,
        op: OpId,
        like: Id,
        ptr: Id,
        mask: Option<Id>,
        env: &Env<'_>,
    ) -> Result<Vec<ElementAddress>> {
        let has_layout =
            |id: Id| self.is_scalar(id) && self.is_scalar(like) || self.distribution(id).layout == self.distribution(like).layout;
        let mismatch = [Some(ptr), mask].into_iter().flatten().find(|id| !has_layout(*id));
        if let Some(mismatch) = mismatch {
            return Err(self.invalid_op(op, format!("has {mismatch} in a layout that differs from that of {like}")));
        }
        let (pointers, mask) = (self.slots_like(ptr, like, env), mask.map(|mask| self.slots_like(mask, like, env)));
        let is_enabled = |slot: usize| mask.as_ref().is_none_or(|mask| mask.element_words().get(slot) & 1 == 1);
        Ok(pointers.element_words().iter().enumerate().map(|(slot, at)| is_enabled(slot).then_some((at, false))).collect())
    }

    /// Returns the accesses of a load or store with a vector atom. Checks that the width of the atom divides the registers.
    fn global_transfer(
        &self,
        op: OpId,
        tile: Id,
        addresses: Vec<ElementAddress>,
        atom: CopyAtom,
        order: Order,
    ) -> Result<GlobalTransfer<'_>> {
        let (distribution, width) = (&**self.distribution(tile), self.vector_width(op, atom)?);
        match addresses.len() == distribution.slot_count() && distribution.registers_per_thread.is_multiple_of(width) {
            true => Ok(GlobalTransfer { op, order, distribution, addresses, ty: self.elem(tile).carrier(), width }),
            false => Err(self.invalid_op(op, format!("moves {width} of {} registers at once", distribution.registers_per_thread))),
        }
    }

    /// Returns the address of the vector of registers that starts at slot `first`. `None` if no element has an address. Checks that
    /// the elements are contiguous and that the address is aligned.
    fn vector_address(&self, transfer: &GlobalTransfer<'_>, first: usize) -> Result<ElementAddress> {
        let (op, addresses) = (transfer.op, &transfer.addresses[first..first + transfer.width]);
        let partial_error = || self.invalid_op(op, "moves a vector of which only some elements are enabled");
        let Some((address, upper)) = addresses[0] else {
            return if addresses.iter().all(Option::is_none) { Ok(None) } else { Err(partial_error()) };
        };
        let bits = u64::from(memory_bits(transfer.ty));
        for (i, element) in addresses.iter().enumerate().skip(1) {
            let distance_bits = i as u64 * bits + if upper { 4 } else { 0 };
            let (element_address, _) = element.ok_or_else(partial_error)?;
            if *element != Some((address.wrapping_add(distance_bits >> 3), distance_bits & 7 != 0)) {
                return Err(self.invalid_op(op, format!("treats addresses {address:#x} and {element_address:#x} as adjacent")));
            }
        }
        let byte_count = transfer.vector_bytes();
        if transfer.width > 1 && (upper || !address.is_multiple_of(byte_count as u64)) {
            return Err(self.invalid_op(op, format!("moves {byte_count} bytes at the misaligned address {address:#x}")));
        }
        Ok(Some((address, upper)))
    }

    /// Loads the element of every slot. If several threads have the same element, each of them reads it.
    fn load_elements(&self, transfer: &GlobalTransfer<'_>, padding: ElementWords, env: &mut Env<'_>) -> Result<ElementWords> {
        let mut element_words = padding;
        self.begin_op(transfer.op, env)?;
        let mut bytes = vec![0; transfer.vector_bytes()];
        for first in (0..transfer.addresses.len()).step_by(transfer.width) {
            let Some((address, upper)) = self.vector_address(transfer, first)? else { continue };
            self.record_access(transfer, address, first, false, env)?;
            env.kernel_memory.read(address, &mut bytes)?;
            let words = from_bytes(Elem::Scalar(transfer.ty), &bytes);
            (0..transfer.width).for_each(|i| element_words.set(first + i, words.get(i + usize::from(upper))));
        }
        Ok(element_words)
    }

    /// Stores the elements of a tile. Of the threads with equal elements, only the leader writes.
    fn store_elements(&self, transfer: &GlobalTransfer<'_>, slots: &Tile, env: &mut Env<'_>) -> Result<()> {
        let (distribution, bits) = (transfer.distribution, memory_bits(transfer.ty) as usize);
        self.begin_op(transfer.op, env)?;
        let bytes = to_bytes(slots);
        let starts = (0..transfer.addresses.len()).step_by(transfer.width);
        for first in starts.filter(|first| distribution.is_leader[distribution.thread_of(*first)]) {
            let Some((address, upper)) = self.vector_address(transfer, first)? else { continue };
            self.record_access(transfer, address, first, true, env)?;
            if bits == 4 && transfer.width == 1 {
                // A byte contains two 4-bit elements. A read-modify-write preserves the other element of the byte.
                let (mut byte, shift) = ([0], if upper { 4 } else { 0 });
                env.kernel_memory.read(address, &mut byte)?;
                let value = slots.element_words().get(first) as u8 & 15;
                env.kernel_memory.write(address, &[byte[0] & !(15 << shift) | value << shift])?;
                continue;
            }
            let start = first * bits / 8;
            env.kernel_memory.write(address, &bytes[start..start + transfer.vector_bytes()])?;
        }
        Ok(())
    }

    /// Reports the access of one instruction to the race detector.
    pub(super) fn record_access(
        &self,
        transfer: &GlobalTransfer<'_>,
        address: u64,
        slot: usize,
        writes: bool,
        env: &mut Env<'_>,
    ) -> Result<()> {
        self.record_bytes(transfer, address, transfer.vector_bytes(), slot, writes, env)
    }

    /// Reports an access to bytes of global memory to the race detector. Ordered and atomic accesses do not race.
    pub(super) fn record_bytes(
        &self,
        transfer: &GlobalTransfer<'_>,
        address: u64,
        bytes: usize,
        slot: usize,
        writes: bool,
        env: &mut Env<'_>,
    ) -> Result<()> {
        if !self.source.checks_races || transfer.order.semantics != MemoryOrdering::Weak {
            return Ok(());
        }
        let recorded = self.hazards(env).access_global(address, bytes, transfer.distribution.warp_of(slot), writes);
        recorded.map_err(|fault| self.fault_error(transfer.op, None, fault, writes))
    }

    /// Executes an atomic operation on one element after another, in tile order. If several threads have copies of
    /// an element, only one operation executes for it.
    pub(super) fn atomic(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let gather_optional = |id: Option<Id>, env: &Env<'_>| id.map(|id| self.gathered(id, env)).transpose();
        match kind {
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let (ptr, value, mask) = (self.gathered(*ptr, env)?, self.gathered(*value, env)?, gather_optional(*mask, env)?);
                let old = access::read_modify_write(*mode, &ptr, &value, mask.as_ref(), env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &old)), env))
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                env.begin_access(self.access_attrs(op, *token, *order));
                let (ptr, compare) = (self.gathered(*ptr, env)?, self.gathered(*compare, env)?);
                let (value, mask) = (self.gathered(*value, env)?, gather_optional(*mask, env)?);
                let old = access::compare_and_swap(&ptr, &compare, &value, mask.as_ref(), env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &old)), env))
            }
            Op::ReduceView { tile, view, index, token, order, in_bounds, mode, .. } => {
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                env.begin_access(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let tile = self.gathered(*tile, env)?;
                access::reduce_view(*mode, &view, &indices, &tile, env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles atomics only"),
        }
    }

    /// Executes a load from or a store to multicast memory. The executor models one device. Multicast accesses are atomic, so the
    /// race detector ignores them.
    pub(super) fn multicast(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        match kind {
            Op::MulticastLoad { view, index, token, order, in_bounds, .. } => {
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                env.begin_access(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let tile = access::load_view(&view, &indices, env)?;
                Ok(end_access(Some(self.distribute(self.result(op), &tile)), env))
            }
            Op::MulticastStore { tile, view, index, token, order, in_bounds, write, .. } => {
                let view = env.view(*view);
                self.check_bounds(op, &view, index, in_bounds, env)?;
                env.begin_access(self.access_attrs(op, *token, *order));
                let indices = index.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                let tile = self.gathered(*tile, env)?;
                access::multicast_store(write.reduction(), &view, &indices, &tile, env)?;
                Ok(end_access(None, env))
            }
            _ => unreachable!("handles multicast accesses only"),
        }
    }
}
