//! Stage files edited at random. Either the verifier refuses an edited file, or the later stages accept it and their output behaves
//! as `tile-run` predicts for the edited file. No tool may end by a panic (exit code 101) or a signal.
//!
//! An edit can produce a program that is wrong in itself: it reads out of bounds, or two threads write one element. `tile-run
//! --check` reports that, and then any result is allowed. A race in a `.sched` file must be reported in the PTX too.
//!
//! The files are the examples of `tests/run`, lowered and printed. An edit changes a name, type, number, layout or line of the
//! text. The mutants are the same in every run, and each is a case: `sched/17`. `TILEWORKS_MUTANTS` sets their number per format and
//! the first one.

use base::{File, Payload};
use fuzz_targets::mutate::{Random, edited};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::compare::Expect;
use tests::suite::{Checked, Suite};
use tests::{Memo, Ran, folders, root, run, temporary};

/// Mutants per format in the test command.
const MUTANTS: u64 = 400;

/// The error codes of shared-memory races in `tile-run`.
const RACES: [&str; 2] = ["RUN077", "RUN078"];

/// The stages after `.tile`, with the format that each writes.
const STAGES: [(&str, &str); 4] = [("tile-lower-aa", "aa"), ("tile-lower-as", "as"), ("tile-sched", "sched"), ("tile-ptx", "ptx")];

/// A kernel of `tests/run`, for a target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    case: PathBuf,
    target: &'static str,
}

/// The programs of a format, for two targets if the format names one.
fn programs(stages: usize) -> Vec<Program> {
    let compiles_for = |case: &Path, target: &str| match std::fs::read_to_string(case.join("targets")) {
        Ok(listed) => listed.lines().any(|line| line == target),
        Err(_) => true,
    };
    let targets: &[&str] = if stages > 1 { &["sm_80", "sm_120"] } else { &["sm_80"] };
    let mut programs = Vec::new();
    for case in folders(&root().join("tests/run")) {
        let targets = targets.iter().filter(|target| compiles_for(&case, target));
        programs.extend(targets.map(|target| Program { case: case.clone(), target }));
    }
    programs
}

impl Program {
    /// The file after this number of stages.
    fn lowered(&self, stages: usize) -> Arc<Vec<u8>> {
        static FILES: Memo<(Program, usize), Arc<Vec<u8>>> = Memo::new();
        FILES.get((self.clone(), stages), || {
            let Some(previous) = stages.checked_sub(1) else { return Arc::new(self.read()) };
            let tool = STAGES[previous].0;
            Arc::new(run(tool, &arguments(tool, self.target), &self.lowered(previous)).ok(tool))
        })
    }

    fn read(&self) -> Vec<u8> {
        let text = self.case.join("kernel.tile");
        let program = if text.is_file() { text } else { self.case.join("kernel.tileirbc") };
        run("tile-read", &[&program], b"").ok(&program.display().to_string())
    }

    /// The file of a format as text. The last stage stops after the phase, if one is given.
    fn text(&self, format: &Format) -> Arc<str> {
        static TEXTS: Memo<(Program, &str), Arc<str>> = Memo::new();
        TEXTS.get((self.clone(), format.name), || {
            let tool = STAGES[format.stages - 1].0;
            let mut arguments = arguments(tool, self.target);
            arguments.push("--format=text");
            arguments.extend((!format.phase.is_empty()).then_some(["--stop-after", format.phase]).into_iter().flatten());
            let text = run(tool, &arguments, &self.lowered(format.stages - 1)).ok(tool);
            String::from_utf8(text).expect("text is UTF-8").into()
        })
    }
}

fn arguments<'a>(tool: &str, target: &'a str) -> Vec<&'a str> {
    if tool == "tile-lower-as" { vec!["--gpu-name", target] } else { Vec::new() }
}

/// The number of mutants, and the number of the first.
fn amount() -> (u64, u64) {
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
enum Fate {
    Alike,
    /// The mutant itself is wrong; `tile-run` reports how.
    Faulty,
    /// The executor does not support the mutant, or hit its limit.
    Undecided,
}

/// Checks that the PTX computes the same as the mutant.
fn compare(mutant: &str, kind: &str, ptx: &[u8], case: &Path) -> Result<Fate, String> {
    let folder = temporary();
    let place = |name: &str| folder.path().join(name);
    let (file, compiled) = (place("mutant").with_extension(kind), place("mutant.ptx"));
    std::fs::write(&file, mutant).map_err(|error| error.to_string())?;
    std::fs::write(&compiled, ptx).map_err(|error| error.to_string())?;
    let ran = execute("tile-run", &["--check", "--max-ops=200000"], &file, case, &place("run"));
    let sim = execute("tile-sim", &["--races=error", "--delivery=late"], &compiled, case, &place("sim"));
    for (tool, ran) in [("tile-run", &ran), ("tile-sim", &sim)] {
        if !matches!(ran.code, Some(0..=4)) {
            return Err(format!("{tool} ends with {:?}: {}", ran.code, ran.stderr.trim()));
        }
    }
    match (ran.code, sim.code) {
        (Some(0), Some(0)) => Expect::read(case).check_alike(&place("run"), &place("sim")).map(|()| Fate::Alike),
        (Some(0), Some(1)) => Err(format!("tile-sim alone finds a fault: {}", sim.stderr.trim())),
        (Some(1), Some(0)) if kind == "sched" && RACES.iter().any(|race| ran.stderr.contains(race)) => {
            Err(format!("tile-run alone finds a race: {}", ran.stderr.trim()))
        }
        (Some(1), _) => Ok(Fate::Faulty),
        _ => Ok(Fate::Undecided),
    }
}

/// The number of mutants by outcome.
#[derive(Default)]
struct Tally {
    taken: AtomicUsize,
    alike: AtomicUsize,
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

/// A stage file, and the phase of the last stage after which it is taken.
struct Format {
    name: &'static str,
    stages: usize,
    phase: &'static str,
    /// The minimum percentages of mutants that still are programs, and of those with equal results in PTX. Each is about four
    /// fifths of the measurement with 400 mutants in November 2026 (10 to 14 %, and 9 to 13 %).
    least: [usize; 2],
    accepts: fn(&str) -> bool,
}

fn accepts<P: Payload>(text: &str) -> bool {
    File::<P>::read(text.as_bytes(), "mutant").is_ok()
}

static FORMATS: [Format; 5] = [
    Format { name: "aa", stages: 1, phase: "", least: [11, 10], accepts: accepts::<tileaa::Module> },
    Format { name: "as", stages: 2, phase: "", least: [10, 9], accepts: accepts::<tileas::Module> },
    Format { name: "sched", stages: 3, phase: "", least: [8, 7], accepts: accepts::<sched::Module> },
    Format { name: "analysis", stages: 3, phase: "analysis", least: [9, 8], accepts: accepts::<sched::Module> },
    Format { name: "alloc", stages: 3, phase: "alloc", least: [10, 9], accepts: accepts::<sched::Module> },
];

impl Format {
    fn check(&self, program: &Program, number: u64, tally: &Tally) -> Checked {
        let kind = STAGES[self.stages - 1].1;
        // A stage can resume from its own file of an earlier phase.
        let next = if self.phase.is_empty() { self.stages } else { self.stages - 1 };
        let mut random = Random::new(0x5EED ^ (number + 1) << 20);
        random.below(2);
        let text = edited(&program.text(self), &mut random);
        if !(self.accepts)(&text) {
            return Ok(());
        }
        Tally::count(&tally.taken);
        let fate = compiled(&text, next).and_then(|ptx| ptx.map(|ptx| compare(&text, kind, &ptx, &program.case)).transpose());
        match fate {
            Ok(None) => {}
            Ok(Some(Fate::Alike)) => Tally::count(&tally.alike),
            Ok(Some(Fate::Faulty)) => Tally::count(&tally.faulty),
            Ok(Some(Fate::Undecided)) => Tally::count(&tally.undecided),
            Err(complaint) => {
                let kept = std::env::temp_dir().join(format!("mutant-{}{number}.{kind}", self.name));
                std::fs::write(&kept, &text).map_err(|error| error.to_string())?;
                return Err(format!("{}, see {}: {complaint}", program.case.display(), kept.display()));
            }
        }
        Ok(())
    }

    /// Enough edits leave a program.
    fn check_tally(&self, tally: &Tally, count: usize) -> Checked {
        let [taken, alike, faulty, undecided] =
            [&tally.taken, &tally.alike, &tally.faulty, &tally.undecided].map(|counter| counter.load(Ordering::Relaxed));
        println!(
            "{}: of {count} mutants {taken} were still programs, {alike} did the same in PTX, {faulty} were faulty, {undecided} undecided",
            self.name
        );
        if taken * 100 >= count * self.least[0] && alike * 100 >= count * self.least[1] {
            return Ok(());
        }
        Err(format!("at least {} % must be programs, and {} % do the same in PTX", self.least[0], self.least[1]))
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let (count, first) = amount();
    for format in &FORMATS {
        let (programs, tally) = (programs(format.stages), Arc::new(Tally::default()));
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
