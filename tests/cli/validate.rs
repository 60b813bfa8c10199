//! Tests of `tile-validate` and `tileiras --validate` with correct stages, and with stages that have an injected fault.

use crate::check_stages_are_current;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::replaced_tool::folder_with_replacement;
use tests::{RunResult, root, run, run_to_end, temporary_folder, tool};

/// The bytecode of a case of `tests/run`.
fn kernel_path(case: &str) -> PathBuf {
    root().join("tests/run").join(case).join("kernel.tileirbc")
}

fn check_tools_are_current() {
    check_stages_are_current();
    for name in ["tile-run", "tile-sim", "tile-dump", "tile-validate"] {
        tool(name);
    }
}

/// Runs `tile-validate` on a case of `tests/run`.
fn validate(case: &str, arguments: &[&str]) -> RunResult {
    let path = kernel_path(case).display().to_string();
    run("tile-validate", &[&[path.as_str(), "--gpu-name=sm_80"], arguments].concat(), b"")
}

fn arguments_are_generated_for_kernels_of_views() {
    check_tools_are_current();
    for case in ["vadd_tail", "softmax", "matmul_f16", "matmul_bytes", "running_sum", "transpose"] {
        let ran = validate(case, &[]);
        assert_eq!(ran.code, Some(0), "{case}: {}", ran.stderr);
        assert!(ran.text().contains("the same at every stage"), "{case}: {}", ran.text());
    }
}

fn a_given_launch_replaces_the_generated_ones() {
    check_tools_are_current();
    let launch = root().join("tests/run/vadd/launch.json").display().to_string();
    let ran = validate("vadd", &["--launch", &launch]);
    assert!(ran.text().contains("on 1 launches"), "{}{}", ran.text(), ran.stderr);
}

/// Runs a program of a folder on the kernel `polynomial`.
fn run_from(folder: &Path, program: &str, arguments: &[&str]) -> RunResult {
    let mut command = Command::new(folder.join(program));
    command.arg(kernel_path("polynomial")).args(arguments).current_dir(folder).env("TMPDIR", folder);
    run_to_end(command, b"")
}

/// Each script injects a fault into the output of its stage. The last two arguments of a stage are `-o` and its output.
const INJECTED_FAULTS: [(&str, &str); 4] = [
    (
        "tile-lower-aa",
        r#"for w; do case $w in *.tile) in=$w;; *.aa) out=$w;; esac; done; $tools/tile-dump $in | sed 's/3.000000e+00/4.000000e+00/' | $real -O3 -o $out"#,
    ),
    (
        "tile-lower-as",
        r#"for w; do out=$w; done; $real "${@:1:$#-2}" --format=text | sed 's/constant(0.5)/constant(0.75)/' > $out"#,
    ),
    ("tile-sched", r#"for w; do out=$w; done; $real "${@:1:$#-2}" --format=text | sed 's/constant(3.0)/constant(5.0)/' > $out"#),
    ("tile-ptx", r#"for w; do out=$w; done; $real "${@:1:$#-2}" | sed 's/0f3F000000/0f3F800000/' > $out"#),
];

fn the_stage_with_an_injected_fault_is_named() {
    for (stage, script) in INJECTED_FAULTS {
        let folder = folder_with_replacement(stage, script);
        let ran = run_from(folder.path(), "tile-validate", &["--gpu-name=sm_80", "--keep=new/kept"]);
        assert_eq!(ran.code, Some(1), "{stage}: {}{}", ran.text(), ran.stderr);
        assert!(
            ran.stderr.contains(&format!("error[VAL001]: the output of {stage} is not equivalent to the program")),
            "{stage}: {}",
            ran.stderr
        );
        assert!(folder.path().join("new/kept/launch.json").exists() && folder.path().join("new/kept/k.tile").exists());
    }
}

/// `--validate` passes the user's options to the stages. Here, a fault appears only with `--stages=1`.
fn validation_uses_the_options_of_the_user() {
    let script = r#"for w; do out=$w; done; wrong=cat
case " $* " in *" --stages=1 "*) wrong='sed s/constant(3.0)/constant(5.0)/';; esac
$real "${@:1:$#-2}" --format=text | $wrong > $out"#;
    let folder = folder_with_replacement("tile-sched", script);
    let validate = |arguments: &[&str]| run_from(folder.path(), "tile-validate", &[&["--gpu-name=sm_80"], arguments].concat());
    assert_eq!(validate(&[]).code, Some(0));
    assert_eq!(validate(&["--stages=1"]).code, Some(1));
    let driver_run =
        run_from(folder.path(), "tileiras", &["--gpu-name=sm_80", "--validate", "--stages=1", "--emit=as", "-o", "out"]);
    assert!(driver_run.stderr.contains("error: the output of tile-sched is not equivalent"), "{}", driver_run.stderr);
}

fn the_driver_writes_no_wrong_output() {
    let (stage, script) = INJECTED_FAULTS[3];
    // The driver connects its stages by Unix pipes, without `-o`. For a command without `-o` the script runs the real tool, so only
    // the validation has the fault.
    let folder = folder_with_replacement(stage, &format!(r#"case " $* " in *" -o "*) ;; *) exec $real "$@";; esac; {script}"#));
    let arguments = ["--gpu-name=sm_80", "--validate", "--emit=ptx", "-o", "out"];
    let ran = run_from(folder.path(), "tileiras", &arguments);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: the output of tile-ptx is not equivalent to the program"), "{}", ran.stderr);
    assert!(!folder.path().join("out").exists());
    let correct =
        run("tileiras", &[&[kernel_path("polynomial").to_str().unwrap()], &arguments[..3], &["-o", "/dev/null"]].concat(), b"");
    assert_eq!(correct.code, Some(0), "{}", correct.stderr);
    assert!(correct.stderr.contains("the same at every stage, on 7 launches"), "{}", correct.stderr);
}

/// The time limit ends a stage in the first case, and an executor in the second.
fn a_time_out_is_not_reported_as_a_wrong_result() {
    for (stage, reason) in [("tile-ptx", "tile-ptx takes more than 1 s"), ("tile-sim", "k.ptx: tile-sim takes more than 1 s")] {
        let folder = folder_with_replacement(stage, "exec sleep 30");
        let ran = run_from(folder.path(), "tile-validate", &["--gpu-name=sm_80", "--step-time=1"]);
        assert_eq!(ran.code, Some(4), "{stage}: {}{}", ran.text(), ran.stderr);
        assert!(ran.stderr.contains("error[VAL005]: not finished") && ran.stderr.contains(reason), "{stage}: {}", ran.stderr);
    }
}

fn undecidable_cases_are_reported() {
    check_tools_are_current();
    let folder = temporary_folder();
    // The kernel loads at an offset computed from an integer parameter. Nothing bounds it, so no launch can be generated.
    let text = "entry @k(%a: tile<ptr<f32>>, %n: tile<i64>) {\n  %far = constant <i64: 1099511627776> : tile<i64>\n  %at = muli %n, %far : tile<i64>\n  \
                %p = offset %a, %at : tile<ptr<f32>>, tile<i64> -> tile<ptr<f32>>\n  %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token\n  return\n}\n";
    fs::write(folder.path().join("k.mlir"), text).unwrap();
    let ran = tests::run_in(folder.path(), "tile-validate", &["k.mlir", "--gpu-name=sm_80"], b"");
    assert_eq!(ran.code, Some(2), "{}{}", ran.text(), ran.stderr);
    assert!(ran.stderr.contains("VAL002") && ran.stderr.contains("--launch FILE"), "{}", ran.stderr);
}

fn all_kernels_of_a_file_are_validated() {
    check_tools_are_current();
    let entry = |name: &str, number: u32| {
        let (tensor, view) = ("tensor_view<64xi32, strides=[1]>", "partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>");
        format!(
            "entry @{name}(%p: tile<ptr<i32>>) {{
              %zero = constant <i32: 0> : tile<i32>
              %x = constant <i32: {number}> : tile<64xi32>
              %t = make_token : token
              %a = make_tensor_view %p, shape = [64], strides = [1] : {tensor}
              %v = make_partition_view %a : {view}
              %s = store_view_tko weak %x, %v[%zero] token = %t : tile<64xi32>, {view}, tile<i32> -> token
              return
            }}\n"
        )
    };
    let text = entry("one", 1) + &entry("two", 2);
    let lines = |arguments: &[&str]| {
        let ran = run("tile-validate", &[&["-", "--gpu-name=sm_80"], arguments].concat(), text.as_bytes());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.text().lines().map(|line| line.split(' ').next().unwrap_or_default().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&[]), ["one", "two"]);
    assert_eq!(lines(&["--entry=two"]), ["two"]);
    let ran = run("tile-validate", &["-", "--gpu-name=sm_80", "--entry=three"], text.as_bytes());
    assert!(ran.stderr.contains("name one of the kernels with --entry: one, two"), "{}", ran.stderr);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    arguments_are_generated_for_kernels_of_views,
    a_given_launch_replaces_the_generated_ones,
    the_stage_with_an_injected_fault_is_named,
    validation_uses_the_options_of_the_user,
    the_driver_writes_no_wrong_output,
    a_time_out_is_not_reported_as_a_wrong_result,
    undecidable_cases_are_reported,
    all_kernels_of_a_file_are_validated,
];
