//! A client library of the Debug Adapter Protocol drives `tile-debug`, as an editor does. The test validates each reply against the
//! protocol's schema. `tools/tile-debug/tests` tests the debugger itself.

use crate::check_stages_are_current;
use tests::{files_below, root, run_in, shell, temporary_folder, tool};

fn an_editor_debugs_a_matmul() {
    check_stages_are_current();
    tool("tile-dump");
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.exists(), "the client library is not there; scripts/setup --clients brings it");
    let schema = files_below(&root().join(".toolkit/python/lib"));
    let schema = schema.into_iter().find(|path| path.ends_with("debugProtocol.json")).expect("debugpy has the protocol's schema");
    let folder = temporary_folder();
    let case = root().join("tests/run/matmul_f16");
    // A broken stage whose accumulator starts with another number than in the program.
    let kernel = case.join("kernel.tileirbc");
    run_in(folder.path(), "tileiras", &[kernel.to_str().unwrap(), "--gpu-name=sm_90", "--emit=as", "-o", "k.as"], b"")
        .ok("tileiras");
    let text = String::from_utf8(run_in(folder.path(), "tile-dump", &["k.as"], b"").ok("tile-dump")).unwrap();
    let broken = text.replace("constant(0.0)", "constant(0.5)");
    assert_ne!(broken, text);
    std::fs::write(folder.path().join("broken.as"), broken).unwrap();
    let line = format!(
        "PYTHONDONTWRITEBYTECODE=1 '{}' '{}' '{}' '{}' '{}' '{}' '{}' broken.as",
        python.display(),
        root().join("tests/cli/debug.py").display(),
        tool("tile-debug").display(),
        schema.display(),
        kernel.display(),
        case.join("launch.json").display(),
        root().join("scripts/kernels.py").canonicalize().unwrap().display(),
    );
    let ran = shell(folder.path(), &line);
    assert!(ran.code == Some(0) && ran.text().ends_with("debugged\n"), "{}{}", ran.text(), ran.stderr);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![an_editor_debugs_a_matmul,];
