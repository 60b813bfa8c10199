//! The invariants of a module's tables, which op checks rely on.

use crate::bytecode::preview::check_symbols;
use crate::bytecode::{MAX_DEPTH, MAX_RANK};
use crate::check_type;
use crate::fields::FieldRef;
use crate::module::{Function, Global, Module, check_constant_size};
use crate::preview::{Extern, Preview, PreviewType};
use crate::types::{Attribute, ConstantId, StringId, Type, TypeId};
use base::entity::Entity;

type Check = Result<(), String>;

pub(super) fn tables(module: &Module) -> Check {
    for (id, ty) in module.types.iter() {
        if let Type::Preview(preview) = ty {
            check_preview_type(module, id, preview).map_err(|message| format!("type {id}: {message}"))?;
            continue;
        }
        let parts: &[TypeId] = match ty {
            Type::PartitionView { tensor, .. } | Type::StridedView { tensor, .. } | Type::GatherScatterView { tensor, .. } => {
                std::slice::from_ref(tensor)
            }
            Type::Function { inputs, .. } => inputs,
            _ => &[],
        };
        let results: &[TypeId] = if let Type::Function { results, .. } = ty { results } else { &[] };
        if let Some(part) = parts.iter().chain(results).find(|part| part.index() >= id.index()) {
            return Err(format!("type {id} refers to {part}, which does not come before it"));
        }
        check_type_record(module, ty).map_err(|message| format!("type {id}: {message}"))?;
    }
    match module.producer {
        Some(producer) => string(module, producer),
        None => Ok(()),
    }
}

fn check_preview_type(module: &Module, id: TypeId, ty: &PreviewType) -> Check {
    let (element, parts) = ty.parts();
    if element.is_some_and(|element| element.index() >= id.index()) {
        return Err("it refers to a type that does not come before it".into());
    }
    let mut outcome = Ok(());
    for part in parts {
        expression(module, part)?;
        part.walk(&mut |part| match part {
            Preview::ConcreteType(ty) | Preview::ConstParam { ty, .. } | Preview::Builtin { ty, .. }
                if ty.index() >= id.index() =>
            {
                outcome = Err("it refers to a type that does not come before it".to_string());
            }
            _ => {}
        });
    }
    outcome?;
    match ty {
        PreviewType::Tile { shape, symbols, .. } => check_symbols(symbols, shape),
        PreviewType::Fragment(fragment) => check_symbols(&fragment.symbols, &fragment.shape),
        _ => Ok(()),
    }
}

/// Checks that names and types of an expression are in the tables, and that its depth is safe for recursive functions.
fn expression(module: &Module, value: &Preview) -> Check {
    if value.depth() > MAX_DEPTH + 1 {
        return Err(format!("attributes are nested deeper than {MAX_DEPTH} levels"));
    }
    let mut outcome = Ok(());
    value.walk(&mut |part| {
        if outcome.is_ok() {
            outcome = match part {
                Preview::Var(name) | Preview::ConstString(name) => string(module, *name),
                Preview::ConcreteType(id) => ty(module, *id),
                Preview::ConstParam { name, ty: id } | Preview::Builtin { name, ty: id } => {
                    string(module, *name).and_then(|()| ty(module, *id))
                }
                _ => Ok(()),
            };
        }
    });
    outcome
}

/// A function without a body.
pub(super) fn external(module: &Module, function: &Extern) -> Check {
    string(module, function.name)?;
    ty(module, function.ty)?;
    let Type::Function { inputs, .. } = module.ty(function.ty) else { return Err("a function has a function type".into()) };
    if function.after as usize > module.functions.len() || !module.preview {
        return Err("a function without a body has no place in the program".into());
    }
    let attrs = &function.arg_attrs;
    if !attrs.is_empty() && attrs.len() != inputs.len() {
        return Err("a function has attributes for another number of arguments".into());
    }
    attrs.iter().try_for_each(|entries| attribute(module, &Attribute::Dictionary(entries.clone()), 0))?;
    function.const_params.iter().try_for_each(|parameter| expression(module, parameter))?;
    let Some(own) = &function.implementation else { return Ok(()) };
    string(module, own.implements)?;
    own.arch.iter().flatten().try_for_each(|name| string(module, *name))?;
    own.const_args.iter().try_for_each(|argument| expression(module, argument))?;
    own.res_attrs.iter().flatten().try_for_each(|value| attribute(module, value, 0))?;
    own.scratch.iter().try_for_each(|(size, alignment)| expression(module, size).and_then(|()| expression(module, alignment)))?;
    let dictionaries = own.config.iter().chain(&own.abi);
    dictionaries.into_iter().try_for_each(|entries| attribute(module, &Attribute::Dictionary(entries.clone()), 0))
}

fn check_type_record(module: &Module, ty: &Type) -> Check {
    let rank = match ty {
        Type::Tile { element, shape } => {
            check_type::tile(*element, shape)?;
            shape.len()
        }
        Type::TensorView { shape, strides, .. } => {
            check_type::tensor_view(shape, strides)?;
            shape.len()
        }
        _ => {
            check_type::view(&module.types, ty)?;
            0
        }
    };
    if rank > MAX_RANK { Err(format!("rank {rank} is not supported, the most is {MAX_RANK}")) } else { Ok(()) }
}

fn string(module: &Module, id: StringId) -> Check {
    if id.index() < module.strings.len() { Ok(()) } else { Err(format!("string {id} is not in the table")) }
}

fn ty(module: &Module, id: TypeId) -> Check {
    if id.index() < module.types.len() { Ok(()) } else { Err(format!("type {id} is not in the table")) }
}

/// Checks that a constant is in the table and that its data has the size of its type.
fn constant(module: &Module, id: ConstantId, of: TypeId) -> Check {
    ty(module, of)?;
    let Some(constant) = module.constants.get(id) else { return Err(format!("constant {id} is not in the table")) };
    let tile = module.types[of].tile().and_then(|(element, shape)| Some((element.scalar()?, shape)));
    let Some((scalar, shape)) = tile else { return Err(format!("constant {id} is of type {of}, which is no tile of numbers")) };
    check_constant_size(&constant.data, scalar, shape.iter().product::<i64>() as usize)
}

pub(super) fn global(module: &Module, global: &Global) -> Check {
    string(module, global.name)?;
    constant(module, global.value, global.ty)
}

pub(super) fn function(module: &Module, function: &Function) -> Check {
    string(module, function.name)?;
    ty(module, function.ty)?;
    for entries in &function.arg_attrs {
        attribute(module, &Attribute::Dictionary(entries.clone()), 0)?;
    }
    if let Some(hints) = &function.hints {
        attribute(module, &Attribute::OptimizationHints(hints.clone()), 0)?;
    }
    let body = &function.body;
    body.values.values().try_for_each(|value| ty(module, value.ty))?;
    let Some(region) = body.regions.get(function.region) else { return Err("the function has no region".into()) };
    let [block] = region.blocks[..] else { return Err("a function has one block".into()) };
    let args = body.blocks.get(block).map(|block| &block.args[..]).unwrap_or_default();
    let types: Option<Vec<TypeId>> = args.iter().map(|arg| body.values.get(*arg).map(|value| value.ty)).collect();
    let Type::Function { inputs, .. } = module.ty(function.ty) else { return Err("a function has a function type".into()) };
    if types.as_deref() != Some(&**inputs) {
        return Err("the parameters of the function are not those of its type".into());
    }
    for node in body.ops.values() {
        let mut outcome = Ok(());
        node.kind.for_each_field(&mut |field| {
            if outcome.is_ok() {
                outcome = of_field(module, function, field, &node.results);
            }
        });
        outcome?;
    }
    Ok(())
}

fn of_field(module: &Module, function: &Function, field: FieldRef<'_>, results: &[base::Value]) -> Check {
    match field {
        FieldRef::String(id) => string(module, id),
        FieldRef::Constant(id) => {
            let result = results.first().and_then(|result| function.body.values.get(*result));
            constant(module, id, result.ok_or("a constant has no result")?.ty)
        }
        FieldRef::Attribute(value) => attribute(module, value, 0),
        FieldRef::Attributes(values) => values.iter().try_for_each(|value| attribute(module, value, 0)),
        FieldRef::OptionalAttributes(Some(values)) => values.iter().try_for_each(|value| attribute(module, value, 0)),
        FieldRef::OptionalDictionary(Some(entries)) => attribute(module, &Attribute::OptimizationHints(entries.clone()), 0),
        _ => Ok(()),
    }
}

fn attribute(module: &Module, value: &Attribute, depth: usize) -> Check {
    if depth > MAX_DEPTH {
        return Err(format!("attributes are nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Attribute::Integer { ty: id, .. } | Attribute::Float { ty: id, .. } => {
            ty(module, *id)?;
            let Type::Scalar(scalar) = module.ty(*id) else { return Err("a number is of no scalar type".into()) };
            let right = scalar.is_int() == matches!(value, Attribute::Integer { .. });
            if right { Ok(()) } else { Err(format!("a number is of type {scalar}")) }
        }
        Attribute::Type(id) => ty(module, *id),
        Attribute::String(id) => string(module, *id),
        Attribute::Array(values) => values.iter().try_for_each(|value| attribute(module, value, depth + 1)),
        Attribute::Dense { ty, data } => constant(module, *data, *ty),
        Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => {
            let hints = matches!(value, Attribute::OptimizationHints(_));
            for (key, value) in entries {
                string(module, *key)?;
                if module.string(*key).is_empty() {
                    return Err("a name in a dictionary is empty".into());
                }
                if hints && !matches!(value, Attribute::Dictionary(_)) {
                    return Err(format!("hint {} is no dictionary", module.string(*key)));
                }
                attribute(module, value, depth + 1)?;
            }
            Ok(())
        }
        Attribute::Preview(value) => expression(module, value),
        Attribute::Bool(_)
        | Attribute::DivBy { .. }
        | Attribute::SameElements(_)
        | Attribute::Bounded { .. }
        | Attribute::MulticastReduction(_) => Ok(()),
    }
}
