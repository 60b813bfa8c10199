//! A second container (magic `06 03 80 'Tile' 00`), which two early descriptions of the format document. No known producer writes
//! this container. It contains programs of version 13.1, and its encoding differs from the current container, [`crate::bytecode`].
//!
//! This module implements the common part of both descriptions:
//!
//! - The file begins with the magic and the version (three varints). A list of dialects with op counts, and an array of section
//!   descriptors of 24 bytes each, follow.
//! - The kinds of sections are 0 to 6. The length of a section covers its alignment byte, its padding (`CF`) and its payload.
//! - The number of trailing one bits in the first byte of a varint is the number of its further bytes.
//! - Types, attributes and debug records have tags. Every op has a location.
//!
//! Where the descriptions are incomplete or differ, this module decides:
//!
//! - All varints have trailing-ones lengths, even where an example in a description has LEB128 bytes. Overlong varints are errors.
//!   The patch number of the version is always present. Nine-byte varints begin with `FF`, not with `00` as in a table of the
//!   descriptions, because `00` is the number zero.
//! - A descriptor is: kind, three zero bytes, alignment (u32), offset and length of the payload (u64 each). The reader finds
//!   sections by their own headers; descriptors must agree with them.
//! - Type records: the tag as a byte, dimensions as zig-zag varints. The mode byte of a partition view is 0 without
//!   padding, and 1 plus the number of the padding otherwise. The field "element" of its description holds the tensor view. Types
//!   refer to earlier types only.
//! - An op has the parts: opcode, location (zig-zag; -1 is unknown), result types (with a count if the op table has one), operand
//!   count, length of each optional or variadic operand, operands, attributes, regions. Attributes are in the op; there is no
//!   dictionary. This order agrees with the bytes that the descriptions show for `addi`, whose last byte is the overflow attribute.
//! - Attribute tags 1 to 4, 6, 9, 10 and 13 are those of the descriptions. Tag 13 wraps a predicate. Tag 10 is the only form of
//!   bounds. The descriptions have no tags for integers and dictionaries. These attributes have the tags 7 (integer: type, bits)
//!   and 8 (dictionary), which the descriptions give to integer arrays. Arrays, and strings as elements (5), have no encoding, so
//!   this module rejects them.
//! - A global is name, type, constant, alignment; a function name, type, flags, location, hints, length, body, as in the other
//!   container. Constants are a table of u64 offsets to raw data. The debug section is a table of records, numbered from 0.
//!   A record refers to earlier records only.

mod read;
mod write;

pub use read::read;
pub use write::write;

/// The first bytes of every framed container.
pub const MAGIC: [u8; 8] = *b"\x06\x03\x80Tile\0";
/// The byte that fills the space before an aligned payload.
const PADDING: u8 = 0xCF;
/// The only dialect in the list of dialects.
const DIALECT: &str = "cuda_tile";
/// The number of ops of the dialect in version 13.1.
const DIALECT_OPS: u64 = 110;

/// The numbers of the section kinds.
mod section {
    pub(super) const END: u8 = 0;
    pub(super) const STRING: u8 = 1;
    pub(super) const FUNCTION: u8 = 2;
    pub(super) const DEBUG: u8 = 3;
    pub(super) const CONSTANT: u8 = 4;
    pub(super) const TYPE: u8 = 5;
    pub(super) const GLOBAL: u8 = 6;
    pub(super) const ALL: [u8; 6] = [STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL];
}

/// The tags of attributes.
mod tag {
    pub(super) const STRING: u8 = 1;
    pub(super) const FLOAT: u8 = 2;
    pub(super) const TYPE: u8 = 3;
    pub(super) const DENSE: u8 = 4;
    pub(super) const DIV_BY: u8 = 6;
    pub(super) const INTEGER: u8 = 7;
    pub(super) const DICTIONARY: u8 = 8;
    pub(super) const SAME_ELEMENTS: u8 = 9;
    pub(super) const BOUNDED: u8 = 10;
    pub(super) const PREDICATE: u8 = 13;
}

use numerics::Scalar::{self, *};

/// The type tags of scalars: 0 to 11 and 18.
const SCALAR_TAGS: [(u8, Scalar); 13] = [
    (0, I1),
    (1, I8),
    (2, I16),
    (3, I32),
    (4, I64),
    (5, F16),
    (6, BF16),
    (7, F32),
    (8, TF32),
    (9, F64),
    (10, F8E4M3FN),
    (11, F8E5M2),
    (18, F8E8M0FNU),
];
