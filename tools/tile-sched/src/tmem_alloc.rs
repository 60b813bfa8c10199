//! Purpose: allocate TMEM columns to each buffer, and two stages to some accumulators and left operands.
//! Requires: a function whose tensor memory buffers are known.
//! Establishes: disjoint columns, except for a guest operand in the columns of a host (see below).
//! Preserves: the ops.
//! See also: Triton's `TensorMemoryAllocation`, PTX `tcgen05.alloc`.
//!
//! Only a buffer's own pipeline orders its MMA accesses, so buffers have columns of their own. As an exception, a guest operand
//! may occupy the columns of the accumulator from which it is computed, or of another operand of its iteration. It does so only
//! if a further CTA then fits.
//!
//! Guest-operand invariant: threads load the accumulator (`tcgen05.ld`) before they store the operand, and the MMAs of one warp
//! complete in order. Another operand is dead once threads have loaded the accumulator computed from it.

use crate::partition::ComputeGroups;
use crate::tmem_pipelines;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use sched::{Function, Op, TensorMemory};
use std::collections::{BTreeMap, BTreeSet};
use tileas::tensor_memory::allocated_columns;
use tileas::verify::Program;
use tileas::{Buffer, Space};

/// CTAs per SM beyond which more hide no further latency.
const ENOUGH: u32 = 4;

/// Returns the first column of each buffer, and the end of the last. The largest buffers come first, so each starts at a
/// multiple of its size. The `doubled` buffers have two stages.
pub(crate) fn place(function: &Function, doubled: &BTreeSet<Buffer>) -> (BTreeMap<Buffer, u32>, u32) {
    let apart = place_without_overlap(function, doubled, &BTreeMap::new());
    // A guest operand may need one more barrier, which pays only if another CTA then fits.
    let all = Target::all().map(|target| target.tmem_columns).max().unwrap_or(0);
    let blocks = function.attrs.program.occupancy.unwrap_or(1).max(ENOUGH);
    if allocated_columns(apart.1).saturating_mul(blocks) <= all {
        return apart;
    }
    let hosts = hosts(function, doubled);
    let together = place_without_overlap(function, doubled, &hosts);
    if allocated_columns(together.1) < allocated_columns(apart.1) { together } else { apart }
}

fn place_without_overlap(
    function: &Function,
    doubled: &BTreeSet<Buffer>,
    hosts: &BTreeMap<Buffer, Buffer>,
) -> (BTreeMap<Buffer, u32>, u32) {
    let in_tensor_memory = function.attrs.program.buffers.iter().filter(|(_, info)| info.space == Space::Tensor);
    let own = in_tensor_memory.filter(|(buffer, _)| !hosts.contains_key(buffer));
    let mut largest_first: Vec<(u32, Buffer)> = own.map(|(buffer, info)| (info.columns(), buffer)).collect();
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

/// Adds to `doubled` as many of the `may` buffers as fit in `columns`, largest first.
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

/// Returns whether an accumulator and an operand may occupy the same columns.
pub(crate) fn may_meet(function: &Function, accumulators: Buffer, operand: Buffer) -> bool {
    let (attrs, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
    let start = |buffer: Buffer| attrs[buffer].offset;
    let end = |buffer: Buffer| start(buffer) + buffers[buffer].columns() * attrs[buffer].depth;
    start(accumulators) < end(operand) && start(operand) < end(accumulators)
}

/// Maps guest operands to the accumulators whose columns they occupy. Each host has one guest.
fn hosts(function: &Function, doubled: &BTreeSet<Buffer>) -> BTreeMap<Buffer, Buffer> {
    let uses = Uses::of(function);
    let columns = |buffer: &Buffer| function.attrs.program.buffers[*buffer].columns();
    let mut free: Vec<Buffer> = uses.loaded.keys().copied().filter(|buffer| !doubled.contains(buffer)).collect();
    let mut hosts = BTreeMap::new();
    for guest in uses.stored.keys().filter(|guest| !doubled.contains(guest)) {
        let fits = |host: &Buffer| columns(host) >= columns(guest) && uses.may_host(function, *host, *guest);
        if let Some(at) = free.iter().position(fits) {
            hosts.insert(*guest, free.remove(at));
        }
    }
    let alone: BTreeSet<Buffer> = uses.stored.keys().filter(|buffer| !doubled.contains(buffer)).copied().collect();
    let alone = alone.into_iter().filter(|buffer| !hosts.contains_key(buffer)).collect();
    hosts.extend(alternating(function, alone));
    hosts
}

/// The live range of an operand in an iteration: from its first store until threads have loaded the accumulators of all MMAs
/// that read it, which different roles may issue.
struct Turn {
    block: Block,
    from: usize,
    to: usize,
}

impl Turn {
    /// Returns `None` if several blocks of ops access the operand.
    fn of(function: &Function, operand: Buffer) -> Option<Turn> {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let stores = |op: &Op| matches!(op, Op::Core(tileas::Op::TmemStore { buffer, .. }) if *buffer == operand);
        let reads =
            |op: &Op| tmem_pipelines::is_mma(op) && tmem_pipelines::operands(op).into_iter().flatten().any(|read| read == operand);
        let of_it = body.walk(function.region).into_iter().filter(|op| stores(&body.ops[*op].kind) || reads(&body.ops[*op].kind));
        let blocks: BTreeSet<Block> = of_it.map(|op| blocks[op.0 as usize]).collect::<Option<_>>()?;
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
        (from < readers[0]).then_some(Turn { block, from, to })
    }
}

/// Maps operands to other operands whose columns they reuse. Requires a single compute role, because the live ranges must be
/// those of all threads.
fn alternating(function: &Function, operands: BTreeSet<Buffer>) -> Vec<(Buffer, Buffer)> {
    if ComputeGroups::find(function).is_ok() {
        return Vec::new();
    }
    let columns = |buffer: Buffer| function.attrs.program.buffers[buffer].columns();
    let mut turns: Vec<(Buffer, Turn)> =
        operands.into_iter().filter_map(|buffer| Some((buffer, Turn::of(function, buffer)?))).collect();
    turns.sort_by_key(|(buffer, _)| (std::cmp::Reverse(columns(*buffer)), *buffer));
    let mut found: Vec<(Buffer, Buffer)> = Vec::new();
    for (number, (guest, turn)) in turns.iter().enumerate() {
        let is_free = |host: Buffer| {
            let there = |buffer: Buffer| buffer == host || found.contains(&(buffer, host));
            let others = turns[..number].iter().filter(|(buffer, _)| there(*buffer));
            others.into_iter().all(|(_, other)| other.block == turn.block && (other.to < turn.from || turn.to < other.from))
        };
        let mut hosts = turns[..number].iter().map(|(host, _)| *host).filter(|host| found.iter().all(|(guest, _)| guest != host));
        if let Some(host) = hosts.find(|host| is_free(*host)) {
            found.push((*guest, host));
        }
    }
    found
}

/// Tensor memory accesses, each with its block of ops.
#[derive(Default)]
struct Uses {
    /// The loads of accumulators after the MMAs that compute them. These accumulators have no other accesses, and in each block
    /// an MMA comes first.
    loaded: BTreeMap<Buffer, Vec<(Block, OpId)>>,
    /// The stores of operands.
    stored: BTreeMap<Buffer, Vec<(Block, OpId)>>,
}

impl Uses {
    fn of(function: &Function) -> Uses {
        let body = &function.body;
        let blocks = body.op_blocks();
        let mut uses = Uses::default();
        let (mut made, mut others): (BTreeSet<(Block, Buffer)>, BTreeSet<Buffer>) = Default::default();
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            match kind {
                Op::Core(tileas::Op::TmemLoad { buffer, .. }) => {
                    uses.loaded.entry(*buffer).or_default().push((block, op));
                    others.extend((!made.contains(&(block, *buffer))).then_some(*buffer));
                }
                Op::Core(tileas::Op::TmemStore { buffer, .. }) => uses.stored.entry(*buffer).or_default().push((block, op)),
                Op::Core(tileas::Op::Mma { acc, .. }) if tmem_pipelines::is_mma(kind) => {
                    made.extend(acc.buffer().map(|buffer| (block, buffer)));
                }
                Op::Core(tileas::Op::TmemScale { buffer, .. }) => _ = others.insert(*buffer),
                _ => {}
            }
        }
        let loads =
            |block: Block, buffer: Buffer| uses.loaded.get(&buffer).is_some_and(|all| all.iter().any(|(at, _)| *at == block));
        others.extend(made.iter().filter(|(block, buffer)| !loads(*block, *buffer)).map(|(_, buffer)| *buffer));
        uses.loaded.retain(|buffer, _| !others.contains(buffer));
        uses
    }

    /// Returns whether every store of the guest is computed from all loads of the host in its block, as the guest-operand
    /// invariant requires.
    fn may_host(&self, function: &Function, host: Buffer, guest: Buffer) -> bool {
        self.stored[&guest].iter().all(|(block, store)| {
            let mut loads = self.loaded[&host].iter().filter(|(at, _)| at == block).peekable();
            let from = sources(function, *store);
            loads.peek().is_some() && loads.all(|(_, load)| from.contains(load))
        })
    }
}

/// The ops from whose results an op computes, transitively.
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
