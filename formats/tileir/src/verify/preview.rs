//! Rules of functions without a body, and of calls to them.

use super::{Check, Failure};
use crate::enums::{Access, Synchronization, Visibility};
use crate::module::Module;
use crate::preview::{ACCESS_ATTRIBUTE, Extern, Implementation};
use crate::text::types::{TypeTables, TypeTextForm, type_text};
use crate::types::{Attribute, Preview, PreviewType, StringId, Type, TypeId};
use std::collections::BTreeSet;

/// The number of modes of a fragment map's shape. In NVIDIA's messages they are `invocation` (repetitions), `participant` (threads)
/// and `footprint` (elements of a thread).
const FRAGMENT_MODES: usize = 3;

/// Checks a function without a body: a declaration, or a function with an implementation outside the module.
pub(super) fn check_external(module: &Module, function: &Extern) -> Result<(), Failure> {
    let outcome = match &function.implementation {
        None => check_declaration(module, function),
        Some(implementation) => check_implementation(module, function, implementation),
    };
    outcome.map_err(|message| Failure { message: format!("'cuda_tile.{}' op {message}", function.mnemonic()), loc: function.loc })
}

/// Returns the types of a function's inputs and results. Both lists are empty if the function has no function type.
fn signature<'a>(module: &'a Module, function: &Extern) -> (&'a [TypeId], &'a [TypeId]) {
    match module.ty(function.ty) {
        Type::Function { inputs, results } => (inputs, results),
        _ => (&[], &[]),
    }
}

/// Returns the function's access to each argument. The error is the message that `missing` returns for the index of an argument
/// without an access attribute.
fn argument_accesses(module: &Module, function: &Extern, missing: impl Fn(usize) -> String) -> Check<Vec<Access>> {
    let (inputs, _) = signature(module, function);
    let access_of = |i: usize| {
        let entries = function.arg_attrs.get(i)?;
        entries.iter().find_map(|(name, value)| match value {
            Attribute::Preview(Preview::Access(access)) if module.string(*name) == ACCESS_ATTRIBUTE => Some(*access),
            _ => None,
        })
    };
    (0..inputs.len()).map(|i| access_of(i).ok_or_else(|| missing(i))).collect()
}

fn check_private(function: &Extern) -> Check {
    match function.visibility {
        Visibility::Private => Ok(()),
        Visibility::Public => Err("symbol declaration cannot have public visibility".into()),
    }
}

fn check_declaration(module: &Module, function: &Extern) -> Check {
    let (inputs, results) = signature(module, function);
    if inputs.is_empty() {
        return Err("extern functions must declare at least one input".into());
    }
    let parameters = const_param_names(function);
    for (what, types) in [("input", inputs), ("result", results)] {
        for (i, id) in types.iter().enumerate() {
            let is_tile = matches!(module.ty(*id), Type::Tile { .. } | Type::Preview(PreviewType::Tile { .. }));
            if !is_tile {
                let got = type_text(TypeTables::new(module), *id, TypeTextForm::Full);
                return Err(format!("{what} type {i} must be a cuda_tile.tile, got '{got}'"));
            }
            if let Some(name) = find_undeclared_name(module, *id, &parameters) {
                return Err(format!("{what} type references undeclared symbolic variable '{name}'"));
            }
        }
    }
    let missing = |i| format!("extern function argument {i} must have a '{ACCESS_ATTRIBUTE}' arg attr");
    let accesses = argument_accesses(module, function, missing)?;
    check_private(function)?;
    if accesses.iter().filter(|access| **access != Access::In).count() > results.len() {
        return Err("number of bound inouts exceeded the number of results".into());
    }
    Ok(())
}

/// The names of a function's constant parameters.
fn const_param_names(function: &Extern) -> BTreeSet<StringId> {
    let name = |parameter: &Preview| match parameter {
        Preview::ConstParam { name, .. } => Some(*name),
        _ => None,
    };
    function.const_params.iter().filter_map(name).collect()
}

/// Returns the first name in a type that is not a constant parameter of the function; `None` if all names are.
fn find_undeclared_name<'a>(module: &'a Module, id: TypeId, parameters: &BTreeSet<StringId>) -> Option<&'a str> {
    let ty = module.ty(id).preview()?;
    let (element, parts) = ty.element_and_attributes();
    let mut undeclared_name = None;
    for part in parts {
        part.walk(&mut |part| match part {
            Preview::Var(name) if !parameters.contains(name) => undeclared_name = undeclared_name.or(Some(module.string(*name))),
            _ => {}
        });
    }
    undeclared_name.or_else(|| find_undeclared_name(module, element?, parameters))
}

fn check_implementation(module: &Module, function: &Extern, implementation: &Implementation) -> Check {
    if implementation.config.is_some() {
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
    argument_accesses(module, function, |i| format!("extern_impl argument {i} must carry a '{ACCESS_ATTRIBUTE}' arg attr"))?;
    check_private(function)?;
    for (i, fragment) in fragments.iter().enumerate() {
        let Preview::Layout { shape, .. } = &fragment.map else { return Err("a fragment's map is a layout".into()) };
        if shape.len() != FRAGMENT_MODES {
            let (what, got) = ("3 shape modes (invocation, participant, footprint)", shape.len());
            return Err(format!("fragment arg {i} fragmap must have {what}, got {got}"));
        }
        if let (Some(Synchronization::Warp), Preview::Int(threads)) = (implementation.synchronization, &shape[1])
            && (*threads <= 0 || threads % 32 != 0)
        {
            return Err(format!(
                "synchronization 'warp' requires the fragmap participant mode size ({threads}) to be a positive multiple of 32"
            ));
        }
    }
    Ok(())
}

/// Checks the constant arguments of a call.
pub(super) fn check_call(const_args: &[Attribute]) -> Check {
    let all_expressions = const_args.iter().all(|argument| matches!(argument, Attribute::Preview(value) if value.is_expression()));
    match all_expressions {
        true => Ok(()),
        false => Err("attribute 'const_args' failed to satisfy constraint: array of symbolic expression attribute values".into()),
    }
}
