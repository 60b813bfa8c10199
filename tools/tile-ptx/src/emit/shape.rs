//! Ops that only rename elements, and conversions that stay within a thread.

use super::Emitter;
use base::Value;
use base::core_ops::Core;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use tileas::layout::Strides;

impl Emitter<'_, '_> {
    pub(super) fn rename(&mut self, op: OpId, core: &Core, result: Value) -> Result<()> {
        let operand = base::ir::Operation::operands(core)[0];
        let (from_shape, to_shape) = (self.ty(operand).shape().to_vec(), self.ty(result).shape().to_vec());
        let (from, to) = (Strides::of(&from_shape), Strides::of(&to_shape));
        let source = |element: u32| -> u32 {
            match core {
                Core::Permute { order, .. } => {
                    (0..to_shape.len()).map(|k| to.coordinate(element, k) << from.shift[order[k] as usize]).sum()
                }
                Core::Broadcast { .. } if from_shape.is_empty() => 0,
                Core::Broadcast { .. } => {
                    (0..to_shape.len()).filter(|&d| from_shape[d] != 1).map(|d| to.coordinate(element, d) << from.shift[d]).sum()
                }
                _ => element,
            }
        };
        self.rename_registers(op, operand, result, source)
    }

    pub(super) fn convert_layout(&mut self, op: OpId, operand: Value, result: Value) -> Result<()> {
        self.rename_registers(op, operand, result, |element| element)
    }

    fn rename_registers(&mut self, op: OpId, operand: Value, result: Value, source: impl Fn(u32) -> u32) -> Result<()> {
        let (from, to) = (self.layout(operand), self.layout(result));
        let Some(names) = to.renaming(&from, source) else {
            let name = base::ir::Operation::mnemonic(&self.function.body.ops[op].kind);
            return Err(Diagnostic::invalid(
                "PX005",
                format!("'{name}' of {operand} to {result} would move elements between threads"),
            ));
        };
        let registers = names.into_iter().map(|register| self.get(operand)[register]).collect();
        self.set(result, registers);
        Ok(())
    }
}
