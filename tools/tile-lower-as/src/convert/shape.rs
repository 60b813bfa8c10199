//! Converts `cat`, `reinterpret`, `extract` and `insert`. If layouts and constant indices allow it, the new op only selects
//! registers. Otherwise, the tile passes through shared memory.

use super::Converter;
use super::relayout::ReadBackAtoms;
use crate::layout_assignment::{cat_operand, reinterpret_operand};
use crate::slices;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Overflow};
use tileas::layout::Strides;
use tileas::{Layout, Op, Type};

/// The element type of the linear indices with which slices are read from and written to shared memory.
const I32: Elem = Elem::Scalar(Scalar::I32);

impl Converter<'_> {
    /// Converts `extract`, `insert`, `cat` and `reinterpret`. A slice at an index that is no constant passes through shared memory.
    pub(super) fn shape_op(&mut self, op: OpId, core: &Core) -> Result<()> {
        let node = &self.from.body.ops[op];
        let (result, loc) = (node.results[0], node.loc);
        let (elem, shape) = self.elem_shape(result);
        let assigned_layout = self.assigned_layouts.or_default(self.from, result);
        let ty = self.tile_type(elem, &shape, assigned_layout.clone());
        let new = match core {
            Core::Cat { lhs, rhs, dim } => {
                let operand = cat_operand(&assigned_layout, &shape, *dim as usize);
                let [lhs, rhs] = [self.tile_in_layout(*lhs, &operand)?, self.tile_in_layout(*rhs, &operand)?];
                self.emit_one(Core::Cat { lhs, rhs, dim: *dim }, ty, loc)
            }
            Core::Reinterpret { x } => {
                let operand = reinterpret_operand(&assigned_layout, self.elem_shape(*x).0, elem);
                let x = self.tile_in_layout(*x, &operand)?;
                self.emit_one(Core::Reinterpret { x }, ty, loc)
            }
            Core::Extract { x, indices } if slices::has_constant_indices(self.from, indices, &self.elem_shape(*x).1, &shape) => {
                let whole = slices::layout_of_whole(&assigned_layout, &self.elem_shape(*x).1, &shape);
                let x = self.tile_read_with(*x, &whole, ReadBackAtoms::Vectors)?;
                let indices = self.non_tiles(indices)?;
                self.emit_one(Core::Extract { x, indices }, ty, loc)
            }
            Core::Insert { x, into, indices }
                if let Some(part) = self.inserted_slice_layout(*x, indices, &assigned_layout, &shape) =>
            {
                let [x, into] = [self.tile_in_layout(*x, &part)?, self.tile_in_layout(*into, &assigned_layout)?];
                let indices = self.non_tiles(indices)?;
                self.emit_one(Core::Insert { x, into, indices }, ty, loc)
            }
            Core::Extract { x, indices } => {
                let source = self.elem_shape(*x).1;
                let buffer = self.store_in_buffer(*x, loc)?;
                let index = self.slice_index(indices, &source, &shape, &assigned_layout, loc)?;
                self.emit_one(Op::SharedGather { buffer, stage: None, index }, ty, loc)
            }
            Core::Insert { x, into, indices } => {
                let slice = self.elem_shape(*x).1;
                let buffer = self.store_in_buffer(*into, loc)?;
                let slice_layout = self.assigned_layouts.or_default(self.from, *x);
                let index = self.slice_index(indices, &shape, &slice, &slice_layout, loc)?;
                let x = self.tile_in_layout(*x, &slice_layout)?;
                self.emit(Op::SharedScatter { x, buffer, stage: None, index }, [], loc);
                self.shared_load(buffer, ty, &assigned_layout, loc)
            }
            _ => unreachable!("the caller passes slices only"),
        };
        self.remember_results(op, &[new]);
        Ok(())
    }

    /// [`Converter::non_tile`] for several values.
    fn non_tiles(&mut self, values: &[Value]) -> Result<Vec<Value>> {
        values.iter().map(|value| self.non_tile(*value)).collect()
    }

    /// The layout that a slice needs so that its insertion at constant indices into a tile in `assigned_layout` only selects
    /// registers. `None` if the indices are not constant or no layout has this property.
    fn inserted_slice_layout(&self, slice: Value, indices: &[Value], assigned_layout: &Layout, whole: &Shape) -> Option<Layout> {
        let part = self.elem_shape(slice).1;
        slices::has_constant_indices(self.from, indices, whole, &part)
            .then(|| slices::layout_of_slice(assigned_layout, whole, &part))
            .flatten()
    }

    /// Emits the store of a tile to a new row-major buffer in shared memory. Returns the buffer.
    fn store_in_buffer(&mut self, value: Value, loc: Loc) -> Result<tileas::Buffer> {
        let (elem, shape) = self.elem_shape(value);
        let layout = self.assigned_layouts.or_default(self.from, value);
        let x = self.tile_in_layout(value, &layout)?;
        let buffer = self.exchange_buffer(elem, &shape);
        self.shared_store(x, &layout, buffer, loc);
        Ok(buffer)
    }

    /// Emits an index tile with the shape `slice` and layout `layout`. Each element is the linear index that an element of the
    /// slice has in the full tile of shape `whole`. `indices` count slices, not elements.
    fn slice_index(&mut self, indices: &[Value], whole: &Shape, slice: &Shape, layout: &Layout, loc: Loc) -> Result<Value> {
        let strides = Strides::for_shape(whole);
        let ty = self.tile_type(I32, slice, layout.clone());
        let mut linear_index: Option<Value> = None;
        for (dim, index) in indices.iter().enumerate() {
            let shift = strides.shift[dim];
            let coordinate = self.emit_one(Op::Coordinate { dim: dim as u32 }, ty.clone(), loc);
            let dim_stride = self.integer_constant(1 << shift, ty.clone(), loc);
            let element_offset =
                self.integer_op(Binary::MulI { overflow: Overflow::None }, coordinate, dim_stride, ty.clone(), loc);
            let slice_stride = self.integer_constant(u64::from(slice[dim]) << shift, Type::Scalar(I32), loc);
            let index = self.non_tile(*index)?;
            let slice_offset =
                self.integer_op(Binary::MulI { overflow: Overflow::None }, index, slice_stride, Type::Scalar(I32), loc);
            let slice_offset = self.splat_scalar(slice_offset, slice, layout, loc);
            let dim_offset =
                self.integer_op(Binary::AddI { overflow: Overflow::None }, element_offset, slice_offset, ty.clone(), loc);
            linear_index = Some(match linear_index {
                None => dim_offset,
                Some(linear_index) => {
                    self.integer_op(Binary::AddI { overflow: Overflow::None }, linear_index, dim_offset, ty.clone(), loc)
                }
            });
        }
        Ok(linear_index.expect("a tile has dimensions"))
    }

    /// Emits an integer constant of type `ty`.
    fn integer_constant(&mut self, bits: u64, ty: Type, loc: Loc) -> Value {
        self.emit_one(Core::Constant { value: Dense::Splat(bits) }, ty, loc)
    }
    /// Emits a binary integer op of type `ty`.
    fn integer_op(&mut self, kind: Binary, lhs: Value, rhs: Value, ty: Type, loc: Loc) -> Value {
        self.emit_one(Core::Binary { kind, lhs, rhs }, ty, loc)
    }
    /// Emits the broadcast of a 32-bit scalar to a tile.
    fn splat_scalar(&mut self, scalar: Value, shape: &Shape, layout: &Layout, loc: Loc) -> Value {
        let unit_shape: Shape = shape.iter().map(|_| 1).collect();
        let uniform = Layout::uniform(layout.warp.len());
        let ty = self.tile_type(I32, &unit_shape, uniform);
        let unit_tile = self.emit_one(Core::Reshape { x: scalar }, ty, loc);
        let ty = self.tile_type(I32, shape, layout.clone());
        self.emit_one(Core::Broadcast { x: unit_tile }, ty, loc)
    }
}
