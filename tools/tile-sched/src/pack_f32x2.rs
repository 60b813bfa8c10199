//! Purpose: wrap arithmetic in `pairs` that runs on two registers at once (`f32x2`).
//! Requires: a function on which all passes that move or replace ops have run.
//! Establishes: `pairs` ops, only where they save at least as many instructions as packing and unpacking cost.
//! Preserves: the op order and all results.
//! See also: PTX `fma.rn.f32x2`, LLVM's SLP vectorizer.

use base::ir::Operation;
use base::{Arena, Body, Target, UnionFind, Value};
use core_dialect::core_ops::Core;
use numerics::arith::{Binary, Convert};
use sched::packed_ops::{self, Paired, moves_vectors};
use sched::{Function, Op};
use std::collections::BTreeSet;
use target_info::Feature;
use tileas::layout::{Layout, LayoutId};

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>, target: Target) {
    let chosen = select_ops_to_pack(function, layouts, target);
    for (node, _) in function.body.ops.values_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
        if let Op::Core(op) = &node.kind {
            node.kind = Op::Pairs { op: Paired(op.clone()) };
        }
    }
}

/// Selects the ops to pack. Packing two registers into a pair costs an instruction, and so does unpacking a pair. Dependent ops
/// therefore form one component. The pass packs a component if that saves at least as many instructions as the values that enter
/// and leave the component cost.
///
/// On targets with tensor memory, the two registers of a pair are adjacent in SASS anyway, so packing 32-bit values is free. Only a
/// broadcast value, which fills both halves of a pair, must be moved. On targets without tensor memory a warp issues its own MMAs
/// and holds the accumulators as fragments. The performance model predicts no gain there for PTX with more instructions.
fn select_ops_to_pack(function: &Function, layouts: &Arena<LayoutId, Layout>, target: Target) -> Vec<bool> {
    let body = &function.body;
    let registers = |value: Value| packed_ops::registers_per_thread(layouts, body.ty(value));
    let halves_are_adjacent = target.has(Feature::TensorMemory);
    let is_narrow = |value: Value| body.ty(value).elem().is_some_and(|elem| elem.bits() < 32);
    let ops = body.walk(function.region);
    let mut chosen: Vec<bool> = vec![false; body.ops.len()];
    ops.iter()
        .for_each(|op| chosen[op.0 as usize] = packed_ops::check_packed_op(function, layouts, &body.ops[*op], target).is_ok());
    let producer = |value: Value| {
        let mut value = value;
        // A reshape does not move registers.
        loop {
            let op = body.defining_op(value)?;
            match &body.ops[op].kind {
                Op::Core(tileas::Op::Core(Core::Reshape { x })) if registers(*x) == registers(value) => value = *x,
                _ => return Some(op),
            }
        }
    };
    // The first op of a component represents it.
    let mut components = UnionFind::new(body.ops.len());
    for &op in ops.iter().filter(|op| chosen[op.0 as usize]) {
        for source in body.ops[op].kind.operands().into_iter().filter_map(producer).filter(|source| chosen[source.0 as usize]) {
            components.join(op.0 as usize, source.0 as usize);
        }
    }
    // For each component, the instructions that packing saves minus those that it costs.
    let mut gain: Vec<i64> = vec![0; body.ops.len()];
    let mut packed: BTreeSet<Value> = BTreeSet::new();
    let mut unpacked: BTreeSet<Value> = BTreeSet::new();
    for &op in &ops {
        let node = &body.ops[op];
        let register_pairs = |value: Value| (registers(value) / 2) as i64;
        let packing_cost = |value: Value| if halves_are_adjacent && !is_narrow(value) { 0 } else { register_pairs(value) };
        if chosen[op.0 as usize] {
            let component = components.find(op.0 as usize);
            gain[component] += register_pairs(node.results[0]);
            let converts_operands = scalar_form_accepts_halves(body, &node.kind);
            for operand in node.kind.operands().into_iter().filter(|operand| packed.insert(*operand)) {
                gain[component] -= match producer(operand).map(|op| (op, &body.ops[op].kind)) {
                    Some((source, _)) if chosen[source.0 as usize] => 0,
                    Some((_, kind)) if moves_vectors(kind) => 0,
                    Some((_, kind)) if converts_operands && widens_16_bit_floats(body, kind) => registers(operand) as i64,
                    Some((_, Op::Core(tileas::Op::Core(Core::Constant { .. })))) => 0,
                    Some((_, Op::Core(tileas::Op::Core(Core::Broadcast { x })))) => {
                        (registers(*x) as i64).min(register_pairs(operand))
                    }
                    _ => packing_cost(operand),
                };
            }
        } else if !moves_vectors(&node.kind) && !matches!(node.kind, Op::Core(tileas::Op::Core(Core::Reshape { .. }))) {
            for operand in node.kind.operands() {
                let source = producer(operand).filter(|source| chosen[source.0 as usize]);
                if let Some(source) = source.filter(|_| unpacked.insert(operand)) {
                    gain[components.find(source.0 as usize)] -= packing_cost(operand);
                }
            }
        }
    }
    for &op in &ops {
        chosen[op.0 as usize] &= gain[components.find(op.0 as usize)] >= 0;
    }
    chosen
}

/// Returns whether the scalar form of an op accepts 16-bit operands, so that it needs no conversion, on targets that have `f32x2`.
fn scalar_form_accepts_halves(body: &Body<Op, tileas::Type>, op: &Op) -> bool {
    let is_widened = |value: Value| body.defining_op(value).is_some_and(|op| widens_16_bit_floats(body, &body.ops[op].kind));
    match op {
        Op::Core(tileas::Op::Core(Core::Fma { a, b, .. })) => is_widened(*a) && is_widened(*b),
        Op::Core(tileas::Op::Core(Core::Binary { kind: Binary::AddF { .. } | Binary::SubF { .. }, .. })) => true,
        _ => false,
    }
}

/// Returns whether an op widens_16_bit_floats 16-bit floats.
fn widens_16_bit_floats(body: &Body<Op, tileas::Type>, op: &Op) -> bool {
    let Op::Core(tileas::Op::Core(Core::Convert { kind: Convert::FToF { .. }, x })) = op else { return false };
    body.ty(*x).elem().is_some_and(|elem| elem.bits() == 16)
}
