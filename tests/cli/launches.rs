//! Tests of launch descriptions and of arguments on the command line. `tile-run` and `tile-sim` must accept the same descriptions,
//! report the same errors and write the same outputs.

use crate::make_stage_files;
use std::fs;
use std::path::Path;
use tests::{RunResult, run_in, temporary_folder};

/// The executors, each with the stage file of a kernel that adds two arrays, 256 elements per CTA. The kernel has three pointers,
/// each with an extent and a stride.
const EXECUTORS: [(&str, &str); 3] = [("tile-run", "k.tile"), ("tile-run", "k.sched"), ("tile-sim", "k.ptx")];

/// The parameters of a correct launch: each array is a pointer to a buffer, an extent of 1024 elements and a stride of one.
const PARAMS: &str = r#"[{"ptr": "a"}, {"i32": 1024}, {"i32": 1}, {"ptr": "b"}, {"i32": 1024}, {"i32": 1},
    {"ptr": "c"}, {"i32": 1024}, {"i32": 1}]"#;
/// The buffers of a correct launch, 1024 elements of four bytes each: `a` and `b` are the inputs, `c` is the output.
const BUFFERS: &str = r#"[{"name": "a", "type": "f32[1024]", "fill": {"iota": "f32"}},
    {"name": "b", "bytes": 4096, "fill": {"constant": "f32", "value": 2}}, {"name": "c", "type": "f32[1024]", "fill": "empty"}]"#;

/// The JSON text of a launch description. `rest` is empty, or further fields with a leading comma.
fn launch_description(grid: &str, params: &str, buffers: &str, rest: &str) -> String {
    format!(r#"{{"grid": {grid}, "params": {params}, "buffers": {buffers} {rest}}}"#)
}

/// Runs each executor on a launch description. `check` gets the name of the stage file, the result of the run and the output
/// directory.
fn for_each_executor(folder: &Path, launch: &str, options: &[&str], check: impl Fn(&str, RunResult, &Path)) {
    fs::write(folder.join("launch.json"), launch).unwrap();
    for (tool, file) in EXECUTORS {
        let out = format!("out-{file}");
        let _ = fs::remove_dir_all(folder.join(&out));
        let arguments = [&[file, "--launch", "launch.json", "--out-dir", &out], options].concat();
        check(file, run_in(folder, tool, &arguments, b""), &folder.join(out));
    }
}

fn parse_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn filled_and_uninitialised_buffers_exist_and_all_are_outputs() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    for_each_executor(folder.path(), &launch_description("4", PARAMS, BUFFERS, ""), &["--print-outputs"], |file, ran, out| {
        let shown = ran.text();
        ran.ok(file);
        assert!(shown.contains("c: f32[1024] [2, 3, 4, ..., 1023, 1024, 1025]\n"), "{file}: {shown}");
        // The output of a buffer with a type is an array file; the output of a buffer of N bytes has the bytes.
        let sum = fs::read(out.join("c.npy")).unwrap();
        assert!(parse_floats(&sum[sum.len() - 4096..]).iter().enumerate().all(|(i, sum)| *sum == i as f32 + 2.0));
        assert_eq!(fs::read(out.join("b.bin")).unwrap().len(), 4096);
    });
    // A buffer that the kernel did not write is unreadable.
    let empty_buffers = BUFFERS.replace(r#"{"constant": "f32", "value": 2}"#, r#""empty""#);
    fs::write(folder.path().join("launch.json"), launch_description("4", PARAMS, &empty_buffers, "")).unwrap();
    let ran = run_in(folder.path(), "tile-run", &["k.tile", "--launch", "launch.json", "--check"], b"");
    assert!(ran.code == Some(1) && ran.stderr.contains("CHK002"), "{}", ran.stderr);
}

fn fills_and_numpy_arrays_are_arguments_of_all_executors() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    for (tool, file) in EXECUTORS {
        let arguments = ["iota:f32[1024]", "ones:f32[1024]", "zeros:f32[1024]"];
        let options = ["--abi=cutile", "--grid", "4", "--out-dir", "out", "--print-outputs"];
        let shown = run_in(folder.path(), tool, &[&[file], &arguments[..], &options].concat(), b"").ok(file);
        // Messages count arguments, not parameters.
        assert!(String::from_utf8_lossy(&shown).contains("arg2: f32[1024] [1, 2, 3, ..., 1022, 1023, 1024]\n"), "{file}");
        let arguments = ["out/arg2.npy", "out/arg2.npy", "sum=empty:f32[1024]"];
        let shown = run_in(folder.path(), tool, &[&[file], &arguments[..], &options].concat(), b"").ok(file);
        assert!(String::from_utf8_lossy(&shown).contains("sum: f32[1024] [2, 4, 6, ..., 2044, 2046, 2048]\n"), "{file}");
        fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
}

fn all_executors_refuse_mismatched_launches_with_the_same_message() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    let buffers = BUFFERS;
    for (params, message) in [
        (PARAMS.replacen(r#"{"i32": 1024}"#, r#"{"i32": 4294967296}"#, 1), "4294967296 does not fit i32"),
        (PARAMS.replacen(r#"{"i32": 1024}"#, r#"{"f32": 1024}"#, 1), "it is i32, the launch gives f32"),
        (PARAMS.replacen(r#"{"i32": 1024}"#, r#"{"i64": 1024}"#, 1), "it is i32, the launch gives i64"),
        (PARAMS.replacen(r#"{"i32": 1024}"#, r#"{"ptr": "a"}"#, 1), "it is i32, the launch gives the address of 'a'"),
        (PARAMS.replacen(r#"{"ptr": "a"}, "#, "", 1), "has 9 parameters"),
        (PARAMS.replacen(r#"{"ptr": "a"}"#, r#"{"ptr": "d"}"#, 1), "no buffer is called 'd'"),
    ] {
        for_each_executor(folder.path(), &launch_description("4", &params, buffers, ""), &[], |file, ran, _| {
            assert_eq!(ran.code, Some(1), "{file}: {}", ran.stderr);
            assert!(ran.stderr.contains(message), "{file}: {}", ran.stderr);
        });
    }
    let large = launch_description("[4, 1, 1]", PARAMS, buffers, r#", "work": {"flops": 1e15, "bytes": 1}"#);
    for_each_executor(folder.path(), &large, &[], |file, ran, _| {
        assert_eq!(ran.code, Some(2), "{file}");
        assert!(ran.stderr.contains("1.000e15 operations") && ran.stderr.contains("--sample-blocks"), "{file}: {}", ran.stderr);
    });
}

/// Only stage files before PTX have the element type of a pointer, so this test runs only `tile-run`.
fn arrays_of_another_type_than_the_pointer_are_refused() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    let array = |ty: &str, bytes: usize| {
        let head = format!("{{'descr': '{ty}', 'fortran_order': False, 'shape': (1024,), }}");
        let head = format!("{head:117}\n");
        [b"\x93NUMPY\x01\x00", &(head.len() as u16).to_le_bytes()[..], head.as_bytes(), &vec![0; bytes]].concat()
    };
    for (ty, bytes) in [("<f2", 2), ("<f8", 8), ("<i2", 2), ("<i4", 4)] {
        fs::write(folder.path().join("a.npy"), array(ty, 1024 * bytes)).unwrap();
        let arguments = ["k.tile", "a.npy", "zeros:f32[1024]", "zeros:f32[1024]", "--abi=cutile", "--grid=4"];
        let ran = run_in(folder.path(), "tile-run", &arguments, b"");
        assert_eq!(ran.code, Some(1), "{ty}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("it is ptr<f32>, but 'arg0' is '{ty}'[1024]")), "{}", ran.stderr);
    }
    let arguments = ["k.tile", "zeros:f16[1024]", "zeros:f32[1024]", "zeros:f32[1024]", "--abi=cutile", "--grid=4"];
    let ran = run_in(folder.path(), "tile-run", &arguments, b"");
    assert!(ran.code == Some(1) && ran.stderr.contains("it is ptr<f32>, but 'arg0' is f16[1024]"), "{}", ran.stderr);
}

/// Executes two CTAs of a launch that is too large to execute completely: 12 GiB of memory and four million CTAs.
fn only_the_sample_blocks_of_a_large_launch_run() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    let count = 1u64 << 30;
    let params = PARAMS.replace("1024", &count.to_string());
    let buffers = format!(
        r#"[{{"name": "a", "bytes": {0}, "fill": {{"iota": "f32", "modulo": 1024}}}}, {{"name": "b", "bytes": {0}, "fill": {{"random": "f32", "seed": 3, "scale": 0, "offset": 1}}}},
            {{"name": "c", "bytes": {0}, "fill": "zero"}}]"#,
        4 * count
    );
    let rest = r#", "outputs": ["c"], "work": {"flops": 1e9, "bytes": 1.2e10, "shape": "much"}, "sample_blocks": {"sm_90": [[1000000, 0, 0], [5]]}"#;
    let launch = launch_description(r#"{"sm_80": 4194304, "sm_90": [4194304]}"#, &params, &buffers, rest);
    let options = ["--sample-blocks", "--gpu-name=sm_90"];
    fs::write(folder.path().join("launch.json"), &launch).unwrap();
    let ran = run_in(folder.path(), "tile-run", &["k.tile", "--launch", "launch.json", "--sample-blocks"], b"");
    assert!(ran.stderr.contains("depends on the target: select one with --gpu-name"), "{}", ran.stderr);
    for (tool, file) in EXECUTORS {
        let options = if file == "k.tile" { &options[..] } else { &options[..1] };
        let arguments = [&[file, "--launch", "launch.json", "--out-dir", "out"], options].concat();
        run_in(folder.path(), tool, &arguments, b"").ok(file);
        let path = folder.path().join("out/c.bin");
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 4 * count, "{file}");
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) < 1000, "{file}: a sparse file");
        let read_floats = |at: u64, bytes: usize| {
            let mut part = vec![0; bytes];
            let file = fs::File::open(&path).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut part, at).unwrap();
            parse_floats(&part)
        };
        for block in [5u64, 1_000_000] {
            let values = read_floats(block * 1024, 1024);
            let expected: Vec<f32> = (0..256).map(|i| ((block * 256 + i) % 1024) as f32 + 1.0).collect();
            assert_eq!(values, expected, "{file}: block {block}");
        }
        assert!(read_floats(6 * 1024, 1024).iter().all(|value| *value == 0.0), "{file}: only those blocks ran");
        fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    filled_and_uninitialised_buffers_exist_and_all_are_outputs,
    fills_and_numpy_arrays_are_arguments_of_all_executors,
    all_executors_refuse_mismatched_launches_with_the_same_message,
    arrays_of_another_type_than_the_pointer_are_refused,
    only_the_sample_blocks_of_a_large_launch_run,
];
