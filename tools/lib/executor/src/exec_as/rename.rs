//! Plans for ops that move elements between slots: for each result slot, the operand slot that it reads.
//!
//! Moving within a thread needs no instruction, and lanes of a warp can exchange registers by shuffles. Everything else needs
//! memory, so a layout that requires it is an error.

use super::distribution::Distribution;
use core_dialect::core_ops::Core;
use tileas::Route;
use tileas::layout::{LANE_BITS, Strides};

/// Returns the operand slot for each slot of the result.
pub(crate) fn plan(from: &Distribution, to: &Distribution, route: Route, source: impl Fn(u32) -> u32) -> Result<Vec<u32>, String> {
    (0..to.slots()).map(|slot| find(from, to.thread(slot), route, source(to.elements[slot])).map(|slot| slot as u32)).collect()
}

fn find(from: &Distribution, thread: usize, route: Route, element: u32) -> Result<usize, String> {
    let other = || {
        // All lanes that hold the element agree on its value, so the first one is used.
        let first = thread >> LANE_BITS << LANE_BITS;
        (first..first + (1 << LANE_BITS)).find_map(|thread| from.slot(thread, element))
    };
    match (from.slot(thread, element), route) {
        (Some(slot), _) => Ok(slot),
        (None, Route::Registers) => Err(format!("needs element {element}, which thread {thread} does not hold")),
        (None, Route::Shuffle) => other().ok_or_else(|| format!("needs element {element}, missing in the warp of thread {thread}")),
    }
}

/// Returns a function from result elements to operand elements.
pub(crate) fn source<'a>(core: &'a Core, from: &'a [u32], to: &'a [u32]) -> impl Fn(u32) -> u32 + 'a {
    let (source, target) = (Strides::of(from), Strides::of(to));
    move |element| match core {
        Core::Permute { order, .. } => {
            (0..to.len()).map(|k| target.coordinate(element, k) << source.shift[order[k] as usize]).sum()
        }
        Core::Broadcast { .. } => {
            (0..to.len()).filter(|d| from[*d] != 1).map(|d| target.coordinate(element, d) << source.shift[d]).sum()
        }
        _ => element,
    }
}

/// Returns the first element of a slice of the given extents at the given slice index; `None` outside the tile.
pub(crate) fn slice_start(gathered: &[u32], slice: &[u32], numbers: &[u64]) -> Option<u32> {
    let strides = Strides::of(gathered);
    let start = |dim: usize| {
        let inside = numbers[dim] < u64::from(gathered[dim] / slice[dim]);
        inside.then(|| (numbers[dim] as u32 * slice[dim]) << strides.shift[dim])
    };
    (0..gathered.len()).map(start).sum()
}

/// Maps an element of a slice to the complete tile, relative to the slice's start.
pub(crate) fn element_in_tile(gathered: &[u32], slice: &[u32], element: u32) -> u32 {
    let (outer, inner) = (Strides::of(gathered), Strides::of(slice));
    (0..slice.len()).map(|dim| inner.coordinate(element, dim) << outer.shift[dim]).sum()
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
    fn renaming_stays_in_the_thread() {
        let from = distribution(&[1, 2], [4, 8, 16, 32, 64], &[], 7);
        let to = distribution(&[2, 1], [4, 8, 16, 32, 64], &[], 7);
        let slots = plan(&from, &to, Route::Registers, |element| element).unwrap();
        assert_eq!(slots[..4], [0, 2, 1, 3]);
        let crossed = distribution(&[1, 2], [8, 4, 16, 32, 64], &[], 7);
        assert!(plan(&from, &crossed, Route::Registers, |element| element).is_err());
        assert!(plan(&from, &crossed, Route::Shuffle, |element| element).is_ok());
    }

    #[test]
    fn a_shuffle_stays_in_the_warp() {
        let from = distribution(&[1], [2, 4, 8, 16, 32], &[64], 7);
        let to = distribution(&[1], [2, 4, 8, 16, 64], &[32], 7);
        assert!(plan(&from, &to, Route::Shuffle, |element| element).unwrap_err().contains("missing in the warp"));
    }

    #[test]
    fn slices_are_in_bounds() {
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[3, 2]), Some(6 * 16 + 8));
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[4, 0]), None);
        assert_eq!(element_in_tile(&[8, 16], &[2, 4], 5), 17);
    }
}
