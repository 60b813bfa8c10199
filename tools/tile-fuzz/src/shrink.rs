//! Shrinks a failing program while it fails in the same way.

use crate::program::Program;
use base::DebugInfo;
use differential::{Bench, Outcome};
use std::path::Path;

/// What stays the same of a message: the stage, and what goes wrong there, without numbers.
fn kind(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

pub(crate) fn shrink(mut program: Program, message: &str, bench: &Bench, folder: &Path) -> Program {
    let wanted = kind(message);
    // A smaller program leaves something else.
    program.outputs.iter_mut().for_each(|output| output.expected = None);
    let start = case_reducer::Program { module: program.module.clone(), debug: DebugInfo::default() };
    let small = case_reducer::reduce(start, &mut |candidate| {
        program.module = candidate.module.clone();
        // A candidate that needs other buffers than the launch has fails in another way.
        let outcome = program.compare(bench, folder);
        matches!(outcome, Ok(Outcome::Wrong(message) | Outcome::Unfinished(message)) if kind(&message) == wanted)
    });
    program.module = small.module;
    program
}
