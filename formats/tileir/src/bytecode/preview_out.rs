//! Writes preview content.

use super::attributes_out::{write_array, write_attribute, write_dictionary};
use super::writer::{write_signed_varint, write_string_index, write_varint};
use crate::enums::{ExprOp, WireEnum};
use crate::gates::AttributeKind;
use crate::module::Module;
use crate::preview::{Extern, Implementation};
use crate::types::{Attribute, Preview, StringId};
use base::entity::Entity;

/// Writes the tag and the payload of a preview attribute. The function may recurse, because the readers, the parser and the
/// verifier bound the nesting depth of attributes.
pub(super) fn write_preview(out: &mut Vec<u8>, attribute: &Preview) {
    let kind = match attribute {
        Preview::Int(_) => AttributeKind::ExprInt,
        Preview::Var(_) => AttributeKind::ExprVar,
        Preview::Binary { op: ExprOp::Mul, .. } => AttributeKind::ExprMul,
        Preview::Binary { op: ExprOp::Div, .. } => AttributeKind::ExprDiv,
        Preview::Binary { op: ExprOp::Add, .. } => AttributeKind::ExprAdd,
        Preview::Binary { op: ExprOp::Sub, .. } => AttributeKind::ExprSub,
        Preview::Binary { op: ExprOp::FloorDiv, .. } => AttributeKind::ExprFloorDiv,
        Preview::Binary { op: ExprOp::CeilDiv, .. } => AttributeKind::ExprCeilDiv,
        Preview::Neg(_) => AttributeKind::ExprNeg,
        Preview::Tuple(_) => AttributeKind::SymbolicTuple,
        Preview::Layout { .. } => AttributeKind::Layout,
        Preview::ConcreteType(_) => AttributeKind::ConcreteType,
        Preview::MemorySpace(_) => AttributeKind::MemorySpace,
        Preview::Synchronization(_) => AttributeKind::Synchronization,
        Preview::Access(_) => AttributeKind::Access,
        Preview::Scratch { .. } => AttributeKind::ScratchRequest,
        Preview::ConstParam { .. } => AttributeKind::ConstParam,
        Preview::Builtin { .. } => AttributeKind::ExprBuiltin,
        Preview::ConstString(_) => AttributeKind::ExprConstString,
    };
    write_varint(out, kind.row().tag.into());
    match attribute {
        Preview::Int(value) => write_signed_varint(out, *value),
        Preview::Var(name) | Preview::ConstString(name) => write_string_index(out, *name),
        Preview::Binary { lhs, rhs, .. } => [lhs, rhs].into_iter().for_each(|part| write_preview(out, part)),
        Preview::Neg(inner) => write_preview(out, inner),
        Preview::Tuple(parts) => write_list(out, parts),
        Preview::Layout { shape, strides } => {
            write_list(out, shape);
            write_list(out, strides);
        }
        Preview::ConcreteType(ty) => write_varint(out, ty.index() as u64),
        Preview::MemorySpace(space) => write_varint(out, space.number().into()),
        Preview::Synchronization(threads) => write_varint(out, threads.number().into()),
        Preview::Access(access) => write_varint(out, access.number().into()),
        Preview::Scratch { size, alignment } => [size, alignment].into_iter().for_each(|part| write_preview(out, part)),
        Preview::ConstParam { name, ty } | Preview::Builtin { name, ty } => {
            write_string_index(out, *name);
            write_varint(out, ty.index() as u64);
        }
    }
}

pub(super) fn write_list(out: &mut Vec<u8>, items: &[Preview]) {
    write_varint(out, items.len() as u64);
    items.iter().for_each(|item| write_preview(out, item));
}

/// The kind of an extern implementation in the flags byte of a function. A declaration has kind 0, like every function that is not
/// an entry.
const IMPLEMENTATION_KIND: u8 = 2 << 1;

/// Writes the record of a function without a body; `loc` is its entry in the debug section.
pub(super) fn write_extern(out: &mut Vec<u8>, module: &Module, function: &Extern, loc: u64) {
    write_string_index(out, function.name);
    write_varint(out, function.ty.index() as u64);
    let arg_attrs = || function.arg_attrs.iter().cloned().map(Attribute::Dictionary).collect::<Vec<_>>();
    let kind = if function.implementation.is_some() { IMPLEMENTATION_KIND } else { 0 };
    out.push(function.visibility.number() | kind);
    write_varint(out, loc);
    match &function.implementation {
        None => {
            write_attribute(out, module, &Attribute::Array(arg_attrs().into()));
            write_varint(out, 0);
            write_varint(out, AttributeKind::Array.row().tag.into());
            write_list(out, &function.const_params);
        }
        Some(implementation) => {
            write_implementation(out, module, function, implementation, &arg_attrs());
            write_varint(out, 0);
        }
    }
}

/// Writes the record of an implementation. Bit `i` of its flags word is element `i` of `present`: whether the record has this part.
fn write_implementation(
    out: &mut Vec<u8>,
    module: &Module,
    function: &Extern,
    implementation: &Implementation,
    arg_attrs: &[Attribute],
) {
    let Implementation { implements, const_args, res_attrs, scratch, config, arch, abi, synchronization, provider_score } =
        implementation;
    let present = [
        !function.const_params.is_empty(),
        !const_args.is_empty(),
        !arg_attrs.is_empty(),
        res_attrs.is_some(),
        scratch.is_some(),
        config.is_some(),
        arch.is_some(),
        abi.is_some(),
        synchronization.is_some(),
        provider_score.is_some(),
    ];
    write_varint(out, present.iter().enumerate().fold(0, |flags, (bit, present)| flags | u64::from(*present) << bit));
    write_string_index(out, function.name);
    write_string_index(out, *implements);
    for list in [&function.const_params, const_args] {
        if !list.is_empty() {
            write_list(out, list);
        }
    }
    write_varint(out, function.ty.index() as u64);
    if !arg_attrs.is_empty() {
        write_array(out, module, arg_attrs);
    }
    if let Some(attributes) = res_attrs {
        write_array(out, module, attributes);
    }
    if let Some((size, alignment)) = scratch {
        write_preview(out, size);
        write_preview(out, alignment);
    }
    if let Some(entries) = config {
        write_dictionary(out, module, entries);
    }
    if let Some(names) = arch {
        let names: Vec<Attribute> = names.iter().map(|name: &StringId| Attribute::String(*name)).collect();
        write_array(out, module, &names);
    }
    if let Some(entries) = abi {
        write_dictionary(out, module, entries);
    }
    if let Some(threads) = synchronization {
        write_varint(out, threads.number().into());
    }
    if let Some(score) = provider_score {
        write_varint(out, *score);
    }
    // The op has one region, which has no block.
    write_varint(out, 1);
    write_varint(out, 0);
}
