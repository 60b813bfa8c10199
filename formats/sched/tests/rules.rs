//! Tests that the verifier of `.sched` rejects violations of its rules with a message.

use base::File;
use sched::Module;

/// Each case has a text, its replacement (of the first match), and a part of the expected message.
#[test]
fn an_edited_schedule_is_refused() {
    let sample = include_str!("sample.sched");
    let cases = [
        ("sched 7 materialize", "sched 7 done", "SC001"),
        ("sched 7 materialize", "sched 7 alloc", "no access names a stage in phase alloc"),
        ("(offset: 4096, depth: 4)", "(offset: 4096, depth: 5)", "does not fit"),
        ("(offset: 4096, depth: 4)", "(offset: 4000, depth: 4)", "does not fit"),
        ("(offset: 4096, depth: 4)", "(offset: 4096, depth: 0)", "has no stage"),
        (", (offset: 4096, depth: 4)", "", "2 of 3 buffers have a placement"),
        ("shared_bytes: 8192", "shared_bytes: 1000000", "bytes of shared memory"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 0, threads: 64)", "barrier 0 is for all threads"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 16, threads: 128)", "there are 16 barriers"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 1, threads: 40)", "not for whole warps"),
        ("buffer: 0, stage: %65", "buffer: 0, stage: %15", "not the number of a stage"),
        ("buffer: 0, stage: %87", "buffer: 0", "the op does not name one"),
        ("buffer: 2, ", "buffer: 2, stage: %41, ", "not the number of a stage"),
        // The verifier also checks the rules of `.as`.
        ("atom: async(bytes: 16)", "atom: async(bytes: 12)", "AS007"),
    ];
    assert_refused(sample, &cases);
}

/// The verifier limits the alignment of globals to 2^30 bytes. Reason: `ptxas` of CUDA 13.5 crashes at an alignment of 2^31, and
/// LLVM drops an alignment of 2^32 or more.
#[test]
fn an_alignment_is_a_power_of_two_up_to_a_gibibyte() {
    let sample = include_str!("sample.sched");
    let read_with_alignment = |align: u64| {
        let global = format!("global (name: \"g\", elem: i32, count: 8, value: splat(0), align: {align}, loc: @0)\nfunc ");
        File::<Module>::read(sample.replacen("\nfunc ", &format!("\n{global}"), 1).as_bytes(), "case")
    };
    for align in [4, 16, 1 << 28, 1 << 30] {
        read_with_alignment(align).unwrap_or_else(|error| panic!("{align}: {}", error.message));
    }
    for align in [0, 3, 24, 1 << 31, 1 << 32, 1 << 40, 1 << 63] {
        let error = read_with_alignment(align).expect_err("the alignment is refused");
        assert!(error.message.contains(&format!("has alignment {align}, which is not a power of two up to")), "{}", error.message);
    }
}

/// The verifier refuses edits of the TMEM allocation, of the buffer placements and of the warp roles of a function with `tcgen05`.
#[test]
fn edited_tensor_memory_is_refused() {
    let cases = [
        ("columns: 32", "columns: 48", "a power of two from 32 to 512, not 48"),
        ("columns: 32", "columns: 1024", "to 512, not 1024"),
        ("columns: 32", "columns: 16", "to 512, not 16"),
        ("tensor: (columns: 32, address: 15424), ", "", "buffer2 at 0 does not fit the function's 0 columns"),
        ("warps: 9,", "warps: 9, occupancy: 32,", "from 32 to 16"),
        ("address: 15424", "address: 15420", "overlaps something else"),
        ("address: 15424", "address: 15426", "the word at 15426 is outside the function's"),
        ("address: 15424", "address: 0", "overlaps something else"),
        ("(offset: 0, depth: 1)", "(offset: 32, depth: 1)", "buffer2 at 32 does not fit"),
        ("(offset: 0, depth: 1)", "(offset: 8, depth: 1)", "buffer2 at 8 does not fit"),
        ("first_warp: 0, warps: 4", "first_warp: 1, warps: 4", "has warps of another warp role"),
        ("consumers: [2]", "consumers: [0, 2]", "2 threads free a stage"),
        ("drain: mma", "drain: copies", "is not one of"),
    ];
    assert_refused(include_str!("tensor.sched"), &cases);
}

/// The verifier refuses edits of a loop that loads the first fragments of the next iteration before its last MMAs.
#[test]
fn invalid_prefetched_fragments_are_refused() {
    let cases = [
        ("atom: matrix, per_k_step: true, prefetch_next: true", "atom: matrix", "its fragments are not loaded per K step"),
        (
            "async_fence @0\n      pipeline_release",
            "barrier(id: 1, threads: 128) @0\n      pipeline_release",
            "an op stands between its MMA",
        ),
        (
            "pipeline_wait(pipeline: 0, stage: %19",
            "print_lock @0\n      pipeline_wait(pipeline: 0, stage: %19",
            "an op other than a wait precedes",
        ),
        (
            "pipeline_wait(pipeline: 0, stage: %19",
            "%90 = constant(0) : i32 @0\n      pipeline_wait(pipeline: 0, stage: %90",
            "a stage is computed in the iteration",
        ),
        (
            "continue(values: [%23",
            "%90 = binary(kind: add_f(rounding: nearest_even, ftz: false), lhs: %23, rhs: %23) : tile<128x128xf32, #0> @0\n      continue(values: [%90",
            "an op stands between its MMA",
        ),
    ];
    assert_refused(include_str!("prefetched_fragments.sched"), &cases);
    let outside = (
        "warp_role(role: 0) @0 {",
        "warp_role(role: 0) @0 {\n    pipeline_wait(pipeline: 0, stage: %8, phase: %9) @0\n    %91 = shared_load(buffer: 0, stage: %8, atom: matrix, prefetch_next: true) : tile<128x64xf16, #1> @0",
        "it is in no loop",
    );
    assert_refused(include_str!("prefetched_fragments.sched"), &[outside]);
}

/// Checks a valid file, and edits of it that the verifier must reject.
fn assert_refused(sample: &str, cases: &[(&str, &str, &str)]) {
    File::<Module>::read(sample.as_bytes(), "sample").expect("the sample is sound");
    for (from, to, expected) in cases {
        assert!(sample.contains(*from), "{from} is not in the sample");
        let error = File::<Module>::read(sample.replacen(from, to, 1).as_bytes(), "case").expect_err(to);
        let message = format!("{}: {}", error.code, error.message);
        assert!(message.contains(*expected), "{from} -> {to}: {message}");
    }
}
