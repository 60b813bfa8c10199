//! Writes preview content.

use super::attributes_out::{write_array, write_attribute, write_dictionary};
use super::writer::{signed_varint, string, varint};
use crate::enums::WireEnum;
use crate::gates::AttributeKind;
use crate::module::Module;
use crate::preview::{ExprOp, Extern, Implementation, Preview};
use crate::types::{Attribute, StringId};
use base::entity::Entity;

/// The reader bounds the depth, so this function may recurse.
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
    varint(out, kind.row().tag.into());
    match attribute {
        Preview::Int(value) => signed_varint(out, *value),
        Preview::Var(name) | Preview::ConstString(name) => string(out, *name),
        Preview::Binary { lhs, rhs, .. } => [lhs, rhs].into_iter().for_each(|part| write_preview(out, part)),
        Preview::Neg(inner) => write_preview(out, inner),
        Preview::Tuple(parts) => write_list(out, parts),
        Preview::Layout { shape, strides } => {
            write_list(out, shape);
            write_list(out, strides);
        }
        Preview::ConcreteType(ty) => varint(out, ty.index() as u64),
        Preview::MemorySpace(space) => varint(out, space.number().into()),
        Preview::Synchronization(threads) => varint(out, threads.number().into()),
        Preview::Access(access) => varint(out, access.number().into()),
        Preview::Scratch { size, alignment } => [size, alignment].into_iter().for_each(|part| write_preview(out, part)),
        Preview::ConstParam { name, ty } | Preview::Builtin { name, ty } => {
            string(out, *name);
            varint(out, ty.index() as u64);
        }
    }
}

pub(super) fn write_list(out: &mut Vec<u8>, items: &[Preview]) {
    varint(out, items.len() as u64);
    items.iter().for_each(|item| write_preview(out, item));
}

/// Declarations have no function form, implementations have one; both are private.
const IMPLEMENTATION: u8 = 2 << 1;

/// The record of a function without a body; `loc` is its entry in the debug section.
pub(super) fn write_extern(out: &mut Vec<u8>, module: &Module, function: &Extern, loc: u64) {
    string(out, function.name);
    varint(out, function.ty.index() as u64);
    let arg_attrs = || function.arg_attrs.iter().cloned().map(Attribute::Dictionary).collect::<Vec<_>>();
    let form = if function.implementation.is_some() { IMPLEMENTATION } else { 0 };
    out.push(function.visibility.number() | form);
    varint(out, loc);
    match &function.implementation {
        None => {
            write_attribute(out, module, &Attribute::Array(arg_attrs().into()));
            varint(out, 0);
            varint(out, AttributeKind::Array.row().tag.into());
            write_list(out, &function.const_params);
        }
        Some(implementation) => {
            write_implementation(out, module, function, implementation, &arg_attrs());
            varint(out, 0);
        }
    }
}

fn write_implementation(out: &mut Vec<u8>, module: &Module, function: &Extern, own: &Implementation, arg_attrs: &[Attribute]) {
    let Implementation { implements, const_args, res_attrs, scratch, config, arch, abi, synchronization, provider_score } = own;
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
    varint(out, present.iter().enumerate().fold(0, |flags, (bit, present)| flags | u64::from(*present) << bit));
    string(out, function.name);
    string(out, *implements);
    for list in [&function.const_params, const_args] {
        if !list.is_empty() {
            write_list(out, list);
        }
    }
    varint(out, function.ty.index() as u64);
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
        varint(out, threads.number().into());
    }
    if let Some(score) = provider_score {
        varint(out, *score);
    }
    // One region without a block.
    varint(out, 1);
    varint(out, 0);
}
