//! The tables of a module and its functions: layouts, agents, buffers, descriptors.

use crate::layout::{LANE_BITS, Layout, LayoutId, rank};
use crate::{FunctionAttrs, Source};
use base::Arena;
use std::collections::BTreeSet;
use vocabulary::rules::{self, Rule, require};

/// Threads of a block, in warps.
const MOST_WARPS: u32 = 32;
/// Blocks of a cluster on the targets that have clusters.
const MOST_BLOCKS: u32 = 16;
const MOST_BITS: usize = 24;

pub(super) fn layouts(layouts: &Arena<LayoutId, Layout>) -> Rule {
    let mut seen = BTreeSet::new();
    for (id, layout) in layouts.iter() {
        require(layout.lane.len() == LANE_BITS, || format!("{id} has {} lane bits", layout.lane.len()))?;
        let bits = layout.register.len().max(layout.warp.len());
        require(bits <= MOST_BITS, || format!("{id} has more registers or warps than a tile can have elements"))?;
        // So that equal layouts have equal ids.
        require(seen.insert(layout), || format!("{id} is in the table twice"))?;
    }
    Ok(())
}

pub(super) fn agents(attrs: &FunctionAttrs) -> Rule {
    let mut taken = [false; MOST_WARPS as usize];
    for agent in &attrs.agents {
        let end = agent.first_warp.checked_add(agent.warps).filter(|end| *end <= MOST_WARPS && agent.warps > 0);
        let end = end.ok_or_else(|| format!("an agent has warps that a block of {MOST_WARPS} does not have"))?;
        let own = &mut taken[agent.first_warp as usize..end as usize];
        require(!own.contains(&true), || "two agents share a warp".into())?;
        own.fill(true);
        let registers = agent.registers.is_none_or(|count| (24..=256).contains(&count) && count.is_multiple_of(8));
        require(registers, || "an agent's registers are a multiple of 8 from 24 to 256".into())?;
    }
    let warps = attrs.warps();
    require(warps.is_power_of_two(), || format!("the agents have {warps} warps, which is not a power of two"))?;
    require(!taken[..warps as usize].contains(&false), || "a warp is no agent's".into())?;
    require((1..=MOST_BLOCKS).contains(&attrs.cluster), || format!("a cluster has 1 to {MOST_BLOCKS} blocks"))?;
    let occupancy = attrs.occupancy.is_none_or(|blocks| (1..=MOST_WARPS).contains(&blocks));
    require(occupancy, || "no multiprocessor runs so many blocks at once".into())
}

pub(super) fn buffers(attrs: &FunctionAttrs) -> Rule {
    for (buffer, info) in attrs.buffers.iter() {
        rules::extents(&info.shape).map_err(|message| format!("{buffer}: {message}"))?;
        let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
        let inside = info.offsets.iter().all(|element| u64::from(*element) >> bits == 0);
        let once = info.offsets.len() == bits as usize && rank(info.offsets.iter().copied()) == bits;
        require(inside && once, || format!("{buffer} does not give every element one offset"))?;
        let aligned = info.align.is_power_of_two() && info.align >= info.elem.bytes();
        require(aligned, || format!("{buffer}: the alignment is a power of two of at least the element's size"))?;
    }
    Ok(())
}

pub(super) fn descriptors(attrs: &FunctionAttrs, params: usize) -> Rule {
    let known = |source: &Source| match source {
        Source::Constant(_) => true,
        Source::Parameter(number) => (*number as usize) < params,
    };
    for (i, descriptor) in attrs.descriptors.iter().enumerate() {
        let rank = descriptor.tile_box.len();
        let counted = (1..=5).contains(&rank) && descriptor.extents.len() == rank && descriptor.strides.len() == rank;
        let boxed = descriptor.tile_box.iter().all(|extent| (1..=256).contains(extent));
        require(counted && boxed, || format!("descriptor {i} has 1 to 5 dimensions, of which a box has 1 to 256 elements each"))?;
        let sources = descriptor.extents.iter().chain(&descriptor.strides).all(known) && (descriptor.base as usize) < params;
        require(sources, || format!("descriptor {i} names a parameter that the function lacks"))?;
        require(matches!(descriptor.swizzle, 0 | 32 | 64 | 128), || format!("descriptor {i} has a swizzle that does not exist"))?;
    }
    Ok(())
}
