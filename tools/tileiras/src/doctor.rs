//! `--doctor` checks the installation: it reports each required component, the setting that selected it, and how to install it if
//! it is missing.

use crate::cache::Cache;
use crate::failure::{DriverError, exit};
use crate::pipeline::tools_folder;
use base::Diagnostic;
use common::child;
use common::cl::Parsed;
use common::toolkit::{self, Component};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools that belong next to the driver, and whether compilation requires them.
const TOOLS: [(&str, bool); 10] = [
    ("tile-read", true),
    ("tile-lower-aa", true),
    ("tile-lower-as", true),
    ("tile-sched", true),
    ("tile-ptx", true),
    ("tile-link", true),
    ("tile-dump", false),
    ("tile-run", false),
    ("tile-sim", false),
    ("tile-time", false),
];

/// A Python script that prints the names and versions of the installed client packages, without importing them.
const LIST_PACKAGES_SCRIPT: &str = "
import importlib.metadata
for name in ('cuda-tile', 'nvidia-cuda-tileiras', 'nvidia-cuda-nvcc', 'nvidia-nvvm', 'triton', 'tilelang', 'tileworks'):
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        pass
";

/// The result of the check of a component of the installation.
struct Finding {
    /// The component that was checked, as the report names it.
    label: &'static str,
    state: ComponentState,
    /// What the check found, such as a path and a version.
    text: String,
    /// How to install or repair the component.
    help: Option<String>,
}

/// The state of a component of the installation.
#[derive(PartialEq)]
enum ComponentState {
    Good,
    /// Compilation works without the component, but another feature does not.
    Absent,
    /// Compilation requires the component, and it does not work.
    Broken,
}

/// Checks all components and prints the findings. Fails if cubins cannot be generated.
pub(crate) fn check_installation(parsed: &Parsed) -> Result<String, DriverError> {
    let findings: Vec<Finding> = [
        check_driver(),
        check_tools(),
        check_ptxas(),
        check_libdevice(),
        check_search_path(),
        check_clients(),
        check_cache(parsed),
        check_temporary_files(),
        check_gpu_driver(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let report: String = findings.iter().map(Finding::render).collect();
    crate::write_answer(&report)?;
    match findings.iter().filter(|finding| finding.state == ComponentState::Broken).count() {
        0 => Ok(String::new()),
        _ => Err(DriverError::new(exit::CONFIGURATION, "cannot generate cubins until the problems above are fixed")),
    }
}

impl Finding {
    /// Returns the finding that a component works.
    fn good(label: &'static str, text: impl Into<String>) -> Finding {
        Finding { label, state: ComponentState::Good, text: text.into(), help: None }
    }
    /// Returns the finding that an optional component is missing.
    fn absent(label: &'static str, text: impl Into<String>, help: impl Into<String>) -> Finding {
        Finding { label, state: ComponentState::Absent, text: text.into(), help: Some(help.into()) }
    }
    /// Returns the finding that a required component does not work.
    fn broken(label: &'static str, text: impl Into<String>, help: impl Into<String>) -> Finding {
        Finding { label, state: ComponentState::Broken, text: text.into(), help: Some(help.into()) }
    }
    /// Renders the finding as lines of the report.
    fn render(&self) -> String {
        let status = match self.state {
            ComponentState::Good => "ok",
            ComponentState::Absent => "-",
            ComponentState::Broken => "NO",
        };
        let help = self.help.as_ref().map_or(String::new(), |help| format!("{:16}{help}\n", ""));
        format!("{status:3} {:11} {}\n{help}", self.label, self.text)
    }
}

fn check_driver() -> Vec<Finding> {
    let description =
        format!("Tileworks {}, build {}, in {}", env!("CARGO_PKG_VERSION"), env!("SOURCE_HASH"), tools_folder().display());
    vec![Finding::good("tileiras", description)]
}

fn check_tools() -> Vec<Finding> {
    let version_suffix = format!(" {}", env!("CARGO_PKG_VERSION"));
    let missing_tools: Vec<&(&str, bool)> = TOOLS
        .iter()
        .filter(|(name, _)| !last_output_line(&tools_folder().join(name), "--version").ends_with(&version_suffix))
        .collect();
    let missing_names = |needed: bool| {
        missing_tools.iter().filter(|(_, is_required)| *is_required == needed).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let help = "build or install all tools of one version into one folder";
    match (missing_names(true), missing_names(false)) {
        (stages, optional) if stages.is_empty() && optional.is_empty() => {
            vec![Finding::good("tools", format!("all {} of this version are next to the driver", TOOLS.len()))]
        }
        (stages, optional) if stages.is_empty() => {
            vec![Finding::absent("tools", format!("missing next to the driver, or of another version: {optional}"), help)]
        }
        (stages, _) => vec![Finding::broken("tools", format!("missing next to the driver, or of another version: {stages}"), help)],
    }
}

/// Runs a program with an option, and returns the last non-empty line of its output.
fn last_output_line(program: &Path, option: &str) -> String {
    let output = child::run_captured(Command::new(program).arg(option), None);
    let version_text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    version_text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_string()
}

fn check_ptxas() -> Vec<Finding> {
    vec![toolkit_finding("ptxas", toolkit::ptxas(), |component| {
        let version_text = last_output_line(&component.path, "--version");
        if version_text.is_empty() { " but it does not run".into() } else { format!(": {version_text}") }
    })]
}

fn check_libdevice() -> Vec<Finding> {
    vec![toolkit_finding("libdevice", toolkit::libdevice(), |_| String::new())]
}

/// Returns the finding for a component of the CUDA toolkit. `suffix` returns text that the finding appends if the component was
/// found.
fn toolkit_finding(
    label: &'static str,
    component: Result<Component, Box<Diagnostic>>,
    suffix: impl Fn(&Component) -> String,
) -> Finding {
    match component {
        Ok(component) => {
            Finding::good(label, format!("{}, by {}{}", component.path.display(), component.found_by, suffix(&component)))
        }
        Err(error) => Finding::broken(label, &error.message, toolkit::HOW_TO_INSTALL),
    }
}

/// Returns the paths of all programs with a name, in the order of PATH.
fn programs_on_path(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).filter(|path| path.is_file()).collect()
}

/// Returns whether a path leads to the executable of this process.
fn is_this_driver(path: &Path) -> bool {
    let this_driver = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    this_driver.is_some() && std::fs::canonicalize(path).ok() == this_driver
}

/// Checks that this driver is the first `tileiras` on PATH.
fn check_search_path() -> Vec<Finding> {
    let drivers_on_path = programs_on_path("tileiras");
    vec![match drivers_on_path.first() {
        Some(first) if is_this_driver(first) => {
            Finding::good("PATH", format!("the first tileiras is this one, as {}", first.display()))
        }
        Some(first) => Finding::absent(
            "PATH",
            format!("the first tileiras is another one, {}", first.display()),
            "clients that search PATH use it; put the folder of this tileiras first",
        ),
        None => Finding::absent(
            "PATH",
            "has no tileiras",
            format!("for clients that search PATH, set PATH={}:$PATH", tools_folder().display()),
        ),
    }]
}

/// Checks for each installed client (cuTile, Triton, TileLang) whether it uses this driver. cuTile uses NVIDIA's tileiras if the
/// versions of NVIDIA's packages match.
fn check_clients() -> Vec<Finding> {
    let python = programs_on_path("python3").into_iter().chain(programs_on_path("python")).next();
    let mut findings = Vec::new();
    let packages =
        python.as_ref().and_then(|python| child::run_captured(Command::new(python).args(["-c", LIST_PACKAGES_SCRIPT]), None).ok());
    let packages = packages.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version_of = |name: &str| packages.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let nvidia_packages = ["nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm"].map(version_of);
    let (python, release) = (python.unwrap_or_default(), |text: &str| text.split('.').take(2).collect::<Vec<_>>().join("."));
    if let Some(cutile) = version_of("cuda-tile") {
        findings.push(match nvidia_packages {
            [Some(a), Some(b), Some(c)] if release(a) == release(b) && release(b) == release(c) => Finding::absent(
                "cuTile",
                format!(
                    "cuda-tile {cutile} of {} uses NVIDIA's tileiras {a} from the same environment, which takes precedence over PATH",
                    python.display()
                ),
                "run `pip uninstall nvidia-cuda-tileiras` to make it search PATH",
            ),
            _ => Finding::good("cuTile", format!("cuda-tile {cutile} of {} uses the first tileiras on PATH", python.display())),
        });
    }
    for (name, variable) in [("triton", "TRITON_TILEIRAS_PATH"), ("tilelang", "TILELANG_TILEIRAS")] {
        let configured = std::env::var_os(variable).map(PathBuf::from);
        let program = configured.as_ref().map(|path| if path.is_dir() { path.join("tileiras") } else { path.clone() });
        let label = if name == "triton" { "Triton" } else { "TileLang" };
        match (program, version_of(name)) {
            (Some(program), _) if is_this_driver(&program) => {
                findings.push(Finding::good(label, format!("{variable} points to this driver")))
            }
            (Some(program), _) => findings.push(Finding::absent(
                label,
                format!("{variable} points to {}, which is not this driver", program.display()),
                format!("{variable}={}", tools_folder().display()),
            )),
            (None, Some(version)) => findings.push(Finding::absent(
                label,
                format!("{name} {version} is installed but does not use this driver"),
                format!("{variable}={}", tools_folder().display()),
            )),
            (None, None) => {}
        }
    }
    findings
}

fn check_cache(parsed: &Parsed) -> Vec<Finding> {
    let Some(folder) = parsed.get("cache") else { return Vec::new() };
    vec![match Cache::from_options(parsed) {
        Ok(Some(cache)) => Finding::good("cache", format!("{folder}: {}", cache.summary())),
        Ok(None) => Finding::absent("cache", folder, "bypassed: other options require that the stages run"),
        Err(driver_error) => Finding::broken(
            "cache",
            driver_error.render(base::diag::Style::Reference).trim().trim_start_matches("error: "),
            "use another folder with --cache",
        ),
    }]
}

fn check_temporary_files() -> Vec<Finding> {
    let folder = std::env::temp_dir();
    let memory_file = common::child::MemoryFile::new("doctor", b"x");
    vec![match memory_file {
        Ok(_) => Finding::good("temporary", format!("files are in memory; crash directories go to {}", folder.display())),
        Err(error) => {
            Finding::broken("temporary", format!("cannot create in-memory files: {error}"), "the system lacks memfd_create")
        }
    }]
}

fn check_gpu_driver() -> Vec<Finding> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"];
    let library = folders.iter().map(|folder| Path::new(folder).join("libcuda.so.1")).find(|path| path.exists());
    vec![match library {
        Some(path) => Finding::good("GPU driver", format!("{}; tile-launch can run cubins", path.display())),
        None => Finding::absent(
            "GPU driver",
            "not found; tile-run, tile-sim and tile-time do not need it",
            "tile-launch requires NVIDIA's driver",
        ),
    }]
}
