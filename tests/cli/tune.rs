//! `tile-tune`: a search finds the fastest candidate, continues after an interruption, and classifies failures.

use crate::check_stages_are_current;
use std::fs;
use std::path::Path;
use tests::{RunResult, root, run, temporary_folder, tool};

/// Checks that the tools that `tile-tune` starts exist and are up to date.
fn need_tools() {
    check_stages_are_current();
    tool("tile-time");
    tool("tile-tune");
}

/// Runs `tile-tune` on a case of `tests/run`.
fn tune(case: &str, target: &str, arguments: &[&str]) -> RunResult {
    need_tools();
    let folder = root().join("tests/run").join(case);
    let (kernel, launch) = (folder.join("kernel.tileirbc").display().to_string(), folder.join("launch.json").display().to_string());
    run("tile-tune", &[&[kernel.as_str(), "--gpu-name", target, "--launch", &launch], arguments].concat(), b"")
}

/// The records of a file of results, without the line that identifies the search.
fn records(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The time that `tileiras` and `tile-time` predict for a case with these options.
fn predicted_seconds(case: &str, options: &[&str]) -> f64 {
    let folder = temporary_folder();
    let (case, ptx) = (root().join("tests/run").join(case), folder.path().join("k.ptx").display().to_string());
    let kernel = case.join("kernel.tileirbc").display().to_string();
    run("tileiras", &[&[kernel.as_str(), "--gpu-name=sm_90", "--emit=ptx", "-o", &ptx], options].concat(), b"").ok("compile");
    let launch = case.join("launch.json").display().to_string();
    let report = run("tile-time", &[&ptx, "--launch", &launch, "--json=-"], b"").ok("time");
    serde_json::from_slice::<serde_json::Value>(&report).unwrap()["seconds"].as_f64().unwrap()
}

fn an_exhaustive_search_ranks_all_combinations() {
    let folder = temporary_folder();
    let (results, best) = (folder.path().join("k.jsonl"), folder.path().join("k.rsp"));
    let paths = [format!("--results={}", results.display()), format!("--best={}", best.display())];
    let space = ["--space=warps=4,8", "--space=stages=2,3", "--search=exhaustive"];
    let ran = tune("matmul_f16", "sm_90", &[&space[..], &[&paths[0], &paths[1]]].concat());
    ran.ok("tile-tune");
    let records = records(&results);
    assert_eq!(records.len(), 9);
    // `tile-tune` must record the same time as a separate run of `tileiras` and `tile-time` with the same options.
    let mut fastest = f64::INFINITY;
    for record in &records {
        let options: Vec<&str> = record["options"].as_array().unwrap().iter().map(|option| option.as_str().unwrap()).collect();
        let seconds = record["predicted"]["seconds"].as_f64().unwrap();
        assert_eq!(seconds, predicted_seconds("matmul_f16", &options), "{options:?}");
        fastest = fastest.min(seconds);
    }
    let best = format!("@{}", best.display());
    assert_eq!(predicted_seconds("matmul_f16", &[&best]), fastest);
}

fn an_interrupted_search_continues() {
    let folder = temporary_folder();
    let results = folder.path().join("k.jsonl");
    let path = format!("--results={}", results.display());
    let whole = tune("softmax", "sm_90", &["--space=warps=4,8", "--space=prefetch=on,off", &path]).ok("the first search");
    let text = fs::read_to_string(&results).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // As if the process had been killed while it wrote its third record. The first record has a time that no candidate has.
    let kept = [lines[0], &lines[1].replace("\"seconds\":", "\"seconds\":9"), lines[2], &lines[3][..lines[3].len() / 2]].join("\n");
    fs::write(&results, kept).unwrap();
    let continued = tune("softmax", "sm_90", &["--space=warps=4,8", "--space=prefetch=on,off", &path]).ok("the second search");
    let count = |output: &[u8]| String::from_utf8_lossy(output).split(' ').next().unwrap().to_string();
    assert_eq!(count(&continued), count(&whole));
    assert!(records(&results)[0]["predicted"]["seconds"].as_f64().unwrap() >= 9e-9, "a recorded candidate was evaluated again");
    let other = tune("softmax", "sm_80", &[&path]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("TUN004") && other.stderr.contains("another target"), "{}", other.stderr);
}

fn failures_have_a_kind() {
    let folder = temporary_folder();
    let results = folder.path().join("k.jsonl");
    let path = format!("--results={}", results.display());
    tune("matmul_f16", "sm_80", &["--space=mma=wgmma", "--space=colour=red", "--search=exhaustive", &path]).ok("tile-tune");
    let records = records(&results);
    let kind = |option: &str| {
        let record = records.iter().find(|record| record["options"] == serde_json::json!([option])).unwrap();
        record["failed"]["kind"].as_str().unwrap().to_string()
    };
    assert_eq!((kind("--mma=wgmma"), kind("--colour=red")), ("option".into(), "error".into()));
    let cut_short = tune("matmul_f16", "sm_80", &["--space=warps=4,8", "--limit=2"]).ok("tile-tune");
    assert!(String::from_utf8_lossy(&cut_short).contains("The search ended at --limit=2"));
    let none = tune("matmul_f16", "sm_80", &["--space=mma=wgmma", "--search=exhaustive", "--limit=1"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("TUN002"), "{}", none.stderr);
}

fn compiled_ptx(case: &str, options: &[&str]) -> (RunResult, Vec<String>) {
    let folder = temporary_folder();
    let (case, ptx) = (root().join("tests/run").join(case), folder.path().join("k.ptx"));
    let (kernel, output) = (case.join("kernel.tileirbc").display().to_string(), ptx.display().to_string());
    let ran = run("tileiras", &[&[kernel.as_str(), "--gpu-name=sm_90", "--emit=ptx", "-o", &output], options].concat(), b"");
    let text = fs::read_to_string(&ptx).unwrap_or_default();
    (ran, text.lines().filter(|line| !line.trim_start().starts_with("//")).map(String::from).collect())
}

fn a_plan_file_has_the_options_of_each_kernel() {
    let folder = temporary_folder();
    let plans = folder.path().join("plans.json");
    let plan_option = format!("--plan={}", plans.display());
    let entries = || {
        let file: serde_json::Value = serde_json::from_slice(&fs::read(&plans).unwrap()).unwrap();
        file["plans"].as_array().unwrap().clone()
    };
    tune("matmul_f16", "sm_90", &["--with=warps=8", "--space=stages=2", "--search=exhaustive", &plan_option]).ok("tile-tune");
    tune("softmax", "sm_90", &["--space=warps=4", "--search=exhaustive", &plan_option]).ok("tile-tune");
    // A second search of a kernel replaces its entry.
    tune("matmul_f16", "sm_90", &["--with=warps=8", "--with=stages=2", "--space=tma=on", "--search=exhaustive", &plan_option])
        .ok("tile-tune");
    let entries = entries();
    assert_eq!(entries.len(), 2);
    let options: Vec<&str> = entries[0]["options"].as_array().unwrap().iter().map(|option| option.as_str().unwrap()).collect();
    assert!(options.starts_with(&["--warps=8", "--stages=2"]), "{options:?}");
    let (planned, ptx) = compiled_ptx("matmul_f16", &[&plan_option]);
    planned.ok("the kernel with its plan");
    assert_eq!(ptx, compiled_ptx("matmul_f16", &options).1);
    assert_eq!(
        compiled_ptx("matmul_f16", &[&plan_option, "--warps=4"]).1,
        compiled_ptx("matmul_f16", &[&options[..], &["--warps=4"]].concat()).1
    );
    let (other, ptx) = compiled_ptx("vadd", &[&plan_option]);
    assert!(other.stderr.contains("has no plan for this kernel and sm_90"), "{}", other.stderr);
    assert_eq!(ptx, compiled_ptx("vadd", &[]).1);
}

fn a_wrong_plan_file_is_rejected() {
    let folder = temporary_folder();
    let plans = folder.path().join("plans.json");
    let plan_option = format!("--plan={}", plans.display());
    let texts = [
        ("text", "expected ident at line 1"),
        (r#"{"plans": [{"kernel": "0", "target": "sm_90", "options": ["--output-file=x"]}]}"#, "does not override a decision"),
        (r#"{"plans": [], "more": 1}"#, "unknown field"),
    ];
    for (text, message) in texts {
        fs::write(&plans, text).unwrap();
        let (ran, _) = compiled_ptx("vadd", &[&plan_option]);
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{:?}: {}", ran.code, ran.stderr);
        assert!(tune("vadd", "sm_90", &["--space=warps=4", &plan_option]).stderr.contains(message));
    }
}

fn the_highest_level_compiles_with_the_fastest_candidate() {
    let launch = root().join("tests/run/matmul_f16/launch.json").display().to_string();
    // One decision is left, so the fastest candidate is one of four.
    let fixed = ["stages=2", "roles=off", "prefetch=off", "overlap=off", "split-m=off", "mma=mma", "occupancy=1", "tma=on"];
    let fixed = fixed.map(|option| format!("--{option}"));
    let with_fixed =
        |more: &[&'static str]| -> Vec<&str> { fixed.iter().map(String::as_str).chain(more.iter().copied()).collect() };
    let mut shortest = f64::INFINITY;
    for warps in [&[][..], &["--warps=4"], &["--warps=8"], &["--warps=16"]] {
        let options = with_fixed(warps);
        if compiled_ptx("matmul_f16", &options).0.code == Some(0) {
            shortest = shortest.min(predicted_seconds("matmul_f16", &options));
        }
    }
    let launch_option = format!("--launch={launch}");
    let searched = [&with_fixed(&["-O4", "-v"])[..], &[&launch_option]].concat();
    let (ran, _) = compiled_ptx("matmul_f16", &searched);
    assert!(ran.code == Some(0) && ran.stderr.contains("-O4 found the options"), "{}", ran.stderr);
    assert_eq!(predicted_seconds("matmul_f16", &searched), shortest);
    let (ran, _) = compiled_ptx("matmul_f16", &[&launch_option]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--launch applies to -O4 only"), "{}", ran.stderr);
    // Without a launch, the message is that of NVIDIA's tileiras.
    let (ran, _) = compiled_ptx("matmul_f16", &["-O4"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("invalid optimization level: 4"), "{}", ran.stderr);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    an_exhaustive_search_ranks_all_combinations,
    an_interrupted_search_continues,
    failures_have_a_kind,
    a_plan_file_has_the_options_of_each_kernel,
    a_wrong_plan_file_is_rejected,
    the_highest_level_compiles_with_the_fastest_candidate,
];
