//! Plans for ops that only move elements between slots (registers of threads). A plan has for each result slot the operand slot
//! whose value it gets.
//!
//! A move within a thread needs no instruction, and lanes of a warp can exchange registers by shuffles. A layout that requires any
//! other move is an error, because it needs memory.

use super::distribution::Distribution;
use core_dialect::core_ops::Core;
use tileas::Route;
use tileas::layout::{LANE_BITS, Strides};

/// Returns for each slot of the result the operand slot whose value it gets. `operand_element` maps an element of the result to an
/// element of the operand.
pub(crate) fn plan_slots(
    from: &Distribution,
    to: &Distribution,
    route: Route,
    operand_element: impl Fn(u32) -> u32,
) -> Result<Vec<u32>, String> {
    (0..to.slot_count())
        .map(|slot| operand_slot(from, to.thread_of(slot), route, operand_element(to.elements[slot])).map(|slot| slot as u32))
        .collect()
}

/// Returns the operand slot from which a thread gets an element: a slot of the thread itself or, with `Route::Shuffle`, a slot of
/// another lane of the warp.
fn operand_slot(from: &Distribution, thread: usize, route: Route, element: u32) -> Result<usize, String> {
    let slot_in_warp = || {
        // All lanes with the element have the same value, so the function takes the first lane.
        let first_thread = thread >> LANE_BITS << LANE_BITS;
        (first_thread..first_thread + (1 << LANE_BITS)).find_map(|thread| from.slot_of(thread, element))
    };
    match (from.slot_of(thread, element), route) {
        (Some(slot), _) => Ok(slot),
        (None, Route::Registers) => Err(format!("needs element {element}, which thread {thread} does not hold")),
        (None, Route::Shuffle) => {
            slot_in_warp().ok_or_else(|| format!("needs element {element}, missing in the warp of thread {thread}"))
        }
    }
}

/// Returns the function that maps an element of the result of `core` to the element of the operand from which it comes. `from` and
/// `to` are the shapes of the operand and of the result.
pub(crate) fn operand_element<'a>(core: &'a Core, from: &'a [u32], to: &'a [u32]) -> impl Fn(u32) -> u32 + 'a {
    let (operand_strides, result_strides) = (Strides::for_shape(from), Strides::for_shape(to));
    move |element| match core {
        Core::Permute { order, .. } => {
            (0..to.len()).map(|k| result_strides.coordinate(element, k) << operand_strides.shift[order[k] as usize]).sum()
        }
        Core::Broadcast { .. } => {
            (0..to.len()).filter(|d| from[*d] != 1).map(|d| result_strides.coordinate(element, d) << operand_strides.shift[d]).sum()
        }
        _ => element,
    }
}

/// Returns the index of the first element of a slice in a tile. `tile` and `slice` are the extents, `slice_index` counts slices
/// along each dimension. Returns `None` if the slice is outside the tile.
pub(crate) fn slice_start(tile: &[u32], slice: &[u32], slice_index: &[u64]) -> Option<u32> {
    let strides = Strides::for_shape(tile);
    let start = |dim: usize| {
        let in_tile = slice_index[dim] < u64::from(tile[dim] / slice[dim]);
        in_tile.then(|| (slice_index[dim] as u32 * slice[dim]) << strides.shift[dim])
    };
    (0..tile.len()).map(start).sum()
}

/// Returns the index in the tile of an element of a slice, relative to the first element of the slice. `tile` and `slice` are the
/// extents.
pub(crate) fn element_in_tile(tile: &[u32], slice: &[u32], element: u32) -> u32 {
    let (tile_strides, slice_strides) = (Strides::for_shape(tile), Strides::for_shape(slice));
    (0..slice.len()).map(|dim| slice_strides.coordinate(element, dim) << tile_strides.shift[dim]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::Layout;

    fn distribution(register: &[u32], lane: [u32; 5], warp: &[u32], bits: u32) -> Distribution {
        let layout = Layout { register: register.into(), lane: lane.into(), warp: warp.into() };
        layout.covers(bits).unwrap();
        Distribution::new(&layout, bits, 1 << warp.len()).unwrap()
    }

    #[test]
    fn only_a_shuffle_moves_elements_between_lanes() {
        let from = distribution(&[1, 2], [4, 8, 16, 32, 64], &[], 7);
        let to = distribution(&[2, 1], [4, 8, 16, 32, 64], &[], 7);
        let slots = plan_slots(&from, &to, Route::Registers, |element| element).unwrap();
        assert_eq!(slots[..4], [0, 2, 1, 3]);
        let swapped_lanes = distribution(&[1, 2], [8, 4, 16, 32, 64], &[], 7);
        assert!(plan_slots(&from, &swapped_lanes, Route::Registers, |element| element).is_err());
        assert!(plan_slots(&from, &swapped_lanes, Route::Shuffle, |element| element).is_ok());
    }

    #[test]
    fn a_shuffle_cannot_move_elements_between_warps() {
        let from = distribution(&[1], [2, 4, 8, 16, 32], &[64], 7);
        let to = distribution(&[1], [2, 4, 8, 16, 64], &[32], 7);
        assert!(plan_slots(&from, &to, Route::Shuffle, |element| element).unwrap_err().contains("missing in the warp"));
    }

    #[test]
    fn slices_start_at_their_index_or_are_rejected() {
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[3, 2]), Some(6 * 16 + 8));
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[4, 0]), None);
        assert_eq!(element_in_tile(&[8, 16], &[2, 4], 5), 17);
    }
}
