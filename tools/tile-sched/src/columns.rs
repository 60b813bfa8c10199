//! Gives each buffer in tensor memory columns of its own, and some sums two places in turn.
//!
//! Nothing shares columns: what products do there is ordered by the pipe of each buffer alone.

use sched::TensorMemory;
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};

/// Columns that can be taken at least.
const FEWEST: u32 = 32;

/// The first column of each buffer, and the end of the last; the largest come first, so that each begins at a multiple of its own.
/// Those that are `doubled` have two slots.
pub(crate) fn place(attrs: &tileas::FunctionAttrs, doubled: &BTreeSet<Buffer>) -> (BTreeMap<Buffer, u32>, u32) {
    let in_tensor_memory = attrs.buffers.iter().filter(|(_, info)| info.space == Space::Tensor);
    let mut wanted: Vec<(u32, Buffer)> = in_tensor_memory.map(|(buffer, info)| (info.columns(), buffer)).collect();
    wanted.sort_by_key(|(columns, buffer)| (std::cmp::Reverse(*columns), *buffer));
    let mut end = 0;
    let mut placed = BTreeMap::new();
    for (columns, buffer) in wanted {
        placed.insert(buffer, end);
        end += if doubled.contains(&buffer) { 2 * columns } else { columns };
    }
    (placed, end)
}

/// What a function takes of tensor memory, if anything; `address` is that of a word of shared memory.
pub(crate) fn taken(attrs: &tileas::FunctionAttrs, doubled: &BTreeSet<Buffer>, address: u32) -> Option<TensorMemory> {
    let (_, end) = place(attrs, doubled);
    (end > 0).then(|| TensorMemory { columns: end.next_power_of_two().max(FEWEST), address })
}

/// Of the sums that may have two slots as many as have room, those that take most first.
pub(crate) fn doubled(attrs: &tileas::FunctionAttrs, may: BTreeSet<Buffer>, columns: u32) -> BTreeSet<Buffer> {
    let mut may: Vec<Buffer> = may.into_iter().collect();
    may.sort_by_key(|buffer| (std::cmp::Reverse(attrs.buffers[*buffer].columns()), *buffer));
    let mut doubled = BTreeSet::new();
    for buffer in may {
        doubled.insert(buffer);
        if place(attrs, &doubled).1.next_power_of_two() > columns {
            doubled.remove(&buffer);
        }
    }
    doubled
}
