//! Ops that move elements between slots: where each slot of the result takes its element from.
//!
//! Within a thread this is free and needs no instruction; within a warp lanes can exchange registers; nothing else can be done
//! without memory, and a layout that asks for more is refused.

use super::distribution::Distribution;
use core_dialect::core_ops::Core;
use tileas::Route;
use tileas::layout::{LANE_BITS, Strides};

/// For each slot of the result the slot of the operand.
pub(crate) fn plan(from: &Distribution, to: &Distribution, route: Route, source: impl Fn(u32) -> u32) -> Result<Vec<u32>, String> {
    (0..to.slots()).map(|slot| find(from, to.thread(slot), route, source(to.elements[slot])).map(|slot| slot as u32)).collect()
}

fn find(from: &Distribution, thread: usize, route: Route, element: u32) -> Result<usize, String> {
    let other = || {
        // Of the lanes that hold the element any will do: they agree.
        let first = thread >> LANE_BITS << LANE_BITS;
        (first..first + (1 << LANE_BITS)).find_map(|thread| from.slot(thread, element))
    };
    match (from.slot(thread, element), route) {
        (Some(slot), _) => Ok(slot),
        (None, Route::Registers) => Err(format!("would move element {element} between threads, to thread {thread}")),
        (None, Route::Shuffle) => other().ok_or_else(|| format!("would move element {element} between warps, to thread {thread}")),
    }
}

/// The operand's element that each element of the result is.
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

/// The first element of the slice of extents `slice` whose number along each dimension is `numbers`; none when it is outside.
pub(crate) fn slice_start(gathered: &[u32], slice: &[u32], numbers: &[u64]) -> Option<u32> {
    let strides = Strides::of(gathered);
    let start = |dim: usize| {
        let inside = numbers[dim] < u64::from(gathered[dim] / slice[dim]);
        inside.then(|| (numbers[dim] as u32 * slice[dim]) << strides.shift[dim])
    };
    (0..gathered.len()).map(start).sum()
}

/// The element of the gathered that an element of a slice is, without where the slice starts.
pub(crate) fn in_whole(gathered: &[u32], slice: &[u32], element: u32) -> u32 {
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
        assert!(plan(&from, &to, Route::Shuffle, |element| element).unwrap_err().contains("between warps"));
    }

    #[test]
    fn slices_lie_inside() {
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[3, 2]), Some(6 * 16 + 8));
        assert_eq!(slice_start(&[8, 16], &[2, 4], &[4, 0]), None);
        assert_eq!(in_whole(&[8, 16], &[2, 4], 5), 17);
    }
}
