//! Emits roots, exponentials and trigonometric functions: as PTX approximations if these are accurate enough, otherwise as calls of
//! libdevice functions.

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
    /// Emits a unary mathematical function.
    pub(super) fn emit_math(&self, kind: Unary, elem: Elem, x: Val<'c>) -> Result<Val<'c>> {
        if matches!(elem.carrier(), Scalar::F16 | Scalar::BF16) {
            let wide = self.emit_math(kind, F32, self.widen_half(x))?;
            let rounding = if let Unary::Sqrt { rounding, .. } = kind { rounding } else { Rounding::NearestEven };
            return Ok(self.round_floats(Scalar::F32, elem.carrier(), rounding, &[wide])?[0]);
        }
        let is_f64 = elem.carrier() == Scalar::F64;
        match kind {
            Unary::Ceil => Ok(self.ir.intrinsic_value("llvm.ceil", &[x.get_type()], &[x])),
            Unary::Floor => Ok(self.ir.intrinsic_value("llvm.floor", &[x.get_type()], &[x])),
            Unary::Sqrt { rounding: Rounding::NearestEven, ftz: false } => {
                Ok(self.ir.intrinsic_value("llvm.sqrt", &[x.get_type()], &[x]))
            }
            Unary::Sqrt { rounding, ftz } => {
                let mode = if rounding == Rounding::Approx && !is_f64 { "approx" } else { rounding_suffix(rounding) };
                self.unary_instruction(&format!("sqrt.{mode}"), elem, ftz, x)
            }
            Unary::Rsqrt { ftz } => self.unary_instruction("rsqrt.approx", elem, ftz, x),
            Unary::Exp2 { ftz } if !is_f64 => self.unary_instruction("ex2.approx", elem, ftz, x),
            Unary::Tanh { rounding: Rounding::Approx } if !is_f64 => self.unary_instruction("tanh.approx", elem, false, x),
            Unary::Exp { rounding: Rounding::Approx } if !is_f64 => {
                let log2_e = self.ir.f32().const_float(std::f64::consts::LOG2_E);
                let scaled = self.ir.builder.build_float_mul(x.into_float_value(), log2_e, "").expect("floats multiply");
                self.unary_instruction("ex2.approx", elem, false, scaled.into())
            }
            _ => match library_name(kind) {
                Some(name) => Ok(self.libdevice_call(name, elem, &[x])),
                None => Err(self.unsupported_type(&base::text::to_text(&kind), elem)),
            },
        }
    }

    /// Emits a mathematical function of two operands.
    pub(super) fn emit_binary_math(&self, kind: Binary, elem: Elem, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        if matches!(elem.carrier(), Scalar::F16 | Scalar::BF16) {
            let b = if b.is_float_value() { self.widen_half(b) } else { b };
            let wide = self.emit_binary_math(kind, F32, self.widen_half(a), b)?;
            return Ok(self.narrow_to_half(elem, wide));
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

    /// Calls a libdevice function. [`crate::libdevice`] links the body of the function later.
    fn libdevice_call(&self, name: &str, elem: Elem, args: &[Val<'c>]) -> Val<'c> {
        let ir = self.ir;
        let name = format!("{}{name}{}", crate::libdevice::FUNCTION_PREFIX, if elem.carrier() == Scalar::F64 { "" } else { "f" });
        let ty = ir.elem_type(elem).into_float_type();
        let function = ir.module.get_function(&name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
            ir.module.add_function(&name, ty.fn_type(&params, false), None)
        });
        ir.call(function, args).expect("mathematical functions have a value")
    }

    /// Emits a loop that computes a power with an integer exponent by repeated squaring. For a negative exponent, the emitted code
    /// inverts the result after the loop.
    fn integer_power(&self, x: FloatValue<'c>, exponent: IntValue<'c>) -> Val<'c> {
        let ir = self.ir;
        let exponent = if exponent.get_type().get_bit_width() < 32 { ir.resize(exponent, ir.i32(), true) } else { exponent };
        let ty = exponent.get_type();
        let is_negative_exponent = ir.icmp(IntPredicate::SLT, exponent, ty.const_zero());
        let magnitude = ir.intrinsic_value("llvm.abs", &[ty.into()], &[exponent.into(), ir.i1().const_zero().into()]);
        let block_before = ir.current_block();
        let (loop_block, block_after) = (ir.append_block(self.kernel, "power"), ir.append_block(self.kernel, "powered"));
        ir.jump(loop_block);
        ir.builder.position_at_end(loop_block);
        let phi = |ty: BasicTypeEnum<'c>| ir.builder.build_phi(ty, "").expect("the builder is at the start of a block");
        let (product_phi, square_phi, exponent_phi) = (phi(x.get_type().into()), phi(x.get_type().into()), phi(ty.into()));
        let phi_value = |phi: PhiValue<'c>| phi.as_basic_value().into_float_value();
        let one = x.get_type().const_float(1.0);
        let exponent_bits = exponent_phi.as_basic_value().into_int_value();
        let is_odd = ir.resize(exponent_bits, ir.i1(), false);
        let factor = ir.select(is_odd, square_phi.as_basic_value(), one.into()).into_float_value();
        let multiply = |a, b| ir.builder.build_float_mul(a, b, "").expect("floats multiply");
        let next_product = multiply(phi_value(product_phi), factor);
        let halved_exponent = ir.shr(exponent_bits, ty.const_int(1, false), false);
        product_phi.add_incoming(&[(&one, block_before), (&next_product, loop_block)]);
        square_phi.add_incoming(&[(&x, block_before), (&multiply(phi_value(square_phi), phi_value(square_phi)), loop_block)]);
        exponent_phi.add_incoming(&[(&magnitude, block_before), (&halved_exponent, loop_block)]);
        ir.conditional_branch(ir.icmp(IntPredicate::EQ, halved_exponent, ty.const_zero()), block_after, loop_block);
        ir.builder.position_at_end(block_after);
        let inverse = ir.builder.build_float_div(one, next_product, "").expect("floats divide");
        ir.select(is_negative_exponent, inverse.into(), next_product.into())
    }

    /// Emits the PTX instruction `name[.ftz].type` with one operand.
    fn unary_instruction(&self, name: &str, elem: Elem, ftz: bool, x: Val<'c>) -> Result<Val<'c>> {
        let (ty, constraints) = match elem.carrier() {
            Scalar::F32 => ("f32", "=f,f"),
            Scalar::F64 => ("f64", "=d,d"),
            _ => return Err(self.unsupported_type(name, elem)),
        };
        let text = format!("{name}{}.{ty} $0, $1;", if ftz { ".ftz" } else { "" });
        Ok(self.ir.asm(Some(self.ir.elem_type(elem)), &text, constraints, &[x], false).expect("the instruction has a result"))
    }

    /// Converts an f16 or bf16 value to f32.
    pub(super) fn widen_half(&self, x: Val<'c>) -> Val<'c> {
        self.ir.builder.build_float_ext(x.into_float_value(), self.ir.f32(), "").expect("halves widen").into()
    }
    /// Rounds an f32 value to f16 or bf16.
    pub(super) fn narrow_to_half(&self, elem: Elem, x: Val<'c>) -> Val<'c> {
        let ty = self.ir.elem_type(elem).into_float_type();
        self.ir.builder.build_float_trunc(x.into_float_value(), ty, "").expect("floats narrow").into()
    }
}

/// The libdevice name of a unary function, without prefix and suffix; `None` if libdevice has no such function.
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
