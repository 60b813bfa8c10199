//! Runs the fixtures: files in `tests/<stage>/<topic>/` whose first line is a command.
//!
//! The line is `// RUN: command`, where `%` stands for the file. Every reader skips comments before the first line of its format,
//! so any tool reads a fixture directly. The command runs under bash with the tools on PATH, in a temporary directory.
//! `<name>.expect`, next to the fixture, holds its output, then its standard error and exit code if there are any. `scripts/bless`
//! rewrites these files; review the difference.

use std::path::{Path, PathBuf};
use tests::{Ran, blessing, files_below, folders, for_each, root, run_in, shell, temporary};

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

fn rendered(ran: &Ran) -> String {
    let mut out = ran.text();
    if !ran.stderr.is_empty() {
        out += &format!("--- stderr\n{}", ran.stderr);
    }
    if ran.code != Some(0) {
        out += &format!("--- exit {}\n", ran.code.map_or("by a signal".into(), |code| code.to_string()));
    }
    out
}

fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let command = first.strip_prefix(RUN).ok_or_else(|| format!("{}: the first line must be '{RUN}command'", path.display()))?;
    if rest.lines().any(|line| line.starts_with(RUN)) {
        return Err(format!("{}: only the first line is run", path.display()));
    }
    let folder = temporary();
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    std::fs::write(folder.path().join(&*name), &text).map_err(|error| error.to_string())?;
    let got = rendered(&shell(folder.path(), &format!("set -o pipefail; {}", command.replace('%', &name))));
    let expected_path = path.with_extension("expect");
    if blessing() {
        return std::fs::write(&expected_path, got).map_err(|error| error.to_string());
    }
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    if got == expected {
        return Ok(());
    }
    let line = got
        .lines()
        .zip(expected.lines())
        .position(|(g, e)| g != e)
        .unwrap_or_else(|| got.lines().count().min(expected.lines().count()));
    let line_of = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_string();
    let shown = path.strip_prefix(root()).unwrap_or(path).display();
    Err(format!(
        "{shown}: line {} is\n    {}\ninstead of\n    {}\n  ({command}; scripts/bless accepts it)",
        line + 1,
        line_of(&got),
        line_of(&expected)
    ))
}

#[test]
fn fixtures_print_what_they_should() {
    for_each(&fixtures(), |path| check(path));
}

/// Readers accept a fixture with its command and other comments before the first line of the format.
#[test]
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
#[test]
fn stages_have_fixtures() {
    let fixtures = fixtures();
    for stage in ["read", "lower-aa", "lower-as", "sched", "ptx"] {
        let count = fixtures.iter().filter(|path| path.starts_with(root().join("tests").join(stage))).count();
        assert!(count >= 10, "tests/{stage} has {count} fixtures");
    }
}
