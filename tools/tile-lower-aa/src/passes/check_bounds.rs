//! Purpose: `--check-bounds`: assert before an access that it stays inside its array.
//! Requires: `.aa` before optimisation.
//! Establishes: checks of view accesses along dimensions with an in-bounds promise (other dimensions are masked). Pointer accesses
//! are checked against the array of their parameter if [`super::extents`] knows its extent. The log names checked and unchecked
//! accesses.
//! Preserves: the behaviour of accesses that stay in bounds.
//! See also: LLVM's `BoundsChecking` pass and `-fsanitize=bounds`.

use super::edit::Edit;
use super::extents::{EntryNumber, ParameterArrays};
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

/// Inserts the checks into all functions. Adds a log entry for each access that is checked, and for each that is not.
pub(super) fn run(file: &mut File<Module>) -> Result<()> {
    for function in &mut file.payload.functions {
        let arrays = ParameterArrays::analyse(function);
        let mut checker = Checker { edit: Edit::new(function), arrays, log: Vec::new() };
        for op in checker.edit.ops_in_order() {
            checker.check_access(op);
        }
        let Checker { edit, log, .. } = checker;
        let name = edit.function.name.clone();
        edit.finish();
        file.envelope.log.extend(log.into_iter().map(|entry| LogEntry { function: name.clone(), ..entry }));
    }
    Ok(())
}

/// The state of checking one function.
struct Checker<'a> {
    edit: Edit<'a>,
    /// The extents of the parameters' arrays.
    arrays: ParameterArrays,
    /// The remarks on the checks.
    log: Vec<LogEntry>,
}

impl Checker<'_> {
    /// Inserts the checks of an op, if the op is a memory access.
    fn check_access(&mut self, op: OpId) {
        match self.edit.resolved_op(op) {
            Op::Load { ptr, mask, .. } => self.check_pointers(op, "load", ptr, mask),
            Op::Store { ptr, mask, .. } => self.check_pointers(op, "store", ptr, mask),
            Op::AtomicRmw { ptr, mask, .. } | Op::AtomicCas { ptr, mask, .. } => {
                self.check_pointers(op, "atomic access", ptr, mask)
            }
            Op::LoadView { view, index, in_bounds, .. } => self.check_view(op, "load", view, &index, &in_bounds),
            Op::StoreView { view, index, in_bounds, .. } => self.check_view(op, "store", view, &index, &in_bounds),
            Op::ReduceView { view, index, in_bounds, .. } => self.check_view(op, "reduction", view, &index, &in_bounds),
            Op::MulticastLoad { view, index, in_bounds, .. } => self.check_view(op, "multicast load", view, &index, &in_bounds),
            Op::MulticastStore { view, index, in_bounds, .. } => self.check_view(op, "multicast store", view, &index, &in_bounds),
            Op::Core(_) | Op::Reduce { .. } | Op::Scan { .. } | Op::Mma { .. } | Op::MmaScaled { .. } => {}
        }
    }

    /// Checks an access through pointers against the array of the parameter from which they are derived.
    fn check_pointers(&mut self, op: OpId, access_name: &str, ptr: Value, mask: Option<Value>) {
        let Some(root) = self.arrays.root_of(ptr) else {
            return self.add_log_entry(
                op,
                Outcome::Missed,
                format!("{access_name} is not checked: the parameter of its pointers is unknown"),
            );
        };
        let parameter_index = self.edit.function.params().iter().position(|param| *param == root).unwrap_or(0);
        let extents = self.arrays.known_extents(root).to_vec();
        if extents.is_empty() {
            return self.add_log_entry(
                op,
                Outcome::Missed,
                format!("{access_name} is not checked: the extent of the array of parameter {parameter_index} is unknown"),
            );
        }
        let (elem, shape) =
            self.edit.ty(ptr).tile().map(|(elem, shape)| (elem, shape.clone())).expect("verified: a tile of pointers");
        let Elem::Ptr { pointee, .. } = elem else { return };
        let mut builder = OpBuilder { edit: &mut self.edit, op };
        // A view may cover only a part of the array, so the largest known extent counts.
        let mut array_bytes: Option<Value> = None;
        for extent in &extents {
            let span = builder.span_bytes(&extent.sizes, &extent.strides, extent.element_bytes);
            array_bytes = Some(
                array_bytes.map_or(span, |largest| builder.binary(Binary::MaxI { signedness: Signedness::Signed }, largest, span)),
            );
        }
        // The index and the extent count elements of the accessed type. Masked elements get index
        // `i64::MIN`, which `check_index` accepts.
        let log2_element_bytes = i64::from(pointee.bits().div_ceil(8).trailing_zeros());
        let element_count = builder.shift_right(array_bytes.expect("the array has an extent"), log2_element_bytes, &Shape::new());
        let addresses = builder.pointers_to_integers(ptr, &shape);
        let base = builder.pointers_to_integers(root, &Shape::new());
        let base = builder.broadcast(base, &shape);
        let offset = builder.binary(Binary::SubI { overflow: Overflow::None }, addresses, base);
        let mut index = builder.shift_right(offset, log2_element_bytes, &shape);
        if let Some(mask) = mask {
            let no_access = builder.splat_constant(Scalar::I64, i64::MIN as u64, &shape);
            index = builder.select(mask, index, no_access, &shape);
        }
        builder.insert_check(index, element_count, format!("{access_name} outside the array of parameter {parameter_index}"));
        self.add_log_entry(
            op,
            Outcome::Passed,
            format!("{access_name} is checked against the array of parameter {parameter_index}"),
        );
    }

    /// Checks an access through a view along the dimensions with `in_bounds`.
    fn check_view(&mut self, op: OpId, access_name: &str, view: Value, index: &[Value], in_bounds: &[bool]) {
        let Type::View(View { tile, dim_map, kind, .. }) = self.edit.ty(view).clone() else { return };
        let sizes = self.arrays.view_sizes(&self.edit, view);
        for t in (0..tile.len()).filter(|t| in_bounds.get(*t).copied().unwrap_or(false)) {
            let Some(size) = sizes.as_ref().and_then(|sizes| sizes.get(dim_map[t] as usize)) else {
                self.add_log_entry(
                    op,
                    Outcome::Missed,
                    format!("{access_name} is not checked along dimension {t}: its view has no visible definition"),
                );
                continue;
            };
            // Along the sparse dimension each row has its own index.
            let is_sparse = kind == ViewKind::Gather { sparse_dim: t as u32 };
            let covered_elements = if is_sparse { 1 } else { i64::from(tile[t]) };
            let shape = self.edit.ty(index[t]).tile().map_or(Shape::new(), |(_, shape)| shape.clone());
            let mut builder = OpBuilder { edit: &mut self.edit, op };
            let index = builder.sign_extend_to_i64(index[t], &shape);
            let step = builder.splat_constant(Scalar::I64, u64::from(kind.step(&tile, t)), &shape);
            let origin = builder.binary(Binary::MulI { overflow: Overflow::None }, index, step);
            let size = builder.materialize_number(*size);
            // One check covers the tile. It checks the tile's first element if this element is before the array, and otherwise the
            // last one.
            let last_offset = builder.splat_constant(Scalar::I64, (covered_elements - 1) as u64, &shape);
            let last = builder.add(origin, last_offset);
            let zero = builder.splat_constant(Scalar::I64, 0, &shape);
            let starts_before = builder.compare(Predicate::LessThan, origin, zero, &shape);
            let extreme_element = builder.select(starts_before, origin, last, &shape);
            let message =
                format!("{access_name} outside the array along dimension {}, despite a promise to be in bounds", dim_map[t]);
            builder.insert_check(extreme_element, size, message);
            self.add_log_entry(op, Outcome::Passed, format!("{access_name} is checked along dimension {t}"));
        }
    }

    /// Adds a remark at the location of an op.
    fn add_log_entry(&mut self, op: OpId, outcome: Outcome, message: String) {
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

/// Inserts the ops that compute and check an index.
struct OpBuilder<'a, 'b> {
    edit: &'a mut Edit<'b>,
    /// The op before which new ops are inserted.
    op: OpId,
}

/// The type of a tile of scalars.
fn tile_type(scalar: Scalar, shape: &Shape) -> Type {
    Type::Tile { elem: Elem::Scalar(scalar), shape: shape.clone() }
}

impl OpBuilder<'_, '_> {
    /// Creates a tile in which every element has the same bits.
    fn splat_constant(&mut self, scalar: Scalar, bits: u64, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::Constant { value: Dense::Splat(bits) }, tile_type(scalar, shape))
    }
    fn i64_constant(&mut self, number: i64) -> Value {
        self.splat_constant(Scalar::I64, number as u64, &Shape::new())
    }
    /// Creates a binary op on i64 tiles.
    fn binary(&mut self, kind: Binary, lhs: Value, rhs: Value) -> Value {
        let ty = self.edit.ty(lhs).clone();
        self.edit.insert(self.op, Core::Binary { kind, lhs, rhs }, ty)
    }
    /// Creates an addition of i64 tiles.
    fn add(&mut self, lhs: Value, rhs: Value) -> Value {
        self.binary(Binary::AddI { overflow: Overflow::None }, lhs, rhs)
    }
    /// Broadcasts an i64 scalar to a shape.
    fn broadcast(&mut self, x: Value, shape: &Shape) -> Value {
        if shape.is_empty() {
            return x;
        }
        self.edit.insert(self.op, Core::Broadcast { x }, tile_type(Scalar::I64, shape))
    }
    /// Converts pointers to i64 addresses.
    fn pointers_to_integers(&mut self, x: Value, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::PtrToInt { x }, tile_type(Scalar::I64, shape))
    }
    /// Sign-extends an integer to 64 bits, because extents and indices are signed.
    fn sign_extend_to_i64(&mut self, x: Value, shape: &Shape) -> Value {
        match self.edit.ty(x).tile() {
            Some((Elem::Scalar(Scalar::I64), _)) => x,
            _ => {
                let kind = Convert::ExtI { signedness: Signedness::Signed };
                self.edit.insert(self.op, Core::Convert { kind, x }, tile_type(Scalar::I64, shape))
            }
        }
    }
    /// Creates an i64 value from a size or stride.
    fn materialize_number(&mut self, number: EntryNumber) -> Value {
        match number {
            EntryNumber::Constant(number) => self.i64_constant(number as i64),
            EntryNumber::Value(value) => self.sign_extend_to_i64(value, &Shape::new()),
        }
    }
    /// Creates a comparison of i64 tiles.
    fn compare(&mut self, predicate: Predicate, lhs: Value, rhs: Value, shape: &Shape) -> Value {
        let kind = Compare::Int { predicate, signedness: Signedness::Signed };
        self.edit.insert(self.op, Core::Compare { kind, lhs, rhs }, tile_type(Scalar::I1, shape))
    }
    /// Creates an elementwise select.
    fn select(&mut self, cond: Value, yes: Value, no: Value, shape: &Shape) -> Value {
        self.edit.insert(self.op, Core::Select { cond, yes, no }, tile_type(Scalar::I64, shape))
    }
    /// Shifts i64 elements right arithmetically, which divides by a power of two and rounds down.
    fn shift_right(&mut self, x: Value, bits: i64, shape: &Shape) -> Value {
        let bits = self.splat_constant(Scalar::I64, bits as u64, shape);
        self.binary(Binary::ShR { signedness: Signedness::Signed }, x, bits)
    }
    /// Creates the ops that compute the byte span of a strided array: zero if a size is zero or less, otherwise the bytes from the
    /// start of the array to the end of its last element.
    fn span_bytes(&mut self, sizes: &[EntryNumber], strides: &[EntryNumber], element_bytes: u64) -> Value {
        let (one, zero) = (self.i64_constant(1), self.i64_constant(0));
        let mut span = one;
        let mut smallest_size = one;
        for (size, stride) in sizes.iter().zip(strides) {
            let (size, stride) = (self.materialize_number(*size), self.materialize_number(*stride));
            let steps = self.binary(Binary::SubI { overflow: Overflow::None }, size, one);
            let steps = self.binary(Binary::MulI { overflow: Overflow::None }, steps, stride);
            span = self.add(span, steps);
            smallest_size = self.binary(Binary::MinI { signedness: Signedness::Signed }, smallest_size, size);
        }
        let element_bytes = self.i64_constant(element_bytes as i64);
        let bytes = self.binary(Binary::MulI { overflow: Overflow::None }, span, element_bytes);
        let empty = self.compare(Predicate::LessThanOrEqual, smallest_size, zero, &Shape::new());
        self.select(empty, zero, bytes, &Shape::new())
    }
    /// Inserts an op that stops the kernel unless each element of `index` is at least 0 and less than `extent`.
    fn insert_check(&mut self, index: Value, extent: Value, message: String) {
        self.edit.insert_effect(self.op, Core::CheckIndex { index, extent, message });
    }
}
