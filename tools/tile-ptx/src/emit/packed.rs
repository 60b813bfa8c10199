//! Arithmetic on two registers at once: f16x2 and bf16x2 everywhere, f32x2 from sm_100 on.

use super::Emitter;
use crate::ir::Val;
use base::ir::{Op as OpId, Operation};
use base::{Target, Value};
use hardware::Feature;
use inkwell::values::VectorValue;
use numerics::Scalar;
use numerics::arith::{Binary, Fma, Rounding};
use sched::Op;
use std::collections::BTreeSet;
use tileas::{CopyAtom, Layout};
use vocabulary::core_ops::Core;
use vocabulary::tile::Elem;

/// An operation that the hardware has on pairs.
#[derive(Clone, Copy)]
pub(super) enum Packed {
    Add,
    Sub,
    Mul,
    Fma,
    /// A minimum or maximum, by LLVM's name.
    Extreme(&'static str),
}

impl Packed {
    pub(super) fn of(kind: Binary) -> Option<Packed> {
        let plain = |rounding: Rounding, ftz: bool| rounding == Rounding::NearestEven && !ftz;
        match kind {
            Binary::AddF { rounding, ftz } if plain(rounding, ftz) => Some(Packed::Add),
            Binary::SubF { rounding, ftz } if plain(rounding, ftz) => Some(Packed::Sub),
            Binary::MulF { rounding, ftz } if plain(rounding, ftz) => Some(Packed::Mul),
            Binary::MaxF { propagate_nan, ftz: false } => {
                Some(Packed::Extreme(if propagate_nan { "llvm.maximum" } else { "llvm.maxnum" }))
            }
            Binary::MinF { propagate_nan, ftz: false } => {
                Some(Packed::Extreme(if propagate_nan { "llvm.minimum" } else { "llvm.minnum" }))
            }
            _ => None,
        }
    }

    pub(super) fn of_fma(kind: Fma) -> Option<Packed> {
        (kind.rounding == Rounding::NearestEven && !kind.ftz).then_some(Packed::Fma)
    }

    fn exists(self, elem: Option<Elem>, target: Target) -> bool {
        match elem {
            Some(Elem::Scalar(Scalar::F16 | Scalar::BF16)) => true,
            Some(Elem::Scalar(Scalar::F32)) => target.has(Feature::PackedF32) && !matches!(self, Packed::Extreme(_)),
            _ => false,
        }
    }
}

/// What is done on more than one register at once.
pub(super) struct Packing {
    /// The ops that are done on pairs.
    pairs: Vec<bool>,
    /// The values whose uses all take neighbouring registers together.
    together: Vec<bool>,
}

impl Packing {
    pub(super) fn of(module: &sched::Module, function: &sched::Function, target: Target) -> Packing {
        let body = &function.body;
        let pairs = choose(module, function, target);
        let mut together = vec![true; body.values.len()];
        // Uses come after what they use.
        for op in body.walk(function.region).into_iter().rev() {
            let node = &body.ops[op];
            let passes = matches!(node.kind, Op::Core(tileas::Op::Core(Core::Reshape { .. })));
            let carries = passes && together[node.results[0].0 as usize];
            if !(pairs[op.0 as usize] || moves_vectors(&node.kind) || carries) {
                node.kind.operands().into_iter().for_each(|operand| together[operand.0 as usize] = false);
            }
        }
        Packing { pairs, together }
    }

    /// Whether a tile that is loaded should stay in vectors: where they are the registers of narrow elements, and where nothing
    /// takes them apart.
    pub(super) fn keeps_vectors(&self, value: Value, elem: Elem) -> bool {
        elem.bits() < 32 || self.together[value.0 as usize]
    }
}

/// Marks the ops of a function that are done in pairs. Making a pair of two registers takes an instruction, and so does taking one
/// apart, so ops that compute from each other are paired together, where they are more than the values that go in and out.
fn choose(module: &sched::Module, function: &sched::Function, target: Target) -> Vec<bool> {
    let body = &function.body;
    let registers = |value: Value| module.layout_of(body.ty(value)).map_or(1, Layout::registers);
    let ops = body.walk(function.region);
    let candidate = |op: OpId| {
        let Op::Core(tileas::Op::Core(core)) = &body.ops[op].kind else { return false };
        let packed = match core {
            Core::Binary { kind, .. } => Packed::of(*kind),
            Core::Fma { kind, .. } => Packed::of_fma(*kind),
            _ => None,
        };
        let result = || body.ops[op].results[0];
        packed.is_some_and(|packed| registers(result()) > 1 && packed.exists(body.ty(result()).elem(), target))
    };
    let mut chosen: Vec<bool> = vec![false; body.ops.len()];
    ops.iter().for_each(|op| chosen[op.0 as usize] = candidate(*op));
    let defined = |value: Value| {
        let mut value = value;
        // A reshape keeps registers.
        loop {
            let op = body.defining_op(value)?;
            match &body.ops[op].kind {
                Op::Core(tileas::Op::Core(Core::Reshape { x })) if registers(*x) == registers(value) => value = *x,
                _ => return Some(op),
            }
        }
    };
    // Ops in one component are found by the first of them.
    let mut component: Vec<usize> = (0..body.ops.len()).collect();
    for &op in ops.iter().filter(|op| chosen[op.0 as usize]) {
        for source in body.ops[op].kind.operands().into_iter().filter_map(defined).filter(|source| chosen[source.0 as usize]) {
            let [a, b] = [op, source].map(|op| root(&mut component, op.0 as usize));
            component[a.max(b)] = a.min(b);
        }
    }
    // What is saved less what is spent, in instructions a pair of registers.
    let mut gain: Vec<i64> = vec![0; body.ops.len()];
    let mut packed: BTreeSet<Value> = BTreeSet::new();
    let mut unpacked: BTreeSet<Value> = BTreeSet::new();
    for &op in &ops {
        let node = &body.ops[op];
        let pairs = |value: Value| (registers(value) / 2) as i64;
        if chosen[op.0 as usize] {
            let at = root(&mut component, op.0 as usize);
            gain[at] += pairs(node.results[0]);
            for operand in node.kind.operands().into_iter().filter(|operand| packed.insert(*operand)) {
                gain[at] -= match defined(operand).map(|op| (op, &body.ops[op].kind)) {
                    Some((source, _)) if chosen[source.0 as usize] => 0,
                    Some((_, kind)) if moves_vectors(kind) => 0,
                    Some((_, Op::Core(tileas::Op::Core(Core::Constant { .. })))) => 0,
                    Some((_, Op::Core(tileas::Op::Core(Core::Broadcast { x })))) => (registers(*x) as i64).min(pairs(operand)),
                    _ => pairs(operand),
                };
            }
        } else if !moves_vectors(&node.kind) && !matches!(node.kind, Op::Core(tileas::Op::Core(Core::Reshape { .. }))) {
            for operand in node.kind.operands() {
                let source = defined(operand).filter(|source| chosen[source.0 as usize]);
                if let Some(source) = source.filter(|_| unpacked.insert(operand)) {
                    gain[root(&mut component, source.0 as usize)] -= pairs(operand);
                }
            }
        }
    }
    for &op in &ops {
        chosen[op.0 as usize] &= gain[root(&mut component, op.0 as usize)] >= 0;
    }
    chosen
}

fn root(component: &mut [usize], mut op: usize) -> usize {
    while component[op] != op {
        component[op] = component[component[op]];
        op = component[op];
    }
    op
}

/// Whether an op brings or takes neighbouring registers together.
fn moves_vectors(op: &Op) -> bool {
    use tileas::Op as Program;
    let Op::Core(program) = op else { return false };
    match program {
        Program::LoadView { atom, .. }
        | Program::StoreView { atom, .. }
        | Program::Load { atom, .. }
        | Program::Store { atom, .. }
        | Program::SharedLoad { atom, .. }
        | Program::SharedStore { atom, .. } => matches!(atom, CopyAtom::Vector { vector_bits: 1.. }),
        _ => false,
    }
}

impl<'c> Emitter<'c, '_> {
    /// Does an operation on the registers of its operands in pairs, if that was chosen.
    pub(super) fn in_pairs(&mut self, op: OpId, packed: Option<Packed>, operands: &[Value], result: Value) -> bool {
        let Some(packed) = packed.filter(|_| self.packing.pairs[op.0 as usize]) else { return false };
        let count = self.layout(result).registers();
        let mut registers = Vec::with_capacity(count);
        for first in (0..count).step_by(2) {
            let args: Vec<Val<'c>> = operands.iter().map(|operand| self.ir.pack(&self.get(*operand)[first..first + 2])).collect();
            let vectors: Vec<VectorValue<'c>> = args.iter().map(|arg| arg.into_vector_value()).collect();
            let builder = &self.ir.builder;
            let both: Val<'c> = match packed {
                Packed::Add => builder.build_float_add(vectors[0], vectors[1], "").expect("vectors fit").into(),
                Packed::Sub => builder.build_float_sub(vectors[0], vectors[1], "").expect("vectors fit").into(),
                Packed::Mul => builder.build_float_mul(vectors[0], vectors[1], "").expect("vectors fit").into(),
                Packed::Fma => self.ir.intrinsic_value("llvm.fma", &[args[0].get_type()], &args),
                Packed::Extreme(name) => self.ir.intrinsic_value(name, &[args[0].get_type()], &args),
            };
            let pair = self.ir.unpack(both, 2);
            registers.extend(if common::planted("ptx.pairs") { vec![pair[1], pair[0]] } else { pair });
        }
        self.set(result, registers);
        true
    }
}
