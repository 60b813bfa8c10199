//! Finds PTX in a container of device code, next to or instead of machine code. Containers are fatbins, host objects and
//! executables with fatbins, and cubins that ptxas assembled with debug information.

use base::diag::{Diagnostic, Result};
use object::read::elf::FileHeader;
use object::{Endianness, Object, ObjectSection, elf};
use std::io::Read as _;

const MAGIC: u32 = 0xba55_ed50;
const HEADER: usize = 16;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// Maximum bytes of a decompressed entry.
const MAX_ENTRY_BYTES: u64 = 1 << 30;

/// PTX in a container, and its architecture in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    pub architecture: Option<u32>,
    pub text: String,
}

/// Whether a file is a fatbin.
pub fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// The PTX modules in a container, in file order; empty if it has none.
pub fn ptx(bytes: &[u8], name: &str) -> Result<Vec<Ptx>> {
    let damaged = |what: String| Diagnostic::invalid("CUB004", format!("cannot read the PTX in {name}: {what}"));
    if is_fatbin(bytes) {
        return ptx_of_fatbins(bytes).map_err(damaged);
    }
    if let Some(text) = ptx_of_debug_section(bytes) {
        return Ok(vec![Ptx { architecture: None, text }]);
    }
    let Ok(file) = object::File::parse(bytes) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for section in file.sections() {
        // Relocatable device code (`-dc`) has a section of its own.
        if matches!(section.name(), Ok(".nv_fatbin" | "__nv_relfatbin")) {
            all.extend(ptx_of_fatbins(section.data().unwrap_or_default()).map_err(damaged)?);
        }
    }
    Ok(all)
}

/// The PTX that `ptxas -g` stores in a cubin, with a zero at the end of each line.
fn ptx_of_debug_section(bytes: &[u8]) -> Option<String> {
    type Header = elf::FileHeader64<Endianness>;
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|endian| header.e_machine(*endian) == elf::EM_CUDA)?;
    let table = header.sections(endian, bytes).ok()?;
    let (_, section) = table.section_by_name(endian, b".nv_debug_ptx_txt")?;
    let text = object::read::elf::SectionHeader::data(section, endian, bytes).ok()?;
    let text = String::from_utf8_lossy(text).replace('\0', "\n");
    Some(text).filter(|text| text.contains(".version"))
}

fn read_number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(all))
}

/// The PTX of consecutive fatbins, as a linker concatenates them.
fn ptx_of_fatbins(bytes: &[u8]) -> Result<Vec<Ptx>, String> {
    let mut found = Vec::new();
    each_entry(bytes, KIND_PTX, |architecture, text| {
        let text = String::from_utf8(text).map_err(|_| "it is not text")?;
        found.push(Ptx { architecture: Some(architecture), text: text.trim_end_matches('\0').into() });
        Ok(())
    })?;
    Ok(found)
}

/// The cubins of consecutive fatbins.
pub(crate) fn cubins_of_fatbins(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut found = Vec::new();
    each_entry(bytes, KIND_ELF, |_, cubin| {
        found.push(cubin);
        Ok(())
    })?;
    Ok(found)
}

/// Calls `take` with the architecture and the payload of each entry of a kind.
fn each_entry(mut bytes: &[u8], kind: u16, mut take: impl FnMut(u32, Vec<u8>) -> Result<(), String>) -> Result<(), String> {
    let incomplete = || "its fatbin is incomplete".to_string();
    while let Some(at) = bytes.windows(4).step_by(4).position(|word| word == MAGIC.to_le_bytes()) {
        let start = 4 * at;
        let header = read_number::<2>(bytes, start + 6).ok_or_else(incomplete)? as usize;
        let length = read_number::<8>(bytes, start + 8).and_then(|length| usize::try_from(length).ok()).ok_or_else(incomplete)?;
        let first = start + header.max(HEADER);
        let body = first.checked_add(length).and_then(|end| bytes.get(first..end)).ok_or_else(incomplete)?;
        each_payload(body, kind, &mut take)?;
        bytes = &bytes[first + length..];
    }
    Ok(())
}

/// Calls `take` for the entries of one fatbin.
fn each_payload(mut body: &[u8], requested: u16, take: &mut impl FnMut(u32, Vec<u8>) -> Result<(), String>) -> Result<(), String> {
    let incomplete = || "an entry of its fatbin is incomplete".to_string();
    while body.len() >= 0x40 {
        let field = |at| read_number::<4>(body, at).ok_or_else(incomplete);
        let (kind, header) = (read_number::<2>(body, 0).ok_or_else(incomplete)? as u16, field(4)? as usize);
        let size = read_number::<8>(body, 8).and_then(|size| usize::try_from(size).ok()).ok_or_else(incomplete)?;
        let end = header.checked_add(size).filter(|end| header >= 0x40 && *end <= body.len()).ok_or_else(incomplete)?;
        let (compressed_size, architecture) = (field(0x10)? as usize, field(0x1c)? as u32);
        let (flags, uncompressed_size) =
            (read_number::<8>(body, 0x28).ok_or_else(incomplete)?, read_number::<8>(body, 0x38).ok_or_else(incomplete)?);
        if kind == requested {
            let payload = &body[header..end];
            let is_compressed = flags & (FLAG_LZ4 | FLAG_ZSTD) != 0;
            let payload = if is_compressed { payload.get(..compressed_size).ok_or_else(incomplete)? } else { payload };
            if is_compressed && uncompressed_size > MAX_ENTRY_BYTES {
                return Err(format!("its entry states {uncompressed_size} bytes"));
            }
            take(
                architecture,
                match flags {
                    flags if flags & FLAG_ZSTD != 0 => zstd(payload, uncompressed_size)?,
                    flags if flags & FLAG_LZ4 != 0 => lz4(payload, uncompressed_size as usize).ok_or("its LZ4 block is damaged")?,
                    _ => payload.to_vec(),
                },
            )?;
        }
        body = &body[end..];
    }
    Ok(())
}

fn zstd(payload: &[u8], uncompressed_size: u64) -> Result<Vec<u8>, String> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(payload).map_err(|error| format!("zstd: {error}"))?;
    let mut text = Vec::new();
    decoder.take(uncompressed_size).read_to_end(&mut text).map_err(|error| format!("zstd: {error}"))?;
    Ok(text)
}

/// Decodes an LZ4 block: each sequence has literals, and then a match, which copies earlier output and may overlap its own output.
fn lz4(mut block: &[u8], uncompressed_size: usize) -> Option<Vec<u8>> {
    fn byte(block: &mut &[u8]) -> Option<usize> {
        let (&first, rest) = block.split_first()?;
        *block = rest;
        Some(first.into())
    }
    fn length(block: &mut &[u8], nibble: usize) -> Option<usize> {
        let mut all = nibble;
        if nibble == 15 {
            loop {
                let more = byte(block)?;
                all += more;
                if more < 255 {
                    break;
                }
            }
        }
        Some(all)
    }
    let mut out: Vec<u8> = Vec::new();
    while !block.is_empty() {
        let token = byte(&mut block)?;
        let literals = length(&mut block, token >> 4)?;
        out.extend(block.get(..literals)?);
        block = &block[literals..];
        if block.is_empty() {
            break;
        }
        let offset = byte(&mut block)? | byte(&mut block)? << 8;
        let count = length(&mut block, token & 15)? + 4;
        let from = out.len().checked_sub(offset).filter(|_| offset > 0)?;
        if out.len() + count > uncompressed_size {
            return None;
        }
        (from..from + count).for_each(|at| out.push(out[at]));
    }
    (out.len() == uncompressed_size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::{Ptx, ptx};

    const TEXT: &str = include_str!("../tests/embedded/k.ptx");
    /// The output of NVIDIA's `fatbinary` 13 with `--compress=false`, with `--compress-mode=speed` and without options.
    const FATBINS: [&[u8]; 3] = [
        include_bytes!("../tests/embedded/plain.fatbin"),
        include_bytes!("../tests/embedded/lz4.fatbin"),
        include_bytes!("../tests/embedded/zstd.fatbin"),
    ];

    fn expected() -> Ptx {
        Ptx { architecture: Some(80), text: TEXT.into() }
    }

    #[test]
    fn ptx_of_fatbins_plain_and_compressed() {
        for fatbin in FATBINS {
            assert_eq!(ptx(fatbin, "k.fatbin").expect("it is complete"), [expected()]);
        }
        assert_eq!(ptx(&FATBINS.concat(), "k.fatbin").expect("they are complete"), [expected(), expected(), expected()]);
    }

    #[test]
    fn ptx_of_a_host_object() {
        use object::{Architecture, BinaryFormat, Endianness, SectionKind, write::Object};
        let mut host = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = host.add_section(Vec::new(), b".nv_fatbin".to_vec(), SectionKind::ReadOnlyData);
        host.append_section_data(section, FATBINS[2], 8);
        let bytes = host.write().expect("it can be written");
        assert_eq!(ptx(&bytes, "k.o").expect("it is complete"), [expected()]);
    }

    #[test]
    fn damaged_fatbins_are_refused_without_a_panic() {
        for fatbin in FATBINS {
            for length in 0..fatbin.len() {
                assert!(
                    ptx(&fatbin[..length], "cut").is_ok_and(|found| found.is_empty()) || ptx(&fatbin[..length], "cut").is_err()
                );
            }
            for at in 0..fatbin.len() {
                let mut damaged = fatbin.to_vec();
                damaged[at] ^= 0x5a;
                let _ = ptx(&damaged, "damaged");
            }
        }
    }
}
