//! Executes `.aa` (TileAA) programs. Tiles are complete: no layout distributes them over threads.

use crate::check::stride_assumptions::{self, StrideUse};
use crate::check::{assume, facts};
use crate::check_kind::Check;
use crate::exec::access::{self, AccessAttrs, AccessRequest};
use crate::exec::combine::{self, CombinerBody};
use crate::exec::{Control, Env, Program, Results};
use crate::exec_core::{self, CoreType, OpContext};
use crate::tile::{Tile, mma};
use crate::value::Value;
use base::diag::Result;
use base::{Body, DebugInfo, Op as OpId, Value as Id};
use core_dialect::core_ops::Core;
use core_dialect::memory::{MemoryOrdering, Order};
use core_dialect::tile::{Elem, MemRef, Shape};
use numerics::arith::Signedness;
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op, Type};

/// A function of `.aa` with the addresses of its module's globals.
pub(crate) struct AaProgram<'a> {
    pub(crate) function: &'a Function,
    pub(crate) debug: &'a DebugInfo,
    /// Addresses of the module's globals, by name.
    pub(crate) globals: BTreeMap<String, u64>,
    /// The `assume` ops whose results are only strides of memrefs. The checks of these assumptions take place at the memref.
    stride_assumes: BTreeSet<OpId>,
}

/// Returns how an op uses its operands as strides of a memref.
fn stride_use(op: &Op) -> StrideUse<'_> {
    if let Op::Core(core) = op { exec_core::stride_use(core) } else { StrideUse::Other }
}

impl CoreType for Type {
    fn tile(&self) -> Option<(Elem, Shape)> {
        Type::tile(self).map(|(elem, shape)| (elem, shape.clone()))
    }
    fn memref(&self) -> Option<&MemRef> {
        if let Type::MemRef(memref) = self { Some(memref) } else { None }
    }
    fn view(&self) -> Option<&core_dialect::tile::View> {
        if let Type::View(view) = self { Some(view) } else { None }
    }
    fn is_token(&self) -> bool {
        matches!(self, Type::Token)
    }
}

impl<'a> AaProgram<'a> {
    pub(crate) fn new(function: &'a Function, debug: &'a DebugInfo, globals: BTreeMap<String, u64>) -> Self {
        AaProgram { function, debug, globals, stride_assumes: stride_assumptions::stride_only_assumes(&function.body, stride_use) }
    }
}

impl AaProgram<'_> {
    /// Returns whether a tile block may synchronise with another tile block or read its writes. If so, tile blocks must run in
    /// turns.
    pub(crate) fn may_synchronise(&self) -> bool {
        self.function.body.walk(self.function.region).into_iter().any(|op| match &self.function.body.ops[op].kind {
            Op::AtomicRmw { .. } | Op::AtomicCas { .. } | Op::ReduceView { .. } => true,
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => true,
            Op::LoadView { order, .. } | Op::StoreView { order, .. } | Op::Load { order, .. } | Op::Store { order, .. } => {
                order.semantics != MemoryOrdering::Weak
            }
            Op::Core(Core::Alloca { shareable, .. }) => *shareable,
            _ => false,
        })
    }

    /// Executes an MMA. Returns `None` for other ops.
    fn mma(&self, kind: &Op, env: &Env<'_>) -> Option<Tile> {
        let signedness = |signed: bool| if signed { Signedness::Signed } else { Signedness::Unsigned };
        Some(match *kind {
            Op::Mma { lhs, rhs, acc, signed_lhs, signed_rhs, .. } => {
                let (a, b, acc) = (env.tile(lhs), env.tile(rhs), env.tile(acc));
                match acc.carrier().is_int() {
                    true => mma::int_mma(a, signedness(signed_lhs), b, signedness(signed_rhs), acc),
                    false => mma::float_mma(a, b, acc),
                }
            }
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => {
                mma::scaled_mma(env.tile(lhs), env.tile(rhs), env.tile(acc), env.tile(lhs_scale), env.tile(rhs_scale))
            }
            _ => return None,
        })
    }

    /// Returns the memory access that an op performs. `None` if the op does not access memory.
    fn access_request<'a>(&self, op: OpId, kind: &'a Op, env: &Env<'_>) -> Option<(AccessRequest<'a>, AccessAttrs)> {
        let tile_of = |id: &Id| env.tile(*id).clone();
        let optional_tile = |id: &Option<Id>| id.map(|id| env.tile(id).clone());
        let tiles = |ids: &[Id]| ids.iter().map(|id| env.tile(*id).clone()).collect::<Vec<Tile>>();
        let loc = self.function.body.ops[op].loc;
        let access_attrs = |token: &Option<Id>, order: &Order| AccessAttrs::new(loc, *token, order);
        Some(match kind {
            Op::LoadView { view, index, token, order, in_bounds, .. } => {
                (AccessRequest::LoadView { view: env.view(*view), index: tiles(index), in_bounds }, access_attrs(token, order))
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, .. } => (
                AccessRequest::StoreView { tile: tile_of(tile), view: env.view(*view), index: tiles(index), in_bounds },
                access_attrs(token, order),
            ),
            Op::ReduceView { tile, view, index, token, order, in_bounds, mode } => (
                AccessRequest::ReduceView {
                    tile: tile_of(tile),
                    view: env.view(*view),
                    index: tiles(index),
                    in_bounds,
                    mode: *mode,
                },
                access_attrs(token, order),
            ),
            // A multicast load reduces over devices. The executor models one device, so the load is a plain load.
            Op::MulticastLoad { view, index, token, order, in_bounds, .. } => {
                (AccessRequest::LoadView { view: env.view(*view), index: tiles(index), in_bounds }, access_attrs(token, order))
            }
            Op::MulticastStore { tile, view, index, token, order, in_bounds, write } => {
                let (tile, view, index) = (tile_of(tile), env.view(*view), tiles(index));
                (
                    AccessRequest::MulticastStore { tile, view, index, in_bounds, reduction: write.reduction() },
                    access_attrs(token, order),
                )
            }
            Op::Load { ptr, mask, other, token, order, .. } => {
                let (elem, _) = self.result_types(op)[0].tile().expect("the verifier guarantees that a load gives a tile");
                (
                    AccessRequest::Load { pointers: tile_of(ptr), elem, mask: optional_tile(mask), padding: optional_tile(other) },
                    access_attrs(token, order),
                )
            }
            Op::Store { ptr, value, mask, token, order, .. } => (
                AccessRequest::Store { pointers: tile_of(ptr), value: tile_of(value), mask: optional_tile(mask) },
                access_attrs(token, order),
            ),
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                let (pointers, value, mask) = (tile_of(ptr), tile_of(value), optional_tile(mask));
                (AccessRequest::ReadModifyWrite { pointers, value, mask, mode: *mode }, access_attrs(token, order))
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                let (pointers, compare, value, mask) = (tile_of(ptr), tile_of(compare), tile_of(value), optional_tile(mask));
                (AccessRequest::CompareAndSwap { pointers, compare, value, mask }, access_attrs(token, order))
            }
            _ => return None,
        })
    }

    /// Returns the types of an op's results.
    fn result_types(&self, op: OpId) -> Vec<&Type> {
        self.function.body.ops[op].results.iter().map(|id| self.function.body.ty(*id)).collect()
    }
}

impl Program for AaProgram<'_> {
    type Op = Op;
    type Ty = Type;

    fn body(&self) -> &Body<Op, Type> {
        &self.function.body
    }
    fn debug(&self) -> &DebugInfo {
        self.debug
    }
    fn ctas_per_tile_block(&self) -> u32 {
        self.function.attrs.cluster.unwrap_or(1)
    }
    fn uses_clc(&self) -> bool {
        core_dialect::rules::uses_clc(&self.function.body)
    }
    fn control<'a>(&self, op: &'a Op) -> Control<'a> {
        if let Op::Core(core) = op { exec_core::control_flow(core) } else { Control::None }
    }
    fn is_elementwise(&self, op: &Op) -> bool {
        matches!(op, Op::Core(core) if exec_core::is_elementwise(core))
    }
    fn may_create_nan(&self, op: &Op) -> bool {
        op.is_pure()
    }

    fn execute(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        let results = self.execute_op(op, env)?;
        if env.kernel_memory.checks(Check::Facts) && !self.stride_assumes.contains(&op) {
            self.check_facts(op, &results, env);
        }
        if let Op::Core(Core::MakeMemRef { strides, .. }) = &self.function.body.ops[op].kind {
            self.check_strides(op, strides, &results, env);
        }
        Ok(results)
    }
}

impl AaProgram<'_> {
    /// Executes an op. Does not check facts and strides.
    fn execute_op(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        let (kind, loc) = (&self.function.body.ops[op].kind, self.function.body.ops[op].loc);
        if let Some(mma) = self.mma(kind, env) {
            return Ok(smallvec![Value::Tile(mma)]);
        }
        match kind {
            Op::Core(Core::Assume { value, .. }) if self.stride_assumes.contains(&op) => Ok(smallvec![env.value(*value).clone()]),
            Op::Core(core) => {
                let context = OpContext { types: self.result_types(op), loc, debug: self.debug, globals: &self.globals };
                exec_core::execute(core, &context, env)
            }
            Op::Reduce { operands, dim, body, .. } => {
                combine::reduce(CombinerBody { program: self, region: *body }, *dim as usize, operands, env)
            }
            Op::Scan { operands, dim, reverse, body, .. } => {
                combine::scan(CombinerBody { program: self, region: *body }, *dim as usize, *reverse, operands, env)
            }
            _ => {
                let (request, access_attrs) = self.access_request(op, kind, env).expect("every other op accesses memory");
                access::perform_access(request, access_attrs, env)
            }
        }
    }

    /// Checks the assumptions and recorded facts about the strides of dimensions with more than one element.
    fn check_strides(&self, op: OpId, strides: &[Id], results: &Results, env: &mut Env<'_>) {
        let Some(Value::Tensor(tensor)) = results.first() else { return };
        let body = &self.function.body;
        let Some(memref) = body.ty(body.result(op)).memref() else { return };
        for stride in exec_core::strides_in_use(memref, strides, &tensor.sizes) {
            for (assumption, value) in stride_assumptions::assume_chain(body, &self.stride_assumes, stride, stride_use) {
                let node = &body.ops[assumption];
                if let Op::Core(Core::Assume { fact, .. }) = &node.kind
                    && env.kernel_memory.checks(Check::Assume)
                    && let Some(violation) = assume::violation(fact, env.tile(value))
                {
                    env.kernel_memory.report(Check::Assume, node.loc, format!("an assumption does not hold: {violation}"));
                }
                if env.kernel_memory.checks(Check::Facts) {
                    self.check_facts(assumption, &smallvec![env.value(value).clone()], env);
                }
            }
        }
    }

    /// Checks the results of an op against the function's table of facts, which is sorted by SSA value.
    fn check_facts(&self, op: OpId, results: &Results, env: &mut Env<'_>) {
        let (node, table) = (&self.function.body.ops[op], &self.function.attrs.facts);
        for (id, value) in node.results.iter().zip(results) {
            let entry = table.binary_search_by_key(id, |entry| entry.value).ok().map(|index| &table[index]);
            if let (Some(entry), Value::Tile(tile)) = (entry, value)
                && let Some(violation) = facts::violation(entry, tile)
            {
                env.kernel_memory.report(
                    Check::Facts,
                    node.loc,
                    format!("the recorded fact about {id} does not hold: {violation}"),
                );
            }
        }
    }
}
