//! Kernels whose blocks bring each other boxes: right in every executor, order and delivery, and broken in each way that there is, which
//! the judge or the executors see.

use tests::clustered::{Clustered, lines_without};
use tests::scheduled::{all_leave, edited, is_seen, judged, seen_by_both, ways, written};
use tests::{for_each, temporary};

const PRODUCT: Clustered = Clustered { kernel: "cluster_matmul", rows: 128, columns: 64 };
/// One of which a quarter has rows enough for tensor memory.
const LARGE: Clustered = Clustered { kernel: "cluster_pair", rows: 256, columns: 128 };
/// None; fewer than slots; many times around the ring.
const STEPS: [usize; 4] = [0, 1, 3, 24];

/// A program, a target, the blocks of a cluster, the options of `tile-sched`, and the buffer that the blocks fill together, with one that each fills
/// for itself.
type Way = (Clustered, &'static str, &'static str, &'static [&'static str], [u32; 2]);

const TWO: &str = "--cluster=2";
const FOUR: &str = "--cluster=4";
const WAYS: [Way; 7] = [
    (PRODUCT, "sm_90", TWO, &["--agents=on"], [1, 0]),
    (PRODUCT, "sm_90", TWO, &["--agents=off"], [1, 0]),
    (PRODUCT, "sm_90", FOUR, &["--agents=on"], [0, 1]),
    (PRODUCT, "sm_90", FOUR, &["--agents=off"], [0, 1]),
    // Boxes of four blocks that follow each other along both sides.
    (LARGE, "sm_90", FOUR, &["--agents=on"], [1, 0]),
    (PRODUCT, "sm_100", TWO, &["--agents=auto"], [0, 1]),
    (LARGE, "sm_100", FOUR, &["--agents=auto"], [0, 1]),
];

fn text((product, target, cluster, options, _): Way) -> String {
    product.scheduled(target, &[cluster], &[options, &["--multicast=on"]].concat())
}

#[test]
fn blocks_bring_each_other_boxes() {
    let cases: Vec<(Way, usize)> = WAYS.into_iter().flat_map(|way| STEPS.map(|steps| (way, steps))).collect();
    for_each(&cases, |(way, steps)| {
        let (folder, text) = (temporary(), text(*way));
        let [together, _] = way.4;
        if !text.contains(&format!("multicast: [{together}]")) {
            return Err(format!("the blocks do not fill buffer{together} together"));
        }
        judged(&text)?;
        let wanted = way.0.launch(folder.path(), *steps);
        all_leave(folder.path(), &text, &wanted, ways(4)).map_err(|said| format!("{way:?}, {steps} steps: {said}"))
    });
}

/// What is filled from another block too early or never: the judge says so, and both executors see it.
#[test]
fn the_judge_plays_all_blocks() {
    for_each(&WAYS, |way| {
        let text = text(*way);
        let [together, own] = way.4;
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
            let wanted = way.0.launch(folder.path(), STEPS[3]);
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

/// What only PTX says is for `tile-sim` to see.
#[test]
fn the_barriers_of_a_cluster_are_needed() {
    for_each(&WAYS, |way| {
        let folder = temporary();
        let wanted = way.0.launch(folder.path(), STEPS[3]);
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
            if !is_seen(folder.path(), &mutant, &wanted) {
                return Err(format!("{way:?}: tile-sim sees nothing without {what}"));
            }
        }
        Ok(())
    });
}
