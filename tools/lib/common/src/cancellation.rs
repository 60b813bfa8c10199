//! The control and the streams of a run inside a host process.

use crate::files::Input;
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Lets another thread end a run, and limits its time.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Control {
    /// Returns a control that ends the run at this time, or if this control is cancelled.
    pub fn with_deadline(&self, deadline: Option<Instant>) -> Control {
        Control { cancelled: self.cancelled.clone(), deadline }
    }
    /// Makes the run end. A stage ends at its next step; a child process is killed.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
    /// Returns whether a run must end, because it was cancelled or its time is over.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The streams of a run inside a host process.
pub(crate) struct Streams {
    pub(crate) input: Input,
    pub(crate) output: Vec<u8>,
    pub(crate) stderr: RefCell<String>,
    pub(crate) control: Arc<Control>,
}

/// The payload with which a cancelled run unwinds its stack.
pub(crate) struct Cancelled;

/// Unwinds the stack of a cancelled run. The panic hook is not called.
pub(crate) fn stop_if_cancelled(control: &Control) {
    if control.is_cancelled() {
        resume_unwind(Box::new(Cancelled));
    }
}
