//! Real clients: cuTile Python compiles through the driver that it finds on PATH, and the Python package runs the tools.

use crate::check_stages_are_current;
use std::process::Command;
use tests::{files_below, path_with_tools, root, run_to_end, shell, temporary_folder, tool, tools_folder};

/// Exports kernels from cuTile Python, which `scripts/setup --clients` installs.
fn cutile_python_exports_kernels() {
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.is_file(), "cuTile Python is not there; scripts/setup --clients brings it");
    check_stages_are_current();
    let folder = temporary_folder();
    let mut command = Command::new(python);
    command.arg(root().join("tests/cli/client.py")).arg(root().join("scripts")).arg(tools_folder()).current_dir(folder.path());
    command.env("PATH", path_with_tools()).env("TMPDIR", folder.path()).env("CUDA_TILE_CACHE_DIR", folder.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = run_to_end(command, b"");
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
}

/// The Python package, with its own tests, on the tools of this build.
fn the_python_package_passes_its_tests() {
    check_stages_are_current();
    for name in ["tile-dump", "tile-run", "tile-sim", "tile-time"] {
        tool(name);
    }
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.exists(), "cuTile Python is not there; scripts/setup --clients brings it");
    let folder = root().join("python");
    let line = format!(
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{0}':$PYTHONPATH TILEWORKS_TOOLS='{1}' '{2}' -m pytest -q -p no:cacheprovider '{0}/tests'",
        folder.display(),
        tools_folder().display(),
        python.display()
    );
    let ran = shell(root(), &line);
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
}

/// Checks that cuTile Python reads each environment variable of cuTile that a page of `docs` names.
fn documented_cutile_variables_exist_in_cutile() {
    let variable_names = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_').map(str::to_string);
        words.filter(|word| word.starts_with("CUDA_TILE_") || word.starts_with("CUTILE_")).collect()
    };
    let text = |path: &std::path::Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let packages = files_below(&root().join(".toolkit/python/lib"));
    let sources = packages
        .iter()
        .filter(|path| path.to_string_lossy().contains("/cuda/tile/") && path.extension().is_some_and(|end| end == "py"));
    let cutile_variables: Vec<String> = sources.flat_map(|path| variable_names(&text(path))).collect();
    assert!(cutile_variables.len() > 3, "cuTile Python is not there; scripts/setup --clients brings it");
    let pages = files_below(&root().join("docs")).into_iter().chain([root().join("README.md")]);
    for page in pages.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        for word in variable_names(&text(&page)) {
            assert!(cutile_variables.contains(&word), "{} names {word}, which cuTile does not have", page.display());
        }
    }
}

pub(crate) const TESTS: &[(&str, fn())] =
    tests::tests![cutile_python_exports_kernels, the_python_package_passes_its_tests, documented_cutile_variables_exist_in_cutile,];
