//! The fatbin, the container of device code in a host program: a header, then entries. This module writes fatbins with one entry, a
//! cubin.

use base::diag::{Diagnostic, Result};
use object::{Object, ObjectSection};

const MAGIC: u32 = 0xba55_ed50;
const HEADER: u16 = 16;
const ENTRY_HEADER: u32 = 0x40;
const KIND_ELF: u16 = 2;
/// 64-bit, and the host system.
const FLAGS_LINUX: u64 = 0x11;
const FLAGS_WINDOWS: u64 = 0x41;

/// A fatbin with one cubin for the architecture of this number.
pub fn wrap(cubin: &[u8], architecture: u32, windows: bool) -> Vec<u8> {
    let padded = cubin.len().next_multiple_of(8);
    let mut out = Vec::with_capacity(usize::from(HEADER) + ENTRY_HEADER as usize + padded);
    out.extend(MAGIC.to_le_bytes());
    out.extend(1u16.to_le_bytes());
    out.extend(HEADER.to_le_bytes());
    out.extend((u64::from(ENTRY_HEADER) + padded as u64).to_le_bytes());
    let entry = out.len();
    out.extend(KIND_ELF.to_le_bytes());
    out.extend(0x0101u16.to_le_bytes());
    out.extend(ENTRY_HEADER.to_le_bytes());
    out.extend((padded as u64).to_le_bytes());
    out.resize(entry + 0x14, 0);
    out.extend(ENTRY_HEADER.to_le_bytes());
    out.extend([8u16, 1].iter().flat_map(|version| version.to_le_bytes()));
    out.extend(architecture.to_le_bytes());
    out.resize(entry + 0x28, 0);
    out.extend(if windows { FLAGS_WINDOWS } else { FLAGS_LINUX }.to_le_bytes());
    out.resize(entry + ENTRY_HEADER as usize, 0);
    out.extend(cubin);
    out.resize(entry + ENTRY_HEADER as usize + padded, 0);
    out
}

/// The cubins in a fatbin, in file order. `name` is for messages.
pub fn cubins(bytes: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let damaged = |what: String| Diagnostic::invalid("CUB004", format!("cannot read the cubins in {name}: {what}"));
    crate::embedded::cubins_of_fatbins(bytes).map_err(damaged)
}

/// Checks that a file is a complete fatbin.
pub fn check(bytes: &[u8]) -> std::result::Result<(), &'static str> {
    let length = bytes.get(8..16).map(|length| u64::from_le_bytes(length.try_into().expect("eight bytes")));
    match length {
        Some(length) if bytes.starts_with(&MAGIC.to_le_bytes()) => {
            let is_complete = (bytes.len() as u64).checked_sub(u64::from(HEADER)) == Some(length);
            is_complete.then_some(()).ok_or("its fatbin is incomplete")
        }
        _ => Err("its output is not a fatbin"),
    }
}

/// Checks that a file is a complete object file.
pub fn check_object(bytes: &[u8]) -> std::result::Result<(), String> {
    let incomplete = |error: object::Error| format!("its output is not a complete object file: {error}");
    let file = object::File::parse(bytes).map_err(incomplete)?;
    file.sections().try_for_each(|section| section.data().map(|_| ())).map_err(incomplete)
}

/// The offset of the fatbin's address in the wrapper.
pub const WRAPPER_POINTER: u64 = 8;

/// The 24-byte wrapper for the host runtime: magic, version, address of the fatbin, zero.
pub fn wrapper() -> Vec<u8> {
    let words = [0x4662_43b1u32, 1, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
