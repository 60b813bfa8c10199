//! Compiles a candidate and predicts or measures its time, by running the tools as processes.

use crate::records::{Failure, FailureKind, Outcome, RankedCandidate};
use base::Target;
use base::diag::{Diagnostic, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Number of timed launches of each measured candidate.
const TIMED_LAUNCHES: &str = "20";

/// Evaluates candidates for one kernel, launch and target.
pub(crate) struct Evaluator {
    /// The folder of the tools.
    pub(crate) tools: PathBuf,
    /// The path of the kernel's bytecode.
    pub(crate) kernel: PathBuf,
    /// The path of the launch description.
    pub(crate) launch: PathBuf,
    /// A temporary folder for the compiled candidates.
    pub(crate) folder: PathBuf,
    pub(crate) target: Target,
    /// Options that all candidates have.
    pub(crate) fixed: Vec<String>,
    pub(crate) gpu: Option<String>,
    /// Time limit of a step in seconds.
    pub(crate) step_seconds: u64,
}

/// A candidate with its measured and its predicted time.
pub(crate) struct MeasuredCandidate {
    pub(crate) options: Vec<String>,
    pub(crate) predicted_seconds: f64,
    /// The measured time.
    pub(crate) seconds: f64,
}

/// A diagnostic of a tool, as `--error-format=json` prints it.
#[derive(Deserialize)]
struct ToolDiagnostic {
    kind: String,
    code: Option<String>,
    message: String,
}

impl Evaluator {
    /// Compiles a candidate and predicts its time. If an earlier candidate compiled to the same PTX, `known_seconds` returns the
    /// predicted time for the digest of the PTX.
    pub(crate) fn evaluate(&self, options: &[String], known_seconds: impl Fn(&str) -> Option<f64>) -> Outcome {
        self.compile_and_predict(options, known_seconds).unwrap_or_else(Outcome::Failed)
    }

    /// Implements [`Evaluator::evaluate`] with the failure as an error.
    fn compile_and_predict(
        &self,
        options: &[String],
        known_seconds: impl Fn(&str) -> Option<f64>,
    ) -> std::result::Result<Outcome, Failure> {
        let ptx = self.compile(options, "ptx")?;
        let digest = ptx_digest(&std::fs::read(&ptx).map_err(|error| failure_without_diagnostic(&error.to_string()))?);
        let seconds = match known_seconds(&digest) {
            Some(seconds) => seconds,
            None => self.predict_seconds(&ptx)?,
        };
        let _ = std::fs::remove_file(ptx);
        Ok(Outcome::Predicted { seconds, ptx: digest })
    }

    /// Compiles the kernel with these options. `kind` is `ptx` or `cubin`. Returns the path of the output.
    fn compile(&self, options: &[String], kind: &str) -> std::result::Result<PathBuf, Failure> {
        let name = format!("{}.{kind}", &blake3::hash(options.join(" ").as_bytes()).to_hex()[..16]);
        let output = self.folder.join(name);
        let mut arguments: Vec<String> =
            vec![format!("--gpu-name={}", self.target.name), format!("--max-time={}", self.step_seconds)];
        arguments.extend([format!("--emit={kind}"), "-o".into(), output.display().to_string()]);
        arguments.extend(self.fixed.iter().chain(options).cloned());
        arguments.extend(["--".into(), self.kernel.display().to_string()]);
        self.run_tool("tileiras", &arguments)?;
        Ok(output)
    }

    /// Returns the time in seconds that `tile-time` predicts for PTX.
    fn predict_seconds(&self, ptx: &Path) -> std::result::Result<f64, Failure> {
        #[derive(Deserialize)]
        struct Prediction {
            seconds: f64,
        }
        let mut arguments: Vec<String> = vec![ptx.display().to_string(), "--launch".into(), self.launch.display().to_string()];
        arguments.extend(["--no-advice".into(), "--json=-".into(), format!("--max-time={}", self.step_seconds)]);
        arguments.extend(self.gpu.iter().map(|gpu| format!("--gpu={gpu}")));
        let output = self.run_tool("tile-time", &arguments)?;
        let prediction: Prediction =
            serde_json::from_slice(&output).map_err(|error| failure_without_diagnostic(&format!("tile-time: {error}")))?;
        Ok(prediction.seconds)
    }

    /// Measures the candidates of a ranking on a GPU, and sorts them by measured time. `driver` is the path of the driver library,
    /// if it is not the system's.
    pub(crate) fn measure(&self, ranking: &[RankedCandidate], driver: Option<&Path>) -> Result<Vec<MeasuredCandidate>> {
        #[derive(Deserialize)]
        struct Launches {
            cubins: Vec<Cubin>,
        }
        #[derive(Deserialize)]
        struct Cubin {
            /// The median time of the timed launches.
            median_milliseconds: f64,
        }
        let failed = |failure: Failure| Diagnostic::io("TUN005", format!("cannot measure: {}", failure.message));
        let mut cubins = Vec::new();
        for candidate in ranking {
            cubins.push(self.compile(&candidate.options, "cubin").map_err(failed)?.display().to_string());
        }
        let mut arguments = vec![cubins[0].clone(), "--launch".into(), self.launch.display().to_string()];
        arguments.extend(["--refill".into(), format!("--repeat={TIMED_LAUNCHES}"), "--json=-".into()]);
        arguments.extend(driver.map(|path| format!("--driver={}", path.display())));
        arguments.extend(cubins[1..].iter().map(|cubin| format!("--against={cubin}")));
        let output = self.run_tool("tile-launch", &arguments).map_err(failed)?;
        let launches: Launches = serde_json::from_slice(&output)
            .map_err(|error| failed(failure_without_diagnostic(&format!("tile-launch: {error}"))))?;
        let measured = ranking.iter().zip(launches.cubins).map(|(candidate, cubin)| MeasuredCandidate {
            options: candidate.options.clone(),
            predicted_seconds: candidate.seconds,
            seconds: cubin.median_milliseconds / 1e3,
        });
        let mut measured: Vec<MeasuredCandidate> = measured.collect();
        measured.sort_by(|first, second| first.seconds.total_cmp(&second.seconds));
        Ok(measured)
    }

    /// Runs a tool and returns its standard output.
    fn run_tool(&self, tool: &str, arguments: &[String]) -> std::result::Result<Vec<u8>, Failure> {
        let path = self.tools.join(tool);
        let mut command = common::child::command(&path);
        command.arg("--error-format=json").args(arguments);
        let output = common::child::run_captured(&mut command, None);
        let output = output
            .map_err(|error| failure_without_diagnostic(&format!("{}: {}", path.display(), common::os_error_text(&error))))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(reported_failure(tool, &String::from_utf8_lossy(&output.stderr)))
        }
    }
}

/// Returns the failure that the first diagnostic of a tool describes.
fn reported_failure(tool: &str, stderr: &str) -> Failure {
    let Some(reported) = stderr.lines().find_map(|line| serde_json::from_str::<ToolDiagnostic>(line).ok()) else {
        return failure_without_diagnostic(&format!("{tool}: {}", stderr.lines().next().unwrap_or("no message")));
    };
    let kind = match (reported.code.as_deref(), &*reported.kind) {
        (Some("SC100"), _) => FailureKind::SharedMemory,
        (Some("AS905" | "SC101" | "SC102" | "SC103" | "SC104"), _) => FailureKind::Option,
        _ if reported.message.contains("the time limit") => FailureKind::TimeLimit,
        (_, "unsupported") => FailureKind::Unsupported,
        _ => FailureKind::Error,
    };
    Failure { kind, code: reported.code, message: reported.message }
}

/// Returns a failure with this message, for errors that no diagnostic of a tool describes.
fn failure_without_diagnostic(message: &str) -> Failure {
    Failure { kind: FailureKind::Error, code: None, message: message.into() }
}

/// Returns the digest of PTX without its comments. Comments contain the options, so they differ between candidates with the same
/// code.
fn ptx_digest(ptx: &[u8]) -> String {
    let text = String::from_utf8_lossy(ptx);
    let mut hasher = blake3::Hasher::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        hasher.update(line.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex()[..16].to_string()
}
