//! The types of tiles, pointers, strided memory and views in the middle formats (`.aa`, `.as`, `.sched`).

use crate::memory::Padding;
use base::Loc;
pub use base::ir::Dense;
use base::text::{TypeText, from_text, to_text};
use numerics::Scalar;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The extents of a tile, each a power of two; empty for a scalar.
pub type Shape = SmallVec<[u32; 4]>;

/// The address space of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    Global,
    /// Memory of one tile block, from `alloca`.
    Local,
    /// An unknown space: the space of pointers that are converted from integers or loaded from memory.
    Generic,
}

/// The element type of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elem {
    Scalar(Scalar),
    Ptr { pointee: Scalar, space: Space },
}

/// A strided object in memory: a base with an extent and a stride, in elements, for each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemRef {
    pub elem: Scalar,
    pub space: Space,
    /// The extent of each dimension in elements; `None` if the extent is an operand of the defining op.
    pub sizes: Vec<Option<u64>>,
    /// The stride of each dimension in elements; `None` if the stride is an operand of the defining op.
    pub strides: Vec<Option<u64>>,
    /// The parameter, global or allocation from which the base pointer was derived, numbered from 1 in its function; 0 if unknown.
    /// Different scopes may still alias, because a caller may pass the same memory twice. Only tokens order accesses.
    pub alias_scope: u32,
}

/// A division of a memref into tiles.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    pub memref: MemRef,
    /// The extents of a tile.
    pub tile: Shape,
    /// For each tile dimension, the memref dimension that it corresponds to.
    pub dim_map: Vec<u32>,
    pub kind: ViewKind,
    /// The value of loaded elements outside the memref; unspecified if `None`.
    pub padding: Option<Padding>,
}

/// How the index of a tile determines the origin of the tile in the memref.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewKind {
    /// Adjacent tiles: tile index `i` starts at `i * tile`.
    Partition,
    /// Tile index `i` starts at `i * step`.
    Strided { steps: Vec<u32> },
    /// Along `sparse_dim`, a one-dimensional tile has the index of each row. Along another dimension, the index is a scalar: the
    /// coordinate of the first element.
    Gather { sparse_dim: u32 },
}

/// Maximum alignment of memory in bytes. Reason: the `ptxas` of CUDA 13.5 crashes on the next power of two.
pub const MAX_ALIGNMENT: u64 = 1 << 30;

/// A global variable of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Global {
    pub name: String,
    pub elem: Scalar,
    /// The number of elements.
    pub count: u64,
    pub value: Dense,
    /// The alignment in bytes.
    pub align: u64,
    /// Whether no kernel writes the global.
    pub constant: bool,
    /// Whether only this module can refer to the global.
    pub private: bool,
    pub loc: Loc,
}

impl Elem {
    /// Width of an element in bits; a pointer has 64.
    pub fn bits(self) -> u32 {
        match self {
            Elem::Scalar(scalar) => scalar.bits(),
            Elem::Ptr { .. } => 64,
        }
    }
    /// Bytes of one element, rounded up.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    /// The scalar type; `None` for a pointer.
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Elem::Scalar(scalar) => Some(scalar),
            Elem::Ptr { .. } => None,
        }
    }
    /// The scalar type that has the bits of the element. For a pointer, this is the 64-bit integer type.
    pub fn carrier(self) -> Scalar {
        self.scalar().unwrap_or(Scalar::I64)
    }
}

impl ViewKind {
    /// The distance between the origins of neighbouring tiles along tile dimension `t`, in elements.
    pub fn step(&self, tile: &Shape, t: usize) -> u32 {
        match self {
            ViewKind::Strided { steps } => steps[t],
            ViewKind::Partition => tile[t],
            ViewKind::Gather { .. } => 1,
        }
    }
}

/// The number of elements of a tile.
pub fn element_count(shape: &[u32]) -> usize {
    shape.iter().map(|dim| *dim as usize).product()
}

/// Prints the number that has these bits; for a pointer, its address.
pub fn print_literal(elem: Elem, bits: u64) -> String {
    numerics::literal::print(elem.carrier(), bits)
}

/// Parses the text of [`print_literal`]. Returns the bits; `None` if the text is no number of this type.
pub fn parse_literal(elem: Elem, text: &str) -> Option<u64> {
    numerics::literal::parse(elem.carrier(), text)
}

impl TypeText for Elem {
    fn print(&self) -> String {
        match self {
            Elem::Scalar(scalar) => scalar.name().into(),
            Elem::Ptr { pointee, space: Space::Global } => format!("ptr<{pointee}>"),
            Elem::Ptr { pointee, space: Space::Local } => format!("ptr<{pointee}, local>"),
            Elem::Ptr { pointee, space: Space::Generic } => format!("ptr<{pointee}, generic>"),
        }
    }
    fn parse(text: &str) -> Option<Self> {
        let Some(inner) = text.strip_prefix("ptr<").and_then(|rest| rest.strip_suffix('>')) else {
            return Scalar::parse(text).map(Elem::Scalar);
        };
        let (pointee, space) = match inner.split_once(", ") {
            None => (inner, Space::Global),
            Some((pointee, "local")) => (pointee, Space::Local),
            Some((pointee, "generic")) => (pointee, Space::Generic),
            Some(_) => return None,
        };
        Some(Elem::Ptr { pointee: Scalar::parse(pointee)?, space })
    }
}

impl TypeText for MemRef {
    fn print(&self) -> String {
        let extents: String = self.sizes.iter().map(|size| format!("{}x", number_or_question_mark(*size))).collect();
        let strides: Vec<String> = self.strides.iter().map(|stride| number_or_question_mark(*stride)).collect();
        let space = if self.space == Space::Global { String::new() } else { format!(", {}", to_text(&self.space)) };
        let scope = if self.alias_scope == 0 { String::new() } else { format!(", scope: {}", self.alias_scope) };
        format!("memref<{extents}{}, strides: [{}]{space}{scope}>", self.elem, strides.join(", "))
    }
    fn parse(text: &str) -> Option<Self> {
        let mut type_parts = TypeParts::parse(text, "memref")?;
        let mut extents: Vec<&str> = type_parts.take_first()?.split('x').collect();
        let elem = Scalar::parse(extents.pop()?)?;
        let sizes = extents.into_iter().map(parse_number_or_question_mark).collect::<Option<_>>()?;
        let strides = parse_list(type_parts.take_field("strides")?, parse_number_or_question_mark)?;
        let alias_scope = type_parts.take_field("scope").map_or(Some(0), |scope| scope.parse().ok().filter(|scope| *scope != 0))?;
        let space = type_parts.take_first().map_or(Some(Space::Global), from_text)?;
        type_parts.is_empty().then_some(MemRef { elem, space, sizes, strides, alias_scope })
    }
}

impl TypeText for View {
    fn print(&self) -> String {
        let tile: Vec<String> = self.tile.iter().map(u32::to_string).collect();
        let is_identity = self.dim_map.iter().copied().eq(0..self.dim_map.len() as u32);
        let dims = if is_identity { String::new() } else { format!(", dims: {}", to_text(&self.dim_map)) };
        let kind = match &self.kind {
            ViewKind::Partition => String::new(),
            ViewKind::Strided { steps } => format!(", steps: {}", to_text(steps)),
            ViewKind::Gather { sparse_dim } => format!(", gather: {sparse_dim}"),
        };
        let padding = self.padding.map(|padding| format!(", padding: {}", to_text(&padding))).unwrap_or_default();
        format!("view<{}, {}{dims}{kind}{padding}>", tile.join("x"), self.memref.print())
    }
    fn parse(text: &str) -> Option<Self> {
        let mut type_parts = TypeParts::parse(text, "view")?;
        let tile = type_parts.take_first()?;
        let tile: Shape =
            tile.split('x').filter(|extent| !extent.is_empty()).map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
        let memref = MemRef::parse(type_parts.take_first()?)?;
        let identity = || Some((0..tile.len() as u32).collect());
        let dim_map = type_parts.take_field("dims").map_or_else(identity, from_text)?;
        let steps = type_parts.take_field("steps").map(from_text);
        let kind = match (steps, type_parts.take_field("gather")) {
            (None, None) => ViewKind::Partition,
            (Some(steps), None) => ViewKind::Strided { steps: steps? },
            (None, Some(dim)) => ViewKind::Gather { sparse_dim: dim.parse().ok()? },
            _ => return None,
        };
        let padding = type_parts.take_field("padding").map_or(Some(None), |padding| from_text(padding).map(Some))?;
        type_parts.is_empty().then_some(View { memref, tile, dim_map, kind, padding })
    }
}

/// An extent or stride of a memref type; `?` if it is an operand of the defining op.
fn number_or_question_mark(number: Option<u64>) -> String {
    number.map_or("?".into(), |number| number.to_string())
}

/// Parses the text of [`number_or_question_mark`].
fn parse_number_or_question_mark(text: &str) -> Option<Option<u64>> {
    if text == "?" { Some(None) } else { text.parse().ok().map(Some) }
}

/// Parses `[item, item]`.
fn parse_list<T>(text: &str, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(str::trim).filter(|part| !part.is_empty()).map(item).collect()
}

/// The comma-separated parts between the brackets of a type `name<…>` that the parser has not taken yet. Fields `name: value` may
/// be in any order after the other parts.
struct TypeParts<'a> {
    parts: std::collections::VecDeque<&'a str>,
}

impl<'a> TypeParts<'a> {
    /// Splits the text between the brackets at the commas that are outside all inner brackets. `None` if the text is not `name<…>`.
    fn parse(text: &'a str, name: &str) -> Option<TypeParts<'a>> {
        let inner = text.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>')?;
        let mut depth = 0i32;
        let parts = inner.split(|c| {
            match c {
                '<' | '[' | '(' => depth += 1,
                '>' | ']' | ')' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        });
        Some(TypeParts { parts: parts.map(str::trim).collect() })
    }
    fn take_first(&mut self) -> Option<&'a str> {
        self.parts.pop_front()
    }
    /// Removes and returns the field `name: value`.
    fn take_field(&mut self, name: &str) -> Option<&'a str> {
        let value = |part: &'a str| part.strip_prefix(name)?.strip_prefix(':').map(str::trim);
        let index = self.parts.iter().position(|part| value(part).is_some())?;
        value(self.parts.remove(index)?)
    }
    /// Returns whether all parts were taken.
    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// Returns the text of a shape before an element type, such as `8x16x`; empty for a scalar.
pub fn print_shape(shape: &[u32]) -> String {
    shape.iter().map(|dim| format!("{dim}x")).collect()
}

/// Splits `8x16xf32` into its extents and the text after them.
pub fn parse_shape(text: &str) -> (Shape, &str) {
    let mut shape = Shape::new();
    let mut rest = text;
    while let Some((dim, after)) = rest.split_once('x')
        && let Ok(dim) = dim.parse()
    {
        shape.push(dim);
        rest = after;
    }
    (shape, rest)
}
