//! Writes preview content as text.

use super::attributes::{TypeSuffix, write_attribute, write_string, write_symbol};
use super::types::{TypeTextForm, write_separated, write_shape_prefix, write_type};
use crate::enums::{ExprOp, WireEnum};
use crate::module::Module;
use crate::preview::Extern;
use crate::types::{Attribute, Fragment, Preview, PreviewType, StringId, Type, TypeId};
use base::Arena;
use numerics::Scalar;
use std::fmt::Write as _;

/// The tables to which a type refers: strings, for the names in symbolic extents, and types.
#[derive(Clone, Copy)]
pub(crate) struct TypeTables<'a> {
    pub(crate) strings: &'a Arena<StringId, String>,
    pub(crate) types: &'a Arena<TypeId, Type>,
}

impl<'a> TypeTables<'a> {
    pub(crate) fn new(module: &'a Module) -> Self {
        TypeTables { strings: &module.strings, types: &module.types }
    }
}

/// The precedence of an expression's outermost operator. An operator with a higher number binds more tightly.
fn precedence(expression: &Preview) -> u32 {
    match expression {
        Preview::Binary { op: ExprOp::Add | ExprOp::Sub, .. } => 1,
        Preview::Binary { op: ExprOp::Mul | ExprOp::FloorDiv | ExprOp::CeilDiv, .. } => 2,
        Preview::Neg(_) => 3,
        _ => 4,
    }
}

/// Writes an expression in the short form of shapes, layouts and arguments, such as `n*2+1`.
pub(super) fn write_expression(out: &mut String, tables: TypeTables<'_>, expression: &Preview) {
    let write_operand = |out: &mut String, part: &Preview, min_precedence: u32| {
        let needs_parentheses = precedence(part) < min_precedence;
        out.push_str(if needs_parentheses { "(" } else { "" });
        write_expression(out, tables, part);
        out.push_str(if needs_parentheses { ")" } else { "" });
    };
    match expression {
        Preview::Int(value) => write!(out, "{value}").expect("strings take all text"),
        Preview::Var(name) | Preview::Builtin { name, .. } => out.push_str(&tables.strings[*name]),
        Preview::ConstString(text) => write_string(out, &tables.strings[*text]),
        Preview::ConcreteType(ty) => write_type(out, tables, *ty, TypeTextForm::Full),
        Preview::Neg(inner) => {
            out.push('-');
            write_operand(out, inner, 4);
        }
        Preview::Tuple(parts) => write_tuple(out, tables, parts),
        Preview::Layout { shape, strides } => {
            out.push('<');
            write_tuple(out, tables, shape);
            out.push(':');
            write_tuple(out, tables, strides);
            out.push('>');
        }
        Preview::Binary { op, lhs, rhs } => {
            let operator = match op {
                ExprOp::Add => "+",
                ExprOp::Sub => "-",
                ExprOp::Mul => "*",
                ExprOp::FloorDiv => "/",
                ExprOp::CeilDiv => "/+",
                // This division has no operator sign in the short form.
                ExprOp::Div => return write_preview_attribute(out, tables, expression),
            };
            write_operand(out, lhs, precedence(expression));
            out.push_str(operator);
            write_operand(out, rhs, precedence(expression) + 1);
        }
        _ => write_preview_attribute(out, tables, expression),
    }
}

fn write_tuple(out: &mut String, tables: TypeTables<'_>, parts: &[Preview]) {
    out.push('(');
    write_separated(out, parts, ", ", |out, part| write_expression(out, tables, part));
    out.push(')');
}

/// Writes an attribute with its name, such as `#cuda_tile<preview$expr_int<1>>`.
pub(super) fn write_preview_attribute(out: &mut String, tables: TypeTables<'_>, attribute: &Preview) {
    out.push_str("#cuda_tile<preview$");
    match attribute {
        Preview::Int(value) => write!(out, "expr_int<{value}>").expect("strings take all text"),
        Preview::Var(name) => {
            out.push_str("expr_var<");
            write_string(out, &tables.strings[*name]);
            out.push('>');
        }
        Preview::ConstString(text) => {
            out.push_str("expr_const_str<");
            write_string(out, &tables.strings[*text]);
            out.push('>');
        }
        Preview::Binary { op, lhs, rhs } => {
            let _ = write!(out, "expr_{}<", op.spelling());
            write_preview_attribute(out, tables, lhs);
            out.push_str(", ");
            write_preview_attribute(out, tables, rhs);
            out.push('>');
        }
        Preview::Neg(inner) => {
            out.push_str("expr_neg<");
            write_preview_attribute(out, tables, inner);
            out.push('>');
        }
        Preview::Tuple(parts) => {
            out.push_str("symbolic_tuple<");
            write_tuple(out, tables, parts);
            out.push('>');
        }
        Preview::Layout { .. } => {
            out.push_str("layout");
            write_expression(out, tables, attribute);
        }
        Preview::ConcreteType(ty) => {
            out.push_str("concrete_type<");
            write_type(out, tables, *ty, TypeTextForm::Full);
            out.push('>');
        }
        Preview::MemorySpace(space) => write!(out, "memory_space<{}>", space.spelling()).expect("strings take all text"),
        Preview::Synchronization(threads) => {
            write!(out, "synchronization<{}>", threads.spelling()).expect("strings take all text");
        }
        Preview::Access(access) => write!(out, "access<{}>", access.spelling()).expect("strings take all text"),
        Preview::Scratch { size, alignment } => {
            out.push_str("scratch_request<smem.size = ");
            write_preview_attribute(out, tables, size);
            out.push_str(", smem.alignment = ");
            write_preview_attribute(out, tables, alignment);
            out.push('>');
        }
        Preview::ConstParam { name, ty } | Preview::Builtin { name, ty } => {
            let kind = if matches!(attribute, Preview::ConstParam { .. }) { "const_param" } else { "expr_builtin" };
            let _ = write!(out, "{kind}<name = ");
            write_string(out, &tables.strings[*name]);
            out.push_str(", type = ");
            write_type(out, tables, *ty, TypeTextForm::Full);
            out.push('>');
        }
    }
    out.push('>');
}

pub(super) fn write_preview_type(out: &mut String, tables: TypeTables<'_>, ty: &PreviewType) {
    match ty {
        PreviewType::Symbol(name) => {
            out.push_str("preview$sym_t<");
            write_expression(out, tables, name);
            out.push('>');
        }
        PreviewType::Tile { element, shape, symbols } => {
            out.push_str("tile<");
            write_symbolic_dims(out, tables, shape, symbols);
            write_type(out, tables, *element, TypeTextForm::Short);
            out.push('>');
        }
        PreviewType::Fragment(fragment) => write_fragment(out, tables, fragment),
        PreviewType::Datatype => out.push_str("preview$Datatype"),
        PreviewType::Shape => out.push_str("preview$shape"),
        PreviewType::String => out.push_str("preview$string"),
        PreviewType::Index => out.push_str("index"),
        PreviewType::None => out.push_str("none"),
    }
}

/// Writes the extents before an element type. Symbolic extents are in brackets: `[n]x8x`.
fn write_symbolic_dims(out: &mut String, tables: TypeTables<'_>, shape: &[i64], symbols: &[Preview]) {
    for (dim, symbol) in shape.iter().zip(symbols) {
        if let Preview::Int(_) = symbol {
            write_shape_prefix(out, &[*dim]);
            continue;
        }
        out.push('[');
        write_expression(out, tables, symbol);
        out.push_str("]x");
    }
}

fn write_fragment(out: &mut String, tables: TypeTables<'_>, fragment: &Fragment) {
    out.push_str("preview$fragment<");
    write_symbolic_dims(out, tables, &fragment.shape, &fragment.symbols);
    write_type(out, tables, fragment.element, TypeTextForm::Short);
    let _ = write!(out, ", {}, mem_layout = ", fragment.space.spelling());
    write_expression(out, tables, &fragment.layout);
    out.push_str(", fragmap = ");
    write_expression(out, tables, &fragment.map);
    if fragment.alignment != Preview::Int(1) {
        out.push_str(", alignment = ");
        write_expression(out, tables, &fragment.alignment);
    }
    out.push('>');
}

/// Writes constant parameters such as `<[N: index]>`, or constant arguments such as `<[8]>`. Writes nothing for an empty list.
pub(super) fn write_const_list(out: &mut String, tables: TypeTables<'_>, items: &[Preview]) {
    if items.is_empty() {
        return;
    }
    out.push_str("<[");
    write_separated(out, items, ", ", |out, item| match item {
        Preview::ConstParam { name, ty } => {
            let _ = write!(out, "{}: ", tables.strings[*name]);
            write_parameter_type(out, tables, *ty);
        }
        other => write_expression(out, tables, other),
    });
    out.push_str("]>");
}

/// Writes the type of a constant parameter. Types of the dialect have the form `!cuda_tile<…>` here.
fn write_parameter_type(out: &mut String, tables: TypeTables<'_>, ty: TypeId) {
    match tables.types[ty].preview() {
        Some(PreviewType::Index | PreviewType::None) | None => write_type(out, tables, ty, TypeTextForm::Short),
        Some(preview) => {
            out.push_str("!cuda_tile<");
            write_preview_type(out, tables, preview);
            out.push('>');
        }
    }
}

/// Writes a function without a body, up to its location.
pub(super) fn write_extern(out: &mut String, module: &Module, function: &Extern) {
    let tables = TypeTables::new(module);
    out.push_str(function.mnemonic());
    out.push_str(if function.implementation.is_none() { " extern " } else { " " });
    write_symbol(out, module.string(function.name));
    write_const_list(out, tables, &function.const_params);
    if let Some(implementation) = &function.implementation {
        out.push_str(" implements ");
        write_symbol(out, module.string(implementation.implements));
        write_const_list(out, tables, &implementation.const_args);
        out.push(' ');
    }
    write_arguments(out, module, function);
    match &function.implementation {
        None => out.push(' '),
        Some(_) => write_implementation(out, module, function),
    }
}

/// Writes the parameters and the result types of a function without a body.
fn write_arguments(out: &mut String, module: &Module, function: &Extern) {
    let tables = TypeTables::new(module);
    let Type::Function { inputs, results } = module.ty(function.ty) else { return };
    out.push('(');
    for (i, input) in inputs.iter().enumerate() {
        let _ = write!(out, "{}%arg{i}: ", if i > 0 { ", " } else { "" });
        write_type(out, tables, *input, TypeTextForm::Short);
        if let Some(entries) = function.arg_attrs.get(i).filter(|entries| !entries.is_empty()) {
            out.push(' ');
            write_attribute(out, module, &Attribute::Dictionary(entries.clone()), TypeSuffix::Never);
        }
    }
    out.push(')');
    if results.is_empty() {
        return;
    }
    let (open, close) = if results.len() == 1 { (" -> ", "") } else { (" -> (", ")") };
    out.push_str(open);
    write_separated(out, results, ", ", |out, result| write_type(out, tables, *result, TypeTextForm::Short));
    out.push_str(close);
}

/// Writes the properties of an implementation after its signature.
fn write_implementation(out: &mut String, module: &Module, function: &Extern) {
    let Some(implementation) = &function.implementation else { return };
    let tables = TypeTables::new(module);
    if let Some(threads) = implementation.synchronization {
        out.push_str(" synchronization = ");
        write_preview_attribute(out, tables, &Preview::Synchronization(threads));
    }
    if let Some(names) = &implementation.arch {
        out.push_str(" arch = [");
        write_separated(out, names, ", ", |out, name| write_string(out, module.string(*name)));
        out.push(']');
    }
    if let Some((size, alignment)) = &implementation.scratch {
        out.push_str(" scratch {smem.size = ");
        write_preview_attribute(out, tables, size);
        out.push_str(", smem.alignment = ");
        write_preview_attribute(out, tables, alignment);
        out.push('}');
    }
    let mut entries: Vec<String> = Vec::new();
    if let Some(abi) = &implementation.abi {
        let mut text = "frontendABI = ".to_string();
        write_attribute(&mut text, module, &Attribute::Dictionary(abi.clone()), TypeSuffix::UnlessDefault);
        entries.push(text);
    }
    if let Some(score) = implementation.provider_score {
        entries.push(format!("provider_score = {} : {}", score as i64, Scalar::I64));
    }
    if !entries.is_empty() {
        let _ = write!(out, " {{{}}}", entries.join(", "));
    }
}
