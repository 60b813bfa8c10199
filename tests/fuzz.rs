//! Random programs, the same in every run: the output of every stage and the PTX compute what the program means. `tile-fuzz` tests
//! other seeds.

use tests::{run, temporary_folder, tool_names};

fn check_random_programs(arguments: &[&str]) {
    // `tile-fuzz` starts the tools next to it; first check that all of them exist and are up to date.
    tool_names().iter().for_each(|name| _ = tests::tool(name));
    let folder = temporary_folder();
    let folder = folder.path().display().to_string();
    let ran = run("tile-fuzz", &[&["--dir", &folder], arguments].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
}

#[test]
fn random_programs_compute_the_same_at_every_stage() {
    check_random_programs(&["--seed=1", "--count=150"]);
}

#[test]
fn loops_with_memory_dependences_compute_the_same_at_every_stage() {
    check_random_programs(&["--seed=1", "--count=100", "--theme=loops"]);
}

#[test]
fn random_matmuls_compute_the_same_at_every_stage() {
    check_random_programs(&["--seed=1", "--count=50", "--theme=mma"]);
}

#[test]
fn matmuls_on_loaded_rows_compute_the_same_at_every_stage() {
    check_random_programs(&["--seed=1", "--count=50", "--theme=ragged", "--targets=sm_80,sm_90,sm_100,sm_120"]);
}
