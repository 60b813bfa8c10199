//! The cubin: a GPU's ELF file, as ptxas writes it.
//!
//! This crate reads a cubin's properties ([`read()`], [`print()`]) and wraps a cubin for linking into a host program ([`fatbin`]).
//! [`ptx()`] finds PTX in such a container. Only ptxas writes cubins.

mod embedded;
pub mod fatbin;
mod read;

pub use embedded::{Ptx, is_fatbin, ptx};
pub use read::{Cubin, Kernel, Parameter, check, host_object, print, read};
