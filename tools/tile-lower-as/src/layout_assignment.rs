//! Purpose: assign a layout to every tile value.
//! Requires: layouts of accesses, MMAs and copies.
//! Establishes: a load has the layout of its widest access, and values computed from it keep this layout. Constants, iotas,
//! broadcasts and values computed only from them have no assigned layout; each use rematerializes them in the layout it needs.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `Coalesce` plus `RemoveLayoutConversions` (forward propagation from anchors, backward rematerialization).

use crate::access_layouts::{Accesses, default_layout};
use crate::async_copies::{Copies, Readers};
use crate::mma_selection::{MmaSelection, MmaSelections};
use crate::{operands, slices, tcgen05_selection};
use base::ir::{Block, Op as OpId, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use std::collections::BTreeSet;
use tileaa::{Function, Op};
use tileas::Layout;
use tileas::layout::Strides;

/// The inputs of the assignment.
struct Context<'a> {
    function: &'a Function,
    accesses: &'a Accesses,
    mmas: &'a MmaSelections,
    copies: &'a Copies,
    operands_only: Vec<bool>,
}

pub(crate) struct AssignedLayouts {
    layouts: Vec<Option<Layout>>,
    /// For tiles that are read from the buffers of copies, and values computed from them: the layout of the load.
    as_loaded: Vec<Option<Layout>>,
    warp_bits: usize,
}

impl AssignedLayouts {
    pub(crate) fn of(
        function: &Function,
        accesses: &Accesses,
        mmas: &MmaSelections,
        copies: &Copies,
        warp_bits: usize,
    ) -> AssignedLayouts {
        let mut assigned_layouts = AssignedLayouts::none(function, warp_bits);
        let operands_only = operands::operands_only(function);
        assigned_layouts.region(&Context { function, accesses, mmas, copies, operands_only }, function.region);
        assigned_layouts
    }

    /// No tile has an assigned layout yet.
    pub(crate) fn none(function: &Function, warp_bits: usize) -> AssignedLayouts {
        let none = vec![None; function.body.values.len()];
        AssignedLayouts { layouts: none.clone(), as_loaded: none, warp_bits }
    }

    pub(crate) fn get(&self, value: Value) -> Option<&Layout> {
        self.layouts[value.0 as usize].as_ref()
    }

    /// The assigned layout, or the layout in which a use without preference computes the value.
    pub(crate) fn or_default(&self, function: &Function, value: Value) -> Layout {
        let (elem, shape) = function.body.ty(value).tile().expect("only tiles have layouts");
        let known = self.get(value).or(self.as_loaded[value.0 as usize].as_ref());
        known.cloned().unwrap_or_else(|| default_layout(shape, elem.bytes(), self.warp_bits))
    }

    fn set(&mut self, value: Value, layout: Option<Layout>) -> bool {
        let slot = &mut self.layouts[value.0 as usize];
        let is_new = slot.is_none() && layout.is_some();
        if is_new {
            *slot = layout;
        }
        is_new
    }

    fn region(&mut self, context: &Context<'_>, region: Region) {
        let function = context.function;
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            self.op(context, op);
        }
    }

    fn op(&mut self, context: &Context<'_>, op: OpId) {
        let function = context.function;
        let body = &function.body;
        let node = &body.ops[op];
        let is_tile = |value: Value| body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        let results: Vec<Value> = node.results.iter().copied().filter(|value| is_tile(*value)).collect();
        match &node.kind {
            Op::Core(Core::If { then, otherwise, .. }) => {
                self.region(context, *then);
                self.region(context, *otherwise);
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let assigned_layout = [*then, *otherwise].into_iter().find_map(|region| {
                        let values = leaving_values(function, region, |op| matches!(op, Op::Core(Core::Yield { .. })));
                        values.into_iter().find_map(|values| self.get(values[i]).cloned())
                    });
                    self.set(result, Some(assigned_layout.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            Op::Core(Core::For { init, body: inner, .. }) => {
                let args = &body.blocks[body.block_of(*inner)].args[1..];
                self.carried(context, init, args, *inner);
                for (&arg, &result) in args.iter().zip(&node.results) {
                    self.set(result, self.get(arg).cloned());
                }
            }
            Op::Core(Core::Loop { init, body: inner }) => {
                let args = &body.blocks[body.block_of(*inner)].args;
                self.carried(context, init, args, *inner);
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let breaks = leaving_values(function, *inner, |op| matches!(op, Op::Core(Core::Break { .. })));
                    let assigned_layout = breaks.into_iter().find_map(|values| self.get(values[i]).cloned());
                    self.set(result, Some(assigned_layout.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            kind => {
                for &result in &results {
                    let assigned_layout = self.result_layout(context, op, kind, result);
                    if assigned_layout.is_none() {
                        self.as_loaded[result.0 as usize] = self.layout_of_load(context, op);
                    }
                    self.set(result, assigned_layout);
                }
            }
        }
    }

    /// A loop-carried value has the layout of its init; if the init has none, the layout of its next value. If the next value
    /// depends on an MMA, the accumulator's layout wins: converting the init once is cheaper than converting the accumulator in
    /// each iteration.
    fn carried(&mut self, context: &Context<'_>, init: &[Value], args: &[Value], inner: Region) {
        let function = context.function;
        let is_tile = |value: Value| function.body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        let block = function.body.block_of(inner);
        let next = function.body.terminator(block).map(|op| function.body.ops[op].kind.operands()).unwrap_or_default();
        for (i, (&init, &arg)) in init.iter().zip(args).enumerate() {
            let accumulators =
                || next.get(i).filter(|next| is_tile(**next)).and_then(|next| accumulator_layout(context, block, *next));
            let assigned_layout = self.get(init).cloned();
            self.set(arg, assigned_layout.map(|assigned_layout| accumulators().unwrap_or(assigned_layout)));
        }
        // Each iteration assigns at least one more argument, so this terminates.
        loop {
            self.region(context, inner);
            let nexts = leaving_values(function, inner, |op| matches!(op, Op::Core(Core::Continue { .. })));
            let mut changed = false;
            for (i, &arg) in args.iter().enumerate().filter(|(_, arg)| is_tile(**arg)) {
                let next = nexts.iter().find_map(|values| self.get(values[i]).cloned());
                changed |= self.set(arg, next);
            }
            if !changed {
                break;
            }
            self.clear(function, inner);
        }
        for &arg in args.iter().filter(|arg| is_tile(**arg)) {
            let assigned_layout = layout_of_addressed_access(context, inner, arg).unwrap_or_else(|| self.or_default(function, arg));
            if self.set(arg, Some(assigned_layout)) {
                self.clear(function, inner);
                self.region(context, inner);
            }
        }
    }

    /// Clears the layouts of a region, which were assigned before an argument of its loop had one.
    fn clear(&mut self, function: &Function, region: Region) {
        let body = &function.body;
        for op in body.walk(region) {
            let node = &body.ops[op];
            let inner = node.kind.regions().into_iter().flat_map(|region| &body.blocks[body.block_of(region)].args);
            node.results.iter().chain(inner).for_each(|value| self.layouts[value.0 as usize] = None);
        }
    }

    /// The layout of a load that feeds a tile without assigned layout.
    fn layout_of_load(&self, context: &Context<'_>, op: OpId) -> Option<Layout> {
        let Context { function, accesses, copies, .. } = context;
        let as_loaded = |value: Value| self.as_loaded[value.0 as usize].clone();
        match &function.body.ops[op].kind {
            Op::LoadView { .. } | Op::Load { .. } => {
                copies.get(op)?;
                accesses.get(op).map(|access| access.layout.clone())
            }
            Op::Core(core) if core.is_elementwise() => Operation::operands(core).into_iter().find_map(as_loaded),
            Op::Core(Core::Reshape { x }) => as_loaded(*x),
            Op::Core(Core::Permute { x, order }) => as_loaded(*x).map(|layout| permuted(&layout, function, *x, order)),
            _ => None,
        }
    }

    fn result_layout(&self, context: &Context<'_>, op: OpId, kind: &Op, result: Value) -> Option<Layout> {
        let Context { function, accesses, mmas, copies, .. } = context;
        let body = &function.body;
        let shape = |value: Value| body.ty(value).tile().map(|(_, shape)| shape.clone()).unwrap_or_default();
        match kind {
            // Its uses read it from a buffer, each in the layout it needs.
            Op::LoadView { .. } | Op::Load { .. } if copies.get(op).is_some_and(|copy| copy.readers == Readers::Mmas) => None,
            Op::LoadView { .. } | Op::MulticastLoad { .. } => accesses.get(op).map(|access| access.layout.clone()),
            Op::Load { ptr, mask, .. } => {
                // If the access has no vectors, its pointers keep their assigned layout.
                let access = accesses.get(op)?;
                let assigned_layouts = [Some(*ptr), *mask].into_iter().flatten().find_map(|value| self.get(value).cloned());
                assigned_layouts.filter(|_| access.vector_bits == 0).or_else(|| Some(access.layout.clone()))
            }
            Op::AtomicRmw { .. } | Op::AtomicCas { .. } => {
                let operands = Operation::operands(kind);
                let in_assigned_layout = || operands.iter().find_map(|operand| self.get(*operand).cloned());
                let desired = accesses.get(op).map(|access| access.layout.clone()).or_else(in_assigned_layout);
                Some(desired.unwrap_or_else(|| self.or_default(function, result)))
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
            Op::Core(Core::Permute { x, order }) => self.get(*x).map(|layout| permuted(layout, function, *x, order)),
            Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. }) => None,
            Op::Core(Core::Cat { lhs, rhs, dim }) => {
                let half = [*lhs, *rhs].into_iter().find_map(|operand| self.get(operand).cloned());
                let half = half.unwrap_or_else(|| self.or_default(function, *lhs));
                Some(cat_result(&half, &shape(*lhs), *dim as usize))
            }
            Op::Core(Core::Extract { .. }) if let Some(chain) = mmas.chain_of_slice(op) => {
                tcgen05_selection::slice_layout(function, chain, op, self.warp_bits)
            }
            Op::Core(Core::Extract { x, indices }) if slices::is_constant(function, indices, &shape(*x), &shape(result)) => {
                slices::extract_layout(self, function, *x, result, context.operands_only[result.0 as usize])
            }
            Op::Core(Core::Insert { x, into, indices }) if slices::is_constant(function, indices, &shape(result), &shape(*x)) => {
                Some(slices::insert_layout(self, function, *x, *into))
            }
            Op::Core(Core::Reinterpret { x }) => {
                let (from, to) = (body.ty(*x).tile()?.0, body.ty(result).tile()?.0);
                let operand = self.or_default(function, *x);
                Some(reinterpret_result(&operand, from, to).unwrap_or_else(|| self.or_default(function, result)))
            }
            Op::Mma { .. } | Op::MmaScaled { .. } => mmas.get(op).map(|mma| mma.accumulator().clone()),
            Op::Scan { operands, dim, .. } => Some(scan_layout(&shape(operands[0]), *dim as usize, self.warp_bits)),
            Op::Reduce { operands, dim, .. } => {
                let from = shape(operands[0]);
                let layout = operands.iter().find_map(|operand| self.get(*operand).cloned());
                let layout = layout.unwrap_or_else(|| self.or_default(function, operands[0]));
                Some(without_dim(&layout, &from, *dim as usize))
            }
            // A slice at a computed index goes through memory, from which all layouts cost the same.
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

/// The layout of an access whose addresses are elementwise functions of a loop-carried tile. Another layout would convert the
/// addresses in every iteration.
fn layout_of_addressed_access(context: &Context<'_>, inner: Region, carried: Value) -> Option<Layout> {
    let Context { function, accesses, .. } = context;
    let body = &function.body;
    let is_elementwise = |op: &OpId| matches!(&body.ops[*op].kind, Op::Core(core) if core.is_elementwise());
    let (mut reached, mut found) = (BTreeSet::from([carried]), None);
    for op in body.walk(inner) {
        let node = &body.ops[op];
        match &node.kind {
            Op::Load { ptr, .. } | Op::Store { ptr, .. } if reached.contains(ptr) => {
                found = found.or_else(|| accesses.get(op).map(|access| access.layout.clone()));
            }
            _ if is_elementwise(&op) && node.kind.operands().iter().any(|operand| reached.contains(operand)) => {
                reached.extend(&node.results);
            }
            _ => {}
        }
    }
    found
}

/// The layout of a permuted tile.
fn permuted(layout: &Layout, function: &Function, x: Value, order: &[u32]) -> Layout {
    // The inverse order takes the operand's layout to the result's.
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &dim)| inverse[dim as usize] = k as u32);
    layout.unpermute(function.body.ty(x).tile().expect("a permutation is of tiles").1, &inverse)
}

/// The accumulator layout of the loop body's MMA from whose result a value is computed.
fn accumulator_layout(context: &Context<'_>, block: Block, value: Value) -> Option<Layout> {
    let op = operands::producing_mma(context.function, value)?;
    let is_here = context.function.body.blocks[block].ops.contains(&op);
    match context.mmas.get(op).filter(|_| is_here)? {
        MmaSelection::Sync { c, .. } | MmaSelection::Group { c, .. } | MmaSelection::Tensor { c, .. } => Some(c.clone()),
        MmaSelection::Shared { .. } => None,
    }
}

/// The layout after a dimension is reduced. Lanes and warps along that dimension hold copies.
pub(crate) fn without_dim(layout: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::of(shape);
    layout.map(|basis| {
        let low = basis & ((1 << strides.shift[dim]) - 1);
        let high = basis >> (strides.shift[dim] + strides.bits[dim]) << strides.shift[dim];
        low | high
    })
}

/// The layout of a concatenation of two tiles with this layout: a new register bit selects the half.
pub(crate) fn cat_result(half: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::of(shape);
    let top = strides.shift[dim] + strides.bits[dim];
    let mut layout = half.map(|basis| basis & ((1 << top) - 1) | basis >> top << (top + 1));
    layout.register.push(1 << top);
    layout
}

/// The layout that each operand of a concatenation must have for this result.
pub(crate) fn cat_operand(result: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::of(shape);
    let top = strides.shift[dim] + strides.bits[dim] - 1;
    let mut half = result.clone();
    half.register.retain(|basis| *basis != 1 << top);
    half.map(|basis| basis & ((1 << top) - 1) | basis >> (top + 1) << top)
}

/// How many times wider one element is than another, as a power of two.
fn times_wider(wide: Elem, narrow: Elem) -> u32 {
    (wide.bits() / narrow.bits()).max(1).ilog2()
}

/// The layout of narrow pieces: each element becomes consecutive registers.
fn layout_of_pieces(layout: &Layout, bits: u32) -> Layout {
    let mut narrow = layout.map(|basis| basis << bits);
    narrow.register.splice(0..0, (0..bits).map(|bit| 1 << bit));
    narrow
}

/// The layout of wide elements that consist of these pieces, if each thread holds all pieces of an element in order.
fn layout_of_wide(layout: &Layout, bits: u32) -> Option<Layout> {
    let in_order = (0..bits).all(|bit| layout.register.get(bit as usize) == Some(&(1 << bit)));
    let mut wide = layout.clone();
    in_order.then(|| {
        wide.register.drain(..bits as usize);
        wide.map(|basis| basis >> bits)
    })
}

fn reinterpret_result(operand: &Layout, from: Elem, to: Elem) -> Option<Layout> {
    match from.bits().cmp(&to.bits()) {
        std::cmp::Ordering::Greater => Some(layout_of_pieces(operand, times_wider(from, to))),
        _ => layout_of_wide(operand, times_wider(to, from)),
    }
}

/// The layout that the operand of a reinterpretation must have for this result. Wide results have suitable layouts by construction
/// in [`reinterpret_result`].
pub(crate) fn reinterpret_operand(result: &Layout, from: Elem, to: Elem) -> Layout {
    match from.bits().cmp(&to.bits()) {
        std::cmp::Ordering::Greater => layout_of_wide(result, times_wider(from, to)).expect("the result consists of pieces"),
        _ => layout_of_pieces(result, times_wider(to, from)),
    }
}

/// The layout of a scan: the scanned dimension is within one warp, its low bits in registers and the others in lanes.
fn scan_layout(shape: &[u32], dim: usize, warp_bits: usize) -> Layout {
    let strides = Strides::of(shape);
    let own: Vec<u32> = strides.dim_bits(dim).collect();
    let others = (0..shape.len()).rev().filter(|t| *t != dim).flat_map(|t| strides.dim_bits(t));
    let in_registers = own.len().saturating_sub(tileas::layout::LANE_BITS);
    let order: Vec<u32> = own.iter().copied().chain(others).collect();
    if order.len() - own.len() >= warp_bits || own.len() <= tileas::layout::LANE_BITS {
        return Layout::blocked(&order, in_registers, warp_bits);
    }
    // Too few other elements for all warps; the surplus warps repeat the work.
    let mut layout = Layout::blocked(&order, in_registers, order.len() - own.len());
    layout.warp.resize(warp_bits, 0);
    layout
}

/// The operands of every terminator under `region` that leaves it, without those of inner loops.
fn leaving_values(function: &Function, region: Region, leaves: impl Fn(&Op) -> bool) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    let mut stack = vec![region];
    while let Some(region) = stack.pop() {
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            let kind = &function.body.ops[op].kind;
            if leaves(kind) {
                found.push(Operation::operands(kind).to_vec());
            }
            if let Op::Core(Core::If { then, otherwise, .. }) = kind
                && !leaves(&Op::Core(Core::Yield { values: Vec::new() }))
            {
                stack.extend([*then, *otherwise]);
            }
        }
    }
    found
}
