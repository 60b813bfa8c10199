//! Purpose: choose copied tiles that threads read from shared memory directly in the layouts of their MMAs. Other tiles are read in
//! their assigned layout, and values computed from them are converted through shared memory once more.
//! Requires: every use leads through rearranging or elementwise ops to an MMA operand or to the layout of an accumulator.
//! Establishes: the read layouts of a buffer, at most [`MAX_LAYOUTS`], if that takes fewer shared-memory wavefronts.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `OptimizeDotOperands` and backward rematerialization in `RemoveLayoutConversions`.

use crate::async_copies::CopyPlanner;
use crate::convert::innermost;
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

/// The final use of a loaded tile: the used value, and the layout of the loaded tile that gives this value its required layout.
/// `None` if the use takes any layout.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    value: Value,
    layout: Option<Layout>,
}

impl CopyPlanner<'_> {
    /// The layouts in which MMAs need the values that are computed from a loaded tile. `None` if reads in these layouts take at
    /// least as many wavefronts as a read in the assigned layout plus conversions.
    pub(crate) fn read_directly(
        &self,
        value: Value,
        block: Block,
        inner: usize,
        copied: &Layout,
        assigned_layout: &Layout,
    ) -> Option<Vec<Layout>> {
        let ends = self.ends_of(value, block, 0, &mut BTreeMap::new())?;
        let layouts: BTreeSet<&Layout> = ends.iter().map(|end| end.layout.as_ref().unwrap_or(assigned_layout)).collect();
        let has_copies = layouts.iter().any(|layout| layout.registers() > assigned_layout.registers());
        if layouts.is_empty() || layouts.len() > MAX_LAYOUTS || has_copies {
            return None;
        }
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let reads = |layouts: &[&Layout]| {
            let all: Vec<&Layout> = std::iter::once(copied).chain(layouts.iter().copied()).collect();
            let buffer = smem_swizzles::buffer(elem, shape, inner, &all);
            all.iter().map(|layout| smem_swizzles::wavefronts(&buffer, layout)).sum::<u32>()
        };
        let moved = |end: &End| {
            let layout = end.layout.as_ref().unwrap_or(assigned_layout);
            let inner = [assigned_layout, layout].map(|layout| innermost(layout, shape));
            smem_swizzles::conversion_cost(
                self.function.body.ty(end.value).tile().expect("ends are tiles").0,
                shape,
                inner,
                [assigned_layout, layout],
            )
            .wavefronts
        };
        let layouts: Vec<&Layout> = layouts.into_iter().collect();
        let via_assigned_layout = reads(&[assigned_layout]) + ends.iter().map(moved).sum::<u32>();
        (reads(&layouts) < via_assigned_layout).then(|| layouts.into_iter().cloned().collect())
    }

    /// The final uses of a tile. `None` if a use does not lead to an MMA or to an accumulator.
    fn ends_of(
        &self,
        value: Value,
        block: Block,
        between: u32,
        known: &mut BTreeMap<Value, Option<BTreeSet<End>>>,
    ) -> Option<BTreeSet<End>> {
        if let Some(ends) = known.get(&value) {
            return ends.clone();
        }
        let mut ends = Some(BTreeSet::new());
        for &user in self.uses.users(value) {
            let here = self.blocks[user.0 as usize] == Some(block) && between <= MAX_BETWEEN;
            let found = if here { self.ends_at(value, user, block, between, known) } else { None };
            ends = ends.zip(found).map(|(mut all, found)| {
                all.extend(found);
                all
            });
        }
        known.insert(value, ends.clone());
        ends
    }

    fn ends_at(
        &self,
        value: Value,
        user: OpId,
        block: Block,
        between: u32,
        known: &mut BTreeMap<Value, Option<BTreeSet<End>>>,
    ) -> Option<BTreeSet<End>> {
        let body = &self.function.body;
        match &body.ops[user].kind {
            Op::Mma { lhs, rhs, acc, .. } if *acc != value => {
                let (a, b) = match self.mmas.get(user)? {
                    MmaSelection::Sync { a, b, .. } => (Some(a), Some(b)),
                    MmaSelection::Group { lhs: a, rhs: b, .. } | MmaSelection::Tensor { lhs: a, rhs: b, .. } => {
                        (a.layout(), b.layout())
                    }
                    MmaSelection::Shared { .. } => return None,
                };
                let sides = [(*lhs, a), (*rhs, b)].into_iter().filter(|(side, _)| *side == value);
                Some(sides.map(|(_, layout)| End { value, layout: layout.cloned() }).collect())
            }
            Op::Core(Core::Permute { order, .. }) => {
                let shape = body.ty(body.result(user)).tile()?.1;
                let ends = self.ends_of(body.result(user), block, between + 1, known)?;
                Some(
                    ends.into_iter()
                        .map(|end| End { layout: end.layout.map(|layout| layout.unpermute(shape, order)), ..end })
                        .collect(),
                )
            }
            Op::Core(Core::Reshape { .. }) => self.ends_of(body.result(user), block, between + 1, known),
            Op::Core(core) if core.is_elementwise() => {
                let others: Vec<Value> =
                    core.operands().into_iter().filter(|other| *other != value && !self.is_free(*other, 0)).collect();
                match others[..] {
                    [] => self.ends_of(body.result(user), block, between + 1, known),
                    [other] => {
                        let mma = operands::producing_mma(self.function, other)?;
                        let accumulators =
                            self.mmas.get(mma).filter(|mma| !matches!(mma, MmaSelection::Shared { .. }))?.accumulator();
                        let here = self.blocks[mma.0 as usize] == Some(block);
                        here.then(|| BTreeSet::from([End { value: other, layout: Some(accumulators.clone()) }]))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a value can be rematerialized in any layout at no cost.
    fn is_free(&self, value: Value, depth: u32) -> bool {
        let body = &self.function.body;
        let is_tile = body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        match body.defining_op(value).map(|op| &body.ops[op].kind) {
            _ if !is_tile => true,
            Some(Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. })) => true,
            Some(Op::Core(core)) if core.is_elementwise() && depth < MAX_BETWEEN => {
                core.operands().into_iter().all(|operand| self.is_free(operand, depth + 1))
            }
            _ => false,
        }
    }
}
