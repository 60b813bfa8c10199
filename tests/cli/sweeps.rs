//! Tests of driver runs that compile several kernels or targets: `--out-dir`, the cache, and generated ninja files. Scripts stand
//! in for the stages.

use crate::check_stages_are_current;
use crate::driver::{COPY_AND_APPEND_COMMAND_LINE, folder_with_stub_stages, run_driver};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tests::{files_below, root, run_to_end, tools_folder};

/// Names that need quoting in shells and build files.
const ODD_NAMES: [&str; 10] = ["a b", "a$b", "a:b", "-k", "it's", "a#b", "a%b", "a|b", r"a\b", "a=b"];

/// Writes a different bytecode file for each name, and returns the file names.
fn write_kernels(folder: &Path, names: &[&str]) -> Vec<String> {
    let paths: Vec<String> = names.iter().map(|name| format!("{name}.bc")).collect();
    for (index, path) in paths.iter().enumerate() {
        fs::write(folder.join(path), [b"\x7fTileIR\0\x0d\x03\0\0".as_slice(), index.to_string().as_bytes()].concat()).unwrap();
    }
    paths
}

/// The names and contents of the cubins in a folder, sorted by path.
fn cubins_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = files_below(folder).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "cubin"));
    files.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())).collect()
}

fn many_inputs_and_targets_in_one_run() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    write_kernels(folder.path(), &["one", "two"]);
    let arguments = ["one.bc", "two.bc", "--gpu-name=sm_80", "--gpu-name=sm_90", "--out-dir=out", "--jobs=2"];
    let ran = run_driver(folder.path(), &arguments);
    assert_eq!((ran.code, ran.stdout.len()), (Some(0), 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("[4/4] "), "{}", ran.stderr);
    let names: Vec<String> = cubins_in(&folder.path().join("out")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one.sm_80.cubin", "one.sm_90.cubin", "two.sm_80.cubin", "two.sm_90.cubin"]);
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::copy(folder.path().join("one.bc"), folder.path().join("other/one.bc")).unwrap();
    let ran = run_driver(folder.path(), &["one.bc", "other/one.bc", "--gpu-name=sm_80", "--out-dir=out"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("have the same output 'out/one.sm_80.cubin'"), "{}", ran.stderr);
}

fn options_that_name_one_file_are_refused_for_several() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    write_kernels(folder.path(), &["one"]);
    let arguments = ["one.bc", "--gpu-name=sm_80", "--gpu-name=sm_90", "--out-dir=out"];
    for option in ["-o=x", "-MF=x", "-MT=x", "--remarks-output-file=x"] {
        let ran = run_driver(folder.path(), &[&arguments[..], &[option]].concat());
        assert_eq!(ran.code, Some(1), "{option}: {}", ran.stderr);
        assert!(!folder.path().join("out").exists(), "{option}");
    }
    let options = ["-MD", "--save-temps=kept", "--stop-after=tile-sched", "--remarks=all", "--remark-format=yaml"];
    run_driver(folder.path(), &[&arguments[..], &options[..]].concat()).ok("a file each");
    let names = |folder: &Path| -> Vec<String> {
        files_below(folder).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let names_for = |kinds: &[&str]| -> Vec<String> {
        ["sm_80", "sm_90"].iter().flat_map(|target| kinds.iter().map(move |kind| format!("one.{target}.{kind}"))).collect()
    };
    assert_eq!(names(&folder.path().join("out")), names_for(&["d", "remarks.yaml", "sched"]));
    assert_eq!(names(&folder.path().join("kept")), names_for(&["aa", "as", "sched", "tile"]));
}

fn one_bad_input_does_not_stop_the_others() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    write_kernels(folder.path(), &["one", "two"]);
    fs::write(folder.path().join("bad.bc"), "no bytecode").unwrap();
    let ran = run_driver(folder.path(), &["one.bc", "bad.bc", "two.bc", "--gpu-name=sm_80", "--out-dir=out"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("bad.bc: error: input does not correspond to Tile IR bytecode\n"), "{}", ran.stderr);
    assert_eq!(cubins_in(&folder.path().join("out")).len(), 2);
}

/// With `--error-format=json`, each line of standard error is a JSON object, also a line that a stage printed as plain text.
fn every_line_of_json_is_an_object_that_names_its_input() {
    let folder =
        folder_with_stub_stages(&format!("[ $name != tile-sched ] || echo by the way >&2\n{COPY_AND_APPEND_COMMAND_LINE}"));
    write_kernels(folder.path(), &["one", "two"]);
    fs::write(folder.path().join("bad.bc"), "no bytecode").unwrap();
    let inputs = ["one.bc", "bad.bc", "none.bc", "two.bc"];
    let options = ["--gpu-name=sm_80", "--out-dir=out", "--error-format=json", "--verbose", "--time", "--cache=kept"];
    let ran = run_driver(folder.path(), &[&inputs[..], &options[..]].concat());
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let parse_object = |line: &str| match serde_json::from_str(line) {
        Ok(serde_json::Value::Object(object)) => object,
        other => panic!("{other:?}: {line}"),
    };
    let lines: Vec<_> = ran.stderr.lines().map(parse_object).collect();
    let lines_of = |input: &'static str| -> Vec<_> {
        lines.iter().filter(|line| line.get("input").is_some_and(|name| name == input)).collect()
    };
    let exit_code = |input: &'static str| lines_of(input).into_iter().find_map(|line| line.get("exit_code")?.as_i64());
    assert_eq!(inputs.map(exit_code), [Some(0), Some(3), Some(1), Some(0)], "{}", ran.stderr);
    for (input, code) in [("bad.bc", "DRI003"), ("none.bc", "DRI001")] {
        assert!(lines_of(input).iter().any(|line| line.get("code").is_some_and(|found| found == code)), "{input}: {}", ran.stderr);
    }
    assert!(lines_of("one.bc").iter().any(|line| line.get("line").is_some_and(|line| line == "by the way")), "{}", ran.stderr);
    assert_eq!(lines.iter().filter(|line| !line.contains_key("input")).count(), 1, "the sum at the end: {}", ran.stderr);
}

fn a_cached_output_is_the_same_and_runs_no_stage() {
    let folder = folder_with_stub_stages(&format!("echo $name >> \"$(dirname \"$0\")/runs\"\n{COPY_AND_APPEND_COMMAND_LINE}"));
    let stage_runs = || fs::read_to_string(folder.path().join("runs")).unwrap_or_default().lines().count();
    let compile = |options: &[&str]| {
        run_driver(folder.path(), &[&["k.bc", "--gpu-name=sm_80", "--cache=kept", "-o", "out"], options].concat()).ok("cached");
        fs::read(folder.path().join("out")).unwrap()
    };
    let first = compile(&[]);
    assert_eq!(stage_runs(), 6);
    assert_eq!(compile(&[]), first);
    assert_eq!(stage_runs(), 6, "the second run takes it from the cache");
    assert_ne!(compile(&["-O1"]), first);
    assert_eq!(stage_runs(), 12, "another option is another key");
    fs::write(folder.path().join("script"), "#!/bin/sh\nexec cat\n").unwrap();
    tests::replaced_tool::install_executable(&folder.path().join("script"), &folder.path().join("tile-sched"));
    assert_ne!(compile(&[]), first, "another tool is another key");
    for entry in files_below(&folder.path().join("kept/entries")) {
        fs::write(entry, "damaged").unwrap();
    }
    compile(&[]);
    let set_mode =
        |mode| fs::set_permissions(folder.path().join("kept"), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    set_mode(0o755);
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "--cache=kept", "-o", "out"]);
    assert_eq!(ran.code, Some(2), "a cache that others can reach is refused: {}", ran.stderr);
    set_mode(0o700);
}

fn killing_the_driver_leaves_no_partial_output_and_a_valid_cache() {
    let folder = folder_with_stub_stages(&format!("echo $name >> \"$(dirname \"$0\")/runs\"\n{COPY_AND_APPEND_COMMAND_LINE}"));
    let names: Vec<String> = (0..40).map(|index| format!("k{index}")).collect();
    let paths = write_kernels(folder.path(), &names.iter().map(String::as_str).collect::<Vec<_>>());
    let arguments: Vec<&str> =
        paths.iter().map(String::as_str).chain(["--gpu-name=sm_80", "--cache=kept", "--out-dir=out"]).collect();
    for delay in [5, 10, 20, 30, 45, 60, 90, 120, 150, 200] {
        let mut command = Command::new(folder.path().join("tileiras"));
        command.args(&arguments).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let outputs_after_kills: Vec<_> = cubins_in(&folder.path().join("out"));
    run_driver(folder.path(), &arguments).ok("after the kills");
    let complete = cubins_in(&folder.path().join("out"));
    assert_eq!(complete.len(), 40);
    for entry in &outputs_after_kills {
        assert!(complete.contains(entry), "{} was there in part", entry.0);
    }
    // Nothing is left to compile: the cache has every result, and no entry is damaged.
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    fs::remove_file(folder.path().join("runs")).unwrap();
    run_driver(folder.path(), &arguments).ok("from the cache");
    assert_eq!(cubins_in(&folder.path().join("out")), complete);
    assert!(!folder.path().join("runs").exists(), "the last run started no stage");
}

/// The scheduler and two workers, all on this machine, compile the jobs of a ninja file for one client.
fn a_distributed_sweep_gives_the_same_outputs_as_a_local_one() {
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.is_file(), "Dask is not there; scripts/setup --clients brings it");
    check_stages_are_current();
    let mut command = Command::new(python);
    command.arg(root().join("scripts/distribute")).arg("demo").arg(root().join("examples/kernels"));
    command.args(["--workers=2", "--targets=sm_80,sm_120", "--levels=3", "--tools"]).arg(tools_folder());
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
    assert!(ran.text().contains("outputs are the same, byte for byte"), "{}", ran.text());
}

fn a_generated_ninja_file_builds_oddly_named_kernels_like_the_driver_does() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    fs::create_dir(folder.path().join("in x")).unwrap();
    write_kernels(&folder.path().join("in x"), &ODD_NAMES);
    let sweep = ["in x", "--gpu-name=sm_80", "--gpu-name=sm_90", "-O0", "-O3", "--lineinfo", "--out-dir=ou t"];
    run_driver(folder.path(), &[&sweep[..], &["--emit-ninja=build.ninja"]].concat()).ok("--emit-ninja");
    let run_ninja = || {
        let mut command = Command::new("ninja");
        command.args(["-j", "4"]).current_dir(folder.path());
        let ran = run_to_end(command, b"");
        assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
        ran.text()
    };
    run_ninja();
    let built = cubins_in(&folder.path().join("ou t"));
    assert_eq!(built.len(), ODD_NAMES.len() * 4);
    assert!(run_ninja().contains("no work to do"));
    fs::remove_dir_all(folder.path().join("ou t")).unwrap();
    let inputs: Vec<String> = ODD_NAMES.iter().map(|name| format!("in x/{name}.bc")).collect();
    let arguments: Vec<&str> = sweep[1..].iter().copied().chain(inputs.iter().map(String::as_str)).collect();
    run_driver(folder.path(), &arguments).ok("--out-dir");
    assert_eq!(cubins_in(&folder.path().join("ou t")), built);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    many_inputs_and_targets_in_one_run,
    options_that_name_one_file_are_refused_for_several,
    one_bad_input_does_not_stop_the_others,
    every_line_of_json_is_an_object_that_names_its_input,
    a_cached_output_is_the_same_and_runs_no_stage,
    killing_the_driver_leaves_no_partial_output_and_a_valid_cache,
    a_distributed_sweep_gives_the_same_outputs_as_a_local_one,
    a_generated_ninja_file_builds_oddly_named_kernels_like_the_driver_does,
];
