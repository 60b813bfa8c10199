//! Purpose: assign TMEM columns to each buffer, and two stages to some accumulators and left operands.
//! Requires: a function whose tensor memory buffers are known.
//! Establishes: disjoint columns, except for a guest operand in the columns of a host (see below).
//! Preserves: the ops.
//! See also: Triton's `TensorMemoryAllocation`, PTX `tcgen05.alloc`.
//!
//! The pipeline of a buffer orders only the accesses to this buffer, so each buffer has its own columns. As an exception, a guest
//! operand may occupy the columns of a host: the accumulator from which the operand is computed, or another operand of its
//! iteration. The exception applies only if it reduces the TMEM allocation of the CTA.
//!
//! Guest-operand invariant: threads load the host accumulator (`tcgen05.ld`) before they store the guest operand, and the MMAs of
//! one warp complete in order. A host operand is dead once threads have loaded the accumulators computed from it.

use crate::partition::ComputeGroups;
use crate::tmem_pipelines;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use sched::{Function, Op, TensorMemory};
use std::collections::{BTreeMap, BTreeSet};
use tileas::tensor_memory::allocated_columns;
use tileas::verify::Program;
use tileas::{Buffer, Space};

/// Number of CTAs per SM that suffice to hide the latency.
const ENOUGH_CTAS: u32 = 4;

/// Returns the first column of each buffer, and the end of the last buffer. The largest buffers come first, so that each starts
/// at a multiple of its size. The `doubled` buffers have two stages.
pub(crate) fn place(function: &Function, doubled: &BTreeSet<Buffer>) -> (BTreeMap<Buffer, u32>, u32) {
    let without_guests = place_without_overlap(function, doubled, &BTreeMap::new());
    // A guest operand may need one more barrier, so it is worthwhile only if more CTAs then fit. With `ENOUGH_CTAS` CTAs no
    // guests are needed.
    let tmem_columns = Target::all().map(|target| target.tmem_columns).max().unwrap_or(0);
    let ctas = function.attrs.program.occupancy.unwrap_or(1).max(ENOUGH_CTAS);
    if allocated_columns(without_guests.1).saturating_mul(ctas) <= tmem_columns {
        return without_guests;
    }
    let hosts = hosts(function, doubled);
    let with_guests = place_without_overlap(function, doubled, &hosts);
    if allocated_columns(with_guests.1) < allocated_columns(without_guests.1) { with_guests } else { without_guests }
}

fn place_without_overlap(
    function: &Function,
    doubled: &BTreeSet<Buffer>,
    hosts: &BTreeMap<Buffer, Buffer>,
) -> (BTreeMap<Buffer, u32>, u32) {
    let in_tensor_memory = function.attrs.program.buffers.iter().filter(|(_, info)| info.space == Space::Tensor);
    let buffers_with_columns = in_tensor_memory.filter(|(buffer, _)| !hosts.contains_key(buffer));
    let mut largest_first: Vec<(u32, Buffer)> = buffers_with_columns.map(|(buffer, info)| (info.columns(), buffer)).collect();
    largest_first.sort_by_key(|(columns, buffer)| (std::cmp::Reverse(*columns), *buffer));
    let mut end = 0;
    let mut placed = BTreeMap::new();
    for (columns, buffer) in largest_first {
        placed.insert(buffer, end);
        end += if doubled.contains(&buffer) { 2 * columns } else { columns };
    }
    placed.extend(hosts.iter().map(|(guest, host)| (*guest, placed[host])).collect::<Vec<_>>());
    (placed, end)
}

/// The TMEM allocation of a function, if it needs one. `address` is the shared-memory word that receives the base address.
pub(crate) fn allocation(function: &Function, doubled: &BTreeSet<Buffer>, address: u32) -> Option<TensorMemory> {
    let (_, end) = place(function, doubled);
    (end > 0).then(|| TensorMemory { columns: allocated_columns(end), address })
}

/// Returns how many CTAs of a function fit the tensor memory of an SM.
pub(crate) fn resident(function: &Function, target: Target) -> u32 {
    (target.tmem_columns / allocated_columns(place(function, &BTreeSet::new()).1)).max(1)
}

/// Adds to `doubled` as many of the candidates `may` as fit in `columns`, largest first.
pub(crate) fn doubled(function: &Function, mut doubled: BTreeSet<Buffer>, may: BTreeSet<Buffer>, columns: u32) -> BTreeSet<Buffer> {
    let mut may: Vec<Buffer> = may.difference(&doubled).copied().collect();
    may.sort_by_key(|buffer| (std::cmp::Reverse(function.attrs.program.buffers[*buffer].columns()), *buffer));
    for buffer in may {
        doubled.insert(buffer);
        if allocated_columns(place(function, &doubled).1) > columns {
            doubled.remove(&buffer);
        }
    }
    doubled
}

/// Returns whether the columns of an accumulator and of an operand overlap.
pub(crate) fn may_meet(function: &Function, accumulators: Buffer, operand: Buffer) -> bool {
    let (attrs, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
    let start = |buffer: Buffer| attrs[buffer].offset;
    let end = |buffer: Buffer| start(buffer) + buffers[buffer].columns() * attrs[buffer].depth;
    start(accumulators) < end(operand) && start(operand) < end(accumulators)
}

/// Maps guest operands to the accumulators, or other operands, whose columns they occupy.
fn hosts(function: &Function, doubled: &BTreeSet<Buffer>) -> BTreeMap<Buffer, Buffer> {
    let uses = TmemAccesses::of(function);
    let columns = |buffer: &Buffer| function.attrs.program.buffers[*buffer].columns();
    let mut free_accumulators: Vec<Buffer> = uses.loaded.keys().copied().filter(|buffer| !doubled.contains(buffer)).collect();
    let mut hosts = BTreeMap::new();
    for guest in uses.stored.keys().filter(|guest| !doubled.contains(guest)) {
        let fits = |host: &Buffer| columns(host) >= columns(guest) && uses.may_host(function, *host, *guest);
        if let Some(at) = free_accumulators.iter().position(fits) {
            hosts.insert(*guest, free_accumulators.remove(at));
        }
    }
    let without_host: BTreeSet<Buffer> = uses.stored.keys().filter(|buffer| !doubled.contains(buffer)).copied().collect();
    let without_host = without_host.into_iter().filter(|buffer| !hosts.contains_key(buffer)).collect();
    hosts.extend(operand_hosts(function, without_host));
    hosts
}

/// The live range of an operand in an iteration: from its first store until threads have loaded the accumulators of all MMAs
/// that read it, which different roles may issue.
struct OperandLiveRange {
    block: Block,
    from: usize,
    to: usize,
}

impl OperandLiveRange {
    /// Returns `None` if ops of several blocks access the operand.
    fn of(function: &Function, operand: Buffer) -> Option<OperandLiveRange> {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let stores = |op: &Op| matches!(op, Op::Core(tileas::Op::TmemStore { buffer, .. }) if *buffer == operand);
        let reads =
            |op: &Op| tmem_pipelines::is_mma(op) && tmem_pipelines::operands(op).into_iter().flatten().any(|read| read == operand);
        let accesses =
            body.walk(function.region).into_iter().filter(|op| stores(&body.ops[*op].kind) || reads(&body.ops[*op].kind));
        let blocks: BTreeSet<Block> = accesses.map(|op| blocks[op.0 as usize]).collect::<Option<_>>()?;
        let block = *blocks.first().filter(|_| blocks.len() == 1)?;
        let kinds: Vec<&Op> = body.blocks[block].ops.iter().map(|op| &body.ops[*op].kind).collect();
        let from = kinds.iter().position(|op| stores(op))?;
        let tmem_loaded = |at: usize| {
            let accumulators = tileas::ping_pong::accumulators(kinds[at].program()?)?;
            let tmem_loads = |op: &&Op| matches!(op, Op::Core(tileas::Op::TmemLoad { buffer, .. }) if *buffer == accumulators);
            Some(at + kinds[at..].iter().position(tmem_loads)?)
        };
        let readers: Vec<usize> = (0..kinds.len()).filter(|at| reads(kinds[*at])).collect();
        let to = readers.iter().map(|at| tmem_loaded(*at)).collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        (from < readers[0]).then_some(OperandLiveRange { block, from, to })
    }
}

/// Maps operands to other operands whose columns they reuse, because their live ranges are disjoint. Requires a single compute
/// role: with two roles, the threads' positions in the iteration differ.
fn operand_hosts(function: &Function, operands: BTreeSet<Buffer>) -> Vec<(Buffer, Buffer)> {
    if ComputeGroups::find(function).is_ok() {
        return Vec::new();
    }
    let columns = |buffer: Buffer| function.attrs.program.buffers[buffer].columns();
    let mut live_ranges: Vec<(Buffer, OperandLiveRange)> =
        operands.into_iter().filter_map(|buffer| Some((buffer, OperandLiveRange::of(function, buffer)?))).collect();
    live_ranges.sort_by_key(|(buffer, _)| (std::cmp::Reverse(columns(*buffer)), *buffer));
    let mut found: Vec<(Buffer, Buffer)> = Vec::new();
    for (number, (guest, live_range)) in live_ranges.iter().enumerate() {
        let is_free = |host: Buffer| {
            let occupies_columns_of = |buffer: Buffer| buffer == host || found.contains(&(buffer, host));
            let others = live_ranges[..number].iter().filter(|(buffer, _)| occupies_columns_of(*buffer));
            others
                .into_iter()
                .all(|(_, other)| other.block == live_range.block && (other.to < live_range.from || live_range.to < other.from))
        };
        let mut hosts =
            live_ranges[..number].iter().map(|(host, _)| *host).filter(|host| found.iter().all(|(guest, _)| guest != host));
        if let Some(host) = hosts.find(|host| is_free(*host)) {
            found.push((*guest, host));
        }
    }
    found
}

/// Tensor memory accesses, each with the block that contains it.
#[derive(Default)]
struct TmemAccesses {
    /// The loads of accumulators by threads, after the MMAs that compute them. Only accumulators without other accesses are
    /// listed, and in each block an MMA precedes the loads.
    loaded: BTreeMap<Buffer, Vec<(Block, OpId)>>,
    /// The stores of operands.
    stored: BTreeMap<Buffer, Vec<(Block, OpId)>>,
}

impl TmemAccesses {
    fn of(function: &Function) -> TmemAccesses {
        let body = &function.body;
        let blocks = body.op_blocks();
        let mut uses = TmemAccesses::default();
        let (mut mma_results, mut excluded): (BTreeSet<(Block, Buffer)>, BTreeSet<Buffer>) = Default::default();
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            match kind {
                Op::Core(tileas::Op::TmemLoad { buffer, .. }) => {
                    uses.loaded.entry(*buffer).or_default().push((block, op));
                    excluded.extend((!mma_results.contains(&(block, *buffer))).then_some(*buffer));
                }
                Op::Core(tileas::Op::TmemStore { buffer, .. }) => uses.stored.entry(*buffer).or_default().push((block, op)),
                Op::Core(tileas::Op::Mma { acc, .. }) if tmem_pipelines::is_mma(kind) => {
                    mma_results.extend(acc.buffer().map(|buffer| (block, buffer)));
                }
                Op::Core(tileas::Op::TmemScale { buffer, .. }) => _ = excluded.insert(*buffer),
                _ => {}
            }
        }
        let loads =
            |block: Block, buffer: Buffer| uses.loaded.get(&buffer).is_some_and(|all| all.iter().any(|(at, _)| *at == block));
        excluded.extend(mma_results.iter().filter(|(block, buffer)| !loads(*block, *buffer)).map(|(_, buffer)| *buffer));
        uses.loaded.retain(|buffer, _| !excluded.contains(buffer));
        uses
    }

    /// Returns whether every store of the guest is computed from all loads of the host in its block. The guest-operand invariant
    /// requires it.
    fn may_host(&self, function: &Function, host: Buffer, guest: Buffer) -> bool {
        self.stored[&guest].iter().all(|(block, store)| {
            let mut loads = self.loaded[&host].iter().filter(|(at, _)| at == block).peekable();
            let computed_from = sources(function, *store);
            loads.peek().is_some() && loads.all(|(_, load)| computed_from.contains(load))
        })
    }
}

/// All ops whose results the operands of an op depend on, transitively.
pub(crate) fn sources(function: &Function, op: OpId) -> BTreeSet<OpId> {
    let body = &function.body;
    let mut found = BTreeSet::new();
    let mut work: Vec<Value> = body.ops[op].kind.operands().to_vec();
    while let Some(value) = work.pop() {
        if let Some(op) = body.defining_op(value).filter(|op| found.insert(*op)) {
            work.extend(body.ops[op].kind.operands());
        }
    }
    found
}
