//! `--emit=host-object` and `--emit=fatbin`: a C program links the object and finds the cubin in it.

use crate::{bytecode, need_stages};
use std::fs;
use std::process::Command;
use tests::{finish, run_in, temporary};

/// Follows the wrapper to the fatbin and its entry, as the host runtime does, and writes the cubin to standard output.
const PROGRAM: &str = r#"
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
    need_stages();
    let folder = temporary();
    let emit = |kind: &str| {
        let output = format!("k.{kind}");
        let arguments = [&bytecode(), "--gpu-name=sm_90", &format!("--emit={kind}"), "-o", &output];
        run_in(folder.path(), "tileiras", &arguments, b"").ok(kind);
        fs::read(folder.path().join(output)).unwrap()
    };
    let (cubin, fatbin) = (emit("cubin"), emit("fatbin"));
    assert!(fatbin.windows(cubin.len()).any(|part| part == cubin));
    emit("host-object");
    fs::write(folder.path().join("main.c"), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    // The linker recognises an object by its content, whatever its name.
    cc.args(["-Wall", "main.c", "k.host-object", "-o", "main"]).current_dir(folder.path());
    let built = finish(cc, b"");
    assert_eq!(built.code, Some(0), "{}", built.stderr);
    let found = finish(Command::new(folder.path().join("main")), b"").ok("the host program");
    assert_eq!(found[..cubin.len()], cubin);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![a_host_program_finds_the_cubin_in_its_fatbin,];
