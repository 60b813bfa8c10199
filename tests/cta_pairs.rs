//! Kernels whose CTAs are pairs (`cta_group::2`): correct in every executor, schedule and delivery order, on each target that has
//! CTA pairs. The hazard checker, the verifier or an executor catches every injected fault.

use tests::cluster_matmul::{ClusterMatmul, lines_without};
use tests::scheduled::{detected_by_both, edited, executed, executions, file_for, hazard_checked, written};
use tests::{for_each, temporary};

const MATMUL: ClusterMatmul = ClusterMatmul { kernel: "cluster_pair", rows: 256, columns: 128 };
/// Step counts: none, fewer than the pipeline has stages, more, and many times its depth.
const STEPS: [usize; 4] = [0, 1, 3, 24];
const TARGETS: [&str; 4] = ["sm_100", "sm_103", "sm_107", "sm_110"];

fn text(target: &str) -> String {
    MATMUL.text(target, &["--cta-pairs=on"])
}

#[test]
fn a_cta_pair_computes_the_mma_together() {
    let cases: Vec<(&str, usize)> = TARGETS.into_iter().flat_map(|target| STEPS.map(|steps| (target, steps))).collect();
    for_each(&cases, |(target, steps)| {
        let (folder, text) = (temporary(), text(target));
        hazard_checked(&text)?;
        let expected = MATMUL.launch(folder.path(), *steps);
        written(folder.path(), &text);
        for (tool, options) in executions(if *target == "sm_100" { 4 } else { 1 }) {
            let output = executed(folder.path(), tool, file_for(tool), &options)?;
            if output != expected {
                return Err(format!("{target}: {tool} {options:?} computes something else in {steps} steps"));
            }
        }
        Ok(())
    });
}

/// The hazard checker compares the waits and arrivals of both CTAs; the verifier compares their shared tables.
#[test]
fn the_hazard_checker_executes_both_ctas() {
    let text = text("sm_100");
    let accumulator_pipeline = text.lines().find(|line| line.contains("fill: mma")).expect("a pipeline has accumulators");
    let half = accumulator_pipeline.replace("empty: 8", "empty: 4");
    assert_ne!(half, accumulator_pipeline, "two CTAs release the accumulators");
    let broken = edited(&text, accumulator_pipeline, &half);
    let reported = hazard_checked(&broken).expect_err("one CTA releases the accumulator before the other");
    assert!(reported.contains("8 threads free a stage of pipeline1"), "{reported}");
    let rank = text.lines().find_map(|line| line.trim().split_once(" = cluster_rank")).expect("CTAs have a rank").0.to_string();
    let rhs_load = text.lines().find(|line| line.contains("tma_load") && line.contains("buffer: 1")).expect("it is copied");
    let (before, after) = rhs_load.split_once("index: [").expect("a tile has an index");
    let (index, after) = after.split_once(']').expect("it ends");
    let step = index.split(", ").next().expect("it has two numbers");
    let own_load = format!("{before}index: [{step}, {rank}]{after}");
    for (broken, message) in [
        (edited(&text, rhs_load, &own_load), "the CTAs cannot be a pair: each CTA copies tiles of its own"),
        (edited(&text, "    cta_pair: true,\n", ""), "does not have the layout of the TMA tiles of map1"),
        (edited(&text, "    cluster: 2,\n", ""), "a rank"),
    ] {
        let reported = hazard_checked(&broken).expect_err(message);
        assert!(reported.contains(message), "the verifier reports '{reported}', not '{message}'");
    }
}

/// Operands have landed before an MMA reads them, and accumulators are loaded before an MMA overwrites them.
#[test]
fn the_hazard_checker_requires_the_mma_barriers() {
    let text = text("sm_100");
    let line_of =
        |what: &str| text.lines().find(|line| line.trim().starts_with(what)).unwrap_or_else(|| panic!("{what}")).to_string();
    let (wait, release) = (line_of("pipeline_wait(pipeline: 0"), line_of("pipeline_release(pipeline: 0"));
    for (step, message) in [(wait, "outside wait and release of pipeline0"), (release, "deadlock")] {
        let broken = edited(&text, &(step + "\n"), "");
        let reported = hazard_checked(&broken).err().unwrap_or_default();
        assert!(reported.contains(message), "the hazard checker reports '{reported}', not '{message}'");
        let folder = temporary();
        let expected = MATMUL.launch(folder.path(), STEPS[3]);
        written(folder.path(), &broken);
        detected_by_both(folder.path(), &expected, &reported).unwrap_or_else(|message| panic!("{message}"));
    }
}

/// Faults that only PTX can contain; `tile-sim` must report them.
#[test]
fn signals_between_the_ctas_of_a_pair_are_needed() {
    let folder = temporary();
    let expected = MATMUL.launch(folder.path(), STEPS[3]);
    written(folder.path(), &text("sm_100"));
    let path = folder.path().join("k.ptx");
    let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
    let line = |what: &str| ptx.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} is not in\n{ptx}"));
    let bytes = line("expect_tx.shared.b64").rsplit_once("], ").expect("it sets the transaction count").1.trim_end_matches(';');
    let half = bytes.parse::<u32>().expect("a number") / 2;
    let commits: Vec<&str> = ptx.lines().filter(|line| line.contains("tcgen05.commit")).collect();
    let to_one_cta = |commit: &str| {
        let commit_to_one = commit.replace(".multicast::cluster", "");
        let commit_to_one = commit_to_one.split_once("],").expect("it has a mask").0.to_string() + "];";
        ptx.replace(commit, &commit_to_one)
    };
    let mapped = line("mapa.shared::cluster.u32 %r");
    let mutants = [
        (
            "the barrier at the start",
            lines_without(&ptx, "barrier.cluster.arrive.aligned").replace("barrier.cluster.wait.aligned", "bar.sync 0"),
        ),
        ("the barrier at the end", lines_without(&lines_without(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;")),
        ("the bytes of the second CTA", ptx.replace(&format!("], {bytes};"), &format!("], {half};"))),
        ("the release of a stage signalled to the second CTA", to_one_cta(commits[0])),
        ("the accumulators signalled to the second CTA", to_one_cta(commits[1])),
        (
            "TMA copies signalled to the first CTA",
            ptx.replace(mapped, &mapped.replace("mapa.shared::cluster.u32", "mov.u32").replace(", 0;", ";")),
        ),
        ("an allocation for both CTAs", ptx.replace("tcgen05.alloc.cta_group::2", "tcgen05.alloc.cta_group::1")),
        (
            "the CTA group of a copy whose barrier another CTA has",
            ptx.replace("complete_tx::bytes.cta_group::2", "complete_tx::bytes"),
        ),
        ("the MMA of the second CTA", ptx.replace("tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1")),
    ];
    for (what, mutant) in mutants {
        assert_ne!(mutant, ptx, "{what}");
        std::fs::write(&path, mutant).expect("the folder takes files");
        let found = executions(0).into_iter().find_map(|(tool, options)| match executed(folder.path(), tool, "k.ptx", &options) {
            Ok(output) => (output != expected).then(|| "another result".to_string()),
            Err(reported) => Some(reported.lines().next().unwrap_or_default().to_string()),
        });
        println!("{what}: {}", found.as_deref().unwrap_or("undetected"));
        assert!(found.is_some(), "tile-sim detects nothing without {what}");
    }
}
