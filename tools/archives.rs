//! What build scripts tell the linker so that executables are static. Those made for release, those of tests too, run anywhere then and
//! start fast: a compilation is six processes, and the dynamic linker would take a good part of each.
//!
//! Rust's own switch for this, `crt-static`, cannot be used without `--target`, since it would hold for procedural macros too.
//! So the linker is given a folder with nothing but archives to look in first. Where one that must be there is missing, as on
//! systems that keep them in packages of their own, executables are linked as usual.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Archives of the system, and whether they must be there.
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

/// Libraries that LLVM names, but of which `tile-ptx` uses nothing.
const UNUSED: [&str; 2] = ["z3", "xml2"];

/// Has all executables of a package linked so, unless they are to be linked as usual.
pub(crate) fn link() {
    println!("cargo::rerun-if-env-changed=TILEWORKS_DYNAMIC");
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    let link_static = set("PROFILE") == "release" && set("CARGO_CFG_TARGET_OS") == "linux" && set("CARGO_CFG_TARGET_ENV") == "gnu";
    if link_static && set("HOST") == set("TARGET") && set("TILEWORKS_DYNAMIC").is_empty() {
        let _ = link_statically(Path::new(&set("OUT_DIR")));
    }
}

/// None when an archive is missing.
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
    // What unwinds the stack has another name as an archive.
    std::os::unix::fs::symlink(archive("gcc_eh")?, folder.join("libgcc_s.a")).ok()?;
    for name in UNUSED {
        fs::write(folder.join(format!("lib{name}.a")), "!<arch>\n").ok()?;
    }
    // The folder comes behind the system's where LLVM names that, unless it is a search path of the package. But that is one for who has
    // the package as a library too: executables that are linked as usual would become half of each.
    match std::env::var_os("CARGO_FEATURE_STATIC") {
        Some(_) => println!("cargo::rustc-link-search=native={}", folder.display()),
        None => println!("cargo::rustc-link-arg=-L{}", folder.display()),
    }
    println!("cargo::rustc-link-arg=-static");
    println!("cargo::rustc-link-arg=-no-pie");
    Some(())
}

/// Where the system's compiler has an archive.
fn archive(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path).filter(|path| path.is_file())
}
