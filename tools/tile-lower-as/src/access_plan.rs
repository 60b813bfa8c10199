//! The plan of a memory access: the vector width, the layout, and the pieces of a possible `cp.async` copy.

use tileas::Layout;
use tileas::layout::LANE_BITS;

/// The planned vector width and layout of a memory access.
#[derive(Clone)]
pub(crate) struct AccessPlan {
    /// Log2 of the elements of a vector.
    pub(crate) vector_bits: u32,
    /// The layout of the accessed tile in registers.
    pub(crate) layout: Layout,
    /// The bits of the tile's linear element index, in the order in which they vary in memory, the fastest first.
    pub(crate) order: Vec<u32>,
    /// The pieces of a `cp.async` copy. `None` if the access is no load through a view with a contiguous dimension.
    pub(crate) copy: Option<Pieces>,
}

/// The pieces in which `cp.async` can copy a view's tile: `1 << bits` elements along `dim`. Unlike a vector of a load, a piece may
/// cross a bound of the array.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    /// The dimension along which a piece is contiguous in memory.
    pub(crate) dim: usize,
    /// Log2 of the elements of a piece.
    pub(crate) bits: u32,
    /// Whether no bound of the array is inside a piece.
    pub(crate) whole: bool,
}

/// The plan of an access with a blocked layout whose bits have the order `order`. Vectors have up to `1 << max_vector_bits`
/// elements, but fewer if some threads would otherwise have no elements.
pub(crate) fn blocked_access(order: &[u32], max_vector_bits: u32, warp_bits: usize) -> AccessPlan {
    let thread_bits = (LANE_BITS + warp_bits) as u32;
    let vector_bits = max_vector_bits.min((order.len() as u32).saturating_sub(thread_bits));
    let layout = Layout::blocked(order, vector_bits as usize, warp_bits);
    AccessPlan { vector_bits, layout, order: order.to_vec(), copy: None }
}
