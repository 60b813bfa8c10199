//! Runs the stage tools to generate the files of all stages from the input.

use base::diag::{Diagnostic, Result};
use base::envelope::{Form, Sniffed, sniff};
use common::{Input, Session};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options of `tile-view` that it forwards to the stage tools.
#[derive(Debug, Default)]
pub(crate) struct StageRequest {
    pub(crate) target: Option<String>,
    pub(crate) level: Option<u8>,
    pub(crate) launch: Option<PathBuf>,
    /// The GPU for which `tile-time` predicts the time.
    pub(crate) gpu: Option<String>,
}

/// The files of the input's stage and of all later stages. A field is `None` if the file is missing.
#[derive(Debug, Default)]
pub(crate) struct StageFiles {
    /// The files of the first three stages: `.tile`, `.aa` and `.as`.
    pub(crate) tile: Option<Vec<u8>>,
    pub(crate) aa: Option<Vec<u8>>,
    pub(crate) as_file: Option<Vec<u8>>,
    /// A `.sched` file from before materialization, which still contains the loop schedules, and the trace of the units that the
    /// ops occupy.
    pub(crate) scheduled: Option<(Vec<u8>, Vec<u8>)>,
    /// The `.sched` file after all passes.
    pub(crate) sched: Option<Vec<u8>>,
    pub(crate) ptx: Vec<u8>,
    /// The output of nvdisasm.
    pub(crate) sass: Option<Vec<u8>>,
    /// The JSON report of `tile-time`.
    pub(crate) time: Option<serde_json::Value>,
    /// The files that could not be generated, each with the reason.
    pub(crate) missing: Vec<String>,
}

/// A temporary folder in which the stage tools run, and the folder that contains the tools.
struct ToolFolder {
    folder: tempfile::TempDir,
    tools_folder: PathBuf,
}

impl ToolFolder {
    /// Creates a temporary folder. The tools are in the folder of this executable.
    fn new() -> Result<ToolFolder> {
        let folder = tempfile::Builder::new().prefix("tile-view-").tempdir();
        let folder =
            folder.map_err(|error| Diagnostic::io("VIW001", format!("no folder to work in: {}", common::os_error_text(&error))))?;
        let own_path = std::env::current_exe().ok();
        let tools_folder = own_path.and_then(|path| path.parent().map(PathBuf::from)).unwrap_or_default();
        Ok(ToolFolder { folder, tools_folder })
    }

    /// Returns the path of a file in the temporary folder.
    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an input file of a tool.
    fn write_input(&self, name: &str, bytes: &[u8]) -> Result<()> {
        common::write_file(Some(&self.path_of(name)), bytes)
    }

    /// Reads an output file of a tool.
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(common::read_file(Some(&self.path_of(name)))?.bytes.to_vec())
    }

    /// Runs a tool of Tileworks in the temporary folder. If the tool fails, returns the error that it reports.
    fn run_tool(&self, tool: &str, words: &[&str]) -> Result<()> {
        self.run_command(tool, Command::new(self.tools_folder.join(tool)).args(["--error-format=json"]).args(words)).map(|_| ())
    }

    /// Runs a command in the temporary folder and returns its standard output.
    fn run_command(&self, name: &str, command: &mut Command) -> Result<Vec<u8>> {
        let output = common::child::run_captured(command.current_dir(self.folder.path()), None);
        let output =
            output.map_err(|error| Diagnostic::io("VIW002", format!("cannot run {name}: {}", common::os_error_text(&error))))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut diagnostics = stderr.lines().filter_map(|line| serde_json::from_str::<Diagnostic>(line).ok());
        match diagnostics.find(|diagnostic| diagnostic.severity == base::Severity::Error) {
            Some(error) => Err(Box::new(error)),
            None => {
                let first_line = stderr.lines().next().unwrap_or_default();
                let end_description = common::child::describe(output.status);
                Err(Diagnostic::io("VIW002", format!("{name} ends with {end_description}: {first_line}")))
            }
        }
    }
}

/// Returns the position of the input's stage in the pipeline: 0 for a Tile IR program, 1 for `.aa`, 2 for `.as`, 3 for `.sched` and
/// 4 for PTX.
fn stage_index(input: &Input) -> Result<usize> {
    match sniff(&input.bytes) {
        Sniffed::Bytecode | Sniffed::Text => Ok(0),
        Sniffed::Ptx => Ok(4),
        Sniffed::Stage { format, .. } => {
            let formats = ["tileir", "tileaa", "tileas", "sched", "ptx"];
            let stage = formats.iter().position(|known| *known == format);
            stage.ok_or_else(|| Diagnostic::invalid("VIW003", format!("{} is a file of an unknown format '{format}'", input.name)))
        }
        other => {
            let message = format!("{} is {}; this tool shows programs, stage files and PTX", input.name, other.describe());
            Err(Diagnostic::invalid("VIW003", message))
        }
    }
}

/// Generates the files of the input's stage and of all later stages.
pub(crate) fn generate_files(session: &mut Session, input: &Input, request: &StageRequest) -> Result<StageFiles> {
    let (tool_folder, input_stage) = (ToolFolder::new()?, stage_index(input)?);
    let file_names = ["k.tile", "k.aa", "k.as", "k.sched", "k.ptx"];
    let mut files = StageFiles::default();
    if input_stage == 0 {
        let file = tileir::import::open(&input.bytes, &input.name, &session.producer())?;
        tool_folder.write_input(file_names[0], &file.write(Form::Binary)?)?;
        files.tile = Some(tool_folder.read(file_names[0])?);
    } else {
        tool_folder.write_input(file_names[input_stage], &input.bytes)?;
    }
    let level_option = request.level.map(|level| format!("-O{level}"));
    let target_option = request.target.as_ref().map(|target| format!("--gpu-name={target}"));
    let words_with = |words: &[&'static str], option: &Option<String>| -> Vec<String> {
        words.iter().map(|word| word.to_string()).chain(option.clone()).collect()
    };
    // `tile-sched` also runs if the input is a `.sched` file. It runs the passes that have not yet run on an edited schedule.
    let stage_commands: [(usize, &str, Vec<String>); 4] = [
        (1, "tile-lower-aa", words_with(&["k.tile", "-o", "k.aa"], &level_option)),
        (2, "tile-lower-as", words_with(&["k.aa", "-o", "k.as"], &target_option)),
        (3, "tile-sched", words_with(&[if input_stage == 3 { "k.sched" } else { "k.as" }, "-o", "done.sched"], &None)),
        (4, "tile-ptx", words_with(&["--lineinfo", "done.sched", "-o", "k.ptx"], &None)),
    ];
    for (output_stage, tool, words) in stage_commands {
        if output_stage > input_stage || output_stage == 3 && input_stage == 3 {
            let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            session.timed(stage_name(output_stage), |_| tool_folder.run_tool(tool, &arguments))?;
        }
    }
    files.aa = tool_folder.read("k.aa").ok();
    files.as_file = tool_folder.read("k.as").ok();
    files.sched = tool_folder.read("done.sched").ok();
    files.ptx = tool_folder.read("k.ptx")?;
    if input_stage <= 3 {
        let schedule_input = if input_stage == 3 { "k.sched" } else { "k.as" };
        let words = ["--stop-after=alloc", "--schedule-trace=trace.json", schedule_input, "-o", "placed.sched"];
        // The command fails on a file whose loops are already materialized. The page then draws no schedules.
        files.scheduled = tool_folder
            .run_tool("tile-sched", &words)
            .and_then(|()| Ok((tool_folder.read("placed.sched")?, tool_folder.read("trace.json")?)))
            .ok();
    }
    session.timed("disassemble", |_| disassemble(&tool_folder, &mut files))?;
    if let Some(launch) = &request.launch {
        files.time = Some(session.timed("time", |_| predict(&tool_folder, launch, request.gpu.as_deref()))?);
    } else {
        files.missing.push("predicted times: pass a launch description with --launch FILE".into());
    }
    Ok(files)
}

/// Returns the name of the stage with this position in the pipeline.
fn stage_name(number: usize) -> &'static str {
    ["tile", "aa", "as", "sched", "ptx"][number]
}

/// Assembles the PTX and disassembles the cubin. If ptxas or nvdisasm is not installed, adds the reason to `files.missing`.
fn disassemble(tool_folder: &ToolFolder, files: &mut StageFiles) -> Result<()> {
    let ptxas = match common::toolkit::ptxas() {
        Ok(found) => found.path,
        Err(error) => {
            files.missing.push(format!("SASS: {}", error.message));
            return Ok(());
        }
    };
    let Some(nvdisasm) = nvdisasm(&ptxas) else {
        files.missing.push("SASS: nvdisasm is neither next to ptxas nor in PATH".into());
        return Ok(());
    };
    tool_folder.run_tool("tile-link", &["k.ptx", "-o", "k.cubin"])?;
    let sass_file = std::fs::File::create(tool_folder.path_of("k.sass"));
    let sass_file =
        sass_file.map_err(|error| Diagnostic::io("VIW001", format!("no file for SASS: {}", common::os_error_text(&error))))?;
    // Write to a file, because `run_captured` limits the size of the output that it captures.
    let status = common::child::command(&nvdisasm)
        .args(["-g", "-c", "k.cubin"])
        .current_dir(tool_folder.folder.path())
        .stdout(sass_file)
        .stderr(std::process::Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => files.sass = Some(tool_folder.read("k.sass")?),
        _ => files.missing.push(format!("SASS: {} failed", nvdisasm.display())),
    }
    Ok(())
}

/// Finds nvdisasm next to ptxas or in `PATH`.
fn nvdisasm(ptxas: &Path) -> Option<PathBuf> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ptxas.parent().map(PathBuf::from).into_iter().chain(std::env::split_paths(&search_path));
    folders.map(|folder| folder.join("nvdisasm")).find(|path| path.is_file())
}

/// Returns the report of `tile-time` for a launch.
fn predict(tool_folder: &ToolFolder, launch: &Path, gpu: Option<&str>) -> Result<serde_json::Value> {
    let launch = std::path::absolute(launch).unwrap_or_else(|_| launch.to_path_buf());
    let launch = launch.to_string_lossy().into_owned();
    let mut words = vec!["k.ptx", "--launch", &launch, "--json", "time.json"];
    words.extend(gpu.iter().flat_map(|gpu| ["--gpu", gpu]));
    tool_folder.run_tool("tile-time", &words)?;
    let bytes = tool_folder.read("time.json")?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Diagnostic::io("VIW002", format!("cannot parse the report of tile-time: {error}")))
}
