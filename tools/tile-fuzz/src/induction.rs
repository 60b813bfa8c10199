//! Generators of induction variables: positions, pointers and element indices that change by the same amount in every iteration. A
//! position is the number of completed iterations of a loop, independent of the first value and the step of the loop counter.

use crate::builder::TileKind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Rounding, Signedness};
use tileir::{Op, TypeId};

/// Exclusive upper bound of the positions in every loop.
pub(crate) const POSITIONS: i64 = 8;
/// Element type of positions and of loop counters.
pub(crate) const POSITION_TYPE: Scalar = Scalar::I32;

/// The first value and the step of a loop counter.
pub(crate) struct CounterRange {
    first: i64,
    step: i64,
}

/// A loop-carried address: a tile of pointers or of element indices that advance in every iteration.
#[derive(Clone)]
pub(crate) struct CarriedAddress {
    pub(crate) form: AddressForm,
    pub(crate) value: Value,
    pub(crate) ty: TypeId,
    /// Number of elements by which the address advances per iteration; negative if the addresses descend.
    pub(crate) elements_per_iteration: i64,
}

/// How an access addresses the elements of a tile in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// A tile of pointers in the shape of the access.
    Pointers,
    /// A one-dimensional tile of element indices, relative to the start of the memory.
    Indices,
}

impl Generator {
    /// Chooses how a loop counts: from 0 by 1, or from another value by a larger step.
    pub(crate) fn counter_range(&mut self) -> CounterRange {
        match self.random.one_in(2) {
            true => CounterRange { first: 0, step: 1 },
            false => CounterRange { first: self.random.pick(&[0, 3, -2]), step: self.random.pick(&[1, 2, 3, 132]) },
        }
    }

    /// Emits the lower bound, the upper bound and the step of a loop with the given number of iterations.
    pub(crate) fn counted_loop(&mut self, counter_range: &CounterRange, iterations: Value) -> [Value; 3] {
        let scalar_kind = TileKind::new(POSITION_TYPE, &[]);
        let (first, step) = (self.index_constant(counter_range.first), self.index_constant(counter_range.step));
        let end = match counter_range {
            CounterRange { first: 0, step: 1 } => iterations,
            _ => {
                let distance = self.builder.emit_mul(&scalar_kind, iterations, step);
                self.builder.emit_add(&scalar_kind, first, distance)
            }
        };
        [first, end, step]
    }

    /// Emits the number of completed iterations, computed from the loop counter.
    pub(crate) fn iterations_before(&mut self, counter_range: &CounterRange, counter: Value) -> Value {
        let scalar_kind = TileKind::new(POSITION_TYPE, &[]);
        let minus_first = self.index_constant(-counter_range.first);
        let distance = self.builder.emit_add(&scalar_kind, counter, minus_first);
        if counter_range.step == 1 {
            return distance;
        }
        let (signedness, rounding) = (Signedness::Signed, Rounding::Zero);
        let step = self.index_constant(counter_range.step);
        self.builder.emit(&scalar_kind, Op::DivI { signedness, rounding, lhs: distance, rhs: step })
    }

    /// Emits the initial value of a loop-carried address. The address advances by `step` elements per position: upwards from
    /// `position`, or downwards from the last position.
    pub(crate) fn carried_address(&mut self, kind: &TileKind, base: Value, position: Value, step: i64) -> CarriedAddress {
        let (scalar_kind, flat) = (TileKind::new(POSITION_TYPE, &[]), TileKind::new(POSITION_TYPE, &[kind.count()]));
        let is_descending = self.random.one_in(4);
        let position = if is_descending { self.index_constant(POSITIONS - 1) } else { position };
        let step_value = self.index_constant(step);
        let distance = self.builder.emit_mul(&scalar_kind, position, step_value);
        let (indices_in_order, distance) = (self.permuted_indices(&flat), self.broadcast_scalar(distance, &flat));
        let indices = self.builder.emit_add(&flat, indices_in_order, distance);
        let elements_per_iteration = if is_descending { -step } else { step };
        match self.random.one_in(3) {
            true => CarriedAddress {
                form: AddressForm::Indices,
                value: indices,
                ty: self.builder.tile_type(&flat),
                elements_per_iteration,
            },
            false => {
                let offset = self.reshape(indices, &flat, &kind.shape);
                let value = self.pointers(base, kind.scalar, offset, &kind.shape);
                CarriedAddress {
                    form: AddressForm::Pointers,
                    value,
                    ty: self.builder.pointer_tile_type(kind.scalar, &kind.shape),
                    elements_per_iteration,
                }
            }
        }
    }

    /// Emits the value that a loop-carried address has in the next iteration.
    pub(crate) fn next_address(&mut self, kind: &TileKind, carried_address: &CarriedAddress) -> Value {
        let (scalar_kind, flat) = (TileKind::new(POSITION_TYPE, &[]), TileKind::new(POSITION_TYPE, &[kind.count()]));
        let mut advance = self.index_constant(carried_address.elements_per_iteration);
        if self.random.one_in(3) {
            // In tile blocks with a small index, the addresses advance by fewer elements.
            let lhs = self.index_constant(carried_address.elements_per_iteration.abs());
            let limited = self.builder.emit(&scalar_kind, Op::MinI { signedness: Signedness::Signed, lhs, rhs: self.block_index });
            let sign = self.index_constant(carried_address.elements_per_iteration.signum());
            advance = self.builder.emit_mul(&scalar_kind, limited, sign);
        }
        let advances = self.broadcast_scalar(advance, &flat);
        match carried_address.form {
            AddressForm::Indices => self.builder.emit_add(&flat, carried_address.value, advances),
            AddressForm::Pointers => {
                let offset = self.reshape(advances, &flat, &kind.shape);
                self.builder.emit_with_type(Op::Offset { ptr: carried_address.value, offset }, carried_address.ty)
            }
        }
    }
}
