//! The fatbin, the container of device code in a host program: a header, then entries. This module writes fatbins with one entry,
//! which is a cubin.

use base::diag::{Diagnostic, Result};
use object::{Object, ObjectSection};

/// The first word of a fatbin.
const MAGIC: u32 = 0xba55_ed50;
const HEADER_BYTES: u16 = 16;
const ENTRY_HEADER_BYTES: u32 = 0x40;
/// The kind of an entry that holds a cubin.
const KIND_ELF: u16 = 2;
/// The flags of an entry with 64-bit code for a Linux host.
const FLAGS_LINUX: u64 = 0x11;
/// The flags of an entry with 64-bit code for a Windows host.
const FLAGS_WINDOWS: u64 = 0x41;

/// Returns a fatbin with one cubin. `architecture` is the number of the cubin's target, such as 90 for sm_90. `windows`: the host
/// program is for Windows.
pub fn wrap(cubin: &[u8], architecture: u32, windows: bool) -> Vec<u8> {
    let padded_bytes = cubin.len().next_multiple_of(8);
    let mut out = Vec::with_capacity(usize::from(HEADER_BYTES) + ENTRY_HEADER_BYTES as usize + padded_bytes);
    out.extend(MAGIC.to_le_bytes());
    out.extend(1u16.to_le_bytes());
    out.extend(HEADER_BYTES.to_le_bytes());
    out.extend((u64::from(ENTRY_HEADER_BYTES) + padded_bytes as u64).to_le_bytes());
    let entry_start = out.len();
    out.extend(KIND_ELF.to_le_bytes());
    out.extend(0x0101u16.to_le_bytes());
    out.extend(ENTRY_HEADER_BYTES.to_le_bytes());
    out.extend((padded_bytes as u64).to_le_bytes());
    out.resize(entry_start + 0x14, 0);
    out.extend(ENTRY_HEADER_BYTES.to_le_bytes());
    out.extend([8u16, 1].iter().flat_map(|version| version.to_le_bytes()));
    out.extend(architecture.to_le_bytes());
    out.resize(entry_start + 0x28, 0);
    out.extend(if windows { FLAGS_WINDOWS } else { FLAGS_LINUX }.to_le_bytes());
    out.resize(entry_start + ENTRY_HEADER_BYTES as usize, 0);
    out.extend(cubin);
    out.resize(entry_start + ENTRY_HEADER_BYTES as usize + padded_bytes, 0);
    out
}

/// Returns the cubins in a fatbin, in file order. `name` is the file's name in messages.
pub fn cubins(bytes: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let damaged = |what: String| Diagnostic::invalid("CUB004", format!("cannot read the cubins in {name}: {what}"));
    crate::embedded::cubins_of_fatbins(bytes).map_err(damaged)
}

/// Checks that a file is a complete fatbin.
pub fn check(bytes: &[u8]) -> std::result::Result<(), &'static str> {
    let body_bytes = bytes.get(8..16).map(|body_bytes| u64::from_le_bytes(body_bytes.try_into().expect("eight bytes")));
    match body_bytes {
        Some(body_bytes) if bytes.starts_with(&MAGIC.to_le_bytes()) => {
            let is_complete = (bytes.len() as u64).checked_sub(u64::from(HEADER_BYTES)) == Some(body_bytes);
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

/// Offset of the fatbin's address in the wrapper, in bytes.
pub const WRAPPER_POINTER: u64 = 8;

/// Returns the 24-byte structure through which the CUDA runtime finds a fatbin: magic, version, address of the fatbin, zero. A
/// relocation fills the address.
pub fn wrapper() -> Vec<u8> {
    let words = [0x4662_43b1u32, 1, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
