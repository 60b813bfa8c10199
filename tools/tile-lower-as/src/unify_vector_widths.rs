//! Purpose: choose one vector width for a group of accesses whose tiles elementwise ops or control flow connect.
//! Requires: the widest legal width of each access.
//! Establishes: accesses of a group are narrowed to one width if that costs less than a layout conversion through shared memory.
//! Lanes of a narrowed access still cover full sectors.
//! Preserves: legality: no access becomes wider.
//! See also: Triton's `Coalesce`, which also picks the largest `perThread` among related accesses.

use crate::access_plan::{AccessPlan, blocked_access};
use base::ir::{Op as OpId, Operation};
use base::{UnionFind, Value};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::{RegionEdge, region_edges};
use core_dialect::rules::CoreDialectOp;
use std::collections::BTreeMap;
use tileaa::{Function, Op};

/// A memory access of a group, with the terms of its estimated cost.
struct GroupedAccess {
    /// The load or store.
    op: OpId,
    /// Log2 of the widest vector in elements.
    widest: u32,
    /// Registers of a thread for the tile.
    registers: u32,
    /// Estimated instructions for each vector: 1, or 4 if bounds or a mask guard the access.
    instructions: u32,
    /// The estimated number of executions: a factor of 4 for each enclosing loop.
    executions: u32,
}

/// Estimated instructions of a layout conversion besides its shared-memory accesses, for addresses and barriers.
const CONVERSION_OVERHEAD: u32 = 16;

impl GroupedAccess {
    /// The estimated instructions of the access if the group has vectors of `1 << width` elements. If the access is narrower, the
    /// cost includes a layout conversion.
    fn cost(&self, width: u32) -> u32 {
        let accesses = (self.registers >> width.min(self.widest)).max(1) * self.instructions;
        let conversion = if width > self.widest { CONVERSION_OVERHEAD + self.registers + (self.registers >> width) } else { 0 };
        (accesses + conversion) * self.executions
    }
}

/// Narrows the accesses of each group to the common vector width with the fewest estimated instructions.
pub(crate) fn unify_widths(function: &Function, accesses: &mut BTreeMap<OpId, AccessPlan>, warp_bits: usize) {
    let groups = width_groups(function);
    let depths = loop_depths(function);
    // Only accesses with the same element order can have the same layout.
    let mut members: BTreeMap<(usize, Vec<u32>), Vec<GroupedAccess>> = BTreeMap::new();
    let has_free_width = |op: &OpId| {
        // The width of multimem accesses is fixed.
        !matches!(function.body.ops[*op].kind, Op::MulticastLoad { .. } | Op::MulticastStore { .. })
    };
    for (&op, access) in accesses.iter().filter(|(op, _)| has_free_width(op)) {
        let (tile, guarded) = accessed_tile(function, op);
        let (registers, instructions) = (access.layout.registers() as u32, if guarded { 4 } else { 1 });
        let member = GroupedAccess {
            op,
            widest: access.vector_bits,
            registers,
            instructions,
            executions: 1 << (2 * depths[op.0 as usize].min(4)),
        };
        members.entry((groups.find(tile.0 as usize), access.order.clone())).or_default().push(member);
    }
    for ((_, order), members) in members {
        let cost = |width: &u32| members.iter().map(|member| member.cost(*width)).fold(0u32, u32::saturating_add);
        let widest = members.iter().map(|member| member.widest).max().unwrap_or(0);
        let width = (0..=widest).rev().min_by_key(cost).unwrap_or(0);
        for member in members.iter().filter(|member| member.widest > width) {
            let access = accesses.get_mut(&member.op).expect("the access is planned");
            *access = AccessPlan { copy: access.copy, ..blocked_access(&order, width, warp_bits) };
        }
    }
}

/// The tile that an access loads or stores, and whether bounds or a mask guard the access.
fn accessed_tile(function: &Function, op: OpId) -> (Value, bool) {
    let node = &function.body.ops[op];
    match &node.kind {
        Op::StoreView { tile, in_bounds, .. } => (*tile, in_bounds.contains(&false) || in_bounds.is_empty()),
        Op::LoadView { in_bounds, .. } => (node.results[0], in_bounds.contains(&false) || in_bounds.is_empty()),
        Op::ReduceView { tile, .. } => (*tile, true),
        Op::Store { value, mask, .. } => (*value, mask.is_some()),
        Op::Load { mask, .. } | Op::AtomicRmw { mask, .. } | Op::AtomicCas { mask, .. } => (node.results[0], mask.is_some()),
        _ => unreachable!("only accesses are planned"),
    }
}

/// The number of loops around each op.
fn loop_depths(function: &Function) -> Vec<u32> {
    let body = &function.body;
    let mut depths = vec![0; body.ops.len()];
    // Outer ops come before the ops inside them.
    for op in body.walk(function.region) {
        let inner_depth = depths[op.0 as usize] + u32::from(body.ops[op].kind.core().is_some_and(Core::is_loop));
        for region in body.ops[op].kind.regions() {
            body.blocks[body.block_of(region)].ops.iter().for_each(|inner| depths[inner.0 as usize] = inner_depth);
        }
    }
    depths
}

/// The groups of values that share a layout, unless a layout conversion is inserted between two values of a group.
fn width_groups(function: &Function) -> UnionFind {
    let body = &function.body;
    let mut groups = UnionFind::new(body.values.len());
    let is_tile = |value: &Value| body.ty(*value).tile().is_some_and(|(_, shape)| !shape.is_empty());
    for RegionEdge { from, to } in region_edges(body, function.region) {
        groups.join(from.0 as usize, to.0 as usize);
    }
    for op in body.walk(function.region) {
        let node = &body.ops[op];
        let mut same_width = match &node.kind {
            Op::Core(core) if core.is_elementwise() => core.operands().to_vec(),
            Op::AtomicRmw { value, .. } => vec![*value],
            Op::AtomicCas { compare, value, .. } => vec![*compare, *value],
            _ => continue,
        };
        same_width.extend(node.results.first());
        same_width.retain(is_tile);
        same_width.windows(2).for_each(|pair| groups.join(pair[0].0 as usize, pair[1].0 as usize));
    }
    groups
}
