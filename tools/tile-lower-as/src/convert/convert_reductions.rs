//! Converts reductions and scans. A reduction has three steps: within each thread, across the lanes of a warp, and across warps
//! through shared memory.

use super::Converter;
use crate::layout_assignment::without_dim;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Shape;
use tileas::layout::Strides;
use tileas::{Layout, Op, Type};

impl Converter<'_> {
    /// Converts a reduction in three steps: within the registers of a thread, across the lanes of a warp, and across warps. A step
    /// is omitted if its elements along the dimension are all equal.
    pub(super) fn convert_reduce(&mut self, op: OpId, operands: &[Value], dim: u32, body: Region) -> Result<()> {
        let loc = self.from.body.ops[op].loc;
        let shape = self.elem_shape(operands[0]).1;
        let assigned_layout = operands.iter().find_map(|operand| self.assigned_layouts.get(*operand).cloned());
        let layout = assigned_layout.unwrap_or_else(|| self.assigned_layouts.or_default(self.from, operands[0]));
        let mut state = PartialReduction { shape, layout, values: Vec::new(), dim, loc };
        for operand in operands {
            let value = self.tile_in_layout(*operand, &state.layout)?;
            state.values.push(value);
        }
        if state.levels_with_dim().0 {
            self.reduce_registers(&mut state, body)?;
        }
        if state.levels_with_dim().1 {
            self.reduce_step(
                &mut state,
                body,
                |bits| bits.lane.clear_dim(),
                |values, dim, body| Op::ReduceLanes { operands: values, dim, body },
            )?;
        }
        if state.levels_with_dim().2 {
            self.gather_warps(&mut state);
            self.reduce_registers(&mut state, body)?;
        }
        self.drop_dim(op, state)
    }

    /// Converts a scan. The operands are converted to the layout of the result.
    pub(super) fn convert_scan(&mut self, op: OpId, operands: &[Value], dim: u32, reverse: bool, body: Region) -> Result<()> {
        let node = &self.from.body.ops[op];
        let layout = self.assigned_layouts.or_default(self.from, node.results[0]);
        let operands = operands.iter().map(|operand| self.tile_in_layout(*operand, &layout)).collect::<Result<Vec<Value>>>()?;
        let args = self.from.body.blocks[self.from.body.block_of(body)].args.clone();
        let body = self.convert_region(body, &args)?;
        let types: Vec<Type> = operands.iter().map(|operand| self.to.ty(*operand).clone()).collect();
        let values = self.emit(Op::Scan { operands, dim, reverse, body }, types, node.loc);
        self.remember_results(op, &values);
        Ok(())
    }

    /// Emits the reduction of the elements in the registers of each thread.
    fn reduce_registers(&mut self, state: &mut PartialReduction, body: Region) -> Result<()> {
        let build_op = |operands, dim, body| Op::ReduceRegisters { operands, dim, body };
        self.reduce_step(state, body, |bits| bits.register.clear_dim(), build_op)
    }

    /// Emits one op that combines elements along the reduced dimension. `clear` sets the bases of the combined bits to zero, and
    /// `build_op` builds the op. The results have the remaining extents and layout.
    fn reduce_step(
        &mut self,
        state: &mut PartialReduction,
        body: Region,
        clear: impl Fn(&mut DimBits<'_>),
        build_op: impl Fn(Vec<Value>, u32, Region) -> Op,
    ) -> Result<()> {
        state.remove_combined_bits(clear);
        let args = self.from.body.blocks[self.from.body.block_of(body)].args.clone();
        let region = self.convert_region(body, &args)?;
        let types: Vec<Type> = state
            .values
            .iter()
            .map(|value| self.to.ty(*value).elem().expect("operands are tiles"))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|elem| self.tile_type(elem, &state.shape, state.layout.clone()))
            .collect();
        let op = build_op(state.values.clone(), state.dim, region);
        state.values = self.emit(op, types, state.loc).to_vec();
        Ok(())
    }

    /// Emits the exchange of the warps' partial results through shared memory. Then every thread has the partial results of all
    /// warps in registers.
    fn gather_warps(&mut self, state: &mut PartialReduction) {
        let strides = Strides::for_shape(&state.shape);
        let mask = strides.mask(state.dim as usize);
        let from = state.layout.clone();
        let mut to = from.clone();
        for basis in &mut to.warp {
            if *basis & mask != 0 {
                to.register.push(*basis);
                *basis = 0;
            }
        }
        for value in &mut state.values {
            let elem = self.to.ty(*value).elem().expect("operands are tiles");
            let buffer = self.exchange_buffer(elem, &state.shape);
            self.shared_store(*value, &from, buffer, state.loc);
            let ty = self.tile_type(elem, &state.shape, to.clone());
            *value = self.shared_load(buffer, ty, &to, state.loc);
        }
        state.layout = to;
    }

    /// Emits reshapes that remove the reduced dimension, whose extent is one after all steps. Records the results of the reduction.
    fn drop_dim(&mut self, op: OpId, state: PartialReduction) -> Result<()> {
        let mut shape = state.shape.clone();
        shape.remove(state.dim as usize);
        let layout = without_dim(&state.layout, &state.shape, state.dim as usize);
        let results = self.from.body.ops[op].results.clone();
        for (result, value) in results.into_iter().zip(&state.values) {
            let elem = self.elem_shape(result).0;
            let ty = self.tile_type(elem, &shape, layout.clone());
            let new = self.emit_one(Core::Reshape { x: *value }, ty, state.loc);
            let id = self.to.ty(new).layout();
            self.remember(result, id, new);
        }
        Ok(())
    }
}

/// The partial results of a reduction after the steps that are emitted so far.
struct PartialReduction {
    /// The shape of the partial results.
    shape: Shape,
    /// The layout of the partial results.
    layout: Layout,
    /// The partial result for each operand of the reduction.
    values: Vec<Value>,
    /// The reduced dimension.
    dim: u32,
    loc: Loc,
}

impl PartialReduction {
    /// Whether registers, lanes and warps, in this order, hold different elements along the reduced dimension.
    fn levels_with_dim(&self) -> (bool, bool, bool) {
        let mask = Strides::for_shape(&self.shape).mask(self.dim as usize);
        let any = |bases: &[u32]| bases.iter().any(|basis| basis & mask != 0);
        (any(&self.layout.register), any(&self.layout.lane), any(&self.layout.warp))
    }

    /// Removes the index bits of the reduced dimension whose elements a step combines, so that the extent of the dimension shrinks.
    /// `clear` sets the bases of these bits to zero.
    fn remove_combined_bits(&mut self, clear: impl Fn(&mut DimBits<'_>)) {
        let strides = Strides::for_shape(&self.shape);
        let (dim, mask) = (self.dim as usize, strides.mask(self.dim as usize));
        let Layout { register, lane, warp } = &mut self.layout;
        clear(&mut DimBits { register: MaskedBases(register, mask), lane: MaskedBases(lane, mask) });
        // The remaining bits of the dimension become adjacent, in the same order.
        let mut remaining_bases: Vec<u32> =
            register.iter().chain(&*lane).chain(&*warp).copied().filter(|basis| basis & mask != 0).collect();
        remaining_bases.sort_unstable();
        remaining_bases.dedup();
        let (low, end) = (strides.shift[dim], strides.shift[dim] + strides.bits[dim]);
        let new_bits = remaining_bases.len() as u32;
        self.layout = self.layout.map(|basis| match remaining_bases.iter().position(|bit| *bit == basis) {
            Some(position) => 1 << (low + position as u32),
            None if basis >> end != 0 => basis >> end << (low + new_bits),
            None => basis,
        });
        self.shape[dim] = 1 << new_bits;
    }
}

/// The register and lane bases of a layout. A step of the reduction clears the bases along the reduced dimension.
struct DimBits<'a> {
    /// All register bases of the layout.
    register: MaskedBases<'a>,
    /// All lane bases of the layout.
    lane: MaskedBases<'a>,
}

/// Layout bases, and the mask of the linear-index bits of the reduced dimension.
struct MaskedBases<'a>(&'a mut Vec<u32>, u32);

impl MaskedBases<'_> {
    /// Sets the bases along the reduced dimension to zero.
    fn clear_dim(&mut self) {
        self.0.iter_mut().filter(|basis| **basis & self.1 != 0).for_each(|basis| *basis = 0);
    }
}
