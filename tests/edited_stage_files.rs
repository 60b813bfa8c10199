//! Tests of stage files with random edits. If the verifier accepts an edited file and the later stages compile it, its PTX must
//! compute the results that `tile-run` computes for the edited file. No tool may end by a panic (exit code 101) or a signal.
//!
//! An edit can produce an invalid program: the program reads out of bounds, or two threads write one element. If `tile-run --check`
//! reports such a fault, the PTX may compute any result. If the fault is a race in a `.sched` file, `tile-sim` must report it too.
//!
//! The edited files are the stage files of the kernels in `tests/run`. An edit changes a name, type, number, layout or line of the
//! text. The mutants are the same in every run, and each is a case: `sched/17`. `TILEWORKS_MUTANTS` sets the number of mutants per
//! format and the number of the first mutant.

use base::{File, Payload};
use fuzz_targets::mutate::{Random, edit_text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::compare::ExpectedOutputs;
use tests::suite::{CaseResult, Suite};
use tests::{Memo, RunResult, root, run, subfolders, temporary_folder};

/// The number of mutants per format, unless `TILEWORKS_MUTANTS` sets another number.
const MUTANTS: u64 = 400;

/// The codes with which `tile-run` reports data races in `.sched` files.
const RACES: [&str; 2] = ["RUN077", "RUN078"];

/// The stages after `tile-read`, each with the format that it writes.
const STAGES: [(&str, &str); 4] = [("tile-lower-aa", "aa"), ("tile-lower-as", "as"), ("tile-sched", "sched"), ("tile-ptx", "ptx")];

/// A kernel of `tests/run`, for a target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    case: PathBuf,
    target: &'static str,
}

/// The programs whose stage files are edited. From the second stage on, files depend on the target, so each kernel has two
/// programs.
fn programs_of_format(stage_count: usize) -> Vec<Program> {
    let compiles_for = |case: &Path, target: &str| match std::fs::read_to_string(case.join("targets")) {
        Ok(listed) => listed.lines().any(|line| line == target),
        Err(_) => true,
    };
    let targets: &[&str] = if stage_count > 1 { &["sm_80", "sm_120"] } else { &["sm_80"] };
    let mut programs = Vec::new();
    for case in subfolders(&root().join("tests/run")) {
        let targets = targets.iter().filter(|target| compiles_for(&case, target));
        programs.extend(targets.map(|target| Program { case: case.clone(), target }));
    }
    programs
}

impl Program {
    /// The stage file after the first `stage_count` of `STAGES`.
    fn lowered(&self, stage_count: usize) -> Arc<Vec<u8>> {
        static FILES: Memo<(Program, usize), Arc<Vec<u8>>> = Memo::new();
        FILES.get((self.clone(), stage_count), || {
            let Some(previous) = stage_count.checked_sub(1) else { return Arc::new(self.read()) };
            let tool = STAGES[previous].0;
            Arc::new(run(tool, &arguments(tool, self.target), &self.lowered(previous)).ok(tool))
        })
    }

    fn read(&self) -> Vec<u8> {
        let text = self.case.join("kernel.tile");
        let program = if text.is_file() { text } else { self.case.join("kernel.tileirbc") };
        run("tile-read", &[&program], b"").ok(&program.display().to_string())
    }

    /// The stage file of a format as text. If the format has a phase, the last stage stops after this phase.
    fn text(&self, format: &Format) -> Arc<str> {
        static TEXTS: Memo<(Program, &str), Arc<str>> = Memo::new();
        TEXTS.get((self.clone(), format.name), || {
            let tool = STAGES[format.stage_count - 1].0;
            let mut arguments = arguments(tool, self.target);
            arguments.push("--format=text");
            arguments.extend((!format.phase.is_empty()).then_some(["--stop-after", format.phase]).into_iter().flatten());
            let text = run(tool, &arguments, &self.lowered(format.stage_count - 1)).ok(tool);
            String::from_utf8(text).expect("text is UTF-8").into()
        })
    }
}

/// The arguments of a stage. Only `tile-lower-as` has the target as an argument; later files contain the target.
fn arguments<'a>(tool: &str, target: &'a str) -> Vec<&'a str> {
    if tool == "tile-lower-as" { vec!["--gpu-name", target] } else { Vec::new() }
}

/// The number of mutants, and the number of the first mutant.
fn mutant_range() -> (u64, u64) {
    let Ok(text) = std::env::var("TILEWORKS_MUTANTS") else { return (MUTANTS, 0) };
    let mut numbers = text.split(',').map(|number| number.parse().expect("TILEWORKS_MUTANTS is a count, or count,first"));
    (numbers.next().unwrap_or(MUTANTS), numbers.next().unwrap_or(0))
}

/// Executes a file on the launch of a case, with a time limit.
fn execute(tool: &str, options: &[&str], file: &Path, case: &Path, out: &Path) -> RunResult {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_string();
    let launch = path(&case.join("launch.json"));
    let arguments = [&path(file), "--launch", &launch, "--out-dir", &path(out), "--max-time=5"];
    run(tool, &[&arguments[..], options].concat(), b"")
}

/// The outcome of the comparison of a mutant with its PTX.
enum Fate {
    /// The PTX computes the same results as the mutant.
    Equal,
    /// `tile-run` reports a fault of the mutant, so the results are not compared.
    Faulty,
    /// No verdict: an executor does not support the mutant or reached a limit.
    Undecided,
}

/// Executes a mutant and its PTX, and compares the outputs. An error describes a difference that must not occur.
fn compare_with_ptx(mutant: &str, kind: &str, ptx: &[u8], case: &Path) -> Result<Fate, String> {
    let folder = temporary_folder();
    let path_of = |name: &str| folder.path().join(name);
    let (file, ptx_file) = (path_of("mutant").with_extension(kind), path_of("mutant.ptx"));
    std::fs::write(&file, mutant).map_err(|error| error.to_string())?;
    std::fs::write(&ptx_file, ptx).map_err(|error| error.to_string())?;
    let ran = execute("tile-run", &["--check", "--max-ops=200000"], &file, case, &path_of("run"));
    let sim = execute("tile-sim", &["--races=error", "--delivery=late"], &ptx_file, case, &path_of("sim"));
    for (tool, ran) in [("tile-run", &ran), ("tile-sim", &sim)] {
        if !matches!(ran.code, Some(0..=4)) {
            return Err(format!("{tool} ends with {:?}: {}", ran.code, ran.stderr.trim()));
        }
    }
    match (ran.code, sim.code) {
        (Some(0), Some(0)) => ExpectedOutputs::read(case).compare_runs(&path_of("run"), &path_of("sim")).map(|()| Fate::Equal),
        (Some(0), Some(1)) => Err(format!("tile-sim alone finds a fault: {}", sim.stderr.trim())),
        (Some(1), Some(0)) if kind == "sched" && RACES.iter().any(|race| ran.stderr.contains(race)) => {
            Err(format!("tile-run alone finds a race: {}", ran.stderr.trim()))
        }
        (Some(1), _) => Ok(Fate::Faulty),
        _ => Ok(Fate::Undecided),
    }
}

/// Counts of mutants: those that the verifier accepts, and those with each [`Fate`]. An accepted mutant has no fate if a stage
/// refuses it.
#[derive(Default)]
struct Tally {
    accepted: AtomicUsize,
    equal: AtomicUsize,
    faulty: AtomicUsize,
    undecided: AtomicUsize,
}

impl Tally {
    fn count(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Compiles a mutant to PTX with `STAGES[next_stage..]`. Returns None if a stage refuses the mutant, and an error if a stage ends
/// by a panic or a signal.
fn compile_mutant(text: &str, next_stage: usize) -> Result<Option<Vec<u8>>, String> {
    let mut file = text.as_bytes().to_vec();
    for (tool, _) in &STAGES[next_stage..] {
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

/// A format of stage files whose mutants are tested.
struct Format {
    /// The first part of the names of the cases.
    name: &'static str,
    /// The number of stages that produce the file.
    stage_count: usize,
    /// The phase of the last stage after which it writes the file. Empty if the stage runs to its end.
    phase: &'static str,
    /// Two minimum percentages of all mutants: the mutants that the verifier accepts, and the mutants whose PTX computes the
    /// same results. Each minimum is about four fifths of the percentage that 400 mutants had in November 2026 (10 to 14 %, and 9
    /// to 13 %).
    min_percent: [usize; 2],
    is_valid: fn(&str) -> bool,
}

/// Whether the reader and the verifier of a format accept a text.
fn is_valid<P: Payload>(text: &str) -> bool {
    File::<P>::read(text.as_bytes(), "mutant").is_ok()
}

/// The edited formats and phases.
static FORMATS: [Format; 5] = [
    Format { name: "aa", stage_count: 1, phase: "", min_percent: [11, 10], is_valid: is_valid::<tileaa::Module> },
    Format { name: "as", stage_count: 2, phase: "", min_percent: [10, 9], is_valid: is_valid::<tileas::Module> },
    Format { name: "sched", stage_count: 3, phase: "", min_percent: [8, 7], is_valid: is_valid::<sched::Module> },
    Format { name: "analysis", stage_count: 3, phase: "analysis", min_percent: [9, 8], is_valid: is_valid::<sched::Module> },
    Format { name: "alloc", stage_count: 3, phase: "alloc", min_percent: [10, 9], is_valid: is_valid::<sched::Module> },
];

impl Format {
    fn check(&self, program: &Program, number: u64, tally: &Tally) -> CaseResult {
        let kind = STAGES[self.stage_count - 1].1;
        // `tile-sched` reads its own output of an earlier phase and runs the remaining phases.
        let next_stage = if self.phase.is_empty() { self.stage_count } else { self.stage_count - 1 };
        let mut random = Random::new(0x5EED ^ (number + 1) << 20);
        random.below(2);
        let text = edit_text(&program.text(self), &mut random);
        if !(self.is_valid)(&text) {
            return Ok(());
        }
        Tally::count(&tally.accepted);
        let fate = compile_mutant(&text, next_stage)
            .and_then(|ptx| ptx.map(|ptx| compare_with_ptx(&text, kind, &ptx, &program.case)).transpose());
        match fate {
            Ok(None) => {}
            Ok(Some(Fate::Equal)) => Tally::count(&tally.equal),
            Ok(Some(Fate::Faulty)) => Tally::count(&tally.faulty),
            Ok(Some(Fate::Undecided)) => Tally::count(&tally.undecided),
            Err(complaint) => {
                let mutant_file = std::env::temp_dir().join(format!("mutant-{}{number}.{kind}", self.name));
                std::fs::write(&mutant_file, &text).map_err(|error| error.to_string())?;
                return Err(format!("{}, see {}: {complaint}", program.case.display(), mutant_file.display()));
            }
        }
        Ok(())
    }

    /// Checks that the verifier accepts enough mutants, and that enough mutants compute the same results in PTX.
    fn check_tally(&self, tally: &Tally, count: usize) -> CaseResult {
        let [accepted, equal, faulty, undecided] =
            [&tally.accepted, &tally.equal, &tally.faulty, &tally.undecided].map(|counter| counter.load(Ordering::Relaxed));
        println!(
            "{}: of {count} mutants {accepted} were still programs, {equal} did the same in PTX, {faulty} were faulty, {undecided} undecided",
            self.name
        );
        if accepted * 100 >= count * self.min_percent[0] && equal * 100 >= count * self.min_percent[1] {
            return Ok(());
        }
        Err(format!("at least {} % must be programs, and {} % do the same in PTX", self.min_percent[0], self.min_percent[1]))
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let (count, first) = mutant_range();
    for format in &FORMATS {
        let (programs, tally) = (programs_of_format(format.stage_count), Arc::new(Tally::default()));
        assert!(programs.len() > 10, "only {} examples", programs.len());
        for number in first..first + count {
            let program = programs[number as usize % programs.len()].clone();
            let tally = Arc::clone(&tally);
            suite.case(format!("{}/{number}", format.name), move || format.check(&program, number, &tally));
        }
        suite.summary(format.name, move || format.check_tally(&tally, count as usize));
    }
    suite.run()
}
