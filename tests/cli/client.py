"""Compiles kernels with cuTile Python, which runs the first tileiras on PATH. tests/cli/clients.rs runs this script.

    client.py KERNELS FOLDER      the folder of kernels.py, and the folder in which PATH must find tileiras
"""
import io, os, re, shutil, sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, sys.argv[1])
import numpy as np
import cuda.tile as ct
from cuda.tile import _compile
from cuda.tile._exception import TileError
from cuda.tile._passes import check_dtype_support
from cuda.tile.compilation import ArrayConstraint, CallingConvention, ConstantConstraint, KernelSignature, export_kernel
import kernels

TARGETS = ['sm_80', 'sm_90', 'sm_100', 'sm_120']
# cuTile itself does not support 8-bit floats on sm_80.
REFUSED = [('matmul_small_floats', 'sm_80')]


def export(case, target, version=None):
    out = io.BytesIO()
    export_kernel(case.kernel, [kernels.signature(case)], out, gpu_code=target, output_format='cubin', bytecode_version=version)
    return out.getvalue()


def check_versions():
    """The client finds the newest bytecode version by compiling empty modules, and reads the compiler's version from its text."""
    newest_version = _compile._get_max_supported_bytecode_version(None)
    assert 'V_13_4' in repr(newest_version) or '13.4' in str(newest_version), newest_version
    text = _compile._get_compiler_version_string()
    assert re.search(r'Cuda compilation tools,\s*release\s*([^,\n]+),\s*V([^\s\n]+)', text), text


def check_newest_bytecode():
    """A development build of cuTile requests bytecode 13.5. The test enables the features of this build, and a kernel compiles."""
    newest_version = _compile._get_max_supported_bytecode_version(None, allow_dev=True)
    assert 'V_13_5' in repr(newest_version), newest_version
    published, _compile.dev_features_enabled = _compile.dev_features_enabled, lambda: True
    try:
        case = next(iter(kernels.cases()))
        assert export(case, 'sm_90', '13.5').startswith(b'\x7fELF')
    finally:
        _compile.dev_features_enabled = published


@ct.kernel
def add_to(a, c, T: ct.Constant[int]):
    x = ct.astype(ct.load(a, index=(0,), shape=(T,)), ct.bfloat16)
    ct.atomic_add(c, ct.arange(T, dtype=ct.int32), x)


def check_failures():
    """An unsupported feature of a target becomes an exception with the location in the kernel's file. cuTile knows these targets'
    limits and would not compile; the test disables its check."""
    check_dtype_support._check_atomic_rmw_dtype = lambda *_: None
    array = lambda dtype: ArrayConstraint(dtype, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False, stride_constant=[1],
                                          stride_divisible_by=[1], shape_divisible_by=[1], base_addr_divisible_by=16)
    parameters = [array(ct.float32), array(ct.bfloat16), ConstantConstraint(64)]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1())
    lines = open(__file__).read().splitlines()
    for target in ['sm_80', 'sm_86', 'sm_87', 'sm_89']:
        try:
            export_kernel(add_to, [signature], io.BytesIO(), gpu_code=target, output_format='cubin')
        except TileError as error:
            text = str(error)
            assert f"Incompatibility with architecture '{target}': atomicRMW ADDF with bf16 is not supported" in text, text
            # cuTile 1.7 does not parse a location with a debug scope from the line of the compiler, and leaves it in the message.
            place = re.search(r'loc\("([^"]*client\.py)":(\d+):\d+\)', text)
            assert place and 'ct.atomic_add' in lines[int(place[2]) - 1], text
        else:
            raise AssertionError(f'{target}: an atomic addition of bf16 was accepted')


def main():
    assert os.path.realpath(os.path.dirname(shutil.which('tileiras'))) == os.path.realpath(sys.argv[2]), shutil.which('tileiras')
    check_versions()
    check_newest_bytecode()
    cases = list(kernels.cases())
    assert len(cases) >= 20, len(cases)
    jobs = [(case, target) for case in cases for target in TARGETS if (case.name, target) not in REFUSED]

    def export_job(job):
        case, target = job
        try:
            cubin = export(case, target)
            return None if cubin.startswith(b'\x7fELF') else f'{case.name} {target}: not an ELF file'
        except Exception as error:
            return f'{case.name} {target}: {str(error) or type(error).__name__}'

    # cuTile's own compiler holds Python's global lock, but the tools run in parallel.
    with ThreadPoolExecutor(2) as pool:
        complaints = [complaint for complaint in pool.map(export_job, jobs) if complaint]
    print(f'{len(jobs) - len(complaints)} of {len(jobs)} exported')
    print('\n'.join(complaints))
    check_failures()
    return 1 if complaints else 0


sys.exit(main())
