//! Plan files: the options of `tileiras` that a search found for kernels and targets.
//!
//! `tile-tune --plan FILE` adds the entry of a kernel and target, or replaces it. `tileiras --plan FILE` compiles a kernel with the
//! options of its entry. The file is JSON, so a person or a script can edit it:
//!
//! ```json
//! {"plans": [{"kernel": "9f86d081884c7d65", "target": "sm_90", "options": ["--warps=8", "--stages=3"], "predicted_us": 31.9}]}
//! ```

use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Options that override compiler decisions. A plan has no other options. `tileiras --validate` forwards them, so it executes the
/// same code that is compiled.
pub const DECISION_OPTIONS: &[&str] = &[
    "warps",
    "occupancy",
    "cluster",
    "clc",
    "split-m",
    "mma",
    "tma",
    "prefetch",
    "stages",
    "roles",
    "overlap",
    "multicast",
    "cta-pairs",
];

/// The options for one kernel and target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedKernel {
    /// The digest of the bytecode ([`kernel_digest`]).
    pub kernel: String,
    pub target: String,
    pub options: Vec<String>,
    /// The predicted time in microseconds, for people who read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
}

/// The content of a plan file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    plans: Vec<TunedKernel>,
}

impl PlanFile {
    /// Reads a plan file and checks that its options override decisions.
    pub fn read(path: &Path) -> Result<PlanFile> {
        PlanFile::parse(&crate::read_file(Some(path))?.bytes, &path.display().to_string())
    }

    /// Parses the text of a plan file. `name` is for messages.
    pub fn parse(text: &[u8], name: &str) -> Result<PlanFile> {
        let wrong = |why: String| Diagnostic::invalid("OPT004", format!("plan file '{name}': {why}"));
        let file: PlanFile = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        match file.plans.iter().flat_map(|plan| &plan.options).find(|option| decision(option).is_none()) {
            Some(option) => Err(wrong(format!("'{option}' does not override a decision of the compiler, as --warps=8 does"))),
            None => Ok(file),
        }
    }

    /// Returns the entry of a kernel and target.
    pub fn find(&self, kernel: &str, target: &str) -> Option<&TunedKernel> {
        self.plans.iter().find(|plan| plan.kernel == kernel && plan.target == target)
    }

    /// Adds an entry, or replaces the entry of the same kernel and target.
    pub fn set(&mut self, entry: TunedKernel) {
        match self.plans.iter_mut().find(|plan| plan.kernel == entry.kernel && plan.target == entry.target) {
            Some(plan) => *plan = entry,
            None => self.plans.push(entry),
        }
    }

    /// Returns the content as text. Each entry is one line.
    pub fn to_text(&self) -> String {
        let line = |plan| serde_json::to_string(plan).expect("strings and numbers");
        let lines: Vec<String> = self.plans.iter().map(line).collect();
        format!("{{\"plans\": [\n{}\n]}}\n", lines.join(",\n"))
    }
}

/// Returns the digest by which plan files name a kernel.
pub fn kernel_digest(bytecode: &[u8]) -> String {
    blake3::hash(bytecode).to_hex()[..16].to_string()
}

/// Returns the name and the value of an option that overrides a decision: of `--warps=8`, `warps` and `8`.
pub fn decision(option: &str) -> Option<(&'static str, &str)> {
    let (name, value) = option.strip_prefix("--")?.split_once('=')?;
    Some((DECISION_OPTIONS.iter().find(|known| **known == name)?, value))
}

#[cfg(test)]
mod tests {
    use super::{PlanFile, TunedKernel, decision};

    fn entry(kernel: &str, option: &str) -> TunedKernel {
        TunedKernel { kernel: kernel.into(), target: "sm_90".into(), options: vec![option.into()], predicted_us: None }
    }

    #[test]
    fn an_entry_replaces_the_one_of_its_kernel_and_target() {
        let mut file = PlanFile::default();
        for entry in [entry("a", "--warps=4"), entry("b", "--tma=off"), entry("a", "--warps=8")] {
            file.set(entry);
        }
        assert_eq!(file.find("a", "sm_90"), Some(&entry("a", "--warps=8")));
        assert_eq!(file.find("a", "sm_80"), None);
        assert_eq!(serde_json::from_str::<PlanFile>(&file.to_text()).unwrap(), file);
    }

    #[test]
    fn a_plan_has_only_options_that_override_decisions() {
        assert_eq!(decision("--warps=8"), Some(("warps", "8")));
        for other in ["--output-file=x", "--warps", "warps=8", "@more.rsp", "-O3"] {
            assert_eq!(decision(other), None, "{other}");
        }
        let text = br#"{"plans": [{"kernel": "a", "target": "sm_90", "options": ["--output-file=x"]}]}"#;
        let error = PlanFile::parse(text, "plans.json").unwrap_err();
        assert!(error.message.contains("'--output-file=x' does not override a decision"), "{}", error.message);
    }
}
