//! Generators of structured control flow: `if`, `for`, `loop` and early returns.
//! Invariant: every generated loop ends after a few iterations.

use crate::builder::TileKind;
use crate::program::Generator;
use base::ir::{Region, Value};
use numerics::Scalar;
use numerics::arith::{Overflow, Predicate, Signedness};
use tileir::Op;

/// Element type of loop counters and of tile block indices.
const INDEX_TYPE: Scalar = Scalar::I32;

impl Generator {
    /// Emits a scalar condition that may differ between tile blocks.
    pub(crate) fn random_condition(&mut self) -> Value {
        let scalar = TileKind::new(INDEX_TYPE, &[]);
        let scalar_value = if self.random.one_in(3) { self.tile_of_kind(&scalar) } else { self.block_index };
        let one = self.index_constant(1);
        let low_bit = self.builder.emit_and(&scalar, scalar_value, one);
        self.compare_scalars(Predicate::Equal, low_bit, one)
    }

    /// Emits a signed comparison of two i32 scalars.
    pub(crate) fn compare_scalars(&mut self, comparison_predicate: Predicate, lhs: Value, rhs: Value) -> Value {
        let op = Op::CmpI { comparison_predicate, signedness: Signedness::Signed, lhs, rhs };
        self.builder.emit(&TileKind::new(Scalar::I1, &[]), op)
    }

    /// Returns the type ids of tiles.
    fn tile_types(&mut self, kinds: &[TileKind]) -> Vec<tileir::TypeId> {
        kinds.iter().map(|kind| self.builder.tile_type(kind)).collect()
    }

    /// Builds a region whose arguments are tiles. The arguments are in the pool while `emit_body` emits the region's ops.
    fn region_of_tiles(&mut self, args: &[TileKind], emit_body: impl FnOnce(&mut Generator, &[Value])) -> Region {
        let types = self.tile_types(args);
        self.region(&types, |inner, values| {
            values.iter().zip(args).for_each(|(value, kind)| inner.add_to_pool(*value, kind.clone()));
            emit_body(inner, values);
        })
    }

    /// Builds a region with arguments of the given types; `emit_body` emits its ops. Values of the region leave the pool when the
    /// region ends.
    pub(crate) fn region(&mut self, args: &[tileir::TypeId], emit_body: impl FnOnce(&mut Generator, &[Value])) -> Region {
        let (region, values, outer_block) = self.builder.open_region(args);
        let pool_length = self.pool.len();
        self.region_depth += 1;
        emit_body(self, &values);
        self.region_depth -= 1;
        self.pool.truncate(pool_length);
        self.builder.close_region(outer_block);
        region
    }

    /// Emits up to `max_steps` random steps in the current region.
    fn emit_inner_steps(&mut self, max_steps: usize) {
        for _ in 0..self.random.below(max_steps + 1) {
            self.emit_inner_step();
        }
    }

    /// Returns one tile per kind as operands of a terminator. Each tile comes from the pool or is a new op.
    fn terminator_operands(&mut self, kinds: &[TileKind]) -> Box<[Value]> {
        let compute = |kind| {
            let x = self.tile_of_kind(kind);
            if self.random.one_in(4) { x } else { self.arithmetic(x, kind) }
        };
        kinds.iter().map(compute).collect()
    }

    /// Returns the kinds of one or two random tiles, for the results of a control-flow op.
    fn random_kinds(&mut self) -> Vec<TileKind> {
        (0..1 + self.random.below(2)).map(|_| self.any_tile().1).collect()
    }

    /// Adds the results of a control-flow op to the pool.
    fn add_all_to_pool(&mut self, values: Vec<Value>, kinds: Vec<TileKind>) {
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add_to_pool(value, kind));
    }

    /// Emits an `if` whose branches compute tiles.
    pub(crate) fn if_with_results(&mut self) {
        let (kinds, condition) = (self.random_kinds(), self.random_condition());
        let [then_region, else_region] = [0; 2].map(|_| {
            self.region(&[], |inner, _| {
                inner.emit_inner_steps(3);
                let operands = inner.terminator_operands(&kinds);
                inner.builder.emit_with_types(Op::Yield { operands }, &[]);
            })
        });
        let types = self.tile_types(&kinds);
        let values = self.builder.emit_with_types(Op::If { condition, then_region, else_region }, &types);
        self.add_all_to_pool(values, kinds);
    }

    /// Emits an `if` without results. `then` must emit the terminator of its region.
    pub(crate) fn emit_if(&mut self, condition: Value, then: impl FnOnce(&mut Generator)) {
        let then_region = self.region(&[], |inner, _| then(inner));
        let else_region =
            self.region(&[], |inner, _| _ = inner.builder.emit_with_types(Op::Yield { operands: Box::default() }, &[]));
        self.builder.emit_with_types(Op::If { condition, then_region, else_region }, &[]);
    }

    /// Emits the lower bound, upper bound and step of a loop with few iterations. Returns the kind of the three values, the values,
    /// and whether the loop compares them as unsigned numbers.
    pub(crate) fn loop_bounds(&mut self) -> (TileKind, [Value; 3], bool) {
        let kind = TileKind::new(self.random.pick(&[INDEX_TYPE, INDEX_TYPE, INDEX_TYPE, Scalar::I64, Scalar::I16]), &[]);
        let is_unsigned = self.random.one_in(4);
        let low = if is_unsigned { self.random.below(4) as i64 } else { self.random.below(8) as i64 - 4 };
        let step = 1 + self.random.below(3) as i64;
        let trip_count = self.random.below(6) as i64;
        let [lower, mut upper, step] = [low, low + trip_count * step, step].map(|n| self.splat(&kind, n as u64));
        if self.random.one_in(2) {
            // Add a small number that may differ between tile blocks, so that their trip counts differ.
            let extra = self.integers_below(4, &[]);
            let extra = match kind.scalar {
                Scalar::I64 => self.builder.emit(&kind, Op::ExtI { signedness: Signedness::Unsigned, from: extra }),
                Scalar::I16 => self.builder.emit(&kind, Op::TruncI { overflow: Overflow::None, from: extra }),
                _ => extra,
            };
            upper = self.builder.emit_add(&kind, upper, extra);
        }
        (kind, [lower, upper, step], is_unsigned)
    }

    /// Emits a `for` loop that carries random tiles. Some loops also have a conditional `continue`.
    pub(crate) fn for_loop(&mut self) {
        let kinds = self.random_kinds();
        let init_values = kinds.iter().map(|kind| self.tile_of_kind(kind)).collect();
        let (counter, [lower_bound, upper_bound, step], unsigned_cmp) = self.loop_bounds();
        let args = [&[counter], &kinds[..]].concat();
        self.loop_depth += 1;
        let body = self.region_of_tiles(&args, |inner, _| {
            inner.emit_inner_steps(3);
            if inner.random.one_in(4) {
                let condition = inner.random_condition();
                inner.emit_if(condition, |inner| inner.emit_continue(&[], &kinds));
                inner.emit_inner_steps(1);
            }
            inner.emit_continue(&[], &kinds);
        });
        self.loop_depth -= 1;
        let types = self.tile_types(&kinds);
        let op = Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body };
        let values = self.builder.emit_with_types(op, &types);
        self.add_all_to_pool(values, kinds);
    }

    /// Emits a `continue` with the values `leading`, followed by one tile per kind.
    fn emit_continue(&mut self, leading: &[Value], kinds: &[TileKind]) {
        let computed = self.terminator_operands(kinds);
        let operands = leading.iter().chain(&computed).copied().collect();
        self.builder.emit_with_types(Op::Continue { operands }, &[]);
    }

    /// Emits a `loop` that breaks when its counter reaches a limit. The operands of the `break` may have other kinds than the
    /// loop-carried tiles.
    pub(crate) fn loop_with_break(&mut self) {
        let (kinds, break_kinds) = (self.random_kinds(), self.random_kinds());
        let counter = TileKind::new(INDEX_TYPE, &[]);
        let zero = self.index_constant(0);
        let init_values = [zero].into_iter().chain(kinds.iter().map(|kind| self.tile_of_kind(kind))).collect();
        let limit = if self.random.one_in(2) { self.index_constant(3) } else { self.integers_below(4, &[]) };
        let args = [std::slice::from_ref(&counter), &kinds[..]].concat();
        self.loop_depth += 1;
        let body = self.region_of_tiles(&args, |inner, args| {
            inner.emit_inner_steps(2);
            let is_done = inner.compare_scalars(Predicate::GreaterThanOrEqual, args[0], limit);
            inner.emit_if(is_done, |inner| {
                inner.emit_inner_steps(1);
                let operands = inner.terminator_operands(&break_kinds);
                inner.builder.emit_with_types(Op::Break { operands }, &[]);
            });
            inner.emit_inner_steps(2);
            let one = inner.index_constant(1);
            let next_count = inner.builder.emit_add(&counter, args[0], one);
            if inner.random.one_in(3) {
                let condition = inner.random_condition();
                inner.emit_if(condition, |inner| inner.emit_continue(&[next_count], &kinds));
            }
            inner.emit_continue(&[next_count], &kinds);
        });
        self.loop_depth -= 1;
        let types = self.tile_types(&break_kinds);
        let values = self.builder.emit_with_types(Op::Loop { init_values, body }, &types);
        self.add_all_to_pool(values, break_kinds);
    }

    /// Emits a conditional return. Tile blocks for which the condition is true store one more tile and exit.
    pub(crate) fn return_early(&mut self) {
        let condition = self.random_condition();
        self.emit_if(condition, |inner| {
            inner.early_store();
            inner.builder.emit_with_types(Op::Return { operands: Box::default() }, &[]);
        });
    }

    /// Stores a tile of the pool before the end of the program.
    pub(crate) fn early_store(&mut self) {
        let (value, kind) = self.any_tile();
        self.store_to_new_output(value, &kind);
    }
}
