"""Runs a kernel in the debugger."""
from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ._errors import RunError
from ._launch import LaunchDescription
from ._program import compile
from ._source import source_file
from ._tools import Deadline, run_tool, tool
from ._types import Arguments, DebuggedStage, Grid, Kernel, OptLevel


def debug(grid: Grid, kernel: Kernel, arguments: Arguments, *, stage: DebuggedStage = "tile", commands: Sequence[str] | None = None,
          target: str = "sm_90", opt_level: OptLevel = 3, against: DebuggedStage | None = None, options: Sequence[str] = (),
          timeout: float | None = None) -> str | None:
    """Debugs a kernel with `tile-debug` in the terminal of this Python process. The debugger works on copies of the arrays.

    Args:
        grid: Extents of the grid.
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel.
        stage: Stage to execute: `tile`, `aa`, `as` or `sched`.
        commands: Debugger commands to execute without a terminal, such as `["break 12", "continue", "variables"]`.
        target: Target, such as `sm_90`.
        opt_level: Optimisation level, 0 to 3.
        against: Another stage. The debugger stops at the first value that differs from the value in that stage.
        options: More options of `tile-debug`, such as `--block=3`.
        timeout: Limit of compilation and commands together in seconds.

    Returns:
        The output of `commands`, or None after an interactive session.
    """
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        description = LaunchDescription(folder, grid, kernel, arguments)
        for one in (stage, against) if against else (stage,):
            program.stage(one, deadline=deadline).save(folder / f"kernel.{one}")
        args: list[object] = [folder / f"kernel.{stage}", "--launch", description.path, *options]
        args += ["--against", folder / f"kernel.{against}"] if against else []
        args += ["--source", file] if (file := source_file(kernel, folder)) else []
        if commands is None:
            subprocess.run([tool("tile-debug"), *map(str, args)], check=False)
            return None
        output, _ = run_tool("tile-debug", *args, *(f"--execute={command}" for command in commands), fails=RunError, deadline=deadline)
        return output.decode(errors="replace")
