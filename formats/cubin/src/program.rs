//! The program in a cubin: the files from which a CPU can execute the cubin's kernels, in the section [`SECTION`].
//!
//! The section consists of ELF notes, one for each file. Each note has the name `Tileworks` and the type [`NOTE_TYPE`]. Its
//! description is the size of the file, in eight bytes, and then the file, compressed with zstd. The CUDA driver ignores the
//! section.
//!
//! A file is Tile IR bytecode, a stage file (the output of a stage of the compiler) or PTX. The first bytes of a file identify the
//! format. A *CPU module* is a cubin with this section and without machine code.

use base::diag::{Diagnostic, Result};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};
use std::io::Read as _;

/// The name of the section that holds the program.
pub const SECTION: &str = ".note.tileworks";
/// The name of each note, padded to a multiple of four bytes.
const NOTE_OWNER: &[u8; 12] = b"Tileworks\0\0\0";
/// The type of each note. Only this project defines types for the name `Tileworks`, so the number is arbitrary.
const NOTE_TYPE: u32 = 1;
/// Maximum bytes of one embedded file. The limit protects the memory of the host from a damaged or malicious size.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The size of the header of a 64-bit ELF file.
const HEADER_BYTES: usize = 64;
/// The size of a section header in a 64-bit ELF file.
const SECTION_HEADER_BYTES: usize = 64;
/// The operating-system ABI, and the version of the ABI, in the ELF identification of cubins that ptxas 13 writes.
const OS_ABI: u8 = 0x41;
const ABI_VERSION: u8 = 8;

/// Section types of the ELF specification.
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;

type Header = elf::FileHeader64<Endianness>;

/// The error of [`embed`].
fn embed_error(reason: impl std::fmt::Display) -> Box<Diagnostic> {
    Diagnostic::invalid("CUB005", format!("cannot embed the program in the cubin: {reason}"))
}

/// Returns the cubin with a program section that has these files. The section table moves to the end of the file.
pub fn embed(cubin: &[u8], files: &[&[u8]]) -> Result<Vec<u8>> {
    let header = Header::parse(cubin).map_err(embed_error)?;
    let endian = header.endian().map_err(embed_error)?;
    let section_table = header.sections(endian, cubin).map_err(embed_error)?;
    let names_index = header.shstrndx(endian, cubin).map_err(embed_error)? as usize;
    let section_names = section_table.section(object::SectionIndex(names_index)).and_then(|section| section.data(endian, cubin));
    let mut section_names = section_names.map_err(embed_error)?.to_vec();
    let mut out = cubin.to_vec();
    if section_table.section_by_name(endian, SECTION.as_bytes()).is_some() {
        return Err(embed_error(format!("it already has a section {SECTION}")));
    }
    // The section table is inside the file: `header.sections` has checked the range.
    let offset = header.e_shoff(endian) as usize;
    let raw = cubin[offset..offset + section_table.len() * SECTION_HEADER_BYTES].chunks_exact(SECTION_HEADER_BYTES);
    let mut section_headers: Vec<RawSectionHeader> =
        raw.map(|bytes| RawSectionHeader(bytes.try_into().expect("the size of a header"))).collect();
    let name = section_names.len() as u32;
    section_names.extend(SECTION.bytes().chain([0]));
    let notes = encode_notes(files);
    section_headers.push(RawSectionHeader::new(name, SHT_NOTE, append(&mut out, &notes, 4), notes.len()));
    section_headers[names_index].set_range(append(&mut out, &section_names, 1), section_names.len());
    let table_start = append(&mut out, &section_headers.iter().flat_map(RawSectionHeader::bytes).collect::<Vec<_>>(), 8);
    // The header's fields `e_shoff` and `e_shnum`.
    out[0x28..0x30].copy_from_slice(&(table_start as u64).to_le_bytes());
    out[0x3c..0x3e].copy_from_slice(&(section_headers.len() as u16).to_le_bytes());
    Ok(out)
}

/// Returns a CPU module: a cubin without machine code, whose program only a CPU can execute.
pub fn cpu_module(files: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, OS_ABI, ABI_VERSION];
    out.resize(HEADER_BYTES, 0);
    // `e_type` (ET_EXEC), `e_machine` and `e_version`.
    out[0x10..0x12].copy_from_slice(&2u16.to_le_bytes());
    out[0x12..0x14].copy_from_slice(&elf::EM_CUDA.0.to_le_bytes());
    out[0x14..0x18].copy_from_slice(&1u32.to_le_bytes());
    let set_u16 = |out: &mut Vec<u8>, offset: usize, value: u16| out[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    // `e_ehsize`, `e_phentsize`, `e_shentsize`, `e_shnum` and `e_shstrndx`.
    set_u16(&mut out, 0x34, HEADER_BYTES as u16);
    set_u16(&mut out, 0x36, 56);
    set_u16(&mut out, 0x3a, SECTION_HEADER_BYTES as u16);
    set_u16(&mut out, 0x3c, 3);
    set_u16(&mut out, 0x3e, 1);
    let section_names: Vec<u8> = ["", ".shstrtab", SECTION].iter().flat_map(|name| name.bytes().chain([0])).collect();
    let names_at = append(&mut out, &section_names, 1);
    let notes = encode_notes(files);
    let notes_at = append(&mut out, &notes, 4);
    let section_headers = [
        RawSectionHeader::new(0, 0, 0, 0),
        RawSectionHeader::new(1, SHT_STRTAB, names_at, section_names.len()),
        RawSectionHeader::new(1 + ".shstrtab".len() as u32 + 1, SHT_NOTE, notes_at, notes.len()),
    ];
    let table_start = append(&mut out, &section_headers.iter().flat_map(RawSectionHeader::bytes).collect::<Vec<_>>(), 8);
    // `e_shoff`.
    out[0x28..0x30].copy_from_slice(&(table_start as u64).to_le_bytes());
    out
}

/// Returns the files of the program in a cubin, in the order in which [`embed`] received them. The result is empty if the cubin has
/// no program. `name` is the cubin's name in messages.
pub fn program_files(cubin: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let damaged = |what: &str| Diagnostic::invalid("CUB006", format!("cannot read the program in {name}: {what}"));
    let not_a_cubin = |error: object::Error| Diagnostic::invalid("CUB001", format!("{name} is not a cubin: {error}"));
    let header = Header::parse(cubin).map_err(not_a_cubin)?;
    let endian = header.endian().map_err(not_a_cubin)?;
    if header.e_machine(endian) != elf::EM_CUDA {
        return Err(Diagnostic::invalid("CUB001", format!("{name} is an ELF file, but not for a GPU")));
    }
    let section_table = header.sections(endian, cubin).map_err(not_a_cubin)?;
    let Some((_, section)) = section_table.section_by_name(endian, SECTION.as_bytes()) else { return Ok(Vec::new()) };
    let mut rest = section.data(endian, cubin).map_err(not_a_cubin)?;
    let mut files = Vec::new();
    while !rest.is_empty() {
        let read_u32 = |offset: usize| Some(u32::from_le_bytes(rest.get(offset..offset + 4)?.try_into().ok()?));
        let (Some(owner_bytes), Some(description_bytes), Some(kind)) = (read_u32(0), read_u32(4), read_u32(8)) else {
            return Err(damaged("an entry ends early"));
        };
        let description_start = 12 + (owner_bytes as usize).next_multiple_of(4);
        let description_end = description_start.saturating_add(description_bytes as usize);
        let (Some(owner), Some(description)) =
            (rest.get(12..12 + owner_bytes as usize), rest.get(description_start..description_end))
        else {
            return Err(damaged("an entry ends early"));
        };
        if NOTE_OWNER.starts_with(owner) && kind == NOTE_TYPE {
            files.push(decode_file(description).ok_or_else(|| damaged("a file is damaged"))?);
        }
        rest = rest.get(description_end.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(files)
}

/// Computes the size of an ELF file in bytes from its header and section table. Returns `None` if the file does not start with a
/// 64-bit ELF header. `read_at(offset, length)` reads bytes of the file, and returns `None` if the file ends before the last byte.
pub fn elf_file_size(read_at: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<u64> {
    let header = read_at(0, HEADER_BYTES)?;
    let parsed = Header::parse(&header[..]).ok()?;
    let endian = parsed.endian().ok()?;
    let (table_start, section_count) = (parsed.e_shoff(endian), u64::from(parsed.e_shnum(endian)));
    let segments_end =
        parsed.e_phoff(endian).checked_add(u64::from(parsed.e_phnum(endian)) * u64::from(parsed.e_phentsize(endian)))?;
    let mut end = table_start.checked_add(section_count * SECTION_HEADER_BYTES as u64)?.max(segments_end).max(HEADER_BYTES as u64);
    for index in 0..section_count {
        let bytes = read_at(table_start.checked_add(index * SECTION_HEADER_BYTES as u64)?, SECTION_HEADER_BYTES)?;
        // The fields of a section header: `sh_type` at 4, `sh_offset` at 0x18, `sh_size` at 0x20.
        let read_u64 = |offset: usize| u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"));
        let kind = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        if kind != SHT_NOBITS {
            end = end.max(read_u64(0x18).checked_add(read_u64(0x20))?);
        }
    }
    Some(end)
}

/// Returns the contents of the program section: a note per file.
fn encode_notes(files: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for file in files {
        let mut description = (file.len() as u64).to_le_bytes().to_vec();
        description.extend(ruzstd::encoding::compress_to_vec(*file, ruzstd::encoding::CompressionLevel::Fastest));
        // The length of the name includes one zero byte, but not the padding.
        for word in [NOTE_OWNER.len() as u32 - 2, description.len() as u32, NOTE_TYPE] {
            out.extend(word.to_le_bytes());
        }
        out.extend(NOTE_OWNER);
        append(&mut out, &description, 4);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// Decompresses the file in the description of a note. Returns `None` if the description is damaged or the file exceeds
/// [`MAX_FILE_BYTES`].
fn decode_file(description: &[u8]) -> Option<Vec<u8>> {
    let (size, packed) = description.split_at_checked(8)?;
    let size = u64::from_le_bytes(size.try_into().expect("eight bytes"));
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    let mut file = Vec::new();
    decoder.take(size.min(MAX_FILE_BYTES) + 1).read_to_end(&mut file).ok()?;
    (file.len() as u64 == size).then_some(file)
}

/// Appends bytes at an offset that is a multiple of `align`, and returns the offset.
fn append(out: &mut Vec<u8>, bytes: &[u8], align: usize) -> usize {
    out.resize(out.len().next_multiple_of(align), 0);
    let offset = out.len();
    out.extend(bytes);
    offset
}

/// The bytes of a section header in the file.
struct RawSectionHeader([u8; SECTION_HEADER_BYTES]);

impl RawSectionHeader {
    fn new(name: u32, kind: u32, offset: usize, size: usize) -> RawSectionHeader {
        let mut raw = RawSectionHeader([0; SECTION_HEADER_BYTES]);
        raw.0[0..4].copy_from_slice(&name.to_le_bytes());
        raw.0[4..8].copy_from_slice(&kind.to_le_bytes());
        raw.set_range(offset, size);
        let align: u64 = if kind == SHT_NOTE { 4 } else { u64::from(kind != 0) };
        raw.0[0x30..0x38].copy_from_slice(&align.to_le_bytes());
        raw
    }

    /// Sets the offset and size of the section's contents.
    fn set_range(&mut self, offset: usize, size: usize) {
        self.0[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
        self.0[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
    }

    fn bytes(&self) -> [u8; SECTION_HEADER_BYTES] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&[u8]; 2] = [b"\x7fTileIR\0 bytecode", b".version 9.2\n.target sm_90\n"];

    fn sample_files() -> Vec<Vec<u8>> {
        FILES.iter().map(|file| file.to_vec()).collect()
    }

    fn file_size(bytes: &[u8]) -> Option<u64> {
        elf_file_size(|offset, length| bytes.get(offset as usize..offset as usize + length).map(<[u8]>::to_vec))
    }

    #[test]
    fn a_cpu_module_returns_its_files_and_states_its_size() {
        let module = cpu_module(&FILES);
        assert_eq!(program_files(&module, "k").unwrap(), sample_files());
        assert_eq!(file_size(&module), Some(module.len() as u64));
        assert_eq!(program_files(&cpu_module(&[]), "k").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn embedding_keeps_the_other_sections() {
        let module = cpu_module(&[]);
        // Rename the empty program section, so that the file is a cubin without a program.
        let offset = module.windows(SECTION.len()).position(|window| window == SECTION.as_bytes()).unwrap();
        let mut without_program = module.clone();
        without_program[offset + 1] = b'x';
        let embedded = embed(&without_program, &FILES).unwrap();
        assert_eq!(program_files(&embedded, "k").unwrap(), sample_files());
        assert_eq!(file_size(&embedded), Some(embedded.len() as u64));
        assert_eq!(embed(&embedded, &FILES).unwrap_err().code, "CUB005");
        let header = Header::parse(&embedded[..]).unwrap();
        let sections = header.sections(Endianness::Little, &embedded[..]).unwrap();
        assert!(sections.section_by_name(Endianness::Little, b".xote.tileworks").is_some());
    }

    #[test]
    fn damaged_modules_are_rejected_without_a_panic() {
        let module = cpu_module(&FILES);
        for length in 0..module.len() {
            assert!(program_files(&module[..length], "k").is_err() || file_size(&module[..length]) != Some(length as u64));
        }
        for offset in 0..module.len() {
            let mut damaged = module.clone();
            damaged[offset] ^= 0x5a;
            let _ = (program_files(&damaged, "k"), file_size(&damaged), embed(&damaged, &FILES));
        }
    }
}
