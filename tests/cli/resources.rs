//! Kernels that exceed a resource: the texts that Triton parses, and the field `resource` of JSON diagnostics.

use crate::driver::{COPY_AND_APPEND_COMMAND_LINE, folder_with_stub_stages, run_driver};
use serde_json::{Value, json};
use tests::{RunResult, root, run, shell, temporary_folder};

/// The resource of the only diagnostic with one.
fn resource_of(ran: &RunResult) -> Value {
    let diagnostics = ran.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut resources = diagnostics.filter_map(|diagnostic| diagnostic.get("resource").cloned());
    let resource = resources.next().unwrap_or_else(|| panic!("no resource: {}", ran.stderr));
    assert_eq!(resources.next(), None);
    resource
}

/// A kernel for sm_100 with 300000 bytes of shared memory.
const LARGE_PTX: &str = ".version 9.0\n.target sm_100a\n.address_size 64\n.shared .align 16 .b8 big[300000];\n\
    .visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, big;\nst.shared.u32 [%r1], %r1;\nret;\n}\n";

fn shared_memory_that_ptxas_refuses() {
    let ran = run("tile-link", &["--error-format=json", "-", "-o", "/dev/null"], LARGE_PTX.as_bytes());
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert_eq!(resource_of(&ran), json!({ "kind": "shared-memory", "needed": 300_000, "available": 232_448 }));
    let ran = run("tile-link", &["--error-format=reference", "-", "-o", "/dev/null"], LARGE_PTX.as_bytes());
    assert!(ran.stderr.contains("uses too much shared data (0x493e0 bytes, 0x38c00 max)"), "{}", ran.stderr);
}

/// The `.as` file of a matmul with tiles of 128x64 and 64x128 elements. `lower` has the options of `tile-lower-as`, and edits.
fn large_matmul(lower: &str) -> Vec<u8> {
    let folder = temporary_folder();
    let commands = format!(
        "set -e; tile-read '{}' --format=text | sed 's/32x16/128x64/g; s/16x32/64x128/g; s/32x32/128x128/g' | tile-lower-aa \
         | tile-lower-as --format=text {lower} > k.as",
        root().join("tests/run/matmul_f16/kernel.tileirbc").display()
    );
    shell(folder.path(), &commands).ok("the file");
    std::fs::read(folder.path().join("k.as")).unwrap()
}

/// Eight stages of 32 KiB exceed the shared memory of a CTA. The option that requests them is the hint.
fn requested_stages_that_do_not_fit() {
    let input = large_matmul("--gpu-name sm_90 --tma=on -");
    let ran = run("tile-sched", &["--stages=8", "--error-format=json", "-", "-o", "/dev/null"], &input);
    let resource = resource_of(&ran);
    assert_eq!((&resource["kind"], &resource["hint"]), (&json!("shared-memory"), &json!("stages=8")));
    assert!(resource["needed"].as_u64() >= Some(8 << 15) && resource["available"] == 232_448, "{resource}");
    let ran = run("tile-sched", &["--stages=8", "--error-format=reference", "-", "-o", "/dev/null"], &input);
    assert!(ran.stderr.contains("uses too much shared data (0x") && ran.stderr.contains(" bytes, 0x38c00 max)"), "{}", ran.stderr);
}

/// An edited file has five accumulators of 128 columns.
fn tensor_memory_that_tile_sched_refuses() {
    let input = large_matmul("--gpu-name sm_100 --mma=tcgen05 - | sed -e '/space: tensor/h' -e '/buffer 3$/{G;G;G;G}'");
    let ran = run("tile-sched", &["--error-format=json", "-", "-o", "/dev/null"], &input);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert_eq!(resource_of(&ran), json!({ "kind": "tensor-memory", "needed": 1024, "available": 512 }));
    let ran = run("tile-sched", &["--error-format=reference", "-", "-o", "/dev/null"], &input);
    assert!(ran.stderr.contains("allocated tmem out of resource: 1024 vs 512"), "{}", ran.stderr);
}

fn the_driver_forwards_resources() {
    let diagnostic = r#"{"severity":"error","kind":"unsupported","code":"SC100","message":"'k' uses too much shared data (0x493e0 bytes, 0x38c00 max)","place":null,"notes":[],"resource":{"kind":"shared-memory","needed":300000,"available":232448,"hint":"stages=8"}}"#;
    let folder = folder_with_stub_stages(&format!(
        "[ $name = tile-sched ] && {{ cat > /dev/null; echo '{}' >&2; exit 3; }}\n{COPY_AND_APPEND_COMMAND_LINE}",
        diagnostic.replace('\'', r"'\''")
    ));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name=sm_90", "--error-format=json", "-o", "out"]);
    assert_eq!(resource_of(&ran), json!({ "kind": "shared-memory", "needed": 300_000, "available": 232_448, "hint": "stages=8" }));
    let ran = run_driver(folder.path(), &["k.bc", "--gpu-name=sm_90", "-o", "out"]);
    assert_eq!(
        ran.stderr,
        "error: 'k' uses too much shared data (0x493e0 bytes, 0x38c00 max)\nerror: failed to compile Tile IR program\n"
    );
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    shared_memory_that_ptxas_refuses,
    requested_stages_that_do_not_fit,
    tensor_memory_that_tile_sched_refuses,
    the_driver_forwards_resources,
];
