//! Regions, terminators, and the values that pass through them.

use super::{described, require};
use crate::nesting::Nesting;
use crate::{Function, Op, Type};
use base::core_ops::Core;
use base::ir::{Op as OpId, Operation, Region};
use base::{Loc, Value};

struct Regions<'a> {
    function: &'a Function,
    nesting: Nesting,
}

/// Checks all regions and terminators; structure and program order must hold.
pub(super) fn regions(function: &Function) -> Result<(), (Loc, String)> {
    let body = &function.body;
    let regions = Regions { function, nesting: Nesting::of(function) };
    regions.terminated(function.region).map_err(|message| (function.loc, message))?;
    for (op, node) in body.ops.iter() {
        let at = |message: String| (node.loc, format!("{}: {message}", described(function, op)));
        if regions.nesting.combines[op.0 as usize] && !is_allowed_inside(&node.kind) {
            return Err(at("the body of a reduction or scan must be pure".into()));
        }
        node.kind.regions().iter().try_for_each(|region| regions.terminated(*region)).map_err(at)?;
        regions.arguments(op).map_err(at)?;
    }
    // What they give values to is known to be sound by now.
    for (op, node) in body.ops.iter() {
        regions.terminator(op).map_err(|message| (node.loc, format!("{}: {message}", described(function, op))))?;
    }
    Ok(())
}

/// Whether an op may be in the body of a reduction or scan: what computes, and the control flow around it.
fn is_allowed_inside(kind: &Op) -> bool {
    let structure = matches!(kind, Op::Core(Core::If { .. } | Core::For { .. } | Core::Loop { .. }));
    kind.is_pure() || structure || kind.is_terminator()
}

impl Regions<'_> {
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

    fn terminator(&self, op: OpId) -> super::Rule {
        let body = &self.function.body;
        let target = self.nesting.target[op.0 as usize];
        let results = |target: OpId| &body.ops[target].results[..];
        let receiver = target.map(|target| (target, &body.ops[target].kind));
        match &body.ops[op].kind {
            Op::Core(Core::Return {}) => require(!self.nesting.combines[op.0 as usize], || "a reduction cannot be left".into()),
            Op::Core(Core::Yield { values }) => match receiver {
                Some((target, Op::Core(Core::If { .. }))) => self.flow("yielded values", values, results(target)),
                Some((_, Op::Reduce { body: region, .. } | Op::Scan { body: region, .. })) => {
                    let accumulators: Vec<Value> = self.args(*region).iter().skip(1).step_by(2).copied().collect();
                    self.flow("yielded values", values, &accumulators)
                }
                Some(_) => Err("only an if, reduce or scan is yielded to".into()),
                None => Err("a function is left by return".into()),
            },
            Op::Core(Core::Continue { values }) => match receiver {
                Some((target, Op::Core(Core::For { body: region, .. }))) => {
                    self.flow("carried values", values, &self.args(*region)[1..])?;
                    self.flow("carried values", values, results(target))
                }
                Some((_, Op::Core(Core::Loop { body: region, .. }))) => self.flow("carried values", values, self.args(*region)),
                _ => Err("it is not in a loop".into()),
            },
            Op::Core(Core::Break { values }) => match target {
                Some(target) => self.flow("values of break", values, results(target)),
                None => Err("it is not in a loop that can be left".into()),
            },
            _ => Ok(()),
        }
    }
}
