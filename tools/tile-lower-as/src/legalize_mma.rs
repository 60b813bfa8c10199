//! Purpose: rewrite MMAs that no instruction of the target executes.
//! Requires: `.aa`, and the set of MMAs that `tcgen05` executes. These MMAs stay unchanged.
//! Establishes: 8-bit float operands without an atom are converted to f16. Scales without an atom are multiplied into bf16
//! operands. For this, packed 4-bit floats are unpacked.
//! Preserves: values. Reason: f16 represents every 8-bit float, and bf16 every 4- or 8-bit float times a scale if the product is in
//! range.
//! See also: Triton's `DecomposeScaledBlocked`.

use crate::mma_selection::{is_native, mma_extents};
use base::ir::Op as OpId;
use base::{Loc, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Rounding};
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};
use tileas::mma_sync_atoms::scaled_atom;

/// Rewrites the MMAs that the target cannot execute, except those in `tmem_mmas`.
pub(crate) fn run(function: &Function, target: Target, tmem_mmas: &BTreeSet<OpId>) -> Function {
    let mut function = function.clone();
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        let mut new_ops = Vec::with_capacity(ops.len());
        for op in ops {
            let mut legalizer = Legalizer { loc: function.body.ops[op].loc, function: &mut function, new_ops: &mut new_ops };
            if !tmem_mmas.contains(&op) {
                legalizer.legalize_op(op, target);
            }
            new_ops.push(op);
        }
        function.body.blocks[block].ops = new_ops;
    }
    base::text::compact(&function)
}

/// Rewrites an MMA. Appends the ops that compute its new operands to `new_ops`.
struct Legalizer<'a> {
    /// The function that contains the MMA.
    function: &'a mut Function,
    /// The ops of the rewritten block so far.
    new_ops: &'a mut Vec<OpId>,
    /// The location of the MMA, which the new ops get.
    loc: Loc,
}

impl Legalizer<'_> {
    /// Converts the operands of an MMA, or multiplies scales into them, if the target has no instruction for the MMA. Leaves other
    /// ops unchanged.
    fn legalize_op(&mut self, op: OpId, target: Target) {
        match self.function.body.ops[op].kind.clone() {
            Op::Mma { lhs, rhs, acc, signed_lhs, signed_rhs, fast_acc }
                if !is_native(target, self.scalar_type(lhs), self.scalar_type(acc), &self.shape(lhs), &self.shape(rhs)) =>
            {
                let [lhs, rhs] = [lhs, rhs].map(|operand| self.convert_float(operand, Scalar::F16));
                self.function.body.ops[op].kind = Op::Mma { lhs, rhs, acc, signed_lhs, signed_rhs, fast_acc };
            }
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale }
                if !self.has_scaled_atom(target, [lhs, rhs], [lhs_scale, rhs_scale]) =>
            {
                let dims = self.shape(lhs).len();
                let [lhs, rhs] = if self.scalar_type(lhs) == Scalar::I8 {
                    [self.unpack_fp4(lhs, false), self.unpack_fp4(rhs, true)]
                } else {
                    [lhs, rhs]
                };
                let lhs = self.multiply_by_scales(lhs, lhs_scale, dims - 1);
                let rhs = self.multiply_by_scales(rhs, rhs_scale, dims - 2);
                self.function.body.ops[op].kind = Op::Mma { lhs, rhs, acc, signed_lhs: true, signed_rhs: true, fast_acc: false };
            }
            _ => {}
        }
    }

    /// Returns whether the target has an instruction for an MMA with these scales.
    fn has_scaled_atom(&self, target: Target, [lhs, rhs]: [Value; 2], scales: [Value; 2]) -> bool {
        let [elem, scale] = [lhs, scales[0]].map(|value| self.scalar_type(value));
        let are_equal = self.scalar_type(rhs) == elem && self.scalar_type(scales[1]) == scale;
        let [.., m, n, k] = mma_extents(&self.shape(lhs), &self.shape(rhs));
        let block = k / self.shape(scales[0]).last().copied().unwrap_or(1).max(1);
        are_equal && scaled_atom(target, elem, scale, block, [m, n, k]).is_some()
    }

    /// Emits the ops that unpack a matrix of bytes to 4-bit floats. Each byte holds two adjacent elements, along the first
    /// dimension if `along_first_dim`, otherwise along the last dimension. Returns the unpacked matrix.
    fn unpack_fp4(&mut self, bytes: Value, along_first_dim: bool) -> Value {
        let transposed = |legalizer: &mut Self, x: Value, elem| {
            let shape: Shape = legalizer.shape(x).into_iter().rev().collect();
            legalizer.append_core(Core::Permute { x, order: [1, 0].into() }, elem, shape)
        };
        let x = if along_first_dim { transposed(self, bytes, Scalar::I8) } else { bytes };
        let mut shape = self.shape(x);
        let count: u32 = shape.iter().product();
        let x = self.append_core(Core::Reshape { x }, Scalar::I8, [count].into_iter().collect());
        let x = self.append_core(Core::Reinterpret { x }, Scalar::F4E2M1FN, [2 * count].into_iter().collect());
        shape[1] *= 2;
        let x = self.append_core(Core::Reshape { x }, Scalar::F4E2M1FN, shape);
        if along_first_dim { transposed(self, x, Scalar::F4E2M1FN) } else { x }
    }

    /// Emits the multiplication of an operand by its scales in bf16. Each scale applies to a run of elements along `dim`.
    fn multiply_by_scales(&mut self, operand: Value, scale: Value, dim: usize) -> Value {
        let shape = self.shape(operand);
        let scales = self.shape(scale);
        let run = shape[dim] / scales[dim];
        // Insert a dimension for the run and broadcast along it.
        let mut ones = scales.clone();
        ones.insert(dim + 1, 1);
        let mut runs = scales;
        runs.insert(dim + 1, run);
        let scale = self.convert_float(scale, Scalar::BF16);
        let scale = self.append_core(Core::Reshape { x: scale }, Scalar::BF16, ones);
        let scale = self.append_core(Core::Broadcast { x: scale }, Scalar::BF16, runs);
        let scale = self.append_core(Core::Reshape { x: scale }, Scalar::BF16, shape.clone());
        let operand = self.convert_float(operand, Scalar::BF16);
        let kind = Binary::MulF { rounding: Rounding::NearestEven, ftz: false };
        self.append_core(Core::Binary { kind, lhs: operand, rhs: scale }, Scalar::BF16, shape)
    }

    /// Emits the conversion of a tile to another float type, if the types differ.
    fn convert_float(&mut self, value: Value, to: Scalar) -> Value {
        let shape = self.shape(value);
        if self.scalar_type(value) == to {
            return value;
        }
        let kind = Convert::FToF { rounding: Rounding::NearestEven };
        self.append_core(Core::Convert { kind, x: value }, to, shape)
    }

    /// Appends an op of the core dialect to `new_ops`, and returns its result tile.
    fn append_core(&mut self, core: Core, scalar: Scalar, shape: Shape) -> Value {
        let ty = Type::Tile { elem: Elem::Scalar(scalar), shape };
        let op = self.function.body.new_op(Op::Core(core), [ty], self.loc);
        self.new_ops.push(op);
        self.function.body.result(op)
    }
    /// The shape of an operand.
    fn shape(&self, value: Value) -> Shape {
        self.function.body.ty(value).tile().expect("operands of MMAs are tiles").1.clone()
    }
    /// The carrier scalar type of an operand's elements.
    fn scalar_type(&self, value: Value) -> Scalar {
        self.function.body.ty(value).tile().expect("operands of MMAs are tiles").0.carrier()
    }
}
