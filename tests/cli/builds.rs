//! Tests of the examples for build systems. A second build must compile nothing. After a change of one kernel, the build must
//! compile only this kernel.

use crate::check_stages_are_current;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use tests::replaced_tool::install_executable;
use tests::{RunResult, path_with_tools, root, run_to_end, shell, temporary_copy_of_folder, temporary_folder, tool};

/// A temporary copy of `examples/kernels`.
fn copy_of_examples() -> tempfile::TempDir {
    let folder = temporary_folder();
    for entry in fs::read_dir(root().join("examples/kernels")).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    check_stages_are_current();
    folder
}

fn run_build(folder: &Path, program: &str) -> RunResult {
    let mut command = Command::new(program);
    command.current_dir(folder).env("PATH", path_with_tools());
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(0), "{program}: {}{}", ran.text(), ran.stderr);
    ran
}

/// Sets the modification time of a file to the current time.
fn touch(path: &Path) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
}

/// The number of compiled cubins that the output of a build names.
fn rebuilt_count(ran: &RunResult) -> usize {
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

fn make_rebuilds_only_changed_kernels() {
    check_rebuilds("make");
}

/// cmake configures for a generator that supports depfiles. `scripts/setup --clients` installs cmake.
fn cmake_rebuilds_only_changed_kernels() {
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

fn ninja_rebuilds_only_changed_kernels() {
    check_rebuilds("ninja");
}

/// A copy of examples/library, and a toolkit whose ptxas is a script, so that the test can touch it.
struct LibraryProject {
    folder: tempfile::TempDir,
}

impl LibraryProject {
    fn new() -> LibraryProject {
        check_stages_are_current();
        let folder = temporary_copy_of_folder(&root().join("examples/library"));
        let toolkit = folder.path().join("toolkit");
        fs::create_dir_all(toolkit.join("bin")).unwrap();
        fs::create_dir_all(toolkit.join("nvvm/libdevice")).unwrap();
        let [ptxas, libdevice] =
            [common::toolkit::ptxas(), common::toolkit::libdevice()].map(|found| found.unwrap().path.canonicalize().unwrap());
        fs::write(folder.path().join("script"), format!("#!/bin/sh\nexec '{}' \"$@\"\n", ptxas.display())).unwrap();
        install_executable(&folder.path().join("script"), &toolkit.join("bin/ptxas"));
        std::os::unix::fs::symlink(libdevice, toolkit.join("nvvm/libdevice/libdevice.10.bc")).unwrap();
        std::os::unix::fs::symlink(tool("libcuda.so"), folder.path().join("libcuda.so.1")).unwrap();
        LibraryProject { folder }
    }

    fn run(&self, program: &Path, words: &[&str], environment: &[(&str, &str)]) -> RunResult {
        let python = root().join(".toolkit/python/bin");
        let mut path = vec![python];
        path.extend(std::env::split_paths(&path_with_tools()));
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).env("PATH", std::env::join_paths(path).unwrap());
        command.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("CUDA_ROOT", self.folder.path().join("toolkit")).env("LD_LIBRARY_PATH", self.folder.path());
        command.envs(environment.iter().copied());
        let ran = run_to_end(command, b"");
        assert_eq!(ran.code, Some(0), "{words:?}: {}{}", ran.text(), ran.stderr);
        ran
    }

    /// Builds the project with ninja. Returns the names of the exported and compiled files, sorted.
    fn build(&self) -> Vec<String> {
        let ran = self.run(&root().join(".toolkit/python/bin/cmake"), &["--build", "out"], &[]);
        let text = ran.text();
        let actions = text.lines().filter_map(|line| line.split_once("] ")).map(|(_, action)| action);
        let mut actions: Vec<String> = actions
            .filter(|action| action.starts_with("Exporting") || action.starts_with("Compiling"))
            .filter_map(|action| action.split(' ').nth(1).map(str::to_string))
            .collect();
        actions.sort();
        actions
    }
}

/// The example's library has code for four targets, and the program runs on each of them. After a change of a kernel, an imported
/// Python file or ptxas, a build compiles only the files that depend on the changed file.
fn cmake_package_rebuilds_only_dependents() {
    let project = LibraryProject::new();
    let package = format!("-DTileworks_DIR={}", root().join("packages/cmake").display());
    let driver = format!("-DTILEWORKS_TILEIRAS={}", tool("tileiras").display());
    project.run(&root().join(".toolkit/python/bin/cmake"), &["-B", "out", "-G", "Ninja", &package, &driver], &[]);
    assert_eq!(project.build(), ["scale.o", "scale.tileirbc", "vadd.o"]);
    for device in ["sm_80", "sm_90", "sm_100", "sm_120"] {
        let ran = project.run(&project.folder.path().join("out/add"), &[], &[("TILEWORKS_DEVICE", device)]);
        assert_eq!(ran.text(), "1024 elements are right\n", "{device}: {}", ran.stderr);
    }
    let nothing: [&str; 0] = [];
    assert_eq!(project.build(), nothing, "a second run does nothing");
    touch(&project.folder.path().join("vadd.tileirbc"));
    assert_eq!(project.build(), ["vadd.o"]);
    fs::write(project.folder.path().join("tiles.py"), "TILE = 128\n").unwrap();
    assert_eq!(project.build(), ["scale.o", "scale.tileirbc"]);
    touch(&project.folder.path().join("toolkit/bin/ptxas"));
    assert_eq!(project.build(), ["scale.o", "vadd.o"]);
    assert_eq!(project.build(), nothing, "a run after that does nothing");
}

/// Builds the Meson project of docs/build-systems.md. Without Meson, the test passes at once.
fn meson_rebuilds_only_changed_kernels() {
    check_stages_are_current();
    if shell(root(), "command -v meson").code != Some(0) {
        return;
    }
    let folder = temporary_folder();
    let page = fs::read_to_string(root().join("docs/build-systems.md")).unwrap();
    let start = page.find("project('app'").expect("the page has the project");
    let project = &page[start..start + page[start..].find("```").expect("a block ends")];
    fs::write(folder.path().join("meson.build"), project).unwrap();
    let program =
        "#include \"vadd.h\"\nint main(void) { return vadd_fatbin_size == 0 || vadd_fatbin_kernels[0].code_count != 2; }\n";
    fs::write(folder.path().join("app.c"), program).unwrap();
    fs::copy(root().join("tests/run/vadd/kernel.tileirbc"), folder.path().join("vadd.tileirbc")).unwrap();
    fs::create_dir(folder.path().join("tileworks")).unwrap();
    fs::copy(root().join("packages/meson/meson.build"), folder.path().join("tileworks/meson.build")).unwrap();
    shell(folder.path(), "meson setup build && ninja -C build && build/app").ok("the first build");
    let rebuild = || String::from_utf8(shell(folder.path(), "ninja -C build").ok("a build")).unwrap();
    assert!(rebuild().contains("no work to do"));
    touch(&folder.path().join("vadd.tileirbc"));
    assert!(rebuild().contains("vadd-kernel") && rebuild().contains("no work to do"));
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    make_rebuilds_only_changed_kernels,
    cmake_rebuilds_only_changed_kernels,
    ninja_rebuilds_only_changed_kernels,
    cmake_package_rebuilds_only_dependents,
    meson_rebuilds_only_changed_kernels,
];
