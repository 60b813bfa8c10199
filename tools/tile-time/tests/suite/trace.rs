//! Checks the timeline against Chrome's trace event format as Perfetto reads it. An event that Perfetto would drop or repair fails
//! the test.

use crate::support::{Kernel, repeat};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a kernel that issues three TMA copies, waits for each of them, and ends with a barrier of two warps.
fn kernel_with_three_copies() -> Kernel {
    let copy = |_| {
        "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r2], 4096;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 4096, [%r2];\nadd.s32 %r2, %r2, 8;\n\
         add.s32 %r4, %r4, 4096;"
            .to_string()
    };
    let wait = |index: usize| {
        format!("WAIT{index}:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n@!%p3 bra WAIT{index};\nadd.s32 %r3, %r3, 8;")
    };
    let prologue = "mov.u32 %r1, buffer;\nadd.s32 %r2, %r1, 8;\nadd.s32 %r3, %r1, 8;\nadd.s32 %r4, %r1, 1024;\n\
         mov.u32 %r5, %tid.x;\nsetp.ne.s32 %p1, %r5, 0;\n@%p1 bra DONE;\n";
    let inits = repeat(3, |_| "mbarrier.init.shared.b64 [%r2], 1;\nadd.s32 %r2, %r2, 8;".into()) + "add.s32 %r2, %r1, 8;\n";
    // The latency of this chain is longer than the latency of the copies, so an assembler schedules the chain before the copies.
    let chain = repeat(8, |_| "ex2.approx.ftz.f32 %f1, %f1;".into());
    let body = format!("{inits}{}{chain}{}DONE:\nbarrier.sync 0;", repeat(3, copy), repeat(3, wait));
    Kernel::new("sm_90a", 64).prologue(prologue).body(body).out_bytes(4096).grid(4)
}

/// Runs `tile-time --trace` on the kernel and returns the events of the trace.
fn trace_events() -> Vec<Value> {
    let folder = tempfile::tempdir().expect("the test can create a folder");
    kernel_with_three_copies().write(folder.path());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tile-time"))
        .args(["k.ptx", "--launch", "launch.json", "--trace", "trace.json", "--no-advice", "--registers", "64"])
        .current_dir(folder.path())
        .output()
        .expect("tile-time runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("trace.json")).expect("there is a trace");
    let trace: Value = serde_json::from_str(&text).expect("the trace is JSON");
    assert!(matches!(trace["displayTimeUnit"].as_str(), Some("ns" | "ms")), "the unit is one of two");
    trace["traceEvents"].as_array().expect("a list of events").clone()
}

/// Returns a non-negative number of an event.
fn number_field(event: &Value, key: &str) -> f64 {
    let number = event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"));
    assert!(number.is_finite() && number >= 0.0, "{event}");
    number
}

#[test]
fn trace_events_are_valid_for_viewers() {
    let events = trace_events();
    let mut open_copies: BTreeMap<String, f64> = BTreeMap::new();
    let mut slices: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let (mut named_rows, mut used_rows) = (BTreeSet::new(), BTreeSet::new());
    for event in &events {
        let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("no {key}: {event}"));
        let row = (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"));
        assert!(!text("name").is_empty());
        match text("ph") {
            "M" => match text("name") {
                "process_name" => assert!(event["args"]["name"].is_string(), "{event}"),
                "thread_name" => assert!(event["args"]["name"].is_string() && named_rows.insert(row), "{event}"),
                "thread_sort_index" => assert!(event["args"]["sort_index"].is_u64(), "{event}"),
                other => panic!("no such metadata: {other}"),
            },
            "X" => slices
                .entry(row)
                .or_default()
                .push((number_field(event, "ts"), number_field(event, "ts") + number_field(event, "dur"))),
            "i" => assert!(number_field(event, "ts") >= 0.0 && matches!(text("s"), "g" | "p" | "t"), "{event}"),
            "b" => {
                assert!(
                    open_copies.insert(format!("{}/{}", text("cat"), event["id"]), number_field(event, "ts")).is_none(),
                    "{event}"
                )
            }
            "e" => {
                let copy_count = open_copies
                    .remove(&format!("{}/{}", text("cat"), event["id"]))
                    .unwrap_or_else(|| panic!("it has not begun: {event}"));
                assert!(number_field(event, "ts") >= copy_count, "{event}");
            }
            other => panic!("no such phase: {other}"),
        }
        if text("ph") != "M" {
            used_rows.insert(row);
        }
    }
    assert!(open_copies.is_empty(), "these do not end: {open_copies:?}");
    assert!(used_rows.is_subset(&named_rows), "rows without a name: {:?}", used_rows.difference(&named_rows));
    // Slices of a row are nested or disjoint.
    for (row, mut slices) in slices {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut enclosing: Vec<f64> = Vec::new();
        for (start, end) in slices {
            while enclosing.last().is_some_and(|&last| last <= start + 1e-9) {
                enclosing.pop();
            }
            assert!(enclosing.last().is_none_or(|&last| end <= last + 1e-9), "slices of row {row:?} cross at {start}");
            enclosing.push(end);
        }
    }
}

#[test]
fn warps_engines_and_barriers_have_rows() {
    let events = trace_events();
    let rows: BTreeSet<&str> =
        events.iter().filter(|event| event["name"] == "thread_name").filter_map(|event| event["args"]["name"].as_str()).collect();
    for row in ["warp 0", "warp 1", "TMA", "mbarriers"] {
        assert!(rows.contains(row), "no row '{row}' in {rows:?}");
    }
    let copies = || events.iter().filter(|event| event["ph"] == "b");
    for name in copies().filter_map(|event| event["name"].as_str()) {
        assert!(name.starts_with("cp.async.bulk"), "a copy is called {name}");
    }
    let copy_count = copies().count();
    let ctas: BTreeSet<u64> = events.iter().filter_map(|event| event["pid"].as_u64()).collect();
    assert_eq!(copy_count, 3 * ctas.len(), "three copies in each block");
    let phases = events.iter().filter(|event| event["ph"] == "i").count();
    assert_eq!(phases, 3 * ctas.len(), "and three phases");
}
