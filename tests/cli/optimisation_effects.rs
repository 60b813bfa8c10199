//! Optimisations with a publicly known effect have that effect in compiled kernels: the predicted time of a 2048 x 2048 matmul with
//! one decision changed. The suite of `tile-time` covers CTA pairs and overlapped epilogues.

use crate::need_stages;
use std::path::Path;
use tests::{root, run_in, shell, temporary, tool};

/// The predicted cycles of the matmul with these tiles, on a target, with options of the driver.
fn cycles(folder: &Path, tiles: &str, target: &str, options: &[&str]) -> f64 {
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.is_file(), "cuTile Python is not there; scripts/setup --clients brings it");
    std::fs::copy(root().join("examples/matmul/matmul.py"), folder.join("matmul.py")).unwrap();
    shell(folder, &format!("MATMUL_SIZE=2048 '{}' matmul.py {tiles}", python.display())).ok(tiles);
    let arguments = [&["matmul.tileirbc", "--gpu-name", target, "--emit=ptx", "-o", "k.ptx"], options].concat();
    run_in(folder, "tileiras", &arguments, b"").ok(tiles);
    let report = run_in(folder, "tile-time", &["k.ptx", "--launch", "matmul.json", "--no-advice", "--json", "-"], b"").ok(tiles);
    serde_json::from_slice::<serde_json::Value>(&report).unwrap()["cycles"].as_f64().unwrap()
}

fn known_optimisations_are_predicted_to_pay() {
    need_stages();
    tool("tile-time");
    let folder = temporary();
    const WIDE: &str = "128 256 64";
    const SQUARE: &str = "128 128 64";
    let stages = |target| cycles(folder.path(), WIDE, target, &["--tma=on"]);
    for (target, tma_tiles) in [("sm_90", stages("sm_90")), ("sm_100", stages("sm_100"))] {
        let threads = cycles(folder.path(), WIDE, target, &["--tma=off"]);
        assert!(tma_tiles < threads, "TMA copies on {target}: {tma_tiles} cycles, copies by threads: {threads}");
        let square = cycles(folder.path(), SQUARE, target, &[]);
        assert!(tma_tiles < 0.9 * square, "tiles of 256 columns on {target}: {tma_tiles} cycles, of 128: {square}");
    }
    let one = cycles(folder.path(), WIDE, "sm_90", &["--warps=4"]);
    let two = cycles(folder.path(), WIDE, "sm_90", &["--warps=8"]);
    assert!(two < 0.9 * one, "256 columns by two groups of warps: {two} cycles, by one: {one}");
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![known_optimisations_are_predicted_to_pay,];
