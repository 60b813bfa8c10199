//! Functions for tests of register fragments. They encode small integers in every operand type, fill the registers of the 32 lanes
//! of a warp, and read registers back.

use super::Case;

/// The function from a lane and an element index to the row and column of the element.
pub(crate) type FragmentPosition = fn(usize, usize) -> (usize, usize);

/// An operand type of `mma`: the number of bits of an element in a register, and the encodings of small integers.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) bits: usize,
    /// The encodings of 0, 1, 2 and 3.
    pub(crate) numbers: [u64; 4],
    /// The sign bit of floats; 0 for integers.
    pub(crate) sign: u64,
}

pub(crate) const F16: Type = Type { name: "f16", bits: 16, numbers: [0, 0x3c00, 0x4000, 0x4200], sign: 0x8000 };
pub(crate) const BF16: Type = Type { name: "bf16", bits: 16, numbers: [0, 0x3f80, 0x4000, 0x4040], sign: 0x8000 };
pub(crate) const TF32: Type =
    Type { name: "tf32", bits: 32, numbers: [0, 0x3f80_0000, 0x4000_0000, 0x4040_0000], sign: 0x8000_0000 };
pub(crate) const F64: Type = Type { name: "f64", bits: 64, numbers: [0, 0x3ff << 52, 0x400 << 52, 0x4008 << 48], sign: 1 << 63 };
pub(crate) const E4M3: Type = Type { name: "e4m3", bits: 8, numbers: [0, 0x38, 0x40, 0x44], sign: 0x80 };
pub(crate) const E5M2: Type = Type { name: "e5m2", bits: 8, numbers: [0, 0x3c, 0x40, 0x42], sign: 0x80 };
pub(crate) const E3M2: Type = Type { name: "e3m2", bits: 8, numbers: [0, 0x0c, 0x10, 0x12], sign: 0x20 };
pub(crate) const E2M3: Type = Type { name: "e2m3", bits: 8, numbers: [0, 0x08, 0x10, 0x14], sign: 0x20 };
/// E2M1 with `.kind::f8f6f4`: an element occupies bits 2 to 5 of a byte.
pub(crate) const E2M1_BYTE: Type = Type { name: "e2m1", bits: 8, numbers: [0, 2 << 2, 4 << 2, 5 << 2], sign: 8 << 2 };
/// E2M1 with two elements in a byte.
pub(crate) const E2M1: Type = Type { name: "e2m1", bits: 4, numbers: [0, 2, 4, 5], sign: 8 };
pub(crate) const U8: Type = Type { name: "u8", bits: 8, numbers: [0, 1, 2, 3], sign: 0 };
pub(crate) const U4: Type = Type { name: "u4", bits: 4, numbers: [0, 1, 2, 3], sign: 0 };
/// Single bits. The MMA combines two bits by AND or XOR, and counts the bits of the result that are 1.
pub(crate) const B1: Type = Type { name: "b1", bits: 1, numbers: [0, 1, 0, 1], sign: 0 };
pub(crate) const S8: Type = Type { name: "s8", bits: 8, numbers: [0, 1, 2, 3], sign: 0 };
pub(crate) const S4: Type = Type { name: "s4", bits: 4, numbers: [0, 1, 2, 3], sign: 0 };

impl Type {
    /// Encodes an integer from -3 to 3.
    pub(crate) fn encode(self, value: i64) -> u64 {
        match (value < 0, self.name) {
            (true, "s8" | "s4") => value as u64 & (u64::MAX >> (64 - self.bits)),
            (true, _) => self.numbers[-value as usize] | self.sign,
            (false, _) => self.numbers[value as usize],
        }
    }
    /// Returns a small number that depends on the position and on `salt`, so that a test detects exchanged positions.
    pub(crate) fn small_number(self, row: usize, column: usize, salt: usize) -> i64 {
        let hash = (row * 31 + column * 17 + row * column * 7 + salt * 5) % 61 % 7;
        let value = hash as i64 - 3;
        if self.name == "b1" {
            return value & 1;
        }
        if self.sign == 0 && !self.name.starts_with('s') { value.abs() } else { value }
    }
}

/// The contents of the registers of a warp, in words. The registers of a lane are consecutive.
pub(crate) struct Registers {
    /// The number of registers of each lane.
    pub(crate) per_lane: usize,
    pub(crate) words: Vec<u32>,
}

impl Registers {
    pub(crate) fn new(per_lane: usize) -> Registers {
        Registers { per_lane, words: vec![0; 32 * per_lane] }
    }
    /// Sets element `index` of the fragment of a lane. The fragment starts at register `first`, and an element has `bits` bits.
    pub(crate) fn set(&mut self, lane: usize, first: usize, index: usize, bits: usize, value: u64) {
        let at = index * bits;
        let word = lane * self.per_lane + first + at / 32;
        self.words[word] |= (value << (at % 32)) as u32;
        if bits == 64 {
            self.words[word + 1] |= (value >> 32) as u32;
        }
    }
    /// Returns element `index` of the fragment of a lane. The fragment starts at the first of the `per_lane` registers of the lane,
    /// and an element has `bits` bits.
    pub(crate) fn get(words: &[u32], per_lane: usize, lane: usize, index: usize, bits: usize) -> u64 {
        let word = lane * per_lane + index * bits / 32;
        match bits {
            64 => u64::from(words[word]) | u64::from(words[word + 1]) << 32,
            _ => u64::from(words[word]) >> (index * bits % 32) & (u64::MAX >> (64 - bits)),
        }
    }
}

/// Returns words as little-endian bytes.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns bytes as little-endian words of 32 bits.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Runs a kernel on a buffer that contains the input words and then `output` zeros. Returns the words after the input words.
pub(crate) fn run_for_output(ptx: &str, input: &[u32], output: usize, grid: u32) -> Vec<u32> {
    let buffer = bytes_of(&[input, &vec![0; output]].concat());
    let outcome = Case { ptx, grid: [grid, 1, 1], buffer, options: &["--races", "error"], files: &[] }.run();
    assert_eq!(outcome.code, 0, "{}\n{ptx}", outcome.errors);
    words_of(&outcome.out)[input.len()..].to_vec()
}

/// Returns PTX that loads `count` words into the registers from `%r{first}` on. `%rd2` is the address of word 0, and the first
/// loaded word is word `at`.
pub(crate) fn load_registers(first: usize, count: usize, at: usize) -> String {
    (0..count).map(|n| format!("ld.global.b32 %r{}, [%rd2+{}];\n", first + n, 4 * (at + n))).collect()
}
/// Returns PTX that stores `count` registers from `%r{first}` on to consecutive words at the address in `%rd3`.
pub(crate) fn store_registers(first: usize, count: usize) -> String {
    (0..count).map(|n| format!("st.global.b32 [%rd3+{}], %r{};\n", 4 * n, first + n)).collect()
}
/// Returns the PTX vector operand with `count` registers from `%r{first}` on.
pub(crate) fn register_list(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|n| format!("%r{n}")).collect();
    format!("{{{}}}", names.join(", "))
}
/// Returns PTX that sets `%rd2` to the address of the `input` words of a thread, and `%rd3` to the address of its `output` words.
/// The buffer contains the input words of all threads before the output words.
pub(crate) fn prologue(threads: usize, input: usize, output: usize) -> String {
    format!(
        "mul.lo.u32 %r3, %r1, {};\ncvt.u64.u32 %rd2, %r3;\nadd.s64 %rd2, %rd2, %rd1;\nmul.lo.u32 %r3, %r1, {};\n\
         cvt.u64.u32 %rd3, %r3;\nadd.s64 %rd3, %rd3, %rd1;\nadd.s64 %rd3, %rd3, {};\n",
        4 * input,
        4 * output,
        4 * threads * input
    )
}

/// Encodes an integer in an accumulator type.
pub(crate) fn encode_accumulator(name: &str, value: i64) -> u64 {
    match name {
        "f16" => encode_f16(value),
        "f32" => u64::from((value as f32).to_bits()),
        "f64" => (value as f64).to_bits(),
        _ => u64::from(value as i32 as u32),
    }
}
/// Encodes an integer of at most a few hundred as `f16`.
pub(crate) fn encode_f16(value: i64) -> u64 {
    let bits = (value as f32).to_bits();
    let sign = u64::from(bits >> 31) << 15;
    if value == 0 { 0 } else { sign | u64::from((bits >> 13 & 0x3_ffff) - ((127 - 15) << 10)) }
}

/// Fills the fragment of each lane, from register `first` on, with a part of a matrix of small numbers. Returns the matrix.
pub(crate) fn fill_fragment(
    registers: &mut Registers,
    first: usize,
    (ty, position): (Type, FragmentPosition),
    (rows, columns): (usize, usize),
    salt: usize,
) -> Vec<Vec<i64>> {
    let mut matrix = vec![vec![i64::MAX; columns]; rows];
    for lane in 0..32 {
        for index in 0..rows * columns / 32 {
            let (row, column) = position(lane, index);
            matrix[row][column] = ty.small_number(row, column, salt);
            registers.set(lane, first, index, ty.bits, ty.encode(matrix[row][column]));
        }
    }
    assert!(matrix.iter().flatten().all(|&value| value != i64::MAX), "the formula covers the matrix");
    matrix
}

/// Returns PTX that copies the first `count` bytes of the buffer to shared memory, 16 bytes per thread and iteration.
pub(crate) fn copy_to_shared(threads: usize, count: usize) -> String {
    format!(
        "shl.b32 %r10, %r1, 4;\nCOPY:\nadd.s32 %r11, %r2, %r10;\ncvt.u64.u32 %rd10, %r10;\nadd.s64 %rd11, %rd1, %rd10;\n\
         ld.global.v4.b32 {{%r12, %r13, %r14, %r15}}, [%rd11];\nst.shared.v4.b32 [%r11], {{%r12, %r13, %r14, %r15}};\n\
         add.s32 %r10, %r10, {};\nsetp.lt.u32 %p9, %r10, {count};\n@%p9 bra COPY;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n",
        16 * threads
    )
}
