//! The plan of a memory access: its vector width and its layout.

use tileas::Layout;
use tileas::layout::LANE_BITS;

/// The planned vector width and layout of a memory access.
#[derive(Clone)]
pub(crate) struct AccessPlan {
    /// Log2 of the elements of a vector.
    pub(crate) vector_bits: u32,
    /// The layout of the accessed tile in registers.
    pub(crate) layout: Layout,
    /// The bits of the linear element index, fastest-varying in memory first.
    pub(crate) order: Vec<u32>,
    /// The pieces of an asynchronous copy, if the access could become a `cp.async` copy.
    pub(crate) copy: Option<Pieces>,
}

/// The pieces in which `cp.async` can copy a view's tile: `1 << bits` elements along `dim`. Unlike a vector access, a
/// piece may cross a bound.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    /// The dimension along which a piece is contiguous in memory.
    pub(crate) dim: usize,
    /// Log2 of the elements of a piece.
    pub(crate) bits: u32,
    /// Whether no bound of the array is inside a piece.
    pub(crate) whole: bool,
}

/// A blocked layout with the bits in `order`. Its vectors have up to `1 << widest_bits` elements, but fewer if threads would
/// otherwise have no elements.
pub(crate) fn blocked_access(order: &[u32], widest_bits: u32, warp_bits: usize) -> AccessPlan {
    let thread_bits = (LANE_BITS + warp_bits) as u32;
    let vector_bits = widest_bits.min((order.len() as u32).saturating_sub(thread_bits));
    let layout = Layout::blocked(order, vector_bits as usize, warp_bits);
    AccessPlan { vector_bits, layout, order: order.to_vec(), copy: None }
}
