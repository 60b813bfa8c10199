"""The command `tileworks`: runs programs for a GPU on the CPU, exports kernels for build systems, runs sweeps on several machines, and
compares a kernel with the code of NVIDIA's compiler."""
from __future__ import annotations

import argparse
import sys

from . import __version__
from ._errors import TileworksError


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tileworks", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    sweep = subparsers.add_parser("sweep", help="run the compilations of a ninja file on a Dask cluster",
                                  description="Runs what is out of date of a file that `tileiras --emit-ninja` wrote. "
                                              "The tools must be at the same path on every worker.")
    sweep.add_argument("file", nargs="?", default="build.ninja")
    sweep.add_argument("-C", dest="folder", default=".", metavar="DIR", help="the folder of the file, where its paths begin")
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="the cluster's scheduler, such as tcp://HOST:8786")
    where.add_argument("--workers", type=int, metavar="N", help="number of workers on this machine [default: its cores]")
    compare = subparsers.add_parser("compare", help="one kernel against NVIDIA's compiler",
                                    description="Compiles bytecode with this project and with NVIDIA's tileiras, and prints registers, "
                                                "spills, predicted time and score side by side. Only this command needs NVIDIA's toolkit.")
    compare.add_argument("kernel", help="bytecode")
    compare.add_argument("--gpu-name", default="sm_90", metavar="TARGET")
    compare.add_argument("-O", dest="opt_level", type=int, default=3, metavar="LEVEL")
    compare.add_argument("--launch", metavar="FILE", help="the launch whose time is predicted")
    compare.add_argument("--gpu", metavar="NAME", help="a machine of tile-time [default: the one that stands for the target]")
    compare.add_argument("--reference", metavar="DIR", help="the folder with NVIDIA's tileiras and ptxas [default: $REFERENCE]")
    compare.add_argument("--allow-native", action="store_true", help="run the host code of NVIDIA's cubin, which makes its tensor maps")
    compare.add_argument("--ptx", metavar="DIR", help="a folder for ours.ptx and theirs.ptx")
    export = subparsers.add_parser("export", help="write the bytecode of a cuTile Python kernel",
                                   description="Writes the bytecode of a kernel in the table `tileworks_exports` of a Python file. The table "
                                               "maps a name to a pair: the kernel, and arguments like those of its launch.")
    export.add_argument("file", help="the Python file")
    export.add_argument("kernel", help="the name of the kernel in the table")
    export.add_argument("--gpu-name", default="sm_80", metavar="TARGET", help="the target for which cuTile checks the kernel [default: sm_80]")
    export.add_argument("--depfile", metavar="FILE", help="write the imported Python files to this depfile for make and ninja")
    export.add_argument("-o", dest="output", required=True, metavar="FILE", help="the bytecode file")
    run = subparsers.add_parser("run", help="run a program for a GPU on the CPU",
                                description="Runs a command and its children with a CUDA driver that executes kernels on the CPU. Kernels are "
                                            "those that cuTile and other clients compile during the run, and PTX. Prints a summary.")
    run.add_argument("--device", default="sm_90", metavar="NAME", help="the GPU to imitate: a target, or a chip such as h200 [default: sm_90]")
    run.add_argument("--stage", default="tile", choices=("tile", "aa", "as", "sched", "ptx"),
                     help="the stage of the compiler whose output is executed [default: tile, the program as written]")
    run.add_argument("--check", nargs="?", const="warn", default="off", choices=("warn", "error"), metavar="WHEN",
                     help="report races, missing tokens, uninitialised reads and violated assumptions; with `error` they fail the launch "
                          "and the run")
    run.add_argument("--time-limit", type=float, metavar="SECONDS", help="limit of a launch")
    run.add_argument("--no-torch", action="store_true", help="leave torch's device \"cuda\" as it is")
    run.add_argument("arguments", nargs="+", metavar="COMMAND", help="the command and its arguments, after `--`")
    options = parser.parse_args(args)
    try:
        return {"sweep": _sweep, "compare": _compare, "export": _export, "run": _run}[options.command](options)
    except (TileworksError, OSError) as error:
        print(f"tileworks: error: {error}", file=sys.stderr)
        return 1


def _export(options: argparse.Namespace) -> int:
    from ._export import export

    export(options.file, options.kernel, target=options.gpu_name, output=options.output, depfile=options.depfile)
    return 0


def _run(options: argparse.Namespace) -> int:
    """Carries out `tileworks run`. Returns the exit code."""
    from ._cpu_run import run

    return run(options.arguments, device=options.device, stage=options.stage, check=options.check, torch=not options.no_torch,
               time_limit=options.time_limit)


def _compare(options: argparse.Namespace) -> int:
    """Carries out `tileworks compare`. Returns the exit code."""
    from pathlib import Path

    from ._compare import compare

    comparison = compare(options.kernel, target=options.gpu_name, opt_level=options.opt_level, launch=options.launch, gpu=options.gpu,
                         reference=options.reference, allow_native=options.allow_native)
    if options.ptx:
        Path(options.ptx).mkdir(parents=True, exist_ok=True)
        for name, side in (("ours", comparison.ours), ("theirs", comparison.theirs)):
            (Path(options.ptx) / f"{name}.ptx").write_text(side.ptx)
    print(comparison)
    return 0


def _sweep(options: argparse.Namespace) -> int:
    """Carries out `tileworks sweep`. Returns the exit code."""
    from ._sweep import sweep

    ran, failed = sweep(options.file, scheduler=options.scheduler, workers=options.workers, folder=options.folder)
    print(f"{ran} compiled, {failed} failed" if ran else "nothing to compile")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
