//! Decides which tiles, of those that threads copy to shared memory, are read from there as their products want what is computed from
//! them. The others are read as they were loaded, and what is computed from them passes through shared memory once more. Changes
//! nothing.
//!
//! A tile is read directly where every use is known: through ops that rearrange it or compute element by element from it and from what
//! costs nothing to make, up to an operand (one that goes to shared memory is computed as its tile was loaded), or up to the sums of a
//! product, in whose layout the rest is computed.

use crate::banks;
use crate::convert::innermost;
use crate::copies::Planner;
use crate::operands::{self, MOST_BETWEEN};
use crate::products::Product;
use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::Op;
use tileas::Layout;
use vocabulary::core_ops::Core;

/// Computing the same from a tile more often than this would cost more than is won.
const MOST_LAYOUTS: usize = 2;

/// Where a tile ends: as which value, and in which layout, said of the tile that is loaded; none: as it was loaded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    value: Value,
    layout: Option<Layout>,
}

impl Planner<'_> {
    /// The layouts in which products want what is computed from a loaded tile, if reading it in those takes fewer passes over the banks
    /// than reading it in its own layout and moving what is computed.
    pub(crate) fn read_directly(
        &self,
        value: Value,
        block: Block,
        inner: usize,
        copied: &Layout,
        home: &Layout,
    ) -> Option<Vec<Layout>> {
        let ends = self.ends_of(value, block, 0, &mut BTreeMap::new())?;
        let layouts: BTreeSet<&Layout> = ends.iter().map(|end| end.layout.as_ref().unwrap_or(home)).collect();
        let has_copies = layouts.iter().any(|layout| layout.registers() > home.registers());
        if layouts.is_empty() || layouts.len() > MOST_LAYOUTS || has_copies {
            return None;
        }
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let reads = |layouts: &[&Layout]| {
            let all: Vec<&Layout> = std::iter::once(copied).chain(layouts.iter().copied()).collect();
            let buffer = banks::buffer(elem, shape, inner, &all);
            all.iter().map(|layout| banks::wavefronts(&buffer, layout)).sum::<u32>()
        };
        let moved = |end: &End| {
            let layout = end.layout.as_ref().unwrap_or(home);
            let inner = [home, layout].map(|layout| innermost(layout, shape));
            banks::passes(self.function.body.ty(end.value).tile().expect("ends are tiles").0, shape, inner, [home, layout])
                .wavefronts
        };
        let layouts: Vec<&Layout> = layouts.into_iter().collect();
        let by_way_of_home = reads(&[home]) + ends.iter().map(moved).sum::<u32>();
        (reads(&layouts) < by_way_of_home).then(|| layouts.into_iter().cloned().collect())
    }

    /// Where a tile ends; nothing where an end is not known.
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
            let here = self.blocks[user.0 as usize] == Some(block) && between <= MOST_BETWEEN;
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
                let (a, b) = match self.products.get(user)? {
                    Product::Sync { a, b, .. } => (Some(a), Some(b)),
                    Product::Group { lhs: a, rhs: b, .. } | Product::Tensor { lhs: a, rhs: b, .. } => (a.layout(), b.layout()),
                    Product::Shared { .. } => return None,
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
                        let product = operands::product_behind(self.function, other)?;
                        let sums =
                            self.products.get(product).filter(|product| !matches!(product, Product::Shared { .. }))?.accumulator();
                        let here = self.blocks[product.0 as usize] == Some(block);
                        here.then(|| BTreeSet::from([End { value: other, layout: Some(sums.clone()) }]))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a value costs nothing to make in any layout.
    fn is_free(&self, value: Value, depth: u32) -> bool {
        let body = &self.function.body;
        let is_tile = body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        match body.defining_op(value).map(|op| &body.ops[op].kind) {
            _ if !is_tile => true,
            Some(Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. })) => true,
            Some(Op::Core(core)) if core.is_elementwise() && depth < MOST_BETWEEN => {
                core.operands().into_iter().all(|operand| self.is_free(operand, depth + 1))
            }
            _ => false,
        }
    }
}
