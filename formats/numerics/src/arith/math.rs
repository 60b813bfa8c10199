//! `f64` functions that the host's library lacks or defines differently.

/// Returns the larger value; +0 is larger than -0. If one operand is NaN, returns NaN if `propagate_nan` is set, and otherwise the
/// other operand.
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

/// Returns `x` raised to an integer power. `f64` cannot represent every `i64`, so the power is rounded to `f64`. The sign of the
/// result is computed from the exact power.
pub(super) fn powi(x: f64, power: i64) -> f64 {
    let magnitude = x.abs().powf(power as f64);
    if x.is_sign_negative() && power & 1 == 1 { -magnitude } else { magnitude }
}
