//! Converts tiles between layouts: by renaming registers if possible, by warp shuffles if a thread has few words, and otherwise
//! through shared memory. A tile that exceeds half of shared memory is converted in halves. See also: Triton's `ConvertLayoutOp`
//! lowering.

use super::Converter;
use crate::layout_assignment::cat_result;
use crate::layout_transforms::{innermost_dim, neighbours_first};
use crate::operands::{self, OperandStep, StepKind};
use crate::{slices, smem_swizzles};
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use target_info::Feature;
use tileas::budget;
use tileas::layout::Strides;
use tileas::{Buffer, BufferInfo, CopyAtom, Layout, Op, Route, Space, Type};

/// A layout conversion uses at most `1 / SMEM_DIVISOR` of shared memory. A larger tile is converted in halves.
const SMEM_DIVISOR: u32 = 2;

/// Maximum 32-bit words per thread for which warp shuffles cost less than shared memory with its barriers.
const MAX_SHUFFLED_WORDS: usize = 4;
/// [`MAX_SHUFFLED_WORDS`] for a tile of which threads use only slices ([`ReadBackAtoms::Vectors`]).
const MAX_SHUFFLED_WORDS_OF_SLICES: usize = 16;

/// The atoms with which threads read a tile back from shared memory during a layout conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadBackAtoms {
    /// Any atom.
    Any,
    /// Only vector loads. Reason: if threads use slices of the tile, `ptxas` can remove each unused vector load.
    Vectors,
}

impl Converter<'_> {
    /// Emits the conversion of a tile of the new function to the layout `to`. If the tile passes through shared memory, threads
    /// read it back with `atoms`. Returns the converted tile.
    pub(super) fn relayout(&mut self, value: Value, to: &Layout, atoms: ReadBackAtoms, loc: Loc) -> Value {
        let Type::Tile { elem, shape, layout } = self.to.ty(value).clone() else { unreachable!("only tiles have layouts") };
        let from = self.module.layouts[layout].clone();
        if from == *to {
            return value;
        }
        let ty = self.tile_type(elem, &shape, to.clone());
        if to.renaming(&from, |element| element).is_some() {
            return self.emit_one(Op::ConvertLayout { x: value, route: Route::Registers }, ty, loc);
        }
        let words = to.registers() * elem.bytes().div_ceil(4) as usize;
        let max_words = if atoms == ReadBackAtoms::Vectors { MAX_SHUFFLED_WORDS_OF_SLICES } else { MAX_SHUFFLED_WORDS };
        if words <= max_words && to.exchange(&from).is_some() {
            return self.emit_one(Op::ConvertLayout { x: value, route: Route::Shuffle }, ty, loc);
        }
        if let Some(bit) = self.bit_to_halve(elem, &shape, &from, to) {
            return self.convert_by_halves(value, to, bit, atoms, loc);
        }
        let inner = [&from, to].map(|layout| innermost_dim(layout, &shape));
        let in_order = neighbours_first(&from, &shape, inner[0]);
        if in_order != from {
            let ty = self.tile_type(elem, &shape, in_order.clone());
            let value = self.emit_one(Op::ConvertLayout { x: value, route: Route::Registers }, ty, loc);
            return self.relayout(value, to, atoms, loc);
        }
        let buffer = smem_swizzles::conversion_buffer(elem, &shape, inner, &[&from, to]);
        let buffer = self.attrs.buffers.push(buffer);
        self.shared_store(value, &from, buffer, loc);
        if atoms == ReadBackAtoms::Vectors {
            let atom = CopyAtom::Vector { vector_bits: smem_swizzles::widest_vector(&self.attrs.buffers[buffer], to) };
            return self.emit_one(Op::SharedLoad { buffer, stage: None, atom, per_k_step: false, prefetch_next: false }, ty, loc);
        }
        self.shared_load(buffer, ty, to, loc)
    }

    /// Whether a use computes a tile again in `layout`, because a conversion of a narrower operand takes fewer wavefronts than a
    /// conversion of the tile. So that no work is added, the tile and the values between operand and tile must have no other use.
    /// Also, `layout` must not repeat elements. The tile must not be loop-invariant, because each iteration would compute it again.
    pub(super) fn pays_to_rematerialize(&self, value: Value, assigned_layout: &Layout, layout: &Layout) -> bool {
        let scope = self.scopes.last().expect("a function is open");
        let only_here = |value: Value| self.use_counts[value.0 as usize] == 1;
        let is_here = |value: Value| scope.new_values.range((value, None)..).next().is_some_and(|((old, _), _)| *old == value);
        let (elem, shape) = self.elem_shape(value);
        let replicates_elements = layout.registers() > assigned_layout.registers();
        if replicates_elements
            || layout.renaming(assigned_layout, |element| element).is_some()
            || !is_here(value)
            || !only_here(value)
        {
            return false;
        }
        let (mut source, mut desired) = (value, layout.clone());
        while let Some(OperandStep { from, step_kind }) = operands::defining_step(self.from, source) {
            if let StepKind::Permuted(order) = step_kind {
                desired = desired.unpermute(&self.elem_shape(source).1, order);
            }
            source = from;
            if self.elem_shape(source).0.bytes() >= elem.bytes() && !only_here(source) {
                return false;
            }
            let (source_elem, source_shape) = self.elem_shape(source);
            let Some(before) = self.assigned_layouts.get(source).filter(|_| source_elem.bytes() < elem.bytes() && is_here(source))
            else {
                continue;
            };
            let conversion_cost = |elem, shape: &Shape, from: &Layout, to: &Layout| {
                smem_swizzles::conversion_cost(elem, shape, [from, to].map(|layout| innermost_dim(layout, shape)), [from, to])
            };
            let [operand_conversion, conversion] = [
                conversion_cost(source_elem, &source_shape, before, &desired),
                conversion_cost(elem, &shape, assigned_layout, layout),
            ];
            return operand_conversion.wavefronts < conversion.wavefronts && operand_conversion.accesses <= conversion.accesses;
        }
        false
    }

    /// For a tile that is too large for one conversion through shared memory, the bit of the linear element index that selects a
    /// half. In both layouts, one register bit selects the half, so each thread holds elements of both halves. `None` for a smaller
    /// tile, or if no bit has this property.
    fn bit_to_halve(&self, elem: Elem, shape: &Shape, from: &Layout, to: &Layout) -> Option<u32> {
        let bytes = (core_dialect::tile::element_count(shape) as u32).saturating_mul(elem.bytes());
        let max_bytes = self.envelope.target().map_or(u32::MAX, budget::shared_memory) / SMEM_DIVISOR;
        let in_both = |basis: &&u32| basis.is_power_of_two() && to.register.contains(basis) && is_in_one_basis(**basis, from, to);
        (bytes > max_bytes).then(|| from.register.iter().filter(in_both).max().map(|basis| basis.trailing_zeros())).flatten()
    }

    /// Converts a tile in two halves: reshapes it so that `bit` becomes a dimension of extent 2, and converts both slices along
    /// this dimension.
    fn convert_by_halves(&mut self, value: Value, to: &Layout, bit: u32, atoms: ReadBackAtoms, loc: Loc) -> Value {
        let Type::Tile { elem, shape, layout } = self.to.ty(value).clone() else { unreachable!("only tiles have layouts") };
        let from = self.module.layouts[layout].clone();
        let (reshaped, half, dim) = halved_shapes(&shape, bit);
        let ty = self.tile_type(elem, &reshaped, from.clone());
        let value = self.emit_one(Core::Reshape { x: value }, ty, loc);
        let layout_of_half = |layout| slices::layout_of_slice(layout, &reshaped, &half).expect("`bit_to_halve` checks the bit");
        let (half_from, half_to) = (layout_of_half(&from), layout_of_half(to));
        let i32 = Type::Scalar(Elem::Scalar(Scalar::I32));
        let parts = [0, 1].map(|half_index| {
            let index_along = |along: usize| if along == dim { half_index } else { 0 };
            let index = |along| self.emit_one(Core::Constant { value: Dense::Splat(index_along(along)) }, i32.clone(), loc);
            let indices = (0..reshaped.len()).map(index).collect();
            let ty = self.tile_type(elem, &half, half_from.clone());
            let part = self.emit_one(Core::Extract { x: value, indices }, ty, loc);
            self.relayout(part, &half_to, atoms, loc)
        });
        let whole_layout = cat_result(&half_to, &half, dim);
        let ty = self.tile_type(elem, &reshaped, whole_layout.clone());
        let cat = self.emit_one(Core::Cat { lhs: parts[0], rhs: parts[1], dim: dim as u32 }, ty, loc);
        let ty = self.tile_type(elem, &shape, whole_layout);
        let converted = self.emit_one(Core::Reshape { x: cat }, ty, loc);
        self.relayout(converted, to, atoms, loc)
    }

    /// Adds a shared-memory buffer for a tile in row-major order.
    pub(super) fn exchange_buffer(&mut self, elem: Elem, shape: &Shape) -> Buffer {
        let bits: u32 = shape.iter().map(|extent| extent.trailing_zeros()).sum();
        let offset_bases = (0..bits).map(|bit| 1 << bit).collect();
        self.attrs.buffers.push(BufferInfo { elem, shape: shape.clone(), offset_bases, align: 128, space: Space::Shared })
    }

    /// Emits a store of a tile in `layout` to a shared-memory buffer by threads.
    pub(super) fn shared_store(&mut self, value: Value, layout: &Layout, buffer: Buffer, loc: Loc) {
        let atom = self.store_atom(&self.attrs.buffers[buffer], layout);
        self.emit(Op::SharedStore { x: value, buffer, stage: None, atom }, [], loc);
    }

    /// The atom with which threads store a tile in `layout` to a buffer: `stmatrix` if it is profitable, else vector stores.
    fn store_atom(&self, info: &BufferInfo, layout: &Layout) -> CopyAtom {
        let has_stmatrix = self.envelope.target().is_ok_and(|target| target.has(Feature::StMatrix));
        smem_swizzles::write_atom(info, layout, has_stmatrix)
    }

    /// The shared-memory wavefronts in which a warp stores its part of a tile in `layout` to a buffer.
    pub(super) fn store_wavefronts(&self, info: &BufferInfo, layout: &Layout) -> u32 {
        smem_swizzles::wavefronts_of(info, layout, self.store_atom(info, layout))
    }

    /// Emits a load of a full buffer by threads, with the result in `layout`.
    pub(super) fn shared_load(&mut self, buffer: Buffer, ty: Type, layout: &Layout, loc: Loc) -> Value {
        let has_byte_ldmatrix = self.envelope.target().is_ok_and(|target| target.has(Feature::LdMatrixTransB8));
        let atom = smem_swizzles::read_atom(&self.attrs.buffers[buffer], layout, has_byte_ldmatrix);
        self.emit_one(Op::SharedLoad { buffer, stage: None, atom, per_k_step: false, prefetch_next: false }, ty, loc)
    }
}

/// The shapes for the conversion of a tile in halves, which `bit` of the linear element index selects. Returns the tile's shape
/// with `bit` as a dimension of extent 2, the shape of a half, and the index of the new dimension.
fn halved_shapes(shape: &Shape, bit: u32) -> (Shape, Shape, usize) {
    let strides = Strides::for_shape(shape);
    let split_dim = (0..shape.len()).find(|dim| strides.mask(*dim) >> bit & 1 == 1).expect("the bit is one of the tile's");
    let inner_extent = 1 << (bit - strides.shift[split_dim]);
    let with_extent = |middle: u32| {
        let parts = [shape[split_dim] / (2 * inner_extent), middle, inner_extent];
        shape[..split_dim].iter().copied().chain(parts).chain(shape[split_dim + 1..].iter().copied()).collect()
    };
    (with_extent(2), with_extent(1), split_dim + 1)
}

/// Whether, in each of the two layouts, exactly one basis contains `bit`, a mask with one bit of the linear element index.
fn is_in_one_basis(bit: u32, from: &Layout, to: &Layout) -> bool {
    [from, to].into_iter().all(|layout| {
        let all = layout.register.iter().chain(&layout.lane).chain(&layout.warp);
        all.filter(|basis| **basis & bit != 0).count() == 1
    })
}
