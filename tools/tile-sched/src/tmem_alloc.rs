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

use crate::compute_warpgroups::ComputeGroups;
use crate::tmem_mma_buffers;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use sched::{Function, Op, TensorMemory};
use std::collections::{BTreeMap, BTreeSet};
use tileas::tensor_memory::allocated_columns;
use tileas::verify::TileAsOp;
use tileas::{Buffer, Space};

/// Number of CTAs per SM that suffices to hide latencies.
const ENOUGH_CTAS: u32 = 4;

/// Returns the first TMEM column of each buffer, and the first column after all buffers. The largest buffers come first, so that
/// each buffer starts at a multiple of its size. The buffers in `doubled` have two stages.
pub(crate) fn place_in_tmem(function: &Function, doubled: &BTreeSet<Buffer>) -> (BTreeMap<Buffer, u32>, u32) {
    let without_guests = place_without_overlap(function, doubled, &BTreeMap::new());
    // A guest operand may need one more barrier, so guests are worthwhile only if more CTAs then fit. If `ENOUGH_CTAS` CTAs already
    // fit, no guests are needed.
    let tmem_columns = Target::all().map(|target| target.tmem_columns).max().unwrap_or(0);
    let ctas = function.attrs.program.occupancy.unwrap_or(1).max(ENOUGH_CTAS);
    if allocated_columns(without_guests.1).saturating_mul(ctas) <= tmem_columns {
        return without_guests;
    }
    let hosts = find_hosts(function, doubled);
    let with_guests = place_without_overlap(function, doubled, &hosts);
    if allocated_columns(with_guests.1) < allocated_columns(without_guests.1) { with_guests } else { without_guests }
}

/// [`place_in_tmem`] for given hosts, a map from guest to host. A guest starts at the first column of its host. All other buffers
/// get disjoint columns.
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
pub(crate) fn tmem_allocation(function: &Function, doubled: &BTreeSet<Buffer>, address: u32) -> Option<TensorMemory> {
    let (_, end) = place_in_tmem(function, doubled);
    (end > 0).then(|| TensorMemory { columns: allocated_columns(end), address })
}

/// Returns how many CTAs of a function fit the tensor memory of an SM, at least 1.
pub(crate) fn ctas_by_tmem(function: &Function, target: Target) -> u32 {
    (target.tmem_columns / allocated_columns(place_in_tmem(function, &BTreeSet::new()).1)).max(1)
}

/// Adds candidates to `doubled`, largest first, as long as the TMEM allocation still fits in `columns`. Returns the extended set.
pub(crate) fn add_doubled_buffers(
    function: &Function,
    mut doubled: BTreeSet<Buffer>,
    candidates: BTreeSet<Buffer>,
    columns: u32,
) -> BTreeSet<Buffer> {
    let mut candidates: Vec<Buffer> = candidates.difference(&doubled).copied().collect();
    candidates.sort_by_key(|buffer| (std::cmp::Reverse(function.attrs.program.buffers[*buffer].columns()), *buffer));
    for buffer in candidates {
        doubled.insert(buffer);
        if allocated_columns(place_in_tmem(function, &doubled).1) > columns {
            doubled.remove(&buffer);
        }
    }
    doubled
}

/// Returns whether the columns of an accumulator and of an operand overlap.
pub(crate) fn columns_overlap(function: &Function, accumulators: Buffer, operand: Buffer) -> bool {
    let (placements, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
    let start = |buffer: Buffer| placements[buffer].offset;
    let end = |buffer: Buffer| start(buffer) + buffers[buffer].columns() * placements[buffer].depth;
    start(accumulators) < end(operand) && start(operand) < end(accumulators)
}

/// Maps guest operands to the accumulators, or other operands, whose columns they occupy.
fn find_hosts(function: &Function, doubled: &BTreeSet<Buffer>) -> BTreeMap<Buffer, Buffer> {
    let accesses = TmemAccesses::collect(function);
    let columns = |buffer: &Buffer| function.attrs.program.buffers[*buffer].columns();
    let mut accumulators_without_guest: Vec<Buffer> =
        accesses.loaded.keys().copied().filter(|buffer| !doubled.contains(buffer)).collect();
    let mut hosts = BTreeMap::new();
    for guest in accesses.stored.keys().filter(|guest| !doubled.contains(guest)) {
        let fits = |host: &Buffer| columns(host) >= columns(guest) && accesses.may_host(function, *host, *guest);
        if let Some(at) = accumulators_without_guest.iter().position(fits) {
            hosts.insert(*guest, accumulators_without_guest.remove(at));
        }
    }
    let without_host: BTreeSet<Buffer> = accesses.stored.keys().filter(|buffer| !doubled.contains(buffer)).copied().collect();
    let without_host = without_host.into_iter().filter(|buffer| !hosts.contains_key(buffer)).collect();
    hosts.extend(operand_hosts(function, without_host));
    hosts
}

/// The live range of an operand in an iteration, as op indices in the block. The range goes from the operand's first store to the
/// last `tcgen05.ld` of the accumulators of the MMAs that read the operand.
struct OperandLiveRange {
    block: Block,
    first_store: usize,
    last_load: usize,
}

impl OperandLiveRange {
    /// Returns the live range of an operand. Returns `None` if ops of several blocks access the operand, or if threads do not load
    /// the accumulator of an MMA that reads the operand.
    fn find(function: &Function, operand: Buffer) -> Option<OperandLiveRange> {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let stores = |op: &Op| matches!(op, Op::Core(tileas::Op::TmemStore { buffer, .. }) if *buffer == operand);
        let reads = |op: &Op| {
            tmem_mma_buffers::is_tmem_mma(op)
                && tmem_mma_buffers::mma_operands(op).into_iter().flatten().any(|read| read == operand)
        };
        let accesses =
            body.walk(function.region).into_iter().filter(|op| stores(&body.ops[*op].kind) || reads(&body.ops[*op].kind));
        let blocks: BTreeSet<Block> = accesses.map(|op| blocks[op.0 as usize]).collect::<Option<_>>()?;
        let block = *blocks.first().filter(|_| blocks.len() == 1)?;
        let kinds: Vec<&Op> = body.blocks[block].ops.iter().map(|op| &body.ops[*op].kind).collect();
        let first_store = kinds.iter().position(|op| stores(op))?;
        let load_position = |at: usize| {
            let accumulators = tileas::ping_pong::tmem_accumulator(kinds[at].tileas_op()?)?;
            let tmem_loads = |op: &&Op| matches!(op, Op::Core(tileas::Op::TmemLoad { buffer, .. }) if *buffer == accumulators);
            Some(at + kinds[at..].iter().position(tmem_loads)?)
        };
        let readers: Vec<usize> = (0..kinds.len()).filter(|at| reads(kinds[*at])).collect();
        let last_load = readers.iter().map(|at| load_position(*at)).collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        (first_store < readers[0]).then_some(OperandLiveRange { block, first_store, last_load })
    }
}

/// Returns pairs of guest and host operands with disjoint live ranges, so that the guest can reuse the host's columns. Empty with
/// two compute roles: their threads are at different positions of an iteration, so live ranges by position do not hold.
fn operand_hosts(function: &Function, operands: BTreeSet<Buffer>) -> Vec<(Buffer, Buffer)> {
    if ComputeGroups::find(function).is_ok() {
        return Vec::new();
    }
    let columns = |buffer: Buffer| function.attrs.program.buffers[buffer].columns();
    let mut live_ranges: Vec<(Buffer, OperandLiveRange)> =
        operands.into_iter().filter_map(|buffer| Some((buffer, OperandLiveRange::find(function, buffer)?))).collect();
    live_ranges.sort_by_key(|(buffer, _)| (std::cmp::Reverse(columns(*buffer)), *buffer));
    let mut host_of_guest: Vec<(Buffer, Buffer)> = Vec::new();
    for (index, (guest, live_range)) in live_ranges.iter().enumerate() {
        let is_free = |host: Buffer| {
            let occupies_columns_of = |buffer: Buffer| buffer == host || host_of_guest.contains(&(buffer, host));
            let others = live_ranges[..index].iter().filter(|(buffer, _)| occupies_columns_of(*buffer));
            others.into_iter().all(|(_, other)| {
                other.block == live_range.block
                    && (other.last_load < live_range.first_store || live_range.last_load < other.first_store)
            })
        };
        let mut hosts =
            live_ranges[..index].iter().map(|(host, _)| *host).filter(|host| host_of_guest.iter().all(|(guest, _)| guest != host));
        if let Some(host) = hosts.find(|host| is_free(*host)) {
            host_of_guest.push((*guest, host));
        }
    }
    host_of_guest
}

/// Tensor memory accesses, each with the block that contains it.
#[derive(Default)]
struct TmemAccesses {
    /// The loads of accumulators by threads. Only accumulators without other accesses are listed, and only if an MMA precedes the
    /// loads in each block.
    loaded: BTreeMap<Buffer, Vec<(Block, OpId)>>,
    /// The stores of operands.
    stored: BTreeMap<Buffer, Vec<(Block, OpId)>>,
}

impl TmemAccesses {
    /// Collects the accesses of a function.
    fn collect(function: &Function) -> TmemAccesses {
        let body = &function.body;
        let blocks = body.op_blocks();
        let mut accesses = TmemAccesses::default();
        let (mut mma_results, mut excluded): (BTreeSet<(Block, Buffer)>, BTreeSet<Buffer>) = Default::default();
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            match kind {
                Op::Core(tileas::Op::TmemLoad { buffer, .. }) => {
                    accesses.loaded.entry(*buffer).or_default().push((block, op));
                    excluded.extend((!mma_results.contains(&(block, *buffer))).then_some(*buffer));
                }
                Op::Core(tileas::Op::TmemStore { buffer, .. }) => accesses.stored.entry(*buffer).or_default().push((block, op)),
                Op::Core(tileas::Op::Mma { acc, .. }) if tmem_mma_buffers::is_tmem_mma(kind) => {
                    mma_results.extend(acc.buffer().map(|buffer| (block, buffer)));
                }
                Op::Core(tileas::Op::TmemScale { buffer, .. }) => _ = excluded.insert(*buffer),
                _ => {}
            }
        }
        let loads =
            |block: Block, buffer: Buffer| accesses.loaded.get(&buffer).is_some_and(|all| all.iter().any(|(at, _)| *at == block));
        excluded.extend(mma_results.iter().filter(|(block, buffer)| !loads(*block, *buffer)).map(|(_, buffer)| *buffer));
        accesses.loaded.retain(|buffer, _| !excluded.contains(buffer));
        accesses
    }

    /// Returns whether a guest may occupy the columns of a host accumulator. The guest-operand invariant requires that every store
    /// of the guest is computed from all loads of the host in the store's block.
    fn may_host(&self, function: &Function, host: Buffer, guest: Buffer) -> bool {
        self.stored[&guest].iter().all(|(block, store)| {
            let mut loads = self.loaded[&host].iter().filter(|(at, _)| at == block).peekable();
            let computed_from = source_ops(function, *store, InRegions::Ignored);
            loads.peek().is_some() && loads.all(|(_, load)| computed_from.contains(load))
        })
    }
}

/// Whether a search for sources continues in the regions of ops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InRegions {
    /// A guest operand computed in a condition keeps its own columns. Reason: columns that it shares with the accumulator exclude
    /// two MMA warps.
    Ignored,
    /// The results of an op with regions, such as a condition that masks a tile, depend on all ops in the regions.
    Followed,
}

/// All ops whose results the operands of an op depend on, transitively.
fn source_ops(function: &Function, op: OpId, in_regions: InRegions) -> BTreeSet<OpId> {
    let body = &function.body;
    let mut source_ops = BTreeSet::new();
    let mut work: Vec<Value> = body.ops[op].kind.operands().to_vec();
    while let Some(value) = work.pop() {
        let Some(op) = body.defining_op(value) else { continue };
        let mut ops = vec![op];
        if in_regions == InRegions::Followed {
            ops.extend(body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region)));
        }
        for op in ops {
            if source_ops.insert(op) {
                work.extend(body.ops[op].kind.operands());
            }
        }
    }
    source_ops
}

/// The TMEM accumulators from which an op computes, directly or through shared memory.
pub(crate) fn source_accumulators(function: &Function, op: OpId) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (mut accumulators, mut seen_buffers, mut work) = (BTreeSet::new(), BTreeSet::new(), vec![op]);
    while let Some(op) = work.pop() {
        for source in source_ops(function, op, InRegions::Followed) {
            match body.ops[source].kind {
                Op::Core(tileas::Op::TmemLoad { buffer, .. }) => _ = accumulators.insert(buffer),
                Op::Core(tileas::Op::SharedLoad { buffer, .. }) if seen_buffers.insert(buffer) => {
                    let stores = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::SharedStore { buffer: other, .. }) if other == buffer);
                    work.extend(body.walk(function.region).into_iter().filter(stores));
                }
                _ => {}
            }
        }
    }
    accumulators
}
