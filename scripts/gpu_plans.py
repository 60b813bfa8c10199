"""The plans that `scripts/on-gpu --plans` measures in addition to the default plan. A plan is a set of compiler options; most plans override one
decision of the compiler.

The measurements show the regret of the default plan: its time divided by the time of the best measured plan. If two plans have the same
PTX, on-gpu measures this PTX once.
"""
import hashlib

PLANS = {
    'warps4': ['--warps=4'], 'warps8': ['--warps=8'], 'warps16': ['--warps=16'],
    'occupancy1': ['--occupancy=1'], 'occupancy2': ['--occupancy=2'], 'occupancy3': ['--occupancy=3'], 'occupancy4': ['--occupancy=4'],
    'stages2': ['--stages=2'], 'stages3': ['--stages=3'], 'stages4': ['--stages=4'], 'stages5': ['--stages=5'],
    'tma_on': ['--tma=on'], 'tma_off': ['--tma=off'],
    'roles_on': ['--roles=on'], 'roles_off': ['--roles=off'],
    'split_m_on': ['--split-m=on'], 'split_m_off': ['--split-m=off'],
    'prefetch_on': ['--prefetch=on'], 'prefetch_off': ['--prefetch=off'],
    'mma_sync': ['--mma=mma'],
}
# Plans that change two decisions at once. Reason: on sm_90 these pairs interact through registers and shared memory.
PLANS |= {
    'occupancy1_stages4': ['--occupancy=1', '--stages=4'], 'occupancy2_stages3': ['--occupancy=2', '--stages=3'],
    'roles_on_occupancy1': ['--roles=on', '--occupancy=1'], 'roles_on_occupancy2': ['--roles=on', '--occupancy=2'],
    'warps8_occupancy1': ['--warps=8', '--occupancy=1'], 'warps4_occupancy2': ['--warps=4', '--occupancy=2'],
}


def ptx_hash(path):
    """Returns a hash of PTX without its comments. The comments of two plans always differ, because they name the options."""
    with open(path) as file:
        lines = [line for line in file if not line.lstrip().startswith('//')]
    return hashlib.sha256(''.join(lines).encode()).hexdigest()
