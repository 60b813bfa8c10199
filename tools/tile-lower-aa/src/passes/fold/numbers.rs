//! Folds elementwise ops.

use super::{Folded, TypedOp, fold_to_splat};
use crate::passes::edit::Edit;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Signedness};

/// The replacement of an elementwise op; `None` if no fold applies.
pub(super) fn fold(edit: &mut Edit<'_>, typed_op: &TypedOp, core: &Core) -> Option<Folded> {
    match *core {
        Core::Unary { kind, x } if is_int(typed_op.elem) => {
            edit.splat_bits(x).map(|bits| fold_to_splat(kind.eval(typed_op.elem.carrier(), bits)))
        }
        Core::Binary { kind, lhs, rhs } if is_int(typed_op.elem) => fold_binary(edit, typed_op, kind, lhs, rhs),
        Core::Compare { kind, lhs, rhs } => fold_compare(edit, kind, lhs, rhs),
        Core::Convert { kind, x } => fold_convert(edit, typed_op, kind, x),
        Core::Select { cond, yes, no } => fold_select(edit, typed_op, cond, yes, no),
        Core::Offset { ptr, offset } => (edit.splat_bits(offset) == Some(0)).then_some(Folded::Value(ptr)),
        Core::IntToPtr { x } => match edit.defining_core(x)? {
            Core::PtrToInt { x } if *edit.ty(x) == typed_op.ty() => Some(Folded::Value(x)),
            _ => None,
        },
        Core::PtrToInt { x } => match edit.defining_core(x)? {
            Core::IntToPtr { x } => Some(Folded::Value(x)),
            _ => None,
        },
        Core::PtrCast { x } if *edit.ty(x) == typed_op.ty() => Some(Folded::Value(x)),
        Core::PtrCast { x } => match edit.defining_core(x)? {
            Core::PtrCast { x } => Some(Folded::Op(Core::PtrCast { x })),
            _ => None,
        },
        Core::Assume { value, ref fact } => {
            let mut inner = value;
            while let Some(Core::Assume { value: next, fact: known }) = edit.defining_core(inner) {
                if known == *fact {
                    return Some(Folded::Value(value));
                }
                inner = next;
            }
            None
        }
        _ => None,
    }
}

fn is_int(elem: Elem) -> bool {
    elem.scalar().is_some_and(Scalar::is_int)
}

/// Folds an integer binary op: constant operands, equal operands, neutral constants, and chains of ops with constants.
fn fold_binary(edit: &mut Edit<'_>, typed_op: &TypedOp, kind: Binary, lhs: Value, rhs: Value) -> Option<Folded> {
    let scalar = typed_op.elem.carrier();
    let is_division = matches!(kind, Binary::DivI { .. } | Binary::RemI { .. });
    let (left, right) = (edit.splat_bits(lhs), edit.splat_bits(rhs));
    match (left, right) {
        (Some(left), Some(right)) if !(is_division && right == 0) => return Some(fold_to_splat(kind.eval(scalar, left, right))),
        (Some(_), None) if kind.is_int() && kind.is_commutative() => {
            return Some(Folded::Op(Core::Binary { kind, lhs: rhs, rhs: lhs }));
        }
        _ => {}
    }
    if lhs == rhs {
        match kind {
            Binary::SubI { .. } | Binary::Xor => return Some(fold_to_splat(0)),
            Binary::And | Binary::Or | Binary::MaxI { .. } | Binary::MinI { .. } => return Some(Folded::Value(lhs)),
            _ => {}
        }
    }
    if let Some(folded) = merge_comparisons(edit, kind, lhs, rhs) {
        return Some(folded);
    }
    let right = right?;
    fold_neutral_constant(kind, scalar, lhs, right).or_else(|| merge_constants(edit, typed_op, kind, lhs, right))
}

/// Folds ops with a neutral or absorbing constant on the right.
fn fold_neutral_constant(kind: Binary, scalar: Scalar, lhs: Value, right: u64) -> Option<Folded> {
    let is_all_ones = right == scalar.mask();
    match kind {
        Binary::AddI { .. } | Binary::SubI { .. } | Binary::Or | Binary::Xor if right == 0 => Some(Folded::Value(lhs)),
        Binary::ShL { .. } | Binary::ShR { .. } if right == 0 => Some(Folded::Value(lhs)),
        Binary::MulI { .. } if right == 1 => Some(Folded::Value(lhs)),
        // A divisor of type i1 is not folded, because as a 1-bit signed number, 1 is -1.
        Binary::DivI { .. } if right == 1 && scalar != Scalar::I1 => Some(Folded::Value(lhs)),
        Binary::RemI { .. } if right == 1 && scalar != Scalar::I1 => Some(fold_to_splat(0)),
        Binary::MulI { .. } | Binary::MulHiU | Binary::And if right == 0 => Some(fold_to_splat(0)),
        Binary::And if is_all_ones => Some(Folded::Value(lhs)),
        Binary::Or if is_all_ones => Some(fold_to_splat(right)),
        _ => None,
    }
}

/// Merges a binary op with the constant `right` into the op that defines `lhs`. That op is another binary op with a constant, or a
/// comparison that the binary op negates.
fn merge_constants(edit: &mut Edit<'_>, typed_op: &TypedOp, kind: Binary, lhs: Value, right: u64) -> Option<Folded> {
    let scalar = typed_op.elem.carrier();
    match (kind, edit.defining_core(lhs)?) {
        (Binary::Xor, Core::Compare { kind, lhs, rhs }) if scalar == Scalar::I1 && right == 1 => {
            Some(Folded::Op(Core::Compare { kind: negated_comparison(kind), lhs, rhs }))
        }
        (outer, Core::Binary { kind: inner, lhs: x, rhs: y }) => {
            let first = edit.splat_bits(y)?;
            let combined = match (outer, inner) {
                (Binary::AddI { .. }, Binary::AddI { .. }) | (Binary::MulI { .. }, Binary::MulI { .. }) => {
                    outer.eval(scalar, first, right)
                }
                (Binary::And, Binary::And) | (Binary::Or, Binary::Or) | (Binary::Xor, Binary::Xor) => {
                    outer.eval(scalar, first, right)
                }
                _ => return None,
            };
            // The sum or product of both constants may wrap although neither original op wraps, so the new op has no no-wrap flag.
            let kind = match outer {
                Binary::AddI { .. } => Binary::AddI { overflow: Overflow::None },
                Binary::MulI { .. } => Binary::MulI { overflow: Overflow::None },
                other => other,
            };
            let rhs = edit.insert(typed_op.op, Core::Constant { value: Dense::Splat(combined) }, typed_op.ty());
            Some(Folded::Op(Core::Binary { kind, lhs: x, rhs }))
        }
        _ => None,
    }
}

/// Replaces the conjunction or disjunction of two comparisons of the same operands by one comparison or a constant.
fn merge_comparisons(edit: &Edit<'_>, kind: Binary, lhs: Value, rhs: Value) -> Option<Folded> {
    let int_comparison = |value| match edit.defining_core(value)? {
        Core::Compare { kind: Compare::Int { predicate, signedness }, lhs, rhs } => Some((predicate, signedness, lhs, rhs)),
        _ => None,
    };
    let (first, second) = (int_comparison(lhs)?, int_comparison(rhs)?);
    let is_equality = |predicate| matches!(predicate, Predicate::Equal | Predicate::NotEqual);
    let signedness = if is_equality(first.0) { second.1 } else { first.1 };
    let signedness_agrees = is_equality(first.0) || is_equality(second.0) || first.1 == second.1;
    if (first.2, first.3) != (second.2, second.3) || !signedness_agrees {
        return None;
    }
    let outcomes = match kind {
        Binary::And => outcome_set(first.0) & outcome_set(second.0),
        Binary::Or => outcome_set(first.0) | outcome_set(second.0),
        _ => return None,
    };
    let predicate = match outcomes {
        0 => return Some(fold_to_splat(0)),
        7 => return Some(fold_to_splat(1)),
        _ => PREDICATES.into_iter().find(|predicate| outcome_set(*predicate) == outcomes)?,
    };
    Some(Folded::Op(Core::Compare { kind: Compare::Int { predicate, signedness }, lhs: first.2, rhs: first.3 }))
}

/// All predicates, for the search by a set of outcomes.
const PREDICATES: [Predicate; 6] = [
    Predicate::Equal,
    Predicate::NotEqual,
    Predicate::LessThan,
    Predicate::LessThanOrEqual,
    Predicate::GreaterThan,
    Predicate::GreaterThanOrEqual,
];

/// The outcomes for which a comparison holds, as a bit set: less (1), equal (2), greater (4).
fn outcome_set(predicate: Predicate) -> u8 {
    match predicate {
        Predicate::LessThan => 1,
        Predicate::Equal => 2,
        Predicate::GreaterThan => 4,
        Predicate::LessThanOrEqual => 3,
        Predicate::NotEqual => 5,
        Predicate::GreaterThanOrEqual => 6,
    }
}

/// The comparison that holds if and only if `kind` does not hold.
fn negated_comparison(kind: Compare) -> Compare {
    let inverse = |predicate| match predicate {
        Predicate::Equal => Predicate::NotEqual,
        Predicate::NotEqual => Predicate::Equal,
        Predicate::LessThan => Predicate::GreaterThanOrEqual,
        Predicate::GreaterThanOrEqual => Predicate::LessThan,
        Predicate::GreaterThan => Predicate::LessThanOrEqual,
        Predicate::LessThanOrEqual => Predicate::GreaterThan,
    };
    match kind {
        Compare::Float { predicate, ordered } => Compare::Float { predicate: inverse(predicate), ordered: !ordered },
        Compare::Int { predicate, signedness } => Compare::Int { predicate: inverse(predicate), signedness },
    }
}

/// The predicate that holds for swapped operands if and only if `predicate` holds for the operands in order.
fn with_swapped_operands(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::LessThan => Predicate::GreaterThan,
        Predicate::LessThanOrEqual => Predicate::GreaterThanOrEqual,
        Predicate::GreaterThan => Predicate::LessThan,
        Predicate::GreaterThanOrEqual => Predicate::LessThanOrEqual,
        symmetric => symmetric,
    }
}

/// Folds an integer comparison of constants or of equal operands, and moves a constant to the right.
fn fold_compare(edit: &Edit<'_>, kind: Compare, lhs: Value, rhs: Value) -> Option<Folded> {
    let Compare::Int { predicate, signedness } = kind else { return None };
    let scalar = edit.ty(lhs).tile()?.0.carrier();
    match (edit.splat_bits(lhs), edit.splat_bits(rhs)) {
        (Some(left), Some(right)) => Some(fold_to_splat(kind.eval(scalar, left, right))),
        (Some(_), None) => {
            let kind = Compare::Int { predicate: with_swapped_operands(predicate), signedness };
            Some(Folded::Op(Core::Compare { kind, lhs: rhs, rhs: lhs }))
        }
        _ if lhs == rhs => Some(fold_to_splat(kind.eval(scalar, 0, 0))),
        _ => None,
    }
}

/// Folds a conversion of a constant, and a pair of conversions that one conversion or none replaces.
fn fold_convert(edit: &Edit<'_>, typed_op: &TypedOp, kind: Convert, x: Value) -> Option<Folded> {
    let (from, to) = (edit.ty(x).tile()?.0.carrier(), typed_op.elem.carrier());
    if let Some(bits) = edit.splat_bits(x)
        && !matches!(kind, Convert::FToI { .. })
    {
        return Some(fold_to_splat(kind.eval(from, to, bits)));
    }
    if kind == Convert::Bitcast && from == to {
        return Some(Folded::Value(x));
    }
    let Core::Convert { kind: inner, x: source } = edit.defining_core(x)? else { return None };
    let source_scalar = edit.ty(source).tile()?.0.carrier();
    match (kind, inner) {
        (Convert::TruncI { .. }, Convert::ExtI { .. }) if source_scalar == to => Some(Folded::Value(source)),
        (Convert::ExtI { signedness: outer }, Convert::ExtI { signedness: inner })
            if outer == inner || inner == Signedness::Unsigned =>
        {
            Some(Folded::Op(Core::Convert { kind: Convert::ExtI { signedness: inner }, x: source }))
        }
        (Convert::Bitcast, Convert::Bitcast) => Some(Folded::Op(Core::Convert { kind, x: source })),
        _ => None,
    }
}

/// Folds a select with equal operands, a constant or negated condition, or constant operands of type `i1`.
fn fold_select(edit: &Edit<'_>, typed_op: &TypedOp, cond: Value, yes: Value, no: Value) -> Option<Folded> {
    let same_type = |value: Value| *edit.ty(value) == typed_op.ty();
    if yes == no && same_type(yes) {
        return Some(Folded::Value(yes));
    }
    if let Some(bit) = edit.splat_bits(cond) {
        let chosen = if bit == 1 { yes } else { no };
        return same_type(chosen).then_some(Folded::Value(chosen));
    }
    if typed_op.elem == Elem::Scalar(Scalar::I1) && edit.splat_bits(yes) == Some(1) && edit.splat_bits(no) == Some(0) {
        return Some(Folded::Value(cond));
    }
    if typed_op.elem == Elem::Scalar(Scalar::I1) && edit.splat_bits(yes) == Some(0) && edit.splat_bits(no) == Some(1) {
        // `no` is the constant true, which the xor needs.
        return Some(Folded::Op(Core::Binary { kind: Binary::Xor, lhs: cond, rhs: no }));
    }
    match edit.defining_core(cond)? {
        Core::Binary { kind: Binary::Xor, lhs, rhs } if edit.splat_bits(rhs) == Some(1) => {
            Some(Folded::Op(Core::Select { cond: lhs, yes: no, no: yes }))
        }
        _ => None,
    }
}
