//! Finds the tile types that use each layout, and the thread and register of a tile element.

use base::ir::{Body, Operation};
use base::text::TypeText;
use core_dialect::tile::{Shape, print_shape};
use std::collections::BTreeMap;
use tileas::layout::{Layout, LayoutId, solve};
use tileas::verify::TileAsOp;
use tileas::{FunctionAttrs, Op, Type};

/// The tiles of one type that use one layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileUse {
    pub shape: Shape,
    /// The element type, as text.
    pub elem: String,
    /// The number of SSA values and buffer copies with this type and layout.
    pub count: usize,
}

impl TileUse {
    /// Formats the type, for example `64x16xf16`.
    pub fn describe(&self) -> String {
        format!("{}{}", print_shape(&self.shape), self.elem)
    }
}

/// The uses of each layout of a module, in order of first occurrence.
#[derive(Clone, Debug, Default)]
pub struct UsesByLayout(BTreeMap<LayoutId, Vec<TileUse>>);

impl UsesByLayout {
    /// Adds the uses of a function's values and copies.
    pub fn add<O: Operation + TileAsOp>(&mut self, body: &Body<O, Type>, attrs: &FunctionAttrs) {
        for value in body.values.values() {
            if let Type::Tile { elem, shape, layout } = &value.ty {
                self.add_use(*layout, shape, elem.print());
            }
        }
        for op in body.ops.values() {
            if let Some(Op::CopyView { buffer, layout, .. }) = op.kind.tileas_op() {
                let info = &attrs.buffers[*buffer];
                self.add_use(*layout, &info.shape, info.elem.print());
            }
        }
    }

    /// Adds one use of a layout.
    fn add_use(&mut self, layout: LayoutId, shape: &Shape, elem: String) {
        let uses = self.0.entry(layout).or_default();
        match uses.iter_mut().find(|existing| existing.shape == *shape && existing.elem == elem) {
            Some(existing) => existing.count += 1,
            None => uses.push(TileUse { shape: shape.clone(), elem, count: 1 }),
        }
    }

    /// Returns the uses of a layout.
    pub fn of_layout(&self, layout: LayoutId) -> &[TileUse] {
        self.0.get(&layout).map_or(&[], Vec::as_slice)
    }
}

/// The position of an element in registers: a warp, a lane and a register number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub warp: u32,
    pub lane: u32,
    pub register: u32,
}

/// Returns the warp, lane and register of an element, for the first thread that has the element. Other threads may have copies.
/// `None` if the layout does not contain the element.
pub fn first_holder(layout: &Layout, element: u32) -> Option<Holder> {
    let bases: Vec<u32> = layout.register.iter().chain(&layout.lane).chain(&layout.warp).copied().collect();
    let input = solve(&bases, element)? as u64;
    let (register_bits, lane_bits) = (layout.register.len(), layout.lane.len());
    let bits_from = |from: usize, bits: usize| (input >> from & ((1 << bits) - 1)) as u32;
    let warp = bits_from(register_bits + lane_bits, layout.warp.len());
    Some(Holder { warp, lane: bits_from(register_bits, lane_bits), register: bits_from(0, register_bits) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_holder_inverts_the_layout() {
        let layout = Layout { register: vec![1, 256, 8], lane: vec![2, 4, 32, 64, 128], warp: vec![0, 16] };
        for element in 0..512 {
            let Holder { warp, lane, register } = first_holder(&layout, element).unwrap();
            assert_eq!(layout.element(register as usize, lane as usize, warp as usize), element as usize);
            assert_eq!(warp & 1, 0, "the first of the threads with copies");
        }
        assert_eq!(first_holder(&layout, 512), None);
    }
}
