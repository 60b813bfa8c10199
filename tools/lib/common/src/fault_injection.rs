//! Fault injection: each fault makes one stage violate one rule. `tests/fault_injection.rs` lists the faults and the check that
//! must detect each of them.

use std::sync::OnceLock;

/// The environment variable that names the fault.
const FAULT_VARIABLE: &str = "TILEWORKS_INJECT_FAULT";

/// Returns whether the environment requests this fault. Always false in release builds, so the optimizer removes the fault's code.
#[inline]
pub fn fault_injected(name: &str) -> bool {
    static REQUESTED: OnceLock<Option<String>> = OnceLock::new();
    cfg!(debug_assertions) && REQUESTED.get_or_init(|| std::env::var(FAULT_VARIABLE).ok()).as_deref() == Some(name)
}
