//! The build script of all tools.

mod archives;

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    println!("cargo::rerun-if-changed=../archives.rs");
    archives::link();
}
