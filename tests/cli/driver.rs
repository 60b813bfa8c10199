//! Tests of the driver `tileiras` with stub scripts in place of the stages. They check the stages that it starts, their options,
//! and its reaction to failures.

use crate::{bytecode_path, check_stages_are_current};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::replaced_tool::install_executable;
use tests::{RunResult, run_in, run_to_end, temporary_folder, tool};

/// Shell code of a stub that sets `file`. If the last argument is a file, as in the commands of a dry run, `file` is this argument,
/// otherwise standard input.
const SET_FILE_VARIABLE: &str = r#"for file in "$@"; do :; done
[ $name = tile-read ] || file=-; case $file in -*) file=-;; esac"#;

/// An ELF header for a GPU without any sections, which the driver accepts as a cubin.
fn empty_cubin() -> [u8; 64] {
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (header[16], header[18], header[20], header[52], header[58]) = (2, 190, 1, 64, 64);
    header
}

/// The lines of a file that the stubs wrote.
fn lines_of(path: &Path) -> Vec<String> {
    String::from_utf8_lossy(&fs::read(path).unwrap()).lines().map(str::to_string).collect()
}

/// A directory with a copy of the driver and a stub script for each stage. The script runs the shell code `behaviour`, in which
/// $name is the stage's name and $file its input. The script of the last stage first prints the header of a cubin.
pub(crate) fn folder_with_stub_stages(behaviour: &str) -> tempfile::TempDir {
    let folder = temporary_folder();
    install_executable(&tool("tileiras"), &folder.path().join("tileiras"));
    for stage in ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-link"] {
        let source = folder.path().join("script");
        let script =
            format!("#!/bin/sh\nname={stage}\n{SET_FILE_VARIABLE}\n[ $name = tile-link ] && cat \"${{0%/*}}/elf\"\n{behaviour}\n");
        fs::write(&source, script).unwrap();
        install_executable(&source, &folder.path().join(stage));
    }
    fs::write(folder.path().join("elf"), empty_cubin()).unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(folder.path().join("bin/ptxas"), "not run").unwrap();
    fs::write(folder.path().join("k.bc"), b"\x7fTileIR\0\x0d\x03\0\0rest").unwrap();
    folder
}

/// Runs the copy of the driver in a folder.
pub(crate) fn run_driver(folder: &Path, arguments: &[&str]) -> RunResult {
    let mut command = Command::new(folder.join("tileiras"));
    command.args(arguments).current_dir(folder).env("CUDA_ROOT", folder);
    run_to_end(command, b"")
}

/// Shell code of a stub that copies its input to its output and appends its command line. The stub cuts the line before the number
/// of a file descriptor, because that number varies between runs.
pub(crate) const COPY_AND_APPEND_COMMAND_LINE: &str = r#"line="$name $*"; case $line in */proc/self/fd/*) line="${line%%/proc/self/fd/*}";; esac
    { cat "$file"; echo "$line"; }"#;

fn stages_run_in_order_and_get_their_options() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    run_driver(
        folder.path(),
        &["k.bc", "--gpu-name", "sm_90", "-O1", "--lineinfo", "--sanitize=memcheck", "--embed-program=off", "-o", "out"],
    )
    .ok("the run");
    assert_eq!(
        lines_of(&folder.path().join("out"))[1..],
        [
            "tile-lower-aa --error-format=json --opt-level=1",
            "tile-lower-as --error-format=json --gpu-name=sm_90",
            "tile-sched --error-format=json",
            "tile-ptx --error-format=json --lineinfo",
            "tile-link --error-format=json --sanitize=memcheck",
        ]
    );
}

fn override_options_reach_the_stage_that_implements_them() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    let lowering = ["--warps=8", "--occupancy=2", "--cluster=1", "--split-m=off", "--mma=mma", "--tma=off", "--prefetch=off"];
    let decisions = [&lowering[..], &["--stages=3", "--roles=off"]].concat();
    let arguments = ["k.bc", "--gpu-name", "sm_90", "--ptxas-options=-v --maxrregcount=128", "--embed-program=off", "-o", "out"];
    run_driver(folder.path(), &[&decisions[..], &arguments].concat()).ok("the run");
    assert_eq!(
        lines_of(&folder.path().join("out"))[2..],
        [
            "tile-lower-as --error-format=json --gpu-name=sm_90 --warps=8 --occupancy=2 --cluster=1 --split-m=off --mma=mma --tma=off --prefetch=off",
            "tile-sched --error-format=json --stages=3 --roles=off",
            "tile-ptx --error-format=json",
            "tile-link --error-format=json --ptxas-options=-v --maxrregcount=128",
        ]
    );
}

fn the_first_failing_stage_determines_message_and_exit_code() {
    let diagnostic = r#"{"severity":"error","kind":"unsupported","code":"AS1","message":"no such atom","place":{"source":{"file":"k.py","line":3,"column":7}},"notes":[]}"#;
    // Like the real stages, a stub with empty input fails silently.
    let failing_stage = |stage: &str, code: u8| {
        let fail = format!("[ $name = {stage} ] && {{ echo '{diagnostic}' >&2; exit {code}; }}");
        format!("data=$(cat \"$file\" | tr -d '\\000')\n{fail}\n[ -n \"$data\" ] || exit 4\necho \"$data\"")
    };
    let folder = folder_with_stub_stages(&failing_stage("tile-lower-as", 3));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name", "sm_90", "-o", "out"]);
    assert_eq!(ran.code, Some(5));
    assert_eq!(ran.stderr, "loc(\"k.py\":3:7): error: no such atom\nerror: failed to compile Tile IR program\n");
    assert!(!folder.path().join("out").exists());
    let folder = folder_with_stub_stages(&failing_stage("tile-read", 1));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name", "sm_90", "-o", "out"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), "loc(\"k.py\":3:7): error: no such atom\n"));
    let human = run_driver(folder.path(), &["k.bc", "--gpu-name", "sm_90", "-o", "out", "--error-format=human"]);
    assert_eq!(human.stderr, "error[AS1]: no such atom\n  --> k.py:3:7\n");
}

fn a_stage_that_dies_or_is_missing_is_an_ordinary_failure() {
    let folder = folder_with_stub_stages(&format!(
        "[ $name = tile-sched ] && cat > /dev/null && kill -SEGV $$\n{COPY_AND_APPEND_COMMAND_LINE}"
    ));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name", "sm_90"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stderr.contains("tile-sched failed: signal: 11"), "{}", ran.stderr);
    fs::remove_file(folder.path().join("tile-ptx")).unwrap();
    fs::write(folder.path().join("script"), "#!/bin/sh\nexec cat\n").unwrap();
    install_executable(&folder.path().join("script"), &folder.path().join("tile-sched"));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name", "sm_90"]);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stderr.contains("tile-ptx"), "{}", ran.stderr);
}

fn emit_stop_after_and_save_temps_write_the_requested_files() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    let lines = |path: &str| lines_of(&folder.path().join(path)).len();
    run_driver(folder.path(), &["k.bc", "--emit=aa", "-o", "k.aa"]).ok("no target is needed for .aa");
    assert_eq!(lines("k.aa"), 2);
    run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "--stop-after=tile-sched:alloc", "-o", "k.sched"]).ok("--stop-after");
    assert!(fs::read_to_string(folder.path().join("k.sched")).unwrap().ends_with("--stop-after=alloc\n"));
    run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "--save-temps=kept", "-o", "k.cubin"]).ok("--save-temps");
    for (index, kind) in ["tile", "aa", "as", "sched", "ptx", "cubin"].iter().enumerate() {
        assert_eq!(lines(&format!("kept/k.{kind}")), index + 1);
    }
    assert_eq!(lines("k.cubin"), 6);
}

/// This test uses the real stages, because they implement the passes.
fn print_after_prints_the_file_after_one_pass_or_all() {
    check_stages_are_current();
    let folder = temporary_folder();
    let printed_passes = |option: &str| {
        let ran = run_in(folder.path(), "tileiras", &[&bytecode_path(), "--gpu-name=sm_80", option, "-o", "k.cubin"], b"");
        let heads = ran.stderr.lines().filter_map(|line| line.strip_prefix("// tile-")).map(str::to_string).collect::<Vec<_>>();
        (ran.code, heads)
    };
    assert_eq!(printed_passes("--print-after=hoist"), (Some(0), vec!["lower-aa after hoist".to_string()]));
    assert_eq!(printed_passes("--print-after=tile-ptx:optimize"), (Some(0), vec!["ptx after optimize".to_string()]));
    assert_eq!(printed_passes("--print-after=nothing"), (Some(2), vec![]));
    let (_, all_passes) = printed_passes("--print-after=all");
    let stages: Vec<&str> = all_passes.iter().map(|head| head.split(' ').next().unwrap()).collect();
    for stage in ["lower-aa", "lower-as", "sched", "ptx"] {
        assert!(stages.contains(&stage), "{all_passes:?}");
    }
    let stop = run_in(folder.path(), "tileiras", &[&bytecode_path(), "--stop-after=use-facts", "--format=text", "-o", "k.aa"], b"");
    stop.ok("--stop-after=PASS");
    assert!(fs::read_to_string(folder.path().join("k.aa")).unwrap().starts_with("//!tile tileaa"));
}

fn large_files_pass_through_all_stages() {
    let folder = folder_with_stub_stages(r#"head -c 3000000 /dev/zero >&2; cat "$file""#);
    let size = 5_000_000;
    let input = [b"\x7fTileIR\0\x0d\x03".to_vec(), vec![0; size]].concat();
    fs::write(folder.path().join("k.bc"), input).unwrap();
    run_driver(folder.path(), &["k.bc", "--gpu-name=sm_80", "-o", "out"]).ok("a large file");
    assert_eq!(fs::metadata(folder.path().join("out")).unwrap().len() as usize, size + 10 + empty_cubin().len());
}

fn dry_runs_and_depfiles_quote_special_characters() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    for name in ["a b.bc", "a$b.bc", "a:b.bc", "-k.bc", "a#b.bc", "it's.bc", "a%b.bc", r"a\b.bc", r"a\ b.bc", "a=b.bc", "a|b.bc"] {
        fs::copy(folder.path().join("k.bc"), folder.path().join(name)).unwrap();
        let line = run_driver(folder.path(), &["--gpu-name=sm_80", "--dry-run", "-o", "out x", "--", name]);
        assert_eq!(line.code, Some(0), "{}", line.stderr);
        let mut command = Command::new("bash");
        command.arg("-c").arg(line.text()).current_dir(folder.path()).env("PATH", path_with_first(folder.path()));
        let by_shell = run_to_end(command, b"");
        assert_eq!(by_shell.code, Some(0), "{name}: {} {}", line.text(), by_shell.stderr);
        run_driver(folder.path(), &["--gpu-name=sm_80", "-MD", "-MF", "d", "-o", "out", "--", name]).ok(name);
        let rule = fs::read_to_string(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("Makefile"), format!("all: out\n{}\n\t@echo rebuilt\n", rule.trim_end())).unwrap();
        let mut make = Command::new("make");
        make.arg("all").current_dir(folder.path());
        let built = run_to_end(make, b"");
        assert_eq!(built.code, Some(0), "{name}: {}\n{rule}", built.stderr);
        assert!(!built.text().contains("rebuilt"), "{name}: {rule}");
    }
    // Shells can name a file with a line break; make and ninja cannot. The driver reports that before it writes anything.
    let name = "a\nb.bc";
    fs::copy(folder.path().join("k.bc"), folder.path().join(name)).unwrap();
    let mut command = Command::new("bash");
    let line = run_driver(folder.path(), &["--gpu-name=sm_80", "--dry-run", "-o", "broken line", name]).ok("--dry-run");
    command.arg("-c").arg(String::from_utf8(line).unwrap()).current_dir(folder.path()).env("PATH", path_with_first(folder.path()));
    assert_eq!(run_to_end(command, b"").code, Some(0));
    for option in ["-MD", "--emit-ninja=build.ninja"] {
        let output: &[&str] = if option == "-MD" { &["-o", "no output"] } else { &[] };
        let ran = run_driver(folder.path(), &[&["--gpu-name=sm_80", option, name], output].concat());
        assert_eq!(ran.code, Some(1), "{option}: {}", ran.stderr);
        assert!(ran.stderr.contains("contains a line break"), "{option}: {}", ran.stderr);
        assert!(!folder.path().join("no output").exists() && !folder.path().join("build.ninja").exists());
    }
}

fn depfiles_and_ninja_files_list_response_files() {
    let folder = folder_with_stub_stages(COPY_AND_APPEND_COMMAND_LINE);
    fs::write(folder.path().join("outer"), "--gpu-name=sm_80 @inner").unwrap();
    fs::write(folder.path().join("inner"), "'k.bc' -O1").unwrap();
    run_driver(folder.path(), &["@outer", "-MD", "-o", "out"]).ok("with a response file");
    let depfile = fs::read_to_string(folder.path().join("out.d")).unwrap();
    assert!(depfile.starts_with("out: \\\n  k.bc \\\n  outer \\\n  inner \\\n"), "{depfile}");
    // Ninja regenerates its own file when the options change.
    run_driver(folder.path(), &["@outer", "--emit-ninja=build.ninja"]).ok("--emit-ninja");
    let built = || {
        let mut ninja = Command::new("ninja");
        ninja.current_dir(folder.path()).env("CUDA_ROOT", folder.path());
        let ran = run_to_end(ninja, b"");
        assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
        ran.text().lines().filter(|line| line.contains("build/")).count()
    };
    assert_eq!((built(), built()), (1, 0));
    fs::write(folder.path().join("inner"), "k.bc -O1 --gpu-name sm_90").unwrap();
    assert_eq!((built(), built()), (1, 0));
    assert!(folder.path().join("build/k.sm_90.cubin").exists());
}

/// PATH with a folder first.
fn path_with_first(folder: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&rest)).collect();
    std::env::join_paths(folders).unwrap()
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    stages_run_in_order_and_get_their_options,
    override_options_reach_the_stage_that_implements_them,
    the_first_failing_stage_determines_message_and_exit_code,
    a_stage_that_dies_or_is_missing_is_an_ordinary_failure,
    emit_stop_after_and_save_temps_write_the_requested_files,
    print_after_prints_the_file_after_one_pass_or_all,
    large_files_pass_through_all_stages,
    dry_runs_and_depfiles_quote_special_characters,
    depfiles_and_ninja_files_list_response_files,
];
