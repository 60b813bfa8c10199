//! `tile-validate`: translation validation by execution. It executes the program, every stage file and the PTX on the same
//! arguments, and reports the first stage with a different result. The arguments come from a launch description, or `tile-validate`
//! generates them from the views of the kernel's parameters ([`arrays`], [`cases`]). `tile-validate` does not search for data
//! races; `tile-run --check` and `tile-sim` detect data races.

mod arrays;
mod cases;

use arrays::Kernel;
use base::diag::{Diagnostic, Result};
use cases::CASES;
use common::options::{GpuName, Lowering, OptLevel, Scheduling};
use common::{About, Session};
use differential::{Outcome, Output, StageRunner};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tileir::enums::Visibility;

const ABOUT: About = About {
    name: "tile-validate",
    summary: "Validates a compilation: executes every stage and compares the results with those of the program",
    examples: &[
        ("tile-validate k.tileirbc --gpu-name sm_90", "with generated arguments"),
        ("tile-validate k.tileirbc --gpu-name sm_90 --launch launch.json", "with given arguments"),
        (
            "tileiras k.tileirbc --gpu-name sm_90 --validate -o k.cubin",
            "during compilation; in a client, set TILEWORKS_OPTIONS=--validate",
        ),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    target: GpuName,
    #[command(flatten)]
    level: OptLevel,
    #[command(flatten)]
    lowering: Lowering,
    #[command(flatten)]
    scheduling: Scheduling,
    /// Launch description [default: generated launches]
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// Kernel to validate [default: all kernels of the file]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Tolerance for floats, as a multiple of the error bound of reordered accumulation; for kernels that convert to a coarser type
    /// and compute further, the bound is eight steps of this type, at most 0.3
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    tolerance: f64,
    /// Time limit in seconds of one step: running a stage, or executing its output
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    step_time: u64,
    /// Folder for the files of a failure [default: a new temporary folder]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    common::runner::<Options>(&ABOUT, run)
}

/// The result of validating one launch. A wrong result, or a validation that could not finish, is an error instead.
enum Verdict {
    /// All stages compute the same outputs.
    Same,
    /// The program itself has undefined behaviour on the arguments of the launch, for the given reason.
    Undefined(String),
}

fn run(session: &mut Session, options: &Options) -> Result<()> {
    let input = session.input()?;
    let file = tileir::import::open(&input.bytes, &input.name, &session.producer())?;
    let Some(target) = options.target.gpu_name else { return Err(common::options::no_target()) };
    let module = &file.payload;
    let kernels = select_kernels(module, options.entry.as_deref())?;
    if options.launch.is_some() && kernels.len() > 1 {
        return Err(entry_required(module));
    }
    if session.verify_only() {
        return Ok(());
    }
    let tools_folder = std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from)).unwrap_or_default();
    let runner = StageRunner {
        tools_dir: tools_folder,
        opt_level: options.level.opt_level.unwrap_or(3).to_string(),
        target: target.name.into(),
        lowering_options: options.lowering.to_args(),
        scheduling_options: options.scheduling.to_args(),
        time_limit: Duration::from_secs(options.step_time),
        runs_concurrently: false,
    };
    let program = file.write(base::envelope::Form::Binary)?;
    // If a kernel gets no verdict, validate the other kernels and report the first reason at the end. Stop at the first wrong
    // result.
    let mut first_inconclusive = None;
    for kernel in &kernels {
        match validate(session, options, &runner, &program, kernel) {
            Ok(launches) => {
                let line = format!("{} for {target}: the same at every stage, on {launches} launches\n", kernel.name);
                common::write_file(None, line.as_bytes())?;
            }
            Err(error) if error.code == "VAL001" => return Err(error),
            Err(error) => _ = first_inconclusive.get_or_insert(error),
        }
    }
    first_inconclusive.map_or(Ok(()), Err)
}

/// Returns the kernel that `--entry` names, or all kernels of the file.
fn select_kernels(module: &tileir::Module, entry: Option<&str>) -> Result<Vec<Kernel>> {
    let entries = module.functions.iter().filter(|function| function.visibility == Visibility::Public);
    let requested_functions = entries.filter(|function| entry.is_none_or(|name| module.string(function.name) == name));
    let unsupported_param = || Diagnostic::unsupported("VAL004", "a parameter of the kernel is neither a number nor a pointer");
    let kernels: Vec<Kernel> = requested_functions
        .map(|function| Kernel::analyze(module, function).ok_or_else(unsupported_param))
        .collect::<Result<_>>()?;
    if kernels.is_empty() { Err(entry_required(module)) } else { Ok(kernels) }
}

/// Returns the error that requires `--entry` and lists the kernels.
fn entry_required(module: &tileir::Module) -> Box<Diagnostic> {
    let names: Vec<&str> = module.functions.iter().map(|function| module.string(function.name)).collect();
    Diagnostic::usage("VAL003", format!("name one of the kernels with --entry: {}", names.join(", ")))
}

/// Compares the stages on all launches of a kernel. Returns the number of launches with defined behaviour.
fn validate(session: &mut Session, options: &Options, runner: &StageRunner, program: &[u8], kernel: &Kernel) -> Result<usize> {
    let launches: Vec<Option<&cases::Case>> = if options.launch.is_some() { vec![None] } else { CASES.iter().map(Some).collect() };
    let (mut same_count, mut undefined_reason) = (0, String::from("the sizes of its arrays are unknown"));
    for case in launches {
        let folder = tempfile::Builder::new().prefix("tile-validate-").tempdir();
        let folder =
            folder.map_err(|error| Diagnostic::io("FUZ001", format!("no folder for a case: {}", common::os_error_text(&error))))?;
        common::write_file(Some(&folder.path().join("k.tile")), program)?;
        let outputs = match (case, &options.launch) {
            (_, Some(launch)) => Some(cases::copy_given_launch(launch, kernel, options.tolerance, folder.path())?),
            (Some(case), None) => case.write(kernel, options.tolerance, folder.path())?,
            (None, None) => None,
        };
        let Some(outputs) = outputs else { continue };
        let case_description = case.map_or("the launch".to_string(), cases::Case::describe);
        match session.timed("case", |_| compare_stages(runner, &outputs, folder, options.keep.as_deref(), &case_description))? {
            Verdict::Same => {
                same_count += 1;
                session.write_stderr(&format!("{case_description}: the same at every stage"));
            }
            Verdict::Undefined(reason) => {
                session.write_stderr(&format!("{case_description}: not defined: {reason}"));
                undefined_reason = reason;
            }
        }
    }
    if same_count == 0 {
        let message = format!("the program has undefined behaviour on all launches: {undefined_reason}");
        return Err(Diagnostic::usage("VAL002", message).note("--launch FILE provides other arguments"));
    }
    Ok(same_count)
}

/// Executes all stages on the launch in a folder and compares their outputs. Keeps the folder if an output is wrong.
fn compare_stages(
    runner: &StageRunner,
    outputs: &[Output],
    folder: tempfile::TempDir,
    keep: Option<&Path>,
    case: &str,
) -> Result<Verdict> {
    let message = match runner.compare(outputs, folder.path())? {
        Outcome::Same => return Ok(Verdict::Same),
        Outcome::Unsupported(message) => return Err(Diagnostic::unsupported("VAL004", message)),
        Outcome::Unfinished(message) => {
            let error = Diagnostic::io("VAL005", format!("not finished, with {case}: {message}"));
            return Err(error.note("there is no verdict; --step-time SECONDS raises the time limit of a step"));
        }
        Outcome::Wrong(message) => message,
    };
    if let Some(reason) = message.strip_prefix("k.tile: ") {
        return Ok(Verdict::Undefined(reason.into()));
    }
    let tool_of_file = [
        ("k.aa", "tile-lower-aa"),
        ("k.as", "tile-lower-as"),
        ("placed.sched", "tile-sched"),
        ("k.sched", "tile-sched"),
        ("k.ptx", "tile-ptx"),
    ];
    let stage = tool_of_file.iter().find(|(file, _)| message.starts_with(file)).map_or("a stage", |(_, tool)| tool);
    let mut error = Diagnostic::invalid("VAL001", format!("the output of {stage} is not equivalent to the program: {message}"));
    error = error.note(format!("with {case}"));
    let path = folder.keep();
    let kept_folder = match keep {
        None => path,
        // If the move fails, report the comparison anyway, with the temporary folder.
        Some(new_path) => match move_to(&path, new_path) {
            Ok(()) => new_path.to_path_buf(),
            Err(move_error) => {
                error = error.note(format!("cannot make {}: {}", new_path.display(), common::os_error_text(&move_error)));
                path
            }
        },
    };
    Err(error.note(format!("the program, the launch and all stage files are in {}", kept_folder.display())))
}

/// Renames a folder, after creating the parents of the new path.
fn move_to(path: &Path, new_path: &Path) -> std::io::Result<()> {
    if let Some(parent) = new_path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::rename(path, new_path)
}
