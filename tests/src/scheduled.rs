//! Hand-written or broken `.sched` programs as text: run the hazard checker, emit PTX, and execute them in every schedule and
//! delivery.

use crate::run;
use base::File;
use std::path::Path;

const SEEDS: [&str; 4] = ["0", "1", "2", "3"];
/// Instruction limit for programs that never end.
const LIMIT: &str = "4000000";

/// Executes a file in a directory. Returns its output, or the reported error.
pub fn executed(folder: &Path, tool: &str, file: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (program, launch, out) = (path(file), path("launch.json"), path("out"));
    let arguments = [options, &[&program, "--launch", &launch, "--out-dir", &out]].concat();
    let ran = run(tool, &arguments, b"");
    match ran.code {
        Some(0) => Ok(std::fs::read(folder.join("out/c.bin")).expect("there is an output")),
        _ => Err(ran.stderr),
    }
}

/// The executions of a program: in `tile-run` with this many orders, and its PTX under both deliveries.
pub fn executions(orders: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let tile_runs = SEEDS[..orders].iter().map(|seed| ("tile-run", vec!["--skip-hazard-check", "--schedule-seed", seed]));
    let simulations = [("early", "1"), ("early", "2"), ("late", "1"), ("late", "2")].map(|(delivery, seed)| {
        let options = ["--races=error", "--delivery", delivery, "--schedule-seed", seed, "--instruction-limit", LIMIT];
        ("tile-sim", options.to_vec())
    });
    tile_runs.chain(simulations).collect()
}

/// Writes a program and its PTX and executes them; each execution must produce the expected output.
pub fn all_executions_leave(
    folder: &Path,
    text: &str,
    expected: &[u8],
    executions: Vec<(&'static str, Vec<&'static str>)>,
) -> Result<(), String> {
    written(folder, text);
    for (tool, options) in executions {
        if executed(folder, tool, file_for(tool), &options)? != expected {
            return Err(format!("{tool} {options:?} computes something else"));
        }
    }
    Ok(())
}

/// Whether `tile-sim` detects that PTX is wrong, in some order or by its output.
pub fn is_detected(folder: &Path, ptx: &str, expected: &[u8]) -> bool {
    std::fs::write(folder.join("k.ptx"), ptx).expect("the folder takes files");
    let execute = |(tool, options): (&str, Vec<&str>)| executed(folder, tool, "k.ptx", &options);
    executions(0).into_iter().any(|execution| execute(execution).map_or(true, |output| output != expected))
}

/// Both executors detect, in some order, that the program in a directory is wrong.
pub fn detected_by_both(folder: &Path, expected: &[u8], message: &str) -> Result<(), String> {
    for executor in ["tile-run", "tile-sim"] {
        let detected = executions(3).into_iter().filter(|(tool, _)| *tool == executor).any(|(tool, options)| {
            let file = file_for(tool);
            executed(folder, tool, file, &options).map_or(true, |output| output != expected)
        });
        if !detected {
            return Err(format!("{executor} detects nothing where the hazard checker reports '{message}'"));
        }
    }
    Ok(())
}

/// Writes the program and its PTX.
pub fn written(folder: &Path, text: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("k.sched"), text).expect("the folder takes files");
    run("tile-ptx", &["--skip-hazard-check", &path("k.sched"), "-o", &path("k.ptx")], b"").ok("tile-ptx");
}

pub fn file_for(tool: &str) -> &'static str {
    if tool == "tile-run" { "k.sched" } else { "k.ptx" }
}

pub fn hazard_checked(text: &str) -> Result<(), String> {
    File::<sched::Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

pub fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in\n{text}");
    text.replacen(from, to, 1)
}

pub fn without(text: &str, what: &str) -> String {
    assert!(text.contains(what), "{what} is not in\n{text}");
    text.lines().filter(|line| !line.trim_start().starts_with(what)).map(|line| format!("{line}\n")).collect()
}
