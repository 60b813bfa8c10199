//! Tests the hazard checker and the verifier of `.sched` on a function with two warp roles and a pipeline. Each case is an edit
//! that violates a rule.

use base::File;
use sched::Module;

/// An MMA loop in which one warp role copies the operands for another, which issues the MMAs.
const TWO_ROLE_PROGRAM: &str = include_str!("warp_roles/copies.sched");

/// Reads a file, which includes the hazard check. The error has the code and the message of the first violation.
fn hazard_checked(text: &str) -> Result<(), String> {
    File::<Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// The text with the first match of `from` replaced.
fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in\n{text}");
    text.replacen(from, to, 1)
}

/// The text with the first line that contains `what` moved before the first line that contains `before`.
fn with_moved_line(text: &str, what: &str, before: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let place = |lines: &[&str], part: &str| lines.iter().position(|line| line.contains(part)).expect(part);
    let line = lines.remove(place(&lines, what));
    let to = place(&lines, before);
    lines.insert(to, line);
    lines.join("\n") + "\n"
}

/// The text without the lines that start with the mnemonic `what`.
fn without_ops(text: &str, what: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(what));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Checks that reading each edited program fails with a message that contains the expected text.
fn assert_refused(edited_programs: &[(String, &str)]) {
    for (text, expected) in edited_programs {
        let message = hazard_checked(text).expect_err(expected);
        assert!(message.contains(expected), "{message}, not {expected}");
    }
}

#[test]
fn removed_and_moved_pipeline_steps_are_detected() {
    hazard_checked(TWO_ROLE_PROGRAM).expect("the program is sound");
    assert_refused(&[
        (
            without_ops(TWO_ROLE_PROGRAM, "pipeline_wait"),
            "stage 0 of buffer0 is read by warp role 'compute' outside wait and release of pipeline0",
        ),
        (without_ops(TWO_ROLE_PROGRAM, "pipeline_release"), "stage 0 of pipeline0 is waited for and never released"),
        (
            without_ops(TWO_ROLE_PROGRAM, "pipeline_acquire"),
            "stage 0 of buffer0 is written by warp role 'load' outside acquire and commit of pipeline0",
        ),
        (
            without_ops(TWO_ROLE_PROGRAM, "pipeline_commit"),
            "deadlock: warp role 'compute' waits until stage 0 of pipeline0 is filled, phase 0",
        ),
        (
            with_moved_line(TWO_ROLE_PROGRAM, "pipeline_release", "buffer: 0, stage: %26"),
            "read by warp role 'compute' outside wait and release",
        ),
        (
            with_moved_line(TWO_ROLE_PROGRAM, "pipeline_commit", "buffer: 0, stage: %43"),
            "written by warp role 'load' outside acquire and commit",
        ),
        (
            with_moved_line(TWO_ROLE_PROGRAM, "pipeline_wait", "pipeline_release"),
            "read by warp role 'compute' outside wait and release",
        ),
    ]);
}

#[test]
fn filled_stages_need_a_wait() {
    let end = "      continue(values: [%49, %51]) @0\n    }\n";
    let after = |ops: &str| edited(TWO_ROLE_PROGRAM, end, &format!("{end}{ops}"));
    let pipeline = "empty: 128, barriers: 8192)";
    let entry = ", (buffers: [], depth: 1, fill: threads, producer: 1, consumers: [0], full: 32, empty: 128, barriers: 8224)";
    let unread = after("    pipeline_acquire(pipeline: 1, phase: %13) @0\n    pipeline_commit(pipeline: 1) @0\n");
    let unread = edited(&edited(&unread, pipeline, &format!("{pipeline}{entry}")), "shared_bytes: 8224", "shared_bytes: 8240");
    let info = "(elem: f16, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512], align: 128)";
    let copy = "(view: %8, index: [%13, %13], token: %16, order: (semantics: weak), whole: true, buffer: 3, layout: 1, atom: async(bytes: 16))";
    let copied = after(&format!("    %52 = copy_view{copy} : token @0\n"));
    let copied = edited(&copied, "512], align: 128)]),", &format!("512], align: 128), {info}]),"));
    let copied = edited(
        &copied,
        "(offset: 0, depth: 1)], shared_bytes: 8224",
        "(offset: 0, depth: 1), (offset: 8320, depth: 1)], shared_bytes: 10368",
    );
    assert_refused(&[
        (unread, "pipeline1 is filled 1 times, and warp_role0 waits for 0 of them"),
        (copied, "copy_view: nothing waits for the copy"),
    ]);
}

#[test]
fn stages_are_visited_in_order() {
    let comparison =
        |stage: &str, last: &str| format!("compare(kind: int(predicate: equal, signedness: signed), lhs: {stage}, rhs: {last})");
    assert_refused(&[
        (
            edited(TWO_ROLE_PROGRAM, "init: [%20, %13, %13]", "init: [%20, %13, %14]"),
            "warp role 'compute' is at phase 0 of stage 0 of pipeline0, not 1",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "init: [%13, %13]", "init: [%13, %14]"),
            "warp role 'load' is at phase 0 of stage 0 of pipeline0, not 1",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "init: [%20, %13, %13]", "init: [%20, %14, %13]"),
            "stage 1 of pipeline0 is not the next one of warp role 'compute'",
        ),
        (
            edited(TWO_ROLE_PROGRAM, &comparison("%47", "%15"), &comparison("%47", "%14")),
            "stage 0 of pipeline0 is not the next one of warp role 'load'",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "buffer: 0, stage: %43", "buffer: 0, stage: %13"),
            "written by warp role 'load' outside acquire and commit",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "upper: %3, step: %14, init: [%20", "upper: %15, step: %14, init: [%20"),
            "deadlock: warp role 'compute'",
        ),
    ]);
}

#[test]
fn barriers_count_the_threads_that_arrive() {
    assert_refused(&[
        (
            edited(TWO_ROLE_PROGRAM, "full: 32", "full: 64"),
            "32 threads fill a stage of pipeline0, and its barrier counts 64 arrivals",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "empty: 128", "empty: 32"),
            "128 threads free a stage of pipeline0, and its barrier counts 32 arrivals",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "fill: copies", "fill: threads"),
            "stage 0 of pipeline0 is committed while a copy to stage 0 of buffer0 is in flight",
        ),
    ]);
}

#[test]
fn pipeline_memory_is_exclusive_while_in_use() {
    assert_refused(&[
        (edited(TWO_ROLE_PROGRAM, "(offset: 4096, depth: 2)", "(offset: 2048, depth: 2)"), "by a copy of its pipeline"),
        (
            edited(TWO_ROLE_PROGRAM, "(offset: 0, depth: 1)", "(offset: 4096, depth: 1)")
                .replace("barrier(id: 1, threads: 128) @0\n    shared_store", "shared_store"),
            "before a barrier after its last read",
        ),
        (edited(TWO_ROLE_PROGRAM, "barriers: 8192", "barriers: 8184"), "its barriers lie where something else does"),
        (edited(TWO_ROLE_PROGRAM, "barriers: 8192", "barriers: 8200"), "its barriers do not fit the function's 8224 bytes"),
    ]);
}

#[test]
fn warp_roles_divide_the_cta() {
    assert_refused(&[
        (
            edited(TWO_ROLE_PROGRAM, "first_warp: 4, warps: 1", "first_warp: 3, warps: 1"),
            "warp_role1 has warps of another warp role",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "first_warp: 4, warps: 1", "first_warp: 5, warps: 1"),
            "warp_role1 has warps beyond the 5 of the CTA",
        ),
        (edited(TWO_ROLE_PROGRAM, "\"load\"", "\"compute\""), "has no name of its own"),
        (
            edited(TWO_ROLE_PROGRAM, "\n  return @0\n}", "\n  %60 = constant(1) : i32 @0\n  return @0\n}"),
            "a body for each warp role of its table, in order",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "first_warp: 4, warps: 1", "first_warp: 4, warps: 1, registers: 32"),
            "sm_80 cannot move registers between warps",
        ),
        (edited(TWO_ROLE_PROGRAM, "producer: 1, consumers: [0]", "producer: 0, consumers: [1]"), "is no consumer of pipeline0"),
        (
            edited(TWO_ROLE_PROGRAM, "barrier(id: 1, threads: 128)", "barrier(id: 2, threads: 128)"),
            "this warp role's barrier is 1, for 128 threads",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "barrier(id: 1, threads: 128)", "barrier(id: 1, threads: 160)"),
            "this warp role's barrier is 1, for 128 threads",
        ),
        (
            edited(TWO_ROLE_PROGRAM, "pipeline_wait(pipeline: 0, stage: %26,", "pipeline_wait(pipeline: 0,"),
            "pipeline0 has 2 stages, and the op does not name one",
        ),
        // A layout covers the warps of the role that executes the op.
        (edited(TWO_ROLE_PROGRAM, "stage: %43, layout: 1", "stage: %43, layout: 4"), "its layout is for another number of warps"),
        (
            edited(TWO_ROLE_PROGRAM, "%16 = make_token", "%19 = constant(0.0) : tile<32x32xf32, #0> @0\n  %16 = make_token"),
            "it is a tile outside all warp roles",
        ),
        (edited(TWO_ROLE_PROGRAM, "tile<32x32xf32, #4>", "tile<32x32xf32, #1>"), "its layout is for 1 warps, not 4"),
    ]);
}
