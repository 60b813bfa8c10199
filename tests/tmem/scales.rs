//! Tests of block-scaled MMAs whose scales are in tensor memory. The stages compile the program `scales.aa`. Both executors run the
//! output with several schedule seeds, with early and late delivery of asynchronous writes, and with injected faults.

use crate::{FAULT_TRIP_COUNT, TRIP_COUNTS, bytes_of, move_last_line, program::MAX_TRIP_COUNT, write_launch};
use numerics::Scalar;
use std::path::Path;
use tests::scheduled::{
    check_both_detect, check_hazards, execute_for_output, executions, file_of_tool, replace_once, without_lines_starting_with,
    write_program_and_ptx,
};
use tests::{for_each, run, temporary_folder, tests};

/// The `.aa` text of a matmul with block-scaled operands.
const SCALED_PROGRAM: &str = include_str!("scales.aa");

/// Rows of the accumulator.
const ROWS: usize = 128;
/// Columns of the accumulator.
const COLUMNS: usize = 64;
/// The extent along K of one iteration, in elements.
const DEPTH: usize = 64;
/// The number of elements along K that share one scale.
const SCALE_BLOCK: usize = 32;

/// Compiles the program for sm_100. Returns the `.sched` text.
fn schedule_text() -> String {
    let folder = temporary_folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("k.aa"), SCALED_PROGRAM).expect("the folder takes files");
    run("tile-lower-as", &["--gpu-name", "sm_100", &path("k.aa"), "-o", &path("k.as")], b"").ok("tile-lower-as");
    let text = run("tile-sched", &["--format=text", &path("k.as")], b"").ok("tile-sched");
    String::from_utf8(text).expect("text is UTF-8")
}

/// An element of an operand before scaling: a small integer. `line` is a row of the left operand or a column of the right one.
fn element(line: usize, k: usize) -> i64 {
    (line * 5 + k * 3 + k / SCALE_BLOCK) as i64 % 3 - 1
}
/// Returns a number `e` from 0 to 3. The scale of the block is `2^(e - 1)`: 1/2, 1, 2 or 4.
fn scale_exponent(line: usize, block: usize) -> u32 {
    ((line * 7 + line / 32 + block * 3) % 4) as u32
}

/// Writes the launch of the program with a trip count of the K loop. Returns the expected bytes of the result.
fn write_scaled_launch(folder: &Path, trip_count: usize) -> Vec<u8> {
    let (depth, blocks) = (DEPTH * MAX_TRIP_COUNT, DEPTH * MAX_TRIP_COUNT / SCALE_BLOCK);
    let operand_bytes = |lines: usize| -> Vec<u8> {
        (0..lines * depth).flat_map(|i| bytes_of(Scalar::F8E4M3FN, element(i / depth, i % depth))).collect()
    };
    let scales_a: Vec<u8> = (0..ROWS * blocks).map(|i| 126 + scale_exponent(i / blocks, i % blocks) as u8).collect();
    let scales_b: Vec<u8> = (0..COLUMNS * blocks).map(|i| 126 + scale_exponent(i % COLUMNS + 1, i / COLUMNS) as u8).collect();
    let arrays = [
        ("a", operand_bytes(ROWS)),
        ("b", operand_bytes(COLUMNS)),
        ("p", scales_a),
        ("q", scales_b),
        ("c", vec![0xff; ROWS * COLUMNS * 4]),
    ];
    write_launch(folder, arrays, trip_count);
    let sum = |row: usize, column: usize| {
        let scaled_product = |k: usize| {
            let exponent_sum = scale_exponent(row, k / SCALE_BLOCK) + scale_exponent(column + 1, k / SCALE_BLOCK);
            element(row, k) * element(column, k) << exponent_sum
        };
        (0..trip_count * DEPTH).map(scaled_product).sum::<i64>() as f32 / 4.0
    };
    (0..ROWS * COLUMNS).flat_map(|i| sum(i / COLUMNS, i % COLUMNS).to_le_bytes()).collect()
}

fn block_scaled_matmul_is_correct_in_every_execution() {
    let text = schedule_text();
    check_hazards(&text).expect("the hazard checker accepts it");
    let folder = temporary_folder();
    write_program_and_ptx(folder.path(), &text);
    for trip_count in TRIP_COUNTS {
        let expected = write_scaled_launch(folder.path(), trip_count);
        for (tool, options) in executions(3) {
            let output = execute_for_output(folder.path(), tool, file_of_tool(tool), &options).expect(tool);
            assert!(output == expected, "{tool} {options:?} has a wrong output after {trip_count} iterations");
        }
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"").ok("tile-link");
}

/// Pipeline 1 contains the scales of the left operand, pipeline 2 the scales of the right operand. One wait orders exponent_sum
/// copies, because the waits are adjacent. The test therefore removes the steps of exponent_sum pipelines together.
fn hazard_checker_and_executors_detect_mistimed_scales() {
    let text = schedule_text();
    let without_both = |step: &str| {
        without_lines_starting_with(
            &without_lines_starting_with(&text, &format!("{step}(pipeline: 1")),
            &format!("{step}(pipeline: 2"),
        )
    };
    let early_release = move_last_line(
        &move_last_line(&text, "pipeline_release(pipeline: 2", "mma(", false),
        "pipeline_release(pipeline: 1",
        "mma(",
        false,
    );
    let cases = [
        (without_both("pipeline_wait"), "read by warp role 'mma' outside wait and release of pipeline1"),
        (without_both("pipeline_acquire"), "written by warp role 'compute' outside acquire and commit of pipeline1"),
        (
            move_last_line(&text, "pipeline_commit(pipeline: 2", "tmem_store(", false),
            "stage 0 of pipeline2 is committed, but was not acquired by warp role 'compute'",
        ),
        (early_release, "read by warp role 'mma' outside wait and release of pipeline1"),
    ];
    for_each(&cases, |(text, expected)| {
        let message = check_hazards(text).err().ok_or(format!("the hazard checker accepts it: {expected}"))?;
        if !message.contains(expected) {
            return Err(format!("the hazard checker reports '{message}', not '{expected}'"));
        }
        let folder = temporary_folder();
        let correct_output = write_scaled_launch(folder.path(), FAULT_TRIP_COUNT);
        write_program_and_ptx(folder.path(), text);
        check_both_detect(folder.path(), &correct_output, &message)
    });
}

fn hazard_checker_refuses_wrong_scale_layouts() {
    let text = schedule_text();
    let scales = "lhs_scale: memory(buffer: 4";
    let cases = [
        (
            replace_once(&text, "[1, 0, 64, 128, 2, 4, 8, 16, 32, 256, 512]", "[1, 0, 128, 64, 2, 4, 8, 16, 32, 256, 512]"),
            "does not have a scale layout",
        ),
        (replace_once(&text, scales, "lhs_scale: memory(buffer: 5"), "does not have a scale layout"),
        (replace_once(&text, "tcgen05.k32.block32.f32", "tcgen05.k32.f32"), "'tcgen05.k32.f32' takes no scales"),
    ];
    for (text, expected) in cases {
        let message = check_hazards(&text).expect_err("it is refused");
        assert!(message.contains(expected), "{message}");
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests![
    block_scaled_matmul_is_correct_in_every_execution,
    hazard_checker_and_executors_detect_mistimed_scales,
    hazard_checker_refuses_wrong_scale_layouts,
];
