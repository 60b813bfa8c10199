//! Adds no-wrap flags to integer arithmetic if facts prove them, so that later stages may widen or split it. See also: LLVM's
//! inference of `nsw` and `nuw` in `CorrelatedValuePropagation`.

use super::edit::Edit;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use numerics::arith::{Binary, Overflow};
use tileaa::facts::{Facts, full_range};
use tileaa::{Function, Op};

pub(super) fn run(function: &mut Function) -> usize {
    let facts = Facts::of(function);
    let flagged_ops: Vec<_> = function
        .body
        .ops
        .iter()
        .filter_map(|(op, node)| match &node.kind {
            Op::Core(Core::Binary { kind, lhs, rhs }) => {
                let (elem, _) = function.body.ty(*lhs).tile()?;
                let kind = with_no_wrap_flag(&facts, *kind, elem, *lhs, *rhs)?;
                Some((op, Core::Binary { kind, lhs: *lhs, rhs: *rhs }))
            }
            _ => None,
        })
        .collect();
    let mut edit = Edit::new(function);
    flagged_ops.into_iter().for_each(|(op, core)| edit.become_op(op, core));
    edit.finish()
}

/// The operation with the strongest no-wrap flag that facts prove; none if it already has a flag or facts prove none.
fn with_no_wrap_flag(facts: &Facts<'_>, kind: Binary, elem: Elem, lhs: Value, rhs: Value) -> Option<Binary> {
    let (l, r) = (facts.range(lhs), facts.range(rhs));
    let none = Overflow::None;
    let (exact, with_overflow): (_, fn(Overflow) -> Binary) = match kind {
        Binary::AddI { overflow } if overflow == none => {
            if have_disjoint_bits(facts, lhs, rhs) || have_disjoint_bits(facts, rhs, lhs) {
                return Some(Binary::AddI { overflow: Overflow::NoWrap });
            }
            (l.0.checked_add(r.0).zip(l.1.checked_add(r.1)), |overflow| Binary::AddI { overflow })
        }
        Binary::SubI { overflow } if overflow == none => {
            (l.0.checked_sub(r.1).zip(l.1.checked_sub(r.0)), |overflow| Binary::SubI { overflow })
        }
        Binary::MulI { overflow } if overflow == none => (mul_range(l, r), |overflow| Binary::MulI { overflow }),
        _ => return None,
    };
    let (low, high) = exact?;
    let full = full_range(elem);
    if low < full.0 || high > full.1 {
        return None;
    }
    let is_unsigned_safe = l.0 >= 0 && r.0 >= 0 && low >= 0;
    Some(with_overflow(if is_unsigned_safe { Overflow::NoWrap } else { Overflow::NoSignedWrap }))
}

/// Returns whether each bit that may be set in `small` is zero in `aligned`, so that the addition has no carry. `small` must not be
/// negative.
fn have_disjoint_bits(facts: &Facts<'_>, aligned: Value, small: Value) -> bool {
    let (low, high) = facts.range(small);
    low >= 0 && (high as u64) < facts.divisor(aligned)
}

fn mul_range(l: (i64, i64), r: (i64, i64)) -> Option<(i64, i64)> {
    let all = [l.0.checked_mul(r.0)?, l.0.checked_mul(r.1)?, l.1.checked_mul(r.0)?, l.1.checked_mul(r.1)?];
    Some((all.into_iter().min()?, all.into_iter().max()?))
}
