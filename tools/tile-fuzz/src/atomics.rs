//! Atomic ops: on memory shared by all blocks, where the old value is not used, and on private memory of a block.

use crate::builder::{Kind, View, ViewKind};
use crate::program::Generator;
use crate::views::Tensor;
use base::ir::Value;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope};
use numerics::Scalar;
use tileir::Op;

/// Element count of the memory that all tile blocks share.
const SHARED: i64 = 64;

impl Generator {
    /// Chooses a mode whose operations commute for the element type.
    fn commuting(&mut self, scalar: Scalar) -> AtomicMode {
        use AtomicMode::{Add, AddF, And, Max, Min, Or, UMax, UMin, Xor};
        match scalar.is_int() {
            true => self.random.pick(&[Add, Add, Max, Min, UMax, UMin, Xor, Or, And]),
            false => AddF,
        }
    }

    fn ordering(&mut self) -> MemoryOrdering {
        use MemoryOrdering::{AcqRel, Acquire, Relaxed, Release};
        self.random.pick(&[Relaxed, Relaxed, Acquire, Release, AcqRel])
    }

    /// Emits the operand of an atomic. Floats are small integers, so every sum is exact.
    fn amount(&mut self, kind: &Kind) -> Value {
        if kind.scalar.is_int() { self.some(kind) } else { self.small(kind, 1) }
    }

    fn read_modify_write(
        &mut self,
        mode: AtomicMode,
        pointers: Value,
        arg: Value,
        kind: &Kind,
        mask: Option<Value>,
        token: Option<Value>,
    ) -> Vec<Value> {
        let types = [self.build.tile(kind), self.build.token()];
        let (memory_ordering, memory_scope) = (self.ordering(), MemoryScope::Device);
        self.build.ops(Op::AtomicRMWTko { memory_ordering, memory_scope, mode, pointers, arg, mask, token }, &types)
    }

    pub(crate) fn shared_atomic(&mut self) {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16]);
        // These types cannot represent the sum of all elements exactly.
        let few = matches!(scalar, Scalar::F16 | Scalar::BF16);
        let shape = if few { vec![4] } else { self.shape() };
        if few && self.loops > 0 {
            return;
        }
        let kind = Kind::new(scalar, &shape);
        let mode = self.commuting(scalar);
        if self.random.one_in(3) && !shape.is_empty() && !few {
            return self.shared_view(&kind, mode);
        }
        let pointer = self.output(kind.scalar, SHARED, 0.0);
        let (offset, arg) = (self.below(SHARED, &shape), self.amount(&kind));
        let pointers = self.pointers(pointer, kind.scalar, offset, &shape);
        let mask = self.random.one_in(2).then(|| self.some(&kind.of(Scalar::I1)));
        self.read_modify_write(mode, pointers, arg, &kind, mask, None);
    }

    /// Emits an atomic through a view. All tile blocks access the same tile.
    fn shared_view(&mut self, kind: &Kind, mode: AtomicMode) {
        let base = self.output(kind.scalar, kind.count(), 0.0);
        let order: Vec<usize> = (0..kind.shape.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &kind.shape, &order, base);
        let view = self.view(&tensor, &View { kind: ViewKind::Partition, tile: kind.shape.clone(), dim_map: order }, None);
        let index = vec![self.index_constant(0); kind.shape.len()].into();
        let value = self.amount(kind);
        let (memory_ordering, memory_scope, ty) = (MemoryOrdering::Relaxed, MemoryScope::Device, self.build.token());
        let op =
            Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds: Box::default(), view, index, value, token: None };
        self.build.op(op, ty);
    }

    /// Two atomics on elements that no other tile block accesses; later ops use the old values.
    pub(crate) fn own_atomic(&mut self) {
        let scalar = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::F32]);
        let kind = Kind::new(scalar, &self.shape());
        let pointer = self.output(scalar, kind.count() * self.grid, 0.0);
        let mut token = None;
        for _ in 0..2 {
            let mode = if self.random.one_in(3) { AtomicMode::Xchg } else { self.commuting(scalar) };
            let offset = self.private_addresses(&kind.shape);
            let (pointers, arg) = (self.pointers(pointer, scalar, offset, &kind.shape), self.amount(&kind));
            let mask = self.random.one_in(2).then(|| self.some(&kind.of(Scalar::I1)));
            let results = self.read_modify_write(mode, pointers, arg, &kind, mask, token);
            // Tile IR leaves the result of a masked-off element undefined.
            if mask.is_none() {
                self.add(results[0], kind.clone());
            }
            token = Some(results[1]);
        }
    }

    /// Emits a compare-and-swap that succeeds for some elements and fails for others.
    pub(crate) fn compare_and_swap(&mut self) {
        let kind = Kind::new(self.random.pick(&[Scalar::I32, Scalar::I64]), &self.shape());
        let pointer = self.output(kind.scalar, kind.count() * self.grid, 0.0);
        let mut token = None;
        for _ in 0..2 {
            let offset = self.private_addresses(&kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let one = self.splat(&kind, 1);
            let some = self.some(&kind);
            let cmp = self.build.and(&kind, some, one);
            let some = self.some(&kind);
            let val = self.build.and(&kind, some, one);
            let types = [self.build.tile(&kind), self.build.token()];
            let (memory_ordering, memory_scope) = (self.ordering(), MemoryScope::Device);
            let op = Op::AtomicCASTko { memory_ordering, memory_scope, pointers, cmp, val, mask: None, token };
            let results = self.build.ops(op, &types);
            self.add(results[0], kind.clone());
            token = Some(results[1]);
        }
    }
}
