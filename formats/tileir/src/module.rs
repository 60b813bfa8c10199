//! A Tile IR program in memory: functions and globals over interned types, strings and constant data.

use crate::enums::Visibility;
use crate::ops::Op;
use crate::preview::Extern;
use crate::types::{Attribute, ConstantId, Dictionary, Element, StringId, Type, TypeId};
use crate::version::Version;
use base::ir::{Region, Value};
use base::{Arena, Body, Loc};
use numerics::Scalar;
use serde::{Deserialize, Serialize};

/// A Tile IR program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// The bytecode version of the program.
    pub version: Version,
    /// Whether the header of the bytecode signals preview content.
    pub preview: bool,
    /// The name of the program that produced the bytecode, from the file.
    pub producer: Option<StringId>,
    pub strings: Arena<StringId, String>,
    pub types: Arena<TypeId, Type>,
    pub constants: Arena<ConstantId, Constant>,
    pub globals: Vec<Global>,
    pub functions: Vec<Function>,
    /// Functions that are declared only, or implemented outside the module; preview content.
    pub externs: Vec<Extern>,
}

/// The little-endian elements of a constant. If all elements are equal, the data may consist of one element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    pub data: Box<[u8]>,
}

/// A variable of the module in global memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Global {
    pub name: StringId,
    pub ty: TypeId,
    pub value: ConstantId,
    /// The requested alignment of the address in bytes; 0 requests only the natural alignment.
    pub alignment: u64,
    pub visibility: Visibility,
    /// Whether programs only read the global.
    pub constant: bool,
    pub loc: Loc,
}

/// An entry point. Its parameters are the arguments of its region's only block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    pub name: StringId,
    pub ty: TypeId,
    pub visibility: Visibility,
    /// Hints by architecture, unresolved until the target is known.
    pub hints: Option<Dictionary>,
    /// Attributes of each parameter; empty if no parameter has any.
    pub arg_attrs: Box<[Dictionary]>,
    pub body: Body<Op, TypeId>,
    pub region: Region,
    pub loc: Loc,
}

impl Module {
    pub fn string(&self, id: StringId) -> &str {
        &self.strings[id]
    }
    pub fn ty(&self, id: TypeId) -> &Type {
        &self.types[id]
    }
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| self.string(function.name) == name)
    }
    /// The global with the name `name`. The names are compared by text, because two string ids may have the same text.
    pub fn global(&self, name: StringId) -> Option<&Global> {
        self.globals.iter().find(|global| global.name == name || self.string(global.name) == self.string(name))
    }
    /// The element type and shape of a tile. Panics on another type; the verifier guarantees a tile type at each call.
    pub fn tile(&self, ty: TypeId) -> (Element, &[i64]) {
        self.types[ty].tile().expect("the verifier ensures that this is a tile")
    }
    /// The elements of a constant of type `ty`, as bits.
    pub fn elements(&self, id: ConstantId, ty: TypeId) -> impl ExactSizeIterator<Item = u64> + use<'_> {
        let (element, shape) = self.tile(ty);
        let scalar = element.scalar().expect("constants are not pointers");
        let count = shape.iter().product::<i64>() as usize;
        let constant = &self.constants[id];
        (0..count).map(move |index| constant.element(scalar, index, count))
    }
    /// The common value of all elements of a constant, as bits. `None` if the elements differ or are pointers.
    pub fn splat(&self, id: ConstantId, ty: TypeId) -> Option<u64> {
        let (element, shape) = self.tile(ty);
        let count = shape.iter().product::<i64>() as usize;
        let constant = &self.constants[id];
        let scalar = element.scalar()?;
        constant.is_splat(scalar, count).then(|| constant.element(scalar, 0, count))
    }
}

/// The number of bytes that an element occupies in constant data; a tf32 element occupies three.
pub fn stored_bytes(scalar: Scalar) -> usize {
    if scalar == Scalar::TF32 { 3 } else { scalar.bytes() as usize }
}

/// Checks that the size of `data` is valid for a constant of `elements` elements.
pub fn check_constant_size(data: &[u8], scalar: Scalar, elements: usize) -> Result<(), String> {
    let size = data.len();
    if scalar == Scalar::I1 {
        if size == 1 || size == elements.div_ceil(8) {
            return Ok(());
        }
        return Err(format!("i1 dense attribute payload size {size} is not a recognized encoding for {elements} elements"));
    }
    let element_bytes = stored_bytes(scalar);
    if size == element_bytes || size == element_bytes * elements {
        return Ok(());
    }
    Err("failed to validate buffer size and format".into())
}

impl Constant {
    /// Whether all elements are equal: the data repeats one element, or has only one.
    pub fn is_splat(&self, scalar: Scalar, count: usize) -> bool {
        if scalar == Scalar::I1 {
            let first = self.element(scalar, 0, count);
            return (1..count).all(|index| self.element(scalar, index, count) == first);
        }
        let size = stored_bytes(scalar);
        self.data.chunks_exact(size).all(|element| element == &self.data[..size])
    }

    /// The bits of element `index` of a constant with `count` elements. A stored tf32 element has 19 bits; they become the upper
    /// bits of a 32-bit value, as in [`Scalar`].
    pub fn element(&self, scalar: Scalar, index: usize, count: usize) -> u64 {
        if scalar == Scalar::I1 {
            return match count {
                0..=8 => u64::from(self.data[0] >> index & 1),
                _ if self.data.len() == 1 => u64::from(self.data[0] != 0),
                _ => u64::from(self.data[index / 8] >> (index % 8) & 1),
            };
        }
        let size = stored_bytes(scalar);
        let start = if self.data.len() == size { 0 } else { index * size };
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.data[start..start + size]);
        let bits = u64::from_le_bytes(bytes);
        if scalar == Scalar::TF32 { bits << 13 } else { bits & scalar.mask() }
    }
}

impl Function {
    /// The parameters.
    pub fn params(&self) -> &[Value] {
        &self.body.blocks[self.body.block_of(self.region)].args
    }
    /// The hint `key` for the architecture `arch`. There is no fallback to another architecture.
    pub fn hint<'a>(&'a self, module: &Module, arch: &str, key: &str) -> Option<&'a Attribute> {
        lookup_hint(module, self.hints.as_deref()?, arch, key)
    }
}

/// A hint in a dictionary that maps each architecture to a dictionary of hints.
pub fn lookup_hint<'a>(module: &Module, hints: &'a [(StringId, Attribute)], arch: &str, key: &str) -> Option<&'a Attribute> {
    let find = |entries: &'a [(StringId, Attribute)], name: &str| {
        entries.iter().find(|(id, _)| module.string(*id) == name).map(|(_, value)| value)
    };
    match find(hints, arch)? {
        Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => find(entries, key),
        _ => None,
    }
}
