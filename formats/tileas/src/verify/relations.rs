//! Layout rules between operands and results of core ops: each thread holds the elements that it computes with.

use super::{Core, FunctionChecker, OpContext, RuleResult, TileAsOp, Type, Value, require};
use crate::layout::{Strides, solve};
use crate::ops::Route;
use crate::renaming::source_element;
use base::ir::Operation;
use core_dialect::tile::Elem;

impl FunctionChecker<'_> {
    /// Checks that the layouts of a core op's operands and results let each thread compute its result elements alone.
    pub(super) fn check_core_layouts<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, core: &Core) -> RuleResult {
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
                let values: Vec<Value> = core.operands().iter().chain(&context.op.results).copied().collect();
                self.check_same_layout(context, &values)
            }
            Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } => {
                let (from, to) = (context.tile(*x)?.1, context.result_tile()?.1);
                self.check_renaming(context, *x, context.result()?, source_element(core, from, to))
            }
            Core::Cat { lhs, rhs, dim } => {
                self.check_same_layout(context, &[*lhs, *rhs])?;
                self.check_cat_operands(context, *lhs, *dim as usize)
            }
            Core::Reinterpret { x } => self.check_reinterpreted(context, *x),
            Core::Extract { x, .. } => self.check_slice(context, [context.result()?, *x]),
            Core::Insert { x, into, .. } => {
                self.check_same_layout(context, &[*into, context.result()?])?;
                self.check_slice(context, [*x, *into])
            }
            // Threads can generate these elements in any layout.
            Core::Constant { .. } | Core::Iota {} => Ok(()),
            // These ops have no tiles, or only forward tiles.
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

    /// Checks that `to` only renames the registers of `from`: each thread holds the elements that it needs, in the same registers
    /// as all other threads. `source` maps an element of `to` to the element of `from`.
    fn check_renaming<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        from: Value,
        to: Value,
        source: impl Fn(u32) -> u32,
    ) -> RuleResult {
        let renaming = self.layout_of(context, to).renaming(&self.layout_of(context, from), source);
        require(renaming.is_some(), || format!("it would move elements between threads, from {from} to {to}"))
    }

    /// Checks that a layout conversion moves elements only as its route allows: within a thread, or within a warp.
    pub(super) fn check_layout_conversion<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        x: Value,
        route: Route,
    ) -> RuleResult {
        let result = context.result()?;
        let Route::Shuffle = route else { return self.check_renaming(context, x, result, |element| element) };
        let (from, to) = (self.layout_of(context, x), self.layout_of(context, result));
        // The element numbers that a warp holds form an affine space over GF(2). A shuffle must not change this space.
        let held_bases: Vec<u32> = from.register.iter().chain(&from.lane).copied().collect();
        let needed = to.register.iter().chain(&to.lane).copied();
        let warp_differences = from.warp.iter().zip(&to.warp).map(|(from, to)| from ^ to);
        let is_inside = needed.chain(warp_differences).all(|basis| solve(&held_bases, basis).is_some());
        require(is_inside, || format!("it would move elements between warps, from {x} to {result}"))
    }

    /// Checks the layouts of a concatenation. One register bit of the result must select the operand that supplies an element. The
    /// other bits must be the layout of the operands.
    fn check_cat_operands<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, lhs: Value, dim: usize) -> RuleResult {
        let result = context.result()?;
        let strides = Strides::for_shape(context.tile(result)?.1);
        let half_bit = strides.dim_bits(dim).end - 1;
        let mut layout = self.layout_of(context, result);
        let register_bits = layout.register.len();
        layout.register.retain(|basis| *basis != 1 << half_bit);
        let bases = layout.register.iter().chain(&layout.lane).chain(&layout.warp);
        let by_one_register_bit =
            layout.register.len() + 1 == register_bits && bases.into_iter().all(|basis| basis >> half_bit & 1 == 0);
        let half_layout = layout.map(|basis| basis & ((1 << half_bit) - 1) | basis >> (half_bit + 1) << half_bit);
        require(by_one_register_bit && half_layout == self.layout_of(context, lhs), || {
            "its operands' layout is not that of the result's halves".into()
        })
    }

    /// Checks a `reinterpret` between wide and narrow elements. The narrow parts of a wide element must be in neighbouring
    /// registers of the thread that holds the wide element.
    fn check_reinterpreted<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, x: Value) -> RuleResult {
        let result = context.result()?;
        let [(from, operand), (to, result_layout)] =
            [x, result].map(|value| (self.elem_bits(context, value), self.layout_of(context, value)));
        let ((wide, wide_layout), (narrow, narrow_layout)) =
            if from >= to { ((from, operand), (to, result_layout)) } else { ((to, result_layout), (from, operand)) };
        let bits = (wide / narrow).ilog2();
        let mut expected = wide_layout.map(|basis| basis << bits);
        expected.register.splice(0..0, (0..bits).map(|bit| 1 << bit));
        require(expected == narrow_layout, || "the parts of an element are not in neighbouring registers of its thread".into())
    }

    /// Bits of a value's element; 1 for values without elements.
    fn elem_bits<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, value: Value) -> u32 {
        context.body.ty(value).elem().map_or(1, Elem::bits)
    }

    /// Checks an `extract` or `insert`. Register bits alone must select the slice `part` of `whole`, so that each thread holds the
    /// slice in a subset of its registers.
    fn check_slice<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, [part, whole]: [Value; 2]) -> RuleResult {
        let (inner_shape, outer_shape) = (context.tile(part)?.1, context.tile(whole)?.1);
        let (inner, outer) = (Strides::for_shape(inner_shape), Strides::for_shape(outer_shape));
        let in_whole = |element: u32| (0..inner_shape.len()).map(|dim| inner.coordinate(element, dim) << outer.shift[dim]).sum();
        self.check_renaming(context, whole, part, in_whole)?;
        let layout = self.layout_of(context, whole);
        let selecting_bits = (0..outer_shape.len()).flat_map(|dim| outer.shift[dim] + inner.bits[dim]..outer.dim_bits(dim).end);
        let in_registers = selecting_bits.into_iter().all(|bit| solve(&layout.register, 1 << bit).is_some());
        require(in_registers, || "register bits alone must select the slice".into())
    }
}
