//! Compilation ahead of time: fatbins for several targets, C arrays, object files, C headers, and cache keys.

use crate::check_stages_are_current;
use crate::driver::{COPY_AND_APPEND_COMMAND_LINE, folder_with_stub_stages, run_driver};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::{RunResult, root, run_in, run_to_end, temporary_folder};

const TARGETS: [&str; 4] = ["sm_80", "sm_90a", "sm_100", "sm_120"];

/// A folder with the bytecode of a matmul, which has TMA copies and a cluster on some targets, and of a vector addition.
fn folder_with_kernels() -> tempfile::TempDir {
    check_stages_are_current();
    let folder = temporary_folder();
    for (case, name) in [("matmul_f16", "matmul.tileirbc"), ("vadd", "vadd.tileirbc")] {
        fs::copy(root().join("tests/run").join(case).join("kernel.tileirbc"), folder.path().join(name)).unwrap();
    }
    folder
}

fn run_tileiras(folder: &Path, arguments: &[&str]) -> RunResult {
    run_in(folder, "tileiras", arguments, b"")
}

/// Compiles for all of `TARGETS`.
fn compile(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let targets: Vec<String> = TARGETS.iter().map(|target| format!("--gpu-name={target}")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let ran = run_tileiras(folder, &[&targets[..], arguments, &["-o", "out"]].concat());
    ran.ok(&format!("{arguments:?}"));
    fs::read(folder.join("out")).unwrap()
}

/// Compiles a C program and runs it.
fn run_c(folder: &Path, program: &str, inputs: &[&str]) -> Vec<u8> {
    fs::write(folder.join("main.c"), program).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "main.c"]).args(inputs).args(["-o", "main"]);
    compiler.current_dir(folder);
    run_to_end(compiler, b"").ok("cc");
    run_to_end(Command::new(folder.join("main")), b"").ok("the program")
}

fn a_fatbin_has_the_cubins_of_single_compilations() {
    let folder = folder_with_kernels();
    let fatbin = compile(folder.path(), &["vadd.tileirbc", "--emit=fatbin"]);
    let cubins = cubin::cubins(&fatbin, "the fatbin").unwrap();
    let ptx = cubin::ptx(&fatbin, "the fatbin").unwrap();
    for (target, cubin) in TARGETS.iter().zip(&cubins) {
        run_tileiras(folder.path(), &["vadd.tileirbc", "--gpu-name", target, "-o", "single"]).ok(target);
        assert!(fs::read(folder.path().join("single")).unwrap() == *cubin, "{target}");
    }
    assert_eq!(cubins.len(), TARGETS.len());
    // The PTX of sm_80 runs on every later GPU, that of sm_120a only there.
    for (ptx, target) in ptx.iter().zip(["sm_80", "sm_120"]) {
        run_tileiras(folder.path(), &["vadd.tileirbc", "--gpu-name", target, "--emit=ptx", "-o", "single"]).ok(target);
        assert!(fs::read_to_string(folder.path().join("single")).unwrap() == ptx.text, "{target}");
    }
    assert_eq!(ptx.iter().map(|ptx| ptx.architecture).collect::<Vec<_>>(), [Some(80), Some(120)]);
    // Neither the order of the targets nor the number of parallel compilations affects the bytes.
    let reversed: Vec<String> = TARGETS.iter().rev().map(|target| format!("--gpu-name={target}")).collect();
    let reversed: Vec<&str> = reversed.iter().map(String::as_str).collect();
    let options = ["vadd.tileirbc", "--emit=fatbin", "--jobs=1", "-o", "reversed"];
    run_tileiras(folder.path(), &[&reversed[..], &options[..]].concat()).ok("the reversed targets");
    assert!(fs::read(folder.path().join("reversed")).unwrap() == fatbin);
}

/// NVIDIA's command line has one target. If there are several, the last one applies.
fn without_a_fatbin_the_last_target_applies() {
    let folder = folder_with_kernels();
    let cubin = compile(folder.path(), &["vadd.tileirbc"]);
    run_tileiras(folder.path(), &["vadd.tileirbc", "--gpu-name=sm_120", "-o", "single"]).ok("one target");
    assert!(fs::read(folder.path().join("single")).unwrap() == cubin);
}

fn c_programs_link_arrays_and_objects_and_read_the_header() {
    let folder = folder_with_kernels();
    let fatbin = compile(folder.path(), &["matmul.tileirbc", "--emit=fatbin"]);
    let program = r#"
#include "k.h"
#include <stdio.h>
int main(void) {
    const struct tileworks_kernel *kernel = &gemm_kernels[0];
    fprintf(stderr, "%s", kernel->name);
    if (gemm_kernel_count != 1 || kernel->code_count != 4 || kernel->parameter_count != 15) return 1;
    for (unsigned i = 0; i < kernel->code_count; i++) {
        const struct tileworks_code *code = &kernel->code[i];
        if (code->threads < 32 || code->registers == 0 || code->cluster[0] < 1 || code->shared_bytes == 0) return 2;
        if (code->target[3] == '8' ? code->tensor_maps != 0 : code->parameter_bytes != kernel->code[0].parameter_bytes && code->tensor_maps == 0) return 3;
    }
    return fwrite(gemm, gemm_size, 1, stdout) != 1;
}
"#;
    for (emit, name) in [("c-array", "k.c"), ("object", "k.o")] {
        let bytes = compile(folder.path(), &["matmul.tileirbc", &format!("--emit={emit}"), "--symbol=gemm", "--c-header=k.h"]);
        fs::write(folder.path().join(name), bytes).unwrap();
        assert!(run_c(folder.path(), program, &[name]) == fatbin, "{emit}");
        let header = fs::read(folder.path().join("k.h")).unwrap();
        compile(folder.path(), &["matmul.tileirbc", &format!("--emit={emit}"), "--symbol=gemm", "--c-header=k.h"]);
        assert!(fs::read(folder.path().join("k.h")).unwrap() == header);
    }
    // A C++ program includes the header too.
    fs::write(folder.path().join("main.cc"), "#include \"k.h\"\nint main() { return gemm_size == 0; }\n").unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "main.cc", "k.o", "-o", "main"]).current_dir(folder.path());
    run_to_end(compiler, b"").ok("c++");
    // The name of the input is the default of the symbol.
    let array = compile(folder.path(), &["vadd.tileirbc", "--emit=c-array"]);
    assert!(String::from_utf8_lossy(&array).contains("const unsigned long long vadd_fatbin_size = "));
}

fn the_stages_before_the_target_run_once_and_leave_their_files() {
    let folder = folder_with_kernels();
    let ran = run_tileiras(
        folder.path(),
        &[
            "vadd.tileirbc",
            "--gpu-name=sm_80",
            "--gpu-name=sm_90",
            "--emit=object",
            "--time",
            "--save-temps=kept",
            "-MD",
            "-o",
            "k.o",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let count = |tool: &str| ran.stderr.lines().filter(|line| line.starts_with(tool) && line.contains(" total ")).count();
    assert_eq!(["tile-read", "tile-lower-aa", "tile-lower-as", "tile-link"].map(count), [1, 1, 2, 2], "{}", ran.stderr);
    let mut kept: Vec<String> = fs::read_dir(folder.path().join("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    kept.sort();
    let of_target = |target: &str| ["as", "cubin", "ptx", "sched"].map(|kind| format!("vadd.{target}.{kind}"));
    let expected = [&["vadd.aa".to_string()][..], &of_target("sm_80"), &of_target("sm_90"), &["vadd.tile".to_string()]].concat();
    assert_eq!(kept, expected);
    let depfile = fs::read_to_string(folder.path().join("k.d")).unwrap();
    assert!(depfile.starts_with("k.o:") && depfile.contains("vadd.tileirbc") && depfile.contains("ptxas"), "{depfile}");
}

fn batches_and_ninja_files_have_one_fatbin_for_each_kernel() {
    let folder = folder_with_kernels();
    let options = ["vadd.tileirbc", "matmul.tileirbc", "--gpu-name=sm_80", "--gpu-name=sm_90", "--emit=fatbin"];
    run_tileiras(folder.path(), &[&options[..], &["--out-dir=batch"]].concat()).ok("--out-dir");
    run_tileiras(folder.path(), &[&options[..], &["--out-dir=built", "--emit-ninja=build.ninja"]].concat()).ok("--emit-ninja");
    let mut ninja = Command::new("ninja");
    ninja.current_dir(folder.path());
    run_to_end(ninja, b"").ok("ninja");
    for name in ["vadd.fatbin", "matmul.fatbin"] {
        let fatbin = fs::read(folder.path().join("batch").join(name)).unwrap();
        assert_eq!(cubin::cubins(&fatbin, name).unwrap().len(), 2);
        assert!(fs::read(folder.path().join("built").join(name)).unwrap() == fatbin, "{name}");
    }
}

/// The test uses stub stages, because the cache key hashes all executables, which takes seconds for those of debug builds.
fn the_cache_key_covers_all_targets() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    fs::write(folder.path().join("other.bc"), b"\x7fTileIR\0\x0d\x03\0\0other").unwrap();
    let key = |arguments: &[&str]| {
        let ran = run_driver(folder.path(), &[&["--print-cache-key", "-o", "none"], arguments].concat());
        String::from_utf8(ran.ok("the key")).unwrap()
    };
    let keys = [
        key(&["k.bc", "--gpu-name=sm_80"]),
        key(&["k.bc", "--gpu-name=sm_90"]),
        key(&["k.bc", "--gpu-name=sm_80", "--gpu-name=sm_90", "--emit=fatbin"]),
        key(&["k.bc", "--gpu-name=sm_80", "--gpu-name=sm_100", "--emit=fatbin"]),
        key(&["k.bc", "--gpu-name=sm_80", "-O1"]),
        key(&["other.bc", "--gpu-name=sm_80"]),
    ];
    assert!(keys.iter().all(|key| key.len() == 65 && key.trim().chars().all(|c| c.is_ascii_hexdigit())), "{keys:?}");
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(key(&["k.bc", "--gpu-name=sm_90", "--gpu-name=sm_80", "--emit=fatbin"]), keys[2]);
    assert_eq!(key(&["k.bc", "--gpu-name=sm_90", "--cache=cache"]), keys[1]);
    assert!(!folder.path().join("none").exists());
}

/// Sixteen processes share a cache whose limit holds one entry. All outputs are right, and the statistics count each lookup.
fn processes_share_a_small_cache() {
    let folder =
        folder_with_stub_stages(&format!("{COPY_AND_APPEND_COMMAND_LINE}\n[ $name != tile-link ] || head -c 600000 /dev/zero"));
    let target = |index: usize| ["--gpu-name=sm_80", "--gpu-name=sm_90"][index % 2];
    let output = |index: usize, name: &str| {
        let options = ["k.bc", target(index), "--cache=cache", "--cache-size=1", "--embed-program=off", "-o", name];
        run_driver(folder.path(), &options).ok(name);
        fs::read(folder.path().join(name)).unwrap()
    };
    let expected = [output(0, "first"), output(1, "second")];
    assert!(expected[0] != expected[1]);
    std::thread::scope(|scope| {
        for index in 0..16 {
            let (output, expected) = (&output, &expected);
            scope.spawn(move || assert!(output(index, &format!("out{index}")) == expected[index % 2], "{index}"));
        }
    });
    let statistics = run_driver(folder.path(), &["--cache=cache", "--cache-size=1", "--cache-stats"]).ok("statistics");
    let statistics = String::from_utf8(statistics).unwrap();
    let counts: Vec<usize> = statistics.lines().nth(1).unwrap().split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(statistics.starts_with("1 entries, 0.6 of 1 MiB\n") && counts[0] + counts[1] == 18 && counts[1] >= 3, "{statistics}");
}

fn options_that_do_not_fit_the_output_are_refused() {
    let folder = folder_with_kernels();
    let several = ["vadd.tileirbc", "--gpu-name=sm_80", "--gpu-name=sm_90"];
    for (options, message) in [
        (&["--c-header=k.h"][..], "--c-header requires --emit=fatbin, c-array or object"),
        (&["--symbol=k"], "--symbol requires --emit=fatbin, c-array or object"),
        (&["--emit=object", "--symbol=a-b"], "'a-b' is not a C identifier"),
        (&["--emit=fatbin", "--remarks=all"], "remarks are about the code for one target"),
        (&["--emit=fatbin", "--stop-after=tile-ptx"], "contradict each other"),
        (&["--emit=object", "--out-dir=x", "--c-header=k.h"], "names a single file"),
    ] {
        let output = if options.contains(&"--out-dir=x") { &[][..] } else { &["-o", "out"] };
        let ran = run_tileiras(folder.path(), &[&several[..], options, output].concat());
        assert!(ran.code != Some(0) && ran.stderr.contains(message), "{options:?}: {}", ran.stderr);
        assert!(!folder.path().join("out").exists() && !folder.path().join("k.h").exists(), "{options:?}");
    }
}

/// If the compilation for one of several targets fails, a note names this target.
fn a_failure_names_its_target() {
    let folder = folder_with_kernels();
    let options = ["matmul.tileirbc", "--gpu-name=sm_80", "--gpu-name=sm_90", "--emit=fatbin", "--mma=wgmma", "-o", "out"];
    let ran = run_tileiras(folder.path(), &options);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(ran.stderr.contains("note: the target is sm_80\n"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("error: failed to compile Tile IR program\n") && !folder.path().join("out").exists());
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    a_fatbin_has_the_cubins_of_single_compilations,
    without_a_fatbin_the_last_target_applies,
    c_programs_link_arrays_and_objects_and_read_the_header,
    the_stages_before_the_target_run_once_and_leave_their_files,
    batches_and_ninja_files_have_one_fatbin_for_each_kernel,
    the_cache_key_covers_all_targets,
    options_that_do_not_fit_the_output_are_refused,
    a_failure_names_its_target,
    processes_share_a_small_cache,
];
