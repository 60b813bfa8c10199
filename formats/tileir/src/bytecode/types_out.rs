//! Writes the type section.

use super::preview_out::write_preview;
use super::writer::{encode_table, version_error, write_varint};
use crate::enums::{PointerSharing, WireEnum};
use crate::gates::{self, Feature, TypeKind};
use crate::module::Module;
use crate::types::{Element, Pointer, Preview, PreviewType, Type, TypeId};
use crate::version::Version;
use base::diag::Result;
use base::entity::Entity;
use core_dialect::memory::Padding;
use std::collections::HashMap;

/// Returns the payload of the type section.
pub(super) fn type_section(module: &Module, version: Version) -> Result<Vec<u8>> {
    let mut writer = TypeWriter { module, version, extra_types: Vec::new(), by_type: HashMap::new() };
    for (id, ty) in module.types.iter() {
        writer.by_type.insert(ty.clone(), id.index() as u64);
    }
    let mut records = Vec::new();
    for id in module.types.ids() {
        records.push(writer.encode_type(id)?);
    }
    // Element types that are not in the module's own type list come last.
    let mut next = 0;
    while next < writer.extra_types.len() {
        let ty = writer.extra_types[next].clone();
        let mut record = Vec::new();
        match ty {
            Type::Scalar(scalar) => writer.write_tag(&mut record, TypeKind::Scalar(scalar))?,
            Type::Ptr(pointer) => writer.write_pointer(&mut record, pointer)?,
            _ => unreachable!("only element types are added"),
        }
        records.push(record);
        next += 1;
    }
    Ok(encode_table(records.into_iter(), 4))
}

/// Encodes the records of the type section.
struct TypeWriter<'a> {
    module: &'a Module,
    version: Version,
    /// Element types that the module's own type list does not have. They follow the list in the section.
    extra_types: Vec<Type>,
    /// The index of each type in the section.
    by_type: HashMap<Type, u64>,
}

impl TypeWriter<'_> {
    fn encode_type(&mut self, id: TypeId) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let module = self.module;
        match module.ty(id) {
            Type::Scalar(scalar) => self.write_tag(&mut out, TypeKind::Scalar(*scalar))?,
            Type::Ptr(pointer) => self.write_pointer(&mut out, *pointer)?,
            Type::Tile { element, shape } => {
                self.write_tag(&mut out, TypeKind::Tile)?;
                let element_index = match element {
                    Element::Scalar(scalar) => self.element_index(Type::Scalar(*scalar)),
                    Element::Ptr(pointer) => self.element_index(Type::Ptr(*pointer)),
                };
                write_varint(&mut out, element_index);
                write_i64_array(&mut out, shape);
            }
            Type::TensorView { element, shape, strides, space } => {
                self.write_tag(&mut out, TypeKind::TensorView)?;
                self.write_pointer_attribute_flag(&mut out, *space)?;
                let element_index = self.element_index(Type::Scalar(*element));
                write_varint(&mut out, element_index);
                write_i64_array(&mut out, shape);
                write_i64_array(&mut out, strides);
                write_pointer_attribute(&mut out, *space);
            }
            Type::PartitionView { tile, tensor, dim_map, padding } => {
                self.write_tag(&mut out, TypeKind::PartitionView)?;
                self.write_padding_flag(&mut out, *padding);
                write_i32_array(&mut out, tile);
                write_varint(&mut out, tensor.index() as u64);
                write_i32_array(&mut out, dim_map);
                if !self.version.has(Feature::ViewFlags) {
                    out.push(u8::from(padding.is_some()));
                }
                write_padding(&mut out, *padding);
            }
            Type::StridedView { tile, traversal, tensor, dim_map, padding } => {
                self.write_tag(&mut out, TypeKind::StridedView)?;
                self.write_padding_flag(&mut out, *padding);
                write_i32_array(&mut out, tile);
                write_i32_array(&mut out, traversal);
                write_varint(&mut out, tensor.index() as u64);
                write_i32_array(&mut out, dim_map);
                write_padding(&mut out, *padding);
            }
            Type::GatherScatterView { tile, tensor, sparse_dim, padding } => {
                self.write_tag(&mut out, TypeKind::GatherScatterView)?;
                self.write_padding_flag(&mut out, *padding);
                write_i32_array(&mut out, tile);
                write_varint(&mut out, tensor.index() as u64);
                write_varint(&mut out, (*sparse_dim).into());
                write_padding(&mut out, *padding);
            }
            Type::Function { inputs, results } => {
                self.write_tag(&mut out, TypeKind::Function)?;
                for list in [inputs, results] {
                    write_varint(&mut out, list.len() as u64);
                    list.iter().for_each(|ty| write_varint(&mut out, ty.index() as u64));
                }
            }
            Type::Token => self.write_tag(&mut out, TypeKind::Token)?,
            Type::Preview(preview) => self.write_preview_type(&mut out, preview)?,
        }
        Ok(out)
    }

    fn write_preview_type(&self, out: &mut Vec<u8>, ty: &PreviewType) -> Result<()> {
        match ty {
            PreviewType::Symbol(name) => {
                self.write_tag(out, TypeKind::Symbol)?;
                write_preview(out, name);
            }
            PreviewType::Tile { element, shape, symbols } => {
                self.write_tag(out, TypeKind::Tile)?;
                write_varint(out, element.index() as u64);
                write_i64_array(out, shape);
                write_preview(out, &Preview::Tuple(symbols.clone()));
            }
            PreviewType::Fragment(fragment) => {
                self.write_tag(out, TypeKind::Fragment)?;
                write_preview(out, &Preview::Tuple(fragment.symbols.clone()));
                write_i64_array(out, &fragment.shape);
                write_varint(out, fragment.element.index() as u64);
                write_varint(out, fragment.space.number().into());
                [&fragment.layout, &fragment.map, &fragment.alignment].into_iter().for_each(|part| write_preview(out, part));
            }
            PreviewType::Datatype => self.write_tag(out, TypeKind::Datatype)?,
            PreviewType::Shape => self.write_tag(out, TypeKind::Shape)?,
            PreviewType::String => self.write_tag(out, TypeKind::String)?,
            PreviewType::Index => self.write_tag(out, TypeKind::Index)?,
            PreviewType::None => self.write_tag(out, TypeKind::None)?,
        }
        Ok(())
    }

    /// Writes the tag of a kind of type, if the version has it.
    fn write_tag(&self, out: &mut Vec<u8>, kind: TypeKind) -> Result<()> {
        let row = kind.row();
        if self.version < row.since {
            let name = if let TypeKind::Scalar(scalar) = kind { scalar.name() } else { row.name };
            return Err(version_error(format!("type {name}"), row.since, self.version));
        }
        write_varint(out, row.tag.into());
        Ok(())
    }

    fn write_pointer(&mut self, out: &mut Vec<u8>, pointer: Pointer) -> Result<()> {
        self.write_tag(out, TypeKind::Pointer)?;
        self.write_pointer_attribute_flag(out, pointer.space)?;
        let pointee_index = self.element_index(Type::Scalar(pointer.pointee));
        write_varint(out, pointee_index);
        write_pointer_attribute(out, pointer.space);
        Ok(())
    }

    /// Returns the index of an element type. Adds the type to `extra_types` if the module's own type list does not have it.
    fn element_index(&mut self, ty: Type) -> u64 {
        let next = (self.module.types.len() + self.extra_types.len()) as u64;
        *self.by_type.entry(ty.clone()).or_insert_with(|| {
            self.extra_types.push(ty);
            next
        })
    }

    /// Writes whether the pointer type has an attribute, in versions with this flag. Fails if the version lacks the attribute.
    fn write_pointer_attribute_flag(&self, out: &mut Vec<u8>, sharing: PointerSharing) -> Result<()> {
        let since = gates::pointer_since(sharing);
        if self.version < since {
            return Err(version_error(format!("pointer attribute {}", sharing.spelling()), since, self.version));
        }
        if self.version.has(Feature::PointerFlags) {
            write_varint(out, u64::from(sharing != PointerSharing::Absent));
        }
        Ok(())
    }

    fn write_padding_flag(&self, out: &mut Vec<u8>, padding: Option<Padding>) {
        if self.version.has(Feature::ViewFlags) {
            write_varint(out, u64::from(padding.is_some()));
        }
    }
}

fn write_pointer_attribute(out: &mut Vec<u8>, sharing: PointerSharing) {
    if let Some(number) = sharing.number() {
        write_varint(out, number.into());
    }
}

fn write_padding(out: &mut Vec<u8>, padding: Option<Padding>) {
    if let Some(padding) = padding {
        write_varint(out, padding.number().into());
    }
}

fn write_i64_array(out: &mut Vec<u8>, values: &[i64]) {
    write_varint(out, values.len() as u64);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn write_i32_array(out: &mut Vec<u8>, values: &[i32]) {
    write_varint(out, values.len() as u64);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
