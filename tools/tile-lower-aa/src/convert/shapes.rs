//! Converts ops that rearrange elements, and `assume`.

use super::Converter;
use super::wrong_group;
use core_dialect::core_ops::{Core, Fact};
use tileir::{Attribute, Op};

impl Converter<'_> {
    /// The core op for an op that rearranges elements, or for an `assume`.
    pub(super) fn shape_op(&self, op: &Op) -> Core {
        match op {
            Op::Iota {} => Core::Iota {},
            Op::Broadcast { source } => Core::Broadcast { x: self.new_value(*source) },
            Op::Reshape { source } => Core::Reshape { x: self.new_value(*source) },
            Op::Permute { permutation, source } => {
                Core::Permute { x: self.new_value(*source), order: permutation.iter().map(|dim| *dim as u32).collect() }
            }
            Op::Cat { dim, lhs, rhs } => Core::Cat { lhs: self.new_value(*lhs), rhs: self.new_value(*rhs), dim: *dim as u32 },
            Op::Extract { source, indices } => Core::Extract { x: self.new_value(*source), indices: self.new_values(indices) },
            Op::Insert { source, destination, indices } => {
                Core::Insert { x: self.new_value(*source), into: self.new_value(*destination), indices: self.new_values(indices) }
            }
            Op::Pack { source } | Op::Unpack { source } => Core::Reinterpret { x: self.new_value(*source) },
            Op::Assume { predicate, value } => Core::Assume { value: self.new_value(*value), fact: assumed_fact(predicate) },
            op => wrong_group(op),
        }
    }
}

/// The fact that an `assume` op states with a predicate.
fn assumed_fact(predicate: &Attribute) -> Fact {
    match predicate {
        Attribute::DivBy { divisor, every, along } => Fact::DivBy { divisor: *divisor, every: *every, along: *along },
        Attribute::SameElements(groups) => Fact::SameElements { groups: groups.to_vec() },
        Attribute::Bounded { lower, upper } => Fact::Bounded { low: *lower, high: *upper },
        other => unreachable!("the verifier of .tile rejects {other:?} as a predicate of assume"),
    }
}
