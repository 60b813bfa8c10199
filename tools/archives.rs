//! Links release executables statically, including tests. Static executables run on any Linux and start fast. A compilation runs
//! six processes, and dynamic linking would take a noticeable part of the time of each process.
//!
//! Rust's option `crt-static` requires `--target`; otherwise the option would also apply to procedural macros. Instead, the build
//! script adds a search path that contains only archives. If a required archive is missing, executables are linked dynamically.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Static libraries (archives) of the system, and whether static linking requires them.
const ARCHIVES: [(&str, bool); 10] = [
    ("c", true),
    ("m", true),
    ("rt", true),
    ("dl", true),
    ("pthread", true),
    ("util", true),
    ("stdc++", false),
    ("ffi", false),
    ("z", false),
    ("zstd", false),
];

/// Libraries that LLVM links but `tile-ptx` does not use. Empty archives replace these libraries.
const UNUSED_LLVM_LIBRARIES: [&str; 2] = ["z3", "xml2"];

/// Links all executables of a package statically in release builds for the Linux host, unless `TILEWORKS_DYNAMIC` is set.
pub(crate) fn link() {
    println!("cargo::rerun-if-env-changed=TILEWORKS_DYNAMIC");
    let env_value = |name: &str| std::env::var(name).unwrap_or_default();
    let link_static = env_value("PROFILE") == "release"
        && env_value("CARGO_CFG_TARGET_OS") == "linux"
        && env_value("CARGO_CFG_TARGET_ENV") == "gnu";
    if link_static && env_value("HOST") == env_value("TARGET") && env_value("TILEWORKS_DYNAMIC").is_empty() {
        let _ = link_statically(Path::new(&env_value("OUT_DIR")));
    }
}

/// Links all executables of the package statically. Returns `None` if an archive is missing.
fn link_statically(out: &Path) -> Option<()> {
    let folder = out.join("archives");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).ok()?;
    for (name, needed) in ARCHIVES {
        match archive(name) {
            Some(path) => std::os::unix::fs::symlink(path, folder.join(format!("lib{name}.a"))).ok()?,
            None if needed => return None,
            None => {}
        }
    }
    // The archive of the unwinder has another name than the shared library.
    std::os::unix::fs::symlink(archive("gcc_eh")?, folder.join("libgcc_s.a")).ok()?;
    for name in UNUSED_LLVM_LIBRARIES {
        fs::write(folder.join(format!("lib{name}.a")), "!<arch>\n").ok()?;
    }
    // LLVM's link arguments may name the system's folder. The linker searches that folder before a `-L` folder, but after a search
    // path of the package. A search path also applies to crates that depend on the package, and would break their dynamic
    // executables, so it requires a feature.
    match std::env::var_os("CARGO_FEATURE_STATIC") {
        Some(_) => println!("cargo::rustc-link-search=native={}", folder.display()),
        None => println!("cargo::rustc-link-arg=-L{}", folder.display()),
    }
    println!("cargo::rustc-link-arg=-static");
    println!("cargo::rustc-link-arg=-no-pie");
    Some(())
}

/// Returns the path of the static library `lib<name>.a` that the system's compiler uses; `None` if there is none.
fn archive(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path).filter(|path| path.is_file())
}
