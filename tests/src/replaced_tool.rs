//! Folders of tools in which a script replaces one tool.

use crate::{temporary_folder, tool, tools_folder};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies an executable in a child process. Reason: while this process has a file open for writing, a child that another thread
/// starts inherits the descriptor, and the file cannot be executed.
pub fn install_executable(from: &Path, to: &Path) {
    let status = Command::new("install").args(["-m", "755"]).arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

/// A directory with the tools, one of them replaced by a script. In the script, `$real` is the replaced tool.
pub fn folder_with_replacement(replaced: &str, script: &str) -> tempfile::TempDir {
    let folder = temporary_folder();
    for name in
        ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx", "tile-link", "tile-run", "tile-sim", "tile-dump"]
    {
        if name != replaced {
            std::os::unix::fs::symlink(tool(name), folder.path().join(name)).unwrap();
        }
    }
    for name in ["tile-validate", "tileiras"] {
        install_executable(&tool(name), &folder.path().join(name));
    }
    let text = format!("#!/bin/bash\nreal={0}/{replaced}; tools={0}\n{script}\n", tools_folder().display());
    fs::write(folder.path().join("script"), text).unwrap();
    install_executable(&folder.path().join("script"), &folder.path().join(replaced));
    folder
}
