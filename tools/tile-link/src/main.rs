//! The `tile-link` executable; see the library.

fn main() -> std::process::ExitCode {
    common::filter::<tile_link::Options>(&tile_link::ABOUT, tile_link::run)
}
