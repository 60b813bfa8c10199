//! Purpose: split an MMA along K if an operand takes too much of the shared memory that it passes through, or if the operands of a
//! loop leave TMA copies a single stage.
//! Requires: `.aa`.
//! Establishes: each K part of such an operand is its own load. Each part is loaded before the MMA of the preceding part, so two
//! parts are in shared memory at a time. If TMA may copy the parts, each part is loaded right before its own MMA instead, so that
//! the parts can share one multi-stage buffer.
//! Preserves: the order of additions into the accumulator.
//! See also: a smaller `BLOCK_K` in Triton; `K_BLOCK_MAX` in CUTLASS main loops.

use crate::mma_selection::mma_extents;
use crate::operands::{self, OperandStep, StepKind};
use crate::plan_options::TmaChoice;
use crate::smem_swizzles::LINE;
use crate::tile_slicing::{self, PartBuilder};
use base::ir::{Op as OpId, Operation};
use base::{Block, Loc, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{MemoryOrdering, Padding};
use core_dialect::tile::{Shape, ViewKind};
use std::collections::BTreeMap;
use target_info::Feature;
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};
use tileas::layout::Strides;
use tileas::{budget, tensor_memory, tma_tiles};

/// A K part of an operand takes at most `1 / SHARES` of shared memory. Reason: two parts are live at a time besides other buffers.
const SHARES: u32 = 3;
/// The parts that the TMA copies of a loop fill at a time take at most `1 / STAGED_SHARES` of shared memory. Reason: the copies need
/// three stages (`ENOUGH_STAGES` of `tile-sched`) so that loads stay in flight while MMAs release a stage.
const STAGED_SHARES: u32 = 3;
/// The minimum extent of a part along K, in bits (elements times bits per element). 256 bits are the K extent of the largest atoms.
const MIN_PART_BITS: u32 = 256;

/// Returns the function with its MMAs split along K where an operand is too large for shared memory.
pub(crate) fn run(function: &Function, target: Target, tma_copies: TmaChoice) -> Function {
    split_mmas_along_k(function, target, tma_copies).function
}

/// A function whose MMAs are split along K.
pub(crate) struct SplitFunction {
    pub(crate) function: Function,
    /// The number of parts of each unscaled MMA of the original function, in program order.
    pub(crate) parts_per_mma: Vec<u32>,
}

/// Splits those MMAs of a function along K whose operands are too large for shared memory. Does not change `function`.
pub(crate) fn split_mmas_along_k(function: &Function, target: Target, tma_copies: TmaChoice) -> SplitFunction {
    let reads_in_place = [Feature::Wgmma, Feature::TensorMemory].into_iter().any(|feature| target.has(feature));
    let alternating = tma_copies != TmaChoice::Never && target.has(Feature::Tma) && reads_in_place;
    let splits = SplitPlanner::new(function, target, alternating).plan_splits();
    let parts: BTreeMap<OpId, u32> = splits.iter().map(|split| (split.mma, split.parts)).collect();
    let parts_per_mma = operands::unscaled_mmas(function).into_iter().map(|op| parts.get(&op).copied().unwrap_or(1)).collect();
    let mut function = function.clone();
    if splits.is_empty() {
        return SplitFunction { function, parts_per_mma };
    }
    for split in &splits {
        let parts = PartBuilder { function: &mut function, count: split.parts, loc: Loc::UNKNOWN, emitted: Vec::new() };
        SplitRewriter { split, parts, alternating }.run();
    }
    SplitFunction { function: base::text::compact(&function), parts_per_mma }
}

/// A planned split of an MMA along K.
struct Split {
    /// The MMA to split.
    mma: OpId,
    /// The block of the MMA.
    block: Block,
    /// The number of parts.
    parts: u32,
    /// Where the parts of the left operand come from.
    lhs: PartSource,
    /// Where the parts of the right operand come from.
    rhs: PartSource,
}

/// The origin of the K parts of an operand.
enum PartSource {
    /// The parts are slices of the full tile along this dimension. A tile that is defined outside the block of the MMA is sliced
    /// right after its definition.
    Whole(usize),
    /// The function loads each part separately, through a view with smaller tiles.
    Loads(LoadedOperand),
}

/// An operand that is computed from a single load, only by permutes, reshapes and conversions.
#[derive(Clone)]
struct LoadedOperand {
    /// The load of the full tile.
    load: OpId,
    /// The dimension of the loaded tile that a split along K divides: the upper bits of its index are the upper bits of the K
    /// index.
    dim: usize,
    /// The ops from the load to the MMA, with the split dimension of each result.
    chain: Vec<(OpId, usize)>,
    /// The greatest tile index whose part indices fit the index type. `None` if the part indices of every tile fit.
    max_index: Option<i64>,
}

/// An MMA of a loop whose operands TMA may copy.
struct StagedMma {
    mma: OpId,
    /// The bytes of its loaded operands.
    bytes: u32,
    parts: u32,
    max_parts: u32,
}

/// Decides which MMAs are split, and into how many parts.
struct SplitPlanner<'a> {
    function: &'a Function,
    facts: Facts<'a>,
    /// The use count of each value.
    uses: Vec<u32>,
    /// The block of each op.
    blocks: Vec<Option<Block>>,
    /// Maximum bytes of a part of an operand.
    max_part_bytes: u32,
    /// Whether the parts may be TMA copies that share one multi-stage buffer.
    alternating: bool,
    /// For MMAs of loops whose operands leave TMA copies a single stage: the number of parts with which the copies have several.
    parts_for_stages: BTreeMap<OpId, u32>,
}

impl<'a> SplitPlanner<'a> {
    fn new(function: &'a Function, target: Target, alternating: bool) -> Self {
        let body = &function.body;
        let planner = SplitPlanner {
            function,
            facts: Facts::derive(function),
            uses: body.use_counts(function.region),
            blocks: body.op_blocks(),
            max_part_bytes: budget::shared_memory(target) / SHARES,
            alternating,
            parts_for_stages: BTreeMap::new(),
        };
        // An MMA warp of its own releases the stages of tcgen05. With wgmma, the threads that also compute release them, and more
        // parts mean more waits of these threads.
        let plans_stages = alternating && target.has(Feature::TensorMemory);
        let parts_for_stages = if plans_stages { planner.plan_stages(budget::shared_memory(target)) } else { BTreeMap::new() };
        SplitPlanner { parts_for_stages, ..planner }
    }

    /// Plans more parts for split MMAs of each loop whose loaded operands, twice, exceed shared memory: the largest operands are
    /// halved until one part of each takes at most `1 / STAGED_SHARES` of it.
    fn plan_stages(&self, shared_memory: u32) -> BTreeMap<OpId, u32> {
        let body = &self.function.body;
        let mut planned = BTreeMap::new();
        for op in body.walk(self.function.region) {
            let Op::Core(core) = &body.ops[op].kind else { continue };
            let Some(block) = core.for_body().map(|region| body.block_of(region)) else { continue };
            let mut staged: Vec<StagedMma> = body.blocks[block].ops.iter().filter_map(|op| self.staged_mma(*op, block)).collect();
            if staged.iter().map(|mma| u64::from(mma.bytes)).sum::<u64>() * 2 <= u64::from(shared_memory) {
                continue;
            }
            let part_bytes = |staged: &[StagedMma]| staged.iter().map(|mma| u64::from(mma.bytes / mma.parts)).sum::<u64>();
            while part_bytes(&staged) > u64::from(shared_memory / STAGED_SHARES) {
                let splittable = staged.iter_mut().filter(|mma| mma.parts < mma.max_parts);
                let Some(largest) = splittable.max_by_key(|mma| mma.bytes / mma.parts) else { break };
                largest.parts *= 2;
            }
            planned.extend(staged.into_iter().map(|mma| (mma.mma, mma.parts)));
        }
        planned
    }

    /// Describes an MMA with loaded operands for [`Self::plan_stages`]. Operands that threads convert pass through registers.
    fn staged_mma(&self, mma: OpId, block: Block) -> Option<StagedMma> {
        let body = &self.function.body;
        let Op::Mma { lhs, rhs, .. } = body.ops[mma].kind else { return None };
        let is_copied = |loaded: &LoadedOperand| {
            let elem = |value: Value| body.ty(value).tile().map(|(elem, _)| elem);
            loaded.chain.iter().all(|(op, _)| elem(body.result(*op)) == elem(body.result(loaded.load)))
        };
        let side = |operand, dim| self.follow_to_load(operand, dim, mma, block, 2).filter(is_copied);
        let sides = [side(lhs, self.shape(lhs).len() - 1), side(rhs, self.shape(rhs).len() - 2)];
        let bytes = sides.iter().flatten().map(|side| self.bytes(body.result(side.load))).sum();
        let parts = self.plan_split(mma).map_or(1, |split| split.parts);
        let [_, rows, _, k] = mma_extents(self.shape(lhs), self.shape(rhs));
        // The parts of the other operand may each need a buffer, so only MMAs that are split anyway get more parts. An MMA of
        // fewer rows reads its operands through registers.
        let may_split = parts > 1 && rows >= tensor_memory::MIN_ROWS;
        let min_bits = self.element_bits(lhs).min(self.element_bits(rhs));
        let max_parts = if may_split { k * min_bits / MIN_PART_BITS } else { parts };
        sides.iter().any(Option::is_some).then_some(StagedMma { mma, bytes, parts, max_parts })
    }

    /// The planned splits, in program order.
    fn plan_splits(&self) -> Vec<Split> {
        self.function.body.walk(self.function.region).into_iter().filter_map(|op| self.plan_split(op)).collect()
    }

    /// Plans the split of an op along K. `None` if the op is no unscaled MMA, needs no split, or cannot be split.
    fn plan_split(&self, mma: OpId) -> Option<Split> {
        let body = &self.function.body;
        let Op::Mma { lhs, rhs, .. } = body.ops[mma].kind else { return None };
        let block = self.blocks[mma.0 as usize]?;
        let (k_of_lhs, k_of_rhs) = (self.shape(lhs).len() - 1, self.shape(rhs).len() - 2);
        let needed_parts = [lhs, rhs].map(|operand| self.bytes(operand).div_ceil(self.max_part_bytes).next_power_of_two());
        // Two parts of each operand are in shared memory at a time.
        let parts_for_both = self
            .bytes(lhs)
            .saturating_add(self.bytes(rhs))
            .saturating_mul(2)
            .div_ceil(self.max_part_bytes * SHARES)
            .next_power_of_two();
        let parts = match needed_parts[0].max(needed_parts[1]) {
            1 => 1,
            parts => parts.max(parts_for_both),
        };
        let parts = parts.max(self.parts_for_stages.get(&mma).copied().unwrap_or(1));
        let [.., k] = mma_extents(self.shape(lhs), self.shape(rhs));
        let element_bits =
            [lhs, rhs].map(|operand| body.ty(operand).tile().map_or(0, |(elem, _)| elem.bits())).into_iter().min()?;
        if parts == 1 || k / parts * element_bits < MIN_PART_BITS {
            return None;
        }
        // An operand that is too large must be split into loads of its parts. The other operand is split in this way if possible.
        let in_parts = |parts: u32| {
            let side = |operand, dim| self.follow_to_load(operand, dim, mma, block, parts);
            let sides = [side(lhs, k_of_lhs), side(rhs, k_of_rhs)];
            sides.iter().zip(needed_parts).all(|(side, needed_parts)| needed_parts == 1 || side.is_some()).then_some(sides)
        };
        let sides = in_parts(parts)?;
        let tma_parts =
            if self.alternating { sides.iter().flatten().filter_map(|side| self.tma_tiles_along(side)).max() } else { None };
        let tma_parts = tma_parts.filter(|tma_parts| *tma_parts > parts && k / tma_parts * element_bits >= MIN_PART_BITS);
        let (parts, sides) = tma_parts.and_then(|tma_parts| Some((tma_parts, in_parts(tma_parts)?))).unwrap_or((parts, sides));
        let [lhs, rhs] = sides.map(|side| side.map(PartSource::Loads));
        let (lhs, rhs) = (lhs.unwrap_or(PartSource::Whole(k_of_lhs)), rhs.unwrap_or(PartSource::Whole(k_of_rhs)));
        Some(Split { mma, block, parts, lhs, rhs })
    }

    /// The number of full-width (128-byte) TMA tiles of a load along K. `None` if K is not contiguous in memory, or if TMA cannot
    /// load the tile.
    fn tma_tiles_along(&self, loaded: &LoadedOperand) -> Option<u32> {
        let body = &self.function.body;
        let Op::LoadView { view, .. } = body.ops[loaded.load].kind else { return None };
        let Type::View(ty) = body.ty(view) else { return None };
        let (elem, shape) = body.ty(body.result(loaded.load)).tile()?;
        let is_contiguous_along_k =
            tma_tiles::dims_in_map_order(ty)?.first() == Some(&loaded.dim) && matches!(ty.padding, None | Some(Padding::Zero));
        is_contiguous_along_k.then(|| shape[loaded.dim].saturating_mul(elem.bytes()) / LINE)
    }

    /// Follows an operand of the MMA `mma` back to the operand's load. `dim` is the K dimension of the operand. `None` if a value
    /// between the load and the MMA has another user or is defined outside `block`. Also `None` if the load cannot be split into
    /// `parts` parts.
    fn follow_to_load(&self, operand: Value, mut dim: usize, mma: OpId, block: Block, parts: u32) -> Option<LoadedOperand> {
        let body = &self.function.body;
        let (mut value, mut chain) = (operand, Vec::new());
        loop {
            let op = body.defining_op(value)?;
            if self.uses[value.0 as usize] != 1 || self.blocks[op.0 as usize] != Some(block) {
                return None;
            }
            let Some(OperandStep { from, step_kind }) = operands::defining_step(self.function, value) else { break };
            chain.push((op, dim));
            dim = match step_kind {
                StepKind::Permuted(order) => order[dim] as usize,
                StepKind::Converted => dim,
                StepKind::Reshaped => self.dim_before_reshape(from, value, dim, parts)?,
            };
            value = from;
        }
        let load = body.defining_op(value).filter(|op| matches!(body.ops[*op].kind, Op::LoadView { .. }))?;
        chain.reverse();
        let max_index = self.max_splittable_index(load, dim, parts);
        (self.can_split(load, dim) && self.can_move_to_mma(load, mma, block)).then_some(LoadedOperand {
            load,
            dim,
            chain,
            max_index,
        })
    }

    /// The dimension of the operand `x` of a reshape whose parts are the parts of dimension `dim` of `result`. Both dimensions end
    /// at the same bit of the linear element index. `None` if no dimension does, or if it has fewer than `parts` elements.
    fn dim_before_reshape(&self, x: Value, result: Value, dim: usize, parts: u32) -> Option<usize> {
        let (from, to) = (Strides::for_shape(self.shape(x)), Strides::for_shape(self.shape(result)));
        let end = to.dim_bits(dim).end;
        (0..from.bits.len()).find(|&d| from.dim_bits(d).end == end && from.bits[d] >= parts.trailing_zeros())
    }

    /// Whether a view with smaller tiles can replace a load's view. The tile indices of the smaller tiles must fit the type of the
    /// index. An index of 32 bits is wide enough for all of memory.
    fn can_split(&self, load: OpId, dim: usize) -> bool {
        let body = &self.function.body;
        let Op::LoadView { view, index, order, .. } = &body.ops[load].kind else { return false };
        let Type::View(ty) = body.ty(*view) else { return false };
        let is_make_view = body.defining_op(*view).is_some_and(|op| matches!(body.ops[op].kind, Op::Core(Core::MakeView { .. })));
        let is_weak_partition = ty.kind == ViewKind::Partition && order.semantics == MemoryOrdering::Weak;
        is_weak_partition && is_make_view && self.element_bits(index[dim]) >= 32
    }

    /// The greatest tile index of the load along `dim` whose part indices fit the index type. `None` if the part indices of every
    /// tile fit.
    fn max_splittable_index(&self, load: OpId, dim: usize, parts: u32) -> Option<i64> {
        let Op::LoadView { index, .. } = &self.function.body.ops[load].kind else { return None };
        tile_slicing::max_splittable_index(&self.facts, index[dim], self.element_bits(index[dim]), parts)
    }

    /// Whether the load can move down to the MMA: no op between the load and the MMA uses the load's token.
    fn can_move_to_mma(&self, load: OpId, mma: OpId, block: Block) -> bool {
        let body = &self.function.body;
        let token = body.ops[load].results[1];
        let between = body.blocks[block].ops.iter().skip_while(|op| **op != load).take_while(|op| **op != mma);
        let uses_token = |op: OpId| body.ops[op].kind.operands().contains(&token);
        !between
            .copied()
            .any(|op| uses_token(op) || body.ops[op].kind.regions().into_iter().flat_map(|r| body.walk(r)).any(uses_token))
    }

    /// Bytes of an operand tile.
    fn bytes(&self, value: Value) -> u32 {
        // The loaded elements may be narrower than the operand's. Then the result is an upper bound for the loaded bytes.
        let (elem, shape) = self.function.body.ty(value).tile().expect("operands are tiles");
        (core_dialect::tile::element_count(shape) as u32).saturating_mul(elem.bytes())
    }
    /// Bits of an element of a tile; 32 for a value that is no tile.
    fn element_bits(&self, value: Value) -> u32 {
        self.function.body.ty(value).tile().map_or(32, |(elem, _)| elem.bits())
    }
    /// The shape of an operand tile.
    fn shape(&self, value: Value) -> &Shape {
        self.function.body.ty(value).tile().expect("operands are tiles").1
    }
}

/// Replaces an MMA by one MMA for each K part.
struct SplitRewriter<'a> {
    split: &'a Split,
    /// The builder that emits the loads, slices and MMAs of the K parts.
    parts: PartBuilder<'a>,
    /// Whether the loads of the parts may be TMA copies that share one multi-stage buffer.
    alternating: bool,
}

impl SplitRewriter<'_> {
    /// Emits the loads, slices and MMAs of all parts, and removes the MMA and the loads that they replace.
    fn run(mut self) {
        let Split { mma, block, parts, lhs, rhs } = self.split;
        let Op::Mma { lhs: a, rhs: b, acc, signed_lhs, signed_rhs, fast_acc } = self.parts.function.body.ops[*mma].kind else {
            unreachable!("only MMAs are split")
        };
        let views: BTreeMap<OpId, Value> = [lhs, rhs].into_iter().filter_map(|side| self.smaller_view(side)).collect();
        let mut tokens: BTreeMap<OpId, Vec<Value>> = BTreeMap::new();
        let mut operands_of_part = |this: &mut Self, part: u32| {
            [(lhs, a), (rhs, b)].map(|(source, whole)| match source {
                PartSource::Whole(dim) => {
                    this.parts.loc = this.parts.function.body.ops[*mma].loc;
                    this.slice_operand(whole, *dim, part)
                }
                PartSource::Loads(loaded) => {
                    let (value, token) = this.emit_part_load(loaded, views[&loaded.load], part);
                    tokens.entry(loaded.load).or_default().push(token);
                    value
                }
            })
        };
        let (mut accumulator, mut next) = (acc, None);
        for i in 0..*parts {
            let [lhs, rhs] = next.take().unwrap_or_else(|| operands_of_part(&mut self, i));
            if i + 1 < *parts && !self.alternating {
                next = Some(operands_of_part(&mut self, i + 1));
            }
            self.parts.loc = self.parts.function.body.ops[*mma].loc;
            let ty = self.parts.function.body.ty(accumulator).clone();
            accumulator = self.parts.append_op(Op::Mma { lhs, rhs, acc: accumulator, signed_lhs, signed_rhs, fast_acc }, [ty])[0];
        }
        for (load, tokens) in tokens {
            let joined = self.parts.append_op(Op::Core(Core::JoinTokens { tokens }), [Type::Token])[0];
            self.parts.function.body.replace_uses(self.parts.function.body.ops[load].results[1], joined);
        }
        self.parts.function.body.replace_uses(self.parts.function.body.result(*mma), accumulator);
        let replaced: Vec<OpId> = [lhs, rhs].into_iter().flat_map(PartSource::replaced_ops).chain([*mma]).collect();
        let ops = &mut self.parts.function.body.blocks[*block].ops;
        let at = ops.iter().position(|op| op == mma).expect("the MMA is in its block");
        ops.splice(at..=at, self.parts.emitted);
        ops.retain(|op| !replaced.contains(op));
    }

    /// Emits the slice of a tile that belongs to a K part. If the tile is defined outside the MMA's block, the slice is emitted
    /// right after the definition. Reason: a loop around the MMA then does not repeat the slice.
    fn slice_operand(&mut self, whole: Value, dim: usize, part: u32) -> Value {
        let body = &self.parts.function.body;
        let definition = body.defining_op(whole).and_then(|op| Some((op, body.op_blocks()[op.0 as usize]?)));
        let Some((op, block)) = definition.filter(|(_, block)| *block != self.split.block) else {
            return self.parts.slice_part(whole, dim, part);
        };
        let emitted_here = std::mem::take(&mut self.parts.emitted);
        let slice = self.parts.slice_part(whole, dim, part);
        let slice_ops = std::mem::replace(&mut self.parts.emitted, emitted_here);
        let ops = &mut self.parts.function.body.blocks[block].ops;
        let at = ops.iter().position(|other| *other == op).expect("the tile is defined in its block");
        ops.splice(at + 1..at + 1, slice_ops);
        slice
    }

    /// For an operand whose parts are loaded, emits a view of the same memory whose tiles have the size of a part. Returns the load
    /// of the full tile and the new view. `None` for other operands.
    fn smaller_view(&mut self, source: &PartSource) -> Option<(OpId, Value)> {
        let PartSource::Loads(LoadedOperand { load, dim, .. }) = source else { return None };
        let Op::LoadView { view, .. } = self.parts.function.body.ops[*load].kind else { unreachable!("planned as a load") };
        Some((*load, self.parts.part_view(view, *dim)))
    }

    /// Emits the load of a part, and the ops that compute the operand's part from the loaded part. Returns the operand's part and
    /// the token of the load.
    fn emit_part_load(&mut self, loaded: &LoadedOperand, new_view: Value, part: u32) -> (Value, Value) {
        let node = self.parts.function.body.ops[loaded.load].clone();
        self.parts.loc = node.loc;
        let Op::LoadView { index, token, order, in_bounds, hints, .. } = node.kind else { unreachable!("planned as a load") };
        let mut new_index = index.clone();
        new_index[loaded.dim] = self.parts.part_index(index[loaded.dim], loaded.max_index, part);
        let types = [self.parts.part_type(node.results[0], loaded.dim), Type::Token];
        let new = Op::LoadView { view: new_view, index: new_index, token, order, in_bounds, hints };
        let results = self.parts.append_op(new, types);
        let mut value = results[0];
        for &(op, dim) in &loaded.chain {
            let node = self.parts.function.body.ops[op].clone();
            self.parts.loc = node.loc;
            let mut kind = node.kind;
            kind.for_each_operand_mut(&mut |operand| *operand = value);
            let ty = self.parts.part_type(node.results[0], dim);
            value = self.parts.append_op(kind, [ty])[0];
        }
        (value, results[1])
    }
}

impl PartSource {
    /// The ops that the loads of the parts replace. Empty if the parts are slices.
    fn replaced_ops(&self) -> Vec<OpId> {
        match self {
            PartSource::Whole(_) => Vec::new(),
            PartSource::Loads(LoadedOperand { load, chain, .. }) => {
                std::iter::once(*load).chain(chain.iter().map(|(op, _)| *op)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{File, Payload};

    /// Splits an f16 MMA of 16 x 2048 and 2048 x 16 operands for a target with 99 KiB of shared memory. The loads of the operands
    /// have tile indices of type `index`. Returns the number of MMAs after the split.
    fn mma_count_after_split(index: &str) -> usize {
        let memory = "memref<?x?xf16, strides: [?, 1], scope: 1>";
        let view = |tile: &str| format!("view<{tile}, {memory}>");
        let (a, b) = (view("16x2048"), view("2048x16"));
        let text = format!(
            "//!tile tileaa 4 lowered
func \"k\"(%p: ptr<f16>, %n: i32, %i: {index}) () {{
  %m = make_memref(base: %p, sizes: [%n, %n], strides: [%n]) : {memory}
  %a = make_view(memref: %m) : {a}
  %b = make_view(memref: %m) : {b}
  %x, %1 = load_view(view: %a, index: [%i, %i], order: (semantics: weak)) : tile<16x2048xf16>, token
  %y, %2 = load_view(view: %b, index: [%i, %i], order: (semantics: weak)) : tile<2048x16xf16>, token
  %c = constant(0.0) : tile<16x16xf32>
  %d = mma(lhs: %x, rhs: %y, acc: %c) : tile<16x16xf32>
  %v = make_view(memref: %m) : {o}
  %h = convert(kind: f_to_f(rounding: nearest_even), x: %d) : tile<16x16xf16>
  %3 = store_view(tile: %h, view: %v, index: [%i, %i], order: (semantics: weak)) : token
  return
}}
",
            o = view("16x16")
        );
        let mut file = File::<tileaa::Module>::read(text.as_bytes(), "k").unwrap_or_else(|error| panic!("{error:?}"));
        let function = run(&file.payload.functions.remove(0), Target::parse("sm_120").unwrap(), TmaChoice::WherePays);
        file.payload.functions.push(function);
        file.payload.verify(&file.envelope).unwrap_or_else(|error| panic!("{error:?}"));
        let function = &file.payload.functions[0];
        let ops = function.body.walk(function.region);
        ops.into_iter().filter(|op| matches!(function.body.ops[*op].kind, Op::Mma { .. })).count()
    }

    #[test]
    fn mma_with_large_operands_is_split_along_k() {
        assert_eq!(mma_count_after_split("i32"), 4);
        assert_eq!(mma_count_after_split("i64"), 4);
    }

    #[test]
    fn mma_with_16_bit_tile_indices_is_not_split() {
        assert_eq!(mma_count_after_split("i16"), 1);
    }
}
