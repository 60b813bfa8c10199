//! Purpose: split the epilogue of a TMEM accumulator along N, so that the epilogue needs fewer registers and less shared memory at
//! a time.
//! Requires: only elementwise ops with constants between the accumulator and one store through a view. If other MMAs may reuse the
//! TMEM allocation, no MMA is between the chain and the store. Reason: `tcgen05.ld` moves down to the store.
//! Establishes: for each part of the accumulator, a slice, the elementwise ops and a store.
//! Preserves: stored values; the tokens of the parts are joined.
//! See also: Triton's `EPILOGUE_SUBTILE`; CUTLASS `EpilogueTile`.

use crate::operands;
use crate::tile_slicing::{self, PartBuilder};
use crate::tmem_accumulator_chains::{self, Chain};
use base::ir::{Op as OpId, Operation};
use base::{Block, Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::MemoryOrdering;
use core_dialect::tile::{Dense, ViewKind, element_count};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};

/// Target elements of a part: 128 rows of 64 columns. Parts have at least [`MIN_COLUMNS`] columns.
const PART_ELEMENTS: usize = 128 * 64;
/// Minimum columns of a part.
const MIN_COLUMNS: u32 = 32;

/// Splits the epilogues of the chains whose MMAs are all in `tmem_mmas`, which accumulate in tensor memory.
pub(crate) fn run(mut function: Function, tmem_mmas: &BTreeSet<OpId>) -> Function {
    let epilogue_tiles: Vec<EpilogueTile> = {
        let planner = EpiloguePlanner { function: &function, facts: Facts::derive(&function) };
        let (chains, _) = tmem_accumulator_chains::accumulator_chains(&function);
        let in_tensor_memory = chains.into_iter().filter(|chain| chain.mmas.iter().all(|op| tmem_mmas.contains(op)));
        in_tensor_memory.filter_map(|chain| planner.plan_epilogue(&chain)).collect()
    };
    epilogue_tiles.into_iter().for_each(|tile| tile.apply(&mut function));
    function
}

/// A planned split of an epilogue.
struct EpilogueTile {
    /// The final accumulator of the MMA chain.
    accumulator: Value,
    /// The elementwise ops between the accumulator and the store.
    path: Vec<OpId>,
    /// The store of the tile.
    store: OpId,
    /// The number of parts into which the epilogue is split.
    parts: u32,
    /// The greatest tile index along the columns whose part indices fit the index type. `None` if the part indices of every tile
    /// fit.
    max_index: Option<i64>,
}

/// Plans how to split the epilogues of one function.
struct EpiloguePlanner<'a> {
    function: &'a Function,
    facts: Facts<'a>,
}

impl EpiloguePlanner<'_> {
    /// Plans the split of the epilogue of a chain. `None` if the epilogue cannot be split or is too small for two parts.
    fn plan_epilogue(&self, chain: &Chain) -> Option<EpilogueTile> {
        let (body, accumulator) = (&self.function.body, chain.result);
        let [rows, columns] = **body.ty(accumulator).tile()?.1 else { return None };
        let parts = ((element_count(&[rows, columns]) / PART_ELEMENTS) as u32).min(columns / MIN_COLUMNS);
        let blocks = body.op_blocks();
        let block = blocks[body.defining_op(accumulator)?.0 as usize];
        let (mut value, mut path) = (accumulator, Vec::new());
        let store = loop {
            let user = self.only_user(value).filter(|user| blocks[user.0 as usize] == block)?;
            match &body.ops[user].kind {
                Op::StoreView { tile, .. } if *tile == value => break user,
                Op::Core(core) if core.is_elementwise() && self.has_constant_operands(core, value) => {
                    path.push(user);
                    value = body.result(user);
                }
                _ => return None,
            }
        };
        if chain.is_single() && self.has_mma_between(body.defining_op(accumulator)?, store, block?) {
            return None;
        }
        let Op::StoreView { view, index, order, .. } = &body.ops[store].kind else { unreachable!("planned as a store") };
        let Type::View(ty) = body.ty(*view) else { unreachable!("the verifier checks that views are views") };
        let is_defined = body.defining_op(*view).is_some_and(|op| matches!(body.ops[op].kind, Op::Core(Core::MakeView { .. })));
        let bits = body.ty(index[1]).tile().map_or(0, |(elem, _)| elem.bits());
        let is_weak_partition = ty.kind == ViewKind::Partition && order.semantics == MemoryOrdering::Weak && bits >= 32;
        let max_index = tile_slicing::max_splittable_index(&self.facts, index[1], bits.max(1), parts.max(1));
        (parts > 1 && is_defined && is_weak_partition).then_some(EpilogueTile { accumulator, path, store, parts, max_index })
    }

    /// Whether an MMA is between two ops of a block, directly or in a region.
    fn has_mma_between(&self, first: OpId, last: OpId, block: Block) -> bool {
        let body = &self.function.body;
        let following = body.blocks[block].ops.iter().copied().skip_while(|op| *op != first).skip(1);
        let between: Vec<OpId> = following.take_while(|op| *op != last).collect();
        let inside = between.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|region| body.walk(region));
        between.iter().copied().chain(inside).any(|op| operands::is_mma(self.function, op))
    }

    /// The op that uses a value, if the value has exactly one use.
    fn only_user(&self, value: Value) -> Option<OpId> {
        let body = &self.function.body;
        let uses = |op: &OpId| body.ops[*op].kind.operands().iter().filter(|other| **other == value).count();
        let users: Vec<(OpId, usize)> =
            body.walk(self.function.region).into_iter().map(|op| (op, uses(&op))).filter(|(_, count)| *count > 0).collect();
        match users[..] {
            [(user, 1)] => Some(user),
            _ => None,
        }
    }

    /// Whether all operands of an op except `value` are splat constants.
    fn has_constant_operands(&self, core: &Core, value: Value) -> bool {
        core.operands().iter().all(|operand| *operand == value || splat_constant(self.function, *operand).is_some())
    }
}

/// The data of a constant whose elements are all equal. `None` if another op or no op defines the value.
fn splat_constant(function: &Function, value: Value) -> Option<Dense> {
    match &function.body.ops[function.body.defining_op(value)?].kind {
        Op::Core(Core::Constant { value: value @ Dense::Splat(_) }) => Some(value.clone()),
        _ => None,
    }
}

impl EpilogueTile {
    /// Replaces the ops of the path and the store by one copy for each part.
    fn apply(self, function: &mut Function) {
        let EpilogueTile { accumulator, path, store, parts, max_index } = self;
        let node = function.body.ops[store].clone();
        let Op::StoreView { tile, view, index, token, order, in_bounds, hints } = node.kind else {
            unreachable!("it was planned as a store")
        };
        let mut parts = PartBuilder { function, count: parts, loc: Loc::UNKNOWN, emitted: Vec::new() };
        let view = parts.part_view(view, 1);
        let mut tokens = Vec::new();
        for part in 0..parts.count {
            parts.loc = node.loc;
            let mut part_values = BTreeMap::from([(accumulator, parts.slice_part(accumulator, 1, part))]);
            for op in &path {
                let node = parts.function.body.ops[*op].clone();
                let mut kind = node.kind;
                for operand in kind.operands() {
                    if let Some(value) = splat_constant(parts.function, operand).filter(|_| !part_values.contains_key(&operand)) {
                        let ty = parts.part_type(operand, 1);
                        part_values.insert(operand, parts.append_op(Op::Core(Core::Constant { value }), [ty])[0]);
                    }
                }
                kind.for_each_operand_mut(&mut |operand| *operand = part_values[operand]);
                let ty = parts.part_type(node.results[0], 1);
                parts.loc = node.loc;
                part_values.insert(node.results[0], parts.append_op(kind, [ty])[0]);
            }
            parts.loc = node.loc;
            let mut part_index = index.clone();
            part_index[1] = parts.part_index(index[1], max_index, part);
            let (in_bounds, hints, tile) = (in_bounds.clone(), hints.clone(), part_values[&tile]);
            let store = Op::StoreView { tile, view, index: part_index, token, order, in_bounds, hints };
            tokens.extend(parts.append_op(store, [Type::Token]));
        }
        let is_token_used = parts.function.body.use_counts(parts.function.region)[node.results[0].0 as usize] > 0;
        let joined = is_token_used.then(|| parts.append_op(Op::Core(Core::JoinTokens { tokens }), [Type::Token])[0]);
        let PartBuilder { function, emitted, .. } = parts;
        joined.into_iter().for_each(|joined| function.body.replace_uses(node.results[0], joined));
        let block = function.body.op_blocks()[store.0 as usize].expect("the store is in a block");
        let ops = &mut function.body.blocks[block].ops;
        let at = ops.iter().position(|op| *op == store).expect("the store is in its block");
        ops.splice(at..=at, emitted);
        ops.retain(|op| !path.contains(op));
    }
}
