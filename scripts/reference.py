"""NVIDIA's compiler as something to compare with: its PTX is kept and executed in tile-sim.

Where its PTX has a fault that is known, it can be patched, so that the rest of a program can be compared all the same.
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
    """What went wrong, and everything that was stderr_text."""
    around = {name: value for name, value in os.environ.items() if name not in TOOLKITS}
    try:
        done = subprocess.run(command, capture_output=True, timeout=300, env=dict(around, **environment))
    except subprocess.TimeoutExpired:
        return 'took too long', ''
    stderr_text = ' '.join(done.stderr.decode(errors='replace').split())
    # Warnings of any length may precede the error.
    return '' if done.returncode == 0 else f'{done.returncode}: {stderr_text[max(stderr_text.find("error"), 0):][:300]}', stderr_text


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
        stderr_text = executed(command, KEEP_PTX=f'{folder}/k.ptx', KEEP_HOST=f'{folder}/k.o')
        return '' if os.path.exists(f'{folder}/k.ptx') else stderr_text

    def execute(self, folder, ptx, launch, out, *options):
        """Leaves the outputs in a folder; gives what went wrong."""
        os.makedirs(out, exist_ok=True)
        with open(f'{folder}/{ptx}') as file:
            maps = ['--host-object', f'{folder}/k.o', '--allow-native'] if '.hidden' in file.read() else []
        bounds = ['--instruction-limit', MOST_INSTRUCTIONS]
        return executed([f'{self.tools}/tile-sim', f'{folder}/{ptx}', '--launch', launch, '--out-dir', out, *bounds, *maps, *options])

    def mend(self, folder):
        """Leaves patched.ptx beside k.ptx; gives what was patched."""
        with open(f'{folder}/k.ptx') as file:
            text = file.read()
        names = []
        for name, patched in MENDS.items():
            before, text = text, patched(text)
            names += [name] * (text != before)
        with open(f'{folder}/patched.ptx', 'w') as file:
            file.write(text)
        return ', '.join(names)

    def run(self, bytecode, target, launch, folder):
        """Both; gives what went wrong."""
        failed = self.compile(bytecode, target, folder)
        return f'reference: {failed}' if failed else self.execute(folder, 'k.ptx', launch, folder)


# What all threads wait at: of a block, of a cluster, and of the workers of a cluster.
BARRIER = re.compile(r'\s*(bar\.sync|barrier\.sync|barrier\.cluster\.wait|mbarrier\.try_wait)\b')


def with_slots_kept(ptx):
    """One thread allocates memory for `alloca` and hands the pointer to the others through a place in shared memory. That place
    may still be read by others for what it held before, and is used again before all have read the pointer: two barriers lack.
    Where two blocks share a tile, the barriers are some of the cluster; there the pointer gets a place of its own instead.
    """
    lines = ptx.split('\n')
    before, after, slots = {}, {}, 0
    for number, line in enumerate(lines):
        if re.search(r'call\S*\s.*__cuda_syscall_aligned_malloc', line):
            guard = next(i for i in range(number, 0, -1) if re.match(r'\s*@!?%p\d+\s+bra', lines[i]))
            barrier = next((i for i in range(number, len(lines)) if BARRIER.match(lines[i])), None)
            if barrier is None:
                continue
            if not re.match(r'\s*(bar|barrier)\.sync\s', lines[barrier]):
                slots += with_own_register(lines, number, barrier, slots)
                continue
            read = next((i for i in range(barrier, len(lines)) if re.match(r'\s*ld\.shared', lines[i])), barrier)
            before[guard] = after[read] = lines[barrier]
    found = []
    for number, line in enumerate(lines):
        if slots and '.entry' in line:
            found += [f'.shared .align 8 .b64 alloca_slot_{slot};' for slot in range(slots)]
        found += [part for part in (before.get(number), line, after.get(number)) if part is not None]
    return '\n'.join(found)


def with_own_register(lines, call, barrier, slot):
    """Whether the pointer that is stored between a call and a barrier, and read behind it from the first block, was found."""
    store = next((i for i in range(call, barrier) if re.match(r'\s*st\.shared\.b64\s', lines[i])), None)
    read = next((i for i in range(barrier, len(lines)) if re.match(r'\s*ld\.shared::cluster\.b64 ', lines[i])), None)
    if store is None or read is None:
        return False
    place, pointer = f'alloca_slot_{slot}', lines[read].split()[1].rstrip(',')
    lines[store] = re.sub(r'\[.*\]', f'[{place}]', lines[store])
    lines[read] = (f'\t{{ .reg .b32 %place; mov.b32 %place, {place}; mapa.shared::cluster.u32 %place, %place, 0; '
                   f'ld.shared::cluster.b64 {pointer}, [%place]; }}')
    return True


def with_awaited_wgmma(ptx):
    """Sums are read after their product was committed and before it was waited for, or a register that one product reads is read
    for another, which the PTX ISA leaves undefined as well: each product is waited for at once.
    """
    wait = 'wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;'
    return re.sub(r'wgmma\.mma_async\.[^;]*;', lambda product: f'{product[0]}\n\t{wait}', ptx)


# What is known to be wrong in its PTX, and how to mend it; the text stays as it is where there is nothing to mend.
MENDS = {'slot of alloca': with_slots_kept, 'product not waited for': with_awaited_wgmma}
