//! Purpose: duplicate a kernel, so that one version accesses memory without index clamps. Clients clamp the indices of a tile to
//! the last element of an array. A clamp hides that neighbouring indices are adjacent, so accesses would take one element at a
//! time.
//! Requires: `.aa` with scalars hoisted out of loops.
//! Establishes: for tile blocks whose indices no clamp changes, contiguous indices with aligned starts; other tile blocks execute
//! the original ops.
//! Preserves: values. A scalar condition selects the version, and it holds only if each clamp is the identity on the complete tile.
//! See also: LLVM's `LoopVersioningLICM` and `IRCE`, which also split off the case that a check proves.
//!
//! ```text
//! %i = add_i(broadcast(%s), iota)             if (%s + 1023 <= 2047 and %s % 16 == 0)
//! %j = min_i(%i, 2047)                   =>     load(offset(%p, %i))
//! load(offset(%p, %j))                        else
//!                                               load(offset(%p, min_i(%i, 2047)))
//! ```

use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::{Core, Fact};
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::{Dense, Elem, Shape};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Signedness};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};

/// Largest number of ops of a kernel that the pass duplicates.
/// Reason: both versions share the instruction cache. It has 128 KiB on all targets
/// (`code.cache` in `machines/`), which are 8192 instructions of 16 bytes. An op becomes about 8 PTX instructions: for sm_90 and 20
/// kernels of the tuning half of `scripts/regret`, the median is 7.
const MAX_OPS: usize = 512;
/// Elements of 1 byte in the widest access of a thread, which has 16 bytes. In the version without clamps, indices start at a
/// multiple of this number.
const ALIGNMENT: u64 = 16;

pub(super) fn run(function: &mut Function) -> usize {
    let clamps = clamps_of_kernel(function);
    let Some(first) = clamps.first() else { return 0 };
    let split = first.split;
    let usable: Vec<Clamp> = clamps.into_iter().filter(|clamp| clamp.split <= split).collect();
    duplicate(function, split, &usable);
    *function = base::text::compact(function);
    super::fold::run(function);
    super::dead::run(function);
    usable.len()
}

/// A bound on the elements of a tile: each element is `base`, if there is one, plus a number from 0 to `high` (inclusive).
#[derive(Clone, Copy)]
struct Span {
    base: Option<Value>,
    high: i64,
}

/// The number that all elements of a tile have: a scalar value or a constant.
#[derive(Clone, Copy)]
enum Uniform {
    Scalar(Value),
    Constant(i64),
}

/// The scalar condition under which a clamp is the identity: all numbers of the span are at most `bound` if `inclusive` is true, or
/// less than `bound` otherwise.
#[derive(Clone, Copy)]
struct IdentityCheck {
    span: Span,
    bound: Uniform,
    inclusive: bool,
}

/// An op that clamps the indices of an access.
struct Clamp {
    /// The tile of clamped indices.
    result: Value,
    /// The tile of indices before the clamp.
    unclamped: Value,
    /// The condition of the `select` that clamps, or `None` if a `min_i` clamps.
    cond: Option<Value>,
    check: IdentityCheck,
    /// The scalar at which the unclamped indices start, unless it is known to be aligned.
    to_align: Option<Value>,
    /// The position in the entry block after which all scalars of the check are available.
    split: usize,
}

/// Finds the clamps in the entry block of a kernel that may be duplicated.
fn clamps_of_kernel(function: &Function) -> Vec<Clamp> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let entry = &body.blocks[function.entry()].ops;
    let is_excluded = |op: &OpId| {
        let kind = &body.ops[*op].kind;
        matches!(kind, Op::Mma { .. } | Op::MmaScaled { .. })
            || matches!(kind, Op::Core(Core::Return {})) && entry.last() != Some(op)
    };
    if ops.len() > MAX_OPS || ops.iter().any(is_excluded) {
        return Vec::new();
    }
    let finder = ClampFinder { function, facts: Facts::derive(function), entry };
    let clamps = entry
        .iter()
        .filter_map(|op| finder.clamp_of_op(*op))
        .filter(|clamp| flows_into_pointer_offset(function, &ops, clamp.result));
    clamps.collect()
}

/// Returns whether a pointer offset is computed from a tile by elementwise ops, broadcasts and reshapes.
fn flows_into_pointer_offset(function: &Function, ops: &[OpId], tile: Value) -> bool {
    let mut reached = BTreeSet::from([tile]);
    for op in ops {
        let node = &function.body.ops[*op];
        let Op::Core(core) = &node.kind else { continue };
        if matches!(core, Core::Offset { offset, .. } if reached.contains(offset)) {
            return true;
        }
        let is_per_element = core.is_elementwise() || matches!(core, Core::Broadcast { .. } | Core::Reshape { .. });
        if is_per_element && core.operands().iter().any(|operand| reached.contains(operand)) {
            reached.extend(&node.results);
        }
    }
    false
}

/// Finds clamps and the checks under which they are the identity.
struct ClampFinder<'a> {
    function: &'a Function,
    facts: Facts<'a>,
    /// The ops of the entry block.
    entry: &'a [OpId],
}

impl ClampFinder<'_> {
    fn defining_core(&self, value: Value) -> Option<&Core> {
        self.function.body.ops[self.function.body.defining_op(value)?].kind.core()
    }

    /// Describes an op that clamps indices. Returns `None` for other ops, and for a clamp after which the contiguous runs of
    /// indices are as long as before.
    fn clamp_of_op(&self, op: OpId) -> Option<Clamp> {
        let body = &self.function.body;
        let core = body.ops[op].kind.core()?;
        let (unclamped, cond, check) = if let Core::Select { cond, yes, .. } = core {
            (*yes, Some(*cond), self.check_of_condition(*cond)?)
        } else {
            let Core::Binary { kind: Binary::MinI { signedness: Signedness::Signed }, lhs, rhs } = core else { return None };
            let check = |x: Value, bound: Value| Some((x, self.check(x, bound, true)?));
            let (x, check) = check(*lhs, *rhs).or_else(|| check(*rhs, *lhs))?;
            (x, None, check)
        };
        let result = body.result(op);
        let is_1d_i32_tile =
            body.ty(result).tile().is_some_and(|(elem, shape)| elem == Elem::Scalar(Scalar::I32) && shape.len() == 1);
        let run_length = |value: Value| self.facts.axis(value, 0).contiguity;
        if !is_1d_i32_tile || run_length(unclamped) <= run_length(result) {
            return None;
        }
        let start = self.span(unclamped)?.base;
        let to_align = start.filter(|start| self.facts.divisor(*start) < ALIGNMENT);
        let bound = if let Uniform::Scalar(bound) = check.bound { Some(bound) } else { None };
        let scalars = [check.span.base, bound, to_align].into_iter().flatten();
        let split = scalars.map(|scalar| self.position_after(scalar)).collect::<Option<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        Some(Clamp { result, unclamped, cond, check, to_align, split })
    }

    /// Returns the check under which a comparison `index < bound` or `index <= bound` holds for all elements. `None` for other
    /// conditions.
    fn check_of_condition(&self, cond: Value) -> Option<IdentityCheck> {
        let Core::Compare { kind: Compare::Int { predicate, signedness: Signedness::Signed }, lhs, rhs } =
            self.defining_core(cond)?
        else {
            return None;
        };
        let inclusive = *predicate == Predicate::LessThanOrEqual;
        if inclusive || *predicate == Predicate::LessThan { self.check(*lhs, *rhs, inclusive) } else { None }
    }

    fn check(&self, numbers: Value, bound: Value, inclusive: bool) -> Option<IdentityCheck> {
        Some(IdentityCheck { span: self.span(numbers)?, bound: self.uniform(bound)?, inclusive })
    }

    /// The number that all elements of an `i32` tile have.
    fn uniform(&self, value: Value) -> Option<Uniform> {
        let (elem, _) = self.function.body.ty(value).tile().filter(|(elem, _)| *elem == Elem::Scalar(Scalar::I32))?;
        let core = self.defining_core(value)?;
        if let Core::Broadcast { x } = core {
            return self.is_scalar(*x).then_some(Uniform::Scalar(*x));
        }
        let Core::Constant { value: Dense::Splat(bits) } = core else { return None };
        Some(Uniform::Constant(elem.carrier().sign_extend(*bits)))
    }

    /// The span of an `i32` tile: the sum of an `iota`, constants that are not negative, and at most one scalar.
    fn span(&self, value: Value) -> Option<Span> {
        match self.uniform(value) {
            Some(Uniform::Scalar(base)) => return Some(Span { base: Some(base), high: 0 }),
            Some(Uniform::Constant(number)) => return (number >= 0).then_some(Span { base: None, high: number }),
            None => {}
        }
        let (elem, shape) = self.function.body.ty(value).tile()?;
        let core = self.defining_core(value)?;
        if matches!(core, Core::Iota {}) {
            return (elem == Elem::Scalar(Scalar::I32)).then(|| Span { base: None, high: i64::from(shape[0]) - 1 });
        }
        let Core::Binary { kind: Binary::AddI { .. }, lhs, rhs } = core else { return None };
        let (left, right) = (self.span(*lhs)?, self.span(*rhs)?);
        let has_one_base = left.base.is_none() || right.base.is_none();
        has_one_base.then_some(Span { base: left.base.or(right.base), high: left.high + right.high })
    }

    fn is_scalar(&self, value: Value) -> bool {
        self.function.body.ty(value).tile().is_some_and(|(_, shape)| shape.is_empty())
    }

    /// The position in the entry block after the definition of a scalar. `None` for a scalar of another block.
    fn position_after(&self, scalar: Value) -> Option<usize> {
        let Some(op) = self.function.body.defining_op(scalar) else {
            return self.function.params().contains(&scalar).then_some(0);
        };
        self.entry.iter().position(|other| *other == op).map(|at| at + 1)
    }
}

/// Moves the ops of the entry block after `split` to the `else` path of a new `if`, and a version without clamps to its `then`
/// path.
fn duplicate(function: &mut Function, split: usize, clamps: &[Clamp]) {
    let entry = function.entry();
    let body = &mut function.body;
    let mut original = body.blocks[entry].ops.split_off(split);
    let end = original.pop().expect("a kernel ends in a return");
    let loc = body.ops[end].loc;
    let [then, otherwise] = [(); 2].map(|()| body.new_region());
    let [unclamped_block, original_block] = [then, otherwise].map(|region| body.new_block(region));

    let mut writer = BlockWriter { function: &mut *function, block: unclamped_block };
    let mut map = BTreeMap::new();
    for start in clamps.iter().filter_map(|clamp| clamp.to_align) {
        let fact = Fact::DivBy { divisor: ALIGNMENT, every: None, along: None };
        let ty = writer.function.body.ty(start).clone();
        let aligned = writer.emit(Core::Assume { value: start, fact }, ty);
        map.entry(start).or_insert(aligned);
    }
    for clamp in clamps.iter().filter_map(|clamp| clamp.cond) {
        let ty = writer.function.body.ty(clamp).clone();
        let all_true = writer.emit(Core::Constant { value: Dense::Splat(1) }, ty);
        map.insert(clamp, all_true);
    }
    let true_conditions: Vec<(Value, Value)> = clamps.iter().filter_map(|clamp| Some((clamp.cond?, map[&clamp.cond?]))).collect();
    function.body.clone_ops(&original, unclamped_block, &mut map);
    for (cond, all_true) in true_conditions {
        function.body.replace_uses(map[&cond], all_true);
    }
    for clamp in clamps {
        let unclamped = map.get(&clamp.unclamped).copied().unwrap_or(clamp.unclamped);
        match map.get(&clamp.result).copied() {
            Some(clamped) => function.body.replace_uses(clamped, unclamped),
            None => unreachable!("a clamp follows its scalars"),
        }
    }

    let mut writer = BlockWriter { function: &mut *function, block: entry };
    let checks: Vec<Value> = clamps.iter().flat_map(|clamp| writer.emit_check(clamp)).collect();
    let cond = checks.into_iter().reduce(|lhs, rhs| writer.emit(Core::Binary { kind: Binary::And, lhs, rhs }, scalar(Scalar::I1)));
    let cond = cond.expect("a clamp has a check");
    let body = &mut function.body;
    body.blocks[original_block].ops = original;
    for block in [unclamped_block, original_block] {
        body.append(block, Op::Core(Core::Yield { values: Vec::new() }), [], loc);
    }
    body.append(entry, Op::Core(Core::new_if(cond, [then, otherwise])), [], loc);
    body.blocks[entry].ops.push(end);
}

fn scalar(scalar: Scalar) -> Type {
    Type::Tile { elem: Elem::Scalar(scalar), shape: Shape::new() }
}

/// Appends ops to a block.
struct BlockWriter<'a> {
    function: &'a mut Function,
    block: Block,
}

impl BlockWriter<'_> {
    fn emit(&mut self, core: Core, ty: Type) -> Value {
        let loc = self.function.loc;
        let op = self.function.body.append(self.block, Op::Core(core), [ty], loc);
        self.function.body.result(op)
    }

    fn emit_i64_constant(&mut self, number: i64) -> Value {
        self.emit(Core::Constant { value: Dense::Splat(number as u64) }, scalar(Scalar::I64))
    }

    fn emit_sign_extension(&mut self, x: Value) -> Value {
        let kind = Convert::ExtI { signedness: Signedness::Signed };
        self.emit(Core::Convert { kind, x }, scalar(Scalar::I64))
    }

    fn emit_compare(&mut self, predicate: Predicate, lhs: Value, rhs: Value) -> Value {
        let kind = Compare::Int { predicate, signedness: Signedness::Signed };
        self.emit(Core::Compare { kind, lhs, rhs }, scalar(Scalar::I1))
    }

    /// Emits the conditions under which a clamp is the identity and its indices start at a multiple of [`ALIGNMENT`]. The largest
    /// index is computed in 64 bits. If it is at most the 32-bit bound, the 32-bit indices do not wrap.
    fn emit_check(&mut self, clamp: &Clamp) -> Vec<Value> {
        let IdentityCheck { span, bound, inclusive } = clamp.check;
        let high = self.emit_i64_constant(span.high);
        let last = match span.base {
            Some(base) => {
                let base = self.emit_sign_extension(base);
                let kind = Binary::AddI { overflow: Overflow::NoSignedWrap };
                self.emit(Core::Binary { kind, lhs: base, rhs: high }, scalar(Scalar::I64))
            }
            None => high,
        };
        let bound = match bound {
            Uniform::Scalar(bound) => self.emit_sign_extension(bound),
            Uniform::Constant(number) => self.emit_i64_constant(number),
        };
        let predicate = if inclusive { Predicate::LessThanOrEqual } else { Predicate::LessThan };
        let mut checks = vec![self.emit_compare(predicate, last, bound)];
        if let Some(start) = clamp.to_align {
            let start = self.emit_sign_extension(start);
            let mask = self.emit_i64_constant(ALIGNMENT as i64 - 1);
            let low_bits = self.emit(Core::Binary { kind: Binary::And, lhs: start, rhs: mask }, scalar(Scalar::I64));
            let zero = self.emit_i64_constant(0);
            checks.push(self.emit_compare(Predicate::Equal, low_bits, zero));
        }
        checks
    }
}
