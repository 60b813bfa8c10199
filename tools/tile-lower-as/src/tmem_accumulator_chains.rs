//! Finds the mmas whose accumulators can stay in tensor memory from the first mma that adds to them to the last; changes nothing.
//!
//! Tensor memory holds accumulators where only mmas see them: those that begin with zero, go from mma to mma and iteration loops,
//! each used once, and are taken up in the end. Until the first mma has run there are no accumulators, and that need not be known
//! before: it goes along as a truth in place of the tile. Between mmas each row may be multiplied by a factor, as attention does when
//! a row's maximum changes; threads do that in tensor memory.

use crate::{operands, slices};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use numerics::arith::{Binary, Rounding};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::facts::Facts;
use tileaa::{Function, Op};

/// MmaSelections that add to the same accumulators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) mmas: Vec<OpId>,
    /// The ops that multiply rows of the accumulators on their way, and the factors, of which a row has one.
    pub(crate) scales: Vec<(OpId, Value)>,
    /// The accumulators on their way: results of mmas and of scaling, and what loops carry.
    pub(crate) values: BTreeSet<Value>,
    /// The accumulators when all is added up, which is the last of them.
    pub(crate) result: Value,
    /// Whether a mma is known to be made at all.
    pub(crate) runs: bool,
    /// The slices at constant places that are all that uses them then; threads take up each by itself.
    pub(crate) slices: Vec<OpId>,
}

impl Chain {
    /// Whether nothing else is done before the accumulators are taken up, so that others can have their place before and after.
    pub(crate) fn is_single(&self) -> bool {
        self.values.len() == 1
    }
    /// Whether the accumulators are taken up where the mmas are made, behind no loop.
    pub(crate) fn is_straight(&self) -> bool {
        self.values.len() == self.mmas.len() + self.scales.len()
    }
}

/// The chains of a function, and for each mma that is in none the reason.
pub(crate) fn of(function: &Function) -> (Vec<Chain>, BTreeMap<OpId, &'static str>) {
    let body = &function.body;
    let order = body.walk(function.region);
    let mut uses = vec![Vec::new(); body.values.len()];
    let mut mmas = Vec::new();
    for &op in &order {
        mmas.extend(operands::is_mma(function, op).then_some(op));
        for (number, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            uses[value.0 as usize].push(ChainUse { op, number });
        }
    }
    let finder = Finder { function, uses, loops: loops(function), facts: Facts::of(function) };
    let (mut chains, mut reasons): (Vec<Chain>, BTreeMap<OpId, &'static str>) = Default::default();
    for &op in &order {
        for start in finder.starts(op) {
            match finder.chain(start) {
                Ok(chain) => chains.push(chain),
                Err((mmas, reason)) => reasons.extend(mmas.into_iter().map(|mma| (mma, reason))),
            }
        }
    }
    let chained: BTreeSet<OpId> = chains.iter().flat_map(|chain| chain.mmas.iter().copied()).collect();
    for mma in mmas.into_iter().filter(|mma| !chained.contains(mma)) {
        reasons.entry(mma).or_insert("what it adds to does not begin with zero, or is computed otherwise than by mmas");
    }
    (chains, reasons)
}

/// The `for` of each block that is the body of one.
fn loops(function: &Function) -> BTreeMap<Block, OpId> {
    let body = &function.body;
    let of_loop = |op: OpId| match &body.ops[op].kind {
        Op::Core(Core::For { body: inner, .. }) => Some((body.block_of(*inner), op)),
        _ => None,
    };
    body.walk(function.region).into_iter().filter_map(of_loop).collect()
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChainUse {
    op: OpId,
    number: usize,
}

/// What a use does with accumulators.
enum Step {
    Adds,
    /// A loop begins with them, as the value that it carries with this number.
    Enters(usize),
    /// An iteration ends with them.
    Leaves(usize),
    /// Rows are multiplied by these factors.
    Scales(Value),
    Other,
}

struct Finder<'a> {
    function: &'a Function,
    uses: Vec<Vec<ChainUse>>,
    loops: BTreeMap<Block, OpId>,
    facts: Facts<'a>,
}

impl Finder<'_> {
    /// The operands of an op with which accumulators begin.
    fn starts(&self, op: OpId) -> Vec<ChainUse> {
        let operands = self.function.body.ops[op].kind.operands();
        let all = operands.iter().enumerate().filter(|(_, value)| self.is_zero(**value)).map(|(number, _)| ChainUse { op, number });
        all.filter(|it| matches!(self.step(*it), Step::Adds | Step::Enters(_))).collect()
    }

    /// The chain that begins with an operand; or its mmas so far, and why it is none.
    fn chain(&self, start: ChainUse) -> Result<Chain, (Vec<OpId>, &'static str)> {
        let body = &self.function.body;
        let (mut mmas, mut scales, mut values, mut inside) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        let (mut at, mut runs, mut last) = (start, false, None);
        // What is scaled in the end, threads have taken up already.
        let mut scaled: Vec<(OpId, Value)> = Vec::new();
        loop {
            let step = self.step(at);
            if !matches!(step, Step::Scales(_) | Step::Other) {
                values.extend(scaled.iter().map(|(op, _)| body.result(*op)));
                scales.append(&mut scaled);
            }
            let accumulators = match step {
                Step::Adds => {
                    mmas.push(at.op);
                    runs |= inside.iter().all(|(for_op, _)| self.runs(*for_op));
                    body.result(at.op)
                }
                Step::Enters(number) => {
                    inside.push((at.op, number));
                    let inner = body.ops[at.op].kind.regions()[0];
                    body.blocks[body.block_of(inner)].args[number + 1]
                }
                Step::Leaves(number) => match inside.pop() {
                    Some((for_op, own)) if own == number && self.ends(for_op) == Some(at.op) => body.ops[for_op].results[number],
                    _ => return Err((mmas, "a loop does not carry the accumulators on")),
                },
                Step::Scales(factors) => {
                    scaled.push((at.op, factors));
                    body.result(at.op)
                }
                Step::Other => break,
            };
            if scaled.is_empty() {
                values.insert(accumulators);
                last = Some(accumulators);
            }
            match self.uses[accumulators.0 as usize][..] {
                [next] => at = next,
                _ => break,
            }
        }
        match last {
            _ if !inside.is_empty() => Err((mmas, "a loop does something else with the accumulators than to add mmas")),
            Some(result) if !mmas.is_empty() => Ok(Chain { mmas, scales, values, result, runs, slices: self.slices(result) }),
            _ => Err((mmas, "nothing is added to the accumulators")),
        }
    }

    /// The slices at constant places of a value that nothing else uses.
    fn slices(&self, value: Value) -> Vec<OpId> {
        let body = &self.function.body;
        let shape = |value: Value| &**body.ty(value).tile().expect("slices are of tiles").1;
        let is_slice = |op: OpId| match &body.ops[op].kind {
            Op::Core(Core::Extract { x, indices }) => {
                *x == value && slices::is_constant(self.function, indices, shape(value), shape(body.result(op)))
            }
            _ => false,
        };
        let users: Vec<OpId> = self.uses[value.0 as usize].iter().map(|it| it.op).collect();
        if users.iter().all(|op| is_slice(*op)) { users } else { Vec::new() }
    }

    fn step(&self, ChainUse { op, number }: ChainUse) -> Step {
        let body = &self.function.body;
        match &body.ops[op].kind {
            Op::Mma { acc, .. } | Op::MmaScaled { acc, .. }
                if body.ops[op].kind.operands().iter().position(|value| value == acc) == Some(number) =>
            {
                Step::Adds
            }
            Op::Core(Core::For { init, .. }) => {
                let first = body.ops[op].kind.operands().len() - init.len();
                number.checked_sub(first).map_or(Step::Other, Step::Enters)
            }
            Op::Core(Core::Continue { .. }) => Step::Leaves(number),
            Op::Core(Core::Binary { kind: Binary::MulF { rounding: Rounding::NearestEven, ftz: false }, lhs, rhs }) => {
                self.of_rows(if number == 0 { *rhs } else { *lhs }).map_or(Step::Other, Step::Scales)
            }
            _ => Step::Other,
        }
    }

    /// What a tile repeats along each of its rows.
    fn of_rows(&self, value: Value) -> Option<Value> {
        let body = &self.function.body;
        let Op::Core(Core::Broadcast { x }) = body.ops[body.defining_op(value)?].kind else { return None };
        let (of_tile, own) = (body.ty(value).tile()?.1, body.ty(x).tile()?.1);
        let ((_, rows), (columns, own_rows)) = (of_tile.split_last()?, own.split_last()?);
        (rows == own_rows && *columns == 1).then_some(x)
    }

    /// The op with which all iterations of a loop end, if there is but one.
    fn ends(&self, for_op: OpId) -> Option<OpId> {
        let body = &self.function.body;
        let inner = body.ops[for_op].kind.regions()[0];
        let nested = |op: &OpId| matches!(&body.ops[*op].kind, Op::Core(Core::If { .. }));
        let ops = &body.blocks[body.block_of(inner)].ops;
        let in_conditions = ops.iter().filter(|op| nested(op)).flat_map(|op| body.ops[*op].kind.regions());
        let early = in_conditions.flat_map(|region| body.walk(region)).any(|op| {
            let leaves = matches!(&body.ops[op].kind, Op::Core(Core::Continue { .. } | Core::Return {}));
            leaves && !self.is_of_inner_loop(op)
        });
        body.terminator(body.block_of(inner)).filter(|_| !early)
    }

    /// Whether a `continue` is the last op of a loop's body.
    fn is_of_inner_loop(&self, op: OpId) -> bool {
        let body = &self.function.body;
        self.loops.keys().any(|block| body.terminator(*block) == Some(op))
    }

    fn is_zero(&self, value: Value) -> bool {
        let made = self.function.body.defining_op(value).map(|op| &self.function.body.ops[op].kind);
        let is_tile = self.function.body.ty(value).tile().is_some_and(|(_, shape)| shape.len() > 1);
        is_tile && matches!(made, Some(Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// Whether a loop runs at least once, as far as the stages behind this one see it too: its bounds are constants.
    fn runs(&self, for_op: OpId) -> bool {
        let Op::Core(Core::For { lower, upper, unsigned, .. }) = &self.function.body.ops[for_op].kind else {
            unreachable!("only `for` loops are entered")
        };
        let body = &self.function.body;
        let made = |value: &Value| body.defining_op(*value).map(|op| &body.ops[op].kind);
        let are_constants = [lower, upper].into_iter().all(|value| matches!(made(value), Some(Op::Core(Core::Constant { .. }))));
        let (most, least) = (self.facts.range(*lower).1, self.facts.range(*upper).0);
        are_constants && most < least && (!unsigned || self.facts.range(*lower).0 >= 0)
    }
}
