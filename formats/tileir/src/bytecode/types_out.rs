//! The type section.

use super::types::{SCALARS, tag};
use super::writer::{lacks, table, varint};
use crate::enums::WireEnum;
use crate::module::Module;
use crate::text::types::{TypeText, type_text};
use crate::types::{Element, Pointer, PointerSpace, Type, TypeId};
use crate::version::Version;
use base::diag::Result;
use base::entity::Entity;
use std::collections::HashMap;
use vocabulary::memory::Padding;

pub(super) fn section(module: &Module, version: Version) -> Result<Vec<u8>> {
    let mut writer = TypeWriter { module, version, extra: Vec::new(), by_type: HashMap::new() };
    for (id, ty) in module.types.iter() {
        writer.by_type.insert(ty.clone(), id.index() as u64);
    }
    let mut records = Vec::new();
    for id in module.types.ids() {
        records.push(writer.record(id)?);
    }
    // Element types that no value has on its own come last.
    let mut next = 0;
    while next < writer.extra.len() {
        let ty = writer.extra[next].clone();
        let mut record = Vec::new();
        match ty {
            Type::Scalar(scalar) => writer.scalar(&mut record, scalar)?,
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
            Type::Scalar(scalar) => self.scalar(&mut out, *scalar)?,
            Type::Ptr(pointer) => self.pointer(&mut out, *pointer)?,
            Type::Tile { element, shape } => {
                varint(&mut out, tag::TILE.into());
                let element = match element {
                    Element::Scalar(scalar) => self.index(Type::Scalar(*scalar)),
                    Element::Ptr(pointer) => self.index(Type::Ptr(*pointer)),
                };
                varint(&mut out, element);
                longs(&mut out, shape);
            }
            Type::TensorView { element, shape, strides, space } => {
                varint(&mut out, tag::TENSOR_VIEW.into());
                self.space_flag(&mut out, *space)?;
                let element = self.index(Type::Scalar(*element));
                varint(&mut out, element);
                longs(&mut out, shape);
                longs(&mut out, strides);
                space_value(&mut out, *space);
            }
            Type::PartitionView { tile, tensor, dim_map, padding } => {
                varint(&mut out, tag::PARTITION_VIEW.into());
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                varint(&mut out, tensor.index() as u64);
                ints(&mut out, dim_map);
                if self.version < Version::V13_3 {
                    out.push(u8::from(padding.is_some()));
                }
                padding_value(&mut out, *padding);
            }
            Type::StridedView { tile, traversal, tensor, dim_map, padding } => {
                self.require(Version::V13_3, id)?;
                varint(&mut out, tag::STRIDED_VIEW.into());
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                ints(&mut out, traversal);
                varint(&mut out, tensor.index() as u64);
                ints(&mut out, dim_map);
                padding_value(&mut out, *padding);
            }
            Type::GatherScatterView { tile, tensor, sparse_dim, padding } => {
                self.require(Version::V13_3, id)?;
                varint(&mut out, tag::GATHER_SCATTER_VIEW.into());
                self.padding_flag(&mut out, *padding);
                ints(&mut out, tile);
                varint(&mut out, tensor.index() as u64);
                varint(&mut out, (*sparse_dim).into());
                padding_value(&mut out, *padding);
            }
            Type::Function { inputs, results } => {
                varint(&mut out, tag::FUNCTION.into());
                for list in [inputs, results] {
                    varint(&mut out, list.len() as u64);
                    list.iter().for_each(|ty| varint(&mut out, ty.index() as u64));
                }
            }
            Type::Token => varint(&mut out, tag::TOKEN.into()),
        }
        Ok(out)
    }

    fn require(&self, since: Version, id: TypeId) -> Result<()> {
        if self.version < since {
            let name = type_text(&self.module.types, id, TypeText::Short);
            return Err(lacks(format!("type {name}"), since, self.version));
        }
        Ok(())
    }

    fn scalar(&self, out: &mut Vec<u8>, scalar: numerics::Scalar) -> Result<()> {
        let (number, _, _, since) = SCALARS.iter().find(|row| row.1 == scalar).expect("every scalar has a tag");
        if self.version < *since {
            return Err(lacks(format!("type {scalar}"), *since, self.version));
        }
        varint(out, u64::from(*number));
        Ok(())
    }

    fn pointer(&mut self, out: &mut Vec<u8>, pointer: Pointer) -> Result<()> {
        varint(out, tag::POINTER.into());
        self.space_flag(out, pointer.space)?;
        let pointee = self.index(Type::Scalar(pointer.pointee));
        varint(out, pointee);
        space_value(out, pointer.space);
        Ok(())
    }

    /// The index of an element type, which is added when no value has it.
    fn index(&mut self, ty: Type) -> u64 {
        let next = (self.module.types.len() + self.extra.len()) as u64;
        *self.by_type.entry(ty.clone()).or_insert_with(|| {
            self.extra.push(ty);
            next
        })
    }

    fn space_flag(&self, out: &mut Vec<u8>, space: PointerSpace) -> Result<()> {
        let flag = u64::from(space == PointerSpace::None);
        if self.version >= Version::V13_4 {
            varint(out, flag);
        } else if flag != 0 {
            return Err(lacks("a pointer attribute", Version::V13_4, self.version));
        }
        Ok(())
    }

    fn padding_flag(&self, out: &mut Vec<u8>, padding: Option<Padding>) {
        if self.version >= Version::V13_3 {
            varint(out, u64::from(padding.is_some()));
        }
    }
}

fn space_value(out: &mut Vec<u8>, space: PointerSpace) {
    if space == PointerSpace::None {
        varint(out, 0);
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
