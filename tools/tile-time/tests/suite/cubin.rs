//! Tests the statistics of cubins. A shell script replaces nvdisasm and prints the listing below.

use crate::support::Kernel;
use std::path::Path;
use std::process::{Command, Output};

/// The output of nvdisasm for a loop with 1 + 2 + 13 + 5 stall cycles, which reloads a spilled register.
const LISTING: &str = "\t.target\tsm_90a
.text.k:
.L_x_1:
        /*0010*/                   FADD R1, R1, R0 ;                 /* 0x0000000001017221 */
                                                                     /* 0x0000020000000000 */
        /*0020*/              @!P0 LDL R2, [R1+0x8] ;                /* 0x0000080001028983 */
                                                                     /* 0x0010040000000000 */
        /*0030*/                   FADD R1, R1, R2 ;                 /* 0x0000000201017221 */
                                                                     /* 0x00001a0000000000 */
        /*0040*/               @P0 BRA `(.L_x_1) ;                   /* 0xfffffffc00f00947 */
                                                                     /* 0x00000a0000000000 */
        /*0050*/                   EXIT ;                            /* 0x000000000000794d */
                                                                     /* 0x000fea0003800000 */
";

/// Creates a folder with `k.ptx`, `k.cubin`, `launch.json`, and a CUDA toolkit whose nvdisasm is the given shell script.
fn create_folder(nvdisasm: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the test can create a folder");
    let path = folder.path();
    let kernel = Kernel::new("sm_90a", 128).body("add.s32 %r9, %r9, %r9;\nst.global.b32 [%rd1], %r9;");
    kernel.write(path);
    let ptxas = common::toolkit::ptxas().expect("scripts/setup brought ptxas");
    let assembly = Command::new(ptxas.path)
        .args(["-arch", "sm_90a", "k.ptx", "-o", "k.cubin"])
        .current_dir(path)
        .output()
        .expect("ptxas runs");
    assert!(assembly.status.success(), "{}", String::from_utf8_lossy(&assembly.stderr));
    std::fs::create_dir_all(path.join("toolkit/bin")).expect("the test can create a folder");
    std::fs::write(path.join("listing"), LISTING).expect("a file can be written");
    if let Some(script) = nvdisasm {
        let tool = path.join("toolkit/bin/nvdisasm");
        std::fs::write(&tool, format!("#!/bin/sh\n{script}\n")).expect("a file can be written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(tool, executable).expect("the test can set permissions");
    }
    folder
}

fn run_tile_time(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tile-time"));
    command.args(arguments).current_dir(folder).env("CUDA_ROOT", folder.join("toolkit")).output().expect("tile-time runs")
}

fn stdout_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn cubin_report_has_resources_and_loop_cycles() {
    let folder = create_folder(Some("cat listing"));
    let reported = stdout_of(&run_tile_time(folder.path(), &["k.cubin"]));
    for words in [
        "CTAs of 128 threads, limited by",
        "bytes of stack",
        "spilled registers: 1 loads, 0 stores",
        "an iteration takes a warp at least 21 cycles",
    ] {
        assert!(reported.contains(words), "no '{words}' in\n{reported}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(&run_tile_time(folder.path(), &["k.cubin", "--json", "-"]))).expect("JSON");
    assert_eq!(json["kernels"][0]["instruction_statistics"]["loops"][0]["stall_cycles"], 21);
}

#[test]
fn prediction_uses_the_registers_of_a_cubin() {
    let folder = create_folder(Some("cat listing"));
    let arguments = ["k.cubin", "--ptx", "k.ptx", "--launch", "launch.json", "--json", "-", "--no-advice"];
    let json: serde_json::Value = serde_json::from_str(&stdout_of(&run_tile_time(folder.path(), &arguments))).expect("JSON");
    assert!(json["cycles"].as_f64().expect("a number") > 100.0);
    assert_eq!((&json["registers_estimated"], &json["spill_instructions"]), (&false.into(), &1.into()));
    assert_eq!(json["registers"], json["cubin"]["kernels"][0]["registers"]);
}

/// `tile-time` predicts the same time for PTX in a compressed fatbin of NVIDIA's `fatbinary`, in a cubin of `ptxas -g`, and in a
/// plain file.
#[test]
fn ptx_in_a_fatbin_or_cubin_gets_the_prediction_of_plain_ptx() {
    let folder = create_folder(None);
    let path = folder.path();
    let fatbin_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../formats/cubin/tests/embedded");
    for name in ["k.ptx", "zstd.fatbin", "lz4.fatbin"] {
        std::fs::copy(fatbin_folder.join(name), path.join(name)).expect("it is there");
    }
    let ptxas = common::toolkit::ptxas().expect("scripts/setup brought ptxas");
    let assembly = Command::new(ptxas.path).args(["-g", "-arch", "sm_80", "k.ptx", "-o", "g.cubin"]).current_dir(path).output();
    assert!(assembly.expect("ptxas runs").status.success());
    let predicted_cycles = |file: &str| -> f64 {
        let arguments = [file, "--launch", "launch.json", "--json", "-", "--no-advice", "--gpu", "a100", "--registers", "16"];
        let json: serde_json::Value = serde_json::from_str(&stdout_of(&run_tile_time(path, &arguments))).expect("JSON");
        json["cycles"].as_f64().expect("a number")
    };
    let cycles_of_plain_file = predicted_cycles("k.ptx");
    for file in ["zstd.fatbin", "lz4.fatbin", "g.cubin"] {
        assert_eq!(predicted_cycles(file), cycles_of_plain_file, "{file}");
    }
}

#[test]
fn a_cubin_report_without_nvdisasm_has_registers_and_the_reason() {
    for (script, why) in [(None, "no nvdisasm"), (Some("echo broken >&2; exit 1"), "nvdisasm rejects the file: broken")] {
        let reported = stdout_of(&run_tile_time(create_folder(script).path(), &["k.cubin"]));
        assert!(reported.contains("registers") && reported.contains(why), "{reported}");
    }
}

#[test]
fn truncated_cubins_do_not_crash_and_missing_inputs_are_errors() {
    let folder = create_folder(None);
    let path = folder.path();
    let cubin = std::fs::read(path.join("k.cubin")).expect("it is there");
    for length in [4, 16, 64, 200, cubin.len() / 2, cubin.len() - 1] {
        std::fs::write(path.join("cut.cubin"), &cubin[..length]).expect("a file can be written");
        let output = run_tile_time(path, &["cut.cubin"]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{length} bytes: {output:?}");
    }
    let other = std::fs::read_to_string(path.join("k.ptx")).expect("it is there").replace(".entry k", ".entry other");
    std::fs::write(path.join("other.ptx"), other).expect("a file can be written");
    let cases: [(&[&str], &str); 3] = [
        (&["k.cubin", "--launch", "launch.json"], "TIM006"),
        (&["k.cubin", "--ptx", "other.ptx", "--launch", "launch.json"], "TIM005"),
        (&["k.ptx"], "TIM007"),
    ];
    for (arguments, code) in cases {
        let output = run_tile_time(path, arguments);
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains(code), "{arguments:?}: {output:?}");
    }
}
