//! Cubins: ELF files with machine code for a GPU, as ptxas writes them.
//!
//! This crate reads a cubin's properties ([`read()`], [`print()`]), puts cubins into a [`fatbin`], and writes an object file with a
//! fatbin ([`write_link_object`]). [`ptx()`] finds PTX in a fatbin, host object or cubin. [`program`] embeds the program in a
//! cubin, so that a CPU can execute the cubin's kernels. All machine code comes from ptxas; this crate generates none.

mod embedded;
pub mod fatbin;
mod link_object;
pub mod program;
mod read;

pub use embedded::{Ptx, cubins, is_fatbin, ptx};
pub use link_object::{HostProcessor, write_link_object};
pub use read::{Cubin, Kernel, Parameter, check, host_object, print, read};
