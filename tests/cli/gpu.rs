//! Tests of `tile-launch`, `scripts/on-gpu` and `scripts/gpu-kit` without a GPU. They use a mock of the CUDA driver library, which
//! checks every call and its arguments.

use crate::{bytecode_path, check_stages_are_current};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tests::{RunResult, root, run, run_in, run_to_end, temporary_folder, tool};

/// The path of the mock driver library, which is compiled on the first call.
fn mock_driver() -> &'static Path {
    static MOCK: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = MOCK.get_or_init(|| {
        let folder = temporary_folder();
        let library = folder.path().join("libcuda.so.1");
        let source = root().join("tools/tile-launch/tests/stand_in/cuda.rs");
        let mut compiler = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()));
        compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-A", "unused_unsafe", "-o"]).arg(&library).arg(source);
        run_to_end(compiler, b"").ok("compiling the stand-in");
        (folder, library)
    });
    library
}

/// Writes `k.cubin`, which adds two arrays, and its `launch.json` to a folder.
fn write_vadd_cubin_and_launch(folder: &Path, target: &str) {
    check_stages_are_current();
    run("tileiras", &[&bytecode_path(), "--gpu-name", target, "-o", &folder.join("k.cubin").display().to_string()], b"")
        .ok("k.cubin");
    let launch = r#"{"grid": {"sm_90": [4], "sm_100": [5]}, "outputs": ["c"], "work": {"flops": 1024, "bytes": 12288},
        "params": [{"ptr": "a"}, {"i32": 1024}, {"i32": 1}, {"ptr": "b"}, {"i32": 1024}, {"i32": 1}, {"ptr": "c"}, {"i32": 1024}, {"i32": 1}],
        "buffers": [{"name": "a", "bytes": 4096, "fill": {"iota": "f32"}, "address": 139637976727552},
            {"name": "b", "bytes": 4096, "fill": {"constant": "f32", "value": 2}}, {"name": "c", "bytes": 4096, "fill": "zero"},
            {"name": "list", "bytes": 64, "fill": "zero", "pointers": [{"at": 8, "to": "a"}]}]}"#;
    fs::write(folder.join("launch.json"), launch).unwrap();
}

/// Runs tile-launch on the mock driver. The driver function `failing` returns an error; an empty name means that none does. Returns
/// the result of the run and the log of driver calls.
fn run_tile_launch(folder: &Path, options: &[&str], failing: &str) -> (RunResult, String) {
    let _ = fs::remove_file(folder.join("log"));
    let mut command = Command::new(tool("tile-launch"));
    command.current_dir(folder).args(["k.cubin", "--launch", "launch.json", "--out-dir", "out", "--driver"]).arg(mock_driver());
    command.args(options).env("STAND_IN_LOG", folder.join("log")).env("STAND_IN_FAIL", failing);
    let ran = run_to_end(command, b"");
    (ran, fs::read_to_string(folder.join("log")).unwrap_or_default())
}

fn a_missing_driver_is_reported() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let ran = run_in(folder.path(), "tile-launch", &["k.cubin", "--launch", "launch.json", "--driver", "/nowhere/libcuda.so"], b"");
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("no CUDA driver on this machine") && ran.stderr.contains("/nowhere/libcuda.so"), "{}", ran.stderr);
    // The tool also reports a library that is no driver.
    let library = folder.path().join("libempty.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&library);
    run_to_end(compiler, b"").ok("an empty library");
    let line = ["k.cubin", "--launch", "launch.json", "--driver", library.to_str().unwrap()];
    let ran = run_in(folder.path(), "tile-launch", &line, b"");
    assert!(ran.code == Some(4) && ran.stderr.contains("has no function cuInit"), "{}", ran.stderr);
}

fn a_launch_makes_the_right_calls_and_writes_the_outputs() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let (ran, log) = run_tile_launch(folder.path(), &[], "");
    let shown = ran.text();
    ran.ok("tile-launch");
    assert!(shown.contains("Stand-in (9.0, 132 SMs), driver for CUDA 13.1") && shown.contains(" of k.cubin: launched"));
    let output = fs::read(folder.path().join("out/c.bin")).unwrap();
    let output: Vec<f32> = output.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
    assert!(output.len() == 1024 && output.iter().enumerate().all(|(i, sum)| *sum == i as f32 + 2.0));
    assert!(!log.contains("WRONG"), "{log}");
    // The grid of the target, one thread per CTA, no dynamic shared memory.
    assert!(log.contains("cuLaunchKernel([4, 1, 1], [1, 1, 1], 0) -> 1024 elements\n"), "{log}");
    // tile-launch clears a buffer of zeros on the device, but copies the buffer that contains a pointer.
    assert_eq!((log.matches("cuMemsetD8_v2(0, 4096)").count(), log.matches("cuMemcpyHtoD_v2(64)").count()), (1, 1), "{log}");
    assert!(log.ends_with("cuDevicePrimaryCtxRelease_v2(40) -> nothing is left\n"), "{log}");
}

fn several_cubins_are_timed_alternately() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    fs::copy(folder.path().join("k.cubin"), folder.path().join("other.cubin")).unwrap();
    let options =
        ["--repeat", "3", "--against", "other.cubin", "--against", "k.cubin", "--refill", "--device", "1", "--json", "times.json"];
    let (ran, log) = run_tile_launch(folder.path(), &options, "");
    ran.ok("tile-launch");
    assert!(!log.contains("WRONG") && log.contains("cuDeviceGet(1)"), "{log}");
    assert_eq!(log.matches("cuLaunchKernel").count(), 3 + 9);
    assert_eq!(log.matches("cuMemsetD8_v2").count(), 1 + 9, "each launch has fresh memory");
    let times: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.path().join("times.json")).unwrap()).unwrap();
    let names: Vec<_> = times["cubins"].as_array().unwrap().iter().map(|side| side["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["k.cubin", "other.cubin", "k.cubin"]);
    assert_eq!(times["cubins"][1]["milliseconds"], serde_json::json!([0.5, 0.5, 0.5]));
    assert_eq!((times["clock"].as_f64(), times["memory"].as_f64()), (Some(1500.0), Some(3352.32)));
    let (ran, _) = run_tile_launch(folder.path(), &["--repeat", "2"], "");
    assert!(ran.text().contains("median 0.5000 ms of 2 launches"), "{}", ran.text());
}

/// If a driver call fails, the tool names the call and frees its resources. The test omits calls that free resources.
fn every_failing_driver_call_is_reported() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let (_, log) = run_tile_launch(folder.path(), &["--repeat", "1"], "");
    let names: std::collections::BTreeSet<&str> = log.lines().filter_map(|line| Some(line.split_once('(')?.0)).collect();
    for name in names
        .iter()
        .filter(|name| !["cuMemFree_v2", "cuModuleUnload", "cuEventDestroy_v2", "cuDevicePrimaryCtxRelease_v2"].contains(*name))
    {
        let (ran, log) = run_tile_launch(folder.path(), &["--repeat", "1"], name);
        assert_eq!(ran.code, Some(4), "{name}: {}", ran.stderr);
        let shown = name.trim_end_matches("_v2");
        let message = format!("{shown} failed with CUDA_ERROR_INVALID_VALUE: the stand-in was set to fail");
        assert!(ran.stderr.contains(&message), "{name}: {}", ran.stderr);
        assert_eq!(log.matches("WRONG").count(), 1, "{name}: {log}");
        let retained = log.contains("cuDevicePrimaryCtxRetain(40)\n");
        assert_eq!(log.contains("nothing is left"), retained, "{name}: {log}");
    }
}

fn mismatched_launches_are_refused_before_any_driver_call() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let assert_refused = |words: &str, options: &[&str], code: i32| {
        let (ran, log) = run_tile_launch(folder.path(), options, "");
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(words) && log.is_empty(), "{}", ran.stderr);
    };
    assert_refused("has no kernel 'other'; there are: vadd", &["--entry", "other"], 2);
    let text = fs::read_to_string(folder.path().join("launch.json")).unwrap();
    fs::write(folder.path().join("launch.json"), text.replacen(r#"{"i32": 1}"#, r#"{"i64": 1}"#, 1)).unwrap();
    assert_refused("it is b32, the launch gives i64", &[], 1);
    fs::write(folder.path().join("launch.json"), text.replace("sm_90", "sm_80")).unwrap();
    assert_refused("the launch has no grid for sm_90", &[], 1);
    fs::write(folder.path().join("k.cubin"), b"\x7fELFnothing").unwrap();
    assert_refused("is not a cubin", &[], 1);
}

/// Writes a folder with one case and one launch of production size, in the form that `scripts/on-gpu` reads.
fn write_on_gpu_folder(folder: &Path) -> PathBuf {
    let set = folder.join("set");
    let (case, production_launch) = (set.join("vadd"), set.join("perf/vadd"));
    for to in [&case, &production_launch] {
        fs::create_dir_all(to).unwrap();
    }
    for entry in fs::read_dir(root().join("tests/run/vadd")).unwrap().flatten() {
        fs::copy(entry.path(), case.join(entry.file_name())).unwrap();
    }
    fs::copy(bytecode_path(), production_launch.join("kernel.tileirbc")).unwrap();
    fs::copy(folder.join("launch.json"), production_launch.join("launch.json")).unwrap();
    set
}

/// `scripts/on-gpu` checks the cases, times the launch, and writes a report and a machine file with measured rates.
fn on_gpu_checks_cases_times_launches_and_writes_a_report() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let set = write_on_gpu_folder(folder.path());
    let case = set.join("vadd");
    let on_gpu = |driver: &Path| {
        let mut command = Command::new("python3");
        command
            .current_dir(folder.path())
            .arg(root().join("scripts/on-gpu"))
            .arg(&set)
            .args(["--out", "report", "--repeat", "4", "--rounds", "2"]);
        command.arg("--tools").arg(tests::tools_folder()).arg("--reference").arg(tests::tools_folder()).arg("--driver").arg(driver);
        run_to_end(command, b"")
    };
    let ran = on_gpu(mock_driver());
    assert_eq!(ran.code, Some(0), "{} {}", ran.text(), ran.stderr);
    assert!(ran.text().contains("1 of 1 cases are right; 1 launches were timed"), "{}", ran.text());
    let read = |name: &str| fs::read_to_string(folder.path().join("report").join(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["launches"][0]["all"]["theirs"].as_array().unwrap().len(), 8);
    let page = read("report.html");
    assert!(page.contains("1 of 1 cases leave what they should") && page.contains("<svg") && !page.contains("http"), "{page}");
    let calibration: toml::Table = read("calibration.toml").parse().unwrap();
    assert_eq!(calibration["chip"]["sms"][0].as_integer(), Some(132));
    assert_eq!(calibration["inherits"].as_str(), Some("h100-sxm"));
    // `tile-time` accepts this machine file.
    let ptx = folder.path().join("k.ptx").display().to_string();
    run("tileiras", &[&bytecode_path(), "--gpu-name", "sm_90", "--emit=ptx", "-o", &ptx], b"").ok("k.ptx");
    run_in(folder.path(), "tile-time", &["k.ptx", "--launch", "launch.json", "--machine", "report/calibration.toml"], b"")
        .ok("tile-time");
    // Another machine can compile the cubins in advance, also those of a second variant.
    let script = |options: &[&str]| {
        let mut command = Command::new("python3");
        command.current_dir(folder.path()).arg(root().join("scripts/on-gpu")).arg(&set).args(options);
        command.args(["--variant", "plain=--roles=off", "--tools"]).arg(tests::tools_folder());
        run_to_end(command, b"")
    };
    let ran = script(&["--prepare", "sm_90", "--out", "cubins"]);
    assert!(ran.code == Some(0) && ran.text().contains("3 cubins for sm_90 in cubins"), "{} {}", ran.text(), ran.stderr);
    let driver = mock_driver().display().to_string();
    let ran = script(&["--prepared", "cubins", "--out", "prepared", "--repeat", "2", "--rounds", "1", "--driver", &driver]);
    assert_eq!(ran.code, Some(0), "{} {}", ran.text(), ran.stderr);
    assert!(ran.text().contains("ours 0.5000 ms  plain 0.5000 ms  predicted"), "{}", ran.text());
    // The report lists cases that the other machine could not compile.
    let broken = set.join("broken");
    fs::create_dir_all(&broken).unwrap();
    ["launch.json", "expect.json"].iter().for_each(|name| _ = fs::copy(case.join(name), broken.join(name)).unwrap());
    fs::write(broken.join("kernel.tileirbc"), "nothing").unwrap();
    script(&["--prepare", "sm_90", "--out", "cubins", "--cases"]);
    let ran = script(&["--prepared", "cubins", "--out", "prepared", "--cases", "--driver", &driver]);
    assert!(ran.code == Some(1) && ran.text().contains("WRONG broken: error: input does not correspond"), "{}", ran.text());
    fs::remove_dir_all(&broken).unwrap();
    // The report names a kernel with a wrong output.
    let mut expected = fs::read(case.join("arg2.expect")).unwrap();
    expected[4092] ^= 1;
    fs::write(case.join("arg2.expect"), expected).unwrap();
    let ran = on_gpu(mock_driver());
    assert_eq!(ran.code, Some(1));
    assert!(ran.text().contains("WRONG vadd: arg2: 1 of 1024 differ, first [1023]"), "{}", ran.text());
    let ran = on_gpu(Path::new("/nowhere/libcuda.so"));
    assert!(ran.code == Some(4) && ran.stderr.contains("no CUDA driver on this machine"), "{}", ran.stderr);
}

/// `scripts/gpu-kit` packs everything that the launches need into an archive. The mock driver stands in for the GPU.
fn an_archive_is_prepared_and_launched() {
    let folder = temporary_folder();
    write_vadd_cubin_and_launch(folder.path(), "sm_90");
    let set = write_on_gpu_folder(folder.path());
    let run_gpu_kit = |words: &[&str]| {
        let mut command = Command::new("python3");
        command.current_dir(folder.path()).arg(root().join("scripts/gpu-kit")).args(words);
        command.arg("--tools").arg(tests::tools_folder()).arg("--driver").arg(mock_driver());
        run_to_end(command, b"")
    };
    let ran = run_gpu_kit(&["prepare", "set", "--gpu=sm_90", "--random=2", "--out=kit.tar.xz"]);
    assert!(ran.code == Some(0) && ran.text().contains("2 random programs"), "{} {}", ran.text(), ran.stderr);
    // Delete the inputs, so that the launches can read only the archive.
    fs::remove_dir_all(&set).unwrap();
    let ran = run_gpu_kit(&["launch", "kit.tar.xz", "--out=results", "--steps=cases,launches", "--seconds=100"]);
    assert_eq!(ran.code, Some(0), "{} {}", ran.text(), ran.stderr);
    let read = |name: &str| -> serde_json::Value {
        let text = fs::read_to_string(folder.path().join("results").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", ran.text()));
        serde_json::from_str(&text).unwrap()
    };
    let cases = read("0-set.cases.json");
    assert_eq!((cases["cases"][0]["case"].as_str(), cases["cases"][0]["complaint"].as_str()), (Some("vadd"), None));
    assert_eq!(read("1-random.cases.json")["cases"].as_array().unwrap().len(), 2);
    let launches = read("0-set.launches.json");
    let times = launches[0]["all"].as_object().unwrap();
    assert!(times.len() > 2 && times["ours"].as_array().unwrap().len() == 15, "other plans are timed too: {launches}");
    assert!(launches[0]["predicted"].as_f64().is_some_and(|seconds| seconds > 0.0), "{launches}");
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    a_missing_driver_is_reported,
    a_launch_makes_the_right_calls_and_writes_the_outputs,
    several_cubins_are_timed_alternately,
    every_failing_driver_call_is_reported,
    mismatched_launches_are_refused_before_any_driver_call,
    on_gpu_checks_cases_times_launches_and_writes_a_report,
    an_archive_is_prepared_and_launched,
];
