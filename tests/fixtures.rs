//! Runs the fixtures: files in `tests/<stage>/<topic>/` whose first line is a command. A fixture is a case with its path as its name.
//!
//! The line is `// RUN: command`, where `%` stands for the file. Every reader skips comments before the first line of its format,
//! so any tool reads a fixture directly. The command runs under bash with the tools on PATH, in a temporary directory.
//! `<name>.expect`, next to the fixture, holds its output, then its standard error and exit code if there are any.
//! `BLESS=1 cargo test --workspace --test fixtures -- NAME` writes that file anew; review the difference.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tests::suite::{Checked, Suite, unified_diff};
use tests::{Ran, blessing, files_below, folders, root, run_in, shell, temporary, tests};

const RUN: &str = "// RUN: ";

fn fixtures() -> Vec<PathBuf> {
    let stages = folders(&root().join("tests"));
    let files = stages
        .iter()
        .filter(|folder| {
            !["binaries", "run", "cli", "src", "round-trip", "ops", "tmem", "fault-injection", "fuzz-targets"]
                .iter()
                .any(|name| folder.ends_with(name))
        })
        .flat_map(|f| files_below(f));
    files.filter(|path| path.extension().is_some_and(|extension| extension != "expect")).collect()
}

fn print(ran: &Ran) -> String {
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
fn name(path: &Path) -> String {
    let path = path.with_extension("");
    path.strip_prefix(root().join("tests")).unwrap_or(&path).display().to_string()
}

fn check(path: &Path) -> Checked {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let command = first.strip_prefix(RUN).ok_or_else(|| format!("{}: the first line must be '{RUN}command'", path.display()))?;
    if rest.lines().any(|line| line.starts_with(RUN)) {
        return Err(format!("{}: only the first line is run", path.display()));
    }
    let folder = temporary();
    let file = path.file_name().expect("a file has a name").to_string_lossy();
    std::fs::write(folder.path().join(&*file), &text).map_err(|error| error.to_string())?;
    let got = print(&shell(folder.path(), &format!("set -o pipefail; {}", command.replace('%', &file))));
    let expected_path = path.with_extension("expect");
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    if got == expected {
        return Ok(());
    }
    if blessing() {
        return std::fs::write(&expected_path, got).map_err(|error| error.to_string());
    }
    Err(format!(
        "{command}\n{}To accept the output: BLESS=1 cargo test --workspace --test fixtures -- {}",
        unified_diff(&expected, &got),
        name(path)
    ))
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for path in fixtures() {
        suite.case(name(&path), move || check(&path));
    }
    suite.functions("rules/", tests![fixtures_are_files_of_their_format, stages_have_fixtures, fixtures_have_one_name_each]);
    suite.run()
}

/// The name of a case selects one fixture, and each file of expected output has its fixture.
fn fixtures_have_one_name_each() {
    let fixtures = fixtures();
    let names: std::collections::BTreeSet<String> = fixtures.iter().map(|path| name(path)).collect();
    assert_eq!(names.len(), fixtures.len());
    for folder in fixtures.iter().filter_map(|path| path.parent()) {
        for path in files_below(folder).iter().filter(|path| path.extension().is_some_and(|extension| extension == "expect")) {
            assert!(names.contains(&name(path)), "{} has no fixture", path.display());
        }
    }
}

/// Readers accept a fixture with its command and other comments before the first line of the format.
fn fixtures_are_files_of_their_format() {
    let folder = temporary();
    for (tool, fixture) in [
        ("tile-dump", "lower-as/split_m/attention.aa"),
        ("tile-dump", "ptx/arith/packed_f32x2.sm_80.sched"),
        ("tile-read", "lower-aa/convert/token_of_a_store.mlir"),
    ] {
        let text = std::fs::read_to_string(root().join("tests").join(fixture)).unwrap_or_else(|error| panic!("{fixture}: {error}"));
        assert!(text.starts_with(RUN), "{fixture}");
        run_in(folder.path(), tool, &["-", "--verify-only"], format!("// One comment.\n{text}").as_bytes()).ok(fixture);
    }
}

/// Every stage that makes decisions has fixtures for them.
fn stages_have_fixtures() {
    let fixtures = fixtures();
    for stage in ["read", "lower-aa", "lower-as", "sched", "ptx"] {
        let count = fixtures.iter().filter(|path| path.starts_with(root().join("tests").join(stage))).count();
        assert!(count >= 10, "tests/{stage} has {count} fixtures");
    }
}
