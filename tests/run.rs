//! Executes the cases of `tests/run` on the file of every stage and on the PTX; all must produce the expected memory.
//!
//! `scripts/make-examples` generates the cases from `scripts/kernels.py`; those with a `kernel.tile` were written by hand, for what
//! `tile-fuzz` found.

use base::ir::Operation;
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tests::compare::Expect;
use tests::{blessing, files_below, folders, for_each, root, run, temporary};

const TARGETS: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// The targets of a case: those in its file `targets`, or all.
fn targets(case: &Path) -> Vec<String> {
    match std::fs::read_to_string(case.join("targets")) {
        Ok(listed) => listed.lines().map(str::to_string).collect(),
        Err(_) => TARGETS.map(str::to_string).into(),
    }
}

fn cases() -> Vec<PathBuf> {
    folders(&root().join("tests/run"))
}

/// Executes the file of a stage and compares its output.
fn execute(tool: &str, file: &str, case: &Path) -> Result<(), String> {
    let folder = temporary();
    let launch = case.join("launch.json");
    let arguments = [file, "--launch", launch.to_str().expect("UTF-8"), "--out-dir", folder.path().to_str().expect("UTF-8")];
    let ran = run(tool, &arguments, b"");
    if ran.code != Some(0) {
        return Err(format!("{tool}: {}", ran.stderr.trim()));
    }
    Expect::read(case).check(case, folder.path())
}

/// The bytecode of a case; `folder` receives it if it must be generated first.
fn bytecode(case: &Path, folder: &Path) -> String {
    let text = case.join("kernel.tile");
    if !text.exists() {
        return case.join("kernel.tileirbc").display().to_string();
    }
    let output = folder.join("kernel.tileirbc").display().to_string();
    run("tile-write", &[&text.display().to_string(), "-o", &output], b"").ok(&label(case));
    output
}

fn label(case: &Path) -> String {
    case.file_name().expect("a folder has a name").to_string_lossy().into_owned()
}

/// The ops of a program, by its text.
fn ops_of(case: &Path) -> BTreeSet<String> {
    let folder = temporary();
    let text = run("tile-dump", &[bytecode(case, folder.path())], b"").ok(&label(case));
    ops_in(&String::from_utf8_lossy(&text))
}

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

/// The ops that `tests/ops.rs` compares with the reference.
fn compared_ops() -> BTreeSet<String> {
    let files =
        files_below(&root().join("tests/ops")).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "tile"));
    files.flat_map(|path| ops_in(&std::fs::read_to_string(path).expect("a kernel of tests/ops"))).collect()
}

/// The names of all ops, from the op table.
fn op_table() -> Vec<String> {
    let table = std::fs::read_to_string(root().join("formats/tileir/src/ops.rs")).expect("the op table");
    let rows = table.lines().filter(|line| line.starts_with("    ") && line.contains(" 0x"));
    let mut names: Vec<String> = rows.filter_map(|line| Some(line.split('"').nth(1)?.to_string())).collect();
    names.sort();
    names
}

/// The page of executed ops; `ran` has the targets of each op.
fn status_page(ran: &BTreeMap<String, BTreeSet<String>>, cases: usize) -> String {
    let compared = compared_ops();
    let mut page = format!(
        "# Op coverage of the tests\n\n`tests/run.rs` generates this page from the programs that it executes; `scripts/bless` updates it. The marks come from CPU executors only. [Benchmarks](benchmarks.md) reports the runs on an H200.\n\n\
         - A target has ✓ where one of {cases} programs with this op compiles for it at `-O0` and `-O3`. `tile-run` executes each stage's file and \
         `tile-sim` the PTX, and all results are as expected.\n\
         - The last column has ✓ where `tests/ops.rs` executes the op on edge inputs, in each of its types, in `tile-run` and as PTX for sm_80 \
         and sm_100. The reference is the code of NVIDIA's compiler.\n\
         - –: neither of these two; random programs and other tests may have it.\n\n| op | {} | in each type |\n|---|{}---|\n",
        TARGETS.join(" | "),
        "---|".repeat(TARGETS.len())
    );
    for op in op_table() {
        let mark = |done: bool| if done { "✓" } else { "–" };
        let targets = TARGETS.iter().map(|target| mark(ran.get(&op).is_some_and(|targets| targets.contains(*target))));
        let marks: Vec<&str> = targets.chain([mark(compared.contains(&op))]).collect();
        page.push_str(&format!("| `{op}` | {} |\n", marks.join(" | ")));
    }
    page
}

#[test]
fn the_program_as_written_computes_what_it_should() {
    for_each(&cases(), |case| {
        let folder = temporary();
        let file = folder.path().join("k.tile").display().to_string();
        run("tile-read", &[&bytecode(case, folder.path()), "-o", &file], b"").ok(&label(case));
        execute("tile-run", &file, case).map_err(|complaint| format!("{}: {complaint}", label(case)))
    });
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

/// The ops without a case: they are older than this rule. Random programs, `tests/warp_roles.rs` and the tests of the tools execute
/// them. A new op needs a case.
const WITHOUT_A_CASE: &[&str] = &[
    // Pointers, and memory of the module or of a CTA.
    "int_to_ptr",
    "ptr_to_int",
    "ptr_cast",
    "global_address",
    "alias_fence",
    "reduce_view",
    "atomic_cas",
    // Tiles.
    "cat",
    "extract",
    "insert",
    "coordinate",
    "shared_gather",
    "shared_scatter",
    "tma_load",
    // The grid and system registers.
    "block_count",
    "memref_shape",
    "grid_wait",
    "grid_launch",
    "assert",
    "check_index",
    // Generated only for an option: see below.
    "clc_block_count",
    "clc_block_id",
    // Control flow and warp roles.
    "loop",
    "break",
    "warp_role",
    "pipeline_acquire",
    "pipeline_commit",
    "pipeline_wait",
    "pipeline_release",
    // Tensor memory: `tests/tmem/main.rs`.
    "tmem_load",
    "tmem_store",
];

#[test]
fn every_stage_and_the_ptx_compute_the_same() {
    let seen = Mutex::new(BTreeSet::new());
    let mut runs = Vec::new();
    let executed: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::default();
    let ops: BTreeMap<PathBuf, BTreeSet<String>> = cases().into_iter().map(|case| (case.clone(), ops_of(&case))).collect();
    for case in cases() {
        for target in targets(&case) {
            runs.extend(["-O0", "-O3"].map(|level| (case.clone(), target.clone(), level)));
        }
    }
    for_each(&runs, |(case, target, level)| {
        let folder = temporary();
        let stem = folder.path().join("k").display().to_string();
        let save_temps = format!("--save-temps={}", folder.path().display());
        let arguments =
            [&bytecode(case, folder.path()), "--gpu-name", target, level, "--emit=ptx", &save_temps, "-o", &format!("{stem}.ptx")];
        let what = format!("{} {target} {level}", label(case));
        let ran = run("tileiras", &arguments, b"");
        if ran.code != Some(0) {
            return Err(format!("{what}: {}", ran.stderr.trim()));
        }
        for (tool, kind) in [("tile-run", "aa"), ("tile-run", "as"), ("tile-run", "sched"), ("tile-sim", "ptx")] {
            let file = match kind {
                "ptx" => format!("{stem}.ptx"),
                kind => folder.path().join(format!("kernel.{kind}")).display().to_string(),
            };
            execute(tool, &file, case).map_err(|complaint| format!("{what} .{kind}: {complaint}"))?;
            seen.lock().expect("no worker panics").extend(stage_ops(&file, kind));
        }
        let mut executed = executed.lock().expect("no test panics while it notes");
        for op in &ops[case] {
            executed.entry(op.clone()).or_default().insert(target.clone());
        }
        Ok(())
    });
    // A failing case has panicked by now, so every noted op was executed correctly at both levels.
    let executed = executed.into_inner().expect("nothing panicked");
    let known: BTreeSet<String> = op_table().into_iter().collect();
    assert!(known.len() > 90 && executed.keys().filter(|op| known.contains(*op)).count() > 40, "the ops of {executed:?}");
    let (path, page) = (root().join("docs/op-coverage.md"), status_page(&executed, ops.len()));
    if blessing() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "scripts/bless writes docs/op-coverage.md anew");
    let tables = [Core::MNEMONICS, tileaa::Op::MNEMONICS, tileas::Op::MNEMONICS, sched::Op::MNEMONICS].concat();
    let mut seen = seen.into_inner().expect("no worker panics");
    seen.extend(WITHOUT_A_CASE);
    let missing: Vec<&str> = tables.into_iter().filter(|op| !seen.contains(op)).collect();
    assert!(missing.is_empty(), "no case of tests/run executes these ops: {missing:?}");
}

/// Checks the output of a case whose tile blocks are divided among the CTAs of a cluster. Returns false if they cannot be
/// divided.
fn check_in_cluster(case: &Path, target: &str, ctas: u32) -> Result<bool, String> {
    let folder = temporary();
    let ptx = folder.path().join("k.ptx").display().to_string();
    let save_temps = format!("--save-temps={}", folder.path().display());
    let code = bytecode(case, folder.path());
    let option = format!("--cluster={ctas}");
    let ran = run("tileiras", &[&code, "--gpu-name", target, &option, "--emit=ptx", &save_temps, "-o", &ptx], b"");
    let what = format!("{} {target} {option}", label(case));
    if ran.code != Some(0) {
        let refused = ran.stderr.contains("cannot be divided");
        return if refused { Ok(false) } else { Err(format!("{what}: {}", ran.stderr.trim())) };
    }
    let text = std::fs::read_to_string(&ptx).map_err(|error| error.to_string())?;
    if !text.contains(&format!(".reqnctapercluster {ctas}\n")) || !text.contains(".blocksareclusters") {
        return Err(format!("{what}: it is launched without a cluster"));
    }
    let file = |kind: &str| folder.path().join(format!("kernel.{kind}")).display().to_string();
    for (tool, file) in [("tile-run", file("as")), ("tile-run", file("sched")), ("tile-sim", ptx)] {
        execute(tool, &file, case).map_err(|complaint| format!("{what} {file}: {complaint}"))?;
    }
    Ok(true)
}

/// Programs that clusters divide in every way: along rows and columns, through views and pointers, with and without MMAs, with
/// values that all CTAs need in full.
const DIVIDED_CASES: [&str; 9] = [
    "attention",
    "both_ways",
    "cluster_matmul",
    "cluster_rows",
    "linear_attention",
    "matmul_dequantised",
    "matmul_f16",
    "outer_product",
    "softmax",
];

#[test]
fn the_blocks_of_a_cluster_compute_the_same_together() {
    let cases = cases().into_iter().filter(|case| DIVIDED_CASES.contains(&label(case).as_str()));
    let runs: Vec<(PathBuf, String)> = cases
        .flat_map(|case| targets(&case).into_iter().filter(|target| target != "sm_80").map(move |target| (case.clone(), target)))
        .collect();
    assert_eq!(runs.len(), 3 * DIVIDED_CASES.len());
    let runs: Vec<_> = runs.into_iter().flat_map(|run| [2, 4].map(|ctas| (run.clone(), ctas))).collect();
    for_each(&runs, |((case, target), ctas)| match check_in_cluster(case, target, *ctas)? {
        true => Ok(()),
        false => Err(format!("{} {target} is not divided among {ctas}", label(case))),
    });
}

/// Checks the output of a case with an option, and that the log of a stage confirms the effect of the option.
fn check_with_option(case: &Path, target: &str, option: &str, logged: &str) -> Result<(), String> {
    let folder = temporary();
    let ptx = folder.path().join("k.ptx").display().to_string();
    let save_temps = format!("--save-temps={}", folder.path().display());
    let code = bytecode(case, folder.path());
    let ran = run("tileiras", &[&code, "--gpu-name", target, option, "--emit=ptx", &save_temps, "-o", &ptx], b"");
    let what = format!("{} {target}", label(case));
    if ran.code != Some(0) {
        return Err(format!("{what}: {}", ran.stderr.trim()));
    }
    let file = |kind: &str| folder.path().join(format!("kernel.{kind}")).display().to_string();
    if !run("tile-dump", &[&file("sched")], b"").text().contains(logged) {
        return Err(format!("{what}: {option} does nothing"));
    }
    for (tool, file) in [("tile-run", file("as")), ("tile-run", file("sched")), ("tile-sim", ptx)] {
        execute(tool, &file, case).map_err(|complaint| format!("{what} {file}: {complaint}"))?;
    }
    Ok(())
}

#[test]
fn halves_of_rows_one_after_the_other_are_the_same() {
    let names = ["attention", "cluster_matmul", "cluster_rows", "softmax"];
    let cases = cases().into_iter().filter(|case| names.contains(&label(case).as_str()));
    let runs: Vec<(PathBuf, &str)> =
        cases.flat_map(|case| ["sm_80", "sm_90", "sm_120"].map(|target| (case.clone(), target))).collect();
    assert_eq!(runs.len(), 3 * names.len());
    for_each(&runs, |(case, target)| check_with_option(case, target, "--split-m=on", "rows run as two M subtiles"));
}

/// Programs for work stealing: with and without MMAs, with loops over tiles of their own, for clusters.
#[test]
fn stolen_tile_blocks_compute_the_same() {
    let names = ["attention", "cluster_pair", "layers", "matmul_f16", "matmul_gathered", "persistent_rows", "softmax", "vadd_2d"];
    let cases = cases().into_iter().filter(|case| names.contains(&label(case).as_str()));
    let runs: Vec<(PathBuf, &str)> = cases.flat_map(|case| ["sm_100", "sm_120"].map(|target| (case.clone(), target))).collect();
    assert_eq!(runs.len(), 2 * names.len());
    for_each(&runs, |(case, target)| check_with_option(case, target, "--clc=on", "CTAs steal tile blocks"));
}

#[test]
fn loads_ahead_of_their_iteration_are_the_same() {
    let names = ["persistent_few", "persistent_rows"];
    let cases = cases().into_iter().filter(|case| names.contains(&label(case).as_str()));
    let runs: Vec<(PathBuf, &str)> =
        cases.flat_map(|case| ["sm_80", "sm_90", "sm_120"].map(|target| (case.clone(), target))).collect();
    assert_eq!(runs.len(), 3 * names.len());
    for logged in ["the tile is copied to shared memory", "loads are issued an iteration ahead"] {
        for_each(&runs, |(case, target)| check_with_option(case, target, "--prefetch=on", logged));
    }
}

#[test]
fn every_target_of_the_table_is_compiled_for() {
    let targets: Vec<_> = base::Target::all().collect();
    let code = bytecode(&root().join("tests/run/matmul_f16"), Path::new(""));
    for_each(&targets, |target| {
        let folder = temporary();
        let ptx = folder.path().join("k.ptx").display().to_string();
        let ran = run("tileiras", &[&code, "--gpu-name", target.name, "--emit=ptx", "-o", &ptx], b"");
        let header = format!(".target {}", target.ptx_target);
        match std::fs::read_to_string(&ptx) {
            Ok(text) if ran.code == Some(0) && text.contains(&header) => Ok(()),
            _ => Err(format!("{target}: {}", ran.stderr.trim())),
        }
    });
}
