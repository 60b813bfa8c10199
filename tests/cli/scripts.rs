//! Tests that every script in `scripts` has help, and rejects unknown arguments before it has an effect.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{RunResult, files_below, root, run_to_end, shell, temporary_folder};

/// Programs that a script may start before it has parsed its arguments. PATH has no other programs, such as cargo or apt-get, so a
/// script with an unknown argument cannot do its work.
const PROGRAMS: [&str; 6] = ["awk", "basename", "bash", "dirname", "env", "python3"];

/// A copy of the scripts in a temporary tree, so that a script that runs in spite of wrong arguments changes nothing in the
/// repository.
struct ScriptTree(tempfile::TempDir);

impl ScriptTree {
    fn new() -> ScriptTree {
        let folder = temporary_folder();
        for name in ["scripts", "programs", "elsewhere"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for path in files_below(&root().join("scripts")) {
            let name = path.strip_prefix(root().join("scripts")).unwrap().to_path_buf();
            if !name.starts_with("__pycache__") {
                fs::copy(&path, folder.path().join("scripts").join(name)).unwrap();
            }
        }
        for name in PROGRAMS {
            let find_program =
                if name == "python3" { "python3 -c 'import sys; print(sys.executable)'" } else { &format!("command -v {name}") };
            let program_path = shell(folder.path(), find_program).text();
            // Write a wrapper instead of a link: some programs find their own files by the path of their executable, and python3
            // may be a script.
            let (script, program) = (folder.path().join("program"), folder.path().join("programs").join(name));
            fs::write(&script, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program_path.trim())).unwrap();
            tests::replaced_tool::install_executable(&script, &program);
        }
        ScriptTree(folder)
    }

    fn run(&self, script: &str, arguments: &[&str]) -> RunResult {
        let mut command = Command::new(self.0.path().join("scripts").join(script));
        command.args(arguments).current_dir(self.0.path().join("elsewhere")).env("PATH", self.0.path().join("programs"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        run_to_end(command, b"")
    }

    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files_below(self.0.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

fn script_names() -> Vec<String> {
    let is_executable = |path: &Path| path.is_file() && path.metadata().unwrap().permissions().mode() & 0o111 != 0;
    let entries = fs::read_dir(root().join("scripts")).unwrap().flatten().filter(|entry| is_executable(&entry.path()));
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn every_script_has_help_and_refuses_unknown_arguments() {
    let (copy, scripts) = (ScriptTree::new(), script_names());
    assert!(scripts.len() > 20, "{scripts:?}");
    let contents_before = copy.contents();
    for script in &scripts {
        let ran = copy.run(script, &["--help"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{script} --help");
        assert!(ran.text().contains(script.as_str()), "{script} --help: {}", ran.text());
        for arguments in [&["--no-such-option"][..], &["--no-such-option=1", "word"], &["word", "--no-such-option"]] {
            let ran = copy.run(script, arguments);
            assert_eq!(ran.code, Some(2), "{script} {arguments:?}: {}{}", ran.text(), ran.stderr);
            assert!(ran.stderr.contains("error: "), "{script} {arguments:?}: {}", ran.stderr);
        }
        assert!(copy.contents() == contents_before, "{script} changed files");
    }
}

/// `record-probes` changes no file if the given program does not run or is not NVIDIA's tileiras.
fn record_probes_rejects_programs_other_than_the_reference() {
    let copy = ScriptTree::new();
    let table = copy.0.path().join("tests/cli/probes.jsonl");
    fs::create_dir_all(table.parent().unwrap()).unwrap();
    fs::copy(root().join("tests/cli/probes.jsonl"), &table).unwrap();
    fs::copy(root().join("tests/cli/probe.tileirbc"), table.with_file_name("probe.tileirbc")).unwrap();
    let contents_before = copy.contents();
    let own_driver = tests::tool("tileiras");
    for program in ["/nowhere/tileiras", "/bin/true", own_driver.to_str().unwrap()] {
        let ran = copy.run("record-probes", &[program]);
        assert_eq!(ran.code, Some(2), "{program}: {}", ran.stderr);
        assert!(copy.contents() == contents_before, "{program}");
    }
}

/// The documents have the predictions of `docs/measured/h200.json`. If the environment variable TILEWORKS_CONFORMANCE names the folder
/// of the production kernels, a sample of them still has these predictions.
fn predictions_beside_measured_times_are_current() {
    let mut command = Command::new(root().join("scripts/predict-measured"));
    command.arg("--check").env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(folder) = std::env::var_os("TILEWORKS_CONFORMANCE") {
        command.arg(folder).args(["--share", "12", "--bin"]).arg(tests::tools_folder());
    }
    let ran = run_to_end(command, b"");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.text());
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    every_script_has_help_and_refuses_unknown_arguments,
    record_probes_rejects_programs_other_than_the_reference,
    predictions_beside_measured_times_are_current,
];
