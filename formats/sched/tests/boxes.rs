//! A pipe that boxes fill: a loop as `tile-sched` writes it, of which each step in turn is taken out.

use base::File;
use sched::Module;

const BOXES: &str = include_str!("boxes.sched");

fn judged(text: &str) -> Result<(), String> {
    File::<Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// The text without one of the lines that have a word.
fn without(word: &str, number: usize) -> String {
    let lines: Vec<&str> = BOXES.lines().collect();
    let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(word)).collect();
    let gone = places.get(number).unwrap_or_else(|| panic!("there are {} of {word}", places.len()));
    lines.iter().enumerate().filter(|(at, _)| at != gone).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn every_step_is_needed() {
    judged(BOXES).expect("the program is sound");
    let cases = [
        ("pipe_acquire(", 0, "is written by the block outside acquire and commit of pipe0"),
        ("pipe_acquire(", 3, "is written by the block outside acquire and commit of pipe0"),
        ("copy_boxes(", 1, "is committed with 0 copies to buffer1, not one"),
        ("pipe_commit(", 0, "it never goes on: the block waits until slot 0 of pipe0 is filled"),
        ("pipe_wait(", 0, "is read by the block outside wait and release of pipe0"),
        ("async_fence", 0, "is overwritten by boxes without a fence after threads were at it"),
        ("pipe_release(", 0, "is waited for and never released"),
    ];
    for (word, number, wanted) in cases {
        let message = judged(&without(word, number)).expect_err(&format!("without {word} {number}"));
        assert!(message.contains(wanted), "without {word} {number}: {message}");
    }
}

#[test]
fn a_pipe_says_how_it_is_filled() {
    let edited = |from: &str, to: &str| {
        assert!(BOXES.contains(from), "{from} is not in the program");
        judged(&BOXES.replacen(from, to, 1)).expect_err(to)
    };
    let message = edited("fill: boxes", "fill: threads");
    assert!(message.contains("no pipe that boxes fill") || message.contains("128 threads fill a slot"), "{message}");
    let message = edited("full: 1", "full: 128");
    assert!(message.contains("1 threads fill a slot of pipe0, and its barrier counts 128 arrivals"), "{message}");
    let message = edited("map: 0)", "map: 1)");
    assert!(message.contains("map1 is not the tensor map of"), "{message}");
    let message = edited("shared_bytes: 32896", "shared_bytes: 32824");
    assert!(message.contains("its barriers do not fit"), "{message}");
}
