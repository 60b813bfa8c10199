//! Purpose: let scaled MMAs read 4-bit floats packed as in memory (two elements along K in a byte), so that TMA can copy the
//! operands.
//! Requires: `.aa`. The pass changes scaled MMAs whose operands a `reinterpret` unpacks from bytes, if an atom takes packed
//! operands.
//! Establishes: the MMA takes the bytes. Ops that unpacked the bytes are removed unless other ops use their results.
//! Preserves: values; `legalize` unpacks the operands again if the MMA finally uses no such atom.
//! See also: PTX `tcgen05.mma.kind::mxf4`; CUTLASS `float_e2m1_t` operands.

use crate::mma_selection::mma_extents;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Elem, Shape};
use numerics::Scalar;
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};
use tileas::mma_sync_atoms::scaled_atom;
use tileas::tensor_memory::scaled_tensor_atom;

/// The element type of packed operands: a byte with two 4-bit floats.
const BYTE: Elem = Elem::Scalar(Scalar::I8);

/// The packed form of an operand: bytes, and the reshape and permutes that bring the bytes into the operand's dimension order.
struct PackedOperand {
    /// The tile of bytes, each with two FP4 elements.
    bytes: Value,
    /// The shape of the bytes after the reshape.
    shape: Shape,
    /// The permutes, in program order.
    orders: Vec<Vec<u32>>,
}

/// Returns the function in which scaled MMAs take packed operands where possible.
pub(crate) fn run(function: &Function, target: Target) -> Function {
    let mut function = function.clone();
    let mut old_operands = Vec::new();
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        for op in ops {
            if let Some(operands) = packed_operands(&function, op, target) {
                old_operands.extend(replace_operands(&mut function, block, op, operands));
            }
            function.body.blocks[block].ops.push(op);
        }
    }
    remove_unused(&mut function, old_operands);
    function
}

/// The packed forms of both operands of a scaled MMA. `None` for other ops, for operands that are not unpacked from bytes, or if no
/// atom of the target takes the packed operands.
fn packed_operands(function: &Function, op: OpId, target: Target) -> Option<[PackedOperand; 2]> {
    let Op::MmaScaled { lhs, rhs, lhs_scale, .. } = function.body.ops[op].kind else { return None };
    let tile = |value: Value| function.body.ty(value).tile();
    let ((_, left), (_, right), (scale, scales)) = (tile(lhs)?, tile(rhs)?, tile(lhs_scale)?);
    let [batch, m, n, k] = mma_extents(left, right);
    let k_bytes = k / 2;
    let block = k_bytes / scales.last()?.max(&1);
    let in_tensor_memory = scaled_tensor_atom(target, Scalar::I8, scale.carrier(), block, [m, n, k_bytes]).filter(|_| batch == 1);
    if in_tensor_memory.is_none() {
        scaled_atom(target, Scalar::I8, scale.carrier(), block, [m, n, k_bytes])?;
    }
    Some([packed_form(function, lhs, 1)?, packed_form(function, rhs, 0)?])
}

/// The packed form of an operand whose K dimension is `k_dim`. `None` unless each byte holds two adjacent elements along K.
fn packed_form(function: &Function, operand: Value, k_dim: usize) -> Option<PackedOperand> {
    let body = &function.body;
    let core = |value: Value| match &body.ops[body.defining_op(value)?].kind {
        Op::Core(core) => Some(core),
        _ => None,
    };
    let (mut value, mut orders, mut dim) = (operand, Vec::new(), k_dim);
    while let Core::Permute { x, order } = core(value)? {
        orders.push(order.to_vec());
        (value, dim) = (*x, order[dim] as usize);
    }
    orders.reverse();
    let (elem, mut shape) = body.ty(value).tile().map(|(elem, shape)| (elem, shape.clone()))?;
    while let Core::Reshape { x } = core(value)? {
        value = *x;
    }
    let Core::Reinterpret { x } = core(value)? else { return None };
    let is_from_bytes = elem.carrier() == Scalar::F4E2M1FN && body.ty(*x).tile()?.0 == BYTE;
    let pairs_along_k = shape.len() == 2 && dim == 1 && shape[1] >= 2;
    shape[1..].iter_mut().for_each(|extent| *extent /= 2);
    (is_from_bytes && pairs_along_k).then_some(PackedOperand { bytes: *x, shape, orders })
}

/// Replaces the operands of an MMA by their packed forms. Appends the reshapes and permutes of the bytes to the block. Returns the
/// old operands.
fn replace_operands(function: &mut Function, block: Block, mma: OpId, operands: [PackedOperand; 2]) -> [Value; 2] {
    let body = &mut function.body;
    let loc = body.ops[mma].loc;
    let [left, right] = operands.map(|PackedOperand { bytes, mut shape, orders }| {
        let mut append_core = |core, shape: &Shape| {
            let op = body.append(block, Op::Core(core), [Type::Tile { elem: BYTE, shape: shape.clone() }], loc);
            body.result(op)
        };
        let reshaped = append_core(Core::Reshape { x: bytes }, &shape);
        orders.into_iter().fold(reshaped, |x, order| {
            shape = order.iter().map(|dim| shape[*dim as usize]).collect();
            append_core(Core::Permute { x, order }, &shape)
        })
    });
    let Op::MmaScaled { lhs, rhs, .. } = &mut body.ops[mma].kind else { unreachable!("only scaled MMAs are packed") };
    [std::mem::replace(lhs, left), std::mem::replace(rhs, right)]
}

/// Removes each permute, reshape and `reinterpret` that computes one of `values` and is unused, directly or after such a removal.
fn remove_unused(function: &mut Function, values: Vec<Value>) {
    let body = &mut function.body;
    let mut uses = vec![0u32; body.values.len()];
    for op in body.walk(function.region) {
        body.ops[op].kind.for_each_operand(&mut |value| uses[value.0 as usize] += 1);
    }
    let mut removed = BTreeSet::new();
    for mut value in values {
        while let Some(op) = body.defining_op(value).filter(|_| uses[value.0 as usize] == 0) {
            let Op::Core(Core::Permute { x, .. } | Core::Reshape { x } | Core::Reinterpret { x }) = body.ops[op].kind else {
                break;
            };
            if !removed.insert(op) {
                break;
            }
            uses[x.0 as usize] -= 1;
            value = x;
        }
    }
    body.blocks.values_mut().for_each(|block| block.ops.retain(|op| !removed.contains(op)));
}
