//! Properties of any input: a reader returns a file or an error, a file reads back equal, and the stages compile every verified
//! file or report it as unsupported. A target panics if a property is violated.
//!
//! `fuzz/` passes the targets to libFuzzer, with the inputs of `corpus/NAME` and [`Target::seeds`] as the corpus. The test of this
//! crate runs them on the same inputs and on edits of them ([`mutate`]).

pub mod mutate;
mod readers;
mod stages;

use mutate::Form;
use std::path::{Path, PathBuf};

pub struct Target {
    pub name: &'static str,
    /// The form of its inputs, for [`mutate`].
    pub form: Form,
    /// Seed files of the repository: folders, and the suffix of file names in them.
    pub seeds: &'static [(&'static str, &'static str)],
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, form: Form, seeds: &'static [(&'static str, &'static str)], run: fn(&[u8])) -> Target {
    Target { name, form, seeds, run }
}

pub const TARGETS: &[Target] = &[
    target("bytecode", Form::Bytes, &[("tests/run", "tileirbc")], readers::bytecode),
    target("text", Form::Lines, &[("tests/fault-injection", "tileir"), ("formats/tileir/tests/programs", "")], readers::text),
    target("tile", Form::Stage, &[("tests/run", "tile")], stages::tile),
    target("aa", Form::Stage, &[], stages::aa),
    target("as", Form::Stage, &[("formats/tileas/tests", "as")], stages::atoms),
    target("sched", Form::Stage, &[("formats/sched/tests", "sched")], stages::sched),
    target("ptx", Form::Lines, &[("formats/ptx/tests", "ptx"), ("tools/lib/simulator/tests/seeds", "ptx")], readers::ptx),
    target("cubin", Form::Bytes, &[], readers::cubin),
    target("launch", Form::Lines, &[("tests/run", "launch.json")], readers::launch),
    target("machine", Form::Lines, &[("machines", "toml")], readers::machine),
    target("pipeline", Form::Lines, &[("pipeline.toml", "")], readers::pipeline),
    target("words", Form::Lines, &[], readers::words),
];

/// Larger inputs only cost time.
pub const MOST_BYTES: usize = 32 << 10;

impl Target {
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The seed inputs, in the order of their paths.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let corpus = (format!("tests/fuzz-targets/corpus/{}", self.name), "");
        let folders = self.seeds.iter().map(|(folder, suffix)| (folder.to_string(), *suffix)).chain([corpus]);
        let mut found: Vec<PathBuf> = folders.flat_map(|(folder, suffix)| files_with_suffix(&root.join(folder), suffix)).collect();
        found.retain(|path| std::fs::metadata(path).is_ok_and(|data| data.len() <= MOST_BYTES as u64));
        found.sort();
        found
    }
}

fn files_with_suffix(path: &Path, suffix: &str) -> Vec<PathBuf> {
    if path.is_dir() {
        return std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|entry| files_with_suffix(&entry.path(), suffix))
            .collect();
    }
    let matches = path.to_string_lossy().ends_with(suffix) && path.exists();
    matches.then(|| path.to_path_buf()).into_iter().collect()
}
