//! Packed arithmetic on register pairs (`f32x2`), and the analysis that keeps loaded values in vectors for it.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::ir::Operation;
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use inkwell::values::VectorValue;
use sched::Op;
use sched::packed_ops::{Packed, moves_vectors};

/// For each SSA value, whether all its users access neighbouring registers as vectors.
pub(super) struct VectorUses {
    only_vector_uses: Vec<bool>,
}

impl VectorUses {
    /// Finds the values whose users all access neighbouring registers as vectors.
    pub(super) fn collect(function: &sched::Function) -> VectorUses {
        let body = &function.body;
        let mut only_vector_uses = vec![true; body.values.len()];
        // Visit users before definitions.
        for op in body.walk(function.region).into_iter().rev() {
            let node = &body.ops[op];
            let is_reshape = matches!(node.kind, Op::Core(tileas::Op::Core(Core::Reshape { .. })));
            let forwards_vectors = is_reshape && only_vector_uses[node.results[0].0 as usize];
            if !(matches!(node.kind, Op::Pairs { .. }) || moves_vectors(&node.kind) || forwards_vectors) {
                node.kind.operands().into_iter().for_each(|operand| only_vector_uses[operand.0 as usize] = false);
            }
        }
        VectorUses { only_vector_uses }
    }

    /// Whether a loaded tile stays in vectors: its elements are narrower than a 32-bit register, or no user splits the vectors.
    pub(super) fn stays_in_vectors(&self, value: Value, elem: Elem) -> bool {
        elem.bits() < 32 || self.only_vector_uses[value.0 as usize]
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits an op as packed arithmetic on pairs of registers.
    pub(super) fn emit_packed_op(&mut self, op: &tileas::Op, result: Value) {
        let packed = Packed::from_op(op).expect("the verifier checks that pairs have the operation");
        let (operands, count) = (op.operands(), self.layout(result).registers());
        let mut registers = Vec::with_capacity(count);
        for first in (0..count).step_by(2) {
            let args: Vec<Val<'c>> =
                operands.iter().map(|operand| self.ir.pack(&self.registers_of(*operand)[first..first + 2])).collect();
            let pair = self.ir.unpack(self.packed_arithmetic(packed, &args), 2);
            registers.extend(pair);
        }
        self.set_registers(result, registers);
    }
    /// Emits one packed operation on vectors of two elements.
    pub(super) fn packed_arithmetic(&self, packed: Packed, args: &[Val<'c>]) -> Val<'c> {
        let vectors: Vec<VectorValue<'c>> = args.iter().map(|arg| arg.into_vector_value()).collect();
        let builder = &self.ir.builder;
        let intrinsic = |name| self.ir.intrinsic_value(name, &[args[0].get_type()], args);
        match packed {
            Packed::Add => builder.build_float_add(vectors[0], vectors[1], "").expect("vectors fit").into(),
            Packed::Sub => builder.build_float_sub(vectors[0], vectors[1], "").expect("vectors fit").into(),
            Packed::Mul => builder.build_float_mul(vectors[0], vectors[1], "").expect("vectors fit").into(),
            Packed::Fma => intrinsic("llvm.fma"),
            Packed::Max { propagate_nan } => intrinsic(if propagate_nan { "llvm.maximum" } else { "llvm.maxnum" }),
            Packed::Min { propagate_nan } => intrinsic(if propagate_nan { "llvm.minimum" } else { "llvm.minnum" }),
        }
    }
}
