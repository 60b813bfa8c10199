//! The build script of the package of all tools.

#[path = "../../tools/archives.rs"]
mod archives;
#[path = "../../tools/source_hash.rs"]
mod source_hash;

fn main() {
    source_hash::tell();
    let manifest = include_str!("Cargo.toml");
    let executables = manifest.split("[[bin]]").skip(1).filter_map(|table| table.split('"').nth(1));
    let arguments = archives::arguments();
    // It loads the CUDA driver when it runs, which an executable without a dynamic linker cannot.
    for name in executables.filter(|name| *name != "tile-launch") {
        arguments.iter().for_each(|argument| println!("cargo::rustc-link-arg-bin={name}={argument}"));
    }
}
