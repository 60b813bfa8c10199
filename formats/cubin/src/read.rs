//! Reads a cubin: its kernels and their requirements.
//!
//! Attribute sections hold the properties of kernels: `.nv.info` for all kernels, `.nv.info.NAME` for the kernel NAME. An attribute
//! has a byte for the form of its value, a byte for its kind, and the value. The value is two bytes, or a two-byte length and then
//! that number of bytes.

use base::Target;
use base::diag::{Diagnostic, Result};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The contents of a cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cubin {
    /// The target that ptxas received with `-arch`, such as `sm_90a`; empty if unknown.
    pub target: String,
    /// The tool that wrote the cubin, and its version; empty if unknown.
    pub producer: String,
    pub kernels: Vec<Kernel>,
    /// Size of the embedded host object in bytes; `None` if the cubin has no host object.
    pub host_object: Option<u64>,
}

/// The properties of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    pub code_bytes: u64,
    /// Registers per thread.
    pub registers: u32,
    /// Stack frame per thread, in bytes.
    pub stack_bytes: u32,
    /// Static shared memory per CTA in bytes, without the part that the CUDA driver reserves.
    pub shared_bytes: u64,
    /// The CTA size that the kernel requires (`.reqntid`); `None` without a requirement.
    pub required_threads: Option<[u32; 3]>,
    /// The CTAs per cluster that the kernel requires (`.reqnctapercluster`); `None` without a requirement.
    pub cluster: Option<[u32; 3]>,
    /// The id of the source language (PTX `.language`), such as 7 for Tile IR; `None` if the cubin does not state the language.
    pub language: Option<u32>,
    /// The visible parameters, which the caller passes, in order.
    pub parameters: Vec<Parameter>,
    /// Size of all parameters in bytes, including hidden parameters, which the host object fills.
    pub parameter_bytes: u32,
}

/// A parameter: its size, and its offset from the first parameter in the constant bank, both in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub offset: u32,
    pub size: u32,
}

/// Kinds of attributes in `.nv.info` sections. NVIDIA's tools print the kinds as names such as `EIATTR_REQNTID`.
mod attribute {
    pub(super) const REQUIRED_THREADS: u8 = 0x10;
    pub(super) const FRAME_SIZE: u8 = 0x11;
    pub(super) const PARAMETER: u8 = 0x17;
    pub(super) const PARAMETER_BYTES: u8 = 0x19;
    pub(super) const REGISTERS: u8 = 0x2f;
    pub(super) const CTAS_PER_CLUSTER: u8 = 0x3d;
    /// The newer form of `PARAMETER`, with a larger limit for the size.
    pub(super) const PARAMETER_V2: u8 = 0x45;
    pub(super) const LANGUAGE: u8 = 0x66;
}

type Header = elf::FileHeader64<Endianness>;

/// A section. If the section only reserves memory, `bytes` is empty and `size` is the number of reserved bytes.
struct Section<'a> {
    name: &'a str,
    bytes: &'a [u8],
    size: u64,
}

/// Reads the properties of a cubin. `name` is the file's name in messages.
pub fn read(bytes: &[u8], name: &str) -> Result<Cubin> {
    let bad = |error: object::Error| Diagnostic::invalid("CUB001", format!("{name} is not a cubin: {error}"));
    let header = Header::parse(bytes).map_err(bad)?;
    let endian = header.endian().map_err(bad)?;
    let machine = header.e_machine(endian);
    if machine != elf::EM_CUDA {
        return Err(Diagnostic::invalid("CUB001", format!("{name} is an ELF file, but not for a GPU")));
    }
    let section_table = header.sections(endian, bytes).map_err(bad)?;
    let mut sections = Vec::new();
    for section in section_table.iter() {
        let name =
            section_table.section_name(endian, section).ok().and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        sections.push(Section { name, bytes: section.data(endian, bytes).unwrap_or_default(), size: section.sh_size(endian) });
    }
    let symbols = section_table.symbols(endian, bytes, elf::SHT_SYMTAB).map_err(bad)?;
    let symbol_name = |index: u32| {
        let symbol = symbols.symbol(object::SymbolIndex(index as usize)).ok()?;
        symbols.symbol_name(endian, symbol).ok().and_then(|name| std::str::from_utf8(name).ok())
    };
    Ok(cubin_of_sections(&sections, symbol_name))
}

/// Returns the host object in a cubin, or `None` if the cubin has no host object or the file is not a cubin.
pub fn host_object(bytes: &[u8]) -> Option<&[u8]> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|endian| header.e_machine(*endian) == elf::EM_CUDA)?;
    let section_table = header.sections(endian, bytes).ok()?;
    let (_, section) = section_table.section_by_name(endian, b".nv.host")?;
    section.data(endian, bytes).ok()
}

/// Checks that a file is a complete cubin, and has code for each of these kernels.
pub fn check(bytes: &[u8], name: &str, kernels: &[String]) -> Result<()> {
    let incomplete = |error: object::Error| Diagnostic::invalid("CUB002", format!("{name} is not a complete cubin: {error}"));
    let cubin = read(bytes, name)?;
    let header = Header::parse(bytes).map_err(incomplete)?;
    let endian = header.endian().map_err(incomplete)?;
    header.program_headers(endian, bytes).map_err(incomplete)?;
    for section in header.sections(endian, bytes).map_err(incomplete)?.iter() {
        section.data(endian, bytes).map_err(incomplete)?;
    }
    let has_code = |kernel: &&String| cubin.kernels.iter().any(|found| found.name == **kernel && found.code_bytes > 0);
    match kernels.iter().find(|kernel| !has_code(kernel)) {
        Some(kernel) => Err(Diagnostic::invalid("CUB003", format!("{name} has no code for kernel '{kernel}'"))),
        None => Ok(()),
    }
}

/// Collects the properties of a cubin from its sections. `symbol_name` returns the name of a symbol by its index.
fn cubin_of_sections<'a>(sections: &[Section<'a>], symbol_name: impl Fn(u32) -> Option<&'a str>) -> Cubin {
    let find = |name: &str| sections.iter().find(|section| section.name == name);
    let mut cubin = Cubin { host_object: find(".nv.host").map(|section| section.size), ..Cubin::default() };
    let note = find(".note.nv.tkinfo").map(|section| String::from_utf8_lossy(section.bytes).into_owned()).unwrap_or_default();
    for word in note.split('\0') {
        if let Some((_, version)) = word.split_once(", release ") {
            cubin.producer = format!("ptxas {}", version.split(", V").nth(1).unwrap_or(version));
        }
        if let Some((_, rest)) = word.split_once("-arch ") {
            cubin.target = rest.split(' ').next().unwrap_or(rest).trim().to_string();
        }
    }
    // The 32-bit values of the attributes in `.nv.info`, by kernel name and kind.
    let mut module_attributes: BTreeMap<(&str, u8), u32> = BTreeMap::new();
    for (kind, value) in find(".nv.info").map(|section| parse_attributes(section.bytes)).unwrap_or_default() {
        if let (Some(symbol), Some(number)) = (read_u32(&value, 0), read_u32(&value, 4)) {
            symbol_name(symbol).map(|name| module_attributes.insert((name, kind), number));
        }
    }
    for section in sections {
        let Some(name) = section.name.strip_prefix(".text.") else { continue };
        let mut kernel = Kernel { name: name.into(), code_bytes: section.size, ..Kernel::default() };
        kernel.registers = module_attributes.get(&(name, attribute::REGISTERS)).copied().unwrap_or(0);
        kernel.stack_bytes = module_attributes.get(&(name, attribute::FRAME_SIZE)).copied().unwrap_or(0);
        let shared_section = find(&format!(".nv.shared.{name}")).map_or(0, |section| section.size);
        // The section starts at address 0 of shared memory, so it also contains the bytes before the buffers of the kernel.
        let first_byte = Target::parse(&cubin.target).map_or(0, Target::first_shared_byte);
        kernel.shared_bytes = shared_section.saturating_sub(first_byte.into());
        let kernel_attributes =
            find(&format!(".nv.info.{name}")).map(|section| parse_attributes(section.bytes)).unwrap_or_default();
        kernel_attributes.iter().for_each(|(kind, value)| kernel.add_attribute(*kind, value));
        kernel.parameters.sort_by_key(|parameter| parameter.offset);
        cubin.kernels.push(kernel);
    }
    cubin
}

impl Kernel {
    /// Sets the property that an attribute of the kernel states. Ignores attributes of other kinds.
    fn add_attribute(&mut self, kind: u8, value: &[u8]) {
        match kind {
            attribute::REQUIRED_THREADS => self.required_threads = Some(read_extents(value)),
            attribute::CTAS_PER_CLUSTER => self.cluster = Some(read_extents(value)),
            attribute::LANGUAGE => self.language = read_u32(value, 0),
            attribute::PARAMETER_BYTES => self.parameter_bytes = read_u16(value, 0).unwrap_or(0),
            attribute::PARAMETER | attribute::PARAMETER_V2 => {
                let (Some(offset), Some(packed)) = (read_u16(value, 6), read_u32(value, 8)) else { return };
                // The older kind stores the size in the upper 14 bits, the newer kind in the lower 16 bits.
                let size = if kind == attribute::PARAMETER { packed >> 18 } else { packed & 0xffff };
                self.parameters.push(Parameter { offset, size });
            }
            _ => {}
        }
    }
}

/// Returns the kind and value of each attribute in a section, up to the first incomplete attribute.
fn parse_attributes(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    const WITH_LENGTH: u8 = 4;
    let mut parsed = Vec::new();
    while let [value_form, kind, low, high, rest @ ..] = bytes {
        let value_bytes = if *value_form == WITH_LENGTH { usize::from(u16::from_le_bytes([*low, *high])) } else { 0 };
        let Some(value) = rest.get(..value_bytes) else { break };
        parsed.push((*kind, if *value_form == WITH_LENGTH { value.to_vec() } else { vec![*low, *high] }));
        bytes = &rest[value_bytes..];
    }
    parsed
}

/// Returns the three extents (x, y, z) in the value of an attribute. A missing extent is 1.
fn read_extents(value: &[u8]) -> [u32; 3] {
    [0, 4, 8].map(|offset| read_u32(value, offset).unwrap_or(1))
}

/// Returns the 32-bit number at an offset, or `None` if the bytes end before the number's end.
fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
}

/// Returns the 16-bit number at an offset, or `None` if the bytes end before the number's end.
fn read_u16(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 2).map(|b| u32::from(u16::from_le_bytes(b.try_into().expect("two bytes"))))
}

/// Returns the name of a source language by its id (PTX `.language`).
fn language_name(number: u32) -> String {
    const NAMES: [&str; 11] =
        ["UNKNOWN", "SASS", "NVSAL", "PTX", "NVVM", "CUDA_C++", "CUDA_C++_Tile", "TILEIR", "CUTILE", "FORTRAN", "OPTIX"];
    NAMES.get(number as usize).map_or_else(|| number.to_string(), |name| name.to_string())
}

/// Returns the properties of a cubin as text, one kernel after the other.
pub fn print(cubin: &Cubin) -> String {
    let mut out = format!("cubin for {}, by {}\n", or_unknown(&cubin.target), or_unknown(&cubin.producer));
    for kernel in &cubin.kernels {
        let _ = writeln!(out, "kernel {}", kernel.name);
        let _ = writeln!(
            out,
            "  registers {}  stack {}  shared {}  code {}",
            kernel.registers, kernel.stack_bytes, kernel.shared_bytes, kernel.code_bytes
        );
        if let Some([x, y, z]) = kernel.required_threads {
            let _ = writeln!(out, "  threads {x} {y} {z}");
        }
        if let Some([x, y, z]) = kernel.cluster {
            let _ = writeln!(out, "  cluster {x} {y} {z}");
        }
        if let Some(number) = kernel.language {
            let _ = writeln!(out, "  language {}", language_name(number));
        }
        let _ = writeln!(out, "  parameters {} in {} bytes", kernel.parameters.len(), kernel.parameter_bytes);
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            let _ = writeln!(out, "    {index:3}  offset {:4}  size {}", parameter.offset, parameter.size);
        }
    }
    let _ = match cubin.host_object {
        Some(size) => writeln!(out, "host object {size} bytes"),
        None => writeln!(out, "no host object"),
    };
    out
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "(unknown)" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_of_a_kernel_are_read_from_several_sections() {
        let info = [0x04, 0x2f, 8, 0, 1, 0, 0, 0, 14, 0, 0, 0, 0x04, 0x11, 8, 0, 1, 0, 0, 0, 16, 0, 0, 0];
        let kernel_info = [
            &[0x04, 0x66, 4, 0, 7, 0, 0, 0][..],
            &[0x04, 0x45, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 4, 0, 0, 0],
            &[0x04, 0x45, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 4],
            &[0x03, 0x19, 12, 0],
            &[0x04, 0x10, 12, 0, 128, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0],
            &[0x04, 0x3d, 12, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0],
            &[0x04, 0x99, 200, 0, 1],
        ]
        .concat();
        let section = |name, bytes, size| Section { name, bytes, size };
        let sections = [
            section(".nv.info", &info[..], 24),
            section(".text.k", &[], 640),
            section(".nv.info.k", &kernel_info, 1),
            section(".nv.shared.k", &[], 4096),
            section(".nv.host", &[], 100),
        ];
        let text = print(&cubin_of_sections(&sections, |index| (index == 1).then_some("k")));
        let expected = "cubin for (unknown), by (unknown)\nkernel k\n  registers 14  stack 16  shared 4096  code 640\n  threads 128 1 1\n  cluster 2 1 1\n  language TILEIR\n  parameters 2 in 12 bytes\n      0  offset    0  size 8\n      1  offset    8  size 4\nhost object 100 bytes\n";
        assert_eq!(text, expected);
    }

    /// Section sizes of `ptxas -arch=TARGET` 13.5.37 for a kernel that declares 2000 bytes of shared memory.
    #[test]
    fn reserved_shared_memory_does_not_belong_to_the_kernel() {
        for (target, size) in [("sm_80", 0x7d0), ("sm_89", 0x7d0), ("sm_90a", 0xbd0), ("sm_103a", 0xbd0), ("sm_120a", 0xbd0)] {
            let note = format!("ptxas\0-arch {target}");
            let section = |name, bytes, size| Section { name, bytes, size };
            let sections = [
                section(".note.nv.tkinfo", note.as_bytes(), 0),
                section(".text.k", &[][..], 128),
                section(".nv.shared.k", &[], size),
            ];
            assert_eq!(cubin_of_sections(&sections, |_| None).kernels[0].shared_bytes, 2000, "{target}");
        }
    }

    #[test]
    fn files_that_are_not_cubins_are_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 100]] {
            assert!(read(bytes, "x").is_err());
        }
    }
}
