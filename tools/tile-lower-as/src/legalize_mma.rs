//! Purpose: rewrite MMAs that no atom of the target takes.
//! Requires: `.aa`; the set of scaled MMAs for which `tcgen05` applies the scales.
//! Establishes: 8-bit floats without an atom are f16; scales without an atom are multiplied into bf16 operands, unpacked from fp4
//! pairs.
//! Preserves: values: f16 holds every 8-bit float, and bf16 every 4- or 8-bit float times a scale while the result is in range.
//! See also: Triton's `DecomposeScaledBlocked`.

use crate::mma_selection::{extents, is_native};
use base::ir::Op as OpId;
use base::{Loc, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Rounding};
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};
use tileas::mma_sync_atoms::scaled_atom;

/// MMAs in `kept` stay as they are.
pub(crate) fn run(function: &Function, target: Target, kept: &BTreeSet<OpId>) -> Function {
    let mut function = function.clone();
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        let mut out = Vec::with_capacity(ops.len());
        for op in ops {
            let mut pass = Legalizer { loc: function.body.ops[op].loc, function: &mut function, out: &mut out };
            if !kept.contains(&op) {
                pass.mma(op, target);
            }
            out.push(op);
        }
        function.body.blocks[block].ops = out;
    }
    base::text::compact(&function)
}

struct Legalizer<'a> {
    function: &'a mut Function,
    out: &'a mut Vec<OpId>,
    loc: Loc,
}

impl Legalizer<'_> {
    fn mma(&mut self, op: OpId, target: Target) {
        match self.function.body.ops[op].kind.clone() {
            Op::Mma { lhs, rhs, acc, signed_lhs, signed_rhs, fast_acc }
                if !is_native(target, self.scalar(lhs), self.scalar(acc), &self.shape(lhs), &self.shape(rhs)) =>
            {
                let [lhs, rhs] = [lhs, rhs].map(|operand| self.convert_float(operand, Scalar::F16));
                self.function.body.ops[op].kind = Op::Mma { lhs, rhs, acc, signed_lhs, signed_rhs, fast_acc };
            }
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale }
                if !self.has_scaled_atom(target, [lhs, rhs], [lhs_scale, rhs_scale]) =>
            {
                let dims = self.shape(lhs).len();
                let [lhs, rhs] =
                    if self.scalar(lhs) == Scalar::I8 { [self.unpacked(lhs, false), self.unpacked(rhs, true)] } else { [lhs, rhs] };
                let lhs = self.scaled(lhs, lhs_scale, dims - 1);
                let rhs = self.scaled(rhs, rhs_scale, dims - 2);
                self.function.body.ops[op].kind = Op::Mma { lhs, rhs, acc, signed_lhs: true, signed_rhs: true, fast_acc: false };
            }
            _ => {}
        }
    }

    fn has_scaled_atom(&self, target: Target, [lhs, rhs]: [Value; 2], scales: [Value; 2]) -> bool {
        let [elem, scale] = [lhs, scales[0]].map(|value| self.scalar(value));
        let same = self.scalar(rhs) == elem && self.scalar(scales[1]) == scale;
        let [.., m, n, k] = extents(&self.shape(lhs), &self.shape(rhs));
        let block = k / self.shape(scales[0]).last().copied().unwrap_or(1).max(1);
        same && scaled_atom(target, elem, scale, block, [m, n, k]).is_some()
    }

    /// Unpacks bytes that hold two adjacent 4-bit floats along the last dimension, or the first.
    fn unpacked(&mut self, bytes: Value, first: bool) -> Value {
        let transposed = |pass: &mut Self, x: Value, elem| {
            let shape: Shape = pass.shape(x).into_iter().rev().collect();
            pass.make(Core::Permute { x, order: [1, 0].into() }, elem, shape)
        };
        let x = if first { transposed(self, bytes, Scalar::I8) } else { bytes };
        let mut shape = self.shape(x);
        let count: u32 = shape.iter().product();
        let x = self.make(Core::Reshape { x }, Scalar::I8, [count].into_iter().collect());
        let x = self.make(Core::Reinterpret { x }, Scalar::F4E2M1FN, [2 * count].into_iter().collect());
        shape[1] *= 2;
        let x = self.make(Core::Reshape { x }, Scalar::F4E2M1FN, shape);
        if first { transposed(self, x, Scalar::F4E2M1FN) } else { x }
    }

    /// Multiplies an operand by its scales, each of which applies to a run of elements along `dim`.
    fn scaled(&mut self, operand: Value, scale: Value, dim: usize) -> Value {
        let shape = self.shape(operand);
        let scales = self.shape(scale);
        let run = shape[dim] / scales[dim];
        // Insert a dimension for the run and broadcast along it.
        let mut ones = scales.clone();
        ones.insert(dim + usize::from(!common::fault_injected("as.scales")), 1);
        let mut runs = scales;
        runs.insert(dim + usize::from(!common::fault_injected("as.scales")), run);
        let scale = self.convert_float(scale, Scalar::BF16);
        let scale = self.make(Core::Reshape { x: scale }, Scalar::BF16, ones);
        let scale = self.make(Core::Broadcast { x: scale }, Scalar::BF16, runs);
        let scale = self.make(Core::Reshape { x: scale }, Scalar::BF16, shape.clone());
        let operand = self.convert_float(operand, Scalar::BF16);
        let kind = Binary::MulF { rounding: Rounding::NearestEven, ftz: false };
        self.make(Core::Binary { kind, lhs: operand, rhs: scale }, Scalar::BF16, shape)
    }

    fn convert_float(&mut self, value: Value, to: Scalar) -> Value {
        let shape = self.shape(value);
        if self.scalar(value) == to {
            return value;
        }
        let kind = Convert::FToF { rounding: Rounding::NearestEven };
        self.make(Core::Convert { kind, x: value }, to, shape)
    }

    fn make(&mut self, core: Core, scalar: Scalar, shape: Shape) -> Value {
        let ty = Type::Tile { elem: Elem::Scalar(scalar), shape };
        let op = self.function.body.new_op(Op::Core(core), [ty], self.loc);
        self.out.push(op);
        self.function.body.result(op)
    }
    fn shape(&self, value: Value) -> Shape {
        self.function.body.ty(value).tile().expect("operands of MMAs are tiles").1.clone()
    }
    fn scalar(&self, value: Value) -> Scalar {
        self.function.body.ty(value).tile().expect("operands of MMAs are tiles").0.carrier()
    }
}
