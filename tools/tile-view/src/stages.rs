//! Runs the stage tools to generate the files of all stages from the input.

use base::diag::{Diagnostic, Result};
use base::envelope::{Form, Sniffed, sniff};
use common::{Input, Session};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options of the stages.
#[derive(Debug, Default)]
pub(crate) struct StageRequest {
    pub(crate) target: Option<String>,
    pub(crate) level: Option<u8>,
    pub(crate) launch: Option<PathBuf>,
    /// The GPU of a prediction.
    pub(crate) gpu: Option<String>,
}

/// The files of all stages, from the stage of the input on.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) tile: Option<Vec<u8>>,
    pub(crate) aa: Option<Vec<u8>>,
    pub(crate) atoms: Option<Vec<u8>>,
    /// With loops as they were scheduled, and how their ops occupy the units.
    pub(crate) scheduled: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) sched: Option<Vec<u8>>,
    pub(crate) ptx: Vec<u8>,
    pub(crate) sass: Option<Vec<u8>>,
    pub(crate) time: Option<serde_json::Value>,
    /// Missing files, with reasons.
    pub(crate) missing: Vec<String>,
}

/// The working folder of the tools.
struct Bench {
    folder: tempfile::TempDir,
    tools: PathBuf,
}

impl Bench {
    fn new() -> Result<Bench> {
        let folder = tempfile::Builder::new().prefix("tile-view-").tempdir();
        let folder =
            folder.map_err(|error| Diagnostic::io("VIW001", format!("no folder to work in: {}", common::os_error_text(&error))))?;
        let own = std::env::current_exe().ok();
        let tools = own.and_then(|path| path.parent().map(PathBuf::from)).unwrap_or_default();
        Ok(Bench { folder, tools })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        common::write_file(Some(&self.path(name)), bytes)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(common::read_file(Some(&self.path(name)))?.bytes.to_vec())
    }

    /// Runs a tool of the project in the folder and forwards its error.
    fn stage(&self, tool: &str, words: &[&str]) -> Result<()> {
        self.run(tool, Command::new(self.tools.join(tool)).args(["--error-format=json"]).args(words)).map(|_| ())
    }

    fn run(&self, name: &str, command: &mut Command) -> Result<Vec<u8>> {
        let output = common::child::output(command.current_dir(self.folder.path()), None);
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
                let first = stderr.lines().next().unwrap_or_default();
                let ended = common::child::describe(output.status);
                Err(Diagnostic::io("VIW002", format!("{name} ends with {ended}: {first}")))
            }
        }
    }
}

/// The source_position of a stage's file in the pipeline: program, `.aa`, `.as`, `.sched`, PTX.
fn position(input: &Input) -> Result<usize> {
    match sniff(&input.bytes) {
        Sniffed::Bytecode | Sniffed::Text => Ok(0),
        Sniffed::Ptx => Ok(4),
        Sniffed::Stage { format, .. } => {
            let formats = ["tileir", "tileaa", "tileas", "sched", "ptx"];
            let known = formats.iter().position(|known| *known == format);
            known.ok_or_else(|| Diagnostic::invalid("VIW003", format!("{} is a file of an unknown format '{format}'", input.name)))
        }
        other => {
            let message = format!("{} is {}; this tool shows programs, stage files and PTX", input.name, other.describe());
            Err(Diagnostic::invalid("VIW003", message))
        }
    }
}

/// Generates the files of all stages from the input on.
pub(crate) fn compile(session: &mut Session, input: &Input, request: &StageRequest) -> Result<Files> {
    let (bench, first) = (Bench::new()?, position(input)?);
    let names = ["k.tile", "k.aa", "k.as", "k.sched", "k.ptx"];
    let mut files = Files::default();
    if first == 0 {
        let file = tileir::import::open(&input.bytes, &input.name, &session.producer())?;
        bench.put(names[0], &file.write(Form::Binary)?)?;
        files.tile = Some(bench.read(names[0])?);
    } else {
        bench.put(names[first], &input.bytes)?;
    }
    let level = request.level.map(|level| format!("-O{level}"));
    let target = request.target.as_ref().map(|target| format!("--gpu-name={target}"));
    let with = |words: &[&'static str], more: &Option<String>| -> Vec<String> {
        words.iter().map(|word| word.to_string()).chain(more.clone()).collect()
    };
    // An input that a stage would write is read by it, so that a schedule that was edited is gone on from.
    let steps: [(usize, &str, Vec<String>); 4] = [
        (1, "tile-lower-aa", with(&["k.tile", "-o", "k.aa"], &level)),
        (2, "tile-lower-as", with(&["k.aa", "-o", "k.as"], &target)),
        (3, "tile-sched", with(&[if first == 3 { "k.sched" } else { "k.as" }, "-o", "done.sched"], &None)),
        (4, "tile-ptx", with(&["--lineinfo", "done.sched", "-o", "k.ptx"], &None)),
    ];
    for (writes, tool, words) in steps {
        if writes > first || writes == 3 && first == 3 {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            session.timed(stage_name(writes), |_| bench.stage(tool, &words))?;
        }
    }
    files.aa = bench.read("k.aa").ok();
    files.atoms = bench.read("k.as").ok();
    files.sched = bench.read("done.sched").ok();
    files.ptx = bench.read("k.ptx")?;
    if first <= 3 {
        let from = if first == 3 { "k.sched" } else { "k.as" };
        let words = ["--stop-after=alloc", "--schedule-trace=trace.json", from, "-o", "placed.sched"];
        // A materialized file has no schedules.
        files.scheduled =
            bench.stage("tile-sched", &words).and_then(|()| Ok((bench.read("placed.sched")?, bench.read("trace.json")?))).ok();
    }
    session.timed("disassemble", |_| sass(&bench, &mut files))?;
    if let Some(launch) = &request.launch {
        files.time = Some(session.timed("time", |_| time(&bench, launch, request.gpu.as_deref()))?);
    } else {
        files.missing.push("predicted times: pass a launch description with --launch FILE".into());
    }
    Ok(files)
}

fn stage_name(number: usize) -> &'static str {
    ["tile", "aa", "as", "sched", "ptx"][number]
}

/// Disassembles the cubin, if ptxas and nvdisasm are installed.
fn sass(bench: &Bench, files: &mut Files) -> Result<()> {
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
    bench.stage("tile-link", &["k.ptx", "-o", "k.cubin"])?;
    let out = std::fs::File::create(bench.path("k.sass"));
    let out = out.map_err(|error| Diagnostic::io("VIW001", format!("no file for SASS: {}", common::os_error_text(&error))))?;
    // Write to a file, because captured output of children is bounded.
    let status = common::child::command(&nvdisasm)
        .args(["-g", "-c", "k.cubin"])
        .current_dir(bench.folder.path())
        .stdout(out)
        .stderr(std::process::Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => files.sass = Some(bench.read("k.sass")?),
        _ => files.missing.push(format!("SASS: {} failed", nvdisasm.display())),
    }
    Ok(())
}

fn nvdisasm(ptxas: &Path) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ptxas.parent().map(PathBuf::from).into_iter().chain(std::env::split_paths(&on_path));
    folders.map(|folder| folder.join("nvdisasm")).find(|path| path.is_file())
}

/// The report of `tile-time` for a launch.
fn time(bench: &Bench, launch: &Path, gpu: Option<&str>) -> Result<serde_json::Value> {
    let launch = std::path::absolute(launch).unwrap_or_else(|_| launch.to_path_buf());
    let launch = launch.to_string_lossy().into_owned();
    let mut words = vec!["k.ptx", "--launch", &launch, "--json", "time.json"];
    words.extend(gpu.iter().flat_map(|gpu| ["--gpu", gpu]));
    bench.stage("tile-time", &words)?;
    let bytes = bench.read("time.json")?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Diagnostic::io("VIW002", format!("cannot parse the report of tile-time: {error}")))
}
