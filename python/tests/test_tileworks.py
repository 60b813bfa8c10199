"""Tests of the package `tileworks`: launches, checks, stages, predicted times, the debugger, sweeps and comparisons."""
import copy
import html
import io
import linecache
import os
import pathlib
import pickle
import runpy
import subprocess
import time

import kernels
import ml_dtypes
import numpy as np
import pytest

import tileworks
from tileworks import _tools
from tileworks.__main__ import main as cli_main

#: The stages that `tileworks.launch` can execute.
EXECUTED = ("tile", "aa", "as", "sched", "ptx")
HERE = pathlib.Path(__file__).parent


def random_floats(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def line_of(text):
    """Returns the number of the first line of kernels.py that contains a text."""
    lines = pathlib.Path(kernels.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("stage", EXECUTED)
def test_arrays_are_written_in_place_at_every_stage(stage):
    a, b, c = random_floats(256), random_floats(256) * 2, np.zeros(256, np.float32)
    tileworks.launch((4,), kernels.vadd, (a, b, c, 64), stage=stage, check=True)
    assert np.array_equal(c, a + b)


@pytest.mark.parametrize("stage", ["tile", "ptx"])
def test_scalar_arguments_and_default_values(stage):
    a, c = random_floats(128), np.zeros(128, np.float32)
    tileworks.launch(2, kernels.scale_and_offset, (a, c, 0.5, -3, True), stage=stage)
    assert np.allclose(c, -(a * np.float32(0.5) - 3))
    tileworks.launch(2, kernels.scale_and_offset, (a, c, np.float32(2), np.int32(1), np.bool_(False)), stage=stage)
    assert np.allclose(c, a * 2 + 1)


def test_strided_arrays_and_one_array_passed_twice():
    a, c = random_floats(64, 32), np.zeros((32, 64), np.float32)
    tileworks.launch((2, 2), kernels.copy, (a.T, c, 16, 32))
    assert np.array_equal(c, a.T)
    wide = np.zeros((32, 100), np.float32)
    tileworks.launch((2, 2), kernels.copy, (c, wide[:, 7:71], 16, 32))
    assert np.array_equal(wide[:, 7:71], c) and not wide[:, :7].any() and not wide[:, 71:].any()
    tileworks.launch((4,), kernels.vadd, ((row := random_floats(256)), row, row, 64))
    assert np.array_equal(row, random_floats(256) * 2)


def test_unsupported_arguments_and_stages_are_errors():
    a, c = random_floats(128), np.zeros(128, np.float32)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tileworks.launch((2,), kernels.vadd, (a, a, c, 64))
    with pytest.raises(ValueError, match="negative stride"):
        tileworks.launch((1,), kernels.vadd, (a[::-1], a, a.copy(), 64))
    with pytest.raises(TypeError, match="not str"):
        tileworks.launch((1,), kernels.vadd, (a, a, "c", 64))
    with pytest.raises(ValueError, match="tile, aa, as, sched or ptx"):
        tileworks.launch((1,), kernels.vadd, (a, a, a.copy(), 64), stage="cubin")


@pytest.mark.parametrize("stage", ["tile", "ptx"])
def test_printed_text_is_returned_and_printed(stage, capsys):
    run = tileworks.launch((3,), kernels.print_block, (np.zeros(1, np.int32),), stage=stage)
    assert sorted(run.printed.splitlines()) == ["block 0", "block 1", "block 2"]
    assert capsys.readouterr().out == run.printed


def test_check_reports_the_source_line_of_a_race():
    a = random_floats(64)
    with pytest.raises(tileworks.CheckError) as caught:
        tileworks.launch((2,), kernels.vadd, (a, a.copy(), np.zeros(64, np.float32), 64), check=True)
    assert caught.value.code == "CHK001" and caught.value.line == line_of("ct.store(c, index=(i,), tile=ct.load(a")
    assert caught.value.file.endswith("kernels.py") and "index 1 of dimension 0" in str(caught.value)
    # One line of the kernel has three memory accesses. The columns in the message distinguish the accesses.
    source = pathlib.Path(kernels.__file__).read_text().splitlines()[caught.value.line - 1]
    columns = [source.index("ct.load(a"), source.index("ct.load(b"), source.index("ct.store(c")]
    assert all(f"kernels.py:{caught.value.line}:{column}: ct.store" in str(caught.value) for column in columns)


@pytest.mark.parametrize("stage", ["tile", "aa", "as", "sched"])
def test_check_accepts_an_odd_stride_of_an_axis_of_extent_one(stage):
    # cuTile assumes that the row stride is a multiple of 16 bytes. An array with one row uses no row stride, so an odd stride is harmless.
    a, c = random_floats(3, 33)[:1, :32], np.zeros((3, 33), np.float32)[:1, :32]
    tileworks.launch((1,), kernels.copy, (a, c, 1, 32), stage=stage, check=True)
    assert np.array_equal(a, c)


@pytest.mark.parametrize("stage", ["tile", "sched", "ptx"])
def test_failed_bounds_checks_name_the_line(stage):
    a, c = random_floats(64), np.zeros(16, np.float32)
    tileworks.launch((1,), kernels.gather_from, (a, c, 48, 16), stage=stage, options=["--check-bounds"])
    assert np.array_equal(c, a[48:])
    if stage == "tile":  # tile-lower-aa inserts the bounds checks, so .tile files have none
        return
    with pytest.raises(tileworks.RunError) as caught:
        tileworks.launch((1,), kernels.gather_from, (a, c, 50, 16), stage=stage, options=["--check-bounds"])
    assert caught.value.line == line_of("reaches outside") and caught.value.code == "RUN040"
    assert "outside the array" in str(caught.value) and ": index 6" in str(caught.value) and "extent 64" in str(caught.value)
    if stage == "ptx":  # in PTX, a trap follows the assertion; its message names the source line of the assertion
        assert f"in the source: {caught.value.file}:{caught.value.line}:" in str(caught.value)
    assert np.array_equal(c, a[48:]), "a run that fails changes nothing"


def test_a_debugger_stops_and_steps_back():
    a, c = random_floats(64), np.zeros(64, np.float32)
    line = line_of("ct.store(c, index=(i,), tile=ct.load(a")
    commands = [f"break {line} if block.x == 1", "continue", "print i", "memory", "back", "where"]
    stdout_text = tileworks.debug((2,), kernels.vadd, (a, a.copy(), c, 32), commands=commands)
    assert f"breakpoint 1\nkernels.py:{line}, block [1, 0, 0]" in stdout_text and "> print i\ni32 1" in stdout_text
    assert "\n  a = f32[64]" in stdout_text and "0 vadd at kernels.py" in stdout_text, "buffers have the names of the parameters"
    assert not c.any(), "the arrays stay as they are"
    same = tileworks.debug((2,), kernels.vadd, (a, a.copy(), c, 32), stage="sched", against="tile", commands=["continue"])
    assert "values can be compared with kernel.tile" in same and "the kernel ends" in same
    with pytest.raises(tileworks.RunError, match="--block"):
        tileworks.debug((2,), kernels.vadd, (a, a, c, 32), commands=[], options=["--block=9"])


def test_debugger_shows_shapes_of_arrays_and_values_of_variables():
    a, c = np.abs(random_floats(4, 96)) + 1, np.zeros((4, 96), np.float32)
    line = line_of("total = total + ct.sum") + 1
    commands = [f"break {line}", "continue", "variables", "print a[2, :3]", "memory", f"break {line + 2} if block.x == 2", "continue", "variables"]
    stdout_text = tileworks.debug((4,), kernels.normalize, (a, c, 96, 64), commands=commands)
    assert "a = f32[4, 96]" in stdout_text and f"print a[2, :3]\nf32[3] [{a[2, 0]!s}" in stdout_text
    before, after = stdout_text.split("> variables")[1:]
    # The line `y = ct.load(...)` has a view op, which is before the loop, and a load op. The variable `y` is the result of the load.
    assert "total = f32[1, 1]" in before and "y = " not in before and "y = f32[1, 64]" in after and "view of" not in stdout_text


def test_a_debugger_distinguishes_variables_of_one_line():
    a = random_floats(64, 32)
    stdout_text = tileworks.debug((2, 2), kernels.copy, (a, a.copy(), 32, 16), commands=["block 1:0", "next", "next", "variables"], options=[])
    assert "  i = i32 1\n  j = i32 0\n" in stdout_text


def test_a_debugger_stops_at_functions_and_statements_of_one_line():
    a, c = random_floats(64), np.zeros(64, np.float32)
    commands = ["break doubled", "continue", "where", "up", "variables", "watch i", "continue"]
    stdout_text = tileworks.debug((2,), kernels.statements, (a, c, 32), commands=commands)
    assert "breakpoint 1\nkernels.py:" in stdout_text and "0 doubled at" in stdout_text
    shown = stdout_text.split("> variables")[1]
    assert "  m = i32 0" in shown and "  n = i32 0" in shown, "both statements of a line have their variable"


def test_an_array_of_another_type_than_its_pointer_parameter_is_an_error():
    bytecode = tileworks.compile(kernels.vadd, (a := random_floats(64), a, a, 64)).bytecode
    with pytest.raises(tileworks.RunError, match="LCH013"):
        tileworks.launch((1,), bytecode, (a.astype(np.float64), 64, 1, a, 64, 1, a.copy(), 64, 1))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.uint16, np.int64, np.uint64, np.float16, np.float64,
                                   ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_arrays_of_each_type_are_copied(dtype):
    a = (random_floats(16, 32) * 100).astype(dtype)
    c = np.zeros_like(a)
    tileworks.launch((1, 1), kernels.copy, (a, c, 16, 32))
    assert np.array_equal(a, c)


def test_stages_have_text_and_html():
    a = random_floats(64)
    program = tileworks.compile(kernels.vadd, (a, a, a, 64), target="sm_80")
    assert "addf" in program.stage("tile").text and "layout #0" in program.stage("as").text
    assert ".target sm_80" in program.stage("ptx").text and "define" in program.stage("llvm-ir").text
    assert program.cubin.startswith(b"\x7fELF") and program.stage("cubin").text.startswith("cubin for sm_80")
    assert "//!tile" in program.stage("sched").text and "//!tile" not in program.stage("sched").program
    page = program.stage("as")._repr_html_()
    assert page.startswith("<details open>") and "tile&lt;64xf32" in page and "<64xf32" not in page
    assert program._repr_html_().count("<details>") == 5 and "sm_80" in repr(program)
    with pytest.raises(ValueError, match="there is no stage 'sass'"):
        program.stage("sass")


def test_bytecode_from_memory_and_from_a_file(tmp_path):
    a, c = random_floats(64), np.zeros(64, np.float32)
    bytecode = tileworks.compile(kernels.vadd, (a, a, c, 64)).bytecode
    path = tmp_path / "k.tileirbc"
    path.write_bytes(bytecode)
    for kernel in (bytecode, path, str(path)):
        c[:] = 0
        # For bytecode, pass each parameter of the kernel separately: the array, its extent, its stride.
        tileworks.launch((1,), kernel, (a, 64, 1, a, 64, 1, c, 64, 1), opt_level=0, stage="sched")
        assert np.array_equal(c, a + a)
    with pytest.raises(tileworks.RunError, match="LCH013"):
        tileworks.launch((1,), bytecode, (a, 64, 1))
    with pytest.raises(tileworks.CompileError, match="not correspond to Tile IR bytecode"):
        tileworks.compile(b"nothing of the kind")


def test_a_program_that_cannot_be_compiled_is_an_error_with_the_line():
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel

    def array_constraint(dtype):
        return ArrayConstraint(dtype, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False)

    out = io.BytesIO()
    signature = KernelSignature([array_constraint(ct.float32), array_constraint(ct.bfloat16), 64], CallingConvention.cutile_python_v1())
    export_kernel(kernels.add_to, [signature], out, gpu_code="sm_90", output_format="tileir_bytecode", bytecode_version="13.3")
    assert tileworks.compile(out.getvalue(), target="sm_90").stage("ptx").bytes
    with pytest.raises(tileworks.CompileError, match="bf16 is not supported") as caught:
        tileworks.compile(out.getvalue(), target="sm_80").stage("ptx")
    assert caught.value.line == line_of("ct.atomic_add") and caught.value.file.endswith("kernels.py")
    assert "ct.atomic_add(c" in str(caught.value), "the source is shown"


def test_time_predicts_the_time_of_a_launch():
    a = random_floats(1 << 12)
    timing = tileworks.time((64,), kernels.vadd, (a, a.copy(), np.zeros_like(a), 64))
    assert timing.seconds > 0 and timing.cycles > 0 and "cycles" in str(timing) and timing.data["kernel"].startswith("vadd")
    assert all(0 <= saved_share <= 1 and change for saved_share, change in timing.advice())
    store = line_of("ct.store(c, index=(i,), tile=ct.load(a")
    assert f"; kernels.py:{store})" in str(timing), "the report names the source line of each wait"
    assert "1 resident, limited by the grid" in str(timing)


def test_view_returns_a_page(tmp_path):
    a = random_floats(1 << 12)
    page = tileworks.view(kernels.vadd, (a, a.copy(), np.zeros_like(a), 64), grid=(64,))
    page.save(tmp_path / "k.html")
    text = (tmp_path / "k.html").read_text()
    # The page contains the source, which tile-view reads at the path in the kernel, and the predicted time of the launch.
    assert text.startswith("<!doctype html>") and "def vadd" in text and '"gpu":"h100' in text.replace(" ", "")
    assert page._repr_html_().startswith("<iframe")
    with pytest.raises(tileworks.CompileError):
        tileworks.view(b"nothing of the kind")


@pytest.mark.parametrize("example", sorted(path.name for path in (HERE.parent / "examples").glob("*.py")))
def test_examples_run(example, capsys):
    runpy.run_path(str(HERE.parent / "examples" / example), run_name="__main__")
    assert capsys.readouterr().out


def test_package_tools_and_manifest_have_the_same_version():
    assert tileworks.version().count(".") == 2
    manifest = (HERE.parents[1] / "Cargo.toml").read_text()
    assert tileworks.__version__ == tileworks.version() and f'\nversion = "{tileworks.__version__}"\n' in manifest


def test_errors_can_be_pickled_and_copied():
    diagnostics = [tileworks.Diagnostic("warning", "W", "odd"), tileworks.Diagnostic("error", "E1", "bad", "k.py", 3, 1, ("a note",))]
    for kind in (tileworks.TileworksError, tileworks.CompileError, tileworks.RunError, tileworks.CheckError, tileworks.TimeLimitError):
        for error in (kind(diagnostics, "otherwise", "k.py:7: tile block: [0, 0, 0]: no\n"), kind([], "otherwise")):
            for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
                assert type(again) is kind and str(again) == str(error) and again.diagnostics == error.diagnostics
                assert (again.code, again.file, again.line, again.printed) == (error.code, error.file, error.line, error.printed)


def test_targets_may_have_the_suffixes_that_exist():
    a = random_floats(64)
    for target in ("sm_90a", "sm_100a", "sm_100f", "sm_120f"):
        assert tileworks.compile(kernels.vadd, (a, a, a, 64), target=target).target == target[:-1]
    for target in ("sm_80a", "sm_90f", "sm_90b", "90", "sm_"):
        with pytest.raises(ValueError, match="target"):
            tileworks.compile(kernels.vadd, (a, a, a, 64), target=target)


def test_export_stops_at_a_value_error_about_the_kernel():
    import cuda.tile.compilation as compilation

    calls = []
    export = compilation.export_kernel

    def counting_export(*args, **more):
        calls.append(more["bytecode_version"])
        if more["bytecode_version"] in ("13.5", "13.4"):
            raise ValueError(f"Unsupported bytecode version '{more['bytecode_version']}'. Supported versions are: 13.3")
        raise ValueError("the kernel is wrong")

    compilation.export_kernel = counting_export
    try:
        with pytest.raises(ValueError, match="the kernel is wrong"):
            tileworks.compile(kernels.vadd, (random_floats(64), random_floats(64), random_floats(64), 64))
    finally:
        compilation.export_kernel = export
    assert calls == ["13.5", "13.4", "13.3"]


@pytest.mark.parametrize("stage", ["tile", "ptx"])
def test_annotations_of_numbers_and_arrays(stage):
    a, c = np.arange(8, dtype=np.int64), np.zeros(8, np.int64)
    for n in (3, -2**40, np.int32(7)):
        tileworks.launch(1, kernels.add_number, (a, c, n, 8), stage=stage)
        assert np.array_equal(c, a + int(n))
    long, end = random_floats(96), np.zeros(32, np.float32)
    tileworks.launch(1, kernels.load_last_tile, (long, end, 32), stage=stage)
    assert np.array_equal(end, long[64:])
    tileworks.launch(1, kernels.load_with_int64_index, (long, end, 32), stage=stage)
    assert np.array_equal(end, long[:32])


def test_integers_outside_the_parameter_type_raise_overflow_error():
    a, c = random_floats(128), np.zeros(128, np.float32)
    for n in (2**31, -2**31 - 1):
        with pytest.raises(OverflowError, match="ScalarInt64"):
            tileworks.launch(2, kernels.scale_and_offset, (a, c, 0.5, n, True))
    with pytest.raises(OverflowError):
        tileworks.launch(1, kernels.add_number, (np.zeros(8, np.int64), np.zeros(8, np.int64), 2**63, 8))


def test_arrays_that_overlap_in_a_chain_are_one_alias_group():
    from tileworks._cutile import _alias_groups

    w, other = np.zeros(400, np.float32), np.zeros(4, np.float32)
    a, b, c = w[:100], w[50:150], w[120:220]
    for order in ((a, b, c), (a, c, b), (b, a, c), (c, a, b)):
        groups = _alias_groups([*order, other, None])
        assert groups[0] == groups[1] == groups[2] != [] and groups[3:] == [[], []], order
    assert tileworks.compile(kernels.vadd, (a, b, c, 4)).stage("sched").bytes


@pytest.mark.parametrize("stage", ["tile", "sched", "ptx"])
@pytest.mark.parametrize("start", [32, 33, 50])
def test_arrays_may_overlap_partly(stage, start):
    # The arguments are views of one array. The offset of a view in the array determines the alignment of its address.
    w, c = random_floats(192), np.zeros(64, np.float32)
    before = w.copy()
    a, b = w[:64], w[start:start + 64]
    tileworks.launch(1, kernels.vadd, (a, b, c, 64), stage=stage)
    assert np.array_equal(c, before[:64] + before[start:start + 64]) and np.array_equal(w, before)
    # A write of the kernel through one view is visible in the other views and in the array itself.
    tileworks.launch(1, kernels.vadd, (a, w[128:192], b, 64), stage=stage)
    expected = before.copy()
    expected[start:start + 64] = before[:64] + before[128:192]
    assert np.array_equal(w, expected) and np.array_equal(b, expected[start:start + 64])
    w.flags.writeable = False
    fixed = w[:64], w[start:start + 64]
    with pytest.raises(ValueError, match=r"the kernel writes a[+]c, which is read-only"):
        tileworks.launch(1, kernels.vadd, (fixed[0], c, fixed[1], 64), stage=stage)
    # If a read-only view overlaps a writeable view, the kernel may write only the bytes of the writeable view.
    w.flags.writeable = True
    whole = w[:64]
    whole.flags.writeable = False
    with pytest.raises(ValueError, match="which is read-only"):
        tileworks.launch(1, kernels.vadd, (w[start:start + 64], c, whole, 64), stage=stage)


@pytest.mark.parametrize("stage", ["tile", "ptx"])
def test_a_timeout_stops_a_kernel_without_end(stage):
    a = np.zeros(1, np.float32)
    start = time.monotonic()
    with pytest.raises(tileworks.TimeLimitError, match="timeout of 5 s"):
        tileworks.launch(1, kernels.endless, (a,), stage=stage, timeout=5)
    with pytest.raises(TimeoutError, match="--max-time"):
        tileworks.launch(1, kernels.endless, (a,), stage=stage, options=["--max-time=5"])
    assert time.monotonic() - start < 60
    with pytest.raises(ValueError, match="positive"):
        tileworks.launch(1, kernels.endless, (a,), timeout=0)


def test_a_timing_has_a_short_repr_and_runs_the_model_once(monkeypatch):
    from tileworks import _timing

    tools, run_tool = [], _timing.run_tool
    monkeypatch.setattr(_timing, "run_tool", lambda name, *args, **more: tools.append(name) or run_tool(name, *args, **more))
    a = random_floats(1 << 12)
    timing = tileworks.time((64,), kernels.vadd, (a, a.copy(), np.zeros_like(a), 64))
    assert tools == ["tile-time"], "the model runs once"
    assert len(repr(timing)) < 120 and "vadd" in repr(timing) and "us" in repr(timing)
    page = timing._repr_html_()
    assert "<details>" in page and html.escape(timing.report.splitlines()[0]) in page and len(page) < 20_000


def test_the_debugger_shows_the_source_of_a_notebook_cell():
    # A notebook compiles a cell under the name of a file that does not exist, and stores the text of the cell in linecache.
    text = "import cuda.tile as ct\n\n@ct.kernel\ndef cell(a, c):\n    x = ct.load(a, index=(0,), shape=(4,))\n    ct.store(c, index=(0,), tile=x + x)\n"
    file = "/tmp/ipykernel_none/4711.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"__name__": "cell"}
    exec(compile(text, file, "exec"), scope)
    a, c = random_floats(4), np.zeros(4, np.float32)
    stdout_text = tileworks.debug(1, scope["cell"], (a, c), commands=["break 6", "continue", "list"])
    assert "ct.store(c, index=(0,), tile=x + x)" in stdout_text
    assert "ct.store(c, index=(0,), tile=x + x)" in tileworks.view(scope["cell"], (a, c)).html


NINJA = """# Generated by tileiras --emit-ninja. `launcher` is prepended to every command.
launcher =
bar = |
tileiras = 'TOOL x'
options = --lineinfo '--name=a b'

rule tileiras
  command = $launcher $tileiras $own $options -o $out -- $in
  restat = 1
  description = $out

build toolchain: phony $
  tool$ one

build out/a$ b.sm_90.cubin: tileiras k/a$ b.tileirbc | toolchain
  own = --gpu-name=sm_90

build out/c${bar}$$.cubin: tileiras k/c$:.tileirbc | toolchain
  own = --gpu-name=sm_80
"""


def test_compilations_of_a_ninja_file_are_read(tmp_path):
    from tileworks._sweep import parse_compilations

    (tmp_path / "build.ninja").write_text(NINJA)
    first, other = parse_compilations(tmp_path / "build.ninja")
    assert (first.output, first.source, first.dependencies) == ("out/a b.sm_90.cubin", "k/a b.tileirbc", ("tool one",))
    assert first.args == ("TOOL x", "--gpu-name=sm_90", "--lineinfo", "--name=a b", "-o", "out/a b.sm_90.cubin", "--", "k/a b.tileirbc")
    assert (other.output, other.source) == ("out/c|$.cubin", "k/c:.tileirbc")


def test_a_sweep_of_many_compilations_starts_one_client_and_few_tasks(tmp_path, monkeypatch):
    # Each Dask client and each task costs time. A sweep therefore starts one client, and the maximum number of tasks depends only on the
    # number of workers.
    distributed = pytest.importorskip("distributed")
    clients, tasks = [], []
    start, submit = distributed.Client.__init__, distributed.Client.submit
    monkeypatch.setattr(distributed.Client, "__init__", lambda self, *a, **k: clients.append(self) or start(self, *a, **k))
    monkeypatch.setattr(distributed.Client, "submit", lambda self, *a, **k: tasks.append(a) or submit(self, *a, **k))
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nexec cp "$3" "$2"\n')
    compiler.chmod(0o755)
    lines = ["rule tileiras", f"  command = {compiler} -o $out $in"]
    for number in range(200):
        (tmp_path / f"k{number}").write_text(str(number))
        lines.append(f"build out/k{number}: tileiras k{number}")
    (tmp_path / "build.ninja").write_text("\n".join(lines) + "\n")
    assert tileworks.sweep(folder=tmp_path, workers=2) == (200, 0)
    assert len(clients) == 1 and len(tasks) <= 2 * 8 + 1, (len(clients), len(tasks))
    assert all((tmp_path / f"out/k{number}").read_text() == str(number) for number in range(200))


def test_a_sweep_has_one_client_and_compiles_outdated_files(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    clients, client = [], distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda *args, **more: clients.append(args) or client(*args, **more))
    (tmp_path / "k").mkdir()
    a = random_floats(64)
    bytecode = tileworks.compile(kernels.vadd, (a, a, a, 64)).bytecode
    for name in "abc":
        (tmp_path / "k" / f"{name}.tileirbc").write_bytes(bytecode)
    tool = _tools.tool("tileiras")
    args = [tool, "k", "--gpu-name=sm_80", "--gpu-name=sm_90", "--out-dir=out", "--emit-ninja=build.ninja"]
    subprocess.run(args, cwd=tmp_path, check=True)
    assert tileworks.sweep(folder=tmp_path, workers=2) == (6, 0) and len(clients) == 1
    subprocess.run([tool, "k/a.tileirbc", "--gpu-name=sm_80", "-o", "alone.cubin"], cwd=tmp_path, check=True)
    assert (tmp_path / "out" / "a.sm_80.cubin").read_bytes() == (tmp_path / "alone.cubin").read_bytes()
    assert tileworks.sweep(folder=tmp_path, workers=2) == (0, 0) and len(clients) == 1
    (tmp_path / "k" / "b.tileirbc").write_bytes(b"nothing of the kind")
    assert tileworks.sweep(folder=tmp_path, workers=2) == (2, 2)


def test_a_comparison_without_nvidias_compiler_names_the_missing_tool(tmp_path, monkeypatch):
    monkeypatch.delenv("REFERENCE", raising=False)
    a = random_floats(64)
    with pytest.raises(tileworks.TileworksError, match="set REFERENCE"):
        tileworks.compare(kernels.vadd, (a, a, a, 64))
    with pytest.raises(tileworks.TileworksError, match="has no tileiras"):
        tileworks.compare(kernels.vadd, (a, a, a, 64), reference=tmp_path)


def test_a_comparison_shows_both_sides(tmp_path, capsys):
    # A script imitates NVIDIA's tileiras: it runs the driver of Tileworks with -O0, and passes the PTX to the ptxas in its own folder.
    folder = tmp_path / "cu13" / "bin"
    folder.mkdir(parents=True)
    ours, ptxas = _tools.tool("tileiras"), os.environ.get("CUDA_ROOT", HERE.parents[1] / ".toolkit")
    script = f"""#!/bin/sh
for arg; do case $last in -o) out=$arg;; esac; last=$arg; done
'{ours}' "$1" --gpu-name=sm_90 -O0 --emit=ptx -o "$KEEP_FOLDER/x.ptx" && exec "$(dirname "$0")/ptxas" -arch sm_90a "$KEEP_FOLDER/x.ptx" -o "$out"
"""
    (folder / "tileiras").write_text(script)
    (folder / "tileiras").chmod(0o755)
    (folder / "ptxas").symlink_to(pathlib.Path(ptxas) / "bin" / "ptxas")
    a = random_floats(256)
    comparison = tileworks.compare(kernels.vadd, (a, a.copy(), a.copy(), 64), grid=(4,), reference=folder)
    assert ".entry vadd" in comparison.ours.ptx and ".entry vadd" in comparison.theirs.ptx and comparison.ours.ptx != comparison.theirs.ptx
    assert comparison.ours.seconds > 0 and comparison.theirs.seconds > 0 and comparison.theirs.registers > 0 and comparison.ours.spills == 0
    for arg in ("tileworks", "NVIDIA", "registers", "predicted time", "global loads"):
        assert arg in str(comparison)
    assert "<pre>" in comparison._repr_html_()
    program = tmp_path / "k.tileirbc"
    program.write_bytes(tileworks.compile(kernels.vadd, (a, a.copy(), a.copy(), 64)).bytecode)
    assert cli_main(["compare", str(program), "--reference", str(folder), "--ptx", str(tmp_path / "ptx")]) == 0
    assert cli_main(["compare", str(tmp_path / "nowhere"), "--reference", str(folder)]) == 1
    assert "registers" in capsys.readouterr().out
    assert ".entry vadd" in (tmp_path / "ptx" / "ours.ptx").read_text() and (tmp_path / "ptx" / "theirs.ptx").exists()


def test_kernels_of_an_unknown_cutile_name_its_version():
    other = type("kernel", (), {"__module__": "cuda.tile._execution"})()
    with pytest.raises(TypeError, match=r"the installed cuda-tile 1[.0-9]* keeps its kernels in another way"):
        tileworks.compile(other, ())
    with pytest.raises(TypeError, match="not set"):
        tileworks.compile(set(), ())
