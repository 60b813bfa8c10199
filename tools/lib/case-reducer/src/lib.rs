//! Test-case reduction for Tile IR programs. It removes functions and globals, then ops, then the regions of ops, and then
//! simplifies extents and types. It repeats these steps until the program does not become smaller.
//!
//! Every candidate is a verified program. The caller's predicate decides whether a candidate is still interesting: `tile-fuzz`
//! checks whether the stages still disagree, and `tile-reduce` runs a command.

mod literals;
mod ops;

use base::{DebugInfo, Envelope, Payload};
use tileir::Module;

/// A program with the source locations of its ops.
#[derive(Clone)]
pub struct Program {
    pub module: Module,
    pub debug: DebugInfo,
}

impl Program {
    /// Returns the program's size: the length of its text in bytes.
    pub fn size(&self) -> usize {
        tileir::text::print(&self.module, None).len()
    }

    /// Returns whether the program passes the verifier.
    fn is_valid(&self) -> bool {
        let mut envelope = Envelope::new::<Module>(tileir::import::PHASE, "case_reducer", &[]);
        envelope.debug = self.debug.clone();
        self.module.verify(&envelope).is_ok()
    }
}

/// Returns the smallest program found for which `is_interesting` is true. `is_interesting` must be true for the input.
pub fn reduce(program: Program, is_interesting: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program;
    loop {
        let size_before = best.size();
        for shrink in [remove_functions, ops::remove_chunks, ops::inline_all_regions, literals::shrink_literals] {
            shrink(&mut best, is_interesting);
        }
        if best.size() >= size_before {
            return best;
        }
    }
}

/// Replaces the best program by a candidate if the candidate is valid and still interesting. Returns whether the
/// function replaced the program.
fn accept_if_interesting(best: &mut Program, candidate: Program, is_interesting: &mut dyn FnMut(&Program) -> bool) -> bool {
    let accepted = candidate.is_valid() && is_interesting(&candidate);
    if accepted {
        *best = candidate;
    }
    accepted
}

/// Tries to remove each function and each global. At least one function remains.
fn remove_functions(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    for index in (0..best.module.functions.len()).rev() {
        let mut candidate = best.clone();
        candidate.module.functions.remove(index);
        if !candidate.module.functions.is_empty() {
            accept_if_interesting(best, candidate, is_interesting);
        }
    }
    for index in (0..best.module.globals.len()).rev() {
        let mut candidate = best.clone();
        candidate.module.globals.remove(index);
        accept_if_interesting(best, candidate, is_interesting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = r#"cuda_tile.module @m {
entry @other() {
return
}
entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
%x = constant <f64: 2.0> : tile<64x32xf64>
for %i in (%c0 to %n, step %c1) : tile<i32> {
%y = exp %x : tile<64x32xf64>
%z = sqrt %y : tile<64x32xf64>
continue
}
%a = addi %n, %n : tile<i32>
return
}
}
"#;

    #[test]
    fn reduction_removes_ops_functions_and_extents_that_the_predicate_ignores() {
        let mut debug = DebugInfo::default();
        let module = tileir::text::parse(PROGRAM, "test", 1, &mut debug).unwrap();
        let mut predicate_calls = 0;
        let reduced = reduce(Program { module, debug }, &mut |program| {
            predicate_calls += 1;
            tileir::text::print(&program.module, None).contains("= sqrt ")
        });
        let text = tileir::text::print(&reduced.module, None);
        for removed_text in ["other", "exp", "for ", "addi", "64", "f64"] {
            assert!(!text.contains(removed_text), "{removed_text} is still there:\n{text}");
        }
        assert!(predicate_calls < 200, "{predicate_calls}");
    }
}
