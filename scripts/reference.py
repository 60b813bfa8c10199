"""NVIDIA's compiler as something to compare with: its PTX is kept and executed in tile-sim.

Where its PTX has a fault that is known, it can be mended, so that the rest of a program can be compared all the same.
"""
import glob, os, re, shutil, subprocess

# In place of ptxas: keeps what the compiler made and fails, which saves the time of the rest.
PTXAS = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    *.ptx) cp "$word" "$KEEP_PTX" ;;
    --nv-host=*) cp "${word#--nv-host=}" "$KEEP_HOST" ;;
  esac
done
exit 1
"""
# Warp instructions after which a program is taken not to end: random programs take some thousands.
MOST_INSTRUCTIONS = '3000000'
# What would lead it to another ptxas.
TOOLKITS = ('CUDA_ROOT', 'CUDA_HOME', 'CUDA_PATH')


def outcome(command, **environment):
    """What went wrong, and everything that was said."""
    around = {name: value for name, value in os.environ.items() if name not in TOOLKITS}
    try:
        done = subprocess.run(command, capture_output=True, timeout=300, env=dict(around, **environment))
    except subprocess.TimeoutExpired:
        return 'took too long', ''
    said = ' '.join(done.stderr.decode(errors='replace').split())
    return '' if done.returncode == 0 else f'{done.returncode}: {said[:300]}', said


def executed(command, **environment):
    return outcome(command, **environment)[0]


class Reference:
    """The reference with another ptxas beside it."""

    def __init__(self, folder, tools, origin=None):
        origin = origin or os.environ.get('REFERENCE') or exit('REFERENCE is not set')
        self.bin, self.tools = f'{folder}/toolkit/bin', tools
        os.makedirs(self.bin)
        around = os.path.dirname(os.path.abspath(origin))
        for name in set(os.listdir(around)) - {os.path.basename(os.path.abspath(origin))}:
            os.symlink(f'{around}/{name}', f'{folder}/toolkit/{name}')
        for name in set(os.listdir(origin)) - {'ptxas', 'tileiras'}:
            os.symlink(f'{os.path.abspath(origin)}/{name}', f'{self.bin}/{name}')
        # Older ones look for the library where a toolkit has it, not where its Python package does.
        library = glob.glob(f'{around}/lib/libnvvm.so*')
        if library and not os.path.exists(f'{around}/nvvm/lib64'):
            inside = f'{folder}/toolkit/nvvm'
            kept = os.listdir(inside) if os.path.exists(inside) else []
            if os.path.islink(inside):
                os.unlink(inside)
            os.makedirs(f'{inside}/lib64')
            for name in kept:
                os.symlink(f'{around}/nvvm/{name}', f'{inside}/{name}')
            os.symlink(library[0], f'{inside}/lib64/libnvvm.so')
        # It looks for ptxas where it lies itself.
        shutil.copy(f'{origin}/tileiras', self.bin)
        with open(f'{self.bin}/ptxas', 'w') as file:
            file.write(PTXAS)
        os.chmod(f'{self.bin}/ptxas', 0o755)

    def compile(self, bytecode, target, folder):
        """Leaves k.ptx in a new folder; gives what went wrong."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        command = [f'{self.bin}/tileiras', bytecode, '--gpu-name', target, '-o', f'{folder}/k.cubin']
        said = executed(command, KEEP_PTX=f'{folder}/k.ptx', KEEP_HOST=f'{folder}/k.o')
        return '' if os.path.exists(f'{folder}/k.ptx') else said

    def execute(self, folder, ptx, launch, out, *options):
        """Leaves the outputs in a folder; gives what went wrong."""
        os.makedirs(out, exist_ok=True)
        with open(f'{folder}/{ptx}') as file:
            maps = ['--host-object', f'{folder}/k.o', '--allow-native'] if '.hidden' in file.read() else []
        bounds = ['--instruction-limit', MOST_INSTRUCTIONS]
        return executed([f'{self.tools}/tile-sim', f'{folder}/{ptx}', '--launch', launch, '--out-dir', out, *bounds, *maps, *options])

    def mend(self, folder):
        """Leaves mended.ptx beside k.ptx; gives what was mended."""
        with open(f'{folder}/k.ptx') as file:
            text = file.read()
        names = []
        for name, mended in MENDS.items():
            before, text = text, mended(text)
            names += [name] * (text != before)
        with open(f'{folder}/mended.ptx', 'w') as file:
            file.write(text)
        return ', '.join(names)

    def run(self, bytecode, target, launch, folder):
        """Both; gives what went wrong."""
        failed = self.compile(bytecode, target, folder)
        return f'reference: {failed}' if failed else self.execute(folder, 'k.ptx', launch, folder)


def with_slots_kept(ptx):
    """One thread allocates memory for `alloca` and hands the pointer to the others through a place in shared memory. That place
    may still be read by others for what it held before, and is used again before all have read the pointer: two barriers lack.
    """
    lines = ptx.split('\n')
    before, after = {}, {}
    for number, line in enumerate(lines):
        if re.search(r'call\S*\s.*__cuda_syscall_aligned_malloc', line):
            guard = next(i for i in range(number, 0, -1) if re.match(r'\s*@!?%p\d+\s+bra', lines[i]))
            barrier = next((i for i in range(number, len(lines)) if re.match(r'\s*(bar|barrier)\.sync\s', lines[i])), None)
            if barrier is None:
                continue
            read = next((i for i in range(barrier, len(lines)) if re.match(r'\s*ld\.shared', lines[i])), barrier)
            before[guard] = after[read] = lines[barrier]
    found = []
    for number, line in enumerate(lines):
        found += [part for part in (before.get(number), line, after.get(number)) if part is not None]
    return '\n'.join(found)


def with_products_awaited(ptx):
    """Sums are read after their product was committed and before it was waited for: each product is waited for at once."""
    commit, wait = 'wgmma.commit_group.sync.aligned;', 'wgmma.wait_group.sync.aligned 0;'
    return ptx.replace(commit, f'{commit}\n\t{wait}')


# What is known to be wrong in its PTX, and how to mend it; the text stays as it is where there is nothing to mend.
MENDS = {'slot of alloca': with_slots_kept, 'product not waited for': with_products_awaited}
