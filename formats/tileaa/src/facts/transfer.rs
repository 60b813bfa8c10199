//! Transfer functions: they compute the facts about an op's result from the facts about its operands.

use super::info::{AxisInfo, MAX_DIVISOR, TileFacts, full_range, power_of_two_divisor};
use core_dialect::core_ops::{CLUSTER_SIZES, Core, Fact};
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Rounding, Signedness};

/// The number of tile blocks along each axis is below this limit (Tile IR: at most 2^24 - 1).
const GRID_LIMIT: i64 = 1 << 24;

/// An operand: the facts about it, and its type.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) info: &'a TileFacts,
    pub(super) elem: Elem,
    pub(super) shape: &'a Shape,
}

/// The facts about the result of a pure op, which is a tile with this element type and shape. The operands are in the op's order.
pub(super) fn result_info(core: &Core, operands: &[Operand<'_>], elem: Elem, shape: &Shape) -> TileFacts {
    let unknown = || TileFacts::unknown(elem, shape);
    let is_int = elem.scalar().is_some_and(Scalar::is_int);
    let info = match (core, operands) {
        (Core::Constant { value }, _) if is_int => constant_info(value, elem.carrier(), shape),
        (Core::Iota {}, _) => iota_info(shape, elem),
        (Core::BlockId { .. } | Core::ClcBlockId { .. }, _) => TileFacts::all_equal((0, GRID_LIMIT - 2), 1, shape),
        (Core::BlockCount { .. }, _) => TileFacts::all_equal((1, GRID_LIMIT - 1), 1, shape),
        (Core::ClcBlockCount {}, _) => TileFacts::all_equal((1, i64::from(i32::MAX)), 1, shape),
        (Core::ClusterRank {}, _) => TileFacts::all_equal((0, i64::from(CLUSTER_SIZES[1]) - 1), 1, shape),
        (Core::Assume { fact, .. }, [x]) => assume_info(fact, x),
        (Core::Broadcast { .. }, [x]) => broadcast_info(x, shape),
        (Core::Reshape { .. }, [x]) => reshape_info(x, shape),
        (Core::Permute { order, .. }, [x]) => {
            TileFacts { axes: order.iter().map(|dim| x.info.axes[*dim as usize]).collect(), ..x.info.clone() }
        }
        (Core::Offset { .. }, [ptr, offset]) => offset_info(ptr, offset),
        (Core::PtrCast { .. } | Core::IntToPtr { .. } | Core::PtrToInt { .. }, [x]) => cast_address_info(x, elem),
        (Core::Select { .. }, [cond, yes, no]) => select_info(cond, yes, no),
        (Core::Compare { kind, .. }, [lhs, rhs]) => compare_info(*kind, lhs, rhs, shape),
        (Core::Convert { kind, .. }, [x]) if is_int => convert_info(*kind, x, elem),
        (Core::Binary { kind, .. }, [lhs, rhs]) if is_int => binary_info(*kind, lhs, rhs, elem, shape),
        (core, operands) if core.is_elementwise() && !operands.is_empty() => with_constancy(operands, unknown()),
        _ => unknown(),
    };
    info.refine(shape)
}

fn constant_info(value: &Dense, scalar: Scalar, shape: &Shape) -> TileFacts {
    match value {
        Dense::Splat(bits) => TileFacts::splat(scalar.sign_extend(*bits), shape),
        Dense::Elements(elements) => {
            let numbers = || elements.iter().map(|bits| scalar.sign_extend(*bits));
            let mut info = TileFacts::unknown(Elem::Scalar(scalar), shape);
            info.range = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
            info.divisor = numbers().map(|number| power_of_two_divisor(number as u64)).min().unwrap_or(MAX_DIVISOR);
            info
        }
    }
}

fn iota_info(shape: &Shape, elem: Elem) -> TileFacts {
    let extent = u64::from(shape[0]);
    let axis = AxisInfo { contiguity: extent, divisibility: MAX_DIVISOR, constancy: 1 };
    let (low, high) = full_range(elem);
    // If the element type has only as many values as the tile has elements, the upper half of them are negative numbers.
    let range = if extent as i64 - 1 <= high { (0, extent as i64 - 1) } else { (low, high) };
    TileFacts { range, divisor: 1, axes: [axis].into_iter().collect() }
}

fn assume_info(fact: &Fact, x: &Operand<'_>) -> TileFacts {
    let mut info = x.info.clone();
    match fact {
        Fact::DivBy { divisor, every: None, .. } => info.divisor = info.divisor.max(*divisor),
        Fact::DivBy { divisor, every: Some(every), along } => {
            let dim = along.map_or(0, |along| along as usize);
            // The lattice describes only groups with power-of-two lengths.
            if let Ok(length) = u64::try_from(*every)
                && length.is_power_of_two()
                && length >= info.axes[dim].contiguity
            {
                let axis = &mut info.axes[dim];
                axis.contiguity = length;
                axis.divisibility = axis.divisibility.max(*divisor);
            }
        }
        Fact::Bounded { low, high } => {
            let (old_low, old_high) = info.range;
            let range = (low.map_or(old_low, |low| low.max(old_low)), high.map_or(old_high, |high| high.min(old_high)));
            // Contradictory bounds can only be in unreachable code, so the old range stays.
            if range.0 <= range.1 {
                info.range = range;
            }
        }
        Fact::SameElements { groups } => {
            for (axis, group) in info.axes.iter_mut().zip(groups) {
                let length = u64::try_from(*group).unwrap_or(1);
                if length.is_power_of_two() {
                    axis.constancy = axis.constancy.max(length);
                }
            }
        }
    }
    info
}

fn broadcast_info(x: &Operand<'_>, shape: &Shape) -> TileFacts {
    if x.shape.is_empty() {
        return TileFacts::all_equal(x.info.range, x.info.divisor, shape);
    }
    let axes = x.info.axes.iter().zip(x.shape).zip(shape).map(|((axis, from), to)| {
        if from == to { *axis } else { AxisInfo { contiguity: 1, divisibility: x.info.divisor, constancy: u64::from(*to) } }
    });
    TileFacts { axes: axes.collect(), ..x.info.clone() }
}

/// The facts about a reshape. The elements keep their row-major order. The function divides the dimensions of both shapes into
/// groups with equal element counts. The fastest-varying dimension of a group keeps the facts along it.
fn reshape_info(x: &Operand<'_>, shape: &Shape) -> TileFacts {
    let mut axes: Vec<AxisInfo> =
        shape.iter().map(|_| AxisInfo { contiguity: 1, divisibility: x.info.divisor, constancy: 1 }).collect();
    let (mut from, mut to) = (x.shape.len(), shape.len());
    while from > 0 && to > 0 {
        let (from_end, to_end) = (from, to);
        from -= 1;
        to -= 1;
        let (mut old, mut new) = (u64::from(x.shape[from]), u64::from(shape[to]));
        while old != new {
            if old < new && from > 0 {
                from -= 1;
                old *= u64::from(x.shape[from]);
            } else if new < old && to > 0 {
                to -= 1;
                new *= u64::from(shape[to]);
            } else {
                break;
            }
        }
        regroup(&x.info.axes[from..from_end], &x.shape[from..from_end], &mut axes[to..to_end], &shape[to..to_end]);
    }
    // Leading dimensions of extent one that are in no group keep the default facts.
    TileFacts { axes: axes.into_iter().collect(), ..x.info.clone() }
}

/// Transfers facts from a group of operand dimensions (`old`) to the group of result dimensions that holds the same elements
/// (`new`). Facts pass between the fastest-varying dimensions of the two groups.
fn regroup(old: &[AxisInfo], old_shape: &[u32], new: &mut [AxisInfo], new_shape: &[u32]) {
    let fastest = |shape: &[u32]| shape.iter().rposition(|extent| *extent > 1);
    let (Some(from), Some(to)) = (fastest(old_shape), fastest(new_shape)) else { return };
    let (axis, extent) = (old[from], u64::from(new_shape[to]));
    let contiguity = axis.contiguity.min(extent);
    new[to] = AxisInfo {
        contiguity,
        divisibility: axis.divisor_at(contiguity, 1).max(new[to].divisibility),
        constancy: axis.constancy.min(extent),
    };
    // Constancy beyond the fastest new dimension carries over to the next dimension.
    let next = new_shape[..to].iter().rposition(|extent| *extent > 1);
    if let Some(next) = next {
        new[next].constancy = (axis.constancy / extent).clamp(1, u64::from(new_shape[next]));
    }
}

/// The facts along a dimension of `lhs + rhs * unit`. Neighbours in a contiguous group of `lhs` or of the result differ by `unit`.
fn sum_axis(lhs: AxisInfo, rhs: AxisInfo, unit: u64) -> AxisInfo {
    let contiguity = lhs.contiguity.min(rhs.constancy).max(lhs.constancy.min(rhs.contiguity));
    let scaled = rhs.divisor_at(contiguity, 1).saturating_mul(unit).min(MAX_DIVISOR);
    AxisInfo { contiguity, divisibility: lhs.divisor_at(contiguity, unit).min(scaled), constancy: lhs.constancy.min(rhs.constancy) }
}

/// The facts about a pointer plus an offset, which counts pointees.
fn offset_info(ptr: &Operand<'_>, offset: &Operand<'_>) -> TileFacts {
    let unit = match ptr.elem {
        Elem::Ptr { pointee, .. } => u64::from(pointee.bytes()),
        Elem::Scalar(_) => 1,
    };
    // Two 4-bit elements share a byte, so their addresses are not one unit apart.
    if matches!(ptr.elem, Elem::Ptr { pointee, .. } if pointee.bits() == 4) {
        return TileFacts::unknown(ptr.elem, ptr.shape);
    }
    let axes = ptr.info.axes.iter().zip(&offset.info.axes).enumerate().map(|(dim, (base, distance))| {
        let contiguity_if_widened = offset.info.contiguity_if_widened(dim, offset.elem);
        let distance = AxisInfo {
            contiguity: contiguity_if_widened,
            divisibility: distance.divisor_at(contiguity_if_widened, 1),
            ..*distance
        };
        sum_axis(*base, distance, unit)
    });
    let scaled = offset.info.divisor.saturating_mul(power_of_two_divisor(unit)).min(MAX_DIVISOR);
    TileFacts { range: ptr.info.range, divisor: ptr.info.divisor.min(scaled), axes: axes.collect() }
}

/// The facts about an address that is cast to another pointee type, or to or from an integer. If the size of the pointee changes,
/// neighbours are no longer one pointee apart.
fn cast_address_info(x: &Operand<'_>, elem: Elem) -> TileFacts {
    let size = |elem: Elem| match elem {
        Elem::Ptr { pointee, .. } => pointee.bytes(),
        Elem::Scalar(_) => 1,
    };
    let same_unit = size(x.elem) == size(elem);
    let axis = |axis: &AxisInfo| if same_unit { *axis } else { AxisInfo { contiguity: 1, divisibility: x.info.divisor, ..*axis } };
    TileFacts { range: (i64::MIN, i64::MAX), divisor: x.info.divisor, axes: x.info.axes.iter().map(axis).collect() }
}

fn select_info(cond: &Operand<'_>, yes: &Operand<'_>, no: &Operand<'_>) -> TileFacts {
    let mut info = yes.info.join(no.info);
    for (axis, cond) in info.axes.iter_mut().zip(&cond.info.axes) {
        let contiguity = axis.contiguity.min(cond.constancy);
        *axis =
            AxisInfo { contiguity, divisibility: axis.divisor_at(contiguity, 1), constancy: axis.constancy.min(cond.constancy) };
    }
    info
}

/// The facts about a comparison. If a group of contiguous integers starts at a multiple of its length, it contains no other
/// multiple. All its integers therefore compare in the same way with any multiple of the length.
fn compare_info(kind: Compare, lhs: &Operand<'_>, rhs: &Operand<'_>, shape: &Shape) -> TileFacts {
    let mut info = TileFacts::unknown(Elem::Scalar(Scalar::I1), shape);
    let Compare::Int { predicate, .. } = kind else { return with_constancy(&[*lhs, *rhs], info) };
    for (dim, axis) in info.axes.iter_mut().enumerate() {
        let (left, right) = (lhs.info.axes[dim], rhs.info.axes[dim]);
        let group_length = |moving: AxisInfo, fixed: AxisInfo| {
            moving.contiguity.min(moving.divisibility).min(fixed.divisibility).min(fixed.constancy)
        };
        let constant_length = match predicate {
            Predicate::LessThan | Predicate::GreaterThanOrEqual => group_length(left, right),
            Predicate::GreaterThan | Predicate::LessThanOrEqual => group_length(right, left),
            _ => 1,
        };
        axis.constancy = left.constancy.min(right.constancy).max(constant_length);
    }
    info
}

/// Adds to `info` the constancy of an element-wise op's result. The analysis knows about the op only that equal operands give equal
/// results.
fn with_constancy(operands: &[Operand<'_>], mut info: TileFacts) -> TileFacts {
    for (dim, axis) in info.axes.iter_mut().enumerate() {
        axis.constancy = operands.iter().map(|operand| operand.info.axes[dim].constancy).min().unwrap_or(1);
    }
    info
}

fn convert_info(kind: Convert, x: &Operand<'_>, elem: Elem) -> TileFacts {
    let unknown = TileFacts::unknown(elem, x.shape);
    if !x.elem.scalar().is_some_and(Scalar::is_int) {
        return with_constancy(&[*x], unknown);
    }
    let mut info = x.info.clone();
    match kind {
        Convert::ExtI { signedness } => {
            if signedness == Signedness::Unsigned && info.range.0 < 0 {
                info.range = (0, x.elem.carrier().mask().min(i64::MAX as u64) as i64);
            }
            for dim in 0..info.axes.len() {
                let contiguity_if_widened = match signedness {
                    Signedness::Signed => x.info.contiguity_if_widened(dim, x.elem),
                    // Only a range with negative numbers can wrap past the highest unsigned number.
                    Signedness::Unsigned if x.info.range.0 >= 0 => x.info.axes[dim].contiguity,
                    Signedness::Unsigned => x.info.axes[dim].contiguity.min(x.info.axes[dim].divisibility),
                };
                let axis = x.info.axes[dim];
                info.axes[dim] =
                    AxisInfo { contiguity: contiguity_if_widened, divisibility: axis.divisor_at(contiguity_if_widened, 1), ..axis };
            }
            info
        }
        Convert::TruncI { .. } => {
            info.range = range_or_full(info.range, elem);
            info
        }
        Convert::Bitcast => info,
        _ => with_constancy(&[*x], unknown),
    }
}

/// Returns the range if the type can hold all its numbers. Otherwise the numbers may wrap, and the result is the type's full range.
fn range_or_full(range: (i64, i64), elem: Elem) -> (i64, i64) {
    let full = full_range(elem);
    if range.0 >= full.0 && range.1 <= full.1 { range } else { full }
}

fn binary_info(kind: Binary, lhs: &Operand<'_>, rhs: &Operand<'_>, elem: Elem, shape: &Shape) -> TileFacts {
    let constancy_only = || with_constancy(&[*lhs, *rhs], TileFacts::unknown(elem, shape));
    match kind {
        Binary::AddI { overflow } => {
            let exact = checked_range(lhs.info.range, rhs.info.range, i64::checked_add);
            let axes = lhs.info.axes.iter().zip(&rhs.info.axes).map(|(l, r)| sum_axis(*l, *r, 1));
            TileFacts {
                range: range_after_overflow(exact, overflow, elem),
                divisor: lhs.info.divisor.min(rhs.info.divisor),
                axes: axes.collect(),
            }
        }
        Binary::SubI { overflow } => {
            let (low, high) = rhs.info.range;
            let negated = low.checked_neg().zip(high.checked_neg()).map(|(low, high)| (high, low));
            let exact = negated.and_then(|range| checked_range(lhs.info.range, range, i64::checked_add));
            // An increasing right operand makes the difference decrease.
            let decreasing = |axis: &AxisInfo| AxisInfo { contiguity: 1, divisibility: axis.divisor_at(1, 1), ..*axis };
            let axes = lhs.info.axes.iter().zip(&rhs.info.axes).map(|(l, r)| sum_axis(*l, decreasing(r), 1));
            TileFacts {
                range: range_after_overflow(exact, overflow, elem),
                divisor: lhs.info.divisor.min(rhs.info.divisor),
                axes: axes.collect(),
            }
        }
        Binary::MulI { overflow } => multiply_info(lhs, rhs, overflow, elem, constancy_only()),
        Binary::ShL { overflow } => match rhs.info.constant() {
            Some(count) if (0..i64::from(elem.bits())).contains(&count) && count < 62 => {
                let factor = TileFacts::splat(1 << count, shape);
                multiply_info(lhs, &Operand { info: &factor, ..*rhs }, overflow, elem, constancy_only())
            }
            _ => constancy_only(),
        },
        Binary::ShR { .. } => match rhs.info.constant() {
            Some(count) if (0..i64::from(elem.bits())).contains(&count) && count < 62 && lhs.info.range.0 >= 0 => {
                divide_info(lhs, 1 << count, constancy_only())
            }
            _ => constancy_only(),
        },
        Binary::DivI { rounding, .. } => match rhs.info.constant() {
            Some(divisor) if divisor > 0 && lhs.info.range.0 >= 0 && rounding != Rounding::PositiveInf => {
                divide_info(lhs, divisor, constancy_only())
            }
            Some(divisor) if divisor > 0 && lhs.info.range.0 >= 0 => {
                let (low, high) = lhs.info.range;
                let divide_up = |x: i64| x / divisor + i64::from(x % divisor != 0);
                TileFacts { range: (divide_up(low), divide_up(high)), ..constancy_only() }
            }
            _ => constancy_only(),
        },
        Binary::RemI { signedness } if signedness == Signedness::Unsigned || lhs.info.range.0 >= 0 => {
            remainder_info(lhs, rhs.info, constancy_only())
        }
        Binary::RemI { .. } => constancy_only(),
        Binary::And => match [(lhs, rhs), (rhs, lhs)].into_iter().find_map(|(x, mask)| Some((x, mask.info.constant()?))) {
            Some((x, mask)) if (0..i64::MAX).contains(&mask) && (mask as u64 + 1).is_power_of_two() && x.info.range.0 >= 0 => {
                remainder_info(x, &TileFacts::splat(mask + 1, shape), constancy_only())
            }
            Some((_, mask)) if mask >= 0 => {
                TileFacts { range: (0, mask), divisor: lhs.info.divisor.max(rhs.info.divisor), ..constancy_only() }
            }
            _ => TileFacts { divisor: lhs.info.divisor.max(rhs.info.divisor), ..constancy_only() },
        },
        Binary::Or | Binary::Xor => TileFacts { divisor: lhs.info.divisor.min(rhs.info.divisor), ..constancy_only() },
        Binary::MaxI { signedness } | Binary::MinI { signedness } => {
            let (l, r) = (lhs.info.range, rhs.info.range);
            let ordered = signedness == Signedness::Signed || l.0 >= 0 && r.0 >= 0;
            let range = match kind {
                Binary::MaxI { .. } => (l.0.max(r.0), l.1.max(r.1)),
                _ => (l.0.min(r.0), l.1.min(r.1)),
            };
            let range = if ordered { range } else { full_range(elem) };
            TileFacts { range, divisor: lhs.info.divisor.min(rhs.info.divisor), ..constancy_only() }
        }
        _ => constancy_only(),
    }
}

/// The range of `f(l, r)` for a function that increases with both arguments: applies `f` to both lower and to both upper bounds.
/// `None` if a result overflows.
fn checked_range(l: (i64, i64), r: (i64, i64), f: impl Fn(i64, i64) -> Option<i64>) -> Option<(i64, i64)> {
    Some((f(l.0, r.0)?, f(l.1, r.1)?))
}

/// The range of a result whose range without wrapping is `exact`. If the op promises that it does not wrap, the range is `exact`,
/// clamped to the type.
fn range_after_overflow(exact: Option<(i64, i64)>, overflow: Overflow, elem: Elem) -> (i64, i64) {
    let full = full_range(elem);
    match exact {
        Some(range) if matches!(overflow, Overflow::NoSignedWrap | Overflow::NoWrap) => {
            let clamped = (range.0.max(full.0), range.1.min(full.1));
            if clamped.0 <= clamped.1 { clamped } else { full }
        }
        Some(range) => range_or_full(range, elem),
        None => full,
    }
}

/// The facts about a product of integers. `constancy_only` has the facts that hold for every elementwise op.
fn multiply_info(lhs: &Operand<'_>, rhs: &Operand<'_>, overflow: Overflow, elem: Elem, constancy_only: TileFacts) -> TileFacts {
    for (x, factor) in [(lhs, rhs), (rhs, lhs)] {
        if factor.info.constant() == Some(1) {
            return x.info.clone();
        }
    }
    let product_range = |(a, b): (i64, i64), (c, d): (i64, i64)| {
        let corners = [a.checked_mul(c)?, a.checked_mul(d)?, b.checked_mul(c)?, b.checked_mul(d)?];
        Some((corners.into_iter().min()?, corners.into_iter().max()?))
    };
    let range = range_after_overflow(product_range(lhs.info.range, rhs.info.range), overflow, elem);
    let product = |l: u64, r: u64| l.saturating_mul(r).min(MAX_DIVISOR);
    let axes = constancy_only.axes.iter().enumerate().map(|(dim, axis)| {
        let (l, r) = (lhs.info.axes[dim].divisor_at(1, 1), rhs.info.axes[dim].divisor_at(1, 1));
        AxisInfo { divisibility: product(l, r), ..*axis }
    });
    TileFacts { range, divisor: product(lhs.info.divisor, rhs.info.divisor), axes: axes.collect() }
}

/// The facts about the quotient of a non-negative number and a positive constant, rounded down.
fn divide_info(x: &Operand<'_>, divisor: i64, constancy_only: TileFacts) -> TileFacts {
    let unsigned_divisor = divisor as u64;
    let mut info = constancy_only;
    info.range = (x.info.range.0 / divisor, x.info.range.1 / divisor);
    if !unsigned_divisor.is_power_of_two() {
        return info;
    }
    info.divisor = if x.info.divisor >= unsigned_divisor { x.info.divisor / unsigned_divisor } else { 1 };
    for (axis, from) in info.axes.iter_mut().zip(&x.info.axes) {
        // If a group starts at a multiple of the divisor, its first `divisor` elements have the same quotient.
        if from.divisibility >= unsigned_divisor {
            axis.constancy = axis.constancy.max(from.contiguity.min(unsigned_divisor));
        }
    }
    info
}

/// The facts about a remainder. The dividend is non-negative, or the op reads it as unsigned.
fn remainder_info(x: &Operand<'_>, divisor: &TileFacts, constancy_only: TileFacts) -> TileFacts {
    let mut info = constancy_only;
    let ((low, high), (divisor_low, divisor_high)) = (x.info.range, divisor.range);
    let max_remainder = [(low >= 0).then_some(high), (divisor_low >= 0).then_some(divisor_high - 1)].into_iter().flatten().min();
    // A divisor that is always zero yields no facts.
    if let Some(max_remainder) = max_remainder.filter(|max_remainder| *max_remainder >= 0) {
        info.range = (0, max_remainder);
    }
    info.divisor = x.info.divisor.min(divisor.divisor);
    for (axis, (from, divisor_axis)) in info.axes.iter_mut().zip(x.info.axes.iter().zip(&divisor.axes)) {
        // A group whose length divides the divisor, and which starts at a multiple of this length, has at most one multiple of the
        // divisor: its first element. The remainder therefore stays contiguous.
        let contiguity = from.contiguity.min(divisor.divisor).min(divisor_axis.constancy);
        if from.divisor_at(contiguity, 1) >= contiguity {
            *axis = AxisInfo {
                contiguity,
                divisibility: from.divisor_at(contiguity, 1).min(divisor.divisor),
                constancy: axis.constancy,
            };
        }
    }
    info
}
