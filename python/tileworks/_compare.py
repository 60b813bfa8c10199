"""Compiles a kernel with Tileworks and with NVIDIA's compiler, and shows both results side by side."""
from __future__ import annotations

import dataclasses
import html
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import _cutile
from ._errors import RunError, TileworksError
from ._launch import LaunchDescription
from ._program import base_target, compile
from ._tools import Deadline, run_tool
from ._types import AnyPath, Arguments, Grid, Kernel, OptLevel

#: A script that NVIDIA's tileiras runs instead of ptxas. It saves the PTX and the object with host code, and then runs ptxas.
PTXAS_WRAPPER = """#!/bin/sh
for word in "$@"; do
  case $word in
    *.ptx) cp "$word" "$KEEP_FOLDER/k.ptx" ;;
    --nv-host=*) cp "${word#--nv-host=}" "$KEEP_FOLDER/k.o" ;;
  esac
done
exec "$KEEP_PTXAS" "$@"
"""


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a comparison: the result of one of the two compilers.

    Attributes:
        compiler: `tileworks` or `NVIDIA`.
        ptx: The PTX text.
        cubin: The cubin.
        registers: Registers of a thread.
        spills: Number of instructions that store or reload spilled registers. None if neither a launch nor nvdisasm provides the number.
        stack_bytes: Stack of a thread in bytes.
        seconds: Predicted time of the launch, or None without a prediction.
        without_time: The reason why `seconds` is None although there is a launch; otherwise None.
    """
    compiler: str
    ptx: str
    cubin: bytes
    registers: int
    spills: int | None
    stack_bytes: int
    seconds: float | None
    without_time: str | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """The results of both compilers. `str()` returns a table with the report of `tile-score`; a notebook shows both PTX texts.

    Attributes:
        kernel: Name of the kernel.
        target: Target, such as `sm_90`.
        ours: Result of Tileworks.
        theirs: Result of NVIDIA's compiler.
        score: Report of `tile-score`.
    """
    kernel: str
    target: str
    ours: Side
    theirs: Side
    score: str

    def rows(self) -> list[tuple[str, str, str]]:
        """Returns the rows of the table: the quantity, its value for this project, and its value for NVIDIA's compiler."""
        def values_of(side: Side) -> list[str]:
            time = f"{side.seconds * 1e6:.2f} us" if side.seconds is not None else side.without_time or "no launch"
            spill_count = "not known" if side.spills is None else str(side.spills)
            return [str(len(side.ptx.splitlines())), str(side.registers), spill_count, str(side.stack_bytes), time]

        names = ["lines of PTX", "registers", "spill instructions", "stack bytes", "predicted time"]
        return [(name, ours, theirs) for name, ours, theirs in zip(names, values_of(self.ours), values_of(self.theirs))]

    def __str__(self) -> str:
        rows = [("", self.ours.compiler, self.theirs.compiler), *self.rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([f"{self.kernel} for {self.target}", *lines, "", self.score.rstrip()])

    def __repr__(self) -> str:
        return f"<tileworks.Comparison of {self.kernel} for {self.target}: {self.ours.registers} and {self.theirs.registers} registers>"

    def _repr_html_(self) -> str:
        table = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(ours)}</td><td>{html.escape(theirs)}</td></tr>"
                        for name, ours, theirs in self.rows())
        head = f"<tr><th></th><th>{html.escape(self.ours.compiler)}</th><th>{html.escape(self.theirs.compiler)}</th></tr>"
        texts = "".join(f'<td style="vertical-align: top"><pre>{html.escape(side.ptx)}</pre></td>' for side in (self.ours, self.theirs))
        return f"<table>{head}{table}</table><pre>{html.escape(self.score)}</pre><details><summary>PTX</summary><table><tr>{texts}</tr></table></details>"


def find_nvidia_toolkit(reference: AnyPath | None) -> Path:
    """Returns the `bin` folder of NVIDIA's toolkit: `reference`, or else the environment variable `REFERENCE`."""
    folder_name = reference or os.environ.get("REFERENCE")
    if not folder_name:
        raise TileworksError([], "NVIDIA's compiler is not named: set REFERENCE to the folder with its tileiras and ptxas, such as "
                                 "site-packages/nvidia/cu13/bin after `pip install nvidia-cuda-tileiras nvidia-cuda-nvcc nvidia-nvvm`")
    folder = Path(folder_name).absolute()
    for name in ("tileiras", "ptxas"):
        if not os.access(folder / name, os.X_OK):
            raise TileworksError([], f"{folder} has no {name}: REFERENCE names the folder with NVIDIA's tileiras and ptxas")
    return folder


def compare(kernel: Kernel, arguments: Arguments = (), *, grid: Grid | None = None, launch: AnyPath | None = None,
            target: str = "sm_90", gpu: str | None = None, opt_level: OptLevel = 3, reference: AnyPath | None = None,
            allow_native: bool = False, timeout: float | None = None) -> Comparison:
    """Compiles a kernel with this project and with NVIDIA's compiler, and compares PTX, registers, spills, predicted time and score.

    A predicted time needs a launch: either `grid` and `arguments`, or `launch`.

    Args:
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel; cuTile Python needs them to generate bytecode.
        grid: Extents of the grid.
        launch: File with a launch description, instead of `grid` and `arguments`.
        target: Target, such as `sm_90`.
        gpu: Machine description of `tile-time`. By default `tile-time` takes the machine that represents the target.
        opt_level: Optimisation level, 0 to 3.
        reference: The folder that contains NVIDIA's `tileiras` and `ptxas`. The default is the environment variable `REFERENCE`.
        allow_native: Allows `tile-time` to run the host code in NVIDIA's cubin on this machine. A prediction for a kernel with tensor maps
            needs this code.
        timeout: Limit of the whole call in seconds.

    Raises:
        TileworksError: NVIDIA's compiler is not installed, or it rejects the kernel.
        CompileError: A stage of this project rejects the kernel.
        TimeLimitError: The call exceeds `timeout`.
    """
    nvidia_toolkit, deadline, target = find_nvidia_toolkit(reference), Deadline(timeout), base_target(target)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        launch_path = Path(launch).absolute() if launch is not None else None
        if launch_path is None and grid is not None:
            launch_path = LaunchDescription(folder, grid, kernel, arguments).path
        (folder / "ours").mkdir()
        program.stage("ptx", deadline=deadline).save(folder / "ours" / "k.ptx")
        program.stage("cubin", deadline=deadline).save(folder / "ours" / "k.cubin")
        _compile_with_nvidia(nvidia_toolkit, program.bytecode, target, opt_level, folder, deadline)
        sides = [_read_result(folder / side, compiler, launch_path, gpu, allow_native, deadline)
                 for side, compiler in (("ours", "tileworks"), ("theirs", "NVIDIA"))]
        score, _ = run_tool("tile-score", folder / "ours" / "k.ptx", folder / "theirs" / "k.ptx", fails=RunError, deadline=deadline)
    title = _cutile.kernel_name(kernel) if _cutile.is_kernel(kernel) else os.fspath(kernel) if isinstance(kernel, (str, os.PathLike)) else "the kernel"
    return Comparison(title, target, sides[0], sides[1], score.decode(errors="replace"))


def _compile_with_nvidia(origin: Path, bytecode: bytes, target: str, opt_level: int, folder: Path, deadline: Deadline) -> None:
    """Compiles bytecode with NVIDIA's tileiras into the folder `theirs`. Uses a copy of the toolkit in which a script replaces ptxas and saves
    the PTX. Reason: tileiras runs the ptxas in its own folder."""
    toolkit_copy, outputs = folder / "toolkit", folder / "theirs"
    bin_copy = toolkit_copy / origin.name
    bin_copy.mkdir(parents=True)
    outputs.mkdir()
    for entry in origin.parent.iterdir():
        if entry.name != origin.name:
            (toolkit_copy / entry.name).symlink_to(entry)
    for entry in origin.iterdir():
        if entry.name not in ("ptxas", "tileiras"):
            (bin_copy / entry.name).symlink_to(entry)
    shutil.copy(origin / "tileiras", bin_copy)
    (bin_copy / "ptxas").write_text(PTXAS_WRAPPER)
    (bin_copy / "ptxas").chmod(0o755)
    (folder / "k.tileirbc").write_bytes(bytecode)
    command: list[str | Path] = [bin_copy / "tileiras", folder / "k.tileirbc", f"--gpu-name={target}", f"-O{opt_level}", "-o", outputs / "k.cubin"]
    # Unset these variables for tileiras. Otherwise it would use the toolkit that they name instead of the copy.
    toolkit_variables = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in toolkit_variables}
    environment |= {"KEEP_FOLDER": str(outputs), "KEEP_PTXAS": str(origin / "ptxas")}
    try:
        finished = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=deadline.remaining_seconds())
    except subprocess.TimeoutExpired:
        raise TileworksError([], "NVIDIA's tileiras takes longer than the timeout") from None
    if finished.returncode != 0 or not (outputs / "k.ptx").exists():
        output = finished.stderr.decode(errors="replace").strip()
        raise TileworksError([], f"NVIDIA's tileiras does not compile the kernel (exit code {finished.returncode}): {output}")


def _read_result(folder: Path, compiler: str, launch: Path | None, gpu: str | None, allow_native: bool, deadline: Deadline) -> Side:
    """Reads the PTX and the cubin of a compiler from a folder, and runs `tile-time` on them for registers, spills and predicted time."""
    ptx, cubin = folder / "k.ptx", folder / "k.cubin"
    gpu_options = ["--gpu", gpu] if gpu else []
    kernel_statistics = json.loads(run_tool("tile-time", cubin, "--json", "-", *gpu_options, fails=RunError, deadline=deadline)[0])["kernels"][0]
    instruction_statistics = kernel_statistics.get("instruction_statistics") or {}
    spill_count, seconds, without_time = instruction_statistics.get("spill_loads"), None, None
    if spill_count is not None:
        spill_count += instruction_statistics.get("spill_stores", 0)
    if launch is not None:
        host_options = ["--host-object", cubin, "--allow-native"] if allow_native else []
        try:
            args = [cubin, "--ptx", ptx, "--launch", launch, "--no-advice", "--json", "-", *gpu_options, *host_options]
            report = json.loads(run_tool("tile-time", *args, fails=RunError, deadline=deadline)[0])
            seconds, spill_count = report["seconds"], report["spill_instructions"]
        except RunError as error:
            without_time = f"no time [{error.code}]"
    registers, stack_bytes = kernel_statistics["registers"], kernel_statistics["stack_bytes"]
    return Side(compiler, ptx.read_text(errors="replace"), cubin.read_bytes(), registers, spill_count, stack_bytes, seconds, without_time)
