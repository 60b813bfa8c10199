//! What a user decides with options (docs/decisions.md) is carried out or refused as something that cannot be, whatever the program: a
//! stage that takes an option and then finds fault with what itself made of it has a bug.

use std::collections::BTreeMap;
use std::sync::Mutex;
use tests::{for_each, root, run};

/// Programs with everything that options decide about: products of all kinds, one loop and several, rows of attention, stores.
const PROGRAMS: &[&str] = &[
    "tests/sched/partition/rings.aa",
    "tests/sched/partition/told.aa",
    "tests/sched/partition/declined.aa",
    "tests/sched/partition/overlap.aa",
    "tests/sched/partition/stores.aa",
    "tests/sched/materialize/boxes.aa",
    "tests/lower-as/halves/attention.aa",
    "tests/run/attention/kernel.tile",
    "tests/run/difference/kernel.tileirbc",
    "tests/run/weighted/kernel.tileirbc",
];
const TARGETS: [&str; 3] = ["sm_90", "sm_100", "sm_120"];
/// Options of `tile-lower-as`, each with how many of the 30 pairs of a program and a target take it at least: four fifths of the
/// count of November 2026.
const LOWERING: &[(&str, usize)] = &[
    ("--warps=8", 24),
    ("--warps=16", 24),
    ("--occupancy=2", 24),
    ("--occupancy=4", 24),
    ("--tma=on", 24),
    ("--tma=off", 24),
    ("--prefetch=on", 24),
    ("--halves=on", 12),
    ("--cluster=2", 21),
    ("--launch-control=on", 16),
    ("--products=mma", 24),
    ("--products=tcgen05", 6),
];
/// The same of `tile-sched`.
const SCHEDULING: &[(&str, usize)] =
    &[("--stages=2", 21), ("--stages=5", 14), ("--agents=off", 24), ("--agents=on", 24), ("--overlap=on", 2)];

/// The exit code of what cannot be.
const UNSUPPORTED: i32 = 3;

#[test]
fn an_option_is_carried_out_or_refused() {
    let all: Vec<(&str, &str)> = PROGRAMS.iter().flat_map(|program| TARGETS.map(|target| (*program, target))).collect();
    let taken: Mutex<BTreeMap<&str, usize>> = Mutex::default();
    let take = |option: &'static str| *taken.lock().expect("no test panics here").entry(option).or_default() += 1;
    for_each(&all, |(program, target)| {
        let lowered = lowered(program);
        for option in LOWERING.iter().map(|(option, _)| Some(*option)).chain([None]) {
            let arguments: Vec<&str> = ["--gpu-name", target].into_iter().chain(option).collect();
            let atoms = run("tile-lower-as", &arguments, &lowered);
            let said = |stage: &str, option: &str, error: &str| format!("{program}, {target}: {stage} {option}: {error}");
            match atoms.code {
                Some(0) => {}
                Some(UNSUPPORTED) => continue,
                _ => return Err(said("tile-lower-as", option.unwrap_or_default(), &atoms.stderr)),
            }
            for scheduling in SCHEDULING.iter().filter(|_| option.is_none()).map(|(option, _)| Some(*option)).chain([None]) {
                let scheduled = run("tile-sched", scheduling.as_slice(), &atoms.stdout);
                match (scheduled.code, scheduling.or(option)) {
                    (Some(0), Some(option)) => take(option),
                    (Some(0 | UNSUPPORTED), _) => {}
                    _ => {
                        let options = [option, scheduling].into_iter().flatten().collect::<Vec<&str>>().join(" ");
                        return Err(said("tile-sched", &options, &scheduled.stderr));
                    }
                }
            }
        }
        Ok(())
    });
    let taken = taken.into_inner().expect("no test panics here");
    println!("taken: {taken:?}");
    let count = |option: &str| taken.get(option).copied().unwrap_or_default();
    let fewer = LOWERING.iter().chain(SCHEDULING).filter(|(option, least)| count(option) < *least);
    let fewer: Vec<String> =
        fewer.map(|(option, least)| format!("{option} was taken {} times, not {least}", count(option))).collect();
    assert!(fewer.is_empty(), "of {} programs and targets: {fewer:?}", all.len());
}

/// A program as `.aa`.
fn lowered(program: &str) -> Vec<u8> {
    let text = std::fs::read(root().join(program)).unwrap_or_else(|error| panic!("{program}: {error}"));
    let read = if program.ends_with(".tileirbc") { run("tile-read", &["-"], &text).ok(program) } else { text };
    if program.ends_with(".aa") {
        return read;
    }
    run("tile-lower-aa", &["-O3"], &read).ok(program)
}
