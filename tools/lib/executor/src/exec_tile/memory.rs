//! Executes ops of `.tile` with memory effects: loads, stores, atomics, tokens and allocations.

use super::{TileProgram, tile_result};
use crate::exec::access::{self, AccessAttrs, AccessRequest};
use crate::exec::{Env, Results};
use crate::kernel_memory::START_TOKEN;
use crate::tile::{Tile, memory_bits};
use crate::value::Value;
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use core_dialect::core_ops::Fact;
use core_dialect::memory::{MemoryOrdering, MemoryScope};
use core_dialect::tile::Elem;
use smallvec::smallvec;
use tileir::{Attribute, Op};

impl TileProgram<'_> {
    /// Executes a memory op. Returns `None` for other ops.
    pub(super) fn execute_memory_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Option<Results>> {
        if let Some((request, access_attrs)) = self.access_request(op, kind, env) {
            return access::perform_access(request, access_attrs, env).map(Some);
        }
        Ok(Some(match kind {
            Op::MakeToken {} => smallvec![Value::Token(START_TOKEN)],
            Op::JoinTokens { tokens } => {
                let tokens: Vec<_> = tokens.iter().map(|id| env.token(Some(*id))).collect();
                smallvec![Value::Token(env.kernel_memory.join_tokens(&tokens))]
            }
            // Only one grid runs at a time, and equal addresses always mean the same memory. Therefore these ops only return their
            // token.
            Op::GdcWaitTko { token } | Op::GdcLaunchDependentsTko { token } => smallvec![Value::Token(env.token(*token))],
            Op::MemoryFenceAliasTko { token } => smallvec![Value::Token(env.token(Some(*token)))],
            Op::Alloca { num_elem, alignment, .. } => {
                let (_, elem) = self.result_type(op);
                let Elem::Ptr { pointee, .. } = elem else { unreachable!("the verifier guarantees that the result is a pointer") };
                let bytes = (*num_elem as u64).saturating_mul(memory_bits(pointee).into()).div_ceil(8);
                let address = env.kernel_memory.allocate(bytes, *alignment as u64)?;
                return tile_result(Tile::scalar(elem, address)).map(Some);
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the memory access that an op performs. `None` if the op does not access memory.
    pub(super) fn access_request<'a>(&self, op: OpId, kind: &'a Op, env: &Env<'_>) -> Option<(AccessRequest<'a>, AccessAttrs)> {
        let tile_of = |id: &Id| env.tile(*id).clone();
        let optional_tile = |id: &Option<Id>| id.map(|id| env.tile(id).clone());
        let tiles = |ids: &[Id]| ids.iter().map(|id| env.tile(*id).clone()).collect::<Vec<Tile>>();
        let loc = self.function.body.ops[op].loc;
        let access_attrs = |token: &Option<Id>, ordering: &MemoryOrdering, scope: Option<MemoryScope>| AccessAttrs {
            loc,
            token: *token,
            ordering: *ordering,
            scope,
        };
        Some(match kind {
            Op::LoadPtrTko { memory_ordering, memory_scope, source, mask, padding_value, token, .. } => {
                let (_, elem) = self.result_type(op);
                let request = AccessRequest::Load {
                    pointers: tile_of(source),
                    elem,
                    mask: optional_tile(mask),
                    padding: optional_tile(padding_value),
                };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::StorePtrTko { memory_ordering, memory_scope, destination, value, mask, token, .. } => {
                let request =
                    AccessRequest::Store { pointers: tile_of(destination), value: tile_of(value), mask: optional_tile(mask) };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::LoadViewTko { memory_ordering, memory_scope, inbounds, view, index, token, .. } => {
                let request = AccessRequest::LoadView { view: env.view(*view), index: tiles(index), in_bounds: inbounds };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::StoreViewTko { memory_ordering, memory_scope, inbounds, tile, view, index, token, .. } => {
                let (view, index) = (env.view(*view), tiles(index));
                let request = AccessRequest::StoreView { tile: tile_of(tile), view, index, in_bounds: inbounds };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds, view, index, value, token } => {
                let (view, index) = (env.view(*view), tiles(index));
                let request = AccessRequest::ReduceView { tile: tile_of(value), view, index, in_bounds: inbounds, mode: *mode };
                (request, access_attrs(token, memory_ordering, Some(*memory_scope)))
            }
            // A multicast load reduces over devices. The executor models one device, so the load is a plain load.
            Op::MultimemLoadReduceViewTko { memory_ordering, memory_scope, inbounds, view, index, token, .. } => {
                let request = AccessRequest::LoadView { view: env.view(*view), index: tiles(index), in_bounds: inbounds };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::MultimemReduceViewTko { memory_ordering, memory_scope, reduction, inbounds, view, tile, index, token } => {
                let (tile, view, index, reduction) = (tile_of(tile), env.view(*view), tiles(index), Some(*reduction));
                let request = AccessRequest::MulticastStore { tile, view, index, in_bounds: inbounds, reduction };
                (request, access_attrs(token, memory_ordering, Some(*memory_scope)))
            }
            Op::MultimemStoreViewTko { memory_ordering, memory_scope, inbounds, view, tile, index, token } => {
                let (tile, view, index) = (tile_of(tile), env.view(*view), tiles(index));
                let request = AccessRequest::MulticastStore { tile, view, index, in_bounds: inbounds, reduction: None };
                (request, access_attrs(token, memory_ordering, *memory_scope))
            }
            Op::AtomicRMWTko { memory_ordering, memory_scope, mode, pointers, arg, mask, token } => {
                let (pointers, value, mask) = (tile_of(pointers), tile_of(arg), optional_tile(mask));
                let request = AccessRequest::ReadModifyWrite { pointers, value, mask, mode: *mode };
                (request, access_attrs(token, memory_ordering, Some(*memory_scope)))
            }
            Op::AtomicCASTko { memory_ordering, memory_scope, pointers, cmp, val, mask, token } => {
                let (pointers, compare, value, mask) = (tile_of(pointers), tile_of(cmp), tile_of(val), optional_tile(mask));
                let request = AccessRequest::CompareAndSwap { pointers, compare, value, mask };
                (request, access_attrs(token, memory_ordering, Some(*memory_scope)))
            }
            _ => return None,
        })
    }
}

/// Returns the fact that the predicate of an `assume` states. `None` for predicates that `--check=assume` does not check.
pub(super) fn fact_of_predicate(predicate: &Attribute) -> Option<Fact> {
    match predicate {
        Attribute::DivBy { divisor, every, along } => Some(Fact::DivBy { divisor: *divisor, every: *every, along: *along }),
        Attribute::Bounded { lower, upper } => Some(Fact::Bounded { low: *lower, high: *upper }),
        Attribute::SameElements(groups) => Some(Fact::SameElements { groups: groups.to_vec() }),
        _ => None,
    }
}
