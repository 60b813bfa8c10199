//! Locates the components of the CUDA toolkit that the tools need at run time: ptxas, nvdisasm and libdevice.

use base::diag::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// A component of the toolkit.
#[derive(Clone, Debug)]
pub struct Component {
    pub path: PathBuf,
    /// The environment variable, folder or packages by which the component was found, as a noun phrase for messages.
    pub found_by: String,
}

/// Locates ptxas, the assembler. The first of CUDA_ROOT, CUDA_HOME and CUDA_PATH that is set determines the toolkit, as in NVIDIA's
/// tileiras. A variable that names the folder of this tool is ignored. If no variable is set, the search order is: the project's
/// `.toolkit` folder, NVIDIA's packages in the tool's Python environment, PATH.
pub fn ptxas() -> Result<Component> {
    find_component("ptxas", "bin/ptxas", |folder| folder.join("ptxas"))
}

/// Locates nvdisasm, the disassembler, in the same way as ptxas.
pub fn nvdisasm() -> Result<Component> {
    find_component("nvdisasm", "bin/nvdisasm", |folder| folder.join("nvdisasm"))
}

/// Locates libdevice, NVIDIA's math library as LLVM bitcode, in the same way as ptxas.
pub fn libdevice() -> Result<Component> {
    find_component("libdevice", "nvvm/libdevice/libdevice.10.bc", |folder| folder.join("../nvvm/libdevice/libdevice.10.bc"))
}

/// Returns whether a path is the folder of this executable, or the parent of that folder.
fn is_folder_of_this_tool(path: &Path) -> bool {
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    std::fs::canonicalize(path).is_ok_and(|path| executable.ancestors().skip(1).take(2).any(|folder| folder == path))
}

/// Locates a component. `relative_path` is its path in a toolkit. `path_from_bin` returns its path if a given folder is
/// the `bin` folder of a toolkit; the folders are those in PATH.
fn find_component(name: &str, relative_path: &str, path_from_bin: impl Fn(&Path) -> PathBuf) -> Result<Component> {
    for variable in ["CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"] {
        let Some(root) = std::env::var_os(variable).filter(|root| !root.is_empty()) else { continue };
        let path = Path::new(&root).join(relative_path);
        // Triton sets CUDA_HOME to the folder of this tool, which contains no toolkit.
        if !path.is_file() && is_folder_of_this_tool(Path::new(&root)) {
            continue;
        }
        return match path.is_file() {
            true => Ok(Component { path, found_by: variable.into() }),
            false => {
                let message = format!("no {name} at {}, in the toolkit that {variable} names", path.display());
                Err(Diagnostic::io("TKT001", message))
            }
        };
    }
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    // In a source tree the executable is in `target/release` or `bin`. Its first four ancestors include the root of the source
    // tree.
    for folder in executable.ancestors().skip(1).take(4) {
        let path = folder.join(".toolkit").join(relative_path);
        if path.is_file() {
            return Ok(Component { path, found_by: "the project's .toolkit folder".into() });
        }
    }
    if let Some(path) = packaged_toolkit_roots(&executable).map(|root| root.join(relative_path)).find(|path| path.is_file()) {
        return Ok(Component { path, found_by: "NVIDIA's Python packages in the tools' environment".into() });
    }
    let path_variable = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path_variable).map(|folder| path_from_bin(&folder)).find(|path| path.is_file());
    on_path.map(|path| Component { path, found_by: "PATH".into() }).ok_or_else(|| {
        let message = format!(
            "cannot find {name}: not in CUDA_ROOT, CUDA_HOME or CUDA_PATH, not in the project's .toolkit folder, not in NVIDIA's Python \
             packages, not in PATH"
        );
        Diagnostic::io("TKT002", message).note(HOW_TO_INSTALL)
    })
}

/// How to install a toolkit, as a note of error messages.
pub const HOW_TO_INSTALL: &str = "install a CUDA toolkit, or run `pip install nvidia-cuda-nvcc nvidia-nvvm` next to the wheel; in a source tree, run scripts/setup";

/// Returns the roots of the toolkits that NVIDIA's packages install in a Python environment, newest first. `executable` is in the
/// `bin` folder of the environment.
fn packaged_toolkit_roots(executable: &Path) -> impl Iterator<Item = PathBuf> {
    // The entries whose names have a prefix, in descending order of their names.
    let entries_with_prefix = |folder: PathBuf, prefix: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let with_prefix = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        let mut paths: Vec<PathBuf> = with_prefix.map(|entry| entry.path()).collect();
        paths.sort();
        paths.reverse();
        paths
    };
    let environment = executable.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
    let python_folders = entries_with_prefix(environment.join("lib"), "python3").into_iter();
    python_folders.flat_map(move |python_folder| entries_with_prefix(python_folder.join("site-packages/nvidia"), "cu"))
}
