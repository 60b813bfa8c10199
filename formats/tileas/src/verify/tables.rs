//! Rules for the tables of a module and its functions: layouts, CTA shape, buffers, tensor maps.

use crate::layout::{LANE_BITS, Layout, LayoutId, rank};
use crate::{BufferInfo, FunctionAttrs, Space};
use base::Arena;
use core_dialect::rules::{self, Rule, require};
use std::collections::{BTreeSet, HashSet};

/// Maximum warps of a CTA.
const MAX_WARPS: u32 = 32;
const MAX_BITS: usize = 24;
/// Maximum alignment of shared memory: the widest swizzle pattern, eight rows of 128 bytes.
const MAX_ALIGNED: u32 = 1024;

pub(super) fn layouts(layouts: &Arena<LayoutId, Layout>) -> Rule {
    let mut seen = BTreeSet::new();
    for (id, layout) in layouts.iter() {
        require(layout.lane.len() == LANE_BITS, || format!("{id} has {} lane bits", layout.lane.len()))?;
        let bits = layout.register.len().max(layout.warp.len());
        require(bits <= MAX_BITS, || format!("{id} has more registers or warps than a tile can have elements"))?;
        // Equal layouts have equal ids.
        require(seen.insert(layout), || format!("{id} is in the table twice"))?;
    }
    Ok(())
}

/// Columns of tensor memory.
const MAX_COLUMNS: u32 = 512;

/// Returns whether the offsets of a tensor-memory buffer have at least the bits of a position in a word and of a lane.
fn has_lanes(info: &BufferInfo) -> bool {
    let parts = (crate::tensor_memory::WORD / info.elem.bytes()).ilog2();
    info.offsets.len() >= (parts + crate::tensor_memory::LANES.ilog2()) as usize
}

/// Checks the warps and the occupancy. A CTA with warp roles (`divided`) may have any number of warps.
pub(super) fn cta(attrs: &FunctionAttrs, divided: bool) -> Rule {
    let warps = attrs.warps;
    let known = (1..=MAX_WARPS).contains(&warps) && (divided || warps.is_power_of_two());
    require(known, || format!("a CTA has a power of two of up to {MAX_WARPS} warps, not {warps}"))?;
    let occupancy = attrs.occupancy.is_none_or(|blocks| (1..=MAX_WARPS).contains(&blocks));
    require(occupancy, || "no SM can hold so many resident CTAs".into())
}

pub(super) fn buffers(attrs: &FunctionAttrs) -> Rule {
    for (buffer, info) in attrs.buffers.iter() {
        rules::extents(&info.shape).map_err(|message| format!("{buffer}: {message}"))?;
        let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
        let inside = info.offsets.iter().all(|element| u64::from(*element) >> bits == 0);
        let given = match info.space {
            Space::Shared => info.offsets.len(),
            Space::Tensor => {
                let fits = matches!(info.elem.bytes(), 1 | 2 | 4) && info.columns() <= MAX_COLUMNS && has_lanes(info);
                require(fits, || format!("{buffer} does not fit the lanes and columns of tensor memory"))?;
                info.offsets.iter().filter(|basis| **basis != 0).count()
            }
        };
        let once = given == bits as usize && rank(info.offsets.iter().copied()) == bits;
        require(inside && once, || format!("{buffer} does not give every element one offset"))?;
        let least = if info.space == Space::Shared { info.elem.bytes() } else { 1 };
        let aligned = info.align.is_power_of_two() && (least..=MAX_ALIGNED).contains(&info.align);
        require(aligned, || {
            format!("{buffer}: the alignment is a power of two from the element's size to {MAX_ALIGNED}, not {}", info.align)
        })?;
    }
    Ok(())
}

/// Maps refer to the function's parameters; equal maps share one entry.
pub(super) fn maps(attrs: &FunctionAttrs, params: usize) -> Rule {
    let mut seen = HashSet::new();
    for (id, map) in attrs.maps.iter() {
        map.check(params).map_err(|message| format!("{id}: {message}"))?;
        require(seen.insert(map), || format!("{id} is in the table twice"))?;
    }
    Ok(())
}
