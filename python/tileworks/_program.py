"""Compiled programs, and the output files of the compiler stages."""
from __future__ import annotations

import html
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import _cutile
from ._errors import CompileError
from ._tools import Deadline, run_tool
from ._types import AnyPath, Arguments, Kernel, OptLevel, StageName

#: The compiler stages whose output a program can return, in the order of the pipeline.
STAGES: tuple[StageName, ...] = ("tile", "aa", "as", "sched", "llvm-ir", "ptx", "cubin")

STAGE_DESCRIPTIONS = {
    "tile": "the program as its author wrote it", "aa": "memory is explicit", "as": "layouts and hardware atoms",
    "sched": "schedules, buffers and barriers", "llvm-ir": "LLVM IR", "ptx": "PTX", "cubin": "a cubin",
}


#: For each suffix of a target, the number of the first architecture with this suffix. Code for a target with the suffix `a` runs on one
#: architecture, and code for a target with the suffix `f` runs on a family of architectures.
FIRST_ARCHITECTURES = {"a": 90, "f": 100}


def base_target(target: str) -> str:
    """Returns the target without suffix: code for `sm_90a` and `sm_90` runs on the same GPU."""
    parts = re.fullmatch(r"sm_([0-9]{2,3})([a-z]?)", target)
    if parts is None:
        raise ValueError(f"{target!r} is not a target; a target is sm_ and a number, such as sm_90, sm_90a or sm_100f")
    number, suffix = int(parts[1]), parts[2]
    if suffix and not (suffix in FIRST_ARCHITECTURES and number >= FIRST_ARCHITECTURES[suffix]):
        raise ValueError(f"there is no target {target!r}: suffix a exists from sm_90a on, suffix f from sm_100f on")
    return f"sm_{number}"


class Stage:
    """The output file of one compiler stage. A notebook shows its text.

    Attributes:
        kind: Stage, an element of `STAGES`.
        bytes: File contents.
        target: Target, such as `sm_90`.
    """

    def __init__(self, kind: StageName, data: bytes, target: str):
        self.kind, self.bytes, self.target = kind, data, target

    @property
    def text(self) -> str:
        """The whole file as text; for a cubin, its kernels and their resources."""
        if self.kind in ("ptx", "llvm-ir"):
            return self.bytes.decode()
        return run_tool("tile-dump", fails=CompileError, input=self.bytes)[0].decode()

    @property
    def program(self) -> str:
        """The text of the stage without the log and the location tables."""
        bare = self.kind in ("aa", "as", "sched")
        text = run_tool("tile-dump", "--bare", fails=CompileError, input=self.bytes)[0].decode() if bare else self.text
        return "\n".join(line for line in text.splitlines() if not line.startswith("//!tile"))

    def save(self, path: AnyPath) -> None:
        """Writes the file to a path."""
        Path(path).write_bytes(self.bytes)

    def __repr__(self) -> str:
        return f"<tileworks.Stage {self.kind} for {self.target}: {len(self.bytes)} bytes, {STAGE_DESCRIPTIONS[self.kind]}>"

    def _repr_html_(self) -> str:
        head = html.escape(f".{self.kind} for {self.target}: {STAGE_DESCRIPTIONS[self.kind]}")
        return f'<details open><summary>{head}</summary><pre style="line-height: 1.2">{html.escape(self.program)}</pre></details>'


class Program:
    """A kernel for one target. The first request for the file of a stage compiles the kernel up to this stage, and the program keeps the
    file.

    Attributes:
        bytecode: The bytecode of the kernel.
        target: Target, such as `sm_90`.
        opt_level: Optimisation level, 0 to 3.
        options: More options of `tileiras`.
        timeout: Limit of each stage in seconds.
    """

    def __init__(self, bytecode: bytes, target: str = "sm_90", opt_level: OptLevel = 3, options: Sequence[str] = (),
                 timeout: float | None = None):
        self.timeout = timeout
        self.bytecode, self.target, self.opt_level, self.options = bytecode, target, opt_level, tuple(options)
        self._stages: dict[StageName, Stage] = {}

    def stage(self, kind: StageName, *, deadline: Deadline | None = None) -> Stage:
        """Returns the file of a stage.

        Args:
            kind: An element of `STAGES`.

        Raises:
            CompileError: A stage rejects the program.
            TimeLimitError: The compilation exceeds the program's timeout.
        """
        if kind not in STAGES:
            raise ValueError(f"there is no stage {kind!r}; the stages are {', '.join(STAGES)}")
        if kind not in self._stages:
            with tempfile.TemporaryDirectory(prefix="tileworks-") as folder:
                source = Path(folder) / "kernel.tileirbc"
                source.write_bytes(self.bytecode)
                args = [source, f"--gpu-name={self.target}", f"-O{self.opt_level}", f"--emit={kind}", "-o", "-"]
                lineinfo = ["--lineinfo"] if kind in ("ptx", "llvm-ir", "cubin") else []
                data, _ = run_tool("tileiras", *args, *lineinfo, *self.options, fails=CompileError, deadline=deadline or Deadline(self.timeout))
            self._stages[kind] = Stage(kind, data, self.target)
        return self._stages[kind]

    @property
    def cubin(self) -> bytes:
        """The cubin. This needs ptxas."""
        return self.stage("cubin").bytes

    def __repr__(self) -> str:
        return f"<tileworks.Program for {self.target} at -O{self.opt_level}: {len(self.bytecode)} bytes of bytecode>"

    def _repr_html_(self) -> str:
        stages = (self.stage(kind)._repr_html_() for kind in STAGES if kind not in ("llvm-ir", "cubin"))
        return "".join(stages).replace("<details open>", "<details>")


def compile(kernel: Kernel, arguments: Arguments = (), *, target: str = "sm_90", opt_level: OptLevel = 3, options: Sequence[str] = (),
            timeout: float | None = None) -> Program:
    """Compiles a kernel. The result generates the file of a stage on request.

    Args:
        kernel: A kernel of cuTile Python, bytecode as `bytes`, or the path of a bytecode file.
        arguments: Arguments like those of the launch. Only kernels of cuTile Python need them, for types, alignment and divisibility.
        target: Target, such as `sm_90`. A suffix is allowed, as in `sm_90a` or `sm_100f`.
        opt_level: Optimisation level, 0 to 3.
        options: More options of `tileiras`, such as `--check-bounds`.
        timeout: Limit of each stage in seconds.

    Raises:
        CompileError: A stage rejects the kernel. The error has the source line.
        TimeLimitError: A stage exceeds `timeout`.
    """
    if isinstance(kernel, Program):
        return kernel
    target = base_target(target)
    if _cutile.is_kernel(kernel):
        kernel = _cutile.export_bytecode(kernel, arguments, target)
    elif isinstance(kernel, (str, os.PathLike)):
        kernel = Path(kernel).read_bytes()
    elif not isinstance(kernel, bytes):
        raise TypeError(_cutile.describe_mismatch(kernel))
    program = Program(kernel, target, opt_level, options, timeout)
    program.stage("tile")
    return program
