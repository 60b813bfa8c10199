//! Writes the bodies of warp roles.

use super::role_slice::RoleSlice;
use base::ir::{Op as OpId, Operation};
use base::{Arena, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::destinations_of_terminator;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::structured_ops::Terminator;
use sched::{Function, Op, WarpRole};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::layout::{Layout, LayoutId};

/// Replaces the function's ops by one body per warp role, after the ops that the roles share.
pub(super) fn write(function: &mut Function, slices: &[RoleSlice], layouts: &mut Arena<LayoutId, Layout>) {
    let entry = function.entry();
    let nesting = RegionNesting::analyse(&function.body, function.region);
    let mut ops = std::mem::take(&mut function.body.blocks[entry].ops);
    let end = ops.pop().expect("a function returns at its end");
    let shared_ops = find_shared_ops(function, &ops, slices);
    let (entry_ops, role_ops) = ops.into_iter().partition(|op| shared_ops.contains(op));
    let (mut entry_ops, role_ops) = sink_past_loops(function, entry_ops, role_ops);
    for (warp_role, slice) in function.attrs.warp_roles.ids().zip(slices).collect::<Vec<_>>() {
        let region = function.body.new_region();
        let block = function.body.new_block(region);
        let warps = function.attrs.warp_roles[warp_role].warps;
        let uniform_layout = (!slice.role().computes()).then(|| add_uniform_layout(layouts, warps));
        let mut writer = BodyWriter { function, warp_role, slice, nesting: &nesting, uniform_layout, map: BTreeMap::new() };
        let mut body = writer.copy_ops(&role_ops);
        body.push(writer.copy_whole_op(end, |_| {}));
        function.body.blocks[block].ops = body;
        let warp_role = Op::WarpRole { role: warp_role, body: region };
        entry_ops.push(function.body.new_op(warp_role, [], function.loc));
    }
    entry_ops.push(end);
    function.body.blocks[entry].ops = entry_ops;
    *function = base::text::compact(function);
}

/// The ops whose scalars and views several roles need. Tokens and tiles are not shared: each role computes its own.
fn find_shared_ops(function: &Function, ops: &[OpId], slices: &[RoleSlice]) -> BTreeSet<OpId> {
    let body = &function.body;
    let mut shared_ops = BTreeSet::new();
    let mut available: BTreeSet<Value> = function.params().iter().copied().collect();
    for &op in ops {
        let node = &body.ops[op];
        let is_needed_by_several = slices.iter().filter(|slice| slice.executes(op)).count() > 1;
        let has_no_effects = node.kind.is_pure() && node.kind.regions().is_empty();
        let can_be_shared = |value: &Value| !matches!(body.ty(*value), Type::Tile { .. } | Type::Token);
        if is_needed_by_several
            && has_no_effects
            && node.results.iter().all(can_be_shared)
            && node.kind.operands().iter().all(|value| available.contains(value))
        {
            available.extend(node.results.iter().copied());
            shared_ops.insert(op);
        }
    }
    shared_ops
}

/// Moves shared ops whose results are first needed after a loop to the place of their first use, in each role that needs them.
/// Reason: the result would occupy a register throughout the loop, and MMA loops are short of registers. Takes and returns the
/// shared ops and the ops of the roles.
fn sink_past_loops(function: &Function, shared_ops: Vec<OpId>, role_ops: Vec<OpId>) -> (Vec<OpId>, Vec<OpId>) {
    let body = &function.body;
    let is_loop = |op: &OpId| body.ops[*op].kind.core().is_some_and(Core::is_loop);
    let Some(first_loop) = role_ops.iter().position(is_loop) else { return (shared_ops, role_ops) };
    let mut first_need: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, op) in role_ops.iter().enumerate() {
        let regions = body.ops[*op].kind.regions();
        let inside = regions.into_iter().flat_map(|region| body.walk(region));
        for value in inside.chain([*op]).flat_map(|op| body.ops[op].kind.operands()) {
            first_need.entry(value).or_insert(at);
        }
    }
    let (mut early, mut late) = (Vec::new(), vec![Vec::new(); role_ops.len()]);
    // In reverse order the users of an op's results come before the op.
    for op in shared_ops.into_iter().rev() {
        let node = &body.ops[op];
        let at = node.results.iter().filter_map(|value| first_need.get(value)).min().copied().unwrap_or(0);
        for value in node.kind.operands() {
            let earlier = if at > first_loop { at } else { 0 };
            first_need.entry(value).and_modify(|at| *at = earlier.min(*at)).or_insert(earlier);
        }
        if at > first_loop { late[at].push(op) } else { early.push(op) }
    }
    early.reverse();
    let role_ops = role_ops.into_iter().zip(late).flat_map(|(op, late)| late.into_iter().rev().chain([op])).collect();
    (early, role_ops)
}

/// The layout of one element that all threads of some warps hold.
fn add_uniform_layout(layouts: &mut Arena<LayoutId, Layout>, warps: u32) -> LayoutId {
    let layout = Layout::uniform(warps.checked_ilog2().unwrap_or(0) as usize);
    let existing = layouts.iter().find(|(_, other)| **other == layout).map(|(id, _)| id);
    existing.unwrap_or_else(|| layouts.push(layout))
}

/// Writes the body of one warp role.
struct BodyWriter<'a> {
    function: &'a mut Function,
    warp_role: WarpRole,
    slice: &'a RoleSlice,
    nesting: &'a RegionNesting,
    /// The layout for the tiles of a role that holds only one-element tiles.
    uniform_layout: Option<LayoutId>,
    /// The role's copy of each value of the function. Shared values map to themselves.
    map: BTreeMap<Value, Value>,
}

impl BodyWriter<'_> {
    /// Copies the ops that the role executes, and the terminators.
    fn copy_ops(&mut self, ops: &[OpId]) -> Vec<OpId> {
        let mut out = Vec::new();
        for &op in ops {
            let kind = &self.function.body.ops[op].kind;
            if self.slice.executes(op) || kind.is_terminator() {
                out.push(self.copy_for_role(op));
            }
        }
        out
    }

    /// Copies an op with only the carried values and results that the role needs.
    fn copy_for_role(&mut self, op: OpId) -> OpId {
        let body = &self.function.body;
        let node = &body.ops[op];
        let core = node.kind.core();
        match core.and_then(Core::as_terminator) {
            None if core.is_some_and(Core::is_structured) => {
                let core = core.expect("the op is structured");
                let loop_op = core.as_loop();
                let carried = loop_op.map(|loop_op| self.slice.needed_indices(loop_op.carried_args(body))).unwrap_or_default();
                // The results of a `for` are its loop-carried values.
                let results = if core.is_for() { carried.clone() } else { self.slice.needed_indices(&node.results) };
                self.copy_control_flow_op(op, &carried, loop_op.map_or(0, |loop_op| loop_op.counter_args()), &results)
            }
            Some(Terminator::Yield(_) | Terminator::Continue(_) | Terminator::Break(_)) => {
                let kept = self.kept_operands(op);
                self.copy_whole_op(op, |kind| retain_values(kind, &kept))
            }
            Some(Terminator::Return) | None => {
                let warp_role = self.warp_role;
                let threads = self.function.attrs.warp_roles[warp_role].threads();
                self.copy_whole_op(op, |kind| use_barrier_of_role(kind, warp_role, threads))
            }
        }
    }

    /// The indices of the operands that the role's copy of a terminator forwards.
    fn kept_operands(&self, end: OpId) -> Vec<usize> {
        let body = &self.function.body;
        let control_flow_op =
            self.nesting.construct_of_terminator(&self.function.body, end).expect("a terminator ends a control-flow op");
        let end = body.ops[end].kind.core().expect("the terminators of control-flow ops are core ops");
        let destinations = destinations_of_terminator(body, control_flow_op, end);
        self.slice.needed_indices(destinations.first().expect("a terminator forwards to its control-flow op"))
    }

    /// Copies a control-flow op with only the carried values and results that the role needs, given as indices. The first
    /// `uncarried_args` arguments of its regions are not carried.
    fn copy_control_flow_op(&mut self, op: OpId, carried: &[usize], uncarried_args: usize, results: &[usize]) -> OpId {
        let mut node = self.function.body.ops[op].clone();
        retain_values(&mut node.kind, carried);
        node.kind.for_each_operand_mut(&mut |value| *value = self.mapped(*value));
        let args: Vec<usize> = (0..uncarried_args).chain(carried.iter().map(|i| uncarried_args + i)).collect();
        node.kind.for_each_region_mut(&mut |region| *region = self.copy_region(*region, Some(&args)));
        node.results = results.iter().map(|i| node.results[*i]).collect();
        self.insert_op(node)
    }

    /// Copies an op with all ops in its regions.
    fn copy_whole_op(&mut self, op: OpId, change: impl FnOnce(&mut Op)) -> OpId {
        let mut node = self.function.body.ops[op].clone();
        change(&mut node.kind);
        node.kind.for_each_operand_mut(&mut |value| *value = self.mapped(*value));
        node.kind.for_each_region_mut(&mut |region| *region = self.copy_region(*region, None));
        self.insert_op(node)
    }

    /// Creates the copy of an op. Maps the results of the op to the results of the copy.
    fn insert_op(&mut self, node: base::ir::OpNode<Op>) -> OpId {
        let body = &mut self.function.body;
        let mut types: Vec<Type> = node.results.iter().map(|value| body.ty(*value).clone()).collect();
        for ty in &mut types {
            if let (Type::Tile { layout, .. }, Some(uniform)) = (ty, self.uniform_layout) {
                *layout = uniform;
            }
        }
        let new = body.new_op(node.kind, types, node.loc);
        self.map.extend(node.results.iter().copied().zip(body.ops[new].results.iter().copied()));
        new
    }

    /// Copies a region. With `args`, it keeps only the ops that the role executes and the arguments with these indices. Otherwise
    /// it keeps all ops and arguments.
    fn copy_region(&mut self, old: Region, args: Option<&[usize]>) -> Region {
        let body = &mut self.function.body;
        let node = body.blocks[body.block_of(old)].clone();
        let region = body.new_region();
        let block = body.new_block(region);
        for (_, arg) in node.args.iter().enumerate().filter(|(i, _)| args.is_none_or(|args| args.contains(i))) {
            let mut ty = body.ty(*arg).clone();
            if let (Type::Tile { layout, .. }, Some(uniform)) = (&mut ty, self.uniform_layout) {
                *layout = uniform;
            }
            let new = body.add_argument(block, ty);
            self.map.insert(*arg, new);
        }
        let ops = match args {
            Some(_) => self.copy_ops(&node.ops),
            None => node.ops.iter().map(|op| self.copy_whole_op(*op, |_| {})).collect(),
        };
        self.function.body.blocks[block].ops = ops;
        region
    }

    /// The role's copy of a value, or the value itself if it is shared.
    fn mapped(&self, value: Value) -> Value {
        self.map.get(&value).copied().unwrap_or(value)
    }
}

/// Removes all values that a control-flow op or terminator forwards, except those with the indices in `kept`.
fn retain_values(kind: &mut Op, kept: &[usize]) {
    if let Op::Core(tileas::Op::Core(core)) = kind
        && let Some(values) = core.forwarded_mut()
    {
        *values = kept.iter().map(|i| values[*i]).collect();
    }
}

/// Replaces a CTA-wide barrier by the role's named barrier, for all threads of the role.
fn use_barrier_of_role(kind: &mut Op, warp_role: WarpRole, role_threads: u32) {
    if let Op::Barrier { id, threads } = kind {
        (*id, *threads) = (warp_role.barrier_id(), role_threads);
    }
}
