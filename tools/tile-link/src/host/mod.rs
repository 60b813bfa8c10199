//! The host object that ptxas embeds in the cubin and the CUDA driver loads with it.
//!
//! It contains a table of the module's kernels and a pre-load function. The table has a function per kernel, which the driver
//! calls when the kernel's arguments change. This function fills the hidden tensor-map parameters; for a kernel without tensor
//! maps it does nothing. The layout of the tables was observed in the output of NVIDIA's tileiras.
//!
//! The code is position independent and uses only relocations that occur in NVIDIA's objects.

mod aarch64;
#[cfg(test)]
mod tests;
mod x86_64;

use crate::maps::Maps;
use object::elf::RelocationType;
use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope, elf,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

/// The calling convention of the host system. AArch64 has the same convention on both systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Convention {
    SystemV,
    Windows,
}

/// Machine code that refers to the two tables.
struct Code {
    bytes: Vec<u8>,
    references: Vec<Reference>,
}

struct Reference {
    offset: u64,
    table: Table,
    kind: RelocationType,
    addend: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// The table in the object file: version, kernels, functions.
    Callbacks,
    /// The copy of the table that the pre-load function passes to the driver.
    PreLoad,
}

/// The section flag of x86-64's large code model.
const LARGE: elf::SectionFlags = elf::SectionFlags(0x1000_0000);
/// Size of the module's table, in bytes.
const TABLE_BYTES: u64 = 72;
/// Size of a kernel's entry in the table of entries, in bytes. The name is at offset 0.
const ENTRY_BYTES: u64 = 64;
/// Offset of the function in an entry.
const ENTRY_FUNCTION: u64 = 0x28;
/// Offset of the device-attribute query in the driver's function table.
const QUERY_OFFSET: u8 = 0x30;
/// The device attribute that is the number of SMs.
const MULTIPROCESSOR_COUNT: u8 = 16;

/// Writes the object for these kernels and their maps. The function of a kernel without maps fills nothing.
pub(crate) fn write(machine: Machine, convention: Convention, kernels: &[String], maps: &[Maps]) -> Vec<u8> {
    let mut writer = Writer::new(machine);
    let nothing = Maps::default();
    let fills: Vec<&Maps> = (0..kernels.len()).map(|index| maps.get(index).unwrap_or(&nothing)).collect();
    let (code, functions, pre_load) = writer.code(convention, &fills);
    let pre_load_offset = functions.iter().sum();
    let tables = writer.section(b".data.rel.ro", SectionKind::ReadOnlyDataWithRel, elf::SHF_ALLOC | elf::SHF_WRITE);
    let names = writer.read_only();
    writer.object.append_section_data(code, &pre_load.bytes, 16);

    let entries_size = ENTRY_BYTES * kernels.len() as u64;
    let entries =
        writer.symbol("__CUDA_TILEIR_FUNC_CALLBACKS", tables, 0, entries_size, SymbolKind::Data, SymbolScope::Compilation);
    let callbacks =
        writer.symbol("__CUDA_TILEIR_CALLBACKS", tables, entries_size, TABLE_BYTES, SymbolKind::Data, SymbolScope::Dynamic);
    let copy = writer.zeroed("__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD", TABLE_BYTES);
    let pre_load_size = pre_load.bytes.len() as u64 - pre_load_offset;
    let on_pre_load =
        writer.symbol("__CUDA_TILEIR_ON_PRE_LOAD", code, pre_load_offset, pre_load_size, SymbolKind::Text, SymbolScope::Dynamic);
    writer.object.append_section_data(tables, &vec![0; entries_size as usize], 16);
    writer.object.append_section_data(tables, &table_words(kernels.len()), 8);
    writer.address(tables, entries_size + 5 * 8, entries);
    writer.address(tables, entries_size + 8 * 8, on_pre_load);

    let mut next = 0;
    for (index, (kernel, size)) in kernels.iter().zip(functions).enumerate() {
        let entry = ENTRY_BYTES * index as u64;
        let function = format!("__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_{index}");
        let at = next;
        next += size;
        let function = writer.symbol(&function, code, at, size, SymbolKind::Text, SymbolScope::Compilation);
        let text = [kernel.as_bytes(), &[0]].concat();
        let at = writer.object.append_section_data(names, &text, 16);
        let name = format!("__CUDA_TILEIR_FUNC_NAME_{index}");
        let name = writer.symbol(&name, names, at, text.len() as u64, SymbolKind::Data, SymbolScope::Compilation);
        writer.address(tables, entry, name);
        writer.address(tables, entry + ENTRY_FUNCTION, function);
    }
    for reference in &pre_load.references {
        let symbol = if reference.table == Table::Callbacks { callbacks } else { copy };
        writer.relocate(code, reference.offset, symbol, reference.kind, reference.addend);
    }
    writer.finish()
}

/// The words of the table that are not addresses: the table's version, the size and number of entries, and the revision of the
/// functions.
fn table_words(kernels: usize) -> Vec<u8> {
    let words: [u64; 9] = [2, 0, 0, 0, ENTRY_BYTES, 0, kernels as u64, 2, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Writes an object file for the system's linker. It contains a fatbin in the section in which the CUDA runtime looks for it. The
/// format is ELF, or COFF for Windows.
pub(crate) fn embed(machine: Machine, convention: Convention, fatbin: &[u8]) -> Vec<u8> {
    let (format, names) = match convention {
        Convention::SystemV => (BinaryFormat::Elf, [".nv_fatbin", ".nvFatBinSegment"]),
        Convention::Windows => (BinaryFormat::Coff, [".nv_fatb", ".nvFatBi"]),
    };
    let mut writer = Writer::of(machine, format);
    let data = writer.object.add_section(Vec::new(), names[0].into(), SectionKind::ReadOnlyData);
    writer.object.append_section_data(data, fatbin, 8);
    let size = fatbin.len() as u64;
    let symbol = writer.symbol("__tile_fatbin", data, 0, size, SymbolKind::Data, SymbolScope::Compilation);
    let segment = writer.object.add_section(Vec::new(), names[1].into(), SectionKind::Data);
    writer.object.append_section_data(segment, &cubin::fatbin::wrapper(), 8);
    writer.symbol("__tile_fatbin_wrapper", segment, 0, 24, SymbolKind::Data, SymbolScope::Dynamic);
    writer.address(segment, cubin::fatbin::WRAPPER_POINTER, symbol);
    writer.finish()
}

struct Writer {
    machine: Machine,
    object: Object<'static>,
}

impl Writer {
    fn new(machine: Machine) -> Writer {
        Writer::of(machine, BinaryFormat::Elf)
    }

    fn of(machine: Machine, format: BinaryFormat) -> Writer {
        let architecture = match machine {
            Machine::X86_64 => Architecture::X86_64,
            Machine::Aarch64 => Architecture::Aarch64,
        };
        let mut object = Object::new(format, architecture, Endianness::Little);
        if format == BinaryFormat::Elf {
            object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
        }
        Writer { machine, object }
    }

    /// Returns the code section, the sizes of the kernels' functions, and the code: the kernels' functions, then the pre-load
    /// function.
    fn code(&mut self, convention: Convention, fills: &[&Maps]) -> (SectionId, Vec<u64>, Code) {
        let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        let section = match self.machine {
            Machine::X86_64 => self.section(b".ltext", SectionKind::Text, flags | LARGE),
            Machine::Aarch64 => self.section(b".text", SectionKind::Text, flags),
        };
        let functions = fills.iter().map(|maps| match self.machine {
            Machine::X86_64 => x86_64::fill(maps, convention),
            Machine::Aarch64 => aarch64::fill(maps),
        });
        let functions: Vec<Vec<u8>> = functions.collect();
        let sizes = functions.iter().map(|function| function.len() as u64).collect();
        let code = match self.machine {
            Machine::X86_64 => x86_64::on_pre_load(functions.concat(), convention),
            Machine::Aarch64 => aarch64::on_pre_load(functions.concat()),
        };
        (section, sizes, code)
    }

    fn read_only(&mut self) -> SectionId {
        match self.machine {
            Machine::X86_64 => self.section(b".lrodata", SectionKind::ReadOnlyData, elf::SHF_ALLOC | LARGE),
            Machine::Aarch64 => self.section(b".rodata", SectionKind::ReadOnlyData, elf::SHF_ALLOC),
        }
    }

    fn zeroed(&mut self, name: &str, size: u64) -> SymbolId {
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        let section = match self.machine {
            Machine::X86_64 => self.section(b".lbss", SectionKind::UninitializedData, flags | LARGE),
            Machine::Aarch64 => self.section(b".bss", SectionKind::UninitializedData, flags),
        };
        self.object.append_section_bss(section, size, 16);
        self.symbol(name, section, 0, size, SymbolKind::Data, SymbolScope::Compilation)
    }

    fn section(&mut self, name: &[u8], kind: SectionKind, sh_flags: elf::SectionFlags) -> SectionId {
        let section = self.object.add_section(Vec::new(), name.to_vec(), kind);
        let sh_type = if kind == SectionKind::UninitializedData { elf::SHT_NOBITS } else { elf::SHT_PROGBITS };
        self.object.section_mut(section).flags = SectionFlags::Elf { sh_type, sh_flags };
        section
    }

    fn symbol(&mut self, name: &str, section: SectionId, at: u64, size: u64, kind: SymbolKind, scope: SymbolScope) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.into(),
            value: at,
            size,
            kind,
            scope,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    }

    /// Relocates the 64-bit word at `offset` to the address of `symbol`.
    fn address(&mut self, section: SectionId, offset: u64, symbol: SymbolId) {
        let (kind, encoding) = (RelocationKind::Absolute, RelocationEncoding::Generic);
        let flags = RelocationFlags::Generic { kind, encoding, size: 64 };
        let relocation = Relocation { offset, symbol, addend: 0, flags };
        self.object.add_relocation(section, relocation).expect("sections of this file take relocations");
    }

    fn relocate(&mut self, section: SectionId, offset: u64, symbol: SymbolId, r_type: RelocationType, addend: i64) {
        let relocation = Relocation { offset, symbol, addend, flags: RelocationFlags::Elf { r_type } };
        self.object.add_relocation(section, relocation).expect("sections of this file take relocations");
    }

    fn finish(self) -> Vec<u8> {
        self.object.write().expect("the object has only what its format can hold")
    }
}
