//! Tests the execution of `.as` and `.sched` files, in which each thread computes on the elements in its registers. `tile-run`
//! rejects a program in which a thread needs an element that is not in its registers.

use std::process::{Command, Output};

/// The function attribute for a CTA of 128 threads, which the warp and lane bits of `LAYOUTS` assume.
const FOUR_WARPS: &str = "warps: 4";
/// Layouts #0 to #2 distribute 256 elements over 128 threads. In #0, a thread has two neighbouring elements. Layout #1 is #0 with
/// warps 1 and 2 exchanged. In #2, the two elements of a thread are 128 apart.
///
/// Layouts #3 and #4 distribute 128 elements, one element per thread. Layout #4 is #3 with lanes 1 and 2 of every four exchanged.
const LAYOUTS: &str = "\
layout #0 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64, 128])
layout #1 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [128, 64])
layout #2 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #3 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #4 = (lane: [2, 1, 4, 8, 16], warp: [32, 64])
";
/// The type of both arrays in global memory: 256 floats without gaps.
const MEMORY: &str = "memref<256xf32, strides: [1], scope: 1>";

/// Runs `tile-run` on a kernel whose views `%a` and `%b` cover its two arrays. `header` is the dialect with its version and
/// stage, and `attrs` are the function attributes.
fn tile_run(header: &str, attrs: &str, body: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k");
    let view = format!("view<256, {MEMORY}>");
    let text = format!(
        "//!tile {header}
//!tile target sm_90
//!tile name \"k.py\"
//!tile loc Source(file:(0),line:1,column:4,scope:None)
//!tile loc Source(file:(0),line:2,column:4,scope:None)
{LAYOUTS}func \"k\"(%0: ptr<f32>, %1: ptr<f32>) ({attrs}) @1 {{
  %i = constant(0) : i32 @1
  %ma = make_memref(base: %0) : {MEMORY} @1
  %mb = make_memref(base: %1) : {MEMORY} @1
  %a = make_view(memref: %ma) : {view} @1
  %b = make_view(memref: %mb) : {view} @1
{body}
  return @1
}}
"
    );
    std::fs::write(&file, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_tile-run")).arg(file).args(args).arg("--print-outputs").output().unwrap()
}

/// The arguments of the kernel: the numbers from 0 to 255, and an array of zeros for the results.
const ARGS: [&str; 2] = ["iota:f32[256]", "zeros:f32[256]"];
/// The attribute of an ordinary load or store: a weak access in the sense of the PTX memory model.
const WEAK: &str = "order: (semantics: weak)";

fn load(layout: u32, vector_bits: u32) -> String {
    format!(
        "  %x, %t = load_view(view: %a, index: [%i], {WEAK}, atom: vector(vector_bits: {vector_bits})) : tile<256xf32, #{layout}>, token @2\n"
    )
}
fn store(value: &str, vector_bits: u32) -> String {
    format!("  %u = store_view(tile: {value}, view: %b, index: [%i], {WEAK}, atom: vector(vector_bits: {vector_bits})) : token @2")
}

/// Runs a kernel on `ARGS`. Returns the printed contents of the second array, or the error message.
fn printed_result(header: &str, attrs: &str, body: &str) -> Result<String, String> {
    let output = tile_run(header, attrs, body, &ARGS);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if !output.status.success() {
        return Err(text(output.stderr));
    }
    let printed = text(output.stdout);
    Ok(printed.lines().find_map(|line| line.strip_prefix("arg1: f32[256] ")).unwrap_or_default().to_string())
}

fn run_program(body: &str) -> Result<String, String> {
    printed_result("tileas 7 atoms", FOUR_WARPS, body)
}

/// Expects an error with this text, from the verifier or during the run.
fn expect_error(outcome: Result<String, String>, expected_text: &str) {
    let message = outcome.unwrap_err();
    assert!(message.contains(expected_text), "{message}");
}

const INCREASING: &str = "[0, 1, 2, ..., 253, 254, 255]";

#[test]
fn layout_conversions_move_elements_only_within_their_route() {
    let unchanged = load(0, 1) + &store("%x", 1);
    assert_eq!(run_program(&unchanged).unwrap(), INCREASING);
    // The route `registers` cannot move data between threads.
    let renamed = load(0, 1) + "  %y = convert_layout(x: %x, route: registers) : tile<256xf32, #1> @2\n" + &store("%y", 1);
    expect_error(run_program(&renamed), "between threads");
    let shuffled = load(0, 1) + "  %y = convert_layout(x: %x, route: shuffle) : tile<256xf32, #1> @2\n" + &store("%y", 1);
    expect_error(run_program(&shuffled), "between warps");
    let mixed = load(0, 1)
        + "  %c = constant(0.0) : tile<256xf32, #1> @2
  %y = binary(kind: add_f(rounding: nearest_even), lhs: %x, rhs: %c) : tile<256xf32, #0> @2\n"
        + &store("%y", 1);
    expect_error(run_program(&mixed), "different layouts");
}

#[test]
fn vector_accesses_need_contiguous_elements() {
    expect_error(run_program(&(load(2, 1) + &store("%x", 0))), "do not run along one dimension");
    expect_error(run_program(&(load(0, 2) + &store("%x", 0))), "has no vectors of 4 elements");
}

const BUFFERS: &str = "buffers: [(elem: f32, shape: [256], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 16)]";

fn exchange(ops_between: &str) -> String {
    load(0, 1)
        + "  shared_store(x: %x, buffer: 0, atom: vector(vector_bits: 1)) @1\n"
        + ops_between
        + "  %y = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<256xf32, #2> @2\n"
        + &store("%y", 0)
}

#[test]
fn exchange_between_warps_needs_a_barrier() {
    let attrs = format!("{FOUR_WARPS}, {BUFFERS}");
    assert_eq!(printed_result("tileas 7 atoms", &attrs, &exchange("")).unwrap(), INCREASING);
    let attrs =
        |bytes: u32| format!("program: ({FOUR_WARPS}, {BUFFERS}), placements: [(offset: 0, depth: 1)], shared_bytes: {bytes}");
    let barrier = "  barrier(id: 0, threads: 128) @1\n";
    assert_eq!(printed_result("sched 7 alloc", &attrs(1024), &exchange("")).unwrap(), INCREASING);
    assert_eq!(printed_result("sched 7 materialize", &attrs(1024), &exchange(barrier)).unwrap(), INCREASING);
    let race = printed_result("sched 7 materialize", &attrs(1024), &exchange("")).unwrap_err();
    let message = "stage 0 of buffer0 is read before a barrier after it was written";
    assert!(race.contains("k.py:2:4") && race.contains(message), "{race}");
}

/// The data of a copy is visible to the issuing warp after the wait, and to other warps after a barrier that follows the wait.
#[test]
fn a_copy_is_visible_after_its_wait() {
    let [commit, wait, barrier] = ["copy_commit", "copy_wait(pending: 0)", "barrier(id: 0, threads: 128)"];
    let run = |ops_between: &[&str]| {
        let attrs = format!("program: ({FOUR_WARPS}, {BUFFERS}), placements: [(offset: 0, depth: 1)], shared_bytes: 1024");
        let ops_between: String = ops_between.iter().map(|op| format!("  {op} @1\n")).collect();
        let copy = format!("copy_view(view: %a, index: [%i], {WEAK}, whole: true, buffer: 0, layout: 0, atom: async(bytes: 8))");
        let load = "  %y = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<256xf32, #2> @2\n";
        printed_result("sched 7 materialize", &attrs, &(format!("  %t = {copy} : token @1\n{ops_between}{load}") + &store("%y", 0)))
    };
    assert_eq!(run(&[commit, wait, barrier]).unwrap(), INCREASING);
    // The hazard checker of the verifier reports these faults before execution. Unit tests test the checks of the executor.
    expect_error(run(&[commit, barrier]), "is read before its copy was waited for");
    expect_error(run(&[wait, barrier]), "is read before its copy was waited for");
    expect_error(run(&[commit, wait]), "is read before a barrier after");
    expect_error(run(&[commit, barrier, wait]), "is read before a barrier after");
}

#[test]
fn a_buffer_is_undefined_before_its_first_write() {
    let attrs = format!("{FOUR_WARPS}, {BUFFERS}");
    let body = "  %y = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<256xf32, #2> @2\n".to_string() + &store("%y", 0);
    expect_error(printed_result("tileas 7 atoms", &attrs, &body), "read before anything is written");
}

#[test]
fn a_reduction_combines_the_registers_of_a_thread() {
    let reduce = |result: u32| {
        format!(
            "  %r = reshape(x: %x) : tile<2x128xf32, #2> @2
  %s = reduce_registers(operands: [%r], dim: 0, body: {{}}) : tile<1x128xf32, #{result}> @2 {{
    (%e: f32, %acc: f32)
    %n = binary(kind: add_f(rounding: nearest_even), lhs: %e, rhs: %acc) : f32 @2
    yield(values: [%n]) @2
  }}
  %w = broadcast(x: %s) : tile<2x128xf32, #2> @2
  %y = reshape(x: %w) : tile<256xf32, #2> @2
"
        )
    };
    let body = |result: u32| load(2, 0) + &reduce(result) + &store("%y", 0);
    assert_eq!(run_program(&body(3)).unwrap(), "[128, 130, 132, ..., 378, 380, 382]");
    expect_error(run_program(&body(4)), "does not have the layout of the reduced operand");
}
