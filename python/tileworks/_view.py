"""Generates an HTML page with all stages of a kernel, by the tool `tile-view`."""
from __future__ import annotations

import html
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ._errors import CompileError
from ._launch import LaunchDescription
from ._program import compile
from ._source import source_file
from ._tools import Deadline, run_tool
from ._types import AnyPath, Arguments, Grid, Kernel, OptLevel


class Page:
    """A page of `tile-view`: one HTML file that needs no network. A notebook shows it in a frame.

    Attributes:
        html: Text of the file.
    """

    def __init__(self, text: str):
        self.html = text

    def save(self, path: AnyPath) -> None:
        """Writes the page to a path."""
        Path(path).write_text(self.html)

    def __repr__(self) -> str:
        return f"<tileworks.Page: {len(self.html)} characters; save(path) writes it>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html, quote=True)}" style="width: 100%; height: 48em; border: 1px solid"></iframe>'


def view(kernel: Kernel, arguments: Arguments = (), *, grid: Grid | None = None, target: str = "sm_90", gpu: str | None = None,
         opt_level: OptLevel = 3, sources: Sequence[AnyPath] = (),
         timeout: float | None = None) -> Page:
    """Returns a page with all stages of a kernel side by side, linked by source line, and drawings of layouts, shared memory and schedules.

    Args:
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel.
        grid: Extents of the grid. With a grid the page also shows predicted times.
        target: Target, such as `sm_90`.
        gpu: Machine description of `tile-time`. By default `tile-time` takes the machine that represents the target.
        opt_level: Optimisation level, 0 to 3.
        sources: Source files or their folders, if the source is not at the path that the program names.
        timeout: Limit of the whole call in seconds.

    Raises:
        CompileError: A stage rejects the kernel.
        TimeLimitError: The call exceeds `timeout`.
    """
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        (folder / "kernel.tileirbc").write_bytes(program.bytecode)
        args: list[object] = [folder / "kernel.tileirbc", f"--gpu-name={program.target}", f"-O{program.opt_level}", "-o", folder / "page.html"]
        if (saved := source_file(kernel, folder)) is not None:
            args += ["--source", saved]
        for source in sources:
            args += ["--source", Path(source).absolute()]
        if grid is not None:
            args += ["--launch", LaunchDescription(folder, grid, kernel, arguments).path, *(["--gpu", gpu] if gpu else [])]
        run_tool("tile-view", *args, fails=CompileError, deadline=deadline)
        return Page((folder / "page.html").read_text())
