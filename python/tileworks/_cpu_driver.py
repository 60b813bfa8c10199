"""Loads the CPU device into this process: a library `libcuda.so.1` that replaces the CUDA driver and executes kernels on the CPU."""
from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._errors import TileworksError
from ._tools import tool

#: The environment variables that select the properties of the CPU device, by the names of the options that set them.
OPTION_VARIABLES = {"device": "TILEWORKS_DEVICE", "stage": "TILEWORKS_STAGE", "check": "TILEWORKS_CHECK", "time_limit": "TILEWORKS_TIME_LIMIT"}
STAGES = ("tile", "aa", "as", "sched", "ptx")
CHECKS = ("off", "warn", "error")


def library_path() -> Path:
    """Returns the path of the CPU device's library: from `TILEWORKS_LIBCUDA`, from this package, or from the tools' folder."""
    if library := os.environ.get("TILEWORKS_LIBCUDA"):
        return Path(library)
    package, tools = Path(__file__).parent, Path(tool("tileiras")).resolve().parent
    for candidate in (package / "libcuda.so.1", tools / "libcuda.so.1", tools / "libcuda.so"):
        if candidate.exists():
            return candidate
    raise TileworksError([], "the CPU device's libcuda is neither in this package nor in the tools' folder; set TILEWORKS_LIBCUDA")


@functools.cache
def load_library() -> ctypes.PyDLL:
    """Loads the library of the CPU device. If a client later loads `libcuda.so.1`, the dynamic linker returns this library, because it has
    that name.

    Calls through `PyDLL` do not release Python's global interpreter lock. A launch of cuTile makes several calls, and relies on the lock
    between them.
    """
    loaded = ctypes.PyDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
    loaded.tileworksAllowHostMemory.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int]
    for name in ("cuStreamDestroy_v2", "cuEventDestroy_v2", "cuEventSynchronize", "cuStreamSynchronize"):
        getattr(loaded, name).argtypes = [ctypes.c_void_p]
    for name in ("cuEventRecord", "cuStreamWaitEvent"):
        getattr(loaded, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_uint] * (name == "cuStreamWaitEvent")
    loaded.cuEventElapsedTime.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return loaded


def raise_on_error(code: int) -> None:
    """Raises an exception if a result code of the driver is not zero."""
    if code:
        text = ctypes.c_char_p()
        load_library().cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"CUDA error {code}: {(text.value or b'').decode(errors='replace')}")


@functools.cache
def initialized_library() -> ctypes.PyDLL:
    """Loads and initialises the CPU device's library, and returns it. The functions of this module call this function at their first use,
    because torch too initialises CUDA at the first use."""
    loaded = load_library()
    raise_on_error(loaded.cuInit(0))
    return loaded


def device_attribute(number: int) -> int:
    """Returns an attribute of the CPU device. `number` is a `CUdevice_attribute` of the CUDA driver API."""
    value = ctypes.c_int()
    raise_on_error(initialized_library().cuDeviceGetAttribute(ctypes.byref(value), number, 0))
    return value.value


def device_name() -> str:
    """Returns the name of the CPU device: the name of the imitated GPU."""
    name = ctypes.create_string_buffer(256)
    raise_on_error(initialized_library().cuDeviceGetName(name, 256, 0))
    return name.value.decode()


def memory_info() -> tuple[int, int]:
    """Returns the free and the total bytes of the CPU device's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    raise_on_error(initialized_library().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def allow_host_memory(address: int, size: int, name: str, read_only: bool = False) -> None:
    """Lets the next launch of this thread access `size` bytes of host memory at an address. Messages call this memory `name`."""
    if size:
        raise_on_error(initialized_library().tileworksAllowHostMemory(address, size, name.encode(errors="replace"), int(read_only)))


def forget_host_memory() -> None:
    """Withdraws the permissions of `allow_host_memory` that no launch of this thread has used."""
    load_library().tileworksForgetHostMemory()


_FINDER_CALLBACK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64))
#: The callback that the library calls to find host memory. This reference keeps the callback alive.
_finder_callback: Any = None


def set_host_memory_finder(find: Callable[[int], tuple[int, int] | None] | None) -> None:
    """Sets the function that finds the memory behind a pointer parameter. `find` returns the start and the bytes of the memory of this
    process that contains an address, or None. Clients that launch without `ct.launch` pass such pointers."""
    global _finder_callback

    def call(address: int, start: Any, size: Any) -> int:
        memory = find(address) if find is not None else None
        if memory is None:
            return 0
        start[0], size[0] = memory
        return 1

    _finder_callback = _FINDER_CALLBACK_TYPE(call) if find is not None else None
    raise_on_error(load_library().tileworksSetHostMemoryFinder(_finder_callback))
