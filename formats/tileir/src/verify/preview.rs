//! Rules of functions without a body, and of calls to them.

use super::{Check, Failure};
use crate::enums::Visibility;
use crate::module::Module;
use crate::preview::{ACCESS, Access, Extern, Implementation, Preview, PreviewType, Synchronization};
use crate::text::types::{Tables, TypeText, type_text};
use crate::types::{Attribute, StringId, Type, TypeId};
use std::collections::BTreeSet;

/// The modes of a fragment map's shape: repetitions, threads, elements.
const MODES: usize = 3;

pub(super) fn external(module: &Module, function: &Extern) -> Result<(), Failure> {
    let outcome = match &function.implementation {
        None => declaration(module, function),
        Some(own) => implementation(module, function, own),
    };
    outcome.map_err(|message| Failure { message: format!("'cuda_tile.{}' op {message}", function.mnemonic()), loc: function.loc })
}

fn signature<'a>(module: &'a Module, function: &Extern) -> (&'a [TypeId], &'a [TypeId]) {
    match module.ty(function.ty) {
        Type::Function { inputs, results } => (inputs, results),
        _ => (&[], &[]),
    }
}

/// The function's access to each argument.
fn accesses(module: &Module, function: &Extern, missing: impl Fn(usize) -> String) -> Check<Vec<Access>> {
    let (inputs, _) = signature(module, function);
    let of = |i: usize| {
        let entries = function.arg_attrs.get(i)?;
        entries.iter().find_map(|(name, value)| match value {
            Attribute::Preview(Preview::Access(access)) if module.string(*name) == ACCESS => Some(*access),
            _ => None,
        })
    };
    (0..inputs.len()).map(|i| of(i).ok_or_else(|| missing(i))).collect()
}

fn private(function: &Extern) -> Check {
    match function.visibility {
        Visibility::Private => Ok(()),
        Visibility::Public => Err("symbol declaration cannot have public visibility".into()),
    }
}

fn declaration(module: &Module, function: &Extern) -> Check {
    let (inputs, results) = signature(module, function);
    if inputs.is_empty() {
        return Err("extern functions must declare at least one input".into());
    }
    let known = parameters(function);
    for (what, types) in [("input", inputs), ("result", results)] {
        for (i, id) in types.iter().enumerate() {
            let tile = matches!(module.ty(*id), Type::Tile { .. } | Type::Preview(PreviewType::Tile { .. }));
            if !tile {
                let got = type_text(Tables::of(module), *id, TypeText::Full);
                return Err(format!("{what} type {i} must be a cuda_tile.tile, got '{got}'"));
            }
            if let Some(name) = undeclared(module, *id, &known) {
                return Err(format!("{what} type references undeclared symbolic variable '{name}'"));
            }
        }
    }
    let missing = |i| format!("extern function argument {i} must have a '{ACCESS}' arg attr");
    let accesses = accesses(module, function, missing)?;
    private(function)?;
    if accesses.iter().filter(|access| **access != Access::In).count() > results.len() {
        return Err("number of bound inouts exceeded the number of results".into());
    }
    Ok(())
}

fn parameters(function: &Extern) -> BTreeSet<StringId> {
    let name = |parameter: &Preview| match parameter {
        Preview::ConstParam { name, .. } => Some(*name),
        _ => None,
    };
    function.const_params.iter().filter_map(name).collect()
}

/// A name in a type that is not one of the parameters.
fn undeclared<'a>(module: &'a Module, id: TypeId, known: &BTreeSet<StringId>) -> Option<&'a str> {
    let ty = module.ty(id).preview()?;
    let (element, parts) = ty.parts();
    let mut found = None;
    for part in parts {
        part.walk(&mut |part| match part {
            Preview::Var(name) if !known.contains(name) => found = found.or(Some(module.string(*name))),
            _ => {}
        });
    }
    found.or_else(|| undeclared(module, element?, known))
}

fn implementation(module: &Module, function: &Extern, own: &Implementation) -> Check {
    if own.config.is_some() {
        return Err("extern_impl must not carry 'config'".into());
    }
    let (inputs, results) = signature(module, function);
    let fragments: Vec<_> = inputs
        .iter()
        .filter_map(|id| match module.ty(*id) {
            Type::Preview(PreviewType::Fragment(fragment)) => Some(fragment),
            _ => None,
        })
        .collect();
    if inputs.is_empty() || fragments.len() != inputs.len() {
        return Err("function_type must have at least one input and all inputs must be fragment types".into());
    }
    if !results.is_empty() {
        let what = "extern_impl must not declare results; outputs are represented as 'out' or 'inout' fragment args";
        return Err(format!("{what}, got {} result(s)", results.len()));
    }
    accesses(module, function, |i| format!("extern_impl argument {i} must carry a '{ACCESS}' arg attr"))?;
    private(function)?;
    for (i, fragment) in fragments.iter().enumerate() {
        let Preview::Layout { shape, .. } = &fragment.map else { return Err("a fragment's map is a layout".into()) };
        if shape.len() != MODES {
            let (what, got) = ("3 shape modes (invocation, participant, footprint)", shape.len());
            return Err(format!("fragment arg {i} fragmap must have {what}, got {got}"));
        }
        if let (Some(Synchronization::Warp), Preview::Int(threads)) = (own.synchronization, &shape[1])
            && (*threads <= 0 || threads % 32 != 0)
        {
            return Err(format!(
                "synchronization 'warp' requires the fragmap participant mode size ({threads}) to be a positive multiple of 32"
            ));
        }
    }
    Ok(())
}

/// The constant arguments of a call.
pub(super) fn call(const_args: &[Attribute]) -> Check {
    let expressions = const_args.iter().all(|argument| matches!(argument, Attribute::Preview(value) if value.is_expression()));
    match expressions {
        true => Ok(()),
        false => Err("attribute 'const_args' failed to satisfy constraint: array of symbolic expression attribute values".into()),
    }
}
