//! The executable `tile-read`. The library of this crate documents the tool.

fn main() -> std::process::ExitCode {
    common::filter::<tile_read::Options>(&tile_read::ABOUT, tile_read::run)
}
