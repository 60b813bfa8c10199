//! The words that `.aa`, `.as` and `.sched` have in common: tiles, memrefs and views ([`tile`]), orders and scopes of memory
//! accesses ([`memory`]), the ops that mean the same everywhere ([`core_ops`]), and the rules their verifiers share ([`rules`]).

pub mod core_ops;
pub mod memory;
pub mod rules;
pub mod tile;
