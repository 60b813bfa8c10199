//! The command lines: conventions of every tool, and the driver against NVIDIA's.

mod book;
mod builds;
mod check_bounds;
mod clients;
mod conventions;
mod crash_directories;
mod debug;
mod driver;
mod environment;
mod gpu;
mod host_objects;
mod launches;
mod optimisation_effects;
mod probes;
mod producer;
mod reported_faults;
mod scripts;
mod sweeps;
mod tensor_maps;
mod validate;
mod view;

use std::path::Path;
use tests::{root, run, shell, tool};

/// A small kernel's bytecode.
fn bytecode() -> String {
    root().join("tests/run/vadd/kernel.tileirbc").display().to_string()
}

/// The driver and its stages; the build must be up to date.
fn need_stages() {
    for name in ["tileiras", "tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-link"] {
        tool(name);
    }
}

/// The files of all stages for this kernel, in `folder`, for sm_90.
fn make_stage_files(folder: &Path) {
    let line = format!(
        "set -e; tile-read '{}' -o k.tile; tile-lower-aa k.tile -o k.aa; tile-lower-as --gpu-name sm_90 k.aa -o k.as; \
         tile-sched k.as -o k.sched; tile-ptx k.sched -o k.ptx",
        bytecode()
    );
    for tool in ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx"] {
        run(tool, &["--version"], b"").ok(tool);
    }
    shell(folder, &line).ok("making the stage files");
}
