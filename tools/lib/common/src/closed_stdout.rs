//! Detects whether standard output was closed when the process started.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in place of a closed standard stream, so output written there would be lost
//! silently. The check in this module therefore runs before the runtime.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the process started. `check_stdout` sets it before `main`.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls the functions of this section before it calls the Rust runtime.
#[allow(unsafe_code, reason = "names a section of the executable; its entry has the signature that the C library calls")]
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK_STDOUT: extern "C" fn() = check_stdout;

/// Records whether standard output is open.
extern "C" fn check_stdout() {
    let is_open = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    STDOUT_WAS_CLOSED.store(!is_open, Ordering::Relaxed);
}

/// Returns whether standard output was closed when the process started.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}
