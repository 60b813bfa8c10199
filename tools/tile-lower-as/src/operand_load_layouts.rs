//! Purpose: choose the copied tiles that threads read from shared memory directly in the layouts that MMAs need. Threads read other
//! tiles in their assigned layout. Values computed from the other tiles then pass through shared memory once more.
//! Requires: every use of the tile leads through permutes, reshapes and elementwise ops to an MMA operand, or to an elementwise op
//! with an accumulator.
//! Establishes: at most [`MAX_LAYOUTS`] read layouts for a buffer. They take fewer shared-memory wavefronts than reads in the
//! assigned layout plus layout conversions.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `OptimizeDotOperands` and backward rematerialization in `RemoveLayoutConversions`.

use crate::copy_planner::CopyPlanner;
use crate::layout_transforms::innermost_dim;
use crate::mma_selection::MmaSelection;
use crate::operands::{self, MAX_BETWEEN};
use crate::smem_swizzles;
use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::Op;
use tileas::Layout;

/// Maximum layouts in which threads read a buffer. Reason: each layout repeats the elementwise ops between the read and the MMA.
const MAX_LAYOUTS: usize = 2;

/// The end of a path from a loaded tile through permutes, reshapes and elementwise ops: an MMA operand, or an elementwise op with
/// an accumulator.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FinalUse {
    /// The MMA operand or the accumulator.
    value: Value,
    /// The layout of the loaded tile that gives `value` its required layout; `None` if the use takes any layout.
    layout: Option<Layout>,
}

impl CopyPlanner<'_> {
    /// The layouts in which threads read the loaded tile `value` so that no layout conversion follows. `None` if this is
    /// impossible, or if these reads take at least as many wavefronts as a read in `assigned_layout` plus conversions. `inner` is
    /// the innermost dimension of the buffer, and `copy_layout` the layout in which `cp.async` fills it.
    pub(crate) fn direct_read_layouts(
        &self,
        value: Value,
        block: Block,
        inner: usize,
        copy_layout: &Layout,
        assigned_layout: &Layout,
    ) -> Option<Vec<Layout>> {
        let final_uses = self.final_uses(value, block, 0, &mut BTreeMap::new())?;
        let layouts: BTreeSet<&Layout> =
            final_uses.iter().map(|final_use| final_use.layout.as_ref().unwrap_or(assigned_layout)).collect();
        let replicates_elements = layouts.iter().any(|layout| layout.registers() > assigned_layout.registers());
        if layouts.is_empty() || layouts.len() > MAX_LAYOUTS || replicates_elements {
            return None;
        }
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let access_wavefronts = |layouts: &[&Layout]| {
            let all: Vec<&Layout> = std::iter::once(copy_layout).chain(layouts.iter().copied()).collect();
            let buffer = smem_swizzles::swizzled_buffer(elem, shape, inner, &all);
            all.iter().map(|layout| smem_swizzles::wavefronts(&buffer, layout)).sum::<u32>()
        };
        let conversion_wavefronts = |final_use: &FinalUse| {
            let layout = final_use.layout.as_ref().unwrap_or(assigned_layout);
            let inner = [assigned_layout, layout].map(|layout| innermost_dim(layout, shape));
            smem_swizzles::conversion_cost(
                self.function.body.ty(final_use.value).tile().expect("final uses are of tiles").0,
                shape,
                inner,
                [assigned_layout, layout],
            )
            .wavefronts
        };
        let layouts: Vec<&Layout> = layouts.into_iter().collect();
        let via_assigned_layout = access_wavefronts(&[assigned_layout]) + final_uses.iter().map(conversion_wavefronts).sum::<u32>();
        (access_wavefronts(&layouts) < via_assigned_layout).then(|| layouts.into_iter().cloned().collect())
    }

    /// The final uses of a tile, with `between` ops from the loaded tile to `value`. `None` if a use leads neither to an MMA
    /// operand nor to an elementwise op with an accumulator. `memo` caches the result of each value.
    fn final_uses(
        &self,
        value: Value,
        block: Block,
        between: u32,
        memo: &mut BTreeMap<Value, Option<BTreeSet<FinalUse>>>,
    ) -> Option<BTreeSet<FinalUse>> {
        if let Some(final_uses) = memo.get(&value) {
            return final_uses.clone();
        }
        let mut final_uses = Some(BTreeSet::new());
        for &user in self.uses.users(value) {
            let is_in_block = self.blocks[user.0 as usize] == Some(block) && between <= MAX_BETWEEN;
            let uses_through_user = if is_in_block { self.final_uses_through(value, user, block, between, memo) } else { None };
            final_uses = final_uses.zip(uses_through_user).map(|(mut all, uses_through_user)| {
                all.extend(uses_through_user);
                all
            });
        }
        memo.insert(value, final_uses.clone());
        final_uses
    }

    /// The final uses of a value on paths through its user `user`. `None` as for [`Self::final_uses`].
    fn final_uses_through(
        &self,
        value: Value,
        user: OpId,
        block: Block,
        between: u32,
        memo: &mut BTreeMap<Value, Option<BTreeSet<FinalUse>>>,
    ) -> Option<BTreeSet<FinalUse>> {
        let body = &self.function.body;
        match &body.ops[user].kind {
            Op::Mma { lhs, rhs, acc, .. } if *acc != value => {
                let (a, b) = match self.mmas.get(user)? {
                    MmaSelection::Sync { a, b, .. } => (Some(a), Some(b)),
                    MmaSelection::Group { lhs: a, rhs: b, .. } | MmaSelection::Tensor { lhs: a, rhs: b, .. } => {
                        (a.layout(), b.layout())
                    }
                    MmaSelection::Fma { .. } => return None,
                };
                let sides = [(*lhs, a), (*rhs, b)].into_iter().filter(|(side, _)| *side == value);
                Some(sides.map(|(_, layout)| FinalUse { value, layout: layout.cloned() }).collect())
            }
            Op::Core(Core::Permute { order, .. }) => {
                let shape = body.ty(body.result(user)).tile()?.1;
                let final_uses = self.final_uses(body.result(user), block, between + 1, memo)?;
                Some(
                    final_uses
                        .into_iter()
                        .map(|FinalUse { value, layout }| FinalUse {
                            value,
                            layout: layout.map(|layout| layout.unpermute(shape, order)),
                        })
                        .collect(),
                )
            }
            Op::Core(Core::Reshape { .. }) => self.final_uses(body.result(user), block, between + 1, memo),
            Op::Core(core) if core.is_elementwise() => {
                let others: Vec<Value> =
                    core.operands().into_iter().filter(|other| *other != value && !self.is_rematerializable(*other, 0)).collect();
                match others[..] {
                    [] => self.final_uses(body.result(user), block, between + 1, memo),
                    [other] => {
                        let mma = operands::producing_mma(self.function, other)?;
                        let selection = self.mmas.get(mma).filter(|mma| !matches!(mma, MmaSelection::Fma { .. }))?;
                        let accumulator_layout = selection.accumulator_layout().clone();
                        let is_in_block = self.blocks[mma.0 as usize] == Some(block);
                        is_in_block.then(|| BTreeSet::from([FinalUse { value: other, layout: Some(accumulator_layout) }]))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether threads can compute a value in any layout without loads: a scalar, or a tile computed from constants, iotas and
    /// broadcasts. `depth` is the number of elementwise ops that the search has passed.
    fn is_rematerializable(&self, value: Value, depth: u32) -> bool {
        let body = &self.function.body;
        let is_tile = body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        match body.defining_op(value).map(|op| &body.ops[op].kind) {
            _ if !is_tile => true,
            Some(Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. })) => true,
            Some(Op::Core(core)) if core.is_elementwise() && depth < MAX_BETWEEN => {
                core.operands().into_iter().all(|operand| self.is_rematerializable(operand, depth + 1))
            }
            _ => false,
        }
    }
}
