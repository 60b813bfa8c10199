"""How long a kernel takes on a GPU, told without one."""
from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any, Sequence

from ._errors import RunError
from ._launch import Description
from ._program import compile
from ._tools import run


@dataclasses.dataclass(frozen=True)
class Timing:
    """The prediction of `tile-time`: its report, and all figures in `data`."""
    seconds: float
    cycles: float
    gpu: str
    report: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.report

    def advice(self) -> list[tuple[float, str]]:
        """What would save time: which part of it, and how."""
        return [(one["gain"], f"{one['if']}: {one['how']}") for one in self.data["advice"]]


def time(grid: Sequence[int] | int, kernel: Any, arguments: Sequence[Any], *, target: str = "sm_90", gpu: str | None = None, opt_level: int = 3,
         options: Sequence[str] = ()) -> Timing:
    """Predicts the time of a launch. `gpu` is a machine of `tile-time`, by default the one that stands for the target. The arrays
    are read, not written."""
    program = compile(kernel, arguments, target=target, opt_level=opt_level, options=options)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        described = Description(folder, grid, kernel, arguments)
        program.stage("ptx").save(folder / "kernel.ptx")
        words = [folder / "kernel.ptx", "--launch", described.path, *(["--gpu", gpu] if gpu else [])]
        report, _ = run("tile-time", *words, fails=RunError)
        run("tile-time", *words, "--json", folder / "time.json", fails=RunError)
        data = json.loads((folder / "time.json").read_text())
    return Timing(data["seconds"], data["cycles"], data["gpu"], report.decode(), data)
