//! Tensor maps from the callback of a host object.
//!
//! A host object has native code, which the compiler generated together with the PTX. Its callback fills the tensor maps of a
//! kernel. The system's C compiler links the object with a small caller. The caller looks up the kernel's callback and calls it on
//! the parameters. The caller runs as a child process without an environment, in its own directory, with time and memory limits.
//! `tile-sim` executes a callback only with `--allow-native`.

use crate::program::Program;
use base::diag::{Diagnostic, Result};
use common::child;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use target_info::Target;

/// CPU time limit of the process that executes the host object, in seconds.
const TIME_LIMIT_SECONDS: u64 = 10;
/// Memory limit of the process that executes the host object, in KiB.
const MEMORY_LIMIT_KIB: u64 = 1 << 20;

/// The C source of the caller.
///
/// Layout of `__CUDA_TILEIR_CALLBACKS`: word 4 is the size of an entry, word 5 the entry table and word 6 the number of entries. An
/// entry starts with the kernel's name, and its word 5 is the callback. The fourth argument of the callback is the parameter
/// memory. The callback uses its other arguments only for per-CTA memory, so the caller passes zeros.
const CALLER: &str = r#"
#include <stdint.h>
#include <string.h>
#include <unistd.h>
extern uint64_t __CUDA_TILEIR_CALLBACKS[9];
static _Alignas(64) uint8_t params[1 << 16];
static uint64_t nothing[3][512];
int main(int count, char **arguments) {
    size_t size = 0;
    for (ssize_t got; size < sizeof params && (got = read(0, params + size, sizeof params - size)) > 0;) size += got;
    const uint64_t *table = __CUDA_TILEIR_CALLBACKS;
    for (uint64_t index = 0; count > 1 && index < table[6]; index++) {
        const uint64_t *entry = (const uint64_t *)(table[5] + index * table[4]);
        if (strcmp((const char *)entry[0], arguments[1])) continue;
        int (*callback)(void *, void *, void *, uint8_t *) = (int (*)(void *, void *, void *, uint8_t *))entry[5];
        if (callback(nothing[0], nothing[1], nothing[2], params)) return 3;
        return write(1, params, size) == (ssize_t)size ? 0 : 4;
    }
    return 2;
}
"#;

/// Returns the error for a host object whose callback cannot be executed.
fn callback_failure(what: &str) -> Box<Diagnostic> {
    Diagnostic::io("SIM005", format!("the host object's callback failed: {what}"))
}

/// Calls the kernel's callback on the parameters. Returns all parameters, with the hidden parameters that the callback filled.
pub(crate) fn call_callback(object: &Path, program: &Program, target: &[String], mut params: Vec<u8>) -> Result<Vec<u8>> {
    let offsets = parameter_offsets(program, target);
    let mut memory =
        vec![0; offsets.iter().zip(&program.params).map(|(offset, param)| offset + param.bytes as usize).max().unwrap_or(0)];
    for (&offset, param) in offsets.iter().zip(&program.params) {
        let bytes = param.bytes as usize;
        memory[offset..offset + bytes].copy_from_slice(&params[param.offset as usize..][..bytes]);
    }
    let returned = run_callback(object, &program.entry, &memory)?;
    if returned.len() != memory.len() {
        return Err(callback_failure(&format!("it returned {} bytes instead of {}", returned.len(), memory.len())));
    }
    for (&offset, param) in offsets.iter().zip(&program.params).filter(|(_, param)| param.hidden) {
        let bytes = param.bytes as usize;
        params[param.offset as usize..][..bytes].copy_from_slice(&returned[offset..offset + bytes]);
    }
    Ok(params)
}

/// Offset in bytes of the parameters in the constant bank, for a target that `target-info` does not know.
const NEWEST_PARAMETER_OFFSET: usize = 0x380;

/// Returns the offset of each parameter in the parameter memory that the host object's callback receives. A parameter is aligned
/// relative to the start of the constant bank. The offset of the first parameter in this bank depends on the target.
fn parameter_offsets(program: &Program, target: &[String]) -> Vec<usize> {
    let known_target = target.first().and_then(|chip| Target::parse(chip));
    let start = known_target.map_or(NEWEST_PARAMETER_OFFSET, |target| target.parameter_offset as usize);
    let mut end = 0;
    let mut allocate = |bytes: usize, align: usize| {
        let at = (start + end).next_multiple_of(align) - start;
        end = at + bytes;
        at
    };
    program
        .params
        .iter()
        .map(|param| allocate(param.bytes as usize, if param.bytes > 8 { 64 } else { param.bytes.clamp(1, 8) as usize }))
        .collect()
}

/// Executes the callback of a kernel in a separate process. Returns the parameters that it filled.
fn run_callback(object: &Path, entry: &str, memory: &[u8]) -> Result<Vec<u8>> {
    let io = |error: std::io::Error| callback_failure(&error.to_string());
    let folder = tempfile::Builder::new().prefix("tile-sim-").tempdir().map_err(io)?;
    let unreadable = |error: std::io::Error| callback_failure(&format!("{}: {error}", object.display()));
    let mut object = object.canonicalize().map_err(unreadable)?;
    if let Some(embedded_object) = cubin::host_object(&std::fs::read(&object).map_err(unreadable)?) {
        object = folder.path().join("host.o");
        std::fs::write(&object, embedded_object).map_err(io)?;
    }
    std::fs::write(folder.path().join("caller.c"), CALLER).map_err(io)?;
    let mut compiler = child::command("cc");
    compiler.args(["-x", "c", "caller.c", "-x", "none"]).arg(&object).args(["-o", "caller"]).current_dir(folder.path());
    let link_message = link_error(&mut compiler)?;
    if !link_message.is_empty() {
        return Err(callback_failure(&format!("linking failed: {link_message}")));
    }
    let limits = format!("ulimit -t {TIME_LIMIT_SECONDS} -v {MEMORY_LIMIT_KIB} -f 0; exec ./caller \"$1\"");
    let mut child = child::command("/bin/sh")
        .args(["-c", &limits, "sh", entry])
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(io)?;
    // The data fits into the Unix pipe's buffer, so writing before reading cannot block.
    child.stdin.take().map(|mut pipe| pipe.write_all(memory));
    let end = Instant::now() + Duration::from_secs(2 * TIME_LIMIT_SECONDS);
    let status = loop {
        match child.try_wait().map_err(io)? {
            Some(status) => break status,
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(callback_failure("it exceeded the time limit"));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    match status.code() {
        Some(0) => {}
        Some(2) => return Err(callback_failure(&format!("the object has no kernel '{entry}'"))),
        _ => return Err(callback_failure(&format!("it exited with {status}"))),
    }
    let mut returned = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        pipe.take(1 << 20).read_to_end(&mut returned).map_err(io)?;
    }
    Ok(returned)
}

/// Returns the compiler's error message, or an empty string on success.
fn link_error(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| callback_failure(&format!("cannot run the C compiler: {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error") || line.contains("undefined")).or(text.lines().next());
    Ok(if output.status.success() { String::new() } else { first.unwrap_or("no message").into() })
}
