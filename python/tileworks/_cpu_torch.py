"""Maps torch's device "cuda" to the CPU, for programs that run on the CPU device. If a program creates a tensor on the GPU, torch returns a
CPU tensor. Streams and events of torch become streams and events of the CPU device."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import _cpu_driver

#: Numbers of device attributes in the CUDA driver API (values of `CUdevice_attribute`).
_THREADS, _SHARED, _WARP, _CLOCK, _SMS, _BUS, _L2, _SM_THREADS, _MAJOR, _MINOR, _SM_SHARED, _REGISTERS, _OPTIN = (
    1, 8, 10, 13, 16, 37, 38, 39, 75, 76, 81, 82, 97)


def _is_cuda(device: Any) -> bool:
    """Returns whether torch's argument `device` selects a GPU: a device number, or "cuda" with or without a number."""
    return (isinstance(device, int) and not isinstance(device, bool)) or str(device).split(":")[0] == "cuda"


def _with_cpu_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function with the keyword `device`, so that it creates CPU tensors for a GPU device."""
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None and _is_cuda(kwargs["device"]):
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return function(*args, **kwargs)
    return wrapped


def _with_cpu_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Tensor.to` or `Module.to`, so that a GPU device becomes the CPU. The device can be a positional argument of these methods."""
    @functools.wraps(function)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        args = tuple("cpu" if isinstance(one, (str, torch.device)) and _is_cuda(one) else one for one in args)
        if kwargs.get("device") is not None and _is_cuda(kwargs["device"]):
            kwargs["device"] = "cpu"
        return function(self, *args, **kwargs)
    return wrapped


class Stream:
    """A stream of the CPU device, in place of `torch.cuda.Stream`. A call that adds work to a stream returns when the work is complete."""

    def __init__(self, device: Any = None, priority: int = 0, *, _handle: int | None = None, **_: Any):
        self._owned = _handle is None
        if _handle is None:
            handle = ctypes.c_void_p()
            _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuStreamCreateWithPriority(ctypes.byref(handle), 1, priority))
            _handle = handle.value or 0
        self.cuda_stream = self.stream_id = _handle
        self.device_index, self.device_type, self.priority = 0, 1, priority

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            _cpu_driver.initialized_library().cuStreamDestroy_v2(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def synchronize(self) -> None:
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuStreamSynchronize(self.cuda_stream))

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Stream) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        _stream_stack.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _stream_stack.pop()


class ExternalStream(Stream):
    """A stream that the program created with the CUDA driver API."""

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any):
        super().__init__(_handle=stream_ptr)


class Event:
    """An event of the CPU device, in place of `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        handle = ctypes.c_void_p()
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuEventCreate(ctypes.byref(handle), 0 if enable_timing else 2))
        self.cuda_event = handle.value or 0

    def __del__(self) -> None:
        if getattr(self, "cuda_event", 0):
            _cpu_driver.initialized_library().cuEventDestroy_v2(self.cuda_event)

    def record(self, stream: Stream | None = None) -> None:
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuEventRecord(self.cuda_event, (stream or current_stream()).cuda_stream))

    def wait(self, stream: Stream | None = None) -> None:
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuStreamWaitEvent((stream or current_stream()).cuda_stream, self.cuda_event, 0))

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuEventSynchronize(self.cuda_event))

    def elapsed_time(self, end: Event) -> float:
        milliseconds = ctypes.c_float()
        _cpu_driver.raise_on_error(_cpu_driver.initialized_library().cuEventElapsedTime(ctypes.byref(milliseconds), self.cuda_event, end.cuda_event))
        return milliseconds.value


class _RejectedGraph:
    """Rejects CUDA graphs. Reason: a graph also records operations of torch, which do not reach the CPU device."""

    def __init__(self, *_: Any, **__: Any):
        raise NotImplementedError("torch.cuda.CUDAGraph is not supported on the CPU device: it would replay kernels, but not torch's operations")


_default_stream = Stream(_handle=0)
_stream_stack: list[Stream] = []


def current_stream(device: Any = None) -> Stream:
    """Returns the stream of the innermost `with` block, or the default stream."""
    return _stream_stack[-1] if _stream_stack else _default_stream


def _set_stream(stream: Stream) -> None:
    """Replaces the current stream. The end of a `with` block restores the stream from before the block."""
    _stream_stack[-1:] = [stream]


@contextlib.contextmanager
def _stream_context(stream: Stream | None) -> Iterator[None]:
    with stream if stream is not None else contextlib.nullcontext():
        yield


def _device_properties(device: Any = None) -> types.SimpleNamespace:
    """Returns the properties of the CPU device, in place of `torch.cuda.get_device_properties`."""
    attribute = _cpu_driver.device_attribute
    return types.SimpleNamespace(
        name=_cpu_driver.device_name(), major=attribute(_MAJOR), minor=attribute(_MINOR), total_memory=_cpu_driver.memory_info()[1],
        multi_processor_count=attribute(_SMS), warp_size=attribute(_WARP), L2_cache_size=attribute(_L2), shared_memory_per_block=attribute(_SHARED),
        shared_memory_per_block_optin=attribute(_OPTIN), shared_memory_per_multiprocessor=attribute(_SM_SHARED), clock_rate=attribute(_CLOCK),
        regs_per_multiprocessor=attribute(_REGISTERS), max_threads_per_multi_processor=attribute(_SM_THREADS), memory_bus_width=attribute(_BUS),
        max_threads_per_block=attribute(_THREADS), is_integrated=0, is_multi_gpu_board=0)


def _replacements(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields each replacement: the object whose attribute is replaced, the name of the attribute, and the new value."""
    from torch.utils._device import _device_constructors

    constructor_ids = {id(one) for one in _device_constructors()}
    for owner in (torch, torch.fft, torch.signal.windows):
        for name in dir(owner):
            value = getattr(owner, name, None)
            if callable(value) and id(value) in constructor_ids:
                yield owner, name, _with_cpu_device(value)
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
        yield torch, name, _with_cpu_device(getattr(torch, name))
    from torch import testing

    yield testing, "make_tensor", _with_cpu_device(testing.make_tensor)
    # On the CPU, these functions have no version with `out_dtype`.
    for name in ("mm", "bmm"):
        yield torch, name, _with_output_type(getattr(torch, name))
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor"):
        yield torch.Tensor, name, _with_cpu_device(getattr(torch.Tensor, name))
    yield torch.Tensor, "to", _with_cpu_target(torch.Tensor.to)
    yield torch.Tensor, "cuda", lambda self, *_, **__: self
    # Clients check with this attribute that a tensor is on the GPU. The CPU device can access every tensor.
    yield torch.Tensor, "is_cuda", property(lambda self: True)
    yield torch.Tensor, "pin_memory", lambda self, *_, **__: self
    yield torch.nn.Module, "to", _with_cpu_target(torch.nn.Module.to)
    yield torch.nn.Module, "cuda", lambda self, *_, **__: self
    yield torch, "Generator", _cpu_generator(torch.Generator)

    nothing = lambda *_, **__: None  # noqa: E731
    zero = lambda *_, **__: 0  # noqa: E731

    def seed(number: int) -> None:
        # Tensors of the CPU device use the default CPU generator. `torch.manual_seed` would call this function again.
        torch.default_generator.manual_seed(int(number))

    cuda = {
        "Stream": Stream, "ExternalStream": ExternalStream, "Event": Event, "CUDAGraph": _RejectedGraph, "graph": _RejectedGraph, "stream": _stream_context,
        "current_stream": current_stream, "default_stream": lambda device=None: _default_stream, "set_stream": _set_stream,
        "is_available": lambda: True, "is_initialized": lambda: True, "init": nothing, "device_count": lambda: 1, "current_device": zero,
        "set_device": nothing, "synchronize": nothing, "empty_cache": nothing, "device": lambda device=None: contextlib.nullcontext(),
        "device_of": lambda tensor=None: contextlib.nullcontext(), "get_device_properties": _device_properties,
        "get_device_capability": lambda device=None: (_cpu_driver.device_attribute(_MAJOR), _cpu_driver.device_attribute(_MINOR)),
        "get_device_name": lambda device=None: _cpu_driver.device_name(), "mem_get_info": lambda device=None: _cpu_driver.memory_info(),
        "manual_seed": seed, "manual_seed_all": seed, "seed": torch.seed, "seed_all": torch.seed,
        "initial_seed": torch.initial_seed, "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda new_state, device="cuda": torch.set_rng_state(new_state), "memory_allocated": zero, "max_memory_allocated": zero,
        "memory_reserved": zero, "max_memory_reserved": zero, "reset_peak_memory_stats": nothing, "is_bf16_supported": lambda *_, **__: True,
        "is_current_stream_capturing": lambda: False, "ipc_collect": nothing,
        "_sleep": nothing, "memory_stats": lambda device=None: collections.defaultdict(int),
    }
    for name, value in cuda.items():
        yield torch.cuda, name, value


def _with_output_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a matmul function, so that it accepts `out_dtype`. The matmul is computed in the output type, which is at least as wide as the
    type of the operands."""
    @functools.wraps(function)
    def wrapped(*args: Any, out_dtype: Any = None, **kwargs: Any) -> Any:
        if out_dtype is not None:
            args = tuple(one.to(out_dtype) for one in args)
        return function(*args, **kwargs)
    return wrapped


def _find_storage(torch: Any, address: int) -> tuple[int, int] | None:
    """Returns the start address and the size in bytes of the CPU storage that contains an address, or None. Searches all tensors of this
    process."""
    for one in gc.get_objects():
        # Use `issubclass`, because `isinstance` may run code of a proxy object.
        if issubclass(type(one), torch.Tensor):
            with contextlib.suppress(RuntimeError, NotImplementedError):
                storage = one.untyped_storage()
                if 0 <= address - storage.data_ptr() < storage.nbytes() and one.device.type == "cpu":
                    return storage.data_ptr(), storage.nbytes()
    return None


def _cpu_generator(original: type) -> type:
    """Returns a subclass of torch's class `Generator` that creates CPU generators for GPU devices."""
    class Generator(original):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return original("cpu" if _is_cuda(device) else device)
    return Generator


def install(torch: Any) -> list[tuple[Any, str, Any]]:
    """Replaces the functions of torch that create or move tensors, and `torch.cuda`. Returns the previous values, for `uninstall`."""
    previous_values = []
    for owner, name, value in list(_replacements(torch)):
        previous_values.append((owner, name, getattr(owner, name, None)))
        setattr(owner, name, value)
    _cpu_driver.set_host_memory_finder(functools.partial(_find_storage, torch))
    return previous_values


def uninstall(previous_values: list[tuple[Any, str, Any]]) -> None:
    """Restores the values that `install` replaced."""
    _cpu_driver.set_host_memory_finder(None)
    for owner, name, value in reversed(previous_values):
        setattr(owner, name, value)
