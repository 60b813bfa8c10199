//! Loads, stores and reductions of tiles through views of strided memory.

use super::{Emitter, Lowered, StridedMemory};
use crate::ir::Val;
use base::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::memory::{AtomicMode, MemoryOrdering, Order, Padding};
use core_dialect::tile::{Elem, ViewKind};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use numerics::arith::Rounding;
use numerics::float::{self, OverflowResult};
use tileas::layout::{Strides, xor_of_bases};
use tileas::{CopyAtom, Layout, Type};

impl<'c> Emitter<'c, '_> {
    /// Emits an op that creates a memref or a view, or reads the shape of a memref or view. The LLVM form of both is a pointer with
    /// sizes and strides.
    pub(super) fn emit_view_op(&mut self, core: &Core, results: &[Value]) {
        let ir = self.ir;
        match core {
            Core::MakeMemRef { base, sizes, strides } => {
                let Type::MemRef(memref) = self.ty(results[0]) else { unreachable!("the result is a memref") };
                let sizes_or_strides = |static_values: &[Option<u64>], operands: &[Value]| {
                    let mut operands = operands.iter();
                    let to_value = |static_value: &Option<u64>| match static_value {
                        Some(value) => ir.const64(*value),
                        None => self.scalar_value(*operands.next().expect("an operand for each open extent")).into_int_value(),
                    };
                    static_values.iter().map(to_value).collect::<Vec<_>>()
                };
                let memory = StridedMemory {
                    base: self.scalar_value(*base).into_pointer_value(),
                    sizes: sizes_or_strides(&memref.sizes, sizes),
                    strides: sizes_or_strides(&memref.strides, strides),
                };
                self.lowered_values[results[0].0 as usize] = Some(Lowered::Memory(memory));
            }
            Core::MakeView { memref } => {
                let memory = self.strided_memory(*memref);
                self.lowered_values[results[0].0 as usize] = Some(Lowered::Memory(memory));
            }
            Core::MemRefShape { memref } => {
                let memory = self.strided_memory(*memref);
                for (size, result) in memory.sizes.iter().zip(results) {
                    let ty = ir.elem_type(self.elem(*result)).into_int_type();
                    self.set_registers(*result, vec![ir.resize(*size, ty, true).into()]);
                }
            }
            Core::ViewShape { view } => {
                let memory = self.strided_memory(*view);
                let Type::View(view) = self.ty(*view) else { unreachable!("the operand is a view") };
                for (t, result) in results.iter().enumerate() {
                    let ty = ir.elem_type(self.elem(*result)).into_int_type();
                    let size = ir.resize(memory.sizes[view.dim_map[t] as usize], ty, true);
                    let step = u64::from(view.kind.step(&view.tile, t));
                    let tile_count = ir.div(ir.add(size, ty.const_int(step - 1, false)), ty.const_int(step, false), false);
                    self.set_registers(*result, vec![tile_count.into()]);
                }
            }
            _ => unreachable!("called for ops on views only"),
        }
    }

    /// Returns the memory of a memref or view.
    pub(super) fn strided_memory(&self, value: Value) -> StridedMemory<'c> {
        match &self.lowered_values[value.0 as usize] {
            Some(Lowered::Memory(memory)) => memory.clone(),
            _ => unreachable!("the verifier checks that {value} is a memref or view"),
        }
    }

    /// Emits a load, a store or a reduction through a view.
    pub(super) fn emit_view_access(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::LoadView { view, index, order, in_bounds, atom: CopyAtom::Vector { vector_bits }, versioned, .. } => {
                let window = self.window_of(op, *view, index, in_bounds, &self.layout(results[0]))?.with_versioned_path(*versioned);
                let window = Window { stepwise: self.is_in_loop(), ..window };
                let registers = self.load_window(&window, results[0], 1 << vector_bits, *order);
                self.set_registers(results[0], registers);
                self.set_token(results[1]);
            }
            tileas::Op::StoreView {
                tile,
                view,
                index,
                order,
                in_bounds,
                atom: CopyAtom::Vector { vector_bits },
                versioned,
                ..
            } => {
                let window = self.window_of(op, *view, index, in_bounds, &self.layout(*tile))?.with_versioned_path(*versioned);
                self.store_window(&window, *tile, 1 << vector_bits, *order);
                self.set_token(results[0]);
            }
            tileas::Op::ReduceView { tile, view, index, order, in_bounds, mode, versioned, .. } => {
                let window = self.window_of(op, *view, index, in_bounds, &self.layout(*tile))?.with_versioned_path(*versioned);
                self.reduce_window(op, &window, *tile, *order, *mode)?;
                self.set_token(results[0]);
            }
            _ => return Err(self.unsupported(op)),
        }
        Ok(())
    }

    /// Emits the loads of a tile from a window, with vectors of `width` elements. Returns the registers of the tile.
    fn load_window(&mut self, window: &Window<'c>, tile: Value, width: usize, order: Order) -> Vec<Val<'c>> {
        let (elem, layout) = (self.elem(tile), &self.layout(tile));
        let otherwise = vec![self.padding_value(elem, window.padding); width];
        let is_ordered = order.semantics != MemoryOrdering::Weak;
        // Another thread may change the memory between two loads of an element. So one thread loads the element for all threads
        // that hold it.
        let is_representative = if is_ordered { self.is_representative(layout) } else { None };
        let piece_count = layout.registers() / width;
        let loaded_words = self.emit_window_access(window, |e, window| {
            let load_piece = |piece| {
                let (ptr, inside) = e.element_ptr_and_bounds_test(window, layout, piece * width);
                e.load_where(e.conjunction(inside, is_representative), &otherwise, tile, ptr, order)
            };
            (0..piece_count).flat_map(load_piece).collect()
        });
        let registers = self.loaded_registers(elem, loaded_words);
        if is_representative.is_some() { self.broadcast_in_warp(layout, elem, registers) } else { registers }
    }

    /// Emits the stores of a tile to a window, with vectors of `width` elements.
    fn store_window(&self, window: &Window<'c>, tile: Value, width: usize, order: Order) {
        let (elem, layout) = (self.elem(tile), self.layout(tile));
        let is_representative = self.is_representative(&layout);
        self.emit_window_access(window, |e, window| {
            for first in (0..layout.registers()).step_by(width) {
                let (ptr, inside) = e.element_ptr_and_bounds_test(window, &layout, first);
                e.emit_guarded(e.conjunction(inside, is_representative), &[], |e| {
                    e.store_elements(elem, ptr, &e.registers_of(tile)[first..first + width], order);
                    Vec::new()
                });
            }
            Vec::new()
        });
    }

    /// Emits the atomic reductions of a tile into a window.
    fn reduce_window(&self, op: OpId, window: &Window<'c>, tile: Value, order: Order, mode: AtomicMode) -> Result<()> {
        let (elem, layout) = (self.elem(tile), self.layout(tile));
        let atomic = self.atomic_name(op, elem, Some(mode))?;
        let is_representative = self.is_representative(&layout);
        self.emit_window_access(window, |e, window| {
            for register in 0..layout.registers() {
                let (ptr, inside) = e.element_ptr_and_bounds_test(window, &layout, register);
                e.emit_guarded(e.conjunction(inside, is_representative), &[], |e| {
                    e.atomic_instruction(&atomic, elem, order, ptr, &[e.registers_of(tile)[register]]);
                    Vec::new()
                });
            }
            Vec::new()
        });
        Ok(())
    }

    /// Emits the accesses of a window with bounds checks. A versioned access also has a path without checks, for tiles inside all
    /// bounds.
    pub(super) fn emit_window_access(
        &self,
        window: &Window<'c>,
        access: impl Fn(&Self, &Window<'c>) -> Vec<Val<'c>>,
    ) -> Vec<Val<'c>> {
        let ir = self.ir;
        let Some(is_inside) = Some(window).filter(|window| window.versioned).and_then(|window| self.is_tile_inside(window)) else {
            return access(self, window);
        };
        let [unchecked_path, checked_path, block_after] = [(); 3].map(|()| ir.append_block(self.kernel, ""));
        ir.conditional_branch(is_inside, unchecked_path, checked_path);
        let emit_path = |start, window: &Window<'c>| {
            ir.builder.position_at_end(start);
            let values = access(self, window);
            let end = ir.current_block();
            ir.jump(block_after);
            (values, end)
        };
        let (unchecked_values, end) = emit_path(unchecked_path, &window.unchecked());
        let (checked_values, other_end) = emit_path(checked_path, window);
        ir.builder.position_at_end(block_after);
        let merge_with_phi = |(value, checked_value): (&Val<'c>, &Val<'c>)| {
            let phi = ir.builder.build_phi(value.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(value, end), (checked_value, other_end)]);
            phi.as_basic_value()
        };
        unchecked_values.iter().zip(&checked_values).map(merge_with_phi).collect()
    }

    /// Whether the full tile is inside all bounds; all threads have the same result. `None` if no dimension is checked, or if a
    /// checked dimension is gathered.
    fn is_tile_inside(&self, window: &Window<'c>) -> Option<IntValue<'c>> {
        let ir = self.ir;
        let mut is_inside = None;
        for dim in window.dims.iter().filter(|dim| dim.checked) {
            let origin = dim.origin?;
            let ty = origin.get_type();
            let last_origin = ir.sub(dim.size, ty.const_int(u64::from(dim.extent), false));
            is_inside = self.conjunction(is_inside, Some(ir.icmp(IntPredicate::SGE, origin, ty.const_zero())));
            is_inside = self.conjunction(is_inside, Some(ir.icmp(IntPredicate::SLE, origin, last_origin)));
        }
        is_inside
    }

    /// Computes the part of a view access that all registers of a thread share: the thread's coordinates and its base address.
    pub(super) fn window_of(
        &self,
        op: OpId,
        view: Value,
        index: &[Value],
        in_bounds: &[bool],
        layout: &Layout,
    ) -> Result<Window<'c>> {
        let ir = self.ir;
        let Type::View(ty) = self.ty(view) else { unreachable!("the operand is a view") };
        let memory = self.strided_memory(view);
        let thread_coordinates = self.thread_coordinates(layout, &ty.tile);
        let mut dims = Vec::new();
        let mut offset = ir.const64(0);
        for t in 0..ty.tile.len() {
            let dim = ty.dim_map[t] as usize;
            let size = memory.sizes[dim];
            let index_type = size.get_type();
            let stride = ir.resize(memory.strides[dim], ir.i64(), true);
            let checked = !in_bounds.get(t).copied().unwrap_or(false);
            if ty.kind == (ViewKind::Gather { sparse_dim: t as u32 }) {
                let rows = self.gathered_rows(op, index[t], layout, &ty.tile, t)?;
                let rows = rows.into_iter().map(|row| ir.resize(row, index_type, true)).collect();
                let coordinate = index_type.const_zero();
                dims.push(Dim { origin: None, extent: ty.tile[t], coordinate, rows: Some(rows), size, stride, checked });
                continue;
            }
            let index = ir.resize(self.scalar_value(index[t]).into_int_value(), index_type, true);
            let step = ty.kind.step(&ty.tile, t);
            let origin = ir.mul(index, index_type.const_int(u64::from(step), false));
            let coordinate = ir.add(origin, ir.resize(thread_coordinates[t], index_type, false));
            offset = ir.add(offset, ir.mul(ir.resize(coordinate, ir.i64(), true), stride));
            dims.push(Dim { origin: Some(origin), extent: ty.tile[t], coordinate, rows: None, size, stride, checked });
        }
        let elem = Elem::Scalar(ty.memref.elem);
        let base = self.element_address(elem, memory.base, offset);
        let strides = Strides::for_shape(&ty.tile);
        Ok(Window { base, elem, strides, dims, padding: ty.padding, versioned: false, stepwise: false })
    }

    /// The row index of each register of a gathered tile. Each thread has the indices that it needs, because the layout of the
    /// index tile is the gathered tile's layout, projected to this dimension.
    fn gathered_rows(&self, op: OpId, index: Value, layout: &Layout, tile: &[u32], dim: usize) -> Result<Vec<IntValue<'c>>> {
        let strides = Strides::for_shape(tile);
        let index_registers = layout.renaming(&self.layout(index), |element| strides.coordinate(element, dim));
        let index_registers = index_registers.ok_or_else(|| {
            Diagnostic::invalid("PX006", "the indices of a gathered tile are not in the threads that need them".to_string())
                .at_loc(&self.envelope.debug, self.function.body.ops[op].loc)
        })?;
        let row = |register: usize| self.registers_of(index)[register].into_int_value();
        Ok(index_registers.into_iter().map(row).collect())
    }

    /// The address of a register's element, and whether the element is inside the bounds. The condition is `None` if no dimension
    /// is checked.
    pub(super) fn element_ptr_and_bounds_test(
        &self,
        window: &Window<'c>,
        layout: &Layout,
        register: usize,
    ) -> (PointerValue<'c>, Option<IntValue<'c>>) {
        let ir = self.ir;
        let element = xor_of_bases(&layout.register, register as u32);
        let register_coordinate = |t: usize| window.strides.coordinate(element, t);
        let mut is_inside = None;
        for (t, dim) in window.dims.iter().enumerate().filter(|(_, dim)| dim.checked) {
            let coordinate = match &dim.rows {
                Some(rows) => rows[register],
                None => ir.add(dim.coordinate, dim.coordinate.get_type().const_int(u64::from(register_coordinate(t)), false)),
            };
            is_inside = self.conjunction(is_inside, Some(ir.icmp(IntPredicate::ULT, coordinate, dim.size)));
        }
        let (base, offset) = self.base_and_offset(window, layout, register);
        (offset.map_or(base, |offset| self.element_address(window.elem, base, offset)), is_inside)
    }

    /// The address of a register's element as an integer.
    pub(super) fn address_as_integer(&self, window: &Window<'c>, layout: &Layout, register: usize) -> IntValue<'c> {
        let ir = self.ir;
        let (base, offset) = self.base_and_offset(window, layout, register);
        let bytes = |elements| ir.mul(elements, ir.const64(u64::from(window.elem.bytes())));
        offset.map_or(ir.ptr_to_int(base), |offset| ir.add(ir.ptr_to_int(base), bytes(offset)))
    }

    /// The base pointer for a register's element, and the distance from this pointer to the element, in elements. `None` means no
    /// distance.
    fn base_and_offset(&self, window: &Window<'c>, layout: &Layout, register: usize) -> (PointerValue<'c>, Option<IntValue<'c>>) {
        let ir = self.ir;
        let element = xor_of_bases(&layout.register, register as u32);
        let register_coordinate = |t: usize| window.strides.coordinate(element, t);
        let (mut base, mut offset) = (window.base, None);
        for (t, dim) in window.dims.iter().enumerate() {
            let times_stride = |bits: u32| (bits != 0).then(|| ir.mul(ir.const64(u64::from(bits)), dim.stride));
            let step = match &dim.rows {
                Some(rows) => Some(ir.mul(ir.resize(rows[register], ir.i64(), true), dim.stride)),
                None if !window.stepwise || dim.stride.is_const() || window.elem.bits() == 4 => {
                    times_stride(register_coordinate(t))
                }
                None => {
                    for bit in (0..u32::BITS).rev().map(|bit| register_coordinate(t) & 1 << bit) {
                        base = times_stride(bit).map_or(base, |step| self.element_address(window.elem, base, step));
                    }
                    None
                }
            };
            offset = offset.into_iter().chain(step).reduce(|offset, step| ir.add(offset, step));
        }
        (base, offset)
    }

    /// The address at an offset in elements. For four-bit elements, of which two share a byte, the offset is even.
    fn element_address(&self, elem: Elem, base: PointerValue<'c>, offset: IntValue<'c>) -> PointerValue<'c> {
        let ir = self.ir;
        if elem.bits() == 4 {
            return ir.element_ptr(ir.int_type(8).into(), base, ir.shr(offset, ir.const64(1), true));
        }
        ir.element_ptr(ir.memory_type(elem), base, offset)
    }

    /// The value that a load through this window returns for elements outside the tensor.
    pub(super) fn padding_of(&self, elem: Elem, window: &Window<'c>) -> Val<'c> {
        self.padding_value(elem, window.padding)
    }

    /// Returns the value that a load with this padding returns for elements outside the tensor.
    fn padding_value(&self, elem: Elem, padding: Option<Padding>) -> Val<'c> {
        let encode = |value: f64| float::encode(elem.carrier(), value, Rounding::NearestEven, OverflowResult::Ieee);
        let bits = match padding {
            None | Some(Padding::Zero) => 0,
            Some(Padding::NegZero) => encode(-0.0),
            Some(Padding::Nan) => encode(f64::NAN),
            Some(Padding::PosInf) => encode(f64::INFINITY),
            Some(Padding::NegInf) => encode(f64::NEG_INFINITY),
        };
        self.ir.constant(elem, bits)
    }
}

/// A thread's access to a tile in memory: the parts of the addresses and coordinates that all registers of the thread share.
pub(super) struct Window<'c> {
    /// The address to which each register adds its offset.
    base: PointerValue<'c>,
    elem: Elem,
    /// The positions of coordinates in the tile's element numbers.
    pub(super) strides: Strides,
    pub(super) dims: Vec<Dim<'c>>,
    padding: Option<Padding>,
    /// Whether the access has a second path without bounds checks.
    versioned: bool,
    /// Whether addresses are computed step by step, with an addition for each bit in which registers differ, so that registers
    /// share partial sums. Only loads in a loop use it: fewer multiples of the strides are then live through the loop. Stores do
    /// not use it, because each additional live address makes ptxas spill stored values. Copies to shared memory do not use it,
    /// because independent additions leave ptxas more freedom.
    stepwise: bool,
}

impl<'c> Window<'c> {
    /// Sets whether the access has a second path without bounds checks.
    pub(super) fn with_versioned_path(self, versioned: bool) -> Self {
        Window { versioned, ..self }
    }

    /// Returns the same window without bounds checks.
    fn unchecked(&self) -> Window<'c> {
        let strides = Strides { shift: self.strides.shift.clone(), bits: self.strides.bits.clone() };
        let dims = self.dims.iter().cloned().map(|dim| Dim { checked: false, ..dim }).collect();
        Window { dims, strides, ..*self }
    }
}

/// One dimension of a window.
#[derive(Clone)]
pub(super) struct Dim<'c> {
    /// The first coordinate of the tile; `None` in a gathered dimension.
    origin: Option<IntValue<'c>>,
    /// The extent of the tile in elements.
    extent: u32,
    /// The thread's part of the coordinate, to which each register adds its part.
    pub(super) coordinate: IntValue<'c>,
    /// In a gathered dimension, the coordinate of each register, which replaces `coordinate`.
    rows: Option<Vec<IntValue<'c>>>,
    /// The extent of the tensor.
    pub(super) size: IntValue<'c>,
    /// The stride of the tensor, in elements.
    stride: IntValue<'c>,
    /// Whether the access needs a bounds check in this dimension.
    pub(super) checked: bool,
}
