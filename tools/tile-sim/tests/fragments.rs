//! Register fragments of every shape of `mma`, `ldmatrix`, `stmatrix` and `movmatrix`. The tests compare the simulator with the
//! formulas of the PTX ISA. As in the ISA, each formula gives the position of a fragment element, from the lowest element on. The
//! formulas share no code with the simulator.

mod support;

use support::kernel;
use support::registers::*;

// Fragments of `mma`: the position of element `i` of lane `l`. As in the PTX ISA, `g` is the group ID of the lane, and `t` is its
// thread ID in the group.

/// Returns the group ID of lane `l`. A group consists of four neighbouring lanes.
const fn g(l: usize) -> usize {
    l >> 2
}
/// Returns the thread ID of lane `l` in its group, from 0 to 3.
const fn t(l: usize) -> usize {
    l % 4
}
/// Returns the row offset of an element: 0 in the upper eight rows, 8 in the lower eight rows.
const fn row_half(is_upper: bool) -> usize {
    if is_upper { 0 } else { 8 }
}

const A_M8K4: FragmentPosition = |l, _| (g(l), t(l));
const A_M8K16: FragmentPosition = |l, i| (g(l), t(l) * 4 + i);
const A_M8K32: FragmentPosition = |l, i| (g(l), t(l) * 8 + i);
const A_K4: FragmentPosition = |l, i| (g(l) + row_half(i == 0), t(l));
const A_K8_HALF: FragmentPosition = |l, i| (g(l) + row_half(i < 2), t(l) * 2 + (i & 1));
const A_K8: FragmentPosition = |l, i| (g(l) + row_half(i == 0 || i == 2), t(l) + if i < 2 { 0 } else { 4 });
const A_K16: FragmentPosition =
    |l, i| (g(l) + row_half(i < 2 || (4..6).contains(&i)), t(l) * 2 + (i & 1) + if i < 4 { 0 } else { 8 });
const A_K16_DOUBLE: FragmentPosition =
    |l, i| (g(l) + row_half(i % 2 == 0), if i % 2 == 0 { i * 2 + t(l) } else { i * 2 - 2 + t(l) });
const A_K16_BYTE: FragmentPosition = |l, i| (g(l) + row_half(i < 4), t(l) * 4 + (i & 3));
const A_K32: FragmentPosition =
    |l, i| (g(l) + row_half(i < 4 || (8..12).contains(&i)), t(l) * 4 + (i & 3) + if i < 8 { 0 } else { 16 });
const A_K32_NIBBLE: FragmentPosition = |l, i| (g(l) + row_half(i < 8), t(l) * 8 + (i & 7));
const A_K64: FragmentPosition =
    |l, i| (g(l) + row_half(i < 8 || (16..24).contains(&i)), t(l) * 8 + (i & 7) + if i < 16 { 0 } else { 32 });

const A_M8K128: FragmentPosition = |l, i| (g(l), t(l) * 32 + i);
const A_K128: FragmentPosition = |l, i| (g(l) + row_half(i < 32), t(l) * 32 + (i & 31));
const A_K256: FragmentPosition =
    |l, i| (g(l) + row_half(i < 32 || (64..96).contains(&i)), t(l) * 32 + (i & 31) + if i < 64 { 0 } else { 128 });

const B_K4: FragmentPosition = |l, _| (t(l), g(l));
const B_K8_HALF: FragmentPosition = |l, i| (t(l) * 2 + i, g(l));
const B_K8: FragmentPosition = |l, i| (t(l) + 4 * i, g(l));
const B_K16: FragmentPosition = |l, i| (t(l) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, g(l));
const B_K16_BYTE: FragmentPosition = |l, i| (t(l) * 4 + i, g(l));
const B_K32: FragmentPosition = |l, i| (t(l) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, g(l));
const B_K32_NIBBLE: FragmentPosition = |l, i| (t(l) * 8 + i, g(l));
const B_K64: FragmentPosition = |l, i| (t(l) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, g(l));

const B_K128: FragmentPosition = |l, i| (t(l) * 32 + i, g(l));
const B_K256: FragmentPosition = |l, i| (t(l) * 32 + (i & 31) + if i < 32 { 0 } else { 128 }, g(l));

const C_M8: FragmentPosition = |l, i| (g(l), t(l) * 2 + i);
const C_M16: FragmentPosition = |l, i| (g(l) + row_half(i < 2), t(l) * 2 + (i & 1));

/// A form of `mma` whose N extent is 8.
struct Mma {
    m: usize,
    k: usize,
    /// The type of A and the positions of its elements.
    a: (Type, FragmentPosition),
    /// The type of B and the positions of its elements.
    b: (Type, FragmentPosition),
    /// The PTX type of the accumulator, and the bits of an element.
    d: (&'static str, usize),
    /// The positions of the elements of the accumulator.
    c: FragmentPosition,
    /// A `.kind` modifier, or the operation of an MMA of single bits.
    kind: &'static str,
}

const fn mma(m: usize, k: usize, ty: (Type, Type), a: FragmentPosition, b: FragmentPosition, d: &'static str) -> Mma {
    let bits = match d.as_bytes() {
        b"f16" => 16,
        b"f64" => 64,
        _ => 32,
    };
    Mma { m, k, a: (ty.0, a), b: (ty.1, b), d: (d, bits), c: if m == 8 { C_M8 } else { C_M16 }, kind: "" }
}
const fn bit_mma(m: usize, k: usize, a: FragmentPosition, b: FragmentPosition, operation: &'static str) -> Mma {
    Mma { kind: operation, ..mma(m, k, (B1, B1), a, b, "s32") }
}
const fn f8f6f4_mma(a: Type, b: Type, d: &'static str) -> Mma {
    Mma { kind: ".kind::f8f6f4", ..mma(16, 32, (a, b), A_K32, B_K32, d) }
}

const MMA_SHAPES: &[Mma] = &[
    mma(16, 8, (F16, F16), A_K8_HALF, B_K8_HALF, "f16"),
    mma(16, 8, (F16, F16), A_K8_HALF, B_K8_HALF, "f32"),
    mma(16, 16, (F16, F16), A_K16, B_K16, "f16"),
    mma(16, 16, (F16, F16), A_K16, B_K16, "f32"),
    mma(16, 8, (BF16, BF16), A_K8_HALF, B_K8_HALF, "f32"),
    mma(16, 16, (BF16, BF16), A_K16, B_K16, "f32"),
    mma(16, 4, (TF32, TF32), A_K4, B_K4, "f32"),
    mma(16, 8, (TF32, TF32), A_K8, B_K8, "f32"),
    mma(8, 4, (F64, F64), A_M8K4, B_K4, "f64"),
    mma(16, 4, (F64, F64), A_K4, B_K4, "f64"),
    mma(16, 8, (F64, F64), A_K8, B_K8, "f64"),
    mma(16, 16, (F64, F64), A_K16_DOUBLE, B_K8, "f64"),
    mma(16, 16, (E4M3, E5M2), A_K16_BYTE, B_K16_BYTE, "f32"),
    mma(16, 16, (E5M2, E4M3), A_K16_BYTE, B_K16_BYTE, "f16"),
    mma(16, 32, (E4M3, E4M3), A_K32, B_K32, "f32"),
    mma(16, 32, (E5M2, E5M2), A_K32, B_K32, "f16"),
    mma(8, 16, (U8, S8), A_M8K16, B_K16_BYTE, "s32"),
    mma(16, 16, (S8, U8), A_K16_BYTE, B_K16_BYTE, "s32"),
    mma(16, 32, (S8, S8), A_K32, B_K32, "s32"),
    mma(8, 32, (U4, S4), A_M8K32, B_K32_NIBBLE, "s32"),
    mma(16, 32, (S4, S4), A_K32_NIBBLE, B_K32_NIBBLE, "s32"),
    mma(16, 64, (S4, U4), A_K64, B_K64, "s32"),
    bit_mma(8, 128, A_M8K128, B_K128, ".and.popc"),
    bit_mma(16, 128, A_K128, B_K128, ".xor.popc"),
    bit_mma(16, 256, A_K256, B_K256, ".and.popc"),
    bit_mma(16, 256, A_K256, B_K256, ".xor.popc"),
    f8f6f4_mma(E3M2, E2M3, "f32"),
    f8f6f4_mma(E2M1_BYTE, E4M3, "f16"),
    f8f6f4_mma(E2M3, E2M1_BYTE, "f32"),
];

#[test]
fn mma_shapes() {
    for shape in MMA_SHAPES {
        let Mma { m, k, a, b, d, c, kind } = *shape;
        let word_count = |elements: usize, bits: usize| elements * bits / 32 / 32;
        let (a_words, b_words, c_words) = (word_count(m * k, a.0.bits), word_count(k * 8, b.0.bits), word_count(m * 8, d.1));
        let mut registers = Registers::new(a_words + b_words + c_words);
        let left = fill_fragment(&mut registers, 0, a, (m, k), 1);
        let right = fill_fragment(&mut registers, a_words, b, (k, 8), 2);
        let mut accumulators = vec![vec![0; 8]; m];
        for lane in 0..32 {
            for index in 0..m * 8 / 32 {
                let (row, column) = c(lane, index);
                accumulators[row][column] = S8.small_number(row, column, 3);
                registers.set(lane, a_words + b_words, index, d.1, encode_accumulator(d.0, accumulators[row][column]));
            }
        }
        let (kind, operation) = if kind.ends_with("popc") { ("", kind) } else { (kind, "") };
        let name = format!("mma.sync.aligned.m{m}n8k{k}.row.col{kind}.{}.{}.{}.{}{operation}", d.0, a.0.name, b.0.name, d.0);
        let is_double = d.0 == "f64";
        let vector = |first: usize, count: usize| match is_double {
            true => {
                let names: Vec<String> = (first / 2..(first + count) / 2).map(|n| format!("%rd{}", 100 + n)).collect();
                format!("{{{}}}", names.join(", "))
            }
            false => register_list(100 + first, count),
        };
        let total = a_words + b_words + c_words;
        let load_operands: String = match is_double {
            true => (0..total / 2).map(|n| format!("ld.global.b64 %rd{}, [%rd2+{}];\n", 100 + n, 8 * n)).collect(),
            false => load_registers(100, total, 0),
        };
        let results = a_words + b_words;
        let store_results: String = match is_double {
            true => (0..c_words / 2).map(|n| format!("st.global.b64 [%rd3+{}], %rd{};\n", 8 * n, 100 + results / 2 + n)).collect(),
            false => store_registers(100 + results, c_words),
        };
        let (va, vb, vc) = (vector(0, a_words), vector(a_words, b_words), vector(results, c_words));
        let body = format!("{}{load_operands}{name} {vc}, {va}, {vb}, {vc};\n{store_results}", prologue(32, total, c_words));
        let ptx = kernel("sm_120a", 32, 64, &body).replace("%rd<40>", "%rd<300>");
        let out = run_for_output(&ptx, &registers.words, 32 * c_words, 1);
        for lane in 0..32 {
            for index in 0..m * 8 / 32 {
                let (row, column) = c(lane, index);
                let combine = |x: i64, y: i64| if operation == ".xor.popc" { x ^ y } else { x * y };
                let product: i64 = (0..k).map(|at| combine(left[row][at], right[at][column])).sum();
                let expected = encode_accumulator(d.0, accumulators[row][column] + product);
                let got = Registers::get(&out, c_words, lane, index, d.1);
                assert_eq!(got, expected, "{name}: lane {lane}, element {index}, row {row}, column {column}");
            }
        }
    }
}

/// An operand selects the thread pair of a lane group that provides the scales of a row of A. Another operand selects the thread of
/// a lane group that provides the scales of a column of B.
#[test]
fn mma_with_scales() {
    let forms = [
        ("mxf8f6f4", "1X", E4M3, 32, 1, A_K32, B_K32, vec![0, 1, 2, 3]),
        ("mxf4", "2X", E2M1, 64, 2, A_K64, B_K64, vec![0, 2]),
        ("mxf4nvf4", "4X", E2M1, 64, 4, A_K64, B_K64, vec![0]),
    ];
    for (kind, vector, ty, k, count, a, b, byte_ids) in forms {
        for (byte, pair, thread) in byte_ids.into_iter().flat_map(|byte| [(byte, 0, 0), (byte, 0, 3), (byte, 1, 2), (byte, 1, 1)]) {
            let mut registers = Registers::new(12);
            let left = fill_fragment(&mut registers, 0, (ty, a), (16, k), 1);
            let right = fill_fragment(&mut registers, 4, (ty, b), (k, 8), 2);
            // Registers 6 and 7 contain the scales, which are powers of two. The exponent depends on the lane and on the byte.
            let power = |lane: usize, byte: usize, salt: usize| (lane * 3 + byte * 5 + salt) % 3;
            for lane in 0..32 {
                for byte in 0..4 {
                    registers.set(lane, 6, byte, 8, 127 + power(lane, byte, 0) as u64);
                    registers.set(lane, 7, byte, 8, 127 + power(lane, byte, 1) as u64);
                }
            }
            let name = format!(
                "mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.{0}.{0}.f32.ue8m0",
                ty.name
            );
            let body = format!(
                "{}{}{name} {}, {}, {}, {}, %r106, {{{byte}, {pair}}}, %r107, {{{byte}, {thread}}};\n{}",
                prologue(32, 12, 4),
                load_registers(100, 12, 0),
                register_list(108, 4),
                register_list(100, 4),
                register_list(104, 2),
                register_list(108, 4),
                store_registers(108, 4)
            );
            let out = run_for_output(&kernel("sm_120a", 32, 64, &body), &registers.words, 128, 1);
            for lane in 0..32 {
                for index in 0..4 {
                    let (row, column) = C_M16(lane, index);
                    let scale_a = |block: usize| power(row % 8 * 4 + 2 * pair + row / 8, byte + block, 0);
                    let scale_b = |block: usize| power(column * 4 + thread, byte + block, 1);
                    let term = |at: usize| {
                        let block = at * count / k;
                        left[row][at] * right[at][column] << (scale_a(block) + scale_b(block))
                    };
                    let expected = ((0..k).map(term).sum::<i64>() as f32).to_bits();
                    let got = out[lane * 4 + index];
                    assert_eq!(got, expected, "{name} {byte} {pair} {thread}: row {row}, column {column}");
                }
            }
        }
    }
}

/// For `ldmatrix`, lane `i` addresses row `i`. The value of each element depends on its row and on its position in the row.
#[test]
fn ldmatrix_shapes() {
    // Modifiers, matrices, rows per matrix, registers per matrix, bits of an element in memory and in a register, and the function
    // from (lane, register, part) to (row, position in the row).
    type Shape = (&'static str, usize, usize, usize, usize, usize, fn(usize, usize, usize) -> (usize, usize));
    let row_major: fn(usize, usize, usize) -> (usize, usize) = |l, _, i| (l / 4, l % 4 * 2 + i);
    let transposed: fn(usize, usize, usize) -> (usize, usize) = |l, _, i| (l % 4 * 2 + i, l / 4);
    let transposed_16x16_bytes: fn(usize, usize, usize) -> (usize, usize) = |l, r, i| (l % 4 * 4 + i, l / 4 + 8 * r);
    let rows_of_16_bytes: fn(usize, usize, usize) -> (usize, usize) = |l, _, i| (l / 4, l % 4 * 4 + i);
    let shapes: &[Shape] = &[
        ("m8n8.x1.shared.b16", 1, 8, 1, 16, 16, row_major),
        ("m8n8.x2.shared.b16", 2, 8, 1, 16, 16, row_major),
        ("m8n8.x4.shared.b16", 4, 8, 1, 16, 16, row_major),
        ("m8n8.x1.trans.shared.b16", 1, 8, 1, 16, 16, transposed),
        ("m8n8.x2.trans.shared.b16", 2, 8, 1, 16, 16, transposed),
        ("m8n8.x4.trans.shared.b16", 4, 8, 1, 16, 16, transposed),
        ("m16n16.x1.trans.shared.b8", 1, 16, 2, 8, 8, transposed_16x16_bytes),
        ("m16n16.x2.trans.shared.b8", 2, 16, 2, 8, 8, transposed_16x16_bytes),
        ("m16n16.x1.trans.shared.b8x16.b6x16_p32", 1, 16, 2, 6, 8, transposed_16x16_bytes),
        ("m16n16.x2.trans.shared.b8x16.b4x16_p64", 2, 16, 2, 4, 8, transposed_16x16_bytes),
        ("m8n16.x1.shared.b8x16.b6x16_p32", 1, 8, 1, 6, 8, rows_of_16_bytes),
        ("m8n16.x2.shared.b8x16.b4x16_p64", 2, 8, 1, 4, 8, rows_of_16_bytes),
        ("m8n16.x4.shared.b8x16.b6x16_p32", 4, 8, 1, 6, 8, rows_of_16_bytes),
    ];
    for &(name, matrices, rows, registers, memory, bits, position) in shapes {
        let element = |row: usize, at: usize| (row * 37 + at * 11 + 5) as u128 & ((1 << memory) - 1);
        let mut input = Vec::new();
        for row in 0..matrices * rows {
            let count = if bits == 16 { 8 } else { 16 };
            let all = (0..count).fold(0u128, |all, at| all | element(row, at) << (at * memory));
            input.extend(words_of(&all.to_le_bytes()));
        }
        input.resize(128, 0);
        let count = matrices * registers;
        let body = format!(
            "{}shl.b32 %r20, %r1, 4;\nadd.s32 %r20, %r20, %r2;\nldmatrix.sync.aligned.{name} {}, [%r20];\n{}{}",
            copy_to_shared(32, 512),
            register_list(100, count),
            prologue(32, 4, count),
            store_registers(100, count)
        );
        let out = run_for_output(&kernel("sm_120a", 32, 512, &body), &input, 32 * count, 1);
        for lane in 0..32 {
            for register in 0..count {
                let expected = (0..32 / bits).fold(0, |word, part| {
                    let (row, at) = position(lane, register % registers, part);
                    word | (element(register / registers * rows + row, at) as u32) << (part * bits)
                });
                assert_eq!(out[lane * count + register], expected, "ldmatrix.{name}: lane {lane}, register {register}");
            }
        }
    }
}

#[test]
fn stmatrix_shapes() {
    // Modifiers, matrices, rows per matrix, bytes per row, bits of an element, and the function from (lane, part) to (row, position
    // in the row).
    type Shape = (&'static str, usize, usize, usize, usize, fn(usize, usize) -> (usize, usize));
    let row_major: fn(usize, usize) -> (usize, usize) = |l, i| (l / 4, l % 4 * 2 + i);
    let transposed: fn(usize, usize) -> (usize, usize) = |l, i| (l % 4 * 2 + i, l / 4);
    let transposed_16x8_bytes: fn(usize, usize) -> (usize, usize) = |l, i| (l % 4 * 4 + i, l / 4);
    let shapes: &[Shape] = &[
        ("m8n8.x1.shared.b16", 1, 8, 16, 16, row_major),
        ("m8n8.x2.shared.b16", 2, 8, 16, 16, row_major),
        ("m8n8.x4.shared.b16", 4, 8, 16, 16, row_major),
        ("m8n8.x1.trans.shared.b16", 1, 8, 16, 16, transposed),
        ("m8n8.x2.trans.shared.b16", 2, 8, 16, 16, transposed),
        ("m8n8.x4.trans.shared.b16", 4, 8, 16, 16, transposed),
        ("m16n8.x1.trans.shared.b8", 1, 16, 8, 8, transposed_16x8_bytes),
        ("m16n8.x2.trans.shared.b8", 2, 16, 8, 8, transposed_16x8_bytes),
    ];
    for &(name, matrices, rows, row_bytes, bits, position) in shapes {
        let input: Vec<u32> = (0..32 * matrices as u32).map(|n| n.wrapping_mul(0x9e37_79b9) ^ 0x1234_5678).collect();
        let total = matrices * rows * row_bytes;
        let body = format!(
            "{}{}mul.lo.u32 %r20, %r1, {row_bytes};\nadd.s32 %r20, %r20, %r2;\nstmatrix.sync.aligned.{name} [%r20], {};\nbar.sync 0;\n\
             shl.b32 %r22, %r1, 4;\nsetp.ge.u32 %p1, %r22, {total};\n@%p1 bra E;\nadd.s32 %r21, %r22, %r2;\n\
             ld.shared.v4.b32 {{%r30, %r31, %r32, %r33}}, [%r21];\n{}E:",
            prologue(32, matrices, 4),
            load_registers(100, matrices, 0),
            register_list(100, matrices),
            store_registers(30, 4)
        );
        let out = bytes_of(&run_for_output(&kernel("sm_120a", 32, 512, &body), &input, 128, 1));
        for lane in 0..32 {
            for (matrix, register) in (0..matrices).map(|m| (m, input[lane * matrices + m])) {
                for part in 0..32 / bits {
                    let (row, at) = position(lane, part);
                    let from = (matrix * rows + row) * row_bytes + at * bits / 8;
                    let stored = (0..bits / 8).fold(0, |value, byte| value | u32::from(out[from + byte]) << (8 * byte));
                    let expected = register >> (part * bits) & (u32::MAX >> (32 - bits));
                    assert_eq!(stored, expected, "stmatrix.{name}: lane {lane}, matrix {matrix}, part {part}");
                }
            }
        }
    }
}

#[test]
fn movmatrix_transposes() {
    let input: Vec<u32> = (0..32).map(|n| 2 * n | (2 * n + 1) << 16).collect();
    let body = format!(
        "{}{}movmatrix.sync.aligned.m8n8.trans.b16 %r101, %r100;\n{}",
        prologue(32, 1, 1),
        load_registers(100, 1, 0),
        store_registers(101, 1)
    );
    let out = run_for_output(&kernel("sm_80", 32, 64, &body), &input, 32, 1);
    for (lane, &word) in out.iter().enumerate() {
        let element = |i: usize| ((lane % 4 * 2 + i) * 8 + lane / 4) as u32;
        assert_eq!(word, element(0) | element(1) << 16, "lane {lane}");
    }
}
