//! Rules for tensor memory (TMEM): the MMAs whose accumulators are in tensor memory, and the loads and stores of warps.

use super::{FunctionChecker, OpContext, RuleResult, TileAsOp, Type, Value, require};
use crate::mma_sync_atoms::Operand;
use crate::tensor_memory::{self, LaneAtom, TensorAtom, TmemSlice};
use crate::wgmma_atoms::Matrix;
use crate::{Buffer, BufferInfo, MmaOperand, Op, Space};
use core_dialect::rules::check_mma_types;
use core_dialect::tile::Elem;
use numerics::Scalar;
use target_info::Feature;

impl FunctionChecker<'_> {
    /// Checks an access of threads to a buffer in tensor memory.
    pub(super) fn check_tmem_access<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        match kind {
            Op::TmemLoad { buffer, from, atom, .. } => self.check_lane_access(context, context.result()?, *buffer, *from, atom.0),
            Op::TmemStore { x, buffer, from, atom, .. } => {
                context.check_results(&[])?;
                self.check_lane_access(context, *x, *buffer, *from, atom.0)?;
                let is_divided = self.layout_of(context, *x).warp.iter().all(|basis| *basis != 0);
                require(is_divided, || format!("several warps store the same elements of {x}"))
            }
            Op::TmemScale { by, buffer, zero_init, atom, .. } => {
                context.check_results(&[])?;
                self.check_i1(context, *zero_init)?;
                let (info, (elem, shape)) = (self.buffer_info(*buffer)?, context.tile(*by)?);
                let has_layout = tensor_memory::accumulator_buffer(info.elem, &info.shape)
                    .is_some_and(|expected| tensor_memory::equals_except_alignment(info, &expected));
                require(has_layout, || format!("{buffer} does not have an accumulator layout"))?;
                let one_per_row =
                    info.shape.split_last().zip(shape.split_last()).is_some_and(|(all, own)| all.1 == own.1 && *own.0 == 1);
                let is_float = elem == info.elem && elem.carrier() == Scalar::F32;
                require(one_per_row && is_float, || format!("{by} does not have one 32-bit factor for each row of {buffer}"))?;
                let warp_bits = self.layout_of(context, *by).warp.len();
                let rows = atom.0.full_and_row_layouts(info, warp_bits).map(|(_, rows)| rows);
                require(rows.is_some_and(|rows| rows == self.layout_of(context, *by)), || {
                    format!("{by} does not have the row layout of '{}' for {buffer}", atom.0.name)
                })
            }
            _ => unreachable!("only accesses to tensor memory come here"),
        }
    }

    /// Checks that the `zero_init` of an op is a scalar i1.
    pub(super) fn check_i1<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, value: Value) -> RuleResult {
        let is_predicate = *context.body.ty(value) == Type::Scalar(Elem::Scalar(Scalar::I1));
        require(is_predicate, || "`zero_init` must be a scalar i1".into())
    }

    /// Checks that the warps can load or store a slice of a buffer with an atom, each warp in the lanes that it can access.
    fn check_lane_access<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        tile: Value,
        buffer: Buffer,
        from: u32,
        atom: &LaneAtom,
    ) -> RuleResult {
        let (info, (elem, shape)) = (self.buffer_info(buffer)?, context.tile(tile)?);
        require(info.space == Space::Tensor, || format!("{buffer} is not in tensor memory"))?;
        let slice = TmemSlice::from_extents(&info.shape, shape, from).filter(|_| elem == info.elem);
        let slice = slice.ok_or_else(|| format!("{buffer} has no slice with the shape of {tile} from column {from} on"))?;
        let fits = atom.fits(info, &slice, &self.layout_of(context, tile));
        require(fits, || format!("'{}' does not fit the layouts of {tile} and {buffer}", atom.name))
    }

    /// Checks that the accumulator is in tensor memory, the left operand in tensor or shared memory, and the right operand in
    /// shared memory.
    pub(super) fn check_tcgen05_mma<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        kind: &Op,
        atom: &'static TensorAtom,
    ) -> RuleResult {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, .. } = kind else { unreachable!("called for MMA ops only") };
        let name = atom.name;
        context.check_results(&[])?;
        zero_init.map_or(Ok(()), |zero_init| self.check_i1(context, zero_init))?;
        let MmaOperand::Memory { buffer: accumulators, transposed: false, .. } = acc else {
            return Err(format!("'{name}' needs its accumulator in tensor memory, untransposed"));
        };
        let out = self.buffer_info(*accumulators)?;
        let has_layout = tensor_memory::accumulator_buffer(out.elem, &out.shape)
            .is_some_and(|expected| tensor_memory::equals_except_alignment(out, &expected));
        require(has_layout, || format!("{accumulators} does not have an accumulator layout"))?;
        let MmaOperand::Memory { buffer: right, transposed, .. } = rhs else {
            return Err(format!("'{name}' needs its right operand in shared memory"));
        };
        let (b, [depth, own_columns]) = self.shared_operand(*right, Operand::B, *transposed, atom)?;
        // Each CTA of a pair holds half of the right operand's columns, selected by the rank of the CTA.
        let n = if self.attrs.cta_pair { own_columns * tensor_memory::CTA_PAIR } else { own_columns };
        let (a, [m, k]) = match lhs {
            MmaOperand::Registers(_) => return Err(format!("'{name}' has no operands in registers")),
            MmaOperand::Memory { buffer, transposed, .. } if self.buffer_info(*buffer)?.space == Space::Tensor => {
                let info = self.buffer_info(*buffer)?;
                let has_layout = tensor_memory::left_operand_buffer(info.elem, &info.shape)
                    .is_some_and(|expected| tensor_memory::equals_except_alignment(info, &expected));
                require(has_layout && !transposed, || format!("{buffer} does not have a left-operand layout"))?;
                (info.elem.carrier(), matrix_extents(info)?)
            }
            MmaOperand::Memory { buffer, transposed, .. } => self.shared_operand(*buffer, Operand::A, *transposed, atom)?,
        };
        require([m, n] == matrix_extents(out)? && k == depth, || "the shapes do not form an MMA".into())?;
        let acc_elem = out.elem.carrier();
        if lhs_scale.is_none() {
            check_mma_types(a, b, acc_elem)?;
        }
        require(a == b && atom.operands.contains(&a) && atom.acc == acc_elem, || {
            format!("'{name}' has no MMA of {a} into {acc_elem}")
        })?;
        let found = match (lhs_scale, rhs_scale) {
            (Some(lhs), Some(rhs)) => {
                let scale = self.check_scales(lhs, Operand::A, [m, k], atom)?;
                let same_type = self.check_scales(rhs, Operand::B, [n, k], atom)? == scale;
                require(same_type, || "the scales of both operands are of one type".into())?;
                let block = atom.scales.as_ref().map_or(0, |scales| scales.block);
                tensor_memory::scaled_tensor_atom(self.target, a, scale, block, [m, n, k])
            }
            _ => tensor_memory::tensor_atom(self.target, a, acc_elem, [m, n, k]),
        };
        require(found.is_some_and(|found| found.name == name), || {
            format!("the MMA does not divide into '{name}' on {}", self.target)
        })?;
        let suits_cta_pair = tensor_memory::suits_cta_pairs([m, n]) && lhs_scale.is_none() && self.is_in_shared_memory(lhs)?;
        require(suits_cta_pair || !self.attrs.cta_pair, || "a CTA pair has no such MMA".into())
    }

    /// Checks the scales of an operand and returns their type. The buffer has one scale for each block of each row of A or column
    /// of B.
    fn check_scales(
        &self,
        place: &MmaOperand,
        operand: Operand,
        [lines, depth]: [u32; 2],
        atom: &TensorAtom,
    ) -> Result<Scalar, String> {
        let (Some(scales), MmaOperand::Memory { buffer, transposed: false, .. }) = (&atom.scales, place) else {
            return Err(format!("'{}' needs its scales in tensor memory, untransposed", atom.name));
        };
        let info = self.buffer_info(*buffer)?;
        let elem = info.elem.carrier();
        let blocks = depth / scales.block;
        let shape = if operand == Operand::B { [blocks, lines] } else { [lines, blocks] };
        let has_layout = tensor_memory::scale_buffer(info.elem, &shape, operand)
            .is_some_and(|expected| tensor_memory::equals_except_alignment(info, &expected));
        require(has_layout, || format!("{buffer} does not have a scale layout"))?;
        require(scales.elems.contains(&elem), || format!("'{}' takes no scales of {elem}", atom.name))?;
        Ok(elem)
    }

    /// Whether an MMA reads the operand from shared memory. The error is the message for a buffer that is not in the table.
    fn is_in_shared_memory(&self, place: &MmaOperand) -> Result<bool, String> {
        place.buffer().map_or(Ok(false), |buffer| Ok(self.buffer_info(buffer)?.space == Space::Shared))
    }

    /// The element type and extents of an operand in shared memory, after transposition. A matrix descriptor must describe the
    /// buffer.
    fn shared_operand(
        &self,
        buffer: Buffer,
        operand: Operand,
        transposed: bool,
        atom: &TensorAtom,
    ) -> Result<(Scalar, [u32; 2]), String> {
        let info = self.buffer_info(buffer)?;
        let mut extents = matrix_extents(info)?;
        let matrix = Matrix::from_buffer(info, operand, transposed);
        let matrix = matrix.ok_or_else(|| format!("no matrix descriptor can describe {buffer}"))?;
        require(matrix.along_depth || atom.transposes, || {
            format!("'{}' takes operands that are contiguous along the depth", atom.name)
        })?;
        if transposed {
            extents.reverse();
        }
        Ok((info.elem.carrier(), extents))
    }

    /// Checks that a function has buffers in tensor memory only if the target has tensor memory.
    pub(super) fn check_has_tensor_memory(&self) -> RuleResult {
        let tmem_buffer = self.attrs.buffers.iter().find(|(_, info)| info.space == Space::Tensor);
        match tmem_buffer.filter(|_| !self.target.has(Feature::TensorMemory)) {
            Some((buffer, _)) => Err(format!("{} has no tensor memory for {buffer}", self.target)),
            None => Ok(()),
        }
    }
}

/// The last two extents of a buffer.
fn matrix_extents(info: &BufferInfo) -> Result<[u32; 2], String> {
    info.shape.last_chunk::<2>().copied().ok_or_else(|| "an operand is a matrix".into())
}
