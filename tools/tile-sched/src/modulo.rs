//! Iterative modulo scheduling after Rau: finds an initiation interval for a loop and a start cycle for every op. When iterations
//! start at this interval, no two ops use a resource in the same cycle, and no op starts before its operands are ready.

use crate::graph::Graph;
use crate::resource_model::Resource;
use std::collections::BTreeMap;

/// Maximum number of intervals to try before the loop stays serial. Bounds the compile time.
const MAX_INTERVALS: u32 = 64;
/// Maximum number of placements per op, on average, before the scheduler tries the next interval. Bounds the compile time.
const MAX_PLACEMENTS_PER_OP: usize = 6;

/// A modulo schedule of a loop. All fields are in cycles.
#[derive(Clone)]
pub(crate) struct ModuloSchedule {
    /// The initiation interval.
    pub(crate) interval: u32,
    /// See [`resource_bound`].
    pub(crate) resource_bound: u32,
    /// See [`recurrence_bound`].
    pub(crate) recurrence_bound: u32,
    /// The start of each node in cycles. The first computing op starts at 0; prefetched copies start earlier.
    pub(crate) starts: Vec<i64>,
}

/// Returns the shortest interval, in cycles, in which one iteration's uses of the busiest resource fit.
pub(crate) fn resource_bound(graph: &Graph) -> u32 {
    let cycles_on = |resource: Resource| {
        let uses = graph.nodes.iter().map(|node| node.cost.uses.get(&resource).copied().unwrap_or(0));
        uses.fold(0u32, u32::saturating_add)
    };
    Resource::ALL.into_iter().map(cycles_on).max().unwrap_or(0).max(1)
}

/// Returns the shortest interval in cycles at which no dependence cycle takes longer than the iterations that it spans.
pub(crate) fn recurrence_bound(graph: &Graph) -> u32 {
    let mut low = 1;
    let mut high = graph.edges.iter().fold(1u32, |sum, edge| sum.saturating_add(edge.latency));
    while low < high {
        let middle = low + (high - low) / 2;
        if path_heights(graph, middle).is_some() { high = middle } else { low = middle + 1 }
    }
    low
}

/// Returns the height of each node: the length in cycles of the longest path from the node. Returns `None` if the interval is so
/// short that a dependence cycle makes paths arbitrarily long.
fn path_heights(graph: &Graph, interval: u32) -> Option<Vec<i64>> {
    let mut heights = vec![0i64; graph.nodes.len()];
    // Each pass extends the paths by one more loop-carried edge.
    let passes = 2 + graph.edges.iter().filter(|edge| edge.distance > 0).count();
    for _ in 0..passes {
        let mut changed = false;
        for edge in graph.edges.iter().rev() {
            let height_through_edge = heights[edge.to] + i64::from(edge.latency) - i64::from(interval) * i64::from(edge.distance);
            if height_through_edge > heights[edge.from] {
                heights[edge.from] = height_through_edge;
                changed = true;
            }
        }
        if !changed {
            return Some(heights);
        }
    }
    None
}

/// Finds a schedule: tries intervals from the lower bounds upwards. Returns `None` if no interval within [`MAX_INTERVALS`]
/// succeeds.
pub(crate) fn schedule(graph: &Graph) -> Option<ModuloSchedule> {
    let (resource_bound, recurrence_bound) = (resource_bound(graph), recurrence_bound(graph));
    let mut interval = resource_bound.max(recurrence_bound);
    for _ in 0..MAX_INTERVALS {
        if let Some(mut starts) = try_interval(graph, interval) {
            delay_ops(graph, interval, &mut starts);
            let first = graph.nodes.iter().zip(&starts).filter(|(node, _)| !node.can_run_ahead).map(|(_, start)| *start).min()?;
            starts.iter_mut().for_each(|start| *start -= first);
            advance_copies(graph, interval, &mut starts);
            return Some(ModuloSchedule { interval, resource_bound, recurrence_bound, starts });
        }
        interval = interval.saturating_add((interval / 16).max(1));
    }
    None
}

/// The modulo reservation table: the cycles, modulo the interval, in which nodes use each resource.
pub(crate) struct ReservationTable {
    interval: i64,
    /// For each resource, the reservations: the start cycle, the number of cycles and the node.
    reserved: BTreeMap<Resource, Vec<(i64, i64, usize)>>,
}

impl ReservationTable {
    pub(crate) fn new(interval: u32) -> ReservationTable {
        ReservationTable { interval: i64::from(interval), reserved: BTreeMap::new() }
    }

    /// Returns the nodes that conflict with an op that starts at `start`.
    fn conflicts(&self, uses: &BTreeMap<Resource, u32>, start: i64) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for (resource, cycles) in uses {
            for &(other, length, node) in self.reserved.get(resource).into_iter().flatten() {
                let (cycles_after, cycles_before) =
                    ((other - start).rem_euclid(self.interval), (start - other).rem_euclid(self.interval));
                let cycles = i64::from(*cycles);
                if cycles_after < cycles || cycles_before < length {
                    let cycles_back = if cycles_after < cycles { cycles - cycles_after } else { cycles_before + cycles };
                    let cycles_forward = if cycles_before < length { length - cycles_before } else { cycles_after + length };
                    conflicts.push(Conflict { node, later_start: start + cycles_forward, earlier_start: start - cycles_back });
                }
            }
        }
        conflicts
    }

    /// Reserves the resources that a node uses from `start` on.
    pub(crate) fn reserve(&mut self, uses: &BTreeMap<Resource, u32>, start: i64, node: usize) {
        for (resource, cycles) in uses {
            self.reserved.entry(*resource).or_default().push((start, i64::from(*cycles), node));
        }
    }
    /// Removes the reservations of a node.
    fn release(&mut self, node: usize) {
        self.reserved.values_mut().for_each(|reserved| reserved.retain(|(_, _, other)| *other != node));
    }

    /// Returns the first start from `from` up to `to` at which an op with these `uses` has no conflict.
    pub(crate) fn first_free(&self, uses: &BTreeMap<Resource, u32>, from: i64, to: i64) -> Option<i64> {
        let mut start = from;
        while start <= to {
            match self.conflicts(uses, start).into_iter().map(|conflict| conflict.later_start).max() {
                None => return Some(start),
                Some(next) => start = next,
            }
        }
        None
    }

    /// Returns the last start from `from` down to `to` at which an op with these `uses` has no conflict.
    fn last_free(&self, uses: &BTreeMap<Resource, u32>, from: i64, to: i64) -> Option<i64> {
        let mut start = from;
        while start >= to {
            match self.conflicts(uses, start).into_iter().map(|conflict| conflict.earlier_start).min() {
                None => return Some(start),
                Some(next) => start = next,
            }
        }
        None
    }
}

/// Delays every op as far as its successors allow, from the last op to the first. Reason: iterations become shorter, and copies
/// occupy their buffers no longer than needed.
fn delay_ops(graph: &Graph, interval: u32, starts: &mut [i64]) {
    let mut reservations = ReservationTable::new(interval);
    for (i, node) in graph.nodes.iter().enumerate() {
        reservations.reserve(&node.cost.uses, starts[i], i);
    }
    let end = starts.iter().copied().max().unwrap_or(0);
    let (copies, computing): (Vec<usize>, Vec<usize>) = (0..starts.len()).rev().partition(|i| graph.nodes[*i].can_run_ahead);
    for i in computing.into_iter().chain(copies) {
        let outgoing = graph.edges.iter().filter(|edge| edge.from == i && edge.to != i);
        let latest =
            |edge: &crate::graph::Edge| starts[edge.to] + i64::from(interval) * i64::from(edge.distance) - i64::from(edge.latency);
        let latest = outgoing.map(latest).min().unwrap_or(starts[i]).min(end);
        let uses = &graph.nodes[i].cost.uses;
        reservations.release(i);
        starts[i] = reservations.last_free(uses, latest, starts[i]).unwrap_or(starts[i]);
        reservations.reserve(uses, starts[i], i);
    }
}

/// Moves copies as early in their stage as possible, but not before the iteration's first read of copied data. Reason: the barrier
/// at that read frees the stages that the copies fill.
fn advance_copies(graph: &Graph, interval: u32, starts: &mut [i64]) {
    let mut reservations = ReservationTable::new(interval);
    for (i, node) in graph.nodes.iter().enumerate() {
        reservations.reserve(&node.cost.uses, starts[i], i);
    }
    let reads = graph.edges.iter().filter(|edge| graph.nodes[edge.from].can_run_ahead).map(|edge| starts[edge.to]);
    let first_read = reads.min().unwrap_or(0);
    for i in (0..starts.len()).filter(|i| graph.nodes[*i].can_run_ahead) {
        let stage = starts[i].div_euclid(i64::from(interval)) * i64::from(interval);
        let uses = &graph.nodes[i].cost.uses;
        reservations.release(i);
        starts[i] = reservations.first_free(uses, stage + first_read + 1, starts[i]).unwrap_or(starts[i]);
        reservations.reserve(uses, starts[i], i);
    }
}

/// A node whose reservation conflicts with an op that is to be placed.
struct Conflict {
    node: usize,
    /// The first later start of the op that avoids the conflict.
    later_start: i64,
    /// The last earlier start of the op that avoids the conflict.
    earlier_start: i64,
}

/// Places all ops at this interval, or returns `None` after too many evictions. An op without a conflict-free start evicts the
/// conflicting ops, which are placed again.
fn try_interval(graph: &Graph, interval: u32) -> Option<Vec<i64>> {
    let node_count = graph.nodes.len();
    if graph.nodes.iter().any(|node| node.cost.uses.values().any(|cycles| *cycles > interval)) {
        return None;
    }
    let heights = path_heights(graph, interval)?;
    let (mut predecessors, mut successors) = (vec![Vec::new(); node_count], vec![Vec::new(); node_count]);
    for edge in &graph.edges {
        let min_distance = i64::from(edge.latency) - i64::from(interval) * i64::from(edge.distance);
        predecessors[edge.to].push((edge.from, min_distance));
        successors[edge.from].push((edge.to, min_distance));
    }
    let mut reservations = ReservationTable::new(interval);
    let mut starts: Vec<Option<i64>> = vec![None; node_count];
    let mut previous_start: Vec<Option<i64>> = vec![None; node_count];
    let mut unplaced: Vec<usize> = (0..node_count).collect();
    for _ in 0..MAX_PLACEMENTS_PER_OP * node_count + node_count {
        // Place the op with the greatest height first; among equal heights, the first in program order.
        let Some(highest) = (0..unplaced.len()).max_by_key(|i| (heights[unplaced[*i]], std::cmp::Reverse(unplaced[*i]))) else {
            return starts.into_iter().collect();
        };
        let node = unplaced.swap_remove(highest);
        let uses = &graph.nodes[node].cost.uses;
        let earliest = predecessors[node]
            .iter()
            .filter_map(|(from, min_distance)| Some(starts[*from]? + min_distance))
            .max()
            .unwrap_or(0)
            .max(0);
        let start = reservations.first_free(uses, earliest, earliest + i64::from(interval) - 1);
        let start = start.unwrap_or_else(|| previous_start[node].map_or(earliest, |previous| earliest.max(previous + 1)));
        let mut evicted: Vec<usize> = reservations.conflicts(uses, start).into_iter().map(|conflict| conflict.node).collect();
        evicted.extend(
            successors[node]
                .iter()
                .filter(|(to, min_distance)| *to != node && starts[*to].is_some_and(|at| at < start + min_distance))
                .map(|(to, _)| *to),
        );
        evicted.sort_unstable();
        evicted.dedup();
        for other in evicted {
            reservations.release(other);
            starts[other] = None;
            unplaced.push(other);
        }
        reservations.reserve(uses, start, node);
        (starts[node], previous_start[node]) = (Some(start), Some(start));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Edge, Node};
    use crate::resource_model::Cost;

    fn node(uses: &[(Resource, u32)], can_run_ahead: bool) -> Node {
        let uses: BTreeMap<Resource, u32> = uses.iter().copied().collect();
        Node { op: base::ir::Op(0), cost: Cost { uses, first_result: 0, full_result: 0 }, can_run_ahead }
    }
    fn edge(from: usize, to: usize, latency: u32, distance: u32) -> Edge {
        Edge { from, to, latency, min_latency: latency, distance }
    }

    /// The loop has a copy, a read and an MMA. The MMA bounds the interval (1024 cycles), and the copy starts in an earlier
    /// iteration.
    #[test]
    fn mma_bounds_the_interval_and_the_copy_runs_ahead() {
        let nodes = vec![
            node(&[(Resource::GlobalMemory, 256)], true),
            node(&[(Resource::SharedMemory, 256)], false),
            node(&[(Resource::Tensor, 1024)], false),
        ];
        let edges = vec![edge(0, 1, 1500, 0), edge(1, 2, 30, 0), edge(2, 2, 1024, 1), edge(1, 2, 0, 0), edge(2, 1, 1, 1)];
        let plan = schedule(&Graph { nodes, edges }).unwrap();
        assert_eq!((plan.interval, plan.resource_bound, plan.recurrence_bound), (1024, 1024, 1024));
        assert_eq!(plan.starts, [-2047, 0, 30]);
    }

    #[test]
    fn ops_on_the_same_resource_do_not_overlap() {
        let nodes = (0..3).map(|_| node(&[(Resource::SharedMemory, 7)], false)).collect();
        let edges = vec![edge(0, 1, 0, 0), edge(1, 2, 0, 0), edge(2, 0, 1, 1)];
        let plan = schedule(&Graph { nodes, edges }).unwrap();
        assert_eq!(plan.interval, 21);
        assert_eq!(plan.starts, [0, 7, 14]);
    }
}
