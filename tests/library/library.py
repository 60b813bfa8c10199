"""Tests the ctypes wrapper of libtileworks: library.py K.TILEIRBC CUBIN_SM_80 CUBIN_SM_90 FATBIN."""
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tileworks import CompileError, compile_in_process

bytecode, *expected = (Path(path).read_bytes() for path in sys.argv[1:])
options = [
    [("gpu-name", "sm_80")],
    [("gpu-name", "sm_90")],
    [("gpu-name", "sm_80"), ("gpu-name", "sm_90"), ("emit", "fatbin")],
]
with ThreadPoolExecutor(8) as pool:
    outputs = list(pool.map(lambda which: compile_in_process(bytecode, options[which % 3]), range(8)))
assert all(output.data == expected[which % 3] for which, output in enumerate(outputs))
assert compile_in_process(bytecode, {"gpu-name": "sm_90", "emit": "ptx"}).data.startswith(b"//!tile ptx")
for bad, wanted in (({"gpu-name": "sm_75"}, "sm_75"), ({"pipeline": "x"}, "pipeline"), ({}, "target")):
    try:
        compile_in_process(bytecode, bad)
    except CompileError as error:
        assert wanted in str(error), error
    else:
        raise AssertionError(f"{bad} is accepted")
try:
    compile_in_process(bytecode[:100], {"gpu-name": "sm_90"}, name="half")
except CompileError as error:
    assert error.diagnostics, error
else:
    raise AssertionError("half of a file is accepted")
