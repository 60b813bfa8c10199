//! Sets `SOURCE_HASH` for the build: a hash of all sources that affect the generated code. The driver's `--version` prints it.

use std::path::{Path, PathBuf};

/// Prints the Cargo instruction that sets `SOURCE_HASH`. The package must be two folders below the root of the workspace.
pub(crate) fn emit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for path in ["formats", "tools", "Cargo.toml", "Cargo.lock", "pipeline.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
        collect_files(&root.join(path), &mut files);
    }
    files.sort();
    // FNV-1a: the hash identifies a build and has no security purpose.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for file in files {
        for byte in std::fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=SOURCE_HASH={hash:016x}");
}

/// Adds all files below `path` to `files`, except files in folders named `target`.
fn collect_files(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect_files(&entry.path(), files));
    } else if path.is_file() {
        files.push(path.to_path_buf());
    }
}
