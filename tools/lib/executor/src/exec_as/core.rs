//! Executes core ops on the register slots of every thread.

use super::{DistributedProgram, Plan, Step, StepKind, rename};
use crate::check::stride_assumptions::{self, Use};
use crate::check::{Check, assume};
use crate::exec::{Env, Results, effects};
use crate::exec_core::{self, Context, Typed};
use crate::tile::Tile;
use crate::tile::shape::{from_bytes, to_bytes};
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{Op as OpId, Value as Id};
use core_dialect::core_ops::{Core, Fact};
use core_dialect::tile::{Dense, Elem, MemRef, Shape};
use numerics::arith::Lanes;
use smallvec::smallvec;
use tileas::layout::Strides;
use tileas::{Op, Route, Type};

impl Typed for Type {
    fn tile(&self) -> Option<(Elem, Shape)> {
        self.elem().map(|elem| (elem, self.shape().into()))
    }
    fn memref(&self) -> Option<&MemRef> {
        if let Type::MemRef(memref) = self { Some(memref) } else { None }
    }
    fn view(&self) -> Option<&core_dialect::tile::View> {
        if let Type::View(view) = self { Some(view) } else { None }
    }
}

/// Classifies how an op uses strides.
pub(super) fn stride_use<O: Step>(op: &O) -> Use<'_> {
    if let StepKind::Program(Op::Core(core)) = op.step() { exec_core::stride_use(core) } else { Use::Other }
}

impl<O: Step> DistributedProgram<'_, O> {
    pub(super) fn plan_core(&self, op: OpId, core: &Core) -> Result<Plan, String> {
        let results = &self.source.body.ops[op].results;
        match core {
            Core::Constant { value } => Ok(Plan::Computed(self.constant(results[0], value))),
            Core::Iota {} => {
                let elem = self.elem(results[0]);
                let computed =
                    self.distribution(results[0]).elements.iter().map(|element| u64::from(*element) & elem.carrier().mask());
                Ok(Plan::Computed(Tile::new(self.distribution(results[0]).shape(), elem, Lanes::collect(elem.carrier(), computed))))
            }
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => {
                let (from, to) = (self.shape(*x), self.shape(results[0]));
                self.plan_rename(*x, results[0], Route::Registers, rename::source(core, &from, &to))
            }
            Core::Unary { .. }
            | Core::Binary { .. }
            | Core::Fma { .. }
            | Core::Compare { .. }
            | Core::Convert { .. }
            | Core::Select { .. }
            | Core::IntToPtr { .. }
            | Core::PtrToInt { .. }
            | Core::PtrCast { .. }
            | Core::Offset { .. }
            | Core::Assume { .. } => {
                let mismatch =
                    core.operands().into_iter().find(|id| !self.is_scalar(*id) && !self.have_same_layout(*id, results[0]));
                mismatch
                    .map_or(Ok(Plan::None), |id| Err(format!("has a result whose layout differs from that of its operand {id}")))
            }
            Core::Cat { .. }
            | Core::Extract { .. }
            | Core::Insert { .. }
            | Core::Reinterpret { .. }
            | Core::BlockId { .. }
            | Core::BlockCount { .. }
            | Core::ClusterRank {}
            | Core::ClcBlockCount {}
            | Core::ClcBlockId { .. }
            | Core::MakeMemRef { .. }
            | Core::MakeView { .. }
            | Core::MemRefShape { .. }
            | Core::ViewShape { .. }
            | Core::GlobalAddress { .. }
            | Core::Alloca { .. }
            | Core::MakeToken {}
            | Core::JoinTokens { .. }
            | Core::AliasFence { .. }
            | Core::GridWait { .. }
            | Core::GridLaunch { .. }
            | Core::Assert { .. }
            | Core::CheckIndex { .. }
            | Core::Print { .. }
            | Core::If { .. }
            | Core::For { .. }
            | Core::Loop { .. }
            | Core::Yield { .. }
            | Core::Continue { .. }
            | Core::Break { .. }
            | Core::Return {} => Ok(Plan::None),
        }
    }

    fn have_same_layout(&self, a: Id, b: Id) -> bool {
        self.distribution(a).layout == self.distribution(b).layout
    }

    pub(super) fn plan_rename(&self, x: Id, result: Id, route: Route, source: impl Fn(u32) -> u32) -> Result<Plan, String> {
        match self.is_scalar(x) {
            true => Ok(Plan::None),
            false => rename::plan(self.distribution(x), self.distribution(result), route, source).map(Plan::Slots),
        }
    }

    fn constant(&self, id: Id, value: &Dense) -> Tile {
        let elem = self.elem(id);
        if self.is_scalar(id) {
            return Tile::scalar(elem, value.at(0));
        }
        let elements = self.distribution(id).elements.iter().map(|element| value.at(*element as usize));
        Tile::new(self.distribution(id).shape(), elem, Lanes::collect(elem.carrier(), elements))
    }

    pub(super) fn coordinates(&self, id: Id, dim: u32) -> Tile {
        let (elem, strides) = (self.elem(id), Strides::of(self.ty(id).shape()));
        let computed = self.distribution(id).elements.iter().map(|element| strides.coordinate(*element, dim as usize).into());
        Tile::new(self.distribution(id).shape(), elem, Lanes::collect(elem.carrier(), computed))
    }

    pub(super) fn rename(&self, op: OpId, x: Id, env: &Env<'_>) -> Result<Results> {
        let tile = env.tile(x);
        let elem = self.elem(self.result(op));
        self.single_result(
            op,
            match &self.plans[op.0 as usize] {
                Plan::Slots(slots) => {
                    let lanes = tile.lanes().gather(slots.iter().map(|slot| *slot as usize));
                    Tile::new([slots.len() as u32].into_iter().collect(), elem, lanes)
                }
                _ => tile.clone(),
            },
        )
    }

    pub(super) fn core(&self, op: OpId, core: &Core, env: &mut Env<'_>) -> Result<Results> {
        let node = &self.source.body.ops[op];
        match core {
            Core::Constant { .. } | Core::Iota {} => match &self.plans[op.0 as usize] {
                Plan::Computed(tile) => Ok(smallvec![Value::Tile(tile.clone())]),
                _ => unreachable!("planned in advance"),
            },
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => self.rename(op, *x, env),
            Core::Cat { .. } | Core::Extract { .. } | Core::Insert { .. } | Core::Reinterpret { .. } => {
                self.execute_slice_op(op, core, env)
            }
            Core::Assume { value, .. } if self.stride_assumes.contains(&op) => Ok(smallvec![env.value(*value).clone()]),
            Core::Assume { value, fact } => {
                self.check_assumption(op, *value, fact, env);
                Ok(smallvec![env.value(*value).clone()])
            }
            Core::Assert { cond, message } => {
                effects::assert(&self.gathered(*cond, env)?, message, self.source.debug, node.loc, env)
            }
            Core::CheckIndex { index, extent, message } => {
                let (index, extent) = (self.gathered(*index, env)?, self.gathered(*extent, env)?);
                effects::check_index(&index, &extent, message, self.source.debug, node.loc, env)
            }
            Core::Print { format, args, token } => {
                let tiles = args.iter().map(|id| self.gathered(*id, env)).collect::<Result<Vec<_>>>()?;
                effects::print(format, &tiles, *token, env)
            }
            _ => {
                let types = node.results.iter().map(|id| self.ty(*id)).collect();
                let context = Context { types, loc: node.loc, debug: self.source.debug, globals: &self.globals };
                let results = exec_core::execute(core, &context, env)?;
                if let (Core::MakeMemRef { strides, .. }, Some(Value::Tensor(tensor))) = (core, results.first()) {
                    self.check_strides(op, strides, &tensor.sizes, env);
                }
                // A result computed from scalars has one element. In the body of a reduction, this element is the result for all
                // pairs of combined elements.
                let settled = |(id, value): (&Id, Value)| match value {
                    Value::Tile(tile) if !self.is_scalar(*id) => self.value_from_slots(*id, tile).map(Value::Tile),
                    other => Ok(other),
                };
                node.results.iter().zip(results).map(settled).collect()
            }
        }
    }

    /// Checks the assumptions about strides of dimensions with more than one element.
    fn check_strides(&self, op: OpId, strides: &[Id], sizes: &[i64], env: &mut Env<'_>) {
        let Some(memref) = self.ty(self.result(op)).memref() else { return };
        for stride in exec_core::strides_in_use(memref, strides, sizes) {
            for (assumption, _) in stride_assumptions::chain(self.source.body, &self.stride_assumes, stride, stride_use::<O>) {
                if let StepKind::Program(Op::Core(Core::Assume { value, fact })) = self.source.body.ops[assumption].kind.step() {
                    self.check_assumption(assumption, *value, fact, env);
                }
            }
        }
    }

    fn check_assumption(&self, op: OpId, value: Id, fact: &Fact, env: &mut Env<'_>) {
        if !env.world.checks(Check::Assume) {
            return;
        }
        if self.ty(value).elem().is_some()
            && let Ok(gathered) = self.gathered(value, env)
            && let Some(violation) = assume::violation(fact, &gathered)
        {
            env.world.report(Check::Assume, self.source.body.ops[op].loc, format!("an assumption does not hold: {violation}"));
        }
    }

    /// Executes ops that compute their result from parts of tiles. A thread must hold all the parts that it needs.
    fn execute_slice_op(&self, op: OpId, core: &Core, env: &Env<'_>) -> Result<Results> {
        let result = self.result(op);
        let to = self.distribution(result);
        let numbers = |indices: &[Id]| -> Vec<u64> { indices.iter().map(|id| env.tile(*id).first()).collect() };
        let outside = || Diagnostic::invalid("RUN032", "a slice outside the tile");
        let held = |id: Id, slot: usize, element: u32| {
            let thread = to.thread(slot);
            let from = self.distribution(id).slot(thread, element);
            from.ok_or_else(|| self.invalid_op(op, format!("needs element {element} of {id}, which thread {thread} does not hold")))
        };
        let mut lanes = Lanes::splat(self.elem(result).carrier(), 0, to.slots());
        match core {
            Core::Extract { x, indices } => {
                let (gathered, slice) = (self.shape(*x), self.shape(result));
                let start = rename::slice_start(&gathered, &slice, &numbers(indices)).ok_or_else(outside)?;
                let from = self.slots(*x, env);
                for slot in 0..to.slots() {
                    let element = start + rename::element_in_tile(&gathered, &slice, to.elements[slot]);
                    lanes.set(slot, from.lanes().get(held(*x, slot, element)?));
                }
            }
            Core::Insert { x, into, indices } => {
                let (gathered, slice) = (self.shape(*into), self.shape(*x));
                let start = rename::slice_start(&gathered, &slice, &numbers(indices)).ok_or_else(outside)?;
                let (chunk, rest) = (self.slots(*x, env), self.slots(*into, env));
                let (outer, inner) = (Strides::of(&gathered), Strides::of(&slice));
                for slot in 0..to.slots() {
                    let element = to.elements[slot];
                    let at = |dim: usize| outer.coordinate(element, dim).wrapping_sub(outer.coordinate(start, dim));
                    let bits = if (0..slice.len()).all(|dim| at(dim) < slice[dim]) {
                        let element = (0..slice.len()).map(|dim| at(dim) << inner.shift[dim]).sum();
                        chunk.lanes().get(held(*x, slot, element)?)
                    } else {
                        rest.lanes().get(held(*into, slot, element)?)
                    };
                    lanes.set(slot, bits);
                }
            }
            Core::Cat { lhs, rhs, dim } => {
                let dim = *dim as usize;
                let (strides, parts) = (Strides::of(self.ty(result).shape()), [*lhs, *rhs]);
                let shapes = parts.map(|part| self.shape(part));
                let tiles = parts.map(|part| self.slots(part, env));
                for slot in 0..to.slots() {
                    let along = strides.coordinate(to.elements[slot], dim);
                    let part = usize::from(along >= shapes[0][dim]);
                    let own = Strides::of(&shapes[part]);
                    let coordinate = |d: usize| match d == dim {
                        true => along - part as u32 * shapes[0][dim],
                        false => strides.coordinate(to.elements[slot], d),
                    };
                    let element = (0..shapes[part].len()).map(|d| coordinate(d) << own.shift[d]).sum();
                    lanes.set(slot, tiles[part].lanes().get(held(parts[part], slot, element)?));
                }
            }
            Core::Reinterpret { x } => return self.reinterpret(op, *x, env),
            _ => unreachable!("handles slices only"),
        }
        self.single_result(op, Tile::new(to.shape(), self.elem(result), lanes))
    }

    /// Reinterprets bytes. Each thread computes its elements from bytes that it holds.
    fn reinterpret(&self, op: OpId, x: Id, env: &Env<'_>) -> Result<Results> {
        let result = self.result(op);
        let (from, to) = (self.distribution(x), self.distribution(result));
        let (narrow, wide) = (self.elem(x), self.elem(result));
        let tile = self.slots(x, env);
        let held = |slot: usize, element: u32| {
            let message = || format!("needs element {element} of {x}, which thread {} does not hold", to.thread(slot));
            from.slot(to.thread(slot), element).ok_or_else(|| self.invalid_op(op, message()))
        };
        let mut lanes = Lanes::splat(wide.carrier(), 0, to.slots());
        for slot in 0..to.slots() {
            let element = to.elements[slot];
            // If the operand elements are narrower, a result combines several of them; otherwise it is a part of one.
            let many = (wide.bits() / narrow.bits()).max(1);
            let part = (narrow.bits() / wide.bits()).max(1);
            let sources = (0..many).map(|i| held(slot, element / part * many + i)).collect::<Result<Vec<usize>>>()?;
            let bytes = to_bytes(&Tile::new([many].into_iter().collect(), narrow, tile.lanes().gather(sources.into_iter())));
            lanes.set(slot, from_bytes(wide, &bytes).get((element % part) as usize));
        }
        self.single_result(op, Tile::new(to.shape(), wide, lanes))
    }
}
