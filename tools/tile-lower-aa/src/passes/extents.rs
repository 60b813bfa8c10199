//! Finds the parameter from which each pointer is derived, and the extents of parameter arrays.
//!
//! The extents come from views of a parameter whose extents are parameters or constants, or from the kernel name. In cuTile Python,
//! the name encodes the calling convention: an array is passed as an address, extents and strides.

use super::edit::Edit;
use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::Elem;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op, Type};

/// A size or stride: a constant, or a value. The values in an [`Extent`] are parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EntryNumber {
    /// A constant.
    Constant(u64),
    /// A scalar value; in an [`Extent`], a parameter.
    Value(Value),
}

/// The extent of a strided array: sizes and strides in elements, and the element size in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Extent {
    /// The size of each dimension, in elements.
    pub(super) sizes: Vec<EntryNumber>,
    /// The stride of each dimension, in elements.
    pub(super) strides: Vec<EntryNumber>,
    pub(super) element_bytes: u64,
}

/// The arrays to which the kernel's pointer parameters point.
pub(super) struct ParameterArrays {
    /// The parameter from which each value's pointers are derived.
    roots: Vec<Option<Value>>,
    /// The known extents of each parameter's array.
    extents: BTreeMap<Value, Vec<Extent>>,
}

impl ParameterArrays {
    /// Finds the extents from the views that the function makes, or from the name of the kernel.
    pub(super) fn analyse(function: &Function) -> ParameterArrays {
        let mut extents: BTreeMap<Value, Vec<Extent>> = BTreeMap::new();
        for (root, extent) in extents_from_views(function) {
            let known_extents = extents.entry(root).or_default();
            if !known_extents.contains(&extent) {
                known_extents.push(extent);
            }
        }
        // The kernel name describes the full array, and a view may cover only a part. So the name replaces the views.
        extents.extend(extents_from_kernel_name(function));
        ParameterArrays { roots: compute_roots(function), extents }
    }

    /// The parameter from which a pointer is derived. `None` if the parameter is unknown or depends on control flow.
    pub(super) fn root_of(&self, pointer: Value) -> Option<Value> {
        self.roots.get(pointer.0 as usize).copied().flatten()
    }

    /// The known extents of a parameter's array. A view may cover only a part of the array, so callers take the largest extent.
    pub(super) fn known_extents(&self, root: Value) -> &[Extent] {
        self.extents.get(&root).map_or(&[], Vec::as_slice)
    }

    /// The sizes of the memref of a view. `None` if the definition of the view or of its memref is not visible in the function.
    pub(super) fn view_sizes(&self, edit: &Edit, view: Value) -> Option<Vec<EntryNumber>> {
        let Core::MakeView { memref } = edit.defining_core(view)? else { return None };
        let Core::MakeMemRef { sizes, .. } = edit.defining_core(memref)? else { return None };
        let Type::MemRef(ty) = edit.ty(memref) else { return None };
        Some(static_or_dynamic_numbers(&ty.sizes, &sizes))
    }
}

/// The sizes or strides of a memref. `None` in `static_numbers` stands for a dynamic number, whose value is the next operand.
fn static_or_dynamic_numbers(static_numbers: &[Option<u64>], operands: &[Value]) -> Vec<EntryNumber> {
    let mut operands = operands.iter();
    static_numbers
        .iter()
        .map_while(|number| number.map(EntryNumber::Constant).or_else(|| operands.next().copied().map(EntryNumber::Value)))
        .collect()
}

/// Extents from views whose base is a parameter itself, not an address derived from it.
fn extents_from_views(function: &Function) -> Vec<(Value, Extent)> {
    let body = &function.body;
    let if_known_at_entry = |number: EntryNumber| match number {
        EntryNumber::Constant(_) => Some(number),
        EntryNumber::Value(value) => {
            let source = strip_assumes_and_casts(function, value);
            function.params().contains(&source).then_some(EntryNumber::Value(source))
        }
    };
    let mut extents = Vec::new();
    for op in body.walk(function.region) {
        let Op::Core(Core::MakeMemRef { base, sizes, strides }) = &body.ops[op].kind else { continue };
        let (base, Type::MemRef(ty)) = (strip_assumes_and_casts(function, *base), body.ty(body.result(op))) else { continue };
        let numbers = |static_numbers, operands| {
            static_or_dynamic_numbers(static_numbers, operands).into_iter().map(if_known_at_entry).collect::<Option<Vec<_>>>()
        };
        if let (true, Some(sizes), Some(strides)) =
            (function.params().contains(&base), numbers(&ty.sizes, sizes), numbers(&ty.strides, strides))
        {
            extents.push((base, Extent { sizes, strides, element_bytes: u64::from(ty.elem.bits().div_ceil(8)) }));
        }
    }
    extents
}

/// Follows `assume` and `ptr_cast` ops back to their operand.
fn strip_assumes_and_casts(function: &Function, mut value: Value) -> Value {
    while let Some(Op::Core(Core::Assume { value: operand, .. } | Core::PtrCast { x: operand })) =
        function.body.defining_op(value).map(|op| &function.body.ops[op].kind)
    {
        value = *operand;
    }
    value
}

/// Parses cuTile Python's convention for kernel names, `name_Kt1_A2f32…_Si32_I4…`. An array (`A`, with its rank) has parameters for
/// address, sizes and strides. A scalar (`S`) has one parameter. A constant (`I`, `B` or `F`) has none. The result is empty if the
/// name or the parameters do not match the convention.
fn extents_from_kernel_name(function: &Function) -> BTreeMap<Value, Vec<Extent>> {
    let none = BTreeMap::new();
    let Some((_, signature)) = function.name.rsplit_once("_Kt1_") else { return none };
    let mut params = function.params().iter().copied();
    let mut extents = BTreeMap::new();
    for parameter_code in signature.split('_').filter(|parameter_code| parameter_code.starts_with(|c: char| c.is_ascii_uppercase()))
    {
        match parameter_code.as_bytes()[0] {
            b'A' => {
                let rank =
                    parameter_code[1..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(usize::MAX);
                let Some(pointer) = params.next() else { return none };
                let numbers: Vec<Value> = params.by_ref().take(rank.saturating_mul(2)).collect();
                let is_integer = |value: &Value| function.body.ty(*value).as_scalar().is_some_and(|scalar| scalar.is_int());
                let Some((Elem::Ptr { pointee, .. }, [])) = function.body.ty(pointer).tile().map(|(e, shape)| (e, &shape[..]))
                else {
                    return none;
                };
                if numbers.len() != rank * 2 || !numbers.iter().all(is_integer) {
                    return none;
                }
                let as_numbers = |values: &[Value]| values.iter().map(|value| EntryNumber::Value(*value)).collect();
                let (sizes, strides) = (as_numbers(&numbers[..rank]), as_numbers(&numbers[rank..]));
                extents.insert(pointer, vec![Extent { sizes, strides, element_bytes: u64::from(pointee.bits().div_ceil(8)) }]);
            }
            b'S' if params.next().is_some() => {}
            b'I' | b'B' | b'F' => {}
            _ => return none,
        }
    }
    if params.next().is_some() { none } else { extents }
}

/// The parameter from which each value's pointers are derived. The analysis is optimistic: a loop-carried
/// value has the root of its init until an iteration yields a pointer with another root.
fn compute_roots(function: &Function) -> Vec<Option<Value>> {
    let receivers = continue_receivers(function);
    let mut mixed_roots = BTreeSet::new();
    loop {
        let old_count = mixed_roots.len();
        let roots = roots_without_mixed(function, &receivers, &mut mixed_roots);
        if mixed_roots.len() == old_count {
            return roots;
        }
    }
}

/// For each `continue`, the loop-carried arguments that receive its operands.
fn continue_receivers(function: &Function) -> BTreeMap<OpId, Vec<Value>> {
    let body = &function.body;
    let mut receivers = BTreeMap::new();
    // The walk visits an outer loop before its inner loops, so an inner loop overwrites the entries of its own `continue` ops.
    for op in body.walk(function.region) {
        let Some(loop_op) = body.ops[op].kind.core().and_then(Core::as_loop) else { continue };
        let arguments = loop_op.carried_args(body).to_vec();
        for inner in body.walk(loop_op.body) {
            if matches!(body.ops[inner].kind, Op::Core(Core::Continue { .. })) {
                receivers.insert(inner, arguments.clone());
            }
        }
    }
    receivers
}

/// One iteration of [`compute_roots`]. A loop-carried argument in `mixed_roots` has no root. Adds to `mixed_roots` the arguments
/// that receive pointers with different roots.
fn roots_without_mixed(
    function: &Function,
    receivers: &BTreeMap<OpId, Vec<Value>>,
    mixed_roots: &mut BTreeSet<Value>,
) -> Vec<Option<Value>> {
    let body = &function.body;
    let mut roots: Vec<Option<Value>> = vec![None; body.values.len()];
    let is_pointer = |value: Value| matches!(body.ty(value).tile(), Some((Elem::Ptr { .. }, _)));
    for param in function.params().iter().filter(|param| is_pointer(**param)) {
        roots[param.0 as usize] = Some(*param);
    }
    for op in body.walk(function.region) {
        let node = &body.ops[op];
        match &node.kind {
            Op::Core(core) if core.is_loop() => {
                let loop_op = core.as_loop().expect("the op is a loop");
                for (index, (argument, init)) in loop_op.carried_args(body).iter().zip(loop_op.init).enumerate() {
                    let root = roots[init.0 as usize].filter(|_| !mixed_roots.contains(argument));
                    let receivers = loop_op.destinations(body, op).into_iter().filter_map(|values| values.get(index));
                    receivers.for_each(|receiver| roots[receiver.0 as usize] = root);
                }
            }
            Op::Core(Core::Continue { values }) => {
                for (argument, value) in receivers.get(&op).into_iter().flatten().zip(values) {
                    if roots[argument.0 as usize].is_some_and(|root| roots[value.0 as usize] != Some(root)) {
                        mixed_roots.insert(*argument);
                    }
                }
            }
            Op::Core(Core::Select { yes, no, .. }) => {
                if let [result] = node.results[..] {
                    roots[result.0 as usize] = roots[yes.0 as usize].filter(|root| roots[no.0 as usize] == Some(*root));
                }
            }
            Op::Core(
                Core::Offset { ptr: from, .. }
                | Core::PtrCast { x: from }
                | Core::Assume { value: from, .. }
                | Core::Broadcast { x: from }
                | Core::Reshape { x: from }
                | Core::Permute { x: from, .. }
                | Core::Extract { x: from, .. },
            ) => {
                if let [result] = node.results[..] {
                    roots[result.0 as usize] = roots[from.0 as usize];
                }
            }
            _ => {}
        }
    }
    roots
}
