//! Rules for tensor memory: MMAs with accumulators there, and the loads and stores of warps.

use super::{Check, Program, Rule, Type, Uses, Value, require};
use crate::mma_sync_atoms::Operand;
use crate::tensor_memory::{self, LaneAtom, TensorAtom, TmemSlice};
use crate::wgmma_atoms::Matrix;
use crate::{Buffer, BufferInfo, MmaOperand, Op, Space};
use core_dialect::rules::has_mma;
use core_dialect::tile::Elem;
use numerics::Scalar;
use target_info::Feature;

impl Check<'_> {
    pub(super) fn tensor_access<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        match kind {
            Op::TmemLoad { buffer, from, atom, .. } => self.lane_access(uses, uses.result()?, *buffer, *from, atom.0),
            Op::TmemStore { x, buffer, from, atom, .. } => {
                uses.results(&[])?;
                self.lane_access(uses, *x, *buffer, *from, atom.0)?;
                let is_divided = self.layout(uses, *x).warp.iter().all(|basis| *basis != 0);
                require(is_divided, || format!("several warps store the same elements of {x}"))
            }
            Op::TmemScale { by, buffer, zero_init, atom, .. } => {
                uses.results(&[])?;
                self.is_i1(uses, *zero_init)?;
                let (info, (elem, shape)) = (self.buffer(*buffer)?, uses.tile(*by)?);
                let accumulators = tensor_memory::accumulators(info.elem, &info.shape)
                    .is_some_and(|expected| tensor_memory::is_same_but_alignment(info, &expected));
                require(accumulators, || format!("{buffer} does not have an accumulator layout"))?;
                let same = info.shape.split_last().zip(shape.split_last()).is_some_and(|(all, own)| all.1 == own.1 && *own.0 == 1);
                let float = elem == info.elem && elem.carrier() == Scalar::F32;
                require(same && float, || format!("{by} does not have one 32-bit factor for each row of {buffer}"))?;
                let warp_bits = self.layout(uses, *by).warp.len();
                let rows = atom.0.whole_and_rows(info, warp_bits).map(|(_, rows)| rows);
                require(rows.is_some_and(|rows| rows == self.layout(uses, *by)), || {
                    format!("{by} does not have the row layout of '{}' for {buffer}", atom.0.name)
                })
            }
            _ => unreachable!("only accesses to tensor memory come here"),
        }
    }

    pub(super) fn is_i1<O: Program>(&self, uses: &Uses<'_, O, Type>, value: Value) -> Rule {
        let is_predicate = *uses.body.ty(value) == Type::Scalar(Elem::Scalar(Scalar::I1));
        require(is_predicate, || "`zero_init` must be a scalar i1".into())
    }

    /// A slice of a buffer that the warps load or store, each in the lanes that it can access.
    fn lane_access<O: Program>(&self, uses: &Uses<'_, O, Type>, tile: Value, buffer: Buffer, from: u32, atom: &LaneAtom) -> Rule {
        let (info, (elem, shape)) = (self.buffer(buffer)?, uses.tile(tile)?);
        require(info.space == Space::Tensor, || format!("{buffer} is not in tensor memory"))?;
        let part = TmemSlice::of(&info.shape, shape, from).filter(|_| elem == info.elem);
        let part = part.ok_or_else(|| format!("{buffer} has no slice with the shape of {tile} from column {from} on"))?;
        let fits = atom.fits(info, &part, &self.layout(uses, tile));
        require(fits, || format!("'{}' does not fit the layouts of {tile} and {buffer}", atom.name))
    }

    /// The accumulator is in tensor memory, the left operand in tensor or shared memory, and the right operand in shared memory.
    pub(super) fn tcgen05_mma<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op, atom: &'static TensorAtom) -> Rule {
        let Op::Mma { lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, .. } = kind else { unreachable!("called for MMA ops only") };
        let name = atom.name;
        uses.results(&[])?;
        zero_init.map_or(Ok(()), |zero_init| self.is_i1(uses, zero_init))?;
        let MmaOperand::Memory { buffer: accumulators, transposed: false, .. } = acc else {
            return Err(format!("'{name}' needs its accumulator in tensor memory, untransposed"));
        };
        let out = self.buffer(*accumulators)?;
        let has_layout = tensor_memory::accumulators(out.elem, &out.shape)
            .is_some_and(|expected| tensor_memory::is_same_but_alignment(out, &expected));
        require(has_layout, || format!("{accumulators} does not have an accumulator layout"))?;
        let MmaOperand::Memory { buffer: right, transposed, .. } = rhs else {
            return Err(format!("'{name}' needs its right operand in shared memory"));
        };
        let (b, [depth, own]) = self.shared_operand(*right, Operand::B, *transposed, atom)?;
        // Each CTA of a pair has the columns of its rank.
        let n = if self.attrs.cta_pair { own * tensor_memory::CTA_PAIR } else { own };
        let (a, [m, k]) = match lhs {
            MmaOperand::Registers(_) => return Err(format!("'{name}' has no operands in registers")),
            MmaOperand::Memory { buffer, transposed, .. } if self.buffer(*buffer)?.space == Space::Tensor => {
                let info = self.buffer(*buffer)?;
                let has_layout = tensor_memory::left_operand(info.elem, &info.shape)
                    .is_some_and(|expected| tensor_memory::is_same_but_alignment(info, &expected));
                require(has_layout && !transposed, || format!("{buffer} does not have a left-operand layout"))?;
                (info.elem.carrier(), matrix_extents(info)?)
            }
            MmaOperand::Memory { buffer, transposed, .. } => self.shared_operand(*buffer, Operand::A, *transposed, atom)?,
        };
        require([m, n] == matrix_extents(out)? && k == depth, || "the shapes do not form an MMA".into())?;
        let sum = out.elem.carrier();
        if lhs_scale.is_none() {
            has_mma(a, b, sum)?;
        }
        require(a == b && atom.operands.contains(&a) && atom.acc == sum, || format!("'{name}' has no MMA of {a} into {sum}"))?;
        let found = match (lhs_scale, rhs_scale) {
            (Some(lhs), Some(rhs)) => {
                let scale = self.scales(lhs, Operand::A, [m, k], atom)?;
                let same = self.scales(rhs, Operand::B, [n, k], atom)? == scale;
                require(same, || "the scales of both operands are of one type".into())?;
                let block = atom.scales.as_ref().map_or(0, |scales| scales.block);
                tensor_memory::scaled_tensor_atom(self.target, a, (scale, block), [m, n, k])
            }
            _ => tensor_memory::tensor_atom(self.target, a, sum, [m, n, k]),
        };
        require(found.is_some_and(|found| found.name == name), || {
            format!("the MMA does not divide into '{name}' on {}", self.target)
        })?;
        let of_cta_pair = tensor_memory::suits_cta_pairs([m, n]) && lhs_scale.is_none() && self.is_shared(lhs)?;
        require(of_cta_pair || !self.attrs.cta_pair, || "a CTA pair has no such MMA".into())
    }

    /// Checks the scales of an operand and returns their type. The buffer has one scale for each block of each row of A or column
    /// of B.
    fn scales(&self, place: &MmaOperand, operand: Operand, [lines, depth]: [u32; 2], atom: &TensorAtom) -> Result<Scalar, String> {
        let (Some(scales), MmaOperand::Memory { buffer, transposed: false, .. }) = (&atom.scales, place) else {
            return Err(format!("'{}' needs its scales in tensor memory, untransposed", atom.name));
        };
        let info = self.buffer(*buffer)?;
        let elem = info.elem.carrier();
        let blocks = depth / scales.block;
        let shape = if operand == Operand::B { [blocks, lines] } else { [lines, blocks] };
        let has_layout = tensor_memory::scales(info.elem, &shape, operand)
            .is_some_and(|expected| tensor_memory::is_same_but_alignment(info, &expected));
        require(has_layout, || format!("{buffer} does not have a scale layout"))?;
        require(scales.elems.contains(&elem), || format!("'{}' takes no scales of {elem}", atom.name))?;
        Ok(elem)
    }

    fn is_shared(&self, place: &MmaOperand) -> Result<bool, String> {
        place.buffer().map_or(Ok(false), |buffer| Ok(self.buffer(buffer)?.space == Space::Shared))
    }

    /// The type and extents of an operand in shared memory.
    fn shared_operand(
        &self,
        buffer: Buffer,
        operand: Operand,
        transposed: bool,
        atom: &TensorAtom,
    ) -> Result<(Scalar, [u32; 2]), String> {
        let info = self.buffer(buffer)?;
        let mut extents = matrix_extents(info)?;
        let matrix = Matrix::of(info, operand, transposed);
        let matrix = matrix.ok_or_else(|| format!("no matrix descriptor can describe {buffer}"))?;
        require(matrix.along_depth || atom.transposes, || {
            format!("'{}' takes operands that are contiguous along the depth", atom.name)
        })?;
        if transposed {
            extents.reverse();
        }
        Ok((info.elem.carrier(), extents))
    }

    /// Only targets with tensor memory may have buffers there.
    pub(super) fn has_tensor_memory(&self) -> Rule {
        let some = self.attrs.buffers.iter().find(|(_, info)| info.space == Space::Tensor);
        match some.filter(|_| !self.target.has(Feature::TensorMemory)) {
            Some((buffer, _)) => Err(format!("{} has no tensor memory for {buffer}", self.target)),
            None => Ok(()),
        }
    }
}

/// The last two extents.
fn matrix_extents(info: &BufferInfo) -> Result<[u32; 2], String> {
    info.shape.last_chunk::<2>().copied().ok_or_else(|| "an operand is a matrix".into())
}
