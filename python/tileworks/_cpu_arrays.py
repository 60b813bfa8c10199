"""Passes arrays in CPU memory to cuTile, which accepts arrays of a GPU."""
from __future__ import annotations

import ctypes
import dataclasses
import sys
from typing import Any

import numpy as np

from . import _cpu_driver
from ._arrays import span

#: Device types and type codes of DLPack.
_CPU, _CUDA = 1, 2
_CODES = {"bool": (6, 8), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "float8_e8m0fnu": (14, 8)}
#: Offsets in the DLPack structure: device type, type code, bits of the type.
_DEVICE, _CODE, _BITS = 8, 20, 21

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def as_cuda(capsule: Any, dtype: str | None = None) -> Any:
    """Changes the device in a DLPack capsule from CPU to CUDA, and the element type to one that its producer does not know."""
    start = _pointer(capsule, b"dltensor")
    device = ctypes.c_int32.from_address(start + _DEVICE)
    if device.value == _CPU:
        device.value = _CUDA
    if dtype in _CODES:
        ctypes.c_uint8.from_address(start + _CODE).value, ctypes.c_uint8.from_address(start + _BITS).value = _CODES[dtype]
    return capsule


class Array:
    """A numpy array as cuTile sees it."""

    def __init__(self, array: np.ndarray):
        if any(stride < 0 for stride in array.strides):
            raise ValueError("an array with a negative stride cannot be passed to a kernel; copy it first")
        self._array = array

    def __dlpack__(self, **_: Any) -> Any:
        array = self._array
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start, end = span(owner)
        _cpu_driver.allow(start, end - start, f"{array.dtype}{list(array.shape)}", not array.flags.writeable)
        return as_cuda(_Alias(array).capsule(), array.dtype.name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, 0)


class _Alias:
    """The memory of an array, with a type that numpy can export."""

    def __init__(self, array: np.ndarray):
        kind = "u" if array.dtype.name in _CODES else array.dtype.kind
        self._array = array
        self.__array_interface__ = {"version": 3, "shape": array.shape, "strides": array.strides, "typestr": f"<{kind}{array.itemsize}",
                                    "data": (array.__array_interface__["data"][0], False)}

    def capsule(self) -> Any:
        return np.asarray(self).__dlpack__()


def adapt(value: Any) -> Any:
    """Replaces numpy arrays in an argument, also in tuples, lists and dataclasses."""
    if isinstance(value, np.ndarray):
        return Array(value)
    if type(value) is tuple or type(value) is list:
        new = [adapt(one) for one in value]
        return type(value)(new) if any(a is not b for a, b in zip(new, value)) else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(adapt, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {name: new for name, one in fields.items() if (new := adapt(one)) is not one}
        return dataclasses.replace(value, **changed) if changed else value
    return value


def patch_torch_export() -> None:
    """Makes torch's CPU tensors acceptable to cuTile. cuTile keeps the function that it finds at its first launch."""
    torch = sys.modules.get("torch")
    if torch is None or hasattr(torch._C, "_tileworks_to_dlpack"):
        return
    original = torch._C._tileworks_to_dlpack = torch._C._to_dlpack

    def to_dlpack(tensor: Any) -> Any:
        if tensor.device.type != "cpu":
            return original(tensor)
        storage = tensor.untyped_storage()
        _cpu_driver.allow(storage.data_ptr(), storage.nbytes(), f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}")
        # The capsule describes the elements; a kernel ignores gradients.
        return as_cuda(original(tensor.detach() if tensor.requires_grad else tensor))

    torch._C._to_dlpack = to_dlpack
