//! Induction variables: positions, pointers and element indices that change by the same amount in every iteration. A position
//! counts the completed iterations of a loop, in whatever way the loop counter counts.

use crate::builder::Kind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Rounding, Signedness};
use tileir::{Op, TypeId};

/// Exclusive upper bound of the positions in every loop.
pub(crate) const POSITIONS: i64 = 8;
pub(crate) const POSITION: Scalar = Scalar::I32;

/// The first value and the step of a loop counter.
pub(crate) struct CounterRange {
    first: i64,
    step: i64,
}

/// A loop-carried address: pointers or element indices that advance in every iteration.
#[derive(Clone)]
pub(crate) struct CarriedAddress {
    pub(crate) elements: Elements,
    pub(crate) value: Value,
    pub(crate) ty: TypeId,
    /// Number of elements by which it advances per iteration; negative if the addresses descend.
    pub(crate) elements_per_iteration: i64,
}

/// How an access addresses the elements of a tile in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    /// A tile of pointers in the shape of the access.
    Pointers,
    /// A one-dimensional tile of element indices, relative to the start of the memory.
    Indices,
}

impl Generator {
    pub(crate) fn counter_range(&mut self) -> CounterRange {
        match self.random.one_in(2) {
            true => CounterRange { first: 0, step: 1 },
            false => CounterRange { first: self.random.pick(&[0, 3, -2]), step: self.random.pick(&[1, 2, 3, 132]) },
        }
    }

    /// Emits the bounds and the step of a loop with the given number of iterations.
    pub(crate) fn counted_loop(&mut self, counter_range: &CounterRange, iterations: Value) -> [Value; 3] {
        let number = Kind::new(POSITION, &[]);
        let (first, step) = (self.index_constant(counter_range.first), self.index_constant(counter_range.step));
        let end = match counter_range {
            CounterRange { first: 0, step: 1 } => iterations,
            _ => {
                let distance = self.build.times(&number, iterations, step);
                self.build.plus(&number, first, distance)
            }
        };
        [first, end, step]
    }

    /// Computes the number of completed iterations from the loop counter.
    pub(crate) fn iterations_before(&mut self, counter_range: &CounterRange, counter: Value) -> Value {
        let number = Kind::new(POSITION, &[]);
        let minus_first = self.index_constant(-counter_range.first);
        let distance = self.build.plus(&number, counter, minus_first);
        if counter_range.step == 1 {
            return distance;
        }
        let (signedness, rounding) = (Signedness::Signed, Rounding::Zero);
        let step = self.index_constant(counter_range.step);
        self.build.emit(&number, Op::DivI { signedness, rounding, lhs: distance, rhs: step })
    }

    /// Emits the initial addresses of a loop-carried access. They advance by `step` elements per position: upwards from
    /// `position`, or downwards from the last position.
    pub(crate) fn carried_address(&mut self, kind: &Kind, base: Value, position: Value, step: i64) -> CarriedAddress {
        let (number, flat) = (Kind::new(POSITION, &[]), Kind::new(POSITION, &[kind.count()]));
        let is_descending = self.random.one_in(4);
        let position = if is_descending { self.index_constant(POSITIONS - 1) } else { position };
        let length = self.index_constant(step);
        let distance = self.build.times(&number, position, length);
        let (order, distance) = (self.any_order(&flat), self.spread(distance, &flat));
        let numbers = self.build.plus(&flat, order, distance);
        let elements_per_iteration = if is_descending { -step } else { step };
        match self.random.one_in(3) {
            true => {
                CarriedAddress { elements: Elements::Indices, value: numbers, ty: self.build.tile(&flat), elements_per_iteration }
            }
            false => {
                let offset = self.reshape(numbers, &flat, &kind.shape);
                let value = self.pointers(base, kind.scalar, offset, &kind.shape);
                CarriedAddress {
                    elements: Elements::Pointers,
                    value,
                    ty: self.build.pointers(kind.scalar, &kind.shape),
                    elements_per_iteration,
                }
            }
        }
    }

    /// Emits the addresses of the next iteration.
    pub(crate) fn next_address(&mut self, kind: &Kind, carried_address: &CarriedAddress) -> Value {
        let (number, flat) = (Kind::new(POSITION, &[]), Kind::new(POSITION, &[kind.count()]));
        let mut advance = self.index_constant(carried_address.elements_per_iteration);
        if self.random.one_in(3) {
            // In tile blocks with a small index, the addresses advance by fewer elements.
            let lhs = self.index_constant(carried_address.elements_per_iteration.abs());
            let least = self.build.emit(&number, Op::MinI { signedness: Signedness::Signed, lhs, rhs: self.block });
            let sign = self.index_constant(carried_address.elements_per_iteration.signum());
            advance = self.build.times(&number, least, sign);
        }
        let all = self.spread(advance, &flat);
        match carried_address.elements {
            Elements::Indices => self.build.plus(&flat, carried_address.value, all),
            Elements::Pointers => {
                let offset = self.reshape(all, &flat, &kind.shape);
                self.build.op(Op::Offset { ptr: carried_address.value, offset }, carried_address.ty)
            }
        }
    }
}
