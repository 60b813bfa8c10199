//! Iteration distance: whether an access of a loop is to other elements in each iteration, or to the same ones. If one thread owns
//! each element in both iterations, neither waits for the other.
//!
//! The analysis follows an address to its sources. The distance between iterations is known if the address is a constant times the
//! loop counter, or a loop-carried value that grows by a constant. The distance between elements of a tile is known if an `iota`
//! numbers them. Arithmetic that may wrap gives no distance, unless it has the width of an address.

use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::LoopEnds;
use core_dialect::tile::{Dense, Elem};
use numerics::arith::{Binary, Convert, Overflow, Signedness};
use std::collections::BTreeSet;
use tileas::Type;

/// Limit on the chain of ops that the analysis follows.
const FAR: u32 = 64;
/// Bits of an address.
const ADDRESS: u32 = 64;

/// A loop, and the values that it computes in every iteration.
#[derive(Clone, Debug)]
pub struct IterationDistance {
    for_op: OpId,
    computed: BTreeSet<Value>,
    /// The values of each `continue`.
    continued: Vec<Vec<Value>>,
}

/// The range of a tile of numbers or byte addresses. It grows by `iteration` per iteration; relative to a common base, its elements
/// are from `least` to `most`.
#[derive(Clone, Copy)]
struct Steps {
    iteration: i64,
    least: i64,
    most: i64,
}

impl Steps {
    const NONE: Steps = Steps { iteration: 0, least: 0, most: 0 };

    fn plus(self, other: Steps) -> Option<Steps> {
        Some(Steps {
            iteration: self.iteration.checked_add(other.iteration)?,
            least: self.least.checked_add(other.least)?,
            most: self.most.checked_add(other.most)?,
        })
    }

    fn times(self, factor: i64) -> Option<Steps> {
        let (one, other) = (self.least.checked_mul(factor)?, self.most.checked_mul(factor)?);
        Some(Steps { iteration: self.iteration.checked_mul(factor)?, least: one.min(other), most: one.max(other) })
    }
}

impl IterationDistance {
    pub fn of(function: &Function, for_op: OpId) -> IterationDistance {
        let body = &function.body;
        let regions = body.ops[for_op].kind.regions();
        let args = |op: OpId| {
            let blocks = body.ops[op].kind.regions().into_iter().map(|region| body.block_of(region));
            blocks.flat_map(|block| body.blocks[block].args.iter().copied()).collect::<Vec<_>>()
        };
        let inner = regions.iter().flat_map(|region| body.walk(*region));
        let inner = inner.flat_map(|op| body.ops[op].results.iter().copied().chain(args(op)).collect::<Vec<_>>());
        let continued = regions.iter().flat_map(|region| LoopEnds::of(&function.body, *region).continued).map(<[Value]>::to_vec);
        IterationDistance { for_op, computed: args(for_op).into_iter().chain(inner).collect(), continued: continued.collect() }
    }

    /// Returns whether an access is to the same place in all iterations, or to disjoint elements. Disjoint are partitions of a
    /// view, and pointers whose distance is at least their extent.
    pub fn are_apart(&self, function: &Function, base: Value, index: &[Value]) -> bool {
        let is_same = |value: &Value| !self.computed.contains(value);
        let is_partition =
            matches!(function.body.ty(base), Type::View(view) if view.kind == core_dialect::tile::ViewKind::Partition);
        let same_view = is_same(&base) && (is_partition || index.iter().all(is_same));
        same_view || index.is_empty() && self.pointers_are_apart(function, base)
    }

    fn pointers_are_apart(&self, function: &Function, pointers: Value) -> bool {
        let Some(Elem::Ptr { pointee, .. }) = function.body.ty(pointers).elem() else { return false };
        self.steps(function, pointers, None, FAR).is_some_and(|Steps { iteration, least, most }| {
            let reach = most.checked_sub(least).and_then(|reach| reach.checked_add(i64::from(pointee.bytes())));
            reach.is_some_and(|reach| iteration.checked_abs().is_some_and(|iteration| iteration >= reach))
        })
    }

    /// How a value changes between iterations and elements; `extended` is the extension of a narrower value to an address.
    fn steps(&self, function: &Function, value: Value, extended: Option<Signedness>, far: u32) -> Option<Steps> {
        let body = &function.body;
        let far = far.checked_sub(1)?;
        let ty = body.ty(value);
        let count = i64::try_from(core_dialect::tile::element_count(ty.shape())).ok()?;
        if count == 1 && !self.computed.contains(&value) {
            return Some(Steps::NONE);
        }
        let Some(op) = body.defining_op(value) else { return self.argument_steps(function, value, extended, far) };
        let steps = |value: Value| self.steps(function, value, extended, far);
        match body.ops[op].kind.core() {
            Some(Core::Constant { value: Dense::Splat(_) }) => Some(Steps::NONE),
            Some(Core::Iota {}) => Some(Steps { iteration: 0, least: 0, most: count - 1 }),
            Some(Core::Broadcast { x } | Core::Reshape { x } | Core::PtrCast { x }) => steps(*x),
            Some(Core::Assume { value, .. }) => steps(*value),
            Some(Core::Convert { kind: Convert::ExtI { signedness }, x }) => self.steps(function, *x, Some(*signedness), far),
            Some(Core::Binary { kind, lhs, rhs }) => {
                let (lhs, rhs, wraps) = (*lhs, *rhs, |overflow| wraps(ty, overflow, extended));
                match kind {
                    Binary::AddI { overflow } if !wraps(*overflow) => steps(lhs)?.plus(steps(rhs)?),
                    Binary::SubI { overflow } if !wraps(*overflow) => steps(lhs)?.plus(steps(rhs)?.times(-1)?),
                    Binary::MulI { overflow } if !wraps(*overflow) => {
                        match (number(function, lhs, extended), number(function, rhs, extended)) {
                            (_, Some(factor)) => steps(lhs)?.times(factor),
                            (Some(factor), _) => steps(rhs)?.times(factor),
                            (None, None) => None,
                        }
                    }
                    _ => None,
                }
            }
            Some(Core::Offset { ptr, offset }) => {
                let Elem::Ptr { pointee, .. } = ty.elem()? else { return None };
                let offset = self.steps(function, *offset, Some(Signedness::Signed), far)?;
                steps(*ptr)?.plus(offset.times(i64::from(pointee.bytes()))?)
            }
            _ => match &body.ops[op].kind {
                Op::Core(tileas::Op::ConvertLayout { x, .. }) => steps(*x),
                _ => None,
            },
        }
    }

    /// The steps of the loop counter and of loop-carried values.
    fn argument_steps(&self, function: &Function, value: Value, extended: Option<Signedness>, far: u32) -> Option<Steps> {
        let body = &function.body;
        let Some(Core::For { step, init, unsigned, body: region, .. }) = body.ops[self.for_op].kind.core() else { return None };
        let at = body.blocks[body.block_of(*region)].args.iter().position(|arg| *arg == value)?;
        let Some(carried) = at.checked_sub(1) else {
            let counted = if *unsigned { Signedness::Unsigned } else { Signedness::Signed };
            let is_exact = extended.is_none_or(|extended| extended == counted);
            return is_exact
                .then(|| number(function, *step, extended))
                .flatten()
                .map(|iteration| Steps { iteration, ..Steps::NONE });
        };
        let mut iteration = None;
        for values in &self.continued {
            let further = further(function, *values.get(carried)?, value, extended, far)?;
            if *iteration.get_or_insert(further) != further {
                return None;
            }
        }
        Some(Steps { iteration: iteration?, ..self.steps(function, *init.get(carried)?, extended, far)? })
    }
}

/// The difference of two values, if it is a constant.
fn further(function: &Function, value: Value, than: Value, extended: Option<Signedness>, far: u32) -> Option<i64> {
    let (body, far) = (&function.body, far.checked_sub(1)?);
    if value == than {
        return Some(0);
    }
    let (op, ty) = (body.defining_op(value)?, body.ty(value));
    let further = |value: Value| further(function, value, than, extended, far);
    match body.ops[op].kind.core() {
        Some(Core::Binary { kind: Binary::AddI { overflow }, lhs, rhs }) if !wraps(ty, *overflow, extended) => {
            match (number(function, *lhs, extended), number(function, *rhs, extended)) {
                (_, Some(number)) => further(*lhs)?.checked_add(number),
                (Some(number), _) => further(*rhs)?.checked_add(number),
                (None, None) => None,
            }
        }
        Some(Core::Offset { ptr, offset }) => {
            let Elem::Ptr { pointee, .. } = ty.elem()? else { return None };
            let offset = number(function, *offset, Some(Signedness::Signed))?;
            further(*ptr)?.checked_add(offset.checked_mul(i64::from(pointee.bytes()))?)
        }
        _ => match &body.ops[op].kind {
            Op::Core(tileas::Op::ConvertLayout { x, .. }) => further(*x),
            _ => None,
        },
    }
}

/// Returns whether arithmetic may wrap before the extension.
fn wraps(ty: &Type, overflow: Overflow, extended: Option<Signedness>) -> bool {
    let is_address = ty.elem().is_some_and(|elem| elem.bits() == ADDRESS);
    let is_exact = match extended {
        Some(Signedness::Signed) => matches!(overflow, Overflow::NoWrap | Overflow::NoSignedWrap),
        Some(Signedness::Unsigned) => matches!(overflow, Overflow::NoWrap | Overflow::NoUnsignedWrap),
        None => false,
    };
    !is_address && !is_exact
}

/// A constant that all elements have.
fn number(function: &Function, value: Value, extended: Option<Signedness>) -> Option<i64> {
    let (body, mut value) = (&function.body, value);
    for _ in 0..FAR {
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
