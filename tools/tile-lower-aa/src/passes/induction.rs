//! Purpose: compute secondary induction variables from the loop's induction variable. This removes loop-carried dependences, so
//! loads can be prefetched and value ranges are known.
//! Requires: `.aa`; a loop-carried integer or pointer, unused after the loop, to which every iteration adds the same number.
//! Establishes: such values are affine functions of the loop's induction variable.
//! Preserves: values, including wrapping.
//! See also: LLVM's `IndVarSimplify` and scalar evolution.

use super::edit::Edit;
use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Overflow, Rounding, Signedness};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};

/// Runs the pass on a function. Returns the number of changes.
pub(super) fn run(function: &mut Function) -> usize {
    let mut edit = Edit::new(function);
    for op in edit.ops_in_order() {
        let body = &edit.function.body;
        let Some(loop_op) = body.ops[op].kind.core().and_then(Core::as_loop) else { continue };
        let Some(bounds) = loop_op.bounds else { continue };
        let block = loop_op.block(body);
        for variable in secondary_induction_variables(&edit, op, loop_op.init, block) {
            replace_by_affine_function(&mut edit, block, [bounds.lower, bounds.step], variable);
        }
    }
    edit.finish()
}

/// A secondary induction variable: a loop-carried value to which every iteration adds the same number.
struct InductionVariable {
    /// The block argument with the value of the current iteration.
    arg: Value,
    /// The value in the first iteration.
    init: Value,
    /// The number that each iteration adds.
    increment: Increment,
}

/// The increment of all elements per iteration: a constant with its width, or a loop-invariant integer.
#[derive(Clone, Copy)]
enum Increment {
    /// A constant with its width in bits.
    Constant { number: u64, bits: u32 },
    /// A scalar that is the same in all iterations.
    Scalar(Value),
}

/// The secondary induction variables of a loop that no op uses after the loop.
fn secondary_induction_variables(edit: &Edit<'_>, op: OpId, init: &[Value], block: Block) -> Vec<InductionVariable> {
    let body = &edit.function.body;
    let args = &body.blocks[block].args;
    let results = &body.ops[op].results;
    let Some(next_values) = operands_of_only_continue(edit, block) else { return Vec::new() };
    let loop_ops: BTreeSet<OpId> = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region)).collect();
    let variable = |i: usize| {
        let arg = args[i + 1];
        let increment = match body.defining_op(next_values[i]).map(|op| &body.ops[op].kind)? {
            Op::Core(Core::Binary { kind: Binary::AddI { .. }, lhs, rhs }) if *lhs == arg => *rhs,
            Op::Core(Core::Binary { kind: Binary::AddI { .. }, lhs, rhs }) if *rhs == arg => *lhs,
            Op::Core(Core::Offset { ptr, offset }) if *ptr == arg => *offset,
            _ => return None,
        };
        let increment = loop_invariant_increment(edit, increment, &loop_ops)?;
        // Narrower integers are skipped, because programs compute no addresses with them.
        let is_wide = body.ty(arg).tile()?.0.bits() >= 8;
        (is_wide && !edit.is_used(results[i])).then_some(InductionVariable { arg, init: init[i], increment })
    };
    (0..init.len()).filter_map(variable).collect()
}

/// The increment, if it is the same for all elements and in every iteration.
fn loop_invariant_increment(edit: &Edit<'_>, increment: Value, loop_ops: &BTreeSet<OpId>) -> Option<Increment> {
    if let Some(number) = edit.splat_bits(increment) {
        let bits = edit.ty(increment).tile()?.0.bits();
        return Some(Increment::Constant { number, bits });
    }
    let scalar = match edit.defining_core(increment) {
        Some(Core::Broadcast { x }) => x,
        _ => increment,
    };
    let is_invariant = match edit.function.body.defining_op(scalar) {
        Some(op) => !loop_ops.contains(&op),
        None => edit.function.params().contains(&scalar),
    };
    (is_invariant && edit.ty(scalar).tile()?.1.is_empty()).then_some(Increment::Scalar(scalar))
}

/// The operands of the loop's only `continue`. `None` if a second `continue` ends iterations early.
fn operands_of_only_continue(edit: &Edit<'_>, block: Block) -> Option<Vec<Value>> {
    let body = &edit.function.body;
    let mut blocks = vec![block];
    let mut continue_operands = None;
    while let Some(inner) = blocks.pop() {
        for &op in &body.blocks[inner].ops {
            match &body.ops[op].kind {
                Op::Core(Core::Continue { values }) if inner == block => continue_operands = Some(values.clone()),
                Op::Core(Core::Continue { .. }) => return None,
                Op::Core(core) if core.is_if() => {
                    blocks.extend(body.ops[op].kind.regions().into_iter().map(|region| body.block_of(region)))
                }
                _ => {}
            }
        }
    }
    continue_operands
}

/// Replaces a secondary induction variable by its init plus the increments of the past iterations. Does nothing unless
/// the step is a positive constant, because a division by another value is expensive.
fn replace_by_affine_function(edit: &mut Edit<'_>, block: Block, [lower, step]: [Value; 2], variable: InductionVariable) {
    let body = &edit.function.body;
    let (insertion_point, iv) = (body.blocks[block].ops[0], body.blocks[block].args[0]);
    let Some(step) = edit.splat_bits(step) else { return };
    let bits = edit.ty(iv).tile().map_or(64, |(elem, _)| elem.bits());
    let is_positive = step != 0 && step >> (bits - 1) == 0;
    if !is_positive {
        return;
    }
    let mut progress = LoopProgress { edit, insertion_point, value: iv };
    if progress.edit.splat_bits(lower) != Some(0) {
        progress.value = progress.binary(Binary::SubI { overflow: MAY_WRAP }, iv, lower);
    }
    let value = progress.emit_variable(variable.init, step, variable.increment);
    edit.replace_uses(variable.arg, value);
}

/// The overflow flag of the new arithmetic. The arithmetic may wrap, because the additions that it replaces may wrap.
const MAY_WRAP: Overflow = Overflow::None;

/// Generates arithmetic from the progress of a loop: `value` is the loop's induction variable minus its lower bound.
struct LoopProgress<'a, 'b> {
    edit: &'a mut Edit<'b>,
    /// The first op of an iteration, before which new ops are inserted.
    insertion_point: OpId,
    /// The loop's induction variable minus its lower bound.
    value: Value,
}

impl LoopProgress<'_, '_> {
    /// Generates the value of a secondary induction variable, from its value `init` in the first iteration and the `step` of the
    /// loop.
    fn emit_variable(mut self, init: Value, step: u64, increment: Increment) -> Value {
        let ty = self.edit.ty(init).clone();
        let (elem, shape) = ty.tile().expect("an induction variable is a tile");
        // Addresses and their offsets have 64 bits.
        let is_pointer = elem.scalar().is_none();
        let scalar = if is_pointer { Scalar::I64 } else { elem.carrier() };
        let mut total_increment = self.emit_total_increment(step, increment, scalar);
        let starts_at_zero = !is_pointer && self.edit.splat_bits(init) == Some(0);
        if !shape.is_empty() {
            let broadcast_type = Type::Tile { elem: Elem::Scalar(scalar), shape: shape.clone() };
            total_increment = self.edit.insert(self.insertion_point, Core::Broadcast { x: total_increment }, broadcast_type);
        }
        if is_pointer {
            return self.edit.insert(self.insertion_point, Core::Offset { ptr: init, offset: total_increment }, ty);
        }
        if starts_at_zero {
            return total_increment;
        }
        self.binary(Binary::AddI { overflow: MAY_WRAP }, total_increment, init)
    }

    /// Generates the sum of the increments of past iterations, as an integer of type `scalar`.
    fn emit_total_increment(&mut self, step: u64, increment: Increment, scalar: Scalar) -> Value {
        let induction_type = self.edit.ty(self.value).tile().map(|(elem, _)| elem.carrier());
        if induction_type == Some(scalar) && matches!(increment, Increment::Constant { number, .. } if number == step) {
            return self.value;
        }
        let iterations = self.emit_past_iterations(step);
        let iterations = self.convert_scalar(iterations, Signedness::Unsigned, scalar);
        match increment {
            Increment::Constant { number: 1, .. } => iterations,
            Increment::Constant { number, bits } => {
                let number = ((number << (64 - bits)) as i64 >> (64 - bits)) as u64 & scalar.mask();
                self.binary_with_constant(Binary::MulI { overflow: MAY_WRAP }, iterations, number)
            }
            Increment::Scalar(increment) => {
                let increment = self.convert_scalar(increment, Signedness::Signed, scalar);
                self.binary(Binary::MulI { overflow: MAY_WRAP }, iterations, increment)
            }
        }
    }

    /// Generates the number of past iterations.
    fn emit_past_iterations(&mut self, step: u64) -> Value {
        if step == 1 {
            return self.value;
        }
        let kind = Binary::DivI { signedness: Signedness::Unsigned, rounding: Rounding::Zero };
        self.binary_with_constant(kind, self.value, step)
    }

    /// Converts a scalar to another type, with wrapping.
    fn convert_scalar(&mut self, x: Value, signedness: Signedness, to: Scalar) -> Value {
        let from = self.edit.ty(x).tile().map_or(to, |(elem, _)| elem.carrier());
        let kind = match from.bits().cmp(&to.bits()) {
            Ordering::Equal => return x,
            Ordering::Less => Convert::ExtI { signedness },
            Ordering::Greater => Convert::TruncI { overflow: MAY_WRAP },
        };
        let ty = Type::Tile { elem: Elem::Scalar(to), shape: Default::default() };
        self.edit.insert(self.insertion_point, Core::Convert { kind, x }, ty)
    }

    /// Creates a binary op on integers of equal type.
    fn binary(&mut self, kind: Binary, lhs: Value, rhs: Value) -> Value {
        let ty = self.edit.ty(lhs).clone();
        self.edit.insert(self.insertion_point, Core::Binary { kind, lhs, rhs }, ty)
    }

    /// Creates a binary op whose right operand is a constant.
    fn binary_with_constant(&mut self, kind: Binary, lhs: Value, number: u64) -> Value {
        let ty = self.edit.ty(lhs).clone();
        let rhs = self.edit.insert(self.insertion_point, Core::Constant { value: Dense::Splat(number) }, ty);
        self.binary(kind, lhs, rhs)
    }
}
