//! Executes ops of `.tile` whose operands and results are tiles: element-wise ops, ops that rearrange elements, and MMAs.

use super::TileProgram;
use crate::exec::Env;
use crate::tile::{self, Tile, mma, shape};
use base::Op as OpId;
use base::Value as Id;
use base::diag::{Diagnostic, Result};
use numerics::arith::{Binary, Compare, Convert, Fma, Unary};
use tileir::Op;
use tileir::enums::ComparisonOrdering;

/// An element-wise op of Tile IR, with the corresponding operation of the core dialect and its operands.
pub(super) enum Elementwise {
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    Fma(Fma, Id, Id, Id),
    Compare(Compare, Id, Id),
    Convert(Convert, Id),
    Select(Id, Id, Id),
    Offset(Id, Id),
    /// Reinterprets the bits as another type.
    Retype(Id),
}

/// Translates an element-wise op to the core dialect. Returns `None` for other ops.
pub(super) fn elementwise(op: &Op) -> Option<Elementwise> {
    Some(match *op {
        Op::PtrToInt { source } | Op::IntToPtr { source } | Op::PtrToPtr { source } => Elementwise::Retype(source),
        Op::Select { cond, val_if_true, val_if_false } => Elementwise::Select(cond, val_if_true, val_if_false),
        Op::Offset { ptr, offset } => Elementwise::Offset(ptr, offset),
        Op::Fma { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs, acc } => {
            Elementwise::Fma(Fma { rounding, ftz }, lhs, rhs, acc)
        }
        Op::CmpF { comparison_predicate: predicate, comparison_ordering, lhs, rhs } => {
            let ordered = comparison_ordering == ComparisonOrdering::Ordered;
            Elementwise::Compare(Compare::Float { predicate, ordered }, lhs, rhs)
        }
        Op::CmpI { comparison_predicate: predicate, signedness, lhs, rhs } => {
            Elementwise::Compare(Compare::Int { predicate, signedness }, lhs, rhs)
        }
        _ => {
            return unary_op(op)
                .map(|(unary, x)| Elementwise::Unary(unary, x))
                .or_else(|| binary_op(op).map(|(binary, a, b)| Elementwise::Binary(binary, a, b)))
                .or_else(|| convert_op(op).map(|(convert, x)| Elementwise::Convert(convert, x)));
        }
    })
}

/// Translates a unary op to the core dialect, with its operand. Returns `None` for other ops.
fn unary_op(op: &Op) -> Option<(Unary, Id)> {
    Some(match *op {
        Op::AbsF { source } => (Unary::AbsF, source),
        Op::AbsI { source } => (Unary::AbsI, source),
        Op::NegF { source } => (Unary::NegF, source),
        Op::NegI { overflow, source } => (Unary::NegI { overflow }, source),
        Op::Ceil { source } => (Unary::Ceil, source),
        Op::Floor { source } => (Unary::Floor, source),
        Op::Sqrt { flush_to_zero: ftz, rounding_mode: rounding, source } => (Unary::Sqrt { rounding, ftz }, source),
        Op::Rsqrt { flush_to_zero: ftz, source } => (Unary::Rsqrt { ftz }, source),
        Op::Exp { rounding_mode: rounding, source } => (Unary::Exp { rounding }, source),
        Op::Exp2 { flush_to_zero: ftz, source } => (Unary::Exp2 { ftz }, source),
        Op::Log { source } => (Unary::Log, source),
        Op::Log2 { source } => (Unary::Log2, source),
        Op::Sin { source } => (Unary::Sin, source),
        Op::Cos { source } => (Unary::Cos, source),
        Op::Tan { source } => (Unary::Tan, source),
        Op::SinH { source } => (Unary::Sinh, source),
        Op::CosH { source } => (Unary::Cosh, source),
        Op::TanH { rounding_mode: rounding, source } => (Unary::Tanh { rounding }, source),
        _ => return None,
    })
}

/// Translates a binary op to the core dialect, with its operands. Returns `None` for other ops.
fn binary_op(op: &Op) -> Option<(Binary, Id, Id)> {
    Some(match *op {
        Op::AddF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::AddF { rounding, ftz }, lhs, rhs),
        Op::SubF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::SubF { rounding, ftz }, lhs, rhs),
        Op::MulF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::MulF { rounding, ftz }, lhs, rhs),
        Op::DivF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::DivF { rounding, ftz }, lhs, rhs),
        Op::RemF { lhs, rhs } => (Binary::RemF, lhs, rhs),
        Op::MaxF { propagate_nan, flush_to_zero: ftz, lhs, rhs } => (Binary::MaxF { propagate_nan, ftz }, lhs, rhs),
        Op::MinF { propagate_nan, flush_to_zero: ftz, lhs, rhs } => (Binary::MinF { propagate_nan, ftz }, lhs, rhs),
        Op::FPowF { source, exponent } => (Binary::PowF, source, exponent),
        Op::FPowI { source, exponent } => (Binary::PowI, source, exponent),
        Op::Atan2 { x, y } => (Binary::Atan2, x, y),
        Op::AddI { overflow, lhs, rhs } => (Binary::AddI { overflow }, lhs, rhs),
        Op::SubI { overflow, lhs, rhs } => (Binary::SubI { overflow }, lhs, rhs),
        Op::MulI { overflow, lhs, rhs } => (Binary::MulI { overflow }, lhs, rhs),
        Op::MulhiI { x, y } => (Binary::MulHiU, x, y),
        Op::DivI { signedness, rounding, lhs, rhs } => (Binary::DivI { signedness, rounding }, lhs, rhs),
        Op::RemI { signedness, lhs, rhs } => (Binary::RemI { signedness }, lhs, rhs),
        Op::MaxI { signedness, lhs, rhs } => (Binary::MaxI { signedness }, lhs, rhs),
        Op::MinI { signedness, lhs, rhs } => (Binary::MinI { signedness }, lhs, rhs),
        Op::AndI { lhs, rhs } => (Binary::And, lhs, rhs),
        Op::OrI { lhs, rhs } => (Binary::Or, lhs, rhs),
        Op::XOrI { lhs, rhs } => (Binary::Xor, lhs, rhs),
        Op::ShLI { overflow, lhs, rhs } => (Binary::ShL { overflow }, lhs, rhs),
        Op::ShRI { signedness, lhs, rhs } => (Binary::ShR { signedness }, lhs, rhs),
        _ => return None,
    })
}

/// Translates a conversion to the core dialect, with its operand. Returns `None` for other ops.
fn convert_op(op: &Op) -> Option<(Convert, Id)> {
    Some(match *op {
        Op::ExtI { signedness, from } => (Convert::ExtI { signedness }, from),
        Op::TruncI { overflow, from } => (Convert::TruncI { overflow }, from),
        Op::FToF { rounding_mode: rounding, from } => (Convert::FToF { rounding }, from),
        Op::FToI { saturating, signedness, from, .. } => (Convert::FToI { signedness, saturating }, from),
        Op::IToF { signedness, rounding_mode: rounding, from } => (Convert::IToF { signedness, rounding }, from),
        Op::Bitcast { source } => (Convert::Bitcast, source),
        _ => return None,
    })
}

impl TileProgram<'_> {
    /// Executes an element-wise op. Returns `None` for other ops.
    pub(super) fn execute_elementwise(&self, op: OpId, kind: &Op, env: &Env<'_>) -> Option<Tile> {
        Some(match elementwise(kind)? {
            Elementwise::Unary(unary, x) => tile::unary(unary, env.tile(x)),
            Elementwise::Binary(binary, a, b) => tile::binary(binary, env.tile(a), env.tile(b)),
            Elementwise::Fma(fma, a, b, c) => tile::fma(fma, env.tile(a), env.tile(b), env.tile(c)),
            Elementwise::Compare(compare, a, b) => tile::compare(compare, env.tile(a), env.tile(b)),
            Elementwise::Select(cond, yes, no) => tile::select(env.tile(cond), env.tile(yes), env.tile(no)),
            Elementwise::Offset(pointer, by) => tile::offset(env.tile(pointer), env.tile(by)),
            Elementwise::Convert(convert, x) => {
                let (_, elem) = self.result_type(op);
                tile::convert(convert, elem.carrier(), env.tile(x))
            }
            Elementwise::Retype(x) => env.tile(x).with_elem(self.result_type(op).1),
        })
    }

    /// Executes an op that rearranges elements without arithmetic. Returns `None` for other ops.
    pub(super) fn rearrange(&self, op: OpId, kind: &Op, env: &Env<'_>) -> Result<Option<Tile>> {
        self.rearrange_with(op, kind, env, Tile::clone)
    }

    /// Executes an op as [`TileProgram::rearrange`] does, but on the tiles that `map_operand` returns for the operands. `pack` and
    /// `unpack` ignore `map_operand`.
    pub(super) fn rearrange_with(
        &self,
        op: OpId,
        kind: &Op,
        env: &Env<'_>,
        map_operand: impl Fn(&Tile) -> Tile,
    ) -> Result<Option<Tile>> {
        let rearranged = |env: &Env<'_>, f: fn(&Tile, core_dialect::tile::Shape) -> Tile, x: &Id| {
            f(&map_operand(env.tile(*x)), self.result_type(op).0)
        };
        let slice_index = |indices: &[Id]| -> Vec<u64> { indices.iter().map(|id| env.tile(*id).first()).collect() };
        let outside_tile = || Diagnostic::invalid("RUN032", "a slice outside the tile");
        Ok(Some(match kind {
            Op::Reshape { source } => rearranged(env, |x, shape| x.with_shape(shape), source),
            Op::Broadcast { source } => rearranged(env, shape::broadcast, source),
            Op::Permute { permutation, source } => {
                let order: Vec<usize> = permutation.iter().map(|dim| *dim as usize).collect();
                shape::permute(&map_operand(env.tile(*source)), &order)
            }
            Op::Cat { dim, lhs, rhs } => shape::cat(&map_operand(env.tile(*lhs)), &map_operand(env.tile(*rhs)), *dim as usize),
            Op::Extract { source, indices } => {
                let slice = shape::extract(&map_operand(env.tile(*source)), self.result_type(op).0, &slice_index(indices));
                slice.ok_or_else(outside_tile)?
            }
            Op::Insert { source, destination, indices } => {
                shape::insert(&map_operand(env.tile(*source)), &map_operand(env.tile(*destination)), &slice_index(indices))
                    .ok_or_else(outside_tile)?
            }
            Op::Iota {} => {
                let (shape, elem) = self.result_type(op);
                shape::iota(shape, elem)
            }
            Op::Pack { source } | Op::Unpack { source } => {
                let (shape, elem) = self.result_type(op);
                shape::reinterpret(env.tile(*source), shape, elem)
            }
            _ => return Ok(None),
        }))
    }

    /// Executes an MMA.
    pub(super) fn mma(&self, kind: &Op, env: &Env<'_>) -> Tile {
        match *kind {
            Op::MmaF { lhs, rhs, acc, .. } => mma::float_mma(env.tile(lhs), env.tile(rhs), env.tile(acc)),
            Op::MmaI { signedness_lhs, signedness_rhs, lhs, rhs, acc } => {
                mma::int_mma(env.tile(lhs), signedness_lhs, env.tile(rhs), signedness_rhs, env.tile(acc))
            }
            Op::MmaFScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => {
                mma::scaled_mma(env.tile(lhs), env.tile(rhs), env.tile(acc), env.tile(lhs_scale), env.tile(rhs_scale))
            }
            _ => unreachable!("handles MMA ops only"),
        }
    }
}
