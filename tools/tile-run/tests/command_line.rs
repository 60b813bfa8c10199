//! End-to-end tests of the command line: arguments, outputs, printing, synchronisation, tracing and errors.

use std::path::Path;
use std::process::{Command, Output};

/// The start of each stage file. Every op has the location `@1`: line 3 of `k.py`.
const HEADER: &str = "//!tile tileaa 4 lowered\n//!tile name \"k.py\"\n//!tile loc Source(file:(0),line:3,column:4,scope:None)\n";

/// Writes a `.aa` file with one function `k` of these parameters and ops into the folder, and runs `tile-run` on the file.
fn tile_run(folder: &Path, params: &str, body: &str, args: &[&str]) -> Output {
    let file = folder.join("k.aa");
    std::fs::write(&file, format!("{HEADER}func \"k\"({params}) () @1 {{{body}\n  return @1\n}}\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_tile-run")).arg(file).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The ops of a kernel that adds two arrays of 32-bit floats. Each tile block adds four elements.
const ADD_KERNEL: &str = "
  %3 = make_memref(base: %0) : memref<10xf32, strides: [1], scope: 1> @1
  %4 = make_memref(base: %1) : memref<10xf32, strides: [1], scope: 2> @1
  %5 = make_memref(base: %2) : memref<10xf32, strides: [1], scope: 3> @1
  %6 = make_view(memref: %3) : view<4, memref<10xf32, strides: [1], scope: 1>> @1
  %7 = make_view(memref: %4) : view<4, memref<10xf32, strides: [1], scope: 2>> @1
  %8 = make_view(memref: %5) : view<4, memref<10xf32, strides: [1], scope: 3>> @1
  %9 = block_id(axis: 0) : i32 @1
  %10, %11 = load_view(view: %6, index: [%9], order: (semantics: weak)) : tile<4xf32>, token @1
  %12, %13 = load_view(view: %7, index: [%9], order: (semantics: weak)) : tile<4xf32>, token @1
  %14 = binary(kind: add_f(rounding: nearest_even), lhs: %10, rhs: %12) : tile<4xf32> @1
  %15 = store_view(tile: %14, view: %8, index: [%9], order: (semantics: weak)) : token @1";
/// The parameters of `ADD_KERNEL`: two inputs and the output.
const THREE_POINTERS: &str = "%0: ptr<f32>, %1: ptr<f32>, %2: ptr<f32>";

#[test]
fn arrays_are_parsed_from_arguments_and_printed() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["iota:f32[10]", "ones:f32[10]", "sum=zeros:f32[2, 5]", "--grid", "3", "--print-outputs"];
    let printed = stdout(&tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, &args));
    assert!(printed.ends_with("sum: f32[2, 5] [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]\n"), "{printed}");
}

#[test]
fn outputs_are_arrays_that_can_be_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let args = ["iota:f32[10]", "ones:f32[10]", "sum=zeros:f32[10]", "--grid=3", "--out-dir", out];
    stdout(&tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, &args));
    let sum = format!("{out}/sum.npy");
    let args = [sum.as_str(), "ones:f32[10]", "sum=zeros:f32[10]", "--grid=3", "--print-outputs"];
    let printed = stdout(&tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, &args));
    assert!(printed.contains("sum: f32[10] [2, 3, 4, ..., 9, 10, 11]"), "{printed}");
}

/// If `--launch` names a launch description, `tile-run` needs no arguments for the parameters. It writes the outputs as raw bytes.
#[test]
fn a_launch_file_needs_no_other_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let ones: Vec<u8> = (0..10).flat_map(|_| 1f32.to_le_bytes()).collect();
    std::fs::write(folder.path().join("ones.bin"), ones).unwrap();
    let buffers: Vec<_> = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "ones.bin"}}"#)).into();
    let launch = format!(
        r#"{{"entry": "k", "grid": [3, 1, 1], "outputs": ["c"], "params": [{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}], "buffers": [{}]}}"#,
        buffers.join(", ")
    );
    let path = folder.path().join("launch.json");
    std::fs::write(&path, launch).unwrap();
    let out = folder.path().join("out");
    let args = ["--launch", path.to_str().unwrap(), "--out-dir", out.to_str().unwrap()];
    stdout(&tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, &args));
    let expected: Vec<u8> = (0..10).flat_map(|_| 2f32.to_le_bytes()).collect();
    assert_eq!(std::fs::read(out.join("c.bin")).unwrap(), expected);
}

#[test]
fn wrong_arguments_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |args: &[&str], code: i32, message: &str| {
        let output = tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, args);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    };
    fails(&["zeros:f32[10]"], 2, "the arguments fill 1 parameter, the kernel has 3");
    fails(&["zeros:f32[10]", "1", "2"], 4, "1");
    fails(&["zeros:g32[10]", "zeros:f32[10]", "zeros:f32[10]"], 2, "not like zeros:f32[4, 8]");
    fails(&["zeros:f32[10]", "zeros:f32[10]", "zeros:f32[10]", "--grid", "0"], 2, "a grid is X[,Y[,Z]]");
    fails(&["zeros:f32[10]", "zeros:f32[10]", "zeros:f32[10]", "--entry", "j"], 2, "no kernel is named 'j'");
    // An access beyond the end of an array is an error.
    fails(&["zeros:f32[10]", "zeros:f32[10]", "zeros:f32[9]", "--grid", "3"], 1, "byte 32 of 'arg2', whose size is 36");
}

#[test]
fn print_and_assert_write_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let body = "
  %1 = iota : tile<4xi32> @1
  %2 = reshape(x: %1) : tile<2x2xi32> @1
  %3 = block_id(axis: 0) : i32 @1
  %4 = print(format: \"%d: %d\\n\", args: [%3, %2]) : token @1
  %5 = constant([1, 0, 2, 3]) : tile<4xi32> @1
  %6 = compare(kind: int(predicate: less_than_or_equal, signedness: signed), lhs: %5, rhs: %1) : tile<4xi1> @1
  assert(cond: %6, message: \"sorted\") @1";
    let output = tile_run(folder.path(), "%0: i32", body, &["1", "--grid", "2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("0: [[0, 1], [2, 3]]\n"));
    assert!(stderr(&output).contains("k.py:3: tile block: [0, 0, 0], position: [0]: sorted"), "{}", stderr(&output));
}

/// Each tile block waits until the counter equals the number of later blocks, and then adds 1 to the counter. The last block
/// therefore adds first.
const ADD_IN_REVERSE_ORDER: &str = "
  %1 = block_id(axis: 0) : i32 @1
  %2 = block_count(axis: 0) : i32 @1
  %3 = constant(1) : i32 @1
  %4 = binary(kind: sub_i(overflow: none), lhs: %2, rhs: %1) : i32 @1
  %5 = binary(kind: sub_i(overflow: none), lhs: %4, rhs: %3) : i32 @1
  loop @1 {
    %6, %7 = load(ptr: %0, order: (semantics: acquire, scope: device)) : i32, token @1
    %8 = compare(kind: int(predicate: equal, signedness: signed), lhs: %6, rhs: %5) : i1 @1
    if(cond: %8) @1 {
      break @1
    } {
      yield @1
    }
    continue @1
  }
  %9, %10 = atomic_rmw(ptr: %0, value: %3, order: (semantics: release, scope: device), mode: add) : i32, token @1";

#[test]
fn blocks_that_wait_for_later_ones_yield() {
    let folder = tempfile::tempdir().unwrap();
    // Every tile block except the last block must wait.
    let args = ["zeros:i32[1]", "--grid", "40", "--print-outputs"];
    assert_eq!(stdout(&tile_run(folder.path(), "%0: ptr<i32>", ADD_IN_REVERSE_ORDER, &args)), "arg0: i32[1] [40]\n");
}

#[test]
fn deadlocks_between_blocks_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    let output = tile_run(folder.path(), "%0: ptr<i32>", ADD_IN_REVERSE_ORDER, &["ones:i32[1]", "--grid", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("wait for memory that no block changes"), "{}", stderr(&output));
}

#[test]
fn an_endless_loop_stops_at_max_ops() {
    let folder = tempfile::tempdir().unwrap();
    let output = tile_run(folder.path(), "%0: i32", "\n  loop @1 {\n    continue @1\n  }", &["1", "--max-ops=1000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("exceeds the op limit of --max-ops"), "{}", stderr(&output));
}

/// Tests the arms of an `if`, loop-carried values, and an early exit from a loop.
#[test]
fn loops_and_conditions_execute() {
    let folder = tempfile::tempdir().unwrap();
    let body = "
  %2 = constant(0) : i32 @1
  %3 = constant(2) : i32 @1
  %4 = for(lower: %2, upper: %1, step: %3, init: [%2], unsigned: false) : i32 @1 {
    (%5: i32, %6: i32)
    %7 = binary(kind: add_i(overflow: none), lhs: %5, rhs: %6) : i32 @1
    continue(values: [%7]) @1
  }
  %8 = loop(init: [%4]) : i32 @1 {
    (%9: i32)
    %10 = binary(kind: sub_i(overflow: none), lhs: %9, rhs: %3) : i32 @1
    %11 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %10, rhs: %1) : i1 @1
    if(cond: %11) @1 {
      break(values: [%9]) @1
    } {
      continue(values: [%10]) @1
    }
    continue(values: [%9]) @1
  }
  %12 = store(ptr: %0, value: %8, order: (semantics: weak)) : token @1";
    // The first loop computes 0 + 2 + 4 + 6 + 8 = 20. The second loop subtracts 2 until the next value would be less than 9.
    let args = ["zeros:i32[1]", "9", "--print-outputs"];
    let params = "%0: ptr<i32>, %1: i32";
    assert_eq!(stdout(&tile_run(folder.path(), params, body, &args)), "arg0: i32[1] [10]\n");
    let args = ["zeros:i32[1]", "-9", "--print-outputs"];
    assert!(tile_run(folder.path(), params, body, &args).status.success());
}

#[test]
fn a_trace_is_filtered() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["iota:f32[10]", "ones:f32[10]", "zeros:f32[10]", "--grid=3", "--trace=op=binary,block=1"];
    let output = tile_run(folder.path(), THREE_POINTERS, ADD_KERNEL, &args);
    assert_eq!(stderr(&output), "[1, 0, 0] k.py:3:4: binary: %14 = f32[4] [5, 6, 7, 8]\n");
}

/// The executor runs a reduction body with control flow separately for each element. This body contains a nested reduction.
#[test]
fn a_reduction_body_may_contain_control_flow() {
    let folder = tempfile::tempdir().unwrap();
    let body = "
  %1 = iota : tile<16xi32> @1
  %2 = constant(5) : tile<16xi32> @1
  %3 = binary(kind: xor, lhs: %1, rhs: %2) : tile<16xi32> @1
  %4 = reshape(x: %3) : tile<4x4xi32> @1
  %5 = reduce(operands: [%4], dim: 1, identities: [0]) : tile<4xi32> @1 {
    (%6: i32, %7: i32)
    %8 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %6, rhs: %7) : i1 @1
    %9 = if(cond: %8) : i32 @1 {
      yield(values: [%7]) @1
    } {
      %10 = reshape(x: %6) : tile<1xi32> @1
      %11 = broadcast(x: %10) : tile<2xi32> @1
      %12 = reduce(operands: [%11], dim: 0, identities: [0]) : i32 @1 {
        (%13: i32, %14: i32)
        %15 = binary(kind: min_i(signedness: signed), lhs: %13, rhs: %14) : i32 @1
        yield(values: [%15]) @1
      }
      yield(values: [%12]) @1
    }
    yield(values: [%9]) @1
  }
  %16 = print(format: \"%d\", args: [%5]) : token @1";
    assert_eq!(stdout(&tile_run(folder.path(), "%0: i32", body, &["1"])), "[7, 3, 15, 11]");
}
