//! Loads and stores of tiles through views of strided memory.

use super::{Emitter, Lowered, StridedMemory};
use crate::ir::Val;
use base::core_ops::Core;
use base::diag::Result;
use base::ir::Op as OpId;
use base::memory::{MemoryOrdering, Padding};
use base::tile::{Elem, View, ViewKind};
use base::{Scalar, Value};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use tileas::layout::{Strides, apply};
use tileas::{CopyAtom, Layout, Type};

impl<'c> Emitter<'c, '_> {
    pub(super) fn view_value(&mut self, core: &Core, results: &[Value]) {
        let ir = self.ir;
        match core {
            Core::MakeMemRef { base, sizes, strides } => {
                let Type::MemRef(memref) = self.ty(results[0]) else { unreachable!("the result is a memref") };
                let fill = |known: &[Option<u64>], operands: &[Value]| {
                    let mut operands = operands.iter();
                    let open = |known: &Option<u64>| match known {
                        Some(value) => ir.const64(*value),
                        None => self.scalar(*operands.next().expect("an operand for each open extent")).into_int_value(),
                    };
                    known.iter().map(open).collect::<Vec<_>>()
                };
                let memory = StridedMemory {
                    base: self.scalar(*base).into_pointer_value(),
                    sizes: fill(&memref.sizes, sizes),
                    strides: fill(&memref.strides, strides),
                };
                self.values[results[0].0 as usize] = Some(Lowered::Memory(memory));
            }
            Core::MakeView { memref } => {
                let memory = self.memory(*memref);
                self.values[results[0].0 as usize] = Some(Lowered::Memory(memory));
            }
            Core::MemRefShape { memref } => {
                let memory = self.memory(*memref);
                for (size, result) in memory.sizes.iter().zip(results) {
                    let ty = ir.elem(self.elem(*result)).into_int_type();
                    self.set(*result, vec![ir.resize(*size, ty, true).into()]);
                }
            }
            Core::ViewShape { view } => {
                let memory = self.memory(*view);
                let Type::View(view) = self.ty(*view) else { unreachable!("the operand is a view") };
                for (t, result) in results.iter().enumerate() {
                    let ty = ir.elem(self.elem(*result)).into_int_type();
                    let size = ir.resize(memory.sizes[view.dim_map[t] as usize], ty, true);
                    let step = u64::from(view.kind.step(&view.tile, t));
                    let count = ir.div(ir.add(size, ty.const_int(step - 1, false)), ty.const_int(step, false), false);
                    self.set(*result, vec![count.into()]);
                }
            }
            _ => unreachable!("only ops on views come here"),
        }
    }

    fn memory(&self, value: Value) -> StridedMemory<'c> {
        match &self.values[value.0 as usize] {
            Some(Lowered::Memory(memory)) => memory.clone(),
            _ => unreachable!("the verifier holds that {value} is a memref or view"),
        }
    }

    pub(super) fn view_access(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let (tile, view, index, order, in_bounds, atom) = match program {
            tileas::Op::LoadView { view, index, order, in_bounds, atom, .. } => (results[0], *view, index, order, in_bounds, *atom),
            tileas::Op::StoreView { tile, view, index, order, in_bounds, atom, .. } => {
                (*tile, *view, index, order, in_bounds, *atom)
            }
            _ => return Err(self.unsupported(op)),
        };
        let CopyAtom::Vector { vector_bits } = atom else { return Err(self.unsupported(op)) };
        let Type::View(ty) = self.ty(view) else { unreachable!("the operand is a view") };
        if order.semantics != MemoryOrdering::Weak || matches!(ty.kind, ViewKind::Gather { .. }) {
            return Err(self.unsupported(op));
        }
        let layout = self.layout(tile);
        let window = self.window(view, ty, index, in_bounds, &layout);
        let elem = self.elem(tile);
        if matches!(program, tileas::Op::LoadView { .. }) {
            let registers = self.load_window(&window, ty, elem, &layout, vector_bits);
            self.set(tile, registers);
            self.set_token(results[1]);
        } else {
            self.store_window(&window, tile, elem, &layout, vector_bits);
            self.set_token(results[0]);
        }
        Ok(())
    }

    fn load_window(&self, window: &Window<'c>, view: &View, elem: Elem, layout: &Layout, vector_bits: u32) -> Vec<Val<'c>> {
        let ir = self.ir;
        let width = 1usize << vector_bits;
        let ty = ir.vector_type(ir.stored(elem), width as u32);
        let padding = self.padding(elem, view.padding);
        let mut registers = Vec::with_capacity(layout.registers());
        for first in (0..layout.registers()).step_by(width) {
            let (ptr, inside) = self.place(window, layout, first);
            let otherwise = vec![padding; width];
            let loaded = self.guarded(inside, &otherwise, |e| {
                let vector = e.ir.load(ty, ptr, elem.bytes() * width as u32);
                e.ir.unpack(vector, width).into_iter().map(|value| e.register_form(elem, value)).collect()
            });
            registers.extend(loaded);
        }
        registers
    }

    fn store_window(&self, window: &Window<'c>, tile: Value, elem: Elem, layout: &Layout, vector_bits: u32) {
        let width = 1usize << vector_bits;
        let speaks = self.speaks(layout);
        for first in (0..layout.registers()).step_by(width) {
            let (ptr, inside) = self.place(window, layout, first);
            let values: Vec<Val<'c>> =
                self.get(tile)[first..first + width].iter().map(|value| self.memory_form(elem, *value)).collect();
            self.guarded(self.both(inside, speaks), &[], |e| {
                e.ir.store(e.ir.pack(&values), ptr, elem.bytes() * width as u32);
                Vec::new()
            });
        }
    }

    /// What does not depend on the register: the thread's coordinates and address.
    fn window(&self, view: Value, ty: &View, index: &[Value], in_bounds: &[bool], layout: &Layout) -> Window<'c> {
        let ir = self.ir;
        let memory = self.memory(view);
        let thread = self.thread_coordinates(layout, &ty.tile);
        let mut dims = Vec::new();
        let mut offset = ir.const64(0);
        for t in 0..ty.tile.len() {
            let dim = ty.dim_map[t] as usize;
            let size = memory.sizes[dim];
            let wide = size.get_type();
            let index = ir.resize(self.scalar(index[t]).into_int_value(), wide, true);
            let origin = ir.mul(index, wide.const_int(u64::from(ty.kind.step(&ty.tile, t)), false));
            let coordinate = ir.add(origin, ir.resize(thread[t], wide, false));
            let stride = ir.resize(memory.strides[dim], ir.i64(), true);
            offset = ir.add(offset, ir.mul(ir.resize(coordinate, ir.i64(), true), stride));
            let checked = !in_bounds.get(t).copied().unwrap_or(false);
            dims.push(Dim { coordinate, size, stride, checked });
        }
        let pointee = ir.stored(Elem::Scalar(ty.memref.elem));
        Window {
            base: ir.element_ptr(pointee, memory.base, offset),
            elem: Elem::Scalar(ty.memref.elem),
            strides: Strides::of(&ty.tile),
            dims,
        }
    }

    /// The address of a register's element, and whether it lies inside; none when it surely does.
    fn place(&self, window: &Window<'c>, layout: &Layout, register: usize) -> (PointerValue<'c>, Option<IntValue<'c>>) {
        let ir = self.ir;
        let element = apply(&layout.register, register as u32);
        let mut offset: Option<IntValue<'c>> = None;
        let mut inside = None;
        for (t, dim) in window.dims.iter().enumerate() {
            let own = u64::from(window.strides.coordinate(element, t));
            if own != 0 {
                let step = ir.mul(ir.const64(own), dim.stride);
                offset = Some(offset.map_or(step, |offset| ir.add(offset, step)));
            }
            if dim.checked {
                let coordinate = ir.add(dim.coordinate, dim.coordinate.get_type().const_int(own, false));
                let cond = ir.icmp(IntPredicate::ULT, coordinate, dim.size);
                inside = self.both(inside, Some(cond));
            }
        }
        let pointee = ir.stored(window.elem);
        (offset.map_or(window.base, |offset| ir.element_ptr(pointee, window.base, offset)), inside)
    }

    fn padding(&self, elem: Elem, padding: Option<Padding>) -> Val<'c> {
        let scalar = elem.carrier();
        let sign = 1u64 << (scalar.bits() - 1);
        let (infinity, nan) = match scalar {
            Scalar::F16 => (0x7c00, 0x7fff),
            Scalar::BF16 => (0x7f80, 0x7fff),
            Scalar::F32 | Scalar::TF32 => (0x7f80_0000, 0x7fff_ffff),
            Scalar::F64 => (0x7ff0_0000_0000_0000, 0x7fff_ffff_ffff_ffff),
            Scalar::F8E5M2 => (0x7c, 0x7f),
            _ => (0x7f, 0x7f),
        };
        let bits = match padding {
            None | Some(Padding::Zero) => 0,
            Some(Padding::NegZero) => sign,
            Some(Padding::Nan) => nan,
            Some(Padding::PosInf) => infinity,
            Some(Padding::NegInf) => infinity | sign,
        };
        self.ir.constant(elem, bits)
    }
}

/// Where a thread's part of a tile lies in memory.
struct Window<'c> {
    base: PointerValue<'c>,
    elem: Elem,
    strides: Strides,
    dims: Vec<Dim<'c>>,
}

struct Dim<'c> {
    coordinate: IntValue<'c>,
    size: IntValue<'c>,
    stride: IntValue<'c>,
    /// Whether elements of this dimension may lie outside.
    checked: bool,
}
