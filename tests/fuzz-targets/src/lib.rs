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

/// A property of all inputs of one kind, with seed inputs.
pub struct Target {
    pub name: &'static str,
    /// The form of the inputs, for [`mutate`].
    pub form: Form,
    /// Seed files of the repository: folders, and the suffix of file names in them.
    pub seeds: &'static [(&'static str, &'static str)],
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, form: Form, seeds: &'static [(&'static str, &'static str)], run: fn(&[u8])) -> Target {
    Target { name, form, seeds, run }
}

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    target("bytecode", Form::Bytes, &[("tests/run", "tileirbc")], readers::check_bytecode),
    target("library", Form::Bytes, &[("tests/run", "tileirbc")], stages::check_library),
    target("text", Form::Lines, &[("tests/fault-injection", "tileir"), ("formats/tileir/tests/programs", "")], readers::check_text),
    target("tile", Form::Stage, &[("tests/run", "tile")], stages::check_tile),
    target("aa", Form::Stage, &[], stages::check_aa),
    target("as", Form::Stage, &[("formats/tileas/tests", "as")], stages::check_as),
    target("sched", Form::Stage, &[("formats/sched/tests", "sched")], stages::check_sched),
    target("ptx", Form::Lines, &[("formats/ptx/tests", "ptx"), ("tools/lib/simulator/tests/seeds", "ptx")], readers::check_ptx),
    target("cubin", Form::Bytes, &[], readers::check_cubin),
    target("launch", Form::Lines, &[("tests/run", "launch.json")], readers::check_launch),
    target("machine", Form::Lines, &[("machines", "toml")], readers::check_machine),
    target("pipeline", Form::Lines, &[("pipeline.toml", "")], readers::check_pipeline),
    target("words", Form::Lines, &[], readers::check_response_file),
];

/// Maximum size of an input. Larger inputs only cost time.
pub const MAX_INPUT_BYTES: usize = 32 << 10;

impl Target {
    pub fn by_name(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The seed inputs, in the order of their paths.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let corpus = (format!("tests/fuzz-targets/corpus/{}", self.name), "");
        let folders = self.seeds.iter().map(|(folder, suffix)| (folder.to_string(), *suffix)).chain([corpus]);
        let mut paths: Vec<PathBuf> = folders.flat_map(|(folder, suffix)| files_with_suffix(&root.join(folder), suffix)).collect();
        paths.retain(|path| std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_INPUT_BYTES as u64));
        paths.sort();
        paths
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
