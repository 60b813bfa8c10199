//! What a user decides with options (docs/decisions.md) is carried out or refused as something that cannot be, whatever the program: a
//! stage that takes an option and then finds fault with what itself made of it has a bug.

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
const LOWERING: &[&str] = &[
    "--warps=8",
    "--warps=16",
    "--occupancy=2",
    "--occupancy=4",
    "--tma=on",
    "--tma=off",
    "--prefetch=on",
    "--halves=on",
    "--cluster=2",
    "--launch-control=on",
    "--products=mma",
    "--products=tcgen05",
];
const SCHEDULING: &[&str] = &["--stages=2", "--stages=5", "--agents=off", "--agents=on", "--overlap=on"];

/// The exit code of what cannot be.
const UNSUPPORTED: i32 = 3;

#[test]
fn an_option_is_carried_out_or_refused() {
    let all: Vec<(&str, &str)> = PROGRAMS.iter().flat_map(|program| TARGETS.map(|target| (*program, target))).collect();
    for_each(&all, |(program, target)| {
        let lowered = lowered(program);
        for option in LOWERING.iter().map(Some).chain([None]) {
            let arguments: Vec<&str> = ["--gpu-name", target].into_iter().chain(option.copied()).collect();
            let atoms = run("tile-lower-as", &arguments, &lowered);
            let said = |stage: &str, option: &str, error: &str| format!("{program}, {target}: {stage} {option}: {error}");
            match atoms.code {
                Some(0) => {}
                Some(UNSUPPORTED) => continue,
                _ => return Err(said("tile-lower-as", option.unwrap_or(&""), &atoms.stderr)),
            }
            for scheduling in SCHEDULING.iter().filter(|_| option.is_none()).map(Some).chain([None]) {
                let scheduled = run("tile-sched", scheduling.map_or(&[][..], std::slice::from_ref), &atoms.stdout);
                if !matches!(scheduled.code, Some(0 | UNSUPPORTED)) {
                    let options = [option, scheduling].into_iter().flatten().copied().collect::<Vec<&str>>().join(" ");
                    return Err(said("tile-sched", &options, &scheduled.stderr));
                }
            }
        }
        Ok(())
    });
}

/// A program as `.aa`.
fn lowered(program: &str) -> Vec<u8> {
    let text = std::fs::read(root().join(program)).unwrap_or_else(|error| panic!("{program}: {error}"));
    let read = if program.ends_with(".tileirbc") { run("tile-read", &["-"], &text).ok(program) } else { text };
    if program.ends_with(".aa") {
        // The first line says what the fixture runs.
        let line = read.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        return read[line..].to_vec();
    }
    run("tile-lower-aa", &["-O3"], &read).ok(program)
}
