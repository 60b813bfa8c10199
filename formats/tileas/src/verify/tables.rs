//! Rules for the tables of a module and its functions: layouts, CTA shape, buffers, tensor maps.

use crate::layout::{LANE_BITS, Layout, LayoutId, rank};
use crate::{BufferInfo, FunctionAttrs, Space};
use base::Arena;
use core_dialect::rules::{self, RuleResult, require};
use std::collections::{BTreeSet, HashSet};

/// Maximum warps of a CTA, which has at most 1024 threads (CUDA Programming Guide). Also the maximum occupancy, in CTAs per SM.
const MAX_WARPS: u32 = 32;
/// Maximum register or warp bits of a layout: log2 of the maximum elements of a tile.
const MAX_BITS: usize = 24;
/// Maximum alignment of a buffer in shared memory, in bytes: the widest swizzle pattern, eight rows of 128 bytes.
const MAX_BUFFER_ALIGNMENT: u32 = 1024;

/// Checks that each layout is well formed and in the table once.
pub(super) fn check_layouts(layouts: &Arena<LayoutId, Layout>) -> RuleResult {
    let mut seen = BTreeSet::new();
    for (id, layout) in layouts.iter() {
        require(layout.lane.len() == LANE_BITS, || format!("{id} has {} lane bits", layout.lane.len()))?;
        let bits = layout.register.len().max(layout.warp.len());
        require(bits <= MAX_BITS, || format!("{id} has more registers or warps than a tile can have elements"))?;
        // Each layout is in the table once, so types with equal layouts are equal.
        require(seen.insert(layout), || format!("{id} is in the table twice"))?;
    }
    Ok(())
}

/// Maximum TMEM columns of a buffer: the tensor memory of an SM has 512 columns.
const MAX_TMEM_COLUMNS: u32 = 512;

/// Returns whether the offsets of a tensor-memory buffer have enough bits for a position in a word and for a lane.
fn has_lanes(info: &BufferInfo) -> bool {
    let part_bits = (crate::tensor_memory::WORD_BYTES / info.elem.bytes()).ilog2();
    info.offset_bases.len() >= (part_bits + crate::tensor_memory::LANES.ilog2()) as usize
}

/// Checks the warps and the occupancy. A CTA with warp roles may have any number of warps up to the limit.
pub(super) fn check_cta(attrs: &FunctionAttrs, has_warp_roles: bool) -> RuleResult {
    let warps = attrs.warps;
    let is_valid = (1..=MAX_WARPS).contains(&warps) && (has_warp_roles || warps.is_power_of_two());
    require(is_valid, || format!("a CTA has a power of two of up to {MAX_WARPS} warps, not {warps}"))?;
    let is_valid_occupancy = attrs.occupancy.is_none_or(|ctas| (1..=MAX_WARPS).contains(&ctas));
    require(is_valid_occupancy, || format!("an SM has 1 to {MAX_WARPS} co-resident CTAs"))
}

/// Checks the extents, offsets and alignment of each buffer.
pub(super) fn check_buffers(attrs: &FunctionAttrs) -> RuleResult {
    for (buffer, info) in attrs.buffers.iter() {
        rules::check_extents(&info.shape).map_err(|message| format!("{buffer}: {message}"))?;
        let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
        let is_inside = info.offset_bases.iter().all(|element| u64::from(*element) >> bits == 0);
        let basis_count = match info.space {
            Space::Shared => info.offset_bases.len(),
            Space::Tensor => {
                let fits = matches!(info.elem.bytes(), 1 | 2 | 4) && info.columns() <= MAX_TMEM_COLUMNS && has_lanes(info);
                require(fits, || format!("{buffer} does not fit the lanes and columns of tensor memory"))?;
                info.offset_bases.iter().filter(|basis| **basis != 0).count()
            }
        };
        let has_each_once = basis_count == bits as usize && rank(info.offset_bases.iter().copied()) == bits;
        require(is_inside && has_each_once, || format!("{buffer} does not give every element one offset"))?;
        let min_alignment = if info.space == Space::Shared { info.elem.bytes() } else { 1 };
        let is_aligned = info.align.is_power_of_two() && (min_alignment..=MAX_BUFFER_ALIGNMENT).contains(&info.align);
        require(is_aligned, || {
            format!(
                "{buffer}: the alignment is a power of two from the element's size to {MAX_BUFFER_ALIGNMENT}, not {}",
                info.align
            )
        })?;
    }
    Ok(())
}

/// Checks that tensor maps refer to the function's parameters, and that equal maps share one entry.
pub(super) fn check_maps(attrs: &FunctionAttrs, params: usize) -> RuleResult {
    let mut seen = HashSet::new();
    for (id, map) in attrs.maps.iter() {
        map.check(params).map_err(|message| format!("{id}: {message}"))?;
        require(seen.insert(map), || format!("{id} is in the table twice"))?;
    }
    Ok(())
}
