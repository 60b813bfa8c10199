//! Where the pieces of a CUDA toolkit are that the tools need at run time: ptxas, nvdisasm and libdevice.

use base::diag::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// A piece, and how it was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub path: PathBuf,
    pub by: String,
}

/// The assembler. The first of CUDA_ROOT, CUDA_HOME and CUDA_PATH that is set decides, as in the reference, unless it leads to the
/// tool itself; then the project's own folder; then NVIDIA's Python packages in the environment that the tool is installed in; then PATH.
pub fn ptxas() -> Result<Found> {
    find("ptxas", "bin/ptxas", |folder| folder.join("ptxas"))
}

/// What shows machine code as text.
pub fn nvdisasm() -> Result<Found> {
    find("nvdisasm", "bin/nvdisasm", |folder| folder.join("nvdisasm"))
}

/// NVIDIA's library of mathematical functions as LLVM bitcode.
pub fn libdevice() -> Result<Found> {
    find("libdevice", "nvvm/libdevice/libdevice.10.bc", |folder| folder.join("../nvvm/libdevice/libdevice.10.bc"))
}

/// Whether a folder is this executable's own, or the one above.
fn is_own(root: &Path) -> bool {
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    std::fs::canonicalize(root).is_ok_and(|root| executable.ancestors().skip(1).take(2).any(|own| own == root))
}

fn find(name: &str, within: &str, path_search: impl Fn(&Path) -> PathBuf) -> Result<Found> {
    for variable in ["CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"] {
        let Some(root) = std::env::var_os(variable).filter(|root| !root.is_empty()) else { continue };
        let path = Path::new(&root).join(within);
        // Triton sets CUDA_HOME to the driver's own place, which is no toolkit of the user's.
        if !path.is_file() && is_own(Path::new(&root)) {
            continue;
        }
        return match path.is_file() {
            true => Ok(Found { path, by: variable.into() }),
            false => {
                let message = format!("no {name} at {}, where {variable} says the toolkit is", path.display());
                Err(Diagnostic::io("TKT001", message))
            }
        };
    }
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    // The executable is in target/release of the project, or in its bin folder.
    for folder in executable.ancestors().skip(1).take(4) {
        let path = folder.join(".toolkit").join(within);
        if path.is_file() {
            return Ok(Found { path, by: "the project's .toolkit folder".into() });
        }
    }
    if let Some(path) = installed_packages(&executable).map(|root| root.join(within)).find(|path| path.is_file()) {
        return Ok(Found { path, by: "NVIDIA's Python packages beside the tools".into() });
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|folder| path_search(&folder)).find(|path| path.is_file());
    found.map(|path| Found { path, by: "PATH".into() }).ok_or_else(|| {
        let message = format!(
            "no {name}: not by CUDA_ROOT, CUDA_HOME or CUDA_PATH, not in the project's .toolkit folder, not in NVIDIA's Python packages \
             beside the tools, not by PATH"
        );
        Diagnostic::io("TKT002", message).note(HOW_TO_GET)
    })
}

/// What brings a toolkit.
pub const HOW_TO_GET: &str =
    "install a CUDA toolkit, or `pip install nvidia-cuda-nvcc nvidia-nvvm` beside the wheel; in the sources, scripts/setup";

/// The roots of toolkits that NVIDIA's packages make in a Python environment, where the executable is in its `bin`; the newest first.
fn installed_packages(executable: &Path) -> impl Iterator<Item = PathBuf> {
    let inside = |folder: PathBuf, start: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        let mut found: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
        found.sort();
        found.reverse();
        found
    };
    let environment = executable.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
    let versions = inside(environment.join("lib"), "python3").into_iter();
    versions.flat_map(move |version| inside(version.join("site-packages/nvidia"), "cu"))
}
