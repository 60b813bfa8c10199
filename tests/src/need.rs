//! What some cases need beyond the tools of this repository. `scripts/setup` installs it. A case that lacks something is skipped with
//! the reason; in continuous integration, where the variable `CI` is set, it fails instead.

use crate::root;
use std::path::PathBuf;

/// Something that a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// NVIDIA's assembler.
    Ptxas,
    /// The Python environment with cuTile Python, pytest, CMake and a client of the Debug Adapter Protocol.
    Clients,
    /// A browser without a window.
    Chromium,
}

impl Need {
    fn is_there(self) -> bool {
        match self {
            Need::Ptxas => common::toolkit::ptxas().is_ok(),
            Need::Clients => python().is_file(),
            Need::Chromium => chromium().is_some(),
        }
    }

    /// What is missing, and the command that installs it.
    fn reason(self) -> &'static str {
        match self {
            Need::Ptxas => "ptxas is missing; scripts/setup installs it",
            Need::Clients => "cuTile Python is missing; scripts/setup --clients installs it",
            Need::Chromium => "Chromium is missing; scripts/setup --browser installs it",
        }
    }
}

/// The interpreter of the environment for clients.
pub fn python() -> PathBuf {
    root().join(".toolkit/python/bin/python")
}

/// The path of a Chromium.
pub fn chromium() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome", "chrome"].iter().find_map(|name| on_path(name))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Why a case cannot run here. An error in continuous integration.
pub(crate) fn missing(needs: &[Need]) -> Result<Option<String>, String> {
    let Some(need) = needs.iter().find(|need| !need.is_there()) else { return Ok(None) };
    let reason = need.reason().to_string();
    if std::env::var_os("CI").is_some() { Err(reason) } else { Ok(Some(reason)) }
}
