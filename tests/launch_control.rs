//! Products of blocks that take over others of the launch: right in every executor, order and delivery, whoever asks and whoever reads, and
//! broken in each way that there is, which `tile-sim` sees.

use base::File;
use tests::clustered::Clustered;
use tests::scheduled::{all_leave, edited, is_seen, judged, ways, written};
use tests::{for_each, root, run, temporary};

const PRODUCT: Clustered = Clustered { kernel: "cluster_matmul", rows: 128, columns: 64 };
const PAIR: Clustered = Clustered { kernel: "cluster_pair", rows: 256, columns: 128 };
/// More tile blocks along one axis than along the other.
const TILES: [usize; 2] = [2, 3];
/// None; fewer than slots; many times around the ring.
const STEPS: [usize; 3] = [0, 1, 9];

/// A program, a target, and the options of `tile-lower-as` and of `tile-sched`.
type Way = (Clustered, &'static str, &'static [&'static str], &'static [&'static str]);

const ALONE: &str = "--cluster=1";
const TOGETHER: &str = "--cluster=2";
const WAYS: [Way; 8] = [
    (PRODUCT, "sm_100", &[ALONE], &[]),
    (PRODUCT, "sm_100", &[ALONE], &["--agents=off"]),
    (PRODUCT, "sm_110", &[ALONE, "--tma=off"], &[]),
    (PRODUCT, "sm_120", &[ALONE, "--tma=on"], &["--agents=on"]),
    (PRODUCT, "sm_120", &[ALONE], &["--agents=off"]),
    (PRODUCT, "sm_100", &[TOGETHER], &["--multicast=on"]),
    (PAIR, "sm_100", &[TOGETHER], &["--pairs=on"]),
    (PAIR, "sm_100", &[TOGETHER], &["--multicast=off", "--pairs=off"]),
];

fn text((product, target, lowering, scheduling): Way) -> String {
    product.scheduled(target, &[lowering, &["--launch-control=on"]].concat(), scheduling)
}

#[test]
fn blocks_take_over_others() {
    let cases: Vec<(Way, usize)> = WAYS.into_iter().flat_map(|way| STEPS.map(|steps| (way, steps))).collect();
    for_each(&cases, |(way, steps)| {
        let (folder, text) = (temporary(), text(*way));
        judged(&text)?;
        let wanted = way.0.launch_tiles(folder.path(), *steps, TILES);
        all_leave(folder.path(), &text, &wanted, ways(3)).map_err(|said| format!("{way:?}, {steps} steps: {said}"))
    });
}

/// One tile block more or less, and blocks that find none to take over.
#[test]
fn any_number_of_tile_blocks_is_right() {
    for_each(&[[1, 1], [2, 1], [1, 5]], |tiles| {
        for way in [WAYS[0], WAYS[6]] {
            let folder = temporary();
            let wanted = way.0.launch_tiles(folder.path(), STEPS[1], *tiles);
            let told = |said| format!("{way:?}, {tiles:?} tile blocks: {said}");
            all_leave(folder.path(), &text(way), &wanted, ways(3)).map_err(told)?;
        }
        Ok(())
    });
}

/// What only PTX says is for `tile-sim` to see.
#[test]
fn answers_are_waited_for_and_read_by_all() {
    for_each(&[WAYS[0], WAYS[1], WAYS[6]], |way| {
        let folder = temporary();
        let wanted = way.0.launch_tiles(folder.path(), STEPS[1], [4, 4]);
        written(folder.path(), &text(*way));
        let ptx = std::fs::read_to_string(folder.path().join("k.ptx")).expect("tile-ptx has written it");
        let mut mutants = vec![
            (
                "the bytes that come",
                ptx.replace("mbarrier.arrive.expect_tx.shared.b64 state, [", "mbarrier.arrive.shared.b64 state, [")
                    .replace("], 16; }", "]; }"),
            ),
            ("all that read", fewer_readers(&ptx)),
        ];
        if ptx.contains("bytes.multicast::cluster::all") {
            mutants.push(("the answer for both blocks", ptx.replace("bytes.multicast::cluster::all", "bytes")));
            mutants.push(("the block that asks", ptx.replace("mapa.shared::cluster.u32 there, there, 0; setp", "setp")));
        }
        for (what, mutant) in mutants {
            assert!(mutant != ptx, "{way:?}: without {what} it is the same");
            if !is_seen(folder.path(), &mutant, &wanted) {
                return Err(format!("{way:?}: tile-sim sees nothing without {what}"));
            }
        }
        Ok(())
    });
}

/// A slot of an answer counts as read before all have read it.
fn fewer_readers(ptx: &str) -> String {
    let fewer = |line: &str| {
        let (start, count) = line.strip_prefix("\tmbarrier.init")?.strip_suffix(';')?.rsplit_once("], ")?;
        let count: u32 = count.parse().ok().filter(|count| *count > 1)?;
        Some(format!("\tmbarrier.init{start}], {};", count - 1))
    };
    ptx.lines().map(|line| fewer(line).unwrap_or_else(|| line.into()) + "\n").collect()
}

/// The memory of answers is theirs alone.
#[test]
fn answers_lie_apart() {
    let text = text(WAYS[0]);
    let line = text.lines().find(|line| line.contains("shared_bytes: ")).expect("it says how much shared memory it takes");
    let bytes: u32 = line.trim().trim_start_matches("shared_bytes: ").trim_end_matches(',').parse().expect("a number");
    let of = |text: &str, bytes: u32| edited(text, line, &format!("  shared_bytes: {bytes},"));
    let broken = [
        (of(&text, bytes - 8), "from a multiple of 16"),
        (of(&text, bytes - 16), "something else lies where the answers of launch control are"),
        (edited(&self::text(WAYS[4]), "//!tile target sm_120", "//!tile target sm_89"), "takes over others"),
    ];
    for (text, message) in broken {
        let said = judged(&text).err().unwrap_or_default();
        assert!(said.contains(message), "the verifier says '{said}', not '{message}'");
    }
}

/// Which tile block it is, is asked in rounds of the one loop over them.
#[test]
fn what_is_taken_is_asked_in_rounds() {
    const HEAD: &str = "//!tile tileaa 3 lowered\n//!tile option opt-level=3\n//!tile producer test\n//!tile input 0\n";
    const BODY: &str = "func \"f\"(%p: ptr<i32>) () {
  %zero = constant(0) : i32
  %one = constant(1) : i32
  %all = taken_count : i32
  for(lower: %zero, upper: %all, step: %one) {
    (%round: i32)
    %x = taken_block(round: %round, axis: 0) : i32
    continue
  }
  return
}
";
    let again = "  for(lower: %zero, upper: %all, step: %one) {\n    (%other: i32)\n    continue\n  }\n  return\n";
    let nested =
        "    (%round: i32)\n    for(lower: %zero, upper: %all, step: %one) {\n      (%other: i32)\n      continue\n    }\n";
    let refused = |from: &str, to: &str, message: &str| {
        let text = format!("{HEAD}{}", edited(BODY, from, to));
        let said = File::<tileaa::Module>::read(text.as_bytes(), "case").err().map(|error| error.message).unwrap_or_default();
        assert!(said.contains(message), "'{said}' instead of '{message}':\n{text}");
    };
    File::<tileaa::Module>::read(format!("{HEAD}{BODY}").as_bytes(), "case").expect("nothing is wrong with it");
    refused("lower: %zero", "lower: %one", "counted from 0 in ones");
    refused("step: %one", "step: %all", "counted from 0 in ones");
    refused("upper: %all", "upper: %one", "that no round is about");
    refused("round: %round", "round: %one", "that no round is about");
    refused("axis: 0", "axis: 3", "the grid has three axes");
    refused("  return\n", again, "there are two loops");
    refused("    (%round: i32)\n", nested, "and nothing else");
    refused("    continue\n", "    %more = binary(kind: xor, lhs: %all, rhs: %one) : i32\n    continue\n", "and nothing else");
}

/// Where something must happen once, or a target cannot, the option is refused.
#[test]
fn what_happens_once_is_not_taken_over() {
    for (kernel, target, message) in [
        ("run/cluster_matmul/kernel.tile", "sm_90", "sm_90 has no launch control"),
        ("planted/atomics.tileir", "sm_100", "must happen once"),
    ] {
        let (folder, source) = (temporary(), root().join("tests").join(kernel).display().to_string());
        let bytecode = folder.path().join("k.tileirbc").display().to_string();
        run("tile-write", &[&source, "-o", &bytecode], b"").ok("tile-write");
        let ran = run("tileiras", &["--gpu-name", target, "--launch-control=on", "--emit=as", &bytecode, "-o", "-"], b"");
        assert!(ran.code != Some(0) && ran.stderr.contains(message), "{kernel} for {target}: {:?} {}", ran.code, ran.stderr);
    }
}
