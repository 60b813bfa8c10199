//! Differential testing: runs every stage of the pipeline on a program, executes the output of each stage, and compares the output
//! buffers and the printed text. Each tool runs as a process. `tile-fuzz` tests random programs, and `tile-validate` tests the
//! program of a user.

use base::diag::{Diagnostic, Result};
use numerics::Scalar;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The checks of `tile-run` for the source program. The list omits `padding`, because every stage loads zeros for unspecified
/// padding. The results are therefore comparable even if the program depends on the padding. The list also omits `nan`.
const CHECK_OPTION: &str = "--check=memory,init,token,race,assume,facts,divide,order";

/// An output buffer to compare.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name of the output file, without `.bin`.
    pub name: String,
    /// The type of the elements.
    pub scalar: Scalar,
    /// The permitted error of an element, relative to max(magnitude of the expected element, 1). With 0, the bits must be equal,
    /// but any NaN equals any other NaN.
    pub tolerance: f64,
    /// The expected contents, if the caller knows them without an execution of the program.
    pub expected: Option<Vec<u8>>,
}

/// The result for one program on one target.
pub enum Outcome {
    /// All stages produce the results of the source program.
    Same,
    /// A stage or executor does not support the program.
    Unsupported(String),
    /// A stage or executor exceeded its time limit.
    Unfinished(String),
    /// The results differ from the expected results, or a stage or executor failed. The text names the file and the difference or
    /// the failure.
    Wrong(String),
}

/// Runs the tools of the stages on a program, with fixed options and limits.
#[derive(Clone, Debug)]
pub struct StageRunner {
    /// The directory of the tools.
    pub tools_dir: PathBuf,
    /// The number after the option `-O` of `tile-lower-aa`.
    pub opt_level: String,
    /// The GPU, such as `sm_90`.
    pub target: String,
    /// Options for `tile-lower-as` that force optimisation decisions.
    pub lowering_options: Vec<String>,
    /// Options for `tile-sched` that force optimisation decisions.
    pub scheduling_options: Vec<String>,
    /// The time limit of each process.
    pub time_limit: Duration,
    /// Whether the caller compares other programs concurrently. If so, each process uses one thread.
    pub runs_concurrently: bool,
}

/// The prefix of the message for the case that the source program itself does not produce the expected contents.
pub const UNEXPECTED_PREFIX: &str = "unexpected: ";

/// The result of a run of a tool: its standard output if it succeeds, or the outcome that ends the comparison.
enum ToolResult {
    Done(String),
    Failed(Outcome),
}

/// A step of the comparison: a tool generates a file, and an executor executes the file once for each list of options in `runs`.
struct StageRun<'a> {
    tool: &'a str,
    args: Vec<&'a str>,
    file: &'a str,
    executor: &'a str,
    runs: &'a [&'a [&'a str]],
}

/// Executor options that complete asynchronous work as early as possible.
const EARLY_DELIVERY: &[&str] = &["--races=error", "--delivery=early"];
/// Executor options that complete asynchronous work as late as possible.
const LATE_DELIVERY: &[&str] = &["--races=error", "--delivery=late", "--schedule-seed=7"];

impl StageRunner {
    /// Runs a tool. Exit code 3 means that the tool does not support the program. Exit code 4 means a failure of the environment,
    /// not of the program, so this function returns an error.
    fn run(&self, tool: &str, args: &[&str]) -> Result<ToolResult> {
        let path = self.tools_dir.join(tool);
        let io_error = |why: String| Diagnostic::io("FUZ001", format!("{}: {why}", path.display()));
        let mut command = duct::cmd(&path, args).stdin_null().stdout_capture().stderr_capture().unchecked();
        command = command.before_spawn(|child| {
            common::child::end_with_parent(child, None);
            Ok(())
        });
        if self.runs_concurrently {
            command = command.env("RAYON_NUM_THREADS", "1");
        }
        let child = command.start().map_err(|error| io_error(error.to_string()))?;
        let Some(output) = child.wait_timeout(self.time_limit).map_err(|error| io_error(error.to_string()))? else {
            child.kill().map_err(|error| io_error(error.to_string()))?;
            return Ok(ToolResult::Failed(Outcome::Unfinished(format!("{tool} takes more than {} s", self.time_limit.as_secs()))));
        };
        let stderr_text = String::from_utf8_lossy(&output.stderr);
        let first_line = stderr_text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(match output.status.code() {
            Some(0) => ToolResult::Done(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(3) => ToolResult::Failed(Outcome::Unsupported(format!("{tool}: {first_line}"))),
            Some(4) => return Err(io_error(first_line.to_string())),
            code => ToolResult::Failed(Outcome::Wrong(format!("{tool} ends with {code:?}: {first_line}"))),
        })
    }

    /// Checks that every stage produces the results of the source program, and that the source program produces the expected
    /// contents. The source program runs under `--check`, because only the results of determinate programs are comparable.
    /// `folder` contains `k.tile` and `launch.json`.
    pub fn compare(&self, outputs: &[Output], folder: &Path) -> Result<Outcome> {
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (tile_path, aa_path, as_path, sched_path, ptx_path) =
            (path("k.tile"), path("k.aa"), path("k.as"), path("k.sched"), path("k.ptx"));
        let placed_path = path("placed.sched");
        let printed = match self.execute("tile-run", &[CHECK_OPTION], &tile_path, folder, "tile")? {
            ToolResult::Done(printed) => printed,
            ToolResult::Failed(outcome) => return Ok(outcome),
        };
        if let Some(message) = first_unexpected(outputs, &folder.join("tile"))? {
            return Ok(Outcome::Wrong(format!("{UNEXPECTED_PREFIX}{message}")));
        }
        let level_option = format!("-O{}", self.opt_level);
        let stage_run = |tool, args, file, executor, runs| StageRun { tool, args, file, executor, runs };
        let mut stage_runs = vec![
            stage_run("tile-lower-aa", vec![&level_option, &tile_path, "-o", &aa_path], &aa_path, "tile-run", &[&[]]),
            stage_run("tile-lower-as", vec!["--gpu-name", &self.target, &aa_path, "-o", &as_path], &as_path, "tile-run", &[&[]]),
            stage_run("tile-sched", vec!["--stop-after=alloc", &as_path, "-o", &placed_path], &placed_path, "tile-run", &[&[]]),
            stage_run("tile-sched", vec![&placed_path, "-o", &sched_path], &sched_path, "tile-run", &[&[]]),
            stage_run("tile-ptx", vec![&sched_path, "-o", &ptx_path], &ptx_path, "tile-sim", &[EARLY_DELIVERY, LATE_DELIVERY]),
        ];
        if ["0", "1"].contains(&&*self.opt_level) {
            // At these levels, `tile-sched` does not pipeline loops. One run of `tile-sched` therefore suffices, and the PTX has no
            // asynchronous work.
            stage_runs[3].args[0] = &as_path;
            stage_runs[4].runs = &[EARLY_DELIVERY];
            stage_runs.remove(2);
        }
        for (index, options) in [(1, &self.lowering_options), (2, &self.scheduling_options)] {
            stage_runs[index].args.splice(0..0, options.iter().map(String::as_str));
        }
        for StageRun { tool, args, file, executor, runs } in stage_runs {
            if let ToolResult::Failed(outcome) = self.run(tool, &args)? {
                return Ok(outcome);
            }
            for options in runs {
                if let Some(outcome) = self.compare_stage(outputs, &printed, executor, options, file, folder)? {
                    return Ok(outcome);
                }
            }
        }
        Ok(Outcome::Same)
    }

    /// Executes the output of a stage. If the results differ or the executor fails, returns the outcome that ends the comparison.
    fn compare_stage(
        &self,
        outputs: &[Output],
        printed: &str,
        executor: &str,
        options: &[&str],
        file: &str,
        folder: &Path,
    ) -> Result<Option<Outcome>> {
        let file_name = Path::new(file).file_name().expect("a file has a name").to_string_lossy();
        let out = format!("out-{file_name}");
        let printed_by_stage = match self.execute(executor, options, file, folder, &out)? {
            ToolResult::Done(printed_by_stage) => printed_by_stage,
            ToolResult::Failed(outcome) => return Ok(Some(outcome)),
        };
        if let Some(difference) = first_difference(outputs, &folder.join("tile"), &folder.join(&out))? {
            return Ok(Some(Outcome::Wrong(format!("{file_name}: {difference}"))));
        }
        let prints_same_lines = sorted_lines(&printed_by_stage) == sorted_lines(printed);
        Ok((!prints_same_lines).then(|| Outcome::Wrong(format!("{file_name}: prints {printed_by_stage:?} instead of {printed:?}"))))
    }

    /// Executes a file with the arguments of `launch.json`. The executor writes the output buffers to the directory `out` in
    /// `folder`. The message of a failure starts with the name of the file.
    fn execute(&self, executor: &str, options: &[&str], file: &str, folder: &Path, out: &str) -> Result<ToolResult> {
        let (launch, out) = (folder.join("launch.json"), folder.join(out));
        let (launch, out) = (launch.to_string_lossy(), out.to_string_lossy());
        let args = [&[file, "--launch", &*launch, "--out-dir", &*out], options].concat();
        let file_name = Path::new(file).file_name().expect("a file has a name").to_string_lossy();
        Ok(match self.run(executor, &args)? {
            ToolResult::Failed(Outcome::Wrong(message)) => ToolResult::Failed(Outcome::Wrong(format!("{file_name}: {message}"))),
            ToolResult::Failed(Outcome::Unfinished(message)) => {
                ToolResult::Failed(Outcome::Unfinished(format!("{file_name}: {message}")))
            }
            result => result,
        })
    }
}

/// Returns the lines of a text in sorted order. Reason: tile blocks may print in any order.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Reads an output buffer that an executor wrote to a folder.
fn read_output(output: &Output, folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join(format!("{}.bin", output.name));
    std::fs::read(&path).map_err(|error| Diagnostic::io("FUZ002", format!("{}: {error}", path.display())))
}

/// Returns a description of the first difference between the outputs of two runs. `None` if no outputs differ.
fn first_difference(outputs: &[Output], expected_dir: &Path, actual_dir: &Path) -> Result<Option<String>> {
    for output in outputs {
        let difference = describe_difference(output, &read_output(output, expected_dir)?, &read_output(output, actual_dir)?);
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Returns a description of the first difference between the outputs and their expected contents. `None` if no outputs differ.
fn first_unexpected(outputs: &[Output], actual_dir: &Path) -> Result<Option<String>> {
    for output in outputs {
        let Some(expected) = &output.expected else { continue };
        let difference = describe_difference(output, expected, &read_output(output, actual_dir)?);
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Returns a description of the elements that differ. `None` if no element differs by more than the tolerance.
fn describe_difference(output: &Output, want: &[u8], got: &[u8]) -> Option<String> {
    let Output { name, scalar, tolerance, .. } = output;
    if want.len() != got.len() {
        return Some(format!("{name}: {} bytes for {}", got.len(), want.len()));
    }
    let size = scalar.bytes() as usize;
    let element_pairs = want.chunks_exact(size).zip(got.chunks_exact(size));
    let is_close_enough =
        |(want, got): (&[u8], &[u8])| want == got || is_within_tolerance(*scalar, bits_of(want), bits_of(got), *tolerance);
    let different_elements: Vec<usize> =
        element_pairs.enumerate().filter(|(_, pair)| !is_close_enough(*pair)).map(|(i, _)| i).collect();
    let first_index = *different_elements.first()?;
    let bits = |data: &[u8]| bits_of(&data[first_index * size..][..size]);
    let (count, element_count) = (different_elements.len(), want.len() / size);
    let (got, want) = (bits(got), bits(want));
    Some(format!("{name} ({scalar}): {count} of {element_count} differ, first {first_index}: {got:#x} for {want:#x}"))
}

/// Converts little-endian bytes to an integer.
fn bits_of(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// Returns whether two floats are both NaN, or differ by at most the tolerance. Integers have no tolerance.
fn is_within_tolerance(scalar: Scalar, want: u64, got: u64, tolerance: f64) -> bool {
    if scalar.is_int() {
        return false;
    }
    let (want, got) = (numerics::float::decode(scalar, want), numerics::float::decode(scalar, got));
    want.is_nan() && got.is_nan() || (want - got).abs() <= tolerance * want.abs().max(1.0) && tolerance > 0.0
}
