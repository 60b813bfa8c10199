//! Reads pipeline files, which list the stage tools and their options, and plans command lines. The plan of a command line is the
//! list of commands from the input to the requested output.

use crate::options::OPTIONS;
use common::cl::Value;
use common::cl::{Parsed, dashed};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The text of the built-in pipeline.
const DEFAULT_PIPELINE: &str = include_str!("../../../pipeline.toml");

/// The stages of a pipeline file, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pipeline {
    stage: Vec<Stage>,
}

/// The environment variable that the driver sets for every stage. A driver detects with this variable that a stage started it.
pub(crate) const NESTED_VARIABLE: &str = "TILEWORKS_NESTED";
/// The driver passes this option to every stage, but omits it from the commands that it prints.
pub(crate) const JSON_MESSAGES: &str = "--error-format=json";
/// The option with which `tile-link` embeds the program in the cubin. Its value is the path of the input, which [`Step::on_input`]
/// appends.
const PROGRAM_OPTION: &str = "--program=";
/// Kinds of files to which `--format` does not apply, because they have a single format.
const SINGLE_FORMAT_KINDS: [&str; 5] = ["ptx", "llvm-ir", "cubin", "fatbin", "host-object"];
/// Size limit of a pipeline file, in bytes.
const MAX_PIPELINE_FILE_BYTES: u64 = 1 << 20;

/// A stage of a pipeline file: its program, the kinds of files that it reads and writes, and its options.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    /// The name of a stage tool next to the driver, or a path relative to the folder of the pipeline file.
    tool: String,
    /// The path of the executable, resolved from `tool`.
    #[serde(skip)]
    program: PathBuf,
    /// The kind of the stage's input, such as `aa`.
    reads: String,
    /// The kind of the stage's output.
    writes: String,
    /// Other kinds of output that `--emit` can request from the stage.
    #[serde(default)]
    emits: Vec<String>,
    /// The options of the driver that the stage receives.
    #[serde(default)]
    options: Vec<String>,
    /// Arguments that the stage always receives.
    #[serde(default)]
    arguments: Vec<String>,
}

/// A command of the plan. The module `run` connects its input and output when the command runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) tool: String,
    /// The path that the driver executes.
    pub(crate) program: PathBuf,
    /// The program as `--dry-run` prints it.
    pub(crate) printed_program: String,
    pub(crate) arguments: Vec<String>,
    /// The kind of file that the command writes.
    pub(crate) writes: String,
}

impl Step {
    /// Returns the step with the path of the input appended to `--program=`, if the step has this option.
    pub(crate) fn on_input(&self, path: &Path) -> Step {
        let with_input_path = |argument: &String| match argument == PROGRAM_OPTION {
            true => format!("{PROGRAM_OPTION}{}", path.display()),
            false => argument.clone(),
        };
        Step { arguments: self.arguments.iter().map(with_input_path).collect(), ..self.clone() }
    }
    /// Returns whether the step reads the input file in addition to the output of the previous step.
    pub(crate) fn reads_input(&self) -> bool {
        self.arguments.iter().any(|argument| argument == PROGRAM_OPTION)
    }
    /// Returns the name of the tool without its folder.
    pub(crate) fn name(&self) -> &str {
        self.tool.rsplit('/').next().unwrap_or(&self.tool)
    }
}

impl Pipeline {
    /// Loads the pipeline file, or the built-in pipeline without a path. Returns the pipeline and its text.
    pub(crate) fn load(path: Option<&str>) -> Result<(Pipeline, String), String> {
        let (text, name) = match path {
            Some(path) => {
                if std::env::var_os(NESTED_VARIABLE).is_some() {
                    return Err(format!("pipeline file '{path}': a stage of a pipeline cannot start another one"));
                }
                let read_error = |reason| format!("cannot read pipeline file '{path}': {reason}");
                let file = std::fs::File::open(path).map_err(|error| read_error(common::os_error_text(&error)))?;
                let bytes = common::read_at_most(file, path, MAX_PIPELINE_FILE_BYTES).map_err(|error| read_error(error.message))?;
                (String::from_utf8(bytes).map_err(|_| read_error("it is not text".into()))?, path)
            }
            None => (DEFAULT_PIPELINE.to_string(), "the pipeline"),
        };
        let folder = path.and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""));
        let pipeline = Pipeline::parse(&text, name, folder)?;
        Ok((pipeline, text))
    }

    /// Returns the built-in pipeline, with the stage tools in the folder `tools`.
    pub(crate) fn built_in(tools: &Path) -> Result<Pipeline, String> {
        let mut pipeline = Pipeline::parse(DEFAULT_PIPELINE, "the pipeline", Path::new(""))?;
        pipeline.stage.iter_mut().for_each(|stage| stage.program = tools.join(&stage.tool));
        Ok(pipeline)
    }

    /// Parses the text of a pipeline file. Paths in the file are relative to `folder`. `name` is the name of the file in messages.
    pub(crate) fn parse(text: &str, name: &str, folder: &Path) -> Result<Pipeline, String> {
        let mut pipeline: Pipeline = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        pipeline.stage.iter_mut().for_each(|stage| stage.resolve_program(folder));
        pipeline.check().map_err(|message| format!("{name}: {message}"))?;
        Ok(pipeline)
    }

    /// Checks each stage, and that each stage reads the kind of file that the previous stage writes.
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

    /// Returns whether a command of the plan takes `--gpu-name`.
    pub(crate) fn needs_target(&self, steps: &[Step]) -> bool {
        self.stage.iter().take(steps.len()).any(|stage| stage.options.iter().any(|name| name == "gpu-name"))
    }

    /// Returns the commands from the input to the output that a command line requests.
    pub(crate) fn plan(&self, parsed: &Parsed) -> Result<Vec<Step>, String> {
        let (last, stop_after) = self.end_of_plan(parsed)?;
        let mut steps = Vec::new();
        for stage in &self.stage[..=last] {
            let mut arguments = vec![JSON_MESSAGES.to_string()];
            arguments.extend(stage.options.iter().filter_map(|name| stage_option(name, parsed)));
            arguments.extend(stage.arguments.iter().cloned());
            let limit_options = ["max-memory", "max-time"].iter().filter(|_| stage.is_stage_tool());
            arguments.extend(limit_options.filter_map(|name| stage_option(name, parsed)));
            for (option, argument) in [("time", "--time"), ("verbose", "--verbose")] {
                arguments.extend(parsed.flag(option).then(|| argument.to_string()));
            }
            if parsed.flag("print-changed") && stage.has_pass("all") {
                arguments.push("--print-changed".to_string());
            }
            for requested in parsed.values_of("print-after") {
                let (tool, pass) = requested.split_once(':').map_or((None, requested), |(tool, pass)| (Some(tool), pass));
                let in_this_stage = tool.map_or_else(|| stage.has_pass(pass), |tool| tool == stage.tool);
                arguments.extend(in_this_stage.then(|| format!("--print-after={pass}")));
            }
            if stage.tool == "tile-link" && parsed.get("embed-program") != Some("off") {
                arguments.push(PROGRAM_OPTION.to_string());
            }
            let (tool, program, writes) = (stage.tool.clone(), stage.program.clone(), stage.writes.clone());
            let printed_program = if stage.is_stage_tool() { tool.clone() } else { program.to_string_lossy().into_owned() };
            steps.push(Step { tool, program, printed_program, arguments, writes });
        }
        let step = steps.last_mut().expect("a plan has the last stage");
        step.arguments.extend(stop_after.map(|pass| format!("--stop-after={pass}")));
        if let Some(kind) = requested_kind(parsed).filter(|kind| self.stage[last].emits.iter().any(|emitted| emitted == kind)) {
            step.arguments.push(format!("--emit={kind}"));
            step.writes = kind.to_string();
        }
        if let Some(form) = parsed.get("format") {
            if is_cpu_module(parsed) {
                return Err("--format applies to stage files; cpu-module has a single format".into());
            }
            if SINGLE_FORMAT_KINDS.contains(&step.writes.as_str()) {
                return Err(format!("--format applies to stage files; {} has a single format", step.writes));
            }
            step.arguments.push(format!("--format={form}"));
        }
        self.check_print_after(parsed, &steps)?;
        Ok(steps)
    }

    /// Returns the index of the last stage to run, and the pass after which this stage stops, from `--stop-after` and `--emit`.
    fn end_of_plan<'a>(&self, parsed: &'a Parsed) -> Result<(usize, Option<&'a str>), String> {
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
        let Some(kind) = requested_kind(parsed) else { return Ok((self.stage.len() - 1, None)) };
        let index = self.stage.iter().position(|stage| stage.writes == kind || stage.emits.iter().any(|emitted| emitted == kind));
        index.map(|index| (index, None)).ok_or_else(|| format!("no tool of the pipeline writes '{kind}'"))
    }

    /// Checks that a tool of the plan has each pass that `--print-after` names.
    fn check_print_after(&self, parsed: &Parsed, steps: &[Step]) -> Result<(), String> {
        for requested in parsed.values_of("print-after").filter(|pass| *pass != "all") {
            let pass = requested.rsplit(':').next().unwrap_or(requested);
            let argument = format!("--print-after={pass}");
            if !steps.iter().any(|step| step.arguments.contains(&argument)) {
                return Err(format!(
                    "--print-after={requested}: no tool of the plan has this pass; the --help of a tool lists its passes"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether the command line requests a module for the CPU device. Such a module contains the output file of a stage.
pub(crate) fn is_cpu_module(parsed: &Parsed) -> bool {
    parsed.get("emit") == Some("cpu-module")
}

/// Returns the kind of file that `--emit` requests; `None` without `--emit`. For a module for the CPU device, returns the kind of
/// stage file that the module contains.
fn requested_kind(parsed: &Parsed) -> Option<&str> {
    if is_cpu_module(parsed) { Some(parsed.get("cpu-stage").unwrap_or("tile")) } else { parsed.get("emit") }
}

/// Returns the text of an option for a stage; `None` if the command line of the driver does not set the option.
fn stage_option(name: &str, parsed: &Parsed) -> Option<String> {
    let value = parsed.get(name)?;
    match OPTIONS.iter().find(|spec| spec.name == name)?.value {
        Value::Bool => parsed.flag(name).then(|| dashed(name)),
        Value::Integer => common::cl::parse_integer(value).map(|number| format!("{}={number}", dashed(name))),
        _ => Some(format!("{}={value}", dashed(name))),
    }
}

impl Stage {
    /// Returns whether the stage is a tool of Tileworks next to the driver. Other programs are named by a path.
    fn is_stage_tool(&self) -> bool {
        !self.tool.contains('/')
    }

    /// Sets the path of the program from the name of the tool.
    fn resolve_program(&mut self, folder: &Path) {
        self.program = if self.is_stage_tool() { tools_folder().join(&self.tool) } else { folder.join(&self.tool) };
        if self.program.is_relative() {
            self.program = Path::new(".").join(&self.program);
        }
    }

    /// Checks the tool, the options and the arguments of the stage.
    fn check(&self) -> Result<(), String> {
        let built_in: Pipeline = toml::from_str(DEFAULT_PIPELINE).expect("the built-in pipeline is well formed");
        let tool_names: Vec<&str> = built_in.stage.iter().map(|stage| stage.tool.as_str()).collect();
        if self.is_stage_tool() && !tool_names.contains(&self.tool.as_str()) {
            return Err(format!(
                "'{}' is not one of the stages {}; use a path for another program",
                self.tool,
                tool_names.join(", ")
            ));
        }
        let real_path = |path: &Path| std::fs::canonicalize(path).ok();
        if let (Some(program), Ok(driver)) = (real_path(&self.program), std::env::current_exe())
            && real_path(&driver) == Some(program)
        {
            return Err(format!("'{}' is the driver itself", self.tool));
        }
        if let Some(unknown) = self.options.iter().find(|name| OPTIONS.iter().all(|spec| spec.name != **name)) {
            return Err(format!("the options of {} include '{unknown}', which is not an option of the driver", self.tool));
        }
        match self.arguments.iter().find(|argument| !is_allowed_argument(argument)) {
            Some(argument) => Err(format!(
                "{} has the argument '{argument}', but arguments must be options with values joined by '=', and cannot name an output",
                self.tool
            )),
            None => Ok(()),
        }
    }

    /// Returns whether the tool has the pass `pass`. For `all`, returns whether the tool has any pass.
    fn has_pass(&self, pass: &str) -> bool {
        pass_names(&self.program).iter().any(|known| known == pass || pass == "all")
    }
}

/// Returns whether a pipeline file may pass `argument` to a stage. The argument must be an option, and must not name an output
/// file.
fn is_allowed_argument(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or(argument);
    let names_output = argument.starts_with("-o") || ["--output", "--out-dir", "--stats", "--input-name"].contains(&name);
    name.len() > 1 && name.starts_with('-') && name != "--" && !names_output
}

/// Returns the pass names in the help text of a tool.
fn pass_names(program: &Path) -> Vec<String> {
    let output = common::child::run_captured(std::process::Command::new(program).arg("--help"), None);
    let help = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // The list may span several lines and ends at an empty line.
    let pass_list = help.split_once("Passes: ").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    pass_list.split([',', ' ', '\n']).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// Returns the folder with the stage tools: the folder of the driver's real path.
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
    fn each_stage_receives_the_options_that_it_lists() {
        let steps = plan("k.bc --gpu-name sm_90 -O0x1 --lineinfo --host-os=windows").unwrap();
        let arguments_of = |tool: &str| steps.iter().find(|step| step.tool == tool).unwrap().arguments[1..].join(" ");
        assert_eq!(arguments_of("tile-read"), "");
        assert_eq!(arguments_of("tile-lower-aa"), "--opt-level=1");
        assert_eq!(arguments_of("tile-lower-as"), "--gpu-name=sm_90");
        assert_eq!(arguments_of("tile-ptx"), "--lineinfo");
        assert_eq!(arguments_of("tile-link"), "--host-os=windows --program=");
    }

    #[test]
    fn emit_and_stop_after_determine_the_last_stage() {
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
    fn invalid_pipeline_files_are_rejected() {
        for text in ["", "[[stage]]\ntool='rm'\nreads='x'\nwrites='y'", "[[stage]]\ntool='a'\nreads='x'\nwrites='y'\nspeed=1"] {
            let pipeline = toml::from_str::<Pipeline>(text);
            assert!(pipeline.map_err(|error| error.to_string()).and_then(|pipeline| pipeline.check()).is_err(), "{text}");
        }
    }
}
