//! One compilation for several targets: `--emit=fatbin`, `c-array` or `object` with more than one `--gpu-name`. The stages that do
//! not depend on the target run once; the other stages run for each target, `--jobs` targets at a time.

use crate::container::{self, Form, TargetCode};
use crate::failure::{DriverError, exit, plain_line, style};
use crate::pipeline::{Pipeline, Step};
use crate::run::{Failure, Outcome, StageOutput};
use crate::runner::Runner;
use crate::source::Source;
use crate::stage_groups::{self, StageInput};
use base::Target;
use common::child::MemoryFile;
use common::cl::{Parsed, parse_integer};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The output of a compilation and its messages.
pub(crate) struct Compiled {
    pub(crate) output: Vec<u8>,
    /// The text for standard error.
    pub(crate) text: String,
    /// The diagnostics in `text`. The cache stores them with the output, and a cache hit prints them again.
    pub(crate) warnings: String,
}

/// The commands of a compilation for one or several targets.
pub(crate) struct Plan {
    /// The commands for each target, in the order of the targets. A compilation for one target has one list.
    pub(crate) targets: Vec<TargetSteps>,
    /// The form of the output fatbin; `None` if `--emit` requests no fatbin.
    pub(crate) form: Option<Form>,
}

/// The commands for one target.
pub(crate) struct TargetSteps {
    /// `None` if the command line names no target.
    pub(crate) target: Option<Target>,
    pub(crate) steps: Vec<Step>,
}

impl Plan {
    /// Returns the commands of a command line. If the output cannot contain code for several targets, the plan is for the last
    /// target on the command line.
    pub(crate) fn new(pipeline: &Pipeline, parsed: &Parsed) -> Result<Plan, String> {
        let form = Form::detect(parsed);
        let parse_target = |name: &str| Target::parse(name);
        let targets: BTreeSet<Target> = match form {
            Some(_) => parsed.values_of("gpu-name").filter_map(parse_target).collect(),
            None => parsed.get("gpu-name").and_then(parse_target).into_iter().collect(),
        };
        if targets.len() < 2 {
            let reduced = form.map_or_else(|| parsed.clone(), |_| with_option(parsed, "emit", "fatbin"));
            let steps = TargetSteps { target: targets.first().copied(), steps: pipeline.plan(&reduced)? };
            return Ok(Plan { targets: vec![steps], form });
        }
        let plan_target = |target: &Target| {
            let reduced = with_option(&with_option(parsed, "emit", "cubin"), "gpu-name", target.name);
            let steps = pipeline.plan(&reduced)?;
            let writes_ptx = steps.iter().any(|step| step.writes == "ptx");
            let error = || "the pipeline has no stage that writes 'ptx', which a fatbin for several targets contains".to_string();
            writes_ptx.then_some(TargetSteps { target: Some(*target), steps }).ok_or_else(error)
        };
        Ok(Plan { targets: targets.iter().map(plan_target).collect::<Result<_, String>>()?, form })
    }

    /// The commands for the first target. The tools are the same for all targets.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.targets[0].steps
    }

    pub(crate) fn has_several_targets(&self) -> bool {
        self.targets.len() > 1
    }

    /// Returns the number of leading commands that are equal for all targets. The command that writes PTX is never one of these
    /// commands, because a fatbin contains PTX of individual targets.
    fn shared_step_count(&self) -> usize {
        let end = self.steps().iter().position(|step| step.writes == "ptx").unwrap_or(0);
        let is_shared = |index: &usize| self.targets.iter().all(|target| target.steps.get(*index) == self.steps().get(*index));
        (0..end).take_while(is_shared).count()
    }
}

/// Returns a copy of a command line with the option `name` set to `value`.
fn with_option(parsed: &Parsed, name: &'static str, value: &str) -> Parsed {
    let mut parsed = parsed.clone();
    parsed.option_values.push((name, value.to_string()));
    parsed
}

/// Runs a plan for several targets and returns the fatbin.
pub(crate) fn run(parsed: &Parsed, plan: &Plan, source: &Source, output: &str, runner: Runner) -> Result<Compiled, DriverError> {
    let program_file = MemoryFile::new("program", &source.bytes).map_err(|error| stage_groups::temporary_file_error(&error))?;
    let shared = plan.shared_step_count();
    let stem = stage_groups::create_save_temps_folder(parsed, source.path, output)?;
    let shared_outcome =
        stage_groups::run_in_groups(&plan.steps()[..shared], StageInput::from_source(source), stem.as_deref(), None, runner)?;
    if let Some(failure) = &shared_outcome.failed {
        let text = stage_groups::render_messages(parsed, &shared_outcome);
        return Err(stage_groups::compile_error(failure, plan.steps(), source, &shared_outcome.stage_output, style(parsed), text));
    }
    let run_target = |target: &TargetSteps| {
        let steps: Vec<Step> = target.steps[shared..].iter().map(|step| step.on_input(&program_file.path())).collect();
        let name = target.target.map_or("", |target| target.name);
        let stem = stem.as_ref().map(|stem| stem.with_added_extension(name));
        let input = match shared {
            0 => StageInput::from_source(source),
            _ => StageInput { bytes: &shared_outcome.output, name: None },
        };
        let mut outcome = stage_groups::run_in_groups(&steps, input, stem.as_deref().map(Path::new), None, runner)?;
        outcome.failed = outcome.failed.map(|failure| Failure { index: shared + failure.index, ..failure });
        Ok(outcome)
    };
    // With `--out-dir`, the batch already uses all cores.
    let workers = if parsed.get("out-dir").is_some() { 1 } else { requested_workers(parsed) };
    let outcomes = run_in_parallel(&plan.targets, workers, &run_target);
    combine_targets(parsed, plan, source, shared_outcome, outcomes)
}

/// Returns the number of compilations that run at the same time: the value of `--jobs` (at least one), or else the number of cores.
pub(crate) fn requested_workers(parsed: &Parsed) -> usize {
    match parsed.get("jobs").and_then(parse_integer) {
        Some(jobs) => usize::try_from(jobs).unwrap_or(1).max(1),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Calls `run` for each item on `workers` threads. Returns the results in the order of the items.
pub(crate) fn run_in_parallel<T: Sync, R: Send>(items: &[T], workers: usize, run: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = run(item);
                    results.lock().expect("no worker panics").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no worker panics");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Combines the code of all targets into a fatbin. If compilations failed, returns the error of the first failed target.
fn combine_targets(
    parsed: &Parsed,
    plan: &Plan,
    source: &Source,
    shared_outcome: Outcome,
    outcomes: Vec<Result<Outcome, DriverError>>,
) -> Result<Compiled, DriverError> {
    let mut messages = Messages::default();
    messages.add(parsed, &shared_outcome.stage_output);
    let mut code = Vec::new();
    for (target_steps, outcome) in plan.targets.iter().zip(outcomes) {
        let outcome = outcome?;
        messages.add(parsed, &outcome.stage_output);
        let target = target_steps.target.expect("a plan for several targets names them");
        if let Some(failure) = &outcome.failed {
            let text = messages.text + &plain_line(&format!("note: the target is {target}"), style(parsed));
            return Err(stage_groups::compile_error(
                failure,
                &target_steps.steps,
                source,
                &outcome.stage_output,
                style(parsed),
                text,
            ));
        }
        code.push(TargetCode { target, cubin: outcome.output, ptx: outcome.ptx.unwrap_or_default() });
    }
    let fatbin = container::write_fatbin(&code, container::host_system(parsed));
    let output = fatbin.map_err(|error| DriverError::new(exit::COMPILE, error.message))?;
    Ok(Compiled { output, text: messages.text, warnings: messages.warnings })
}

/// The messages of all targets. A diagnostic that several targets report is printed once.
#[derive(Default)]
struct Messages {
    /// The rendered diagnostics that `text` already contains.
    reported: BTreeSet<String>,
    /// The text for standard error.
    text: String,
    /// The diagnostics in `text`, which the cache stores.
    warnings: String,
}

impl Messages {
    /// Adds the messages of a target, except diagnostics that `text` already contains.
    fn add(&mut self, parsed: &Parsed, stage_output: &[StageOutput]) {
        for output in stage_output {
            let rendered = stage_groups::render_stage_output(output, style(parsed));
            let is_diagnostic = matches!(output, StageOutput::Diagnostic(_));
            if is_diagnostic && !self.reported.insert(rendered.clone()) {
                continue;
            }
            self.text += &rendered;
            if is_diagnostic {
                self.warnings += &rendered;
            }
        }
    }
}
