//! Rules for accesses to global memory: the accessed object, and whether the atom fits the layout.

use super::{Check, Program, Rule, Seen, Type, Uses, Value, require};
use crate::layout::{Layout, Strides};
use crate::{Buffer, CopyAtom, MAX_LATENCY, Op, Space, tma_tiles};
use base::Region;
use core_dialect::memory::{MemoryOrdering, MemoryScope, Order, Padding};
use core_dialect::rules::{LOAD_ORDERINGS, STORE_ORDERINGS};
use core_dialect::tile::{Elem, View, ViewKind};
use target_info::Feature;
use tensormap::Map;

/// Maximum bytes of one access of a thread.
const WIDEST: u32 = 16;

impl Check<'_> {
    pub(super) fn memory<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        match kind {
            Op::LoadView { view, index, token, order, in_bounds, atom, .. } => {
                let ty = uses.view(*view, index, in_bounds)?;
                uses.ordered(*order, *token, &LOAD_ORDERINGS)?;
                uses.results(&[Seen::of_view(ty), Seen::Token])?;
                self.view_atom(uses, ty, index, &self.layout(uses, uses.op.results[0]), *atom)
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, atom, .. } => {
                let ty = uses.view(*view, index, in_bounds)?;
                uses.same(&[*tile], Seen::of_view(ty))?;
                uses.ordered(*order, *token, &STORE_ORDERINGS)?;
                uses.results(&[Seen::Token])?;
                self.view_atom(uses, ty, index, &self.layout(uses, *tile), *atom)
            }
            Op::CopyView { latency: Some(latency), .. }
            | Op::Copy { latency: Some(latency), .. }
            | Op::TmaLoad { latency: Some(latency), .. }
                if !(1..=MAX_LATENCY).contains(latency) =>
            {
                Err(format!("a latency hint is from 1 to {MAX_LATENCY}"))
            }
            Op::CopyView { .. } => self.copy_view(uses, kind),
            Op::TmaLoad { .. } | Op::TmaStore { .. } => self.tma_copy(uses, kind),
            Op::Copy { ptr, mask, token, order, buffer, atom, .. } => {
                let copied = uses.pointee_tile(*ptr)?;
                uses.masked(*mask, *ptr)?;
                weak_access(uses, *order, *token)?;
                self.check_all_same_layout(uses, &[Some(*ptr), *mask])?;
                self.copied(copied, &self.layout(uses, *ptr), *buffer, *atom).map(drop)
            }
            Op::ReduceView { tile, view, index, token, order, in_bounds, mode, .. } => {
                uses.reduce_view(*mode, *tile, *view, index, in_bounds, *order, *token)
            }
            Op::MulticastLoad { view, index, token, order, in_bounds, reduction, atom } => {
                uses.multicast((*view, index, in_bounds), None, Some(*reduction), *order, *token)?;
                self.multicast_words(uses, *view, index, uses.op.results[0], *atom)
            }
            Op::MulticastStore { tile, view, index, token, order, in_bounds, write, atom } => {
                uses.multicast((*view, index, in_bounds), Some(*tile), write.reduction(), *order, *token)?;
                self.multicast_words(uses, *view, index, *tile, *atom)
            }
            Op::Load { ptr, mask, other, token, order, atom } => {
                uses.load(*ptr, *mask, *other, *order, *token)?;
                let values = [Some(*ptr), *mask, *other, Some(uses.op.results[0])];
                self.pointer_atom(uses, &values, *atom)
            }
            Op::Store { ptr, value, mask, token, order, atom } => {
                uses.store(*ptr, *value, *mask, *order, *token)?;
                self.pointer_atom(uses, &[Some(*ptr), Some(*value), *mask], *atom)
            }
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                uses.atomic(Some(*mode), *ptr, &[*value], *mask, *order, *token)?;
                self.check_all_same_layout(uses, &[Some(*ptr), Some(*value), *mask, Some(uses.op.results[0])])
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                uses.atomic(None, *ptr, &[*compare, *value], *mask, *order, *token)?;
                self.check_all_same_layout(uses, &[Some(*ptr), Some(*compare), Some(*value), *mask, Some(uses.op.results[0])])
            }
            _ => unreachable!("only accesses to global memory come here"),
        }
    }

    fn check_all_same_layout<O: Program>(&self, uses: &Uses<'_, O, Type>, values: &[Option<Value>]) -> Rule {
        self.check_same_layout(uses, &values.iter().flatten().copied().collect::<Vec<Value>>())
    }

    fn pointer_atom<O: Program>(&self, uses: &Uses<'_, O, Type>, values: &[Option<Value>], atom: CopyAtom) -> Rule {
        self.check_all_same_layout(uses, values)?;
        let ptr = values[0].expect("the pointers come first");
        let Seen::Tile { elem, .. } = uses.pointee_tile(ptr)? else { unreachable!("pointers point to elements") };
        let CopyAtom::Vector { vector_bits } = atom else { return Err("accesses through pointers need a vector atom".into()) };
        let registers = self.layout(uses, ptr).register.len();
        require(vector_bits as usize <= registers && width(elem, vector_bits) <= u64::from(WIDEST), || {
            format!("a thread has no vectors of {} elements", 1u64 << vector_bits.min(63))
        })
    }

    /// An access to multicast memory moves one word at a time: one element, or two 16-bit elements.
    fn multicast_words<O: Program>(
        &self,
        uses: &Uses<'_, O, Type>,
        view: Value,
        index: &[Value],
        tile: Value,
        atom: CopyAtom,
    ) -> Rule {
        let ty = uses.view(view, index, &[])?;
        let vector_bits = u32::from(ty.memref.elem.bits() == 16);
        require(atom == CopyAtom::Vector { vector_bits }, || "multicast accesses move whole words".into())?;
        self.view_atom(uses, ty, index, &self.layout(uses, tile), atom)
    }

    fn view_atom<O: Program>(
        &self,
        uses: &Uses<'_, O, Type>,
        view: &View,
        index: &[Value],
        layout: &Layout,
        atom: CopyAtom,
    ) -> Rule {
        self.gathered_rows(uses, view, index, layout)?;
        match atom {
            CopyAtom::Vector { vector_bits } => contiguous_vectors(view, layout, vector_bits),
            CopyAtom::Matrix { .. } | CopyAtom::ByteMatrix | CopyAtom::Async { .. } => {
                Err("its atom does not move data between global memory and registers".into())
            }
        }
    }

    /// The indices of gathered rows must be in the threads that need them.
    fn gathered_rows<O: Program>(&self, uses: &Uses<'_, O, Type>, view: &View, index: &[Value], layout: &Layout) -> Rule {
        let ViewKind::Gather { sparse_dim } = view.kind else { return Ok(()) };
        let (dim, strides) = (sparse_dim as usize, Strides::of(&view.tile));
        let names = layout.renaming(&self.layout(uses, index[dim]), |element| strides.coordinate(element, dim));
        require(names.is_some(), || format!("the rows' indices in {} are not in the threads that need them", index[dim]))
    }

    /// A copy of a view names the layout in which its threads copy.
    fn copy_view<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        let Op::CopyView { view, index, token, order, in_bounds, buffer, layout, atom, .. } = kind else {
            unreachable!("only copies come here")
        };
        let view = uses.view(*view, index, in_bounds)?;
        weak_access(uses, *order, *token)?;
        let layout = self.layouts.get(*layout).ok_or("its layout is not in the table")?;
        require(1 << layout.warp.len() == self.warps, || "its layout is for another number of warps".into())?;
        let bits = self.copied(Seen::of_view(view), layout, *buffer, *atom)?;
        contiguous_vectors(view, layout, bits)
    }

    /// The map must describe the view, and the buffer must have the layout of its TMA tiles. A TMA store must be weak, and a TMA
    /// reduction relaxed.
    fn tma_copy<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        let (Op::TmaLoad { view, index, token, order, in_bounds, buffer, map, .. }
        | Op::TmaStore { view, index, token, order, in_bounds, buffer, map, .. }) = kind
        else {
            unreachable!("only TMA copies come here")
        };
        let loads = matches!(kind, Op::TmaLoad { .. });
        let ty = uses.view(*view, index, in_bounds)?;
        match kind {
            Op::TmaStore { mode: Some(mode), .. } => {
                uses.ordered(*order, *token, &[MemoryOrdering::Relaxed])?;
                uses.results(&[Seen::Token])?;
                let elem = ty.memref.elem;
                let combines = tma_tiles::can_reduce(*mode, elem) && order.scope != Some(MemoryScope::System);
                require(combines, || format!("TMA does not reduce {elem} into memory with this mode"))?;
            }
            _ => weak_access(uses, *order, *token)?,
        }
        require(self.target.has(Feature::Tma), || format!("{} has no TMA", self.target))?;
        require(!loads || matches!(ty.padding, None | Some(Padding::Zero)), || "elements outside become zero".into())?;
        let stated = self.attrs.maps.get(*map).ok_or_else(|| format!("{map} is not in the table"))?;
        let params = &uses.body.blocks[uses.body.block_of(Region(0))].args;
        let mut derived = tma_tiles::map(uses.body, params, *view).map_err(|why| format!("{view} has no tensor map: {why}"))?;
        let info = self.buffer(*buffer)?;
        // Each CTA of a pair copies its half as a tile of its own.
        let half = self.attrs.cta_pair && loads && tma_tiles::halved(&ty.tile, &info.shape).is_some();
        let ty = &View { tile: if half { info.shape.clone() } else { ty.tile.clone() }, ..ty.clone() };
        if half {
            (derived.extent, derived.swizzle) = tma_tiles::tma_tiles_of(ty).ok_or("half of its rows is shorter than 16 bytes")?;
        }
        let with_derived_extent = Map { extent: derived.extent.clone(), ..stated.clone() };
        require(with_derived_extent == derived, || format!("{map} is not the tensor map of {view}"))?;
        require(tma_tiles::are_subtiles(&stated.extent, &derived.extent), || {
            format!("the TMA tiles of {map} do not divide those of {view}")
        })?;
        let filled = tma_tiles::buffer(ty, &stated.extent, derived.swizzle).ok_or("its TMA tiles are too small")?;
        let is_same_layout = (info.elem, &info.shape, &info.offsets) == (filled.elem, &filled.shape, &filled.offsets);
        let fits = is_same_layout && info.space == filled.space;
        require(fits && info.align >= filled.align, || format!("{buffer} does not have the layout of the TMA tiles of {map}"))
    }

    /// The buffer must hold such tiles, and vectors of the atom's size must be contiguous in the layout's registers and in the
    /// buffer. Returns log2 of the elements of a vector.
    fn copied(&self, tile: Seen<'_>, layout: &Layout, buffer: Buffer, atom: CopyAtom) -> Result<u32, String> {
        let CopyAtom::Async { bytes } = atom else { return Err("a copy needs an asynchronous atom".into()) };
        let info = self.buffer(buffer)?;
        require(info.space == Space::Shared, || format!("{buffer} is not in shared memory"))?;
        let holds = tile == Seen::Tile { elem: info.elem, shape: &info.shape };
        require(holds, || format!("{buffer} does not have the type of the copied tile"))?;
        layout.covers(info.offsets.len() as u32)?;
        let pieces = matches!(bytes, 4 | 8 | 16) && info.elem.bits() >= 8 && info.elem.bytes() <= bytes;
        require(pieces, || format!("there are no copies of {bytes} bytes"))?;
        let bits = (bytes / info.elem.bytes()).ilog2();
        let is_contiguous = info.has_vectors(layout, bits);
        require(is_contiguous, || format!("vectors of {bytes} bytes are not contiguous in {buffer} or in the copy's layout"))?;
        Ok(bits)
    }
}

/// A copy is a weak access, which only tokens order. Its only result is a token.
fn weak_access<O: Program>(uses: &Uses<'_, O, Type>, order: Order, token: Option<Value>) -> Rule {
    uses.ordered(order, token, &[MemoryOrdering::Weak])?;
    uses.results(&[Seen::Token])
}

/// Bytes of a vector.
fn width(elem: Elem, vector_bits: u32) -> u64 {
    (u64::from(elem.bits()).max(1) << vector_bits.min(32)).div_ceil(8)
}

/// The lowest `1 << bits` registers are neighbours in memory and start at a multiple of their number in the tile.
fn contiguous_vectors(view: &View, layout: &Layout, bits: u32) -> Rule {
    if bits == 0 {
        return Ok(());
    }
    let fits = (bits as usize) <= layout.register.len() && width(Elem::Scalar(view.memref.elem), bits) <= u64::from(WIDEST);
    require(fits, || format!("a thread has no vectors of {} elements", 1u64 << bits.min(63)))?;
    let strides = Strides::of(&view.tile);
    let low = layout.register[0];
    let dim = (0..view.tile.len()).find(|dim| low == 1 << strides.shift[*dim] && strides.bits[*dim] >= bits);
    let dim = dim.ok_or("a vector's registers do not run along one dimension")?;
    let first = strides.shift[dim];
    let mask = ((1u32 << bits) - 1) << first;
    let (vector, rest) = layout.register.split_at(bits as usize);
    let in_order = vector.iter().enumerate().all(|(bit, basis)| *basis == 1 << (first + bit as u32));
    let apart = rest.iter().chain(&layout.lane).chain(&layout.warp).all(|basis| basis & mask == 0);
    require(in_order && apart, || "a vector's registers do not run along one dimension".into())?;
    let gathered = matches!(view.kind, ViewKind::Gather { sparse_dim } if sparse_dim as usize == dim);
    let contiguous = view.memref.strides[view.dim_map[dim] as usize] == Some(1) && !gathered;
    require(contiguous, || "a vector's elements are not neighbours in memory".into())
}
