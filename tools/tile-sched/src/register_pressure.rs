//! Estimates the register pressure of a thread from liveness in program order.
//!
//! `ptxas` allocates the registers. Addresses and masks are computed directly before each access, so the estimate ignores them.

use base::ir::{Op as OpId, Operation};
use base::{Arena, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use sched::{Function, Op};
use std::collections::BTreeMap;
use tileas::{Layout, LayoutId, Type};

/// Registers for addresses and temporaries, in addition to tiles.
const OTHER_REGISTERS: u32 = 24;

/// Estimates the registers of a thread if each op is computed for all elements before the next op.
pub(crate) fn estimated_registers(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    max_live_registers(function, layouts, false) + OTHER_REGISTERS
}

/// Estimates the registers of a thread if a value with a single use is computed element by element at its use.
pub(crate) fn estimated_min_registers(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    max_live_registers(function, layouts, true) + OTHER_REGISTERS
}

/// The maximum number of registers that live values occupy at once.
fn max_live_registers(function: &Function, layouts: &Arena<LayoutId, Layout>, element_by_element: bool) -> u32 {
    let liveness = LiveValues::of(function, element_by_element);
    let mut live_change = vec![0i64; liveness.order.len() + 1];
    for (value, (from, to)) in &liveness.spans {
        if !liveness.is_never_fully_live(function, *value) {
            let registers = i64::from(registers_of_value(function, layouts, *value));
            live_change[*from] += registers;
            live_change[*to] -= registers;
        }
    }
    let mut live = 0;
    let live_registers = live_change.into_iter().map(|live_change| {
        live += live_change;
        live
    });
    live_registers.max().unwrap_or(0) as u32
}

/// The live range of each value, as positions in program order.
struct LiveValues {
    order: Vec<OpId>,
    spans: BTreeMap<Value, (usize, usize)>,
    /// For an op whose elements are computed one by one at their use: the position of this use.
    element_use: BTreeMap<OpId, usize>,
}

impl LiveValues {
    fn of(function: &Function, element_by_element: bool) -> LiveValues {
        let body = &function.body;
        let order = body.walk(function.region);
        let element_use = if element_by_element { element_use(function, &order) } else { BTreeMap::new() };
        let mut spans: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
        // Begin and end of each loop that encloses the current op.
        let mut enclosing_loops: Vec<(usize, usize)> = Vec::new();
        for (at, op) in order.iter().enumerate() {
            enclosing_loops.retain(|(_, end)| at <= *end);
            let node = &body.ops[*op];
            for value in node.kind.operands() {
                let use_position = element_use.get(op).copied().unwrap_or(at);
                let Some(span) = spans.get_mut(&value) else { continue };
                // A value defined before a loop is live in every iteration of the loop that reads it.
                let all_iterations = enclosing_loops.iter().find(|(begin, _)| span.0 <= *begin).map(|(_, end)| *end);
                span.1 = span.1.max(all_iterations.unwrap_or(use_position));
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
        LiveValues { order, spans, element_use }
    }

    /// Returns whether only some elements of a value are live at a time.
    fn is_never_fully_live(&self, function: &Function, value: Value) -> bool {
        function.body.defining_op(value).is_some_and(|op| self.element_use.contains_key(&op))
    }
}

/// The ops whose elements can be computed one by one at their use, each with the position of the use. Such an op is element-wise
/// and has one use, in the same block, by an op that also takes elements one by one.
fn element_use(function: &Function, order: &[OpId]) -> BTreeMap<OpId, usize> {
    let body = &function.body;
    let (blocks, uses) = (body.op_blocks(), body.use_counts(function.region));
    let mut users: BTreeMap<Value, usize> = BTreeMap::new();
    let mut element_use = BTreeMap::new();
    for (at, op) in order.iter().enumerate().rev() {
        let node = &body.ops[*op];
        if let [result] = node.results[..]
            && node.kind.core().is_some_and(Core::is_elementwise)
            && uses[result.0 as usize] == 1
            && let Some(user) = users.get(&result).map(|at| order[*at])
            && blocks[user.0 as usize] == blocks[op.0 as usize]
            && takes_elements(&body.ops[user].kind)
        {
            element_use.insert(*op, element_use.get(&user).copied().unwrap_or(users[&result]));
        }
        node.kind.operands().iter().for_each(|value| _ = users.insert(*value, at));
    }
    element_use
}

/// Returns whether an op can take its operands element by element.
fn takes_elements(op: &Op) -> bool {
    op.core().is_some_and(Core::is_elementwise) || matches!(op, Op::Core(tileas::Op::ReduceRegisters { .. }))
}

/// Returns the registers of a thread that a value occupies.
fn registers_of_value(function: &Function, layouts: &Arena<LayoutId, Layout>, value: Value) -> u32 {
    let body = &function.body;
    let producer = body.defining_op(value).map(|op| &body.ops[op].kind);
    let is_loaded = matches!(producer, Some(Op::Core(tileas::Op::LoadView { .. } | tileas::Op::Load { .. })));
    // The tile of a constant or broadcast repeats one value, or elements that are already live.
    let repeats = matches!(producer.and_then(Op::core), Some(Core::Constant { .. } | Core::Broadcast { .. }));
    match body.ty(value) {
        Type::Tile { elem, layout, .. } if !repeats && (is_loaded || is_float(*elem)) => {
            // A conversion is executed where its result is used. Until then an element keeps its source width.
            let bits = match producer.and_then(Op::core) {
                Some(Core::Convert { x, .. }) => match body.ty(*x) {
                    Type::Tile { elem: from, .. } => elem.bits().min(from.bits()),
                    _ => elem.bits(),
                },
                _ => elem.bits(),
            };
            (layouts[*layout].registers() as u32 * bits).div_ceil(32)
        }
        _ => 0,
    }
}

fn is_float(elem: Elem) -> bool {
    matches!(elem, Elem::Scalar(scalar) if scalar.is_float())
}
