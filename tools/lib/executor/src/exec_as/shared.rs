//! Buffers in the shared memory and tensor memory of a CTA, and the ops that access them. One byte array models both memories.

mod buffer_transfers;

use super::distribution::Distribution;
use super::{DistributedOp, DistributedProgram};
use crate::exec::{Env, Results};
use crate::race_detector::access_runs::AccessRuns;
use crate::race_detector::cta_memory::{WARPS_OF_ALL_LANES, element_bytes};
use crate::race_detector::hazards::AccessFault;
use crate::tile::Tile;
use crate::tile::shape::{from_bytes, to_bytes};
use base::diag::{Diagnostic, Result};
use base::{Op as OpId, Value as Id};
use core_dialect::tile::Elem;
use numerics::Scalar;
use numerics::arith::{Binary, ElementWords, Rounding};
use tileas::layout::{LANE_BITS, solve};
use tileas::tensor_memory::{self, TmemSlice};
use tileas::{Buffer, BufferInfo, Op, Space};

/// Base-2 logarithm of the maximum number of elements of one buffer.
const MAX_ELEMENT_BITS: u32 = 24;

/// Returns the offset of each element of a buffer, in elements.
pub(super) fn element_offsets(info: &BufferInfo) -> Result<Vec<u32>> {
    let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
    if bits > MAX_ELEMENT_BITS {
        return Err(Diagnostic::unsupported("RUN075", format!("a buffer of more than {} elements", 1 << MAX_ELEMENT_BITS)));
    }
    let basis_offset = |element: u32| match info.space {
        Space::Shared => solve(&info.offset_bases, element).map(|offset| offset as u32),
        Space::Tensor => info.tmem_position(element).map(|position| {
            let word = position.column * tensor_memory::LANES + position.lane;
            word * tensor_memory::WORD_BYTES / info.elem.bytes() + position.part
        }),
    };
    let basis_offsets: Option<Vec<u32>> = (0..bits).map(|bit| basis_offset(1 << bit)).collect();
    let basis_offsets = basis_offsets.ok_or_else(|| Diagnostic::invalid("RUN076", "an element of a buffer has no offset"))?;
    Ok((0..1u32 << bits).map(|element| tileas::layout::xor_of_bases(&basis_offsets, element)).collect())
}

/// One execution of a load from a buffer or a store to a buffer by all threads.
struct BufferTransfer<'a> {
    op: OpId,
    buffer: Buffer,
    /// The tile that the op loads or stores.
    tile: Id,
    distribution: &'a Distribution,
    /// For each slot, the byte offset of its element in the buffer.
    offsets: Vec<usize>,
    element_bytes: usize,
    /// Number of registers that one instruction moves.
    width: usize,
}

/// Returns the bytes of elements in the format of a buffer: a 4-bit element occupies a byte.
pub(super) fn buffer_bytes(slots: &Tile) -> Vec<u8> {
    if let ElementWords::W8(words) = slots.element_words() { words.clone() } else { to_bytes(slots) }
}

/// Returns the elements from their bytes in the format of a buffer.
pub(super) fn buffer_words(elem: Elem, data: Vec<u8>) -> ElementWords {
    if elem.bits() == 4 { ElementWords::W8(data) } else { from_bytes(elem, &data) }
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Executes a load from or a store to a buffer in shared or tensor memory.
    pub(super) fn shared_access(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        self.begin_op(op, env)?;
        let tile_elements = |id: Id| self.distribution(id).elements.iter().map(|element| u64::from(*element));
        match kind {
            Op::SharedStore { x, buffer, atom, .. } => {
                let slots = self.slots(*x, env);
                if self.store_with_cached_runs(op, *buffer, &slots, env) {
                    return Ok(Results::new());
                }
                let width = self.access_width(op, *atom, *buffer, *x)?;
                let transfer = self.buffer_transfer(op, *x, *buffer, tile_elements(*x), width)?;
                self.store_to_buffer(&transfer, &slots, env)?;
                self.cache_runs(&transfer);
                Ok(Results::new())
            }
            Op::SharedScatter { x, buffer, index, .. } => {
                let index = self.slots(*index, env);
                self.store_to_buffer(
                    &self.buffer_transfer(op, *x, *buffer, index.element_words().iter(), 1)?,
                    &self.slots(*x, env),
                    env,
                )
            }
            Op::SharedLoad { buffer, atom, .. } => {
                let result = self.result(op);
                if let Some(data) = self.load_with_cached_runs(op, *buffer, env) {
                    return self.load_result(op, result, data);
                }
                let width = self.access_width(op, *atom, *buffer, result)?;
                let transfer = self.buffer_transfer(op, result, *buffer, tile_elements(result), width)?;
                let loaded = self.load_from_buffer(&transfer, env)?;
                self.cache_runs(&transfer);
                Ok(loaded)
            }
            Op::SharedGather { buffer, index, .. } => {
                let index = self.slots(*index, env);
                self.load_from_buffer(&self.buffer_transfer(op, self.result(op), *buffer, index.element_words().iter(), 1)?, env)
            }
            Op::TmemLoad { buffer, from, .. } => {
                let result = self.result(op);
                if let Some(data) = self.load_with_cached_runs(op, *buffer, env) {
                    return self.load_result(op, result, data);
                }
                let elements = self.tmem_elements(op, result, *buffer, *from, env)?;
                let transfer = self.buffer_transfer(op, result, *buffer, elements, 1)?;
                let loaded = self.load_from_buffer(&transfer, env)?;
                self.cache_runs(&transfer);
                Ok(loaded)
            }
            Op::TmemStore { x, buffer, from, .. } => {
                let slots = self.slots(*x, env);
                if self.store_with_cached_runs(op, *buffer, &slots, env) {
                    return Ok(Results::new());
                }
                let elements = self.tmem_elements(op, *x, *buffer, *from, env)?;
                let transfer = self.buffer_transfer(op, *x, *buffer, elements, 1)?;
                self.store_to_buffer(&transfer, &slots, env)?;
                self.cache_runs(&transfer);
                Ok(Results::new())
            }
            _ => unreachable!("handles buffer accesses only"),
        }
    }

    /// Computes the runs of an access for later executions of its op. The first execution checked the access element by element.
    fn cache_runs(&self, transfer: &BufferTransfer<'_>) {
        let BufferTransfer { op, tile, distribution, ref offsets, element_bytes, width, .. } = *transfer;
        let is_store = self.source.body.ops[op].results.first() != Some(&tile);
        let accesses_buffer = |slot: &usize| !is_store || distribution.is_leader[distribution.thread_of(slot - slot % width)];
        let accesses = (0..offsets.len()).filter(accesses_buffer).map(|slot| (distribution.warp_of(slot), offsets[slot], slot));
        self.access_runs[op.0 as usize][0].get_or_init(|| AccessRuns::new(accesses, offsets.len(), element_bytes));
    }

    /// Loads with the cached runs of the op. Returns `None` if the op has no cached runs yet, or if the access is a fault.
    fn load_with_cached_runs(&self, op: OpId, buffer: Buffer, env: &mut Env<'_>) -> Option<Vec<u8>> {
        let runs = self.access_runs[op.0 as usize][0].get()?;
        runs.read(buffer.0 as usize, self.hazards(env)).ok()
    }

    /// Converts the bytes of a load to the result of its op.
    fn load_result(&self, op: OpId, result: Id, data: Vec<u8>) -> Result<Results> {
        let elem = self.elem(result);
        self.single_result(op, Tile::new(self.distribution(result).shape(), elem, buffer_words(elem, data)))
    }

    /// Stores with the cached runs of the op. Returns false if the op has no cached runs yet, or if the access is a fault.
    fn store_with_cached_runs(&self, op: OpId, buffer: Buffer, slots: &Tile, env: &mut Env<'_>) -> bool {
        let Some(runs) = self.access_runs[op.0 as usize][0].get() else { return false };
        runs.write(buffer.0 as usize, &buffer_bytes(slots), self.hazards(env)).is_ok()
    }

    /// Multiplies each row of an accumulator in tensor memory by a factor. Each thread multiplies its elements of a row by its copy
    /// of the factor. With `zero_init`, the old elements are zero.
    pub(super) fn tmem_scale(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::TmemScale { by, buffer, zero_init, atom, .. } = kind else { unreachable!("handles scaled accumulators only") };
        self.begin_op(op, env)?;
        let zero_init = env.tile(*zero_init).is_true();
        let missing = || self.invalid_op(op, format!("finds no rows of {buffer} for '{}'", atom.0.name));
        let info = self.source.attrs.buffers.get(*buffer).ok_or_else(missing)?;
        let (row_distribution, offsets) = (self.distribution(*by), &self.element_offsets[buffer.0 as usize]);
        let (layout, _) = atom.0.full_and_row_layouts(info, row_distribution.layout.warp.len()).ok_or_else(missing)?;
        let column_bits = info.shape.last().ok_or_else(missing)?.trailing_zeros();
        let distribution =
            Distribution::new(&layout, offsets.len().ilog2(), layout.warps()).map_err(|message| self.invalid_op(op, message))?;
        let first_warp = self.source.warp_roles.get(env.state.warp_role).map_or(0, |warp_role| warp_role.first_warp);
        let (factors, element_size) = (self.slots(*by, env), element_bytes(info.elem));
        let multiply = Binary::MulF { rounding: Rounding::NearestEven, ftz: false };
        for slot in 0..distribution.slot_count() {
            let (element, warp) = (distribution.elements[slot], distribution.warp_of(slot));
            let lane = info.tmem_position(element).ok_or_else(missing)?.lane as usize;
            if lane >> LANE_BITS != (warp + first_warp) % WARPS_OF_ALL_LANES {
                return Err(self.invalid_op(op, format!("accesses lane {lane} of tensor memory from a warp that cannot reach it")));
            }
            let factor_slot = row_distribution.slot_of(distribution.thread_of(slot), element >> column_bits).ok_or_else(missing)?;
            let (offset, mut data) = (offsets[element as usize] as usize * element_size, [0; 4]);
            if !zero_init {
                let read = self.hazards(env).read(buffer.0 as usize, offset, &mut data, warp);
                read.map_err(|fault| self.fault_error(op, Some(*buffer), fault, false))?;
            }
            let scaled = multiply.eval(Scalar::F32, u64::from(u32::from_le_bytes(data)), factors.element_words().get(factor_slot));
            let written = self.hazards(env).write(buffer.0 as usize, offset, &(scaled as u32).to_le_bytes(), warp);
            written.map_err(|fault| self.fault_error(op, Some(*buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    /// Returns for each slot of a tile the corresponding element of a TMEM buffer. Returns an error if a warp cannot access the
    /// TMEM lane of an element.
    fn tmem_elements(&self, op: OpId, tile: Id, buffer: Buffer, from: u32, env: &Env<'_>) -> Result<std::vec::IntoIter<u64>> {
        let missing = || self.invalid_op(op, format!("names a part of {buffer} that does not exist"));
        let info = self.source.attrs.buffers.get(buffer).ok_or_else(missing)?;
        let slice = TmemSlice::from_extents(&info.shape, self.ty(tile).shape(), from).ok_or_else(missing)?;
        let first_warp = self.source.warp_roles.get(env.state.warp_role).map_or(0, |warp_role| warp_role.first_warp);
        let distribution = self.distribution(tile);
        let element = |slot: usize| {
            let element = slice.buffer_element(distribution.elements[slot]);
            let lane = info.tmem_position(element).ok_or_else(missing)?.lane as usize;
            let accessible_quarter = (distribution.warp_of(slot) + first_warp) % WARPS_OF_ALL_LANES;
            match lane >> LANE_BITS == accessible_quarter {
                true => Ok(u64::from(element)),
                false => {
                    Err(self.invalid_op(op, format!("accesses lane {lane} of tensor memory from a warp that cannot reach it")))
                }
            }
        };
        Ok((0..distribution.slot_count()).map(element).collect::<Result<Vec<u64>>>()?.into_iter())
    }

    pub(super) fn buffer_info(&self, buffer: Buffer) -> &BufferInfo {
        &self.source.attrs.buffers[buffer]
    }

    /// Returns the source location of an op for a message. Empty if the location is unknown.
    fn location_text(&self, op: OpId) -> String {
        let position = self.source.debug.position(self.source.body.ops[op].loc);
        position.map_or(String::new(), |(file, line, column)| format!(" at {file}:{line}:{column}"))
    }

    /// Returns the error for a rejected access. `buffer` is `None` for global memory.
    pub(super) fn fault_error(&self, op: OpId, buffer: Option<Buffer>, fault: AccessFault, writes: bool) -> Box<Diagnostic> {
        let verb = if writes { "writes" } else { "reads" };
        let memory = buffer.map_or("global memory".to_string(), |buffer| buffer.to_string());
        match fault {
            AccessFault::Outside { byte, bytes } => {
                self.invalid_op(op, format!("{verb} byte {byte} of {memory}, whose size is {bytes}"))
            }
            AccessFault::Unwritten { byte } => {
                self.invalid_op(op, format!("reads byte {byte} of {memory}, which was never written"))
            }
            AccessFault::Foreign { byte, buffer } => {
                self.invalid_op(op, format!("reads byte {byte} of {memory}, which holds data of buffer{buffer}"))
            }
            AccessFault::Undeclared => self.invalid_op(op, format!("{verb} {memory}, which its declared effects do not list")),
            AccessFault::InFlight { op: other } => {
                let name = self.source.body.ops[other].kind.mnemonic();
                let message = format!("{verb} bytes of {memory} to which a '{name}'{} is in flight", self.location_text(other));
                Diagnostic::invalid("RUN078", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
            AccessFault::MmaInFlight { op: other } => {
                let name = self.source.body.ops[other].kind.mnemonic();
                let message = format!("{verb} bytes of {memory} that a '{name}'{} in flight reads", self.location_text(other));
                Diagnostic::invalid("RUN078", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
            AccessFault::Unfenced => {
                let name = self.source.body.ops[op].kind.mnemonic();
                Diagnostic::invalid(
                    "RUN079",
                    format!("'{name}' reads bytes of {memory} that were written without a subsequent proxy fence"),
                )
            }
            AccessFault::Race { op: other, writes: other_writes } => {
                let (node, location) = (&self.source.body.ops[other], self.location_text(other));
                let past_verb = if other_writes { "wrote" } else { "read" };
                let name = node.kind.mnemonic();
                let message = format!(
                    "{verb} bytes of {memory} that '{name}'{location} {past_verb} in another warp without a barrier between"
                );
                Diagnostic::invalid("RUN077", format!("'{}' {message}", self.source.body.ops[op].kind.mnemonic()))
            }
        }
    }
}
