//! `tile-fuzz`: differential fuzzing. It generates random, well-defined programs, executes each at every stage of the pipeline, and
//! compares the results.

mod access;
mod approximate;
mod atomics;
mod builder;
mod control;
mod convert;
mod effects;
mod elementwise;
mod induction;
mod loop_memory;
mod mma;
mod noncommutative;
mod program;
mod ragged;
mod random;
mod reductions;
mod shapes;
mod shrink;
mod views;

use base::diag::{Diagnostic, Result};
use clap::Parser;
use common::options::{Lowering, Scheduling};
use differential::{Outcome, StageRunner};
use program::{Config, Generator};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Time limit of one tool process.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Generates random programs, executes each at every stage and compares the results; failing programs are kept in a folder
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  tile-fuzz --count 1000                        what ./scripts/test does, for longer
  tile-fuzz --seed 17 --count 1 --dir kept -O0  one program again
  tile-fuzz --theme mma --shrink           of what differs, only what is needed

Exit codes:
  0 all agree, 1 some differ or too few could be compared, 2 usage, 4 input/output or child failure"
)]
struct Options {
    /// First seed; a seed determines a program
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of programs
    #[arg(long, default_value_t = 100)]
    count: u64,
    #[command(flatten)]
    config: Config,
    /// Targets; each program uses one of them
    #[arg(long, value_delimiter = ',', default_values_t = base::Target::all().map(|target| target.name.to_string()))]
    targets: Vec<String>,
    /// Optimization levels; each program uses one of them
    #[arg(short = 'O', value_delimiter = ',', default_value = "3,0,2,3,1")]
    levels: Vec<String>,
    #[command(flatten)]
    lowering: Lowering,
    #[command(flatten)]
    scheduling: Scheduling,
    /// Folder for programs; failing programs are kept there
    #[arg(long, default_value = "fuzz-out")]
    dir: PathBuf,
    /// Folder of the tools [default: the folder of tile-fuzz]
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Write the programs without executing them
    #[arg(long)]
    generate: bool,
    /// Shrink failing programs
    #[arg(long)]
    shrink: bool,
    /// Minimum percentage of programs that must be compared completely; fail if more are unsupported
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    least: u8,
    #[command(flatten)]
    limits: common::Limits,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.limits.watch(|reason| {
        eprintln!("tile-fuzz was stopped: {reason}");
        std::process::exit(i32::from(common::exit::IO));
    });
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tile-fuzz: {}", error.message);
            error.notes.iter().for_each(|note| eprintln!("  {note}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Executes the programs of all seeds in parallel and prints a summary. Returns whether the results satisfy the options.
fn run(options: &Options) -> Result<bool> {
    let own_folder = std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from));
    let tools = options.tools.clone().or(own_folder).unwrap_or_default();
    if options.dir.to_str().is_none() {
        return Err(Diagnostic::usage("FUZ004", format!("the folder name {:?} is not UTF-8", options.dir)));
    }
    if options.targets.is_empty() || options.levels.is_empty() {
        return Err(Diagnostic::usage("FUZ003", "no target or no level"));
    }
    let seeds = options.seed..options.seed.saturating_add(options.count);
    let outcomes: Result<Vec<Outcome>> = seeds.into_par_iter().map(|seed| run_program(options, &tools, seed)).collect();
    let outcomes = outcomes?;
    let mut unsupported: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut same, mut wrong) = (0_usize, 0_usize);
    for outcome in &outcomes {
        match outcome {
            Outcome::Same => same += 1,
            Outcome::Unsupported(message) => *unsupported.entry(message).or_default() += 1,
            Outcome::Wrong(_) | Outcome::Unfinished(_) => wrong += 1,
        }
    }
    unsupported.iter().for_each(|(message, count)| println!("{count} unsupported: {message}"));
    println!("{same} of {} programs are the same at every stage, {wrong} are wrong", outcomes.len());
    let are_enough_compared = same as u64 * 100 >= u64::from(options.least) * (outcomes.len() - wrong) as u64;
    if !are_enough_compared {
        println!("too few programs could be compared: --least requires {} %", options.least);
    }
    Ok(wrong == 0 && are_enough_compared)
}

/// Generates the program of a seed and executes it at every stage. If the program fails, shrinks it with `--shrink` and keeps its
/// folder.
fn run_program(options: &Options, tools: &std::path::Path, seed: u64) -> Result<Outcome> {
    let program = Generator::generate(seed, &options.config);
    let folder = options.dir.join(seed.to_string());
    if options.generate {
        return program.write(&folder).map(|()| Outcome::Same);
    }
    let pick = |from: &[String], by: u64| from[(by % from.len() as u64) as usize].clone();
    let target = pick(&options.targets, seed);
    let level = pick(&options.levels, seed / options.targets.len() as u64);
    let (lowering, scheduling) = (options.lowering.to_args(), options.scheduling.to_args());
    let runner = StageRunner {
        tools_dir: tools.into(),
        opt_level: level,
        target,
        lowering_options: lowering,
        scheduling_options: scheduling,
        time_limit: TIME_LIMIT,
        runs_concurrently: true,
    };
    let outcome = program.compare(&runner, &folder);
    let outcome = outcome.map_err(|error| error.note(format!("in the program of seed {seed}")))?;
    // Programs are small, so a timeout counts as a failure too.
    if let Outcome::Wrong(message) | Outcome::Unfinished(message) = &outcome {
        println!("seed {seed} {} -O{}: {message}", runner.target, runner.opt_level);
        if options.shrink && !message.starts_with(differential::UNEXPECTED_PREFIX) {
            let program = shrink::shrink(program, message, &runner, &folder);
            program.compare(&runner, &folder)?;
        }
        return Ok(outcome);
    }
    let removed = std::fs::remove_dir_all(&folder);
    removed.map_err(|error| Diagnostic::io("FUZ002", format!("{}: {error}", folder.display())))?;
    Ok(outcome)
}
