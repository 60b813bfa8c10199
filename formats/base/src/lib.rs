//! What every file format of the pipeline shares.
//!
//! A format crate (`tileir`, `tileaa`, `tileas`, `sched`) defines a type enum and an op enum; this crate gives it the rest:
//! a container in SSA form ([`ir`]), locations ([`loc`]), scalar types and their arithmetic ([`scalar`], [`arith`]),
//! the rules that their verifiers share ([`rules`]), diagnostics ([`diag`]), the file envelope ([`envelope`]), the binary and RON forms ([`codec`]) and the readable text ([`text`]).

pub mod arith;
pub mod codec;
pub mod core_ops;
pub mod diag;
pub mod entity;
pub mod envelope;
pub mod float;
pub mod ir;
mod ir_places;
mod ir_verify;
pub mod laws;
pub mod loc;
mod loc_text;
pub mod memory;
pub mod ops;
pub mod rules;
pub mod scalar;
pub mod target;
pub mod text;
pub mod tile;

pub use diag::{Diagnostic, Severity};
pub use entity::Arena;
pub use envelope::{Envelope, File, Payload};
pub use ir::{Block, Body, Op, Region, Value};
pub use loc::{DebugInfo, Loc};
pub use scalar::{FloatFormat, Scalar, Special};
pub use target::Target;
