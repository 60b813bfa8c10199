//! Kernels whose blocks bring each other boxes: right in every executor, order and delivery, and broken in each way that there is, which
//! the judge or the executors see.

use std::path::Path;
use tests::scheduled::{edited, executed, file_for, judged, seen_by_both, ways, written};
use tests::{for_each, root, run, temporary};

const ROWS: usize = 128;
const COLUMNS: usize = 64;
const STEP: usize = 32;
/// None; fewer than slots; many times around the ring.
const STEPS: [usize; 4] = [0, 1, 3, 24];

/// A target, the options of `tile-sched`, and the buffer that the blocks fill together, with one that each fills for itself.
type Way = (&'static str, &'static [&'static str], [u32; 2]);

const WAYS: [Way; 3] =
    [("sm_90", &["--agents=on"], [1, 0]), ("sm_90", &["--agents=off"], [1, 0]), ("sm_100", &["--agents=auto"], [0, 1])];

/// The `.sched` of a product of 128 rows and 64 columns, in blocks of a cluster.
fn text((target, options, _): Way) -> String {
    let folder = temporary();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let kernel = root().join("tests/run/cluster_matmul/kernel.tile").display().to_string();
    run("tile-write", &[&kernel, "-o", &path("k.tileirbc")], b"").ok("tile-write");
    run("tile-read", &[&path("k.tileirbc"), "-o", &path("k.tile")], b"").ok("tile-read");
    run("tile-lower-aa", &[&path("k.tile"), "-o", &path("k.aa")], b"").ok("tile-lower-aa");
    run("tile-lower-as", &["--gpu-name", target, "--cluster=2", &path("k.aa"), "-o", &path("k.as")], b"").ok("tile-lower-as");
    let (from, to) = (path("k.as"), path("k.sched"));
    let scheduled = [options, &["--multicast=on", "--format=text", &from, "-o", &to]].concat();
    run("tile-sched", &scheduled, b"").ok("tile-sched");
    std::fs::read_to_string(path("k.sched")).expect("a file was written")
}

fn left(row: usize, k: usize) -> i32 {
    (row * 7 + k * 3 + k / STEP) as i32 % 5 - 2
}
fn right(k: usize, column: usize) -> i32 {
    (k * 5 + column * 2 + k / STEP) as i32 % 3 - 1
}

/// A small whole number as f16.
fn half(number: i32) -> [u8; 2] {
    let sign = u16::from(number < 0) << 15;
    let magnitude = [0, 0x3c00, 0x4000][number.unsigned_abs() as usize];
    (sign | magnitude).to_le_bytes()
}

/// The launch for some number of steps in a folder, and what it has to leave.
fn launch(folder: &Path, steps: usize) -> Vec<u8> {
    let depth = steps * STEP;
    let stride = depth.max(STEP);
    let a: Vec<u8> = (0..ROWS * stride).flat_map(|i| half(left(i / stride, i % stride))).collect();
    let b: Vec<u8> = (0..stride * COLUMNS).flat_map(|i| half(right(i / COLUMNS, i % COLUMNS))).collect();
    for (name, data) in [("a", a), ("b", b), ("c", vec![0xff; ROWS * COLUMNS * 4])] {
        std::fs::write(folder.join(format!("{name}.in")), data).expect("the folder takes files");
    }
    let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
    let array = |name: &str, [rows, columns, stride]: [usize; 3]| {
        format!(r#"{{"ptr": "{name}"}}, {{"i32": {rows}}}, {{"i32": {columns}}}, {{"i32": {stride}}}, {{"i32": 1}}"#)
    };
    let arrays = [("a", [ROWS, depth, stride]), ("b", [depth, COLUMNS, COLUMNS]), ("c", [ROWS, COLUMNS, COLUMNS])];
    let params = arrays.map(|(name, extents)| array(name, extents)).join(", ");
    let text = format!(r#"{{"entry": null, "grid": [1, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
    std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
    // The kernel adds the extent of its grid.
    let sum = |i: usize| 1 + (0..depth).map(|k| left(i / COLUMNS, k) * right(k, i % COLUMNS)).sum::<i32>();
    (0..ROWS * COLUMNS).flat_map(|i| (sum(i) as f32).to_le_bytes()).collect()
}

#[test]
fn blocks_bring_each_other_boxes() {
    let cases: Vec<(Way, usize)> = WAYS.into_iter().flat_map(|way| STEPS.map(|steps| (way, steps))).collect();
    for_each(&cases, |(way, steps)| {
        let (folder, text) = (temporary(), text(*way));
        let [together, _] = way.2;
        if !text.contains(&format!("multicast: [{together}]")) {
            return Err(format!("the blocks do not fill buffer{together} together"));
        }
        judged(&text)?;
        let wanted = launch(folder.path(), *steps);
        written(folder.path(), &text);
        for (tool, options) in ways(4) {
            let left = executed(folder.path(), tool, file_for(tool), &options)?;
            if left != wanted {
                return Err(format!("{way:?}: {tool} {options:?} computes something else in {steps} steps"));
            }
        }
        Ok(())
    });
}

/// What is filled from another block too early or never: the judge says so, and both executors see it.
#[test]
fn the_judge_plays_all_blocks() {
    for_each(&WAYS, |way| {
        let text = text(*way);
        let [together, own] = way.2;
        let table = text.lines().find(|line| line.contains("multicast: ")).expect("a pipe says so");
        let number = |word: &str| table.split_once(word).and_then(|(_, rest)| rest.split([',', ')']).next()?.parse::<u32>().ok());
        let empty = number("empty: ").expect("the table says how many arrivals free a slot");
        let broken = [
            (edited(&text, &format!("empty: {empty}"), &format!("empty: {}", empty / 2)), "free a slot of pipe0"),
            (edited(&text, &format!(", multicast: [{together}]"), ""), "free a slot of pipe0"),
        ];
        for (text, message) in broken {
            let said = judged(&text).err().unwrap_or_default();
            if !said.contains(message) {
                return Err(format!("{way:?}: the judge says '{said}', not '{message}'"));
            }
            let folder = temporary();
            let wanted = launch(folder.path(), STEPS[3]);
            written(folder.path(), &text);
            seen_by_both(folder.path(), &wanted, &said)?;
        }
        let others =
            [(own.to_string(), "each block copies tiles of its own"), (String::new(), "fill none of its buffers together")];
        for (buffers, message) in others {
            let said = judged(&edited(&text, &format!("multicast: [{together}]"), &format!("multicast: [{buffers}]"))).err();
            if !said.as_ref().is_some_and(|said| said.contains(message)) {
                return Err(format!("{way:?}: the judge says {said:?}, not '{message}'"));
            }
        }
        Ok(())
    });
}

/// The lines of PTX without those that contain something.
fn lines_without(ptx: &str, what: &str) -> String {
    assert!(ptx.contains(what), "{what} is not in\n{ptx}");
    ptx.lines().filter(|line| !line.contains(what)).map(|line| format!("{line}\n")).collect()
}

/// What only PTX says is for `tile-sim` to see.
#[test]
fn the_barriers_of_a_cluster_are_needed() {
    for_each(&WAYS, |way| {
        let folder = temporary();
        let wanted = launch(folder.path(), STEPS[3]);
        written(folder.path(), &text(*way));
        let path = folder.path().join("k.ptx");
        let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
        let bytes = ptx.split_once("expect_tx.shared.b64").and_then(|(_, rest)| rest.split("], ").nth(1)?.split(';').next());
        let bytes: u32 = bytes.and_then(|bytes| bytes.trim().parse().ok()).expect("it says how many bytes will come");
        let mutants = [
            (
                "the barrier at the start",
                lines_without(&ptx, "barrier.cluster.arrive.aligned").replace("barrier.cluster.wait.aligned", "bar.sync 0"),
            ),
            ("the barrier at the end", lines_without(&lines_without(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;")),
            ("the bytes that come", ptx.replace(&format!("], {bytes};"), &format!("], {};", bytes / 2))),
            ("boxes for both blocks", ptx.replace(".multicast::cluster [", " [").replace("], %rs1;", "];")),
        ];
        for (what, mutant) in mutants {
            std::fs::write(&path, mutant).expect("the folder takes files");
            let seen = ways(0)
                .into_iter()
                .any(|(tool, options)| executed(folder.path(), tool, "k.ptx", &options).map_or(true, |left| left != wanted));
            if !seen {
                return Err(format!("{way:?}: tile-sim sees nothing without {what}"));
            }
        }
        Ok(())
    });
}
