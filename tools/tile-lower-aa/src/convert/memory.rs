//! Converts memory accesses, reductions, scans and MMAs.

use super::wrong_group;
use super::{Converter, as_u32, hint_entry};
use base::diag::{Diagnostic, Result};
use core_dialect::memory::{MemoryOrdering, MemoryScope, MulticastWrite};
use numerics::arith::Signedness;
use tileaa::ops::{AccessHint, Identity, Order};
use tileir::enums::Direction;
use tileir::types::Dictionary;
use tileir::{Attribute, Op};

impl Converter<'_> {
    /// The `.aa` op for an access to a tile of a view.
    pub(super) fn view_access(&self, op: &Op) -> tileaa::Op {
        match op {
            Op::LoadViewTko { memory_ordering, memory_scope, optimization_hints, inbounds, view, index, token } => {
                tileaa::Op::LoadView {
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    in_bounds: inbounds.to_vec(),
                    hints: self.access_hints(optimization_hints.as_deref()),
                }
            }
            Op::StoreViewTko { memory_ordering, memory_scope, optimization_hints, inbounds, tile, view, index, token } => {
                tileaa::Op::StoreView {
                    tile: self.new_value(*tile),
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    in_bounds: inbounds.to_vec(),
                    hints: self.access_hints(optimization_hints.as_deref()),
                }
            }
            Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds, view, index, value, token } => {
                tileaa::Op::ReduceView {
                    tile: self.new_value(*value),
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, Some(*memory_scope)),
                    in_bounds: inbounds.to_vec(),
                    mode: *mode,
                }
            }
            Op::MultimemLoadReduceViewTko { memory_ordering, memory_scope, reduction, inbounds, view, index, token } => {
                tileaa::Op::MulticastLoad {
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    in_bounds: inbounds.to_vec(),
                    reduction: *reduction,
                }
            }
            Op::MultimemReduceViewTko { memory_ordering, memory_scope, reduction, inbounds, view, tile, index, token } => {
                tileaa::Op::MulticastStore {
                    tile: self.new_value(*tile),
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, Some(*memory_scope)),
                    in_bounds: inbounds.to_vec(),
                    write: MulticastWrite::Combine(*reduction),
                }
            }
            Op::MultimemStoreViewTko { memory_ordering, memory_scope, inbounds, view, tile, index, token } => {
                tileaa::Op::MulticastStore {
                    tile: self.new_value(*tile),
                    view: self.new_value(*view),
                    index: self.new_values(index),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    in_bounds: inbounds.to_vec(),
                    write: MulticastWrite::Replace,
                }
            }
            op => wrong_group(op),
        }
    }

    /// The `.aa` op for an access through a tile of pointers.
    pub(super) fn pointer_access(&self, op: &Op) -> tileaa::Op {
        match op {
            Op::LoadPtrTko { memory_ordering, memory_scope, optimization_hints, source, mask, padding_value, token } => {
                tileaa::Op::Load {
                    ptr: self.new_value(*source),
                    mask: self.new_optional_value(*mask),
                    other: self.new_optional_value(*padding_value),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    hints: self.access_hints(optimization_hints.as_deref()),
                }
            }
            Op::StorePtrTko { memory_ordering, memory_scope, optimization_hints, destination, value, mask, token } => {
                tileaa::Op::Store {
                    ptr: self.new_value(*destination),
                    value: self.new_value(*value),
                    mask: self.new_optional_value(*mask),
                    token: self.new_optional_value(*token),
                    order: access_order(*memory_ordering, *memory_scope),
                    hints: self.access_hints(optimization_hints.as_deref()),
                }
            }
            Op::AtomicRMWTko { memory_ordering, memory_scope, mode, pointers, arg, mask, token } => tileaa::Op::AtomicRmw {
                ptr: self.new_value(*pointers),
                value: self.new_value(*arg),
                mask: self.new_optional_value(*mask),
                token: self.new_optional_value(*token),
                order: access_order(*memory_ordering, Some(*memory_scope)),
                mode: *mode,
            },
            Op::AtomicCASTko { memory_ordering, memory_scope, pointers, cmp, val, mask, token } => tileaa::Op::AtomicCas {
                ptr: self.new_value(*pointers),
                compare: self.new_value(*cmp),
                value: self.new_value(*val),
                mask: self.new_optional_value(*mask),
                token: self.new_optional_value(*token),
                order: access_order(*memory_ordering, Some(*memory_scope)),
            },
            op => wrong_group(op),
        }
    }

    /// Converts reductions, scans and MMAs.
    pub(super) fn reduction_or_mma(&mut self, op: &Op) -> Result<tileaa::Op> {
        Ok(match op {
            Op::Reduce { dim, identities, operands, body } => tileaa::Op::Reduce {
                operands: self.new_values(operands),
                dim: *dim as u32,
                identities: self.convert_identities(identities)?,
                body: self.queue_region(*body),
            },
            Op::Scan { dim, direction, identities, operands, body } => tileaa::Op::Scan {
                operands: self.new_values(operands),
                dim: *dim as u32,
                reverse: *direction == Direction::Reverse,
                identities: self.convert_identities(identities)?,
                body: self.queue_region(*body),
            },
            Op::MmaF { fast_acc, lhs, rhs, acc } => tileaa::Op::Mma {
                lhs: self.new_value(*lhs),
                rhs: self.new_value(*rhs),
                acc: self.new_value(*acc),
                signed_lhs: false,
                signed_rhs: false,
                fast_acc: *fast_acc,
            },
            Op::MmaI { signedness_lhs, signedness_rhs, lhs, rhs, acc } => tileaa::Op::Mma {
                lhs: self.new_value(*lhs),
                rhs: self.new_value(*rhs),
                acc: self.new_value(*acc),
                signed_lhs: *signedness_lhs == Signedness::Signed,
                signed_rhs: *signedness_rhs == Signedness::Signed,
                fast_acc: false,
            },
            Op::MmaFScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => tileaa::Op::MmaScaled {
                lhs: self.new_value(*lhs),
                rhs: self.new_value(*rhs),
                acc: self.new_value(*acc),
                lhs_scale: self.new_value(*lhs_scale),
                rhs_scale: self.new_value(*rhs_scale),
            },
            op => wrong_group(op),
        })
    }

    /// The bits of the identity elements of a reduction or scan.
    fn convert_identities(&self, identities: &[Attribute]) -> Result<Vec<Identity>> {
        let bits = |identity: &Attribute| match identity {
            Attribute::Integer { bits, .. } | Attribute::Float { bits, .. } => Ok(Identity(*bits)),
            Attribute::Bool(bit) => Ok(Identity(u64::from(*bit))),
            other => Err(Diagnostic::unsupported("LAA003", format!("{other:?} cannot be the identity of a reduction"))),
        };
        identities.iter().map(bits).collect()
    }

    /// The hints for one access, each with its target name. `.aa` has no target, so the conversion keeps the hints of all targets.
    fn access_hints(&self, hints: Option<&Dictionary>) -> Vec<AccessHint> {
        let hint = |(target, entries): &(tileir::StringId, Attribute)| AccessHint {
            target: self.module.string(*target).into(),
            allow_tma: hint_entry(self.module, entries, "allow_tma").and_then(|value| match value {
                Attribute::Bool(allowed) => Some(*allowed),
                _ => None,
            }),
            latency: hint_entry(self.module, entries, "latency").and_then(as_u32),
        };
        hints.map_or(Vec::new(), |hints| hints.iter().map(hint).collect())
    }
}

/// Combines the memory ordering and the scope of an access.
fn access_order(semantics: MemoryOrdering, scope: Option<MemoryScope>) -> Order {
    Order { semantics, scope }
}
