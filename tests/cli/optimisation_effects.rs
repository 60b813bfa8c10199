//! Optimisations with a publicly known effect have that effect in compiled kernels: the predicted time of a 2048 x 2048 matmul with
//! one decision changed. The suite of `tile-time` covers CTA pairs and overlapped epilogues.

use crate::check_stages_are_current;
use std::path::Path;
use tests::{root, run_in, shell, temporary_folder, tool};

/// The predicted cycles of a 2048 x 2048 matmul with these tiles, on a target, with options of the driver.
fn predicted_cycles(folder: &Path, tiles: &str, target: &str, options: &[&str]) -> f64 {
    prediction(folder, 2048, tiles, target, options)["cycles"].as_f64().unwrap()
}

/// Compiles a square matmul to `k.ptx`.
fn compile(folder: &Path, size: u32, tiles: &str, target: &str, options: &[&str]) {
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.is_file(), "cuTile Python is not there; scripts/setup --clients brings it");
    std::fs::copy(root().join("examples/matmul/matmul.py"), folder.join("matmul.py")).unwrap();
    shell(folder, &format!("MATMUL_SIZE={size} '{}' matmul.py {tiles}", python.display())).ok(tiles);
    let arguments = [&["matmul.tileirbc", "--gpu-name", target, "--emit=ptx", "-o", "k.ptx"], options].concat();
    run_in(folder, "tileiras", &arguments, b"").ok(tiles);
}

/// The prediction of `tile-time` for a square matmul.
fn prediction(folder: &Path, size: u32, tiles: &str, target: &str, options: &[&str]) -> serde_json::Value {
    compile(folder, size, tiles, target, options);
    let report = run_in(folder, "tile-time", &["k.ptx", "--launch", "matmul.json", "--no-advice", "--json", "-"], b"").ok(tiles);
    serde_json::from_slice(&report).unwrap()
}

fn known_optimisations_are_predicted_to_save_cycles() {
    check_stages_are_current();
    tool("tile-time");
    let folder = temporary_folder();
    const WIDE: &str = "128 256 64";
    const SQUARE: &str = "128 128 64";
    let cycles_with_tma = |target| predicted_cycles(folder.path(), WIDE, target, &["--tma=on"]);
    for (target, tma_tiles) in [("sm_90", cycles_with_tma("sm_90")), ("sm_100", cycles_with_tma("sm_100"))] {
        let thread_copies = predicted_cycles(folder.path(), WIDE, target, &["--tma=off"]);
        assert!(tma_tiles < thread_copies, "TMA copies on {target}: {tma_tiles} cycles, copies by threads: {thread_copies}");
        let square = predicted_cycles(folder.path(), SQUARE, target, &[]);
        assert!(tma_tiles < 0.9 * square, "tiles of 256 columns on {target}: {tma_tiles} cycles, of 128: {square}");
    }
    let one_group = predicted_cycles(folder.path(), WIDE, "sm_90", &["--warps=4"]);
    let two_groups = predicted_cycles(folder.path(), WIDE, "sm_90", &["--warps=8"]);
    assert!(two_groups < 0.9 * one_group, "256 columns by two groups of warps: {two_groups} cycles, by one: {one_group}");
}

/// Threads copy small tiles. Reason: on an H200, the matmul of size 1024 with these tiles takes 83.4 us if threads copy, and 97.9 us
/// if TMA copies (`docs/measured/h200-plans.json`).
fn small_tiles_are_copied_by_threads() {
    check_stages_are_current();
    let folder = temporary_folder();
    let has_tma_copies = |options: &[&str]| {
        compile(folder.path(), 1024, "16 16 16", "sm_90", options);
        std::fs::read_to_string(folder.path().join("k.ptx")).unwrap().contains("cp.async.bulk.tensor")
    };
    assert!(has_tma_copies(&["--tma=on"]));
    assert!(!has_tma_copies(&[]));
}

/// On an H200, the matmul of size 4096 with tiles of 16 x 16 x 16 and TMA copies takes 4.16 ms (`docs/measured/h200-plans.json`).
/// Each thread issues few of the copies, so the interval between two copies of a thread does not limit it.
fn small_tma_copies_of_many_ctas_take_the_measured_time() {
    check_stages_are_current();
    tool("tile-time");
    let folder = temporary_folder();
    let report = prediction(folder.path(), 4096, "16 16 16", "sm_90", &["--tma=on"]);
    let ratio = report["seconds"].as_f64().unwrap() / 4.16e-3;
    assert!((0.8..1.25).contains(&ratio), "predicted to measured: {ratio:.2}");
}

/// The cells of the first table row with this title.
fn row<'a>(page: &'a str, title: &str) -> Vec<&'a str> {
    let line = page.lines().find(|line| line.starts_with(&format!("| {title} |"))).unwrap_or_else(|| panic!("no row '{title}'"));
    line.trim_matches('|').split('|').skip(1).map(str::trim).collect()
}

/// The last two tile sizes of `docs/optimizing-a-matmul.md`. The others take longer to predict.
fn the_page_has_the_predicted_times() {
    check_stages_are_current();
    tool("tile-time");
    let folder = temporary_folder();
    let page = std::fs::read_to_string(root().join("docs/optimizing-a-matmul.md")).unwrap();
    let (tiles, times) = (row(&page, "tile M x N x K"), row(&page, "time"));
    assert_eq!((tiles.len(), times.len()), (4, 4));
    for (tile, time) in tiles.iter().zip(times).skip(2) {
        let microseconds: f64 = time.strip_suffix(" us").expect("the unit is us").parse().unwrap();
        let seconds = prediction(folder.path(), 4096, &tile.replace(" x ", " "), "sm_90", &[])["seconds"].as_f64().unwrap();
        assert!((seconds * 1e6 / microseconds - 1.0).abs() < 0.02, "{tile}: {} us, the page has {time}", seconds * 1e6);
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    known_optimisations_are_predicted_to_save_cycles,
    small_tiles_are_copied_by_threads,
    small_tma_copies_of_many_ctas_take_the_measured_time,
    the_page_has_the_predicted_times,
];
