//! A program (a file of any of the four formats) and its kernels.

use crate::exec_aa::AaProgram;
use crate::exec_as::{self, DistributedProgram, Step};
use crate::exec_core::{Typed, global_bytes};
use crate::exec_sched;
use crate::exec_tile::{TileProgram, elem};
use crate::listing::Listing;
use crate::memory::{Memory, Segment};
use crate::observe::Observer;
use crate::run::{Outcome, Request, Watch, run};
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

/// Base address of the program's globals.
const GLOBALS: u64 = 0x4000_0000_0000_0000;

/// A program: a file of any of the four formats.
pub enum Input {
    Tile(File<tileir::Module>),
    Aa(File<tileaa::Module>),
    As(File<tileas::Module>),
    Sched(File<sched::Module>),
}

/// One kernel of a program.
pub struct Kernel<'a> {
    input: &'a Input,
    index: usize,
    pub name: String,
    /// The types of its parameters, which are scalars or pointers.
    pub(crate) types: Vec<Elem>,
}

impl Input {
    /// Reads a program. The file contents determine the format.
    pub fn read(session: &mut Session) -> Result<Input> {
        let input = session.input()?;
        Input::decode(session, &input)
    }

    /// Reads a program without running the hazard checker on a `.sched` file.
    pub fn read_unchecked(session: &mut Session) -> Result<Input> {
        let input = session.input()?;
        match sniff(&input.bytes) {
            Sniffed::Stage { format, .. } if format == sched::Module::FORMAT => {
                session.decode(&input).map(|file| Input::Sched(sched::UncheckedModule::file(file)))
            }
            _ => Input::decode(session, &input),
        }
    }

    pub fn decode(session: &mut Session, input: &common::Input) -> Result<Input> {
        input.refuse_truncated()?;
        let producer = session.producer();
        session.timed("decode", |_| Input::open(&input.bytes, &input.name, &producer))
    }

    /// Decodes and verifies a program. `name` is for messages.
    pub fn open(bytes: &[u8], name: &str, producer: &str) -> Result<Input> {
        let format = if let Sniffed::Stage { format, .. } = sniff(bytes) { format } else { String::new() };
        match format.as_str() {
            tileaa::Module::FORMAT => File::read(bytes, name).map(Input::Aa),
            tileas::Module::FORMAT => File::read(bytes, name).map(Input::As),
            sched::Module::FORMAT => File::read(bytes, name).map(Input::Sched),
            // Any other input is Tile IR bytecode or its text form.
            _ => tileir::import::open(bytes, name, producer).map(Input::Tile),
        }
    }

    /// Returns the names of the kernels.
    pub fn names(&self) -> Vec<&str> {
        fn all<O, T, A>(functions: &[Function<O, T, A>]) -> Vec<&str> {
            functions.iter().map(|function| function.name.as_str()).collect()
        }
        match self {
            Input::Tile(file) => {
                let module = &file.payload;
                module.functions.iter().map(|function| module.string(function.name)).collect()
            }
            Input::Aa(file) => all(&file.payload.functions),
            Input::As(file) => all(&file.payload.functions),
            Input::Sched(file) => all(&file.payload.functions),
        }
    }

    /// Returns the target of the file. Formats before `.as` have none.
    pub fn target(&self) -> Option<Target> {
        match self {
            Input::Tile(_) | Input::Aa(_) => None,
            Input::As(file) => file.envelope.target,
            Input::Sched(file) => file.envelope.target,
        }
    }

    /// Returns the named kernel, or the only kernel.
    pub fn kernel(&self, name: Option<&str>) -> Result<Kernel<'_>> {
        let names = self.names();
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
            Input::Tile(file) => {
                let function = &file.payload.functions[index];
                scalars(function.params(), |id| match file.payload.ty(*function.body.ty(id)) {
                    Type::Tile { element, shape } if shape.is_empty() => Some(elem(*element)),
                    _ => None,
                })
            }
            Input::Aa(file) => parameters(&file.payload.functions[index]),
            Input::As(file) => parameters(&file.payload.functions[index]),
            Input::Sched(file) => parameters(&file.payload.functions[index]),
        };
        Ok(Kernel { input: self, index, name: names[index].to_string(), types: types? })
    }
}

fn parameters<O: Operation, T: Typed, A>(function: &Function<O, T, A>) -> Result<Vec<Elem>> {
    scalars(function.params(), |id| {
        let (elem, shape) = function.body.ty(id).tile()?;
        shape.is_empty().then_some(elem)
    })
}

fn scalars(ids: &[Value], ty: impl Fn(Value) -> Option<Elem>) -> Result<Vec<Elem>> {
    let wrong = |id: Value| Diagnostic::unsupported("RUN062", format!("parameter {id} is neither a scalar nor a pointer"));
    ids.iter().map(|id| ty(*id).ok_or_else(|| wrong(*id))).collect()
}

impl Kernel<'_> {
    /// Returns the parameter types in the form that launch descriptions use.
    pub fn param_types(&self) -> Vec<ParamType> {
        let of = |ty: &Elem| match ty {
            Elem::Scalar(scalar) => ParamType::Scalar(*scalar),
            Elem::Ptr { pointee, .. } => ParamType::Pointer(Some(*pointee)),
        };
        self.types.iter().map(of).collect()
    }

    /// Returns the ops of the kernel.
    pub fn listing(&self) -> Listing {
        fn of<O: Operation, T, A>(functions: &[Function<O, T, A>], index: usize) -> Listing {
            Listing::new(&functions[index].body, functions[index].region)
        }
        match self.input {
            Input::Tile(file) => {
                let function = &file.payload.functions[self.index];
                Listing::new(&function.body, function.region)
            }
            Input::Aa(file) => of(&file.payload.functions, self.index),
            Input::As(file) => of(&file.payload.functions, self.index),
            Input::Sched(file) => of(&file.payload.functions, self.index),
        }
    }

    /// Returns the debug information of the file.
    pub fn debug(&self) -> &DebugInfo {
        match self.input {
            Input::Tile(file) => &file.envelope.debug,
            Input::Aa(file) => &file.envelope.debug,
            Input::As(file) => &file.envelope.debug,
            Input::Sched(file) => &file.envelope.debug,
        }
    }

    /// Runs the kernel on the arguments of a launch until it ends or faults.
    pub fn run(&self, call: &Call, watch: Watch, print: &mut dyn FnMut(&str), observer: &mut dyn Observer) -> Result<Outcome> {
        let mut memory = Memory::default();
        for buffer in &call.launch.buffers {
            let contents = buffer.contents.clone();
            memory.add(Segment { name: buffer.name.clone(), address: buffer.address, contents, constant: false });
        }
        self.run_on(memory, &Request::of(call), watch, print, observer)
    }

    /// Runs the kernel on memory that the caller provides until it ends or faults.
    pub fn run_on(
        &self,
        mut memory: Memory,
        request: &Request,
        watch: Watch,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        match self.input {
            Input::Tile(file) => {
                let function = &file.payload.functions[self.index];
                let globals = place_globals(tile_globals(&file.payload), &mut memory);
                let program = TileProgram::new(&file.payload, function, &file.envelope.debug, globals);
                run(&program, function.region, &self.types, program.synchronises(), request, memory, watch, print, observer)
            }
            Input::Aa(file) => {
                let function = &file.payload.functions[self.index];
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let program = AaProgram::new(function, &file.envelope.debug, globals);
                run(&program, function.region, &self.types, program.synchronises(), request, memory, watch, print, observer)
            }
            Input::As(file) => {
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let source = exec_as::source(&file.payload, &file.payload.functions[self.index], &file.envelope.debug);
                self.run_distributed(source, globals, memory, request, watch, print, observer)
            }
            Input::Sched(file) => {
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let phase = Phase::of(&file.envelope).expect("the verifier guarantees that the phase is known");
                let source = exec_sched::source(&file.payload, &file.payload.functions[self.index], phase, &file.envelope.debug);
                self.run_distributed(source, globals, memory, request, watch, print, observer)
            }
        }
    }

    fn run_distributed<O: Step>(
        &self,
        source: exec_as::Source<'_, O>,
        globals: BTreeMap<String, u64>,
        memory: Memory,
        request: &Request,
        watch: Watch,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let region = source.region;
        let program = DistributedProgram::new(source, globals)?;
        run(&program, region, &self.types, program.synchronises(), request, memory, watch, print, observer)
    }
}

struct GlobalData {
    name: String,
    data: Vec<u8>,
    align: u64,
    constant: bool,
}

/// Returns the globals of the formats after `.tile`.
fn dense_globals(globals: &[core_dialect::tile::Global]) -> impl Iterator<Item = GlobalData> {
    globals.iter().map(|global| GlobalData {
        name: global.name.clone(),
        data: global_bytes(global),
        align: global.align,
        constant: global.constant,
    })
}

fn tile_globals(module: &tileir::Module) -> impl Iterator<Item = GlobalData> {
    module.globals.iter().map(|global| {
        let (element, shape) = module.tile(global.ty);
        let elem = elem(element);
        let lanes = numerics::arith::Lanes::collect(elem.carrier(), module.elements(global.value, global.ty));
        let tile = Tile::new(shape.iter().map(|dim| *dim as u32).collect(), elem, lanes);
        let name = module.string(global.name).to_string();
        GlobalData { name, data: to_bytes(&tile), align: global.alignment, constant: global.constant }
    })
}

/// Allocates globals in memory. Returns their addresses.
fn place_globals(globals: impl Iterator<Item = GlobalData>, memory: &mut Memory) -> BTreeMap<String, u64> {
    let mut next = GLOBALS;
    let mut places = BTreeMap::new();
    for GlobalData { name, data, align, constant } in globals {
        let address = next.next_multiple_of(align.clamp(16, 1 << 20).next_power_of_two());
        next = address + data.len() as u64 + 1;
        memory.add(Segment { name: format!("@{name}"), address, contents: data.into(), constant });
        places.insert(name, address);
    }
    places
}
