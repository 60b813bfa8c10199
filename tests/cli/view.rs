//! Tests of `tile-view`: the data model of the page is correct, and the page works in a browser.

use crate::check_stages_are_current;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tests::{root, run, run_in, temporary_folder, tool};

/// Runs `tile-view` on a kernel of `tests/run`. Returns the HTML page, and its data model as JSON.
fn run_view(folder: &Path, kernel: &str, target: &str, options: &[&str]) -> (String, Value) {
    check_stages_are_current();
    tool("tile-time");
    let input = root().join("tests/run").join(kernel).join("kernel.tileirbc");
    let arguments = [&[input.to_str().unwrap(), "--gpu-name", target, "-o", "k.html", "--json", "k.json"], options].concat();
    run_in(folder, "tile-view", &arguments, b"").ok(kernel);
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    (text("k.html"), serde_json::from_str(&text("k.json")).unwrap())
}

/// The path of the launch description of a kernel in `tests/run`.
fn launch_path(kernel: &str) -> String {
    root().join("tests/run").join(kernel).join("launch.json").to_string_lossy().into_owned()
}

fn pane_named<'a>(model: &'a Value, name: &str) -> &'a Value {
    model["panes"].as_array().unwrap().iter().find(|pane| pane["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The source lines of the rows that contain `word` in the pane `name`. Rows without a source position are skipped.
fn source_lines(model: &Value, name: &str, word: &str) -> Vec<u64> {
    let pane = pane_named(model, name);
    let rows = pane["lines"].as_array().unwrap().iter().zip(pane["source_positions"].as_array().unwrap());
    let line_of =
        |source_position: &Value| model["source_positions"][source_position.as_i64().unwrap() as usize]["line"].as_u64().unwrap();
    rows.filter(|(line, source_position)| line.as_str().unwrap().contains(word) && source_position.as_i64() != Some(-1))
        .map(|(_, source_position)| line_of(source_position))
        .collect()
}

fn all_stages_link_a_matmul_to_its_source_line() {
    let folder = temporary_folder();
    let (_, model) = run_view(folder.path(), "matmul_f16", "sm_80", &["--launch", &launch_path("matmul_f16")]);
    assert_eq!(model["target"], "sm_80");
    let line = source_lines(&model, "tile", "mmaf")[0];
    for (name, word) in [("aa", "= mma("), ("as", "= mma("), ("sched", "= mma("), ("ptx", "mma.sync")] {
        let lines_with_word = source_lines(&model, name, word);
        assert!(
            !lines_with_word.is_empty() && lines_with_word.iter().all(|one| *one == line),
            "{name}: {lines_with_word:?}, not {line}"
        );
    }
    // No text contains a location, and the PTX times refer to displayed lines.
    let lines = pane_named(&model, "sched")["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| !line.as_str().unwrap().contains(" @")), "{lines:?}");
    let numbers = pane_named(&model, "ptx")["numbers"].as_array().unwrap();
    let times = model["time"]["lines"].as_array().unwrap();
    assert!(times.len() > 20 && times.iter().all(|time| numbers.contains(&time["line"])));
    let sum: f64 = times.iter().map(|time| time["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
}

/// Asserts that buffers with overlapping live ranges do not overlap in memory, and that each access of a buffer is in one of its
/// live ranges.
fn assert_buffers_are_disjoint(function: &Value) {
    let number = |value: &Value| value.as_u64().unwrap();
    let buffers = function["buffers"].as_array().unwrap();
    let live_ranges = |buffer: &Value| -> Vec<(u64, u64)> {
        buffer["live_ranges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|live_range| (number(&live_range[0]), number(&live_range[1])))
            .collect()
    };
    let span = |buffer: &Value| {
        (number(&buffer["offset"]), number(&buffer["offset"]) + number(&buffer["size"]) * number(&buffer["depth"]))
    };
    for (index, one) in buffers.iter().enumerate() {
        for access in one["accesses"].as_array().unwrap() {
            let op = number(&access["op"]);
            assert!(
                live_ranges(one).iter().any(|live_range| (live_range.0..=live_range.1).contains(&op)),
                "{}: op {op}",
                one["name"]
            );
        }
        for other in buffers[..index].iter().filter(|other| other["space"] == one["space"]) {
            let overlap = |a: &(u64, u64), b: &(u64, u64)| a.0 <= b.1 && b.0 <= a.1;
            let (a, b) = (span(one), span(other));
            let are_live_together =
                live_ranges(one).iter().any(|live_range| live_ranges(other).iter().any(|own| overlap(live_range, own)));
            assert!(!are_live_together || a.1 <= b.0 || b.1 <= a.0, "{} and {}", one["name"], other["name"]);
        }
    }
}

fn drawings_match_the_schedule() {
    let folder = temporary_folder();
    let (_, model) = run_view(folder.path(), "matmul_f16", "sm_80", &[]);
    let function = &model["functions"][0];
    let rows = function["rows"].as_array().unwrap();
    assert_eq!(rows.len() as u64, function["ops"].as_u64().unwrap(), "each op has a row");
    let lines = pane_named(&model, "sched")["lines"].as_array().unwrap();
    let buffers = function["buffers"].as_array().unwrap();
    for (number, buffer) in buffers.iter().enumerate() {
        let accesses = buffer["accesses"].as_array().unwrap();
        assert!(!accesses.is_empty());
        for access in accesses {
            let row = rows[access["op"].as_u64().unwrap() as usize].as_u64().unwrap() as usize;
            let line = lines[row].as_str().unwrap();
            assert!(line.contains(access["mnemonic"].as_str().unwrap()) && line.contains(&format!("buffer: {number}")), "{line}");
            let wavefronts = &access["wavefronts"];
            assert!(wavefronts.is_null() || wavefronts["count"].as_u64() >= wavefronts["minimum"].as_u64());
        }
    }
    let number = |value: &Value| value.as_u64().unwrap();
    assert_buffers_are_disjoint(function);
    assert!(buffers.iter().any(|buffer| number(&buffer["depth"]) > 1), "a multi-stage buffer");
    // The page has a scheduled time for each op of the loop, and resource use starts with the op.
    let schedule = &function["loops"][0];
    let ops = schedule["ops"].as_array().unwrap();
    assert!(ops.iter().any(|op| op["text"].as_str().unwrap().ends_with("= mma")));
    for occupied in schedule["occupied"].as_array().unwrap() {
        let op = &ops[occupied["op"].as_u64().unwrap() as usize];
        let start = number(&op["stage"]) * number(&schedule["interval"]) + number(&op["cycle"]);
        assert_eq!(number(&occupied["start"]), start, "{op}");
    }
    assert!(model["layouts"].as_array().unwrap().iter().any(|layout| layout["uses"][0]["shape"] == serde_json::json!([32, 32])));
}

fn a_page_can_start_from_any_stage_file() {
    check_stages_are_current();
    let folder = temporary_folder();
    let input = root().join("tests/run/vadd/kernel.tileirbc");
    let input_name = format!("{}", input.display());
    run_in(folder.path(), "tileiras", &[&input_name, "--gpu-name=sm_80", "--emit=sched", "-o", "k.sched"], b"").ok("tileiras");
    run_in(folder.path(), "tileiras", &[&input_name, "--gpu-name=sm_80", "--emit=ptx", "-o", "k.ptx"], b"").ok("tileiras");
    for (name, pane_count) in [("k.sched", 2), ("k.ptx", 1)] {
        run_in(folder.path(), "tile-view", &[name, "-o", "k.html", "--json", "k.json"], b"").ok(name);
        let model: Value = serde_json::from_slice(&std::fs::read(folder.path().join("k.json")).unwrap()).unwrap();
        let names: Vec<&str> = model["panes"].as_array().unwrap().iter().filter_map(|pane| pane["name"].as_str()).collect();
        assert_eq!(
            names.iter().filter(|name| ["tile", "aa", "as", "sched", "ptx"].contains(name)).count(),
            pane_count,
            "{names:?}"
        );
    }
    let cubin = run("tile-view", &["-"], b"\x7fELF, so to speak");
    assert_eq!(cubin.code, Some(1));
    assert!(cubin.stderr.contains("shows programs, stage files and PTX"), "{}", cubin.stderr);
    // The page reports a stage's message unchanged.
    let refused = run("tile-view", &[input_name.as_str(), "-o", "/dev/null"], b"");
    assert!(refused.code == Some(2) && refused.stderr.contains("--gpu-name"), "{:?} {}", refused.code, refused.stderr);
}

fn roles_and_pipelines_match_the_schedule() {
    check_stages_are_current();
    let folder = temporary_folder();
    let input = root().join("formats/sched/tests/warp_roles/copies.sched").display().to_string();
    run_in(folder.path(), "tile-view", &[&input, "-o", "k.html", "--json", "k.json"], b"").ok("tile-view");
    let model: Value = serde_json::from_slice(&std::fs::read(folder.path().join("k.json")).unwrap()).unwrap();
    let function = &model["functions"][0];
    let warp_role = |name: &str, first: u32, warps: u32| serde_json::json!({"name": name, "first_warp": first, "warps": warps, "registers": null});
    assert_eq!(function["warp_roles"], serde_json::json!([warp_role("compute", 0, 4), warp_role("load", 4, 1)]));
    let pipeline = &function["pipelines"][0];
    assert_eq!((&pipeline["producer"], &pipeline["consumers"][0], &pipeline["depth"]), (&1.into(), &0.into(), &2.into()));
    // The ops of all warps first, then those of each warp role.
    let roles: Vec<&Value> = function["role_spans"].as_array().unwrap().iter().map(|span| &span["warp_role"]).collect();
    assert_eq!(roles, [&Value::Null, &0.into(), &1.into()]);
    assert_buffers_are_disjoint(function);
    assert!(function["buffers"][0]["live_ranges"].as_array().unwrap().len() == 2, "both warp roles use the multi-stage buffer");
    // The bodies of warp roles have rows of their own.
    let rows = function["rows"].as_array().unwrap();
    let line = |row: &Value| pane_named(&model, "sched")["lines"][row.as_u64().unwrap() as usize].as_str().unwrap().trim_start();
    assert!(
        rows.iter().any(|row| line(row).starts_with("pipeline_acquire"))
            && rows.iter().any(|row| line(row).starts_with("pipeline_wait"))
    );
}

fn a_layout_is_drawn_in_a_terminal() {
    check_stages_are_current();
    let folder = temporary_folder();
    let input = root().join("tests/run/matmul_f16/kernel.tileirbc").display().to_string();
    run_in(folder.path(), "tileiras", &[&input, "--gpu-name=sm_80", "--emit=as", "-o", "k.as"], b"").ok("tileiras");
    let dump = run_in(folder.path(), "tile-dump", &["--layout", "#0", "k.as"], b"");
    let text = dump.text();
    dump.ok("tile-dump");
    let first_row = "   (0,0) | w0 l0  r0-1  | w0 l1  r0-1  | w0 l2  r0-1  | w0 l3  r0-1  | w0 l0  r4-5  |";
    assert!(
        text.starts_with("layout #0 of 32x32xf32: 4 warps of 32 lanes, 8 registers each\n") && text.contains(first_row),
        "{text}"
    );
    for (words, code) in [(["--layout", "#99", "k.as"], "DMP003"), (["--layout", "0", &input], "DMP002")] {
        let refused = run_in(folder.path(), "tile-dump", &words, b"");
        assert!(refused.code == Some(2) && refused.stderr.contains(code), "{}", refused.stderr);
    }
}

fn source_option_adds_missing_source_files() {
    let folder = temporary_folder();
    let (_, model) = run_view(folder.path(), "vadd", "sm_80", &[]);
    let name = model["files"][0].as_str().unwrap().rsplit('/').next().unwrap().to_string();
    assert!(model["missing"].as_array().unwrap().iter().any(|reason| reason.as_str().unwrap().contains(&name)));
    let text: String = (1..200).map(|line| format!("line {line}\n")).collect();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src").join(&name), text).unwrap();
    let (_, model) = run_view(folder.path(), "vadd", "sm_80", &["--source", "src"]);
    let from = source_lines(&model, "ptx", "add")[0];
    assert!(source_lines(&model, "source", &format!("line {from}")).contains(&from));
}

/// The path of Chromium or Chrome. None if TILEWORKS_WITHOUT_BROWSER is set. Panics if PATH has neither.
fn find_browser() -> Option<PathBuf> {
    if std::env::var_os("TILEWORKS_WITHOUT_BROWSER").is_some() {
        eprintln!("\nview: not tested in a browser: TILEWORKS_WITHOUT_BROWSER is set\n");
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let browser = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file());
    let complaint = "no Chromium on PATH: scripts/setup --browser brings one, or set TILEWORKS_WITHOUT_BROWSER to leave this out";
    Some(browser.expect(complaint))
}

/// Opens a page in a browser. Returns the observations that the script `view.js` collects while it operates the page.
fn observe_page(browser: &Path, folder: &Path, page: &str, seek: &str) -> Value {
    let script = std::fs::read_to_string(root().join("tests/cli/view.js")).unwrap();
    // A script at the start of the page records errors, and one at its end visits the page.
    let start = "<script>const problems = []; addEventListener('error', (event) => problems.push(event.message)); \
                 for (const kind of ['error', 'warn']) { const was = console[kind]; console[kind] = (...words) => { problems.push(words.join(' ')); was(...words); }; }</script>";
    let end = format!("<script>const SEEK = {};\n{script}</script></body>", serde_json::json!(seek));
    let instrumented = page.replacen("<head>", &format!("<head>{start}"), 1).replacen("</body>", &end, 1);
    std::fs::write(folder.join("visit.html"), instrumented).unwrap();
    let url = format!("file://{}", folder.join("visit.html").display());
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let arguments = [
        "120",
        browser.to_str().unwrap(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1600,1000",
        &profile,
        "--dump-dom",
        &url,
    ];
    let dumped = tests::run_to_end(
        {
            let mut command = std::process::Command::new("timeout");
            command.args(arguments);
            command
        },
        b"",
    );
    let text = dumped.text();
    let observations = text.split_once("SAW").and_then(|(_, rest)| rest.split_once("WAS"));
    let (observations, _) = observations
        .unwrap_or_else(|| panic!("the page did not get to its end: {:?}\n{}\n{text:.2000}", dumped.code, dumped.stderr));
    serde_json::from_str(&observations.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&"))
        .unwrap()
}

fn the_page_works_in_a_browser() {
    let Some(browser) = find_browser() else { return };
    let matmuls = ["sm_80", "sm_90", "sm_100"].map(|target| ("matmul_f16", target, r"\bmma\("));
    for (kernel, target, seek) in [("vadd", "sm_80", "add_f")].into_iter().chain(matmuls) {
        let folder = temporary_folder();
        let (page, model) = run_view(folder.path(), kernel, target, &["--launch", &launch_path(kernel)]);
        let observations = observe_page(&browser, folder.path(), &page, seek);
        let context = format!("{kernel} for {target}: {observations:#}");
        assert_eq!(observations["problems"], serde_json::json!([]), "{context}");
        let count = model["panes"].as_array().unwrap().len() as u64;
        assert_eq!(observations["shown"].as_u64(), Some(count), "{context}");
        for name in ["tile", "aa", "as", "sched", "ptx"] {
            assert!(observations["linked"][name].as_u64() > Some(0), "{name} is not linked: {context}");
        }
        assert!(observations["back"].as_array().unwrap().contains(&observations["line"]), "{context}");
        for name in ["at", "next", "hidden", "searchMoved", "closed", "help"] {
            assert_eq!(observations[name], true, "{name}: {context}");
        }
        assert_eq!(
            (observations["moved"].as_u64(), observations["right"].as_str(), observations["nextTab"].as_str()),
            (Some(2), Some("ptx"), Some("memory")),
            "{context}"
        );
        assert!(
            observations["found"].as_str().unwrap().starts_with("1 of ")
                && observations["match"].as_str().unwrap().contains("assume"),
            "{context}"
        );
        assert!(
            observations["hovered"].as_str().unwrap().starts_with("(0")
                && observations["tabs"]["layouts"]["colours"].as_u64() > Some(4),
            "{context}"
        );
        // For later targets, the compiler may decide that such a small matmul needs no shared memory, schedule or warp roles.
        if target == "sm_80" {
            let is_matmul = kernel != "vadd";
            let memory = &observations["tabs"]["memory"];
            assert_eq!(memory["boxes"].as_u64() > Some(2) && memory["colours"].as_u64() > Some(8), is_matmul, "{context}");
            assert_eq!(observations["tabs"]["schedule"]["boxes"].as_u64() > Some(8), is_matmul, "{context}");
        }
        // Wait times belong to the waiting ops, not to the loop's line.
        assert!(observations["loopShare"].as_f64() < Some(0.3) && observations["allShare"].as_f64() > Some(0.5), "{context}");
        assert_ne!(observations["themes"][0], observations["themes"][1], "{context}");
        for word in ["GB/s", "of the roofline"] {
            assert!(observations["throughput"].as_str().unwrap().contains(word), "{word}: {context}");
        }
        let heights = observations["lineHeights"].as_array().unwrap();
        assert!(heights.len() > 4 && heights.iter().all(|count| *count == 1), "parts do not wrap: {context}");
        assert!(kernel == "vadd" || observations["loops"].as_u64() > Some(0), "a matmul has a loop: {context}");
        let labels = observations["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap());
        assert!(labels.clone().count() as u64 == count && labels.clone().all(|label| !label.starts_with("source2")), "{context}");
        assert!(observations["layout"].as_str().unwrap().starts_with(observations["name"].as_str().unwrap()), "{context}");
        for (name, word) in [("time", " us on "), ("warp_roles", "registers per thread"), ("decisions", "convert")] {
            assert!(observations["tabs"][name]["text"].as_str().unwrap().contains(word), "{name}: {context}");
        }
    }
}

/// An attention kernel with production tile sizes, as in `python/examples/attention.py`.
const LARGE_ATTENTION: &str = "\
import sys
import numpy as np, tileworks
from attention import attention
q, k, v, out = (np.zeros((2, 512, 128), np.float16) for _ in range(4))
for target in sys.argv[1:]:
    page = tileworks.view(attention, (q, k, v, out, 0.1, 128, 128, 128), grid=(4, 2), target=target)
    page.save(f'{target}.html')
";

fn a_large_attention_kernel_renders_quickly() {
    let Some(browser) = find_browser() else { return };
    check_stages_are_current();
    for name in ["tile-view", "tile-time"] {
        tool(name);
    }
    let (folder, targets) = (temporary_folder(), ["sm_80", "sm_90", "sm_100"]);
    std::fs::write(folder.path().join("large.py"), LARGE_ATTENTION).unwrap();
    let root = root().display();
    let line = format!(
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{root}/python:{root}/python/examples' TILEWORKS_TOOLS='{}' '{root}/.toolkit/python/bin/python' large.py {}",
        tests::tools_folder().display(),
        targets.join(" ")
    );
    tests::shell(folder.path(), &line).ok("the pages");
    for target in targets {
        let page = std::fs::read_to_string(folder.path().join(format!("{target}.html"))).unwrap();
        assert!((200_000..10_000_000).contains(&page.len()), "{} bytes", page.len());
        let model = page.split_once(r#"id="model""#).and_then(|(_, rest)| rest.split_once('>')).unwrap().1;
        let model: Value = serde_json::from_str(model.split_once("</script>").unwrap().0).unwrap();
        assert_buffers_are_disjoint(&model["functions"][0]);
        let visit_page = || observe_page(&browser, folder.path(), &page, r"= mma\(|^\s*mma\(");
        let milliseconds = |observations: &Value| observations["milliseconds"].as_f64().unwrap();
        // Another process may occupy the processor for a while.
        let mut observations = visit_page();
        for _ in 0..2 {
            observations = if milliseconds(&observations) < 2000.0 { observations } else { visit_page() };
        }
        assert!(milliseconds(&observations) < 2000.0, "{target}: {} ms until it is shown", milliseconds(&observations));
        eprintln!("{target}: {} bytes, shown after {:.0} ms", page.len(), milliseconds(&observations));
        let function = &model["functions"][0];
        assert_eq!(observations["problems"], serde_json::json!([]), "{target}: {observations:#}");
        let warp_roles = function["warp_roles"].as_array().unwrap();
        let pipelines = function["pipelines"].as_array().unwrap();
        // The page draws a rectangle for each warp role, an arrow for each pipeline, and the parts of the memory with their names.
        let drawing = &observations["tabs"]["warp_roles"];
        assert_eq!(drawing["boxes"].as_u64(), Some(warp_roles.len().max(1) as u64), "{target}: {drawing:#}");
        assert_eq!(drawing["pipelines"].as_u64(), Some(pipelines.len() as u64), "{target}: {drawing:#}");
        let memory = observations["tabs"]["memory"]["text"].as_str().unwrap();
        let expected: &[&str] = match target {
            "sm_80" => &["bytes of shared memory"],
            "sm_90" => &["bytes of shared memory", "all warps", "load"],
            _ => &["bytes of shared memory", "TMEM columns", "all warps", "load", "mma"],
        };
        expected.iter().for_each(|word| assert!(memory.contains(word), "{target}: no {word}: {memory}"));
        assert!(
            warp_roles.is_empty() == (target == "sm_80") && observations["tabs"]["schedule"]["boxes"].as_u64() > Some(8),
            "{target}: {observations:#}"
        );
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    all_stages_link_a_matmul_to_its_source_line,
    drawings_match_the_schedule,
    a_page_can_start_from_any_stage_file,
    roles_and_pipelines_match_the_schedule,
    a_layout_is_drawn_in_a_terminal,
    source_option_adds_missing_source_files,
    the_page_works_in_a_browser,
    a_large_attention_kernel_renders_quickly,
];
