//! Functions that run `tile-sim` on a kernel that a test writes, and return the outcome.
#![allow(dead_code, reason = "each test file uses only some of the helpers")]

pub(crate) mod registers;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The outcome of a run of `tile-sim`.
pub(crate) struct Outcome {
    /// The exit code.
    pub(crate) code: i32,
    /// The text on standard error.
    pub(crate) errors: String,
    /// The text on standard output.
    pub(crate) printed: String,
    /// The contents of the only buffer, `out`, after the run.
    pub(crate) out: Vec<u8>,
    /// The contents of `stats.json`, if the options contain `--stats stats.json`.
    pub(crate) stats: String,
}

/// A launch: PTX of one kernel with one visible parameter, the address of the buffer `out`.
pub(crate) struct Case<'a> {
    pub(crate) ptx: &'a str,
    pub(crate) grid: [u32; 3],
    /// The contents of the buffer `out` before the run.
    pub(crate) buffer: Vec<u8>,
    /// Additional options of `tile-sim`.
    pub(crate) options: &'a [&'a str],
    /// The names and contents of additional files in the current directory of `tile-sim`.
    pub(crate) files: &'a [(&'a str, Vec<u8>)],
}

/// The address of the buffer `out`.
pub(crate) const BUFFER_ADDRESS: u64 = 65536;

/// Returns PTX of a kernel with CTAs of `threads` threads and with `shared` bytes of shared memory (`smem`). Its only parameter is
/// the address of a buffer. Before `body`, the kernel loads this address into `%rd1`, the thread index into `%r1` and the address
/// of `smem` into `%r2`.
pub(crate) fn kernel(target: &str, threads: u32, shared: u32, body: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .global .align 4 .b8 unused[4];\n\
         .visible .entry k(.param .u64 k_param_0)\n.reqntid {threads}\n{{\n\
         .reg .pred %p<20>;\n.reg .b16 %rs<20>;\n.reg .b32 %r<300>;\n.reg .b64 %rd<40>;\n\
         .shared .align 1024 .b8 smem[{shared}];\n\
         ld.param.b64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.b32 %r2, smem;\n{body}\nret;\n}}\n"
    )
}

/// Returns the 32-bit words 0, 1, 2, … as bytes.
pub(crate) fn counting_words(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

impl Case<'_> {
    /// Runs `tile-sim` on the launch in a new temporary directory.
    pub(crate) fn run(&self) -> Outcome {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder: PathBuf = std::env::temp_dir().join(format!("tile-sim-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("out.bin"), &self.buffer).unwrap();
        let launch = format!(
            r#"{{"entry": null, "grid": {:?}, "params": [{{"ptr": "out"}}], "outputs": ["out"],
            "buffers": [{{"name": "out", "file": "out.bin", "align": 256, "address": {BUFFER_ADDRESS}}}]}}"#,
            self.grid
        );
        std::fs::write(folder.join("launch.json"), launch).unwrap();
        std::fs::write(folder.join("k.ptx"), self.ptx).unwrap();
        for (name, bytes) in self.files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let output = Command::new(env!("CARGO_BIN_EXE_tile-sim"))
            .current_dir(&folder)
            .args(["k.ptx", "--launch", "launch.json", "--out-dir", "result"])
            .args(self.options)
            .output()
            .unwrap();
        let outcome = Outcome {
            code: output.status.code().unwrap_or(-1),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
            out: std::fs::read(folder.join("result/out.bin")).unwrap_or_default(),
            stats: std::fs::read_to_string(folder.join("stats.json")).unwrap_or_default(),
        };
        std::fs::remove_dir_all(&folder).unwrap();
        outcome
    }
}

/// Runs a grid of one CTA on a buffer of 1024 bytes that contains 0, 1, 2, … as words. Races are errors, unless `options`
/// contains `--races`.
pub(crate) fn run(ptx: &str, options: &[&str]) -> Outcome {
    let races: &[&str] = if options.contains(&"--races") { &[] } else { &["--races", "error"] };
    let options = [races, options].concat();
    Case { ptx, grid: [1, 1, 1], buffer: counting_words(256), options: &options, files: &[] }.run()
}

/// Checks that `tile-sim` runs the program `ptx` without error. Replaces `good` by `bad` in the program, and checks that the
/// changed program fails with the fault `code`. If the interleaving of the warps decides which fault occurs, `code` lists several
/// codes, separated by `|`. Returns the outcome of the changed program.
pub(crate) fn check_rule(code: &str, ptx: &str, good: &str, bad: &str, options: &[&str]) -> Outcome {
    let correct = run(ptx, options);
    assert_eq!(correct.code, 0, "the correct program for {code}: {}", correct.errors);
    assert!(ptx.contains(good), "'{good}' is not in the program");
    let broken = run(&ptx.replacen(good, bad, 1), options);
    assert_eq!(broken.code, 1, "{code}: {}", broken.errors);
    let is_reported = code.split('|').any(|code| broken.errors.contains(&format!("[{code}]")));
    assert!(is_reported, "{code}: {}", broken.errors);
    broken
}

/// Returns a 32-bit word of the buffer `out` after the run.
pub(crate) fn output_word(outcome: &Outcome, index: usize) -> u32 {
    u32::from_le_bytes(outcome.out[4 * index..4 * index + 4].try_into().unwrap())
}
