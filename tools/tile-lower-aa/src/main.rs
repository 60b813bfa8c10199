//! The `tile-lower-aa` executable; see the library.

fn main() -> std::process::ExitCode {
    common::filter::<tile_lower_aa::Options>(&tile_lower_aa::ABOUT, tile_lower_aa::run)
}
