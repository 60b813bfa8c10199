//! Writes the host object, an object file with CPU code. ptxas embeds the host object in the cubin, and the CUDA driver loads it
//! with the cubin.
//!
//! The object contains a table of the module's kernels and a pre-load function. For each kernel, the table refers to a function
//! that the driver calls when the kernel's arguments change. The function fills the hidden parameters with tensor maps. For a
//! kernel without tensor maps, it does nothing. The layout of the tables was observed in the output of NVIDIA's compiler tileiras.
//!
//! The code is position independent, and uses only kinds of relocations that occur in NVIDIA's objects.

mod aarch64;
#[cfg(test)]
mod tests;
mod x86_64;

use crate::maps::KernelMaps;
use object::elf::RelocationType;
use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope, elf,
};

/// The architecture of the host's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

/// The calling convention of the host system. On AArch64, the functions of the host object are the same for both conventions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Convention {
    SystemV,
    Windows,
}

/// Machine code under construction, and the relocations of its references to the two tables.
struct MachineCode {
    bytes: Vec<u8>,
    relocations: Vec<TableRelocation>,
}

/// A relocation: a place in the code where the linker writes the address of a table, or the distance to it.
struct TableRelocation {
    /// Offset of the place in the code, in bytes.
    offset: u64,
    table: Table,
    kind: RelocationType,
    addend: i64,
}

/// A table of the host object to which the code refers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// `__CUDA_TILEIR_CALLBACKS` in the object file: a version, the address of the array of kernel entries, and its size.
    Callbacks,
    /// The copy of `__CUDA_TILEIR_CALLBACKS` that the pre-load function fills and passes to the driver.
    PreLoad,
}

/// The ELF flag of sections of the large code model on x86-64.
const SHF_X86_64_LARGE: elf::SectionFlags = elf::SectionFlags(0x1000_0000);
/// Size of `__CUDA_TILEIR_CALLBACKS`, in bytes.
const TABLE_BYTES: u64 = 72;
/// Size in bytes of a kernel's entry in `__CUDA_TILEIR_FUNC_CALLBACKS`. The address of the kernel's name is at offset 0.
const ENTRY_BYTES: u64 = 64;
/// Offset in bytes, in a kernel's entry, of the address of the function that fills the kernel's tensor maps.
const ENTRY_FUNCTION: u64 = 0x28;
/// Offset of the device-attribute query in the driver's table of functions, in bytes.
const QUERY_OFFSET: u8 = 0x30;
/// The number of the device attribute that counts the SMs (`CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`).
const MULTIPROCESSOR_COUNT: u8 = 16;

/// Returns the bytes of the host object. `maps` has an element per kernel, or is empty if no kernel has tensor maps.
pub(crate) fn write_host_object(machine: Machine, convention: Convention, kernels: &[String], maps: &[KernelMaps]) -> Vec<u8> {
    let mut writer = Writer::new(machine);
    let no_maps = KernelMaps::default();
    let maps_by_kernel: Vec<&KernelMaps> = (0..kernels.len()).map(|index| maps.get(index).unwrap_or(&no_maps)).collect();
    let (code, functions, pre_load) = writer.emit_functions(convention, &maps_by_kernel);
    let pre_load_offset = functions.iter().sum();
    let tables_section = writer.add_section(b".data.rel.ro", SectionKind::ReadOnlyDataWithRel, elf::SHF_ALLOC | elf::SHF_WRITE);
    let names_section = writer.read_only_section();
    writer.object.append_section_data(code, &pre_load.bytes, 16);

    let entries_size = ENTRY_BYTES * kernels.len() as u64;
    let entries_symbol = writer.add_symbol(
        "__CUDA_TILEIR_FUNC_CALLBACKS",
        tables_section,
        0,
        entries_size,
        SymbolKind::Data,
        SymbolScope::Compilation,
    );
    let callbacks_symbol = writer.add_symbol(
        "__CUDA_TILEIR_CALLBACKS",
        tables_section,
        entries_size,
        TABLE_BYTES,
        SymbolKind::Data,
        SymbolScope::Dynamic,
    );
    let copied_table = writer.zeroed_symbol("__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD", TABLE_BYTES);
    let pre_load_size = pre_load.bytes.len() as u64 - pre_load_offset;
    let on_pre_load = writer.add_symbol(
        "__CUDA_TILEIR_ON_PRE_LOAD",
        code,
        pre_load_offset,
        pre_load_size,
        SymbolKind::Text,
        SymbolScope::Dynamic,
    );
    writer.object.append_section_data(tables_section, &vec![0; entries_size as usize], 16);
    writer.object.append_section_data(tables_section, &table_words(kernels.len()), 8);
    writer.relocate_to_address(tables_section, entries_size + 5 * 8, entries_symbol);
    writer.relocate_to_address(tables_section, entries_size + 8 * 8, on_pre_load);

    let mut next_offset = 0;
    for (index, (kernel, size)) in kernels.iter().zip(functions).enumerate() {
        let entry_offset = ENTRY_BYTES * index as u64;
        let function = format!("__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_{index}");
        let function_offset = next_offset;
        next_offset += size;
        let function = writer.add_symbol(&function, code, function_offset, size, SymbolKind::Text, SymbolScope::Compilation);
        let name_bytes = [kernel.as_bytes(), &[0]].concat();
        let at = writer.object.append_section_data(names_section, &name_bytes, 16);
        let name = format!("__CUDA_TILEIR_FUNC_NAME_{index}");
        let name = writer.add_symbol(&name, names_section, at, name_bytes.len() as u64, SymbolKind::Data, SymbolScope::Compilation);
        writer.relocate_to_address(tables_section, entry_offset, name);
        writer.relocate_to_address(tables_section, entry_offset + ENTRY_FUNCTION, function);
    }
    for relocation in &pre_load.relocations {
        let symbol = if relocation.table == Table::Callbacks { callbacks_symbol } else { copied_table };
        writer.relocate(code, relocation.offset, symbol, relocation.kind, relocation.addend);
    }
    writer.into_bytes()
}

/// Returns the words of `__CUDA_TILEIR_CALLBACKS`. Relocations fill the words that are addresses. The other words are the table's
/// version, the size of one entry in bytes, the number of entries, and 2. The last number is presumably the version of
/// the callbacks' signature.
fn table_words(kernels: usize) -> Vec<u8> {
    let words: [u64; 9] = [2, 0, 0, 0, ENTRY_BYTES, 0, kernels as u64, 2, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the bytes of an object file for the system's linker. The fatbin is in the section in which the CUDA runtime searches for
/// it. The format is ELF, or COFF for Windows.
pub(crate) fn write_fatbin_object(machine: Machine, convention: Convention, fatbin: &[u8]) -> Vec<u8> {
    let (format, section_names) = match convention {
        Convention::SystemV => (BinaryFormat::Elf, [".nv_fatbin", ".nvFatBinSegment"]),
        Convention::Windows => (BinaryFormat::Coff, [".nv_fatb", ".nvFatBi"]),
    };
    let mut writer = Writer::with_format(machine, format);
    let data = writer.object.add_section(Vec::new(), section_names[0].into(), SectionKind::ReadOnlyData);
    writer.object.append_section_data(data, fatbin, 8);
    let size = fatbin.len() as u64;
    let symbol = writer.add_symbol("__tile_fatbin", data, 0, size, SymbolKind::Data, SymbolScope::Compilation);
    let segment = writer.object.add_section(Vec::new(), section_names[1].into(), SectionKind::Data);
    writer.object.append_section_data(segment, &cubin::fatbin::wrapper(), 8);
    writer.add_symbol("__tile_fatbin_wrapper", segment, 0, 24, SymbolKind::Data, SymbolScope::Dynamic);
    writer.relocate_to_address(segment, cubin::fatbin::WRAPPER_FATBIN_OFFSET, symbol);
    writer.into_bytes()
}

/// An object file under construction.
struct Writer {
    machine: Machine,
    object: Object<'static>,
}

impl Writer {
    /// Starts an ELF object.
    fn new(machine: Machine) -> Writer {
        Writer::with_format(machine, BinaryFormat::Elf)
    }

    /// Starts an object of the given format. An ELF object gets an empty section that requests a stack without execute permission.
    fn with_format(machine: Machine, format: BinaryFormat) -> Writer {
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

    /// Emits the kernels' functions and, after them, the pre-load function. Returns the code section, the sizes of the kernels'
    /// functions in bytes, and the code.
    fn emit_functions(&mut self, convention: Convention, maps_by_kernel: &[&KernelMaps]) -> (SectionId, Vec<u64>, MachineCode) {
        let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        let section = match self.machine {
            Machine::X86_64 => self.add_section(b".ltext", SectionKind::Text, flags | SHF_X86_64_LARGE),
            Machine::Aarch64 => self.add_section(b".text", SectionKind::Text, flags),
        };
        let functions = maps_by_kernel.iter().map(|maps| match self.machine {
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

    /// Adds a section for read-only data.
    fn read_only_section(&mut self) -> SectionId {
        match self.machine {
            Machine::X86_64 => self.add_section(b".lrodata", SectionKind::ReadOnlyData, elf::SHF_ALLOC | SHF_X86_64_LARGE),
            Machine::Aarch64 => self.add_section(b".rodata", SectionKind::ReadOnlyData, elf::SHF_ALLOC),
        }
    }

    /// Adds zero-initialised memory of `size` bytes, and a symbol for it.
    fn zeroed_symbol(&mut self, name: &str, size: u64) -> SymbolId {
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        let section = match self.machine {
            Machine::X86_64 => self.add_section(b".lbss", SectionKind::UninitializedData, flags | SHF_X86_64_LARGE),
            Machine::Aarch64 => self.add_section(b".bss", SectionKind::UninitializedData, flags),
        };
        self.object.append_section_bss(section, size, 16);
        self.add_symbol(name, section, 0, size, SymbolKind::Data, SymbolScope::Compilation)
    }

    /// Adds an empty section to an ELF object.
    fn add_section(&mut self, name: &[u8], kind: SectionKind, sh_flags: elf::SectionFlags) -> SectionId {
        let section = self.object.add_section(Vec::new(), name.to_vec(), kind);
        let sh_type = if kind == SectionKind::UninitializedData { elf::SHT_NOBITS } else { elf::SHT_PROGBITS };
        self.object.section_mut(section).flags = SectionFlags::Elf { sh_type, sh_flags };
        section
    }

    /// Adds a symbol for the `size` bytes at offset `at` of a section.
    fn add_symbol(&mut self, name: &str, section: SectionId, at: u64, size: u64, kind: SymbolKind, scope: SymbolScope) -> SymbolId {
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

    /// Adds a relocation that writes the address of `symbol` to the 64-bit word at `offset`.
    fn relocate_to_address(&mut self, section: SectionId, offset: u64, symbol: SymbolId) {
        let (kind, encoding) = (RelocationKind::Absolute, RelocationEncoding::Generic);
        let flags = RelocationFlags::Generic { kind, encoding, size: 64 };
        let relocation = Relocation { offset, symbol, addend: 0, flags };
        self.object.add_relocation(section, relocation).expect("sections of this file take relocations");
    }

    /// Adds a relocation of the given ELF type.
    fn relocate(&mut self, section: SectionId, offset: u64, symbol: SymbolId, r_type: RelocationType, addend: i64) {
        let relocation = Relocation { offset, symbol, addend, flags: RelocationFlags::Elf { r_type } };
        self.object.add_relocation(section, relocation).expect("sections of this file take relocations");
    }

    /// Returns the bytes of the object file.
    fn into_bytes(self) -> Vec<u8> {
        self.object.write().expect("the object has only what its format can hold")
    }
}
