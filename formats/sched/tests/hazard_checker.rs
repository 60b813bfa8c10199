//! Tests the hazard checker of `.sched` on functions without a pipelined loop. Each test removes a wait, barrier or fence, or
//! breaks placements or MMAs.

use base::File;
use sched::Module;

/// An MMA loop compiled at optimization level 1: `cp.async` copies fill the operand buffers of `mma.sync`.
const CP_ASYNC_PROGRAM: &str = include_str!("serial.sched");
/// An MMA loop compiled at optimization level 1: threads store the operands of `wgmma` to shared memory.
const WGMMA_PROGRAM: &str = include_str!("group.sched");

/// Reads a file, which includes the hazard check. The error has the code and the message of the first violation.
fn hazard_checked(text: &str) -> Result<(), String> {
    File::<Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// The text without one of the lines that start with `op`: the line with index `number` among them.
fn without_op(text: &str, op: &str, number: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with(op)).collect();
    let removed = places.get(number).unwrap_or_else(|| panic!("there are {} of {op}", places.len()));
    lines.iter().enumerate().filter(|(at, _)| at != removed).map(|(_, line)| format!("{line}\n")).collect()
}

fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in\n{text}");
    text.replacen(from, to, 1)
}

#[test]
fn removed_waits_barriers_and_fences_are_detected() {
    hazard_checked(CP_ASYNC_PROGRAM).expect("the program is sound");
    hazard_checked(WGMMA_PROGRAM).expect("the program is sound");
    let cases = [
        // Barrier 0 is at the start of an iteration: the copy of the next iteration overwrites the data that the current iteration
        // reads.
        (CP_ASYNC_PROGRAM, "barrier", 0, "overwritten before a barrier after its last read"),
        (CP_ASYNC_PROGRAM, "copy_commit", 1, "is read before its copy was waited for"),
        (CP_ASYNC_PROGRAM, "copy_wait", 1, "is read before its copy was waited for"),
        (CP_ASYNC_PROGRAM, "barrier", 1, "is read before a barrier after the wait"),
        (CP_ASYNC_PROGRAM, "barrier", 2, "overwritten before a barrier after its last read"),
        (CP_ASYNC_PROGRAM, "barrier", 3, "is read before a barrier after it was written"),
        (WGMMA_PROGRAM, "barrier", 0, "overwritten before a barrier after its last read"),
        (WGMMA_PROGRAM, "async_fence", 1, "is read in place without a fence after it was written"),
        (WGMMA_PROGRAM, "barrier", 1, "is read before a barrier after it was written"),
        (WGMMA_PROGRAM, "barrier", 2, "overwritten before a barrier after its last read"),
        (WGMMA_PROGRAM, "barrier", 3, "is read before a barrier after it was written"),
    ];
    for (text, op, number, expected) in cases {
        let message = hazard_checked(&without_op(text, op, number)).expect_err(&format!("without {op} {number}"));
        assert!(message.starts_with("SC130") && message.contains(expected), "without {op} {number}: {message}");
    }
    // A wait that leaves a group pending, and a barrier that not all warps reach.
    let message = hazard_checked(&CP_ASYNC_PROGRAM.replace("copy_wait(pending: 0)", "copy_wait(pending: 1)")).unwrap_err();
    assert!(message.contains("is read before its copy was waited for"), "{message}");
    let message =
        hazard_checked(&CP_ASYNC_PROGRAM.replace("barrier(id: 0, threads: 128)", "barrier(id: 1, threads: 64)")).unwrap_err();
    assert!(message.contains("before a barrier after"), "{message}");
}

#[test]
fn accumulators_in_flight_need_a_wait_before_use() {
    let message = hazard_checked(&edited(WGMMA_PROGRAM, "mma(", "mma(in_flight: true, ")).unwrap_err();
    assert!(message.contains("is overwritten while an MMA in flight reads it"), "{message}");
    let line = WGMMA_PROGRAM.lines().find(|line| line.contains(" = mma(")).expect("there is an MMA");
    let (accumulator, _) = line.trim_start().split_once(" = ").expect("it has a result");
    let waited =
        format!("{}\n    group_wait(pending: 0, accumulators: [{accumulator}]) @0", line.replace("mma(", "mma(in_flight: true, "));
    // A wait directly after the MMA is sufficient.
    hazard_checked(&WGMMA_PROGRAM.replace(line, &waited)).expect("a wait after the MMA is enough");
    // Each warp waits only for itself: before a barrier, no warp may overwrite data that another warp reads.
    let message = hazard_checked(&without_op(&WGMMA_PROGRAM.replace(line, &waited), "barrier", 0)).unwrap_err();
    assert!(message.contains("overwritten before a barrier after its last read"), "{message}");
    // The accumulator is used before the wait.
    let used = waited.replace(
        "\n",
        &format!(
            "\n    %99 = binary(kind: add_f(rounding: nearest_even, ftz: false), lhs: {accumulator}, rhs: {accumulator}) : tile<64x64xf32, #0> @0\n"
        ),
    );
    let message = hazard_checked(&WGMMA_PROGRAM.replace(line, &used)).unwrap_err();
    assert!(message.contains("is used while the MMA that computes it is in flight"), "{message}");
}

/// After an `if`, a barrier counts only if both branches have it, but the accesses of either branch count.
#[test]
fn accesses_of_both_branches_count() {
    let at = CP_ASYNC_PROGRAM.find("shared_store(x: ").expect("there is an exchange");
    let line = CP_ASYNC_PROGRAM[at..].lines().next().expect("a line");
    let condition = "  %97 = block_id(axis: 0) : i32 @0\n  %98 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %97, rhs: %14) : i1 @0\n";
    let with_branch = |then: &str| {
        edited(
            CP_ASYNC_PROGRAM,
            &format!("  {line}"),
            &format!("{condition}  if(cond: %98) @0 {{\n{then}    yield @0\n  }} {{\n    yield @0\n  }}\n  {line}"),
        )
    };
    let barrier = "    barrier(id: 0, threads: 128) @0\n";
    // One path writes the buffer after its own barrier; then all threads read the buffer.
    hazard_checked(&with_branch(&format!("{barrier}    {line}\n{barrier}"))).expect("each path has its barriers");
    let message =
        hazard_checked(&with_branch(&format!("{barrier}    {line}\n"))).expect_err("the first path ends without a barrier");
    assert!(message.contains("before a barrier after it was written"), "{message}");
}

/// At the end of a program, no copy may be in flight.
#[test]
fn a_copy_without_a_wait_is_refused() {
    let copy_line = CP_ASYNC_PROGRAM.lines().find(|line| line.contains(" = copy_view(")).expect("there is a copy");
    let last = copy_line.replace("    %", "  %9").replace("%18", "%13");
    let text = edited(CP_ASYNC_PROGRAM, "  return", &format!("  barrier(id: 0, threads: 128) @0\n{last}\n  return"));
    let message = hazard_checked(&text).expect_err("nothing waits for the copy");
    assert!(message.contains("nothing waits for the copy"), "{message}");
}

#[test]
fn live_buffers_do_not_share_memory() {
    let placements =
        CP_ASYNC_PROGRAM.split_once("placements: [").and_then(|(_, rest)| rest.split_once(']')).expect("it has placements").0;
    let first = placements.split_once(')').expect("it has several").0.to_string() + ")";
    let overlapping = format!("{first}, {first}, {first}");
    let message = hazard_checked(&CP_ASYNC_PROGRAM.replace(placements, &overlapping)).unwrap_err();
    assert!(message.contains("while a copy to stage 0 of buffer0 is in flight"), "{message}");
}

#[test]
fn per_k_step_loads_need_an_mma_without_a_wait_between() {
    let whole = "shared_load(buffer: 0, atom: matrix)";
    let sound = edited(CP_ASYNC_PROGRAM, whole, "shared_load(buffer: 0, atom: matrix, per_k_step: true)");
    hazard_checked(&sound).expect("its MMA follows, and no op between them waits");
    let second = "    %23 = shared_load(buffer: 1";
    let cases = [
        edited(&sound, second, &format!("    barrier(id: 0, threads: 128) @0\n{second}")),
        edited(
            &sound,
            "    continue(",
            "    %99 = binary(kind: add_f(rounding: nearest_even, ftz: false), lhs: %22, rhs: %22) : tile<32x32xf16, #2> @0\n    continue(",
        ),
        edited(
            CP_ASYNC_PROGRAM,
            "vector(vector_bits: 2)) : tile<32x32xf32, #4>",
            "vector(vector_bits: 2), per_k_step: true) : tile<32x32xf32, #4>",
        ),
        sound.replace("phase materialize", "phase alloc").replace("//!tile sched 7 materialize", "//!tile sched 7 alloc"),
    ];
    let expected = [
        "an op between a per-K-step load and its MMA waits",
        "another op uses a per-K-step load",
        "only `ldmatrix` loads per K step",
        "there are no per-K-step loads in phase alloc",
    ];
    for (text, expected) in cases.iter().zip(expected) {
        let message = hazard_checked(text).expect_err(expected);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
