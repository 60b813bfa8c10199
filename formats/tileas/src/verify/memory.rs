//! Rules for accesses to global memory: the view or pointers, the memory ordering, and whether the atom supports the layout.

use super::{CoreType, FunctionChecker, OpContext, RuleResult, TileAsOp, Type, Value, require};
use crate::layout::{Layout, Strides};
use crate::{Buffer, CopyAtom, MAX_LATENCY, Op, Space, tma_tiles};
use base::Region;
use core_dialect::memory::{MemoryOrdering, MemoryScope, Order, Padding};
use core_dialect::rules::{LOAD_ORDERINGS, STORE_ORDERINGS};
use core_dialect::tile::{Elem, View, ViewKind};
use target_info::Feature;
use tensormap::Map;

/// Maximum bytes of one global-memory access of a thread (PTX ISA: vectors of 128 bits).
const MAX_VECTOR_BYTES: u32 = 16;

impl FunctionChecker<'_> {
    /// Checks an access to global memory.
    pub(super) fn check_global_access<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        match kind {
            Op::LoadView { view, index, token, order, in_bounds, atom, .. } => {
                let ty = context.accessed_view(*view, index, in_bounds)?;
                context.check_order(*order, *token, &LOAD_ORDERINGS)?;
                context.check_results(&[CoreType::of_view(ty), CoreType::Token])?;
                self.check_view_atom(context, ty, index, &self.layout_of(context, context.op.results[0]), *atom)
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, atom, .. } => {
                let ty = context.accessed_view(*view, index, in_bounds)?;
                context.check_types(&[*tile], CoreType::of_view(ty))?;
                context.check_order(*order, *token, &STORE_ORDERINGS)?;
                context.check_results(&[CoreType::Token])?;
                self.check_view_atom(context, ty, index, &self.layout_of(context, *tile), *atom)
            }
            Op::CopyView { latency: Some(latency), .. }
            | Op::Copy { latency: Some(latency), .. }
            | Op::TmaLoad { latency: Some(latency), .. }
                if !(1..=MAX_LATENCY).contains(latency) =>
            {
                Err(format!("a latency hint is from 1 to {MAX_LATENCY}"))
            }
            Op::CopyView { .. } => self.check_copy_view(context, kind),
            Op::TmaLoad { .. } | Op::TmaStore { .. } => self.check_tma_copy(context, kind),
            Op::Copy { ptr, mask, token, order, buffer, atom, .. } => {
                let copied_tile = context.pointee_tile(*ptr)?;
                context.check_mask(*mask, *ptr)?;
                check_weak_access(context, *order, *token)?;
                self.check_all_same_layout(context, &[Some(*ptr), *mask])?;
                self.check_async_copy(copied_tile, &self.layout_of(context, *ptr), *buffer, *atom).map(drop)
            }
            Op::ReduceView { tile, view, index, token, order, in_bounds, mode, .. } => {
                context.check_reduce_view(*mode, *tile, *view, index, in_bounds, *order, *token)
            }
            Op::MulticastLoad { view, index, token, order, in_bounds, reduction, atom } => {
                context.check_multicast(*view, index, in_bounds, None, Some(*reduction), *order, *token)?;
                self.check_multicast_words(context, *view, index, context.op.results[0], *atom)
            }
            Op::MulticastStore { tile, view, index, token, order, in_bounds, write, atom } => {
                context.check_multicast(*view, index, in_bounds, Some(*tile), write.reduction(), *order, *token)?;
                self.check_multicast_words(context, *view, index, *tile, *atom)
            }
            Op::Load { ptr, mask, other, token, order, atom } => {
                context.check_load(*ptr, *mask, *other, *order, *token)?;
                let values = [Some(*ptr), *mask, *other, Some(context.op.results[0])];
                self.check_pointer_atom(context, &values, *atom)
            }
            Op::Store { ptr, value, mask, token, order, atom } => {
                context.check_store(*ptr, *value, *mask, *order, *token)?;
                self.check_pointer_atom(context, &[Some(*ptr), Some(*value), *mask], *atom)
            }
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                context.check_atomic(Some(*mode), *ptr, &[*value], *mask, *order, *token)?;
                self.check_all_same_layout(context, &[Some(*ptr), Some(*value), *mask, Some(context.op.results[0])])
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                context.check_atomic(None, *ptr, &[*compare, *value], *mask, *order, *token)?;
                self.check_all_same_layout(context, &[Some(*ptr), Some(*compare), Some(*value), *mask, Some(context.op.results[0])])
            }
            _ => unreachable!("only accesses to global memory come here"),
        }
    }

    /// Checks that all tiles among the given values have the same layout.
    fn check_all_same_layout<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, values: &[Option<Value>]) -> RuleResult {
        self.check_same_layout(context, &values.iter().flatten().copied().collect::<Vec<Value>>())
    }

    /// Checks the atom and the layouts of an access through pointers. `values` are the tiles of the op; the pointers come first.
    fn check_pointer_atom<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        values: &[Option<Value>],
        atom: CopyAtom,
    ) -> RuleResult {
        self.check_all_same_layout(context, values)?;
        let ptr = values[0].expect("the pointers come first");
        let CoreType::Tile { elem, .. } = context.pointee_tile(ptr)? else { unreachable!("pointers point to elements") };
        let CopyAtom::Vector { vector_bits } = atom else { return Err("accesses through pointers need a vector atom".into()) };
        let registers = self.layout_of(context, ptr).register.len();
        require(vector_bits as usize <= registers && vector_bytes(elem, vector_bits) <= u64::from(MAX_VECTOR_BYTES), || {
            format!("a thread has no vectors of {} elements", 1u64 << vector_bits.min(63))
        })
    }

    /// Checks that an access to multicast memory moves one word at a time: one element, or two 16-bit elements.
    fn check_multicast_words<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        view: Value,
        index: &[Value],
        tile: Value,
        atom: CopyAtom,
    ) -> RuleResult {
        let ty = context.accessed_view(view, index, &[])?;
        let vector_bits = u32::from(ty.memref.elem.bits() == 16);
        require(atom == CopyAtom::Vector { vector_bits }, || "multicast accesses move whole words".into())?;
        self.check_view_atom(context, ty, index, &self.layout_of(context, tile), atom)
    }

    /// Checks the atom of an access to a view from registers with this layout.
    fn check_view_atom<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        view: &View,
        index: &[Value],
        layout: &Layout,
        atom: CopyAtom,
    ) -> RuleResult {
        self.check_gathered_rows(context, view, index, layout)?;
        match atom {
            CopyAtom::Vector { vector_bits } => check_contiguous_vectors(view, layout, vector_bits),
            CopyAtom::Matrix { .. } | CopyAtom::ByteMatrix | CopyAtom::Async { .. } => {
                Err("its atom does not move data between global memory and registers".into())
            }
        }
    }

    /// Checks an access to a gather view: each thread must hold the indices of the rows that it accesses.
    fn check_gathered_rows<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        view: &View,
        index: &[Value],
        layout: &Layout,
    ) -> RuleResult {
        let ViewKind::Gather { sparse_dim } = view.kind else { return Ok(()) };
        let (dim, strides) = (sparse_dim as usize, Strides::for_shape(&view.tile));
        let renaming = layout.renaming(&self.layout_of(context, index[dim]), |element| strides.coordinate(element, dim));
        require(renaming.is_some(), || format!("the rows' indices in {} are not in the threads that need them", index[dim]))
    }

    /// Checks a copy of a view's tile, and the layout that assigns elements to the copying threads.
    fn check_copy_view<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        let Op::CopyView { view, index, token, order, in_bounds, buffer, layout, atom, .. } = kind else {
            unreachable!("only copies come here")
        };
        let view = context.accessed_view(*view, index, in_bounds)?;
        check_weak_access(context, *order, *token)?;
        let layout = self.layouts.get(*layout).ok_or("its layout is not in the table")?;
        require(1 << layout.warp.len() == self.warps, || "its layout is for another number of warps".into())?;
        let vector_bits = self.check_async_copy(CoreType::of_view(view), layout, *buffer, *atom)?;
        check_contiguous_vectors(view, layout, vector_bits)
    }

    /// Checks that the map describes the view, and that the buffer has the layout of the map's TMA tiles. A TMA load or store must
    /// be weak, and a TMA reduction relaxed.
    fn check_tma_copy<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        let (Op::TmaLoad { view, index, token, order, in_bounds, buffer, map, .. }
        | Op::TmaStore { view, index, token, order, in_bounds, buffer, map, .. }) = kind
        else {
            unreachable!("only TMA copies come here")
        };
        let is_load = matches!(kind, Op::TmaLoad { .. });
        let ty = context.accessed_view(*view, index, in_bounds)?;
        match kind {
            Op::TmaStore { mode: Some(mode), .. } => {
                context.check_order(*order, *token, &[MemoryOrdering::Relaxed])?;
                context.check_results(&[CoreType::Token])?;
                let elem = ty.memref.elem;
                let is_supported = tma_tiles::can_reduce(*mode, elem) && order.scope != Some(MemoryScope::System);
                require(is_supported, || format!("TMA does not reduce {elem} into memory with this mode"))?;
            }
            _ => check_weak_access(context, *order, *token)?,
        }
        require(self.target.has(Feature::Tma), || format!("{} has no TMA", self.target))?;
        require(!is_load || matches!(ty.padding, None | Some(Padding::Zero)), || "elements outside become zero".into())?;
        let stored_map = self.attrs.maps.get(*map).ok_or_else(|| format!("{map} is not in the table"))?;
        let params = &context.body.blocks[context.body.block_of(Region(0))].args;
        let (mut derived, _) =
            tma_tiles::tensor_map(context.body, params, *view).map_err(|why| format!("{view} has no tensor map: {why}"))?;
        let info = self.buffer_info(*buffer)?;
        // Each CTA of a pair copies its half as a tile of its own.
        let copies_half = self.attrs.cta_pair && is_load && tma_tiles::halved_dim(&ty.tile, &info.shape).is_some();
        let ty = &View { tile: if copies_half { info.shape.clone() } else { ty.tile.clone() }, ..ty.clone() };
        if copies_half {
            let half = tma_tiles::view_tma_tile(ty, derived.dims.len());
            (derived.extent, derived.swizzle) = half.ok_or("half of its rows is shorter than 16 bytes")?;
        }
        let with_derived_extent = Map { extent: derived.extent.clone(), ..stored_map.clone() };
        require(with_derived_extent == derived, || format!("{map} is not the tensor map of {view}"))?;
        require(tma_tiles::are_subtiles(&stored_map.extent, &derived.extent), || {
            format!("the TMA tiles of {map} do not divide those of {view}")
        })?;
        let filled = tma_tiles::tma_buffer(ty, &stored_map.extent, derived.swizzle).ok_or("its TMA tiles are too small")?;
        let is_same_layout = (info.elem, &info.shape, &info.offset_bases) == (filled.elem, &filled.shape, &filled.offset_bases);
        let fits = is_same_layout && info.space == filled.space;
        require(fits && info.align >= filled.align, || format!("{buffer} does not have the layout of the TMA tiles of {map}"))
    }

    /// Checks a copy by `cp.async`. The buffer must have the type of the tile. Vectors of the atom's bytes must be contiguous in
    /// the layout's registers and in the buffer. Returns log2 of the elements of a vector.
    fn check_async_copy(&self, tile: CoreType<'_>, layout: &Layout, buffer: Buffer, atom: CopyAtom) -> Result<u32, String> {
        let CopyAtom::Async { bytes } = atom else { return Err("a copy needs an asynchronous atom".into()) };
        let info = self.buffer_info(buffer)?;
        require(info.space == Space::Shared, || format!("{buffer} is not in shared memory"))?;
        let has_tile_type = tile == CoreType::Tile { elem: info.elem, shape: &info.shape };
        require(has_tile_type, || format!("{buffer} does not have the type of the copied tile"))?;
        layout.covers(info.offset_bases.len() as u32)?;
        let is_supported_size = matches!(bytes, 4 | 8 | 16) && info.elem.bits() >= 8 && info.elem.bytes() <= bytes;
        require(is_supported_size, || format!("there are no copies of {bytes} bytes"))?;
        let vector_bits = (bytes / info.elem.bytes()).ilog2();
        let is_contiguous = info.has_vectors(layout, vector_bits);
        require(is_contiguous, || format!("vectors of {bytes} bytes are not contiguous in {buffer} or in the copy's layout"))?;
        Ok(vector_bits)
    }
}

/// Checks that an access is weak, so that only tokens order it, and that its only result is a token.
fn check_weak_access<O: TileAsOp>(context: &OpContext<'_, O, Type>, order: Order, token: Option<Value>) -> RuleResult {
    context.check_order(order, token, &[MemoryOrdering::Weak])?;
    context.check_results(&[CoreType::Token])
}

/// Bytes of a vector of `1 << vector_bits` elements, rounded up.
fn vector_bytes(elem: Elem, vector_bits: u32) -> u64 {
    (u64::from(elem.bits()).max(1) << vector_bits.min(32)).div_ceil(8)
}

/// Checks that the lowest `1 << bits` registers hold a vector of elements that are neighbours in memory. In the tile, the vector
/// must start at a multiple of its length.
fn check_contiguous_vectors(view: &View, layout: &Layout, bits: u32) -> RuleResult {
    if bits == 0 {
        return Ok(());
    }
    let fits = (bits as usize) <= layout.register.len()
        && vector_bytes(Elem::Scalar(view.memref.elem), bits) <= u64::from(MAX_VECTOR_BYTES);
    require(fits, || format!("a thread has no vectors of {} elements", 1u64 << bits.min(63)))?;
    let strides = Strides::for_shape(&view.tile);
    let first_basis = layout.register[0];
    let dim = (0..view.tile.len()).find(|dim| first_basis == 1 << strides.shift[*dim] && strides.bits[*dim] >= bits);
    let dim = dim.ok_or("a vector's registers do not run along one dimension")?;
    let first_bit = strides.shift[dim];
    let mask = ((1u32 << bits) - 1) << first_bit;
    let (vector, rest) = layout.register.split_at(bits as usize);
    let in_order = vector.iter().enumerate().all(|(bit, basis)| *basis == 1 << (first_bit + bit as u32));
    let is_aligned = rest.iter().chain(&layout.lane).chain(&layout.warp).all(|basis| basis & mask == 0);
    require(in_order && is_aligned, || "a vector's registers do not run along one dimension".into())?;
    let is_gathered = matches!(view.kind, ViewKind::Gather { sparse_dim } if sparse_dim as usize == dim);
    let is_contiguous = view.memref.strides[view.dim_map[dim] as usize] == Some(1) && !is_gathered;
    require(is_contiguous, || "a vector's elements are not neighbours in memory".into())
}
