//! Tests of hand-written `.sched` functions with warp roles and pipelines. Both executors must compute the expected output, with
//! several schedule seeds and with early and late delivery. The hazard checker must report every injected fault. With the checker
//! disabled, both executors must detect the fault.

use std::path::Path;
use tests::scheduled::{
    check_hazards, execute_for_output, executions, file_of_tool, replace_once, without_lines_starting_with, write_program_and_ptx,
};
use tests::{for_each, root, run, temporary_folder};

/// A matmul whose load warps copy the operands with `cp.async`.
const CP_ASYNC_MATMUL: Matmul = Matmul { file: "copies", rows: [32, 1024], columns: 32, ctas: 1 };
/// A matmul whose load warps write the operands to shared memory for `wgmma`.
const WGMMA_MATMUL: Matmul = Matmul { file: "threads", rows: [64, 544], columns: 64, ctas: 2 };

/// The tested trip counts of the K loop. The largest count exceeds the number of stages of each pipeline.
const TRIP_COUNTS: [usize; 5] = [0, 1, 2, 3, 8];
/// The trip count of programs with an injected fault.
const FAULT_TRIP_COUNT: usize = 5;
/// The extent along K of one iteration, in elements.
const STEP: usize = 32;

/// A matmul in a hand-written `.sched` file of `formats/sched/tests/warp_roles`.
#[derive(Clone, Copy)]
struct Matmul {
    /// The name of the file without its extension.
    file: &'static str,
    /// The rows that a CTA computes, and the row stride of the left matrix in elements.
    rows: [usize; 2],
    /// The columns that a CTA computes.
    columns: usize,
    /// The number of CTAs of the grid.
    ctas: usize,
}

impl Matmul {
    fn text(self) -> String {
        let path = root().join("formats/sched/tests/warp_roles").join(self.file).with_extension("sched");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn lhs_element(row: usize, k: usize) -> i32 {
        (row * 7 + k * 3 + k / 32) as i32 % 9 - 4
    }
    fn rhs_element(k: usize, column: usize) -> i32 {
        (k * 5 + column * 2 + k / 32) as i32 % 7 - 3
    }

    /// Writes the launch with a trip count of the K loop to a directory. Returns the expected bytes of the result.
    fn write_launch(self, folder: &Path, steps: usize) -> Vec<u8> {
        let ([rows, stride], columns) = (self.rows, self.columns);
        let rows = rows * self.ctas;
        let a: Vec<u8> = (0..rows * stride).flat_map(|i| f16_bytes(Self::lhs_element(i / stride, i % stride))).collect();
        let b: Vec<u8> = (0..stride * columns).flat_map(|i| f16_bytes(Self::rhs_element(i / columns, i % columns))).collect();
        for (name, data) in [("a.in", a), ("b.in", b), ("c.in", vec![0xff; rows * columns * 4])] {
            std::fs::write(folder.join(name), data).expect("the folder takes files");
        }
        let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
        let params = format!(r#"{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}, {{"i32": {steps}}}"#);
        let ctas = self.ctas;
        let text =
            format!(r#"{{"entry": null, "grid": [{ctas}, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
        std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
        let sum = |i: usize| {
            (0..steps * STEP).map(|k| Self::lhs_element(i / columns, k) * Self::rhs_element(k, i % columns)).sum::<i32>()
        };
        (0..rows * columns).flat_map(|i| (sum(i) as f32).to_le_bytes()).collect()
    }
}

/// The little-endian f16 bytes of an integer with a magnitude below 2048.
fn f16_bytes(number: i32) -> [u8; 2] {
    let sign = u16::from(number < 0) << 15;
    let exponent = number.unsigned_abs().checked_ilog2();
    let magnitude = exponent.map_or(0, |e| (15 + e as u16) << 10 | (number.unsigned_abs() as u16) << (10 - e) & 0x3ff);
    (sign | magnitude).to_le_bytes()
}

#[test]
fn warp_roles_are_correct_in_every_execution() {
    let with_target = |text: String, target: &str| text.replace("//!tile target sm_80", &format!("//!tile target {target}"));
    let cases: Vec<(Matmul, String, usize)> = [
        (CP_ASYNC_MATMUL, CP_ASYNC_MATMUL.text()),
        (CP_ASYNC_MATMUL, with_target(CP_ASYNC_MATMUL.text(), "sm_90")),
        (WGMMA_MATMUL, WGMMA_MATMUL.text()),
    ]
    .into_iter()
    .flat_map(|(matmul, text)| TRIP_COUNTS.map(|trip_count| (matmul, text.clone(), trip_count)))
    .collect();
    for_each(&cases, |(matmul, text, trip_count)| {
        check_hazards(text)?;
        let folder = temporary_folder();
        let expected = matmul.write_launch(folder.path(), *trip_count);
        write_program_and_ptx(folder.path(), text);
        for (tool, options) in executions(4) {
            let output = execute_for_output(folder.path(), tool, file_of_tool(tool), &options)?;
            if output != expected {
                return Err(format!("{}: {tool} {options:?} has a wrong output after {trip_count} iterations", matmul.file));
            }
        }
        Ok(())
    });
}

/// Checks that `tile-link`, which runs ptxas, writes a cubin for the PTX of each program.
#[test]
fn ptxas_accepts_the_ptx() {
    for matmul in [CP_ASYNC_MATMUL, WGMMA_MATMUL] {
        let folder = temporary_folder();
        write_program_and_ptx(folder.path(), &matmul.text());
        let path = |name: &str| folder.path().join(name).display().to_string();
        run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"").ok("tile-link");
    }
}

/// Moves the first line that contains `moved_text` before the first other line that contains `before`.
fn move_line_before(text: &str, moved_text: &str, before: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let line_of = |lines: &[&str], part: &str| lines.iter().position(|line| line.contains(part)).expect(part);
    let line = lines.remove(line_of(&lines, moved_text));
    let to = line_of(&lines, before);
    lines.insert(to, line);
    lines.join("\n") + "\n"
}

/// Programs with an injected fault: the matmul, the `.sched` text, and a part of the report that the hazard checker must print.
fn broken_programs() -> Vec<(Matmul, String, &'static str)> {
    let (copies, threads) = (CP_ASYNC_MATMUL.text(), WGMMA_MATMUL.text());
    let cp_async_faults = [
        (
            without_lines_starting_with(&copies, "pipeline_wait"),
            "read by warp role 'compute' outside wait and release of pipeline0",
        ),
        (without_lines_starting_with(&copies, "pipeline_release"), "stage 0 of pipeline0 is waited for and never released"),
        (
            without_lines_starting_with(&copies, "pipeline_acquire"),
            "written by warp role 'load' outside acquire and commit of pipeline0",
        ),
        (
            without_lines_starting_with(&copies, "pipeline_commit"),
            "deadlock: warp role 'compute' waits until stage 0 of pipeline0 is filled, phase 0",
        ),
        (
            replace_once(&copies, "init: [%20, %13, %13]", "init: [%20, %13, %14]"),
            "warp role 'compute' is at phase 0 of stage 0 of pipeline0, not 1",
        ),
        (
            replace_once(&copies, "init: [%20, %13, %13]", "init: [%20, %14, %13]"),
            "stage 1 of pipeline0 is not the next one of warp role 'compute'",
        ),
        (replace_once(&copies, "full: 32", "full: 64"), "32 threads fill a stage of pipeline0, and its barrier counts 64 arrivals"),
        (
            replace_once(&copies, "empty: 128", "empty: 32"),
            "128 threads free a stage of pipeline0, and its barrier counts 32 arrivals",
        ),
        (
            move_line_before(&copies, "pipeline_release", "buffer: 0, stage: %26"),
            "read by warp role 'compute' outside wait and release",
        ),
        (
            move_line_before(&copies, "pipeline_commit", "buffer: 0, stage: %43"),
            "written by warp role 'load' outside acquire and commit",
        ),
        (
            replace_once(&copies, "buffer: 0, stage: %43", "buffer: 0, stage: %13"),
            "written by warp role 'load' outside acquire and commit",
        ),
        (replace_once(&copies, "fill: copies", "fill: threads"), "is committed while a copy to stage 0 of buffer0 is in flight"),
        // The compute warp role overwrites, with its accumulator, data that the load warp role still copies.
        (replace_once(&copies, "upper: %3, step: %14, init: [%20", "upper: %15, step: %14, init: [%20"), "deadlock"),
    ];
    let wgmma_faults = [
        (
            without_lines_starting_with(&threads, "async_fence"),
            "is read in place without a fence after it was written, by warp role 'load'",
        ),
        (
            move_line_before(&threads, "pipeline_commit", "shared_store(x: %47"),
            "stage 0 of buffer1 is written by warp role 'load' outside acquire",
        ),
        (
            move_line_before(&threads, "pipeline_release", "group_wait"),
            "stage 0 of pipeline0 is released while an MMA in flight reads it",
        ),
        (move_line_before(&threads, "async_fence", "shared_store(x: %47"), "is read in place without a fence after it was written"),
        (
            move_line_before(&threads, "pipeline_acquire", "pipeline_commit"),
            "stage 0 of buffer0 is written by warp role 'load' outside acquire",
        ),
        (replace_once(&threads, "rhs: %16) : i1", "rhs: %15) : i1"), "is not the next one of warp role 'compute'"),
    ];
    let for_both_targets = |(text, why): (String, &'static str)| {
        let for_sm_90 = replace_once(&text, "//!tile target sm_80", "//!tile target sm_90");
        [(CP_ASYNC_MATMUL, text, why), (CP_ASYNC_MATMUL, for_sm_90, why)]
    };
    let all = cp_async_faults.into_iter().flat_map(for_both_targets);
    all.chain(wgmma_faults.into_iter().map(|(text, why)| (WGMMA_MATMUL, text, why))).collect()
}

#[test]
fn hazard_checker_and_executors_detect_injected_faults() {
    let cases = broken_programs();
    assert!(cases.len() >= 10);
    for_each(&cases, |(matmul, text, expected)| {
        let message = check_hazards(text).err().ok_or(format!("the hazard checker accepts it: {expected}"))?;
        if !message.contains(expected) {
            return Err(format!("the hazard checker reports '{message}', not '{expected}'"));
        }
        let folder = temporary_folder();
        let correct_output = matmul.write_launch(folder.path(), FAULT_TRIP_COUNT);
        write_program_and_ptx(folder.path(), text);
        for executor in ["tile-run", "tile-sim"] {
            let detected = executions(4).into_iter().filter(|(tool, _)| *tool == executor).any(|(tool, options)| {
                execute_for_output(folder.path(), tool, file_of_tool(tool), &options)
                    .map_or(true, |output| output != correct_output)
            });
            if !detected {
                return Err(format!("{executor} detects nothing where the hazard checker reports '{message}'"));
            }
        }
        Ok(())
    });
}
