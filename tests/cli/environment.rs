//! Tests of driver options in environment variables, and of `tileiras --doctor`, which reports the found tools and libraries.

use crate::{bytecode_path, check_stages_are_current};
use tests::{RunResult, shell, temporary_folder, tool};

fn run_in_folder(folder: &std::path::Path, line: &str) -> RunResult {
    check_stages_are_current();
    shell(folder, &line.replace("KERNEL", &bytecode_path()))
}

fn options_from_the_environment_come_before_those_of_the_command_line() {
    let folder = temporary_folder();
    let run = |line: &str| run_in_folder(folder.path(), line);
    run("TILEWORKS_OPTIONS='--save-temps=kept -O1' tileiras KERNEL --gpu-name=sm_90 -o o").ok("an option more");
    assert!(folder.path().join("kept/kernel.sched").exists());
    let line = run("TILEWORKS_OPTIONS='--gpu-name=sm_80 -O0 --check-bounds' tileiras KERNEL --gpu-name=sm_90 --dry-run -o o");
    let line = String::from_utf8(line.ok("the command line wins")).unwrap();
    assert!(
        line.contains("--gpu-name=sm_90") && line.contains("--opt-level=0 --check-bounds") && !line.contains("sm_80"),
        "{line}"
    );
    run("echo '--emit=aa' > more; TILEWORKS_OPTIONS=@more tileiras KERNEL -o o.aa; tile-dump o.aa").ok("a response file");
    // `--version` prints the same for a client with these options set.
    run("TILEWORKS_OPTIONS='--save-temps=other' tileiras --version").ok("--version");
    assert!(!folder.path().join("other").exists());
}

fn errors_in_the_variable_are_reported_with_its_name() {
    let folder = temporary_folder();
    for (options, message) in [
        ("--no-such-option", "TILEWORKS_OPTIONS: Unknown command line argument '--no-such-option'"),
        ("--gpu-name=sm_1", "TILEWORKS_OPTIONS: for the --gpu-name option: Cannot find option named 'sm_1'!"),
        ("k.bc", "error: TILEWORKS_OPTIONS: 'k.bc' is not an option"),
        ("--version", "error: TILEWORKS_OPTIONS: --version is allowed on the command line only"),
    ] {
        let ran = run_in_folder(folder.path(), &format!("TILEWORKS_OPTIONS='{options}' tileiras KERNEL --gpu-name=sm_90 -o o"));
        assert_eq!((ran.code, ran.stdout.len()), (Some(1), 0), "{options}");
        assert!(ran.stderr.starts_with(message), "{options}: {}", ran.stderr);
        assert!(!folder.path().join("o").exists());
    }
}

/// Tools in a Python environment find NVIDIA's packages there without any setting.
fn installed_nvidia_packages_are_found() {
    let folder = temporary_folder();
    let packages = folder.path().join("lib/python3.11/site-packages/nvidia");
    for file in ["cu12/bin/ptxas", "cu13/bin/ptxas", "cu13/nvvm/libdevice/libdevice.10.bc"] {
        std::fs::create_dir_all(packages.join(file).parent().unwrap()).unwrap();
        std::fs::write(packages.join(file), "").unwrap();
    }
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::copy(tool("tileiras"), folder.path().join("bin/tileiras")).unwrap();
    let reported = run_in_folder(folder.path(), "env -u CUDA_ROOT -u CUDA_HOME -u CUDA_PATH bin/tileiras --doctor").text();
    for line in [
        "cu13/bin/ptxas, by NVIDIA's Python packages in the tools' environment",
        "cu13/nvvm/libdevice/libdevice.10.bc, by NVIDIA's",
    ] {
        assert!(reported.contains(line), "{reported}");
    }
}

fn the_doctor_lists_found_and_missing_components() {
    let folder = temporary_folder();
    let run = |line: &str| run_in_folder(folder.path(), line);
    let complete = run("TILEWORKS_OPTIONS=--cache=c tileiras --doctor");
    let reported = complete.text();
    assert_eq!((complete.code, complete.stderr.as_str()), (Some(0), ""), "{reported}");
    for line in ["ok  tools", "ok  ptxas", "ok  libdevice", "ok  PATH", "ok  cache       c: 0 entries"] {
        assert!(reported.contains(line), "{line} is not in\n{reported}");
    }
    let incomplete = run("CUDA_ROOT=/nowhere tileiras --doctor");
    assert_eq!(incomplete.code, Some(2), "{}", incomplete.text());
    assert!(
        incomplete.text().contains("NO  ptxas       no ptxas at /nowhere/bin/ptxas, in the toolkit that CUDA_ROOT names"),
        "{}",
        incomplete.text()
    );
    assert!(incomplete.text().contains("install a CUDA toolkit"), "{}", incomplete.text());
    let other_driver = run("TRITON_TILEIRAS_PATH=/usr/bin tileiras --doctor").text();
    assert!(other_driver.contains("TRITON_TILEIRAS_PATH points to /usr/bin/tileiras, which is not this driver"), "{other_driver}");
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    options_from_the_environment_come_before_those_of_the_command_line,
    errors_in_the_variable_are_reported_with_its_name,
    installed_nvidia_packages_are_found,
    the_doctor_lists_found_and_missing_components,
];
