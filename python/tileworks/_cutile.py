"""Generates bytecode from cuTile Python kernels for given arguments, without a GPU."""
from __future__ import annotations

import io
import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TypeGuard

import numpy as np

from ._arrays import group_offsets, overlap_groups
from ._types import Argument, Arguments, Function, TileKernel

#: Bytecode versions in the order in which `export_bytecode` tries them. The function uses the first version that the installed cuTile
#: supports.
BYTECODE_VERSIONS = ("13.5", "13.4", "13.3", "13.2", "13.1")


def is_kernel(value: object) -> TypeGuard[TileKernel]:
    """Returns whether a value is a kernel of cuTile Python."""
    return hasattr(value, "_annotated_function") and hasattr(value, "_compiler_options")


def describe_mismatch(value: object) -> str:
    """Returns a message that states why a value is not a kernel that this package accepts."""
    kind = type(value)
    if kind.__module__.split(".")[:2] == ["cuda", "tile"]:
        return (f"the installed cuda-tile {version('cuda-tile')} keeps its kernels in another way than cuda-tile 1.7, with which this package is "
                f"tested; install cuda-tile 1.7, or pass bytecode")
    return f"a kernel is one of cuTile Python, bytecode, or a path, not {kind.__name__}"


def python_function(kernel: TileKernel) -> Function:
    """Returns the Python function to which `@ct.kernel` was applied."""
    return kernel._annotated_function.pyfunc


def kernel_name(kernel: TileKernel) -> str:
    """Returns the name of the Python function of a kernel."""
    return python_function(kernel).__name__


def parameter_names(kernel: TileKernel) -> list[str]:
    """Returns the names of the kernel's parameters."""
    return list(kernel._annotated_function.pysig.parameters)


def constant_flags(kernel: TileKernel) -> list[bool]:
    """Returns for each parameter whether it is a `ct.Constant`: a compile-time value that a launch does not pass."""
    return [getattr(parameter, "constant", False) for parameter in kernel._annotated_function.parameter_annotations]


def parameter_annotations(kernel: TileKernel) -> list[Any]:
    """Returns cuTile's annotations of the parameters. For a parameter without annotation, the attributes `scalar` and `array` are None."""
    return list(kernel._annotated_function.parameter_annotations)


def with_defaults(kernel: TileKernel, arguments: Arguments) -> list[Any]:
    """Returns the arguments, followed by the default values of the omitted parameters."""
    bound = kernel._annotated_function.pysig.bind(*arguments)
    bound.apply_defaults()
    return list(bound.args)


def export_bytecode(kernel: TileKernel, arguments: Arguments, target: str) -> bytes:
    """Returns the kernel as bytecode, with the assumptions about alignment, divisibility and aliases that cuTile makes for these arguments."""
    from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

    arguments, annotated = with_defaults(kernel, arguments), parameter_annotations(kernel)
    runtime_arguments = [None if constant else argument for argument, constant in zip(arguments, constant_flags(kernel))]
    parameters = [argument if constant else _parameter_constraint(argument, annotation, group, alignment) for argument, constant, annotation, group,
                  alignment in zip(arguments, constant_flags(kernel), annotated, _alias_groups(runtime_arguments), _alignments(runtime_arguments))]
    # Kernels with constant extents need version 2 of cuTile's calling convention. Other kernels keep version 1, so that their names,
    # which encode the convention, do not change.
    has_constant_extents = any(_array_annotation(annotation, "static_shape_dims", ()) for annotation in annotated)
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v2() if has_constant_extents else CallingConvention.cutile_python_v1())
    for bytecode_version in BYTECODE_VERSIONS:
        out = io.BytesIO()
        try:
            export_kernel(kernel, [signature], out, gpu_code=target, output_format="tileir_bytecode", bytecode_version=bytecode_version)
        except ValueError as error:
            # If the installed cuTile does not support this bytecode version, try the next version. Any other ValueError is about the kernel.
            if bytecode_version == BYTECODE_VERSIONS[-1] or f"Unsupported bytecode version '{bytecode_version}'" not in str(error):
                raise
            continue
        return out.getvalue()
    raise AssertionError("the loop ends by returning or raising")


def _alias_groups(arguments: Sequence[Argument | None]) -> list[list[str]]:
    """Returns the alias group of each argument. Arrays that overlap, directly or through other arrays, share a group."""
    arrays = {index: argument for index, argument in enumerate(arguments) if isinstance(argument, np.ndarray)}
    group = overlap_groups(list(arrays.values()))
    names = {index: [f"memory{number}"] if group.count(number) > 1 else [] for index, number in zip(arrays, group)}
    return [names.get(index, []) for index in range(len(arguments))]


def _alignments(arguments: Sequence[Argument | None]) -> list[int]:
    """Returns for each argument a power of two, at most 16 bytes, that divides its address. Each buffer starts at a multiple of 16 bytes. An
    array is at the start of its buffer, or at an offset in the buffer that it shares with overlapping arrays."""
    arrays = {index: argument for index, argument in enumerate(arguments) if isinstance(argument, np.ndarray)}
    offset = dict(zip(arrays, group_offsets(list(arrays.values()))))
    return [math.gcd(offset.get(index, 0), 16) for index in range(len(arguments))]


def _array_annotation(annotation: Any, field: str, otherwise: Any) -> Any:
    """Returns a field of the `ct.ArrayAnnotation` of a parameter, or `otherwise` without such an annotation."""
    return getattr(getattr(annotation, "array", None), field, otherwise)


def index_type(annotation: Any) -> str:
    """Returns the type of an array's extents and strides in launch descriptions: `i64` if the annotation requests it, and else `i32`."""
    import cuda.tile as ct

    return "i64" if _array_annotation(annotation, "index_dtype", None) == ct.int64 else "i32"


def _cutile_dtype(dtype: np.dtype[Any]) -> Any:
    """Returns the cuTile type for a numpy type."""
    import cuda.tile as ct

    name = {"bool": "bool_"}.get(dtype.name, dtype.name)
    if not hasattr(ct, name):
        raise TypeError(f"cuTile has no type for numpy's {dtype.name}")
    return getattr(ct, name)


def _parameter_constraint(argument: Any, annotation: Any, groups: list[str], alignment: int) -> Any:
    """Returns the constraint object with cuTile's assumptions about a parameter: the types, constants and divisors that its argument and its
    annotation imply."""
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint, ScalarConstraint

    if not isinstance(argument, np.ndarray):
        return ScalarConstraint(_cutile_dtype(to_scalar(argument, annotation).dtype))
    elements_per_16_bytes = max(1, 16 // argument.itemsize)
    strides = [stride // argument.itemsize for stride in argument.strides]

    def divisor(number: int) -> int:
        return elements_per_16_bytes if number % elements_per_16_bytes == 0 else 1

    def dims(field: str) -> set[int]:
        return {axis % argument.ndim for axis in _array_annotation(annotation, field, ()) if -argument.ndim <= axis < argument.ndim}

    fixed, contiguous = dims("static_shape_dims"), _array_annotation(annotation, "static_stride_dims", ())
    # An annotation lists the dimensions with constant strides. Without an annotation, cuTile treats strides of 1 as constants.
    constant_strides = dims("static_stride_dims") if contiguous else {axis for axis, stride in enumerate(strides) if stride == 1}
    has_int64_index = index_type(annotation) == "i64"
    if not has_int64_index and any(number >= 2**31 for number in (*argument.shape, *strides)):
        raise OverflowError("an extent or a stride of the array does not fit int32; annotate the kernel parameter with ct.IndexedWithInt64")
    return ArrayConstraint(
        _cutile_dtype(argument.dtype), argument.ndim, index_dtype=ct.int64 if has_int64_index else ct.int32, stride_lower_bound_incl=0, alias_groups=groups,
        may_alias_internally=False, stride_constant=[stride if axis in constant_strides else None for axis, stride in enumerate(strides)],
        shape_constant=[extent if axis in fixed else None for axis, extent in enumerate(argument.shape)],
        stride_divisible_by=[1 if axis in constant_strides else divisor(stride) for axis, stride in enumerate(strides)],
        shape_divisible_by=[1 if axis in fixed else divisor(extent) for axis, extent in enumerate(argument.shape)], base_addr_divisible_by=alignment)


def to_scalar(argument: Argument, annotation: Any = None) -> np.generic:
    """Converts a number to the type that cuTile uses for it. An integer has 32 bits unless its parameter is a `ct.ScalarInt64`."""
    if (annotated := getattr(annotation, "scalar", None)) is not None and isinstance(argument, (int, np.integer)):
        bits = annotated.dtype.bitwidth
        if not -2**(bits - 1) <= int(argument) < 2**(bits - 1):
            raise OverflowError(f"the integer {argument} does not fit the parameter's int{bits}")
        wide_integer: np.generic = np.int64(argument) if bits == 64 else np.int32(argument)
        return wide_integer
    if isinstance(argument, np.generic):
        return argument
    if isinstance(argument, bool):
        return np.bool_(argument)
    if isinstance(argument, int):
        if not -2**31 <= argument < 2**31:
            raise OverflowError(f"the integer {argument} does not fit int32; annotate the kernel parameter with ct.ScalarInt64")
        integer: np.generic = np.int32(argument)
        return integer
    if isinstance(argument, float):
        single: np.generic = np.float32(argument)
        return single
    raise TypeError(f"a kernel takes arrays and numbers, not {type(argument).__name__}")
