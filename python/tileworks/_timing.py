"""Predicts the time of a kernel on a GPU, without a GPU."""
from __future__ import annotations

import dataclasses
import hashlib
import html
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._errors import RunError
from ._launch import LaunchDescription
from ._program import Program, compile
from ._tools import Deadline, limit_options, run_tool
from ._types import Arguments, Grid, Kernel, OptLevel


@dataclasses.dataclass(frozen=True, repr=False)
class Timing:
    """The prediction of `tile-time`. `str()` returns its report.

    Attributes:
        seconds: Predicted time of the launch.
        cycles: Predicted SM cycles of the launch.
        gpu: Machine description, such as `h100-sxm`.
        report: Report as text.
        data: All numbers of the report, as `tile-time --json` writes them.
    """
    seconds: float
    cycles: float
    gpu: str
    report: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.report

    def __repr__(self) -> str:
        return f"<tileworks.Timing of {self.data['kernel']} on {self.gpu}: {_format_time(self.seconds)}, {self.cycles:.0f} cycles>"

    def _repr_html_(self) -> str:
        head = f"{self.data['kernel']} on {self.gpu}: {_format_time(self.seconds)}, {self.cycles:.0f} cycles"
        advice = "".join(f"<tr><td>{share:.1%}</td><td>{html.escape(change)}</td></tr>" for share, change in self.advice())
        advice_table = f"<table><tr><th>saves</th><th>by</th></tr>{advice}</table>" if advice else ""
        report = f'<pre style="line-height: 1.2">{html.escape(self.report)}</pre>'
        return f"<p>{html.escape(head)}</p>{advice_table}<details><summary>report</summary>{report}</details>"

    def advice(self) -> list[tuple[float, str]]:
        """Returns the changes that would save time: the saved share of the predicted time, and the change."""
        return [(entry["saved_share"], f"{entry['scenario']}: {entry['suggestion']}") for entry in self.data["advice"]]


def _format_time(seconds: float) -> str:
    """Returns a time with a unit: s, ms or us."""
    return next(f"{seconds * factor:.4g} {unit}" for least, factor, unit in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "us")) if seconds >= least)


def time(grid: Grid, kernel: Kernel, arguments: Arguments, *, target: str = "sm_90", gpu: str | None = None, opt_level: OptLevel = 3,
         options: Sequence[str] = (), timeout: float | None = None) -> Timing:
    """Predicts the time of a launch. The call reads the arrays and does not write them.

    Args:
        grid: Extents of the grid.
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel.
        target: Target, such as `sm_90`.
        gpu: Machine description of `tile-time`. By default `tile-time` takes the machine that represents the target.
        opt_level: Optimisation level, 0 to 3.
        options: More options of `tileiras`.
        timeout: Limit of the whole call in seconds.

    Raises:
        CompileError: A stage rejects the kernel.
        RunError: `tile-time` rejects the launch.
        TimeLimitError: The call exceeds `timeout`.
    """
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, options=options, timeout=timeout)
    return predict(program, grid, kernel, arguments, gpu=gpu, options=options, deadline=deadline)


def predict(program: Program, grid: Grid, kernel: Kernel, arguments: Arguments, *, gpu: str | None, options: Sequence[str],
            deadline: Deadline) -> Timing:
    """Predicts the time of a launch of a compiled kernel."""
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        description = LaunchDescription(folder, grid, kernel, arguments)
        program.stage("ptx", deadline=deadline).save(folder / "kernel.ptx")
        args = [folder / "kernel.ptx", "--launch", description.path, *(["--gpu", gpu] if gpu else []), *limit_options(options)]
        report, _ = run_tool("tile-time", *args, "--json", folder / "time.json", fails=RunError, deadline=deadline)
        data = json.loads((folder / "time.json").read_text())
    return Timing(data["seconds"], data["cycles"], data["gpu"], report.decode(), data)


def description_digest(grid: Grid, kernel: Kernel, arguments: Arguments) -> str:
    """Returns a digest of a launch: grid, parameters, and contents of the buffers."""
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        description = LaunchDescription(Path(name), grid, kernel, arguments)
        launch = json.loads(description.path.read_text())
        for buffer in launch["buffers"]:
            buffer.pop("address", None)
            buffer["file"] = hashlib.sha256((Path(name) / buffer["file"]).read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps(launch).encode()).hexdigest()
