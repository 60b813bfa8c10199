"""A kernel as a page to look at."""
from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path
from typing import Any, Sequence

from ._errors import CompileError
from ._launch import Description
from ._program import compile
from ._source import source as source_of
from ._tools import Deadline, run


class Page:
    """A page of `tile-view`: one file of HTML that needs no network. Shown in a frame in a notebook."""

    def __init__(self, text: str):
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.html)

    def __repr__(self) -> str:
        return f"<tileworks.Page: {len(self.html)} characters; save(path) writes it>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html, quote=True)}" style="width: 100%; height: 48em; border: 1px solid"></iframe>'


def view(kernel: Any, arguments: Sequence[Any] = (), *, grid: Sequence[int] | int | None = None, target: str = "sm_90", gpu: str | None = None,
         opt_level: int = 3, sources: Sequence[str | os.PathLike[str]] = (),
         timeout: float | None = None) -> Page:
    """All stages of a kernel side by side, linked by line, with drawings of its layouts, shared memory and schedules; with `grid`,
    also with predicted times. `sources` are files or folders with the source, if it is not at the path in the program; `timeout` is
    the most seconds that the call may take."""
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        (folder / "kernel.tileirbc").write_bytes(program.bytecode)
        args: list[Any] = [folder / "kernel.tileirbc", f"--gpu-name={program.target}", f"-O{program.opt_level}", "-o", folder / "page.html"]
        if (saved := source_of(kernel, folder)) is not None:
            args += ["--source", saved]
        for source in sources:
            args += ["--source", Path(source).absolute()]
        if grid is not None:
            args += ["--launch", Description(folder, grid, kernel, arguments).path, *(["--gpu", gpu] if gpu else [])]
        run("tile-view", *args, fails=CompileError, deadline=deadline)
        return Page((folder / "page.html").read_text())
