//! The IR framework under all file formats of the pipeline, independent of their ops.
//!
//! A format crate (`tileir`, `tileaa`, `tileas`, `sched`) defines a type enum and an op enum. This crate has the rest:
//! - for the program, the SSA container ([`ir`]) and locations ([`loc`]);
//! - for the file, the envelope ([`envelope`]), the binary and RON forms ([`codec`]) and the text form ([`text`]);
//! - for messages, diagnostics ([`diag`]).

pub mod code;
pub mod codec;
pub mod diag;
pub mod entity;
pub mod envelope;
pub mod ir;
mod ir_verify;
pub mod loc;
mod loc_text;
pub mod nearest;
mod op_blocks;
pub mod ops;
mod program_text;
pub mod text;
pub mod union_find;

pub use diag::{Diagnostic, Severity};
pub use entity::Arena;
pub use envelope::{Envelope, File, Locations, Payload};
pub use ir::{Block, Body, Op, Region, Value};
pub use loc::{DebugInfo, Loc};
pub use program_text::Source;
pub use target_info::Target;
pub use union_find::UnionFind;
