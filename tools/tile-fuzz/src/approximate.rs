//! Generators of functions that Tile IR defines only up to an error bound. Their results do not join the pool, because control flow
//! that depends on an approximate result could differ between stages. The program stores these results directly to outputs, which
//! are compared with a tolerance.

use crate::builder::TileKind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::Rounding;
use tileir::Op;

impl Generator {
    /// Emits an approximate function of a random tile. Stores the result, or its reduction along a dimension, with a tolerance.
    pub(crate) fn approximate_function(&mut self) {
        let (x, kind) = self.any_tile();
        let scalar = self.random.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::BF16, Scalar::F64]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.with_scalar(scalar);
        // The tolerance is relative to the larger of 1 and the magnitude of the result. It covers a few units in the last place,
        // plus the error of one or two more ops.
        let tolerance = match scalar {
            Scalar::F64 => 1e-9,
            Scalar::F32 => 1e-4,
            Scalar::F16 => 1e-2,
            _ => 6e-2,
        };
        let value = self.emit_approximate_op(x, &kind);
        let kind = match kind.shape.len() {
            0 => kind,
            _ if self.random.one_in(2) => kind,
            _ => return self.store_float_sum(value, &kind, tolerance),
        };
        self.store_with_tolerance(value, &kind, tolerance);
    }

    /// Emits a random approximate function. The operands are first clamped to intervals in which the function's error is bounded.
    fn emit_approximate_op(&mut self, x: Value, kind: &TileKind) -> Value {
        let is_f32 = kind.scalar == Scalar::F32;
        let mode = |random: &mut crate::random::Random, modes: &[Rounding]| if is_f32 { random.pick(modes) } else { modes[0] };
        let (low, high) = self.random.pick(&[(-4.0, 4.0), (0.125, 40.0), (-1.0, 1.0)]);
        let source = self.clamp_float(x, kind, low, high);
        let is_positive = low > 0.0;
        let flush_to_zero = is_f32 && self.random.one_in(4);
        let op = match self.random.below(14) {
            0 if !is_positive => Op::Exp { rounding_mode: mode(&mut self.random, &[Rounding::Full, Rounding::Approx]), source },
            1 if !is_positive => Op::Exp2 { flush_to_zero, source },
            2 if is_positive => Op::Log { source },
            3 if is_positive => Op::Log2 { source },
            4 => Op::Sin { source },
            5 => Op::Cos { source },
            6 if high <= 1.0 => Op::Tan { source },
            7 if !is_positive => Op::SinH { source },
            8 if !is_positive => Op::CosH { source },
            9 if is_positive => Op::Rsqrt { flush_to_zero, source },
            10 if is_positive && is_f32 => Op::Sqrt { flush_to_zero, rounding_mode: Rounding::Approx, source },
            11 if is_positive => {
                let exponent = self.tile_of_kind(kind);
                let exponent = self.clamp_float(exponent, kind, -1.0, 1.5);
                Op::FPowF { source, exponent }
            }
            12 if is_positive => {
                let y = self.tile_of_kind(kind);
                let y = self.clamp_float(y, kind, -4.0, 4.0);
                Op::Atan2 { x: source, y }
            }
            13 if is_positive && is_f32 => {
                let lhs = self.tile_of_kind(kind);
                let lhs = self.clamp_float(lhs, kind, -10.0, 10.0);
                let rounding_mode = self.random.pick(&[Rounding::Approx, Rounding::Full]);
                Op::DivF { flush_to_zero, rounding_mode, lhs, rhs: source }
            }
            _ => Op::TanH { rounding_mode: Rounding::Full, source },
        };
        self.builder.emit(kind, op)
    }

    /// Emits a float sum along a random dimension, and stores it. Tile IR leaves the order of the sum unspecified.
    fn store_float_sum(&mut self, x: Value, kind: &TileKind, tolerance: f64) {
        let dim = self.random.below(kind.shape.len());
        let extent = kind.shape[dim] as f64;
        // The scale keeps each partial sum at most as large as the largest element.
        let scale = self.splat_float(kind, 1.0 / extent);
        let (flush_to_zero, rounding_mode) = (false, Rounding::NearestEven);
        let x = self.builder.emit(kind, Op::MulF { flush_to_zero, rounding_mode, lhs: x, rhs: scale });
        let scalar = TileKind::new(kind.scalar, &[]);
        let ty = self.builder.tile_type(&scalar);
        let (body, args, outer_block) = self.builder.open_region(&[ty, ty]);
        let value = self.builder.emit_with_type(Op::AddF { flush_to_zero, rounding_mode, lhs: args[0], rhs: args[1] }, ty);
        self.builder.emit_with_types(Op::Yield { operands: [value].into() }, &[]);
        self.builder.close_region(outer_block);
        let mut shape = kind.shape.clone();
        shape.remove(dim);
        let result = TileKind::new(kind.scalar, &shape);
        let identity = self.scalar_attribute(kind.scalar, 0);
        let op = Op::Reduce { dim: dim as i32, identities: [identity].into(), operands: [x].into(), body };
        let value = self.builder.emit(&result, op);
        self.store_with_tolerance(value, &result, tolerance * extent.log2().max(1.0));
    }
}
