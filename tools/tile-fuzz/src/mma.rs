//! Generators of MMAs, alone and in loops. Invariant: the operands are so small that the accumulation is exact in any order.

use crate::builder::{TileKind, View, ViewKind};
use crate::program::{Generator, encode};
use crate::random::Random;
use crate::views::Tensor;
use base::ir::Value;
use core_dialect::memory::Padding;
use numerics::Scalar;
use numerics::arith::{Predicate, Rounding, Signedness};
use tileir::Op;

/// The element types of an MMA. `limit` is the largest magnitude of the numbers in its operands.
#[derive(Clone, Copy)]
pub(crate) struct MmaTypes {
    pub(crate) operand: Scalar,
    pub(crate) acc: Scalar,
    pub(crate) limit: i64,
}

/// Returns the element types of an MMA, with the largest magnitude of its operands.
const fn mma_types(operand: Scalar, acc: Scalar, limit: i64) -> MmaTypes {
    MmaTypes { operand, acc, limit }
}

/// The element types from which the generator chooses. A frequent combination occurs twice.
pub(crate) const MMA_TYPES: [MmaTypes; 11] = [
    mma_types(Scalar::F16, Scalar::F32, 4),
    mma_types(Scalar::F16, Scalar::F32, 4),
    mma_types(Scalar::BF16, Scalar::F32, 4),
    mma_types(Scalar::F16, Scalar::F16, 1),
    mma_types(Scalar::F32, Scalar::F32, 4),
    mma_types(Scalar::TF32, Scalar::F32, 4),
    mma_types(Scalar::F64, Scalar::F64, 8),
    mma_types(Scalar::I8, Scalar::I32, 64),
    mma_types(Scalar::F8E4M3FN, Scalar::F32, 4),
    mma_types(Scalar::F8E5M2, Scalar::F32, 4),
    mma_types(Scalar::F8E4M3FN, Scalar::F16, 1),
];

/// A matrix in memory. A loop loads one of its tiles per iteration.
pub(crate) struct Matrix {
    view: Value,
    kind: TileKind,
    /// The dimension of the loaded tile that corresponds to K of the MMA.
    k_dim: usize,
    /// The tile index in the dimension that is not K.
    other_index: Value,
    /// A view of a table with the tile index along K of each step; `None` if the loop loads the tiles in order.
    index_table: Option<Value>,
    /// Whether the loop transposes the loaded tile.
    is_transposed: bool,
    /// Element type of the MMA operand. If the loaded type differs, the loop converts the tile.
    operand: Scalar,
}

/// The lower bound, upper bound and step of a loop, and its maximum trip count.
pub(crate) struct GeneratedLoopRange {
    pub(crate) bounds: [Value; 3],
    pub(crate) max_trips: i64,
}

impl Generator {
    /// Emits integers in `-limit..limit`, of any element type that represents them. `limit` must be a power of two.
    pub(crate) fn small_integers(&mut self, kind: &TileKind, limit: i64) -> Value {
        let i32_kind = kind.with_scalar(Scalar::I32);
        let nonnegative = self.integers_below(2 * limit, &kind.shape);
        let limit = self.splat(&i32_kind, limit.unsigned_abs().wrapping_neg());
        let from = self.builder.emit_add(&i32_kind, nonnegative, limit);
        self.convert_from_i32(from, kind)
    }

    /// Converts small i32 numbers to any element type that represents them.
    fn convert_from_i32(&mut self, from: Value, kind: &TileKind) -> Value {
        let (signedness, rounding_mode) = (Signedness::Signed, Rounding::NearestEven);
        match kind.scalar {
            Scalar::I8 => self.convert(from, &kind.with_scalar(Scalar::I32), Scalar::I8),
            Scalar::I32 => from,
            _ => self.builder.emit(kind, Op::IToF { signedness, rounding_mode, from }),
        }
    }

    /// Emits an MMA whose result and accumulator have the given kind.
    pub(crate) fn emit_mma(&mut self, lhs: Value, rhs: Value, acc: Value, kind: &TileKind) -> Value {
        let op = match kind.scalar {
            Scalar::I32 => {
                let (signedness_lhs, signedness_rhs) = (self.signedness(), self.signedness());
                Op::MmaI { signedness_lhs, signedness_rhs, lhs, rhs, acc }
            }
            _ => Op::MmaF { fast_acc: self.random.one_in(8), lhs, rhs, acc },
        };
        self.builder.emit(kind, op)
    }

    /// Chooses the extents M, N and K of an MMA.
    pub(crate) fn mma_extents(&mut self) -> [i64; 3] {
        if self.large_and_simple {
            let rows = self.random.pick(&[128, 256, 256, 512]);
            return [rows, self.random.pick(&[32, 64, 128, 128, 256]), self.random.pick(&[16, 32, 64])];
        }
        let rows = self.random.pick(&[16, 32, 32, 64, 64, 128]);
        [rows, self.random.pick(&[16, 16, 32, 32, 64]), self.random.pick(&[16, 16, 32, 32, 64])]
    }

    /// Emits an MMA of computed tiles.
    pub(crate) fn mma(&mut self) {
        let types = self.random.pick(&MMA_TYPES);
        let [m, n, k] = if self.random.one_in(6) { [0; 3].map(|_| 1 << self.random.below(6)) } else { self.mma_extents() };
        let batch: Vec<i64> = if self.random.one_in(5) { vec![2] } else { Vec::new() };
        let batched_kind = |scalar, extents: [i64; 2]| TileKind::new(scalar, &[&batch[..], &extents].concat());
        let result = batched_kind(types.acc, [m, n]);
        let lhs = self.small_integers(&batched_kind(types.operand, [m, k]), types.limit);
        let rhs = self.small_integers(&batched_kind(types.operand, [k, n]), types.limit);
        let acc = self.small_integers(&result, types.limit);
        let value = self.emit_mma(lhs, rhs, acc, &result);
        self.add_to_pool(value, result);
    }

    /// Adds an input buffer with integers from `-limit` to `limit`.
    pub(crate) fn small_integer_input(&mut self, scalar: Scalar, elements: i64, limit: i64) -> Value {
        let mut data = Vec::new();
        for _ in 0..elements {
            let number = self.random.below(2 * limit as usize + 1) as i64 - limit;
            let bits = if scalar.is_int() { number as u64 } else { encode(scalar, number as f64) };
            data.extend(&bits.to_le_bytes()[..scalar.bytes() as usize]);
        }
        self.add_input_buffer(scalar, data)
    }

    /// Adds a matrix for the left or right operand of an MMA loop. The matrix has `steps` tiles along K and `tiles` tiles along the
    /// other dimension. A tile has `depth` elements along K and `rows` elements along the other dimension. The loop loads the tiles
    /// with index `other_index` in the other dimension. If `other_index` is the tile block index, each tile block loads its own
    /// tiles.
    pub(crate) fn add_matrix(
        &mut self,
        types: MmaTypes,
        rows: i64,
        depth: i64,
        steps: i64,
        is_lhs: bool,
        other_index: Value,
        tiles: i64,
    ) -> Matrix {
        let stored_type = if types.operand == Scalar::TF32 { Scalar::F32 } else { types.operand };
        // The last tile may be partial.
        let missing_elements = if self.random.one_in(3) { self.random.below(depth as usize) as i64 } else { 0 };
        let k_size = (depth * steps - missing_elements).max(1);
        let is_transposed = self.random.one_in(4);
        // K is the second dimension of the left operand and the first of the right operand. A transpose exchanges them.
        let k_dim = usize::from(is_lhs != is_transposed);
        let (mut tile, mut sizes) = (vec![rows; 2], vec![rows * tiles; 2]);
        (tile[k_dim], sizes[k_dim]) = (depth, k_size);
        let base = self.small_integer_input(stored_type, sizes.iter().product(), types.limit);
        let (mut order, mut dim_map) = (vec![0, 1], vec![0, 1]);
        if self.random.one_in(3) {
            order.reverse();
        }
        if self.random.one_in(4) {
            dim_map.reverse();
            sizes.reverse();
            order = order.iter().map(|dim| 1 - dim).collect();
        }
        let tensor = Tensor::packed(stored_type, &sizes, &order, base);
        let view = View { kind: ViewKind::Partition, tile: tile.clone(), dim_map };
        let view = self.view(&tensor, &view, Some(Padding::Zero));
        let table = self.random.independent().one_in(5).then(|| self.add_index_table(steps));
        Matrix {
            view,
            kind: TileKind::new(stored_type, &tile),
            k_dim,
            other_index,
            index_table: table,
            is_transposed,
            operand: types.operand,
        }
    }

    /// Adds an input buffer with `count` random indices, each of them less than `count`. Returns a view of its elements.
    fn add_index_table(&mut self, count: i64) -> Value {
        let mut random = self.random.independent();
        let data = (0..count).flat_map(|_| (random.below(count as usize) as i32).to_le_bytes()).collect();
        let base = self.add_input_buffer(Scalar::I32, data);
        let tensor = Tensor::packed(Scalar::I32, &[count], &[0], base);
        self.view(&tensor, &View { kind: ViewKind::Partition, tile: vec![1], dim_map: vec![0] }, None)
    }

    /// Loads the entry with index `step` from a table of i32 numbers.
    pub(crate) fn load_table_entry(&mut self, table: Value, step: Value) -> Value {
        let one_index = TileKind::new(Scalar::I32, &[1]);
        let (element, _) = self.load_view(table, &[step], &one_index, None);
        self.reshape(element, &one_index, &[])
    }

    /// Loads the MMA operand of one step.
    pub(crate) fn load_operand(&mut self, matrix: &Matrix, step: Value) -> Value {
        let mut index = [matrix.other_index; 2];
        index[matrix.k_dim] = matrix.index_table.map_or(step, |table| self.load_table_entry(table, step));
        let (mut tile, _) = self.load_view(matrix.view, &index, &matrix.kind, None);
        let mut kind = matrix.kind.clone();
        if self.random.one_in(6) && kind.scalar.is_float() && kind.scalar.bits() >= 16 {
            tile = self.builder.emit(&kind, Op::NegF { source: tile });
        }
        if matrix.operand != kind.scalar {
            kind = kind.with_scalar(matrix.operand);
            tile = self.builder.emit(&kind, Op::FToF { rounding_mode: Rounding::NearestEven, from: tile });
        }
        if matrix.is_transposed {
            kind.shape.reverse();
            tile = self.builder.emit(&kind, Op::Permute { permutation: [1, 0].into(), source: tile });
        }
        tile
    }

    /// Emits the bounds of an MMA loop. The trip count is often zero, and often less than the number of stages of the loop's
    /// pipeline.
    fn random_loop_bounds(&mut self) -> GeneratedLoopRange {
        let max_trips = self.random.pick(&[0, 1, 2, 3, 4, 5, 6, 9]);
        let [zero, one] = [0, 1].map(|n| self.index_constant(n));
        let (trip_bound, max_trips) = match self.random.below(3) {
            0 => (self.index_constant(max_trips), max_trips),
            1 => (self.add_i32_parameter(max_trips), max_trips),
            _ => {
                let base_trips = self.add_i32_parameter(max_trips);
                (self.builder.emit_add(&TileKind::new(Scalar::I32, &[]), base_trips, self.block_index), max_trips + self.grid - 1)
            }
        };
        GeneratedLoopRange { bounds: [zero, trip_bound, one], max_trips: max_trips.max(1) }
    }

    /// Emits a loop over K with one or two MMAs of tiles from memory.
    pub(crate) fn mma_loop(&mut self) {
        let types = self.random.pick(&MMA_TYPES);
        let [m, n, k] = self.mma_extents();
        let (zero, loop_bounds) = (self.index_constant(0), self.random_loop_bounds());
        let lhs = self.add_matrix(types, m, k, loop_bounds.max_trips, true, self.block_index, self.grid);
        let rhs = self.add_matrix(types, n, k, loop_bounds.max_trips, false, zero, 1);
        let second_rhs = self.random.one_in(4).then(|| self.add_matrix(types, n, k, loop_bounds.max_trips, false, zero, 1));
        let result = TileKind::new(types.acc, &[m, n]);
        let mut kinds = vec![result.clone(); 1 + usize::from(second_rhs.is_some())];
        let mut init: Vec<Value> = kinds.iter().map(|kind| self.initial_accumulator(kind, types.limit)).collect();
        // Add a loop-carried tile that is not an accumulator.
        if self.random.one_in(3) && !self.large_and_simple {
            let (x, kind) = self.any_tile();
            init.push(x);
            kinds.push(kind);
        }
        let rescale = self.random.below(6);
        let values = self.for_each_step(&loop_bounds, init, &kinds, |inner, step, carried| {
            let a = inner.load_operand(&lhs, step);
            let mut next_values = Vec::new();
            for (matrix, acc) in [Some(&rhs), second_rhs.as_ref()].into_iter().flatten().zip(carried) {
                let b = inner.load_operand(matrix, step);
                let acc = if rescale == 0 { inner.rescaled_rows(*acc, &result, step) } else { *acc };
                next_values.push(inner.emit_mma(a, b, acc, &result));
            }
            for i in next_values.len()..carried.len() {
                next_values.push(inner.arithmetic(carried[i], &kinds[i].clone()));
            }
            next_values
        });
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add_to_pool(value, kind));
    }

    /// Emits a persistent loop over output tiles, with an inner loop over K. The outer loop stores each output tile, and carries
    /// the sum of all output tiles.
    pub(crate) fn persistent_mma_loop(&mut self) {
        let types = self.random.pick(&MMA_TYPES);
        let [m, n, k] = self.mma_extents();
        let (zero, grid, steps) = (self.index_constant(0), self.index_constant(self.grid), self.random_loop_bounds());
        let max_tiles = self.random.pick(&[0, 1, 2, 3, 5, 7]);
        let tile_bound = if self.random.one_in(2) { self.index_constant(max_tiles) } else { self.add_i32_parameter(max_tiles) };
        let tile_count = GeneratedLoopRange { bounds: [self.block_index, tile_bound, grid], max_trips: max_tiles.max(1) };
        let lhs = self.add_matrix(types, m, k, steps.max_trips, true, zero, tile_count.max_trips);
        let rhs = self.add_matrix(types, n, k, steps.max_trips, false, zero, 1);
        let result = TileKind::new(types.acc, &[m, n]);
        let out = self.add_output(types.acc, m * tile_count.max_trips * n, 0.0);
        let out = Tensor::packed(types.acc, &[m * tile_count.max_trips, n], &[0, 1], out);
        let out = self.view(&out, &View { kind: ViewKind::Partition, tile: vec![m, n], dim_map: vec![0, 1] }, None);
        let (init, kinds) = (vec![self.initial_accumulator(&result, types.limit)], [result.clone()]);
        let total = self.for_each_step(&tile_count, init, &kinds, |outer, tile, total| {
            let lhs = Matrix { other_index: tile, ..lhs };
            let init = vec![outer.initial_accumulator(&result, types.limit)];
            let accumulators = outer.for_each_step(&steps, init, &kinds, |inner, step, acc| {
                let (a, b) = (inner.load_operand(&lhs, step), inner.load_operand(&rhs, step));
                vec![inner.emit_mma(a, b, acc[0], &result)]
            });
            outer.store_view(out, &[tile, zero], accumulators[0], None);
            vec![outer.emit_add(total[0], accumulators[0], &result)]
        });
        self.add_to_pool(total[0], result.clone());
    }

    /// Emits the sum of two integer or float tiles.
    fn emit_add(&mut self, lhs: Value, rhs: Value, kind: &TileKind) -> Value {
        let rounding_mode = Rounding::NearestEven;
        match kind.scalar.is_int() {
            true => self.builder.emit_add(kind, lhs, rhs),
            false => self.builder.emit(kind, Op::AddF { flush_to_zero: false, rounding_mode, lhs, rhs }),
        }
    }

    /// Emits the initial accumulator of a loop: small integers or, more often, zeros.
    fn initial_accumulator(&mut self, kind: &TileKind, limit: i64) -> Value {
        if self.random.one_in(3) { self.small_integers(kind, limit) } else { self.splat(kind, 0) }
    }

    /// Emits the multiplication of each row of `acc` by 1 or -1, similar to the rescaling of the accumulator in attention. In some
    /// programs, some factors are infinite, NaN or zero instead.
    fn rescaled_rows(&mut self, acc: Value, kind: &TileKind, step: Value) -> Value {
        let rows = TileKind::new(Scalar::I32, &[kind.shape[0], 1]);
        let flat = TileKind::new(Scalar::I32, &[kind.shape[0]]);
        let row_indices = self.builder.emit(&flat, Op::Iota {});
        let row_indices = self.reshape(row_indices, &flat, &rows.shape);
        let scalar_step = self.reshape(step, &TileKind::new(Scalar::I32, &[]), &[1, 1]);
        let steps = if rows.count() == 1 { scalar_step } else { self.builder.emit(&rows, Op::Broadcast { source: scalar_step }) };
        let row_plus_step = self.builder.emit_add(&rows, row_indices, steps);
        // Maps a low bit of 0 to 1, and a low bit of 1 to -1.
        let (mask, minus_two, one) = (self.splat(&rows, 1), self.splat(&rows, (-2i64) as u64), self.splat(&rows, 1));
        let low_bit = self.builder.emit_and(&rows, row_plus_step, mask);
        let low_bit = self.builder.emit_mul(&rows, low_bit, minus_two);
        let sign = self.builder.emit_add(&rows, low_bit, one);
        let sign = self.convert_from_i32(sign, &rows.with_scalar(kind.scalar));
        let mut independent_random = self.random.independent();
        let sign = match kind.scalar.is_float() && independent_random.one_in(3) {
            true => self.with_special_factors(sign, &rows.with_scalar(kind.scalar), row_plus_step, &mut independent_random),
            false => sign,
        };
        let rhs = self.builder.emit(kind, Op::Broadcast { source: sign });
        match kind.scalar.is_int() {
            true => self.builder.emit_mul(kind, acc, rhs),
            false => {
                let rounding_mode = Rounding::NearestEven;
                self.builder.emit(kind, Op::MulF { flush_to_zero: false, rounding_mode, lhs: acc, rhs })
            }
        }
    }

    /// Replaces some row factors by infinity, NaN or zero. `numbers` contains the row index plus the step for each row, so the
    /// replaced factors differ between steps.
    fn with_special_factors(&mut self, factors: Value, kind: &TileKind, numbers: Value, random: &mut Random) -> Value {
        let i32_kind = kind.with_scalar(Scalar::I32);
        let special = random.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0]);
        let (mask, remainder) = (random.pick(&[1, 3, 7]), random.below(4) as u64);
        let (mask, remainder) = (self.splat(&i32_kind, mask), self.splat(&i32_kind, remainder));
        let lhs = self.builder.emit_and(&i32_kind, numbers, mask);
        let (comparison_predicate, signedness, rhs) = (Predicate::Equal, Signedness::Signed, remainder);
        let cond = self.builder.emit(&kind.with_scalar(Scalar::I1), Op::CmpI { comparison_predicate, signedness, lhs, rhs });
        let val_if_true = self.splat_float(kind, special);
        self.builder.emit(kind, Op::Select { cond, val_if_true, val_if_false: factors })
    }

    /// Emits a `for` loop with the initial loop-carried values `init` of the given kinds. `emit_body` emits the body: it receives
    /// the counter and the loop-carried values, and returns the next values. Returns the final values.
    pub(crate) fn for_each_step(
        &mut self,
        loop_bounds: &GeneratedLoopRange,
        init: Vec<Value>,
        kinds: &[TileKind],
        emit_body: impl FnOnce(&mut Generator, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<_> = kinds.iter().map(|kind| self.builder.tile_type(kind)).collect();
        let counter = self.builder.tile_type(&TileKind::new(Scalar::I32, &[]));
        let (body, args, outer_block) = self.builder.open_region(&[&[counter], &types[..]].concat());
        let pool_length = self.pool.len();
        (self.region_depth, self.loop_depth) = (self.region_depth + 1, self.loop_depth + 1);
        let operands = emit_body(self, args[0], &args[1..]).into();
        (self.region_depth, self.loop_depth) = (self.region_depth - 1, self.loop_depth - 1);
        self.pool.truncate(pool_length);
        self.builder.emit_with_types(Op::Continue { operands }, &[]);
        self.builder.close_region(outer_block);
        let [lower_bound, upper_bound, step] = loop_bounds.bounds;
        let op = Op::For { unsigned_cmp: false, lower_bound, upper_bound, step, init_values: init.into(), body };
        self.builder.emit_with_types(op, &types)
    }

    /// Emits two chained MMAs, as in attention: the left operand of the second MMA is computed from the result of the first.
    pub(crate) fn attention(&mut self) {
        let types = self.random.pick(&[MMA_TYPES[0], MMA_TYPES[2], mma_types(Scalar::F16, Scalar::F32, 2)]);
        let [m, n, k] = self.mma_extents();
        let width = self.random.pick(&[16, 32, 64]);
        let (zero, loop_bounds) = (self.index_constant(0), self.random_loop_bounds());
        let queries = self.add_matrix(types, m, k, 1, true, self.block_index, self.grid);
        // Each step loads the next columns of the keys and the next rows of the values.
        let keys = Matrix { ..self.add_matrix(types, k, n, loop_bounds.max_trips, true, zero, 1) };
        let values = self.add_matrix(types, width, n, loop_bounds.max_trips, false, zero, 1);
        let (scores, result) = (TileKind::new(types.acc, &[m, n]), TileKind::new(types.acc, &[m, width]));
        let query = self.load_operand(&queries, zero);
        let rows = TileKind::new(types.acc, &[m]);
        let init = vec![self.initial_accumulator(&result, types.limit), self.splat_float(&rows, -1e4)];
        let rescale = self.random.one_in(2);
        let kinds = [result.clone(), rows.clone()];
        let results = self.for_each_step(&loop_bounds, init, &kinds, |inner, step, carried| {
            let key = inner.load_operand(&keys, step);
            let zero_scores = inner.splat(&scores, 0);
            let score = inner.emit_mma(query, key, zero_scores, &scores);
            let row_maxima = inner.row_maximum(score, &scores, carried[1]);
            let integer_weights = inner.integer_weights(score, &scores, types);
            let value = inner.load_operand(&values, step);
            let acc = if rescale { inner.rescaled_rows(carried[0], &result, step) } else { carried[0] };
            vec![inner.emit_mma(integer_weights, value, acc, &result), row_maxima]
        });
        self.add_to_pool(results[1], rows);
        self.add_to_pool(results[0], result);
    }

    /// Emits the larger of the maximum of each row of `x` and the previous maximum of this row, as online softmax does.
    fn row_maximum(&mut self, x: Value, kind: &TileKind, previous_maxima: Value) -> Value {
        let scalar = TileKind::new(kind.scalar, &[]);
        let ty = self.builder.tile_type(&scalar);
        let (body, args, outer_block) = self.builder.open_region(&[ty, ty]);
        let (propagate_nan, flush_to_zero) = (false, false);
        let maximum = self.builder.emit_with_type(Op::MaxF { propagate_nan, flush_to_zero, lhs: args[0], rhs: args[1] }, ty);
        self.builder.emit_with_types(Op::Yield { operands: [maximum].into() }, &[]);
        self.builder.close_region(outer_block);
        let identities = [self.scalar_attribute(kind.scalar, encode(kind.scalar, f64::NEG_INFINITY))].into();
        let rows = TileKind::new(kind.scalar, &kind.shape[..1]);
        let rhs = self.builder.emit(&rows, Op::Reduce { dim: 1, identities, operands: [x].into(), body });
        self.builder.emit(&rows, Op::MaxF { propagate_nan, flush_to_zero, lhs: previous_maxima, rhs })
    }

    /// Emits integers from 0 to 3 that depend on the scores, as the left operand of the second MMA.
    fn integer_weights(&mut self, scores: Value, kind: &TileKind, types: MmaTypes) -> Value {
        let i32_kind = kind.with_scalar(Scalar::I32);
        let (saturating, signedness, rounding_mode) = (false, Signedness::Signed, Rounding::NearestIntToZero);
        let numbers = self.builder.emit(&i32_kind, Op::FToI { saturating, signedness, rounding_mode, from: scores });
        let mask = self.splat(&i32_kind, 3);
        let low_bits = self.builder.emit_and(&i32_kind, numbers, mask);
        self.convert_from_i32(low_bits, &kind.with_scalar(types.operand))
    }

    /// Emits a block-scaled MMA: narrow floats with one power-of-two scale per block of elements.
    pub(crate) fn block_scaled_mma(&mut self) {
        let [m, n, _] = self.mma_extents();
        let k = self.random.pick(&[32, 64, 128]);
        let (operand, scale, block) = self.random.pick(&[
            (Scalar::F8E4M3FN, Scalar::F8E8M0FNU, 32),
            (Scalar::F8E5M2, Scalar::F8E8M0FNU, 32),
            (Scalar::F4E2M1FN, Scalar::F8E8M0FNU, 32),
            (Scalar::F4E2M1FN, Scalar::F8E8M0FNU, 16),
            (Scalar::F4E2M1FN, Scalar::F8E4M3FN, 16),
        ]);
        let lhs = self.small_integers(&TileKind::new(operand, &[m, k]), 2);
        let rhs = self.small_integers(&TileKind::new(operand, &[k, n]), 2);
        let (lhs_scale, rhs_scale) = (self.scale_factors(scale, [m, k / block]), self.scale_factors(scale, [k / block, n]));
        let result = TileKind::new(Scalar::F32, &[m, n]);
        let acc = self.initial_accumulator(&result, 4);
        let value = self.builder.emit(&result, Op::MmaFScaled { lhs, rhs, acc, lhs_scale, rhs_scale });
        self.add_to_pool(value, result);
    }

    /// Emits a loop over K with a block-scaled MMA of tiles from memory. The elements are 8-bit floats, or bytes with two 4-bit
    /// floats each.
    pub(crate) fn block_scaled_mma_loop(&mut self) {
        let m = self.random.pick(&[64, 128, 128, 128, 256]);
        let (n, k) = (self.random.pick(&[16, 32, 64, 64, 128]), self.random.pick(&[64, 128, 128, 256]));
        let (packed, scale, block) = self.random.pick(&[
            (false, Scalar::F8E8M0FNU, 32),
            (true, Scalar::F8E8M0FNU, 32),
            (true, Scalar::F8E8M0FNU, 16),
            (true, Scalar::F8E4M3FN, 16),
        ]);
        let (zero, loop_bounds) = (self.index_constant(0), self.random_loop_bounds());
        let types = if packed { mma_types(Scalar::I8, Scalar::F32, 127) } else { mma_types(Scalar::F8E4M3FN, Scalar::F32, 4) };
        let depth = if packed { k / 2 } else { k };
        let lhs = self.add_matrix(types, m, depth, loop_bounds.max_trips, true, self.block_index, self.grid);
        // Each byte unpacks to two elements along the tile's last dimension, which is K for the left and the right operand.
        let rhs = self.add_matrix(types, n, depth, loop_bounds.max_trips, packed, zero, 1);
        let result = TileKind::new(Scalar::F32, &[m, n]);
        let init = vec![self.initial_accumulator(&result, 4)];
        let values = self.for_each_step(&loop_bounds, init, std::slice::from_ref(&result), |inner, step, acc| {
            let (mut a, mut b) = (inner.load_operand(&lhs, step), inner.load_operand(&rhs, step));
            if packed {
                (a, b) = (inner.unpack_to_f4(a, [m, k]), inner.unpack_to_f4(b, [n, k]));
                let transposed = TileKind::new(Scalar::F4E2M1FN, &[k, n]);
                b = inner.builder.emit(&transposed, Op::Permute { permutation: [1, 0].into(), source: b });
            }
            let (lhs_scale, rhs_scale) = (inner.scale_factors(scale, [m, k / block]), inner.scale_factors(scale, [k / block, n]));
            vec![inner.builder.emit(&result, Op::MmaFScaled { lhs: a, rhs: b, acc: acc[0], lhs_scale, rhs_scale })]
        });
        self.add_to_pool(values[0], result);
    }

    /// Unpacks a tile of bytes to 4-bit floats of the given shape.
    fn unpack_to_f4(&mut self, bytes: Value, [rows, depth]: [i64; 2]) -> Value {
        let flat = self.reshape(bytes, &TileKind::new(Scalar::I8, &[rows, depth / 2]), &[rows * depth / 2]);
        let floats = TileKind::new(Scalar::F4E2M1FN, &[rows * depth]);
        let unpacked = self.builder.emit(&floats, Op::Unpack { source: flat });
        self.reshape(unpacked, &floats, &[rows, depth])
    }

    /// Emits random scale factors, each of them 1/2, 1, 2 or 4.
    fn scale_factors(&mut self, scalar: Scalar, shape: [i64; 2]) -> Value {
        let bytes = TileKind::new(Scalar::I8, &shape);
        let (log2_count, first_bits, bits_step) = if scalar == Scalar::F8E8M0FNU { (2, 126, 1) } else { (2, 0x30, 8) };
        let random_steps = self.integers_below(1 << log2_count, &shape);
        let i32_kind = bytes.with_scalar(Scalar::I32);
        let (bits_step, first_bits) = (self.splat(&i32_kind, bits_step), self.splat(&i32_kind, first_bits));
        let scaled = self.builder.emit_mul(&i32_kind, random_steps, bits_step);
        let bits = self.builder.emit_add(&i32_kind, scaled, first_bits);
        let source = self.convert(bits, &i32_kind, Scalar::I8);
        self.builder.emit(&TileKind::new(scalar, &shape), Op::Bitcast { source })
    }
}
