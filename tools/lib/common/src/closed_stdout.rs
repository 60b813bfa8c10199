//! Whether standard output was open when the program was started.
//!
//! Rust's run-time opens `/dev/null` in place of a standard stream that is closed, before `main`, so that an artefact written there
//! would be lost in silence. What is here looks before that.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls what is listed in this section before it calls the run-time of Rust.
#[allow(unsafe_code, reason = "naming a section of the executable; what is put there is a function as the C library calls them")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let open = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    STDOUT_WAS_CLOSED.store(!open, Ordering::Relaxed);
}

pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}
