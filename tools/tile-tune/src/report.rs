//! Formats the results of a search as text.

use crate::evaluation::MeasuredCandidate;
use crate::records::Records;
use base::Target;
use base::diag::Diagnostic;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the longest bar, in characters.
const BAR_WIDTH: f64 = 40.0;

/// Returns the options of a candidate on one line.
fn options_text(options: &[String]) -> String {
    if options.is_empty() { "no option".into() } else { options.join(" ") }
}

/// Formats a time in microseconds.
fn microseconds(seconds: f64) -> String {
    format!("{:.2} us", seconds * 1e6)
}

/// Returns the ranking by predicted time with a bar for each candidate, and the number of failures of each kind.
pub(crate) fn predicted_table(records: &Records, rows: usize) -> String {
    let ranking = records.ranking();
    let default_seconds = records.seconds(&[]);
    let slowest_shown = ranking.iter().take(rows).map(|candidate| candidate.seconds).fold(0.0, f64::max);
    let mut text = format!("{} candidates, {} programs\n\n", records.len(), ranking.len());
    let _ = writeln!(text, "{:>14} {:>11}  options", "predicted", "of default");
    for candidate in ranking.iter().take(rows) {
        let ratio = default_seconds.map_or("-".into(), |seconds| format!("{:.3}", candidate.seconds / seconds));
        let bar = "#".repeat((candidate.seconds / slowest_shown * BAR_WIDTH).round() as usize);
        let _ = writeln!(
            text,
            "{:>14} {ratio:>11}  {}\n{:27} {bar}",
            microseconds(candidate.seconds),
            options_text(&candidate.options),
            ""
        );
    }
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    records.failures().for_each(|(_, failure)| *counts.entry(failure.kind).or_default() += 1);
    if !counts.is_empty() {
        let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        let _ = writeln!(text, "\nfailed: {}", counts.join(", "));
    }
    text
}

/// Returns the ranking by measured time.
pub(crate) fn measured_table(candidates: &[MeasuredCandidate]) -> String {
    let mut text = format!("{:>14} {:>14}  options\n", "measured", "predicted");
    for candidate in candidates {
        let (measured, predicted) = (microseconds(candidate.seconds), microseconds(candidate.predicted_seconds));
        let _ = writeln!(text, "{measured:>14} {predicted:>14}  {}", options_text(&candidate.options));
    }
    text
}

/// Returns the options of a candidate as a response file of `tileiras`.
pub(crate) fn response_file(target: Target, options: &[String]) -> String {
    let lines: Vec<String> = [format!("--gpu-name={}", target.name)].into_iter().chain(options.iter().cloned()).collect();
    lines.join("\n") + "\n"
}

/// Returns the error for a search in which every candidate failed.
pub(crate) fn no_candidate_error(records: &Records) -> Box<Diagnostic> {
    let mut error = Diagnostic::invalid("TUN006", "no candidate could be compiled and predicted");
    if let Some((options, failure)) = records.failures().next() {
        error = error.note(format!("{}: {}", options_text(options), failure.message));
    }
    error
}
