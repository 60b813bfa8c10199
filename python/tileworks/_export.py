"""`tileworks export`: writes the bytecode of a kernel in a Python file, for build systems."""
from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from . import _cutile
from ._errors import TileworksError
from ._program import base_target

#: The name of the table in a Python file. It maps the name of a kernel to the kernel and to arguments like those of its launch.
TABLE = "tileworks_exports"


def export(path: str, name: str, *, target: str, output: str, depfile: str | None = None) -> None:
    """Writes the bytecode of a kernel that the table `tileworks_exports` of a Python file lists.

    Args:
        path: The Python file. Its folder is searched for the modules that it imports.
        name: The key of the kernel in the table.
        target: The target for which cuTile checks the kernel, such as `sm_90`.
        output: Path of the bytecode. If its contents do not change, the file keeps its time.
        depfile: Path of a depfile for make and ninja, with the Python files that the file imports.
    """
    before = set(sys.modules)
    table = getattr(_load_module(path), TABLE, None)
    if not isinstance(table, dict):
        raise TileworksError([], f"{path} has no table {TABLE} of kernels")
    if name not in table:
        raise TileworksError([], f"{path}: {TABLE} has no kernel '{name}'; its kernels are {', '.join(sorted(table))}")
    kernel, arguments = table[name]
    if not _cutile.is_kernel(kernel):
        raise TileworksError([], f"{path}: {TABLE}['{name}']: {_cutile.describe_mismatch(kernel)}")
    bytecode = _cutile.export_bytecode(kernel, arguments, base_target(target))
    if depfile is not None:
        imported = (sys.modules[module] for module in sorted(set(sys.modules) - before))
        prerequisites = " ".join(_escape_for_depfile(file) for file in _source_files(imported))
        Path(depfile).write_text(f"{_escape_for_depfile(output)}: {prerequisites}\n", encoding="utf-8")
    if not (os.path.isfile(output) and Path(output).read_bytes() == bytecode):
        Path(output).write_bytes(bytecode)


def _load_module(path: str) -> ModuleType:
    """Executes a Python file as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise TileworksError([], f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _source_files(modules: Iterable[ModuleType]) -> list[str]:
    """Returns the files of modules that a project can change: modules outside the standard library, the installed packages and this
    package."""
    folders = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")] + [os.path.dirname(__file__)]
    installed = tuple(os.path.realpath(folder) + os.sep for folder in folders)
    files = (getattr(module, "__file__", None) for module in modules)
    return sorted({file for file in files if file and not os.path.realpath(file).startswith(installed)})


def _escape_for_depfile(path: str) -> str:
    """Escapes the characters of a path that make and ninja treat specially."""
    return path.replace("\\", "\\\\").replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
