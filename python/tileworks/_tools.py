"""Finds the executables of Tileworks and runs them."""
from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from ._errors import Diagnostic, TileworksError, TimeLimitError


class Deadline:
    """The time at which a call of this package must end, computed from its timeout. A call without a timeout has no deadline."""

    def __init__(self, timeout: float | None):
        if timeout is not None and not timeout > 0:
            raise ValueError(f"a timeout is a positive number of seconds, not {timeout!r}")
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def remaining_seconds(self) -> float | None:
        """Returns the remaining seconds, or None without a timeout."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def limit_options(options: Sequence[str]) -> list[str]:
    """Returns the options that limit time or memory. Every tool accepts these options."""
    found: list[str] = []
    for at, option in enumerate(options):
        if option in ("--max-time", "--max-memory"):
            found += options[at:at + 2]
        elif option.startswith(("--max-time=", "--max-memory=")):
            found.append(option)
    return found


def tool(name: str) -> str:
    """Returns the path of a tool: from the folder `TILEWORKS_TOOLS`, from the folder of this Python's scripts, or from PATH."""
    folders = [os.environ.get("TILEWORKS_TOOLS"), sysconfig.get_path("scripts")]
    for folder in filter(None, folders):
        if os.access(path := Path(folder) / name, os.X_OK):
            return str(path)
    if found := shutil.which(name):
        return found
    raise TileworksError([], f"{name} is neither in TILEWORKS_TOOLS, nor beside this Python, nor on PATH")


def run_tool(name: str, *args: object, fails: type[TileworksError], cwd: str | None = None, input: bytes | None = None,
        deadline: Deadline | None = None) -> tuple[bytes, list[Diagnostic]]:
    """Runs a tool. Returns the standard output of the tool and its diagnostics. Raises an exception of the type `fails` if the tool fails,
    and `TimeLimitError` if the tool runs at the deadline."""
    command = [tool(name), "--error-format=json", *map(str, args)]
    left = deadline.remaining_seconds() if deadline else None
    try:
        if input is None:
            finished = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd, timeout=left)
        else:
            finished = subprocess.run(command, input=input, capture_output=True, cwd=cwd, timeout=left)
    except subprocess.TimeoutExpired as expired:
        limit = deadline.timeout if deadline else expired.timeout
        raise TimeLimitError([], f"{name} was stopped: the call takes longer than its timeout of {limit:g} s") from None
    return finished.stdout, check_exit_code(name, finished.returncode, finished.stdout, finished.stderr, fails)


def check_exit_code(name: str, code: int, stdout: bytes, stderr: bytes, fails: type[TileworksError]) -> list[Diagnostic]:
    """Returns the diagnostics of a tool that has ended. Raises an exception of the type `fails` if the tool failed, and `TimeLimitError` if
    the tool reached its time limit."""
    lines = stderr.decode(errors="replace").splitlines()
    output = [diagnostic for diagnostic in map(Diagnostic.read, lines) if diagnostic]
    if code != 0:
        if any(diagnostic.code == "CLI006" and "--max-time" in diagnostic.message for diagnostic in output):
            fails = TimeLimitError
        raise fails(output, "\n".join(lines) or f"{name} ended with {code}", stdout.decode(errors="replace"))
    return output


def version() -> str:
    """Returns the version of the tools."""
    return subprocess.run([tool("tile-read"), "--version"], capture_output=True, check=True, text=True).stdout.split()[-1]
