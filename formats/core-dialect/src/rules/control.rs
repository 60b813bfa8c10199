//! Regions, terminators, and the values that pass through them.

use super::{MiddleOp, MiddleType, OpParents, Rule, Seen, described, require};
use crate::core_ops::Core;
use base::ir::{Op as OpId, Region};
use base::{Body, Loc, Value};

/// Limit on the nesting of ops, so that code may walk them by recursion.
pub const MAX_NESTED: u32 = 256;

struct Regions<'a, O, T> {
    body: &'a Body<O, T>,
    nesting: OpParents,
}

/// Checks all regions and terminators under `root`, whose structure must be valid. `loc` is the location of the function.
pub fn regions<O: MiddleOp, T: MiddleType>(body: &Body<O, T>, root: Region, loc: Loc) -> Result<(), (Loc, String)> {
    let regions = Regions { body, nesting: OpParents::of(body, root) };
    let shallow = regions.nesting.deepest <= MAX_NESTED;
    require(shallow, || format!("ops are nested deeper than {MAX_NESTED} levels")).map_err(|message| (loc, message))?;
    regions.terminated(root).map_err(|message| (loc, message))?;
    let at = |op: OpId, message: String| (body.ops[op].loc, format!("{}: {message}", described(body, op)));
    for (op, node) in body.ops.iter() {
        if regions.nesting.in_combiner[op.0 as usize] && !is_allowed_inside(&node.kind) {
            return Err(at(op, "the body of a reduction or scan must be pure".into()));
        }
        let rule = node.kind.regions().iter().try_for_each(|region| regions.terminated(*region));
        rule.and_then(|()| regions.arguments(op)).map_err(|message| at(op, message))?;
    }
    // The targets of terminators are valid at this point.
    body.ops.ids().try_for_each(|op| regions.terminator(op).map_err(|message| at(op, message)))
}

/// Returns whether the body of a reduction or scan may contain an op: computation, and the control flow around it.
fn is_allowed_inside(kind: &impl MiddleOp) -> bool {
    let structure = matches!(kind.core(), Some(Core::If { .. } | Core::For { .. } | Core::Loop { .. }));
    kind.is_pure() || structure || kind.is_terminator()
}

impl<O: MiddleOp, T: MiddleType> Regions<'_, O, T> {
    fn terminated(&self, region: Region) -> Rule {
        let ended = match self.body.regions[region].blocks[..] {
            [block] => self.body.terminator(block).is_some(),
            _ => false,
        };
        require(ended, || format!("{region} must be one block that ends in a terminator"))
    }

    fn types(&self, values: &[Value]) -> Vec<&T> {
        values.iter().map(|value| self.body.ty(*value)).collect()
    }

    /// Checks that the values of one list can be forwarded to those of the other.
    fn flow(&self, what: &str, from: &[Value], to: &[Value]) -> Rule {
        let fit = from.len() == to.len() && self.types(from).iter().zip(self.types(to)).all(|(from, to)| from.fits(to));
        require(fit, || format!("{what} have types or a number that do not fit"))?;
        let views = self.types(to).iter().any(|ty| matches!(ty.seen(), Seen::MemRef(_) | Seen::View(_)));
        require(!views, || format!("{what} include a memref or view, which control flow does not carry"))
    }

    fn args(&self, region: Region) -> &[Value] {
        &self.body.blocks[self.body.block_of(region)].args
    }

    fn arguments(&self, op: OpId) -> Rule {
        let node = &self.body.ops[op];
        match node.kind.core() {
            Some(Core::If { then, otherwise, .. }) => {
                let none = self.args(*then).is_empty() && self.args(*otherwise).is_empty();
                require(none, || "its regions take no arguments".into())
            }
            Some(Core::For { lower, init, body, .. }) => {
                let Some((index, carried)) = self.args(*body).split_first() else {
                    return Err("its body takes the loop index".into());
                };
                require(self.body.ty(*index) == self.body.ty(*lower), || "the index has the type of the bounds".into())?;
                self.flow("initial values", init, carried)?;
                self.flow("initial values", init, &node.results)
            }
            Some(Core::Loop { init, body }) => self.flow("initial values", init, self.args(*body)),
            _ => match node.kind.combination() {
                Some((operands, body)) => self.combined(operands, self.args(body)),
                None => Ok(()),
            },
        }
    }

    fn combined(&self, operands: &[Value], args: &[Value]) -> Rule {
        let seen = |value: &Value| self.body.ty(*value).seen();
        let is_element = |arg: &Value, operand: &Value| match seen(operand) {
            Seen::Tile { elem, .. } => seen(arg) == Seen::Tile { elem, shape: &[] },
            _ => false,
        };
        let pairs = args.len() == 2 * operands.len()
            && args.chunks(2).zip(operands).all(|(pair, operand)| pair.iter().all(|arg| is_element(arg, operand)));
        require(pairs, || "its body takes a left and a right element for each operand".into())
    }

    fn terminator(&self, op: OpId) -> Rule {
        let body = self.body;
        let target = self.nesting.target[op.0 as usize];
        let results = |target: OpId| &body.ops[target].results[..];
        let receiver = target.map(|target| (target, &body.ops[target].kind));
        match body.ops[op].kind.core() {
            Some(Core::Return {}) => require(!self.nesting.in_combiner[op.0 as usize], || "a reduction cannot be left".into()),
            Some(Core::Yield { values }) => match receiver {
                None => Err("a function is left by return".into()),
                Some((target, kind)) => match (kind.core(), kind.combination()) {
                    (Some(Core::If { .. }), _) => self.flow("yielded values", values, results(target)),
                    (_, Some((_, region))) => {
                        let left: Vec<Value> = self.args(region).iter().step_by(2).copied().collect();
                        self.flow("yielded values", values, &left)
                    }
                    _ => Err("only an if, reduce or scan is yielded to".into()),
                },
            },
            Some(Core::Continue { values }) => match receiver.map(|(target, kind)| (target, kind.core())) {
                Some((target, Some(Core::For { body: region, .. }))) => {
                    self.flow("carried values", values, &self.args(*region)[1..])?;
                    self.flow("carried values", values, results(target))
                }
                Some((_, Some(Core::Loop { body: region, .. }))) => self.flow("carried values", values, self.args(*region)),
                _ => Err("it is not in a loop".into()),
            },
            Some(Core::Break { values }) => match target {
                Some(target) => self.flow("values of break", values, results(target)),
                None => Err("it is not in a loop that can be left".into()),
            },
            _ => Ok(()),
        }
    }
}
