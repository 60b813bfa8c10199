//! Locates the components of the CUDA toolkit that the tools need at run time: ptxas, nvdisasm and libdevice.

use base::diag::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// The path of a component, and the setting or folder that led to it.
#[derive(Clone, Debug)]
pub struct Found {
    pub path: PathBuf,
    pub by: String,
}

/// Locates the assembler. The first of CUDA_ROOT, CUDA_HOME and CUDA_PATH that is set determines the folder, as in NVIDIA's
/// tileiras, unless the variable points to the tool itself. If none is set, the search order is: the project's `.toolkit` folder,
/// NVIDIA's packages in the tool's Python environment, PATH.
pub fn ptxas() -> Result<Found> {
    find("ptxas", "bin/ptxas", |folder| folder.join("ptxas"))
}

/// Locates the disassembler.
pub fn nvdisasm() -> Result<Found> {
    find("nvdisasm", "bin/nvdisasm", |folder| folder.join("nvdisasm"))
}

/// Locates NVIDIA's math library, which is LLVM bitcode.
pub fn libdevice() -> Result<Found> {
    find("libdevice", "nvvm/libdevice/libdevice.10.bc", |folder| folder.join("../nvvm/libdevice/libdevice.10.bc"))
}

/// Returns whether a path is the folder of this executable, or the parent of that folder.
fn is_folder_of_this_tool(root: &Path) -> bool {
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    std::fs::canonicalize(root).is_ok_and(|root| executable.ancestors().skip(1).take(2).any(|folder| folder == root))
}

fn find(name: &str, relative_path: &str, path_search: impl Fn(&Path) -> PathBuf) -> Result<Found> {
    for variable in ["CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"] {
        let Some(root) = std::env::var_os(variable).filter(|root| !root.is_empty()) else { continue };
        let path = Path::new(&root).join(relative_path);
        // Triton sets CUDA_HOME to the folder of this driver, which is not a user's toolkit.
        if !path.is_file() && is_folder_of_this_tool(Path::new(&root)) {
            continue;
        }
        return match path.is_file() {
            true => Ok(Found { path, by: variable.into() }),
            false => {
                let message = format!("no {name} at {}, in the toolkit that {variable} names", path.display());
                Err(Diagnostic::io("TKT001", message))
            }
        };
    }
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    // The executable is in target/release of the project, or in its bin folder.
    for folder in executable.ancestors().skip(1).take(4) {
        let path = folder.join(".toolkit").join(relative_path);
        if path.is_file() {
            return Ok(Found { path, by: "the project's .toolkit folder".into() });
        }
    }
    if let Some(path) = installed_packages(&executable).map(|root| root.join(relative_path)).find(|path| path.is_file()) {
        return Ok(Found { path, by: "NVIDIA's Python packages in the tools' environment".into() });
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|folder| path_search(&folder)).find(|path| path.is_file());
    found.map(|path| Found { path, by: "PATH".into() }).ok_or_else(|| {
        let message = format!(
            "cannot find {name}: not in CUDA_ROOT, CUDA_HOME or CUDA_PATH, not in the project's .toolkit folder, not in NVIDIA's Python \
             packages, not in PATH"
        );
        Diagnostic::io("TKT002", message).note(HOW_TO_GET)
    })
}

/// How to install a toolkit.
pub const HOW_TO_GET: &str = "install a CUDA toolkit, or run `pip install nvidia-cuda-nvcc nvidia-nvvm` next to the wheel; in a source tree, run scripts/setup";

/// The toolkit roots that NVIDIA's packages create in a Python environment, newest first. The executable is in `bin` of the
/// environment.
fn installed_packages(executable: &Path) -> impl Iterator<Item = PathBuf> {
    let subfolders = |folder: PathBuf, start: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        let mut found: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
        found.sort();
        found.reverse();
        found
    };
    let environment = executable.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
    let versions = subfolders(environment.join("lib"), "python3").into_iter();
    versions.flat_map(move |version| subfolders(version.join("site-packages/nvidia"), "cu"))
}
