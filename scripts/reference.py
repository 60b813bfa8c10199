"""Runs NVIDIA's compiler as a reference: keeps its PTX and executes the PTX in tile-sim.

The module also patches known faults in this PTX, so that a program with such a fault can still be compared.
"""
import glob, os, re, shutil, subprocess

# A script that NVIDIA's compiler runs in place of ptxas. It copies the PTX and the host object, and fails, so that the compiler ends.
SAVING_PTXAS_SCRIPT = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    *.ptx) cp "$word" "$KEEP_PTX" ;;
    --nv-host=*) cp "${word#--nv-host=}" "$KEEP_HOST" ;;
  esac
done
exit 1
"""
# Instruction limit per warp, because a random program may be endless. Random programs that end take a few thousand instructions.
MAX_WARP_INSTRUCTIONS = '3000000'
# Environment variables that would make NVIDIA's compiler use the ptxas of another toolkit. Commands run without them.
TOOLKIT_VARIABLES = ('CUDA_ROOT', 'CUDA_HOME', 'CUDA_PATH')


def run_command(command, **environment):
    """Runs a command. Returns a description of the failure, empty after success, and the complete standard error."""
    inherited = {name: value for name, value in os.environ.items() if name not in TOOLKIT_VARIABLES}
    try:
        done = subprocess.run(command, capture_output=True, timeout=300, env=dict(inherited, **environment))
    except subprocess.TimeoutExpired:
        return 'took too long', ''
    stderr_text = ' '.join(done.stderr.decode(errors='replace').split())
    # Start the description at the first error, because warnings of any length may precede it.
    return '' if done.returncode == 0 else f'{done.returncode}: {stderr_text[max(stderr_text.find("error"), 0):][:300]}', stderr_text


def failure_of(command, **environment):
    """Runs a command. Returns a description of the failure, empty after success."""
    return run_command(command, **environment)[0]


class Reference:
    """A copy of NVIDIA's toolkit in which a script takes the place of ptxas."""

    def __init__(self, folder, tools, origin=None):
        origin = origin or os.environ.get('REFERENCE') or exit('REFERENCE is not set')
        self.bin, self.tools = f'{folder}/toolkit/bin', tools
        os.makedirs(self.bin)
        toolkit = os.path.dirname(os.path.abspath(origin))
        for name in set(os.listdir(toolkit)) - {os.path.basename(os.path.abspath(origin))}:
            os.symlink(f'{toolkit}/{name}', f'{folder}/toolkit/{name}')
        for name in set(os.listdir(origin)) - {'ptxas', 'tileiras'}:
            os.symlink(f'{os.path.abspath(origin)}/{name}', f'{self.bin}/{name}')
        # Older versions of NVIDIA's compiler search libnvvm in nvvm/lib64, its path in a CUDA toolkit. In the Python package libnvvm is in lib.
        library = glob.glob(f'{toolkit}/lib/libnvvm.so*')
        if library and not os.path.exists(f'{toolkit}/nvvm/lib64'):
            nvvm = f'{folder}/toolkit/nvvm'
            linked_names = os.listdir(nvvm) if os.path.exists(nvvm) else []
            if os.path.islink(nvvm):
                os.unlink(nvvm)
            os.makedirs(f'{nvvm}/lib64')
            for name in linked_names:
                os.symlink(f'{toolkit}/nvvm/{name}', f'{nvvm}/{name}')
            os.symlink(library[0], f'{nvvm}/lib64/libnvvm.so')
        # Copy tileiras instead of linking it, because it runs the ptxas in its own folder.
        shutil.copy(f'{origin}/tileiras', self.bin)
        with open(f'{self.bin}/ptxas', 'w') as file:
            file.write(SAVING_PTXAS_SCRIPT)
        os.chmod(f'{self.bin}/ptxas', 0o755)

    def compile(self, bytecode, target, folder):
        """Compiles bytecode and writes k.ptx to a new folder. Returns the failure, or an empty string."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        command = [f'{self.bin}/tileiras', bytecode, '--gpu-name', target, '-o', f'{folder}/k.cubin']
        stderr_text = failure_of(command, KEEP_PTX=f'{folder}/k.ptx', KEEP_HOST=f'{folder}/k.o')
        return '' if os.path.exists(f'{folder}/k.ptx') else stderr_text

    def execute(self, folder, ptx, launch, out, *options):
        """Executes PTX in tile-sim and writes the outputs to a folder. Returns the failure, or an empty string."""
        os.makedirs(out, exist_ok=True)
        with open(f'{folder}/{ptx}') as file:
            maps = ['--host-object', f'{folder}/k.o', '--allow-native'] if '.hidden' in file.read() else []
        bounds = ['--instruction-limit', MAX_WARP_INSTRUCTIONS]
        return failure_of([f'{self.tools}/tile-sim', f'{folder}/{ptx}', '--launch', launch, '--out-dir', out, *bounds, *maps, *options])

    def patch(self, folder):
        """Writes patched.ptx next to k.ptx. Returns the names of the applied patches."""
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
        """Compiles bytecode and executes the PTX. Returns the failure, or an empty string."""
        failed = self.compile(bytecode, target, folder)
        return f'reference: {failed}' if failed else self.execute(folder, 'k.ptx', launch, folder)


# The barriers that NVIDIA's compiler places after `alloca`: of a CTA, of a cluster, or of the compute warps of a cluster.
BARRIER = re.compile(r'\s*(bar\.sync|barrier\.sync|barrier\.cluster\.wait|mbarrier\.try_wait)\b')


def with_alloca_barriers(ptx):
    """Adds the two barriers that NVIDIA's code lacks around `alloca`. One thread allocates the memory and passes the pointer to the
    other threads through a location in shared memory. Without the first barrier, the store of the pointer may precede another thread's
    read of the previous contents. Without the second barrier, the location is reused before all threads have read the pointer. If two
    CTAs share a tile block, cluster barriers would be needed; the patch then stores the pointer in a separate variable instead."""
    lines = ptx.split('\n')
    before, after, slots = {}, {}, 0
    for number, line in enumerate(lines):
        if re.search(r'call\S*\s.*__cuda_syscall_aligned_malloc', line):
            guard = next(i for i in range(number, 0, -1) if re.match(r'\s*@!?%p\d+\s+bra', lines[i]))
            barrier = next((i for i in range(number, len(lines)) if BARRIER.match(lines[i])), None)
            if barrier is None:
                continue
            if not re.match(r'\s*(bar|barrier)\.sync\s', lines[barrier]):
                slots += move_pointer_to_variable(lines, number, barrier, slots)
                continue
            read = next((i for i in range(barrier, len(lines)) if re.match(r'\s*ld\.shared', lines[i])), barrier)
            before[guard] = after[read] = lines[barrier]
    found = []
    for number, line in enumerate(lines):
        if slots and '.entry' in line:
            found += [f'.shared .align 8 .b64 alloca_slot_{slot};' for slot in range(slots)]
        found += [part for part in (before.get(number), line, after.get(number)) if part is not None]
    return '\n'.join(found)


def move_pointer_to_variable(lines, call, barrier, slot):
    """Changes the store of the pointer between the allocation call and the barrier, and its load after the barrier, to a separate
    shared-memory variable. Returns False if it does not find the store or the load."""
    store = next((i for i in range(call, barrier) if re.match(r'\s*st\.shared\.b64\s', lines[i])), None)
    read = next((i for i in range(barrier, len(lines)) if re.match(r'\s*ld\.shared::cluster\.b64 ', lines[i])), None)
    if store is None or read is None:
        return False
    variable, pointer = f'alloca_slot_{slot}', lines[read].split()[1].rstrip(',')
    lines[store] = re.sub(r'\[.*\]', f'[{variable}]', lines[store])
    lines[read] = (f'\t{{ .reg .b32 %place; mov.b32 %place, {variable}; mapa.shared::cluster.u32 %place, %place, 0; '
                   f'ld.shared::cluster.b64 {pointer}, [%place]; }}')
    return True


def with_wgmma_waits(ptx):
    """Adds a wait after each wgmma. Reason: NVIDIA's code reads an accumulator before the wait for its MMA, or uses one register in two
    MMAs in flight. The PTX ISA leaves both undefined."""
    wait = 'wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;'
    return re.sub(r'wgmma\.mma_async\.[^;]*;', lambda mma: f'{mma[0]}\n\t{wait}', ptx)


# The functions that patch known faults in NVIDIA's PTX, by the name of the fault. A patch does not change PTX without the fault.
PATCHES = {'slot of alloca': with_alloca_barriers, 'wgmma not awaited': with_wgmma_waits}
