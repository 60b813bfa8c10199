//! The words that `.aa`, `.as` and `.sched` have in common: tiles, memrefs and views ([`tile`]), orders and scopes of memory
//! accesses ([`memory`]), the ops that mean the same everywhere ([`core_ops`]), what loops are of a grid's ([`persistent_loops`]), what stands
//! inside what ([`region_nesting`]), what has no tile in common ([`components`]), and the rules that their verifiers share ([`rules`]).

pub mod combining;
pub mod components;
pub mod core_ops;
pub mod memory;
pub mod persistent_loops;
pub mod region_nesting;
pub mod rules;
pub mod tile;
