//! A product in a loop whose length only the launch knows: right at every phase of the schedule and in PTX, whether the loop is
//! not run at all, is shorter than its pipeline or longer, and when its schedule was edited by hand.

use std::path::Path;
use tests::{for_each, run, temporary};

/// Each block multiplies 32 rows of a 64 x 544 matrix with a 544 x 32 one, over as many steps of 32 as it is told.
const KERNEL: &str = "//!tile tileir 1 read
//!tile producer test
//!tile input 0
entry @product(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %steps: tile<i32>) {
  %a16 = assume div_by<16>, %a : tile<ptr<f16>>
  %b16 = assume div_by<16>, %b : tile<ptr<f16>>
  %c16 = assume div_by<16>, %c : tile<ptr<f32>>
  %lhs = make_tensor_view %a16, shape = [64, 544], strides = [544, 1] : tensor_view<64x544xf16, strides=[544,1]>
  %rhs = make_tensor_view %b16, shape = [544, 32], strides = [32, 1] : tensor_view<544x32xf16, strides=[32,1]>
  %out = make_tensor_view %c16, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
  %ls = make_partition_view %lhs : partition_view<tile=(32x32), tensor_view<64x544xf16, strides=[544,1]>>
  %rs = make_partition_view %rhs : partition_view<tile=(32x32), tensor_view<544x32xf16, strides=[32,1]>>
  %os = make_partition_view %out : partition_view<tile=(32x32), tensor_view<64x32xf32, strides=[32,1]>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <f32: 0.000000e+00> : tile<32x32xf32>
  %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x32xf32>) {
    %l, %lt = load_view_tko weak %ls[%x, %i] : partition_view<tile=(32x32), tensor_view<64x544xf16, strides=[544,1]>>, tile<i32> -> tile<32x32xf16>, token
    %r, %rt = load_view_tko weak %rs[%i, %zero] : partition_view<tile=(32x32), tensor_view<544x32xf16, strides=[32,1]>>, tile<i32> -> tile<32x32xf16>, token
    %next = mmaf %l, %r, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
    continue %next : tile<32x32xf32>
  }
  %stored = store_view_tko weak %sum, %os[%x, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
  return
}
";
const ROWS: usize = 64;
const DEPTH: usize = 544;
const COLUMNS: usize = 32;
const STEP: usize = 32;

fn left(row: usize, k: usize) -> i32 {
    (row * 7 + k * 3 + k / 32) as i32 % 9 - 4
}
fn right(k: usize, column: usize) -> i32 {
    (k * 5 + column * 2 + k / 32) as i32 % 7 - 3
}

/// A small whole number as f16.
fn half(number: i32) -> [u8; 2] {
    let sign = u16::from(number < 0) << 15;
    let exponent = number.unsigned_abs().checked_ilog2();
    let magnitude = exponent.map_or(0, |e| (15 + e as u16) << 10 | (number.unsigned_abs() as u16) << (10 - e) & 0x3ff);
    (sign | magnitude).to_le_bytes()
}

/// The memory and the launch for some number of steps, and what the kernel has to leave.
fn launch(folder: &Path, steps: usize) -> Vec<u8> {
    let a: Vec<u8> = (0..ROWS * DEPTH).flat_map(|i| half(left(i / DEPTH, i % DEPTH))).collect();
    let b: Vec<u8> = (0..DEPTH * COLUMNS).flat_map(|i| half(right(i / COLUMNS, i % COLUMNS))).collect();
    for (name, data) in [("a.in", a), ("b.in", b), ("c.in", vec![0xff; ROWS * COLUMNS * 4])] {
        std::fs::write(folder.join(name), data).expect("the folder takes files");
    }
    let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
    let params = format!(r#"{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}, {{"i32": {steps}}}"#);
    let text = format!(r#"{{"entry": null, "grid": [2, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
    std::fs::write(folder.join(format!("{steps}.json")), text).expect("the folder takes files");
    let element = |i: usize| (0..steps * STEP).map(|k| left(i / COLUMNS, k) * right(k, i % COLUMNS)).sum::<i32>() as f32;
    (0..ROWS * COLUMNS).flat_map(|i| element(i).to_le_bytes()).collect()
}

/// Files of a kernel in a folder of their own.
struct Kernel {
    folder: tempfile::TempDir,
    target: &'static str,
}

impl Kernel {
    fn new(target: &'static str) -> Kernel {
        let kernel = Kernel { folder: temporary(), target };
        std::fs::write(kernel.path("k.tile"), KERNEL).expect("the folder takes files");
        kernel.make("tile-lower-aa", &["-O3"], "k.tile", "k.aa");
        kernel.make("tile-lower-as", &["--gpu-name", target], "k.aa", "k.as");
        kernel.make("tile-sched", &["--stop-after=analysis", "--format=text"], "k.as", "analysis.sched");
        kernel.finish();
        kernel
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    fn make(&self, tool: &str, options: &[&str], from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        run(tool, &[options, &[&from, "-o", &to]].concat(), b"").ok(&format!("{tool} for {}", self.target));
    }

    /// What follows the analysis.
    fn finish(&self) {
        self.make("tile-sched", &["--stop-after=alloc"], "analysis.sched", "alloc.sched");
        self.make("tile-sched", &[], "alloc.sched", "k.sched");
        self.make("tile-ptx", &[], "k.sched", "k.ptx");
    }

    fn analysis(&self) -> String {
        std::fs::read_to_string(self.path("analysis.sched")).expect("it was written")
    }

    /// The stages of the loop's schedule.
    fn stages(&self) -> usize {
        let text = self.analysis();
        let numbers =
            text.split("stage: ").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        1 + numbers.map(|number| number.parse().expect("a stage is a number")).max().unwrap_or(0)
    }

    /// Every phase and both ways to deliver asynchronous work leave the product.
    fn check(&self, steps: usize) -> Result<(), String> {
        let folder = temporary();
        let wanted = launch(folder.path(), steps);
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
            let what = format!("{steps} steps for {}: {file} {options:?}", self.target);
            let (file, out) = (self.path(file), folder.path().display().to_string());
            let ran = run(tool, &[&[&file, "--launch", &description, "--out-dir", &out], &options[..]].concat(), b"");
            if ran.code != Some(0) {
                return Err(format!("{what}: {}", ran.stderr.trim()));
            }
            let got = std::fs::read(folder.path().join("c.bin")).map_err(|error| format!("{what}: {error}"))?;
            if got != wanted {
                return Err(format!("{what}: the product is wrong"));
            }
        }
        Ok(())
    }
}

#[test]
fn every_trip_count_is_right_for_a_pipelined_loop() {
    let kernels = ["sm_80", "sm_90", "sm_100", "sm_120"].map(Kernel::new);
    let mut runs = Vec::new();
    for kernel in &kernels {
        let stages = kernel.stages();
        assert!(stages >= 3, "the loop has {stages} stages for {}", kernel.target);
        let mut counts = vec![0, 1, 2, stages - 1, stages, stages + 1, 17];
        counts.sort_unstable();
        counts.dedup();
        runs.extend(counts.into_iter().map(|count| (kernel, count)));
    }
    for_each(&runs, |(kernel, count)| kernel.check(*count));
}

/// Gives the first op of the schedule another place.
fn edited(text: &str, change: impl Fn(&str) -> String) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with("(op: 0,")).expect("the schedule has a first op");
    text.replace(line, &change(line))
}

#[test]
fn a_schedule_edited_by_hand_compiles_and_an_impossible_one_is_refused_by_name() {
    let kernel = Kernel::new("sm_80");
    let text = kernel.analysis();
    // The copy of the left operand runs ahead one step less.
    let later = edited(&text, |line| line.replace("stage: 0", "stage: 1"));
    assert_ne!(later, text);
    std::fs::write(kernel.path("analysis.sched"), later).expect("the folder takes files");
    kernel.finish();
    for_each(&[0, 1, 2, 3, 4, 5, 17], |count| kernel.check(*count));

    // Both copies at once: the machine has one way to issue them.
    let second = text.lines().find(|line| line.trim_start().starts_with("(op: 1,")).expect("the schedule has a second op");
    let both = edited(&text, |_| second.replace("op: 1,", "op: 0,"));
    let ran = run("tile-sched", &["-"], both.as_bytes());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("op 0 (copy_view) and op 1 (copy_view) both need"), "{}", ran.stderr);
}
