"""`tileworks run`: runs a command and its children on the CPU device, and prints a summary."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _cpu_driver, cpu

#: The text of `sitecustomize.py`. Every Python process of the run imports this module when it starts.
_SITECUSTOMIZE = """\
\"\"\"Prepares a process of `tileworks run`.\"\"\"
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or '.') != _here]
# This module hides a `sitecustomize` module of the environment, so execute that module too.
if (_spec := importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)) is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))


class _Hook:
    \"\"\"Loads the package `tileworks` when the process imports a module that this package patches.\"\"\"
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "cuda.tile"):
            sys.meta_path.remove(self)
            if importlib.util.find_spec("tileworks") is None:
                sys.path.append({package!r})
            import tileworks.cpu
            tileworks.cpu._install()
            return next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, path, target)) is not None), None)


sys.meta_path.insert(0, _Hook())
"""


def run(command: Sequence[str], *, device: str = "sm_90", stage: str = "tile", check: str = "off", torch: bool = True,
        time_limit: float | None = None) -> int:
    """Runs a command on the CPU device, and prints a summary. Returns the exit code of the command. Returns 1 if the command succeeds, but a
    check has a finding and `check` is `error`."""
    with tempfile.TemporaryDirectory(prefix="tileworks-run-") as name:
        folder = Path(name)
        (folder / "lib").mkdir()
        (folder / "site").mkdir()
        (folder / "report").mkdir()
        (folder / "lib" / "libcuda.so.1").symlink_to(_cpu_driver.library_path().resolve())
        (folder / "site" / "sitecustomize.py").write_text(_SITECUSTOMIZE.replace("{package!r}", repr(str(Path(__file__).parent.parent))))
        env = os.environ | cpu.environment(device=device, stage=stage, check=check, time_limit=time_limit)
        env |= {cpu.ACTIVE_VARIABLE: "run", "TILEWORKS_REPORT": str(folder / "report"), "TILEWORKS_TORCH": "on" if torch else "off",
                "TILEWORKS_LIBCUDA": str(_cpu_driver.library_path().resolve()),
                "LD_LIBRARY_PATH": _prepend_to_variable(folder / "lib", "LD_LIBRARY_PATH"), "PYTHONPATH": _prepend_to_variable(folder / "site", "PYTHONPATH")}
        start = time.monotonic()
        code = _run_command(command, env)
        summary = Summary.read(folder / "report")
        print(summary.text(device, stage, time.monotonic() - start), file=sys.stderr)
    return 1 if code == 0 and check == "error" and summary.findings else code


def _prepend_to_variable(first: Path, variable: str) -> str:
    """Returns the value of an environment variable such as `PATH`, with the folder `first` in front of its other folders."""
    return os.pathsep.join(filter(None, [str(first), os.environ.get(variable)]))


def _run_command(command: Sequence[str], env: dict[str, str]) -> int:
    """Runs a command in an environment. Returns its exit code as a shell does: 127 if there is no command, 128 + N after signal N."""
    try:
        process = subprocess.Popen(command, env=env)
    except OSError as error:
        print(f"tileworks: error: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    # Ignore SIGINT, because the command receives it too and decides what to do. Forward SIGTERM to the command.
    previous = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
                signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate())}
    try:
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


class Summary:
    """The statistics of all processes of a run. The CPU device of each process writes its statistics to a file of JSON lines in the report
    folder."""

    def __init__(self) -> None:
        # For each kernel, by its name: number of launches, number of failed launches, and seconds.
        self.kernels: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self.faults: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self.unsupported: set[str] = set()
        self.processes = 0

    @classmethod
    def read(cls, folder: Path) -> Summary:
        """Reads the files of a report folder."""
        summary = cls()
        for path in sorted(folder.glob("*.jsonl")):
            summary.processes += 1
            for line in path.read_text(errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if "launches" in entry:
                    total = summary.kernels[entry["kernel"]]
                    for at, key in enumerate(("launches", "failures", "seconds")):
                        total[at] += entry[key]
                elif "fault" in entry:
                    summary.faults.append(entry)
                elif "finding" in entry:
                    summary.findings.append(entry)
                elif "unsupported" in entry:
                    summary.unsupported.add(entry["unsupported"])
        return summary

    def text(self, device: str, stage: str, seconds: float) -> str:
        """Returns the summary as text. `seconds` is the time of the run."""
        launches = int(sum(total[0] for total in self.kernels.values()))
        kernel_seconds = sum(total[2] for total in self.kernels.values())
        lines = [f"tileworks: {device}, stage {stage}: {launches} launches of {len(self.kernels)} kernels in {self.processes} processes, "
                 f"{kernel_seconds:.2f} of {seconds:.2f} s"]
        slowest = sorted(self.kernels.items(), key=lambda pair: -pair[1][2])[:5]
        lines += [f"tileworks:   {name[:60]:60} {int(total[0]):7} launches {total[2]:9.3f} s" for name, total in slowest if total[2] >= 0.1]
        if self.faults:
            lines.append(f"tileworks: {len(self.faults)} failed calls; the first: {self.faults[0]['fault']} in {self.faults[0]['call']}: "
                         f"{self.faults[0]['message'].splitlines()[0]}")
        if self.findings:
            lines.append(f"tileworks: {len(self.findings)} findings of the checks; the first: {self.findings[0]['message'].splitlines()[0]}")
        if self.unsupported:
            lines.append(f"tileworks: unsupported entry points: {', '.join(sorted(self.unsupported))}")
        return "\n".join(lines)
