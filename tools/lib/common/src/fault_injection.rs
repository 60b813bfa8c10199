//! Faults that are planted on purpose, to see that they are found: each breaks one rule of one stage. `tests/fault_injection.rs` has the table,
//! with what finds each.

use std::sync::OnceLock;

/// The environment variable that names the fault.
const FAULT_VARIABLE: &str = "TILEWORKS_INJECT_FAULT";

/// Whether this fault is planted: in builds for tests only, where the environment asks for it. In a release build it is never so, and
/// no code is left of it.
#[inline]
pub fn fault_injected(name: &str) -> bool {
    static REQUESTED: OnceLock<Option<String>> = OnceLock::new();
    cfg!(debug_assertions) && REQUESTED.get_or_init(|| std::env::var(FAULT_VARIABLE).ok()).as_deref() == Some(name)
}
