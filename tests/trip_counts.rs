//! Tests of a matmul whose loop has a trip count that is a kernel argument. The stage files, the `.sched` files of all phases and
//! the PTX must compute the expected output. Trip counts are zero, less than the number of pipeline stages, and larger. Some tests
//! edit the schedule.

use std::path::Path;
use tests::{for_each, run, temporary_folder};

/// The Tile IR text of a matmul. Each CTA computes the product of `SIDE` rows of A with B. The argument `%steps` is the trip count
/// of the K loop.
const KERNEL: &str = "//!tile tileir 2 read
//!tile producer test
//!tile input 0
entry @matmul(%a: tile<ptr<ELEM>>, %b: tile<ptr<ELEM>>, %c: tile<ptr<SUM>>, %steps: tile<i32>) {
  %a16 = assume div_by<16>, %a : tile<ptr<ELEM>>
  %b16 = assume div_by<16>, %b : tile<ptr<ELEM>>
  %c16 = assume div_by<16>, %c : tile<ptr<SUM>>
  %lhs = make_tensor_view %a16, shape = [ROWS, DEPTH], strides = [DEPTH, 1] : tensor_view<ROWSxDEPTHxELEM, strides=[DEPTH,1]>
  %rhs = make_tensor_view %b16, shape = [DEPTH, SIDE], strides = [SIDE, 1] : tensor_view<DEPTHxSIDExELEM, strides=[SIDE,1]>
  %out = make_tensor_view %c16, shape = [ROWS, SIDE], strides = [SIDE, 1] : tensor_view<ROWSxSIDExSUM, strides=[SIDE,1]>
  %ls = make_partition_view %lhs : partition_view<tile=(SIDExSTEP), tensor_view<ROWSxDEPTHxELEM, strides=[DEPTH,1]>>
  %rs = make_partition_view %rhs : partition_view<tile=(STEPxSIDE), tensor_view<DEPTHxSIDExELEM, strides=[SIDE,1]>>
  %os = make_partition_view %out : partition_view<tile=(SIDExSIDE), tensor_view<ROWSxSIDExSUM, strides=[SIDE,1]>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <SUM: 0.000000e+00> : tile<SIDExSIDExSUM>
  %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<SIDExSIDExSUM>) {
    %l, %lt = load_view_tko weak %ls[%x, %i] : partition_view<tile=(SIDExSTEP), tensor_view<ROWSxDEPTHxELEM, strides=[DEPTH,1]>>, tile<i32> -> tile<SIDExSTEPxELEM>, token
    %r, %rt = load_view_tko weak %rs[%i, %zero] : partition_view<tile=(STEPxSIDE), tensor_view<DEPTHxSIDExELEM, strides=[SIDE,1]>>, tile<i32> -> tile<STEPxSIDExELEM>, token
    %next = mmaf %l, %r, %acc : tile<SIDExSTEPxELEM>, tile<STEPxSIDExELEM>, tile<SIDExSIDExSUM>
    continue %next : tile<SIDExSIDExSUM>
  }
  %stored = store_view_tko weak %sum, %os[%x, %zero] : tile<SIDExSIDExSUM>, partition_view<tile=(SIDExSIDE), tensor_view<ROWSxSIDExSUM, strides=[SIDE,1]>>, tile<i32> -> token
  return
}
";
/// The maximum trip count of the K loop. The arrays have elements for this number of iterations.
const MAX_STEPS: usize = 17;

/// The types and extents of a matmul.
#[derive(Clone, Copy)]
struct Matmul {
    /// Element type of the operands.
    elem: &'static str,
    /// Element type of the accumulator.
    sum: &'static str,
    /// Rows, and also columns, of a tile.
    side: usize,
    /// The extent along K of one iteration, in elements.
    step: usize,
}

/// An iteration with few instructions. The scheduler emits two loops: one whose iterations issue asynchronous copies, and one for
/// the remaining iterations.
const SHORT: Matmul = Matmul { elem: "f16", sum: "f32", side: 32, step: 32 };
/// A tile with the 64 rows that a warpgroup MMA (`wgmma`) needs.
const TALL: Matmul = Matmul { elem: "f16", sum: "f32", side: 64, step: 32 };
/// An accumulator tile that does not fit in shared memory.
const WIDE: Matmul = Matmul { elem: "f16", sum: "f32", side: 256, step: 16 };
/// An iteration with so many instructions that the scheduler emits only one loop.
const LONG: Matmul = Matmul { elem: "f64", sum: "f64", side: 64, step: 64 };

impl Matmul {
    fn depth(self) -> usize {
        MAX_STEPS * self.step
    }
    /// The rows of A, for a grid of two CTAs.
    fn rows(self) -> usize {
        2 * self.side
    }
    fn kernel(self) -> String {
        let sizes = [("STEP", self.step), ("DEPTH", self.depth()), ("SIDE", self.side), ("ROWS", self.rows())];
        let types = [("ELEM", self.elem), ("SUM", self.sum)];
        let names = sizes.map(|(name, size)| (name, size.to_string())).into_iter().chain(types.map(|(name, ty)| (name, ty.into())));
        names.fold(KERNEL.to_string(), |text, (name, value)| text.replace(name, &value))
    }
    fn operand_bytes(self, number: i32) -> Vec<u8> {
        if self.elem == "f64" { f64::from(number).to_le_bytes().to_vec() } else { f16_bytes(number).to_vec() }
    }
    fn accumulator_bytes(self, number: i32) -> Vec<u8> {
        if self.sum == "f64" { f64::from(number).to_le_bytes().to_vec() } else { (number as f32).to_le_bytes().to_vec() }
    }
}

fn lhs_element(row: usize, k: usize) -> i32 {
    (row * 7 + k * 3 + k / 32) as i32 % 9 - 4
}
fn rhs_element(k: usize, column: usize) -> i32 {
    (k * 5 + column * 2 + k / 32) as i32 % 7 - 3
}

/// The little-endian f16 bytes of an integer with a magnitude below 2048.
fn f16_bytes(number: i32) -> [u8; 2] {
    let sign = u16::from(number < 0) << 15;
    let exponent = number.unsigned_abs().checked_ilog2();
    let magnitude = exponent.map_or(0, |e| (15 + e as u16) << 10 | (number.unsigned_abs() as u16) << (10 - e) & 0x3ff);
    (sign | magnitude).to_le_bytes()
}

/// Writes the arrays, and a launch with a trip count of the K loop. Returns the expected bytes of the result.
fn write_launch(folder: &Path, matmul: Matmul, steps: usize) -> Vec<u8> {
    let (rows, columns, depth) = (matmul.rows(), matmul.side, matmul.depth());
    let a: Vec<u8> = (0..rows * depth).flat_map(|i| matmul.operand_bytes(lhs_element(i / depth, i % depth))).collect();
    let b: Vec<u8> = (0..depth * columns).flat_map(|i| matmul.operand_bytes(rhs_element(i / columns, i % columns))).collect();
    let c = vec![0xff; rows * columns * matmul.accumulator_bytes(0).len()];
    for (name, data) in [("a.in", a), ("b.in", b), ("c.in", c)] {
        std::fs::write(folder.join(name), data).expect("the folder takes files");
    }
    let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
    let params = format!(r#"{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}, {{"i32": {steps}}}"#);
    let text = format!(r#"{{"entry": null, "grid": [2, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
    std::fs::write(folder.join(format!("{steps}.json")), text).expect("the folder takes files");
    let total = |i: usize| (0..steps * matmul.step).map(|k| lhs_element(i / columns, k) * rhs_element(k, i % columns)).sum::<i32>();
    (0..rows * columns).flat_map(|i| matmul.accumulator_bytes(total(i))).collect()
}

/// A matmul compiled for a target, with a directory that has the files of all stages.
struct Kernel {
    folder: tempfile::TempDir,
    matmul: Matmul,
    target: &'static str,
}

impl Kernel {
    fn new(matmul: Matmul, target: &'static str) -> Kernel {
        Kernel::with_lowering_options(matmul, target, &[])
    }
    /// A kernel whose operands threads copy with `cp.async` instead of TMA.
    fn copied_by_threads(matmul: Matmul, target: &'static str) -> Kernel {
        Kernel::with_lowering_options(matmul, target, &["--tma=off"])
    }
    fn with_lowering_options(matmul: Matmul, target: &'static str, options: &[&str]) -> Kernel {
        let kernel = Kernel { folder: temporary_folder(), matmul, target };
        std::fs::write(kernel.path("k.tile"), matmul.kernel()).expect("the folder takes files");
        kernel.run_stage("tile-lower-aa", &["-O3"], "k.tile", "k.aa");
        kernel.run_stage("tile-lower-as", &[&["--gpu-name", target], options].concat(), "k.aa", "k.as");
        kernel.run_stage("tile-sched", &["--stop-after=analysis", "--format=text"], "k.as", "analysis.sched");
        kernel.run_later_phases();
        kernel
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    /// Runs a stage on a file of the kernel.
    fn run_stage(&self, tool: &str, options: &[&str], from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        run(tool, &[options, &[&from, "-o", &to]].concat(), b"").ok(&format!("{tool} for {}", self.target));
    }

    /// Runs the phases after `analysis` on `analysis.sched`, and emits PTX.
    fn run_later_phases(&self) {
        self.run_stage("tile-sched", &["--stop-after=alloc"], "analysis.sched", "alloc.sched");
        self.run_stage("tile-sched", &[], "alloc.sched", "k.sched");
        self.run_stage("tile-ptx", &[], "k.sched", "k.ptx");
    }

    /// The `.sched` text after the phase `analysis`.
    fn analysis_text(&self) -> String {
        std::fs::read_to_string(self.path("analysis.sched")).expect("it was written")
    }

    /// The number of stages of the loop's modulo schedule.
    fn stage_count(&self) -> usize {
        let text = self.analysis_text();
        let numbers =
            text.split("stage: ").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        1 + numbers.map(|number| number.parse().expect("a stage is a number")).max().unwrap_or(0)
    }

    /// The number of loops after scheduling.
    fn loop_count(&self) -> usize {
        let text = String::from_utf8(run("tile-dump", &[&self.path("k.sched")], b"").ok("tile-dump")).expect("text");
        text.lines().filter(|line| line.contains(" = for(")).count()
    }

    /// Checks the output of each stage file and of each phase with a trip count. Checks the PTX with early and with late delivery.
    fn check(&self, steps: usize) -> Result<(), String> {
        let folder = temporary_folder();
        let expected = write_launch(folder.path(), self.matmul, steps);
        let description = folder.path().join(format!("{steps}.json")).display().to_string();
        let simulated = ["--races=error", "--schedule-seed=3"];
        let runs: [(&str, &str, Vec<&str>); 7] = [
            ("tile-run", "k.tile", vec!["--check"]),
            ("tile-run", "k.as", vec![]),
            ("tile-run", "analysis.sched", vec![]),
            ("tile-run", "alloc.sched", vec![]),
            ("tile-run", "k.sched", vec![]),
            ("tile-sim", "k.ptx", [&simulated[..], &["--delivery=early"]].concat()),
            ("tile-sim", "k.ptx", [&simulated[..], &["--delivery=late"]].concat()),
        ];
        for (tool, file, options) in runs {
            let context = format!("{steps} steps for {}: {file} {options:?}", self.target);
            let (file, out) = (self.path(file), folder.path().display().to_string());
            let ran = run(tool, &[&[&file, "--launch", &description, "--out-dir", &out], &options[..]].concat(), b"");
            if ran.code != Some(0) {
                return Err(format!("{context}: {}", ran.stderr.trim()));
            }
            let got = std::fs::read(folder.path().join("c.bin")).map_err(|error| format!("{context}: {error}"))?;
            if got != expected {
                return Err(format!("{context}: the matmul is wrong"));
            }
        }
        Ok(())
    }
}

#[test]
fn loops_with_cp_async_are_correct_for_all_trip_counts() {
    let kernels = ["sm_80", "sm_90", "sm_100", "sm_120"].map(|target| Kernel::copied_by_threads(SHORT, target));
    check_trip_counts(&kernels, 3, 2);
}

#[test]
fn loops_with_tma_are_correct_for_all_trip_counts() {
    check_trip_counts(&[Kernel::new(SHORT, "sm_120")], 3, 1);
}

#[test]
fn long_loops_are_correct_for_all_trip_counts() {
    let kernels = ["sm_80", "sm_100"].map(|target| Kernel::new(LONG, target));
    check_trip_counts(&kernels, 2, 1);
}

#[test]
fn loops_with_mmas_in_flight_are_correct_and_need_each_wait() {
    let kernel = Kernel::copied_by_threads(TALL, "sm_90");
    assert!(kernel.analysis_text().contains(" in_flight {"), "{}", kernel.analysis_text());
    check_trip_counts(std::slice::from_ref(&kernel), 3, 2);
    // In the phase `analysis`, no MMA may be in flight yet.
    let with_early_in_flight = kernel.analysis_text().replace("mma(", "mma(in_flight: true, ");
    let ran = run("tile-sched", &["-"], with_early_in_flight.as_bytes());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("no MMA is in flight in phase analysis"), "{}", ran.stderr);
    // The hazard checker refuses the program if all ops of one of these kinds are removed.
    let text = String::from_utf8(run("tile-dump", &[&kernel.path("k.sched")], b"").ok("tile-dump")).expect("text");
    let cases = [
        ("async_fence", "is read in place without a fence"),
        ("group_wait(pending: 1", "overwritten while an MMA in flight reads it"),
        ("group_wait(pending: 0", "is used while the MMA that computes it is in flight"),
    ];
    for (op, complaint) in cases {
        let remaining_lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with(op)).collect();
        assert!(remaining_lines.len() < text.lines().count(), "there is no {op} in\n{text}");
        let ran = run("tile-sched", &["--verify-only", "-"], remaining_lines.join("\n").as_bytes());
        assert_eq!(ran.code, Some(1), "without {op}: {}", ran.stderr);
        assert!(ran.stderr.contains(complaint), "without {op}: {}", ran.stderr);
    }
}

#[test]
fn a_stage_read_by_an_mma_in_flight_is_refilled_after_a_barrier() {
    let kernel = Kernel::copied_by_threads(TALL, "sm_90");
    // Delay the MMA, so that it is issued after a copy.
    let text = kernel.analysis_text();
    let is_mma = |line: &&str| line.contains("stage: 3, cycle: 0)") && line.ends_with("= mma");
    let mma_line = text.lines().find(is_mma).unwrap_or_else(|| panic!("no matmul in the last stage:\n{text}"));
    assert!(!text.contains("stage: 0, cycle: 0)"), "{text}");
    let delayed = text.replace(mma_line, &mma_line.replace("cycle: 0)", "cycle: 120)"));
    std::fs::write(kernel.path("analysis.sched"), delayed).expect("the folder takes files");
    kernel.run_later_phases();
    check_trip_counts(std::slice::from_ref(&kernel), 3, 2);
    // Each warp waits for its own part of an MMA. Without a barrier, an MMA of another warp may still read the stage.
    let text = String::from_utf8(run("tile-dump", &[&kernel.path("k.sched")], b"").ok("tile-dump")).expect("text");
    let mut lines: Vec<&str> = text.lines().collect();
    let line_of = |lines: &[&str], op: &str| lines.iter().position(|line| line.contains(op)).expect("the loop has it");
    let wait = line_of(&lines, "copy_wait(");
    let moved_lines: Vec<&str> = lines.drain(wait..wait + 3).collect();
    assert!(moved_lines[2].contains("barrier("), "{moved_lines:?}");
    let mma_index = line_of(&lines, "= mma(");
    lines.splice(mma_index..mma_index, moved_lines);
    let ran = run("tile-sched", &["--verify-only", "-"], lines.join("\n").as_bytes());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("overwritten before a barrier after its last read"), "{}", ran.stderr);
}

#[test]
fn accumulators_too_large_for_shared_memory_are_correct() {
    for_each(&["sm_80", "sm_90"], |target| Kernel::new(WIDE, target).check(2));
}

/// Checks kernels with trip counts around the number of stages. Each schedule must have at least `min_stages` stages, and each
/// `.sched` file must contain `loop_copies` loops.
fn check_trip_counts(kernels: &[Kernel], min_stages: usize, loop_copies: usize) {
    let mut runs = Vec::new();
    for kernel in kernels {
        let stages = kernel.stage_count();
        assert!(stages >= min_stages, "the loop has {stages} stages for {}", kernel.target);
        assert_eq!(kernel.loop_count(), loop_copies, "for {}", kernel.target);
        let mut counts = vec![0, 1, 2, stages - 1, stages, stages + 1, MAX_STEPS];
        counts.sort_unstable();
        counts.dedup();
        runs.extend(counts.into_iter().map(|count| (kernel, count)));
    }
    for_each(&runs, |(kernel, count)| kernel.check(*count));
}

/// Replaces the line of op 0 in a schedule by `change` of this line.
fn with_first_op(text: &str, change: impl Fn(&str) -> String) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with("(op: 0,")).expect("the schedule has a first op");
    text.replace(line, &change(line))
}

#[test]
fn edited_schedules_compile_or_are_refused() {
    let kernel = Kernel::new(SHORT, "sm_80");
    let text = kernel.analysis_text();
    // Moves the copy of the left operand from stage 0 to stage 1, which shortens its prefetch distance by one.
    let delayed = with_first_op(&text, |line| line.replace("stage: 0", "stage: 1"));
    assert_ne!(delayed, text);
    std::fs::write(kernel.path("analysis.sched"), delayed).expect("the folder takes files");
    kernel.run_later_phases();
    for_each(&[0, 1, 2, 3, 4, 5, 17], |count| kernel.check(*count));

    // Both copies are in one cycle, but the target issues one copy at a time.
    let second_op = text.lines().find(|line| line.trim_start().starts_with("(op: 1,")).expect("the schedule has a second op");
    let with_both_copies = with_first_op(&text, |_| second_op.replace("op: 1,", "op: 0,"));
    let ran = run("tile-sched", &["-"], with_both_copies.as_bytes());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("op 0 (copy_view) and op 1 (copy_view) both need"), "{}", ran.stderr);
}
