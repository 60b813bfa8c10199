"""Kernels of cuTile Python: their bytecode, for arguments like those given, without a GPU."""
from __future__ import annotations

import io
from typing import Any, Sequence

import numpy as np

from ._arrays import overlap

#: Bytecode versions to write, the first that the installed cuTile knows.
VERSIONS = ("13.4", "13.3", "13.2", "13.1")


def is_kernel(value: Any) -> bool:
    return hasattr(value, "_annotated_function") and hasattr(value, "_compiler_options")


def function(kernel: Any) -> Any:
    return kernel._annotated_function.pyfunc


def name(kernel: Any) -> str:
    return function(kernel).__name__


def names(kernel: Any) -> list[str]:
    """Of its parameters."""
    return list(kernel._annotated_function.pysig.parameters)


def constants(kernel: Any) -> list[bool]:
    """Which parameters are `ct.Constant`, known when the kernel is compiled and not passed."""
    return [getattr(one, "constant", False) for one in kernel._annotated_function.parameter_annotations]


def complete(kernel: Any, arguments: Sequence[Any]) -> list[Any]:
    """The arguments with the defaults of those that were left out."""
    bound = kernel._annotated_function.pysig.bind(*arguments)
    bound.apply_defaults()
    return list(bound.args)


def bytecode(kernel: Any, arguments: Sequence[Any], target: str) -> bytes:
    """The kernel as bytecode, with what cuTile would assume of such arguments."""
    from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

    arguments = complete(kernel, arguments)
    parameters = [argument if constant else _constraint(argument, arguments)
                  for argument, constant in zip(arguments, constants(kernel))]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1())
    for version in VERSIONS:
        out = io.BytesIO()
        try:
            export_kernel(kernel, [signature], out, gpu_code=target, output_format="tileir_bytecode", bytecode_version=version)
        except ValueError:
            # An older cuTile does not know the version, and any does not know the last of them.
            if version == VERSIONS[-1]:
                raise
            continue
        return out.getvalue()
    raise AssertionError("the loop ends by returning or raising")


def _dtype(dtype: np.dtype) -> Any:
    import cuda.tile as ct

    name = {"bool": "bool_"}.get(dtype.name, dtype.name)
    if not hasattr(ct, name):
        raise TypeError(f"cuTile has no type for numpy's {dtype.name}")
    return getattr(ct, name)


def _constraint(argument: Any, others: Sequence[Any]) -> Any:
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint, ScalarConstraint

    if not isinstance(argument, np.ndarray):
        return ScalarConstraint(_dtype(scalar(argument).dtype))
    per16 = max(1, 16 // argument.itemsize)
    strides = [stride // argument.itemsize for stride in argument.strides]
    divisor = lambda number: per16 if number % per16 == 0 else 1
    same = [index for index, one in enumerate(others) if isinstance(one, np.ndarray) and (one is argument or overlap(argument, one))]
    groups = [f"memory{same[0]}"] if len(same) > 1 else []
    return ArrayConstraint(
        _dtype(argument.dtype), argument.ndim, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=groups,
        may_alias_internally=False, stride_constant=[1 if stride == 1 else None for stride in strides],
        stride_divisible_by=[1 if stride == 1 else divisor(stride) for stride in strides],
        shape_divisible_by=[divisor(extent) for extent in argument.shape], base_addr_divisible_by=16)


def scalar(argument: Any) -> np.generic:
    """A number as the type that cuTile gives it: Python's are of 32 bits where they fit."""
    if isinstance(argument, np.generic):
        return argument
    if isinstance(argument, bool):
        return np.bool_(argument)
    if isinstance(argument, int):
        return np.int32(argument) if -2**31 <= argument < 2**31 else np.int64(argument)
    if isinstance(argument, float):
        return np.float32(argument)
    raise TypeError(f"a kernel takes arrays and numbers, not {type(argument).__name__}")
