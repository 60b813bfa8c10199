//! Runs the fixtures: files in `tests/<stage>/<topic>/` whose first line is a command. Each fixture is a case. The name of the case
//! is the path of the fixture.
//!
//! The line is `// RUN: command`, where `%` stands for the file. Every reader skips comments before the first line of its format,
//! so any tool reads a fixture directly. The command runs under bash with the tools on PATH, in a temporary directory. The output
//! must contain the texts of the lines `// CHECK: text` in their order, each on a later line. No output line between the matches of
//! the neighbouring CHECK lines may contain the text of `// CHECK-NOT: text`. The output is the standard output, then the standard
//! error and exit code if there are any. If a fixture has no CHECK lines, the file `<name>.expect` has the complete expected
//! output. `BLESS=1 cargo test --workspace --test fixtures -- NAME` replaces that file by the current output; review the
//! difference.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tests::suite::{CaseResult, Suite, unified_diff};
use tests::{RunResult, files_below, is_blessing, root, run_in, shell, subfolders, temporary_folder, tests};

const RUN_PREFIX: &str = "// RUN: ";
const CHECK_PREFIX: &str = "// CHECK: ";
const CHECK_NOT_PREFIX: &str = "// CHECK-NOT: ";

/// The paths of all fixtures.
fn fixtures() -> Vec<PathBuf> {
    let test_folders = subfolders(&root().join("tests"));
    let files = test_folders
        .iter()
        .filter(|folder| {
            !["binaries", "run", "cli", "src", "round-trip", "ops", "tmem", "fault-injection", "fuzz-targets", "kernels", "library"]
                .iter()
                .any(|name| folder.ends_with(name))
        })
        .flat_map(|f| files_below(f));
    files.filter(|path| path.extension().is_some_and(|extension| extension != "expect")).collect()
}

/// The output of a run in the form that fixtures compare.
fn render_output(ran: &RunResult) -> String {
    let mut out = ran.text();
    if !ran.stderr.is_empty() {
        out += &format!("--- stderr\n{}", ran.stderr);
    }
    if ran.code != Some(0) {
        out += &format!("--- exit {}\n", ran.code.map_or("by a signal".into(), |code| code.to_string()));
    }
    out
}

/// The name of a fixture: its path below `tests`, without the extension.
fn fixture_name(path: &Path) -> String {
    let path = path.with_extension("");
    path.strip_prefix(root().join("tests")).unwrap_or(&path).display().to_string()
}

/// Compares an output with the CHECK lines of a fixture. Each text is on a later line than the text before it.
fn check_lines(fixture: &str, output: &str) -> CaseResult {
    let mut lines = output.lines();
    let mut refused: Vec<&str> = Vec::new();
    let refusal = |refused: &[&str], line: &str| {
        let text = refused.iter().find(|text| line.contains(**text));
        text.map_or(Ok(()), |text| Err(format!("CHECK-NOT: {text}\nis in the line {line}")))
    };
    for directive in fixture.lines() {
        if let Some(text) = directive.strip_prefix(CHECK_NOT_PREFIX) {
            refused.push(text);
        } else if let Some(text) = directive.strip_prefix(CHECK_PREFIX) {
            loop {
                let line = lines.next().ok_or_else(|| format!("no line has the text of CHECK: {text}"))?;
                if line.contains(text) {
                    break;
                }
                refusal(&refused, line)?;
            }
            refused.clear();
        }
    }
    lines.try_for_each(|line| refusal(&refused, line))
}

fn check_fixture(path: &Path) -> CaseResult {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (command_line, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let command = command_line
        .strip_prefix(RUN_PREFIX)
        .ok_or_else(|| format!("{}: the first line must be '{RUN_PREFIX}command'", path.display()))?;
    if rest.lines().any(|line| line.starts_with(RUN_PREFIX)) {
        return Err(format!("{}: only the first line is run", path.display()));
    }
    let folder = temporary_folder();
    let file = path.file_name().expect("a file has a name").to_string_lossy();
    std::fs::write(folder.path().join(&*file), &text).map_err(|error| error.to_string())?;
    let got = render_output(&shell(folder.path(), &format!("set -o pipefail; {}", command.replace('%', &file))));
    let directives: Vec<&str> = rest.lines().filter(|line| line.contains("// CHECK")).collect();
    let is_directive = |line: &&&str| line.starts_with(CHECK_PREFIX) || line.starts_with(CHECK_NOT_PREFIX);
    if let Some(line) = directives.iter().find(|line| !is_directive(line)) {
        return Err(format!("'{line}' is not a directive: a line starts with '{CHECK_PREFIX}' or '{CHECK_NOT_PREFIX}'"));
    }
    if !directives.is_empty() {
        let expects_failure = directives.iter().any(|line| line.contains("--- exit"));
        let result = if got.contains("\n--- exit ") && !expects_failure {
            Err("the command failed".into())
        } else {
            check_lines(rest, &got)
        };
        return result.map_err(|message| format!("{command}\n{message}\nthe output is\n{got}"));
    }
    let expected_path = path.with_extension("expect");
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    if got == expected {
        return Ok(());
    }
    if is_blessing() {
        return std::fs::write(&expected_path, got).map_err(|error| error.to_string());
    }
    Err(format!(
        "{command}\n{}To accept the output: BLESS=1 cargo test --workspace --test fixtures -- {}",
        unified_diff(&expected, &got),
        fixture_name(path)
    ))
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for path in fixtures() {
        suite.case(fixture_name(&path), move || check_fixture(&path));
    }
    suite.functions("rules/", tests![fixtures_are_files_of_their_format, stages_have_fixtures, fixtures_have_one_name_each]);
    suite.run()
}

/// Two fixtures must not have the same name, and each `.expect` file must belong to a fixture.
fn fixtures_have_one_name_each() {
    let fixtures = fixtures();
    let names: std::collections::BTreeSet<String> = fixtures.iter().map(|path| fixture_name(path)).collect();
    assert_eq!(names.len(), fixtures.len());
    for folder in fixtures.iter().filter_map(|path| path.parent()) {
        for path in files_below(folder).iter().filter(|path| path.extension().is_some_and(|extension| extension == "expect")) {
            assert!(names.contains(&fixture_name(path)), "{} has no fixture", path.display());
        }
    }
}

/// Readers must accept comments, such as the RUN line, before the first line of a stage file.
fn fixtures_are_files_of_their_format() {
    let folder = temporary_folder();
    for (tool, fixture) in [
        ("tile-dump", "lower-as/split_m/attention.aa"),
        ("tile-dump", "ptx/arith/packed_f32x2.sm_80.sched"),
        ("tile-read", "lower-aa/convert/token_of_a_store.mlir"),
    ] {
        let text = std::fs::read_to_string(root().join("tests").join(fixture)).unwrap_or_else(|error| panic!("{fixture}: {error}"));
        assert!(text.starts_with(RUN_PREFIX), "{fixture}");
        run_in(folder.path(), tool, &["-", "--verify-only"], format!("// One comment.\n{text}").as_bytes()).ok(fixture);
    }
}

/// Each stage has at least ten fixtures.
fn stages_have_fixtures() {
    let fixtures = fixtures();
    for stage in ["read", "lower-aa", "lower-as", "sched", "ptx"] {
        let count = fixtures.iter().filter(|path| path.starts_with(root().join("tests").join(stage))).count();
        assert!(count >= 10, "tests/{stage} has {count} fixtures");
    }
}
