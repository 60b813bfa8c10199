//! `tile-run`: executes Tile IR on the CPU. It defines for this project what a program means, and shares no lowering code with
//! the stages.
//!
//! Where the definition of Tile IR leaves freedom, the answer here is always the same one:
//!
//! | what | here |
//! |---|---|
//! | order of a reduction | neighbours pairwise, then their results, and so on ([`tile::fold`]), the lower index on the left; identities are not folded in |
//! | order of a scan | one after the other, from the first element, what came before on the left |
//! | matrix products | along K in order, each product and sum rounded to f32 (f64 for f64 and scaled products), then once to the accumulator |
//! | `approx`, `full`, transcendental functions | the host's f64 function, rounded once |
//! | NaN that is computed | one bit pattern for each type |
//! | float to integer out of range | clamped, NaN is 0; eight bits and fewer are cut from sixteen |
//! | float to eight bits and fewer | saturates, also from infinity |
//! | shifts by the width or more | everything is shifted out |
//! | division and remainder by zero | all ones, as the hardware gives |
//! | loads outside a tensor without padding, or masked without padding | zero |
//! | `for` with a step that is not positive | refused, when it would run |
//! | accesses outside all buffers | refused |
//! | grid dependencies (`gdc_*`), alias fences | nothing to wait for: one grid runs at a time and memory has one mapping |
//! | order of blocks | see [`exec::schedule`] |

mod arguments;
mod check;
mod exec;
mod exec_aa;
mod exec_as;
mod exec_core;
mod exec_sched;
mod exec_tile;
mod input;
mod memory;
mod npy;
mod print;
mod run;
mod tile;
mod trace;
mod value;
mod world;

use arguments::{Abi, Arguments};
use base::diag::{Diagnostic, Result};
use check::Check;
use common::{About, Session};
use input::Input;
use numerics::Scalar;
use run::Watch;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use trace::Trace;
use vocabulary::tile::Elem;

const ABOUT: About = About {
    name: "tile-run",
    summary: "Executes a kernel on the CPU, and checks it for faults",
    examples: &[
        ("tile-run k.tile --launch launch.json --out-dir out", "arguments from a description, outputs as raw bytes"),
        ("tile-run k.tile --grid 4 a.npy b.npy zeros:f32[1024] 1024 --out-dir out", "each word one parameter, outputs as .npy"),
        ("tile-run k.tile --abi=cutile --grid 4 a.npy zeros:f32[1024] --print-outputs", "arrays as cuTile passes them"),
        ("tile-run k.tile --check --launch launch.json", "faults, races, missing tokens, broken assumptions"),
        ("tile-run k.tile --trace=op=mmaf,block=0 --launch launch.json", "results as they are computed"),
    ],
    passes: &[],
};

#[derive(clap::Args)]
struct Options {
    /// Arguments, one for each parameter: a number, a .npy file, or `FILL:TYPE[SHAPE]` with FILL one of zeros, ones, iota, empty
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    words: Vec<String>,
    /// Description of grid, buffers and arguments
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "grid"])]
    launch: Option<PathBuf>,
    /// Tile blocks along each dimension [default: 1]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = arguments::parse_grid)]
    grid: Option<[u32; 3]>,
    /// Kernel to run, where the file has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Folder for the outputs
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// How an array is passed
    #[arg(long, value_name = "ABI", value_enum, default_value_t = Abi::Pointer)]
    abi: Abi,
    /// Print the outputs, shortened
    #[arg(long)]
    print_outputs: bool,
    /// Look for faults; all kinds but nan when none is named
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',', num_args = 0.., require_equals = true)]
    check: Option<Vec<Check>>,
    /// Print each op's result; FILTER is `op=NAME`, `block=X[:Y[:Z]]`, `loc=[FILE:]LINE`, with commas between
    #[arg(long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = Trace::parse)]
    trace: Option<Trace>,
    /// Stop a block that executes more ops than this, such as one that never ends
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    max_ops: u64,
}

/// Stack of the threads that run blocks; reductions inside each other take some.
const STACK: usize = 64 << 20;

fn main() -> std::process::ExitCode {
    // It fails only where a pool exists already, and there is none.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK).build_global();
    common::runner::<Options>(&ABOUT, execute)
}

fn execute(session: &mut Session, options: &Options) -> Result<()> {
    let input = Input::read(session)?;
    let launch = options.launch.as_ref().map(|path| Arguments::from_file(path)).transpose()?;
    let named = options.entry.as_deref().or(launch.as_ref().and_then(|launch| launch.launch.entry.as_deref()));
    let kernel = input.kernel(named)?;
    let arguments = match launch {
        Some(launch) => launch,
        None => Arguments::from_words(&options.words, &kernel.types, options.grid.unwrap_or([1; 3]), options.abi)?,
    };
    if session.verify_only() {
        return Ok(());
    }
    let print = &mut |text: &str| {
        // What a kernel prints goes to standard output; one that is closed is no reason to stop.
        let _ = std::io::stdout().write_all(text.as_bytes());
    };
    let outcome = session.timed("run", |_| kernel.run(&arguments, watch(options), print))?;
    outcome.findings.iter().for_each(|finding| session.report(finding));
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    write_outputs(options, &arguments, &outcome.memory)?;
    if options.print_outputs {
        print_outputs(&arguments, &kernel.types, &outcome.memory);
    }
    match outcome.findings.len() {
        0 => Ok(()),
        1 => Err(Diagnostic::invalid("RUN064", "the program has a fault")),
        count => Err(Diagnostic::invalid("RUN064", format!("the program has {count} faults"))),
    }
}

fn watch(options: &Options) -> Watch {
    let checks: BTreeSet<Check> = match options.check.as_deref() {
        None => BTreeSet::new(),
        Some([]) => Check::USUAL.into(),
        Some(named) => named.iter().copied().collect(),
    };
    Watch { limit: options.max_ops, trace: options.trace.clone(), checks }
}

fn bytes<'a>(arguments: &Arguments, memory: &'a memory::Memory, name: &str) -> Option<&'a [u8]> {
    let address = arguments.launch.address(name).ok()?;
    memory.segment(address).map(|segment| &segment.data[..])
}

fn write_outputs(options: &Options, arguments: &Arguments, memory: &memory::Memory) -> Result<()> {
    let Some(folder) = &options.out_dir else { return Ok(()) };
    if options.launch.is_some() {
        return arguments.launch.write_outputs(folder, |name| bytes(arguments, memory, name));
    }
    let failed = |path: &std::path::Path, error: std::io::Error| Diagnostic::io("RUN065", format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, before) in &arguments.arrays {
        let data = bytes(arguments, memory, name).unwrap_or_default().to_vec();
        let path = folder.join(format!("{name}.npy"));
        let array = npy::Array { data, ..before.clone() };
        std::fs::write(&path, array.to_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Each output as a tile of what the parameter points to.
fn print_outputs(arguments: &Arguments, types: &[Elem], memory: &memory::Memory) {
    for name in &arguments.launch.outputs {
        let data = bytes(arguments, memory, name).unwrap_or_default();
        let parameter = arguments.launch.params.iter().position(|param| *param == common::launch::Param::Ptr(name.clone()));
        let pointee = match parameter.and_then(|index| types.get(index)) {
            Some(Elem::Ptr { pointee, .. }) => *pointee,
            _ => Scalar::I8,
        };
        let elem = Elem::Scalar(pointee);
        let whole = &data[..data.len() / pointee.bytes() as usize * pointee.bytes() as usize];
        let lanes = tile::shape::from_bytes(elem, whole);
        let array = arguments.arrays.iter().find(|(array, _)| array == name).map(|(_, array)| array);
        let shape = array.map(|array| array.shape.iter().map(|dim| *dim as u32).collect::<vocabulary::tile::Shape>());
        let shape = shape.filter(|shape| vocabulary::tile::element_count(shape) == lanes.len());
        let shape = shape.unwrap_or_else(|| [lanes.len() as u32].into_iter().collect());
        let _ = writeln!(std::io::stdout(), "{name}: {}", print::shortened(&tile::Tile::new(shape, elem, lanes)));
    }
}
