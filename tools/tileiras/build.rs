//! The build script of the driver: that of all tools, and the hash that `--version` shows.

#[path = "../archives.rs"]
mod archives;
#[path = "../source_hash.rs"]
mod source_hash;

fn main() {
    archives::link();
    source_hash::emit();
}
