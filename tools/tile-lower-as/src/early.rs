//! Moves loads in front of the reductions that stand before them, to where the first loaded tile is used: warps meet at a reduction,
//! so that what is loaded behind one would be waited for once more.
//!
//! Only outside loops, which have other ways to load ahead, and in functions without products, which need the registers. A load is moved
//! with what its addresses are computed from, across nothing but other loads, reductions, ops without effects,
//! and stores that its token does not order it behind.

use base::Value;
use base::ir::{Op as OpId, Operation};
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};
use vocabulary::memory::MemoryOrdering;
use vocabulary::tile::element_count;

/// Bytes that a block holds so, at most: 32 registers of each of 128 threads.
const MOST_BYTES: usize = 16 << 10;

pub(crate) fn run(function: &Function) -> Function {
    let body = &function.body;
    let has_products =
        body.walk(function.region).iter().any(|op| matches!(body.ops[*op].kind, Op::Mma { .. } | Op::MmaScaled { .. }));
    if has_products {
        return function.clone();
    }
    let mut order = Order::default();
    for &op in &body.blocks[function.entry()].ops {
        order.add(function, op);
    }
    let mut function = function.clone();
    let entry = function.entry();
    function.body.blocks[entry].ops = order.ops;
    base::text::compact(&function)
}

/// The ops as they are to stand, and what the last of them are about: those that loads may be moved across.
#[derive(Default)]
struct Order {
    ops: Vec<OpId>,
    /// What is loaded, and computed from it.
    loaded: BTreeSet<Value>,
    /// Where the first op stands that uses such a tile.
    used_at: Option<usize>,
    has_reduction: bool,
    bytes: usize,
}

impl Order {
    fn add(&mut self, function: &Function, op: OpId) {
        let node = &function.body.ops[op];
        let is_load = is_weak_load(&node.kind);
        let is_reduction = matches!(node.kind, Op::Reduce { .. } | Op::Scan { .. });
        if !is_load && !is_reduction && !is_weak_store(&node.kind) && !is_pure(&node.kind) {
            // Nothing is moved across it.
            let ops = std::mem::take(&mut self.ops);
            *self = Order { ops, ..Order::default() };
            self.ops.push(op);
            return;
        }
        if is_load && self.is_moved(function, op) {
            return;
        }
        if !is_load && node.kind.operands().iter().any(|operand| self.loaded.contains(operand)) {
            self.used_at.get_or_insert(self.ops.len());
            self.loaded.extend(&node.results);
        }
        if is_load {
            self.loaded.extend(&node.results);
        }
        self.has_reduction |= is_reduction;
        self.ops.push(op);
    }

    /// Moves a load, if it is behind a reduction, and neither it nor its addresses need what was loaded.
    fn is_moved(&mut self, function: &Function, load: OpId) -> bool {
        let body = &function.body;
        let Some(at) = self.used_at.filter(|_| self.has_reduction) else { return false };
        let bytes = body
            .ty(body.ops[load].results[0])
            .tile()
            .map_or(0, |(elem, shape)| element_count(shape).saturating_mul(elem.bytes() as usize));
        if self.bytes.saturating_add(bytes) > MOST_BYTES {
            return false;
        }
        // Tokens of loads order nothing here, but they say that something is loaded before.
        let mut needed: BTreeSet<Value> = body.ops[load].kind.operands().into_iter().collect();
        let mut moved = vec![load];
        for &op in self.ops[at..].iter().rev() {
            let node = &body.ops[op];
            if node.results.iter().any(|result| needed.contains(result)) {
                if !is_pure(&node.kind) || node.kind.operands().iter().any(|operand| self.loaded.contains(operand)) {
                    return false;
                }
                needed.extend(node.kind.operands());
                moved.push(op);
            }
        }
        if needed.iter().any(|value| self.loaded.contains(value) && *body.ty(*value) != Type::Token) {
            return false;
        }
        let others: Vec<OpId> = self.ops.split_off(at).into_iter().filter(|op| !moved.contains(op)).collect();
        self.used_at = Some(at + moved.len());
        self.ops.extend(moved.into_iter().rev());
        self.ops.extend(others);
        self.loaded.extend(&body.ops[load].results);
        self.bytes += bytes;
        true
    }
}

fn is_weak_load(op: &Op) -> bool {
    matches!(op, Op::LoadView { order, .. } | Op::Load { order, .. } if order.semantics == MemoryOrdering::Weak)
}

/// What a load does not come after by its token may be written after it.
fn is_weak_store(op: &Op) -> bool {
    matches!(op, Op::StoreView { order, .. } | Op::Store { order, .. } if order.semantics == MemoryOrdering::Weak)
}

fn is_pure(op: &Op) -> bool {
    op.regions().is_empty() && matches!(op, Op::Core(core) if core.is_pure())
}
