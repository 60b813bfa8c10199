//! The `tile-sched` executable; see the library.

fn main() -> std::process::ExitCode {
    common::filter::<tile_sched::Options>(&tile_sched::ABOUT, tile_sched::run)
}
