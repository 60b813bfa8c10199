//! Helpers for tests of `.sched` programs, hand-written or with injected faults. They run the hazard checker, emit PTX, and execute
//! the program and its PTX. Executions vary the schedule seed and, in `tile-sim`, the delivery of asynchronous writes.

use crate::run;
use base::File;
use std::path::Path;

/// The schedule seeds with which the tests run `tile-run`.
const SEEDS: [&str; 4] = ["0", "1", "2", "3"];
/// The instruction limit of `tile-sim`, which stops programs that never end. The correct programs need fewer instructions.
const INSTRUCTION_LIMIT: &str = "4000000";

/// Executes a file in a directory. Returns the contents of the output buffer `c`, or the reported error.
pub fn execute_for_output(folder: &Path, tool: &str, file: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (program, launch, out) = (path(file), path("launch.json"), path("out"));
    let arguments = [options, &[&program, "--launch", &launch, "--out-dir", &out]].concat();
    let ran = run(tool, &arguments, b"");
    match ran.code {
        Some(0) => Ok(std::fs::read(folder.join("out/c.bin")).expect("there is an output")),
        _ => Err(ran.stderr),
    }
}

/// The tools and options of all executions of a program. `tile-run` executes the `.sched` file with the first `seed_count` seeds of
/// `SEEDS`. `tile-sim` executes the PTX with early and with late delivery, each with two seeds.
pub fn executions(seed_count: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let tile_runs = SEEDS[..seed_count].iter().map(|seed| ("tile-run", vec!["--skip-hazard-check", "--schedule-seed", seed]));
    let simulations = [("early", "1"), ("early", "2"), ("late", "1"), ("late", "2")].map(|(delivery, seed)| {
        let options = ["--races=error", "--delivery", delivery, "--schedule-seed", seed, "--instruction-limit", INSTRUCTION_LIMIT];
        ("tile-sim", options.to_vec())
    });
    tile_runs.chain(simulations).collect()
}

/// Writes a program and its PTX, and checks that each execution produces the expected output.
pub fn check_all_executions(
    folder: &Path,
    text: &str,
    expected: &[u8],
    executions: Vec<(&'static str, Vec<&'static str>)>,
) -> Result<(), String> {
    write_program_and_ptx(folder, text);
    for (tool, options) in executions {
        if execute_for_output(folder, tool, file_of_tool(tool), &options)? != expected {
            return Err(format!("{tool} {options:?} has a wrong output"));
        }
    }
    Ok(())
}

/// Whether `tile-sim` detects a fault in PTX: at least one execution reports an error or has a wrong output.
pub fn tile_sim_detects(folder: &Path, ptx: &str, expected: &[u8]) -> bool {
    std::fs::write(folder.join("k.ptx"), ptx).expect("the folder takes files");
    let execute = |(tool, options): (&str, Vec<&str>)| execute_for_output(folder, tool, "k.ptx", &options);
    executions(0).into_iter().any(|execution| execute(execution).map_or(true, |output| output != expected))
}

/// Checks that each executor detects the fault in the program of a directory: at least one execution reports an error or has a
/// wrong output. `message` is the report of the hazard checker, for the failure message.
pub fn check_both_detect(folder: &Path, expected: &[u8], message: &str) -> Result<(), String> {
    for executor in ["tile-run", "tile-sim"] {
        let detected = executions(3).into_iter().filter(|(tool, _)| *tool == executor).any(|(tool, options)| {
            let file = file_of_tool(tool);
            execute_for_output(folder, tool, file, &options).map_or(true, |output| output != expected)
        });
        if !detected {
            return Err(format!("{executor} detects nothing where the hazard checker reports '{message}'"));
        }
    }
    Ok(())
}

/// Writes a `.sched` text to `k.sched` and its PTX to `k.ptx`. Skips the hazard checker.
pub fn write_program_and_ptx(folder: &Path, text: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("k.sched"), text).expect("the folder takes files");
    run("tile-ptx", &["--skip-hazard-check", &path("k.sched"), "-o", &path("k.ptx")], b"").ok("tile-ptx");
}

/// The name of the file that an executor reads: `k.sched` for `tile-run`, `k.ptx` for `tile-sim`.
pub fn file_of_tool(tool: &str) -> &'static str {
    if tool == "tile-run" { "k.sched" } else { "k.ptx" }
}

/// Reads a `.sched` text, which runs the verifier and the hazard checker. An error has the code and the message of their report.
pub fn check_hazards(text: &str) -> Result<(), String> {
    File::<sched::Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// Replaces the first occurrence of a text, which must exist.
pub fn replace_once(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in\n{text}");
    text.replacen(from, to, 1)
}

/// Removes all lines that begin with a text after their indentation. One such line must exist.
pub fn without_lines_starting_with(text: &str, start: &str) -> String {
    assert!(text.contains(start), "{start} is not in\n{text}");
    text.lines().filter(|line| !line.trim_start().starts_with(start)).map(|line| format!("{line}\n")).collect()
}
