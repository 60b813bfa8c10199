//! Matrix products. What a product is, is defined on whole tiles; what this checks is that its operands are where the atom finds
//! them.

use super::shared::{buffer_lanes, bytes};
use super::{SpreadProgram, Step};
use crate::exec::{Env, Results};
use crate::tile::{Tile, product};
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use numerics::arith::Signedness;
use std::collections::BTreeSet;
use tileas::layout::{LANE_BITS, Strides};
use tileas::mma::{self, Bit, Fragment, SyncAtom};
use tileas::{Buffer, MmaAtom, Op};
use vocabulary::tile::Shape;

/// The extents of a product: of both operands and the accumulator, which may have a batch dimension in front.
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

    /// The two last extents of an operand.
    fn last(&self, side: usize) -> [u32; 2] {
        let shape = &self.0[side];
        [shape[shape.len() - 2], shape[shape.len() - 1]]
    }

    /// The elements of the left operand and of the right one that go into a sum.
    fn needed(&self, sum: u32) -> [Vec<u32>; 2] {
        let [a, b, c] = [0, 1, 2].map(|i| Strides::of(&self.0[i]));
        let rank = self.0[2].len();
        let [row, column] = [rank - 2, rank - 1].map(|dim| c.coordinate(sum, dim));
        let batch = if rank == 3 { c.coordinate(sum, 0) } else { 0 };
        let outer = |strides: &Strides| if rank == 3 { batch << strides.shift[0] } else { 0 };
        let (left, right) = (outer(&a) | row << a.shift[rank - 2], outer(&b) | column);
        let depth = 0..self.0[0][rank - 1];
        [depth.clone().map(|k| left | k).collect(), depth.map(|k| right | k << b.shift[rank - 2]).collect()]
    }

    /// Which row and which column a sum belongs to.
    fn lines(&self, sum: u32) -> [u32; 2] {
        let (c, rank) = (Strides::of(&self.0[2]), self.0[2].len());
        [sum & !c.mask(rank - 1), sum & !c.mask(rank - 2)]
    }
}

/// How the atoms number the rows or columns of a product: as they are, or of each sixteen first the even and then the odd ones.
#[derive(Clone, Copy)]
enum Lines {
    Plain,
    Interleaved,
}

impl Lines {
    /// The bit of a tile's row or column number that an atom's bit stands for.
    fn number(self, bit: u32) -> u32 {
        match self {
            Lines::Interleaved if bit < 4 => (bit + 1) % 4,
            _ => bit,
        }
    }
}

fn sign(signed: bool) -> Signedness {
    if signed { Signedness::Signed } else { Signedness::Unsigned }
}

fn multiply(a: &Tile, b: &Tile, c: &Tile, signed_lhs: bool, signed_rhs: bool) -> Tile {
    match c.carrier().is_int() {
        true => product::int_product(a, sign(signed_lhs), b, sign(signed_rhs), c),
        false => product::float_product(a, b, c),
    }
}

impl<O: Step> SpreadProgram<'_, O> {
    /// The lowest registers and the lanes of each tile are the atom's fragments, and each sum's row and column are in its warp.
    pub(super) fn check_fragments(&self, kind: &Op) -> Result<(), String> {
        let (Op::Mma { lhs, rhs, acc, atom, .. } | Op::MmaScaled { lhs, rhs, acc, atom, .. }) = kind else {
            unreachable!("called for products only")
        };
        let extents = Extents::new([*lhs, *rhs, *acc].map(|id| self.shape(id)))?;
        let MmaAtom::Sync { name } = atom else { return Ok(()) };
        let atom = mma::named(name).ok_or_else(|| format!("names an unknown atom {name}"))?;
        if (atom.scales > 0) != matches!(kind, Op::MmaScaled { .. }) {
            return Err(format!("does not fit the atom {name}"));
        }
        self.check_lines(kind, atom)?;
        let (acc_id, acc) = (*acc, self.spread(*acc));
        let mut known = BTreeSet::new();
        for slot in 0..acc.slots() {
            let (warp, sum) = (acc.warp(slot), acc.elements[slot]);
            let [row, column] = extents.lines(sum);
            let news = [known.insert((warp, 0, row)), known.insert((warp, 1, column))];
            if news == [false, false] {
                continue;
            }
            let mut needed: Vec<(Id, Vec<u32>)> = [*lhs, *rhs].into_iter().zip(extents.needed(sum)).collect();
            if let Op::MmaScaled { lhs_scale, rhs_scale, .. } = kind {
                let scales = Extents::new([*lhs_scale, *rhs_scale, acc_id].map(|id| self.shape(id)))?;
                needed.extend([*lhs_scale, *rhs_scale].into_iter().zip(scales.needed(sum)));
            }
            for (id, elements) in needed {
                let spread = self.spread(id);
                let held = |element: u32| {
                    (warp << LANE_BITS..(warp + 1) << LANE_BITS).any(|thread| spread.slot(thread, element).is_some())
                };
                if let Some(element) = elements.into_iter().find(|element| !held(*element)) {
                    return Err(format!("needs element {element} of {id} in warp {warp}"));
                }
            }
        }
        Ok(())
    }

    /// All operands have the atom's fragments, rows and columns being numbered in one of two ways.
    fn check_lines(&self, kind: &Op, atom: &SyncAtom) -> Result<(), String> {
        let (Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. }) = kind else {
            unreachable!("called for products only")
        };
        let as_numbered = |rows: Lines, columns: Lines| {
            self.check_fragment(*lhs, atom.a, rows, Lines::Plain)?;
            self.check_fragment(*rhs, atom.b, Lines::Plain, columns)?;
            self.check_fragment(*acc, atom.c, rows, columns)?;
            if let Op::MmaScaled { lhs_scale, rhs_scale, .. } = kind {
                self.check_scales(*lhs_scale, atom, true, rows)?;
                self.check_scales(*rhs_scale, atom, false, columns)?;
            }
            Ok(())
        };
        let each = [Lines::Plain, Lines::Interleaved];
        let mut tried = each.into_iter().flat_map(|rows| each.map(|columns| as_numbered(rows, columns)));
        let plain = tried.next().expect("there are four ways");
        if tried.any(|other| other.is_ok()) { Ok(()) } else { plain }
    }

    fn check_fragment(&self, id: Id, fragment: &Fragment, rows: Lines, columns: Lines) -> Result<(), String> {
        let (layout, strides) = (&self.spread(id).layout, Strides::of(self.ty(id).shape()));
        let rank = strides.shift.len();
        let element = |bit: &Bit| match bit {
            Bit::Row(i) => 1u32 << (strides.shift[rank - 2] + rows.number(*i)),
            Bit::Col(i) => 1u32 << columns.number(*i),
        };
        let registers: Vec<u32> = fragment.register.iter().map(element).collect();
        let lanes: Vec<u32> = fragment.lane.iter().map(element).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("finds {id} in a layout that is not the atom's: {layout:?}")),
        }
    }

    /// The lanes of a row's quad that the atom asks have the row's scales, the lowest registers those of one atom.
    fn check_scales(&self, id: Id, atom: &SyncAtom, of_lhs: bool, lines: Lines) -> Result<(), String> {
        let (layout, strides) = (&self.spread(id).layout, Strides::of(self.ty(id).shape()));
        let rank = strides.shift.len();
        let (line, block) = if of_lhs { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
        let line = |bit: u32| 1 << (strides.shift[line] + lines.number(bit));
        let lanes = [if of_lhs { line(3) } else { 0 }, 0, line(0), line(1), line(2)];
        let registers: Vec<u32> = (0..atom.scales.trailing_zeros()).map(|bit| 1 << (strides.shift[block] + bit)).collect();
        match layout.register.starts_with(&registers) && layout.lane == lanes {
            true => Ok(()),
            false => Err(format!("finds the scales {id} in a layout that is not the atom's: {layout:?}")),
        }
    }

    pub(super) fn product(&self, op: OpId, kind: &Op, env: &Env<'_>) -> Result<Results> {
        let (Op::Mma { lhs, rhs, acc, atom, .. } | Op::MmaScaled { lhs, rhs, acc, atom, .. }) = kind else {
            unreachable!("called for products only")
        };
        if !matches!(atom, MmaAtom::Sync { .. }) {
            return Err(self.unsupported(op, "by this atom"));
        }
        let [a, b, c] = [self.whole(*lhs, env)?, self.whole(*rhs, env)?, self.whole(*acc, env)?];
        let whole = match kind {
            Op::Mma { signed_lhs, signed_rhs, .. } => multiply(&a, &b, &c, *signed_lhs, *signed_rhs),
            Op::MmaScaled { lhs_scale, rhs_scale, .. } => {
                product::scaled_product(&a, &b, &c, &self.whole(*lhs_scale, env)?, &self.whole(*rhs_scale, env)?)
            }
            _ => unreachable!("called for products only"),
        };
        self.one(op, self.distribute(self.result(op), &whole))
    }

    fn buffer_extents(&self, lhs: Buffer, rhs: Buffer, acc: Id) -> Result<Extents, String> {
        if [lhs, rhs].iter().any(|buffer| buffer.0 as usize >= self.offsets.len()) {
            return Err("names a buffer that the function does not have".into());
        }
        Extents::new([self.info(lhs).shape.clone(), self.info(rhs).shape.clone(), self.shape(acc)])
    }

    pub(super) fn check_buffers(&self, kind: &Op) -> Result<(), String> {
        match kind {
            Op::MmaShared { lhs, rhs, acc, .. } => self.buffer_extents(*lhs, *rhs, *acc).map(|_| ()),
            Op::MmaGroup { .. } => self.group_extents(kind).map(|_| ()),
            _ => unreachable!("called for products of buffers only"),
        }
    }

    /// The extents of a product of warp groups, whose buffers may hold transposed operands.
    fn group_extents(&self, kind: &Op) -> Result<Extents, String> {
        let Op::MmaGroup { lhs, lhs_buffer, lhs_turned, rhs, rhs_turned, acc, .. } = kind else {
            unreachable!("called for products of warp groups only")
        };
        let sums = self.shape(*acc);
        let in_buffer = |buffer: Buffer, turned: bool| {
            let known = (buffer.0 as usize) < self.offsets.len() && self.info(buffer).shape.len() >= 2 && sums.len() >= 2;
            let shape =
                if known { &*self.info(buffer).shape } else { return Err(format!("does not find its operand in {buffer}")) };
            let mut last = [shape[shape.len() - 2], shape[shape.len() - 1]];
            if turned {
                last.reverse();
            }
            Ok(sums[..sums.len() - 2].iter().copied().chain(last).collect::<Shape>())
        };
        let left = match (lhs, lhs_buffer) {
            (Some(value), None) => self.shape(*value),
            (None, Some(buffer)) => in_buffer(*buffer, *lhs_turned)?,
            _ => return Err("has no left operand, or two".into()),
        };
        Extents::new([left, in_buffer(*rhs, *rhs_turned)?, sums])
    }

    /// Each warp reads the rows and columns that its sums need, where they are.
    pub(super) fn product_in_place(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let extents = self.group_extents(kind).map_err(|message| self.refuse(op, message))?;
        let Op::MmaGroup { lhs, lhs_buffer, lhs_turned, rhs, rhs_turned, acc, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("called for products of warp groups only")
        };
        self.begin(op, env)?;
        let spread = self.spread(*acc);
        let sides = [(*lhs_buffer, *lhs_turned), (Some(*rhs), *rhs_turned)];
        let mut data = sides.map(|(buffer, _)| match buffer {
            Some(buffer) => vec![0; self.offsets[buffer.0 as usize].len() * bytes(self.info(buffer).elem)],
            None => Vec::new(),
        });
        let mut known = BTreeSet::new();
        for slot in 0..spread.slots() {
            let (warp, sum) = (spread.warp(slot), spread.elements[slot]);
            let needed = extents.needed(sum);
            for (side, line) in extents.lines(sum).into_iter().enumerate() {
                let (Some(buffer), turned) = sides[side] else { continue };
                if known.insert((warp, side, line)) {
                    let [rows, columns] = extents.last(side);
                    let there = |element: u32| if turned { element % columns * rows + element / columns } else { element };
                    let elements = needed[side].iter().map(|element| (there(*element), *element));
                    self.read_elements(op, buffer, elements, warp, &mut data[side], env)?;
                }
            }
        }
        let [left, right] = data;
        let tile = |buffer: Buffer, shape: &Shape, data: Vec<u8>| {
            let elem = self.info(buffer).elem;
            Tile::new(shape.clone(), elem, buffer_lanes(elem, data))
        };
        let left = match (lhs, lhs_buffer) {
            (Some(value), _) => self.whole(*value, env)?,
            (None, Some(buffer)) => tile(*buffer, &extents.0[0], left),
            (None, None) => unreachable!("checked with the extents"),
        };
        let right = tile(*rhs, &extents.0[1], right);
        let whole = multiply(&left, &right, &self.whole(*acc, env)?, *signed_lhs, *signed_rhs);
        self.one(op, self.distribute(self.result(op), &whole))
    }

    /// Each warp reads the rows and columns that its sums need.
    pub(super) fn product_of_buffers(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::MmaShared { lhs, rhs, acc, signed_lhs, signed_rhs, .. } = kind else {
            unreachable!("called for products of buffers only")
        };
        let extents = self.buffer_extents(*lhs, *rhs, *acc).map_err(|message| self.refuse(op, message))?;
        self.begin(op, env)?;
        let spread = self.spread(*acc);
        let mut data = [*lhs, *rhs].map(|buffer| vec![0; self.offsets[buffer.0 as usize].len() * bytes(self.info(buffer).elem)]);
        let mut known = BTreeSet::new();
        for slot in 0..spread.slots() {
            let (warp, sum) = (spread.warp(slot), spread.elements[slot]);
            let needed = extents.needed(sum);
            for (side, line) in extents.lines(sum).into_iter().enumerate() {
                if known.insert((warp, side, line)) {
                    let buffer = [*lhs, *rhs][side];
                    let elements = needed[side].iter().map(|element| (*element, *element));
                    self.read_elements(op, buffer, elements, warp, &mut data[side], env)?;
                }
            }
        }
        let [left, right] = data;
        let tile = |buffer: Buffer, data: Vec<u8>| {
            let info = self.info(buffer);
            Tile::new(info.shape.clone(), info.elem, buffer_lanes(info.elem, data))
        };
        let whole = multiply(&tile(*lhs, left), &tile(*rhs, right), &self.whole(*acc, env)?, *signed_lhs, *signed_rhs);
        self.one(op, self.distribute(self.result(op), &whole))
    }

    /// Reads elements of a buffer, each to its place among the data.
    fn read_elements(
        &self,
        op: OpId,
        buffer: Buffer,
        elements: impl Iterator<Item = (u32, u32)>,
        warp: usize,
        data: &mut [u8],
        env: &mut Env<'_>,
    ) -> Result<()> {
        let (size, offsets) = (bytes(self.info(buffer).elem), &self.offsets[buffer.0 as usize]);
        for (element, to) in elements {
            let (place, to) = (offsets[element as usize] as usize * size, to as usize * size);
            let read = self.hazards(env).read(buffer.0 as usize, place, &mut data[to..to + size], warp);
            read.map_err(|fault| self.fault(op, Some(buffer), fault, false))?;
        }
        Ok(())
    }
}
