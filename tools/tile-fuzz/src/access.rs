//! Loads, stores and atomics, through views and through tiles of pointers.

use crate::builder::Kind;
use crate::program::Generator;
use base::Scalar;
use base::arith::Overflow;
use base::ir::Value;
use base::memory::{AtomicMode, MemoryOrdering, MemoryScope, Padding};
use tileir::types::DYNAMIC;
use tileir::{Attribute, Op};

const WEAK: MemoryOrdering = MemoryOrdering::Weak;

impl Generator {
    pub(crate) fn load(&mut self) {
        let at = self.random.below(3);
        let (scalar, pointer, elements) = (self.inputs[at].scalar, self.inputs[at].pointer, self.inputs[at].elements);
        let shape = self.random.pick(&self.shapes.clone());
        let kind = Kind::new(scalar, &shape);
        let value = match self.random.below(3) {
            0 => self.gather(pointer, elements, &kind),
            1 if shape.len() == 1 => self.load_row(pointer, &kind),
            _ => self.load_window(pointer, elements, &kind),
        };
        self.add(value, kind);
    }

    fn promised(&mut self, value: Value, ty: tileir::TypeId) -> Value {
        if self.random.one_in(3) {
            return value;
        }
        let predicate = Attribute::DivBy { divisor: 16, every: None, along: None };
        self.build.op(Op::Assume { predicate, value }, ty)
    }

    /// A tile of a one-dimensional tensor whose extent is known only at run time.
    fn load_row(&mut self, pointer: Value, kind: &Kind) -> Value {
        let ty = self.build.pointers(kind.scalar, &[]);
        let base = self.promised(pointer, ty);
        let (size, known) = self.random.pick(&self.sizes.clone());
        let number = self.build.tile(&Kind::new(Scalar::I32, &[]));
        let size = if known % 16 == 0 { self.promised(size, number) } else { size };
        let tensor = self.build.tensor(kind.scalar, &[DYNAMIC], &[1]);
        self.load_tile(base, vec![size], tensor, kind)
    }

    /// A tile of a tensor of two or more dimensions, which it may stick out of.
    fn load_window(&mut self, pointer: Value, elements: i64, kind: &Kind) -> Value {
        let ty = self.build.pointers(kind.scalar, &[]);
        let base = self.promised(pointer, ty);
        let mut sizes: Vec<i64> = kind.shape.iter().map(|extent| (extent * 2).clamp(1, 64)).collect();
        while sizes.iter().product::<i64>() > elements {
            let largest = (0..sizes.len()).max_by_key(|dim| sizes[*dim]).expect("a tile has dimensions");
            sizes[largest] /= 2;
        }
        if self.random.one_in(2) {
            let dim = self.random.below(sizes.len());
            sizes[dim] = (sizes[dim] - 1 - self.random.below(3) as i64).max(1);
        }
        let mut strides = vec![1; sizes.len()];
        let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
        if self.random.one_in(3) {
            order.reverse();
        }
        let mut next = 1;
        for dim in order {
            strides[dim] = next;
            next *= sizes[dim];
        }
        let tensor = self.build.tensor(kind.scalar, &sizes, &strides);
        self.load_tile(base, Vec::new(), tensor, kind)
    }

    fn load_tile(&mut self, base: Value, sizes: Vec<Value>, tensor: tileir::TypeId, kind: &Kind) -> Value {
        let make = Op::MakeTensorView { base, dynamic_shape: sizes.into(), dynamic_strides: Box::default() };
        let tensor_view = self.build.op(make, tensor);
        let view = self.build.partition(tensor, &kind.shape, Some(Padding::Zero));
        let view = self.build.op(Op::MakePartitionView { tensor_view }, view);
        let zero = self.index_constant(0);
        let index = (0..kind.shape.len()).map(|dim| if dim == 0 { self.block } else { zero }).collect();
        let types = [self.build.tile(kind), self.build.token()];
        let load = Op::LoadViewTko {
            memory_ordering: WEAK,
            memory_scope: None,
            optimization_hints: None,
            inbounds: Box::default(),
            view,
            index,
            token: None,
        };
        self.build.ops(load, &types)[0]
    }

    /// Pointers to elements of memory, whose numbers are below `elements`.
    fn pointers(&mut self, pointer: Value, scalar: Scalar, offset: Value, shape: &[i64]) -> Value {
        let ones = vec![1; shape.len()];
        let ty = self.build.pointers(scalar, &ones);
        let one = self.build.op(Op::Reshape { source: pointer }, ty);
        let ty = self.build.pointers(scalar, shape);
        let all = if ones == shape { one } else { self.build.op(Op::Broadcast { source: one }, ty) };
        self.build.op(Op::Offset { ptr: all, offset }, ty)
    }

    /// Anything below a power of two.
    fn offsets(&mut self, below: i64, shape: &[i64]) -> Value {
        let kind = Kind::new(Scalar::I32, shape);
        let some = self.some(&kind);
        let mask = self.splat(&kind, below as u64 - 1);
        let ty = self.build.tile(&kind);
        self.build.op(Op::AndI { lhs: some, rhs: mask }, ty)
    }

    fn gather(&mut self, pointer: Value, elements: i64, kind: &Kind) -> Value {
        let offset = match self.random.one_in(2) {
            true => self.offsets(elements, &kind.shape),
            false => self.own_places(kind, &kind.shape.clone()),
        };
        let source = self.pointers(pointer, kind.scalar, offset, &kind.shape);
        let masked = self.random.one_in(2);
        let mask = masked.then(|| self.some(&kind.of(Scalar::I1)));
        let padding_value = masked.then(|| self.some(kind));
        let types = [self.build.tile(kind), self.build.token()];
        let load = Op::LoadPtrTko {
            memory_ordering: WEAK,
            memory_scope: None,
            optimization_hints: None,
            source,
            mask,
            padding_value,
            token: None,
        };
        self.build.ops(load, &types)[0]
    }

    /// Numbers of a block's own elements, in some order.
    fn own_places(&mut self, kind: &Kind, shape: &[i64]) -> Value {
        let count = kind.count();
        let flat = Kind::new(Scalar::I32, &[count]);
        let ty = self.build.tile(&flat);
        let mut place = self.build.op(Op::Iota {}, ty);
        if self.random.one_in(2) {
            let flip = self.random.below(count as usize) as u64;
            let flip = self.splat(&flat, flip);
            place = self.build.op(Op::XOrI { lhs: place, rhs: flip }, ty);
        }
        let scalar = Kind::new(Scalar::I32, &[]);
        let (number, count) = (self.build.tile(&scalar), self.index_constant(count));
        let start = self.build.op(Op::MulI { overflow: Overflow::None, lhs: self.block, rhs: count }, number);
        let one = self.reshape(start, &scalar, &[1]);
        let start = if flat.shape == [1] { one } else { self.build.op(Op::Broadcast { source: one }, ty) };
        let place = self.build.op(Op::AddI { overflow: Overflow::None, lhs: place, rhs: start }, ty);
        self.reshape(place, &flat, shape)
    }

    pub(crate) fn store(&mut self, value: Value, kind: &Kind) {
        let (value, kind) = match kind.scalar {
            Scalar::I1 => (self.convert(value, kind, Scalar::I32), kind.of(Scalar::I32)),
            _ => (value, kind.clone()),
        };
        let (value, kind) = match kind.shape.is_empty() {
            true => (self.reshape(value, &kind, &[1]), Kind::new(kind.scalar, &[1])),
            false => (value, kind),
        };
        let pointer = self.output(kind.scalar, kind.count() * self.grid);
        match self.random.one_in(2) {
            true => self.store_pointers(pointer, value, &kind),
            false => self.token = self.store_window(pointer, value, &kind, None),
        }
    }

    fn store_pointers(&mut self, pointer: Value, value: Value, kind: &Kind) {
        let offset = self.own_places(kind, &kind.shape.clone());
        let destination = self.pointers(pointer, kind.scalar, offset, &kind.shape);
        let mask = self.random.one_in(3).then(|| self.some(&kind.of(Scalar::I1)));
        let ty = self.build.token();
        let store = Op::StorePtrTko {
            memory_ordering: WEAK,
            memory_scope: None,
            optimization_hints: None,
            destination,
            value,
            mask,
            token: None,
        };
        self.build.op(store, ty);
    }

    /// A tensor that each block has a tile of, one after the other along the first dimension.
    fn own_view(&mut self, pointer: Value, kind: &Kind) -> Value {
        let ty = self.build.pointers(kind.scalar, &[]);
        let base = self.promised(pointer, ty);
        let mut sizes = kind.shape.clone();
        sizes[0] *= self.grid;
        let mut strides = vec![1; sizes.len()];
        for dim in (1..sizes.len()).rev() {
            strides[dim - 1] = strides[dim] * sizes[dim];
        }
        let tensor = self.build.tensor(kind.scalar, &sizes, &strides);
        let make = Op::MakeTensorView { base, dynamic_shape: Box::default(), dynamic_strides: Box::default() };
        let tensor_view = self.build.op(make, tensor);
        let view = self.build.partition(tensor, &kind.shape, None);
        self.build.op(Op::MakePartitionView { tensor_view }, view)
    }

    fn own_index(&mut self, kind: &Kind) -> Box<[Value]> {
        let zero = self.index_constant(0);
        (0..kind.shape.len()).map(|dim| if dim == 0 { self.block } else { zero }).collect()
    }

    fn store_window(&mut self, pointer: Value, tile: Value, kind: &Kind, token: Option<Value>) -> Value {
        let (view, index) = (self.own_view(pointer, kind), self.own_index(kind));
        let ty = self.build.token();
        let store = Op::StoreViewTko {
            memory_ordering: WEAK,
            memory_scope: None,
            optimization_hints: None,
            inbounds: Box::default(),
            tile,
            view,
            index,
            token,
        };
        self.build.op(store, ty)
    }

    /// Writes a tile and reads it back in another shape, ordered by a token only.
    pub(crate) fn bounce(&mut self) {
        let (x, kind) = self.any();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let pointer = self.output(kind.scalar, kind.count() * self.grid);
        let token = self.store_window(pointer, x, &kind, None);
        let fitting: Vec<Vec<i64>> =
            self.shapes.iter().filter(|shape| shape.iter().product::<i64>() == kind.count()).cloned().collect();
        let shape = if fitting.is_empty() { kind.shape.clone() } else { self.random.pick(&fitting) };
        let back = Kind::new(kind.scalar, &shape);
        let (view, index) = (self.own_view(pointer, &back), self.own_index(&back));
        let types = [self.build.tile(&back), self.build.token()];
        let load = Op::LoadViewTko {
            memory_ordering: WEAK,
            memory_scope: None,
            optimization_hints: None,
            inbounds: Box::default(),
            view,
            index,
            token: Some(token),
        };
        let value = self.build.ops(load, &types)[0];
        self.add(value, back);
    }

    /// Adds to memory that all blocks share; what was there before is not looked at.
    pub(crate) fn atomic(&mut self) {
        let shape = self.random.pick(&self.shapes.clone());
        let kind = Kind::new(self.random.pick(&[Scalar::I32, Scalar::I64]), &shape);
        let pointer = self.output(kind.scalar, 64);
        let (offset, arg) = (self.offsets(64, &shape), self.some(&kind));
        let pointers = self.pointers(pointer, kind.scalar, offset, &shape);
        let mask = self.random.one_in(2).then(|| self.some(&kind.of(Scalar::I1)));
        let modes = [AtomicMode::Add, AtomicMode::Max, AtomicMode::UMin, AtomicMode::Xor, AtomicMode::Or, AtomicMode::And];
        let mode = self.random.pick(&modes);
        let types = [self.build.tile(&kind), self.build.token()];
        let op = Op::AtomicRMWTko {
            memory_ordering: MemoryOrdering::Relaxed,
            memory_scope: MemoryScope::Device,
            mode,
            pointers,
            arg,
            mask,
            token: None,
        };
        self.build.ops(op, &types);
    }
}
