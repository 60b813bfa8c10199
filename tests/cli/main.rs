//! The command lines: conventions of every tool, and the driver against NVIDIA's.

mod ahead_of_time;
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
mod library;
mod optimisation_effects;
mod probes;
mod producer;
mod reported_faults;
mod resources;
mod scripts;
mod sweeps;
mod tensor_maps;
mod tune;
mod unrolling;
mod validate;
mod view;

use std::path::Path;
use std::process::ExitCode;
use tests::need::Need;
use tests::suite::Suite;
use tests::{root, run, shell, tool};

/// The path of a small kernel's bytecode.
fn bytecode_path() -> String {
    root().join("tests/run/vadd/kernel.tileirbc").display().to_string()
}

/// Panics if the driver or a stage is missing or stale.
fn check_stages_are_current() {
    for name in ["tileiras", "tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-link"] {
        tool(name);
    }
}

/// Writes the files of all stages of this kernel, for sm_90, to `folder`.
fn make_stage_files(folder: &Path) {
    let line = format!(
        "set -e; tile-read '{}' -o k.tile; tile-lower-aa k.tile -o k.aa; tile-lower-as --gpu-name sm_90 k.aa -o k.as; \
         tile-sched k.as -o k.sched; tile-ptx k.sched -o k.ptx",
        bytecode_path()
    );
    for tool in ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx"] {
        run(tool, &["--version"], b"").ok(tool);
    }
    shell(folder, &line).ok("making the stage files");
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let clients = &[Need::Clients, Need::Ptxas];
    suite.functions_with(&[Need::Ptxas], "ahead_of_time/", ahead_of_time::TESTS);
    suite.functions_with(clients, "book/", book::TESTS);
    suite.functions_with(clients, "builds/", builds::TESTS);
    suite.functions("check_bounds/", check_bounds::TESTS);
    suite.functions_with(clients, "clients/", clients::TESTS);
    suite.functions("conventions/", conventions::TESTS);
    suite.functions_with(&[Need::DebugTools], "crash_directories/", crash_directories::DEBUG_TESTS);
    suite.functions("crash_directories/", crash_directories::TESTS);
    suite.functions_with(clients, "debug/", debug::TESTS);
    suite.functions("driver/", driver::TESTS);
    suite.functions("environment/", environment::TESTS);
    suite.functions("gpu/", gpu::TESTS);
    suite.functions("host_objects/", host_objects::TESTS);
    suite.functions("launches/", launches::TESTS);
    suite.functions_with(clients, "library/", library::TESTS);
    suite.functions_with(clients, "optimisation_effects/", optimisation_effects::TESTS);
    suite.functions("probes/", probes::TESTS);
    suite.functions("producer/", producer::TESTS);
    suite.functions_with(&[Need::Ptxas], "resources/", resources::TESTS);
    suite.functions("scripts/", scripts::TESTS);
    suite.functions("sweeps/", sweeps::TESTS);
    suite.functions("tensor_maps/", tensor_maps::TESTS);
    suite.functions("tune/", tune::TESTS);
    suite.functions_with(&[Need::Ptxas], "unrolling/", unrolling::TESTS);
    suite.functions("validate/", validate::TESTS);
    suite.functions("view/", view::TESTS);
    book::add(&mut suite);
    probes::add(&mut suite);
    reported_faults::add(&mut suite);
    suite.run()
}
