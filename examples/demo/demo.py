"""The demo of Tileworks, which scripts/demo runs: compiles a matmul and a softmax, and executes the output of every compiler stage.

    python demo.py [FOLDER [TARGETS]]

The script writes its output files to FOLDER (default: `demo`). TARGETS is a comma-separated list of targets, one row each in the table
of stages. If the environment variable REFERENCE names the folder of NVIDIA's tileiras, the demo also predicts the times of NVIDIA's PTX.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python"), str(HERE.parent.parent / "scripts")]
import kernels
import tileworks
from tileworks._launch import LaunchDescription
from tileworks._tools import tool

TARGETS = sys.argv[2].split(",") if len(sys.argv) > 2 else ["sm_80", "sm_90", "sm_100", "sm_120"]
STAGES = ["tile", "aa", "as", "sched", "ptx"]
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "demo").absolute()
START = time.monotonic()


class Case:
    """A kernel of kernels.py with its launch. `output` is the argument that the kernel writes, and `expected` is the result that numpy
    computes. The demo shows the source line that contains the text `traced_text` in the output of each stage."""

    def __init__(self, name, grid, arguments, output, expected, traced_text):
        self.name, self.kernel = name, getattr(kernels, name)
        self.grid, self.arguments, self.output, self.expected, self.traced_text = grid, arguments, output, expected, traced_text

    def compile(self, target):
        return tileworks.compile(self.kernel, self.arguments, target=target)


def make_cases():
    """Yields the two cases of the demo: a matmul of 256 x 256 matrices and a softmax of 64 rows."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((256, 256), np.float32).astype(np.float16), random.standard_normal((256, 256), np.float32).astype(np.float16)
    c = np.zeros((256, 256), np.float32)
    yield Case("matmul", (2, 4), (a, b, c, 128, 64, 32), c, a.astype(np.float32) @ b.astype(np.float32), "total = ct.mma")
    x = random.standard_normal((64, 1024), np.float32)
    y = np.zeros_like(x)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    yield Case("softmax", (64,), (x, y, 1024), y, e / e.sum(axis=1, keepdims=True), "e = ct.exp")


def print_title(text):
    """Prints the title of a section of the output, with the seconds since the start of the demo."""
    print(f"\n== {text}  [{time.monotonic() - START:.0f} s]", flush=True)


def print_differences(case):
    """Compiles a case for each target, executes the output of each stage on the CPU, and prints the largest difference from numpy's
    result. Also writes the bytecode of the case to OUT."""
    print_title(f"{case.name}: every stage for every target, run on the CPU, against numpy: the largest difference")
    print(f"{'':8}" + "".join(f"{'.' + stage:>11}" for stage in STAGES) + "      cubin")
    for target in TARGETS:
        program = case.compile(target)
        (OUT / f"{case.name}.tileirbc").write_bytes(program.bytecode)
        line = f"{target:8}"
        for stage in STAGES:
            case.output[:] = 0
            tileworks.launch(case.grid, program, flat_arguments(case), stage=stage, target=target)
            difference = np.abs(case.output - case.expected).max()
            assert difference < 1e-3, f"{case.name} for {target}: .{stage} is off by {difference}"
            line += f"{difference:11.1e}"
        print(f"{line}{len(program.cubin):6} bytes", flush=True)


def flat_arguments(case):
    """Returns the arguments of the compiled program: each array, followed by its extents and its strides in elements. Constants are
    omitted, because the compiled program contains their values."""
    flat = []
    for argument in (value for value in case.arguments if isinstance(value, np.ndarray)):
        flat += [argument, *argument.shape, *(stride // argument.itemsize for stride in argument.strides)]
    return flat


def write_view_page(case, target):
    """Writes the HTML page of tile-view and the PTX of a case, and returns the data of the page as a dictionary."""
    program = case.compile(target)
    folder = OUT / case.name
    folder.mkdir(exist_ok=True)
    description = LaunchDescription(folder, case.grid, case.kernel, case.arguments)
    words = [OUT / f"{case.name}.tileirbc", f"--gpu-name={target}", "--launch", description.path, "--source", HERE, "--json", folder / "view.json", "-o", OUT / f"{case.name}.html"]
    subprocess.run([tool("tile-view"), *map(str, words)], check=True)
    program.stage("ptx").save(folder / "ours.ptx")
    return json.loads((folder / "view.json").read_text())


def print_line_at_each_stage(case, view_data):
    """Prints up to three lines of the output of each stage that come from the traced source line. `view_data` is the data of the page."""
    source = next(pane for pane in view_data["panes"] if pane["name"] == "source")
    row = next(row for row, line in enumerate(source["lines"]) if case.traced_text in line)
    print_title(f"{case.name}: what becomes of line {row + 1}, `{source['lines'][row].strip()}`, for sm_90")
    traced_positions = {number for number, position in enumerate(view_data["source_positions"]) if position["line"] == row + 1}
    for pane in view_data["panes"]:
        lines = [line.strip() for line, position in zip(pane["lines"], pane["source_positions"]) if position in traced_positions]
        if pane["name"] == "source" or not lines:
            continue
        # Prefer lines with an MMA, an exponential function or a reduction to lines that compute addresses.
        computation = re.compile(r"\bmma|wgmma|HMMA|HGMMA|exp|ex2|EX2|reduce|shfl|SHFL")
        shown_lines = ([line for line in lines if computation.search(line)] or lines)[:3]
        print(f"  {pane['title']}: {len(lines)} {'line' if len(lines) == 1 else 'lines'}" + (", such as" if len(lines) > len(shown_lines) else ""))
        for line in shown_lines:
            print(f"      {line[:132]}")


def print_edited_schedule(case):
    """Moves the MMA of a pipelined loop to schedule stage 0, before the data that it needs is ready, and prints the error of tile-sched."""
    print_title(f"{case.name}: a schedule that was edited")
    case.compile("sm_80").stage("as").save(OUT / "k.as")
    run_tile_sched = lambda *words: subprocess.run([tool("tile-sched"), *words], cwd=OUT, capture_output=True, text=True)
    run_tile_sched("--stop-after=alloc", "--format=text", "k.as", "-o", "k.sched")
    text = (OUT / "k.sched").read_text()
    schedule_line = re.search(r"^.*schedule loop.*$", text, re.M)[0]
    print(f"  k.sched has: {schedule_line}")
    mma_row = re.search(r"^  \((op: \d+), stage: (\d+), cycle: (\d+)\)( // .*= mma)$", text, re.M)
    edited_row = mma_row[0].replace(f"stage: {mma_row[2]}", "stage: 0")
    (OUT / "edited.sched").write_text(text.replace(mma_row[0], edited_row))
    print(f"  edited: {mma_row[0].strip()}\n      to  {edited_row.strip()}")
    rejected = run_tile_sched("edited.sched", "-o", "/dev/null")
    print("  tile-sched reports:", *("\n      " + line for line in rejected.stderr.strip().splitlines()))
    assert rejected.returncode == 1


def print_times(case, view_data):
    """Prints the predicted time of a case, with advice. If REFERENCE is set, also prints the predicted times of both compilers for sm_80."""
    print_title(f"{case.name}: predicted time on {view_data['time']['gpu']}")
    describe_time = lambda time: f"{time['seconds'] * 1e6:.2f} us, {time['cycles']:.0f} cycles on {time['gpu']}"
    print(f"  {describe_time(view_data['time'])}")
    for advice in view_data["time"]["advice"][:2]:
        print(f"      {100 * advice['saved_share']:.0f} % less {'with ' if not advice['scenario'].startswith('no') else 'if there was '}{advice['scenario']}: {advice['suggestion']}")
    if not os.environ.get("REFERENCE"):
        return print("  NVIDIA's tileiras: not there to compare with (REFERENCE names its folder)")
    from reference import Reference
    with tempfile.TemporaryDirectory() as folder:
        # PTX for sm_80 has no tensor maps. For later targets, tile-time would have to execute the host object that fills the tensor maps.
        failure = Reference(folder, None).compile(str(OUT / f"{case.name}.tileirbc"), "sm_80", f"{folder}/theirs")
        if failure:
            return print(f"  NVIDIA's tileiras: {failure}")
        case.compile("sm_80").stage("ptx").save(f"{folder}/ours.ptx")
        for compiler, ptx in (("ours, for sm_80", "ours.ptx"), ("NVIDIA's, for sm_80", "theirs/k.ptx")):
            words = [f"{folder}/{ptx}", "--launch", OUT / case.name / "launch.json", "--no-advice", "--json", f"{folder}/time.json"]
            subprocess.run([tool("tile-time"), *words], check=True)
            print(f"  {compiler + ':':21} {describe_time(json.loads(Path(f'{folder}/time.json').read_text()))}")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    print("\n".join("    " + line for line in (HERE / "kernels.py").read_text().splitlines()[4:]))
    for case in make_cases():
        print_differences(case)
        view_data = write_view_page(case, "sm_90")
        print_line_at_each_stage(case, view_data)
        if case.name == "matmul":
            print_edited_schedule(case)
        print_times(case, view_data)
    print_title("to look at, in a browser")
    print(f"  {OUT}/matmul.html\n  {OUT}/softmax.html")


main()
