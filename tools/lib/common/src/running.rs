//! The state of the run of this process, for the report of an internal error.

use crate::files::Input;
use std::sync::{Mutex, MutexGuard};

/// The state of the run, for the report of an internal error.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// The running step.
    pub(crate) step: Option<&'static str>,
    /// The last pass that has ended.
    pub(crate) last_pass: Option<&'static str>,
    pub(crate) input: Option<Input>,
}

/// The step, pass and input of this process, which the panic report needs.
static RUNNING: Mutex<Running> = Mutex::new(Running { step: None, last_pass: None, input: None });

/// Locks [`RUNNING`], also after a panic.
pub(crate) fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(|error| error.into_inner())
}

/// Returns the name of the running step.
pub(crate) fn running_step() -> Option<&'static str> {
    running().step
}
