//! Deferred checks of `assume` ops on strides of tensor views. [`stride_assumptions`] explains why the checks are deferred.

use super::{TileProgram, memory};
use crate::check::assume;
use crate::check::stride_assumptions::{self, StrideUse};
use crate::check_kind::Check;
use crate::exec::Env;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;
use tileir::types::DYNAMIC;
use tileir::{Op, Type, TypeId};

/// Returns how an op uses its operands as strides of a tensor view.
fn stride_use(op: &Op) -> StrideUse<'_> {
    match op {
        Op::Assume { value, .. } => StrideUse::Assume(*value),
        Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
            StrideUse::Tensor { other_operands: dynamic_shape.iter().chain([base]).copied().collect(), strides: dynamic_strides }
        }
        _ => StrideUse::Other,
    }
}

/// Returns the `assume` ops whose results are only strides of tensor views.
pub(super) fn stride_only_assumes(body: &Body<Op, TypeId>) -> BTreeSet<OpId> {
    stride_assumptions::stride_only_assumes(body, stride_use)
}

impl TileProgram<'_> {
    /// Reports violated assumptions about strides of dimensions with more than one element.
    pub(super) fn check_strides(&self, op: OpId, strides: &[Id], sizes: &[i64], env: &mut Env<'_>) {
        if self.stride_assumes.is_empty() || !env.kernel_memory.checks(Check::Assume) {
            return;
        }
        let Type::TensorView { strides: stride_types, .. } = self.ty(self.function.body.result(op)) else { return };
        let dynamic_dims = (0..stride_types.len()).filter(|dim| stride_types[*dim] == DYNAMIC);
        for (_, stride) in dynamic_dims.zip(strides).filter(|(dim, _)| sizes[*dim] > 1) {
            for (assumption, value) in
                stride_assumptions::assume_chain(&self.function.body, &self.stride_assumes, *stride, stride_use)
            {
                let node = &self.function.body.ops[assumption];
                if let Op::Assume { predicate, .. } = &node.kind
                    && let Some(violation) =
                        memory::fact_of_predicate(predicate).and_then(|fact| assume::violation(&fact, env.tile(value)))
                {
                    env.kernel_memory.report(Check::Assume, node.loc, format!("an assumption does not hold: {violation}"));
                }
            }
        }
    }
}
