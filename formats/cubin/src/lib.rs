//! The cubin: an ELF file for a GPU, as ptxas writes it.
//!
//! This crate reads from one what a person asks about ([`read()`], [`print()`]) and wraps one for linking into a host program
//! ([`fatbin`]). [`ptx()`] finds PTX in such a container. It does not write cubins; ptxas does.

mod embedded;
pub mod fatbin;
mod read;

pub use embedded::{Ptx, is_fatbin, ptx};
pub use read::{Cubin, Kernel, Parameter, check, host_object, print, read};
