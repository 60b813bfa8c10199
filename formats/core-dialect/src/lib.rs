//! The core dialect, shared by `.aa`, `.as` and `.sched`.
//!
//! Types: tiles, memrefs and views ([`tile`]), memory orders and scopes ([`memory`]). Ops: the ops with one meaning in all formats
//! ([`core_ops`]). Control flow: persistent loops ([`persistent_loops`]), loops and conditions ([`structured_ops`]), nesting of
//! regions ([`region_nesting`]), values that control flow forwards ([`region_edges`]). Analyses: independent parts of a function
//! ([`components`]), the order in which a reduction combines elements ([`combining`]). Verifier rules: [`rules`].

pub mod combining;
pub mod components;
pub mod core_ops;
pub mod memory;
pub mod persistent_loops;
pub mod region_edges;
pub mod region_nesting;
pub mod rules;
pub mod structured_ops;
pub mod tile;
