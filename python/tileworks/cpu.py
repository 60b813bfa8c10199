"""Runs programs for a GPU on the CPU device: `ct.launch` takes torch CPU tensors and numpy arrays, and torch's device "cuda" is CPU memory.

    with tileworks.cpu.device("sm_90"):
        ct.launch(0, (16,), kernel, (x, y))

`tileworks.cpu.device` is also a decorator, and this module is a plugin of pytest: `pytest -p tileworks.cpu`. The command `tileworks run`
does the same for a process and its children.
"""
from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _cpu_arrays, _cpu_driver, _cpu_torch
from ._tools import tool

__all__ = ["device"]

#: The environment variable that `tileworks run` sets for its command and the children. In their Python processes, `sitecustomize` patches
#: cuTile and torch.
ACTIVE_VARIABLE = "TILEWORKS_CPU"


def environment(*, device: str, stage: str, check: str, time_limit: float | None = None) -> dict[str, str]:
    """Returns the variables that select the CPU device for a process and its children."""
    if stage not in _cpu_driver.STAGES:
        raise ValueError(f"the stage is one of {', '.join(_cpu_driver.STAGES)}, not {stage!r}")
    if check not in _cpu_driver.CHECKS:
        raise ValueError(f"the check is one of {', '.join(_cpu_driver.CHECKS)}, not {check!r}")
    tools = Path(tool("tileiras")).parent
    variables = {"TILEWORKS_DEVICE": device, "TILEWORKS_STAGE": stage, "TILEWORKS_CHECK": check,
                 # With this option, the compiler writes a module with the program that the CPU device executes, and needs no ptxas.
                 "TILEWORKS_OPTIONS": f"{os.environ.get('TILEWORKS_OPTIONS', '')} --emit=cpu-module --cpu-stage={stage}".strip(),
                 "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}", "TILEWORKS_TOOLS": str(tools)}
    if time_limit is not None:
        variables["TILEWORKS_TIME_LIMIT"] = str(time_limit)
    return variables


class device(contextlib.ContextDecorator):
    """Uses the CPU device inside a `with` statement or a function.

    A process has one device. Later uses in this process must have the same name and options, except `torch`.

    Args:
        name: The GPU to imitate: a target such as `sm_90`, or a chip such as `h200`.
        stage: The stage to execute: `tile` (the program as written), `aa`, `as`, `sched` or `ptx`.
        check: `warn` reports races, missing tokens, uninitialised reads and violated assumptions; `error` makes them errors.
        torch: Whether torch's device "cuda" is CPU memory.
        time_limit: Limit of a launch in seconds.
    """

    _device_of_process: device | None = None

    def __init__(self, name: str = "sm_90", *, stage: str = "tile", check: str = "off", torch: bool = True,
                 time_limit: float | None = None):
        self._options: dict[str, Any] = {"device": name, "stage": stage, "check": check, "time_limit": time_limit}
        self._torch = torch
        self._depth = 0
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> device:
        if self._depth == 0 and not os.environ.get(ACTIVE_VARIABLE):
            self._start()
        self._depth += 1
        return self

    def __exit__(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            for undo in reversed(self._undo):
                undo()
            self._undo.clear()

    def _start(self) -> None:
        used = device._device_of_process
        if used is not None and used._options != self._options:
            raise ValueError(f"this process already uses the CPU device with {used._options}")
        if used is None:
            os.environ.update(environment(**self._options))
            _cpu_driver.initialized_library()
            device._device_of_process = self
        self._undo.append(_on_import("cuda.tile", _patch_cutile))
        if self._torch:
            self._undo.append(_on_import("torch", _patch_torch))


def _patch_torch(torch: Any) -> Callable[[], None]:
    """Maps torch's device "cuda" to the CPU. Returns a function that undoes the patch."""
    changed = _cpu_torch.install(torch)
    return lambda: _cpu_torch.uninstall(changed)


def _patch_cutile(ct: Any) -> Callable[[], None]:
    """Patches the functions of cuTile that take arrays, and cuTile's search for the compiler. Returns a function that undoes the patches."""
    from cuda.tile import _cext, _compile

    _cpu_arrays.patch_torch_export()
    changed: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        changed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def with_replaced_arrays(function: Callable[..., Any], position: int) -> Callable[..., Any]:
        @functools.wraps(function, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            _cpu_arrays.patch_torch_export()
            # An earlier call that failed before its launch may have left permissions for memory that no longer exists.
            _cpu_driver.forget_host_memory()
            args = tuple(_cpu_arrays.replace_arrays(argument) if at == position else argument for at, argument in enumerate(args))
            return function(*args, **kwargs)
        return call

    launch = with_replaced_arrays(_cext.launch, 3)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("cuda.tile") and getattr(module, "launch", None) is _cext.launch and module is not _cext:
            replace(module, "launch", launch)
    replace(_cext, "launch", launch)
    for name, position in (("_benchmark", 3), ("_export_ipc_benchmark_payload", 3), ("get_parameter_constraints_from_pyargs", 1)):
        if hasattr(_cext, name):
            original, new = getattr(_cext, name), with_replaced_arrays(getattr(_cext, name), position)
            for module in list(sys.modules.values()):
                if getattr(module, "__name__", "").startswith("cuda.tile") and getattr(module, name, None) is original:
                    replace(module, name, new)
    # cuTile prefers NVIDIA's compiler in its environment, whose output has only machine code. Disable the search for it.
    if hasattr(_compile, "_find_pip_tileiras"):
        replace(_compile, "_find_pip_tileiras", lambda: None)
    if hasattr(_compile._find_compiler_bin, "cache_clear"):
        _compile._find_compiler_bin.cache_clear()

    def undo() -> None:
        for owner, name, value in reversed(changed):
            setattr(owner, name, value)
    return undo


class _ImportHook(importlib.abc.MetaPathFinder):
    """Calls a function after Python has imported a module with a given name."""

    def __init__(self, name: str, then: Callable[[Any], None]):
        self._name, self._then, self._busy = name, then, False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self._then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _on_import(name: str, patch: Callable[[Any], Callable[[], None]]) -> Callable[[], None]:
    """Patches the module `name` now if it is already imported, and otherwise after its import. Returns a function that undoes the patch."""
    undo_functions: list[Callable[[], None]] = []
    finder = _ImportHook(name, lambda module: undo_functions.append(patch(module)))
    if name in sys.modules:
        undo_functions.append(patch(sys.modules[name]))
    else:
        sys.meta_path.insert(0, finder)

    def undo() -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(finder)
        for restore in undo_functions:
            restore()
    return undo


def _install() -> None:
    """Patches the modules of a process that `tileworks run` has started."""
    _on_import("cuda.tile", _patch_cutile)
    if os.environ.get("TILEWORKS_TORCH", "on") == "on":
        _on_import("torch", _patch_torch)


# The functions of the pytest plugin, which pytest calls by their names.

def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("tileworks", "CPU device of Tileworks")
    group.addoption("--cpu-device", default="sm_90", metavar="NAME", help="the GPU to imitate: a target or a chip")
    group.addoption("--cpu-stage", default="tile", choices=_cpu_driver.STAGES, help="the stage to execute")
    group.addoption("--cpu-check", default="off", choices=_cpu_driver.CHECKS, help="report races and other faults")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Enters the device before a conftest file can import torch or cuTile."""
    arguments = early_config.known_args_namespace
    device(arguments.cpu_device, stage=arguments.cpu_stage, check=arguments.cpu_check).__enter__()


def pytest_report_header() -> str:
    return f"tileworks: {_cpu_driver.device_name()}, stage {os.environ.get('TILEWORKS_STAGE', 'tile')}"
