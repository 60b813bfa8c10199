"""Runs the compilations of a ninja file, which `tileiras --emit-ninja` writes, on the machines of a Dask cluster."""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._errors import TileworksError
from ._types import AnyPath

#: The number of Dask tasks per worker. With more tasks per worker, the workers finish closer to the same time. With fewer tasks, the
#: scheduler has less work.
TASKS_PER_WORKER = 8
#: The file in which a sweep records the command of each output, next to the ninja file.
STATE_FILE = ".tileworks_sweep"


@dataclasses.dataclass(frozen=True)
class Command:
    """One compilation. The word after `-o` is the output and the last word is the input."""
    output: str
    source: str
    #: Files whose change requires a recompilation, except the input. `tileiras --emit-ninja` lists the tools.
    dependencies: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def signature(self) -> str:
        """Hash of the arguments. If this hash differs from the hash of the last sweep, the output is outdated."""
        return hashlib.sha256("\0".join(self.args).encode()).hexdigest()


def parse_compilations(path: Path) -> list[Command]:
    """Parses the compilations of a file of `tileiras --emit-ninja`."""
    text = re.sub(r"\$\n\s*", "", path.read_text())
    variables: dict[str, str] = {}
    phony: dict[str, tuple[str, ...]] = {}
    builds: list[tuple[list[str], dict[str, str]]] = []
    rule, current = "", variables
    for line in text.splitlines():
        if line.startswith("rule "):
            current = {} if line != "rule tileiras" else variables
        elif line.startswith("build "):
            builds.append((_split_build_line(line[len("build "):], variables), {}))
            current = builds[-1][1]
        elif (match := re.match(r"(\s*)(\w+) = ?(.*)", line)) and not line.startswith("#"):
            if not match[1]:
                current = variables
            if match[2] == "command":
                rule = match[3] if current is variables else rule
            else:
                current[match[2]] = match[3]
    commands = []
    for args, own in builds:
        if args[1:3] == [":", "phony"]:
            phony[args[0]] = tuple(args[3:])
        elif args[1:3] == [":", "tileiras"]:
            output, source, dependencies = args[0], args[3], args[5:] if "|" in args else []
            scope = variables | own | {"out": shlex.quote(output), "in": shlex.quote(source), "launcher": ""}
            files = tuple(file for other in dependencies for file in phony.get(other, (other,)))
            commands.append(Command(output, source, files, tuple(shlex.split(_expand_variables(rule, scope)))))
    if not commands:
        raise TileworksError([], f"{path} has no compilations; tileiras --emit-ninja writes such a file")
    return commands


def _expand_variables(text: str, variables: dict[str, str]) -> str:
    """Replaces ninja's variables (`$name`, `${name}`) and escapes (`$$`, `$ `, `$:`) in a text."""
    def expand_match(match: re.Match[str]) -> str:
        return match[1] or _expand_variables(variables.get(match[2] or match[3], ""), variables)

    return re.sub(r"\$(?:([$: ])|\{(\w+)\}|(\w+))", expand_match, text)


def _split_build_line(line: str, variables: dict[str, str]) -> list[str]:
    """Splits a build line into words; `:` and `|` are separate words."""
    parts = re.findall(r"(?:\$[$: ]|\$\{\w+\}|\$\w+|[^\s:|$])+|[:|]", line)
    return [part if part in ":|" else _expand_variables(part, variables) for part in parts]


def is_outdated(command: Command, state: dict[str, str], root: Path) -> bool:
    """Returns whether the output of a command is missing, is older than a file on which it depends, or was built by another command. `state`
    maps each output to the signature of the command that built it."""
    try:
        output_time = (root / command.output).stat().st_mtime_ns
        newest_input_time = max((root / file).stat().st_mtime_ns for file in (command.source, *command.dependencies))
    except FileNotFoundError:
        return True
    return output_time < newest_input_time or state.get(command.output) != command.signature


def execute(tasks: list[tuple[tuple[str, ...], bytes]]) -> list[tuple[int, bytes, bytes | None]]:
    """Executes commands on a worker, in a temporary folder. Each task is the arguments of a command and the contents of its input. Returns the
    exit code, the standard error and the contents of the output file (None after a failure) of each command."""
    import os
    import subprocess
    import tempfile

    results: list[tuple[int, bytes, bytes | None]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (args, content) in enumerate(tasks):
            source, output = os.path.join(folder, f"input{number}"), os.path.join(folder, f"output{number}")
            with open(source, "wb") as file:
                file.write(content)
            line = [*args[:-1], source]
            line[line.index("-o") + 1] = output
            try:
                finished = subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
            except OSError as error:
                results.append((127, f"{line[0]}: {error}".encode(), None))
                continue
            output_bytes = None
            if finished.returncode == 0:
                with open(output, "rb") as file:
                    output_bytes = file.read()
            results.append((finished.returncode, finished.stderr, output_bytes))
    return results


def run_on_cluster(client: Any, outdated: list[Command], root: Path, workers: int) -> Iterator[tuple[Command, int, bytes, bytes | None]]:
    """Runs commands on the cluster of a client. When a result arrives, yields the command, its exit code, standard error and output."""
    import cloudpickle
    from distributed import as_completed

    # Send the functions of this module by value, because workers need only the tools and not this package.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    size = max(1, len(outdated) // (TASKS_PER_WORKER * max(1, workers)))
    parts = [outdated[at:at + size] for at in range(0, len(outdated), size)]
    futures = {}
    for part in parts:
        tasks = [(command.args, (root / command.source).read_bytes()) for command in part]
        futures[client.submit(execute, tasks, pure=False)] = part
    for future, results in as_completed(list(futures), loop=client.loop, with_results=True):
        for command, (code, stderr, output_bytes) in zip(futures[future], results):
            yield command, code, stderr, output_bytes


def sweep(path: AnyPath = "build.ninja", *, scheduler: str | None = None, workers: int | None = None,
          folder: AnyPath = ".") -> tuple[int, int]:
    """Runs the outdated compilations of a file of `tileiras --emit-ninja` on a Dask cluster. Their messages go to standard error.

    Args:
        path: The ninja file.
        scheduler: Address of the cluster's scheduler, such as `tcp://HOST:8786`. Without it, the call starts workers on this machine.
        workers: Number of workers on this machine. The default is the number of cores.
        folder: The folder to which the paths in the ninja file are relative.

    Returns:
        The number of compilations and the number of failures.

    Raises:
        TileworksError: Dask is not installed, or the file has no compilations.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise TileworksError([], "a sweep needs Dask: pip install distributed") from None
    root = Path(folder)
    all_commands = parse_compilations(root / path)
    state_file = root / STATE_FILE
    state = json.loads(state_file.read_text()) if state_file.exists() else {}
    outdated = [command for command in all_commands if is_outdated(command, state, root)]
    if not outdated:
        return 0, 0
    failed = 0
    local_cluster = None
    try:
        if scheduler is None:
            # The workers only wait for the processes of the tools, so they can be threads.
            local_cluster = LocalCluster(n_workers=workers or os.cpu_count() or 1, threads_per_worker=1, processes=False, dashboard_address=None)
        with Client(scheduler or local_cluster, set_as_default=False) as client:
            count = len(client.nthreads()) or 1
            for command, code, stderr, output_bytes in run_on_cluster(client, outdated, root, count):
                sys.stderr.write(stderr.decode(errors="replace"))
                if code != 0 or output_bytes is None:
                    failed += 1
                    sys.stderr.write(f"FAILED: {command.output} ({code})\n")
                    continue
                output = root / command.output
                output.parent.mkdir(parents=True, exist_ok=True)
                temporary = output.with_name(f"{output.name}.{os.getpid()}.tmp")
                temporary.write_bytes(output_bytes)
                os.replace(temporary, output)
                state[command.output] = command.signature
    finally:
        if local_cluster is not None:
            local_cluster.close()
        state_file.write_text(json.dumps(state, indent=0))
    return len(outdated), failed
