//! Executes the cases of `tests/run`. `tile-run` executes the file of each stage, and `tile-sim` the PTX. The output buffers of all
//! executions must have the expected contents.
//!
//! The name of a case begins with its folder: `matmul_f16/as_written`, `matmul_f16/sm_90/O3`, `matmul_f16/sm_90/cluster=2`.
//!
//! `scripts/make-examples` generates the cases from `scripts/kernels.py`. The cases with a `kernel.tile` are
//! hand-written regression tests for faults that `tile-fuzz` found.

use base::ir::Operation;
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use tests::compare::ExpectedOutputs;
use tests::suite::{CaseResult, Suite, unified_diff};
use tests::{files_below, is_blessing, root, run, subfolders, temporary_folder, tests};

const TARGETS: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// The targets of a case: the lines of its file `targets`. A case without this file has all `TARGETS`.
fn targets_of(case: &Path) -> Vec<String> {
    match std::fs::read_to_string(case.join("targets")) {
        Ok(listed) => listed.lines().map(str::to_string).collect(),
        Err(_) => TARGETS.map(str::to_string).into(),
    }
}

/// The folders of all cases.
fn cases() -> Vec<PathBuf> {
    subfolders(&root().join("tests/run"))
}

/// Executes the file of a stage with the launch of a case, and compares the outputs.
fn execute(tool: &str, file: &str, case: &Path) -> CaseResult {
    let folder = temporary_folder();
    let launch = case.join("launch.json");
    let arguments = [file, "--launch", launch.to_str().expect("UTF-8"), "--out-dir", folder.path().to_str().expect("UTF-8")];
    let ran = run(tool, &arguments, b"");
    if ran.code != Some(0) {
        return Err(format!("{tool}: {}", ran.stderr.trim()));
    }
    ExpectedOutputs::read(case).check(case, folder.path())
}

/// The path of the bytecode of a case. If the case has only text, this function generates the bytecode in `folder`.
fn bytecode_path(case: &Path, folder: &Path) -> String {
    let text = case.join("kernel.tile");
    if !text.exists() {
        return case.join("kernel.tileirbc").display().to_string();
    }
    let generated = folder.join("kernel.tileirbc").display().to_string();
    run("tile-write", &[&text.display().to_string(), "-o", &generated], b"").ok(&case_name(case));
    generated
}

fn case_name(case: &Path) -> String {
    case.file_name().expect("a folder has a name").to_string_lossy().into_owned()
}

/// The mnemonics of the ops in the program of a case.
fn ops_of(case: &Path) -> BTreeSet<String> {
    let folder = temporary_folder();
    let text = run("tile-dump", &[bytecode_path(case, folder.path())], b"").ok(&case_name(case));
    ops_in(&String::from_utf8_lossy(&text))
}

/// The mnemonics of the ops in a Tile IR text.
fn ops_in(text: &str) -> BTreeSet<String> {
    let op = |line: &str| {
        let line = line.trim_start();
        let code = if line.starts_with('%') { line.split_once(" = ")?.1 } else { line };
        let word = code.split([' ', '(', '<']).next()?;
        let is_word =
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit());
        is_word.then(|| word.to_string())
    };
    text.lines().filter_map(op).collect()
}

/// The mnemonics of the ops whose results `tests/ops.rs` compares with those of NVIDIA's compiler.
fn compared_ops() -> BTreeSet<String> {
    let files =
        files_below(&root().join("tests/ops")).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "tile"));
    files.flat_map(|path| ops_in(&std::fs::read_to_string(path).expect("a kernel of tests/ops"))).collect()
}

/// The names of all ops, from the op table.
fn op_names() -> Vec<String> {
    let table = std::fs::read_to_string(root().join("formats/tileir/src/ops.rs")).expect("the op table");
    let rows = table.lines().filter(|line| line.starts_with("    ") && line.contains(" 0x"));
    let mut names: Vec<String> = rows.filter_map(|line| Some(line.split('"').nth(1)?.to_string())).collect();
    names.sort();
    names
}

/// Generates `docs/op-coverage.md`. An op is covered on a target if the program of a case for this target contains the op. This
/// function does not execute the cases, because the suite requires that all of them pass.
fn coverage_page() -> String {
    let cases = cases();
    let mut targets_of_op: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in &cases {
        for op in ops_of(case) {
            targets_of_op.entry(op).or_default().extend(targets_of(case));
        }
    }
    let (compared, known): (_, BTreeSet<String>) = (compared_ops(), op_names().into_iter().collect());
    assert!(known.len() > 90 && targets_of_op.keys().filter(|op| known.contains(*op)).count() > 40, "the ops of {targets_of_op:?}");
    let mut page = format!(
        "# Op coverage of the tests\n\n`tests/run.rs` generates this page from the programs that it executes; `scripts/bless` updates it. The marks come from CPU executors only. [Benchmarks](benchmarks.md) reports the runs on an H200.\n\n\
         - A target column has ✓ if one of {} programs with the op of the row compiles for this target at `-O0` and `-O3`. `tile-run` executes \
         each stage's file of this program and `tile-sim` the PTX, and all results are as expected.\n\
         - The last column has ✓ if `tests/ops.rs` executes the op on edge inputs, in each of its types, in `tile-run` and as PTX for sm_80 \
         and sm_100. The expected results come from the code of NVIDIA's compiler.\n\
         - A column has – if no test of that kind covers the op. Random programs and other tests may cover it.\n\n| op | {} | in each type |\n|---|{}---|\n",
        cases.len(),
        TARGETS.join(" | "),
        "---|".repeat(TARGETS.len())
    );
    for op in op_names() {
        let mark = |done: bool| if done { "✓" } else { "–" };
        let targets = TARGETS.iter().map(|target| mark(targets_of_op.get(&op).is_some_and(|targets| targets.contains(*target))));
        let marks: Vec<&str> = targets.chain([mark(compared.contains(&op))]).collect();
        page.push_str(&format!("| `{op}` | {} |\n", marks.join(" | ")));
    }
    page
}

fn op_coverage_page_is_current() {
    let (path, page) = (root().join("docs/op-coverage.md"), coverage_page());
    if is_blessing() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "scripts/bless writes docs/op-coverage.md anew:\n{}", unified_diff(&written, &page));
}

/// Executes the `.tile` file of a case, and compares the outputs.
fn check_as_written(case: &Path) -> CaseResult {
    let folder = temporary_folder();
    let file = folder.path().join("k.tile").display().to_string();
    run("tile-read", &[&bytecode_path(case, folder.path()), "-o", &file], b"").ok(&case_name(case));
    execute("tile-run", &file, case)
}

/// The names of the ops of a stage file.
fn stage_ops(file: &str, kind: &str) -> BTreeSet<&'static str> {
    fn of<O: Operation, T>(body: &base::ir::Body<O, T>) -> impl Iterator<Item = &'static str> {
        body.ops.iter().map(|(_, node)| node.kind.mnemonic())
    }
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    fn read<M: base::envelope::Payload>(bytes: &[u8]) -> M {
        base::File::<M>::read(bytes, "a kept file").unwrap_or_else(|error| panic!("{error:?}")).payload
    }
    match kind {
        "aa" => read::<tileaa::Module>(&bytes).functions.iter().flat_map(|function| of(&function.body)).collect(),
        "as" => read::<tileas::Module>(&bytes).functions.iter().flat_map(|function| of(&function.body)).collect(),
        "sched" => read::<sched::Module>(&bytes).functions.iter().flat_map(|function| of(&function.body)).collect(),
        _ => BTreeSet::new(),
    }
}

/// The ops that need no case in `tests/run`. Random programs, `tests/warp_roles.rs` and the tests of the tools execute these ops. A
/// new op needs a case.
const WITHOUT_A_CASE: &[&str] = &[
    // Pointers, and memory of the module or of a CTA.
    "int_to_ptr",
    "ptr_to_int",
    "ptr_cast",
    "global_address",
    "alias_fence",
    "atomic_cas",
    // Tiles.
    "insert",
    "coordinate",
    "shared_gather",
    "shared_scatter",
    // The grid and system registers.
    "memref_shape",
    "grid_wait",
    "grid_launch",
    "assert",
    "check_index",
    // The stages generate these ops only with `--clc=on` (see `REQUESTED_OPTIONS`).
    "clc_block_count",
    "clc_block_id",
];

/// The ops in the stage files of the cases that ended so far.
static OPS_IN_STAGE_FILES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Compiles a case, executes the file of each stage and the PTX, and checks the outputs.
fn check_every_stage(case: &Path, target: &str, level: &str) -> CaseResult {
    let folder = temporary_folder();
    let stem = folder.path().join("k").display().to_string();
    let save_temps = format!("--save-temps={}", folder.path().display());
    let arguments =
        [&bytecode_path(case, folder.path()), "--gpu-name", target, level, "--emit=ptx", &save_temps, "-o", &format!("{stem}.ptx")];
    let ran = run("tileiras", &arguments, b"");
    if ran.code != Some(0) {
        return Err(ran.stderr);
    }
    for (tool, kind) in [("tile-run", "aa"), ("tile-run", "as"), ("tile-run", "sched"), ("tile-sim", "ptx")] {
        let file = match kind {
            "ptx" => format!("{stem}.ptx"),
            kind => folder.path().join(format!("kernel.{kind}")).display().to_string(),
        };
        execute(tool, &file, case).map_err(|complaint| format!(".{kind}: {complaint}"))?;
        OPS_IN_STAGE_FILES.lock().expect("no case panics while it records ops").extend(stage_ops(&file, kind));
    }
    Ok(())
}

/// Checks that the cases contain every op of the stage formats except the ops of `WITHOUT_A_CASE`, and none of these.
fn cases_reach_every_op() -> CaseResult {
    let tables = [Core::MNEMONICS, tileaa::Op::MNEMONICS, tileas::Op::MNEMONICS, sched::Op::MNEMONICS].concat();
    let reached = OPS_IN_STAGE_FILES.lock().expect("no case panics while it records ops");
    let wrong_ops: Vec<&str> = tables.into_iter().filter(|op| reached.contains(op) == WITHOUT_A_CASE.contains(op)).collect();
    if wrong_ops.is_empty() {
        Ok(())
    } else {
        Err(format!("no case of tests/run has these ops, or one has and they are listed: {wrong_ops:?}"))
    }
}

/// Compiles a case for clusters of `cluster_ctas` CTAs that divide each tile block, and checks the outputs of the stages. Returns
/// false if the stages refuse to divide the tile blocks.
fn check_cluster_division(case: &Path, target: &str, cluster_ctas: u32) -> Result<bool, String> {
    let folder = temporary_folder();
    let ptx = folder.path().join("k.ptx").display().to_string();
    let save_temps = format!("--save-temps={}", folder.path().display());
    let bytecode_path = bytecode_path(case, folder.path());
    let cluster_option = format!("--cluster={cluster_ctas}");
    let ran = run("tileiras", &[&bytecode_path, "--gpu-name", target, &cluster_option, "--emit=ptx", &save_temps, "-o", &ptx], b"");
    if ran.code != Some(0) {
        let is_division_refused = ran.stderr.contains("cannot be divided");
        return if is_division_refused { Ok(false) } else { Err(ran.stderr) };
    }
    let text = std::fs::read_to_string(&ptx).map_err(|error| error.to_string())?;
    if !text.contains(&format!(".reqnctapercluster {cluster_ctas}\n")) || !text.contains(".blocksareclusters") {
        return Err("it is launched without a cluster".into());
    }
    let file = |kind: &str| folder.path().join(format!("kernel.{kind}")).display().to_string();
    for (tool, file) in [("tile-run", file("as")), ("tile-run", file("sched")), ("tile-sim", ptx)] {
        execute(tool, &file, case).map_err(|complaint| format!("{file}: {complaint}"))?;
    }
    Ok(true)
}

/// Cases whose tile blocks the CTAs of a cluster divide. They cover division of rows and of columns, accesses through views and
/// through pointers, programs with and without MMAs, and values that every CTA computes in full.
const CLUSTER_CASES: [&str; 9] = [
    "attention",
    "matmul_gradients",
    "cluster_matmul",
    "cluster_rows",
    "linear_attention",
    "matmul_dequantised",
    "matmul_f16",
    "outer_product",
    "softmax",
];

/// Checks that the stages divide the tile blocks of a case among the CTAs of a cluster, and that the outputs are right.
fn check_divided_case(case: &Path, target: &str, cluster_ctas: u32) -> CaseResult {
    if check_cluster_division(case, target, cluster_ctas)? {
        Ok(())
    } else {
        Err("the CTAs of a cluster do not share its tile blocks".into())
    }
}

/// Checks the outputs of a case with an option, and that the log confirms the effect of the option.
fn check_requested_option(case: &Path, target: &str, requested: &RequestedOption) -> CaseResult {
    let (folder, option) = (temporary_folder(), requested.option);
    let ptx = folder.path().join("k.ptx").display().to_string();
    let save_temps = format!("--save-temps={}", folder.path().display());
    let bytecode_path = bytecode_path(case, folder.path());
    let ran = run("tileiras", &[&bytecode_path, "--gpu-name", target, option, "--emit=ptx", &save_temps, "-o", &ptx], b"");
    if ran.code != Some(0) {
        return Err(ran.stderr);
    }
    let file = |kind: &str| folder.path().join(format!("kernel.{kind}")).display().to_string();
    let log = run("tile-dump", &[&file("sched")], b"").text();
    if let Some(missing_entry) = requested.log_entries.iter().find(|entry| !log.contains(**entry)) {
        return Err(format!("{option} has no effect: the log lacks '{missing_entry}'"));
    }
    for (tool, file) in [("tile-run", file("as")), ("tile-run", file("sched")), ("tile-sim", ptx)] {
        execute(tool, &file, case).map_err(|complaint| format!("{file}: {complaint}"))?;
    }
    Ok(())
}

/// An option of a stage, the log entries that confirm its effect, its targets, and the cases that it applies to.
struct RequestedOption {
    name: &'static str,
    option: &'static str,
    log_entries: &'static [&'static str],
    targets: &'static [&'static str],
    cases: &'static [&'static str],
}

/// The options whose effect the cases test.
const REQUESTED_OPTIONS: [RequestedOption; 3] = [
    RequestedOption {
        name: "split_m",
        option: "--split-m=on",
        log_entries: &["rows run as two M subtiles"],
        targets: &["sm_80", "sm_90", "sm_120"],
        cases: &["attention", "cluster_matmul", "cluster_rows", "softmax"],
    },
    // Programs with and without MMAs, with a persistent loop in the source, and for clusters.
    RequestedOption {
        name: "clc",
        option: "--clc=on",
        log_entries: &["CTAs steal tile blocks"],
        targets: &["sm_100", "sm_120"],
        cases: &[
            "attention",
            "cluster_pair",
            "mlp_in_place",
            "matmul_f16",
            "matmul_gathered",
            "persistent_rows",
            "softmax",
            "vadd_2d",
        ],
    },
    RequestedOption {
        name: "prefetch",
        option: "--prefetch=on",
        log_entries: &["the tile is copied to shared memory", "loads are issued an iteration ahead"],
        targets: &["sm_80", "sm_90", "sm_120"],
        cases: &["persistent_few", "persistent_rows"],
    },
];

/// Checks that `matmul_f16` compiles to PTX for a target.
fn check_compiles_for(target: &base::Target) -> CaseResult {
    let bytecode_path = bytecode_path(&root().join("tests/run/matmul_f16"), Path::new(""));
    let folder = temporary_folder();
    let ptx = folder.path().join("k.ptx").display().to_string();
    let ran = run("tileiras", &[&bytecode_path, "--gpu-name", target.name, "--emit=ptx", "-o", &ptx], b"");
    let header = format!(".target {}", target.ptx_target);
    match std::fs::read_to_string(&ptx) {
        Ok(text) if ran.code == Some(0) && text.contains(&header) => Ok(()),
        _ => Err(ran.stderr),
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in cases() {
        let name = case_name(&case);
        let path = case.clone();
        suite.case(format!("{name}/as_written"), move || check_as_written(&path));
        for target in targets_of(&case) {
            for level in ["O0", "O3"] {
                let (case, target) = (case.clone(), target.clone());
                suite.case(format!("{name}/{target}/{level}"), move || check_every_stage(&case, &target, &format!("-{level}")));
            }
        }
    }
    let case = |name: &str| cases().into_iter().find(|case| case_name(case) == name).unwrap_or_else(|| panic!("no case is {name}"));
    for name in CLUSTER_CASES {
        let case = case(name);
        for target in targets_of(&case).into_iter().filter(|target| target != "sm_80") {
            for cluster_ctas in [2, 4] {
                let (case, target) = (case.clone(), target.clone());
                suite.case(format!("{name}/{target}/cluster={cluster_ctas}"), move || {
                    check_divided_case(&case, &target, cluster_ctas)
                });
            }
        }
    }
    for requested in &REQUESTED_OPTIONS {
        for name in requested.cases {
            for target in requested.targets {
                let case = case(name);
                suite.case(format!("{name}/{target}/{}", requested.name), move || check_requested_option(&case, target, requested));
            }
        }
    }
    for target in base::Target::all() {
        suite.case(format!("matmul_f16/compiles/{}", target.name), move || check_compiles_for(&target));
    }
    suite.functions("rules/", tests![op_coverage_page_is_current]);
    suite.summary("cases reach every op", cases_reach_every_op);
    suite.run()
}
