//! Executes MMA ops. The module [`mma`] computes on complete tiles. This module checks that the operands are in the registers or
//! buffers that the atom requires.

use super::distribution::Distribution;
use super::shared::{buffer_bytes, buffer_words};
use super::{DistributedOp, DistributedProgram};
use crate::exec::{Env, Results};
use crate::race_detector::access_runs::AccessRuns;
use crate::race_detector::cta_memory::element_bytes;
use crate::race_detector::hazards::AccessFault;
use crate::tile::{Tile, mma};
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use core_dialect::tile::Shape;
use numerics::arith::Signedness;
use std::collections::BTreeSet;
use tileas::layout::{LANE_BITS, Strides};
use tileas::mma_sync_atoms::{Bit, Fragment, SyncAtom};
use tileas::tensor_memory::CTA_PAIR;
use tileas::{Buffer, MmaAtom, MmaOperand, Op};

/// The shapes of A, B and the accumulator, all with a leading batch dimension or all without.
struct MmaShapes([Shape; 3]);

impl MmaShapes {
    fn new(shapes: [Shape; 3]) -> Result<MmaShapes, String> {
        let [a, b, c] = [&shapes[0], &shapes[1], &shapes[2]];
        let rank = c.len();
        let ranks_match = (2..=3).contains(&rank) && a.len() == rank && b.len() == rank && a[rank - 1] == b[rank - 2];
        if !ranks_match || a[..rank - 1] != c[..rank - 1] || b[rank - 1] != c[rank - 1] || b[..rank - 2] != c[..rank - 2] {
            return Err(format!("multiplies {a:?} by {b:?} into {c:?}"));
        }
        Ok(MmaShapes(shapes))
    }

    /// Returns the rows and columns of a matrix: 0 for A, 1 for B, 2 for the accumulator.
    fn matrix_extents(&self, matrix: usize) -> [u32; 2] {
        let shape = &self.0[matrix];
        [shape[shape.len() - 2], shape[shape.len() - 1]]
    }

    /// Returns the elements of A and of B on which an accumulator element depends.
    fn operand_elements(&self, acc_element: u32) -> [Vec<u32>; 2] {
        let [a, b, c] = [0, 1, 2].map(|i| Strides::for_shape(&self.0[i]));
        let rank = self.0[2].len();
        let [row, column] = [rank - 2, rank - 1].map(|dim| c.coordinate(acc_element, dim));
        let batch = if rank == 3 { c.coordinate(acc_element, 0) } else { 0 };
        let batch_part = |strides: &Strides| if rank == 3 { batch << strides.shift[0] } else { 0 };
        let (a_start, b_start) = (batch_part(&a) | row << a.shift[rank - 2], batch_part(&b) | column);
        let depth = 0..self.0[0][rank - 1];
        [depth.clone().map(|k| a_start | k).collect(), depth.map(|k| b_start | k << b.shift[rank - 2]).collect()]
    }

    /// Returns two keys of an accumulator element: the first identifies its row and batch index, the second its column and batch
    /// index.
    fn row_and_column(&self, acc_element: u32) -> [u32; 2] {
        let (c, rank) = (Strides::for_shape(&self.0[2]), self.0[2].len());
        [acc_element & !c.mask(rank - 1), acc_element & !c.mask(rank - 2)]
    }
}

/// The order in which an MMA atom numbers the rows or columns of a tile.
#[derive(Clone, Copy)]
enum Numbering {
    /// In the order of the tile.
    Linear,
    /// In groups of sixteen: first the rows or columns of the tile with even numbers, then the rows or columns with odd numbers.
    Interleaved,
}

impl Numbering {
    /// Maps a bit of the atom's row or column number to the bit of the tile's row or column number.
    fn tile_bit(self, bit: u32) -> u32 {
        match self {
            Numbering::Interleaved if bit < 4 => (bit + 1) % 4,
            _ => bit,
        }
    }
}

/// Returns whether the operand `zero_init` of an MMA requests a zero-initialised accumulator. False without the operand.
fn is_zero_init(zero_init: Option<Id>, env: &Env<'_>) -> bool {
    zero_init.is_some_and(|zero_init| env.tile(zero_init).first() & 1 == 1)
}

/// Converts the flag of an integer MMA operand to its signedness.
fn signedness(signed: bool) -> Signedness {
    if signed { Signedness::Signed } else { Signedness::Unsigned }
}

/// Returns `c` plus the matmul of `a` and `b`, for complete tiles.
fn matmul(a: &Tile, b: &Tile, c: &Tile, signed_lhs: bool, signed_rhs: bool) -> Tile {
    match c.carrier().is_int() {
        true => mma::int_mma(a, signedness(signed_lhs), b, signedness(signed_rhs), c),
        false => mma::float_mma(a, b, c),
    }
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Checks that the shapes of an MMA match, and that its operands are in the registers or buffers that the atom requires.
    pub(super) fn check_mma(&self, kind: &Op) -> Result<(), String> {
        let Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, atom, .. } = kind else { unreachable!("handles MMA ops only") };
        let shapes = self.mma_shapes(lhs, rhs, acc)?;
        let MmaOperand::Registers(acc) = acc else {
            let operand_sources = [Some(lhs), Some(rhs), lhs_scale.as_ref(), rhs_scale.as_ref()];
            let in_memory = matches!(atom, MmaAtom::Tensor(_))
                && operand_sources.into_iter().flatten().all(|operand_source| operand_source.buffer().is_some());
            return if in_memory { Ok(()) } else { Err(format!("has its accumulator in memory, unlike {}", atom.name())) };
        };
        let scale = |operand_source: &Option<MmaOperand>| operand_source.and_then(|operand_source| operand_source.registers());
        let scales = scale(lhs_scale).zip(scale(rhs_scale)).map(|(lhs, rhs)| [lhs, rhs]);
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs)) => {
                self.check_fragments([*lhs, *rhs, *acc], scales, atom, &shapes)
            }
            (MmaAtom::Sync(atom), ..) => Err(format!("reads an operand from memory, which {} does not support", atom.name)),
            _ => Ok(()),
        }
    }

    /// Returns the shapes of A, B and the accumulator. If a buffer stores an operand transposed, the shape is the shape of the
    /// operand itself.
    fn mma_shapes(&self, lhs: &MmaOperand, rhs: &MmaOperand, acc: &MmaOperand) -> Result<MmaShapes, String> {
        let accumulators = match acc {
            MmaOperand::Registers(value) => self.shape(*value),
            MmaOperand::Memory { buffer, .. } => {
                self.source.attrs.buffers.get(*buffer).ok_or("has no accumulator buffer")?.shape.clone()
            }
        };
        let shape = |operand_source: &MmaOperand| match operand_source {
            MmaOperand::Registers(value) => Ok(self.shape(*value)),
            MmaOperand::Memory { buffer, transposed, .. } => self.matrix_shape_in_buffer(*buffer, *transposed, &accumulators),
        };
        let mut shapes = [shape(lhs)?, shape(rhs)?, accumulators.clone()];
        if let (true, MmaOperand::Memory { .. }, Some(columns)) = (self.source.attrs.cta_pair, acc, shapes[1].last_mut()) {
            *columns *= CTA_PAIR;
        }
        MmaShapes::new(shapes)
    }

    /// Returns the shape of the operand in a buffer. With `transposed`, the buffer stores the transposed operand.
    fn matrix_shape_in_buffer(&self, buffer: Buffer, transposed: bool, accumulators: &Shape) -> Result<Shape, String> {
        if buffer.0 as usize >= self.element_offsets.len() {
            return Err("names a buffer that the function does not define".into());
        }
        let shape = &self.buffer_info(buffer).shape;
        let (Some(batch_dims), Some(acc_batch_dims)) = (shape.len().checked_sub(2), accumulators.len().checked_sub(2)) else {
            return Err(format!("cannot read its operand from {buffer}"));
        };
        let mut matrix = [shape[batch_dims], shape[batch_dims + 1]];
        if transposed {
            matrix.reverse();
        }
        Ok(accumulators[..acc_batch_dims].iter().copied().chain(matrix).collect())
    }

    /// Checks that the lowest registers and the lanes of each tile match the atom's fragments. A warp must have the row of A and
    /// the column of B of each of its accumulator elements.
    fn check_fragments(
        &self,
        [lhs, rhs, acc_id]: [Id; 3],
        scales: Option<[Id; 2]>,
        atom: &SyncAtom,
        shapes: &MmaShapes,
    ) -> Result<(), String> {
        if (atom.scales > 0) != scales.is_some() {
            return Err(format!("does not fit the atom {}", atom.name));
        }
        self.check_fragment_layouts([lhs, rhs, acc_id], scales, atom)?;
        let acc = self.distribution(acc_id);
        let mut visited = BTreeSet::new();
        for slot in 0..acc.slot_count() {
            let (warp, acc_element) = (acc.warp_of(slot), acc.elements[slot]);
            let [row, column] = shapes.row_and_column(acc_element);
            let is_new = [visited.insert((warp, 0, row)), visited.insert((warp, 1, column))];
            if is_new == [false, false] {
                continue;
            }
            let mut needed: Vec<(Id, Vec<u32>)> = [lhs, rhs].into_iter().zip(shapes.operand_elements(acc_element)).collect();
            if let Some(scales) = scales {
                let shapes = MmaShapes::new([scales[0], scales[1], acc_id].map(|id| self.shape(id)))?;
                needed.extend(scales.into_iter().zip(shapes.operand_elements(acc_element)));
            }
            for (id, elements) in needed {
                let distribution = self.distribution(id);
                let is_in_warp = |element: u32| {
                    (warp << LANE_BITS..(warp + 1) << LANE_BITS).any(|thread| distribution.slot_of(thread, element).is_some())
                };
                if let Some(element) = elements.into_iter().find(|element| !is_in_warp(*element)) {
                    return Err(format!("needs element {element} of {id}, which warp {warp} does not hold"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the layouts of all operands match the fragments of the atom. The check tries each numbering for the rows of the
    /// accumulator with each numbering for the columns. If every combination of numberings fails, returns the error of the linear
    /// numberings.
    fn check_fragment_layouts(&self, [lhs, rhs, acc]: [Id; 3], scales: Option<[Id; 2]>, atom: &SyncAtom) -> Result<(), String> {
        let check_numberings = |rows: Numbering, columns: Numbering| {
            self.check_fragment(lhs, atom.a, rows, Numbering::Linear)?;
            self.check_fragment(rhs, atom.b, Numbering::Linear, columns)?;
            self.check_fragment(acc, atom.c, rows, columns)?;
            if let Some([lhs_scales, rhs_scales]) = scales {
                self.check_scales(lhs_scales, atom, true, rows)?;
                self.check_scales(rhs_scales, atom, false, columns)?;
            }
            Ok(())
        };
        let numberings = [Numbering::Linear, Numbering::Interleaved];
        let mut outcomes = numberings.into_iter().flat_map(|rows| numberings.map(|columns| check_numberings(rows, columns)));
        let linear_outcome = outcomes.next().expect("there are four combinations");
        if outcomes.any(|other| other.is_ok()) { Ok(()) } else { linear_outcome }
    }

    /// Checks that the lowest registers and the lanes of a layout match a fragment.
    fn check_fragment(&self, id: Id, fragment: &Fragment, rows: Numbering, columns: Numbering) -> Result<(), String> {
        let (layout, strides) = (&self.distribution(id).layout, Strides::for_shape(self.ty(id).shape()));
        let rank = strides.shift.len();
        let basis = |bit: &Bit| match bit {
            // If the tile has fewer rows or columns than the atom, the remaining lanes have copies.
            Bit::Row(i) if *i >= strides.bits[rank - 2] => 0,
            Bit::Col(i) if *i >= strides.bits[rank - 1] => 0,
            Bit::Row(i) => 1u32 << (strides.shift[rank - 2] + rows.tile_bit(*i)),
            Bit::Col(i) => 1u32 << columns.tile_bit(*i),
        };
        let registers: Vec<u32> = fragment.register.iter().map(basis).collect();
        let lanes: Vec<u32> = fragment.lane.iter().map(basis).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("has {id} in a layout that does not match the atom: {layout:?}")),
        }
    }

    /// Checks the layout of scales. The lanes of a quad from which the atom reads the scales of a row of A (or a column of B) must
    /// have the scales of this row or column. The lowest registers must have the scales of one atom.
    fn check_scales(&self, id: Id, atom: &SyncAtom, of_lhs: bool, numbering: Numbering) -> Result<(), String> {
        let (layout, strides) = (&self.distribution(id).layout, Strides::for_shape(self.ty(id).shape()));
        let rank = strides.shift.len();
        let (line_dim, block_dim) = if of_lhs { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
        let line_basis = |bit: u32| 1 << (strides.shift[line_dim] + numbering.tile_bit(bit));
        let lanes = [if of_lhs { line_basis(3) } else { 0 }, 0, line_basis(0), line_basis(1), line_basis(2)];
        let registers: Vec<u32> = (0..atom.scales.trailing_zeros()).map(|bit| 1 << (strides.shift[block_dim] + bit)).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("has the scales {id} in a layout that does not match the atom: {layout:?}")),
        }
    }

    /// Executes an MMA. For operands in buffers, each warp reads the rows of A and the columns of B that its accumulator elements
    /// need.
    pub(super) fn mma(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("handles MMA ops only")
        };
        let shapes = self.mma_shapes(lhs, rhs, acc).map_err(|message| self.invalid_op(op, message))?;
        let MmaOperand::Registers(acc) = acc else { return self.mma_in_tmem(op, kind, &shapes, env) };
        let in_memory = [lhs, rhs].map(|operand_source| match operand_source {
            MmaOperand::Memory { buffer, transposed, .. } => Some((*buffer, *transposed)),
            MmaOperand::Registers(_) => None,
        });
        if in_memory != [None, None] {
            self.begin_op(op, env)?;
        }
        let runs = self.read_operands_in_runs(op, in_memory, self.distribution(*acc), &shapes, env);
        let [lhs_data, rhs_data] = match runs {
            Ok(data) => data,
            Err(_) => self.read_operands_by_element(op, in_memory, self.distribution(*acc), &shapes, env)?,
        };
        let operand = |operand_source: &MmaOperand, shape: &Shape, data: Vec<u8>| match operand_source {
            MmaOperand::Registers(value) => self.gathered(*value, env),
            MmaOperand::Memory { buffer, .. } => {
                let elem = self.buffer_info(*buffer).elem;
                Ok(Tile::new(shape.clone(), elem, buffer_words(elem, data)))
            }
        };
        let (a, b) = (operand(lhs, &shapes.0[0], lhs_data)?, operand(rhs, &shapes.0[1], rhs_data)?);
        let c = match is_zero_init(*zero_init, env) {
            true => Tile::splat(shapes.0[2].clone(), self.elem(*acc), 0),
            false => self.gathered(*acc, env)?,
        };
        let gathered = match (lhs_scale, rhs_scale) {
            (Some(MmaOperand::Registers(of_lhs)), Some(MmaOperand::Registers(of_rhs))) => {
                mma::scaled_mma(&a, &b, &c, &self.gathered(*of_lhs, env)?, &self.gathered(*of_rhs, env)?)
            }
            _ => matmul(&a, &b, &c, *signed_lhs, *signed_rhs),
        };
        self.single_result(op, self.distribute(self.result(op), &gathered))
    }

    /// Reads A and B from buffers, in runs. Returns the bytes of A and of B, empty for an operand in registers. Each warp reads the
    /// rows of A and the columns of B that its accumulator elements need.
    fn read_operands_in_runs(
        &self,
        op: OpId,
        in_memory: [Option<(Buffer, bool)>; 2],
        distribution: &Distribution,
        shapes: &MmaShapes,
        env: &mut Env<'_>,
    ) -> Result<[Vec<u8>; 2], AccessFault> {
        let mut data = [Vec::new(), Vec::new()];
        for (side, operand_source) in in_memory.into_iter().enumerate() {
            let Some((buffer, transposed)) = operand_source else { continue };
            let runs = self.access_runs[op.0 as usize][side].get_or_init(|| {
                let (offsets, size) = (&self.element_offsets[buffer.0 as usize], element_bytes(self.buffer_info(buffer).elem));
                let ([rows, columns], mut visited, mut accesses) = (shapes.matrix_extents(side), BTreeSet::new(), Vec::new());
                let buffer_element = |element: u32| if transposed { element % columns * rows + element / columns } else { element };
                for slot in 0..distribution.slot_count() {
                    let (warp, acc_element) = (distribution.warp_of(slot), distribution.elements[slot]);
                    if visited.insert((warp, shapes.row_and_column(acc_element)[side])) {
                        let byte_offset = |element: u32| offsets[buffer_element(element) as usize] as usize * size;
                        accesses.extend(
                            shapes.operand_elements(acc_element)[side]
                                .iter()
                                .map(|element| (warp, byte_offset(*element), *element as usize)),
                        );
                    }
                }
                AccessRuns::new(accesses.into_iter(), offsets.len(), size)
            });
            data[side] = runs.read(buffer.0 as usize, self.hazards(env))?;
        }
        Ok(data)
    }

    /// Reads A and B from buffers, as `read_operands_in_runs` does, but element by element. Reason: this order finds the first
    /// fault.
    fn read_operands_by_element(
        &self,
        op: OpId,
        in_memory: [Option<(Buffer, bool)>; 2],
        distribution: &Distribution,
        shapes: &MmaShapes,
        env: &mut Env<'_>,
    ) -> Result<[Vec<u8>; 2]> {
        let mut data = in_memory.map(|operand_source| {
            operand_source.map_or(Vec::new(), |(buffer, _)| {
                vec![0; self.element_offsets[buffer.0 as usize].len() * element_bytes(self.buffer_info(buffer).elem)]
            })
        });
        let mut visited = BTreeSet::new();
        for slot in 0..distribution.slot_count() {
            let (warp, acc_element) = (distribution.warp_of(slot), distribution.elements[slot]);
            let needed = shapes.operand_elements(acc_element);
            for (side, line) in shapes.row_and_column(acc_element).into_iter().enumerate() {
                let Some((buffer, transposed)) = in_memory[side] else { continue };
                if visited.insert((warp, side, line)) {
                    let [rows, columns] = shapes.matrix_extents(side);
                    let buffer_element =
                        |element: u32| if transposed { element % columns * rows + element / columns } else { element };
                    let elements = needed[side].iter().map(|element| (buffer_element(*element), *element));
                    self.read_elements(op, buffer, elements, warp, &mut data[side], env)?;
                }
            }
        }
        Ok(data)
    }

    /// Executes an MMA with operands in shared or tensor memory and the accumulator in tensor memory (`tcgen05.mma`). One elected
    /// thread issues the MMA.
    fn mma_in_tmem(&self, op: OpId, kind: &Op, shapes: &MmaShapes, env: &mut Env<'_>) -> Result<Results> {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("handles MMA ops only")
        };
        self.begin_op(op, env)?;
        let read_matrix = |operand_source: &MmaOperand, matrix: usize, env: &mut Env<'_>| -> Result<Tile> {
            let MmaOperand::Memory { buffer, transposed, .. } = operand_source else { unreachable!("checked in advance") };
            let (elem, [rows, columns]) = (self.buffer_info(*buffer).elem, shapes.matrix_extents(matrix));
            let buffer_element = |element: u32| if *transposed { element % columns * rows + element / columns } else { element };
            let count = rows * columns;
            let data = match self
                .cached_runs(op, *buffer, matrix, (0..count).map(buffer_element))
                .read(buffer.0 as usize, self.hazards(env))
            {
                Ok(data) => data,
                Err(_) => {
                    let mut data = vec![0; count as usize * element_bytes(elem)];
                    self.read_elements(
                        op,
                        *buffer,
                        (0..count).map(|element| (buffer_element(element), element)),
                        0,
                        &mut data,
                        env,
                    )?;
                    data
                }
            };
            Ok(Tile::new(shapes.0[matrix].clone(), elem, buffer_words(elem, data)))
        };
        let (a, b) = match self.source.attrs.cta_pair {
            false => (read_matrix(lhs, 0, env)?, read_matrix(rhs, 1, env)?),
            true => (read_matrix(lhs, 0, env)?, self.read_rhs_of_pair(op, rhs, shapes, env)?),
        };
        let MmaOperand::Memory { buffer, .. } = acc else { unreachable!("accumulators in registers are handled elsewhere") };
        let elem = self.buffer_info(*buffer).elem;
        let c = match is_zero_init(*zero_init, env) {
            true => Tile::splat(shapes.0[2].clone(), elem, 0),
            false => read_matrix(acc, 2, env)?,
        };
        let gathered = match (lhs_scale, rhs_scale) {
            (Some(of_lhs), Some(of_rhs)) => {
                let [of_lhs, of_rhs] = [self.read_scales(op, of_lhs, env)?, self.read_scales(op, of_rhs, env)?];
                let block_size = |scales: &Tile, dim: usize| shapes.matrix_extents(0)[1] / scales.shape[dim].max(1);
                let [m, n] = shapes.matrix_extents(2);
                if of_lhs.shape[0] != m || of_rhs.shape[1] != n || block_size(&of_lhs, 1) != block_size(&of_rhs, 0) {
                    return Err(self.invalid_op(op, format!("scales {:?} by {:?}", of_lhs.shape, of_rhs.shape)));
                }
                mma::scaled_mma(&a, &b, &c, &of_lhs, &of_rhs)
            }
            _ => matmul(&a, &b, &c, *signed_lhs, *signed_rhs),
        };
        let accumulators = buffer_bytes(&gathered);
        let (size, offsets) = (element_bytes(elem), &self.element_offsets[buffer.0 as usize]);
        let runs = self.cached_runs(op, *buffer, 3, 0..(accumulators.len() / size) as u32);
        if runs.write(buffer.0 as usize, &accumulators, self.hazards(env)).is_ok() {
            return Ok(Results::new());
        }
        for (element, data) in accumulators.chunks_exact(size).enumerate() {
            let written = self.hazards(env).write(buffer.0 as usize, offsets[element] as usize * size, data, 0);
            written.map_err(|fault| self.fault_error(op, Some(*buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    /// Reads B of a CTA-pair MMA. Each CTA has half of the columns: the CTA of rank 0 has the lower half.
    fn read_rhs_of_pair(&self, op: OpId, operand_source: &MmaOperand, shapes: &MmaShapes, env: &mut Env<'_>) -> Result<Tile> {
        let MmaOperand::Memory { buffer, transposed, .. } = operand_source else { unreachable!("checked in advance") };
        let (elem, [rows, columns], rank) =
            (self.buffer_info(*buffer).elem, shapes.matrix_extents(1), env.state.block_position.rank);
        let mut data = vec![0; (rows * columns) as usize * element_bytes(elem)];
        let columns_per_cta = columns / CTA_PAIR;
        for half_rank in 0..CTA_PAIR {
            let buffer_element =
                |row: u32, column: u32| if *transposed { column * rows + row } else { row * columns_per_cta + column };
            let elements = (0..rows).flat_map(|row| (0..columns_per_cta).map(move |column| (row, column)));
            let elements =
                elements.map(|(row, column)| (buffer_element(row, column), row * columns + half_rank * columns_per_cta + column));
            self.hazards(env).shared.select_half(half_rank != rank);
            let read = self.read_elements(op, *buffer, elements, 0, &mut data, env);
            self.hazards(env).shared.select_half(false);
            read?;
        }
        Ok(Tile::new(shapes.0[1].clone(), elem, buffer_words(elem, data)))
    }

    /// Reads the scales of an operand. The buffer has several copies of the scales. All copies must be equal, because the tensor
    /// cores may read any of them.
    fn read_scales(&self, op: OpId, operand_source: &MmaOperand, env: &mut Env<'_>) -> Result<Tile> {
        let valid_buffer = operand_source.buffer().filter(|buffer| (buffer.0 as usize) < self.element_offsets.len());
        let buffer = valid_buffer.ok_or_else(|| self.invalid_op(op, "needs its scales in a buffer"))?;
        let (elem, shape) = (self.buffer_info(buffer).elem, &self.buffer_info(buffer).shape);
        let &[copies, rows, columns] = &shape[..] else {
            return Err(self.invalid_op(op, format!("cannot read its scales from {buffer} of shape {shape:?}")));
        };
        let count = copies * rows * columns;
        let mut data = vec![0; count as usize * element_bytes(elem)];
        self.read_elements(op, buffer, (0..count).map(|element| (element, element)), 0, &mut data, env)?;
        let mut copy_data = data.chunks_exact(data.len() / copies as usize);
        let first = copy_data.next().unwrap_or_default().to_vec();
        if copy_data.any(|other| other != first) {
            return Err(self.invalid_op(op, format!("finds different scales in the copies of {buffer}")));
        }
        Ok(Tile::new([rows, columns].into_iter().collect(), elem, buffer_words(elem, first)))
    }

    /// Returns the runs of contiguous bytes of an access to elements of a buffer by warp 0. The runs depend only on the op, so the
    /// first execution stores them in entry `run_index` of the op.
    fn cached_runs(&self, op: OpId, buffer: Buffer, run_index: usize, elements: impl ExactSizeIterator<Item = u32>) -> &AccessRuns {
        self.access_runs[op.0 as usize][run_index].get_or_init(|| {
            let (size, count, offsets) =
                (element_bytes(self.buffer_info(buffer).elem), elements.len(), &self.element_offsets[buffer.0 as usize]);
            let access = |(position, element): (usize, u32)| (0, offsets[element as usize] as usize * size, position);
            AccessRuns::new(elements.enumerate().map(access), count, size)
        })
    }

    /// Reads elements of a buffer. `elements` yields for each element its number in the buffer and its position in `data`.
    fn read_elements(
        &self,
        op: OpId,
        buffer: Buffer,
        elements: impl Iterator<Item = (u32, u32)>,
        warp: usize,
        data: &mut [u8],
        env: &mut Env<'_>,
    ) -> Result<()> {
        let (size, offsets) = (element_bytes(self.buffer_info(buffer).elem), &self.element_offsets[buffer.0 as usize]);
        for (element, position) in elements {
            let (byte, position) = (offsets[element as usize] as usize * size, position as usize * size);
            let read = self.hazards(env).read(buffer.0 as usize, byte, &mut data[position..position + size], warp);
            read.map_err(|fault| self.fault_error(op, Some(buffer), fault, false))?;
        }
        Ok(())
    }
}
