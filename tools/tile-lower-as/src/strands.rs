//! Finds functions whose chained products are in two strands that have no tile in common but what both load to multiply, as attention
//! of two halves of rows has: on targets with tensor memory two agents of four warps can execute them, and each computes while the
//! other one waits for its products.
//!
//! Only decides. `tile-sched` finds the strands again in what becomes of them, and divides them; what has no room for both agents there
//! is planned once more for one.

use crate::operands;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use hardware::Feature;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op};
use tileas::strands::STRANDS;
use tileas::tensor::LANES;
use tileas::{Buffer, budget, lives};
use vocabulary::core_ops::Core;
use vocabulary::strands::{Touched, strands};
use vocabulary::tile::element_count;

/// Slots that a ring has at least.
const SLOTS: u32 = 2;
/// Bytes for barriers.
const BARRIERS: u32 = 1024;

/// The ops of the second strand; none where there are not two.
pub(crate) fn second(function: &Function, target: Target) -> BTreeSet<OpId> {
    let chained = operands::chained(function);
    if !target.has(Feature::TensorMemory) || chained.is_empty() || !chained.iter().all(|op| has_all_lanes(function, *op)) {
        return BTreeSet::new();
    }
    let body = &function.body;
    let common = common(function);
    let found = strands(body, function.region, |op| Some(touched(function, &common, op)));
    let of_products: BTreeSet<Option<usize>> = chained.iter().map(|op| found.of(*op)).collect();
    if of_products.len() != STRANDS {
        return BTreeSet::new();
    }
    let second = of_products.last().copied().flatten();
    body.walk(function.region).into_iter().filter(|op| second.is_some() && found.of(*op) == second).collect()
}

/// Whether a product has a row for each lane of tensor memory, which four warps reach.
fn has_all_lanes(function: &Function, product: OpId) -> bool {
    let sums = function.body.ty(function.body.result(product)).tile();
    sums.is_some_and(|(_, shape)| shape.len() == 2 && shape[0] == LANES)
}

fn touched(function: &Function, common: &BTreeSet<Value>, op: OpId) -> Touched {
    let node = &function.body.ops[op];
    let is_common = |value: &Value| {
        common.contains(value) || function.body.ty(*value).tile().is_none_or(|(_, shape)| element_count(shape) == 1)
    };
    let gives = match &node.kind {
        Op::Mma { .. } | Op::MmaScaled { .. } => true,
        Op::LoadView { .. } | Op::Load { .. } => !is_common(&node.results[0]),
        kind => !kind.is_pure(),
    };
    Touched { places: Vec::new(), gives }
}

/// The tiles that nothing but products needs, as operands, perhaps rearranged.
fn common(function: &Function) -> BTreeSet<Value> {
    let body = &function.body;
    let all = body.walk(function.region);
    let mut users: BTreeMap<Value, Vec<(OpId, usize)>> = BTreeMap::new();
    for &op in &all {
        for (place, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            users.entry(value).or_default().push((op, place));
        }
    }
    let mut common = BTreeSet::new();
    for &op in all.iter().rev() {
        let serves = |(user, place): &(OpId, usize)| match &body.ops[*user].kind {
            Op::Core(Core::Permute { .. } | Core::Reshape { .. }) => common.contains(&body.result(*user)),
            _ => operands::is_product(function, *user) && *place < 2,
        };
        if let Some(value) = body.ops[op].results.first()
            && users.get(value).is_some_and(|users| users.iter().all(serves))
        {
            common.insert(*value);
        }
    }
    common
}

/// Whether a multiprocessor has shared memory for what each agent has for itself, and for two slots of what loops load for both.
pub(crate) fn have_room(function: &tileas::Function, target: Target) -> bool {
    let (body, buffers) = (&function.body, &function.attrs.buffers);
    let is_stored = |op: OpId| matches!(body.ops[op].kind, tileas::Op::StoreBoxes { .. });
    let Ok(pair) = tileas::strands::pair((body, function.region), buffers, is_stored, |_| false) else { return false };
    let rings = lives::least_rings((body, function.region), tileas::Op::effects);
    let lives = lives::lives((body, function.region), buffers, tileas::Op::effects, &rings);
    let bytes = |buffer: &Buffer| buffers[*buffer].bytes();
    let of_strand = |strand: usize| {
        let own = |buffer: &Buffer| pair.buffers.get(buffer) == Some(&Some(strand));
        let meets = |one: Buffer, other: Buffer| own(&one) && own(&other) && lives[one].meets(lives[other]);
        let places = lives::places(buffers, meets, |_| 1);
        places.iter().filter(|(buffer, _)| own(buffer)).map(|(buffer, at)| at.saturating_add(bytes(&buffer))).max().unwrap_or(0)
    };
    // Loops that follow each other fill the same rings.
    let mut loops: BTreeMap<Block, u32> = BTreeMap::new();
    for (buffer, ring) in &rings {
        *loops.entry(ring.block).or_default() += SLOTS * bytes(buffer);
    }
    let others =
        pair.buffers.iter().filter(|(buffer, of)| of.is_none() && !rings.contains_key(buffer)).map(|(buffer, _)| bytes(buffer));
    let own: u32 = (0..STRANDS).map(of_strand).sum();
    let all = own + loops.into_values().max().unwrap_or(0) + others.sum::<u32>();
    all + BARRIERS <= budget::shared_memory(target)
}
