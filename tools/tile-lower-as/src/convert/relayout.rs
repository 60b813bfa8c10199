//! Moves a tile from one layout to another: by renaming registers where that is enough, else through shared memory.

use super::Rewriter;
use base::tile::{Elem, Shape};
use base::{Loc, Value};
use tileas::layout::solve;
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
        let buffer = self.exchange_buffer(elem, &shape);
        self.shared_store(value, &from, buffer, loc);
        self.shared_load(buffer, ty, to, loc)
    }

    /// A buffer that holds a tile row by row.
    pub(super) fn exchange_buffer(&mut self, elem: Elem, shape: &Shape) -> Buffer {
        let bits: u32 = shape.iter().map(|extent| extent.trailing_zeros()).sum();
        let offsets = (0..bits).map(|bit| 1 << bit).collect();
        self.attrs.buffers.push(BufferInfo { elem, shape: shape.clone(), space: BufferSpace::Shared, offsets, align: 16 })
    }

    pub(super) fn shared_store(&mut self, value: Value, layout: &Layout, buffer: Buffer, loc: Loc) {
        let atom = self.shared_atom(buffer, layout);
        self.emit(Op::SharedStore { x: value, buffer, atom }, [], loc);
    }

    pub(super) fn shared_load(&mut self, buffer: Buffer, ty: Type, layout: &Layout, loc: Loc) -> Value {
        let atom = self.shared_atom(buffer, layout);
        self.emit_one(Op::SharedLoad { buffer, atom }, ty, loc)
    }

    /// The widest access whose registers are neighbours in the buffer.
    fn shared_atom(&self, buffer: Buffer, layout: &Layout) -> CopyAtom {
        let info = &self.attrs.buffers[buffer];
        let widest = (16 / info.elem.bytes().clamp(1, 16)).trailing_zeros() as usize;
        let neighbours =
            layout.register.iter().enumerate().take_while(|(bit, basis)| solve(&info.offsets, **basis) == Some(1 << bit));
        CopyAtom::Vector { vector_bits: neighbours.count().min(widest) as u32 }
    }
}
