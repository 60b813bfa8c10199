//! The examples of diagnostic codes: the command of each page of `formats/base/codes` fails with the code of the page. A case is a
//! code: `cargo test --workspace --test codes -- AA007`.

use base::code::Code;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use tests::need::Need;
use tests::suite::{CaseResult, Suite};
use tests::{root, shell, temporary_copy_of_folder, temporary_folder, tests};

/// The codes whose pages are older than the rule that a page has an example, and the codes of the CPU device and of libtileworks,
/// which the tools do not report. Do not add other codes to this list.
#[rustfmt::skip]
const WITHOUT_EXAMPLE: &[&str] = &[
    "AA001", "AA002", "AA003", "AA004", "AS001", "AS002", "AS004", "AS006", "AS008", "AS009", "AS012", "AS013", "AS014",
    "AS900", "AS901", "AS902", "AS903", "AS904", "BUG001", "CHK003", "CHK006", "CHK007", "CHK008", "CHK009", "CHK010",
    "CLI000", "CLI001", "CLI002", "CLI004", "CLI006", "CLI009", "CLI011", "CUB002", "CUB003", "CUB004", "CUB005", "CUB006", "DBG001", "DBG002", "DBG003",
    "DBG005", "DBG006", "DEP001", "DEP002", "DRI005", "DRI006", "DRV003", "DRV004", "ENV006", "FUZ001", "FUZ002", "FUZ003",
    "FUZ004", "LAA001", "LAA002", "LAA003", "LAA004", "LAA005", "LAA006", "LAU001", "LAU002", "LAU003", "LAU004", "LCH005",
    "LCH006", "LCH008", "LCH012", "LCH015", "LNK002", "LNK020", "LNK021", "LNK023", "MAP001", "OPT003", "OPT004", "PTX011",
    "PTX021", "PX002", "PX003", "PX004", "PX005", "PX006", "PX008", "PX009", "PX010", "PX900", "PX901", "PX902",
    "RED001", "RED002", "RUN002", "RUN003", "RUN010", "RUN011", "RUN012", "RUN013", "RUN015", "RUN020", "RUN021", "RUN030", "RUN031",
    "RUN032", "RUN040", "RUN041", "RUN042", "RUN061", "RUN062", "RUN070", "RUN071", "RUN072", "RUN073", "RUN074", "RUN075",
    "RUN076", "RUN077", "RUN078", "RUN079", "SC007", "SC009", "SC011", "SC012", "SC100", "SC101", "SC121", "SC131", "SC132",
    "SCO002", "SIM003", "SIM005", "SIM012", "SIM013", "SIM014", "SIM030", "SIM032", "SIM033", "SIM034", "SIM036", "SIM037",
    "SIM038", "SIM042", "SIM050", "SIM051", "SIM052", "SIM054", "SIM055", "SIM061", "SIM070", "SIM071", "SIM072", "SIM080", "SIM081",
    "SIM082", "SIM083", "TI002", "TI003", "TI004", "TI005", "TI007", "TI008", "TIM001", "TIM003", "TIM004", "TIM005", "TKT002",
    "VAL001", "VAL002", "VAL004", "VAL005", "VIW001", "VIW002", "VIW004",
];

/// The files that the commands use: two kernels at every stage, and the launch of the first.
const PREPARE_COMMANDS: &str = "set -e
    for k in k matmul; do
        tile-read $k.tileirbc --format=text -o $k.tile
        tile-lower-aa --format=text $k.tile -o $k.aa
        tile-lower-as --format=text --gpu-name sm_90 --tma=$([ $k = matmul ] && echo on || echo auto) $k.aa -o $k.as
        tile-sched --format=text $k.as -o $k.sched
        tile-ptx $k.sched -o $k.ptx
    done
    tile-lower-as --format=text --gpu-name sm_90 --mma=mma matmul.aa -o mma.as
    tile-sched --format=text mma.as -o mma.sched
    tile-lower-as --gpu-name sm_80 matmul.aa | tile-sched | tile-ptx - -o matmul80.ptx
    sed 's/32x16/128x64/g; s/16x32/64x128/g; s/32x32/128x128/g' matmul.tile > large.tile
    tile-lower-aa large.tile | tile-lower-as --format=text --gpu-name sm_100 --mma=tcgen05 - -o tcgen05.as
    tile-link k.ptx -o k.cubin";

fn prepare_files() -> tempfile::TempDir {
    let folder = temporary_folder();
    let copy = |from: &Path, name: &str| std::fs::copy(from, folder.path().join(name)).expect("a new folder takes files");
    let (vadd, matmul) = (root().join("tests/run/vadd"), root().join("tests/run/matmul_f16"));
    copy(&vadd.join("kernel.tileirbc"), "k.tileirbc");
    copy(&matmul.join("kernel.tileirbc"), "matmul.tileirbc");
    std::fs::create_dir(folder.path().join("matmul")).expect("a new folder takes folders");
    for name in ["launch.json", "arg0.bin", "arg1.bin", "arg2.bin"] {
        copy(&vadd.join(name), name);
        copy(&matmul.join(name), &format!("matmul/{name}"));
    }
    shell(folder.path(), PREPARE_COMMANDS).ok("the files of the examples");
    folder
}

fn check_example(code: Code, example: &str, files: &Path) -> CaseResult {
    let folder = temporary_copy_of_folder(files);
    let ran = shell(folder.path(), example);
    // With --error-format=json a code is a string.
    if ran.stderr.contains(&format!("[{code}]")) || ran.stderr.contains(&format!("\"code\":\"{code}\"")) {
        return Ok(());
    }
    Err(format!("{example}\nends with {:?} without {code}:\n{}", ran.code, ran.stderr))
}

fn each_code_has_an_example() {
    for code in Code::ALL {
        let is_listed = WITHOUT_EXAMPLE.contains(&code.name());
        assert_ne!(code.example().is_some(), is_listed, "{code}: its page has an example, or the list above has it");
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let files = Arc::new(OnceLock::new());
    for code in Code::ALL {
        if let Some(example) = code.example() {
            let files = Arc::clone(&files);
            suite.case_with(&[Need::Ptxas], code.name(), move || {
                check_example(*code, example, files.get_or_init(prepare_files).path())
            });
        }
    }
    suite.functions("rules/", tests![each_code_has_an_example]);
    suite.run()
}
