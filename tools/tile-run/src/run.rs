//! From a file and its arguments to the memory afterwards.

use crate::arguments::{Arguments, bits};
use crate::check::{Check, Checked};
use crate::exec::Program;
use crate::exec::schedule::{Job, changes};
use crate::exec_aa::AaProgram;
use crate::exec_as::{self, SpreadProgram, Step};
use crate::exec_core::global_bytes;
use crate::exec_sched;
use crate::exec_tile::{TileProgram, elem};
use crate::memory::{Memory, Segment};
use crate::tile::Tile;
use crate::tile::shape::to_bytes;
use crate::trace::Trace;
use crate::value::Value;
use crate::world::Shared;
use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use base::ir::Operation;
use base::tile::Elem;
use base::{File, Payload, Region};
use common::Session;
use sched::Phase;
use std::collections::{BTreeMap, BTreeSet};
use tileir::Type;

/// Where the program's globals are.
const GLOBALS: u64 = 0x4000_0000_0000_0000;

/// A program of any format that can be executed.
pub(crate) enum Input {
    Tile(File<tileir::Module>),
    Aa(File<tileaa::Module>),
    As(File<tileas::Module>),
    Sched(File<sched::Module>),
}

/// One kernel of a program.
pub(crate) struct Kernel<'a> {
    input: &'a Input,
    index: usize,
    /// The types of its parameters, which are scalars or pointers.
    pub(crate) types: Vec<Elem>,
}

impl Input {
    /// The file decides what it is.
    pub(crate) fn read(session: &mut Session) -> Result<Input> {
        let input = session.input()?;
        match sniff(&input.bytes) {
            Sniffed::Stage { format, .. } if format == tileaa::Module::FORMAT => session.decode(&input).map(Input::Aa),
            Sniffed::Stage { format, .. } if format == tileas::Module::FORMAT => session.decode(&input).map(Input::As),
            Sniffed::Stage { format, .. } if format == sched::Module::FORMAT => session.decode(&input).map(Input::Sched),
            Sniffed::Stage { format, .. } if format != tileir::Module::FORMAT && !format.is_empty() => {
                let message =
                    format!("{} is a {format} file; tile-run executes tileir, tileaa, tileas and sched files", input.name);
                Err(Diagnostic::unsupported("RUN066", message))
            }
            _ => {
                input.refuse_cut()?;
                let producer = session.producer();
                session.timed("decode", |_| tileir::import::open(&input.bytes, &input.name, &producer)).map(Input::Tile)
            }
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Input::Tile(file) => {
                let module = &file.payload;
                module.functions.iter().map(|function| module.string(function.name)).collect()
            }
            Input::Aa(file) => file.payload.functions.iter().map(|function| function.name.as_str()).collect(),
            Input::As(file) => file.payload.functions.iter().map(|function| function.name.as_str()).collect(),
            Input::Sched(file) => file.payload.functions.iter().map(|function| function.name.as_str()).collect(),
        }
    }

    /// The kernel named, or the only one.
    pub(crate) fn kernel(&self, name: Option<&str>) -> Result<Kernel<'_>> {
        let names = self.names();
        let index = match name {
            Some(name) => names.iter().position(|known| *known == name).ok_or_else(|| {
                Diagnostic::usage("RUN060", format!("no kernel is called '{name}'; there are: {}", names.join(", ")))
            })?,
            None if names.len() == 1 => 0,
            None => return Err(Diagnostic::usage("RUN061", format!("name one of the kernels with --entry: {}", names.join(", ")))),
        };
        let types: Result<Vec<Elem>> = match self {
            Input::Tile(file) => {
                let function = &file.payload.functions[index];
                let types = function.params().iter().map(|id| match file.payload.ty(*function.body.ty(*id)) {
                    Type::Tile { element, shape } if shape.is_empty() => Ok(elem(*element)),
                    _ => Err(wrong_parameter(*id)),
                });
                types.collect()
            }
            Input::Aa(file) => {
                let function = &file.payload.functions[index];
                let types = function.params().iter().map(|id| match function.body.ty(*id).tile() {
                    Some((elem, shape)) if shape.is_empty() => Ok(elem),
                    _ => Err(wrong_parameter(*id)),
                });
                types.collect()
            }
            Input::As(file) => spread_types(&file.payload.functions[index]),
            Input::Sched(file) => spread_types(&file.payload.functions[index]),
        };
        Ok(Kernel { input: self, index, types: types? })
    }
}

fn spread_types<O: Operation, A>(function: &base::text::Function<O, tileas::Type, A>) -> Result<Vec<Elem>> {
    let types = function.params().iter().map(|id| match function.body.ty(*id) {
        tileas::Type::Scalar(elem) => Ok(*elem),
        _ => Err(wrong_parameter(*id)),
    });
    types.collect()
}

fn wrong_parameter(id: base::Value) -> Box<Diagnostic> {
    Diagnostic::unsupported("RUN062", format!("parameter {id} is neither a scalar nor a pointer"))
}

/// How to watch the run.
pub(crate) struct Watch {
    /// Ops that a block may execute.
    pub(crate) limit: u64,
    pub(crate) trace: Option<Trace>,
    pub(crate) checks: BTreeSet<Check>,
}

/// What a run leaves.
pub(crate) struct Outcome {
    pub(crate) memory: Memory,
    /// What `--check` found.
    pub(crate) findings: Vec<Diagnostic>,
    /// The failure that ended the run before its end.
    pub(crate) failure: Option<Box<Diagnostic>>,
}

impl Kernel<'_> {
    pub(crate) fn run(&self, arguments: &Arguments, watch: Watch, print: &mut dyn FnMut(&str)) -> Result<Outcome> {
        let mut memory = Memory::default();
        for buffer in &arguments.launch.buffers {
            let data = buffer.data.clone();
            memory.add(Segment { name: buffer.name.clone(), address: buffer.address, data, constant: false });
        }
        match self.input {
            Input::Tile(file) => {
                let function = &file.payload.functions[self.index];
                let globals = place_globals(tile_globals(&file.payload), &mut memory);
                let program = TileProgram::new(&file.payload, function, &file.envelope.debug, globals);
                let in_turns = program.synchronises();
                run(&program, function.region, &self.types, in_turns, arguments, memory, watch, print)
            }
            Input::Aa(file) => {
                let function = &file.payload.functions[self.index];
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let program = AaProgram { function, debug: &file.envelope.debug, globals };
                let in_turns = program.synchronises();
                run(&program, function.region, &self.types, in_turns, arguments, memory, watch, print)
            }
            Input::As(file) => {
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let source = exec_as::source(&file.payload, &file.payload.functions[self.index], &file.envelope.debug);
                self.run_spread(source, globals, memory, arguments, watch, print)
            }
            Input::Sched(file) => {
                let globals = place_globals(dense_globals(&file.payload.globals), &mut memory);
                let phase = Phase::of(&file.envelope).expect("the verifier holds that the phase is known");
                let source = exec_sched::source(&file.payload, &file.payload.functions[self.index], phase, &file.envelope.debug);
                self.run_spread(source, globals, memory, arguments, watch, print)
            }
        }
    }

    fn run_spread<O: Step>(
        &self,
        source: exec_as::Source<'_, O>,
        globals: BTreeMap<String, u64>,
        memory: Memory,
        arguments: &Arguments,
        watch: Watch,
        print: &mut dyn FnMut(&str),
    ) -> Result<Outcome> {
        let region = source.region;
        let program = SpreadProgram::new(source, globals)?;
        let in_turns = program.synchronises();
        run(&program, region, &self.types, in_turns, arguments, memory, watch, print)
    }
}

fn dense_globals(globals: &[base::tile::Global]) -> impl Iterator<Item = GlobalData> {
    globals.iter().map(|global| GlobalData {
        name: global.name.clone(),
        data: global_bytes(global),
        align: global.align,
        constant: global.constant,
    })
}

struct GlobalData {
    name: String,
    data: Vec<u8>,
    align: u64,
    constant: bool,
}

fn tile_globals(module: &tileir::Module) -> impl Iterator<Item = GlobalData> {
    module.globals.iter().map(|global| {
        let (element, shape) = module.tile(global.ty);
        let elem = elem(element);
        let lanes = base::arith::Lanes::collect(elem.carrier(), module.elements(global.value, global.ty));
        let tile = Tile::new(shape.iter().map(|dim| *dim as u32).collect(), elem, lanes);
        let name = module.string(global.name).to_string();
        GlobalData { name, data: to_bytes(&tile), align: global.alignment, constant: global.constant }
    })
}

/// Puts globals into memory and says where.
fn place_globals(globals: impl Iterator<Item = GlobalData>, memory: &mut Memory) -> BTreeMap<String, u64> {
    let mut next = GLOBALS;
    let mut places = BTreeMap::new();
    for GlobalData { name, data, align, constant } in globals {
        let address = next.next_multiple_of(align.clamp(16, 1 << 20).next_power_of_two());
        next = address + data.len() as u64 + 1;
        memory.add(Segment { name: format!("@{name}"), address, data, constant });
        places.insert(name, address);
    }
    places
}

/// Runs a kernel of any format.
fn run<P: Program>(
    program: &P,
    region: Region,
    types: &[Elem],
    in_turns: bool,
    arguments: &Arguments,
    mut memory: Memory,
    watch: Watch,
    print: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let launch = &arguments.launch;
    if launch.params.len() != types.len() {
        let message = format!("{} arguments for a kernel of {} parameters", launch.params.len(), types.len());
        return Err(Diagnostic::invalid("RUN063", message));
    }
    let values = launch.params.iter().zip(types).map(|(param, ty)| Ok(Value::Tile(Tile::scalar(*ty, bits(param, *ty, launch)?))));
    let values = values.collect::<Result<Vec<_>>>()?;
    let turns = in_turns || watch.trace.is_some();
    let job = Job { program, region, arguments: values, grid: launch.grid, limit: watch.limit, trace: watch.trace };
    if !watch.checks.is_empty() {
        let mut world = Checked::new(memory, watch.checks, &arguments.empty);
        let result = job.in_turns(&mut world, |world| world.memory().changes, print);
        let findings = world.diagnostics(program.debug());
        return Ok(Outcome { findings, failure: result.err(), memory: world.into_memory() });
    }
    let failure = if turns {
        let mut world = Shared::new(memory);
        let result = job.in_turns(&mut world, changes, print);
        memory = world.memory;
        result.err()
    } else {
        job.together(&mut memory, print).err()
    };
    Ok(Outcome { memory, findings: Vec::new(), failure })
}
