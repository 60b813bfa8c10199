//! The scalars of a function that is played: those that depend on loop counters and constants only.

use crate::Function;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use numerics::Scalar;
use std::collections::BTreeMap;
use tileas::Type;
use tileas::effects::AccessKind;

#[derive(Clone)]
pub(super) struct Scalars<'a> {
    function: &'a Function,
    /// Bounds of loops, so that they run as often as is played.
    forced: BTreeMap<Value, u64>,
    known: BTreeMap<Value, u64>,
}

impl<'a> Scalars<'a> {
    pub(super) fn new(function: &'a Function, forced: BTreeMap<Value, u64>) -> Scalars<'a> {
        Scalars { function, forced, known: BTreeMap::new() }
    }

    pub(super) fn get(&self, value: &Value) -> Option<u64> {
        self.known.get(value).copied()
    }

    pub(super) fn define(&mut self, values: &[Value], known: &[Option<u64>]) {
        for (i, value) in values.iter().enumerate() {
            match self.forced.get(value).copied().or(known.get(i).copied().flatten()) {
                Some(known) => _ = self.known.insert(*value, known),
                None => _ = self.known.remove(value),
            }
        }
    }

    /// Whether a loop whose counter is like a value goes iteration once more.
    pub(super) fn goes_on(&self, like: &Value, unsigned: bool, at: u64, to: u64) -> bool {
        let scalar = carrier(self.function, *like);
        order(scalar, unsigned, at) < order(scalar, unsigned, to)
    }
    /// A loop's counter in the next iteration.
    pub(super) fn next(&self, like: &Value, at: u64, step: u64) -> u64 {
        cut(carrier(self.function, *like), at.wrapping_add(step))
    }

    /// What an access does that depends on a scalar. If that is not known, what was there before need not matter.
    pub(super) fn access_kind(&self, access_kind: AccessKind) -> AccessKind {
        let AccessKind::WritesIf(value) = access_kind else { return access_kind };
        match self.get(&value) {
            Some(0) => AccessKind::Changes,
            Some(_) => AccessKind::Writes,
            None => AccessKind::Fills,
        }
    }

    pub(super) fn compute(&mut self, core: &Core, results: &[Value]) {
        let known = if let [result] = results { self.eval(core, *result) } else { None };
        self.define(results, &[known]);
    }

    fn eval(&self, core: &Core, result: Value) -> Option<u64> {
        let Type::Scalar(elem) = self.function.body.ty(result) else { return None };
        let scalar = elem.scalar()?;
        let get = |value: &Value| self.get(value);
        let of = |value: &Value| carrier(self.function, *value);
        match core {
            Core::Constant { value: Dense::Splat(bits) } => Some(*bits),
            Core::Binary { kind, lhs, rhs } => kind.eval(scalar, get(lhs)?, get(rhs)?).into(),
            Core::Compare { kind, lhs, rhs } => Some(kind.eval(of(lhs), get(lhs)?, get(rhs)?)),
            Core::Select { cond, yes, no } => get(if get(cond)? != 0 { yes } else { no }),
            Core::Assume { value, .. } => get(value),
            _ => None,
        }
    }
}

/// The type in which a scalar is computed.
pub(super) fn carrier(function: &Function, value: Value) -> Scalar {
    function.body.ty(value).elem().map_or(Scalar::I32, |elem| elem.carrier())
}

/// The number that the bits of a loop's counter stand for.
pub(super) fn order(scalar: Scalar, unsigned: bool, bits: u64) -> i128 {
    if unsigned { i128::from(bits) } else { i128::from(scalar.sign_extend(bits)) }
}

/// The bits that a counter has.
pub(super) fn cut(scalar: Scalar, number: u64) -> u64 {
    number & (u64::MAX >> (64 - scalar.bits().min(64)))
}
