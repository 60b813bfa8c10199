//! What layouts and shared memory look like, as data: `tile-view` writes it into its page, which draws it, and `tile-dump --layout`
//! draws one in a terminal.

pub mod banks;
pub mod layouts;
pub mod live_ranges;
pub mod terminal;
