"""Tests of the CPU device, a CUDA driver that executes kernels on the CPU: `tileworks.cpu` and `tileworks run`."""
import os
import pathlib
import subprocess
import sys

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest

import tileworks.cpu

ROOT = pathlib.Path(__file__).parents[2]
#: The stream of all launches: the default stream.
STREAM = 0


@ct.kernel
def double(x, y, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * 2)


@ct.kernel
def sum_arrays(arrays, out, T: ct.Constant[int]):
    result = ct.zeros((T,), dtype=ct.float32)
    for number in range(len(arrays)):
        result = result + ct.load(arrays[number], index=(0,), shape=(T,))
    ct.store(out, index=(0,), tile=result)


@ct.kernel
def gather_16(x, y):
    ct.store(y, index=(0,), tile=ct.gather(x, ct.arange(16, dtype=ct.int32), check_bounds=False))


@pytest.fixture(autouse=True)
def cpu_device():
    with tileworks.cpu.device("sm_90", time_limit=60):
        yield


def run_tileworks(*args, **environment):
    """Runs `tileworks run` with these arguments and environment variables."""
    command = [sys.executable, "-m", "tileworks", "run", *args]
    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(tileworks.__file__).parents[1])} | environment
    for name in ("TILEWORKS_OPTIONS", "TILEWORKS_STAGE", "TILEWORKS_CHECK", "TILEWORKS_TIME_LIMIT"):
        env.pop(name, None)
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.float64, ml_dtypes.bfloat16])
def test_numpy_arrays_are_written_in_place(dtype):
    x, y = np.arange(64).astype(dtype), np.zeros(64, dtype)
    ct.launch(STREAM, (4,), double, (x, y, 16))
    assert np.array_equal(y, x + x)


def test_views_share_their_memory():
    memory = np.arange(128, dtype=np.float32)
    ct.launch(STREAM, (2,), double, (memory[:32], memory[64:96], 16))
    assert np.array_equal(memory[64:96], 2 * np.arange(32)) and np.array_equal(memory[96:], np.arange(96, 128))


def test_lists_of_arrays():
    arrays, out = [np.full(16, value, np.float32) for value in (1, 2, 4)], np.zeros(16, np.float32)
    ct.launch(STREAM, (1,), sum_arrays, (arrays, out, 16))
    assert np.array_equal(out, np.full(16, 7))


def test_a_read_only_array_is_not_written():
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    y.flags.writeable = False
    with pytest.raises(RuntimeError, match="illegal memory access"):
        ct.launch(STREAM, (1,), double, (x, y, 16))
    assert not y.any()


def test_an_access_outside_an_array_names_the_line():
    x, y = np.ones(8, np.float32), np.zeros(16, np.float32)
    with pytest.raises(RuntimeError) as raised:
        ct.launch(STREAM, (1,), gather_16, (x, y))
    assert "RUN001" in str(raised.value) and "test_cpu.py" in str(raised.value)


def test_a_negative_stride_is_an_error():
    x, y = np.ones(16, np.float32)[::-1], np.zeros(16, np.float32)
    with pytest.raises(ValueError, match="negative stride"):
        ct.launch(STREAM, (1,), double, (x, y, 16))


def test_a_process_has_one_device():
    with pytest.raises(ValueError, match="already uses"):
        tileworks.cpu.device("sm_100").__enter__()


def test_the_example_passes_under_run():
    ended = run_tileworks("--check=error", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "examples/ci"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 launches of" in ended.stderr, ended.stderr


def test_run_returns_the_exit_code_of_its_command():
    assert run_tileworks("--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert run_tileworks("--", "no-such-command-of-this-machine").returncode == 127
