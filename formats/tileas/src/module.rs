//! Modules and functions of `.as`, and the binding to the file envelope.

use crate::layout::{Layout, LayoutId};
use crate::ops::{Buffer, MapId};
use crate::{Op, Type};
use base::diag::Result;
use base::text::{Reader, print_function, read_function, to_text};
use base::{Arena, Envelope, Locations, Payload, Source};
pub use core_dialect::tile::Global;
use core_dialect::tile::Shape;
use serde::{Deserialize, Serialize};
use tensormap::Map;

/// A kernel of `.as`: its body and attributes.
pub type Function = base::text::Function<Op, Type, FunctionAttrs>;

/// The memory that contains a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Option<SpaceText>", into = "Option<SpaceText>")]
pub enum Space {
    /// Shared memory.
    #[default]
    Shared,
    /// Tensor memory (TMEM), see [`crate::tensor_memory`].
    Tensor,
}

/// The text form of a space. Shared memory is the default, which the text form omits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpaceText {
    Tensor,
}

impl From<Option<SpaceText>> for Space {
    fn from(text: Option<SpaceText>) -> Space {
        if text.is_some() { Space::Tensor } else { Space::Shared }
    }
}
impl From<Space> for Option<SpaceText> {
    fn from(space: Space) -> Option<SpaceText> {
        (space == Space::Tensor).then_some(SpaceText::Tensor)
    }
}

/// A buffer in shared or tensor memory. `tile-sched` assigns its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferInfo {
    pub elem: core_dialect::tile::Elem,
    pub shape: Shape,
    /// The basis of each bit of an offset in the buffer, lowest bit first: the element number that the bit contributes by XOR. The
    /// bases include the swizzle. An offset counts elements.
    #[serde(rename = "offsets")]
    pub offset_bases: Vec<u32>,
    /// Alignment in bytes; for tensor memory, in TMEM columns.
    pub align: u32,
    /// The memory that contains the buffer.
    pub space: Space,
}

/// The attributes of a kernel in `.as`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionAttrs {
    /// Whether the source program declares the kernel private.
    pub private: bool,
    /// Warps of the CTA: a power of two.
    pub warps: u32,
    /// The number of resident CTAs per SM that the author or the compiler requires.
    pub occupancy: Option<u32>,
    /// The number of CTAs of a cluster that compute each tile block together. `None` if each CTA computes its own tile block.
    #[serde(default)]
    pub cluster: Option<u32>,
    /// Whether the two CTAs of the cluster issue `tcgen05` MMAs as a CTA pair, each with half of the columns of the right operand.
    /// False in `.as` files: `tile-sched` decides.
    #[serde(default)]
    pub cta_pair: bool,
    /// The buffers of the kernel in shared and tensor memory.
    pub buffers: Arena<Buffer, BufferInfo>,
    /// Tensor maps over the function's parameters.
    pub maps: Arena<MapId, Map>,
}

impl BufferInfo {
    /// Bytes of one stage in shared memory; 0 for a buffer in tensor memory.
    pub fn bytes(&self) -> u32 {
        match self.space {
            Space::Shared => core_dialect::tile::element_count(&self.shape) as u32 * self.elem.bytes(),
            Space::Tensor => 0,
        }
    }
}

/// A module of `.as`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// The layouts that tile types name by index.
    pub layouts: Arena<LayoutId, Layout>,
    pub globals: Vec<Global>,
    pub functions: Vec<Function>,
}

impl Module {
    /// The id of a layout. Adds the layout to the table if it is missing.
    pub fn layout_id(&mut self, layout: Layout) -> LayoutId {
        let existing = self.layouts.iter().find(|(_, row)| **row == layout).map(|(id, _)| id);
        existing.unwrap_or_else(|| self.layouts.push(layout))
    }
    /// The layout of a tile type; `None` for other types.
    pub fn layout_of(&self, ty: &Type) -> Option<&Layout> {
        ty.layout().map(|id| &self.layouts[id])
    }
}

impl Payload for Module {
    const FORMAT: &'static str = "tileas";
    const VERSION: u32 = 7;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        crate::verify::check_module(self, envelope)
    }

    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        let layouts = print_layouts(&self.layouts);
        let globals = self.globals.iter().map(|global| format!("global {}\n", to_text(global)));
        let functions = self.functions.iter().map(|function| print_function(function, &envelope.debug, locations));
        layouts.into_iter().chain(globals).chain(functions).collect()
    }

    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        let mut reader = Reader::new(source);
        let mut module = Module::default();
        while !reader.at_end() {
            if reader.accept("layout") {
                parse_layout(&mut reader, &mut module.layouts)?;
            } else if reader.accept("global") {
                module.globals.push(reader.value()?);
            } else {
                let function: Function = read_function(&mut reader, &envelope.debug)?;
                module.functions.push(base::text::compact(&function));
            }
        }
        Ok(module)
    }
}

/// The text of the layout table, one row per line.
pub fn print_layouts(layouts: &Arena<LayoutId, Layout>) -> Vec<String> {
    layouts.iter().map(|(id, layout)| format!("layout {id} = {}\n", to_text(layout))).collect()
}

/// Parses a row of the layout table after the word `layout`, and adds it to the table.
pub fn parse_layout(reader: &mut Reader<'_>, layouts: &mut Arena<LayoutId, Layout>) -> Result<()> {
    let next_id = LayoutId(layouts.len() as u32);
    if !reader.accept(&next_id.to_string()) {
        return Err(reader.error(format!("the layouts are numbered in order, and the next is {next_id}")));
    }
    reader.expect("=")?;
    layouts.push(reader.value()?);
    Ok(())
}
