//! Faults for a person, and the statistics that `tileworks run` summarises.
//!
//! A process writes its statistics to a file of its own in the folder `TILEWORKS_REPORT`, one JSON object per line: a launch total for
//! each kernel at the end of the process, and each fault or finding when it occurs.

use base::diag::{Diagnostic, Style};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
struct Total {
    launches: u64,
    failures: u64,
    time: Duration,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    kernels: BTreeMap<String, Total>,
    /// Entry points that the client called and that are not supported.
    unsupported: BTreeSet<String>,
    /// Findings that were printed; each is printed once.
    printed: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<State>);

impl Report {
    pub(crate) fn new(folder: Option<&Path>) -> Report {
        let path = folder.map(|folder| folder.join(format!("{}.jsonl", std::process::id())));
        let file = path.and_then(|path| File::options().create(true).append(true).open(path).ok());
        Report(Mutex::new(State { file, ..State::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn launched(&self, kernel: &str, time: Duration, failed: bool) {
        let mut state = self.state();
        let total = match state.kernels.get_mut(kernel) {
            Some(total) => total,
            None => state.kernels.entry(kernel.to_string()).or_default(),
        };
        total.launches += 1;
        total.failures += u64::from(failed);
        total.time += time;
    }

    /// Prints a fault of a launch.
    pub(crate) fn fault(&self, call: &str, name: &str, message: &str) {
        eprintln!("tileworks: {call}: {name}: {message}");
        self.state().write(json!({"fault": name, "call": call, "message": message}));
    }

    /// Prints a finding of a check, unless it was printed before.
    pub(crate) fn finding(&self, kernel: &str, finding: &Diagnostic) {
        let text = finding.render(Style::Human, |_| String::new());
        let mut state = self.state();
        if state.printed.insert(format!("{kernel}: {text}")) {
            eprint!("tileworks: kernel '{kernel}': {text}");
            state.write(json!({"finding": finding.code, "kernel": kernel, "message": text.trim_end()}));
        }
    }

    /// Names an entry point that is not supported, once.
    pub(crate) fn unsupported(&self, name: &str) {
        let mut state = self.state();
        if state.unsupported.insert(name.to_string()) {
            eprintln!("tileworks: {name} is not supported by the CPU device");
            state.write(json!({"unsupported": name}));
        }
    }

    /// Writes the totals of the process.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        for (kernel, total) in std::mem::take(&mut state.kernels) {
            let Total { launches, failures, time } = total;
            state.write(json!({"kernel": kernel, "launches": launches, "failures": failures, "seconds": time.as_secs_f64()}));
        }
    }
}

impl State {
    /// Statistics are a service: a full disk does not fail the program.
    fn write(&mut self, line: serde_json::Value) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}
