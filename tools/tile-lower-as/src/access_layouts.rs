//! Purpose: choose the vector width of every memory access and the layout with the widest vectors (coalescing).
//! Requires: facts about divisibility, contiguity and constancy.
//! Establishes: a vector of `1 << vector_bits` elements is contiguous and aligned. All its elements are in bounds or none is, and
//! all have the same mask value.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `Coalesce` and `AxisInfo`; LLVM's `LoadStoreVectorizer`.

use crate::access_plan::{AccessPlan, Pieces, blocked_access};
use crate::operand_trees::as_core;
use crate::unify_vector_widths;
use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::{View, ViewKind, element_count};
use numerics::arith::Convert;
use std::collections::BTreeMap;
use tileaa::facts::{Facts, MemRefFacts};
use tileaa::{Function, Op, Type};
use tileas::Layout;
use tileas::layout::{LANE_BITS, Strides};

/// Bytes of a cache line, which one global-memory transaction of a warp covers.
const LINE: u32 = 128;
/// Bytes of the widest access of a thread.
const MAX_ACCESS_BYTES: u64 = 16;

/// The plans of a function's memory accesses, by op.
pub(crate) struct Accesses(BTreeMap<OpId, AccessPlan>);

impl Accesses {
    /// Plans every access of a function for `1 << warp_bits` warps.
    pub(crate) fn plan(function: &Function, warp_bits: usize) -> Accesses {
        let planner = AccessPlanner { function, facts: Facts::derive(function), warp_bits };
        let plan = |op: OpId| {
            let access = match &function.body.ops[op].kind {
                Op::StoreView { view, tile, .. } if planner.is_permuted(*tile) => {
                    planner.spread_lanes_over_rows(planner.plan_view(*view, u32::MAX), *tile)
                }
                Op::LoadView { view, .. } | Op::StoreView { view, .. } => planner.plan_view(*view, u32::MAX),
                Op::Load { ptr, mask, .. } | Op::Store { ptr, mask, .. } => planner.plan_pointers(*ptr, *mask, u32::MAX)?,
                // An atomic instruction of a thread takes one element. Adjacent elements are in adjacent lanes, so that a warp
                // covers full sectors.
                Op::ReduceView { view, .. } => planner.plan_view(*view, 0),
                Op::MulticastLoad { view, .. } | Op::MulticastStore { view, .. } => planner.plan_multicast(*view)?,
                // Atomics on scattered pointers are not planned, because the layout of the pointers is as good as any.
                Op::AtomicRmw { ptr, .. } | Op::AtomicCas { ptr, .. } if planner.has_neighbours(*ptr) => {
                    planner.plan_pointers(*ptr, None, 0)?
                }
                _ => return None,
            };
            Some((op, access))
        };
        let mut accesses = function.body.walk(function.region).into_iter().filter_map(plan).collect();
        unify_vector_widths::unify_widths(function, &mut accesses, warp_bits);
        Accesses(accesses)
    }
    /// The plan of a memory access. `None` for ops that are not planned.
    pub(crate) fn get(&self, op: OpId) -> Option<&AccessPlan> {
        self.0.get(&op)
    }
}

/// The layout of a tile whose layout no access determines. Consecutive elements of a row are first in a vector of one thread, then
/// in the next lanes. `bytes` are the bytes of an element.
pub(crate) fn default_layout(shape: &[u32], bytes: u32, warp_bits: usize) -> Layout {
    let order: Vec<u32> = (0..element_count(shape).trailing_zeros()).collect();
    let row_bits = shape.last().map_or(0, |extent| extent.trailing_zeros());
    blocked_access(&order, (MAX_ACCESS_BYTES / u64::from(bytes.clamp(1, MAX_ACCESS_BYTES as u32))).ilog2().min(row_bits), warp_bits)
        .layout
}

/// Plans the memory accesses of one function.
struct AccessPlanner<'a> {
    function: &'a Function,
    facts: Facts<'a>,
    /// Log2 of the warps of the CTA.
    warp_bits: usize,
}

impl AccessPlanner<'_> {
    /// Plans an access through the view `value`, with at most `1 << max_vector_bits` elements per vector.
    fn plan_view(&self, value: Value, max_vector_bits: u32) -> AccessPlan {
        let Type::View(view) = self.function.body.ty(value) else { unreachable!("the verifier checks that views are views") };
        let is_gathered = |t: usize| matches!(view.kind, ViewKind::Gather { sparse_dim } if sparse_dim as usize == t);
        let contiguous =
            (0..view.tile.len()).find(|&t| view.memref.strides[view.dim_map[t] as usize] == Some(1) && !is_gathered(t));
        let Some(t) = contiguous else { return self.blocked_along(&view.tile, None, 0) };
        let Some(facts) = self.facts.memref(value) else { return self.blocked_along(&view.tile, contiguous, 0) };
        let piece_bits = view_width(&facts, view, t);
        let in_bounds_bits = piece_bits.min(facts.size_divisors[view.dim_map[t] as usize].max(1).ilog2());
        let copy = Some(Pieces { dim: t, bits: piece_bits, whole: in_bounds_bits == piece_bits });
        AccessPlan { copy, ..self.blocked_along(&view.tile, contiguous, in_bounds_bits.min(max_vector_bits)) }
    }

    /// Plans a multimem access through the view `value`. For 16-bit elements, a multimem instruction takes 32-bit words, which are
    /// pairs of elements. The program guarantees 32-bit alignment of the address and of dynamic extents and strides. This function
    /// checks static strides, and returns `None` if they break the alignment.
    fn plan_multicast(&self, value: Value) -> Option<AccessPlan> {
        let Type::View(view) = self.function.body.ty(value) else { unreachable!("the verifier checks that views are views") };
        let stride = |t: usize| view.memref.strides[view.dim_map[t] as usize];
        let contiguous = (0..view.tile.len()).find(|&t| stride(t) == Some(1));
        if view.memref.elem.bits() != 16 {
            return Some(self.blocked_along(&view.tile, contiguous, 0));
        }
        let contiguous_dim = contiguous.filter(|&t| view.tile[t] > 1)?;
        let has_word_strides = (0..view.tile.len()).all(|t| t == contiguous_dim || stride(t).is_none_or(|stride| stride % 2 == 0));
        let AccessPlan { order, .. } = self.blocked_along(&view.tile, Some(contiguous_dim), 1);
        let layout = Layout::blocked(&order, 1, self.warp_bits);
        has_word_strides.then_some(AccessPlan { vector_bits: 1, layout, order, copy: None })
    }

    /// The plan of an access with a blocked layout. Consecutive elements along dimension `first` are first in registers, then in
    /// lanes. A vector has at most `1 << max_vector_bits` elements.
    fn blocked_along(&self, shape: &[u32], first: Option<usize>, max_vector_bits: u32) -> AccessPlan {
        let strides = Strides::for_shape(shape);
        let others = (0..shape.len()).rev().filter(|t| Some(*t) != first);
        let order: Vec<u32> = first.into_iter().chain(others).flat_map(|t| strides.dim_bits(t)).collect();
        blocked_access(&order, max_vector_bits, self.warp_bits)
    }

    /// Whether a permute that moves the last dimension computes a tile. Such a permute passes through shared memory.
    fn is_permuted(&self, tile: Value) -> bool {
        let body = &self.function.body;
        let op = body.defining_op(tile).map(|op| &body.ops[op].kind);
        matches!(op, Some(Op::Core(Core::Permute { order, .. })) if order.last().is_some_and(|last| *last as usize + 1 != order.len()))
    }

    /// Lets the lanes of a warp store a 128-byte line of each of several rows, instead of a long part of one row. Reason: the tile
    /// is permuted through shared memory, where elements that are adjacent in global memory are a row apart, on the same bank.
    fn spread_lanes_over_rows(&self, access: AccessPlan, tile: Value) -> AccessPlan {
        let (elem, shape) = self.function.body.ty(tile).tile().expect("tiles are stored");
        let line_bits = (LINE / elem.bytes().max(1)).ilog2() as usize;
        let strides = Strides::for_shape(shape);
        let dims = (0..shape.len()).map(|dim| strides.dim_bits(dim).collect::<Vec<_>>());
        let row_bits = dims.into_iter().find(|bits| bits.first() == access.order.first()).map_or(0, |bits| bits.len());
        if row_bits <= line_bits {
            return access;
        }
        let (line_order, rest) = access.order.split_at(line_bits);
        let (rest_of_row, others) = rest.split_at(row_bits - line_bits);
        let lane_bits_of_rows = (LANE_BITS + access.vector_bits as usize).saturating_sub(line_bits).min(others.len());
        let (rows, others) = others.split_at(lane_bits_of_rows);
        let order = [line_order, rows, rest_of_row, others].concat();
        AccessPlan { copy: access.copy, ..blocked_access(&order, access.vector_bits, self.warp_bits) }
    }

    /// Whether some pointers of the tile `ptr` point to adjacent elements.
    fn has_neighbours(&self, ptr: Value) -> bool {
        let dims = self.function.body.ty(ptr).tile().map_or(0, |(_, shape)| shape.len());
        (0..dims).any(|dim| self.facts.axis(ptr, dim).contiguity > 1)
    }

    /// The number of consecutive pointers along a dimension that point to adjacent elements, if no offset wraps before the offset
    /// is widened. Vectors must not rely on this number. The order of lanes may: if an offset wraps, a warp only accesses more
    /// sectors.
    fn likely_contiguity(&self, ptr: Value, dim: usize) -> u64 {
        let body = &self.function.body;
        let core_op = |value: Value| body.defining_op(value).and_then(|op| as_core(&body.ops[op].kind));
        let mut before_widening = 1;
        if let Some(Core::Offset { offset, .. }) = core_op(ptr)
            && let Some(Core::Convert { kind: Convert::ExtI { .. }, x }) = core_op(*offset)
        {
            before_widening = self.facts.axis(*x, dim).contiguity;
        }
        self.facts.axis(ptr, dim).contiguity.max(before_widening)
    }

    /// Plans an access through pointers, with vectors along the dimension that has the longest runs of adjacent elements. `None`
    /// for a single pointer.
    fn plan_pointers(&self, ptr: Value, mask: Option<Value>, max_vector_bits: u32) -> Option<AccessPlan> {
        let (elem, shape) = self.function.body.ty(ptr).tile().filter(|(_, shape)| !shape.is_empty())?;
        let core_dialect::tile::Elem::Ptr { pointee, .. } = elem else { return None };
        let bytes = u64::from(pointee.bytes());
        let width = |dim: usize| {
            let axis = self.facts.axis(ptr, dim);
            let mask_constancy = mask.map_or(u64::MAX, |mask| self.facts.axis(mask, dim).constancy);
            (MAX_ACCESS_BYTES / bytes)
                .min(axis.contiguity)
                .min((axis.divisibility / bytes).max(1))
                .min(mask_constancy)
                .min(u64::from(shape[dim]))
                .max(1)
        };
        let contiguous_dim = (0..shape.len()).rev().max_by_key(|dim| self.likely_contiguity(ptr, *dim).min(u64::from(shape[*dim])));
        Some(self.blocked_along(shape, contiguous_dim, contiguous_dim.map_or(0, |dim| width(dim).ilog2()).min(max_vector_bits)))
    }
}

/// Log2 of the number of elements along tile dimension `t` that a vector may have: at most 16 aligned bytes, within the tile.
fn view_width(facts: &MemRefFacts, view: &View, t: usize) -> u32 {
    let bytes = u64::from(view.memref.elem.bytes());
    let dim = view.dim_map[t] as usize;
    let step = u64::from(view.kind.step(&view.tile, t));
    let other_strides = (0..facts.stride_divisors.len()).filter(|other| *other != dim).map(|other| facts.stride_divisors[other]);
    let limits = [MAX_ACCESS_BYTES / bytes, u64::from(view.tile[t]), facts.base_divisor / bytes, step & step.wrapping_neg()];
    limits.into_iter().chain(other_strides).min().unwrap_or(1).max(1).ilog2()
}
