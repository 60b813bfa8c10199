//! Rules for well-formed types.

use super::{CoreType, RuleResult, require};
use crate::memory::Padding;
use crate::tile::{MemRef, View, ViewKind};

/// Maximum elements of a tile or buffer, as in NVIDIA's Tile IR compiler `tileiras`.
const MAX_ELEMENTS: u64 = 1 << 24;

/// Checks that a type is well formed.
pub fn check_type(ty: CoreType<'_>) -> RuleResult {
    match ty {
        CoreType::Tile { shape, .. } => check_extents(shape),
        CoreType::MemRef(memref) => check_memref(memref),
        CoreType::View(view) => check_view(view),
        CoreType::Token => Ok(()),
    }
}

/// Checks the extents of a tile or buffer.
pub fn check_extents(shape: &[u32]) -> RuleResult {
    require(shape.iter().all(|extent| extent.is_power_of_two()), || "every extent must be a power of two".into())?;
    let count = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(u64::from(*extent)));
    require(count.is_some_and(|count| count <= MAX_ELEMENTS), || format!("a tile has at most {MAX_ELEMENTS} elements"))
}

/// Checks that a memref has a stride for each extent.
fn check_memref(memref: &MemRef) -> RuleResult {
    require(memref.sizes.len() == memref.strides.len(), || "sizes and strides differ in number".into())
}

/// Checks that the parts of a view's type fit each other.
fn check_view(view: &View) -> RuleResult {
    check_memref(&view.memref)?;
    check_extents(&view.tile)?;
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

/// Returns whether `order` has each number below `rank` once.
pub fn is_permutation(order: &[u32], rank: usize) -> bool {
    let mut occurs = vec![false; rank];
    let is_new = |dim: &u32| occurs.get_mut(*dim as usize).is_some_and(|occurs| !std::mem::replace(occurs, true));
    order.len() == rank && order.iter().all(is_new)
}
