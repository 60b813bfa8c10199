"""Compares every Tile IR op, in each variant and for each operand type, with NVIDIA's compiler on edge values.

The script generates the kernels of tests/ops, on which the test tests/ops.rs runs Tileworks alone. Each kernel has all variants of some
ops on one operand type. Each variant writes one row of 256 elements to the output array of its result type. The input tiles `x` and `y`
together have all pairs of sixteen edge values; the input tile `z` has the same values in another order.
`rows.txt` has one line per row. ROW is the op with its variant, and TYPE is the element type of the output array. The lines have three forms:

    KERNEL ROW TYPE = HASH                 Both compilers compute the same bits; all NaNs count as equal. HASH is the hash of the row.
    KERNEL ROW TYPE ~ ULPS VALUES          The results may differ by rounding. ULPS is the largest distance of the results of tile-run
                                           and of our PTX from the results of NVIDIA's compiler. VALUES are NVIDIA's results in
                                           hexadecimal, for the first target; only every sixteenth if the row does not depend on y.
    KERNEL ROW TYPE ! HASH                 The results differ by more than 2^24 ulps, or only one is NaN. HASH is the hash of the row
                                           that tile-run computes.

The hand-written `reasons.toml` explains the rows of the forms `~` and `!`.
"""
import json, math, os, subprocess

TILE_ELEMENTS = 256  # Elements of each tile: one for each pair of sixteen edge values.
FLOAT_TYPES = ['f16', 'bf16', 'f32', 'f64']
INT_TYPES = ['i8', 'i16', 'i32', 'i64']
FLOAT8_TYPES = ['f8E4M3FN', 'f8E5M2']
# The types of the exponent operand of `fpowi` that the kernels test.
EXPONENT_TYPES = ['i1', 'i8', 'i16', 'i32']
# The bits of an element in an array. An array stores an i1 in a byte.
STORAGE_BITS = {'i1': 8, 'i8': 8, 'i16': 16, 'i32': 32, 'i64': 64, 'f16': 16, 'bf16': 16, 'f32': 32, 'f64': 64, 'f8E4M3FN': 8, 'f8E5M2': 8}
MANTISSA_BITS = {'f16': 10, 'bf16': 7, 'f32': 23, 'f64': 52}
# The rounding modes of f32 and f64 arithmetic. Slices of this list are the modes of the other ops.
ROUNDINGS = ['nearest_even', 'zero', 'negative_inf', 'positive_inf']


def edge_patterns(element_type):
    """Returns the bit patterns of sixteen edge values of an element type."""
    bits = STORAGE_BITS[element_type]
    if element_type in INT_TYPES:
        sign_bit = 1 << bits - 1
        integers = [0, 1, -1, 2, -2, 3, -7, 10, sign_bit, sign_bit + 1, sign_bit - 1, sign_bit - 2, bits, bits - 1, 0x5555555555555555, 100]
        return [number % (1 << bits) for number in integers]
    if element_type in FLOAT8_TYPES:
        return list(range(3, 256, 16))
    mantissa_bits = MANTISSA_BITS[element_type]
    one = ((1 << bits - 2 - mantissa_bits) - 1) << mantissa_bits
    sign_bit, exponent_unit = 1 << bits - 1, 1 << mantissa_bits
    infinity = sign_bit - exponent_unit
    # 0, -0, 1, -1, 1/2, -3/2, 5/2, 3, two denormals, the smallest normal number, the largest number, the infinities, a NaN, about 2/3.
    return [0, sign_bit, one, sign_bit | one, one - exponent_unit, sign_bit | one + exponent_unit // 2,
            one + exponent_unit + exponent_unit // 4, one + exponent_unit + exponent_unit // 2, 1, sign_bit | exponent_unit - 1,
            exponent_unit, infinity - 1, infinity, sign_bit | infinity, infinity + exponent_unit // 2,
            one - exponent_unit + exponent_unit // 3]


def patterns_to_bytes(element_type, patterns):
    """Returns the bit patterns of an element type as little-endian bytes."""
    return b''.join(pattern.to_bytes(STORAGE_BITS[element_type] // 8, 'little') for pattern in patterns)


def input_bytes(element_type):
    """Returns the bytes of the input tiles x, y and z for an operand type."""
    edge = edge_patterns(element_type)
    return [patterns_to_bytes(element_type, [edge[i // 16] for i in range(TILE_ELEMENTS)]), patterns_to_bytes(element_type, [edge[i % 16] for i in range(TILE_ELEMENTS)]),
            patterns_to_bytes(element_type, [edge[(i * 7 + i // 16) % 16] for i in range(TILE_ELEMENTS)])]


def tile_type(element_type):
    """Returns the Tile IR type of a tile of `TILE_ELEMENTS` elements."""
    return f'tile<{TILE_ELEMENTS}x{element_type}>'


def op_rows():
    """Yields for each row its kernel, the name of the row, its result type, and the text of the op on the tiles %x, %y and %z. The name
    of the kernel starts with the operand type, before the first underscore."""
    for operand_type in FLOAT_TYPES:
        operand_tile, has_all_roundings, has_flush = tile_type(operand_type), operand_type in ('f32', 'f64'), operand_type == 'f32'
        def float_row(kernel, name, text):
            return f'{operand_type}_{kernel}', name, operand_type, f'{text} : {operand_tile}'
        for op in ('absf', 'negf', 'ceil', 'floor'):
            yield float_row('arithmetic', op, f'{op} %x')
        roundings = ROUNDINGS if has_all_roundings else ROUNDINGS[:1]
        rounding_modes = [(f'.{rounding}', f' rounding<{rounding}>') for rounding in roundings]
        rounding_modes += [(f'{name}.flush', f'{text} flush_to_zero') for name, text in rounding_modes] if has_flush else []
        for name, text in rounding_modes:
            for op in ('addf', 'subf', 'mulf', 'divf') if has_all_roundings else ('addf', 'subf', 'mulf'):
                yield float_row('arithmetic', op + name, f'{op} %x, %y{text}')
            yield float_row('arithmetic', 'fma' + name, f'fma %x, %y, %z{text}')
            if has_all_roundings:
                yield float_row('arithmetic', 'sqrt' + name, f'sqrt %x{text}')
        yield float_row('arithmetic', 'remf', 'remf %x, %y')
        for op in ('maxf', 'minf'):
            for flags in ['', ' propagate_nan'] + [' flush_to_zero', ' flush_to_zero propagate_nan'] * has_flush:
                yield float_row('arithmetic', op + flags.replace(' ', '.'), f'{op} %x, %y{flags}')
        for op in ('rsqrt', 'exp', 'exp2', 'log', 'log2', 'sin', 'cos', 'tan', 'sinh', 'cosh', 'tanh'):
            yield float_row('trigonometry' if op in ('sin', 'cos', 'tan') else 'functions', op, f'{op} %x')
        for op in ('rsqrt', 'exp2') * has_flush:
            yield float_row('functions', f'{op}.flush', f'{op} %x flush_to_zero')
        if has_flush:
            for text in ('divf %x, %y rounding<approx>', 'divf %x, %y rounding<full>', 'sqrt %x rounding<approx>', 'tanh %x rounding<approx>'):
                yield float_row('functions', text.split()[0] + '.' + text.split('<')[1][:-1], text)
        for op in ('atan2', 'fpowf'):
            yield float_row('functions', op, f'{op} %x, %y')
        for exponent in EXPONENT_TYPES:
            for range_suffix in ('', '.far')[:1 if exponent == 'i1' else 2]:
                operand = f'%power_{exponent}{range_suffix.replace(".", "_")}'
                yield f'{operand_type}_powers', f'fpowi.{exponent}{range_suffix}', operand_type, f'fpowi %x, {operand} : {operand_tile}, {tile_type(exponent)}'
        for order in ('ordered', 'unordered'):
            for predicate in ('equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'):
                yield f'{operand_type}_conversions', f'cmpf.{predicate}.{order}', 'i1', f'cmpf {predicate} {order} %x, %y : {operand_tile} -> {tile_type("i1")}'
        for result_type in FLOAT_TYPES + FLOAT8_TYPES:
            if result_type != operand_type:
                to_16_bits = STORAGE_BITS[result_type] == 16 and operand_type != result_type
                allowed_roundings = ROUNDINGS[:1] if result_type in FLOAT8_TYPES else ROUNDINGS[:2] if to_16_bits else ROUNDINGS
                for rounding in allowed_roundings:
                    kernel = f'{operand_type}_small' if result_type in FLOAT8_TYPES else f'{operand_type}_conversions'
                    yield kernel, f'ftof.{result_type}.{rounding}', result_type, f'ftof %x rounding<{rounding}> : {operand_tile} -> {tile_type(result_type)}'
        for result_type in INT_TYPES:
            for sign in ('signed', 'unsigned'):
                for saturation in ('', ' saturating'):
                    name = f'ftoi.{result_type}.{sign}{saturation.replace(" ", ".")}'
                    yield f'{operand_type}_conversions', name, result_type, f'ftoi %x {sign}{saturation} : {operand_tile} -> {tile_type(result_type)}'
    for operand_type in FLOAT8_TYPES:
        for result_type in FLOAT_TYPES:
            yield f'{operand_type}_small', f'ftof.{result_type}', result_type, f'ftof %x : {tile_type(operand_type)} -> {tile_type(result_type)}'
    for operand_type in INT_TYPES:
        operand_tile = tile_type(operand_type)
        def integer_row(name, text):
            return f'{operand_type}_arithmetic', name, operand_type, f'{text} : {operand_tile}'
        for op in ('addi', 'subi', 'muli', 'mulhii', 'andi', 'ori', 'xori', 'shli'):
            yield integer_row(op, f'{op} %x, %y')
        for op in ('absi', 'negi'):
            yield integer_row(op, f'{op} %x')
        for sign in ('signed', 'unsigned'):
            for op in ('maxi', 'mini', 'shri'):
                yield integer_row(f'{op}.{sign}', f'{op} %x, %y {sign}')
            # The result of a division by zero is undefined, so %divisor is %y with 1 in place of 0.
            yield integer_row(f'remi.{sign}', f'remi %x, %divisor {sign}')
            for rounding in ('zero', 'positive_inf') + ('negative_inf',) * (sign == 'signed'):
                text = '' if rounding == 'zero' else f' rounding<{rounding}>'
                yield integer_row(f'divi.{sign}.{rounding}', f'divi %x, %divisor {sign}{text}')
            for predicate in ('equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'):
                yield f'{operand_type}_arithmetic', f'cmpi.{predicate}.{sign}', 'i1', f'cmpi {predicate} %x, %y, {sign} : {operand_tile} -> {tile_type("i1")}'
            for result_type in INT_TYPES:
                if STORAGE_BITS[result_type] > STORAGE_BITS[operand_type]:
                    yield f'{operand_type}_conversions', f'exti.{result_type}.{sign}', result_type, f'exti %x {sign} : {operand_tile} -> {tile_type(result_type)}'
            for result_type in FLOAT_TYPES:
                yield f'{operand_type}_conversions', f'itof.{result_type}.{sign}', result_type, f'itof %x {sign} : {operand_tile} -> {tile_type(result_type)}'
        for result_type in INT_TYPES + FLOAT_TYPES:
            if STORAGE_BITS[result_type] < STORAGE_BITS[operand_type] and result_type in INT_TYPES:
                yield f'{operand_type}_conversions', f'trunci.{result_type}', result_type, f'trunci %x : {operand_tile} -> {tile_type(result_type)}'
            if STORAGE_BITS[result_type] == STORAGE_BITS[operand_type] and result_type != operand_type:
                yield f'{operand_type}_conversions', f'bitcast.{result_type}', result_type, f'bitcast %x : {operand_tile} -> {tile_type(result_type)}'


def rows_by_kernel():
    """Returns a dictionary from kernel names to the rows of the kernel. A row is a list: name, result type and text of the op."""
    tables = {}
    for kernel, *row in op_rows():
        tables.setdefault(kernel, []).append(row)
    return tables


def storage_type(element_type):
    """Returns the element type of an array that stores values of a type: `i8` for `i1` and 8-bit floats."""
    return 'i8' if element_type == 'i1' or element_type in FLOAT8_TYPES else element_type


def kernel_text(kernel, kernel_rows):
    """Returns the Tile IR text of a kernel, which has one op for each of its rows."""
    operand_type = kernel.split('_')[0]
    output_types = sorted({storage_type(result) for _, result, _ in kernel_rows})
    input_names = ['x', 'y', 'z']
    lines = []

    def add_view(name, stored_type, rows):
        """Appends the ops of the view %v_NAME of the array %p_NAME, which has `rows` tiles. Returns the type of the view."""
        tensor = f'tensor_view<{rows * TILE_ELEMENTS}x{stored_type}, strides=[1]>'
        view_type = f'partition_view<tile=({TILE_ELEMENTS}), {tensor}>'
        lines.append(f'%t_{name} = make_tensor_view %p_{name}, shape = [{rows * TILE_ELEMENTS}], strides = [1] : {tensor}')
        lines.append(f'%v_{name} = make_partition_view %t_{name} : {view_type}')
        return view_type

    lines.append('%zero = constant <i32: 0> : tile<i32>')
    for name in input_names:
        stored_type = storage_type(operand_type)
        view_type = add_view(name, stored_type, 1)
        loaded_value = f'%bits_{name}' if stored_type != operand_type else f'%{name}'
        lines.append(f'{loaded_value}, %k_{name} = load_view_tko weak %v_{name}[%zero] : {view_type}, tile<i32> -> {tile_type(stored_type)}, token')
        if stored_type != operand_type:
            lines.append(f'%{name} = bitcast {loaded_value} : {tile_type(stored_type)} -> {tile_type(operand_type)}')
    if any('%divisor' in op for _, _, op in kernel_rows):
        lines.append(f'%none = constant <{operand_type}: 0> : {tile_type(operand_type)}')
        lines.append(f'%one = constant <{operand_type}: 1> : {tile_type(operand_type)}')
        lines.append(f'%is_none = cmpi equal %y, %none, signed : {tile_type(operand_type)} -> {tile_type("i1")}')
        lines.append(f'%divisor = select %is_none, %one, %y : {tile_type("i1")}, {tile_type(operand_type)}')
    if any('%power' in op for _, _, op in kernel_rows):
        # The exponents of `fpowi`: %power_* has -8 to 7; %power_*_far has multiples of these numbers, up to the limits of the type.
        i32 = tile_type('i32')
        ops = [('index', 'iota'), ('c15', 'constant <i32: 15>'), ('c8', 'constant <i32: -8>'), ('low', 'andi %index, %c15'),
               ('power_i32', 'addi %low, %c8')]
        lines += [f'%{name} = {op} : {i32}' for name, op in ops]
        for exponent_type in EXPONENT_TYPES:
            lines += [f'%power_{exponent_type} = trunci %power_i32 : {i32} -> {tile_type(exponent_type)}'] * (exponent_type != 'i32')
            if exponent_type != 'i1':
                lines.append(f'%far_{exponent_type} = constant <{exponent_type}: {1 << STORAGE_BITS[exponent_type] - 4}> : {tile_type(exponent_type)}')
                lines.append(f'%power_{exponent_type}_far = muli %power_{exponent_type}, %far_{exponent_type} : {tile_type(exponent_type)}')
    view_types = {}
    for stored_type in output_types:
        row_count = sum(storage_type(result) == stored_type for _, result, _ in kernel_rows)
        view_types[stored_type] = add_view(stored_type, stored_type, row_count)
    next_row = dict.fromkeys(output_types, 0)
    for row_number, (_, result, op) in enumerate(kernel_rows):
        stored_type = storage_type(result)
        lines.append(f'%r{row_number} = {op}')
        value = f'%r{row_number}'
        if stored_type != result:
            value = f'%w{row_number}'
            cast = f'exti %r{row_number} unsigned' if result == 'i1' else f'bitcast %r{row_number}'
            lines.append(f'{value} = {cast} : {tile_type(result)} -> {tile_type(stored_type)}')
        lines.append(f'%i{row_number} = constant <i32: {next_row[stored_type]}> : tile<i32>')
        next_row[stored_type] += 1
        lines.append(f'%s{row_number} = store_view_tko weak {value}, %v_{stored_type}[%i{row_number}] : {tile_type(stored_type)}, {view_types[stored_type]}, tile<i32> -> token')
    parameters = [f'%p_{name}: tile<ptr<{storage_type(operand_type)}>>' for name in input_names]
    parameters += [f'%p_{stored_type}: tile<ptr<{stored_type}>>' for stored_type in output_types]
    head = '//!tile tileir 2 read\n//!tile producer test\n//!tile input 0\n'
    return head + f'entry @{kernel}({", ".join(parameters)}) {{\n' + ''.join(f'  {line}\n' for line in lines) + '  return\n}\n'


def launch_description(kernel, kernel_rows):
    """Returns the launch description of a kernel as a dictionary. The file of an output array has a name such as `f32.3.zeros`: the test that
    executes the kernel creates this file with 3 rows of zeros."""
    operand_type = kernel.split('_')[0]
    output_types = sorted({storage_type(result) for _, result, _ in kernel_rows})
    files = [(name, f'{operand_type}.{name}.bin') for name in 'xyz']
    for stored_type in output_types:
        row_count = sum(storage_type(result) == stored_type for _, result, _ in kernel_rows)
        files.append((stored_type, f'{stored_type}.{row_count}.zeros'))
    buffers = [{'name': name, 'file': file, 'align': 256, 'address': 0x7f0000000000 + (i << 24)} for i, (name, file) in enumerate(files)]
    return {'entry': None, 'grid': [1, 1, 1], 'buffers': buffers, 'params': [{'ptr': name} for name, _ in files], 'outputs': output_types}


def write_kernels(folder):
    """Writes the kernels, their launch descriptions and their input arrays to a folder. It writes no output arrays: the test that executes
    a kernel creates them, filled with zeros."""
    os.makedirs(folder, exist_ok=True)
    for element_type in FLOAT_TYPES + INT_TYPES + FLOAT8_TYPES:
        for name, data in zip('xyz', input_bytes(element_type)):
            with open(f'{folder}/{element_type}.{name}.bin', 'wb') as file:
                file.write(data)
    for kernel, kernel_rows in rows_by_kernel().items():
        with open(f'{folder}/{kernel}.tile', 'w') as file:
            file.write(kernel_text(kernel, kernel_rows))
        with open(f'{folder}/{kernel}.json', 'w') as file:
            json.dump(launch_description(kernel, kernel_rows), file)
            file.write('\n')


def canonical_patterns(element_type, data):
    """Returns the bit patterns of the elements in `data`. All NaNs get the same bit pattern, so that they compare as equal."""
    element_bytes = STORAGE_BITS[element_type] // 8
    bit_patterns = [int.from_bytes(data[i:i + element_bytes], 'little') for i in range(0, len(data), element_bytes)]
    if element_type not in MANTISSA_BITS:
        return bit_patterns
    infinity = (1 << STORAGE_BITS[element_type] - 1) - (1 << MANTISSA_BITS[element_type])
    return [infinity + 1 if pattern & (1 << STORAGE_BITS[element_type] - 1) - 1 > infinity else pattern for pattern in bit_patterns]


def ulp_distance(element_type, a, b):
    """Returns the distance of two bit patterns in ulps. The result is infinity if exactly one of two floats is NaN, or if two different
    patterns are integers or 8-bit floats."""
    if a == b:
        return 0
    if element_type not in MANTISSA_BITS:
        return math.inf
    sign_bit = 1 << STORAGE_BITS[element_type] - 1
    infinity = sign_bit - (1 << MANTISSA_BITS[element_type])
    if any(pattern & sign_bit - 1 > infinity for pattern in (a, b)):
        return math.inf
    order_key = lambda pattern: sign_bit - pattern if pattern & sign_bit else pattern
    return abs(order_key(a) - order_key(b))


def fnv1a_hash(element_type, bit_patterns):
    """Returns the 64-bit FNV-1a hash of the bytes of bit patterns, as a hexadecimal string."""
    hash_value = 0xcbf29ce484222325
    for byte in b''.join(pattern.to_bytes(STORAGE_BITS[element_type] // 8, 'little') for pattern in bit_patterns):
        hash_value = (hash_value ^ byte) * 0x100000001b3 % (1 << 64)
    return f'{hash_value:016x}'


def read_results(folder, kernel_rows):
    """Returns for each row of a kernel the bit patterns that an execution of the kernel wrote to the files in `folder`."""
    array_bytes = {stored_type: open(f'{folder}/{stored_type}.bin', 'rb').read() for stored_type in {storage_type(result) for _, result, _ in kernel_rows}}
    next_row, row_patterns = dict.fromkeys(array_bytes, 0), []
    for _, result, _ in kernel_rows:
        stored_type = storage_type(result)
        row_bytes = TILE_ELEMENTS * STORAGE_BITS[stored_type] // 8
        row_patterns.append(canonical_patterns(stored_type, array_bytes[stored_type][next_row[stored_type] * row_bytes:][:row_bytes]))
        next_row[stored_type] += 1
    return row_patterns


def compare(reference, arguments, work):
    """Executes all kernels in tile-run and as PTX of NVIDIA's compiler, and prints the rows whose results differ. Kernels whose results may
    differ by rounding are also executed as PTX of Tileworks. If `arguments.write` is set, the function also updates tests/ops. `reference` is a `Reference` of
    scripts/reference.py; `arguments` are the options of scripts/against-reference; `work` is a temporary folder."""
    folder = f'{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/tests/ops' if arguments.write else f'{work}/ops'
    write_kernels(folder)
    lines, row_counts = [], {}
    for kernel, kernel_rows in rows_by_kernel().items():
        kernel_folder = f'{work}/{kernel}'
        os.makedirs(f'{kernel_folder}/ours')
        description = launch_description(kernel, kernel_rows)
        for buffer in description['buffers']:
            with open(f'{kernel_folder}/{buffer["file"]}', 'wb') as file:
                if buffer['file'].endswith('.zeros'):
                    stored_type, count, _ = buffer['file'].split('.')
                    file.write(bytes(TILE_ELEMENTS * int(count) * STORAGE_BITS[stored_type] // 8))
                else:
                    with open(f'{folder}/{buffer["file"]}', 'rb') as source:
                        file.write(source.read())
        json.dump(description, open(f'{kernel_folder}/launch.json', 'w'))
        subprocess.run([f'{arguments.bin}/tile-read', f'{folder}/{kernel}.tile', '-o', f'{kernel_folder}/k.tile'], check=True)
        subprocess.run([f'{arguments.bin}/tile-write', f'{kernel_folder}/k.tile', '-o', f'{kernel_folder}/k.bc'], check=True)
        subprocess.run([f'{arguments.bin}/tile-run', f'{kernel_folder}/k.tile', '--launch', f'{kernel_folder}/launch.json', '--out-dir', f'{kernel_folder}/ours'], check=True)
        # For functions such as `sin`, the PTX of Tileworks may round differently than tile-run, so the comparison includes its results.
        tile_run_results, reference_results, ptx_results = read_results(f'{kernel_folder}/ours', kernel_rows), {}, []
        may_round_differently = kernel.endswith(('functions', 'trigonometry', 'powers'))
        for target in ('sm_80', 'sm_100') if may_round_differently else ():
            subprocess.run([f'{arguments.bin}/tileiras', f'{kernel_folder}/k.bc', '--gpu-name', target, '--emit=ptx', '-o', f'{kernel_folder}/k.ptx'], check=True)
            os.makedirs(f'{kernel_folder}/made', exist_ok=True)
            subprocess.run([f'{arguments.bin}/tile-sim', f'{kernel_folder}/k.ptx', '--launch', f'{kernel_folder}/launch.json', '--out-dir', f'{kernel_folder}/made'], check=True)
            ptx_results.append(read_results(f'{kernel_folder}/made', kernel_rows))
        for target in arguments.targets.split(','):
            failure = reference.run(f'{kernel_folder}/k.bc', target, f'{kernel_folder}/launch.json', f'{kernel_folder}/{target}')
            if failure:
                print(kernel, target, failure)
                row_counts['kernels refused'] = row_counts.get('kernels refused', 0) + 1
            else:
                reference_results[target] = read_results(f'{kernel_folder}/{target}', kernel_rows)
        for row_number, (name, result, op) in enumerate(kernel_rows if reference_results else []):
            stored_type = storage_type(result)
            max_ulps = lambda reference_rows: max(
                ulp_distance(stored_type, a, b) for our_rows in (tile_run_results, *ptx_results) for a, b in zip(our_rows[row_number], reference_rows[row_number]))
            max_ulps_by_target = {target: max_ulps(reference_rows) for target, reference_rows in reference_results.items()}
            worst_ulps = max(max_ulps_by_target.values())
            form = '!' if worst_ulps > 1 << 24 else '~' if worst_ulps or may_round_differently else '='
            row_counts[form] = row_counts.get(form, 0) + 1
            if worst_ulps:
                print(kernel, name, max_ulps_by_target)
                # Print at most two elements at which the result of tile-run has the largest distance.
                worst_elements = [i for i in range(TILE_ELEMENTS) if any(
                    ulp_distance(stored_type, tile_run_results[row_number][i], reference_rows[row_number][i]) == worst_ulps
                    for reference_rows in reference_results.values())][:2]
                for i in worst_elements:
                    print('   ', i, hex(tile_run_results[row_number][i]), *(hex(reference_rows[row_number][i]) for reference_rows in reference_results.values()))
            if form == '~':
                values = next(iter(reference_results.values()))[row_number]
                values = values if '%y' in op or '%power' in op else values[::16]
                lines.append(f'{kernel} {name} {stored_type} ~ {worst_ulps} ' + ''.join(f'{pattern:0{STORAGE_BITS[stored_type] // 4}x}' for pattern in values))
            else:
                lines.append(f'{kernel} {name} {stored_type} {form} {fnv1a_hash(stored_type, tile_run_results[row_number])}')
    print(row_counts)
    if arguments.write:
        with open(f'{folder}/rows.txt', 'w') as file:
            file.write('\n'.join(lines) + '\n')
