//! Matrix products: operands go to the fragments of the atom, or to buffers that each thread reads.

use super::Rewriter;
use crate::banks;
use crate::products::Product;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Loc, Value};
use tileas::layout::Strides;
use tileas::{Buffer, Layout, MmaAtom, Op};

impl Rewriter<'_> {
    pub(super) fn product(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (lhs, rhs, acc) = match kind {
            tileaa::Op::Mma { lhs, rhs, acc, .. } | tileaa::Op::MmaScaled { lhs, rhs, acc, .. } => (*lhs, *rhs, *acc),
            _ => return Err(self.unsupported(op)),
        };
        let (loc, result) = (self.from.body.ops[op].loc, self.from.body.result(op));
        let plan = self.products.get(op).expect("every product was planned").clone();
        let acc = self.tile(acc, plan.accumulator())?;
        let new = match (kind, &plan) {
            (tileaa::Op::Mma { signed_lhs, signed_rhs, .. }, Product::Sync { atom, a, b, .. }) => {
                let [lhs, rhs] = [self.tile(lhs, a)?, self.tile(rhs, b)?];
                let atom = MmaAtom::Sync { name: atom.name.into() };
                Op::Mma { lhs, rhs, acc, signed_lhs: *signed_lhs, signed_rhs: *signed_rhs, atom }
            }
            (tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. }, Product::Sync { atom, a, b, scales: Some(scales), .. }) => {
                let [of_a, of_b] = &**scales;
                let [lhs, rhs] = [self.tile(lhs, a)?, self.tile(rhs, b)?];
                let [lhs_scale, rhs_scale] = [self.tile(*lhs_scale, of_a)?, self.tile(*rhs_scale, of_b)?];
                Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale, atom: MmaAtom::Sync { name: atom.name.into() } }
            }
            (tileaa::Op::Mma { signed_lhs, signed_rhs, .. }, Product::Shared { .. }) => {
                let dims = self.elem_shape(lhs).1.len();
                // Neighbours along the extent that a thread walks across lie side by side.
                let lhs = self.operand_buffer(lhs, dims - 2, result, loc)?;
                let rhs = self.operand_buffer(rhs, dims - 1, result, loc)?;
                Op::MmaShared { lhs, rhs, acc, signed_lhs: *signed_lhs, signed_rhs: *signed_rhs }
            }
            _ => return Err(self.unsupported(op)),
        };
        let ty = self.to.ty(acc).clone();
        let values = self.emit(new, [ty], loc);
        self.remember_results(op, &values);
        Ok(())
    }

    /// A buffer that holds an operand with the extent `dim` innermost, which it has in common with the accumulator.
    fn operand_buffer(&mut self, value: Value, dim: usize, result: Value, loc: Loc) -> Result<Buffer> {
        let known = self.scopes.last().and_then(|scope| scope.operands.get(&(value, dim)).copied());
        if let Some(buffer) = known {
            return Ok(buffer);
        }
        let (elem, shape) = self.elem_shape(value);
        let accumulator = &self.homes.or_default(self.from, result);
        let layout = self.homes.or_default(self.from, value);
        let x = self.tile(value, &layout)?;
        let reads = reads(accumulator, &self.elem_shape(result).1, &shape, dim);
        let buffer = self.attrs.buffers.push(banks::exchange(elem, &shape, [dim; 2], &[&layout, &reads]));
        self.shared_store(x, &layout, buffer, loc);
        self.scopes.last_mut().expect("a function is open").operands.insert((value, dim), buffer);
        Ok(buffer)
    }
}

/// The elements of an operand that each thread reads: the batch and `dim` are those of its accumulators, and it walks along K.
fn reads(accumulator: &Layout, result: &[u32], operand: &[u32], dim: usize) -> Layout {
    let (from, to) = (Strides::of(result), Strides::of(operand));
    let common = |basis: u32, dim: usize| from.coordinate(basis, dim) << to.shift[dim];
    let batch = |basis: u32| if operand.len() == 3 { common(basis, 0) } else { 0 };
    let mut layout = accumulator.map(|basis| batch(basis) | common(basis, dim));
    let k = 2 * operand.len() - 3 - dim;
    layout.register.extend(to.dim_bits(k).map(|bit| 1 << bit));
    layout
}
