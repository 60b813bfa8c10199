//! Transfers between tiles in registers and buffers: access widths, checks of matrices, loads and stores.

use super::{BufferTransfer, buffer_bytes};
use crate::exec::{Env, Results};
use crate::exec_as::distribution::Distribution;
use crate::exec_as::{DistributedOp, DistributedProgram};
use crate::race_detector::cta_memory::element_bytes;
use crate::tile::Tile;
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use tileas::{Buffer, CopyAtom};

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Returns the number of registers that one instruction of a buffer access moves. The result for `ldmatrix` atoms is 1, because
    /// each register has its own address.
    pub(super) fn access_width(&self, op: OpId, atom: CopyAtom, buffer: Buffer, tile: Id) -> Result<usize> {
        let distribution = self.distribution(tile);
        let outcome = match atom {
            CopyAtom::Matrix { trans } => self.check_matrices(buffer, distribution, trans),
            CopyAtom::ByteMatrix => self.check_byte_matrices(buffer, distribution),
            _ => return self.vector_width(op, atom),
        };
        outcome.map_err(|message| self.invalid_op(op, message))?;
        Ok(1)
    }

    /// Returns the number of registers that one instruction of a vector atom moves.
    pub(in crate::exec_as) fn vector_width(&self, op: OpId, atom: CopyAtom) -> Result<usize> {
        match atom {
            CopyAtom::Vector { vector_bits } if vector_bits <= 7 => Ok(1 << vector_bits),
            _ => Err(self.unsupported(op, "with this atom")),
        }
    }

    /// Returns the offsets of a load or store. `elements` yields for each register of each thread the number of its buffer element.
    pub(super) fn buffer_transfer(
        &self,
        op: OpId,
        tile: Id,
        buffer: Buffer,
        elements: impl Iterator<Item = u64>,
        width: usize,
    ) -> Result<BufferTransfer<'_>> {
        let missing = || self.invalid_op(op, format!("names {buffer}, which the function does not define"));
        let offsets = self.element_offsets.get(buffer.0 as usize).ok_or_else(missing)?;
        let (distribution, size) = (&**self.distribution(tile), element_bytes(self.buffer_info(buffer).elem));
        let byte_offset = |element: u64| {
            let offset = usize::try_from(element).ok().and_then(|element| offsets.get(element));
            let out_of_bounds =
                || self.invalid_op(op, format!("accesses element {element} of {buffer}, whose size is {}", offsets.len()));
            Ok(*offset.ok_or_else(out_of_bounds)? as usize * size)
        };
        let byte_offsets = elements.map(byte_offset).collect::<Result<Vec<usize>>>()?;
        if element_bytes(self.elem(tile)) != size {
            return Err(self.invalid_op(
                op,
                format!("moves {}-byte elements, but those of {buffer} have {size}", element_bytes(self.elem(tile))),
            ));
        }
        if byte_offsets.len() != distribution.slot_count() || !distribution.registers_per_thread.is_multiple_of(width) {
            return Err(self.invalid_op(
                op,
                format!("moves {} registers to {} offsets, {width} per instruction", distribution.slot_count(), byte_offsets.len()),
            ));
        }
        Ok(BufferTransfer { op, buffer, tile, distribution, offsets: byte_offsets, element_bytes: size, width })
    }

    /// Checks that the elements of a vector are contiguous in the buffer, and that the address of the vector is aligned to its
    /// size.
    fn check_vector(&self, transfer: &BufferTransfer<'_>, first: usize) -> Result<()> {
        let BufferTransfer { op, buffer, element_bytes, width, .. } = *transfer;
        let offsets = &transfer.offsets[first..first + width];
        if let Some(i) = (1..width).find(|i| offsets[*i] != offsets[0] + i * element_bytes) {
            let (first, other) = (offsets[0], offsets[i]);
            return Err(self.invalid_op(op, format!("treats bytes {first} and {other} of {buffer} as adjacent")));
        }
        let address = self.source.placements[buffer.0 as usize].base + offsets[0];
        if !address.is_multiple_of(element_bytes * width) {
            return Err(
                self.invalid_op(op, format!("accesses {} bytes at misaligned shared address {address}", element_bytes * width))
            );
        }
        Ok(())
    }

    /// Checks that a layout matches the fragment of `ldmatrix`: eight rows of 16 bytes, four bytes per register, four lanes per
    /// row.
    ///
    /// In a transposed fragment, the registers of a word and the two lowest lane bits select the row. The other lane bits select
    /// the element of the row. Transposed 8-bit elements move in pairs, and a register bit selects the byte of a pair.
    fn check_matrices(&self, buffer: Buffer, distribution: &Distribution, trans: bool) -> Result<(), String> {
        let offsets = self.element_offsets.get(buffer.0 as usize).ok_or("names a buffer that the function does not define")?;
        let size = element_bytes(self.buffer_info(buffer).elem);
        let byte_offset = |basis: &u32| offsets.get(*basis as usize).map_or(usize::MAX, |offset| *offset as usize * size);
        let layout = &distribution.layout;
        let mut registers: Vec<usize> = layout.register.iter().map(byte_offset).collect();
        let mut unit_bytes = size;
        if trans && size == 1 {
            // The two lowest register bits select the byte of a word. The pairs come from two words that one instruction loads, so
            // a higher register bit selects the byte of a pair.
            let pair = (2..4).find(|bit| registers.get(*bit) == Some(&1));
            registers.remove(pair.ok_or_else(|| format!("does not read pairs of bytes of {buffer}"))?);
            unit_bytes = 2;
        }
        let word_bits = (4 / unit_bytes.clamp(1, 4)).ilog2() as usize;
        if registers.len() < word_bits || trans && unit_bytes != 2 {
            return Err(format!("reads matrices of {size}-byte elements with {} registers", distribution.registers_per_thread));
        }
        let further_registers = registers.split_off(word_bits);
        let word_and_low_lanes: Vec<usize> = registers.into_iter().chain(layout.lane[..2].iter().map(byte_offset)).collect();
        let high_lanes: Vec<usize> = layout.lane[2..].iter().map(byte_offset).collect();
        let (in_row, rows) = if trans { (high_lanes, word_and_low_lanes) } else { (word_and_low_lanes, high_lanes) };
        let row_is_contiguous = in_row.iter().enumerate().all(|(bit, offset)| *offset == unit_bytes << bit);
        let row_starts = rows.into_iter().chain(further_registers).chain(layout.warp.iter().map(byte_offset));
        let base = self.source.placements[buffer.0 as usize].base;
        if !row_is_contiguous || row_starts.chain([base]).any(|offset| !offset.is_multiple_of(16)) {
            return Err(format!("reads rows of {buffer} that are not 16 contiguous, aligned bytes"));
        }
        Ok(())
    }

    /// Checks that a layout matches the fragment of the `ldmatrix` that transposes bytes.
    ///
    /// A register has a byte of four rows. Four lanes have a byte of sixteen rows, and eight groups of four lanes have eight bytes
    /// of each row. One instruction loads two registers. The second register has the other eight bytes of the row.
    fn check_byte_matrices(&self, buffer: Buffer, distribution: &Distribution) -> Result<(), String> {
        let offsets = self.element_offsets.get(buffer.0 as usize).ok_or("names a buffer that the function does not define")?;
        if element_bytes(self.buffer_info(buffer).elem) != 1 {
            return Err(format!("treats the elements of {buffer} as bytes"));
        }
        let layout = &distribution.layout;
        let byte_offset = |basis: &u32| offsets.get(*basis as usize).map_or(usize::MAX, |offset| *offset as usize);
        let columns = layout.lane.iter().skip(2).map(byte_offset);
        let half_bits = [2, 3].map(|bit| layout.register.get(bit).map_or(usize::MAX, byte_offset));
        let has_half_bit = half_bits.contains(&8);
        let rows =
            layout.register.iter().chain(&layout.lane[..2]).chain(&layout.warp).map(byte_offset).filter(|offset| *offset != 8);
        let base = self.source.placements[buffer.0 as usize].base;
        if !has_half_bit || !columns.eq([1, 2, 4]) || rows.chain([base]).any(|offset| !offset.is_multiple_of(16)) {
            return Err(format!("reads rows of {buffer} that are not 16 contiguous, aligned bytes"));
        }
        Ok(())
    }

    /// Stores the slots of a tile. Of the threads with equal elements, only the leader writes.
    pub(super) fn store_to_buffer(&self, transfer: &BufferTransfer<'_>, slots: &Tile, env: &mut Env<'_>) -> Result<Results> {
        let BufferTransfer { op, buffer, distribution, element_bytes, width, .. } = *transfer;
        let data = buffer_bytes(slots);
        let starts = (0..transfer.offsets.len()).step_by(width);
        for first in starts.filter(|first| distribution.is_leader[distribution.thread_of(*first)]) {
            self.check_vector(transfer, first)?;
            let data = &data[first * element_bytes..(first + width) * element_bytes];
            let written = self.hazards(env).write(buffer.0 as usize, transfer.offsets[first], data, distribution.warp_of(first));
            written.map_err(|fault| self.fault_error(op, Some(buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    /// Loads the slots of a tile.
    pub(super) fn load_from_buffer(&self, transfer: &BufferTransfer<'_>, env: &mut Env<'_>) -> Result<Results> {
        let BufferTransfer { op, buffer, distribution, element_bytes, width, .. } = *transfer;
        let mut data = vec![0; transfer.offsets.len() * element_bytes];
        for first in (0..transfer.offsets.len()).step_by(width) {
            self.check_vector(transfer, first)?;
            let out = &mut data[first * element_bytes..(first + width) * element_bytes];
            let read = self.hazards(env).read(buffer.0 as usize, transfer.offsets[first], out, distribution.warp_of(first));
            read.map_err(|fault| self.fault_error(op, Some(buffer), fault, false))?;
        }
        self.load_result(op, transfer.tile, data)
    }
}
