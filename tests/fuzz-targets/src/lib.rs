//! Fuzz targets, which check properties of arbitrary inputs and panic if an input violates one. A reader must return a file or an
//! error. A written file must read back equal. The stages must compile every verified file, or report it as unsupported.
//!
//! `fuzz/` passes the targets to libFuzzer, with the inputs of `corpus/NAME` and [`Target::seeds`] as the corpus. The test of this
//! crate runs them on the same inputs and on edits of them ([`mutate`]).

pub mod mutate;
mod readers;
mod stages;

use mutate::Form;
use std::path::{Path, PathBuf};

/// A fuzz target: a function that checks an input, with seed inputs for it.
pub struct Target {
    pub name: &'static str,
    /// The form of the inputs, for [`mutate`].
    pub form: Form,
    /// Files of the repository that serve as seeds: a folder or file, and the suffix of the file names.
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

/// The maximum size of a seed input, in bytes. Larger seeds are skipped, because they slow down fuzzing.
pub const MAX_INPUT_BYTES: usize = 32 << 10;

impl Target {
    pub fn by_name(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The paths of the seed inputs and of the files in `corpus/NAME`, sorted.
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
