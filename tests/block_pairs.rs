//! Kernels whose blocks are pairs: right in every executor, order and delivery, on each target that has them, and broken in each way that
//! there is, which the judge, the verifier or the executors see.

use tests::clustered::{Clustered, lines_without};
use tests::scheduled::{edited, executed, file_for, judged, seen_by_both, ways, written};
use tests::{for_each, temporary};

const PRODUCT: Clustered = Clustered { kernel: "cluster_pair", rows: 256, columns: 128 };
/// None; fewer than slots; more, and many times around the ring.
const STEPS: [usize; 4] = [0, 1, 3, 24];
const TARGETS: [&str; 4] = ["sm_100", "sm_103", "sm_107", "sm_110"];

fn text(target: &str) -> String {
    PRODUCT.text(target, &["--pairs=on"])
}

#[test]
fn a_pair_makes_products_together() {
    let cases: Vec<(&str, usize)> = TARGETS.into_iter().flat_map(|target| STEPS.map(|steps| (target, steps))).collect();
    for_each(&cases, |(target, steps)| {
        let (folder, text) = (temporary(), text(target));
        judged(&text)?;
        let wanted = PRODUCT.launch(folder.path(), *steps);
        written(folder.path(), &text);
        for (tool, options) in ways(if *target == "sm_100" { 4 } else { 1 }) {
            let left = executed(folder.path(), tool, file_for(tool), &options)?;
            if left != wanted {
                return Err(format!("{target}: {tool} {options:?} computes something else in {steps} steps"));
            }
        }
        Ok(())
    });
}

/// What either block waits for and tells is for the judge to see, and what they have in common for the verifier.
#[test]
fn the_judge_plays_both_blocks() {
    let text = text("sm_100");
    let of_sums = text.lines().find(|line| line.contains("fill: products")).expect("a pipe has sums");
    let half = of_sums.replace("empty: 8", "empty: 4");
    assert_ne!(half, of_sums, "two blocks leave the sums");
    let broken = edited(&text, of_sums, &half);
    let said = judged(&broken).expect_err("one block leaves the sums before the other");
    assert!(said.contains("8 threads free a slot of pipe1"), "{said}");
    let rank = text.lines().find_map(|line| line.trim().split_once(" = cluster_rank")).expect("blocks have a rank").0.to_string();
    let right = text.lines().find(|line| line.contains("copy_boxes") && line.contains("buffer: 1")).expect("it is copied");
    let (before, after) = right.split_once("index: [").expect("a tile has an index");
    let (index, after) = after.split_once(']').expect("it ends");
    let step = index.split(", ").next().expect("it has two numbers");
    let own = format!("{before}index: [{step}, {rank}]{after}");
    for (broken, message) in [
        (edited(&text, right, &own), "the blocks are no pair: each block copies tiles of its own"),
        (edited(&text, "    pair: true,\n", ""), "is not as the boxes of map1 fill it"),
        (edited(&text, "    cluster: 2,\n", ""), "a rank"),
    ] {
        let said = judged(&broken).expect_err(message);
        assert!(said.contains(message), "the verifier says '{said}', not '{message}'");
    }
}

/// What products read is there, and what their sums replace was taken up.
#[test]
fn the_judge_sees_what_products_need() {
    let text = text("sm_100");
    let of = |what: &str| text.lines().find(|line| line.trim().starts_with(what)).unwrap_or_else(|| panic!("{what}")).to_string();
    let (filled, left) = (of("pipe_wait(pipe: 0"), of("pipe_release(pipe: 0"));
    for (step, message) in [(filled, "outside wait and release of pipe0"), (left, "it never goes on")] {
        let broken = edited(&text, &(step + "\n"), "");
        let said = judged(&broken).err().unwrap_or_default();
        assert!(said.contains(message), "the judge says '{said}', not '{message}'");
        let folder = temporary();
        let wanted = PRODUCT.launch(folder.path(), STEPS[3]);
        written(folder.path(), &broken);
        seen_by_both(folder.path(), &wanted, &said).unwrap_or_else(|message| panic!("{message}"));
    }
}

/// What only PTX says is for `tile-sim` to see.
#[test]
fn what_a_pair_tells_each_other_is_needed() {
    let folder = temporary();
    let wanted = PRODUCT.launch(folder.path(), STEPS[3]);
    written(folder.path(), &text("sm_100"));
    let path = folder.path().join("k.ptx");
    let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
    let line = |what: &str| ptx.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} is not in\n{ptx}"));
    let bytes = line("expect_tx.shared.b64").rsplit_once("], ").expect("it says how many bytes will come").1.trim_end_matches(';');
    let half = bytes.parse::<u32>().expect("a number") / 2;
    let commits: Vec<&str> = ptx.lines().filter(|line| line.contains("tcgen05.commit")).collect();
    let to_one = |commit: &str| {
        let alone = commit.replace(".multicast::cluster", "");
        let alone = alone.split_once("],").expect("it has a mask").0.to_string() + "];";
        ptx.replace(commit, &alone)
    };
    let mapped = line("mapa.shared::cluster.u32 %r");
    let mutants = [
        (
            "the barrier at the start",
            lines_without(&ptx, "barrier.cluster.arrive.aligned").replace("barrier.cluster.wait.aligned", "bar.sync 0"),
        ),
        ("the barrier at the end", lines_without(&lines_without(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;")),
        ("the bytes of the second block", ptx.replace(&format!("], {bytes};"), &format!("], {half};"))),
        ("that a slot is free told to the second block", to_one(commits[0])),
        ("the sums told to the second block", to_one(commits[1])),
        (
            "boxes told to the first block",
            ptx.replace(mapped, &mapped.replace("mapa.shared::cluster.u32", "mov.u32").replace(", 0;", ";")),
        ),
        ("one group of blocks for all", ptx.replace("tcgen05.alloc.cta_group::2", "tcgen05.alloc.cta_group::1")),
        (
            "the group of a copy whose barrier is another block's",
            ptx.replace("complete_tx::bytes.cta_group::2", "complete_tx::bytes"),
        ),
        ("a product of the second block", ptx.replace("tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1")),
    ];
    for (what, mutant) in mutants {
        assert_ne!(mutant, ptx, "{what}");
        std::fs::write(&path, mutant).expect("the folder takes files");
        let found = ways(0).into_iter().find_map(|(tool, options)| match executed(folder.path(), tool, "k.ptx", &options) {
            Ok(left) => (left != wanted).then(|| "another result".to_string()),
            Err(said) => Some(said.lines().next().unwrap_or_default().to_string()),
        });
        println!("{what}: {}", found.as_deref().unwrap_or("unseen"));
        assert!(found.is_some(), "tile-sim sees nothing without {what}");
    }
}
