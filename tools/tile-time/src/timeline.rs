//! A timeline in Chrome's trace format, which Perfetto reads. For each CTA it has the warps with their stall reasons and PTX lines,
//! the engines, and the phases of the mbarriers.

use crate::engine::{ENGINES, Engine, Span, Statistics};
use crate::sample::Sample;
use perf_model::Machine;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// First row numbers of engines and mbarriers; the rows of warps come first.
const ENGINE_ROWS: usize = 100;
const BARRIER_ROW: usize = 200;
/// Trace viewers become unusable with more events.
const MAX_EVENTS: usize = 400_000;

/// The trace as JSON; times are microseconds on the machine.
pub(crate) fn trace(sample: &Sample, machine: &Machine, statistics: &Statistics) -> String {
    let scale = 1.0 / machine.chip.clock;
    let line = |pc: u32| sample.program.code[pc as usize].line;
    let opcode = |pc: u32| sample.program.names[sample.program.code[pc as usize].name as usize].clone();
    let event = |name: String, (cta, row): (usize, usize), start: f64, end: f64, args: Value| json!({"name": name, "ph": "X", "pid": cta, "tid": row, "ts": start * scale, "dur": (end - start) * scale, "args": args});
    let mut events: Vec<Value> = Vec::new();
    let mut rows: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut warps: BTreeMap<(usize, usize), Vec<&Span>> = BTreeMap::new();
    for span in &statistics.spans {
        match span.engine {
            // Several copies are in flight at once, but slices of one row must not cross.
            Some(Engine::Copy) => {
                let track = (span.cta, ENGINE_ROWS + Engine::Copy as usize);
                rows.insert(track);
                let number = events.len();
                let half = |ph: &str, time: f64| json!({"name": opcode(span.pc), "cat": "copies", "ph": ph, "id": number, "pid": track.0, "tid": track.1, "ts": time * scale, "args": {"line": line(span.pc)}});
                events.extend([half("b", span.start), half("e", span.end)]);
            }
            Some(engine) => {
                let track = (span.cta, ENGINE_ROWS + engine as usize);
                rows.insert(track);
                events.push(event(opcode(span.pc), track, span.start, span.end, json!({"line": line(span.pc)})));
            }
            None => warps.entry((span.cta, span.warp)).or_default().push(span),
        }
    }
    for (&track, spans) in &warps {
        rows.insert(track);
        let mut before: Option<&Span> = None;
        for span in spans {
            if let Some(last) = before.filter(|last| span.start > last.end) {
                let name = format!("lines {} to {}", line(last.pc), line(span.pc));
                events.push(event(name, track, last.end, span.start, json!({"from": line(last.pc), "to": line(span.pc)})));
            }
            let args = json!({"line": line(span.pc), "instruction": opcode(span.pc)});
            events.push(event(format!("waits for {}", span.stall.name()), track, span.start, span.end, args));
            before = Some(span);
        }
    }
    for &(time, cta, address, phase) in &statistics.phases {
        let track = (cta, BARRIER_ROW);
        rows.insert(track);
        let name = format!("mbarrier {address:#x}, phase {phase}");
        events.push(json!({"name": name, "ph": "i", "s": "t", "pid": cta, "tid": BARRIER_ROW, "ts": time * scale}));
    }
    events.sort_by(|a, b| a["ts"].as_f64().unwrap_or(0.0).total_cmp(&b["ts"].as_f64().unwrap_or(0.0)));
    events.truncate(MAX_EVENTS);
    let mut all: Vec<Value> = Vec::new();
    let ctas: BTreeSet<usize> = rows.iter().map(|track| track.0).collect();
    all.extend(ctas.iter().map(|cta| {
        json!({"name": "process_name", "ph": "M", "pid": cta, "tid": 0, "args": {"name": format!("CTA {cta} of {}", sample.program.entry)}})
    }));
    all.extend(rows.iter().map(|&(cta, row)| {
        let name = match row {
            BARRIER_ROW => "mbarriers".to_string(),
            ENGINE_ROWS.. => ENGINES[row - ENGINE_ROWS].1.to_string(),
            warp => format!("warp {warp}"),
        };
        json!({"name": "thread_name", "ph": "M", "pid": cta, "tid": row, "args": {"name": name}})
    }));
    all.extend(
        rows.iter().map(
            |&(cta, row)| json!({"name": "thread_sort_index", "ph": "M", "pid": cta, "tid": row, "args": {"sort_index": row}}),
        ),
    );
    all.extend(events);
    let trace = json!({"displayTimeUnit": "ns", "traceEvents": all});
    serde_json::to_string(&trace).expect("a trace can be written") + "\n"
}
