//! Assumptions about strides, which matter only where the stride addresses something.
//!
//! cuTile Python assumes a divisor of each stride, also of a dimension of extent 1, whose stride is never multiplied by anything but
//! zero. An assumption that only strides depend on is therefore checked where the tensor view is made, when the extent is known.

use super::{TileProgram, memory};
use crate::check::{Check, assume};
use crate::exec::Env;
use base::ir::Operation;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;
use tileir::types::DYNAMIC;
use tileir::{Op, Type, TypeId};

/// The `assume` ops whose results are used by nothing but other such ops and as strides of `make_tensor_view`.
pub(super) fn assumptions(body: &Body<Op, TypeId>) -> BTreeSet<OpId> {
    let (mut as_stride, mut other_uses): (BTreeSet<Id>, BTreeSet<Id>) = Default::default();
    for (_, node) in body.ops.iter() {
        match &node.kind {
            Op::Assume { .. } => {}
            Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
                other_uses.extend(dynamic_shape.iter().chain([base]));
                as_stride.extend(dynamic_strides);
            }
            kind => kind.for_each_operand(&mut |value| {
                other_uses.insert(value);
            }),
        }
    }
    // Uses come after definitions, so a chain is seen from its end.
    let mut found = BTreeSet::new();
    let chain: Vec<(OpId, Id, Id)> = body
        .ops
        .iter()
        .filter_map(|(op, node)| match &node.kind {
            Op::Assume { value, .. } => Some((op, *value, node.results[0])),
            _ => None,
        })
        .collect();
    for (op, value, result) in chain.into_iter().rev() {
        if other_uses.contains(&result) {
            other_uses.insert(value);
        } else if as_stride.contains(&result) {
            as_stride.insert(value);
            found.insert(op);
        }
    }
    found
}

impl TileProgram<'_> {
    /// Reports the assumptions about strides of dimensions with more than one element.
    pub(super) fn check_strides(&self, op: OpId, strides: &[Id], sizes: &[i64], env: &mut Env<'_>) {
        if self.of_strides.is_empty() || !env.world.checks(Check::Assume) {
            return;
        }
        let Type::TensorView { strides: known, .. } = self.ty(self.function.body.result(op)) else { return };
        let dims = (0..known.len()).filter(|dim| known[*dim] == DYNAMIC);
        for (_, stride) in dims.zip(strides).filter(|(dim, _)| sizes[*dim] > 1) {
            let mut at = *stride;
            while let Some((assumption, Op::Assume { predicate, value })) = self.defined_by(at) {
                if self.of_strides.contains(&assumption)
                    && let Some(violation) = memory::fact(predicate).and_then(|fact| assume::violation(&fact, env.tile(at)))
                {
                    let loc = self.function.body.ops[assumption].loc;
                    env.world.report(Check::Assume, loc, format!("an assumption does not hold: {violation}"));
                }
                at = *value;
            }
        }
    }

    fn defined_by(&self, value: Id) -> Option<(OpId, &Op)> {
        let found = self.function.body.ops.iter().find(|(_, node)| node.results.contains(&value));
        found.map(|(op, node)| (op, &node.kind))
    }
}
