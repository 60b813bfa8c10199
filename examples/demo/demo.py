"""The demo that scripts/demo runs. It compiles a matmul and a softmax, and executes the output of every compiler stage.

    python demo.py [FOLDER [TARGETS]]

The script writes the files that it mentions to FOLDER. TARGETS are the rows of the first table. If the environment variable
REFERENCE names the folder of NVIDIA's tileiras, the demo compares the predicted times with those of NVIDIA's PTX.
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
    """A kernel with arguments, and the result that numpy computes for them. The demo follows the source line with the text `traced`."""

    def __init__(self, name, grid, arguments, output, expected, traced):
        self.name, self.kernel = name, getattr(kernels, name)
        self.grid, self.arguments, self.output, self.expected, self.traced = grid, arguments, output, expected, traced

    def compile(self, target):
        return tileworks.compile(self.kernel, self.arguments, target=target)


def make_cases():
    """Yields the cases of the demo: a matmul and a softmax."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((256, 256), np.float32).astype(np.float16), random.standard_normal((256, 256), np.float32).astype(np.float16)
    c = np.zeros((256, 256), np.float32)
    yield Case("matmul", (2, 4), (a, b, c, 128, 64, 32), c, a.astype(np.float32) @ b.astype(np.float32), "total = ct.mma")
    x = random.standard_normal((64, 1024), np.float32)
    y = np.zeros_like(x)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    yield Case("softmax", (64,), (x, y, 1024), y, e / e.sum(axis=1, keepdims=True), "e = ct.exp")


def print_title(text):
    """Prints the title of a section, with the seconds since the start."""
    print(f"\n== {text}  [{time.monotonic() - START:.0f} s]", flush=True)


def print_differences(case):
    """Executes each stage for each target, and prints the largest difference from numpy's result."""
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
    """Returns the arguments of the compiled program: for each array its address, extents and strides. Constants are omitted."""
    flat = []
    for argument in (one for one in case.arguments if isinstance(one, np.ndarray)):
        flat += [argument, *argument.shape, *(stride // argument.itemsize for stride in argument.strides)]
    return flat


def write_page(case, target):
    """Writes the page of tile-view, and returns its data."""
    program = case.compile(target)
    folder = OUT / case.name
    folder.mkdir(exist_ok=True)
    description = LaunchDescription(folder, case.grid, case.kernel, case.arguments)
    words = [OUT / f"{case.name}.tileirbc", f"--gpu-name={target}", "--launch", description.path, "--source", HERE, "--json", folder / "view.json", "-o", OUT / f"{case.name}.html"]
    subprocess.run([tool("tile-view"), *map(str, words)], check=True)
    program.stage("ptx").save(folder / "ours.ptx")
    return json.loads((folder / "view.json").read_text())


def print_line_at_each_stage(case, model):
    """Prints the lines of each stage that come from the traced source line. `model` is the data of tile-view."""
    source = next(pane for pane in model["panes"] if pane["name"] == "source")
    row = next(row for row, line in enumerate(source["lines"]) if case.traced in line)
    print_title(f"{case.name}: what becomes of line {row + 1}, `{source['lines'][row].strip()}`, for sm_90")
    here = {number for number, place in enumerate(model["source_positions"]) if place["line"] == row + 1}
    for pane in model["panes"]:
        lines = [line.strip() for line, place in zip(pane["lines"], pane["source_positions"]) if place in here]
        if pane["name"] == "source" or not lines:
            continue
        # Prefer lines with an MMA, an exponential function or a reduction to lines that compute addresses.
        work = re.compile(r"\bmma|wgmma|HMMA|HGMMA|exp|ex2|EX2|reduce|shfl|SHFL")
        shown_lines = ([line for line in lines if work.search(line)] or lines)[:3]
        print(f"  {pane['title']}: {len(lines)} {'line' if len(lines) == 1 else 'lines'}" + (", such as" if len(lines) > len(shown_lines) else ""))
        for line in shown_lines:
            print(f"      {line[:132]}")


def print_edited_schedule(case):
    """Moves an MMA to an earlier stage in a schedule, and prints the error of tile-sched."""
    print_title(f"{case.name}: a schedule that was edited")
    case.compile("sm_80").stage("as").save(OUT / "k.as")
    run = lambda *words: subprocess.run([tool("tile-sched"), *words], cwd=OUT, capture_output=True, text=True)
    run("--stop-after=alloc", "--format=text", "k.as", "-o", "k.sched")
    text = (OUT / "k.sched").read_text()
    first = re.search(r"^.*schedule loop.*$", text, re.M)[0]
    print(f"  k.sched has: {first}")
    op = re.search(r"^  \((op: \d+), stage: (\d+), cycle: (\d+)\)( // .*= mma)$", text, re.M)
    edited_op = op[0].replace(f"stage: {op[2]}", "stage: 0")
    (OUT / "edited.sched").write_text(text.replace(op[0], edited_op))
    print(f"  edited: {op[0].strip()}\n      to  {edited_op.strip()}")
    refused = run("edited.sched", "-o", "/dev/null")
    print("  tile-sched reports:", *("\n      " + line for line in refused.stderr.strip().splitlines()))
    assert refused.returncode == 1


def print_times(case, model):
    """Prints the predicted time with advice, and compares it with NVIDIA's compiler if that is installed."""
    print_title(f"{case.name}: predicted time on {model['time']['gpu']}")
    report = lambda time: f"{time['seconds'] * 1e6:.2f} us, {time['cycles']:.0f} cycles on {time['gpu']}"
    print(f"  {report(model['time'])}")
    for advice in model["time"]["advice"][:2]:
        print(f"      {100 * advice['saved_share']:.0f} % less {'with ' if not advice['scenario'].startswith('no') else 'if there was '}{advice['scenario']}: {advice['suggestion']}")
    if not os.environ.get("REFERENCE"):
        return print("  NVIDIA's tileiras: not there to compare with (REFERENCE names its folder)")
    from reference import Reference
    with tempfile.TemporaryDirectory() as place:
        # Compare for sm_80, whose PTX has no tensor maps. Otherwise tile-time would have to run NVIDIA's host object, which fills them.
        wrong = Reference(place, None).compile(str(OUT / f"{case.name}.tileirbc"), "sm_80", f"{place}/theirs")
        if wrong:
            return print(f"  NVIDIA's tileiras: {wrong}")
        case.compile("sm_80").stage("ptx").save(f"{place}/ours.ptx")
        for compiler, ptx in (("ours, for sm_80", "ours.ptx"), ("NVIDIA's, for sm_80", "theirs/k.ptx")):
            words = [f"{place}/{ptx}", "--launch", OUT / case.name / "launch.json", "--no-advice", "--json", f"{place}/time.json"]
            subprocess.run([tool("tile-time"), *words], check=True)
            print(f"  {compiler + ':':21} {report(json.loads(Path(f'{place}/time.json').read_text()))}")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    print("\n".join("    " + line for line in (HERE / "kernels.py").read_text().splitlines()[4:]))
    for case in make_cases():
        print_differences(case)
        model = write_page(case, "sm_90")
        print_line_at_each_stage(case, model)
        if case.name == "matmul":
            print_edited_schedule(case)
        print_times(case, model)
    print_title("to look at, in a browser")
    print(f"  {OUT}/matmul.html\n  {OUT}/softmax.html")


main()
