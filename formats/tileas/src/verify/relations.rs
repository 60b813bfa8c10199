//! Layout rules between operands and results of core ops: each thread holds the elements that it computes with.

use super::{Check, Core, Program, Rule, Type, Uses, Value, require};
use crate::layout::{Strides, solve};
use crate::ops::Route;
use crate::renaming::source;
use base::ir::Operation;
use core_dialect::tile::Elem;

impl Check<'_> {
    pub(super) fn core_layouts<O: Program>(&self, uses: &Uses<'_, O, Type>, core: &Core) -> Rule {
        match core {
            Core::Unary { .. }
            | Core::Binary { .. }
            | Core::Fma { .. }
            | Core::Compare { .. }
            | Core::Convert { .. }
            | Core::Select { .. }
            | Core::IntToPtr { .. }
            | Core::PtrToInt { .. }
            | Core::PtrCast { .. }
            | Core::Offset { .. }
            | Core::Assume { .. } => {
                let values: Vec<Value> = core.operands().iter().chain(&uses.op.results).copied().collect();
                self.check_same_layout(uses, &values)
            }
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => {
                let (from, to) = (uses.tile(*x)?.1, uses.result_tile()?.1);
                self.renames(uses, *x, uses.result()?, source(core, from, to))
            }
            Core::Cat { lhs, rhs, dim } => {
                self.check_same_layout(uses, &[*lhs, *rhs])?;
                self.cat_operands(uses, *lhs, *dim as usize)
            }
            Core::Reinterpret { x } => self.reinterpreted_parts(uses, *x),
            Core::Extract { x, .. } => self.slice(uses, [uses.result()?, *x]),
            Core::Insert { x, into, .. } => {
                self.check_same_layout(uses, &[*into, uses.result()?])?;
                self.slice(uses, [*x, *into])
            }
            // Any layout can be generated.
            Core::Constant { .. } | Core::Iota {} => Ok(()),
            // No tiles, or tiles that are only forwarded.
            Core::BlockId { .. }
            | Core::BlockCount { .. }
            | Core::ClusterRank {}
            | Core::ClcBlockCount {}
            | Core::ClcBlockId { .. }
            | Core::MakeMemRef { .. }
            | Core::MakeView { .. }
            | Core::MemRefShape { .. }
            | Core::ViewShape { .. }
            | Core::GlobalAddress { .. }
            | Core::Alloca { .. }
            | Core::MakeToken {}
            | Core::JoinTokens { .. }
            | Core::AliasFence { .. }
            | Core::GridWait { .. }
            | Core::GridLaunch { .. }
            | Core::Assert { .. }
            | Core::CheckIndex { .. }
            | Core::Print { .. }
            | Core::If { .. }
            | Core::For { .. }
            | Core::Loop { .. }
            | Core::Yield { .. }
            | Core::Continue { .. }
            | Core::Break { .. }
            | Core::Return {} => Ok(()),
        }
    }

    /// Every thread of `to` has the elements of `from` that it needs, in the same registers as all other threads.
    fn renames<O: Program>(&self, uses: &Uses<'_, O, Type>, from: Value, to: Value, source: impl Fn(u32) -> u32) -> Rule {
        let renaming = self.layout(uses, to).renaming(&self.layout(uses, from), source);
        require(renaming.is_some(), || format!("it would move elements between threads, from {from} to {to}"))
    }

    pub(super) fn layout_conversion<O: Program>(&self, uses: &Uses<'_, O, Type>, x: Value, route: Route) -> Rule {
        let result = uses.result()?;
        let Route::Shuffle = route else { return self.renames(uses, x, result, |element| element) };
        let (from, to) = (self.layout(uses, x), self.layout(uses, result));
        // The elements of a warp are an affine space, which must stay the same.
        let held: Vec<u32> = from.register.iter().chain(&from.lane).copied().collect();
        let needed = to.register.iter().chain(&to.lane).copied();
        let moved = from.warp.iter().zip(&to.warp).map(|(from, to)| from ^ to);
        let inside = needed.chain(moved).all(|basis| solve(&held, basis).is_some());
        require(inside, || format!("it would move elements between warps, from {x} to {result}"))
    }

    /// One register bit decides which operand of a concatenation an element comes from.
    fn cat_operands<O: Program>(&self, uses: &Uses<'_, O, Type>, lhs: Value, dim: usize) -> Rule {
        let result = uses.result()?;
        let strides = Strides::of(uses.tile(result)?.1);
        let top = strides.dim_bits(dim).end - 1;
        let mut layout = self.layout(uses, result);
        let before = layout.register.len();
        layout.register.retain(|basis| *basis != 1 << top);
        let bases = layout.register.iter().chain(&layout.lane).chain(&layout.warp);
        let by_one_register_bit = layout.register.len() + 1 == before && bases.into_iter().all(|basis| basis >> top & 1 == 0);
        let half = layout.map(|basis| basis & ((1 << top) - 1) | basis >> (top + 1) << top);
        require(by_one_register_bit && half == self.layout(uses, lhs), || {
            "its operands' layout is not that of the result's halves".into()
        })
    }

    /// The parts of a wide element are in neighbouring registers of the thread that holds the element.
    fn reinterpreted_parts<O: Program>(&self, uses: &Uses<'_, O, Type>, x: Value) -> Rule {
        let result = uses.result()?;
        let [(from, operand), (to, result_layout)] =
            [x, result].map(|value| (self.elem_bits(uses, value), self.layout(uses, value)));
        let ((wide, wide_layout), (narrow, narrow_layout)) =
            if from >= to { ((from, operand), (to, result_layout)) } else { ((to, result_layout), (from, operand)) };
        let bits = (wide / narrow).ilog2();
        let mut expected = wide_layout.map(|basis| basis << bits);
        expected.register.splice(0..0, (0..bits).map(|bit| 1 << bit));
        require(expected == narrow_layout, || "the parts of an element are not in neighbouring registers of its thread".into())
    }

    fn elem_bits<O: Program>(&self, uses: &Uses<'_, O, Type>, value: Value) -> u32 {
        uses.body.ty(value).elem().map_or(1, Elem::bits)
    }

    /// A slice is a subset of the registers of its tile.
    fn slice<O: Program>(&self, uses: &Uses<'_, O, Type>, [part, whole]: [Value; 2]) -> Rule {
        let (inner_shape, outer_shape) = (uses.tile(part)?.1, uses.tile(whole)?.1);
        let (inner, outer) = (Strides::of(inner_shape), Strides::of(outer_shape));
        let in_whole = |element: u32| (0..inner_shape.len()).map(|dim| inner.coordinate(element, dim) << outer.shift[dim]).sum();
        self.renames(uses, whole, part, in_whole)?;
        let layout = self.layout(uses, whole);
        let chosen = (0..outer_shape.len()).flat_map(|dim| outer.shift[dim] + inner.bits[dim]..outer.dim_bits(dim).end);
        let in_registers = chosen.into_iter().all(|bit| solve(&layout.register, 1 << bit).is_some());
        require(in_registers, || "register bits alone must select the slice".into())
    }
}
