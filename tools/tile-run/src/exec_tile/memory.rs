//! Ops that access memory or the world outside: loads, stores, atomics, tokens, allocation.

use super::{TileProgram, tile};
use crate::exec::access::{self, Manner, ended};
use crate::exec::{Env, Results};
use crate::tile::{Tile, memory_bits};
use crate::value::Value;
use crate::world::START;
use base::core_ops::Fact;
use base::diag::Result;
use base::memory::MemoryOrdering;
use base::tile::Elem;
use base::{Op as OpId, Value as Id};
use smallvec::smallvec;
use tileir::{Attribute, Op};

impl TileProgram<'_> {
    /// None when the op is not one of these.
    pub(super) fn memory_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Option<Results>> {
        Ok(Some(match kind {
            Op::LoadPtrTko { .. } | Op::StorePtrTko { .. } => self.pointer_access(op, kind, env)?,
            Op::LoadViewTko { .. } | Op::StoreViewTko { .. } | Op::AtomicRedViewTko { .. } => self.view_access(op, kind, env)?,
            Op::AtomicRMWTko { .. } | Op::AtomicCASTko { .. } => self.atomic(op, kind, env)?,
            Op::MakeToken {} => smallvec![Value::Token(START)],
            Op::JoinTokens { tokens } => {
                let tokens: Vec<_> = tokens.iter().map(|id| env.token(Some(*id))).collect();
                smallvec![Value::Token(env.world.join(&tokens))]
            }
            // One grid runs at a time, and an address is the same memory under every pointer: there is nothing to wait for.
            Op::GdcWaitTko { token } | Op::GdcLaunchDependentsTko { token } => smallvec![Value::Token(env.token(*token))],
            Op::MemoryFenceAliasTko { token } => smallvec![Value::Token(env.token(Some(*token)))],
            Op::Alloca { num_elem, alignment, .. } => {
                let (_, elem) = self.result_type(op);
                let Elem::Ptr { pointee, .. } = elem else { unreachable!("the verifier holds that the result is a pointer") };
                let bytes = (*num_elem as u64).saturating_mul(memory_bits(pointee).into()).div_ceil(8);
                let address = env.world.allocate(bytes, *alignment as u64)?;
                return tile(Tile::scalar(elem, address)).map(Some);
            }
            _ => return Ok(None),
        }))
    }

    fn manner(&self, op: OpId, token: Option<Id>, ordering: MemoryOrdering, scope: Option<base::memory::MemoryScope>) -> Manner {
        Manner { loc: self.function.body.ops[op].loc, token, ordering, scope }
    }

    fn pointer_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let tile_of = |id: &Id, env: &Env<'_>| env.tile(*id).clone();
        match kind {
            Op::LoadPtrTko { memory_ordering, memory_scope, source, mask, padding_value, token, .. } => {
                env.begin(self.manner(op, *token, *memory_ordering, *memory_scope));
                let (mask, padding) = (mask.map(|id| tile_of(&id, env)), padding_value.map(|id| tile_of(&id, env)));
                let (_, elem) = self.result_type(op);
                let loaded = access::load(&tile_of(source, env), elem, mask.as_ref(), padding.as_ref(), env)?;
                Ok(ended(Some(loaded), env))
            }
            Op::StorePtrTko { memory_ordering, memory_scope, destination, value, mask, token, .. } => {
                env.begin(self.manner(op, *token, *memory_ordering, *memory_scope));
                let mask = mask.map(|id| tile_of(&id, env));
                access::store(&tile_of(destination, env), &tile_of(value, env), mask.as_ref(), env)?;
                Ok(ended(None, env))
            }
            _ => unreachable!("called for pointer accesses only"),
        }
    }

    fn view_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let tiles = |ids: &[Id], env: &Env<'_>| -> Vec<Tile> { ids.iter().map(|id| env.tile(*id).clone()).collect() };
        match kind {
            Op::LoadViewTko { memory_ordering, memory_scope, inbounds, view, index, token, .. } => {
                env.begin(self.manner(op, *token, *memory_ordering, *memory_scope));
                let (view, indices) = (env.view(*view), tiles(index, env));
                access::check_bounds(&view, &indices, inbounds, self.function.body.ops[op].loc, env);
                let loaded = access::load_view(&view, &indices, env)?;
                Ok(ended(Some(loaded), env))
            }
            Op::StoreViewTko { memory_ordering, memory_scope, inbounds, tile, view, index, token, .. } => {
                env.begin(self.manner(op, *token, *memory_ordering, *memory_scope));
                let (view, indices, tile) = (env.view(*view), tiles(index, env), env.tile(*tile).clone());
                access::check_bounds(&view, &indices, inbounds, self.function.body.ops[op].loc, env);
                access::store_view(&view, &indices, &tile, env)?;
                Ok(ended(None, env))
            }
            Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, view, index, value, token } => {
                env.begin(self.manner(op, *token, *memory_ordering, Some(*memory_scope)));
                let (view, indices, value) = (env.view(*view), tiles(index, env), env.tile(*value).clone());
                access::reduce_view(*mode, &view, &indices, &value, env)?;
                Ok(ended(None, env))
            }
            _ => unreachable!("called for view accesses only"),
        }
    }

    fn atomic(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let tile_of = |id: &Id, env: &Env<'_>| env.tile(*id).clone();
        let old = match kind {
            Op::AtomicRMWTko { memory_ordering, memory_scope, mode, pointers, arg, mask, token } => {
                env.begin(self.manner(op, *token, *memory_ordering, Some(*memory_scope)));
                let mask = mask.map(|id| tile_of(&id, env));
                access::read_modify_write(*mode, &tile_of(pointers, env), &tile_of(arg, env), mask.as_ref(), env)?
            }
            Op::AtomicCASTko { memory_ordering, memory_scope, pointers, cmp, val, mask, token } => {
                env.begin(self.manner(op, *token, *memory_ordering, Some(*memory_scope)));
                let mask = mask.map(|id| tile_of(&id, env));
                access::compare_and_swap(&tile_of(pointers, env), &tile_of(cmp, env), &tile_of(val, env), mask.as_ref(), env)?
            }
            _ => unreachable!("called for atomics only"),
        };
        Ok(ended(Some(old), env))
    }
}

pub(super) fn fact(predicate: &Attribute) -> Option<Fact> {
    match predicate {
        Attribute::DivBy { divisor, every, along } => Some(Fact::DivBy { divisor: *divisor, every: *every, along: *along }),
        Attribute::Bounded { lower, upper } => Some(Fact::Bounded { low: *lower, high: *upper }),
        Attribute::SameElements(groups) => Some(Fact::SameElements { groups: groups.to_vec() }),
        _ => None,
    }
}
