//! Kernels whose CTAs are pairs (`cta_group::2`): correct in both executors, with several schedule seeds and both delivery modes,
//! on each target that has CTA pairs. The hazard checker, the verifier or an executor detects every injected fault.

use tests::cluster_matmul::{ClusterMatmul, without_lines_containing};
use tests::scheduled::{
    check_both_detect, check_hazards, execute_for_output, executions, file_of_tool, replace_once, write_program_and_ptx,
};
use tests::{for_each, temporary_folder};

/// A matmul with tiles large enough for CTA pairs.
const MATMUL: ClusterMatmul = ClusterMatmul { kernel: "cluster_pair", rows: 256, columns: 128 };
/// Trip counts of the K loop: none, fewer than the pipeline has stages, more, and many times its depth.
const TRIP_COUNTS: [usize; 4] = [0, 1, 3, 24];
/// The targets with CTA pairs.
const TARGETS: [&str; 4] = ["sm_100", "sm_103", "sm_107", "sm_110"];

/// The `.sched` text of the matmul for a target, with CTA pairs.
fn scheduled_text(target: &str) -> String {
    MATMUL.text(target, &["--cta-pairs=on"])
}

#[test]
fn a_cta_pair_computes_the_mma_together() {
    let cases: Vec<(&str, usize)> =
        TARGETS.into_iter().flat_map(|target| TRIP_COUNTS.map(|trip_count| (target, trip_count))).collect();
    for_each(&cases, |(target, trip_count)| {
        let (folder, text) = (temporary_folder(), scheduled_text(target));
        check_hazards(&text)?;
        let expected = MATMUL.write_launch(folder.path(), *trip_count);
        write_program_and_ptx(folder.path(), &text);
        for (tool, options) in executions(if *target == "sm_100" { 4 } else { 1 }) {
            let output = execute_for_output(folder.path(), tool, file_of_tool(tool), &options)?;
            if output != expected {
                return Err(format!("{target}: {tool} {options:?} computes something else in {trip_count} iterations"));
            }
        }
        Ok(())
    });
}

/// The hazard checker executes the waits and arrivals of both CTAs. The verifier checks that both CTAs copy the same tiles, and
/// checks the attributes `cta_pair` and `cluster`.
#[test]
fn the_hazard_checker_executes_both_ctas() {
    let text = scheduled_text("sm_100");
    let accumulator_pipeline = text.lines().find(|line| line.contains("fill: mma")).expect("a pipeline has accumulators");
    let halved = accumulator_pipeline.replace("empty: 8", "empty: 4");
    assert_ne!(halved, accumulator_pipeline, "two CTAs release the accumulators");
    let broken = replace_once(&text, accumulator_pipeline, &halved);
    let reported = check_hazards(&broken).expect_err("one CTA releases the accumulator before the other");
    assert!(reported.contains("8 threads free a stage of pipeline1"), "{reported}");
    let rank = text.lines().find_map(|line| line.trim().split_once(" = cluster_rank")).expect("CTAs have a rank").0.to_string();
    let rhs_load = text.lines().find(|line| line.contains("tma_load") && line.contains("buffer: 1")).expect("it is copied");
    let (before, after) = rhs_load.split_once("index: [").expect("a tile has an index");
    let (index, after) = after.split_once(']').expect("it ends");
    let step = index.split(", ").next().expect("it has two numbers");
    let own_load = format!("{before}index: [{step}, {rank}]{after}");
    for (broken, message) in [
        (replace_once(&text, rhs_load, &own_load), "the CTAs cannot be a pair: each CTA copies tiles of its own"),
        (replace_once(&text, "    cta_pair: true,\n", ""), "does not have the layout of the TMA tiles of map1"),
        (replace_once(&text, "    cluster: 2,\n", ""), "a rank"),
    ] {
        let reported = check_hazards(&broken).expect_err(message);
        assert!(reported.contains(message), "the verifier reports '{reported}', not '{message}'");
    }
}

/// The hazard checker requires that operands have landed before an MMA reads them, and that accumulators are loaded before an MMA
/// overwrites them.
#[test]
fn the_hazard_checker_requires_the_mma_barriers() {
    let text = scheduled_text("sm_100");
    let line_of =
        |prefix: &str| text.lines().find(|line| line.trim().starts_with(prefix)).unwrap_or_else(|| panic!("{prefix}")).to_string();
    let (wait, release) = (line_of("pipeline_wait(pipeline: 0"), line_of("pipeline_release(pipeline: 0"));
    for (step, message) in [(wait, "outside wait and release of pipeline0"), (release, "deadlock")] {
        let broken = replace_once(&text, &(step + "\n"), "");
        let reported = check_hazards(&broken).err().unwrap_or_default();
        assert!(reported.contains(message), "the hazard checker reports '{reported}', not '{message}'");
        let folder = temporary_folder();
        let expected = MATMUL.write_launch(folder.path(), TRIP_COUNTS[3]);
        write_program_and_ptx(folder.path(), &broken);
        check_both_detect(folder.path(), &expected, &reported).unwrap_or_else(|message| panic!("{message}"));
    }
}

/// Faults that only PTX can contain; `tile-sim` must detect them.
#[test]
fn signals_between_the_ctas_of_a_pair_are_needed() {
    let folder = temporary_folder();
    let expected = MATMUL.write_launch(folder.path(), TRIP_COUNTS[3]);
    write_program_and_ptx(folder.path(), &scheduled_text("sm_100"));
    let path = folder.path().join("k.ptx");
    let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
    let line = |part: &str| ptx.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} is not in\n{ptx}"));
    let bytes = line("expect_tx.shared.b64").rsplit_once("], ").expect("it sets the transaction count").1.trim_end_matches(';');
    let half = bytes.parse::<u32>().expect("a number") / 2;
    let commits: Vec<&str> = ptx.lines().filter(|line| line.contains("tcgen05.commit")).collect();
    let to_one_cta = |commit: &str| {
        let commit_to_one = commit.replace(".multicast::cluster", "");
        let commit_to_one = commit_to_one.split_once("],").expect("it has a mask").0.to_string() + "];";
        ptx.replace(commit, &commit_to_one)
    };
    let mapa_line = line("mapa.shared::cluster.u32 %r");
    let mutants = [
        (
            "the barrier at the start",
            without_lines_containing(&ptx, "barrier.cluster.arrive.aligned").replace("barrier.cluster.wait.aligned", "bar.sync 0"),
        ),
        (
            "the barrier at the end",
            without_lines_containing(&without_lines_containing(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;"),
        ),
        ("the bytes of the second CTA", ptx.replace(&format!("], {bytes};"), &format!("], {half};"))),
        ("the release of a stage signalled to the second CTA", to_one_cta(commits[0])),
        ("the accumulators signalled to the second CTA", to_one_cta(commits[1])),
        (
            "TMA copies signalled to the first CTA",
            ptx.replace(mapa_line, &mapa_line.replace("mapa.shared::cluster.u32", "mov.u32").replace(", 0;", ";")),
        ),
        ("an allocation for both CTAs", ptx.replace("tcgen05.alloc.cta_group::2", "tcgen05.alloc.cta_group::1")),
        (
            "the CTA group of a copy whose barrier another CTA has",
            ptx.replace("complete_tx::bytes.cta_group::2", "complete_tx::bytes"),
        ),
        ("the MMA of the second CTA", ptx.replace("tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1")),
    ];
    for (removed_part, mutant) in mutants {
        assert_ne!(mutant, ptx, "{removed_part}");
        std::fs::write(&path, mutant).expect("the folder takes files");
        let report = executions(0).into_iter().find_map(|(tool, options)| {
            match execute_for_output(folder.path(), tool, "k.ptx", &options) {
                Ok(output) => (output != expected).then(|| "another result".to_string()),
                Err(reported) => Some(reported.lines().next().unwrap_or_default().to_string()),
            }
        });
        println!("{removed_part}: {}", report.as_deref().unwrap_or("undetected"));
        assert!(report.is_some(), "tile-sim detects nothing without {removed_part}");
    }
}
