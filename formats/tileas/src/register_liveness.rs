//! Register liveness: the live ranges of tiles in the registers of a thread, in program order.
//!
//! `ptxas` allocates the registers, so this module only estimates the live ranges. Kernels compute addresses and masks directly
//! before each access, so addresses and masks have no live range here. The cost model and `tile-sched` both estimate registers from
//! these ranges.

use crate::Type;
use crate::ops::Op;
use crate::verify::TileAsOp;
use base::ir::Op as OpId;
use base::{Body, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use std::collections::BTreeMap;

/// Estimated registers of a thread for addresses and temporaries, in addition to tiles.
pub const OTHER_REGISTERS: u32 = 24;

/// The assumption about the order in which a thread computes the elements of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// Each op is computed for all elements before the next op.
    FullTiles,
    /// A value with a single use is computed element by element at its use, and occupies no registers of its own.
    ElementByElement,
}

/// The live range of each value, as positions in program order.
pub struct RegisterLiveness {
    /// The ops in program order.
    pub order: Vec<OpId>,
    /// The live range of each value in registers.
    ranges: BTreeMap<Value, Range>,
    /// For each op whose elements are computed at their use: the position of that use.
    streamed_ops: BTreeMap<OpId, usize>,
}

/// A live range as positions in program order.
struct Range {
    /// The position of the definition.
    first: usize,
    /// The position of the last use. A value occupies no registers there, because the result may reuse them.
    last: usize,
}

impl RegisterLiveness {
    /// Computes the live ranges of all values in a region.
    pub fn analyse<O: TileAsOp>(body: &Body<O, Type>, region: Region, evaluation: Evaluation) -> RegisterLiveness {
        let order = body.walk(region);
        let streamed_ops = match evaluation {
            Evaluation::FullTiles => BTreeMap::new(),
            Evaluation::ElementByElement => streamed_ops(body, region, &order),
        };
        let nested_ops = nested_op_counts(body, &order);
        let mut ranges: BTreeMap<Value, Range> = BTreeMap::new();
        // Begin and end of each loop that encloses the current op.
        let mut enclosing_loops: Vec<(usize, usize)> = Vec::new();
        for (at, op) in order.iter().enumerate() {
            enclosing_loops.retain(|(_, end)| at <= *end);
            let node = &body.ops[*op];
            for value in node.kind.operands() {
                let use_position = streamed_ops.get(op).copied().unwrap_or(at);
                let Some(range) = ranges.get_mut(&value) else { continue };
                // A value defined before a loop is live in every iteration of the loop that reads it.
                let all_iterations = enclosing_loops.iter().find(|(begin, _)| range.first <= *begin).map(|(_, end)| *end);
                range.last = range.last.max(all_iterations.unwrap_or(use_position));
            }
            let end = at + nested_ops[op.0 as usize];
            node.results.iter().for_each(|value| _ = ranges.insert(*value, Range { first: end, last: end }));
            if let Some(loop_op) = node.kind.core().and_then(Core::as_loop) {
                enclosing_loops.push((at, end));
                let args = &body.blocks[body.block_of(loop_op.body)].args;
                args.iter().for_each(|value| _ = ranges.insert(*value, Range { first: at + 1, last: at + 1 }));
            }
        }
        RegisterLiveness { order, ranges, streamed_ops }
    }

    /// The number of registers that are live at each position. `registers_of` returns how many registers a value occupies.
    pub fn live_registers<O: TileAsOp>(&self, body: &Body<O, Type>, registers_of: impl Fn(Value) -> u32) -> Vec<u32> {
        let mut change = vec![0i64; self.order.len() + 1];
        for (value, range) in &self.ranges {
            let is_streamed = body.defining_op(*value).is_some_and(|op| self.streamed_ops.contains_key(&op));
            if !is_streamed {
                let registers = i64::from(registers_of(*value));
                change[range.first] += registers;
                change[range.last] -= registers;
            }
        }
        let mut live = 0;
        let live_registers = change.into_iter().map(|change| {
            live += change;
            live as u32
        });
        live_registers.collect()
    }
}

/// The number of ops in the regions of each op, by op id.
fn nested_op_counts<O: TileAsOp>(body: &Body<O, Type>, order: &[OpId]) -> Vec<usize> {
    let mut counts = vec![0; body.ops.len()];
    // In reverse program order, the ops inside an op come before it.
    for op in order.iter().rev() {
        let blocks = body.ops[*op].kind.regions().into_iter().flat_map(|region| &body.regions[region].blocks);
        let inner_ops = blocks.flat_map(|block| &body.blocks[*block].ops);
        counts[op.0 as usize] = inner_ops.map(|inner| 1 + counts[inner.0 as usize]).sum();
    }
    counts
}

/// The ops whose elements can be computed one by one at their use, with the position of the use. Such an op is element-wise and has
/// one use, in the same block, by an op that also takes elements one by one.
fn streamed_ops<O: TileAsOp>(body: &Body<O, Type>, region: Region, order: &[OpId]) -> BTreeMap<OpId, usize> {
    let (blocks, uses) = (body.op_blocks(), body.use_counts(region));
    let mut users: BTreeMap<Value, usize> = BTreeMap::new();
    let mut streamed_ops = BTreeMap::new();
    for (at, op) in order.iter().enumerate().rev() {
        let node = &body.ops[*op];
        if let [result] = node.results[..]
            && node.kind.core().is_some_and(Core::is_elementwise)
            && uses[result.0 as usize] == 1
            && let Some(user) = users.get(&result).map(|at| order[*at])
            && blocks[user.0 as usize] == blocks[op.0 as usize]
            && takes_elements(&body.ops[user].kind)
        {
            streamed_ops.insert(*op, streamed_ops.get(&user).copied().unwrap_or(users[&result]));
        }
        node.kind.operands().iter().for_each(|value| _ = users.insert(*value, at));
    }
    streamed_ops
}

/// Returns whether an op can take the elements of its operands one by one.
fn takes_elements<O: TileAsOp>(op: &O) -> bool {
    op.core().is_some_and(Core::is_elementwise) || matches!(op.tileas_op(), Some(Op::ReduceRegisters { .. }))
}

/// The bits of a tile's element while the tile is live, or `None` if the tile occupies no registers of its own.
///
/// Tiles of integers are addresses and masks, unless they are loaded. A constant or broadcast repeats one value, or elements that
/// are already live. A conversion is executed where its result is used; until then an element keeps its source width.
pub fn live_element_bits<O: TileAsOp>(body: &Body<O, Type>, value: Value, is_loaded: bool) -> Option<u32> {
    let Type::Tile { elem, .. } = body.ty(value) else { return None };
    let producer = body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    if !is_loaded && !matches!(elem, Elem::Scalar(scalar) if scalar.is_float()) {
        return None;
    }
    match producer {
        Some(Core::Constant { .. } | Core::Broadcast { .. }) => None,
        Some(Core::Convert { x, .. }) => match body.ty(*x) {
            Type::Tile { elem: from, .. } => Some(elem.bits().min(from.bits())),
            Type::Scalar(_) | Type::MemRef(_) | Type::View(_) | Type::Token => Some(elem.bits()),
        },
        Some(_) | None => Some(elem.bits()),
    }
}
