"""NVIDIA's compiler as a reference: keeps its PTX and executes it in tile-sim.

Patches known faults of its PTX, so that the rest of a program can still be compared.
"""
import glob, os, re, shutil, subprocess

# A replacement for ptxas: keeps its input and fails, which skips the later steps.
PTXAS = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    *.ptx) cp "$word" "$KEEP_PTX" ;;
    --nv-host=*) cp "${word#--nv-host=}" "$KEEP_HOST" ;;
  esac
done
exit 1
"""
# Instruction limit per warp for programs that may not end: random programs take some thousands.
MOST_INSTRUCTIONS = '3000000'
# Variables that would select another ptxas.
TOOLKITS = ('CUDA_ROOT', 'CUDA_HOME', 'CUDA_PATH')


def outcome(command, **environment):
    """The failure, and the whole standard error."""
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
    """NVIDIA's compiler with another ptxas next to it."""

    def __init__(self, folder, tools, origin=None):
        origin = origin or os.environ.get('REFERENCE') or exit('REFERENCE is not set')
        self.bin, self.tools = f'{folder}/toolkit/bin', tools
        os.makedirs(self.bin)
        around = os.path.dirname(os.path.abspath(origin))
        for name in set(os.listdir(around)) - {os.path.basename(os.path.abspath(origin))}:
            os.symlink(f'{around}/{name}', f'{folder}/toolkit/{name}')
        for name in set(os.listdir(origin)) - {'ptxas', 'tileiras'}:
            os.symlink(f'{os.path.abspath(origin)}/{name}', f'{self.bin}/{name}')
        # Older versions search the library at its path in a toolkit, not in their Python package.
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
        # It searches ptxas in its own folder.
        shutil.copy(f'{origin}/tileiras', self.bin)
        with open(f'{self.bin}/ptxas', 'w') as file:
            file.write(PTXAS)
        os.chmod(f'{self.bin}/ptxas', 0o755)

    def compile(self, bytecode, target, folder):
        """Writes k.ptx to a new folder; returns the failure."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        command = [f'{self.bin}/tileiras', bytecode, '--gpu-name', target, '-o', f'{folder}/k.cubin']
        stderr_text = executed(command, KEEP_PTX=f'{folder}/k.ptx', KEEP_HOST=f'{folder}/k.o')
        return '' if os.path.exists(f'{folder}/k.ptx') else stderr_text

    def execute(self, folder, ptx, launch, out, *options):
        """Writes the outputs to a folder; returns the failure."""
        os.makedirs(out, exist_ok=True)
        with open(f'{folder}/{ptx}') as file:
            maps = ['--host-object', f'{folder}/k.o', '--allow-native'] if '.hidden' in file.read() else []
        bounds = ['--instruction-limit', MOST_INSTRUCTIONS]
        return executed([f'{self.tools}/tile-sim', f'{folder}/{ptx}', '--launch', launch, '--out-dir', out, *bounds, *maps, *options])

    def patch(self, folder):
        """Writes patched.ptx next to k.ptx; returns the applied patches."""
        with open(f'{folder}/k.ptx') as file:
            text = file.read()
        names = []
        for name, patched in PATCHES.items():
            before, text = text, patched(text)
            names += [name] * (text != before)
        with open(f'{folder}/patched.ptx', 'w') as file:
            file.write(text)
        return ', '.join(names)

    def run(self, bytecode, target, launch, folder):
        """Both; returns the failure."""
        failed = self.compile(bytecode, target, folder)
        return f'reference: {failed}' if failed else self.execute(folder, 'k.ptx', launch, folder)


# Barriers of all threads: of a CTA, of a cluster, and of the workers of a cluster.
BARRIER = re.compile(r'\s*(bar\.sync|barrier\.sync|barrier\.cluster\.wait|mbarrier\.try_wait)\b')


def with_slots_kept(ptx):
    """One thread allocates memory for `alloca` and passes the pointer to the others through a location in shared memory. Other
    threads may still read the old contents of that location, and it is reused before all have read the pointer: two barriers are
    missing. If two CTAs share a tile, the barriers belong to the cluster; there the patch gives the pointer a location of its
    own."""
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
    """Whether the pointer was found that the first CTA stores between a call and a barrier, and that is read after the barrier."""
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
    """An accumulator is read after the commit of its MMA and before the wait, or one register is read for two MMAs, which the PTX
    ISA leaves undefined too. The patch waits for each MMA at once."""
    wait = 'wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;'
    return re.sub(r'wgmma\.mma_async\.[^;]*;', lambda product: f'{product[0]}\n\t{wait}', ptx)


# Known faults of its PTX, and their patches; text without the fault stays unchanged.
PATCHES = {'slot of alloca': with_slots_kept, 'wgmma not awaited': with_awaited_wgmma}
