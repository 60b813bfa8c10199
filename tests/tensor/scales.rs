//! Products whose scales are in tensor memory, as the stages make them: in every order and under both deliveries, and broken.

use crate::{BROKEN_TRIPS, TRIPS, bytes_of, described, moved, program::STEPS};
use numerics::Scalar;
use std::path::Path;
use tests::scheduled::{edited, executed, file_for, judged, seen_by_both, ways, without, written};
use tests::{for_each, run, temporary};

const SCALED: &str = include_str!("scales.aa");

/// Rows, columns, and depth of a step.
const ROWS: usize = 128;
const COLUMNS: usize = 64;
const DEPTH: usize = 64;
const BLOCK: usize = 32;

fn scheduled() -> String {
    let folder = temporary();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("k.aa"), SCALED).expect("the folder takes files");
    run("tile-lower-as", &["--gpu-name", "sm_100", &path("k.aa"), "-o", &path("k.as")], b"").ok("tile-lower-as");
    let text = run("tile-sched", &["--format=text", &path("k.as")], b"").ok("tile-sched");
    String::from_utf8(text).expect("text is UTF-8")
}

/// Small whole numbers, and scales of 1/2, 1, 2 and 4 for each block of each row and column.
fn element(line: usize, k: usize) -> i64 {
    (line * 5 + k * 3 + k / BLOCK) as i64 % 3 - 1
}
fn exponent(line: usize, block: usize) -> u32 {
    ((line * 7 + line / 32 + block * 3) % 4) as u32
}

/// The launch for some number of steps, and what it has to leave.
fn launch(folder: &Path, steps: usize) -> Vec<u8> {
    let (depth, blocks) = (DEPTH * STEPS, DEPTH * STEPS / BLOCK);
    let operand = |lines: usize| -> Vec<u8> {
        (0..lines * depth).flat_map(|i| bytes_of(Scalar::F8E4M3FN, element(i / depth, i % depth))).collect()
    };
    let of_a: Vec<u8> = (0..ROWS * blocks).map(|i| 126 + exponent(i / blocks, i % blocks) as u8).collect();
    let of_b: Vec<u8> = (0..COLUMNS * blocks).map(|i| 126 + exponent(i % COLUMNS + 1, i / COLUMNS) as u8).collect();
    let arrays = [("a", operand(ROWS)), ("b", operand(COLUMNS)), ("p", of_a), ("q", of_b), ("c", vec![0xff; ROWS * COLUMNS * 4])];
    described(folder, arrays, steps);
    let sum = |row: usize, column: usize| {
        let product = |k: usize| {
            let both = exponent(row, k / BLOCK) + exponent(column + 1, k / BLOCK);
            element(row, k) * element(column, k) << both
        };
        (0..steps * DEPTH).map(product).sum::<i64>() as f32 / 4.0
    };
    (0..ROWS * COLUMNS).flat_map(|i| sum(i / COLUMNS, i % COLUMNS).to_le_bytes()).collect()
}

#[test]
fn scales_are_those_of_their_rows_columns_and_blocks() {
    let text = scheduled();
    judged(&text).expect("the judge takes it");
    let folder = temporary();
    written(folder.path(), &text);
    for trips in TRIPS {
        let wanted = launch(folder.path(), trips);
        for (tool, options) in ways(3) {
            let left = executed(folder.path(), tool, file_for(tool), &options).expect(tool);
            assert!(left == wanted, "{tool} {options:?} computes something else in {trips} steps");
        }
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"").ok("tile-link");
}

/// Pipe 1 has the scales of the left operand, pipe 2 those of the right one; who passes a step of either knows that the other is as far,
/// so both lack it.
#[test]
fn scales_that_come_at_the_wrong_time_are_refused_and_seen() {
    let text = scheduled();
    let without_both = |step: &str| without(&without(&text, &format!("{step}(pipe: 1")), &format!("{step}(pipe: 2"));
    let released = moved(&moved(&text, "pipe_release(pipe: 2", "mma(", false), "pipe_release(pipe: 1", "mma(", false);
    let cases = [
        (without_both("pipe_wait"), "read by agent 'multiply' outside wait and release of pipe1"),
        (without_both("pipe_acquire"), "written by agent 'compute' outside acquire and commit of pipe1"),
        (
            moved(&text, "pipe_commit(pipe: 2", "tensor_store(", false),
            "slot 0 of pipe2 is committed, but was not acquired by agent 'compute'",
        ),
        (released, "read by agent 'multiply' outside wait and release of pipe1"),
    ];
    for_each(&cases, |(text, wanted)| {
        let message = judged(text).err().ok_or(format!("the judge takes it: {wanted}"))?;
        if !message.contains(wanted) {
            return Err(format!("the judge says '{message}', not '{wanted}'"));
        }
        let folder = temporary();
        let right = launch(folder.path(), BROKEN_TRIPS);
        written(folder.path(), text);
        seen_by_both(folder.path(), &right, &message)
    });
}

#[test]
fn scales_that_lie_otherwise_are_refused() {
    let text = scheduled();
    let scales = "lhs_scale: memory(buffer: 4";
    let cases = [
        (
            edited(&text, "[1, 0, 64, 128, 2, 4, 8, 16, 32, 256, 512]", "[1, 0, 128, 64, 2, 4, 8, 16, 32, 256, 512]"),
            "does not lie as scales do",
        ),
        (edited(&text, scales, "lhs_scale: memory(buffer: 5"), "does not lie as scales do"),
        (edited(&text, "tcgen05.k32.block32.f32", "tcgen05.k32.f32"), "'tcgen05.k32.f32' takes no scales"),
    ];
    for (text, wanted) in cases {
        let message = judged(&text).expect_err("it is refused");
        assert!(message.contains(wanted), "{message}");
    }
}
