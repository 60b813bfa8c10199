//! Purpose: use value ranges to fold comparisons, to replace signed by unsigned arithmetic, and to narrow 64-bit arithmetic to 32
//! bits.
//! Requires: `.aa`.
//! Establishes: no property that a later pass requires.
//! Preserves: values.
//! See also: LLVM's `CorrelatedValuePropagation`.

use super::edit::Edit;
use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Rounding, Signedness};
use tileaa::facts::{Facts, full_range};
use tileaa::{Function, Op, Type};

/// The value ranges at the start of the pass. A value that the pass creates has the full range.
struct Ranges(Vec<(i64, i64)>);

/// Runs the pass on a function. Returns the number of changes.
pub(super) fn run(function: &mut Function) -> usize {
    let facts = Facts::derive(function);
    let ranges = Ranges(function.body.values.ids().map(|value| facts.range(value)).collect());
    let mut edit = Edit::new(function);
    for op in edit.ops_in_order() {
        if let Op::Core(core) = edit.resolved_op(op) {
            fold_by_ranges(&mut edit, &ranges, op, core);
        }
    }
    edit.finish()
}

impl Ranges {
    /// The range of a value: its smallest and its largest possible number.
    fn range(&self, value: Value) -> (i64, i64) {
        self.0.get(value.0 as usize).copied().unwrap_or((i64::MIN, i64::MAX))
    }
    fn is_not_negative(&self, value: Value) -> bool {
        self.range(value).0 >= 0
    }
}

/// Folds or narrows a core op by the ranges of its operands and result.
fn fold_by_ranges(edit: &mut Edit<'_>, ranges: &Ranges, op: OpId, core: Core) {
    match core {
        Core::Compare { kind: Compare::Int { predicate, signedness }, lhs, rhs } => {
            let signed_order_holds = signedness == Signedness::Signed || ranges.is_not_negative(lhs) && ranges.is_not_negative(rhs);
            if let Some(outcome) =
                signed_order_holds.then(|| known_outcome(predicate, ranges.range(lhs), ranges.range(rhs))).flatten()
            {
                edit.replace_op(op, Core::Constant { value: Dense::Splat(outcome.into()) });
            } else {
                narrow_compare(edit, op, predicate, signedness, lhs, rhs);
            }
        }
        Core::Binary { kind, lhs, rhs } => fold_arithmetic(edit, ranges, op, kind, lhs, rhs),
        _ => {}
    }
}

/// `Some(true)` if a comparison holds for all numbers of two ranges, `Some(false)` if it holds for none, otherwise `None`.
fn known_outcome(predicate: Predicate, lhs: (i64, i64), rhs: (i64, i64)) -> Option<bool> {
    let less = |a: (i64, i64), b: (i64, i64)| {
        if a.1 < b.0 {
            Some(true)
        } else if a.0 >= b.1 {
            Some(false)
        } else {
            None
        }
    };
    let disjoint = lhs.1 < rhs.0 || rhs.1 < lhs.0;
    match predicate {
        Predicate::LessThan => less(lhs, rhs),
        Predicate::GreaterThan => less(rhs, lhs),
        Predicate::GreaterThanOrEqual => less(lhs, rhs).map(|less| !less),
        Predicate::LessThanOrEqual => less(rhs, lhs).map(|less| !less),
        Predicate::Equal => disjoint.then_some(false),
        Predicate::NotEqual => disjoint.then_some(true),
    }
}

/// Simplifies an integer operation by the value ranges of its operands.
fn fold_arithmetic(edit: &mut Edit<'_>, ranges: &Ranges, op: OpId, kind: Binary, lhs: Value, rhs: Value) {
    let both_non_negative = ranges.is_not_negative(lhs) && ranges.is_not_negative(rhs);
    match kind {
        Binary::DivI { signedness: Signedness::Signed, rounding } if both_non_negative => {
            let rounding = if rounding == Rounding::NegativeInf { Rounding::Zero } else { rounding };
            let kind = Binary::DivI { signedness: Signedness::Unsigned, rounding };
            edit.replace_op(op, Core::Binary { kind, lhs, rhs });
        }
        Binary::RemI { signedness: Signedness::Signed } if both_non_negative => {
            let kind = Binary::RemI { signedness: Signedness::Unsigned };
            edit.replace_op(op, Core::Binary { kind, lhs, rhs });
        }
        Binary::MinI { signedness } | Binary::MaxI { signedness } if signedness == Signedness::Signed || both_non_negative => {
            let (l, r) = (ranges.range(lhs), ranges.range(rhs));
            let is_min = matches!(kind, Binary::MinI { .. });
            let chosen = if l.1 <= r.0 {
                Some(if is_min { lhs } else { rhs })
            } else if r.1 <= l.0 {
                Some(if is_min { rhs } else { lhs })
            } else {
                None
            };
            if let Some(chosen) = chosen {
                let result = edit.function.body.result(op);
                edit.replace_uses(result, chosen);
            }
        }
        Binary::AddI { .. } | Binary::SubI { .. } | Binary::MulI { .. } => narrow_arithmetic(edit, ranges, op, kind, lhs, rhs),
        _ => {}
    }
}

/// A 64-bit value that is a sign-extended 32-bit value, possibly broadcast or reshaped afterwards, or a constant that fits 32 bits.
enum NarrowForm {
    /// The 32-bit value that is sign-extended.
    Value(Value),
    /// A constant that fits 32 bits.
    Constant(i32),
    /// The 32-bit value that is sign-extended and then broadcast.
    Broadcast(Value),
    /// The 32-bit value that is sign-extended and then reshaped.
    Reshape(Value),
}

/// The 32-bit form of a 64-bit value, if it has one.
fn narrow_form(edit: &Edit<'_>, value: Value) -> Option<NarrowForm> {
    match edit.defining_core(value)? {
        Core::Broadcast { x } => sign_extended_source(edit, x).map(NarrowForm::Broadcast),
        Core::Reshape { x } => sign_extended_source(edit, x).map(NarrowForm::Reshape),
        Core::Constant { value: Dense::Splat(bits) } => i32::try_from(bits as i64).ok().map(NarrowForm::Constant),
        _ => sign_extended_source(edit, value).map(NarrowForm::Value),
    }
}

/// The 32-bit operand of the sign extension that defines a 64-bit value, or `None` if no sign extension from 32 bits defines it.
fn sign_extended_source(edit: &Edit<'_>, value: Value) -> Option<Value> {
    let is_i32 = |value: Value| edit.ty(value).tile().is_some_and(|(elem, _)| elem == Elem::Scalar(Scalar::I32));
    match edit.defining_core(value)? {
        Core::Convert { kind: Convert::ExtI { signedness: Signedness::Signed }, x } if is_i32(x) => Some(x),
        _ => None,
    }
}

/// The 32-bit forms of two 64-bit operands. `None` if an operand has no 32-bit form, or if both operands are constants.
fn narrow_forms_of_operands(edit: &Edit<'_>, lhs: Value, rhs: Value) -> Option<[NarrowForm; 2]> {
    let narrowed = [narrow_form(edit, lhs)?, narrow_form(edit, rhs)?];
    let is_i64 = edit.ty(lhs).tile().is_some_and(|(elem, _)| elem == Elem::Scalar(Scalar::I64));
    let has_non_constant = narrowed.iter().any(|narrow| !matches!(narrow, NarrowForm::Constant(_)));
    (is_i64 && has_non_constant).then_some(narrowed)
}

/// Inserts before `op` the ops that compute a 32-bit form, with the shape of `like`. Returns its value.
fn emit_narrow_form(edit: &mut Edit<'_>, op: OpId, like: Value, narrow: NarrowForm) -> Value {
    let core = match narrow {
        NarrowForm::Value(value) => return value,
        NarrowForm::Constant(number) => Core::Constant { value: Dense::Splat(u64::from(number as u32)) },
        NarrowForm::Broadcast(x) => Core::Broadcast { x },
        NarrowForm::Reshape(x) => Core::Reshape { x },
    };
    let ty = i32_type_like(edit, like);
    edit.insert(op, core, ty)
}

/// The type of a tile with the shape of `value` and i32 elements.
fn i32_type_like(edit: &Edit<'_>, value: Value) -> Type {
    let shape = edit.ty(value).tile().map(|(_, shape)| shape.clone()).unwrap_or_default();
    Type::Tile { elem: Elem::Scalar(Scalar::I32), shape }
}

/// Narrows a comparison: sign extension preserves the order, also for unsigned comparisons.
fn narrow_compare(edit: &mut Edit<'_>, op: OpId, predicate: Predicate, signedness: Signedness, lhs: Value, rhs: Value) {
    let Some([left, right]) = narrow_forms_of_operands(edit, lhs, rhs) else { return };
    let (left, right) = (emit_narrow_form(edit, op, lhs, left), emit_narrow_form(edit, op, rhs, right));
    edit.replace_op(op, Core::Compare { kind: Compare::Int { predicate, signedness }, lhs: left, rhs: right });
}

/// Narrows a sum, difference or product if the result fits 32 bits.
fn narrow_arithmetic(edit: &mut Edit<'_>, ranges: &Ranges, op: OpId, kind: Binary, lhs: Value, rhs: Value) {
    let result = edit.function.body.result(op);
    let (low, high) = ranges.range(result);
    let i32_range = full_range(Elem::Scalar(Scalar::I32));
    if low < i32_range.0 || high > i32_range.1 {
        return;
    }
    let Some([left, right]) = narrow_forms_of_operands(edit, lhs, rhs) else { return };
    let (left, right) = (emit_narrow_form(edit, op, lhs, left), emit_narrow_form(edit, op, rhs, right));
    let overflow = Overflow::NoSignedWrap;
    let kind = match kind {
        Binary::AddI { .. } => Binary::AddI { overflow },
        Binary::SubI { .. } => Binary::SubI { overflow },
        _ => Binary::MulI { overflow },
    };
    let ty = i32_type_like(edit, result);
    let value = edit.insert(op, Core::Binary { kind, lhs: left, rhs: right }, ty);
    edit.replace_op(op, Core::Convert { kind: Convert::ExtI { signedness: Signedness::Signed }, x: value });
}
