//! MMA ops. The arithmetic is defined on gathered tiles; this module checks that the operands are in the registers or buffers that
//! the atom requires.

use super::access_runs::AccessRuns;
use super::distribution::Distribution;
use super::hazards::Fault;
use super::shared::{buffer_bytes, buffer_lanes, bytes};
use super::{DistributedProgram, Step};
use crate::exec::{Env, Results};
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

/// The shapes of both operands and the accumulator, optionally with a leading batch dimension.
struct Extents([Shape; 3]);

impl Extents {
    fn new(shapes: [Shape; 3]) -> Result<Extents, String> {
        let [a, b, c] = [&shapes[0], &shapes[1], &shapes[2]];
        let rank = c.len();
        let fits = (2..=3).contains(&rank) && a.len() == rank && b.len() == rank && a[rank - 1] == b[rank - 2];
        if !fits || a[..rank - 1] != c[..rank - 1] || b[rank - 1] != c[rank - 1] || b[..rank - 2] != c[..rank - 2] {
            return Err(format!("multiplies {a:?} by {b:?} into {c:?}"));
        }
        Ok(Extents(shapes))
    }

    /// Returns the last two extents of an operand.
    fn matrix_extents(&self, side: usize) -> [u32; 2] {
        let shape = &self.0[side];
        [shape[shape.len() - 2], shape[shape.len() - 1]]
    }

    /// Returns the operand elements that an accumulator element depends on.
    fn needed(&self, acc_element: u32) -> [Vec<u32>; 2] {
        let [a, b, c] = [0, 1, 2].map(|i| Strides::of(&self.0[i]));
        let rank = self.0[2].len();
        let [row, column] = [rank - 2, rank - 1].map(|dim| c.coordinate(acc_element, dim));
        let batch = if rank == 3 { c.coordinate(acc_element, 0) } else { 0 };
        let outer = |strides: &Strides| if rank == 3 { batch << strides.shift[0] } else { 0 };
        let (left, right) = (outer(&a) | row << a.shift[rank - 2], outer(&b) | column);
        let depth = 0..self.0[0][rank - 1];
        [depth.clone().map(|k| left | k).collect(), depth.map(|k| right | k << b.shift[rank - 2]).collect()]
    }

    /// Returns the row and the column of an accumulator element.
    fn row_and_column(&self, acc_element: u32) -> [u32; 2] {
        let (c, rank) = (Strides::of(&self.0[2]), self.0[2].len());
        [acc_element & !c.mask(rank - 1), acc_element & !c.mask(rank - 2)]
    }
}

/// The order in which an atom numbers the rows or columns of a tile: linear, or in groups of sixteen with the even numbers before
/// the odd ones.
#[derive(Clone, Copy)]
enum Numbering {
    Plain,
    Interleaved,
}

impl Numbering {
    /// Returns the bit of the tile's row or column number that an atom's bit represents.
    fn number(self, bit: u32) -> u32 {
        match self {
            Numbering::Interleaved if bit < 4 => (bit + 1) % 4,
            _ => bit,
        }
    }
}

/// Returns whether the MMA starts from a zero-initialised accumulator.
fn is_zero_init(zero_init: Option<Id>, env: &Env<'_>) -> bool {
    zero_init.is_some_and(|zero_init| env.tile(zero_init).first() & 1 == 1)
}

fn sign(signed: bool) -> Signedness {
    if signed { Signedness::Signed } else { Signedness::Unsigned }
}

fn matmul(a: &Tile, b: &Tile, c: &Tile, signed_lhs: bool, signed_rhs: bool) -> Tile {
    match c.carrier().is_int() {
        true => mma::int_mma(a, sign(signed_lhs), b, sign(signed_rhs), c),
        false => mma::float_mma(a, b, c),
    }
}

impl<O: Step> DistributedProgram<'_, O> {
    /// Checks that the operands are where the atom requires them.
    pub(super) fn check_mma(&self, kind: &Op) -> Result<(), String> {
        let Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, atom, .. } = kind else { unreachable!("handles MMA ops only") };
        let extents = self.extents(lhs, rhs, acc)?;
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
                self.check_fragments([*lhs, *rhs, *acc], scales, atom, &extents)
            }
            (MmaAtom::Sync(atom), ..) => Err(format!("reads an operand from memory, which {} does not support", atom.name)),
            _ => Ok(()),
        }
    }

    fn extents(&self, lhs: &MmaOperand, rhs: &MmaOperand, acc: &MmaOperand) -> Result<Extents, String> {
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
        Extents::new(shapes)
    }

    /// Returns the shape of the matrix in a buffer, which may store it transposed.
    fn matrix_shape_in_buffer(&self, buffer: Buffer, transposed: bool, accumulators: &Shape) -> Result<Shape, String> {
        if buffer.0 as usize >= self.offsets.len() {
            return Err("names a buffer that the function does not define".into());
        }
        let shape = &self.buffer_info(buffer).shape;
        let (Some(rank), Some(outer)) = (shape.len().checked_sub(2), accumulators.len().checked_sub(2)) else {
            return Err(format!("cannot read its operand from {buffer}"));
        };
        let mut last = [shape[rank], shape[rank + 1]];
        if transposed {
            last.reverse();
        }
        Ok(accumulators[..outer].iter().copied().chain(last).collect())
    }

    /// Checks that the lowest registers and the lanes of each tile match the atom's fragments. A warp must hold the row of A and
    /// the column of B of each of its accumulator elements.
    fn check_fragments(
        &self,
        [lhs, rhs, acc_id]: [Id; 3],
        scales: Option<[Id; 2]>,
        atom: &SyncAtom,
        extents: &Extents,
    ) -> Result<(), String> {
        if (atom.scales > 0) != scales.is_some() {
            return Err(format!("does not fit the atom {}", atom.name));
        }
        self.check_lines([lhs, rhs, acc_id], scales, atom)?;
        let acc = self.distribution(acc_id);
        let mut known = BTreeSet::new();
        for slot in 0..acc.slots() {
            let (warp, acc_element) = (acc.warp(slot), acc.elements[slot]);
            let [row, column] = extents.row_and_column(acc_element);
            let news = [known.insert((warp, 0, row)), known.insert((warp, 1, column))];
            if news == [false, false] {
                continue;
            }
            let mut needed: Vec<(Id, Vec<u32>)> = [lhs, rhs].into_iter().zip(extents.needed(acc_element)).collect();
            if let Some(scales) = scales {
                let extents = Extents::new([scales[0], scales[1], acc_id].map(|id| self.shape(id)))?;
                needed.extend(scales.into_iter().zip(extents.needed(acc_element)));
            }
            for (id, elements) in needed {
                let distribution = self.distribution(id);
                let held = |element: u32| {
                    (warp << LANE_BITS..(warp + 1) << LANE_BITS).any(|thread| distribution.slot(thread, element).is_some())
                };
                if let Some(element) = elements.into_iter().find(|element| !held(*element)) {
                    return Err(format!("needs element {element} of {id}, which warp {warp} does not hold"));
                }
            }
        }
        Ok(())
    }

    /// Checks that all operands match the atom's fragments under one of the two numberings of rows and columns.
    fn check_lines(&self, [lhs, rhs, acc]: [Id; 3], scales: Option<[Id; 2]>, atom: &SyncAtom) -> Result<(), String> {
        let as_numbered = |rows: Numbering, columns: Numbering| {
            self.check_fragment(lhs, atom.a, rows, Numbering::Plain)?;
            self.check_fragment(rhs, atom.b, Numbering::Plain, columns)?;
            self.check_fragment(acc, atom.c, rows, columns)?;
            if let Some([of_lhs, of_rhs]) = scales {
                self.check_scales(of_lhs, atom, true, rows)?;
                self.check_scales(of_rhs, atom, false, columns)?;
            }
            Ok(())
        };
        let each = [Numbering::Plain, Numbering::Interleaved];
        let mut tried = each.into_iter().flat_map(|rows| each.map(|columns| as_numbered(rows, columns)));
        let plain = tried.next().expect("there are four combinations");
        if tried.any(|other| other.is_ok()) { Ok(()) } else { plain }
    }

    fn check_fragment(&self, id: Id, fragment: &Fragment, rows: Numbering, columns: Numbering) -> Result<(), String> {
        let (layout, strides) = (&self.distribution(id).layout, Strides::of(self.ty(id).shape()));
        let rank = strides.shift.len();
        let element = |bit: &Bit| match bit {
            // If the tile has fewer rows or columns than the atom, the remaining lanes hold copies.
            Bit::Row(i) if *i >= strides.bits[rank - 2] => 0,
            Bit::Col(i) if *i >= strides.bits[rank - 1] => 0,
            Bit::Row(i) => 1u32 << (strides.shift[rank - 2] + rows.number(*i)),
            Bit::Col(i) => 1u32 << columns.number(*i),
        };
        let registers: Vec<u32> = fragment.register.iter().map(element).collect();
        let lanes: Vec<u32> = fragment.lane.iter().map(element).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("has {id} in a layout that does not match the atom: {layout:?}")),
        }
    }

    /// Checks the layout of scales. The lanes of the quad from which the atom reads the scales of a row must hold them. The lowest
    /// registers must hold the scales of one atom.
    fn check_scales(&self, id: Id, atom: &SyncAtom, of_lhs: bool, numbering: Numbering) -> Result<(), String> {
        let (layout, strides) = (&self.distribution(id).layout, Strides::of(self.ty(id).shape()));
        let rank = strides.shift.len();
        let (line, block) = if of_lhs { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
        let line = |bit: u32| 1 << (strides.shift[line] + numbering.number(bit));
        let lanes = [if of_lhs { line(3) } else { 0 }, 0, line(0), line(1), line(2)];
        let registers: Vec<u32> = (0..atom.scales.trailing_zeros()).map(|bit| 1 << (strides.shift[block] + bit)).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("has the scales {id} in a layout that does not match the atom: {layout:?}")),
        }
    }

    /// Executes an MMA. Each warp reads the operand rows and columns that its accumulators need from the operand buffers.
    pub(super) fn mma(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("handles MMA ops only")
        };
        let extents = self.extents(lhs, rhs, acc).map_err(|message| self.invalid_op(op, message))?;
        let MmaOperand::Registers(acc) = acc else { return self.mma_in_tmem(op, kind, &extents, env) };
        let in_memory = [lhs, rhs].map(|operand_source| match operand_source {
            MmaOperand::Memory { buffer, transposed, .. } => Some((*buffer, *transposed)),
            MmaOperand::Registers(_) => None,
        });
        if in_memory != [None, None] {
            self.begin(op, env)?;
        }
        let runs = self.read_operands_in_runs(op, in_memory, self.distribution(*acc), &extents, env);
        let [left, right] = match runs {
            Ok(data) => data,
            Err(_) => self.read_lines(op, in_memory, self.distribution(*acc), &extents, env)?,
        };
        let operand = |operand_source: &MmaOperand, shape: &Shape, data: Vec<u8>| match operand_source {
            MmaOperand::Registers(value) => self.gathered(*value, env),
            MmaOperand::Memory { buffer, .. } => {
                let elem = self.buffer_info(*buffer).elem;
                Ok(Tile::new(shape.clone(), elem, buffer_lanes(elem, data)))
            }
        };
        let (a, b) = (operand(lhs, &extents.0[0], left)?, operand(rhs, &extents.0[1], right)?);
        let c = match is_zero_init(*zero_init, env) {
            true => Tile::splat(extents.0[2].clone(), self.elem(*acc), 0),
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

    /// Returns the bytes of each operand in a buffer. Each warp reads the rows or columns that its accumulators need.
    fn read_operands_in_runs(
        &self,
        op: OpId,
        in_memory: [Option<(Buffer, bool)>; 2],
        distribution: &Distribution,
        extents: &Extents,
        env: &mut Env<'_>,
    ) -> Result<[Vec<u8>; 2], Fault> {
        let mut data = [Vec::new(), Vec::new()];
        for (side, operand_source) in in_memory.into_iter().enumerate() {
            let Some((buffer, transposed)) = operand_source else { continue };
            let runs = self.access_runs[op.0 as usize][side].get_or_init(|| {
                let (offsets, size) = (&self.offsets[buffer.0 as usize], bytes(self.buffer_info(buffer).elem));
                let ([rows, columns], mut known, mut accesses) = (extents.matrix_extents(side), BTreeSet::new(), Vec::new());
                let buffer_element = |element: u32| if transposed { element % columns * rows + element / columns } else { element };
                for slot in 0..distribution.slots() {
                    let (warp, acc_element) = (distribution.warp(slot), distribution.elements[slot]);
                    if known.insert((warp, extents.row_and_column(acc_element)[side])) {
                        let byte_offset = |element: u32| offsets[buffer_element(element) as usize] as usize * size;
                        accesses.extend(
                            extents.needed(acc_element)[side]
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

    /// Like `read_operands_in_runs`, but element by element, to find the first fault.
    fn read_lines(
        &self,
        op: OpId,
        in_memory: [Option<(Buffer, bool)>; 2],
        distribution: &Distribution,
        extents: &Extents,
        env: &mut Env<'_>,
    ) -> Result<[Vec<u8>; 2]> {
        let mut data = in_memory.map(|operand_source| {
            operand_source.map_or(Vec::new(), |(buffer, _)| {
                vec![0; self.offsets[buffer.0 as usize].len() * bytes(self.buffer_info(buffer).elem)]
            })
        });
        let mut known = BTreeSet::new();
        for slot in 0..distribution.slots() {
            let (warp, acc_element) = (distribution.warp(slot), distribution.elements[slot]);
            let needed = extents.needed(acc_element);
            for (side, line) in extents.row_and_column(acc_element).into_iter().enumerate() {
                let Some((buffer, transposed)) = in_memory[side] else { continue };
                if known.insert((warp, side, line)) {
                    let [rows, columns] = extents.matrix_extents(side);
                    let buffer_element =
                        |element: u32| if transposed { element % columns * rows + element / columns } else { element };
                    let elements = needed[side].iter().map(|element| (buffer_element(*element), *element));
                    self.read_elements(op, buffer, elements, warp, &mut data[side], env)?;
                }
            }
        }
        Ok(data)
    }

    /// Executes an MMA whose operands and accumulator are in shared and tensor memory. One elected thread issues it.
    fn mma_in_tmem(&self, op: OpId, kind: &Op, extents: &Extents, env: &mut Env<'_>) -> Result<Results> {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("handles MMA ops only")
        };
        self.begin(op, env)?;
        let read = |operand_source: &MmaOperand, side: usize, env: &mut Env<'_>| -> Result<Tile> {
            let MmaOperand::Memory { buffer, transposed, .. } = operand_source else { unreachable!("checked in advance") };
            let (elem, [rows, columns]) = (self.buffer_info(*buffer).elem, extents.matrix_extents(side));
            let buffer_element = |element: u32| if *transposed { element % columns * rows + element / columns } else { element };
            let count = rows * columns;
            let data = match self
                .cached_runs(op, *buffer, side, (0..count).map(buffer_element))
                .read(buffer.0 as usize, self.hazards(env))
            {
                Ok(data) => data,
                Err(_) => {
                    let mut data = vec![0; count as usize * bytes(elem)];
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
            Ok(Tile::new(extents.0[side].clone(), elem, buffer_lanes(elem, data)))
        };
        let (a, b) = match self.source.attrs.cta_pair {
            false => (read(lhs, 0, env)?, read(rhs, 1, env)?),
            true => (read(lhs, 0, env)?, self.read_rhs_of_pair(op, rhs, extents, env)?),
        };
        let MmaOperand::Memory { buffer, .. } = acc else { unreachable!("accumulators in registers are handled elsewhere") };
        let elem = self.buffer_info(*buffer).elem;
        let c = match is_zero_init(*zero_init, env) {
            true => Tile::splat(extents.0[2].clone(), elem, 0),
            false => read(acc, 2, env)?,
        };
        let gathered = match (lhs_scale, rhs_scale) {
            (Some(of_lhs), Some(of_rhs)) => {
                let [of_lhs, of_rhs] = [self.scales(op, of_lhs, env)?, self.scales(op, of_rhs, env)?];
                let block = |scales: &Tile, dim: usize| extents.matrix_extents(0)[1] / scales.shape[dim].max(1);
                let [m, n] = extents.matrix_extents(2);
                if of_lhs.shape[0] != m || of_rhs.shape[1] != n || block(&of_lhs, 1) != block(&of_rhs, 0) {
                    return Err(self.invalid_op(op, format!("scales {:?} by {:?}", of_lhs.shape, of_rhs.shape)));
                }
                mma::scaled_mma(&a, &b, &c, &of_lhs, &of_rhs)
            }
            _ => matmul(&a, &b, &c, *signed_lhs, *signed_rhs),
        };
        let accumulators = buffer_bytes(&gathered);
        let (size, offsets) = (bytes(elem), &self.offsets[buffer.0 as usize]);
        let runs = self.cached_runs(op, *buffer, 3, 0..(accumulators.len() / size) as u32);
        if runs.write(buffer.0 as usize, &accumulators, self.hazards(env)).is_ok() {
            return Ok(Results::new());
        }
        for (element, data) in accumulators.chunks_exact(size).enumerate() {
            let written = self.hazards(env).write(buffer.0 as usize, offsets[element] as usize * size, data, 0);
            written.map_err(|fault| self.fault(op, Some(*buffer), fault, true))?;
        }
        Ok(Results::new())
    }

    /// Reads the right operand of a CTA-pair MMA. Each CTA holds half of the columns, the first CTA the lower half.
    fn read_rhs_of_pair(&self, op: OpId, operand_source: &MmaOperand, extents: &Extents, env: &mut Env<'_>) -> Result<Tile> {
        let MmaOperand::Memory { buffer, transposed, .. } = operand_source else { unreachable!("checked in advance") };
        let (elem, [rows, columns], rank) =
            (self.buffer_info(*buffer).elem, extents.matrix_extents(1), env.state.block_position.rank);
        let mut data = vec![0; (rows * columns) as usize * bytes(elem)];
        let own = columns / CTA_PAIR;
        for block in 0..CTA_PAIR {
            let buffer_element = |row: u32, column: u32| if *transposed { column * rows + row } else { row * own + column };
            let elements = (0..rows).flat_map(|row| (0..own).map(move |column| (row, column)));
            let elements = elements.map(|(row, column)| (buffer_element(row, column), row * columns + block * own + column));
            self.hazards(env).shared.select_half(block != rank);
            let read = self.read_elements(op, *buffer, elements, 0, &mut data, env);
            self.hazards(env).shared.select_half(false);
            read?;
        }
        Ok(Tile::new(extents.0[1].clone(), elem, buffer_lanes(elem, data)))
    }

    /// Reads the scales of an operand. The buffer holds copies, and the tensor cores may read any of them.
    fn scales(&self, op: OpId, operand_source: &MmaOperand, env: &mut Env<'_>) -> Result<Tile> {
        let found = operand_source.buffer().filter(|buffer| (buffer.0 as usize) < self.offsets.len());
        let buffer = found.ok_or_else(|| self.invalid_op(op, "needs its scales in a buffer"))?;
        let (elem, shape) = (self.buffer_info(buffer).elem, &self.buffer_info(buffer).shape);
        let &[copies, rows, columns] = &shape[..] else {
            return Err(self.invalid_op(op, format!("cannot read its scales from {buffer} of shape {shape:?}")));
        };
        let count = copies * rows * columns;
        let mut data = vec![0; count as usize * bytes(elem)];
        self.read_elements(op, buffer, (0..count).map(|element| (element, element)), 0, &mut data, env)?;
        let mut each = data.chunks_exact(data.len() / copies as usize);
        let first = each.next().unwrap_or_default().to_vec();
        if each.any(|other| other != first) {
            return Err(self.invalid_op(op, format!("finds different scales in the copies of {buffer}")));
        }
        Ok(Tile::new([rows, columns].into_iter().collect(), elem, buffer_lanes(elem, first)))
    }

    /// Returns one thread's access to elements of a buffer. It depends only on the op, so it is computed at the first execution.
    fn cached_runs(&self, op: OpId, buffer: Buffer, which: usize, elements: impl ExactSizeIterator<Item = u32>) -> &AccessRuns {
        self.access_runs[op.0 as usize][which].get_or_init(|| {
            let (size, count, offsets) = (bytes(self.buffer_info(buffer).elem), elements.len(), &self.offsets[buffer.0 as usize]);
            let access = |(to, element): (usize, u32)| (0, offsets[element as usize] as usize * size, to);
            AccessRuns::new(elements.enumerate().map(access), count, size)
        })
    }

    /// Reads elements of a buffer into their positions in the data.
    fn read_elements(
        &self,
        op: OpId,
        buffer: Buffer,
        elements: impl Iterator<Item = (u32, u32)>,
        warp: usize,
        data: &mut [u8],
        env: &mut Env<'_>,
    ) -> Result<()> {
        let (size, offsets) = (bytes(self.buffer_info(buffer).elem), &self.offsets[buffer.0 as usize]);
        for (element, to) in elements {
            let (byte, to) = (offsets[element as usize] as usize * size, to as usize * size);
            let read = self.hazards(env).read(buffer.0 as usize, byte, &mut data[to..to + size], warp);
            read.map_err(|fault| self.fault(op, Some(buffer), fault, false))?;
        }
        Ok(())
    }
}
