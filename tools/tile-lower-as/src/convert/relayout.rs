//! Moves a tile from one layout to another: by renaming registers where that is enough, else through shared memory.

use super::Rewriter;
use crate::banks;
use base::tile::{Elem, Shape};
use base::{Loc, Value};
use tileas::layout::Strides;
use tileas::{Buffer, BufferInfo, BufferSpace, CopyAtom, Layout, Op, Route, Type};

impl Rewriter<'_> {
    pub(super) fn relayout(&mut self, value: Value, to: &Layout, loc: Loc) -> Value {
        let Type::Tile { elem, shape, layout } = self.to.ty(value).clone() else { unreachable!("only tiles have layouts") };
        let from = self.module.layouts[layout].clone();
        if from == *to {
            return value;
        }
        let ty = self.tile_type(elem, &shape, to.clone());
        if to.renaming(&from, |element| element).is_some() {
            return self.emit_one(Op::ConvertLayout { x: value, route: Route::Registers }, ty, loc);
        }
        let inner = [&from, to].map(|layout| innermost(layout, &shape));
        let buffer = banks::exchange(elem, &shape, inner, &[&from, to]);
        let buffer = self.attrs.buffers.push(buffer);
        self.shared_store(value, &from, buffer, loc);
        self.shared_load(buffer, ty, to, loc)
    }

    /// A buffer that holds a tile row by row.
    pub(super) fn exchange_buffer(&mut self, elem: Elem, shape: &Shape) -> Buffer {
        let bits: u32 = shape.iter().map(|extent| extent.trailing_zeros()).sum();
        let offsets = (0..bits).map(|bit| 1 << bit).collect();
        self.attrs.buffers.push(BufferInfo { elem, shape: shape.clone(), space: BufferSpace::Shared, offsets, align: 128 })
    }

    pub(super) fn shared_store(&mut self, value: Value, layout: &Layout, buffer: Buffer, loc: Loc) {
        let atom = CopyAtom::Vector { vector_bits: banks::neighbours(&self.attrs.buffers[buffer], layout) };
        self.emit(Op::SharedStore { x: value, buffer, atom }, [], loc);
    }

    pub(super) fn shared_load(&mut self, buffer: Buffer, ty: Type, layout: &Layout, loc: Loc) -> Value {
        let atom = banks::read_atom(&self.attrs.buffers[buffer], layout);
        self.emit_one(Op::SharedLoad { buffer, atom }, ty, loc)
    }
}

/// The dimension along which a layout has neighbours.
fn innermost(layout: &Layout, shape: &[u32]) -> usize {
    let strides = Strides::of(shape);
    let basis = layout.register.first().or(layout.lane.first()).copied().unwrap_or(1);
    (0..shape.len()).find(|dim| strides.mask(*dim) & basis != 0).unwrap_or(shape.len() - 1)
}
