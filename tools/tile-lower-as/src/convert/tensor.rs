//! Products in tensor memory: their sums are in a buffer until threads take them up. What stands for them until then is whether they
//! are fresh, which is that no product has added to them.

use super::Rewriter;
use crate::chains::Chain;
use crate::products::Product;
use crate::{operands, tensor};
use base::diag::Result;
use base::ir::{Op as OpId, Operation};
use base::{Loc, Value};
use numerics::Scalar;
use tileas::mma::Operand;
use tileas::tensor::{LaneMove, Part};
use tileas::{Buffer, BufferInfo, Layout, MmaAtom, Op, Place, Space, Type};
use vocabulary::core_ops::Core;
use vocabulary::tile::{Dense, Elem, Shape};

/// The type of what stands for sums.
pub(super) const TRUTH: Type = Type::Scalar(Elem::Scalar(Scalar::I1));

impl Rewriter<'_> {
    pub(super) fn tensor_product(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (signed_lhs, signed_rhs, scales) = match kind {
            tileaa::Op::Mma { signed_lhs, signed_rhs, .. } => (*signed_lhs, *signed_rhs, None),
            tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. } => (false, false, Some([*lhs_scale, *rhs_scale])),
            _ => return Err(self.unsupported(op)),
        };
        let [lhs, rhs, acc] = operands::of_product(self.from, op);
        let Some(Product::Tensor { atom, lhs: a, rhs: b, scales: layouts, .. }) = self.products.get(op).cloned() else {
            unreachable!("planned as a product in tensor memory")
        };
        let chain = self.products.chain_of(op).expect("such products are in a chain").clone();
        let lhs = self.operand_place(lhs, Operand::A, &a, atom.transposes)?;
        let rhs = self.operand_place(rhs, Operand::B, &b, atom.transposes)?;
        let operands = [&lhs, &rhs].into_iter().filter_map(Place::buffer);
        let operands = operands.filter(|buffer| self.attrs.buffers[*buffer].space == Space::Shared);
        self.made_for.products.extend(operands.map(|buffer| (buffer, op)));
        let (mut lhs_scale, mut rhs_scale) = (None, None);
        if let Some(([of_lhs, of_rhs], layouts)) = scales.zip(layouts) {
            lhs_scale = Some(self.scales_in_tensor_memory(of_lhs, Operand::A, &layouts[0])?);
            rhs_scale = Some(self.scales_in_tensor_memory(of_rhs, Operand::B, &layouts[1])?);
        }
        let loc = self.from.body.ops[op].loc;
        let buffer = self.sums_of(&chain);
        let mut fresh = self.is_fresh(acc);
        let scaled = self.from.body.defining_op(acc).filter(|op| self.products.chain_of_scale(*op).is_some());
        if let Some(scale) = scaled.filter(|op| self.is_scaled_late(*op)) {
            fresh = self.scale(scale, fresh)?;
        }
        let new = Op::Mma {
            in_flight: false,
            lhs,
            rhs,
            acc: Place::Memory { buffer, slot: None, transposed: false },
            fresh: Some(fresh),
            lhs_scale,
            rhs_scale,
            signed_lhs,
            signed_rhs,
            atom: MmaAtom::Tensor(atom),
        };
        self.emit(new, [], loc);
        let result = self.from.body.result(op);
        let added = self.truth(false, loc);
        self.remember(result, None, added);
        self.take_up(result);
        Ok(())
    }

    /// Rows of sums are multiplied where they are: at once, or right before the product that adds to them.
    pub(super) fn scale_sums(&mut self, op: OpId) -> Result<()> {
        let result = self.from.body.result(op);
        let before = self.from.body.ops[op].kind.operands().into_iter().find(|value| self.products.is_sums(*value));
        let fresh = self.is_fresh(before.expect("the sums are an operand"));
        let fresh = if self.is_scaled_late(op) { fresh } else { self.scale(op, fresh)? };
        self.remember(result, None, fresh);
        Ok(())
    }

    /// Whether what an op scales goes to a product beside it: the less of its operands threads have in registers, the better.
    fn is_scaled_late(&self, op: OpId) -> bool {
        let (body, result) = (&self.from.body, self.from.body.result(op));
        let here = body.blocks.values().find(|block| block.ops.contains(&op)).expect("the op is in a block");
        here.ops.iter().any(|op| operands::is_product(self.from, *op) && operands::of_product(self.from, *op)[2] == result)
    }

    /// Threads multiply rows of sums in tensor memory, which are there from then on: zero by a factor that is no number is not zero.
    fn scale(&mut self, op: OpId, fresh: Value) -> Result<Value> {
        let (chain, factors) = self.products.chain_of_scale(op).expect("it scales sums");
        let (chain, loc) = (chain.clone(), self.from.body.ops[op].loc);
        let buffer = self.sums_of(&chain);
        let info = &self.attrs.buffers[buffer];
        let (atom, rows) = tensor::rows(info, self.attrs.warps.trailing_zeros() as usize).expect("the chain was planned so");
        let by = self.tile(factors, &rows)?;
        self.emit(Op::TensorScale { by, buffer, slot: None, fresh, atom: LaneMove(atom) }, [], loc);
        Ok(self.truth(false, loc))
    }

    /// A left operand that threads store to tensor memory.
    pub(super) fn left_in_tensor_memory(&mut self, value: Value, layout: &Layout) -> Result<Place> {
        let (elem, shape) = self.elem_shape(value);
        let info = tileas::tensor::left(elem, &shape).expect("the product was planned for such operands");
        let whole = Part::of(&shape, &shape, 0).expect("the buffer is of the operand");
        let atom = LaneMove(tensor::lane_atom(&info, &whole, layout).expect("the layout is one that threads can store"));
        let x = self.tile(value, layout)?;
        let buffer = self.shared_place(info);
        self.emit(Op::TensorStore { x, buffer, slot: None, from: 0, atom }, [], self.loc_of(value));
        Ok(Place::Memory { buffer, slot: None, transposed: false })
    }

    /// The scales of an operand, which threads store to tensor memory in a layout of all copies.
    fn scales_in_tensor_memory(&mut self, value: Value, operand: Operand, layout: &Layout) -> Result<Place> {
        let ((elem, shape), loc) = (self.elem_shape(value), self.loc_of(value));
        let info = tileas::tensor::scales(elem, &shape, operand).expect("the product was planned for such scales");
        let one = tensor::one_copy(layout, &shape);
        let x = self.tile(value, &one)?;
        let single: Shape = std::iter::once(1).chain(shape).collect();
        let ty = self.tile_type(elem, &single, one);
        let x = self.emit_one(Core::Reshape { x }, ty, loc);
        let ty = self.tile_type(elem, &info.shape, layout.clone());
        let x = self.emit_one(Core::Broadcast { x }, ty, loc);
        let whole = Part::of(&info.shape, &info.shape, 0).expect("the buffer is of the scales");
        let atom = LaneMove(tensor::lane_atom(&info, &whole, layout).expect("the layout is one that threads can store"));
        let buffer = self.shared_place(info);
        self.emit(Op::TensorStore { x, buffer, slot: None, from: 0, atom }, [], loc);
        Ok(Place::Memory { buffer, slot: None, transposed: false })
    }

    /// A buffer in tensor memory that nothing needs for longer than the product beside it.
    fn shared_place(&mut self, info: BufferInfo) -> Buffer {
        let strand = self.strand;
        let known = self.places.iter().find(|(of, buffer)| *of == strand && self.attrs.buffers[*buffer] == info);
        known.map(|(_, buffer)| *buffer).unwrap_or_else(|| {
            let buffer = self.attrs.buffers.push(info);
            self.places.push((strand, buffer));
            buffer
        })
    }

    /// The buffer of a chain's sums.
    fn sums_of(&mut self, chain: &Chain) -> Buffer {
        if let Some(buffer) = self.sums.get(&chain.products[0]) {
            return *buffer;
        }
        let info = tensor::sums(self.from, chain).expect("the chain was planned for tensor memory");
        let buffer = if chain.is_single() { self.shared_place(info) } else { self.attrs.buffers.push(info) };
        self.sums.insert(chain.products[0], buffer);
        buffer
    }

    /// Whether sums are fresh; those that are no chain's are zero.
    pub(super) fn is_fresh(&mut self, sums: Value) -> Value {
        match self.products.is_sums(sums).then(|| self.recall(sums, None)).flatten() {
            Some(fresh) => fresh,
            None => self.truth(true, self.loc_of(sums)),
        }
    }

    pub(super) fn truth(&mut self, value: bool, loc: Loc) -> Value {
        self.emit_one(Core::Constant { value: Dense::Splat(value.into()) }, TRUTH, loc)
    }

    /// Loads the sums of a chain to registers, if the value is what they are in the end and not taken up by slices.
    pub(super) fn take_up(&mut self, result: Value) {
        let Some(chain) = self.products.chain_to(result).filter(|chain| chain.slices.is_empty()) else { return };
        self.load_sums(chain, result, 0);
    }

    pub(super) fn take_up_slice(&mut self, op: OpId) {
        let chain = self.products.chain_of_slice(op).expect("it is a slice of sums");
        self.load_sums(chain, self.from.body.result(op), tensor::slice_start(self.from, op));
    }

    /// Loads a value from a chain's sums, from a column on; where nothing was added up they are zero.
    fn load_sums(&mut self, chain: &Chain, result: Value, from: u32) {
        let fresh = if chain.runs { None } else { Some(self.is_fresh(chain.result)) };
        let buffer = self.sums_of(chain);
        let loc = self.loc_of(result);
        let (elem, shape) = self.elem_shape(result);
        let home = self.homes.or_default(self.from, result);
        let id = self.module.layout_id(home.clone());
        let ty = self.tile_type(elem, &shape, home.clone());
        let info = &self.attrs.buffers[buffer];
        let part = Part::of(&info.shape, &shape, from).expect("the buffer is of the sums");
        let atom = tensor::lane_atom(info, &part, &home).expect("the home of sums is one that threads can take up");
        let load = Op::TensorLoad { buffer, slot: None, from, atom: LaneMove(atom) };
        let value = match fresh {
            None => self.emit_one(load, ty, loc),
            Some(cond) => {
                let zero = Op::Core(Core::Constant { value: Dense::Splat(0) });
                let [then, otherwise] = [zero, load].map(|op| {
                    let region = self.to.new_region();
                    let block = self.to.new_block(region);
                    let made = self.to.append(block, op, [ty.clone()], loc);
                    let values = vec![self.to.result(made)];
                    self.to.append(block, Op::Core(Core::Yield { values }), [], loc);
                    region
                });
                self.emit_one(Core::If { cond, then, otherwise }, ty, loc)
            }
        };
        self.remember(result, Some(id), value);
    }
}
