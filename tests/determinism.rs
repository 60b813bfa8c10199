//! The same input and options give the same bytes at every stage. The working directory, locale, time zone, temporary directory,
//! limits and number of parallel jobs have no effect.

use std::fs;
use std::path::Path;
use std::process::Command;
use tests::{root, run_to_end, temporary_folder, tool};

const CASES: [&str; 3] = ["matmul_f16", "softmax", "row_max"];

/// The files of all stages of a compilation in `folder`, sorted by name.
fn compile_stages(folder: &Path, case: &str, environment: impl Fn(&mut Command)) -> Vec<(String, Vec<u8>)> {
    fs::copy(root().join("tests/run").join(case).join("kernel.tileirbc"), folder.join("k.bc")).unwrap();
    let mut command = Command::new(tool("tileiras"));
    command.args(["k.bc", "--gpu-name=sm_90", "--lineinfo", "--save-temps=kept", "-o", "k.cubin"]).current_dir(folder);
    environment(&mut command);
    run_to_end(command, b"").ok(case);
    let mut files: Vec<_> = tests::files_below(&folder.join("kept"))
        .into_iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert_eq!(files.len(), 6, "{case}: every stage's file");
    files
}

#[test]
fn the_environment_does_not_change_the_output() {
    for case in CASES {
        let folder = temporary_folder();
        let expected = compile_stages(folder.path(), case, |_| {});
        let other_folder = temporary_folder();
        let deep_folder = other_folder.path().join("a folder/with another name");
        fs::create_dir_all(&deep_folder).unwrap();
        let scratch = other_folder.path().join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        let variants: [(&str, &dyn Fn(&mut Command)); 3] = [
            ("locale and zone", &|command| {
                command.env("LC_ALL", "tr_TR.UTF-8").env("LANG", "ar_EG").env("TZ", "Pacific/Chatham").env("COLUMNS", "7");
            }),
            ("folders", &|command| {
                command.env("TMPDIR", &scratch).env_remove("HOME").env("PWD", "/nowhere");
            }),
            ("limits", &|command| {
                command.args(["--max-memory=3000", "--max-time=500"]).env("RAYON_NUM_THREADS", "1").env("MALLOC_ARENA_MAX", "1");
            }),
        ];
        for (changed_setting, environment) in variants {
            let got = compile_stages(&deep_folder, case, environment);
            for ((name, got), (_, expected)) in got.iter().zip(&expected) {
                assert!(got == expected, "{case}: {name} depends on {changed_setting}");
            }
        }
    }
}

#[test]
fn parallel_jobs_do_not_change_the_output() {
    let folder = temporary_folder();
    for case in CASES {
        fs::copy(root().join("tests/run").join(case).join("kernel.tileirbc"), folder.path().join(format!("{case}.bc"))).unwrap();
    }
    let outputs = |jobs: &str| {
        let mut command = Command::new(tool("tileiras"));
        command.args(["--gpu-name=sm_80", "--gpu-name=sm_100", "--jobs", jobs, "--out-dir", jobs, "--emit=ptx"]);
        command.args(CASES.map(|case| format!("{case}.bc"))).current_dir(folder.path());
        run_to_end(command, b"").ok(jobs);
        let files = tests::files_below(&folder.path().join(jobs));
        assert_eq!(files.len(), 2 * CASES.len());
        files.into_iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert!(outputs("1") == outputs("7"));
}
