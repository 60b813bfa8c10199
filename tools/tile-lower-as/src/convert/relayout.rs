//! Moves a tile from one layout to another: by renaming registers where that is enough, else through shared memory.

use super::Rewriter;
use base::tile::{Elem, Shape};
use base::{Loc, Value};
use tileas::layout::{Strides, solve};
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
        self.attrs.buffers[buffer].offsets = exchange_offsets(&from, to, &shape, elem.bytes());
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
        let atom = CopyAtom::Vector { vector_bits: self.neighbours(buffer, layout) };
        self.emit(Op::SharedStore { x: value, buffer, atom }, [], loc);
    }

    pub(super) fn shared_load(&mut self, buffer: Buffer, ty: Type, layout: &Layout, loc: Loc) -> Value {
        let info = &self.attrs.buffers[buffer];
        let atom = matrix_atom(layout, info).unwrap_or(CopyAtom::Vector { vector_bits: self.neighbours(buffer, layout) });
        self.emit_one(Op::SharedLoad { buffer, atom }, ty, loc)
    }

    /// Log2 of the widest access whose registers are neighbours in the buffer.
    fn neighbours(&self, buffer: Buffer, layout: &Layout) -> u32 {
        let info = &self.attrs.buffers[buffer];
        let widest = (16 / info.elem.bytes().clamp(1, 16)).ilog2() as usize;
        let neighbours =
            layout.register.iter().enumerate().take_while(|(bit, basis)| solve(&info.offsets, **basis) == Some(1 << bit));
        neighbours.count().min(widest) as u32
    }
}

/// Element numbers by offset for a buffer between two layouts: the extent that the first has in neighbouring registers lies
/// innermost, and its 16-byte pieces are permuted from row to row so that neither side meets its own banks.
fn exchange_offsets(from: &Layout, to: &Layout, shape: &Shape, bytes: u32) -> Vec<u32> {
    let strides = Strides::of(shape);
    let innermost = |layout: &Layout| {
        let basis = layout.register.first().or(layout.lane.first()).copied().unwrap_or(1);
        (0..shape.len()).find(|dim| strides.mask(*dim) & basis != 0)
    };
    let inner = innermost(from).or_else(|| innermost(to)).unwrap_or(shape.len() - 1);
    let others = (0..shape.len()).rev().filter(|dim| *dim != inner);
    let order = std::iter::once(inner).chain(others).flat_map(|dim| strides.dim_bits(dim));
    let mut offsets: Vec<u32> = order.map(|bit| 1 << bit).collect();
    swizzle(&mut offsets, strides.bits[inner] as usize, bytes);
    offsets
}

/// Rows of `row_bits` elements: the number of a row's 16-byte piece is exclusive-ored with the number of the row, counted in
/// units of 128 bytes, which is all the banks.
fn swizzle(offsets: &mut [u32], row_bits: usize, bytes: u32) {
    let piece = (16 / bytes.clamp(1, 16)).ilog2() as usize;
    let line = piece + 3;
    let width = row_bits.saturating_sub(piece).min(3);
    for bit in 0..width {
        let row = row_bits.max(line) + bit;
        if row < offsets.len() {
            offsets[row] ^= offsets[piece + bit];
        }
    }
}

/// `ldmatrix`, when the layout is that of its registers and each row of 16 bytes is whole in the buffer.
fn matrix_atom(layout: &Layout, info: &BufferInfo) -> Option<CopyAtom> {
    let bytes = info.elem.bytes();
    let at = |basis: u32| solve(&info.offsets, basis).map(|offset| offset as u32 * bytes);
    let packed = 4u32.checked_div(bytes)?.checked_ilog2()? as usize;
    if !matches!(bytes, 1 | 2 | 4) || info.elem.bits() < 8 || layout.register.len() < packed {
        return None;
    }
    let row_apart = |basis: u32| at(basis).is_some_and(|at| at != 0 && at.is_multiple_of(16));
    let (across, down) = layout.lane.split_at(2);
    let pairs = layout.register[..packed].iter().chain(across);
    let in_row = pairs.enumerate().all(|(bit, basis)| at(*basis) == Some(bytes << bit));
    let rest = &layout.register[packed..];
    if in_row && down.iter().chain(rest).all(|basis| row_apart(*basis)) {
        return Some(CopyAtom::Matrix { trans: false });
    }
    // Transposed, lanes that share a result column were rows in memory.
    let column = down.iter().enumerate().all(|(bit, basis)| at(*basis) == Some(bytes << bit));
    let rows = layout.register[..packed].iter().chain(across).chain(rest);
    (bytes == 2 && column && rows.copied().all(row_apart)).then_some(CopyAtom::Matrix { trans: true })
}
