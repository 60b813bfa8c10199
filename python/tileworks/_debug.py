"""A kernel in the debugger."""
from __future__ import annotations

import inspect
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Sequence

from . import _cutile
from ._errors import RunError
from ._launch import Description
from ._program import compile
from ._tools import run, tool


def debug(grid: Sequence[int] | int, kernel: Any, arguments: Sequence[Any], *, stage: str = "tile", commands: Sequence[str] | None = None,
          target: str = "sm_90", opt_level: int = 3, against: str | None = None, options: Sequence[str] = ()) -> str | None:
    """Debugs a kernel with `tile-debug`, in the terminal that Python runs in; `help` there lists the commands. Arrays are copied, and
    stay as they are. With `commands`, they are carried out instead, and what was said is returned. `against` names another stage,
    with which values are compared; `options` are options of `tile-debug`, such as `--block=3`."""
    program = compile(kernel, arguments, target=target, opt_level=opt_level)
    source = _source(kernel)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        described = Description(folder, grid, kernel, arguments)
        for one in filter(None, (stage, against)):
            program.stage(one).save(folder / f"kernel.{one}")
        words: list[Any] = [folder / f"kernel.{stage}", "--launch", described.path, *options]
        words += ["--against", folder / f"kernel.{against}"] if against else []
        words += ["--source", source] if source else []
        if commands is None:
            subprocess.run([tool("tile-debug"), *map(str, words)], check=False)
            return None
        said, _ = run("tile-debug", *words, *(f"--execute={command}" for command in commands), fails=RunError)
        return said.decode(errors="replace")


def _source(kernel: Any) -> str | None:
    """The file that a kernel of cuTile Python is written in."""
    if not _cutile.is_kernel(kernel):
        return None
    file = inspect.getsourcefile(_cutile.function(kernel))
    return file if file and os.path.isfile(file) else None
