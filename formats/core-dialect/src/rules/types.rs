//! Rules for well-formed types.

use super::{Rule, Seen, require};
use crate::memory::Padding;
use crate::tile::{MemRef, View, ViewKind};

const MAX_ELEMENTS: u64 = 1 << 24;

pub fn well_formed(ty: Seen<'_>) -> Rule {
    match ty {
        Seen::Tile { shape, .. } => extents(shape),
        Seen::MemRef(memref) => self::memref(memref),
        Seen::View(view) => self::view(view),
        Seen::Token => Ok(()),
    }
}

/// The extents of a tile or buffer.
pub fn extents(shape: &[u32]) -> Rule {
    require(shape.iter().all(|extent| extent.is_power_of_two()), || "every extent must be a power of two".into())?;
    let count = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(u64::from(*extent)));
    require(count.is_some_and(|count| count <= MAX_ELEMENTS), || format!("a tile has at most {MAX_ELEMENTS} elements"))
}

fn memref(memref: &MemRef) -> Rule {
    require(memref.sizes.len() == memref.strides.len(), || "sizes and strides differ in number".into())
}

fn view(view: &View) -> Rule {
    memref(&view.memref)?;
    extents(&view.tile)?;
    let rank = view.tile.len();
    require(rank > 0 && view.memref.sizes.len() == rank, || "tile and memref differ in rank".into())?;
    require(is_permutation(&view.dim_map, rank), || "dim_map does not name every dimension once".into())?;
    let kind_fits = match &view.kind {
        ViewKind::Partition => true,
        ViewKind::Strided { steps } => steps.len() == rank && steps.iter().all(|step| *step > 0),
        ViewKind::Gather { sparse_dim } => (*sparse_dim as usize) < rank,
    };
    require(kind_fits, || "the kind of view does not fit the tile's rank".into())?;
    let padding_fits = matches!(view.padding, None | Some(Padding::Zero)) || view.memref.elem.is_float();
    require(padding_fits, || "this padding needs float elements".into())
}

pub fn is_permutation(order: &[u32], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    order.len() == rank && order.iter().all(|dim| seen.get_mut(*dim as usize).is_some_and(|seen| !std::mem::replace(seen, true)))
}
