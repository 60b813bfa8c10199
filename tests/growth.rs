//! The growth of each stage's run time with the size of its input, and the run times of the executors relative to each other. For
//! the growth test, `scripts/growth` generates the programs, prints the table and reports failures.

use std::process::Command;
use tests::{root, shell, temporary_folder, tool, tools_folder};

#[test]
fn no_stage_takes_quadratic_time() {
    ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx"].iter().for_each(|name| _ = tool(name));
    let ran = Command::new(root().join("scripts/growth")).arg(tools_folder()).arg("--quick").output().unwrap();
    let table = String::from_utf8_lossy(&ran.stdout);
    println!("{table}");
    assert!(ran.status.success(), "{table}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(table.contains("loops in a row") && table.contains("tile elements"));
}

/// The executor of `.sched` models copies in flight, barriers and the accesses of each warp. When it recorded each byte of an access
/// instead of runs of bytes, it took 75 times as long as the executor of `.tile`. Today it takes 4 times as long.
#[test]
fn executing_sched_takes_at_most_twelve_times_as_long_as_tile() {
    ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-run"].iter().for_each(|name| _ = tool(name));
    let folder = temporary_folder();
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.is_file(), "cuTile Python is not there; scripts/setup --clients brings it");
    let prepare = format!(
        "set -e; cp '{}/examples/matmul/matmul.py' .; MATMUL_SIZE=512 '{}' matmul.py 128 128 64; tile-read matmul.tileirbc -o k.tile
        tile-lower-aa -O3 k.tile | tile-lower-as --gpu-name sm_90 | tile-sched -o k.sched",
        root().display(),
        python.display()
    );
    shell(folder.path(), &prepare).ok("the two files");
    // The user time of the fastest of three runs.
    let seconds = |file: &str| {
        let line = format!("TIMEFORMAT=%U; for i in 1 2 3; do time tile-run {file} --launch matmul.json > /dev/null; done");
        let ran = shell(folder.path(), &line);
        let times = ran.stderr.lines().map(|line| line.parse::<f64>().unwrap_or_else(|_| panic!("{}", ran.stderr)));
        times.fold(f64::INFINITY, f64::min)
    };
    let (tile, sched) = (seconds("k.tile"), seconds("k.sched"));
    assert!(sched <= 12.0 * tile, ".sched took {sched} s of user time, .tile {tile} s");
}
