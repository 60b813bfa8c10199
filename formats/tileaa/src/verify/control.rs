//! Regions, terminators, and the values that pass through them.

use super::{described, is_conditional, require};
use crate::{Function, Op, Type};
use base::core_ops::Core;
use base::ir::{Block, Op as OpId, Operation, Region};
use base::{Loc, Value};

/// What encloses a block, found from the outside in.
#[derive(Clone, Copy, Default)]
struct Around {
    parent: Option<OpId>,
    /// The loop that `continue` goes on with.
    continued: Option<OpId>,
    /// The loop that `break` leaves.
    broken: Option<OpId>,
    /// Inside a reduction or scan, which nothing may leave.
    sealed: bool,
}

struct Regions<'a> {
    function: &'a Function,
    around: Vec<Around>,
}

/// Checks all regions and terminators; structure and program order must hold.
pub(super) fn regions(function: &Function) -> Result<(), (Loc, String)> {
    let body = &function.body;
    let mut regions = Regions { function, around: vec![Around::default(); body.blocks.len()] };
    let places = body.op_blocks();
    let at = |op: OpId, message: String| (body.ops[op].loc, format!("{}: {message}", described(function, op)));
    regions.terminated(function.region).map_err(|message| (function.loc, message))?;
    // Program order has outer ops before inner ones.
    for (op, node) in body.ops.iter() {
        let block = places[op.0 as usize].expect("a compact body has every op in a block");
        let outer = regions.around[block.0 as usize];
        if outer.sealed && !is_allowed_inside(&node.kind) {
            return Err(at(op, "the body of a reduction or scan must be pure".into()));
        }
        let inside = regions.inside(op, outer);
        for region in node.kind.regions() {
            regions.terminated(region).map_err(|message| at(op, message))?;
            regions.around[body.block_of(region).0 as usize] = inside;
        }
        regions.arguments(op).map_err(|message| at(op, message))?;
        regions.terminator(op, block).map_err(|message| at(op, message))?;
    }
    Ok(())
}

/// Whether an op may be in the body of a reduction or scan: what computes, and the control flow around it.
fn is_allowed_inside(kind: &Op) -> bool {
    let structure = matches!(kind, Op::Core(Core::If { .. } | Core::For { .. } | Core::Loop { .. }));
    kind.is_pure() || structure || kind.is_terminator()
}

impl Regions<'_> {
    fn inside(&self, op: OpId, outer: Around) -> Around {
        let parent = Some(op);
        match &self.function.body.ops[op].kind {
            Op::Core(Core::For { .. }) => Around { parent, continued: Some(op), broken: None, ..outer },
            Op::Core(Core::Loop { .. }) => Around { parent, continued: Some(op), broken: Some(op), ..outer },
            Op::Core(Core::If { .. }) => Around { parent, ..outer },
            _ => Around { parent, continued: None, broken: None, sealed: true },
        }
    }

    fn terminated(&self, region: Region) -> super::Rule {
        let body = &self.function.body;
        let ended = match body.regions[region].blocks[..] {
            [block] => body.terminator(block).is_some(),
            _ => false,
        };
        require(ended, || format!("{region} must be one block that ends in a terminator"))
    }

    fn types(&self, values: &[Value]) -> Vec<&Type> {
        values.iter().map(|value| self.function.body.ty(*value)).collect()
    }

    /// That the values of one list can stand for those of the other.
    fn flow(&self, what: &str, from: &[Value], to: &[Value]) -> super::Rule {
        let fit = from.len() == to.len() && self.types(from).iter().zip(self.types(to)).all(|(from, to)| from.fits(to));
        require(fit, || format!("{what} have types or a number that do not fit"))?;
        let views = self.types(to).iter().any(|ty| matches!(ty, Type::MemRef(_) | Type::View(_)));
        require(!views, || format!("{what} include a memref or view, which control flow does not carry"))
    }

    fn args(&self, region: Region) -> &[Value] {
        &self.function.body.blocks[self.function.body.block_of(region)].args
    }

    fn arguments(&self, op: OpId) -> super::Rule {
        let node = &self.function.body.ops[op];
        match &node.kind {
            Op::Core(Core::If { then, otherwise, .. }) => {
                let none = self.args(*then).is_empty() && self.args(*otherwise).is_empty();
                require(none, || "its regions take no arguments".into())
            }
            Op::Core(Core::For { lower, init, body, .. }) => {
                let Some((index, carried)) = self.args(*body).split_first() else {
                    return Err("its body takes the loop index".into());
                };
                require(self.function.body.ty(*index) == self.function.body.ty(*lower), || {
                    "the index has the type of the bounds".into()
                })?;
                self.flow("initial values", init, carried)?;
                self.flow("initial values", init, &node.results)
            }
            Op::Core(Core::Loop { init, body }) => self.flow("initial values", init, self.args(*body)),
            Op::Reduce { operands, body, .. } | Op::Scan { operands, body, .. } => {
                let args = self.args(*body);
                let scalar = |value: &Value| match self.function.body.ty(*value) {
                    Type::Tile { elem, .. } => Some(Type::Tile { elem: *elem, shape: Default::default() }),
                    _ => None,
                };
                let pairs = args.len() == 2 * operands.len()
                    && args.chunks(2).zip(operands).all(|(pair, operand)| {
                        pair.iter().all(|arg| scalar(operand).as_ref() == Some(self.function.body.ty(*arg)))
                    });
                require(pairs, || "its body takes an element and an accumulator for each operand".into())
            }
            _ => Ok(()),
        }
    }

    fn terminator(&self, op: OpId, block: Block) -> super::Rule {
        let body = &self.function.body;
        let around = self.around[block.0 as usize];
        let results = |target: OpId| &body.ops[target].results[..];
        match &body.ops[op].kind {
            Op::Core(Core::Return {}) => require(!around.sealed, || "a reduction cannot be left".into()),
            Op::Core(Core::Yield { values }) => match around.parent {
                Some(parent) if is_conditional(&body.ops[parent].kind) => self.flow("yielded values", values, results(parent)),
                Some(parent) => match &body.ops[parent].kind {
                    Op::Reduce { body: region, .. } | Op::Scan { body: region, .. } => {
                        let accumulators: Vec<Value> = self.args(*region).iter().skip(1).step_by(2).copied().collect();
                        self.flow("yielded values", values, &accumulators)
                    }
                    _ => Err("only an if, reduce or scan is yielded to".into()),
                },
                None => Err("a function is left by return".into()),
            },
            Op::Core(Core::Continue { values }) => match around.continued.map(|target| (target, &body.ops[target].kind)) {
                Some((target, Op::Core(Core::For { body: region, .. }))) => {
                    self.flow("carried values", values, &self.args(*region)[1..])?;
                    self.flow("carried values", values, results(target))
                }
                Some((_, Op::Core(Core::Loop { body: region, .. }))) => self.flow("carried values", values, self.args(*region)),
                _ => Err("it is not in a loop".into()),
            },
            Op::Core(Core::Break { values }) => match around.broken {
                Some(target) => self.flow("values of break", values, results(target)),
                None => Err("it is not in a loop that can be left".into()),
            },
            _ => Ok(()),
        }
    }
}
