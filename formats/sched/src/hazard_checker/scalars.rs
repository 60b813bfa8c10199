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

/// The value of a scalar in the abstract execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScalarValue {
    /// A known number, as the bits of the scalar.
    Number(u64),
    /// An unknown number. Values with one symbol are equal.
    Symbol(Symbol),
}

impl ScalarValue {
    /// The number, if the value is not a symbol.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            ScalarValue::Number(number) => Some(number),
            ScalarValue::Symbol(_) => None,
        }
    }
}

/// The values of the scalars that an execution has defined so far.
#[derive(Clone)]
pub(super) struct Scalars<'a> {
    function: &'a Function,
    /// The values of loop bounds that give each loop the trip count under test.
    forced_bounds: BTreeMap<Value, u64>,
    /// The values defined so far.
    values: BTreeMap<Value, ScalarValue>,
}

impl<'a> Scalars<'a> {
    pub(super) fn new(function: &'a Function, forced_bounds: BTreeMap<Value, u64>) -> Scalars<'a> {
        Scalars { function, forced_bounds, values: BTreeMap::new() }
    }

    /// The number of a scalar; `None` if the scalar is a symbol or undefined.
    pub(super) fn number_of(&self, value: &Value) -> Option<u64> {
        self.value(value)?.number()
    }

    /// The number or the symbol of a scalar; `None` if the scalar has neither.
    pub(super) fn value(&self, value: &Value) -> Option<ScalarValue> {
        self.values.get(value).copied()
    }

    /// Defines values. A forced bound keeps its number. A value without an entry in `known` becomes unknown.
    pub(super) fn define(&mut self, values: &[Value], known: &[Option<ScalarValue>]) {
        for (i, value) in values.iter().enumerate() {
            match self.forced_bounds.get(value).copied().map(ScalarValue::Number).or(known.get(i).copied().flatten()) {
                Some(known) => _ = self.values.insert(*value, known),
                None => _ = self.values.remove(value),
            }
        }
    }

    /// Returns whether a loop runs another iteration if its counter is `counter` and its upper bound, excluded, is `to`. The value
    /// `like` has the type of the counter.
    pub(super) fn has_next_iteration(&self, like: &Value, unsigned: bool, counter: u64, to: u64) -> bool {
        let scalar = carrier_type(self.function, *like);
        as_number(scalar, unsigned, counter) < as_number(scalar, unsigned, to)
    }
    /// The loop counter in the next iteration, after `counter`. The value `like` has the type of the counter.
    pub(super) fn next_counter(&self, like: &Value, counter: u64, step: u64) -> u64 {
        truncated(carrier_type(self.function, *like), counter.wrapping_add(step))
    }

    /// The kind of an access, where a [`AccessKind::WritesIf`] becomes another kind by the value of its scalar. If the scalar is
    /// unknown, the checker assumes that the access does not read the old content.
    pub(super) fn access_kind(&self, access_kind: AccessKind) -> AccessKind {
        let AccessKind::WritesIf(value) = access_kind else { return access_kind };
        match self.number_of(&value) {
            Some(0) => AccessKind::Changes,
            Some(_) => AccessKind::Writes,
            None => AccessKind::Fills,
        }
    }

    /// The result of an op with one scalar result. `None` if an operand is not a number, or if the checker cannot evaluate the op.
    pub(super) fn result_of(&self, core: &Core, results: &[Value]) -> Option<ScalarValue> {
        if let [result] = results { self.eval(core, *result).map(ScalarValue::Number) } else { None }
    }

    /// The number that an op computes from known operands.
    fn eval(&self, core: &Core, result: Value) -> Option<u64> {
        let Type::Scalar(elem) = self.function.body.ty(result) else { return None };
        let scalar = elem.scalar()?;
        let number_of = |value: &Value| self.number_of(value);
        let carrier_of = |value: &Value| carrier_type(self.function, *value);
        match core {
            Core::Constant { value: Dense::Splat(bits) } => Some(*bits),
            Core::Binary { kind, lhs, rhs } => kind.eval(scalar, number_of(lhs)?, number_of(rhs)?).into(),
            Core::Compare { kind, lhs, rhs } => Some(kind.eval(carrier_of(lhs), number_of(lhs)?, number_of(rhs)?)),
            Core::Select { cond, yes, no } => number_of(if number_of(cond)? != 0 { yes } else { no }),
            Core::Assume { value, .. } => number_of(value),
            _ => None,
        }
    }
}

/// The integer or float type in which the checker evaluates a scalar; for a pointer, the integer type of its address.
pub(super) fn carrier_type(function: &Function, value: Value) -> Scalar {
    function.body.ty(value).elem().map_or(Scalar::I32, |elem| elem.carrier())
}

/// The signed or unsigned number that the bits of a loop counter represent.
pub(super) fn as_number(scalar: Scalar, unsigned: bool, bits: u64) -> i128 {
    if unsigned { i128::from(bits) } else { i128::from(scalar.sign_extend(bits)) }
}

/// The low bits of a number, as many as the type `scalar` has.
pub(super) fn truncated(scalar: Scalar, number: u64) -> u64 {
    number & (u64::MAX >> (64 - scalar.bits().min(64)))
}
