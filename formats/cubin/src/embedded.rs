//! Finds PTX in a container of device code, next to or instead of machine code. Containers are fatbins, host objects and
//! executables with fatbins, and cubins that ptxas assembled with debug information.

use crate::fatbin::{ENTRY_HEADER_BYTES, HEADER_BYTES, KIND_ELF, KIND_PTX, MAGIC};
use base::diag::{Diagnostic, Result};
use object::read::elf::FileHeader;
use object::{Endianness, Object, ObjectSection, elf};
use std::io::Read as _;

/// The flag of an entry that is compressed as one LZ4 block.
const FLAG_LZ4: u64 = 0x2000;
/// The flag of an entry that is compressed with zstd.
const FLAG_ZSTD: u64 = 0x8000;
/// Maximum bytes of a decompressed entry. The limit protects the memory of the host from a damaged or malicious size.
const MAX_ENTRY_BYTES: u64 = 1 << 30;

/// A PTX module in a container. `architecture` is the number that the container states, such as 90 for sm_90. PTX in the debug
/// section of a cubin has the architecture `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    pub architecture: Option<u32>,
    pub text: String,
}

/// Returns whether a file starts as a fatbin does.
pub fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Returns the PTX modules in a container, in file order. The result is empty if the container has no PTX. `name` is the file's
/// name in messages.
pub fn ptx(bytes: &[u8], name: &str) -> Result<Vec<Ptx>> {
    let damaged = |what: String| Diagnostic::invalid("CUB004", format!("cannot read the PTX in {name}: {what}"));
    if is_fatbin(bytes) {
        return ptx_of_fatbins(bytes).map_err(damaged);
    }
    if let Some(text) = ptx_of_debug_section(bytes) {
        return Ok(vec![Ptx { architecture: None, text }]);
    }
    let Ok(file) = object::File::parse(bytes) else { return Ok(Vec::new()) };
    let mut modules = Vec::new();
    for section in file.sections() {
        // nvcc puts relocatable device code (`nvcc -dc`) into `__nv_relfatbin`.
        if matches!(section.name(), Ok(".nv_fatbin" | "__nv_relfatbin")) {
            modules.extend(ptx_of_fatbins(section.data().unwrap_or_default()).map_err(damaged)?);
        }
    }
    Ok(modules)
}

/// Returns the cubins in a fatbin, in file order. `name` is the file's name in messages.
pub fn cubins(bytes: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let damaged = |what: String| Diagnostic::invalid("CUB004", format!("cannot read the cubins in {name}: {what}"));
    cubins_of_fatbins(bytes).map_err(damaged)
}

/// Returns the PTX that `ptxas -g` stores in a debug section of a cubin, or `None` if the cubin has no such section. In the
/// section, a zero byte ends each line. The result has newlines instead.
fn ptx_of_debug_section(bytes: &[u8]) -> Option<String> {
    type Header = elf::FileHeader64<Endianness>;
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|endian| header.e_machine(*endian) == elf::EM_CUDA)?;
    let section_table = header.sections(endian, bytes).ok()?;
    let (_, section) = section_table.section_by_name(endian, b".nv_debug_ptx_txt")?;
    let text = object::read::elf::SectionHeader::data(section, endian, bytes).ok()?;
    let text = String::from_utf8_lossy(text).replace('\0', "\n");
    Some(text).filter(|text| text.contains(".version"))
}

/// Reads a little-endian integer of N bytes at `offset`. Returns `None` if the file ends before the last of the N bytes.
fn read_little_endian<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let mut padded = [0; 8];
    padded[..N].copy_from_slice(bytes.get(offset..offset.checked_add(N)?)?);
    Some(u64::from_le_bytes(padded))
}

/// Returns the PTX modules of consecutive fatbins. A linker concatenates the fatbins of its inputs.
fn ptx_of_fatbins(bytes: &[u8]) -> Result<Vec<Ptx>, String> {
    let mut modules = Vec::new();
    for_each_entry(bytes, KIND_PTX, |architecture, text| {
        let text = String::from_utf8(text).map_err(|_| "it is not text")?;
        modules.push(Ptx { architecture: Some(architecture), text: text.trim_end_matches('\0').into() });
        Ok(())
    })?;
    Ok(modules)
}

/// Returns the cubins in consecutive fatbins.
pub(crate) fn cubins_of_fatbins(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut cubins = Vec::new();
    for_each_entry(bytes, KIND_ELF, |_, cubin| {
        cubins.push(cubin);
        Ok(())
    })?;
    Ok(cubins)
}

/// Calls `visit` with the architecture and the decompressed payload of each entry of this kind, in all fatbins of `bytes`.
fn for_each_entry(mut bytes: &[u8], kind: u16, mut visit: impl FnMut(u32, Vec<u8>) -> Result<(), String>) -> Result<(), String> {
    let incomplete = || "its fatbin is incomplete".to_string();
    while let Some(word_index) = bytes.windows(4).step_by(4).position(|word| word == MAGIC.to_le_bytes()) {
        let fatbin_start = 4 * word_index;
        let header_bytes = read_little_endian::<2>(bytes, fatbin_start + 6).ok_or_else(incomplete)? as usize;
        let body_bytes = read_little_endian::<8>(bytes, fatbin_start + 8)
            .and_then(|body_bytes| usize::try_from(body_bytes).ok())
            .ok_or_else(incomplete)?;
        let body_start = fatbin_start + header_bytes.max(HEADER_BYTES.into());
        let body = body_start.checked_add(body_bytes).and_then(|end| bytes.get(body_start..end)).ok_or_else(incomplete)?;
        for_each_entry_of_fatbin(body, kind, &mut visit)?;
        bytes = &bytes[body_start + body_bytes..];
    }
    Ok(())
}

/// Calls `visit` for the entries of kind `requested` in one fatbin. `body` has the bytes after the fatbin's header.
fn for_each_entry_of_fatbin(
    mut body: &[u8],
    requested: u16,
    visit: &mut impl FnMut(u32, Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let incomplete = || "an entry of its fatbin is incomplete".to_string();
    while body.len() >= ENTRY_HEADER_BYTES as usize {
        let read_u32 = |offset| read_little_endian::<4>(body, offset).ok_or_else(incomplete);
        let (kind, header_bytes) = (read_little_endian::<2>(body, 0).ok_or_else(incomplete)? as u16, read_u32(4)? as usize);
        let payload_bytes = read_little_endian::<8>(body, 8)
            .and_then(|payload_bytes| usize::try_from(payload_bytes).ok())
            .ok_or_else(incomplete)?;
        let end = header_bytes
            .checked_add(payload_bytes)
            .filter(|end| header_bytes >= ENTRY_HEADER_BYTES as usize && *end <= body.len())
            .ok_or_else(incomplete)?;
        let (compressed_size, architecture) = (read_u32(0x10)? as usize, read_u32(0x1c)? as u32);
        let (flags, uncompressed_size) = (
            read_little_endian::<8>(body, 0x28).ok_or_else(incomplete)?,
            read_little_endian::<8>(body, 0x38).ok_or_else(incomplete)?,
        );
        if kind == requested {
            let payload = &body[header_bytes..end];
            let is_compressed = flags & (FLAG_LZ4 | FLAG_ZSTD) != 0;
            let payload = if is_compressed { payload.get(..compressed_size).ok_or_else(incomplete)? } else { payload };
            if is_compressed && uncompressed_size > MAX_ENTRY_BYTES {
                return Err(format!("its entry states {uncompressed_size} bytes"));
            }
            visit(
                architecture,
                match flags {
                    flags if flags & FLAG_ZSTD != 0 => decompress_zstd(payload, uncompressed_size)?,
                    flags if flags & FLAG_LZ4 != 0 => {
                        decompress_lz4(payload, uncompressed_size as usize).ok_or("its LZ4 block is damaged")?
                    }
                    _ => payload.to_vec(),
                },
            )?;
        }
        body = &body[end..];
    }
    Ok(())
}

fn decompress_zstd(payload: &[u8], uncompressed_size: u64) -> Result<Vec<u8>, String> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(payload).map_err(|error| format!("zstd: {error}"))?;
    let mut text = Vec::new();
    decoder.take(uncompressed_size).read_to_end(&mut text).map_err(|error| format!("zstd: {error}"))?;
    Ok(text)
}

/// Decompresses an LZ4 block. Returns `None` if the block is damaged. A block consists of sequences. A sequence has literal bytes
/// and a match. The match repeats earlier bytes of the output. The repeated bytes may include bytes that the same match wrote.
fn decompress_lz4(mut block: &[u8], uncompressed_size: usize) -> Option<Vec<u8>> {
    fn read_byte(block: &mut &[u8]) -> Option<usize> {
        let (&first, rest) = block.split_first()?;
        *block = rest;
        Some(first.into())
    }
    /// Returns the length that starts with this nibble of the token. After the nibble 15, the block has bytes that are added to the
    /// length. The last of these bytes is not 255.
    fn read_length(block: &mut &[u8], nibble: usize) -> Option<usize> {
        let mut total = nibble;
        if nibble == 15 {
            loop {
                let summand = read_byte(block)?;
                total += summand;
                if summand < 255 {
                    break;
                }
            }
        }
        Some(total)
    }
    let mut out: Vec<u8> = Vec::new();
    while !block.is_empty() {
        let token = read_byte(&mut block)?;
        let literal_count = read_length(&mut block, token >> 4)?;
        out.extend(block.get(..literal_count)?);
        block = &block[literal_count..];
        if block.is_empty() {
            break;
        }
        let match_distance = read_byte(&mut block)? | read_byte(&mut block)? << 8;
        let match_length = read_length(&mut block, token & 15)? + 4;
        let match_start = out.len().checked_sub(match_distance).filter(|_| match_distance > 0)?;
        if out.len() + match_length > uncompressed_size {
            return None;
        }
        (match_start..match_start + match_length).for_each(|offset| out.push(out[offset]));
    }
    (out.len() == uncompressed_size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::{Ptx, ptx};

    const TEXT: &str = include_str!("../tests/embedded/k.ptx");
    /// The sample PTX in a fatbin from NVIDIA's `fatbinary` 13: with `--compress=false`, with `--compress-mode=speed`, and without
    /// options.
    const FATBINS: [&[u8]; 3] = [
        include_bytes!("../tests/embedded/plain.fatbin"),
        include_bytes!("../tests/embedded/lz4.fatbin"),
        include_bytes!("../tests/embedded/zstd.fatbin"),
    ];

    fn sample_module() -> Ptx {
        Ptx { architecture: Some(80), text: TEXT.into() }
    }

    #[test]
    fn plain_and_compressed_fatbins_contain_the_same_ptx() {
        for fatbin in FATBINS {
            assert_eq!(ptx(fatbin, "k.fatbin").expect("it is complete"), [sample_module()]);
        }
        assert_eq!(
            ptx(&FATBINS.concat(), "k.fatbin").expect("they are complete"),
            [sample_module(), sample_module(), sample_module()]
        );
    }

    #[test]
    fn the_ptx_of_a_host_object_is_found() {
        use object::{Architecture, BinaryFormat, Endianness, SectionKind, write::Object};
        let mut host = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = host.add_section(Vec::new(), b".nv_fatbin".to_vec(), SectionKind::ReadOnlyData);
        host.append_section_data(section, FATBINS[2], 8);
        let bytes = host.write().expect("it can be written");
        assert_eq!(ptx(&bytes, "k.o").expect("it is complete"), [sample_module()]);
    }

    #[test]
    fn truncated_and_damaged_fatbins_cause_no_panic() {
        for fatbin in FATBINS {
            for length in 0..fatbin.len() {
                assert!(
                    ptx(&fatbin[..length], "cut").is_ok_and(|modules| modules.is_empty()) || ptx(&fatbin[..length], "cut").is_err()
                );
            }
            for offset in 0..fatbin.len() {
                let mut damaged = fatbin.to_vec();
                damaged[offset] ^= 0x5a;
                let _ = ptx(&damaged, "damaged");
            }
        }
    }
}
