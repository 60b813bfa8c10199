//! Models the instruction order of an assembler: list scheduling by critical path.
//!
//! The order of PTX ignores latency; the assembler hoists loads and interleaves MMAs with other work. The model list-schedules each
//! scheduling region for one warp with the latencies of the machine. Converted branches (`if_conversion.rs`) do not end a region.
//! Barriers, waits, fences and asynchronous copies keep their order, and no memory access crosses them. A load may pass other
//! loads. A store passes no other access, whatever the state space.

use crate::code::Code;
use crate::cost::{UNITS, Unit};
use simulator::program::{Op, Program, Space};
use std::collections::BTreeMap;

/// The number of consecutive instructions among which the scheduler chooses. The window starts at the first unscheduled
/// instruction.
const WINDOW: usize = 128;

/// The ordering constraints of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKind {
    /// Only dependences through registers constrain the instruction.
    Plain,
    Load,
    Store,
    /// A barrier, wait, fence, asynchronous copy or asynchronous MMA: keeps its place among all accesses and other fences.
    Fence,
    /// A branch or exit: stays at the end of its scheduling region.
    End,
}

/// Returns the ordering constraints of an op, apart from its register dependences.
pub(crate) fn order_kind(op: &Op) -> OrderKind {
    match op {
        Op::Load { space: Space::Param, .. } => OrderKind::Plain,
        Op::Load { .. } | Op::LoadMatrix { .. } => OrderKind::Load,
        Op::Store { .. } | Op::StoreMatrix { .. } => OrderKind::Store,
        Op::Branch { .. } | Op::BranchIndirect { .. } | Op::Exit | Op::Trap => OrderKind::End,
        Op::Elementwise { .. }
        | Op::Move { .. }
        | Op::Select { .. }
        | Op::Pack { .. }
        | Op::Unpack { .. }
        | Op::Mma(_)
        | Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Reduce { .. }
        | Op::MoveMatrix { .. }
        | Op::MapToCta { .. }
        | Op::CtaRank { .. }
        | Op::ActiveMask { .. } => OrderKind::Plain,
        Op::Nop => OrderKind::Plain,
        _ => OrderKind::Fence,
    }
}

/// Returns the issue order: element `pc` is the index of the instruction that issues at position `pc`. Only instructions of the
/// same scheduling region change places.
pub(crate) fn issue_order(program: &Program, code: &Code) -> Vec<u32> {
    let mut order: Vec<u32> = (0..program.code.len() as u32).collect();
    for window in code.region_starts.windows(2) {
        let region = window[0] as usize..window[1] as usize;
        if region.len() > 2 {
            schedule_region(program, code, region.clone(), &mut order[region]);
        }
    }
    order
}

/// An instruction in the dependence graph of a scheduling region.
struct Node {
    /// The indices in the region of the dependent instructions, each with the latency of the dependence in cycles.
    successors: Vec<(usize, f64)>,
    /// Number of unscheduled predecessors.
    unscheduled_predecessors: usize,
    /// Latency in cycles of the longest path to the end of the region.
    height: f64,
    /// The cycle at which the operands of the instruction are ready.
    ready: f64,
}

/// Schedules the instructions of a region greedily by their critical paths. Writes the new order to `order`.
fn schedule_region(program: &Program, code: &Code, region: std::ops::Range<usize>, order: &mut [u32]) {
    let count = region.len();
    let mut nodes: Vec<Node> =
        (0..count).map(|_| Node { successors: Vec::new(), unscheduled_predecessors: 0, height: 0.0, ready: 0.0 }).collect();
    add_dependences(program, code, region.clone(), &mut nodes);
    for index in (0..count).rev() {
        let longest_path = nodes[index].successors.iter().map(|&(to, latency)| nodes[to].height + latency).fold(0.0, f64::max);
        nodes[index].height = longest_path.max(code.costs[region.start + index].issue_slots);
    }
    let mut ready_list: Vec<usize> = (0..count).filter(|&index| nodes[index].unscheduled_predecessors == 0).collect();
    let (mut now, mut first_unscheduled, mut scheduled) = (0.0f64, 0, vec![false; count]);
    let mut units = [0.0f64; UNITS.len()];
    for position in order.iter_mut() {
        while first_unscheduled < count && scheduled[first_unscheduled] {
            first_unscheduled += 1;
        }
        // Choose the ready instruction with the longest path to the end of the region. If no instruction is ready, choose the
        // instruction that becomes ready first.
        let best = (0..ready_list.len()).filter(|&at| ready_list[at] < first_unscheduled + WINDOW).max_by(|&a, &b| {
            let key = |at: usize| {
                let node = &nodes[ready_list[at]];
                let unit_cycles = &code.costs[region.start + ready_list[at]].unit_cycles;
                let start = unit_cycles.iter().map(|(unit, _)| units[*unit as usize]).fold(node.ready, f64::max);
                (-(start - now).max(0.0), node.height)
            };
            let (a_key, b_key) = (key(a), key(b));
            a_key.0.total_cmp(&b_key.0).then(a_key.1.total_cmp(&b_key.1)).then(ready_list[b].cmp(&ready_list[a]))
        });
        let Some(best) = best else { return };
        let index = ready_list.swap_remove(best);
        scheduled[index] = true;
        *position = (region.start + index) as u32;
        let issue_slots = code.costs[region.start + index].issue_slots;
        let cost = &code.costs[region.start + index];
        let start = cost.unit_cycles.iter().map(|(unit, _)| units[*unit as usize]).fold(now.max(nodes[index].ready), f64::max);
        for (unit, cycles) in &cost.unit_cycles {
            // The four SM sub-partitions share the shared-memory port, so each sub-partition gets one wavefront every four cycles.
            let cycles = if *unit == Unit::Memory { 4.0 * min_wavefronts(&program.code[region.start + index].op) } else { *cycles };
            units[*unit as usize] = start + cycles;
        }
        now = start + issue_slots;
        for (to, latency) in std::mem::take(&mut nodes[index].successors) {
            let next = &mut nodes[to];
            next.ready = next.ready.max(start + latency);
            next.unscheduled_predecessors -= 1;
            if next.unscheduled_predecessors == 0 {
                ready_list.push(to);
            }
        }
    }
}

/// Returns the number of shared-memory wavefronts of an access without bank conflicts.
fn min_wavefronts(op: &Op) -> f64 {
    match op {
        Op::LoadMatrix { dst, .. } => dst.len() as f64,
        Op::StoreMatrix { src, .. } => src.len() as f64,
        Op::Load { dst, element, .. } => (element.bytes * dst.len() as u32).div_ceil(4).into(),
        Op::Store { src, bytes, .. } => (bytes * src.len() as u32).div_ceil(4).into(),
        Op::CopyAsync { bytes, .. } => bytes.div_ceil(4).into(),
        _ => 1.0,
    }
}

/// Adds the edges between the instructions of a region to `nodes`: dependences through registers, memory and fences.
fn add_dependences(program: &Program, code: &Code, region: std::ops::Range<usize>, nodes: &mut [Node]) {
    let mut writer: BTreeMap<u32, usize> = BTreeMap::new();
    let mut readers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let (mut fence, mut last_store, mut loads): (Option<usize>, Option<usize>, Vec<usize>) = (None, None, Vec::new());
    let mut accesses_since_fence: Vec<usize> = Vec::new();
    let add_edge = |nodes: &mut [Node], from: usize, to: usize, latency: f64| {
        if from != to {
            nodes[from].successors.push((to, latency));
            nodes[to].unscheduled_predecessors += 1;
        }
    };
    for index in 0..nodes.len() {
        let pc = region.start + index;
        let (reads, writes) = &code.operands[pc];
        for slot in reads.iter() {
            if let Some(&from) = writer.get(slot) {
                add_edge(nodes, from, index, code.assumed_latency[region.start + from]);
            }
        }
        for slot in writes.iter() {
            if let Some(&from) = writer.get(slot) {
                add_edge(nodes, from, index, 1.0);
            }
            for from in readers.remove(slot).unwrap_or_default() {
                add_edge(nodes, from, index, 0.0);
            }
            writer.insert(*slot, index);
        }
        for slot in reads.iter() {
            readers.entry(*slot).or_default().push(index);
        }
        match order_kind(&program.code[pc].op) {
            OrderKind::Plain => {}
            OrderKind::End if code.converted_branches[pc] => {}
            OrderKind::End => (0..index).for_each(|from| add_edge(nodes, from, index, 0.0)),
            OrderKind::Load => {
                fence.into_iter().chain(last_store).for_each(|from| add_edge(nodes, from, index, 0.0));
                loads.push(index);
                accesses_since_fence.push(index);
            }
            OrderKind::Store => {
                fence.into_iter().chain(last_store).chain(loads.drain(..)).for_each(|from| add_edge(nodes, from, index, 0.0));
                last_store = Some(index);
                accesses_since_fence.push(index);
            }
            OrderKind::Fence => {
                fence.into_iter().chain(accesses_since_fence.drain(..)).for_each(|from| add_edge(nodes, from, index, 0.0));
                (fence, last_store) = (Some(index), None);
                loads.clear();
            }
        }
    }
}
