//! Rules for ops that combine elements: reductions, scans and MMAs.

use super::{Check, Program, Rule, Seen, Type, Uses, Value, require};
use crate::layout::{Layout, Strides};
use crate::mma_sync_atoms::{Cover, Operand, SyncAtom};
use crate::wgmma_atoms::{self, GroupAtom, Matrix};
use crate::{Buffer, MmaAtom, MmaOperand, Op, Space};
use core_dialect::rules::{has_mma, is_ptr};
use numerics::Scalar;

impl Check<'_> {
    pub(super) fn combination<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        match kind {
            Op::ReduceRegisters { operands, dim, .. } => self.reduction(uses, operands, *dim as usize, OperandPart::Registers),
            Op::ReduceLanes { operands, dim, .. } => self.reduction(uses, operands, *dim as usize, OperandPart::Lanes),
            Op::Scan { operands, dim, .. } => self.scan(uses, operands, *dim as usize),
            Op::Mma { .. } => self.mma(uses, kind),
            _ => unreachable!("only reductions, scans and MMAs come here"),
        }
    }

    /// The operands are numbers of one shape and layout that has the dimension; there are as many results.
    fn same_shape_operands<O: Program>(&self, uses: &Uses<'_, O, Type>, operands: &[Value], dim: usize) -> Rule {
        let results = &uses.op.results;
        require(!operands.is_empty() && operands.len() == results.len(), || "operands and results differ in number".into())?;
        let shape = uses.tile(operands[0])?.1;
        require(dim < shape.len(), || "there is no such dimension".into())?;
        for operand in operands {
            let (elem, other) = uses.tile(*operand)?;
            require(other == shape && !is_ptr(elem), || "operands are numbers of one shape".into())?;
        }
        self.check_same_layout(uses, operands)
    }

    fn reduction<O: Program>(&self, uses: &Uses<'_, O, Type>, operands: &[Value], dim: usize, part: OperandPart) -> Rule {
        self.same_shape_operands(uses, operands, dim)?;
        let shape = uses.tile(operands[0])?.1;
        let left = part.combined(self.layout(uses, operands[0]), shape, dim);
        let (left, layout) = left.ok_or("the registers of a thread along the dimension also vary along another dimension")?;
        for (operand, result) in operands.iter().zip(&uses.op.results) {
            let elem = uses.tile(*operand)?.0;
            require(uses.seen(*result) == Seen::Tile { elem, shape: &left }, || format!("{result} does not fit its operand"))?;
            require(self.layout(uses, *result) == layout, || format!("{result} does not have the layout of the reduced operand"))?;
        }
        Ok(())
    }

    /// The dimension occupies registers, and above them neighbouring lanes.
    fn scan<O: Program>(&self, uses: &Uses<'_, O, Type>, operands: &[Value], dim: usize) -> Rule {
        self.same_shape_operands(uses, operands, dim)?;
        for (operand, result) in operands.iter().zip(&uses.op.results) {
            uses.same(&[*result], uses.seen(*operand))?;
            self.check_same_layout(uses, &[*operand, *result])?;
        }
        let strides = Strides::of(uses.tile(operands[0])?.1);
        let layout = self.layout(uses, operands[0]);
        let mask = strides.mask(dim);
        let positions = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] & mask != 0).collect::<Vec<usize>>();
        let (registers, lanes) = (positions(&layout.register), positions(&layout.lane));
        let in_order = lanes.windows(2).all(|pair| pair[1] == pair[0] + 1) && positions(&layout.warp).is_empty();
        let chain = registers.iter().map(|bit| layout.register[*bit]).chain(lanes.iter().map(|bit| layout.lane[*bit]));
        let is_row_major = chain.eq(strides.dim_bits(dim).map(|bit| 1 << bit));
        require(in_order && is_row_major, || "the dimension does not lie in registers and lanes in order".into())
    }

    /// The operands are in the memory from which the atom reads them, and an accumulator in registers has the layout of the atom.
    fn mma<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        let Op::Mma { in_flight, lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, atom, .. } = kind else {
            unreachable!("called for MMA ops only")
        };
        let scales = match (lhs_scale, rhs_scale) {
            (Some(MmaOperand::Registers(lhs)), Some(MmaOperand::Registers(rhs))) => Some([*lhs, *rhs]),
            (None, None) => None,
            (Some(_), Some(_)) if matches!(atom, MmaAtom::Tensor(_)) => None,
            (Some(_), Some(_)) => return Err("scales are in registers".into()),
            _ => return Err("one operand has scales and the other has none".into()),
        };
        let takes_scales = match atom {
            MmaAtom::Sync(atom) => atom.scales > 0,
            MmaAtom::Tensor(atom) => atom.scales.is_some(),
            MmaAtom::Group(_) | MmaAtom::MultiplyAdd(_) => false,
        };
        require(lhs_scale.is_some() == takes_scales, || {
            format!("'{}' takes {} scales", atom.name(), if takes_scales { "two tiles of" } else { "no" })
        })?;
        require(!in_flight || matches!(atom, MmaAtom::Group(_)), || "only wgmma ops are in flight".into())?;
        if let MmaAtom::Tensor(atom) = atom {
            return self.tcgen05_mma(uses, kind, atom);
        }
        let MmaOperand::Registers(acc) = acc else { return Err(format!("'{}' needs its accumulator in registers", atom.name())) };
        let can_zero_init = matches!(atom, MmaAtom::Group(_));
        require(zero_init.is_none() || can_zero_init, || format!("'{}' cannot zero-initialise its accumulator", atom.name()))?;
        zero_init.map_or(Ok(()), |zero_init| self.is_i1(uses, zero_init))?;
        self.check_same_layout(uses, &[*acc, uses.result()?])?;
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs)) => {
                self.fragments(uses, [*lhs, *rhs, *acc], scales, atom)
            }
            (MmaAtom::Sync(atom), ..) => Err(format!("'{}' reads its operands from registers", atom.name)),
            (MmaAtom::Group(atom), lhs, MmaOperand::Memory { buffer, transposed, .. }) => {
                self.wgmma(uses, lhs, (*buffer, *transposed), *acc, atom)
            }
            (MmaAtom::Group(_), _, MmaOperand::Registers(_)) => Err("its right operand must be in shared memory".into()),
            (
                MmaAtom::MultiplyAdd(atom),
                MmaOperand::Memory { buffer: lhs, transposed: false, .. },
                MmaOperand::Memory { buffer: rhs, transposed: false, .. },
            ) => self.smem_mma(uses, [*lhs, *rhs], *acc, atom.k),
            (MmaAtom::Tensor(_), ..) => unreachable!("held above"),
            (MmaAtom::MultiplyAdd(_), ..) => Err("FMAs read untransposed operands from buffers".into()),
        }
    }

    /// The operands have the layouts of the atom's fragments, for some assignment of warps to the MMA.
    fn fragments<O: Program>(
        &self,
        uses: &Uses<'_, O, Type>,
        values: [Value; 3],
        scales: Option<[Value; 2]>,
        atom: &'static SyncAtom,
    ) -> Rule {
        let [(a, left), (b, right)] = [uses.number(values[0])?, uses.number(values[1])?];
        match scales {
            Some(scales) => uses.scaled_mma([values[0], values[1]], values[2], scales)?,
            None => {
                uses.mma(left, right, values[2])?;
                has_mma(a, b, uses.number(values[2])?.0)?;
            }
        }
        let name = atom.name;
        let target = self.target;
        require(atom.is_on(target), || format!("{target} has no atom '{name}'"))?;
        let (acc, out) = uses.number(values[2])?;
        require(atom.operands.contains(&a) && atom.acc == acc, || format!("'{name}' has no MMA of {a} into {acc}"))?;
        let rank = out.len();
        let [m, n, k] = [out[rank - 2], out[rank - 1], left[rank - 1]];
        let batch = if rank == 3 { out[0] } else { 1 };
        require(atom.divides([m, n, k]), || format!("the MMA does not divide into '{name}'"))?;
        let blocks = match scales {
            Some([scale, _]) => uses.tile(scale)?.1[rank - 1],
            None => 0,
        };
        require(blocks * atom.k == atom.scales * k, || format!("'{name}' takes {} scales at once", atom.scales))?;
        let layouts = values.map(|value| self.layout(uses, value));
        let of_scales = scales.map(|scales| scales.map(|value| self.layout(uses, value)));
        let warp_bits = self.warps.checked_ilog2().unwrap_or(0);
        let fits = |cover: Cover| {
            let expected = |operand, rows, cols| atom.layout(operand, batch, rows, cols, cover, warp_bits);
            let scale = |operand, lines| atom.scale_layout(operand, batch, lines, blocks, cover, warp_bits);
            layouts == [expected(Operand::A, m, k), expected(Operand::B, k, n), expected(Operand::C, m, n)]
                && of_scales.as_ref().is_none_or(|found| *found == [scale(Operand::A, m), scale(Operand::B, n)])
        };
        let has_cover = all_covers(atom, [batch, m, n], warp_bits).any(fits);
        require(has_cover, || format!("the layouts are not those of the fragments of '{name}'"))
    }

    /// The operands are in buffers that a matrix descriptor can describe, or the left one is in the registers of the atom's warps.
    fn wgmma<O: Program>(
        &self,
        uses: &Uses<'_, O, Type>,
        lhs: &MmaOperand,
        (rhs, rhs_transposed): (Buffer, bool),
        acc: Value,
        atom: &'static GroupAtom,
    ) -> Rule {
        let name = atom.name;
        let (sum, out) = uses.number(acc)?;
        let rank = out.len();
        let in_buffer = |buffer: Buffer, operand: Operand, transposed: bool| -> Result<(Scalar, Vec<u32>), String> {
            let info = self.buffer(buffer)?;
            let matrix = if info.shape.len() >= 2 { Matrix::of(info, operand, transposed) } else { None };
            let matrix = matrix.ok_or_else(|| format!("no matrix descriptor can describe {buffer}"))?;
            require(matrix.along_depth || atom.transposes, || {
                format!("'{name}' takes operands that are contiguous along the depth")
            })?;
            let mut last = [info.shape[info.shape.len() - 2], info.shape[info.shape.len() - 1]];
            if transposed {
                last.reverse();
            }
            Ok((info.elem.carrier(), out[..rank.saturating_sub(2)].iter().copied().chain(last).collect()))
        };
        let (a, left) = match lhs {
            MmaOperand::Registers(value) => {
                let (elem, shape) = uses.number(*value)?;
                (elem, shape.to_vec())
            }
            MmaOperand::Memory { buffer, transposed, .. } => in_buffer(*buffer, Operand::A, *transposed)?,
        };
        let (b, right) = in_buffer(rhs, Operand::B, rhs_transposed)?;
        uses.mma(&left, &right, acc)?;
        let [m, n, k] = [out[rank - 2], out[rank - 1], left[rank - 1]];
        let warp_bits = self.warps.checked_ilog2().unwrap_or(0);
        let takes = |elem: Scalar| atom.operands.contains(&elem) && elem == a && sum == atom.acc;
        require(takes(a) && takes(b), || format!("'{name}' has no MMA of {a} and {b} into {sum}"))?;
        let divides = out[..rank - 2].iter().all(|extent| *extent == 1)
            && wgmma_atoms::group_atom(self.target, a, sum, [m, n, k], warp_bits).is_some();
        require(divides, || format!("the MMA does not divide into '{name}' on {}", self.target))?;
        let lhs_fits =
            lhs.registers().is_none_or(|value| self.layout(uses, value) == wgmma_atoms::left_operand(a, m, k, warp_bits));
        let accumulator_fits = self.layout(uses, acc) == wgmma_atoms::accumulators(m, n, warp_bits);
        require(lhs_fits && accumulator_fits, || format!("the layouts are not those of '{name}'"))
    }

    /// FMA dots read both operands from shared memory.
    fn smem_mma<O: Program>(&self, uses: &Uses<'_, O, Type>, operands: [Buffer; 2], acc: Value, k: u32) -> Rule {
        let [lhs, rhs] = [self.buffer(operands[0])?, self.buffer(operands[1])?];
        let in_shared_memory = [lhs, rhs].iter().all(|info| info.space == Space::Shared);
        require(in_shared_memory, || "FMAs read their operands from shared memory".into())?;
        uses.mma(&lhs.shape, &rhs.shape, acc)?;
        let divides = lhs.shape.last().is_some_and(|extent| extent.is_multiple_of(k));
        require(divides, || format!("its extent along K is not a multiple of {k} unrolled steps"))?;
        require(!is_ptr(lhs.elem) && !is_ptr(rhs.elem), || "pointers cannot be operands of an MMA".into())?;
        has_mma(lhs.elem.carrier(), rhs.elem.carrier(), uses.number(acc)?.0)
    }
}

/// All assignments of warps to an MMA.
fn all_covers(atom: &'static SyncAtom, [batch, m, n]: [u32; 3], warp_bits: u32) -> impl Iterator<Item = Cover> {
    let most = [batch, m / atom.m, n / atom.n].map(|count| count.max(1).ilog2().min(warp_bits));
    let warps = (0..=most[0]).flat_map(move |batch_bits| {
        (0..=most[1]).flat_map(move |m_bits| {
            let fits = move |n_bits: &u32| batch_bits + m_bits + n_bits <= warp_bits;
            (0..=most[2]).filter(fits).map(move |n_bits| Cover { m_bits, n_bits, batch_bits, ..Cover::default() })
        })
    });
    let choices = [(false, false), (true, false), (false, true), (true, true)];
    warps.flat_map(move |cover| choices.map(|(rows, columns)| atom.interleave(cover, [m, n], rows, columns)))
}

/// The part of a tile that a reduction combines: the registers of a thread, or its lanes.
enum OperandPart {
    Registers,
    Lanes,
}

impl OperandPart {
    /// The extents and layout of the reduced tile. Positions along the dimension are renumbered without gaps.
    fn combined(&self, mut layout: Layout, shape: &[u32], dim: usize) -> Option<(Vec<u32>, Layout)> {
        let strides = Strides::of(shape);
        let mask = strides.mask(dim);
        let is_separable =
            layout.register.iter().chain(&layout.lane).chain(&layout.warp).all(|basis| basis & mask == 0 || basis & !mask == 0);
        let bases = match self {
            OperandPart::Registers => &mut layout.register,
            OperandPart::Lanes => &mut layout.lane,
        };
        bases.iter_mut().filter(|basis| **basis & mask != 0).for_each(|basis| *basis = 0);
        let mut remaining: Vec<u32> = layout.register.iter().chain(&layout.lane).chain(&layout.warp).copied().collect();
        remaining.retain(|basis| basis & mask != 0);
        remaining.sort_unstable();
        remaining.dedup();
        let (low, end, new) = (strides.shift[dim], strides.dim_bits(dim).end, remaining.len() as u32);
        let layout = layout.map(|basis| match remaining.binary_search(&basis) {
            Ok(position) => 1 << (low + position as u32),
            Err(_) => basis >> end << (low + new) | basis & ((1 << low) - 1),
        });
        let mut shape = shape.to_vec();
        shape[dim] = 1 << new;
        is_separable.then_some((shape, layout))
    }
}
