"""Searches for the configuration of a kernel with the shortest predicted time, without a GPU."""
from __future__ import annotations

import dataclasses
import hashlib
import html
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Generic, TypeVar

from ._errors import TileworksError
from ._program import Program, compile
from ._remote_prediction import Cluster, connect_to_cluster
from ._timing import description_digest, predict
from ._tools import Deadline
from ._types import AnyPath, Arguments, Grid, Kernel, OptLevel

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Prediction(Generic[T]):
    """A configuration and its predicted time."""
    config: T
    seconds: float

    @property
    def mean_us(self) -> float:
        """The predicted time in microseconds, under the name that `ct.tune` has for a measured time."""
        return self.seconds * 1e6


@dataclasses.dataclass(frozen=True, repr=False)
class TuningResult(Generic[T]):
    """The predictions of all configurations. `str()` returns a table; a notebook shows a chart.

    Attributes:
        best: The prediction with the shortest time.
        successes: The predictions, shortest time first.
        failures: Configuration, type of the exception and message of each failure. The types are those of `tileworks`, for example
            `CompileError`, or those that cuTile raises for a kernel that it rejects.
    """
    best: Prediction[T]
    successes: Sequence[Prediction[T]]
    failures: Sequence[tuple[T, type[BaseException], str]]

    def summary(self, *, rows: int = 10) -> str:
        """Returns the table of the `rows` shortest times, and as many failures."""
        lines = [f"{len(self.successes)} predicted, {len(self.failures)} failed"]
        lines += [f"{result.mean_us:12.2f} us  {result.config}" for result in self.successes[:rows]]
        for config, kind, message in self.failures[:rows]:
            lines.append(f"      failed    {config}: {kind.__name__}: {(message.splitlines() or [''])[0]}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<tileworks.TuningResult: {len(self.successes)} predicted, {len(self.failures)} failed, best {self.best.config}>"

    def _repr_html_(self) -> str:
        longest = self.successes[-1].seconds
        rows = "".join(
            f"<tr><td>{result.mean_us:.2f} us</td>"
            f'<td><div style="background: #76b900; height: 1em; width: {200 * result.seconds / longest:.0f}px"></div></td>'
            f"<td>{html.escape(str(result.config))}</td></tr>" for result in self.successes[:40])
        return f"<p>{len(self.successes)} predicted, {len(self.failures)} failed</p><table>{rows}</table>"


class _ResultsFile:
    """The file of `results`: one JSON object per line, with the digest of a compilation and launch, and its predicted time."""

    def __init__(self, path: AnyPath | None):
        self.path = Path(path) if path is not None else None
        self.seconds: dict[str, float] = {}
        if self.path is not None and self.path.exists():
            text = self.path.read_text()
            if text and not text.endswith("\n"):
                with self.path.open("a") as file:
                    file.write("\n")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    self.seconds[entry["key"]] = float(entry["seconds"])
                except (ValueError, KeyError, TypeError):
                    continue  # the incomplete line of an interrupted search

    def add(self, key: str, seconds: float) -> None:
        """Adds a predicted time, and appends it to the file."""
        self.seconds[key] = seconds
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "seconds": seconds}) + "\n")


def tune(space: Sequence[T], grid: Callable[[T], Grid], kernel: Kernel | Callable[[T], Kernel], arguments: Callable[[T], Arguments],
         hints: Callable[[T], dict[str, Any]] | None = None, *, options: Callable[[T], Sequence[str]] | None = None,
         target: str = "sm_90", gpu: str | None = None, opt_level: OptLevel = 3, jobs: int | None = None, timeout: float | None = None,
         results: AnyPath | None = None, quiet: bool = False, scheduler: str | None = None) -> TuningResult[T]:
    """Predicts the time of each configuration of a kernel and ranks them. The parameters are those of `ct.tune.exhaustive_search`
    without the stream.

    Args:
        space: The configurations.
        grid: Maps a configuration to the extents of the grid.
        kernel: The kernel, or a function that maps a configuration to a kernel. A kernel is one of cuTile Python, bytecode, or a path.
        arguments: Maps a configuration to the arguments. The arrays are read and not written, so configurations can share them.
        hints: Maps a configuration to hints for `replace_hints` of cuTile.
        options: Maps a configuration to more options of `tileiras`, such as `["--warps=8"]`.
        target: Target, such as `sm_90`.
        gpu: Machine description of `tile-time`. By default `tile-time` takes the machine that represents the target.
        opt_level: Optimisation level, 0 to 3.
        jobs: Configurations at a time. The default is the number of cores, or of the cluster's worker threads.
        timeout: Limit in seconds for each configuration.
        results: File for the predicted times. A later call with the same file does not repeat compilations and launches that it has.
        quiet: Print no progress. Progress is printed to standard error if it is a terminal.
        scheduler: Address of the scheduler of a Dask cluster, such as `tcp://HOST:8786`. Its workers compile and predict; they need the
            tools. Without it, this machine does.

    Raises:
        ValueError: The space is empty.
        TileworksError: Dask is not installed, or every configuration failed. The message is that of the first failure.
    """
    if not space:
        raise ValueError("the space has no configuration")
    context: AbstractContextManager[Cluster | None] = connect_to_cluster(scheduler) if scheduler is not None else nullcontext()
    with context as machines:
        results_file = _ResultsFile(results)
        # cuTile traces a kernel in Python and is not reentrant.
        tracing_lock, recording_lock = threading.Lock(), threading.Lock()

        def evaluate(config: T) -> float:
            own_options = tuple(options(config)) if options is not None else ()
            with tracing_lock:
                chosen: Any = kernel
                if callable(kernel) and not isinstance(kernel, (Program, bytes, str, os.PathLike)) and not hasattr(kernel, "_annotated_function"):
                    chosen = kernel(config)
                if hints is not None:
                    chosen = chosen.replace_hints(**hints(config))
                own_arguments = arguments(config)
                program = compile(chosen, own_arguments, target=target, opt_level=opt_level, options=own_options, timeout=timeout)
            launch_digest = description_digest(grid(config), chosen, own_arguments)
            parts = (hashlib.sha256(program.bytecode).hexdigest(), launch_digest, target, gpu, opt_level, own_options)
            key = hashlib.sha256(repr(parts).encode()).hexdigest()
            with recording_lock:
                if (seconds := results_file.seconds.get(key)) is not None:
                    return seconds
            if machines is not None:
                seconds = machines.predict(program, grid(config), chosen, own_arguments, target=target, opt_level=opt_level, options=own_options,
                                           gpu=gpu, timeout=timeout)
            else:
                seconds = predict(program, grid(config), chosen, own_arguments, gpu=gpu, options=own_options, deadline=Deadline(timeout)).seconds
            with recording_lock:
                results_file.add(key, seconds)
            return seconds

        successes: list[tuple[int, Prediction[T]]] = []
        failures: list[tuple[int, BaseException]] = []
        shows_progress = not quiet and sys.stderr.isatty()
        with ThreadPoolExecutor(jobs or (machines.workers if machines is not None else os.cpu_count())) as pool:
            futures = {pool.submit(evaluate, config): index for index, config in enumerate(space)}
            try:
                for done, future in enumerate(as_completed(futures), 1):
                    index = futures[future]
                    error = future.exception()
                    if error is None:
                        successes.append((index, Prediction(space[index], future.result())))
                    elif isinstance(error, Exception):
                        failures.append((index, error))
                    else:
                        raise error
                    if shows_progress:
                        print(f"\r{done} of {len(space)}, {len(failures)} failed", end="\n" if done == len(space) else "", file=sys.stderr)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        failures.sort(key=lambda failure: failure[0])
        if not successes:
            error = failures[0][1]
            raise TileworksError([], f"every configuration failed; the first is {space[failures[0][0]]}: {error}") from error
        ranked = [result for _, result in sorted(successes, key=lambda success: (success[1].seconds, success[0]))]
        return TuningResult(ranked[0], ranked, [(space[index], type(error), str(error)) for index, error in failures])
