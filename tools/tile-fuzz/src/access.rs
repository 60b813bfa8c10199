//! Generators of loads and stores through tiles of pointers, and of token-ordered accesses to private memory of a tile block.

use crate::builder::TileKind;
use crate::program::Generator;
use base::ir::Value;
use numerics::Scalar;
use tileir::Op;

/// Element type of tile block indices and of element indices.
const INDEX_TYPE: Scalar = Scalar::I32;

impl Generator {
    /// Loads a tile from a random input buffer and adds it to the pool.
    pub(crate) fn load_input(&mut self) {
        let at = self.random.below(self.inputs.len());
        let (scalar, pointer, elements) = (self.inputs[at].scalar, self.inputs[at].pointer, self.inputs[at].elements);
        let kind = TileKind::new(scalar, &self.any_shape());
        let value = match self.random.below(4) {
            0 => self.gather(pointer, elements, &kind),
            1 if kind.shape.len() == 1 => self.load_row(pointer, &kind),
            _ if kind.shape.is_empty() || kind.count() > elements => self.gather(pointer, elements, &kind),
            _ => self.load_maybe_partial_tile(pointer, elements, &kind),
        };
        self.add_to_pool(value, kind);
    }

    /// Emits a tile of pointers to the elements at the given offsets from a base pointer.
    pub(crate) fn pointers(&mut self, pointer: Value, scalar: Scalar, offset: Value, shape: &[i64]) -> Value {
        let ones = vec![1; shape.len()];
        let ty = self.builder.pointer_tile_type(scalar, &ones);
        let single_pointer =
            if ones.is_empty() { pointer } else { self.builder.emit_with_type(Op::Reshape { source: pointer }, ty) };
        let ty = self.builder.pointer_tile_type(scalar, shape);
        let broadcast_pointers =
            if ones == shape { single_pointer } else { self.builder.emit_with_type(Op::Broadcast { source: single_pointer }, ty) };
        let offset = match self.random.one_in(4) {
            true => {
                let signedness = numerics::arith::Signedness::Signed;
                self.builder.emit(&TileKind::new(Scalar::I64, shape), Op::ExtI { signedness, from: offset })
            }
            false => offset,
        };
        let pointers = self.builder.emit_with_type(Op::Offset { ptr: broadcast_pointers, offset }, ty);
        match self.random.one_in(8) {
            true => {
                let source = self.builder.emit(&TileKind::new(Scalar::I64, shape), Op::PtrToInt { source: pointers });
                self.builder.emit_with_type(Op::IntToPtr { source }, ty)
            }
            false => pointers,
        }
    }

    /// Emits a load of elements at computed offsets from `pointer`. The offsets are less than `elements`. In one of two cases, the
    /// load has a mask.
    pub(crate) fn gather(&mut self, pointer: Value, elements: i64, kind: &TileKind) -> Value {
        let has_private_part = kind.count() * self.grid <= elements;
        let offset = match has_private_part && self.random.one_in(2) {
            true => self.private_indices(&kind.shape),
            false => self.integers_below(elements, &kind.shape),
        };
        let source = self.pointers(pointer, kind.scalar, offset, &kind.shape);
        let is_masked = self.random.one_in(2);
        let mask = is_masked.then(|| self.tile_of_kind(&kind.with_scalar(Scalar::I1)));
        let padding_value = is_masked.then(|| self.tile_of_kind(kind));
        self.load_pointers(source, kind, mask, padding_value, None).0
    }

    /// Emits a load through a tile of pointers. Returns the loaded tile and the token of the load.
    pub(crate) fn load_pointers(
        &mut self,
        source: Value,
        kind: &TileKind,
        mask: Option<Value>,
        padding_value: Option<Value>,
        token: Option<Value>,
    ) -> (Value, Value) {
        let types = [self.builder.tile_type(kind), self.builder.token_type()];
        let (memory_ordering, memory_scope) = self.random_load_ordering();
        let optimization_hints = self.access_hints();
        let load = Op::LoadPtrTko { memory_ordering, memory_scope, optimization_hints, source, mask, padding_value, token };
        let results = self.builder.emit_with_types(load, &types);
        (results[0], results[1])
    }

    /// Emits a store through a tile of pointers. Returns the token of the store.
    pub(crate) fn store_pointers(&mut self, destination: Value, value: Value, mask: Option<Value>, token: Option<Value>) -> Value {
        let ty = self.builder.token_type();
        let (memory_ordering, memory_scope) = self.random_store_ordering();
        let store = Op::StorePtrTko { memory_ordering, memory_scope, optimization_hints: None, destination, value, mask, token };
        self.builder.emit_with_type(store, ty)
    }

    /// Emits the index of the first element that only this tile block accesses. Each tile block has `count` elements.
    pub(crate) fn own_elements_start(&mut self, count: i64) -> Value {
        let count = self.index_constant(count);
        self.builder.emit_mul(&TileKind::new(INDEX_TYPE, &[]), self.block_index, count)
    }

    /// Emits the indices of the elements that only this tile block accesses, in a random order.
    pub(crate) fn private_indices(&mut self, shape: &[i64]) -> Value {
        let flat = TileKind::new(INDEX_TYPE, &[shape.iter().product()]);
        let mut indices = self.permuted_indices(&flat);
        let start = self.own_elements_start(flat.count());
        let start = self.broadcast_scalar(start, &flat);
        indices = self.builder.emit_add(&flat, indices, start);
        self.reshape(indices, &flat, shape)
    }

    /// Broadcasts a scalar to a one-dimensional tile.
    pub(crate) fn broadcast_scalar(&mut self, number: Value, flat: &TileKind) -> Value {
        let one_element = self.reshape(number, &TileKind::new(flat.scalar, &[]), &[1]);
        if flat.shape == [1] { one_element } else { self.builder.emit(flat, Op::Broadcast { source: one_element }) }
    }

    /// Emits a permutation of the element indices of a one-dimensional tile. The element count must be a power of two.
    pub(crate) fn permuted_indices(&mut self, flat: &TileKind) -> Value {
        let indices = self.builder.emit(flat, Op::Iota {});
        match self.random.below(3) {
            0 => {
                let xor_mask = self.random.below(flat.count() as usize) as u64;
                let xor_mask = self.splat(flat, xor_mask);
                self.builder.emit(flat, Op::XOrI { lhs: indices, rhs: xor_mask })
            }
            1 => {
                // Multiplication by an odd number is a permutation modulo a power of two.
                let (factor, mask) = (2 * self.random.below(8) as u64 + 1, flat.count() as u64 - 1);
                let (factor, mask) = (self.splat(flat, factor), self.splat(flat, mask));
                let product = self.builder.emit_mul(flat, indices, factor);
                self.builder.emit_and(flat, product, mask)
            }
            _ => indices,
        }
    }

    /// Stores a tile to a new output whose contents must be equal at all stages.
    pub(crate) fn store_to_new_output(&mut self, value: Value, kind: &TileKind) {
        self.store_with_tolerance(value, kind, 0.0);
    }

    /// Stores a tile to a new output, which is compared with a tolerance. Each tile block stores to its own part of the output.
    pub(crate) fn store_with_tolerance(&mut self, value: Value, kind: &TileKind, tolerance: f64) {
        let (value, kind) = match kind.scalar {
            Scalar::I1 => (self.convert(value, kind, INDEX_TYPE), kind.with_scalar(INDEX_TYPE)),
            _ => (value, kind.clone()),
        };
        let (value, kind) = match kind.shape.is_empty() {
            true => (self.reshape(value, &kind, &[1]), TileKind::new(kind.scalar, &[1])),
            false => (value, kind),
        };
        let pointer = self.add_output(kind.scalar, kind.count() * self.grid, tolerance);
        match self.random.one_in(2) {
            true => {
                let offset = self.private_indices(&kind.shape);
                let destination = self.pointers(pointer, kind.scalar, offset, &kind.shape);
                let mask = self.random.one_in(3).then(|| self.tile_of_kind(&kind.with_scalar(Scalar::I1)));
                self.store_pointers(destination, value, mask, None);
            }
            false => {
                let (view, index) = (self.own_view(pointer, &kind), self.own_index(&kind));
                self.store_view(view, &index, value, None);
            }
        }
    }

    /// Stores a tile to a new output. Then, once or twice, loads the output in a shape with the same number of elements and
    /// overwrites it. Only tokens order the accesses.
    pub(crate) fn store_and_reload(&mut self) {
        let (x, kind) = self.any_tile();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let pointer = self.add_output(kind.scalar, kind.count() * self.grid, 0.0);
        let (view, index) = (self.own_view(pointer, &kind), self.own_index(&kind));
        let mut token = self.store_view(view, &index, x, None);
        let equal_count_shapes: Vec<Vec<i64>> =
            self.shapes.iter().filter(|s| s.iter().product::<i64>() == kind.count()).cloned().collect();
        let equal_count_shapes: Vec<Vec<i64>> = equal_count_shapes.into_iter().filter(|shape| !shape.is_empty()).collect();
        for _ in 0..1 + self.random.below(2) {
            let shape = if equal_count_shapes.is_empty() { kind.shape.clone() } else { self.random.pick(&equal_count_shapes) };
            let reloaded_kind = TileKind::new(kind.scalar, &shape);
            let (view, index) = (self.own_view(pointer, &reloaded_kind), self.own_index(&reloaded_kind));
            let (value, load_token) = self.load_view(view, &index, &reloaded_kind, Some(token));
            self.add_to_pool(value, reloaded_kind.clone());
            let computed = self.arithmetic(value, &reloaded_kind);
            let token_before = match self.random.one_in(2) {
                true => load_token,
                false => {
                    let ty = self.builder.token_type();
                    self.builder.emit_with_type(Op::JoinTokens { tokens: [token, load_token].into() }, ty)
                }
            };
            token = self.store_view(view, &index, computed, Some(token_before));
        }
    }

    /// Emits accesses to memory that an `alloca` reserves for the tile block.
    pub(crate) fn alloca_accesses(&mut self) {
        let (x, kind) = self.any_tile();
        if kind.scalar == Scalar::I1 {
            return;
        }
        let ty = self.builder.pointer_tile_type(kind.scalar, &[]);
        let global = self.random.one_in(3);
        let pointer = self.builder.emit_with_type(Op::Alloca { global, num_elem: kind.count(), alignment: 16 }, ty);
        let flat = TileKind::new(INDEX_TYPE, &[kind.count()]);
        let mut token = None;
        let mut value = x;
        for _ in 0..2 {
            let indices = self.permuted_indices(&flat);
            let offset = self.reshape(indices, &flat, &kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let store_token = self.store_pointers(pointers, value, None, token);
            let indices = self.permuted_indices(&flat);
            let offset = self.reshape(indices, &flat, &kind.shape);
            let pointers = self.pointers(pointer, kind.scalar, offset, &kind.shape);
            let (loaded, load_token) = self.load_pointers(pointers, &kind, None, None, Some(store_token));
            self.add_to_pool(loaded, kind.clone());
            (value, token) = (loaded, Some(load_token));
        }
    }
}
