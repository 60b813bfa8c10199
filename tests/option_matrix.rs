//! Every override option of docs/compiler-decisions.md is either carried out or refused as impossible, for every program. A stage
//! that accepts an option and then rejects its own output has a bug.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{files_below, for_each, root, run};

/// Programs in which every option has something to decide: all kinds of MMA, one loop and several, attention with rows of
/// indices, stores.
const PROGRAMS: &[&str] = &[
    "tests/sched/partition/staged_buffers.aa",
    "tests/sched/partition/signalled.aa",
    "tests/sched/partition/declined.aa",
    "tests/sched/partition/overlap.aa",
    "tests/sched/partition/stores.aa",
    "tests/sched/materialize/tma.aa",
    "tests/lower-as/split_m/attention.aa",
    "tests/run/attention/kernel.tile",
    "tests/run/difference/kernel.tileirbc",
    "tests/run/weighted/kernel.tileirbc",
];
const TARGETS: [&str; 3] = ["sm_90", "sm_100", "sm_120"];
/// Options of `tile-lower-as`, each with the minimum number of program-target pairs, of 30, that accept it: four fifths of the
/// count of November 2026.
const LOWERING: &[(&str, usize)] = &[
    ("--warps=8", 24),
    ("--warps=16", 24),
    ("--occupancy=2", 24),
    ("--occupancy=4", 24),
    ("--tma=on", 24),
    ("--tma=off", 24),
    ("--prefetch=on", 24),
    ("--split-m=on", 12),
    ("--cluster=2", 21),
    ("--clc=on", 16),
    ("--mma=mma", 24),
    ("--mma=tcgen05", 6),
];
/// As above, for `tile-sched`.
const SCHEDULING: &[(&str, usize)] =
    &[("--stages=2", 21), ("--stages=5", 14), ("--roles=off", 24), ("--roles=on", 24), ("--overlap=on", 2)];

/// The exit code of an impossible request.
const UNSUPPORTED: i32 = 3;

#[test]
fn an_option_is_carried_out_or_refused() {
    let all: Vec<(&str, &str)> = PROGRAMS.iter().flat_map(|program| TARGETS.map(|target| (*program, target))).collect();
    let accepted: Mutex<BTreeMap<&str, usize>> = Mutex::default();
    let record = |option: &'static str| *accepted.lock().expect("no test panics here").entry(option).or_default() += 1;
    for_each(&all, |(program, target)| {
        let lowered = lowered(program);
        for option in LOWERING.iter().map(|(option, _)| Some(*option)).chain([None]) {
            let arguments: Vec<&str> = ["--gpu-name", target].into_iter().chain(option).collect();
            let atoms = run("tile-lower-as", &arguments, &lowered);
            let reported = |stage: &str, option: &str, error: &str| format!("{program}, {target}: {stage} {option}: {error}");
            match atoms.code {
                Some(0) => {}
                Some(UNSUPPORTED) => continue,
                _ => return Err(reported("tile-lower-as", option.unwrap_or_default(), &atoms.stderr)),
            }
            for scheduling in SCHEDULING.iter().filter(|_| option.is_none()).map(|(option, _)| Some(*option)).chain([None]) {
                let scheduled = run("tile-sched", scheduling.as_slice(), &atoms.stdout);
                match (scheduled.code, scheduling.or(option)) {
                    (Some(0), Some(option)) => record(option),
                    (Some(0 | UNSUPPORTED), _) => {}
                    _ => {
                        let options = [option, scheduling].into_iter().flatten().collect::<Vec<&str>>().join(" ");
                        return Err(reported("tile-sched", &options, &scheduled.stderr));
                    }
                }
            }
        }
        Ok(())
    });
    let accepted = accepted.into_inner().expect("no test panics here");
    println!("accepted: {accepted:?}");
    let count = |option: &str| accepted.get(option).copied().unwrap_or_default();
    let too_few = LOWERING.iter().chain(SCHEDULING).filter(|(option, least)| count(option) < *least);
    let too_few: Vec<String> =
        too_few.map(|(option, least)| format!("{option} was accepted {} times, not {least}", count(option))).collect();
    assert!(too_few.is_empty(), "of {} programs and targets: {too_few:?}", all.len());
}

/// All targets.
const ALL_TARGETS: [&str; 12] =
    ["sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121"];
/// Folders with kernels of every feature: attention, grouped and gathered matmuls, block scaling, paged loads, persistent loops.
const KERNELS: &[&str] = &["tests/run", "examples/kernels", "tests/lower-as", "tests/sched/partition", "tests/sched/materialize"];
/// Every override option of `tile-lower-as`, and the error codes with which it refuses a request (docs/compiler-decisions.md).
const LOWERING_OVERRIDES: &[(&str, &[&str])] = &[
    ("--warps=1", &[]),
    ("--warps=2", &[]),
    ("--warps=4", &[]),
    ("--warps=8", &[]),
    ("--warps=16", &[]),
    ("--warps=32", &[]),
    ("--occupancy=1", &[]),
    ("--occupancy=4", &[]),
    ("--occupancy=32", &[]),
    ("--cluster=1", &[]),
    ("--cluster=2", &["AS905"]),
    ("--cluster=4", &["AS905"]),
    ("--clc=on", &["AS905"]),
    ("--clc=off", &[]),
    ("--split-m=on", &["AS905"]),
    ("--split-m=off", &[]),
    ("--mma=mma", &["AS905"]),
    ("--mma=wgmma", &["AS905"]),
    ("--mma=tcgen05", &["AS905"]),
    ("--tma=on", &[]),
    ("--tma=off", &[]),
    ("--prefetch=on", &[]),
    ("--prefetch=off", &[]),
];
/// As above, for `tile-sched`.
const SCHEDULING_OVERRIDES: &[(&str, &[&str])] = &[
    ("--stages=1", &[]),
    ("--stages=2", &["SC101"]),
    ("--stages=8", &["SC101"]),
    ("--roles=on", &[]),
    ("--roles=off", &[]),
    ("--overlap=on", &["SC104"]),
    ("--overlap=off", &[]),
    ("--multicast=on", &["SC102"]),
    ("--multicast=off", &[]),
    ("--cta-pairs=on", &["SC103"]),
    ("--cta-pairs=off", &[]),
];
/// Each pair of kernel and target uses every `SAMPLE`th override, which limits the sweep to six minutes with debug tools on two cores.
/// Neighbouring pairs use different overrides, so every option is tested on every target many times.
const SAMPLE: usize = 8;
/// Percent of the pairs of kernel and target that compile at least: fewer would mean that a refusal for types is too broad.
const MIN_COMPILED_PERCENT: usize = 90;
/// Error codes for element types that a target lacks.
const TYPES: &[&str] = &["AS903"];

/// A program that compiles for one target compiles for every target that has its types, at every level and with every override. A
/// stage that cannot use its fast form uses a slower one. Only options that docs/compiler-decisions.md documents as requests may be
/// refused.
#[test]
fn nothing_is_refused_but_types_and_requests() {
    let mut programs: Vec<String> =
        KERNELS.iter().flat_map(|folder| files_below(&root().join(folder))).filter_map(kernel).collect();
    programs.sort();
    assert!(programs.len() > 150, "only {} kernels were found", programs.len());
    let pairs: Vec<(usize, usize)> =
        (0..programs.len()).flat_map(|program| (0..ALL_TARGETS.len()).map(move |target| (program, target))).collect();
    let compiled = AtomicUsize::new(0);
    for_each(&pairs, |&(program_index, target_index)| {
        let (program, target) = (programs[program_index].as_str(), ALL_TARGETS[target_index]);
        let mut refused = Vec::new();
        let mut stage = |name: &str, arguments: &[&str], input: &[u8], codes: &[&str]| -> Option<Vec<u8>> {
            let ran = run(name, arguments, input);
            let is_documented = codes.iter().chain(TYPES).any(|code| ran.stderr.contains(&format!("error[{code}]")));
            match ran.code {
                Some(0) => return Some(ran.stdout),
                Some(UNSUPPORTED) if is_documented => {}
                _ => refused.push(format!("{program}, {target}: {name} {}: {}", arguments.join(" "), ran.stderr.trim())),
            }
            None
        };
        let sample = program_index * 5 + target_index * 3;
        // A fixture in `.aa` has one level. Each pair tests one lower level, and each level gets four targets.
        let level = ["-O0", "-O1", "-O2"][(program_index + target_index) % 3];
        if !program.ends_with(".aa")
            && let Some(atoms) = stage("tile-lower-as", &["--gpu-name", target], &lowered_at(program, level), &[])
        {
            stage("tile-sched", &[], &atoms, &[]);
        }
        let lowered = lowered(program);
        if let Some(atoms) = stage("tile-lower-as", &["--gpu-name", target], &lowered, &[]) {
            let scheduled = stage("tile-sched", &[], &atoms, &[]);
            compiled.fetch_add(usize::from(scheduled.is_some()), Ordering::Relaxed);
            if let Some(scheduled) = scheduled.filter(|_| sample.is_multiple_of(SAMPLE)) {
                stage("tile-ptx", &[], &scheduled, &[]);
            }
            for (index, (option, codes)) in LOWERING_OVERRIDES.iter().enumerate() {
                if (sample + index).is_multiple_of(SAMPLE)
                    && let Some(atoms) = stage("tile-lower-as", &["--gpu-name", target, option], &lowered, codes)
                {
                    stage("tile-sched", &[], &atoms, &[]);
                }
            }
            for (index, (option, codes)) in SCHEDULING_OVERRIDES.iter().enumerate() {
                if (sample + index).is_multiple_of(SAMPLE) {
                    stage("tile-sched", &[option], &atoms, codes);
                }
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.join("\n")) }
    });
    let (compiled, all) = (compiled.into_inner(), pairs.len());
    println!("{compiled} of {all} pairs of kernel and target compile");
    assert!(compiled * 100 >= all * MIN_COMPILED_PERCENT, "only {compiled} of {all} pairs compile; the others lack types");
}

/// The path of a kernel below the root; None for other files.
fn kernel(path: PathBuf) -> Option<String> {
    let is_kernel = ["tile", "tileirbc", "aa"].map(Some).contains(&path.extension().and_then(|extension| extension.to_str()));
    let path = path.strip_prefix(root()).ok()?.to_str()?.to_string();
    is_kernel.then_some(path)
}

/// A program as `.aa`.
fn lowered(program: &str) -> Vec<u8> {
    lowered_at(program, "-O3")
}

fn lowered_at(program: &str, level: &str) -> Vec<u8> {
    let text = std::fs::read(root().join(program)).unwrap_or_else(|error| panic!("{program}: {error}"));
    let read = if program.ends_with(".tileirbc") { run("tile-read", &["-"], &text).ok(program) } else { text };
    if program.ends_with(".aa") {
        return read;
    }
    run("tile-lower-aa", &[level], &read).ok(program)
}
