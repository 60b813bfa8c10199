//! Rules for memory accesses and MMAs that all formats share.

use super::{MiddleType, Rule, Seen, Uses, require};
use crate::memory::{AtomicMode, MemoryOrdering, MulticastReduction, Order};
use crate::tile::{Elem, View, ViewKind};
use base::Value;
use base::ir::Operation;
use numerics::Scalar;

/// The memory orderings of a load, a store and an atomic access.
pub const LOAD_ORDERINGS: [MemoryOrdering; 3] = [MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Acquire];
pub const STORE_ORDERINGS: [MemoryOrdering; 3] = [MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Release];
pub const ATOMIC_ORDERINGS: [MemoryOrdering; 4] =
    [MemoryOrdering::Relaxed, MemoryOrdering::Acquire, MemoryOrdering::Release, MemoryOrdering::AcqRel];

impl<'a, O: Operation, T: MiddleType> Uses<'a, O, T> {
    /// The view that an access reads or writes at an index.
    pub fn view(&self, view: Value, index: &[Value], in_bounds: &[bool]) -> Result<&'a View, String> {
        let Seen::View(view) = self.seen(view) else { return Err(format!("{view} is not a view")) };
        let rank = view.tile.len();
        require(index.len() == rank, || format!("it takes {rank} indices"))?;
        require(in_bounds.is_empty() || in_bounds.len() == rank, || "in_bounds has an entry for each dimension".into())?;
        for (t, &index) in index.iter().enumerate() {
            let (scalar, shape) = self.number(index)?;
            let index_shape = match view.kind {
                ViewKind::Gather { sparse_dim } if sparse_dim as usize == t => &view.tile[t..=t],
                _ => &[],
            };
            require(scalar.is_int() && shape == index_shape, || format!("{index} cannot be index {t} of the view"))?;
        }
        Ok(view)
    }

    /// The type of the tile that an access through a tile of pointers reads or writes.
    pub fn pointee_tile(&self, ptr: Value) -> Result<Seen<'a>, String> {
        match self.tile(ptr)? {
            (Elem::Ptr { pointee, .. }, shape) => Ok(Seen::Tile { elem: Elem::Scalar(pointee), shape }),
            _ => Err(format!("{ptr} holds no pointers")),
        }
    }

    /// Checks the mask of an access through pointers.
    pub fn masked(&self, mask: Option<Value>, ptr: Value) -> Rule {
        let Some(mask) = mask else { return Ok(()) };
        let (scalar, shape) = self.number(mask)?;
        require(scalar == Scalar::I1 && shape == self.tile(ptr)?.1, || "the mask holds i1 in the shape of the pointers".into())
    }

    /// Checks the memory ordering, scope and token of an access.
    pub fn ordered(&self, order: Order, token: Option<Value>, allowed: &[MemoryOrdering]) -> Rule {
        self.tokens(token)?;
        require(allowed.contains(&order.semantics), || "the access does not support this ordering".into())?;
        let weak = order.semantics == MemoryOrdering::Weak;
        require(weak == order.scope.is_none(), || "an access has a scope exactly when it is not weak".into())
    }

    pub fn load(&self, ptr: Value, mask: Option<Value>, other: Option<Value>, order: Order, token: Option<Value>) -> Rule {
        let result = self.pointee_tile(ptr)?;
        self.masked(mask, ptr)?;
        other.iter().try_for_each(|other| self.same(&[*other], result))?;
        self.ordered(order, token, &LOAD_ORDERINGS)?;
        self.results(&[result, Seen::Token])
    }

    pub fn store(&self, ptr: Value, value: Value, mask: Option<Value>, order: Order, token: Option<Value>) -> Rule {
        self.same(&[value], self.pointee_tile(ptr)?)?;
        self.masked(mask, ptr)?;
        self.ordered(order, token, &STORE_ORDERINGS)?;
        self.results(&[Seen::Token])
    }

    /// A read-modify-write with a mode, or a compare-and-swap without one: `values` are its operands besides the pointer.
    pub fn atomic(
        &self,
        mode: Option<AtomicMode>,
        ptr: Value,
        values: &[Value],
        mask: Option<Value>,
        order: Order,
        token: Option<Value>,
    ) -> Rule {
        let result = self.pointee_tile(ptr)?;
        self.same(values, result)?;
        self.masked(mask, ptr)?;
        self.ordered(order, token, &ATOMIC_ORDERINGS)?;
        let scalar = self.number(values[0])?.0;
        match mode {
            Some(mode) => require(atomic_supports(mode, scalar), || "this atomic operation does not exist".into())?,
            None => require(has_32_or_64_bits(scalar), || "it compares 32 or 64 bits".into())?,
        }
        self.results(&[result, Seen::Token])
    }

    /// A reduction of a tile into memory through a view.
    #[expect(clippy::too_many_arguments, reason = "one for each field of the op")]
    pub fn reduce_view(
        &self,
        mode: AtomicMode,
        tile: Value,
        view: Value,
        index: &[Value],
        in_bounds: &[bool],
        order: Order,
        token: Option<Value>,
    ) -> Rule {
        let view = self.view(view, index, in_bounds)?;
        self.same(&[tile], Seen::of_view(view))?;
        self.ordered(order, token, &ATOMIC_ORDERINGS)?;
        let plain = !matches!(view.kind, ViewKind::Gather { .. }) && mode != AtomicMode::Xchg;
        require(plain && atomic_supports(mode, view.memref.elem), || "this reduction into memory does not exist".into())?;
        self.results(&[Seen::Token])
    }

    /// An access of a tile to multicast memory: a load, or a store that replaces or combines (`reduction`).
    pub fn multicast(
        &self,
        (view, index, in_bounds): (Value, &[Value], &[bool]),
        stored: Option<Value>,
        reduction: Option<MulticastReduction>,
        order: Order,
        token: Option<Value>,
    ) -> Rule {
        let view = self.view(view, index, in_bounds)?;
        let tile = Seen::of_view(view);
        self.same(stored.as_slice(), tile)?;
        let orders: &[MemoryOrdering] = match (stored, reduction) {
            (None, _) => &LOAD_ORDERINGS,
            (Some(_), None) => &STORE_ORDERINGS,
            (Some(_), Some(_)) => &STORE_ORDERINGS[1..],
        };
        self.ordered(order, token, orders)?;
        let exists = view.kind == ViewKind::Partition && multicast_supports(reduction, stored.is_none(), view.memref.elem);
        require(exists, || "there is no such access to multicast memory".into())?;
        match stored {
            Some(_) => self.results(&[Seen::Token]),
            None => self.results(&[tile, Seen::Token]),
        }
    }

    /// The extents of an MMA are those of its operands and accumulator, and its result has the accumulator's type.
    pub fn mma(&self, lhs: &[u32], rhs: &[u32], acc: Value) -> Rule {
        let (elem, out) = self.tile(acc)?;
        let rank = out.len();
        let fits = (rank == 2 || rank == 3) && lhs.len() == rank && rhs.len() == rank && {
            let [m, n] = [rank - 2, rank - 1];
            lhs[m] == out[m] && rhs[n] == out[n] && lhs[n] == rhs[m] && lhs[..m] == out[..m] && rhs[..m] == out[..m]
        };
        require(fits, || "the shapes do not form an MMA".into())?;
        self.results(&[Seen::Tile { elem, shape: out }])
    }

    /// An MMA with a scale for each block of elements along K. Bytes are pairs of 4-bit floats along K, the lower half first.
    pub fn scaled_mma(&self, [lhs, rhs]: [Value; 2], acc: Value, [lhs_scale, rhs_scale]: [Value; 2]) -> Rule {
        use Scalar::*;
        let [(a, left), (b, right)] = [self.number(lhs)?, self.number(rhs)?];
        self.mma(left, right, acc)?;
        let (scale, other_scale) = (self.number(lhs_scale)?, self.number(rhs_scale)?);
        let known = a == b
            && self.tile(acc)?.0 == Elem::Scalar(F32)
            && scale.0 == other_scale.0
            && matches!(a, F8E4M3FN | F8E5M2 | F4E2M1FN | I8);
        require(known && matches!(scale.0, F8E8M0FNU | F8E4M3FN | F8E5M3FNU), || {
            format!("there is no block-scaled MMA of {a} and {b}")
        })?;
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
            (I8, F8E4M3FN) => &[8],
            (I8, _) => &[8, 16],
            (_, F8E8M0FNU) => &[32],
            _ => &[],
        };
        require(blocks.contains(&block), || "the scales do not fit the operands".into())
    }
}

/// Checks that there is an MMA with these element types.
pub fn has_mma(a: Scalar, b: Scalar, acc: Scalar) -> Rule {
    use Scalar::*;
    let known = a == b
        && match a {
            I8 => acc == I32,
            F16 | F8E4M3FN | F8E5M2 => matches!(acc, F16 | F32),
            BF16 | TF32 | F32 => acc == F32,
            F64 => acc == F64,
            _ => false,
        };
    require(known, || format!("there is no MMA of {a} and {b} into {acc}"))
}

/// Returns whether a multicast access supports such elements: a reduction, or a plain store.
fn multicast_supports(reduction: Option<MulticastReduction>, loads: bool, scalar: Scalar) -> bool {
    use MulticastReduction::{Add, Max, Min};
    let half = matches!(scalar, Scalar::F16 | Scalar::BF16);
    match reduction {
        None | Some(Add) => has_32_or_64_bits(scalar) || half,
        Some(Min | Max) if loads && half => true,
        Some(_) => matches!(scalar, Scalar::I32 | Scalar::I64),
    }
}

fn has_32_or_64_bits(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64)
}

fn atomic_supports(mode: AtomicMode, scalar: Scalar) -> bool {
    match mode {
        AtomicMode::AddF => matches!(scalar, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64),
        AtomicMode::Xchg => has_32_or_64_bits(scalar),
        _ => matches!(scalar, Scalar::I32 | Scalar::I64),
    }
}
