//! Launch-time expressions over the parameters of a kernel.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cell::Cell;

/// Maximum nesting depth of an expression. The limit prevents a stack overflow on a malicious file.
const MAX_DEPTH: usize = 64;
/// The error message for an expression that is nested deeper than [`MAX_DEPTH`].
const TOO_DEEP: &str = "an expression is nested too deeply";

/// A number that is computed from a kernel's parameters at launch, in wrapping 64-bit arithmetic.
// With `remote = "Self"`, serde derives inherent functions. The trait implementations below call these functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Expr {
    Const(i64),
    /// The visible parameter of the kernel with this index. Integer parameters are sign-extended to 64 bits.
    Param(u32),
    Sum(Box<Expr>, Box<Expr>),
    Product(Box<Expr>, Box<Expr>),
    /// The signed minimum.
    Min(Box<Expr>, Box<Expr>),
    /// The signed maximum.
    Max(Box<Expr>, Box<Expr>),
    /// Division by a non-zero constant, rounded up. A negative dividend counts as zero.
    CeilDiv(Box<Expr>, u32),
    /// The bitwise OR.
    Or(Box<Expr>, Box<Expr>),
    ShiftLeft(Box<Expr>, u32),
    /// A logical shift.
    ShiftRight(Box<Expr>, u32),
    /// 1 if the operand, as an unsigned number, is at least the constant; otherwise 0.
    AtLeast(Box<Expr>, u64),
}

/// Constructors of expressions. An operation on constants becomes a constant. If an operand is neutral (`x + 0`, `x * 1`), the
/// result is the other operand.
impl Expr {
    pub fn sum(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => Expr::Const(a.wrapping_add(b)),
            (a, Expr::Const(0)) | (Expr::Const(0), a) => a,
            (a, b) => Expr::Sum(a.into(), b.into()),
        }
    }
    pub fn product(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => Expr::Const(a.wrapping_mul(b)),
            (a, Expr::Const(1)) | (Expr::Const(1), a) => a,
            (a, b) => Expr::Product(a.into(), b.into()),
        }
    }
    /// Returns an expression for the larger one of this expression and `least`.
    pub fn max(self, least: i64) -> Expr {
        match self {
            Expr::Const(a) => Expr::Const(a.max(least)),
            a => Expr::Max(a.into(), Expr::Const(least).into()),
        }
    }
    pub(crate) fn or(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => Expr::Const(a | b),
            (a, Expr::Const(0)) | (Expr::Const(0), a) => a,
            (a, b) => Expr::Or(a.into(), b.into()),
        }
    }
    pub(crate) fn shift_left(self, amount: u32) -> Expr {
        match self {
            Expr::Const(a) => Expr::Const(a << amount),
            a if amount == 0 => a,
            a => Expr::ShiftLeft(a.into(), amount),
        }
    }
    pub(crate) fn shift_right(self, amount: u32) -> Expr {
        match self {
            Expr::Const(a) => Expr::Const((a as u64 >> amount) as i64),
            a => Expr::ShiftRight(a.into(), amount),
        }
    }

    /// Returns the operands that are expressions, without constants such as a shift amount.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Expr::Const(_) | Expr::Param(_) => Vec::new(),
            Expr::Sum(a, b) | Expr::Product(a, b) | Expr::Min(a, b) | Expr::Max(a, b) | Expr::Or(a, b) => vec![a, b],
            Expr::CeilDiv(a, _) | Expr::ShiftLeft(a, _) | Expr::ShiftRight(a, _) | Expr::AtLeast(a, _) => vec![a],
        }
    }

    /// Checks the nesting depth, parameter indices, divisors and shift amounts. `params` is the number of visible parameters.
    pub fn check(&self, params: usize) -> Result<(), String> {
        self.check_at(params, 0)
    }

    /// Does the same as [`Expr::check`] for an operand at a nesting depth.
    fn check_at(&self, params: usize, depth: usize) -> Result<(), String> {
        match self {
            _ if depth > MAX_DEPTH => return Err(TOO_DEEP.into()),
            Expr::Param(index) if *index as usize >= params => return Err(format!("there is no parameter {index}")),
            Expr::CeilDiv(_, 0) => return Err("an expression divides by zero".into()),
            Expr::ShiftLeft(_, amount) | Expr::ShiftRight(_, amount) if *amount > 63 => {
                return Err(format!("an expression shifts by {amount} bits"));
            }
            _ => {}
        }
        self.operands().into_iter().try_for_each(|operand| operand.check_at(params, depth + 1))
    }

    /// Evaluates the expression, which must have passed [`Expr::check`] with the number of `params`.
    pub fn eval(&self, params: &[i64]) -> i64 {
        let operand = |expr: &Expr| expr.eval(params);
        match self {
            Expr::Const(value) => *value,
            Expr::Param(index) => params[*index as usize],
            Expr::Sum(a, b) => operand(a).wrapping_add(operand(b)),
            Expr::Product(a, b) => operand(a).wrapping_mul(operand(b)),
            Expr::Min(a, b) => operand(a).min(operand(b)),
            Expr::Max(a, b) => operand(a).max(operand(b)),
            Expr::CeilDiv(a, divisor) => (operand(a).max(0) as u64).div_ceil(u64::from(*divisor)) as i64,
            Expr::Or(a, b) => operand(a) | operand(b),
            Expr::ShiftLeft(a, amount) => operand(a) << amount,
            Expr::ShiftRight(a, amount) => (operand(a) as u64 >> amount) as i64,
            Expr::AtLeast(a, least) => i64::from(operand(a) as u64 >= *least),
        }
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Expr::serialize(self, serializer)
    }
}

thread_local! {
    /// The nesting depth of the expression that this thread is deserializing.
    static NESTING_DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Rejects expressions that are nested deeper than [`MAX_DEPTH`]. Reason: a file may be malicious, and the binary codec has no
/// depth limit.
impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expr, D::Error> {
        let depth = NESTING_DEPTH.get();
        if depth > MAX_DEPTH {
            return Err(de::Error::custom(TOO_DEEP));
        }
        NESTING_DEPTH.set(depth + 1);
        let result = Expr::deserialize(deserializer);
        NESTING_DEPTH.set(depth);
        result
    }
}
