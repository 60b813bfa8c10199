//! Kernels written in tests, and the outcomes of `tile-sim` on them.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod registers;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) errors: String,
    pub(crate) printed: String,
    /// The contents of the only buffer, `out`, after the run.
    pub(crate) out: Vec<u8>,
    /// The contents of `stats.json`, written by `--stats`.
    pub(crate) stats: String,
}

/// A launch: PTX of one kernel with one visible parameter, the address of the buffer `out`.
pub(crate) struct Case<'a> {
    pub(crate) ptx: &'a str,
    pub(crate) grid: [u32; 3],
    pub(crate) buffer: Vec<u8>,
    pub(crate) options: &'a [&'a str],
    /// Additional files in the kernel's directory.
    pub(crate) files: &'a [(&'a str, Vec<u8>)],
}

/// Address of the buffer `out`.
pub(crate) const BUFFER_ADDRESS: u64 = 65536;

/// Returns a kernel with CTAs of `threads` threads, `shared` bytes of shared memory (`smem`) and one parameter, the address of a
/// buffer. `%rd1` has this address, `%r1` the thread index and `%r2` the address of `smem`.
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

/// Runs one CTA on a buffer of 1024 bytes that contains 0, 1, 2, … as words.
pub(crate) fn run(ptx: &str, options: &[&str]) -> Outcome {
    let races: &[&str] = if options.contains(&"--races") { &[] } else { &["--races", "error"] };
    let options = [races, options].concat();
    Case { ptx, grid: [1, 1, 1], buffer: counting_words(256), options: &options, files: &[] }.run()
}

/// Checks that the program runs without error, and that it fails with a fault code after `good` is replaced by `bad`. `code` may
/// list several codes, separated by `|`, if the interleaving of the warps decides which fault occurs.
pub(crate) fn check_rule(code: &str, ptx: &str, good: &str, bad: &str, options: &[&str]) -> Outcome {
    let correct = run(ptx, options);
    assert_eq!(correct.code, 0, "the correct program for {code}: {}", correct.errors);
    assert!(ptx.contains(good), "'{good}' is not in the program");
    let broken = run(&ptx.replacen(good, bad, 1), options);
    assert_eq!(broken.code, 1, "{code}: {}", broken.errors);
    let found = code.split('|').any(|code| broken.errors.contains(&format!("[{code}]")));
    assert!(found, "{code}: {}", broken.errors);
    broken
}

/// Returns a 32-bit word of the buffer `out` after the run.
pub(crate) fn output_word(outcome: &Outcome, index: usize) -> u32 {
    u32::from_le_bytes(outcome.out[4 * index..4 * index + 4].try_into().unwrap())
}
