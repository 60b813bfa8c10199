//! Builds the dependence graph of one loop. An edge has the cycles and the number of iterations by which an op must follow another
//! op.
//!
//! A warp issues in order, so ops that compute stay in program order, one iteration after the other. Only copies can run ahead of
//! their iteration. Their addresses may depend only on the loop counter and on lookups ([`is_lookup`]) that it indexes.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use crate::for_loops::for_body;
use crate::resource_model::{Cost, Machine, Resource};
use crate::scalar_index_loads::is_lookup;
use crate::tma_pipelines;
use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_clc_loop;
use core_dialect::structured_ops::Terminator;
use sched::{Function, Module, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::{AccessKind, GlobalAccess};
use tileas::{Buffer, Type};

/// An op of the loop's body, with its cost.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) op: OpId,
    pub(crate) cost: Cost,
    /// Whether the op is a copy that can be issued in an earlier iteration.
    pub(crate) can_run_ahead: bool,
}

/// A dependence of the node `to` on the node `from`.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Cycles by which `to` should follow `from`, so that it does not stall.
    pub(crate) latency: u32,
    /// Cycles by which `to` must follow `from`. The number is zero if `from` is a copy, because `to` waits for the copy's data.
    pub(crate) min_latency: u32,
    /// Number of iterations by which `to` is later than `from`.
    pub(crate) distance: u32,
}

/// The dependence graph of a loop's body, without the terminator. The index of a node is the index of its op in the body.
#[derive(Clone)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Sorted by source node.
    pub(crate) edges: Vec<Edge>,
}

/// The buffer accesses of an op and of all ops in its regions.
pub(crate) fn all_buffer_accesses(function: &Function, op: OpId) -> Vec<SchedulingAccess> {
    let body = &function.body;
    let kind = &body.ops[op].kind;
    let inner = kind.regions().into_iter().flat_map(|region| body.walk(region)).flat_map(|op| buffer_accesses(&body.ops[op].kind));
    buffer_accesses(kind).into_iter().chain(inner.collect::<Vec<_>>()).collect()
}

impl Graph {
    /// Builds the graph of a loop, or returns the reason why the loop cannot be pipelined.
    pub(crate) fn build(module: &Module, function: &Function, for_op: OpId, machine: &Machine) -> Result<Graph, String> {
        let body = &function.body;
        let region = for_body(function, for_op);
        let block = body.block_of(region);
        check_no_early_exit(function, block)?;
        if is_clc_loop(body, body.ops[for_op].kind.core(), Op::core) {
            return Err("cluster launch control decides the next tile block only at the end of this one".into());
        }
        let ops = &body.blocks[block].ops[..body.blocks[block].ops.len() - 1];
        let mut reasons = Vec::new();
        let mut address_slice_of_copy = |op: OpId| {
            body.ops[op].kind.effects().copied_to()?;
            address_slice(function, for_op, op).map_err(|why| reasons.push(why)).ok()
        };
        let slices: Vec<Option<Vec<OpId>>> = ops.iter().map(|op| address_slice_of_copy(*op)).collect();
        let only_addresses = ops_only_for_addresses(function, block, &slices);
        // The copies of an iteration are in flight together. Each copy completes only after the bytes of all copies have arrived.
        let buffers = ops.iter().filter_map(|op| body.ops[*op].kind.effects().copied_to());
        let bytes = buffers.map(|buffer| function.attrs.program.buffers[buffer].bytes()).fold(0, u32::saturating_add);
        let node = |(op, slice): (OpId, Option<Vec<OpId>>)| {
            let mut cost = if only_addresses.contains(&op) { Cost::default() } else { machine.cost(module, function, op) };
            if let Some(slice) = &slice {
                // A lookup that the address depends on adds its own memory latency.
                let has_lookup = slice.iter().any(|op| is_lookup(function, *op));
                cost.first_result = machine.copy_latency(bytes) + if has_lookup { machine.copy_latency(0) } else { 0 };
            }
            Node { op, cost, can_run_ahead: slice.is_some() }
        };
        let nodes: Vec<Node> = ops.iter().copied().zip(slices).map(node).collect();
        if !nodes.iter().any(|node| node.can_run_ahead) {
            let reason = reasons.into_iter().next().unwrap_or_else(|| "it contains no asynchronous copy".into());
            return Err(reason);
        }
        let mut graph = Graph { nodes, edges: Vec::new() };
        graph.add_value_edges(function, block);
        graph.add_copy_edges(function);
        graph.add_issue_order_edges();
        // If the edges are sorted, one backward walk propagates path lengths over all edges within an iteration.
        graph.edges.sort_by_key(|edge| (edge.from, edge.to));
        Ok(graph)
    }

    /// Adds an edge whose minimum latency equals its latency.
    fn add_edge(&mut self, from: usize, to: usize, latency: u32, distance: u32) {
        self.edges.push(Edge { from, to, latency, min_latency: latency, distance });
    }

    /// Adds the edges from ops to the users of their results: users in the same iteration, and users of loop-carried values in the
    /// next iteration.
    fn add_value_edges(&mut self, function: &Function, block: Block) {
        let body = &function.body;
        let producers: BTreeMap<Value, usize> = self
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(i, node)| body.ops[node.op].results.iter().map(move |value| (*value, i)))
            .collect();
        let terminator = body.terminator(block).expect("a loop's body ends in continue");
        let carried: Vec<Option<usize>> =
            body.ops[terminator].kind.operands().iter().map(|value| producers.get(value).copied()).collect();
        let args = &body.blocks[block].args;
        for to in (0..self.nodes.len()).filter(|to| !self.nodes[*to].can_run_ahead).collect::<Vec<_>>() {
            for value in operands_with_regions(function, self.nodes[to].op) {
                if let Some(&from) = producers.get(&value).filter(|from| !self.nodes[**from].can_run_ahead) {
                    let latency = self.latency(function, from, to);
                    self.add_edge(from, to, latency, 0);
                }
                let arg = args.iter().skip(1).position(|arg| *arg == value);
                if let Some(from) = arg.and_then(|arg| carried[arg]).filter(|from| !self.nodes[*from].can_run_ahead) {
                    let latency = self.latency(function, from, to);
                    self.add_edge(from, to, latency, 1);
                }
            }
        }
    }

    /// The cycles by which the node `to` should follow the node `from`, whose result it uses.
    fn latency(&self, function: &Function, from: usize, to: usize) -> u32 {
        let reads_fragments = |i: usize| match &function.body.ops[self.nodes[i].op].kind {
            Op::Core(program) => program.fragments().is_some(),
            _ => false,
        };
        let cost = &self.nodes[from].cost;
        match (reads_fragments(from), reads_fragments(to)) {
            // An MMA starts before its accumulator is complete: accumulators pass from MMA to MMA fragment by fragment.
            (true, true) => cost.uses.values().copied().max().unwrap_or(0),
            (true, false) => cost.full_result,
            _ => cost.first_result,
        }
    }

    /// Adds the edges from copies to their readers. Issue order keeps all other buffer accesses in order.
    fn add_copy_edges(&mut self, function: &Function) {
        let accessed: Vec<Vec<SchedulingAccess>> = self.nodes.iter().map(|node| all_buffer_accesses(function, node.op)).collect();
        for from in (0..self.nodes.len()).filter(|from| self.nodes[*from].can_run_ahead).collect::<Vec<_>>() {
            let buffers = accessed[from].iter().map(|access| access.buffer());
            for buffer in buffers {
                let latency = self.nodes[from].cost.first_result;
                let readers = (0..self.nodes.len()).filter(|to| accessed[*to].contains(&SchedulingAccess::Read(buffer)));
                self.edges.extend(readers.map(|to| Edge { from, to, latency, min_latency: 0, distance: 0 }));
            }
        }
    }

    /// Adds the edges between consecutive ops that cannot run ahead. These ops issue in order, and an arithmetic op occupies the
    /// warps for its issue cycles.
    fn add_issue_order_edges(&mut self) {
        let computing_nodes: Vec<usize> = (0..self.nodes.len()).filter(|i| !self.nodes[*i].can_run_ahead).collect();
        let issue_cycles = |node: &Node| {
            let cycles = [Resource::MultiplyAdd, Resource::Integer].map(|unit| node.cost.uses.get(&unit).copied().unwrap_or(0));
            cycles.into_iter().fold(0, u32::saturating_add)
        };
        for pair in computing_nodes.windows(2) {
            let latency = issue_cycles(&self.nodes[pair[0]]);
            self.add_edge(pair[0], pair[1], latency, 0);
        }
        if let (Some(&first), Some(&last)) = (computing_nodes.first(), computing_nodes.last()) {
            let latency = issue_cycles(&self.nodes[last]).max(1);
            self.add_edge(last, first, latency, 1);
        }
    }
}

/// The ops of a loop's body whose results are used only for the addresses of prefetched copies. These ops cost nothing in the loop
/// itself, because each prefetched copy recomputes them.
fn ops_only_for_addresses(function: &Function, block: Block, slices: &[Option<Vec<OpId>>]) -> BTreeSet<OpId> {
    let body = &function.body;
    let addresses: BTreeSet<OpId> = slices.iter().flatten().flatten().copied().collect();
    let is_prefetched = |at: usize| slices.get(at).is_some_and(Option::is_some);
    let (mut needed, mut only_addresses) = (BTreeSet::new(), BTreeSet::new());
    for (_, &op) in body.blocks[block].ops.iter().enumerate().rev().filter(|(at, _)| !is_prefetched(*at)) {
        if addresses.contains(&op) && body.ops[op].results.iter().all(|value| !needed.contains(value)) {
            only_addresses.insert(op);
        } else {
            needed.extend(operands_with_regions(function, op));
        }
    }
    only_addresses
}

/// The operands of an op and of all ops in its regions.
fn operands_with_regions(function: &Function, op: OpId) -> Vec<Value> {
    let body = &function.body;
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    std::iter::once(op).chain(inner).flat_map(|op| body.ops[op].kind.operands()).collect()
}

/// Checks that no op leaves the loop early, and that none ends an iteration early. The error is the reason why the loop cannot be
/// pipelined.
pub(crate) fn check_no_early_exit(function: &Function, block: Block) -> Result<(), String> {
    let body = &function.body;
    let end = body.terminator(block);
    let mut stack = vec![(block, false)];
    while let Some((block, in_loop)) = stack.pop() {
        for &op in &body.blocks[block].ops {
            let Some(core) = body.ops[op].kind.core() else { continue };
            match core.as_terminator() {
                Some(Terminator::Return) => return Err("it contains a return".into()),
                Some(Terminator::Continue(_)) if !in_loop && Some(op) != end => return Err("an iteration may end early".into()),
                Some(Terminator::Continue(_) | Terminator::Break(_) | Terminator::Yield(_)) => {}
                None if core.is_structured() => {
                    let blocks = body.ops[op].kind.regions().into_iter().map(|region| body.block_of(region));
                    stack.extend(blocks.map(|block| (block, in_loop || core.is_loop())));
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// Returns the ops of the loop's body that compute a copy's address, in program order, or the reason why the copy cannot run ahead.
pub(crate) fn address_slice(function: &Function, for_op: OpId, copy: OpId) -> Result<Vec<OpId>, String> {
    let body = &function.body;
    let block = body.block_of(for_body(function, for_op));
    let buffer = body.ops[copy].kind.effects().copied_to().expect("the op is a copy");
    check_sole_writer(function, block, copy, buffer)?;
    address_slice_of_read(function, block, copy)
}

/// Returns the ops of a loop's body that compute the address of a read of global memory, in order. The error is the reason the read
/// cannot run in an earlier iteration.
pub(crate) fn address_slice_of_read(function: &Function, block: Block, access: OpId) -> Result<Vec<OpId>, String> {
    let body = &function.body;
    let kind = &body.ops[access].kind;
    let Some(GlobalAccess { token, .. }) = kind.effects().global else { unreachable!("only global-memory reads run ahead") };
    let address = kind.operands().into_iter().filter(|value| Some(*value) != token).collect::<Vec<Value>>();
    let position: BTreeMap<OpId, usize> = body.blocks[block].ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
    let mut slice = BTreeSet::new();
    let mut work = address;
    while let Some(value) = work.pop() {
        let Some(op) = body.defining_op(value) else {
            if body.blocks[block].args.iter().skip(1).any(|arg| *arg == value) {
                return Err("a copy's address comes from the previous iteration".into());
            }
            continue;
        };
        if let Some(&at) = position.get(&op) {
            let kind = &body.ops[op].kind;
            let is_lookup_op = is_lookup(function, op);
            if !kind.is_pure() && !is_lookup_op {
                return Err(format!("'{}' computes a copy's address", kind.mnemonic()));
            }
            if slice.insert(at) {
                // A lookup does not have to wait for the accesses that precede it in the token order.
                let is_address_operand = |value: &Value| !is_lookup_op || *body.ty(*value) != Type::Token;
                work.extend(kind.operands().into_iter().filter(is_address_operand));
            }
        }
    }
    if let Some(token) = token {
        check_only_after_loads(function, block, token)?;
    }
    let tokens = body.ops[access].results.iter().filter(|result| *body.ty(**result) == Type::Token);
    tokens.into_iter().try_for_each(|token| check_only_before_loads(function, block, *token))?;
    Ok(slice.into_iter().map(|at| body.blocks[block].ops[at]).collect())
}

/// Checks that no other op of the loop writes the buffer that a copy fills, and that no op outside the loop uses the buffer. The
/// readers must follow the copy in the same iteration. If TMA fills the buffer, other TMA copies of the loop may fill the buffer
/// too, and so may other loops that share its pipeline.
fn check_sole_writer(function: &Function, block: Block, copy: OpId, buffer: Buffer) -> Result<(), String> {
    let body = &function.body;
    let by_tma = |op: OpId| tma_pipelines::buffer_filled_by_tma(&body.ops[op].kind) == Some(buffer);
    let fills = |op: OpId| op == copy || by_tma(op) && by_tma(copy);
    let mut accesses_inside = 0;
    let mut is_filled = false;
    for &op in &body.blocks[block].ops {
        for access in all_buffer_accesses(function, op).into_iter().filter(|access| access.buffer() == buffer) {
            accesses_inside += 1;
            is_filled |= fills(op);
            if !fills(op) && (!is_filled || access != SchedulingAccess::Read(buffer)) {
                return Err(format!("another op of the loop uses {buffer}"));
            }
        }
    }
    let in_loops_sharing_buffer =
        tma_pipelines::loops_that_fill(function, buffer).into_iter().filter(|op| body.block_of(for_body(function, *op)) != block);
    let in_loops_sharing_buffer: Vec<SchedulingAccess> =
        in_loops_sharing_buffer.flat_map(|op| all_buffer_accesses(function, op)).collect();
    let all_accesses = body.walk(function.region).into_iter().flat_map(|op| buffer_accesses(&body.ops[op].kind));
    let count_accesses = |accesses: Vec<SchedulingAccess>| accesses.iter().filter(|access| access.buffer() == buffer).count();
    if count_accesses(all_accesses.collect()) != accesses_inside + count_accesses(in_loops_sharing_buffer) {
        return Err(format!("{buffer} is used outside the loop"));
    }
    Ok(())
}

/// Checks that an access with this token is ordered only after loads of the loop, not after its stores or atomics.
fn check_only_after_loads(function: &Function, block: Block, token: Value) -> Result<(), String> {
    let body = &function.body;
    let terminator = body.terminator(block).expect("a loop's body ends in continue");
    let continued = body.ops[terminator].kind.operands();
    let ops_inside: BTreeSet<OpId> = body.blocks[block].ops.iter().copied().collect();
    let mut seen = BTreeSet::new();
    let mut work = vec![token];
    while let Some(token) = work.pop() {
        if !seen.insert(token) {
            continue;
        }
        match body.defining_op(token) {
            Some(op) if ops_inside.contains(&op) => match (&body.ops[op].kind, body.ops[op].kind.effects().global) {
                (_, Some(GlobalAccess { access_kind: AccessKind::Reads, token, .. })) => work.extend(token),
                (kind, _) => match kind.core() {
                    Some(Core::JoinTokens { tokens }) => work.extend(tokens.iter().copied()),
                    Some(Core::MakeToken {}) => {}
                    _ => return Err(format!("a copy is ordered after '{}'", kind.mnemonic())),
                },
            },
            Some(_) => {}
            None => {
                let arg = body.blocks[block].args.iter().skip(1).position(|arg| *arg == token);
                work.extend(arg.map(|arg| continued[arg]));
            }
        }
    }
    Ok(())
}

/// Checks that in the same iteration only loads are ordered after a copy by the copy's result token.
fn check_only_before_loads(function: &Function, block: Block, token: Value) -> Result<(), String> {
    let body = &function.body;
    let mut ordered_tokens = BTreeSet::from([token]);
    for &op in &body.blocks[block].ops {
        if !operands_with_regions(function, op).iter().any(|value| ordered_tokens.contains(value)) {
            continue;
        }
        match &body.ops[op].kind {
            kind if kind.effects().global.is_some_and(|access| access.access_kind == AccessKind::Reads) => {}
            kind if matches!(kind.core(), Some(Core::JoinTokens { .. } | Core::Continue { .. })) => {}
            kind => return Err(format!("'{}' is ordered after a copy", kind.mnemonic())),
        }
        ordered_tokens.extend(body.ops[op].results.iter().filter(|result| *body.ty(**result) == Type::Token));
    }
    Ok(())
}
