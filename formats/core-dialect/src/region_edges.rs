//! Region edges: the values that loops and conditions forward unchanged, each with its destination. An edge leads into a loop, to
//! the next iteration, out of a loop, or out of a branch. MLIR's `RegionBranchOpInterface` has the same purpose.

use crate::core_ops::Core;
use crate::rules::CoreDialectOp;
use crate::structured_ops::Terminator;
use base::ir::Op;
use base::{Body, Region, Value};

/// A value `from` that control flow forwards to the block argument or result `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionEdge {
    pub from: Value,
    pub to: Value,
}

/// The edges of all ops in a region and its nested regions.
pub fn region_edges<O: CoreDialectOp, T>(body: &Body<O, T>, region: Region) -> Vec<RegionEdge> {
    body.walk(region).into_iter().flat_map(|op| edges_of_op(body, op)).collect()
}

/// The edges of one op, without the edges of the ops inside its regions.
pub fn edges_of_op<O: CoreDialectOp, T>(body: &Body<O, T>, op: Op) -> Vec<RegionEdge> {
    let Some(core) = body.ops[op].kind.core() else { return Vec::new() };
    let results = &body.ops[op].results;
    let mut edges = Vec::new();
    let mut forward =
        |from: &[Value], to: &[Value]| edges.extend(from.iter().zip(to).map(|(from, to)| RegionEdge { from: *from, to: *to }));
    if let Some(branch) = core.as_if() {
        for region in branch.regions() {
            let terminator = body.terminator(body.block_of(region)).and_then(|op| body.ops[op].kind.core());
            if let Some(Core::Yield { values }) = terminator {
                forward(values, results);
            }
        }
    }
    if let Some(loop_op) = core.as_loop() {
        let (ends, destinations) = (LoopEnds::find(body, loop_op.body), loop_op.destinations(body, op));
        for values in std::iter::once(loop_op.init).chain(ends.continue_values) {
            destinations.iter().for_each(|to| forward(values, to));
        }
        ends.break_values.iter().for_each(|values| forward(values, results));
    }
    edges
}

/// The lists of values that receive the operands of a terminator. `construct` is the op that the terminator leaves, or the loop
/// whose next iteration it starts.
pub fn destinations_of_terminator<'a, O: CoreDialectOp, T>(
    body: &'a Body<O, T>,
    construct: Op,
    terminator: &Core,
) -> Vec<&'a [Value]> {
    let node = &body.ops[construct];
    match terminator.as_terminator() {
        Some(Terminator::Continue(_)) => {
            node.kind.core().and_then(Core::as_loop).map(|loop_op| loop_op.destinations(body, construct)).unwrap_or_default()
        }
        Some(Terminator::Break(_) | Terminator::Yield(_)) => vec![&node.results],
        Some(Terminator::Return) | None => Vec::new(),
    }
}

/// The values of the `continue` and `break` ops of a loop, anywhere in its body.
pub struct LoopEnds<'a> {
    /// The values of each `continue`.
    pub continue_values: Vec<&'a [Value]>,
    /// The values of each `break`.
    pub break_values: Vec<&'a [Value]>,
}

impl<'a> LoopEnds<'a> {
    /// Collects the values of the `continue` and `break` ops of a loop with this body. Ops that belong to nested loops are
    /// excluded.
    pub fn find<O: CoreDialectOp, T>(body: &'a Body<O, T>, loop_body: Region) -> LoopEnds<'a> {
        let (mut ends, mut worklist) = (LoopEnds { continue_values: Vec::new(), break_values: Vec::new() }, vec![loop_body]);
        while let Some(region) = worklist.pop() {
            for &op in &body.blocks[body.block_of(region)].ops {
                let core = body.ops[op].kind.core();
                match core.and_then(Core::as_terminator) {
                    Some(Terminator::Continue(values)) => ends.continue_values.push(values),
                    Some(Terminator::Break(values)) => ends.break_values.push(values),
                    Some(Terminator::Yield(_) | Terminator::Return) => {}
                    // A `continue` or `break` inside a nested loop belongs to that loop.
                    None if core.is_some_and(Core::is_loop) => {}
                    None => worklist.extend(body.ops[op].kind.regions()),
                }
            }
        }
        ends
    }
}
