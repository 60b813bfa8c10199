//! Messages about faults on standard error, and the statistics that `tileworks run` summarises.
//!
//! Each process writes its statistics to its own file in the folder `TILEWORKS_REPORT`, with one JSON object per line. The process
//! writes each fault and each finding when it occurs. It also writes the number and the total time of the launches of each kernel.
//!
//! The process writes these totals at its end, and at each launch at least [`WRITE_INTERVAL`] after the previous totals. The totals
//! cover the launches since the previous totals. A process that ends with `_exit` loses only the last totals.

use base::diag::{Diagnostic, Style};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two writes of the totals at launches.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

/// The launches of a kernel since the last write of the totals.
#[derive(Debug, Default)]
struct KernelTotal {
    launches: u64,
    failures: u64,
    time: Duration,
}

/// The statistics file, the totals that are not yet in the file, and the messages that the process has printed.
#[derive(Debug, Default)]
struct ReportState {
    file: Option<File>,
    totals: BTreeMap<String, KernelTotal>,
    last_write: Option<Instant>,
    /// Unsupported entry points that the client has called. The driver reports each entry point once.
    unsupported_calls: BTreeSet<String>,
    /// Findings that the driver has printed. The driver prints each finding once.
    printed_findings: BTreeSet<String>,
}

/// The messages and the statistics of a process.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<ReportState>);

impl Report {
    /// Creates the statistics file in a folder. Without a folder, the process writes no statistics.
    pub(crate) fn new(folder: Option<&Path>) -> Report {
        let path = folder.map(|folder| folder.join(format!("{}.jsonl", std::process::id())));
        let file = path.and_then(|path| File::options().create(true).append(true).open(path).ok());
        Report(Mutex::new(ReportState { file, ..ReportState::default() }))
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, ReportState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a launch to the totals of its kernel.
    pub(crate) fn record_launch(&self, kernel: &str, time: Duration, failed: bool) {
        let mut state = self.state();
        let total = match state.totals.get_mut(kernel) {
            Some(total) => total,
            None => state.totals.entry(kernel.to_string()).or_default(),
        };
        total.launches += 1;
        total.failures += u64::from(failed);
        total.time += time;
        if state.file.is_some() && state.last_write.is_none_or(|last| last.elapsed() >= WRITE_INTERVAL) {
            state.write_totals();
        }
    }

    /// Prints the failure of a call, and writes it to the statistics.
    pub(crate) fn report_fault(&self, call: &str, name: &str, message: &str) {
        eprintln!("tileworks: {call}: {name}: {message}");
        self.state().write_line(json!({"fault": name, "call": call, "message": message}));
    }

    /// Prints a finding of a check, unless the process has already printed it.
    pub(crate) fn report_finding(&self, kernel: &str, finding: &Diagnostic) {
        let text = finding.render(Style::Human, |_| String::new());
        let mut state = self.state();
        if state.printed_findings.insert(format!("{kernel}: {text}")) {
            eprint!("tileworks: kernel '{kernel}': {text}");
            state.write_line(json!({"finding": finding.code, "kernel": kernel, "message": text.trim_end()}));
        }
    }

    /// Prints that an entry point is not supported, unless the process has already printed it.
    pub(crate) fn report_unsupported(&self, name: &str) {
        let mut state = self.state();
        if state.unsupported_calls.insert(name.to_string()) {
            eprintln!("tileworks: {name} is not supported by the CPU device");
            state.write_line(json!({"unsupported": name}));
        }
    }

    /// Writes the totals of the launches since the last write.
    pub(crate) fn write_totals(&self) {
        self.state().write_totals();
    }
}

impl ReportState {
    /// Writes the totals of the launches since the last call, and removes these totals.
    fn write_totals(&mut self) {
        self.last_write = Some(Instant::now());
        for (kernel, total) in std::mem::take(&mut self.totals) {
            let KernelTotal { launches, failures, time } = total;
            self.write_line(json!({"kernel": kernel, "launches": launches, "failures": failures, "seconds": time.as_secs_f64()}));
        }
    }

    /// Writes a line of the statistics. Ignores errors, because a full disk must not make the client fail.
    fn write_line(&mut self, line: serde_json::Value) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}
