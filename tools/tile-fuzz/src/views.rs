//! Generators of loads and stores through tensor views: partitions, strided tiles and gathered rows.

use crate::builder::{TileKind, View, ViewKind};
use crate::program::Generator;
use base::ir::Value;
use core_dialect::memory::{MemoryOrdering, MemoryScope, Padding};
use numerics::Scalar;
use numerics::arith::Signedness;
use tileir::types::{DYNAMIC, Dictionary};
use tileir::{Attribute, Op, TypeId};

/// A tensor in memory, which a view divides into tiles.
pub(crate) struct Tensor {
    pub(crate) scalar: Scalar,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) base: Value,
}

impl Tensor {
    /// Returns a contiguous tensor. `order` lists the dimensions from the largest stride to the smallest.
    pub(crate) fn packed(scalar: Scalar, sizes: &[i64], order: &[usize], base: Value) -> Tensor {
        let mut strides = vec![1; sizes.len()];
        let mut stride = 1;
        for dim in order.iter().rev() {
            strides[*dim] = stride;
            stride *= sizes[*dim];
        }
        Tensor { scalar, sizes: sizes.into(), strides, base }
    }
}

impl Generator {
    /// Returns a pointer or a number that the caller guarantees to be a multiple of 16. In two of three cases, emits this
    /// assumption.
    pub(crate) fn maybe_assume_alignment(&mut self, value: Value, ty: TypeId) -> Value {
        if self.random.one_in(3) {
            return value;
        }
        self.builder.emit_with_type(Op::Assume { predicate: Attribute::DivBy { divisor: 16, every: None, along: None }, value }, ty)
    }

    /// Emits a view of a tensor. Some extents and strides are dynamic.
    pub(crate) fn view(&mut self, tensor: &Tensor, view: &View, padding: Option<Padding>) -> Value {
        let ty = self.builder.pointer_tile_type(tensor.scalar, &[]);
        let base = self.maybe_assume_alignment(tensor.base, ty);
        let (mut sizes, mut strides) = (tensor.sizes.clone(), tensor.strides.clone());
        let (mut dynamic_shape, mut dynamic_strides) = (Vec::new(), Vec::new());
        if self.random.one_in(3) {
            for (static_values, operands) in [(&mut sizes, &mut dynamic_shape), (&mut strides, &mut dynamic_strides)] {
                for extent in static_values.iter_mut().filter(|extent| **extent != 1) {
                    if self.random.one_in(2) {
                        operands.push(self.add_i32_parameter(*extent));
                        *extent = DYNAMIC;
                    }
                }
            }
        }
        let make = Op::MakeTensorView { base, dynamic_shape: dynamic_shape.into(), dynamic_strides: dynamic_strides.into() };
        let ty = self.builder.tensor_view_type(tensor.scalar, &sizes, &strides);
        let tensor_view = self.builder.emit_with_type(make, ty);
        let ty = self.builder.view_type(view, ty, padding);
        let op = match view.kind {
            ViewKind::Partition => Op::MakePartitionView { tensor_view },
            ViewKind::Strided(_) => Op::MakeStridedView { tensor_view },
            ViewKind::Gather(_) => Op::MakeGatherScatterView { tensor_view },
        };
        self.builder.emit_with_type(op, ty)
    }

    /// Emits a load of a tile through a view. Returns the loaded tile and the token of the load.
    pub(crate) fn load_view(&mut self, view: Value, index: &[Value], kind: &TileKind, token: Option<Value>) -> (Value, Value) {
        let types = [self.builder.tile_type(kind), self.builder.token_type()];
        let (memory_ordering, memory_scope) = self.random_load_ordering();
        let load = Op::LoadViewTko {
            memory_ordering,
            memory_scope,
            optimization_hints: self.access_hints(),
            inbounds: Box::default(),
            view,
            index: index.into(),
            token,
        };
        let results = self.builder.emit_with_types(load, &types);
        (results[0], results[1])
    }

    /// Chooses the memory ordering and scope of a load. Most loads are weak.
    pub(crate) fn random_load_ordering(&mut self) -> (MemoryOrdering, Option<MemoryScope>) {
        match self.random.below(12) {
            _ if self.large_and_simple => (MemoryOrdering::Weak, None),
            0 => (MemoryOrdering::Relaxed, Some(MemoryScope::Device)),
            1 => (MemoryOrdering::Acquire, Some(MemoryScope::TileBlock)),
            _ => (MemoryOrdering::Weak, None),
        }
    }

    /// Returns optimisation hints of an access for all targets. In five of six cases, returns none.
    pub(crate) fn access_hints(&mut self) -> Option<Box<Dictionary>> {
        if !self.random.one_in(6) {
            return None;
        }
        let i32_type = self.builder.ty(tileir::Type::Scalar(Scalar::I32));
        let latency = Attribute::Integer { ty: i32_type, bits: 1 + self.random.below(10) as u64 };
        let hint_values = [("latency", latency), ("allow_tma", Attribute::Bool(self.random.one_in(2)))];
        let hint_values: Vec<_> = hint_values.map(|(name, attribute)| (self.builder.intern_string(name), attribute)).into();
        let target_hints =
            |target: base::Target| (self.builder.intern_string(target.name), Attribute::Dictionary(hint_values.clone().into()));
        let hints: Vec<_> = base::Target::all().map(target_hints).collect();
        Some(Box::new(hints.into()))
    }

    /// Chooses the value that a load returns for elements outside a tensor. Integer tiles support only zero.
    fn random_padding(&mut self, scalar: Scalar) -> Padding {
        match scalar.is_int() || self.random.one_in(2) {
            true => Padding::Zero,
            false => self.random.pick(&[Padding::NegZero, Padding::Nan, Padding::PosInf, Padding::NegInf]),
        }
    }

    /// Loads a tile of an input buffer through a view. The tile may extend past the end of the tensor.
    pub(crate) fn load_maybe_partial_tile(&mut self, base: Value, elements: i64, kind: &TileKind) -> Value {
        let rank = kind.shape.len();
        let mut dim_map: Vec<usize> = (0..rank).collect();
        if self.random.one_in(3) {
            dim_map.swap(self.random.below(rank), self.random.below(rank));
        }
        let mut sizes = vec![1; rank];
        for (dim, extent) in dim_map.iter().zip(&kind.shape) {
            sizes[*dim] = extent * 2;
        }
        while sizes.iter().product::<i64>() > elements {
            let largest = (0..rank).max_by_key(|dim| sizes[*dim]).expect("a tile has dimensions");
            sizes[largest] /= 2;
        }
        if self.random.one_in(2) {
            let dim = self.random.below(rank);
            sizes[dim] = (sizes[dim] - 1 - self.random.below(3) as i64).max(1);
        }
        let mut order: Vec<usize> = (0..rank).collect();
        if self.random.one_in(3) {
            order.swap(self.random.below(rank), rank - 1);
        }
        let tensor = Tensor::packed(kind.scalar, &sizes, &order, base);
        let view_kind = match self.random.below(4) {
            0 => {
                let step = |extent: &i64, generator: &mut Generator| (extent / 2).max(1) + generator.random.below(3) as i64;
                ViewKind::Strided(kind.shape.iter().map(|extent| step(extent, self)).collect())
            }
            1 => ViewKind::Gather(self.random.below(rank)),
            _ => ViewKind::Partition,
        };
        if matches!(view_kind, ViewKind::Gather(_)) {
            dim_map = (0..rank).collect();
        }
        let mut index = vec![self.index_constant(0); rank];
        let varied_dim = self.random.below(rank);
        let step = match &view_kind {
            ViewKind::Partition => kind.shape[varied_dim],
            ViewKind::Strided(steps) => steps[varied_dim],
            ViewKind::Gather(_) => 1,
        };
        let tile_count = sizes[dim_map[varied_dim]].unsigned_abs().div_ceil(step.unsigned_abs()) as i64;
        index[varied_dim] = self.index_below(tile_count);
        if let ViewKind::Gather(dim) = view_kind {
            let bound = (sizes[dim] as u64).next_power_of_two() as i64 * 2;
            index[dim] = self.integers_below(bound, &[kind.shape[dim]]);
        }
        let padding = Some(self.random_padding(kind.scalar));
        let view = self.view(&tensor, &View { kind: view_kind, tile: kind.shape.clone(), dim_map }, padding);
        self.load_view(view, &index, kind, None).0
    }

    /// Emits a tile index less than `tile_count`, computed from the tile block index or from another number. Tile IR does not
    /// define the result of an access with a larger index.
    fn index_below(&mut self, tile_count: i64) -> Value {
        let (index, bound) = if self.random.one_in(3) { (self.integers_below(4, &[]), 4) } else { (self.block_index, self.grid) };
        if bound <= tile_count {
            return index;
        }
        let last = self.index_constant(tile_count - 1);
        self.builder.emit(&TileKind::new(Scalar::I32, &[]), Op::MinI { signedness: Signedness::Unsigned, lhs: index, rhs: last })
    }

    /// Loads a tile of a one-dimensional tensor with a dynamic extent.
    pub(crate) fn load_row(&mut self, pointer: Value, kind: &TileKind) -> Value {
        let ty = self.builder.pointer_tile_type(kind.scalar, &[]);
        let base = self.maybe_assume_alignment(pointer, ty);
        let (size, argument) = self.random.pick(&self.size_params.clone());
        let i32_type = self.builder.tile_type(&TileKind::new(Scalar::I32, &[]));
        let size = if argument % 16 == 0 { self.maybe_assume_alignment(size, i32_type) } else { size };
        let ty = self.builder.tensor_view_type(kind.scalar, &[DYNAMIC], &[1]);
        let make = Op::MakeTensorView { base, dynamic_shape: [size].into(), dynamic_strides: Box::default() };
        let tensor_view = self.builder.emit_with_type(make, ty);
        let padding = self.random_padding(kind.scalar);
        let view = View { kind: ViewKind::Partition, tile: kind.shape.clone(), dim_map: vec![0] };
        let ty = self.builder.view_type(&view, ty, Some(padding));
        let view = self.builder.emit_with_type(Op::MakePartitionView { tensor_view }, ty);
        let index = self.index_below(argument.unsigned_abs().div_ceil(kind.shape[0].unsigned_abs()) as i64);
        self.load_view(view, &[index], kind, None).0
    }

    /// Emits a view with one tile per tile block. The tiles are adjacent along the first dimension.
    pub(crate) fn own_view(&mut self, base: Value, kind: &TileKind) -> Value {
        let mut sizes = kind.shape.clone();
        sizes[0] *= self.grid;
        let order: Vec<usize> = (0..sizes.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &sizes, &order, base);
        self.view(&tensor, &View { kind: ViewKind::Partition, tile: kind.shape.clone(), dim_map: order }, None)
    }

    /// Returns the index operands with which a tile block accesses its tile in a view of [`Generator::own_view`].
    pub(crate) fn own_index(&mut self, kind: &TileKind) -> Vec<Value> {
        let zero = self.index_constant(0);
        (0..kind.shape.len()).map(|dim| if dim == 0 { self.block_index } else { zero }).collect()
    }

    /// Emits a store of a tile through a view. Returns the token of the store.
    pub(crate) fn store_view(&mut self, view: Value, index: &[Value], tile: Value, token: Option<Value>) -> Value {
        let ty = self.builder.token_type();
        let (memory_ordering, memory_scope) = self.random_store_ordering();
        // Every stored tile is full, so `inbounds` flags are true.
        let inbounds = if self.random.one_in(3) { vec![true; index.len()].into() } else { Box::default() };
        let (index, optimization_hints) = (index.into(), self.access_hints());
        let store = Op::StoreViewTko { memory_ordering, memory_scope, optimization_hints, inbounds, tile, view, index, token };
        self.builder.emit_with_type(store, ty)
    }

    /// Chooses the memory ordering and scope of a store. Most stores are weak.
    pub(crate) fn random_store_ordering(&mut self) -> (MemoryOrdering, Option<MemoryScope>) {
        match self.random.below(12) {
            _ if self.large_and_simple => (MemoryOrdering::Weak, None),
            0 => (MemoryOrdering::Relaxed, Some(MemoryScope::Device)),
            1 => (MemoryOrdering::Release, Some(MemoryScope::Device)),
            _ => (MemoryOrdering::Weak, None),
        }
    }

    /// Emits a scatter: a store through a gather view, with permuted row indices.
    pub(crate) fn scatter(&mut self) {
        let (x, kind) = self.any_tile();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let pointer = self.add_output(kind.scalar, kind.count() * self.grid, 0.0);
        let dim = self.random.below(kind.shape.len());
        let rows = TileKind::new(Scalar::I32, &[kind.shape[dim]]);
        let mut index = vec![self.index_constant(0); kind.shape.len()];
        let mut sizes = kind.shape.clone();
        // One dimension of the output is divided among the tile blocks. If it is the scattered dimension, the row indices include
        // the start of the tile block's part. Otherwise the index along the divided dimension selects the part.
        let iota = self.builder.emit(&rows, Op::Iota {});
        let xor_mask = self.random.below(rows.count() as usize) as u64;
        let xor_mask = self.splat(&rows, xor_mask);
        index[dim] = self.builder.emit(&rows, Op::XOrI { lhs: iota, rhs: xor_mask });
        let divided_dim = self.random.below(kind.shape.len());
        sizes[divided_dim] *= self.grid;
        match divided_dim == dim {
            true => {
                let block_start = self.own_elements_start(rows.count());
                let start = self.broadcast_scalar(block_start, &rows);
                index[dim] = self.builder.emit_add(&rows, index[dim], start);
            }
            // A gather view counts its other indices in elements, not in tiles.
            false => index[divided_dim] = self.own_elements_start(kind.shape[divided_dim]),
        }
        let order: Vec<usize> = (0..sizes.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &sizes, &order, pointer);
        let view = self.view(&tensor, &View { kind: ViewKind::Gather(dim), tile: kind.shape.clone(), dim_map: order }, None);
        self.store_view(view, &index, x, None);
    }
}
