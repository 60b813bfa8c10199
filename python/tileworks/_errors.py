"""The tools' reports of failures, as exceptions with the source location."""
from __future__ import annotations

import dataclasses
import json
import linecache
import re


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One error or warning of a tool."""
    severity: str
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    notes: tuple[str, ...] = ()

    @staticmethod
    def read(line: str) -> Diagnostic | None:
        """Parses a line of a tool's standard error, if it is a diagnostic."""
        try:
            data = json.loads(line)
        except ValueError:
            return None
        if not isinstance(data, dict) or "message" not in data:
            return None
        message, file, at, column = data["message"], None, None, None
        place = data.get("place") or {}
        for kind in ("source", "text"):
            if isinstance(place, dict) and kind in place:
                file, at, column = (place[kind].get(name) for name in ("file", "line", "column"))
        # A failed assertion of a kernel has its location in the message, as on a GPU.
        if file is None and (output := re.match(r"(.+?\.py):(\d+): (.*)", message, re.S)):
            file, at, message = output[1], int(output[2]), output[3]
        return Diagnostic(data.get("severity", "error"), data.get("code", ""), message, file, at, column, tuple(data.get("notes", ())))

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]"
        if self.file is not None:
            text += f"\n  at {self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")
            source = linecache.getline(self.file, self.line or 0).strip()
            text += f": {source}" if source else ""
        return text + "".join(f"\n  note: {note}" for note in self.notes)


class TileworksError(Exception):
    """A failure; `diagnostics` are those of the tool, the errors first, and `printed` is the output of the kernel until then."""

    def __init__(self, diagnostics: list[Diagnostic], otherwise: str, printed: str = ""):
        # `args` are the arguments from which pickle and copy construct an exception again.
        super().__init__(diagnostics, otherwise, printed)
        self.printed = printed
        # An assertion prints itself before it stops the kernel. `tile-run` also reports it as an error, `tile-sim` only the trap.
        asserted = re.findall(r"^(.+?):(\d+): (tile block: .*)", printed, re.M)[:1]
        asserted = [] if any(one.code == "RUN040" for one in diagnostics) else asserted
        diagnostics = [Diagnostic("error", "RUN040", args, file, int(line)) for file, line, args in asserted] + diagnostics
        self.diagnostics = sorted(diagnostics, key=lambda one: one.severity != "error")
        self.message = "\n".join(str(one) for one in self.diagnostics) or otherwise

    def __str__(self) -> str:
        return self.message

    @property
    def code(self) -> str | None:
        """The code of the first error; `tileiras --explain` documents it."""
        return self.diagnostics[0].code if self.diagnostics else None

    @property
    def file(self) -> str | None:
        """The source file of the first error with a location."""
        return next((one.file for one in self.diagnostics if one.file), None)

    @property
    def line(self) -> int | None:
        """The line of that error."""
        return next((one.line for one in self.diagnostics if one.file), None)


class TimeLimitError(TileworksError, TimeoutError):
    """A tool took longer than `timeout` or `--max-time` allows."""


class CompileError(TileworksError):
    """A stage refused the program."""


class RunError(TileworksError):
    """A kernel had undefined behaviour, one of its assertions failed, or a launch does not fit it."""


class CheckError(RunError):
    """`check=True` found faults; `diagnostics` has all of them."""
