//! Roots, exponentials and trigonometry: PTX approximations if they are accurate enough, libdevice otherwise.

use super::Emitter;
use super::arith::rounding_suffix;
use crate::ir::Val;
use base::diag::Result;
use core_dialect::tile::Elem;
use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{FloatValue, IntValue, PhiValue};
use numerics::Scalar;
use numerics::arith::{Binary, Rounding, Unary};

const F32: Elem = Elem::Scalar(Scalar::F32);

impl<'c> Emitter<'c, '_> {
    pub(super) fn math(&self, kind: Unary, elem: Elem, x: Val<'c>) -> Result<Val<'c>> {
        if matches!(elem.carrier(), Scalar::F16 | Scalar::BF16) {
            let wide = self.math(kind, F32, self.widen(x))?;
            let rounding = if let Unary::Sqrt { rounding, .. } = kind { rounding } else { Rounding::NearestEven };
            return Ok(self.round_floats(Scalar::F32, elem.carrier(), rounding, &[wide])?[0]);
        }
        let double = elem.carrier() == Scalar::F64;
        match kind {
            Unary::Ceil => Ok(self.ir.intrinsic_value("llvm.ceil", &[x.get_type()], &[x])),
            Unary::Floor => Ok(self.ir.intrinsic_value("llvm.floor", &[x.get_type()], &[x])),
            Unary::Sqrt { rounding: Rounding::NearestEven, ftz: false } => {
                Ok(self.ir.intrinsic_value("llvm.sqrt", &[x.get_type()], &[x]))
            }
            Unary::Sqrt { rounding, ftz } => {
                let mode = if rounding == Rounding::Approx && !double { "approx" } else { rounding_suffix(rounding) };
                self.unary_instruction(&format!("sqrt.{mode}"), elem, ftz, x)
            }
            Unary::Rsqrt { ftz } => self.unary_instruction("rsqrt.approx", elem, ftz, x),
            Unary::Exp2 { ftz } if !double => self.unary_instruction("ex2.approx", elem, ftz, x),
            Unary::Tanh { rounding: Rounding::Approx } if !double => self.unary_instruction("tanh.approx", elem, false, x),
            Unary::Exp { rounding: Rounding::Approx } if !double => {
                let log2_e = self.ir.f32().const_float(std::f64::consts::LOG2_E);
                let scaled = self.ir.builder.build_float_mul(x.into_float_value(), log2_e, "").expect("floats multiply");
                let scaled = if common::fault_injected("ptx.exponential") { x } else { scaled.into() };
                self.unary_instruction("ex2.approx", elem, false, scaled)
            }
            _ => match library_name(kind) {
                Some(name) => Ok(self.libdevice_call(name, elem, &[x])),
                None => Err(self.unsupported_type(&base::text::to_text(&kind), elem)),
            },
        }
    }

    pub(super) fn math2(&self, kind: Binary, elem: Elem, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        if matches!(elem.carrier(), Scalar::F16 | Scalar::BF16) {
            let b = if b.is_float_value() { self.widen(b) } else { b };
            let wide = self.math2(kind, F32, self.widen(a), b)?;
            return Ok(self.narrow(elem, wide));
        }
        let name = match kind {
            Binary::PowF => "pow",
            Binary::Atan2 => "atan2",
            Binary::RemF => "fmod",
            Binary::PowI => return Ok(self.integer_power(a.into_float_value(), b.into_int_value())),
            _ => return Err(self.unsupported_type(&base::text::to_text(&kind), elem)),
        };
        Ok(self.libdevice_call(name, elem, &[a, b]))
    }

    /// Calls a libdevice function; [`crate::libdevice`] links its body.
    fn libdevice_call(&self, name: &str, elem: Elem, args: &[Val<'c>]) -> Val<'c> {
        let ir = self.ir;
        let name = format!("{}{name}{}", crate::libdevice::PREFIX, if elem.carrier() == Scalar::F64 { "" } else { "f" });
        let ty = ir.elem(elem).into_float_type();
        let function = ir.module.get_function(&name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
            ir.module.add_function(&name, ty.fn_type(&params, false), None)
        });
        ir.call(function, args).expect("mathematical functions have a value")
    }

    /// An integer power by repeated squaring. For a negative exponent, the result is inverted at the end.
    fn integer_power(&self, x: FloatValue<'c>, power: IntValue<'c>) -> Val<'c> {
        let ir = self.ir;
        let power = if power.get_type().get_bit_width() < 32 { ir.resize(power, ir.i32(), true) } else { power };
        let ty = power.get_type();
        let negative = ir.icmp(IntPredicate::SLT, power, ty.const_zero());
        let magnitude = ir.intrinsic_value("llvm.abs", &[ty.into()], &[power.into(), ir.i1().const_zero().into()]);
        let before = ir.current_block();
        let (head, after) = (ir.block(self.kernel, "power"), ir.block(self.kernel, "powered"));
        ir.jump(head);
        ir.builder.position_at_end(head);
        let phi = |ty: BasicTypeEnum<'c>| ir.builder.build_phi(ty, "").expect("the builder is at the start of a block");
        let (product, square, exponent) = (phi(x.get_type().into()), phi(x.get_type().into()), phi(ty.into()));
        let value = |phi: PhiValue<'c>| phi.as_basic_value().into_float_value();
        let one = x.get_type().const_float(1.0);
        let exponent_bits = exponent.as_basic_value().into_int_value();
        let odd = ir.resize(exponent_bits, ir.i1(), false);
        let factor = ir.select(odd, square.as_basic_value(), one.into()).into_float_value();
        let multiply = |a, b| ir.builder.build_float_mul(a, b, "").expect("floats multiply");
        let next = multiply(value(product), factor);
        let half = ir.shr(exponent_bits, ty.const_int(1, false), false);
        product.add_incoming(&[(&one, before), (&next, head)]);
        square.add_incoming(&[(&x, before), (&multiply(value(square), value(square)), head)]);
        exponent.add_incoming(&[(&magnitude, before), (&half, head)]);
        ir.branch(ir.icmp(IntPredicate::EQ, half, ty.const_zero()), after, head);
        ir.builder.position_at_end(after);
        let inverse = ir.builder.build_float_div(one, next, "").expect("floats divide");
        ir.select(negative, inverse.into(), next.into())
    }

    /// Emits one PTX instruction `name[.ftz].type`.
    fn unary_instruction(&self, name: &str, elem: Elem, ftz: bool, x: Val<'c>) -> Result<Val<'c>> {
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

/// The libdevice name of a function, without prefix and suffix.
fn library_name(kind: Unary) -> Option<&'static str> {
    Some(match kind {
        Unary::Exp { .. } => "exp",
        Unary::Exp2 { .. } => "exp2",
        Unary::Log => "log",
        Unary::Log2 => "log2",
        Unary::Sin => "sin",
        Unary::Cos => "cos",
        Unary::Tan => "tan",
        Unary::Sinh => "sinh",
        Unary::Cosh => "cosh",
        Unary::Tanh { .. } => "tanh",
        _ => return None,
    })
}
