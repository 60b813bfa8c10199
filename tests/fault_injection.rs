//! Faults injected into the stages, one at a time: `tile-validate` must detect each, on a kernel that depends on the broken rule.
//! `tests/fault-injection/faults.toml` lists the faults. The stages contain no code for them: a script in place of the stage edits
//! the text that the stage reads or writes.
//!
//! A case is a fault (`fault/ptx.wait`), or a kernel without one (`clean/matmul_f16/sm_80`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tests::replaced_tool::folder_with_replacement;
use tests::suite::{CaseResult, Suite};
use tests::{RunResult, root, run_to_end, temporary_folder, tests, tool};

/// The file that the script of a fault creates if the edit changes the text.
const EDITED: &str = "edited";

/// The tools that the cases run.
const TOOLS: [&str; 7] = ["tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-run", "tile-sim", "tile-validate"];

/// `faults.toml`.
#[derive(serde::Deserialize)]
struct FaultList {
    fault: Vec<Fault>,
}

/// A fault; the comment in `faults.toml` describes the fields.
#[derive(serde::Deserialize)]
struct Fault {
    name: String,
    rule: String,
    kernel: String,
    target: String,
    #[serde(flatten)]
    edit: Edit,
}

/// An edit of IR text, as a script of `sed -E`.
#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Edit {
    Input(String),
    Output(String),
}

impl Fault {
    /// The stage that has the fault.
    fn stage(&self) -> String {
        format!(
            "tile-{}",
            match self.name.split_once('.') {
                Some(("aa", _)) => "lower-aa",
                Some(("as", _)) => "lower-as",
                Some((stage, _)) => stage,
                None => panic!("the name '{}' has no stage", self.name),
            }
        )
    }

    /// The script in place of the stage. The last arguments of a stage are its input, `-o` and its output. The script ends with the
    /// stage's exit code if the stage fails, and reports an edit only if the stage accepts the edited input.
    fn script(&self, folder: &str) -> String {
        let (sed_script, run_stage) = match &self.edit {
            Edit::Input(edit) => {
                (edit, r#"$tools/tile-dump "${@: -3:1}" > before && edit && $real "${@:1:$#-3}" -o "${!#}" < after"#.to_string())
            }
            Edit::Output(edit) => {
                let format = if self.stage() == "tile-ptx" { "" } else { "--format=text" };
                (edit, format!(r#"$real "${{@:1:$#-2}}" {format} > before && edit && cat after > "${{!#}}""#))
            }
        };
        format!(
            "cd {folder}\nedit() {{ sed -E '{sed_script}' before > after; }}\n{run_stage} || exit\ncmp -s before after || touch {EDITED}\n"
        )
    }
}

fn faults() -> Vec<Fault> {
    let text = std::fs::read_to_string(root().join("tests/fault-injection/faults.toml")).expect("the list of faults is readable");
    toml::from_str::<FaultList>(&text).expect("each fault has a name, a rule, a kernel, a target and one edit").fault
}

fn kernel_path(name: &str) -> PathBuf {
    let candidates =
        [format!("fault-injection/{name}.tileir"), format!("run/{name}/kernel.tileirbc"), format!("run/{name}/kernel.tile")];
    let mut paths = candidates.iter().map(|place| root().join("tests").join(place));
    paths.find(|path| path.exists()).unwrap_or_else(|| panic!("no kernel is called {name}"))
}

/// Runs a `tile-validate`, which uses the stages in its own folder.
fn validate(tile_validate: &Path, folder: &Path, kernel: &str, target: &str) -> RunResult {
    let mut command = Command::new(tile_validate);
    command.arg(kernel_path(kernel)).args(["--gpu-name", target, "--keep=kept"]).current_dir(folder).env("TMPDIR", folder);
    run_to_end(command, b"")
}

fn check_is_detected(fault: &Fault) -> CaseResult {
    let working_folder = temporary_folder();
    let tools = folder_with_replacement(&fault.stage(), &fault.script(&working_folder.path().display().to_string()));
    let ran = validate(&tools.path().join("tile-validate"), working_folder.path(), &fault.kernel, &fault.target);
    let first_line = ran.stderr.lines().next().unwrap_or_default();
    match ran.code {
        _ if !working_folder.path().join(EDITED).exists() => {
            Err(format!("the edit changes nothing in {}, or the stage rejects the edited text: {}", fault.kernel, ran.stderr))
        }
        Some(1) if first_line.contains("VAL001") => Ok(()),
        code => Err(format!("'{}' is broken, and tile-validate ends with {code:?}: {first_line}", fault.rule)),
    }
}

fn check_is_clean(kernel: &str, target: &str) -> CaseResult {
    let folder = temporary_folder();
    match validate(&tool("tile-validate"), folder.path(), kernel, target) {
        RunResult { code: Some(0), .. } => Ok(()),
        ran => Err(format!("tile-validate ends with {:?}: {}", ran.code, ran.stderr)),
    }
}

fn main() -> ExitCode {
    TOOLS.iter().for_each(|name| {
        tool(name);
    });
    let faults = faults();
    let mut suite = Suite::new();
    let kernels: BTreeSet<_> = faults.iter().map(|fault| (fault.kernel.clone(), fault.target.clone())).collect();
    for fault in faults {
        suite.case(format!("fault/{}", fault.name), move || check_is_detected(&fault));
    }
    for (kernel, target) in kernels {
        suite.case(format!("clean/{kernel}/{target}"), move || check_is_clean(&kernel, &target));
    }
    suite.functions("rules/", tests![each_stage_has_faults]);
    suite.run()
}

fn each_stage_has_faults() {
    let faults = faults();
    let mut faults_of_stage: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for fault in &faults {
        assert!(faults_of_stage.entry(fault.stage()).or_default().insert(&fault.name), "two faults are called {}", fault.name);
    }
    for stage in TOOLS.iter().take(4) {
        assert!(faults_of_stage[*stage].len() >= 15, "{stage} has few faults");
    }
    assert_eq!(faults_of_stage.len(), 4, "a fault is of an unknown stage");
}
