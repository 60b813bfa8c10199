"""Finds the source file of a kernel, also of a kernel in a notebook cell."""
from __future__ import annotations

import inspect
import linecache
import os
from pathlib import Path

from . import _cutile
from ._types import Kernel


def source_file(kernel: Kernel, folder: Path) -> str | None:
    """Returns the path of the source file of a cuTile Python kernel. Returns None if the kernel is not cuTile Python or its source is unknown.
    The source of a notebook cell exists only in memory, so the function writes a copy to `folder`."""
    if not _cutile.is_kernel(kernel):
        return None
    function = inspect.unwrap(_cutile.python_function(kernel))
    file: str = function.__code__.co_filename
    if os.path.isfile(file):
        return file
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        return None
    saved = folder / "source" / os.path.basename(file)
    saved.parent.mkdir(exist_ok=True)
    saved.write_text("".join(lines))
    return str(saved)
