//! Ops with effects outside the kernel (`print`, `assert`), and checks of `--check` for assumptions and divisors.

use super::{Env, Results};
use crate::check::assume;
use crate::check_kind::Check;
use crate::print;
use crate::tile::Tile;
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::{DebugInfo, Loc, Value as Id};
use core_dialect::core_ops::Fact;
use smallvec::smallvec;

/// Executes a `print` and returns its token.
pub(crate) fn print(format: &str, args: &[Tile], token: Option<Id>, env: &mut Env<'_>) -> Result<Results> {
    let text = print::format(format, &args.iter().collect::<Vec<_>>())?;
    env.state.printed.push_str(&text);
    Ok(smallvec![Value::Token(env.token(token))])
}

/// Executes an `assert`. If an element is false, prints the message, the tile block and the first false element, as a device does,
/// and stops the kernel. Several false elements of a tile cause one error.
pub(crate) fn assert(condition: &Tile, message: &str, debug: &DebugInfo, loc: Loc, env: &mut Env<'_>) -> Result<Results> {
    if condition.element_words().iter().all(|bits| bits & 1 == 1) {
        return Ok(Results::new());
    }
    let position = debug.position(loc).map_or("unknown".into(), |(file, line, _)| format!("{file}:{line}"));
    let (first, others) = print::failed_assert(condition, message, env.state.block_position.index);
    let text = format!("{position}: {first}");
    env.state.printed.push_str(&format!("{text}\n"));
    let error = Diagnostic::invalid("RUN040", text);
    Err(if others == 0 { error } else { error.note(format!("{others} more elements of the tile fail too")) })
}

/// Executes a `check_index`. If an index is out of range, prints the first such index with its tile block and the extent, and stops
/// the kernel. The index `i64::MIN` marks an element without an access, so the check ignores it.
pub(crate) fn check_index(
    index: &Tile,
    extent: &Tile,
    message: &str,
    debug: &DebugInfo,
    loc: Loc,
    env: &mut Env<'_>,
) -> Result<Results> {
    let extent = extent.element_words().get(0) as i64;
    let element_words = index.element_words();
    let mut outside =
        element_words.iter().map(|bits| bits as i64).filter(|index| *index != i64::MIN && !(0..extent).contains(index));
    let Some(first) = outside.next() else { return Ok(Results::new()) };
    let position = debug.position(loc).map_or("unknown".into(), |(file, line, _)| format!("{file}:{line}"));
    let block = env.state.block_position.index;
    let message = format!("{position}: tile block: {block:?}: {message}: index {first}, extent {extent}");
    let others = outside.count();
    env.state.printed.push_str(&format!("{message}\n"));
    let error = Diagnostic::invalid("RUN040", message);
    Err(if others == 0 { error } else { error.note(format!("{others} more elements of the tile fail too")) })
}

/// Reports an integer division by zero, with `--check=divide`. Reason: the result differs between targets.
pub(crate) fn check_divisor(divisor: Id, loc: Loc, env: &mut Env<'_>) {
    if env.kernel_memory.checks(Check::Divide) && env.tile(divisor).element_words().iter().any(|bits| bits == 0) {
        env.kernel_memory.report(Check::Divide, loc, "an integer is divided by zero".into());
    }
}

/// Executes an `assume`: returns the value unchanged. `--check=assume` reports an assumption that is false.
pub(crate) fn assume(value: Id, fact: impl FnOnce() -> Option<Fact>, loc: Loc, env: &mut Env<'_>) -> Result<Results> {
    let assumed = env.value(value).clone();
    if env.kernel_memory.checks(Check::Assume)
        && let (Value::Tile(tile), Some(fact)) = (&assumed, fact())
        && let Some(violation) = assume::violation(&fact, tile)
    {
        env.kernel_memory.report(Check::Assume, loc, format!("an assumption does not hold: {violation}"));
    }
    Ok(smallvec![assumed])
}
