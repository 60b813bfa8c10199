//! Regression tests for faults that fault injection and mutation found. They cover files that change during a run or are damaged,
//! system limits, killed child processes, unusual file names, and programs whose compilation took minutes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::{RunResult, root, run_in, run_to_end, shell, temporary_folder, tool};

const STAGES: [&str; 6] = ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-link"];

/// The bytecode of a case of `tests/run`.
fn bytecode_path(case: &str) -> PathBuf {
    root().join("tests/run").join(case).join("kernel.tileirbc")
}

/// Panics if an executable that these tests start is missing or stale.
fn check_tools_are_current() {
    for name in STAGES.into_iter().chain(["tileiras", "tile-run", "tile-sim", "tile-dump", "tile-write", "tile-fuzz"]) {
        tool(name);
    }
}

/// A directory with copies of the driver `tileiras` and its stages, and with the input `k.bc`. A test can replace each executable
/// by a script. `replace_ptxas` adds a ptxas in `cuda/bin`.
struct Sandbox {
    folder: tempfile::TempDir,
    /// The directory for the temporary files of the tools (`TMPDIR`).
    scratch: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Sandbox {
        check_tools_are_current();
        let sandbox = Sandbox { folder: temporary_folder(), scratch: temporary_folder() };
        let copied = Command::new("cp").arg(tool("tileiras")).arg(sandbox.path("tileiras")).status().unwrap();
        assert!(copied.success());
        for name in STAGES {
            std::os::unix::fs::symlink(tool(name), sandbox.path(name)).unwrap();
        }
        fs::create_dir_all(sandbox.path("cuda/bin")).unwrap();
        fs::copy(bytecode_path("vadd"), sandbox.path("k.bc")).unwrap();
        sandbox
    }

    /// A sandbox whose stages are scripts. Their output is the header of a cubin and then the input. Reason: with the debug
    /// executables of the stages, tests of the cache would take seconds.
    fn with_script_stages() -> Sandbox {
        let sandbox = Sandbox::new();
        STAGES.iter().for_each(|stage| sandbox.replace_tool(stage, "exec cat"));
        let mut head = [0; 64];
        head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (head[16], head[18], head[20], head[52], head[58]) = (2, 190, 1, 64, 64);
        fs::write(sandbox.path("head"), head).unwrap();
        sandbox.replace_tool("tile-link", "cat head -");
        sandbox.replace_tool("cuda/bin/ptxas", "");
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a tool by a script. A child process writes the script, for the reason that `install_executable` in
    /// tests/cli/driver.rs gives.
    fn replace_tool(&self, name: &str, script: &str) {
        let _ = fs::remove_file(self.path(name));
        let line = format!("cat >'{0}' && chmod 755 '{0}'", self.path(name).display());
        let mut write = Command::new("sh");
        write.args(["-c", &line]);
        run_to_end(write, format!("#!/bin/bash\n{script}\n").as_bytes()).ok(name);
    }

    /// Replaces ptxas by a script, in which `$out` is the output file.
    fn replace_ptxas(&self, script: &str) {
        let out = r#"while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done"#;
        self.replace_tool("cuda/bin/ptxas", &format!("{out}\n{script}"));
    }

    /// A command that starts the driver of the sandbox in its directory.
    fn driver_command(&self, arguments: &[&str]) -> Command {
        // The process that runs the tests may ignore signals, as `nohup` and a script's `&` do. Children inherit ignored signals,
        // so reset them.
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(self.path("tileiras"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("TMPDIR", self.scratch.path());
        if self.path("cuda/bin/ptxas").exists() {
            command.env("CUDA_ROOT", self.path("cuda"));
        }
        command
    }

    fn run_driver(&self, arguments: &[&str]) -> RunResult {
        run_to_end(self.driver_command(arguments), b"")
    }

    fn assert_scratch_is_empty(&self) {
        let remaining: Vec<_> = fs::read_dir(self.scratch.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(remaining.is_empty(), "{remaining:?}");
    }

    fn cache_entry_count(&self) -> usize {
        tests::files_below(&self.path("cache/entries")).len()
    }
}

/// Waits until a condition holds, at most 240 s. `awaited_event` names the condition in the failure message.
fn wait_for(awaited_event: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(240), "{awaited_event}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process exists and has not ended.
fn is_running(pid: &str) -> bool {
    // A zombie (ended but not reaped) does not count.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The arguments that compile the kernel of the sandbox.
const COMPILE_VADD: [&str; 4] = ["k.bc", "--gpu-name=sm_90", "-o", "out"];

#[test]
fn cache_key_hashes_the_compiled_bytes_of_a_replaced_input() {
    let sandbox = Sandbox::with_script_stages();
    sandbox.replace_tool("tile-read", "touch started; while [ ! -e go ]; do sleep 0.01; done; exec cat");
    let cached_command =
        |input: &str, output: &str| sandbox.driver_command(&[input, "--gpu-name=sm_90", "-o", output, "--cache=cache"]);
    let first_run = cached_command("k.bc", "first").spawn().unwrap();
    wait_for("the first stage is started", || sandbox.path("started").exists());
    fs::copy(bytecode_path("row_sum"), sandbox.path("new")).unwrap();
    fs::rename(sandbox.path("new"), sandbox.path("k.bc")).unwrap();
    fs::write(sandbox.path("go"), "").unwrap();
    assert!(first_run.wait_with_output().unwrap().status.success());
    fs::copy(bytecode_path("vadd"), sandbox.path("vadd.bc")).unwrap();
    run_to_end(cached_command("vadd.bc", "second"), b"").ok("from the cache");
    sandbox.run_driver(&["vadd.bc", "--gpu-name=sm_90", "-o", "plain"]).ok("without one");
    assert!(fs::read(sandbox.path("second")).unwrap() == fs::read(sandbox.path("plain")).unwrap());
}

/// Compiles a program to PTX with the stages. `stage_options` are options of `tile-ptx`, which may run for 60 s. Returns the exit
/// code of `tile-ptx` and the messages of all stages.
fn compile_text(program: &str, stage_options: &str) -> (String, String) {
    check_tools_are_current();
    let folder = temporary_folder();
    fs::write(folder.path().join("k.mlir"), program).unwrap();
    let line = format!(
        "tile-read k.mlir | tile-lower-aa | tile-lower-as --gpu-name sm_90 | tile-sched | timeout 60 tile-ptx {stage_options} -o k.ptx; \
         echo ${{PIPESTATUS[4]}}"
    );
    let ran = shell(folder.path(), &line);
    (ran.text().trim().to_string(), ran.stderr)
}

#[test]
fn kernel_names_that_are_invalid_in_ptx_are_refused() {
    for name in [r#"@"bin\1Fwhere""#, "@a.b", r#"@"é""#, r#"@"1a""#, r#"@"a b""#, r#"@"%4""#] {
        let (code, reported) = compile_text(&format!("cuda_tile.module @m {{\nentry {name}() {{\nreturn\n}}\n}}\n"), "");
        assert_eq!(code, "3", "{name}: {reported}");
        assert!(reported.contains("PX007"), "{name}: {reported}");
    }
    let (code, reported) = compile_text("cuda_tile.module @m {\nentry @_a$1() {\nreturn\n}\n}\n", "");
    assert_eq!((code.as_str(), reported.as_str()), ("0", ""));
}

/// The text of a kernel that loads a tile of `count` elements as `%x`, executes `ops`, and stores `%y`.
fn with_tile_of(count: u32, ops: &str) -> String {
    format!(
        "cuda_tile.module @m {{\nentry @k(%p: tile<ptr<f32>>) {{\n%i = iota : tile<{count}xi32>\n\
         %one = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>\n\
         %all = broadcast %one : tile<1xptr<f32>> -> tile<{count}xptr<f32>>\n\
         %q = offset %all, %i : tile<{count}xptr<f32>>, tile<{count}xi32> -> tile<{count}xptr<f32>>\n\
         %x, %t = load_ptr_tko weak %q : tile<{count}xptr<f32>> -> tile<{count}xf32>, token\n{ops}\n\
         %u = store_ptr_tko weak %q, %y token = %t : tile<{count}xptr<f32>>, tile<{count}xf32> -> token\nreturn\n}}\n}}\n"
    )
}

#[test]
fn a_scan_of_16384_elements_compiles_within_the_time_limit() {
    let scan = "%y = scan %x dim=0 reverse=false identities=[0.0 : f32] : tile<16384xf32> -> tile<16384xf32>\n\
                (%a: tile<f32>, %b: tile<f32>) {\n%m = mulf %a, %b : tile<f32>\n%s = addf %m, %b : tile<f32>\nyield %s : tile<f32>\n}";
    let (code, reported) = compile_text(&with_tile_of(16384, scan), "");
    assert_eq!(code, "0", "{reported}");
    let scan = "%n = ftoi %x signed : tile<16384xf32> -> tile<16384xi32>\n\
                %c, %d = scan %n, %i dim=0 reverse=false identities=[1 : i32, 0 : i32] : tile<16384xi32>, tile<16384xi32> -> tile<16384xi32>, tile<16384xi32>\n\
                (%a: tile<i32>, %b: tile<i32>, %e: tile<i32>, %f: tile<i32>) {\n\
                %m = muli %a, %b : tile<i32>\n%g = muli %e, %b : tile<i32>\n%s = addi %g, %f : tile<i32>\nyield %m, %s : tile<i32>, tile<i32>\n}\n\
                %y = itof %d signed : tile<16384xi32> -> tile<16384xf32>";
    let (code, reported) = compile_text(&with_tile_of(16384, scan), "");
    assert_eq!(code, "0", "{reported}");
}

#[test]
fn a_chain_of_4000_ops_compiles_within_the_time_limit() {
    let mut program = String::from("cuda_tile.module @m {\nentry @k(%v0: tile<i32>, %b: tile<i32>, %p: tile<ptr<i32>>) {\n");
    for index in 0..4000 {
        let op = if index % 2 == 0 { "ori" } else { "addi" };
        program += &format!("%v{} = {op} %v{index}, %b : tile<i32>\n", index + 1);
    }
    program += "%t = make_token : token\n%r = store_ptr_tko weak %p, %v4000 token = %t : tile<ptr<i32>>, tile<i32> -> token\nreturn\n}\n}\n";
    let (code, reported) = compile_text(&program, "");
    assert_eq!((code.as_str(), reported.as_str()), ("0", ""));
}

#[test]
fn tiles_that_need_too_much_code_are_refused() {
    let (code, reported) = compile_text(&with_tile_of(1 << 24, "%y = exp %x : tile<16777216xf32>"), "");
    assert_eq!(code, "3", "{reported}");
    assert!(reported.contains("PX008") && reported.contains("16777216xf32"), "{reported}");
    // This kernel has little code, but all elements of the tile are live between the last load and the first store.
    let (code, reported) = compile_text(&with_tile_of(1 << 22, "%y = negf %x : tile<4194304xf32>"), "");
    assert_eq!(code, "3", "{reported}");
    assert!(reported.contains("PX009"), "{reported}");
}

/// `tile-ptx` emits a chain of ops over a tile of 256 registers per thread register by register. If it emitted the chain op by op,
/// each op would spill all registers, and ptxas would need minutes.
#[test]
fn chains_over_large_tiles_are_emitted_register_by_register() {
    check_tools_are_current();
    let mut ops = String::from("%x1 = mulf %x, %x : tile<65536xf32>\n%x2 = addf %x1, %x : tile<65536xf32>\n");
    for index in 2..32 {
        ops += &format!("%x{} = mulf %x{index}, %x{} : tile<65536xf32>\n", index + 1, index - 1);
    }
    ops += "%y = negf %x32 : tile<65536xf32>";
    let folder = temporary_folder();
    fs::write(folder.path().join("k.mlir"), with_tile_of(65536, &ops)).unwrap();
    let line = "tile-read k.mlir | tile-lower-aa | tile-lower-as --gpu-name sm_90 | tile-sched | tile-ptx";
    let ptx = String::from_utf8(shell(folder.path(), line).ok("a chain")).unwrap();
    let (before, after) = ptx.split_once("st.global").expect("it stores");
    let count = |text: &str| text.matches("mul.rn").count();
    assert_eq!(count(before) + count(after), 256 * 31);
    assert!(count(before) <= 4 * 31, "{} multiplications before the first store", count(before));
}

/// Each tool that reads a schedule refuses these invalid edits.
#[test]
fn schedules_without_waits_or_stages_are_refused() {
    check_tools_are_current();
    let folder = temporary_folder();
    let program = bytecode_path("matmul_f16");
    let line = format!(
        "tile-read {} | tile-lower-aa | tile-lower-as --gpu-name sm_80 | tile-sched --format=text -o k.sched",
        program.display()
    );
    shell(folder.path(), &line).ok("k.sched");
    let text = fs::read_to_string(folder.path().join("k.sched")).unwrap();
    let without_lines_starting_with = |start: &str| {
        text.lines().filter(|line| !line.trim_start().starts_with(start)).map(|line| format!("{line}\n")).collect::<String>()
    };
    // An iteration of the pipelined loop reads one stage of both buffers and fills another stage.
    let read_line = text.lines().find(|line| line.contains("shared_load(")).expect("the operands are read from buffers");
    let filled_line = text.lines().rfind(|line| line.contains("copy_view(")).expect("the operands are copied");
    let stage_of = |line: &str| line.split("stage: ").nth(1).and_then(|rest| rest.split(',').next()).expect("a stage").to_string();
    let edits = [
        ("no copy is committed", without_lines_starting_with("copy_commit")),
        ("no copy is waited for", without_lines_starting_with("copy_wait")),
        ("a wait allows one more pending copy", text.replace("copy_wait(pending: 4)", "copy_wait(pending: 5)")),
        (
            "a load reads the stage that a copy fills",
            text.replacen(read_line, &read_line.replace(&stage_of(read_line), &stage_of(filled_line)), 1),
        ),
        (
            "a load reads no stage",
            text.replacen(read_line, &read_line.replace(&format!(", stage: {}", stage_of(read_line)), ""), 1),
        ),
    ];
    let launch = root().join("tests/run/matmul_f16/launch.json").display().to_string();
    for (fault, edited) in edits {
        assert_ne!(edited, text, "{fault}");
        fs::write(folder.path().join("edited.sched"), edited).unwrap();
        let runs: [(&str, &[&str]); 3] = [
            ("tile-sched", &["edited.sched", "-o", "done.sched"]),
            ("tile-ptx", &["edited.sched", "-o", "done.ptx"]),
            ("tile-run", &["edited.sched", "--check", "--launch", &launch, "--out-dir", "out"]),
        ];
        for (tool, arguments) in runs {
            let ran = run_in(folder.path(), tool, arguments, b"");
            assert_eq!(ran.code, Some(1), "{fault}: {tool}: {}", ran.stderr);
            assert!(ran.stderr.contains("error[SC"), "{fault}: {tool}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_failed_write_leaves_the_old_output_file() {
    check_tools_are_current();
    let case = root().join("tests/run/vadd");
    let folder = temporary_folder();
    let emit = format!("tileiras '{}' --gpu-name=sm_90 --emit=ptx -o k.ptx", bytecode_path("vadd").display());
    shell(folder.path(), &emit).ok("the PTX");
    for (name, file) in [("tile-sim", "k.ptx".to_string()), ("tile-run", bytecode_path("vadd").display().to_string())] {
        let line = format!("(trap '' XFSZ; ulimit -f 1; {name} '{file}' --launch '{}/launch.json' --out-dir o)", case.display());
        for has_old_file in [false, true] {
            let path = folder.path().join("o/arg2.bin");
            if has_old_file {
                fs::write(&path, "old").unwrap();
            }
            for line in [line.clone(), line.replace("trap '' XFSZ; ", "")] {
                let ran = shell(folder.path(), &line);
                assert_eq!(ran.code, Some(4), "{name}: {}", ran.stderr);
                assert!(ran.stderr.contains("File too large"), "{name}: {}", ran.stderr);
                assert_eq!(fs::read(&path).ok(), has_old_file.then(|| b"old".to_vec()), "{name}");
            }
        }
        let file_count = fs::read_dir(folder.path().join("o")).unwrap().count();
        assert_eq!(file_count, 1, "{name}: nothing but the old file");
        fs::remove_dir_all(folder.path().join("o")).unwrap();
    }
}

#[test]
fn a_file_size_limit_is_an_error_and_leaves_no_files() {
    let sandbox = Sandbox::new();
    for (option, code) in [("--emit=ptx", 2), ("--emit=cubin", 5)] {
        let line = format!("ulimit -f 1; ./tileiras k.bc --gpu-name sm_90 {option} -o out/u");
        fs::create_dir_all(sandbox.path("out")).unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", &line]).current_dir(sandbox.folder.path()).env("TMPDIR", sandbox.scratch.path());
        let ran = run_to_end(command, b"");
        assert_eq!(ran.code, Some(code), "{option}: {}", ran.stderr);
        assert!(ran.stderr.contains("File too large"), "{option}: {}", ran.stderr);
        assert_eq!(fs::read_dir(sandbox.path("out")).unwrap().count(), 0, "{option}");
        sandbox.assert_scratch_is_empty();
    }
}

#[test]
fn file_names_that_are_not_utf_8_are_refused_by_the_driver() {
    let sandbox = Sandbox::new();
    let name = OsStr::from_bytes(b"o\xff.cubin");
    let mut command = sandbox.driver_command(&["k.bc", "--gpu-name=sm_90", "-o"]);
    command.arg(name);
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains(r"o\xFF.cubin"), "{}", ran.stderr);
    fs::write(sandbox.path("response"), b"k.bc --gpu-name=sm_90 -o o\xff").unwrap();
    let ran = sandbox.run_driver(&["@response"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("UTF-8"), "{}", ran.stderr);
    // The stages accept any name.
    let path = sandbox.path("").join(OsStr::from_bytes(b"k\xff.tile"));
    run_in(sandbox.folder.path(), "tile-read", &[OsStr::new("k.bc"), OsStr::new("-o"), path.as_os_str()], b"").ok("tile-read");
    run_in(sandbox.folder.path(), "tile-lower-aa", &[path.as_os_str(), OsStr::new("-o"), OsStr::new("k.aa")], b"").ok("its output");
}

#[test]
fn an_invalid_cubin_is_an_error_and_is_not_cached() {
    let sandbox = Sandbox::new();
    sandbox.run_driver(&["k.bc", "--gpu-name=sm_90", "--embed-program=off", "-o", "good"]).ok("the cubin");
    sandbox.run_driver(&["k.bc", "--gpu-name=sm_90", "--emit=ptx", "-o", "good.ptx"]).ok("the PTX");
    STAGES[..5].iter().for_each(|stage| sandbox.replace_tool(stage, "cat >/dev/null; cat good.ptx"));
    let scripts = [": nothing", "echo garbage >$out", "head -c 2000 good >$out", "head -c -1 good >$out", "cat OTHER >$out"];
    for script in scripts {
        // The cubin of another kernel is an invalid output too.
        if script.contains("OTHER") {
            let line = format!("tileiras '{}' --gpu-name=sm_90 -o OTHER", bytecode_path("row_sum").display());
            shell(sandbox.folder.path(), &line).ok("another cubin");
        }
        sandbox.replace_ptxas(script);
        let ran = sandbox.run_driver(&[&COMPILE_VADD[..], &["--cache=cache"]].concat());
        assert_eq!(ran.code, Some(5), "{script}: {}", ran.stderr);
        assert!(ran.stderr.contains("what ptxas wrote"), "{script}: {}", ran.stderr);
        assert!(!sandbox.path("out").exists() && sandbox.cache_entry_count() == 0, "{script}");
    }
    sandbox.replace_ptxas("cat good >$out");
    sandbox.run_driver(&[&COMPILE_VADD[..], &["--cache=cache"]].concat()).ok("the right cubin");
    assert_eq!(sandbox.cache_entry_count(), 1);
}

#[test]
fn an_input_can_be_a_shell_pipe() {
    let sandbox = Sandbox::new();
    let expected = {
        sandbox.run_driver(&COMPILE_VADD).ok("a file");
        fs::read(sandbox.path("out")).unwrap()
    };
    for line in [
        "mkfifo p; cat k.bc >p & timeout 20 ./tileiras p --gpu-name sm_90 -o x",
        "cat k.bc | ./tileiras /dev/stdin --gpu-name sm_90 -o x",
        "./tileiras <(cat k.bc) --gpu-name sm_90 -o x",
    ] {
        let _ = fs::remove_file(sandbox.path("x"));
        shell(sandbox.folder.path(), line).ok(line);
        assert!(fs::read(sandbox.path("x")).unwrap() == expected, "{line}");
    }
}

/// Starts a compilation whose ptxas never ends. Returns the process of the driver and the process id of ptxas.
fn start_hanging(sandbox: &Sandbox) -> (std::process::Child, String) {
    sandbox.replace_ptxas("echo $$ >pid.new; mv pid.new pid; exec sleep 1000");
    let mut command = sandbox.driver_command(&COMPILE_VADD);
    let driver = command.process_group(0).spawn().unwrap();
    wait_for("ptxas is started", || sandbox.path("pid").exists());
    (driver, fs::read_to_string(sandbox.path("pid")).unwrap().trim().to_string())
}

#[test]
fn a_killed_driver_leaves_no_children_and_no_temporary_files() {
    // Send the signal to the whole process group, as Ctrl-C does, or to the driver alone.
    for (signal, group) in [("-INT", "-"), ("-TERM", "-"), ("-TERM", ""), ("-KILL", "")] {
        let sandbox = Sandbox::new();
        let (mut driver, ptxas) = start_hanging(&sandbox);
        let status = Command::new("/bin/kill").args([signal, "--", &format!("{group}{}", driver.id())]).status().unwrap();
        assert!(status.success());
        driver.wait().unwrap();
        wait_for(&format!("{signal} {group} ends ptxas"), || !is_running(&ptxas));
        sandbox.assert_scratch_is_empty();
        assert!(!sandbox.path("out").exists());
    }
}

/// The id of the child process of `parent` that runs a tool. None if `parent` has no such child.
fn child_of(parent: u32, tool: &str) -> Option<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_child = |process: &String| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let started_by = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        started_by == Some(parent) && command.split('\0').next().is_some_and(|program| program.ends_with(tool))
    };
    processes.filter(|process| process.parse::<u32>().is_ok()).find(is_child)
}

#[test]
fn the_child_of_a_killed_tile_validate_ends() {
    check_tools_are_current();
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("endless.tileir"), "entry @endless() {\n  loop {\n    continue\n  }\n  return\n}\n").unwrap();
    let mut command = Command::new(tool("tile-validate"));
    command.args(["endless.tileir", "--gpu-name=sm_80"]).current_dir(sandbox.path("")).env("TMPDIR", sandbox.path(""));
    let mut validate_process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the program is executed", || child_of(validate_process.id(), "tile-run").is_some());
    let child = child_of(validate_process.id(), "tile-run").unwrap();
    validate_process.kill().unwrap();
    validate_process.wait().unwrap();
    wait_for("its execution ends with tile-validate", || !is_running(&child));
}

#[test]
fn ptxas_has_a_time_and_a_memory_limit() {
    let sandbox = Sandbox::new();
    sandbox.replace_ptxas("echo $$ >pid; exec sleep 1000");
    let ran = sandbox.run_driver(&[&COMPILE_VADD[..], &["--max-time=1"]].concat());
    assert_eq!(ran.code, Some(5));
    assert!(
        ran.stderr.contains("tile-link was stopped: exceeded the time limit of 1 s (--max-time), in step 'ptxas'"),
        "{}",
        ran.stderr
    );
    let pid = fs::read_to_string(sandbox.path("pid")).unwrap();
    wait_for("ptxas ends", || !is_running(pid.trim()));
    let ran = sandbox.run_driver(&[&COMPILE_VADD[..], &["--max-memory=1"]].concat());
    assert!(ran.code == Some(5) && ran.stderr.contains("(--max-memory)"), "{}", ran.stderr);
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    check_tools_are_current();
    let input = bytecode_path("vadd").display().to_string();
    let (tile, ptx) = ("tile-read", "tileiras --gpu-name=sm_90 --emit=ptx -o -");
    for program in [tile, "tile-dump", "tileirdisasm", "tileiras --gpu-name=sm_90 --dry-run", ptx] {
        for to in [">&-", ">/dev/full"] {
            let ran = shell(root(), &format!("{program} '{input}' {to}"));
            assert!(ran.code.is_some_and(|code| code != 0), "{program} {to}");
            assert!(ran.stderr.contains("cannot write <stdout>"), "{program} {to}: {}", ran.stderr);
        }
        let ran = shell(root(), &format!("{program} '{input}' >/dev/null"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{program}");
    }
}

#[test]
fn an_address_space_limit_at_the_start_is_reported() {
    check_tools_are_current();
    let ran = shell(root(), &format!("ulimit -v 200000; tile-read '{}' -o /dev/null", bytecode_path("vadd").display()));
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.contains("address space"), "{}", ran.stderr);
}

#[test]
fn a_killed_stage_is_not_reported_as_a_bug() {
    for (how, reported) in
        [("kill -KILL $$", "killed; perhaps"), ("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$", "ABRT")]
    {
        let sandbox = Sandbox::new();
        sandbox.replace_tool("tile-sched", &format!("cat >/dev/null; {how}"));
        let ran = sandbox.run_driver(&COMPILE_VADD);
        assert_eq!(ran.code, Some(5));
        assert!(ran.stderr.contains(reported) && !ran.stderr.contains("bug"), "{}", ran.stderr);
        sandbox.assert_scratch_is_empty();
    }
}

#[test]
fn a_stage_with_missing_or_partial_output_is_an_error() {
    let sandbox = Sandbox::with_script_stages();
    sandbox.replace_tool("tile-link", "head -c 100; kill -PIPE $$");
    assert_eq!(sandbox.run_driver(&[&COMPILE_VADD[..], &["--cache=cache"]].concat()).code, Some(5));
    assert_eq!(sandbox.cache_entry_count(), 0);
    for stage in STAGES {
        for script in ["cat >/dev/null", "head -c 300; kill -PIPE $$", "head -c 300; cat >/dev/null", "true"] {
            let sandbox = Sandbox::new();
            sandbox.replace_tool(stage, script);
            let ran = sandbox.run_driver(&COMPILE_VADD);
            assert_eq!(ran.code, Some(5), "{stage}: {script}");
            assert!(ran.stderr.contains("failed"), "{stage}: {script}: {}", ran.stderr);
            assert!(!sandbox.path("out").exists(), "{stage}: {script}");
        }
    }
}

#[test]
fn tile_fuzz_reports_too_few_compared_programs() {
    let sandbox = Sandbox::new();
    for name in ["tile-run", "tile-sim"] {
        std::os::unix::fs::symlink(tool(name), sandbox.path(name)).unwrap();
    }
    sandbox.replace_tool("tile-ptx", "echo 'error[PX900]: no' >&2; exit 3");
    let folder = sandbox.folder.path().display().to_string();
    let arguments = ["--count=3", "--dir", "fuzz", "--tools", &folder];
    let ran = run_in(sandbox.folder.path(), "tile-fuzz", &arguments, b"");
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("too few programs could be compared"), "{}", ran.text());
    run_in(sandbox.folder.path(), "tile-fuzz", &[&arguments[..], &["--least=0"]].concat(), b"").ok("when that is expected");
}

#[test]
fn a_temporary_folder_with_a_name_that_is_not_utf_8_works() {
    let sandbox = Sandbox::new();
    let folder = sandbox.scratch.path().join(OsStr::from_bytes(b"t\xff"));
    fs::create_dir(&folder).unwrap();
    let mut command = sandbox.driver_command(&COMPILE_VADD);
    command.env("TMPDIR", &folder);
    run_to_end(command, b"").ok("the run");
}

/// The text of `pipeline.toml`, with `first` instead of the line that names the first stage.
fn pipeline_with_first_stage(first: &str) -> String {
    let rest = fs::read_to_string(root().join("pipeline.toml")).unwrap();
    rest.replacen("tool = \"tile-read\"", first, 1)
}

#[test]
fn a_pipeline_file_cannot_name_outputs_or_arbitrary_programs() {
    let sandbox = Sandbox::new();
    let try_with = |first: &str| {
        fs::write(sandbox.path("p.toml"), pipeline_with_first_stage(first)).unwrap();
        let mut command = sandbox.driver_command(&COMPILE_VADD);
        command.arg("--pipeline=p.toml");
        run_to_end(command, b"")
    };
    for (first, reported) in [
        (
            r#"tool = "tile-read"
arguments = ["-o", "/tmp/somewhere"]"#,
            "cannot name an output",
        ),
        (
            r#"tool = "tile-read"
arguments = ["--output=x"]"#,
            "cannot name an output",
        ),
        (
            r#"tool = "tile-read"
arguments = ["/etc/passwd"]"#,
            "cannot name an output",
        ),
        (r#"tool = "rm""#, "is not one of the stages"),
        (r#"tool = "tile-run""#, "is not one of the stages"),
        (r#"tool = "tileiras""#, "is not one of the stages"),
        (r#"tool = "./tileiras""#, "the driver itself"),
    ] {
        let ran = try_with(first);
        assert_eq!(ran.code, Some(2), "{first}: {}", ran.stderr);
        assert!(ran.stderr.contains(reported), "{first}: {}", ran.stderr);
    }
    // A program outside the pipeline is given by its path, relative to the directory of the file.
    sandbox.replace_tool("own", &format!("exec '{}' \"$@\"", tool("tile-read").display()));
    try_with(r#"tool = "./own""#).ok("a stage that is no tool of this repository");
    // A stage may start the driver, but not with a pipeline of its own.
    sandbox.replace_tool("own", "exec ./tileiras k.bc --gpu-name=sm_90 --pipeline=p.toml -o -");
    let ran = try_with(r#"tool = "./own""#);
    assert!(ran.code == Some(5) && ran.stderr.contains("cannot start another one"), "{}", ran.stderr);
    let ran = sandbox.run_driver(&[&COMPILE_VADD[..], &["--pipeline=/dev/zero"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn source_paths_with_quotes_or_line_breaks_compile() {
    check_tools_are_current();
    let folder = temporary_folder();
    let line = format!(
        "set -e; tile-read '{}' | tile-lower-aa | tile-lower-as --gpu-name sm_90 | tile-sched --format=text -o k.sched; \
         grep -q '^//!tile name \"[^\"]*[.]py\"' k.sched; \
         sed 's|^\\(//!tile name \"\\)\\([^\"]*\\)[.]py\"|\\1\\2\\\\\"\\\\n.visible .global .b32 x;\\\\n//.py\"|' k.sched >odd.sched; \
         tile-ptx --lineinfo odd.sched -o k.ptx; grep '^[[:space:]]*.file' k.ptx; tile-link k.ptx -o k.cubin",
        bytecode_path("vadd").display()
    );
    let files = shell(folder.path(), &line).ok("with a path that is a piece of PTX");
    assert!(String::from_utf8_lossy(&files).contains(".visible .global .b32 x;/.py\""), "the path without them");
}

#[test]
fn output_of_children_is_bounded() {
    let sandbox = Sandbox::new();
    sandbox.replace_ptxas("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1");
    let ran = sandbox.run_driver(&COMPILE_VADD);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stderr.len() < 2 << 20 && ran.stderr.contains("bytes more"), "{} bytes", ran.stderr.len());
    let sandbox = Sandbox::new();
    sandbox.replace_tool("tile-sched", "cat >/dev/null; head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1");
    let ran = sandbox.run_driver(&COMPILE_VADD);
    assert!(ran.code == Some(5) && ran.stderr.len() < 2 << 20, "{} bytes", ran.stderr.len());
}

#[test]
fn endless_input_files_are_refused() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_driver(&["@/dev/zero"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("the response files are too large"), "{}", ran.stderr);
    assert_eq!(sandbox.run_driver(&["/dev/zero", "--gpu-name=sm_90"]).code, Some(3));
    let endless_launch = shell(sandbox.folder.path(), "tile-run k.bc --launch /dev/zero");
    assert!(endless_launch.code == Some(4) && endless_launch.stderr.contains("is larger than"), "{}", endless_launch.stderr);
}

#[test]
fn time_and_memory_limits_apply_to_all_tools() {
    check_tools_are_current();
    let folder = temporary_folder();
    let folder = folder.path();
    let ran = run_in(folder, "tile-fuzz", &["--count=1000000", "--generate", "--max-time=1"], b"");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(4), "tile-fuzz was stopped: exceeded the time limit of 1 s (--max-time)\n"));
    // A reader of a pipe without a writer blocks for ever.
    let line = "mkfifo p; exec 3<>p; timeout 20 tileirdisasm --max-time=1 p";
    let ran = shell(folder, line);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(4), "error: tileirdisasm was stopped: exceeded the time limit of 1 s (--max-time)\n")
    );
    let ran = shell(folder, "exec 3<>p; timeout 20 tileiras --max-memory=1 p");
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(ran.stderr.contains("tileiras was stopped: exceeded the memory limit of 1 MiB (--max-memory)"), "{}", ran.stderr);
}
