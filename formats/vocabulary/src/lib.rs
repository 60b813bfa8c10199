//! The words that `.aa`, `.as` and `.sched` have in common: tiles, memrefs and views ([`tile`]), orders and scopes of memory
//! accesses ([`memory`]), the ops that mean the same everywhere ([`core_ops`]), what loops are of a grid's ([`loops`]), what stands
//! inside what ([`nesting`]), what has no tile in common ([`strands`]), and the rules that their verifiers share ([`rules`]).

pub mod combining;
pub mod core_ops;
pub mod loops;
pub mod memory;
pub mod nesting;
pub mod rules;
pub mod strands;
pub mod tile;
