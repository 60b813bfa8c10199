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
    /// Loop bounds that give each loop the trip count under test.
    forced_bounds: BTreeMap<Value, u64>,
    /// The values defined so far.
    values: BTreeMap<Value, ScalarValue>,
}

impl<'a> Scalars<'a> {
    pub(super) fn new(function: &'a Function, forced_bounds: BTreeMap<Value, u64>) -> Scalars<'a> {
        Scalars { function, forced_bounds, values: BTreeMap::new() }
    }

    /// The number of a scalar, if it is known.
    pub(super) fn number_of(&self, value: &Value) -> Option<u64> {
        self.value(value)?.number()
    }

    /// The number or the symbol of a scalar.
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

    /// Returns whether a loop with the counter `at` and the upper bound `to` runs another iteration. `like` has the type of the
    /// counter.
    pub(super) fn has_next_iteration(&self, like: &Value, unsigned: bool, at: u64, to: u64) -> bool {
        let scalar = carrier_type(self.function, *like);
        as_number(scalar, unsigned, at) < as_number(scalar, unsigned, to)
    }
    /// The loop counter in the next iteration.
    pub(super) fn next_counter(&self, like: &Value, at: u64, step: u64) -> u64 {
        truncated(carrier_type(self.function, *like), at.wrapping_add(step))
    }

    /// The kind of an access, after evaluation of the scalar that [`AccessKind::WritesIf`] names. If the scalar is unknown, the
    /// checker assumes that the access does not read the old content.
    pub(super) fn access_kind(&self, access_kind: AccessKind) -> AccessKind {
        let AccessKind::WritesIf(value) = access_kind else { return access_kind };
        match self.number_of(&value) {
            Some(0) => AccessKind::Changes,
            Some(_) => AccessKind::Writes,
            None => AccessKind::Fills,
        }
    }

    /// The result of an op, if its operands are numbers.
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

/// The type in which a scalar is evaluated.
pub(super) fn carrier_type(function: &Function, value: Value) -> Scalar {
    function.body.ty(value).elem().map_or(Scalar::I32, |elem| elem.carrier())
}

/// The signed or unsigned number that the bits of a loop counter represent.
pub(super) fn as_number(scalar: Scalar, unsigned: bool, bits: u64) -> i128 {
    if unsigned { i128::from(bits) } else { i128::from(scalar.sign_extend(bits)) }
}

/// A number truncated to the bits of a counter.
pub(super) fn truncated(scalar: Scalar, number: u64) -> u64 {
    number & (u64::MAX >> (64 - scalar.bits().min(64)))
}
