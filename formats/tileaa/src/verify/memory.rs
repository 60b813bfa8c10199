//! Operand and result types of the ops that touch memory or combine elements.

use super::ops::{Uses, is_ptr};
use super::{Rule, require};
use crate::ops::{Identity, Order};
use crate::{Op, Type};
use base::memory::{AtomicMode, MemoryOrdering};
use base::tile::{Elem, Shape, View, ViewKind};
use base::{Scalar, Value};

impl Uses<'_> {
    pub(super) fn memory(&self) -> Rule {
        match &self.op.kind {
            Op::Core(_) => unreachable!("shared ops have their own rules"),
            Op::LoadView { view, index, token, order, in_bounds, .. } => {
                let view = self.view(*view, index, in_bounds)?;
                self.ordered(*order, *token, &[MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Acquire])?;
                self.results(&[tile_of(view), Type::Token])
            }
            Op::StoreView { tile, view, index, token, order, in_bounds, .. } => {
                let view = self.view(*view, index, in_bounds)?;
                self.same(&[*tile], &tile_of(view))?;
                self.ordered(*order, *token, &[MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Release])?;
                self.results(&[Type::Token])
            }
            Op::ReduceView { tile, view, index, token, order, mode } => {
                let view = self.view(*view, index, &[])?;
                self.same(&[*tile], &tile_of(view))?;
                self.ordered(*order, *token, &STRONG)?;
                let plain = !matches!(view.kind, ViewKind::Gather { .. }) && view.padding.is_none() && *mode != AtomicMode::Xchg;
                require(plain && combines(*mode, view.memref.elem), || "this reduction into memory does not exist".into())?;
                self.results(&[Type::Token])
            }
            Op::Load { ptr, mask, other, token, order, .. } => {
                let result = self.pointed(*ptr)?;
                self.masked(*mask, *ptr)?;
                other.iter().try_for_each(|other| self.same(&[*other], &result))?;
                self.ordered(*order, *token, &[MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Acquire])?;
                self.results(&[result, Type::Token])
            }
            Op::Store { ptr, value, mask, token, order, .. } => {
                self.same(&[*value], &self.pointed(*ptr)?)?;
                self.masked(*mask, *ptr)?;
                self.ordered(*order, *token, &[MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Release])?;
                self.results(&[Type::Token])
            }
            Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                let result = self.pointed(*ptr)?;
                self.same(&[*value], &result)?;
                self.masked(*mask, *ptr)?;
                self.ordered(*order, *token, &STRONG)?;
                require(combines(*mode, self.number(*value)?.0), || "this atomic operation does not exist".into())?;
                self.results(&[result, Type::Token])
            }
            Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                let result = self.pointed(*ptr)?;
                self.same(&[*compare, *value], &result)?;
                self.masked(*mask, *ptr)?;
                self.ordered(*order, *token, &STRONG)?;
                require(is_word(self.number(*value)?.0), || "it compares 32 or 64 bits".into())?;
                self.results(&[result, Type::Token])
            }
            Op::Reduce { operands, dim, identities, .. } => self.combination(operands, *dim as usize, identities, true),
            Op::Scan { operands, dim, identities, .. } => self.combination(operands, *dim as usize, identities, false),
            Op::Mma { lhs, rhs, acc, .. } => self.mma(*lhs, *rhs, *acc),
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => self.mma_scaled(*lhs, *rhs, *acc, *lhs_scale, *rhs_scale),
        }
    }

    fn view(&self, view: Value, index: &[Value], in_bounds: &[bool]) -> Result<&View, String> {
        let Type::View(view) = self.ty(view) else { return Err(format!("{view} is not a view")) };
        let rank = view.tile.len();
        require(index.len() == rank, || format!("it takes {rank} indices"))?;
        require(in_bounds.is_empty() || in_bounds.len() == rank, || "in_bounds has an entry for each dimension".into())?;
        for (t, &index) in index.iter().enumerate() {
            let (scalar, shape) = self.number(index)?;
            let rows = match view.kind {
                ViewKind::Gather { sparse_dim } if sparse_dim as usize == t => [view.tile[t]].into_iter().collect(),
                _ => Shape::new(),
            };
            require(scalar.is_int() && *shape == rows, || format!("{index} cannot be index {t} of the view"))?;
        }
        Ok(view)
    }

    /// The type of what a tile of pointers points to.
    fn pointed(&self, ptr: Value) -> Result<Type, String> {
        match self.tile(ptr)? {
            (Elem::Ptr { pointee, .. }, shape) => Ok(Type::Tile { elem: Elem::Scalar(pointee), shape: shape.clone() }),
            _ => Err(format!("{ptr} holds no pointers")),
        }
    }

    fn masked(&self, mask: Option<Value>, ptr: Value) -> Rule {
        let Some(mask) = mask else { return Ok(()) };
        let (scalar, shape) = self.number(mask)?;
        require(scalar == Scalar::I1 && shape == self.tile(ptr)?.1, || "the mask holds i1 in the shape of the pointers".into())
    }

    fn ordered(&self, order: Order, token: Option<Value>, allowed: &[MemoryOrdering]) -> Rule {
        self.tokens(token)?;
        require(allowed.contains(&order.semantics), || "the access cannot be ordered so".into())?;
        let weak = order.semantics == MemoryOrdering::Weak;
        require(weak == order.scope.is_none(), || "an access has a scope exactly when it is not weak".into())
    }

    fn combination(&self, operands: &[Value], dim: usize, identities: &[Identity], reduces: bool) -> Rule {
        let counts = [operands.len(), identities.len(), self.op.results.len()];
        require(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), || {
            "operands, identities and results differ in number".into()
        })?;
        let shape = self.tile(operands[0])?.1;
        require(dim < shape.len(), || "there is no such dimension".into())?;
        let mut left = shape.clone();
        if reduces {
            left.remove(dim);
        }
        for ((&operand, &result), identity) in operands.iter().zip(&self.op.results).zip(identities) {
            let (elem, other) = self.tile(operand)?;
            require(other == shape && !is_ptr(elem), || "operands are numbers of one shape".into())?;
            require(identity.0 & !elem.carrier().mask() == 0, || "an identity has bits beyond its type".into())?;
            require(*self.ty(result) == Type::Tile { elem, shape: left.clone() }, || "a result does not fit its operand".into())?;
        }
        Ok(())
    }

    /// The elements of the three tiles of a product whose shapes fit.
    fn product(&self, lhs: Value, rhs: Value, acc: Value) -> Result<[Scalar; 3], String> {
        let [(a, lhs), (b, rhs), (c, out)] = [self.number(lhs)?, self.number(rhs)?, self.number(acc)?];
        let rank = out.len();
        let fits = (rank == 2 || rank == 3) && lhs.len() == rank && rhs.len() == rank && {
            let [m, n] = [rank - 2, rank - 1];
            lhs[m] == out[m] && rhs[n] == out[n] && lhs[n] == rhs[m] && lhs[..m] == out[..m] && rhs[..m] == out[..m]
        };
        require(fits, || "the shapes do not make a product".into())?;
        self.results(&[self.ty(acc).clone()])?;
        Ok([a, b, c])
    }

    fn mma(&self, lhs: Value, rhs: Value, acc: Value) -> Rule {
        use Scalar::*;
        let [a, b, c] = self.product(lhs, rhs, acc)?;
        let known = a == b
            && match a {
                I8 => c == I32,
                F16 | F8E4M3FN | F8E5M2 => matches!(c, F16 | F32),
                BF16 | TF32 | F32 => c == F32,
                F64 => c == F64,
                _ => false,
            };
        require(known, || format!("there is no product of {a} and {b} into {c}"))
    }

    fn mma_scaled(&self, lhs: Value, rhs: Value, acc: Value, lhs_scale: Value, rhs_scale: Value) -> Rule {
        use Scalar::*;
        let [a, b, c] = self.product(lhs, rhs, acc)?;
        let (scale, other_scale) = (self.number(lhs_scale)?, self.number(rhs_scale)?);
        let known = a == b && c == F32 && scale.0 == other_scale.0 && matches!(a, F8E4M3FN | F8E5M2 | F4E2M1FN);
        require(known && matches!(scale.0, F8E8M0FNU | F8E4M3FN), || format!("there is no scaled product of {a} and {b}"))?;
        let (left, right) = (self.number(lhs)?.1, self.number(rhs)?.1);
        let [m, n] = [left.len() - 2, left.len() - 1];
        let same_rank = scale.1.len() == left.len() && other_scale.1.len() == left.len();
        let fits = same_rank
            && scale.1[..n] == left[..n]
            && other_scale.1[n] == right[n]
            && other_scale.1[..m] == right[..m]
            && scale.1[n] == other_scale.1[m]
            && left[n] % scale.1[n] == 0;
        let block = if fits { left[n] / scale.1[n] } else { 0 };
        let blocks: &[u32] = match (a, scale.0) {
            (F4E2M1FN, F8E4M3FN) => &[16],
            (F4E2M1FN, _) => &[16, 32],
            _ => &[32],
        };
        require(blocks.contains(&block), || "the scales do not fit the operands".into())
    }
}

const STRONG: [MemoryOrdering; 4] =
    [MemoryOrdering::Relaxed, MemoryOrdering::Acquire, MemoryOrdering::Release, MemoryOrdering::AcqRel];

fn tile_of(view: &View) -> Type {
    Type::Tile { elem: Elem::Scalar(view.memref.elem), shape: view.tile.clone() }
}

fn is_word(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64)
}

fn combines(mode: AtomicMode, scalar: Scalar) -> bool {
    match mode {
        AtomicMode::AddF => matches!(scalar, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64),
        AtomicMode::Xchg => is_word(scalar),
        _ => matches!(scalar, Scalar::I32 | Scalar::I64),
    }
}
