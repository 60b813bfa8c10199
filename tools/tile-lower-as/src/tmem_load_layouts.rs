//! Decides by which atoms threads take accumulators up from tensor memory, and store operands there: whether a thread has all of a row, or a
//! few columns of several rows; changes nothing.
//!
//! Tiles that are computed from each other element by element are in one layout. Where such tiles meet one with an element for each
//! row, or are combined to one, rows to threads cost least; where the others have an element for each column, all of it would have to
//! pass through shared memory to every thread that has a row.

use crate::tcgen05_selection::tmem_loaded;
use crate::tmem_accumulator_chains::Chain;
use base::Value;
use base::ir::Operation;
use core_dialect::core_ops::Core;
use std::collections::BTreeSet;
use tileaa::{Function, Op};
use tileas::{BufferInfo, Layout, tensor_memory};

/// The atoms in the order in which those that fit are taken: rows to threads first.
pub(crate) const BY_ROWS: &[&str] = &["32x32b", "16x32bx2", "16x256b"];
/// Few columns to threads first.
const BY_COLUMNS: &[&str] = &["16x256b", "16x32bx2", "32x32b"];
/// All of them; by the last a thread has the same elements of an operand as of accumulators twice as wide by `16x256b`.
pub(crate) const ALL: &[&str] = &["32x32b", "16x32bx2", "16x256b", "16x128b"];

/// Which tiles of a function are in one layout, and what those meet.
pub(crate) struct Lanes {
    /// For each value one that is in the same layout, or itself.
    same: Vec<usize>,
    /// Of each such group one value: with something for each row, and for each column.
    by_rows: BTreeSet<usize>,
    by_columns: BTreeSet<usize>,
    /// What is computed from nothing but numbers: each thread makes what it needs of that.
    free: Vec<bool>,
}

impl Lanes {
    pub(crate) fn of(function: &Function) -> Lanes {
        let body = &function.body;
        let count = body.values.len();
        let free = vec![false; count];
        let mut lanes = Lanes { same: (0..count).collect(), by_rows: BTreeSet::new(), by_columns: BTreeSet::new(), free };
        let ops = body.walk(function.region);
        for &op in &ops {
            let node = &body.ops[op];
            lanes.find_free(function, op);
            match &node.kind {
                Op::Core(core) if core.is_elementwise() => {
                    let computed_there = |operand: &Value| lanes.free[operand.0 as usize] || is_broadcast(function, *operand);
                    let own: Vec<Value> = core.operands().into_iter().filter(|operand| !computed_there(operand)).collect();
                    own.into_iter().chain(node.results.iter().copied()).reduce(|one, other| lanes.join(one, other));
                }
                Op::Core(Core::For { init, body: inner, .. }) => {
                    let block = &body.blocks[body.block_of(*inner)];
                    let args = &block.args[1..];
                    init.iter().zip(args).for_each(|(init, arg)| _ = lanes.join(*init, *arg));
                    node.results.iter().zip(args).for_each(|(result, arg)| _ = lanes.join(*result, *arg));
                    if let Some(Op::Core(Core::Continue { values })) = block.ops.last().map(|op| &body.ops[*op].kind) {
                        values.iter().zip(args).for_each(|(value, arg)| _ = lanes.join(*value, *arg));
                    }
                }
                _ => {}
            }
        }
        ops.into_iter().for_each(|op| lanes.note(function, op));
        lanes
    }

    fn find_free(&mut self, function: &Function, op: base::ir::Op) {
        let node = &function.body.ops[op];
        let number =
            |value: &Value| function.body.ty(*value).tile().is_none_or(|(_, shape)| shape.iter().all(|extent| *extent == 1));
        let free = match &node.kind {
            Op::Core(Core::Constant { .. } | Core::Iota {}) => true,
            Op::Core(core @ (Core::Broadcast { .. } | Core::Reshape { .. })) => self.is_computed_from_free(core),
            Op::Core(core) if core.is_elementwise() => self.is_computed_from_free(core),
            _ => false,
        };
        node.results.iter().for_each(|result| self.free[result.0 as usize] = free || number(result));
    }

    fn is_computed_from_free(&self, core: &Core) -> bool {
        core.operands().iter().all(|operand| self.free[operand.0 as usize])
    }

    /// The value that stands for all in the layout of one.
    fn of_all(&self, value: Value) -> usize {
        let mut at = value.0 as usize;
        while self.same[at] != at {
            at = self.same[at];
        }
        at
    }

    fn join(&mut self, one: Value, other: Value) -> Value {
        let [one_of, other_of] = [one, other].map(|value| {
            let mut at = value.0 as usize;
            // The way becomes shorter each time that it is gone.
            while self.same[at] != at {
                self.same[at] = self.same[self.same[at]];
                at = self.same[at];
            }
            at
        });
        self.same[one_of.max(other_of)] = one_of.min(other_of);
        one
    }

    /// What the tiles of an op meet there.
    fn note(&mut self, function: &Function, op: base::ir::Op) {
        let node = &function.body.ops[op];
        let rank = |value: Value| function.body.ty(value).tile().map_or(0, |(_, shape)| shape.len());
        match &node.kind {
            Op::Core(core) if core.is_elementwise() => {
                let all = self.of_all(node.results[0]);
                for operand in core.operands() {
                    match self.repeated(function, operand) {
                        Some(Repeats::Rows) => _ = self.by_columns.insert(all),
                        Some(Repeats::Columns) => _ = self.by_rows.insert(all),
                        None => {}
                    }
                }
            }
            Op::Reduce { operands, dim, .. } => {
                let (all, behind) = (self.of_all(operands[0]), rank(operands[0]).saturating_sub(*dim as usize));
                match behind {
                    1 => _ = self.by_rows.insert(all),
                    2 => _ = self.by_columns.insert(all),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// What an operand repeats, if anything that passes through registers.
    fn repeated(&self, function: &Function, value: Value) -> Option<Repeats> {
        let body = &function.body;
        let Op::Core(Core::Broadcast { x }) = body.ops[body.defining_op(value)?].kind else { return None };
        let shape = body.ty(x).tile().filter(|_| !self.free[x.0 as usize])?.1;
        match shape[..] {
            [.., 1, columns] if columns > 1 => Some(Repeats::Rows),
            [.., rows, 1] if rows > 1 => Some(Repeats::Columns),
            _ => None,
        }
    }

    /// The atoms by which threads take up accumulators, those that they should take first.
    pub(crate) fn atoms(&self, accumulators: Value) -> &'static [&'static str] {
        let all = self.of_all(accumulators);
        if self.by_columns.contains(&all) && !self.by_rows.contains(&all) { BY_COLUMNS } else { BY_ROWS }
    }

    /// The layout in which threads store an operand: where it is computed from accumulators, that in which they took those up.
    pub(crate) fn stored(
        &self,
        function: &Function,
        operand: Value,
        info: &BufferInfo,
        chains: &[Chain],
        warp_bits: usize,
    ) -> Option<Layout> {
        let all = self.of_all(operand);
        let accumulators = chains.iter().map(|chain| chain.result).find(|accumulators| self.of_all(*accumulators) == all);
        let from = accumulators.and_then(|accumulators| {
            let (elem, shape) = function.body.ty(accumulators).tile()?;
            tmem_loaded(self.atoms(accumulators), &tensor_memory::accumulators(elem, shape)?, warp_bits)
        });
        let as_before =
            |layout: &Layout| from.as_ref().is_some_and(|from| (&from.lane, &from.warp) == (&layout.lane, &layout.warp));
        let mut each = ALL.iter().filter_map(|name| tmem_loaded(&[name], info, warp_bits));
        each.find(as_before).or_else(|| tmem_loaded(BY_ROWS, info, warp_bits))
    }
}

/// Along which of its two last dimensions alone a tile repeats what it is made of.
enum Repeats {
    Rows,
    Columns,
}

/// Whether a tile is made where it is used, in the layout that is wanted there.
fn is_broadcast(function: &Function, value: Value) -> bool {
    let made = function.body.defining_op(value).map(|op| &function.body.ops[op].kind);
    matches!(made, Some(Op::Core(Core::Broadcast { .. } | Core::Constant { .. } | Core::Iota {})))
}
