"""Passes arrays in CPU memory to cuTile, which accepts only arrays in GPU memory."""
from __future__ import annotations

import ctypes
import dataclasses
import sys
from typing import Any

import numpy as np

from . import _cpu_driver
from ._arrays import byte_range

#: Device types of DLPack (`kDLCPU`, `kDLCUDA`).
_CPU, _CUDA = 1, 2
#: For each element type that numpy does not export: its type code and its number of bits in DLPack.
_TYPE_CODES = {"bool": (6, 8), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "float8_e8m0fnu": (14, 8)}
#: Offsets in bytes of fields of the C structure `DLTensor` of DLPack: device type, type code, number of bits of the element type.
_DEVICE_OFFSET, _CODE_OFFSET, _BITS_OFFSET = 8, 20, 21

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def set_cuda_device(capsule: Any, dtype: str | None = None) -> Any:
    """Changes the device in a DLPack capsule from CPU to CUDA, and returns the capsule. If numpy cannot export `dtype`, also sets the element
    type to `dtype`."""
    start = _capsule_pointer(capsule, b"dltensor")
    device = ctypes.c_int32.from_address(start + _DEVICE_OFFSET)
    if device.value == _CPU:
        device.value = _CUDA
    if dtype in _TYPE_CODES:
        ctypes.c_uint8.from_address(start + _CODE_OFFSET).value, ctypes.c_uint8.from_address(start + _BITS_OFFSET).value = _TYPE_CODES[dtype]
    return capsule


class CudaArray:
    """Presents a numpy array to cuTile as an array in GPU memory."""

    def __init__(self, array: np.ndarray):
        if any(stride < 0 for stride in array.strides):
            raise ValueError("an array with a negative stride cannot be passed to a kernel; copy it first")
        self._array = array

    def __dlpack__(self, **_: Any) -> Any:
        array = self._array
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start, end = byte_range(owner)
        _cpu_driver.allow_host_memory(start, end - start, f"{array.dtype}{list(array.shape)}", not array.flags.writeable)
        return set_cuda_device(_ExportableArray(array).capsule(), array.dtype.name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, 0)


class _ExportableArray:
    """A view of an array's memory whose element type numpy can export. Unsigned integers of equal size replace types that numpy does not
    export."""

    def __init__(self, array: np.ndarray):
        kind = "u" if array.dtype.name in _TYPE_CODES else array.dtype.kind
        self._array = array
        self.__array_interface__ = {"version": 3, "shape": array.shape, "strides": array.strides, "typestr": f"<{kind}{array.itemsize}",
                                    "data": (array.__array_interface__["data"][0], False)}

    def capsule(self) -> Any:
        return np.asarray(self).__dlpack__()


def replace_arrays(value: Any) -> Any:
    """Replaces the numpy arrays in an argument of a launch by `CudaArray`, also in tuples, lists and dataclasses."""
    if isinstance(value, np.ndarray):
        return CudaArray(value)
    if type(value) is tuple or type(value) is list:
        new = [replace_arrays(item) for item in value]
        return type(value)(new) if any(a is not b for a, b in zip(new, value)) else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(replace_arrays, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {name: new for name, old in fields.items() if (new := replace_arrays(old)) is not old}
        return dataclasses.replace(value, **changed) if changed else value
    return value


def patch_torch_export() -> None:
    """Patches the DLPack export of torch, so that cuTile accepts CPU tensors. Call this function before the first launch, because the first
    launch looks up the export function, and later launches reuse it."""
    torch = sys.modules.get("torch")
    if torch is None or hasattr(torch._C, "_tileworks_to_dlpack"):
        return
    original = torch._C._tileworks_to_dlpack = torch._C._to_dlpack

    def to_dlpack(tensor: Any) -> Any:
        if tensor.device.type != "cpu":
            return original(tensor)
        storage = tensor.untyped_storage()
        _cpu_driver.allow_host_memory(storage.data_ptr(), storage.nbytes(), f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}")
        # torch exports no tensor that requires gradients. A kernel ignores gradients, so export the detached tensor.
        return set_cuda_device(original(tensor.detach() if tensor.requires_grad else tensor))

    torch._C._to_dlpack = to_dlpack
