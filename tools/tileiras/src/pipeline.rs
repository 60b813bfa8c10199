//! The pipeline file, and the plan: the commands that implement a command line.

use crate::options::OPTIONS;
use common::cl::Value;
use common::cl::{Parsed, dashed};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const DEFAULT: &str = include_str!("../../../pipeline.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pipeline {
    stage: Vec<Stage>,
}

/// Set for every stage, to detect a stage that starts the driver again.
pub(crate) const NESTED: &str = "TILEWORKS_NESTED";
/// The argument by which `tile-link` embeds the program. Its value is the input, which [`Step::on_input`] names.
const PROGRAM: &str = "--program=";
/// Kinds of files that have a single format, so `--format` does not apply.
const ONE_FORM: [&str; 5] = ["ptx", "llvm-ir", "cubin", "fatbin", "host-object"];
/// Size limit of a pipeline file, in bytes.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    /// The name of a stage tool next to the driver, or a path relative to the folder of the pipeline file.
    tool: String,
    #[serde(skip)]
    program: PathBuf,
    reads: String,
    writes: String,
    #[serde(default)]
    emits: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    arguments: Vec<String>,
}

/// A command of the plan. Its input and output are connected when it runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) tool: String,
    /// The program, as executed and as printed.
    pub(crate) program: PathBuf,
    pub(crate) arg: String,
    pub(crate) arguments: Vec<String>,
    /// The kind of file it writes.
    pub(crate) writes: String,
}

impl Step {
    /// The step with the name of the input in its arguments.
    pub(crate) fn on_input(&self, path: &Path) -> Step {
        let named = |argument: &String| match argument == PROGRAM {
            true => format!("{PROGRAM}{}", path.display()),
            false => argument.clone(),
        };
        Step { arguments: self.arguments.iter().map(named).collect(), ..self.clone() }
    }
    /// Whether the step reads the input besides the output of the step before it.
    pub(crate) fn reads_input(&self) -> bool {
        self.arguments.iter().any(|argument| argument == PROGRAM)
    }
    /// The tool without a path.
    pub(crate) fn name(&self) -> &str {
        self.tool.rsplit('/').next().unwrap_or(&self.tool)
    }
}

impl Pipeline {
    /// The built-in pipeline, or the pipeline of a file, with the name of its source.
    pub(crate) fn load(path: Option<&str>) -> Result<(Pipeline, String), String> {
        let (text, name) = match path {
            Some(path) => {
                if std::env::var_os(NESTED).is_some() {
                    return Err(format!("pipeline file '{path}': a stage of a pipeline cannot start another one"));
                }
                let cannot = |reason| format!("cannot read pipeline file '{path}': {reason}");
                let file = std::fs::File::open(path).map_err(|error| cannot(common::plain(&error)))?;
                let bytes = common::read_at_most(file, path, LARGEST).map_err(|error| cannot(error.message))?;
                (String::from_utf8(bytes).map_err(|_| cannot("it is not text".into()))?, path)
            }
            None => (DEFAULT.to_string(), "the pipeline"),
        };
        let folder = path.and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""));
        let pipeline = Pipeline::parse(&text, name, folder)?;
        Ok((pipeline, text))
    }

    /// Parses a pipeline. Its paths are relative to `folder`; `name` is for messages.
    pub(crate) fn parse(text: &str, name: &str, folder: &Path) -> Result<Pipeline, String> {
        let mut pipeline: Pipeline = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        pipeline.stage.iter_mut().for_each(|stage| stage.find(folder));
        pipeline.check().map_err(|message| format!("{name}: {message}"))?;
        Ok(pipeline)
    }

    fn check(&self) -> Result<(), String> {
        let Some(first) = self.stage.first() else { return Err("there is no stage".into()) };
        let mut kind = first.reads.as_str();
        for stage in &self.stage {
            stage.check()?;
            if stage.reads != kind {
                return Err(format!("{} reads '{}', but the previous stage writes '{kind}'", stage.tool, stage.reads));
            }
            kind = &stage.writes;
        }
        Ok(())
    }

    /// Returns whether a command of the plan needs a target.
    pub(crate) fn needs_target(&self, steps: &[Step]) -> bool {
        self.stage.iter().take(steps.len()).any(|stage| stage.options.iter().any(|name| name == "gpu-name"))
    }

    /// The plan: the commands from the input to the requested output.
    pub(crate) fn plan(&self, parsed: &Parsed) -> Result<Vec<Step>, String> {
        let (last, stop_after) = self.last(parsed)?;
        let mut steps = Vec::new();
        for stage in &self.stage[..=last] {
            let mut arguments = vec![crate::run::JSON.to_string()];
            arguments.extend(stage.options.iter().filter_map(|name| forwarded(name, parsed)));
            arguments.extend(stage.arguments.iter().cloned());
            let limits = ["max-memory", "max-time"].iter().filter(|_| stage.is_own());
            arguments.extend(limits.filter_map(|name| forwarded(name, parsed)));
            for (option, given) in [("time", "--time"), ("verbose", "--verbose")] {
                arguments.extend(parsed.flag(option).then(|| given.to_string()));
            }
            if parsed.flag("print-changed") && stage.has_pass("all") {
                arguments.push("--print-changed".to_string());
            }
            for wanted in parsed.all("print-after") {
                let (tool, pass) = wanted.split_once(':').map_or((None, wanted), |(tool, pass)| (Some(tool), pass));
                let here = tool.map_or_else(|| stage.has_pass(pass), |tool| tool == stage.tool);
                arguments.extend(here.then(|| format!("--print-after={pass}")));
            }
            if stage.tool == "tile-link" && parsed.get("embed-program") != Some("off") {
                arguments.push(PROGRAM.to_string());
            }
            let (tool, program, writes) = (stage.tool.clone(), stage.program.clone(), stage.writes.clone());
            let arg = if stage.is_own() { tool.clone() } else { program.to_string_lossy().into_owned() };
            steps.push(Step { tool, program, arg, arguments, writes });
        }
        let step = steps.last_mut().expect("a plan has the last stage");
        step.arguments.extend(stop_after.map(|pass| format!("--stop-after={pass}")));
        if let Some(kind) = emitted(parsed).filter(|kind| self.stage[last].emits.iter().any(|emitted| emitted == kind)) {
            step.arguments.push(format!("--emit={kind}"));
            step.writes = kind.to_string();
        }
        if let Some(form) = parsed.get("format") {
            if is_cpu_module(parsed) {
                return Err("--format applies to stage files; cpu-module has a single format".into());
            }
            if ONE_FORM.contains(&step.writes.as_str()) {
                return Err(format!("--format applies to stage files; {} has a single format", step.writes));
            }
            step.arguments.push(format!("--format={form}"));
        }
        self.check_print_after(parsed, &steps)?;
        Ok(steps)
    }

    /// The last stage to run, and the pass to stop after in it.
    fn last<'a>(&self, parsed: &'a Parsed) -> Result<(usize, Option<&'a str>), String> {
        if let Some(stop) = parsed.get("stop-after") {
            if parsed.get("emit").is_some() {
                return Err("--emit and --stop-after contradict each other".into());
            }
            let (tool, pass) = stop.split_once(':').map_or((stop, None), |(tool, pass)| (tool, Some(pass)));
            if let Some(index) = self.stage.iter().position(|stage| stage.tool == tool) {
                return Ok((index, pass));
            }
            // A pass name without a tool selects the first tool with that pass.
            let index = self.stage.iter().position(|stage| pass.is_none() && stage.has_pass(stop));
            return index.map(|index| (index, Some(stop))).ok_or_else(|| format!("the pipeline has no tool or pass '{stop}'"));
        }
        let Some(kind) = emitted(parsed) else { return Ok((self.stage.len() - 1, None)) };
        let index = self.stage.iter().position(|stage| stage.writes == kind || stage.emits.iter().any(|emitted| emitted == kind));
        index.map(|index| (index, None)).ok_or_else(|| format!("no tool of the pipeline writes '{kind}'"))
    }

    fn check_print_after(&self, parsed: &Parsed, steps: &[Step]) -> Result<(), String> {
        for wanted in parsed.all("print-after").filter(|pass| *pass != "all") {
            let pass = wanted.rsplit(':').next().unwrap_or(wanted);
            let argument = format!("--print-after={pass}");
            if !steps.iter().any(|step| step.arguments.contains(&argument)) {
                return Err(format!(
                    "--print-after={wanted}: no tool of the plan has this pass; the --help of a tool lists its passes"
                ));
            }
        }
        Ok(())
    }
}

/// Whether the output is a module for the CPU device, which contains the file of a stage.
pub(crate) fn is_cpu_module(parsed: &Parsed) -> bool {
    parsed.get("emit") == Some("cpu-module")
}

/// The kind of file that the last stage writes on request.
fn emitted(parsed: &Parsed) -> Option<&str> {
    if is_cpu_module(parsed) { Some(parsed.get("cpu-stage").unwrap_or("tile")) } else { parsed.get("emit") }
}

/// The driver's option in the syntax of the stages, if it is set.
fn forwarded(name: &str, parsed: &Parsed) -> Option<String> {
    let value = parsed.get(name)?;
    match OPTIONS.iter().find(|spec| spec.name == name)?.value {
        Value::Bool => parsed.flag(name).then(|| dashed(name)),
        Value::Integer => common::cl::parse_integer(value).map(|number| format!("{}={number}", dashed(name))),
        _ => Some(format!("{}={value}", dashed(name))),
    }
}

impl Stage {
    /// Whether the stage is a tool of this project, next to the driver.
    fn is_own(&self) -> bool {
        !self.tool.contains('/')
    }

    fn find(&mut self, folder: &Path) {
        self.program = if self.is_own() { tools_folder().join(&self.tool) } else { folder.join(&self.tool) };
        if self.program.is_relative() {
            self.program = Path::new(".").join(&self.program);
        }
    }

    fn check(&self) -> Result<(), String> {
        let own: Pipeline = toml::from_str(DEFAULT).expect("the built-in pipeline is well formed");
        let known: Vec<&str> = own.stage.iter().map(|stage| stage.tool.as_str()).collect();
        if self.is_own() && !known.contains(&self.tool.as_str()) {
            return Err(format!("'{}' is not one of the stages {}; use a path for another program", self.tool, known.join(", ")));
        }
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        if let (Some(program), Ok(driver)) = (real(&self.program), std::env::current_exe())
            && real(&driver) == Some(program)
        {
            return Err(format!("'{}' is the driver itself", self.tool));
        }
        if let Some(unknown) = self.options.iter().find(|name| OPTIONS.iter().all(|spec| spec.name != **name)) {
            return Err(format!("the options of {} include '{unknown}', which is not an option of the driver", self.tool));
        }
        match self.arguments.iter().find(|argument| !may_be_given(argument)) {
            Some(argument) => Err(format!(
                "{} has the argument '{argument}', but arguments must be options with values joined by '=', and cannot name an output",
                self.tool
            )),
            None => Ok(()),
        }
    }

    /// Whether it has a pass of this name, or any pass for `all`.
    fn has_pass(&self, pass: &str) -> bool {
        passes(&self.program).iter().any(|own| own == pass || pass == "all")
    }
}

/// Whether a pipeline file may pass this argument to a stage: options only, except those that name output files.
fn may_be_given(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or(argument);
    let writes = argument.starts_with("-o") || ["--output", "--out-dir", "--stats", "--input-name"].contains(&name);
    name.len() > 1 && name.starts_with('-') && name != "--" && !writes
}

/// The pass names in a tool's help text. Only needed if the command line names a pass without a tool.
fn passes(program: &Path) -> Vec<String> {
    let output = common::child::output(std::process::Command::new(program).arg("--help"), None);
    let help = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // The list may span several lines and ends at an empty line.
    let listed = help.split_once("Passes: ").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    listed.split([',', ' ', '\n']).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// The folder with the stage tools: the folder of the driver's real path.
pub(crate) fn tools_folder() -> PathBuf {
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    executable.parent().map(Path::to_path_buf).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::cl::parse;

    fn plan(line: &str) -> Result<Vec<Step>, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Pipeline::load(None).unwrap().0.plan(&parse(OPTIONS, "tileiras", &args))
    }

    #[test]
    fn options_go_to_the_stage_that_needs_them() {
        let steps = plan("k.bc --gpu-name sm_90 -O0x1 --lineinfo --host-os=windows").unwrap();
        let given = |tool: &str| steps.iter().find(|step| step.tool == tool).unwrap().arguments[1..].join(" ");
        assert_eq!(given("tile-read"), "");
        assert_eq!(given("tile-lower-aa"), "--opt-level=1");
        assert_eq!(given("tile-lower-as"), "--gpu-name=sm_90");
        assert_eq!(given("tile-ptx"), "--lineinfo");
        assert_eq!(given("tile-link"), "--host-os=windows --program=");
    }

    #[test]
    fn emit_and_stop_after_end_the_plan() {
        assert_eq!(plan("--emit=aa").unwrap().len(), 2);
        let steps = plan("--emit=llvm-ir").unwrap();
        assert_eq!(
            (steps.len(), steps[4].arguments.last().unwrap().as_str(), steps[4].writes.as_str()),
            (5, "--emit=llvm-ir", "llvm-ir")
        );
        let steps = plan("--stop-after=tile-sched:alloc --format=text").unwrap();
        assert_eq!(steps.last().unwrap().arguments[1..], ["--stop-after=alloc", "--format=text"]);
        assert!(plan("--stop-after=tile-nothing").is_err());
    }

    #[test]
    fn a_wrong_pipeline_file_is_refused() {
        for text in ["", "[[stage]]\ntool='rm'\nreads='x'\nwrites='y'", "[[stage]]\ntool='a'\nreads='x'\nwrites='y'\nspeed=1"] {
            let pipeline = toml::from_str::<Pipeline>(text);
            assert!(pipeline.map_err(|error| error.to_string()).and_then(|pipeline| pipeline.check()).is_err(), "{text}");
        }
    }
}
