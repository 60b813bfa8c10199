"""The C library libtileworks, through ctypes: compilation in this process."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from ._errors import CompileError, Diagnostic, TileworksError
from ._tools import tool

#: The oldest interface of the library that this module supports.
_ABI_VERSION = 1
#: The status of a successful compilation.
_OK = 0


@dataclasses.dataclass(frozen=True)
class LibraryOutput:
    """The result of `compile_in_process`.

    Attributes:
        data: The output: a cubin, or what the option `emit` requests.
        diagnostics: Warnings and notes.
    """
    data: bytes
    diagnostics: tuple[Diagnostic, ...]


def library_path() -> Path:
    """Returns the path of the library: `TILEWORKS_LIBRARY`, beside this package, or in the folder of the tools."""
    if requested := os.environ.get("TILEWORKS_LIBRARY"):
        return Path(requested)
    folder = Path(tool("tileiras")).resolve().parent
    candidates = (Path(__file__).parent / "libtileworks.so.1", folder / "libtileworks.so.1", folder / "libtileworks.so")
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise TileworksError([], "libtileworks is neither in this package nor in the folder of the tools; set TILEWORKS_LIBRARY")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Loads libtileworks and declares the types of its functions."""
    library = ctypes.CDLL(str(library_path()))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures = {
        "abi_version": (ctypes.c_uint32, []),
        "compilation_create": (pointer, [text, size, text]),
        "compilation_destroy": (None, [pointer]),
        "set_option": (ctypes.c_int, [pointer, text, text]),
        "compile": (pointer, [pointer]),
        "result_status": (ctypes.c_int, [pointer]),
        "result_output": (pointer, [pointer, ctypes.POINTER(size)]),
        "result_json": (text, [pointer]),
        "result_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"tileworks_{name}")
        function.restype, function.argtypes = result, arguments
    if library.tileworks_abi_version() < _ABI_VERSION:
        raise TileworksError([], f"{library_path()} is older than this package")
    return library


def compile_in_process(bytecode: bytes, options: Mapping[str, str] | Iterable[tuple[str, str]], *, name: str = "<memory>") -> LibraryOutput:
    """Compiles bytecode, or the text of a program, with libtileworks. Any number of threads can call this function at a time.

    Args:
        bytecode: The program.
        options: Options of `tileiras` without dashes, such as `{"gpu-name": "sm_90", "emit": "ptx"}`. Pairs can repeat a name: a fatbin has
            several `gpu-name`.
        name: The name of the program in diagnostics.

    Raises:
        CompileError: An option is wrong, or a stage rejects the program.
    """
    library = _library()
    pairs = list(options.items() if isinstance(options, Mapping) else options)
    if all(key != "tools" for key, _ in pairs):
        pairs.append(("tools", str(Path(tool("tile-ptx")).parent)))
    compilation = library.tileworks_compilation_create(bytecode, len(bytecode), name.encode())
    try:
        for key, value in pairs:
            library.tileworks_set_option(compilation, key.encode(), value.encode())
        result = library.tileworks_compile(compilation)
    finally:
        library.tileworks_compilation_destroy(compilation)
    try:
        size = ctypes.c_size_t()
        data = ctypes.string_at(library.tileworks_result_output(result, ctypes.byref(size)), size.value)
        messages = library.tileworks_result_json(result).decode()
        diagnostics = [found for line in messages.splitlines() if (found := Diagnostic.read(line)) is not None]
        if library.tileworks_result_status(result) != _OK:
            raise CompileError(diagnostics, messages)
        return LibraryOutput(data, tuple(diagnostics))
    finally:
        library.tileworks_result_destroy(result)
