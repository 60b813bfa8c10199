//! Tile IR: the `.tile` format, and its conversion from and to NVIDIA's bytecode and text.

pub mod bytecode;
pub mod check_type;
pub mod constraint;
pub mod enums;
pub mod fields;
pub mod framed;
pub mod gates;
pub mod import;
pub mod module;
pub mod ops;
mod payload;
pub mod preview;
pub mod reader_limits;
pub mod structured_ops;
pub mod text;
pub mod types;
pub mod verify;
pub mod version;

pub use module::{Function, Global, Module};
pub use ops::{Op, Opcode};
pub use types::{Attribute, ConstantId, Element, StringId, Type, TypeId};
pub use version::Version;
