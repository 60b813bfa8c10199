//! Kernels whose CTAs multicast TMA tiles to each other: correct in every executor, schedule and delivery order. The hazard checker
//! or an executor catches every injected fault.

use tests::cluster_matmul::{ClusterMatmul, lines_without};
use tests::scheduled::{all_executions_leave, detected_by_both, edited, executions, hazard_checked, is_detected, written};
use tests::{for_each, temporary};

const MATMUL: ClusterMatmul = ClusterMatmul { kernel: "cluster_matmul", rows: 128, columns: 64 };
/// A matmul with tiles so large that a quarter of one still has enough rows for tensor memory.
const LARGE: ClusterMatmul = ClusterMatmul { kernel: "cluster_pair", rows: 256, columns: 128 };
/// Step counts: none, fewer than the pipeline has stages, and many times its depth.
const STEPS: [usize; 4] = [0, 1, 3, 24];

/// A program, a target, the CTAs of a cluster, the options of `tile-sched`, a buffer that is filled by multicast, and one that each
/// CTA fills for itself.
type Execution = (ClusterMatmul, &'static str, &'static str, &'static [&'static str], [u32; 2]);

const TWO: &str = "--cluster=2";
const FOUR: &str = "--cluster=4";
const EXECUTIONS: [Execution; 7] = [
    (MATMUL, "sm_90", TWO, &["--roles=on"], [1, 0]),
    (MATMUL, "sm_90", TWO, &["--roles=off"], [1, 0]),
    (MATMUL, "sm_90", FOUR, &["--roles=on"], [0, 1]),
    (MATMUL, "sm_90", FOUR, &["--roles=off"], [0, 1]),
    // TMA tiles of four CTAs that are neighbours along both dimensions.
    (LARGE, "sm_90", FOUR, &["--roles=on"], [1, 0]),
    (MATMUL, "sm_100", TWO, &["--roles=auto"], [0, 1]),
    (LARGE, "sm_100", FOUR, &["--roles=auto"], [0, 1]),
];

fn text((matmul, target, cluster, options, _): Execution) -> String {
    matmul.scheduled(target, &[cluster], &[options, &["--multicast=on"]].concat())
}

#[test]
fn tma_loads_are_multicast_in_a_cluster() {
    let cases: Vec<(Execution, usize)> =
        EXECUTIONS.into_iter().flat_map(|execution| STEPS.map(|steps| (execution, steps))).collect();
    for_each(&cases, |(execution, steps)| {
        let (folder, text) = (temporary(), text(*execution));
        let [multicast_buffer, _] = execution.4;
        if !text.contains(&format!("multicast: [{multicast_buffer}]")) {
            return Err(format!("the CTAs do not fill buffer{multicast_buffer} together"));
        }
        hazard_checked(&text)?;
        let expected = execution.0.launch(folder.path(), *steps);
        all_executions_leave(folder.path(), &text, &expected, executions(4))
            .map_err(|reported| format!("{execution:?}, {steps} steps: {reported}"))
    });
}

/// Multicast data that arrives too early or never: the hazard checker reports it, and both executors detect it.
#[test]
fn the_hazard_checker_executes_all_ctas() {
    for_each(&EXECUTIONS, |execution| {
        let text = text(*execution);
        let [multicast_buffer, per_cta_buffer] = execution.4;
        let table = text.lines().find(|line| line.contains("multicast: ")).expect("a pipeline is multicast");
        let number = |word: &str| table.split_once(word).and_then(|(_, rest)| rest.split([',', ')']).next()?.parse::<u32>().ok());
        let empty = number("empty: ").expect("the table has the number of consumer arrivals");
        let mutants = [
            (edited(&text, &format!("empty: {empty}"), &format!("empty: {}", empty / 2)), "free a stage of pipeline0"),
            (edited(&text, &format!(", multicast: [{multicast_buffer}]"), ""), "free a stage of pipeline0"),
        ];
        for (text, message) in mutants {
            let reported = hazard_checked(&text).err().unwrap_or_default();
            if !reported.contains(message) {
                return Err(format!("{execution:?}: the hazard checker reports '{reported}', not '{message}'"));
            }
            let folder = temporary();
            let expected = execution.0.launch(folder.path(), STEPS[3]);
            written(folder.path(), &text);
            detected_by_both(folder.path(), &expected, &reported)?;
        }
        let invalid_lists = [
            (per_cta_buffer.to_string(), "each CTA copies tiles of its own"),
            (String::new(), "multicasts into none of its buffers"),
        ];
        for (buffers, message) in invalid_lists {
            let reported =
                hazard_checked(&edited(&text, &format!("multicast: [{multicast_buffer}]"), &format!("multicast: [{buffers}]")))
                    .err();
            if !reported.as_ref().is_some_and(|reported| reported.contains(message)) {
                return Err(format!("{execution:?}: the hazard checker reports {reported:?}, not '{message}'"));
            }
        }
        Ok(())
    });
}

/// Faults that only PTX can contain; `tile-sim` must report them.
#[test]
fn the_barriers_of_a_cluster_are_needed() {
    for_each(&EXECUTIONS, |execution| {
        let folder = temporary();
        let expected = execution.0.launch(folder.path(), STEPS[3]);
        written(folder.path(), &text(*execution));
        let path = folder.path().join("k.ptx");
        let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
        let bytes = ptx.split_once("expect_tx.shared.b64").and_then(|(_, rest)| rest.split("], ").nth(1)?.split(';').next());
        let bytes: u32 = bytes.and_then(|bytes| bytes.trim().parse().ok()).expect("it sets the transaction count");
        let mutants = [
            (
                "the barrier at the start",
                lines_without(&ptx, "barrier.cluster.arrive.aligned").replace("barrier.cluster.wait.aligned", "bar.sync 0"),
            ),
            ("the barrier at the end", lines_without(&lines_without(&ptx, "barrier.cluster.arrive;"), "barrier.cluster.wait;")),
            ("the bytes of the other CTA", ptx.replace(&format!("], {bytes};"), &format!("], {};", bytes / 2))),
            ("TMA copies for both CTAs", ptx.replace(".multicast::cluster [", " [").replace("], %rs1;", "];")),
        ];
        for (what, mutant) in mutants {
            if !is_detected(folder.path(), &mutant, &expected) {
                return Err(format!("{execution:?}: tile-sim detects nothing without {what}"));
            }
        }
        Ok(())
    });
}
