//! The examples for build systems: a second build does nothing, and touching one kernel rebuilds only that kernel.

use crate::check_stages_are_current;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use tests::{Ran, path_with_tools, root, run_to_end, temporary_folder};

fn copy_of_examples() -> tempfile::TempDir {
    let folder = temporary_folder();
    for entry in fs::read_dir(root().join("examples/kernels")).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    check_stages_are_current();
    folder
}

fn run_build(folder: &Path, program: &str) -> Ran {
    let mut command = Command::new(program);
    command.current_dir(folder).env("PATH", path_with_tools());
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(0), "{program}: {}{}", ran.text(), ran.stderr);
    ran
}

fn touch(path: &Path) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
}

fn rebuilt_count(ran: &Ran) -> usize {
    ran.text().lines().filter(|line| line.contains(".cubin")).count()
}

fn check_rebuilds(program: &str) {
    let folder = copy_of_examples();
    let kernels =
        fs::read_dir(folder.path()).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|x| x == "tileirbc")).count();
    assert_eq!(rebuilt_count(&run_build(folder.path(), program)), kernels);
    assert_eq!(
        fs::read_dir(folder.path().join("build"))
            .unwrap()
            .flatten()
            .filter(|e| e.path().extension().is_some_and(|x| x == "cubin"))
            .count(),
        kernels
    );
    assert_eq!(rebuilt_count(&run_build(folder.path(), program)), 0, "{program}: a second run does nothing");
    touch(&folder.path().join("vadd.tileirbc"));
    let ran = run_build(folder.path(), program);
    assert_eq!(rebuilt_count(&ran), 1, "{program}: {}", ran.text());
    assert!(ran.text().contains("vadd.cubin"), "{}", ran.text());
    assert_eq!(rebuilt_count(&run_build(folder.path(), program)), 0, "{program}: a run after that does nothing");
}

fn make_builds_what_changed() {
    check_rebuilds("make");
}

/// cmake configures for a generator that supports depfiles. `scripts/setup --clients` installs cmake.
fn cmake_builds_what_changed() {
    let cmake = root().join(".toolkit/python/bin/cmake");
    assert!(cmake.exists(), "cmake is not there; scripts/setup --clients brings it");
    let folder = copy_of_examples();
    let run = |words: &[&str]| {
        let mut command = Command::new(&cmake);
        command.args(words).current_dir(folder.path()).env("PATH", path_with_tools());
        let ran = run_to_end(command, b"");
        assert_eq!(ran.code, Some(0), "{words:?}: {}{}", ran.text(), ran.stderr);
        ran
    };
    run(&["-B", "out", "-G", "Ninja", "-DTARGETS=sm_80;sm_90"]);
    assert_eq!(rebuilt_count(&run(&["--build", "out"])), 6, "three kernels for two targets");
    assert_eq!(rebuilt_count(&run(&["--build", "out"])), 0, "a second run does nothing");
    touch(&folder.path().join("vadd.tileirbc"));
    let ran = run(&["--build", "out"]);
    assert!(rebuilt_count(&ran) == 2 && ran.text().contains("vadd.sm_80.cubin"), "{}", ran.text());
    assert!(folder.path().join("out/clamp.sm_90.cubin").is_file());
}

fn ninja_builds_what_changed() {
    check_rebuilds("ninja");
}

pub(crate) const TESTS: &[(&str, fn())] =
    tests::tests![make_builds_what_changed, cmake_builds_what_changed, ninja_builds_what_changed,];
