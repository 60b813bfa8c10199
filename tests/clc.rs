//! Tests of matmuls that steal work with cluster launch control (CLC). Both executors must compute the expected output, with
//! several schedule seeds and with early and late delivery. `tile-sim` must detect every injected fault.

use base::File;
use tests::cluster_matmul::ClusterMatmul;
use tests::scheduled::{check_all_executions, check_hazards, executions, replace_once, tile_sim_detects, write_program_and_ptx};
use tests::{for_each, root, run, temporary_folder};

/// A matmul with one CTA per tile block, or with clusters of two CTAs.
const MATMUL: ClusterMatmul = ClusterMatmul { kernel: "cluster_matmul", rows: 128, columns: 64 };
/// A matmul with tiles large enough for CTA pairs.
const PAIR: ClusterMatmul = ClusterMatmul { kernel: "cluster_pair", rows: 256, columns: 128 };
/// The grid's extents in tile blocks, which differ to detect exchanged axes.
const TILE_BLOCKS: [usize; 2] = [2, 3];
/// Trip counts of the K loop: none, fewer than the pipeline has stages, and more.
const TRIP_COUNTS: [usize; 3] = [0, 1, 9];

/// A matmul, a target, the options of `tile-lower-as`, and the options of `tile-sched`.
type Execution = (ClusterMatmul, &'static str, &'static [&'static str], &'static [&'static str]);

const SINGLE_CTA: &str = "--cluster=1";
const CLUSTER_OF_TWO: &str = "--cluster=2";
/// The tested programs, targets and options.
const EXECUTIONS: [Execution; 8] = [
    (MATMUL, "sm_100", &[SINGLE_CTA], &[]),
    (MATMUL, "sm_100", &[SINGLE_CTA], &["--roles=off"]),
    (MATMUL, "sm_110", &[SINGLE_CTA, "--tma=off"], &[]),
    (MATMUL, "sm_120", &[SINGLE_CTA, "--tma=on"], &["--roles=on"]),
    (MATMUL, "sm_120", &[SINGLE_CTA], &["--roles=off"]),
    (MATMUL, "sm_100", &[CLUSTER_OF_TWO], &["--multicast=on"]),
    (PAIR, "sm_100", &[CLUSTER_OF_TWO], &["--cta-pairs=on"]),
    (PAIR, "sm_100", &[CLUSTER_OF_TWO], &["--multicast=off", "--cta-pairs=off"]),
];

/// Compiles the matmul of an execution with work stealing (`--clc=on`). Returns the `.sched` text.
fn scheduled_text((matmul, target, lowering, scheduling): Execution) -> String {
    matmul.scheduled_text(target, &[lowering, &["--clc=on"]].concat(), scheduling)
}

#[test]
fn ctas_steal_work() {
    let cases: Vec<(Execution, usize)> =
        EXECUTIONS.into_iter().flat_map(|execution| TRIP_COUNTS.map(|trip_count| (execution, trip_count))).collect();
    for_each(&cases, |(execution, trip_count)| {
        let (folder, text) = (temporary_folder(), scheduled_text(*execution));
        check_hazards(&text)?;
        let expected = execution.0.write_grid_launch(folder.path(), *trip_count, TILE_BLOCKS);
        check_all_executions(folder.path(), &text, &expected, executions(3))
            .map_err(|reported| format!("{execution:?}, {trip_count} iterations: {reported}"))
    });
}

/// Grids of one tile block, and of several along either axis. Some CTAs find no tile block left to steal.
#[test]
fn grids_of_one_and_of_several_tile_blocks_are_right() {
    for_each(&[[1, 1], [2, 1], [1, 5]], |tiles| {
        for execution in [EXECUTIONS[0], EXECUTIONS[6]] {
            let folder = temporary_folder();
            let expected = execution.0.write_grid_launch(folder.path(), TRIP_COUNTS[1], *tiles);
            let context = |reported| format!("{execution:?}, {tiles:?} tile blocks: {reported}");
            check_all_executions(folder.path(), &scheduled_text(execution), &expected, executions(3)).map_err(context)?;
        }
        Ok(())
    });
}

/// `tile-sim` must detect these faults in PTX. A `.sched` file cannot express them.
#[test]
fn clc_responses_are_waited_for_and_read_by_all_warps() {
    for_each(&[EXECUTIONS[0], EXECUTIONS[1], EXECUTIONS[6]], |execution| {
        let folder = temporary_folder();
        let expected = execution.0.write_grid_launch(folder.path(), TRIP_COUNTS[1], [4, 4]);
        write_program_and_ptx(folder.path(), &scheduled_text(*execution));
        let ptx = std::fs::read_to_string(folder.path().join("k.ptx")).expect("tile-ptx has written it");
        let mut mutants = vec![
            (
                "the transaction count",
                ptx.replace("mbarrier.arrive.expect_tx.shared.b64 state, [", "mbarrier.arrive.shared.b64 state, [")
                    .replace("], 16; }", "]; }"),
            ),
            ("the arrivals of all readers", fewer_readers(&ptx)),
        ];
        if ptx.contains("bytes.multicast::cluster::all") {
            mutants.push(("the response for both CTAs", ptx.replace("bytes.multicast::cluster::all", "bytes")));
            mutants.push(("the CTA that sends the request", ptx.replace("mapa.shared::cluster.u32 there, there, 0; setp", "setp")));
        }
        for (removed_part, mutant) in mutants {
            assert!(mutant != ptx, "{execution:?}: without {removed_part} it is the same");
            if !tile_sim_detects(folder.path(), &mutant, &expected) {
                return Err(format!("{execution:?}: tile-sim detects nothing without {removed_part}"));
            }
        }
        Ok(())
    });
}

/// PTX whose barriers expect one arrival fewer, so that a stage of a CLC response is released before all warps have read it.
fn fewer_readers(ptx: &str) -> String {
    let with_fewer_arrivals = |line: &str| {
        let (start, count) = line.strip_prefix("\tmbarrier.init")?.strip_suffix(';')?.rsplit_once("], ")?;
        let count: u32 = count.parse().ok().filter(|count| *count > 1)?;
        Some(format!("\tmbarrier.init{start}], {};", count - 1))
    };
    ptx.lines().map(|line| with_fewer_arrivals(line).unwrap_or_else(|| line.into()) + "\n").collect()
}

/// The verifier must refuse a program in which another buffer overlaps the shared memory of CLC responses.
#[test]
fn clc_responses_overlap_no_other_buffer() {
    let text = scheduled_text(EXECUTIONS[0]);
    let line = text.lines().find(|line| line.contains("shared_bytes: ")).expect("the function has a size of shared memory");
    let bytes: u32 = line.trim().trim_start_matches("shared_bytes: ").trim_end_matches(',').parse().expect("a number");
    let with_shared_bytes = |text: &str, bytes: u32| replace_once(text, line, &format!("  shared_bytes: {bytes},"));
    let invalid_programs = [
        (with_shared_bytes(&text, bytes - 8), "from a multiple of 16"),
        (with_shared_bytes(&text, bytes - 16), "something else overlaps the CLC responses"),
        (
            replace_once(&scheduled_text(EXECUTIONS[4]), "//!tile target sm_120", "//!tile target sm_89"),
            "no cluster launch control",
        ),
    ];
    for (text, message) in invalid_programs {
        let reported = check_hazards(&text).err().unwrap_or_default();
        assert!(reported.contains(message), "the verifier reports '{reported}', not '{message}'");
    }
}

/// Only the loop over stolen tile blocks may contain `clc_block_id`. Reason: an operand of the op is the counter of this loop.
#[test]
fn stolen_blocks_are_requested_per_iteration() {
    const HEAD: &str = "//!tile tileaa 4 lowered\n//!tile option opt-level=3\n//!tile producer test\n//!tile input 0\n";
    const BODY: &str = "func \"f\"(%p: ptr<i32>) () {
  %zero = constant(0) : i32
  %one = constant(1) : i32
  %all = clc_block_count : i32
  for(lower: %zero, upper: %all, step: %one) {
    (%iteration: i32)
    %x = clc_block_id(iteration: %iteration, axis: 0) : i32
    continue
  }
  return
}
";
    let second_loop = "  for(lower: %zero, upper: %all, step: %one) {\n    (%other: i32)\n    continue\n  }\n  return\n";
    let nested =
        "    (%iteration: i32)\n    for(lower: %zero, upper: %all, step: %one) {\n      (%other: i32)\n      continue\n    }\n";
    let assert_refused = |from: &str, to: &str, message: &str| {
        let text = format!("{HEAD}{}", replace_once(BODY, from, to));
        let reported = File::<tileaa::Module>::read(text.as_bytes(), "case").err().map(|error| error.message).unwrap_or_default();
        assert!(reported.contains(message), "'{reported}' instead of '{message}':\n{text}");
    };
    File::<tileaa::Module>::read(format!("{HEAD}{BODY}").as_bytes(), "case").expect("nothing is wrong with it");
    assert_refused("lower: %zero", "lower: %one", "a CLC loop counts from 0 in steps of 1");
    assert_refused("step: %one", "step: %all", "a CLC loop counts from 0 in steps of 1");
    assert_refused("upper: %all", "upper: %one", "belongs to no iteration of the CLC loop");
    assert_refused("iteration: %iteration", "iteration: %one", "belongs to no iteration of the CLC loop");
    assert_refused("axis: 0", "axis: 3", "the grid has three axes");
    assert_refused("  return\n", second_loop, "there are two CLC loops");
    assert_refused("    (%iteration: i32)\n", nested, "the CLC block count may only be the end of the CLC loop");
    assert_refused(
        "    continue\n",
        "    %more = binary(kind: xor, lhs: %all, rhs: %one) : i32\n    continue\n",
        "the CLC block count may only be the end of the CLC loop",
    );
}

/// `--clc=on` is refused if the kernel must execute a side effect once, or if the target has no cluster launch control.
#[test]
fn clc_is_refused_if_it_is_wrong_or_unsupported() {
    for (kernel, target, message) in [
        ("run/cluster_matmul/kernel.tile", "sm_90", "sm_90 has no cluster launch control"),
        ("fault-injection/atomics.tileir", "sm_100", "must execute once"),
    ] {
        let (folder, source) = (temporary_folder(), root().join("tests").join(kernel).display().to_string());
        let bytecode = folder.path().join("k.tileirbc").display().to_string();
        run("tile-write", &[&source, "-o", &bytecode], b"").ok("tile-write");
        let ran = run("tileiras", &["--gpu-name", target, "--clc=on", "--emit=as", &bytecode, "-o", "-"], b"");
        assert!(ran.code != Some(0) && ran.stderr.contains(message), "{kernel} for {target}: {:?} {}", ran.code, ran.stderr);
    }
}
