//! Compares the driver `tileiras` with NVIDIA's driver for the same command lines.
//!
//! For each list of arguments, `probes.jsonl` has the observed behaviour of NVIDIA's tileiras 13.5.37: the exit code, standard
//! error, the kind of standard output, and the created files. The test allows a difference only with a listed reason.

use serde::Deserialize;
use std::fs;
use std::path::Path;
use tests::need::Need;
use tests::suite::{CaseResult, Suite};
use tests::{root, shell, temporary_folder};

/// The observed behaviour of NVIDIA's tileiras for a list of arguments.
#[derive(Deserialize)]
struct Probe {
    args: String,
    code: i32,
    stdout: String,
    stderr: String,
    files: Vec<String>,
}

/// Arguments, and the reason why this driver behaves differently.
const DIFFERENCES: &[(&str, &str)] = &[
    ("-v k.bc", "-v is an option here"),
    ("--verbose k.bc", "--verbose is an option here"),
    ("--emit=ptx k.bc", "--emit is an option here"),
    ("k.bc --gpu-name sm_90a -o o", "names with an architecture suffix name the target here"),
    ("--gpu-name sm_100f k.bc -o o", "as above"),
    ("k.bc --gpu-name sm_90 -o /nowhere/at/all", "the reference is silent when it cannot write; this driver reports the reason"),
    ("k.bc --gpu-name sm_90 -o dir", "as above"),
    ("k.bc --gpu-name sm_90 -o \"\"", "as above"),
    ("--output-file= k.bc --gpu-name sm_90", "as above"),
    ("-o= k.bc --gpu-name sm_90", "as above"),
    (
        "--remarks-missed=all k.bc --gpu-name sm_90 -o o",
        "the reference reports that it could not narrow an index, which nothing here tries",
    ),
];

/// Files that the reference's runs may create.
const OUTPUTS: [&str; 8] = ["o", "p", "q", "elf.o", "xyz", "tileir_remarks.yaml", "r.yaml", "-"];

fn read_probes() -> Vec<Probe> {
    let text = fs::read_to_string(root().join("tests/cli/probes.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The files that the probes name.
fn write_probe_files(folder: &Path) {
    let bytecode = fs::read(root().join("tests/cli/probe.tileirbc")).unwrap();
    fs::write(folder.join("k.bc"), &bytecode).unwrap();
    fs::write(folder.join("cut.bc"), &bytecode[..400]).unwrap();
    fs::write(folder.join("bad.bc"), "x").unwrap();
    fs::write(folder.join("empty.bc"), "").unwrap();
    fs::write(folder.join("resp"), "--gpu-name sm_90\n-O2").unwrap();
    fs::write(folder.join("resp2"), "--gpu-name 'sm_90' k.bc").unwrap();
    fs::write(folder.join("nest"), "@resp\n").unwrap();
    fs::create_dir(folder.join("dir")).unwrap();
}

/// The kind of standard output, in the words of `probes.jsonl`.
fn output_kind(stdout: &[u8]) -> &'static str {
    let starts = |text: &str| stdout.starts_with(text.as_bytes());
    match () {
        () if stdout.is_empty() => "nothing",
        () if starts("13.1\n") => "versions",
        () if starts("OVERVIEW") => "help",
        () if starts("tileiras:") => "version",
        () if starts("\x7fELF") => "cubin",
        () => "remarks",
    }
}

/// Runs the driver with the arguments of a probe and compares the behaviours.
fn check_probe(probe: &Probe) -> CaseResult {
    let folder = temporary_folder();
    write_probe_files(folder.path());
    let ran = shell(folder.path(), &format!("tileiras {}", probe.args));
    let files: Vec<String> = OUTPUTS.iter().filter(|name| folder.path().join(name).exists()).map(|name| name.to_string()).collect();
    // Only the driver of Tileworks prints these notes, which state its targets and the name of the input.
    let added_notes = ["note: no target: pass --gpu-name=", "note: in "];
    let reported: String = ran
        .stderr
        .lines()
        .filter(|line| !added_notes.iter().any(|note| line.starts_with(note)))
        .map(|line| format!("{line}\n"))
        .collect();
    let got = (ran.code, output_kind(&ran.stdout), reported.as_str(), files);
    let expected_stderr = probe.stderr.replace("<argv0>", "tileiras");
    let expected = (Some(probe.code), probe.stdout.as_str(), expected_stderr.as_str(), probe.files.clone());
    // The reference suggests the nearest option even if it resembles the argument in nothing.
    let without_suggestions: String =
        expected_stderr.lines().filter(|line| !line.contains("Did you mean '")).map(|line| format!("{line}\n")).collect();
    let expected =
        if reported == without_suggestions { (expected.0, expected.1, without_suggestions.as_str(), expected.3) } else { expected };
    let is_listed = DIFFERENCES.iter().any(|(args, _)| *args == probe.args);
    match (got == expected, is_listed) {
        (true, true) => Err(format!("tileiras {}: is listed as a difference but is none", probe.args)),
        (false, false) => Err(format!("tileiras {}\n    got    {got:?}\n    expected {expected:?}", probe.args)),
        _ => Ok(()),
    }
}

/// Each list of arguments is a case.
pub(crate) fn add(suite: &mut Suite) {
    let probes = read_probes();
    assert!(probes.len() >= 90);
    for (number, probe) in probes.into_iter().enumerate() {
        suite.case_with(&[Need::Ptxas], format!("probes/{number}/{}", probe.args), move || check_probe(&probe));
    }
}

/// Clients search for parts of the version and help texts. These texts cannot equal the reference's byte for byte, so the test
/// checks the parts.
fn texts_have_the_parts_that_clients_search_for() {
    let version = shell(root(), "tileiras --version").text();
    assert!(version.contains("Cuda compilation tools, release 13.5, V13.5."), "{version}");
    assert!(version.contains("not NVIDIA's"), "{version}");
    let help = shell(root(), "tileiras --help").text();
    let targets = help.lines().skip_while(|line| !line.trim_start().starts_with("--gpu-name")).skip(1);
    let target_count = targets.take_while(|line| line.trim_start().starts_with("=sm_")).count();
    assert_eq!(target_count, 12, "{help}");
    let unknown = shell(root(), "tileiras --gpu-name sm_75 k.bc").stderr;
    assert!(unknown.contains("Cannot find option named 'sm_75'!"));
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![texts_have_the_parts_that_clients_search_for,];
