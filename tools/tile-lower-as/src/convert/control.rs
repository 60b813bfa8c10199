//! Converts loops, conditions and terminators. Loop-carried tiles and result tiles have their assigned layouts.

use super::{Converter, Scope};
use base::diag::Result;
use base::ir::{Op as OpId, OpNode, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::{LoopBounds, LoopOp, StructuredOp};
use tileas::Type;

impl Converter<'_> {
    /// Converts a loop or condition. Its results have their assigned layouts.
    pub(super) fn convert_region_op(&mut self, op: OpId, core: &Core) -> Result<()> {
        let loc = self.from.body.ops[op].loc;
        let results = self.from.body.ops[op].results.clone();
        let types = results.iter().map(|value| self.assigned_type(*value)).collect::<Result<Vec<Type>>>()?;
        let new = match core.as_structured() {
            Some(StructuredOp::If(branch)) => {
                let cond = self.non_tile(branch.cond)?;
                Core::new_if(cond, [self.convert_region(branch.then, &[])?, self.convert_region(branch.otherwise, &[])?])
            }
            Some(StructuredOp::Loop(loop_op)) => {
                let bounds = loop_op.bounds.map(|bounds| self.convert_bounds(bounds)).transpose()?;
                let args = self.from.body.blocks[loop_op.block(&self.from.body)].args.clone();
                let init = self.convert_inits(loop_op.init, &args[loop_op.counter_args()..])?;
                Core::new_loop(bounds, init, self.convert_region(loop_op.body, &args)?)
            }
            None => unreachable!("the caller passes ops with regions only"),
        };
        let values = self.emit(new, types, loc);
        self.remember_results(op, &values);
        results.iter().for_each(|result| self.load_final_accumulator(*result));
        Ok(())
    }

    /// The new bounds of a `for`.
    fn convert_bounds(&mut self, bounds: LoopBounds) -> Result<LoopBounds> {
        let LoopBounds { lower, upper, step, unsigned } = bounds;
        Ok(LoopBounds { lower: self.non_tile(lower)?, upper: self.non_tile(upper)?, step: self.non_tile(step)?, unsigned })
    }

    /// The new inits of loop-carried values, in the layouts of the arguments that receive them.
    fn convert_inits(&mut self, init: &[Value], args: &[Value]) -> Result<Vec<Value>> {
        init.iter().zip(args).map(|(init, receiver)| self.value_for_receiver(*init, *receiver)).collect()
    }

    /// The new value of `value` for the old argument or result `receiver` to which control flow forwards it. A tile is in the
    /// assigned layout of `receiver`. A TMEM accumulator becomes its `zero_init` predicate.
    fn value_for_receiver(&mut self, value: Value, receiver: Value) -> Result<Value> {
        if self.mmas.is_accumulator(receiver) {
            return Ok(self.zero_init_predicate(value));
        }
        if !self.is_tile(value) {
            return self.non_tile(value);
        }
        let layout = self.assigned_layouts.or_default(self.from, receiver);
        self.tile_in_layout(value, &layout)
    }

    /// Converts a region of the old function to a new region. `args` are the old arguments of its block. A region without arguments
    /// is a side of an `if`.
    pub(super) fn convert_region(&mut self, from: Region, args: &[Value]) -> Result<Region> {
        let region = self.to.new_region();
        let block = self.to.new_block(region);
        let outer_block = std::mem::replace(&mut self.block, block);
        self.scopes.push(Scope::new(block, !args.is_empty()));
        for &arg in args {
            let ty = self.assigned_type(arg)?;
            let layout = ty.layout();
            let new = self.to.add_argument(block, ty);
            self.remember(arg, layout, new);
        }
        self.convert_ops(self.from.body.block_of(from))?;
        self.scopes.pop();
        self.block = outer_block;
        Ok(region)
    }

    /// Converts a terminator. Its operands have the assigned layouts of the arguments or results that receive them.
    pub(super) fn convert_terminator(&mut self, op: OpId, core: &Core) -> Result<()> {
        let receivers = self.receivers(op, core);
        let values = core.operands().into_iter().zip(receivers).map(|(value, receiver)| self.value_for_receiver(value, receiver));
        let values = values.collect::<Result<Vec<Value>>>()?;
        let new = match core {
            Core::Yield { .. } => Core::Yield { values },
            Core::Continue { .. } => Core::Continue { values },
            Core::Break { .. } => Core::Break { values },
            Core::Return {} => Core::Return {},
            other => unreachable!("'{}' leaves no region", other.mnemonic()),
        };
        self.emit(new, [], self.from.body.ops[op].loc);
        Ok(())
    }

    /// The old values to which a terminator forwards its operands: results of an `if`, or arguments or results of a loop.
    fn receivers(&self, op: OpId, core: &Core) -> Vec<Value> {
        let body = &self.from.body;
        let mut ancestors = std::iter::successors(self.parent_op(op), |op| self.parent_op(*op)).map(|op| &body.ops[op]);
        match core {
            Core::Yield { .. } => match ancestors.next().filter(|parent| parent.kind.core().is_some_and(Core::is_if)) {
                Some(parent) => parent.results.to_vec(),
                // The body of a reduction yields scalars, which need no layout.
                None => core.operands().to_vec(),
            },
            Core::Continue { .. } => {
                let target = ancestors.find_map(as_loop_op).expect("verified: `continue` is in a loop");
                target.carried_args(body).to_vec()
            }
            Core::Break { .. } => {
                let is_unbounded = |node: &&OpNode<tileaa::Op>| as_loop_op(node).is_some_and(|inner| inner.bounds.is_none());
                ancestors.find(is_unbounded).expect("verified: `break` is in a `loop`").results.to_vec()
            }
            Core::Return {} => Vec::new(),
            other => unreachable!("'{}' leaves no region", other.mnemonic()),
        }
    }

    /// The op of the old function with the region that directly contains `op`. `None` in the entry block.
    fn parent_op(&self, op: OpId) -> Option<OpId> {
        self.parents[op.0 as usize]
    }
}

/// The loop view of an op; `None` if the op is no loop.
fn as_loop_op(node: &OpNode<tileaa::Op>) -> Option<LoopOp<'_>> {
    node.kind.core().and_then(Core::as_loop)
}

/// The parent of each op, by op id: the op with the region that directly contains it. `None` for ops of the entry block.
pub(super) fn parent_ops(function: &tileaa::Function) -> Vec<Option<OpId>> {
    let body = &function.body;
    let mut parents = vec![None; body.ops.len()];
    for (parent, node) in body.ops.iter() {
        for region in node.kind.regions() {
            for op in body.regions[region].blocks.iter().flat_map(|block| &body.blocks[*block].ops) {
                parents[op.0 as usize] = Some(parent);
            }
        }
    }
    parents
}
