//! Rules for ops that combine elements: reductions, scans and MMAs.

use super::{CoreType, FunctionChecker, OpContext, RuleResult, TileAsOp, Type, Value, require};
use crate::layout::{Layout, Strides};
use crate::mma_sync_atoms::{Operand, SyncAtom, WarpsPerDim};
use crate::wgmma_atoms::{self, GroupAtom, Matrix};
use crate::{Buffer, MmaAtom, MmaOperand, Op, Space};
use core_dialect::rules::{check_mma_types, is_ptr};
use numerics::Scalar;

impl FunctionChecker<'_> {
    /// Checks a reduction, scan or MMA.
    pub(super) fn check_combination<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        match kind {
            Op::ReduceRegisters { operands, dim, .. } => {
                self.check_reduction(context, operands, *dim as usize, OperandPart::Registers)
            }
            Op::ReduceLanes { operands, dim, .. } => self.check_reduction(context, operands, *dim as usize, OperandPart::Lanes),
            Op::Scan { operands, dim, .. } => self.check_scan(context, operands, *dim as usize),
            Op::Mma { .. } => self.check_mma(context, kind),
            _ => unreachable!("only reductions, scans and MMAs come here"),
        }
    }

    /// Checks the operands of a reduction or scan. They must hold numbers and have one shape and one layout. `dim` must be one of
    /// their dimensions, and the op must have as many results as operands.
    fn check_same_shape<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, operands: &[Value], dim: usize) -> RuleResult {
        let results = &context.op.results;
        require(!operands.is_empty() && operands.len() == results.len(), || "operands and results differ in number".into())?;
        let shape = context.tile(operands[0])?.1;
        require(dim < shape.len(), || "there is no such dimension".into())?;
        for operand in operands {
            let (elem, other) = context.tile(*operand)?;
            require(other == shape && !is_ptr(elem), || "operands are numbers of one shape".into())?;
        }
        self.check_same_layout(context, operands)
    }

    /// Checks a reduction over registers or lanes (`part`): the results have the extents and the layout of the reduced operands.
    fn check_reduction<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        operands: &[Value],
        dim: usize,
        part: OperandPart,
    ) -> RuleResult {
        self.check_same_shape(context, operands, dim)?;
        let shape = context.tile(operands[0])?.1;
        let reduced = part.reduced_shape_and_layout(self.layout_of(context, operands[0]), shape, dim);
        let (reduced_shape, layout) =
            reduced.ok_or("the registers of a thread along the dimension also vary along another dimension")?;
        for (operand, result) in operands.iter().zip(&context.op.results) {
            let elem = context.tile(*operand)?.0;
            require(context.core_type(*result) == CoreType::Tile { elem, shape: &reduced_shape }, || {
                format!("{result} does not fit its operand")
            })?;
            require(self.layout_of(context, *result) == layout, || {
                format!("{result} does not have the layout of the reduced operand")
            })?;
        }
        Ok(())
    }

    /// Checks a scan: the low bits of the dimension must select registers, and its high bits neighbouring lanes.
    fn check_scan<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, operands: &[Value], dim: usize) -> RuleResult {
        self.check_same_shape(context, operands, dim)?;
        for (operand, result) in operands.iter().zip(&context.op.results) {
            context.check_types(&[*result], context.core_type(*operand))?;
            self.check_same_layout(context, &[*operand, *result])?;
        }
        let strides = Strides::for_shape(context.tile(operands[0])?.1);
        let layout = self.layout_of(context, operands[0]);
        let mask = strides.mask(dim);
        let positions = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] & mask != 0).collect::<Vec<usize>>();
        let (registers, lanes) = (positions(&layout.register), positions(&layout.lane));
        let in_order = lanes.windows(2).all(|pair| pair[1] == pair[0] + 1) && positions(&layout.warp).is_empty();
        let chain = registers.iter().map(|bit| layout.register[*bit]).chain(lanes.iter().map(|bit| layout.lane[*bit]));
        let is_row_major = chain.eq(strides.dim_bits(dim).map(|bit| 1 << bit));
        require(in_order && is_row_major, || "the dimension does not lie in registers and lanes in order".into())
    }

    /// Checks that the operands are in the memory from which the atom reads them, and that accumulator and result have one layout.
    fn check_mma<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
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
            return self.check_tcgen05_mma(context, kind, atom);
        }
        let MmaOperand::Registers(acc) = acc else { return Err(format!("'{}' needs its accumulator in registers", atom.name())) };
        let can_zero_init = matches!(atom, MmaAtom::Group(_));
        require(zero_init.is_none() || can_zero_init, || format!("'{}' cannot zero-initialise its accumulator", atom.name()))?;
        zero_init.map_or(Ok(()), |zero_init| self.check_i1(context, zero_init))?;
        self.check_same_layout(context, &[*acc, context.result()?])?;
        match (atom, lhs, rhs) {
            (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs)) => {
                self.check_fragments(context, [*lhs, *rhs, *acc], scales, atom)
            }
            (MmaAtom::Sync(atom), ..) => Err(format!("'{}' reads its operands from registers", atom.name)),
            (MmaAtom::Group(atom), lhs, MmaOperand::Memory { buffer, transposed, .. }) => {
                self.check_wgmma(context, lhs, *buffer, *transposed, *acc, atom)
            }
            (MmaAtom::Group(_), _, MmaOperand::Registers(_)) => Err("its right operand must be in shared memory".into()),
            (
                MmaAtom::MultiplyAdd(atom),
                MmaOperand::Memory { buffer: lhs, transposed: false, .. },
                MmaOperand::Memory { buffer: rhs, transposed: false, .. },
            ) => self.check_fma(context, [*lhs, *rhs], *acc, atom.k),
            (MmaAtom::Tensor(_), ..) => unreachable!("checked above"),
            (MmaAtom::MultiplyAdd(_), ..) => Err("FMAs read untransposed operands from buffers".into()),
        }
    }

    /// Checks that the operands have the layouts of the atom's fragments, for some division of the MMA among the warps.
    fn check_fragments<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        values: [Value; 3],
        scales: Option<[Value; 2]>,
        atom: &'static SyncAtom,
    ) -> RuleResult {
        let [(a, left), (b, right)] = [context.scalar_tile(values[0])?, context.scalar_tile(values[1])?];
        match scales {
            Some(scales) => context.check_scaled_mma([values[0], values[1]], values[2], scales)?,
            None => {
                context.check_mma(left, right, values[2])?;
                check_mma_types(a, b, context.scalar_tile(values[2])?.0)?;
            }
        }
        let name = atom.name;
        let target = self.target;
        require(atom.is_available_on(target), || format!("{target} has no atom '{name}'"))?;
        let (acc, out) = context.scalar_tile(values[2])?;
        require(atom.operands.contains(&a) && atom.acc == acc, || format!("'{name}' has no MMA of {a} into {acc}"))?;
        let rank = out.len();
        let [m, n, k] = [out[rank - 2], out[rank - 1], left[rank - 1]];
        let batch = if rank == 3 { out[0] } else { 1 };
        require(atom.divides([m, n, k]), || format!("the MMA does not divide into '{name}'"))?;
        let blocks = match scales {
            Some([scale, _]) => context.tile(scale)?.1[rank - 1],
            None => 0,
        };
        require(blocks * atom.k == atom.scales * k, || format!("'{name}' takes {} scales at once", atom.scales))?;
        let layouts = values.map(|value| self.layout_of(context, value));
        let scale_layouts = scales.map(|scales| scales.map(|value| self.layout_of(context, value)));
        let warp_bits = self.warps.checked_ilog2().unwrap_or(0);
        let fits = |warps_per_dim: WarpsPerDim| {
            let expected = |operand, rows, cols| atom.layout(operand, batch, rows, cols, warps_per_dim, warp_bits);
            let scale = |operand, lines| atom.scale_layout(operand, batch, lines, blocks, warps_per_dim, warp_bits);
            layouts == [expected(Operand::A, m, k), expected(Operand::B, k, n), expected(Operand::C, m, n)]
                && scale_layouts.as_ref().is_none_or(|found| *found == [scale(Operand::A, m), scale(Operand::B, n)])
        };
        let has_division = all_divisions(atom, [batch, m, n], warp_bits).any(fits);
        require(has_division, || format!("the layouts are not those of the fragments of '{name}'"))
    }

    /// Checks that a matrix descriptor can describe the operands' buffers. The left operand may instead be in registers, in the
    /// layout of the atom.
    fn check_wgmma<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        lhs: &MmaOperand,
        rhs: Buffer,
        rhs_transposed: bool,
        acc: Value,
        atom: &'static GroupAtom,
    ) -> RuleResult {
        let name = atom.name;
        let (acc_elem, out) = context.scalar_tile(acc)?;
        let rank = out.len();
        let in_buffer = |buffer: Buffer, operand: Operand, transposed: bool| -> Result<(Scalar, Vec<u32>), String> {
            let info = self.buffer_info(buffer)?;
            let matrix = if info.shape.len() >= 2 { Matrix::from_buffer(info, operand, transposed) } else { None };
            let matrix = matrix.ok_or_else(|| format!("no matrix descriptor can describe {buffer}"))?;
            require(matrix.along_depth || atom.transposes, || {
                format!("'{name}' takes operands that are contiguous along the depth")
            })?;
            let mut last_extents = [info.shape[info.shape.len() - 2], info.shape[info.shape.len() - 1]];
            if transposed {
                last_extents.reverse();
            }
            Ok((info.elem.carrier(), out[..rank.saturating_sub(2)].iter().copied().chain(last_extents).collect()))
        };
        let (a, left) = match lhs {
            MmaOperand::Registers(value) => {
                let (elem, shape) = context.scalar_tile(*value)?;
                (elem, shape.to_vec())
            }
            MmaOperand::Memory { buffer, transposed, .. } => in_buffer(*buffer, Operand::A, *transposed)?,
        };
        let (b, right) = in_buffer(rhs, Operand::B, rhs_transposed)?;
        context.check_mma(&left, &right, acc)?;
        let [m, n, k] = [out[rank - 2], out[rank - 1], left[rank - 1]];
        let warp_bits = self.warps.checked_ilog2().unwrap_or(0);
        let supports = |elem: Scalar| atom.operands.contains(&elem) && elem == a && acc_elem == atom.acc;
        require(supports(a) && supports(b), || format!("'{name}' has no MMA of {a} and {b} into {acc_elem}"))?;
        let divides = out[..rank - 2].iter().all(|extent| *extent == 1)
            && wgmma_atoms::group_atom(self.target, a, acc_elem, [m, n, k], warp_bits).is_some();
        require(divides, || format!("the MMA does not divide into '{name}' on {}", self.target))?;
        let lhs_fits = lhs
            .registers()
            .is_none_or(|value| self.layout_of(context, value) == wgmma_atoms::left_operand_layout(a, m, k, warp_bits));
        let accumulator_fits = self.layout_of(context, acc) == wgmma_atoms::accumulator_layout(m, n, warp_bits);
        require(lhs_fits && accumulator_fits, || format!("the layouts are not those of '{name}'"))
    }

    /// Checks an MMA by FMAs of threads, which read both operands from shared memory.
    fn check_fma<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, operands: [Buffer; 2], acc: Value, k: u32) -> RuleResult {
        let [lhs, rhs] = [self.buffer_info(operands[0])?, self.buffer_info(operands[1])?];
        let in_shared_memory = [lhs, rhs].iter().all(|info| info.space == Space::Shared);
        require(in_shared_memory, || "FMAs read their operands from shared memory".into())?;
        context.check_mma(&lhs.shape, &rhs.shape, acc)?;
        let divides = lhs.shape.last().is_some_and(|extent| extent.is_multiple_of(k));
        require(divides, || format!("its extent along K is not a multiple of {k} unrolled steps"))?;
        require(!is_ptr(lhs.elem) && !is_ptr(rhs.elem), || "pointers cannot be operands of an MMA".into())?;
        check_mma_types(lhs.elem.carrier(), rhs.elem.carrier(), context.scalar_tile(acc)?.0)
    }
}

/// All divisions of an MMA among the warps, each also with interleaved rows, columns or both.
fn all_divisions(atom: &'static SyncAtom, [batch, m, n]: [u32; 3], warp_bits: u32) -> impl Iterator<Item = WarpsPerDim> {
    let max_bits = [batch, m / atom.m, n / atom.n].map(|count| count.max(1).ilog2().min(warp_bits));
    let divisions = (0..=max_bits[0]).flat_map(move |batch_bits| {
        (0..=max_bits[1]).flat_map(move |m_bits| {
            let fits = move |n_bits: &u32| batch_bits + m_bits + n_bits <= warp_bits;
            (0..=max_bits[2]).filter(fits).map(move |n_bits| WarpsPerDim { m_bits, n_bits, batch_bits, ..WarpsPerDim::default() })
        })
    });
    let interleavings = [(false, false), (true, false), (false, true), (true, true)];
    divisions
        .flat_map(move |warps_per_dim| interleavings.map(|(rows, columns)| atom.interleave(warps_per_dim, [m, n], rows, columns)))
}

/// The part of an operand that a reduction combines: the registers of each thread, or the lanes of each warp.
enum OperandPart {
    Registers,
    Lanes,
}

impl OperandPart {
    /// The extents and layout of a tile after the reduction along `dim`. The elements that remain along `dim` are numbered from 0
    /// without gaps. `None` if a basis of the layout selects elements along `dim` and along another dimension.
    fn reduced_shape_and_layout(&self, mut layout: Layout, shape: &[u32], dim: usize) -> Option<(Vec<u32>, Layout)> {
        let strides = Strides::for_shape(shape);
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
        let (low, end, remaining_bits) = (strides.shift[dim], strides.dim_bits(dim).end, remaining.len() as u32);
        let layout = layout.map(|basis| match remaining.binary_search(&basis) {
            Ok(position) => 1 << (low + position as u32),
            Err(_) => basis >> end << (low + remaining_bits) | basis & ((1 << low) - 1),
        });
        let mut shape = shape.to_vec();
        shape[dim] = 1 << remaining_bits;
        is_separable.then_some((shape, layout))
    }
}
