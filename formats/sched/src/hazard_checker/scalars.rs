//! The scalar values of an abstract execution: numbers that depend on loop counters and constants alone, and symbols for
//! everything else ([`super::symbols`]).

use super::symbols::Symbol;
use crate::Function;
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use numerics::Scalar;
use std::collections::BTreeMap;
use tileas::Type;
use tileas::effects::AccessKind;

/// What the abstract execution knows of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    Number(u64),
    /// An unknown number. Values with one symbol are equal.
    Symbol(Symbol),
}

impl Known {
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Known::Number(number) => Some(number),
            Known::Symbol(_) => None,
        }
    }
}

#[derive(Clone)]
pub(super) struct Scalars<'a> {
    function: &'a Function,
    /// Loop bounds that give each loop the trip count under test.
    forced: BTreeMap<Value, u64>,
    known: BTreeMap<Value, Known>,
}

impl<'a> Scalars<'a> {
    pub(super) fn new(function: &'a Function, forced: BTreeMap<Value, u64>) -> Scalars<'a> {
        Scalars { function, forced, known: BTreeMap::new() }
    }

    /// The number of a scalar, if it is known.
    pub(super) fn get(&self, value: &Value) -> Option<u64> {
        self.known(value)?.number()
    }

    /// The number or the symbol of a scalar.
    pub(super) fn known(&self, value: &Value) -> Option<Known> {
        self.known.get(value).copied()
    }

    pub(super) fn define(&mut self, values: &[Value], known: &[Option<Known>]) {
        for (i, value) in values.iter().enumerate() {
            match self.forced.get(value).copied().map(Known::Number).or(known.get(i).copied().flatten()) {
                Some(known) => _ = self.known.insert(*value, known),
                None => _ = self.known.remove(value),
            }
        }
    }

    /// Returns whether a loop runs another iteration; `like` has the type of its counter.
    pub(super) fn has_next_iteration(&self, like: &Value, unsigned: bool, at: u64, to: u64) -> bool {
        let scalar = carrier(self.function, *like);
        as_number(scalar, unsigned, at) < as_number(scalar, unsigned, to)
    }
    /// The loop counter in the next iteration.
    pub(super) fn next(&self, like: &Value, at: u64, step: u64) -> u64 {
        truncated(carrier(self.function, *like), at.wrapping_add(step))
    }

    /// The kind of an access, after evaluation of the scalar that [`AccessKind::WritesIf`] names. If the scalar is unknown, the
    /// checker assumes that the access does not read the old content.
    pub(super) fn access_kind(&self, access_kind: AccessKind) -> AccessKind {
        let AccessKind::WritesIf(value) = access_kind else { return access_kind };
        match self.get(&value) {
            Some(0) => AccessKind::Changes,
            Some(_) => AccessKind::Writes,
            None => AccessKind::Fills,
        }
    }

    /// The result of an op, if its operands are numbers.
    pub(super) fn compute(&self, core: &Core, results: &[Value]) -> Option<Known> {
        if let [result] = results { self.eval(core, *result).map(Known::Number) } else { None }
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

/// The type in which a scalar is evaluated.
pub(super) fn carrier(function: &Function, value: Value) -> Scalar {
    function.body.ty(value).elem().map_or(Scalar::I32, |elem| elem.carrier())
}

/// The number that the bits of a loop counter represent.
pub(super) fn as_number(scalar: Scalar, unsigned: bool, bits: u64) -> i128 {
    if unsigned { i128::from(bits) } else { i128::from(scalar.sign_extend(bits)) }
}

/// A number truncated to the bits of a counter.
pub(super) fn truncated(scalar: Scalar, number: u64) -> u64 {
    number & (u64::MAX >> (64 - scalar.bits().min(64)))
}
