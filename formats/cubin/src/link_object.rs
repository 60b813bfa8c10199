//! Writes the object file through which a host program links a fatbin (`tileiras --emit=object`). The object has two global
//! symbols: the fatbin, and its size in bytes as a 64-bit number. The program passes the fatbin to `cuLibraryLoadData`.

use crate::fatbin::HostSystem;
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// The processor of the host program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostProcessor {
    X86_64,
    Aarch64,
}

/// Alignment of the fatbin in bytes, as in the objects of nvcc.
const FATBIN_ALIGN: u64 = 8;

/// Returns the object file: COFF for Windows, ELF otherwise. The symbols are `symbol` and `{symbol}_size`.
pub fn write_link_object(fatbin: &[u8], symbol: &str, processor: HostProcessor, system: HostSystem) -> Vec<u8> {
    let architecture = match processor {
        HostProcessor::X86_64 => Architecture::X86_64,
        HostProcessor::Aarch64 => Architecture::Aarch64,
    };
    // `cuobjdump` and similar tools find the device code of a host program in the section with this name.
    let (format, fatbin_section, constant_section) = match system {
        HostSystem::Linux => (BinaryFormat::Elf, ".nv_fatbin", ".rodata"),
        HostSystem::Windows => (BinaryFormat::Coff, ".nv_fatb", ".rdata"),
    };
    let mut object = Object::new(format, architecture, Endianness::Little);
    if format == BinaryFormat::Elf {
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    }
    let size_symbol = format!("{symbol}_size");
    let size = (fatbin.len() as u64).to_le_bytes();
    for (section, name, bytes) in [(fatbin_section, symbol, fatbin), (constant_section, &size_symbol, &size)] {
        let section = object.add_section(Vec::new(), section.into(), SectionKind::ReadOnlyData);
        let value = object.append_section_data(section, bytes, FATBIN_ALIGN);
        object.add_symbol(Symbol {
            name: name.into(),
            value,
            size: bytes.len() as u64,
            kind: SymbolKind::Data,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    object.write().expect("the object has only what its format can hold")
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    #[test]
    fn the_symbols_name_the_fatbin_and_its_size() {
        let fatbin = [7; 40];
        for system in [HostSystem::Linux, HostSystem::Windows] {
            for processor in [HostProcessor::X86_64, HostProcessor::Aarch64] {
                let bytes = write_link_object(&fatbin, "kernels", processor, system);
                let file = object::File::parse(&*bytes).unwrap();
                let contents = |name: &str| {
                    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
                    assert!(symbol.is_global());
                    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
                    section.data().unwrap()[symbol.address() as usize..].to_vec()
                };
                assert_eq!(contents("kernels"), fatbin);
                assert_eq!(contents("kernels_size"), 40u64.to_le_bytes());
            }
        }
    }
}
