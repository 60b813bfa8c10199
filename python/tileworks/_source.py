"""The source file of a kernel, including kernels in a notebook's cell."""
from __future__ import annotations

import inspect
import linecache
import os
from pathlib import Path
from typing import Any

from . import _cutile


def source(kernel: Any, folder: Path) -> str | None:
    """The source file of a cuTile Python kernel. A notebook keeps the text of its cells in memory; this function saves it in
    `folder`."""
    if not _cutile.is_kernel(kernel):
        return None
    function = inspect.unwrap(_cutile.function(kernel))
    file = function.__code__.co_filename
    if os.path.isfile(file):
        return file
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        return None
    saved = folder / "source" / os.path.basename(file)
    saved.parent.mkdir(exist_ok=True)
    saved.write_text("".join(lines))
    return str(saved)
