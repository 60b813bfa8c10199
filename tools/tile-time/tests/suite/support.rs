//! Test helpers: builds kernels from PTX text and runs `tile-time` on them.

use std::path::Path;
use std::process::Command;

/// A test kernel: PTX text and its launch.
pub(crate) struct Kernel {
    target: &'static str,
    threads: u32,
    /// The PTX before `body`.
    prologue: String,
    /// The PTX whose time a test predicts.
    body: String,
    grid: u32,
    out_bytes: usize,
    cluster: u32,
    shared_bytes: u32,
    /// Floating-point operations that the launch states; 0 if the launch states none.
    flops: f64,
    /// The TMA tiles of the tensor maps: bytes of a row, and number of rows.
    tma_tiles: Vec<(usize, usize)>,
    registers: u32,
    /// Indices of the CTAs that `tile-time` executes to predict the time of the grid.
    sample_blocks: Vec<u32>,
}

/// Returns `count` lines, each computed from its index.
pub(crate) fn repeat(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|index| line(index) + "\n").collect()
}

impl Kernel {
    /// Bytes of a row of the matrix that the tensor maps describe.
    pub(crate) const MATRIX_ROW_BYTES: usize = 1 << 18;

    pub(crate) fn new(target: &'static str, threads: u32) -> Kernel {
        Kernel {
            target,
            threads,
            prologue: String::new(),
            body: String::new(),
            grid: 1,
            out_bytes: 1024,
            cluster: 1,
            shared_bytes: 98304,
            flops: 0.0,
            tma_tiles: Vec::new(),
            registers: 64,
            sample_blocks: Vec::new(),
        }
    }
    pub(crate) fn prologue(self, prologue: &str) -> Kernel {
        Kernel { prologue: prologue.into(), ..self }
    }
    pub(crate) fn body(self, body: impl Into<String>) -> Kernel {
        Kernel { body: body.into(), ..self }
    }
    pub(crate) fn grid(self, grid: u32) -> Kernel {
        Kernel { grid, ..self }
    }
    /// Sets the number of CTAs per cluster.
    pub(crate) fn cluster(self, cluster: u32) -> Kernel {
        Kernel { cluster, ..self }
    }
    /// Sets the size of the shared-memory variable `buffer`.
    pub(crate) fn shared_bytes(self, shared_bytes: u32) -> Kernel {
        Kernel { shared_bytes, ..self }
    }
    pub(crate) fn flops(self, flops: f64) -> Kernel {
        Kernel { flops, ..self }
    }
    pub(crate) fn sample_blocks(self, blocks: &[u32]) -> Kernel {
        Kernel { sample_blocks: blocks.to_vec(), ..self }
    }
    /// Sets the registers per thread that the model assumes.
    pub(crate) fn registers(self, registers: u32) -> Kernel {
        Kernel { registers, ..self }
    }
    /// Sets the size of the global-memory buffer `out`.
    pub(crate) fn out_bytes(self, out_bytes: usize) -> Kernel {
        Kernel { out_bytes, ..self }
    }

    /// Adds the tensor maps `map0`, `map1` and so on. Each describes tiles of the given row size in bytes and row count, in a
    /// matrix with rows of 256 KiB.
    pub(crate) fn tma_tiles(self, tma_tiles: &[(usize, usize)]) -> Kernel {
        Kernel { tma_tiles: tma_tiles.to_vec(), ..self }
    }

    /// Returns the comment line of a tensor map (a recipe, crate `tensormap`). The simulator computes the tensor map from the
    /// recipe.
    fn tensor_map_recipe(&self, number: usize) -> String {
        let (bytes, rows) = self.tma_tiles[number];
        format!(
            "//!tile tensor-map (entry:\"k\",param:\"map{number}\",map:(base:param(0),element:f16,dims:[const({}),const({})],strides:[const({})],\
             extent:[{},{rows}],swizzle:bytes{bytes},tf32:false))\n",
            Kernel::MATRIX_ROW_BYTES / 2,
            self.out_bytes / Kernel::MATRIX_ROW_BYTES,
            Kernel::MATRIX_ROW_BYTES,
            bytes / 2
        )
    }

    /// Returns the PTX of the kernel.
    fn ptx(&self) -> String {
        let cluster =
            if self.cluster > 1 { format!(".explicitcluster\n.reqnctapercluster {}\n", self.cluster) } else { String::new() };
        let recipes: String = (0..self.tma_tiles.len()).map(|number| self.tensor_map_recipe(number)).collect();
        let recipes = if recipes.is_empty() { recipes } else { format!("//!tile ptx 1 final\n{recipes}") };
        let maps: String =
            (0..self.tma_tiles.len()).map(|number| format!(",\n.hidden .param .align 64 .b8 map{number}[128]")).collect();
        format!(
            "{recipes}.version 9.2\n.target {}\n.address_size 64\n.visible .entry k(.param .u64 .ptr .global .align 16 out{maps})\n.reqntid {}\n{cluster}{{\n\
             .reg .pred %p<10>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .f32 %f<300>;\n.shared .align 1024 .b8 buffer[{}];\n\
             ld.param.u64 %rd1, [out];\n{}\n{}\nret;\n}}\n",
            self.target, self.threads, self.shared_bytes, self.prologue, self.body
        )
    }

    /// Writes `k.ptx` and `launch.json` into a folder.
    pub(crate) fn write(&self, folder: &Path) {
        let work = match self.flops {
            0.0 => String::new(),
            flops => format!(r#", "work": {{"flops": {flops}, "bytes": {}}}"#, self.out_bytes),
        };
        let samples: Vec<String> = self.sample_blocks.iter().map(|block| format!("[{block}, 0, 0]")).collect();
        let samples = if samples.is_empty() { String::new() } else { format!(r#", "sample_blocks": [{}]"#, samples.join(", ")) };
        let launch = format!(
            r#"{{"entry": null, "grid": [{}, 1, 1], "buffers": [{{"name": "out", "bytes": {}, "fill": "zero"}}], "params": [{{"ptr": "out"}}], "outputs": []{work}{samples}}}"#,
            self.grid, self.out_bytes
        );
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file can be written");
        write("k.ptx", &self.ptx());
        write("launch.json", &launch);
    }

    /// Returns the report of `tile-time` for a GPU. Panics if the sample CTA was truncated.
    pub(crate) fn report(&self, gpu: &str) -> serde_json::Value {
        let report = self.report_with(gpu, &[]);
        assert!(report["complete"] == true, "{report}");
        report
    }
    pub(crate) fn report_with(&self, gpu: &str, options: &[&str]) -> serde_json::Value {
        self.run(gpu, options, false)
    }
    /// Returns the report with advice: the changes that would save time.
    pub(crate) fn report_with_advice(&self, gpu: &str) -> serde_json::Value {
        self.run(gpu, &[], true)
    }
    fn run(&self, gpu: &str, options: &[&str], advice: bool) -> serde_json::Value {
        let folder = tempfile::tempdir().expect("the test can create a folder");
        self.write(folder.path());
        let output = Command::new(env!("CARGO_BIN_EXE_tile-time"))
            .args(["k.ptx", "--launch", "launch.json", "--json", "-", "--gpu", gpu])
            .args((!advice).then_some("--no-advice"))
            .args(["--registers", &self.registers.to_string()])
            .args(options)
            .current_dir(folder.path())
            .output()
            .expect("tile-time runs");
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.ptx());
        serde_json::from_slice(&output.stdout).expect("the report is JSON")
    }
    pub(crate) fn cycles(&self, gpu: &str) -> f64 {
        self.report(gpu)["cycles"].as_f64().expect("a number")
    }
}
