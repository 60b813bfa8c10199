//! The `tile-lower-as` executable; see the library.

fn main() -> std::process::ExitCode {
    common::filter::<tile_lower_as::Options>(&tile_lower_as::ABOUT, tile_lower_as::run)
}
