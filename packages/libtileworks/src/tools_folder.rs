//! Finds the folder with the executables that the library runs: `tile-ptx` and `tile-link`.

use base::diag::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// The executable whose presence identifies the folder.
const TOOL: &str = "tile-ptx";

/// Returns the folder of `tile-ptx`: `$TILEWORKS_TOOLS`, the folder of this library, `../bin` from there, or a folder in `PATH`.
pub(crate) fn find() -> Result<PathBuf> {
    let requested = std::env::var_os("TILEWORKS_TOOLS").map(PathBuf::from);
    let library = library_path().and_then(|path| path.parent().map(Path::to_path_buf));
    let bin_next_to_library = library.as_ref().and_then(|folder| Some(folder.parent()?.join("bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = requested.into_iter().chain(library).chain(bin_next_to_library).chain(std::env::split_paths(&path));
    candidates.into_iter().find(|folder| folder.join(TOOL).is_file()).ok_or_else(|| {
        Diagnostic::io(
            "DRI002",
            format!("libtileworks cannot find {TOOL}: not in TILEWORKS_TOOLS, next to the library, or in PATH"),
        )
    })
}

/// The path of this library, from the memory map of the process.
fn library_path() -> Option<PathBuf> {
    let address = library_path as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, _) = rest.split_once(' ')?;
        let parse = |text: &str| usize::from_str_radix(text, 16).ok();
        let contains = (parse(start)?..parse(end)?).contains(&address);
        contains.then(|| line.find('/').map(|at| PathBuf::from(&line[at..]))).flatten()
    })
}
