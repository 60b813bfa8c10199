"""Exceptions with the diagnostics of the tools and their source locations."""
from __future__ import annotations

import dataclasses
import json
import linecache
import re


@dataclasses.dataclass(frozen=True)
class Resource:
    """A resource of the target that a kernel exceeds.

    Attributes:
        kind: `shared-memory` or `parameters` (bytes), `tensor-memory` (columns), `registers`, or `instructions`.
        needed: The amount that the kernel needs.
        available: The amount that the target has.
        hint: The option or hint that causes the need or the limit, such as `stages=8`, or None.
    """
    kind: str
    needed: int
    available: int
    hint: str | None = None


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One error or warning of a tool.

    Attributes:
        severity: `error` or `warning`.
        code: Code, such as `LCH013`. `tileiras --explain CODE` describes it.
        message: Message without the source location.
        file: Source file, or None.
        line: Line in that file, or None.
        column: Column in that line, or None.
        notes: More lines that belong to the diagnostic.
        resource: The resource that the kernel exceeds, or None.
    """
    severity: str
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    notes: tuple[str, ...] = ()
    resource: Resource | None = None

    @staticmethod
    def read(line: str) -> Diagnostic | None:
        """Parses a line of a tool's standard error. Returns None if the line is not a diagnostic."""
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
        # The message of a failed kernel assertion starts with its location, as on a GPU.
        if file is None and (output := re.match(r"(.+?\.py):(\d+): (.*)", message, re.S)):
            file, at, message = output[1], int(output[2]), output[3]
        exceeded = data.get("resource")
        resource = Resource(exceeded["kind"], exceeded["needed"], exceeded["available"], exceeded.get("hint")) if exceeded else None
        return Diagnostic(data.get("severity", "error"), data.get("code", ""), message, file, at, column, tuple(data.get("notes", ())), resource)

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]"
        if self.file is not None:
            text += f"\n  at {self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")
            source = linecache.getline(self.file, self.line or 0).strip()
            text += f": {source}" if source else ""
        return text + "".join(f"\n  note: {note}" for note in self.notes)


class TileworksError(Exception):
    """Base class of all exceptions of this package.

    Attributes:
        diagnostics: The diagnostics of the tool, errors first.
        message: All diagnostics as text.
        printed: The output of the kernel before the failure.
    """

    def __init__(self, diagnostics: list[Diagnostic], otherwise: str, printed: str = ""):
        # pickle and copy construct an exception again from its attribute `args`, so pass all arguments to the base class, which sets it.
        super().__init__(diagnostics, otherwise, printed)
        self.printed = printed
        # A failed assertion prints its message before it stops the kernel. `tile-run` also reports it as a diagnostic. `tile-sim` reports only
        # the trap, so convert the printed message to a diagnostic.
        asserted = re.findall(r"^(.+?):(\d+): (tile block: .*)", printed, re.M)[:1]
        asserted = [] if any(diagnostic.code == "RUN040" for diagnostic in diagnostics) else asserted
        diagnostics = [Diagnostic("error", "RUN040", text, file, int(line)) for file, line, text in asserted] + diagnostics
        self.diagnostics = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
        self.message = "\n".join(str(diagnostic) for diagnostic in self.diagnostics) or otherwise

    def __str__(self) -> str:
        return self.message

    @property
    def code(self) -> str | None:
        """The code of the first error; `tileiras --explain CODE` describes it."""
        return self.diagnostics[0].code if self.diagnostics else None

    @property
    def file(self) -> str | None:
        """The source file of the first diagnostic with a source location, or None."""
        return next((one.file for one in self.diagnostics if one.file), None)

    @property
    def line(self) -> int | None:
        """The line of the first diagnostic with a source location, or None."""
        return next((one.line for one in self.diagnostics if one.file), None)


class TimeLimitError(TileworksError, TimeoutError):
    """A tool exceeded the limit of `timeout` or `--max-time`."""


class CompileError(TileworksError):
    """A stage rejected the program."""


class RunError(TileworksError):
    """The kernel had undefined behaviour, an assertion of the kernel failed, or the launch does not fit the kernel."""


class CheckError(RunError):
    """A launch with `check=True` detected faults; the attribute `diagnostics` has all faults."""
