//! Purpose: `--check-bounds`: assert before an access that it stays inside its array.
//! Requires: `.aa` before optimisation.
//! Establishes: checks of view accesses along dimensions with an in-bounds promise (other dimensions are masked). Pointer accesses
//! are checked against the array of their parameter if [`super::extents`] knows its extent. The log names unchecked accesses.
//! Preserves: the behaviour of accesses that stay in bounds.
//! See also: LLVM's `BoundsChecking` pass and `-fsanitize=bounds`.

use super::edit::Edit;
use super::extents::{Arrays, Number};
use base::File;
use base::Value;
use base::diag::Result;
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, Shape, View, ViewKind};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Convert, Overflow, Predicate, Signedness};
use tileaa::{Module, Op, Type};

pub(super) fn run(file: &mut File<Module>) -> Result<()> {
    for function in &mut file.payload.functions {
        let arrays = Arrays::of(function);
        let mut checker = Checker { edit: Edit::new(function), arrays, log: Vec::new() };
        for op in checker.edit.order() {
            checker.check_access(op);
        }
        let Checker { edit, log, .. } = checker;
        let name = edit.function.name.clone();
        edit.finish();
        file.envelope.log.extend(log.into_iter().map(|entry| LogEntry { function: name.clone(), ..entry }));
    }
    Ok(())
}

struct Checker<'a> {
    edit: Edit<'a>,
    arrays: Arrays,
    log: Vec<LogEntry>,
}

impl Checker<'_> {
    fn check_access(&mut self, op: OpId) {
        match self.edit.kind(op) {
            Op::Load { ptr, mask, .. } => self.check_pointers(op, "load", ptr, mask),
            Op::Store { ptr, mask, .. } => self.check_pointers(op, "store", ptr, mask),
            Op::AtomicRmw { ptr, mask, .. } | Op::AtomicCas { ptr, mask, .. } => {
                self.check_pointers(op, "atomic access", ptr, mask)
            }
            Op::LoadView { view, index, in_bounds, .. } => self.check_view(op, "load", view, &index, &in_bounds),
            Op::StoreView { view, index, in_bounds, .. } => self.check_view(op, "store", view, &index, &in_bounds),
            Op::ReduceView { view, index, in_bounds, .. } => self.check_view(op, "reduction", view, &index, &in_bounds),
            _ => {}
        }
    }

    fn check_pointers(&mut self, op: OpId, what: &str, ptr: Value, mask: Option<Value>) {
        let Some(root) = self.arrays.root(ptr) else {
            return self.log(op, Outcome::Missed, format!("{what} is not checked: the parameter of its pointers is unknown"));
        };
        let parameter = self.edit.function.params().iter().position(|param| *param == root).unwrap_or(0);
        let extents = self.arrays.extents(root).to_vec();
        if extents.is_empty() {
            return self.log(
                op,
                Outcome::Missed,
                format!("{what} is not checked: the extent of the array of parameter {parameter} is unknown"),
            );
        }
        let (elem, shape) =
            self.edit.ty(ptr).tile().map(|(elem, shape)| (elem, shape.clone())).expect("verified: a tile of pointers");
        let Elem::Ptr { pointee, .. } = elem else { return };
        let mut builder = OpBuilder { edit: &mut self.edit, op };
        // A view may cover only a part of the array, so the largest known extent counts.
        let mut bytes: Option<Value> = None;
        for extent in &extents {
            let one = builder.span_bytes(&extent.sizes, &extent.strides, extent.element);
            bytes = Some(bytes.map_or(one, |other| builder.binary(Binary::MaxI { signedness: Signedness::Signed }, other, one)));
        }
        // The index and the extent count elements of the accessed type. Masked elements get the index that always passes.
        let size = i64::from(pointee.bits().div_ceil(8).trailing_zeros());
        let extent = builder.shift_right(bytes.expect("the array has an extent"), size, &Shape::new());
        let addresses = builder.addresses(ptr, &shape);
        let base = builder.addresses(root, &Shape::new());
        let base = builder.broadcast(base, &shape);
        let offset = builder.binary(Binary::SubI { overflow: Overflow::None }, addresses, base);
        let mut index = builder.shift_right(offset, size, &shape);
        if let Some(mask) = mask {
            let no_access = builder.splat(Scalar::I64, i64::MIN as u64, &shape);
            index = builder.select(mask, index, no_access, &shape);
        }
        builder.check(index, extent, format!("{what} outside the array of parameter {parameter}"));
        self.log(op, Outcome::Passed, format!("{what} is checked against the array of parameter {parameter}"));
    }

    /// Checks an access through a view along the dimensions with `in_bounds`.
    fn check_view(&mut self, op: OpId, what: &str, view: Value, index: &[Value], in_bounds: &[bool]) {
        let Type::View(View { tile, dim_map, kind, .. }) = self.edit.ty(view).clone() else { return };
        let sizes = self.arrays.view_sizes(&self.edit, view);
        for t in (0..tile.len()).filter(|t| in_bounds.get(*t).copied().unwrap_or(false)) {
            let Some(size) = sizes.as_ref().and_then(|sizes| sizes.get(dim_map[t] as usize)) else {
                self.log(
                    op,
                    Outcome::Missed,
                    format!("{what} is not checked along dimension {t}: its view has no visible definition"),
                );
                continue;
            };
            // Along the sparse dimension each row has its own index.
            let sparse = kind == ViewKind::Gather { sparse_dim: t as u32 };
            let covered_elements = if sparse { 1 } else { i64::from(tile[t]) };
            let shape = self.edit.ty(index[t]).tile().map_or(Shape::new(), |(_, shape)| shape.clone());
            let mut builder = OpBuilder { edit: &mut self.edit, op };
            let index = builder.widen(index[t], &shape);
            let step = builder.splat(Scalar::I64, u64::from(kind.step(&tile, t)), &shape);
            let origin = builder.binary(Binary::MulI { overflow: Overflow::None }, index, step);
            let size = builder.number(*size);
            // The extreme element of the tile: the first if it is before the array, else the last.
            let last_offset = builder.splat(Scalar::I64, (covered_elements - 1) as u64, &shape);
            let last = builder.add(origin, last_offset);
            let zero = builder.splat(Scalar::I64, 0, &shape);
            let starts_before = builder.compare(Predicate::LessThan, origin, zero, &shape);
            let extreme_element = builder.select(starts_before, origin, last, &shape);
            let message = format!("{what} outside the array along dimension {}, despite a promise to be in bounds", dim_map[t]);
            builder.check(extreme_element, size, message);
            self.log(op, Outcome::Passed, format!("{what} is checked along dimension {t}"));
        }
    }

    fn log(&mut self, op: OpId, outcome: Outcome, message: String) {
        let name = if outcome == Outcome::Passed { "BoundsChecked" } else { "BoundsNotChecked" };
        let loc = self.edit.function.body.ops[op].loc;
        self.log.push(LogEntry {
            pass: "check-bounds".into(),
            outcome,
            name: name.into(),
            category: Category::Memory,
            message,
            function: String::new(),
            loc,
        });
    }
}

/// Builds ops before `op`.
struct OpBuilder<'a, 'b> {
    edit: &'a mut Edit<'b>,
    op: OpId,
}

fn tile(scalar: Scalar, shape: &Shape) -> Type {
    Type::Tile { elem: Elem::Scalar(scalar), shape: shape.clone() }
}

impl OpBuilder<'_, '_> {
    fn splat(&mut self, scalar: Scalar, bits: u64, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::Constant { value: Dense::Splat(bits) }, tile(scalar, shape))
    }
    fn constant(&mut self, number: i64) -> Value {
        self.splat(Scalar::I64, number as u64, &Shape::new())
    }
    fn binary(&mut self, kind: Binary, lhs: Value, rhs: Value) -> Value {
        let ty = self.edit.ty(lhs).clone();
        self.edit.insert(self.op, Core::Binary { kind, lhs, rhs }, ty)
    }
    fn add(&mut self, lhs: Value, rhs: Value) -> Value {
        self.binary(Binary::AddI { overflow: Overflow::None }, lhs, rhs)
    }
    fn broadcast(&mut self, x: Value, shape: &Shape) -> Value {
        if shape.is_empty() {
            return x;
        }
        self.edit.insert(self.op, Core::Broadcast { x }, tile(Scalar::I64, shape))
    }
    fn addresses(&mut self, x: Value, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::PtrToInt { x }, tile(Scalar::I64, shape))
    }
    /// Extends an integer to 64 bits; extents and indices are signed.
    fn widen(&mut self, x: Value, shape: &Shape) -> Value {
        match self.edit.ty(x).tile() {
            Some((Elem::Scalar(Scalar::I64), _)) => x,
            _ => {
                let kind = Convert::ExtI { signedness: Signedness::Signed };
                self.edit.insert(self.op, Core::Convert { kind, x }, tile(Scalar::I64, shape))
            }
        }
    }
    fn number(&mut self, number: Number) -> Value {
        match number {
            Number::Known(number) => self.constant(number as i64),
            Number::Value(value) => self.widen(value, &Shape::new()),
        }
    }
    fn compare(&mut self, predicate: Predicate, lhs: Value, rhs: Value, shape: &Shape) -> Value {
        let kind = Compare::Int { predicate, signedness: Signedness::Signed };
        self.edit.insert(self.op, Core::Compare { kind, lhs, rhs }, tile(Scalar::I1, shape))
    }
    fn select(&mut self, cond: Value, yes: Value, no: Value, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::Select { cond, yes, no }, tile(Scalar::I64, shape))
    }
    /// Divides by a power of two, rounding down.
    fn shift_right(&mut self, x: Value, bits: i64, shape: &Shape) -> Value {
        let bits = self.splat(Scalar::I64, bits as u64, shape);
        self.binary(Binary::ShR { signedness: Signedness::Signed }, x, bits)
    }
    /// The byte span of a strided array: zero if an extent is zero, else up to the end of its last element.
    fn span_bytes(&mut self, sizes: &[Number], strides: &[Number], element: u64) -> Value {
        let (one, zero) = (self.constant(1), self.constant(0));
        let mut span = one;
        let mut smallest = one;
        for (size, stride) in sizes.iter().zip(strides) {
            let (size, stride) = (self.number(*size), self.number(*stride));
            let steps = self.binary(Binary::SubI { overflow: Overflow::None }, size, one);
            let steps = self.binary(Binary::MulI { overflow: Overflow::None }, steps, stride);
            span = self.add(span, steps);
            smallest = self.binary(Binary::MinI { signedness: Signedness::Signed }, smallest, size);
        }
        let element = self.constant(element as i64);
        let bytes = self.binary(Binary::MulI { overflow: Overflow::None }, span, element);
        let empty = self.compare(Predicate::LessThanOrEqual, smallest, zero, &Shape::new());
        self.select(empty, zero, bytes, &Shape::new())
    }
    fn check(&mut self, index: Value, extent: Value, message: String) {
        self.edit.insert_effect(self.op, Core::CheckIndex { index, extent, message });
    }
}
