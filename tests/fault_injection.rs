//! Tests that `tile-validate` detects a fault injected into a stage. Each test breaks one rule of a stage, and validates a kernel
//! that depends on this rule. In debug builds, the stages query `common::fault_injection` for the rule to break.
//!
//! A case is a fault (`fault/ptx.wait`), or a kernel without one (`clean/matmul_f16/sm_80`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use tests::need::Need;
use tests::suite::{CaseResult, Suite};
use tests::{RunResult, files_below, root, run_to_end, temporary_folder, tests, tool};

/// The faults. A row has the name, which begins with the stage; the rule that the fault breaks; a kernel of `tests/fault-injection`
/// or `tests/run`; and the target.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    ("aa.bound", "a loop ends at its upper bound", "loops", "sm_80"),
    ("aa.cat", "the first operand of a concatenation comes first", "slices", "sm_80"),
    ("aa.compare", "a comparison keeps its sides", "numbers", "sm_80"),
    ("aa.counter", "the counter of a loop starts with the loop", "loops", "sm_80"),
    ("aa.dead", "ops with side effects are not dead", "loops", "sm_80"),
    ("aa.dimensions", "a view maps each tile dimension to the right array dimension", "views", "sm_80"),
    ("aa.direction", "a scan goes forwards or backwards", "recurrence", "sm_80"),
    ("aa.exchange", "compare-and-swap writes only if it finds the expected value", "atomics", "sm_80"),
    ("aa.extension", "an integer is sign-extended", "pointers", "sm_80"),
    ("aa.extreme", "of two disjoint ranges the lower one has the minimum", "numbers", "sm_80"),
    ("aa.index", "an index belongs to its dimension", "matmul_f16", "sm_80"),
    ("aa.invariant", "a value that a loop changes is not loop-invariant", "loops", "sm_80"),
    ("aa.mask", "a store leaves masked elements unchanged", "pointers", "sm_80"),
    ("aa.outside", "out-of-bounds elements have the view's padding value", "padding", "sm_80"),
    ("aa.padding", "a masked load returns the padding value", "pointers", "sm_80"),
    ("aa.print", "a message has all its values", "loops", "sm_80"),
    ("aa.promise", "only accesses under an in-bounds assumption are unchecked", "views", "sm_80"),
    ("aa.quotient", "a division uses its rounding mode", "numbers", "sm_80"),
    ("aa.range", "a comparison is folded only if the ranges are disjoint", "numbers", "sm_80"),
    ("aa.scope", "a value is used where it is defined", "loops", "sm_80"),
    ("aa.select", "a select takes the first value if the condition holds", "numbers", "sm_80"),
    ("aa.sides", "operands keep their order", "numbers", "sm_80"),
    ("aa.signs", "each factor has its own signedness", "matmul_bytes", "sm_80"),
    ("aa.start", "the counter of a loop starts at the lower bound", "loops", "sm_80"),
    ("aa.token", "an access follows the access of its token", "order", "sm_80"),
    ("as.carried", "each carried value has its own first value", "loops", "sm_80"),
    ("as.cat", "the halves of a concatenation keep their order", "slices", "sm_80"),
    ("as.halves", "both halves of a large tile are copied", "large_accumulator", "sm_120"),
    ("as.insert", "an inserted slice is in the tile", "slices", "sm_80"),
    ("as.lanes", "a reduction covers all lanes", "row_sum", "sm_80"),
    ("as.mask", "elements that a mask may separate do not share a vector access", "pointers", "sm_80"),
    ("as.padding", "a masked load returns the padding value", "pointers", "sm_80"),
    ("as.promise", "only accesses under an in-bounds assumption are unchecked", "views", "sm_80"),
    ("as.reverse", "a scan goes forwards or backwards", "last_nonzero", "sm_80"),
    ("as.scales", "each block of elements has its own scale", "scales", "sm_80"),
    ("as.signs", "each factor has its own signedness", "matmul_bytes", "sm_80"),
    ("as.slice", "the stride of slices is their extent", "slices", "sm_80"),
    ("as.transposed", "an operand is read in its memory order", "matmul_transposed", "sm_90"),
    ("as.warps", "a reduction covers all warps", "row_sum", "sm_80"),
    ("as.whole", "a vector access that crosses a bound is split", "product", "sm_80"),
    ("as.width", "an access is aligned to its size", "views", "sm_80"),
    ("ptx.broadcast", "a single-thread result is broadcast to the other threads", "atomics", "sm_80"),
    ("ptx.atomic", "an atomic maximum is signed", "atomics", "sm_80"),
    ("ptx.bound", "the first element after the bound is out of bounds", "views", "sm_80"),
    ("ptx.tma_tile", "each TMA tile has its own origin", "matmul_transposed", "sm_100"),
    ("ptx.bytes", "the transaction count includes the bytes of other CTAs", "cluster_tiles", "sm_90"),
    ("ptx.cat", "the halves of a concatenation keep their order", "slices", "sm_80"),
    ("ptx.compare", "a comparison is signed", "numbers", "sm_80"),
    ("ptx.cut", "a copy ends at the bound", "product", "sm_80"),
    ("ptx.commit", "both CTAs of a pair receive the completion of MMAs", "cluster_pair", "sm_100"),
    ("ptx.descriptor", "each k step of an MMA has its own operands", "groups_tf32", "sm_90"),
    ("ptx.early", "a fragment prefetched for the next iteration has landed", "matmul_early", "sm_80"),
    ("ptx.end", "a CTA exits only after the last access of another CTA to its memory", "cluster_tiles", "sm_90"),
    ("ptx.exponential", "the base of an exponential is e", "numbers", "sm_80"),
    ("ptx.first", "the first element of a scan has no predecessor", "recurrence", "sm_80"),
    ("ptx.fragment", "each k step of an MMA has its own operands", "matmul_f16", "sm_80"),
    ("ptx.lane", "each lane reads from the lane with the element", "lanes", "sm_80"),
    ("ptx.lanes", "lanes exchange with all others of their group", "row_sum", "sm_80"),
    ("ptx.last", "a loop ends before its upper bound", "loops", "sm_80"),
    ("ptx.leader", "the leader CTA of a pair waits for the TMA copies of both", "cluster_pair", "sm_100"),
    ("ptx.matrix", "fragments of a transposed operand are transposed", "matmul_f16", "sm_80"),
    ("ptx.nan", "a NaN propagates if the op requires it", "numbers", "sm_80"),
    ("ptx.offset", "each register has its own offset in shared memory", "slices", "sm_80"),
    ("ptx.once", "an atomic op executes once for each element", "atomics", "sm_80"),
    ("ptx.padding", "out-of-bounds elements have the view's padding value", "views", "sm_80"),
    ("ptx.pairs", "the registers of a pair keep their order", "polynomial", "sm_100"),
    ("ptx.part", "each CTA copies its own part", "cluster_tiles", "sm_90"),
    ("ptx.quotient", "a division uses its rounding mode", "numbers", "sm_80"),
    ("ptx.reach", "a scan doubles its reach", "recurrence", "sm_80"),
    ("ptx.rows", "each gathered row has its own index", "views", "sm_80"),
    ("ptx.select", "a selection takes the first where the condition holds", "numbers", "sm_80"),
    ("ptx.shift", "a shift to the right keeps the sign", "numbers", "sm_80"),
    ("ptx.sides", "all lanes of a group get the value of the first", "reduce_sides", "sm_80"),
    ("ptx.slice", "a slice begins at its offset", "slices", "sm_80"),
    ("ptx.stage", "each access is to its own stage", "matmul_f16", "sm_80"),
    ("ptx.step", "the stride of tiles is that of the view", "views", "sm_80"),
    ("ptx.table", "each element of a constant has its own value", "slices", "sm_80"),
    ("ptx.wait", "a copy has landed before it is read", "matmul_f16", "sm_80"),
    ("ptx.whole", "only a tile that is fully in bounds is unchecked", "views", "sm_80"),
    ("ptx.widen", "each of two neighbouring bf16 is widened separately", "rows_ahead", "sm_80"),
    ("sched.around", "the stage after the last one is the first", "matmul_f16", "sm_80"),
    ("sched.arrays", "a token orders accesses to two arrays, which may alias", "one_memory_twice", "sm_80"),
    ("sched.barrier", "a barrier separates accesses of different threads", "matmul_f16", "sm_80"),
    ("sched.commit", "each copy is committed", "matmul_f16", "sm_80"),
    ("sched.depth", "a staged buffer has a stage for each iteration that copies run ahead", "matmul_f16", "sm_80"),
    ("sched.distance", "a prefetched tile is that of the iteration that reads it", "matmul_f16", "sm_80"),
    ("sched.fence", "a fence makes writes of threads visible to MMAs", "groups_bytes", "sm_90"),
    ("sched.flight", "MMAs in flight complete before their operands change", "matmul_gradients", "sm_90"),
    ("sched.follower", "each warp role waits for the operands of its MMAs", "attention_latent", "sm_100"),
    ("sched.liveness", "buffers that are in use together do not overlap", "matmul_f16", "sm_80"),
    ("sched.multicast", "a multicast stage is free when all CTAs have released it", "cluster_tiles", "sm_90"),
    ("sched.order", "a barrier stands where a token orders accesses of different threads", "order", "sm_80"),
    ("sched.prologue", "the first copies are for the first iterations", "matmul_f16", "sm_80"),
    ("sched.release", "a stage is refilled only after its release", "groups_e4m3", "sm_100"),
    (
        "sched.iterations",
        "an access that a token orders after an earlier iteration waits for other threads",
        "stores_in_order",
        "sm_80",
    ),
    ("sched.wait", "a role waits for a copy before it reads the tile", "matmul_f16", "sm_80"),
];

/// The path of a kernel of `FAULTS`.
fn kernel_path(name: &str) -> PathBuf {
    let candidates =
        [format!("fault-injection/{name}.tileir"), format!("run/{name}/kernel.tileirbc"), format!("run/{name}/kernel.tile")];
    let mut paths = candidates.iter().map(|place| root().join("tests").join(place));
    paths.find(|path| path.exists()).unwrap_or_else(|| panic!("no kernel is called {name}"))
}

/// Runs `tile-validate` on a kernel, with a fault if one is given.
fn validate(kernel_name: &str, target: &str, fault: Option<&str>) -> RunResult {
    let folder = temporary_folder();
    let mut command = Command::new(tool("tile-validate"));
    command.arg(kernel_path(kernel_name)).args(["--gpu-name", target, "--keep=kept"]).current_dir(folder.path());
    command.env("TMPDIR", folder.path()).envs(fault.map(|fault| ("TILEWORKS_INJECT_FAULT", fault)));
    run_to_end(command, b"")
}

/// Panics if an executable that these tests start is missing or stale.
fn check_tools_are_current() {
    for name in ["tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-run", "tile-sim", "tile-validate"] {
        tool(name);
    }
}

/// Checks that `tile-validate` reports a difference (VAL001) if a stage breaks a rule.
fn check_is_detected(fault: &str, rule: &str, kernel: &str, target: &str) -> CaseResult {
    let ran = validate(kernel, target, Some(fault));
    let first_line = ran.stderr.lines().next().unwrap_or_default();
    match ran.code {
        Some(1) if first_line.contains("VAL001") => Ok(()),
        code => Err(format!("'{rule}' is broken, and tile-validate ends with {code:?}: {first_line}")),
    }
}

/// Checks that `tile-validate` reports no difference without a fault.
fn check_is_clean(kernel: &str, target: &str) -> CaseResult {
    match validate(kernel, target, None) {
        RunResult { code: Some(0), .. } => Ok(()),
        ran => Err(format!("tile-validate ends with {:?}: {}", ran.code, ran.stderr)),
    }
}

fn main() -> ExitCode {
    check_tools_are_current();
    let mut suite = Suite::new();
    for (fault, rule, kernel, target) in FAULTS {
        suite.case_with(&[Need::DebugTools], format!("fault/{fault}"), || check_is_detected(fault, rule, kernel, target));
    }
    let kernels: BTreeSet<_> = FAULTS.iter().map(|(.., kernel, target)| (*kernel, *target)).collect();
    for (kernel, target) in kernels {
        suite.case(format!("clean/{kernel}/{target}"), || check_is_clean(kernel, target));
    }
    suite.functions("rules/", tests![the_stages_query_exactly_the_faults_of_the_table]);
    suite.run()
}

fn the_stages_query_exactly_the_faults_of_the_table() {
    let table: BTreeSet<String> = FAULTS.iter().map(|(fault, ..)| fault.to_string()).collect();
    let sources = files_below(&root().join("tools")).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let mut queried_faults = BTreeSet::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = text.split("fault_injected(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let are_faults_of_this_tool = names.iter().all(|name| {
            let tool = match name.split_once('.').map(|(stage, _)| stage) {
                Some("aa") => "tile-lower-aa",
                Some("as") => "tile-lower-as",
                Some("sched") => "tile-sched",
                Some("ptx") => "tile-ptx",
                _ => return false,
            };
            path.starts_with(root().join("tools").join(tool))
        });
        assert!(are_faults_of_this_tool, "{}: {names:?}", path.display());
        queried_faults.extend(names.into_iter().map(str::to_string));
    }
    assert_eq!(queried_faults, table);
    assert!(table.len() >= 50);
}
