"""Compiles kernels with cuTile Python through the tileiras that PATH leads to. Run by tests/cli/clients.rs.

    client.py KERNELS FOLDER      the folder of kernels.py, and the one that tileiras must be found in
"""
import io, os, re, shutil, sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, sys.argv[1])
import numpy as np
import cuda.tile as ct
from cuda.tile import _compile
from cuda.tile._exception import TileError
from cuda.tile.compilation import export_kernel
import kernels

TARGETS = ['sm_80', 'sm_90', 'sm_100', 'sm_120']


def export(case, target, version=None):
    out = io.BytesIO()
    export_kernel(case.kernel, [kernels.signature(case)], out, gpu_code=target, output_format='cubin', bytecode_version=version)
    return out.getvalue()


def versions():
    """The client asks for the newest bytecode version by compiling empty modules, and for the version by its text."""
    found = _compile._get_max_supported_bytecode_version(None)
    assert 'V_13_4' in repr(found) or '13.4' in str(found), found
    text = _compile._get_compiler_version_string()
    assert re.search(r'Cuda compilation tools,\s*release\s*([^,\n]+),\s*V([^\s\n]+)', text), text


def failures():
    """A kernel that asks for too much becomes an exception that says where, in the kernel's file."""
    square = np.zeros((1024, 1024), np.float32)
    case = kernels.Case('large', kernels.transpose, [square, square, 512, 512], (2, 2, 1), {})
    for target in TARGETS:
        try:
            export(case, target)
        except TileError as error:
            text = str(error)
            assert re.search(r'uses too much shared data \(0x[0-9a-f]+ bytes, 0x[0-9a-f]+ max\)', text), text
            # cuTile 1.7 cannot print an exception whose place it took from the compiler's line, and leaves one with a debug scope
            # in the message. It is the line of a statement of the kernel.
            place = re.search(r'loc\("([^"]*kernels\.py)":(\d+):\d+\)', text)
            assert place, text
            line = open(place[1]).read().splitlines()[int(place[2]) - 1]
            assert 'ct.transpose' in line, (place[0], line)
        else:
            raise AssertionError(f'{target}: a transposition of a tile of 1 MB was accepted')


def main():
    assert os.path.realpath(os.path.dirname(shutil.which('tileiras'))) == os.path.realpath(sys.argv[2]), shutil.which('tileiras')
    versions()
    cases = list(kernels.cases())
    assert len(cases) >= 20, len(cases)
    jobs = [(case, target) for case in cases for target in TARGETS]

    def one(job):
        case, target = job
        try:
            cubin = export(case, target)
            return None if cubin.startswith(b'\x7fELF') else f'{case.name} {target}: not an ELF file'
        except Exception as error:
            return f'{case.name} {target}: {str(error).splitlines()[0] if str(error) else type(error).__name__}'

    # cuTile's own compiler holds Python's lock; the tools run beside it.
    with ThreadPoolExecutor(2) as pool:
        complaints = [complaint for complaint in pool.map(one, jobs) if complaint]
    print(f'{len(jobs) - len(complaints)} of {len(jobs)} exported')
    print('\n'.join(complaints))
    failures()
    return 1 if complaints else 0


sys.exit(main())
