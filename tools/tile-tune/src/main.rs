//! `tile-tune`: searches for the compiler options with which a launch of a kernel has the shortest predicted time.
//!
//! Each candidate is a list of options for `tileiras` ([`space`]). [`search`] selects candidates. [`evaluation`] compiles each
//! candidate to PTX and predicts its time with `tile-time`. [`records`] stores every result in a file, so that a later search can
//! continue an interrupted search. [`report`] prints the ranking. Only `--measure` needs a GPU.
//!
//! See also: Triton's `autotune`, which measures all configurations on a GPU; the CUTLASS profiler.

mod evaluation;
mod records;
mod report;
mod search;
mod space;

use base::diag::{Diagnostic, Result};
use common::options::GpuName;
use common::plan_file::{self, PlanFile, TunedKernel};
use common::{About, Session};
use evaluation::Evaluator;
use records::Records;
use search::Search;
use space::{Dimension, Space};
use std::path::{Path, PathBuf};

const ABOUT: About = About {
    name: "tile-tune",
    summary: "Searches the compiler options with which a kernel is predicted to be fastest; no GPU needed",
    examples: &[
        ("tile-tune k.tileirbc --gpu-name sm_90 --launch launch.json", "vary one option after the other"),
        (
            "tile-tune k.tileirbc --gpu-name sm_90 --launch launch.json --space warps=4,8 --space stages=2,3,4 --search exhaustive",
            "all six combinations",
        ),
        (
            "tile-tune k.tileirbc --gpu-name sm_90 --launch launch.json --results k.jsonl --best k.rsp",
            "continue after an interruption; then compile with `tileiras k.tileirbc @k.rsp -o k.cubin`",
        ),
        (
            "tile-tune k.tileirbc --gpu-name sm_90 --launch launch.json --plan plans.json",
            "collect plans of several kernels; then compile each with `tileiras --plan plans.json`",
        ),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    target: GpuName,
    /// Launch description: kernel, grid, buffers and arguments
    #[arg(long, value_name = "FILE")]
    launch: PathBuf,
    /// Values of an option of tileiras to try; repeat for more options [default: warps, occupancy, stages, tma, prefetch, roles,
    /// split-m, overlap and mma]
    #[arg(long, value_name = "OPTION=VALUE,..", value_parser = Dimension::parse)]
    space: Vec<Dimension>,
    /// Which combinations to try: `guided` varies one option after the other and keeps the best value, until no change helps;
    /// `exhaustive` tries all combinations
    #[arg(long, value_name = "HOW", value_enum, default_value_t = search::Strategy::Guided)]
    search: search::Strategy,
    /// Maximum number of candidates
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Candidates at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// File with the results of all candidates, one JSON object per line; a search with an existing file continues it
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the options of the fastest candidate to this file, for `tileiras @FILE`
    #[arg(long, value_name = "FILE")]
    best: Option<PathBuf>,
    /// Add the options of the fastest candidate to this plan file, for `tileiras --plan FILE`; with `-`, write them to standard
    /// output instead of the table
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Option of tileiras that all candidates have; the search does not vary it; repeat for more options
    #[arg(long = "with", value_name = "OPTION=VALUE", value_parser = space::parse_fixed)]
    fixed: Vec<String>,
    /// GPU to model [default: the default GPU of the target]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Time limit in seconds of each stage of a compilation, and of each prediction
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    step_time: u64,
    /// Measure the N candidates with the best predictions on a GPU, and rank them by the measured times
    #[arg(long, value_name = "N", default_value_t = 0)]
    measure: usize,
    /// Path of the driver library for --measure [default: the system's]
    #[arg(long, value_name = "FILE", requires = "measure")]
    driver: Option<PathBuf>,
    /// Rows of the printed table
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows: usize,
}

fn main() -> std::process::ExitCode {
    common::runner::<Options>(&ABOUT, run)
}

fn run(session: &mut Session, options: &Options) -> Result<()> {
    let input = session.input()?;
    tileir::import::open(&input.bytes, &input.name, &session.producer())?;
    let Some(target) = options.target.gpu_name else { return Err(common::options::no_target()) };
    let launch = common::read_file(Some(&options.launch))?;
    let space = Space::new(&options.space, &options.fixed)?;
    let plan_path = options.plan.as_deref().filter(|path| *path != Path::new("-") && path.exists());
    let plans = plan_path.map_or_else(|| Ok(PlanFile::default()), PlanFile::read)?;
    if options.search == search::Strategy::Exhaustive && space.combinations() > u64::from(options.limit) {
        let message = format!("the space has {} combinations, --limit allows {}", space.combinations(), options.limit);
        return Err(Diagnostic::usage("TUN002", message).note("raise --limit, or give fewer values with --space"));
    }
    if session.verify_only() {
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("tile-tune-").tempdir();
    let folder = folder.map_err(|error| Diagnostic::io("TUN001", common::os_error_text(&error)))?;
    let evaluator = Evaluator {
        tools: std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from)).unwrap_or_default(),
        kernel: folder.path().join("kernel"),
        launch: std::path::absolute(&options.launch).unwrap_or_else(|_| options.launch.clone()),
        folder: folder.path().to_path_buf(),
        target,
        fixed: options.fixed.clone(),
        gpu: options.gpu.clone(),
        step_seconds: options.step_time,
    };
    common::write_file(Some(&evaluator.kernel), &input.bytes)?;
    let identity = records::Identity::new(&input.bytes, &launch.bytes, target, options.gpu.as_deref(), &options.fixed);
    let records = Records::open(options.results.as_deref(), &identity)?;
    let jobs = options.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let mut search = Search {
        evaluator: &evaluator,
        records,
        limit: options.limit as usize,
        is_cut_short: false,
        jobs,
        progress: &|text| session.write_stderr(text),
    };
    match options.search {
        search::Strategy::Guided => search.run_guided(&space)?,
        search::Strategy::Exhaustive => search.run_exhaustive(&space)?,
    }
    report_results(&search, &evaluator, options, identity.kernel(), plans)
}

/// Prints the ranking, and writes the options of the fastest candidate to the requested files. With `--measure`, measures the first
/// candidates of the ranking and ranks them by measured time. `plans` is the content of the plan file before the search.
fn report_results(search: &Search, evaluator: &Evaluator, options: &Options, kernel: &str, mut plans: PlanFile) -> Result<()> {
    let mut ranking = search.records.ranking();
    let Some(fastest) = ranking.first() else { return Err(report::no_candidate_error(&search.records)) };
    let mut best = (fastest.options.clone(), fastest.seconds);
    let prints_plan = options.plan.as_deref() == Some(Path::new("-"));
    let print = |text: String| if prints_plan { Ok(()) } else { common::write_file(None, text.as_bytes()) };
    if options.measure > 0 {
        ranking.truncate(options.measure);
        let measured = evaluator.measure(&ranking, options.driver.as_deref())?;
        best = (measured[0].options.clone(), measured[0].predicted_seconds);
        print(report::measured_table(&measured))?;
    } else {
        print(report::predicted_table(&search.records, options.rows))?;
    }
    if search.is_cut_short {
        print(format!("\nThe search ended at --limit={}. Further candidates were not tried.\n", options.limit))?;
    }
    let all_options: Vec<String> = options.fixed.iter().cloned().chain(best.0).collect();
    if let Some(path) = &options.best {
        common::write_file(Some(path), report::response_file(evaluator.target, &all_options).as_bytes())?;
    }
    let Some(path) = &options.plan else { return Ok(()) };
    // Options that change no decision belong to the command line, not to a plan.
    let decisions = all_options.into_iter().filter(|option| plan_file::decision(option).is_some()).collect();
    plans.set(TunedKernel {
        kernel: kernel.into(),
        target: evaluator.target.name.into(),
        options: decisions,
        predicted_us: Some(best.1 * 1e6),
    });
    common::write_file((!prints_plan).then_some(path.as_path()), plans.to_text().as_bytes())
}
