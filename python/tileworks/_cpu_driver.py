"""Loads the CPU device's `libcuda.so.1`, which replaces the CUDA driver, into this process."""
from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

from ._errors import TileworksError
from ._tools import tool

#: The environment variables that select the properties of the CPU device, by the names of the options that set them.
VARIABLES = {"device": "TILEWORKS_DEVICE", "stage": "TILEWORKS_STAGE", "check": "TILEWORKS_CHECK", "time_limit": "TILEWORKS_TIME_LIMIT"}
STAGES = ("tile", "aa", "as", "sched", "ptx")
CHECKS = ("off", "warn", "error")


def library_path() -> Path:
    """Returns the path of the library: from `TILEWORKS_LIBCUDA`, from this package, or from the tools' folder."""
    if given := os.environ.get("TILEWORKS_LIBCUDA"):
        return Path(given)
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


def initialise() -> None:
    raise_on_error(load_library().cuInit(0))


def device_attribute(number: int) -> int:
    value = ctypes.c_int()
    raise_on_error(load_library().cuDeviceGetAttribute(ctypes.byref(value), number, 0))
    return value.value


def device_name() -> str:
    name = ctypes.create_string_buffer(256)
    raise_on_error(load_library().cuDeviceGetName(name, 256, 0))
    return name.value.decode()


def memory_info() -> tuple[int, int]:
    """Returns the free and the total bytes of the CPU device's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    raise_on_error(load_library().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def allow_host_memory(address: int, size: int, name: str, read_only: bool = False) -> None:
    """Lets the next launch of this thread access `size` bytes of host memory at an address. Messages show them under `name`."""
    if size:
        raise_on_error(load_library().tileworksAllowHostMemory(address, size, name.encode(errors="replace"), int(read_only)))
