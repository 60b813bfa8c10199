//! MMA arithmetic. Each sum starts with the element of the accumulator and adds one product for each k, in increasing order. Floats
//! narrower than f64 use f32 arithmetic, which rounds each product and each sum. An accumulator narrower than f32 is rounded once
//! at the end. Integers wrap.

use super::Tile;
use core_dialect::tile::Elem;
use numerics::Scalar;
use numerics::arith::{Convert, ElementWords, Rounding, Signedness};

/// The extents of an MMA. The batch extent is 1 for two-dimensional tiles.
struct MmaExtents {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

/// Returns the extents of an MMA from the shapes of its operands.
fn extents(a: &Tile, b: &Tile) -> MmaExtents {
    let rank = a.shape.len();
    let batch = if rank == 3 { a.shape[0] as usize } else { 1 };
    MmaExtents { batch, m: a.shape[rank - 2] as usize, k: a.shape[rank - 1] as usize, n: b.shape[rank - 1] as usize }
}

/// The type in which an MMA accumulates.
trait AccumulatorElement: Copy {
    /// Returns `self + a * b`.
    fn add_product(self, a: Self, b: Self) -> Self;
}
impl AccumulatorElement for f32 {
    #[inline(always)]
    fn add_product(self, a: f32, b: f32) -> f32 {
        self + a * b
    }
}
impl AccumulatorElement for f64 {
    #[inline(always)]
    fn add_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
}
impl AccumulatorElement for i32 {
    #[inline(always)]
    fn add_product(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// Adds the matmul of `a` and `b` to `c`, for each matrix of the batch, with the widest vectors of the host. The result does not
/// depend on the vector width. Reason: each sum adds one product for each k, in increasing order and without fused multiply-add.
#[allow(unsafe_code, reason = "a call of a function for AVX instructions, after a check that the host has them")]
fn matmul<T: AccumulatorElement>(extents: &MmaExtents, a: &[T], b: &[T], c: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return unsafe { x86::matmul_avx512(extents, a, b, c) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the host has the instructions.
            return unsafe { x86::matmul_avx2(extents, a, b, c) };
        }
    }
    matmul_blocked(extents, a, b, c);
}

/// The function [`matmul_blocked`], compiled for AVX instructions, which not every host has.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "functions for AVX instructions, which not every host has")]
mod x86 {
    use super::{AccumulatorElement, MmaExtents, matmul_blocked};

    #[target_feature(enable = "avx512f")]
    pub(super) fn matmul_avx512<T: AccumulatorElement>(extents: &MmaExtents, a: &[T], b: &[T], c: &mut [T]) {
        matmul_blocked(extents, a, b, c);
    }
    #[target_feature(enable = "avx2")]
    pub(super) fn matmul_avx2<T: AccumulatorElement>(extents: &MmaExtents, a: &[T], b: &[T], c: &mut [T]) {
        matmul_blocked(extents, a, b, c);
    }
}

/// Rows of a block of accumulators that stays in registers. A block of 32-bit words fills 8 of the 32 AVX-512 registers, a block of
/// 64-bit words 16.
const BLOCK_ROWS: usize = 4;
/// Columns of a block of accumulators that stays in registers.
const BLOCK_COLUMNS: usize = 32;

/// Adds the matmul of `a` and `b` to `c`, for each matrix of the batch: in blocks of accumulators, and element by element
/// at the edges.
#[inline(always)]
fn matmul_blocked<T: AccumulatorElement>(extents: &MmaExtents, a: &[T], b: &[T], c: &mut [T]) {
    let MmaExtents { batch, m, n, k } = *extents;
    for matrix in 0..batch {
        let (a, b, c) = (&a[matrix * m * k..][..m * k], &b[matrix * k * n..][..k * n], &mut c[matrix * m * n..][..m * n]);
        let (full_rows, full_columns) = (m / BLOCK_ROWS * BLOCK_ROWS, n / BLOCK_COLUMNS * BLOCK_COLUMNS);
        for column in (0..full_columns).step_by(BLOCK_COLUMNS) {
            for row in (0..full_rows).step_by(BLOCK_ROWS) {
                update_block(&a[row * k..][..BLOCK_ROWS * k], &b[column..], &mut c[row * n + column..], n, k);
            }
        }
        for row in 0..m {
            let columns = if row < full_rows { full_columns..n } else { 0..n };
            let accumulators = &mut c[row * n..][columns.clone()];
            for (x, factors) in a[row * k..][..k].iter().zip(b.chunks_exact(n)) {
                for (sum, y) in accumulators.iter_mut().zip(&factors[columns.clone()]) {
                    *sum = sum.add_product(*x, *y);
                }
            }
        }
    }
}

/// Updates a block of accumulators. `a` starts at the first row of the block, `b` at its first column, and `c` at its first
/// element. The rows of `b` and `c` have `n` elements.
#[inline(always)]
fn update_block<T: AccumulatorElement>(a: &[T], b: &[T], c: &mut [T], n: usize, k: usize) {
    let mut accumulators: [[T; BLOCK_COLUMNS]; BLOCK_ROWS] =
        std::array::from_fn(|row| std::array::from_fn(|column| c[row * n + column]));
    for (k_index, factors) in b.chunks(n).take(k).enumerate() {
        let factors: &[T; BLOCK_COLUMNS] = factors[..BLOCK_COLUMNS].try_into().expect("the block is inside the row");
        for (row, accumulators) in accumulators.iter_mut().enumerate() {
            let x = a[row * k + k_index];
            for (sum, y) in accumulators.iter_mut().zip(factors) {
                *sum = sum.add_product(x, *y);
            }
        }
    }
    for (row, accumulators) in accumulators.iter().enumerate() {
        c[row * n..][..BLOCK_COLUMNS].copy_from_slice(accumulators);
    }
}

/// Returns the elements of a float tile as f32.
fn f32_elements(x: &Tile) -> Vec<f32> {
    let ElementWords::W32(words) = converted_words(x, Scalar::F32) else { unreachable!("f32 has 32 bits") };
    words.into_iter().map(f32::from_bits).collect()
}

/// Returns the elements of a float tile as f64.
fn f64_elements(x: &Tile) -> Vec<f64> {
    let ElementWords::W64(words) = converted_words(x, Scalar::F64) else { unreachable!("f64 has 64 bits") };
    words.into_iter().map(f64::from_bits).collect()
}

/// Converts the elements of a float tile to f32 or f64.
fn converted_words(x: &Tile, to: Scalar) -> ElementWords {
    match x.carrier() == to {
        true => x.element_words().clone(),
        false => Convert::FToF { rounding: Rounding::NearestEven }.eval_words(x.carrier(), to, x.element_words()),
    }
}

/// Returns a tile with the shape and element type of the accumulator, from f32 or f64 words. NaNs become canonical.
fn accumulator_tile(acc: &Tile, from: Scalar, words: ElementWords) -> Tile {
    let element_words = Convert::FToF { rounding: Rounding::NearestEven }.eval_words(from, acc.carrier(), &words);
    Tile::new(acc.shape.clone(), acc.elem, element_words)
}

/// Returns `acc` plus the matmul of two float tiles. Accumulates in f64 if the accumulator is f64, otherwise in f32.
pub(crate) fn float_mma(a: &Tile, b: &Tile, acc: &Tile) -> Tile {
    let extents = extents(a, b);
    if acc.carrier() == Scalar::F64 {
        let mut accumulators = f64_elements(acc);
        matmul(&extents, &f64_elements(a), &f64_elements(b), &mut accumulators);
        return accumulator_tile(acc, Scalar::F64, ElementWords::W64(accumulators.into_iter().map(f64::to_bits).collect()));
    }
    let mut accumulators = f32_elements(acc);
    matmul(&extents, &f32_elements(a), &f32_elements(b), &mut accumulators);
    accumulator_tile(acc, Scalar::F32, ElementWords::W32(accumulators.into_iter().map(f32::to_bits).collect()))
}

/// Returns the i32 tile `acc` plus the matmul of two tiles of 8-bit integers.
pub(crate) fn int_mma(a: &Tile, a_sign: Signedness, b: &Tile, b_sign: Signedness, acc: &Tile) -> Tile {
    let mut accumulators = i32_elements(acc, Signedness::Signed);
    matmul(&extents(a, b), &i32_elements(a, a_sign), &i32_elements(b, b_sign), &mut accumulators);
    let element_words = ElementWords::W32(accumulators.into_iter().map(|sum| sum as u32).collect());
    Tile::new(acc.shape.clone(), Elem::Scalar(Scalar::I32), element_words)
}

/// Returns the elements of an integer tile as i32.
fn i32_elements(x: &Tile, signedness: Signedness) -> Vec<i32> {
    let value = |bits| if signedness == Signedness::Signed { x.carrier().sign_extend(bits) as i32 } else { bits as i32 };
    x.element_words().iter().map(value).collect()
}

/// Unpacks each byte into two 4-bit floats that are neighbours along `dim`. The lower half of a byte comes first.
fn unpack_f4(bytes: &Tile, dim: usize) -> Tile {
    let inner_elements = core_dialect::tile::element_count(&bytes.shape[dim + 1..]);
    let data: Vec<u8> = bytes.element_words().iter().map(|bits| bits as u8).collect();
    let unpack_line = |line: &[u8]| [0, 4].map(|from| line.iter().map(|byte| byte >> from & 15).collect::<Vec<u8>>()).concat();
    let mut shape = bytes.shape.clone();
    shape[dim] *= 2;
    Tile::new(
        shape,
        Elem::Scalar(Scalar::F4E2M1FN),
        ElementWords::W8(data.chunks_exact(inner_elements).flat_map(unpack_line).collect()),
    )
}

/// Returns the result of an MMA whose operands have a scale per block of K. `a_scale` has rows by blocks, `b_scale` blocks by
/// columns. The MMA accumulates in f64, because a scaled element can exceed the range of f32.
pub(crate) fn scaled_mma(a: &Tile, b: &Tile, acc: &Tile, a_scale: &Tile, b_scale: &Tile) -> Tile {
    if a.carrier() == Scalar::I8 {
        let rank = a.shape.len();
        return scaled_mma(&unpack_f4(a, rank - 1), &unpack_f4(b, rank - 2), acc, a_scale, b_scale);
    }
    let extents = extents(a, b);
    let MmaExtents { batch, m, n, k } = extents;
    let (mut x, mut y) = (f64_elements(a), f64_elements(b));
    let (x_scale, y_scale) = (f64_elements(a_scale), f64_elements(b_scale));
    let blocks = *a_scale.shape.last().expect("scales are matrices") as usize;
    for (i, x) in x.iter_mut().enumerate() {
        *x *= x_scale[i / k * blocks + i % k * blocks / k];
    }
    for (i, y) in y.iter_mut().enumerate() {
        let (matrix, row, column) = (i / (k * n), i / n % k, i % n);
        *y *= y_scale[matrix * blocks * n + row * blocks / k * n + column];
    }
    debug_assert_eq!(x.len(), batch * m * k);
    let mut accumulators = f64_elements(acc);
    matmul(&extents, &x, &y, &mut accumulators);
    accumulator_tile(acc, Scalar::F64, ElementWords::W64(accumulators.into_iter().map(f64::to_bits).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core_dialect::tile::Shape;

    fn tile(shape: &[u32], ty: Scalar, value: impl Fn(usize) -> f64) -> Tile {
        let encode = |value| numerics::float::encode(ty, value, Rounding::NearestEven, numerics::float::OverflowResult::Ieee);
        let count = core_dialect::tile::element_count(shape);
        Tile::new(Shape::from_slice(shape), Elem::Scalar(ty), ElementWords::collect(ty, (0..count).map(|i| encode(value(i)))))
    }
    fn values(x: &Tile) -> Vec<f64> {
        x.element_words().iter().map(|bits| numerics::float::decode(x.carrier(), bits)).collect()
    }

    #[test]
    fn batched_mma_computes_every_matrix() {
        let a = tile(&[2, 2, 4], Scalar::F16, |i| i as f64);
        let b = tile(&[2, 4, 2], Scalar::F16, |i| (i % 3) as f64);
        let acc = tile(&[2, 2, 2], Scalar::F32, |i| i as f64 * 100.0);
        let result = values(&float_mma(&a, &b, &acc));
        for (i, result) in result.into_iter().enumerate() {
            let (matrix, m, n) = (i / 4, i / 2 % 2, i % 2);
            let sum: usize = (0..4).map(|k| (matrix * 8 + m * 4 + k) * ((matrix * 8 + k * 2 + n) % 3)).sum();
            assert_eq!(result, (i * 100 + sum) as f64);
        }
    }

    /// The extents are not multiples of a block, so the test covers the elements in full blocks and the remaining elements.
    #[test]
    fn every_element_is_accumulated_in_order() {
        let (m, n, k) = (7usize, 75usize, 5usize);
        let value = |i: usize| (i * 7919 % 1000) as f32 / 3.0 - 100.0;
        let (a, b): (Vec<f32>, Vec<f32>) = ((0..2 * m * k).map(value).collect(), (0..2 * k * n).map(|i| value(i + 5)).collect());
        let mut c: Vec<f32> = (0..2 * m * n).map(|i| value(i + 3)).collect();
        let mut expected = c.clone();
        for (i, sum) in expected.iter_mut().enumerate() {
            let (matrix, row, column) = (i / (m * n), i / n % m, i % n);
            for k_index in 0..k {
                *sum += a[(matrix * m + row) * k + k_index] * b[(matrix * k + k_index) * n + column];
            }
        }
        matmul(&MmaExtents { batch: 2, m, n, k }, &a, &b, &mut c);
        assert_eq!(c, expected);
    }

    /// With a rounding after each product, the sum would stay at 2048.
    #[test]
    fn an_f16_accumulator_is_rounded_once_at_the_end() {
        let a = tile(&[1, 4], Scalar::F16, |_| 1.0);
        let b = tile(&[4, 1], Scalar::F16, |_| 1.0);
        let acc = tile(&[1, 1], Scalar::F16, |_| 2048.0);
        assert_eq!(values(&float_mma(&a, &b, &acc)), [2052.0]);
    }

    /// The lower half of a byte comes first along K. K is the last dimension of the left operand and the first dimension of the
    /// right operand.
    #[test]
    fn scaled_mma_unpacks_bytes_into_pairs_of_f4() {
        let bytes = |data: &[u8], shape: [u32; 2]| {
            Tile::new(Shape::from_slice(&shape), Elem::Scalar(Scalar::I8), ElementWords::W8(data.to_vec()))
        };
        let one = |shape: [u32; 2]| tile(&shape, Scalar::F8E4M3FN, |_| 1.0);
        // Bytes decode to 1, 2, 3, 4 on the left. On the right, the first column is 6, 0.5, 1.5, -1 and the second is 0, 1, 0, 0.
        let (a, b) = (bytes(&[0x42, 0x65], [1, 2]), bytes(&[0x17, 0x20, 0xa3, 0x00], [2, 2]));
        let acc = tile(&[1, 2], Scalar::F32, |_| 0.0);
        let result = values(&scaled_mma(&a, &b, &acc, &one([1, 1]), &one([1, 2])));
        assert_eq!(result, [6.0 + 1.0 + 4.5 - 4.0, 2.0]);
    }

    #[test]
    fn integer_operands_have_separate_signedness_and_wrap() {
        let bytes = |values: [u8; 2], shape: [u32; 2]| {
            Tile::new(Shape::from_slice(&shape), Elem::Scalar(Scalar::I8), ElementWords::W8(values.to_vec()))
        };
        let acc = Tile::splat(Shape::from_slice(&[1, 1]), Elem::Scalar(Scalar::I32), 0x7fff_ffff);
        let (a, b) = (bytes([255, 2], [1, 2]), bytes([255, 3], [2, 1]));
        let mma = |a_sign, b_sign| int_mma(&a, a_sign, &b, b_sign, &acc).first_signed();
        assert_eq!(mma(Signedness::Signed, Signedness::Signed), i64::from(i32::MAX.wrapping_add(1 + 6)));
        assert_eq!(mma(Signedness::Unsigned, Signedness::Signed), i64::from(i32::MAX) - 255 + 6);
        assert_eq!(mma(Signedness::Unsigned, Signedness::Unsigned), i64::from(i32::MAX.wrapping_add(255 * 255 + 6)));
    }

    #[test]
    fn each_block_of_k_has_its_scale() {
        let a = tile(&[1, 4], Scalar::F4E2M1FN, |_| 1.5);
        let b = tile(&[4, 2], Scalar::F4E2M1FN, |_| 2.0);
        let acc = tile(&[1, 2], Scalar::F32, |_| 1.0);
        let a_scale = tile(&[1, 2], Scalar::F8E8M0FNU, |i| [1.0, 0.25][i]);
        let b_scale = tile(&[2, 2], Scalar::F8E8M0FNU, |i| [1.0, 2.0, 4.0, 8.0][i]);
        let result = values(&scaled_mma(&a, &b, &acc, &a_scale, &b_scale));
        assert_eq!(result, [1.0 + 2.0 * 3.0 + 2.0 * 3.0, 1.0 + 2.0 * 3.0 * 2.0 + 2.0 * 3.0 * 2.0]);
    }
}
