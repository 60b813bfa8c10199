//! The option `--check`. For several kinds of faults, a test runs a faulty program and a correct program. It checks the code and
//! the location of the finding.

use std::path::Path;
use std::process::{Command, Output};

/// The header of the program, with its locations: `@n` is line `n` of `k.py`.
const HEADER: &str = r#"//!tile tileaa 4 lowered
//!tile name "k.py"
//!tile loc Source(file:(0),line:1,column:4,scope:None)
//!tile loc Source(file:(0),line:2,column:4,scope:None)
//!tile loc Source(file:(0),line:3,column:4,scope:None)
//!tile loc Source(file:(0),line:4,column:4,scope:None)
"#;

/// Ops that define `%13`, the pointers to the first eight elements of the first parameter. A test adds ops whose results have ids
/// from 17 on.
const ELEMENT_POINTERS: &str = "
  %10 = reshape(x: %0) : tile<1xptr<f32>> @1
  %11 = broadcast(x: %10) : tile<8xptr<f32>> @1
  %12 = iota : tile<8xi32> @1
  %13 = offset(ptr: %11, offset: %12) : tile<8xptr<f32>> @1";

/// Writes a `.aa` file with one function `k` of these parameters and ops into the folder, and runs `tile-run` on the file.
fn tile_run(folder: &Path, params: &str, body: &str, args: &[&str]) -> Output {
    let file = folder.join("k.aa");
    std::fs::write(&file, format!("{HEADER}func \"k\"({params}) () @1 {{{body}\n  return @1\n}}\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_tile-run")).arg(file).args(args).output().unwrap()
}

/// Runs a program with one kind of check. If `fault` is `None`, expects no findings. Otherwise, expects a finding with this code
/// and line.
fn expect_findings(check: &str, fault: Option<(&str, u32)>, params: &str, body: &str, args: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let check = format!("--check={check}");
    let args: Vec<&str> = [check.as_str()].into_iter().chain(args.iter().copied()).collect();
    let output = tile_run(folder.path(), params, body, &args);
    let findings = String::from_utf8(output.stderr).unwrap();
    match fault {
        None => assert!(output.status.success(), "{findings}"),
        Some((code, line)) => {
            assert_eq!(output.status.code(), Some(1), "{findings}");
            assert!(findings.contains(code) && findings.contains(&format!("k.py:{line}:4")), "{findings}");
        }
    }
}

/// The attribute of an ordinary load or store: a weak access in the sense of the PTX memory model.
const WEAK: &str = "order: (semantics: weak)";

#[test]
fn accesses_outside_the_buffers() {
    let body = format!("{ELEMENT_POINTERS}\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @2");
    expect_findings("memory", None, "%0: ptr<f32>", &body, &["zeros:f32[8]"]);
    expect_findings("memory", Some(("CHK001", 2)), "%0: ptr<f32>", &body, &["zeros:f32[7]"]);
}

#[test]
fn accesses_that_violate_an_in_bounds_promise() {
    let body = |index: u32| {
        format!(
            "
  %10 = make_memref(base: %0) : memref<7xf32, strides: [1], scope: 1> @1
  %11 = make_view(memref: %10) : view<4, memref<7xf32, strides: [1], scope: 1>> @1
  %12 = constant({index}) : i32 @1
  %20, %21 = load_view(view: %11, index: [%12], {WEAK}, in_bounds: [true]) : tile<4xf32>, token @2"
        )
    };
    expect_findings("memory", None, "%0: ptr<f32>", &body(0), &["zeros:f32[7]"]);
    expect_findings("memory", Some(("CHK001", 2)), "%0: ptr<f32>", &body(1), &["zeros:f32[7]"]);
}

#[test]
fn indices_outside_the_index_space() {
    let body = |index: u32| {
        format!(
            "
  %10 = make_memref(base: %0) : memref<7xf32, strides: [1], scope: 1> @1
  %11 = make_view(memref: %10) : view<4, memref<7xf32, strides: [1], scope: 1>> @1
  %12 = constant({index}) : i32 @1
  %20, %21 = load_view(view: %11, index: [%12], {WEAK}) : tile<4xf32>, token @2"
        )
    };
    expect_findings("memory", None, "%0: ptr<f32>", &body(1), &["zeros:f32[7]"]);
    expect_findings("memory", Some(("CHK001", 2)), "%0: ptr<f32>", &body(2), &["zeros:f32[7]"]);
}

#[test]
fn reads_of_uninitialised_memory() {
    let load = format!("\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @2");
    let body = format!("{ELEMENT_POINTERS}{load}");
    expect_findings("init", None, "%0: ptr<f32>", &body, &["zeros:f32[8]"]);
    expect_findings("init", Some(("CHK002", 2)), "%0: ptr<f32>", &body, &["empty:f32[8]"]);
    let written = format!(
        "{ELEMENT_POINTERS}
  %18 = constant(0.0) : tile<8xf32> @1
  %19 = store(ptr: %13, value: %18, {WEAK}) : token @1
  %20, %21 = load(ptr: %13, token: %19, {WEAK}) : tile<8xf32>, token @2"
    );
    expect_findings("init", None, "%0: ptr<f32>", &written, &["empty:f32[8]"]);
}

#[test]
fn accesses_that_no_token_orders() {
    let body = |token: &str| {
        format!(
            "{ELEMENT_POINTERS}
  %17 = make_token : token @1
  %18 = constant(0.0) : tile<8xf32> @1
  %19 = store(ptr: %13, value: %18, {WEAK}) : token @1
  %22 = join_tokens(tokens: [%17, {token}]) : token @1
  %20, %21 = load(ptr: %13, token: %22, {WEAK}) : tile<8xf32>, token @2"
        )
    };
    expect_findings("token", None, "%0: ptr<f32>", &body("%19"), &["zeros:f32[8]"]);
    expect_findings("token", Some(("CHK003", 2)), "%0: ptr<f32>", &body("%17"), &["zeros:f32[8]"]);
    // Two reads need no order.
    let reads = format!("{ELEMENT_POINTERS}\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @2");
    let two_reads = format!("{reads}\n  %22, %23 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @2");
    expect_findings("token", None, "%0: ptr<f32>", &two_reads, &["zeros:f32[8]"]);
    // A write after a read needs an order.
    let write = format!("{reads}\n  %22 = store(ptr: %13, value: %20, {WEAK}) : token @3");
    expect_findings("token", Some(("CHK003", 3)), "%0: ptr<f32>", &write, &["zeros:f32[8]"]);
}

#[test]
fn a_store_of_different_values_to_one_address_is_a_finding() {
    let body = |value: &str| {
        format!(
            "
  %6 = reshape(x: %0) : tile<1xptr<i32>> @1
  %7 = broadcast(x: %6) : tile<8xptr<i32>> @1
  %8 = iota : tile<8xi32> @1
  %9 = constant(3) : tile<8xi32> @1
  %19 = store(ptr: %7, value: {value}, {WEAK}) : token @2"
        )
    };
    expect_findings("token", None, "%0: ptr<i32>", &body("%9"), &["zeros:i32[1]"]);
    expect_findings("token", Some(("CHK003", 2)), "%0: ptr<i32>", &body("%8"), &["zeros:i32[1]"]);
}

#[test]
fn races_between_blocks() {
    let body = |step: u32| {
        format!(
            "
  %2 = block_id(axis: 0) : i32 @1
  %3 = constant({step}) : i32 @1
  %4 = binary(kind: mul_i(overflow: none), lhs: %2, rhs: %3) : i32 @1
  %5 = offset(ptr: %0, offset: %4) : ptr<f32> @1
  %6 = reshape(x: %5) : tile<1xptr<f32>> @1
  %7 = broadcast(x: %6) : tile<8xptr<f32>> @1
  %8 = iota : tile<8xi32> @1
  %9 = offset(ptr: %7, offset: %8) : tile<8xptr<f32>> @1
  %18 = constant(0.0) : tile<8xf32> @1
  %19 = store(ptr: %9, value: %18, {WEAK}) : token @2"
        )
    };
    expect_findings("race", None, "%0: ptr<f32>", &body(8), &["zeros:f32[64]", "--grid", "4"]);
    expect_findings("race", Some(("CHK004", 2)), "%0: ptr<f32>", &body(7), &["zeros:f32[64]", "--grid", "4"]);
}

/// Tile block 0 writes the data and then the flag. Tile block 1 polls the flag and then reads the data.
#[test]
fn a_release_and_an_acquire_order_blocks() {
    let body = |release: &str| {
        format!(
            "
  %2 = block_id(axis: 0) : i32 @1
  %3 = constant(0) : i32 @1
  %4 = compare(kind: int(predicate: equal, signedness: signed), lhs: %2, rhs: %3) : i1 @1
  %5 = constant(1) : i32 @1
  if(cond: %4, then: {{}}, otherwise: {{}}) @1 {{
    %6 = store(ptr: %0, value: %5, {WEAK}) : token @1
    %7 = store(ptr: %1, value: %5, token: %6, order: (semantics: {release}, scope: device)) : token @1
    yield @1
  }} {{
    loop(body: {{}}) @1 {{
      %8, %9 = load(ptr: %1, order: (semantics: acquire, scope: device)) : i32, token @1
      %10 = compare(kind: int(predicate: equal, signedness: signed), lhs: %8, rhs: %5) : i1 @1
      if(cond: %10, then: {{}}, otherwise: {{}}) @1 {{
        break @1
      }} {{
        yield @1
      }}
      continue @1
    }}
    %11, %12 = load(ptr: %0, {WEAK}) : i32, token @2
    yield @1
  }}"
        )
    };
    let args = ["zeros:i32[1]", "zeros:i32[1]", "--grid", "2"];
    expect_findings("race", None, "%0: ptr<i32>, %1: ptr<i32>", &body("release"), &args);
    expect_findings("race", Some(("CHK004", 2)), "%0: ptr<i32>, %1: ptr<i32>", &body("relaxed"), &args);
}

#[test]
fn assumptions_that_do_not_hold() {
    let body =
        "\n  %2 = assume(value: %0, fact: bounded(low: 0)) : i32 @2\n  %3 = assume(value: %2, fact: div_by(divisor: 4)) : i32 @3";
    expect_findings("assume", None, "%0: i32", body, &["8"]);
    expect_findings("assume", Some(("CHK005", 2)), "%0: i32", body, &["-4"]);
    expect_findings("assume", Some(("CHK005", 3)), "%0: i32", body, &["6"]);
}

#[test]
fn a_nan_is_reported_at_the_op_that_first_computes_it() {
    let body = format!(
        "{ELEMENT_POINTERS}
  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @1
  %22 = binary(kind: div_f(rounding: nearest_even, ftz: false), lhs: %20, rhs: %20) : tile<8xf32> @2
  %23 = binary(kind: add_f(rounding: nearest_even, ftz: false), lhs: %22, rhs: %22) : tile<8xf32> @3"
    );
    expect_findings("nan", None, "%0: ptr<f32>", &body, &["ones:f32[8]"]);
    expect_findings("nan", Some(("CHK006", 2)), "%0: ptr<f32>", &body, &["iota:f32[8]"]);
}

/// The default checks report every finding exactly once.
#[test]
fn a_finding_of_many_tile_blocks_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let body = format!("{ELEMENT_POINTERS}\n  %19 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @2").replace("%19 =", "%19, %20 =");
    let output = tile_run(folder.path(), "%0: ptr<f32>", &body, &["--check", "empty:f32[8]", "--grid", "100"]);
    let findings = String::from_utf8(output.stderr).unwrap();
    assert_eq!(findings.matches("CHK002").count(), 1, "{findings}");
}

/// cuTile Python assumes a divisor of every stride. On an axis with extent 1, the stride affects no address. A violated assumption
/// is then a fault only if another op uses the stride.
#[test]
fn a_stride_of_an_axis_with_extent_one_may_violate_its_assumption() {
    let body = |other_use: &str| {
        format!(
            "
  %10 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @2
  {other_use}
  %12 = make_memref(base: %0, sizes: [%1], strides: [%10]) : memref<?x4xf32, strides: [?, 1], scope: 1> @3"
        )
    };
    let params = "%0: ptr<f32>, %1: i32, %2: i32";
    let used = body("%11 = binary(kind: add_i(overflow: none), lhs: %10, rhs: %10) : i32 @1");
    expect_findings("assume", None, params, &body(""), &["zeros:f32[64]", "1", "4"]);
    expect_findings("assume", None, params, &body(""), &["zeros:f32[64]", "2", "16"]);
    expect_findings("assume", Some(("CHK005", 2)), params, &body(""), &["zeros:f32[64]", "2", "4"]);
    expect_findings("assume", Some(("CHK005", 2)), params, &used, &["zeros:f32[64]", "1", "4"]);
}
