//! Helpers for hand-written or broken `.sched` programs: run the hazard checker, emit PTX, and execute both with several schedule
//! seeds and both delivery modes.

use crate::run;
use base::File;
use std::path::Path;

/// The schedule seeds of `tile-run`.
const SEEDS: [&str; 4] = ["0", "1", "2", "3"];
/// The instruction limit that ends `tile-sim` on a program that never ends.
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

/// The tools and options for all executions of a program: in `tile-run` with the first `orders` schedule seeds, and as PTX in
/// `tile-sim` with early and late delivery, two seeds each.
pub fn executions(orders: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let tile_runs = SEEDS[..orders].iter().map(|seed| ("tile-run", vec!["--skip-hazard-check", "--schedule-seed", seed]));
    let simulations = [("early", "1"), ("early", "2"), ("late", "1"), ("late", "2")].map(|(delivery, seed)| {
        let options = ["--races=error", "--delivery", delivery, "--schedule-seed", seed, "--instruction-limit", INSTRUCTION_LIMIT];
        ("tile-sim", options.to_vec())
    });
    tile_runs.chain(simulations).collect()
}

/// Writes a program and its PTX and executes them; each execution must produce the expected output.
pub fn check_all_executions(
    folder: &Path,
    text: &str,
    expected: &[u8],
    executions: Vec<(&'static str, Vec<&'static str>)>,
) -> Result<(), String> {
    write_program_and_ptx(folder, text);
    for (tool, options) in executions {
        if execute_for_output(folder, tool, file_of_tool(tool), &options)? != expected {
            return Err(format!("{tool} {options:?} computes something else"));
        }
    }
    Ok(())
}

/// Whether `tile-sim` detects that PTX is wrong: in at least one execution it reports an error, or the output differs.
pub fn tile_sim_detects(folder: &Path, ptx: &str, expected: &[u8]) -> bool {
    std::fs::write(folder.join("k.ptx"), ptx).expect("the folder takes files");
    let execute = |(tool, options): (&str, Vec<&str>)| execute_for_output(folder, tool, "k.ptx", &options);
    executions(0).into_iter().any(|execution| execute(execution).map_or(true, |output| output != expected))
}

/// Checks that each executor detects, in at least one execution, that the program in a directory is wrong.
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

/// Writes the program and its PTX.
pub fn write_program_and_ptx(folder: &Path, text: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("k.sched"), text).expect("the folder takes files");
    run("tile-ptx", &["--skip-hazard-check", &path("k.sched"), "-o", &path("k.ptx")], b"").ok("tile-ptx");
}

/// The file that a tool executes.
pub fn file_of_tool(tool: &str) -> &'static str {
    if tool == "tile-run" { "k.sched" } else { "k.ptx" }
}

/// Reads `.sched` text, which runs the verifier and the hazard checker. Returns their error.
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
