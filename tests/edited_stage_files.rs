//! Stage files edited at random. Either the verifier refuses an edited file, or the later stages accept it and their output behaves
//! as `tile-run` predicts for the edited file. No tool may end by a panic (exit code 101) or a signal.
//!
//! An edit can produce a program that is wrong in itself: it reads out of bounds, or two threads write one element. `tile-run
//! --check` reports that, and then any result is allowed. A race in a `.sched` file must be reported in the PTX too.
//!
//! The files are the examples of `tests/run`, lowered and printed. An edit changes a name, type, number, layout or line of the
//! text. The mutants are the same in every run. `TILEWORKS_MUTANTS` sets their number per format and the first one.

use base::{File, Payload};
use fuzz_targets::mutate::{Random, edited};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::compare::Expect;
use tests::{Ran, folders, for_each, root, run, temporary};

/// Mutants per format in the test command.
const MUTANTS: u64 = 400;

/// The error codes of shared-memory races in `tile-run`.
const RACES: [&str; 2] = ["RUN077", "RUN078"];

/// The stages after `.tile`, with the format that each writes.
const STAGES: [(&str, &str); 4] = [("tile-lower-aa", "aa"), ("tile-lower-as", "as"), ("tile-sched", "sched"), ("tile-ptx", "ptx")];

/// The files of a format as text, with the case of each, for two targets if the format names one.
fn files(stages: usize, phase: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for case in folders(&root().join("tests/run")) {
        let targets: &[&str] = if stages > 1 { &["sm_80", "sm_120"] } else { &["sm_80"] };
        for target in targets {
            files.extend(lowered(&case, target, stages, phase).map(|text| (case.clone(), text)));
        }
    }
    assert!(files.len() > 10, "only {} examples could be lowered", files.len());
    files
}

/// Returns None if a stage does not support the example on this target. The last stage stops after the phase, if one is given.
fn lowered(case: &Path, target: &str, stages: usize, phase: &str) -> Option<String> {
    let text = case.join("kernel.tile");
    let program = if text.is_file() { text } else { case.join("kernel.tileirbc") };
    let mut file = run("tile-read", &[&program], b"").ok(&program.display().to_string());
    for (i, (tool, _)) in STAGES[..stages].iter().enumerate() {
        let mut arguments = arguments(tool, target);
        if i + 1 == stages {
            arguments.push("--format=text");
            arguments.extend((!phase.is_empty()).then_some(["--stop-after", phase]).into_iter().flatten());
        }
        let ran = run(tool, &arguments, &file);
        if ran.code == Some(3) {
            return None;
        }
        file = ran.ok(tool);
    }
    Some(String::from_utf8(file).expect("text is UTF-8"))
}

fn arguments<'a>(tool: &str, target: &'a str) -> Vec<&'a str> {
    if tool == "tile-lower-as" { vec!["--gpu-name", target] } else { Vec::new() }
}

/// The number of mutants, and the number of the first.
fn count_and_first() -> (u64, u64) {
    let Ok(text) = std::env::var("TILEWORKS_MUTANTS") else { return (MUTANTS, 0) };
    let mut numbers = text.split(',').map(|number| number.parse().expect("TILEWORKS_MUTANTS is a count, or count,first"));
    (numbers.next().unwrap_or(MUTANTS), numbers.next().unwrap_or(0))
}

/// Executes a file on the launch of a case, with a limit on the number of steps.
fn execute(tool: &str, options: &[&str], file: &Path, case: &Path, out: &Path) -> Ran {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_string();
    let launch = path(&case.join("launch.json"));
    let arguments = [&path(file), "--launch", &launch, "--out-dir", &path(out), "--max-time=20"];
    run(tool, &[&arguments[..], options].concat(), b"")
}

/// The outcome of a mutant that all stages accepted.
enum Outcome {
    Same,
    /// The mutant itself is wrong; `tile-run` reports how.
    Faulty,
    /// The executor does not support the mutant, or hit its limit.
    Undecided,
}

/// Checks that the PTX computes the same as the mutant.
fn compare(mutant: &str, kind: &str, ptx: &[u8], case: &Path) -> Result<Outcome, String> {
    let folder = temporary();
    let path_to = |name: &str| folder.path().join(name);
    let (file, compiled) = (path_to("mutant").with_extension(kind), path_to("mutant.ptx"));
    std::fs::write(&file, mutant).map_err(|error| error.to_string())?;
    std::fs::write(&compiled, ptx).map_err(|error| error.to_string())?;
    let ran = execute("tile-run", &["--check", "--max-ops=200000"], &file, case, &path_to("run"));
    let sim = execute("tile-sim", &["--races=error", "--delivery=late"], &compiled, case, &path_to("sim"));
    for (tool, ran) in [("tile-run", &ran), ("tile-sim", &sim)] {
        if !matches!(ran.code, Some(0..=4)) {
            return Err(format!("{tool} ends with {:?}: {}", ran.code, ran.stderr.trim()));
        }
    }
    match (ran.code, sim.code) {
        (Some(0), Some(0)) => Expect::read(case).check_alike(&path_to("run"), &path_to("sim")).map(|()| Outcome::Same),
        (Some(0), Some(1)) => Err(format!("tile-sim alone finds a fault: {}", sim.stderr.trim())),
        (Some(1), Some(0)) if kind == "sched" && RACES.iter().any(|race| ran.stderr.contains(race)) => {
            Err(format!("tile-run alone finds a race: {}", ran.stderr.trim()))
        }
        (Some(1), _) => Ok(Outcome::Faulty),
        _ => Ok(Outcome::Undecided),
    }
}

/// The number of mutants by outcome.
#[derive(Default)]
struct Tally {
    accepted: AtomicUsize,
    same: AtomicUsize,
    faulty: AtomicUsize,
    undecided: AtomicUsize,
}

impl Tally {
    fn count(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The PTX of a mutant, if the stages accept it.
fn compiled(text: &str, next: usize) -> Result<Option<Vec<u8>>, String> {
    let mut file = text.as_bytes().to_vec();
    for (tool, _) in &STAGES[next..] {
        let ran = run(tool, &arguments(tool, "sm_80"), &file);
        match ran.code {
            Some(0) => file = ran.stdout,
            Some(1 | 3 | 4) => return Ok(None),
            code => {
                let how = code.map_or("by a signal".into(), |code| format!("with {code}"));
                return Err(format!("ends {tool} {how}: {}", ran.stderr.trim()));
            }
        }
    }
    Ok(Some(file))
}

/// Checks the mutants of a format. `minimum_percent` has the percentages of mutants that must still be programs, and that must
/// have equal results in PTX: about four fifths of the measurement with 400 mutants in November 2026 (10 to 14 %, and 9 to 13 %).
fn check_mutants<P: Payload>(stages: usize, phase: &str, minimum_percent: [u64; 2]) {
    let files = files(stages, phase);
    let kind = STAGES[stages - 1].1;
    // A stage can resume from its own file of an earlier phase.
    let next = if phase.is_empty() { stages } else { stages - 1 };
    let (count, first) = count_and_first();
    let numbers: Vec<u64> = (first..first + count).collect();
    let tally = Tally::default();
    for_each(&numbers, |number| {
        let mut random = Random::new(0x5EED ^ (number + 1) << 20);
        random.below(2);
        let (case, text) = &files[*number as usize % files.len()];
        let text = edited(text, &mut random);
        if File::<P>::read(text.as_bytes(), "mutant").is_err() {
            return Ok(());
        }
        Tally::count(&tally.accepted);
        let outcome = compiled(&text, next).and_then(|ptx| ptx.map(|ptx| compare(&text, kind, &ptx, case)).transpose());
        match outcome {
            Ok(None) => {}
            Ok(Some(Outcome::Same)) => Tally::count(&tally.same),
            Ok(Some(Outcome::Faulty)) => Tally::count(&tally.faulty),
            Ok(Some(Outcome::Undecided)) => Tally::count(&tally.undecided),
            Err(complaint) => {
                let saved = std::env::temp_dir().join(format!("mutant-{phase}{number}.{kind}"));
                std::fs::write(&saved, &text).map_err(|error| error.to_string())?;
                let case = case.file_name().expect("a case has a name").to_string_lossy();
                return Err(format!("mutant {number} of {case}, see {}: {complaint}", saved.display()));
            }
        }
        Ok(())
    });
    let Tally { accepted, same, faulty, undecided } = tally;
    let (accepted, same) = (accepted.into_inner(), same.into_inner());
    let (faulty, undecided) = (faulty.into_inner(), undecided.into_inner());
    println!(
        "of {count} mutants {accepted} were still programs, {same} did the same in PTX, {faulty} were faulty, {undecided} undecided"
    );
    assert!(accepted as u64 >= count * minimum_percent[0] / 100, "only {accepted} of {count} mutants were still programs");
    assert!(
        same as u64 >= count * minimum_percent[1] / 100,
        "only {same} of {count} mutants were executed and did the same in PTX"
    );
}

#[test]
fn edited_aa_files_are_refused_or_lowered() {
    check_mutants::<tileaa::Module>(1, "", [11, 10]);
}

#[test]
fn edited_as_files_are_refused_or_scheduled() {
    check_mutants::<tileas::Module>(2, "", [10, 9]);
}

#[test]
fn edited_sched_files_are_refused_or_emitted() {
    check_mutants::<sched::Module>(3, "", [8, 7]);
}

#[test]
fn edited_schedules_are_refused_or_carried_out() {
    check_mutants::<sched::Module>(3, "analysis", [9, 8]);
}

#[test]
fn edited_placements_are_refused_or_carried_out() {
    check_mutants::<sched::Module>(3, "alloc", [10, 9]);
}
