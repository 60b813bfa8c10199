"""Executes kernels on numpy arrays on the CPU."""
from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from . import _cutile
from ._arrays import memory, overlap, span
from ._errors import CheckError, Diagnostic, RunError
from ._program import Program, compile
from ._tools import Deadline, limits, run

#: Types of numbers as launches call them.
SCALARS = {"bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64",
           "uint64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}

#: Types of elements likewise, those without sign and of few bits too.
ELEMENTS = SCALARS | {"bool": "bool", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8E4M3FN",
                      "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU"}


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of a launch besides the arrays.

    Attributes:
        printed: The output of the kernel.
        warnings: Warnings of the tools.
    """
    printed: str
    warnings: tuple[Diagnostic, ...]


class Description:
    """A launch in a folder: `launch.json` and one file for each array."""

    def __init__(self, folder: Path, grid: Sequence[int] | int, kernel: Any, arguments: Sequence[Any]):
        self.folder, self.arrays, self.names = folder, [], []
        self.path = folder / "launch.json"
        as_cutile = _cutile.is_kernel(kernel)
        if as_cutile:
            constant = _cutile.constants(kernel)
            names = [name for name, known in zip(_cutile.names(kernel), constant) if not known]
            annotations = [one for one, known in zip(_cutile.annotations(kernel), constant) if not known]
            arguments = [one for one, known in zip(_cutile.complete(kernel, arguments), constant) if not known]
        else:
            names = [f"arg{index}" for index in range(len(arguments))]
            annotations = [None] * len(names)
        parameters: list[dict[str, Any]] = []
        for name, argument, annotation in zip(names, arguments, annotations):
            if isinstance(argument, np.ndarray):
                parameters.append({"ptr": self.names[self._buffer(name, argument)]})
                if as_cutile:
                    index = _cutile.index_type(annotation)
                    parameters += [{index: int(extent)} for extent in argument.shape]
                    parameters += [{index: stride // argument.itemsize} for stride in argument.strides]
            else:
                number = _cutile.scalar(argument, annotation) if as_cutile else _number(argument)
                parameters.append({SCALARS[number.dtype.name]: number.item() if number.dtype.kind != "u" else _signed(number)})
        grid = [grid] if isinstance(grid, int) else [int(extent) for extent in grid]
        # An array without gaps has a type, by which the debugger shows it and the tools know whether it is what a pointer points to.
        buffers = [{"name": name, "file": f"{name}.bin", **({"type": typed} if (typed := _type(array)) else {})}
                   for name, array in zip(self.names, self.arrays)]
        self.path.write_text(json.dumps({"grid": grid, "buffers": buffers, "params": parameters}))

    def _buffer(self, name: str, array: np.ndarray) -> int:
        """Returns the buffer index of an array. Arrays with the same memory share one buffer."""
        for index, other in enumerate(self.arrays):
            if span(array) == span(other) and array.size:
                return index
            if overlap(array, other):
                raise ValueError(f"{self.names[index]} and {name} share a part of their memory; pass the same array twice, or copies")
        memory(array).tofile(self.folder / f"{name}.bin")
        self.arrays.append(array)
        self.names.append(name)
        return len(self.arrays) - 1

    def take(self, out: Path) -> None:
        """Copies the outputs of the run back into the arrays."""
        for name, array in zip(self.names, self.arrays):
            after = np.load(out / f"{name}.npy").reshape(-1).view(np.uint8) if _type(array) else np.fromfile(out / f"{name}.bin", np.uint8)
            if not array.flags.writeable:
                if not np.array_equal(after, memory(array)):
                    raise ValueError(f"the kernel writes {name}, which is read-only")
            elif array.size:
                memory(array)[:] = after


def _type(array: np.ndarray) -> str | None:
    """Returns the launch type of a contiguous array, or None for other arrays."""
    name = ELEMENTS.get(array.dtype.name)
    return f"{name}{list(array.shape)}" if name and array.size and array.ndim and array.flags.c_contiguous else None


def _number(argument: Any) -> np.generic:
    """Converts a parameter of a bytecode kernel. A Python integer that does not fit 32 bits has 64 bits."""
    large = isinstance(argument, int) and not -2**31 <= argument < 2**31
    return np.int64(argument) if large else _cutile.scalar(argument)


def _signed(number: np.generic) -> int:
    return int(np.array(number).view(number.dtype.name.lstrip("u")))


def launch(grid: Sequence[int] | int, kernel: Any, arguments: Sequence[Any], *, stage: str = "tile", check: bool = False,
           target: str = "sm_90", opt_level: int = 3, options: Sequence[str] = (),
           timeout: float | None = None) -> Run:
    """Executes a kernel on the CPU for each tile block of `grid`, and writes its arrays in place.

    A kernel of cuTile Python takes the arguments of `ct.launch`. A bytecode kernel takes an array as its address and every other parameter
    as a number.

    Args:
        grid: Extents of the grid.
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel.
        stage: Stage to execute: `tile` (the program as written), `aa`, `as`, `sched` or `ptx`.
        check: Detects faults that the results do not show: uninitialised reads, races between tile blocks, accesses that no token orders,
            and wrong assumptions. For PTX, the accesses to shared memory are always checked, races between tile blocks and missing tokens
            never. Check an earlier stage for those.
        target: Target, such as `sm_90`.
        opt_level: Optimisation level, 0 to 3.
        options: More options of `tileiras`, such as `--check-bounds`.
        timeout: Limit of the whole call in seconds. The option `--max-time` limits each tool.

    Returns:
        The output of the kernel and the warnings.

    Raises:
        CompileError: A stage rejects the kernel. The error has the source line.
        RunError: Execution fails. The error has the source line.
        CheckError: `check=True` detects a fault.
        TimeLimitError: The call exceeds `timeout`.
    """
    if stage not in ("tile", "aa", "as", "sched", "ptx"):
        raise ValueError(f"a kernel can be run as tile, aa, as, sched or ptx, not {stage!r}")
    deadline = Deadline(timeout)
    program = compile(kernel, arguments, target=target, opt_level=opt_level, options=options, timeout=timeout)
    with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
        folder = Path(name)
        described = Description(folder, grid, kernel, arguments)
        program.stage(stage, deadline=deadline).save(folder / f"kernel.{stage}")
        out = folder / "out"
        words = [folder / f"kernel.{stage}", "--launch", described.path, "--out-dir", out]
        tool = "tile-sim" if stage == "ptx" else "tile-run"
        words += [*(["--check"] if check and stage != "ptx" else []), *limits(options)]
        printed, said = run(tool, *words, fails=CheckError if check else RunError, deadline=deadline)
        described.take(out)
    if printed:
        print(printed.decode(errors="replace"), end="")
    return Run(printed.decode(errors="replace"), tuple(said))
