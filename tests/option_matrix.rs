//! Tests of every override option of docs/compiler-decisions.md on many programs. The stages must either compile a program with the
//! option, or refuse the option as impossible. A stage that accepts an option and then rejects its own output has a bug.
//!
//! A case is a program for a target: `requested/differential_attention/sm_90`, `all/run/vadd/sm_120`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::suite::{CaseResult, Suite};
use tests::{Memo, files_below, root, run, tests};

/// Programs of the cases `requested/`. They contain all constructs that the options affect: MMAs, one or several loops, attention,
/// and stores.
const PROGRAMS: &[&str] = &[
    "tests/kernels/staged_buffers.aa",
    "tests/kernels/signalled.aa",
    "tests/kernels/declined.aa",
    "tests/kernels/overlap.aa",
    "tests/kernels/stores.aa",
    "tests/kernels/tma.aa",
    "tests/lower-as/split_m/attention.aa",
    "tests/run/attention/kernel.tile",
    "tests/run/differential_attention/kernel.tileirbc",
    "tests/run/relu_attention/kernel.tileirbc",
];
const TARGETS: [&str; 3] = ["sm_90", "sm_100", "sm_120"];
/// Options of `tile-lower-as`, each with the minimum number of program-target pairs, of 30, that accept it: four fifths of the
/// count of November 2026.
const REQUESTED_LOWERING_OPTIONS: &[(&str, usize)] = &[
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
/// Options of `tile-sched`, each with its minimum as in `REQUESTED_LOWERING_OPTIONS`.
const REQUESTED_SCHEDULING_OPTIONS: &[(&str, usize)] =
    &[("--stages=2", 21), ("--stages=5", 14), ("--roles=off", 24), ("--roles=on", 24), ("--overlap=on", 2)];

/// The exit code of a stage that refuses an option as impossible.
const UNSUPPORTED: i32 = 3;

/// For each option, the number of program-target pairs that accepted it.
static ACCEPTED: Mutex<BTreeMap<&str, usize>> = Mutex::new(BTreeMap::new());

/// Checks that the stages compile a program with each option of `REQUESTED_LOWERING_OPTIONS` and `REQUESTED_SCHEDULING_OPTIONS`, or
/// refuse the option as impossible.
fn check_requests(program: &str, target: &str) -> CaseResult {
    let accept = |option: &'static str| *ACCEPTED.lock().expect("no case panics while it counts").entry(option).or_default() += 1;
    let lowered = lowered_to_aa(program);
    for option in REQUESTED_LOWERING_OPTIONS.iter().map(|(option, _)| Some(*option)).chain([None]) {
        let arguments: Vec<&str> = ["--gpu-name", target].into_iter().chain(option).collect();
        let lowered_as = run("tile-lower-as", &arguments, &lowered);
        match lowered_as.code {
            Some(0) => {}
            Some(UNSUPPORTED) => continue,
            _ => return Err(format!("tile-lower-as {}: {}", option.unwrap_or_default(), lowered_as.stderr)),
        }
        for scheduling in
            REQUESTED_SCHEDULING_OPTIONS.iter().filter(|_| option.is_none()).map(|(option, _)| Some(*option)).chain([None])
        {
            let scheduled = run("tile-sched", scheduling.as_slice(), &lowered_as.stdout);
            match (scheduled.code, scheduling.or(option)) {
                (Some(0), Some(option)) => accept(option),
                (Some(0 | UNSUPPORTED), _) => {}
                _ => {
                    let options = [option, scheduling].into_iter().flatten().collect::<Vec<&str>>().join(" ");
                    return Err(format!("tile-sched {options}: {}", scheduled.stderr));
                }
            }
        }
    }
    Ok(())
}

/// Checks that each option of `REQUESTED_LOWERING_OPTIONS` and `REQUESTED_SCHEDULING_OPTIONS` reached its minimum number of
/// accepted program-target pairs.
fn options_are_accepted_often_enough() -> CaseResult {
    let accepted = ACCEPTED.lock().expect("no case panics while it counts");
    let count = |option: &str| accepted.get(option).copied().unwrap_or_default();
    let too_rare =
        REQUESTED_LOWERING_OPTIONS.iter().chain(REQUESTED_SCHEDULING_OPTIONS).filter(|(option, least)| count(option) < *least);
    let too_rare: Vec<String> =
        too_rare.map(|(option, least)| format!("{option} was accepted {} times, not {least}", count(option))).collect();
    if too_rare.is_empty() { Ok(()) } else { Err(too_rare.join("\n")) }
}

/// All targets, for the cases `all/`.
const ALL_TARGETS: [&str; 12] =
    ["sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121"];
/// Folders whose kernels together use every feature: attention, grouped and gathered matmuls, block scaling, paged loads,
/// persistent loops.
const KERNEL_FOLDERS: &[&str] = &["tests/run", "examples/kernels", "tests/lower-as", "tests/kernels"];
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
/// Every override option of `tile-sched`, with error codes as in `LOWERING_OVERRIDES`.
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
/// Each pair of kernel and target uses every `SAMPLE_STRIDE`th override, which limits the sweep to six minutes with debug tools on
/// two cores. Neighbouring pairs use different overrides, so many programs test each option on each target. The variable
/// `TILEWORKS_OPTION_STRIDE` sets another stride; with 1, each pair uses every override and every level.
const SAMPLE_STRIDE: usize = 8;
/// The minimum percentage of the pairs of kernel and target that must compile. The other kernels have element types that the target
/// lacks. A lower percentage would mean that a stage refuses a type that its target has.
const COMPILED_PERCENT: usize = 90;
/// The error codes with which a stage refuses an element type that the target lacks.
const MISSING_TYPE_CODES: &[&str] = &["AS903"];

/// The stride from `TILEWORKS_OPTION_STRIDE`, or `SAMPLE_STRIDE`.
fn sample_stride() -> usize {
    let Ok(text) = std::env::var("TILEWORKS_OPTION_STRIDE") else { return SAMPLE_STRIDE };
    text.parse().ok().filter(|stride| *stride > 0).unwrap_or_else(|| panic!("TILEWORKS_OPTION_STRIDE: '{text}' is no stride"))
}

/// The number of pairs of kernel and target that compiled without an override.
static COMPILED: AtomicUsize = AtomicUsize::new(0);

/// Checks that a program compiles for a target at every level and with the selected overrides. A stage may refuse only element
/// types that the target lacks, and options that docs/compiler-decisions.md documents as requests. `program_index` and
/// `target_index` select the overrides of this pair.
fn check_only_missing_types_and_requests_are_refused(program: &str, program_index: usize, target_index: usize) -> CaseResult {
    let target = ALL_TARGETS[target_index];
    let mut refused = Vec::new();
    let mut run_stage = |name: &str, arguments: &[&str], input: &[u8], codes: &[&str]| -> Option<Vec<u8>> {
        let ran = run(name, arguments, input);
        let is_documented = codes.iter().chain(MISSING_TYPE_CODES).any(|code| ran.stderr.contains(&format!("error[{code}]")));
        match ran.code {
            Some(0) => return Some(ran.stdout),
            Some(UNSUPPORTED) if is_documented => {}
            _ => refused.push(format!("{name} {}: {}", arguments.join(" "), ran.stderr.trim())),
        }
        None
    };
    let (first_sample, stride) = (program_index * 5 + target_index * 3, sample_stride());
    // A program in `.aa` already has a level. For the other programs, each pair tests one of -O0 to -O2 or, with stride 1, all
    // three.
    let lower_levels = if program.ends_with(".aa") { &[][..] } else { &["-O0", "-O1", "-O2"] };
    let is_selected = |index: usize| stride == 1 || index == (program_index + target_index) % 3;
    for (_, level) in lower_levels.iter().enumerate().filter(|(index, _)| is_selected(*index)) {
        if let Some(atoms) = run_stage("tile-lower-as", &["--gpu-name", target], &lowered_to_aa_at(program, level), &[]) {
            run_stage("tile-sched", &[], &atoms, &[]);
        }
    }
    let lowered = lowered_to_aa(program);
    if let Some(atoms) = run_stage("tile-lower-as", &["--gpu-name", target], &lowered, &[]) {
        // An override that does not change the output of tile-lower-as needs no second run of tile-sched.
        let mut already_scheduled = BTreeSet::from([atoms.clone()]);
        let scheduled = run_stage("tile-sched", &[], &atoms, &[]);
        COMPILED.fetch_add(usize::from(scheduled.is_some()), Ordering::Relaxed);
        if let Some(scheduled) = scheduled.filter(|_| first_sample.is_multiple_of(stride)) {
            run_stage("tile-ptx", &[], &scheduled, &[]);
        }
        for (index, (option, codes)) in LOWERING_OVERRIDES.iter().enumerate() {
            if (first_sample + index).is_multiple_of(stride)
                && let Some(atoms) = run_stage("tile-lower-as", &["--gpu-name", target, option], &lowered, codes)
                && already_scheduled.insert(atoms.clone())
            {
                run_stage("tile-sched", &[], &atoms, &[]);
            }
        }
        for (index, (option, codes)) in SCHEDULING_OVERRIDES.iter().enumerate() {
            if (first_sample + index).is_multiple_of(stride) {
                run_stage("tile-sched", &[option], &atoms, codes);
            }
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\n")) }
}

/// Checks that at least `COMPILED_PERCENT` of the pairs of kernel and target compiled.
fn enough_pairs_compile(total_pairs: usize) -> CaseResult {
    let compiled = COMPILED.load(Ordering::Relaxed);
    println!("{compiled} of {total_pairs} pairs of kernel and target compile");
    if compiled * 100 >= total_pairs * COMPILED_PERCENT { Ok(()) } else { Err("the others lack types".into()) }
}

/// Checks that the lists of overrides contain every option of the table in docs/compiler-decisions.md. The exception is
/// `--ptxas-options`, whose value the stages pass to ptxas.
fn every_documented_option_is_tested() {
    let page = std::fs::read_to_string(root().join("docs/compiler-decisions.md")).expect("the page is there");
    let documented: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `--")?.split([' ', '`']).next())
        .filter(|name| *name != "ptxas-options")
        .collect();
    let tested = LOWERING_OVERRIDES.iter().chain(SCHEDULING_OVERRIDES);
    let tested: BTreeSet<&str> = tested.filter_map(|(option, _)| option.trim_start_matches("--").split('=').next()).collect();
    assert_eq!(documented, tested);
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.functions("rules/", tests![every_documented_option_is_tested]);
    for program in PROGRAMS {
        for target in TARGETS {
            suite.case(format!("requested/{}/{target}", case_name(program)), move || check_requests(program, target));
        }
    }
    suite.summary("options are accepted often enough", options_are_accepted_often_enough);
    let mut kernel_paths: Vec<String> =
        KERNEL_FOLDERS.iter().flat_map(|folder| files_below(&root().join(folder))).filter_map(kernel_path).collect();
    kernel_paths.sort();
    assert!(kernel_paths.len() > 150, "only {} kernels were found", kernel_paths.len());
    for (program_index, program) in kernel_paths.iter().enumerate() {
        for (target_index, target) in ALL_TARGETS.iter().enumerate() {
            let program = program.clone();
            suite.case(format!("all/{}/{target}", case_name(&program)), move || {
                check_only_missing_types_and_requests_are_refused(&program, program_index, target_index)
            });
        }
    }
    let pairs = kernel_paths.len() * ALL_TARGETS.len();
    suite.summary("enough pairs of kernel and target compile", move || enough_pairs_compile(pairs));
    suite.run()
}

/// The part of a case's name that identifies the program: its path without the extension, `tests/`, `examples/` and `/kernel`.
fn case_name(program: &str) -> String {
    let path = PathBuf::from(program).with_extension("").display().to_string();
    path.trim_start_matches("tests/").trim_start_matches("examples/").trim_end_matches("/kernel").to_string()
}

/// The path of a kernel below the root; None for other files.
fn kernel_path(path: PathBuf) -> Option<String> {
    let is_kernel = ["tile", "tileirbc", "aa"].map(Some).contains(&path.extension().and_then(|extension| extension.to_str()));
    let path = path.strip_prefix(root()).ok()?.to_str()?.to_string();
    is_kernel.then_some(path)
}

/// The `.aa` file of a program, lowered at -O3.
fn lowered_to_aa(program: &str) -> Arc<Vec<u8>> {
    lowered_to_aa_at(program, "-O3")
}

/// The `.aa` file of a program, lowered at a level. A program that is already an `.aa` file is returned unchanged.
fn lowered_to_aa_at(program: &str, level: &'static str) -> Arc<Vec<u8>> {
    static LOWERED: Memo<(String, &str), Arc<Vec<u8>>> = Memo::new();
    LOWERED.get((program.into(), level), || {
        let text = std::fs::read(root().join(program)).unwrap_or_else(|error| panic!("{program}: {error}"));
        let read = if program.ends_with(".tileirbc") { run("tile-read", &["-"], &text).ok(program) } else { text };
        if program.ends_with(".aa") { read.into() } else { run("tile-lower-aa", &[level], &read).ok(program).into() }
    })
}
