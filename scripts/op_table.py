"""Tests every op, type and variant on edge inputs: generates the kernels of tests/ops, and compares them with NVIDIA's compiler.

A kernel has all variants of some ops on one type. Each variant writes a row of 256 elements to the output array of its result type.
`x` and `y` run through all pairs of sixteen edge values, `z` through the values in another order. Each line of `rows.txt` is one of

    KERNEL ROW TYPE = HASH                 both compilers give the same bits; all NaNs count as equal
    KERNEL ROW TYPE ~ ULPS VALUES          a function that may round differently. ULPS is the largest distance of our results, in tile-run
                                           and in PTX, from the reference. VALUES are the results of the reference in hexadecimal, for the
                                           first target; only every sixteenth one if the row does not depend on y
    KERNEL ROW TYPE ! HASH                 a larger difference; the hash is of our result

The hand-written `reasons.toml` explains the rows of the last two kinds.
"""
import json, math, os, subprocess

COUNT = 256  # Elements of an input tile: all pairs of sixteen edge values.
FLOATS = ['f16', 'bf16', 'f32', 'f64']
INTS = ['i8', 'i16', 'i32', 'i64']
SMALL_FLOATS = ['f8E4M3FN', 'f8E5M2']
# The types of the exponent operand of fpowi that the rows test.
EXPONENT_TYPES = ['i1', 'i8', 'i16', 'i32']
BITS = {'i1': 8, 'i8': 8, 'i16': 16, 'i32': 32, 'i64': 64, 'f16': 16, 'bf16': 16, 'f32': 32, 'f64': 64, 'f8E4M3FN': 8, 'f8E5M2': 8}
MANTISSA_BITS = {'f16': 10, 'bf16': 7, 'f32': 23, 'f64': 52}
ROUNDINGS = ['nearest_even', 'zero', 'negative_inf', 'positive_inf']


def edge_patterns(kind):
    """Returns sixteen bit patterns of edge values of a type."""
    bits = BITS[kind]
    if kind in INTS:
        top = 1 << bits - 1
        integers = [0, 1, -1, 2, -2, 3, -7, 10, top, top + 1, top - 1, top - 2, bits, bits - 1, 0x5555555555555555, 100]
        return [number % (1 << bits) for number in integers]
    if kind in SMALL_FLOATS:
        return list(range(3, 256, 16))
    mantissa = MANTISSA_BITS[kind]
    one = ((1 << bits - 2 - mantissa) - 1) << mantissa
    top, step = 1 << bits - 1, 1 << mantissa
    infinity = top - step
    # 0, -0, 1, -1, 1/2, -3/2, 5/2, 3, two denormals, the smallest normal number, the largest number, the infinities, a NaN, about 2/3.
    return [0, top, one, top | one, one - step, top | one + step // 2, one + step + step // 4, one + step + step // 2, 1, top | step - 1,
            step, infinity - 1, infinity, top | infinity, infinity + step // 2, one - step + step // 3]


def to_bytes(kind, patterns):
    """Returns the little-endian bytes of bit patterns of a type."""
    return b''.join(pattern.to_bytes(BITS[kind] // 8, 'little') for pattern in patterns)


def inputs(kind):
    """Returns the bytes of the inputs x, y and z."""
    edge = edge_patterns(kind)
    return [to_bytes(kind, [edge[i // 16] for i in range(COUNT)]), to_bytes(kind, [edge[i % 16] for i in range(COUNT)]),
            to_bytes(kind, [edge[(i * 7 + i // 16) % 16] for i in range(COUNT)])]


def tile(kind):
    """Returns the type of a tile of `COUNT` elements."""
    return f'tile<{COUNT}x{kind}>'


def rows():
    """Yields for each row the kernel, the name of the row, the result type, and the text of the op on %x, %y and %z. The kernel name
    starts with the type of the operands."""
    for kind in FLOATS:
        t, wide, flush = tile(kind), kind in ('f32', 'f64'), kind == 'f32'
        def row(kernel, name, text):
            return f'{kind}_{kernel}', name, kind, f'{text} : {t}'
        for op in ('absf', 'negf', 'ceil', 'floor'):
            yield row('arithmetic', op, f'{op} %x')
        roundings = ROUNDINGS if wide else ROUNDINGS[:1]
        modes = [(f'.{rounding}', f' rounding<{rounding}>') for rounding in roundings]
        modes += [(f'{name}.flush', f'{text} flush_to_zero') for name, text in modes] if flush else []
        for name, text in modes:
            for op in ('addf', 'subf', 'mulf', 'divf') if wide else ('addf', 'subf', 'mulf'):
                yield row('arithmetic', op + name, f'{op} %x, %y{text}')
            yield row('arithmetic', 'fma' + name, f'fma %x, %y, %z{text}')
            if wide:
                yield row('arithmetic', 'sqrt' + name, f'sqrt %x{text}')
        yield row('arithmetic', 'remf', 'remf %x, %y')
        for op in ('maxf', 'minf'):
            for flags in ['', ' propagate_nan'] + [' flush_to_zero', ' flush_to_zero propagate_nan'] * flush:
                yield row('arithmetic', op + flags.replace(' ', '.'), f'{op} %x, %y{flags}')
        for op in ('rsqrt', 'exp', 'exp2', 'log', 'log2', 'sin', 'cos', 'tan', 'sinh', 'cosh', 'tanh'):
            yield row('trigonometry' if op in ('sin', 'cos', 'tan') else 'functions', op, f'{op} %x')
        for op in ('rsqrt', 'exp2') * flush:
            yield row('functions', f'{op}.flush', f'{op} %x flush_to_zero')
        if flush:
            for text in ('divf %x, %y rounding<approx>', 'divf %x, %y rounding<full>', 'sqrt %x rounding<approx>', 'tanh %x rounding<approx>'):
                yield row('functions', text.split()[0] + '.' + text.split('<')[1][:-1], text)
        for op in ('atan2', 'fpowf'):
            yield row('functions', op, f'{op} %x, %y')
        for exponent in EXPONENT_TYPES:
            for far in ('', '.far')[:1 if exponent == 'i1' else 2]:
                name = f'%power_{exponent}{far.replace(".", "_")}'
                yield f'{kind}_powers', f'fpowi.{exponent}{far}', kind, f'fpowi %x, {name} : {t}, {tile(exponent)}'
        for order in ('ordered', 'unordered'):
            for predicate in ('equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'):
                yield f'{kind}_conversions', f'cmpf.{predicate}.{order}', 'i1', f'cmpf {predicate} {order} %x, %y : {t} -> {tile("i1")}'
        for to in FLOATS + SMALL_FLOATS:
            if to != kind:
                narrow = BITS[to] == 16 and kind != to
                allowed = ROUNDINGS[:1] if to in SMALL_FLOATS else ROUNDINGS[:2] if narrow else ROUNDINGS
                for rounding in allowed:
                    kernel = f'{kind}_small' if to in SMALL_FLOATS else f'{kind}_conversions'
                    yield kernel, f'ftof.{to}.{rounding}', to, f'ftof %x rounding<{rounding}> : {t} -> {tile(to)}'
        for to in INTS:
            for sign in ('signed', 'unsigned'):
                for flag in ('', ' saturating'):
                    yield f'{kind}_conversions', f'ftoi.{to}.{sign}{flag.replace(" ", ".")}', to, f'ftoi %x {sign}{flag} : {t} -> {tile(to)}'
    for kind in SMALL_FLOATS:
        for to in FLOATS:
            yield f'{kind}_small', f'ftof.{to}', to, f'ftof %x : {tile(kind)} -> {tile(to)}'
    for kind in INTS:
        t = tile(kind)
        def row(name, text):
            return f'{kind}_arithmetic', name, kind, f'{text} : {t}'
        for op in ('addi', 'subi', 'muli', 'mulhii', 'andi', 'ori', 'xori', 'shli'):
            yield row(op, f'{op} %x, %y')
        for op in ('absi', 'negi'):
            yield row(op, f'{op} %x')
        for sign in ('signed', 'unsigned'):
            for op in ('maxi', 'mini', 'shri'):
                yield row(f'{op}.{sign}', f'{op} %x, %y {sign}')
            # The result of a division by zero is undefined, so %divisor is %y with 1 in place of 0.
            yield row(f'remi.{sign}', f'remi %x, %divisor {sign}')
            for rounding in ('zero', 'positive_inf') + ('negative_inf',) * (sign == 'signed'):
                text = '' if rounding == 'zero' else f' rounding<{rounding}>'
                yield row(f'divi.{sign}.{rounding}', f'divi %x, %divisor {sign}{text}')
            for predicate in ('equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'):
                yield f'{kind}_arithmetic', f'cmpi.{predicate}.{sign}', 'i1', f'cmpi {predicate} %x, %y, {sign} : {t} -> {tile("i1")}'
            for to in INTS:
                if BITS[to] > BITS[kind]:
                    yield f'{kind}_conversions', f'exti.{to}.{sign}', to, f'exti %x {sign} : {t} -> {tile(to)}'
            for to in FLOATS:
                yield f'{kind}_conversions', f'itof.{to}.{sign}', to, f'itof %x {sign} : {t} -> {tile(to)}'
        for to in INTS + FLOATS:
            if BITS[to] < BITS[kind] and to in INTS:
                yield f'{kind}_conversions', f'trunci.{to}', to, f'trunci %x : {t} -> {tile(to)}'
            if BITS[to] == BITS[kind] and to != kind:
                yield f'{kind}_conversions', f'bitcast.{to}', to, f'bitcast %x : {t} -> {tile(to)}'


def kernels():
    """Returns the rows of each kernel: name, result type and text of the op."""
    found = {}
    for kernel, *row in rows():
        found.setdefault(kernel, []).append(row)
    return found


def storage_type(kind):
    """Returns the type in which an array stores values of a type."""
    return 'i8' if kind == 'i1' or kind in SMALL_FLOATS else kind


def kernel_text(kernel, table):
    """Returns the Tile IR text of a kernel with one op for each row of the table."""
    kind = kernel.split('_')[0]
    outputs = sorted({storage_type(result) for _, result, _ in table})
    names = ['x', 'y', 'z']
    lines = []

    def view(name, elem, rows):
        tensor = f'tensor_view<{rows * COUNT}x{elem}, strides=[1]>'
        partition = f'partition_view<tile=({COUNT}), {tensor}>'
        lines.append(f'%t_{name} = make_tensor_view %p_{name}, shape = [{rows * COUNT}], strides = [1] : {tensor}')
        lines.append(f'%v_{name} = make_partition_view %t_{name} : {partition}')
        return partition

    lines.append('%zero = constant <i32: 0> : tile<i32>')
    for name in names:
        elem = storage_type(kind)
        partition = view(name, elem, 1)
        loaded = f'%bits_{name}' if elem != kind else f'%{name}'
        lines.append(f'{loaded}, %k_{name} = load_view_tko weak %v_{name}[%zero] : {partition}, tile<i32> -> {tile(elem)}, token')
        if elem != kind:
            lines.append(f'%{name} = bitcast {loaded} : {tile(elem)} -> {tile(kind)}')
    if any('%divisor' in op for _, _, op in table):
        lines.append(f'%none = constant <{kind}: 0> : {tile(kind)}')
        lines.append(f'%one = constant <{kind}: 1> : {tile(kind)}')
        lines.append(f'%is_none = cmpi equal %y, %none, signed : {tile(kind)} -> {tile("i1")}')
        lines.append(f'%divisor = select %is_none, %one, %y : {tile("i1")}, {tile(kind)}')
    if any('%power' in op for _, _, op in table):
        # The operands of fpowi: the exponents -8 to 7, and multiples of these exponents that span the range of the exponent type.
        i32 = tile('i32')
        ops = [('index', 'iota'), ('c15', 'constant <i32: 15>'), ('c8', 'constant <i32: -8>'), ('low', 'andi %index, %c15'),
               ('power_i32', 'addi %low, %c8')]
        lines += [f'%{name} = {op} : {i32}' for name, op in ops]
        for elem in EXPONENT_TYPES:
            lines += [f'%power_{elem} = trunci %power_i32 : {i32} -> {tile(elem)}'] * (elem != 'i32')
            if elem != 'i1':
                lines.append(f'%far_{elem} = constant <{elem}: {1 << BITS[elem] - 4}> : {tile(elem)}')
                lines.append(f'%power_{elem}_far = muli %power_{elem}, %far_{elem} : {tile(elem)}')
    views = {elem: view(elem, elem, sum(storage_type(result) == elem for _, result, _ in table)) for elem in outputs}
    next_row = dict.fromkeys(outputs, 0)
    for number, (_, result, op) in enumerate(table):
        elem = storage_type(result)
        lines.append(f'%r{number} = {op}')
        value = f'%r{number}'
        if elem != result:
            value = f'%w{number}'
            change = f'exti %r{number} unsigned' if result == 'i1' else f'bitcast %r{number}'
            lines.append(f'{value} = {change} : {tile(result)} -> {tile(elem)}')
        lines.append(f'%i{number} = constant <i32: {next_row[elem]}> : tile<i32>')
        next_row[elem] += 1
        lines.append(f'%s{number} = store_view_tko weak {value}, %v_{elem}[%i{number}] : {tile(elem)}, {views[elem]}, tile<i32> -> token')
    parameters = [f'%p_{name}: tile<ptr<{storage_type(kind)}>>' for name in names] + [f'%p_{elem}: tile<ptr<{elem}>>' for elem in outputs]
    head = '//!tile tileir 2 read\n//!tile producer test\n//!tile input 0\n'
    return head + f'entry @{kernel}({", ".join(parameters)}) {{\n' + ''.join(f'  {line}\n' for line in lines) + '  return\n}\n'


def launch_description(kernel, table):
    """Returns the launch description of a kernel as a dictionary."""
    kind = kernel.split('_')[0]
    outputs = sorted({storage_type(result) for _, result, _ in table})
    files = [(name, f'{kind}.{name}.bin') for name in 'xyz'] + [(elem, f'{elem}.{sum(storage_type(r) == elem for _, r, _ in table)}.zeros') for elem in outputs]
    buffers = [{'name': name, 'file': file, 'align': 256, 'address': 0x7f0000000000 + (i << 24)} for i, (name, file) in enumerate(files)]
    return {'entry': None, 'grid': [1, 1, 1], 'buffers': buffers, 'params': [{'ptr': name} for name, _ in files], 'outputs': outputs}


def write_kernels(folder):
    """Writes the kernels, launch descriptions and inputs. Outputs have no file; the test that executes a kernel creates them."""
    os.makedirs(folder, exist_ok=True)
    for kind in FLOATS + INTS + SMALL_FLOATS:
        for name, data in zip('xyz', inputs(kind)):
            with open(f'{folder}/{kind}.{name}.bin', 'wb') as file:
                file.write(data)
    for kernel, table in kernels().items():
        with open(f'{folder}/{kernel}.tile', 'w') as file:
            file.write(kernel_text(kernel, table))
        with open(f'{folder}/{kernel}.json', 'w') as file:
            json.dump(launch_description(kernel, table), file)
            file.write('\n')


def canonical_patterns(kind, data):
    """Returns the bits of elements, with one bit pattern for all NaNs."""
    size = BITS[kind] // 8
    found = [int.from_bytes(data[i:i + size], 'little') for i in range(0, len(data), size)]
    if kind not in MANTISSA_BITS:
        return found
    infinity = (1 << BITS[kind] - 1) - (1 << MANTISSA_BITS[kind])
    return [infinity + 1 if word & (1 << BITS[kind] - 1) - 1 > infinity else word for word in found]


def ulps(kind, a, b):
    """Returns the distance of two bit patterns in ulps. Infinity if exactly one is NaN, or if integers differ."""
    if a == b:
        return 0
    if kind not in MANTISSA_BITS:
        return math.inf
    top = 1 << BITS[kind] - 1
    infinity = top - (1 << MANTISSA_BITS[kind])
    if any(word & top - 1 > infinity for word in (a, b)):
        return math.inf
    order_key = lambda word: top - word if word & top else word
    return abs(order_key(a) - order_key(b))


def fingerprint(kind, found):
    """Returns the FNV-1a hash of elements."""
    number = 0xcbf29ce484222325
    for byte in b''.join(word.to_bytes(BITS[kind] // 8, 'little') for word in found):
        number = (number ^ byte) * 0x100000001b3 % (1 << 64)
    return f'{number:016x}'


def results(folder, table):
    """Returns for each row the elements that a run wrote."""
    data = {elem: open(f'{folder}/{elem}.bin', 'rb').read() for elem in {storage_type(result) for _, result, _ in table}}
    next_row, found = dict.fromkeys(data, 0), []
    for _, result, _ in table:
        elem = storage_type(result)
        size = COUNT * BITS[elem] // 8
        found.append(canonical_patterns(elem, data[elem][next_row[elem] * size:][:size]))
        next_row[elem] += 1
    return found


def compare(reference, arguments, work):
    """Executes all kernels with tile-run, as our PTX and as NVIDIA's PTX, and prints the rows with differences. Writes `rows.txt` if
    `arguments.write` is set."""
    folder = f'{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/tests/ops' if arguments.write else f'{work}/ops'
    write_kernels(folder)
    lines, counts = [], {}
    for kernel, table in kernels().items():
        runs = f'{work}/{kernel}'
        os.makedirs(f'{runs}/ours')
        description = launch_description(kernel, table)
        for buffer in description['buffers']:
            with open(f'{runs}/{buffer["file"]}', 'wb') as file:
                if buffer['file'].endswith('.zeros'):
                    elem, count, _ = buffer['file'].split('.')
                    file.write(bytes(COUNT * int(count) * BITS[elem] // 8))
                else:
                    with open(f'{folder}/{buffer["file"]}', 'rb') as source:
                        file.write(source.read())
        json.dump(description, open(f'{runs}/launch.json', 'w'))
        subprocess.run([f'{arguments.bin}/tile-read', f'{folder}/{kernel}.tile', '-o', f'{runs}/k.tile'], check=True)
        subprocess.run([f'{arguments.bin}/tile-write', f'{runs}/k.tile', '-o', f'{runs}/k.bc'], check=True)
        subprocess.run([f'{arguments.bin}/tile-run', f'{runs}/k.tile', '--launch', f'{runs}/launch.json', '--out-dir', f'{runs}/ours'], check=True)
        # For functions such as sin, the PTX and tile-run may compute different results within the error bound of the function.
        ours, reference_results, ptx_results = results(f'{runs}/ours', table), {}, []
        rounded = kernel.endswith(('functions', 'trigonometry', 'powers'))
        for target in ('sm_80', 'sm_100') if rounded else ():
            subprocess.run([f'{arguments.bin}/tileiras', f'{runs}/k.bc', '--gpu-name', target, '--emit=ptx', '-o', f'{runs}/k.ptx'], check=True)
            os.makedirs(f'{runs}/made', exist_ok=True)
            subprocess.run([f'{arguments.bin}/tile-sim', f'{runs}/k.ptx', '--launch', f'{runs}/launch.json', '--out-dir', f'{runs}/made'], check=True)
            ptx_results.append(results(f'{runs}/made', table))
        for target in arguments.targets.split(','):
            failed = reference.run(f'{runs}/k.bc', target, f'{runs}/launch.json', f'{runs}/{target}')
            if failed:
                print(kernel, target, failed)
                counts['kernels refused'] = counts.get('kernels refused', 0) + 1
            else:
                reference_results[target] = results(f'{runs}/{target}', table)
        for number, (name, result, op) in enumerate(table if reference_results else []):
            elem = storage_type(result)
            max_ulps = lambda found: max(ulps(elem, a, b) for both in (ours, *ptx_results) for a, b in zip(both[number], found[number]))
            far = {target: max_ulps(found) for target, found in reference_results.items()}
            worst = max(far.values())
            kind = '!' if worst > 1 << 24 else '~' if worst or rounded else '='
            counts[kind] = counts.get(kind, 0) + 1
            if worst:
                print(kernel, name, far)
                odd = [i for i in range(COUNT) if any(ulps(elem, ours[number][i], found[number][i]) == worst for found in reference_results.values())][:2]
                for i in odd:
                    print('   ', i, hex(ours[number][i]), *(hex(found[number][i]) for found in reference_results.values()))
            if kind == '~':
                values = next(iter(reference_results.values()))[number]
                values = values if '%y' in op or '%power' in op else values[::16]
                lines.append(f'{kernel} {name} {elem} ~ {worst} ' + ''.join(f'{word:0{BITS[elem] // 4}x}' for word in values))
            else:
                lines.append(f'{kernel} {name} {elem} {kind} {fingerprint(elem, ours[number])}')
    print(counts)
    if arguments.write:
        with open(f'{folder}/rows.txt', 'w') as file:
            file.write('\n'.join(lines) + '\n')
