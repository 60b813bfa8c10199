//! Kernels whose CTAs multicast TMA tiles to each other: correct in both executors, with several schedule seeds and both delivery
//! modes. The hazard checker or an executor detects every injected fault.

use tests::cluster_matmul::{ClusterMatmul, without_lines_containing};
use tests::scheduled::{
    check_all_executions, check_both_detect, check_hazards, executions, replace_once, tile_sim_detects, write_program_and_ptx,
};
use tests::{for_each, temporary_folder};

/// A matmul with small tiles.
const MATMUL: ClusterMatmul = ClusterMatmul { kernel: "cluster_matmul", rows: 128, columns: 64 };
/// A matmul with tiles so large that a quarter of one still has enough rows for tensor memory.
const LARGE: ClusterMatmul = ClusterMatmul { kernel: "cluster_pair", rows: 256, columns: 128 };
/// Trip counts of the K loop: none, few, and many times the depth of the pipeline.
const TRIP_COUNTS: [usize; 4] = [0, 1, 3, 24];

/// A program, a target, the CTAs of a cluster, the options of `tile-sched`, a buffer that is filled by multicast, and one that each
/// CTA fills for itself.
type Execution = (ClusterMatmul, &'static str, &'static str, &'static [&'static str], [u32; 2]);

const CLUSTER_OF_TWO: &str = "--cluster=2";
const CLUSTER_OF_FOUR: &str = "--cluster=4";
/// The tested programs, targets and options.
const EXECUTIONS: [Execution; 7] = [
    (MATMUL, "sm_90", CLUSTER_OF_TWO, &["--roles=on"], [1, 0]),
    (MATMUL, "sm_90", CLUSTER_OF_TWO, &["--roles=off"], [1, 0]),
    (MATMUL, "sm_90", CLUSTER_OF_FOUR, &["--roles=on"], [0, 1]),
    (MATMUL, "sm_90", CLUSTER_OF_FOUR, &["--roles=off"], [0, 1]),
    // TMA tiles of four CTAs that are neighbours along both dimensions.
    (LARGE, "sm_90", CLUSTER_OF_FOUR, &["--roles=on"], [1, 0]),
    (MATMUL, "sm_100", CLUSTER_OF_TWO, &["--roles=auto"], [0, 1]),
    (LARGE, "sm_100", CLUSTER_OF_FOUR, &["--roles=auto"], [0, 1]),
];

/// The `.sched` text of an execution.
fn scheduled_text((matmul, target, cluster, options, _): Execution) -> String {
    matmul.scheduled_text(target, &[cluster], &[options, &["--multicast=on"]].concat())
}

#[test]
fn tma_loads_are_multicast_in_a_cluster() {
    let cases: Vec<(Execution, usize)> =
        EXECUTIONS.into_iter().flat_map(|execution| TRIP_COUNTS.map(|trip_count| (execution, trip_count))).collect();
    for_each(&cases, |(execution, trip_count)| {
        let (folder, text) = (temporary_folder(), scheduled_text(*execution));
        let [multicast_buffer, _] = execution.4;
        if !text.contains(&format!("multicast: [{multicast_buffer}]")) {
            return Err(format!("the CTAs do not fill buffer{multicast_buffer} together"));
        }
        check_hazards(&text)?;
        let expected = execution.0.write_launch(folder.path(), *trip_count);
        check_all_executions(folder.path(), &text, &expected, executions(4))
            .map_err(|reported| format!("{execution:?}, {trip_count} iterations: {reported}"))
    });
}

/// Multicast data that arrives too early or never: the hazard checker reports it, and both executors detect it.
#[test]
fn the_hazard_checker_executes_all_ctas() {
    for_each(&EXECUTIONS, |execution| {
        let text = scheduled_text(*execution);
        let [multicast_buffer, per_cta_buffer] = execution.4;
        let pipeline_line = text.lines().find(|line| line.contains("multicast: ")).expect("a pipeline is multicast");
        let number_after =
            |word: &str| pipeline_line.split_once(word).and_then(|(_, rest)| rest.split([',', ')']).next()?.parse::<u32>().ok());
        let empty_arrivals = number_after("empty: ").expect("the table has the number of consumer arrivals");
        let mutants = [
            (
                replace_once(&text, &format!("empty: {empty_arrivals}"), &format!("empty: {}", empty_arrivals / 2)),
                "free a stage of pipeline0",
            ),
            (replace_once(&text, &format!(", multicast: [{multicast_buffer}]"), ""), "free a stage of pipeline0"),
        ];
        for (text, message) in mutants {
            let reported = check_hazards(&text).err().unwrap_or_default();
            if !reported.contains(message) {
                return Err(format!("{execution:?}: the hazard checker reports '{reported}', not '{message}'"));
            }
            let folder = temporary_folder();
            let expected = execution.0.write_launch(folder.path(), TRIP_COUNTS[3]);
            write_program_and_ptx(folder.path(), &text);
            check_both_detect(folder.path(), &expected, &reported)?;
        }
        let invalid_lists = [
            (per_cta_buffer.to_string(), "each CTA copies tiles of its own"),
            (String::new(), "multicasts into none of its buffers"),
        ];
        for (buffers, message) in invalid_lists {
            let reported = check_hazards(&replace_once(
                &text,
                &format!("multicast: [{multicast_buffer}]"),
                &format!("multicast: [{buffers}]"),
            ))
            .err();
            if !reported.as_ref().is_some_and(|reported| reported.contains(message)) {
                return Err(format!("{execution:?}: the hazard checker reports {reported:?}, not '{message}'"));
            }
        }
        Ok(())
    });
}

/// Faults that only PTX can contain; `tile-sim` must detect them.
#[test]
fn the_barriers_of_a_cluster_are_needed() {
    for_each(&EXECUTIONS, |execution| {
        let folder = temporary_folder();
        let expected = execution.0.write_launch(folder.path(), TRIP_COUNTS[3]);
        write_program_and_ptx(folder.path(), &scheduled_text(*execution));
        let path = folder.path().join("k.ptx");
        let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
        let bytes = ptx.split_once("expect_tx.shared.b64").and_then(|(_, rest)| rest.split("], ").nth(1)?.split(';').next());
        let bytes: u32 = bytes.and_then(|bytes| bytes.trim().parse().ok()).expect("it sets the transaction count");
        let mutants = [
            (
                "the barrier at the start",
                without_lines_containing(&ptx, "barrier.cluster.arrive.aligned")
                    .replace("barrier.cluster.wait.aligned", "bar.sync 0"),
            ),
            (
                "the barrier at the end",
                without_lines_containing(&without_lines_containing(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;"),
            ),
            ("the bytes of the other CTA", ptx.replace(&format!("], {bytes};"), &format!("], {};", bytes / 2))),
            ("TMA copies for both CTAs", ptx.replace(".multicast::cluster [", " [").replace("], %rs1;", "];")),
        ];
        for (removed_part, mutant) in mutants {
            if !tile_sim_detects(folder.path(), &mutant, &expected) {
                return Err(format!("{execution:?}: tile-sim detects nothing without {removed_part}"));
            }
        }
        Ok(())
    });
}
