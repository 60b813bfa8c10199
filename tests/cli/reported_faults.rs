//! Faults that users reported. Each row has the command, its exit code, and strings that its output must and must not contain.

use crate::{bytecode_path, check_stages_are_current, make_stage_files};
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tests::need::Need;
use tests::suite::{CaseResult, Suite};
use tests::{root, shell, temporary_copy_of_folder, temporary_folder, tool};

/// A fault that a user reported, as a test of one command.
struct Row {
    fault: &'static str,
    /// The command runs in a directory with the files of `prepare`.
    line: &'static str,
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
        "PTX and a cubin are compared row by row",
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
    row("... or to the one above", "unset CUDA_ROOT; CUDA_HOME=$TOOLS/.. tileiras k.bc --gpu-name=sm_90 -o o", 0, &[], &["ptxas"]),
    row(
        "... but another folder without ptxas is a mistake",
        "unset CUDA_ROOT; CUDA_HOME=$PWD tileiras k.bc --gpu-name=sm_90 -o o",
        5,
        &["that CUDA_HOME names"],
        &[],
    ),
    row("--explain describes the wrong tool", "tileiras --explain CHK001", 0, &["tile-run --check"], &["tile-sched"]),
    row("--explain describes the wrong tool", "tileiras --explain SC120", 0, &["schedule"], &["tile-score"]),
    row("--explain knows families only", "tileiras --explain OPT003", 0, &["use --lineinfo", "recorded compiler option"], &[]),
    row("--explain knows upper case only", "tile-sched --explain sim035", 0, &["SIM035", "without a barrier"], &[]),
    row("--explain lists nothing", "tile-read --explain list", 0, &["AA001", "TXT001"], &[]),
    row("--explain of no code", "tile-run --explain XYZ001", 2, &["there is no code 'XYZ001'"], &[]),
    row(
        "a mistyped op has no nearest name",
        "sed s/load_view/laod_view/ k.aa.text | tile-lower-as --gpu-name=sm_90",
        1,
        &["'laod_view'", "did you mean 'load_view'?"],
        &[],
    ),
    row(
        "a mistyped op lists the shared ops only",
        "sed s/load_view/something_else/ k.aa.text | tile-lower-as --gpu-name=sm_90",
        1,
        &["not one of", "load_view", "broadcast"],
        &[],
    ),
    row(
        "a mistyped op of Tile IR",
        "sed 's/ addf / adff /' k.mlir | tile-read",
        1,
        &["unknown op 'adff'; did you mean 'addf'?"],
        &[],
    ),
    row("expected expected", "sed 's/ weak / waek /' k.mlir | tile-read", 1, &["expected one of: weak"], &["expected expected"]),
    row("a mistyped pass", "tile-lower-aa --stop-after=hosit k.tile", 2, &["did you mean 'hoist'?"], &[]),
    row(
        "the driver suggests nonsense",
        "tileiras --frobnicate k.bc",
        1,
        &["Unknown command line argument '--frobnicate'"],
        &["Did you mean"],
    ),
    row("... but not what is near", "tileiras --gpu-nmae=sm_90 k.bc", 1, &["Did you mean '--gpu-name=sm_90'?"], &[]),
    row(
        "the driver on a stage file",
        "tileiras k.aa --gpu-name=sm_90 -o o",
        3,
        &["input does not correspond to Tile IR bytecode (it is a tileaa file, which tile-lower-as reads)"],
        &[],
    ),
    row("the driver on PTX", "tileiras k.ptx --gpu-name=sm_90 -o o", 3, &["(it is PTX, which tile-link reads)"], &[]),
    row("tile-sim loses the file's name", "tile-sim k.aa", 1, &["PTX002", "k.aa is a tileaa file"], &[]),
    row(
        "tile-sim loses the file's name in its text",
        "sed s/ld.global/ld.globl.x/ k.ptx > broken.ptx; echo '}' >> broken.ptx; tile-sim broken.ptx",
        1,
        &["--> broken.ptx:"],
        &["--> ptx:"],
    ),
    row(
        "the message for a missing target does not show sm_0",
        "tileiras k.bc -o o --error-format=human",
        2,
        &["no target: pass --gpu-name"],
        &["sm_0"],
    ),
    row(
        "... and to clients as the reference does, which lists no targets",
        "tileiras k.bc -o o",
        2,
        &["error: GPU architecture sm_0 is not supported", "\nnote: no target: pass --gpu-name", "sm_90, sm_100,"],
        &[],
    ),
    row("no target lists no targets", "tile-lower-as k.aa -o o", 2, &["OPT002", "sm_80, ", "sm_121"], &[]),
    row(
        "a broken input has no name",
        "head -c 60 k.bc > broken.bc; tile-read broken.bc",
        1,
        &["error[TI001]: section length", "--> broken.bc, byte "],
        &["error at offset"],
    ),
    row(
        "... nor in the driver",
        "head -c 60 k.bc > broken.bc; tileiras broken.bc --gpu-name=sm_90 --error-format=human",
        3,
        &["error[TI001]: section length", "--> broken.bc, byte "],
        &["error at offset"],
    ),
    row(
        "... nor in the reference's form, whose lines stay as they are",
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
    row("... nor one that is no bytecode", "tileiras k.ptx --gpu-name=sm_90 --error-format=human", 3, &["--> k.ptx"], &[]),
    row(
        "a suffix of an architecture is refused",
        "for s in 90a 100a 100f 103a 103f 110a 110f 120a 120f 121a 121f; do tileiras k.bc --gpu-name=sm_$s --emit=as -o o || exit 9; done; \
         tileiras k.bc --gpu-name=sm_90 --emit=as -o p; tileiras k.bc --arch sm_90a --emit=as -o q; cmp p q",
        0,
        &[],
        &["error", "differ"],
    ),
    row("... also by the tools", "tile-lower-as k.aa --gpu-name=sm_90a -o o && tile-ptx k.sched >/dev/null", 0, &[], &["error"]),
    row("... but one that does not exist is", "tileiras k.bc --gpu-name=sm_80a -o o", 1, &["option named 'sm_80a'"], &[]),
    row("... but one that does not exist is", "tileiras k.bc --gpu-name=sm_90f -o o", 1, &["option named 'sm_90f'"], &[]),
    row("... but one that does not exist is", "tile-lower-as k.aa --gpu-name=sm_90b", 2, &["'sm_90b'", "sm_80, sm_86"], &[]),
    row(
        "errors of options ignore --error-format",
        "tile-read --no-such-option --error-format=json",
        2,
        &[r#""code":"CLI008""#, "--no-such-option"],
        &["Usage:"],
    ),
    row(
        "errors of the driver's options ignore it",
        "tileiras --no-such-option --error-format=json",
        1,
        &[r#""code":"CLI008""#, "--no-such-option"],
        &["tileiras: "],
    ),
    row(
        "errors of the driver ignore it",
        "tileiras nothing.bc --error-format=json",
        1,
        &[r#""code":"DRI001""#, "unable to read input file 'nothing.bc'"],
        &["\nerror:"],
    ),
    row(
        "a launch description fails with the parser's words alone",
        "printf '{\"grid\": [1] // one\\n}' > l.json; tile-run k.tile --launch l.json",
        1,
        &["error[LCH001]: the launch description does not parse: JSON has no comments", "--> l.json:1:14", "docs/launch-files.md"],
        &["at line 1"],
    ),
    row(
        "a file of another stage names no tool",
        "tile-sched k.aa -o o",
        1,
        &["error[ENV001]: k.aa is tileaa v", "note: run tile-lower-as first\n"],
        &[],
    ),
    row("... nor several", "tile-ptx k.aa -o o", 1, &["note: run tile-lower-as, then tile-sched first\n"], &[]),
    row("... nor the one that reads it", "tile-lower-as k.sched --gpu-name=sm_90 -o o", 1, &["note: tile-ptx reads it\n"], &[]),
    row(
        "too few arguments are 1 parameters",
        "tile-run k.tile --grid 4 'zeros:f32[1024]'",
        2,
        &["LCH015", "the arguments fill 1 parameter, the kernel has 9", "note: --abi=cutile passes the extents"],
        &["1 parameters"],
    ),
    row(
        "the fields of an op are not a list",
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
    row("options that do nothing are listed", "tile-write --help", 0, &[], &["--format", "--stop-after", "--print-after"]),
    row("--verify-only wants a launch", "tile-run --verify-only k.sched", 0, &[], &["error"]),
    row("--verify-only wants a launch", "tile-sim --verify-only k.ptx", 0, &[], &["error"]),
    row("the help of -O shows the wrong default", "tile-ptx --help", 0, &["the level recorded in the file"], &[]),
    row(
        "--trace=op= with a name that does not exist",
        "tile-run --trace=op=mmma k.tile --launch launch.json",
        2,
        &["RUN065", "did you mean 'mma'?"],
        &[],
    ),
    row("--trace=op= with one that does", "tile-run --trace=op=addf k.tile --launch launch.json --out-dir .", 0, &["addf: "], &[]),
    row(
        "an unknown kernel is another exit code",
        "tile-run --entry nothing k.tile --launch launch.json",
        2,
        &["no kernel is named 'nothing'"],
        &[],
    ),
    row(
        "an unknown kernel is another exit code",
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
        "... nor the second time",
        "tileiras k.bc --gpu-name=sm_80 --cache=d -o o; tileiras k.bc --gpu-name=sm_80 --cache=d -v -o o",
        0,
        &["cache: hit "],
        &["cache: miss"],
    ),
    row(
        "a stage takes one text of .tile and not the other",
        "tile-lower-aa k.mlir | tile-lower-as --gpu-name=sm_90 -o o",
        0,
        &[],
        &["error"],
    ),
    row(
        "... and the other way",
        "tile-read k.tile.text | tile-lower-aa -o o && tile-lower-aa k.tile.text -o o && tile-lower-aa k.bc -o o",
        0,
        &[],
        &["error"],
    ),
    row(
        "what is wrong in PTX names a variable far away",
        "tile-sim far.ptx --grid 1",
        1,
        &["SIM010", "0xdead0000dead0000"],
        &["bytes after its start", "bytes before its start"],
    ),
    row(
        "what is wrong in PTX has no source line",
        "tile-sim lines.ptx --grid 1",
        1,
        &["SIM010", "in the source: kernel.py:7:3"],
        &[],
    ),
    row(
        "a ptxas that dies by a signal has failed",
        "mkdir -p t/bin; printf '#!/bin/sh\\nkill -SEGV $$\\n' > t/bin/ptxas; chmod +x t/bin/ptxas; CUDA_ROOT=$PWD/t tile-link k.ptx -o o",
        4,
        &["LNK015", "ptxas died", "SIGSEGV"],
        &["ptxas failed"],
    ),
    row(
        "nothing shows what a pass changed",
        "tile-lower-aa k.tile --print-changed -o o",
        0,
        &["changes in dead", "\n- ", "no changes in induction"],
        &["\n  func"],
    ),
    row(
        "nothing shows what differs between files",
        "tileiras k.bc --emit=aa -O0 -o o.aa; tile-diff k.aa o.aa",
        0,
        &["- //!tile option opt-level=3", "+ //!tile option opt-level=0"],
        &["producer"],
    ),
    row(
        "... which is nothing between forms of one program",
        "tile-diff k.aa k.aa.text; tile-diff k.mlir k.bc; tile-diff k.ptx k.ptx",
        0,
        &[],
        &["-", "+"],
    ),
    row("... and must be of one kind", "tile-diff k.aa k.ptx", 2, &["DIF002", "k.aa is a tileaa file, and k.ptx is PTX"], &[]),
];

/// PTX that loads from an address far from its only variable. The message about the fault must not mention this variable.
const FAR_LOAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .b32 metadata = 1;\n.visible .entry k()\n{\n\
    .reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nmov.b64 %rd1, 0xdead0000dead0000;\nLOC\nld.global.b32 %r1, [%rd1];\nret;\n}\n";

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

/// Each row is a case. Its name has the number and the fault of the row.
pub(crate) fn add(suite: &mut Suite) {
    let files = Arc::new(OnceLock::new());
    for (number, row) in ROWS.iter().enumerate() {
        let files = Arc::clone(&files);
        let check = move || check_row(row, files.get_or_init(prepare_files).path());
        suite.case_with(&[Need::Ptxas], format!("reported_faults/{number}/{}", row.fault), check);
    }
}
