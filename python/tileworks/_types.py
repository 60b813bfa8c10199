"""The types of the arguments of this package."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

#: The compiler stages whose output a program can return.
StageName: TypeAlias = Literal["tile", "aa", "as", "sched", "llvm-ir", "ptx", "cubin"]
#: The stages that can be executed on the CPU.
ExecutedStage: TypeAlias = Literal["tile", "aa", "as", "sched", "ptx"]
#: The stages that the debugger executes.
DebuggedStage: TypeAlias = Literal["tile", "aa", "as", "sched"]
#: An optimisation level.
OptLevel: TypeAlias = Literal[0, 1, 2, 3]

Array: TypeAlias = npt.NDArray[Any]
#: An argument of a kernel.
Argument: TypeAlias = "Array | np.generic | bool | int | float"
Arguments: TypeAlias = Sequence[Argument]
#: The extents of a grid; a number is a grid of one dimension.
Grid: TypeAlias = "Sequence[int] | int"
AnyPath: TypeAlias = "str | os.PathLike[str]"


class Function(Protocol):
    """A function with code, as Python defines it."""

    __name__: str
    __globals__: dict[str, Any]

    def __call__(self, *arguments: Any) -> Any: ...


class AnnotatedFunction(Protocol):
    """The attributes of a cuTile kernel that this package uses: its Python function, the signature, and the annotations of its parameters."""

    @property
    def pyfunc(self) -> Function: ...
    @property
    def pysig(self) -> Any: ...
    @property
    def parameter_annotations(self) -> Sequence[Any]: ...


@runtime_checkable
class TileKernel(Protocol):
    """A kernel of cuTile Python, the result of `@ct.kernel`."""

    @property
    def _annotated_function(self) -> AnnotatedFunction: ...
    @property
    def _compiler_options(self) -> Any: ...


class HasStages(Protocol):
    """A compiled program: the class `Program` of this package, which this module cannot import without a cycle."""

    @property
    def bytecode(self) -> bytes: ...


#: A kernel of cuTile Python, bytecode, the path of a bytecode file, or a `Program`.
Kernel: TypeAlias = "TileKernel | HasStages | bytes | str | os.PathLike[str]"
