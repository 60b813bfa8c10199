//! Roots, exponentials and trigonometry: PTX's own approximations where they are accurate enough, libdevice elsewhere.

use super::Emitter;
use super::arith::rounding_suffix;
use crate::ir::Val;
use base::Scalar;
use base::arith::{Binary, Rounding, Unary};
use base::diag::Result;
use base::tile::Elem;

const F32: Elem = Elem::Scalar(Scalar::F32);

impl<'c> Emitter<'c, '_> {
    pub(super) fn math(&self, kind: Unary, elem: Elem, x: Val<'c>) -> Result<Val<'c>> {
        if matches!(elem.carrier(), Scalar::F16 | Scalar::BF16) {
            let wide = self.math(kind, F32, self.widen(x))?;
            return Ok(self.narrow(elem, wide));
        }
        let double = elem.carrier() == Scalar::F64;
        match kind {
            Unary::Ceil => Ok(self.ir.intrinsic_value("llvm.ceil", &[x.get_type()], &[x])),
            Unary::Floor => Ok(self.ir.intrinsic_value("llvm.floor", &[x.get_type()], &[x])),
            Unary::Sqrt { rounding: Rounding::NearestEven, ftz: false } => {
                Ok(self.ir.intrinsic_value("llvm.sqrt", &[x.get_type()], &[x]))
            }
            Unary::Sqrt { rounding, ftz } => {
                let mode = if rounding == Rounding::Approx { "approx" } else { rounding_suffix(rounding) };
                self.instruction(&format!("sqrt.{mode}"), elem, ftz, x)
            }
            Unary::Rsqrt { ftz } => self.instruction("rsqrt.approx", elem, ftz, x),
            Unary::Exp2 { ftz } if !double => self.instruction("ex2.approx", elem, ftz, x),
            Unary::Tanh { rounding: Rounding::Approx } => self.instruction("tanh.approx", elem, false, x),
            _ => Err(self.unsupported_type(&base::text::to_text(&kind), elem)),
        }
    }

    pub(super) fn math2(&self, kind: Binary, elem: Elem, _a: Val<'c>, _b: Val<'c>) -> Result<Val<'c>> {
        Err(self.unsupported_type(&base::text::to_text(&kind), elem))
    }

    /// One PTX instruction `name[.ftz].type`.
    fn instruction(&self, name: &str, elem: Elem, ftz: bool, x: Val<'c>) -> Result<Val<'c>> {
        let (ty, constraints) = match elem.carrier() {
            Scalar::F32 => ("f32", "=f,f"),
            Scalar::F64 => ("f64", "=d,d"),
            _ => return Err(self.unsupported_type(name, elem)),
        };
        let text = format!("{name}{}.{ty} $0, $1;", if ftz { ".ftz" } else { "" });
        Ok(self.ir.asm(Some(self.ir.elem(elem)), &text, constraints, &[x], false).expect("the instruction has a result"))
    }

    pub(super) fn widen(&self, x: Val<'c>) -> Val<'c> {
        self.ir.builder.build_float_ext(x.into_float_value(), self.ir.f32(), "").expect("halves widen").into()
    }
    pub(super) fn narrow(&self, elem: Elem, x: Val<'c>) -> Val<'c> {
        let ty = self.ir.elem(elem).into_float_type();
        self.ir.builder.build_float_trunc(x.into_float_value(), ty, "").expect("floats narrow").into()
    }
}
