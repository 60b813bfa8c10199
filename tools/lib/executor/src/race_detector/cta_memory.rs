//! The shared memory and tensor memory of a CTA, with the access history of each byte. One byte array models both memories.

use super::access_history::{HistoryIndex, HistoryTable};
use super::hazards::{AccessFault, HappensBefore};
use super::in_flight::CopyChunk;
use core_dialect::tile::Elem;
use tileas::tensor_memory;
use tileas::{BufferInfo, Space};

/// The placement of a buffer in the CTA's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferPlacement {
    /// The address of the first stage.
    pub(crate) base: usize,
    /// Bytes of one stage.
    pub(crate) stage_bytes: usize,
    /// Number of stages.
    pub(crate) depth: usize,
    /// Whether the buffer is in shared memory or in tensor memory.
    pub(crate) space: Space,
    /// The address of a copy of the peer CTA's half, for a buffer with half of an operand of a CTA pair. The MMA of this CTA reads
    /// the peer's half from the copy. Other buffers have the value of `base` here.
    pub(crate) peer_base: usize,
}

impl BufferPlacement {
    /// Returns the first address after the buffer, including the copy of the peer's half.
    pub(crate) fn end(&self) -> usize {
        self.base.max(self.peer_base) + self.stage_bytes * self.depth
    }
}

/// Returns the number of bytes of one element in a buffer.
pub(crate) fn element_bytes(elem: Elem) -> usize {
    elem.bytes() as usize
}

/// Places buffers one after another, without overlap.
pub(crate) fn separate_placements<'a>(buffers: impl Iterator<Item = &'a BufferInfo>) -> Vec<BufferPlacement> {
    let mut base = 0;
    let place_buffer = |info: &BufferInfo| {
        let placement = BufferPlacement { base, stage_bytes: stage_bytes(info), depth: 1, space: info.space, peer_base: base };
        base = placement.end().next_multiple_of(1024);
        placement
    };
    buffers.map(place_buffer).collect()
}

/// Returns the number of bytes of one stage of a buffer. The byte array models tensor memory column by column.
pub(crate) fn stage_bytes(info: &BufferInfo) -> usize {
    match info.space {
        Space::Shared => info.bytes() as usize,
        Space::Tensor => info.columns() as usize * COLUMN_BYTES,
    }
}

/// Number of bytes of a TMEM column, over all lanes.
pub(crate) const COLUMN_BYTES: usize = (tensor_memory::LANES * tensor_memory::WORD_BYTES) as usize;

/// Number of consecutive warps that together can access all TMEM lanes.
pub(crate) const WARPS_OF_ALL_LANES: usize = 4;

/// The shared memory and tensor memory of a CTA.
pub(crate) struct SharedMemory {
    placements: Vec<BufferPlacement>,
    /// For each buffer, the stage that the current op selects.
    selected_stages: Vec<usize>,
    /// Whether accesses go to the copy of the peer CTA's half of an operand (`BufferPlacement::peer_base`).
    in_peer_half: bool,
    /// The bytes of both memories. The placement of a buffer gives its address in this array.
    data: Vec<u8>,
    /// For each byte, the number of the buffer of the last write, plus 1. 0 if no access wrote the byte.
    writer_buffers: Vec<u16>,
    /// For each byte, its access history. Empty if the race detector is inactive.
    histories: Vec<HistoryIndex>,
    history_table: HistoryTable,
    /// For each byte, the index of the warp role that wrote the byte without a later proxy fence, plus 1. Otherwise 0.
    /// Empty if the race detector is inactive.
    unfenced_roles: Vec<u8>,
}

impl SharedMemory {
    pub(crate) fn new(placements: &[BufferPlacement], checks_races: bool) -> SharedMemory {
        let end = placements.iter().map(BufferPlacement::end).max().unwrap_or(0);
        let histories = if checks_races { vec![0; end] } else { Vec::new() };
        let (selected_stages, data, writer_buffers) = (vec![0; placements.len()], vec![0; end], vec![0; end]);
        let (unfenced_roles, history_table) = (vec![0; histories.len()], HistoryTable::default());
        SharedMemory {
            placements: placements.to_vec(),
            selected_stages,
            in_peer_half: false,
            data,
            writer_buffers,
            histories,
            history_table,
            unfenced_roles,
        }
    }

    /// Selects the stage that later accesses to a buffer use. The error is a message for a stage that does not exist.
    pub(crate) fn select_stage(&mut self, buffer: usize, stage: u64) -> Result<(), String> {
        let depth = self.placements[buffer].depth;
        if stage >= depth as u64 {
            return Err(format!("selects stage {stage} of buffer{buffer}, whose depth is {depth}"));
        }
        self.selected_stages[buffer] = stage as usize;
        Ok(())
    }

    /// Returns the address of a byte in the selected stage of a buffer. Returns a fault if an access of `length` bytes extends
    /// beyond the stage.
    pub(crate) fn address(&self, buffer: usize, byte: usize, length: usize) -> Result<usize, AccessFault> {
        let placement = self.placements[buffer];
        if byte + length > placement.stage_bytes {
            return Err(AccessFault::Outside { byte, bytes: placement.stage_bytes });
        }
        let base = if self.in_peer_half { placement.peer_base } else { placement.base };
        Ok(base + self.selected_stages[buffer] * placement.stage_bytes + byte)
    }

    /// Selects the half of an operand of a CTA pair for later accesses: the peer's half (`of_peer`) or this CTA's own half.
    pub(crate) fn select_half(&mut self, of_peer: bool) {
        self.in_peer_half = of_peer;
    }

    /// Returns whether MMAs and TMA may read the buffer only after a proxy fence that follows the writes by threads. True for
    /// shared memory.
    pub(crate) fn needs_fences(&self, buffer: usize) -> bool {
        self.placements[buffer].space == Space::Shared
    }

    /// Checks an access to consecutive bytes for races, and records it.
    pub(crate) fn record_access(
        &mut self,
        start: usize,
        length: usize,
        warp: usize,
        writes: bool,
        clock: &HappensBefore,
    ) -> Result<(), AccessFault> {
        if self.histories.is_empty() {
            return Ok(());
        }
        clock.check_accesses(&mut self.history_table, &mut self.histories[start..start + length], warp, writes)
    }

    #[cfg(test)]
    pub(crate) fn history_count(&self) -> usize {
        self.history_table.history_count()
    }

    /// If the history table is full, removes the histories to which no byte refers.
    pub(crate) fn compact_histories(&mut self) {
        if self.history_table.is_full() {
            self.history_table.compact(std::iter::once(&mut self.histories[..]));
        }
    }

    /// Reads bytes of a buffer. Returns a fault for a race, or for bytes that no access wrote through this buffer.
    pub(crate) fn read(
        &mut self,
        buffer: usize,
        byte: usize,
        out: &mut [u8],
        warp: usize,
        clock: &HappensBefore,
    ) -> Result<(), AccessFault> {
        let start = self.address(buffer, byte, out.len())?;
        self.record_access(start, out.len(), warp, false, clock)?;
        let reader_buffer = buffer as u16 + 1;
        let writer_buffers = &self.writer_buffers[start..start + out.len()];
        // A branchless comparison of all bytes is much faster than a search for the first difference.
        if writer_buffers.iter().fold(0, |differences, writer| differences | (writer ^ reader_buffer)) != 0 {
            let i = writer_buffers.iter().position(|writer| *writer != reader_buffer).expect("at least one buffer differs");
            let byte = byte + i;
            return Err(match writer_buffers[i] {
                0 => AccessFault::Unwritten { byte },
                other => AccessFault::Foreign { byte, buffer: other as usize - 1 },
            });
        }
        out.copy_from_slice(&self.data[start..start + out.len()]);
        Ok(())
    }

    /// Writes the data of a copy that completes, and records the write again. The race detector checked the write at the issue of
    /// the copy.
    pub(crate) fn complete_copy(&mut self, chunk: &CopyChunk, clock: &HappensBefore) {
        let (start, length) = (chunk.start, chunk.data.len());
        let _ = self.record_access(start, length, chunk.warp, true, clock);
        self.data[start..start + length].copy_from_slice(&chunk.data);
        self.writer_buffers[start..start + length].fill(chunk.buffer as u16 + 1);
        match chunk.by_tma {
            true => self.unfenced_roles[start..start + length].fill(0),
            false => self.record_unfenced_write(start, length, clock),
        }
    }

    /// Writes bytes of a buffer. Returns a fault for a race.
    pub(crate) fn write(
        &mut self,
        buffer: usize,
        byte: usize,
        data: &[u8],
        warp: usize,
        clock: &HappensBefore,
    ) -> Result<(), AccessFault> {
        let start = self.address(buffer, byte, data.len())?;
        self.record_access(start, data.len(), warp, true, clock)?;
        self.data[start..start + data.len()].copy_from_slice(data);
        self.writer_buffers[start..start + data.len()].fill(buffer as u16 + 1);
        self.record_unfenced_write(start, data.len(), clock);
        Ok(())
    }

    /// Records that the current warp role wrote bytes, which a proxy fence must follow before MMAs or TMA read them.
    fn record_unfenced_write(&mut self, start: usize, length: usize, clock: &HappensBefore) {
        if !self.unfenced_roles.is_empty() {
            self.unfenced_roles[start..start + length].fill(clock.warp_role() as u8 + 1);
        }
    }

    /// Executes a proxy fence of a warp role.
    pub(crate) fn fence(&mut self, warp_role: usize) {
        self.unfenced_roles.iter_mut().filter(|role| usize::from(**role) == warp_role + 1).for_each(|role| *role = 0);
    }

    /// Checks that a proxy fence followed all writes to a range of bytes.
    pub(crate) fn check_fenced(&self, start: usize, length: usize) -> Result<(), AccessFault> {
        let unfenced = self.unfenced_roles[start..start + length].iter().fold(0, |all, role| all | role);
        if unfenced != 0 { Err(AccessFault::Unfenced) } else { Ok(()) }
    }
}
