//! Loads and stores through tiles of pointers, and token-ordered accesses to private memory of a block.

use crate::builder::Kind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use tileir::Op;

const NUMBER: Scalar = Scalar::I32;

impl Generator {
    pub(crate) fn load(&mut self) {
        let at = self.random.below(self.inputs.len());
        let (scalar, pointer, elements) = (self.inputs[at].scalar, self.inputs[at].pointer, self.inputs[at].elements);
        let kind = Kind::new(scalar, &self.shape());
        let value = match self.random.below(4) {
            0 => self.gather(pointer, elements, &kind),
            1 if kind.shape.len() == 1 => self.load_row(pointer, &kind),
            _ if kind.shape.is_empty() || kind.count() > elements => self.gather(pointer, elements, &kind),
            _ => self.load_window(pointer, elements, &kind),
        };
        self.add(value, kind);
    }

    /// Emits pointers to elements at the given offsets from a base pointer.
    pub(crate) fn pointers(&mut self, pointer: Value, scalar: Scalar, offset: Value, shape: &[i64]) -> Value {
        let ones = vec![1; shape.len()];
        let ty = self.build.pointers(scalar, &ones);
        let one = if ones.is_empty() { pointer } else { self.build.op(Op::Reshape { source: pointer }, ty) };
        let ty = self.build.pointers(scalar, shape);
        let all = if ones == shape { one } else { self.build.op(Op::Broadcast { source: one }, ty) };
        let offset = match self.random.one_in(4) {
            true => {
                let signedness = numerics::arith::Signedness::Signed;
                self.build.emit(&Kind::new(Scalar::I64, shape), Op::ExtI { signedness, from: offset })
            }
            false => offset,
        };
        let pointers = self.build.op(Op::Offset { ptr: all, offset }, ty);
        match self.random.one_in(8) {
            true => {
                let source = self.build.emit(&Kind::new(Scalar::I64, shape), Op::PtrToInt { source: pointers });
                self.build.op(Op::IntToPtr { source }, ty)
            }
            false => pointers,
        }
    }

    pub(crate) fn gather(&mut self, pointer: Value, elements: i64, kind: &Kind) -> Value {
        let own = kind.count() * self.grid <= elements;
        let offset = match own && self.random.one_in(2) {
            true => self.private_addresses(&kind.shape),
            false => self.below(elements, &kind.shape),
        };
        let source = self.pointers(pointer, kind.scalar, offset, &kind.shape);
        let masked = self.random.one_in(2);
        let mask = masked.then(|| self.some(&kind.of(Scalar::I1)));
        let padding_value = masked.then(|| self.some(kind));
        self.load_pointers(source, kind, mask, padding_value, None).0
    }

    pub(crate) fn load_pointers(
        &mut self,
        source: Value,
        kind: &Kind,
        mask: Option<Value>,
        padding_value: Option<Value>,
        token: Option<Value>,
    ) -> (Value, Value) {
        let types = [self.build.tile(kind), self.build.token()];
        let (memory_ordering, memory_scope) = self.load_order();
        let optimization_hints = self.access_hints();
        let load = Op::LoadPtrTko { memory_ordering, memory_scope, optimization_hints, source, mask, padding_value, token };
        let results = self.build.ops(load, &types);
        (results[0], results[1])
    }

    pub(crate) fn store_pointers(&mut self, destination: Value, value: Value, mask: Option<Value>, token: Option<Value>) -> Value {
        let ty = self.build.token();
        let (memory_ordering, memory_scope) = self.store_order();
        let store = Op::StorePtrTko { memory_ordering, memory_scope, optimization_hints: None, destination, value, mask, token };
        self.build.op(store, ty)
    }

    /// Index of the first element that is private to the tile block.
    pub(crate) fn own_start(&mut self, count: i64) -> Value {
        let count = self.index_constant(count);
        self.build.times(&Kind::new(NUMBER, &[]), self.block, count)
    }

    /// Indices of the elements that are private to the tile block, in some order.
    pub(crate) fn private_addresses(&mut self, shape: &[i64]) -> Value {
        let flat = Kind::new(NUMBER, &[shape.iter().product()]);
        let mut index_value = self.any_order(&flat);
        let start = self.own_start(flat.count());
        let start = self.spread(start, &flat);
        index_value = self.build.plus(&flat, index_value, start);
        self.reshape(index_value, &flat, shape)
    }

    /// Broadcasts a scalar to a one-dimensional tile.
    pub(crate) fn spread(&mut self, number: Value, flat: &Kind) -> Value {
        let one = self.reshape(number, &Kind::new(flat.scalar, &[]), &[1]);
        if flat.shape == [1] { one } else { self.build.emit(flat, Op::Broadcast { source: one }) }
    }

    /// Emits a permutation of the element indices. Requires a power of two of elements.
    pub(crate) fn any_order(&mut self, flat: &Kind) -> Value {
        let index_value = self.build.emit(flat, Op::Iota {});
        match self.random.below(3) {
            0 => {
                let flip = self.random.below(flat.count() as usize) as u64;
                let flip = self.splat(flat, flip);
                self.build.emit(flat, Op::XOrI { lhs: index_value, rhs: flip })
            }
            1 => {
                // Multiplication by an odd number is a permutation modulo a power of two.
                let (factor, mask) = (2 * self.random.below(8) as u64 + 1, flat.count() as u64 - 1);
                let (factor, mask) = (self.splat(flat, factor), self.splat(flat, mask));
                let far = self.build.times(flat, index_value, factor);
                self.build.and(flat, far, mask)
            }
            _ => index_value,
        }
    }

    pub(crate) fn store(&mut self, value: Value, kind: &Kind) {
        self.store_within(value, kind, 0.0);
    }

    /// Stores a tile to a new output.
    pub(crate) fn store_within(&mut self, value: Value, kind: &Kind, tolerance: f64) {
        let (value, kind) = match kind.scalar {
            Scalar::I1 => (self.convert(value, kind, NUMBER), kind.of(NUMBER)),
            _ => (value, kind.clone()),
        };
        let (value, kind) = match kind.shape.is_empty() {
            true => (self.reshape(value, &kind, &[1]), Kind::new(kind.scalar, &[1])),
            false => (value, kind),
        };
        let pointer = self.output(kind.scalar, kind.count() * self.grid, tolerance);
        match self.random.one_in(2) {
            true => {
                let offset = self.private_addresses(&kind.shape);
                let destination = self.pointers(pointer, kind.scalar, offset, &kind.shape);
                let mask = self.random.one_in(3).then(|| self.some(&kind.of(Scalar::I1)));
                self.store_pointers(destination, value, mask, None);
            }
            false => {
                let (view, index) = (self.own_view(pointer, &kind), self.own_index(&kind));
                self.store_view(view, &index, value, None);
            }
        }
    }

    /// Emits a store and a load of the same memory in another shape, once or twice. Only tokens order the accesses.
    pub(crate) fn bounce(&mut self) {
        let (x, kind) = self.any();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let pointer = self.output(kind.scalar, kind.count() * self.grid, 0.0);
        let (view, index) = (self.own_view(pointer, &kind), self.own_index(&kind));
        let mut token = self.store_view(view, &index, x, None);
        let fitting: Vec<Vec<i64>> = self.shapes.iter().filter(|s| s.iter().product::<i64>() == kind.count()).cloned().collect();
        let fitting: Vec<Vec<i64>> = fitting.into_iter().filter(|shape| !shape.is_empty()).collect();
        for _ in 0..1 + self.random.below(2) {
            let shape = if fitting.is_empty() { kind.shape.clone() } else { self.random.pick(&fitting) };
            let back = Kind::new(kind.scalar, &shape);
            let (view, index) = (self.own_view(pointer, &back), self.own_index(&back));
            let (value, read) = self.load_view(view, &index, &back, Some(token));
            self.add(value, back.clone());
            let next = self.arithmetic(value, &back);
            let before = match self.random.one_in(2) {
                true => read,
                false => {
                    let ty = self.build.token();
                    self.build.op(Op::JoinTokens { tokens: [token, read].into() }, ty)
                }
            };
            token = self.store_view(view, &index, next, Some(before));
        }
    }

    /// Emits accesses to memory that an `alloca` reserves for the tile block.
    pub(crate) fn scratch(&mut self) {
        let (x, kind) = self.any();
        if kind.scalar == Scalar::I1 {
            return;
        }
        let ty = self.build.pointers(kind.scalar, &[]);
        let global = self.random.one_in(3);
        let pointer = self.build.op(Op::Alloca { global, num_elem: kind.count(), alignment: 16 }, ty);
        let flat = Kind::new(NUMBER, &[kind.count()]);
        let mut token = None;
        let mut value = x;
        for _ in 0..2 {
            let indices = self.any_order(&flat);
            let offset = self.reshape(indices, &flat, &kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let stored = self.store_pointers(pointers, value, None, token);
            let indices = self.any_order(&flat);
            let offset = self.reshape(indices, &flat, &kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let (loaded, after) = self.load_pointers(pointers, &kind, None, None, Some(stored));
            self.add(loaded, kind.clone());
            (value, token) = (loaded, Some(after));
        }
    }
}
