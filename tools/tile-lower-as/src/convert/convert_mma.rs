//! Converts MMAs that use `mma.sync`, `wgmma` or FMAs, and places the operands of `wgmma` and `tcgen05`. An operand becomes
//! register fragments of the atom, or a buffer in shared memory.

use super::Converter;
use crate::layout_transforms::{innermost_dim, neighbours_first};
use crate::mma_selection::{MmaSelection, OperandSource as PlannedOperand, fma_operand_reads};
use crate::operands::{self, OperandStep, StepKind};
use crate::smem_swizzles;
use base::diag::Result;
use base::ir::Def;
use base::ir::Op as OpId;
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::{Dense, element_count};
use numerics::arith::{Compare, Predicate, Signedness};
use std::collections::BTreeSet;
use tileas::mma_sync_atoms::Operand;
use tileas::wgmma_atoms::{self, Matrix};
use tileas::{Buffer, Layout, MmaAtom, MmaOperand, Op};

/// Maximum number of FMA dots after a dot whose operands are stored to shared memory together with that dot's operands.
const MAX_FOLLOWING_DOTS: usize = 3;
/// Maximum bytes of the operands of a dot and the dots after it ([`MAX_FOLLOWING_DOTS`]). 48 KiB leave shared memory for other
/// buffers.
const MAX_SHARED_BYTES: usize = 48 << 10;
/// Maximum unroll factor of the loop along K of an FMA dot.
const MAX_FMA_UNROLL: u32 = 4;

impl Converter<'_> {
    /// Converts an MMA to the selected instruction, with its operands in the layouts or buffers that the instruction needs.
    pub(super) fn convert_mma(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (lhs, rhs, acc) = match kind {
            tileaa::Op::Mma { lhs, rhs, acc, .. } | tileaa::Op::MmaScaled { lhs, rhs, acc, .. } => (*lhs, *rhs, *acc),
            _ => return Err(self.unsupported(op)),
        };
        let (loc, result) = (self.from.body.ops[op].loc, self.from.body.result(op));
        let plan = self.mmas.get(op).expect("every MMA is planned").clone();
        if matches!(plan, MmaSelection::Tensor { .. }) {
            return self.tcgen05_mma(op, kind);
        }
        let zero_init = match plan {
            MmaSelection::Group { .. } => self.zero_init_of(acc, loc)?,
            _ => None,
        };
        let acc = self.tile_in_layout(acc, plan.accumulator_layout())?;
        let (signed_lhs, signed_rhs, scales) = match kind {
            tileaa::Op::Mma { signed_lhs, signed_rhs, .. } => (*signed_lhs, *signed_rhs, None),
            tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. } => (false, false, Some([*lhs_scale, *rhs_scale])),
            _ => return Err(self.unsupported(op)),
        };
        let (mut lhs_scale, mut rhs_scale) = (None, None);
        let (atom, lhs, rhs) = match &plan {
            MmaSelection::Sync { atom, a, b, scales: layouts, .. } => {
                let [lhs, rhs] = [self.tile_in_layout(lhs, a)?, self.tile_in_layout(rhs, b)?];
                if let (Some([of_lhs, of_rhs]), Some(layouts)) = (scales, layouts) {
                    lhs_scale = Some(MmaOperand::Registers(self.tile_in_layout(of_lhs, &layouts[0])?));
                    rhs_scale = Some(MmaOperand::Registers(self.tile_in_layout(of_rhs, &layouts[1])?));
                }
                (MmaAtom::Sync(atom), MmaOperand::Registers(lhs), MmaOperand::Registers(rhs))
            }
            MmaSelection::Group { atom, lhs: a, rhs: b, .. } => {
                let lhs = self.operand_place(lhs, Operand::A, a, atom.transposes)?;
                let rhs = self.operand_place(rhs, Operand::B, b, atom.transposes)?;
                let operand_buffers = [&lhs, &rhs].into_iter().filter_map(MmaOperand::buffer);
                self.buffer_origins.mmas.extend(operand_buffers.map(|buffer| (buffer, op)));
                (MmaAtom::Group(atom), lhs, rhs)
            }
            MmaSelection::Tensor { .. } => unreachable!("`tcgen05_mma` handles these"),
            MmaSelection::Fma { .. } => {
                self.store_operands_of_following(op)?;
                let shape = self.elem_shape(lhs).1;
                let dims = shape.len();
                let atom = MmaAtom::multiply_add(shape[dims - 1], MAX_FMA_UNROLL);
                // The buffers are contiguous along M and N, because a thread reads neighbouring rows of A and columns of B in each
                // step of K.
                let lhs = self.fma_operand_buffer(lhs, dims - 2, result, loc)?;
                let rhs = self.fma_operand_buffer(rhs, dims - 1, result, loc)?;
                let [lhs, rhs] = [lhs, rhs].map(|buffer| MmaOperand::Memory { buffer, stage: None, transposed: false });
                (atom, lhs, rhs)
            }
        };
        let ty = self.to.ty(acc).clone();
        let acc = MmaOperand::Registers(acc);
        let new = Op::Mma { in_flight: false, lhs, rhs, acc, zero_init, lhs_scale, rhs_scale, signed_lhs, signed_rhs, atom };
        let values = self.emit(new, [ty], loc);
        self.remember_results(op, &values);
        Ok(())
    }

    /// Emits the shared-memory stores for the operands of the FMA dots that directly follow the dot `first` and share operands with
    /// it. The stores precede `first`. Reason: with no op between the dots, threads read common operands once.
    fn store_operands_of_following(&mut self, first: OpId) -> Result<()> {
        for op in self.following_fma_dots(first) {
            let [lhs, rhs, _] = operands::mma_operands(self.from, op);
            let dims = self.elem_shape(lhs).1.len();
            let (result, loc) = (self.from.body.result(op), self.from.body.ops[op].loc);
            self.fma_operand_buffer(lhs, dims - 2, result, loc)?;
            self.fma_operand_buffer(rhs, dims - 1, result, loc)?;
        }
        Ok(())
    }

    /// The FMA dots that directly follow the dot `first`, each of which shares an operand with an earlier dot of the sequence.
    fn following_fma_dots(&self, first: OpId) -> Vec<OpId> {
        let body = &self.from.body;
        let is_fma_dot = |op: &OpId| matches!(self.mmas.get(*op), Some(MmaSelection::Fma { .. }));
        let mut read_operands: Vec<Value> = operands::mma_operands(self.from, first)[..2].to_vec();
        let mut following = Vec::new();
        for op in self.following_ops.iter().take_while(|op| is_fma_dot(op)).take(MAX_FOLLOWING_DOTS) {
            let operands_of_op = &operands::mma_operands(self.from, *op)[..2];
            let all_operands: BTreeSet<Value> = read_operands.iter().chain(operands_of_op).copied().collect();
            let bytes =
                |value: &Value| body.ty(*value).tile().map_or(0, |(elem, shape)| element_count(shape) * elem.bytes() as usize);
            if !operands_of_op.iter().any(|operand| read_operands.contains(operand))
                || all_operands.iter().map(bytes).sum::<usize>() > MAX_SHARED_BYTES
            {
                break;
            }
            read_operands.extend(operands_of_op);
            following.push(*op);
        }
        following
    }

    /// The `zero_init` predicate of a `wgmma` whose accumulator is zero always or in the first iteration of the enclosing loop.
    /// `None` for other accumulators. With the predicate (`scale-d = 0`), no instruction sets the accumulator registers to zero.
    fn zero_init_of(&mut self, acc: Value, loc: Loc) -> Result<Option<Value>> {
        if self.is_zero(acc) {
            return Ok(Some(self.predicate_constant(true, loc)));
        }
        let Some((induction_variable, lower)) = self.induction_if_init_is_zero(acc) else { return Ok(None) };
        let [lhs, rhs] = [self.non_tile(induction_variable)?, self.non_tile(lower)?];
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Signed };
        Ok(Some(self.emit_one(Core::Compare { kind, lhs, rhs }, super::convert_tcgen05::PREDICATE, loc)))
    }

    /// Whether a value of the old function is a constant whose elements are all zero.
    fn is_zero(&self, value: Value) -> bool {
        let definition = self.from.body.defining_op(value).map(|op| &self.from.body.ops[op].kind);
        matches!(definition, Some(tileaa::Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// For an argument of a `for` whose init is zero, the induction variable and the lower bound of this `for`. `None` for other
    /// values.
    fn induction_if_init_is_zero(&self, value: Value) -> Option<(Value, Value)> {
        let body = &self.from.body;
        let Def::Argument { block, index } = body.values[value].def else { return None };
        let parent = body.blocks[block].ops.first().and_then(|op| self.parents[op.0 as usize])?;
        let loop_op = body.ops[parent].kind.core().and_then(Core::as_loop)?;
        let lower = loop_op.bounds?.lower;
        let init_value = *loop_op.init.get((index as usize).checked_sub(1)?)?;
        self.is_zero(init_value).then(|| (body.blocks[block].args[0], lower))
    }

    /// The operand of a `wgmma` or `tcgen05` MMA in the memory or registers that `planned` selects. Emits the ops that move it
    /// there. `transposes` tells whether the atom can read the operand M- or N-major.
    pub(super) fn operand_place(
        &mut self,
        value: Value,
        operand: Operand,
        planned: &PlannedOperand,
        transposes: bool,
    ) -> Result<MmaOperand> {
        match planned {
            PlannedOperand::Registers(layout) => return Ok(MmaOperand::Registers(self.tile_in_layout(value, layout)?)),
            PlannedOperand::Tensor(layout) => return self.left_in_tensor_memory(value, layout),
            PlannedOperand::Memory | PlannedOperand::Transposed(_) => {}
        }
        let (buffer, transposed) = self.matrix_buffer(value, operand, planned, transposes)?;
        Ok(MmaOperand::Memory { buffer, stage: None, transposed })
    }

    /// The buffer from which `wgmma` or `tcgen05` reads an operand, and whether the operand is transposed in the buffer. Either an
    /// asynchronous copy fills the buffer, or threads store the tile there, outside all loops in which the tile is invariant. If
    /// the atom `transposes` operands, a stored tile is contiguous along the dimension for which the store takes fewer wavefronts.
    /// Otherwise, it is contiguous along K.
    fn matrix_buffer(
        &mut self,
        value: Value,
        operand: Operand,
        place: &PlannedOperand,
        transposes: bool,
    ) -> Result<(Buffer, bool)> {
        if let Some(found) = self.copied_matrix(value, operand, transposes) {
            return Ok(found);
        }
        let (elem, shape) = self.elem_shape(value);
        let assigned_layout = self.assigned_layouts.or_default(self.from, value);
        let layout = place
            .layout()
            .filter(|layout| self.pays_to_convert(value, &assigned_layout, layout, operand))
            .unwrap_or(&assigned_layout);
        let k_dim = if operand == Operand::B { shape.len() - 2 } else { shape.len() - 1 };
        let store_dim = innermost_dim(&assigned_layout, &shape).max(shape.len() - 2);
        let other_dim = 2 * shape.len() - 3 - store_dim;
        // The result is `None` if rows along `inner` are too short for a matrix descriptor, for example eight columns.
        let wavefronts = |inner: usize| Some(self.store_wavefronts(&wgmma_atoms::operand_buffer(elem, &shape, inner)?, layout));
        let candidates = [store_dim, other_dim].into_iter().filter_map(|inner| Some((wavefronts(inner)?, inner)));
        let inner = candidates.min_by_key(|(wavefronts, _)| *wavefronts).filter(|_| transposes).map_or(k_dim, |(_, inner)| inner);
        let known_buffer = self.scopes.iter().rev().find_map(|scope| scope.operands.get(&(value, inner)).copied());
        if let Some(buffer) = known_buffer {
            return Ok((buffer, false));
        }
        let computed_at = self.computed_at(value);
        let at = self.before_loops(computed_at);
        let insertion_block = std::mem::replace(&mut self.block, self.scopes[at].block);
        let x = self.tile_in_layout(value, layout)?;
        let info = wgmma_atoms::operand_buffer(elem, &shape, inner).expect("the plan checks the operand's shape");
        let buffer = self.attrs.buffers.push(info);
        self.shared_store(x, layout, buffer, self.loc_of(value));
        self.block = insertion_block;
        self.scopes[at].operands.insert((value, inner), buffer);
        Ok((buffer, false))
    }

    /// Whether a conversion to the transposing layout `layout` plus a store from it takes fewer shared-memory wavefronts than a
    /// store from the assigned layout. Always true for a tile that each use rematerializes.
    fn pays_to_convert(&self, value: Value, assigned_layout: &Layout, layout: &Layout, operand: Operand) -> bool {
        let (elem, shape) = self.elem_shape(value);
        let k_dim = if operand == Operand::B { shape.len() - 2 } else { shape.len() - 1 };
        let Some(info) = wgmma_atoms::operand_buffer(elem, &shape, k_dim) else { return true };
        let inner = [assigned_layout, layout].map(|layout| innermost_dim(layout, &shape));
        let conversion_wavefronts = smem_swizzles::conversion_cost(elem, &shape, inner, [assigned_layout, layout]).wavefronts;
        self.assigned_layouts.get(value).is_none()
            || conversion_wavefronts + self.store_wavefronts(&info, layout) < self.store_wavefronts(&info, assigned_layout)
    }

    /// The index of the innermost scope that defines the values from which a use of a tile is emitted. For a tile with an assigned
    /// layout, this value is the tile. For a slice that each use extracts, the values are the slice's source and indices. For any
    /// other tile, returns the current scope.
    fn computed_at(&mut self, value: Value) -> usize {
        let current_scope = self.scopes.len() - 1;
        if let Some(assigned_layout) = self.assigned_layouts.get(value).cloned() {
            let id = self.module.layout_id(assigned_layout);
            return self
                .scopes
                .iter()
                .rposition(|scope| scope.new_values.contains_key(&(value, Some(id))))
                .unwrap_or(current_scope);
        }
        let definition = self.from.body.defining_op(value).map(|op| &self.from.body.ops[op].kind);
        let Some(tileaa::Op::Core(Core::Extract { x, indices })) = definition else { return current_scope };
        // The indices are scalars, which are emitted at their ops.
        let scope_of_scalar = |index: &Value| self.scopes.iter().rposition(|scope| scope.new_values.contains_key(&(*index, None)));
        let scope_of_indices = indices.iter().map(|index| scope_of_scalar(index).unwrap_or(current_scope)).max();
        self.computed_at(*x).max(scope_of_indices.unwrap_or(current_scope))
    }

    /// The buffer that an asynchronous copy fills with the tile from which an operand is rearranged, and whether the operand is
    /// transposed in the buffer. `None` without such a copy, or if no matrix descriptor expresses the rearrangement.
    fn copied_matrix(&self, value: Value, operand: Operand, transposes: bool) -> Option<(Buffer, bool)> {
        let shape = self.elem_shape(value).1;
        let [rows, cols] = [shape[shape.len() - 2], shape[shape.len() - 1]].map(u32::trailing_zeros);
        // Maps each bit of the operand's linear element index to an element of the copied tile.
        let mut bits = Layout { register: (0..rows + cols).map(|bit| 1 << bit).collect(), ..Layout::default() };
        let mut source = value;
        let buffer = loop {
            if let Some(buffer) = self.buffered.get(&source) {
                break *buffer;
            }
            let OperandStep { from, step_kind } = operands::defining_step(self.from, source)?;
            match step_kind {
                StepKind::Permuted(order) => bits = bits.unpermute(&self.elem_shape(source).1, order),
                StepKind::Reshaped => {}
                StepKind::Converted => return None,
            }
            source = from;
        };
        let identity_bases = (0..rows + cols).map(|bit| 1 << bit);
        let transposed_bases = (rows..rows + cols).chain(0..rows).map(|bit| 1 << bit);
        let transposed = !bits.register.iter().copied().eq(identity_bases);
        let fits = !transposed || bits.register.iter().copied().eq(transposed_bases);
        let matrix =
            Matrix::from_buffer(&self.attrs.buffers[buffer], operand, transposed).filter(|matrix| transposes || matrix.along_depth);
        (fits && matrix.is_some()).then_some((buffer, transposed))
    }

    /// The buffer from which threads read the operand `value` of the FMA dot with result `result`. The buffer is that of the
    /// operand's asynchronous copy, or a buffer to which threads store the operand, contiguous along `dim` (M or N).
    fn fma_operand_buffer(&mut self, value: Value, dim: usize, result: Value, loc: Loc) -> Result<Buffer> {
        let stored = || self.scopes.last().and_then(|scope| scope.operands.get(&(value, dim)).copied());
        if let Some(buffer) = self.buffered.get(&value).copied().or_else(stored) {
            return Ok(buffer);
        }
        let (elem, shape) = self.elem_shape(value);
        let accumulator = &self.assigned_layouts.or_default(self.from, result);
        let layout = neighbours_first(&self.assigned_layouts.or_default(self.from, value), &shape, dim);
        let x = self.tile_in_layout(value, &layout)?;
        let reads = fma_operand_reads(accumulator, &self.elem_shape(result).1, &shape, dim);
        let buffer = self.attrs.buffers.push(smem_swizzles::conversion_buffer(elem, &shape, [dim; 2], &[&layout, &reads]));
        self.shared_store(x, &layout, buffer, loc);
        self.scopes.last_mut().expect("a function is open").operands.insert((value, dim), buffer);
        Ok(buffer)
    }
}
