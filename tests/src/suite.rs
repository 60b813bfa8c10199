//! A test harness in which each case is a trial with a name of its own: `cargo test --workspace --test SUITE -- PART_OF_A_NAME`.
//!
//! A suite is a test target without libtest (`harness = false`). The name of a case is a path, for example `sched/alloc/read_on`.
//! The usual options of libtest work: a filter, `--exact`, `--skip`, `--list`, `--test-threads`. Two variables serve scripts:
//! `TILEWORKS_TEST_SHARD=1/4` selects a quarter of the cases by their names. `TILEWORKS_TEST_TIMES=FOLDER` makes the suite write
//! `FOLDER/SUITE.tsv` with the seconds of each case.

use crate::need::Need;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The result of a case. An error is the message of the failure.
pub type CaseResult = Result<(), String>;

/// A check of the results that all cases recorded. It runs after the cases.
struct Summary {
    name: &'static str,
    check: Box<dyn FnOnce() -> CaseResult>,
}

/// The cases of one test target.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
    summaries: Vec<Summary>,
    times: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Suite {
    pub fn new() -> Suite {
        Suite::default()
    }

    /// Adds a case.
    pub fn case(&mut self, name: impl Into<String>, check: impl FnOnce() -> CaseResult + Send + 'static) {
        self.case_with(&[], name, check);
    }

    /// Adds a case that is skipped, with the reason, if the machine lacks a needed program.
    pub fn case_with(
        &mut self,
        needs: &'static [Need],
        name: impl Into<String>,
        check: impl FnOnce() -> CaseResult + Send + 'static,
    ) {
        let name = name.into();
        let (times, timed_name) = (Arc::clone(&self.times), name.clone());
        self.trials.push(Trial::ignorable_test(name, move || {
            if let Some(reason) = crate::need::missing_program(needs)? {
                return Ok(Completion::ignored_with(reason));
            }
            let start = Instant::now();
            let result = check();
            times.lock().expect("no thread panics while it notes a time").push((timed_name, start.elapsed()));
            result.map(|()| Completion::Completed).map_err(Failed::from)
        }));
    }

    /// Adds a case for each function. The name of a case is `prefix` and the function's name; a panic is a failure. The macro
    /// `tests!` generates `functions`.
    pub fn functions(&mut self, prefix: &str, functions: &[(&'static str, fn())]) {
        self.functions_with(&[], prefix, functions);
    }

    /// As `functions`, for test functions that are skipped if the machine lacks a needed program.
    pub fn functions_with(&mut self, needs: &'static [Need], prefix: &str, functions: &[(&'static str, fn())]) {
        for (name, function) in functions {
            let function = *function;
            self.case_with(needs, format!("{prefix}{name}"), move || {
                function();
                Ok(())
            });
        }
    }

    /// Adds a check of results that the cases recorded. It runs after the cases, if all of them ran and passed.
    pub fn summary(&mut self, name: &'static str, check: impl FnOnce() -> CaseResult + 'static) {
        self.summaries.push(Summary { name, check: Box::new(check) });
    }

    /// Runs the cases that the command line selects.
    pub fn run(mut self) -> ExitCode {
        let arguments = Arguments::from_args();
        let shard = std::env::var("TILEWORKS_TEST_SHARD").ok();
        if let Some(shard) = &shard {
            let Some(shard) = Shard::parse(shard) else {
                eprintln!("error: TILEWORKS_TEST_SHARD is 'NUMBER/COUNT', for example 1/4, not '{shard}'");
                return ExitCode::from(2);
            };
            self.trials.retain(|trial| shard.contains(trial.name()));
        }
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        write_times(&self.times.lock().expect("no thread panics while it notes a time"));
        let all_passed = !conclusion.has_failed() && conclusion.num_filtered_out == 0 && conclusion.num_ignored == 0;
        let mut code = conclusion.exit_code();
        if !arguments.list && all_passed && shard.is_none() {
            for Summary { name, check } in self.summaries {
                match check() {
                    Ok(()) => println!("summary {name} ... ok"),
                    Err(complaint) => {
                        println!("summary {name} ... FAILED\n{complaint}");
                        code = ExitCode::from(101);
                    }
                }
            }
        }
        code
    }
}

/// The names and functions of tests, for `Suite::functions`. A function that no list names is dead code, which a lint rejects.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

/// A subset of the cases: the shard `number` of `count`, from 1. The hash of a case's name selects its shard.
struct Shard {
    number: u64,
    count: u64,
}

impl Shard {
    fn parse(text: &str) -> Option<Shard> {
        let (number, count) = text.split_once('/')?;
        let (number, count) = (number.parse().ok()?, count.parse().ok()?);
        (1..=count).contains(&number).then_some(Shard { number, count })
    }

    /// Whether the shard contains a case. Only the name decides, so a new case does not move other cases to another shard.
    fn contains(&self, name: &str) -> bool {
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (hash >> 16) % self.count == self.number - 1
    }
}

/// Writes the seconds of each case, the slowest first, into the folder of `TILEWORKS_TEST_TIMES`.
fn write_times(times: &[(String, Duration)]) {
    let Some(folder) = std::env::var_os("TILEWORKS_TEST_TIMES") else { return };
    let executable = std::env::current_exe().expect("a test knows where it is");
    let name = executable.file_stem().expect("an executable has a name").to_string_lossy().into_owned();
    // Cargo appends a hash.
    let suite = name.rsplit_once('-').map_or(name.as_str(), |(suite, _)| suite);
    let mut times = times.to_vec();
    times.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let mut text = String::new();
    for (case, time) in times {
        writeln!(text, "{:.2}\t{case}", time.as_secs_f64()).expect("a string takes text");
    }
    let path = std::path::Path::new(&folder).join(format!("{suite}.tsv"));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, text))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Maximum number of lines of a diff that a failing case prints.
const DIFF_LINES: usize = 100;

/// The difference between an expected and an actual text, as a unified diff. A long diff is cut off after `DIFF_LINES` lines.
pub fn unified_diff(expected: &str, got: &str) -> String {
    let diff = similar::TextDiff::from_lines(expected, got);
    let text = diff.unified_diff().context_radius(3).header("expected", "got").to_string();
    let lines = text.lines().count();
    if lines <= DIFF_LINES {
        return text;
    }
    let first_lines: Vec<&str> = text.lines().take(DIFF_LINES).collect();
    format!("{}\n... {} more lines\n", first_lines.join("\n"), lines - DIFF_LINES)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn shards_contain_each_case_once() {
        let names: Vec<String> = (0..1000).map(|number| format!("a/case_{number}")).collect();
        for name in &names {
            let shard_count = (1..=4).filter(|number| Shard { number: *number, count: 4 }.contains(name)).count();
            assert_eq!(shard_count, 1, "{name}");
        }
        let first = names.iter().filter(|name| Shard { number: 1, count: 4 }.contains(name)).count();
        assert!((200..300).contains(&first), "the first shard has {first} of 1000 cases");
        assert!(["0/4", "5/4", "1", "a/b", "1/0"].iter().all(|text| Shard::parse(text).is_none()));
    }

    #[test]
    fn a_long_diff_is_cut_off() {
        let diff = unified_diff("a\nb\n", "a\nc\n");
        assert!(diff.contains("\n-b\n+c\n"), "{diff}");
        let long: String = (0..1000).map(|number| format!("{number}\n")).collect();
        let diff = unified_diff("", &long);
        assert_eq!(diff.lines().count(), DIFF_LINES + 1);
        assert!(diff.ends_with("more lines\n"), "{diff}");
    }
}
