//! Faults that are planted on purpose, to see that they are found: each breaks one rule of one stage. `tests/planted.rs` has the table,
//! with what finds each.

use std::sync::OnceLock;

/// The environment variable that names the fault.
const VARIABLE: &str = "TILEWORKS_PLANTED";

/// Whether this fault is planted: in builds for tests only, where the environment asks for it. In a release build it is never so, and
/// no code is left of it.
#[inline]
pub fn planted(name: &str) -> bool {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    cfg!(debug_assertions) && WANTED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(name)
}
