//! Converts `tcgen05` MMAs. A TMEM buffer holds the accumulator until threads load it. Until that load, an i1 predicate `zero_init`
//! replaces the accumulator in the IR: the predicate is true while no MMA has written the buffer.

use super::Converter;
use crate::mma_selection::MmaSelection;
use crate::tmem_accumulator_chains::Chain;
use crate::{operands, tcgen05_selection};
use base::diag::Result;
use base::ir::{Op as OpId, Operation};
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use tileas::mma_sync_atoms::Operand;
use tileas::tensor_memory::{LaneMove, TmemSlice};
use tileas::{Buffer, BufferInfo, Layout, MmaAtom, MmaOperand, Op, Space, Type};

/// The type of the `zero_init` value that stands for a TMEM accumulator.
pub(super) const PREDICATE: Type = Type::Scalar(Elem::Scalar(Scalar::I1));

impl Converter<'_> {
    /// Converts a `tcgen05` MMA. The new op has no result: it adds to the accumulator in the TMEM buffer.
    pub(super) fn tcgen05_mma(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (signed_lhs, signed_rhs, scales) = match kind {
            tileaa::Op::Mma { signed_lhs, signed_rhs, .. } => (*signed_lhs, *signed_rhs, None),
            tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. } => (false, false, Some([*lhs_scale, *rhs_scale])),
            _ => return Err(self.unsupported(op)),
        };
        let [lhs, rhs, acc] = operands::mma_operands(self.from, op);
        let Some(MmaSelection::Tensor { atom, lhs: a, rhs: b, scales: layouts, .. }) = self.mmas.get(op).cloned() else {
            unreachable!("planned as a `tcgen05` MMA")
        };
        let chain = self.mmas.chain_of(op).expect("every `tcgen05` MMA is in a chain").clone();
        let lhs = self.operand_place(lhs, Operand::A, &a, atom.transposes)?;
        let rhs = self.operand_place(rhs, Operand::B, &b, atom.transposes)?;
        let operands = [&lhs, &rhs].into_iter().filter_map(MmaOperand::buffer);
        let operands = operands.filter(|buffer| self.attrs.buffers[*buffer].space == Space::Shared);
        self.buffer_origins.mmas.extend(operands.map(|buffer| (buffer, op)));
        let (mut lhs_scale, mut rhs_scale) = (None, None);
        if let Some(([of_lhs, of_rhs], layouts)) = scales.zip(layouts) {
            lhs_scale = Some(self.scales_in_tensor_memory(of_lhs, Operand::A, &layouts[0])?);
            rhs_scale = Some(self.scales_in_tensor_memory(of_rhs, Operand::B, &layouts[1])?);
        }
        let loc = self.from.body.ops[op].loc;
        let buffer = self.buffer_of_chain(&chain);
        let mut zero_init = self.zero_init_predicate(acc);
        let scaling_op = self.from.body.defining_op(acc).filter(|op| self.mmas.chain_of_scale(*op).is_some());
        if let Some(scale) = scaling_op.filter(|op| self.is_scaled_late(*op)) {
            zero_init = self.emit_scale(scale, zero_init)?;
        }
        let new = Op::Mma {
            in_flight: false,
            lhs,
            rhs,
            acc: MmaOperand::Memory { buffer, stage: None, transposed: false },
            zero_init: Some(zero_init),
            lhs_scale,
            rhs_scale,
            signed_lhs,
            signed_rhs,
            atom: MmaAtom::Tensor(atom),
        };
        self.emit(new, [], loc);
        let result = self.from.body.result(op);
        let not_zero = self.predicate_constant(false, loc);
        self.remember(result, None, not_zero);
        self.load_final_accumulator(result);
        Ok(())
    }

    /// Converts an op that scales rows of an accumulator in tensor memory. If [`Self::is_scaled_late`], emits nothing, because the
    /// scaling is emitted right before the next MMA.
    pub(super) fn scale_accumulator(&mut self, op: OpId) -> Result<()> {
        let result = self.from.body.result(op);
        let accumulator = self.from.body.ops[op].kind.operands().into_iter().find(|value| self.mmas.is_accumulator(*value));
        let zero_init = self.zero_init_predicate(accumulator.expect("the accumulator is an operand"));
        let zero_init = if self.is_scaled_late(op) { zero_init } else { self.emit_scale(op, zero_init)? };
        self.remember(result, None, zero_init);
        Ok(())
    }

    /// Whether the scaling `op` is emitted right before the MMA that adds to the scaled accumulator. It is if this MMA is in the
    /// same block. Reason: late scaling shortens the live ranges of the MMA's operands.
    fn is_scaled_late(&self, op: OpId) -> bool {
        let (body, result) = (&self.from.body, self.from.body.result(op));
        let own_block = body.blocks.values().find(|block| block.ops.contains(&op)).expect("the op is in a block");
        own_block.ops.iter().any(|op| operands::is_mma(self.from, *op) && operands::mma_operands(self.from, *op)[2] == result)
    }

    /// Emits the op that scales rows of an accumulator in tensor memory. Returns a `zero_init` of false, because the scaled
    /// accumulator may differ from zero: zero times NaN or infinity is NaN.
    fn emit_scale(&mut self, op: OpId, zero_init: Value) -> Result<Value> {
        let (chain, factors) = self.mmas.chain_of_scale(op).expect("the op scales an accumulator");
        let (chain, loc) = (chain.clone(), self.from.body.ops[op].loc);
        let buffer = self.buffer_of_chain(&chain);
        let info = &self.attrs.buffers[buffer];
        let (atom, rows) = tcgen05_selection::row_layout(info, self.attrs.warps.trailing_zeros() as usize)
            .expect("the plan checks the chain's layout");
        let by = self.tile_in_layout(factors, &rows)?;
        self.emit(Op::TmemScale { by, buffer, stage: None, zero_init, atom: LaneMove(atom) }, [], loc);
        Ok(self.predicate_constant(false, loc))
    }

    /// Emits the store of a left operand from registers in `layout` to tensor memory. Returns the MMA operand there.
    pub(super) fn left_in_tensor_memory(&mut self, value: Value, layout: &Layout) -> Result<MmaOperand> {
        let (elem, shape) = self.elem_shape(value);
        let info = tileas::tensor_memory::left_operand_buffer(elem, &shape).expect("the plan checks the operand's shape");
        let whole = TmemSlice::from_extents(&shape, &shape, 0).expect("the buffer has the operand's shape");
        let atom = LaneMove(tcgen05_selection::lane_atom(&info, &whole, layout).expect("the plan checks the layout"));
        let x = self.tile_in_layout(value, layout)?;
        let buffer = self.shared_tmem_buffer(info);
        self.emit(Op::TmemStore { x, buffer, stage: None, from: 0, atom }, [], self.loc_of(value));
        Ok(MmaOperand::Memory { buffer, stage: None, transposed: false })
    }

    /// Emits the store of the scales of `operand` (A or B) to tensor memory, with all replicas that the instruction reads. Returns
    /// the MMA operand there.
    fn scales_in_tensor_memory(&mut self, value: Value, operand: Operand, layout: &Layout) -> Result<MmaOperand> {
        let ((elem, shape), loc) = (self.elem_shape(value), self.loc_of(value));
        let info = tileas::tensor_memory::scale_buffer(elem, &shape, operand).expect("the plan checks the shape of the scales");
        let replica_layout = crate::layout_transforms::one_replica_layout(layout, &shape);
        let x = self.tile_in_layout(value, &replica_layout)?;
        let replica_shape: Shape = std::iter::once(1).chain(shape).collect();
        let ty = self.tile_type(elem, &replica_shape, replica_layout);
        let x = self.emit_one(Core::Reshape { x }, ty, loc);
        let ty = self.tile_type(elem, &info.shape, layout.clone());
        let x = self.emit_one(Core::Broadcast { x }, ty, loc);
        let whole = TmemSlice::from_extents(&info.shape, &info.shape, 0).expect("the buffer has the shape of the scales");
        let atom = LaneMove(tcgen05_selection::lane_atom(&info, &whole, layout).expect("the plan checks the layout"));
        let buffer = self.shared_tmem_buffer(info);
        self.emit(Op::TmemStore { x, buffer, stage: None, from: 0, atom }, [], loc);
        Ok(MmaOperand::Memory { buffer, stage: None, transposed: false })
    }

    /// A TMEM buffer of the form `info` for a value that is live only around one MMA. All MMAs of a component share the buffer.
    fn shared_tmem_buffer(&mut self, info: BufferInfo) -> Buffer {
        let component = self.component;
        let existing_buffer =
            self.shared_tmem_buffers.iter().find(|(owner, buffer)| *owner == component && self.attrs.buffers[*buffer] == info);
        existing_buffer.map(|(_, buffer)| *buffer).unwrap_or_else(|| {
            let buffer = self.attrs.buffers.push(info);
            self.shared_tmem_buffers.push((component, buffer));
            buffer
        })
    }

    /// The TMEM buffer of a chain's accumulator. Adds the buffer to the function at the first call for a chain.
    fn buffer_of_chain(&mut self, chain: &Chain) -> Buffer {
        if let Some(buffer) = self.accumulators.get(&chain.mmas[0]) {
            return *buffer;
        }
        let info = tcgen05_selection::chain_accumulator_buffer(self.from, chain).expect("the plan checks the accumulator's shape");
        let buffer = if chain.is_single() { self.shared_tmem_buffer(info) } else { self.attrs.buffers.push(info) };
        self.accumulators.insert(chain.mmas[0], buffer);
        buffer
    }

    /// The `zero_init` predicate of an accumulator. If `accumulator` is a value outside all chains, it is the constant zero with
    /// which a chain starts, so the predicate is true.
    pub(super) fn zero_init_predicate(&mut self, accumulator: Value) -> Value {
        match self.mmas.is_accumulator(accumulator).then(|| self.recall(accumulator, None)).flatten() {
            Some(zero_init) => zero_init,
            None => self.predicate_constant(true, self.loc_of(accumulator)),
        }
    }

    /// Emits a constant i1 predicate.
    pub(super) fn predicate_constant(&mut self, value: bool, loc: Loc) -> Value {
        self.emit_one(Core::Constant { value: Dense::Splat(value.into()) }, PREDICATE, loc)
    }

    /// If `result` is the final accumulator of a chain, emits its load to registers, unless threads load the accumulator by slices.
    pub(super) fn load_final_accumulator(&mut self, result: Value) {
        let Some(chain) = self.mmas.chain_to(result).filter(|chain| chain.slices.is_empty()) else { return };
        self.load_accumulator(chain, result, 0);
    }

    /// Converts an `extract` of a slice of a TMEM accumulator to a load of this slice.
    pub(super) fn load_accumulator_slice(&mut self, op: OpId) {
        let chain = self.mmas.chain_of_slice(op).expect("the op extracts a slice of an accumulator");
        self.load_accumulator(chain, self.from.body.result(op), tcgen05_selection::slice_start(self.from, op));
    }

    /// Emits the load of `result` from a chain's accumulator, starting at TMEM column `from`. If no MMA has executed, `result` is
    /// zero.
    fn load_accumulator(&mut self, chain: &Chain, result: Value, from: u32) {
        let zero_init = if chain.always_executes { None } else { Some(self.zero_init_predicate(chain.result)) };
        let buffer = self.buffer_of_chain(chain);
        let loc = self.loc_of(result);
        let (elem, shape) = self.elem_shape(result);
        let assigned_layout = self.assigned_layouts.or_default(self.from, result);
        let id = self.module.layout_id(assigned_layout.clone());
        let ty = self.tile_type(elem, &shape, assigned_layout.clone());
        let info = &self.attrs.buffers[buffer];
        let part = TmemSlice::from_extents(&info.shape, &shape, from).expect("the buffer has the accumulator's shape");
        let atom = tcgen05_selection::lane_atom(info, &part, &assigned_layout)
            .expect("the plan assigns a layout that `tcgen05.ld` supports");
        let load = Op::TmemLoad { buffer, stage: None, from, atom: LaneMove(atom) };
        let value = match zero_init {
            None => self.emit_one(load, ty, loc),
            Some(cond) => {
                let zero = Op::Core(Core::Constant { value: Dense::Splat(0) });
                let branches = [zero, load].map(|op| {
                    let region = self.to.new_region();
                    let block = self.to.new_block(region);
                    let new = self.to.append(block, op, [ty.clone()], loc);
                    let values = vec![self.to.result(new)];
                    self.to.append(block, Op::Core(Core::Yield { values }), [], loc);
                    region
                });
                self.emit_one(Core::new_if(cond, branches), ty, loc)
            }
        };
        self.remember(result, Some(id), value);
    }
}
