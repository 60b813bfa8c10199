//! Checks the references in a module: each id is in its table, and types, constants and attributes are well-formed. The checks of
//! ops rely on these invariants.

use crate::check_type;
use crate::fields::FieldRef;
use crate::module::{Function, Global, Module, check_constant_size};
use crate::preview::{Extern, check_symbols};
use crate::reader_limits::{MAX_DEPTH, MAX_RANK};
use crate::types::{Attribute, ConstantId, Preview, PreviewType, StringId, Type, TypeId};
use base::entity::Entity;

type Check = Result<(), String>;

/// Checks the tables of a module: every type is valid and refers only to types before it, and the producer is a valid string.
pub(super) fn check_tables(module: &Module) -> Check {
    for (id, ty) in module.types.iter() {
        if let Type::Preview(preview) = ty {
            check_preview_type(module, id, preview).map_err(|message| format!("type {id}: {message}"))?;
            continue;
        }
        let referenced_types: &[TypeId] = match ty {
            Type::PartitionView { tensor, .. } | Type::StridedView { tensor, .. } | Type::GatherScatterView { tensor, .. } => {
                std::slice::from_ref(tensor)
            }
            Type::Function { inputs, .. } => inputs,
            _ => &[],
        };
        let results: &[TypeId] = if let Type::Function { results, .. } = ty { results } else { &[] };
        if let Some(referenced_type) =
            referenced_types.iter().chain(results).find(|referenced_type| referenced_type.index() >= id.index())
        {
            return Err(format!("type {id} refers to {referenced_type}, which does not come before it"));
        }
        check_type_record(module, ty).map_err(|message| format!("type {id}: {message}"))?;
    }
    match module.producer {
        Some(producer) => check_string(module, producer),
        None => Ok(()),
    }
}

/// Checks a preview type: it refers only to types before it, and its extents match its shape.
fn check_preview_type(module: &Module, id: TypeId, ty: &PreviewType) -> Check {
    let (element, parts) = ty.element_and_attributes();
    if element.is_some_and(|element| element.index() >= id.index()) {
        return Err("it refers to a type that does not come before it".into());
    }
    let mut outcome = Ok(());
    for part in parts {
        check_expression(module, part)?;
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

/// Checks that the names and types of an expression are in the tables, and that its depth is safe for recursive functions.
fn check_expression(module: &Module, value: &Preview) -> Check {
    if value.depth() > MAX_DEPTH + 1 {
        return Err(format!("attributes are nested deeper than {MAX_DEPTH} levels"));
    }
    let mut outcome = Ok(());
    value.walk(&mut |part| {
        if outcome.is_ok() {
            outcome = match part {
                Preview::Var(name) | Preview::ConstString(name) => check_string(module, *name),
                Preview::ConcreteType(id) => check_type_id(module, *id),
                Preview::ConstParam { name, ty: id } | Preview::Builtin { name, ty: id } => {
                    check_string(module, *name).and_then(|()| check_type_id(module, *id))
                }
                _ => Ok(()),
            };
        }
    });
    outcome
}

/// Checks the references of a function without a body.
pub(super) fn check_external(module: &Module, function: &Extern) -> Check {
    check_string(module, function.name)?;
    check_type_id(module, function.ty)?;
    let Type::Function { inputs, .. } = module.ty(function.ty) else { return Err("a function has a function type".into()) };
    if function.after as usize > module.functions.len() || !module.preview {
        return Err("a function without a body has no place in the program".into());
    }
    let attrs = &function.arg_attrs;
    if !attrs.is_empty() && attrs.len() != inputs.len() {
        return Err("a function has attributes for another number of arguments".into());
    }
    attrs.iter().try_for_each(|entries| check_attribute(module, &Attribute::Dictionary(entries.clone()), 0))?;
    function.const_params.iter().try_for_each(|parameter| check_expression(module, parameter))?;
    let Some(implementation) = &function.implementation else { return Ok(()) };
    check_string(module, implementation.implements)?;
    implementation.arch.iter().flatten().try_for_each(|name| check_string(module, *name))?;
    implementation.const_args.iter().try_for_each(|argument| check_expression(module, argument))?;
    implementation.res_attrs.iter().flatten().try_for_each(|value| check_attribute(module, value, 0))?;
    implementation
        .scratch
        .iter()
        .try_for_each(|(size, alignment)| check_expression(module, size).and_then(|()| check_expression(module, alignment)))?;
    let dictionaries = implementation.config.iter().chain(&implementation.abi);
    dictionaries.into_iter().try_for_each(|entries| check_attribute(module, &Attribute::Dictionary(entries.clone()), 0))
}

/// Checks the rules of a type, and its rank.
fn check_type_record(module: &Module, ty: &Type) -> Check {
    let rank = match ty {
        Type::Tile { element, shape } => {
            check_type::check_tile(*element, shape)?;
            shape.len()
        }
        Type::TensorView { shape, strides, .. } => {
            check_type::check_tensor_view(shape, strides)?;
            shape.len()
        }
        _ => {
            check_type::check_view(&module.types, ty)?;
            0
        }
    };
    if rank > MAX_RANK { Err(format!("rank {rank} is not supported, the most is {MAX_RANK}")) } else { Ok(()) }
}

fn check_string(module: &Module, id: StringId) -> Check {
    if id.index() < module.strings.len() { Ok(()) } else { Err(format!("string {id} is not in the table")) }
}

fn check_type_id(module: &Module, id: TypeId) -> Check {
    if id.index() < module.types.len() { Ok(()) } else { Err(format!("type {id} is not in the table")) }
}

/// Checks that a constant is in the table and that its data has the size of its type.
fn check_constant(module: &Module, id: ConstantId, type_id: TypeId) -> Check {
    check_type_id(module, type_id)?;
    let Some(constant) = module.constants.get(id) else { return Err(format!("constant {id} is not in the table")) };
    let tile = module.types[type_id].tile().and_then(|(element, shape)| Some((element.scalar()?, shape)));
    let Some((scalar, shape)) = tile else {
        return Err(format!("constant {id} is of type {type_id}, which is no tile of numbers"));
    };
    check_constant_size(&constant.data, scalar, shape.iter().product::<i64>() as usize)
}

/// Checks the references of a global.
pub(super) fn check_global(module: &Module, global: &Global) -> Check {
    check_string(module, global.name)?;
    check_constant(module, global.value, global.ty)
}

/// Checks the references of a function and its ops, and that the parameters match the function type.
pub(super) fn check_function(module: &Module, function: &Function) -> Check {
    check_string(module, function.name)?;
    check_type_id(module, function.ty)?;
    for entries in &function.arg_attrs {
        check_attribute(module, &Attribute::Dictionary(entries.clone()), 0)?;
    }
    if let Some(hints) = &function.hints {
        check_attribute(module, &Attribute::OptimizationHints(hints.clone()), 0)?;
    }
    let body = &function.body;
    body.values.values().try_for_each(|value| check_type_id(module, value.ty))?;
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
                outcome = check_field(module, function, field, &node.results);
            }
        });
        outcome?;
    }
    Ok(())
}

fn check_field(module: &Module, function: &Function, field: FieldRef<'_>, results: &[base::Value]) -> Check {
    match field {
        FieldRef::String(id) => check_string(module, id),
        FieldRef::Constant(id) => {
            let result = results.first().and_then(|result| function.body.values.get(*result));
            check_constant(module, id, result.ok_or("a constant has no result")?.ty)
        }
        FieldRef::Attribute(value) => check_attribute(module, value, 0),
        FieldRef::Attributes(values) => values.iter().try_for_each(|value| check_attribute(module, value, 0)),
        FieldRef::OptionalAttributes(Some(values)) => values.iter().try_for_each(|value| check_attribute(module, value, 0)),
        FieldRef::OptionalDictionary(Some(entries)) => check_attribute(module, &Attribute::OptimizationHints(entries.clone()), 0),
        _ => Ok(()),
    }
}

/// Checks the references in an attribute, and its nesting depth.
fn check_attribute(module: &Module, value: &Attribute, depth: usize) -> Check {
    if depth > MAX_DEPTH {
        return Err(format!("attributes are nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Attribute::Integer { ty: id, .. } | Attribute::Float { ty: id, .. } => {
            check_type_id(module, *id)?;
            let Type::Scalar(scalar) = module.ty(*id) else { return Err("a number is of no scalar type".into()) };
            let matches_type = scalar.is_int() == matches!(value, Attribute::Integer { .. });
            if matches_type { Ok(()) } else { Err(format!("a number is of type {scalar}")) }
        }
        Attribute::Type(id) => check_type_id(module, *id),
        Attribute::String(id) => check_string(module, *id),
        Attribute::Array(values) => values.iter().try_for_each(|value| check_attribute(module, value, depth + 1)),
        Attribute::Dense { ty, data } => check_constant(module, *data, *ty),
        Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => {
            let is_hints = matches!(value, Attribute::OptimizationHints(_));
            for (key, value) in entries {
                check_string(module, *key)?;
                if module.string(*key).is_empty() {
                    return Err("a name in a dictionary is empty".into());
                }
                if is_hints && !matches!(value, Attribute::Dictionary(_)) {
                    return Err(format!("hint {} is no dictionary", module.string(*key)));
                }
                check_attribute(module, value, depth + 1)?;
            }
            Ok(())
        }
        Attribute::Preview(value) => check_expression(module, value),
        Attribute::Bool(_)
        | Attribute::DivBy { .. }
        | Attribute::SameElements(_)
        | Attribute::Bounded { .. }
        | Attribute::MulticastReduction(_) => Ok(()),
    }
}
