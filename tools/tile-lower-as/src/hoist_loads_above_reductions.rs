//! Purpose: hoist loads above preceding reductions, to the first use of an earlier loaded tile. Reason: a reduction has a CTA
//! barrier, so a load that is issued after the reduction exposes its full latency again.
//! Requires: `.aa`. The pass changes only the entry block of functions without MMAs: loops have other prefetching, and MMAs need
//! the registers.
//! Establishes: a load and its address computation precede the reductions on which they do not depend.
//! Preserves: token order. Loads move only across loads, reductions, pure ops, and stores that no token orders before the load.
//! See also: LLVM's machine scheduler, which hoists loads in the same way within a block.

use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::memory::MemoryOrdering;
use core_dialect::tile::element_count;
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};

/// Maximum bytes of hoisted loads that a CTA holds in registers: 32 registers of 4 bytes in each of 128 threads.
const MAX_HOISTED_BYTES: usize = 16 << 10;
/// Minimum bytes that a hoisted load counts for: one register of 4 bytes in each of 128 threads.
const MIN_COUNTED_BYTES: usize = 4 * 128;

/// Returns the function with loads of the entry block hoisted above reductions.
pub(crate) fn run(function: &Function) -> Function {
    let body = &function.body;
    let has_mmas = body.walk(function.region).iter().any(|op| matches!(body.ops[*op].kind, Op::Mma { .. } | Op::MmaScaled { .. }));
    if has_mmas {
        return function.clone();
    }
    let mut order = HoistedOrder::default();
    for &op in &body.blocks[function.entry()].ops {
        order.append_or_hoist(function, op);
    }
    let mut function = function.clone();
    let entry = function.entry();
    function.body.blocks[entry].ops = order.ops;
    base::text::compact(&function)
}

/// The new order of the entry block's ops. The other fields describe the segment since the last op across which no load may move.
#[derive(Default)]
struct HoistedOrder {
    /// The ops in their new order.
    ops: Vec<OpId>,
    /// Loaded tiles, and values that depend on them.
    loaded: BTreeSet<Value>,
    /// Results of ops that follow `used_at` and have effects or depend on loaded tiles, and values that depend on these results. A
    /// load that depends on a value in `fixed` is not hoisted.
    fixed: BTreeSet<Value>,
    /// The position in `ops` of the first op that uses a loaded tile, to which loads are hoisted. `None` before such an op.
    used_at: Option<usize>,
    /// Whether a reduction is at or after the position `used_at`.
    has_reduction: bool,
    /// Bytes of the loads hoisted in this segment.
    hoisted_bytes: usize,
}

impl HoistedOrder {
    /// Appends an op to the new order, or hoists it if it is a load that may move.
    fn append_or_hoist(&mut self, function: &Function, op: OpId) {
        let body = &function.body;
        let node = &body.ops[op];
        let (is_load, is_pure) = (is_weak_load(&node.kind), is_pure(&node.kind));
        let is_reduction = matches!(node.kind, Op::Reduce { .. } | Op::Scan { .. });
        if !is_load && !is_reduction && !is_weak_store(&node.kind) && !is_pure {
            // No load moves across this op.
            let ops = std::mem::take(&mut self.ops);
            *self = HoistedOrder { ops, ..HoistedOrder::default() };
            self.ops.push(op);
            return;
        }
        if is_load && self.try_hoist(function, op) {
            return;
        }
        let operands = node.kind.operands();
        let uses_loaded = operands.iter().any(|operand| self.loaded.contains(operand));
        if uses_loaded && !is_load {
            self.used_at.get_or_insert(self.ops.len());
        }
        if uses_loaded || is_load {
            self.loaded.extend(&node.results);
        }
        if self.used_at.is_some() && (!is_pure || uses_loaded || operands.iter().any(|operand| self.fixed.contains(operand))) {
            self.fixed.extend(&node.results);
        }
        self.has_reduction |= is_reduction && self.used_at.is_some();
        self.ops.push(op);
    }

    /// Hoists a load that follows a reduction, with the ops that compute its operands, to the position `used_at`. Does nothing if
    /// the load depends on loaded or fixed values, or exceeds [`MAX_HOISTED_BYTES`]. Returns whether the load was hoisted.
    fn try_hoist(&mut self, function: &Function, load: OpId) -> bool {
        let body = &function.body;
        let Some(first_use) = self.used_at.filter(|_| self.has_reduction) else { return false };
        let tile = body.ty(body.ops[load].results[0]).tile();
        let bytes =
            tile.map_or(0, |(elem, shape)| element_count(shape).saturating_mul(elem.bytes() as usize)).max(MIN_COUNTED_BYTES);
        let operands = body.ops[load].kind.operands();
        // The token of an earlier load does not block the hoist, because two loads may execute in any order.
        let is_blocked =
            |value: &Value| self.fixed.contains(value) || self.loaded.contains(value) && *body.ty(*value) != Type::Token;
        if self.hoisted_bytes.saturating_add(bytes) > MAX_HOISTED_BYTES || operands.iter().any(is_blocked) {
            return false;
        }
        // Values after the first use that are not fixed come from pure ops only.
        let mut needed_values: BTreeSet<Value> = operands.into_iter().collect();
        let mut ops_to_hoist = BTreeSet::from([load]);
        for &op in self.ops[first_use..].iter().rev() {
            let node = &body.ops[op];
            if node.results.iter().any(|result| needed_values.contains(result)) {
                needed_values.extend(node.kind.operands());
                ops_to_hoist.insert(op);
            }
        }
        let following = self.ops.split_off(first_use).into_iter().chain([load]);
        let (early, others): (Vec<OpId>, Vec<OpId>) = following.partition(|op| ops_to_hoist.contains(op));
        self.used_at = Some(first_use + early.len());
        self.ops.extend(early.into_iter().chain(others));
        self.loaded.extend(&body.ops[load].results);
        self.hoisted_bytes += bytes;
        true
    }
}

/// Whether an op is a load with weak memory ordering.
fn is_weak_load(op: &Op) -> bool {
    matches!(op, Op::LoadView { order, .. } | Op::Load { order, .. } if order.semantics == MemoryOrdering::Weak)
}

/// Whether an op is a store with weak memory ordering. If no token orders such a store before a load, the load may move above the
/// store.
fn is_weak_store(op: &Op) -> bool {
    matches!(op, Op::StoreView { order, .. } | Op::Store { order, .. } if order.semantics == MemoryOrdering::Weak)
}

/// Whether an op has no effect and no regions, so that it may move.
fn is_pure(op: &Op) -> bool {
    op.regions().is_empty() && matches!(op, Op::Core(core) if core.is_pure())
}
