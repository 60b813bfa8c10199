//! Converts ops of the core dialect. Ops on scalars are emitted once. Ops on tiles are emitted once for each layout in which uses
//! rematerialize the tile, or once in the assigned layout.

use super::Converter;
use crate::slices;
use base::Value;
use base::diag::Result;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use tileas::{Layout, Type};

impl Converter<'_> {
    /// Converts an op of the core dialect.
    pub(super) fn convert_core(&mut self, op: OpId, core: &Core) -> Result<()> {
        match core {
            core if core.is_structured() => self.convert_region_op(op, core),
            Core::Yield { .. } | Core::Continue { .. } | Core::Break { .. } | Core::Return {} => self.convert_terminator(op, core),
            Core::Extract { .. } if self.mmas.chain_of_slice(op).is_some() => {
                self.load_accumulator_slice(op);
                Ok(())
            }
            Core::Binary { .. } if self.mmas.chain_of_scale(op).is_some() => self.scale_accumulator(op),
            Core::Extract { .. } if self.assigned_layouts.get(self.from.body.result(op)).is_none() => Ok(()),
            Core::Extract { .. } | Core::Insert { .. } | Core::Cat { .. } | Core::Reinterpret { .. } => self.shape_op(op, core),
            _ => self.simple_op(op, core),
        }
    }

    /// Converts an op without regions whose result tile has the layout of its operands. Emits nothing if each use rematerializes
    /// the result.
    fn simple_op(&mut self, op: OpId, core: &Core) -> Result<()> {
        let results = &self.from.body.ops[op].results;
        let is_rematerialized = results.len() == 1 && self.is_tile(results[0]) && self.assigned_layouts.get(results[0]).is_none();
        if is_rematerialized {
            return Ok(());
        }
        if results.len() == 1 && self.is_tile(results[0]) {
            let assigned_layout = self.assigned_layouts.or_default(self.from, results[0]);
            let new = self.emit_in_layout(results[0], &assigned_layout)?;
            let id = self.module.layout_id(assigned_layout);
            self.remember(results[0], Some(id), new);
            return Ok(());
        }
        let loc = self.from.body.ops[op].loc;
        let mut new = core.clone();
        let operands = core.operands().iter().map(|value| self.in_assigned_layout(*value)).collect::<Result<Vec<Value>>>()?;
        substitute_operands(&mut new, &operands);
        let types = results.iter().map(|value| self.scalar_type(*value)).collect::<Result<Vec<Type>>>()?;
        let by_one_thread = matches!(new, Core::Alloca { .. });
        let mut values = self.emit(new, types, loc);
        if by_one_thread {
            values[0] = self.broadcast_result(op, values[0]);
        }
        self.remember_results(op, &values);
        Ok(())
    }

    /// Emits the op that defines the tile `value`, so that the new result has `layout`. If a copy fills a buffer with the tile,
    /// emits a load from this buffer. Returns the new tile.
    pub(super) fn emit_in_layout(&mut self, value: Value, layout: &Layout) -> Result<Value> {
        let op = self.from.body.defining_op(value).expect("block arguments have assigned layouts");
        let node = &self.from.body.ops[op];
        if let Some(&buffer) = self.buffered.get(&value) {
            let (elem, shape) = self.elem_shape(value);
            let ty = self.tile_type(elem, &shape, layout.clone());
            return Ok(self.shared_load(buffer, ty, layout, node.loc));
        }
        let tileaa::Op::Core(core) = &node.kind else { unreachable!("only core ops define values without an assigned layout") };
        let (elem, shape) = self.elem_shape(value);
        let mut operands = Vec::new();
        for operand in core.operands() {
            let new = if self.is_tile(operand) {
                let source = self.elem_shape(operand).1;
                let desired = match core {
                    Core::Broadcast { .. } => layout.unbroadcast(&source, &shape),
                    Core::Permute { order, .. } => layout.unpermute(&shape, order),
                    Core::Extract { .. } => slices::layout_of_whole(layout, &source, &shape),
                    // Reshapes keep linear element indices, and elementwise ops keep elements.
                    _ => layout.clone(),
                };
                self.tile_in_layout(operand, &desired)?
            } else {
                self.non_tile(operand)?
            };
            operands.push(new);
        }
        let mut new = core.clone();
        substitute_operands(&mut new, &operands);
        let ty = self.tile_type(elem, &shape, layout.clone());
        Ok(self.emit_one(new, ty, node.loc))
    }
}

/// Replaces the operands of an op by `operands`, in operand order.
fn substitute_operands(core: &mut Core, operands: &[Value]) {
    let mut next = operands.iter();
    core.for_each_operand_mut(&mut |value| *value = *next.next().expect("as many operands as before"));
}
