//! Crash reports of an internal error: a message, an exit code, and a directory with a reproducer. Debug builds fail in the step
//! that the variable TILEWORKS_FAIL_IN names.

use crate::driver::{folder_with_stub_stages, run_driver};
use crate::{bytecode_path, check_stages_are_current};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tests::{RunResult, run, run_to_end, temporary_folder, tool};

/// Runs a tool that fails in `step`, with a temporary directory of its own.
fn run_failing_in(folder: &tempfile::TempDir, step: &str, name: &str, arguments: &[&str]) -> RunResult {
    let mut command = Command::new(tool(name));
    command.args(arguments).current_dir(folder.path()).env("TMPDIR", folder.path()).env("TILEWORKS_FAIL_IN", step);
    run_to_end(command, b"")
}

fn crash_directory_of(folder: &tempfile::TempDir, tool: &str) -> PathBuf {
    let is_reproducer =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{tool}-bug-")));
    let crash_directory = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).find(is_reproducer);
    crash_directory.expect("a folder is kept")
}

fn a_crash_directory_has_the_input_the_file_before_the_pass_and_the_command() {
    let folder = temporary_folder();
    let path = folder.path().join("k.tile").display().to_string();
    run("tile-read", &[&bytecode_path(), "-o", &path], b"").ok("tile-read");
    let ran =
        run_failing_in(&folder, "tile-lower-aa:shrink", "tile-lower-aa", &["-O", "2", "--check-bounds", "k.tile", "-o", "k.aa"]);
    assert_eq!(ran.code, Some(101));
    assert!(ran.stderr.contains("internal error of tile-lower-aa in pass 'shrink'"), "{}", ran.stderr);
    assert!(!folder.path().join("k.aa").exists());
    let crash_directory = crash_directory_of(&folder, "tile-lower-aa");
    assert_eq!(fs::read(crash_directory.join("input")).unwrap(), fs::read(path).unwrap());
    let expected = run(
        "tile-lower-aa",
        &["-O2", "--check-bounds", "--stop-after=use-facts", &crash_directory.join("input").display().to_string()],
        b"",
    );
    assert_eq!(fs::read(crash_directory.join("before")).unwrap(), expected.ok("up to the pass before"));
    let mut rerun = Command::new("sh");
    rerun.arg(crash_directory.join("command")).env("TMPDIR", folder.path()).env("TILEWORKS_FAIL_IN", "tile-lower-aa:shrink");
    assert_eq!(run_to_end(rerun, b"").code, Some(101), "the command reproduces the error");
}

fn the_driver_prints_the_crash_directory() {
    let folder = temporary_folder();
    check_stages_are_current();
    let ran = run_failing_in(&folder, "tile-sched:alloc", "tileiras", &[&bytecode_path(), "--gpu-name=sm_90", "-o", "k.cubin"]);
    assert_eq!(ran.code, Some(5));
    let crash_directory = crash_directory_of(&folder, "tile-sched");
    assert!(ran.stderr.contains(&format!("sh {}/command", crash_directory.display())), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("error: failed to compile Tile IR program\n"), "{}", ran.stderr);
    assert!(!folder.path().join("k.cubin").exists());
}

fn the_driver_writes_the_crash_directory_of_a_stage_that_a_signal_ends() {
    let folder = folder_with_stub_stages(
        "[ $name = tile-sched ] && { cat >/dev/null; kill -SEGV $$; }\n{ cat \"$file\"; echo \"$name $*\"; }",
    );
    let temporary = temporary_folder();
    let mut command = Command::new(folder.path().join("tileiras"));
    command.args(["k.bc", "--gpu-name=sm_80", "-o", "out"]).current_dir(folder.path());
    command.env("CUDA_ROOT", folder.path()).env("TMPDIR", temporary.path());
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(5));
    let crash_directory = crash_directory_of(&temporary, "tile-sched");
    assert!(ran.stderr.contains(&format!("sh {}/command", crash_directory.display())), "{}", ran.stderr);
    assert_eq!(fs::read(crash_directory.join("input")).unwrap(), fs::read(folder.path().join("k.bc")).unwrap());
    let read_by_the_stage = run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "--emit=as", "-o", "k.as"]);
    read_by_the_stage.ok("up to the stage before");
    assert_eq!(fs::read(crash_directory.join("before")).unwrap(), fs::read(folder.path().join("k.as")).unwrap());
    let mut rerun = Command::new("sh");
    rerun.arg(crash_directory.join("command"));
    assert_eq!(run_to_end(rerun, b"").code, Some(128 + 11), "the command reproduces the error");
}

fn a_stage_ended_by_a_signal_from_outside_is_no_bug() {
    let folder = folder_with_stub_stages("[ $name = tile-sched ] && { cat >/dev/null; kill -TERM $$; }\ncat \"$file\"");
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "-o", "out"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stderr.contains("tile-sched failed: signal: 15") && !ran.stderr.contains("bug"), "{}", ran.stderr);
}

/// Tests that inject a failure into a tool.
pub(crate) const DEBUG_TESTS: &[(&str, fn())] =
    tests::tests![a_crash_directory_has_the_input_the_file_before_the_pass_and_the_command, the_driver_prints_the_crash_directory,];

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    the_driver_writes_the_crash_directory_of_a_stage_that_a_signal_ends,
    a_stage_ended_by_a_signal_from_outside_is_no_bug,
];
