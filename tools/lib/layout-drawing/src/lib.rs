//! Views of layouts and shared memory as data. `tile-view` embeds them in its page; `tile-dump --layout` draws a layout in a
//! terminal.

pub mod banks;
pub mod layouts;
pub mod live_ranges;
pub mod terminal;
