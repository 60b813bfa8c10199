//! Purpose: assign a layout to every tile value.
//! Requires: layouts of accesses, MMAs and copies.
//! Establishes: a load has the layout of its widest access, and values computed from it keep this layout. Constants, iotas,
//! broadcasts and values computed only from them have no assigned layout; each use rematerializes them in the layout it needs.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `Coalesce` plus `RemoveLayoutConversions` (forward propagation from anchors, backward rematerialization).

use crate::access_layouts::{Accesses, default_layout};
use crate::async_copies::Copies;
use crate::copy_planner::Readers;
use crate::mma_selection::{MmaSelection, MmaSelections};
use crate::{operands, slices, tcgen05_selection};
use base::ir::{Block, Op as OpId, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::StructuredOp;
use core_dialect::tile::Elem;
use std::collections::BTreeSet;
use tileaa::{Function, Op};
use tileas::Layout;
use tileas::layout::Strides;

/// The function and the earlier decisions from which layouts are assigned.
struct AssignmentInputs<'a> {
    function: &'a Function,
    accesses: &'a Accesses,
    mmas: &'a MmaSelections,
    copies: &'a Copies,
    /// By value id, whether all uses of the value are left or right operands of MMAs.
    used_by_mmas_only: Vec<bool>,
}

/// The layouts that the assignment gives to tiles. Some tiles have no assigned layout: each use rematerializes them or reads them
/// from a buffer.
pub(crate) struct AssignedLayouts {
    /// The assigned layout of each value, by value id. `None` for values without an assigned layout.
    layouts: Vec<Option<Layout>>,
    /// The layout of the load, by value id. Set for tiles that each use reads from the buffer of a copy, and for values computed
    /// from such tiles.
    as_loaded: Vec<Option<Layout>>,
    /// Log2 of the warps of the CTA.
    warp_bits: usize,
}

impl AssignedLayouts {
    /// Assigns the layouts of a function for `1 << warp_bits` warps.
    pub(crate) fn assign(
        function: &Function,
        accesses: &Accesses,
        mmas: &MmaSelections,
        copies: &Copies,
        warp_bits: usize,
    ) -> AssignedLayouts {
        let mut assigned_layouts = AssignedLayouts::unassigned(function, warp_bits);
        let used_by_mmas_only = operands::used_by_mmas_only(function);
        assigned_layouts.assign_region(&AssignmentInputs { function, accesses, mmas, copies, used_by_mmas_only }, function.region);
        assigned_layouts
    }

    /// The initial state, in which no tile has an assigned layout.
    pub(crate) fn unassigned(function: &Function, warp_bits: usize) -> AssignedLayouts {
        let no_layouts = vec![None; function.body.values.len()];
        AssignedLayouts { layouts: no_layouts.clone(), as_loaded: no_layouts, warp_bits }
    }

    /// The assigned layout of a value. `None` if it has no assigned layout.
    pub(crate) fn get(&self, value: Value) -> Option<&Layout> {
        self.layouts[value.0 as usize].as_ref()
    }

    /// The assigned layout of a value. For a value without an assigned layout, returns the layout of the load from which it is
    /// computed, or else the default layout.
    pub(crate) fn or_default(&self, function: &Function, value: Value) -> Layout {
        let (elem, shape) = function.body.ty(value).tile().expect("only tiles have layouts");
        let layout = self.get(value).or(self.as_loaded[value.0 as usize].as_ref());
        layout.cloned().unwrap_or_else(|| default_layout(shape, elem.bytes(), self.warp_bits))
    }

    /// Sets the assigned layout of a value that has none. Returns whether the value had no layout and has one now.
    fn set_if_unset(&mut self, value: Value, layout: Option<Layout>) -> bool {
        let slot = &mut self.layouts[value.0 as usize];
        let is_new = slot.is_none() && layout.is_some();
        if is_new {
            *slot = layout;
        }
        is_new
    }

    /// Assigns layouts to the results in a region.
    fn assign_region(&mut self, inputs: &AssignmentInputs<'_>, region: Region) {
        let function = inputs.function;
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            self.assign_op(inputs, op);
        }
    }

    /// Assigns layouts to the results of an op and of the ops in its regions.
    fn assign_op(&mut self, inputs: &AssignmentInputs<'_>, op: OpId) {
        let function = inputs.function;
        let body = &function.body;
        let node = &body.ops[op];
        let is_tile = |value: Value| body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        let results: Vec<Value> = node.results.iter().copied().filter(|value| is_tile(*value)).collect();
        match node.kind.core().and_then(Core::as_structured) {
            Some(StructuredOp::If(branch)) => {
                branch.regions().into_iter().for_each(|region| self.assign_region(inputs, region));
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let assigned_layout = branch.regions().into_iter().find_map(|region| {
                        let values = terminator_operands(function, region, |op| matches!(op, Op::Core(Core::Yield { .. })));
                        values.into_iter().find_map(|values| self.get(values[i]).cloned())
                    });
                    self.set_if_unset(result, Some(assigned_layout.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            Some(StructuredOp::Loop(loop_op)) => {
                let args = loop_op.carried_args(body);
                self.assign_carried(inputs, loop_op.init, args, loop_op.body);
                if loop_op.bounds.is_some() {
                    for (&arg, &result) in args.iter().zip(&node.results) {
                        self.set_if_unset(result, self.get(arg).cloned());
                    }
                    return;
                }
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let breaks = terminator_operands(function, loop_op.body, |op| matches!(op, Op::Core(Core::Break { .. })));
                    let assigned_layout = breaks.into_iter().find_map(|values| self.get(values[i]).cloned());
                    self.set_if_unset(result, Some(assigned_layout.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            None => {
                let kind = &node.kind;
                for &result in &results {
                    let assigned_layout = self.result_layout(inputs, op, kind, result);
                    if assigned_layout.is_none() {
                        self.as_loaded[result.0 as usize] = self.layout_of_load(inputs, op);
                    }
                    self.set_if_unset(result, assigned_layout);
                }
            }
        }
    }

    /// Assigns layouts to loop-carried values and to the loop body. A loop-carried value has the layout of its init or, if the init
    /// has none, of its next value. If an MMA computes the next value, the accumulator's layout has priority over the layout of the
    /// init. Reason: converting the init once is cheaper than converting the accumulator in each iteration.
    fn assign_carried(&mut self, inputs: &AssignmentInputs<'_>, init: &[Value], args: &[Value], inner: Region) {
        let function = inputs.function;
        let is_tile = |value: Value| function.body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        let block = function.body.block_of(inner);
        let next = function.body.terminator(block).map(|op| function.body.ops[op].kind.operands()).unwrap_or_default();
        for (i, (&init, &arg)) in init.iter().zip(args).enumerate() {
            let layout_of_accumulator =
                || next.get(i).filter(|next| is_tile(**next)).and_then(|next| accumulator_layout(inputs, block, *next));
            let init_layout = self.get(init).cloned();
            self.set_if_unset(arg, init_layout.map(|init_layout| layout_of_accumulator().unwrap_or(init_layout)));
        }
        // Each iteration but the last assigns a layout to at least one more argument, so this fixpoint iteration terminates.
        loop {
            self.assign_region(inputs, inner);
            let next_values = terminator_operands(function, inner, |op| matches!(op, Op::Core(Core::Continue { .. })));
            let mut changed = false;
            for (i, &arg) in args.iter().enumerate().filter(|(_, arg)| is_tile(**arg)) {
                let next = next_values.iter().find_map(|values| self.get(values[i]).cloned());
                changed |= self.set_if_unset(arg, next);
            }
            if !changed {
                break;
            }
            self.clear_region(function, inner);
        }
        for &arg in args.iter().filter(|arg| is_tile(**arg)) {
            let assigned_layout = layout_of_addressed_access(inputs, inner, arg).unwrap_or_else(|| self.or_default(function, arg));
            if self.set_if_unset(arg, Some(assigned_layout)) {
                self.clear_region(function, inner);
                self.assign_region(inputs, inner);
            }
        }
    }

    /// Clears the assigned layouts of all values in a loop body except its own arguments. Reason: these layouts were assigned
    /// before an argument of the loop had a layout.
    fn clear_region(&mut self, function: &Function, region: Region) {
        let body = &function.body;
        for op in body.walk(region) {
            let node = &body.ops[op];
            let inner = node.kind.regions().into_iter().flat_map(|region| &body.blocks[body.block_of(region)].args);
            node.results.iter().chain(inner).for_each(|value| self.layouts[value.0 as usize] = None);
        }
    }

    /// The layout of the load that `op` is or from which `op` computes its result. `None` if no copied load is found. Called for
    /// results without an assigned layout.
    fn layout_of_load(&self, inputs: &AssignmentInputs<'_>, op: OpId) -> Option<Layout> {
        let AssignmentInputs { function, accesses, copies, .. } = inputs;
        let as_loaded = |value: Value| self.as_loaded[value.0 as usize].clone();
        match &function.body.ops[op].kind {
            Op::LoadView { .. } | Op::Load { .. } => {
                copies.get(op)?;
                accesses.get(op).map(|access| access.layout.clone())
            }
            Op::Core(core) if core.is_elementwise() => Operation::operands(core).into_iter().find_map(as_loaded),
            Op::Core(Core::Reshape { x }) => as_loaded(*x),
            Op::Core(Core::Permute { x, order }) => as_loaded(*x).map(|layout| permuted_layout(&layout, function, *x, order)),
            _ => None,
        }
    }

    /// The layout that an op gives its result. `None` if each use rematerializes the result or reads it from a buffer.
    fn result_layout(&self, inputs: &AssignmentInputs<'_>, op: OpId, kind: &Op, result: Value) -> Option<Layout> {
        let AssignmentInputs { function, accesses, mmas, copies, .. } = inputs;
        let body = &function.body;
        let shape = |value: Value| body.ty(value).tile().map(|(_, shape)| shape.clone()).unwrap_or_default();
        match kind {
            // A copy fills a buffer with the tile. Each use reads the tile from the buffer in the layout that the use needs.
            Op::LoadView { .. } | Op::Load { .. } if copies.get(op).is_some_and(|copy| copy.readers == Readers::Mmas) => None,
            Op::LoadView { .. } | Op::MulticastLoad { .. } => accesses.get(op).map(|access| access.layout.clone()),
            Op::Load { ptr, mask, .. } => {
                // A load of single elements has the assigned layout of its pointers or mask, so that these need no conversion.
                let access = accesses.get(op)?;
                let operand_layout = [Some(*ptr), *mask].into_iter().flatten().find_map(|value| self.get(value).cloned());
                operand_layout.filter(|_| access.vector_bits == 0).or_else(|| Some(access.layout.clone()))
            }
            Op::AtomicRmw { .. } | Op::AtomicCas { .. } => {
                let operands = Operation::operands(kind);
                let operand_layout = || operands.iter().find_map(|operand| self.get(*operand).cloned());
                let layout = accesses.get(op).map(|access| access.layout.clone()).or_else(operand_layout);
                Some(layout.unwrap_or_else(|| self.or_default(function, result)))
            }
            Op::Core(
                core @ (Core::Unary { .. }
                | Core::Binary { .. }
                | Core::Fma { .. }
                | Core::Compare { .. }
                | Core::Convert { .. }
                | Core::Select { .. }
                | Core::IntToPtr { .. }
                | Core::PtrToInt { .. }
                | Core::PtrCast { .. }
                | Core::Offset { .. }
                | Core::Assume { .. }),
            ) => {
                let operands = Operation::operands(core);
                operands.iter().find_map(|operand| self.get(*operand).cloned())
            }
            Op::Core(Core::Reshape { x }) => self.get(*x).cloned(),
            Op::Core(Core::Permute { x, order }) => self.get(*x).map(|layout| permuted_layout(layout, function, *x, order)),
            Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. }) => None,
            Op::Core(Core::Cat { lhs, rhs, dim }) => {
                let half = [*lhs, *rhs].into_iter().find_map(|operand| self.get(operand).cloned());
                let half = half.unwrap_or_else(|| self.or_default(function, *lhs));
                Some(cat_result(&half, &shape(*lhs), *dim as usize))
            }
            Op::Core(Core::Extract { .. }) if let Some(chain) = mmas.chain_of_slice(op) => {
                tcgen05_selection::slice_layout(function, chain, op, self.warp_bits)
            }
            Op::Core(Core::Extract { x, indices })
                if slices::has_constant_indices(function, indices, &shape(*x), &shape(result)) =>
            {
                extract_layout(self, function, *x, result, inputs.used_by_mmas_only[result.0 as usize])
            }
            Op::Core(Core::Insert { x, into, indices })
                if slices::has_constant_indices(function, indices, &shape(result), &shape(*x)) =>
            {
                Some(insert_layout(self, function, *x, *into))
            }
            Op::Core(Core::Reinterpret { x }) => {
                let (from, to) = (body.ty(*x).tile()?.0, body.ty(result).tile()?.0);
                let operand = self.or_default(function, *x);
                Some(reinterpret_result(&operand, from, to).unwrap_or_else(|| self.or_default(function, result)))
            }
            Op::Mma { .. } | Op::MmaScaled { .. } => mmas.get(op).map(|mma| mma.accumulator_layout().clone()),
            Op::Scan { operands, dim, .. } => Some(scan_layout(&shape(operands[0]), *dim as usize, self.warp_bits)),
            Op::Reduce { operands, dim, .. } => {
                let from = shape(operands[0]);
                let layout = operands.iter().find_map(|operand| self.get(*operand).cloned());
                let layout = layout.unwrap_or_else(|| self.or_default(function, operands[0]));
                Some(without_dim(&layout, &from, *dim as usize))
            }
            // A slice at a computed index passes through shared memory, where all layouts cost the same.
            Op::Core(Core::Extract { .. } | Core::Insert { .. }) => Some(self.or_default(function, result)),
            Op::StoreView { .. }
            | Op::ReduceView { .. }
            | Op::MulticastStore { .. }
            | Op::Store { .. }
            | Op::Core(
                Core::BlockId { .. }
                | Core::BlockCount { .. }
                | Core::ClusterRank {}
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
                | Core::Print { .. }
                | Core::CheckIndex { .. }
                | Core::ClcBlockCount {}
                | Core::ClcBlockId { .. }
                | Core::Yield { .. }
                | Core::Continue { .. }
                | Core::Break { .. }
                | Core::Return {},
            ) => unreachable!("'{}' has no result tile with dimensions", kind.mnemonic()),
            Op::Core(Core::If { .. } | Core::For { .. } | Core::Loop { .. }) => {
                unreachable!("results of '{}' get the layouts of its regions' values", kind.mnemonic())
            }
        }
    }
}

/// The layout of the first access in the loop body `inner` whose pointers are elementwise functions of the loop-carried tile
/// `carried`. If the tile had another layout, each iteration would convert the pointers. `None` without such an access.
fn layout_of_addressed_access(inputs: &AssignmentInputs<'_>, inner: Region, carried: Value) -> Option<Layout> {
    let AssignmentInputs { function, accesses, .. } = inputs;
    let body = &function.body;
    let is_elementwise = |op: &OpId| matches!(&body.ops[*op].kind, Op::Core(core) if core.is_elementwise());
    let (mut reached, mut layout) = (BTreeSet::from([carried]), None);
    for op in body.walk(inner) {
        let node = &body.ops[op];
        match &node.kind {
            Op::Load { ptr, .. } | Op::Store { ptr, .. } if reached.contains(ptr) => {
                layout = layout.or_else(|| accesses.get(op).map(|access| access.layout.clone()));
            }
            _ if is_elementwise(&op) && node.kind.operands().iter().any(|operand| reached.contains(operand)) => {
                reached.extend(&node.results);
            }
            _ => {}
        }
    }
    layout
}

/// The layout of the result of a permute by `order` whose operand `x` has `layout`.
fn permuted_layout(layout: &Layout, function: &Function, x: Value, order: &[u32]) -> Layout {
    // `unpermute` maps the layout of a result to that of the operand. With the inverse order, it maps in the opposite direction.
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &dim)| inverse[dim as usize] = k as u32);
    layout.unpermute(function.body.ty(x).tile().expect("a permutation is of tiles").1, &inverse)
}

/// The accumulator layout of the MMA in `block` from whose result a value is computed. `None` if there is no such MMA or FMA
/// executes it.
fn accumulator_layout(inputs: &AssignmentInputs<'_>, block: Block, value: Value) -> Option<Layout> {
    let op = operands::producing_mma(inputs.function, value)?;
    let is_here = inputs.function.body.blocks[block].ops.contains(&op);
    match inputs.mmas.get(op).filter(|_| is_here)? {
        MmaSelection::Sync { c, .. } | MmaSelection::Group { c, .. } | MmaSelection::Tensor { c, .. } => Some(c.clone()),
        MmaSelection::Fma { .. } => None,
    }
}

/// The layout of the result of a reduction along `dim` of a tile that has `layout`. Registers, lanes and warps along that dimension
/// hold copies of the result.
pub(crate) fn without_dim(layout: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::for_shape(shape);
    layout.map(|basis| {
        let low = basis & ((1 << strides.shift[dim]) - 1);
        let high = basis >> (strides.shift[dim] + strides.bits[dim]) << strides.shift[dim];
        low | high
    })
}

/// The layout of a concatenation along `dim` of two tiles with shape `shape` and layout `half`. A new register bit selects the
/// half.
pub(crate) fn cat_result(half: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::for_shape(shape);
    let half_bit = strides.shift[dim] + strides.bits[dim];
    let mut layout = half.map(|basis| basis & ((1 << half_bit) - 1) | basis >> half_bit << (half_bit + 1));
    layout.register.push(1 << half_bit);
    layout
}

/// The layout that each operand of a concatenation along `dim` must have so that the result has the layout `result`. `shape` is the
/// shape of the result.
pub(crate) fn cat_operand(result: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::for_shape(shape);
    let half_bit = strides.shift[dim] + strides.bits[dim] - 1;
    let mut half = result.clone();
    half.register.retain(|basis| *basis != 1 << half_bit);
    half.map(|basis| basis & ((1 << half_bit) - 1) | basis >> (half_bit + 1) << half_bit)
}

/// Log2 of the number of `narrow` elements that have as many bits as a `wide` element.
fn log2_width_ratio(wide: Elem, narrow: Elem) -> u32 {
    (wide.bits() / narrow.bits()).max(1).ilog2()
}

/// The layout after each element of a tile in `layout` is split into `1 << bits` narrow elements, which are in consecutive
/// registers.
fn layout_of_pieces(layout: &Layout, bits: u32) -> Layout {
    let mut piece_layout = layout.map(|basis| basis << bits);
    piece_layout.register.splice(0..0, (0..bits).map(|bit| 1 << bit));
    piece_layout
}

/// The layout of wide elements that each consist of `1 << bits` narrow elements in `layout`. `None` unless a thread holds all
/// narrow elements of a wide element in consecutive registers.
fn layout_of_wide(layout: &Layout, bits: u32) -> Option<Layout> {
    let in_order = (0..bits).all(|bit| layout.register.get(bit as usize) == Some(&(1 << bit)));
    let mut wide_layout = layout.clone();
    in_order.then(|| {
        wide_layout.register.drain(..bits as usize);
        wide_layout.map(|basis| basis >> bits)
    })
}

/// The layout of the result of a `reinterpret` from elements `from` to elements `to`, whose operand has the layout `operand`.
/// `None` if the parts of a result element are in different threads or not in consecutive registers.
fn reinterpret_result(operand: &Layout, from: Elem, to: Elem) -> Option<Layout> {
    match from.bits().cmp(&to.bits()) {
        std::cmp::Ordering::Greater => Some(layout_of_pieces(operand, log2_width_ratio(from, to))),
        _ => layout_of_wide(operand, log2_width_ratio(to, from)),
    }
}

/// The layout that the operand of a `reinterpret` from elements `from` to elements `to` must have so that the result has the layout
/// `result`. If the result has narrower elements, `result` must come from [`reinterpret_result`].
pub(crate) fn reinterpret_operand(result: &Layout, from: Elem, to: Elem) -> Layout {
    match from.bits().cmp(&to.bits()) {
        std::cmp::Ordering::Greater => layout_of_wide(result, log2_width_ratio(from, to)).expect("the result consists of pieces"),
        _ => layout_of_pieces(result, log2_width_ratio(to, from)),
    }
}

/// The layout for a scan along `dim`: the scanned dimension is within one warp. The low bits of its index are in registers, and the
/// other bits in lanes.
fn scan_layout(shape: &[u32], dim: usize, warp_bits: usize) -> Layout {
    let strides = Strides::for_shape(shape);
    let scanned_bits: Vec<u32> = strides.dim_bits(dim).collect();
    let other_bits = (0..shape.len()).rev().filter(|t| *t != dim).flat_map(|t| strides.dim_bits(t));
    let in_registers = scanned_bits.len().saturating_sub(tileas::layout::LANE_BITS);
    let order: Vec<u32> = scanned_bits.iter().copied().chain(other_bits).collect();
    if order.len() - scanned_bits.len() >= warp_bits || scanned_bits.len() <= tileas::layout::LANE_BITS {
        return Layout::blocked(&order, in_registers, warp_bits);
    }
    // The dimensions that are not scanned have fewer elements than there are warps. The surplus warps repeat the work.
    let mut layout = Layout::blocked(&order, in_registers, order.len() - scanned_bits.len());
    layout.warp.resize(warp_bits, 0);
    layout
}

/// The operand lists of the terminators in `region` for which `is_terminator` holds. Searches inner conditions, except for `yield`.
/// Does not search inner loops.
fn terminator_operands(function: &Function, region: Region, is_terminator: impl Fn(&Op) -> bool) -> Vec<Vec<Value>> {
    let mut operand_lists = Vec::new();
    let mut stack = vec![region];
    while let Some(region) = stack.pop() {
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            let kind = &function.body.ops[op].kind;
            if is_terminator(kind) {
                operand_lists.push(Operation::operands(kind).to_vec());
            }
            if let Some(branch) = kind.core().and_then(Core::as_if)
                && !is_terminator(&Op::Core(Core::Yield { values: Vec::new() }))
            {
                stack.extend(branch.regions());
            }
        }
    }
    operand_lists
}

/// The layout of the slice that an `extract` with constant indices takes from the tile `x`. `None` if `x` has no assigned layout.
/// Also `None` if the slice needs a conversion and all its uses are MMA operands (`only_mma_operands`). Each use then converts the
/// tile and extracts the slice.
fn extract_layout(
    assigned_layouts: &AssignedLayouts,
    function: &Function,
    x: Value,
    slice: Value,
    only_mma_operands: bool,
) -> Option<Layout> {
    let [(_, whole), (_, part)] = [x, slice].map(|value| function.body.ty(value).tile().expect("slices are of tiles"));
    let assigned_layout = assigned_layouts.get(x)?;
    slices::layout_of_slice(assigned_layout, whole, part)
        .or_else(|| (!only_mma_operands).then(|| assigned_layouts.or_default(function, slice)))
}

/// The layout of the result of an `insert` of the slice `x` into the tile `into` at constant indices. The result has the layout of
/// `into`, even if lanes select the slice, so that the tile passes through shared memory once. If `into` has no assigned layout,
/// the layout of the slice determines the layout of the result.
fn insert_layout(assigned_layouts: &AssignedLayouts, function: &Function, x: Value, into: Value) -> Layout {
    let [(_, part), (_, whole)] = [x, into].map(|value| function.body.ty(value).tile().expect("slices are of tiles"));
    assigned_layouts
        .get(into)
        .cloned()
        .unwrap_or_else(|| slices::layout_of_whole(&assigned_layouts.or_default(function, x), whole, part))
}
