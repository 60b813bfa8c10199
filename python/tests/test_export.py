"""Tests of `tileworks export`."""
import os
import subprocess
import sys

import pytest

KERNELS = """
import cuda.tile as ct
import numpy as np
from tiles import TILE

@ct.kernel
def copy(x, y, T: ct.Constant[int]):
    ct.store(y, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(T,)))

vector = np.zeros(1024, np.float32)
tileworks_exports = {"copy": (copy, (vector, vector.copy(), TILE)), "wrong": (3, ())}
"""


@pytest.fixture
def project(tmp_path):
    """A folder with a Python file of kernels and a module that it imports."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "tiles.py").write_text("TILE = 256\n")
    return tmp_path


def export(project, *arguments):
    """Runs `tileworks export` in the folder of the project."""
    command = [sys.executable, "-m", "tileworks", "export", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_the_bytecode_and_its_dependencies_are_written(project):
    arguments = ("kernels.py", "copy", "--depfile", "copy.d", "-o", "copy.tileirbc")
    assert export(project, *arguments).returncode == 0
    assert (project / "copy.tileirbc").read_bytes().startswith(b"\x7fTileIR\0")
    target, files = (project / "copy.d").read_text().split(": ")
    assert target == "copy.tileirbc"
    assert sorted(os.path.basename(file) for file in files.split()) == ["kernels.py", "tiles.py"]
    # Equal bytecode keeps the time of the file.
    before = os.stat(project / "copy.tileirbc").st_mtime_ns
    assert export(project, *arguments).returncode == 0
    assert os.stat(project / "copy.tileirbc").st_mtime_ns == before


@pytest.mark.parametrize("arguments, message", [
    (("kernels.py", "none"), "no kernel 'none'; its kernels are copy, wrong"),
    (("kernels.py", "wrong"), "a kernel is one of cuTile Python"),
    (("tiles.py", "copy"), "no table tileworks_exports"),
])
def test_wrong_names_are_errors(project, arguments, message):
    ran = export(project, *arguments, "-o", "out")
    assert ran.returncode == 1 and message in ran.stderr
    assert not (project / "out").exists()
