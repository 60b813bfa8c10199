//! Selects the candidates of a search and evaluates them on several threads.

use crate::evaluation::Evaluator;
use crate::records::{Outcome, Record, Records};
use crate::space::Space;
use base::diag::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Strategy {
    Guided,
    Exhaustive,
}

/// A search and its results.
pub(crate) struct Search<'a> {
    pub(crate) evaluator: &'a Evaluator,
    pub(crate) records: Records,
    /// Maximum number of candidates.
    pub(crate) limit: usize,
    /// Whether the limit excluded candidates.
    pub(crate) is_cut_short: bool,
    /// The number of candidates that the search evaluates at the same time.
    pub(crate) jobs: usize,
    /// Receives a line for each evaluated candidate.
    pub(crate) progress: &'a dyn Fn(&str),
}

impl Search<'_> {
    /// Evaluates all combinations of option values, up to the limit.
    pub(crate) fn run_exhaustive(&mut self, space: &Space) -> Result<()> {
        self.evaluate(&space.all_candidates())
    }

    /// Coordinate descent: varies one option after the other from the best candidate so far, until a pass over all options finds no
    /// faster candidate.
    pub(crate) fn run_guided(&mut self, space: &Space) -> Result<()> {
        let mut best: Vec<String> = Vec::new();
        self.evaluate(&[best.clone()])?;
        loop {
            let previous_best = best.clone();
            for dimension in &space.dimensions {
                let variants = dimension.variants(&best);
                self.evaluate(&variants)?;
                let seconds = |options: &Vec<String>| self.records.seconds(options).unwrap_or(f64::INFINITY);
                for variant in variants {
                    if seconds(&variant) < seconds(&best) {
                        best = variant;
                    }
                }
            }
            if best == previous_best || self.records.len() >= self.limit {
                return Ok(());
            }
        }
    }

    /// Evaluates the candidates that have no record, until the number of records reaches the limit.
    fn evaluate(&mut self, candidates: &[Vec<String>]) -> Result<()> {
        let mut queue: VecDeque<Vec<String>> = VecDeque::new();
        for options in candidates {
            if self.records.outcome(options).is_none() && !queue.contains(options) {
                queue.push_back(options.clone());
            }
        }
        let remaining = self.limit.saturating_sub(self.records.len());
        self.is_cut_short |= queue.len() > remaining;
        queue.truncate(remaining);
        let (threads, queue) = (self.jobs.min(queue.len()), Mutex::new(queue));
        let (sender, results) = mpsc::channel::<Record>();
        let Search { evaluator, records, limit, progress, .. } = self;
        let evaluator: &Evaluator = evaluator;
        let shared_records = Mutex::new(records);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (sender, queue, shared_records) = (sender.clone(), &queue, &shared_records);
                scope.spawn(move || {
                    loop {
                        // This statement releases the lock, so that other threads take candidates during the evaluation.
                        let next = lock(queue).pop_front();
                        let Some(options) = next else { return };
                        let known_seconds = |ptx: &str| lock(shared_records).seconds_of_ptx(ptx);
                        let outcome = evaluator.evaluate(&options, known_seconds);
                        if sender.send(Record { options, outcome }).is_err() {
                            return; // The search has failed.
                        }
                    }
                });
            }
            drop(sender);
            for record in results {
                let mut records = lock(&shared_records);
                progress(&format!("{} of at most {limit}: {}", records.len() + 1, describe_record(&record)));
                records.add(record)?;
            }
            Ok(())
        })
    }
}

/// Locks a mutex, also after a panic of another thread.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}

/// Returns the progress line of an evaluated candidate.
fn describe_record(record: &Record) -> String {
    let options = if record.options.is_empty() { "no option".into() } else { record.options.join(" ") };
    match &record.outcome {
        Outcome::Predicted { seconds, .. } => format!("{options}: {:.2} us", seconds * 1e6),
        Outcome::Failed(failure) => format!("{options}: {}: {}", failure.kind.name(), failure.message),
    }
}
