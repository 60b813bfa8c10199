//! Tests the debugger at a terminal: steps over lines and into calls in both directions, breakpoints, watches, printed values, and
//! stops at faults.

use std::path::Path;
use std::process::Command;

/// The source `k.py` of the debugged kernel.
const SOURCE: &str = "\
def helper(x):
    y = x * 2
    return y + 1
def k(a):
    i = block_id(0)
    z = helper(i)
    w = z - 1
    for n in range(3):
        w = w + n
    a[i] = w
";

/// Returns the header of a program with the locations of its ops: `@n` is line n of `k.py` for n up to 10, `@11` is unknown, and
/// `@12` and `@13` are lines 2 and 3, inlined at line 6.
fn header() -> String {
    let lines = (1..=10).map(|line| format!("//!tile loc Source(file:(0),line:{line},column:5,scope:None)\n"));
    let calls = ["//!tile loc Unknown\n".to_string()].into_iter();
    let calls = calls.chain([2, 3].map(|line| format!("//!tile loc CallSite(callee:({line}),caller:(6))\n")));
    format!("//!tile tileaa 4 lowered\n//!tile name \"k.py\"\n{}", lines.chain(calls).collect::<String>())
}

/// The ops of [`SOURCE`], with `helper` inlined at line 6.
const SOURCE_OPS: &str = "
  %2 = block_id(axis: 0) : i32 @5
  %3 = constant(2) : i32 @12
  %4 = binary(kind: mul_i(overflow: none), lhs: %2, rhs: %3) : i32 @12
  %5 = constant(1) : i32 @13
  %6 = binary(kind: add_i(overflow: none), lhs: %4, rhs: %5) : i32 @13
  %7 = constant(1) : i32 @7
  %8 = binary(kind: sub_i(overflow: none), lhs: %6, rhs: %7) : i32 @7
  %9 = constant(0) : i32 @8
  %10 = constant(3) : i32 @8
  %11 = for(lower: %9, upper: %10, step: %7, init: [%8]) : i32 @8 {
    (%12: i32, %13: i32)
    %14 = binary(kind: add_i(overflow: none), lhs: %13, rhs: %12) : i32 @9
    continue(values: [%14]) @9
  }
  %15 = offset(ptr: %0, offset: %2) : ptr<i32> @10
  %16 = store(ptr: %15, value: %11, order: (semantics: weak)) : token @10";

/// Runs the debugger with these commands on a program in this folder, and returns its output.
fn debug_in(folder: &Path, params: &str, body: &str, args: &[&str], commands: &[&str]) -> String {
    std::fs::write(folder.join("k.py"), SOURCE).unwrap();
    let text = format!("{}func \"k\"({params}) () @4 {{{body}\n  return @10\n}}\n", header());
    std::fs::write(folder.join("k.aa"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tile-debug"));
    command.current_dir(folder).arg("k.aa").args(args).stdin(std::process::Stdio::null());
    let output = command.args(commands.iter().flat_map(|word| ["-e", word])).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Debugs [`SOURCE_OPS`] on a grid of four tile blocks.
fn debug(args: &[&str], commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let args = [&["zeros:i32[4]", "--grid", "4"], args].concat();
    debug_in(folder.path(), "%0: ptr<i32>", SOURCE_OPS, &args, commands)
}

/// Returns for each stop in the output of the debugger the line and the x coordinate of the tile block.
fn stops(reported: &str) -> Vec<(u32, u32)> {
    let stop = |line: &str| {
        let rest = line.strip_prefix("k.py:")?;
        let (number, rest) = rest.split_once(", block [")?;
        Some((number.parse().ok()?, rest.split(',').next()?.parse().ok()?))
    };
    reported.lines().filter_map(stop).collect()
}

/// Returns the output of the first execution of a command.
fn command_output<'a>(reported: &'a str, command: &str) -> &'a str {
    let (_, rest) = reported.split_once(&format!("> {command}\n")).unwrap_or_else(|| panic!("no '{command}' in {reported}"));
    rest.split("\n> ").next().unwrap()
}

#[test]
fn steps_over_into_and_out_of_calls_stop_at_lines() {
    let step_stops = stops(&debug(&[], &["next"; 8]));
    let lines: Vec<u32> = step_stops.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [5, 6, 7, 8, 9, 9, 9, 10, 5], "each iteration is a step, and the next tile block follows");
    assert_eq!(step_stops[8].1, 1);
    let step_output = debug(&[], &["next", "step", "where", "step", "where", "out", "next"]);
    let lines: Vec<u32> = stops(&step_output).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [5, 6, 2, 3, 7, 8], "{step_output}");
    assert!(step_output.contains("0 k at k.py:2\n  1 k at k.py:6"), "{step_output}");
    let ops = debug(&[], &["op", "op", "op", "ops"]);
    assert_eq!(stops(&ops).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [5, 2, 2, 3], "{ops}");
    assert!(command_output(&ops, "ops").contains("-> %4 = constant  (k.py:3)"), "{ops}");
}

#[test]
fn reverse_steps_retrace_forward_steps() {
    let forward_commands: Vec<&str> = vec!["next"; 7];
    let backward_commands: Vec<&str> = vec!["back"; 7];
    let lines: Vec<u32> =
        stops(&debug(&[], &[&forward_commands[..], &backward_commands[..]].concat())).iter().map(|(line, _)| *line).collect();
    let (forward_lines, backward_lines) = lines.split_at(8);
    assert_eq!(backward_lines, forward_lines[..7].iter().rev().copied().collect::<Vec<_>>());
    let reported = debug(&[], &["break 9", "continue", "continue", "print w", "reverse", "print w", "goto 3", "continue"]);
    assert!(reported.contains("> goto 3\nk.py:2") && command_output(&reported, "print w").contains("i32 0"), "{reported}");
    // A step back also works after the last tile block has ended.
    let reported = debug(&[], &["continue", "back", "print w", "back continue"]);
    assert_eq!(stops(&reported), [(5, 0), (10, 3), (5, 0)], "{reported}");
    assert!(command_output(&reported, "print w").starts_with("i32 9"), "{reported}");
}

#[test]
fn breakpoints_have_lines_conditions_and_messages() {
    let reported = debug(&[], &["break k.py:7 if block.x == 2 && z > 4", "continue", "print z", "continue"]);
    assert_eq!(stops(&reported), [(5, 0), (7, 2)], "{reported}");
    assert!(command_output(&reported, "print z").starts_with("i32 5") && reported.contains("the kernel ends"), "{reported}");
    // A breakpoint on a line without ops moves to the next line with ops.
    assert!(debug(&[], &["break 4"]).contains("breakpoint 1 at k.py:5: i = block_id(0)"));
    assert!(debug(&[], &["break 11"]).contains("no op comes from '11'"));
    let reported = debug(&[], &["log 9 {w} and {n}", "continue"]);
    assert!(reported.contains("\ni32 0 and i32 0\ni32 0 and i32 1\ni32 1 and i32 2\ni32 2 and i32 0\n"), "{reported}");
    let reported = debug(&[], &["break 7", "delete 1", "continue"]);
    assert_eq!(stops(&reported), [(5, 0)], "{reported}");
    let reported = debug(&[], &["break 7 if nothing > 3", "continue"]);
    assert!(reported.contains("breakpoint 1: nothing is called 'nothing' here"), "{reported}");
}

#[test]
fn the_debugged_tile_block_can_be_selected() {
    let reported = debug(&["--block", "2"], &["next", "block 3", "break 7", "continue", "continue", "block all", "block 9"]);
    assert_eq!(stops(&reported), [(5, 2), (6, 2), (5, 3), (7, 3), (5, 0)], "{reported}");
    assert!(reported.contains("there is no tile block [9, 0, 0] in a grid of [4, 1, 1]"), "{reported}");
}

#[test]
fn expressions_evaluate_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let body = "
  %1 = iota : tile<8xi32> @5
  %2 = reshape(x: %1) : tile<2x4xi32> @5
  %3 = block_id(axis: 0) : i32 @6";
    let expressions = [
        ("%2", "i32[2, 4] [[0, 1, 2, 3], [4, 5, 6, 7]]\n  min 0, max 7, mean 3.5, 1 of 8 zero"),
        ("%2[1, 1:3]", "i32[2] [5, 6]\n  min 5, max 6, mean 5.5"),
        ("%2[:, -1]", "i32[2] [3, 7]\n  min 3, max 7, mean 5"),
        ("sum(%2) / 2 - 1", "13"),
        ("any(%1 == 3) && !all(%1 < 7)", "1"),
        ("count(%1 % 2 == 1) * -1", "-4"),
        ("max(abs(%1 - 5))", "5"),
        ("(1.5e+1 + 5) >= 20", "1"),
        ("a", "f32[4, 4] [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]\n  min 0, max 15, mean 7.5, 1 of 16 zero"),
        ("a[1:3, 2]", "f32[2] [6, 10]\n  min 6, max 10, mean 8"),
        ("%0", "ptr<f32> a"),
        ("%2[2]", "index 2 of dimension 0 is outside its 2 elements"),
        ("%3", "%3 is not computed yet"),
        ("%77", "the kernel has no value %77"),
        ("%1 + %2[0]", "8 elements cannot be combined with 4"),
        ("sum(", "something is missing at the end"),
        ("1 +* 2", "'* 2' is not understood"),
        ("larger(%1)", "there is no function 'larger'; there are min, max, sum, mean, any, all, count, nans and abs"),
    ];
    let commands: Vec<String> = expressions.iter().map(|(text, _)| format!("print {text}")).collect();
    let commands: Vec<&str> = ["next"].into_iter().chain(commands.iter().map(String::as_str)).collect();
    let reported = debug_in(folder.path(), "%0: ptr<f32>", body, &["a=iota:f32[4, 4]"], &commands);
    for (text, expected) in expressions {
        assert_eq!(command_output(&reported, &format!("print {text}")).trim_end(), expected, "{text}");
    }
    let deep_expression = format!("print {}1", "(".repeat(5000));
    let reported = debug_in(folder.path(), "%0: ptr<f32>", body, &["a=iota:f32[4, 4]"], &[&deep_expression]);
    assert!(reported.contains("more than 64 deep"), "{reported}");
}

/// Ops that define `%13`, pointers to the first eight elements of the first parameter.
const ELEMENT_POINTERS: &str = "
  %10 = reshape(x: %0) : tile<1xptr<f32>> @5
  %11 = broadcast(x: %10) : tile<8xptr<f32>> @5
  %12 = iota : tile<8xi32> @5
  %13 = offset(ptr: %11, offset: %12) : tile<8xptr<f32>> @5";
/// The memory order of accesses in text form.
const WEAK: &str = "order: (semantics: weak)";

/// Checks that the debugger stops at a fault: it continues to the fault, steps back one line, and continues to the fault again.
fn check_fault(body: &str, args: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let reported = debug_in(folder.path(), "%0: ptr<f32>", body, args, &["continue", "back", "continue", "continue"]);
    let stopped = command_output(&reported, "continue");
    assert!(stopped.starts_with(expected) && stopped.contains("\nk.py:6, block ["), "{reported}");
    assert_eq!(reported.matches(expected).count(), 2, "the debugger stops at the fault again: {reported}");
    // The debugger does not stop at an ignored fault.
    let kind = expected.split(['(', ')']).nth(1);
    if let (Some(kind), true) = (kind, expected.starts_with("fault")) {
        let args = [args, &["--ignore", kind]].concat();
        let reported = debug_in(folder.path(), "%0: ptr<f32>", body, &args, &["continue"]);
        assert!(reported.contains("the kernel ends"), "{reported}");
    }
}

#[test]
fn the_debugger_stops_at_faults_and_failures() {
    let load = format!("{ELEMENT_POINTERS}\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @6");
    check_fault(&load, &["zeros:f32[7]"], "fault (memory): an access of 32 bytes at byte 0 of 'arg0', whose size is 28");
    check_fault(&load, &["empty:f32[8]"], "fault (init): reads byte 0 of 'arg0', which was never written");
    let unordered = format!(
        "{ELEMENT_POINTERS}\n  %18 = constant(0.0) : tile<8xf32> @5
  %19 = store(ptr: %13, value: %18, {WEAK}) : token @5\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @6"
    );
    check_fault(
        &unordered,
        &["zeros:f32[8]"],
        "fault (token): reads bytes that another access writes and no token orders them; the other",
    );
    let racing = format!(
        "{ELEMENT_POINTERS}\n  %18 = constant(0.0) : tile<8xf32> @5\n  %19 = store(ptr: %13, value: %18, {WEAK}) : token @6"
    );
    check_fault(
        &racing,
        &["zeros:f32[8]", "--grid", "2"],
        "fault (race): writes bytes that another access writes in another block",
    );
    let nan = format!(
        "{ELEMENT_POINTERS}\n  %20, %21 = load(ptr: %13, {WEAK}) : tile<8xf32>, token @5
  %22 = binary(kind: div_f(rounding: nearest_even, ftz: false), lhs: %20, rhs: %20) : tile<8xf32> @6"
    );
    check_fault(&nan, &["iota:f32[8]"], "fault (nan): 'binary' computes a NaN from operands that contain none");
    let assumed = "\n  %1 = constant(3) : i32 @5\n  %2 = assume(value: %1, fact: div_by(divisor: 2)) : i32 @6";
    check_fault(assumed, &["zeros:f32[8]"], "fault (assume): an assumption does not hold");
    let asserted = "\n  %1 = constant(false) : i1 @5\n  assert(cond: %1, message: \"sorted\") @6";
    check_fault(asserted, &["zeros:f32[8]"], "failure: [RUN040] k.py:6: tile block: [0, 0, 0], position: []: sorted");
}

#[test]
fn variables_show_the_values_that_the_source_assigns() {
    let reported = debug(&[], &["break 10", "continue", "variables", "break 9", "restart", "continue", "continue", "variables"]);
    assert!(command_output(&reported, "variables").starts_with("  i = i32 0\n  z = i32 1\n  w = i32 3"), "{reported}");
    let (_, variables_in_loop) = reported.rsplit_once("> variables\n").unwrap();
    assert_eq!(variables_in_loop.trim_end(), "  i = i32 0\n  z = i32 1\n  n = i32 1\n  w = i32 0", "{reported}");
}

#[test]
fn option_lines_ops_steps_through_the_op_listing() {
    let reported = debug(&["--lines=ops"], &["next", "next", "list", "break 7 if %1 == 1", "continue"]);
    assert!(reported.contains("k.ops:3, block [0, 0, 0]") && reported.contains("->    3 %3 = binary %1, %2"), "{reported}");
    assert!(reported.contains("breakpoint 1\nk.ops:7, block [1, 0, 0]"), "{reported}");
}

#[test]
fn wrong_commands_are_reported() {
    let reported = debug(&[], &["contniue", "goto x", "back sideways", "help", "ignore nan", "continue", "print w", "next"]);
    assert!(command_output(&reported, "contniue").contains("did you mean 'continue'"), "{reported}");
    assert!(command_output(&reported, "goto x").contains("goto or g N: go to moment N"), "{reported}");
    assert!(
        command_output(&reported, "ignore nan").contains("nan does not stop")
            && command_output(&reported, "print w").contains("its values are gone"),
        "{reported}"
    );
    assert!(command_output(&reported, "next").contains("the kernel has ended"), "{reported}");
}

#[test]
fn a_watch_stops_where_a_value_changes() {
    let reported =
        debug(&["--block", "0"], &["break 9", "continue", "delete 1", "watch w", "continue", "print n", "delete 2", "continue"]);
    // `w` starts as z - 1 = 0. The iterations add n = 0, 1 and 2, so `w` changes for the first time in the second iteration.
    assert!(reported.contains("watch 2: w is i32 0\n"), "{reported}");
    assert!(reported.contains("\nwatch 2: w: i32 0 -> i32 1\n"), "{reported}");
    assert!(reported.contains("the kernel ends"), "{reported}");
    let reversed = debug(&["--block", "0"], &["break 9", "continue", "delete 1", "watch w", "continue", "continue", "reverse"]);
    assert_eq!(reversed.matches("watch 2: w: i32 0 -> i32 1\n").count(), 2, "{reversed}");
}

#[test]
fn up_and_down_select_the_frame_for_print() {
    let reported =
        debug(&["--block", "1"], &["break 3", "continue", "print y", "up", "print y", "print i", "up", "down", "print y", "down"]);
    assert!(command_output(&reported, "up").starts_with("k at k.py:6\n      z = helper(i)"), "{reported}");
    let answers: Vec<&str> = reported.split("> print y\n").skip(1).map(|rest| rest.lines().next().unwrap()).collect();
    assert_eq!(answers[0], "i32 2");
    assert!(answers[1].starts_with("'y' has no value here"), "{reported}");
    assert_eq!(answers[2], "i32 2");
    assert_eq!(command_output(&reported, "print i").lines().next(), Some("i32 1"));
    assert!(
        reported.contains("no function called this one") && reported.contains("the kernel stands in this function"),
        "{reported}"
    );
}

#[test]
fn a_breakpoint_may_name_a_function() {
    let reported = debug(&["--block", "2"], &["break helper", "continue", "where"]);
    assert!(reported.contains("breakpoint 1 at k.py:2: y = x * 2"), "{reported}");
    assert_eq!(stops(&reported), [(5, 2), (2, 2)], "{reported}");
    assert!(debug(&[], &["break nothing"]).contains("no op comes from 'nothing'"));
}

/// Constants execute at the start of a program, but the debugger shows a variable only after the line that assigns it.
#[test]
fn a_variable_with_a_constant_value_is_visible_after_its_line() {
    let folder = tempfile::tempdir().unwrap();
    // The constant has the location of line 7, `w = z - 1`, so it is the value of `w`. At the first stop, on line 5, `w` has no
    // value.
    let body = "
  %1 = constant(7) : i32 @7
  %2 = block_id(axis: 0) : i32 @5
  %3 = binary(kind: add_i(overflow: none), lhs: %2, rhs: %1) : i32 @9
  %4 = store(ptr: %0, value: %3, order: (semantics: weak)) : token @10";
    let commands = ["break 5", "break 10", "continue", "variables", "print w", "continue", "variables"];
    let reported = debug_in(folder.path(), "%0: ptr<i32>", body, &["zeros:i32[1]", "--grid", "1"], &commands);
    let (early, late) = reported.split_once("> variables").unwrap().1.split_once("> variables").unwrap();
    assert!(!early.contains("w = ") && early.contains("'w' has no value here"), "{reported}");
    assert!(late.contains("w = i32 7"), "{reported}");
}

/// A store on the line of an assignment has only a token as its result, so the variable keeps the computed value.
#[test]
fn a_store_does_not_rename_the_variable_of_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let body = "
  %1 = constant(7) : i32 @5
  %2 = binary(kind: add_i(overflow: none), lhs: %1, rhs: %1) : i32 @9
  %3 = store(ptr: %0, value: %2, order: (semantics: weak)) : token @9
  %4 = store(ptr: %0, value: %2, token: %3, order: (semantics: weak)) : token @10";
    let commands = ["break 10", "continue", "print w"];
    let reported = debug_in(folder.path(), "%0: ptr<i32>", body, &["zeros:i32[1]", "--grid", "1"], &commands);
    assert!(command_output(&reported, "print w").starts_with("i32 14"), "{reported}");
}
