//! Writes the type section.

use super::preview_out::write_preview;
use super::writer::{table, varint, version_error};
use crate::enums::WireEnum;
use crate::gates::{self, Feature, TypeKind};
use crate::module::Module;
use crate::preview::{Preview, PreviewType};
use crate::types::{Element, Pointer, PointerSpace, Type, TypeId};
use crate::version::Version;
use base::diag::Result;
use base::entity::Entity;
use core_dialect::memory::Padding;
use std::collections::HashMap;

pub(super) fn section(module: &Module, version: Version) -> Result<Vec<u8>> {
    let mut writer = TypeWriter { module, version, extra: Vec::new(), by_type: HashMap::new() };
    for (id, ty) in module.types.iter() {
        writer.by_type.insert(ty.clone(), id.index() as u64);
    }
    let mut records = Vec::new();
    for id in module.types.ids() {
        records.push(writer.record(id)?);
    }
    // Element types that no value has as its own type come last.
    let mut next = 0;
    while next < writer.extra.len() {
        let ty = writer.extra[next].clone();
        let mut record = Vec::new();
        match ty {
            Type::Scalar(scalar) => writer.tag(&mut record, TypeKind::Scalar(scalar))?,
            Type::Ptr(pointer) => writer.pointer(&mut record, pointer)?,
            _ => unreachable!("only element types are added"),
        }
        records.push(record);
        next += 1;
    }
    Ok(table(records.into_iter(), 4))
}

struct TypeWriter<'a> {
    module: &'a Module,
    version: Version,
    extra: Vec<Type>,
    by_type: HashMap<Type, u64>,
}

impl TypeWriter<'_> {
    fn record(&mut self, id: TypeId) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let module = self.module;
        match module.ty(id) {
            Type::Scalar(scalar) => self.tag(&mut out, TypeKind::Scalar(*scalar))?,
            Type::Ptr(pointer) => self.pointer(&mut out, *pointer)?,
            Type::Tile { element, shape } => {
                self.tag(&mut out, TypeKind::Tile)?;
                let element = match element {
                    Element::Scalar(scalar) => self.index(Type::Scalar(*scalar)),
                    Element::Ptr(pointer) => self.index(Type::Ptr(*pointer)),
                };
                varint(&mut out, element);
                longs(&mut out, shape);
            }
            Type::TensorView { element, shape, strides, space } => {
                self.tag(&mut out, TypeKind::TensorView)?;
                self.space_flag(&mut out, *space)?;
                let element = self.index(Type::Scalar(*element));
                varint(&mut out, element);
                longs(&mut out, shape);
                longs(&mut out, strides);
                space_value(&mut out, *space);
            }
            Type::PartitionView { tile, tensor, dim_map, padding } => {
                self.tag(&mut out, TypeKind::PartitionView)?;
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                varint(&mut out, tensor.index() as u64);
                ints(&mut out, dim_map);
                if !self.version.has(Feature::ViewFlags) {
                    out.push(u8::from(padding.is_some()));
                }
                padding_value(&mut out, *padding);
            }
            Type::StridedView { tile, traversal, tensor, dim_map, padding } => {
                self.tag(&mut out, TypeKind::StridedView)?;
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                ints(&mut out, traversal);
                varint(&mut out, tensor.index() as u64);
                ints(&mut out, dim_map);
                padding_value(&mut out, *padding);
            }
            Type::GatherScatterView { tile, tensor, sparse_dim, padding } => {
                self.tag(&mut out, TypeKind::GatherScatterView)?;
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                varint(&mut out, tensor.index() as u64);
                varint(&mut out, (*sparse_dim).into());
                padding_value(&mut out, *padding);
            }
            Type::Function { inputs, results } => {
                self.tag(&mut out, TypeKind::Function)?;
                for list in [inputs, results] {
                    varint(&mut out, list.len() as u64);
                    list.iter().for_each(|ty| varint(&mut out, ty.index() as u64));
                }
            }
            Type::Token => self.tag(&mut out, TypeKind::Token)?,
            Type::Preview(preview) => self.preview(&mut out, preview)?,
        }
        Ok(out)
    }

    fn preview(&self, out: &mut Vec<u8>, ty: &PreviewType) -> Result<()> {
        match ty {
            PreviewType::Symbol(name) => {
                self.tag(out, TypeKind::Symbol)?;
                write_preview(out, name);
            }
            PreviewType::Tile { element, shape, symbols } => {
                self.tag(out, TypeKind::Tile)?;
                varint(out, element.index() as u64);
                longs(out, shape);
                write_preview(out, &Preview::Tuple(symbols.clone()));
            }
            PreviewType::Fragment(fragment) => {
                self.tag(out, TypeKind::Fragment)?;
                write_preview(out, &Preview::Tuple(fragment.symbols.clone()));
                longs(out, &fragment.shape);
                varint(out, fragment.element.index() as u64);
                varint(out, fragment.space.number().into());
                [&fragment.layout, &fragment.map, &fragment.alignment].into_iter().for_each(|part| write_preview(out, part));
            }
            PreviewType::Datatype => self.tag(out, TypeKind::Datatype)?,
            PreviewType::Shape => self.tag(out, TypeKind::Shape)?,
            PreviewType::String => self.tag(out, TypeKind::String)?,
            PreviewType::Index => self.tag(out, TypeKind::Index)?,
            PreviewType::None => self.tag(out, TypeKind::None)?,
        }
        Ok(())
    }

    /// Writes the tag of a kind of type, if the version has it.
    fn tag(&self, out: &mut Vec<u8>, kind: TypeKind) -> Result<()> {
        let row = kind.row();
        if self.version < row.since {
            let name = if let TypeKind::Scalar(scalar) = kind { scalar.name() } else { row.name };
            return Err(version_error(format!("type {name}"), row.since, self.version));
        }
        varint(out, row.tag.into());
        Ok(())
    }

    fn pointer(&mut self, out: &mut Vec<u8>, pointer: Pointer) -> Result<()> {
        self.tag(out, TypeKind::Pointer)?;
        self.space_flag(out, pointer.space)?;
        let pointee = self.index(Type::Scalar(pointer.pointee));
        varint(out, pointee);
        space_value(out, pointer.space);
        Ok(())
    }

    /// The index of an element type; adds the type if no value has it.
    fn index(&mut self, ty: Type) -> u64 {
        let next = (self.module.types.len() + self.extra.len()) as u64;
        *self.by_type.entry(ty.clone()).or_insert_with(|| {
            self.extra.push(ty);
            next
        })
    }

    fn space_flag(&self, out: &mut Vec<u8>, space: PointerSpace) -> Result<()> {
        let since = gates::pointer_since(space);
        if self.version < since {
            return Err(version_error(format!("pointer attribute {}", space.spelling()), since, self.version));
        }
        if self.version.has(Feature::PointerFlags) {
            varint(out, u64::from(space != PointerSpace::Absent));
        }
        Ok(())
    }

    fn padding_flag(&self, out: &mut Vec<u8>, padding: Option<Padding>) {
        if self.version.has(Feature::ViewFlags) {
            varint(out, u64::from(padding.is_some()));
        }
    }
}

fn space_value(out: &mut Vec<u8>, space: PointerSpace) {
    if let Some(number) = space.number() {
        varint(out, number.into());
    }
}

fn padding_value(out: &mut Vec<u8>, padding: Option<Padding>) {
    if let Some(padding) = padding {
        varint(out, padding.number().into());
    }
}

fn longs(out: &mut Vec<u8>, values: &[i64]) {
    varint(out, values.len() as u64);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn ints(out: &mut Vec<u8>, values: &[i32]) {
    varint(out, values.len() as u64);
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
