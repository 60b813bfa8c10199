//! Regression tests for faults that users reported. A row has a command, its expected exit code, and strings that the output must
//! and must not contain.

use crate::{bytecode_path, check_stages_are_current, make_stage_files};
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tests::need::Need;
use tests::suite::{CaseResult, Suite};
use tests::{root, shell, temporary_copy_of_folder, temporary_folder, tool};

/// A fault that a user reported, as a test of one command.
struct Row {
    /// The wrong behaviour that the user reported.
    fault: &'static str,
    /// The command runs in a directory with the files of `prepare`.
    line: &'static str,
    /// The expected exit code.
    code: i32,
    /// Strings that standard output and standard error together must contain.
    must_contain: &'static [&'static str],
    must_not_contain: &'static [&'static str],
}

const fn row(
    fault: &'static str,
    line: &'static str,
    code: i32,
    must_contain: &'static [&'static str],
    must_not_contain: &'static [&'static str],
) -> Row {
    Row { fault, line, code, must_contain, must_not_contain }
}

const ROWS: &[Row] = &[
    row(
        "tile-score compares PTX with a cubin row by row",
        "tile-score k.ptx k.cubin",
        2,
        &["SCO004", "k.ptx is PTX", "k.cubin is an ELF file"],
        &[],
    ),
    row(
        "Triton sets CUDA_HOME to the driver's own folder",
        "unset CUDA_ROOT; CUDA_HOME=$TOOLS tileiras k.bc --gpu-name=sm_90 -o o",
        0,
        &[],
        &["ptxas"],
    ),
    row(
        "Triton sets CUDA_HOME to the folder above the driver's",
        "unset CUDA_ROOT; CUDA_HOME=$TOOLS/.. tileiras k.bc --gpu-name=sm_90 -o o",
        0,
        &[],
        &["ptxas"],
    ),
    row(
        "CUDA_HOME names another folder without ptxas",
        "unset CUDA_ROOT; CUDA_HOME=$PWD tileiras k.bc --gpu-name=sm_90 -o o",
        5,
        &["that CUDA_HOME names"],
        &[],
    ),
    row("--explain CHK001 describes the wrong tool", "tileiras --explain CHK001", 0, &["tile-run --check"], &["tile-sched"]),
    row("--explain SC120 describes the wrong tool", "tileiras --explain SC120", 0, &["schedule"], &["tile-score"]),
    row(
        "--explain has no text for single codes",
        "tileiras --explain OPT003",
        0,
        &["use --lineinfo", "recorded compiler option"],
        &[],
    ),
    row("--explain refuses codes in lower case", "tile-sched --explain sim035", 0, &["SIM035", "without a barrier"], &[]),
    row("--explain cannot list the codes", "tile-read --explain list", 0, &["AA001", "TXT001"], &[]),
    row("--explain of a code that does not exist", "tile-run --explain XYZ001", 2, &["there is no code 'XYZ001'"], &[]),
    row(
        "the message for a mistyped op suggests no name",
        "sed s/load_view/laod_view/ k.aa.text | tile-lower-as --gpu-name=sm_90",
        1,
        &["'laod_view'", "did you mean 'load_view'?"],
        &[],
    ),
    row(
        "the message for a mistyped op lists only the ops of the core dialect",
        "sed s/load_view/something_else/ k.aa.text | tile-lower-as --gpu-name=sm_90",
        1,
        &["not one of", "load_view", "broadcast"],
        &[],
    ),
    row(
        "the message for a mistyped Tile IR op suggests no name",
        "sed 's/ addf / adff /' k.mlir | tile-read",
        1,
        &["unknown op 'adff'; did you mean 'addf'?"],
        &[],
    ),
    row(
        "a message repeats the word 'expected'",
        "sed 's/ weak / waek /' k.mlir | tile-read",
        1,
        &["expected one of: weak"],
        &["expected expected"],
    ),
    row(
        "the message for a mistyped pass suggests no name",
        "tile-lower-aa --stop-after=hosit k.tile",
        2,
        &["did you mean 'hoist'?"],
        &[],
    ),
    row(
        "the driver suggests an option that is not similar",
        "tileiras --frobnicate k.bc",
        1,
        &["Unknown command line argument '--frobnicate'"],
        &["Did you mean"],
    ),
    row(
        "the driver does not suggest a similar option",
        "tileiras --gpu-nmae=sm_90 k.bc",
        1,
        &["Did you mean '--gpu-name=sm_90'?"],
        &[],
    ),
    row(
        "the driver does not name the format of a stage file",
        "tileiras k.aa --gpu-name=sm_90 -o o",
        3,
        &["input does not correspond to Tile IR bytecode (it is a tileaa file, which tile-lower-as reads)"],
        &[],
    ),
    row(
        "the driver does not recognise PTX",
        "tileiras k.ptx --gpu-name=sm_90 -o o",
        3,
        &["(it is PTX, which tile-link reads)"],
        &[],
    ),
    row("tile-sim does not name the file that is no PTX", "tile-sim k.aa", 1, &["PTX002", "k.aa is a tileaa file"], &[]),
    row(
        "tile-sim does not name the file with a syntax error",
        "sed s/ld.global/ld.globl.x/ k.ptx > broken.ptx; echo '}' >> broken.ptx; tile-sim broken.ptx",
        1,
        &["--> broken.ptx:"],
        &["--> ptx:"],
    ),
    row(
        "the message for a missing target shows sm_0",
        "tileiras k.bc -o o --error-format=human",
        2,
        &["no target: pass --gpu-name"],
        &["sm_0"],
    ),
    row(
        "the message for a missing target differs from NVIDIA's for clients",
        "tileiras k.bc -o o",
        2,
        &["error: GPU architecture sm_0 is not supported", "\nnote: no target: pass --gpu-name", "sm_90, sm_100,"],
        &[],
    ),
    row(
        "the message of tile-lower-as for a missing target lists no targets",
        "tile-lower-as k.aa -o o",
        2,
        &["OPT002", "sm_80, ", "sm_121"],
        &[],
    ),
    row(
        "tile-read does not name a broken input",
        "head -c 60 k.bc > broken.bc; tile-read broken.bc",
        1,
        &["error[TI001]: section length", "--> broken.bc, byte "],
        &["error at offset"],
    ),
    row(
        "the driver does not name a broken input",
        "head -c 60 k.bc > broken.bc; tileiras broken.bc --gpu-name=sm_90 --error-format=human",
        3,
        &["error[TI001]: section length", "--> broken.bc, byte "],
        &["error at offset"],
    ),
    row(
        "the reference form of the error does not name a broken input",
        "head -c 60 k.bc > broken.bc; tileiras broken.bc --gpu-name=sm_90",
        3,
        &["error: error at offset ", "error: input does not correspond to Tile IR bytecode\nnote: in broken.bc\n"],
        &[],
    ),
    row(
        "a header without a minor version is no bytecode to the driver",
        "head -c 9 k.bc > broken.bc; tileiras broken.bc --gpu-name=sm_90",
        3,
        &["error: unsupported Tile IR bytecode version: 13.0\n"],
        &["does not correspond"],
    ),
    row(
        "the driver does not name an input that is no bytecode",
        "tileiras k.ptx --gpu-name=sm_90 --error-format=human",
        3,
        &["--> k.ptx"],
        &[],
    ),
    row(
        "a suffix of an architecture is refused",
        "for s in 90a 100a 100f 103a 103f 110a 110f 120a 120f 121a 121f; do tileiras k.bc --gpu-name=sm_$s --emit=as -o o || exit 9; done; \
         tileiras k.bc --gpu-name=sm_90 --emit=as -o p; tileiras k.bc --arch sm_90a --emit=as -o q; cmp p q",
        0,
        &[],
        &["error", "differ"],
    ),
    row(
        "a suffix of an architecture is refused by the stages",
        "tile-lower-as k.aa --gpu-name=sm_90a -o o && tile-ptx k.sched >/dev/null",
        0,
        &[],
        &["error"],
    ),
    row("an invalid suffix is accepted: sm_80a", "tileiras k.bc --gpu-name=sm_80a -o o", 1, &["option named 'sm_80a'"], &[]),
    row("an invalid suffix is accepted: sm_90f", "tileiras k.bc --gpu-name=sm_90f -o o", 1, &["option named 'sm_90f'"], &[]),
    row("an invalid suffix is accepted: sm_90b", "tile-lower-as k.aa --gpu-name=sm_90b", 2, &["'sm_90b'", "sm_80, sm_86"], &[]),
    row(
        "errors of options ignore --error-format",
        "tile-read --no-such-option --error-format=json",
        2,
        &[r#""code":"CLI008""#, "--no-such-option"],
        &["Usage:"],
    ),
    row(
        "errors of the driver's options ignore --error-format",
        "tileiras --no-such-option --error-format=json",
        1,
        &[r#""code":"CLI008""#, "--no-such-option"],
        &["tileiras: "],
    ),
    row(
        "errors of the driver ignore --error-format",
        "tileiras nothing.bc --error-format=json",
        1,
        &[r#""code":"DRI001""#, "unable to read input file 'nothing.bc'"],
        &["\nerror:"],
    ),
    row(
        "the message for an invalid launch description has only the text of the JSON parser",
        "printf '{\"grid\": [1] // one\\n}' > l.json; tile-run k.tile --launch l.json",
        1,
        &["error[LCH001]: the launch description does not parse: JSON has no comments", "--> l.json:1:14", "docs/launch-files.md"],
        &["at line 1"],
    ),
    row(
        "the message for a file of another stage names no tool",
        "tile-sched k.aa -o o",
        1,
        &["error[ENV001]: k.aa is tileaa v", "note: run tile-lower-as first\n"],
        &[],
    ),
    row(
        "the message for a file of another stage names only one of two missing tools",
        "tile-ptx k.aa -o o",
        1,
        &["note: run tile-lower-as, then tile-sched first\n"],
        &[],
    ),
    row(
        "the message for a file of another stage does not name the tool that reads it",
        "tile-lower-as k.sched --gpu-name=sm_90 -o o",
        1,
        &["note: tile-ptx reads it\n"],
        &[],
    ),
    row(
        "the message for too few arguments has a wrong plural",
        "tile-run k.tile --grid 4 'zeros:f32[1024]'",
        2,
        &["LCH015", "the arguments fill 1 parameter, the kernel has 9", "note: --abi=cutile passes the extents"],
        &["1 parameters"],
    ),
    row(
        "the message for an unknown field does not list the fields",
        "sed 's/assume(value: /assume(valeu: /' k.aa.text > w.aa; tile-lower-as w.aa --gpu-name=sm_90 -o o",
        1,
        &["there is no field 'valeu'; did you mean 'value'?; the fields are value and fact"],
        &["is not one of the fields"],
    ),
    row(
        "--format does nothing in tile-write",
        "tile-write --format=text k.tile -o o",
        2,
        &["CLI009", "does not write stage files"],
        &[],
    ),
    row("--format does nothing in tile-link", "tile-link --format=text k.ptx -o o", 2, &["CLI009"], &[]),
    row(
        "--format does nothing for a cubin",
        "tileiras k.bc --gpu-name=sm_90 --format=text -o o",
        2,
        &["cubin has a single format"],
        &[],
    ),
    row("--stop-after does nothing without passes", "tile-read --stop-after=decode k.bc -o o", 2, &["has no passes"], &[]),
    row("--help lists options without effect", "tile-write --help", 0, &[], &["--format", "--stop-after", "--print-after"]),
    row("tile-run --verify-only requires a launch", "tile-run --verify-only k.sched", 0, &[], &["error"]),
    row("tile-sim --verify-only requires a launch", "tile-sim --verify-only k.ptx", 0, &[], &["error"]),
    row("--help shows a wrong default of -O", "tile-ptx --help", 0, &["the level recorded in the file"], &[]),
    row(
        "--trace=op= with a name that does not exist",
        "tile-run --trace=op=mmma k.tile --launch launch.json",
        2,
        &["RUN065", "did you mean 'mma'?"],
        &[],
    ),
    row(
        "--trace=op= with a name that exists",
        "tile-run --trace=op=addf k.tile --launch launch.json --out-dir .",
        0,
        &["addf: "],
        &[],
    ),
    row(
        "tile-run has another exit code for an unknown kernel",
        "tile-run --entry nothing k.tile --launch launch.json",
        2,
        &["no kernel is named 'nothing'"],
        &[],
    ),
    row(
        "tile-sim has another exit code for an unknown kernel",
        "tile-sim --entry nothing k.ptx --launch launch.json",
        2,
        &["no kernel is named 'nothing'"],
        &[],
    ),
    row(
        "--cache -v does not say hit or miss",
        "tileiras k.bc --gpu-name=sm_80 --cache=c -v -o o",
        0,
        &["cache: miss "],
        &["cache: hit"],
    ),
    row(
        "--cache -v does not say hit or miss in the second run",
        "tileiras k.bc --gpu-name=sm_80 --cache=d -o o; tileiras k.bc --gpu-name=sm_80 --cache=d -v -o o",
        0,
        &["cache: hit "],
        &["cache: miss"],
    ),
    row(
        "tile-lower-aa refuses the text of tile-dump",
        "tile-lower-aa k.mlir | tile-lower-as --gpu-name=sm_90 -o o",
        0,
        &[],
        &["error"],
    ),
    row(
        "tile-read and tile-lower-aa refuse each other's text",
        "tile-read k.tile.text | tile-lower-aa -o o && tile-lower-aa k.tile.text -o o && tile-lower-aa k.bc -o o",
        0,
        &[],
        &["error"],
    ),
    row(
        "the message for a fault in PTX names a distant variable",
        "tile-sim far.ptx --grid 1",
        1,
        &["SIM010", "0xdead0000dead0000"],
        &["bytes after its start", "bytes before its start"],
    ),
    row(
        "the message for a fault in PTX has no source line",
        "tile-sim lines.ptx --grid 1",
        1,
        &["SIM010", "in the source: kernel.py:7:3"],
        &[],
    ),
    row(
        "the message does not name the signal that ended ptxas",
        "mkdir -p t/bin; printf '#!/bin/sh\\nkill -SEGV $$\\n' > t/bin/ptxas; chmod +x t/bin/ptxas; CUDA_ROOT=$PWD/t tile-link k.ptx -o o",
        4,
        &["LNK015", "ptxas died", "SIGSEGV"],
        &["ptxas failed"],
    ),
    row(
        "no option shows the changes of a pass",
        "tile-lower-aa k.tile --print-changed -o o",
        0,
        &["changes in dead", "\n- ", "no changes in induction"],
        &["\n  func"],
    ),
    row(
        "no tool shows the differences between stage files",
        "tileiras k.bc --emit=aa -O0 -o o.aa; tile-diff k.aa o.aa",
        0,
        &["- //!tile option opt-level=3", "+ //!tile option opt-level=0"],
        &["producer"],
    ),
    row(
        "tile-diff reports differences between two forms of one program",
        "tile-diff k.aa k.aa.text; tile-diff k.mlir k.bc; tile-diff k.ptx k.ptx",
        0,
        &[],
        &["-", "+"],
    ),
    row(
        "tile-diff compares files of different formats",
        "tile-diff k.aa k.ptx",
        2,
        &["DIF002", "k.aa is a tileaa file, and k.ptx is PTX"],
        &[],
    ),
];

/// PTX that loads from an address far from its only variable. The message about the fault must not mention this variable.
const FAR_LOAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .b32 metadata = 1;\n.visible .entry k()\n{\n\
    .reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nmov.b64 %rd1, 0xdead0000dead0000;\nLOC\nld.global.b32 %r1, [%rd1];\nret;\n}\n";

/// Creates the directory of files that the commands read.
fn prepare_files() -> tempfile::TempDir {
    let directory = temporary_folder();
    let folder = directory.path();
    check_stages_are_current();
    for name in ["tile-score", "tile-run", "tile-sim", "tile-dump", "tile-write", "tile-diff"] {
        tool(name);
    }
    make_stage_files(folder);
    fs::copy(bytecode_path(), folder.join("k.bc")).unwrap();
    let line = "set -e; tile-link k.ptx -o k.cubin; tile-dump k.bc > k.mlir; tile-dump k.aa > k.aa.text; tile-read k.bc --format=text -o k.tile.text";
    shell(folder, line).ok("making the files");
    for name in ["launch.json", "arg0.bin", "arg1.bin", "arg2.bin"] {
        fs::copy(root().join("tests/run/vadd").join(name), folder.join(name)).unwrap();
    }
    fs::write(folder.join("far.ptx"), FAR_LOAD.replace("LOC\n", "")).unwrap();
    fs::write(folder.join("lines.ptx"), FAR_LOAD.replace("LOC", ".loc 1 7 3") + ".file 1 \"kernel.py\"\n").unwrap();
    directory
}

/// Runs the command of a row, and checks its exit code and output.
fn check_row(row: &Row, files: &Path) -> CaseResult {
    let Row { line, code, must_contain, must_not_contain, .. } = row;
    let folder = temporary_copy_of_folder(files);
    let ran = shell(folder.path(), &line.replace("$TOOLS", &tests::tools_folder().display().to_string()));
    let reported = ran.text() + &ran.stderr;
    let missing: Vec<_> = must_contain.iter().filter(|words| !reported.contains(**words)).collect();
    let unexpected: Vec<_> = must_not_contain.iter().filter(|words| reported.contains(**words)).collect();
    if ran.code == Some(*code) && missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    Err(format!("{line}\nended with {:?}, not {code}; lacks {missing:?}, has {unexpected:?}\n{reported}", ran.code))
}

/// Adds a case for each row. The name of the case has the number and the fault of the row.
pub(crate) fn add(suite: &mut Suite) {
    let files = Arc::new(OnceLock::new());
    for (number, row) in ROWS.iter().enumerate() {
        let files = Arc::clone(&files);
        let check = move || check_row(row, files.get_or_init(prepare_files).path());
        suite.case_with(&[Need::Ptxas], format!("reported_faults/{number}/{}", row.fault), check);
    }
}
