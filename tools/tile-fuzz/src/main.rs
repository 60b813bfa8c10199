//! `tile-fuzz`: random, well-formed, well-defined programs, executed at every stage of the pipeline and compared bit for bit.

mod access;
mod builder;
mod compare;
mod compute;
mod control;
mod program;
mod random;
mod shapes;

use base::diag::{Diagnostic, Result};
use clap::Parser;
use compare::{Bench, Outcome};
use program::Generator;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes random programs, runs each at every stage and compares; what differs is kept in a folder
#[derive(Parser)]
#[command(version)]
struct Options {
    /// First seed; a seed always gives the same program
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many programs
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Targets, each program gets one of
    #[arg(long, value_delimiter = ',', default_value = "sm_80,sm_90,sm_100,sm_120")]
    targets: Vec<String>,
    /// Optimisation level
    #[arg(short = 'O', default_value = "3")]
    level: String,
    /// Folder for programs; those that differ stay there
    #[arg(long, default_value = "fuzz-out")]
    dir: PathBuf,
    /// Folder of the tools [default: that of tile-fuzz]
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Only write the programs
    #[arg(long)]
    generate: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
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

fn run(options: &Options) -> Result<bool> {
    let own = std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from));
    let tools = options.tools.clone().or(own).unwrap_or_default();
    if options.targets.is_empty() {
        return Err(Diagnostic::usage("FUZ003", "no target"));
    }
    let bench = Bench { tools, level: options.level.clone() };
    let seeds = options.seed..options.seed.saturating_add(options.count);
    let outcomes: Result<Vec<(u64, Outcome)>> =
        seeds.into_par_iter().map(|seed| one(options, &bench, seed).map(|outcome| (seed, outcome))).collect();
    let outcomes = outcomes?;
    let mut unsupported: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut same, mut wrong) = (0, 0);
    for (seed, outcome) in &outcomes {
        match outcome {
            Outcome::Same => same += 1,
            Outcome::Unsupported(message) => *unsupported.entry(message).or_default() += 1,
            Outcome::Wrong(message) => {
                wrong += 1;
                println!("seed {seed} {}: {message}", target(options, *seed));
            }
        }
    }
    unsupported.iter().for_each(|(message, count)| println!("{count} unsupported: {message}"));
    println!("{same} of {} programs are the same at every stage, {wrong} are wrong", outcomes.len());
    Ok(wrong == 0)
}

fn target(options: &Options, seed: u64) -> &str {
    &options.targets[(seed % options.targets.len() as u64) as usize]
}

fn one(options: &Options, bench: &Bench, seed: u64) -> Result<Outcome> {
    let program = Generator::program(seed);
    let folder = options.dir.join(seed.to_string());
    if options.generate {
        return Bench::write(&program, &folder).map(|()| Outcome::Same);
    }
    let outcome = bench.compare(&program, &folder, target(options, seed));
    let outcome = outcome.map_err(|error| error.note(format!("in the program of seed {seed}")))?;
    if !matches!(outcome, Outcome::Wrong(_)) {
        let removed = std::fs::remove_dir_all(&folder);
        removed.map_err(|error| Diagnostic::io("FUZ002", format!("{}: {error}", folder.display())))?;
    }
    Ok(outcome)
}
