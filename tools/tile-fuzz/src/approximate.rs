//! Functions that Tile IR defines up to an error bound. Their results go only to an output that is compared with a tolerance,
//! because control flow that depends on them could differ.

use crate::builder::Kind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::Rounding;
use tileir::Op;

impl Generator {
    pub(crate) fn approximate(&mut self) {
        let (x, kind) = self.any();
        let scalar = self.random.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::BF16, Scalar::F64]);
        let x = self.convert(x, &kind, scalar);
        let kind = kind.of(scalar);
        // Relative to 1 or to the result: a few units in the last place, plus the error of one or two more ops.
        let tolerance = match scalar {
            Scalar::F64 => 1e-9,
            Scalar::F32 => 1e-4,
            Scalar::F16 => 1e-2,
            _ => 6e-2,
        };
        let value = self.function(x, &kind);
        let kind = match kind.shape.len() {
            0 => kind,
            _ if self.random.one_in(2) => kind,
            _ => return self.sum(value, &kind, tolerance),
        };
        self.store_within(value, &kind, tolerance);
    }

    fn function(&mut self, x: Value, kind: &Kind) -> Value {
        let single = kind.scalar == Scalar::F32;
        let mode = |random: &mut crate::random::Random, modes: &[Rounding]| if single { random.pick(modes) } else { modes[0] };
        let (low, high) = self.random.pick(&[(-4.0, 4.0), (0.125, 40.0), (-1.0, 1.0)]);
        let source = self.clamped(x, kind, low, high);
        let positive = low > 0.0;
        let flush_to_zero = single && self.random.one_in(4);
        let op = match self.random.below(14) {
            0 if !positive => Op::Exp { rounding_mode: mode(&mut self.random, &[Rounding::Full, Rounding::Approx]), source },
            1 if !positive => Op::Exp2 { flush_to_zero, source },
            2 if positive => Op::Log { source },
            3 if positive => Op::Log2 { source },
            4 => Op::Sin { source },
            5 => Op::Cos { source },
            6 if high <= 1.0 => Op::Tan { source },
            7 if !positive => Op::SinH { source },
            8 if !positive => Op::CosH { source },
            9 if positive => Op::Rsqrt { flush_to_zero, source },
            10 if positive && single => Op::Sqrt { flush_to_zero, rounding_mode: Rounding::Approx, source },
            11 if positive => {
                let exponent = self.some(kind);
                let exponent = self.clamped(exponent, kind, -1.0, 1.5);
                Op::FPowF { source, exponent }
            }
            12 if positive => {
                let y = self.some(kind);
                let y = self.clamped(y, kind, -4.0, 4.0);
                Op::Atan2 { x: source, y }
            }
            13 if positive && single => {
                let lhs = self.some(kind);
                let lhs = self.clamped(lhs, kind, -10.0, 10.0);
                let rounding_mode = self.random.pick(&[Rounding::Approx, Rounding::Full]);
                Op::DivF { flush_to_zero, rounding_mode, lhs, rhs: source }
            }
            _ => Op::TanH { rounding_mode: Rounding::Full, source },
        };
        self.build.emit(kind, op)
    }

    /// Emits a float sum along a dimension; Tile IR leaves its order unspecified.
    fn sum(&mut self, x: Value, kind: &Kind, tolerance: f64) {
        let dim = self.random.below(kind.shape.len());
        let extent = kind.shape[dim] as f64;
        // The scale keeps each partial sum at most as large as the largest element.
        let part = self.number(kind, 1.0 / extent);
        let (flush_to_zero, rounding_mode) = (false, Rounding::NearestEven);
        let x = self.build.emit(kind, Op::MulF { flush_to_zero, rounding_mode, lhs: x, rhs: part });
        let scalar = Kind::new(kind.scalar, &[]);
        let ty = self.build.tile(&scalar);
        let (body, args, before) = self.build.region(&[ty, ty]);
        let value = self.build.op(Op::AddF { flush_to_zero, rounding_mode, lhs: args[0], rhs: args[1] }, ty);
        self.build.ops(Op::Yield { operands: [value].into() }, &[]);
        self.build.close(before);
        let mut shape = kind.shape.clone();
        shape.remove(dim);
        let result = Kind::new(kind.scalar, &shape);
        let identity = self.attribute(kind.scalar, 0);
        let op = Op::Reduce { dim: dim as i32, identities: [identity].into(), operands: [x].into(), body };
        let value = self.build.emit(&result, op);
        self.store_within(value, &result, tolerance * extent.log2().max(1.0));
    }
}
