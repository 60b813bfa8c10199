//! The state that the driver keeps for each thread of the client.
//!
//! Clients call the driver from destructors of their own thread-local values, when the values below may already be destroyed.
//! `CONTEXTS` and `CAPTURE_MODE` have no destructor and are therefore always accessible. The functions for the other values
//! treat a destroyed value as an empty one.

use crate::allocations::HostRange;
use crate::handle::Handle;
use crate::status::{Result, Status};
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int};

thread_local! {
    static CONTEXTS: Cell<ContextStack> = const { Cell::new(ContextStack { contexts: [0; MAX_CONTEXTS], depth: 0 }) };
    /// The capture mode of this thread. Only `cuThreadExchangeStreamCaptureMode` reads and sets the mode.
    pub(crate) static CAPTURE_MODE: Cell<c_int> = const { Cell::new(0) };
    /// Memory of the host program that the client allowed the next launch of this thread to access.
    static HOST_RANGES: RefCell<Vec<HostRange>> = const { RefCell::new(Vec::new()) };
    /// The cause of the last failure of this thread, for `cuGetErrorString`.
    static LAST_FAILURE: RefCell<Option<(c_int, CString)>> = const { RefCell::new(None) };
}

/// The greatest number of contexts that a thread can have pushed. CUDA documents no limit.
const MAX_CONTEXTS: usize = 64;

/// The stack of current contexts of a thread.
#[derive(Clone, Copy)]
struct ContextStack {
    contexts: [Handle; MAX_CONTEXTS],
    depth: usize,
}

/// Returns the current context of the thread.
pub(crate) fn current_context() -> Option<Handle> {
    let ContextStack { contexts, depth } = CONTEXTS.get();
    contexts[..depth].last().copied().filter(|context| *context != 0)
}

/// Makes a context the current context of the thread. The earlier one becomes current again when this one is popped.
pub(crate) fn push_context(context: Handle) -> Result<()> {
    let mut stack = CONTEXTS.get();
    let slot = stack.contexts.get_mut(stack.depth);
    *slot.ok_or_else(|| Status::OutOfMemory.because(format!("a thread can push at most {MAX_CONTEXTS} contexts")))? = context;
    stack.depth += 1;
    CONTEXTS.set(stack);
    Ok(())
}

/// Removes the current context from the stack of the thread and returns it. None if the stack is empty.
pub(crate) fn pop_context() -> Option<Handle> {
    let mut stack = CONTEXTS.get();
    stack.depth = stack.depth.checked_sub(1)?;
    CONTEXTS.set(stack);
    Some(stack.contexts[stack.depth])
}

/// Calls `edit` with the memory that the next launch of the thread may access.
pub(crate) fn with_host_ranges<R: Default>(edit: impl FnOnce(&mut Vec<HostRange>) -> R) -> R {
    HOST_RANGES.try_with(|ranges| edit(&mut ranges.borrow_mut())).unwrap_or_default()
}

/// Stores the result code and the text of the last failure.
pub(crate) fn set_last_failure(code: c_int, text: CString) {
    // In a thread whose values are destroyed, `cuGetErrorString` returns the general description of the code.
    let _ = LAST_FAILURE.try_with(|last| last.replace(Some((code, text))));
}

/// Returns the text of the last failure if it has this code. The text is valid until the next failure of the thread.
pub(crate) fn last_failure_text(code: c_int) -> Option<*const std::ffi::c_char> {
    let text_of =
        |last: &Option<(c_int, CString)>| last.as_ref().filter(|(known, _)| *known == code).map(|(_, text)| text.as_ptr());
    LAST_FAILURE.try_with(|last| text_of(&last.borrow())).ok().flatten()
}
