//! Rules for memory accesses and MMAs that all formats share.

use super::{CoreDialectType, CoreType, OpContext, RuleResult, require};
use crate::memory::{AtomicMode, MemoryOrdering, MulticastReduction, Order};
use crate::tile::{Elem, View, ViewKind};
use base::Value;
use base::ir::Operation;
use numerics::Scalar;

/// The memory orderings that a load may have.
pub const LOAD_ORDERINGS: [MemoryOrdering; 3] = [MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Acquire];
/// The memory orderings that a store may have.
pub const STORE_ORDERINGS: [MemoryOrdering; 3] = [MemoryOrdering::Weak, MemoryOrdering::Relaxed, MemoryOrdering::Release];
/// The memory orderings that an atomic access may have.
pub const ATOMIC_ORDERINGS: [MemoryOrdering; 4] =
    [MemoryOrdering::Relaxed, MemoryOrdering::Acquire, MemoryOrdering::Release, MemoryOrdering::AcqRel];

impl<'a, O: Operation, T: CoreDialectType> OpContext<'a, O, T> {
    /// Checks the indices of an access to a tile of a view, and returns the type of the view.
    pub fn accessed_view(&self, view: Value, index: &[Value], in_bounds: &[bool]) -> Result<&'a View, String> {
        let CoreType::View(view) = self.core_type(view) else { return Err(format!("{view} is not a view")) };
        let rank = view.tile.len();
        require(index.len() == rank, || format!("it takes {rank} indices"))?;
        require(in_bounds.is_empty() || in_bounds.len() == rank, || "in_bounds has an entry for each dimension".into())?;
        for (t, &index) in index.iter().enumerate() {
            let (scalar, shape) = self.scalar_tile(index)?;
            let index_shape = match view.kind {
                ViewKind::Gather { sparse_dim } if sparse_dim as usize == t => &view.tile[t..=t],
                _ => &[],
            };
            require(scalar.is_int() && shape == index_shape, || format!("{index} cannot be index {t} of the view"))?;
        }
        Ok(view)
    }

    /// Returns the type of the tile that an access through the tile of pointers `ptr` reads or writes.
    pub fn pointee_tile(&self, ptr: Value) -> Result<CoreType<'a>, String> {
        match self.tile(ptr)? {
            (Elem::Ptr { pointee, .. }, shape) => Ok(CoreType::Tile { elem: Elem::Scalar(pointee), shape }),
            _ => Err(format!("{ptr} holds no pointers")),
        }
    }

    /// Checks the mask of an access through pointers.
    pub fn check_mask(&self, mask: Option<Value>, ptr: Value) -> RuleResult {
        let Some(mask) = mask else { return Ok(()) };
        let (scalar, shape) = self.scalar_tile(mask)?;
        require(scalar == Scalar::I1 && shape == self.tile(ptr)?.1, || "the mask holds i1 in the shape of the pointers".into())
    }

    /// Checks the memory ordering, scope and token of an access.
    pub fn check_order(&self, order: Order, token: Option<Value>, allowed: &[MemoryOrdering]) -> RuleResult {
        self.check_tokens(token)?;
        require(allowed.contains(&order.semantics), || "the access does not support this ordering".into())?;
        let weak = order.semantics == MemoryOrdering::Weak;
        require(weak == order.scope.is_none(), || "an access has a scope exactly when it is not weak".into())
    }

    /// Checks a load through pointers.
    pub fn check_load(
        &self,
        ptr: Value,
        mask: Option<Value>,
        other: Option<Value>,
        order: Order,
        token: Option<Value>,
    ) -> RuleResult {
        let result = self.pointee_tile(ptr)?;
        self.check_mask(mask, ptr)?;
        other.iter().try_for_each(|other| self.check_types(&[*other], result))?;
        self.check_order(order, token, &LOAD_ORDERINGS)?;
        self.check_results(&[result, CoreType::Token])
    }

    /// Checks a store through pointers.
    pub fn check_store(&self, ptr: Value, value: Value, mask: Option<Value>, order: Order, token: Option<Value>) -> RuleResult {
        self.check_types(&[value], self.pointee_tile(ptr)?)?;
        self.check_mask(mask, ptr)?;
        self.check_order(order, token, &STORE_ORDERINGS)?;
        self.check_results(&[CoreType::Token])
    }

    /// Checks an atomic read-modify-write, or a compare-and-swap if `mode` is `None`. `values` are the operands besides the
    /// pointer.
    pub fn check_atomic(
        &self,
        mode: Option<AtomicMode>,
        ptr: Value,
        values: &[Value],
        mask: Option<Value>,
        order: Order,
        token: Option<Value>,
    ) -> RuleResult {
        let result = self.pointee_tile(ptr)?;
        self.check_types(values, result)?;
        self.check_mask(mask, ptr)?;
        self.check_order(order, token, &ATOMIC_ORDERINGS)?;
        let scalar = self.scalar_tile(values[0])?.0;
        match mode {
            Some(mode) => require(atomic_supports(mode, scalar), || "this atomic operation does not exist".into())?,
            None => require(has_32_or_64_bits(scalar), || "it compares 32 or 64 bits".into())?,
        }
        self.check_results(&[result, CoreType::Token])
    }

    /// Checks a reduction of a tile into memory through a view.
    #[expect(clippy::too_many_arguments, reason = "one for each field of the op")]
    pub fn check_reduce_view(
        &self,
        mode: AtomicMode,
        tile: Value,
        view: Value,
        index: &[Value],
        in_bounds: &[bool],
        order: Order,
        token: Option<Value>,
    ) -> RuleResult {
        let view = self.accessed_view(view, index, in_bounds)?;
        self.check_types(&[tile], CoreType::of_view(view))?;
        self.check_order(order, token, &ATOMIC_ORDERINGS)?;
        let is_supported_view = !matches!(view.kind, ViewKind::Gather { .. }) && mode != AtomicMode::Xchg;
        require(is_supported_view && atomic_supports(mode, view.memref.elem), || {
            "this reduction into memory does not exist".into()
        })?;
        self.check_results(&[CoreType::Token])
    }

    /// Checks an access to multicast memory: a store of the tile `stored`, or a load if `stored` is `None`. A store without
    /// `reduction` replaces the old content.
    pub fn check_multicast(
        &self,
        view: Value,
        index: &[Value],
        in_bounds: &[bool],
        stored: Option<Value>,
        reduction: Option<MulticastReduction>,
        order: Order,
        token: Option<Value>,
    ) -> RuleResult {
        let view = self.accessed_view(view, index, in_bounds)?;
        let tile = CoreType::of_view(view);
        self.check_types(stored.as_slice(), tile)?;
        let orders: &[MemoryOrdering] = match (stored, reduction) {
            (None, _) => &LOAD_ORDERINGS,
            (Some(_), None) => &STORE_ORDERINGS,
            (Some(_), Some(_)) => &STORE_ORDERINGS[1..],
        };
        self.check_order(order, token, orders)?;
        let exists = view.kind == ViewKind::Partition && multicast_supports(reduction, stored.is_none(), view.memref.elem);
        require(exists, || "there is no such access to multicast memory".into())?;
        match stored {
            Some(_) => self.check_results(&[CoreType::Token]),
            None => self.check_results(&[tile, CoreType::Token]),
        }
    }

    /// Checks that the shapes `lhs` and `rhs` of the operands form an MMA with the accumulator `acc`. The result must have the type
    /// of the accumulator.
    pub fn check_mma(&self, lhs: &[u32], rhs: &[u32], acc: Value) -> RuleResult {
        let (elem, out) = self.tile(acc)?;
        let rank = out.len();
        let fits = (rank == 2 || rank == 3) && lhs.len() == rank && rhs.len() == rank && {
            let [m, n] = [rank - 2, rank - 1];
            lhs[m] == out[m] && rhs[n] == out[n] && lhs[n] == rhs[m] && lhs[..m] == out[..m] && rhs[..m] == out[..m]
        };
        require(fits, || "the shapes do not form an MMA".into())?;
        self.check_results(&[CoreType::Tile { elem, shape: out }])
    }

    /// Checks an MMA with a scale for each block of elements along K. Operands of type i8 hold pairs of 4-bit floats, which are
    /// adjacent along K; the low four bits are the first float.
    pub fn check_scaled_mma(&self, [lhs, rhs]: [Value; 2], acc: Value, [lhs_scale, rhs_scale]: [Value; 2]) -> RuleResult {
        use Scalar::*;
        let [(a, left), (b, right)] = [self.scalar_tile(lhs)?, self.scalar_tile(rhs)?];
        self.check_mma(left, right, acc)?;
        let (scale, other_scale) = (self.scalar_tile(lhs_scale)?, self.scalar_tile(rhs_scale)?);
        let has_scaled_mma = a == b
            && self.tile(acc)?.0 == Elem::Scalar(F32)
            && scale.0 == other_scale.0
            && matches!(a, F8E4M3FN | F8E5M2 | F4E2M1FN | I8);
        require(has_scaled_mma && matches!(scale.0, F8E8M0FNU | F8E4M3FN | F8E5M3FNU), || {
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
pub fn check_mma_types(a: Scalar, b: Scalar, acc: Scalar) -> RuleResult {
    use Scalar::*;
    let exists = a == b
        && match a {
            I8 => acc == I32,
            F16 | F8E4M3FN | F8E5M2 => matches!(acc, F16 | F32),
            BF16 | TF32 | F32 => acc == F32,
            F64 => acc == F64,
            _ => false,
        };
    require(exists, || format!("there is no MMA of {a} and {b} into {acc}"))
}

/// Returns whether a multicast access supports an element type. `reduction` is the operation with which the access combines
/// elements. `is_load` distinguishes a load from a store.
fn multicast_supports(reduction: Option<MulticastReduction>, is_load: bool, scalar: Scalar) -> bool {
    use MulticastReduction::{Add, Max, Min};
    let is_half = matches!(scalar, Scalar::F16 | Scalar::BF16);
    match reduction {
        None | Some(Add) => has_32_or_64_bits(scalar) || is_half,
        Some(Min | Max) if is_load && is_half => true,
        Some(_) => matches!(scalar, Scalar::I32 | Scalar::I64),
    }
}

/// Returns whether a type is an integer or float of 32 or 64 bits. TF32, which occupies 32 bits, is excluded.
fn has_32_or_64_bits(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64)
}

/// Returns whether an atomic operation supports an element type.
fn atomic_supports(mode: AtomicMode, scalar: Scalar) -> bool {
    match mode {
        AtomicMode::AddF => matches!(scalar, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64),
        AtomicMode::Xchg => has_32_or_64_bits(scalar),
        _ => matches!(scalar, Scalar::I32 | Scalar::I64),
    }
}
