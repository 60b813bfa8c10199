//! The executable `tile-lower-as`. The library of this package implements the tool.

fn main() -> std::process::ExitCode {
    common::filter::<tile_lower_as::Options>(&tile_lower_as::ABOUT, tile_lower_as::run)
}
