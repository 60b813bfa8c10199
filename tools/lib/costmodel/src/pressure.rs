//! Estimates the registers of a thread from liveness in program order.
//!
//! `ptxas` allocates the actual registers. The generated code computes addresses and masks directly before each access, so the
//! estimate ignores their live ranges. The code also computes an element-wise value with a single use element by element, directly
//! before that use. Such a value occupies no registers of its own.

use base::Value;
use base::ir::{Op as OpId, Operation};
use std::collections::BTreeMap;
use tileas::register_liveness::{Evaluation, OTHER_REGISTERS, RegisterLiveness, live_element_bits};
use tileas::{CopyAtom, Function, MmaAtom, MmaOperand, Module, Op, Type};

/// Bytes along K of one step of `mma.sync`.
const STEP_BYTES: u32 = 32;
/// Number of fragments of an operand that are live at the same time: a thread loads one fragment while `mma.sync` reads the
/// other fragment.
const LIVE_FRAGMENTS: u32 = 2;

/// The estimated registers of a thread while each op executes.
pub(crate) struct Pressure {
    by_op: BTreeMap<OpId, u32>,
    pub(crate) max_registers: u32,
}

impl Pressure {
    /// Computes the pressure from the live ranges of all values.
    pub(crate) fn estimate(module: &Module, function: &Function) -> Pressure {
        let liveness = RegisterLiveness::analyse(&function.body, function.region, Evaluation::ElementByElement);
        let fragments = mma_sync_operands(function);
        let registers = liveness.live_registers(&function.body, |value| value_registers(module, function, &fragments, value));
        let by_op = liveness.order.iter().zip(registers).map(|(op, live)| (*op, live + OTHER_REGISTERS));
        let by_op: BTreeMap<OpId, u32> = by_op.collect();
        let max_registers = by_op.values().copied().max().unwrap_or(OTHER_REGISTERS);
        Pressure { by_op, max_registers }
    }

    /// Returns the registers of a thread while an op executes.
    pub(crate) fn registers_at(&self, op: OpId) -> u32 {
        self.by_op.get(&op).copied().unwrap_or(OTHER_REGISTERS)
    }
}

/// Returns the number of registers of a thread that a value occupies. `fragments` has the values that only `mma.sync` reads.
fn value_registers(module: &Module, function: &Function, fragments: &BTreeMap<Value, usize>, value: Value) -> u32 {
    let body = &function.body;
    let defining_op = body.defining_op(value).map(|op| &body.ops[op].kind);
    let is_shared_load = matches!(defining_op, Some(Op::SharedLoad { .. }));
    let is_loaded = is_shared_load || matches!(defining_op, Some(Op::LoadView { .. } | Op::Load { .. }));
    let (Some(bits), Type::Tile { elem, layout, shape }) = (live_element_bits(body, value, is_loaded), body.ty(value)) else {
        return 0;
    };
    let elements = module.layouts[*layout].registers() as u32;
    // A loaded vector of fewer than 32 bits takes a whole register.
    let all_registers = match defining_op {
        Some(
            Op::LoadView { atom: CopyAtom::Vector { vector_bits }, .. } | Op::Load { atom: CopyAtom::Vector { vector_bits }, .. },
        ) if elem.bits() << (*vector_bits).min(5) < 32 => elements >> (*vector_bits).min(5),
        _ => (elements * bits).div_ceil(32),
    };
    match fragments.get(&value).filter(|_| is_shared_load) {
        Some(side) => {
            let k = shape.get(shape.len() - 1 - side).copied().unwrap_or(1);
            let steps = (k * elem.bits() / 8).div_ceil(STEP_BYTES).max(1);
            (all_registers * LIVE_FRAGMENTS).div_ceil(steps).min(all_registers)
        }
        None => all_registers,
    }
}

/// Returns the values that only `mma.sync` reads, each with the number of the operand: 0 for the left operand, 1 for the right one.
/// `mma.sync` reads them step by step along K.
fn mma_sync_operands(function: &Function) -> BTreeMap<Value, usize> {
    let mut sides: BTreeMap<Value, Option<usize>> = BTreeMap::new();
    for node in function.body.ops.values() {
        for value in node.kind.operands() {
            let side = match &node.kind {
                Op::Mma { lhs, rhs, atom: MmaAtom::Sync(_), .. } => {
                    [lhs, rhs].into_iter().position(|side| matches!(side, MmaOperand::Registers(operand) if *operand == value))
                }
                _ => None,
            };
            let common_side = sides.entry(value).or_insert(side);
            *common_side = common_side.filter(|earlier_side| Some(*earlier_side) == side);
        }
    }
    sides.into_iter().filter_map(|(value, side)| Some((value, side?))).collect()
}
