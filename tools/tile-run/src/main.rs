//! `tile-run`: executes Tile IR on the CPU and writes the kernel's outputs. The crate [`executor`] defines the semantics of
//! kernels.

use base::diag::{Diagnostic, Result};
use base::nearest::did_you_mean;
use common::launch::LaunchOptions;
use common::options::GpuName;
use common::{About, Session};
use executor::{Check, NoopObserver, Observer, ProgramFile, RunOptions, Trace};
use std::collections::BTreeSet;
use std::io::Write as _;

const ABOUT: About = About {
    name: "tile-run",
    summary: "Executes a kernel on the CPU, and checks it for faults",
    examples: &[
        ("tile-run k.tile --launch launch.json --out-dir out", "arguments from a description, outputs as raw bytes"),
        ("tile-run k.tile --grid 4 a.npy b.npy zeros:f32[1024] 1024 --out-dir out", "one argument per parameter, outputs as .npy"),
        ("tile-run k.tile --abi=cutile --grid 4 a.npy zeros:f32[1024] --print-outputs", "arrays as cuTile passes them"),
        ("tile-run k.tile --check --launch launch.json", "faults, races, missing tokens, violated assumptions"),
        ("tile-run k.as --launch launch.json --sample-blocks", "a sample of tile blocks of a large grid"),
        ("tile-run k.tile --trace=op=mmaf,block=0 --launch launch.json", "results as they are computed"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    launch: LaunchOptions,
    #[command(flatten)]
    target: GpuName,
    /// Check for faults; without KINDS, all kinds but nan
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',', num_args = 0.., require_equals = true)]
    check: Option<Vec<Check>>,
    /// Print each op's result; FILTER is a comma-separated list of `op=NAME`, `block=X[:Y[:Z]]`, `loc=[FILE:]LINE`
    #[arg(long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = Trace::parse)]
    trace: Option<Trace>,
    /// Stop a tile block after this many ops, for example an endless loop
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    max_ops: u64,
    /// Select another interleaving of a CTA's warp roles; a seed always selects the same one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    schedule_seed: u64,
    /// Run a .sched file that the hazard checker rejects, to observe its behaviour
    #[arg(long)]
    skip_hazard_check: bool,
}

fn main() -> std::process::ExitCode {
    executor::prepare_threads();
    common::runner::<Options>(&ABOUT, run_kernel)
}

/// Runs the kernel in the input file, prints the findings of the checks, and writes the outputs.
fn run_kernel(session: &mut Session, options: &Options) -> Result<()> {
    let program = if options.skip_hazard_check { ProgramFile::read_unchecked(session)? } else { ProgramFile::read(session)? };
    if let Some(name) = options.trace.as_ref().and_then(Trace::selected_op) {
        check_op_name(name)?;
    }
    let opened = options.launch.open()?;
    let kernel = program.kernel(opened.entry())?;
    if session.verify_only() && !options.launch.is_given() {
        return Ok(());
    }
    let call = opened.call(&kernel.name, &kernel.param_types(), program.target().or(options.target.gpu_name))?;
    if session.verify_only() {
        return Ok(());
    }
    let print = &mut |text: &str| {
        // The output of the kernel goes to standard output. The run continues even if standard output is closed.
        let _ = std::io::stdout().write_all(text.as_bytes());
    };
    let mut trace = options.trace.clone();
    let observer: &mut dyn Observer = match &mut trace {
        Some(trace) => trace,
        None => &mut NoopObserver,
    };
    let outcome = session.timed("run", |_| kernel.run(&call, run_options(options), print, observer))?;
    outcome.findings.iter().for_each(|finding| session.report(finding));
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    options.launch.finish(&call, |buffer| outcome.memory.segment(buffer.address).map(|segment| &segment.contents))?;
    match outcome.findings.len() {
        0 => Ok(()),
        1 => Err(Diagnostic::invalid("RUN064", "the program has a fault")),
        count => Err(Diagnostic::invalid("RUN064", format!("the program has {count} faults"))),
    }
}

/// Checks that at least one format has an op with the name in a `--trace` filter. Reason: a filter with another name matches no op.
fn check_op_name(name: &str) -> Result<()> {
    let tile_mnemonics = tileir::ops::Opcode::ALL.iter().map(|opcode| opcode.info().mnemonic);
    let mnemonic_lists =
        [tileaa::Op::MNEMONICS, tileas::Op::MNEMONICS, sched::Op::MNEMONICS, core_dialect::core_ops::Core::MNEMONICS];
    let known_names: BTreeSet<&str> = tile_mnemonics.chain(mnemonic_lists.into_iter().flatten().copied()).collect();
    if known_names.contains(name) {
        return Ok(());
    }
    let message =
        format!("--trace=op={name}: no format has an op with this name{}", did_you_mean(name, known_names.iter().copied()));
    Err(Diagnostic::usage("RUN065", message))
}

/// Returns the checks and limits of the run.
fn run_options(options: &Options) -> RunOptions {
    let checks: BTreeSet<Check> = match options.check.as_deref() {
        None => BTreeSet::new(),
        Some([]) => Check::DEFAULTS.into(),
        Some(named) => named.iter().copied().collect(),
    };
    RunOptions { max_ops: options.max_ops, seed: options.schedule_seed, checks, deadline: None }
}
