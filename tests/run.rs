//! Executes the cases of `tests/run` on the file of every stage and on the PTX; all must leave the expected memory.
//!
//! `scripts/make-examples` makes the cases from `scripts/kernels.py`; those with a `kernel.tile` were written by hand, for what
//! `tile-fuzz` found.

use std::path::{Path, PathBuf};
use tests::compare::Expect;
use tests::{folders, for_each, root, run, temporary};

const TARGETS: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// The targets of a case: all, or those that its file `targets` lists because others lack something.
fn targets(case: &Path) -> Vec<String> {
    match std::fs::read_to_string(case.join("targets")) {
        Ok(listed) => listed.lines().map(str::to_string).collect(),
        Err(_) => TARGETS.map(str::to_string).into(),
    }
}

fn cases() -> Vec<PathBuf> {
    folders(&root().join("tests/run"))
}

/// Executes a file of a stage and compares.
fn execute(tool: &str, file: &str, case: &Path) -> Result<(), String> {
    let folder = temporary();
    let launch = case.join("launch.json");
    let arguments = [file, "--launch", launch.to_str().expect("UTF-8"), "--out-dir", folder.path().to_str().expect("UTF-8")];
    let ran = run(tool, &arguments, b"");
    if ran.code != Some(0) {
        return Err(format!("{tool}: {}", ran.stderr.trim()));
    }
    Expect::read(case).check(case, folder.path())
}

/// The bytecode of a case; `folder` takes it where it has to be made first.
fn bytecode(case: &Path, folder: &Path) -> String {
    let text = case.join("kernel.tile");
    if !text.exists() {
        return case.join("kernel.tileirbc").display().to_string();
    }
    let made = folder.join("kernel.tileirbc").display().to_string();
    run("tile-write", &[&text.display().to_string(), "-o", &made], b"").ok(&label(case));
    made
}

fn label(case: &Path) -> String {
    case.file_name().expect("a folder has a name").to_string_lossy().into_owned()
}

#[test]
fn the_program_as_written_computes_what_it_should() {
    for_each(&cases(), |case| {
        let folder = temporary();
        let file = folder.path().join("k.tile").display().to_string();
        run("tile-read", &[&bytecode(case, folder.path()), "-o", &file], b"").ok(&label(case));
        execute("tile-run", &file, case).map_err(|complaint| format!("{}: {complaint}", label(case)))
    });
}

#[test]
fn every_stage_and_the_ptx_compute_the_same() {
    let mut runs = Vec::new();
    for case in cases() {
        for target in targets(&case) {
            runs.extend(["-O0", "-O3"].map(|level| (case.clone(), target.clone(), level)));
        }
    }
    for_each(&runs, |(case, target, level)| {
        let folder = temporary();
        let stem = folder.path().join("k").display().to_string();
        let kept = format!("--save-temps={}", folder.path().display());
        let arguments =
            [&bytecode(case, folder.path()), "--gpu-name", target, level, "--emit=ptx", &kept, "-o", &format!("{stem}.ptx")];
        let what = format!("{} {target} {level}", label(case));
        let ran = run("tileiras", &arguments, b"");
        if ran.code != Some(0) {
            return Err(format!("{what}: {}", ran.stderr.trim()));
        }
        for (tool, kind) in [("tile-run", "aa"), ("tile-run", "as"), ("tile-run", "sched"), ("tile-sim", "ptx")] {
            let file = match kind {
                "ptx" => format!("{stem}.ptx"),
                kind => folder.path().join(format!("kernel.{kind}")).display().to_string(),
            };
            execute(tool, &file, case).map_err(|complaint| format!("{what} .{kind}: {complaint}"))?;
        }
        Ok(())
    });
}
