"""Generates random programs as cases for `on-gpu`: bytecode, a launch, and the outputs that `tile-run` computes."""
import json, os, shutil, subprocess

THEMES = ('all', 'mma', 'loops', 'clusters')


def generate(folder, count, tools):
    """Generates `count` programs, and writes those that `tile-run` accepts to a folder. Returns their number."""
    accepted = 0
    for seed in range(1, count + 1):
        case = f'{folder}/{seed}'
        theme = THEMES[seed % len(THEMES)]
        command = [f'{tools}/tile-fuzz', '--seed', str(seed), '--count', '1', '--generate', '--theme', theme, '--commutative', '--dir', folder]
        run = lambda *words: subprocess.run(words, capture_output=True, check=True, timeout=120)
        try:
            run(*command)
            run(f'{tools}/tile-write', f'{case}/k.tile', '-o', f'{case}/kernel.tileirbc')
            run(f'{tools}/tile-run', f'{case}/k.tile', '--check', '--launch', f'{case}/launch.json', '--out-dir', f'{case}/expected')
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            shutil.rmtree(case, ignore_errors=True)
            continue
        with open(f'{case}/outputs.json') as file:
            outputs = json.load(file)
        tolerance = max(output['tolerance'] for output in outputs)
        rows = [{'buffer': output['buffer'], 'type': output['type'], 'file': f'expected/{output["buffer"]}.bin'} for output in outputs]
        with open(f'{case}/expect.json', 'w') as file:
            json.dump({'rtol': tolerance, 'atol': tolerance, 'outputs': rows}, file)
        for name in os.listdir(case):
            if name in ('k.tile', 'outputs.json') or name.endswith('.expect'):
                os.remove(f'{case}/{name}')
        accepted += 1
    return accepted
