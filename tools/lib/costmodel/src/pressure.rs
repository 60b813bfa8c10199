//! Estimates the registers of a thread from liveness in program order.
//!
//! `ptxas` allocates the actual registers. The code computes addresses and masks directly before each access, so the estimate
//! ignores their live ranges. It computes an element-wise value with a single use element by element at that use, so the value
//! occupies no registers of its own.

use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::rules::MiddleOp;
use core_dialect::tile::Elem;
use std::collections::BTreeMap;
use tileas::{CopyAtom, Function, MmaAtom, MmaOperand, Module, Op, Type};

/// Assumed number of registers of a thread for addresses and temporaries, in addition to the registers of tiles.
const OTHER_REGISTERS: u32 = 24;
/// Bytes along K that one `mma.sync` instruction consumes of each row of its left operand.
const STEP_BYTES: u32 = 32;
/// Number of fragments of an operand that are live at the same time: a thread loads one while `mma.sync` uses the other one.
const LIVE_FRAGMENTS: u32 = 2;

/// The estimated registers of a thread while each op executes.
pub(crate) struct Pressure {
    by_op: BTreeMap<OpId, u32>,
    pub(crate) max_registers: u32,
}

impl Pressure {
    /// Computes the pressure from the live ranges of all values.
    pub(crate) fn of(module: &Module, function: &Function) -> Pressure {
        let (ranges, fragments) = (LiveRanges::new(function), mma_sync_operands(function));
        let mut change = vec![0i64; ranges.order.len() + 1];
        for (value, (from, to)) in &ranges.spans {
            let is_streamed = function.body.defining_op(*value).is_some_and(|op| ranges.streamed.contains_key(&op));
            if !is_streamed {
                let registers = i64::from(value_registers(module, function, &fragments, *value));
                change[*from] += registers;
                change[*to] -= registers;
            }
        }
        let mut live = 0;
        let by_op = ranges.order.iter().zip(change).map(|(op, change)| {
            live += change;
            (*op, live as u32 + OTHER_REGISTERS)
        });
        let by_op: BTreeMap<OpId, u32> = by_op.collect();
        let max_registers = by_op.values().copied().max().unwrap_or(OTHER_REGISTERS);
        Pressure { by_op, max_registers }
    }

    /// Returns the registers of a thread while an op executes.
    pub(crate) fn registers_at(&self, op: OpId) -> u32 {
        self.by_op.get(&op).copied().unwrap_or(OTHER_REGISTERS)
    }
}

/// The live range of each value, as the positions of its start and end in program order.
struct LiveRanges {
    order: Vec<OpId>,
    spans: BTreeMap<Value, (usize, usize)>,
    /// The ops whose elements are computed at their use, each with the position of the use.
    streamed: BTreeMap<OpId, usize>,
}

impl LiveRanges {
    /// Computes the live ranges of a function's values.
    fn new(function: &Function) -> LiveRanges {
        let body = &function.body;
        let order = body.walk(function.region);
        let streamed = streamed_ops(function, &order);
        let mut spans: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
        // The positions at which each loop around the current op begins and ends.
        let mut enclosing_loops: Vec<(usize, usize)> = Vec::new();
        for (at, op) in order.iter().enumerate() {
            enclosing_loops.retain(|(_, end)| at <= *end);
            let node = &body.ops[*op];
            for value in node.kind.operands() {
                let used = streamed.get(op).copied().unwrap_or(at);
                let Some(span) = spans.get_mut(&value) else { continue };
                // A value defined before a loop is live in every iteration of the loop that reads it.
                let all_iterations = enclosing_loops.iter().find(|(begin, _)| span.0 <= *begin).map(|(_, end)| *end);
                span.1 = span.1.max(all_iterations.unwrap_or(used));
            }
            let regions = node.kind.regions();
            let end = at + regions.iter().map(|region| body.walk(*region).len()).sum::<usize>();
            node.results.iter().for_each(|value| _ = spans.insert(*value, (end, end)));
            if matches!(node.kind.core(), Some(Core::For { .. } | Core::Loop { .. })) {
                enclosing_loops.push((at, end));
                let args = &body.blocks[body.block_of(regions[0])].args;
                args.iter().for_each(|value| _ = spans.insert(*value, (at + 1, at + 1)));
            }
        }
        LiveRanges { order, spans, streamed }
    }
}

/// Returns the ops whose elements can be computed one by one at their use, with the position of the use. The result must have a
/// single use in the same block, by an op that also takes elements one by one.
fn streamed_ops(function: &Function, order: &[OpId]) -> BTreeMap<OpId, usize> {
    let body = &function.body;
    let (blocks, uses) = (body.op_blocks(), body.use_counts(function.region));
    let mut users: BTreeMap<Value, usize> = BTreeMap::new();
    let mut streamed = BTreeMap::new();
    for (at, op) in order.iter().enumerate().rev() {
        let node = &body.ops[*op];
        if let [result] = node.results[..]
            && node.kind.core().is_some_and(Core::is_elementwise)
            && uses[result.0 as usize] == 1
            && let Some(user) = users.get(&result).map(|at| order[*at])
            && blocks[user.0 as usize] == blocks[op.0 as usize]
            && takes_elements(&body.ops[user].kind)
        {
            streamed.insert(*op, streamed.get(&user).copied().unwrap_or(users[&result]));
        }
        node.kind.operands().iter().for_each(|value| _ = users.insert(*value, at));
    }
    streamed
}

/// Returns whether an op can take the elements of its operands one by one.
fn takes_elements(op: &Op) -> bool {
    op.core().is_some_and(Core::is_elementwise) || matches!(op, Op::ReduceRegisters { .. })
}

/// Returns the number of registers of a thread that a value occupies.
fn value_registers(module: &Module, function: &Function, fragments: &BTreeMap<Value, usize>, value: Value) -> u32 {
    let body = &function.body;
    let defining_op = body.defining_op(value).map(|op| &body.ops[op].kind);
    let is_loaded = matches!(defining_op, Some(Op::LoadView { .. } | Op::Load { .. } | Op::SharedLoad { .. }));
    // All elements have one value, or repeat elements that occupy registers already.
    let repeats_elements = matches!(defining_op.and_then(Op::core), Some(Core::Constant { .. } | Core::Broadcast { .. }));
    match body.ty(value) {
        Type::Tile { elem, layout, shape } if !repeats_elements && (is_loaded || is_float(*elem)) => {
            // The code converts an element at its use, so until then the element has the narrower of the two widths.
            let bits = match defining_op.and_then(Op::core) {
                Some(Core::Convert { x, .. }) => match body.ty(*x) {
                    Type::Tile { elem: from, .. } => elem.bits().min(from.bits()),
                    _ => elem.bits(),
                },
                _ => elem.bits(),
            };
            let elements = module.layouts[*layout].registers() as u32;
            // Each loaded vector of fewer than 32 bits takes a register.
            let all_registers = match defining_op {
                Some(
                    Op::LoadView { atom: CopyAtom::Vector { vector_bits }, .. }
                    | Op::Load { atom: CopyAtom::Vector { vector_bits }, .. },
                ) if elem.bits() << (*vector_bits).min(5) < 32 => elements >> (*vector_bits).min(5),
                _ => (elements * bits).div_ceil(32),
            };
            let is_shared_load = matches!(defining_op, Some(Op::SharedLoad { .. }));
            match fragments.get(&value).filter(|_| is_shared_load) {
                Some(side) => {
                    let k = shape.get(shape.len() - 1 - side).copied().unwrap_or(1);
                    let steps = (k * elem.bits() / 8).div_ceil(STEP_BYTES).max(1);
                    (all_registers * LIVE_FRAGMENTS).div_ceil(steps).min(all_registers)
                }
                None => all_registers,
            }
        }
        _ => 0,
    }
}

/// Returns the values that only `mma.sync` reads, each with the number of the operand: 0 for the left operand, 1 for the right one.
/// `mma.sync` reads them step by step along K.
fn mma_sync_operands(function: &Function) -> BTreeMap<Value, usize> {
    let mut sides: BTreeMap<Value, Option<usize>> = BTreeMap::new();
    for node in function.body.ops.values() {
        for value in node.kind.operands() {
            let side = match &node.kind {
                Op::Mma { lhs, rhs, atom: MmaAtom::Sync(_), .. } => {
                    [lhs, rhs].into_iter().position(|side| matches!(side, MmaOperand::Registers(operand) if *operand == value))
                }
                _ => None,
            };
            let known = sides.entry(value).or_insert(side);
            *known = known.filter(|known| Some(*known) == side);
        }
    }
    sides.into_iter().filter_map(|(value, side)| Some((value, side?))).collect()
}

fn is_float(elem: Elem) -> bool {
    matches!(elem, Elem::Scalar(scalar) if scalar.is_float())
}
