//! How many registers of a thread the values take that are live at once, about.
//!
//! The assembler decides; what is counted here is in the order of the ops. Addresses and masks are made for each access when it is due,
//! and are not counted.

use base::ir::{Op as OpId, Operation};
use base::{Arena, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use sched::{Function, Op};
use std::collections::BTreeMap;
use tileas::{Layout, LayoutId, Type};

/// Registers beside tiles: addresses, and what is made in between.
const BESIDE: u32 = 24;

/// The registers that a thread needs, about, if each op is carried out for all elements before the next.
pub(crate) fn needs(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    most_live(function, layouts, false) + BESIDE
}

/// The same if what is used once is made where it is used, element by element.
pub(crate) fn needs_at_least(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    most_live(function, layouts, true) + BESIDE
}

fn most_live(function: &Function, layouts: &Arena<LayoutId, Layout>, element_by_element: bool) -> u32 {
    let liveness = LiveValues::of(function, element_by_element);
    let mut change = vec![0i64; liveness.order.len() + 1];
    for (value, (from, to)) in &liveness.spans {
        if !liveness.streams(function, *value) {
            let registers = i64::from(registers(function, layouts, *value));
            change[*from] += registers;
            change[*to] -= registers;
        }
    }
    let mut sum = 0;
    let accumulators = change.into_iter().map(|change| {
        sum += change;
        sum
    });
    accumulators.max().unwrap_or(0) as u32
}

/// From where to where each value is read, as numbers of ops in program order.
struct LiveValues {
    order: Vec<OpId>,
    spans: BTreeMap<Value, (usize, usize)>,
    /// Where the elements of an op's result are made, if that is where they are used.
    late: BTreeMap<OpId, usize>,
}

impl LiveValues {
    fn of(function: &Function, element_by_element: bool) -> LiveValues {
        let body = &function.body;
        let order = body.walk(function.region);
        let late = if element_by_element { late(function, &order) } else { BTreeMap::new() };
        let mut spans: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
        // Loops around the op that is looked at, with where they begin and end.
        let mut around: Vec<(usize, usize)> = Vec::new();
        for (at, op) in order.iter().enumerate() {
            around.retain(|(_, end)| at <= *end);
            let node = &body.ops[*op];
            for value in node.kind.operands() {
                let used = late.get(op).copied().unwrap_or(at);
                let Some(span) = spans.get_mut(&value) else { continue };
                // What a loop reads that was made before it is read in every iteration.
                let all_iterations = around.iter().find(|(begin, _)| span.0 <= *begin).map(|(_, end)| *end);
                span.1 = span.1.max(all_iterations.unwrap_or(used));
            }
            let regions = node.kind.regions();
            let end = at + regions.iter().map(|region| body.walk(*region).len()).sum::<usize>();
            node.results.iter().for_each(|value| _ = spans.insert(*value, (end, end)));
            if matches!(node.kind.core(), Some(Core::For { .. } | Core::Loop { .. })) {
                around.push((at, end));
                let args = &body.blocks[body.block_of(regions[0])].args;
                args.iter().for_each(|value| _ = spans.insert(*value, (at + 1, at + 1)));
            }
        }
        LiveValues { order, spans, late }
    }

    /// Whether only some elements of a value are there at a time.
    fn streams(&self, function: &Function, value: Value) -> bool {
        function.body.defining_op(value).is_some_and(|op| self.late.contains_key(&op))
    }
}

/// The ops whose elements can be made one by one where they are used, with where that is: the one use is in the same block, by an op that
/// takes them one by one, too.
fn late(function: &Function, order: &[OpId]) -> BTreeMap<OpId, usize> {
    let body = &function.body;
    let (blocks, uses) = (body.op_blocks(), body.use_counts(function.region));
    let mut users: BTreeMap<Value, usize> = BTreeMap::new();
    let mut late = BTreeMap::new();
    for (at, op) in order.iter().enumerate().rev() {
        let node = &body.ops[*op];
        if let [result] = node.results[..]
            && node.kind.core().is_some_and(Core::is_elementwise)
            && uses[result.0 as usize] == 1
            && let Some(user) = users.get(&result).map(|at| order[*at])
            && blocks[user.0 as usize] == blocks[op.0 as usize]
            && takes_elements(&body.ops[user].kind)
        {
            late.insert(*op, late.get(&user).copied().unwrap_or(users[&result]));
        }
        node.kind.operands().iter().for_each(|value| _ = users.insert(*value, at));
    }
    late
}

fn takes_elements(op: &Op) -> bool {
    op.core().is_some_and(Core::is_elementwise) || matches!(op, Op::Core(tileas::Op::ReduceRegisters { .. }))
}

/// The registers of a thread that a value takes.
fn registers(function: &Function, layouts: &Arena<LayoutId, Layout>, value: Value) -> u32 {
    let body = &function.body;
    let made_by = body.defining_op(value).map(|op| &body.ops[op].kind);
    let is_loaded = matches!(made_by, Some(Op::Core(tileas::Op::LoadView { .. } | tileas::Op::Load { .. })));
    // All of these are one value, or some that there are already.
    let repeats = matches!(made_by.and_then(Op::core), Some(Core::Constant { .. } | Core::Broadcast { .. }));
    match body.ty(value) {
        Type::Tile { elem, layout, .. } if !repeats && (is_loaded || is_float(*elem)) => {
            // An element is widened where it is used: until then it is as wide as it was.
            let bits = match made_by.and_then(Op::core) {
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
