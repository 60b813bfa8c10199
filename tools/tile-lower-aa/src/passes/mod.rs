//! The passes that run after the conversion to `.aa`, in order. At O0, only [`CHECK_BOUNDS`], if requested, and [`RECORD`] run.

mod check_bounds;
mod dead;
mod duplicates;
mod edit;
mod extents;
mod facts;
mod fold;
mod hoist;
mod induction;
mod promise;
mod shrink;
mod structure_exits;
#[cfg(test)]
mod tests;
mod version_clamps;

use base::File;
use base::diag::Result;
use base::envelope::{Category, LogEntry, Outcome};
use common::Pass;
use tileaa::{Function, Module};

/// The optimisation passes, in the order in which they run from O1 on.
pub const PASSES: &[Pass<File<Module>>] = &[
    Pass { name: "structure-exits", run: |file| run_on_functions(file, "structure-exits", "Structured", structure_exits::run) },
    Pass { name: "fold", run: |file| run_on_functions(file, "fold", "Folded", fold::run) },
    Pass { name: "hoist", run: |file| run_on_functions(file, "hoist", "Hoisted", hoist::run) },
    Pass { name: "induction", run: |file| run_on_functions(file, "induction", "Counted", induction::run) },
    Pass { name: "use-facts", run: |file| run_on_functions(file, "use-facts", "Decided", facts::run) },
    Pass { name: "shrink", run: |file| run_on_functions(file, "shrink", "Shrunk", shrink::run) },
    Pass { name: "refold", run: |file| run_on_functions(file, "refold", "Folded", fold::run) },
    Pass { name: "duplicates", run: |file| run_on_functions(file, "duplicates", "Shared", duplicates::run) },
    Pass { name: "hoist-rest", run: |file| run_on_functions(file, "hoist-rest", "Hoisted", hoist::run) },
    Pass { name: "version-clamps", run: |file| run_on_functions(file, "version-clamps", "Versioned", version_clamps::run) },
    Pass { name: "promise", run: |file| run_on_functions(file, "promise", "CannotWrap", promise::run) },
    Pass { name: "dead", run: |file| run_on_functions(file, "dead", "Removed", dead::run) },
];

/// The pass of `--check-bounds`, which runs before optimisation.
pub const CHECK_BOUNDS: &[Pass<File<Module>>] = &[Pass { name: "check-bounds", run: check_bounds::run }];

/// The pass that writes each function's table of derived facts, such as value ranges and divisors. The pass runs last, because the
/// table refers to value ids, which other passes change.
pub const RECORD: &[Pass<File<Module>>] = &[Pass { name: "facts", run: record_facts }];

fn record_facts(file: &mut File<Module>) -> Result<()> {
    for function in &mut file.payload.functions {
        function.attrs.facts = tileaa::facts::derive_table(function);
    }
    Ok(())
}

/// Runs a pass on every function and logs the number of changes.
fn run_on_functions(file: &mut File<Module>, pass: &str, name: &str, run: fn(&mut Function) -> usize) -> Result<()> {
    for function in &mut file.payload.functions {
        let count = run(function);
        if count > 0 {
            file.envelope.log.push(LogEntry {
                pass: pass.into(),
                outcome: Outcome::Passed,
                name: name.into(),
                category: Category::Other,
                message: format!("{count} change{}", if count == 1 { "" } else { "s" }),
                function: function.name.clone(),
                loc: function.loc,
            });
        }
    }
    Ok(())
}
