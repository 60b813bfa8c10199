//! Generators of structured control flow: `if`, `for`, `loop` and early returns.
//! Invariant: every generated loop ends after a few iterations.

use crate::builder::Kind;
use crate::program::Generator;
use base::ir::{Region, Value};
use numerics::Scalar;
use numerics::arith::{Overflow, Predicate, Signedness};
use tileir::Op;

const INDEX: Scalar = Scalar::I32;

impl Generator {
    /// Emits a scalar condition that may differ between tile blocks.
    pub(crate) fn decision(&mut self) -> Value {
        let scalar = Kind::new(INDEX, &[]);
        let number = if self.random.one_in(3) { self.some(&scalar) } else { self.block };
        let one = self.index_constant(1);
        let low = self.build.and(&scalar, number, one);
        self.integers(Predicate::Equal, low, one)
    }

    pub(crate) fn integers(&mut self, comparison_predicate: Predicate, lhs: Value, rhs: Value) -> Value {
        let op = Op::CmpI { comparison_predicate, signedness: Signedness::Signed, lhs, rhs };
        self.build.emit(&Kind::new(Scalar::I1, &[]), op)
    }

    fn types(&mut self, kinds: &[Kind]) -> Vec<tileir::TypeId> {
        kinds.iter().map(|kind| self.build.tile(kind)).collect()
    }

    /// Builds a region whose arguments are tiles. Ops inside it can use the arguments.
    fn region_of_tiles(&mut self, args: &[Kind], fill: impl FnOnce(&mut Generator, &[Value])) -> Region {
        let types = self.types(args);
        self.region(&types, |inner, values| {
            values.iter().zip(args).for_each(|(value, kind)| inner.add(*value, kind.clone()));
            fill(inner, values);
        })
    }

    /// Builds a region; `fill` emits its ops. Values of the region leave the pool when the region ends.
    pub(crate) fn region(&mut self, args: &[tileir::TypeId], fill: impl FnOnce(&mut Generator, &[Value])) -> Region {
        let (region, values, before) = self.build.region(args);
        let outside = self.pool.len();
        self.depth += 1;
        fill(self, &values);
        self.depth -= 1;
        self.pool.truncate(outside);
        self.build.close(before);
        region
    }

    fn inner_steps(&mut self, most: usize) {
        for _ in 0..self.random.below(most + 1) {
            self.inner_step();
        }
    }

    /// Emits or selects one tile per kind, as operands of a terminator.
    fn computed(&mut self, kinds: &[Kind]) -> Box<[Value]> {
        let compute = |kind| {
            let x = self.some(kind);
            if self.random.one_in(4) { x } else { self.arithmetic(x, kind) }
        };
        kinds.iter().map(compute).collect()
    }

    fn kinds(&mut self) -> Vec<Kind> {
        (0..1 + self.random.below(2)).map(|_| self.any().1).collect()
    }

    fn add_all(&mut self, values: Vec<Value>, kinds: Vec<Kind>) {
        values.into_iter().zip(kinds).for_each(|(value, kind)| self.add(value, kind));
    }

    pub(crate) fn conditional(&mut self) {
        let (kinds, condition) = (self.kinds(), self.decision());
        let [then_region, else_region] = [0; 2].map(|_| {
            self.region(&[], |inner, _| {
                inner.inner_steps(3);
                let operands = inner.computed(&kinds);
                inner.build.ops(Op::Yield { operands }, &[]);
            })
        });
        let types = self.types(&kinds);
        let values = self.build.ops(Op::If { condition, then_region, else_region }, &types);
        self.add_all(values, kinds);
    }

    /// Emits an `if` without results. `then` must emit the terminator of its region.
    pub(crate) fn when(&mut self, condition: Value, then: impl FnOnce(&mut Generator)) {
        let then_region = self.region(&[], |inner, _| then(inner));
        let else_region = self.region(&[], |inner, _| _ = inner.build.ops(Op::Yield { operands: Box::default() }, &[]));
        self.build.ops(Op::If { condition, then_region, else_region }, &[]);
    }

    /// Emits the lower bound, upper bound and step of a loop with few iterations.
    /// Returns their type, the three values, and whether the loop compares unsigned.
    pub(crate) fn bounds(&mut self) -> (Kind, [Value; 3], bool) {
        let kind = Kind::new(self.random.pick(&[INDEX, INDEX, INDEX, Scalar::I64, Scalar::I16]), &[]);
        let unsigned = self.random.one_in(4);
        let low = if unsigned { self.random.below(4) as i64 } else { self.random.below(8) as i64 - 4 };
        let step = 1 + self.random.below(3) as i64;
        let steps = self.random.below(6) as i64;
        let [lower, mut upper, step] = [low, low + steps * step, step].map(|n| self.splat(&kind, n as u64));
        if self.random.one_in(2) {
            // Adds a small number that may differ between tile blocks.
            let more = self.below(4, &[]);
            let more = match kind.scalar {
                Scalar::I64 => self.build.emit(&kind, Op::ExtI { signedness: Signedness::Unsigned, from: more }),
                Scalar::I16 => self.build.emit(&kind, Op::TruncI { overflow: Overflow::None, from: more }),
                _ => more,
            };
            upper = self.build.plus(&kind, upper, more);
        }
        (kind, [lower, upper, step], unsigned)
    }

    pub(crate) fn repeat(&mut self) {
        let kinds = self.kinds();
        let init_values = kinds.iter().map(|kind| self.some(kind)).collect();
        let (counter, [lower_bound, upper_bound, step], unsigned_cmp) = self.bounds();
        let args = [&[counter], &kinds[..]].concat();
        self.loops += 1;
        let body = self.region_of_tiles(&args, |inner, _| {
            inner.inner_steps(3);
            if inner.random.one_in(4) {
                let condition = inner.decision();
                inner.when(condition, |inner| inner.go_on(&[], &kinds));
                inner.inner_steps(1);
            }
            inner.go_on(&[], &kinds);
        });
        self.loops -= 1;
        let types = self.types(&kinds);
        let op = Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body };
        let values = self.build.ops(op, &types);
        self.add_all(values, kinds);
    }

    fn go_on(&mut self, first: &[Value], kinds: &[Kind]) {
        let rest = self.computed(kinds);
        let operands = first.iter().chain(&rest).copied().collect();
        self.build.ops(Op::Continue { operands }, &[]);
    }

    /// Emits a `loop` that breaks when its counter reaches a limit. The results of the `break` have kinds of their own.
    pub(crate) fn unbounded(&mut self) {
        let (kinds, left) = (self.kinds(), self.kinds());
        let counter = Kind::new(INDEX, &[]);
        let zero = self.index_constant(0);
        let init_values = [zero].into_iter().chain(kinds.iter().map(|kind| self.some(kind))).collect();
        let limit = if self.random.one_in(2) { self.index_constant(3) } else { self.below(4, &[]) };
        let args = [std::slice::from_ref(&counter), &kinds[..]].concat();
        self.loops += 1;
        let body = self.region_of_tiles(&args, |inner, args| {
            inner.inner_steps(2);
            let done = inner.integers(Predicate::GreaterThanOrEqual, args[0], limit);
            inner.when(done, |inner| {
                inner.inner_steps(1);
                let operands = inner.computed(&left);
                inner.build.ops(Op::Break { operands }, &[]);
            });
            inner.inner_steps(2);
            let one = inner.index_constant(1);
            let next = inner.build.plus(&counter, args[0], one);
            if inner.random.one_in(3) {
                let condition = inner.decision();
                inner.when(condition, |inner| inner.go_on(&[next], &kinds));
            }
            inner.go_on(&[next], &kinds);
        });
        self.loops -= 1;
        let types = self.types(&left);
        let values = self.build.ops(Op::Loop { init_values, body }, &types);
        self.add_all(values, left);
    }

    /// Emits a conditional return: some tile blocks store one more tile and exit.
    pub(crate) fn leave_early(&mut self) {
        let condition = self.decision();
        self.when(condition, |inner| {
            inner.early_store();
            inner.build.ops(Op::Return { operands: Box::default() }, &[]);
        });
    }

    /// Stores a tile of the pool before the end of the program.
    pub(crate) fn early_store(&mut self) {
        let (value, kind) = self.any();
        self.store(value, &kind);
    }
}
