"""Predicts times of kernels on the machines of a Dask cluster, for `tileworks.tune`."""
from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._errors import CompileError, RunError, TileworksError
from ._launch import LaunchDescription
from ._program import Program
from ._tools import check_exit_code, limit_options, tool
from ._types import Arguments, Grid, Kernel


def execute(names: list[str], contents: list[bytes], commands: Sequence[Sequence[str]]) -> list[tuple[int, bytes, bytes]]:
    """Runs commands on a worker, up to the first failure. The commands run in a temporary folder that contains files of the given names and
    contents. Returns exit code, standard output and standard error of each executed command. If the worker has no tool at the path of the
    client, the function searches PATH."""
    import os
    import shutil
    import subprocess
    import tempfile

    results: list[tuple[int, bytes, bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in zip(names, contents):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        for program, *args in commands:
            if not os.access(program, os.X_OK):
                program = shutil.which(os.path.basename(program)) or program
            try:
                finished = subprocess.run([program, *args], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
            except OSError as error:
                results.append((127, b"", f"{program}: {error}".encode()))
                break
            results.append((finished.returncode, finished.stdout, finished.stderr))
            if finished.returncode != 0:
                break
    return results


class Cluster:
    """A client of a Dask cluster that predicts times."""

    def __init__(self, client: Any):
        self.client = client

    @property
    def workers(self) -> int:
        """The number of tasks that the cluster executes at a time."""
        return sum(self.client.nthreads().values()) or 1

    def predict(self, program: Program, grid: Grid, kernel: Kernel, arguments: Arguments, *, target: str, opt_level: int,
                options: Sequence[str], gpu: str | None, timeout: float | None) -> float:
        """Predicts the time of a launch in seconds. The call sends the bytecode and the arrays to a worker."""
        with tempfile.TemporaryDirectory(prefix="tileworks-") as name:
            LaunchDescription(Path(name), grid, kernel, arguments)
            files = {path.name: path.read_bytes() for path in Path(name).iterdir()}
        limit = [f"--max-time={max(1, round(timeout))}"] if timeout is not None else []
        compiler = [tool("tileiras"), "--error-format=json", "kernel", f"--gpu-name={target}", f"-O{opt_level}", "--lineinfo", *limit, *options,
                    "--emit=ptx", "-o", "kernel.ptx"]
        model = [tool("tile-time"), "--error-format=json", "kernel.ptx", "--launch", "launch.json", *(["--gpu", gpu] if gpu else []), *limit,
                 *limit_options(options), "--no-advice", "--json", "-"]
        files["kernel"] = program.bytecode
        # Configurations share arrays. With `hash=True`, Dask sends equal contents once.
        contents = self.client.scatter(list(files.values()), hash=True, direct=False)
        future = self.client.submit(execute, list(files), contents, [compiler, model], pure=False)
        results = future.result()
        for (code, output, messages), name, fails in zip(results, ("tileiras", "tile-time"), (CompileError, RunError)):
            check_exit_code(name, code, output, messages, fails)
        return float(json.loads(results[-1][1])["seconds"])


@contextmanager
def connect_to_cluster(scheduler: str) -> Iterator[Cluster]:
    """Connects to the Dask cluster of a scheduler, until the end of the `with` statement."""
    try:
        import cloudpickle
        from distributed import Client
    except ImportError:
        raise TileworksError([], "a search on a cluster needs Dask: pip install distributed") from None
    # Send the functions of this module by value, because workers need only the tools and not this package.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with Client(scheduler, set_as_default=False) as client:
        yield Cluster(client)
