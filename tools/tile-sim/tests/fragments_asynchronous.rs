//! Fragments of `wgmma` and `tcgen05.mma`, with operands in shared memory, and of `tcgen05.ld` and `tcgen05.st`.

mod support;

use support::kernel;
use support::registers::*;

/// The layout of a matrix in shared memory: the byte offset of each element, and the fields of its matrix descriptor.
struct Layout {
    name: &'static str,
    /// Whether the contiguous dimension is M or N instead of K.
    is_mn_major: bool,
    /// The swizzle mode in bits 62 and 63 of the descriptor.
    swizzle: u64,
    /// The leading-dimension byte offset of the descriptor.
    leading: u64,
    /// The stride-dimension byte offset of the descriptor.
    stride: u64,
    /// The function that returns the byte offset of an element. If `is_mn_major` is false, its arguments are the row and the byte
    /// offset along K. Otherwise, its arguments are the byte offset along the rows and the K index.
    position: fn(usize, usize) -> usize,
}

/// Applies a swizzle: XORs the index of the 16-byte unit with the masked index of the 128-byte row.
const fn swizzled(address: usize, mask: usize) -> usize {
    address ^ ((address >> 7 & mask) << 4)
}

const LAYOUTS: &[Layout] = &[
    // Eight rows of 16 bytes are contiguous. The next 16 bytes along K start 2048 bytes later, and the next eight rows 128 bytes
    // later.
    Layout {
        name: "rows, no swizzle",
        is_mn_major: false,
        swizzle: 0,
        leading: 2048,
        stride: 128,
        position: |row, byte| row / 8 * 128 + row % 8 * 16 + byte / 16 * 2048 + byte % 16,
    },
    Layout {
        name: "rows of 32 bytes",
        is_mn_major: false,
        swizzle: 3,
        leading: 16,
        stride: 256,
        position: |row, byte| swizzled(row * 32 + byte, 1),
    },
    Layout {
        name: "rows of 64 bytes",
        is_mn_major: false,
        swizzle: 2,
        leading: 16,
        stride: 512,
        position: |row, byte| swizzled(row * 64 + byte, 3),
    },
    Layout {
        name: "rows of 128 bytes",
        is_mn_major: false,
        swizzle: 1,
        leading: 16,
        stride: 1024,
        position: |row, byte| swizzled(row * 128 + byte, 7),
    },
    // MN-major: 128 bytes along the rows for eight K indices are contiguous. The next 128 bytes along the rows start 2048 bytes
    // later.
    Layout {
        name: "columns of 128 bytes",
        is_mn_major: true,
        swizzle: 1,
        leading: 2048,
        stride: 1024,
        position: |byte, k| swizzled(byte / 128 * 2048 + k / 8 * 1024 + k % 8 * 128 + byte % 128, 7),
    },
];

/// Returns the contents of shared memory with A in the first half and B in the second half, and the matrices A and B.
fn shared_memory_image(ty: Type, (m, n): (usize, usize), k: usize, layout: &Layout) -> (Vec<u32>, Vec<Vec<i64>>, Vec<Vec<i64>>) {
    let size = ty.bits / 8;
    let mut bytes = vec![0u8; 2 * HALF_BYTES];
    let mut write_matrix = |start: usize, rows: usize, salt: usize| -> Vec<Vec<i64>> {
        let mut matrix = vec![vec![0; k]; rows];
        for (row, numbers) in matrix.iter_mut().enumerate() {
            for (at, number) in numbers.iter_mut().enumerate() {
                *number = ty.small_number(row, at, salt);
                let position =
                    if layout.is_mn_major { (layout.position)(row * size, at) } else { (layout.position)(row, at * size) };
                bytes[start + position..][..size].copy_from_slice(&ty.encode(*number).to_le_bytes()[..size]);
            }
        }
        matrix
    };
    let (a, b) = (write_matrix(0, m, 1), write_matrix(HALF_BYTES, n, 2));
    (words_of(&bytes), a, b)
}

/// Bytes of the half of shared memory that contains a matrix.
const HALF_BYTES: usize = 32768;

/// Returns the position of element `i` of a lane's accumulator: its row among the 16 rows of the warp, and its column.
fn accumulator_position(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + if i % 4 < 2 { 0 } else { 8 }, i / 4 * 8 + lane % 4 * 2 + (i & 1))
}

/// Returns the row and K index of element `i` of a lane's registers of A: the A fragment of `mma` with sixteen rows.
fn a_register_position(ty: Type, lane: usize, i: usize) -> (usize, usize) {
    let (g, t) = (lane / 4, lane % 4);
    let per = 32 / ty.bits;
    let register = i / per;
    (g + 8 * (register % 2), register / 2 * 4 * per + t * per + i % per)
}

/// Returns PTX that sets a register to the matrix descriptor of a matrix at a shared-memory address.
fn descriptor_text(register: &str, address: &str, layout: &Layout) -> String {
    let constant = (layout.leading >> 4) << 16 | (layout.stride >> 4) << 32 | layout.swizzle << 62;
    format!("shr.u32 %r20, {address}, 4;\ncvt.u64.u32 {register}, %r20;\nor.b64 {register}, {register}, {constant:#x};\n")
}

/// Runs a `wgmma` with an N extent of `n`, and checks every element of the result. `d` is the PTX type of the accumulator and the
/// bits of an element.
fn check_wgmma(ty: Type, n: usize, d: (&str, usize), layout: &Layout, left_in_registers: bool) {
    let k = 256 / ty.bits;
    let (image, a, b) = shared_memory_image(ty, (64, n), k, layout);
    let count = 64 * n * d.1 / 32 / 128;
    let transposed = u8::from(layout.is_mn_major);
    let flags = match (ty.bits, left_in_registers) {
        (16, true) => format!(", 1, 1, {transposed}"),
        (16, false) => format!(", 1, 1, {transposed}, {transposed}"),
        _ if d.0 == "s32" => String::new(),
        _ => ", 1, 1".into(),
    };
    let a_operand = if left_in_registers { register_list(30, 4) } else { "%rd20".into() };
    let name = format!("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{}.{1}.{1}", d.0, ty.name);
    // If A is in registers, the input contains the registers of each thread after the image of shared memory.
    let body = format!(
        "{}add.s32 %r21, %r2, {HALF_BYTES};\n{}{}shl.b32 %r22, %r1, 4;\ncvt.u64.u32 %rd2, %r22;\nadd.s64 %rd2, %rd2, %rd1;\n\
         add.s64 %rd2, %rd2, {};\n{}mul.lo.u32 %r3, %r1, {};\ncvt.u64.u32 %rd3, %r3;\nadd.s64 %rd3, %rd3, %rd1;\n\
         add.s64 %rd3, %rd3, {};\nwgmma.fence.sync.aligned;\n{name} {}, {a_operand}, %rd21, 0{flags};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{}",
        copy_to_shared(128, 2 * HALF_BYTES),
        descriptor_text("%rd20", "%r2", layout),
        descriptor_text("%rd21", "%r21", layout),
        2 * HALF_BYTES,
        load_registers(30, 4, 0),
        4 * count,
        2 * HALF_BYTES + 128 * 16,
        register_list(100, count),
        store_registers(100, count),
    );
    let mut input = image;
    for warp in 0..4 {
        let mut registers = Registers::new(4);
        for lane in 0..32 {
            for i in 0..16 * k / 32 {
                let (row, at) = a_register_position(ty, lane, i);
                registers.set(lane, 0, i, ty.bits, ty.encode(a[16 * warp + row][at]));
            }
        }
        input.extend(registers.words);
    }
    let out = run_for_output(&kernel("sm_90a", 128, 2 * HALF_BYTES as u32, &body), &input, 128 * count, 1);
    for warp in 0..4 {
        for lane in 0..32 {
            for i in 0..16 * n / 32 {
                let (row, column) = accumulator_position(lane, i);
                let expected: i64 = (0..k).map(|at| a[16 * warp + row][at] * b[column][at]).sum();
                let got = Registers::get(&out[warp * 32 * count..], count, lane, i, d.1);
                let position = format!("{name}, {}: row {}, column {column}", layout.name, 16 * warp + row);
                assert_eq!(got, encode_accumulator(d.0, expected), "{position}");
            }
        }
    }
}

#[test]
fn wgmma_types_and_widths() {
    let forms = [
        (F16, ("f32", 32)),
        (F16, ("f16", 16)),
        (BF16, ("f32", 32)),
        (TF32, ("f32", 32)),
        (E4M3, ("f32", 32)),
        (E5M2, ("f16", 16)),
        (S8, ("s32", 32)),
        (U8, ("s32", 32)),
    ];
    for (ty, d) in forms {
        for (n, left_in_registers) in [(8, false), (24, true), (64, false), (128, true)] {
            check_wgmma(ty, n, d, &LAYOUTS[0], left_in_registers);
        }
    }
    check_wgmma(BF16, 256, ("f32", 32), &LAYOUTS[3], false);
}

#[test]
fn wgmma_layouts_of_shared_memory() {
    for layout in LAYOUTS {
        check_wgmma(F16, 128, ("f32", 32), layout, false);
        check_wgmma(BF16, 64, ("f32", 32), layout, true);
        if !layout.is_mn_major {
            check_wgmma(TF32, 16, ("f32", 32), layout, false);
            check_wgmma(S8, 32, ("s32", 32), layout, false);
        }
    }
}

/// A shape of `tcgen05.ld` and `tcgen05.st` with a repetition count.
struct TmemAccess {
    name: &'static str,
    /// The number of registers of a thread.
    registers: usize,
    /// The TMEM lane of the address.
    first_lane: usize,
    /// The function from a thread and a register to the TMEM lane, relative to `first_lane`, and the column.
    position: fn(usize, usize) -> (usize, usize),
}

const ACCESSES: &[TmemAccess] = &[
    TmemAccess { name: "32x32b.x1", registers: 1, first_lane: 0, position: |t, r| (t, r) },
    TmemAccess { name: "32x32b.x16", registers: 16, first_lane: 0, position: |t, r| (t, r) },
    TmemAccess { name: "32x32b.x32", registers: 32, first_lane: 0, position: |t, r| (t, r) },
    TmemAccess { name: "16x64b.x1", registers: 1, first_lane: 0, position: |t, r| (t / 4 + t % 2 * 8, 2 * r + t / 2 % 2) },
    TmemAccess { name: "16x64b.x8", registers: 8, first_lane: 16, position: |t, r| (t / 4 + t % 2 * 8, 2 * r + t / 2 % 2) },
    TmemAccess { name: "16x128b.x1", registers: 2, first_lane: 0, position: |t, r| (t / 4 + r % 2 * 8, r / 2 * 4 + t % 4) },
    TmemAccess { name: "16x128b.x4", registers: 8, first_lane: 16, position: |t, r| (t / 4 + r % 2 * 8, r / 2 * 4 + t % 4) },
    TmemAccess {
        name: "16x256b.x1",
        registers: 4,
        first_lane: 0,
        position: |t, r| (t / 4 + r / 2 % 2 * 8, r / 4 * 8 + t % 4 * 2 + r % 2),
    },
    TmemAccess {
        name: "16x256b.x4",
        registers: 16,
        first_lane: 16,
        position: |t, r| (t / 4 + r / 2 % 2 * 8, r / 4 * 8 + t % 4 * 2 + r % 2),
    },
    TmemAccess { name: "16x32bx2.x4", registers: 4, first_lane: 0, position: |t, r| (t % 16, r + t / 16 * 16) },
];

/// Runs a kernel with one warp that allocates 32 columns of tensor memory. The kernel stores the input with the shape `store`,
/// loads with the shape `load`, and writes the loaded registers. `first_lane` contains the TMEM lanes of the two addresses.
fn through_tensor_memory(store: (&str, usize), load: (&str, usize), first_lane: (usize, usize), input: &[u32]) -> Vec<u32> {
    let split = |form: &str| if form.contains("x2.") { ", 16" } else { "" };
    let body = format!(
        "mov.b32 %r7, 32;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], %r7;\nbar.sync 0;\nld.shared.b32 %r8, [smem];\n\
         {}{}mov.b32 %r9, 0;\ntcgen05.st.sync.aligned.32x32b.x32.b32 [%r8], {{{}}};\ntcgen05.wait::st.sync.aligned;\n\
         add.s32 %r10, %r8, {};\ntcgen05.st.sync.aligned.{} [%r10]{}, {};\ntcgen05.wait::st.sync.aligned;\n\
         add.s32 %r10, %r8, {};\ntcgen05.ld.sync.aligned.{} {}, [%r10]{};\ntcgen05.wait::ld.sync.aligned;\n{}\
         tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\n",
        prologue(32, store.1, load.1),
        load_registers(100, store.1, 0),
        vec!["%r9"; 32].join(", "),
        first_lane.0 << 16,
        store.0,
        split(store.0),
        register_list(100, store.1),
        first_lane.1 << 16,
        load.0,
        register_list(200, load.1),
        split(load.0),
        store_registers(200, load.1),
    );
    run_for_output(&kernel("sm_100a", 32, 64, &body), input, 32 * load.1, 1)
}

/// Every shape loads the values that the shape `32x32b` stored. The shape `32x32b` loads the values that every shape stored.
#[test]
fn tensor_memory_accesses() {
    let cell = |lane: usize, column: usize| (lane * 100 + column + 7) as u32;
    for access in ACCESSES {
        let all: Vec<u32> = (0..32).flat_map(|lane| (0..32).map(move |column| cell(lane, column))).collect();
        let form = format!("{}.b32", access.name);
        let out = through_tensor_memory(("32x32b.x32.b32", 32), (&form, access.registers), (0, access.first_lane), &all);
        for (at, &got) in out.iter().enumerate() {
            let (lane, column) = (access.position)(at / access.registers, at % access.registers);
            assert_eq!(got, cell(access.first_lane + lane, column), "ld.{}: register {at}", access.name);
        }
        let input: Vec<u32> = (0..32 * access.registers as u32).map(|n| n + 1).collect();
        let out = through_tensor_memory((&form, access.registers), ("32x32b.x32.b32", 32), (access.first_lane, 0), &input);
        let mut expected = vec![0; 1024];
        for (at, &value) in input.iter().enumerate() {
            let (lane, column) = (access.position)(at / access.registers, at % access.registers);
            expected[(access.first_lane + lane) * 32 + column] = value;
        }
        assert_eq!(out, expected, "st.{}", access.name);
    }
}

/// Packed forms combine the lower halves of two neighbouring columns in a register.
#[test]
fn packed_tensor_memory_accesses() {
    for access in ACCESSES.iter().filter(|access| access.registers <= 8 && !access.name.contains("x2.")) {
        let cell = |lane: usize, column: usize| (lane * 100 + column + 7) as u32;
        let all: Vec<u32> = (0..32).flat_map(|lane| (0..32).map(move |column| cell(lane, column) | 0xabcd_0000)).collect();
        let form = format!("{}.pack::16b.b32", access.name);
        let out = through_tensor_memory(("32x32b.x32.b32", 32), (&form, access.registers), (0, access.first_lane), &all);
        for (at, &got) in out.iter().enumerate() {
            let (lane, column) = (access.position)(at / access.registers, at % access.registers);
            let part = |half| cell(access.first_lane + lane, 2 * column + half);
            assert_eq!(got, part(0) | part(1) << 16, "ld.{form}: register {at}");
        }
        let input: Vec<u32> = (0..32 * access.registers as u32).map(|n| n + 1 | (n + 0x4000) << 16).collect();
        let form = format!("{}.unpack::16b.b32", access.name);
        let out = through_tensor_memory((&form, access.registers), ("32x32b.x32.b32", 32), (access.first_lane, 0), &input);
        for (at, &value) in input.iter().enumerate() {
            let (lane, column) = (access.position)(at / access.registers, at % access.registers);
            let position = (access.first_lane + lane) * 32 + 2 * column;
            assert_eq!([out[position], out[position + 1]], [value & 0xffff, value >> 16], "st.{form}: register {at}");
        }
    }
}

/// Each column of the accumulator of `tcgen05.mma` is in a TMEM column. If the accumulator has 128 rows, each TMEM lane contains a
/// row. If it has 64 rows, the first 16 of the 32 TMEM lanes of each warp contain 16 rows.
#[test]
fn tcgen05_mmas() {
    let forms: [(&str, Type, u32, usize, usize); 6] = [
        ("f16", F16, 0, 128, 16),
        ("f16", BF16, 1, 64, 32),
        ("tf32", TF32, 2, 128, 8),
        ("f8f6f4", E4M3, 0, 64, 8),
        ("f8f6f4", E5M2, 1, 128, 32),
        ("i8", S8, 1, 128, 16),
    ];
    for (kind, ty, code, m, n) in forms {
        let k = 256 / ty.bits;
        let (image, a, b) = shared_memory_image(ty, (m, n), k, &LAYOUTS[0]);
        let result = if kind == "i8" { 2 } else { 1 };
        let form = result << 4 | code << 7 | code << 10 | (n as u32 / 8) << 17 | (m as u32 / 16) << 24;
        let body = format!(
            "{}setp.ne.b32 %p1, %r1, 0;\nsetp.ge.u32 %p2, %r1, 32;\nmov.b32 %r3, 1;\nmov.b32 %r7, 32;\nadd.s32 %r21, %r2, {HALF_BYTES};\n\
             @!%p1 mbarrier.init.shared.b64 [smem+{2}], %r3;\n@%p2 bra A;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem+{3}], %r7;\nA:\ntcgen05.fence::before_thread_sync;\nbar.sync 1;\n\
             tcgen05.fence::after_thread_sync;\nld.shared.b32 %r8, [smem+{3}];\n{4}{5}setp.ne.b32 %p3, %r3, 1;\nmov.b32 %r10, {form};\n\
             @%p1 bra B;\ntcgen05.mma.cta_group::1.kind::{kind} [%r8], %rd20, %rd21, %r10, %p3;\n\
             tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+{2}];\nB:\nmov.b32 %r11, 0;\n\
             W:\nmbarrier.try_wait.parity.shared.b64 %p4, [smem+{2}], %r11;\n@!%p4 bra W;\ntcgen05.fence::after_thread_sync;\n\
             and.b32 %r12, %r1, 96;\nshl.b32 %r13, %r12, 16;\nadd.s32 %r14, %r13, %r8;\n\
             tcgen05.ld.sync.aligned.32x32b.x{n}.b32 {6}, [%r14];\ntcgen05.wait::ld.sync.aligned;\n\
             mul.lo.u32 %r3, %r1, {7};\ncvt.u64.u32 %rd3, %r3;\nadd.s64 %rd3, %rd3, %rd1;\nadd.s64 %rd3, %rd3, {1};\n{8}\
             tcgen05.fence::before_thread_sync;\nbar.sync 2;\n@%p2 bra E;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\nE:\n",
            copy_to_shared(128, 2 * HALF_BYTES),
            2 * HALF_BYTES,
            2 * HALF_BYTES,
            2 * HALF_BYTES + 8,
            descriptor_text("%rd20", "%r2", &LAYOUTS[0]),
            descriptor_text("%rd21", "%r21", &LAYOUTS[0])
                + "or.b64 %rd20, %rd20, 0x400000000000;\nor.b64 %rd21, %rd21, 0x400000000000;\n",
            register_list(100, n),
            4 * n,
            store_registers(100, n),
        );
        let ptx = kernel("sm_100a", 128, 2 * HALF_BYTES as u32 + 64, &body);
        let out = run_for_output(&ptx, &image, 128 * n, 1);
        for row in 0..m {
            let lane = if m == 64 { row / 16 * 32 + row % 16 } else { row };
            for column in 0..n {
                let expected: i64 = (0..k).map(|at| a[row][at] * b[column][at]).sum();
                let number = encode_accumulator(if kind == "i8" { "s32" } else { "f32" }, expected);
                assert_eq!(u64::from(out[lane * n + column]), number, "{kind} {}: row {row}, column {column}", ty.name);
            }
        }
    }
}
