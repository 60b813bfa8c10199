"""A kernel in the debugger."""
from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any, Sequence

from ._errors import RunError
from ._launch import Description
from ._program import compile
from ._source import source
from ._tools import Deadline, run, tool


def debug(grid: Sequence[int] | int, kernel: Any, arguments: Sequence[Any], *, stage: str = "tile", commands: Sequence[str] | None = None,
          target: str = "sm_90", opt_level: int = 3, against: str | None = None, options: Sequence[str] = (),
          timeout: float | None = None) -> str | None:
    """Debugs a kernel with `tile-debug`, in the terminal that Python runs in; `help` there lists the commands. The debugger works
    on copies of the arrays. With `commands`, it executes these instead and returns their output. `against` names another stage to
    compare values with; `options` are options of `tile-debug`, such as `--block=3`; `timeout` is the most seconds that compiling
    and the commands may take."""
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        described = Description(folder, grid, kernel, arguments)
        for one in filter(None, (stage, against)):
            program.stage(one, deadline=deadline).save(folder / f"kernel.{one}")
        args: list[Any] = [folder / f"kernel.{stage}", "--launch", described.path, *options]
        args += ["--against", folder / f"kernel.{against}"] if against else []
        args += ["--source", file] if (file := source(kernel, folder)) else []
        if commands is None:
            subprocess.run([tool("tile-debug"), *map(str, args)], check=False)
            return None
        output, _ = run("tile-debug", *args, *(f"--execute={command}" for command in commands), fails=RunError, deadline=deadline)
        return output.decode(errors="replace")
