//! The build script of the driver. It links as the build script of every tool does, and computes the hash that `--version` prints.

#[path = "../archives.rs"]
mod archives;
#[path = "../source_hash.rs"]
mod source_hash;

fn main() {
    archives::link();
    source_hash::emit();
}
