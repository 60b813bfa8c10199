//! Gives the shared library its versioned name, `libtileworks.so.1`. Links the unwinder statically, so that the shared
//! library needs only the C library of the system.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtileworks.so.1");
    let out = std::env::var("OUT_DIR").expect("Cargo sets it");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        link_unwinder(Path::new(&out));
    }
}

/// Adds a search path in which `libgcc_s.a` is a link to the static archive of the unwinder, so that the linker finds it before
/// `libgcc_s.so.1`. If the archive is missing, `libtileworks.so.1` needs `libgcc_s.so.1`.
fn link_unwinder(out: &Path) {
    let Ok(found) = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output() else { return };
    let path = String::from_utf8_lossy(&found.stdout).trim().to_string();
    let link = out.join("libgcc_s.a");
    let _ = std::fs::remove_file(&link);
    if Path::new(&path).is_absolute() && std::os::unix::fs::symlink(path, link).is_ok() {
        println!("cargo::rustc-cdylib-link-arg=-L{}", out.display());
    }
}
