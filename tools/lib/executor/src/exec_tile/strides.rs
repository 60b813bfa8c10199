//! Deferred checks of `assume` ops on strides; see [`stride_assumptions`].

use super::{TileProgram, memory};
use crate::check::stride_assumptions::{self, Use};
use crate::check::{Check, assume};
use crate::exec::Env;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;
use tileir::types::DYNAMIC;
use tileir::{Op, Type, TypeId};

fn stride_use(op: &Op) -> Use<'_> {
    match op {
        Op::Assume { value, .. } => Use::Assume(*value),
        Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
            Use::Tensor { others: dynamic_shape.iter().chain([base]).copied().collect(), strides: dynamic_strides }
        }
        _ => Use::Other,
    }
}

/// Returns the `assume` ops whose results only strides use.
pub(super) fn assumptions(body: &Body<Op, TypeId>) -> BTreeSet<OpId> {
    stride_assumptions::assumptions(body, stride_use)
}

impl TileProgram<'_> {
    /// Reports violated assumptions about strides of dimensions with more than one element.
    pub(super) fn check_strides(&self, op: OpId, strides: &[Id], sizes: &[i64], env: &mut Env<'_>) {
        if self.stride_assumes.is_empty() || !env.world.checks(Check::Assume) {
            return;
        }
        let Type::TensorView { strides: known, .. } = self.ty(self.function.body.result(op)) else { return };
        let dims = (0..known.len()).filter(|dim| known[*dim] == DYNAMIC);
        for (_, stride) in dims.zip(strides).filter(|(dim, _)| sizes[*dim] > 1) {
            for (assumption, value) in stride_assumptions::chain(&self.function.body, &self.stride_assumes, *stride, stride_use) {
                let node = &self.function.body.ops[assumption];
                if let Op::Assume { predicate, .. } = &node.kind
                    && let Some(violation) =
                        memory::fact_of_predicate(predicate).and_then(|fact| assume::violation(&fact, env.tile(value)))
                {
                    env.world.report(Check::Assume, node.loc, format!("an assumption does not hold: {violation}"));
                }
            }
        }
    }
}
