//! Computes register layouts from other register layouts, and the dimension along which a layout is contiguous.

use core_dialect::tile::element_count;
use tileas::Layout;
use tileas::layout::Strides;

/// The layout with its registers reordered: elements that are adjacent along `dim` are in consecutive registers, so that vectors
/// can access them.
pub(crate) fn neighbours_first(layout: &Layout, shape: &[u32], dim: usize) -> Layout {
    let contiguous: Vec<u32> =
        Strides::for_shape(shape).dim_bits(dim).map(|bit| 1 << bit).take_while(|basis| layout.register.contains(basis)).collect();
    let others = layout.register.iter().filter(|basis| !contiguous.contains(basis));
    Layout { register: contiguous.iter().chain(others).copied().collect(), ..layout.clone() }
}

/// The dimension along which consecutive registers, or without register bits consecutive lanes, of a layout have adjacent elements.
pub(crate) fn innermost_dim(layout: &Layout, shape: &[u32]) -> usize {
    let strides = Strides::for_shape(shape);
    let basis = layout.register.first().or(layout.lane.first()).copied().unwrap_or(1);
    (0..shape.len()).find(|dim| strides.mask(*dim) & basis != 0).unwrap_or(shape.len() - 1)
}

/// The layout of one replica of the scales of a `tcgen05` MMA. `layout` is the layout of all replicas, and `shape` the shape of
/// one.
pub(crate) fn one_replica_layout(layout: &Layout, shape: &[u32]) -> Layout {
    let elements = element_count(shape) as u32;
    layout.map(|basis| basis & (elements - 1))
}
