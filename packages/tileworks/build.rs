//! The build script of the package of all tools. They are linked as usual: search paths hold for all executables of a package, and one of
//! them cannot be static, since it loads the CUDA driver when it runs.

#[path = "../../tools/source_hash.rs"]
mod source_hash;

fn main() {
    source_hash::emit();
}
