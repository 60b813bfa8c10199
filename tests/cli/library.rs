//! libtileworks: programs in C and Python compile in eight threads, and get the bytes of the command line.

use crate::check_stages_are_current;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::{root, run_in, run_to_end, temporary_folder, tool, tools_folder};

/// A folder with a kernel, its outputs from the command line, and the library with its versioned name.
fn prepare() -> tempfile::TempDir {
    check_stages_are_current();
    let folder = temporary_folder();
    fs::copy(root().join("tests/run/matmul_f16/kernel.tileirbc"), folder.path().join("k.tileirbc")).unwrap();
    for (options, output) in [
        (&["--gpu-name=sm_80"][..], "sm_80.cubin"),
        (&["--gpu-name=sm_90"], "sm_90.cubin"),
        (&["--gpu-name=sm_80", "--gpu-name=sm_90", "--emit=fatbin"], "k.fatbin"),
    ] {
        run_in(folder.path(), "tileiras", &[&["k.tileirbc", "-o", output], options].concat(), b"").ok(output);
    }
    let library = tool("libtileworks.so");
    for name in ["libtileworks.so", "libtileworks.so.1"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    folder
}

const FILES: [&str; 4] = ["k.tileirbc", "sm_80.cubin", "sm_90.cubin", "k.fatbin"];

fn run_c_program(folder: &Path, options: &[&str]) {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror"]).args(options).arg("-I");
    compiler.arg(root().join("packages/libtileworks/include")).arg(root().join("tests/library/library.c"));
    compiler.args(["-L.", "-ltileworks", "-lpthread", "-o", "program"]).current_dir(folder);
    run_to_end(compiler, b"").ok("cc");
    let mut program = Command::new(folder.join("program"));
    program.arg(tools_folder()).args(FILES).current_dir(folder).env("LD_LIBRARY_PATH", folder);
    run_to_end(program, b"").ok("the program");
}

fn a_c_program_gets_the_bytes_of_the_command_line() {
    run_c_program(prepare().path(), &[]);
}

fn a_c_program_with_address_sanitizer_has_no_error() {
    run_c_program(prepare().path(), &["-g", "-fsanitize=address"]);
}

fn a_python_program_gets_the_bytes_of_the_command_line() {
    let folder = prepare();
    let mut python = Command::new(root().join(".toolkit/python/bin/python"));
    python.arg(root().join("tests/library/library.py")).args(FILES).current_dir(folder.path());
    python.env("PYTHONPATH", root().join("python")).env("TILEWORKS_TOOLS", tools_folder()).env("PYTHONDONTWRITEBYTECODE", "1");
    run_to_end(python, b"").ok("the program");
}

/// The library exports the functions that its header declares, and nothing else.
fn the_library_exports_only_its_interface() {
    let library = tool("libtileworks.so");
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]).arg(library);
    let symbols = String::from_utf8(run_to_end(nm, b"").ok("nm")).unwrap();
    let header = fs::read_to_string(root().join("packages/libtileworks/include/tileworks.h")).unwrap();
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    // A name stands before each parenthesis, except in comments.
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = header.split('(').filter_map(|text| text.rsplit(|c: char| !is_name_character(c)).next());
    let declared: BTreeSet<&str> = names.filter(|name| name.starts_with("tileworks_")).collect();
    assert_eq!(exported, declared);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    a_c_program_gets_the_bytes_of_the_command_line,
    a_c_program_with_address_sanitizer_has_no_error,
    a_python_program_gets_the_bytes_of_the_command_line,
    the_library_exports_only_its_interface,
];
