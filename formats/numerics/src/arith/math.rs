//! `f64` functions that the host's library lacks or defines differently.

/// The larger value. If one operand is NaN, the result is NaN if `propagate_nan` is set, and else the other operand. +0 is
/// larger than -0.
#[inline(always)]
pub(super) fn max(a: f64, b: f64, propagate_nan: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return match (propagate_nan, a.is_nan()) {
            (true, _) => f64::NAN,
            (false, true) => b,
            (false, false) => a,
        };
    }
    if a > b || (a == b && a.is_sign_positive()) { a } else { b }
}

/// `x` raised to an integer power. The power is rounded to `f64`, but its parity stays exact, so the sign of the result is right.
pub(super) fn powi(x: f64, power: i64) -> f64 {
    let magnitude = x.abs().powf(power as f64);
    if x.is_sign_negative() && power & 1 == 1 { -magnitude } else { magnitude }
}
