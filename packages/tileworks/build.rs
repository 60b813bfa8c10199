//! The build script of the package of all tools.

#[path = "../../tools/archives.rs"]
mod archives;
#[path = "../../tools/source_hash.rs"]
mod source_hash;

fn main() {
    println!("cargo::rerun-if-changed=../../tools/archives.rs");
    archives::link();
    source_hash::emit();
}
