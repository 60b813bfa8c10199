//! The cubin: an ELF file for a GPU, as ptxas writes it.
//!
//! This crate reads from one what a person asks about ([`read()`], [`print()`]) and wraps one for linking into a host program
//! ([`fatbin`]). It does not write cubins; ptxas does.

pub mod fatbin;
mod read;

pub use read::{Cubin, Kernel, Parameter, check, host_object, print, read};
