//! What must hold of a module's tables before its ops can be looked at.

use crate::bytecode::{MAX_DEPTH, MAX_RANK};
use crate::check_type;
use crate::fields::FieldRef;
use crate::module::{Function, Global, Module, check_constant_size};
use crate::types::{Attribute, ConstantId, StringId, Type, TypeId};
use base::entity::Entity;

type Check = Result<(), String>;

pub(super) fn tables(module: &Module) -> Check {
    for (id, ty) in module.types.iter() {
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
        of_type(module, ty).map_err(|message| format!("type {id}: {message}"))?;
    }
    match module.producer {
        Some(producer) => string(module, producer),
        None => Ok(()),
    }
}

fn of_type(module: &Module, ty: &Type) -> Check {
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

/// That a constant is in the table and has as much data as its type needs.
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
                if hints && !matches!(value, Attribute::Dictionary(_)) {
                    return Err(format!("hint {} is no dictionary", module.string(*key)));
                }
                attribute(module, value, depth + 1)?;
            }
            Ok(())
        }
        Attribute::Bool(_) | Attribute::DivBy { .. } | Attribute::SameElements(_) | Attribute::Bounded { .. } => Ok(()),
    }
}
