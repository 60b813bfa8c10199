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
from ._arrays import byte_range, covered_bytes, group_offsets, overlap_groups
from ._errors import CheckError, Diagnostic, RunError
from ._program import compile
from ._tools import Deadline, limit_options, run_tool
from ._types import Arguments, Array, ExecutedStage, Grid, Kernel, OptLevel

#: The types of number parameters in launch descriptions, by the name of the numpy type.
SCALARS = {"bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64",
           "uint64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}

#: The element types of buffers in launch descriptions, by the name of the numpy type. Unlike number parameters, buffers may have unsigned and
#: 8-bit float types.
ELEMENTS = SCALARS | {"bool": "bool", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8E4M3FN",
                      "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU"}


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of a launch, except the arrays, which the launch writes in place.

    Attributes:
        printed: The output of the kernel.
        warnings: Warnings of the tools.
    """
    printed: str
    warnings: tuple[Diagnostic, ...]


class LaunchDescription:
    """A launch description that the tools read. The constructor writes it to a folder: `launch.json`, and a file for each buffer."""

    def __init__(self, folder: Path, grid: Grid, kernel: Kernel, arguments: Arguments):
        self.folder = folder
        self.path = folder / "launch.json"
        as_cutile = _cutile.is_kernel(kernel)
        if _cutile.is_kernel(kernel):
            is_constant = _cutile.constant_flags(kernel)
            names = [name for name, known in zip(_cutile.parameter_names(kernel), is_constant) if not known]
            annotations = [one for one, known in zip(_cutile.parameter_annotations(kernel), is_constant) if not known]
            arguments = [one for one, known in zip(_cutile.with_defaults(kernel, arguments), is_constant) if not known]
        else:
            names = [f"arg{index}" for index in range(len(arguments))]
            annotations = [None] * len(names)
        self.buffers = _create_buffers(zip(names, arguments))
        for buffer in self.buffers:
            buffer.contents().tofile(folder / f"{buffer.name}.bin")
        parameters: list[dict[str, Any]] = []
        for argument, annotation in zip(arguments, annotations):
            if isinstance(argument, np.ndarray):
                parameters.append(next(buffer.parameter(argument) for buffer in self.buffers if buffer.contains(argument)))
                if as_cutile:
                    index = _cutile.index_type(annotation)
                    parameters += [{index: int(extent)} for extent in argument.shape]
                    parameters += [{index: stride // argument.itemsize} for stride in argument.strides]
            else:
                number = _cutile.to_scalar(argument, annotation) if as_cutile else _bytecode_scalar(argument)
                parameters.append({SCALARS[number.dtype.name]: number.item() if number.dtype.kind != "u" else _signed_bits(number)})
        grid = [grid] if isinstance(grid, int) else [int(extent) for extent in grid]
        buffers = [{"name": buffer.name, "file": f"{buffer.name}.bin",
                    **({"type": buffer.type} if buffer.type else {}), **({"address": buffer.address} if buffer.address else {})}
                   for buffer in self.buffers]
        self.path.write_text(json.dumps({"grid": grid, "buffers": buffers, "params": parameters}))

    def read_outputs(self, out: Path) -> None:
        """Copies the buffers that the tool wrote to the folder `out` back to the arrays."""
        for buffer in self.buffers:
            path = out / buffer.name
            buffer.write_back(np.load(f"{path}.npy").reshape(-1).view(np.uint8) if buffer.type else np.fromfile(f"{path}.bin", np.uint8))


class _Buffer:
    """The buffer of one array, or of several arrays that overlap. If the arrays do not cover the same bytes, the launch passes the address
    of each array as a number. Such a buffer has a fixed address."""

    def __init__(self, names: Sequence[str], arrays: Sequence[Array], address: int):
        have_equal_ranges = all(byte_range(array) == byte_range(arrays[0]) for array in arrays)
        self.name = names[0] if have_equal_ranges else "+".join(names)
        self.arrays, self.offsets = arrays, group_offsets(arrays)
        self.address = None if have_equal_ranges else address
        # With a type, the debugger shows the buffer as an array, and the tools check the type of the pointer parameter.
        self.type = _launch_type(arrays[0]) if have_equal_ranges else None

    @property
    def size(self) -> int:
        return max(offset + covered_bytes(array).size for offset, array in zip(self.offsets, self.arrays))

    def contains(self, array: Array) -> bool:
        return any(array is one for one in self.arrays)

    def parameter(self, array: Array) -> dict[str, Any]:
        """Returns the entry of `params` that passes the address of an array in this buffer."""
        offset = next(offset for offset, one in zip(self.offsets, self.arrays) if one is array)
        return {"ptr": self.name} if self.address is None else {"i64": self.address + offset}

    def contents(self) -> Array:
        """Returns the bytes of the buffer before the launch."""
        content = np.zeros(self.size, np.uint8)
        for offset, array in zip(self.offsets, self.arrays):
            content[offset:offset + covered_bytes(array).size] = covered_bytes(array)
        return content

    def write_back(self, new_contents: Array) -> None:
        """Copies the contents after the launch to the writeable arrays. Raises ValueError if the kernel changed a byte of no writeable array."""
        read_only = np.ones(self.size, bool)
        for offset, array in zip(self.offsets, self.arrays):
            if array.flags.writeable:
                read_only[offset:offset + covered_bytes(array).size] = False
        if np.any((new_contents != self.contents())[read_only]):
            raise ValueError(f"the kernel writes {self.name}, which is read-only")
        for offset, array in zip(self.offsets, self.arrays):
            if array.size and array.flags.writeable:
                covered_bytes(array)[:] = new_contents[offset:offset + covered_bytes(array).size]


#: The address of the first buffer that has a fixed address. The tools choose the addresses of buffers without a fixed address.
_FIRST_FIXED_ADDRESS = 0x10_0000_0000


def _create_buffers(arguments: Iterable[tuple[str, Any]]) -> list[_Buffer]:
    """Returns the buffers for the arrays among the arguments, which are pairs of a name and a value. Overlapping arrays share one buffer."""
    pairs = [(name, argument) for name, argument in arguments if isinstance(argument, np.ndarray)]
    groups = overlap_groups([array for _, array in pairs])
    buffers: list[_Buffer] = []
    address = _FIRST_FIXED_ADDRESS
    for group in sorted(set(groups)):
        members = [pair for pair, own in zip(pairs, groups) if own == group]
        buffers.append(_Buffer([name for name, _ in members], [array for _, array in members], address))
        address += (buffers[-1].size // 0x1000 + 2) * 0x1000 if buffers[-1].address else 0
    return buffers


def _launch_type(array: Array) -> str | None:
    """Returns the launch type of a contiguous array, or None for other arrays."""
    name = ELEMENTS.get(array.dtype.name)
    return f"{name}{list(array.shape)}" if name and array.size and array.ndim and array.flags.c_contiguous else None


def _bytecode_scalar(argument: Any) -> np.generic:
    """Converts a number for a bytecode kernel. A Python integer becomes an i32, or an i64 if it does not fit in 32 bits."""
    large = isinstance(argument, int) and not -2**31 <= argument < 2**31
    return np.int64(argument) if large else _cutile.to_scalar(argument)


def _signed_bits(number: np.generic) -> int:
    """Returns the signed integer that has the same bits as an unsigned number."""
    return int(np.array(number).view(number.dtype.name.lstrip("u")))


def launch(grid: Grid, kernel: Kernel, arguments: Arguments, *, stage: ExecutedStage = "tile", check: bool = False,
           target: str = "sm_90", opt_level: OptLevel = 3, options: Sequence[str] = (),
           timeout: float | None = None) -> Run:
    """Executes a kernel on the CPU for each tile block of `grid`, and writes its arrays in place.

    For a kernel of cuTile Python, the arguments are those of `ct.launch`. For bytecode, an array stands for its address, and every other
    parameter is a number. Arrays may overlap: they then have one buffer, and a write through one array is visible in the others.

    Args:
        grid: Extents of the grid.
        kernel: A kernel of cuTile Python, bytecode, or a path.
        arguments: Arguments of the kernel.
        stage: Stage to execute: `tile` (the program as written), `aa`, `as`, `sched` or `ptx`.
        check: Detects faults that the results may not show: uninitialised reads, races between tile blocks, accesses that no token orders,
            and wrong assumptions. In PTX, the simulator always checks accesses to shared memory, but never finds races between tile blocks
            or missing tokens; check an earlier stage to find them.
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
        description = LaunchDescription(folder, grid, kernel, arguments)
        program.stage(stage, deadline=deadline).save(folder / f"kernel.{stage}")
        out_folder = folder / "out"
        args = [folder / f"kernel.{stage}", "--launch", description.path, "--out-dir", out_folder]
        tool = "tile-sim" if stage == "ptx" else "tile-run"
        args += [*(["--check"] if check and stage != "ptx" else []), *limit_options(options)]
        printed, output = run_tool(tool, *args, fails=CheckError if check else RunError, deadline=deadline)
        description.read_outputs(out_folder)
    if printed:
        print(printed.decode(errors="replace"), end="")
    return Run(printed.decode(errors="replace"), tuple(output))
