//! Finds the products whose sums can stay in tensor memory from the first product that adds to them to the last; changes nothing.
//!
//! Tensor memory holds sums where only products see them: those that begin with zero, go from product to product and round loops,
//! each used once, and are taken up in the end. Until the first product has run there are no sums, and that need not be known
//! before: it goes along as a truth in place of the tile.

use crate::slices;
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::facts::Facts;
use tileaa::{Function, Op};
use vocabulary::core_ops::Core;
use vocabulary::tile::Dense;

/// Products that add to the same sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) products: Vec<OpId>,
    /// The sums on their way: results of products, and what loops carry.
    pub(crate) values: BTreeSet<Value>,
    /// The sums when all is added up, which is the last of them.
    pub(crate) result: Value,
    /// Whether a product is known to be made at all.
    pub(crate) runs: bool,
    /// The slices at constant places that are all that uses them then; threads take up each by itself.
    pub(crate) slices: Vec<OpId>,
}

impl Chain {
    /// Whether nothing else is done before the sums are taken up, so that others can have their place before and after.
    pub(crate) fn is_single(&self) -> bool {
        self.values.len() == 1
    }
    /// Whether the sums are taken up where the products are made, behind no loop.
    pub(crate) fn is_straight(&self) -> bool {
        self.values.len() == self.products.len()
    }
}

/// The chains of a function, and for each product that is in none the reason.
pub(crate) fn of(function: &Function) -> (Vec<Chain>, BTreeMap<OpId, &'static str>) {
    let body = &function.body;
    let order = body.walk(function.region);
    let mut uses = vec![Vec::new(); body.values.len()];
    let mut products = Vec::new();
    for &op in &order {
        products.extend(matches!(body.ops[op].kind, Op::Mma { .. }).then_some(op));
        for (number, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            uses[value.0 as usize].push(Use { op, number });
        }
    }
    let finder = Finder { function, uses, loops: loops(function), facts: Facts::of(function) };
    let (mut chains, mut reasons): (Vec<Chain>, BTreeMap<OpId, &'static str>) = Default::default();
    for &op in &order {
        for start in finder.starts(op) {
            match finder.chain(start) {
                Ok(chain) => chains.push(chain),
                Err((products, reason)) => reasons.extend(products.into_iter().map(|product| (product, reason))),
            }
        }
    }
    let chained: BTreeSet<OpId> = chains.iter().flat_map(|chain| chain.products.iter().copied()).collect();
    for product in products.into_iter().filter(|product| !chained.contains(product)) {
        reasons.entry(product).or_insert("what it adds to does not begin with zero, or is computed otherwise than by products");
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
struct Use {
    op: OpId,
    number: usize,
}

/// What a use does with sums.
enum Step {
    Adds,
    /// A loop begins with them, as the value that it carries with this number.
    Enters(usize),
    /// An iteration ends with them.
    Leaves(usize),
    Other,
}

struct Finder<'a> {
    function: &'a Function,
    uses: Vec<Vec<Use>>,
    loops: BTreeMap<Block, OpId>,
    facts: Facts<'a>,
}

impl Finder<'_> {
    /// The operands of an op with which sums begin.
    fn starts(&self, op: OpId) -> Vec<Use> {
        let operands = self.function.body.ops[op].kind.operands();
        let all = operands.iter().enumerate().filter(|(_, value)| self.is_zero(**value)).map(|(number, _)| Use { op, number });
        all.filter(|it| matches!(self.step(*it), Step::Adds | Step::Enters(_))).collect()
    }

    /// The chain that begins with an operand; or its products so far, and why it is none.
    fn chain(&self, start: Use) -> Result<Chain, (Vec<OpId>, &'static str)> {
        let body = &self.function.body;
        let (mut products, mut values, mut inside) = (Vec::new(), BTreeSet::new(), Vec::new());
        let (mut at, mut runs, mut last) = (start, false, None);
        loop {
            let sums = match self.step(at) {
                Step::Adds => {
                    products.push(at.op);
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
                    _ => return Err((products, "a loop does not carry the sums on")),
                },
                Step::Other => break,
            };
            values.insert(sums);
            last = Some(sums);
            match self.uses[sums.0 as usize][..] {
                [next] => at = next,
                _ => break,
            }
        }
        match last {
            _ if !inside.is_empty() => Err((products, "a loop does something else with the sums than to add products")),
            Some(result) if !products.is_empty() => Ok(Chain { products, values, result, runs, slices: self.slices(result) }),
            _ => Err((products, "nothing is added to the sums")),
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

    fn step(&self, Use { op, number }: Use) -> Step {
        let body = &self.function.body;
        match &body.ops[op].kind {
            Op::Mma { acc, .. } if body.ops[op].kind.operands().iter().position(|value| value == acc) == Some(number) => Step::Adds,
            Op::Core(Core::For { init, .. }) => {
                let first = body.ops[op].kind.operands().len() - init.len();
                number.checked_sub(first).map_or(Step::Other, Step::Enters)
            }
            Op::Core(Core::Continue { .. }) => Step::Leaves(number),
            _ => Step::Other,
        }
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

    /// Whether a loop is known to run at least once.
    fn runs(&self, for_op: OpId) -> bool {
        let Op::Core(Core::For { lower, upper, unsigned, .. }) = &self.function.body.ops[for_op].kind else {
            unreachable!("only `for` loops are entered")
        };
        let (most, least) = (self.facts.range(*lower).1, self.facts.range(*upper).0);
        most < least && (!unsigned || self.facts.range(*lower).0 >= 0)
    }
}
