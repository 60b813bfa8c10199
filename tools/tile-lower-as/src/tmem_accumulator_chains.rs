//! Purpose: find the MMAs whose accumulator can stay in tensor memory from the first MMA of a chain to the last.
//! Requires: `.aa`. The accumulator of a chain starts at zero. Every value of the accumulator but the last has one use, by an MMA
//! or a loop. Between MMAs, each row may be scaled, as attention kernels do when a row maximum changes. Threads execute this
//! scaling on tensor memory.
//! Establishes: the chains, and for each other MMA the reason why it is in no chain.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `HoistTMEMAlloc` and `OptimizeAccumulatorInit`.

use crate::{operands, slices};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::Dense;
use numerics::arith::{Binary, Rounding};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::facts::Facts;
use tileaa::{Function, Op};

/// The MMAs that add to one accumulator, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The MMAs, in program order.
    pub(crate) mmas: Vec<OpId>,
    /// The ops that scale rows of the accumulator between MMAs, each with the vector of factors, one per row.
    pub(crate) scales: Vec<(OpId, Value)>,
    /// The SSA values that the accumulator has over time: results of MMAs and scalings, loop arguments and loop results.
    pub(crate) values: BTreeSet<Value>,
    /// The final value of the accumulator.
    pub(crate) result: Value,
    /// Whether at least one MMA of the chain is known to execute. If not, a loop around all MMAs may have zero iterations.
    pub(crate) always_executes: bool,
    /// The slices at constant indices that use the final value. Empty if another op uses the final value too. Threads load each
    /// slice separately.
    pub(crate) slices: Vec<OpId>,
}

impl Chain {
    /// Whether the accumulator has a single SSA value, the result of one MMA. Before this MMA and after the load of the result, the
    /// TMEM allocation of the accumulator can hold other values.
    pub(crate) fn is_single(&self) -> bool {
        self.values.len() == 1
    }
    /// Whether no loop carries the accumulator, so that it is loaded right after its MMAs.
    pub(crate) fn is_straight(&self) -> bool {
        self.values.len() == self.mmas.len() + self.scales.len()
    }
}

/// The chains of a function. For each MMA in no chain, also the reason.
pub(crate) fn accumulator_chains(function: &Function) -> (Vec<Chain>, BTreeMap<OpId, &'static str>) {
    let body = &function.body;
    let order = body.walk(function.region);
    let mut uses = vec![Vec::new(); body.values.len()];
    let mut mmas = Vec::new();
    for &op in &order {
        mmas.extend(operands::is_mma(function, op).then_some(op));
        for (operand_index, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            uses[value.0 as usize].push(ChainUse { op, operand_index });
        }
    }
    let finder = ChainFinder { function, uses, loops: for_loops(function), facts: Facts::derive(function) };
    let (mut chains, mut reasons): (Vec<Chain>, BTreeMap<OpId, &'static str>) = Default::default();
    for &op in &order {
        for start in finder.accumulator_starts(op) {
            match finder.follow_chain(start) {
                Ok(chain) => chains.push(chain),
                Err((mmas, reason)) => reasons.extend(mmas.into_iter().map(|mma| (mma, reason))),
            }
        }
    }
    let chained: BTreeSet<OpId> = chains.iter().flat_map(|chain| chain.mmas.iter().copied()).collect();
    for mma in mmas.into_iter().filter(|mma| !chained.contains(mma)) {
        reasons.entry(mma).or_insert("its accumulator does not start at zero, or ops other than MMAs compute it");
    }
    (chains, reasons)
}

/// The `for` op of each loop body.
fn for_loops(function: &Function) -> BTreeMap<Block, OpId> {
    let body = &function.body;
    let body_and_for = |op: OpId| Some((body.block_of(body.ops[op].kind.core()?.for_body()?), op));
    body.walk(function.region).into_iter().filter_map(body_and_for).collect()
}

/// A use of a value as an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChainUse {
    /// The op that uses the value.
    op: OpId,
    /// The index of the value among the operands of `op`.
    operand_index: usize,
}

/// What an op that uses an accumulator does with it.
enum ChainStep {
    /// An MMA adds to the accumulator.
    Adds,
    /// A `for` takes the accumulator as the init with this index.
    Enters(usize),
    /// A `continue` passes the accumulator to the next iteration, as the operand with this index.
    Leaves(usize),
    /// A multiplication scales each row of the accumulator by its element of this vector.
    Scales(Value),
    /// Any other use, which ends the chain.
    Other,
}

/// Finds the chains of a function.
struct ChainFinder<'a> {
    function: &'a Function,
    /// The uses of each value, by value id.
    uses: Vec<Vec<ChainUse>>,
    /// The `for` op of each loop body.
    loops: BTreeMap<Block, OpId>,
    facts: Facts<'a>,
}

impl ChainFinder<'_> {
    /// The operands of an op at which an accumulator chain starts: zero accumulators of an MMA and zero inits of a loop.
    fn accumulator_starts(&self, op: OpId) -> Vec<ChainUse> {
        let operands = self.function.body.ops[op].kind.operands();
        let zero_operands = operands
            .iter()
            .enumerate()
            .filter(|(_, value)| self.is_zero(**value))
            .map(|(operand_index, _)| ChainUse { op, operand_index });
        zero_operands.filter(|chain_use| matches!(self.chain_step(*chain_use), ChainStep::Adds | ChainStep::Enters(_))).collect()
    }

    /// Follows the accumulator from its first use. The error contains the MMAs that the search passed, and the reason why they are
    /// no chain.
    fn follow_chain(&self, start: ChainUse) -> Result<Chain, (Vec<OpId>, &'static str)> {
        let body = &self.function.body;
        let (mut mmas, mut scales, mut values, mut entered_loops) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        let (mut current, mut always_executes, mut last_value) = (start, false, None);
        // The scalings since the last MMA or loop boundary. If no MMA follows, threads apply them to the loaded accumulator, so
        // they are not part of the chain.
        let mut pending_scales: Vec<(OpId, Value)> = Vec::new();
        loop {
            let step = self.chain_step(current);
            if !matches!(step, ChainStep::Scales(_) | ChainStep::Other) {
                values.extend(pending_scales.iter().map(|(op, _)| body.result(*op)));
                scales.append(&mut pending_scales);
            }
            let next_value = match step {
                ChainStep::Adds => {
                    mmas.push(current.op);
                    always_executes |= entered_loops.iter().all(|(for_op, _)| self.has_iteration(*for_op));
                    body.result(current.op)
                }
                ChainStep::Enters(carried_index) => {
                    entered_loops.push((current.op, carried_index));
                    let inner = body.ops[current.op].kind.regions()[0];
                    body.blocks[body.block_of(inner)].args[carried_index + 1]
                }
                ChainStep::Leaves(carried_index) => match entered_loops.pop() {
                    Some((for_op, entered_index))
                        if entered_index == carried_index && self.only_terminator(for_op) == Some(current.op) =>
                    {
                        body.ops[for_op].results[carried_index]
                    }
                    _ => return Err((mmas, "a loop does not carry the accumulator from iteration to iteration")),
                },
                ChainStep::Scales(factors) => {
                    pending_scales.push((current.op, factors));
                    body.result(current.op)
                }
                ChainStep::Other => break,
            };
            if pending_scales.is_empty() {
                values.insert(next_value);
                last_value = Some(next_value);
            }
            match self.uses[next_value.0 as usize][..] {
                [next] => current = next,
                _ => break,
            }
        }
        match last_value {
            _ if !entered_loops.is_empty() => Err((mmas, "a loop uses the accumulator for other ops than MMAs")),
            Some(result) if !mmas.is_empty() => {
                Ok(Chain { mmas, scales, values, result, always_executes, slices: self.constant_slices(result) })
            }
            _ => Err((mmas, "no MMA adds to the accumulator")),
        }
    }

    /// The slices at constant indices that use a value. Empty if another op uses the value too.
    fn constant_slices(&self, value: Value) -> Vec<OpId> {
        let body = &self.function.body;
        let shape = |value: Value| &**body.ty(value).tile().expect("slices are of tiles").1;
        let is_slice = |op: OpId| match &body.ops[op].kind {
            Op::Core(Core::Extract { x, indices }) => {
                *x == value && slices::has_constant_indices(self.function, indices, shape(value), shape(body.result(op)))
            }
            _ => false,
        };
        let users: Vec<OpId> = self.uses[value.0 as usize].iter().map(|chain_use| chain_use.op).collect();
        if users.iter().all(|op| is_slice(*op)) { users } else { Vec::new() }
    }

    /// What the op of a use does with the accumulator.
    fn chain_step(&self, ChainUse { op, operand_index }: ChainUse) -> ChainStep {
        let body = &self.function.body;
        match &body.ops[op].kind {
            Op::Mma { acc, .. } | Op::MmaScaled { acc, .. }
                if body.ops[op].kind.operands().iter().position(|value| value == acc) == Some(operand_index) =>
            {
                ChainStep::Adds
            }
            Op::Core(core) if core.is_for() => {
                operand_index.checked_sub(core.conditions().len()).map_or(ChainStep::Other, ChainStep::Enters)
            }
            Op::Core(Core::Continue { .. }) => ChainStep::Leaves(operand_index),
            Op::Core(Core::Binary { kind: Binary::MulF { rounding: Rounding::NearestEven, ftz: false }, lhs, rhs }) => {
                self.per_row_vector(if operand_index == 0 { *rhs } else { *lhs }).map_or(ChainStep::Other, ChainStep::Scales)
            }
            _ => ChainStep::Other,
        }
    }

    /// The operand of the broadcast that computes a tile, if this operand has one element per row. `None` for other tiles.
    fn per_row_vector(&self, value: Value) -> Option<Value> {
        let body = &self.function.body;
        let Op::Core(Core::Broadcast { x }) = body.ops[body.defining_op(value)?].kind else { return None };
        let (tile_shape, vector_shape) = (body.ty(value).tile()?.1, body.ty(x).tile()?.1);
        let ((_, rows), (columns, own_rows)) = (tile_shape.split_last()?, vector_shape.split_last()?);
        (rows == own_rows && *columns == 1).then_some(x)
    }

    /// The terminator of a loop body. `None` if an op inside a condition may end an iteration early.
    fn only_terminator(&self, for_op: OpId) -> Option<OpId> {
        let body = &self.function.body;
        let inner = body.ops[for_op].kind.regions()[0];
        let is_if = |op: &OpId| body.ops[*op].kind.core().is_some_and(Core::is_if);
        let ops = &body.blocks[body.block_of(inner)].ops;
        let in_conditions = ops.iter().filter(|op| is_if(op)).flat_map(|op| body.ops[*op].kind.regions());
        let has_early_exit = in_conditions.flat_map(|region| body.walk(region)).any(|op| {
            let may_exit = matches!(&body.ops[op].kind, Op::Core(Core::Continue { .. } | Core::Return {}));
            may_exit && !self.terminates_for_body(op)
        });
        body.terminator(body.block_of(inner)).filter(|_| !has_early_exit)
    }

    /// Whether an op is the terminator of a `for` body. Inside a condition of a loop body, this `for` is an inner loop.
    fn terminates_for_body(&self, op: OpId) -> bool {
        let body = &self.function.body;
        self.loops.keys().any(|block| body.terminator(*block) == Some(op))
    }

    /// Whether a value is a constant tile of zeros with at least two dimensions.
    fn is_zero(&self, value: Value) -> bool {
        let definition = self.function.body.defining_op(value).map(|op| &self.function.body.ops[op].kind);
        let is_tile = self.function.body.ty(value).tile().is_some_and(|(_, shape)| shape.len() > 1);
        is_tile && matches!(definition, Some(Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// Whether a `for` is known to have at least one iteration. Its bounds must be constants, so that later stages can prove this,
    /// too.
    fn has_iteration(&self, for_op: OpId) -> bool {
        let body = &self.function.body;
        let bounds = body.ops[for_op].kind.core().and_then(Core::loop_bounds);
        let LoopBounds { lower, upper, unsigned, .. } = bounds.expect("only `for` loops are entered");
        let definition = |value: &Value| body.defining_op(*value).map(|op| &body.ops[op].kind);
        let are_constants =
            [lower, upper].into_iter().all(|value| matches!(definition(&value), Some(Op::Core(Core::Constant { .. }))));
        let (max_lower, min_upper) = (self.facts.range(lower).1, self.facts.range(upper).0);
        are_constants && max_lower < min_upper && (!unsigned || self.facts.range(lower).0 >= 0)
    }
}
