//! Reduces a failing program. Invariant: each accepted candidate fails with the same kind of message as the original program.

use crate::program::Program;
use base::DebugInfo;
use differential::{Outcome, StageRunner};
use std::path::Path;

/// Returns the part of a message that identifies the failure: its first 60 characters other than digits.
fn failure_kind(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

/// Returns a smaller program that fails like `program`. `message` is the message of the failure that each smaller program must
/// reproduce.
pub(crate) fn shrink(mut program: Program, message: &str, runner: &StageRunner, folder: &Path) -> Program {
    let original_kind = failure_kind(message);
    // The expected results are those of the original program. A candidate may have different results.
    program.outputs.iter_mut().for_each(|output| output.expected = None);
    let original_program = case_reducer::Program { module: program.module.clone(), debug: DebugInfo::default() };
    let reduced = case_reducer::reduce(original_program, &mut |candidate| {
        program.module = candidate.module.clone();
        // A candidate whose parameters do not match the launch fails with another message.
        let outcome = program.compare(runner, folder);
        matches!(outcome, Ok(Outcome::Wrong(message) | Outcome::Unfinished(message)) if failure_kind(&message) == original_kind)
    });
    program.module = reduced.module;
    program
}
