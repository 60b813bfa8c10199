//! Conversions between element types.

use super::Emitter;
use crate::ir::Val;
use base::arith::{Convert, Rounding, Signedness};
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Scalar, Value};

impl<'c> Emitter<'c, '_> {
    pub(super) fn convert(&mut self, op: OpId, kind: Convert, x: Value, result: Value) -> Result<()> {
        let (from, to) = (self.elem(x).carrier(), self.elem(result).carrier());
        let registers = self.get(x).iter().map(|x| self.convert_scalar(op, kind, from, to, *x));
        let registers = registers.collect::<Result<Vec<Val<'c>>>>()?;
        self.set(result, registers);
        Ok(())
    }

    fn convert_scalar(&self, op: OpId, kind: Convert, from: Scalar, to: Scalar, x: Val<'c>) -> Result<Val<'c>> {
        let ir = self.ir;
        let plain = |scalar: Scalar| matches!(scalar, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64);
        match kind {
            Convert::ExtI { signedness } => {
                Ok(ir.resize(x.into_int_value(), ir.scalar(to).into_int_type(), signedness == Signedness::Signed).into())
            }
            Convert::TruncI { .. } => Ok(ir.resize(x.into_int_value(), ir.scalar(to).into_int_type(), false).into()),
            Convert::Bitcast => Ok(ir.bitcast(x, ir.scalar(to))),
            Convert::FToF { rounding: Rounding::NearestEven } if plain(from) && plain(to) => {
                let cast = ir.builder.build_float_cast(x.into_float_value(), ir.scalar(to).into_float_type(), "");
                Ok(cast.expect("float formats convert").into())
            }
            Convert::IToF { signedness, .. } if plain(to) => {
                let ty = ir.scalar(to).into_float_type();
                let value = match signedness {
                    Signedness::Signed => ir.builder.build_signed_int_to_float(x.into_int_value(), ty, ""),
                    Signedness::Unsigned => ir.builder.build_unsigned_int_to_float(x.into_int_value(), ty, ""),
                };
                Ok(value.expect("integers convert").into())
            }
            Convert::FToI { signedness, .. } if plain(from) && to.bits() >= 16 => {
                // The saturating form: what is out of range clamps, and NaN gives 0.
                let name = if signedness == Signedness::Signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                Ok(ir.intrinsic_value(name, &[ir.scalar(to), x.get_type()], &[x]))
            }
            _ => Err(self.unsupported(op)),
        }
    }
}
