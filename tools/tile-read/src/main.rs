//! The `tile-read` executable; see the library.

fn main() -> std::process::ExitCode {
    common::filter::<tile_read::Options>(&tile_read::ABOUT, tile_read::run)
}
