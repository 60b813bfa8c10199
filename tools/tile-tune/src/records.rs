//! The results of a search: in memory, and in the file of `--results`.
//!
//! The first line of the file identifies the search: kernel, launch, target and GPU. Each further line is the record of a
//! candidate. The search appends a line when it has evaluated a candidate, so after an interruption only the last line can be
//! incomplete.
//! [`Records::open`] drops an incomplete line.

use base::Target;
use base::diag::{Diagnostic, Result};
use common::plan_file::kernel_digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Identifies the search to which a file of results belongs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Version of the tools.
    version: String,
    /// Digest of the bytecode.
    kernel: String,
    /// Digest of the launch description.
    launch: String,
    target: String,
    gpu: Option<String>,
    /// The options that all candidates have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fixed: Vec<String>,
}

impl Identity {
    /// Computes the identity from the contents of the kernel and launch files, and from the options of the search.
    pub(crate) fn new(kernel: &[u8], launch: &[u8], target: Target, gpu: Option<&str>, fixed: &[String]) -> Identity {
        Identity {
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: kernel_digest(kernel),
            launch: blake3::hash(launch).to_hex()[..16].to_string(),
            target: target.name.into(),
            gpu: gpu.map(String::from),
            fixed: fixed.to_vec(),
        }
    }

    /// Returns the digest of the bytecode.
    pub(crate) fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns the name of the first property that differs, for a message.
    fn first_difference(&self, other: &Identity) -> Option<&'static str> {
        let properties = [
            ("kernel", self.kernel == other.kernel),
            ("launch", self.launch == other.launch),
            ("target", self.target == other.target),
            ("GPU", self.gpu == other.gpu),
            ("value of --with", self.fixed == other.fixed),
            ("version of the tools", self.version == other.version),
        ];
        properties.into_iter().find(|(_, is_equal)| !is_equal).map(|(name, _)| name)
    }
}

/// The reason why a candidate has no predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The buffers exceed the shared memory of a CTA.
    SharedMemory,
    /// An option cannot be applied to this kernel and target.
    Option,
    /// The target has no instruction for an op, or a stage does not support it.
    Unsupported,
    /// A step took longer than `--step-time`.
    TimeLimit,
    /// Any other error of a tool.
    Error,
}

impl FailureKind {
    /// Returns the name of the failure kind for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FailureKind::SharedMemory => "shared memory",
            FailureKind::Option => "option not applicable",
            FailureKind::Unsupported => "unsupported",
            FailureKind::TimeLimit => "time limit",
            FailureKind::Error => "error",
        }
    }
}

/// The reason why a candidate failed, with the code and message of the tool's diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

/// The result of the evaluation of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The predicted time, and the digest of the PTX without comments. Candidates with the same digest are the same program.
    Predicted {
        seconds: f64,
        ptx: String,
    },
    Failed(Failure),
}

/// A candidate and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The options of the candidate.
    pub(crate) options: Vec<String>,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// A candidate with its predicted time.
pub(crate) struct RankedCandidate {
    pub(crate) options: Vec<String>,
    pub(crate) seconds: f64,
}

/// All records of a search, and the file that stores them.
pub(crate) struct Records {
    /// The result of each candidate, by its sorted options.
    outcomes: BTreeMap<Vec<String>, Outcome>,
    /// The file of `--results`; `None` without this option.
    file: Option<File>,
}

/// Returns the key of a candidate: its options, sorted because the order of options does not matter.
fn options_key(options: &[String]) -> Vec<String> {
    let mut sorted = options.to_vec();
    sorted.sort();
    sorted
}

impl Records {
    /// Opens or creates the file of a search.
    pub(crate) fn open(path: Option<&Path>, identity: &Identity) -> Result<Records> {
        let mut records = Records { outcomes: BTreeMap::new(), file: None };
        let Some(path) = path else { return Ok(records) };
        let failed = |error: std::io::Error| {
            Diagnostic::io("TUN001", format!("cannot open {}: {}", path.display(), common::os_error_text(&error)))
        };
        let text = if path.exists() {
            let bytes = common::read_file(Some(path))?.bytes;
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            String::new()
        };
        let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        records
            .read(complete, identity)
            .map_err(|message| Diagnostic::usage("TUN004", format!("{}: {message}", path.display())))?;
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        // Drop the incomplete last line of an interrupted search.
        file.set_len(complete.len() as u64).map_err(failed)?;
        if complete.is_empty() {
            writeln!(file, "{}", json_line(identity)).map_err(failed)?;
        }
        records.file = Some(file);
        Ok(records)
    }

    /// Reads the complete lines of a results file. Fails if the file belongs to another search.
    fn read(&mut self, text: &str, identity: &Identity) -> std::result::Result<(), String> {
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return Ok(()) };
        let file_identity: Identity =
            serde_json::from_str(first).map_err(|_| "this is not a file of results of tile-tune".to_string())?;
        if let Some(property) = identity.first_difference(&file_identity) {
            return Err(format!("these are results for another {property}; name another file, or delete this one"));
        }
        for (index, line) in lines.enumerate() {
            let record: Record = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 2))?;
            self.outcomes.insert(options_key(&record.options), record.outcome);
        }
        Ok(())
    }

    /// Adds a record, and appends it to the file.
    pub(crate) fn add(&mut self, record: Record) -> Result<()> {
        if let Some(file) = &mut self.file {
            let written = writeln!(file, "{}", json_line(&record)).and_then(|()| file.flush());
            written
                .map_err(|error| Diagnostic::io("TUN001", format!("cannot write results: {}", common::os_error_text(&error))))?;
        }
        self.outcomes.insert(options_key(&record.options), record.outcome);
        Ok(())
    }

    /// Returns the number of candidates with a record.
    pub(crate) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns the recorded prediction or failure of the candidate with these options, in any order; `None` without a record.
    pub(crate) fn outcome(&self, options: &[String]) -> Option<&Outcome> {
        self.outcomes.get(&options_key(options))
    }

    /// Returns the predicted time of a candidate in seconds; `None` if it failed or has no record.
    pub(crate) fn seconds(&self, options: &[String]) -> Option<f64> {
        match self.outcome(options)? {
            Outcome::Predicted { seconds, .. } => Some(*seconds),
            Outcome::Failed(_) => None,
        }
    }

    /// Returns the predicted time in seconds of the PTX with a digest; `None` if no candidate compiled to this PTX.
    pub(crate) fn seconds_of_ptx(&self, digest: &str) -> Option<f64> {
        self.outcomes.values().find_map(|outcome| match outcome {
            Outcome::Predicted { seconds, ptx } if ptx == digest => Some(*seconds),
            _ => None,
        })
    }

    /// Returns the candidates in order of predicted time. If several candidates compiled to the same PTX, the ranking contains only
    /// the candidate with the fewest options.
    pub(crate) fn ranking(&self) -> Vec<RankedCandidate> {
        let mut shortest: BTreeMap<&str, (&Vec<String>, f64)> = BTreeMap::new();
        for (options, outcome) in &self.outcomes {
            if let Outcome::Predicted { seconds, ptx } = outcome
                && shortest.get(ptx.as_str()).is_none_or(|(other, _)| options.len() < other.len())
            {
                shortest.insert(ptx, (options, *seconds));
            }
        }
        let mut ranking: Vec<RankedCandidate> =
            shortest.into_values().map(|(options, seconds)| RankedCandidate { options: options.clone(), seconds }).collect();
        ranking.sort_by(|first, second| first.seconds.total_cmp(&second.seconds).then_with(|| first.options.cmp(&second.options)));
        ranking
    }

    /// Returns the failed candidates, in the order of their options.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&[String], &Failure)> {
        self.outcomes.iter().filter_map(|(options, outcome)| match outcome {
            Outcome::Failed(failure) => Some((options.as_slice(), failure)),
            Outcome::Predicted { .. } => None,
        })
    }
}

/// Returns a value as one line of JSON.
fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers")
}
