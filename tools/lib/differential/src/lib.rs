//! Differential testing: runs one program at every stage, as processes, and compares output buffers and printed text. `tile-fuzz`
//! tests random programs, and `tile-validate` tests a user's program.

use base::diag::{Diagnostic, Result};
use numerics::Scalar;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All checks but `padding`. Reason: every stage loads zeros for unspecified padding, so the results are comparable even if the
/// program depends on it.
const CHECKS: &str = "--check=memory,init,token,race,assume,facts,divide,order";

/// An output buffer to compare.
#[derive(Clone, Debug)]
pub struct Output {
    pub name: String,
    pub scalar: Scalar,
    /// The permitted error of an element, relative to max(magnitude, 1). With zero, the bits must be equal.
    pub tolerance: f64,
    /// The expected contents, if they are known without executing the program.
    pub expected: Option<Vec<u8>>,
}

/// The result for one program on one target.
pub enum Outcome {
    Same,
    /// A stage or executor does not support the program.
    Unsupported(String),
    /// A stage or executor exceeded its time limit.
    Unfinished(String),
    Wrong(String),
}

/// How to run the stages: tools, options and limits.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The directory of the tools.
    pub tools: PathBuf,
    pub level: String,
    pub target: String,
    /// Options for tile-lower-as that force optimisation decisions.
    pub lowering: Vec<String>,
    /// Options for tile-sched that force optimisation decisions.
    pub scheduling: Vec<String>,
    /// Time limit per process.
    pub patience: Duration,
    /// Whether the caller compares other programs concurrently. If so, each process is single-threaded.
    pub runs_concurrently: bool,
}

/// Prefix of the message if the source program itself does not produce the expected contents.
pub const UNEXPECTED: &str = "unexpected: ";

/// A successful run of a tool with its output, or the outcome that ends the comparison.
enum ToolResult {
    Done(String),
    Failed(Outcome),
}

/// The tool that generates a file, and the executor with the lists of options with which it runs the file.
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

impl Bench {
    /// Runs a tool. Exit code 3 means that the tool does not support the program. Exit code 4 is an error of the environment, not
    /// of the program, so it becomes an error of the caller.
    fn run(&self, tool: &str, args: &[&str]) -> Result<ToolResult> {
        let path = self.tools.join(tool);
        let failed = |why: String| Diagnostic::io("FUZ001", format!("{}: {why}", path.display()));
        let mut command = duct::cmd(&path, args).stdin_null().stdout_capture().stderr_capture().unchecked();
        command = command.before_spawn(|child| {
            common::child::end_with_parent(child, None);
            Ok(())
        });
        if self.runs_concurrently {
            command = command.env("RAYON_NUM_THREADS", "1");
        }
        let child = command.start().map_err(|error| failed(error.to_string()))?;
        let Some(output) = child.wait_timeout(self.patience).map_err(|error| failed(error.to_string()))? else {
            child.kill().map_err(|error| failed(error.to_string()))?;
            return Ok(ToolResult::Failed(Outcome::Unfinished(format!("{tool} takes more than {} s", self.patience.as_secs()))));
        };
        let reported = String::from_utf8_lossy(&output.stderr);
        let first = reported.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(match output.status.code() {
            Some(0) => ToolResult::Done(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(3) => ToolResult::Failed(Outcome::Unsupported(format!("{tool}: {first}"))),
            Some(4) => return Err(failed(first.to_string())),
            code => ToolResult::Failed(Outcome::Wrong(format!("{tool} ends with {code:?}: {first}"))),
        })
    }

    /// Checks that every stage produces the results of the source program, and that the source program produces the expected
    /// contents. The source program runs under `--check`, because only the results of determinate programs are comparable.
    /// `folder` contains `k.tile` and `launch.json`.
    pub fn compare(&self, outputs: &[Output], folder: &Path) -> Result<Outcome> {
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (tile, aa, atoms, sched, ptx) = (path("k.tile"), path("k.aa"), path("k.as"), path("k.sched"), path("k.ptx"));
        let placed = path("placed.sched");
        let printed = match self.execute("tile-run", &[CHECKS], &tile, folder, "tile")? {
            ToolResult::Done(printed) => printed,
            ToolResult::Failed(outcome) => return Ok(outcome),
        };
        if let Some(message) = unexpected(outputs, &folder.join("tile"))? {
            return Ok(Outcome::Wrong(format!("{UNEXPECTED}{message}")));
        }
        let level = format!("-O{}", self.level);
        let step = |tool, args, file, executor, runs| StageRun { tool, args, file, executor, runs };
        let mut steps = vec![
            step("tile-lower-aa", vec![&level, &tile, "-o", &aa], &aa, "tile-run", &[&[]]),
            step("tile-lower-as", vec!["--gpu-name", &self.target, &aa, "-o", &atoms], &atoms, "tile-run", &[&[]]),
            step("tile-sched", vec!["--stop-after=alloc", &atoms, "-o", &placed], &placed, "tile-run", &[&[]]),
            step("tile-sched", vec![&placed, "-o", &sched], &sched, "tile-run", &[&[]]),
            step("tile-ptx", vec![&sched, "-o", &ptx], &ptx, "tile-sim", &[EARLY_DELIVERY, LATE_DELIVERY]),
        ];
        if ["0", "1"].contains(&&*self.level) {
            // Without pipelining, there is no intermediate phase and no asynchronous work.
            steps[3].args[0] = &atoms;
            steps[4].runs = &[EARLY_DELIVERY];
            steps.remove(2);
        }
        for (step, forced) in [(1, &self.lowering), (2, &self.scheduling)] {
            steps[step].args.splice(0..0, forced.iter().map(String::as_str));
        }
        for StageRun { tool, args, file, executor, runs } in steps {
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

    /// Executes a file. Returns the outcome that ends the comparison if the results differ or the executor fails.
    fn compare_stage(
        &self,
        outputs: &[Output],
        printed: &str,
        executor: &str,
        options: &[&str],
        file: &str,
        folder: &Path,
    ) -> Result<Option<Outcome>> {
        let stage = Path::new(file).file_name().expect("a file has a name").to_string_lossy();
        let out = format!("out-{stage}");
        let got = match self.execute(executor, options, file, folder, &out)? {
            ToolResult::Done(got) => got,
            ToolResult::Failed(outcome) => return Ok(Some(outcome)),
        };
        if let Some(difference) = difference(outputs, &folder.join("tile"), &folder.join(&out))? {
            return Ok(Some(Outcome::Wrong(format!("{stage}: {difference}"))));
        }
        let same = sorted_lines(&got) == sorted_lines(printed);
        Ok((!same).then(|| Outcome::Wrong(format!("{stage}: prints {got:?} instead of {printed:?}"))))
    }

    fn execute(&self, executor: &str, options: &[&str], file: &str, folder: &Path, out: &str) -> Result<ToolResult> {
        let (launch, out) = (folder.join("launch.json"), folder.join(out));
        let (launch, out) = (launch.to_string_lossy(), out.to_string_lossy());
        let args = [&[file, "--launch", &*launch, "--out-dir", &*out], options].concat();
        let stage = Path::new(file).file_name().expect("a file has a name").to_string_lossy();
        Ok(match self.run(executor, &args)? {
            ToolResult::Failed(Outcome::Wrong(message)) => ToolResult::Failed(Outcome::Wrong(format!("{stage}: {message}"))),
            ToolResult::Failed(Outcome::Unfinished(message)) => {
                ToolResult::Failed(Outcome::Unfinished(format!("{stage}: {message}")))
            }
            ran => ran,
        })
    }
}

/// The lines in sorted order, because tile blocks may print in any order.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn read(output: &Output, folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join(format!("{}.bin", output.name));
    std::fs::read(&path).map_err(|error| Diagnostic::io("FUZ002", format!("{}: {error}", path.display())))
}

/// Returns the first difference between the outputs of two runs.
fn difference(outputs: &[Output], expected_dir: &Path, got: &Path) -> Result<Option<String>> {
    for output in outputs {
        let differs = differs(output, &read(output, expected_dir)?, &read(output, got)?);
        if differs.is_some() {
            return Ok(differs);
        }
    }
    Ok(None)
}

/// Returns the first difference between the outputs and their expected contents.
fn unexpected(outputs: &[Output], got: &Path) -> Result<Option<String>> {
    for output in outputs {
        let Some(expected) = &output.expected else { continue };
        let differs = differs(output, expected, &read(output, got)?);
        if differs.is_some() {
            return Ok(differs);
        }
    }
    Ok(None)
}

fn differs(output: &Output, want: &[u8], got: &[u8]) -> Option<String> {
    let Output { name, scalar, tolerance, .. } = output;
    let size = scalar.bytes() as usize;
    let pairs = want.chunks_exact(size).zip(got.chunks_exact(size));
    let is_close_enough =
        |(want, got): (&[u8], &[u8])| want == got || is_within_tolerance(*scalar, bits_of(want), bits_of(got), *tolerance);
    let different: Vec<usize> = pairs.enumerate().filter(|(_, pair)| !is_close_enough(*pair)).map(|(i, _)| i).collect();
    let first = different.first()?;
    let bits = |data: &[u8]| bits_of(&data[first * size..][..size]);
    let (count, all) = (different.len(), want.len() / size);
    let (got, want) = (bits(got), bits(want));
    Some(format!("{name} ({scalar}): {count} of {all} differ, first {first}: {got:#x} for {want:#x}"))
}

fn bits_of(bytes: &[u8]) -> u64 {
    let mut bits_of = [0; 8];
    bits_of[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(bits_of)
}

/// Returns whether two floats are both NaN, or differ by at most the tolerance. Integers have no tolerance.
fn is_within_tolerance(scalar: Scalar, want: u64, got: u64, tolerance: f64) -> bool {
    if scalar.is_int() {
        return false;
    }
    let (want, got) = (numerics::float::decode(scalar, want), numerics::float::decode(scalar, got));
    want.is_nan() && got.is_nan() || (want - got).abs() <= tolerance * want.abs().max(1.0) && tolerance > 0.0
}
