//! Tests of functions that `tile-sched` divides among warp roles. Both executors must compute the expected output, with several
//! schedule seeds and with early and late delivery. The hazard checker must refuse a function with a missing or misplaced pipeline
//! step.

use base::File;
use std::path::Path;
use tests::compare::ExpectedOutputs;
use tests::{for_each, root, run, run_in, temporary_folder};

/// Kernels of `tests/run` that cover every kind of MMA.
const CASES: [&str; 12] = [
    "attention",
    "attention_latent",
    "matmul_f16",
    "matmul_f32",
    "matmul_transposed",
    "matmul_bytes",
    "matmul_dequantised",
    "matmul_gathered",
    "groups_bytes",
    "groups_e4m3",
    "groups_tf32",
    "relu_attention",
];
/// Targets on which TMA copies the operands of all `CASES`.
const TARGETS: [&str; 3] = ["sm_90", "sm_100", "sm_120"];
/// Cases whose MMAs use tensor memory, on targets that have it. There an MMA warp issues the MMAs.
const TENSOR_MEMORY: [&str; 9] = [
    "attention",
    "attention_latent",
    "attention_rows",
    "attention_groups",
    "matmul_transposed",
    "groups_bytes",
    "groups_e4m3",
    "groups_tf32",
    "relu_attention",
];
/// The cases of `TENSOR_MEMORY` with two MMA warps.
const TWO_MMA_WARPS: [&str; 4] = ["attention", "attention_latent", "attention_rows", "attention_groups"];
/// The cases of `TENSOR_MEMORY` with two compute warpgroups.
const TWO_COMPUTE_GROUPS: [&str; 1] = ["attention_groups"];

/// Compiles a case with warp roles in a directory. Returns the `.sched` text.
fn compile_with_roles(folder: &Path, case: &str, target: &str) -> String {
    let text = |path: std::path::PathBuf| path.display().to_string();
    let case = root().join("tests/run").join(case);
    let kernel = case.join("kernel.tileirbc");
    let kernel = if kernel.exists() {
        text(kernel)
    } else {
        let bytecode = text(folder.join("kernel.tileirbc"));
        run("tile-write", &[&text(case.join("kernel.tile")), "-o", &bytecode], b"").ok("tile-write");
        bytecode
    };
    let save_temps = format!("--save-temps={}", folder.display());
    let ptx = text(folder.join("k.ptx"));
    let arguments = [&kernel, "--gpu-name", target, "--tma=on", "--roles=on", "--emit=ptx", &save_temps, "-o", &ptx];
    run("tileiras", &arguments, b"").ok(&format!("{} {target}", case.display()));
    let sched = run_in(folder, "tile-dump", &["kernel.sched"], b"").ok("tile-dump");
    String::from_utf8(sched).expect("stage files are text")
}

#[test]
fn divided_functions_compute_the_expected_output_in_every_execution() {
    let runs = CASES.iter().flat_map(|case| TARGETS.map(|target| (*case, target)));
    let more_runs =
        ["attention_rows", "attention_groups"].into_iter().flat_map(|case| ["sm_90", "sm_100"].map(|target| (case, target)));
    let runs: Vec<(&str, &str)> = runs.chain(more_runs).collect();
    for_each(&runs, |(name, target)| {
        let folder = temporary_folder();
        let text = compile_with_roles(folder.path(), name, target);
        if !text.contains("name: \"load\"") {
            return Err(format!("{name} {target}: nothing is divided"));
        }
        let has_mma_role = *target == "sm_100" && TENSOR_MEMORY.contains(name);
        if text.contains("name: \"mma\"") != has_mma_role {
            return Err(format!("{name} {target}: tensor memory MMAs and their warp role are misplaced"));
        }
        if text.contains("name: \"mma_next\"") != (*target == "sm_100" && TWO_MMA_WARPS.contains(name)) {
            return Err(format!("{name} {target}: two warp roles issue MMAs instead of one, or one instead of two"));
        }
        if text.contains("name: \"compute_next\"") != (*target == "sm_100" && TWO_COMPUTE_GROUPS.contains(name)) {
            return Err(format!("{name} {target}: two warp roles compute instead of one, or one instead of two"));
        }
        run_in(folder.path(), "tile-link", &["k.ptx", "-o", "k.cubin"], b"").ok(name);
        let case = root().join("tests/run").join(name);
        let launch = case.join("launch.json").display().to_string();
        let tile_runs = ["0", "1", "2", "3"].map(|seed| ("tile-run", "kernel.sched", vec!["--schedule-seed", seed]));
        let early_delivery = ("tile-sim", "k.ptx", vec!["--races", "error"]);
        let late_delivery = ["1", "2", "3"]
            .map(|seed| ("tile-sim", "k.ptx", vec!["--races", "error", "--delivery", "late", "--schedule-seed", seed]));
        for (tool, file, options) in tile_runs.into_iter().chain([early_delivery]).chain(late_delivery) {
            let arguments = [&[file, "--launch", &launch, "--out-dir", "out"], &options[..]].concat();
            run_in(folder.path(), tool, &arguments, b"").ok(&format!("{name} {target} {file}"));
            let result = ExpectedOutputs::read(&case).check(&case, &folder.path().join("out"));
            result.map_err(|complaint| format!("{name} {target} {file} {options:?}: {complaint}"))?;
        }
        Ok(())
    });
}

/// Reads a `.sched` text, which runs the verifier and the hazard checker. An error has the message of their report.
fn check_hazards(text: &str) -> Result<(), String> {
    File::<sched::Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| error.message.clone())
}

/// Returns a variant of the text for each line that begins with `word`. The variant has this line replaced by the result of `edit`,
/// or removed if the result is None.
fn edit_each_line(text: &str, word: &str, edit: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let matching = lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with(word));
    let edited = matching.map(|(at, line)| {
        let with_line = |line: Option<String>| {
            let others = lines.iter().enumerate().map(|(i, other)| if i == at { line.clone() } else { Some(other.to_string()) });
            others.flatten().map(|line| line + "\n").collect::<String>()
        };
        with_line(edit(line))
    });
    edited.collect()
}

/// Asserts that the hazard checker refuses every variant of a program. A variant lacks one line that begins with a text of `steps`,
/// or has one of `changes` in one line. A change has the beginning of the line, a text in the line, and the replacement of the
/// text.
fn assert_refused(text: &str, steps: &[&str], changes: &[(&str, &str, &str)]) {
    check_hazards(text).expect("it is right as it is");
    let removed = steps.iter().flat_map(|step| edit_each_line(text, step, |_| None).into_iter().map(move |text| (*step, text)));
    let mut edits: Vec<(&str, String)> = removed.collect();
    for (word, from, to) in changes {
        let edited = edit_each_line(text, word, |line| Some(line.replacen(from, to, 1)));
        edits.extend(edited.into_iter().filter(|other| *other != text).map(|text| (*from, text)));
    }
    assert!(edits.len() >= 12, "{} edits", edits.len());
    for_each(&edits, |(edited_text, text)| match check_hazards(text) {
        Ok(()) => Err(format!("'{edited_text}' can be removed or changed")),
        Err(_) => Ok(()),
    });
}

#[test]
fn hazard_checker_refuses_a_missing_pipeline_step() {
    let folder = temporary_folder();
    let text = compile_with_roles(folder.path(), "matmul_f16", "sm_90");
    let steps = ["pipeline_acquire", "pipeline_commit", "pipeline_wait", "pipeline_release", "tma_load", "group_wait"];
    let changes = [
        ("(buffers", "producer: 1", "producer: 0"),
        ("(buffers", "full: 1,", "full: 2,"),
        ("(buffers", "empty: 4", "empty: 128"),
        ("(buffers", "empty: 4", "empty: 3"),
        ("(buffers", "consumers: [0]", "consumers: [1]"),
        ("(buffers", "drain: warps, ", ""),
        ("(buffers", "fill: tma", "fill: copies"),
        ("(buffers", "fill: tma", "fill: threads"),
        ("group_wait(pending: 1", "pending: 1", "pending: 2"),
    ];
    assert_refused(&text, &steps, &changes);
}

/// Each compute warpgroup synchronises at its own named barrier.
#[test]
fn hazard_checker_refuses_wrong_named_barriers() {
    let folder = temporary_folder();
    let text = compile_with_roles(folder.path(), "attention", "sm_90");
    let changes = [
        ("barrier(", "id: 1", "id: 2"),
        ("barrier(", "id: 1", "id: 0"),
        ("barrier(", "threads: 128", "threads: 160"),
        ("barrier(", "threads: 128", "threads: 96"),
        ("barrier(", "threads: 128", "threads: 64"),
    ];
    assert_refused(&text, &["barrier"], &changes);
}

#[test]
fn hazard_checker_refuses_an_mma_role_with_a_missing_step() {
    let folder = temporary_folder();
    let text = compile_with_roles(folder.path(), "attention", "sm_100");
    let steps = ["pipeline_acquire", "pipeline_commit", "pipeline_wait", "pipeline_release", "tma_load"];
    let changes = [
        ("(buffers", "producer: 1", "producer: 2"),
        ("(buffers", "producer: 2", "producer: 0"),
        ("(buffers", "consumers: [2]", "consumers: [0]"),
        ("(buffers", "consumers: [0]", "consumers: [2]"),
        ("(buffers", "drain: mma, ", ""),
        ("(buffers", "fill: mma", "fill: threads"),
        ("(buffers", "fill: tma", "fill: threads"),
        ("(buffers", "empty: 1,", "empty: 2,"),
    ];
    assert_refused(&text, &steps, &changes);
}

/// The halves of an accumulator's rows belong to two warp roles, each with MMAs of its own.
#[test]
fn hazard_checker_refuses_two_compute_roles_with_a_missing_step() {
    let folder = temporary_folder();
    let text = compile_with_roles(folder.path(), "attention_groups", "sm_100");
    let steps = ["pipeline_acquire", "pipeline_commit", "pipeline_wait", "pipeline_release", "tma_load", "async_fence"];
    let changes = [
        ("(buffers", "consumers: [3, 4]", "consumers: [3]"),
        ("(buffers", "consumers: [3, 4]", "consumers: [4]"),
        ("(buffers", "consumers: [0]", "consumers: [1]"),
        ("(buffers", "producer: 3", "producer: 4"),
        ("(buffers", "empty: 2,", "empty: 1,"),
        ("(depth", "full: 128", "full: 256"),
    ];
    assert_refused(&text, &steps, &changes);
}

/// Two MMA warps share the buffer of the keys, so pipelines have two consumers.
#[test]
fn hazard_checker_refuses_two_mma_roles_with_a_missing_step() {
    let folder = temporary_folder();
    let text = compile_with_roles(folder.path(), "attention_latent", "sm_100");
    let steps = ["pipeline_acquire", "pipeline_commit", "pipeline_wait", "pipeline_release", "tma_load"];
    let changes = [
        ("(buffers", "consumers: [2, 3]", "consumers: [2]"),
        ("(buffers", "consumers: [2, 3]", "consumers: [3]"),
        ("(buffers", "consumers: [3]", "consumers: [2]"),
        ("(buffers", "producer: 2", "producer: 3"),
        ("(buffers", "empty: 2,", "empty: 1,"),
    ];
    assert_refused(&text, &steps, &changes);
}
