//! Matrix products: operands go to the fragments of the atom, or to buffers that each thread reads.

use super::Rewriter;
use crate::products::Product;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Loc, Value};
use tileas::layout::Strides;
use tileas::{Buffer, MmaAtom, Op};

impl Rewriter<'_> {
    pub(super) fn product(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (lhs, rhs, acc) = match kind {
            tileaa::Op::Mma { lhs, rhs, acc, .. } | tileaa::Op::MmaScaled { lhs, rhs, acc, .. } => (*lhs, *rhs, *acc),
            _ => return Err(self.unsupported(op)),
        };
        let loc = self.from.body.ops[op].loc;
        let plan = self.products.get(op).expect("every product was planned").clone();
        let acc = self.tile(acc, plan.accumulator())?;
        let new = match (kind, &plan) {
            (tileaa::Op::Mma { signed_lhs, signed_rhs, .. }, Product::Sync { atom, a, b, .. }) => {
                let [lhs, rhs] = [self.tile(lhs, a)?, self.tile(rhs, b)?];
                let atom = MmaAtom::Sync { name: atom.name.into() };
                Op::Mma { lhs, rhs, acc, signed_lhs: *signed_lhs, signed_rhs: *signed_rhs, atom }
            }
            (tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. }, Product::Sync { atom, a, b, scales: Some([of_a, of_b]), .. }) => {
                let [lhs, rhs] = [self.tile(lhs, a)?, self.tile(rhs, b)?];
                let [lhs_scale, rhs_scale] = [self.tile(*lhs_scale, of_a)?, self.tile(*rhs_scale, of_b)?];
                Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale, atom: MmaAtom::Sync { name: atom.name.into() } }
            }
            (tileaa::Op::Mma { signed_lhs, signed_rhs, .. }, Product::Shared { .. }) => {
                let dims = self.elem_shape(lhs).1.len();
                // Neighbours along the extent that a thread walks across lie side by side.
                let [lhs, rhs] = [self.operand_buffer(lhs, dims - 2, loc)?, self.operand_buffer(rhs, dims - 1, loc)?];
                Op::MmaShared { lhs, rhs, acc, signed_lhs: *signed_lhs, signed_rhs: *signed_rhs }
            }
            _ => return Err(self.unsupported(op)),
        };
        let ty = self.to.ty(acc).clone();
        let values = self.emit(new, [ty], loc);
        self.remember_results(op, &values);
        Ok(())
    }

    /// A buffer that holds a tile with the extent `dim` innermost.
    fn operand_buffer(&mut self, value: Value, dim: usize, loc: Loc) -> Result<Buffer> {
        let (elem, shape) = self.elem_shape(value);
        let layout = self.homes.or_default(self.from, value);
        let x = self.tile(value, &layout)?;
        let buffer = self.exchange_buffer(elem, &shape);
        let strides = Strides::of(&shape);
        let others = (0..shape.len()).rev().filter(|other| *other != dim);
        let order = std::iter::once(dim).chain(others).flat_map(|dim| strides.dim_bits(dim));
        self.attrs.buffers[buffer].offsets = order.map(|bit| 1 << bit).collect();
        self.shared_store(x, &layout, buffer, loc);
        Ok(buffer)
    }
}
