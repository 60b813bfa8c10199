//! Generators of MMAs whose control flow and operands depend on loaded numbers, as in grouped and ragged matmuls. A table describes
//! groups of rows: for each group, its rows of an array, its number of K tiles, and a flag. Some tile blocks skip groups whose flag
//! is 0, and some return early.
//! Invariant: the rows of the groups are disjoint, and a single tile block computes each group.

use crate::builder::{TileKind, View, ViewKind};
use crate::mma::{GeneratedLoopRange, MMA_TYPES, Matrix, MmaTypes};
use crate::program::Generator;
use crate::views::Tensor;
use base::ir::Value;
use core_dialect::memory::Padding;
use numerics::Scalar;
use numerics::arith::{Predicate, Rounding, Signedness};
use tileir::types::DYNAMIC;
use tileir::{Attribute, Op};

/// Element type of the table and of tile block indices.
const INDEX_TYPE: Scalar = Scalar::I32;

/// The entries of a group in the table. `T` is `i64` for numbers on the host, and `Value` for values of the program.
#[derive(Clone, Copy)]
struct Group<T> {
    first_row: T,
    rows: T,
    /// Number of K tiles.
    depth: T,
    /// 0 if tile blocks may skip the group. The lowest bit also selects the head.
    flag: T,
}

/// An array with the rows of all groups. Each row has `heads` heads of `columns` elements.
struct RowArray {
    scalar: Scalar,
    base: Value,
    heads: i64,
    columns: i64,
    /// The rows and columns of a tile in the view of a group's rows.
    tile: [i64; 2],
}

impl RowArray {
    /// Returns extents or indices with the head between rows and columns, if the array has several heads.
    fn with_head(&self, [rows, columns]: [i64; 2], head: i64) -> Vec<i64> {
        if self.heads > 1 { vec![rows, head, columns] } else { vec![rows, columns] }
    }
}

impl Generator {
    /// Emits a persistent loop over groups, with an MMA loop for each tile of the group's rows.
    pub(crate) fn ragged_mma(&mut self) {
        let types = self.random.pick(&MMA_TYPES);
        let [m, n, k] = self.mma_extents();
        let (count, max_depth) = (1 + self.random.below(5) as i64, self.random.pick(&[1, 2, 3, 5]));
        let (groups, total_rows) = self.random_groups(count, m, max_depth);
        let table = self.group_table(&groups);
        let heads = self.random.pick(&[1, 1, 2]);
        let stored = if types.operand == Scalar::TF32 { Scalar::F32 } else { types.operand };
        let columns = k * max_depth;
        let base = self.small_integer_input(stored, total_rows * heads * columns, types.limit);
        let lhs = RowArray { scalar: stored, base: self.assume_aligned(base, stored), heads, columns, tile: [m, k] };
        let zero = self.index_constant(0);
        let rhs = self.add_matrix(types, n, k, max_depth, false, zero, 1);
        let out = self.add_output(types.acc, total_rows * n, 0.0);
        let out = RowArray { scalar: types.acc, base: self.assume_aligned(out, types.acc), heads: 1, columns: n, tile: [m, n] };
        if self.random.one_in(4) {
            self.return_if_flag_is_zero(table, count);
        }
        let bounds = [self.block_index, self.index_constant(count), self.index_constant(self.grid)];
        let may_skip = self.random.one_in(2);
        self.for_each_step(&GeneratedLoopRange { bounds, max_trips: count }, Vec::new(), &[], |outer, number, _| {
            let group = outer.load_group(table, number, count);
            if may_skip {
                let is_skipped = outer.compare_scalars(Predicate::Equal, group.flag, zero);
                let skip = Op::Continue { operands: Box::default() };
                outer.emit_if(is_skipped, |inner| _ = inner.builder.emit_with_types(skip, &[]));
            }
            outer.emit_group_mmas(types, &lhs, &rhs, &out, group);
            Vec::new()
        });
    }

    /// Returns random groups in the order of their rows, and the total number of rows. A group has up to three tiles of `m` rows.
    fn random_groups(&mut self, count: i64, m: i64, max_depth: i64) -> (Vec<Group<i64>>, i64) {
        let mut next_row = self.random.below(4) as i64;
        let groups = (0..count).map(|_| {
            let partial = self.random.below(m as usize) as i64;
            let rows = self.random.pick(&[0, 1, m, partial, m + partial, 3 * m - 1]);
            let depth = self.random.below(max_depth as usize + 1) as i64;
            let group = Group { first_row: next_row, rows, depth, flag: self.random.below(3) as i64 };
            next_row += rows + self.random.below(3) as i64;
            group
        });
        let groups = groups.collect();
        (groups, next_row.max(1))
    }

    /// Adds an input buffer with the table: all first rows, then all row counts, all depths and all flags. Returns a view of its
    /// elements.
    fn group_table(&mut self, groups: &[Group<i64>]) -> Value {
        let fields: [fn(&Group<i64>) -> i64; 4] = [|g| g.first_row, |g| g.rows, |g| g.depth, |g| g.flag];
        let numbers = fields.iter().flat_map(|field| groups.iter().map(field));
        let data = numbers.flat_map(|number| (number as i32).to_le_bytes()).collect();
        let base = self.add_input_buffer(INDEX_TYPE, data);
        let tensor = Tensor::packed(INDEX_TYPE, &[4 * groups.len() as i64], &[0], base);
        self.view(&tensor, &View { kind: ViewKind::Partition, tile: vec![1], dim_map: vec![0] }, None)
    }

    /// Loads the table entries of the group with index `number`. `count` is the number of groups.
    fn load_group(&mut self, table: Value, number: Value, count: i64) -> Group<Value> {
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let [first_row, rows, depth, flag] = [0, 1, 2, 3].map(|field| {
            let start = self.index_constant(field * count);
            let entry = self.builder.emit_add(&scalar, number, start);
            self.load_table_entry(table, entry)
        });
        Group { first_row, rows, depth, flag }
    }

    /// Emits a return of the tile blocks whose group has the flag 0.
    fn return_if_flag_is_zero(&mut self, table: Value, count: i64) {
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let last = self.index_constant(count - 1);
        let number = Op::MinI { signedness: Signedness::Signed, lhs: self.block_index, rhs: last };
        let number = self.builder.emit(&scalar, number);
        let (flag, zero) = (self.load_group(table, number, count).flag, self.index_constant(0));
        let flag_is_zero = self.compare_scalars(Predicate::Equal, flag, zero);
        self.emit_if(flag_is_zero, |inner| {
            _ = inner.builder.emit_with_types(Op::Return { operands: Box::default() }, &[]);
        });
    }

    /// Emits loops that multiply the rows of a group by a matrix, and store the result to the same rows of the output.
    fn emit_group_mmas(&mut self, types: MmaTypes, lhs: &RowArray, rhs: &Matrix, out: &RowArray, group: Group<Value>) {
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let (zero, one) = (self.index_constant(0), self.index_constant(1));
        let tile_rows = self.index_constant(lhs.tile[0]);
        let (signedness, rounding) = (Signedness::Signed, Rounding::PositiveInf);
        let tiles = self.builder.emit(&scalar, Op::DivI { signedness, rounding, lhs: group.rows, rhs: tile_rows });
        let [lhs_view, out_view] = [lhs, out].map(|array| self.group_view(array, group));
        let head = self.builder.emit_and(&scalar, group.flag, one);
        let result = TileKind::new(types.acc, &out.tile);
        let is_unbounded = self.random.one_in(4);
        self.for_each_step(&GeneratedLoopRange { bounds: [zero, tiles, one], max_trips: 3 }, Vec::new(), &[], |outer, tile, _| {
            let step = |inner: &mut Generator, step: Value, acc: Value| {
                let index = if lhs.heads > 1 { vec![tile, head, step] } else { vec![tile, step] };
                let loaded = TileKind::new(lhs.scalar, &lhs.with_head(lhs.tile, 1));
                let (rows, _) = inner.load_view(lhs_view, &index, &loaded, None);
                let mut a = inner.reshape(rows, &loaded, &lhs.tile);
                let operand = TileKind::new(types.operand, &lhs.tile);
                if types.operand != lhs.scalar {
                    a = inner.builder.emit(&operand, Op::FToF { rounding_mode: Rounding::NearestEven, from: a });
                }
                let b = inner.load_operand(rhs, step);
                inner.emit_mma(a, b, acc, &result)
            };
            let total = outer.accumulate_over_depth(group.depth, &result, is_unbounded, step);
            outer.store_partial(out_view, &[tile, zero], total);
            Vec::new()
        });
    }

    /// Emits a loop with `depth` iterations: a `for`, or a `loop` with a `break` if `is_unbounded`. `depth` is a number that the
    /// program loads. `step` emits the next accumulator from the iteration number and the current accumulator.
    fn accumulate_over_depth(
        &mut self,
        depth: Value,
        kind: &TileKind,
        is_unbounded: bool,
        step: impl FnOnce(&mut Generator, Value, Value) -> Value,
    ) -> Value {
        let (zero, one, init) = (self.index_constant(0), self.index_constant(1), self.splat(kind, 0));
        if !is_unbounded {
            let loop_bounds = GeneratedLoopRange { bounds: [zero, depth, one], max_trips: 1 };
            let emit_body = |inner: &mut Generator, at, carried: &[Value]| vec![step(inner, at, carried[0])];
            return self.for_each_step(&loop_bounds, vec![init], std::slice::from_ref(kind), emit_body)[0];
        }
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let types = [&scalar, kind].map(|kind| self.builder.tile_type(kind));
        self.loop_depth += 1;
        let body = self.region(&types, |inner, args| {
            let is_done = inner.compare_scalars(Predicate::GreaterThanOrEqual, args[0], depth);
            let break_op = Op::Break { operands: [args[1]].into() };
            inner.emit_if(is_done, |inner| _ = inner.builder.emit_with_types(break_op, &[]));
            let (next, sum) = (inner.builder.emit_add(&scalar, args[0], one), step(inner, args[0], args[1]));
            inner.builder.emit_with_types(Op::Continue { operands: [next, sum].into() }, &[]);
        });
        self.loop_depth -= 1;
        self.builder.emit_with_types(Op::Loop { init_values: [zero, init].into(), body }, &types[1..])[0]
    }

    /// Emits a view of the rows of a group.
    fn group_view(&mut self, array: &RowArray, group: Group<Value>) -> Value {
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let row_elements = array.heads * array.columns;
        let stride = self.index_constant(row_elements);
        let mut offset = self.builder.emit_mul(&scalar, group.first_row, stride);
        if self.random.one_in(2) {
            let (signedness, wide) = (Signedness::Signed, TileKind::new(Scalar::I64, &[]));
            offset = self.builder.emit(&wide, Op::ExtI { signedness, from: offset });
        }
        let pointer = self.builder.pointer_tile_type(array.scalar, &[]);
        let base = self.builder.emit_with_type(Op::Offset { ptr: array.base, offset }, pointer);
        let (sizes, strides) =
            (array.with_head([DYNAMIC, array.columns], array.heads), array.with_head([row_elements, 1], array.columns));
        let make = Op::MakeTensorView { base, dynamic_shape: [group.rows].into(), dynamic_strides: Box::default() };
        let ty = self.builder.tensor_view_type(array.scalar, &sizes, &strides);
        let tensor_view = self.builder.emit_with_type(make, ty);
        let tile = array.with_head(array.tile, 1);
        let view = View { kind: ViewKind::Partition, dim_map: (0..tile.len()).collect(), tile };
        let ty = self.builder.view_type(&view, ty, Some(Padding::Zero));
        self.builder.emit_with_type(Op::MakePartitionView { tensor_view }, ty)
    }

    /// Emits the assumption that a pointer is a multiple of 16 bytes. Every buffer starts at such an address.
    fn assume_aligned(&mut self, value: Value, scalar: Scalar) -> Value {
        let ty = self.builder.pointer_tile_type(scalar, &[]);
        self.builder.emit_with_type(Op::Assume { predicate: Attribute::DivBy { divisor: 16, every: None, along: None }, value }, ty)
    }

    /// Emits a store of a tile that may extend past the last row of its group.
    fn store_partial(&mut self, view: Value, index: &[Value], tile: Value) {
        let ty = self.builder.token_type();
        let (memory_ordering, memory_scope) = self.random_store_ordering();
        let (index, optimization_hints) = (index.into(), self.access_hints());
        let (inbounds, token) = (Box::default(), None);
        let store = Op::StoreViewTko { memory_ordering, memory_scope, optimization_hints, inbounds, tile, view, index, token };
        self.builder.emit_with_type(store, ty);
    }
}
