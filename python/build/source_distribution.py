"""A build backend for Python packages that extends maturin: wheels contain the library of the CPU device, and a source distribution contains the
whole repository.

The backend writes source distributions itself. Reason: the executables need the Rust workspace above this folder. Maturin can take the files from
git, but only files below this folder. It can also take the files from cargo, but rejects files that several crates share.

For a wheel, the backend builds the library of the CPU device with cargo, and then calls maturin.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maturin import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from maturin import build_wheel as build_maturin_wheel

#: The hooks of PEP 517 and PEP 660.
__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

#: Settings of `pyproject.toml` with a path, and their values in a source distribution. Reason: there the file is at the root of the sources.
MOVED_PATHS = {
    'backend-path = ["build"]': 'backend-path = ["python/build"]',
    'readme = "README.md"': 'readme = "python/README.md"',
    'manifest-path = "../packages': 'manifest-path = "packages',
    'python-source = "."': 'python-source = "python"',
    'data = "tileworks.data"': 'data = "python/tileworks.data"',
}


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the library of the CPU device with cargo, and then the wheel, which contains the library in the package."""
    project = Path.cwd()
    python = project if (project / "tileworks").is_dir() else project / "python"
    subprocess.run(["cargo", "build", "--locked", "--release", "--package", "cuda-driver"], cwd=python.parent, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", python.parent / "target"))
    platform_files = python / "tileworks.data" / "platlib"
    try:
        (platform_files / "tileworks").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target / "release" / "libcuda.so", platform_files / "tileworks" / "libcuda.so.1")
        return str(build_maturin_wheel(wheel_directory, config_settings, metadata_directory))
    finally:
        shutil.rmtree(platform_files, ignore_errors=True)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Writes the files that git tracks, with `pyproject.toml` and `PKG-INFO` at the root as PEP 517 requires."""
    project = Path.cwd()
    root = project.parent
    if not (root / ".git").exists():
        raise RuntimeError(f"a source distribution is built from a checkout, and {root} has no .git")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        information = Path(folder) / prepare_metadata_for_build_wheel(folder, config_settings)
        stem = information.name.removesuffix(".dist-info")
        metadata = (information / "METADATA").read_bytes()
    added = {"PKG-INFO": metadata, "pyproject.toml": rewrite_moved_paths((project / "pyproject.toml").read_text()).encode()}
    name = f"{stem}.tar.gz"
    with tarfile.open(Path(sdist_directory) / name, "w:gz") as archive:
        for path in sorted(filter(None, tracked.split("\0"))):
            if path not in added and (root / path).exists():
                archive.add((root / path).resolve(), f"{stem}/{path}", recursive=False)
        for path, data in added.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return name


def rewrite_moved_paths(text: str) -> str:
    """Returns the text of `pyproject.toml` with paths relative to the root of a source distribution."""
    for here, there in MOVED_PATHS.items():
        if text.count(here) != 1:
            raise RuntimeError(f"pyproject.toml has {here!r} {text.count(here)} times, not once")
        text = text.replace(here, there)
    return text
