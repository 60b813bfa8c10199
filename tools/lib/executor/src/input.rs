//! Program files of the four formats `.tile`, `.aa`, `.as` and `.sched`, and their kernels.

use crate::exec_aa::AaProgram;
use crate::exec_as::{self, DistributedOp, DistributedProgram};
use crate::exec_core::{CoreType, global_bytes};
use crate::exec_sched;
use crate::exec_tile::{TileProgram, core_elem};
use crate::listing::Listing;
use crate::memory::{Memory, Segment};
use crate::observe::Observer;
use crate::run::{Execution, LaunchRequest, Outcome, RunOptions, run};
use crate::tile::Tile;
use crate::tile::shape::to_bytes;
use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use base::ir::Operation;
use base::text::Function;
use base::{DebugInfo, File, Payload, Target, Value};
use common::Session;
use common::launch::{Call, ParamType};
use core_dialect::tile::Elem;
use sched::Phase;
use std::collections::BTreeMap;
use tileir::Type;

/// Base address of the program's globals. Buffers and allocations of tile blocks have other address ranges.
const GLOBALS_BASE: u64 = 0x4000_0000_0000_0000;

/// A program, in any of the four formats.
pub enum ProgramFile {
    Tile(File<tileir::Module>),
    Aa(File<tileaa::Module>),
    As(File<tileas::Module>),
    Sched(File<sched::Module>),
}

/// One kernel of a program.
pub struct Kernel<'a> {
    input: &'a ProgramFile,
    /// The index of the kernel among the functions of the file.
    index: usize,
    pub name: String,
    /// The types of the kernel's parameters, which are scalars or pointers.
    pub(crate) types: Vec<Elem>,
}

impl ProgramFile {
    /// Reads a program. The file contents determine the format.
    pub fn read(session: &mut Session) -> Result<ProgramFile> {
        let input = session.input()?;
        ProgramFile::decode(session, &input)
    }

    /// Reads a program, but does not run the hazard checker on a `.sched` file, so that an execution can show the error.
    pub fn read_unchecked(session: &mut Session) -> Result<ProgramFile> {
        let input = session.input()?;
        match sniff(&input.bytes) {
            Sniffed::Stage { format, .. } if format == sched::Module::FORMAT => {
                session.decode(&input).map(|file| ProgramFile::Sched(sched::UncheckedModule::into_module_file(file)))
            }
            _ => ProgramFile::decode(session, &input),
        }
    }

    /// Decodes and verifies an input of the session.
    pub fn decode(session: &mut Session, input: &common::Input) -> Result<ProgramFile> {
        input.reject_truncated()?;
        let producer = session.producer();
        session.timed("decode", |_| ProgramFile::open(&input.bytes, &input.name, &producer))
    }

    /// Decodes and verifies a program. `name` is the file name for messages, `producer` the program name for the file header.
    pub fn open(bytes: &[u8], name: &str, producer: &str) -> Result<ProgramFile> {
        let format = if let Sniffed::Stage { format, .. } = sniff(bytes) { format } else { String::new() };
        match format.as_str() {
            tileaa::Module::FORMAT => File::read(bytes, name).map(ProgramFile::Aa),
            tileas::Module::FORMAT => File::read(bytes, name).map(ProgramFile::As),
            sched::Module::FORMAT => File::read(bytes, name).map(ProgramFile::Sched),
            // Any other input is Tile IR bytecode or its text form.
            _ => tileir::import::open(bytes, name, producer).map(ProgramFile::Tile),
        }
    }

    /// Returns the names of the kernels.
    pub fn kernel_names(&self) -> Vec<&str> {
        fn names_of<O, T, A>(functions: &[Function<O, T, A>]) -> Vec<&str> {
            functions.iter().map(|function| function.name.as_str()).collect()
        }
        match self {
            ProgramFile::Tile(file) => {
                let module = &file.payload;
                module.functions.iter().map(|function| module.string(function.name)).collect()
            }
            ProgramFile::Aa(file) => names_of(&file.payload.functions),
            ProgramFile::As(file) => names_of(&file.payload.functions),
            ProgramFile::Sched(file) => names_of(&file.payload.functions),
        }
    }

    /// Returns the global variables.
    pub fn globals(&self) -> Vec<GlobalData> {
        match self {
            ProgramFile::Tile(file) => tile_globals(&file.payload).collect(),
            ProgramFile::Aa(file) => core_globals(&file.payload.globals).collect(),
            ProgramFile::As(file) => core_globals(&file.payload.globals).collect(),
            ProgramFile::Sched(file) => core_globals(&file.payload.globals).collect(),
        }
    }

    /// Returns the target of the file. `.tile` and `.aa` files have no target.
    pub fn target(&self) -> Option<Target> {
        match self {
            ProgramFile::Tile(_) | ProgramFile::Aa(_) => None,
            ProgramFile::As(file) => file.envelope.target,
            ProgramFile::Sched(file) => file.envelope.target,
        }
    }

    /// Returns the kernel with this name. With `None`, returns the only kernel of the file.
    pub fn kernel(&self, name: Option<&str>) -> Result<Kernel<'_>> {
        let names = self.kernel_names();
        let index = match (name, &names[..]) {
            (_, []) => return Err(Diagnostic::invalid("RUN067", "the file has no kernel")),
            (Some(name), _) => names.iter().position(|known| *known == name).ok_or_else(|| {
                Diagnostic::usage("RUN060", format!("no kernel is named '{name}'; the file has: {}", names.join(", ")))
            })?,
            (None, [_]) => 0,
            (None, _) => {
                let message = format!("select a kernel with --entry: {}", names.join(", "));
                return Err(Diagnostic::usage("RUN061", message));
            }
        };
        let types = match self {
            ProgramFile::Tile(file) => {
                let function = &file.payload.functions[index];
                param_elems(function.params(), |id| match file.payload.ty(*function.body.ty(id)) {
                    Type::Tile { element, shape } if shape.is_empty() => Some(core_elem(*element)),
                    _ => None,
                })
            }
            ProgramFile::Aa(file) => core_param_types(&file.payload.functions[index]),
            ProgramFile::As(file) => core_param_types(&file.payload.functions[index]),
            ProgramFile::Sched(file) => core_param_types(&file.payload.functions[index]),
        };
        Ok(Kernel { input: self, index, name: names[index].to_string(), types: types? })
    }
}

/// Returns the parameter types of a kernel of `.aa`, `.as` or `.sched`.
fn core_param_types<O: Operation, T: CoreType, A>(function: &Function<O, T, A>) -> Result<Vec<Elem>> {
    param_elems(function.params(), |id| {
        let (elem, shape) = function.body.ty(id).tile()?;
        shape.is_empty().then_some(elem)
    })
}

/// Returns the element type of each parameter: a scalar or a pointer. A parameter for which `ty` returns `None` is an error.
fn param_elems(ids: &[Value], ty: impl Fn(Value) -> Option<Elem>) -> Result<Vec<Elem>> {
    let unsupported_param =
        |id: Value| Diagnostic::unsupported("RUN062", format!("parameter {id} is neither a scalar nor a pointer"));
    ids.iter().map(|id| ty(*id).ok_or_else(|| unsupported_param(*id))).collect()
}

impl Kernel<'_> {
    /// Returns the parameter types in the form that launch descriptions use.
    pub fn param_types(&self) -> Vec<ParamType> {
        let param_type = |ty: &Elem| match ty {
            Elem::Scalar(scalar) => ParamType::Scalar(*scalar),
            Elem::Ptr { pointee, .. } => ParamType::Pointer(Some(*pointee)),
        };
        self.types.iter().map(param_type).collect()
    }

    /// Returns the listing of the kernel's ops.
    pub fn listing(&self) -> Listing {
        fn listing_of<O: Operation, T: CoreType, A>(functions: &[Function<O, T, A>], index: usize) -> Listing {
            Listing::new(&functions[index].body, functions[index].region, T::is_token)
        }
        match self.input {
            ProgramFile::Tile(file) => {
                let function = &file.payload.functions[self.index];
                Listing::new(&function.body, function.region, |ty| file.payload.ty(*ty).is_token())
            }
            ProgramFile::Aa(file) => listing_of(&file.payload.functions, self.index),
            ProgramFile::As(file) => listing_of(&file.payload.functions, self.index),
            ProgramFile::Sched(file) => listing_of(&file.payload.functions, self.index),
        }
    }

    /// Returns the debug information of the file.
    pub fn debug(&self) -> &DebugInfo {
        match self.input {
            ProgramFile::Tile(file) => &file.envelope.debug,
            ProgramFile::Aa(file) => &file.envelope.debug,
            ProgramFile::As(file) => &file.envelope.debug,
            ProgramFile::Sched(file) => &file.envelope.debug,
        }
    }

    /// Runs the kernel on the arguments of a launch until it ends or faults.
    pub fn run(
        &self,
        call: &Call,
        run_options: RunOptions,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let mut memory = Memory::default();
        for buffer in &call.launch.buffers {
            let contents = buffer.contents.clone();
            memory.add(Segment { name: buffer.name.clone(), address: buffer.address, contents, constant: false });
        }
        self.run_on(memory, &LaunchRequest::from_call(call), run_options, print, observer)
    }

    /// Runs the kernel on memory that the caller provides until it ends or faults.
    pub fn run_on(
        &self,
        mut memory: Memory,
        request: &LaunchRequest,
        run_options: RunOptions,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let globals = match self.input {
            ProgramFile::Tile(file) => place_globals(tile_globals(&file.payload), &mut memory, request),
            ProgramFile::Aa(file) => place_globals(core_globals(&file.payload.globals), &mut memory, request),
            ProgramFile::As(file) => place_globals(core_globals(&file.payload.globals), &mut memory, request),
            ProgramFile::Sched(file) => place_globals(core_globals(&file.payload.globals), &mut memory, request),
        };
        let execution = Execution { types: &self.types, request, memory, run_options, print, observer };
        match self.input {
            ProgramFile::Tile(file) => {
                let function = &file.payload.functions[self.index];
                let program = TileProgram::new(&file.payload, function, &file.envelope.debug, globals);
                run(&program, function.region, program.may_synchronise(), execution)
            }
            ProgramFile::Aa(file) => {
                let function = &file.payload.functions[self.index];
                let program = AaProgram::new(function, &file.envelope.debug, globals);
                run(&program, function.region, program.may_synchronise(), execution)
            }
            ProgramFile::As(file) => {
                let source = exec_as::source_function(&file.payload, &file.payload.functions[self.index], &file.envelope.debug);
                run_distributed(source, globals, execution)
            }
            ProgramFile::Sched(file) => {
                let phase = Phase::from_envelope(&file.envelope).expect("the verifier guarantees that the phase is known");
                let source =
                    exec_sched::source_function(&file.payload, &file.payload.functions[self.index], phase, &file.envelope.debug);
                run_distributed(source, globals, execution)
            }
        }
    }
}

/// Runs a program of `.as` or `.sched`, in which a layout distributes each tile over the threads of the CTA.
fn run_distributed<O: DistributedOp>(
    source: exec_as::SourceFunction<'_, O>,
    globals: BTreeMap<String, u64>,
    execution: Execution<'_>,
) -> Result<Outcome> {
    let region = source.region;
    let program = DistributedProgram::new(source, globals)?;
    run(&program, region, program.may_synchronise(), execution)
}

/// A global variable with its initial bytes.
pub struct GlobalData {
    pub name: String,
    pub data: Vec<u8>,
    pub align: u64,
    /// Whether kernels only read the variable.
    pub constant: bool,
}

/// Returns the globals of `.aa`, `.as` or `.sched`.
fn core_globals(globals: &[core_dialect::tile::Global]) -> impl Iterator<Item = GlobalData> {
    globals.iter().map(|global| GlobalData {
        name: global.name.clone(),
        data: global_bytes(global),
        align: global.align,
        constant: global.constant,
    })
}

/// Returns the globals of `.tile`.
fn tile_globals(module: &tileir::Module) -> impl Iterator<Item = GlobalData> {
    module.globals.iter().map(|global| {
        let (element, shape) = module.tile(global.ty);
        let elem = core_elem(element);
        let element_words = numerics::arith::ElementWords::collect(elem.carrier(), module.elements(global.value, global.ty));
        let tile = Tile::new(shape.iter().map(|dim| *dim as u32).collect(), elem, element_words);
        let name = module.string(global.name).to_string();
        GlobalData { name, data: to_bytes(&tile), align: global.alignment, constant: global.constant }
    })
}

/// Allocates the globals that are not in memory yet. Returns the addresses of all globals.
fn place_globals(globals: impl Iterator<Item = GlobalData>, memory: &mut Memory, request: &LaunchRequest) -> BTreeMap<String, u64> {
    let mut next_free = GLOBALS_BASE;
    let mut addresses = request.global_addresses.clone();
    for GlobalData { name, data, align, constant } in globals {
        if addresses.contains_key(&name) {
            continue;
        }
        let address = next_free.next_multiple_of(align.clamp(16, 1 << 20).next_power_of_two());
        next_free = address + data.len() as u64 + 1;
        memory.add(Segment { name: format!("@{name}"), address, contents: data.into(), constant });
        addresses.insert(name, address);
    }
    addresses
}
