//! Matrix products. The sum over k runs in order from the accumulator, in f32 for floats below f64 (each product and each sum
//! rounded), and is rounded once to a narrower accumulator at the end; integers wrap.

use super::Tile;
use base::Scalar;
use base::arith::{Convert, Lanes, Rounding, Signedness};
use base::tile::Elem;

/// Extents of a product, with a batch of 1 where the tiles are two-dimensional.
struct Extents {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

fn extents(a: &Tile, b: &Tile) -> Extents {
    let rank = a.shape.len();
    let batch = if rank == 3 { a.shape[0] as usize } else { 1 };
    Extents { batch, m: a.shape[rank - 2] as usize, k: a.shape[rank - 1] as usize, n: b.shape[rank - 1] as usize }
}

/// What a sum is made of.
trait Term: Copy {
    fn add_product(self, a: Self, b: Self) -> Self;
}
impl Term for f32 {
    #[inline(always)]
    fn add_product(self, a: f32, b: f32) -> f32 {
        self + a * b
    }
}
impl Term for f64 {
    #[inline(always)]
    fn add_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
}
impl Term for i32 {
    #[inline(always)]
    fn add_product(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// `c += a b` for each matrix of the batch.
fn multiply<T: Term>(extents: &Extents, a: &[T], b: &[T], c: &mut [T]) {
    let Extents { batch, m, n, k } = *extents;
    for matrix in 0..batch {
        let (a, b, c) = (&a[matrix * m * k..][..m * k], &b[matrix * k * n..][..k * n], &mut c[matrix * m * n..][..m * n]);
        for (row, sums) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
            for (x, factors) in row.iter().zip(b.chunks_exact(n)) {
                for (sum, y) in sums.iter_mut().zip(factors) {
                    *sum = sum.add_product(*x, *y);
                }
            }
        }
    }
}

fn floats(x: &Tile) -> Vec<f32> {
    let Lanes::W32(words) = widened(x, Scalar::F32) else { unreachable!("f32 is held in 32 bits") };
    words.into_iter().map(f32::from_bits).collect()
}

fn doubles(x: &Tile) -> Vec<f64> {
    let Lanes::W64(words) = widened(x, Scalar::F64) else { unreachable!("f64 is held in 64 bits") };
    words.into_iter().map(f64::from_bits).collect()
}

fn widened(x: &Tile, to: Scalar) -> Lanes {
    match x.carrier() == to {
        true => x.lanes().clone(),
        false => Convert::FToF { rounding: Rounding::NearestEven }.along(x.carrier(), to, x.lanes()),
    }
}

/// A tile of f32 or f64 words as the accumulator's type, with NaN made canonical.
fn narrowed(acc: &Tile, from: Scalar, words: Lanes) -> Tile {
    let lanes = Convert::FToF { rounding: Rounding::NearestEven }.along(from, acc.carrier(), &words);
    Tile::new(acc.shape.clone(), acc.elem, lanes)
}

pub(crate) fn float_product(a: &Tile, b: &Tile, acc: &Tile) -> Tile {
    let extents = extents(a, b);
    if acc.carrier() == Scalar::F64 {
        let mut sums = doubles(acc);
        multiply(&extents, &doubles(a), &doubles(b), &mut sums);
        return narrowed(acc, Scalar::F64, Lanes::W64(sums.into_iter().map(f64::to_bits).collect()));
    }
    let mut sums = floats(acc);
    multiply(&extents, &floats(a), &floats(b), &mut sums);
    narrowed(acc, Scalar::F32, Lanes::W32(sums.into_iter().map(f32::to_bits).collect()))
}

pub(crate) fn int_product(a: &Tile, a_sign: Signedness, b: &Tile, b_sign: Signedness, acc: &Tile) -> Tile {
    let mut sums = integers(acc, Signedness::Signed);
    multiply(&extents(a, b), &integers(a, a_sign), &integers(b, b_sign), &mut sums);
    let lanes = Lanes::W32(sums.into_iter().map(|sum| sum as u32).collect());
    Tile::new(acc.shape.clone(), Elem::Scalar(Scalar::I32), lanes)
}

fn integers(x: &Tile, signedness: Signedness) -> Vec<i32> {
    let value = |bits| if signedness == Signedness::Signed { x.carrier().sign_extend(bits) as i32 } else { bits as i32 };
    x.lanes().iter().map(value).collect()
}

/// A product whose operands have a scale for each block of `k` (of `a`: rows by blocks, of `b`: blocks by columns). A scaled
/// element can lie outside f32, so the sum is made in f64.
pub(crate) fn scaled_product(a: &Tile, b: &Tile, acc: &Tile, a_scale: &Tile, b_scale: &Tile) -> Tile {
    let extents = extents(a, b);
    let Extents { batch, m, n, k } = extents;
    let (mut x, mut y) = (doubles(a), doubles(b));
    let (x_scale, y_scale) = (doubles(a_scale), doubles(b_scale));
    let blocks = *a_scale.shape.last().expect("scales are matrices") as usize;
    for (i, x) in x.iter_mut().enumerate() {
        *x *= x_scale[i / k * blocks + i % k * blocks / k];
    }
    for (i, y) in y.iter_mut().enumerate() {
        let (matrix, row, column) = (i / (k * n), i / n % k, i % n);
        *y *= y_scale[matrix * blocks * n + row * blocks / k * n + column];
    }
    debug_assert_eq!(x.len(), batch * m * k);
    let mut sums = doubles(acc);
    multiply(&extents, &x, &y, &mut sums);
    narrowed(acc, Scalar::F64, Lanes::W64(sums.into_iter().map(f64::to_bits).collect()))
}
