//! Writes and checks fatbins. A fatbin is the container of device code in a host program: a header, then an entry for each cubin or
//! PTX module. The layout was observed in the output of NVIDIA's `fatbinary` 13.5.

use base::diag::{Diagnostic, Result};
use object::{Object, ObjectSection};

/// The first four bytes of a fatbin, as a little-endian number.
pub(crate) const MAGIC: u32 = 0xba55_ed50;
/// Size of the header of a fatbin.
pub(crate) const HEADER_BYTES: u16 = 16;
/// Size of the header of an entry, without the PTX options.
pub(crate) const ENTRY_HEADER_BYTES: u32 = 0x40;
/// The kinds of entries: PTX text, and a cubin (an ELF file).
pub(crate) const KIND_PTX: u16 = 1;
pub(crate) const KIND_ELF: u16 = 2;
/// Size of the PTX options, which follow the header of an entry with PTX. The options are an offset (8 bytes) and an empty text
/// (8 bytes).
const PTX_OPTIONS_BYTES: u32 = 16;
/// The flags of an entry with 64-bit code for a Linux host.
const FLAGS_LINUX: u64 = 0x11;
/// The flags of an entry with 64-bit code for a Windows host.
const FLAGS_WINDOWS: u64 = 0x41;
/// The flag of an entry that is compressed with zstd.
const FLAG_ZSTD: u64 = 0x8000;
/// Flags of code with architecture-specific (`sm_90a`) and family-specific (`sm_100f`) features.
const FLAG_ARCHITECTURE_SPECIFIC: u64 = 0x10_0000;
const FLAG_FAMILY_SPECIFIC: u64 = 0x20_0000;

/// The device code of an entry.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    Cubin(&'a [u8]),
    Ptx(&'a str),
}

/// An entry: code, and the code's target as in the PTX directive `.target`, such as `sm_90a`.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub target: &'a str,
    pub code: Code<'a>,
}

/// The compression of entries. An entry that does not become smaller stays uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Zstd,
}

/// The system of the host program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostSystem {
    Linux,
    Windows,
}

/// Returns a fatbin with these entries.
pub fn write(entries: &[Entry], compression: Compression, system: HostSystem) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    for entry in entries {
        write_entry(&mut body, entry, compression, system)?;
    }
    let mut out = Vec::with_capacity(usize::from(HEADER_BYTES) + body.len());
    out.extend(MAGIC.to_le_bytes());
    out.extend(1u16.to_le_bytes());
    out.extend(HEADER_BYTES.to_le_bytes());
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(body);
    Ok(out)
}

/// Appends the header and the code of an entry to `out`.
fn write_entry(out: &mut Vec<u8>, entry: &Entry, compression: Compression, system: HostSystem) -> Result<()> {
    let (architecture, suffix_flag) = parse_target(entry.target)?;
    let (kind, version, code) = match entry.code {
        Code::Cubin(cubin) => (KIND_ELF, [8, 1], cubin.to_vec()),
        // The PTX text of an entry ends with a zero byte.
        Code::Ptx(text) => (KIND_PTX, ptx_version(text)?, [text.as_bytes(), &[0]].concat()),
    };
    let packed = match compression {
        Compression::Zstd => Some(ruzstd::encoding::compress_to_vec(&*code, ruzstd::encoding::CompressionLevel::Fastest)),
        Compression::None => None,
    };
    let packed = packed.filter(|packed| packed.len() < code.len());
    let (payload, packed_bytes, unpacked_bytes) = match &packed {
        Some(packed) => (packed, packed.len() as u32, code.len() as u64),
        None => (&code, 0, 0),
    };
    let options_bytes = if kind == KIND_PTX { PTX_OPTIONS_BYTES } else { 0 };
    let padded_bytes = payload.len().next_multiple_of(8);
    let system_flags = if system == HostSystem::Windows { FLAGS_WINDOWS } else { FLAGS_LINUX };
    let flags = system_flags | suffix_flag | if packed.is_some() { FLAG_ZSTD } else { 0 };
    out.extend([kind, 0x0101].iter().flat_map(|half| half.to_le_bytes()));
    out.extend((ENTRY_HEADER_BYTES + options_bytes).to_le_bytes());
    out.extend((padded_bytes as u64).to_le_bytes());
    out.extend(packed_bytes.to_le_bytes());
    out.extend(if options_bytes > 0 { ENTRY_HEADER_BYTES } else { 0 }.to_le_bytes());
    out.extend(version.iter().flat_map(|half| half.to_le_bytes()));
    out.extend([architecture, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    out.extend([flags, 0, unpacked_bytes].iter().flat_map(|word| word.to_le_bytes()));
    if options_bytes > 0 {
        // The offset of the options in the entry, and the empty options.
        out.extend(u64::from(ENTRY_HEADER_BYTES + 8).to_le_bytes());
        out.extend(0u64.to_le_bytes());
    }
    out.extend(payload);
    out.resize(out.len() + padded_bytes - payload.len(), 0);
    Ok(())
}

/// Returns the number in a target name, such as 90 for `sm_90a`, and the entry flag of the suffix (0 without a suffix).
fn parse_target(target: &str) -> Result<(u32, u64)> {
    let refuse = || Diagnostic::invalid("LNK021", format!("'{target}' is not a target that a fatbin can name"));
    let number_start = target.find(|c: char| c.is_ascii_digit()).ok_or_else(refuse)?;
    let name = &target[number_start..];
    let (digits, flag) = match name.strip_suffix(['a', 'f']) {
        Some(digits) if name.ends_with('a') => (digits, FLAG_ARCHITECTURE_SPECIFIC),
        Some(digits) => (digits, FLAG_FAMILY_SPECIFIC),
        None => (name, 0),
    };
    Ok((digits.parse().map_err(|_| refuse())?, flag))
}

/// Returns the minor and the major number of the PTX version, in the order of the entry header.
fn ptx_version(text: &str) -> Result<[u16; 2]> {
    let version = text.lines().find_map(|line| line.trim_start().strip_prefix(".version")).and_then(|version| {
        let (major, minor) = version.trim().split_once('.')?;
        Some([minor.parse().ok()?, major.parse().ok()?])
    });
    version.ok_or_else(|| Diagnostic::invalid("LNK003", "the PTX for a fatbin has no .version line"))
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

/// Offset of the fatbin's address in the result of [`wrapper`], in bytes.
pub const WRAPPER_FATBIN_OFFSET: u64 = 8;

/// Returns the 24-byte structure through which the CUDA runtime finds a fatbin: magic, version, address of the fatbin, zero. In the
/// result, the address is zero; a relocation sets the address.
pub fn wrapper() -> Vec<u8> {
    let words = [0x4662_43b1u32, 1, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/embedded/k.ptx");

    fn entries<'a>() -> [Entry<'a>; 2] {
        [
            Entry {
                target: "sm_90a",
                code: Code::Cubin(b"a cubin, in which several words are the same: words, words, words, words."),
            },
            Entry { target: "sm_80", code: Code::Ptx(TEXT) },
        ]
    }

    /// `fatbinary --image3=kind=ptx,sm=80,file=k.ptx --compress=false` wrote the recorded file.
    #[test]
    fn an_uncompressed_entry_has_the_bytes_of_fatbinary() {
        let written = write(&entries()[1..], Compression::None, HostSystem::Linux).expect("the target has a number");
        assert_eq!(written, include_bytes!("../tests/embedded/plain.fatbin"));
    }

    #[test]
    fn compressed_entries_read_back() {
        for compression in [Compression::None, Compression::Zstd] {
            let fatbin = write(&entries(), compression, HostSystem::Linux).expect("the targets have numbers");
            assert_eq!(check(&fatbin), Ok(()));
            let modules = crate::ptx(&fatbin, "k.fatbin").expect("it is complete");
            assert_eq!(modules, [crate::Ptx { architecture: Some(80), text: TEXT.into() }]);
            let Code::Cubin(cubin) = entries()[0].code else { unreachable!("the first entry is a cubin") };
            let cubins = crate::embedded::cubins(&fatbin, "k.fatbin").expect("it is complete");
            assert!(cubins.len() == 1 && cubins[0].starts_with(cubin));
            assert_eq!(write(&entries(), compression, HostSystem::Linux).expect("as before"), fatbin);
        }
    }

    #[test]
    fn suffixes_of_targets_are_flags() {
        let flag = |target| parse_target(target).map_err(|error| error.code);
        assert_eq!(flag("sm_80"), Ok((80, 0)));
        assert_eq!(flag("sm_90a"), Ok((90, 0x10_0000)));
        assert_eq!(flag("sm_100f"), Ok((100, 0x20_0000)));
        for wrong in ["", "sm_", "sm_a", "sm_90aa"] {
            assert_eq!(flag(wrong), Err("LNK021".to_string()), "{wrong}");
        }
    }
}
