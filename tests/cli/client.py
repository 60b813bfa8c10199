"""Compiles kernels with cuTile Python through the tileiras that PATH leads to. Run by tests/cli/clients.rs.

    client.py KERNELS      the folder of kernels.py
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


@ct.kernel
def narrow(a, c, T: ct.Constant[int]):
    x = ct.load(a, index=(0,), shape=(T,))
    ct.store(c, index=(0,), tile=ct.astype(ct.astype(x, ct.float8_e4m3fn), ct.float32))


def versions():
    """The client asks for the newest bytecode version by compiling empty modules, and for the version by its text."""
    found = _compile._get_max_supported_bytecode_version(None)
    assert 'V_13_4' in repr(found) or '13.4' in str(found), found
    text = _compile._get_compiler_version_string()
    assert re.search(r'Cuda compilation tools,\s*release\s*([^,\n]+),\s*V([^\s\n]+)', text), text


def failures():
    """What the target cannot do becomes an exception with the kernel's file and line. The client knows this one itself, so its
    own check is left out."""
    _compile.check_dtype_support = lambda *_: None
    array = np.zeros(128, np.float32)
    case = kernels.Case('narrow', narrow, [array, array, 128], (1, 1, 1), {})
    try:
        export(case, 'sm_80')
    except Exception as error:
        text = str(error)
        assert "unsupported type 'f8E4M3FN'" in text, text
        assert re.search(r'client\.py.*\d+', text), text
        return
    raise AssertionError('an 8-bit float was accepted for sm_80')


def main():
    assert os.path.basename(os.path.dirname(shutil.which('tileiras'))) in ('debug', 'release'), shutil.which('tileiras')
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
