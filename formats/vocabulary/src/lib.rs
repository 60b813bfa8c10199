//! The words that `.aa`, `.as` and `.sched` have in common: tiles, memrefs and views ([`tile`]), orders and scopes of memory
//! accesses ([`memory`]), the ops that mean the same everywhere ([`core_ops`]), what loops are of a grid's ([`loops`]), and the rules that their
//! verifiers share ([`rules`]).

pub mod core_ops;
pub mod loops;
pub mod memory;
pub mod rules;
pub mod tile;
