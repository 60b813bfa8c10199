//! Decides which loads the copy engine makes, in loops and before them, by tma_copies of a tensor map; for the others it says why
//! not.
//!
//! A map is filled when the kernel is launched, so what it needs must follow from the types and facts: an address and strides that
//! are multiples of 16 bytes, extents and strides that are parameters and fit its fields. One thread asks for a tile, and a barrier
//! in memory counts the bytes that come, by turns, which go on from iteration to iteration of the loops around: so the loop is in
//! no condition that is itself in a loop, and all iterations run to their end.

use crate::async_copies::{By, Copy, CopyPlanner, Readers, Reads, TmaChoice};
use crate::counted_loops;
use crate::counted_loops::{core, is_pure};
use base::ir::{Def, Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{MemoryOrdering, Padding};
use core_dialect::tile::{View, element_count};
use std::collections::BTreeSet;
use target_info::Feature;
use tileaa::facts::Facts;
use tileaa::ops::AccessHint;
use tileaa::{Op, Type};
use tileas::{tma_tiles, wgmma_atoms};

/// What a map's address and strides are multiples of, in bytes, and what its strides are less than.
const UNIT: u64 = 16;
const MAX_STRIDE: i64 = 1 << 36;
/// Bytes of a tile that is copied once, at least.
const MIN_ONCE: u32 = 8 << 10;
/// Coordinates are signed numbers of 32 bits.
const MAX_EXTENT: i64 = i32::MAX as i64;

impl CopyPlanner<'_> {
    /// The copy that a load of a view in the body of a `for` becomes.
    pub(crate) fn tma_copies(&self, load: OpId, for_op: OpId) -> Result<Copy, &'static str> {
        let Core::For { body: inner, .. } = core(&self.function.body.ops[for_op].kind).expect("the load is in a loop") else {
            unreachable!("the load is in a `for`")
        };
        let alternating = |index: &[Value]| self.runs_alternately(for_op).and_then(|()| self.are_counted(index, for_op));
        self.copy_by_tma(load, Some(self.function.body.block_of(*inner)), alternating)
    }

    /// The copy that a load becomes which the function makes once, of an operand that mmas in loops read where it then is: the
    /// copy engine brings it while it brings what the first iterations need.
    pub(crate) fn tma_loads_before_loops(&self, load: OpId) -> Result<Copy, &'static str> {
        let copy = self.copy_by_tma(load, None, |index| self.is_known_early(index))?;
        if self.tma_copies == TmaChoice::WherePays && copy.buffer.bytes() < MIN_ONCE {
            return Err("so few bytes come sooner through registers");
        }
        let value = self.function.body.result(load);
        let readers = self.uses.ends(value);
        self.stays_until_read(load, &readers)?;
        let in_place = readers.into_iter().all(|op| self.reads_in_place(op));
        match in_place && self.readers(value, None, 0).is_some_and(|reads| reads.groups) {
            true => Ok(copy),
            false => Err("threads read it into registers, once for all iterations"),
        }
    }

    /// From a load of the function's block to the last op of it in which what it gives is read nothing is written, and nothing
    /// returns: threads could do that before the copy engine has read, or while it writes.
    fn stays_until_read(&self, load: OpId, readers: &[OpId]) -> Result<(), &'static str> {
        let body = &self.function.body;
        let with_inner = |op: OpId| self.inside(op).into_iter().chain([op]).collect::<Vec<_>>();
        let all = body.blocks[self.function.entry()].ops.iter().map(|op| with_inner(*op));
        let meanwhile: Vec<Vec<OpId>> = all.skip_while(|ops| !ops.contains(&load)).collect();
        let last = meanwhile.iter().rposition(|ops| readers.iter().any(|reader| ops.contains(reader))).unwrap_or(0);
        for op in meanwhile.into_iter().take(last + 1).flatten() {
            match &body.ops[op].kind {
                kind if writes(kind) => return Err("memory is written before mmas have read it"),
                Op::Core(Core::Return {}) => return Err("the function may end before mmas read it"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Indices are computed from arguments and block numbers, and from what is looked up by those.
    fn is_known_early(&self, indices: &[Value]) -> Result<(), &'static str> {
        let body = &self.function.body;
        counted_loops::follow(self.function, indices.iter().copied(), |value, op| match op {
            _ if *body.ty(value) == Type::Token => Ok(false),
            Some(op) if !is_pure(&body.ops[op].kind) && !self.is_lookup(op) => {
                Err("its index is not computed from arguments and block numbers")
            }
            op => Ok(op.is_some()),
        })
    }

    /// The copy of a load whose readers are in a block, or anywhere; `alternating` says why its slots are not taken in turn.
    fn copy_by_tma(
        &self,
        load: OpId,
        block: Option<Block>,
        alternating: impl FnOnce(&[Value]) -> Result<(), &'static str>,
    ) -> Result<Copy, &'static str> {
        let body = &self.function.body;
        let Op::LoadView { view, index, token, order, hints, .. } = &body.ops[load].kind else {
            return Err("it is a load through pointers");
        };
        let Type::View(ty) = body.ty(*view) else { unreachable!("the verifier holds that views are views") };
        if !self.target.has(Feature::Tma) {
            return Err("the target has no copy engine for tma_copies");
        }
        if !self.allowed(hints) {
            return Err("its author does not want it");
        }
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if !matches!(ty.padding, None | Some(Padding::Zero)) {
            return Err("its padding is not zero");
        }
        if token.is_some_and(|token| !self.is_of_loads(token)) {
            return Err("it is ordered after what this kernel writes");
        }
        alternating(index)?;
        let map = tma_tiles::map(body, self.function.params(), *view)?;
        self.fits(ty, *view)?;
        let mut buffer = tma_tiles::buffer(ty, &map.extent, map.swizzle).ok_or("its tma_copies are too small to be swizzled")?;
        let value = body.result(load);
        let readers = match self.readers(value, block, 0) {
            Some(Reads { groups: true, .. }) => {
                let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
                let inner = tma_tiles::order(ty).expect("a map has an order")[0];
                let read =
                    wgmma_atoms::operand_buffer(elem, shape, inner).ok_or("its rows are too short for a matrix descriptor")?;
                if read.offsets != buffer.offsets {
                    return Err("its tma_copies do not lie as warp groups read them");
                }
                buffer = read;
                Readers::MmaSelections
            }
            Some(Reads { fragments, .. })
                if self.tma_copies == TmaChoice::WherePays && self.meets_banks(value, &buffer, &fragments) =>
            {
                return Err("fragments would be read from its tma_copies with bank conflicts");
            }
            Some(_) => Readers::MmaSelections,
            None if !self.uses.reaches_only_mmas(value) => return Err("something else than a mma uses it"),
            None if self.tma_copies == TmaChoice::WherePays && !self.reaches_tensor_memory(value) => {
                return Err("threads read it into registers, for which it lies better as they lay it out");
            }
            None => Readers::Registers,
        };
        Ok(Copy { buffer, by: By::Tma(map), readers })
    }

    pub(crate) fn allowed(&self, hints: &[AccessHint]) -> bool {
        AccessHint::of(hints, self.target, |hint| hint.allow_tma).unwrap_or(true)
    }

    /// What facts say of the numbers in the map.
    pub(crate) fn fits(&self, ty: &View, view: Value) -> Result<(), &'static str> {
        let facts = self.facts.get_or_init(|| Facts::of(self.function)).memref(view).ok_or("nothing is known of its memory")?;
        let bytes = u64::from(ty.memref.elem.bits() / 8);
        if !facts.base.is_multiple_of(UNIT) {
            return Err("its address is not known to be a multiple of 16 bytes");
        }
        let inner = tma_tiles::order(ty).map(|order| ty.dim_map[order[0]] as usize);
        for dim in (0..facts.sizes.len()).filter(|dim| Some(*dim) != inner) {
            if !facts.strides[dim].saturating_mul(bytes).is_multiple_of(UNIT) {
                return Err("its strides are not known to be multiples of 16 bytes");
            }
            let (low, high) = facts.stride_ranges[dim];
            if low < 0 || high.saturating_mul(bytes as i64) >= MAX_STRIDE {
                return Err("its strides are not known to fit a map");
            }
        }
        let fit = |(low, high): &(i64, i64)| (0..=MAX_EXTENT).contains(low) && *high <= MAX_EXTENT;
        if !facts.size_ranges.iter().all(fit) {
            return Err("its extents are not known to fit a map");
        }
        Ok(())
    }

    /// The loop is in no condition inside of another, and no iteration of it or of one around it ends early.
    fn runs_alternately(&self, for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let outermost = counted_loops::outermost(self.function, &self.blocks, for_op)
            .ok_or("its loop is inside a condition in a loop, or one that not all agents know, or in a loop without bounds")?;
        for op in self.inside(outermost) {
            let ends = |region: &Region| {
                let last = body.terminator(body.block_of(*region)).map(|op| &body.ops[op].kind);
                !matches!(last.and_then(core), Some(Core::Yield { .. }))
            };
            match core(&body.ops[op].kind) {
                Some(Core::If { then, otherwise, .. }) if [then, otherwise].into_iter().any(ends) => {
                    return Err("an iteration of its loop may end early");
                }
                Some(Core::Loop { .. } | Core::Return {}) => return Err("an iteration of its loop may end early"),
                _ => {}
            }
        }
        match self.inside(for_op).into_iter().any(|op| writes(&body.ops[op].kind)) {
            true => Err("its loop writes to memory"),
            false => Ok(()),
        }
    }

    fn inside(&self, op: OpId) -> Vec<OpId> {
        let body = &self.function.body;
        body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region)).collect()
    }

    /// Indices are computed from the loop's counter, from what does not change in it, and from what is looked up by those.
    pub(crate) fn are_counted(&self, indices: &[Value], for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let Some(Core::For { body: region, .. }) = core(&body.ops[for_op].kind) else { return Err("it is in no loop") };
        let block = body.block_of(*region);
        counted_loops::follow(self.function, indices.iter().copied(), |value, op| match op {
            // Of a lookup, which was seen to come after loads only.
            _ if *body.ty(value) == Type::Token => Ok(false),
            None if body.blocks[block].args.iter().skip(1).any(|arg| *arg == value) => {
                Err("its index comes from the iteration before")
            }
            Some(op) if self.blocks[op.0 as usize] == Some(block) => match is_pure(&body.ops[op].kind) || self.is_lookup(op) {
                true => Ok(true),
                false => Err("its index is not computed from the loop's counter"),
            },
            _ => Ok(false),
        })
    }

    /// A plain load of one element that comes after nothing but loads: whoever asks for tma_copies can make it as well.
    fn is_lookup(&self, op: OpId) -> bool {
        let body = &self.function.body;
        let (Op::LoadView { order, token, .. } | Op::Load { order, token, .. }) = &body.ops[op].kind else { return false };
        let single = body.ty(body.result(op)).tile().is_some_and(|(_, shape)| element_count(shape) == 1);
        single && order.semantics == MemoryOrdering::Weak && token.is_none_or(|token| self.is_of_loads(token))
    }

    /// Whether what a token orders behind is nothing but loads.
    pub(crate) fn is_of_loads(&self, token: Value) -> bool {
        self.is_of_loads_and(token, &BTreeSet::new())
    }

    /// Whether it is nothing but loads and these stores.
    pub(crate) fn is_of_loads_and(&self, token: Value, stores: &BTreeSet<OpId>) -> bool {
        let body = &self.function.body;
        let around =
            |block| body.ops.ids().find(|op| body.ops[*op].kind.regions().iter().any(|inner| body.block_of(*inner) == block));
        let (mut seen, mut work) = (BTreeSet::new(), vec![token]);
        while let Some(token) = work.pop() {
            if !seen.insert(token) {
                continue;
            }
            let made_by = match body.values[token].def {
                Def::Result { op, .. } => Some(op),
                Def::Argument { block, .. } => around(block),
            };
            let Some(op) = made_by else { return false };
            // Of a construct any that it has.
            let all: Vec<OpId> = self.inside(op).into_iter().chain([op]).collect();
            if all.iter().any(|op| !stores.contains(op) && writes(&body.ops[*op].kind)) {
                return false;
            }
            let before = all.into_iter().flat_map(|op| body.ops[op].kind.operands());
            work.extend(before.filter(|value| matches!(body.ty(*value), Type::Token)));
        }
        true
    }
}

/// Without a wildcard, so that a new op does not pass for one that writes nothing.
fn writes(op: &Op) -> bool {
    match op {
        Op::StoreView { .. }
        | Op::ReduceView { .. }
        | Op::MulticastStore { .. }
        | Op::Store { .. }
        | Op::AtomicRmw { .. }
        | Op::AtomicCas { .. } => true,
        Op::LoadView { .. }
        | Op::MulticastLoad { .. }
        | Op::Load { .. }
        | Op::Reduce { .. }
        | Op::Scan { .. }
        | Op::Mma { .. }
        | Op::MmaScaled { .. }
        | Op::Core(_) => false,
    }
}
