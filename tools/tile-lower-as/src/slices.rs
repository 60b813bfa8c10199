//! Computes the layouts of slices at constant indices. If register bits of the layout select the slice, the slice is a subset of
//! the tile's registers and needs no data movement.

use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use tileaa::{Function, Op};
use tileas::Layout;
use tileas::layout::Strides;

/// Whether the indices of a slice are constants within the tile. `whole` is the shape of the tile, and `slice` that of the slice.
pub(crate) fn has_constant_indices(function: &Function, indices: &[Value], whole: &[u32], slice: &[u32]) -> bool {
    let constant = |value: Value| match function.body.defining_op(value).map(|op| &function.body.ops[op].kind) {
        Some(Op::Core(Core::Constant { value: Dense::Splat(bits) })) => Some(*bits),
        _ => None,
    };
    let is_within_tile =
        |(dim, index): (usize, &Value)| constant(*index).is_some_and(|index| index < u64::from(whole[dim] / slice[dim]));
    indices.iter().enumerate().all(is_within_tile)
}

/// The layout of a slice of a tile that has `layout`. `None` unless register bits alone select the slice, so that each thread holds
/// elements of every slice.
pub(crate) fn layout_of_slice(layout: &Layout, whole: &[u32], slice: &[u32]) -> Option<Layout> {
    let (outer, inner) = (Strides::for_shape(whole), Strides::for_shape(slice));
    let selecting_bits = slice_selecting_bits(whole, slice);
    let threads_select = layout.lane.iter().chain(&layout.warp).any(|basis| basis & selecting_bits != 0);
    let has_mixed_basis = layout.register.iter().any(|basis| basis & selecting_bits != 0 && !basis.is_power_of_two());
    if threads_select || has_mixed_basis {
        return None;
    }
    Some(layout.map(|basis| {
        let basis = basis & !selecting_bits;
        (0..whole.len()).map(|dim| outer.coordinate(basis, dim) << inner.shift[dim]).sum()
    }))
}

/// The layout of a tile of shape `whole` whose slices of shape `slice` all have the layout `layout`.
pub(crate) fn layout_of_whole(layout: &Layout, whole: &[u32], slice: &[u32]) -> Layout {
    let (outer, inner) = (Strides::for_shape(whole), Strides::for_shape(slice));
    let mut whole_layout = layout.map(|basis| (0..whole.len()).map(|dim| inner.coordinate(basis, dim) << outer.shift[dim]).sum());
    let selecting_bits = slice_selecting_bits(whole, slice);
    whole_layout.register.extend((0..u32::BITS).map(|bit| 1 << bit).filter(|basis| basis & selecting_bits != 0));
    whole_layout
}

/// The mask of those bits of the tile's linear element index that select the slice.
fn slice_selecting_bits(whole: &[u32], slice: &[u32]) -> u32 {
    let (outer, inner) = (Strides::for_shape(whole), Strides::for_shape(slice));
    (0..whole.len()).map(|dim| outer.mask(dim) & !(((1 << inner.bits[dim]) - 1) << outer.shift[dim])).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_of_slice_inverts_layout_of_whole() {
        let slice = Layout::blocked(&[0, 1, 2, 3, 4, 5, 6, 7], 2, 2);
        let whole = layout_of_whole(&slice, &[32, 64], &[16, 16]);
        whole.covers(11).unwrap();
        assert_eq!(layout_of_slice(&whole, &[32, 64], &[16, 16]), Some(slice));
    }

    #[test]
    fn layout_of_slice_is_none_if_lanes_select_the_slice() {
        let whole = Layout::blocked(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 2, 2);
        assert_eq!(layout_of_slice(&whole, &[32, 32], &[32, 16]), None);
    }
}
