//! Generators of ops that move elements: reshapes, permutations, broadcasts and slices.

use crate::builder::TileKind;
use crate::program::Generator;
use base::ir::Value;
use tileir::Op;

impl Generator {
    /// Emits a reshape, unless the tile already has the shape.
    pub(crate) fn reshape(&mut self, source: Value, from: &TileKind, shape: &[i64]) -> Value {
        if from.shape == shape {
            return source;
        }
        self.builder.emit(&TileKind::new(from.scalar, shape), Op::Reshape { source })
    }

    /// Emits an op that moves the elements of a random tile.
    pub(crate) fn rearrange(&mut self) {
        let (x, kind) = self.any_tile();
        match self.random.below(7) {
            0 | 1 if kind.shape.len() > 1 => self.permute(x, &kind),
            2 => self.broadcast(x, &kind),
            3 if !kind.shape.is_empty() => self.extract(x, &kind),
            4 if !kind.shape.is_empty() => self.concatenate(x, &kind),
            5 if !kind.shape.is_empty() => self.insert(x, &kind),
            _ => {
                let equal_count_shapes: Vec<Vec<i64>> =
                    self.shapes.iter().filter(|shape| shape.iter().product::<i64>() == kind.count()).cloned().collect();
                if !equal_count_shapes.is_empty() {
                    let shape = self.random.pick(&equal_count_shapes);
                    let shaped = self.reshape(x, &kind, &shape);
                    self.add_to_pool(shaped, TileKind::new(kind.scalar, &shape));
                }
            }
        }
    }

    /// Emits a permutation of the dimensions. The resulting shape joins the program's shapes.
    fn permute(&mut self, source: Value, kind: &TileKind) {
        let rank = kind.shape.len();
        let mut permutation: Vec<i32> = (0..rank as i32).collect();
        for _ in 0..1 + self.random.below(rank - 1) {
            permutation.swap(self.random.below(rank), self.random.below(rank));
        }
        let shape: Vec<i64> = permutation.iter().map(|dim| kind.shape[*dim as usize]).collect();
        let result = TileKind::new(kind.scalar, &shape);
        let value = self.builder.emit(&result, Op::Permute { permutation: permutation.into(), source });
        if !self.shapes.contains(&shape) {
            self.shapes.push(shape);
        }
        self.add_to_pool(value, result);
    }

    /// Emits a reshape of a tile and its broadcast to a shape with at least as many elements.
    fn broadcast(&mut self, x: Value, kind: &TileKind) {
        let count = kind.count();
        let is_large_enough = |shape: &&Vec<i64>| !shape.is_empty() && shape.iter().product::<i64>() >= count;
        let large_shapes: Vec<Vec<i64>> = self.shapes.iter().filter(is_large_enough).cloned().collect();
        if large_shapes.is_empty() {
            return;
        }
        let shape = self.random.pick(&large_shapes);
        // Keep the extents of dimensions whose product is the tile's number of elements. The broadcast expands the other
        // dimensions.
        let mut remaining = count;
        let mut before_broadcast = vec![1; shape.len()];
        let first_dim = self.random.below(shape.len());
        for dim in (0..shape.len()).map(|dim| (dim + first_dim) % shape.len()) {
            if remaining % shape[dim] == 0 {
                before_broadcast[dim] = shape[dim];
                remaining /= shape[dim];
            }
        }
        if remaining != 1 {
            return;
        }
        let result = TileKind::new(kind.scalar, &shape);
        let source = self.reshape(x, kind, &before_broadcast);
        let value = if before_broadcast == shape { source } else { self.builder.emit(&result, Op::Broadcast { source }) };
        self.add_to_pool(value, result);
    }

    /// Chooses a half or a quarter of a random dimension. Returns the index operands and the kind of the slice, or `None` if the
    /// dimension has one element.
    fn random_slice(&mut self, kind: &TileKind) -> Option<(Vec<Value>, TileKind)> {
        let dim = self.random.below(kind.shape.len());
        if kind.shape[dim] < 2 {
            return None;
        }
        let mut shape = kind.shape.clone();
        let slice_count = if shape[dim] >= 4 && self.random.one_in(2) { 4 } else { 2 };
        shape[dim] /= slice_count;
        let mut indices = vec![self.index_constant(0); shape.len()];
        indices[dim] = match self.random.one_in(3) {
            true => self.integers_below(slice_count, &[]),
            false => {
                let slice_index = self.random.below(slice_count as usize) as i64;
                self.index_constant(slice_index)
            }
        };
        Some((indices, TileKind::new(kind.scalar, &shape)))
    }

    /// Emits an extraction of a random slice.
    fn extract(&mut self, source: Value, kind: &TileKind) {
        let Some((indices, result)) = self.random_slice(kind) else { return };
        let value = self.builder.emit(&result, Op::Extract { source, indices: indices.into() });
        self.add_to_pool(value, result);
    }

    /// Emits an insertion of another tile into a random slice.
    fn insert(&mut self, destination: Value, kind: &TileKind) {
        let Some((indices, slice)) = self.random_slice(kind) else { return };
        let source = self.tile_of_kind(&slice);
        let value = self.builder.emit(kind, Op::Insert { source, destination, indices: indices.into() });
        self.add_to_pool(value, kind.clone());
    }

    /// Emits the concatenation of a tile and another tile of its kind. Omits tiles with more than 512 elements.
    fn concatenate(&mut self, lhs: Value, kind: &TileKind) {
        if kind.count() > 512 {
            return;
        }
        let (dim, rhs) = (self.random.below(kind.shape.len()), self.tile_of_kind(kind));
        let mut shape = kind.shape.clone();
        shape[dim] *= 2;
        let result = TileKind::new(kind.scalar, &shape);
        let value = self.builder.emit(&result, Op::Cat { dim: dim as i64, lhs, rhs });
        self.add_to_pool(value, result);
    }
}
