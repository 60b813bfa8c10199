//! Folds elementwise ops.

use super::{Folded, TypedOp, splat};
use crate::passes::edit::Edit;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Signedness};

pub(super) fn fold(edit: &mut Edit<'_>, at: &TypedOp, core: &Core) -> Option<Folded> {
    match *core {
        Core::Unary { kind, x } if is_int(at.elem) => edit.splat(x).map(|bits| splat(kind.eval(at.elem.carrier(), bits))),
        Core::Binary { kind, lhs, rhs } if is_int(at.elem) => binary(edit, at, kind, lhs, rhs),
        Core::Compare { kind, lhs, rhs } => compare(edit, kind, lhs, rhs),
        Core::Convert { kind, x } => convert(edit, at, kind, x),
        Core::Select { cond, yes, no } => select(edit, at, cond, yes, no),
        Core::Offset { ptr, offset } => (edit.splat(offset) == Some(0)).then_some(Folded::Value(ptr)),
        Core::IntToPtr { x } => match edit.defining_core(x)? {
            Core::PtrToInt { x } if *edit.ty(x) == at.ty() => Some(Folded::Value(x)),
            _ => None,
        },
        Core::PtrToInt { x } => match edit.defining_core(x)? {
            Core::IntToPtr { x } => Some(Folded::Value(x)),
            _ => None,
        },
        Core::PtrCast { x } if *edit.ty(x) == at.ty() => Some(Folded::Value(x)),
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

fn binary(edit: &mut Edit<'_>, at: &TypedOp, kind: Binary, lhs: Value, rhs: Value) -> Option<Folded> {
    let scalar = at.elem.carrier();
    let divides = matches!(kind, Binary::DivI { .. } | Binary::RemI { .. });
    let (left, right) = (edit.splat(lhs), edit.splat(rhs));
    match (left, right) {
        (Some(left), Some(right)) if !(divides && right == 0) => return Some(splat(kind.eval(scalar, left, right))),
        (Some(_), None) if kind.is_int() && kind.is_commutative() => {
            return Some(Folded::Op(Core::Binary { kind, lhs: rhs, rhs: lhs }));
        }
        _ => {}
    }
    if lhs == rhs {
        match kind {
            Binary::SubI { .. } | Binary::Xor => return Some(splat(0)),
            Binary::And | Binary::Or | Binary::MaxI { .. } | Binary::MinI { .. } => return Some(Folded::Value(lhs)),
            _ => {}
        }
    }
    if let Some(folded) = merge_comparisons(edit, kind, lhs, rhs) {
        return Some(folded);
    }
    let right = right?;
    fold_neutral_constant(kind, scalar, lhs, right).or_else(|| merge_constants(edit, at, kind, lhs, right))
}

/// Folds ops with a neutral or absorbing constant on the right.
fn fold_neutral_constant(kind: Binary, scalar: Scalar, lhs: Value, right: u64) -> Option<Folded> {
    let ones = right == scalar.mask();
    match kind {
        Binary::AddI { .. } | Binary::SubI { .. } | Binary::Or | Binary::Xor if right == 0 => Some(Folded::Value(lhs)),
        Binary::ShL { .. } | Binary::ShR { .. } if right == 0 => Some(Folded::Value(lhs)),
        // As a 1-bit signed number, 1 is -1.
        Binary::MulI { .. } if right == 1 => Some(Folded::Value(lhs)),
        Binary::DivI { .. } if right == 1 && scalar != Scalar::I1 => Some(Folded::Value(lhs)),
        Binary::RemI { .. } if right == 1 && scalar != Scalar::I1 => Some(splat(0)),
        Binary::MulI { .. } | Binary::MulHiU | Binary::And if right == 0 => Some(splat(0)),
        Binary::And if ones => Some(Folded::Value(lhs)),
        Binary::Or if ones => Some(splat(right)),
        _ => None,
    }
}

/// Merges an op with a constant into its operand: another op with a constant, or a comparison that the op negates.
fn merge_constants(edit: &mut Edit<'_>, at: &TypedOp, kind: Binary, lhs: Value, right: u64) -> Option<Folded> {
    let scalar = at.elem.carrier();
    match (kind, edit.defining_core(lhs)?) {
        (Binary::Xor, Core::Compare { kind, lhs, rhs }) if scalar == Scalar::I1 && right == 1 => {
            Some(Folded::Op(Core::Compare { kind: opposite(kind), lhs, rhs }))
        }
        (outer, Core::Binary { kind: inner, lhs: x, rhs: y }) => {
            let first = edit.splat(y)?;
            let combined = match (outer, inner) {
                (Binary::AddI { .. }, Binary::AddI { .. }) | (Binary::MulI { .. }, Binary::MulI { .. }) => {
                    outer.eval(scalar, first, right)
                }
                (Binary::And, Binary::And) | (Binary::Or, Binary::Or) | (Binary::Xor, Binary::Xor) => {
                    outer.eval(scalar, first, right)
                }
                _ => return None,
            };
            // The sum of both constants may wrap although neither addition does.
            let kind = match outer {
                Binary::AddI { .. } => Binary::AddI { overflow: Overflow::None },
                Binary::MulI { .. } => Binary::MulI { overflow: Overflow::None },
                other => other,
            };
            let rhs = edit.insert(at.op, Core::Constant { value: Dense::Splat(combined) }, at.ty());
            Some(Folded::Op(Core::Binary { kind, lhs: x, rhs }))
        }
        _ => None,
    }
}

/// Merges the conjunction or disjunction of two comparisons of the same operands.
fn merge_comparisons(edit: &Edit<'_>, kind: Binary, lhs: Value, rhs: Value) -> Option<Folded> {
    let int = |value| match edit.defining_core(value)? {
        Core::Compare { kind: Compare::Int { predicate, signedness }, lhs, rhs } => Some((predicate, signedness, lhs, rhs)),
        _ => None,
    };
    let (first, second) = (int(lhs)?, int(rhs)?);
    let unordered = |predicate| matches!(predicate, Predicate::Equal | Predicate::NotEqual);
    let signedness = if unordered(first.0) { second.1 } else { first.1 };
    let same_order = unordered(first.0) || unordered(second.0) || first.1 == second.1;
    if (first.2, first.3) != (second.2, second.3) || !same_order {
        return None;
    }
    let outcomes = match kind {
        Binary::And => outcomes(first.0) & outcomes(second.0),
        Binary::Or => outcomes(first.0) | outcomes(second.0),
        _ => return None,
    };
    let predicate = match outcomes {
        0 => return Some(splat(0)),
        7 => return Some(splat(1)),
        _ => PREDICATES.into_iter().find(|predicate| self::outcomes(*predicate) == outcomes)?,
    };
    Some(Folded::Op(Core::Compare { kind: Compare::Int { predicate, signedness }, lhs: first.2, rhs: first.3 }))
}

const PREDICATES: [Predicate; 6] = [
    Predicate::Equal,
    Predicate::NotEqual,
    Predicate::LessThan,
    Predicate::LessThanOrEqual,
    Predicate::GreaterThan,
    Predicate::GreaterThanOrEqual,
];

/// The outcomes for which a comparison holds, as a bit set: less (1), equal (2), greater (4).
fn outcomes(predicate: Predicate) -> u8 {
    match predicate {
        Predicate::LessThan => 1,
        Predicate::Equal => 2,
        Predicate::GreaterThan => 4,
        Predicate::LessThanOrEqual => 3,
        Predicate::NotEqual => 5,
        Predicate::GreaterThanOrEqual => 6,
    }
}

fn opposite(kind: Compare) -> Compare {
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

/// The predicate that holds for swapped operands exactly if `predicate` holds.
fn with_swapped_operands(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::LessThan => Predicate::GreaterThan,
        Predicate::LessThanOrEqual => Predicate::GreaterThanOrEqual,
        Predicate::GreaterThan => Predicate::LessThan,
        Predicate::GreaterThanOrEqual => Predicate::LessThanOrEqual,
        symmetric => symmetric,
    }
}

fn compare(edit: &Edit<'_>, kind: Compare, lhs: Value, rhs: Value) -> Option<Folded> {
    let Compare::Int { predicate, signedness } = kind else { return None };
    let scalar = edit.ty(lhs).tile()?.0.carrier();
    match (edit.splat(lhs), edit.splat(rhs)) {
        (Some(left), Some(right)) => Some(splat(kind.eval(scalar, left, right))),
        (Some(_), None) => {
            let kind = Compare::Int { predicate: with_swapped_operands(predicate), signedness };
            Some(Folded::Op(Core::Compare { kind, lhs: rhs, rhs: lhs }))
        }
        _ if lhs == rhs => Some(splat(kind.eval(scalar, 0, 0))),
        _ => None,
    }
}

fn convert(edit: &Edit<'_>, at: &TypedOp, kind: Convert, x: Value) -> Option<Folded> {
    let (from, to) = (edit.ty(x).tile()?.0.carrier(), at.elem.carrier());
    if let Some(bits) = edit.splat(x)
        && !matches!(kind, Convert::FToI { .. })
    {
        return Some(splat(kind.eval(from, to, bits)));
    }
    if kind == Convert::Bitcast && from == to {
        return Some(Folded::Value(x));
    }
    let Core::Convert { kind: inner, x: first } = edit.defining_core(x)? else { return None };
    let original = edit.ty(first).tile()?.0.carrier();
    match (kind, inner) {
        (Convert::TruncI { .. }, Convert::ExtI { .. }) if original == to => Some(Folded::Value(first)),
        (Convert::ExtI { signedness: outer }, Convert::ExtI { signedness: inner })
            if outer == inner || inner == Signedness::Unsigned =>
        {
            Some(Folded::Op(Core::Convert { kind: Convert::ExtI { signedness: inner }, x: first }))
        }
        (Convert::Bitcast, Convert::Bitcast) => Some(Folded::Op(Core::Convert { kind, x: first })),
        _ => None,
    }
}

fn select(edit: &Edit<'_>, at: &TypedOp, cond: Value, yes: Value, no: Value) -> Option<Folded> {
    let same_type = |value: Value| *edit.ty(value) == at.ty();
    if yes == no && same_type(yes) {
        return Some(Folded::Value(yes));
    }
    if let Some(bit) = edit.splat(cond) {
        let chosen = if bit == 1 { yes } else { no };
        return same_type(chosen).then_some(Folded::Value(chosen));
    }
    if at.elem == Elem::Scalar(Scalar::I1) && edit.splat(yes) == Some(1) && edit.splat(no) == Some(0) {
        return Some(Folded::Value(cond));
    }
    if at.elem == Elem::Scalar(Scalar::I1) && edit.splat(yes) == Some(0) && edit.splat(no) == Some(1) {
        // `no` is the constant true, which the xor needs.
        return Some(Folded::Op(Core::Binary { kind: Binary::Xor, lhs: cond, rhs: no }));
    }
    match edit.defining_core(cond)? {
        Core::Binary { kind: Binary::Xor, lhs, rhs } if edit.splat(rhs) == Some(1) => {
            Some(Folded::Op(Core::Select { cond: lhs, yes: no, no: yes }))
        }
        _ => None,
    }
}
