//! Buffers in the shared memory and tensor memory of a CTA, and the ops that access them.

use super::access_runs::AccessRuns;
use super::distribution::Distribution;
use super::hazards::{Fault, HazardClock, MarkNumber, MarkTable};
use super::in_flight::CopyChunk;
use super::{DistributedProgram, Step};
use crate::exec::{Env, Results};
use crate::tile::Tile;
use crate::tile::shape::{from_bytes, to_bytes};
use base::diag::{Diagnostic, Result};
use base::{Op as OpId, Value as Id};
use core_dialect::tile::Elem;
use numerics::Scalar;
use numerics::arith::{Binary, Lanes, Rounding};
use tileas::layout::{LANE_BITS, solve};
use tileas::tensor_memory::{self, TmemSlice};
use tileas::{Buffer, BufferInfo, CopyAtom, Op, Space};

/// The placement of a buffer in the CTA's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferPlacement {
    pub(crate) base: usize,
    /// Bytes of one stage of the multi-stage buffer.
    pub(crate) bytes: usize,
    pub(crate) depth: usize,
    pub(crate) space: Space,
    /// Address of a copy of the peer CTA's half, for a buffer of a CTA pair. This CTA's MMA reads its operands there.
    pub(crate) peer_base: usize,
}

impl BufferPlacement {
    pub(crate) fn end(&self) -> usize {
        self.base.max(self.peer_base) + self.bytes * self.depth
    }
}

/// Returns the bytes of one element in a buffer.
pub(super) fn bytes(elem: Elem) -> usize {
    elem.bytes() as usize
}

/// Places buffers one after another, without overlap.
pub(crate) fn separate_placements<'a>(buffers: impl Iterator<Item = &'a BufferInfo>) -> Vec<BufferPlacement> {
    let mut base = 0;
    let place = |info: &BufferInfo| {
        let place = BufferPlacement { base, bytes: stage_bytes(info), depth: 1, space: info.space, peer_base: base };
        base = place.end().next_multiple_of(1024);
        place
    };
    buffers.map(place).collect()
}

/// Returns the bytes of one stage of a buffer. Tensor memory is modelled as bytes, column by column.
pub(crate) fn stage_bytes(info: &BufferInfo) -> usize {
    match info.space {
        Space::Shared => info.bytes() as usize,
        Space::Tensor => info.columns() as usize * COLUMN,
    }
}

/// Bytes per TMEM column.
pub(crate) const COLUMN: usize = (tensor_memory::LANES * tensor_memory::WORD) as usize;

/// Number of warps that together reach all TMEM lanes.
const WARPS_OF_LANES: usize = 4;
/// Limit on the elements of one buffer, as a power of two.
const MOST_ELEMENTS: u32 = 24;

/// Returns the offset of each element, in elements.
pub(super) fn offsets(info: &BufferInfo) -> Result<Vec<u32>> {
    let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
    if bits > MOST_ELEMENTS {
        return Err(Diagnostic::unsupported("RUN075", format!("a buffer of more than {} elements", 1 << MOST_ELEMENTS)));
    }
    let unit = |element: u32| match info.space {
        Space::Shared => solve(&info.offsets, element).map(|offset| offset as u32),
        Space::Tensor => info.spot(element).map(|spot| {
            let word = spot.column * tensor_memory::LANES + spot.lane;
            word * tensor_memory::WORD / info.elem.bytes() + spot.part
        }),
    };
    let units: Option<Vec<u32>> = (0..bits).map(|bit| unit(1 << bit)).collect();
    let units = units.ok_or_else(|| Diagnostic::invalid("RUN076", "a buffer that does not map every element to one offset"))?;
    Ok((0..1u32 << bits).map(|element| tileas::layout::apply(&units, element)).collect())
}

/// The shared memory of a CTA.
pub(crate) struct SharedMemory {
    placements: Vec<BufferPlacement>,
    /// For each buffer, the stage that the current op selects.
    stages: Vec<usize>,
    /// Whether accesses go to the peer CTA's half of a buffer.
    in_peer_half: bool,
    data: Vec<u8>,
    /// For each byte, the buffer through which it was last written, counted from 1; 0 means never.
    owners: Vec<u16>,
    /// Empty if the hazard checker is inactive.
    marks: Vec<MarkNumber>,
    table: MarkTable,
    /// For each byte, the warp role that wrote it without a fence since, counted from 1. Empty if the hazard checker is inactive.
    unfenced: Vec<u8>,
}

impl SharedMemory {
    pub(super) fn new(placements: &[BufferPlacement], races: bool) -> SharedMemory {
        let end = placements.iter().map(BufferPlacement::end).max().unwrap_or(0);
        let marks = if races { vec![0; end] } else { Vec::new() };
        let (stages, data, owners) = (vec![0; placements.len()], vec![0; end], vec![0; end]);
        let (unfenced, table) = (vec![0; marks.len()], MarkTable::default());
        SharedMemory { placements: placements.to_vec(), stages, in_peer_half: false, data, owners, unfenced, marks, table }
    }

    pub(super) fn select(&mut self, buffer: usize, stage: u64) -> Result<(), String> {
        let depth = self.placements[buffer].depth;
        if stage >= depth as u64 {
            return Err(format!("selects stage {stage} of buffer{buffer}, whose depth is {depth}"));
        }
        self.stages[buffer] = stage as usize;
        Ok(())
    }

    /// Returns the address of a byte in the stage that the current op selects.
    pub(super) fn start(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, Fault> {
        let place = self.placements[buffer];
        if byte + length > place.bytes {
            return Err(Fault::Outside { byte, bytes: place.bytes });
        }
        let base = if self.in_peer_half { place.peer_base } else { place.base };
        Ok(base + self.stages[buffer] * place.bytes + byte)
    }

    /// Selects whether later accesses go to this CTA's half or to the peer's half.
    pub(super) fn select_half(&mut self, of_peer: bool) {
        self.in_peer_half = of_peer;
    }

    /// Returns whether a proxy fence must separate writes by threads from reads by MMAs or TMA.
    pub(super) fn needs_fences(&self, buffer: usize) -> bool {
        self.placements[buffer].space == Space::Shared
    }

    pub(super) fn visit(
        &mut self,
        start: usize,
        length: usize,
        warp: usize,
        writes: bool,
        clock: &HazardClock,
    ) -> Result<(), Fault> {
        if self.marks.is_empty() {
            return Ok(());
        }
        clock.access_all(&mut self.table, &mut self.marks[start..start + length], warp, writes)
    }

    #[cfg(test)]
    pub(super) fn mark_count(&self) -> usize {
        self.table.mark_count()
    }

    /// If the mark table is full, removes the marks (access histories) that no byte refers to.
    pub(super) fn compact_marks(&mut self) {
        if self.table.is_full() {
            self.table.compact(std::iter::once(&mut self.marks[..]));
        }
    }

    pub(super) fn read(
        &mut self,
        buffer: usize,
        byte: usize,
        out: &mut [u8],
        warp: usize,
        clock: &HazardClock,
    ) -> Result<(), Fault> {
        let start = self.start(buffer, byte, out.len())?;
        self.visit(start, out.len(), warp, false, clock)?;
        let own = buffer as u16 + 1;
        let owners = &self.owners[start..start + out.len()];
        // A branchless comparison of all bytes is much faster than a search for the first difference.
        if owners.iter().fold(0, |others, owner| others | (owner ^ own)) != 0 {
            let i = owners.iter().position(|owner| *owner != own).expect("at least one byte has another owner");
            let byte = byte + i;
            return Err(match owners[i] {
                0 => Fault::Unwritten { byte },
                other => Fault::Foreign { byte, buffer: other as usize - 1 },
            });
        }
        out.copy_from_slice(&self.data[start..start + out.len()]);
        Ok(())
    }

    /// A copied chunk arrives. The hazard check already happened when the copy was issued.
    pub(super) fn arrive(&mut self, chunk: &CopyChunk, clock: &HazardClock) {
        let (start, length) = (chunk.start, chunk.data.len());
        let _ = self.visit(start, length, chunk.warp, true, clock);
        self.data[start..start + length].copy_from_slice(&chunk.data);
        self.owners[start..start + length].fill(chunk.buffer as u16 + 1);
        match chunk.by_tma {
            true => self.unfenced[start..start + length].fill(0),
            false => self.mark_unfenced(start, length, clock),
        }
    }

    pub(super) fn write(&mut self, buffer: usize, byte: usize, data: &[u8], warp: usize, clock: &HazardClock) -> Result<(), Fault> {
        let start = self.start(buffer, byte, data.len())?;
        self.visit(start, data.len(), warp, true, clock)?;
        self.data[start..start + data.len()].copy_from_slice(data);
        self.owners[start..start + data.len()].fill(buffer as u16 + 1);
        self.mark_unfenced(start, data.len(), clock);
        Ok(())
    }

    /// Records that the current warp role wrote bytes that no proxy fence covers yet.
    fn mark_unfenced(&mut self, start: usize, length: usize, clock: &HazardClock) {
        if !self.unfenced.is_empty() {
            self.unfenced[start..start + length].fill(clock.warp_role() as u8 + 1);
        }
    }

    pub(super) fn fence(&mut self, warp_role: usize) {
        self.unfenced.iter_mut().filter(|by| usize::from(**by) == warp_role + 1).for_each(|by| *by = 0);
    }

    pub(super) fn check_fenced(&self, start: usize, length: usize) -> Result<(), Fault> {
        let written = self.unfenced[start..start + length].iter().fold(0, |all, by| all | by);
        if written != 0 { Err(Fault::Unfenced) } else { Ok(()) }
    }
}

/// One execution of a load from or a store to a buffer by all threads.
struct BufferTransfer<'a> {
    op: OpId,
    buffer: Buffer,
    tile: Id,
    distribution: &'a Distribution,
    /// The buffer offset of each distributed element.
    placements: Vec<usize>,
    /// Bytes per element.
    size: usize,
    /// Registers per instruction.
    width: usize,
}

/// Returns the elements in buffer format, where 4-bit elements occupy a byte each.
pub(super) fn buffer_bytes(slots: &Tile) -> Vec<u8> {
    if let Lanes::W8(words) = slots.lanes() { words.clone() } else { to_bytes(slots) }
}

pub(super) fn buffer_lanes(elem: Elem, data: Vec<u8>) -> Lanes {
    if elem.bits() == 4 { Lanes::W8(data) } else { from_bytes(elem, &data) }
}

impl<O: Step> DistributedProgram<'_, O> {
    pub(super) fn shared_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        self.begin(op, env)?;
        let all = |id: Id| self.distribution(id).elements.iter().map(|element| u64::from(*element));
        match kind {
            Op::SharedStore { x, buffer, atom, .. } => {
                let slots = self.slots(*x, env);
                if self.store_cached(op, *buffer, &slots, env) {
                    return Ok(Results::new());
                }
                let width = self.width_of(op, *atom, *buffer, *x)?;
                let transfer = self.buffer_transfer(op, *x, *buffer, all(*x), width)?;
                self.store(&transfer, &slots, env)?;
                self.cache_runs(&transfer);
                Ok(Results::new())
            }
            Op::SharedScatter { x, buffer, index, .. } => {
                let index = self.slots(*index, env);
                self.store(&self.buffer_transfer(op, *x, *buffer, index.lanes().iter(), 1)?, &self.slots(*x, env), env)
            }
            Op::SharedLoad { buffer, atom, .. } => {
                let result = self.result(op);
                if let Some(data) = self.load_cached(op, *buffer, env) {
                    return self.load_result(op, result, data);
                }
                let width = self.width_of(op, *atom, *buffer, result)?;
                let transfer = self.buffer_transfer(op, result, *buffer, all(result), width)?;
                let loaded = self.load(&transfer, env)?;
                self.cache_runs(&transfer);
                Ok(loaded)
            }
            Op::SharedGather { buffer, index, .. } => {
                let index = self.slots(*index, env);
                self.load(&self.buffer_transfer(op, self.result(op), *buffer, index.lanes().iter(), 1)?, env)
            }
            Op::TmemLoad { buffer, from, .. } => {
                let result = self.result(op);
                if let Some(data) = self.load_cached(op, *buffer, env) {
                    return self.load_result(op, result, data);
                }
                let elements = self.tmem_elements(op, result, *buffer, *from, env)?;
                let transfer = self.buffer_transfer(op, result, *buffer, elements, 1)?;
                let loaded = self.load(&transfer, env)?;
                self.cache_runs(&transfer);
                Ok(loaded)
            }
            Op::TmemStore { x, buffer, from, .. } => {
                let slots = self.slots(*x, env);
                if self.store_cached(op, *buffer, &slots, env) {
                    return Ok(Results::new());
                }
                let elements = self.tmem_elements(op, *x, *buffer, *from, env)?;
                let transfer = self.buffer_transfer(op, *x, *buffer, elements, 1)?;
                self.store(&transfer, &slots, env)?;
                self.cache_runs(&transfer);
                Ok(Results::new())
            }
            _ => unreachable!("handles buffer accesses only"),
        }
    }

    /// Caches the byte runs of an access for later executions of its op. The first execution has checked the access.
    fn cache_runs(&self, transfer: &BufferTransfer<'_>) {
        let BufferTransfer { op, tile, distribution, ref placements, size, width, .. } = *transfer;
        let stores = self.source.body.ops[op].results.first() != Some(&tile);
        let acts = |slot: &usize| !stores || distribution.is_leader[distribution.thread(slot - slot % width)];
        let accesses = (0..placements.len()).filter(acts).map(|slot| (distribution.warp(slot), placements[slot], slot));
        self.access_runs[op.0 as usize][0].get_or_init(|| AccessRuns::new(accesses, placements.len(), size));
    }

    /// Loads with cached runs. Returns `None` at the first execution or on a fault.
    fn load_cached(&self, op: OpId, buffer: Buffer, env: &mut Env<'_>) -> Option<Vec<u8>> {
        let runs = self.access_runs[op.0 as usize][0].get()?;
        runs.read(buffer.0 as usize, self.hazards(env)).ok()
    }

    fn load_result(&self, op: OpId, result: Id, data: Vec<u8>) -> Result<Results> {
        let elem = self.elem(result);
        self.single_result(op, Tile::new(self.distribution(result).shape(), elem, buffer_lanes(elem, data)))
    }

    /// Stores with cached runs. Returns false at the first execution or on a fault.
    fn store_cached(&self, op: OpId, buffer: Buffer, slots: &Tile, env: &mut Env<'_>) -> bool {
        let Some(runs) = self.access_runs[op.0 as usize][0].get() else { return false };
        runs.write(buffer.0 as usize, &buffer_bytes(slots), self.hazards(env)).is_ok()
    }

    /// Scales accumulator rows in tensor memory, or zeros. Each thread multiplies its elements of a row by its factor for that row.
    pub(super) fn tmem_scale(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmemScale { by, buffer, zero_init, atom, .. } = kind else { unreachable!("handles scaled accumulators only") };
        self.begin(op, env)?;
        let zero_init = env.tile(*zero_init).is_true();
        let missing = || self.invalid_op(op, format!("finds no rows of {buffer} for '{}'", atom.0.name));
        let info = self.source.attrs.buffers.get(*buffer).ok_or_else(missing)?;
        let (rows, offsets) = (self.distribution(*by), &self.offsets[buffer.0 as usize]);
        let (gathered, _) = atom.0.whole_and_rows(info, rows.layout.warp.len()).ok_or_else(missing)?;
        let column_bits = info.shape.last().ok_or_else(missing)?.trailing_zeros();
        let distribution = Distribution::new(&gathered, offsets.len().ilog2(), gathered.warps())
            .map_err(|message| self.invalid_op(op, message))?;
        let first = self.source.warp_roles.get(env.state.warp_role).map_or(0, |warp_role| warp_role.first_warp);
        let (factors, size) = (self.slots(*by, env), bytes(info.elem));
        let multiply = Binary::MulF { rounding: Rounding::NearestEven, ftz: false };
        for slot in 0..distribution.slots() {
            let (element, warp) = (distribution.elements[slot], distribution.warp(slot));
            let lane = info.spot(element).ok_or_else(missing)?.lane as usize;
            if lane >> LANE_BITS != (warp + first) % WARPS_OF_LANES {
                return Err(self.invalid_op(op, format!("accesses lane {lane} of tensor memory from a warp that cannot reach it")));
            }
            let factor = rows.slot(distribution.thread(slot), element >> column_bits).ok_or_else(missing)?;
            let (at, mut data) = (offsets[element as usize] as usize * size, [0; 4]);
            if !zero_init {
                let read = self.hazards(env).read(buffer.0 as usize, at, &mut data, warp);
                read.map_err(|fault| self.fault(op, Some(*buffer), fault, false))?;
            }
            let scaled = multiply.eval(Scalar::F32, u64::from(u32::from_le_bytes(data)), factors.lanes().get(factor));
            let written = self.hazards(env).write(buffer.0 as usize, at, &(scaled as u32).to_le_bytes(), warp);
            written.map_err(|fault| self.fault(op, Some(*buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    /// Returns the elements of a TMEM buffer that a tile's registers hold. Each must be in a TMEM lane that its warp can access.
    fn tmem_elements(&self, op: OpId, tile: Id, buffer: Buffer, from: u32, env: &Env<'_>) -> Result<std::vec::IntoIter<u64>> {
        let missing = || self.invalid_op(op, format!("names a part of {buffer} that does not exist"));
        let info = self.source.attrs.buffers.get(buffer).ok_or_else(missing)?;
        let part = TmemSlice::of(&info.shape, self.ty(tile).shape(), from).ok_or_else(missing)?;
        let first = self.source.warp_roles.get(env.state.warp_role).map_or(0, |warp_role| warp_role.first_warp);
        let distribution = self.distribution(tile);
        let element = |slot: usize| {
            let element = part.element(distribution.elements[slot]);
            let lane = info.spot(element).ok_or_else(missing)?.lane as usize;
            let reached = (distribution.warp(slot) + first) % WARPS_OF_LANES;
            match lane >> LANE_BITS == reached {
                true => Ok(u64::from(element)),
                false => {
                    Err(self.invalid_op(op, format!("accesses lane {lane} of tensor memory from a warp that cannot reach it")))
                }
            }
        };
        Ok((0..distribution.slots()).map(element).collect::<Result<Vec<u64>>>()?.into_iter())
    }

    /// Returns the registers per instruction of a buffer access. For `ldmatrix` atoms, each register has its own address.
    fn width_of(&self, op: OpId, atom: CopyAtom, buffer: Buffer, tile: Id) -> Result<usize> {
        let distribution = self.distribution(tile);
        let checked = match atom {
            CopyAtom::Matrix { trans } => self.check_matrices(buffer, distribution, trans),
            CopyAtom::ByteMatrix => self.check_byte_matrices(buffer, distribution),
            _ => return self.width(op, atom),
        };
        checked.map_err(|why| self.invalid_op(op, why))?;
        Ok(1)
    }

    /// Returns the registers per instruction of a vector atom.
    pub(super) fn width(&self, op: OpId, atom: CopyAtom) -> Result<usize> {
        match atom {
            CopyAtom::Vector { vector_bits } if vector_bits <= 7 => Ok(1 << vector_bits),
            _ => Err(self.unsupported(op, "with this atom")),
        }
    }

    pub(super) fn buffer_info(&self, buffer: Buffer) -> &BufferInfo {
        &self.source.attrs.buffers[buffer]
    }

    /// Prepares a buffer access of a tile whose registers map to the given elements.
    fn buffer_transfer(
        &self,
        op: OpId,
        tile: Id,
        buffer: Buffer,
        elements: impl Iterator<Item = u64>,
        width: usize,
    ) -> Result<BufferTransfer<'_>> {
        let missing = || self.invalid_op(op, format!("names {buffer}, which the function does not define"));
        let offsets = self.offsets.get(buffer.0 as usize).ok_or_else(missing)?;
        let (distribution, size) = (&**self.distribution(tile), bytes(self.buffer_info(buffer).elem));
        let place = |element: u64| {
            let offset = usize::try_from(element).ok().and_then(|element| offsets.get(element));
            let outside =
                || self.invalid_op(op, format!("accesses element {element} of {buffer}, whose size is {}", offsets.len()));
            Ok(*offset.ok_or_else(outside)? as usize * size)
        };
        let placements = elements.map(place).collect::<Result<Vec<usize>>>()?;
        if bytes(self.elem(tile)) != size {
            return Err(
                self.invalid_op(op, format!("moves {}-byte elements, but those of {buffer} have {size}", bytes(self.elem(tile))))
            );
        }
        if placements.len() != distribution.slots() || !distribution.registers.is_multiple_of(width) {
            return Err(self.invalid_op(
                op,
                format!("moves {} registers to {} offsets, {width} per instruction", distribution.slots(), placements.len()),
            ));
        }
        Ok(BufferTransfer { op, buffer, tile, distribution, placements, size, width })
    }

    /// Checks that the registers of a vector are contiguous and that its address is aligned to its size.
    fn check_vector(&self, transfer: &BufferTransfer<'_>, first: usize) -> Result<()> {
        let BufferTransfer { op, buffer, size, width, .. } = *transfer;
        let placements = &transfer.placements[first..first + width];
        if let Some(i) = (1..width).find(|i| placements[*i] != placements[0] + i * size) {
            let (first, other) = (placements[0], placements[i]);
            return Err(self.invalid_op(op, format!("treats bytes {first} and {other} of {buffer} as adjacent")));
        }
        let address = self.source.placements[buffer.0 as usize].base + placements[0];
        if !address.is_multiple_of(size * width) {
            return Err(self.invalid_op(op, format!("accesses {} bytes at misaligned shared address {address}", size * width)));
        }
        Ok(())
    }

    /// Checks the registers and lanes against the fragment of `ldmatrix`: eight rows of 16 bytes, four bytes per register, four
    /// lanes per row. Transposed, rows run along registers and lanes, and a row's elements run along the other lanes. Transposed
    /// bytes move in pairs, and a register bit selects the byte of a pair.
    fn check_matrices(&self, buffer: Buffer, distribution: &Distribution, trans: bool) -> Result<(), String> {
        let offsets = self.offsets.get(buffer.0 as usize).ok_or("names a buffer that the function does not define")?;
        let size = bytes(self.buffer_info(buffer).elem);
        let place = |basis: &u32| offsets.get(*basis as usize).map_or(usize::MAX, |offset| *offset as usize * size);
        let layout = &distribution.layout;
        let mut registers: Vec<usize> = layout.register.iter().map(place).collect();
        let mut unit = size;
        if trans && size == 1 {
            // The lowest register bits select the byte of a word. The pairs come from two words that one instruction loads.
            let pair = (2..4).find(|bit| registers.get(*bit) == Some(&1));
            registers.remove(pair.ok_or_else(|| format!("does not read pairs of bytes of {buffer}"))?);
            unit = 2;
        }
        let packed = (4 / unit.clamp(1, 4)).ilog2() as usize;
        if registers.len() < packed || trans && unit != 2 {
            return Err(format!("reads matrices of {size}-byte elements with {} registers", distribution.registers));
        }
        let others = registers.split_off(packed);
        let along: Vec<usize> = registers.into_iter().chain(layout.lane[..2].iter().map(place)).collect();
        let across: Vec<usize> = layout.lane[2..].iter().map(place).collect();
        let (in_row, rows) = if trans { (across, along) } else { (along, across) };
        let neighbours = in_row.iter().enumerate().all(|(bit, place)| *place == unit << bit);
        let others = rows.into_iter().chain(others).chain(layout.warp.iter().map(place));
        let base = self.source.placements[buffer.0 as usize].base;
        if !neighbours || others.chain([base]).any(|place| !place.is_multiple_of(16)) {
            return Err(format!("reads rows of {buffer} that are not 16 contiguous, aligned bytes"));
        }
        Ok(())
    }

    /// Checks the fragment of the byte-transposing `ldmatrix`. A register holds four rows, four lanes hold sixteen rows, and eight
    /// lanes hold eight bytes of each row. The second of two registers loaded together holds the other eight bytes.
    fn check_byte_matrices(&self, buffer: Buffer, distribution: &Distribution) -> Result<(), String> {
        let offsets = self.offsets.get(buffer.0 as usize).ok_or("names a buffer that the function does not define")?;
        if bytes(self.buffer_info(buffer).elem) != 1 {
            return Err(format!("treats the elements of {buffer} as bytes"));
        }
        let layout = &distribution.layout;
        let place = |basis: &u32| offsets.get(*basis as usize).map_or(usize::MAX, |offset| *offset as usize);
        let columns = layout.lane.iter().skip(2).map(place);
        let [further, second] = [2, 3].map(|bit| layout.register.get(bit).map_or(usize::MAX, place));
        let halves = further == 8 || second == 8;
        let rows = layout.register.iter().chain(&layout.lane[..2]).chain(&layout.warp).map(place).filter(|place| *place != 8);
        let base = self.source.placements[buffer.0 as usize].base;
        if !halves || !columns.eq([1, 2, 4]) || rows.chain([base]).any(|place| !place.is_multiple_of(16)) {
            return Err(format!("reads rows of {buffer} that are not 16 contiguous, aligned bytes"));
        }
        Ok(())
    }

    fn store(&self, transfer: &BufferTransfer<'_>, slots: &Tile, env: &mut Env<'_>) -> Result<Results> {
        let BufferTransfer { op, buffer, distribution, size, width, .. } = *transfer;
        let data = buffer_bytes(slots);
        let starts = (0..transfer.placements.len()).step_by(width);
        for first in starts.filter(|first| distribution.is_leader[distribution.thread(*first)]) {
            self.check_vector(transfer, first)?;
            let data = &data[first * size..(first + width) * size];
            let written = self.hazards(env).write(buffer.0 as usize, transfer.placements[first], data, distribution.warp(first));
            written.map_err(|fault| self.fault(op, Some(buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    fn load(&self, transfer: &BufferTransfer<'_>, env: &mut Env<'_>) -> Result<Results> {
        let BufferTransfer { op, buffer, distribution, size, width, .. } = *transfer;
        let mut data = vec![0; transfer.placements.len() * size];
        for first in (0..transfer.placements.len()).step_by(width) {
            self.check_vector(transfer, first)?;
            let out = &mut data[first * size..(first + width) * size];
            let read = self.hazards(env).read(buffer.0 as usize, transfer.placements[first], out, distribution.warp(first));
            read.map_err(|fault| self.fault(op, Some(buffer), fault, false))?;
        }
        self.load_result(op, transfer.tile, data)
    }

    /// Returns the source location of an op as text, if it is known.
    fn position(&self, op: OpId) -> String {
        let position = self.source.debug.position(self.source.body.ops[op].loc);
        position.map_or(String::new(), |(file, line, column)| format!(" at {file}:{line}:{column}"))
    }

    pub(super) fn fault(&self, op: OpId, buffer: Option<Buffer>, fault: Fault, writes: bool) -> Box<Diagnostic> {
        let doing = if writes { "writes" } else { "reads" };
        let what = buffer.map_or("global memory".to_string(), |buffer| buffer.to_string());
        match fault {
            Fault::Outside { byte, bytes } => self.invalid_op(op, format!("{doing} byte {byte} of {what}, whose size is {bytes}")),
            Fault::Unwritten { byte } => self.invalid_op(op, format!("reads byte {byte} of {what}, which was never written")),
            Fault::Foreign { byte, buffer } => {
                self.invalid_op(op, format!("reads byte {byte} of {what}, which holds data of buffer{buffer}"))
            }
            Fault::Undeclared => self.invalid_op(op, format!("{doing} {what}, which its declared effects do not list")),
            Fault::InFlight { op: other } => {
                let name = self.source.body.ops[other].kind.mnemonic();
                let message = format!("{doing} bytes of {what} to which a '{name}'{} is in flight", self.position(other));
                Diagnostic::invalid("RUN078", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
            Fault::MmaInFlight { op: other } => {
                let name = self.source.body.ops[other].kind.mnemonic();
                let message = format!("{doing} bytes of {what} that a '{name}'{} in flight reads", self.position(other));
                Diagnostic::invalid("RUN078", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
            Fault::Unfenced => {
                let name = self.source.body.ops[op].kind.mnemonic();
                Diagnostic::invalid(
                    "RUN079",
                    format!("'{name}' reads bytes of {what} that were written without a subsequent proxy fence"),
                )
            }
            Fault::Race { op: other, writes: other_writes } => {
                let (node, at) = (&self.source.body.ops[other], self.position(other));
                let did = if other_writes { "wrote" } else { "read" };
                let name = node.kind.mnemonic();
                let message = format!("{doing} bytes of {what} that '{name}'{at} {did} in another warp without a barrier between");
                Diagnostic::invalid("RUN077", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
        }
    }
}
