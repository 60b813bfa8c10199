//! Crash reports of an internal error: a message, an exit code, and a directory with a reproducer. Debug builds fail in the step
//! that TILEWORKS_FAIL_IN names.

use crate::driver::{drive, fake};
use crate::{bytecode, need_stages};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tests::{Ran, finish, run, temporary, tool, tools_folder};

/// Runs a tool that fails in `step`, with a temporary directory of its own.
fn failing(folder: &tempfile::TempDir, step: &str, name: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(tool(name));
    command.args(arguments).current_dir(folder.path()).env("TMPDIR", folder.path()).env("TILEWORKS_FAIL_IN", step);
    finish(command, b"")
}

fn reproducer(folder: &tempfile::TempDir, tool: &str) -> PathBuf {
    let is_reproducer =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{tool}-bug-")));
    let found = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).find(is_reproducer);
    found.expect("a folder is kept")
}

fn is_debug() -> bool {
    tools_folder().ends_with("debug")
}

fn a_folder_has_the_input_the_file_before_the_pass_and_the_command() {
    if !is_debug() {
        return;
    }
    let folder = temporary();
    let path = folder.path().join("k.tile").display().to_string();
    run("tile-read", &[&bytecode(), "-o", &path], b"").ok("tile-read");
    let ran = failing(&folder, "tile-lower-aa:shrink", "tile-lower-aa", &["-O", "2", "--check-bounds", "k.tile", "-o", "k.aa"]);
    assert_eq!(ran.code, Some(101));
    assert!(ran.stderr.contains("internal error of tile-lower-aa in pass 'shrink'"), "{}", ran.stderr);
    assert!(!folder.path().join("k.aa").exists());
    let crash_directory = reproducer(&folder, "tile-lower-aa");
    assert_eq!(fs::read(crash_directory.join("input")).unwrap(), fs::read(path).unwrap());
    let expected = run(
        "tile-lower-aa",
        &["-O2", "--check-bounds", "--stop-after=use-facts", &crash_directory.join("input").display().to_string()],
        b"",
    );
    assert_eq!(fs::read(crash_directory.join("before")).unwrap(), expected.ok("up to the pass before"));
    let mut rerun = Command::new("sh");
    rerun.arg(crash_directory.join("command")).env("TMPDIR", folder.path()).env("TILEWORKS_FAIL_IN", "tile-lower-aa:shrink");
    assert_eq!(finish(rerun, b"").code, Some(101), "the command reproduces the error");
}

fn the_driver_prints_the_crash_directory() {
    if !is_debug() {
        return;
    }
    let folder = temporary();
    need_stages();
    let ran = failing(&folder, "tile-sched:alloc", "tileiras", &[&bytecode(), "--gpu-name=sm_90", "-o", "k.cubin"]);
    assert_eq!(ran.code, Some(5));
    let crash_directory = reproducer(&folder, "tile-sched");
    assert!(ran.stderr.contains(&format!("sh {}/command", crash_directory.display())), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("error: failed to compile Tile IR program\n"), "{}", ran.stderr);
    assert!(!folder.path().join("k.cubin").exists());
}

fn a_stage_that_a_signal_ends_is_kept_by_the_driver() {
    let folder = fake("[ $name = tile-sched ] && { cat >/dev/null; kill -SEGV $$; }\n{ cat \"$file\"; echo \"$name $*\"; }");
    let temporary = temporary();
    let mut command = Command::new(folder.path().join("tileiras"));
    command.args(["k.bc", "--gpu-name=sm_80", "-o", "out"]).current_dir(folder.path());
    command.env("CUDA_ROOT", folder.path()).env("TMPDIR", temporary.path());
    let ran = finish(command, b"");
    assert_eq!(ran.code, Some(5));
    let crash_directory = reproducer(&temporary, "tile-sched");
    assert!(ran.stderr.contains(&format!("sh {}/command", crash_directory.display())), "{}", ran.stderr);
    assert_eq!(fs::read(crash_directory.join("input")).unwrap(), fs::read(folder.path().join("k.bc")).unwrap());
    let read_by_the_stage = drive(folder.path(), &["k.bc", "--gpu-name=sm_80", "--emit=as", "-o", "k.as"]);
    read_by_the_stage.ok("up to the stage before");
    assert_eq!(fs::read(crash_directory.join("before")).unwrap(), fs::read(folder.path().join("k.as")).unwrap());
    let mut rerun = Command::new("sh");
    rerun.arg(crash_directory.join("command"));
    assert_eq!(finish(rerun, b"").code, Some(128 + 11), "the command reproduces the error");
}

fn a_stage_ended_by_a_signal_from_outside_is_no_bug() {
    let folder = fake("[ $name = tile-sched ] && { cat >/dev/null; kill -TERM $$; }\ncat \"$file\"");
    let ran = drive(folder.path(), &["k.bc", "--gpu-name=sm_80", "-o", "out"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stderr.contains("tile-sched failed: signal: 15") && !ran.stderr.contains("bug"), "{}", ran.stderr);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    a_folder_has_the_input_the_file_before_the_pass_and_the_command,
    the_driver_prints_the_crash_directory,
    a_stage_that_a_signal_ends_is_kept_by_the_driver,
    a_stage_ended_by_a_signal_from_outside_is_no_bug,
];
