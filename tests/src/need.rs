//! Programs that some cases need in addition to the tools of this repository. `scripts/setup` installs these programs. If a program
//! is missing, the cases that need it are skipped with a reason. In continuous integration, where the variable `CI` is set, the
//! cases fail instead.

use crate::{root, tools_folder};
use std::path::PathBuf;

/// A program that a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// NVIDIA's assembler.
    Ptxas,
    /// The Python environment that `scripts/setup --clients` installs: cuTile Python, pytest, CMake and a client of the Debug
    /// Adapter Protocol.
    Clients,
    /// The browser Chromium, which the tests run without a window.
    Chromium,
    /// Tools that fail in the pass that `TILEWORKS_FAIL_IN` names, as only debug builds do.
    DebugTools,
}

impl Need {
    fn is_installed(self) -> bool {
        match self {
            Need::Ptxas => common::toolkit::ptxas().is_ok(),
            Need::Clients => python().is_file(),
            Need::Chromium => chromium().is_some(),
            Need::DebugTools => tools_folder().ends_with("debug"),
        }
    }

    /// The reason for skipped cases: the missing program, and the command that installs it.
    fn reason(self) -> &'static str {
        match self {
            Need::Ptxas => "ptxas is missing; scripts/setup installs it",
            Need::Clients => "cuTile Python is missing; scripts/setup --clients installs it",
            Need::Chromium => "Chromium is missing; scripts/setup --browser installs it",
            Need::DebugTools => "release tools ignore TILEWORKS_FAIL_IN; run the test without --release",
        }
    }
}

/// The path of the Python interpreter that `scripts/setup --clients` installs.
pub fn python() -> PathBuf {
    root().join(".toolkit/python/bin/python")
}

/// The path of Chromium or Chrome. None if PATH has neither.
pub fn chromium() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome", "chrome"].iter().find_map(|name| find_on_path(name))
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns why a case must be skipped on this machine. None means that all its programs are installed. In continuous integration, a
/// missing program is an error.
pub(crate) fn missing_program(needs: &[Need]) -> Result<Option<String>, String> {
    let Some(need) = needs.iter().find(|need| !need.is_installed()) else { return Ok(None) };
    let reason = need.reason().to_string();
    if std::env::var_os("CI").is_some() { Err(reason) } else { Ok(Some(reason)) }
}
