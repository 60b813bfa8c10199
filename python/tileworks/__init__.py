"""Compiles tile kernels to the output of any compiler stage, executes them on numpy arrays on the CPU, checks them and predicts their time.

    import numpy as np, cuda.tile as ct, tileworks

    @ct.kernel
    def vadd(a, b, c, T: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(c, index=(i,), tile=ct.load(a, index=(i,), shape=(T,)) + ct.load(b, index=(i,), shape=(T,)))

    a, b, c = np.ones(1024, np.float32), np.ones(1024, np.float32), np.empty(1024, np.float32)
    tileworks.launch((4,), vadd, (a, b, c, 256), check=True)      # writes c in place
    print(tileworks.compile(vadd, (a, b, c, 256)).stage("sched").text)
    print(tileworks.time((4,), vadd, (a, b, c, 256)))
    tileworks.view(vadd, (a, b, c, 256), grid=(4,)).save("vadd.html")
    tileworks.debug((4,), vadd, (a, b, c, 256))                     # opens the debugger in this terminal

A kernel is a kernel of cuTile Python, bytecode as `bytes`, or the path of a bytecode file. No function of this package needs a GPU. Only PTX
needs libdevice, and only cubins need ptxas; `tileiras --doctor` lists the files that it finds. Each function runs the tools of Tileworks as
processes.
"""
from ._compare import Comparison, compare
from ._debug import debug
from ._errors import CheckError, CompileError, Diagnostic, Resource, RunError, TileworksError, TimeLimitError
from ._launch import Run, launch
from ._library import LibraryOutput, compile_in_process
from ._program import STAGES, Program, Stage, compile
from ._sweep import sweep
from ._timing import Timing, time
from ._tools import version
from ._tune import Prediction, TuningResult, tune
from ._view import Page, view

__version__ = "0.1.0"

__all__ = [
           "STAGES",
           "CheckError",
           "Comparison",
           "CompileError",
           "Diagnostic",
           "LibraryOutput",
           "Page",
           "Prediction",
           "Program",
           "Resource",
           "Run",
           "RunError",
           "Stage",
           "TileworksError",
           "TimeLimitError",
           "Timing",
           "TuningResult",
           "compare",
           "compile",
           "compile_in_process",
           "debug",
           "launch",
           "sweep",
           "time",
           "tune",
           "version",
           "view",
]
