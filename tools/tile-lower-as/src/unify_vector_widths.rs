//! Chooses together how wide the accesses are that move tiles computed from each other.
//!
//! What is computed from a tile stays in its layout, so an access of another width than the rest would need its tile moved through
//! shared memory. A load that goes to an atomic operation, which takes one element at a time, or to a store of a wider type, is
//! better narrowed: its lanes still cover whole sectors.

use crate::access_layouts::{AccessPlan, blocked};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::BTreeMap;
use tileaa::{Function, Op};

/// An access and what it costs.
struct Member {
    op: OpId,
    /// Log2 of the elements that it may take at a time.
    widest: u32,
    /// Registers of the tile.
    registers: u32,
    /// Instructions of one access: more where it is guarded.
    each: u32,
    /// How often it is executed, as a guess.
    times: u32,
}

/// Instructions of a trip through shared memory beside the accesses: addresses and barriers.
const TRIP: u32 = 16;

impl Member {
    fn cost(&self, width: u32) -> u32 {
        let accesses = (self.registers >> width.min(self.widest)).max(1) * self.each;
        let trip = if width > self.widest { TRIP + self.registers + (self.registers >> width) } else { 0 };
        (accesses + trip) * self.times
    }
}

/// Narrows accesses so that those of one group agree where that costs less.
pub(crate) fn agree(function: &Function, accesses: &mut BTreeMap<OpId, AccessPlan>, warp_bits: usize) {
    let mut groups = WidthGroups::of(function);
    let depths = depths(function);
    // Only accesses that walk through the tile in the same order can have the same layout.
    let mut members: BTreeMap<(Value, Vec<u32>), Vec<Member>> = BTreeMap::new();
    let any_width = |op: &OpId| {
        // Words of multicast memory are as wide as they are.
        !matches!(function.body.ops[*op].kind, Op::MulticastLoad { .. } | Op::MulticastStore { .. })
    };
    for (&op, access) in accesses.iter().filter(|(op, _)| any_width(op)) {
        let (tile, guarded) = moved(function, op);
        let (registers, each) = (access.layout.registers() as u32, if guarded { 4 } else { 1 });
        let member = Member { op, widest: access.vector_bits, registers, each, times: 1 << (2 * depths[op.0 as usize].min(4)) };
        members.entry((groups.find(tile), access.order.clone())).or_default().push(member);
    }
    for ((_, order), members) in members {
        let cost = |width: &u32| members.iter().map(|member| member.cost(*width)).fold(0u32, u32::saturating_add);
        let widest = members.iter().map(|member| member.widest).max().unwrap_or(0);
        let width = (0..=widest).rev().min_by_key(cost).unwrap_or(0);
        for member in members.iter().filter(|member| member.widest > width) {
            let access = accesses.get_mut(&member.op).expect("it was among the accesses");
            *access = AccessPlan { copy: access.copy, ..blocked(&order, width, warp_bits) };
        }
    }
}

/// The tile that an access moves, and whether a condition guards it.
fn moved(function: &Function, op: OpId) -> (Value, bool) {
    let node = &function.body.ops[op];
    match &node.kind {
        Op::StoreView { tile, in_bounds, .. } => (*tile, in_bounds.contains(&false) || in_bounds.is_empty()),
        Op::LoadView { in_bounds, .. } => (node.results[0], in_bounds.contains(&false) || in_bounds.is_empty()),
        Op::ReduceView { tile, .. } => (*tile, true),
        Op::Store { value, mask, .. } => (*value, mask.is_some()),
        Op::Load { mask, .. } | Op::AtomicRmw { mask, .. } | Op::AtomicCas { mask, .. } => (node.results[0], mask.is_some()),
        _ => unreachable!("only accesses were planned"),
    }
}

/// The loops and branches around each op.
fn depths(function: &Function) -> Vec<u32> {
    let body = &function.body;
    let mut depths = vec![0; body.ops.len()];
    // Outer ops come before those in them.
    for op in body.walk(function.region) {
        let inside = depths[op.0 as usize] + u32::from(matches!(body.ops[op].kind, Op::Core(Core::For { .. } | Core::Loop { .. })));
        for region in body.ops[op].kind.regions() {
            body.blocks[body.block_of(region)].ops.iter().for_each(|inner| depths[inner.0 as usize] = inside);
        }
    }
    depths
}

/// Values that have the same layout when nothing is moved.
struct WidthGroups(Vec<Value>);

impl WidthGroups {
    fn of(function: &Function) -> WidthGroups {
        let body = &function.body;
        let mut groups = WidthGroups(body.values.ids().collect());
        let is_tile = |value: &Value| body.ty(*value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        for op in body.walk(function.region) {
            let node = &body.ops[op];
            let mut together = match &node.kind {
                Op::Core(core) if core.is_elementwise() => core.operands().to_vec(),
                Op::AtomicRmw { value, .. } => vec![*value],
                Op::AtomicCas { compare, value, .. } => vec![*compare, *value],
                Op::Core(Core::For { init, body: inner, .. }) => {
                    let block = body.block_of(*inner);
                    let next = body.terminator(block).map(|op| body.ops[op].kind.operands()).unwrap_or_default();
                    for (i, &arg) in body.blocks[block].args[1..].iter().enumerate() {
                        let same = [Some(&init[i]), next.get(i), node.results.get(i)];
                        same.into_iter().flatten().for_each(|value| groups.join(arg, *value));
                    }
                    continue;
                }
                _ => continue,
            };
            together.extend(node.results.first());
            together.retain(is_tile);
            together.windows(2).for_each(|pair| groups.join(pair[0], pair[1]));
        }
        groups
    }

    fn find(&mut self, mut value: Value) -> Value {
        while self.0[value.0 as usize] != value {
            let above = self.0[value.0 as usize];
            self.0[value.0 as usize] = self.0[above.0 as usize];
            value = above;
        }
        value
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b).0 as usize] = a.min(b);
    }
}
