//! Implements `--schedule-trace`, which writes the schedules as a Chrome trace.
//!
//! In the trace, each loop is a process, and each resource is a thread of that process. Each op is an event in every traced
//! iteration. One microsecond of the trace is one cycle.

use crate::for_loops::for_loops;
use crate::graph::Graph;
use crate::resource_model::{Machine, Resource};
use base::File;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use sched::{Module, Phase};
use std::fmt::Write;

/// Number of iterations in the trace, enough for the overlap to reach its steady state.
const TRACED_ITERATIONS: i64 = 6;

/// Returns the Chrome trace, in JSON, of a file's schedules. Fails if the schedules are already applied.
pub fn trace(file: &File<Module>) -> Result<String> {
    if Phase::from_envelope(&file.envelope).is_some_and(Phase::has_pipelined_loops) {
        return Err(Diagnostic::invalid("SC121", "no trace: the schedules of the file are already applied"));
    }
    let machine = Machine::for_target(file.envelope.target()?);
    let mut events = Vec::new();
    for (process, schedule) in file.payload.schedules.iter().enumerate() {
        let function = file.payload.functions.iter().find(|function| function.name == schedule.function);
        let scheduled_loop = function.and_then(|function| Some((function, *for_loops(function).get(schedule.index as usize)?)));
        let Some((function, for_op)) = scheduled_loop else { continue };
        let graph = Graph::build(&file.payload, function, for_op, &machine)
            .map_err(|reason| Diagnostic::invalid("SC121", format!("no trace of loop {}: {reason}", schedule.index)))?;
        let name = format!("{} loop {}, interval {}", schedule.function, schedule.index, schedule.interval);
        events.push(metadata_event("process_name", process, 0, &name));
        for (thread, resource) in Resource::ALL.into_iter().enumerate() {
            events.push(metadata_event("thread_name", process, thread, resource.name()));
        }
        for iteration in 0..TRACED_ITERATIONS {
            for (node, entry) in graph.nodes.iter().zip(&schedule.entries) {
                let start = schedule.start(entry) + iteration * i64::from(schedule.interval);
                let op = function.body.ops[node.op].kind.mnemonic();
                for (thread, resource) in Resource::ALL.into_iter().enumerate() {
                    if let Some(cycles) = node.cost.uses.get(&resource) {
                        events.push(format!(
                            r#"{{"name":"{op} {} of {iteration}","ph":"X","pid":{process},"tid":{thread},"ts":{start},"dur":{cycles}}}"#,
                            entry.op
                        ));
                    }
                }
            }
        }
    }
    Ok(format!("[\n{}\n]\n", events.join(",\n")))
}

/// Returns the event that names a process or a thread of the trace.
fn metadata_event(kind: &str, process: usize, thread: usize, name: &str) -> String {
    let name = json_string(name);
    format!(r#"{{"name":"{kind}","ph":"M","pid":{process},"tid":{thread},"args":{{"name":{name}}}}}"#)
}

/// Quotes a text as a JSON string.
fn json_string(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("strings take writes"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
