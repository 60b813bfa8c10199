//! Helpers for tests of matmuls on clusters, in which the CTAs of a cluster divide each tile block. They compile the matmuls, write
//! launches and compute the expected outputs.

use crate::{root, run, temporary_folder};
use std::path::Path;

/// The extent along K of one iteration, in elements.
const STEP: usize = 32;

/// A kernel of `tests/run` that multiplies two f16 matrices, 32 elements along K in each iteration. The kernel adds the grid's
/// extent along the second axis to each element of the result.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMatmul {
    /// The folder of the kernel in `tests/run`.
    pub kernel: &'static str,
    /// Rows of an output tile.
    pub rows: usize,
    /// Columns of an output tile.
    pub columns: usize,
}

impl ClusterMatmul {
    /// The `.sched` text of the matmul for clusters of two CTAs. `options` are options of `tile-sched`.
    pub fn text(&self, target: &str, options: &[&str]) -> String {
        self.scheduled_text(target, &["--cluster=2"], options)
    }

    /// The `.sched` text of the matmul. `lowering` has the options of `tile-lower-as`, `options` the options of `tile-sched`.
    pub fn scheduled_text(&self, target: &str, lowering: &[&str], options: &[&str]) -> String {
        let folder = temporary_folder();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let kernel = root().join("tests/run").join(self.kernel).join("kernel.tile").display().to_string();
        run("tile-write", &[&kernel, "-o", &path("k.tileirbc")], b"").ok("tile-write");
        run("tile-read", &[&path("k.tileirbc"), "-o", &path("k.tile")], b"").ok("tile-read");
        run("tile-lower-aa", &[&path("k.tile"), "-o", &path("k.aa")], b"").ok("tile-lower-aa");
        let (from, to) = (path("k.aa"), path("k.as"));
        let lowering_args = [&["--gpu-name", target, &from, "-o", &to], lowering].concat();
        run("tile-lower-as", &lowering_args, b"").ok("tile-lower-as");
        let (from, to) = (to, path("k.sched"));
        let scheduling_args = [options, &["--format=text", &from, "-o", &to]].concat();
        run("tile-sched", &scheduling_args, b"").ok("tile-sched");
        std::fs::read_to_string(path("k.sched")).expect("a file was written")
    }

    /// Writes the launch of one tile block with a trip count of the K loop to a directory. Returns the expected bytes of the
    /// result.
    pub fn write_launch(&self, folder: &Path, trip_count: usize) -> Vec<u8> {
        self.write_grid_launch(folder, trip_count, [1, 1])
    }

    /// Writes the launch of a grid of tile blocks. `tiles` has the grid's extents along both axes. Returns the expected bytes of
    /// the result.
    pub fn write_grid_launch(&self, folder: &Path, trip_count: usize, tiles: [usize; 2]) -> Vec<u8> {
        let [rows, columns] = [self.rows * tiles[0], self.columns * tiles[1]];
        let depth = trip_count * STEP;
        let stride = depth.max(STEP);
        let a: Vec<u8> = (0..rows * stride).flat_map(|i| f16_bytes(lhs_element(i / stride, i % stride))).collect();
        let b: Vec<u8> = (0..stride * columns).flat_map(|i| f16_bytes(rhs_element(i / columns, i % columns))).collect();
        for (name, data) in [("a", a), ("b", b), ("c", vec![0xff; rows * columns * 4])] {
            std::fs::write(folder.join(format!("{name}.in")), data).expect("the folder takes files");
        }
        let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
        let array = |name: &str, [rows, columns, stride]: [usize; 3]| {
            format!(r#"{{"ptr": "{name}"}}, {{"i32": {rows}}}, {{"i32": {columns}}}, {{"i32": {stride}}}, {{"i32": 1}}"#)
        };
        let arrays = [("a", [rows, depth, stride]), ("b", [depth, columns, columns]), ("c", [rows, columns, columns])];
        let params = arrays.map(|(name, extents)| array(name, extents)).join(", ");
        let grid = format!("[{}, {}, 1]", tiles[0], tiles[1]);
        let text = format!(r#"{{"entry": null, "grid": {grid}, "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
        std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
        let grid_columns = tiles[1] as i32;
        let sum =
            |i: usize| grid_columns + (0..depth).map(|k| lhs_element(i / columns, k) * rhs_element(k, i % columns)).sum::<i32>();
        (0..rows * columns).flat_map(|i| (sum(i) as f32).to_le_bytes()).collect()
    }
}

fn lhs_element(row: usize, k: usize) -> i32 {
    (row * 7 + k * 3 + k / STEP) as i32 % 5 - 2
}
fn rhs_element(k: usize, column: usize) -> i32 {
    (k * 5 + column * 2 + k / STEP) as i32 % 3 - 1
}

/// The little-endian f16 bytes of an integer from -2 to 2.
fn f16_bytes(number: i32) -> [u8; 2] {
    let sign = u16::from(number < 0) << 15;
    let magnitude = [0, 0x3c00, 0x4000][number.unsigned_abs() as usize];
    (sign | magnitude).to_le_bytes()
}

/// Removes all lines that contain `part`. At least one such line must exist.
pub fn without_lines_containing(ptx: &str, part: &str) -> String {
    assert!(ptx.contains(part), "{part} is not in\n{ptx}");
    ptx.lines().filter(|line| !line.contains(part)).map(|line| format!("{line}\n")).collect()
}
