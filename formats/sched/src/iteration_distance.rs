//! Iteration distance: whether two iterations of a loop access disjoint elements or the same elements. If in addition one thread
//! accesses an element in all iterations, accesses of different iterations need no synchronisation.
//!
//! The analysis follows an address to its sources. The distance between iterations is known if the address is a constant times the
//! loop counter, or a loop-carried value that grows by a constant. The distance between elements of a tile is known if an `iota`
//! numbers them. Arithmetic that may wrap gives no distance, unless it has the width of an address.

use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::LoopEnds;
use core_dialect::structured_ops::{LoopBounds, LoopOp};
use core_dialect::tile::{Dense, Elem};
use numerics::arith::{Binary, Convert, Overflow, Signedness};
use std::collections::BTreeSet;
use tileas::Type;

/// Maximum length of a chain of ops that the analysis follows, to limit its time.
const MAX_FOLLOWED: u32 = 64;
/// Bits of an address.
const ADDRESS_BITS: u32 = 64;

/// A loop, and the values that it computes anew in every iteration.
#[derive(Clone, Debug)]
pub struct IterationDistance {
    loop_op: OpId,
    /// The values that the loop's body computes.
    computed: BTreeSet<Value>,
    /// The operands of each `continue` of the loop: the loop-carried values of the next iteration.
    continued: Vec<Vec<Value>>,
}

/// The elements of a tile of numbers or byte addresses, relative to an unknown base. They lie between `min_offset` and `max_offset`
/// in the first iteration, and increase by `per_iteration` in each further iteration.
#[derive(Clone, Copy)]
struct OffsetRange {
    /// The increase of every element per iteration.
    per_iteration: i64,
    /// The lowest element in the first iteration, relative to the base.
    min_offset: i64,
    /// The highest element in the first iteration, relative to the base.
    max_offset: i64,
}

impl OffsetRange {
    /// The range of a single value that is the same in all iterations: all three numbers are 0.
    const ZERO: OffsetRange = OffsetRange { per_iteration: 0, min_offset: 0, max_offset: 0 };

    /// The range of the sum of two tiles; `None` on overflow.
    fn plus(self, other: OffsetRange) -> Option<OffsetRange> {
        Some(OffsetRange {
            per_iteration: self.per_iteration.checked_add(other.per_iteration)?,
            min_offset: self.min_offset.checked_add(other.min_offset)?,
            max_offset: self.max_offset.checked_add(other.max_offset)?,
        })
    }

    /// The range of a tile multiplied by a constant; `None` on overflow.
    fn times(self, factor: i64) -> Option<OffsetRange> {
        let (one, other) = (self.min_offset.checked_mul(factor)?, self.max_offset.checked_mul(factor)?);
        Some(OffsetRange {
            per_iteration: self.per_iteration.checked_mul(factor)?,
            min_offset: one.min(other),
            max_offset: one.max(other),
        })
    }
}

impl IterationDistance {
    /// Finds the values that a loop computes in every iteration.
    pub fn analyse(function: &Function, loop_op: OpId) -> IterationDistance {
        let body = &function.body;
        let regions = body.ops[loop_op].kind.regions();
        let args = |op: OpId| {
            let blocks = body.ops[op].kind.regions().into_iter().map(|region| body.block_of(region));
            blocks.flat_map(|block| body.blocks[block].args.iter().copied()).collect::<Vec<_>>()
        };
        let inner = regions.iter().flat_map(|region| body.walk(*region));
        let inner_values = inner.flat_map(|op| body.ops[op].results.iter().copied().chain(args(op)).collect::<Vec<_>>());
        let continued =
            regions.iter().flat_map(|region| LoopEnds::find(&function.body, *region).continue_values).map(<[Value]>::to_vec);
        IterationDistance {
            loop_op,
            computed: args(loop_op).into_iter().chain(inner_values).collect(),
            continued: continued.collect(),
        }
    }

    /// Returns whether any two iterations access the same elements, or disjoint elements. Two tiles of a partition view are the
    /// same or disjoint. Pointers are disjoint if they advance by at least their extent in each iteration.
    pub fn accesses_same_or_disjoint_elements(&self, function: &Function, base: Value, index: &[Value]) -> bool {
        let is_same = |value: &Value| !self.computed.contains(value);
        let is_partition =
            matches!(function.body.ty(base), Type::View(view) if view.kind == core_dialect::tile::ViewKind::Partition);
        let same_view = is_same(&base) && (is_partition || index.iter().all(is_same));
        same_view || index.is_empty() && self.are_pointers_disjoint(function, base)
    }

    /// Whether the addresses of one iteration are disjoint from those of all other iterations.
    fn are_pointers_disjoint(&self, function: &Function, pointers: Value) -> bool {
        let Some(Elem::Ptr { pointee, .. }) = function.body.ty(pointers).elem() else { return false };
        self.range_of(function, pointers, None, MAX_FOLLOWED).is_some_and(
            |OffsetRange { per_iteration, min_offset, max_offset }| {
                let extent = max_offset.checked_sub(min_offset).and_then(|extent| extent.checked_add(i64::from(pointee.bytes())));
                extent.is_some_and(|extent| per_iteration.checked_abs().is_some_and(|distance| distance >= extent))
            },
        )
    }

    /// The range of a value; `None` if the analysis cannot determine it. `extended` is the extension that later widens the value to
    /// the width of an address, if any. `left_to_follow` is the number of further ops that the analysis may follow.
    fn range_of(
        &self,
        function: &Function,
        value: Value,
        extended: Option<Signedness>,
        left_to_follow: u32,
    ) -> Option<OffsetRange> {
        let body = &function.body;
        let left_to_follow = left_to_follow.checked_sub(1)?;
        let ty = body.ty(value);
        let elements = i64::try_from(core_dialect::tile::element_count(ty.shape())).ok()?;
        if elements == 1 && !self.computed.contains(&value) {
            return Some(OffsetRange::ZERO);
        }
        let Some(op) = body.defining_op(value) else { return self.argument_range(function, value, extended, left_to_follow) };
        let range = |value: Value| self.range_of(function, value, extended, left_to_follow);
        match body.ops[op].kind.core() {
            Some(Core::Constant { value: Dense::Splat(_) }) => Some(OffsetRange::ZERO),
            Some(Core::Iota {}) => Some(OffsetRange { per_iteration: 0, min_offset: 0, max_offset: elements - 1 }),
            Some(Core::Broadcast { x } | Core::Reshape { x } | Core::PtrCast { x }) => range(*x),
            Some(Core::Assume { value, .. }) => range(*value),
            Some(Core::Convert { kind: Convert::ExtI { signedness }, x }) => {
                self.range_of(function, *x, Some(*signedness), left_to_follow)
            }
            Some(Core::Binary { kind, lhs, rhs }) => {
                let (lhs, rhs, may_wrap) = (*lhs, *rhs, |overflow| may_wrap(ty, overflow, extended));
                match kind {
                    Binary::AddI { overflow } if !may_wrap(*overflow) => range(lhs)?.plus(range(rhs)?),
                    Binary::SubI { overflow } if !may_wrap(*overflow) => range(lhs)?.plus(range(rhs)?.times(-1)?),
                    Binary::MulI { overflow } if !may_wrap(*overflow) => {
                        match (uniform_constant(function, lhs, extended), uniform_constant(function, rhs, extended)) {
                            (_, Some(factor)) => range(lhs)?.times(factor),
                            (Some(factor), _) => range(rhs)?.times(factor),
                            (None, None) => None,
                        }
                    }
                    _ => None,
                }
            }
            Some(Core::Offset { ptr, offset }) => {
                let Elem::Ptr { pointee, .. } = ty.elem()? else { return None };
                let offset = self.range_of(function, *offset, Some(Signedness::Signed), left_to_follow)?;
                range(*ptr)?.plus(offset.times(i64::from(pointee.bytes()))?)
            }
            _ => match &body.ops[op].kind {
                Op::Core(tileas::Op::ConvertLayout { x, .. }) => range(*x),
                _ => None,
            },
        }
    }

    /// The range of the loop counter or of a loop-carried value of this loop. `None` if its increase per iteration is unknown.
    fn argument_range(
        &self,
        function: &Function,
        value: Value,
        extended: Option<Signedness>,
        left_to_follow: u32,
    ) -> Option<OffsetRange> {
        let body = &function.body;
        let LoopOp { bounds, init, body: region } = body.ops[self.loop_op].kind.core().and_then(Core::as_loop)?;
        let LoopBounds { step, unsigned, .. } = bounds?;
        let at = body.blocks[body.block_of(region)].args.iter().position(|arg| *arg == value)?;
        let Some(carried_index) = at.checked_sub(1) else {
            let counter_signedness = if unsigned { Signedness::Unsigned } else { Signedness::Signed };
            let is_exact = extended.is_none_or(|extended| extended == counter_signedness);
            return is_exact
                .then(|| uniform_constant(function, step, extended))
                .flatten()
                .map(|per_iteration| OffsetRange { per_iteration, ..OffsetRange::ZERO });
        };
        let mut per_iteration = None;
        for values in &self.continued {
            let difference = constant_difference(function, *values.get(carried_index)?, value, extended, left_to_follow)?;
            if *per_iteration.get_or_insert(difference) != difference {
                return None;
            }
        }
        Some(OffsetRange {
            per_iteration: per_iteration?,
            ..self.range_of(function, *init.get(carried_index)?, extended, left_to_follow)?
        })
    }
}

/// The difference `value - reference`; `None` if it is not a known constant. `extended` is as in [`IterationDistance::range_of`].
fn constant_difference(
    function: &Function,
    value: Value,
    reference: Value,
    extended: Option<Signedness>,
    left_to_follow: u32,
) -> Option<i64> {
    let (body, left_to_follow) = (&function.body, left_to_follow.checked_sub(1)?);
    if value == reference {
        return Some(0);
    }
    let (op, ty) = (body.defining_op(value)?, body.ty(value));
    let difference = |value: Value| constant_difference(function, value, reference, extended, left_to_follow);
    match body.ops[op].kind.core() {
        Some(Core::Binary { kind: Binary::AddI { overflow }, lhs, rhs }) if !may_wrap(ty, *overflow, extended) => {
            match (uniform_constant(function, *lhs, extended), uniform_constant(function, *rhs, extended)) {
                (_, Some(constant)) => difference(*lhs)?.checked_add(constant),
                (Some(constant), _) => difference(*rhs)?.checked_add(constant),
                (None, None) => None,
            }
        }
        Some(Core::Offset { ptr, offset }) => {
            let Elem::Ptr { pointee, .. } = ty.elem()? else { return None };
            let offset = uniform_constant(function, *offset, Some(Signedness::Signed))?;
            difference(*ptr)?.checked_add(offset.checked_mul(i64::from(pointee.bytes()))?)
        }
        _ => match &body.ops[op].kind {
            Op::Core(tileas::Op::ConvertLayout { x, .. }) => difference(*x),
            _ => None,
        },
    }
}

/// Returns whether arithmetic with these overflow flags may wrap, so that the extended result differs from exact arithmetic.
/// Address arithmetic of 64 bits counts as exact.
fn may_wrap(ty: &Type, overflow: Overflow, extended: Option<Signedness>) -> bool {
    let is_address = ty.elem().is_some_and(|elem| elem.bits() == ADDRESS_BITS);
    let is_exact = match extended {
        Some(Signedness::Signed) => matches!(overflow, Overflow::NoWrap | Overflow::NoSignedWrap),
        Some(Signedness::Unsigned) => matches!(overflow, Overflow::NoWrap | Overflow::NoUnsignedWrap),
        None => false,
    };
    !is_address && !is_exact
}

/// The constant that all elements of a value have. `None` if the value is not such a constant, or not exact after the extension
/// `extended`.
fn uniform_constant(function: &Function, value: Value, extended: Option<Signedness>) -> Option<i64> {
    let (body, mut value) = (&function.body, value);
    for _ in 0..MAX_FOLLOWED {
        let kind = &body.ops[body.defining_op(value)?].kind;
        value = match kind.core() {
            Some(Core::Constant { value: Dense::Splat(bits) }) => {
                let number = body.ty(value).elem()?.scalar()?.sign_extend(*bits);
                return (number >= 0 || extended != Some(Signedness::Unsigned)).then_some(number);
            }
            Some(Core::Broadcast { x } | Core::Reshape { x }) => *x,
            Some(Core::Assume { value, .. }) => *value,
            Some(Core::Convert { kind: Convert::ExtI { signedness }, x }) if Some(*signedness) == extended => *x,
            _ => match kind {
                Op::Core(tileas::Op::ConvertLayout { x, .. }) => *x,
                _ => return None,
            },
        };
    }
    None
}
