//! The stages of a compilation inside a host process, for libtileworks.
//!
//! [`Stages`] runs most stages as functions in the host process. Stages with code that may crash or exhaust memory, such as LLVM,
//! run as processes of their own, as in the driver.

use crate::pipeline::Step;
use crate::run::{self, CommandEnd, Failure, Outcome};
use base::codec::SIZE_LIMIT;
use common::child;
use common::{Control, EmbeddedRun};
use std::path::Path;
use std::sync::Arc;

/// The stages that a host process can run.
pub trait Stages: Sync {
    /// Runs a stage in this process. Returns `None` if the stage needs a process of its own.
    fn run(
        &self,
        tool: &str,
        arguments: &[String],
        input: &Arc<Vec<u8>>,
        name: &str,
        control: &Arc<Control>,
    ) -> Option<EmbeddedRun>;
}

/// A host process.
pub struct Host<'a> {
    pub stages: &'a dyn Stages,
    /// The folder with the executables of the other stages.
    pub tools: &'a Path,
    pub control: Arc<Control>,
}

/// Runs the stages one after the other.
pub(crate) fn run_in_host(host: &Host, steps: &[Step], input: &[u8], name: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut bytes = Arc::new(input.to_vec());
    for (index, step) in steps.iter().enumerate() {
        let name = name.filter(|_| index == 0).unwrap_or("<stdin>");
        let (output, stderr, failure) = match host.stages.run(&step.tool, &step.arguments, &bytes, name, &host.control) {
            Some(EmbeddedRun { output, stderr, exit_code: 0 }) => (output, stderr, None),
            Some(EmbeddedRun { output, stderr, exit_code }) => {
                (output, stderr, Some((format!("exit status: {exit_code}"), CommandEnd::Code(exit_code.into()))))
            }
            None => run_process(host, step, &bytes),
        };
        outcome.stage_output.extend(stderr.lines().map(run::parse_stderr_line));
        let failure = failure.or_else(|| {
            let is_last = index + 1 == steps.len();
            let defect = if is_last { crate::artefact::describe_defect(&step.writes, &output) } else { None };
            defect.map(|status| (status, CommandEnd::WrongOutput))
        });
        if let Some((status, end)) = failure {
            outcome.failed = Some(Failure { index, tool: step.tool.clone(), status, end });
            return outcome;
        }
        bytes = Arc::new(output);
    }
    outcome.output = Arc::unwrap_or_clone(bytes);
    outcome
}

/// The output of a stage, its standard error, and the description and kind of its failure (`None` on success).
type StageRun = (Vec<u8>, String, Option<(String, CommandEnd)>);

/// Runs a stage as a child process.
fn run_process(host: &Host, step: &Step, input: &[u8]) -> StageRun {
    let mut command = run::stage_command(step);
    match child::run_cancellable(&mut command, input, None, SIZE_LIMIT as u64, &host.control) {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let failure =
                (!output.status.success()).then(|| (child::describe(output.status), run::command_end(output.status, &stderr)));
            (output.stdout, stderr, failure)
        }
        Err(error) => {
            let status = format!("cannot be executed: {}", common::os_error_text(&error));
            (Vec::new(), String::new(), Some((status, CommandEnd::NotStarted)))
        }
    }
}
