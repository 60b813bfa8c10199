//! Induction variables: positions, pointers and element indices that change by the same amount in every iteration.

use crate::builder::Kind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Rounding, Signedness};
use tileir::{Op, TypeId};

/// Exclusive upper bound of the positions in every loop.
pub(crate) const POSITIONS: i64 = 8;
pub(crate) const POSITION: Scalar = Scalar::I32;

/// First value and step of a loop counter.
pub(crate) struct Counts {
    first: i64,
    step: i64,
}

/// A loop-carried address: pointers or element indices that advance in every iteration.
#[derive(Clone)]
pub(crate) struct Moving {
    pub(crate) elements: Elements,
    pub(crate) value: Value,
    pub(crate) ty: TypeId,
    /// Elements per iteration; negative if the addresses descend.
    pub(crate) by: i64,
}

/// How an access addresses the elements of a tile in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    /// A tile of pointers in the shape of the access.
    Pointers,
    /// A one-dimensional tile of element indices, relative to the start of the memory.
    Numbers,
}

impl Generator {
    pub(crate) fn counts(&mut self) -> Counts {
        match self.random.one_in(2) {
            true => Counts { first: 0, step: 1 },
            false => Counts { first: self.random.pick(&[0, 3, -2]), step: self.random.pick(&[1, 2, 3, 132]) },
        }
    }

    /// Emits the bounds and the step of a loop with the given number of iterations.
    pub(crate) fn counted_loop(&mut self, counts: &Counts, iterations: Value) -> [Value; 3] {
        let number = Kind::new(POSITION, &[]);
        let (first, step) = (self.index_constant(counts.first), self.index_constant(counts.step));
        let end = match counts {
            Counts { first: 0, step: 1 } => iterations,
            _ => {
                let far = self.build.times(&number, iterations, step);
                self.build.plus(&number, first, far)
            }
        };
        [first, end, step]
    }

    /// Computes the number of completed iterations from the loop counter.
    pub(crate) fn iterations_before(&mut self, counts: &Counts, counter: Value) -> Value {
        let number = Kind::new(POSITION, &[]);
        let back = self.index_constant(-counts.first);
        let far = self.build.plus(&number, counter, back);
        if counts.step == 1 {
            return far;
        }
        let (signedness, rounding) = (Signedness::Signed, Rounding::Zero);
        let step = self.index_constant(counts.step);
        self.build.emit(&number, Op::DivI { signedness, rounding, lhs: far, rhs: step })
    }

    /// Emits the initial addresses of a loop-carried access. They advance by `step` elements per position, upwards from `position`
    /// or downwards from the last position.
    pub(crate) fn moving(&mut self, kind: &Kind, base: Value, position: Value, step: i64) -> Moving {
        let (number, flat) = (Kind::new(POSITION, &[]), Kind::new(POSITION, &[kind.count()]));
        let is_descending = self.random.one_in(4);
        let position = if is_descending { self.index_constant(POSITIONS - 1) } else { position };
        let length = self.index_constant(step);
        let far = self.build.times(&number, position, length);
        let (order, far) = (self.any_order(&flat), self.spread(far, &flat));
        let numbers = self.build.plus(&flat, order, far);
        let by = if is_descending { -step } else { step };
        match self.random.one_in(3) {
            true => Moving { elements: Elements::Numbers, value: numbers, ty: self.build.tile(&flat), by },
            false => {
                let offset = self.reshape(numbers, &flat, &kind.shape);
                let value = self.pointers(base, kind.scalar, offset, &kind.shape);
                Moving { elements: Elements::Pointers, value, ty: self.build.pointers(kind.scalar, &kind.shape), by }
            }
        }
    }

    /// Emits the addresses of the next iteration.
    pub(crate) fn moved_on(&mut self, kind: &Kind, moving: &Moving) -> Value {
        let (number, flat) = (Kind::new(POSITION, &[]), Kind::new(POSITION, &[kind.count()]));
        let mut by = self.index_constant(moving.by);
        if self.random.one_in(3) {
            // Tile blocks with a small index advance by fewer elements.
            let lhs = self.index_constant(moving.by.abs());
            let least = self.build.emit(&number, Op::MinI { signedness: Signedness::Signed, lhs, rhs: self.block });
            let sign = self.index_constant(moving.by.signum());
            by = self.build.times(&number, least, sign);
        }
        let all = self.spread(by, &flat);
        match moving.elements {
            Elements::Numbers => self.build.plus(&flat, moving.value, all),
            Elements::Pointers => {
                let offset = self.reshape(all, &flat, &kind.shape);
                self.build.op(Op::Offset { ptr: moving.value, offset }, moving.ty)
            }
        }
    }
}
