//! Programs in MLIR text of Tile IR. The tests check the results of the programs, and the faults that `--check` finds.

use std::process::{Command, Output};

/// Runs `tile-run` on a kernel with these parameters and ops. The location `#at2` is line 2 of `k.py`, for example.
fn tile_run(params: &str, body: &str, args: &[&str]) -> Output {
    let lines: String = (1..5).map(|line| format!("#at{line} = loc(\"k.py\":{line}:4)\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.mlir");
    let text = format!("{lines}entry @k({params}) {{\n{body}\n  return loc(#at1)\n}} loc(#at1)\n");
    std::fs::write(&file, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_tile-run")).arg(file).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a program with one kind of check. If `fault` is `None`, expects no findings. Otherwise, expects a finding with this code
/// and line.
fn expect_findings(check: &str, fault: Option<(&str, u32)>, params: &str, body: &str, args: &[&str]) {
    let check = format!("--check={check}");
    let args: Vec<&str> = [check.as_str()].into_iter().chain(args.iter().copied()).collect();
    let output = tile_run(params, body, &args);
    let findings = String::from_utf8(output.stderr).unwrap();
    match fault {
        None => assert!(output.status.success(), "{findings}"),
        Some((code, line)) => {
            assert_eq!(output.status.code(), Some(1), "{findings}");
            assert!(findings.contains(code) && findings.contains(&format!("k.py:{line}:4")), "{findings}");
        }
    }
}

const POINTER_PARAM: &str = "%a: tile<ptr<f32>>";

/// Ops that define `%p`, the pointers to the first eight elements of the parameter `%a`, and `%zero`, a tile of eight zeros.
const ELEMENT_POINTERS: &str = "
  %r = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>> loc(#at1)
  %b = broadcast %r : tile<1xptr<f32>> -> tile<8xptr<f32>> loc(#at1)
  %i = iota : tile<8xi32> loc(#at1)
  %p = offset %b, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>> loc(#at1)
  %zero = constant <f32: 0.000000e+00> : tile<8xf32> loc(#at1)";

const LOAD: &str = "\n  %x, %t = load_ptr_tko weak %p : tile<8xptr<f32>> -> tile<8xf32>, token loc(#at2)";

#[test]
fn accesses_outside_memory_and_reads_of_uninitialised_memory() {
    let body = format!("{ELEMENT_POINTERS}{LOAD}");
    expect_findings("memory", None, POINTER_PARAM, &body, &["zeros:f32[8]"]);
    expect_findings("memory", Some(("CHK001", 2)), POINTER_PARAM, &body, &["zeros:f32[7]"]);
    expect_findings("init", None, POINTER_PARAM, &body, &["zeros:f32[8]"]);
    expect_findings("init", Some(("CHK002", 2)), POINTER_PARAM, &body, &["empty:f32[8]"]);
    // Memory that the tile block allocates is uninitialised too.
    let local = |first: &str| {
        format!(
            "
  %m = alloca num_elem = 1, alignment = 4 : tile<ptr<f32>> loc(#at1)
  %one = constant <f32: 1.000000e+00> : tile<f32> loc(#at1)
  {first} loc(#at1)
  %x, %t = load_ptr_tko weak %m token=%s : tile<ptr<f32>> -> tile<f32>, token loc(#at2)"
        )
    };
    let stored = local("%s = store_ptr_tko weak %m, %one : tile<ptr<f32>>, tile<f32> -> token");
    expect_findings("init", None, POINTER_PARAM, &stored, &["zeros:f32[1]"]);
    expect_findings("init", Some(("CHK002", 2)), POINTER_PARAM, &local("%s = make_token : token"), &["zeros:f32[1]"]);
}

#[test]
fn tokens_order_accesses() {
    let body = |token: &str| {
        format!(
            "{ELEMENT_POINTERS}
  %s = store_ptr_tko weak %p, %zero : tile<8xptr<f32>>, tile<8xf32> -> token loc(#at1)
  %n = make_token : token loc(#at1)
  %j = join_tokens %n, {token} : token loc(#at1)
  %x, %t = load_ptr_tko weak %p token=%j : tile<8xptr<f32>> -> tile<8xf32>, token loc(#at2)"
        )
    };
    expect_findings("token", None, POINTER_PARAM, &body("%s"), &["zeros:f32[8]"]);
    expect_findings("token", Some(("CHK003", 2)), POINTER_PARAM, &body("%n"), &["zeros:f32[8]"]);
}

#[test]
fn blocks_race_without_synchronisation() {
    let body = |mode: &str| {
        format!(
            "
  %one = constant <f32: 1.000000e+00> : tile<f32> loc(#at1)
  {mode} loc(#at2)"
        )
    };
    let store = body("%s = store_ptr_tko weak %a, %one : tile<ptr<f32>>, tile<f32> -> token");
    let add = body("%o, %s = atomic_rmw_tko relaxed device %a, addf, %one : tile<ptr<f32>>, tile<f32> -> tile<f32>, token");
    expect_findings("race", None, POINTER_PARAM, &add, &["zeros:f32[1]", "--grid=8"]);
    expect_findings("race", Some(("CHK004", 2)), POINTER_PARAM, &store, &["zeros:f32[1]", "--grid=8"]);
    expect_findings("race", None, POINTER_PARAM, &store, &["zeros:f32[1]", "--grid=1"]);
}

#[test]
fn violated_assumptions_are_reported() {
    let body = "
  %x = assume div_by<16>, %n : tile<i32> loc(#at2)
  %y = assume bounded<0, 64>, %x : tile<i32> loc(#at3)";
    expect_findings("assume", None, "%n: tile<i32>", body, &["64"]);
    expect_findings("assume", Some(("CHK005", 2)), "%n: tile<i32>", body, &["8"]);
    expect_findings("assume", Some(("CHK005", 3)), "%n: tile<i32>", body, &["80"]);
}

/// cuTile Python assumes a divisor of every stride. On an axis with extent 1, the stride affects no address. A violated assumption
/// is then a fault only if another op uses the stride.
#[test]
fn a_stride_of_an_axis_with_extent_one_may_violate_its_assumption() {
    let body = |other_use: &str| {
        format!(
            "
  %x = assume div_by<16>, %s : tile<i32> loc(#at2)
  %y = assume bounded<0, ?>, %x : tile<i32> loc(#at1)
  {other_use}
  %v = make_tensor_view %a, shape = [%n, 4], strides = [%y, 1] : tile<i32> -> tensor_view<?x4xf32, strides=[?,1]> loc(#at3)"
        )
    };
    let params = "%a: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>";
    let used = body("%z = addi %x, %x : tile<i32> loc(#at1)");
    expect_findings("assume", None, params, &body(""), &["zeros:f32[64]", "1", "4"]);
    expect_findings("assume", None, params, &body(""), &["zeros:f32[64]", "2", "16"]);
    expect_findings("assume", Some(("CHK005", 2)), params, &body(""), &["zeros:f32[64]", "2", "4"]);
    expect_findings("assume", Some(("CHK005", 2)), params, &used, &["zeros:f32[64]", "1", "4"]);
}

/// A program may compute with a tile that extends over the edge of a tensor. No result may depend on the elements outside the
/// tensor, unless the view specifies their padding value.
#[test]
fn undetermined_elements_must_not_be_used() {
    let body = |padding: &str, rest: &str| {
        let (tensor, tiles) =
            ("tensor_view<6xf32, strides=[1]>", format!("partition_view<tile=(4){padding}, tensor_view<6xf32, strides=[1]>>"));
        let sum = "reduce %x dim=0 identities=[0.000000e+00 : f32] : tile<4xf32> -> tile<f32>
    (%l: tile<f32>, %r: tile<f32>) {
      %s = addf %l, %r : tile<f32> loc(#at1)
      yield %s : tile<f32> loc(#at1)
    } loc(#at1)";
        let rest = rest.replace("TILES", &tiles).replace("SUM", sum);
        format!(
            "
  %v = make_tensor_view %a, shape = [6], strides = [1] : {tensor} loc(#at1)
  %t = make_partition_view %v : {tiles} loc(#at1)
  %one = constant <i32: 1> : tile<i32> loc(#at1)
  %x, %t1 = load_view_tko weak %t[%one] : {tiles}, tile<i32> -> tile<4xf32>, token loc(#at1)
{rest}"
        )
    };
    let stored_back = "  %y = addf %x, %x : tile<4xf32> loc(#at1)
  %t2 = store_view_tko weak %y, %t[%one] token=%t1 : tile<4xf32>, TILES, tile<i32> -> token loc(#at2)";
    let stored_elsewhere = "  %zero = constant <i32: 0> : tile<i32> loc(#at1)
  %y = addf %x, %x : tile<4xf32> loc(#at1)
  %t2 = store_view_tko weak %y, %t[%zero] token=%t1 : tile<4xf32>, TILES, tile<i32> -> token loc(#at2)";
    let summed = "  %sum = SUM
  %t2 = store_ptr_tko weak %a, %sum token=%t1 : tile<ptr<f32>>, tile<f32> -> token loc(#at2)";
    let printed = "  %t2 = print_tko \"%f\", %x token=%t1 : tile<4xf32> -> token loc(#at2)";
    let compared = "  %zero = constant <f32: 0.000000e+00> : tile<4xf32> loc(#at1)
  %mask = cmpf equal ordered %x, %zero : tile<4xf32> -> tile<4xi1> loc(#at1)
  %p0 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>> loc(#at1)
  %p = broadcast %p0 : tile<1xptr<f32>> -> tile<4xptr<f32>> loc(#at1)
  %y, %t2 = load_ptr_tko weak %p, %mask, %zero token=%t1 : tile<4xptr<f32>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>, token loc(#at2)";
    let cases = [(stored_back, false), (stored_elsewhere, true), (summed, true), (printed, true), (compared, true)];
    for (rest, fault) in cases {
        let fault = fault.then_some(("CHK010", 2));
        expect_findings("padding", fault, POINTER_PARAM, &body("", rest), &["ones:f32[6]"]);
        expect_findings("padding", None, POINTER_PARAM, &body(", padding_value = zero", rest), &["ones:f32[6]"]);
    }
}

/// As on a GPU, the message of the assertion goes to standard output. The error of `tile-run` goes to standard error.
#[test]
fn a_failed_assertion_prints_its_message() {
    let body = "
  %zero = constant <i32: 0> : tile<i32> loc(#at1)
  %t = cmpi equal %n, %zero, signed : tile<i32> -> tile<i1> loc(#at1)
  assert %t, \"n is not zero\" : tile<i1> loc(#at2)";
    let output = tile_run("%n: tile<i32>", body, &["7"]);
    let message = "k.py:2: tile block: [0, 0, 0], position: []: n is not zero";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{message}\n"));
    assert!(String::from_utf8(output.stderr).unwrap().contains(&format!("error[RUN040]: {message}")));
}

#[test]
fn a_division_by_zero_is_found() {
    let body = "
  %q = divi %n, %n signed : tile<i32> loc(#at2)
  %r = remi %n, %n unsigned : tile<i32> loc(#at3)";
    expect_findings("divide", None, "%n: tile<i32>", body, &["1"]);
    expect_findings("divide", Some(("CHK008", 2)), "%n: tile<i32>", body, &["0"]);
}

#[test]
fn a_reduction_that_depends_on_its_order_is_found() {
    let body = |left: &str| {
        format!(
            "
  %i = iota : tile<8xi32> loc(#at1)
  %r = reduce %i dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%left: tile<i32>, %right: tile<i32>) {{
    %square = muli %left, %left : tile<i32>
    %s = addi {left}, %right : tile<i32>
    yield %s : tile<i32>
  }} loc(#at2)"
        )
    };
    expect_findings("order", None, "%n: tile<i32>", &body("%left"), &["1"]);
    expect_findings("order", Some(("CHK009", 2)), "%n: tile<i32>", &body("%square"), &["1"]);
}

#[test]
fn floats_may_depend_on_their_order_by_rounding_only() {
    let body = |[numbers, large]: [&str; 2], fold: &str, combined: &str| {
        format!(
            "
  %i = iota : tile<8xi32> loc(#at1)
  %one = constant <i32: 1> : tile<8xi32>
  %two = constant <i32: 2> : tile<8xi32>
  %large = constant <f32: {large}> : tile<8xf32>
  %odd = andi %i, %one : tile<8xi32>
  %twice = muli %odd, %two : tile<8xi32>
  %sign = subi %one, %twice : tile<8xi32>
  %f = itof {numbers} signed : tile<8xi32> -> tile<8xf32>
  %x = mulf %f, %large : tile<8xf32>
  %r = {fold}
  (%left: tile<f32>, %right: tile<f32>) {{
    %s = {combined} %left, %right : tile<f32>
    yield %s : tile<f32>
  }} loc(#at2)"
        )
    };
    let reduced = "reduce %x dim=0 identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<f32>";
    let scanned =
        |reverse: bool| format!("scan %x dim=0 reverse={reverse} identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<8xf32>");
    let cases = [
        // Neighbouring elements cancel each other, but the sum of every second element overflows.
        (["%sign", "2.0e+38"], reduced, "addf", true),
        (["%sign", "2.0e+38"], reduced, "maxf", false),
        (["%odd", "1.0e+30"], reduced, "addf", false),
        // Element 0 is zero. The product is zero if it starts with element 0. In another order, it reaches infinity first.
        (["%i", "1.0e+30"], &scanned(false), "mulf", true),
        (["%i", "1.0e+30"], &scanned(true), "mulf", false),
        (["%sign", "1.0e+30"], &scanned(false), "maxf", false),
    ];
    for (numbers, fold, combined, found) in cases {
        expect_findings("order", found.then_some(("CHK009", 2)), "%n: tile<i32>", &body(numbers, fold, combined), &["1"]);
    }
}

#[test]
fn a_nan_is_reported_at_its_origin() {
    let body = format!("{ELEMENT_POINTERS}{LOAD}\n  %l = log %x : tile<8xf32> loc(#at3)\n  %m = negf %l : tile<8xf32> loc(#at4)");
    expect_findings("nan", None, POINTER_PARAM, &body, &["iota:f32[8]"]);
    let negative = body.replace("log %x", "log %n").replace("\n  %l", "\n  %n = subf %zero, %x : tile<8xf32> loc(#at2)\n  %l");
    expect_findings("nan", Some(("CHK006", 3)), POINTER_PARAM, &negative, &["iota:f32[8]"]);
}

/// Runs a program that prints a value with the format `%d` or `%f`, and compares the printed text.
fn expect_result(body: &str, result: &str, ty: &str, expected: &str) {
    let format = if ty.contains('f') { "%f" } else { "%d" };
    let print = format!("{body}\n  %token = print_tko \"{format}\", {result} : {ty} -> token loc(#at1)");
    assert_eq!(stdout(&tile_run("%n: tile<i32>", &print, &["3"])), expected, "{body}");
}

#[test]
fn ops_that_move_elements_or_bytes() {
    let x = "
  %i = iota : tile<8xi32> loc(#at1)
  %x = reshape %i : tile<8xi32> -> tile<2x4xi32> loc(#at1)
  %one = constant <i32: 1> : tile<i32> loc(#at1)";
    let permute = format!("{x}\n  %y = permute %x [1, 0] : tile<2x4xi32> -> tile<4x2xi32> loc(#at1)");
    expect_result(&permute, "%y", "tile<4x2xi32>", "[[0, 4], [1, 5], [2, 6], [3, 7]]");
    let extract = format!("{x}\n  %y = extract %x[%one, %one] : tile<2x4xi32> -> tile<1x2xi32> loc(#at1)");
    expect_result(&extract, "%y", "tile<1x2xi32>", "[[6, 7]]");
    let cat = format!("{x}\n  %y = cat %x, %x dim = 0 : tile<2x4xi32>, tile<2x4xi32> -> tile<4x4xi32> loc(#at1)");
    expect_result(&cat, "%y", "tile<4x4xi32>", "[[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]");
    let pack = "
  %i = iota : tile<2xi32> loc(#at1)
  %y = pack %i : tile<2xi32> -> tile<8xi8> loc(#at1)";
    expect_result(pack, "%y", "tile<8xi8>", "[0, 0, 0, 0, 1, 0, 0, 0]");
}

#[test]
fn reductions_and_matmuls() {
    let sum = |op: &str| {
        format!(
            "
  %i = iota : tile<8xi32> loc(#at1)
  %x = reshape %i : tile<8xi32> -> tile<2x4xi32> loc(#at1)
  %y = {op}
  (%e: tile<i32>, %s: tile<i32>) {{
    %t = addi %e, %s : tile<i32> loc(#at1)
    yield %t : tile<i32> loc(#at1)
  }} loc(#at1)"
        )
    };
    let reduce = sum("reduce %x dim=1 identities=[0 : i32] : tile<2x4xi32> -> tile<2xi32>");
    expect_result(&reduce, "%y", "tile<2xi32>", "[6, 22]");
    let scan = sum("scan %x dim=1 reverse=true identities=[0 : i32] : tile<2x4xi32> -> tile<2x4xi32>");
    expect_result(&scan, "%y", "tile<2x4xi32>", "[[6, 6, 5, 3], [22, 18, 13, 7]]");
    let product = "
  %i = iota : tile<4xi32> loc(#at1)
  %f = itof %i signed : tile<4xi32> -> tile<4xf32> loc(#at1)
  %h = ftof %f : tile<4xf32> -> tile<4xf16> loc(#at1)
  %x = reshape %h : tile<4xf16> -> tile<2x2xf16> loc(#at1)
  %c = constant <f32: 5.000000e-01> : tile<2x2xf32> loc(#at1)
  %y = mmaf %x, %x, %c : tile<2x2xf16>, tile<2x2xf16>, tile<2x2xf32> loc(#at1)";
    expect_result(product, "%y", "tile<2x2xf32>", "[[2.500000, 3.500000], [6.500000, 11.500000]]");
}

#[test]
fn loops_carry_values() {
    let body = "
  %zero = constant <i32: 0> : tile<i32> loc(#at1)
  %one = constant <i32: 1> : tile<i32> loc(#at1)
  %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%v = %zero) -> (tile<i32>) {
    %w = addi %v, %i : tile<i32> loc(#at1)
    continue %w : tile<i32> loc(#at1)
  } loc(#at1)
  %y = loop iter_values(%v = %s) : tile<i32> -> tile<i32> {
    %w = addi %v, %v : tile<i32> loc(#at1)
    %c = cmpi greater_than %w, %n, signed : tile<i32> -> tile<i1> loc(#at1)
    if %c {
      break %w : tile<i32> loc(#at1)
    } loc(#at1)
    continue %w : tile<i32> loc(#at1)
  } loc(#at1)";
    expect_result(body, "%y", "tile<i32>", "6");
}
