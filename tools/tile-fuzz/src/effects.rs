//! Generators of prints, assertions, assumptions, globals and optimisation hints.

use crate::builder::TileKind;
use crate::program::{Generator, INTS};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Predicate, Signedness};
use tileir::{Attribute, Op};

impl Generator {
    /// Emits a print of a scalar or of a few elements, in the first tile block only.
    pub(crate) fn print_elements(&mut self) {
        let (x, kind) = self.any_tile();
        let (scalar, conversion) =
            self.random.pick(&[(Scalar::I32, "%d"), (Scalar::I32, "%x"), (Scalar::F32, "%f"), (Scalar::I64, "%lld")]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.with_scalar(scalar);
        let (x, kind) = match kind.count() > 16 {
            true => {
                let few_kind = TileKind::new(scalar, &[8]);
                (self.tile_of_kind(&few_kind), few_kind)
            }
            false => (x, kind),
        };
        let x = if scalar == Scalar::F32 { self.clamp_float(x, &kind, -1000.0, 1000.0) } else { x };
        let zero = self.index_constant(0);
        let is_first_block = self.compare_scalars(Predicate::Equal, self.block_index, zero);
        let print_number = self.outputs.len();
        let format = self.builder.intern_string(&format!("print {print_number}: {conversion} and %d\n"));
        let token = self.builder.token_type();
        self.emit_if(is_first_block, |inner| {
            let args = [x, inner.block_index].into();
            inner.builder.emit_with_type(Op::PrintTko { format, args, token: None }, token);
            inner.builder.emit_with_types(Op::Yield { operands: Box::default() }, &[]);
        });
    }

    /// Emits an assertion that is true for every input. Only a range analysis can prove it at compile time.
    pub(crate) fn assert_true_condition(&mut self) {
        let (x, kind) = self.any_tile();
        let x = self.convert(x, &kind, Scalar::I32);
        let kind = kind.with_scalar(Scalar::I32);
        let (mask, limit) = (self.splat(&kind, 0xff), self.splat(&kind, 0xff));
        let low_byte = self.builder.emit_and(&kind, x, mask);
        let comparison_predicate = Predicate::LessThanOrEqual;
        let op = Op::CmpI { comparison_predicate, signedness: Signedness::Unsigned, lhs: low_byte, rhs: limit };
        let condition = self.builder.emit(&kind.with_scalar(Scalar::I1), op);
        let message = self.builder.intern_string("a byte is at most 255");
        self.builder.emit_with_types(Op::Assert { message, condition }, &[]);
    }

    /// Emits an `assume` whose predicate is true, because the generator computes its operand accordingly.
    pub(crate) fn assume_true_predicate(&mut self) {
        let (x, kind) = self.any_tile();
        let scalar = self.random.pick(&INTS[1..]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.with_scalar(scalar);
        let (value, predicate) = match self.random.below(3) {
            0 => self.bounded_tile(x, &kind),
            1 => {
                let bits = 1 + self.random.below(5) as u64;
                let mask = self.splat(&kind, u64::MAX << bits);
                (self.builder.emit_and(&kind, x, mask), Attribute::DivBy { divisor: 1 << bits, every: None, along: None })
            }
            _ => self.element_runs(&kind),
        };
        let value = self.builder.emit(&kind, Op::Assume { predicate, value });
        self.add_to_pool(value, kind);
    }

    /// Emits code that limits integers to `0..=upper` for a random `upper`. Returns the tile and a predicate that states the
    /// bounds.
    fn bounded_tile(&mut self, x: Value, kind: &TileKind) -> (Value, Attribute) {
        let upper = self.random.pick(&[1, 7, 63, 1000]);
        let mask = self.splat(kind, (upper as u64 + 1).next_power_of_two() - 1);
        let masked = self.builder.emit_and(kind, x, mask);
        let limit = self.splat(kind, upper as u64);
        let value = self.builder.emit(kind, Op::MinI { signedness: Signedness::Signed, lhs: masked, rhs: limit });
        let lower = self.random.one_in(2).then_some(0);
        (value, Attribute::Bounded { lower, upper: Some(upper) })
    }

    /// Emits a tile with runs of four equal elements along the last dimension, or with consecutive numbers. If the last dimension
    /// has fewer than four elements, emits a constant tile. Returns the tile and a predicate that is true for the tile.
    fn element_runs(&mut self, kind: &TileKind) -> (Value, Attribute) {
        let Some(extent) = kind.shape.last().copied().filter(|extent| *extent >= 4) else {
            let value = self.splat(kind, 64);
            return (value, Attribute::DivBy { divisor: 64, every: None, along: None });
        };
        let row = TileKind::new(kind.scalar, &[extent]);
        let indices = self.builder.emit(&row, Op::Iota {});
        let has_equal_runs = self.random.one_in(2);
        let value = match has_equal_runs {
            true => {
                let mask = self.splat(&row, !3);
                self.builder.emit_and(&row, indices, mask)
            }
            false => indices,
        };
        let rank = kind.shape.len();
        let mut one_row = vec![1; rank];
        one_row[rank - 1] = extent;
        let source = self.reshape(value, &row, &one_row);
        let value = if one_row == kind.shape { source } else { self.builder.emit(kind, Op::Broadcast { source }) };
        let along = rank as i64 - 1;
        let predicate = match has_equal_runs {
            true => Attribute::SameElements((0..rank).map(|dim| if dim + 1 == rank { 4 } else { 1 }).collect()),
            false => Attribute::DivBy { divisor: 4, every: Some(4), along: Some(along) },
        };
        (value, predicate)
    }

    /// Emits a gather from a global of the module.
    pub(crate) fn gather_from_global(&mut self) {
        let (scalar, elements) = (self.any_element_type(), 64);
        let data = (0..elements * i64::from(scalar.bytes())).map(|i| (i * 37 % 113) as u8).collect();
        let name = self.builder.add_global(scalar, elements, data);
        let ty = self.builder.pointer_tile_type(scalar, &[]);
        let pointer = self.builder.emit_with_type(Op::GetGlobal { name }, ty);
        let kind = TileKind::new(scalar, &self.any_shape());
        let value = self.gather(pointer, elements, &kind);
        self.add_to_pool(value, kind);
    }

    /// Adds random optimisation hints for warps, occupancy and clusters, for every target.
    pub(crate) fn add_entry_hints(&mut self) {
        let i32_type = self.builder.ty(tileir::Type::Scalar(Scalar::I32));
        let mut targets = Vec::new();
        for target in base::Target::all() {
            let (occupancy, warps) = (self.random.pick(&[1, 2, 4]), self.random.pick(&[4, 8]));
            let hint_values =
                [("num_cta_in_cga", self.random.pick(&[2, 4])), ("occupancy", occupancy), ("num_worker_warps_per_cta", warps)];
            let target_hints =
                hint_values.map(|(name, bits)| (self.builder.intern_string(name), Attribute::Integer { ty: i32_type, bits }));
            let hint_subset = &target_hints[self.random.below(2)..target_hints.len() - self.random.below(2)];
            targets.push((self.builder.intern_string(target.name), Attribute::Dictionary(hint_subset.into())));
        }
        self.builder.hints = Some(targets.into());
    }
}
