//! Writes types as text.

pub(crate) use super::preview::TypeTables;
use super::preview::write_preview_type;
use crate::enums::{PointerSharing, WireEnum};
use crate::types::{DYNAMIC, Element, Pointer, PreviewType, Type, TypeId};
use core_dialect::memory::Padding;
use std::fmt::Write as _;

/// The form of a type's text: with or without the name of the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeTextForm {
    /// The disassembly form: `tile<8xf32>`.
    Short,
    /// The form of messages, where the outermost type names its dialect: `!cuda_tile.tile<8xf32>`.
    Full,
}

/// Returns the text of a type.
pub(crate) fn type_text(tables: TypeTables<'_>, id: TypeId, form: TypeTextForm) -> String {
    let mut out = String::new();
    write_type(&mut out, tables, id, form);
    out
}

pub(crate) fn write_type(out: &mut String, tables: TypeTables<'_>, id: TypeId, form: TypeTextForm) {
    let ty = &tables.types[id];
    let has_no_dialect =
        matches!(ty, Type::Scalar(_) | Type::Function { .. } | Type::Preview(PreviewType::Index | PreviewType::None));
    if form == TypeTextForm::Full && !has_no_dialect {
        out.push_str("!cuda_tile.");
    }
    match ty {
        Type::Scalar(scalar) => out.push_str(scalar.name()),
        Type::Ptr(pointer) => write_pointer(out, *pointer),
        Type::Tile { element, shape } => {
            out.push_str("tile<");
            write_shape_prefix(out, shape);
            match element {
                Element::Scalar(scalar) => out.push_str(scalar.name()),
                Element::Ptr(pointer) => write_pointer(out, *pointer),
            }
            out.push('>');
        }
        Type::TensorView { element, shape, strides, space } => {
            out.push_str("tensor_view<");
            write_shape_prefix(out, shape);
            out.push_str(element.name());
            if !shape.is_empty() {
                out.push_str(", strides=[");
                write_separated(out, strides, ",", |out, stride| write_dim(out, *stride));
                out.push(']');
            }
            if let Some(number) = space.number() {
                let _ = write!(out, ", #cuda_tile.ptr_attr<{}>", PointerSharing::SPELLINGS[number as usize]);
            }
            out.push('>');
        }
        Type::PartitionView { tile, tensor, dim_map, padding } => {
            write_view_start(out, "partition_view", tile);
            write_padding(out, *padding);
            write_type(out, tables, *tensor, TypeTextForm::Short);
            write_dim_map(out, dim_map);
        }
        Type::StridedView { tile, traversal, tensor, dim_map, padding } => {
            write_view_start(out, "strided_view", tile);
            out.push_str("traversal_strides=[");
            write_separated(out, traversal, ",", |out, stride| write!(out, "{stride}").expect("strings take all text"));
            out.push_str("], ");
            write_padding(out, *padding);
            write_type(out, tables, *tensor, TypeTextForm::Short);
            write_dim_map(out, dim_map);
        }
        Type::GatherScatterView { tile, tensor, sparse_dim, padding } => {
            write_view_start(out, "gather_scatter_view", tile);
            write_padding(out, *padding);
            write_type(out, tables, *tensor, TypeTextForm::Short);
            let _ = write!(out, ", sparse_dim={sparse_dim}>");
        }
        Type::Function { inputs, results } => write_function(out, tables, inputs, results),
        Type::Token => out.push_str("token"),
        Type::Preview(preview) => write_preview_type(out, tables, preview),
    }
}

/// Writes a function type.
fn write_function(out: &mut String, tables: TypeTables<'_>, inputs: &[TypeId], results: &[TypeId]) {
    out.push('(');
    write_separated(out, inputs, ", ", |out, input| write_type(out, tables, *input, TypeTextForm::Full));
    out.push_str(") -> ");
    let is_single = matches!(results, [result] if !matches!(tables.types[*result], Type::Function { .. }));
    if !is_single {
        out.push('(');
    }
    write_separated(out, results, ", ", |out, result| write_type(out, tables, *result, TypeTextForm::Full));
    if !is_single {
        out.push(')');
    }
}

fn write_pointer(out: &mut String, pointer: Pointer) {
    let _ = write!(out, "ptr<{}", pointer.pointee);
    if pointer.space != PointerSharing::Absent {
        let _ = write!(out, ", <{}>", pointer.space.spelling());
    }
    out.push('>');
}

/// Writes an extent or stride, or `?` if it is dynamic.
fn write_dim(out: &mut String, dim: i64) {
    if dim == DYNAMIC {
        out.push('?');
    } else {
        let _ = write!(out, "{dim}");
    }
}

/// Writes `8x?x` for the shape of a type.
pub(super) fn write_shape_prefix(out: &mut String, dims: &[i64]) {
    for dim in dims {
        write_dim(out, *dim);
        out.push('x');
    }
}

/// Writes the name and the tile shape of a view type.
fn write_view_start(out: &mut String, name: &str, tile: &[i32]) {
    let _ = write!(out, "{name}<tile=(");
    write_separated(out, tile, "x", |out, dim| write!(out, "{dim}").expect("strings take all text"));
    out.push_str("), ");
}

fn write_padding(out: &mut String, padding: Option<Padding>) {
    if let Some(padding) = padding {
        let _ = write!(out, "padding_value = {}, ", padding.spelling());
    }
}

/// Writes the dimension map, unless it is the identity, and closes the type.
fn write_dim_map(out: &mut String, dim_map: &[i32]) {
    if !dim_map.iter().copied().eq(0..dim_map.len() as i32) {
        out.push_str(", dim_map=[");
        write_separated(out, dim_map, ", ", |out, dim| write!(out, "{dim}").expect("strings take all text"));
        out.push(']');
    }
    out.push('>');
}

/// Writes items with a separator between them.
pub(crate) fn write_separated<T>(out: &mut String, items: &[T], separator: &str, mut write_item: impl FnMut(&mut String, &T)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        write_item(out, item);
    }
}
