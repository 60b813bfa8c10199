//! Writes a timeline in Chrome's trace format, which Perfetto reads. For each CTA, the timeline shows the warps with their stall
//! reasons and PTX lines, the engines, and the phases of the mbarriers.

use crate::engine::{ENGINES, Engine, Span, Statistics};
use crate::sample::Sample;
use perf_model::Machine;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The row (thread number of the trace) of the first engine. The row of a warp is its index.
const FIRST_ENGINE_ROW: usize = 100;
/// The row of all mbarriers of a CTA.
const BARRIER_ROW: usize = 200;
/// Maximum number of events in a trace. Trace viewers become unusable with more events.
const MAX_EVENTS: usize = 400_000;

/// Returns the trace as JSON. Times are in microseconds.
pub(crate) fn chrome_trace(sample: &Sample, machine: &Machine, statistics: &Statistics) -> String {
    let microseconds_per_cycle = 1.0 / machine.chip.clock;
    let line = |pc: u32| sample.program.code[pc as usize].line;
    let opcode = |pc: u32| sample.program.opcodes[sample.program.code[pc as usize].opcode as usize].clone();
    let event = |name: String, (cta, row): (usize, usize), start: f64, end: f64, args: Value| json!({"name": name, "ph": "X", "pid": cta, "tid": row, "ts": start * microseconds_per_cycle, "dur": (end - start) * microseconds_per_cycle, "args": args});
    let mut events: Vec<Value> = Vec::new();
    let mut rows: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut warps: BTreeMap<(usize, usize), Vec<&Span>> = BTreeMap::new();
    for span in &statistics.spans {
        match span.engine {
            // Several copies are in flight at once, but the viewer does not allow overlapping slices in one row. Asynchronous
            // events may overlap.
            Some(Engine::Copy) => {
                let track = (span.cta, FIRST_ENGINE_ROW + Engine::Copy as usize);
                rows.insert(track);
                let copy_id = events.len();
                let async_event = |ph: &str, time: f64| json!({"name": opcode(span.pc), "cat": "copies", "ph": ph, "id": copy_id, "pid": track.0, "tid": track.1, "ts": time * microseconds_per_cycle, "args": {"line": line(span.pc)}});
                events.extend([async_event("b", span.start), async_event("e", span.end)]);
            }
            Some(engine) => {
                let track = (span.cta, FIRST_ENGINE_ROW + engine as usize);
                rows.insert(track);
                events.push(event(opcode(span.pc), track, span.start, span.end, json!({"line": line(span.pc)})));
            }
            None => warps.entry((span.cta, span.warp)).or_default().push(span),
        }
    }
    for (&track, spans) in &warps {
        rows.insert(track);
        let mut last_span: Option<&Span> = None;
        for span in spans {
            if let Some(last) = last_span.filter(|last| span.start > last.end) {
                let name = format!("lines {} to {}", line(last.pc), line(span.pc));
                events.push(event(name, track, last.end, span.start, json!({"from": line(last.pc), "to": line(span.pc)})));
            }
            let args = json!({"line": line(span.pc), "instruction": opcode(span.pc)});
            events.push(event(format!("waits for {}", span.stall.name()), track, span.start, span.end, args));
            last_span = Some(span);
        }
    }
    for &(time, cta, address, phase) in &statistics.phases {
        let track = (cta, BARRIER_ROW);
        rows.insert(track);
        let name = format!("mbarrier {address:#x}, phase {phase}");
        events
            .push(json!({"name": name, "ph": "i", "s": "t", "pid": cta, "tid": BARRIER_ROW, "ts": time * microseconds_per_cycle}));
    }
    events.sort_by(|a, b| a["ts"].as_f64().unwrap_or(0.0).total_cmp(&b["ts"].as_f64().unwrap_or(0.0)));
    events.truncate(MAX_EVENTS);
    let mut trace_events: Vec<Value> = Vec::new();
    let ctas: BTreeSet<usize> = rows.iter().map(|track| track.0).collect();
    trace_events.extend(ctas.iter().map(|cta| {
        json!({"name": "process_name", "ph": "M", "pid": cta, "tid": 0, "args": {"name": format!("CTA {cta} of {}", sample.program.entry)}})
    }));
    trace_events.extend(rows.iter().map(|&(cta, row)| {
        let name = match row {
            BARRIER_ROW => "mbarriers".to_string(),
            FIRST_ENGINE_ROW.. => ENGINES[row - FIRST_ENGINE_ROW].1.to_string(),
            warp => format!("warp {warp}"),
        };
        json!({"name": "thread_name", "ph": "M", "pid": cta, "tid": row, "args": {"name": name}})
    }));
    trace_events.extend(
        rows.iter().map(
            |&(cta, row)| json!({"name": "thread_sort_index", "ph": "M", "pid": cta, "tid": row, "args": {"sort_index": row}}),
        ),
    );
    trace_events.extend(events);
    let trace = json!({"displayTimeUnit": "ns", "traceEvents": trace_events});
    serde_json::to_string(&trace).expect("a trace can be written") + "\n"
}
