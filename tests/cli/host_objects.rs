//! `--emit=host-object` and `--emit=fatbin`: a C program links the object and finds the cubin in it.

use crate::{bytecode_path, check_stages_are_current};
use std::fs;
use std::process::Command;
use tests::{run_in, run_to_end, temporary_folder};

/// Follows the wrapper to the fatbin and its entry, as the host runtime does, and writes the cubin to standard output.
const HOST_PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
extern struct { uint32_t magic, version; const unsigned char *fatbin; void *none; } __tile_fatbin_wrapper;
int main(void) {
    const unsigned char *fatbin = __tile_fatbin_wrapper.fatbin, *entry = fatbin + *(const uint16_t *)(fatbin + 6);
    if (__tile_fatbin_wrapper.magic != 0x466243b1 || *(const uint32_t *)fatbin != 0xba55ed50 || *(const uint32_t *)(entry + 28) != 90) return 1;
    return fwrite(entry + *(const uint32_t *)(entry + 4), *(const uint64_t *)(entry + 8), 1, stdout) != 1;
}
"#;

fn a_host_program_finds_the_cubin_in_its_fatbin() {
    check_stages_are_current();
    let folder = temporary_folder();
    let emit = |kind: &str| {
        let output = format!("k.{kind}");
        let arguments = [&bytecode_path(), "--gpu-name=sm_90", &format!("--emit={kind}"), "-o", &output];
        run_in(folder.path(), "tileiras", &arguments, b"").ok(kind);
        fs::read(folder.path().join(output)).unwrap()
    };
    let (cubin, fatbin) = (emit("cubin"), emit("fatbin"));
    assert!(fatbin.windows(cubin.len()).any(|part| part == cubin));
    emit("host-object");
    fs::write(folder.path().join("main.c"), HOST_PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    // The linker recognises an object by its content, whatever its name.
    cc.args(["-Wall", "main.c", "k.host-object", "-o", "main"]).current_dir(folder.path());
    let built = run_to_end(cc, b"");
    assert_eq!(built.code, Some(0), "{}", built.stderr);
    let output = run_to_end(Command::new(folder.path().join("main")), b"").ok("the host program");
    assert_eq!(output[..cubin.len()], cubin);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![a_host_program_finds_the_cubin_in_its_fatbin,];
