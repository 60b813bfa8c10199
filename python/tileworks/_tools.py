"""Finding the project's tools, and running them."""
from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from ._errors import Diagnostic, TileworksError


def tool(name: str) -> str:
    """The path of a tool: in the folder `TILEWORKS_TOOLS`, beside this Python, or on PATH."""
    folders = [os.environ.get("TILEWORKS_TOOLS"), sysconfig.get_path("scripts")]
    for folder in filter(None, folders):
        if os.access(path := Path(folder) / name, os.X_OK):
            return str(path)
    if path := shutil.which(name):
        return path
    raise TileworksError([], f"{name} is neither in TILEWORKS_TOOLS, nor beside this Python, nor on PATH")


def run(name: str, *words: object, fails: type[TileworksError], cwd: str | None = None, input: bytes | None = None) -> tuple[bytes, list[Diagnostic]]:
    """Runs a tool. Gives its standard output and what it said; raises `fails` when it failed."""
    command = [tool(name), "--error-format=json", *map(str, words)]
    ended = subprocess.run(command, input=input, stdin=subprocess.DEVNULL if input is None else None, capture_output=True, cwd=cwd)
    lines = ended.stderr.decode(errors="replace").splitlines()
    said = [one for one in map(Diagnostic.read, lines) if one]
    if ended.returncode != 0:
        raise fails(said, "\n".join(lines) or f"{name} ended with {ended.returncode}", ended.stdout.decode(errors="replace"))
    return ended.stdout, said


def version() -> str:
    """The version of the tools."""
    return subprocess.run([tool("tile-read"), "--version"], capture_output=True, check=True, text=True).stdout.split()[-1]
