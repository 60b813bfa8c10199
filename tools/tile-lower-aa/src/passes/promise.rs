//! Adds no-wrap flags to integer arithmetic if facts prove them, so that later stages may widen or split the arithmetic. See also:
//! LLVM's inference of `nsw` and `nuw` in `CorrelatedValuePropagation`.

use super::edit::Edit;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use numerics::arith::{Binary, Overflow};
use tileaa::facts::{Facts, full_range};
use tileaa::{Function, Op};

/// Runs the pass on a function. Returns the number of ops that get flags.
pub(super) fn run(function: &mut Function) -> usize {
    let facts = Facts::derive(function);
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
    flagged_ops.into_iter().for_each(|(op, core)| edit.replace_op(op, core));
    edit.finish()
}

/// The arithmetic of a binary op with the strongest no-wrap flag that facts prove. `None` if `kind` already has a flag, or if facts
/// prove no flag.
fn with_no_wrap_flag(facts: &Facts<'_>, kind: Binary, elem: Elem, lhs: Value, rhs: Value) -> Option<Binary> {
    let (l, r) = (facts.range(lhs), facts.range(rhs));
    let no_flag = Overflow::None;
    let (exact_range, with_overflow): (_, fn(Overflow) -> Binary) = match kind {
        Binary::AddI { overflow } if overflow == no_flag => {
            if have_disjoint_bits(facts, lhs, rhs) || have_disjoint_bits(facts, rhs, lhs) {
                return Some(Binary::AddI { overflow: Overflow::NoWrap });
            }
            (l.0.checked_add(r.0).zip(l.1.checked_add(r.1)), |overflow| Binary::AddI { overflow })
        }
        Binary::SubI { overflow } if overflow == no_flag => {
            (l.0.checked_sub(r.1).zip(l.1.checked_sub(r.0)), |overflow| Binary::SubI { overflow })
        }
        Binary::MulI { overflow } if overflow == no_flag => (product_range(l, r), |overflow| Binary::MulI { overflow }),
        _ => return None,
    };
    let (low, high) = exact_range?;
    let type_range = full_range(elem);
    if low < type_range.0 || high > type_range.1 {
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

/// The range of `l * r` for numbers of two ranges. `None` if a bound exceeds 64 bits.
fn product_range(l: (i64, i64), r: (i64, i64)) -> Option<(i64, i64)> {
    let corner_values = [l.0.checked_mul(r.0)?, l.0.checked_mul(r.1)?, l.1.checked_mul(r.0)?, l.1.checked_mul(r.1)?];
    Some((corner_values.into_iter().min()?, corner_values.into_iter().max()?))
}
