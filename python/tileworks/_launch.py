"""Executes kernels on numpy arrays on the CPU."""
from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _cutile
from ._arrays import clusters, memory, offsets, span
from ._errors import CheckError, Diagnostic, RunError
from ._program import compile
from ._tools import Deadline, limits, run
from ._types import Arguments, Array, ExecutedStage, Grid, Kernel, OptLevel

#: Number types by their names in launches.
SCALARS = {"bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64",
           "uint64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}

#: Element types likewise, including unsigned ones and those of few bits.
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

    def __init__(self, folder: Path, grid: Grid, kernel: Kernel, arguments: Arguments):
        self.folder = folder
        self.path = folder / "launch.json"
        as_cutile = _cutile.is_kernel(kernel)
        if _cutile.is_kernel(kernel):
            constant = _cutile.constants(kernel)
            names = [name for name, known in zip(_cutile.names(kernel), constant) if not known]
            annotations = [one for one, known in zip(_cutile.parameter_annotations(kernel), constant) if not known]
            arguments = [one for one, known in zip(_cutile.complete(kernel, arguments), constant) if not known]
        else:
            names = [f"arg{index}" for index in range(len(arguments))]
            annotations = [None] * len(names)
        self.buffers = _buffers(zip(names, arguments))
        for buffer in self.buffers:
            buffer.contents().tofile(folder / f"{buffer.name}.bin")
        parameters: list[dict[str, Any]] = []
        for argument, annotation in zip(arguments, annotations):
            if isinstance(argument, np.ndarray):
                parameters.append(next(buffer.parameter(argument) for buffer in self.buffers if buffer.has(argument)))
                if as_cutile:
                    index = _cutile.index_type(annotation)
                    parameters += [{index: int(extent)} for extent in argument.shape]
                    parameters += [{index: stride // argument.itemsize} for stride in argument.strides]
            else:
                number = _cutile.scalar(argument, annotation) if as_cutile else _number(argument)
                parameters.append({SCALARS[number.dtype.name]: number.item() if number.dtype.kind != "u" else _signed(number)})
        grid = [grid] if isinstance(grid, int) else [int(extent) for extent in grid]
        buffers = [{"name": buffer.name, "file": f"{buffer.name}.bin",
                    **({"type": buffer.type} if buffer.type else {}), **({"address": buffer.address} if buffer.address else {})}
                   for buffer in self.buffers]
        self.path.write_text(json.dumps({"grid": grid, "buffers": buffers, "params": parameters}))

    def take(self, out: Path) -> None:
        """Copies written memory back into the arrays."""
        for buffer in self.buffers:
            path = out / buffer.name
            buffer.put(np.load(f"{path}.npy").reshape(-1).view(np.uint8) if buffer.type else np.fromfile(f"{path}.bin", np.uint8))


class _Buffer:
    """The memory of an array, or of several that share a part of it: each of those is an address in the buffer."""

    def __init__(self, names: Sequence[str], arrays: Sequence[Array], address: int):
        same = all(span(array) == span(arrays[0]) for array in arrays)
        self.name = names[0] if same else "+".join(names)
        self.arrays, self.offsets = arrays, offsets(arrays)
        self.address = None if same else address
        # An array without gaps has a type. The debugger shows the array by it, and the tools check that a pointer points to it.
        self.type = _type(arrays[0]) if same else None

    @property
    def size(self) -> int:
        return max(offset + memory(array).size for offset, array in zip(self.offsets, self.arrays))

    def has(self, array: Array) -> bool:
        return any(array is one for one in self.arrays)

    def parameter(self, array: Array) -> dict[str, Any]:
        offset = next(offset for offset, one in zip(self.offsets, self.arrays) if one is array)
        return {"ptr": self.name} if self.address is None else {"i64": self.address + offset}

    def contents(self) -> Array:
        content = np.zeros(self.size, np.uint8)
        for offset, array in zip(self.offsets, self.arrays):
            content[offset:offset + memory(array).size] = memory(array)
        return content

    def put(self, after: Array) -> None:
        """Copies written memory back into the writeable arrays. The kernel may write no byte that only read-only arrays cover."""
        read_only = np.ones(self.size, bool)
        for offset, array in zip(self.offsets, self.arrays):
            if array.flags.writeable:
                read_only[offset:offset + memory(array).size] = False
        if np.any((after != self.contents())[read_only]):
            raise ValueError(f"the kernel writes {self.name}, which is read-only")
        for offset, array in zip(self.offsets, self.arrays):
            if array.size and array.flags.writeable:
                memory(array)[:] = after[offset:offset + memory(array).size]


#: Addresses of the buffers of several arrays; others follow them.
_SHARED = 0x10_0000_0000


def _buffers(arguments: Iterable[tuple[str, Any]]) -> list[_Buffer]:
    """The buffers for the arrays among the arguments: arrays that share memory have one in common."""
    pairs = [(name, argument) for name, argument in arguments if isinstance(argument, np.ndarray)]
    cluster = clusters([array for _, array in pairs])
    buffers: list[_Buffer] = []
    address = _SHARED
    for number in sorted(set(cluster)):
        members = [pair for pair, own in zip(pairs, cluster) if own == number]
        buffers.append(_Buffer([name for name, _ in members], [array for _, array in members], address))
        address += (buffers[-1].size // 0x1000 + 2) * 0x1000 if buffers[-1].address else 0
    return buffers


def _type(array: Array) -> str | None:
    """Returns the launch type of a contiguous array, or None for other arrays."""
    name = ELEMENTS.get(array.dtype.name)
    return f"{name}{list(array.shape)}" if name and array.size and array.ndim and array.flags.c_contiguous else None


def _number(argument: Any) -> np.generic:
    """Converts a parameter of a bytecode kernel. A Python integer that does not fit 32 bits has 64 bits."""
    large = isinstance(argument, int) and not -2**31 <= argument < 2**31
    return np.int64(argument) if large else _cutile.scalar(argument)


def _signed(number: np.generic) -> int:
    return int(np.array(number).view(number.dtype.name.lstrip("u")))


def launch(grid: Grid, kernel: Kernel, arguments: Arguments, *, stage: ExecutedStage = "tile", check: bool = False,
           target: str = "sm_90", opt_level: OptLevel = 3, options: Sequence[str] = (),
           timeout: float | None = None) -> Run:
    """Executes a kernel on the CPU for each tile block of `grid`, and writes its arrays in place.

    A kernel of cuTile Python takes the arguments of `ct.launch`. A bytecode kernel takes an array as its address and every other parameter
    as a number. Arrays may share memory: they share one buffer, which is copied back to all of them.

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
        args = [folder / f"kernel.{stage}", "--launch", described.path, "--out-dir", out]
        tool = "tile-sim" if stage == "ptx" else "tile-run"
        args += [*(["--check"] if check and stage != "ptx" else []), *limits(options)]
        printed, output = run(tool, *args, fails=CheckError if check else RunError, deadline=deadline)
        described.take(out)
    if printed:
        print(printed.decode(errors="replace"), end="")
    return Run(printed.decode(errors="replace"), tuple(output))
