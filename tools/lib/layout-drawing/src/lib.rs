//! Layouts and shared memory as data for drawings. `tile-view` embeds the data in its page; `tile-dump --layout` draws a layout
//! in a terminal.

pub mod banks;
pub mod layouts;
pub mod live_ranges;
pub mod terminal;
