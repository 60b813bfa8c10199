//! Tests of a pipeline that TMA fills, in a loop as `tile-sched` writes it. Each test removes a step or changes an attribute.

use base::File;
use sched::Module;

/// A function with a pipelined loop whose operands TMA copies.
const TMA_PROGRAM: &str = include_str!("tma.sched");

/// Reads a file, which includes the hazard check. The error has the code and the message of the first violation.
fn hazard_checked(text: &str) -> Result<(), String> {
    File::<Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// The text without one of the lines that contain `word`: the line with index `number` among them.
fn without_line(word: &str, number: usize) -> String {
    let lines: Vec<&str> = TMA_PROGRAM.lines().collect();
    let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(word)).collect();
    let removed = places.get(number).unwrap_or_else(|| panic!("there are {} of {word}", places.len()));
    lines.iter().enumerate().filter(|(at, _)| at != removed).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn removed_pipeline_steps_are_detected() {
    hazard_checked(TMA_PROGRAM).expect("the program is sound");
    let cases = [
        ("pipeline_acquire(", 0, "is written by the CTA outside acquire and commit of pipeline0"),
        ("pipeline_acquire(", 3, "is written by the CTA outside acquire and commit of pipeline0"),
        ("tma_load(", 1, "is committed with 0 copies to buffer1, not one"),
        ("pipeline_commit(", 0, "deadlock: the CTA waits until stage 0 of pipeline0 is filled"),
        ("pipeline_wait(", 0, "is read by the CTA outside wait and release of pipeline0"),
        ("async_fence", 0, "is overwritten by TMA without a fence after accesses of threads"),
        ("pipeline_release(", 0, "is waited for and never released"),
    ];
    for (word, number, expected) in cases {
        let message = hazard_checked(&without_line(word, number)).expect_err(&format!("without {word} {number}"));
        assert!(message.contains(expected), "without {word} {number}: {message}");
    }
}

#[test]
fn wrong_pipeline_attributes_are_refused() {
    let edited = |from: &str, to: &str| {
        assert!(TMA_PROGRAM.contains(from), "{from} is not in the program");
        hazard_checked(&TMA_PROGRAM.replacen(from, to, 1)).expect_err(to)
    };
    let message = edited("fill: tma", "fill: threads");
    assert!(message.contains("no pipeline that TMA fills") || message.contains("128 threads fill a stage"), "{message}");
    let message = edited("full: 1", "full: 128");
    assert!(message.contains("1 threads fill a stage of pipeline0, and its barrier counts 128 arrivals"), "{message}");
    let message = edited("map: 0)", "map: 1)");
    assert!(message.contains("map1 is not the tensor map of"), "{message}");
    let message = edited("shared_bytes: 32896", "shared_bytes: 32824");
    assert!(message.contains("its barriers do not fit"), "{message}");
}
