//! Executes `.tile` programs (Tile IR). This execution is the reference with which tests compare all later stages.

mod compute;
mod memory;
mod strides;
mod undetermined;
mod views;

use crate::check_kind::Check;
use crate::exec::combine::{self, CombinerBody, ReductionOrScan};
use crate::exec::{Control, Env, Program, Results, effects};
use crate::tile::Tile;
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{Body, DebugInfo, Op as OpId, Value as Id};
use core_dialect::tile::{Elem, Shape, Space};
use numerics::Scalar;
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};
use tileir::enums::Direction;
use tileir::ops::Effects;
use tileir::{Element, Function, Module, Op, Type, TypeId};

/// A function of `.tile` with its constants and the addresses of the module's globals.
pub(crate) struct TileProgram<'a> {
    module: &'a Module,
    pub(crate) function: &'a Function,
    debug: &'a DebugInfo,
    /// The value of each constant op, by op number. `None` for other ops.
    constants: Vec<Option<Tile>>,
    /// Addresses of the module's globals, by name.
    globals: BTreeMap<String, u64>,
    /// The `assume` ops whose results are only strides of tensor views. The checks of these assumptions take place at the view.
    stride_assumes: BTreeSet<OpId>,
}

impl<'a> TileProgram<'a> {
    pub(crate) fn new(module: &'a Module, function: &'a Function, debug: &'a DebugInfo, globals: BTreeMap<String, u64>) -> Self {
        let mut program = TileProgram {
            module,
            function,
            debug,
            constants: Vec::new(),
            globals,
            stride_assumes: strides::stride_only_assumes(&function.body),
        };
        program.constants = function.body.ops.iter().map(|(op, node)| program.constant_tile(op, &node.kind)).collect();
        program
    }

    /// Returns the value of a constant op. `None` for other ops.
    fn constant_tile(&self, op: OpId, kind: &Op) -> Option<Tile> {
        let Op::Constant { value } = kind else { return None };
        let ty = *self.function.body.ty(self.function.body.result(op));
        let (shape, elem) = self.tile_type(ty);
        Some(match self.module.splat(*value, ty) {
            Some(bits) => Tile::splat(shape, elem, bits),
            None => {
                Tile::new(shape, elem, numerics::arith::ElementWords::collect(elem.carrier(), self.module.elements(*value, ty)))
            }
        })
    }

    /// Returns whether a tile block may synchronise with another tile block or read its writes. If so, tile blocks must run in
    /// turns.
    pub(crate) fn may_synchronise(&self) -> bool {
        use core_dialect::memory::MemoryOrdering::Weak;
        self.function.body.walk(self.function.region).into_iter().any(|op| match &self.function.body.ops[op].kind {
            Op::AtomicCASTko { .. }
            | Op::AtomicRMWTko { .. }
            | Op::AtomicRedViewTko { .. }
            | Op::MultimemLoadReduceViewTko { .. }
            | Op::MultimemReduceViewTko { .. }
            | Op::MultimemStoreViewTko { .. }
            | Op::Alloca { global: true, .. } => true,
            Op::LoadPtrTko { memory_ordering, .. }
            | Op::LoadViewTko { memory_ordering, .. }
            | Op::StorePtrTko { memory_ordering, .. }
            | Op::StoreViewTko { memory_ordering, .. } => *memory_ordering != Weak,
            _ => false,
        })
    }

    /// Returns the type of an SSA value.
    fn ty(&self, id: Id) -> &Type {
        self.module.ty(*self.function.body.ty(id))
    }

    /// Returns the shape and element type of a tile type.
    fn tile_type(&self, ty: TypeId) -> (Shape, Elem) {
        let (element, shape) = self.module.tile(ty);
        (shape.iter().map(|dim| *dim as u32).collect(), core_elem(element))
    }

    /// Returns the shape and element type of an op's only tile result.
    fn result_type(&self, op: OpId) -> (Shape, Elem) {
        self.tile_type(*self.function.body.ty(self.function.body.result(op)))
    }
}

/// Converts a Tile IR element type to the core dialect. Tile IR pointers have no address space, so they become generic pointers.
pub(crate) fn core_elem(element: Element) -> Elem {
    match element {
        Element::Scalar(scalar) => Elem::Scalar(scalar),
        Element::Ptr(pointer) => Elem::Ptr { pointee: pointer.pointee, space: Space::Generic },
    }
}

/// Returns a tile as the only result.
fn tile_result(tile: Tile) -> Result<Results> {
    Ok(smallvec![Value::Tile(tile)])
}

impl Program for TileProgram<'_> {
    type Op = Op;
    type Ty = TypeId;

    fn body(&self) -> &Body<Op, TypeId> {
        &self.function.body
    }
    fn debug(&self) -> &DebugInfo {
        self.debug
    }

    fn control<'a>(&self, op: &'a Op) -> Control<'a> {
        match op {
            Op::If { condition, then_region, else_region } => {
                Control::If { cond: *condition, then: *then_region, otherwise: *else_region }
            }
            Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body } => Control::For {
                lower: *lower_bound,
                upper: *upper_bound,
                step: *step,
                init: init_values,
                unsigned: *unsigned_cmp,
                body: *body,
            },
            Op::Loop { init_values, body } => Control::Loop { init: init_values, body: *body },
            Op::Yield { operands } => Control::Yield(operands),
            Op::Continue { operands } => Control::Continue(operands),
            Op::Break { operands } => Control::Break(operands),
            Op::Return { .. } => Control::Return,
            _ => Control::None,
        }
    }

    fn is_elementwise(&self, op: &Op) -> bool {
        matches!(op, Op::Constant { .. } | Op::Yield { .. }) || compute::elementwise(op).is_some()
    }
    fn may_create_nan(&self, op: &Op) -> bool {
        op.opcode().info().effects != Effects::Memory
    }

    fn execute(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        let results = self.execute_op(op, env)?;
        if env.kernel_memory.checks(Check::Padding) { self.track_undetermined(op, results, env) } else { Ok(results) }
    }
}

impl TileProgram<'_> {
    /// Executes an op. Does not track undetermined elements.
    fn execute_op(&self, op: OpId, env: &mut Env<'_>) -> Result<Results> {
        let (kind, loc) = (&self.function.body.ops[op].kind, self.function.body.ops[op].loc);
        if let Op::DivI { rhs, .. } | Op::RemI { rhs, .. } = kind {
            effects::check_divisor(*rhs, loc, env);
        }
        if let Some(result) = self.execute_elementwise(op, kind, env) {
            return tile_result(result);
        }
        if let Some(result) = self.rearrange(op, kind, env)? {
            return tile_result(result);
        }
        match kind {
            Op::Constant { .. } => {
                tile_result(self.constants[op.0 as usize].clone().expect("`TileProgram::new` computes all constants"))
            }
            Op::MmaF { .. } | Op::MmaI { .. } | Op::MmaFScaled { .. } => tile_result(self.mma(kind, env)),
            Op::Reduce { dim, operands, body, .. } => {
                let (combiner_body, dim) = (|| CombinerBody { program: self, region: *body }, *dim as usize);
                let results = combine::reduce(combiner_body(), dim, operands, env)?;
                combine::check_order(combiner_body(), &ReductionOrScan { dim, scan: None, operands, results: &results }, loc, env)?;
                Ok(results)
            }
            Op::Scan { dim, direction, operands, body, .. } => {
                let (combiner_body, dim) = (|| CombinerBody { program: self, region: *body }, *dim as usize);
                let results = combine::scan(combiner_body(), dim, *direction == Direction::Reverse, operands, env)?;
                let scan = Some(*direction);
                combine::check_order(combiner_body(), &ReductionOrScan { dim, scan, operands, results: &results }, loc, env)?;
                Ok(results)
            }
            Op::GetTileBlockId {} => {
                Ok(env.state.block_position.index.map(|i| Value::Tile(Tile::i32(i.into()))).into_iter().collect())
            }
            Op::GetNumTileBlocks {} => {
                Ok(env.state.block_position.grid.map(|n| Value::Tile(Tile::i32(n.into()))).into_iter().collect())
            }
            Op::GetGlobal { name } => {
                let (_, elem) = self.result_type(op);
                let name = self.module.string(name.0);
                match self.globals.get(name) {
                    Some(address) => tile_result(Tile::scalar(elem, *address)),
                    None => Err(Diagnostic::invalid("RUN030", format!("no global is named '{name}'"))),
                }
            }
            Op::Assume { value, .. } if self.stride_assumes.contains(&op) => Ok(smallvec![env.value(*value).clone()]),
            Op::Assume { predicate, value } => effects::assume(*value, || memory::fact_of_predicate(predicate), loc, env),
            Op::Assert { message, condition } => {
                effects::assert(&env.tile(*condition).clone(), self.module.string(*message), self.debug, loc, env)
            }
            Op::PrintTko { format, args, token } => effects::print(self.module.string(*format), &env.tiles(args), *token, env),
            Op::MakeTensorView { .. }
            | Op::MakePartitionView { .. }
            | Op::MakeStridedView { .. }
            | Op::MakeGatherScatterView { .. }
            | Op::GetTensorShape { .. }
            | Op::GetIndexSpaceShape { .. } => self.execute_view_op(op, kind, env),
            _ => self.execute_memory_op(op, kind, env)?.ok_or_else(|| {
                let name = kind.mnemonic();
                Diagnostic::unsupported("RUN031", format!("'{name}' is not supported"))
            }),
        }
    }
}

/// Returns an extent or an index as a scalar tile of the type `ty`.
fn integer_tile(ty: &Type, value: i64) -> Tile {
    let scalar = ty.tile().and_then(|(element, _)| element.scalar()).unwrap_or(Scalar::I64);
    Tile::scalar(Elem::Scalar(scalar), value as u64 & scalar.mask())
}
