//! Resolves the author's hints for the target: warps, occupancy.

use base::{Arena, Target};
use tileas::FunctionAttrs;

/// Warps of a kernel that its tiles keep busy.
const WARPS: u32 = 4;
/// Elements that a thread should have of the largest tile; with fewer, threads would only repeat scalar work.
const ELEMENTS: usize = 2;
/// Elements of one tile that a thread should have at most.
const MOST_ELEMENTS: usize = 64;

pub(crate) fn resolve(function: &tileaa::Function, target: Target) -> FunctionAttrs {
    let named = |name: &str| function.attrs.hints.iter().find(|hint| hint.target == name);
    let spec = named(target.name).or_else(|| named("default")).map(|hint| hint.spec).unwrap_or_default();
    // A hint that is out of range is ignored, as the reference does.
    let occupancy = spec.occupancy.filter(|occupancy| (1..=32).contains(occupancy));
    FunctionAttrs { private: function.attrs.private, warps: warps(function), occupancy, buffers: Arena::new() }
}

/// More warps where products or the largest tiles need their registers, fewer where no tile is large enough to share.
fn warps(function: &tileaa::Function) -> u32 {
    let tiles = function.body.values.values().filter_map(|node| node.ty.tile());
    let largest = tiles.map(|(_, shape)| vocabulary::tile::element_count(shape)).max().unwrap_or(1);
    let busy = (largest / (32 * ELEMENTS)).max(1).next_power_of_two() as u32;
    let multiplies =
        function.body.ops.values().any(|node| matches!(node.kind, tileaa::Op::Mma { .. } | tileaa::Op::MmaScaled { .. }));
    match multiplies {
        true => crate::products::warps(function, WARPS),
        // Of the largest tiles there are several at a time, and more threads have more registers.
        false if largest > MOST_ELEMENTS * 32 * WARPS as usize => 2 * WARPS,
        false => busy.min(WARPS),
    }
}
