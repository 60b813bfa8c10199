//! What the hardware has to multiply and to move: the tables of atoms, and how layouts and buffers fit them.

mod fit;
pub mod group;
pub mod mma;
mod table;
