//! The core dialect, shared by `.aa`, `.as` and `.sched`: tiles, memrefs and views ([`tile`]), memory orders and scopes
//! ([`memory`]), ops with one meaning in all formats ([`core_ops`]), persistent loops ([`persistent_loops`]), the nesting of
//! regions ([`region_nesting`]), independent parts of a function ([`components`]), and shared verifier rules ([`rules`]).

pub mod combining;
pub mod components;
pub mod core_ops;
pub mod memory;
pub mod persistent_loops;
pub mod region_nesting;
pub mod rules;
pub mod tile;
