//! Rules for regions, terminators, and the values that terminators forward.

use super::{CoreDialectOp, CoreDialectType, CoreType, OpParents, RuleResult, describe_op, require};
use crate::core_ops::Core;
use crate::structured_ops::{IfOp, LoopOp, Terminator};
use base::ir::{Op as OpId, Region};
use base::{Body, Loc, Value};

/// Maximum nesting depth of ops. With this limit, recursion over nested ops cannot overflow the stack.
pub const MAX_NESTED: u32 = 256;

/// The inputs of the rules for the regions of one function.
struct RegionRules<'a, O, T> {
    body: &'a Body<O, T>,
    parents: OpParents,
}

/// Checks all regions and terminators under `root`, whose structure must be valid. `loc` is the location of the function.
pub fn check_regions<O: CoreDialectOp, T: CoreDialectType>(body: &Body<O, T>, root: Region, loc: Loc) -> Result<(), (Loc, String)> {
    let rules = RegionRules { body, parents: OpParents::analyse(body, root) };
    let is_shallow = rules.parents.deepest <= MAX_NESTED;
    require(is_shallow, || format!("ops are nested deeper than {MAX_NESTED} levels")).map_err(|message| (loc, message))?;
    rules.check_terminated(root).map_err(|message| (loc, message))?;
    let error_at = |op: OpId, message: String| (body.ops[op].loc, format!("{}: {message}", describe_op(body, op)));
    for (op, node) in body.ops.iter() {
        if rules.parents.in_combiner[op.0 as usize] && !is_allowed_in_combiner(&node.kind) {
            return Err(error_at(op, "the body of a reduction or scan must be pure".into()));
        }
        let result = node.kind.regions().iter().try_for_each(|region| rules.check_terminated(*region));
        result.and_then(|()| rules.check_arguments(op)).map_err(|message| error_at(op, message))?;
    }
    // `check_terminator` indexes the regions and arguments that the loop above has checked.
    body.ops.ids().try_for_each(|op| rules.check_terminator(op).map_err(|message| error_at(op, message)))
}

/// Returns whether the body of a reduction or scan may contain an op: a pure op, or structured control flow.
fn is_allowed_in_combiner(kind: &impl CoreDialectOp) -> bool {
    let is_structured = kind.core().is_some_and(Core::is_structured);
    kind.is_pure() || is_structured || kind.is_terminator()
}

impl<O: CoreDialectOp, T: CoreDialectType> RegionRules<'_, O, T> {
    /// Checks that a region is one block that ends in a terminator.
    fn check_terminated(&self, region: Region) -> RuleResult {
        let is_terminated = match self.body.regions[region].blocks[..] {
            [block] => self.body.terminator(block).is_some(),
            _ => false,
        };
        require(is_terminated, || format!("{region} must be one block that ends in a terminator"))
    }

    /// The types of values.
    fn types(&self, values: &[Value]) -> Vec<&T> {
        values.iter().map(|value| self.body.ty(*value)).collect()
    }

    /// Checks that control flow can forward the values `from` to the values `to`. `what` describes the values `from` in a message.
    fn check_forwarding(&self, what: &str, from: &[Value], to: &[Value]) -> RuleResult {
        let fit = from.len() == to.len() && self.types(from).iter().zip(self.types(to)).all(|(from, to)| from.fits(to));
        require(fit, || format!("{what} have types or a number that do not fit"))?;
        let views = self.types(to).iter().any(|ty| matches!(ty.core_type(), CoreType::MemRef(_) | CoreType::View(_)));
        require(!views, || format!("{what} include a memref or view, which control flow does not carry"))
    }

    /// The arguments of a region's block.
    fn args(&self, region: Region) -> &[Value] {
        &self.body.blocks[self.body.block_of(region)].args
    }

    /// Checks the arguments of an op's regions.
    fn check_arguments(&self, op: OpId) -> RuleResult {
        let node = &self.body.ops[op];
        let core = node.kind.core();
        if let Some(IfOp { then, otherwise, .. }) = core.and_then(Core::as_if) {
            let has_none = self.args(then).is_empty() && self.args(otherwise).is_empty();
            return require(has_none, || "its regions take no arguments".into());
        }
        if let Some(LoopOp { bounds, init, body }) = core.and_then(Core::as_loop) {
            let Some(bounds) = bounds else { return self.check_forwarding("initial values", init, self.args(body)) };
            let Some((index, carried)) = self.args(body).split_first() else {
                return Err("its body takes the loop index".into());
            };
            require(self.body.ty(*index) == self.body.ty(bounds.lower), || "the index has the type of the bounds".into())?;
            self.check_forwarding("initial values", init, carried)?;
            return self.check_forwarding("initial values", init, &node.results);
        }
        match node.kind.combination() {
            Some((operands, body)) => self.check_combiner_arguments(operands, self.args(body)),
            None => Ok(()),
        }
    }

    /// Checks the arguments of the body of a reduction or scan: two scalars for each operand.
    fn check_combiner_arguments(&self, operands: &[Value], args: &[Value]) -> RuleResult {
        let core_type = |value: &Value| self.body.ty(*value).core_type();
        let is_element = |arg: &Value, operand: &Value| match core_type(operand) {
            CoreType::Tile { elem, .. } => core_type(arg) == CoreType::Tile { elem, shape: &[] },
            _ => false,
        };
        let pairs = args.len() == 2 * operands.len()
            && args.chunks(2).zip(operands).all(|(pair, operand)| pair.iter().all(|arg| is_element(arg, operand)));
        require(pairs, || "its body takes a left and a right element for each operand".into())
    }

    /// Checks that a terminator has a target, and that the target can receive its values.
    fn check_terminator(&self, op: OpId) -> RuleResult {
        let body = self.body;
        let target = self.parents.target[op.0 as usize];
        let results = |target: OpId| &body.ops[target].results[..];
        let receiver = target.map(|target| (target, &body.ops[target].kind));
        match body.ops[op].kind.core().and_then(Core::as_terminator) {
            Some(Terminator::Return) => require(!self.parents.in_combiner[op.0 as usize], || "a reduction cannot be left".into()),
            Some(Terminator::Yield(values)) => match receiver {
                None => Err("a function is left by return".into()),
                Some((target, kind)) => match (kind.core(), kind.combination()) {
                    (Some(core), _) if core.is_if() => self.check_forwarding("yielded values", values, results(target)),
                    (_, Some((_, region))) => {
                        let left: Vec<Value> = self.args(region).iter().step_by(2).copied().collect();
                        self.check_forwarding("yielded values", values, &left)
                    }
                    _ => Err("only an if, reduce or scan is yielded to".into()),
                },
            },
            Some(Terminator::Continue(values)) => {
                let loop_op = receiver.and_then(|(target, kind)| Some((target, kind.core()?.as_loop()?)));
                let (target, loop_op) = loop_op.ok_or("it is not in a loop")?;
                self.check_forwarding("carried values", values, loop_op.carried_args(body))?;
                if loop_op.bounds.is_none() {
                    return Ok(());
                }
                self.check_forwarding("carried values", values, results(target))
            }
            Some(Terminator::Break(values)) => match target {
                Some(target) => self.check_forwarding("values of break", values, results(target)),
                None => Err("it is not in a loop that can be left".into()),
            },
            None => Ok(()),
        }
    }
}
