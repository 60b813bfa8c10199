//! Generators of atomic ops. An atomic op returns the old values in memory. In memory that several tile blocks access, the old
//! values depend on timing, so no op uses them. Later ops use only the old values of memory that a single tile block accesses.

use crate::builder::{TileKind, View, ViewKind};
use crate::program::Generator;
use crate::views::Tensor;
use base::ir::Value;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope};
use numerics::Scalar;
use tileir::Op;

/// Element count of an output that all tile blocks access atomically.
const SHARED_ELEMENTS: i64 = 64;

impl Generator {
    /// Chooses a mode whose operations commute for the element type.
    fn commutative_mode(&mut self, scalar: Scalar) -> AtomicMode {
        use AtomicMode::{Add, AddF, And, Max, Min, Or, UMax, UMin, Xor};
        match scalar.is_int() {
            true => self.random.pick(&[Add, Add, Max, Min, UMax, UMin, Xor, Or, And]),
            false => AddF,
        }
    }

    /// Chooses the memory ordering of an atomic op.
    fn atomic_ordering(&mut self) -> MemoryOrdering {
        use MemoryOrdering::{AcqRel, Acquire, Relaxed, Release};
        self.random.pick(&[Relaxed, Relaxed, Acquire, Release, AcqRel])
    }

    /// Emits the operand of an atomic. Floats are small integers, so every sum is exact.
    fn atomic_operand(&mut self, kind: &TileKind) -> Value {
        if kind.scalar.is_int() { self.tile_of_kind(kind) } else { self.small_integers(kind, 1) }
    }

    /// Emits an atomic read-modify-write op through a tile of pointers. Returns the old values and the token.
    fn read_modify_write(
        &mut self,
        mode: AtomicMode,
        pointers: Value,
        arg: Value,
        kind: &TileKind,
        mask: Option<Value>,
        token: Option<Value>,
    ) -> Vec<Value> {
        let types = [self.builder.tile_type(kind), self.builder.token_type()];
        let (memory_ordering, memory_scope) = (self.atomic_ordering(), MemoryScope::Device);
        self.builder.emit_with_types(Op::AtomicRMWTko { memory_ordering, memory_scope, mode, pointers, arg, mask, token }, &types)
    }

    /// Emits an atomic op on a new output that all tile blocks access. The mode is commutative, so the final contents do not depend
    /// on the order of the tile blocks.
    pub(crate) fn shared_atomics(&mut self) {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16]);
        // These types cannot represent the sum of many elements exactly, so the tile is small.
        let is_low_precision = matches!(scalar, Scalar::F16 | Scalar::BF16);
        let shape = if is_low_precision { vec![4] } else { self.any_shape() };
        if is_low_precision && self.loop_depth > 0 {
            return;
        }
        let kind = TileKind::new(scalar, &shape);
        let mode = self.commutative_mode(scalar);
        if self.random.one_in(3) && !shape.is_empty() && !is_low_precision {
            return self.shared_view_atomic(&kind, mode);
        }
        let pointer = self.add_output(kind.scalar, SHARED_ELEMENTS, 0.0);
        let (offset, arg) = (self.integers_below(SHARED_ELEMENTS, &shape), self.atomic_operand(&kind));
        let pointers = self.pointers(pointer, kind.scalar, offset, &shape);
        let mask = self.random.one_in(2).then(|| self.tile_of_kind(&kind.with_scalar(Scalar::I1)));
        self.read_modify_write(mode, pointers, arg, &kind, mask, None);
    }

    /// Emits an atomic through a view. All tile blocks access the same tile.
    fn shared_view_atomic(&mut self, kind: &TileKind, mode: AtomicMode) {
        let base = self.add_output(kind.scalar, kind.count(), 0.0);
        let dims: Vec<usize> = (0..kind.shape.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &kind.shape, &dims, base);
        let view = self.view(&tensor, &View { kind: ViewKind::Partition, tile: kind.shape.clone(), dim_map: dims }, None);
        let index = vec![self.index_constant(0); kind.shape.len()].into();
        let value = self.atomic_operand(kind);
        let (memory_ordering, memory_scope, ty) = (MemoryOrdering::Relaxed, MemoryScope::Device, self.builder.token_type());
        let op =
            Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds: Box::default(), view, index, value, token: None };
        self.builder.emit_with_type(op, ty);
    }

    /// Emits two atomic ops on elements that no other tile block accesses. The old values of unmasked ops join the pool.
    pub(crate) fn private_atomics(&mut self) {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::F32]);
        let kind = TileKind::new(scalar, &self.any_shape());
        let pointer = self.add_output(scalar, kind.count() * self.grid, 0.0);
        let mut token = None;
        for _ in 0..2 {
            let mode = if self.random.one_in(3) { AtomicMode::Xchg } else { self.commutative_mode(scalar) };
            let offset = self.private_indices(&kind.shape);
            let (pointers, arg) = (self.pointers(pointer, scalar, offset, &kind.shape), self.atomic_operand(&kind));
            let mask = self.random.one_in(2).then(|| self.tile_of_kind(&kind.with_scalar(Scalar::I1)));
            let results = self.read_modify_write(mode, pointers, arg, &kind, mask, token);
            // Tile IR leaves the result of a masked-off element undefined.
            if mask.is_none() {
                self.add_to_pool(results[0], kind.clone());
            }
            token = Some(results[1]);
        }
    }

    /// Emits two compare-and-swap ops that succeed for some elements and fail for others.
    pub(crate) fn compare_and_swap(&mut self) {
        let kind = TileKind::new(self.random.pick(&[Scalar::I32, Scalar::I64]), &self.any_shape());
        let pointer = self.add_output(kind.scalar, kind.count() * self.grid, 0.0);
        let mut token = None;
        for _ in 0..2 {
            let offset = self.private_indices(&kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let one = self.splat(&kind, 1);
            let expected = self.tile_of_kind(&kind);
            let cmp = self.builder.emit_and(&kind, expected, one);
            let desired = self.tile_of_kind(&kind);
            let val = self.builder.emit_and(&kind, desired, one);
            let types = [self.builder.tile_type(&kind), self.builder.token_type()];
            let (memory_ordering, memory_scope) = (self.atomic_ordering(), MemoryScope::Device);
            let op = Op::AtomicCASTko { memory_ordering, memory_scope, pointers, cmp, val, mask: None, token };
            let results = self.builder.emit_with_types(op, &types);
            self.add_to_pool(results[0], kind.clone());
            token = Some(results[1]);
        }
    }
}
