//! Executes core ops of `.as` and `.sched` on the slots (registers) of every thread.

use super::{DistributedOp, DistributedProgram, OpClass, OpPlan, slot_moves};
use crate::check::assume;
use crate::check::stride_assumptions::{self, StrideUse};
use crate::check_kind::Check;
use crate::exec::{Env, Results, effects};
use crate::exec_core::{self, CoreType, OpContext};
use crate::tile::Tile;
use crate::tile::shape::{from_bytes, to_bytes};
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{Op as OpId, Value as Id};
use core_dialect::core_ops::{Core, Fact};
use core_dialect::tile::{Dense, Elem, MemRef, Shape};
use numerics::arith::ElementWords;
use smallvec::smallvec;
use tileas::layout::Strides;
use tileas::{Op, Route, Type};

impl CoreType for Type {
    fn tile(&self) -> Option<(Elem, Shape)> {
        self.elem().map(|elem| (elem, self.shape().into()))
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

/// Returns how an op uses its operands as strides of a memref.
pub(super) fn stride_use<O: DistributedOp>(op: &O) -> StrideUse<'_> {
    if let OpClass::As(Op::Core(core)) = op.op_class() { exec_core::stride_use(core) } else { StrideUse::Other }
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Plans a core op. Checks that the operands of an element-wise op have the layout of its result.
    pub(super) fn plan_core(&self, op: OpId, core: &Core) -> Result<OpPlan, String> {
        let results = &self.source.body.ops[op].results;
        match core {
            Core::Constant { value } => Ok(OpPlan::Computed(self.constant_tile(results[0], value))),
            Core::Iota {} => {
                let elem = self.elem(results[0]);
                let computed =
                    self.distribution(results[0]).elements.iter().map(|element| u64::from(*element) & elem.carrier().mask());
                Ok(OpPlan::Computed(Tile::new(
                    self.distribution(results[0]).shape(),
                    elem,
                    ElementWords::collect(elem.carrier(), computed),
                )))
            }
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => {
                let (from, to) = (self.shape(*x), self.shape(results[0]));
                self.plan_move(*x, results[0], Route::Registers, slot_moves::operand_element(core, &from, &to))
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
                    .map_or(Ok(OpPlan::None), |id| Err(format!("has a result whose layout differs from that of its operand {id}")))
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
            | Core::Return {} => Ok(OpPlan::None),
        }
    }

    /// Returns whether two values have the same layout.
    fn have_same_layout(&self, a: Id, b: Id) -> bool {
        self.distribution(a).layout == self.distribution(b).layout
    }

    /// Plans an op that copies elements of its operands to its result without arithmetic. A scalar operand needs no plan.
    /// `operand_element` maps an element of the result to an element of the operand.
    pub(super) fn plan_move(
        &self,
        x: Id,
        result: Id,
        route: Route,
        operand_element: impl Fn(u32) -> u32,
    ) -> Result<OpPlan, String> {
        match self.is_scalar(x) {
            true => Ok(OpPlan::None),
            false => {
                slot_moves::plan_slots(self.distribution(x), self.distribution(result), route, operand_element).map(OpPlan::Slots)
            }
        }
    }

    /// Returns the run-time value of a constant: its slots, or one element for a scalar.
    fn constant_tile(&self, id: Id, value: &Dense) -> Tile {
        let elem = self.elem(id);
        if self.is_scalar(id) {
            return Tile::scalar(elem, value.at(0));
        }
        let elements = self.distribution(id).elements.iter().map(|element| value.at(*element as usize));
        Tile::new(self.distribution(id).shape(), elem, ElementWords::collect(elem.carrier(), elements))
    }

    /// Returns for each slot of a value the coordinate of its element along a dimension.
    pub(super) fn coordinates(&self, id: Id, dim: u32) -> Tile {
        let (elem, strides) = (self.elem(id), Strides::for_shape(self.ty(id).shape()));
        let computed = self.distribution(id).elements.iter().map(|element| strides.coordinate(*element, dim as usize).into());
        Tile::new(self.distribution(id).shape(), elem, ElementWords::collect(elem.carrier(), computed))
    }

    /// Executes an op that copies elements of its operands to its result, according to its plan.
    pub(super) fn execute_move(&self, op: OpId, x: Id, env: &Env<'_>) -> Result<Results> {
        let tile = env.tile(x);
        let elem = self.elem(self.result(op));
        self.single_result(
            op,
            match &self.plans[op.0 as usize] {
                OpPlan::Slots(slots) => {
                    let element_words = tile.element_words().gather(slots.iter().map(|slot| *slot as usize));
                    Tile::new([slots.len() as u32].into_iter().collect(), elem, element_words)
                }
                _ => tile.clone(),
            },
        )
    }

    /// Executes a core op that is not control flow.
    pub(super) fn execute_core_op(&self, op: OpId, core: &Core, env: &mut Env<'_>) -> Result<Results> {
        let node = &self.source.body.ops[op];
        match core {
            Core::Constant { .. } | Core::Iota {} => match &self.plans[op.0 as usize] {
                OpPlan::Computed(tile) => Ok(smallvec![Value::Tile(tile.clone())]),
                _ => unreachable!("`plan_core` computes constants and iotas"),
            },
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => self.execute_move(op, *x, env),
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
                let context = OpContext { types, loc: node.loc, debug: self.source.debug, globals: &self.globals };
                let results = exec_core::execute(core, &context, env)?;
                if let (Core::MakeMemRef { strides, .. }, Some(Value::Tensor(tensor))) = (core, results.first()) {
                    self.check_strides(op, strides, &tensor.sizes, env);
                }
                // In the body of a reduction, a result that comes from scalars has one element, which is the result for all slots.
                let to_slots = |(id, value): (&Id, Value)| match value {
                    Value::Tile(tile) if !self.is_scalar(*id) => self.value_from_slots(*id, tile).map(Value::Tile),
                    other => Ok(other),
                };
                node.results.iter().zip(results).map(to_slots).collect()
            }
        }
    }

    /// Checks the assumptions about strides of dimensions with more than one element.
    fn check_strides(&self, op: OpId, strides: &[Id], sizes: &[i64], env: &mut Env<'_>) {
        let Some(memref) = self.ty(self.result(op)).memref() else { return };
        for stride in exec_core::strides_in_use(memref, strides, sizes) {
            for (assumption, _) in stride_assumptions::assume_chain(self.source.body, &self.stride_assumes, stride, stride_use::<O>)
            {
                if let OpClass::As(Op::Core(Core::Assume { value, fact })) = self.source.body.ops[assumption].kind.op_class() {
                    self.check_assumption(assumption, *value, fact, env);
                }
            }
        }
    }

    /// With `--check=assume`, reports an assumption that is false.
    fn check_assumption(&self, op: OpId, value: Id, fact: &Fact, env: &mut Env<'_>) {
        if !env.kernel_memory.checks(Check::Assume) {
            return;
        }
        if self.ty(value).elem().is_some()
            && let Ok(gathered) = self.gathered(value, env)
            && let Some(violation) = assume::violation(fact, &gathered)
        {
            env.kernel_memory.report(
                Check::Assume,
                self.source.body.ops[op].loc,
                format!("an assumption does not hold: {violation}"),
            );
        }
    }

    /// Executes `cat`, `extract`, `insert` or `reinterpret`. Each thread must have all operand elements of its result elements.
    fn execute_slice_op(&self, op: OpId, core: &Core, env: &Env<'_>) -> Result<Results> {
        let result = self.result(op);
        let to = self.distribution(result);
        let slice_index = |indices: &[Id]| -> Vec<u64> { indices.iter().map(|id| env.tile(*id).first()).collect() };
        let outside_tile = || Diagnostic::invalid("RUN032", "a slice outside the tile");
        let operand_slot = |id: Id, slot: usize, element: u32| {
            let thread = to.thread_of(slot);
            let from = self.distribution(id).slot_of(thread, element);
            from.ok_or_else(|| self.invalid_op(op, format!("needs element {element} of {id}, which thread {thread} does not hold")))
        };
        let mut element_words = ElementWords::splat(self.elem(result).carrier(), 0, to.slot_count());
        match core {
            Core::Extract { x, indices } => {
                let (tile_shape, slice) = (self.shape(*x), self.shape(result));
                let start = slot_moves::slice_start(&tile_shape, &slice, &slice_index(indices)).ok_or_else(outside_tile)?;
                let from = self.slots(*x, env);
                for slot in 0..to.slot_count() {
                    let element = start + slot_moves::element_in_tile(&tile_shape, &slice, to.elements[slot]);
                    element_words.set(slot, from.element_words().get(operand_slot(*x, slot, element)?));
                }
            }
            Core::Insert { x, into, indices } => {
                let (tile_shape, slice) = (self.shape(*into), self.shape(*x));
                let start = slot_moves::slice_start(&tile_shape, &slice, &slice_index(indices)).ok_or_else(outside_tile)?;
                let (slice_slots, tile_slots) = (self.slots(*x, env), self.slots(*into, env));
                let (tile_strides, slice_strides) = (Strides::for_shape(&tile_shape), Strides::for_shape(&slice));
                for slot in 0..to.slot_count() {
                    let element = to.elements[slot];
                    let slice_coordinate =
                        |dim: usize| tile_strides.coordinate(element, dim).wrapping_sub(tile_strides.coordinate(start, dim));
                    let bits = if (0..slice.len()).all(|dim| slice_coordinate(dim) < slice[dim]) {
                        let element = (0..slice.len()).map(|dim| slice_coordinate(dim) << slice_strides.shift[dim]).sum();
                        slice_slots.element_words().get(operand_slot(*x, slot, element)?)
                    } else {
                        tile_slots.element_words().get(operand_slot(*into, slot, element)?)
                    };
                    element_words.set(slot, bits);
                }
            }
            Core::Cat { lhs, rhs, dim } => {
                let dim = *dim as usize;
                let (strides, operands) = (Strides::for_shape(self.ty(result).shape()), [*lhs, *rhs]);
                let shapes = operands.map(|operand| self.shape(operand));
                let tiles = operands.map(|operand| self.slots(operand, env));
                for slot in 0..to.slot_count() {
                    let result_coordinate = strides.coordinate(to.elements[slot], dim);
                    let operand = usize::from(result_coordinate >= shapes[0][dim]);
                    let operand_strides = Strides::for_shape(&shapes[operand]);
                    let coordinate = |d: usize| match d == dim {
                        true => result_coordinate - operand as u32 * shapes[0][dim],
                        false => strides.coordinate(to.elements[slot], d),
                    };
                    let element = (0..shapes[operand].len()).map(|d| coordinate(d) << operand_strides.shift[d]).sum();
                    element_words.set(slot, tiles[operand].element_words().get(operand_slot(operands[operand], slot, element)?));
                }
            }
            Core::Reinterpret { x } => return self.reinterpret(op, *x, env),
            _ => unreachable!("handles slices only"),
        }
        self.single_result(op, Tile::new(to.shape(), self.elem(result), element_words))
    }

    /// Reinterprets the bytes of a tile as elements of another width. Each thread must have all operand elements of its result
    /// elements.
    fn reinterpret(&self, op: OpId, x: Id, env: &Env<'_>) -> Result<Results> {
        let result = self.result(op);
        let (from, to) = (self.distribution(x), self.distribution(result));
        let (operand_elem, result_elem) = (self.elem(x), self.elem(result));
        let tile = self.slots(x, env);
        let operand_slot = |slot: usize, element: u32| {
            let message = || format!("needs element {element} of {x}, which thread {} does not hold", to.thread_of(slot));
            from.slot_of(to.thread_of(slot), element).ok_or_else(|| self.invalid_op(op, message()))
        };
        let mut element_words = ElementWords::splat(result_elem.carrier(), 0, to.slot_count());
        for slot in 0..to.slot_count() {
            let element = to.elements[slot];
            // If the operand elements are narrower, a result element consists of several operand elements. Otherwise a result
            // element is a part of one operand element.
            let operand_count = (result_elem.bits() / operand_elem.bits()).max(1);
            let part_count = (operand_elem.bits() / result_elem.bits()).max(1);
            let operand_slots = (0..operand_count)
                .map(|i| operand_slot(slot, element / part_count * operand_count + i))
                .collect::<Result<Vec<usize>>>()?;
            let bytes = to_bytes(&Tile::new(
                [operand_count].into_iter().collect(),
                operand_elem,
                tile.element_words().gather(operand_slots.into_iter()),
            ));
            element_words.set(slot, from_bytes(result_elem, &bytes).get((element % part_count) as usize));
        }
        self.single_result(op, Tile::new(to.shape(), result_elem, element_words))
    }
}
