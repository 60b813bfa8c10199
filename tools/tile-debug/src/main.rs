//! `tile-debug`: a debugger for Tile IR on the CPU. [`engine`] decides where a run stops; [`terminal`] and [`protocol`] are its two
//! front ends. The `executor` crate defines the semantics of kernels.

mod call_stack;
mod compare;
mod debuggee;
mod engine;
mod expression;
mod names;
mod protocol;
mod scene;
mod session_settings;
mod terminal;
mod values;

use base::diag::{Diagnostic, Result};
use common::launch::LaunchOptions;
use common::options::GpuName;
use common::{About, Session};
use compare::Recording;
use debuggee::Debuggee;
use executor::ProgramFile;
use session_settings::Control;
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-debug",
    summary: "Debugs a kernel on the CPU, in a terminal or from an editor",
    examples: &[
        ("tile-debug k.tile --launch launch.json", "interactive; 'help' lists the commands"),
        ("tile-debug k.tileirbc --grid 4 a.npy zeros:f32[1024]", "bytecode, one argument per parameter"),
        ("tile-debug k.tile --launch launch.json -e 'break 12 if block.x == 3' -e continue -e 'print acc'", "run commands first"),
        ("tile-debug k.sched --launch launch.json --against k.tile", "stop at the first different value"),
        ("tile-debug --dap", "serve the Debug Adapter Protocol on standard input and output"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args, Clone)]
struct Options {
    #[command(flatten)]
    launch: LaunchOptions,
    #[command(flatten)]
    target: GpuName,
    /// Serve the Debug Adapter Protocol; the launch request names the program
    #[arg(long)]
    dap: bool,
    /// Run this command before the first prompt
    #[arg(short, long, value_name = "COMMAND")]
    execute: Vec<String>,
    /// The tile block to debug; the others run without stopping
    #[arg(long, value_name = "X[:Y[:Z]]")]
    block: Option<String>,
    /// File of another stage of the same program; stop at the first different value
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Tolerance for floats, relative to the largest element of the tile [default: depends on the type]
    #[arg(long, value_name = "X", requires = "against")]
    tolerance: Option<f64>,
    /// Source file, or folder with source files, if they are not at the paths in the program
    #[arg(long, value_name = "PATH")]
    source: Vec<PathBuf>,
    /// Meaning of a line
    #[arg(long, value_name = "KIND", value_enum, default_value_t = LineKind::Source)]
    lines: LineKind,
    /// Do not stop at these faults: memory, init, token, race, assume, facts, nan, difference
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = parse_fault)]
    ignore: Vec<String>,
    /// Maximum number of ops per block, to stop endless loops
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    max_ops: u64,
    /// Seed of the order in which the warp roles of a CTA run; each seed is deterministic
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    schedule_seed: u64,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum LineKind {
    /// Source lines; ops if the program has no source locations
    Source,
    /// The ops of the program, one per line
    Ops,
}

fn main() -> std::process::ExitCode {
    executor::prepare_threads();
    common::interactive::<Options>(&ABOUT, |session, options| match options.dap {
        true => protocol::serve(session),
        false => debug_at_terminal(session, options),
    })
}

/// Checks a keyword of `--ignore`.
fn parse_fault(keyword: &str) -> std::result::Result<String, String> {
    let keywords: Vec<&str> =
        session_settings::FAULTS.iter().map(|(_, keyword, _)| *keyword).chain([session_settings::DIFFERENCE]).collect();
    if keywords.contains(&keyword) { Ok(keyword.into()) } else { Err(format!("there are {}", keywords.join(", "))) }
}

/// Parses `3`, `3:1` or `3:1:0` as the coordinates of a tile block, and returns its linear index. Returns `None` for `all`.
fn parse_block(text: &str, grid: [u32; 3]) -> std::result::Result<Option<u64>, String> {
    if ["", "all"].contains(&text) {
        return Ok(None);
    }
    let coordinates: std::result::Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
    let coordinates = coordinates.ok().filter(|coordinates| (1..=3).contains(&coordinates.len()));
    let coordinates = coordinates.ok_or_else(|| format!("'{text}' is not a tile block; expected X[:Y[:Z]] or all"))?;
    let position = [0, 1, 2].map(|axis| coordinates.get(axis).copied().unwrap_or(0));
    if position.iter().zip(grid).any(|(position, extent)| *position >= extent) {
        return Err(format!("there is no tile block {position:?} in a grid of {grid:?}"));
    }
    let [x, y, z] = position.map(u64::from);
    Ok(Some((z * u64::from(grid[1]) + y) * u64::from(grid[0]) + x))
}

/// Debugs the program of the command line with the terminal front end.
fn debug_at_terminal(session: &mut Session, options: &Options) -> Result<()> {
    let input = session.input()?;
    let program = ProgramFile::decode(session, &input)?;
    debug(session, options, &program, |debuggee, control, recording| {
        let mut terminal = terminal::Terminal::new(debuggee, &options.execute);
        if let Some(recording) = recording {
            terminal.print(&format!("{} values can be compared with {}", recording.count(), recording.name));
        }
        engine::debug(debuggee, control, &mut terminal, recording)
    })
}

/// Prepares the program and, for `--against`, records the values of the other stage. Then calls `start`, which runs a front end.
fn debug(
    session: &mut Session,
    options: &Options,
    program: &ProgramFile,
    start: impl FnOnce(&Debuggee<'_>, &mut Control, Option<&Recording>) -> Result<()>,
) -> Result<()> {
    let other_input = match &options.against {
        Some(path) => Some(ProgramFile::decode(session, &common::read_file(Some(path))?)?),
        None => None,
    };
    let debuggee = open_debuggee(options, program, options.lines == LineKind::Ops)?;
    let mut control = Control::new(options.max_ops, options.schedule_seed);
    control.ignored_faults = options.ignore.iter().cloned().collect();
    let block = parse_block(options.block.as_deref().unwrap_or(""), debuggee.call.grid);
    control.block = block.map_err(|error| Diagnostic::usage("DBG004", format!("--block: {error}")))?;
    let recording = match (&other_input, &options.against) {
        (Some(other_input), Some(path)) => {
            let other_debuggee = open_debuggee(options, other_input, true)?;
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            Some(session.timed("compare", |_| Recording::new(&name, &other_debuggee, &debuggee, &control, options.tolerance))?)
        }
        _ => None,
    };
    if session.verify_only() {
        return Ok(());
    }
    start(&debuggee, &mut control, recording.as_ref())
}

/// Opens the launch of a program and prepares its kernel. If `by_ops` is true, the debugger shows a listing with one op per line
/// instead of the source, and steps through this listing.
fn open_debuggee<'a>(options: &Options, program: &'a ProgramFile, by_ops: bool) -> Result<Debuggee<'a>> {
    let opened = options.launch.open()?;
    let kernel = program.kernel(opened.entry())?;
    let call = opened.call(&kernel.name, &kernel.param_types(), program.target().or(options.target.gpu_name))?;
    Ok(Debuggee::new(kernel, call, &options.source, by_ops))
}
